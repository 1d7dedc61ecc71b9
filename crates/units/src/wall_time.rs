//! A moment by the clock of the day.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::parse::{Bare, Quantity};
use crate::text::serde_as_text;
use crate::{Nanos, UnitError};

const MOMENT: Quantity =
    Quantity { what: "a moment", example: "2026-11-20T18:00:00Z", units: &[], bare: Bare::Refused };

/// A moment by the clock of the day, to the nanosecond, from 1970 on.
///
/// Read from and printed as RFC 3339 has it, in UTC: `"2026-11-20T18:00:00Z"`, `"2026-11-20T18:00:00.5Z"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(Nanos);

impl WallTime {
    /// From nanoseconds since 1970-01-01T00:00:00Z.
    pub const fn from_unix(since: Nanos) -> WallTime {
        WallTime(since)
    }
    /// Nanoseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
    pub const fn unix(self) -> Nanos {
        self.0
    }
}

impl FromStr for WallTime {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let refuse = |why: &str| MOMENT.refuse(text, why.to_owned());
        let time: SystemTime = humantime::parse_rfc3339(text.trim())
            .map_err(|_| refuse("it is not a date and time of RFC 3339 in UTC"))?;
        let since = time.duration_since(UNIX_EPOCH).map_err(|_| refuse("it is before 1970"))?;
        let ns = u64::try_from(since.as_nanos()).map_err(|_| refuse("it is too far away"))?;
        Ok(WallTime(Nanos::new(ns)))
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = UNIX_EPOCH + Duration::from_nanos(self.0.get());
        write!(f, "{}", humantime::format_rfc3339(time))
    }
}

serde_as_text!(WallTime, "a moment");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_printed() {
        for text in ["1970-01-01T00:00:00Z", "2026-11-20T18:00:00.500000000Z"] {
            let moment: WallTime = text.parse().expect(text);
            assert_eq!(moment.to_string(), text);
        }
        let moment: WallTime = "2026-11-20T18:00:00Z".parse().expect("a moment");
        assert_eq!(moment.unix(), Nanos::from_secs(1_795_197_600));
    }

    #[test]
    fn what_is_no_moment_is_told_with_an_example() {
        for text in [
            "",
            "now",
            "18:00:00",
            "2026-11-20",
            "1969-12-31T23:59:59Z",
            "2026-11-20T18:00:00+01:00",
        ] {
            let error = text.parse::<WallTime>().expect_err(text).to_string();
            assert!(error.contains("2026-11-20T18:00:00Z"), "{error}");
        }
    }
}
