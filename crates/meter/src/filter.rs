//! Which datagrams a receiver measures.

use std::net::{IpAddr, SocketAddr};

/// Conditions on a datagram; those that are `None` hold for all. The default takes all UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The source address. An IPv4 address and its IPv6-mapped form are the same.
    pub source: Option<IpAddr>,
    /// The source port.
    pub source_port: Option<u16>,
    /// The destination port.
    pub destination_port: Option<u16>,
}

impl Filter {
    /// Whether a datagram between these addresses is wanted. What is not known (a socket may have
    /// filtered already, and does not say) is taken to match.
    #[inline]
    pub fn matches(&self, source: Option<SocketAddr>, destination_port: Option<u16>) -> bool {
        let is = |wanted: Option<u16>, found: Option<u16>| match (wanted, found) {
            (Some(wanted), Some(found)) => wanted == found,
            _ => true,
        };
        let address = match (self.source, source) {
            (Some(wanted), Some(found)) => wanted.to_canonical() == found.ip().to_canonical(),
            _ => true,
        };
        address
            && is(self.source_port, source.map(|source| source.port()))
            && is(self.destination_port, destination_port)
    }

    /// Whether a frame that is not a UDP datagram is wanted: one without ports is not, where a port is asked for.
    pub fn matches_portless(&self, source: Option<IpAddr>) -> bool {
        let source = source.map(|source| SocketAddr::new(source, 0));
        let ports = self.source_port.is_none() && self.destination_port.is_none();
        // Without a network header there is no address that could be the wanted one.
        ports && (self.source.is_none() || source.is_some()) && self.matches(source, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(source: &str) -> Option<SocketAddr> {
        Some(source.parse().unwrap())
    }

    #[test]
    fn the_default_takes_everything() {
        assert!(Filter::default().matches(from("10.0.0.1:9"), Some(1)));
        assert!(Filter::default().matches(None, None));
    }

    #[test]
    fn every_condition_must_hold() {
        let filter = Filter {
            source: Some("10.0.0.1".parse().unwrap()),
            source_port: Some(9),
            destination_port: Some(10),
        };
        assert!(filter.matches(from("10.0.0.1:9"), Some(10)));
        assert!(!filter.matches(from("10.0.0.2:9"), Some(10)));
        assert!(!filter.matches(from("10.0.0.1:8"), Some(10)));
        assert!(!filter.matches(from("10.0.0.1:9"), Some(11)));
        assert!(!filter.matches(from("[2001:db8::1]:9"), Some(10)));
    }

    #[test]
    fn mapped_addresses_are_the_ipv4_ones() {
        let filter = Filter { source: Some("10.0.0.1".parse().unwrap()), ..Filter::default() };
        assert!(filter.matches(from("[::ffff:10.0.0.1]:9"), None));
    }

    #[test]
    fn what_is_not_known_matches() {
        let filter = Filter { source_port: Some(9), ..Filter::default() };
        assert!(filter.matches(None, Some(1)));
    }
}
