//! What may be asked of the metrics, and what is answered: one request of HTTP/1 on a connection, which is then closed.
//!
//! Pure: bytes in, meaning out. Anybody on this host may send them, and a browser may be made to by any page that it shows: a
//! request whose `Host` is not an address of this host comes by a foreign name that was pointed here (DNS rebinding).

use std::net::IpAddr;

use wirebeat_report::metrics::Exposition;
use wirebeat_run::remote::Key;

/// The most bytes of a request with its header.
pub const REQUEST_MAX: usize = 8 << 10;
/// The most fields of a header.
const FIELDS_MAX: usize = 64;
/// The only thing to be seen.
const PATH: &str = "/metrics";

/// What came of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// There is more to come.
    Unfinished,
    /// The metrics are asked for.
    Metrics {
        /// In this format.
        exposition: Exposition,
        /// Only what stands before them.
        head_only: bool,
    },
    /// It is refused.
    Refused(Refusal),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no request of HTTP/1.
    Malformed,
    /// There is nothing at this path.
    NoSuchPath,
    /// It would change something.
    Method,
    /// It came by the name of another host.
    Host,
    /// It does not have the token.
    Token,
    /// It is too long.
    TooLong,
}

impl Refusal {
    /// Code, reason, and what is told.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Refusal::Malformed => ("400 Bad Request", "this is not a request of HTTP/1.1\n"),
            Refusal::NoSuchPath => ("404 Not Found", "metrics are at /metrics\n"),
            Refusal::Method => ("405 Method Not Allowed", "only GET and HEAD are answered\n"),
            Refusal::Host => (
                "421 Misdirected Request",
                "ask for localhost or an address on loopback, not for another name\n",
            ),
            Refusal::Token => ("401 Unauthorized", "the token is missing, or wrong\n"),
            Refusal::TooLong => {
                ("431 Request Header Fields Too Large", "the request is too long\n")
            }
        }
    }

    /// The whole answer.
    pub fn answer(self) -> Vec<u8> {
        let (status, words) = self.words();
        let more = match self {
            Refusal::Method => "Allow: GET, HEAD\r\n",
            Refusal::Token => "WWW-Authenticate: Bearer\r\n",
            _ => "",
        };
        let mut answer = head(status, "text/plain; charset=utf-8", words.len(), more);
        answer.extend_from_slice(words.as_bytes());
        answer
    }
}

/// What stands before an answer of so many bytes.
fn head(status: &str, content_type: &str, length: usize, more: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{more}Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    .into_bytes()
}

/// What stands before metrics of so many bytes.
pub fn head_of_metrics(exposition: Exposition, length: usize) -> Vec<u8> {
    head("200 OK", exposition.content_type(), length, "Vary: Accept\r\n")
}

/// What the bytes that came so far ask for. Where there is a `token`, who has it may ask by any name of this host: a page in a browser
/// does not have it.
pub fn read(bytes: &[u8], token: Option<&Key>) -> Asked {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < REQUEST_MAX => return Asked::Unfinished,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Asked::Refused(Refusal::TooLong);
        }
        Err(_) => return Asked::Refused(Refusal::Malformed),
    }
    asked(&request, token).unwrap_or_else(Asked::Refused)
}

fn asked(request: &httparse::Request<'_, '_>, token: Option<&Key>) -> Result<Asked, Refusal> {
    let mut hosts = values(request, "host");
    let is_known = |host: &str| token.is_some() || is_this_host(host);
    match (hosts.next(), hosts.next(), request.version) {
        (Some(host), None, _) if is_known(host.ok_or(Refusal::Malformed)?) => {}
        (Some(_), None, _) => return Err(Refusal::Host),
        // HTTP/1.0 has no such field, and no browser speaks it
        (None, _, Some(0)) => {}
        _ => return Err(Refusal::Malformed),
    }
    if token.is_some_and(|token| !has(request, token)) {
        return Err(Refusal::Token);
    }
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Refusal::Method),
    };
    let target = request.path.unwrap_or_default();
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    if path != PATH {
        return Err(Refusal::NoSuchPath);
    }
    let accepted = values(request, "accept").flatten();
    Ok(Asked::Metrics { exposition: preferred(accepted), head_only })
}

