//! How measures changed in the course of a long run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A measure in the course of a run, by a straight line through what it was in each interval (Theil and Sen), and its worst interval. The
/// first and the last interval of a flow or group are left out: they are not full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// The flow or the group of sessions; `null`: all flows together.
    pub of: Option<String>,
    /// What is measured.
    pub measure: TrendMeasure,
    /// Intervals that have a value.
    pub values: u64,
    /// The line at the start, in the unit of the measure; `null` for fewer than ten values. Where the line would begin or end below 0: the
    /// median of the first tenth of the values.
    pub first: Option<f64>,
    /// The line at the end; where `first` is a median, that of the last tenth.
    pub last: Option<f64>,
    /// By how much it changed, and its 95 % interval.
    pub change: Option<TrendChange>,
    /// The worst value of an interval: the longest delay, the lowest rate, the highest loss.
    pub worst: f64,
    /// When that interval began, from the start of the run.
    pub worst_from_ns: u64,
}

/// By how much a measure changed from the start to the end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrendChange {
    /// The estimate.
    pub value: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A measure of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrendMeasure {
    /// The median of the one-way delay, in nanoseconds.
    DelayP50,
    /// Its mean, where intervals were merged and have no median.
    DelayMean,
    /// Frames received per second.
    ReceivedRate,
    /// Frames lost of those sent, of 1.
    Loss,
    /// Sessions established per second.
    EstablishedRate,
    /// Responses received per second.
    ResponseRate,
}

impl TrendMeasure {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            TrendMeasure::DelayP50 => "delay p50",
            TrendMeasure::DelayMean => "delay mean",
            TrendMeasure::ReceivedRate => "received rate",
            TrendMeasure::Loss => "loss",
            TrendMeasure::EstablishedRate => "established",
            TrendMeasure::ResponseRate => "responses",
        }
    }

    /// Whether a high value is a bad one.
    pub const fn is_worse_high(self) -> bool {
        matches!(self, TrendMeasure::DelayP50 | TrendMeasure::DelayMean | TrendMeasure::Loss)
    }
}
