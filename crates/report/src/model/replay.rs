//! What was recorded and sent again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Stats;

/// A recording that a flow sent. What became of its records as packets is in the flow's own counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// The flow's name.
    pub flow: String,
    /// Names of the archives or captures.
    pub archives: Vec<String>,
    /// Records, or frames of captures, that were read to be sent.
    pub records: u64,
    /// Copies of the capture that were begun; `null`: it was sent as it is.
    #[serde(default)]
    pub copies: Option<u64>,
    /// What was left out.
    pub left_out: Vec<LeftOut>,
    /// Records that came from the reader when they were due already. Their lateness is the reader's doing and not
    /// that of the way behind it.
    pub starved: u64,
    /// Records that were not sent because the flow paused, or was to send those of other sub-flows. They are among
    /// `records`, and were not asked for.
    pub passed_over: u64,
    /// Frames of captures whose times were before that of the frame before them; `null`: none were.
    pub held_back: Option<HeldBack>,
    /// Times between records that were shortened; `null`: none were.
    pub shortened: Option<Shortened>,
    /// Records that left out of their order; `null`: none were to.
    pub out_of_order: Option<OutOfOrder>,
}

/// Frames of captures whose times were before that of the frame before them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldBack {
    /// Frames that left right behind the one before them, later than their time says.
    pub frames: u64,
    /// How much later at the most, in nanoseconds of the recording.
    pub most_ns: u64,
    /// Where the first of them stands.
    pub first: String,
    /// Frames that were put in the order of their times, because a window for that was asked for.
    pub sorted: u64,
}

/// Times between records that were shortened, because that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shortened {
    /// How many.
    pub gaps: u64,
    /// By how many nanoseconds in all, as they were recorded.
    pub by_ns: u64,
}

/// Records that left out of their order, because that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutOfOrder {
    /// P: the share of records that was to be delayed, 0 to 1.
    pub probability: f64,
    /// T_w: by how many nanoseconds at the most.
    pub window_ns: u64,
    /// What the numbers in probes follow.
    pub numbers: ProbeNumbers,
    /// Records that were delayed.
    pub delayed: u64,
    /// By how many nanoseconds each of them was.
    pub delay_ns: Stats,
    /// Records that left behind one that follows them in the recording, on their transmit core (RFC 4737 §3.3).
    pub reordered: u64,
    /// Behind how many: departures since the first record that follows it (RFC 4737 §4.2.1).
    pub extent_records: Stats,
}

/// What the sequence numbers in probes follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeNumbers {
    /// There are no probes.
    #[default]
    None,
    /// The order of records: a receiver measures what left out of order.
    Records,
    /// The order of departures: a receiver measures the network alone.
    Departures,
}

/// What was left out of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// What was wrong.
    pub kind: String,
    /// Places at which something was left out.
    pub count: u64,
    /// Those of them that are one record, or one frame of a capture. How many records the other places held is not
    /// known: their lengths are wrong.
    #[serde(default)]
    pub records: u64,
    /// Bytes at these places, where they are counted: those of records that are invalid.
    #[serde(default)]
    pub bytes: u64,
    /// The first of them.
    pub first: String,
}
