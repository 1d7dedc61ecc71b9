//! Where metrics are pushed to, as a URL. Strict: what could be read in two ways, or would carry a secret, is refused.

use std::net::{IpAddr, Ipv6Addr};

use wirebeat_units::{Fault, fault};

/// The path of metrics below the address of a collector (specification of OTLP/HTTP).
const METRICS: &str = "/v1/metrics";
/// The longest URL, in bytes.
const LONGEST: usize = 2048;

/// How it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// As it is.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A collector and the path at which it takes metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Begins with '/'.
    pub path: String,
}

/// What becomes of the path of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRule {
    /// It stays; without one it is that of metrics.
    OrMetrics,
    /// That of metrics comes below it.
    AboveMetrics,
    /// It stays.
    AsItIs,
}

impl Endpoint {
    /// Of a URL.
    ///
    /// # Errors
    /// It is not a URL of HTTP, or has more than host, port and path.
    pub fn parse(url: &str, rule: PathRule) -> Result<Endpoint, Fault> {
        let wrong = |why: &str| fault!("'{}' is not a URL for OTLP: {why}", brief(url); "write for example http://127.0.0.1:4318");
        if url.len() > LONGEST {
            return Err(wrong("it is too long"));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no http://"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(wrong("only http:// and https:// are spoken")),
        };
        if rest.contains('@') {
            // not shown: it may be a password
            return Err(fault!(
                "the URL for OTLP has a user or a password in it";
                "leave it out; give what the collector asks for in OTEL_EXPORTER_OTLP_HEADERS, for example \
                 Authorization=Bearer%20TOKEN"
            ));
        }
        if rest.contains(['?', '#']) {
            return Err(wrong("it has more than a host, a port and a path"));
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("it has spaces or characters that are not ASCII"));
        }
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) =
            split(authority).ok_or_else(|| wrong("the host or the port is not valid"))?;
        let path = match (rule, path.trim_end_matches('/')) {
            (PathRule::OrMetrics, "") => METRICS.to_owned(),
            (PathRule::AboveMetrics, above) => format!("{above}{METRICS}"),
            (PathRule::AsItIs, "") => "/".to_owned(),
            (PathRule::OrMetrics | PathRule::AsItIs, _) => path.to_owned(),
        };
        Ok(Endpoint { scheme, host, port: port.unwrap_or(scheme.port()), path })
    }

    /// Host and port as HTTP names them.
    pub fn authority(&self) -> String {
        let host = match self.host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => self.host.clone(),
        };
        if self.port == self.scheme.port() { host } else { format!("{host}:{}", self.port) }
    }

    /// All of it, as a URL.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme.name(), self.authority(), self.path)
    }

    /// Whether what is sent there stays on this host.
    pub fn is_on_loopback(&self) -> bool {
        let by_address = self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        by_address || self.host.eq_ignore_ascii_case("localhost")
    }
}

/// Host without brackets, and port if there is one.
fn split(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
            (host, port)
        }
        None => {
            let (host, port) = authority
                .split_once(':')
                .map_or((authority, None), |(host, port)| (host, Some(port)));
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if host.is_empty() || host.len() > 255 || !host.bytes().all(fits) {
                return None;
            }
            (host, port)
        }
    };
    let port = port.map(|port| {
        let number =
            port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse::<u16>().ok());
        number.flatten().filter(|port| *port > 0)
    });
    match port {
        Some(None) => None,
        Some(port) => Some((host.to_owned(), port)),
        None => Some((host.to_owned(), None)),
    }
}

/// What is shown of a URL that is wrong.
fn brief(url: &str) -> String {
    url.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_metrics_is_added_where_there_is_none() {
        for (url, rule, expected) in [
            ("http://127.0.0.1:4318", PathRule::OrMetrics, "http://127.0.0.1:4318/v1/metrics"),
            ("http://127.0.0.1:4318/", PathRule::OrMetrics, "http://127.0.0.1:4318/v1/metrics"),
            ("HTTPS://lab.example", PathRule::OrMetrics, "https://lab.example/v1/metrics"),
            (
                "http://lab:80/api/v1/otlp/v1/metrics",
                PathRule::OrMetrics,
                "http://lab/api/v1/otlp/v1/metrics",
            ),
            ("http://[::1]:4318/a/", PathRule::OrMetrics, "http://[::1]:4318/a/"),
            ("http://lab:4318/a/", PathRule::AboveMetrics, "http://lab:4318/a/v1/metrics"),
            ("http://lab:4318", PathRule::AboveMetrics, "http://lab:4318/v1/metrics"),
            ("http://lab:4318", PathRule::AsItIs, "http://lab:4318/"),
            ("http://lab:4318/x", PathRule::AsItIs, "http://lab:4318/x"),
        ] {
            assert_eq!(Endpoint::parse(url, rule).unwrap().url(), expected, "{url}");
        }
        let parsed = Endpoint::parse("http://[::1]", PathRule::OrMetrics).unwrap();
        assert_eq!((parsed.host.as_str(), parsed.port, parsed.is_on_loopback()), ("::1", 80, true));
        for (url, loopback) in [
            ("http://localhost", true),
            ("http://127.9.9.9", true),
            ("http://10.0.0.1", false),
            ("http://localhost.evil.example", false),
        ] {
            let parsed = Endpoint::parse(url, PathRule::OrMetrics).unwrap();
            assert_eq!(parsed.is_on_loopback(), loopback, "{url}");
        }
    }

    #[test]
    fn what_is_no_such_url_is_told_with_one_that_is() {
        for (url, says) in [
            ("", "it has no http://"),
            ("lab.yaml", "it has no http://"),
            ("127.0.0.1:4318", "it has no http://"),
            ("grpc://lab:4317", "only http:// and https://"),
            ("http://", "the host or the port"),
            ("http://:4318", "the host or the port"),
            ("http://lab:", "the host or the port"),
            ("http://lab:0", "the host or the port"),
            ("http://lab:99999", "the host or the port"),
            ("http://lab:+1", "the host or the port"),
            ("http://::1:4318", "the host or the port"),
            ("http://[::1", "the host or the port"),
            ("http://[::1]x", "the host or the port"),
            ("http://[evil]:1", "the host or the port"),
            ("http://lab%0d%0a:1", "the host or the port"),
            ("http://lab:4318/?key=x", "more than a host"),
            ("http://lab:4318/#x", "more than a host"),
            ("http://lab:4318/a b", "spaces"),
            ("http://lab:4318/a\r\nX: y", "spaces"),
            ("http://lab:4318/\u{1b}[2J", "spaces"),
            ("http://l\u{e4}b:4318", "not ASCII"),
        ] {
            let why = Endpoint::parse(url, PathRule::OrMetrics).unwrap_err();
            assert!(why.to_string().contains(says), "{url}: {why}");
            assert!(why.hint.unwrap().contains("http://127.0.0.1:4318"));
        }
        let long = format!("http://lab/{}", "x".repeat(LONGEST));
        assert!(Endpoint::parse(&long, PathRule::OrMetrics).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn a_password_is_refused_and_not_shown() {
        let why = Endpoint::parse("http://user:s3cret@lab:4318", PathRule::OrMetrics).unwrap_err();
        let hint = why.hint.clone().unwrap();
        assert!(hint.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{hint}");
        assert!(!format!("{why} {hint}").contains("s3cret"));
    }
}
