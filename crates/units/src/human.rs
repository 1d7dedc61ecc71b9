//! Measured values as a person reads them: three significant digits, a space and a unit.
//!
//! For reports and progress lines. What is printed here is rounded and cannot be read back; the exact
//! forms are the types' own `Display`. Values are floating point because most of them are means.

use crate::{BitRate, Bytes, FrameRate, Nanos};

/// A time given in nanoseconds: `"1.23 µs"`, `"-40.0 ns"`.
pub fn time(ns: f64) -> String {
    scaled(ns, "ns", &[("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// `365 d 6 h`, `2 h 59 min`, `1 min 5 s`: a time that somebody waits, by its two largest units. Below a minute it is
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

/// A frame rate: `"4.36 Mpps"`.
pub fn frame_rate(frames_per_second: f64) -> String {
    scaled(frames_per_second, "pps", &[("kpps", 1e3), ("Mpps", 1e6), ("Gpps", 1e9)])
}

/// A bit rate: `"2.05 Gbit/s"`.
pub fn bit_rate(bits_per_second: f64) -> String {
    let larger = &[("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12)];
    scaled(bits_per_second, "bit/s", larger)
}

/// An amount of data: `"1.50 GB"`.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, "B", &[("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)])
}

/// A count: "1,000,000".
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut out = String::with_capacity(plain.len() * 4 / 3);
    for (place, digit) in plain.char_indices() {
        if place > 0 && (plain.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count of things: "1 frame", "1,000 frames".
pub fn counted(value: u64, thing: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(value))
}

/// A share of a whole: `"0.0125 %"`. Only nothing at all is `"0 %"`, and only everything is `"100 %"`:
/// one frame lost of a billion must not look like none.
pub fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => "0 %".to_owned(),
        (part, whole) if part >= whole => "100 %".to_owned(),
        (part, whole) => {
            let percent = part as f64 / whole as f64 * 100.0;
            // Three significant digits of whichever side is the smaller.
            let small = percent.min((whole - part) as f64 / whole as f64 * 100.0);
            let decimals = (2.0 - small.log10().floor()).clamp(1.0, 18.0) as usize;
            format!("{percent:.decimals$} %")
        }
    }
}

/// `value`, which counts `unit`s, in the largest unit that is not larger than it, with three
/// significant digits; a whole number of the smallest has no decimals.
fn scaled(value: f64, unit: &str, larger: &[(&str, f64)]) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    let value = value + 0.0; // no negative zero
    // From 999.5 on, three digits round to the next unit's first.
    let reached = larger.iter().rev().find(|(_, size)| value.abs() >= size * 0.9995);
    let (unit, scaled) = match reached {
        Some((unit, size)) => (*unit, value / size),
        None if value.fract() == 0.0 => return format!("{value:.0} {unit}"),
        None => (unit, value),
    };
    let decimals = match scaled.abs() {
        large if large >= 99.95 => 0,
        middle if middle >= 9.995 => 1,
        small if small < 0.0995 && small > 0.0 => (2.0 - small.log10().floor()).min(18.0) as usize,
        _ => 2,
    };
    format!("{scaled:.decimals$} {unit}")
}

impl Nanos {
    /// Rounded, for a person: `"1.23 µs"`.
    pub fn human(self) -> String {
        time(self.get() as f64)
    }
}

impl FrameRate {
    /// Rounded, for a person: `"4.36 Mpps"`.
    pub fn human(&self) -> String {
        frame_rate(self.per_second())
    }
}

impl BitRate {
    /// Rounded, for a person: `"2.05 Gbit/s"`.
    pub fn human(self) -> String {
        bit_rate(self.0 as f64)
    }
}

impl Bytes {
    /// Rounded, for a person: `"1.50 GB"`.
    pub fn human(self) -> String {
        bytes(self.get() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (-0.0, "0 ns"),
            (0.4, "0.40 ns"),
            (20.0, "20 ns"),
            (20.25, "20.2 ns"),
            (1_234.0, "1.23 µs"),
            (12_340.0, "12.3 µs"),
            (123_400.0, "123 µs"),
            (-40_040.0, "-40.0 µs"),
            (10e9, "10.0 s"),
            (86_400e9, "86400 s"),
            (f64::NAN, "n/a"),
            (f64::INFINITY, "n/a"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(frame_rate(4_361_000.0), "4.36 Mpps");
        assert_eq!(bit_rate(2_050_000_000.0), "2.05 Gbit/s");
        assert_eq!(bytes(1_500_000_000.0), "1.50 GB");
    }

    #[test]
    fn rounding_moves_on_to_the_next_unit() {
        assert_eq!(time(999.4), "999 ns");
        assert_eq!(time(999.5), "1.00 µs");
        assert_eq!(time(9_994.0), "9.99 µs");
        assert_eq!(time(9_996.0), "10.0 µs");
        assert_eq!(time(99_960.0), "100 µs");
        assert_eq!(time(999_600.0), "1.00 ms");
    }

    #[test]
    fn the_types_print_themselves() {
        assert_eq!(Nanos::new(1_500).human(), "1.50 µs");
        assert_eq!("1.5Mpps".parse::<FrameRate>().map(|rate| rate.human()), Ok("1.50 Mpps".into()));
        assert_eq!(BitRate(800_000).human(), "800 kbit/s");
        assert_eq!(Bytes::new(64).human(), "64 B");
    }

    #[test]
    fn a_share_is_nothing_or_everything_only_when_it_is() {
        for (part, whole, text) in [
            (0, 5, "0 %"),
            (0, 0, "0 %"),
            (5, 5, "100 %"),
            (1, 2, "50.0 %"),
            (1, 8_000, "0.0125 %"),
            (1, 1_000_000_000, "0.000000100 %"),
            (999_999_999, 1_000_000_000, "99.999999900 %"),
            (1, u64::MAX, "0.000000000000000005 %"),
        ] {
            assert_eq!(share(part, whole), text);
        }
    }
}
