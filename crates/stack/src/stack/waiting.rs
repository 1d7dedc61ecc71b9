//! Sessions that are not yet there, and those that are no more: SYNs and what follows them, TIME-WAIT, segments of nobody.

use wirebeat_units::Nanos;

use super::{Kind, Stack};
use crate::api::{Accept, Application, Transmit};
use crate::half_open::HalfOpen;
use crate::output::Turn;
use crate::segment::{Flags, Segment};
use crate::seq::Seq;
use crate::tcb::State;
use crate::tick::{Tick, micros};
use crate::time_wait::Answer;

impl Stack {
    /// A segment of no session.
    pub(super) fn unknown<A: Application>(
        &mut self,
        now: Nanos,
        segment: &Segment<'_>,
        hash: u32,
        app: &mut A,
    ) {
        if segment.flags.has(Flags::RST) {
            self.core.counters.arrivals.no_session += 1;
            return;
        }
        let is_syn = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        // A FIN or data with a SYN comes again once that is answered (RFC 9293 §3.10.7.2 lets them wait).
        if !is_syn {
            self.core.counters.arrivals.no_session += 1;
            self.core.reset_reply(segment);
            return;
        }
        match app.accept(&segment.tuple) {
            Accept::Session { profile, user } => {
                self.half_open(now, segment, hash, (profile, user), None)
            }
            Accept::Refuse => {
                self.core.counters.arrivals.no_session += 1;
                self.core.reset_reply(segment);
            }
            Accept::Ignore => self.core.counters.arrivals.no_session += 1,
        }
    }

    /// Answers a SYN. Numbers begin behind `after` where a session with these ends was there before (RFC 9293 §3.10.7.4).
    fn half_open(
        &mut self,
        now: Nanos,
        segment: &Segment<'_>,
        hash: u32,
        (profile, user): (u8, u32),
        after: Option<Seq>,
    ) {
        let ends = if self.half_open.is_full() { None } else { self.acquire(&segment.tuple) };
        let Some(ends) = ends else {
            self.core.counters.arrivals.syn_dropped += 1;
            return;
        };
        let mut iss = self.core.initial_seq(&segment.tuple, now);
        if let Some(after) = after.filter(|after| !iss.is_after(*after)) {
            iss = after.plus(1 << 16);
        }
        let mut entry = HalfOpen::new(&self.core, segment, ends, profile, iss);
        entry.user = user;
        let inserted = self.half_open.insert(entry).filter(|at| {
            let inserted = self.index.insert(hash, self.sessions.capacity() as u32 + at).is_ok();
            inserted || {
                self.half_open.remove(*at);
                false
            }
        });
        let Some(at) = inserted else {
            self.core.counters.arrivals.syn_dropped += 1;
            self.release(ends, segment.tuple.local.is_ipv6());
            return;
        };
        self.core.counters.sessions.half_opened += 1;
        self.core.counters.enter(State::SynReceived);
        let node = self.half_open_node(at);
        self.core.ready.push(node);
    }

