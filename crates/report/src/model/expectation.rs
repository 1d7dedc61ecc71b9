//! What was expected of a run, and what came of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was expected, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// As it was written: "response.p99 < 5ms".
    pub text: String,
    /// What was measured, in words; "nothing was measured" where nothing was.
    pub measured: String,
    /// What was measured, in `unit`: of intervals the worst, of a range its lower end. Absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_value: Option<f64>,
    /// The upper end, in `unit`, where what was measured is known to within a range only. Absent where it is known exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_up_to: Option<f64>,
    /// What it is held against, in `unit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The unit of the numbers: "ns", "ratio" (of 1), "per second", "bit/s" or "count". Absent where there are no numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether it was met. Neither an unmet nor an undecided one is.
    pub met: bool,
    /// Why it is undecided: what is asked for is not known, or too few values were measured. Absent where it is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
    /// How far an unmet one is from what was expected, in words: "0.31 ms too much". Absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<String>,
}

impl Expectation {
    /// What was measured where nothing was.
    pub const NOTHING: &'static str = "nothing was measured";

    /// What was found in words: what was measured, by how much that misses, and why it is undecided.
    pub fn found(&self) -> String {
        let measured = &self.measured;
        match (&self.undecided, &self.margin) {
            (Some(why), _) if measured == Expectation::NOTHING => why.clone(),
            (Some(more), _) | (None, Some(more)) => format!("measured {measured}: {more}"),
            (None, None) => format!("measured {measured}"),
        }
    }

    /// Its outcome in a word.
    pub fn outcome(&self) -> &'static str {
        match (self.met, &self.undecided) {
            (true, _) => "PASS",
            (false, None) => "FAIL",
            (false, Some(_)) => "UNDECIDED",
        }
    }
}

/// An expectation, and whom it is about.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The name of the flow or of the group of sessions; `None`: all flows together.
    pub of: Option<&'a str>,
    /// What was expected.
    pub expectation: &'a Expectation,
}

impl Expected<'_> {
    /// Whom it is about, in words.
    pub fn whom(&self) -> &str {
        self.of.unwrap_or("all flows")
    }

    /// As it is written in a scenario: "voice: loss <= 0.01%".
    pub fn text(&self) -> String {
        let text = &self.expectation.text;
        self.of.map_or_else(|| text.clone(), |of| format!("{of}: {text}"))
    }
}
