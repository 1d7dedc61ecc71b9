//! Requests, in the order of RFC 9112's sections.

use super::*;
use crate::{After, Framing, Method};

/// The head of a request of HTTP/1.1 with Host; `fields` have their line ends.
fn head_with(request_line: &str, fields: &str) -> RequestHead {
    request_head(&requests(
        format!("{request_line}\nHost: a\n{fields}\n").replace('\n', "\r\n").as_bytes(),
    ))
}

fn bad_of(bytes: &str) -> Option<Bad> {
    bad(&requests(bytes.as_bytes()))
}

/// RFC 9112 §2.2.
#[test]
fn empty_lines_before_a_request_are_skipped_and_counted() {
    let one = "\r\n\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let seen = requests(format!("{one}{one}\r\n").as_bytes());
    let end = End { message_len: one.len() as u64, body_len: 0, after: After::Keep };
    assert_eq!(ends(&seen), [end; 2]);
    assert_eq!(seen.last(), Some(&Seen::Finished(Ok(None))), "empty lines are no request");
    assert_eq!(bad_of("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"), Some(Bad::LineEnd));
    assert_eq!(bad_of("\r\n\r"), Some(Bad::HeadIncomplete));
}

/// RFC 9112 §3, RFC 9110 §9.
#[test]
fn request_lines() {
    let seen = requests(
        b"POST /a?b=c%20d HTTP/1.1\r\nHost: example.org:8080\r\nContent-Length: 2\r\n\r\nhi",
    );
    let head = request_head(&seen);
    assert_eq!(
        seen[0],
        Seen::Request {
            head,
            method: "POST".into(),
            target: "/a?b=c%20d".into(),
            host: Some(b"example.org:8080".to_vec())
        }
    );
    assert_eq!(
        (head.method, head.framing, body(&seen)),
        (Method::Post, Framing::Length(2), &b"hi"[..])
    );
    for (token, method) in [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("PUT", Method::Put),
        ("DELETE", Method::Delete),
        ("OPTIONS", Method::Options),
        ("TRACE", Method::Trace),
        ("PATCH", Method::Patch),
        ("get", Method::Other),
        ("M-SEARCH", Method::Other),
        ("!#$%&'*+-.^_`|~", Method::Other),
    ] {
        assert_eq!(head_with(&format!("{token} / HTTP/1.1"), "").method, method, "{token}");
    }
    for (line, expected) in [
        ("G@T / HTTP/1.1", Bad::Method),
        (" GET / HTTP/1.1", Bad::Method),
        ("GET", Bad::Method),
        ("GET\t/ HTTP/1.1", Bad::Method),
        ("\u{16}\u{3}\u{1}", Bad::Method),
        ("GET  / HTTP/1.1", Bad::Target),
        ("GET /a b HTTP/1.1", Bad::VersionSyntax),
        ("GET / ", Bad::VersionSyntax),
        ("GET /", Bad::Target),
        ("GET /\u{7f} HTTP/1.1", Bad::Target),
        ("GET /\u{fc} HTTP/1.1", Bad::Target),
        ("GET / HTTP/1.1 ", Bad::VersionSyntax),
        ("GET /a b HTTP/1.2", Bad::VersionSyntax),
        ("GET / HTTP/1.1\rX", Bad::VersionSyntax),
    ] {
        assert_eq!(bad_of(&format!("{line}\r\nHost: a\r\n\r\n")), Some(expected), "{line:?}");
    }
}

/// What can become no request is refused before its end: no HTTP client waits for more.
#[test]
fn what_begins_no_request_is_refused_at_once() {
    assert_eq!(bad_of("\u{16}\u{3}\u{1}\u{2}"), Some(Bad::Method), "TLS");
    assert_eq!(bad_of("("), Some(Bad::Method));
    assert_eq!(bad_of("\rG"), Some(Bad::LineEnd));
    assert_eq!(bad_of("G"), Some(Bad::HeadIncomplete));
}

