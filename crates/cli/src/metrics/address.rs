//! Where metrics are shown, as it is written. `security.rs` says what an address needs that other hosts reach.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use wirebeat_units::{Fault, fault};

/// An address of this host, with its port; 0: one that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsAddress(pub SocketAddr);

impl FromStr for MetricsAddress {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            fault!(
                "'{text}' is not an address and port for metrics";
                "write for example 127.0.0.1:9469, [::1]:9469, or 9469 for the first of these"
            )
        };
        let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
        let address = match text.rsplit_once(':') {
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, port(text)?)),
            Some(("" | "localhost", text)) => SocketAddr::from((Ipv4Addr::LOCALHOST, port(text)?)),
            Some(_) => text.parse::<SocketAddr>().map_err(|_| wrong())?,
        };
        Ok(MetricsAddress(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Result<String, String> {
        let address = text.parse::<MetricsAddress>();
        address.map(|address| address.0.to_string()).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_port_alone_is_on_loopback() {
        for (text, expected) in [
            ("127.0.0.1:9469", "127.0.0.1:9469"),
            ("9469", "127.0.0.1:9469"),
            (":9469", "127.0.0.1:9469"),
            ("localhost:9469", "127.0.0.1:9469"),
            ("127.9.9.9:1", "127.9.9.9:1"),
            ("[::1]:0", "[::1]:0"),
            ("10.0.0.1:9469", "10.0.0.1:9469"),
        ] {
            assert_eq!(at(text), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told() {
        for text in [
            "",
            ":",
            "x",
            "127.0.0.1",
            "127.0.0.1:99999",
            "::1",
            "eth0:9469",
            "127.0.0.1:9469/metrics",
        ] {
            assert!(at(text).unwrap_err().contains("is not an address and port"), "{text}");
        }
    }
}
