//! The bytes of HTTP/1.1 (RFC 9112): heads of requests and responses, made once for each program.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::program::script::{Body, LengthLaw, Message};
use crate::scenario::session::program::{Http, HttpBody};

/// Room for a length that is drawn: as many digits as a 64-bit number has.
pub(super) const LENGTH_DIGITS: usize = 20;

/// A request; `last`: the last of its connection, which may ask the server to close.
pub(super) fn request(http: &Http, host: &str, last: bool, with_content: bool) -> Message {
    let mut head = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", http.method.name(), http.target);
    let length = http.body.map_or(0, |body| body.get());
    if http.body.is_some() {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    if http.expect_continue {
        head.push_str("Expect: 100-continue\r\n");
    }
    if last && http.server_closes {
        head.push_str("Connection: close\r\n");
    }
    if !http.headers.keys().any(|name| name.eq_ignore_ascii_case("user-agent")) {
        head.push_str("User-Agent: wirebeat\r\n");
    }
    add(&mut head, &http.headers);
    let body = match length {
        0 => Body::None,
        _ if !with_content => Body::None,
        length => Body::Generated(LengthLaw::Fixed(length)),
    };
    Message { head: head.into_bytes().into(), length_at: None, body }
}

/// What a response says of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    /// It stays, as is usual in HTTP/1.1.
    Stays,
    /// It stays, because a client of HTTP/1.0 asked for that.
    StaysAsAsked,
    /// It ends with this response.
    Closes,
}

/// A response of the server. `to_head`: its content is left out.
pub(super) fn response(
    http: &Http,
    size: LengthLaw,
    connection: Persistence,
    to_head: bool,
) -> Message {
    let status = http.status.map_or(200, Into::into);
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    // RFC 9110 §8.6 and §15.3.5: such a response has no content and says no length
    let empty = matches!(status, 204 | 304);
    let mut length_at = None;
    if !empty {
        match (http.framing, &size) {
            (HttpBody::Length, LengthLaw::Fixed(length)) => {
                head.push_str(&format!("Content-Length: {length}\r\n"));
            }
            (HttpBody::Length, LengthLaw::Drawn(..)) => {
                head.push_str("Content-Length: ");
                length_at = Some(head.len());
                head.push_str(&"0".repeat(LENGTH_DIGITS));
                head.push_str("\r\n");
            }
            (HttpBody::Chunked, _) => head.push_str("Transfer-Encoding: chunked\r\n"),
            (HttpBody::Close, _) => {}
        }
        let typed = |name: &String| name.eq_ignore_ascii_case("content-type");
        if !http.response_headers.keys().any(typed) {
            head.push_str("Content-Type: application/octet-stream\r\n");
        }
    }
    match connection {
        _ if http.framing == HttpBody::Close => head.push_str("Connection: close\r\n"),
        Persistence::Closes => head.push_str("Connection: close\r\n"),
        Persistence::StaysAsAsked => head.push_str("Connection: keep-alive\r\n"),
        Persistence::Stays => {}
    }
    add(&mut head, &http.response_headers);
    let body = match http.framing {
        _ if empty || to_head => Body::None,
        HttpBody::Chunked => Body::Chunked(size),
        _ if http.file.is_some() => match size {
            LengthLaw::Fixed(length) => Body::Content(length),
            drawn @ LengthLaw::Drawn(..) => Body::Generated(drawn),
        },
        _ => Body::Generated(size),
    };
    // the length of a response to HEAD is that of its content all the same, where it is known
    Message { head: head.into_bytes().into(), length_at, body }
}

/// The interim response to a client that waits for it before it sends content (RFC 9110 §10.1.1).
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Constant bytes.
pub(super) fn constant(bytes: &[u8]) -> Message {
    Message { head: Arc::from(bytes), length_at: None, body: Body::None }
}

fn add(head: &mut String, headers: &IndexMap<String, String>) {
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
}

/// The usual words of a status (RFC 9110 §15); they mean nothing to a machine.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}
