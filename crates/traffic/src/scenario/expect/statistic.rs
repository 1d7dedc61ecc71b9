//! What can be asked of many values: the least, the mean, a percentile.

use std::fmt;
use std::str::FromStr;

use wirebeat_units::{Fault, fault};

use crate::text::hint::with_hint;
use crate::text::printable;

/// A number that many values come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The smallest.
    Min,
    /// The mean.
    Mean,
    /// The sample standard deviation.
    StandardDeviation,
    /// The largest.
    Max,
    /// A percentile: above 0, below 100.
    Percentile(f64),
}

impl Statistic {
    /// How the usual ones are written.
    pub const NAMES: [&'static str; 10] =
        ["min", "mean", "stddev", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"];

    /// How many values it needs to say anything: of a percentile ten on its far side, else one (a standard deviation: two).
    pub fn samples_needed(self) -> u64 {
        match self {
            Statistic::Min | Statistic::Mean | Statistic::Max => 1,
            Statistic::StandardDeviation => 2,
            Statistic::Percentile(percent) => {
                let share = (100.0 - percent).min(percent) / 100.0;
                // 99.9 is not exact in binary: without this p99.9 would need one more than 10,000
                (10.0 / share * (1.0 - 1e-9)).ceil() as u64
            }
        }
    }
}

impl FromStr for Statistic {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let percent = |text: &str| {
            let number = text.strip_prefix('p')?;
            let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let percent: f64 = number.parse().ok().filter(|_| plain)?;
            (percent > 0.0 && percent < 100.0).then_some(percent)
        };
        Ok(match text {
            "min" => Statistic::Min,
            "mean" => Statistic::Mean,
            "stddev" => Statistic::StandardDeviation,
            "max" => Statistic::Max,
            other => match percent(other) {
                Some(percent) => Statistic::Percentile(percent),
                None => return Err(unknown(other)),
            },
        })
    }
}

/// That there is no such statistic, and which one is meant.
fn unknown(text: &str) -> Fault {
    match meant(text) {
        Some(meant) => fault!(
            "there is no statistic '{}'", printable(text, 64); "did you mean '{meant}'?"
        ),
        None => with_hint("there is no statistic", text, Statistic::NAMES),
    }
}

/// What other tools write so: `p999` of HDR histograms, `p100` of gnuplot, `avg`.
fn meant(text: &str) -> Option<String> {
    match text {
        "avg" | "average" => return Some("mean".to_owned()),
        "median" => return Some("p50".to_owned()),
        "std" | "sd" | "sdev" | "stdev" => return Some("stddev".to_owned()),
        _ => {}
    }
    let digits = text.strip_prefix('p').filter(|digits| !digits.is_empty())?;
    if digits.bytes().all(|digit| digit == b'0') {
        return Some("min".to_owned());
    }
    if digits == "100" {
        return Some("max".to_owned());
    }
    let (whole, rest) = digits.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    (plain && whole.starts_with('9')).then(|| format!("p{whole}.{rest}"))
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statistic::Min => f.write_str("min"),
            Statistic::Mean => f.write_str("mean"),
            Statistic::StandardDeviation => f.write_str("stddev"),
            Statistic::Max => f.write_str("max"),
            Statistic::Percentile(percent) => write!(f, "p{percent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_values_beyond_it() {
        for (text, needed) in [
            ("p50", 20),
            ("p90", 100),
            ("p99", 1000),
            ("p99.9", 10_000),
            ("p99.99", 100_000),
            ("p1", 1000),
            ("max", 1),
            ("stddev", 2),
        ] {
            let statistic: Statistic = text.parse().unwrap();
            assert_eq!(statistic.samples_needed(), needed, "{text}");
            assert_eq!(statistic.to_string(), text);
        }
    }

    #[test]
    fn the_statistic_that_is_meant_is_named() {
        for (text, meant) in [
            ("p999", "'p99.9'"),
            ("p9999", "'p99.99'"),
            ("p995", "'p99.5'"),
            ("p100", "'max'"),
            ("p0", "'min'"),
            ("avg", "'mean'"),
            ("median", "'p50'"),
        ] {
            let said = text.parse::<Statistic>().unwrap_err().to_string();
            assert!(said.contains(&format!("did you mean {meant}?")), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_no_percentile_is_refused() {
        for text in ["p0", "p100", "pinf", "p1e1", "p", "p.", "median", ""] {
            assert!(text.parse::<Statistic>().is_err(), "{text}");
        }
    }
}
