//! What the sessions of a stack share, apart from the table of sessions itself: profiles, timers, the queue of those that have
//! something to send, blocks of ranges, counters, secrets.

use std::collections::VecDeque;

use wirebeat_units::Nanos;

use crate::api::{Limits, Session};
use crate::counters::Counters;
use crate::fault::{Fault, Faults};
use crate::hash::{siphash, spread};
use crate::options::{Options, Timestamps};
use crate::prefetch::prefetch;
use crate::profile::Profile;
use crate::ranges::Ranges;
use crate::ring::Ring;
use crate::segment::{self, Flags, Outgoing, Segment, Tuple};
use crate::seq::Seq;
use crate::slab::{NONE, Slab};
use crate::tcb::{Marks, Tcb};
use crate::tick::{Tick, micros, ticks};
use crate::waits::Waits;
use crate::wheel::Wheel;

/// How long a timer waits in a queue before it goes to the wheel, if it is not due before: a little less than the shortest timeouts
/// in use, 200 ms.
pub(crate) const FIRST_WAIT: Nanos = Nanos::from_millis(190);

/// Segments without a session that may wait to be sent: a few batches of arrivals.
const REPLIES_MAX: usize = 1024;
/// The same of sessions that have just ended here, each of which has one: as many as are aborted, or end by what arrives, in a turn. A peer
/// would send its FIN again for each that is missing. Memory for more than [`REPLIES_MAX`] is taken when there are more.
const LAST_REPLIES_MAX: usize = 65_536;

/// Where and when a session handles something.
pub(crate) struct Context<'a, A> {
    pub now: Nanos,
    pub tick: Tick,
    pub session: Session,
    /// The session's number among all nodes; see [`crate::Stack`].
    pub node: u32,
    pub app: &'a mut A,
}

/// What becomes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    /// Both sides closed; a last acknowledgment is owed.
    TimeWait,
    Close(crate::api::Reason),
}

/// Nodes that have something to send, in the order in which they had; each at most once, so that a queue with room for each node is
/// never full.
#[derive(Debug)]
pub(crate) struct Ready {
    nodes: Ring<u32>,
    queued: Vec<u64>,
}

impl Ready {
    fn new(nodes: usize) -> Ready {
        Ready { nodes: Ring::new(nodes.max(1)), queued: vec![0; nodes / 64 + 1] }
    }

