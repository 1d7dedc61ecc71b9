//! Other addresses, ports and VLANs in frames that are there already, with every checksum mended by the difference.
//!
//! Checksums are never summed anew (RFC 1624): one that was right stays right, and one that was wrong stays as wrong
//! as it was, since a capture may hold it on purpose. So the frame need not be whole, either. An address that a rule
//! matches is mapped wherever it stands, as source or destination; addresses in payloads stay.

mod ends;
mod ports;
mod prefix;

use std::net::IpAddr;

pub use ends::{Ends, address_places};
pub use ports::{PortError, PortRange};
pub use prefix::{Prefix, PrefixError};

use crate::checksum::fold;
use crate::ethernet::{self, EtherType};
use crate::ip::Protocol;
use crate::locate::{Located, Network, locate};
use crate::mac::MacAddr;
use crate::vlan;
use crate::walk::word;

/// OSPF (RFC 5340) and PIM (RFC 7761), by their numbers.
const OSPF: Protocol = Protocol(89);
const PIM: Protocol = Protocol(103);
/// Bits of a VLAN tag that are its identifier (IEEE 802.1Q §9.6).
const VLAN_ID: u16 = 0x0fff;

/// What becomes of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The source address of every frame.
    pub source_mac: Option<MacAddr>,
    /// The destination address of every frame that does not go to a group.
    pub destination_mac: Option<MacAddr>,
    /// Its VLAN.
    pub vlan: Option<Vlan>,
    /// Addresses of the first prefix become ones of the second; the first rule that matches counts.
    pub addresses: Vec<(Prefix, Prefix)>,
    /// Ports of TCP and UDP likewise.
    pub ports: Vec<(PortRange, PortRange)>,
}

/// What becomes of VLAN tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vlan {
    /// Frames have this identifier in their outermost tag; one without a tag is given one.
    Set(u16),
    /// Frames have no tags.
    Off,
    /// The first identifier in the outermost tag becomes the second.
    Map(Vec<(u16, u16)>),
}

/// What words were changed by, as a sum that checksums are mended with.
#[derive(Clone, Copy, Default)]
struct Change(u64);

impl Change {
    /// Writes words over others, and notes the difference.
    #[inline]
    fn write(&mut self, place: &mut [u8], new: &[u8]) {
        for (old, new) in place.chunks_exact_mut(2).zip(new.chunks_exact(2)) {
            let (from, to) = ([old[0], old[1]], [new[0], new[1]]);
            if from != to {
                self.0 += u64::from(!u16::from_be_bytes(from)) + u64::from(u16::from_be_bytes(to));
                old.copy_from_slice(new);
            }
        }
    }

    /// Updates the checksum at `at`, if it is there (RFC 1624 §3, equation 3).
    #[inline]
    fn update_checksum(self, frame: &mut [u8], at: usize, zero_is_none: bool) {
        let Some(place) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) else {
            return;
        };
        let checksum = u16::from_be_bytes(*place);
        if self.0 == 0 || (zero_is_none && checksum == 0) {
            return;
        }
        let mended = !fold(u64::from(!checksum) + self.0);
        let mended = if zero_is_none && mended == 0 { 0xffff } else { mended };
        *place = mended.to_be_bytes();
    }
}

impl Rules {
    /// Whether frames stay as they are.
    pub fn is_empty(&self) -> bool {
        *self == Rules::default()
    }

    /// How many bytes longer a frame can become.
    pub fn adds(&self) -> usize {
        if matches!(self.vlan, Some(Vlan::Set(_))) { vlan::LEN } else { 0 }
    }

    /// Rewrites a frame, which begins at the Ethernet header. One that is shorter than that stays.
    pub fn apply(&self, frame: &mut Vec<u8>) {
        if frame.len() < ethernet::LEN {
            return;
        }
        if let (Some(mac), Some(place)) = (self.destination_mac, frame.first_chunk_mut())
            && !MacAddr(*place).is_multicast()
        {
            *place = mac.0;
        }
        if let (Some(mac), Some(place)) = (self.source_mac, frame.get_mut(6..12)) {
            place.copy_from_slice(&mac.0);
        }
        if !(self.addresses.is_empty() && self.ports.is_empty())
            && let Some(located) = locate(frame)
        {
            match located.network {
                Network::V4 => self.v4(frame, &located),
                Network::V6 => self.v6(frame, &located),
                Network::Arp => self.arp(frame, located.at),
                Network::Other => {}
            }
        }
        if let Some(rule) = &self.vlan {
            rule.apply(frame);
        }
    }

    /// Maps the addresses that begin at these places, with so many bytes each.
    #[inline]
    fn address(&self, frame: &mut [u8], at: usize, len: usize) -> Change {
        let mut change = Change::default();
        let Some(place) = frame.get_mut(at..at + len) else { return change };
        let address: IpAddr = match <[u8; 16]>::try_from(&*place) {
            Ok(octets) => octets.into(),
            Err(_) => match <[u8; 4]>::try_from(&*place) {
                Ok(octets) => octets.into(),
                Err(_) => return change,
            },
        };
        let rule = self.addresses.iter().find(|(from, _)| from.contains(address));
        match rule.map(|(_, to)| to.take_in(address)) {
            Some(IpAddr::V4(new)) => change.write(place, &new.octets()),
            Some(IpAddr::V6(new)) => change.write(place, &new.octets()),
            None => {}
        }
        change
    }

