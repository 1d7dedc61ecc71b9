//! How far one clock is ahead of another: bounds, from readings that bracket it.
//!
//! A reading of clock B that was made between two of clock A bounds their difference. Readings of different times are put
//! together by how fast B gains on A at most. Two clocks of one host that are steered together do not drift, and their
//! difference is one number, which many readings pin down. The clock of a card drifts; how fast is bounded by readings that
//! lie apart, so that the difference between two readings, and shortly behind the last, is bounded, too. Readings that
//! exclude each other show that a clock was set. Knows no clocks, only their readings.

use wirebeat_units::Nanos;

/// How long a drift is taken for constant, in nanoseconds: a clock that is steered is changed about once a second
/// (ptp4l, phc2sys, chrony). It is measured between now and a reading that is at least half as old.
const STEADY_NS: u64 = 1_000_000_000;
/// From this distance on two readings tell of the drift more than its limit does.
const APART_NS: u64 = 20_000_000;
/// How much a drift may change meanwhile, in parts per billion, and the bounds still hold: far more than temperature does to
/// a crystal in a second, and than a servo does that has settled. Greater changes are found by the next readings.
const WANDER_PPB: i64 = 5_000;

/// Bounds on the difference of two clocks in nanoseconds, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl Bounds {
    /// Nothing is known.
    pub(crate) const ANY: Bounds = Bounds { low: i64::MIN, high: i64::MAX };

    /// From a reading of clock B that was made between two of clock A. Each reading may have lost a fraction of a
    /// nanosecond.
    pub(crate) fn of_reading(before: u64, other: u64, after: u64) -> Self {
        Bounds {
            low: difference(other, after).saturating_sub(1),
            high: difference(other, before).saturating_add(1),
        }
    }

    pub(crate) fn width(self) -> u64 {
        self.high.abs_diff(self.low)
    }

    /// What both allow; `None` when they exclude each other.
    fn narrowed(self, other: Bounds) -> Option<Bounds> {
        let both = Bounds { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    pub(crate) fn middle(self) -> i64 {
        self.low.midpoint(self.high)
    }

    /// Wider by so much on both sides.
    pub(crate) fn widened(self, by: u64) -> Bounds {
        Bounds {
            low: self.low.saturating_sub_unsigned(by),
            high: self.high.saturating_add_unsigned(by),
        }
    }
}

/// `a - b`, saturating at the ends of `i64`.
fn difference(a: u64, b: u64) -> i64 {
    Nanos::new(a).signed_sub(Nanos::new(b))
}

/// What a clock gains on another, bounded, in parts per billion (nanoseconds a second).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drift {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl Drift {
    /// Up to so much in both directions.
    fn within(limit: i64) -> Drift {
        Drift { low: -limit, high: limit }
    }

    /// Of clocks whose difference was within `then`, and is within `now` after so many nanoseconds.
    fn between(then: Bounds, now: Bounds, elapsed: u64) -> Drift {
        let per_second = |gained: i128| gained * 1_000_000_000 / i128::from(elapsed.max(1));
        let clamp = |ppb: i128| ppb.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Drift {
            low: clamp(per_second(i128::from(now.low) - i128::from(then.high)) - 1),
            high: clamp(per_second(i128::from(now.high) - i128::from(then.low)) + 1),
        }
    }

    /// What both allow, or the later of them.
    fn narrowed(self, later: Drift) -> Drift {
        let both = Drift { low: self.low.max(later.low), high: self.high.min(later.high) };
        if both.low <= both.high { both } else { later }
    }

    fn widened(self, by: i64) -> Drift {
        Drift { low: self.low.saturating_sub(by), high: self.high.saturating_add(by) }
    }

    pub(crate) fn middle(self) -> i64 {
        self.low.midpoint(self.high)
    }
}

/// The difference of two clocks around one time, to convert others by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    /// When it was bounded, on clock A.
    at: u64,
    bounds: Bounds,
    drift: Drift,
}

impl Offset {
    /// Its bounds at a time of clock A.
    pub(crate) fn bounds_at(&self, time: u64) -> Bounds {
        let elapsed = i128::from(time) - i128::from(self.at);
        if elapsed == 0 || (self.drift.low == 0 && self.drift.high == 0) {
            return self.bounds;
        }
        // rounded away from each other
        let gained = |ppb: i64| i128::from(ppb) * elapsed;
        let (one, other) = (gained(self.drift.low), gained(self.drift.high));
        let low = one.min(other).div_euclid(1_000_000_000);
        let high = -(-one.max(other)).div_euclid(1_000_000_000);
        let clamp = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Bounds {
            low: clamp(i128::from(self.bounds.low) + low),
            high: clamp(i128::from(self.bounds.high) + high),
        }
    }

