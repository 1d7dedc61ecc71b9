//! What has to come of a group of sessions: `established >= 1000`, `response.p99 < 5ms`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Comparison, Fault, Nanos, fault};

use crate::text::hint::with_hint;
use crate::text::printable;

/// Counters that can be held against a number, by the names of reports.
pub const COUNTERS: [&str; 20] = [
    "due",
    "expired",
    "opened",
    "established",
    "in-order",
    "refused",
    "timed-out",
    "reset",
    "unreachable",
    "closed-early",
    "malformed",
    "abandoned",
    "failed-here",
    "unfinished",
    "failed",
    "requests",
    "responses",
    "unexpected",
    "damaged",
    "retransmitted-segments",
];
/// Durations that can be held against a time.
pub const TIMES: [&str; 6] = ["connect", "first-byte", "response", "session", "lateness", "rtt"];
/// What can be asked of a duration.
pub const STATISTICS: [&str; 8] = ["min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

/// A number that is measured, and what it has to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Expectation {
    /// What is measured.
    pub measured: Measured,
    /// How it is compared.
    pub comparison: Comparison,
    /// With what: a count, or nanoseconds.
    pub value: u64,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    /// A counter, one of [`COUNTERS`].
    Counter(String),
    /// A duration and a statistic of it.
    Time {
        /// One of [`TIMES`], or a timer that the program names.
        of: String,
        /// One of [`STATISTICS`].
        statistic: String,
        /// Whether from the actual beginning instead of the planned one.
        actual: bool,
    },
}

impl Expectation {
    /// What is invalid where the program has these timers.
    pub(crate) fn check(&self, timers: &[String]) -> Result<(), Fault> {
        match &self.measured {
            Measured::Time { of, .. } if !TIMES.contains(&&**of) && !timers.contains(of) => {
                let known = TIMES.into_iter().chain(timers.iter().map(String::as_str));
                Err(with_hint("nothing measures", of, known))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Expectation {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            fault!(
                "'{}' is not an expectation", printable(text, 64);
                "write for example 'established >= 1000' or 'response.p99 < 5ms'"
            )
        };
        let sign = |c: char| "=!<>".contains(c);
        let begin = text.find(sign).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(begin);
        let end = rest.find(|c: char| !sign(c)).ok_or_else(wrong)?;
        let (comparison, value) = rest.split_at(end);
        let comparison = Comparison::of(comparison).ok_or_else(wrong)?;
        let (name, value) = (name.trim(), value.trim());
        let Some((of, statistic)) = name.split_once('.') else {
            if !COUNTERS.contains(&name) {
                if TIMES.contains(&name) {
                    return Err(fault!(
                        "'{name}' is a duration"; "say which of them, for example {name}.p99"
                    ));
                }
                return Err(with_hint("nothing counts", name, COUNTERS));
            }
            let value = value.parse().map_err(
                |_| fault!("'{}' is not a count", printable(value, 64); "write a whole number"),
            )?;
            return Ok(Expectation {
                measured: Measured::Counter(name.to_owned()),
                comparison,
                value,
            });
        };
        let (statistic, actual) = match statistic.strip_suffix(".actual") {
            Some(statistic) => (statistic, true),
            None => (statistic, false),
        };
        if !STATISTICS.contains(&statistic) {
            return Err(with_hint("there is no statistic", statistic, STATISTICS));
        }
        let value: Nanos =
            value.parse().map_err(|error: wirebeat_units::UnitError| error.fault())?;
        let measured =
            Measured::Time { of: of.to_owned(), statistic: statistic.to_owned(), actual };
        Ok(Expectation { measured, comparison, value: value.get() })
    }
}

impl TryFrom<String> for Expectation {
    type Error = Fault;

    fn try_from(text: String) -> Result<Self, Fault> {
        text.parse()
    }
}

impl From<Expectation> for String {
    fn from(expectation: Expectation) -> String {
        expectation.to_string()
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.comparison {
            Comparison::Equal => "==",
            Comparison::Unequal => "!=",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::Greater => ">",
            Comparison::AtLeast => ">=",
        };
        match &self.measured {
            Measured::Counter(name) => write!(f, "{name} {sign} {}", self.value),
            Measured::Time { of, statistic, actual } => {
                let actual = if *actual { ".actual" } else { "" };
                write!(f, "{of}.{statistic}{actual} {sign} {}", Nanos::new(self.value))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_printed_again() {
        for text in ["established >= 1000", "response.p99 < 5ms", "session.max.actual <= 1s"] {
            assert_eq!(text.parse::<Expectation>().unwrap().to_string(), text);
        }
        let loose: Expectation = "failed=0".parse().unwrap();
        assert_eq!(loose.to_string(), "failed == 0");
    }

    #[test]
    fn mistakes_are_named_with_a_remedy() {
        for (text, says) in [
            ("established", "is not an expectation"),
            ("establised > 3", "did you mean 'established'"),
            ("response < 5ms", "response.p99"),
            ("response.p98 < 5ms", "there is no statistic 'p98'"),
            ("response.p99 < 5", "unit"),
            ("opened > many", "is not a count"),
            ("opened => 3", "is not an expectation"),
        ] {
            let said = text.parse::<Expectation>().unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
