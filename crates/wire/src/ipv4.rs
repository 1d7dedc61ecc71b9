//! IPv4 (RFC 791).

use std::fmt;
use std::net::Ipv4Addr;

use crate::checksum::checksum;
use crate::ip::Protocol;

/// Bytes of a header without options.
pub const LEN: usize = 20;
/// Where the identification lies in the header.
pub const IDENTIFICATION: usize = 4;

const VERSION: u8 = 4;
/// The flag that forbids fragmentation.
const DONT_FRAGMENT: u16 = 0x4000;
/// The flag and the offset that only fragments have: "more fragments", and where this one begins.
const FRAGMENT: u16 = 0x2000 | 0x1fff;

/// A packet whose lengths fit together.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; LEN],
    header_len: usize,
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Views the packet at the front of `bytes`; what follows it is padding. `None` when it is another
    /// version, is cut short, or its lengths do not fit together. The checksum is not looked at.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header: &[u8; LEN] = bytes.first_chunk()?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != VERSION || header_len < LEN {
            return None;
        }
        Some(Packet { header, header_len, payload: bytes.get(header_len..total_len)? })
    }

    /// Bytes of the header with its options.
    pub fn header_len(&self) -> usize {
        self.header_len
    }
    /// The ToS byte: DSCP and ECN (RFC 2474, RFC 3168).
    pub fn tos(&self) -> u8 {
        self.header[1]
    }
    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.header[8]
    }
    /// What it carries.
    pub fn protocol(&self) -> Protocol {
        Protocol(self.header[9])
    }
    /// Whether it is only a part of a packet.
    pub fn is_fragment(&self) -> bool {
        u16::from_be_bytes([self.header[6], self.header[7]]) & FRAGMENT != 0
    }
    /// Where it comes from.
    pub fn source(&self) -> Ipv4Addr {
        let [.., a, b, c, d, _, _, _, _] = *self.header;
        Ipv4Addr::new(a, b, c, d)
    }
    /// Where it goes.
    pub fn destination(&self) -> Ipv4Addr {
        let [.., a, b, c, d] = *self.header;
        Ipv4Addr::new(a, b, c, d)
    }
    /// What follows the header, without padding.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header without options, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Where it comes from.
    pub source: Ipv4Addr,
    /// Where it goes.
    pub destination: Ipv4Addr,
    /// Time to live.
    pub ttl: u8,
    /// The ToS byte: DSCP and ECN.
    pub tos: u8,
    /// Tells packets apart whose fragments are put together again.
    pub identification: u16,
    /// Whether routers may not fragment it.
    pub dont_fragment: bool,
}

impl Repr {
    /// Writes the header of a packet that carries `payload_len` bytes of `protocol`, with its checksum.
    /// A payload that does not fit into a packet (65 535 bytes) is not told from the longest that does.
    pub fn emit(&self, out: &mut [u8; LEN], protocol: Protocol, payload_len: u16) {
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        out[0] = VERSION << 4 | (LEN / 4) as u8;
        out[1] = self.tos;
        out[2..4].copy_from_slice(&payload_len.saturating_add(LEN as u16).to_be_bytes());
        out[4..6].copy_from_slice(&self.identification.to_be_bytes());
        out[6..8].copy_from_slice(&flags.to_be_bytes());
        out[8] = self.ttl;
        out[9] = protocol.0;
        out[10..12].fill(0);
        out[12..16].copy_from_slice(&self.source.octets());
        out[16..].copy_from_slice(&self.destination.octets());
        let checksum = checksum(out);
        out[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr { source, destination, ttl, tos, .. } = self;
        write!(f, "IPv4 {source} > {destination}, TTL {ttl}, ToS {tos:#04x}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPR: Repr = Repr {
        source: Ipv4Addr::new(192, 168, 0, 1),
        destination: Ipv4Addr::new(192, 168, 0, 199),
        ttl: 64,
        tos: 0,
        identification: 0,
        dont_fragment: true,
    };
    /// [`REPR`] with 95 bytes of UDP.
    const HEADER: [u8; LEN] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    /// A packet with that header, `changed` in it, and 100 bytes after it.
    fn packet(changed: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = [&HEADER[..], &[0xee; 100]].concat();
        for (at, value) in changed {
            bytes[*at] = *value;
        }
        bytes
    }

    #[test]
    fn a_header_is_written_over_whatever_was_there() {
        let mut out = [0xff; LEN];
        REPR.emit(&mut out, Protocol::UDP, 95);
        assert_eq!(out, HEADER);
        assert_eq!(REPR.to_string(), "IPv4 192.168.0.1 > 192.168.0.199, TTL 64, ToS 0x00");
    }

    #[test]
    fn a_packet_is_read_without_its_padding() {
        let bytes = packet(&[(1, 0xb8)]);
        let packet = Packet::parse(&bytes).expect("a packet");
        assert_eq!((packet.source(), packet.destination()), (REPR.source, REPR.destination));
        assert_eq!((packet.ttl(), packet.tos(), packet.protocol()), (64, 0xb8, Protocol::UDP));
        assert_eq!((packet.header_len(), packet.payload().len()), (LEN, 95));
        assert!(!packet.is_fragment());
    }

    #[test]
    fn options_are_skipped() {
        let bytes = packet(&[(0, 0x4f)]);
        let packet = Packet::parse(&bytes).expect("a packet");
        assert_eq!((packet.header_len(), packet.payload().len()), (60, 55));
    }

    #[test]
    fn fragments_are_known_by_flag_or_offset() {
        for (fields, fragment) in [
            ([0x00, 0x00], false),
            ([0x40, 0x00], false),
            ([0x20, 0x00], true),
            ([0x00, 0x01], true),
        ] {
            let bytes = packet(&[(6, fields[0]), (7, fields[1])]);
            assert_eq!(Packet::parse(&bytes).map(|p| p.is_fragment()), Some(fragment));
        }
    }

    #[test]
    fn lengths_that_do_not_fit_together_are_none() {
        assert!(Packet::parse(&packet(&[])[..LEN - 1]).is_none(), "header cut short");
        assert!(Packet::parse(&packet(&[])[..LEN + 94]).is_none(), "payload cut short");
        assert!(Packet::parse(&packet(&[])[..LEN + 95]).is_some());
        assert!(Packet::parse(&packet(&[(0, 0x65)])).is_none(), "version 6");
        assert!(Packet::parse(&packet(&[(0, 0x44)])).is_none(), "header shorter than a header");
        assert!(
            Packet::parse(&packet(&[(3, LEN as u8 - 1)])).is_none(),
            "total shorter than header"
        );
        assert!(Packet::parse(&packet(&[(0, 0x46), (3, 23)])).is_none(), "total within options");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(mut bytes: Vec<u8>, ihl in 0..16_u8) {
            if let Some(first) = bytes.first_mut() {
                *first = 0x40 | ihl;
            }
            if let Some(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.header_len() + packet.payload().len() <= bytes.len());
            }
        }
    }
}
