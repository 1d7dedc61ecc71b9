//! IPv6 (RFC 8200) and those of its extension headers that may stand before a datagram.

use std::net::IpAddr;

use crate::ip::Protocol;
use crate::walk::{Header, IpPacket, Part, Policy};

/// Bytes of the fixed header.
pub const LEN: usize = 40;
/// The most extension headers that are walked. RFC 8200 §4.1 has each kind once, destination options
/// twice; more is not traffic that we measure, and the bound keeps the work for a forged packet small.
const EXTENSIONS_MAX: usize = 5;
/// Where the number of what follows lies in the fixed header.
pub const NEXT_HEADER: usize = 6;
/// Extension headers are measured in units of this, less one.
const EXTENSION_UNIT: usize = 8;

/// The packet at the front of `bytes`; `None` when it is another version, or where it or an extension header is cut short
/// and `policy` does not allow that. What follows it is padding.
#[inline(always)]
pub(crate) fn packet(bytes: &[u8], policy: Policy) -> Option<IpPacket<'_>> {
    let (header, rest) = bytes.split_first_chunk::<LEN>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let content = match policy {
        Policy::Strict => rest.get(..usize::from(u16::from_be_bytes([header[4], header[5]])))?,
        Policy::Lenient => rest,
    };
    let protocol = Protocol(header[NEXT_HEADER]);
    let mut walked =
        Walked { protocol, headers_len: LEN, content, fragment: None, is_routed: false };
    // Most packets have none.
    if protocol.is_extension() {
        walked = extensions(protocol, content, policy)?;
    }
    let Walked { protocol, headers_len, content, fragment, is_routed } = walked;
    Some(IpPacket {
        header: Header::V6(header, fragment),
        protocol,
        headers_len,
        content,
        is_routed,
    })
}

/// What a walk over extension headers comes to.
struct Walked<'a> {
    protocol: Protocol,
    headers_len: usize,
    content: &'a [u8],
    fragment: Option<FragmentHeader<'a>>,
    is_routed: bool,
}

/// The address that lies at `at`.
#[inline]
pub(crate) fn address(header: &[u8; LEN], at: usize) -> IpAddr {
    header.get(at..).and_then(<[u8]>::first_chunk).map_or([0; 16], |octets| *octets).into()
}

/// The header of a fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentHeader<'a> {
    header: &'a [u8; EXTENSION_UNIT],
    /// Where in the packet it lies, and where its number.
    at: usize,
    next_at: usize,
}

impl FragmentHeader<'_> {
    pub(crate) fn part(self) -> Part {
        let [next, _, _, _, a, b, c, d] = *self.header;
        Part {
            identification: u32::from_be_bytes([a, b, c, d]),
            offset: usize::from(place(self.header) & OFFSET),
            more: place(self.header) & MORE != 0,
            head_len: self.at,
            next: Some((self.next_at, next)),
        }
    }
}

/// The flag "more fragments", and the offset in bytes (RFC 8200 §4.5).
const MORE: u16 = 0x0001;
const OFFSET: u16 = 0xfff8;

fn place(header: &[u8; EXTENSION_UNIT]) -> u16 {
    u16::from_be_bytes([header[2], header[3]])
}