    /// RFC 9293 §3.10.7.4 for SYN-RECEIVED.
    pub(super) fn half_open_arrival<A: Application>(
        &mut self,
        now: Nanos,
        at: u32,
        hash: u32,
        segment: &Segment<'_>,
        app: &mut A,
    ) {
        let Some(entry) = self.half_open.get(at) else { return };
        let (rcv_nxt, node) = (entry.irs.plus(1), self.half_open_node(at));
        let window = u32::from(self.core.profile(entry.profile).syn_window());
        let is_same_syn = segment.flags.has(Flags::SYN) && segment.seq == entry.irs;
        if segment.flags.has(Flags::RST) {
            let exact = segment.seq == rcv_nxt;
            if exact {
                self.core.counters.sessions.half_open_reset += 1;
                self.drop_half_open(at);
            } else if segment.seq.is_in(rcv_nxt, window) {
                self.challenge_half_open(now, at, segment);
            }
            return;
        }
        if is_same_syn {
            if self.core.answers_repeat(now) {
                self.core.ready.push(node);
            }
            return;
        }
        if segment.flags.has(Flags::SYN) {
            self.challenge_half_open(now, at, segment);
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        if segment.ack != entry.iss.plus(1) {
            self.core.reset_reply(segment);
            return;
        }
        let Some(session) = self.sessions.insert(entry.session(&self.core)) else {
            // The peer thinks that it is open; without a word it would wait for ever.
            self.core.counters.sessions.half_open_dropped += 1;
            self.core.reset_reply(segment);
            self.drop_half_open(at);
            return;
        };
        self.core.counters.sessions.accepts += 1;
        self.index.replace(hash, node, session);
        self.core.wheel.disarm(node);
        // The addresses stay in use: the session has them now.
        self.half_open.remove(at);
        self.with_session(now, session, app, |tcb, core, cx| {
            let fate = tcb.arrival(core, cx, segment);
            core.ready.push(cx.node);
            if tcb.state == State::SynReceived {
                // The segment was refused for another reason; its acknowledgment was right all the same.
                tcb.establish(core, cx, segment);
            }
            fate
        });
    }

    /// Answers a segment that may be forged, within the limit.
    fn challenge_half_open(&mut self, now: Nanos, at: u32, segment: &Segment<'_>) {
        self.core.counters.arrivals.challenged += 1;
        let Some(entry) = self.half_open.get(at).filter(|_| self.core.challenge(now)) else {
            return;
        };
        let profile = entry.profile;
        let outgoing = entry.acknowledgment(&mut self.core, &segment.tuple, now);
        self.core.reply(outgoing, Some(profile));
    }

    fn drop_half_open(&mut self, at: u32) {
        let node = self.half_open_node(at);
        let (Some(tuple), Some(entry)) =
            (self.tuple_of_node(Kind::HalfOpen(at)), self.half_open.get(at))
        else {
            return;
        };
        let ends = (entry.local, entry.remote);
        self.index.remove(self.core.hash(&tuple), node);
        self.core.wheel.disarm(node);
        self.half_open.remove(at);
        self.release(ends, tuple.local.is_ipv6());
        self.core.counters.leave(State::SynReceived);
    }

    pub(super) fn time_wait_arrival<A: Application>(
        &mut self,
        now: Nanos,
        at: u32,
        hash: u32,
        segment: &Segment<'_>,
        app: &mut A,
    ) {
        let node = self.time_wait_node(at);
        let Some(entry) = self.time_wait.get_mut(at) else { return };
        let answer = entry.arrival(segment);
        match answer {
            Answer::Nothing => return,
            Answer::Reopen => {
                // Where nobody takes it, it does not end the protection either.
                if let Accept::Session { profile, user } = app.accept(&segment.tuple) {
                    let after = entry.snd_nxt;
                    self.core.counters.sessions.time_wait_reused += 1;
                    self.drop_time_wait(at);
                    self.half_open(now, segment, hash, (profile, user), Some(after));
                    return;
                }
            }
            Answer::Restart => {
                entry.deadline = Tick::after(now, self.core.profile(entry.profile).time_wait);
                self.core.wheel.arm(node, entry.deadline);
            }
            Answer::Acknowledge => {}
        }
        let entry = entry.clone();
        let may = match answer {
            Answer::Restart => self.core.answers_repeat(now),
            _ => self.core.challenge(now),
        };
        if may {
            let outgoing = entry.acknowledgment(&mut self.core, &segment.tuple, now);
            self.core.reply(outgoing, Some(entry.profile));
        }
    }

    pub(super) fn drop_time_wait(&mut self, at: u32) {
        let node = self.time_wait_node(at);
        let (Some(tuple), Some(entry)) =
            (self.tuple_of_node(Kind::TimeWait(at)), self.time_wait.get(at))
        else {
            return;
        };
        let ends = (entry.local, entry.remote);
        self.index.remove(self.core.hash(&tuple), node);
        self.core.wheel.disarm(node);
        self.time_wait.remove(at);
        self.release(ends, tuple.local.is_ipv6());
        self.core.counters.leave(State::TimeWait);
    }

    pub(super) fn half_open_timer(&mut self, at: u32, tick: Tick) {
        let node = self.half_open_node(at);
        let Some(entry) = self.half_open.get(at) else { return };
        if !entry.deadline.is_due(tick) {
            self.core.wheel.arm(node, entry.deadline);
        } else if entry.sent > self.core.profile(entry.profile).syn_retries {
            self.core.counters.sessions.half_open_timed_out += 1;
            self.drop_half_open(at);
        } else {
            self.core.ready.push(node);
        }
    }

    pub(super) fn half_open_turn<T: Transmit>(&mut self, now: Nanos, at: u32, out: &mut T) -> Turn {
        let node = self.half_open_node(at);
        let Some(tuple) = self.tuple_of_node(Kind::HalfOpen(at)) else { return Turn::Done };
        let Some(entry) = self.half_open.get_mut(at) else { return Turn::Done };
        let outgoing = entry.syn_ack(&mut self.core, &tuple, now);
        let Some(buffer) = out.buffer(outgoing.packet_len()) else { return Turn::Blocked };
        if !outgoing.write(buffer, |_| ()) {
            return Turn::Done;
        }
        out.of_profile(entry.profile);
        out.commit();
        let segments = &mut self.core.counters.segments;
        segments.sent += 1;
        segments.syn_ack += u64::from(entry.sent == 0);
        segments.retransmitted_syn += u64::from(entry.sent > 0);
        if entry.sent == 0 {
            entry.sent_at = micros(now);
        }
        entry.sent = entry.sent.saturating_add(1);
        entry.deadline = Tick::after(now, entry.timeout(&self.core));
        self.core.wheel.arm(node, entry.deadline);
        Turn::Done
    }
}
