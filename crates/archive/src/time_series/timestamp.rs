//! Times of records: a moment to the nanosecond, and the zone that it was written in.
//!
//! Packed, a moment of whole microseconds is 12 bytes of decimal digits, two to a byte: year 2 bytes, month, day, hour, minute, second 1 byte each,
//! microseconds 3 bytes, zone 2 bytes: the top bit of the first is the sign (1 for minus), 3 bits are the first
//! digit of the hours and 4 bits each of the three digits after it. The date and the time of day are those of the
//! zone. `2015-07-01T19:20:30.45+01:00` is `20 15 07 01 19 20 30 45 00 00 01 00`.
//!
//! A moment that is finer is of another kind (`fine`), whose first byte is not a digit. So one moment has one form, and
//! archives without nanoseconds are the same bytes as ever.
//!
//! As text: ISO 8601 as RFC 3339 has it. Years are 0000 to 9999 of the Gregorian calendar, also before it began;
//! leap seconds have no place on this scale, and neither has the unknown zone `-00:00`.

use std::fmt;
use std::str::FromStr;

use wirebeat_units::{Fault, fault, into_fault};

/// Microseconds of a day.
const DAY_US: i64 = 86_400 * SECOND_US;
const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
/// No zone is further from UTC: Kiribati, east of it.
const ZONE_MAX: i16 = 14 * 60;

/// A moment to the nanosecond, and the zone that it was written in.
///
/// Compares as the moment, then the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    unix_us: i64,
    /// Nanoseconds behind that microsecond, below 1,000.
    ns: u16,
    zone_min: i16,
}

/// A moment without a zone, which compares: microseconds since 1970, and nanoseconds behind them.
pub type Moment = (i64, u16);

/// To what times are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
}

impl FromStr for Rounding {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Rounding, Fault> {
        match text {
            "us" => Ok(Rounding::Micros),
            "ms" => Ok(Rounding::Millis),
            _ => Err(fault!("unknown unit"; "write us or ms")),
        }
    }
}

/// What is wrong with a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum BadTime {
    /// A half byte above 9.
    Digits(&'static str),
    /// A part beyond its range.
    Range {
        /// Which.
        part: &'static str,
        /// What it is.
        value: u32,
        /// The smallest there is.
        least: u32,
        /// The greatest there is.
        most: u32,
    },
    /// A day that this month does not have.
    Day {
        /// The year.
        year: u16,
        /// The month.
        month: u8,
        /// The day.
        day: u8,
        /// How many days the month has.
        days: u8,
    },
    /// A second for which this scale has no place.
    LeapSecond,
    /// No zone anywhere.
    Zone,
    /// A text that is not a time.
    Text,
    /// A text that says no zone.
    NoZone,
    /// More digits than the archive keeps.
    TooFine,
    /// A fine time whose moment is a whole microsecond, which has another form.
    NotFine,
    /// A kind of time that is not known here.
    Kind(u8),
    /// Beyond the years that have four digits.
    Year,
}

impl BadTime {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            BadTime::Digits(it) => fault!("the {it} has characters that are not digits"),
            BadTime::Range { part, value, least, most } => {
                fault!("the {part} is {value}"; "it goes from {least} to {most}")
            }
            BadTime::Day { year, month, day, days } => {
                fault!("{year:04}-{month:02} has no day {day}"; "it has {days}")
            }
            BadTime::LeapSecond => {
                fault!(
                    "the second is 60";
                    "leap seconds have no place here: write the second after it"
                )
            }
            BadTime::Zone => {
                fault!(
                    "the zone is unknown";
                    "zones go from -14:00 to +14:00, and +00:00 or Z is UTC"
                )
            }
            BadTime::Text => {
                fault!("this is not a time of ISO 8601"; "write 2015-07-01T19:20:30.456789+01:00")
            }
            BadTime::NoZone => fault!("it has no zone"; "write it with one, Z or +01:00"),
            BadTime::TooFine => {
                fault!(
                    "the second has more than nine decimals, and an archive keeps nanoseconds";
                    "round them first"
                )
            }
            BadTime::NotFine => fault!("it is not a time with nanoseconds"),
            BadTime::Kind(it) => {
                fault!(
                    "its kind is {it:#04x}, which this version does not know";
                    "read it with a newer version of Wirebeat"
                )
            }
            BadTime::Year => {
                fault!("the year does not have four digits"; "archives go from 0000 to 9999")
            }
        }
    }
}

