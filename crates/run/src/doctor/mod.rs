//! Usable engines, and sources of measurement error on this machine.
//!
//! [`diagnose`] tries each engine (`engines.rs`) without touching an interface that carries traffic, looks at what sessions can have
//! (`sessions.rs`), and judges the facts that `wirebeat-host` gathers (`rules.rs`, one rule for each). [`self_test`] sends on an interface that its
//! owner names (`selftest/`). The result is plain data; how it is shown is the business of control planes.

mod address;
mod engines;
mod rules;
mod selftest;
mod sessions;

use std::time::Duration;

use serde::Serialize;
use wirebeat_host::{CpuTimes, CpuUse, Machine, Noise, noise};
use wirebeat_netlink::{LinkLayer, Netlink, NetlinkError};
use wirebeat_traffic::engines::Engine;

pub use address::reachable_address;
pub use engines::{EngineCheck, Usability, probe};
pub use rules::Finding;
pub use selftest::{
    Load, Measured, SelfTest, SelfTestRequest, Trial, TrialResult, UNKNOWN_STATION, self_test,
};
pub use sessions::Sessions;
pub use wirebeat_host::Interface;

/// How long the noise of the machine is listened to. CPU time is counted in ticks of 10 ms, so that less
/// would say nothing of the time that a hypervisor takes.
const LISTEN: Duration = Duration::from_millis(500);

/// What is known after a look at the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Each engine, in the order of the table: the fastest first.
    pub engines: Vec<EngineCheck>,
    /// What sessions can have.
    pub sessions: Sessions,
    /// Sources of measurement error: the gravest first.
    pub findings: Vec<Finding>,
    /// The facts that the findings are made of.
    pub facts: Facts,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// The machine and this process's rights.
    pub machine: Machine,
    /// The interfaces of this namespace that carry Ethernet.
    pub interfaces: Vec<Interface>,
    /// How often a busy loop was stopped.
    pub noise: Noise,
    /// What the CPUs did meanwhile.
    pub cpu: CpuUse,
}

impl Diagnosis {
    /// Whether an engine works that sends to a network.
    pub fn can_send(&self) -> bool {
        let mut checks = Engine::ALL.iter().zip(&self.engines);
        checks.any(|(engine, check)| engine.has_network() && check.is_usable())
    }
}

/// Looks at the machine; takes about a second.
pub fn diagnose() -> Result<Diagnosis, NetlinkError> {
    let facts = Facts::gather()?;
    let engines = engines::check();
    let sessions = sessions::look(&engines);
    Ok(Diagnosis { engines, sessions, findings: rules::judge(&facts), facts })
}

impl Facts {
    fn gather() -> Result<Facts, NetlinkError> {
        let mut netlink = Netlink::open()?;
        let links = netlink.links().unwrap_or_default();
        let interfaces = links
            .iter()
            .filter(|link| link.layer == LinkLayer::Ethernet)
            .map(|link| Interface::observe(&mut netlink, link))
            .collect();
        let machine = Machine::observe();
        let before = CpuTimes::now();
        let noise = noise(LISTEN);
        Ok(Facts { machine, interfaces, noise, cpu: CpuTimes::now().since(&before) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnosis_names_every_engine_and_serializes() {
        let diagnosis = diagnose().unwrap();
        let names: Vec<_> = diagnosis.engines.iter().map(|engine| engine.engine).collect();
        let table: Vec<_> = Engine::ALL.iter().map(|engine| engine.name()).collect();
        assert_eq!(names, table);
        assert!(diagnosis.can_send());
        let json = serde_json::to_value(&diagnosis).unwrap();
        assert!(json["engines"][0]["usability"].is_object(), "{json}");
        assert!(diagnosis.sessions.client_ports.is_some_and(|ports| ports > 0));
        assert!(json["sessions"]["congestions"].as_array().is_some_and(|all| !all.is_empty()));
        assert!(json["facts"]["noise"]["elapsed_ns"].as_u64().unwrap() > 0);
    }

    #[test]
    fn engines_without_an_interface_of_their_own_work_wherever_tests_do() {
        for engine in Engine::ALL.iter().filter(|engine| !engine.needs_link()) {
            let check = probe(*engine);
            assert!(check.is_usable(), "{check:?}");
        }
    }
}
