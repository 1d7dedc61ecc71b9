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

/// The least pairs that can show a difference: of five, all are on one side by chance in 6 % of all cases.
pub const LEAST_PAIRS: usize = 6;

/// The same for readers.
pub const BY_PAIRS: &str = "Round i of ours is compared with round i of the other tool: better and worse mean that the whole 95 % bootstrap interval \
    of the median of these differences (10,000 resamples) is on one side. It takes six rounds, and none that failed; with fewer it is unknown. The best of \
    the other tools is the one with the best median.";

/// How one thing stands to another, by the bootstrap interval of the differences of paired rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The interval of the differences is all on the good side.
    Better,
    /// The interval holds 0.
    Level,
    /// It is all on the bad side.
    Worse,
    /// There are fewer than [`LEAST_PAIRS`].
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
    if own.len() != other.len() || own.len() < LEAST_PAIRS {
        return Standing::Unknown;
    }
    let sign = if more_is_better { 1.0 } else { -1.0 };
    let differences: Vec<f64> =
        own.iter().zip(other).map(|(own, other)| (own - other) * sign).collect();
    if !differences.iter().all(|difference| difference.is_finite()) {
        return Standing::Unknown;
    }
    match Series::new(differences).median_interval() {
        Some((low, _)) if low > 0.0 => Standing::Better,
        Some((_, high)) if high < 0.0 => Standing::Worse,
        Some(_) => Standing::Level,
        None => Standing::Unknown,
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

    /// What changes from round to round on the machine meets both: their ranges overlap, and their differences do not.
    #[test]
    fn rounds_are_compared_in_pairs() {
        let other = [10.0, 20.0, 30.0, 15.0, 25.0, 12.0];
        let by = |differences: [f64; 6], more| {
            let own: Vec<f64> =
                other.iter().zip(differences).map(|(value, by)| value + by).collect();
            standing(&own, &other, more)
        };
        let above = [1.0, 1.0, 1.1, 0.9, 1.2, 0.8];
        assert_eq!(by(above, true), Standing::Better);
        assert_eq!(by(above, false), Standing::Worse);
        assert_eq!(by([1.0, -1.0, 0.5, -0.5, 0.2, -0.3], true), Standing::Level);
        assert_eq!(by([0.0; 6], true), Standing::Level);
        // the same values in another order have lost their pairs
        let mut own: Vec<f64> = other.iter().map(|value| value + 1.0).collect();
        own.reverse();
        assert_eq!(standing(&own, &other, true), Standing::Level);
    }

    /// Student's t finds no difference where one round was disturbed by something else; the median of the pairs does.
    #[test]
    fn one_disturbed_round_does_not_hide_what_the_others_show() {
        let other = [100.0; 10];
        let mut own = [101.0; 10];
        own[3] = 500.0;
        assert_eq!(standing(&own, &other, true), Standing::Better);
        own[3] = 1.0;
        assert_eq!(standing(&own, &other, true), Standing::Better);
    }

    #[test]
    fn too_few_pairs_and_what_is_no_number_say_nothing() {
        assert_eq!(standing(&[2.0; 5], &[1.0; 5], true), Standing::Unknown);
        assert_eq!(standing(&[2.0; 6], &[1.0; 6], true), Standing::Better);
        assert_eq!(standing(&[2.0; 6], &[1.0; 7], true), Standing::Unknown);
        assert_eq!(standing(&[], &[], true), Standing::Unknown);
        let mut own = [2.0; 6];
        own[0] = f64::NAN;
        assert_eq!(standing(&own, &[1.0; 6], true), Standing::Unknown);
    }

    /// Rounds of one kind are seldom told apart: of 400 comparisons of ten rounds without a difference, 5 % would be 20.
    #[test]
    fn chance_is_seldom_taken_for_a_difference() {
        let mut state = 4737_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64
        };
        let mut found = 0;
        for _ in 0..400 {
            let mut rounds = || (0..10).map(|_| draw()).collect::<Vec<f64>>();
            let (own, other) = (rounds(), rounds());
            found += u32::from(standing(&own, &other, true) != Standing::Level);
        }
        assert!(found < 40, "{found}");
    }
}