    #[inline]
    fn v4(&self, frame: &mut [u8], located: &Located) {
        const SOURCE: usize = 12;
        const DESTINATION: usize = 16;
        const CHECKSUM: usize = 10;
        let at = located.at;
        let source = self.address(frame, at + SOURCE, 4);
        let destination = self.address(frame, at + DESTINATION, 4);
        let change = Change(source.0 + destination.0);
        change.update_checksum(frame, at + CHECKSUM, false);
        self.transport(frame, located, change);
    }

    #[inline]
    fn v6(&self, frame: &mut [u8], located: &Located) {
        const SOURCE: usize = 8;
        const DESTINATION: usize = 24;
        let at = located.at;
        let mut change = self.address(frame, at + SOURCE, 16);
        let destination = self.address(frame, at + DESTINATION, 16);
        if !located.is_routed {
            change.0 += destination.0;
        }
        self.transport(frame, located, change);
    }

    /// `change` is that of the addresses, which checksums of transport protocols cover.
    #[inline]
    fn transport(&self, frame: &mut [u8], located: &Located, mut change: Change) {
        /// Of the target in a neighbour solicitation and advertisement (RFC 4861 §4.3, §4.4).
        const TARGET: usize = 8;
        let Some(at) = located.carried.transport() else { return };
        let protocol = located.protocol;
        if matches!(protocol, Protocol::TCP | Protocol::UDP) {
            for at in [at, at + 2] {
                self.port(frame, at, &mut change);
            }
        }
        let is_v6 = located.network == Network::V6;
        if is_v6 && protocol == Protocol::ICMPV6 && matches!(frame.get(at), Some(135 | 136)) {
            change.0 += self.address(frame, at + TARGET, 16).0;
        }
        if let Some((offset, zero_is_none)) = checksum_at(protocol, is_v6) {
            change.update_checksum(frame, at + offset, zero_is_none);
        }
    }

    #[inline]
    fn port(&self, frame: &mut [u8], at: usize, change: &mut Change) {
        let Some(port) = word(frame, at) else { return };
        let rule = self.ports.iter().find(|(from, _)| from.contains(port));
        if let (Some((from, to)), Some(place)) = (rule, frame.get_mut(at..at + 2)) {
            change.write(place, &to.take_in(*from, port).to_be_bytes());
        }
    }

    fn arp(&self, frame: &mut [u8], at: usize) {
        // The protocol addresses of sender and target (RFC 826).
        self.address(frame, at + 14, 4);
        self.address(frame, at + 24, 4);
    }
}

/// Where a checksum lies that covers the addresses, and whether zero means that there is none.
fn checksum_at(protocol: Protocol, is_v6: bool) -> Option<(usize, bool)> {
    match protocol {
        Protocol::TCP => Some((16, false)),
        Protocol::UDP => Some((6, true)),
        Protocol::UDP_LITE | Protocol::DCCP => Some((6, false)),
        Protocol::ICMPV6 | PIM if is_v6 => Some((2, false)),
        OSPF if is_v6 => Some((12, false)),
        _ => None,
    }
}

impl Vlan {
    fn apply(&self, frame: &mut Vec<u8>) {
        let tag = |frame: &[u8]| {
            let ether_type = EtherType::read(frame, 12)?;
            let is_tag = matches!(ether_type, EtherType::VLAN | EtherType::SERVICE_VLAN);
            is_tag.then(|| word(frame, 14)).flatten()
        };
        let put = |frame: &mut Vec<u8>, tag: u16, id: u16| {
            if let Some(place) = frame.get_mut(14..).and_then(<[u8]>::first_chunk_mut) {
                *place = (tag & !VLAN_ID | id & VLAN_ID).to_be_bytes();
            }
        };
        match (self, tag(frame)) {
            (Vlan::Set(id), Some(tag)) => put(frame, tag, *id),
            (Vlan::Set(id), None) => {
                let [high, low] = EtherType::VLAN.0.to_be_bytes();
                let [first, second] = (id & VLAN_ID).to_be_bytes();
                frame.splice(12..12, [high, low, first, second]);
            }
            (Vlan::Off, Some(_)) => {
                while tag(frame).is_some() && frame.len() >= ethernet::LEN + vlan::LEN {
                    frame.drain(12..12 + vlan::LEN);
                }
            }
            (Vlan::Map(rules), Some(tag)) => {
                let rule = rules.iter().find(|(from, _)| *from == tag & VLAN_ID);
                if let Some((_, to)) = rule {
                    put(frame, tag, *to);
                }
            }
            (Vlan::Off | Vlan::Map(_), None) => {}
        }
    }
}

#[cfg(test)]
mod tests;
