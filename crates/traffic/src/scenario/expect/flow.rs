//! What has to come of a flow, or of all flows together.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Comparison, Fault, Layer, Nanos, Rate, UnitError, fault};

use super::{INTERVAL, Parts, Statistic, count, other_name};
use crate::scenario::session::expect::DURATION;
use crate::text::hint::{nearest, with_hint};
use crate::text::printable;

/// Something measured of a flow, and what it has to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct FlowExpectation {
    /// Whether it has to hold in each interval of the run, instead of in the whole.
    pub each_interval: bool,
    /// What is measured, and what it is held against.
    pub measured: FlowMeasured,
    /// How it is compared.
    pub comparison: Comparison,
}

/// What is measured of a flow, with the limit that it is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowMeasured {
    /// A counter, and a count.
    Counter(FlowCounter, u64),
    /// A part of a whole, and another.
    Share(FlowShare, Share),
    /// A rate, and another, in the same unit: never unlimited, never a share of the link.
    Rate(FlowRateOf, Rate),
    /// A statistic of times, and a time.
    Time(FlowTime, Statistic, Nanos),
    /// How long the run took, and a time.
    Duration(Nanos),
}

/// Makes an enum whose members have names in the language.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $member:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $member,)* }

        impl $name {
            /// Each of them.
            pub const ALL: &'static [$name] = &[$($name::$member),*];

            /// How it is written.
            pub const fn name(self) -> &'static str {
                match self { $($name::$member => $word,)* }
            }

            /// The one that is written so.
            fn of(word: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|one| one.name() == word)
            }
        }
    };
}

words! {
    /// Frames that are counted.
    FlowCounter {
        /// What the schedule asked for.
        Requested = "requested",
        /// What the engine accepted.
        Sent = "sent",
        /// Dropped by the sender because they were too late.
        Expired = "expired",
        /// Due, and the run ended before.
        NotReached = "not-reached",
        /// Refused by the engine or the system.
        Failed = "failed",
        /// Sent later than the flow counts as late.
        Late = "late",
        /// What arrived, duplicates included.
        Received = "received",
        /// Different sequence numbers that arrived.
        Unique = "unique",
        /// What did not arrive.
        Lost = "lost",
        /// Arrivals whose number had been seen.
        Duplicates = "duplicates",
        /// Arrivals with a number below one seen before (RFC 4737).
        Reordered = "reordered",
    }
}

words! {
    /// Parts of a whole.
    FlowShare {
        /// Lost of sent.
        Loss = "loss",
        /// Reordered of unique (RFC 4737 §4.1).
        Reordering = "reordering",
        /// Duplicates of unique.
        Duplication = "duplication",
        /// How far the sent rate is from the offered one, of that, without its sign.
        RateError = "rate-error",
    }
}

words! {
    /// Where a rate is measured.
    FlowRateOf {
        /// At the sender.
        Sent = "sent",
        /// At the receiver.
        Received = "received",
    }
}

words! {
    /// Times that are measured.
    FlowTime {
        /// One-way delay (RFC 7679).
        Delay = "delay",
        /// Send lateness: departure less deadline.
        Lateness = "lateness",
        /// Difference of the delays of consecutive arrivals (RFC 4689).
        Jitter = "jitter",
        /// Delay above the smallest (RFC 5481).
        DelayAboveMinimum = "delay-above-minimum",
        /// Time between consecutive arrivals.
        Gap = "gap",
        /// Difference of that and the flow's nominal gap.
        GapError = "gap-error",
        /// Time between consecutive departures.
        DepartureGap = "departure-gap",
        /// Difference of that and the planned one.
        DepartureGapError = "departure-gap-error",
    }
}

/// What is measured in the intervals of a run.
const IN_INTERVALS: [&str; 11] = [
    "sent",
    "received",
    "unique",
    "lost",
    "duplicates",
    "reordered",
    "loss",
    "reordering",
    "duplication",
    "rate.sent, rate.received",
    "delay",
];

/// A part of a whole, as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    number: f64,
    ppm: bool,
}

impl Share {
    /// Of 1.
    pub fn ratio(self) -> f64 {
        self.number / if self.ppm { 1e6 } else { 100.0 }
    }
}

