//! Where the headers of a frame are, also where the frame was cut short when it was captured.
//!
//! [`crate::datagram`] believes nothing that does not fit together, because what it finds is measured. Here nothing is
//! measured: what is there is found, and what is missing is not. Only the outermost IP header is looked for, behind
//! VLAN tags and MPLS labels; tunnels are not opened.

use crate::carrier::MAX_LABELS;
use crate::ethernet::{self, EtherType};
use crate::ip::Protocol;
use crate::{ipv4, ipv6, vlan};

/// The most extension headers of IPv6 that are walked.
const EXTENSIONS_MAX: usize = 8;
/// Flags and offset of a fragment: what is left of them says where it lies (RFC 791 §3.1).
const OFFSET_V4: u16 = 0x1fff;
const MORE_V4: u16 = 0x2000;
/// The same in the fragment header of IPv6 (RFC 8200 §4.5).
const OFFSET_V6: u16 = 0xfff8;
const MORE_V6: u16 = 0x0001;

/// The network header of a frame, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// What it is.
    pub network: Network,
    /// Where it begins.
    pub at: usize,
    /// What IP carries, behind extension headers.
    pub protocol: Protocol,
    /// Where that begins, and whether it is all there.
    pub carried: Carried,
    /// Whether a routing header says that the destination is not the last one, which checksums cover
    /// (RFC 8200 §8.1).
    pub is_routed: bool,
}

/// A network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// ARP (RFC 826) of IPv4 over Ethernet.
    Arp,
    /// Any other.
    Other,
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// The transport header, and it begins here.
    Whole(usize),
    /// The same of a first fragment, with the identification of the packet.
    First(usize, u32),
    /// What follows in another fragment, with the identification of the packet.
    Following(u32),
    /// Nothing that was found.
    Nothing,
}

impl Carried {
    /// Where the transport header begins.
    #[inline]
    pub fn transport(self) -> Option<usize> {
        match self {
            Carried::Whole(at) | Carried::First(at, _) => Some(at),
            Carried::Following(_) | Carried::Nothing => None,
        }
    }
}

/// The two bytes at `at`.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Finds the headers of `frame`, which begins at the Ethernet header; `None` where that or a tag is cut short.
#[inline]
pub fn locate(frame: &[u8]) -> Option<Located> {
    let ether_type = EtherType(word(frame, 12)?);
    let (ether_type, rest) = vlan::skip(ether_type, frame.get(ethernet::LEN..)?)?;
    let (ether_type, rest) = match ether_type {
        EtherType::MPLS | EtherType::MPLS_MULTICAST => behind_labels(rest),
        _ => (ether_type, rest),
    };
    let at = frame.len() - rest.len();
    let other = Located {
        network: Network::Other,
        at,
        protocol: Protocol(0),
        carried: Carried::Nothing,
        is_routed: false,
    };
    Some(match ether_type {
        EtherType::IPV4 => v4(rest, other).unwrap_or(other),
        EtherType::IPV6 => v6(rest, other).unwrap_or(other),
        // Hardware type 1, protocol 0x0800, and the lengths of their addresses.
        EtherType::ARP if rest.starts_with(&[0, 1, 8, 0, 6, 4]) && rest.len() >= 28 => {
            Located { network: Network::Arp, ..other }
        }
        _ => other,
    })
}

/// What stands behind a stack of labels: IP by its first digit (RFC 4928).
fn behind_labels(mut packet: &[u8]) -> (EtherType, &[u8]) {
    let whole = packet;
    for _ in 0..MAX_LABELS {
        let Some((label, rest)) = packet.split_first_chunk::<4>() else { break };
        packet = rest;
        if label[2] & 1 == 1 {
            return match packet.first().map(|byte| byte >> 4) {
                Some(4) => (EtherType::IPV4, packet),
                Some(6) => (EtherType::IPV6, packet),
                _ => (EtherType::MPLS, packet),
            };
        }
    }
    (EtherType::MPLS, whole)
}

fn v4(bytes: &[u8], other: Located) -> Option<Located> {
    let header: &[u8; ipv4::LEN] = bytes.first_chunk()?;
    let len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || len < ipv4::LEN {
        return None;
    }
    let place = u16::from_be_bytes([header[6], header[7]]);
    let identification = u16::from_be_bytes([header[4], header[5]]).into();
    let begin = other.at + len;
    let carried = match (place & OFFSET_V4, place & MORE_V4) {
        (0, 0) => Carried::Whole(begin),
        (0, _) => Carried::First(begin, identification),
        _ => Carried::Following(identification),
    };
    Some(Located { network: Network::V4, protocol: Protocol(header[9]), carried, ..other })
}