into_fault!(BadTime);

impl Timestamp {
    /// Bytes that it takes.
    pub const LEN: usize = 12;
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Timestamp = Timestamp { unix_us: 0, ns: 0, zone_min: 0 };

    /// A moment, in microseconds since 1970-01-01T00:00:00Z, in a zone so many minutes east of UTC.
    ///
    /// # Errors
    /// Where the zone is unknown, or the year there does not have four digits.
    pub fn new(unix_us: i64, zone_min: i16) -> Result<Timestamp, BadTime> {
        if !(-ZONE_MAX..=ZONE_MAX).contains(&zone_min) {
            return Err(BadTime::Zone);
        }
        let local = unix_us.saturating_add(i64::from(zone_min) * MINUTE_US);
        // from 0000-01-01 to the last microsecond of 9999
        let years = days(0, 1, 1) * DAY_US..days(10_000, 1, 1) * DAY_US;
        if !years.contains(&local) {
            return Err(BadTime::Year);
        }
        Ok(Timestamp { unix_us, ns: 0, zone_min })
    }

    /// A moment, in nanoseconds since 1970-01-01T00:00:00Z, in a zone so many minutes east of UTC.
    ///
    /// # Errors
    /// Those of [`Timestamp::new`].
    pub fn from_ns(unix_ns: i128, zone_min: i16) -> Result<Timestamp, BadTime> {
        let us = i64::try_from(unix_ns.div_euclid(1_000)).map_err(|_| BadTime::Year)?;
        let ns = unix_ns.rem_euclid(1_000) as u16;
        Timestamp::new(us, zone_min).map(|time| Timestamp { ns, ..time })
    }

    /// A moment in UTC.
    ///
    /// # Errors
    /// Where the year does not have four digits.
    pub fn utc(unix_us: i64) -> Result<Timestamp, BadTime> {
        Timestamp::new(unix_us, 0)
    }

    /// Microseconds since 1970-01-01T00:00:00Z, leap seconds not counted; rounded down.
    pub fn unix_us(self) -> i64 {
        self.unix_us
    }

    /// Nanoseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
    #[inline]
    pub fn unix_ns(self) -> i128 {
        i128::from(self.unix_us) * 1_000 + i128::from(self.ns)
    }

    /// What to compare times by, whatever their zones.
    #[inline]
    pub fn moment(self) -> Moment {
        (self.unix_us, self.ns)
    }

    /// Whether it is between two microseconds.
    pub fn is_fine(self) -> bool {
        self.ns > 0
    }

    /// The nearest moment of whole units, and of two that are as near the later one. Times in order stay in order.
    ///
    /// # Errors
    /// Where that is beyond the last year of four digits.
    pub fn rounded(self, to: Rounding) -> Result<Timestamp, BadTime> {
        let unit = match to {
            Rounding::Micros => 1_000,
            Rounding::Millis => 1_000_000,
        };
        let units = (self.unix_ns() + unit / 2).div_euclid(unit);
        Timestamp::from_ns(units * unit, self.zone_min)
    }

    /// Minutes that its zone is east of UTC.
    pub fn zone_min(self) -> i16 {
        self.zone_min
    }

    /// Reads packed digits.
    ///
    /// # Errors
    /// Where they are no time.
    #[inline]
    pub fn unpack(packed: &[u8; Timestamp::LEN]) -> Result<Timestamp, BadTime> {
        let [y0, y1, month, day, hour, minute, second, u0, u1, u2, z0, z1] = *packed;
        // the sign of the zone is not a digit
        let digits = u128::from_le_bytes([
            y0,
            y1,
            month,
            day,
            hour,
            minute,
            second,
            u0,
            u1,
            u2,
            z0 & 0x7f,
            z1,
            0,
            0,
            0,
            0,
        ]);
        if above_nine(digits) {
            return fine::unpack(packed);
        }
        let us = (two(u0) * 100 + two(u1)) * 100 + two(u2);
        let zone = Zone { west: z0 & 0x80 != 0, hours: two(z0 & 0x7f), minutes: two(z1) };
        TimeParts {
            year: two(y0) * 100 + two(y1),
            month: two(month),
            day: two(day),
            hour: two(hour),
            minute: two(minute),
            second: two(second),
            us,
            zone,
        }
        .timestamp()
    }

