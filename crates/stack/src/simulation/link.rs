//! The link of the simulation: loss, delay, reordering, duplication, a rate and a queue, and segments that somebody forged.

use std::collections::VecDeque;

use super::path::{Message, Path};
use crate::options::Options;
use crate::ranges::Range;
use crate::segment::{Checksum, ECN_CE, Flags, Outgoing, Segment};

/// SplitMix64: every seed is a run of its own, and the same run each time.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True once in `times` on average; never for 0.
    pub fn once_in(&mut self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// What becomes of a packet.
#[derive(Debug)]
pub struct Carried {
    /// What arrives, and when.
    pub out: Vec<(u64, Vec<u8>)>,
    /// What the sender hears, and when.
    pub back: Vec<(u64, Message)>,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    /// Once in so many packets.
    pub lose: u64,
    pub duplicate: u64,
    pub damage: u64,
    pub forge: u64,
    /// In nanoseconds.
    pub delay: u64,
    /// More than the delay, evenly from 0 on: packets overtake each other.
    pub jitter: u64,
    /// Nanoseconds for a byte; 0 is no limit.
    pub per_byte: u64,
    /// Packets that wait at most.
    pub queue: usize,
    pub marks: bool,
    pub path: Path,
    /// When those that wait leave.
    leaving: VecDeque<u64>,
}

impl Link {
    pub fn new(path: Path, random: &mut Random) -> Link {
        let clean = random.once_in(4);
        let delay = random.pick(&[0, 50_000, 1_000_000, 10_000_000, 60_000_000]);
        Link {
            lose: if clean { 0 } else { random.pick(&[0, 200, 50, 20, 8]) },
            duplicate: if clean { 0 } else { random.pick(&[0, 200, 20]) },
            damage: if clean { 0 } else { random.pick(&[0, 0, 100]) },
            forge: random.pick(&[0, 40]),
            delay,
            jitter: if clean { 0 } else { random.pick(&[0, 0, 20_000, 2_000_000, 30_000_000]) },
            per_byte: random.pick(&[0, 0, 8, 80, 800]),
            queue: random.pick(&[20, 100, 1000]),
            marks: random.once_in(2),
            path,
            leaving: VecDeque::new(),
        }
    }

    /// When `packet`, which is sent at `now`, arrives, and as what; perhaps never or twice. And what its sender hears of it.
    pub fn carry(&mut self, now: u64, mut packet: Vec<u8>, random: &mut Random) -> Carried {
        while self.leaving.front().is_some_and(|at| *at <= now) {
            self.leaving.pop_front();
        }
        let (back, passes) = self.path.pass(now, &packet, random);
        let back = back.into_iter();
        let back = back.map(|message| (now + self.delay + random.below(self.jitter + 1), message));
        let (mut out, back) = (Vec::new(), back.collect());
        if random.once_in(self.forge)
            && let Some(forged) = forge(&packet, random)
        {
            out.push((now + self.delay, forged));
        }
        if self.leaving.len() >= self.queue || !passes || random.once_in(self.lose) {
            return Carried { out, back };
        }
        let tos = if packet[0] >> 4 == 4 { packet[1] } else { packet[1] >> 4 };
        if self.marks && self.leaving.len() > self.queue / 2 && tos & 3 != 0 {
            packet[1] |= if packet[0] >> 4 == 4 { ECN_CE } else { ECN_CE << 4 };
        }
        let begins = self.leaving.back().copied().unwrap_or(now).max(now);
        let left = begins + self.per_byte * packet.len() as u64;
        self.leaving.push_back(left);
        let copies = if random.once_in(self.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let mut packet = packet.clone();
            if random.once_in(self.damage) {
                // Behind the addresses: the headers of IP have no checksum of ours.
                let ip = if packet[0] >> 4 == 4 { 20 } else { 40 };
                let bit = random.below((packet.len() as u64 - ip) * 8);
                packet[(ip + bit / 8) as usize] ^= 1 << (bit % 8);
            }
            out.push((left + self.delay + random.below(self.jitter + 1), packet));
        }
        Carried { out, back }
    }
}

/// A segment made out of `packet` that may not do any harm, however right its addresses are.
fn forge(packet: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let segment = Segment::read(packet, Checksum::Verify).ok()?;
    let mut options = Options { timestamps: segment.options.timestamps, ..Options::default() };
    let (mut seq, mut ack, mut flags) = (segment.seq, segment.ack, Flags::ACK);
    if segment.flags.has(Flags::SYN) || segment.flags.has(Flags::RST) {
        return None;
    }
    match random.below(5) {
        // Outside of any window.
        0 => (seq, flags) = (seq.plus(1 << 30), Flags::RST),
        // RFC 5961 §4: a SYN in a session. With a timestamp that is later, it would rightly end a TIME-WAIT (RFC 6191).
        1 => (flags, options) = (Flags::SYN, Options::default()),
        // It acknowledges what was never sent.
        2 => ack = ack.plus(1 << 30),
        // It acknowledges what was long ago.
        3 => ack = ack.minus(1 << 30),
        // It has what was never sent.
        _ => {
            options.push_sack(Range::new(ack.plus(1), ack.plus(1 << 28)));
        }
    }
    let outgoing = Outgoing {
        tuple: segment.tuple.reversed(),
        seq,
        ack,
        flags,
        window: segment.window,
        options,
        payload_len: 0,
        tos: 0,
        ttl: 64,
        identification: 0,
        dont_fragment: true,
    };
    let mut bytes = vec![0; outgoing.packet_len()];
    outgoing.write(&mut bytes, |_| ()).then_some(bytes)
}