fn v6(bytes: &[u8], other: Located) -> Option<Located> {
    let header: &[u8; ipv6::LEN] = bytes.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let mut found = Located { network: Network::V6, protocol: Protocol(header[6]), ..other };
    let (mut at, mut first) = (ipv6::LEN, None);
    for _ in 0..EXTENSIONS_MAX {
        let is_extension = matches!(
            found.protocol,
            Protocol::HOP_BY_HOP
                | Protocol::ROUTING
                | Protocol::DESTINATION_OPTIONS
                | Protocol::FRAGMENT
        );
        if !is_extension {
            let begin = other.at + at;
            found.carried = first.map_or(Carried::Whole(begin), |id| Carried::First(begin, id));
            return Some(found);
        }
        let Some(&[next, len, high, low, a, b, c, d]) =
            bytes.get(at..).and_then(<[u8]>::first_chunk)
        else {
            return Some(found);
        };
        let mut units = 1 + usize::from(len);
        if found.protocol == Protocol::FRAGMENT {
            let place = u16::from_be_bytes([high, low]);
            let identification = u32::from_be_bytes([a, b, c, d]);
            units = 1;
            if place & OFFSET_V6 != 0 {
                found.protocol = Protocol(next);
                found.carried = Carried::Following(identification);
                return Some(found);
            }
            first = (place & MORE_V6 != 0).then_some(identification);
        } else if found.protocol == Protocol::ROUTING {
            // the segments that are left
            found.is_routed |= low != 0;
        }
        found.protocol = Protocol(next);
        at += units * 8;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(ether_type: u16, rest: &[u8]) -> Vec<u8> {
        [&[2; 12], &ether_type.to_be_bytes()[..], rest].concat()
    }

    fn ip(place: u16, protocol: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0x12, 0x34, 0, 0, 64, protocol, 0, 0];
        packet[6..8].copy_from_slice(&place.to_be_bytes());
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 0, 81, 0, 8, 0, 0]);
        packet
    }

    fn ip6(next: u8, rest: &[u8]) -> Vec<u8> {
        [&[0x60, 0, 0, 0, 0, 0, next, 64][..], &[0xfd; 32], rest].concat()
    }

    #[test]
    fn fragments_are_told_apart() {
        let carried = |place| locate(&frame(0x0800, &ip(place, 17))).unwrap().carried;
        assert_eq!(carried(0x4000), Carried::Whole(34));
        assert_eq!(carried(0x2000), Carried::First(34, 0x1234));
        assert_eq!(carried(0x2001), Carried::Following(0x1234));
        assert_eq!(carried(0x0001), Carried::Following(0x1234));
    }

    #[test]
    fn tags_and_labels_are_skipped() {
        let tagged = frame(0x88a8, &[&[0, 1, 0x81, 0, 0, 2, 8, 0][..], &ip(0, 6)].concat());
        assert_eq!(locate(&tagged).unwrap().carried, Carried::Whole(42));
        let labelled = frame(0x8847, &[&[0, 1, 0, 64, 0, 1, 1, 64][..], &ip(0, 6)].concat());
        let found = locate(&labelled).unwrap();
        assert_eq!((found.network, found.at, found.protocol), (Network::V4, 22, Protocol::TCP));
    }

    #[test]
    fn extension_headers_are_walked() {
        let tail = [17, 0, 0, 0, 0, 0, 0, 0, 0, 80, 0, 81, 0, 8, 0, 0];
        let found = locate(&frame(0x86dd, &ip6(60, &tail))).unwrap();
        assert_eq!((found.protocol, found.carried), (Protocol::UDP, Carried::Whole(62)));
        let routed = [17, 0, 0, 1, 0, 0, 0, 0];
        assert!(locate(&frame(0x86dd, &ip6(43, &routed))).unwrap().is_routed);
        let first = locate(&frame(0x86dd, &ip6(44, &[17, 0, 0, 1, 0, 0, 0, 9]))).unwrap();
        assert_eq!(first.carried, Carried::First(62, 9));
        let later = locate(&frame(0x86dd, &ip6(44, &[17, 0, 0, 8, 0, 0, 0, 9]))).unwrap();
        assert_eq!((later.protocol, later.carried), (Protocol::UDP, Carried::Following(9)));
    }

    #[test]
    fn what_is_cut_short_is_not_found() {
        assert_eq!(locate(&[0; 13]), None);
        assert_eq!(locate(&frame(0x8100, &[0, 1])), None);
        assert_eq!(locate(&frame(0x0800, &ip(0, 6)[..19])).unwrap().network, Network::Other);
        assert_eq!(locate(&frame(0x86dd, &ip6(60, &[17, 0]))).unwrap().carried, Carried::Nothing);
        assert_eq!(locate(&frame(0x0806, &[0, 1, 8, 0, 6, 4])).unwrap().network, Network::Other);
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(
            ether_type in prop::sample::select(vec![0x0800_u16, 0x8847, 0x86dd, 0x8100, 0x0806]),
            mut rest in prop::collection::vec(any::<u8>(), 0..120),
            first in prop::sample::select(vec![0x45_u8, 0x60, 0x4f, 0x00]),
        ) {
            if let Some(byte) = rest.first_mut() {
                *byte = first;
            }
            let bytes = frame(ether_type, &rest);
            if let Some(at) = locate(&bytes).and_then(|found| found.carried.transport()) {
                prop_assert!(at >= 34);
            }
        }
    }
}
