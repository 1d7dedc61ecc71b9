//! From the kernel's packet timestamps to the clock of the run.
//!
//! Sockets stamp what arrives with `CLOCK_REALTIME`; everything else in Wirebeat is
//! `CLOCK_MONOTONIC`. Both tick alike (NTP slews them together), so that their difference is one
//! number that changes only when somebody steps the wall clock. Each pair of readings bounds it; the
//! bounds of many pairs together pin it down to a few nanoseconds, and bounds that exclude each other
//! show a step. The same difference turns monotonic times into the clock of the day, for logs. Knows nothing of packets.

use rustix::time::{ClockId, clock_gettime};
use wirebeat_units::Nanos;

/// Readings per sample; one of so many is rarely disturbed by an interrupt.
const TRIES: usize = 8;
/// On a busy machine all of them may be: then so many at the most, until one is this narrow.
const TRIES_MAX: usize = 64;
const NARROW_NS: u64 = 1_000;
/// How old a sample may be: so long may times be wrong after a step of the wall clock.
const REFRESH: Nanos = Nanos::from_millis(10);

/// Bounds on realtime minus monotonic time, in nanoseconds, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    low: i64,
    high: i64,
}

impl Bounds {
    /// From a reading of realtime that was made between two of monotonic time. Each reading may have
    /// lost a fraction of a nanosecond.
    fn of_reading(before: u64, realtime: u64, after: u64) -> Self {
        Bounds {
            low: difference(realtime, after).saturating_sub(1),
            high: difference(realtime, before).saturating_add(1),
        }
    }

    fn width(self) -> u64 {
        self.high.abs_diff(self.low)
    }

