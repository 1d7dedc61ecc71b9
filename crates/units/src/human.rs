//! Numbers as people read them: scaled to a unit that fits, with as many digits as mean something.
//!
//! For reports, messages and lines of progress. What is printed here is rounded and cannot be read back; the exact
//! forms are the types' own `Display`. Values are floating point because most of them are means.

/// Multiples of a unit, each 1000 times the one before.
type Scale = &'static [&'static str];

const TIME: Scale = &["ns", "µs", "ms", "s"];
const BYTES: Scale = &["B", "kB", "MB", "GB", "TB"];
const FRAME_RATE: Scale = &["pps", "kpps", "Mpps", "Gpps"];
const BIT_RATE: Scale = &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
/// Significant digits of a value.
const DIGITS: usize = 3;
/// Significant digits of a rate that is to be compared with another.
const FINE: usize = 6;

/// A time in nanoseconds: "20 ns", "-1.23 µs", "137,438 s".
pub fn time(ns: f64) -> String {
    scaled(ns, DIGITS, TIME)
}

/// A time in nanoseconds, without the space: "20ns", "1.23µs".
pub fn short_time(ns: f64) -> String {
    time(ns).replace(' ', "")
}

/// "365 d 6 h", "2 h 59 min", "1 min 5 s": a time that somebody waits, by its two largest units. Below a minute it is
/// [`time`].
pub fn long_time(ns: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let units =
        [("d", 86_400 * SECOND), ("h", 3_600 * SECOND), ("min", 60 * SECOND), ("s", SECOND)];
    let largest = units.iter().zip(units.iter().skip(1)).find(|((_, unit), _)| ns >= *unit);
    let Some(((name, unit), (next, part))) = largest else { return time(ns as f64) };
    match ns % unit / part {
        0 => format!("{} {name}", ns / unit),
        rest => format!("{} {name} {rest} {next}", ns / unit),
    }
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
    let of = if frames_per_second.abs() * 100.0 < other.abs() { frames_per_second } else { other };
    in_unit(frames_per_second, FINE, FRAME_RATE, unit_of(of, FINE, FRAME_RATE))
}

/// Bits per second: "51.2 Mbit/s".
pub fn bit_rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, DIGITS, BIT_RATE)
}

/// An amount of data: "64 B", "2.88 GB".
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, DIGITS, BYTES)
}

/// A plain number: "1.50", "12.3", "1,234".
pub fn number(value: f64) -> String {
    digits(value, DIGITS)
}

/// A count: "1,000,000".
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A count of things: "1 frame", "1,000 frames".
pub fn counted(value: u64, thing: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(value))
}

/// The names that there are, for a hint: "there is a", "there are a, b, c".
pub fn present<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => "there is none".to_owned(),
        [one] => format!("there is {one}"),
        several => format!("there are {}", several.join(", ")),
    }
}

/// A part of a whole as [`percent`]; of nothing it is none.
pub fn share(part: u64, whole: u64) -> String {
    percent(part.min(whole) as f64 / whole.max(1) as f64)
}

/// A ratio in percent: "0.012 %", "50.0 %". Only 0 is "0 %" and only 1 is "100 %": one frame lost of a billion does not
/// look like none.
pub fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.000_1 => "< 0.0001 %".to_owned(),
        percent if (99.95..100.0).contains(&percent) => "> 99.9 %".to_owned(),
        percent => format!("{} %", digits(percent, if percent < 0.1 { 2 } else { DIGITS })),
    }
}

/// A deviation in millionths, with its sign; in percent where it is large: "+0.21 ppm", "-8.8 %".
pub fn deviation(ppm: f64) -> String {
    let sign = if ppm < 0.0 { "-" } else { "+" };
    match ppm.abs() {
        none if none < 0.001 => "0 ppm".to_owned(),
        small if small < 1_000.0 => format!("{sign}{} ppm", digits(small, 2)),
        large => format!("{sign}{} %", digits(large / 10_000.0, 2)),
    }
}

/// `value` in the largest unit of `scale` in which it is at least 1.
fn scaled(value: f64, significant: usize, scale: Scale) -> String {
    in_unit(value, significant, scale, unit_of(value, significant, scale))
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

/// `value` in a unit of a scale; a whole number of the smallest has no decimals. "n/a" for NaN and infinity.
fn in_unit(value: f64, significant: usize, scale: Scale, unit: usize) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    let value = value / 1000_f64.powi(unit as i32);
    let whole = unit == 0 && value.fract() == 0.0;
    format!("{} {}", digits(value, if whole { 1 } else { significant }), scale[unit])
}

/// `value` with `significant` digits, but all of its integer digits, grouped by thousands.
fn digits(value: f64, significant: usize) -> String {
    /// The most digits behind the point.
    const DECIMALS: i32 = 9;
    let last = significant as i32 - 1 - exponent(value, significant);
    let sign = if value < 0.0 { "-" } else { "" };
    let plain = format!("{:.*}", last.clamp(0, DECIMALS) as usize, value.abs());
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    format!("{sign}{}{fraction}", grouped(whole))
}

/// Digits with a comma between each three.
fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The decimal exponent of `value` rounded to `significant` digits; 0 for zero, NaN and infinity.
fn exponent(value: f64, significant: usize) -> i32 {
    let scientific = format!("{:.*e}", significant.max(1) - 1, value);
    scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_there_are_agree_with_their_number() {
        assert_eq!(present::<&str>(&[]), "there is none");
        assert_eq!(present(&["a"]), "there is a");
        assert_eq!(present(&["a", "b", "c"]), "there are a, b, c");
    }

    #[test]
    fn times_have_three_digits_and_a_unit_that_fits() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (20.0, "20 ns"),
            (20.25, "20.2 ns"),
            (0.4, "0.400 ns"),
            (-0.0, "0 ns"),
            (999.0, "999 ns"),
            (999.7, "1.00 µs"),
            (1234.0, "1.23 µs"),
            (12_345.0, "12.3 µs"),
            (999_499.0, "999 µs"),
            (999_500.0, "1.00 ms"),
            (-1_500_000.0, "-1.50 ms"),
            (999_600.0, "1.00 ms"),
            (10e9, "10.0 s"),
            (86_400e9, "86,400 s"),
            (f64::NAN, "n/a"),
            (f64::INFINITY, "n/a"),
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
        assert_eq!(
            (bytes(64.0), bytes(2_880_000_000.0)),
            ("64 B".to_owned(), "2.88 GB".to_owned())
        );
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
    fn a_share_is_a_ratio() {
        for (part, whole, text) in [
            (0, 5, "0 %"),
            (0, 0, "0 %"),
            (5, 5, "100 %"),
            (1, 2, "50.0 %"),
            (1, 8_000, "0.013 %"),
            (1, 1_000_000_000, "< 0.0001 %"),
            (999_999_999, 1_000_000_000, "> 99.9 %"),
        ] {
            assert_eq!(share(part, whole), text);
        }
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
