//! What was recorded and sent again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A recording that a flow sent. What became of its records as packets is in the flow's own counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// The flow's name.
    pub flow: String,
    /// Names of the archives or captures.
    pub archives: Vec<String>,
    /// Records, or frames of captures, that were read to be sent.
    pub records: u64,
    /// What was left out.
    pub left_out: Vec<LeftOut>,
    /// Records that came from the reader when they were due already. Their lateness is the reader's doing and not
    /// that of the way behind it.
    pub starved: u64,
    /// Records that were not sent because the flow paused, or was to send those of other sub-flows. They are among
    /// `records`, and were not asked for.
    pub passed_over: u64,
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
