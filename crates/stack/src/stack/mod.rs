//! The stack: its tables, and what goes in and out of it.
//!
//! All that waits or is found has one number, a node: sessions first, then half-open ones, then those in TIME-WAIT. The index finds
//! nodes by addresses and ports, the wheel calls them, the queue has those with something to send. A turn of the embedder's loop
//! is [`Stack::receive_batch`], [`Stack::expire`], its own opening, sending and closing, and [`Stack::transmit`].

mod arrivals;
mod commands;
mod forge;
mod icmp;
mod waiting;

pub use forge::{Forged, ForgedSegment, Place};
use wirebeat_units::Nanos;
use wirebeat_wire::ip::Version;

use crate::addresses::{AddressId, Addresses};
use crate::api::{Application, Event, Limits, Reason, Session, SessionId, Totals, Transmit};
use crate::core::{Context, Core, Fate};
use crate::counters::Counters;
use crate::flight::ActiveTcb;
use crate::half_open::HalfOpen;
use crate::index::Index;
use crate::output::Turn;
use crate::prefetch::prefetch;
use crate::profile::Profile;
use crate::segment::{Flags, Tuple};
use crate::sessions::Sessions;
use crate::slab::{NONE, Slab};
use crate::tcb::{Marks, State, Tcb, Timer};
use crate::tick::Tick;
use crate::time_wait::TimeWait;

/// Packets whose sessions are looked for together.
const BATCH: usize = 32;
/// How many nodes before its turn what the stack keeps of one is asked for: a segment takes a tenth of a microsecond, and so does memory, of
/// which a processor fetches some ten lines at a time.
const AHEAD: usize = 8;

/// A TCP of its own, for one thread.
#[derive(Debug)]
pub struct Stack {
    pub(crate) sessions: Sessions,
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
    /// What both sides agreed on.
    pub agreed: Agreed,
}

/// What the SYNs of both sides agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Timestamps (RFC 7323 §3).
    pub timestamps: bool,
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Shifted windows (RFC 7323 §2); not where both shifts are 0, which is the same as none.
    pub window_scaling: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
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

/// The ends of a session.
#[inline]
fn tuple_in(addresses: &Addresses, tcb: &Tcb) -> Tuple {
    let is_v6 = tcb.has(Marks::V6);
    Tuple {
        local: addresses.get(tcb.local, is_v6),
        remote: addresses.get(tcb.remote, is_v6),
        local_port: tcb.local_port,
        remote_port: tcb.remote_port,
    }
}

