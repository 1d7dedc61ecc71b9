//! The fast path: what nearly every segment is, in a straight line, with nothing asked that its conditions have answered.
//!
//! An established session in which nothing is missing, waits to be sent again, or is about to end takes a segment that comes in order
//! and says nothing unusual ([`PlainTcb::arrival_plain`]; header prediction, RFC 1323 appendix C has the idea), and sends one small segment or
//! a bare acknowledgment ([`PlainTcb::transmit_plain`]). Each function first asks for all that makes it valid and changes nothing where
//! one condition does not hold; then the general path decides (`arrival`, `recovery`, `data`; `output`), which gives the same in every case.
//! What is done here is what remains of the general path under these conditions, in the same order; a change there is a change here.
//! A test runs the simulation with and without the fast path and compares every packet and every counter.

use crate::api::{Application, Event, Received, Transmit};
use crate::core::{Context, Core};
use crate::flight::{Flight, PlainTcb};
use crate::output::Turn;
use crate::segment::{ECN_CE, Flags, Outgoing, Segment, Tuple};
use crate::slab::NONE;
use crate::tcb::{Marks, State, Timer};
use crate::tick::ticks;

/// What recovers, ends, or was asked for: with one of them the general path decides.
const TROUBLE: Marks = Marks(
    Marks::RECOVERY.0
        | Marks::LOSS.0
        | Marks::ECN_RECOVERY.0
        | Marks::TAIL_SENT.0
        | Marks::AGAIN.0
        | Marks::REORDER.0
        | Marks::FIN_SENT.0
        | Marks::DEAF.0,
);
/// The same for a turn to send, with what would be sent first and what would be told in the header.
const MORE_TO_DO: Marks = Marks(
    TROUBLE.0
        | Marks::SEND_SYN.0
        | Marks::DUPLICATE.0
        | Marks::PROBE.0
        | Marks::SEND_TAIL.0
        | Marks::FORCE.0
        | Marks::LIMITED.0
        | Marks::OVERRIDE.0
        | Marks::ECN.0
        | Marks::ECHO.0
        | Marks::REDUCED.0
        | Marks::CLOSED.0,
);

