//! Responses, in the order of RFC 9112's sections.

use super::*;
use crate::{After, Framing};

fn text(head: &str) -> String {
    head.replace('\n', "\r\n")
}

/// The head of a response to a GET; `fields` have their line ends.
fn head_with(status_line: &str, fields: &str) -> ResponseHead {
    response_head(&response(text(&format!("{status_line}\n{fields}\n")).as_bytes()))
}

/// RFC 9112 §2.2: a line may end with LF alone; CR alone ends none.
#[test]
fn lines_end_with_crlf_or_lf() {
    let seen = response(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab");
    assert_eq!(body(&seen), b"ab");
    let seen = response(b"HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nab");
    assert_eq!(body(&seen), b"ab");
    for invalid in [
        &b"HTTP/1.1 200 OK\rX: y\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\rX: a\r\n\r\n",
    ] {
        assert!(bad(&response(invalid)).is_some(), "{invalid:?}");
    }
}

/// RFC 9112 §2.2 lets a server skip empty lines, not a client.
#[test]
fn a_response_begins_with_its_status_line() {
    for invalid in
        ["\r\nHTTP/1.1 200 OK\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "<html>", "H2", "ICY 200 OK\r\n"]
    {
        assert_eq!(bad(&response(invalid.as_bytes())), Some(Bad::NotHttp), "{invalid}");
    }
}

/// RFC 9112 §2.3, RFC 9110 §2.5.
#[test]
fn versions() {
    assert_eq!(head_with("HTTP/1.1 200 OK", "").minor_version, 1);
    assert_eq!(head_with("HTTP/1.0 200 OK", "").minor_version, 0);
    assert_eq!(head_with("HTTP/1.2 200 OK", "Content-Length: 3\n").framing, Framing::Length(3));
    assert_eq!(head_with("HTTP/1.9 200 OK", "").minor_version, 1);
    for line in ["HTTP/2.0 200 OK", "HTTP/0.9 200 OK", "HTTP/1.10 200 OK", "HTTP/1 200", "HTTP/x"] {
        let seen = response(text(&format!("{line}\n\n")).as_bytes());
        assert_eq!(bad(&seen), Some(Bad::StatusLine), "{line}");
    }
}

/// RFC 9112 §4, RFC 9110 §15.
#[test]
fn status_lines() {
    for (line, status) in [
        ("HTTP/1.1 200 OK", 200),
        ("HTTP/1.1 200 ", 200),
        ("HTTP/1.1 200", 200),
        ("HTTP/1.1 404 Not  Found\t!", 404),
        ("HTTP/1.1 599 \u{fc}", 599),
        ("HTTP/1.1 999 Denied", 999),
    ] {
        assert_eq!(head_with(line, "").status, status, "{line}");
    }
    for line in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 -20 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 200 O\u{1}K",
    ] {
        let seen = response(text(&format!("{line}\n\n")).as_bytes());
        assert_eq!(bad(&seen), Some(Bad::StatusLine), "{line}");
    }
}

/// RFC 9112 §5.1 and §5.2: what a client takes.
#[test]
fn fields_with_spaces_before_the_colon_and_folded_fields_are_read() {
    assert_eq!(head_with("HTTP/1.1 200 OK", "Content-Length : 3\n").framing, Framing::Length(3));
    let folded = head_with("HTTP/1.1 200 OK", "X: a\n  b\nContent-Length:\n 3\n\t\nY: z\n");
    assert_eq!(folded.framing, Framing::Length(3));
    let seen = response(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 3\r\n\r\n");
    assert_eq!(bad(&seen), Some(Bad::ContentLength), "a fold is a space, and 1 3 no number");
    for fields in [" X: y\n", "X y\n", ": y\n", "X\u{e9}: y\n", "X(): y\n"] {
        let seen = response(text(&format!("HTTP/1.1 200 OK\n{fields}\n")).as_bytes());
        assert_eq!(bad(&seen), Some(Bad::FieldName), "{fields}");
    }
    let seen = response(b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n");
    assert_eq!(bad(&seen), Some(Bad::FieldValue));
}

#[test]
fn fields_are_handed_up() {
    let mut bytes = &b"HTTP/1.1 302 Found\r\nLocation:  /a \r\nx: 1\r\nX: 2\r\n\r\n"[..];
    let mut seen = Vec::new();
    let event = ResponseReader::new().read_with(Some(RequestKind::Other), &mut bytes, |fields| {
        assert_eq!(fields.get("LOCATION"), Some(&b"/a"[..]));
        assert_eq!(fields.get("none"), None);
        seen.extend(fields.iter().map(|(name, value)| (name.to_owned(), value.to_vec())));
    });
    assert!(matches!(event, Ok(Some(ResponseEvent::Head(_)))));
    let expected = [("Location", "/a"), ("x", "1"), ("X", "2")];
    assert_eq!(seen, expected.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())));
}

/// RFC 9112 §6.3, rule 1: HEAD, 1xx, 204 and 304 have no body, whatever their fields say.
#[test]
fn responses_without_a_body() {
    let get = RequestKind::Other;
    for (status, kind) in
        [(204, get), (304, get), (200, RequestKind::Head), (404, RequestKind::Head)]
    {
        for fields in
            ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "", "Content-Length: x\r\n"]
        {
            let one = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
            let seen = responses(
                &[kind, get],
                format!("{one}HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz").as_bytes(),
            );
            let head = response_head(&seen);
            assert_eq!((head.framing, head.after), (Framing::None, After::Keep), "{one}");
            assert_eq!(
                head.content_length,
                (fields == "Content-Length: 5\r\n").then_some(5),
                "{one}"
            );
            let message_len = one.len() as u64;
            assert_eq!(ends(&seen)[0], End { message_len, body_len: 0, after: After::Keep });
            assert_eq!(ends(&seen)[1].body_len, 1, "{one}");
        }
    }
}

