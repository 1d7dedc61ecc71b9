//! The headers by which frames of a flow are recognised where they carry no probe: EtherType, IP protocol, addresses,
//! and ports or what a protocol has in their place.
//!
//! A [`HeaderKey`] is 40 bytes of a frame in a fixed order, so that it is compared with a mask and without knowing
//! protocols. Nothing of it changes on the way through bridges and routers; only what is not an IP packet is known by its
//! Ethernet addresses. `bpf/headers.h` makes the same keys; this is its reference.

use crate::ethernet::{self, EtherType};
use crate::ip::{Protocol, Version};
use crate::walk::{self, Policy};
use crate::{ipv6, vlan};

/// Bytes of a key.
pub const LEN: usize = 40;

/// Where each part lies in a key: EtherType 2, protocol 1, what kind of key 1, ports 4, source 16, destination 16.
/// An address that is shorter is followed by zeros.
const PROTOCOL: usize = 2;
const KIND: usize = 3;
const PORTS: usize = 4;
const SOURCE: usize = 8;
const DESTINATION: usize = 24;
/// A key of what is not an IP packet.
const NOT_IP: u8 = 1;
/// Below this, the EtherType is a length (IEEE 802.3 §3.2.6).
const ETHER_TYPE_MIN: u16 = 0x600;

/// What headers say of a frame, in a fixed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderKey([u8; LEN]);

/// Part of a key: so many bytes at a place of the key, and where they lie in the frame.
#[derive(Clone, Copy, Debug, Default)]
struct KeyPart {
    key_at: usize,
    frame_at: usize,
    len: usize,
}

/// What a key is made of.
#[derive(Clone, Copy, Debug)]
struct Parts {
    ether_type: u16,
    protocol: u8,
    kind: u8,
    parts: [KeyPart; 3],
    /// From where on the network header lies in the frame.
    network_at: usize,
}

impl HeaderKey {
    /// Of `frame`, which begins at the Ethernet header and has no FCS. `None` for a fragment, and for what is shorter
    /// than its Ethernet header.
    pub fn of(frame: &[u8]) -> Option<HeaderKey> {
        Parts::of(frame)?.key(frame)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// The same with all bits zero that `mask` has not.
    #[must_use]
    pub fn masked(&self, mask: &[u8; LEN]) -> HeaderKey {
        let mut key = self.0;
        key.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
        HeaderKey(key)
    }
}

/// The headers of a flow: its frames have a key that is this one under the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderMatch {
    /// The key, masked.
    pub key: HeaderKey,
    /// Its bits that are the same in all frames of the flow.
    pub mask: [u8; LEN],
}

impl HeaderMatch {
    /// Of frames like `frame`, of which those bytes may change that `changes` says. `None` where that can turn it into a
    /// frame of another kind, or where it has no key.
    pub fn of(frame: &[u8], changes: impl Fn(usize) -> bool) -> Option<HeaderMatch> {
        Self::of_bits(frame, |at| if changes(at) { 0xff } else { 0 })
    }

    /// The same of frames of which those bits of a byte may change that `changing` says.
    pub fn of_bits(frame: &[u8], changing: impl Fn(usize) -> u8) -> Option<HeaderMatch> {
        let parts = Parts::of(frame)?;
        if parts.structure(frame).any(|at| changing(at) != 0) {
            return None;
        }
        let mut mask = [0xff; LEN];
        for part in parts.parts {
            for (byte, at) in mask[part.key_at..].iter_mut().zip(part.frame_at..).take(part.len) {
                *byte = !changing(at);
            }
        }
        Some(HeaderMatch { key: parts.key(frame)?.masked(&mask), mask })
    }

    /// Whether they are those of UDP.
    pub fn is_udp(&self) -> bool {
        self.key.0[KIND] != NOT_IP && self.key.0[PROTOCOL] == Protocol::UDP.0
    }

    /// The same with any source port, where it has ports.
    #[must_use]
    pub fn from_any_port(self) -> HeaderMatch {
        let mut mask = self.mask;
        mask[PORTS..PORTS + 2].fill(0);
        HeaderMatch { key: self.key.masked(&mask), mask }
    }

    /// Whether a frame with this key is meant.
    pub fn matches(&self, key: &HeaderKey) -> bool {
        key.masked(&self.mask) == self.key
    }

