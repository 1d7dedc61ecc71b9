//! Time in nanoseconds.

use std::fmt;
use std::str::FromStr;

use crate::UnitError;
use crate::parse::{Bare, Decimal, Quantity, shortest};
use crate::text::serde_as_text;

const TIME: Quantity = Quantity {
    what: "a time",
    example: "100us, 1.5ms or 10s",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("\u{b5}s", 1_000),  // the micro sign of keyboards
        ("\u{3bc}s", 1_000), // the Greek letter
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ],
    bare: Bare::OnlyZero,
};

/// A point in time or a length of time in nanoseconds.
///
/// As a point it counts from the origin of one monotonic clock (`CLOCK_MONOTONIC` on Linux, zero on
/// a virtual clock), or from the start of a run where the documentation says so. 2^64 ns are 584 years.
///
/// Read from `"250ns"`, `"100us"` (or `µs`), `"1.5ms"`, `"10s"`, `"2m"` (or `min`), `"1h"`, `"3d"` or `"0"`;
/// printed as the shortest of these that is exact, without minutes, hours and days.
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

impl FromStr for Nanos {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        TIME.whole(text).map(Nanos)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = &[("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
        f.pad(&shortest(Decimal::new(self.0.into(), 0), units))
    }
}

serde_as_text!(Nanos, TIME.what);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_in_every_unit() {
        for (text, ns) in [
            ("250ns", 250),
            ("100us", 100_000),
            ("100\u{b5}s", 100_000),
            ("100\u{3bc}s", 100_000),
            ("1.5ms", 1_500_000),
            ("10s", 10_000_000_000),
            ("2m", 120_000_000_000),
            ("2 min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("3d", 259_200_000_000_000),
            ("0.1s", 100_000_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(ns)), "{text}");
        }
    }

    #[test]
    fn times_that_cannot_be_meant_are_refused() {
        for (text, why) in [
            ("10", "it has no unit"),
            ("0.5ns", "it is not a whole number of ns"),
            ("6000000h", "it is more than 18446744073709551615ns"),
            ("5S", "there is no unit 'S', and case matters: did you mean 's'?"),
            ("-1s", "it is negative"),
        ] {
            assert_eq!(text.parse::<Nanos>().expect_err(text).why, why, "{text}");
        }
    }

    #[test]
    fn times_print_shortest() {
        for (ns, text) in [
            (0, "0ns"),
            (250, "250ns"),
            (100_000, "100us"),
            (1_500_000, "1.5ms"),
            (1_234_567, "1234567ns"),
            (90_000_000_000, "90s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
        assert_eq!(format!("[{:>6}]", Nanos(5_000)), "[   5us]");
    }

    #[test]
    fn serde_reads_text_and_takes_no_number_for_a_time_but_zero() {
        let read = |json| serde_json::from_str::<Nanos>(json).map_err(|e| e.to_string());
        assert_eq!(read("\"100us\""), Ok(Nanos(100_000)));
        assert_eq!(read("0"), Ok(Nanos::ZERO));
        let error = read("100").expect_err("a bare number");
        assert!(error.starts_with("'100' is not a time: it has no unit"), "{error}");
        assert!(read("-1").expect_err("negative").contains("it is negative"));
        assert!(read("1.5").expect_err("a bare number").contains("it has no unit"));
        assert!(read("null").expect_err("nothing").contains("expected a time"));
        assert_eq!(serde_json::to_string(&Nanos(100_000)).expect("json"), "\"100us\"");
    }

    #[test]
    fn signed_differences_saturate() {
        assert_eq!(Nanos(5).signed_sub(Nanos(7)), -2);
        assert_eq!(Nanos(7).signed_sub(Nanos(5)), 2);
        assert_eq!(Nanos::MAX.signed_sub(Nanos::ZERO), i64::MAX);
        assert_eq!(Nanos::ZERO.signed_sub(Nanos::MAX), i64::MIN);
    }

    proptest! {
        #[test]
        fn every_time_survives_printing_and_reading(ns: u64) {
            prop_assert_eq!(Nanos(ns).to_string().parse(), Ok(Nanos(ns)));
        }
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<Nanos>();
        }
    }
}
