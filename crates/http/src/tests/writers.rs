//! What is written: heads, chunked bodies from any offset, dates; and what is refused.

use proptest::prelude::*;

use super::*;
use crate::{
    After, BodyLength, ChunkedBody, Connection, Field, Framing, Invalid, Method, OutgoingRequest,
    OutgoingResponse, http_date,
};

const REQUEST: OutgoingRequest<'_> = OutgoingRequest {
    method: "GET",
    target: "/index.html",
    host: "10.0.2.9",
    length: BodyLength::None,
    connection: Connection::Unsaid,
    fields: &[],
};

const RESPONSE: OutgoingResponse<'_> = OutgoingResponse {
    status: 200,
    length: BodyLength::Bytes(1000),
    connection: Connection::Unsaid,
    date_s: None,
    fields: &[],
};

#[test]
fn request_heads() {
    assert_eq!(REQUEST.encode().unwrap(), b"GET /index.html HTTP/1.1\r\nHost: 10.0.2.9\r\n\r\n");
    let fields = [Field { name: "User-Agent", value: "wirebeat" }, Field { name: "X", value: "" }];
    let post = OutgoingRequest {
        method: "POST",
        length: BodyLength::Bytes(7),
        connection: Connection::Close,
        fields: &fields,
        ..REQUEST
    };
    assert_eq!(
        String::from_utf8(post.encode().unwrap()).unwrap(),
        "POST /index.html HTTP/1.1\r\nHost: 10.0.2.9\r\nContent-Length: 7\r\nConnection: close\r\nUser-Agent: wirebeat\r\nX: \r\n\r\n"
    );
    let chunked = OutgoingRequest { length: BodyLength::Chunked, ..post }.encode().unwrap();
    let head = request_head(&requests(&chunked));
    assert_eq!(
        (head.method, head.framing, head.after),
        (Method::Post, Framing::Chunked, After::Close)
    );
}

#[test]
fn response_heads() {
    assert_eq!(RESPONSE.encode().unwrap(), b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    let dated = OutgoingResponse {
        status: 599,
        length: BodyLength::Chunked,
        connection: Connection::KeepAlive,
        date_s: Some(784_111_777),
        fields: &[Field { name: "Server", value: "wirebeat" }],
    };
    assert_eq!(
        String::from_utf8(dated.encode().unwrap()).unwrap(),
        "HTTP/1.1 599 \r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\nServer: wirebeat\r\n\r\n"
    );
    let closing = OutgoingResponse { length: BodyLength::UntilClose, ..RESPONSE };
    assert_eq!(closing.encode().unwrap(), b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    let interim = OutgoingResponse { status: 100, length: BodyLength::None, ..RESPONSE };
    assert_eq!(interim.encode().unwrap(), b"HTTP/1.1 100 Continue\r\n\r\n");
}

/// RFC 9110 §8.6, RFC 9112 §6.1.
#[test]
fn lengths_that_do_not_fit_are_refused() {
    for (status, length) in [
        (100, BodyLength::Bytes(0)),
        (204, BodyLength::Bytes(0)),
        (204, BodyLength::Chunked),
        (204, BodyLength::UntilClose),
        (304, BodyLength::Chunked),
        (304, BodyLength::UntilClose),
    ] {
        let response = OutgoingResponse { status, length, ..RESPONSE };
        assert_eq!(response.encode(), Err(Invalid::LengthOfStatus(status)), "{length:?}");
    }
    for status in [0, 99, 600, 1000] {
        assert_eq!(OutgoingResponse { status, ..RESPONSE }.encode(), Err(Invalid::Status(status)));
    }
    let kept = OutgoingResponse {
        length: BodyLength::UntilClose,
        connection: Connection::KeepAlive,
        ..RESPONSE
    };
    assert_eq!(kept.encode(), Err(Invalid::UntilClose));
    let request = OutgoingRequest { length: BodyLength::UntilClose, ..REQUEST };
    assert_eq!(request.encode(), Err(Invalid::UntilClose));
}

#[test]
fn what_a_user_gives_is_checked() {
    for method in ["", "G T", "GET\r\n", "G\u{e9}T"] {
        assert_eq!(
            OutgoingRequest { method, ..REQUEST }.encode(),
            Err(Invalid::Method(method.into()))
        );
    }
    for target in ["", "/a b", "/a\r\nX: y", "/\u{fc}", "/\0"] {
        assert_eq!(
            OutgoingRequest { target, ..REQUEST }.encode(),
            Err(Invalid::Target(target.into()))
        );
    }
    for host in ["a\r\nX: y", "a b", "a/b", "u@h"] {
        assert_eq!(OutgoingRequest { host, ..REQUEST }.encode(), Err(Invalid::Host(host.into())));
    }
    let fine = Field { name: "X", value: "a\tb \u{fc}" };
    let with = |name, value| {
        OutgoingRequest { fields: &[fine, Field { name, value }], ..REQUEST }.encode()
    };
    assert!(with("Y", "").is_ok());
    for name in ["", "X Y", "X:", "X\r\nY", "\u{dc}"] {
        assert_eq!(with(name, "y"), Err(Invalid::FieldName { index: 1, name: name.into() }));
    }
    for value in ["a\r\nb", "a\nb", "a\rb", "a\0b", "\x7f", " a", "a ", "\t"] {
        let error = with("Y", value).unwrap_err();
        assert_eq!(error, Invalid::FieldValue { index: 1, name: "Y".into() });
        assert!(error.to_string().starts_with("field 2 (Y): "), "{error}");
    }
    for name in ["Host", "content-length", "TRANSFER-ENCODING", "Connection"] {
        assert_eq!(with(name, "1"), Err(Invalid::FieldReserved { index: 1, name: name.into() }));
    }
    let date = [Field { name: "date", value: "today" }];
    assert!(OutgoingResponse { fields: &date, ..RESPONSE }.encode().is_ok());
    let error = OutgoingResponse { fields: &date, date_s: Some(0), ..RESPONSE }.encode();
    assert_eq!(error, Err(Invalid::FieldReserved { index: 0, name: "date".into() }));
}

/// Values of `date -u -d @SECONDS`.
#[test]
fn dates() {
    for (seconds, date) in [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ] {
        assert_eq!(http_date(seconds), date, "{seconds}");
    }
}

fn payload(offset: u64, into: &mut [u8]) {
    for (byte, offset) in into.iter_mut().zip(offset..) {
        *byte = (offset * 7 + offset / 251) as u8;
    }
}

fn encoded(body: &ChunkedBody) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(body.encoded_len()).unwrap()];
    assert_eq!(body.fill(0, &mut bytes, payload), bytes.len());
    bytes
}

