//! What was sent, received and lost of a flow, or of all flows together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Expectation;
use super::stats::{Bins, Stats};

/// A flow, or all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowReport {
    /// Its name; "total" for all together.
    pub name: String,
    /// Its number in probes; `null` for flows without probes and for the total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u16>,
    /// How long its frames are by the scenario; absent where only a receiver reported, and for the total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// The sender's side; `null` when only a receiver reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// The receiver's side; `null` when only a sender reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Received>,
    /// What is missing; `null` when that cannot be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Why its receiver could not tell its frames from others, so that `received` and `loss` are `null`; `null` where
    /// it could, and for a flow that nobody was to receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
    /// Of a member: the number of its sub-flow, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_flow: Option<u32>,
    /// What was expected of it, and what came of it; absent where nothing was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// Parts of it that were counted and measured each by itself; `null` where there are none. It is all of them and
    /// what belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Members>,
}

/// How long the packets of a flow are, in bytes, by its scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// Frames, with header, padding and FCS; of a packet that leaves as IP fragments all of them together.
    pub frame_bytes: LengthRange,
    /// Packets: from the Ethernet header on, without padding and FCS.
    pub packet_bytes: LengthRange,
    /// What follows the headers, with the probe.
    pub payload_bytes: LengthRange,
}

/// The range of a length, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LengthRange {
    /// The shortest.
    pub min: u32,
    /// The longest.
    pub max: u32,
    /// On average; absent where all are equally long, where that is not known beforehand (a replay), and where it changes while
    /// the flow is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
}

/// Parts of a flow. They have no histograms: those of the flow are theirs, added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Members {
    /// What they are.
    pub are: MemberKind,
    /// Each of them.
    pub flows: Vec<FlowReport>,
}

/// What the members of a flow are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemberKind {
    /// What is recorded of a device.
    #[default]
    Device,
    /// A sub-flow.
    SubFlow,
}

/// The share of a load that has to be sent, so that it counts as offered.
pub const OFFERED: f64 = 0.999;

impl FlowReport {
    /// The share that was sent of what was asked, where that is less than [`OFFERED`]. A frame more or less is no other load.
    pub fn short_share(&self) -> Option<f64> {
        let sent = self.sent.as_ref()?;
        let (asked, left) = (sent.requested.frames, sent.sent.frames);
        let share = left as f64 / asked.max(1) as f64;
        (asked.saturating_sub(left) > 1 && share < OFFERED).then_some(share)
    }

    /// The same with the numbers that distributions come to, and without the histograms behind them.
    #[must_use]
    pub fn without_histograms(mut self) -> FlowReport {
        self.distributions().for_each(Stats::forget_histogram);
        self
    }

    /// All of its distributions.
    pub(super) fn distributions(&mut self) -> impl Iterator<Item = &mut Stats> {
        let sent = self.sent.iter_mut().flat_map(Sent::distributions);
        sent.chain(self.received.iter_mut().flat_map(Received::distributions))
    }
}

impl Received {
    /// All of its distributions.
    pub(crate) fn distributions(&mut self) -> impl Iterator<Item = &mut Stats> {
        let all = [
            &mut self.reordering_extent_frames,
            &mut self.jitter_rfc4689_ns,
            &mut self.delay_above_minimum_rfc5481_ns,
            &mut self.inter_arrival_ns,
            &mut self.gap_error_ns,
            &mut self.signed_gap_error_ns,
        ];
        all.into_iter().chain(self.one_way_delay_ns.as_mut())
    }
}

/// An amount of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Frames. The IP fragments of a packet count as one.
    pub frames: u64,
    /// Frames on the wire beside those: the other fragments.
    pub fragments: u64,
    /// Their bytes, header and FCS included.
    pub frame_bytes: u64,
    /// Their bytes after the transport header.
    pub payload_bytes: u64,
}

/// A rate, counted in four ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Frames per second.
    pub frames_per_second: f64,
    /// Bits per second on the line: frames with preamble, start delimiter and inter-packet gap.
    pub line_bits_per_second: f64,
    /// Bits per second of frames, header and FCS included.
    pub frame_bits_per_second: f64,
    /// Bits per second after the transport header.
    pub payload_bits_per_second: f64,
}

/// What the sender did. `requested.frames = sent.frames + expired + not_reached + failed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// What the schedule asked for until the run ended.
    pub requested: Volume,
    /// What the engine accepted.
    pub sent: Volume,
    /// Frames dropped because they were later than the flow's drift.
    pub expired: u64,
    /// Frames that the run ended before: they were due in its time, and the sender did not come to them.
    pub not_reached: u64,
    /// There were more of these, too many to be counted in a moment; so many more were requested, too. Left out where all
    /// were counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_reached_at_least: bool,
    /// Frames that the engine or the system refused.
    pub failed: u64,
    /// Frames sent later than `late_after_ns`.
    pub late: u64,
    /// From which send lateness on a frame counts as late.
    pub late_after_ns: u64,
    /// Transmit queues that it was spread over: more than one do not keep its order. Of the total: the most of any flow.
    #[serde(default)]
    pub queues: u32,
    /// Whether late frames are dropped: then none of those sent should be late.
    #[serde(default)]
    pub drops_late: bool,
    /// The rate that was asked for, on average; `null` for as fast as possible, and where there is no average: what is
    /// replayed has its own times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Rates>,
    /// The rate between first and last departure; `null` for fewer than two. Where the rate was to change with time, and
    /// where frames were asked for that were not sent: of those that were, in the time in which all were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Rates>,
    /// How far the sent rate is from the offered, in millionths of it. For the total: the mean of the
    /// flows, weighted by their frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_error_ppm: Option<f64>,
    /// The first departure, from the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_departure_ns: Option<u64>,
    /// The last departure, from the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_departure_ns: Option<u64>,
    /// Departure time less deadline.
    pub send_lateness_ns: Stats,
    /// Time between consecutive departures of frames that had deadlines, by the sender's clock. Without values for a flow on
    /// several transmit queues, and for flows without deadlines.
    #[serde(default)]
    pub inter_departure_ns: Stats,
    /// Absolute difference of that time and the one that was planned.
    #[serde(default)]
    pub gap_error_ns: Stats,
    /// The same with its sign: negative where a gap was shorter than planned.
    #[serde(default)]
    pub signed_gap_error_ns: Stats,
}

