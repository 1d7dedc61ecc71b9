//! From the kernel's packet timestamps to the clock of the run.
//!
//! Sockets stamp what arrives with `CLOCK_REALTIME`; everything else in Wirebeat is
//! `CLOCK_MONOTONIC`. Both tick alike (NTP slews them together), so that their difference is one
//! number that changes only when somebody steps the wall clock (`clock_offset`); many readings pin it
//! down to a few nanoseconds. The same difference turns monotonic times into the clock of the day, for logs.
//! Knows nothing of packets. Stamps of cards: `card/clock.rs`.

use rustix::time::{ClockId, clock_gettime};
use wirebeat_units::Nanos;

use crate::clock_offset::{Bounds, ClockOffset};

/// Readings per sample; one of so many is rarely disturbed by an interrupt.
const TRIES: usize = 8;
/// On a busy machine all of them may be: then so many at the most, until one is this narrow.
const TRIES_MAX: usize = 64;
const NARROW_NS: u64 = 1_000;
/// How old a sample may be: so long may times be wrong after a step of the wall clock.
const REFRESH: Nanos = Nanos::from_millis(10);
/// They do not drift apart.
const ALIKE: i64 = 0;

/// Converts `CLOCK_REALTIME` to `CLOCK_MONOTONIC`.
#[derive(Clone, Debug)]
pub struct RealtimeToMonotonic(ClockOffset);

impl RealtimeToMonotonic {
    /// Reads both clocks.
    pub fn new() -> Self {
        let (bounds, sampled) = sample();
        RealtimeToMonotonic(ClockOffset::new(ALIKE, bounds, sampled))
    }

    /// Reads both clocks again when the last sample is more than 10 ms old at `now`. Call it before
    /// a batch is converted.
    pub fn refresh(&mut self, now: Nanos) {
        if now.saturating_sub(self.0.read_at()) >= REFRESH {
            let (bounds, sampled) = sample();
            self.0.take(bounds, sampled);
        }
    }

    /// The monotonic time at which the realtime clock showed `realtime` nanoseconds since 1970.
    #[inline]
    pub fn convert(&self, realtime: u64) -> Nanos {
        self.0.offset().convert(realtime)
    }

    /// The time since 1970 in nanoseconds that the realtime clock shows at a monotonic time.
    #[inline]
    pub fn unix_ns(&self, monotonic: Nanos) -> u64 {
        monotonic.get().saturating_add_signed(self.difference())
    }

    /// Realtime less monotonic time in nanoseconds, modulo 2^64.
    pub fn offset(&self) -> u64 {
        self.difference() as u64
    }

    fn difference(&self) -> i64 {
        self.0.offset().at(self.0.read_at().get())
    }

    /// How wrong a conversion can be, while the wall clock is not stepped.
    pub fn error(&self) -> Nanos {
        self.0.offset().error_at(self.0.read_at().get())
    }

    /// How often the wall clock was seen to be stepped.
    pub fn steps(&self) -> u32 {
        self.0.steps()
    }
}

impl Default for RealtimeToMonotonic {
    fn default() -> Self {
        RealtimeToMonotonic::new()
    }
}

/// The tightest of several readings, and when it was made.
fn sample() -> (Bounds, Nanos) {
    let mut best = Bounds::ANY;
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
        RealtimeToMonotonic(ClockOffset::new(ALIKE, bounds, Nanos::new(at)))
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
        clock.0.take(Bounds::of_reading(2_000, WALL + 2_000, 3_000), Nanos::new(3_000));
        clock.0.take(Bounds::of_reading(4_000, WALL + 5_000, 5_000), Nanos::new(5_000));
        assert_eq!((clock.error(), clock.steps()), (Nanos::new(1), 0));
        assert_eq!(clock.convert(WALL + 9_000), Nanos::new(9_000));
    }

    #[test]
    fn a_step_of_the_wall_clock_is_followed() {
        let mut clock = told(WALL, 1_000_000, 50);
        let stepped = WALL - 3_600_000_000_000;
        clock.0.take(Bounds::of_reading(2_000, stepped + 2_020, 2_040), Nanos::new(2_040));
        assert_eq!(clock.steps(), 1);
        assert_eq!(clock.convert(stepped + 5_000), Nanos::new(5_000));
    }

    #[test]
    fn a_reading_that_was_disturbed_does_not_move_the_offset() {
        // the thread lost its CPU for 9.7 ms between the readings
        let mut clock = told(WALL, 1_000_000, 40);
        let late = 10_000_000;
        clock.0.take(Bounds::of_reading(late, WALL + late, late + 9_700_000), Nanos::new(late));
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
        let lowest = Bounds { low: i64::MIN, high: i64::MIN };
        let early = RealtimeToMonotonic(ClockOffset::new(ALIKE, lowest, Nanos::ZERO));
        assert_eq!(early.convert(u64::MAX), Nanos::MAX);
        let _ = Bounds::of_reading(0, u64::MAX, u64::MAX).middle();
    }

    #[test]
    fn the_clocks_of_this_machine_agree() {
        let mut clock = RealtimeToMonotonic::new();
        for _ in 0..100 {
            clock.0.take(sample().0, Nanos::ZERO);
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
        let sampled = clock.0.read_at();
        clock.refresh(sampled.saturating_add(Nanos::from_millis(9)));
        assert_eq!(clock.0.read_at(), sampled);
        clock.refresh(sampled.saturating_add(Nanos::from_millis(10)));
        assert!(clock.0.read_at() > sampled);
    }
}