    /// Clock B less clock A when A shows `time`.
    #[inline]
    pub(crate) fn at(&self, time: u64) -> i64 {
        let base = self.bounds.middle();
        let drift = self.drift.middle();
        if drift == 0 {
            return base;
        }
        let elapsed = i128::from(time) - i128::from(self.at);
        let gained = elapsed * i128::from(drift) / 1_000_000_000;
        base.saturating_add(gained.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// The time of clock A at which clock B shows `other`.
    #[inline]
    pub(crate) fn convert(&self, other: u64) -> Nanos {
        let near = other.saturating_add_signed(self.bounds.middle().saturating_neg());
        Nanos::new(other.saturating_add_signed(self.at(near).saturating_neg()))
    }

    /// What clock B shows when clock A shows `time`.
    #[inline]
    pub(crate) fn back(&self, time: Nanos) -> u64 {
        time.get().saturating_add_signed(self.at(time.get()))
    }

    /// How wrong a conversion can be of what happened at `time` of clock A, while neither is set.
    pub(crate) fn error_at(&self, time: u64) -> Nanos {
        Nanos::new(self.bounds_at(time).width().div_ceil(2))
    }

    /// The bounds of the drift.
    pub(crate) fn drift(&self) -> Drift {
        self.drift
    }
}

/// Bounds at the end of the bracket of a reading, which was made somewhere within.
fn at_its_end(bounds: Bounds, limit: i64) -> Bounds {
    let gained = u128::from(bounds.width()) * u128::from(limit.unsigned_abs());
    bounds.widened(u64::try_from(gained.div_ceil(1_000_000_000)).unwrap_or(u64::MAX))
}

/// Follows the difference of two clocks by readings.
#[derive(Clone, Debug)]
pub(crate) struct ClockOffset {
    now: Offset,
    /// How fast the clocks can drift apart.
    limit: i64,
    /// Two earlier times, the older first, from which the drift is known.
    earlier: [Offset; 2],
    steps: u32,
}

impl ClockOffset {
    /// Of clocks that drift apart by up to `limit` parts per billion, after the first reading, which was complete at `at` of
    /// clock A.
    pub(crate) fn new(limit: i64, bounds: Bounds, at: Nanos) -> ClockOffset {
        let now =
            Offset { at: at.get(), bounds: at_its_end(bounds, limit), drift: Drift::within(limit) };
        ClockOffset { now, limit, earlier: [now; 2], steps: 0 }
    }

    /// Takes one more reading.
    pub(crate) fn take(&mut self, bounds: Bounds, at: Nanos) {
        let (bounds, at) = (at_its_end(bounds, self.limit), at.get().max(self.now.at));
        match self.now.bounds_at(at).narrowed(bounds) {
            Some(bounds) => self.now = Offset { at, bounds, ..self.now },
            None => self.begin_anew(bounds, at),
        }
        if self.limit > 0 {
            self.learn_drift();
        }
    }

    /// The reading does not go with what was known: the drift has changed, or a clock was set.
    fn begin_anew(&mut self, bounds: Bounds, at: u64) {
        let any_drift = Offset { drift: Drift::within(self.limit), ..self.now };
        if any_drift.bounds_at(at).narrowed(bounds).is_none() {
            self.steps = self.steps.saturating_add(1);
        }
        self.now = Offset { at, bounds, drift: any_drift.drift };
        self.earlier = [self.now; 2];
    }

    fn learn_drift(&mut self) {
        let now = self.now;
        let [older, newer] = self.earlier;
        let elapsed = now.at.saturating_sub(older.at);
        if elapsed >= APART_NS {
            let seen = Drift::between(older.bounds, now.bounds, elapsed).widened(WANDER_PPB);
            self.now.drift = Drift::within(self.limit).narrowed(seen);
        }
        if now.at.saturating_sub(newer.at) >= STEADY_NS / 2 {
            self.earlier = [newer, self.now];
        }
    }

    /// To convert by.
    #[inline]
    pub(crate) fn offset(&self) -> &Offset {
        &self.now
    }

    /// When the last reading was complete, on clock A.
    pub(crate) fn read_at(&self) -> Nanos {
        Nanos::new(self.now.at)
    }

    /// How often a clock was seen to be set.
    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: i64 = 1_000_000;
    const AHEAD: i64 = 1_800_000_000_000_000_000;

    /// A clock that gains `ppb` on ours, read every 10 ms with brackets that differ in width and in where the reading lies.
    struct Crystal {
        now: u64,
        other: i128,
        ppb: i64,
        random: u64,
    }

    impl Crystal {
        fn new(ppb: i64) -> Crystal {
            let now = 5_000_000_000;
            Crystal { now, other: i128::from(now) + i128::from(AHEAD), ppb, random: 7 }
        }

        fn pass(&mut self, ns: u64) {
            self.now += ns;
            self.other += i128::from(ns) + i128::from(ns) * i128::from(self.ppb) / 1_000_000_000;
        }

        fn random(&mut self, below: u64) -> u64 {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.random >> 33) % below
        }

        fn read(&mut self) -> (Bounds, Nanos) {
            let before = self.now;
            let (first, second) = (1 + self.random(3_000), 1 + self.random(3_000));
            self.pass(first);
            let other = self.other as u64;
            self.pass(second);
            (Bounds::of_reading(before, other, self.now), Nanos::new(self.now))
        }

        fn follow(&mut self, offset: &mut ClockOffset, readings: usize) {
            for _ in 0..readings {
                self.pass(10_000_000);
                let (bounds, at) = self.read();
                offset.take(bounds, at);
            }
        }

        /// What is between a conversion of this moment and the truth.
        fn off(&self, offset: &ClockOffset) -> u64 {
            offset.offset().convert(self.other as u64).get().abs_diff(self.now)
        }
    }

    fn began(crystal: &mut Crystal) -> ClockOffset {
        let (bounds, at) = crystal.read();
        ClockOffset::new(LIMIT, bounds, at)
    }

    #[test]
    fn a_clock_that_drifts_is_followed_within_the_bounds_that_are_told() {
        for ppb in [0, 40, -2_500, 100_000, -350_000, 900_000] {
            let mut crystal = Crystal::new(ppb);
            let mut offset = began(&mut crystal);
            for round in 0..500 {
                crystal.follow(&mut offset, 1);
                let late = crystal.random(9_000_000);
                crystal.pass(late);
                let (off, bound) = (crystal.off(&offset), offset.offset().error_at(crystal.now));
                assert!(off <= bound.get() + 1, "{ppb} ppb, {round}: off by {off}, told {bound:?}");
            }
            // the brackets are up to 6 µs wide
            let bound = offset.offset().error_at(crystal.now);
            assert!(bound < Nanos::from_micros(2), "{ppb} ppb: {bound:?}");
            let Drift { low, high } = offset.offset().drift();
            assert!(low <= ppb && ppb <= high && high - low < 20_000, "{ppb}: {low} to {high}");
            assert_eq!(offset.steps(), 0);
        }
    }

    #[test]
    fn a_clock_that_is_steered_is_followed() {
        let mut crystal = Crystal::new(20_000);
        let mut offset = began(&mut crystal);
        crystal.follow(&mut offset, 200);
        // a servo that begins: 300 ppm at once, then small changes every second
        for ppb in [-280_000, -277_000, -279_900, -275_000] {
            let jumps = crystal.ppb.abs_diff(ppb) > WANDER_PPB as u64;
            crystal.ppb = ppb;
            for reading in 0..100 {
                crystal.follow(&mut offset, 1);
                let (off, bound) = (crystal.off(&offset), offset.offset().error_at(crystal.now));
                let found = !jumps || reading >= 3;
                assert!(!found || off <= bound.get() + 1, "{ppb}: off by {off}, told {bound:?}");
            }
        }
        assert_eq!(offset.steps(), 0);
    }

    #[test]
    fn a_clock_that_is_set_is_noticed() {
        let mut crystal = Crystal::new(3_000);
        let mut offset = began(&mut crystal);
        crystal.follow(&mut offset, 150);
        for by in [-37_000_000_000, 1_000_000] {
            crystal.other += by;
            crystal.follow(&mut offset, 2);
            assert!(crystal.off(&offset) <= offset.offset().error_at(crystal.now).get() + 1);
        }
        assert_eq!(offset.steps(), 2);
    }

    #[test]
    fn what_was_before_the_last_reading_is_converted_too() {
        let mut crystal = Crystal::new(80_000);
        let mut offset = began(&mut crystal);
        crystal.follow(&mut offset, 200);
        let (then, other) = (crystal.now, crystal.other as u64);
        crystal.follow(&mut offset, 3);
        let off = offset.offset().convert(other).get().abs_diff(then);
        assert!(off <= offset.offset().error_at(then).get() + 1, "{off}");
    }

    #[test]
    fn bounds_at_the_end_of_numbers_do_not_overflow() {
        let mut offset = ClockOffset::new(LIMIT, Bounds::ANY, Nanos::ZERO);
        offset.take(Bounds::of_reading(0, u64::MAX, u64::MAX), Nanos::MAX);
        offset.take(Bounds { low: i64::MAX, high: i64::MAX }, Nanos::MAX);
        let far =
            Offset { at: 0, bounds: Bounds::ANY, drift: Drift { low: i64::MIN, high: i64::MAX } };
        let _ = (far.at(u64::MAX), far.bounds_at(u64::MAX), far.convert(u64::MAX), far.error_at(0));
        let _ = (offset.offset().convert(0), offset.offset().error_at(u64::MAX));
        let _ = Bounds::ANY.widened(u64::MAX);
        let _ = Drift::between(Bounds::ANY, Bounds::ANY, 0).widened(i64::MAX);
    }
}
