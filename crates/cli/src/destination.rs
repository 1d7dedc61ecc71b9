//! Where datagrams go: an address, or the name of a host, which is looked up once.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::str::FromStr;

use wirebeat_traffic::scenario::header::udp::DISCARD;
use wirebeat_units::{Fault, fault};

use crate::failure::Failure;
use crate::values::{Target, udp_port};

/// The longest name of a host (RFC 1035 §2.3.4).
const NAME_MAX: usize = 253;

/// What is written behind `--to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An address with a port.
    At(Target),
    /// The name of a host, and a UDP port.
    Named {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl FromStr for Destination {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let address = match text.parse() {
            Ok(target) => return Ok(Destination::At(target)),
            Err(fault) => fault,
        };
        let (host, port) =
            text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        if !is_name(host) {
            return Err(address);
        }
        let port = port.map_or(Ok(DISCARD), udp_port)?;
        Ok(Destination::Named { host: host.to_owned(), port })
    }
}

/// Whether this can be the name of a host: one whose last part is a number would be an address (RFC 3696 §2).
fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_label =
        |label: &str| !label.is_empty() && label.chars().all(letter) && !label.starts_with('-');
    let text = text.strip_suffix('.').unwrap_or(text);
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= NAME_MAX
        && text.split('.').all(is_label)
        && last.chars().any(|c| !c.is_ascii_digit())
}

/// The addresses of hosts, each asked for once, so that all flows to a name go to one address.
pub struct Hosts<'a> {
    found: BTreeMap<String, IpAddr>,
    tell: &'a mut dyn FnMut(&str),
}

impl<'a> Hosts<'a> {
    /// None is known; `tell` says which address a name has.
    pub fn new(tell: &'a mut dyn FnMut(&str)) -> Hosts<'a> {
        Hosts { found: BTreeMap::new(), tell }
    }

    /// The address and the port; asks the system for the address of a name, and takes the first.
    ///
    /// # Errors
    /// There is no such host, or it has an address to which nothing can be sent.
    pub fn resolve(&mut self, to: &Destination) -> Result<Target, Failure> {
        let (host, port) = match to {
            Destination::At(target) => return Ok(*target),
            Destination::Named { host, port } => (host, *port),
        };
        if let Some(address) = self.found.get(host) {
            return Ok(Target { address: *address, port });
        }
        let place = format!("--to {host}");
        let failed = |what: Fault| Failure::usage(what).at(place.clone());
        let mut found = (host.as_str(), port).to_socket_addrs().map_err(|error| {
            failed(fault!("cannot find the host '{host}': {error}"; "write its address, or check its name"))
        })?;
        let address = found.next().map(|address| address.ip()).filter(|it| !it.is_unspecified());
        let Some(address) = address else {
            return Err(failed(
                fault!("the host '{host}' has no address to send to"; "write its address, or check its name"),
            ));
        };
        (self.tell)(&format!("{host} is {address}"));
        self.found.insert(host.clone(), address);
        Ok(Target { address, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Destination, String> {
        text.parse().map_err(|fault: Fault| fault.to_string())
    }

    #[test]
    fn hosts_have_names_or_addresses() {
        for (text, name, of) in [
            ("lab2", "lab2", 9),
            ("lab2:5001", "lab2", 5001),
            ("a.b-c.example:7", "a.b-c.example", 7),
            ("x.example.", "x.example.", 9),
            ("10gig", "10gig", 9),
        ] {
            let named = Destination::Named { host: name.to_owned(), port: of };
            assert_eq!(read(text), Ok(named), "{text}");
        }
        let target = Target { address: "10.0.0.2".parse().unwrap(), port: 5001 };
        assert_eq!(read("10.0.0.2:5001"), Ok(Destination::At(target)));
        for text in
            ["", "10.0.0", "10.0.0.256", "10.0.0.2.3:9", ":9", "a b", "a..b", "-c", "x/y", "é"]
        {
            assert!(read(text).unwrap_err().contains("is not an IP address"), "{text}");
        }
        for text in ["lab2:0", "lab2:x", "lab2:65536", "10.0.0.2:0"] {
            assert!(read(text).unwrap_err().contains("is not a UDP port"), "{text}");
        }
        assert!(read(&"a.".repeat(200)).is_err() && read("0.0.0.0").is_err());
    }

    #[test]
    fn a_name_is_looked_up_once_and_its_address_is_told() {
        let mut told = Vec::new();
        let mut tell = |line: &str| told.push(line.to_owned());
        let mut hosts = Hosts::new(&mut tell);
        let to = |port| Destination::Named { host: "localhost".to_owned(), port };
        let first = hosts.resolve(&to(9)).unwrap();
        let second = hosts.resolve(&to(10)).unwrap();
        assert!(first.address.is_loopback());
        assert_eq!((second.address, second.port), (first.address, 10));
        let at = Target { address: "10.0.0.2".parse().unwrap(), port: 9 };
        assert_eq!(hosts.resolve(&Destination::At(at)), Ok(at));
        assert_eq!(told, [format!("localhost is {}", first.address)]);
    }
}
