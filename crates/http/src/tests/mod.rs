//! Tests: what both readers say of bytes, what the writers write, and that no split of a stream matters.

mod any_bytes;
mod chunks;
mod composed;
mod requests;
mod responses;
mod smuggling;
mod writers;

use crate::{
    Bad, End, HEAD_MAX, Limits, RequestEvent, RequestHead, RequestKind, RequestReader,
    ResponseEvent, ResponseHead, ResponseReader,
};

/// What was seen of a connection. Pieces of a body that follow each other are one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Interim {
        status: u16,
        message_len: u64,
    },
    Response(ResponseHead),
    Request {
        head: RequestHead,
        method: String,
        target: String,
        host: Option<Vec<u8>>,
    },
    Body(Vec<u8>),
    End(End),
    Bad(Bad),
    /// Bytes that were left unread.
    Left(usize),
    /// The peer's FIN.
    Finished(Result<Option<End>, Bad>),
}

fn push_body(seen: &mut Vec<Seen>, bytes: &[u8]) {
    assert!(!bytes.is_empty());
    if let Some(Seen::Body(body)) = seen.last_mut() {
        body.extend_from_slice(bytes);
    } else {
        seen.push(Seen::Body(bytes.to_vec()));
    }
}

/// What follows the end of a connection's bytes.
fn push_rest(seen: &mut Vec<Seen>, left: usize, finished: Result<Option<End>, Bad>) {
    if left > 0 && !matches!(seen.last(), Some(Seen::Bad(_))) {
        seen.push(Seen::Left(left));
    }
    seen.push(Seen::Finished(finished));
}

/// Reads pieces as responses to these requests, and then the peer's FIN.
fn responses_in<'b>(requests: &[RequestKind], pieces: impl Iterator<Item = &'b [u8]>) -> Vec<Seen> {
    let (mut reader, mut seen, mut left) = (ResponseReader::new(), Vec::new(), 0);
    let mut requests = requests.iter().copied().peekable();
    'all: for mut piece in pieces {
        loop {
            let before = piece.len();
            let event = reader.read(requests.peek().copied(), &mut piece);
            assert!(reader.held() <= HEAD_MAX, "{} bytes are held", reader.held());
            match event {
                Ok(None) => break left += piece.len(),
                Ok(Some(ResponseEvent::Interim { status, message_len })) => {
                    seen.push(Seen::Interim { status, message_len });
                }
                Ok(Some(ResponseEvent::Head(head))) => seen.push(Seen::Response(head)),
                Ok(Some(ResponseEvent::Body(bytes))) => {
                    assert!(bytes.len() <= before - piece.len());
                    push_body(&mut seen, bytes);
                }
                Ok(Some(ResponseEvent::End(end))) => {
                    requests.next();
                    seen.push(Seen::End(end));
                }
                Err(bad) => {
                    seen.push(Seen::Bad(bad));
                    assert_eq!(reader.read(Some(RequestKind::Other), &mut piece), Err(bad));
                    assert!(reader.is_over());
                    break 'all;
                }
            }
        }
    }
    push_rest(&mut seen, left, reader.finish());
    seen
}

/// Reads pieces as requests, and then the peer's FIN.
fn requests_in<'b>(limits: &Limits, pieces: impl Iterator<Item = &'b [u8]>) -> Vec<Seen> {
    let (mut reader, mut seen, mut left) = (RequestReader::new(), Vec::new(), 0);
    'all: for mut piece in pieces {
        loop {
            let mut text = None;
            let event = reader.read(limits, &mut piece, |line| {
                let host = line.host.map(<[u8]>::to_vec);
                text = Some((line.method.to_owned(), line.target.to_owned(), host));
            });
            assert!(reader.held() <= HEAD_MAX, "{} bytes are held", reader.held());
            match event {
                Ok(None) => break left += piece.len(),
                Ok(Some(RequestEvent::Head(head))) => {
                    let (method, target, host) = text.unwrap();
                    seen.push(Seen::Request { head, method, target, host });
                }
                Ok(Some(RequestEvent::Body(bytes))) => push_body(&mut seen, bytes),
                Ok(Some(RequestEvent::End(end))) => seen.push(Seen::End(end)),
                Err(bad) => {
                    seen.push(Seen::Bad(bad));
                    assert_ne!(bad.status(), 0, "{bad:?} has no status to answer with");
                    assert_eq!(reader.read(limits, &mut piece, |_| ()), Err(bad));
                    break 'all;
                }
            }
        }
    }
    push_rest(&mut seen, left, reader.finish());
    seen
}