/// RFC 9110 §15.2: interim responses come before the final one, any number of them.
#[test]
fn interim_responses_leave_the_request_outstanding() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nContent-Length: 7\r\n\r\n";
    let seen = response(
        format!("{interim}{hints}{interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .as_bytes(),
    );
    let lens = [interim, hints, interim].map(|text| text.len() as u64);
    assert_eq!(seen[0], Seen::Interim { status: 100, message_len: lens[0] });
    assert_eq!(seen[1], Seen::Interim { status: 103, message_len: lens[1] });
    assert_eq!(seen[2], Seen::Interim { status: 100, message_len: lens[2] });
    assert_eq!((body(&seen), ends(&seen).len(), seen.len()), (&b"ok"[..], 1, 7));
}

/// RFC 9110 §15.2.2 and §9.3.6: HTTP ends there, and what follows is not touched.
#[test]
fn what_follows_a_tunnel_is_left() {
    for (status, kind) in
        [(101, RequestKind::Other), (200, RequestKind::Connect), (299, RequestKind::Connect)]
    {
        let head = format!("HTTP/1.1 {status} X\r\nUpgrade: echo\r\nContent-Length: 3\r\n\r\n");
        let seen = responses(&[kind, RequestKind::Other], format!("{head}HTTP/1.1").as_bytes());
        assert_eq!(response_head(&seen).framing, Framing::Tunnel);
        let end = End { message_len: head.len() as u64, body_len: 0, after: After::Tunnel };
        assert_eq!(seen[1..], [Seen::End(end), Seen::Left(8), Seen::Finished(Ok(None))]);
    }
    // A refused CONNECT is a response as others are.
    let seen =
        responses(&[RequestKind::Connect], b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!((body(&seen), ends(&seen)[0].after), (&b"no"[..], After::Keep));
}

/// RFC 9112 §6.3, rules 3 and 4; §6.1.
#[test]
fn transfer_encodings() {
    let chunked = |fields: &str| head_with("HTTP/1.1 200 OK", fields);
    for (fields, framing, after) in [
        ("Transfer-Encoding: chunked\n", Framing::Chunked, After::Keep),
        ("transfer-encoding:CHUNKED\n", Framing::Chunked, After::Keep),
        ("Transfer-Encoding: , chunked ,\n", Framing::Chunked, After::Keep),
        ("Transfer-Encoding: gzip, chunked\n", Framing::Chunked, After::Keep),
        ("Transfer-Encoding: gzip\nTransfer-Encoding: chunked\n", Framing::Chunked, After::Keep),
        ("Transfer-Encoding: gzip,\n chunked\n", Framing::Chunked, After::Keep),
        ("Transfer-Encoding: chunked, gzip\n", Framing::UntilClose, After::Close),
        ("Transfer-Encoding: gzip\n", Framing::UntilClose, After::Close),
        ("Transfer-Encoding: xchunked\n", Framing::UntilClose, After::Close),
        ("Transfer-Encoding: chunked;a=b\n", Framing::UntilClose, After::Close),
        ("Transfer-Encoding: chunked\nContent-Length: 5\n", Framing::Chunked, After::Doubtful),
        ("Content-Length: 5\nTransfer-Encoding: chunked\n", Framing::Chunked, After::Doubtful),
        ("Content-Length: x\nTransfer-Encoding: chunked\n", Framing::Chunked, After::Doubtful),
        ("Content-Length: 5\nTransfer-Encoding: gzip\n", Framing::UntilClose, After::Close),
    ] {
        let head = chunked(fields);
        assert_eq!((head.framing, head.after), (framing, after), "{fields}");
    }
    let old = head_with("HTTP/1.0 200 OK", "Transfer-Encoding: chunked\nConnection: keep-alive\n");
    assert_eq!((old.framing, old.after), (Framing::Chunked, After::Doubtful));
    for fields in ["chunked, chunked", "chunked, gzip, chunked", "", ","] {
        let seen =
            response(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {fields}\r\n\r\n").as_bytes());
        assert_eq!(bad(&seen), Some(Bad::TransferEncoding), "{fields}");
    }
}

/// RFC 9112 §6.3, rules 5 and 6; RFC 9110 §8.6.
#[test]
fn content_lengths() {
    for (fields, len) in [
        ("Content-Length: 5\n", 5),
        ("Content-Length: 0005\n", 5),
        ("Content-Length: 5, 5\n", 5),
        ("Content-Length: 5\ncontent-length: 5\n", 5),
        ("Content-Length:\t5 \t\n", 5),
        ("Content-Length: 18446744073709551615\n", u64::MAX),
    ] {
        assert_eq!(head_with("HTTP/1.1 200 OK", fields).framing, Framing::Length(len), "{fields}");
    }
    for (value, expected) in [
        ("5, 6", Bad::ContentLengthDiffers),
        ("5\r\nContent-Length: 6", Bad::ContentLengthDiffers),
        ("-5", Bad::ContentLength),
        ("+5", Bad::ContentLength),
        ("5 5", Bad::ContentLength),
        ("5,", Bad::ContentLength),
        ("", Bad::ContentLength),
        ("0x5", Bad::ContentLength),
        ("5.0", Bad::ContentLength),
        ("\u{665}", Bad::ContentLength),
        ("18446744073709551616", Bad::BodyTooLong),
    ] {
        let seen =
            response(format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n").as_bytes());
        assert_eq!(bad(&seen), Some(expected), "{value}");
    }
    let seen = response(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(seen.len(), 3, "the end of an empty body needs no further byte: {seen:?}");
}

/// RFC 9112 §6.3, rule 8, and §8: the peer's FIN ends it.
#[test]
fn a_body_without_a_length_ends_with_the_connection() {
    let seen = response(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 is a protocol");
    assert_eq!(response_head(&seen).framing, Framing::UntilClose);
    assert_eq!(body(&seen), b"HTTP/1.1 is a protocol");
    let end = End { message_len: 41, body_len: 22, after: After::Close };
    assert_eq!(seen.last(), Some(&Seen::Finished(Ok(Some(end)))));
}

/// RFC 9112 §8.
#[test]
fn a_fin_says_what_was_not_complete() {
    for (bytes, expected) in [
        ("", Ok(None)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Ok(None)),
        ("H", Err(Bad::HeadIncomplete)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", Err(Bad::HeadIncomplete)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd", Err(Bad::BodyIncomplete)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
            Err(Bad::BodyIncomplete),
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r", Err(Bad::BodyIncomplete)),
    ] {
        assert_eq!(response(bytes.as_bytes()).last(), Some(&Seen::Finished(expected)), "{bytes}");
    }
    // The end that was not asked for yet is not lost.
    let mut reader = ResponseReader::new();
    let mut bytes = &b"HTTP/1.1 204 No Content\r\n\r\n"[..];
    assert!(matches!(
        reader.read(Some(RequestKind::Other), &mut bytes),
        Ok(Some(ResponseEvent::Head(_)))
    ));
    assert_eq!(reader.finish().map(|end| end.map(|end| end.message_len)), Ok(Some(27)));
    assert_eq!(reader.finish(), Ok(None));
}

/// RFC 9112 §9.2: what follows a message answers the next request, and needs one.
#[test]
fn responses_follow_each_other() {
    let one = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    let get = RequestKind::Other;
    let seen = responses(&[get, get, get], &one.repeat(3));
    let end = End { message_len: one.len() as u64, body_len: 3, after: After::Keep };
    assert_eq!(ends(&seen), [end; 3]);
    assert_eq!(seen.len(), 10);
    assert_eq!(bad(&responses(&[get], &one.repeat(2))), Some(Bad::Unsolicited));
    assert_eq!(bad(&responses(&[], b"H")), Some(Bad::Unsolicited));
}

/// RFC 9112 §9.3, §9.6.
#[test]
fn connections_that_stay_and_those_that_close() {
    for (version, connection, after) in [
        ("1.1", "", After::Keep),
        ("1.1", "Connection: close\n", After::Close),
        ("1.1", "connection: Foo, CLOSE\n", After::Close),
        ("1.1", "Connection: keep-alive\nConnection: close\n", After::Close),
        ("1.1", "Connection: closed\n", After::Keep),
        ("1.1", "X-Connection: close\n", After::Keep),
        ("1.0", "", After::Close),
        ("1.0", "Connection: Keep-Alive\n", After::Keep),
        ("1.0", "Connection: keep-alive, close\n", After::Close),
        ("1.0", "Proxy-Connection: keep-alive\n", After::Close),
    ] {
        let head = head_with(
            &format!("HTTP/{version} 200 OK"),
            &format!("Content-Length: 0\n{connection}"),
        );
        assert_eq!(head.after, after, "{version} {connection}");
    }
    let one = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na";
    let seen = responses(&[RequestKind::Other; 2], &one.repeat(2));
    assert_eq!(seen[3..], [Seen::Left(one.len()), Seen::Finished(Ok(None))]);
}

#[test]
fn heads_have_limits() {
    let head = |fill: usize| {
        let mut head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: ".to_vec();
        head.resize(fill - 4, b'x');
        head.extend_from_slice(b"\r\n\r\n");
        head
    };
    assert_eq!(response_head(&response(&head(HEAD_MAX))).len, HEAD_MAX);
    assert_eq!(bad(&response(&head(HEAD_MAX + 1))), Some(Bad::HeadTooLong));
    assert_eq!(bad(&response(&head(10 * HEAD_MAX))), Some(Bad::HeadTooLong));
    let phrase = [b"HTTP/1.1 200 ".to_vec(), vec![b'x'; HEAD_MAX]].concat();
    assert_eq!(bad(&response(&phrase)), Some(Bad::HeadTooLong), "there is no target");
    let fields = |count: usize| format!("HTTP/1.1 204 X\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert_eq!(ends(&response(fields(crate::FIELDS_MAX).as_bytes())).len(), 1);
    let seen = response(fields(crate::FIELDS_MAX + 1).as_bytes());
    assert_eq!(bad(&seen), Some(Bad::FieldsTooMany));
}
