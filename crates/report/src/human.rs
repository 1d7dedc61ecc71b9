//! Numbers as people read them: scaled to a unit that fits, with as many digits as mean something.

use crate::model::{End, LeftOut};

pub use wirebeat_units::human::{count, counted, long_time};

/// Multiples of a unit, each 1000 times the one before.
type Scale = &'static [&'static str];

const TIME: Scale = &["ns", "µs", "ms", "s"];
const BYTES: Scale = &["B", "kB", "MB", "GB", "TB"];
const FRAME_RATE: Scale = &["pps", "kpps", "Mpps", "Gpps"];
const BIT_RATE: Scale = &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
/// Digits that mean something in a table.
const DIGITS: usize = 3;
/// Digits of a rate that is to be compared with another.
const FINE: usize = 6;

/// A time in nanoseconds: "20 ns", "1.23 µs".
pub fn time(ns: f64) -> String {
    scaled(ns, DIGITS, TIME)
}

/// A time in nanoseconds, as short as it gets: "20ns", "1.23µs".
pub fn short_time(ns: f64) -> String {
    time(ns).replace(' ', "")
}

/// An amount of data: "64 B", "2.88 GB".
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, DIGITS, BYTES)
}

/// Frames per second: "4.48 Mpps".
pub fn frame_rate(frames_per_second: f64) -> String {
    scaled(frames_per_second, DIGITS, FRAME_RATE)
}

/// Frames per second with more digits: "100.002 kpps".
pub fn fine_frame_rate(frames_per_second: f64) -> String {
    scaled(frames_per_second, FINE, FRAME_RATE)
}

/// The same in the unit of another rate that it is compared with, unless it is less than a hundredth of that:
/// "0.999738 kpps" beside "1.00000 kpps".
pub fn fine_frame_rate_beside(frames_per_second: f64, other: f64) -> String {
    if frames_per_second.abs() * 100.0 < other.abs() {
        return fine_frame_rate(frames_per_second);
    }
    let unit = unit_of(other, FINE, FRAME_RATE);
    let value = frames_per_second / 1000_f64.powi(i32::try_from(unit).unwrap_or(0));
    let whole = unit == 0 && value.fract() == 0.0;
    format!("{} {}", digits(value, if whole { 1 } else { FINE }), FRAME_RATE[unit])
}

/// Bits per second: "51.2 Mbit/s".
pub fn bit_rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, DIGITS, BIT_RATE)
}

/// A plain number: "1.5", "12.3", "1,234".
pub fn number(value: f64) -> String {
    digits(value, DIGITS)
}

/// A share: "0 %", "0.0012 %". Only zero reads as 0, and only all of it as 100.
pub fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent == 0.0 {
        return "0 %".to_owned();
    }
    if percent < 0.000_1 {
        return "< 0.0001 %".to_owned();
    }
    if (99.95..100.0).contains(&percent) {
        return "> 99.9 %".to_owned();
    }
    format!("{} %", digits(percent, if percent < 0.1 { 2 } else { DIGITS }))
}

/// A deviation in millionths, with its sign; in percent where it is large: "+0.21 ppm", "-8.8 %".
pub fn deviation(ppm: f64) -> String {
    let sign = if ppm < 0.0 { "-" } else { "+" };
    let size = ppm.abs();
    if size < 0.001 {
        return "0 ppm".to_owned();
    }
    if size < 1_000.0 {
        return format!("{sign}{} ppm", digits(size, 2));
    }
    format!("{sign}{} %", digits(size / 10_000.0, 2))
}

/// How much was left out: its records, and where their number is not known, places and bytes.
pub fn left_out<'a>(all: impl IntoIterator<Item = &'a LeftOut>) -> String {
    let mut sum = LeftOut::default();
    for kind in all {
        sum.count += kind.count;
        sum.records += kind.records;
        sum.bytes += kind.bytes;
    }
    let known = counted(sum.records, "record");
    match sum.count.saturating_sub(sum.records) {
        0 => known,
        unknown => {
            let known = if sum.records > 0 { known + ", " } else { String::new() };
            format!(
                "{} ({known}{} with an unknown number of records; {})",
                counted(sum.count, "place"),
                count(unknown),
                bytes(sum.bytes)
            )
        }
    }
}

/// Why a run ended, in words.
pub fn end(end: &End) -> String {
    match end {
        End::Completed => "run complete".to_owned(),
        End::Stopped { signal } => format!("run stopped by {signal}"),
        End::InterfaceGone { interface } => {
            format!("run ended: interface {interface} went down or was removed")
        }
        End::PeerGone { peer } => format!("run ended: {peer} no longer answers"),
        End::Failed { message } => format!("run ended: {message}"),
    }
}

