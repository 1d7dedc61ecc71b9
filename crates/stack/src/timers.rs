//! What a session waits for, and what it does when that does not come.

use crate::api::{Application, Reason};
use crate::core::{Context, Core, Fate};
use crate::fault::Fault;
use crate::flight::ActiveTcb;
use crate::profile::Profile;
use crate::slab::NONE;
use crate::tcb::{Marks, State, Tcb, Timer};
use crate::tick::{Tick, ticks};
use wirebeat_units::Nanos;

/// How long a peer's acknowledgment may be delayed at worst (RFC 8985 §7.2 takes 200 ms).
const DELAYED_ACK_MAX: Nanos = Nanos::from_millis(200);
/// What a tail loss probe waits longer than two round trips: peers answer when they get a CPU, and on a fast network that takes
/// longer than the network does. Linux has two ticks of its clock (`TCP_TIMEOUT_MIN`), which are 2 ms at 1000 Hz.
const TAIL_MARGIN: Nanos = Nanos::from_millis(2);

impl Tcb {
    /// What the main timer has to be for with nothing under way.
    #[inline]
    fn idle_timer(&self, core: &Core) -> Timer {
        let profile = core.profile(self.profile);
        match (self.state, profile.keep_alive) {
            (State::FinWait2, _) if profile.fin_wait_2 > Nanos::ZERO => Timer::FinWait2,
            (State::Established | State::CloseWait | State::FinWait2, Some(_)) => Timer::KeepAlive,
            _ => Timer::Idle,
        }
    }

    /// The wheel called: whether the session has something to do. Most have not, or not yet, and are called again if they need that.
    #[inline]
    pub(crate) fn is_called_in_time(&mut self, core: &mut Core, now: Tick, node: u32) -> bool {
        let is_due = self.timer != Timer::Idle && self.timer_at.is_due(now);
        // Its profile may have another rule for sessions that wait by now.
        if is_due || self.timer == Timer::Idle && self.idle_timer(core) != Timer::Idle {
            return true;
        }
        self.clear(Marks::ARMED);
        if !core.ready.has(node) {
            core.arm(now, node, self);
        }
        false
    }

    /// What the main timer has to be for now.
    #[inline]
    pub(crate) fn timer_needed(&self, core: &Core) -> Timer {
        if self.outstanding() > 0 {
            return Timer::Retransmit;
        }
        if matches!(self.state, State::SynSent | State::SynReceived) {
            return Timer::Idle;
        }
        if self.unsent() > 0 || self.owes_fin() {
            // It had its turn: the peer's window does not take it.
            return if core.fault(Fault::NoPersist) { Timer::Idle } else { Timer::Persist };
        }
        self.idle_timer(core)
    }

    /// As [`ActiveTcb::settle`], with a timeout that is doubled `backoff` times.
    #[inline(always)]
    pub(crate) fn settle_timer<A>(&mut self, core: &mut Core, cx: &Context<'_, A>, backoff: u8) {
        let needed = self.timer_needed(core);
        if needed != self.timer {
            self.change_timer(core, cx.now, needed, backoff);
        }
        core.arm(cx.tick, cx.node, self);
    }

    /// Sets the main timer anew, for what is `needed`.
    #[inline(never)]
    fn change_timer(&mut self, core: &Core, now: Nanos, needed: Timer, backoff: u8) {
        self.timer = needed;
        let profile = core.profile(self.profile);
        let span = match needed {
            Timer::Idle => Nanos::ZERO,
            Timer::Retransmit | Timer::Persist => self.rto_at(profile, backoff),
            Timer::KeepAlive => {
                profile.keep_alive.map_or(Nanos::ZERO, |keep_alive| keep_alive.idle)
            }
            Timer::FinWait2 => profile.fin_wait_2,
        };
        self.clear(Marks(Marks::TAIL.0 | Marks::REORDER.0));
        self.timer_at = Tick::after(now, span);
    }

    /// The queue of delayed acknowledgments called, for what was to be due `at`: whether one is due. It may have gone with data, or another
    /// one begun since.
    #[inline]
    pub(crate) fn delayed_ack(&mut self, at: Tick) -> bool {
        if !self.has(Marks::ACK_DELAYED) || self.ack_timer_at != at.0 as u16 {
            return false;
        }
        self.clear(Marks::ACK_DELAYED);
        self.acks_owed = self.acks_owed.max(1);
        true
    }

