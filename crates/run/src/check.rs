//! What a run refuses on every machine: found from a scenario and its program alone. Nothing is opened, no interface is looked
//! for and nobody is asked. A run makes the same checks in `flows/`; here they are in the order in which it makes them.

use wirebeat_traffic::program::Program;
use wirebeat_traffic::scenario::Scenario;

use crate::engines::driver;
use crate::error::RunError;
use crate::flows::{VirtualPorts, check_clocks, check_ends, check_far};
use crate::lab::peers_of_ports;
use crate::options::Options;
use crate::ports;
use crate::prepared::check_parts;
use crate::remote;
use crate::tapping;

/// Refuses what a run of `scenario`, which was compiled to `program`, refuses on every machine: flows and sessions on a virtual
/// clock, flows to ports that receive nothing, ports on different clocks, keys of peers that are missing or cannot be read, and flows that the engine of their
/// port cannot send, and captures that nobody can make. Engines that are left to the machine are not asked.
///
/// # Errors
/// The first of them, as the run says it.
pub fn check_program(
    scenario: &Scenario,
    program: &Program,
    options: &Options,
) -> Result<(), RunError> {
    check_parts(scenario)?;
    let ports = ports::unlinked(scenario);
    let named = ports.into_iter().filter_map(|port| Some((port.spec.engine.engine()?, port)));
    let (engines, named): (Vec<_>, Vec<_>) = named.unzip();
    check_ends(program, &named, &engines)?;
    let all = scenario.ports.values().filter(|port| port.peer.is_none()).count();
    let virtual_ports = engines.iter().filter(|engine| engine.is_virtual()).count();
    let clocks = VirtualPorts { count: virtual_ports, of: all, controlled: false };
    check_clocks(clocks)?;
    for (_, peer) in peers_of_ports(scenario, options) {
        remote::check_key(&peer)?;
    }
    let is_far = |name: &str| scenario.ports.get(name).is_some_and(|port| port.peer.is_some());
    if program.flows.iter().any(|flow| is_far(&flow.from)) {
        check_far(clocks)?;
    }
    tapping::check(&ports::unlinked(scenario), program, options)?;
    for (port, engine) in named.iter().zip(engines) {
        driver(engine).check_flows(port, program, &program.flows_from(&port.name))?;
    }
    Ok(())
}
