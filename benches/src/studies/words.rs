//! Sentences out of figures: names in a row, means with their intervals, and who is better than whom. Pure.

use wirebeat_report::student::mean_within;

use crate::format::NOTHING;
use crate::stats::Series;

/// "a, b and c"; "nobody" of none.
pub fn row<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [] => "nobody".to_owned(),
        [one] => one.as_ref().to_owned(),
        [before @ .., last] => {
            let before: Vec<&str> = before.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", before.join(", "), last.as_ref())
        }
    }
}

/// Mean and 95 % interval: "95.7 ± 0.3 Mbit/s" by a way to show a value.
pub fn interval(values: &[f64], show: impl Fn(f64) -> String) -> String {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    match mean_within(&finite) {
        None => NOTHING.to_owned(),
        Some((mean, None)) => show(mean),
        Some((mean, Some(within))) => format!("{} ± {}", show(mean), show(within)),
    }
}

/// The mean of what is a number.
pub fn mean(values: &[f64]) -> Option<f64> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    mean_within(&finite).map(|(mean, _)| mean)
}

/// The median of what is a number.
pub fn median(values: &[f64]) -> Option<f64> {
    Series::new(values.iter().copied().filter(|value| value.is_finite()).collect()).median()
}

/// How one thing stands to another, by the differences of paired rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The interval of the differences is all on the good side.
    Better,
    /// The interval holds 0.
    Level,
    /// It is all on the bad side.
    Worse,
    /// There are fewer than two pairs.
    Unknown,
}

impl Standing {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Better => "better",
            Standing::Level => "no difference shown",
            Standing::Worse => "worse",
            Standing::Unknown => "unknown",
        }
    }
}

/// How `own` stands to `other`, in pairs of the same rounds.
pub fn standing(own: &[f64], other: &[f64], more_is_better: bool) -> Standing {
    if own.len() != other.len() {
        return Standing::Unknown;
    }
    let sign = if more_is_better { 1.0 } else { -1.0 };
    let differences: Vec<f64> =
        own.iter().zip(other).map(|(own, other)| (own - other) * sign).collect();
    match mean_within(&differences) {
        Some((mean, Some(within))) if mean.is_finite() => match () {
            () if mean - within > 0.0 => Standing::Better,
            () if mean + within < 0.0 => Standing::Worse,
            () => Standing::Level,
        },
        _ => Standing::Unknown,
    }
}

/// Bits per second: "95.7 Mbit/s".
pub fn bits(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.2} Gbit/s", value / 1e9),
        v if v >= 1e6 || v == 0.0 => format!("{:.2} Mbit/s", value / 1e6),
        v if v >= 1e3 => format!("{:.1} kbit/s", value / 1e3),
        _ => format!("{value:.0} bit/s"),
    }
}

/// CPU seconds per second as percent of one CPU: "97.3 %".
pub fn cpu(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Bytes: "1.23 MB", "63.3 kB".
pub fn size(bytes: f64) -> String {
    match bytes {
        b if b >= 999_950.0 => format!("{:.2} MB", b / 1e6),
        b => format!("{:.1} kB", b / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_a_row() {
        assert_eq!(row(&["a", "b", "c"]), "a, b and c");
        assert_eq!((row(&["a"]), row::<&str>(&[])), ("a".to_owned(), "nobody".to_owned()));
    }

    #[test]
    fn a_mean_stands_with_its_interval() {
        assert_eq!(interval(&[1e6, 2e6, 3e6], bits), "2.00 Mbit/s ± 2.48 Mbit/s");
        assert_eq!(interval(&[5.0, f64::NAN], bits), "5 bit/s");
        assert_eq!(interval(&[], bits), NOTHING);
    }

    #[test]
    fn rounds_are_compared_in_pairs() {
        assert_eq!(standing(&[11.0, 21.0, 31.1], &[10.0, 20.0, 30.0], true), Standing::Better);
        assert_eq!(standing(&[11.0, 21.0, 31.1], &[10.0, 20.0, 30.0], false), Standing::Worse);
        assert_eq!(standing(&[11.0, 19.0, 30.0], &[10.0, 20.0, 30.0], true), Standing::Level);
        assert_eq!(standing(&[1.0], &[2.0], true), Standing::Unknown);
        assert_eq!(standing(&[1.0, 2.0], &[2.0], true), Standing::Unknown);
    }
}