    /// Whether there can be a frame that both mean.
    pub fn overlaps(&self, other: &HeaderMatch) -> bool {
        let both = |at: usize| self.mask[at] & other.mask[at];
        (0..LEN).all(|at| (self.key.0[at] ^ other.key.0[at]) & both(at) == 0)
    }
}

impl Parts {
    fn of(frame: &[u8]) -> Option<Parts> {
        let (ether_type, network_at) = walk::network(frame)?;
        let packet = frame.get(network_at..).unwrap_or_default();
        let ip = ether_type
            .version()
            .and_then(|version| Some((version, walk::ip_packet(packet, version, Policy::Strict)?)));
        let Some((version, ip)) = ip else {
            // what is no IP packet, or one that contradicts itself
            return Some(Parts::not_ip(ether_type, frame, network_at));
        };
        if ip.is_fragment() {
            // it says little of what it is part of
            return None;
        }
        let (source, len) = if version == Version::V4 { (12, 4) } else { (8, 16) };
        let ports = match ip.protocol {
            _ if ip.content.len() < 4 => 0,
            protocol if protocol.has_ports() => 4,
            // type and code
            Protocol::ICMP | Protocol::ICMPV6 => 2,
            _ => 0,
        };
        let source_at = network_at + source;
        let ports_at = network_at + ip.headers_len;
        Some(Parts {
            ether_type: ether_type.0,
            protocol: ip.protocol.0,
            kind: 0,
            parts: [
                KeyPart { key_at: PORTS, frame_at: ports_at, len: ports },
                KeyPart { key_at: SOURCE, frame_at: source_at, len },
                KeyPart { key_at: DESTINATION, frame_at: source_at + len, len },
            ],
            network_at,
        })
    }

    /// By Ethernet addresses, and the first four bytes behind the EtherType.
    fn not_ip(ether_type: EtherType, frame: &[u8], network_at: usize) -> Parts {
        let first = if frame.len() - network_at < 4 { 0 } else { 4 };
        let length = ether_type.0 < ETHER_TYPE_MIN;
        Parts {
            ether_type: if length { 0 } else { ether_type.0 },
            protocol: 0,
            kind: NOT_IP,
            parts: [
                KeyPart { key_at: PORTS, frame_at: network_at, len: first },
                KeyPart { key_at: SOURCE, frame_at: 6, len: 6 },
                KeyPart { key_at: DESTINATION, frame_at: 0, len: 6 },
            ],
            network_at,
        }
    }

    fn key(&self, frame: &[u8]) -> Option<HeaderKey> {
        let mut key = [0; LEN];
        key[..2].copy_from_slice(&self.ether_type.to_be_bytes());
        (key[PROTOCOL], key[KIND]) = (self.protocol, self.kind);
        for KeyPart { key_at, frame_at, len } in self.parts {
            key[key_at..key_at + len].copy_from_slice(frame.get(frame_at..frame_at + len)?);
        }
        Some(HeaderKey(key))
    }

