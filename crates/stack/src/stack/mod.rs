//! The stack: its tables, and what goes in and out of it.
//!
//! All that waits or is found has one number, a node: sessions first, then half-open ones, then those in TIME-WAIT. The index finds
//! nodes by addresses and ports, the wheel calls them, the queue has those with something to send. A turn of the embedder's loop
//! is [`Stack::receive_batch`], [`Stack::expire`], its own opening, sending and closing, and [`Stack::transmit`].

mod commands;
mod icmp;
mod waiting;

use std::net::IpAddr;

use wirebeat_units::Nanos;
use wirebeat_wire::ip::Version;

use crate::addresses::{AddressId, Addresses};
use crate::api::{Application, Event, Limits, Reason, Session, SessionId, Transmit};
use crate::core::{Context, Core, Fate};
use crate::counters::Counters;
use crate::half_open::HalfOpen;
use crate::index::Index;
use crate::output::Turn;
use crate::profile::Profile;
use crate::segment::{Checksum, Flags, Refused, Segment, Tuple};
use crate::slab::{NONE, Slab};
use crate::tcb::{Marks, State, Tcb, Timer};
use crate::tick::Tick;
use crate::time_wait::TimeWait;

/// Packets whose sessions are looked for together.
const BATCH: usize = 32;

/// A TCP of its own, for one thread.
#[derive(Debug)]
pub struct Stack {
    pub(crate) sessions: Slab<Tcb>,
    pub(crate) half_open: Slab<HalfOpen>,
    pub(crate) time_wait: Slab<TimeWait>,
    index: Index,
    addresses: Addresses,
    pub(crate) core: Core,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Session(u32),
    HalfOpen(u32),
    TimeWait(u32),
}

/// A session that is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Both ends.
    pub tuple: Tuple,
    /// The number of its profile, in the order in which the stack got them.
    pub profile: u8,
    /// A word that the embedder gets with everything about the session.
    pub user: u32,
}

/// What a session is like now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its state.
    pub state: State,
    /// Its ends.
    pub tuple: Tuple,
    /// Bytes that were offered to be sent.
    pub offered: u64,
    /// Bytes that the peer has acknowledged.
    pub acked: u64,
    /// Bytes that were delivered in order.
    pub received: u64,
    /// The congestion window in bytes.
    pub cwnd: u32,
    /// The slow start threshold in bytes.
    pub ssthresh: u32,
    /// The peer's window in bytes.
    pub peer_window: u32,
    /// The most bytes of data in a segment.
    pub mss: u16,
    /// The smoothed round trip; `None` before one was measured.
    pub rtt: Option<Nanos>,
    /// How much round trips vary: four times their mean deviation, as the timeout counts it.
    pub rtt_variation: Nanos,
    /// The retransmission timeout.
    pub rto: Nanos,
    /// The MSS that was announced to the peer.
    pub announced_mss: u16,
    /// Sequence numbers sent and not acknowledged.
    pub outstanding: u32,
    /// Of them, those that the peer has out of order.
    pub sacked: u32,
    /// Of them, those taken as lost, sent again or not.
    pub lost: u32,
    /// Of them, those that were sent again.
    pub retransmitted: u32,
    /// What the sender is recovering from.
    pub phase: Phase,
    /// How often the timer ran out without progress, and whether it probes a closed window or a silent peer.
    pub retries: u8,
    /// Whether those retries are probes.
    pub probing: bool,
    /// How often the timeout is doubled.
    pub backoff: u8,
}

/// What a sender is recovering from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing.
    Open,
    /// Congestion that the network told of (ECN).
    Reduced,
    /// A loss that later data told of.
    Recovery,
    /// A timeout, or packets that were too large for the path.
    Loss,
}

