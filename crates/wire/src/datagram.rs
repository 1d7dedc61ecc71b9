//! Finds the UDP datagram in a received Ethernet frame.
//!
//! Frames come from anywhere, so nothing in them is believed before it is checked. What is well-formed
//! but not a UDP datagram is [`NotADatagram::Foreign`]; what contradicts itself or is cut short is
//! [`NotADatagram::Malformed`]. Checksums are not looked at: a frame that a network card passed up is
//! whole, and one that a virtual link passed may have its checksum still to be filled in.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::checksum::checksum;
use crate::ethernet::EtherType;
use crate::ip::Protocol;
use crate::walk::{self, Policy};
use crate::{ethernet, ipv4, udp};

/// A UDP datagram and what its headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// The port it comes from.
    pub source_port: u16,
    /// The port it goes to.
    pub destination_port: u16,
    /// Time to live, or hop limit, as it arrived.
    pub ttl: u8,
    /// The ToS byte, or traffic class.
    pub tos: u8,
    /// Bytes from the start of the frame to the payload.
    pub payload_at: usize,
    /// The payload, without the padding of a short frame.
    pub payload: &'a [u8],
}

/// Why a frame holds no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotADatagram {
    /// It is something else: not IP, not UDP, a fragment.
    #[error("the frame is not a UDP datagram")]
    Foreign,
    /// It is cut short, or its lengths contradict each other.
    #[error("the frame is cut short, or its lengths contradict each other")]
    Malformed,
}

use NotADatagram::{Foreign, Malformed};

impl<'a> Datagram<'a> {
    /// Finds the datagram in `frame`, which begins at the Ethernet header and has no FCS. Up to two VLAN
    /// tags may stand before IP.
    #[inline]
    pub fn parse(frame: &'a [u8]) -> Result<Self, NotADatagram> {
        let (ether_type, at) = walk::network(frame).ok_or(Malformed)?;
        let version = ether_type.version().ok_or(Foreign)?;
        let packet = frame.get(at..).unwrap_or_default();
        let ip = walk::ip_packet(packet, version, Policy::Strict).ok_or(Malformed)?;
        // Even the first fragment is not the datagram, only its beginning; its probe is in the last one.
        if ip.protocol != Protocol::UDP || ip.is_fragment() {
            return Err(Foreign);
        }
        let udp = udp::CarriedDatagram::parse(ip.content).ok_or(Malformed)?;
        Ok(Datagram {
            source: ip.source(),
            destination: ip.destination(),
            source_port: udp.source_port(),
            destination_port: udp.destination_port(),
            ttl: ip.ttl(),
            tos: ip.tos(),
            payload_at: at + ip.headers_len + udp::LEN,
            payload: udp.payload(),
        })
    }
}

/// Appends the headers of a datagram of which only the ends and the length of its payload are known, as a socket tells them:
/// Ethernet, IP and UDP, in network byte order and without padding. What is not known is zero: MAC addresses, time to live, the
/// UDP checksum (RFC 768: none). Appends nothing where the addresses are of two versions or the payload fits into no packet.
pub fn append_headers(
    source: SocketAddr,
    destination: SocketAddr,
    payload_len: usize,
    into: &mut Vec<u8>,
) {
    let Ok(udp_len) = u16::try_from(udp::LEN + payload_len) else { return };
    let no_macs = [0; ethernet::LEN - 2];
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let Some(total) = udp_len.checked_add(ipv4::LEN as u16) else { return };
            // version 4 and five words; length, protocol, checksum and addresses are where RFC 791 §3.1 has them
            let mut header = [0; ipv4::LEN];
            (header[0], header[9]) = (0x45, Protocol::UDP.0);
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header[12..16].copy_from_slice(&source.octets());
            header[16..].copy_from_slice(&destination.octets());
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            into.extend_from_slice(&no_macs);
            into.extend_from_slice(&EtherType::IPV4.0.to_be_bytes());
            into.extend_from_slice(&header);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            into.extend_from_slice(&no_macs);
            into.extend_from_slice(&EtherType::IPV6.0.to_be_bytes());
            // version 6, traffic class and flow label, length, next header, hop limit (RFC 8200 §3)
            let [high, low] = udp_len.to_be_bytes();
            into.extend_from_slice(&[0x60, 0, 0, 0, high, low, Protocol::UDP.0, 0]);
            into.extend_from_slice(&source.octets());
            into.extend_from_slice(&destination.octets());
        }
        _ => return,
    }
    for word in [source.port(), destination.port(), udp_len, 0] {
        into.extend_from_slice(&word.to_be_bytes());
    }
}

