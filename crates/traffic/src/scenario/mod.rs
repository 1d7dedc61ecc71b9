//! The traffic language: what a person writes, as plain data.
//!
//! A [`Scenario`] names ports and flows and says how long to run. [`yaml`] reads and writes it,
//! [`Scenario::check`] finds what
//! is invalid, `header/` has one file for each header of a packet. The
//! language itself is described in `docs/scenario.md`, and as a JSON Schema ([`json_schema`]) that
//! editors use.
//!
//! Nothing here knows engines, files or the machine: an engine is a word that is passed on.

pub mod capture;
pub mod change;
mod check;
pub mod departures;
mod different;
mod error;
pub mod expect;
mod flow;
mod full;
pub mod header;
mod hosts;
pub(crate) mod lay;
pub mod number;
mod on_link_down;
mod packet;
pub mod pattern;
mod place;
mod port;
mod probe;
pub mod rate;
pub mod replay;
mod run;
pub(crate) mod schema;
pub mod session;
mod shared;
pub mod size;
mod sub_flows;
mod tagged;
pub mod yaml;

use std::net::IpAddr;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

pub use capture::CaptureSpec;
pub use change::Change;
pub use check::is_datagram;
pub use departures::Departures;
pub use error::{Invalid, KeyPath, Place, SpecError};
pub use expect::{FlowExpectation, FlowMeasured, ScopedExpectation};
pub use flow::FlowSpec;
pub use hosts::{CableSpec, HostsSpec};
pub use on_link_down::OnLinkDown;
pub use packet::{Network, Packet};
pub use port::{PortSpec, XdpModeChoice};
pub use probe::{Carried, Probe};
pub use rate::FlowRate;
pub use replay::Replay;
pub use run::{LateChoice, PriorityChoice, RunSpec, StaggerChoice, TimestampsChoice, WaitChoice};
pub use schema::json_schema;
pub use session::SessionSpec;
pub use shared::Shared;
pub use size::Size;
pub use sub_flows::{Order, SubFlows};

pub use crate::engines::EngineChoice;
pub use yaml::sources::{Reading, Sources};

/// The most flows of a scenario: a probe has 16 bits for the number of its flow.
pub const MAX_FLOWS: usize = 65_535;

/// What to send, from where, and for how long.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Seed of every random choice: the same seed gives the same traffic.
    #[serde(default = "default_seed", skip_serializing_if = "is_default_seed")]
    pub seed: u64,
    /// The ends of the links under test, by name.
    pub ports: IndexMap<String, PortSpec>,
    /// The streams of packets, by name. Their order is the order of their numbers.
    #[serde(default)]
    pub flows: IndexMap<String, FlowSpec>,
    /// Groups of TCP sessions, by name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sessions: IndexMap<String, SessionSpec>,
    /// A rate that groups of sessions share.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mix: Option<session::Mix>,
    /// What has to come of it: of all flows together, or of flows and groups by name. Where one is not met, the program ends
    /// with exit code 4.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expect: Vec<ScopedExpectation>,
    /// How long to run, and how exactly.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run: RunSpec,
}

impl Scenario {
    /// The first destination that a flow from the port `port` writes, in its packet or as an address of the port that it
    /// goes to. A port without interface sends by the one on the way there.
    pub fn destination_from(&self, port: &str) -> Option<IpAddr> {
        let mut mine = self.flows.iter().filter(|(_, flow)| flow.from == port);
        mine.find_map(|(name, flow)| {
            let network = flow.headers(name).ok()?.network?;
            let of_port = || {
                let there = &self.ports.get(flow.to.as_ref()?)?.addresses;
                there.iter().copied().find(|address| network.speaks(address))
            };
            network.destination().or_else(of_port)
        })
    }
}

/// Without what is at its default, and without flows where there are sessions instead.
impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Scenario { seed, ports, flows, sessions, mix, expect, run } = self;
        let has_flows = !flows.is_empty() || sessions.is_empty();
        let written = [
            !is_default_seed(seed),
            true,
            has_flows,
            !sessions.is_empty(),
            mix.is_some(),
            !expect.is_empty(),
            !is_default(run),
        ];
        let count = written.into_iter().filter(|written| *written).count();
        let mut map = serializer.serialize_struct("Scenario", count)?;
        if !is_default_seed(seed) {
            map.serialize_field("seed", seed)?;
        }
        map.serialize_field("ports", ports)?;
        if has_flows {
            map.serialize_field("flows", flows)?;
        }
        if !sessions.is_empty() {
            map.serialize_field("sessions", sessions)?;
        }
        if let Some(mix) = mix {
            map.serialize_field("mix", mix)?;
        }
        if !expect.is_empty() {
            map.serialize_field("expect", expect)?;
        }
        if !is_default(run) {
            map.serialize_field("run", run)?;
        }
        map.end()
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            seed: default_seed(),
            ports: IndexMap::new(),
            flows: IndexMap::new(),
            sessions: IndexMap::new(),
            mix: None,
            expect: Vec::new(),
            run: RunSpec::default(),
        }
    }
}

fn default_seed() -> u64 {
    1
}

fn is_default_seed(seed: &u64) -> bool {
    *seed == default_seed()
}

/// What is as it would be anyway is not written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
