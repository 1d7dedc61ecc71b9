//! Points in time as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Days of 400 years of the Gregorian calendar, after which it repeats.
const DAYS_PER_ERA: u64 = 146_097;
/// Days from 1 March of year 0 to 1 January 1970.
const EPOCH: u64 = 719_468;

/// `time` by RFC 3339 in UTC, to the millisecond. Times before 1970 read as 1970.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of a day counted from 1 January 1970.
///
/// Years are taken to begin in March, so that a leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH;
    let (era, day) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    // Every 4th year has a day more, every 100th not, and the last day of the era is in its 400th.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, five months in turn have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> String {
        rfc3339(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn known_times_read_as_the_calendar_says() {
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59.000Z");
        assert_eq!(at(1_767_225_599), "2025-12-31T23:59:59.000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000Z");
        let fraction = UNIX_EPOCH + Duration::from_millis(1_500);
        assert_eq!(rfc3339(fraction), "1970-01-01T00:00:01.500Z");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let lengths = |year: u64| {
            let leap =
                year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut day = 0;
        for year in 1970..2410 {
            for (month, length) in (1..).zip(lengths(year)) {
                for of_month in 1..=length {
                    assert_eq!(civil(day), (year, month, of_month));
                    day += 1;
                }
            }
        }
    }

    #[test]
    fn times_before_1970_do_not_panic() {
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(1)), at(0));
    }
}
