//! What is kept of the frames of a port.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Bytes, Nanos};

use super::is_default;
use super::schema::{BytesText, TimeText};

/// A capture of the frames that a port receives or sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CaptureSpec {
    /// The file. Its ending says the format: `.pcapng` or `.pcap`, with `.zst` behind it compressed. With one of `rotate-…`
    /// each file has its number and time in its name.
    pub file: String,
    /// Whether a file that is there is written over. Default: no, the run is refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overwrite: bool,
    /// Which way the frames go. Default: those that the port receives.
    #[serde(default, skip_serializing_if = "is_default")]
    pub direction: CaptureDirection,
    /// Which frames that arrive are kept. Default: all that the receiver sees.
    #[serde(default, skip_serializing_if = "is_default")]
    pub frames: CapturedFrames,
    /// Keeps frames that this filter means, in the syntax of tcpdump (pcap-filter): `udp and dst port 53`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filter: Option<String>,
    /// Keeps frames of which the measurement finds this: `flow == voip and delay > 1ms`, `duplicate or reordered`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub only: Option<String>,
    /// How many frames before each of those that `only` means are kept as well.
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: u32,
    /// How many frames after each of those that `only` means are kept as well.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: u32,
    /// The most bytes of a frame that are kept, without FCS. Default: all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub snap_length: Option<u32>,
    /// The capture ends after so many frames; the run goes on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub count: Option<u64>,
    /// The capture ends after so many bytes in all files.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub size: Option<Bytes>,
    /// The capture ends after this time.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub duration: Option<Nanos>,
    /// Begins another file before one has more bytes than this.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub rotate_size: Option<Bytes>,
    /// Begins another file after this time.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub rotate_time: Option<Nanos>,
    /// Begins another file after so many frames.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rotate_count: Option<u64>,
    /// Keeps so many of these files, and removes the oldest. Default: all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub files: Option<u32>,
    /// Which frames have a comment that says their flow, number and what became of them. Default: those that are odd.
    #[serde(default, skip_serializing_if = "is_default")]
    pub comments: CaptureComments,
    /// Appends four bytes for the frame check sequence, for programs that want it. Default: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fcs: CaptureFcs,
}

/// Which way the frames of a capture go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CaptureDirection {
    /// They arrive at the port.
    #[default]
    Received,
    /// They leave by it.
    Sent,
    /// Both.
    Both,
}

impl CaptureDirection {
    /// Whether frames that arrive are kept.
    pub fn has_received(self) -> bool {
        self != CaptureDirection::Sent
    }

    /// Whether frames that leave are kept.
    pub fn has_sent(self) -> bool {
        self != CaptureDirection::Received
    }
}

/// Which frames that arrive are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapturedFrames {
    /// All that the receiver sees.
    #[default]
    All,
    /// Those that are measured.
    Measured,
}

/// The frame check sequence of captured frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CaptureFcs {
    /// Frames end before it.
    #[default]
    None,
    /// The CRC-32 of each frame that is whole in the file.
    Computed,
    /// Four zeros in its place.
    Zeros,
}

/// Which frames have a comment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CaptureComments {
    /// Those that are odd: duplicate, reordered, damaged …
    #[default]
    Odd,
    /// All that have a flow.
    All,
    /// None.
    None,
}
