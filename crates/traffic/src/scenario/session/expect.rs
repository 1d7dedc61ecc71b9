//! What has to come of a group of sessions: `established >= 1000`, `response.p99 < 5ms`, `status.5xx == 0`, `rate.goodput >= 1Gbps`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{BitRate, Comparison, Fault, Nanos, Rate, fault};

use super::program::dns::Rcode;
use crate::scenario::expect::{INTERVAL, Parts, Statistic, count};
use crate::text::hint::with_hint;
use crate::text::printable;

/// Counters that can be held against a number, by the names of reports.
pub const COUNTERS: [&str; 26] = [
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
    "lost-responses",
    "late-responses",
    "malformed-messages",
    "sent-messages",
    "received-messages",
    "lost-messages",
    "damaged",
    "retransmitted-segments",
];
/// Durations that can be held against a time.
pub const TIMES: [&str; 9] =
    ["connect", "first-byte", "response", "delay", "session", "lateness", "rtt", "gap", "jitter"];
/// Counters that intervals have.
const INTERVAL_COUNTERS: [&str; 16] = [
    "due",
    "expired",
    "opened",
    "established",
    "in-order",
    "failed",
    "failed-here",
    "unfinished",
    "requests",
    "responses",
    "unexpected",
    "lost-responses",
    "late-responses",
    "malformed-messages",
    "damaged",
    "retransmitted-segments",
];
/// Rates that intervals have.
const INTERVAL_RATES: [&str; 5] = ["opened", "established", "requests", "responses", "goodput"];
/// Rates that can be held against a number a second.
pub const RATES: [&str; 5] = ["opened", "established", "ended", "requests", "responses"];
/// Rates that can be held against a bit rate.
pub const BIT_RATES: [&str; 2] = ["goodput", "acked"];

/// A number that is measured, and what it has to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Expectation {
    /// Whether it has to hold in each interval of the run, instead of in the whole.
    pub each_interval: bool,
    /// What is measured.
    pub measured: Measured,
    /// How it is compared.
    pub comparison: Comparison,
    /// With what: a count, nanoseconds, sessions or messages a second, or bits a second.
    pub value: u64,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// A counter, one of [`COUNTERS`].
    Counter(String),
    /// How often servers answered with a status, or with one of a hundred: 404, 5xx.
    Status(Statuses),
    /// How often servers of DNS answered with a response code: rcode.nxdomain.
    Rcode(Rcode),
    /// How many in a second, one of [`RATES`], or how many bits, one of [`BIT_RATES`].
    Rate(String),
    /// A duration and a statistic of it.
    Time {
        /// One of [`TIMES`], or a timer that the program names.
        of: String,
        /// What of its values.
        statistic: Statistic,
        /// Whether from the actual beginning instead of the planned one.
        actual: bool,
    },
}

/// Statuses of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// This one.
    One(u16),
    /// All that begin with this digit.
    Class(u16),
}

impl Statuses {
    /// Whether `status` is one of them.
    pub fn contains(self, status: u16) -> bool {
        match self {
            Statuses::One(one) => one == status,
            Statuses::Class(class) => status / 100 == class,
        }
    }
}

impl FromStr for Statuses {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let wrong = || fault!("'{}' is no status of HTTP", printable(text, 16); "write for example 404 or 5xx");
        // RFC 9110 §15: three digits, the first from 1 to 5
        if let Some(class) = text.strip_suffix("xx") {
            let class = class.parse().ok().filter(|class| (1..=5).contains(class));
            return class.map(Statuses::Class).ok_or_else(wrong);
        }
        let one = text.parse().ok().filter(|status| (100..600).contains(status));
        one.map(Statuses::One).ok_or_else(wrong)
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statuses::One(one) => write!(f, "{one}"),
            Statuses::Class(class) => write!(f, "{class}xx"),
        }
    }
}

/// Whether something of sessions is called so, or begins so.
pub(in crate::scenario) fn is_word(word: &str) -> bool {
    let fixed = ["status", "rcode"];
    COUNTERS.iter().chain(&TIMES).chain(&fixed).any(|known| *known == word)
}

/// What a rate is held against: so many a second, or bits a second.
fn rate(name: &str, value: &str) -> Result<u64, Fault> {
    if BIT_RATES.contains(&name) {
        let bits: BitRate =
            value.parse().map_err(|error: wirebeat_units::UnitError| error.fault())?;
        return Ok(bits.0);
    }
    if !RATES.contains(&name) {
        return Err(with_hint("there is no rate", name, RATES.into_iter().chain(BIT_RATES)));
    }
    match value.parse() {
        Ok(Rate::Frames(rate)) => Ok(rate.per_second().round() as u64),
        _ => Err(fault!("'{}' is no rate", printable(value, 64); "write for example 1000/s")),
    }
}

