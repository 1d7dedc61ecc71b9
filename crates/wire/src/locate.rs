//! Where the headers of a frame are, also where the frame was cut short when it was captured.
//!
//! [`crate::datagram`] believes nothing that does not fit together, because what it finds is measured. Here nothing is
//! measured: what is there is found, and what is missing is not. Only the outermost IP header is looked for, behind
//! VLAN tags and MPLS labels; tunnels are not opened.

use crate::ethernet::EtherType;
use crate::ip::{Protocol, Version};
use crate::walk::{self, Policy};

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

/// Finds the headers of `frame`, which begins at the Ethernet header; `None` where that or a tag is cut short.
#[inline]
pub fn locate(frame: &[u8]) -> Option<Located> {
    let (ether_type, at) = walk::network(frame)?;
    let packet = frame.get(at..)?;
    let (version, packet) = match ether_type.is_mpls() {
        true => walk::behind_labels(packet).unwrap_or((None, packet)),
        false => (ether_type.version(), packet),
    };
    let at = frame.len() - packet.len();
    let ip = version.and_then(|version| walk::ip_packet(packet, version, Policy::Lenient));
    let (Some(version), Some(ip)) = (version, ip) else {
        // Hardware type 1, protocol 0x0800, and the lengths of their addresses.
        let is_arp = ether_type == EtherType::ARP
            && packet.starts_with(&[0, 1, 8, 0, 6, 4])
            && packet.len() >= 28;
        let network = if is_arp { Network::Arp } else { Network::Other };
        let (protocol, carried) = (Protocol(0), Carried::Nothing);
        return Some(Located { network, at, protocol, carried, is_routed: false });
    };
    let begin = at + ip.headers_len;
    Some(Located {
        network: if version == Version::V4 { Network::V4 } else { Network::V6 },
        at,
        protocol: ip.protocol,
        carried: match ip.part() {
            Some(part) if part.offset > 0 => Carried::Following(part.identification),
            _ if ip.protocol.is_extension() => Carried::Nothing,
            Some(part) => Carried::First(begin, part.identification),
            None => Carried::Whole(begin),
        },
        is_routed: ip.is_routed,
    })
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
