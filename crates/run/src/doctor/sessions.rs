//! What this machine allows sessions: of the system's TCP, and of ours.

use std::fs;

use serde::Serialize;
use wirebeat_sockets::machine;
use wirebeat_traffic::engines::{Ability, Engine};

use super::EngineCheck;

/// How long a client's port is not free again after it closed first (`TCP_TIMEWAIT_LEN` of include/net/tcp.h).
const TIME_WAIT_S: u64 = 60;

/// What sessions can have here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sessions {
    /// File descriptors that a process may have: each session of the system's TCP takes one. `null`: no limit.
    pub descriptors: Option<u64>,
    /// Ports that the system gives to clients, for each address that they come from and each server.
    pub client_ports: Option<u64>,
    /// New connections a second from one address to one server that last, where the client closes first and its port stays in TIME-WAIT
    /// for a minute; `null` where the system gives such ports to new connections (`net.ipv4.tcp_tw_reuse` = 1).
    pub starts_per_second: Option<u64>,
    /// Connections that may wait to be accepted (`net.core.somaxconn`).
    pub backlog: Option<u64>,
    /// The congestion control that is used where none is asked for.
    pub congestion: Option<String>,
    /// Those that can be asked for.
    pub congestions: Vec<String>,
    /// Whether the system has SCTP. It may load it when it is asked.
    pub sctp: bool,
    /// The engines that carry our own TCP and work here.
    pub own_stack: Vec<&'static str>,
}

/// Looks at the limits of this process and this namespace.
pub(super) fn look(engines: &[EngineCheck]) -> Sessions {
    let number = |path: &str| text(path)?.parse().ok();
    let client_ports = machine::ephemeral_ports().map(|ports| ports.len() as u64);
    let reuses = text("/proc/sys/net/ipv4/tcp_tw_reuse").is_some_and(|setting| setting == "1");
    let carries = |(engine, check): &(&Engine, &EngineCheck)| {
        engine.has_network() && engine.can(Ability::CarrySessions) && check.is_usable()
    };
    Sessions {
        descriptors: Some(machine::descriptors().1).filter(|most| *most < u64::MAX),
        client_ports,
        starts_per_second: client_ports.filter(|_| !reuses).map(|ports| ports / TIME_WAIT_S),
        backlog: number("/proc/sys/net/core/somaxconn"),
        congestion: text("/proc/sys/net/ipv4/tcp_congestion_control"),
        congestions: machine::congestion_controls(),
        sctp: machine::has_sctp(),
        own_stack: Engine::ALL
            .iter()
            .zip(engines)
            .filter(carries)
            .map(|(engine, _)| engine.name())
            .collect(),
    }
}

fn text(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
