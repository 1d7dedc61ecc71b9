//! What IPv4 and IPv6 share: the numbers of the protocols they carry. And which of the two it is.

use std::net::IpAddr;

/// A version of the Internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Version {
    /// The one that has such addresses.
    pub const fn of(address: IpAddr) -> Version {
        match address {
            IpAddr::V4(_) => Version::V4,
            IpAddr::V6(_) => Version::V6,
        }
    }

    /// Bytes of an address.
    pub const fn address_len(self) -> usize {
        match self {
            Version::V4 => 4,
            Version::V6 => 16,
        }
    }
}

/// A protocol number (IPv4) or next header (IPv6), as IANA assigns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options (RFC 8200 §4.3).
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// ICMP (RFC 792).
    pub const ICMP: Protocol = Protocol(1);
    /// IGMP (RFC 2236).
    pub const IGMP: Protocol = Protocol(2);
    /// TCP (RFC 9293).
    pub const TCP: Protocol = Protocol(6);
    /// DCCP (RFC 4340).
    pub const DCCP: Protocol = Protocol(33);
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: Protocol = Protocol(58);
    /// SCTP (RFC 9260).
    pub const SCTP: Protocol = Protocol(132);
    /// UDP (RFC 768).
    pub const UDP: Protocol = Protocol(17);
    /// IPv6 routing header (RFC 8200 §4.4).
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: Protocol = Protocol(44);
    /// IPv6 destination options (RFC 8200 §4.6).
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
}
