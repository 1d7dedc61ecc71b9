//! Any bytes as the stream of a connection, to both readers of HTTP, whole and in pieces: the events have to be the same, and no more
//! than a head is held. What a user may give is encoded and read back; a chunked body is filled in two parts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_http::{
    Bad, BodyLength, ChunkedBody, Connection, End, Field, HEAD_MAX, Limits, OutgoingRequest,
    RequestEvent, RequestHead, RequestKind, RequestReader, ResponseEvent, ResponseHead,
    ResponseReader,
};

/// What was seen, with the pieces of a body as one.
#[derive(Debug, PartialEq)]
enum Seen {
    Interim(u16, u64),
    Response(ResponseHead),
    Request(RequestHead),
    Body(Vec<u8>),
    End(End),
    Bad(Bad),
    Finished(Result<Option<End>, Bad>),
}

fn push_body(seen: &mut Vec<Seen>, bytes: &[u8]) {
    match seen.last_mut() {
        Some(Seen::Body(body)) => body.extend_from_slice(bytes),
        _ => seen.push(Seen::Body(bytes.to_vec())),
    }
}

/// Two bits of `kinds` for each request of up to four.
fn responses(kinds: u8, bytes: &[u8], piece_len: usize) -> Vec<Seen> {
    let (mut reader, mut seen, mut answered) = (ResponseReader::new(), Vec::new(), 0);
    for mut piece in bytes.chunks(piece_len) {
        loop {
            let kind = match kinds >> (answered * 2) & 3 {
                _ if answered == 4 => None,
                0 => Some(RequestKind::Head),
                1 => Some(RequestKind::Connect),
                _ => Some(RequestKind::Other),
            };
            let event = reader.read(kind, &mut piece);
            assert!(reader.held() <= HEAD_MAX);
            match event {
                Ok(None) => break,
                Ok(Some(ResponseEvent::Interim { status, message_len })) => {
                    seen.push(Seen::Interim(status, message_len));
                }
                Ok(Some(ResponseEvent::Head(head))) => seen.push(Seen::Response(head)),
                Ok(Some(ResponseEvent::Body(bytes))) => push_body(&mut seen, bytes),
                Ok(Some(ResponseEvent::End(end))) => {
                    answered += 1;
                    seen.push(Seen::End(end));
                }
                Err(bad) => {
                    seen.push(Seen::Bad(bad));
                    return seen;
                }
            }
        }
    }
    seen.push(Seen::Finished(reader.finish()));
    seen
}

fn requests(limits: &Limits, bytes: &[u8], piece_len: usize) -> Vec<Seen> {
    let (mut reader, mut seen) = (RequestReader::new(), Vec::new());
    for mut piece in bytes.chunks(piece_len) {
        loop {
            let event = reader.read(limits, &mut piece, |line| {
                assert!(!line.method.is_empty() && line.target.is_ascii());
                assert!((1..=limits.target).contains(&line.target.len()));
            });
            assert!(reader.held() <= HEAD_MAX);
            match event {
                Ok(None) => break,
                Ok(Some(RequestEvent::Head(head))) => seen.push(Seen::Request(head)),
                Ok(Some(RequestEvent::Body(bytes))) => push_body(&mut seen, bytes),
                Ok(Some(RequestEvent::End(end))) => seen.push(Seen::End(end)),
                Err(bad) => {
                    assert_ne!(bad.status(), 0);
                    seen.push(Seen::Bad(bad));
                    return seen;
                }
            }
        }
    }
    seen.push(Seen::Finished(reader.finish()));
    seen
}

fn written(text: &str) {
    let mut words = text.split('|');
    let mut word = || words.next().unwrap_or("x");
    let (method, target, host) = (word(), word(), word());
    let fields = [Field { name: word(), value: word() }, Field { name: word(), value: word() }];
    let request = OutgoingRequest {
        method,
        target,
        host,
        length: BodyLength::Chunked,
        connection: Connection::Close,
        fields: &fields,
    };
    let Ok(bytes) = request.encode() else { return };
    let limits = Limits { target: usize::MAX, ..Limits::default() };
    let (mut reader, mut rest) = (RequestReader::new(), &bytes[..]);
    let event = reader.read(&limits, &mut rest, |line| {
        assert_eq!((line.method, line.target), (method, target));
        // Host, Transfer-Encoding and Connection come before.
        let read: Vec<_> = line.fields.iter().skip(3).collect();
        assert_eq!(read, fields.map(|field| (field.name, field.value.as_bytes())));
    });
    if let Ok(event) = event {
        assert!(matches!(event, Some(RequestEvent::Head(_))) && rest.is_empty());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kinds, piece, split], stream)) = bytes.split_first_chunk::<3>() else { return };
    let piece_len = usize::from(piece) + 1;
    let whole_len = stream.len().max(1);
    assert_eq!(responses(kinds, stream, whole_len), responses(kinds, stream, piece_len));
    let limits = Limits { target: 100, body: 1000 };
    assert_eq!(requests(&limits, stream, whole_len), requests(&limits, stream, piece_len));
    if let Ok(text) = std::str::from_utf8(stream) {
        written(text);
    }
    let body = ChunkedBody::new(u64::from(kinds) * 3, piece_len as u64);
    let body = body.expect("chunks have a length, and the whole is short");
    let payload = |at: u64, into: &mut [u8]| {
        into.iter_mut().zip(at..).for_each(|(byte, at)| *byte = at as u8);
    };
    let mut whole = vec![0; body.encoded_len() as usize];
    assert_eq!(body.fill(0, &mut whole, payload), whole.len());
    let mut parts = vec![0; whole.len()];
    let (first, second) = parts.split_at_mut(usize::from(split).min(whole.len()));
    body.fill(0, first, payload);
    body.fill(first.len() as u64, second, payload);
    assert_eq!(whole, parts);
});