fn responses(requests: &[RequestKind], bytes: &[u8]) -> Vec<Seen> {
    let whole = responses_in(requests, [bytes].into_iter());
    assert_eq!(responses_in(requests, bytes.chunks(1)), whole, "byte by byte");
    whole
}

/// The events of one response to a GET.
fn response(bytes: &[u8]) -> Vec<Seen> {
    responses(&[RequestKind::Other], bytes)
}

fn requests(bytes: &[u8]) -> Vec<Seen> {
    let whole = requests_in(&Limits::default(), [bytes].into_iter());
    assert_eq!(requests_in(&Limits::default(), bytes.chunks(1)), whole, "byte by byte");
    whole
}

/// The first thing that is wrong.
fn bad(seen: &[Seen]) -> Option<Bad> {
    seen.iter().find_map(|seen| match seen {
        Seen::Bad(bad) | Seen::Finished(Err(bad)) => Some(*bad),
        _ => None,
    })
}

fn ends(seen: &[Seen]) -> Vec<End> {
    let end = |seen: &Seen| match seen {
        Seen::End(end) | Seen::Finished(Ok(Some(end))) => Some(*end),
        _ => None,
    };
    seen.iter().filter_map(end).collect()
}

/// The only body.
fn body(seen: &[Seen]) -> &[u8] {
    let mut bodies = seen.iter().filter_map(|seen| match seen {
        Seen::Body(body) => Some(&body[..]),
        _ => None,
    });
    let body = bodies.next().unwrap_or(&[]);
    assert_eq!(bodies.next(), None);
    body
}

fn response_head(seen: &[Seen]) -> ResponseHead {
    let head = seen.iter().find_map(|seen| match seen {
        Seen::Response(head) => Some(*head),
        _ => None,
    });
    head.unwrap_or_else(|| panic!("no head: {seen:?}"))
}

fn request_head(seen: &[Seen]) -> RequestHead {
    let head = seen.iter().find_map(|seen| match seen {
        Seen::Request { head, .. } => Some(*head),
        _ => None,
    });
    head.unwrap_or_else(|| panic!("no head: {seen:?}"))
}

/// A reader is what a session pays for HTTP.
#[test]
fn a_reader_is_32_bytes() {
    assert_eq!(size_of::<ResponseReader>(), 32);
    assert_eq!(size_of::<RequestReader>(), 32);
}

#[test]
fn a_whole_head_is_read_in_place_and_one_in_pieces_is_kept_until_it_is_whole() {
    let bytes: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    let mut reader = ResponseReader::new();
    let mut rest = bytes;
    while reader.read(Some(RequestKind::Other), &mut rest).unwrap().is_some() {
        assert_eq!(reader.held(), 0);
    }
    let (mut first, mut second) = bytes.split_at(20);
    assert_eq!(reader.read(Some(RequestKind::Other), &mut first), Ok(None));
    assert_eq!(reader.progress(), (20, 0));
    assert!((20..=512).contains(&reader.held()), "{}", reader.held());
    assert!(matches!(
        reader.read(Some(RequestKind::Other), &mut second),
        Ok(Some(ResponseEvent::Head(_)))
    ));
    assert_eq!((reader.held(), second), (0, &b"ab"[..]));
}
