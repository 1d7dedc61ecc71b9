//! The path of the simulation: routers with small links, which tell so or do not, peers that are not reached, and ICMP errors that
//! somebody forged.

use super::link::Random;
use crate::icmp::tests::error;
use crate::segment::{Checksum, Flags, Segment};

/// What a router or a forger sends back to the sender of a packet.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    pub packet: Vec<u8>,
    /// Whether it may change anything: what is forged, or about a session that stands, may not.
    pub counts: bool,
}

/// The most packets in a row that a path does not tell of, where it tells of some.
const UNTOLD_MAX: u64 = 12;

/// What lies behind one direction of a link.
#[derive(Debug)]
pub struct Path {
    /// The largest packet over IPv4, from `since` on. Over IPv6 it is 1280 at least (RFC 8200 §5).
    mtu: usize,
    since: u64,
    /// A packet that is too large is told of once in so many; never for 0.
    tells: u64,
    /// How many were not told of since one was.
    untold: u64,
    /// Once in so many packets, an error that may change nothing.
    lies: u64,
    /// Once in so many SYNs, the peer is not reached.
    unreachable: u64,
}

impl Path {
    /// A path that is `silent` tells of nothing. With `strict` all sessions can be opened.
    pub fn new(begin: u64, silent: bool, strict: bool, random: &mut Random) -> Path {
        let mtus = [600, 1000, 1280, 1400];
        Path {
            mtu: if silent || random.once_in(4) { random.pick(&mtus) } else { usize::MAX },
            since: begin + random.pick(&[0, 0, 200_000_000, 3_000_000_000]),
            tells: if silent { 0 } else { random.pick(&[1, 1, 3]) },
            untold: 0,
            lies: random.pick(&[0, 40]),
            unreachable: if strict { 0 } else { random.pick(&[0, 10]) },
        }
    }

    /// Whether no link on it is small.
    pub fn takes_all(&self) -> bool {
        self.mtu == usize::MAX
    }

    /// What the sender of `packet` hears, and whether the packet goes on.
    pub fn pass(&mut self, now: u64, packet: &[u8], random: &mut Random) -> (Vec<Message>, bool) {
        let is_v6 = packet[0] >> 4 == 6;
        let mut back = Vec::new();
        let segment = Segment::read(packet, Checksum::Skip).unwrap();
        let is_syn = segment.flags.has(Flags::SYN);
        if random.once_in(self.lies) && !segment.flags.has(Flags::RST) {
            back.push(Message { packet: lie(packet, is_v6, is_syn, random), counts: false });
        }
        if is_syn && !segment.flags.has(Flags::ACK) && random.once_in(self.unreachable) {
            let (kind, code) = match is_v6 {
                true => (1, random.pick(&[0, 3, 4])),
                false => (3, random.pick(&[0, 1, 3, 13])),
            };
            back.push(Message { packet: error(packet, kind, code, 0, 1232), counts: true });
            return (back, false);
        }
        let mtu = if is_v6 { self.mtu.max(1280) } else { self.mtu };
        if packet.len() <= mtu || now < self.since {
            return (back, true);
        }
        self.untold += 1;
        // a router that limits its errors does not keep silent for as often as a session tries: that would be a silent path
        if random.once_in(self.tells) || self.tells > 0 && self.untold >= UNTOLD_MAX {
            self.untold = 0;
            let packet = match is_v6 {
                true => error(packet, 2, 0, mtu as u32, 1232),
                // A router that does not tell the size now and then (RFC 1191 §5).
                false => error(packet, 3, 4, if random.once_in(20) { 0 } else { mtu as u32 }, 28),
            };
            back.push(Message { packet, counts: true });
        }
        (back, false)
    }
}

/// An error about `packet` that may change nothing: about a number that is not outstanding, or that a peer is not reached which
/// answered before.
fn lie(packet: &[u8], is_v6: bool, is_syn: bool, random: &mut Random) -> Vec<u8> {
    let mut quoted = packet.to_vec();
    let at = if is_v6 { 44 } else { 24 };
    let is_right = !is_syn && random.once_in(3);
    if !is_right {
        let seq = u32::from_be_bytes(quoted[at..at + 4].try_into().unwrap());
        let wrong = seq.wrapping_add(random.pick(&[1 << 30, 3 << 30, 1 << 31]));
        quoted[at..at + 4].copy_from_slice(&wrong.to_be_bytes());
    }
    let unreachable = is_right || random.once_in(2);
    let (kind, code) = match (is_v6, unreachable) {
        (true, true) => (1, random.pick(&[0, 1, 3, 4])),
        (false, true) => (3, random.pick(&[0, 1, 2, 3, 13])),
        (true, false) => (2, 0),
        (false, false) => (3, 4),
    };
    error(&quoted, kind, code, random.pick(&[0, 68, 576, 1280, 1400]), 1232)
}
