//! IPv6 (RFC 8200) and those of its extension headers that may stand before a datagram.

use std::fmt;
use std::net::Ipv6Addr;

use crate::ip::Protocol;

/// Bytes of the fixed header.
pub const LEN: usize = 40;
/// Where the number of what follows lies in the header.
pub const NEXT_HEADER: usize = 6;
/// The most extension headers that are skipped. RFC 8200 §4.1 has each kind once, destination options
/// twice; more is not traffic that we measure, and the bound keeps the work for a forged packet small.
pub const EXTENSIONS_MAX: usize = 5;

const VERSION: u8 = 6;
/// Extension headers are measured in units of this, less one.
const EXTENSION_UNIT: usize = 8;
/// The offset and the flag "more fragments"; both are zero in an atomic fragment (RFC 6946).
const FRAGMENT: u16 = 0xfff8 | 0x0001;
/// Bits of a flow label.
const FLOW_LABEL: u32 = 0x000f_ffff;

/// A packet whose lengths fit together.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; LEN],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Views the packet at the front of `bytes`; what follows it is padding. `None` when it is another
    /// version or is cut short.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<LEN>()?;
        let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if header[0] >> 4 != VERSION {
            return None;
        }
        Some(Packet { header, payload: rest.get(..payload_len)? })
    }

    /// The traffic class: DSCP and ECN (RFC 2474, RFC 3168).
    pub fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }
    /// What a router counts down.
    pub fn hop_limit(&self) -> u8 {
        self.header[7]
    }
    /// Where it comes from.
    pub fn source(&self) -> Ipv6Addr {
        let [_, _, _, _, _, _, _, _, octets @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
            *self.header;
        Ipv6Addr::from(octets)
    }
    /// Where it goes.
    pub fn destination(&self) -> Ipv6Addr {
        let [.., a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *self.header;
        Ipv6Addr::from([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
    }

    /// What follows the fixed header, without padding.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// What the packet carries behind hop-by-hop options, routing header, destination options and
    /// the header of an atomic fragment; `None` when one of these is cut short.
    ///
    /// Where a fragment, or one header too many, keeps us from looking further, that header is what
    /// the packet carries.
    pub fn upper_layer(&self) -> Option<(Protocol, &'a [u8])> {
        let mut next = Protocol(self.header[6]);
        let mut bytes = self.payload;
        for _ in 0..EXTENSIONS_MAX {
            let header = match next {
                Protocol::HOP_BY_HOP
                | Protocol::ROUTING
                | Protocol::DESTINATION_OPTIONS
                | Protocol::FRAGMENT => bytes.first_chunk::<EXTENSION_UNIT>()?,
                _ => break,
            };
            let mut len = EXTENSION_UNIT;
            if next == Protocol::FRAGMENT {
                if u16::from_be_bytes([header[2], header[3]]) & FRAGMENT != 0 {
                    break;
                }
            } else {
                len += usize::from(header[1]) * EXTENSION_UNIT;
            }
            next = Protocol(header[0]);
            bytes = bytes.get(len..)?;
        }
        Some((next, bytes))
    }
}

/// A header to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Where it comes from.
    pub source: Ipv6Addr,
    /// Where it goes.
    pub destination: Ipv6Addr,
    /// What a router counts down.
    pub hop_limit: u8,
    /// The traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// The flow label; its low 20 bits are sent.
    pub flow_label: u32,
}

impl Repr {
    /// Writes the header of a packet that carries `payload_len` bytes of `protocol`.
    pub fn emit(&self, out: &mut [u8; LEN], protocol: Protocol, payload_len: u16) {
        let first = u32::from(VERSION) << 28
            | u32::from(self.traffic_class) << 20
            | self.flow_label & FLOW_LABEL;
        out[..4].copy_from_slice(&first.to_be_bytes());
        out[4..6].copy_from_slice(&payload_len.to_be_bytes());
        out[6] = protocol.0;
        out[7] = self.hop_limit;
        out[8..24].copy_from_slice(&self.source.octets());
        out[24..].copy_from_slice(&self.destination.octets());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr { source, destination, hop_limit, traffic_class, .. } = self;
        write!(f, "IPv6 {source} > {destination}, hop limit {hop_limit}, ")?;
        write!(f, "traffic class {traffic_class:#04x}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPR: Repr = Repr {
        source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        hop_limit: 63,
        traffic_class: 0xb8,
        flow_label: 0x12345,
    };

    /// A packet that carries `payload`, which begins with `next`, and 3 bytes of padding.
    fn packet(next: Protocol, payload: &[u8]) -> Vec<u8> {
        let mut header = [0xff; LEN];
        REPR.emit(&mut header, next, payload.len() as u16);
        [&header[..], payload, &[0; 3]].concat()
    }

    fn upper_layer(next: Protocol, payload: &[u8]) -> Option<(Protocol, Vec<u8>)> {
        let bytes = packet(next, payload);
        let packet = Packet::parse(&bytes).expect("a packet");
        packet.upper_layer().map(|(protocol, bytes)| (protocol, bytes.to_vec()))
    }

    #[test]
    fn a_header_is_written_and_read() {
        let bytes = packet(Protocol::UDP, &[1, 2]);
        assert_eq!(bytes[..8], [0x6b, 0x81, 0x23, 0x45, 0, 2, 17, 63]);
        let packet = Packet::parse(&bytes).expect("a packet");
        assert_eq!((packet.source(), packet.destination()), (REPR.source, REPR.destination));
        assert_eq!((packet.hop_limit(), packet.traffic_class()), (63, 0xb8));
        assert_eq!(packet.upper_layer(), Some((Protocol::UDP, &[1, 2][..])));
        assert_eq!(
            REPR.to_string(),
            "IPv6 2001:db8::1 > 2001:db8::2, hop limit 63, traffic class 0xb8"
        );
    }

    #[test]
    fn a_flow_label_cannot_reach_other_fields() {
        let mut header = [0; LEN];
        Repr { flow_label: u32::MAX, traffic_class: 0, ..REPR }.emit(&mut header, Protocol::UDP, 0);
        assert_eq!(header[..4], [0x60, 0x0f, 0xff, 0xff]);
    }

    #[test]
    fn lengths_that_do_not_fit_together_are_none() {
        let bytes = packet(Protocol::UDP, &[1, 2]);
        assert!(Packet::parse(&bytes[..LEN - 1]).is_none());
        assert!(Packet::parse(&bytes[..LEN + 1]).is_none());
        assert!(Packet::parse(&bytes[..LEN + 2]).is_some());
        let mut bytes = bytes;
        bytes[0] = 0x45;
        assert!(Packet::parse(&bytes).is_none());
    }

    #[test]
    fn extension_headers_are_skipped() {
        let mut payload = vec![60, 0, 1, 4, 0, 0, 0, 0]; // hop-by-hop, then destination options
        payload.extend([43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // these, then routing
        payload.extend([44, 0, 4, 0, 0, 0, 0, 0]); // routing, then fragment
        payload.extend([17, 0, 0, 0, 0, 0, 0, 1]); // atomic fragment, then UDP
        payload.extend([9, 9]);
        assert_eq!(upper_layer(Protocol::HOP_BY_HOP, &payload), Some((Protocol::UDP, vec![9, 9])));
    }

    #[test]
    fn a_fragment_is_what_the_packet_carries() {
        for fields in [[0, 1], [0, 8], [0xff, 0xf8]] {
            let payload = [17, 0, fields[0], fields[1], 0, 0, 0, 1, 9, 9];
            let carried = upper_layer(Protocol::FRAGMENT, &payload).expect("not cut short");
            assert_eq!(carried.0, Protocol::FRAGMENT);
        }
    }

    #[test]
    fn a_long_chain_of_headers_is_not_followed() {
        let mut payload = [60, 0, 1, 4, 0, 0, 0, 0].repeat(EXTENSIONS_MAX);
        payload.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        let carried = upper_layer(Protocol::DESTINATION_OPTIONS, &payload).expect("not cut short");
        assert_eq!(carried.0, Protocol::DESTINATION_OPTIONS);
    }

    #[test]
    fn extension_headers_cut_short_are_none() {
        assert_eq!(upper_layer(Protocol::HOP_BY_HOP, &[17, 0, 1, 4, 0, 0, 0]), None);
        assert_eq!(upper_layer(Protocol::HOP_BY_HOP, &[17, 1, 1, 4, 0, 0, 0, 0]), None);
        assert_eq!(upper_layer(Protocol::FRAGMENT, &[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(bytes: Vec<u8>, next in 0..70_u8, payload: Vec<u8>) {
            if let Some(packet) = Packet::parse(&bytes) {
                packet.upper_layer();
            }
            if let Some((_, carried)) = upper_layer(Protocol(next), &payload) {
                prop_assert!(payload.ends_with(&carried));
            }
        }
    }
}
