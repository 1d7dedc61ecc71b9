//! Which end of its conversation a frame comes from: the client, who opened it, or the server.
//!
//! The client of a TCP connection is who sent its SYN; that of any other conversation (addresses, ports, protocol) is
//! who sent its first frame. Where there is no IP, the ends are those that ARP speaks of, or the Ethernet addresses. So
//! many conversations are remembered and no more; then the oldest is forgotten, and begins anew.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use wirebeat_wire::ip::Protocol;
use wirebeat_wire::locate::{Carried, Located, Network, locate};

/// Conversations that are remembered.
const CONVERSATIONS: usize = 1 << 20;

/// An end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It opened the conversation.
    Client,
    /// The other.
    Server,
}

/// An address and a port, in the order of the wire.
type End = ([u8; 16], u16);

/// The conversations of a capture so far.
#[derive(Debug)]
pub struct Sides {
    /// By the hash of a conversation, whether the lesser of its ends is the client; by that of a packet in fragments,
    /// whether the client sent it. No two of so few have the same of 64 bits, and the same capture has the same here
    /// whoever reads it.
    known: HashMap<u64, bool>,
    /// From the oldest on.
    order: VecDeque<u64>,
    most: usize,
}

impl Default for Sides {
    fn default() -> Sides {
        Sides::remembering(CONVERSATIONS)
    }
}

impl Sides {
    /// Remembers so many conversations.
    pub fn remembering(most: usize) -> Sides {
        Sides { known: HashMap::new(), order: VecDeque::new(), most: most.max(1) }
    }

    /// Who sent `frame`, which begins at the Ethernet header. Frames are asked for in the order of the capture.
    pub fn of(&mut self, frame: &[u8]) -> Side {
        let found = locate(frame);
        let (ends, kind) =
            found.as_ref().and_then(|found| network_ends(frame, found)).unwrap_or_else(|| {
                let mac = |at: usize| end(frame.get(at..at + 6).unwrap_or_default(), 0);
                ((mac(6), mac(0)), ConversationKind::Link)
            });
        let Some(Located { carried, protocol, .. }) = found else {
            return self.conversation(ends, kind, None);
        };
        match (kind, carried) {
            (ConversationKind::Ip(_), Carried::Following(id)) => {
                let packet = hash(&(ends, protocol.0, id));
                match self.known.get(&packet) {
                    Some(true) => Side::Client,
                    Some(false) => Side::Server,
                    None => self.conversation(ends, kind, None),
                }
            }
            (ConversationKind::Ip(Protocol::TCP), Carried::Whole(at) | Carried::First(at, _)) => {
                let side = self.conversation(ends, kind, opened(frame, at));
                self.fragment(carried, ends, protocol.0, side)
            }
            _ => {
                let side = self.conversation(ends, kind, None);
                self.fragment(carried, ends, protocol.0, side)
            }
        }
    }

    /// Remembers who sent a first fragment, for those behind it, which have no ports.
    fn fragment(&mut self, carried: Carried, ends: (End, End), protocol: u8, side: Side) -> Side {
        if let Carried::First(_, id) = carried {
            let ends: (End, End) = ((ends.0.0, 0), (ends.1.0, 0));
            self.remember(hash(&(ends, protocol, id)), side == Side::Client, true);
        }
        side
    }

    /// The side of the first of `ends`. `opened` is what a packet says about who opens the conversation.
    fn conversation(
        &mut self,
        (from, to): (End, End),
        kind: ConversationKind,
        opened: Option<Opener>,
    ) -> Side {
        let is_lesser = from <= to;
        let (lesser, greater) = if is_lesser { (from, to) } else { (to, from) };
        let key = hash(&(lesser, greater, kind));
        let from_is_client = match opened {
            Some(Opener::Here) => {
                self.remember(key, is_lesser, true);
                return Side::Client;
            }
            Some(Opener::There) => false,
            None => true,
        };
        match self.remember(key, is_lesser == from_is_client, false) == is_lesser {
            true => Side::Client,
            false => Side::Server,
        }
    }

    /// What is known by `key`; if nothing is, or what is known is `replaced`, `value` from now on.
    fn remember(&mut self, key: u64, value: bool, replaced: bool) -> bool {
        match self.known.entry(key) {
            Entry::Occupied(mut entry) => {
                if replaced {
                    entry.insert(value);
                }
                return *entry.get();
            }
            Entry::Vacant(entry) => entry.insert(value),
        };
        self.order.push_back(key);
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        value
    }
}

/// What conversations are told apart by, beside their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ConversationKind {
    Ip(Protocol),
    Arp,
    Link,
}

/// Who opens a connection with this packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opener {
    Here,
    There,
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn end(address: &[u8], port: u16) -> End {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(address).for_each(|(to, from)| *to = *from);
    (bytes, port)
}

