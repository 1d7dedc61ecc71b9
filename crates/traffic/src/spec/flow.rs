//! Flows: streams of packets.

use std::num::{NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{FrameLen, Nanos, Rate};

use super::header::{Header, ipv4::Ipv4, udp::Udp};
use super::is_default;
use super::schema::{LengthText, RateText, SwitchText, TimeText};

/// A stream of packets from a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FlowSpec {
    /// The port that sends.
    pub from: String,
    /// The port that receives and measures. Without it only the sender's side is reported.
    #[serde(default, skip_serializing_if = "is_default")]
    pub to: Option<String>,
    /// The headers from the outside in, then the payload.
    #[serde(default = "default_packet")]
    pub packet: Vec<Header>,
    /// Length of the frame with FCS. Default: the shortest that holds the headers and the probe, 64
    /// bytes at least.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<LengthText>")]
    pub size: Option<FrameLen>,
    /// How fast. Default: as fast as the engine can.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "RateText")]
    pub rate: Rate,
    /// Frames that leave back to back; the pause after them keeps the mean rate.
    #[serde(default = "default_burst", skip_serializing_if = "is_default_burst")]
    pub burst: NonZeroU32,
    /// When the first frame is due, from the start of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "TimeText")]
    pub start: Nanos,
    /// No frame is due at or after this, from the start of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub stop: Option<Nanos>,
    /// No more frames than this.
    #[serde(default, skip_serializing_if = "is_default")]
    pub count: Option<NonZeroU64>,
    /// Whether the last 16 bytes of the payload are Wirebeat's probe, from which the receiver measures.
    #[serde(default = "on", skip_serializing_if = "is_on")]
    #[schemars(with = "SwitchText")]
    pub probe: bool,
}

impl FlowSpec {
    /// A flow from a port with every other setting at its default.
    pub fn from_port(from: impl Into<String>) -> Self {
        FlowSpec {
            from: from.into(),
            to: None,
            packet: default_packet(),
            size: None,
            rate: Rate::Unlimited,
            burst: default_burst(),
            start: Nanos::ZERO,
            stop: None,
            count: None,
            probe: true,
        }
    }
}

fn default_packet() -> Vec<Header> {
    vec![Header::Ipv4(Ipv4::default()), Header::Udp(Udp::default())]
}

fn default_burst() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn is_default_burst(burst: &NonZeroU32) -> bool {
    *burst == default_burst()
}

/// For switches that are on unless they are turned off.
pub(super) fn on() -> bool {
    true
}

/// For switches that are on unless they are turned off.
pub(super) fn is_on(switch: &bool) -> bool {
    *switch
}
