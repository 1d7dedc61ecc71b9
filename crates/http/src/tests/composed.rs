//! Connections composed of messages that are known beforehand, in the ways of writing that RFC 9112 allows: what is read
//! is what was meant, message by message and byte by byte.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::{After, Framing, Method};

/// How a message is written, where there is a choice.
#[derive(Debug, Clone)]
struct Manner {
    line_end: &'static str,
    /// Between the colon and the value, and behind the value.
    spaces: (&'static str, &'static str),
    upper: bool,
    /// Fields before and behind the one that frames the message.
    others: (Vec<&'static str>, Vec<&'static str>),
    chunk_lens: Vec<usize>,
    extension: &'static str,
    trailer: &'static str,
}

fn manner() -> impl Strategy<Value = Manner> {
    let space = || select(&["", " ", "\t", "  \t "]);
    let others = || {
        let field = select(&[
            "Server: x",
            "Date: Mon, 23 Nov 2026 14:00:00 GMT",
            "X-Content-Length: 9",
            "Content-Lengt: 9",
            "Xransfer-Encoding: chunked",
            "A: :",
            "Empty:",
            "Set-Cookie: a=\"b\"; c, d",
        ]);
        vec(field, 0..4)
    };
    let extension = select(&["", ";a", ";a=b;c=\"d\"", " ;a", "\t; a = b"]);
    let trailer = select(&["", "T: u\r\n", "T:\nContent-Length: 9\r\n"]);
    let way = (select(&["\r\n", "\n"]), (space(), space()), any::<bool>(), (others(), others()));
    (way, vec(1_usize..40, 1..4), extension, trailer).prop_map(
        |((line_end, spaces, upper, others), chunk_lens, extension, trailer)| Manner {
            line_end,
            spaces,
            upper,
            others,
            chunk_lens,
            extension,
            trailer,
        },
    )
}

impl Manner {
    fn field(&self, name: &str, value: &str) -> String {
        let name = if self.upper { name.to_ascii_uppercase() } else { name.to_ascii_lowercase() };
        format!("{name}:{}{value}{}", self.spaces.0, self.spaces.1)
    }

    /// Writes a message; returns the length of its head.
    fn write(&self, into: &mut Vec<u8>, start_line: &str, fields: &[String], body: &Body) -> usize {
        let before = into.len();
        let framing = match body {
            Body::None => None,
            Body::Length(bytes) => Some(self.field("Content-Length", &bytes.len().to_string())),
            Body::Chunked(_) => Some(self.field("Transfer-Encoding", "Chunked")),
        };
        let mut lines = vec![start_line.to_owned()];
        lines.extend(self.others.0.iter().map(|&field| field.to_owned()));
        lines.extend(framing);
        lines.extend_from_slice(fields);
        lines.extend(self.others.1.iter().map(|&field| field.to_owned()));
        for line in lines {
            into.extend_from_slice(line.as_bytes());
            into.extend_from_slice(self.line_end.as_bytes());
        }
        into.extend_from_slice(self.line_end.as_bytes());
        let head_len = into.len() - before;
        match body {
            Body::None => {}
            Body::Length(bytes) => into.extend_from_slice(bytes),
            Body::Chunked(bytes) => self.write_chunks(into, bytes),
        }
        head_len
    }

    fn write_chunks(&self, into: &mut Vec<u8>, mut bytes: &[u8]) {
        for &len in self.chunk_lens.iter().cycle() {
            let (chunk, rest) = bytes.split_at(len.min(bytes.len()));
            let digits = if self.upper {
                format!("{:X}", chunk.len())
            } else {
                format!("0{:x}", chunk.len())
            };
            into.extend_from_slice(format!("{digits}{}\r\n", self.extension).as_bytes());
            if chunk.is_empty() {
                break;
            }
            into.extend_from_slice(chunk);
            into.extend_from_slice(b"\r\n");
            bytes = rest;
        }
        into.extend_from_slice(self.trailer.as_bytes());
        into.extend_from_slice(b"\r\n");
    }
}

#[derive(Debug, Clone)]
enum Body {
    None,
    Length(Vec<u8>),
    Chunked(Vec<u8>),
}

impl Body {
    fn bytes(&self) -> &[u8] {
        match self {
            Body::None => &[],
            Body::Length(bytes) | Body::Chunked(bytes) => bytes,
        }
    }

    fn framing(&self) -> Framing {
        match self {
            Body::None => Framing::None,
            Body::Length(bytes) => Framing::Length(bytes.len() as u64),
            Body::Chunked(_) => Framing::Chunked,
        }
    }
}

/// Bytes that look like framing, and others.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let some = select(&["\r\n", "0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "x", "5\r\n", "\0"]);
    let text = vec(some, 0..12).prop_map(|parts| parts.concat().into_bytes());
    prop_oneof![text, vec(any::<u8>(), 0..200)]
}