impl FromStr for Share {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let ppm = text.ends_with("ppm");
        let number = text.strip_suffix(if ppm { "ppm" } else { "%" }).map(str::trim);
        let plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number = number.filter(plain).and_then(|number| number.parse::<f64>().ok());
        match number.filter(|number| number.is_finite()) {
            Some(number) => Ok(Share { number, ppm }),
            None if text.parse::<f64>().is_ok_and(|number| number == 0.0) => {
                Err(fault!("'{text}' has no unit"; "write 0%"))
            }
            None => Err(fault!(
                "'{}' is not a part of a whole", printable(text, 64); "write for example 0.01% or 5ppm"
            )),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, if self.ppm { "ppm" } else { "%" })
    }
}

/// Every first word of what is measured of flows.
fn words() -> impl Iterator<Item = &'static str> + Clone {
    let counters = FlowCounter::ALL.iter().map(|one| one.name());
    let shares = FlowShare::ALL.iter().map(|one| one.name());
    let times = FlowTime::ALL.iter().map(|one| one.name());
    counters.chain(shares).chain(times).chain([RATE, DURATION])
}

/// Before where a rate is measured.
const RATE: &str = "rate";

/// What other tools call it.
const OTHER_NAMES: [(&str, &str); 16] = [
    ("latency", "delay"),
    ("ipdv", "jitter"),
    ("pdv", "jitter"),
    ("throughput", "rate"),
    ("bandwidth", "rate"),
    ("bitrate", "rate"),
    ("goodput", "rate"),
    ("pps", "rate"),
    ("packet-loss", "loss"),
    ("loss-rate", "loss"),
    ("loss-ratio", "loss"),
    ("drops", "lost"),
    ("dropped", "lost"),
    ("out-of-order", "reordered"),
    ("packets", "received"),
    ("frames", "received"),
];

/// Whether something of flows is called so, as far as its first word and its rate say.
pub(super) fn knows(name: &str) -> bool {
    let (word, rest) = name.split_once('.').unwrap_or((name, ""));
    match word {
        RATE => FlowRateOf::of(rest).is_some(),
        DURATION => rest.is_empty(),
        _ => words().any(|known| known == word),
    }
}

/// What of flows is meant by a name that nothing has.
pub(super) fn meant(name: &str) -> Option<String> {
    let (word, rest) = name.split_once('.').unwrap_or((name, ""));
    let known = other_name(word, &OTHER_NAMES).or_else(|| nearest(word, words()))?;
    if known == RATE {
        return Some(format!("{RATE}.{}", FlowRateOf::Received.name()));
    }
    Some(match FlowTime::of(known) {
        Some(_) if rest.parse::<Statistic>().is_ok() => format!("{known}.{rest}"),
        Some(_) => format!("{known}.p99"),
        None => known.to_owned(),
    })
}

/// That nothing of flows is called so, with what is meant or all that there is.
fn unknown(name: &str) -> Fault {
    let what = Fault::from(format!("nothing measures '{}'", printable(name, 64)));
    match meant(name) {
        Some(meant) => what.or_hint(format!("did you mean '{meant}'?")),
        None => what.or_hint(all()),
    }
}

/// All that is measured of flows, in words.
fn all() -> String {
    let counters = FlowCounter::ALL.iter().map(|one| one.name());
    let shares = FlowShare::ALL.iter().map(|one| one.name());
    let plain: Vec<&str> = counters.chain(shares).collect();
    let times: Vec<&str> = FlowTime::ALL.iter().map(|one| one.name()).collect();
    format!(
        "there are {}, {}, {DURATION} (of the run), and with a statistic such as '.p99' {}",
        plain.join(", "),
        rates().join(", "),
        times.join(", ")
    )
}

/// Every rate, as it is written.
fn rates() -> Vec<String> {
    FlowRateOf::ALL.iter().rev().map(|one| format!("{RATE}.{}", one.name())).collect()
}