    /// As packed digits.
    #[inline]
    pub fn pack(self) -> [u8; Timestamp::LEN] {
        if self.ns > 0 { fine::pack(self) } else { self.pack_digits() }
    }

    fn pack_digits(self) -> [u8; Timestamp::LEN] {
        let TimeParts { year, month, day, hour, minute, second, us, zone } = self.parts();
        let sign = if zone.west { 0x80 } else { 0 };
        [
            packed(year / 100),
            packed(year % 100),
            packed(month),
            packed(day),
            packed(hour),
            packed(minute),
            packed(second),
            packed(us / 10_000),
            packed(us / 100 % 100),
            packed(us % 100),
            packed(zone.hours) | sign,
            packed(zone.minutes),
        ]
    }

    fn parts(self) -> TimeParts {
        let local = self.unix_us + i64::from(self.zone_min) * MINUTE_US;
        let (year, month, day) = date(local.div_euclid(DAY_US));
        let us = local.rem_euclid(DAY_US);
        let seconds = (us / SECOND_US) as u32;
        TimeParts {
            year,
            month,
            day,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            us: (us % SECOND_US) as u32,
            zone: Zone::from_min(self.zone_min),
        }
    }

    /// Reads text, as bytes: the fast way for files with many of them.
    ///
    /// # Errors
    /// Where it is not a time.
    pub fn from_text(text: &[u8]) -> Result<Timestamp, BadTime> {
        Timestamp::from_text_in(text, None)
    }

    /// Reads text that may lack its zone, which then is so many minutes east of UTC.
    ///
    /// # Errors
    /// Where it is not a time, or lacks its zone and none is given.
    #[inline]
    pub fn from_text_in(text: &[u8], zone_min: Option<i16>) -> Result<Timestamp, BadTime> {
        let (year, rest) = digits::<4>(text)?;
        let (month, rest) = digits::<2>(after(rest, b"-")?)?;
        let (day, rest) = digits::<2>(after(rest, b"-")?)?;
        let (hour, rest) = digits::<2>(after(rest, b"Tt ")?)?;
        let (minute, rest) = digits::<2>(after(rest, b":")?)?;
        let (second, rest) = digits::<2>(after(rest, b":")?)?;
        let (ns, rest) = match after(rest, b".,") {
            Ok(rest) => fraction(rest)?,
            Err(_) => (0, rest),
        };
        let us = ns / 1_000;
        let zone = match (rest, zone_min) {
            ([], None) => return Err(BadTime::NoZone),
            ([], Some(min)) => Zone::from_min(min),
            _ => zone(rest)?,
        };
        let time = TimeParts { year, month, day, hour, minute, second, us, zone }.timestamp()?;
        Ok(Timestamp { ns: (ns % 1_000) as u16, ..time })
    }
}

/// What a time is written as.
struct TimeParts {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    us: u32,
    zone: Zone,
}

struct Zone {
    west: bool,
    hours: u32,
    minutes: u32,
}

impl Zone {
    fn from_min(zone_min: i16) -> Zone {
        let east = u32::from(zone_min.unsigned_abs());
        Zone { west: zone_min < 0, hours: east / 60, minutes: east % 60 }
    }
}

impl TimeParts {
    #[inline]
    fn timestamp(&self) -> Result<Timestamp, BadTime> {
        let TimeParts { year, month, day, hour, minute, second, us, ref zone } = *self;
        let in_range = (1..=12).contains(&month)
            && (1..=28).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !in_range {
            self.check()?;
        }
        let east = zone.hours * 60 + zone.minutes;
        if zone.minutes > 59 || east > ZONE_MAX as u32 || (zone.west && east == 0) {
            return Err(BadTime::Zone);
        }
        let zone_min = if zone.west { -(east as i16) } else { east as i16 };
        let seconds = i64::from(hour * 3600 + minute * 60 + second);
        let local =
            days(i64::from(year), month, day) * DAY_US + seconds * SECOND_US + i64::from(us);
        Ok(Timestamp { unix_us: local - i64::from(zone_min) * MINUTE_US, ns: 0, zone_min })
    }