impl Expectation {
    /// What is invalid where the program has this name and these timers.
    pub(crate) fn check(&self, program: &str, timers: &[String]) -> Result<(), Fault> {
        match &self.measured {
            Measured::Rcode(_) if program != "dns" => Err(fault!(
                "only the program 'dns' has response codes"; "leave the expectation out"
            )),
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
        let parts = Parts::of(text, "'established >= 1000' or 'response.p99 < 5ms'")?;
        let measured = Measured::read(&parts)?;
        let value = measured.limit(parts.limit)?;
        if parts.each_interval && !measured.in_intervals() {
            return Err(fault!(
                "intervals do not have '{}'", printable(parts.measured, 64);
                "leave '{INTERVAL}' out; intervals have {}, and rate.{}", INTERVAL_COUNTERS.join(", "),
                INTERVAL_RATES.join(", rate.")
            ));
        }
        let Parts { each_interval, comparison, .. } = parts;
        Ok(Expectation { each_interval, measured, comparison, value })
    }
}

impl Measured {
    /// What the name says.
    fn read(parts: &Parts<'_>) -> Result<Measured, Fault> {
        let name = parts.measured;
        let Some((of, rest)) = name.split_once('.') else {
            if COUNTERS.contains(&name) {
                return Ok(Measured::Counter(name.to_owned()));
            }
            if TIMES.contains(&name) {
                return Err(fault!(
                    "'{name}' is a duration"; "say which of them, for example {name}.p99"
                ));
            }
            return Err(with_hint("nothing counts", name, COUNTERS));
        };
        match of {
            "status" => return Ok(Measured::Status(rest.parse()?)),
            "rcode" => return Ok(Measured::Rcode(rest.parse()?)),
            "rate" => return Ok(Measured::Rate(rest.to_owned())),
            _ => {}
        }
        let (statistic, actual) = match rest.strip_suffix(".actual") {
            Some(statistic) => (statistic, true),
            None => (rest, false),
        };
        Ok(Measured::Time { of: of.to_owned(), statistic: statistic.parse()?, actual })
    }

    /// What it is held against.
    fn limit(&self, text: &str) -> Result<u64, Fault> {
        match self {
            Measured::Counter(_) | Measured::Status(_) | Measured::Rcode(_) => count(text),
            Measured::Rate(name) => rate(name, text),
            Measured::Time { .. } => {
                let time: Nanos =
                    text.parse().map_err(|error: wirebeat_units::UnitError| error.fault())?;
                Ok(time.get())
            }
        }
    }

    /// Whether intervals have it.
    fn in_intervals(&self) -> bool {
        match self {
            Measured::Counter(name) => INTERVAL_COUNTERS.contains(&&**name),
            Measured::Rate(name) => INTERVAL_RATES.contains(&&**name),
            Measured::Status(_) | Measured::Rcode(_) | Measured::Time { .. } => false,
        }
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
        let sign = self.comparison;
        f.write_str(if self.each_interval { INTERVAL } else { "" })?;
        match &self.measured {
            Measured::Counter(name) => write!(f, "{name} {sign} {}", self.value),
            Measured::Rcode(code) => write!(f, "rcode.{code} {sign} {}", self.value),
            Measured::Status(statuses) => write!(f, "status.{statuses} {sign} {}", self.value),
            Measured::Rate(name) if BIT_RATES.contains(&name.as_str()) => {
                write!(f, "rate.{name} {sign} {}", BitRate(self.value))
            }
            Measured::Rate(name) => write!(f, "rate.{name} {sign} {}/s", self.value),
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
        for text in [
            "established >= 1000",
            "response.p99 < 5ms",
            "session.max.actual <= 1s",
            "response.p95 < 5ms",
            "connect.p99.95 < 5ms",
            "session.stddev < 1ms",
            "interval.rate.responses >= 900/s",
            "interval.failed == 0",
            "status.404 == 0",
            "rcode.nxdomain == 0",
            "status.5xx <= 10",
            "rate.established >= 1000/s",
            "rate.goodput > 1Gbps",
        ] {
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
            ("response.p100 < 5ms", "there is no statistic 'p100'"),
            ("response.pinf < 5ms", "there is no statistic 'pinf'"),
            ("interval.response.p99 < 5ms", "intervals do not have"),
            ("interval.status.200 > 5", "intervals do not have"),
            ("status.6xx < 5", "is no status of HTTP"),
            ("rcode.nxdomian < 5", "did you mean 'nxdomain'"),
            ("status.99 < 5", "is no status of HTTP"),
            ("rate.established < 5", "is no rate"),
            ("rate.established < 5Mbps", "is no rate"),
            ("rate.good < 5Mbps", "there is no rate 'good'"),
            ("rate.goodput < 5/s", "unit"),
            ("response.p99 < 5", "unit"),
            ("opened > many", "is not a count"),
            ("opened => 3", "is not an expectation"),
        ] {
            let said = text.parse::<Expectation>().unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
