//! What has to come of a run, as a person writes it: `loss <= 0.01%`, `voice: delay.p99 < 2ms`,
//! `interval.rate.received >= 90kpps`.
//!
//! This file has the syntax that all expectations share, and those of a scenario, which say whom they are about. `flow.rs` has what
//! is measured of flows; what is measured of sessions is in `session/expect.rs`. What comes of them is decided in `run`.

pub mod flow;
pub mod statistic;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wirebeat_units::{Comparison, Fault, fault};

pub use flow::{FlowExpectation, FlowMeasured};
pub use statistic::Statistic;

use super::session::{self, Expectation};
use super::{Invalid, KeyPath, Scenario};
use crate::text::hint::with_hint;
use crate::text::printable;

/// Stands for any characters of a name.
const ANY: char = '*';
/// What stands before what is measured in each interval of a run.
pub const INTERVAL: &str = "interval.";

/// An expectation in its parts: what is measured, how it is compared, and with what.
pub(crate) struct Parts<'a> {
    pub(crate) each_interval: bool,
    pub(crate) measured: &'a str,
    pub(crate) comparison: Comparison,
    pub(crate) limit: &'a str,
}

impl<'a> Parts<'a> {
    /// The parts of `text`, which is no expectation where there is no comparison in it.
    pub(crate) fn of(text: &'a str, example: &str) -> Result<Parts<'a>, Fault> {
        let wrong = || fault!("'{}' is not an expectation", printable(text, 64); "write for example {example}");
        let sign = |c: char| "=!<>".contains(c);
        let begin = text.find(sign).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(begin);
        let end = rest.find(|c: char| !sign(c)).ok_or_else(wrong)?;
        let (comparison, limit) = rest.split_at(end);
        let comparison = Comparison::of(comparison).ok_or_else(wrong)?;
        let (name, limit) = (name.trim(), limit.trim());
        if name.is_empty() || limit.is_empty() {
            return Err(wrong());
        }
        let (each_interval, measured) = match name.strip_prefix(INTERVAL) {
            Some(measured) => (true, measured),
            None => (false, name),
        };
        Ok(Parts { each_interval, measured, comparison, limit })
    }
}

/// The name here of what `word` is called by other tools, if `table` has it: pairs of their name and ours.
pub(crate) fn other_name(
    word: &str,
    table: &[(&'static str, &'static str)],
) -> Option<&'static str> {
    let word = word.to_lowercase().replace('_', "-");
    table.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours)
}

/// A number of things.
pub(crate) fn count(text: &str) -> Result<u64, Fault> {
    text.parse()
        .map_err(|_| fault!("'{}' is not a count", printable(text, 64); "write a whole number"))
}

/// An expectation of a scenario: of a flow or a group of sessions, of several, or of all flows together.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct ScopedExpectation {
    /// The name of a flow or a group; `*` in it stands for any characters. `None`: all flows together.
    pub of: Option<String>,
    /// What is expected, in the words of flows or of sessions.
    pub text: String,
}

impl ScopedExpectation {
    /// Whether it is about the flow or group of this name by itself.
    fn is_about(&self, name: &str) -> bool {
        self.of.as_ref().is_some_and(|pattern| matches(pattern, name))
    }
}

/// Whether `name` is what `pattern` says.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split(ANY);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

impl FromStr for ScopedExpectation {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let sign = text.find(|c: char| "=!<>".contains(c)).unwrap_or(text.len());
        // a name may have a colon in it, what is measured has none
        let (of, what) = match text[..sign].rfind(':') {
            Some(colon) => (Some(text[..colon].trim()), text[colon + 1..].trim()),
            None => (None, text.trim()),
        };
        if of.is_some_and(str::is_empty) {
            return Err(fault!(
                "there is no name before the colon"; "write for example 'voice: {}'", printable(what, 64)
            ));
        }
        // that it is one of either is known here, which it has to be where the names are
        match (what.parse::<FlowExpectation>(), what.parse::<Expectation>()) {
            (Err(of_flows), Err(of_sessions)) => {
                Err(of_either(Parts::of(what, "").ok().as_ref(), of_flows, of_sessions))
            }
            _ => Ok(ScopedExpectation { of: of.map(str::to_owned), text: what.to_owned() }),
        }
    }
}