fn rate(text: &str) -> Result<Rate, Fault> {
    // flows are sent with rates that are not measured (50 %, unlimited), which the unit's own hint names too
    let hint = "write for example 90kpps, 100Mbps or 1Gbps@line";
    let rate: Rate = text
        .parse()
        .map_err(|error: UnitError| Fault { hint: None, ..error.fault() }.or_hint(hint))?;
    match rate {
        rate @ (Rate::Frames(_) | Rate::Bits(..)) => Ok(rate),
        Rate::Unlimited | Rate::LinkShare(_) => Err(fault!(
            "'{}' is not a rate that can be measured", printable(text, 64); "{hint}"
        )),
    }
}

impl FlowMeasured {
    /// What `name` says is measured, with its limit.
    fn read(name: &str, limit: &str) -> Result<Self, Fault> {
        let (word, rest) = match name.split_once('.') {
            Some((word, rest)) => (word, Some(rest)),
            None => (name, None),
        };
        if let (Some(time), rest) = (FlowTime::of(word), rest) {
            let Some(rest) = rest else {
                return Err(fault!(
                    "'{word}' has many values"; "say what of them, for example {word}.p99"
                ));
            };
            let limit = limit.parse().map_err(|error: UnitError| error.fault());
            return Ok(FlowMeasured::Time(time, rest.parse()?, limit?));
        }
        if word == RATE {
            if rest.is_none() {
                return Err(fault!(
                    "'{RATE}' does not say where it is measured"; "write {}", rates().join(" or ")
                ));
            }
            let places = FlowRateOf::ALL.iter().map(|one| one.name());
            let place = FlowRateOf::of(rest.unwrap_or_default());
            let place = place
                .ok_or_else(|| with_hint("there is no rate", rest.unwrap_or_default(), places))?;
            return Ok(FlowMeasured::Rate(place, rate(limit)?));
        }
        if (word, rest) == (DURATION, None) {
            let limit = limit.parse().map_err(|error: UnitError| error.fault());
            return Ok(FlowMeasured::Duration(limit?));
        }
        if let (Some(counter), None) = (FlowCounter::of(word), rest) {
            return Ok(FlowMeasured::Counter(counter, count(limit)?));
        }
        if let (Some(share), None) = (FlowShare::of(word), rest) {
            return Ok(FlowMeasured::Share(share, limit.parse()?));
        }
        Err(unknown(name))
    }

    /// Whether intervals have it.
    fn in_intervals(self) -> bool {
        match self {
            FlowMeasured::Counter(counter, _) => matches!(
                counter,
                FlowCounter::Sent
                    | FlowCounter::Received
                    | FlowCounter::Unique
                    | FlowCounter::Lost
                    | FlowCounter::Duplicates
                    | FlowCounter::Reordered
            ),
            FlowMeasured::Share(share, _) => share != FlowShare::RateError,
            FlowMeasured::Rate(_, rate) => !matches!(rate, Rate::Bits(_, Layer::Payload)),
            // the buckets of their histograms are not kept
            FlowMeasured::Time(time, statistic, _) => {
                let kept = |statistic: Statistic| match statistic {
                    Statistic::Percentile(_) => Statistic::NAMES.contains(&&*statistic.to_string()),
                    _ => true,
                };
                time == FlowTime::Delay && kept(statistic)
            }
            FlowMeasured::Duration(_) => false,
        }
    }
}

impl FromStr for FlowExpectation {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let parts = Parts::of(text, "'loss <= 0.01%' or 'delay.p99 < 1ms'")?;
        let Parts { each_interval, measured, comparison, limit } = parts;
        let read = FlowMeasured::read(measured, limit)?;
        if each_interval && !read.in_intervals() {
            return Err(fault!(
                "intervals do not have '{}'", printable(measured, 64);
                "leave '{INTERVAL}' out, or write one of {} (of the usual percentiles)", IN_INTERVALS.join(", ")
            ));
        }
        Ok(FlowExpectation { each_interval, measured: read, comparison })
    }
}

impl TryFrom<String> for FlowExpectation {
    type Error = Fault;

    fn try_from(text: String) -> Result<Self, Fault> {
        text.parse()
    }
}

impl From<FlowExpectation> for String {
    fn from(expectation: FlowExpectation) -> String {
        expectation.to_string()
    }
}

