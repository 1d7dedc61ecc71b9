//! Chunked bodies (RFC 9112 §7.1), read by a client and by a server.

use super::*;
use crate::{After, CHUNK_LINE_MAX};

fn client(chunks: &str) -> Vec<Seen> {
    response(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").as_bytes())
}

fn server(chunks: &str) -> Vec<Seen> {
    requests(
        format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")
            .as_bytes(),
    )
}

#[test]
fn chunks_and_what_stands_between_them() {
    for (chunks, expected) in [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("2\r\nhe\r\n3\r\nllo\r\n000\r\n\r\n", "hello"),
        ("00000000000000000000005\r\nhello\r\n0\r\n\r\n", "hello"),
        ("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        ("5;name\r\nhello\r\n0;a=b\r\n\r\n", "hello"),
        ("5 ;name=\"a;\u{fc} b\"\t;x\r\nhello\r\n0\r\n\r\n", "hello"),
        ("1\r\n\r\r\n1\r\n\n\r\n0\r\n\r\n", "\r\n"),
        ("5\r\nhello\r\n0\r\nX: y\r\nContent-Length: 7\r\n\r\n", "hello"),
        ("5\r\nhello\r\n0\r\nX:\nY:z\r\n\r\n", "hello"),
    ] {
        for (seen, head) in [(client(chunks), 47), (server(chunks), 56)] {
            assert_eq!(body(&seen), expected.as_bytes(), "{chunks:?} {seen:?}");
            let end = End {
                message_len: (head + chunks.len()) as u64,
                body_len: expected.len() as u64,
                after: After::Keep,
            };
            assert_eq!(ends(&seen), [end], "{chunks:?}");
        }
    }
}

#[test]
fn chunks_that_are_invalid() {
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(CHUNK_LINE_MAX));
    let trailer = format!("0\r\nX: {}\r\n\r\n", "x".repeat(HEAD_MAX));
    let zeros = format!("{}5\r\nhello\r\n", "0".repeat(CHUNK_LINE_MAX));
    for (chunks, expected) in [
        ("\r\n", Bad::ChunkSize),
        ("g\r\n", Bad::ChunkSize),
        ("-1\r\n", Bad::ChunkSize),
        ("+1\r\n", Bad::ChunkSize),
        (" 5\r\nhello\r\n", Bad::ChunkSize),
        ("0x5\r\nhello\r\n", Bad::ChunkSize),
        ("5_0\r\nhello\r\n", Bad::ChunkSize),
        ("5\nhello\r\n0\r\n\r\n", Bad::ChunkSize),
        ("5\rhello", Bad::ChunkSize),
        ("5 5\r\nhello", Bad::ChunkSize),
        ("10000000000000000\r\n", Bad::ChunkSize),
        ("fffffffffffffffff\r\n", Bad::ChunkSize),
        ("5;a\nhello\r\n", Bad::ChunkExtension),
        ("5;a\0\r\nhello\r\n", Bad::ChunkExtension),
        ("5;a\rb\r\nhello\r\n", Bad::ChunkSize),
        (&long, Bad::ChunkLineTooLong),
        (&zeros, Bad::ChunkLineTooLong),
        ("5\r\nhello0\r\n\r\n", Bad::ChunkEnd),
        ("5\r\nhello\n0\r\n\r\n", Bad::ChunkEnd),
        ("5\r\nhello\r0\r\n\r\n", Bad::ChunkEnd),
        ("0\r\n\n", Bad::Trailer),
        ("0\r\n: x\r\n\r\n", Bad::Trailer),
        ("0\r\nX\r\n\r\n", Bad::Trailer),
        ("0\r\nX : y\r\n\r\n", Bad::Trailer),
        ("0\r\n X: y\r\n\r\n", Bad::Trailer),
        ("0\r\nX: \0\r\n\r\n", Bad::Trailer),
        ("0\r\nX: y\rz\r\n\r\n", Bad::Trailer),
        ("0\r\n\rX", Bad::Trailer),
        (&trailer, Bad::TrailerTooLong),
    ] {
        assert_eq!(bad(&client(chunks)), Some(expected), "{chunks:?}");
        assert_eq!(bad(&server(chunks)), Some(expected), "{chunks:?}");
    }
}

#[test]
fn a_client_lets_padding_and_folded_trailers_pass_and_a_server_does_not() {
    for (chunks, expected) in [
        ("5  \r\nhello\r\n0 \r\n\r\n", Bad::ChunkSize),
        ("5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n", Bad::Trailer),
    ] {
        assert_eq!(body(&client(chunks)), b"hello");
        assert_eq!(ends(&client(chunks)).len(), 1);
        assert_eq!(bad(&server(chunks)), Some(expected));
    }
}

#[test]
fn limits_are_where_they_are_said_to_be() {
    let line = |len: usize| format!("0;{}\r\n\r\n", "x".repeat(len - 2));
    assert_eq!(bad(&server(&line(CHUNK_LINE_MAX))), None);
    assert_eq!(bad(&server(&line(CHUNK_LINE_MAX + 1))), Some(Bad::ChunkLineTooLong));
    let trailers = |len: usize| format!("0\r\nX:{}\r\n\r\n", "x".repeat(len - 6));
    assert_eq!(bad(&client(&trailers(HEAD_MAX))), None);
    assert_eq!(bad(&client(&trailers(HEAD_MAX + 1))), Some(Bad::TrailerTooLong));
    // A long size line before it is no part of the trailer section.
    let long = line(CHUNK_LINE_MAX);
    let both = format!(
        "{}{}",
        long.trim_end_matches("\r\n\r\n"),
        trailers(HEAD_MAX).trim_start_matches('0')
    );
    assert_eq!(bad(&client(&both)), None);
    // 16 digits are all that 64 bits hold.
    assert_eq!(
        client("ffffffffffffffff\r\nx").last(),
        Some(&Seen::Finished(Err(Bad::BodyIncomplete)))
    );
}
