//! Flows: streams of packets.

use std::num::{NonZeroU32, NonZeroU64};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Bytes, Nanos};
use wirebeat_wire::codec::Codec;
use wirebeat_wire::ip::Version;

use super::change::{Change, Settings};
use super::departures::Departures;
use super::expect::FlowExpectation;
use super::header::{Header, ipv4::Ipv4, udp::Udp};
use super::is_default;
use super::packet::Packet;
use super::probe::{Carried, Probe};
use super::rate::FlowRate;
use super::replay::Replay;
use super::schema::{BytesText, TimeText};
use super::shared::Shared;
use super::size::Size;
use super::sub_flows::SubFlows;

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
    #[serde(default = "default_packet", skip_serializing_if = "is_empty")]
    pub packet: Shared<Vec<Header>>,
    /// How many sub-flows there are at a time; patterns may advance with them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sub_flows: Option<SubFlows>,
    /// How long frames are. Default: the shortest that holds the headers and the probe, 64 bytes at
    /// least.
    #[serde(default, skip_serializing_if = "is_default")]
    pub size: Option<Size>,
    /// How fast. Default: as fast as the engine can, or as `departures` say.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rate: FlowRate,
    /// How the times between frames vary. Default: constant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub departures: Departures,
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
    /// No more bytes of frames than this, FCS included; the last frame may go beyond.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub bytes: Option<Bytes>,
    /// What changes while it sends, by the time from the start of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    #[serde(deserialize_with = "super::different::map")]
    #[schemars(with = "std::collections::BTreeMap<String, Change>")]
    pub at: IndexMap<Nanos, Change>,
    /// What is sent, if it was recorded: the payloads of the packets or whole frames, and their times.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replay: Option<Shared<Replay>>,
    /// What the receiver measures from. Default: the last 16 bytes of the payload are Wirebeat's probe; whole
    /// frames and what is replayed stay as they are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub probe: Probe,
    /// What has to come of it: where one is not met, the program ends with exit code 4.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expect: Vec<FlowExpectation>,
}

impl FlowSpec {
    /// A flow from a port with every other setting at its default.
    pub fn from_port(from: impl Into<String>) -> Self {
        FlowSpec {
            from: from.into(),
            to: None,
            packet: default_packet(),
            sub_flows: None,
            size: None,
            rate: FlowRate::default(),
            departures: Departures::Constant,
            burst: default_burst(),
            start: Nanos::ZERO,
            stop: None,
            count: None,
            bytes: None,
            at: IndexMap::new(),
            replay: None,
            probe: Probe::Auto,
            expect: Vec::new(),
        }
    }

    /// How many of the cores that send it send only what leaves out of its order.
    pub(crate) fn delayed_cores(&self) -> u16 {
        let out_of_order = self.replay.as_ref().and_then(|replay| replay.out_of_order);
        out_of_order.map_or(0, |some| some.cores)
    }

    /// Whether it is sent as fast as the engine can: nothing says how its frames follow one another.
    pub fn is_unlimited(&self) -> bool {
        match &self.replay {
            Some(replay) => replay.is_unlimited(),
            None => self.rate.is_unlimited() && self.departures == Departures::Constant,
        }
    }

    /// What of it can change while it sends.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            rate: Some(self.rate.clone()),
            departures: Some(self.departures.clone()),
            size: self.size.clone(),
            packet: Some(self.packet.clone()),
            sub_flows: None,
        }
    }

    /// Bytes of payload that the probe takes.
    pub(crate) fn probe_len(&self, packet: &Packet<'_>) -> usize {
        // The addresses that a probe repeats are those of the innermost network header.
        let innermost = packet.headers.iter().rev().find_map(|header| match header {
            Header::Ipv4(_) => Some(Version::V4),
            Header::Ipv6(_) => Some(Version::V6),
            _ => None,
        });
        let version = innermost.unwrap_or(Version::V4);
        self.carried(packet).map_or(0, |carried| carried.codec.min_len(version))
    }

    /// The probe that its frames carry, if they carry one.
    pub fn carried(&self, packet: &Packet<'_>) -> Option<Carried> {
        match self.probe {
            Probe::Auto if packet.raw.is_some() || self.replay.is_some() => None,
            Probe::Auto => Some(Carried { codec: Codec::Wirebeat, flow: None }),
            Probe::Carried(carried) => Some(carried),
            Probe::Off => None,
        }
    }
}

fn is_empty(packet: &Shared<Vec<Header>>) -> bool {
    packet.is_empty()
}

pub(super) fn default_packet() -> Shared<Vec<Header>> {
    vec![Header::Ipv4(Ipv4::default()), Header::Udp(Udp::default())].into()
}

fn default_burst() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn is_default_burst(burst: &NonZeroU32) -> bool {
    *burst == default_burst()
}
