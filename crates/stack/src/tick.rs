//! The stack's own coarse time: ticks of 2^18 ns, on a circle of 2^32, which is 13 days.
//!
//! A deadline takes 4 bytes in a session's state instead of 8. Deadlines and ages compare within half a circle (6 days);
//! [`SPAN_MAX`] bounds what can be asked for. Round-trip times are measured finer, in microseconds ([`micros`]).

use wirebeat_units::Nanos;

/// Nanoseconds of a tick as a power of two: 262,144 ns. Delayed acknowledgments and retransmissions are timed in
/// milliseconds, so that a tick adds less than 1 % to the shortest of them; and 40 ms are less than the 256 ticks of the
/// wheel's first level.
const SHIFT: u32 = 18;
/// The longest time from now to a deadline, in ticks: a third of the circle, so that a late look at it still sees it as past.
pub const SPAN_MAX: u32 = u32::MAX / 3;

/// A point in time on the circle of ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tick(pub u32);

impl Tick {
    /// The tick that `now` lies in.
    #[inline]
    pub const fn at(now: Nanos) -> Tick {
        Tick((now.get() >> SHIFT) as u32)
    }

    /// The first tick that begins `span` or more after `now`, so that a timer is never early.
    #[inline]
    pub const fn after(now: Nanos, span: Nanos) -> Tick {
        let span = if span.get() > (SPAN_MAX as u64) << SHIFT {
            (SPAN_MAX as u64) << SHIFT
        } else {
            span.get()
        };
        let deadline = now.get().wrapping_add(span).wrapping_add((1 << SHIFT) - 1);
        Tick((deadline >> SHIFT) as u32)
    }

    /// When the tick begins, as the time nearest to `now` that has this tick.
    pub const fn start(self, now: Nanos) -> Nanos {
        let current = now.get() >> SHIFT;
        let ahead = self.0.wrapping_sub(current as u32) as i32;
        Nanos::new(current.saturating_add_signed(ahead as i64) << SHIFT)
    }

    /// Ticks from `earlier` to this one; 0 where it is earlier itself.
    #[inline]
    pub const fn since(self, earlier: Tick) -> u32 {
        let difference = self.0.wrapping_sub(earlier.0);
        if (difference as i32) < 0 { 0 } else { difference }
    }

    /// Whether it has come at `now`.
    #[inline]
    pub const fn is_due(self, now: Tick) -> bool {
        (now.0.wrapping_sub(self.0) as i32) >= 0
    }

    /// The earlier of the two.
    #[inline]
    #[must_use]
    pub const fn min(self, other: Tick) -> Tick {
        if other.is_due(self) { other } else { self }
    }
}

/// A span in whole ticks, rounded up.
#[inline]
pub const fn ticks(span: Nanos) -> u32 {
    let ticks = (span.get() >> SHIFT) + (span.get() & ((1 << SHIFT) - 1) != 0) as u64;
    if ticks > SPAN_MAX as u64 { SPAN_MAX } else { ticks as u32 }
}

/// `now` in microseconds on a circle of 2^32, which is 71 minutes: for round-trip times.
#[inline]
pub const fn micros(now: Nanos) -> u32 {
    (now.get() / 1_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early_and_at_most_one_tick_late() {
        for (now, span) in
            [(0, 1), (262_143, 1), (262_144, 262_144), (1 << 50, 1_000_000), (u64::MAX >> 1, 77)]
        {
            let tick = Tick::after(Nanos::new(now), Nanos::new(span));
            let start = tick.start(Nanos::new(now)).get();
            assert!(start >= now + span && start < now + span + 262_144, "{now} {span}: {start}");
        }
    }

    #[test]
    fn ticks_compare_over_the_end_of_the_circle() {
        let (last, first) = (Tick(u32::MAX), Tick(1));
        assert!(last.is_due(first) && !first.is_due(last));
        assert_eq!((first.since(last), last.since(first)), (2, 0));
        assert_eq!((first.min(last), last.min(first)), (last, last));
        assert_eq!(last.start(Nanos::new(1 << 50)), Nanos::new((1 << 50) - (1 << 18)));
    }

    #[test]
    fn a_span_beyond_the_circle_is_bounded() {
        let tick = Tick::after(Nanos::ZERO, Nanos::MAX);
        assert_eq!((tick.0, ticks(Nanos::MAX)), (SPAN_MAX, SPAN_MAX));
        assert!(!tick.is_due(Tick(0)));
    }
}