    #[cold]
    fn check(&self) -> Result<(), BadTime> {
        let within = |part, value: u32, least: u32, most: u32| match (least..=most).contains(&value)
        {
            true => Ok(()),
            false => Err(BadTime::Range { part, value, least, most }),
        };
        within("month", self.month, 1, 12)?;
        let days = days_of(self.year, self.month);
        if !(1..=days).contains(&self.day) {
            let (year, month, day) = (self.year as u16, self.month as u8, self.day as u8);
            return Err(BadTime::Day { year, month, day, days: days as u8 });
        }
        within("hour", self.hour, 0, 23)?;
        within("minute", self.minute, 0, 59)?;
        match self.second {
            60 => Err(BadTime::LeapSecond),
            second => within("second", second, 0, 59),
        }
    }
}

/// Whether any half byte is above 9.
#[inline]
fn above_nine(digits: u128) -> bool {
    const SIXES: u128 = u128::from_le_bytes([0x66; 16]);
    const EIGHTS: u128 = u128::from_le_bytes([0x88; 16]);
    // A half byte above 9 has its 8 set, and its 4 or its 2: adding 6 to the lower three bits carries into the 8.
    let low = digits & !EIGHTS;
    (digits & (low + SIXES)) & EIGHTS != 0
}

/// Times that are finer than microseconds: 12 bytes of another kind, which no digits begin with.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 1 | `0xf1` |
/// | 1 | 9 | nanoseconds since 1970-01-01T00:00:00Z, big-endian, two's complement |
/// | 10 | 2 | zone, as in the other kind |
mod fine {
    use super::{BadTime, Timestamp, above_nine, not_digits, two};

    /// What such a time begins with.
    pub(super) const KIND: u8 = 0xf1;
    /// Kinds that are known to be none of digits.
    const KINDS: std::ops::RangeInclusive<u8> = 0xf0..=0xff;

    pub(super) fn pack(time: Timestamp) -> [u8; Timestamp::LEN] {
        let mut packed = time.pack_digits();
        packed[0] = KIND;
        // 72 bits are years from -35,000 to 38,000
        let [.., b0, b1, b2, b3, b4, b5, b6, b7, b8] = time.unix_ns().to_be_bytes();
        packed[1..10].copy_from_slice(&[b0, b1, b2, b3, b4, b5, b6, b7, b8]);
        packed
    }

    pub(super) fn unpack(packed: &[u8; Timestamp::LEN]) -> Result<Timestamp, BadTime> {
        let [kind, b0, b1, b2, b3, b4, b5, b6, b7, b8, z0, z1] = *packed;
        if kind != KIND {
            return Err(if KINDS.contains(&kind) {
                BadTime::Kind(kind)
            } else {
                not_digits(packed)
            });
        }
        if above_nine(u128::from(u16::from_be_bytes([z0 & 0x7f, z1]))) {
            return Err(BadTime::Digits("zone"));
        }
        let sign = if b0 & 0x80 != 0 { 0xff } else { 0 };
        let mut ns = [sign; 16];
        ns[7..].copy_from_slice(&[b0, b1, b2, b3, b4, b5, b6, b7, b8]);
        let (west, hours, minutes) = (z0 & 0x80 != 0, two(z0 & 0x7f), two(z1));
        let east = (hours * 60 + minutes) as i16;
        if minutes > 59 || (west && east == 0) {
            return Err(BadTime::Zone);
        }
        let time = Timestamp::from_ns(i128::from_be_bytes(ns), if west { -east } else { east })?;
        if time.is_fine() { Ok(time) } else { Err(BadTime::NotFine) }
    }
}