    /// Sets the timer for what is outstanding, of which the peer has told nothing and which did not run out before: a tail loss probe
    /// where that may help (RFC 8985 §7.2), or the retransmission timeout.
    #[inline]
    pub(crate) fn await_first_ack(&mut self, now: Nanos, profile: &Profile) {
        self.timer = Timer::Retransmit;
        self.clear(Marks::REORDER);
        let rto = self.rto_at(profile, 0);
        let busy =
            Marks(Marks::RECOVERY.0 | Marks::LOSS.0 | Marks::TAIL_SENT.0 | Marks::SEND_TAIL.0);
        let probes = profile.tail_loss_probe && self.has(Marks::SACK) && self.srtt > 0;
        if probes && !self.has(busy) {
            // A single segment may wait for a delayed acknowledgment.
            let delay =
                if self.outstanding() <= self.mss.into() { DELAYED_ACK_MAX } else { Nanos::ZERO };
            let twice =
                Nanos::from_micros(u64::from(self.smoothed_rtt()) * 2).saturating_add(TAIL_MARGIN);
            // No later than the timeout, whose place it takes then (RFC 8985 §7.2): the window is not reset before the probe was
            // tried.
            self.set(Marks::TAIL);
            self.timer_at = Tick::after(now, twice.saturating_add(delay).min(rto));
            return;
        }
        self.clear(Marks::TAIL);
        self.timer_at = Tick::after(now, rto);
    }
}

