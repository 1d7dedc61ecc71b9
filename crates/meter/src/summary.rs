//! What a meter delivers: plain numbers that can be added.
//!
//! These types cross the control connection, so [`MeterSummary::validate`] says whether one that a
//! peer sent can be true. Arithmetic on them never panics, valid or not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::jitter::InterarrivalJitter;

/// Sums from which minimum, maximum, mean and standard deviation follow exactly. The unit is the
/// caller's (nanoseconds for times).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments {
    /// How many values.
    pub count: u64,
    /// The smallest; 0 when there is none.
    pub min: i64,
    /// The largest; 0 when there is none.
    pub max: i64,
    /// Their sum. Serialized as decimal text: few formats hold 128-bit numbers.
    #[serde(with = "decimal")]
    pub sum: i128,
    /// The sum of their squares, saturating. Serialized as decimal text.
    #[serde(with = "decimal")]
    pub sum_of_squares: u128,
}

/// Exact moments beside a log-linear histogram.
///
/// The histogram may hold fewer values than there were ([`Distribution::missing`]): those of a flow that has none of its
/// own are in [`MeterSummary::shared`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Exact moments.
    pub moments: Moments,
    /// Values below zero, which the histogram does not hold.
    pub negative: u64,
    /// The histogram: (bucket, count) of the buckets that are not empty, in order. Buckets are those
    /// of `crate::histogram`.
    pub buckets: Vec<(u16, u64)>,
}

/// Counts that follow from sequence numbers. How each arrival is judged: [`crate::sequence`].
///
/// `unique + duplicates + implausible` is the number of arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceSummary {
    /// Different sequence numbers seen.
    pub unique: u64,
    /// Arrivals whose number had been seen.
    pub duplicates: u64,
    /// Those of the duplicates that are no copies: they were sent after the highest number that had arrived by then, and
    /// not long after. So another sender uses the number of the flow, or this one began again at once.
    #[serde(default)]
    pub conflicting: u64,
    /// Arrivals (the first of their number) with a number below one seen before on the same receive
    /// queue (RFC 4737 §3.3).
    pub reordered: u64,
    /// Arrivals so far behind that the window can no longer tell new from duplicate; they count as
    /// unique and reordered.
    pub beyond_window: u64,
    /// Arrivals whose number fits nothing and that no next arrival confirmed: most likely forged or
    /// damaged. They count as nothing else.
    pub implausible: u64,
    /// How often the sender began to count from 0 again.
    pub restarts: u64,
    /// The lowest and highest number, unwrapped to 64 bits; `None` before the first. A flow whose first
    /// arrival carries `n` begins at 2^32 + `n`, and a restarted sender counts on after the highest.
    pub range: Option<(u64, u64)>,
    /// Numbers that the window told apart: a duplicate is known as one when it comes no more than so many behind the
    /// highest (at least `window - 31`). Where several were added, the smallest; 0 when nothing arrived.
    #[serde(default)]
    pub window: u64,
    /// Reordering extent in arrivals (RFC 4737 §4.2) of the reordered arrivals for which it is known.
    pub extent: Distribution,
}

/// A histogram with bins of one width, as asked for on the command line. Negative values are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearBins {
    /// Width of a bin in ns; bin `i` holds values from `i * width` up to the next bin.
    pub width: u64,
    /// The bins.
    pub counts: Vec<u64>,
    /// Values beyond the last bin.
    pub overflow: u64,
}

/// What was measured of one flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Frames received, duplicates included. A packet that came as fragments is one.
    pub frames: u64,
    /// Frames that came beside: the other fragments.
    pub fragments: u64,
    /// Their bytes with FCS.
    pub frame_bytes: u64,
    /// Their bytes of transport payload.
    pub payload_bytes: u64,
    /// Frames that the card was to stamp and did not: they are in all counts, and in no delay, no time between arrivals and
    /// nothing that follows from these.
    #[serde(default)]
    pub untimed: u64,
    /// Frames that only repeated that the flow has ended; they are in no other count.
    #[serde(default)]
    pub ends_repeated: u64,
    /// The earliest and the latest arrival time, in ns of the receiver's clock; `None` before the first.
    pub span: Option<(u64, u64)>,
    /// On how many queues it arrived, where what lies between two arrivals (inter-arrival time, delay variation) was
    /// measured within each of them; 1 where it was measured across all, and 0 when nothing arrived.
    #[serde(default)]
    pub queues: u32,
    /// Loss, duplicates, reordering.
    pub sequence: SequenceSummary,
    /// What was taken off each delay before it was recorded, in ns: 0 on one host; across hosts an
    /// estimate of how far the receiver's clock is ahead, so that the histogram keeps its resolution.
    pub delay_base: i64,
    /// One-way delay less [`FlowSummary::delay_base`] in ns, of the first arrival of each number.
    pub delay: Distribution,
    /// Absolute difference of the delays of consecutive arrivals in ns (RFC 4689 §3.2.5), duplicates
    /// left out.
    pub delay_variation: Distribution,
    /// Interarrival jitter (RFC 3550 §6.4.1) of the same differences, duplicates left out.
    #[serde(default)]
    pub interarrival_jitter: InterarrivalJitter,
    /// Time between consecutive arrivals in ns.
    pub inter_arrival: Distribution,
    /// Time between consecutive arrivals in bins of one width, where those were asked for.
    pub inter_arrival_bins: Option<LinearBins>,
    /// Absolute difference of inter-arrival time and the flow's nominal gap, in ns, where it has one.
    pub gap_error: Distribution,
    /// Those of them that were too short, which are in [`FlowSummary::gap_error`] too; `None` where nobody told them apart.
    #[serde(default)]
    pub gap_early: Option<Distribution>,
}

/// Histograms of the flows that have none of their own, added: (bucket, count) of the buckets that are not empty, in
/// order. Counts and moments of each of those flows are exact all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedHistograms {
    /// How many flows share them, in part or whole.
    pub flows: u32,
    /// Reordering extents in arrivals.
    #[serde(default)]
    pub extent: Vec<(u16, u64)>,
    /// One-way delays in ns, less each flow's base.
    pub delay: Vec<(u16, u64)>,
    /// Delay variations in ns.
    pub delay_variation: Vec<(u16, u64)>,
    /// Inter-arrival times in ns.
    pub inter_arrival: Vec<(u16, u64)>,
    /// Gap errors in ns.
    pub gap_error: Vec<(u16, u64)>,
    /// Those of gaps that were too short.
    #[serde(default)]
    pub gap_early: Vec<(u16, u64)>,
}

/// What a receiver measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterSummary {
    /// By the flow's number in the probe.
    pub flows: BTreeMap<u16, FlowSummary>,
    /// Datagrams that match the filter and carry no probe.
    pub unprobed: FlowSummary,
    /// Histograms of the flows that have none of their own.
    #[serde(default)]
    pub shared: SharedHistograms,
    /// Frames with a probe whose flow number is not expected, or beyond the bound on flows.
    pub unknown_flow: u64,
    /// Frames with a probe that was sent before the run began.
    pub stale: u64,
    /// Frames that do not match the filter.
    pub foreign: u64,
    /// Frames too short or inconsistent to be read.
    pub malformed: u64,
    /// IP fragments that made no whole packet here.
    pub fragments: u64,
    /// Frames that the receiving engine lost by itself.
    pub receiver_drops: u64,
}

/// Numbers as decimal text.
mod decimal {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub fn serialize<T: Display, S: Serializer>(number: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
