//! The congestion window: slow start and avoidance by NewReno (RFC 5681) or CUBIC (RFC 9438), and proportional rate reduction
//! in recovery (RFC 9937). All in bytes.
//!
//! Functions of a session's state and the present time; when there is a loss is decided in [`crate::recovery`].

use crate::flight::ActiveTcb;
use crate::profile::{Congestion, Profile};
use crate::seq::Seq;
use crate::tcb::{Marks, Phase};
use crate::tick::Tick;

/// CUBIC's factor of decrease, in tenths (RFC 9438 §4.6).
const BETA: u64 = 7;
/// CUBIC's C: 0.4 segments per second cubed (RFC 9438 §5.1).
const C: f64 = 0.4;
/// Milliseconds of a tick.
const TICK_MS: f64 = 0.262_144;
/// As K: no epoch of avoidance has begun.
pub(crate) const NO_EPOCH: u32 = u32::MAX;
/// As K: it is NewReno that avoids congestion, which has none.
const COUNTING: u32 = u32::MAX - 1;
/// The window never grows beyond this: more cannot be announced by a peer (RFC 7323 §2.3).
const CWND_MAX: u32 = 1 << 30;

impl ActiveTcb<'_> {
    /// Sets the window of a session that begins. `None` is a window that never limits.
    pub(crate) fn congestion_start(&mut self, profile: &Profile) {
        self.flight.ssthresh = u32::MAX;
        self.flight.phase = Phase { a: self.snd_una.0, b: NO_EPOCH, c: 0 };
        self.flight.cubic_max = 0;
        self.cwnd = match profile.congestion {
            Congestion::None => CWND_MAX,
            // RFC 5681 §3.1: after the loss of a SYN, one segment.
            _ if self.has(Marks::SYN_REPEATED) => self.mss.into(),
            _ => profile.initial_cwnd(self.mss),
        };
    }

    /// Takes a loss: the threshold for the window after it, from what is outstanding now (RFC 5681 §3.1 (4), RFC 9438 §4.6).
    pub(crate) fn congestion_loss(&mut self, profile: &Profile) {
        let (flight, least) = (self.outstanding().min(self.cwnd), 2 * u32::from(self.mss));
        self.flight.ssthresh = match profile.congestion {
            Congestion::None => return,
            Congestion::NewReno => flight / 2,
            Congestion::Cubic => {
                // Fast convergence (RFC 9438 §4.7): who had to give way already gives a little more.
                let cwnd = u64::from(self.cwnd);
                let gives_way = self.cwnd < self.flight.cubic_max;
                self.flight.cubic_max =
                    if gives_way { cwnd * (10 + BETA) / 20 } else { cwnd } as u32;
                self.flight.phase.b = NO_EPOCH;
                (u64::from(flight) * BETA / 10) as u32
            }
        }
        .max(least);
    }

    /// Remembers the most that was outstanding in a round trip of slow start; to be called when new data was sent.
    #[inline]
    pub(crate) fn congestion_sent(&mut self) {
        if self.cwnd >= self.flight.ssthresh || self.has(Marks(Marks::RECOVERY.0 | Marks::LOSS.0)) {
            return;
        }
        let outstanding = self.outstanding();
        let is_new_round = !self.snd_una.is_before(Seq(self.flight.phase.a));
        if is_new_round || outstanding > self.flight.phase.c {
            (self.flight.phase.a, self.flight.phase.c) = (self.snd_nxt.0, outstanding);
        }
    }

    /// Lets the window grow for `acked` bytes that were acknowledged outside recovery.
    #[inline]
    pub(crate) fn congestion_ack(&mut self, profile: &Profile, acked: u32, now: Tick) {
        // A window that did not limit says nothing about the path, so it does not grow (RFC 9438 §5.8); in slow start half of it
        // says enough, since what is in the network then doubles with it (RFC 7661 §4.2).
        let in_slow_start = self.cwnd < self.flight.ssthresh;
        let is_used = in_slow_start && self.flight.phase.c > self.cwnd / 2;
        if profile.congestion == Congestion::None || !self.has(Marks::LIMITED) && !is_used {
            return;
        }
        let mss = u32::from(self.mss);
        if in_slow_start {
            let step = mss.saturating_mul(profile.slow_start_step.max(1).into());
            self.cwnd = self.cwnd.saturating_add(acked.min(step)).min(CWND_MAX);
            return;
        }
        match profile.congestion {
            Congestion::Cubic => self.cubic_ack(acked, now),
            _ => {
                // RFC 5681 §3.1 (3): a segment for each window that is acknowledged.
                let before = if self.flight.phase.b == COUNTING { self.flight.phase.c } else { 0 };
                (self.flight.phase.b, self.flight.phase.c) =
                    (COUNTING, before.saturating_add(acked));
                if self.flight.phase.c >= self.cwnd {
                    self.flight.phase.c -= self.cwnd;
                    self.cwnd = (self.cwnd + mss).min(CWND_MAX);
                }
            }
        }
    }

    /// Congestion avoidance of RFC 9438 §4.2 to §4.5.
    fn cubic_ack(&mut self, acked: u32, now: Tick) {
        let mss = f64::from(self.mss.max(1));
        if matches!(self.flight.phase.b, NO_EPOCH | COUNTING) {
            self.flight.phase.a = now.0;
            self.flight.phase.c = self.cwnd;
            self.flight.cubic_max = self.flight.cubic_max.max(self.cwnd);
            // K = cbrt((W_max - cwnd) / C) seconds, here in milliseconds: cbrt of the same times 10^9.
            let segments =
                u64::from(self.flight.cubic_max - self.cwnd) / u64::from(self.mss.max(1));
            self.flight.phase.b = cube_root(segments * 10 / 4 * 1_000_000_000) as u32;
        }
        let elapsed = f64::from(now.since(Tick(self.flight.phase.a))) * TICK_MS;
        let (k, max) = (f64::from(self.flight.phase.b), f64::from(self.flight.cubic_max));
        let cubic = |ms: f64| {
            let seconds = (ms - k) / 1e3;
            C * seconds * seconds * seconds * mss + max
        };
        let cwnd = f64::from(self.cwnd);
        // What NewReno would have with the same decrease: 3 (1 - β) / (1 + β) segments per round trip, and one once it is
        // where it was before the loss.
        let alpha = if self.flight.phase.c < self.flight.cubic_max { 3.0 * 0.3 / 1.7 } else { 1.0 };
        let estimate = f64::from(self.flight.phase.c) + alpha * mss * f64::from(acked) / cwnd;
        self.flight.phase.c = (estimate as u32).max(self.flight.phase.c).min(CWND_MAX);
        let rtt = f64::from(self.smoothed_rtt()) / 1e3;
        let grown = if cubic(elapsed) < estimate {
            estimate
        } else {
            let target = cubic(elapsed + rtt).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) * f64::from(acked) / cwnd
        };
        // Growth of less than a byte an acknowledgment is not lost: the estimate and the cubic are functions of time.
        self.cwnd = (grown as u32).clamp(self.cwnd, CWND_MAX);
    }

    /// Begins recovery with what is outstanding.
    pub(crate) fn prr_start(&mut self) {
        self.flight.phase = Phase { a: 0, b: 0, c: self.outstanding().max(1) };
    }

    /// The window in recovery after `delivered` bytes more have left the network, of which `pipe` are in it (RFC 9937 §6.2). An
    /// acknowledgment is safe when it moves on and tells of no further loss: then the window may grow by a segment beside.
    pub(crate) fn prr_ack(&mut self, profile: &Profile, delivered: u32, pipe: u32, is_safe: bool) {
        if profile.congestion == Congestion::None {
            return;
        }
        self.flight.phase.a = self.flight.phase.a.saturating_add(delivered);
        let may_send = if pipe > self.flight.ssthresh {
            let share = u64::from(self.flight.phase.a) * u64::from(self.flight.ssthresh);
            let due =
                share.div_ceil(u64::from(self.flight.phase.c)).min(u64::from(CWND_MAX)) as u32;
            due.saturating_sub(self.flight.phase.b)
        } else {
            let behind = self.flight.phase.a.saturating_sub(self.flight.phase.b).max(delivered);
            let more = if is_safe { self.mss.into() } else { 0 };
            (self.flight.ssthresh - pipe).min(behind.saturating_add(more))
        };
        self.cwnd = pipe.saturating_add(may_send).min(CWND_MAX);
    }

    /// Ends recovery (RFC 9937 §6.2).
    pub(crate) fn prr_end(&mut self, profile: &Profile) {
        if profile.congestion != Congestion::None {
            self.cwnd = self.flight.ssthresh.min(CWND_MAX);
            self.flight.phase = Phase { a: self.snd_una.0, b: NO_EPOCH, c: 0 };
        }
    }

    /// After a timeout: one segment (RFC 5681 §3.1 (5)).
    pub(crate) fn congestion_timeout(&mut self, profile: &Profile) {
        if profile.congestion != Congestion::None {
            self.cwnd = self.mss.into();
            // All that is outstanding uses the window: the acknowledgment of what is sent again opens it.
            self.flight.phase = Phase { a: self.snd_nxt.0, b: NO_EPOCH, c: self.outstanding() };
        }
    }

    /// After a time without sending, the window that it had says nothing more (RFC 5681 §4.1).
    pub(crate) fn congestion_idle(&mut self, profile: &Profile) {
        if profile.congestion != Congestion::None && profile.idle_restart {
            self.cwnd = self.cwnd.min(profile.initial_cwnd(self.mss));
            self.flight.phase = Phase { a: self.snd_una.0, b: NO_EPOCH, c: 0 };
        }
    }
}

