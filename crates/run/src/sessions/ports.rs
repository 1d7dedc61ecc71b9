//! The ports of sessions: their namespaces, links and engines, and which of them are the ends of a link in memory.

use std::net::IpAddr;

use wirebeat_traffic::program::script::Sessions;
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::values::session::StackChoice;
use wirebeat_units::fault;

use super::simulated::{SimulatedEnd, Simulation};
use crate::engines::{Ability, Engine};
use crate::error::RunError;
use crate::options::Options;
use crate::ports::{self, ResolvedPort};

/// The ports of a scenario, with the links of those that our own TCP is on.
pub(super) fn find(
    scenario: &Scenario,
    sessions: &Sessions,
    options: &Options,
) -> Result<Vec<ResolvedPort>, RunError> {
    let mut found = ports::unlinked(scenario);
    for port in &mut found {
        port.namespace = ports::namespace(port.spec.namespace.as_deref(), &options.namespaces)?;
        let own = sessions.groups.iter().any(|group| {
            let ends = [&group.from, &group.to].into_iter().flatten();
            group.stack == StackChoice::Own && ends.into_iter().any(|end| *end == port.name)
        });
        if own && !engine(port)?.is_virtual() {
            port.link = match (&port.spec.interface, remote(sessions, &port.name)) {
                (None, Some(remote)) => Some(ports::link_towards(port, remote)?),
                _ => ports::link(port, scenario)?,
            };
        }
    }
    Ok(found)
}

/// An address that sessions of our own TCP at `port` go to.
fn remote(sessions: &Sessions, port: &str) -> Option<IpAddr> {
    let own = sessions.groups.iter().filter(|group| group.stack == StackChoice::Own);
    let mut from_here = own.filter(|group| group.from.as_deref() == Some(port));
    from_here.find_map(|group| group.servers.pool.addresses.get(0))
}

/// The engine of a port that our own TCP is on.
pub(super) fn engine(port: &ResolvedPort) -> Result<Engine, RunError> {
    let carries = |engine: Engine| engine.can(Ability::CarrySessions);
    // one that goes on any interface, and leaves the system's own TCP as fast as it was
    let unasked = || Engine::ALL.iter().copied().find(|engine| engine.can(Ability::CarryUnasked));
    let engine = port.spec.engine.engine().or_else(unasked);
    engine.filter(|&engine| carries(engine)).ok_or_else(|| {
        let name = engine.map_or("auto", Engine::name);
        RunError::usage(
            fault!("our own TCP does not run over the engine {name}"; "use one of: {}", Engine::names(carries))
                .at(format!("ports.{}.engine", port.name)),
        )
    })
}

/// The run in no time that these ends are; `real`: others of the run are not.
pub(super) fn simulation(
    ends: Vec<SimulatedEnd>,
    scenario: &Scenario,
    options: &Options,
    real: bool,
) -> Result<Option<Simulation>, RunError> {
    if ends.is_empty() {
        return Ok(None);
    }
    if real {
        return Err(RunError::usage(fault!(
            "some sessions take real time and others none"; "run them one after the other"
        )));
    }
    let count = ends.len();
    let Ok(ends) = <[SimulatedEnd; 2]>::try_from(ends) else {
        return Err(RunError::usage(fault!(
            "a link in memory has two ends, and sessions are at {count} of its ports";
            "have all sessions go from one port to the other, 'from: a' and 'to: b'"
        )));
    };
    Ok(Some(Simulation {
        ends,
        seed: scenario.seed,
        drift: super::drift(scenario),
        settle: scenario.run.settle,
        interval: options.interval.unwrap_or(scenario.run.interval),
        time: scenario.run.time,
    }))
}
