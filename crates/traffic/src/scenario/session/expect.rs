//! What has to come of a group of sessions: `established >= 1000`, `failed <= 1%`, `response.p99 < 5ms`, `status.5xx == 0`,
//! `rate.goodput >= 1Gbps`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{BitRate, Comparison, Fault, FrameRate, Nanos, Rate, fault};

use super::program::dns::Rcode;
use crate::scenario::expect::flow::Share;
use crate::scenario::expect::{INTERVAL, Parts, Statistic, count, other_name};
use crate::text::hint::{nearest, with_hint};
use crate::text::printable;

/// Counters that can be held against a number, by the names of reports.
pub const COUNTERS: [&str; 34] = [
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
    "tls-failed",
    "abandoned",
    "failed-here",
    "unfinished",
    "failed",
    "handshakes",
    "handshakes.failed",
    "handshakes.resumed",
    "handshakes.truncated",
    "requests",
    "responses",
    "unexpected",
    "lost-responses",
    "late-responses",
    "malformed-messages",
    "misbehaved",
    "answered",
    "ended-by-peer",
    "sent-messages",
    "received-messages",
    "lost-messages",
    "damaged",
    "retransmitted-segments",
];
/// Durations that can be held against a time.
pub const TIMES: [&str; 10] = [
    "connect",
    "handshake",
    "first-byte",
    "response",
    "delay",
    "session",
    "lateness",
    "rtt",
    "gap",
    "jitter",
];
/// Counters that intervals have.
pub const INTERVAL_COUNTERS: [&str; 21] = [
    "due",
    "expired",
    "opened",
    "established",
    "in-order",
    "failed",
    "failed-here",
    "unfinished",
    "handshakes",
    "handshakes.failed",
    "requests",
    "responses",
    "unexpected",
    "lost-responses",
    "late-responses",
    "malformed-messages",
    "misbehaved",
    "answered",
    "ended-by-peer",
    "damaged",
    "retransmitted-segments",
];
/// Rates that intervals have.
const INTERVAL_RATES: [&str; 6] =
    ["opened", "established", "handshakes", "requests", "responses", "goodput"];
/// The duration that intervals have, from the planned beginning.
const INTERVAL_TIME: &str = "response";
/// Rates that can be held against a number a second.
pub const RATES: [&str; 6] =
    ["opened", "established", "handshakes", "ended", "requests", "responses"];
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
    /// With what.
    pub limit: SessionLimit,
}

/// What something measured of sessions is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SessionLimit {
    /// A count, nanoseconds, or bits a second.
    Number(u64),
    /// Sessions or messages a second.
    PerSecond(FrameRate),
    /// A part of the whole that the counter is of, see [`Whole`].
    Share(Share),
}

/// What a counter is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Sessions that were due.
    Due,
    /// Sessions that were opened.
    Opened,
    /// Requests.
    Requests,
    /// Messages one way that were sent; where nobody knows that, those received and those lost.
    Messages,
    /// Responses and messages one way that were received.
    Received,
    /// TCP segments with data.
    DataSegments,
    /// Completed handshakes of TLS.
    Handshakes,
    /// What clients did that misbehave.
    Misbehaved,
}

impl Whole {
    /// What the counter `name` is a part of; `None` where it is of nothing.
    pub fn of(name: &str) -> Option<Whole> {
        Some(match name {
            "expired" => Whole::Due,
            "established" | "in-order" | "refused" | "timed-out" | "reset" | "unreachable"
            | "closed-early" | "malformed" | "tls-failed" | "abandoned" | "failed-here"
            | "unfinished" | "failed" | "handshakes" | "handshakes.failed" | "ended-by-peer" => {
                Whole::Opened
            }
            "handshakes.resumed" | "handshakes.truncated" => Whole::Handshakes,
            "responses" | "unexpected" | "lost-responses" | "late-responses"
            | "malformed-messages" => Whole::Requests,
            "received-messages" | "lost-messages" => Whole::Messages,
            "damaged" => Whole::Received,
            "retransmitted-segments" => Whole::DataSegments,
            "answered" => Whole::Misbehaved,
            _ => return None,
        })
    }

    /// What it is, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Whole::Due => "sessions that were due",
            Whole::Opened => "opened sessions",
            Whole::Requests => "requests",
            Whole::Messages => "messages one way",
            Whole::Received => "responses and messages",
            Whole::DataSegments => "segments with data",
            Whole::Handshakes => "completed handshakes",
            Whole::Misbehaved => "acts of misbehaviour",
        }
    }
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
    /// How long the run took.
    Duration,
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