    /// What both allow; `None` when they exclude each other.
    fn narrowed(self, other: Bounds) -> Option<Bounds> {
        let both = Bounds { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    fn middle(self) -> i64 {
        self.low.midpoint(self.high)
    }
}

/// `a - b`, saturating at the ends of `i64`.
fn difference(a: u64, b: u64) -> i64 {
    Nanos::new(a).signed_sub(Nanos::new(b))
}

/// Converts `CLOCK_REALTIME` to `CLOCK_MONOTONIC`.
#[derive(Clone, Debug)]
pub struct RealtimeToMonotonic {
    bounds: Bounds,
    offset: i64,
    sampled: Nanos,
    steps: u32,
}

impl RealtimeToMonotonic {
    /// Reads both clocks.
    pub fn new() -> Self {
        let (bounds, sampled) = sample();
        RealtimeToMonotonic { bounds, offset: bounds.middle(), sampled, steps: 0 }
    }

    /// Reads both clocks again when the last sample is more than 10 ms old at `now`. Call it before
    /// a batch is converted.
    pub fn refresh(&mut self, now: Nanos) {
        if now.saturating_sub(self.sampled) >= REFRESH {
            let (bounds, sampled) = sample();
            self.take(bounds, sampled);
        }
    }

    fn take(&mut self, bounds: Bounds, sampled: Nanos) {
        self.bounds = self.bounds.narrowed(bounds).unwrap_or_else(|| {
            self.steps = self.steps.saturating_add(1);
            bounds
        });
        self.offset = self.bounds.middle();
        self.sampled = sampled;
    }

    /// The monotonic time at which the realtime clock showed `realtime` nanoseconds since 1970.
    #[inline]
    pub fn convert(&self, realtime: u64) -> Nanos {
        Nanos::new(realtime.saturating_add_signed(self.offset.saturating_neg()))
    }

    /// The time since 1970 in nanoseconds that the realtime clock shows at a monotonic time.
    #[inline]
    pub fn unix_ns(&self, monotonic: Nanos) -> u64 {
        monotonic.get().saturating_add_signed(self.offset)
    }

    /// Realtime less monotonic time in nanoseconds, modulo 2^64.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// How wrong a conversion can be, while the wall clock is not stepped.
    pub fn error(&self) -> Nanos {
        Nanos::new(self.bounds.width().div_ceil(2))
    }

    /// How often the wall clock was seen to be stepped.
    pub fn steps(&self) -> u32 {
        self.steps
    }
}

impl Default for RealtimeToMonotonic {
    fn default() -> Self {
        RealtimeToMonotonic::new()
    }
}

/// The tightest of several readings, and when it was made.
fn sample() -> (Bounds, Nanos) {
    let mut best = Bounds { low: i64::MIN, high: i64::MAX };
    let mut before = read(ClockId::Monotonic);
    for turn in 0..TRIES_MAX {
        if turn >= TRIES && best.width() <= NARROW_NS {
            break;
        }
        let realtime = read(ClockId::Realtime);
        let after = read(ClockId::Monotonic);
        let bounds = Bounds::of_reading(before, realtime, after);
        if bounds.width() < best.width() {
            best = bounds;
        }
        before = after;
    }
    (best, Nanos::new(before))
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_800_000_000_000_000_000;

    /// A converter that was told of one exact reading at monotonic time `at`.
    fn told(offset: u64, at: u64, window: u64) -> RealtimeToMonotonic {
        let bounds = Bounds::of_reading(at - window, at + offset - window / 2, at);
        RealtimeToMonotonic { bounds, offset: bounds.middle(), sampled: Nanos::new(at), steps: 0 }
    }

    #[test]
    fn a_conversion_is_no_further_off_than_it_says() {
        for window in [0, 1, 24, 25, 1_000_000] {
            let clock = told(WALL, 5_000_000_000, window);
            let got = clock.convert(WALL + 7_000_000_000);
            let off = got.signed_sub(Nanos::new(7_000_000_000)).unsigned_abs();
            assert!(off <= clock.error().get(), "window {window}: off by {off}");
            assert!(clock.error().get() <= window.div_ceil(2) + 1);
        }
    }

    #[test]
    fn samples_narrow_each_other() {
        let mut clock = told(WALL, 1_000_000, 1_000);
        assert_eq!(clock.error(), Nanos::new(501));
        // realtime was read at the very start of one window, and at the very end of another
        clock.take(Bounds::of_reading(2_000, WALL + 2_000, 3_000), Nanos::new(3_000));
        clock.take(Bounds::of_reading(4_000, WALL + 5_000, 5_000), Nanos::new(5_000));
        assert_eq!((clock.error(), clock.steps()), (Nanos::new(1), 0));
        assert_eq!(clock.convert(WALL + 9_000), Nanos::new(9_000));
    }

    #[test]
    fn a_step_of_the_wall_clock_is_followed() {
        let mut clock = told(WALL, 1_000_000, 50);
        let stepped = WALL - 3_600_000_000_000;
        clock.take(Bounds::of_reading(2_000, stepped + 2_020, 2_040), Nanos::new(2_040));
        assert_eq!(clock.steps(), 1);
        assert_eq!(clock.convert(stepped + 5_000), Nanos::new(5_000));
    }

    #[test]
    fn a_reading_that_was_disturbed_does_not_move_the_offset() {
        // the thread lost its CPU for 9.7 ms between the readings
        let mut clock = told(WALL, 1_000_000, 40);
        let late = 10_000_000;
        clock.take(Bounds::of_reading(late, WALL + late, late + 9_700_000), Nanos::new(late));
        assert_eq!(clock.unix_ns(Nanos::new(20_000_000)).abs_diff(WALL + 20_000_000) / 50, 0);
        assert!(clock.error() <= Nanos::new(21) && clock.steps() == 0);
        assert_eq!(clock.offset().abs_diff(WALL) / 50, 0);
    }

    /// It was read once, unbracketed, and up to 9.7 ms wrong: packets arrived before they were sent.
    #[test]
    fn the_offset_is_as_exact_as_it_says_on_a_busy_machine() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let mut reference = RealtimeToMonotonic::new();
            let all: Vec<_> = (0..50)
                .map(|_| {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    reference.refresh(Nanos::MAX);
                    RealtimeToMonotonic::new()
                })
                .collect();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            for one in all {
                let apart = one.offset().abs_diff(reference.offset());
                let allowed = one.error().get() + reference.error().get();
                assert!(reference.steps() > 0 || apart <= allowed, "{one:?} {reference:?}");
            }
        });
    }

    #[test]
    fn times_out_of_range_saturate() {
        let clock = told(WALL, 1_000_000, 50);
        assert_eq!(clock.convert(0), Nanos::ZERO);
        let early = RealtimeToMonotonic { offset: i64::MIN, ..clock };
        assert_eq!(early.convert(u64::MAX), Nanos::MAX);
        let _ = Bounds::of_reading(0, u64::MAX, u64::MAX).middle();
    }

    #[test]
    fn the_clocks_of_this_machine_agree() {
        let mut clock = RealtimeToMonotonic::new();
        for _ in 0..100 {
            clock.take(sample().0, Nanos::ZERO);
        }
        let (before, realtime, after) =
            (read(ClockId::Monotonic), read(ClockId::Realtime), read(ClockId::Monotonic));
        let converted = clock.convert(realtime).get();
        let error = clock.error().get();
        assert!(converted + error >= before && converted <= after + error);
        assert!(error < 1_000_000, "error {error} ns");
    }

    #[test]
    fn a_fresh_sample_is_kept() {
        let mut clock = RealtimeToMonotonic::new();
        let sampled = clock.sampled;
        clock.refresh(sampled.saturating_add(Nanos::from_millis(9)));
        assert_eq!(clock.sampled, sampled);
        clock.refresh(sampled.saturating_add(Nanos::from_millis(10)));
        assert!(clock.sampled > sampled);
    }
}
