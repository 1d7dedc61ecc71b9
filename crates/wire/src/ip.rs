//! What IPv4 and IPv6 share: the numbers of the protocols they carry. And which of the two it is.

use std::net::IpAddr;

use wirebeat_units::PacketLen;

use crate::{ethernet, ipv4, ipv6, udp};

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

    /// The one whose packet begins with these bytes, by its first digit.
    pub fn of_packet(bytes: &[u8]) -> Option<Version> {
        match bytes.first()? >> 4 {
            4 => Some(Version::V4),
            6 => Some(Version::V6),
            _ => None,
        }
    }

    /// The length of the Ethernet frame that a UDP datagram with so many bytes of payload travels in.
    pub fn udp_frame_len(self, payload_len: usize) -> u32 {
        let ip = match self {
            Version::V4 => ipv4::LEN,
            Version::V6 => ipv6::LEN,
        };
        let packet = ethernet::LEN + ip + udp::LEN + payload_len;
        PacketLen::new(packet as u32).buffer().with_fcs()
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
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: Protocol = Protocol(136);
    /// UDP (RFC 768).
    pub const UDP: Protocol = Protocol(17);
    /// IPv6 routing header (RFC 8200 §4.4).
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: Protocol = Protocol(44);
    /// IPv6 destination options (RFC 8200 §4.6).
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);

    /// Whether its header begins with a source and a destination port.
    pub fn has_ports(self) -> bool {
        matches!(
            self,
            Protocol::TCP | Protocol::UDP | Protocol::SCTP | Protocol::DCCP | Protocol::UDP_LITE
        )
    }

    /// Whether it is an extension header of IPv6 that others may follow.
    #[inline]
    pub(crate) fn is_extension(self) -> bool {
        matches!(
            self,
            Protocol::HOP_BY_HOP
                | Protocol::ROUTING
                | Protocol::DESTINATION_OPTIONS
                | Protocol::FRAGMENT
        )
    }
}