/// Before the name of a rate.
const RATE: &str = "rate";
/// How long the run took, as reports call it.
pub(in crate::scenario) const DURATION: &str = "duration";

/// What other tools call it.
const OTHER_NAMES: [(&str, &str); 22] = [
    ("latency", "response"),
    ("response-time", "response"),
    ("duration", "session"),
    ("ttfb", "first-byte"),
    ("throughput", "rate.goodput"),
    ("bandwidth", "rate.goodput"),
    ("bitrate", "rate.goodput"),
    ("goodput", "rate.goodput"),
    (RATE, "rate.goodput"),
    ("rps", "rate.responses"),
    ("qps", "rate.responses"),
    ("errors", "failed"),
    ("error-rate", "failed"),
    ("failures", "failed"),
    ("sessions", "established"),
    ("connections", "established"),
    ("timeouts", "timed-out"),
    ("resets", "reset"),
    ("retransmits", "retransmitted-segments"),
    ("retransmissions", "retransmitted-segments"),
    ("loss", "lost-responses"),
    ("packet-loss", "lost-responses"),
];

/// Whether something of sessions is called so, as far as its first word and its rate say.
pub(in crate::scenario) fn knows(name: &str) -> bool {
    let (word, rest) = name.split_once('.').unwrap_or((name, ""));
    match word {
        RATE => RATES.iter().chain(&BIT_RATES).any(|known| *known == rest),
        "status" | "rcode" => true,
        DURATION => rest.is_empty(),
        _ => COUNTERS.iter().chain(&TIMES).any(|known| *known == word),
    }
}

/// What of sessions is meant by a name that nothing has.
pub(in crate::scenario) fn meant(name: &str) -> Option<String> {
    let (word, rest) = name.split_once('.').unwrap_or((name, ""));
    let words = COUNTERS.into_iter().chain(TIMES);
    let known = other_name(word, &OTHER_NAMES).or_else(|| nearest(word, words))?;
    let statistic = rest.strip_suffix(".actual").unwrap_or(rest);
    Some(match TIMES.contains(&known) {
        true if statistic.parse::<Statistic>().is_ok() => format!("{known}.{rest}"),
        true => format!("{known}.p99"),
        false => known.to_owned(),
    })
}

/// That nothing of sessions is called so, with what is meant or all that there is; `timers` are those of the program.
fn unknown(name: &str, timers: &[String]) -> Fault {
    let word = name.split('.').next().unwrap_or_default();
    let what = Fault::from(format!("nothing measures '{}'", printable(word, 64)));
    if let Some(meant) = meant(name) {
        return what.or_hint(format!("did you mean '{meant}'?"));
    }
    let times: Vec<&str> = TIMES.into_iter().chain(timers.iter().map(String::as_str)).collect();
    what.or_hint(format!(
        "there are {}, {}, {DURATION} (of the run), and with a statistic such as '.p99' {}",
        COUNTERS.join(", "),
        rates(),
        times.join(", ")
    ))
}

/// Every rate, as it is written.
fn rates() -> String {
    let names = RATES.into_iter().chain(BIT_RATES).map(|name| format!("{RATE}.{name}"));
    names.collect::<Vec<_>>().join(", ")
}

/// A count, or a part of what the counter `name` is of.
fn count_or_share(name: &str, text: &str) -> Result<SessionLimit, Fault> {
    if !(text.ends_with('%') || text.ends_with("ppm")) {
        let number = count(text).map(SessionLimit::Number);
        return match Whole::of(name) {
            Some(whole) => number
                .map_err(|fault| fault.and_hint(format!("a part of the {}: 1%", whole.name()))),
            None => number,
        };
    }
    match Whole::of(name) {
        Some(_) => text.parse().map(SessionLimit::Share),
        None => Err(fault!("'{name}' is not a part of a whole"; "write a whole number")),
    }
}

/// What a rate is held against: so many a second, or bits a second.
fn rate(name: &str, value: &str) -> Result<SessionLimit, Fault> {
    if BIT_RATES.contains(&name) {
        let bits: BitRate =
            value.parse().map_err(|error: wirebeat_units::UnitError| error.fault())?;
        return Ok(SessionLimit::Number(bits.0));
    }
    if !RATES.contains(&name) {
        return Err(with_hint("there is no rate", name, RATES.into_iter().chain(BIT_RATES)));
    }
    match value.parse() {
        Ok(Rate::Frames(rate)) => Ok(SessionLimit::PerSecond(rate)),
        _ => Err(fault!("'{}' is no rate", printable(value, 64); "write for example 1000/s")),
    }
}