/// Which part has digits that are none.
#[cold]
fn not_digits(packed: &[u8; Timestamp::LEN]) -> BadTime {
    const PARTS: [&str; Timestamp::LEN] = [
        "year",
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "microsecond",
        "microsecond",
        "microsecond",
        "zone",
        "zone",
    ];
    let no_digits = |at: usize, byte: u8| {
        let byte = if at == 10 { byte & 0x7f } else { byte };
        above_nine(byte.into())
    };
    let bad = packed.iter().enumerate().find(|&(at, &byte)| no_digits(at, byte));
    bad.map_or(BadTime::Zone, |(at, _)| BadTime::Digits(PARTS[at]))
}

/// Two packed digits.
#[inline]
fn two(byte: u8) -> u32 {
    u32::from(byte >> 4) * 10 + u32::from(byte & 0xf)
}

/// A number below 100 as two digits.
fn packed(number: u32) -> u8 {
    ((number / 10) << 4 | (number % 10)) as u8
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. A year is counted from March, so that the day which
/// some years lack is its last: the days before a month are then a line through its number.
#[inline]
fn days(year: i64, month: u32, day: u32) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let in_year = i64::from((153 * month + 2) / 5 + day - 1);
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days from 0000-03-01 to 1970-01-01
    365 * year + leap_days + in_year - 719_468
}

/// The other way: year, month and day, for years from 0 to 9999.
fn date(since: i64) -> (u32, u32, u32) {
    // one year before 0000-03-01, so that nothing is negative
    let since = since + 719_468 + 146_097;
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    ((era * 400 + year + next - 400) as u32, month as u32, day as u32)
}

fn days_of(year: u32, month: u32) -> u32 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// The number in the first digits, and what follows them.
#[inline]
fn digits<const COUNT: usize>(text: &[u8]) -> Result<(u32, &[u8]), BadTime> {
    let (digits, rest) = text.split_at_checked(COUNT).ok_or(BadTime::Text)?;
    let mut number = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return Err(BadTime::Text);
        }
        number = number * 10 + u32::from(digit - b'0');
    }
    Ok((number, rest))
}

/// What follows one of these.
#[inline]
fn after<'a>(text: &'a [u8], any: &[u8]) -> Result<&'a [u8], BadTime> {
    match text.split_first() {
        Some((first, rest)) if any.contains(first) => Ok(rest),
        _ => Err(BadTime::Text),
    }
}

/// Decimals of a second as nanoseconds.
fn fraction(text: &[u8]) -> Result<(u32, &[u8]), BadTime> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(count);
    let (kept, beyond) = digits.split_at(count.min(9));
    if count == 0 {
        return Err(BadTime::Text);
    }
    if beyond.iter().any(|&digit| digit != b'0') {
        return Err(BadTime::TooFine);
    }
    let number = kept.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    Ok((number * 10u32.pow(9 - kept.len() as u32), rest))
}

fn zone(text: &[u8]) -> Result<Zone, BadTime> {
    if let b"Z" | b"z" = text {
        return Ok(Zone { west: false, hours: 0, minutes: 0 });
    }
    let rest = after(text, b"+-")?;
    let (hours, rest) = digits::<2>(rest)?;
    // ISO 8601 has +0100 and +01 as well
    let rest = after(rest, b":").unwrap_or(rest);
    let (minutes, rest) = if rest.is_empty() { (0, rest) } else { digits::<2>(rest)? };
    match rest {
        [] => Ok(Zone { west: text[0] == b'-', hours, minutes }),
        _ => Err(BadTime::Text),
    }
}

impl FromStr for Timestamp {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Timestamp, BadTime> {
        Timestamp::from_text(text.as_bytes())
    }
}

/// With six decimals where it has some, nine where they are needed, and `Z` for UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TimeParts { year, month, day, hour, minute, second, us, zone } = self.parts();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match self.ns {
            0 if us == 0 => {}
            0 => write!(f, ".{us:06}")?,
            ns => write!(f, ".{us:06}{ns:03}")?,
        }
        match (zone.west, zone.hours, zone.minutes) {
            (_, 0, 0) => f.write_str("Z"),
            (west, hours, minutes) => {
                write!(f, "{}{hours:02}:{minutes:02}", if west { '-' } else { '+' })
            }
        }
    }
}

#[cfg(test)]
mod tests;
