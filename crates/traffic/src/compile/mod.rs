//! Lowers a scenario to a program: everything that can be decided before the first packet is.
//!
//! What depends on the machine (addresses, link speeds) comes in as [`Links`], so that compiling is
//! pure: the same scenario, links and seed give the same frames and deadlines everywhere. `links.rs`
//! finds the addresses of a flow, `template.rs` makes its frame, `departures.rs` says when its frames
//! leave.

mod departures;
mod links;
mod template;

use std::net::SocketAddr;

use crate::program::{Endpoint, Flow, Late, Program};
use crate::spec::{Invalid, LateChoice, Network, Scenario};

pub use links::{Destination, Link, Links, Route, destinations};

/// Why a scenario could not be compiled. Prints the key and what would mend it;
/// [`crate::spec::locate`] finds its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The scenario asks for what cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The scenario leaves something to this machine that it does not know.
    #[error("{0}")]
    Unknown(Invalid),
}

impl CompileError {
    /// The key and the reason.
    pub fn problem(&self) -> &Invalid {
        match self {
            CompileError::Invalid(problem) | CompileError::Unknown(problem) => problem,
        }
    }
}

/// Compiles `scenario` for the machine that `links` describe.
pub fn compile(scenario: &Scenario, links: &Links) -> Result<Program, CompileError> {
    scenario.check()?;
    let departures = departures::departures(scenario, links)?;
    let late = match scenario.run.late {
        LateChoice::Send => Late::Send,
        LateChoice::Drop => Late::Drop(scenario.run.drift),
    };
    let mut flows = Vec::with_capacity(scenario.flows.len());
    for (id, ((name, spec), departures)) in (0_u16..).zip(scenario.flows.iter().zip(departures)) {
        let packet = spec.headers(name)?;
        let addresses = links::addresses(scenario, links, name, spec)?;
        let (ttl, tos) = match packet.network {
            Network::V4(header) => (header.ttl, header.tos()),
            Network::V6(header) => (header.hop_limit, header.traffic_class()),
        };
        let endpoint = Endpoint {
            source: SocketAddr::new(addresses.source, packet.udp.source.unwrap_or(0)),
            destination: SocketAddr::new(addresses.destination, packet.udp.destination),
            ttl,
            tos,
            checksum: packet.udp.checksum,
        };
        flows.push(Flow {
            name: name.clone(),
            id,
            from: spec.from.clone(),
            to: spec.to.clone(),
            template: template::template(name, spec, id, &addresses)?,
            departures,
            late,
            endpoint,
        });
    }
    Ok(Program { seed: scenario.seed, flows })
}