/// What is wrong with an expectation of flows or of sessions, in the words of those that have what is asked for.
fn of_either(parts: Option<&Parts<'_>>, of_flows: Fault, of_sessions: Fault) -> Fault {
    let Some(Parts { measured: name, .. }) = parts else { return of_flows };
    if flow::knows(name) {
        return of_flows;
    }
    if session::expect::knows(name) {
        return of_sessions;
    }
    match (flow::meant(name), session::expect::meant(name)) {
        (Some(_), None) => of_flows,
        (None, Some(_)) => of_sessions,
        (Some(_), Some(session)) => with_sessions(of_flows, &format!("'{session}'")),
        (None, None) => with_sessions(of_flows, "see docs/sessions.md, 'Expectations'"),
    }
}

/// Whether it is about the run, whatever was sent in it.
fn is_of_run(text: &str) -> bool {
    let read = text.parse::<FlowExpectation>();
    read.is_ok_and(|read| matches!(read.measured, FlowMeasured::Duration(_)))
}

/// Adds to what would help of flows what would help of sessions.
fn with_sessions(of_flows: Fault, of_sessions: &str) -> Fault {
    let hint = of_flows.hint.map(|hint| format!("{hint} (of sessions: {of_sessions})"));
    Fault { hint, ..of_flows }
}

impl fmt::Display for ScopedExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Some(of) => write!(f, "{of}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl Serialize for ScopedExpectation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text; or, because `voice: loss == 0` without quotes is that in YAML, a map of one name.
impl<'de> Deserialize<'de> for ScopedExpectation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrMap;

        impl<'de> Visitor<'de> for TextOrMap {
            type Value = ScopedExpectation;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "an expectation, for example 'loss <= 0.01%' or 'voice: delay.p99 < 2ms'",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ScopedExpectation, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<M: MapAccess<'de>>(
                self,
                mut map: M,
            ) -> Result<ScopedExpectation, M::Error> {
                let one = map.next_entry::<String, String>()?;
                let more = map.next_key::<String>()?.is_some();
                match one.filter(|_| !more) {
                    Some((name, what)) => {
                        format!("{name}: {what}").parse().map_err(M::Error::custom)
                    }
                    None => {
                        Err(M::Error::custom("an expectation has one name; write one for each"))
                    }
                }
            }
        }

        deserializer.deserialize_any(TextOrMap)
    }
}

impl Scenario {
    /// What is expected of all flows together, or of a run of several groups of sessions.
    pub fn expected_of_all(&self) -> Vec<FlowExpectation> {
        match self.flows.is_empty() {
            // of several groups of sessions it is the run itself, which all of them have together
            true if self.sessions.len() > 1 => {
                self.expected(|expectation| expectation.of.is_none())
            }
            true => Vec::new(),
            false => self.expected(|expectation| expectation.of.is_none()),
        }
    }

    /// What is expected of the flow `name`: by itself, then by the scenario.
    pub fn expected_of_flow(&self, name: &str) -> Vec<FlowExpectation> {
        let Some(flow) = self.flows.get(name) else { return Vec::new() };
        let mut all = flow.expect.clone();
        all.extend(self.expected(|expectation| expectation.is_about(name)));
        all
    }

    /// What is expected of the group of sessions `name`: by itself, then by the scenario.
    pub fn expected_of_sessions(&self, name: &str) -> Vec<Expectation> {
        let Some(group) = self.sessions.get(name) else { return Vec::new() };
        let mut all = group.expect.clone();
        // of a scenario with one group nobody has to say which
        let alone = self.flows.is_empty() && self.sessions.len() == 1;
        all.extend(self.expected(|expectation: &ScopedExpectation| {
            expectation.is_about(name) || alone && expectation.of.is_none()
        }));
        all
    }

