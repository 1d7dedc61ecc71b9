//! Time in nanoseconds.

/// A point in time or a length of time in nanoseconds.
///
/// As a point it counts from the origin of one monotonic clock (`CLOCK_MONOTONIC` on Linux, zero on
/// a virtual clock), or from the start of a run where the documentation says so. 2^64 ns are 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all; also the origin of a clock.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than any deadline.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// From nanoseconds.
    pub const fn new(ns: u64) -> Self {
        Nanos(ns)
    }
    /// From whole seconds, saturating.
    pub const fn from_secs(s: u64) -> Self {
        Nanos(s.saturating_mul(1_000_000_000))
    }
    /// From milliseconds, saturating.
    pub const fn from_millis(ms: u64) -> Self {
        Nanos(ms.saturating_mul(1_000_000))
    }
    /// From microseconds, saturating.
    pub const fn from_micros(us: u64) -> Self {
        Nanos(us.saturating_mul(1_000))
    }
    /// The number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// In seconds, for display and for rates; not for schedules.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// `self + other`, stopping at [`Nanos::MAX`].
    pub const fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
    /// `self - other`, stopping at zero.
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
    /// `self - other` with its sign, saturating at the ends of `i64`.
    pub const fn signed_sub(self, other: Nanos) -> i64 {
        let difference = self.0.wrapping_sub(other.0);
        if self.0 >= other.0 {
            if difference > i64::MAX as u64 { i64::MAX } else { difference as i64 }
        } else {
            let magnitude = other.0 - self.0;
            if magnitude > i64::MAX as u64 { i64::MIN } else { -(magnitude as i64) }
        }
    }
    /// As the standard library's duration.
    pub const fn to_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}
