//! A bound on the time that a real-time thread uses: it rests a share of every window, before the kernel makes it.
//!
//! Linux takes the CPU away from real-time threads that use more than 95 % of a second, for the rest of that second
//! (`kernel.sched_rt_runtime_us`, sched(7)): 50 ms in which nothing leaves. A thread that rests a millisecond in ten is
//! never met by that, and whatever else waits for its CPU gets a turn. [`Budget`] is the arithmetic, [`RunClock`] a clock
//! that keeps to it whenever it is read.

use std::sync::atomic::{AtomicU64, Ordering};

use wirebeat_units::Nanos;

use crate::clock::{Clock, MonotonicClock, Wait};

/// What a budget is counted over. A rest is as long as its tenth, and frames that are due meanwhile leave that late.
pub const WINDOW: Nanos = Nanos::from_millis(10);
/// Of what the kernel permits, what is used at most.
const SHARE: f64 = 0.9;
/// In [`Wait::Hybrid`], how long before a deadline a real-time thread wakes up: nobody without a real-time policy keeps
/// it waiting, so that less is needed than otherwise, and more of the CPU is left.
const SPIN_BEFORE: Nanos = Nanos::from_micros(50);

/// How long a thread has rested in the present window, and how long it has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Of each window, in 2^-32.
    rest_q32: u64,
    since: Nanos,
    rested: Nanos,
}

impl Budget {
    /// Of a thread that the kernel permits this share of the time, from `now` on.
    pub fn new(permitted: f64, now: Nanos) -> Budget {
        let used = (permitted * SHARE).clamp(0.1, SHARE);
        Budget {
            rest_q32: ((1.0 - used) * (1_u64 << 32) as f64) as u64,
            since: now,
            rested: Nanos::ZERO,
        }
    }

    /// How long the thread has to rest now, if it has to.
    pub fn owed(&self, now: Nanos) -> Option<Nanos> {
        let elapsed = now.saturating_sub(self.since);
        // rested + owed is the share of elapsed + owed
        let share = u128::from(elapsed.get()) * u128::from(self.rest_q32);
        let missing = Nanos::new((share >> 32) as u64).saturating_sub(self.rested);
        let used_q32 = (1_u64 << 32) - self.rest_q32;
        let owed = (u128::from(missing.get()) << 32) / u128::from(used_q32);
        let owed = Nanos::new(u64::try_from(owed).unwrap_or(u64::MAX));
        (owed > Nanos::ZERO && elapsed.saturating_add(owed) >= WINDOW).then_some(owed)
    }

    /// The thread rested from `from` to `to`.
    pub fn rested(&mut self, from: Nanos, to: Nanos) {
        self.rested = self.rested.saturating_add(to.saturating_sub(from));
        if to.saturating_sub(self.since) >= WINDOW && self.owed(to).is_none() {
            (self.since, self.rested) = (to, Nanos::ZERO);
        }
    }
}

/// The monotonic clock of a thread, which keeps to a budget where it has one.
#[derive(Debug, Default)]
pub struct RunClock {
    budget: Option<Kept>,
}

/// A budget that the one thread keeps which uses the clock. A clock is shared by its type, so its numbers are atomic.
#[derive(Debug)]
struct Kept {
    rest_q32: u64,
    since: AtomicU64,
    rested: AtomicU64,
}

impl Kept {
    fn get(&self) -> Budget {
        let word = |word: &AtomicU64| Nanos::new(word.load(Ordering::Relaxed));
        Budget { rest_q32: self.rest_q32, since: word(&self.since), rested: word(&self.rested) }
    }

    fn set(&self, budget: Budget) {
        self.since.store(budget.since.get(), Ordering::Relaxed);
        self.rested.store(budget.rested.get(), Ordering::Relaxed);
    }
}