/// The place of the largest unit of `scale` in which `value` is at least 1.
fn unit_of(value: f64, significant: usize, scale: Scale) -> usize {
    let (mut value, mut unit) = (value, 0);
    // What rounds up to 1000 belongs to the next unit.
    while unit + 1 < scale.len() && exponent(value, significant) >= 3 {
        value /= 1000.0;
        unit += 1;
    }
    unit
}

/// `value` in the largest unit of `scale` in which it is at least 1.
fn scaled(value: f64, significant: usize, scale: Scale) -> String {
    let unit = unit_of(value, significant, scale);
    let value = value / 1000_f64.powi(i32::try_from(unit).unwrap_or(0));
    let whole = unit == 0 && value.fract() == 0.0;
    format!("{} {}", digits(value, if whole { 1 } else { significant }), scale[unit])
}

/// `value` with `significant` digits, but all of its integer digits, grouped by thousands.
fn digits(value: f64, significant: usize) -> String {
    let last = significant as i32 - 1 - exponent(value, significant);
    let plain = format!("{:.*}", last.clamp(0, DECIMALS) as usize, value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut out = if value < 0.0 { "-".to_owned() } else { String::new() };
    match whole.parse() {
        Ok(whole) => out.push_str(&count(whole)),
        Err(_) => out.push_str(whole),
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// The most digits behind the point.
const DECIMALS: i32 = 9;

/// The decimal exponent of `value` rounded to `significant` digits; 0 for zero and for what is not a number.
fn exponent(value: f64, significant: usize) -> i32 {
    let scientific = format!("{:.*e}", significant.max(1) - 1, value);
    scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit_that_fits() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (20.0, "20 ns"),
            (20.25, "20.2 ns"),
            (0.5, "0.500 ns"),
            (999.0, "999 ns"),
            (999.7, "1.00 µs"),
            (1234.0, "1.23 µs"),
            (12_345.0, "12.3 µs"),
            (999_499.0, "999 µs"),
            (999_500.0, "1.00 ms"),
            (-1_500_000.0, "-1.50 ms"),
            (10e9, "10.0 s"),
            (137_438e9, "137,438 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn rates_are_scaled() {
        assert_eq!(frame_rate(4_484_000.0), "4.48 Mpps");
        assert_eq!(frame_rate(1.0), "1 pps");
        assert_eq!(frame_rate(12.5), "12.5 pps");
        assert_eq!(fine_frame_rate(100_002.3), "100.002 kpps");
        assert_eq!(fine_frame_rate(999_999.99), "1.00000 Mpps");
        assert_eq!(fine_frame_rate_beside(999.738, 1_000.0), "0.999738 kpps");
        assert_eq!(fine_frame_rate_beside(1_000.5, 999.0), "1,000.50 pps");
        assert_eq!(fine_frame_rate_beside(2.5, 1e6), "2.50000 pps");
        assert_eq!(bit_rate(51_200_000.0), "51.2 Mbit/s");
        assert_eq!((bytes(64), bytes(2_880_000_000)), ("64 B".to_owned(), "2.88 GB".to_owned()));
        assert_eq!(short_time(1234.0), "1.23µs");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "frame"), "1 frame");
        assert_eq!(counted(2_000, "frame"), "2,000 frames");
    }

    #[test]
    fn a_share_is_never_rounded_to_none_or_all() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(1e-9), "< 0.0001 %");
        assert_eq!(percent(2e-6), "0.00020 %");
        assert_eq!(percent(0.012_34), "1.23 %");
        assert_eq!(percent(0.5), "50.0 %");
        assert_eq!(percent(0.999_999), "> 99.9 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn deviations_have_a_sign() {
        assert_eq!(deviation(0.0), "0 ppm");
        assert_eq!(deviation(0.213), "+0.21 ppm");
        assert_eq!(deviation(-12.0), "-12 ppm");
        assert_eq!(deviation(-123.4), "-123 ppm");
        assert_eq!(deviation(-88_000.0), "-8.8 %");
        assert_eq!(deviation(1_000.0), "+0.10 %");
    }

    #[test]
    fn every_float_can_be_written() {
        for value in [f64::MAX, f64::MIN, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY] {
            assert!(!time(value).is_empty() && !percent(value).is_empty());
            assert!(!deviation(value).is_empty() && !number(value).is_empty());
        }
    }
}