impl fmt::Display for FlowExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = self.comparison;
        f.write_str(if self.each_interval { INTERVAL } else { "" })?;
        match self.measured {
            FlowMeasured::Counter(counter, limit) => write!(f, "{} {sign} {limit}", counter.name()),
            FlowMeasured::Share(share, limit) => write!(f, "{} {sign} {limit}", share.name()),
            FlowMeasured::Rate(of, limit) => write!(f, "{RATE}.{} {sign} {limit}", of.name()),
            FlowMeasured::Time(time, statistic, limit) => {
                write!(f, "{}.{statistic} {sign} {limit}", time.name())
            }
            FlowMeasured::Duration(limit) => write!(f, "{DURATION} {sign} {limit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_printed_again() {
        for text in [
            "loss <= 0.01%",
            "loss < 5ppm",
            "lost == 0",
            "rate-error < 0.1%",
            "delay.p99 < 1ms",
            "delay.p99.9 <= 2ms",
            "lateness.p99 < 20us",
            "jitter.max < 1ms",
            "gap.stddev < 1us",
            "gap-error.p95 < 1us",
            "delay-above-minimum.p99.9 < 1ms",
            "rate.received >= 90kpps",
            "rate.sent >= 1Gbps@line",
            "interval.loss <= 1%",
            "interval.reordering <= 1%",
            "interval.duplication == 0%",
            "interval.rate.received >= 90kpps",
            "interval.delay.p99 < 2ms",
            "expired == 0",
            "duration <= 10s",
        ] {
            let read: FlowExpectation = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        let loose: FlowExpectation = "lost=0".parse().unwrap();
        assert_eq!(loose.to_string(), "lost == 0");
    }

    #[test]
    fn a_share_is_what_it_says() {
        assert_eq!("0.01%".parse::<Share>().unwrap().ratio(), 0.01 / 100.0);
        assert_eq!("5ppm".parse::<Share>().unwrap().ratio(), 5e-6);
        for text in ["0.01", "-1%", "%", "1e3%", "inf%", "x%", "1.2.3%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_with_a_remedy() {
        for (text, says) in [
            ("loss", "is not an expectation"),
            ("loss <=", "is not an expectation"),
            ("losss <= 1%", "did you mean 'loss'"),
            ("loss <= 1", "0.01%"),
            ("loss == 0", "write 0%"),
            ("loss == 0.0", "write 0%"),
            ("delay < 1ms", "delay.p99"),
            ("delay.p100 < 1ms", "there is no statistic 'p100'"),
            ("delay.p999 < 1ms", "did you mean 'p99.9'?"),
            ("latency.p99 < 1ms", "did you mean 'delay.p99'?"),
            ("Latency < 1ms", "did you mean 'delay.p99'?"),
            ("dealy.max < 1ms", "did you mean 'delay.max'?"),
            ("packet_loss < 1%", "did you mean 'loss'?"),
            ("throughput >= 1Gbps", "did you mean 'rate.received'?"),
            (
                "weather >= 1",
                "rate.received, rate.sent, duration (of the run), and with a statistic",
            ),
            ("duration <= 10", "unit"),
            ("duration.p99 < 1s", "nothing measures"),
            ("interval.duration < 1s", "intervals do not have"),
            ("delay.p99 < 1", "unit"),
            ("rate.received >= 5", "unit"),
            ("rate.recieved >= 5kpps", "did you mean 'received'"),
            ("rate >= 5kpps", "write rate.received or rate.sent"),
            ("rate.received >= 100M", "write for example 90kpps, 100Mbps or 1Gbps@line"),
            ("rate.received >= 50%", "is not a rate that can be measured"),
            ("lost <= 1%", "is not a count"),
            ("interval.jitter.p99 < 1ms", "intervals do not have"),
            ("interval.rate-error < 1%", "intervals do not have"),
            ("interval.delay.p98 < 1ms", "intervals do not have"),
            ("interval.rate.sent > 1Mbps@payload", "intervals do not have"),
            ("loss of voice <= 1%", "nothing measures"),
            ("loss => 1%", "is not an expectation"),
        ] {
            let said = text.parse::<FlowExpectation>().unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