impl fmt::Display for Datagram<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = SocketAddr::new(self.source, self.source_port);
        let destination = SocketAddr::new(self.destination, self.destination_port);
        write!(f, "UDP {source} > {destination}, {} bytes", self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::udp_frame;

    fn v4(payload: &[u8]) -> Vec<u8> {
        udp_frame("192.0.2.1:49152", "198.51.100.9:9", payload)
    }

    fn v6(payload: &[u8]) -> Vec<u8> {
        udp_frame("[2001:db8::1]:49152", "[2001:db8::2]:9", payload)
    }

    /// `frame` with `tags` in front of its EtherType.
    fn tagged(frame: &[u8], tags: &[u8]) -> Vec<u8> {
        [&frame[..12], tags, &frame[12..]].concat()
    }

    fn changed(mut frame: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
        for (at, value) in changes {
            frame[*at] = *value;
        }
        frame
    }

    #[test]
    fn padding_is_no_payload() {
        let bytes = v4(&[1, 2, 3]);
        assert_eq!(bytes.len(), 60);
        let datagram = Datagram {
            source: [192, 0, 2, 1].into(),
            destination: [198, 51, 100, 9].into(),
            source_port: 49_152,
            destination_port: 9,
            ttl: 64,
            tos: 0xb8,
            payload_at: 42,
            payload: &[1, 2, 3],
        };
        assert_eq!(Datagram::parse(&bytes), Ok(datagram));
        assert_eq!(datagram.to_string(), "UDP 192.0.2.1:49152 > 198.51.100.9:9, 3 bytes");
    }

    #[test]
    fn a_datagram_is_found_over_ipv6() {
        let bytes = v6(&[1, 2, 3]);
        let datagram = Datagram::parse(&bytes).expect("a datagram");
        assert_eq!((datagram.ttl, datagram.tos, datagram.payload_at), (64, 0xb8, 62));
        assert_eq!(datagram.payload, [1, 2, 3]);
        assert_eq!(datagram.to_string(), "UDP [2001:db8::1]:49152 > [2001:db8::2]:9, 3 bytes");
    }

    #[test]
    fn headers_that_were_made_are_read_back() {
        for (source, destination) in
            [("192.0.2.1:49152", "198.51.100.9:9"), ("[2001:db8::1]:49152", "[2001:db8::2]:9")]
        {
            let ends: [SocketAddr; 2] = [source, destination].map(|end| end.parse().unwrap());
            for payload in [&[][..], &[1, 2, 3], &[7; 1472]] {
                let mut frame = Vec::new();
                append_headers(ends[0], ends[1], payload.len(), &mut frame);
                frame.extend_from_slice(payload);
                let datagram = Datagram::parse(&frame).unwrap();
                let found = (datagram.source, datagram.source_port, datagram.ttl);
                assert_eq!(found, (ends[0].ip(), ends[0].port(), 0));
                let found = (datagram.destination, datagram.destination_port);
                assert_eq!(found, (ends[1].ip(), ends[1].port()));
                assert_eq!(datagram.payload, payload);
            }
        }
        let [v4, v6]: [SocketAddr; 2] = ["192.0.2.1:1", "[::1]:1"].map(|end| end.parse().unwrap());
        let mut none = Vec::new();
        append_headers(v4, v6, 5, &mut none);
        append_headers(v4, v4, 65_508, &mut none);
        append_headers(v6, v6, 65_528, &mut none);
        assert!(none.is_empty(), "{none:?}");
    }

    #[test]
    fn a_datagram_is_found_behind_options_and_extension_headers() {
        // Four bytes of options: the header has 6 words, the packet 4 bytes more.
        let bytes = v4(&[7; 30]);
        let bytes = [&bytes[..34], &[1, 1, 1, 1], &bytes[34..]].concat();
        let bytes = changed(bytes, &[(14, 0x46), (17, 62)]);
        let datagram = Datagram::parse(&bytes).expect("a datagram");
        assert_eq!((datagram.payload_at, datagram.payload), (46, &[7; 30][..]));

        // Destination options of 8 bytes, and as much again in the payload length.
        let bytes = v6(&[7; 30]);
        let bytes = [&bytes[..54], &[17, 0, 1, 4, 0, 0, 0, 0], &bytes[54..]].concat();
        let bytes = changed(bytes, &[(19, 46), (20, 60)]);
        let datagram = Datagram::parse(&bytes).expect("a datagram");
        assert_eq!((datagram.payload_at, datagram.payload), (70, &[7; 30][..]));
    }

    #[test]
    fn a_datagram_is_found_behind_two_tags_and_not_behind_three() {
        let (plain, tag) = (v4(&[7; 30]), [0x81, 0x00, 0x00, 0x05]);
        for (tags, payload_at) in [(1, 46), (2, 50)] {
            let bytes = tagged(&plain, &tag.repeat(tags));
            let datagram = Datagram::parse(&bytes).expect("a datagram");
            assert_eq!((datagram.payload_at, datagram.payload), (payload_at, &[7; 30][..]));
        }
        assert_eq!(Datagram::parse(&tagged(&plain, &tag.repeat(3))), Err(Foreign));
    }

    #[test]
    fn what_is_something_else_is_foreign() {
        let fragment = [17, 0, 0, 1, 0, 0, 0, 9];
        for (what, bytes) in [
            ("ARP", changed(v4(&[]), &[(13, 0x06)])),
            ("a length for an EtherType", changed(v4(&[]), &[(12, 0), (13, 46)])),
            ("TCP over IPv4", changed(v4(&[]), &[(23, 6)])),
            ("ICMPv6", changed(v6(&[]), &[(20, 58)])),
            ("the first fragment", changed(v4(&[]), &[(20, 0x20)])),
            ("the last fragment", changed(v4(&[]), &[(21, 1)])),
            (
                "a fragment over IPv6",
                [&changed(v6(&fragment), &[(20, 44)])[..54], &fragment].concat(),
            ),
        ] {
            let padded = [bytes, vec![0; 16]].concat();
            assert_eq!(Datagram::parse(&padded), Err(Foreign), "{what}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_malformed() {
        for (what, bytes) in [
            ("IPv6 in an IPv4 frame", changed(v4(&[]), &[(14, 0x65)])),
            ("IPv4 in an IPv6 frame", changed(v6(&[]), &[(14, 0x45)])),
            ("an IPv4 packet longer than its frame", changed(v4(&[]), &[(17, 47)])),
            ("an IPv6 packet longer than its frame", changed(v6(&[]), &[(19, 9)])),
            ("a datagram longer than its packet", changed(v4(&[1; 30]), &[(39, 39)])),
            ("a datagram shorter than its header", changed(v4(&[1; 30]), &[(39, 7)])),
            ("options that run past the packet", changed(v6(&[1; 8]), &[(20, 60), (55, 2)])),
            ("a packet without room for UDP", changed(v4(&[]), &[(17, 27)])),
        ] {
            assert_eq!(Datagram::parse(&bytes), Err(Malformed), "{what}");
        }
    }

    #[test]
    fn a_frame_cut_short_anywhere_is_malformed() {
        let payload = [7; 30];
        let tags = [0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2];
        for bytes in [v4(&payload), v6(&payload), tagged(&v6(&payload), &tags)] {
            assert!(Datagram::parse(&bytes).is_ok());
            for len in 0..bytes.len() {
                assert_eq!(Datagram::parse(&bytes[..len]), Err(Malformed), "{len} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Datagram::parse(&bytes);
        }

        /// Bytes that are almost a frame get further than random ones.
        #[test]
        fn any_damage_is_parsed_or_refused(
            six: bool,
            tags in 0..4_usize,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            len: prop::sample::Index,
        ) {
            let bytes = if six { v6(&[7; 40]) } else { v4(&[7; 40]) };
            let mut bytes = tagged(&bytes, &[0x81, 0x00, 0, 1].repeat(tags));
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(len.index(bytes.len() + 1));
            if let Ok(datagram) = Datagram::parse(&bytes) {
                let end = datagram.payload_at + datagram.payload.len();
                prop_assert_eq!(&bytes[datagram.payload_at..end], datagram.payload);
            }
        }
    }
}