    /// Offsets of the bytes that say which headers there are.
    fn structure(&self, frame: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let tags = (self.network_at - ethernet::LEN) / vlan::LEN;
        let ether_types = (0..=tags).flat_map(|tag| [12 + tag * vlan::LEN, 13 + tag * vlan::LEN]);
        // a length in place of the type may change
        let ether_types = ether_types.filter({
            let length = self.ether_type == 0;
            move |_| !length
        });
        let (at, ip) = (self.network_at, self.kind != NOT_IP);
        let v6 = self.ether_type == EtherType::IPV6.0;
        let transport = self.parts[0].frame_at.min(frame.len());
        let v4_bytes = [at, at + 6, at + 7, at + 9].into_iter().filter(move |_| ip && !v6);
        // version, next header, extension headers
        let v6_bytes = [at, at + 6].into_iter().chain(at + ipv6::LEN..transport);
        ether_types.chain(v4_bytes).chain(v6_bytes.filter(move |_| ip && v6))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// From 10.0.0.1 to 10.0.0.2.
    fn v4(protocol: u8, content: &[u8]) -> Vec<u8> {
        let mut frame = vec![4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 8, 0, 0x45, 0];
        frame.extend((20 + content.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(content);
        frame.resize(frame.len().max(60), 0);
        frame
    }

    fn same(a: &[u8], b: &[u8]) -> bool {
        HeaderKey::of(a).unwrap() == HeaderKey::of(b).unwrap()
    }

    #[test]
    fn frames_of_a_connection_have_one_key_whatever_else_is_in_them() {
        let syn = v4(6, &[0, 9, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
        let mut other = syn.clone();
        // through a router: other addresses of Ethernet, one hop less; another sequence number
        other[..12].fill(7);
        other[22] -= 1;
        other[40] = 9;
        assert!(same(&syn, &other));
        for (at, what) in [(23, "protocol"), (26, "source"), (33, "destination"), (37, "port")] {
            let mut other = syn.clone();
            other[at] ^= 1;
            assert!(!same(&syn, &other), "{what}");
        }
        let tagged = [&syn[..12], &[0x81, 0, 0, 5], &syn[12..]].concat();
        assert!(same(&syn, &tagged), "a tag");
    }

    #[test]
    fn of_icmp_type_and_code_are_in_it_and_of_others_nothing() {
        let echo = v4(1, &[8, 0, 1, 2, 0, 1, 0, 1]);
        assert!(same(&echo, &v4(1, &[8, 0, 9, 9, 0, 1, 0, 2])));
        assert!(!same(&echo, &v4(1, &[0, 0, 1, 2, 0, 1, 0, 1])), "the answer");
        assert!(same(&v4(47, &[1; 8]), &v4(47, &[2; 8])));
    }

    #[test]
    fn what_is_no_ip_packet_is_known_by_its_ethernet_header_and_four_bytes_more() {
        let arp = [&[0xff; 6][..], &[2; 6], &[8, 6, 0, 1, 8, 0, 6, 4], &[0; 40]].concat();
        for at in [0, 6, 13, 17] {
            let mut other = arp.clone();
            other[at] ^= 1;
            assert!(!same(&arp, &other), "{at}");
        }
        let mut other = arp.clone();
        other[18] ^= 1;
        assert!(same(&arp, &other));
        let cut = [&v4(6, &[0; 20])[..12], &[8, 0, 0x45, 0, 0xff, 0xff], &[0; 42]].concat();
        assert_eq!(HeaderKey::of(&cut).unwrap().0[KIND], NOT_IP, "longer than the frame");
        assert_eq!(HeaderKey::of(&arp[..13]), None);
    }

    #[test]
    fn a_source_port_that_somebody_else_chooses_is_left_out() {
        let of = |source, destination| v4(17, &[0, source, 0, destination, 0, 8, 0, 0]);
        let known = HeaderMatch::of(&of(1, 9), |_| false).unwrap();
        let key = |frame: &[u8]| HeaderKey::of(frame).unwrap();
        assert!(!known.matches(&key(&of(2, 9))));
        let known = known.from_any_port();
        assert!(known.matches(&key(&of(1, 9))) && known.matches(&key(&of(2, 9))));
        assert!(!known.matches(&key(&of(1, 8))));
        assert_eq!(known, HeaderMatch::of(&of(7, 9), |at| at == 34 || at == 35).unwrap());
    }

    #[test]
    fn a_fragment_has_no_key() {
        let mut frame = v4(6, &[0; 20]);
        frame[20] = 0x20;
        assert_eq!(HeaderKey::of(&frame), None);
    }

    #[test]
    fn what_changes_is_left_out_of_a_match() {
        let syn = v4(6, &[0, 9, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
        let source_port = |at: usize| (34..36).contains(&at);
        let flow = HeaderMatch::of(&syn, source_port).unwrap();
        let mut other = syn.clone();
        other[35] = 77;
        assert!(flow.matches(&HeaderKey::of(&other).unwrap()));
        other[37] = 81;
        assert!(!flow.matches(&HeaderKey::of(&other).unwrap()));
        assert!(HeaderMatch::of(&syn, |at| at == 23).is_none(), "another protocol each time");
        let exact = HeaderMatch::of(&syn, |_| false).unwrap();
        assert!(flow.overlaps(&exact) && exact.overlaps(&flow));
        let elsewhere = HeaderMatch::of(&other, source_port).unwrap();
        assert!(!flow.overlaps(&elsewhere));
    }

    proptest! {
        #[test]
        fn any_bytes_make_a_key_or_none(frame in proptest::collection::vec(any::<u8>(), 0..120)) {
            let key = HeaderKey::of(&frame);
            if let (Some(key), Some(of)) = (key, HeaderMatch::of(&frame, |_| false)) {
                prop_assert!(of.matches(&key));
            }
        }
    }
}