impl PlainTcb<'_> {
    /// Established, and all that was sent is acknowledged or on its way for the first time; nothing is here or there out of order.
    #[inline(always)]
    fn is_plain(&self, not: Marks) -> bool {
        let has_nothing = |flight: &Flight| {
            flight.scoreboard == NONE
                && flight.reassembly == NONE
                && flight.dup_acks == 0
                && flight.backoff == 0
                && !flight.lost_edge.is_after(self.snd_una)
        };
        self.state == State::Established
            && !self.has(not)
            && self.flight.as_deref().is_none_or(has_nothing)
    }

    /// Takes a segment of [`Segment::read_plain`] that comes next, fits into the window, and acknowledges what was sent. `false`, and
    /// nothing was done, where it or the session is another.
    #[inline(always)]
    pub(crate) fn arrival_plain<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
    ) -> bool {
        let len = segment.payload.len() as u32;
        let acked = segment.ack.since(self.snd_una);
        let has_timestamps = self.has(Marks::TIMESTAMPS);
        let is_next = self.is_plain(TROUBLE)
            && segment.seq == self.rcv_nxt
            && !self.rcv_nxt.plus(len).is_after(self.rcv_adv)
            && acked <= self.outstanding()
            // without SACK one that acknowledges nothing may be a duplicate
            && (acked > 0 || self.has(Marks::SACK))
            && segment.ecn != ECN_CE;
        // RFC 7323 §5.3.
        let value = match segment.options.timestamps {
            Some(timestamps) => timestamps.value,
            None if has_timestamps => return false,
            None => 0,
        };
        let is_older = has_timestamps && (value.wrapping_sub(self.ts_recent) as i32) < 0;
        if !is_next || is_older {
            return false;
        }
        self.last_heard = cx.tick;
        if has_timestamps && !segment.seq.is_after(self.last_ack_sent) {
            self.ts_recent = value;
        }
        match self.active() {
            Some(mut active) => {
                active.update_window(segment, acked > 0);
                if active.timer == Timer::Persist || active.snd_wnd == 0 {
                    active.flight.retries = 0;
                }
            }
            None => drop(self.take_window(segment)),
        }
        if acked > 0 {
            self.advance_plain(core, cx, segment, acked);
        }
        if len > 0 {
            let offset = self.received;
            let reached = self.rcv_nxt.plus(len);
            self.advance_to(core, reached);
            let received = Received { offset, bytes: segment.payload, in_order: self.received };
            cx.app.received(cx.session, received);
            self.delay_ack(core, len);
        }
        true
    }

    /// Moves `snd_una` on by `acked`, all of it data.
    #[inline(always)]
    fn advance_plain<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
        acked: u32,
    ) {
        self.snd_una = segment.ack;
        match self.active() {
            Some(mut active) => {
                active.dequeue(acked);
                active.flight.retries = 0;
                active.flight.follow(active.tcb.snd_una);
            }
            None => {
                self.acked += u64::from(acked);
                self.queued = self.queued.saturating_sub(acked);
            }
        }
        core.counters.bytes.acked += u64::from(acked);
        if acked >= self.mss.into() {
            self.set(Marks::PROVEN);
        }
        if self.has(Marks::TIMING) && !segment.ack.is_before(self.rtt_seq) {
            self.clear(Marks::TIMING);
            core.counters.recoveries.rtt_samples += 1;
            let rtt = cx.micros().wrapping_sub(self.rtt_start);
            self.rtt_sample(rtt);
        }
        if self.outstanding() > 0 {
            self.tcb.await_first_ack(cx.now, core.profile(self.tcb.profile));
        } else {
            self.timer = Timer::Idle;
        }
        cx.app.event(cx.session, Event::Acknowledged { offset: self.acked });
        let profile = core.profile(self.profile);
        if let Some(mut active) = self.active() {
            active.congestion_ack(profile, acked, cx.tick);
        }
    }

    /// Sends all that waits where that is one segment at most which may go now, the acknowledgment that is owed where nothing
    /// waits, or nothing where none is. `None`, and nothing was done, where the session has something else to do.
    #[inline(always)]
    pub(crate) fn transmit_plain<A: Application, T: Transmit>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        tuple: &Tuple,
        out: &mut T,
    ) -> Option<Turn> {
        if !self.is_plain(MORE_TO_DO) {
            return None;
        }
        let (len, outstanding) = (self.unsent(), self.outstanding());
        if len == 0 && self.acks_owed == 0 {
            // Nothing is to be sent, as after most arrivals that need no answer.
            if self.unacked > 0 && !self.has(Marks::ACK_DELAYED) {
                self.begin_ack_delay(core, cx);
            }
            if self.acks_owed == 0 {
                return Some(Turn::Done);
            }
        }
        if len > self.mss.into() {
            return None;
        }
        let profile = core.profile(self.profile);
        if len > 0 {
            let has_room = outstanding + len <= self.snd_wnd;
            let may_go = match outstanding {
                // after a pause the congestion window may begin anew, which is nothing new where it never grew
                0 => {
                    let has_begun_anew =
                        self.flight.is_none() && self.cwnd <= profile.initial_cwnd(self.mss);
                    let is_recent = cx.tick.since(self.last_sent) <= ticks(profile.rto_min);
                    self.srtt > 0 && (is_recent || has_begun_anew)
                }
                _ => (!profile.nagle || len == self.mss.into()) && outstanding + len <= self.cwnd,
            };
            // Half of the congestion window in the network is what its growth looks at.
            let is_small = self.flight.is_some() || outstanding + len <= self.cwnd / 2;
            if !has_room || !may_go || !is_small {
                return None;
            }
        }
        let (tos, ttl, dont_fragment) = (profile.packet_tos(), profile.ttl, profile.dont_fragment);
        let flags = if len > 0 && !self.has(Marks::MORE) { Flags::PSH } else { Flags(0) };
        let outgoing = Outgoing {
            tuple: *tuple,
            seq: self.snd_nxt,
            ack: self.rcv_nxt,
            flags: flags.with(Flags::ACK),
            window: self.announce(core),
            options: core.timestamps(self.has(Marks::TIMESTAMPS), self.ts_recent, cx.now),
            payload_len: len as u16,
            tos,
            ttl,
            identification: core.identification(),
            dont_fragment,
        };
        let offset = self.acked + u64::from(outstanding);
        let Some(buffer) = out.buffer(outgoing.packet_len()) else { return Some(Turn::Blocked) };
        let (session, app) = (cx.session, &mut *cx.app);
        if !outgoing.write(buffer, |into| app.payload(session, offset, into)) {
            return Some(Turn::Blocked);
        }
        out.of_profile(self.profile);
        out.commit();
        let segments = &mut core.counters.segments;
        segments.sent += 1;
        if len > 0 {
            segments.new_data += 1;
            core.counters.bytes.sent += u64::from(len);
            core.note_sent(self.profile, 1, 0);
            self.snd_nxt = self.snd_nxt.plus(len);
            if let Some(mut active) = self.active() {
                active.congestion_sent();
            }
            if !self.has(Marks::TIMING) {
                self.set(Marks::TIMING);
                (self.rtt_start, self.rtt_seq) = (cx.micros(), self.snd_nxt);
            }
            if self.timer != Timer::Retransmit || self.has(Marks::TAIL) {
                let keeps_alive = self.timer == Timer::KeepAlive;
                if let Some(flight) = self.flight.as_deref_mut().filter(|_| keeps_alive) {
                    flight.retries = 0;
                }
                self.tcb.await_first_ack(cx.now, core.profile(self.tcb.profile));
            }
            self.last_sent = cx.tick;
        } else {
            segments.ack += 1;
        }
        (self.acks_owed, self.unacked) = (0, 0);
        self.clear(Marks::ACK_DELAYED);
        self.last_ack_sent = self.rcv_nxt;
        Some(Turn::Done)
    }
}
