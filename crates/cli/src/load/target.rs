//! Where sessions go and where they are accepted: `http://10.0.2.9/index.html`, `10.0.2.9:5201`, `--listen 80`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use wirebeat_traffic::scenario::session::PortPool;
use wirebeat_units::{Fault, fault};

use crate::failure::Failure;
use crate::values::{HostPort, ip};

/// The port of HTTP (RFC 9110 §4.2.1), and over TLS (§4.2.2).
const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// The port of DNS (RFC 1035 §4.2).
const DNS: u16 = 53;

/// Whom the clients talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A URL.
    Url {
        /// Whether it is https: HTTP over TLS.
        secure: bool,
        /// The host, with its port where that is written.
        authority: HostPort,
        /// Path and query.
        path: String,
    },
    /// A server of DNS and the name that is asked for.
    Dns {
        /// The server, with its port where that is written.
        authority: HostPort,
        /// The name; empty where the URL has none.
        name: String,
    },
    /// A host and a port.
    Host(HostPort),
}

impl FromStr for Target {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        if let Some((scheme, rest)) = text.split_once("://") {
            return url(scheme, rest);
        }
        let host: HostPort = text.parse()?;
        match host.port() {
            Some(_) => Ok(Target::Host(host)),
            None => Err(fault!(
                "'{text}' has no port";
                "write for example http://10.0.2.9/index.html, or 10.0.2.9:5201 with --program bulk"
            )),
        }
    }
}

fn url(scheme: &str, rest: &str) -> Result<Target, Fault> {
    let secure = scheme.eq_ignore_ascii_case("https");
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" | "dns" => {}
        _ => {
            return Err(fault!(
                "'{scheme}' is not a scheme that is known here"; "write for example http://10.0.2.9/index.html"
            ));
        }
    }
    // what follows '#' is the reader's own, and is not sent (RFC 9110 §4.2.5)
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if scheme.eq_ignore_ascii_case("dns") {
        // RFC 4501 has dns://SERVER/NAME?TYPE=A; the type is a flag here
        let (name, query) = path.strip_prefix('/').unwrap_or(path).split_once('?').unzip();
        if let Some(query) = query {
            return Err(fault!(
                "what follows '?' is not taken ('{query}')"; "give the type of records by --type"
            ));
        }
        let name = name.unwrap_or(path.strip_prefix('/').unwrap_or(path)).to_owned();
        return Ok(Target::Dns { authority: authority.parse()?, name });
    }
    if authority.contains('@') {
        return Err(fault!(
            "a URL with a user name is not taken (RFC 9110 §4.2.4)";
            "leave out what stands before '@', and give --header 'Authorization: …'"
        ));
    }
    let path = match path {
        path if path.starts_with('/') => path.to_owned(),
        query => format!("/{query}"),
    };
    Ok(Target::Url { secure, authority: authority.parse()?, path })
}

impl Target {
    /// The address and port. Asks the system for the address of a name.
    pub fn resolve(&self) -> Result<SocketAddr, Failure> {
        let (host, port) = match self {
            Target::Url { secure: false, authority, .. } => (authority, HTTP),
            Target::Url { secure: true, authority, .. } => (authority, HTTPS),
            Target::Dns { authority, .. } => (authority, DNS),
            Target::Host(host) => (host, 0),
        };
        let found = host.resolve(port).map_err(|why| {
            Failure::usage(why).at(host.to_string()).hint("write its address, or check its name")
        })?;
        if found.ip().is_unspecified() {
            let why = fault!(
                "{} stands for any address, and nothing connects to it", found.ip();
                "write that of the server, for example 10.0.2.9"
            );
            return Err(Failure::usage(why).at(host.to_string()));
        }
        Ok(found)
    }
}

/// Where servers accept: a port on this machine alone, or an address with its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: IpAddr,
    /// The ports.
    pub ports: PortPool,
}

impl FromStr for Listen {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        if !text.contains([':', '.']) {
            // nobody else reaches it unless an address is written
            let ports = text.parse()?;
            return Ok(Listen { address: Ipv4Addr::LOCALHOST.into(), ports });
        }
        let no_port = || fault!("'{text}' has no port"; "write for example 10.0.2.9:80, [2001:db8::9]:80 or 80");
        let (address, ports) = text.rsplit_once(':').ok_or_else(no_port)?;
        if address.contains(':') && !(address.starts_with('[') && address.ends_with(']')) {
            return Err(no_port());
        }
        Ok(Listen { address: ip(address)?, ports: ports.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_a_path() {
        let path = |text: &str| match text.parse::<Target>() {
            Ok(target @ Target::Url { .. }) => {
                let at = target.resolve().unwrap().to_string();
                let Target::Url { path, .. } = target else { unreachable!() };
                (at, path)
            }
            other => panic!("{text}: {other:?}"),
        };
        for (text, at, expected) in [
            ("http://10.0.2.9/index.html", "10.0.2.9:80", "/index.html"),
            ("HTTP://10.0.2.9", "10.0.2.9:80", "/"),
            ("http://10.0.2.9:8080?q=1#part", "10.0.2.9:8080", "/?q=1"),
            ("http://[2001:db8::9]:81/a?b=c:d", "[2001:db8::9]:81", "/a?b=c:d"),
            ("https://10.0.2.9/a", "10.0.2.9:443", "/a"),
            ("HTTPS://10.0.2.9:8443", "10.0.2.9:8443", "/"),
        ] {
            assert_eq!(path(text), (at.to_owned(), expected.to_owned()), "{text}");
        }
        for (text, says) in [
            ("ftp://10.0.2.9/", "'ftp' is not a scheme"),
            ("http://me@10.0.2.9/", "user name"),
            ("http:///x", "is not a host"),
            ("10.0.2.9", "has no port"),
            ("10.0.2.9:0", "is not a host"),
        ] {
            let said = text.parse::<Target>().unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
        assert!("0.0.0.0:80".parse::<Target>().unwrap().resolve().is_err());
    }

    #[test]
    fn a_port_alone_is_on_this_machine_alone() {
        let listen = |text: &str| {
            text.parse::<Listen>().map(|at| (at.address.to_string(), at.ports.to_string()))
        };
        for (text, address, ports) in [
            ("80", "127.0.0.1", "80"),
            ("8000-8009", "127.0.0.1", "8000-8009"),
            ("10.0.2.9:80", "10.0.2.9", "80"),
            ("[::1]:80", "::1", "80"),
            ("0.0.0.0:80", "0.0.0.0", "80"),
        ] {
            assert_eq!(listen(text), Ok((address.to_owned(), ports.to_owned())), "{text}");
        }
        for (text, says) in [
            ("10.0.2.9", "has no port"),
            ("::1", "has no port"),
            ("::1:80", "has no port"),
            ("0", "is not a port"),
            ("10.0.2.9:x", "is not a port"),
            ("host:80", "is not an IP address"),
        ] {
            let said = listen(text).unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