/// Whether it says the token, once (RFC 6750 §2.1).
fn has(request: &httparse::Request<'_, '_>, token: &Key) -> bool {
    let mut said = values(request, "authorization");
    let (Some(Some(said)), None) = (said.next(), said.next()) else { return false };
    let said = said.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    said.is_some_and(|(_, said)| token.is_made_of(said))
}

/// The values of all fields of this name; `None` for one that is not text.
fn values<'a>(
    request: &'a httparse::Request<'_, '_>,
    name: &'static str,
) -> impl Iterator<Item = Option<&'a str>> {
    let fields = request.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    fields.map(|field| std::str::from_utf8(field.value).ok())
}

/// Whether a `Host` is this one's own: `localhost` or an address on loopback, with or without a port.
fn is_this_host(host: &str) -> bool {
    let host = host.trim();
    let (name, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, rest)) => (name, Some(rest.strip_prefix(':').unwrap_or("?"))),
        None => host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let on_loopback = || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    port_fits && (name.eq_ignore_ascii_case("localhost") || on_loopback())
}

/// The format that one who accepts these media types likes best; Prometheus' own where it does not care.
fn preferred<'a>(accepted: impl Iterator<Item = &'a str>) -> Exposition {
    let (mut open, mut plain) = (0_u16, 0_u16);
    for range in accepted.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1000, thousandths);
        match kind.as_str() {
            "application/openmetrics-text" => open = open.max(weight),
            "text/plain" | "text/*" | "*/*" => plain = plain.max(weight),
            _ => {}
        }
    }
    if open > plain { Exposition::OpenMetrics } else { Exposition::Prometheus }
}