/// The largest number whose cube is at most `value`. In whole numbers, so that every machine has the same window.
fn cube_root(value: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..22).rev() {
        let candidate = root | 1 << bit;
        if candidate.pow(3) <= value {
            root = candidate;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use wirebeat_units::Nanos;

    use super::*;
    use crate::flight::Flight;
    use crate::tcb::Tcb;

    /// A session that begins, and its profile.
    fn begin(congestion: Congestion) -> (Tcb, Flight, Profile) {
        let profile = Profile { congestion, ..Profile::default() };
        let mut tcb = Tcb { mss: 1000, ..Tcb::CLOSED };
        let mut flight = Flight::of_plain(&tcb);
        let mut active = ActiveTcb { tcb: &mut tcb, flight: &mut flight };
        active.congestion_start(&profile);
        active.set(Marks::LIMITED);
        (tcb, flight, profile)
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_a_segment_a_window() {
        let (mut tcb, mut flight, profile) = begin(Congestion::NewReno);
        let mut tcb = ActiveTcb { tcb: &mut tcb, flight: &mut flight };
        assert_eq!(tcb.cwnd, 10_000);
        (0..10).for_each(|_| tcb.congestion_ack(&profile, 1000, Tick(0)));
        assert_eq!(tcb.cwnd, 20_000);
        tcb.flight.ssthresh = 20_000;
        (0..20).for_each(|_| tcb.congestion_ack(&profile, 1000, Tick(0)));
        assert_eq!(tcb.cwnd, 21_000);
        tcb.clear(Marks::LIMITED);
        (0..99).for_each(|_| tcb.congestion_ack(&profile, 1000, Tick(0)));
        assert_eq!(tcb.cwnd, 21_000, "it did not limit");
    }

    #[test]
    fn a_loss_halves_or_takes_three_tenths_and_never_goes_below_two_segments() {
        for (congestion, ssthresh) in [(Congestion::NewReno, 50_000), (Congestion::Cubic, 70_000)] {
            let (mut tcb, mut flight, profile) = begin(congestion);
            let mut tcb = ActiveTcb { tcb: &mut tcb, flight: &mut flight };
            tcb.cwnd = 100_000;
            tcb.snd_nxt = Seq(100_000);
            tcb.congestion_loss(&profile);
            assert_eq!(tcb.flight.ssthresh, ssthresh);
            tcb.snd_nxt = Seq(1000);
            tcb.congestion_loss(&profile);
            assert_eq!(tcb.flight.ssthresh, 2000);
        }
    }

    /// RFC 9438 §4.2: W(t) = C (t - K)^3 + W_max. After a loss at 1,000 segments the window is at 700, K is
    /// cbrt(300 / 0.4) = 9.086 s, and at K it is back at 1,000 with next to no growth; after 2 K it is at 1,300.
    #[test]
    fn cubic_follows_its_curve() {
        let (mut tcb, mut flight, profile) = begin(Congestion::Cubic);
        let mut tcb = ActiveTcb { tcb: &mut tcb, flight: &mut flight };
        tcb.cwnd = 1_000_000;
        tcb.snd_nxt = Seq(1_000_000);
        tcb.congestion_loss(&profile);
        tcb.prr_end(&profile);
        assert_eq!(tcb.cwnd, 700_000);
        let mut at = std::collections::BTreeMap::new();
        for round in 0..200_u64 {
            // a round trip of 100 ms: the whole window is acknowledged
            let now = Nanos::from_millis(round * 100);
            tcb.rtt_sample(100_000);
            let acks = tcb.cwnd / 1000;
            (0..acks).for_each(|_| tcb.congestion_ack(&profile, 1000, Tick::at(now)));
            at.insert(round, tcb.cwnd);
        }
        assert!((8_900..9_200).contains(&tcb.flight.phase.b), "{}", tcb.flight.phase.b);
        assert!((985_000..1_005_000).contains(&at[&90]), "{}", at[&90]);
        assert!((1_270_000..1_310_000).contains(&at[&180]), "{}", at[&180]);
    }

    #[test]
    fn recovery_sends_in_proportion_to_what_is_delivered() {
        let (mut tcb, mut flight, profile) = begin(Congestion::NewReno);
        let mut tcb = ActiveTcb { tcb: &mut tcb, flight: &mut flight };
        tcb.cwnd = 100_000;
        tcb.snd_nxt = Seq(100_000);
        tcb.congestion_loss(&profile);
        tcb.prr_start();
        // Half of what is delivered may be sent while more is in the network than the threshold.
        tcb.prr_ack(&profile, 10_000, 90_000, false);
        assert_eq!(tcb.cwnd, 95_000);
        tcb.flight.phase.b = 5_000;
        tcb.prr_ack(&profile, 10_000, 85_000, false);
        assert_eq!(tcb.cwnd, 90_000);
        // Below the threshold what left the network is sent, and a segment beside where that is safe.
        tcb.prr_ack(&profile, 1_000, 20_000, false);
        assert_eq!(tcb.cwnd, 20_000 + 21_000 - 5_000);
        tcb.prr_ack(&profile, 1_000, 20_000, true);
        assert_eq!(tcb.cwnd, 20_000 + 22_000 - 5_000 + 1_000);
    }

    #[test]
    fn cube_roots_are_whole_and_not_too_large() {
        for root in [0, 1, 2, 9, 1000, 1 << 20, (1 << 21) - 1] {
            assert_eq!(
                (cube_root(root * root * root), cube_root((root + 1).pow(3) - 1)),
                (root, root)
            );
        }
    }
}