/// RFC 9112 §3.2.
#[test]
fn targets() {
    for line in [
        "GET / HTTP/1.1",
        "GET /a/b;c?d#e HTTP/1.1",
        "GET http://example.org/a HTTP/1.1",
        "GET urn+x.1://a HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "OPTIONS /a HTTP/1.1",
        "CONNECT example.org:443 HTTP/1.1",
        "CONNECT [2001:db8::1]:443 HTTP/1.1",
    ] {
        head_with(line, "");
    }
    for line in [
        "GET * HTTP/1.1",
        "GET a HTTP/1.1",
        "GET ://a HTTP/1.1",
        "GET 1http://a HTTP/1.1",
        "GET http:// HTTP/1.1",
        "GET ?a HTTP/1.1",
        "CONNECT / HTTP/1.1",
        "CONNECT example.org HTTP/1.1",
        "CONNECT example.org: HTTP/1.1",
        "CONNECT :443 HTTP/1.1",
        "CONNECT a/b:443 HTTP/1.1",
    ] {
        assert_eq!(bad_of(&format!("{line}\r\nHost: a\r\n\r\n")), Some(Bad::Target), "{line}");
    }
    let long = |len: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(len - 1));
    assert_eq!(bad_of(&long(8192)), None);
    assert_eq!(bad_of(&long(8193)), Some(Bad::TargetTooLong));
    assert_eq!(bad_of(&format!("GET /{}", "x".repeat(HEAD_MAX))), Some(Bad::TargetTooLong));
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD_MAX));
    assert_eq!(bad_of(&long), Some(Bad::HeadTooLong));
    assert_eq!((Bad::TargetTooLong.status(), Bad::HeadTooLong.status()), (414, 431));
}

/// RFC 9112 §3.2, RFC 9110 §7.2.
#[test]
fn hosts() {
    let host = |fields: &str| bad_of(&format!("GET / HTTP/1.1\r\n{fields}\r\n"));
    for value in ["a", "", "a.example:80", "10.0.0.1:", "[2001:db8::1]", "[::1]:8080", "a_b~c%20"] {
        assert_eq!(host(&format!("Host: {value}\r\n")), None, "{value}");
    }
    for value in
        ["a b", "a/b", "a:b", "a:80:80", "[::1", "[]", "[::1]x", "u@h", "a?b", "a\\b", "\u{fc}"]
    {
        assert_eq!(host(&format!("Host: {value}\r\n")), Some(Bad::HostInvalid), "{value}");
    }
    assert_eq!(host(""), Some(Bad::HostMissing));
    assert_eq!(host("Host: a\r\nhost: a\r\n"), Some(Bad::HostRepeated));
    assert_eq!(bad_of("GET / HTTP/1.0\r\n\r\n"), None);
    assert_eq!(bad_of("GET / HTTP/1.0\r\nHost: a b\r\n\r\n"), Some(Bad::HostInvalid));
    assert_eq!(Bad::HostMissing.status(), 400);
}

/// RFC 9112 §2.3, RFC 9110 §2.5 and §15.6.6.
#[test]
fn versions() {
    for (version, minor) in [("1.0", 0), ("1.1", 1), ("1.2", 1), ("1.9", 1)] {
        let head = head_with(&format!("GET / HTTP/{version}"), "");
        assert_eq!(head.minor_version, minor, "{version}");
    }
    let seen = requests(b"\r\nGET /a HTTP/1.3\nHost: b\n\n");
    assert!(matches!(&seen[0], Seen::Request { target, .. } if target == "/a"), "{seen:?}");
    for (version, expected) in [
        ("HTTP/2.0", Bad::Version),
        ("HTTP/0.9", Bad::Version),
        ("HTTP/9.1", Bad::Version),
        ("HTTP/1.10", Bad::VersionSyntax),
        ("HTTP/1", Bad::VersionSyntax),
        ("HTTP/x.y", Bad::VersionSyntax),
        ("http/1.1", Bad::VersionSyntax),
        ("HTTPS/1.1", Bad::VersionSyntax),
    ] {
        assert_eq!(
            bad_of(&format!("GET / {version}\r\nHost: a\r\n\r\n")),
            Some(expected),
            "{version}"
        );
    }
    assert_eq!(bad_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(Bad::Version), "RFC 9113 §3.4");
    assert_eq!(Bad::Version.status(), 505);
}