/// Source and destination by the network header.
fn network_ends(frame: &[u8], found: &Located) -> Option<((End, End), ConversationKind)> {
    let (places, len) = match found.network {
        Network::V4 => ([12, 16], 4),
        Network::V6 => ([8, 24], 16),
        Network::Arp => ([14, 24], 4),
        Network::Other => return None,
    };
    let port = |number: usize| {
        let transport = found.carried.transport().filter(|_| found.protocol.has_ports());
        let at = transport? + 2 * number;
        Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
    };
    let one = |number: usize| {
        let at = found.at + places[number];
        Some(end(frame.get(at..at + len)?, port(number).unwrap_or(0)))
    };
    let kind = if found.network == Network::Arp {
        ConversationKind::Arp
    } else {
        ConversationKind::Ip(found.protocol)
    };
    Some(((one(0)?, one(1)?), kind))
}

/// What the TCP header at `at` says (RFC 9293 §3.1).
fn opened(frame: &[u8], at: usize) -> Option<Opener> {
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    match frame.get(at + 13)? & (SYN | ACK) {
        SYN => Some(Opener::Here),
        both if both == SYN | ACK => Some(Opener::There),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Client, Server};

    fn ethernet(ends: [u8; 2], ether_type: u16, rest: &[u8]) -> Vec<u8> {
        let mac = |last| [2, 0, 0, 0, 0, last];
        [&mac(ends[1])[..], &mac(ends[0]), &ether_type.to_be_bytes(), rest].concat()
    }

    /// A packet from one host to another, with these flags of TCP; 17 without any.
    fn ip(ends: [u8; 2], ports: [u16; 2], place: u16, flags: Option<u8>) -> Vec<u8> {
        let protocol = if flags.is_some() { 6 } else { 17 };
        let mut packet = vec![0x45, 0, 0, 40, 0, 9];
        packet.extend(place.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 10, 0, 0, ends[0], 10, 0, 0, ends[1]]);
        packet.extend(ports[0].to_be_bytes());
        packet.extend(ports[1].to_be_bytes());
        packet.extend([0; 9]);
        packet.extend([flags.unwrap_or(0), 0, 0, 0, 0, 0, 0]);
        ethernet(ends, 0x0800, &packet)
    }

    #[test]
    fn the_client_of_a_connection_sent_its_syn() {
        let mut sides = Sides::default();
        assert_eq!(sides.of(&ip([1, 2], [5000, 80], 0, Some(0x02))), Client);
        assert_eq!(sides.of(&ip([2, 1], [80, 5000], 0, Some(0x12))), Server);
        assert_eq!(sides.of(&ip([1, 2], [5000, 80], 0, Some(0x10))), Client);
        // the same ends, opened from the other
        assert_eq!(sides.of(&ip([2, 1], [80, 5000], 0, Some(0x02))), Client);
        assert_eq!(sides.of(&ip([1, 2], [5000, 80], 0, Some(0x10))), Server);
        // a capture that begins between SYN and its answer
        assert_eq!(sides.of(&ip([3, 4], [80, 6000], 0, Some(0x12))), Server);
        assert_eq!(sides.of(&ip([4, 3], [6000, 80], 0, Some(0x10))), Client);
    }

    #[test]
    fn the_client_of_any_other_conversation_sent_its_first_frame() {
        let mut sides = Sides::default();
        assert_eq!(sides.of(&ip([9, 2], [53, 5000], 0, None)), Client);
        assert_eq!(sides.of(&ip([2, 9], [5000, 53], 0, None)), Server);
        assert_eq!(sides.of(&ip([2, 9], [5001, 53], 0, None)), Client, "another conversation");
        assert_eq!(sides.of(&ethernet([7, 8], 0x88cc, &[0; 46])), Client);
        assert_eq!(sides.of(&ethernet([8, 7], 0x88cc, &[0; 46])), Server);
        assert_eq!(sides.of(&[1, 2, 3]), Client);
    }

    #[test]
    fn arp_is_between_those_it_speaks_of() {
        let arp = |from: u8, to: u8, group: bool| {
            let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, from, 10, 0, 0, from];
            arp.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, to]);
            let mut frame = ethernet([from, to], 0x0806, &arp);
            if group {
                frame[..6].fill(0xff);
            }
            frame
        };
        let mut sides = Sides::default();
        assert_eq!(sides.of(&arp(1, 2, true)), Client);
        assert_eq!(sides.of(&arp(2, 1, false)), Server);
    }

    #[test]
    fn fragments_go_with_the_first_of_their_packet() {
        let mut sides = Sides::default();
        assert_eq!(sides.of(&ip([1, 2], [5000, 53], 0, None)), Client);
        assert_eq!(sides.of(&ip([2, 1], [53, 5000], 0x2000, None)), Server);
        assert_eq!(sides.of(&ip([2, 1], [0xffff, 0xffff], 0x0003, None)), Server);
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let mut sides = Sides::remembering(2);
        assert_eq!(sides.of(&ip([1, 2], [1, 53], 0, None)), Client);
        assert_eq!(sides.of(&ip([1, 2], [2, 53], 0, None)), Client);
        assert_eq!(sides.of(&ip([2, 1], [53, 1], 0, None)), Server);
        assert_eq!(sides.of(&ip([1, 2], [3, 53], 0, None)), Client);
        assert_eq!(sides.of(&ip([2, 1], [53, 1], 0, None)), Client, "it begins anew");
        assert!(sides.known.len() == 2 && sides.order.len() == 2);
    }
}
