//! When a thread of sessions looks at its open connections: once in each interval of the run, shortly before it ends, so that the look
//! is there when the interval is told.

use wirebeat_units::Nanos;

/// How long before the end of an interval a round begins, where the interval is long enough: a round takes some milliseconds, and
/// the thread that watches comes by every ten.
const AHEAD: Nanos = Nanos::from_millis(50);

/// The rounds of a thread. Times are from the begin of the run.
#[derive(Debug)]
pub(super) struct SampleTimes {
    interval: Nanos,
    /// The number of the interval whose round comes next.
    next: u64,
    /// The number of the interval whose round is under way.
    pub(super) under_way: Option<u64>,
}

impl SampleTimes {
    pub(super) fn new(interval: Nanos) -> SampleTimes {
        SampleTimes { interval: interval.max(Nanos::new(1)), next: 0, under_way: None }
    }

    /// When the next round is due.
    fn due(&self) -> Nanos {
        let ahead = AHEAD.get().min(self.interval.get() / 4);
        let end = (self.next + 1).saturating_mul(self.interval.get());
        Nanos::new(end.saturating_sub(ahead))
    }

    /// Whether a round begins now: at most one in an interval.
    pub(super) fn begins(&mut self, elapsed: Nanos) -> bool {
        if elapsed < self.due() {
            return false;
        }
        let interval = elapsed.get() / self.interval.get();
        self.next = interval + 1;
        self.under_way = Some(interval);
        true
    }

    /// How long a turn may wait, at most `most`: not at all during a round, and not beyond the next one.
    pub(super) fn wait(&self, elapsed: Nanos, most: Nanos) -> Nanos {
        match self.under_way {
            Some(_) => Nanos::ZERO,
            None => self.due().saturating_sub(elapsed).min(most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn each_interval_has_one_round_shortly_before_its_end() {
        let mut times = SampleTimes::new(MS(1000));
        assert!(!times.begins(MS(949)));
        assert_eq!(times.wait(MS(949), MS(20)), MS(1));
        assert!(times.begins(MS(950)));
        assert_eq!((times.under_way, times.wait(MS(951), MS(20))), (Some(0), Nanos::ZERO));
        times.under_way = None;
        assert!(!times.begins(MS(999)) && !times.begins(MS(1949)));
        assert_eq!(times.wait(MS(999), MS(20)), MS(20));
        // a thread that was held up looks once, in the interval in which it is
        assert!(times.begins(MS(5300)));
        assert_eq!(times.under_way, Some(5));
        assert!(!times.begins(MS(5960)) && times.begins(MS(6950)));
    }

    #[test]
    fn short_intervals_have_a_quarter_for_it() {
        let mut times = SampleTimes::new(MS(10));
        assert!(!times.begins(MS(7)) && times.begins(MS(8)));
        assert!(SampleTimes::new(Nanos::ZERO).begins(MS(1)));
    }
}