impl Stack {
    /// A stack that begins at `now`. Its sequence numbers and hashes follow from `seed`, which has to be secret and new where the
    /// network is not one's own; at most 256 profiles count.
    pub fn new(limits: &Limits, mut profiles: Vec<Profile>, seed: [u64; 2], now: Nanos) -> Stack {
        profiles.truncate(256);
        let sessions = Slab::new(limits.sessions.max(1));
        let (half_open, time_wait) = (Slab::new(limits.half_open), Slab::new(limits.time_wait));
        let nodes = sessions.capacity() + half_open.capacity() + time_wait.capacity();
        let key = [crate::hash::siphash(seed, &[6]), crate::hash::siphash(seed, &[7])];
        Stack {
            index: Index::new(nodes),
            addresses: Addresses::new(limits.addresses, key),
            core: Core::new(limits, profiles, seed, now, nodes),
            sessions,
            half_open,
            time_wait,
        }
    }

    /// Has the clock of timestamps (RFC 7323 §5.4) show `value` at `now`, in ms; without this it begins at a secret number. With the
    /// time of day, a stack that takes the addresses and ports of one before it, which is gone, goes on where that one was: a peer in
    /// TIME-WAIT takes its SYN for a new one (RFC 6191), and not for an old duplicate.
    pub fn show_timestamp(&mut self, now: Nanos, value: u32) {
        self.core.show_timestamp(now, value);
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// How many sessions are open, without those half-open or in TIME-WAIT.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is something to send now.
    pub fn has_output(&self) -> bool {
        !self.core.ready.is_empty() || !self.core.replies.is_empty()
    }

    /// When [`Stack::expire`] is to be called next, seen from `now`; `None` when nothing waits.
    pub fn next_timer(&self, now: Nanos) -> Option<Nanos> {
        let core = &self.core;
        let waits = [core.wheel.next_tick(), core.acks.next_tick(), core.first_waits.next_tick()];
        waits.into_iter().flatten().reduce(Tick::min).map(|tick| tick.start(now))
    }

    /// Up to which offset of its stream a session may send now, as its peer and the network allow; `None` when there is no session.
    pub fn send_limit(&self, id: SessionId) -> Option<u64> {
        let tcb = self.sessions.get(id.0)?;
        Some(tcb.acked.saturating_add(tcb.cwnd.min(tcb.snd_wnd).into()))
    }

    /// What a session is like; `None` when there is none.
    pub fn info(&self, id: SessionId) -> Option<Info> {
        let tcb = self.sessions.get(id.0)?;
        let (tuple, profile) = (self.tuple_of(tcb), self.core.profile(tcb.profile));
        Some(Info {
            state: tcb.state,
            tuple,
            offered: tcb.offered,
            acked: tcb.acked,
            received: tcb.received,
            cwnd: tcb.cwnd,
            ssthresh: tcb.ssthresh,
            peer_window: tcb.snd_wnd,
            mss: tcb.mss,
            rtt: tcb.totals().rtt,
            rtt_variation: Nanos::from_micros(tcb.rttvar.into()),
            rto: tcb.rto(profile),
            announced_mss: profile.announced_mss(Version::of(tuple.local)),
            outstanding: tcb.outstanding(),
            sacked: tcb.sacked(&self.core),
            lost: tcb.lost(&self.core),
            retransmitted: tcb.sent_again(&self.core),
            phase: if tcb.has(Marks::LOSS) {
                Phase::Loss
            } else if tcb.has(Marks::RECOVERY) {
                Phase::Recovery
            } else if tcb.has(Marks::ECN_RECOVERY) {
                Phase::Reduced
            } else {
                Phase::Open
            },
            retries: tcb.retries,
            probing: matches!(tcb.timer, Timer::Persist | Timer::KeepAlive),
            backoff: tcb.backoff,
        })
    }

    /// What all that could grow has memory for: the same at all times.
    #[cfg(test)]
    pub(crate) fn reserved(&self) -> [usize; 9] {
        let core = &self.core;
        let slabs =
            [self.sessions.reserved(), self.half_open.reserved(), self.time_wait.reserved()];
        let [a, b, c] = slabs;
        [
            a,
            b,
            c,
            core.ranges.reserved(),
            core.wheel.reserved(),
            core.acks.reserved(),
            core.first_waits.reserved(),
            core.ready.reserved(),
            core.replies.capacity(),
        ]
    }

    /// Entries of the index, and addresses of IPv6.
    #[cfg(test)]
    pub(crate) fn table_sizes(&self) -> (usize, usize) {
        (self.index.len(), self.addresses.len())
    }

    fn kind(&self, node: u32) -> Kind {
        let sessions = self.sessions.capacity() as u32;
        let half_open = self.half_open.capacity() as u32;
        match node.checked_sub(sessions) {
            None => Kind::Session(node),
            Some(at) if at < half_open => Kind::HalfOpen(at),
            Some(at) => Kind::TimeWait(at - half_open),
        }
    }

    fn half_open_node(&self, at: u32) -> u32 {
        self.sessions.capacity() as u32 + at
    }

    fn time_wait_node(&self, at: u32) -> u32 {
        (self.sessions.capacity() + self.half_open.capacity()) as u32 + at
    }

    fn tuple(&self, ends: (u32, u32), ports: (u16, u16), is_v6: bool) -> Tuple {
        Tuple {
            local: self.addresses.get(ends.0, is_v6),
            remote: self.addresses.get(ends.1, is_v6),
            local_port: ports.0,
            remote_port: ports.1,
        }
    }

    #[inline]
    fn tuple_of(&self, tcb: &Tcb) -> Tuple {
        self.tuple((tcb.local, tcb.remote), (tcb.local_port, tcb.remote_port), tcb.has(Marks::V6))
    }

    /// The ends of a half-open session or one in TIME-WAIT.
    fn tuple_of_node(&self, kind: Kind) -> Option<Tuple> {
        Some(match kind {
            Kind::Session(at) => self.tuple_of(self.sessions.get(at)?),
            Kind::HalfOpen(at) => {
                let it = self.half_open.get(at)?;
                self.tuple(
                    (it.local, it.remote),
                    (it.local_port, it.remote_port),
                    it.marks.0 & Marks::V6.0 != 0,
                )
            }
            Kind::TimeWait(at) => {
                let it = self.time_wait.get(at)?;
                self.tuple((it.local, it.remote), (it.local_port, it.remote_port), it.is_v6())
            }
        })
    }

    /// Whether `node` has these ends.
    #[inline]
    fn is_at(&self, node: u32, tuple: &Tuple) -> bool {
        if let Some(tcb) = self.sessions.get(node) {
            let ports = tcb.local_port == tuple.local_port && tcb.remote_port == tuple.remote_port;
            if let (IpAddr::V4(local), IpAddr::V4(remote), false) =
                (tuple.local, tuple.remote, tcb.has(Marks::V6))
            {
                return ports && tcb.local == local.to_bits() && tcb.remote == remote.to_bits();
            }
            return ports && self.tuple_of(tcb) == *tuple;
        }
        self.tuple_of_node(self.kind(node)).is_some_and(|found| found == *tuple)
    }

    #[inline]
    fn find(&self, hash: u32, tuple: &Tuple) -> Option<u32> {
        self.index.find(hash, |node| self.is_at(node, tuple))
    }

    /// The numbers of both addresses, with a user more each.
    fn acquire(&mut self, tuple: &Tuple) -> Option<(AddressId, AddressId)> {
        let local = self.addresses.acquire(tuple.local)?;
        let remote = self.addresses.acquire(tuple.remote);
        if remote.is_none() && tuple.local.is_ipv6() {
            self.addresses.release(local);
        }
        Some((local, remote?))
    }

    fn release(&mut self, ends: (AddressId, AddressId), is_v6: bool) {
        if is_v6 {
            self.addresses.release(ends.0);
            self.addresses.release(ends.1);
        }
    }

    /// Takes one packet, which begins with its IP header.
    pub fn receive<A: Application>(
        &mut self,
        now: Nanos,
        packet: &[u8],
        checksum: Checksum,
        app: &mut A,
    ) {
        if let Some(segment) = self.read(packet, checksum) {
            let hash = self.core.hash(&segment.tuple);
            self.segment(now, &segment, hash, app);
        }
    }

    /// Takes packets, each of which begins with its IP header. What the processor has to fetch for them is asked for all at once:
    /// with many sessions that costs a fraction of one by one.
    pub fn receive_batch<A: Application>(
        &mut self,
        now: Nanos,
        packets: &[(&[u8], Checksum)],
        app: &mut A,
    ) {
        for batch in packets.chunks(BATCH) {
            let mut segments: [Option<Segment<'_>>; BATCH] = [const { None }; BATCH];
            let mut hashes = [0; BATCH];
            for ((slot, hash), (packet, checksum)) in
                segments.iter_mut().zip(&mut hashes).zip(batch)
            {
                *slot = self.read(packet, *checksum);
                *hash = slot.as_ref().map_or(0, |segment| self.core.hash(&segment.tuple));
            }
            let mut nodes = [NONE; BATCH];
            for (node, hash) in nodes.iter_mut().zip(&hashes).take(batch.len()) {
                *node = self.index.touch(*hash).unwrap_or(NONE);
            }
            nodes.iter().take(batch.len()).for_each(|node| self.touch(*node));
            for (segment, hash) in segments.iter().zip(&hashes).take(batch.len()) {
                if let Some(segment) = segment {
                    self.segment(now, segment, *hash, app);
                }
            }
        }
    }

    /// Reads each line of a session, if `node` is one, so that the processor has it when it is needed.
    #[inline]
    fn touch(&self, node: u32) {
        std::hint::black_box(self.sessions.get(node).map(|tcb| (tcb.snd_una, tcb.srtt, tcb.user)));
    }

    /// As [`Stack::touch`], but only what tells whether an acknowledgment is due.
    #[inline]
    fn touch_times(&self, node: u32) {
        std::hint::black_box(self.sessions.get(node).map(|tcb| (tcb.marks, tcb.ack_timer_at)));
    }

    /// As [`Stack::touch`], but only what tells whether a session is called at a time.
    #[inline]
    fn touch_armed(&self, node: u32) {
        std::hint::black_box(self.sessions.get(node).map(|tcb| (tcb.marks, tcb.wheel_at)));
    }

    #[inline]
    fn read<'a>(&mut self, packet: &'a [u8], checksum: Checksum) -> Option<Segment<'a>> {
        let arrivals = &mut self.core.counters.arrivals;
        arrivals.packets += 1;
        match Segment::read(packet, checksum) {
            Ok(segment) => {
                arrivals.unverified += u64::from(!segment.verified);
                return Some(segment);
            }
            Err(Refused::Foreign) => arrivals.foreign += 1,
            Err(Refused::Malformed) => arrivals.malformed += 1,
            Err(Refused::Checksum) => arrivals.bad_checksum += 1,
        }
        None
    }

