//! Measures the reading of responses and requests, and the filling of chunked bodies, in memory on one core.
//!
//! `cargo run --release -p wirebeat-http --example measure_http`. Prints nanoseconds a message: a response of 1 kB whole, and in pieces of 1460
//! bytes as they come from a stream of many responses, so that heads are divided too.

#![allow(clippy::unwrap_used)] // A measurement that cannot be made ends.

use std::hint::black_box;
use std::time::Instant;

use wirebeat_http::{
    ChunkedBody, Limits, RequestEvent, RequestKind, RequestReader, ResponseEvent, ResponseReader,
};

const RESPONSES: usize = 2000;
const ROUNDS: usize = 200;

fn response(chunked: bool) -> Vec<u8> {
    let (framing, body) = if chunked {
        let body = ChunkedBody::new(1000, 400).unwrap();
        let mut bytes = vec![0; usize::try_from(body.encoded_len()).unwrap()];
        body.fill(0, &mut bytes, |_, into| into.fill(b'x'));
        ("Transfer-Encoding: chunked", bytes)
    } else {
        ("Content-Length: 1000", vec![b'x'; 1000])
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 23 Nov 2026 14:00:00 GMT\r\nContent-Type: text/html\r\n{framing}\r\n\
         Last-Modified: Sun, 22 Nov 2026 10:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"6561-3e8\"\r\nAccept-Ranges: bytes\r\n\r\n"
    );
    [head.into_bytes(), body].concat()
}

/// Reads all pieces; returns how many messages ended.
fn responses<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> usize {
    let (mut reader, mut ended) = (ResponseReader::new(), 0);
    for mut piece in pieces {
        while let Some(event) = reader.read(Some(RequestKind::Other), &mut piece).unwrap() {
            ended += usize::from(matches!(black_box(event), ResponseEvent::End(_)));
        }
    }
    ended
}

fn requests<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> usize {
    let (mut reader, mut ended, limits) = (RequestReader::new(), 0, Limits::default());
    for mut piece in pieces {
        let line = |line: wirebeat_http::RequestLine<'_>| {
            black_box(line.target);
        };
        while let Some(event) = reader.read(&limits, &mut piece, line).unwrap() {
            ended += usize::from(matches!(black_box(event), RequestEvent::End(_)));
        }
    }
    ended
}

/// Prints the time of one of `count` in the fastest round: other programs on the machine only make rounds slower.
fn measure(name: &str, count: usize, mut run: impl FnMut() -> usize) {
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        assert_eq!(run(), count);
        fastest = fastest.min(begun.elapsed().as_nanos() as f64 / count as f64);
    }
    println!("{name:44} {fastest:7.1} ns");
}

fn main() {
    for chunked in [false, true] {
        let one = response(chunked);
        let stream = one.repeat(RESPONSES);
        let name = if chunked { "in chunks" } else { "by length" };
        println!("response: {} bytes, 1000 of them body, {name}", one.len());
        measure("  whole", RESPONSES, || responses(stream.chunks(one.len())));
        measure("  in pieces of 1460 bytes", RESPONSES, || responses(stream.chunks(1460)));
        measure("  in pieces of 16 bytes", RESPONSES, || responses(stream.chunks(16)));
    }
    let one = b"GET /index.html HTTP/1.1\r\nHost: 10.0.2.9\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n";
    let stream = one.repeat(RESPONSES);
    println!("request: {} bytes", one.len());
    measure("  whole", RESPONSES, || requests(stream.chunks(one.len())));
    measure("  in pieces of 1460 bytes", RESPONSES, || requests(stream.chunks(1460)));
    let body = ChunkedBody::new(1_000_000, 4096).unwrap();
    let mut segment = [0; 1460];
    let segments = usize::try_from(body.encoded_len()).unwrap() / 1460;
    measure("chunked body: 1460 bytes filled", segments, || {
        (0..segments as u64)
            .map(|index| {
                body.fill(index * 1460, black_box(&mut segment), |_, into| into.fill(b'x'))
            })
            .filter(|len| *len == 1460)
            .count()
    });
}