/// Adds what is to be seen of a message.
fn expect(seen: &mut Vec<Seen>, head: Seen, body: &[u8], end: End) {
    seen.push(head);
    if !body.is_empty() {
        seen.push(Seen::Body(body.to_vec()));
    }
    seen.push(Seen::End(end));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn responses_are_read_as_they_were_meant(
        messages in vec(
            (manner(), select(&[200_u16, 206, 404, 503, 204, 304]), 0..3_u8, any::<bool>(), body()),
            1..5,
        ),
        interim in any::<bool>(),
        last in proptest::option::of(body()),
        lens in vec(1_usize..300, 1..4),
    ) {
        let (mut bytes, mut expected, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        for (manner, status, shape, old, content) in messages {
            if interim {
                let line = "HTTP/1.1 103 Early Hints";
                let message_len = manner.write(&mut bytes, line, &[], &Body::None) as u64;
                expected.push(Seen::Interim { status: 103, message_len });
            }
            let before = bytes.len();
            let no_body = matches!(status, 204 | 304);
            let body = match shape {
                _ if no_body => Body::None,
                1 if !old => Body::Chunked(content),
                _ => Body::Length(content),
            };
            let head_request = shape == 2;
            let (line, fields) = if old {
                (format!("HTTP/1.0 {status} X"), vec![manner.field("Connection", "Keep-Alive")])
            } else {
                (format!("HTTP/1.1 {status}"), Vec::new())
            };
            let len = manner.write(&mut bytes, &line, &fields, &body);
            if head_request {
                bytes.truncate(before + len);
            }
            kinds.push(if head_request { RequestKind::Head } else { RequestKind::Other });
            let content = if head_request { &[] } else { body.bytes() };
            let head = ResponseHead {
                status,
                minor_version: u8::from(!old),
                framing: if head_request { Framing::None } else { body.framing() },
                content_length: match &body {
                    Body::Length(bytes) => Some(bytes.len() as u64),
                    _ => None,
                },
                after: After::Keep,
                len,
            };
            let end = End {
                message_len: (bytes.len() - before) as u64,
                body_len: content.len() as u64,
                after: After::Keep,
            };
            expect(&mut expected, Seen::Response(head), content, end);
        }
        let mut finished = None;
        if let Some(content) = last {
            let head = b"HTTP/1.0 200 OK\r\n\r\n";
            bytes.extend_from_slice(head);
            bytes.extend_from_slice(&content);
            kinds.push(RequestKind::Other);
            expected.push(Seen::Response(ResponseHead {
                status: 200,
                minor_version: 0,
                framing: Framing::UntilClose,
                content_length: None,
                after: After::Close,
                len: head.len(),
            }));
            finished = Some(End {
                message_len: (head.len() + content.len()) as u64,
                body_len: content.len() as u64,
                after: After::Close,
            });
            if !content.is_empty() {
                expected.push(Seen::Body(content));
            }
        }
        expected.push(Seen::Finished(Ok(finished)));
        prop_assert_eq!(&responses_in(&kinds, [&bytes[..]].into_iter()), &expected);
        prop_assert_eq!(&responses_in(&kinds, any_bytes::pieces(&bytes, &lens)), &expected);
    }

    #[test]
    fn requests_are_read_as_they_were_meant(
        messages in vec(
            (manner(), 0..3_u8, any::<bool>(), "/[!-~]{0,20}", body(), select(&["", "\r\n", "\n\r\n"])),
            1..5,
        ),
        lens in vec(1_usize..300, 1..4),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (manner, shape, expects, target, content, empty_lines) in messages {
            let before = bytes.len();
            bytes.extend_from_slice(empty_lines.as_bytes());
            let body = match shape {
                0 => Body::None,
                1 => Body::Chunked(content),
                _ => Body::Length(content),
            };
            let mut fields = vec![manner.field("Host", "[::1]:80")];
            if expects {
                fields.push(manner.field("Expect", "100-Continue"));
            }
            let line = format!("PUT {target} HTTP/1.1");
            let len = manner.write(&mut bytes, &line, &fields, &body) + empty_lines.len();
            let head = RequestHead {
                method: Method::Put,
                minor_version: 1,
                framing: body.framing(),
                expects_continue: expects && !matches!(body.framing(), Framing::None | Framing::Length(0)),
                after: After::Keep,
                len,
            };
            let end = End {
                message_len: (bytes.len() - before) as u64,
                body_len: body.bytes().len() as u64,
                after: After::Keep,
            };
            let host = Some(b"[::1]:80".to_vec());
            let head = Seen::Request { head, method: "PUT".into(), target, host };
            expect(&mut expected, head, body.bytes(), end);
        }
        expected.push(Seen::Finished(Ok(None)));
        let limits = Limits::default();
        prop_assert_eq!(&requests_in(&limits, [&bytes[..]].into_iter()), &expected);
        prop_assert_eq!(&requests_in(&limits, any_bytes::pieces(&bytes, &lens)), &expected);
    }
}
