//! What is known of a scenario before anything opens: interfaces and engines that were not written and had to be chosen, in
//! words for the person who waits, options that it has no use for, and what it plans to change.

use wirebeat_report::model::Change;
use wirebeat_traffic::program::{Flow, Program};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::fault;

use crate::control;
use crate::engines::{Ability, Choice, Engine};
use crate::error::RunError;
use crate::options::Options;
use crate::ports::ResolvedPort;

/// What was not written and had to be chosen on this machine: a sentence for each port.
pub(crate) fn chosen(
    scenario: &Scenario,
    ports: &[ResolvedPort],
    choices: &[Choice],
) -> Vec<String> {
    let of = |(port, choice): (&ResolvedPort, &Choice)| {
        let on_the_way = port.spec.interface.is_none().then_some(port.link.as_ref()).flatten();
        let to = scenario.destination_from(&port.name);
        let interface = on_the_way.zip(to).filter(|_| choice.engine.can(Ability::SeeHeaders));
        let interface = interface.map(|(link, to)| {
            format!(
                "port '{}' sends from {}, the interface on the way to {to}",
                port.name, link.name
            )
        });
        interface.into_iter().chain(choice.told(port))
    };
    ports.iter().zip(choices).flat_map(of).collect()
}

/// Captures that are there already, and that ports of the engine `pcap` write over.
pub(crate) fn overwritten<'a>(
    ports: &'a [ResolvedPort],
    engines: &'a [Engine],
    options: &'a Options,
) -> impl Iterator<Item = String> + use<'a> {
    let of = |(port, engine): (&ResolvedPort, &Engine)| {
        let file = port.spec.file.as_ref().filter(|_| engine.can(Ability::WriteFile))?;
        let path = options.path(file);
        path.is_file().then(|| {
            format!("port '{}' writes over {}, which was there already", port.name, path.display())
        })
    };
    ports.iter().zip(engines).filter_map(of)
}

/// That flows go to ports that receive, and leave from ports whose frames arrive somewhere.
pub(crate) fn check_ends(
    program: &Program,
    ports: &[ResolvedPort],
    engines: &[Engine],
) -> Result<(), RunError> {
    let engine = |name: &str| {
        let mut ends = ports.iter().zip(engines).filter(|(port, _)| port.name == name);
        ends.next().map(|(_, engine)| *engine)
    };
    let received = |flow: &'_ Flow| Some((flow.name.clone(), flow.from.clone(), flow.to.clone()?));
    for (flow, from, to) in program.flows.iter().filter_map(received) {
        let what = match (engine(&from), engine(&to)) {
            (_, Some(engine)) if !engine.can(Ability::Receive) => format!(
                "flow '{flow}' goes to port '{to}' of the engine '{engine}', which receives nothing"
            ),
            (Some(engine), _) if !engine.can(Ability::Deliver) => format!(
                "flow '{flow}' goes to port '{to}', and nothing arrives that port '{from}' of the engine '{engine}' sends"
            ),
            _ => continue,
        };
        return Err(RunError::usage(what).hint("leave 'to' out of the flow"));
    }
    Ok(())
}

/// Bins are counted where frames are received.
pub(super) fn check_bins(
    program: &Program,
    ports: &[ResolvedPort],
    options: &Options,
) -> Result<(), RunError> {
    let here =
        |flow: &Flow| flow.to.as_ref().is_some_and(|to| ports.iter().any(|port| port.name == *to));
    if options.bins.is_none() || program.flows.iter().any(here) {
        return Ok(());
    }
    Err(RunError::usage(match &options.peer {
        Some(_) => {
            fault!(
                "bins are of times between arrivals, and the receiver on the other host counts \
                 them";
                "give --bins to 'wirebeat receive' there, and the report here has them, too"
            )
        }
        None => {
            fault!(
                "bins are of times between arrivals, and nothing is received here";
                "leave --bins out, or give it to 'wirebeat receive'"
            )
        }
    }))
}

/// What a scenario plans to change.
pub(super) fn planned(scenario: &Scenario) -> Vec<Change> {
    let name = |flow: u32| {
        let flow = scenario.flows.get_index(flow as usize);
        flow.map_or("", |(name, _)| name.as_str())
    };
    let flows = (0..).zip(scenario.flows.values());
    let changes =
        flows.flat_map(|(flow, spec)| spec.at.iter().map(move |(&at, change)| (flow, at, change)));
    let mut planned = control::planned(changes, control::Of::Frames, name);
    planned.sort_by_key(|change| change.at_ns);
    planned
}