impl Stack {
    /// A stack that begins at `now`. Its sequence numbers and hashes follow from `seed`, which has to be secret and new where the
    /// network is not one's own; at most 256 profiles count.
    pub fn new(limits: &Limits, mut profiles: Vec<Profile>, seed: [u64; 2], now: Nanos) -> Stack {
        profiles.truncate(256);
        let sessions = Sessions::new(limits.sessions.max(1), limits.expected);
        let (half_open, time_wait) = (Slab::new(limits.half_open), Slab::new(limits.time_wait));
        let nodes = sessions.capacity() + half_open.capacity() + time_wait.capacity();
        let key = [crate::hash::siphash(seed, &[6]), crate::hash::siphash(seed, &[7])];
        Stack {
            index: Index::new(nodes.min(limits.connections)),
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

    /// How many bytes a session was given to send in all; 0 where there is no session.
    pub fn offered(&self, id: SessionId) -> u64 {
        self.sessions.offered(id.0).unwrap_or(0)
    }

    /// Segments that were sent again for sessions of the profile of this one, since that was told last, here or at the end of one of them.
    pub fn take_retransmitted(&mut self, id: SessionId) -> u64 {
        let profile = self.sessions.get(id.0).map(|tcb| tcb.profile);
        profile.map_or(0, |profile| self.core.take_sent_again(profile))
    }

    /// What a session is like; `None` when there is none.
    pub fn info(&self, id: SessionId) -> Option<Info> {
        let (mut tcb, mut flight) = self.sessions.snapshot(id.0)?;
        let (tuple, profile) = (self.tuple_of(&tcb), self.core.profile(tcb.profile));
        let tcb = ActiveTcb { tcb: &mut tcb, flight: &mut flight };
        Some(Info {
            state: tcb.state,
            tuple,
            offered: tcb.offered(),
            acked: tcb.acked,
            received: tcb.received,
            cwnd: tcb.cwnd,
            ssthresh: tcb.flight.ssthresh,
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
            retries: tcb.flight.retries,
            probing: matches!(tcb.timer, Timer::Persist | Timer::KeepAlive),
            backoff: tcb.flight.backoff,
            agreed: Agreed {
                timestamps: tcb.has(Marks::TIMESTAMPS),
                sack: tcb.has(Marks::SACK),
                window_scaling: tcb.snd_shift() > 0 || tcb.rcv_shift() > 0,
                ecn: tcb.has(Marks::ECN),
            },
        })
    }

    /// What all that could grow has memory for: the same at all times.
    #[cfg(test)]
    pub(crate) fn reserved(&self) -> [usize; 10] {
        let core = &self.core;
        let [tcbs, flights] = self.sessions.reserved();
        [
            tcbs,
            flights,
            self.half_open.reserved(),
            self.time_wait.reserved(),
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

    /// Asks for what the stack keeps of `node`.
    #[inline(always)]
    fn prefetch(&self, node: u32) {
        self.core.ready.prefetch(node);
        if (node as usize) < self.sessions.capacity() {
            return self.sessions.prefetch(node);
        }
        match self.kind(node) {
            Kind::Session(_) => {}
            Kind::HalfOpen(at) => self.half_open.slot(at).into_iter().for_each(prefetch),
            Kind::TimeWait(at) => self.time_wait.slot(at).into_iter().for_each(prefetch),
        }
    }

    /// Asks for what lies behind the session `node`, and has its embedder do so.
    #[inline(always)]
    fn prefetch_rest<A: Application>(&self, node: u32, app: &A) {
        if let Some(user) = self.sessions.prefetch_flight(node) {
            app.upcoming(user);
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
        tuple_in(&self.addresses, tcb)
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
    fn has_ends(&self, node: u32, tuple: &Tuple) -> bool {
        if let Some(tcb) = self.sessions.get(node) {
            return tcb.is_at(tuple) || tcb.has(Marks::V6) && self.tuple_of(tcb) == *tuple;
        }
        self.tuple_of_node(self.kind(node)).is_some_and(|found| found == *tuple)
    }

    #[inline]
    fn find(&self, hash: u32, tuple: &Tuple) -> Option<u32> {
        self.index.find(hash, |node| self.has_ends(node, tuple))
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

    /// Does something with a session, and what follows from it: counts of states, timers, its end.
    #[inline]
    fn with_session<A: Application>(
        &mut self,
        now: Nanos,
        at: u32,
        app: &mut A,
        action: impl FnOnce(&mut ActiveTcb<'_>, &mut Core, &mut Context<'_, A>) -> Fate,
    ) {
        let Some(mut tcb) = self.sessions.active(at) else { return };
        let session = Session { id: SessionId(at), user: tcb.user };
        let mut cx = Context { now, tick: Tick::at(now), session, node: at, app };
        let before = tcb.state;
        let fate = action(&mut tcb, &mut self.core, &mut cx);
        if tcb.state != before {
            self.core.counters.leave(before);
            self.core.counters.enter(tcb.state);
        }
        if fate == Fate::Keep {
            // With a turn to send before long it is settled then.
            if !self.core.ready.has(at) {
                tcb.settle(&mut self.core, &cx);
                self.sessions.rest(at);
            }
        } else {
            self.end(now, at, fate, app);
        }
    }

    /// Ends a session, in TIME-WAIT or at once.
    fn end<A: Application>(&mut self, now: Nanos, at: u32, fate: Fate, app: &mut A) {
        let Some(mut tcb) = self.sessions.active(at) else { return };
        let session = Session { id: SessionId(at), user: tcb.user };
        self.core.release_ranges(&mut tcb.flight.scoreboard);
        self.core.release_ranges(&mut tcb.flight.reassembly);
        self.core.wheel.disarm(at);
        let state = tcb.state;
        let totals = Totals {
            data_segments: self.core.take_sent(tcb.profile),
            retransmitted: self.core.take_sent_again(tcb.profile),
            ..tcb.totals()
        };
        let (ends, is_v6) = ((tcb.local, tcb.remote), tcb.has(Marks::V6));
        let waiting = (fate == Fate::TimeWait).then(|| {
            let window = tcb.announce(&self.core);
            TimeWait::new(&tcb, window)
        });
        let Some(tcb) = self.sessions.get(at) else { return };
        let tuple = self.tuple_of(tcb);
        let hash = self.core.hash(&tuple);
        let mut moved = false;
        if let Some(mut entry) = waiting {
            let outgoing = entry.acknowledgment(&mut self.core, &tuple, now);
            self.core.last_reply(outgoing, entry.profile);
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

    /// Has the system give memory before the first session opens: that of its index, whose entries lie all over it, and that of
    /// the sessions that are expected. A large page that is given while sessions open delays them by milliseconds. What kind of pages it
    /// gives may be chosen before.
    pub fn populate(&mut self) {
        self.index.populate();
        self.sessions.populate();
    }

    /// Does what is due at `now`, for at most `budget` nodes, so that many timers at one time do not keep arrivals waiting. Whether
    /// all was done.
    pub fn expire<A: Application>(&mut self, now: Nanos, budget: usize, app: &mut A) -> bool {
        let tick = Tick::at(now);
        let mut left = budget;
        while left > 0 && self.core.acks.is_due(tick) {
            let mut nodes = [(NONE, tick); BATCH];
            let mut count = 0;
            for slot in nodes.iter_mut().take(left) {
                let Some(entry) = self.core.acks.due(tick) else { break };
                self.sessions.prefetch_timer(entry.0);
                (*slot, count) = (entry, count + 1);
            }
            for (node, at) in nodes.into_iter().take(count) {
                if self.sessions.get_mut(node).is_some_and(|tcb| tcb.delayed_ack(at)) {
                    self.core.ready.push(node);
                }
            }
            if count < left.min(BATCH) {
                left -= count;
                break;
            }
            left -= count;
        }
        while left > 0 && self.core.first_waits.is_due(tick) {
            let mut nodes = [(NONE, tick); BATCH];
            let mut count = 0;
            for slot in nodes.iter_mut().take(left) {
                let Some(entry) = self.core.first_waits.due(tick) else { break };
                self.sessions.prefetch_timer(entry.0);
                (*slot, count) = (entry, count + 1);
            }
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
                self.prefetch(node);
                (*slot, count) = (node, count + 1);
            }
            // Where a session that leaves TIME-WAIT lies in the index follows from its ends.
            for kind in nodes.iter().take(count).map(|node| self.kind(*node)) {
                if let Kind::TimeWait(_) = kind
                    && let Some(tuple) = self.tuple_of_node(kind)
                {
                    self.index.prefetch(self.core.hash(&tuple));
                }
            }
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
                let Some(tcb) = self.sessions.get_mut(at) else { return };
                if tcb.is_called_in_time(&mut self.core, tick, node) {
                    self.with_session(now, at, app, |tcb, core, cx| tcb.timers(core, cx));
                }
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
        while let Some((outgoing, profile)) = self.core.replies.front() {
            let Some(buffer) = out.buffer(outgoing.packet_len()) else { return false };
            if outgoing.write(buffer, |_| ()) {
                if let Some(profile) = *profile {
                    out.of_profile(profile);
                }
                out.commit();
                let segments = &mut self.core.counters.segments;
                segments.sent += 1;
                let is_reset = outgoing.flags.has(Flags::RST);
                segments.rst += u64::from(is_reset);
                segments.ack += u64::from(!is_reset);
            }
            self.core.replies.pop_front();
        }
        for node in self.core.ready.upcoming(AHEAD) {
            self.prefetch(node);
        }
        while let Some(node) = self.core.ready.pop() {
            if let Some(node) = self.core.ready.after(AHEAD) {
                self.prefetch(node);
            }
            if let Some(node) = self.core.ready.after(AHEAD / 2) {
                self.prefetch_rest(node, app);
            }
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
        let Stack { sessions, addresses, core, .. } = self;
        let Some(mut tcb) = sessions.plain(at) else { return Turn::Done };
        let session = Session { id: SessionId(at), user: tcb.user };
        let mut cx = Context { now, tick: Tick::at(now), session, node: at, app };
        if let Some(tuple) = tcb.tuple_v4().filter(|_| core.has_fast_path())
            && let Some(turn) = tcb.transmit_plain(core, &mut cx, &tuple, out)
        {
            #[cfg(test)]
            (core.plain[1] += 1);
            if turn == Turn::Done {
                tcb.settle(core, &cx);
                if tcb.flight.is_some() {
                    sessions.rest(at);
                }
            }
            return turn;
        }
        let Some(mut tcb) = sessions.active(at) else { return Turn::Done };
        let before = tcb.state;
        let tuple = tuple_in(addresses, &tcb);
        let turn = tcb.transmit(core, &mut cx, &tuple, out);
        if tcb.state != before {
            core.counters.leave(before);
            core.counters.enter(tcb.state);
        }
        // else it stays among the ready, and settles when it is done
        if turn == Turn::Done {
            tcb.settle(core, &cx);
            sessions.rest(at);
        }
        turn
    }
}