impl ActiveTcb<'_> {
    /// The wheel called: does what is due.
    pub(crate) fn timers<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
    ) -> Fate {
        self.clear(Marks::ARMED);
        if self.timer == Timer::Idle || !self.timer_at.is_due(cx.tick) {
            return Fate::Keep;
        }
        match self.timer {
            Timer::Idle => Fate::Keep,
            Timer::Retransmit => self.retransmit(core, cx),
            Timer::Persist => self.persist(core, cx),
            Timer::KeepAlive => self.keep_alive(core, cx),
            Timer::FinWait2 => self.fin_wait_2(core, cx),
        }
    }

    /// Sets the timer for what is outstanding.
    #[inline]
    pub(crate) fn await_ack(&mut self, now: Nanos, profile: &Profile) {
        if self.flight.backoff == 0 && self.flight.scoreboard == NONE {
            return self.await_first_ack(now, profile);
        }
        self.timer = Timer::Retransmit;
        self.clear(Marks(Marks::REORDER.0 | Marks::TAIL.0));
        self.timer_at = Tick::after(now, self.rto(profile));
    }

    /// Sets the timer for data out of order at the peer, or takes it away (RFC 8985 §6.2): what was sent before a segment that
    /// arrived is lost when it is not there a part of a round trip later. There are no times of single segments, so that the part
    /// begins when the peer's news come, which is never too early.
    pub(crate) fn await_order(&mut self, core: &Core, now: Nanos) {
        let profile = core.profile(self.profile);
        let busy = Marks(Marks::RECOVERY.0 | Marks::LOSS.0);
        let missing = profile.rack
            && self.srtt > 0
            && self.outstanding() > 0
            && !self.has(busy)
            && self.highest_sacked(core).is_some();
        if !missing || core.fault(Fault::NoReorderTimer) {
            if self.take(Marks::REORDER) && self.timer == Timer::Retransmit {
                self.await_ack(now, profile);
            }
        } else if self.timer == Timer::Retransmit
            && !(self.has(Marks::REORDER) && self.has(Marks::REORDERING))
        {
            // Each arrival out of order begins it anew, as it does where times are known and segments left together; three of them
            // end it. Where those do not count any more, because the network reorders, the first one decides.
            let quarters = 1 + (self.marks.0 & Marks::REORDERING.0) / (Marks::REORDERING.0 / 3);
            let window = u64::from(self.smoothed_rtt()) * u64::from(quarters) / 4;
            let at = Tick::after(now, Nanos::from_micros(window));
            // It takes the place of a tail loss probe, which is for when the peer tells nothing (RFC 8985 §7.2).
            if self.has(Marks(Marks::TAIL.0 | Marks::REORDER.0)) || self.timer_at.since(at) > 0 {
                self.clear(Marks::TAIL);
                self.set(Marks::REORDER);
                self.timer_at = at;
            }
        }
    }

    /// One retry more after the timer ran out; `false` when there were `limit` already, or the peer was waited for as long as the
    /// profile has it.
    fn retry(&mut self, core: &Core, profile: &Profile, limit: u8) -> bool {
        if self.left(profile).map_or(self.flight.retries >= limit, |left| left == Nanos::ZERO) {
            return false;
        }
        self.flight.retries = self.flight.retries.saturating_add(1);
        if !core.fault(Fault::NoBackoff) {
            self.flight.backoff = self.flight.backoff.saturating_add(1);
        }
        true
    }

    /// How long the peer may be waited for yet, where the profile limits that. The time that went by is that of all timeouts since
    /// the last progress, the present one included.
    fn left(&self, profile: &Profile) -> Option<Nanos> {
        if profile.user_timeout == Nanos::ZERO {
            return None;
        }
        let gone = (0..=self.flight.backoff)
            .fold(Nanos::ZERO, |sum, backoff| sum.saturating_add(self.rto_at(profile, backoff)));
        Some(profile.user_timeout.saturating_sub(gone))
    }

    /// The next timeout, no later than the profile has the peer waited for.
    fn next_timeout(&self, profile: &Profile, left: Option<Nanos>) -> Nanos {
        let rto = self.rto(profile);
        left.map_or(rto, |left| rto.min(left))
    }

    /// RFC 6298 §5.4 to §5.6.
    fn retransmit<A: Application>(&mut self, core: &mut Core, cx: &mut Context<'_, A>) -> Fate {
        let opening = matches!(self.state, State::SynSent | State::SynReceived);
        let profile = *core.profile(self.profile);
        if self.take(Marks::TAIL) {
            self.set(Marks::SEND_TAIL);
            self.timer_at = Tick::after(cx.now, self.rto(&profile));
            core.ready.push(cx.node);
            return Fate::Keep;
        }
        if self.has(Marks::REORDER) {
            let edge = self.highest_sacked(core).unwrap_or(self.snd_una);
            self.flight.lost_edge = self.flight.lost_edge.max(edge);
            core.counters.recoveries.reordering += 1;
            self.begin_recovery(core, cx.now);
            // Nothing has left the network just now: only the first missing segment may go.
            let pipe = self.pipe(core);
            self.prr_ack(&profile, 0, pipe, false);
            core.ready.push(cx.node);
            return Fate::Keep;
        }
        let left = self.left(&profile);
        if !self.retry(
            core,
            &profile,
            if opening { profile.syn_retries } else { profile.data_retries },
        ) {
            return Fate::Close(Reason::TimedOut);
        }
        if opening {
            if self.take(Marks::UNREACHABLE) {
                // RFC 5461 §4.2: nobody has answered in the meantime either, and who waits is told why within a timeout or two. RFC
                // 1122 §4.2.3.9 would go on to the last retry, for a minute or more; Linux ends such a session at once.
                return Fate::Close(Reason::Unreachable);
            }
            self.set(Marks::SEND_SYN);
        } else {
            self.suspect_black_hole(core);
            self.retransmission_timeout(core);
            if !core.fault(Fault::NoKarn) {
                self.clear(Marks::TIMING);
            }
        }
        self.timer_at = Tick::after(cx.now, self.next_timeout(&profile, left));
        core.ready.push(cx.node);
        Fate::Keep
    }

    /// RFC 9293 §3.8.6.1: asks a closed window whether it opened, or sends into one that is small.
    fn persist<A: Application>(&mut self, core: &mut Core, cx: &mut Context<'_, A>) -> Fate {
        let profile = *core.profile(self.profile);
        let left = self.left(&profile);
        if !self.retry(core, &profile, profile.data_retries) {
            return Fate::Close(Reason::TimedOut);
        }
        let asks = if self.snd_wnd > 0 { Marks::OVERRIDE } else { Marks::PROBE };
        self.set(asks);
        self.timer_at = Tick::after(cx.now, self.next_timeout(&profile, left));
        core.ready.push(cx.node);
        Fate::Keep
    }

    /// The peer was to close. One that still sends is not waited for in vain: a session may be closed one way for long (RFC 9293
    /// §3.6, case 1).
    fn fin_wait_2<A: Application>(&mut self, core: &Core, cx: &Context<'_, A>) -> Fate {
        let limit = ticks(core.profile(self.profile).fin_wait_2);
        if cx.tick.since(self.last_heard) < limit {
            self.timer_at = Tick(self.last_heard.0.wrapping_add(limit));
            return Fate::Keep;
        }
        Fate::Close(Reason::TimedOut)
    }

    /// RFC 9293 §3.8.4.
    fn keep_alive<A: Application>(&mut self, core: &mut Core, cx: &mut Context<'_, A>) -> Fate {
        let Some(keep_alive) = core.profile(self.profile).keep_alive else { return Fate::Keep };
        let silent = cx.tick.since(self.last_heard);
        if silent < ticks(keep_alive.idle) {
            self.flight.retries = 0;
            self.timer_at = Tick(self.last_heard.0.wrapping_add(ticks(keep_alive.idle)));
            return Fate::Keep;
        }
        if self.flight.retries >= keep_alive.count {
            return Fate::Close(Reason::TimedOut);
        }
        self.flight.retries += 1;
        self.set(Marks::PROBE);
        self.timer_at = Tick::after(cx.now, keep_alive.interval);
        core.ready.push(cx.node);
        Fate::Keep
    }
}