/// A weight of 0 to 1 (RFC 9110 §12.4.2); 0 where it is none.
fn thousandths(weight: &str) -> u16 {
    let weight = weight.parse::<f64>().unwrap_or(0.0);
    (weight.clamp(0.0, 1.0) * 1000.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a token.
    fn read(bytes: &[u8]) -> Asked {
        super::read(bytes, None)
    }

    fn get(fields: &str) -> Asked {
        read(format!("GET /metrics HTTP/1.1\r\n{fields}\r\n").as_bytes())
    }

    fn metrics(exposition: Exposition) -> Asked {
        Asked::Metrics { exposition, head_only: false }
    }

    #[test]
    fn the_metrics_are_asked_for_in_the_format_that_is_liked_best() {
        let host = "Host: 127.0.0.1:9469\r\n";
        for (accept, expected) in [
            ("", Exposition::Prometheus),
            ("Accept: */*\r\n", Exposition::Prometheus),
            ("Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n", Exposition::Prometheus),
            ("Accept: application/openmetrics-text\r\n", Exposition::OpenMetrics),
            (
                // Prometheus 2.42
                "Accept: application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n",
                Exposition::OpenMetrics,
            ),
            (
                "Accept: application/openmetrics-text;q=0.3,text/plain;q=0.9\r\n",
                Exposition::Prometheus,
            ),
            ("Accept: application/openmetrics-text;q=x\r\n", Exposition::Prometheus),
            (
                "ACCEPT: text/plain;q=0\r\naccept: application/openmetrics-text; q=0.1\r\n",
                Exposition::OpenMetrics,
            ),
        ] {
            assert_eq!(get(&format!("{host}{accept}")), metrics(expected), "{accept}");
        }
        let head = read(b"HEAD /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(head, Asked::Metrics { exposition: Exposition::Prometheus, head_only: true });
    }

    #[test]
    fn a_foreign_name_is_not_answered() {
        for host in
            ["localhost", "LocalHost:9469", "127.0.0.1", "127.0.0.1:1", "[::1]:9469", "[::1]"]
        {
            assert!(is_this_host(host), "{host}");
        }
        for host in [
            "",
            "::1",
            "evil.example",
            "evil.example:9469",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1:9469",
            "localhost:x",
            "127.0.0.1:9469:1",
            "[::1",
            "[::1]x",
            "[::2]:9469",
            "localhost@evil",
            "a\u{7f}b",
        ] {
            assert!(!is_this_host(host), "{host}");
        }
        assert_eq!(get("Host: evil.example\r\n"), Asked::Refused(Refusal::Host));
        assert_eq!(get(""), Asked::Refused(Refusal::Malformed));
        assert_eq!(get("Host: localhost\r\nHost: evil\r\n"), Asked::Refused(Refusal::Malformed));
        assert_eq!(get("Host: \u{ff}\r\n"), Asked::Refused(Refusal::Host));
        assert_eq!(
            read(b"GET /metrics HTTP/1.1\r\nHost: \xff\r\n\r\n"),
            Asked::Refused(Refusal::Malformed)
        );
        assert_eq!(read(b"GET /metrics HTTP/1.0\r\n\r\n"), metrics(Exposition::Prometheus));
    }

    #[test]
    fn where_there_is_a_token_it_has_to_be_known() {
        let token = Key::from_text("a-token-of-26-characters-x").unwrap();
        let get = |fields: &str| {
            let request =
                format!("GET /metrics HTTP/1.1\r\nHost: lab.example:9469\r\n{fields}\r\n");
            super::read(request.as_bytes(), Some(&token))
        };
        let right = "Authorization: Bearer a-token-of-26-characters-x\r\n";
        assert_eq!(get(right), metrics(Exposition::Prometheus));
        assert_eq!(get(&right.replace("Bearer", "bearer")), metrics(Exposition::Prometheus));
        for wrong in [
            "",
            "Authorization: Bearer\r\n",
            "Authorization: Bearer \r\n",
            "Authorization: Bearer a-token-of-26-characters-y\r\n",
            "Authorization: Bearer a-token-of-26-characters-x1\r\n",
            "Authorization: Basic a-token-of-26-characters-x\r\n",
            "Authorization: a-token-of-26-characters-x\r\n",
            &right.repeat(2),
        ] {
            assert_eq!(get(wrong), Asked::Refused(Refusal::Token), "{wrong}");
        }
        let answer = String::from_utf8(Refusal::Token.answer()).unwrap();
        assert!(answer.contains("\r\nWWW-Authenticate: Bearer\r\n"), "{answer}");
    }

    #[test]
    fn nothing_else_is_answered() {
        let host = "Host: localhost\r\n\r\n";
        for (line, refusal) in [
            ("POST /metrics HTTP/1.1", Refusal::Method),
            ("DELETE /metrics HTTP/1.1", Refusal::Method),
            ("GET / HTTP/1.1", Refusal::NoSuchPath),
            ("GET /metrics/../../etc/passwd HTTP/1.1", Refusal::NoSuchPath),
            ("GET http://localhost/metrics HTTP/1.1", Refusal::NoSuchPath),
            ("GET /metrics HTTP/9.9", Refusal::Malformed),
            ("PRI * HTTP/2.0", Refusal::Malformed),
            ("\x16\x03\x01\x02", Refusal::Malformed),
        ] {
            let asked = read(format!("{line}\r\n{host}").as_bytes());
            assert_eq!(asked, Asked::Refused(refusal), "{line}");
        }
    }

    #[test]
    fn a_request_has_a_limit() {
        let begun = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ";
        assert_eq!(read(begun), Asked::Unfinished);
        let mut long = begun.to_vec();
        long.resize(REQUEST_MAX - 1, b'x');
        assert_eq!(read(&long), Asked::Unfinished);
        long.push(b'x');
        assert_eq!(read(&long), Asked::Refused(Refusal::TooLong));
        let many = "X: y\r\n".repeat(FIELDS_MAX + 1);
        assert_eq!(get(&many), Asked::Refused(Refusal::TooLong));
    }

    #[test]
    fn a_refusal_says_why_and_closes() {
        let answer = String::from_utf8(Refusal::Method.answer()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{answer}");
        assert!(
            answer.contains("\r\nAllow: GET, HEAD\r\n")
                && answer.contains("\r\nConnection: close\r\n")
        );
        assert!(answer.ends_with("\r\n\r\nonly GET and HEAD are answered\n"), "{answer}");
        assert!(answer.contains("Content-Length: 31\r\n"), "{answer}");
    }

    #[test]
    fn any_bytes_are_answered_or_waited_for() {
        let mut seed = 4737_u32;
        for length in 0..2000 {
            let mut bytes = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
            for _ in 0..=length % 7 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = seed as usize % bytes.len();
                bytes[at] = (seed >> 24) as u8;
            }
            let _ = read(&bytes);
            let _ = read(&bytes[..seed as usize % bytes.len()]);
        }
    }
}
