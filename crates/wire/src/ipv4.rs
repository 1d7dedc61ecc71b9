//! IPv4 (RFC 791).

use std::net::{IpAddr, Ipv4Addr};

use crate::ip::Protocol;
use crate::walk::{Header, IpPacket, Part, Policy};

/// Bytes of a header without options.
pub const LEN: usize = 20;
/// "More fragments", and where this one begins, in units of 8 bytes.
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// The packet at the front of `bytes`; `None` when it is another version, is cut short, or its lengths do not fit together
/// as `policy` wants them to. What follows it is padding.
#[inline(always)]
pub(crate) fn packet(bytes: &[u8], policy: Policy) -> Option<IpPacket<'_>> {
    let header: &[u8; LEN] = bytes.first_chunk()?;
    let headers_len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || headers_len < LEN {
        return None;
    }
    let content = match policy {
        Policy::Strict => {
            bytes.get(headers_len..usize::from(u16::from_be_bytes([header[2], header[3]])))?
        }
        Policy::Lenient => bytes.get(headers_len..).unwrap_or_default(),
    };
    let (protocol, header) = (Protocol(header[9]), Header::V4(header));
    Some(IpPacket { header, protocol, headers_len, content, is_routed: false })
}

/// The address in a word of 4 bytes of the header.
#[inline(always)]
pub(crate) fn address(header: &[u8; LEN], word: usize) -> IpAddr {
    // taken as a whole: byte by byte it would be kept byte by byte
    let octets = header.as_chunks::<4>().0.get(word).copied().unwrap_or_default();
    Ipv4Addr::from_bits(u32::from_be_bytes(octets)).into()
}

#[inline]
fn place(header: &[u8; LEN]) -> u16 {
    u16::from_be_bytes([header[6], header[7]])
}

#[inline]
pub(crate) fn is_fragment(header: &[u8; LEN]) -> bool {
    place(header) & (MORE | OFFSET) != 0
}

/// Which part of a packet has this header, with its options of so many bytes.
#[inline]
pub(crate) fn part(header: &[u8; LEN], head_len: usize) -> Option<Part> {
    is_fragment(header).then(|| Part {
        identification: u16::from_be_bytes([header[4], header[5]]).into(),
        offset: usize::from(place(header) & OFFSET) * 8,
        more: place(header) & MORE != 0,
        head_len,
        next: None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// From 192.168.0.1 to 192.168.0.199, with 95 bytes of UDP.
    const HEADER: [u8; LEN] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    /// A packet with that header, `changed` in it, and 100 bytes after it.
    fn bytes(changed: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = [&HEADER[..], &[0xee; 100]].concat();
        for (at, value) in changed {
            bytes[*at] = *value;
        }
        bytes
    }

    fn strict(bytes: &[u8]) -> Option<IpPacket<'_>> {
        packet(bytes, Policy::Strict)
    }

    #[test]
    fn a_packet_is_read_without_its_padding() {
        let bytes = bytes(&[(1, 0xb8)]);
        let packet = strict(&bytes).expect("a packet");
        assert_eq!(
            (packet.source(), packet.destination()),
            ([192, 168, 0, 1].into(), [192, 168, 0, 199].into())
        );
        assert_eq!((packet.ttl(), packet.tos(), packet.protocol), (64, 0xb8, Protocol::UDP));
        assert_eq!((packet.headers_len, packet.content.len()), (LEN, 95));
        assert!(!packet.is_fragment());
    }

    #[test]
    fn options_are_skipped() {
        let bytes = bytes(&[(0, 0x4f)]);
        let packet = strict(&bytes).expect("a packet");
        assert_eq!((packet.headers_len, packet.content.len()), (60, 55));
    }

    #[test]
    fn fragments_are_known_by_flag_or_offset() {
        for (fields, part) in [
            ([0x00, 0x00], None),
            ([0x40, 0x00], None),
            ([0x20, 0x00], Some((0, true))),
            ([0x00, 0x01], Some((8, false))),
        ] {
            let bytes = bytes(&[(6, fields[0]), (7, fields[1])]);
            let packet = strict(&bytes).expect("a packet");
            assert_eq!(packet.part().map(|part| (part.offset, part.more)), part);
        }
    }

    #[test]
    fn lengths_that_do_not_fit_together_are_none() {
        assert!(strict(&bytes(&[])[..LEN - 1]).is_none(), "header cut short");
        assert!(strict(&bytes(&[])[..LEN + 94]).is_none(), "payload cut short");
        assert!(strict(&bytes(&[])[..LEN + 95]).is_some());
        assert!(strict(&bytes(&[(0, 0x65)])).is_none(), "version 6");
        assert!(strict(&bytes(&[(0, 0x44)])).is_none(), "header shorter than a header");
        assert!(strict(&bytes(&[(3, LEN as u8 - 1)])).is_none(), "total shorter than header");
        assert!(strict(&bytes(&[(0, 0x46), (3, 23)])).is_none(), "total within options");
    }

    #[test]
    fn a_frame_that_was_cut_short_has_a_packet_without_its_end() {
        let lenient = |bytes: &[u8]| packet(bytes, Policy::Lenient).map(|ip| ip.content.len());
        assert_eq!(lenient(&bytes(&[])[..LEN + 94]), Some(94));
        assert_eq!(lenient(&bytes(&[(0, 0x4f)])[..LEN]), Some(0), "options cut short");
        assert_eq!(lenient(&bytes(&[])[..LEN - 1]), None);
        assert_eq!(lenient(&bytes(&[(0, 0x44)])), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(mut bytes: Vec<u8>, ihl in 0..16_u8, strict: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = 0x40 | ihl;
            }
            let policy = if strict { Policy::Strict } else { Policy::Lenient };
            if let Some(packet) = packet(&bytes, policy).filter(|_| strict) {
                prop_assert!(packet.headers_len + packet.content.len() <= bytes.len());
            }
        }
    }
}