/// RFC 9112 §6.3, rules 6 and 7.
#[test]
fn a_request_without_a_length_has_no_body() {
    let one = "POST / HTTP/1.1\r\nHost: a\r\n\r\n";
    let seen = requests(format!("{one}GET / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    assert_eq!(request_head(&seen).framing, Framing::None);
    assert_eq!(ends(&seen).len(), 2);
    let head = head_with("GET / HTTP/1.1", "Content-Length: 0\n");
    assert_eq!(head.framing, Framing::Length(0));
}

/// RFC 9110 §15.5.14.
#[test]
fn bodies_have_a_limit() {
    let limits = Limits { body: 5, ..Limits::default() };
    for (fields, sent, expected) in [
        ("Content-Length: 5", "hello", None),
        ("Content-Length: 6", "", Some(Bad::BodyTooLong)),
        ("Transfer-Encoding: chunked", "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", None),
        ("Transfer-Encoding: chunked", "3\r\nhel\r\n3\r\n", Some(Bad::BodyTooLong)),
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{sent}");
        let seen = requests_in(&limits, [bytes.as_bytes()].into_iter());
        assert_eq!(bad(&seen), expected, "{fields}");
        assert_eq!(requests_in(&limits, bytes.as_bytes().chunks(1)), seen);
    }
    assert_eq!(Bad::BodyTooLong.status(), 413);
}

/// RFC 9110 §10.1.1.
#[test]
fn expectations() {
    let expects = |version: &str, fields: &str| {
        head_with(&format!("POST / HTTP/{version}"), fields).expects_continue
    };
    assert!(expects("1.1", "Expect: 100-continue\nContent-Length: 5\n"));
    assert!(expects("1.1", "expect: 100-Continue\nTransfer-Encoding: chunked\n"));
    assert!(!expects("1.1", "Expect: 100-continue\n"), "no body to wait for");
    assert!(!expects("1.1", "Expect: 100-continue\nContent-Length: 0\n"));
    assert!(!expects("1.0", "Expect: 100-continue\nContent-Length: 5\n"));
    assert!(!expects("1.0", "Expect: x\nContent-Length: 5\n"));
    let other =
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue, x\r\n\r\n";
    assert_eq!(bad_of(other), Some(Bad::Expectation));
    assert_eq!(Bad::Expectation.status(), 417);
}

/// RFC 9112 §9.3, §9.6.
#[test]
fn connections_that_stay_and_those_that_close() {
    for (version, connection, after) in [
        ("1.1", "", After::Keep),
        ("1.1", "Connection: close\n", After::Close),
        ("1.1", "Connection: upgrade, Close\n", After::Close),
        ("1.0", "", After::Close),
        ("1.0", "Connection: keep-alive\n", After::Keep),
    ] {
        let head = head_with(&format!("GET / HTTP/{version}"), connection);
        assert_eq!(head.after, after, "{version} {connection}");
    }
    let seen = requests(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /");
    assert_eq!(seen[2..], [Seen::Left(5), Seen::Finished(Ok(None))]);
}

#[test]
fn a_fin_says_what_was_not_complete() {
    for (bytes, expected) in [
        ("", Ok(None)),
        ("GET / HTTP/1.1\r\nHost: a\r\n", Err(Bad::HeadIncomplete)),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell", Err(Bad::BodyIncomplete)),
    ] {
        assert_eq!(requests(bytes.as_bytes()).last(), Some(&Seen::Finished(expected)), "{bytes}");
    }
}
