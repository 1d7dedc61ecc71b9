//! Numbers as the tables show them: three digits and the unit. Pure.

use crate::stats::{Ratio, Series};

/// What stands where there is no number.
pub const NOTHING: &str = "–";

/// Three significant digits: "4.41", "613", "0.0123".
fn digits(value: f64) -> String {
    let magnitude = value.abs();
    let places = if magnitude >= 99.95 || magnitude == 0.0 {
        0
    } else if magnitude >= 9.995 {
        1
    } else if magnitude >= 0.9995 {
        2
    } else {
        3
    };
    format!("{value:.places$}")
}

/// Frames per second: "4.41 M", "613 k", "950".
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 999_500.0 => format!("{} M", digits(r / 1e6)),
        r if r >= 999.5 => format!("{} k", digits(r / 1e3)),
        r => digits(r),
    }
}

/// A time given in nanoseconds: "20 ns", "1.40 µs", "2.51 ms".
pub fn time(ns: f64) -> String {
    match ns {
        t if t >= 999_500.0 => format!("{} ms", digits(t / 1e6)),
        t if t >= 999.5 => format!("{} µs", digits(t / 1e3)),
        t => format!("{t:.0} ns"),
    }
}

/// A share in percent with its sign: "+0.0003 %", "-41.2 %".
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() >= 0.1 { format!("{percent:+.1} %") } else { format!("{percent:+.4} %") }
}

/// A share without a sign: "0.0409 %", "39.3 %".
pub fn share(share: f64) -> String {
    percent(share).trim_start_matches('+').to_owned()
}

/// A plain number of three digits.
pub fn number(value: f64) -> String {
    digits(value)
}

/// The median by `show`, and in brackets the range where there is one.
pub fn series(series: &Series, show: fn(f64) -> String) -> String {
    let Some(median) = series.median() else { return NOTHING.to_owned() };
    match series.range() {
        Some((min, max)) if series.len() > 1 => {
            format!("{} ({} to {})", show(median), show(min), show(max))
        }
        _ => show(median),
    }
}

/// "9.12 ×", and in brackets the range of the rounds.
pub fn ratio(ratio: &Ratio) -> String {
    let times = |value: f64| format!("{value:.2}");
    match ratio.rounds.range() {
        Some((min, max)) if ratio.rounds.len() > 1 => {
            format!("{} × ({} to {})", times(ratio.median), times(min), times(max))
        }
        _ => format!("{} ×", times(ratio.median)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits_and_their_unit() {
        assert_eq!(rate(4_412_345.0), "4.41 M");
        assert_eq!(rate(612_900.0), "613 k");
        assert_eq!(rate(999_600.0), "1.00 M");
        assert_eq!(rate(1000.2), "1.00 k");
        assert_eq!(rate(0.0), "0");
    }

    #[test]
    fn times_change_their_unit_before_they_get_long() {
        assert_eq!(time(20.0), "20 ns");
        assert_eq!(time(999.6), "1.00 µs");
        assert_eq!(time(18_250.0), "18.2 µs");
        assert_eq!(time(2_513_000.0), "2.51 ms");
    }

    #[test]
    fn small_errors_of_rates_keep_their_digits() {
        assert_eq!(percent(0.000_001_23), "+0.0001 %");
        assert_eq!(percent(-0.43), "-43.0 %");
        assert_eq!(share(0.393), "39.3 %");
    }

    #[test]
    fn the_spread_stands_beside_the_median() {
        let three = Series::new(vec![1e6, 3e6, 2e6]);
        assert_eq!(series(&three, rate), "2.00 M (1.00 M to 3.00 M)");
        assert_eq!(series(&Series::new(vec![1e6]), rate), "1.00 M");
        assert_eq!(series(&Series::default(), rate), NOTHING);
        let twice = three.over(&Series::new(vec![1e6, 1e6, 1e6])).unwrap();
        assert_eq!(ratio(&twice), "2.00 × (1.00 to 3.00)");
    }
}