impl Sent {
    /// All of its distributions.
    pub(crate) fn distributions(&mut self) -> [&mut Stats; 4] {
        [
            &mut self.send_lateness_ns,
            &mut self.inter_departure_ns,
            &mut self.gap_error_ns,
            &mut self.signed_gap_error_ns,
        ]
    }

    /// What stands before the frames that were requested, or not reached, where not all of them were counted.
    pub(crate) fn at_least(&self) -> &'static str {
        if self.not_reached_at_least { "at least " } else { "" }
    }
}

/// What the receiver counted. For frames with probes,
/// `received.frames = unique + duplicates + implausible`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Received {
    /// Everything that arrived, duplicates included.
    pub received: Volume,
    /// Different sequence numbers; 0 for flows without probes.
    pub unique: u64,
    /// Arrivals whose number had been seen.
    pub duplicates: u64,
    /// Those of the duplicates that are no copies, because they were sent after higher numbers had been: another sender
    /// uses the number of the flow, or its sender began again at once.
    #[serde(default)]
    pub conflicting: u64,
    /// Arrivals with a number below one seen before (RFC 4737 §3.3).
    pub reordered: u64,
    /// Reordered of unique (RFC 4737 §4.1); `null` when nothing arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered_ratio: Option<f64>,
    /// Arrivals too far behind to tell new from duplicate; they are among unique and reordered.
    pub beyond_window: u64,
    /// Arrivals whose number cannot be right; they count as nothing else.
    pub implausible: u64,
    /// How often the sender began to count from 0 again.
    pub restarts: u64,
    /// Frames that only repeated that the flow has ended, as clients of iperf 2 send them until they are answered; they
    /// are in no other count.
    #[serde(default)]
    pub ends_repeated: u64,
    /// Frames that the card was to stamp and did not: they are in all counts, and in no delay and no time between arrivals.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unstamped: u64,
    /// Numbers that the receiver's window told apart: a duplicate that comes further behind counts as unique and
    /// `beyond_window`; 0 when no numbers came.
    #[serde(default)]
    pub window_frames: u64,
    /// On how many queues the flow arrived, where what lies between two arrivals was measured within each of them:
    /// `inter_arrival_ns` and `jitter_rfc4689_ns` are then not those of the whole flow, and `gap_error_ns` is
    /// not measured. `null` where they are measured across all queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_within_queues: Option<u32>,
    /// How late reordered frames were, in arrivals (RFC 4737 §4.2).
    pub reordering_extent_frames: Stats,
    /// The rate between first and last arrival, or over the time that the sent rate is counted over where that is longer: what was lost before
    /// the first arrival and after the last did not come faster for it. `null` for fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Rates>,
    /// Time from the first to the last arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_ns: Option<u64>,
    /// One-way delay (RFC 7679); `null` when the clocks of the two ends have no known offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_delay_ns: Option<Stats>,
    /// Absolute difference of the delays of consecutive arrivals (RFC 4689 §3.2.5).
    pub jitter_rfc4689_ns: Stats,
    /// Interarrival jitter (RFC 3550 §6.4.1): the running estimate after the last arrival, of the differences of
    /// `jitter_rfc4689_ns`; `null` before the second arrival, for several receive queues, and for the
    /// total of several flows, where it is not defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_rfc3550_ns: Option<f64>,
    /// Delay less the smallest delay (RFC 5481 §4.2).
    pub delay_above_minimum_rfc5481_ns: Stats,
    /// Time between consecutive arrivals.
    pub inter_arrival_ns: Stats,
    /// The same in bins of one width, where those were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inter_arrival_bins: Option<Bins>,
    /// Absolute difference of the time between consecutive arrivals and the flow's nominal gap.
    pub gap_error_ns: Stats,
    /// The same with its sign: negative where a gap was shorter than the nominal one. Without values where nobody told them apart.
    #[serde(default)]
    pub signed_gap_error_ns: Stats,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Frames that did not arrive.
    pub frames: u64,
    /// The most that they can be: arrivals beyond the receiver's window (`beyond_window`) count as unique, and each that was
    /// a duplicate hides a loss. The same as `frames` where there are none; `null` on another basis than sent less unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
    /// Lost of sent (or of expected); `null` when nothing was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// How it is known.
    pub basis: LossBasis,
}

/// How loss is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossBasis {
    /// Frames sent less different sequence numbers received: exact.
    SentLessUnique,
    /// Frames sent less frames received with the flow's headers: flows without probes, of which duplicates and other
    /// traffic with the same headers hide losses.
    SentLessReceived,
    /// Sequence numbers missing between the lowest and the highest received: frames lost before the
    /// first and after the last arrival are not known.
    MissingNumbers,
    /// Different bases in different flows.
    Mixed,
}