#[test]
fn chunked_bodies() {
    let text = |body_len, chunk_len| {
        let body = ChunkedBody::new(body_len, chunk_len).unwrap();
        let mut bytes = vec![0; usize::try_from(body.encoded_len()).unwrap()];
        let source = b"abcdefghijklmnopqrstuvwxyz";
        body.fill(0, &mut bytes, |at, into| {
            into.copy_from_slice(&source[at as usize..][..into.len()])
        });
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(text(0, 5), "0\r\n\r\n");
    assert_eq!(text(5, 5), "5\r\nabcde\r\n0\r\n\r\n");
    assert_eq!(text(5, u64::MAX), "5\r\nabcde\r\n0\r\n\r\n");
    assert_eq!(text(18, 16), "10\r\nabcdefghijklmnop\r\n2\r\nqr\r\n0\r\n\r\n");
    assert_eq!(text(3, 1), "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n");
    assert_eq!(ChunkedBody::new(5, 0), None);
    assert_eq!(ChunkedBody::new(u64::MAX, 1), None);
    assert_eq!(ChunkedBody::new(u64::MAX, u64::MAX), None);
    let huge = ChunkedBody::new(u64::MAX - 100, 1 << 62).unwrap();
    let mut end = [0; 7];
    assert_eq!(huge.fill(huge.encoded_len() - 7, &mut end, payload), 7);
    assert_eq!(&end, b"\r\n0\r\n\r\n");
    assert_eq!(huge.fill(huge.encoded_len(), &mut end, payload), 0);
    assert_eq!(huge.fill(u64::MAX, &mut end, payload), 0);
}

/// Also the last bytes alone, where chunks are shorter than what stands behind them.
#[test]
fn every_part_of_short_bodies_is_that_of_the_whole() {
    for (body_len, chunk_len) in (0..40).flat_map(|body| (1..20).map(move |chunk| (body, chunk))) {
        let body = ChunkedBody::new(body_len, chunk_len).unwrap();
        let whole = encoded(&body);
        for (offset, len) in (0..=whole.len()).flat_map(|at| [1, 2, 7].map(|len| (at, len))) {
            let mut part = vec![0; len];
            let filled = body.fill(offset as u64, &mut part, payload);
            assert_eq!(part[..filled], whole[offset..whole.len().min(offset + len)]);
        }
    }
}

proptest! {
    /// Any part is what stands at its place in the whole, and our reader finds the body in the whole.
    #[test]
    fn a_chunked_body_is_a_function_of_the_offset(
        body_len in 0_u64..600,
        chunk_len in 1_u64..300,
        offset in 0_usize..5000,
        len in 0_usize..200,
    ) {
        let body = ChunkedBody::new(body_len, chunk_len).unwrap();
        let whole = encoded(&body);
        let offset = offset % (whole.len() + 1);
        let mut part = vec![0; len];
        let filled = body.fill(offset as u64, &mut part, payload);
        prop_assert_eq!(&part[..filled], &whole[offset..whole.len().min(offset + len)]);
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let bytes = [&head[..], &whole].concat();
        let seen = responses_in(&[RequestKind::Other], bytes.chunks(len + 1));
        let mut expected = vec![0; usize::try_from(body_len).unwrap()];
        payload(0, &mut expected);
        prop_assert_eq!(super::body(&seen), expected);
        let message_len = bytes.len() as u64;
        prop_assert_eq!(ends(&seen), [End { message_len, body_len, after: After::Keep }]);
    }

    /// Whatever a user gives, what is encoded reads back as that.
    #[test]
    fn what_is_encoded_reads_back(
        method in "[A-Z\r :]{1,5}",
        target in "[a-z/ \n]{1,8}",
        names in proptest::collection::vec(("[A-Za-z:\r-]{0,4}", "[ -~\r\n\t\u{e9}]{0,6}"), 0..5),
    ) {
        let target = format!("/{target}");
        let fields: Vec<Field<'_>> =
            names.iter().map(|(name, value)| Field { name, value }).collect();
        let request = OutgoingRequest { method: &method, target: &target, fields: &fields, ..REQUEST };
        if let Ok(bytes) = request.encode() {
            let mut rest = &bytes[..];
            let event = RequestReader::new().read(&Limits::default(), &mut rest, |line| {
                assert_eq!((line.method, line.target), (&method[..], &target[..]));
                let read: Vec<_> = line.fields.iter().skip(1).collect();
                let given: Vec<_> =
                    fields.iter().map(|field| (field.name, field.value.as_bytes())).collect();
                assert_eq!(read, given);
            });
            prop_assert!(method == "CONNECT" || matches!(event, Ok(Some(_))), "{:?}", event);
            prop_assert!(rest.is_empty());
        }
    }
}