    #[inline]
    fn segment<A: Application>(
        &mut self,
        now: Nanos,
        segment: &Segment<'_>,
        hash: u32,
        app: &mut A,
    ) {
        match self.find(hash, &segment.tuple).map(|node| self.kind(node)) {
            Some(Kind::Session(at)) => self.with_session(now, at, app, |tcb, core, cx| {
                let fate = tcb.arrival(core, cx, segment);
                core.ready.push(cx.node);
                fate
            }),
            Some(Kind::HalfOpen(at)) => self.half_open_arrival(now, at, hash, segment, app),
            Some(Kind::TimeWait(at)) => self.time_wait_arrival(now, at, hash, segment, app),
            None => self.unknown(now, segment, hash, None, app),
        }
    }

    /// Does something with a session, and what follows from it: counts of states, timers, its end.
    #[inline]
    fn with_session<A: Application>(
        &mut self,
        now: Nanos,
        at: u32,
        app: &mut A,
        action: impl FnOnce(&mut Tcb, &mut Core, &mut Context<'_, A>) -> Fate,
    ) {
        let Some(tcb) = self.sessions.get_mut(at) else { return };
        let session = Session { id: SessionId(at), user: tcb.user };
        let mut cx = Context { now, tick: Tick::at(now), session, node: at, app };
        let before = tcb.state;
        let fate = action(tcb, &mut self.core, &mut cx);
        if tcb.state != before {
            self.core.counters.leave(before);
            self.core.counters.enter(tcb.state);
        }
        if fate == Fate::Keep {
            tcb.settle(&mut self.core, &cx);
        } else {
            self.end(now, at, fate, app);
        }
    }

    /// Ends a session, in TIME-WAIT or at once.
    fn end<A: Application>(&mut self, now: Nanos, at: u32, fate: Fate, app: &mut A) {
        let Some(tcb) = self.sessions.get_mut(at) else { return };
        let session = Session { id: SessionId(at), user: tcb.user };
        self.core.release_ranges(&mut tcb.scoreboard);
        self.core.release_ranges(&mut tcb.reassembly);
        self.core.wheel.disarm(at);
        let state = tcb.state;
        let totals = tcb.totals();
        let (ends, is_v6) = ((tcb.local, tcb.remote), tcb.has(Marks::V6));
        let waiting = (fate == Fate::TimeWait).then(|| {
            let window = tcb.announce(&self.core);
            TimeWait::new(tcb, window)
        });
        let Some(tcb) = self.sessions.get(at) else { return };
        let tuple = self.tuple_of(tcb);
        let hash = self.core.hash(&tuple);
        let mut moved = false;
        if let Some(mut entry) = waiting {
            let outgoing = entry.acknowledgment(&mut self.core, &tuple, now);
            self.core.reply(outgoing);
            let time = self.core.profile(entry.profile).time_wait;
            entry.deadline = Tick::after(now, time);
            let deadline = entry.deadline;
            let place = if time > Nanos::ZERO { self.time_wait.insert(entry) } else { None };
            if let Some(place) = place {
                let node = self.time_wait_node(place);
                moved = self.index.replace(hash, at, node);
                self.core.wheel.arm(node, deadline);
                self.core.counters.sessions.time_waits += 1;
                self.core.counters.enter(State::TimeWait);
            } else {
                self.core.counters.sessions.time_wait_skipped += 1;
            }
        }
        if !moved {
            self.index.remove(hash, at);
            self.release(ends, is_v6);
        }
        self.sessions.remove(at);
        self.core.counters.leave(state);
        let reason = match fate {
            Fate::Close(reason) => reason,
            Fate::Keep | Fate::TimeWait => Reason::InOrder,
        };
        let opening = matches!(state, State::SynSent | State::SynReceived);
        let sessions = &mut self.core.counters.sessions;
        *match reason {
            Reason::InOrder => &mut sessions.closed,
            Reason::Refused => &mut sessions.refused,
            Reason::TimedOut if opening => &mut sessions.timed_out_opening,
            Reason::TimedOut => &mut sessions.timed_out,
            Reason::Reset if opening => &mut sessions.reset_opening,
            Reason::Reset => &mut sessions.reset,
            Reason::Unreachable => &mut sessions.unreachable,
            Reason::Aborted => &mut sessions.aborted,
        } += 1;
        app.ending(session, &totals);
        app.event(session, Event::Closed(reason));
    }

    /// Does what is due at `now`, for at most `budget` nodes, so that many timers at one time do not keep arrivals waiting. Whether
    /// all was done.
    pub fn expire<A: Application>(&mut self, now: Nanos, budget: usize, app: &mut A) -> bool {
        let tick = Tick::at(now);
        let mut left = budget;
        while left > 0 {
            let mut nodes = [NONE; BATCH];
            let mut count = 0;
            for slot in nodes.iter_mut().take(left) {
                let Some((node, _)) = self.core.acks.due(tick) else { break };
                (*slot, count) = (node, count + 1);
            }
            nodes.iter().take(count).for_each(|node| self.touch_times(*node));
            for node in nodes.into_iter().take(count) {
                if self.sessions.get_mut(node).is_some_and(|tcb| tcb.delayed_ack(tick)) {
                    self.core.ready.push(node);
                }
            }
            if count < left.min(BATCH) {
                left -= count;
                break;
            }
            left -= count;
        }
        while left > 0 {
            let mut nodes = [(NONE, tick); BATCH];
            let mut count = 0;
            for slot in nodes.iter_mut().take(left) {
                let Some(entry) = self.core.first_waits.due(tick) else { break };
                (*slot, count) = (entry, count + 1);
            }
            nodes.iter().take(count).for_each(|(node, _)| self.touch_armed(*node));
            for (node, at) in nodes.into_iter().take(count) {
                // Another session may have this node by now, or this one another time at which it is called.
                let is_meant = |tcb: &Tcb| tcb.has(Marks::ARMED) && tcb.wheel_at == at;
                if self.sessions.get(node).is_some_and(is_meant) {
                    self.due(now, node, app);
                }
            }
            if count < left.min(BATCH) {
                left -= count;
                break;
            }
            left -= count;
        }
        while left > 0 {
            let mut nodes = [NONE; BATCH];
            let mut count = 0;
            for slot in nodes.iter_mut().take(left) {
                let Some(node) = self.core.wheel.expire(tick) else { break };
                (*slot, count) = (node, count + 1);
            }
            nodes.iter().take(count).for_each(|node| self.touch(*node));
            for node in nodes.into_iter().take(count) {
                self.due(now, node, app);
            }
            if count < left.min(BATCH) {
                return true;
            }
            left -= count;
        }
        false
    }

    /// The wheel calls `node`.
    fn due<A: Application>(&mut self, now: Nanos, node: u32, app: &mut A) {
        let tick = Tick::at(now);
        match self.kind(node) {
            Kind::Session(at) => {
                self.with_session(now, at, app, |tcb, core, cx| tcb.timers(core, cx));
            }
            Kind::HalfOpen(at) => self.half_open_timer(at, tick),
            Kind::TimeWait(at) => match self.time_wait.get(at).map(|entry| entry.deadline) {
                Some(deadline) if deadline.is_due(tick) => self.drop_time_wait(at),
                Some(deadline) => self.core.wheel.arm(node, deadline),
                None => {}
            },
        }
    }

    /// Sends what there is to send, as long as `out` has buffers. `false` when it had none left and there is more.
    pub fn transmit<A: Application, T: Transmit>(
        &mut self,
        now: Nanos,
        app: &mut A,
        out: &mut T,
    ) -> bool {
        while let Some(outgoing) = self.core.replies.front() {
            let Some(buffer) = out.buffer(outgoing.packet_len()) else { return false };
            if outgoing.write(buffer, |_| ()) {
                out.commit();
                let segments = &mut self.core.counters.segments;
                segments.sent += 1;
                let is_reset = outgoing.flags.has(Flags::RST);
                segments.rst += u64::from(is_reset);
                segments.ack += u64::from(!is_reset);
            }
            self.core.replies.pop_front();
        }
        let mut touched = 0;
        while let Some(node) = self.core.ready.pop() {
            if touched == 0 {
                touched = BATCH / 2;
                self.core.ready.upcoming().take(touched).for_each(|node| self.touch(node));
            }
            touched -= 1;
            let turn = match self.kind(node) {
                Kind::Session(at) => self.session_turn(now, at, app, out),
                Kind::HalfOpen(at) => self.half_open_turn(now, at, out),
                Kind::TimeWait(_) => Turn::Done,
            };
            match turn {
                Turn::Done => {}
                Turn::Again => self.core.ready.push(node),
                Turn::Blocked => {
                    self.core.ready.unpop(node);
                    return false;
                }
            }
        }
        true
    }

    #[inline]
    fn session_turn<A: Application, T: Transmit>(
        &mut self,
        now: Nanos,
        at: u32,
        app: &mut A,
        out: &mut T,
    ) -> Turn {
        let Some(tuple) = self.sessions.get(at).map(|tcb| self.tuple_of(tcb)) else {
            return Turn::Done;
        };
        let mut turn = Turn::Done;
        self.with_session(now, at, app, |tcb, core, cx| {
            turn = tcb.transmit(core, cx, &tuple, out);
            if turn != Turn::Done {
                core.ready.push(cx.node);
            }
            Fate::Keep
        });
        turn
    }
}
