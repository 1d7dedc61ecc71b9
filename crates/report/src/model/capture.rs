//! What was kept of the frames of a port.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The frames of a port that were kept in files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// What was kept of a frame.
    pub kind: CaptureKind,
    /// The port, by its name in the scenario; `null` of a receiver by itself, and of all ports.
    pub port: Option<String>,
    /// The files that are there, in the order in which they were begun, or the pipe; none where it went to standard output.
    pub files: Vec<String>,
    /// Frames that are in these files.
    pub frames: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Frames that a filter or a selection left out.
    pub filtered: u64,
    /// Frames that were measured and not kept, because the writer was slower than they came, or could not write them.
    pub lost: u64,
    /// Frames of files of a ring that were removed for newer ones.
    #[serde(default)]
    pub removed: u64,
    /// Where the times of the frames come from.
    pub timestamps: String,
    /// Why it ended before the run did; `null` where it did not.
    pub error: Option<String>,
}

/// What is kept of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaptureKind {
    /// Its bytes.
    Frames,
    /// A row of what was measured of it.
    PacketLog,
}
