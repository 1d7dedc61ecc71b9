//! From the command line to a scenario: the same language, written out.

use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::payload::Payload;
use wirebeat_traffic::scenario::{FlowSpec, Probe, RunSpec, Scenario};
use wirebeat_units::fault;

use super::flow::FlowArgs;
use super::{Args, blame};
use crate::destination::Hosts;
use crate::failure::Failure;
use crate::sender::PORT;
use crate::values::Target;

/// The name of a flow that is given none, and the beginning of it for several.
pub const FLOW: &str = "flow";

/// The scenario that a command line means, checked.
pub fn scenario(args: &Args, hosts: &mut Hosts<'_>) -> Result<Scenario, Failure> {
    let usual = Scenario::default();
    let mut scenario = Scenario { seed: args.run.seed.unwrap_or(usual.seed), ..usual };
    scenario.ports.insert(PORT.to_owned(), args.port.spec());
    if args.flows.is_empty() {
        scenario.flows.insert(FLOW.to_owned(), flow(args, &args.flow, hosts)?);
    }
    for (number, named) in (1..).zip(&args.flows) {
        let name = named.name.clone().unwrap_or_else(|| format!("{FLOW}-{number}"));
        let place = format!("--flow name={name}");
        let own = named.flow.clone().or(&args.flow);
        let spec = flow(args, &own, hosts).map_err(|e| e.at(place.clone()))?;
        if scenario.flows.insert(name.clone(), spec).is_some() {
            let twice = fault!("two flows are named '{name}'"; "give each a name of its own");
            return Err(Failure::usage(twice).at(place));
        }
    }
    scenario.expect = args.expect.expect.clone();
    scenario.run = run(args);
    scenario.check().map_err(|problem| blame::invalid(&problem, &scenario))?;
    Ok(scenario)
}

fn run(args: &Args) -> RunSpec {
    let usual = args.run.start.run(args.run.time);
    RunSpec {
        late: args.run.late,
        drift: args.run.drift.unwrap_or(usual.drift),
        interval: args.report.interval.unwrap_or(usual.interval),
        ..usual
    }
}

/// Refuses a flow without a rate: frames as fast as the engine can are nothing to send by a slip.
pub fn check_rates(args: &Args) -> Result<(), Failure> {
    let has_rate = |flow: &FlowArgs| flow.rate.is_some() || args.flow.rate.is_some();
    let without = (1..).zip(&args.flows).find(|(_, named)| !has_rate(&named.flow));
    let place = match without {
        Some((number, named)) => {
            let name = named.name.clone().unwrap_or_else(|| format!("{FLOW}-{number}"));
            Some(format!("--flow name={name}"))
        }
        None if args.flows.is_empty() && !has_rate(&args.flow) => None,
        None => return Ok(()),
    };
    let why = fault!(
        "nothing says how fast to send";
        "give --rate, for example --rate 100kpps; --rate unlimited is as fast as the engine can"
    );
    let failure = Failure::usage(why);
    Err(match place {
        Some(place) => failure.at(place),
        None => failure,
    })
}

/// The source port of round trips: the first of those that are nobody's (RFC 6335 §6). The reflector sends what it gets from a port
/// below 1024 to nobody.
const REPLIES: u16 = 49_152;

fn flow(of: &Args, args: &FlowArgs, hosts: &mut Hosts<'_>) -> Result<FlowSpec, Failure> {
    let Some(to) = &args.to else {
        return Err(Failure::usage(
            fault!("there is no destination"; "give --to, for example --to 10.0.0.2:9"),
        ));
    };
    let usual = FlowSpec::from_port(PORT);
    let mut args = args.clone();
    if of.round_trips {
        args.packet.source_port.get_or_insert(REPLIES);
    }
    Ok(FlowSpec {
        // what comes back comes to the port that it left by
        to: of.round_trips.then(|| PORT.to_owned()),
        packet: packet(&args, hosts.resolve(to)?)?.into(),
        size: args.size.clone(),
        rate: args.rate.clone().unwrap_or_default(),
        departures: args.departures.clone().unwrap_or_default(),
        burst: args.burst.unwrap_or(usual.burst),
        count: args.count,
        probe: if args.no_probe { Probe::Off } else { Probe::Auto },
        ..usual
    })
}

fn packet(args: &FlowArgs, to: Target) -> Result<Vec<Header>, Failure> {
    let mut packet = args.packet.headers(to)?;
    match &args.payload {
        None | Some(Payload::Zeros) => {}
        Some(payload) => packet.push(Header::Payload(payload.clone())),
    }
    Ok(packet)
}
