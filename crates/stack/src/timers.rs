//! What a session waits for, and what it does when that does not come.

use crate::api::{Application, Reason};
use crate::core::{Context, Core, Fate};
use crate::fault::Fault;
use crate::profile::Profile;
use crate::rtt::GRANULARITY;
use crate::slab::NONE;
use crate::tcb::{Marks, State, Tcb, Timer};
use crate::tick::{Tick, ticks};
use wirebeat_units::Nanos;

/// How long a peer's acknowledgment may be delayed at worst (RFC 8985 §7.2 takes 200 ms).
const DELAYED_ACK_MAX: Nanos = Nanos::from_millis(200);

impl Tcb {
    /// What the main timer has to be for now.
    pub(crate) fn timer_needed(&self, core: &Core) -> Timer {
        let profile = core.profile(self.profile);
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
        match (self.state, profile.keep_alive) {
            (State::FinWait2, _) if profile.fin_wait_2 > Nanos::ZERO => Timer::FinWait2,
            (State::Established | State::CloseWait | State::FinWait2, Some(_)) => Timer::KeepAlive,
            _ => Timer::Idle,
        }
    }

    /// Sets the main timer for what is needed now, and sees to it that the wheel calls. To be called when a session was touched.
    #[inline]
    pub(crate) fn settle<A: Application>(&mut self, core: &mut Core, cx: &Context<'_, A>) {
        if core.ready.has(cx.node) {
            // It has its turn to send before long, and is settled then.
            return;
        }
        let needed = self.timer_needed(core);
        if needed != self.timer {
            self.timer = needed;
            let profile = core.profile(self.profile);
            let span = match needed {
                Timer::Idle => Nanos::ZERO,
                Timer::Retransmit | Timer::Persist => self.rto(profile),
                Timer::KeepAlive => {
                    profile.keep_alive.map_or(Nanos::ZERO, |keep_alive| keep_alive.idle)
                }
                Timer::FinWait2 => profile.fin_wait_2,
            };
            if needed == Timer::KeepAlive {
                self.retries = 0;
            }
            self.clear(Marks::TAIL);
            self.timer_at = Tick::after(cx.now, span);
        }
        core.arm(cx.node, self);
    }

    /// The wheel called: does what is due.
    pub(crate) fn timers<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
    ) -> Fate {
        self.clear(Marks::ARMED);
        if self.has(Marks::ACK_DELAYED) && self.ack_timer_at.is_due(cx.tick) {
            self.clear(Marks::ACK_DELAYED);
            self.acks_owed = self.acks_owed.max(1);
            core.ready.push(cx.node);
        }
        if self.timer == Timer::Idle || !self.timer_at.is_due(cx.tick) {
            return Fate::Keep;
        }
        match self.timer {
            Timer::Idle => Fate::Keep,
            Timer::Retransmit => self.retransmit(core, cx),
            Timer::Persist => self.persist(core, cx),
            Timer::KeepAlive => self.keep_alive(core, cx),
            Timer::FinWait2 => Fate::Close(Reason::TimedOut),
        }
    }

    /// Sets the timer for what is outstanding: a tail loss probe where that may help and comes first (RFC 8985 §7.2), or the
    /// retransmission timeout.
    pub(crate) fn await_ack(&mut self, now: Nanos, profile: &Profile) {
        self.timer = Timer::Retransmit;
        let rto = self.rto(profile);
        let busy =
            Marks(Marks::RECOVERY.0 | Marks::LOSS.0 | Marks::TAIL_SENT.0 | Marks::SEND_TAIL.0);
        let probes = profile.tail_loss_probe && self.has(Marks::SACK) && self.srtt > 0;
        if probes && !self.has(busy) && self.backoff == 0 && self.scoreboard == NONE {
            // A single segment may wait for a delayed acknowledgment.
            let delay =
                if self.outstanding() <= self.mss.into() { DELAYED_ACK_MAX } else { Nanos::ZERO };
            let twice =
                Nanos::from_micros(u64::from(self.smoothed_rtt()) * 2 + 2 * u64::from(GRANULARITY));
            let probe = twice.saturating_add(delay);
            if probe < rto {
                self.set(Marks::TAIL);
                self.timer_at = Tick::after(now, probe);
                return;
            }
        }
        self.clear(Marks::TAIL);
        self.timer_at = Tick::after(now, rto);
    }

    /// One retry more; `false` when there were `limit` already.
    fn retry(&mut self, core: &Core, limit: u8) -> bool {
        if self.retries >= limit {
            return false;
        }
        self.retries += 1;
        if !core.fault(Fault::NoBackoff) {
            self.backoff = self.backoff.saturating_add(1);
        }
        true
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
        if !self.retry(core, if opening { profile.syn_retries } else { profile.data_retries }) {
            return Fate::Close(Reason::TimedOut);
        }
        if opening {
            self.set(Marks::SEND_SYN);
        } else {
            self.retransmission_timeout(core);
            if !core.fault(Fault::NoKarn) {
                self.clear(Marks::TIMING);
            }
        }
        self.timer_at = Tick::after(cx.now, self.rto(&profile));
        core.ready.push(cx.node);
        Fate::Keep
    }

    /// RFC 9293 §3.8.6.1: asks a closed window whether it opened, or sends into one that is small.
    fn persist<A: Application>(&mut self, core: &mut Core, cx: &mut Context<'_, A>) -> Fate {
        let profile = *core.profile(self.profile);
        if !self.retry(core, profile.data_retries) {
            return Fate::Close(Reason::TimedOut);
        }
        self.set(if self.snd_wnd > 0 { Marks::OVERRIDE } else { Marks::PROBE });
        self.timer_at = Tick::after(cx.now, self.rto(&profile));
        core.ready.push(cx.node);
        Fate::Keep
    }

    /// RFC 9293 §3.8.4.
    fn keep_alive<A: Application>(&mut self, core: &mut Core, cx: &mut Context<'_, A>) -> Fate {
        let Some(keep_alive) = core.profile(self.profile).keep_alive else { return Fate::Keep };
        let silent = cx.tick.since(self.last_heard);
        if silent < ticks(keep_alive.idle) {
            self.retries = 0;
            self.timer_at = Tick(self.last_heard.0.wrapping_add(ticks(keep_alive.idle)));
            return Fate::Keep;
        }
        if self.retries >= keep_alive.count {
            return Fate::Close(Reason::TimedOut);
        }
        self.retries += 1;
        self.set(Marks::PROBE);
        self.timer_at = Tick::after(cx.now, keep_alive.interval);
        core.ready.push(cx.node);
        Fate::Keep
    }
}