    /// Those that `wanted` chooses; what is written is checked before.
    fn expected<T: FromStr>(&self, wanted: impl Fn(&ScopedExpectation) -> bool) -> Vec<T> {
        let chosen = self.expect.iter().filter(|expectation| wanted(expectation));
        chosen.filter_map(|expectation| expectation.text.parse().ok()).collect()
    }

    /// What is invalid of them: about nobody, or in the wrong words.
    pub(super) fn check_expectations(&self) -> Result<(), Invalid> {
        for (index, expectation) in self.expect.iter().enumerate() {
            let invalid = |why| KeyPath::root("expect").index(index).invalid(why);
            self.check_expectation(expectation).map_err(invalid)?;
        }
        Ok(())
    }

    fn check_expectation(&self, expectation: &ScopedExpectation) -> Result<(), Fault> {
        let text = &expectation.text;
        let Some(of) = &expectation.of else {
            if !self.flows.is_empty() {
                return text.parse::<FlowExpectation>().map(|_| ());
            }
            return match self.sessions.iter().next() {
                Some((_, group)) if self.sessions.len() == 1 => {
                    group.check_expectation(&text.parse()?)
                }
                // that is one for all groups
                Some(_) if is_of_run(text) => Ok(()),
                Some((name, _)) => Err(fault!(
                    "there are several groups of sessions, and it does not say of which";
                    "write for example '{name}: {text}', or '*: {text}' for each"
                )),
                None => Ok(()),
            };
        };
        let mut found = false;
        for _ in self.flows.keys().filter(|name| matches(of, name)) {
            text.parse::<FlowExpectation>()?;
            found = true;
        }
        for (_, group) in self.sessions.iter().filter(|(name, _)| matches(of, name)) {
            group.check_expectation(&text.parse()?)?;
            found = true;
        }
        let names = self.flows.keys().chain(self.sessions.keys()).map(String::as_str);
        match found {
            true => Ok(()),
            false => Err(with_hint("there is no flow or group of sessions", of, names)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_chooses_by_its_parts_in_order() {
        for (pattern, name, chosen) in [
            ("voice", "voice", true),
            ("voice", "voices", false),
            ("*", "", true),
            ("*", "voice", true),
            ("voice-*", "voice-1", true),
            ("voice-*", "bulk-1", false),
            ("*-1", "voice-11", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(matches(pattern, name), chosen, "{pattern} {name}");
        }
    }

    #[test]
    fn whom_it_is_about_stands_before_the_last_colon() {
        for (text, of, what) in [
            ("loss <= 0.01%", None, "loss <= 0.01%"),
            ("voice: loss<=0.01%", Some("voice"), "loss<=0.01%"),
            ("a:b : delay.p99 < 1ms", Some("a:b"), "delay.p99 < 1ms"),
            ("web: established >= 10", Some("web"), "established >= 10"),
        ] {
            let read: ScopedExpectation = text.parse().unwrap();
            assert_eq!((read.of.as_deref(), &*read.text), (of, what));
            assert_eq!(read.to_string().parse::<ScopedExpectation>().unwrap(), read);
        }
    }

    #[test]
    fn mistakes_are_named_in_the_words_of_what_is_meant() {
        for (text, says) in [
            ("loss", "is not an expectation"),
            (": loss == 0", "no name before the colon"),
            ("losss == 0%", "did you mean 'loss'?"),
            ("established >= many", "is not a count"),
            ("establishd >= 3", "did you mean 'established'?"),
            ("throughput > 1Gbps", "'rate.received'? (of sessions: 'rate.goodput')"),
            ("rate > 1Gbps", "rate.sent (of sessions: 'rate.goodput')"),
            ("rate.goodput > 1", "unit"),
            ("weather > 1", "docs/sessions.md"),
            ("response.p99 < 5", "unit"),
        ] {
            let said = text.parse::<ScopedExpectation>().unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn any_text_is_read_or_refused() {
        for text in [
            "",
            ":",
            "::",
            "<",
            ": <",
            "é:é<é",
            "a:<=1",
            "*: *",
            "\u{0}: \u{0} == 1",
            "interval. < 1",
        ] {
            let _ = text.parse::<ScopedExpectation>();
        }
    }
}
