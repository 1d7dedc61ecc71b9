//! A bound on what a core sends, whatever its program says: a token bucket of bytes on the line.
//!
//! Departures are taken from the schedule only as the bucket has room for their frames, so that what a stalled sender
//! catches up with is bounded, too: by the depth of the bucket and what was taken ahead of its time (a millisecond, 50 with
//! a port that holds frames). Pure: the time is passed in.

use wirebeat_units::{BitRate, Nanos};

/// The most that leaves by a port, counted on the line: with preamble and inter-packet gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLimit {
    /// In the long run.
    pub rate: BitRate,
    /// Bytes that may leave at once. No longer frame is ever sent.
    pub depth: u64,
}

/// The bucket, as the time by which all that was taken would have left at its rate (a virtual scheduling algorithm,
/// ITU-T I.371).
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    limit: LineLimit,
    /// From the start of the run.
    busy_until: Nanos,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(limit: LineLimit) -> Bucket {
        Bucket { limit, busy_until: Nanos::ZERO }
    }

    /// Takes so many bytes for frames that leave at `at`, if there is room for them then.
    pub(super) fn take(&mut self, at: Nanos, bytes: u64) -> bool {
        let until = self.busy_until.max(at).saturating_add(self.time_for(bytes));
        let fits = until <= at.saturating_add(self.time_for(self.limit.depth));
        if fits {
            self.busy_until = until;
        }
        fits
    }

    /// When there is room for so many bytes at the soonest.
    pub(super) fn soonest(&self, bytes: u64) -> Nanos {
        let until = self.busy_until.saturating_add(self.time_for(bytes));
        until.saturating_sub(self.time_for(self.limit.depth))
    }

    /// How long so many bytes take on the line, rounded up.
    fn time_for(&self, bytes: u64) -> Nanos {
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        let time = bits.div_ceil(self.limit.rate.0.max(1).into());
        Nanos::new(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte in 8 ns.
    const GIGABIT: LineLimit = LineLimit { rate: BitRate(1_000_000_000), depth: 1000 };

    #[test]
    fn no_more_leaves_than_its_depth_at_once_and_its_rate_in_the_long_run() {
        let mut bucket = Bucket::new(GIGABIT);
        // 100 ns a frame of 50 bytes are offered: four times the rate
        let taken = (0..10_000).filter(|n| bucket.take(Nanos::new(n * 100), 50)).count() as u64;
        // a millisecond at the rate is 125,000 bytes
        assert_eq!(taken * 50, 125_000 + 1000 - 50);
    }

    #[test]
    fn a_pause_is_worth_its_depth_and_no_more() {
        let mut bucket = Bucket::new(GIGABIT);
        let burst =
            |bucket: &mut Bucket, at: Nanos| (0..100).filter(|_| bucket.take(at, 50)).count();
        assert_eq!(burst(&mut bucket, Nanos::ZERO), 20);
        assert_eq!(burst(&mut bucket, Nanos::new(1)), 0);
        assert_eq!(burst(&mut bucket, Nanos::from_secs(3600)), 20);
    }

    #[test]
    fn what_is_longer_than_its_depth_never_leaves() {
        let mut bucket = Bucket::new(GIGABIT);
        assert!(bucket.take(Nanos::ZERO, 1000));
        assert!(!bucket.take(Nanos::from_secs(1000), 1001));
    }

    #[test]
    fn there_is_room_when_it_says_so_and_not_before() {
        let mut bucket = Bucket::new(GIGABIT);
        assert!(bucket.take(Nanos::ZERO, 1000));
        let soonest = bucket.soonest(125);
        assert_eq!(soonest, Nanos::new(1000));
        assert!(!bucket.take(Nanos::new(999), 125));
        assert!(bucket.take(soonest, 125));
    }

    #[test]
    fn times_that_no_clock_shows_do_not_overflow() {
        let mut bucket = Bucket::new(LineLimit { rate: BitRate(0), depth: u64::MAX });
        assert!(bucket.take(Nanos::MAX, u64::MAX));
        bucket.soonest(u64::MAX);
    }
}
