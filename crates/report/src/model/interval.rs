//! What happened in each interval of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SessionInterval, StackInterval, Stats};

/// An interval of a run. All intervals together are the run: their counts add up to those of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// When it began, from the start of the run.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// All flows together.
    pub total: FlowInterval,
    /// Each flow of which something was sent, received or lost in it; none in runs of more than 256 flows.
    #[serde(default)]
    pub flows: Vec<FlowInterval>,
    /// What each group of sessions did; only in lines that are printed while a run goes on: the report has them in
    /// `session_intervals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionInterval>,
    /// What each port with our own TCP carried, and the states of its connections; only in lines, as `sessions`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackInterval>,
    /// Frames that were dropped because they were later than their flow's drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired: Option<u64>,
    /// CPU time that this process took, in CPUs: 1 is one CPU all the time. `null` where no time passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<GaugeReport>,
}

impl Interval {
    /// The same without the histograms of delays: they are for those who watch a run, and in no report.
    pub fn without_histograms(mut self) -> Interval {
        for flow in self.flows.iter_mut().chain([&mut self.total]) {
            let received = flow.received.as_mut();
            let delay = received.and_then(|received| received.one_way_delay_ns.as_mut());
            delay.into_iter().for_each(Stats::forget_histogram);
        }
        self
    }

    /// Whether it has one.
    pub fn has_histograms(&self) -> bool {
        let of = |flow: &FlowInterval| {
            let delay = flow.received.as_ref().and_then(|of| of.one_way_delay_ns.as_ref());
            delay.is_some_and(|delay| !delay.histogram.is_empty())
        };
        of(&self.total) || self.flows.iter().any(of)
    }
}

/// What happened to a flow in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowInterval {
    /// The flow's name.
    pub name: String,
    /// What left; `null` where no sender is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<IntervalSent>,
    /// What arrived; `null` without a receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<IntervalReceived>,
    /// Frames that were found to be lost, less those that arrived after they had been: negative where the latter are more. A
    /// frame is lost when a later one of its flow arrived in this interval and it did not within 20 ms (half of a shorter
    /// interval), or when it was sent a second ago and nothing came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<i64>,
    /// What stands out in an interval that several were merged to; absent where they were alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extremes: Option<IntervalExtremes>,
}

/// Of the intervals that were merged to one, those that stand out. Rates are there where one differs by more than a tenth from that of the
/// whole, losses where there were some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalExtremes {
    /// In which the fewest frames left in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_least: Option<IntervalPart>,
    /// In which the most frames left in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_most: Option<IntervalPart>,
    /// In which the fewest frames arrived in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_least: Option<IntervalPart>,
    /// In which the most frames arrived in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_most: Option<IntervalPart>,
    /// In which the most frames were found to be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_most: Option<IntervalPart>,
}

/// One of several intervals that were merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalPart {
    /// When it began, from the start of the run.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// Frames.
    pub frames: u64,
    /// Their bytes with FCS; 0 of lost ones, whose sizes nobody knows.
    pub frame_bytes: u64,
}

/// What left in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalSent {
    /// Frames.
    pub frames: u64,
    /// Their bytes with FCS.
    pub frame_bytes: u64,
}

/// What arrived in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalReceived {
    /// Frames, duplicates included.
    pub frames: u64,
    /// Their bytes with FCS.
    pub frame_bytes: u64,
    /// Different sequence numbers; 0 for flows without probes.
    pub unique: u64,
    /// Arrivals whose number had been seen.
    pub duplicates: u64,
    /// Arrivals with a number below one seen before.
    pub reordered: u64,
    /// One-way delay of the frames that arrived in this interval, without the histogram; minimum and maximum are within
    /// 0.8 %. `null` when the clocks of the two ends have no known offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_delay_ns: Option<Stats>,
}

/// A value that was looked at once in each interval of the given length, and is not summed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GaugeReport {
    /// The latest.
    pub last: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}