impl RunClock {
    /// Of a real-time thread that the kernel permits this share of the time.
    pub fn with_budget(permitted: f64) -> RunClock {
        let budget = Budget::new(permitted, MonotonicClock.now());
        let kept =
            Kept { rest_q32: budget.rest_q32, since: AtomicU64::new(0), rested: AtomicU64::new(0) };
        kept.set(budget);
        RunClock { budget: Some(kept) }
    }

    /// Rests if it is due. Who works for long without looking at the time calls it now and then.
    pub fn rest(&self) {
        if self.budget.is_some() {
            let _ = self.now();
        }
    }

    fn sleep(&self, kept: &Kept, until: Nanos) {
        let from = MonotonicClock.now();
        if until > from {
            MonotonicClock.sleep_until(until);
        }
        let mut budget = kept.get();
        budget.rested(from, MonotonicClock.now());
        kept.set(budget);
    }
}

impl Clock for RunClock {
    fn now(&self) -> Nanos {
        let now = MonotonicClock.now();
        let Some(kept) = &self.budget else { return now };
        let Some(owed) = kept.get().owed(now) else { return now };
        self.sleep(kept, now.saturating_add(owed));
        MonotonicClock.now()
    }

    fn wait_until(&self, deadline: Nanos, wait: Wait) {
        let Some(kept) = &self.budget else { return MonotonicClock.wait_until(deadline, wait) };
        let wake = match wait {
            Wait::Sleep => deadline,
            Wait::Hybrid | Wait::Spin => deadline.saturating_sub(SPIN_BEFORE),
        };
        self.sleep(kept, wake);
        while self.now() < deadline {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    #[test]
    fn a_thread_that_never_sleeps_rests_a_tenth_of_every_window_and_more() {
        let mut budget = Budget::new(1.0, Nanos::ZERO);
        let (mut now, mut rested) = (Nanos::ZERO, Nanos::ZERO);
        while now < Nanos::from_secs(1) {
            now = now.saturating_add(us(7));
            if let Some(owed) = budget.owed(now) {
                assert!(owed <= us(1_010), "{owed}");
                let until = now.saturating_add(owed);
                budget.rested(now, until);
                rested = rested.saturating_add(owed);
                now = until;
            }
        }
        let share = rested.get() as f64 / now.get() as f64;
        assert!((0.099..0.11).contains(&share), "{share}");
    }

    #[test]
    fn a_thread_that_sleeps_enough_by_itself_is_left_alone() {
        let mut budget = Budget::new(0.95, Nanos::ZERO);
        for n in 0..100_000 {
            let now = us(196 * n);
            assert_eq!(budget.owed(now), None, "{n}");
            budget.rested(now, now.saturating_add(us(60)));
        }
    }

    #[test]
    fn what_was_overdrawn_is_rested_in_proportion() {
        let budget = Budget::new(1.0, Nanos::ZERO);
        assert_eq!(budget.owed(us(8_000)), None);
        let owed = budget.owed(us(40_000)).unwrap();
        assert!((us(4_444)..us(4_445)).contains(&owed), "{owed}");
    }

    #[test]
    fn a_small_permitted_share_is_kept() {
        let budget = Budget::new(0.5, Nanos::ZERO);
        assert_eq!(budget.owed(us(4_000)), None);
        assert!(budget.owed(us(4_600)).is_some(), "45 % are used at most");
    }

    #[test]
    fn a_clock_with_a_budget_ends_its_waits_in_time_and_rests_by_itself() {
        let clock = RunClock::with_budget(1.0);
        let deadline = MonotonicClock.now().saturating_add(us(300));
        clock.wait_until(deadline, Wait::Hybrid);
        assert!(MonotonicClock.now() >= deadline);
        let budget = clock.budget.as_ref().unwrap();
        // it has worked for very long: one reading rests, and the window begins anew
        let since = MonotonicClock.now().saturating_sub(WINDOW);
        budget.set(Budget { since, rested: Nanos::ZERO, ..budget.get() });
        let now = clock.now();
        assert_eq!(budget.get().owed(now), None);
        assert!(RunClock::default().now() > Nanos::ZERO);
    }
}