    /// Marks a node as queued; whether it was not.
    #[inline]
    fn mark(&mut self, node: u32) -> bool {
        let Some(word) = self.queued.get_mut(node as usize / 64) else { return false };
        let bit = 1 << (node % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    #[inline]
    pub fn push(&mut self, node: u32) {
        if self.mark(node) {
            self.nodes.push_back(node);
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        let node = self.nodes.pop_front()?;
        if let Some(word) = self.queued.get_mut(node as usize / 64) {
            *word &= !(1 << (node % 64));
        }
        Some(node)
    }

    /// Puts a node back to the front that was popped just now.
    pub fn unpop(&mut self, node: u32) {
        self.mark(node);
        self.nodes.push_front(node);
    }

    /// The `count` nodes that come next, or those that there are.
    #[inline]
    pub fn upcoming(&self, count: usize) -> impl Iterator<Item = u32> + Clone {
        self.nodes.iter(count)
    }

    /// Asks for the mark of a node: with millions of them the marks are more than the caches next to the processor.
    #[inline(always)]
    pub fn prefetch(&self, node: u32) {
        if let Some(word) = self.queued.get(node as usize / 64) {
            prefetch(word);
        }
    }

    /// The node that has `before` nodes before it.
    #[inline]
    pub fn after(&self, before: usize) -> Option<u32> {
        self.nodes.get(before)
    }

    #[inline]
    pub fn has(&self, node: u32) -> bool {
        self.queued.get(node as usize / 64).is_some_and(|word| word & 1 << (node % 64) != 0)
    }

    /// Whether each node is there once that is marked, and no other.
    #[cfg(test)]
    pub fn is_consistent(&self) -> bool {
        let marked: u32 = self.queued.iter().map(|word| word.count_ones()).sum();
        self.upcoming(self.nodes.len()).all(|node| self.has(node))
            && self.nodes.len() == marked as usize
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    #[cfg(test)]
    pub fn reserved(&self) -> usize {
        self.nodes.reserved()
    }
}

/// How many acknowledgments may answer what need not be answered (RFC 5961 §7), in a bucket that is full again each second.
#[derive(Debug)]
struct Challenges {
    per_second: u32,
    left: u32,
    since: Nanos,
}

impl Challenges {
    fn new(per_second: u32, now: Nanos) -> Challenges {
        Challenges { per_second, left: per_second, since: now }
    }

    fn take(&mut self, now: Nanos) -> bool {
        if now.saturating_sub(self.since) >= Nanos::from_secs(1) {
            (self.left, self.since) = (self.per_second, now);
        }
        let is_left = self.left > 0;
        self.left -= u32::from(is_left);
        is_left
    }
}

/// What sessions of a profile sent since it was taken last.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Segments with data.
    data: u64,
    /// Segments that had been sent before.
    again: u64,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub profiles: Vec<Profile>,
    sent: Vec<Sent>,
    fallback: Profile,
    pub ranges: Slab<Ranges>,
    pub wheel: Wheel,
    pub acks: Waits,
    /// Timers that were set a short time ago.
    pub first_waits: Waits,
    pub ready: Ready,
    /// With the profile of the session that they are of, if of any.
    pub replies: VecDeque<(Outgoing, Option<u8>)>,
    pub counters: Counters,
    challenges: Challenges,
    repeats: Challenges,
    secret: [u64; 2],
    index_key: [u64; 2],
    timestamp_offset: u32,
    identification: u16,
    faults: Faults,
    #[cfg(test)]
    first_seq: Option<Seq>,
    #[cfg(test)]
    general_only: bool,
    /// How often the fast path was taken: arrivals, and turns to send.
    #[cfg(test)]
    pub plain: [u64; 2],
}

impl Core {
    pub fn new(
        limits: &Limits,
        profiles: Vec<Profile>,
        seed: [u64; 2],
        now: Nanos,
        nodes: usize,
    ) -> Core {
        let acks = Waits::new(limits.sessions, profiles.iter().map(|profile| profile.delayed_ack));
        let secret = [siphash(seed, &[1]), siphash(seed, &[2])];
        Core {
            sent: vec![Sent::default(); profiles.len()],
            profiles,
            fallback: Profile::default(),
            ranges: Slab::new(limits.ranges),
            wheel: Wheel::new(nodes, Tick::at(now)),
            acks,
            first_waits: Waits::new(limits.sessions, std::iter::once(FIRST_WAIT)),
            ready: Ready::new(nodes),
            replies: VecDeque::with_capacity(REPLIES_MAX),
            counters: Counters::default(),
            challenges: Challenges::new(limits.challenges_per_second, now),
            repeats: Challenges::new(limits.repeats_per_second, now),
            secret,
            index_key: [siphash(seed, &[3]), siphash(seed, &[4])],
            timestamp_offset: siphash(seed, &[5]) as u32,
            identification: 0,
            faults: Faults::default(),
            #[cfg(test)]
            first_seq: None,
            #[cfg(test)]
            general_only: false,
            #[cfg(test)]
            plain: [0; 2],
        }
    }

    #[inline]
    pub fn profile(&self, number: u8) -> &Profile {
        self.profiles.get(usize::from(number)).unwrap_or(&self.fallback)
    }

    /// So many segments with data were sent for a session of this profile, and so many again.
    #[inline]
    pub fn note_sent(&mut self, profile: u8, data: u64, again: u64) {
        if let Some(sent) = self.sent.get_mut(usize::from(profile)) {
            sent.data += data;
            sent.again += again;
        }
    }

    /// Segments with data that were sent for sessions of this profile since they were taken last.
    pub fn take_sent(&mut self, profile: u8) -> u64 {
        let sent = self.sent.get_mut(usize::from(profile));
        sent.map_or(0, |sent| std::mem::take(&mut sent.data))
    }

    /// Segments that were sent again, likewise.
    pub fn take_sent_again(&mut self, profile: u8) -> u64 {
        let sent = self.sent.get_mut(usize::from(profile));
        sent.map_or(0, |sent| std::mem::take(&mut sent.again))
    }

    #[cfg(test)]
    pub fn plant(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Has the general path do all.
    #[cfg(test)]
    pub fn take_general_path(&mut self) {
        self.general_only = true;
    }

    /// Whether the fast path may be taken, where it is valid. Faults are planted in the general path.
    #[inline(always)]
    pub fn has_fast_path(&self) -> bool {
        #[cfg(test)]
        return !self.general_only && !self.faults.has_any();
        #[cfg(not(test))]
        true
    }

    /// Has sequence numbers begin so that they soon go over the end of the circle.
    #[cfg(test)]
    pub fn near_the_end(&mut self) {
        self.first_seq = Some(Seq(u32::MAX - 100_000));
    }

    /// Whether a fault was planted, which only the simulation does.
    #[inline]
    pub fn fault(&self, fault: Fault) -> bool {
        cfg!(test) && self.faults.has(fault)
    }

    /// The hash of a connection for the index; both versions of IP share it.
    #[inline]
    pub fn hash(&self, tuple: &Tuple) -> u32 {
        let ports = u64::from(tuple.local_port) << 16 | u64::from(tuple.remote_port);
        let fold = |address| match address {
            std::net::IpAddr::V4(address) => u64::from(address.to_bits()),
            std::net::IpAddr::V6(address) => {
                let bits = address.to_bits();
                spread(self.index_key, bits as u64, (bits >> 64) as u64)
            }
        };
        let (local, remote) = (fold(tuple.local), fold(tuple.remote));
        (spread(self.index_key, local ^ remote.rotate_left(32), ports ^ remote) >> 32) as u32
    }

    /// An initial sequence number (RFC 6528 §3): a clock of 4 µs and a secret function of the connection.
    pub fn initial_seq(&self, tuple: &Tuple, now: Nanos) -> Seq {
        let words = |address| match address {
            std::net::IpAddr::V4(address) => [0, u64::from(address.to_bits())],
            std::net::IpAddr::V6(address) => {
                [(address.to_bits() >> 64) as u64, address.to_bits() as u64]
            }
        };
        let ([a, b], [c, d]) = (words(tuple.local), words(tuple.remote));
        let ports = u64::from(tuple.local_port) << 16 | u64::from(tuple.remote_port);
        let function = siphash(self.secret, &[a, b, c, d, ports]) as u32;
        #[cfg(test)]
        if let Some(first) = self.first_seq {
            // With a clock, as below: a SYN that comes late would find the numbers of the session that it opened.
            return first.plus(function % 20_000 + (now.get() / 50_000) as u32 % 80_000);
        }
        Seq(function.wrapping_add((now.get() / 4_000) as u32))
    }

    /// The clock of timestamps: 1 ms (RFC 7323 §5.4), from a start that is secret to this stack.
    #[inline]
    pub fn timestamp(&self, now: Nanos) -> u32 {
        ((now.get() / 1_000_000) as u32).wrapping_add(self.timestamp_offset)
    }

    /// Has the clock of timestamps show `value` at `now`.
    pub fn show_timestamp(&mut self, now: Nanos, value: u32) {
        self.timestamp_offset = value.wrapping_sub((now.get() / 1_000_000) as u32);
    }

    #[inline]
    pub fn identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    /// Whether a segment that looks forged may be answered now.
    pub fn challenge(&mut self, now: Nanos) -> bool {
        let may = self.challenges.take(now);
        self.counters.arrivals.challenges_withheld += u64::from(!may);
        may
    }

    /// Whether a segment that is the same as one before may be answered now.
    pub fn answers_repeat(&mut self, now: Nanos) -> bool {
        let may = self.repeats.take(now);
        self.counters.arrivals.challenges_withheld += u64::from(!may);
        may
    }

    /// Queues a segment that belongs to no session's state, though perhaps to a session of a profile.
    pub fn reply(&mut self, outgoing: Outgoing, profile: Option<u8>) {
        self.reply_within(REPLIES_MAX, outgoing, profile);
    }

    /// Queues the last segment of a session: the acknowledgment of its peer's FIN, or RST.
    pub fn last_reply(&mut self, outgoing: Outgoing, profile: u8) {
        self.reply_within(LAST_REPLIES_MAX, outgoing, Some(profile));
    }

    fn reply_within(&mut self, most: usize, outgoing: Outgoing, profile: Option<u8>) {
        if self.replies.len() < most {
            self.replies.push_back((outgoing, profile));
        } else {
            self.counters.replies_dropped += 1;
        }
    }

    /// The RST that answers a segment without a session (RFC 9293 §3.10.7.1).
    pub fn reset_reply(&mut self, segment: &Segment<'_>) {
        let (seq, ack, flags) = match segment.flags.has(Flags::ACK) {
            true => (segment.ack, Seq(0), Flags::RST),
            false => (Seq(0), segment.end(), Flags::RST.with(Flags::ACK)),
        };
        let reset = Outgoing {
            tuple: segment.tuple,
            seq,
            ack,
            flags,
            window: 0,
            options: Options::default(),
            payload_len: 0,
            tos: 0,
            ttl: segment::TTL,
            identification: self.identification(),
            dont_fragment: true,
        };
        self.reply(reset, None);
    }

    /// The options of a segment that is no SYN, without SACK.
    #[inline]
    pub fn timestamps(&self, has_timestamps: bool, echo: u32, now: Nanos) -> Options {
        let timestamps = has_timestamps.then(|| Timestamps { value: self.timestamp(now), echo });
        Options { timestamps, ..Options::default() }
    }

    /// The block of ranges `at`, or a new one; `None` when there is none left.
    pub fn ranges_at(&mut self, at: &mut u32) -> Option<&mut Ranges> {
        if *at == NONE {
            *at = self.ranges.insert(Ranges::EMPTY)?;
        }
        self.ranges.get_mut(*at)
    }

    /// Gives the block of ranges `at` back.
    pub fn release_ranges(&mut self, at: &mut u32) {
        if *at != NONE {
            self.ranges.remove(*at);
            *at = NONE;
        }
    }

    /// Sees to it that `node` is called by its next deadline. Few timers run out: one that is far enough away waits in a queue first,
    /// and only what is still set at its end goes to the wheel, whose lists cost a fetch from memory for each neighbour.
    #[inline]
    pub fn arm(&mut self, now: Tick, node: u32, tcb: &mut Tcb) {
        let Some(deadline) = tcb.deadline() else { return };
        // Known from the session itself, the wheel's own memory is not touched.
        if tcb.has(Marks::ARMED) && tcb.wheel_at.is_due(deadline) || self.fault(Fault::LostTimer) {
            return;
        }
        self.arm_at(now, node, tcb, deadline);
    }

    /// As [`Core::arm`], where `node` is not called before `deadline` yet.
    #[inline(never)]
    fn arm_at(&mut self, now: Tick, node: u32, tcb: &mut Tcb, deadline: Tick) {
        let first = Tick(now.0.wrapping_add(ticks(FIRST_WAIT)));
        if !tcb.has(Marks::ARMED)
            && first.is_due(deadline)
            && let Some(at) = self.first_waits.push(FIRST_WAIT, first, node)
        {
            tcb.wheel_at = at;
        } else {
            tcb.wheel_at = deadline;
            self.wheel.arm(node, deadline);
        }
        tcb.set(Marks::ARMED);
    }
}

impl<A> Context<'_, A> {
    #[inline]
    pub fn micros(&self) -> u32 {
        micros(self.now)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The model is a queue in which nothing is twice.
        #[test]
        fn nodes_have_their_turn_in_order_and_once(steps in prop::collection::vec((0..3_u8, 0..8_u32), 0..200)) {
            let (mut ready, mut model) = (Ready::new(8), VecDeque::new());
            for (action, node) in steps {
                let popped = match action {
                    0 => None,
                    _ => {
                        let popped = ready.pop();
                        prop_assert_eq!(popped, model.pop_front());
                        popped
                    }
                };
                match (action, popped) {
                    (1, Some(popped)) => {
                        ready.unpop(popped);
                        model.push_front(popped);
                    }
                    (0, _) => {
                        ready.push(node);
                        if !model.contains(&node) {
                            model.push_back(node);
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(ready.is_empty(), model.is_empty());
                for count in 0..10 {
                    let upcoming: Vec<u32> = ready.upcoming(count).collect();
                    prop_assert_eq!(upcoming, model.iter().copied().take(count).collect::<Vec<_>>());
                }
                for node in 0..8 {
                    prop_assert_eq!(ready.has(node), model.contains(&node));
                }
            }
        }
    }
}