impl Expectation {
    /// Whether only sessions with TLS have it.
    pub(crate) fn is_of_tls(&self) -> bool {
        match &self.measured {
            Measured::Counter(name) => name.starts_with("handshakes") || name == "tls-failed",
            Measured::Rate(name) => name == "handshakes",
            Measured::Time { of, .. } => of == "handshake",
            Measured::Status(_) | Measured::Rcode(_) | Measured::Duration => false,
        }
    }

    /// What is invalid where the program has this name and these timers.
    pub(crate) fn check(&self, program: &str, timers: &[String]) -> Result<(), Fault> {
        match &self.measured {
            Measured::Rcode(_) if program != "dns" => Err(fault!(
                "only the program 'dns' has response codes"; "leave the expectation out"
            )),
            Measured::Time { of, statistic, .. }
                if !TIMES.contains(&&**of) && !timers.contains(of) =>
            {
                if let Some(timer) = nearest(of, timers.iter().map(String::as_str)) {
                    return Err(fault!("nothing measures '{of}'"; "did you mean '{timer}'?"));
                }
                Err(unknown(&format!("{of}.{statistic}"), timers))
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
        let limit = measured.limit(parts.limit)?;
        let of_segments = matches!(&measured, Measured::Counter(name)
            if matches!(limit, SessionLimit::Share(_)) && Whole::of(name) == Some(Whole::DataSegments));
        if parts.each_interval && of_segments {
            return Err(fault!(
                "intervals have no count of the segments that '{}' is a part of", printable(parts.measured, 64);
                "leave '{INTERVAL}' out, or write a whole number"
            ));
        }
        if parts.each_interval && !measured.in_intervals() {
            return Err(fault!(
                "intervals do not have '{}'", printable(parts.measured, 64);
                "leave '{INTERVAL}' out; intervals have {}, rate.{}, and {INTERVAL_TIME} with a statistic such as {INTERVAL_TIME}.p99",
                INTERVAL_COUNTERS.join(", "), INTERVAL_RATES.join(", rate.")
            ));
        }
        let Parts { each_interval, comparison, .. } = parts;
        Ok(Expectation { each_interval, measured, comparison, limit })
    }
}

impl Measured {
    /// What the name says.
    fn read(parts: &Parts<'_>) -> Result<Measured, Fault> {
        let name = parts.measured;
        if COUNTERS.contains(&name) {
            return Ok(Measured::Counter(name.to_owned()));
        }
        if name == DURATION {
            return Ok(Measured::Duration);
        }
        let Some((of, rest)) = name.split_once('.') else {
            if TIMES.contains(&name) {
                return Err(fault!(
                    "'{name}' is a duration"; "say which of them, for example {name}.p99"
                ));
            }
            if name == RATE {
                return Err(fault!("'{RATE}' does not say of what"; "write one of {}", rates()));
            }
            return Err(unknown(name, &[]));
        };
        match of {
            "status" => return Ok(Measured::Status(rest.parse()?)),
            "rcode" => return Ok(Measured::Rcode(rest.parse()?)),
            RATE => return Ok(Measured::Rate(rest.to_owned())),
            _ => {}
        }
        let (statistic, actual) = match rest.strip_suffix(".actual") {
            Some(statistic) => (statistic, true),
            None => (rest, false),
        };
        Ok(Measured::Time { of: of.to_owned(), statistic: statistic.parse()?, actual })
    }

    /// What it is held against.
    fn limit(&self, text: &str) -> Result<SessionLimit, Fault> {
        let number = match self {
            Measured::Counter(name) => return count_or_share(name, text),
            Measured::Status(_) | Measured::Rcode(_) => count(text)?,
            Measured::Rate(name) => return rate(name, text),
            Measured::Duration | Measured::Time { .. } => {
                let time: Nanos =
                    text.parse().map_err(|error: wirebeat_units::UnitError| error.fault())?;
                time.get()
            }
        };
        Ok(SessionLimit::Number(number))
    }

    /// Whether intervals have it.
    fn in_intervals(&self) -> bool {
        match self {
            Measured::Counter(name) => INTERVAL_COUNTERS.contains(&&**name),
            Measured::Rate(name) => INTERVAL_RATES.contains(&&**name),
            Measured::Time { of, actual, .. } => of == INTERVAL_TIME && !actual,
            Measured::Status(_) | Measured::Rcode(_) | Measured::Duration => false,
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
        self.measured.fmt(f)?;
        write!(f, " {sign} ")?;
        let value = match self.limit {
            SessionLimit::Number(value) => value,
            SessionLimit::PerSecond(rate) => return f.write_str(&rate.per_second_text()),
            SessionLimit::Share(share) => return share.fmt(f),
        };
        match &self.measured {
            Measured::Counter(_) | Measured::Rcode(_) | Measured::Status(_) => value.fmt(f),
            Measured::Rate(_) => BitRate(value).fmt(f),
            Measured::Duration | Measured::Time { .. } => Nanos::new(value).fmt(f),
        }
    }
}

/// Its name, as it is written.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measured::Counter(name) => f.write_str(name),
            Measured::Rcode(code) => write!(f, "rcode.{code}"),
            Measured::Status(statuses) => write!(f, "status.{statuses}"),
            Measured::Rate(name) => write!(f, "{RATE}.{name}"),
            Measured::Duration => f.write_str(DURATION),
            Measured::Time { of, statistic, actual } => {
                let actual = if *actual { ".actual" } else { "" };
                write!(f, "{of}.{statistic}{actual}")
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
            "failed <= 1%",
            "lost-responses < 50ppm",
            "interval.expired == 0%",
            "retransmitted-segments <= 0.1%",
            "response.p99 < 5ms",
            "session.max.actual <= 1s",
            "response.p95 < 5ms",
            "connect.p99.95 < 5ms",
            "session.stddev < 1ms",
            "interval.rate.responses >= 900/s",
            "interval.failed == 0",
            "interval.response.p99 < 50ms",
            "status.404 == 0",
            "rcode.nxdomain == 0",
            "status.5xx <= 10",
            "rate.established >= 1000/s",
            "rate.goodput > 1Gbps",
            "handshakes.failed == 0",
            "handshakes.resumed >= 90%",
            "interval.handshakes.failed == 0",
            "handshake.p99 < 5ms",
            "rate.handshakes >= 500/s",
            "duration <= 10s",
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
            ("interval.response.p99.actual < 5ms", "intervals do not have"),
            ("interval.connect.p99 < 5ms", "and response with a statistic such as response.p99"),
            ("interval.status.200 > 5", "intervals do not have"),
            ("interval.duration < 5s", "intervals do not have"),
            ("duration < 5", "unit"),
            ("status.6xx < 5", "is no status of HTTP"),
            ("rcode.nxdomian < 5", "did you mean 'nxdomain'"),
            ("status.99 < 5", "is no status of HTTP"),
            ("rate.established < 5", "is no rate"),
            ("rate.established < 5Mbps", "is no rate"),
            ("rate.good < 5Mbps", "there is no rate 'good'"),
            ("rate.goodput < 5/s", "unit"),
            ("rate < 5Mbps", "write one of rate.opened"),
            ("throughput < 5Mbps", "did you mean 'rate.goodput'?"),
            ("error_rate <= 1%", "did you mean 'failed'?"),
            ("weather > 3", "rate.acked, duration (of the run), and with a statistic"),
            ("opened <= 50%", "write a whole number"),
            ("failed <= 1.5", "is not a count"),
            ("interval.retransmitted-segments <= 1%", "leave 'interval.' out"),
            ("response.p999 < 5ms", "did you mean 'p99.9'?"),
            ("response.p99 < 5", "unit"),
            ("opened > many", "is not a count"),
            ("opened => 3", "is not an expectation"),
        ] {
            let said = text.parse::<Expectation>().unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    /// A name with a statistic may be a timer of the program, so it is refused where that is known.
    #[test]
    fn a_duration_that_nothing_measures_is_named_with_the_one_that_is_meant() {
        let check = |text: &str, timers: &[&str]| {
            let timers: Vec<String> = timers.iter().map(|name| (*name).to_owned()).collect();
            let expectation: Expectation = text.parse().unwrap();
            expectation.check("steps", &timers).map_err(|fault| fault.to_string())
        };
        assert_eq!(check("login.p99 < 5ms", &["login"]), Ok(()));
        for (text, says) in [
            ("latency.p95 < 5ms", "did you mean 'response.p95'?"),
            ("duration.p95 < 5ms", "did you mean 'session.p95'?"),
            ("logn.p95 < 5ms", "did you mean 'login'?"),
            ("weather.p95 < 5ms", "jitter, login"),
        ] {
            let said = check(text, &["login"]).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn every_counter_but_those_that_are_wholes_has_one() {
        let none = ["due", "opened", "requests", "sent-messages", "misbehaved"];
        for name in COUNTERS {
            assert_eq!(Whole::of(name).is_none(), none.contains(&name), "{name}");
        }
    }
}