/// Walks over the extension headers at the front of `content`, of which the first is `protocol`.
fn extensions(protocol: Protocol, content: &[u8], policy: Policy) -> Option<Walked<'_>> {
    let mut next_at = NEXT_HEADER;
    let mut walked =
        Walked { protocol, headers_len: LEN, content, fragment: None, is_routed: false };
    for _ in 0..EXTENSIONS_MAX {
        if !walked.protocol.is_extension() {
            break;
        }
        let is_fragment = walked.protocol == Protocol::FRAGMENT;
        let header: Option<&[u8; EXTENSION_UNIT]> = walked.content.first_chunk();
        let units = header.filter(|_| !is_fragment).map_or(1, |header| 1 + usize::from(header[1]));
        let behind = walked.content.get(units * EXTENSION_UNIT..);
        let (Some(header), Some(behind)) = (header, behind) else {
            return (policy == Policy::Lenient).then_some(walked);
        };
        // The header of an atomic fragment says nothing (RFC 6946).
        if is_fragment && place(header) & (MORE | OFFSET) != 0 {
            let at = walked.headers_len;
            walked.fragment = Some(FragmentHeader { header, at, next_at });
        }
        if walked.protocol == Protocol::ROUTING {
            // the segments that are left
            walked.is_routed |= header[3] != 0;
        }
        next_at = walked.headers_len;
        walked.protocol = Protocol(header[0]);
        walked.headers_len += units * EXTENSION_UNIT;
        walked.content = behind;
        let follows = |fragment: FragmentHeader<'_>| place(fragment.header) & OFFSET != 0;
        if walked.fragment.is_some_and(|it| policy == Policy::Strict || follows(it)) {
            break;
        }
    }
    Some(walked)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet that carries `payload`, which begins with `next`, and 3 bytes of padding.
    fn bytes(next: Protocol, payload: &[u8]) -> Vec<u8> {
        let mut header = [0; LEN];
        header[..8].copy_from_slice(&[0x6b, 0x81, 0x23, 0x45, 0, payload.len() as u8, next.0, 63]);
        header[8..].fill(0xfd);
        header[LEN - 1] = 2;
        [&header[..], payload, &[0; 3]].concat()
    }

    fn strict(bytes: &[u8]) -> Option<IpPacket<'_>> {
        packet(bytes, Policy::Strict)
    }

    fn upper_layer(next: Protocol, payload: &[u8]) -> Option<(Protocol, Vec<u8>)> {
        let bytes = bytes(next, payload);
        strict(&bytes).map(|ip| (ip.protocol, ip.content.to_vec()))
    }

    #[test]
    fn a_packet_is_read_without_its_padding() {
        let bytes = bytes(Protocol::UDP, &[1, 2]);
        let packet = strict(&bytes).expect("a packet");
        let mut end = [0xfd_u8; 16];
        assert_eq!(packet.source(), IpAddr::from(end));
        end[15] = 2;
        assert_eq!(packet.destination(), IpAddr::from(end));
        assert_eq!((packet.ttl(), packet.tos()), (63, 0xb8));
        assert_eq!((packet.protocol, packet.content), (Protocol::UDP, &[1, 2][..]));
    }

    #[test]
    fn lengths_that_do_not_fit_together_are_none() {
        let bytes = bytes(Protocol::UDP, &[1, 2]);
        assert!(strict(&bytes[..LEN - 1]).is_none());
        assert!(strict(&bytes[..LEN + 1]).is_none());
        assert!(strict(&bytes[..LEN + 2]).is_some());
        assert!(packet(&bytes[..LEN + 1], Policy::Lenient).is_some());
        assert!(packet(&bytes[..LEN - 1], Policy::Lenient).is_none());
        let mut bytes = bytes;
        bytes[0] = 0x45;
        assert!(strict(&bytes).is_none());
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
    fn the_walk_ends_at_a_fragment_or_goes_on_in_a_first_one() {
        for (fields, offset, more) in
            [([0, 1], 0, true), ([0, 8], 8, false), ([0xff, 0xf8], 0xfff8, false)]
        {
            // destination options behind it
            let payload = [60, 0, fields[0], fields[1], 0, 0, 0, 1, 17, 0, 1, 4, 0, 0, 0, 0, 9];
            let bytes = bytes(Protocol::FRAGMENT, &payload);
            let next = Some((NEXT_HEADER, 60));
            let part = Part { identification: 1, offset, more, head_len: LEN, next };
            let ip = strict(&bytes).expect("a packet");
            assert_eq!(
                (ip.part(), ip.protocol, ip.content.len()),
                (Some(part), Protocol::DESTINATION_OPTIONS, 9)
            );
            let ip = packet(&bytes, Policy::Lenient).expect("a packet");
            assert_eq!((ip.part(), ip.protocol == Protocol::UDP), (Some(part), offset == 0));
        }
    }

    #[test]
    fn a_long_chain_of_headers_is_not_followed() {
        let mut payload = [60, 0, 1, 4, 0, 0, 0, 0].repeat(EXTENSIONS_MAX);
        payload.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        let carried = upper_layer(Protocol::DESTINATION_OPTIONS, &payload).expect("not cut short");
        assert_eq!(carried.0, Protocol::DESTINATION_OPTIONS);
        let carried =
            upper_layer(Protocol::DESTINATION_OPTIONS, &payload[8..]).expect("not cut short");
        assert_eq!(carried.0, Protocol::UDP);
    }

    #[test]
    fn extension_headers_cut_short_are_none() {
        for (next, payload) in [
            (Protocol::HOP_BY_HOP, &[17, 0, 1, 4, 0, 0, 0][..]),
            (Protocol::HOP_BY_HOP, &[17, 1, 1, 4, 0, 0, 0, 0]),
            (Protocol::FRAGMENT, &[]),
        ] {
            assert_eq!(upper_layer(next, payload), None);
            let bytes = bytes(next, payload);
            let cut = packet(&bytes[..LEN + payload.len()], Policy::Lenient).expect("a packet");
            assert_eq!(cut.protocol, next);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(any: Vec<u8>, next in 0..70_u8, payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (strict(&any), packet(&any, Policy::Lenient));
            if let Some((_, carried)) = upper_layer(Protocol(next), &payload) {
                prop_assert!(payload.ends_with(&carried));
            }
        }
    }
}
