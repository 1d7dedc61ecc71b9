//! From the command line to a scenario: the same language, written out.

use std::net::IpAddr;

use wirebeat_run::MacAddr;
use wirebeat_traffic::spec::header::Header;
use wirebeat_traffic::spec::header::checksum::Checksum;
use wirebeat_traffic::spec::header::ethernet::Ethernet;
use wirebeat_traffic::spec::header::ipv4::Ipv4;
use wirebeat_traffic::spec::header::ipv6::Ipv6;
use wirebeat_traffic::spec::header::payload::Payload;
use wirebeat_traffic::spec::header::udp::{DISCARD, Udp};
use wirebeat_traffic::spec::number::Number;
use wirebeat_traffic::spec::pattern::{Field, Mac};
use wirebeat_traffic::spec::{FlowSpec, PortSpec, Probe, RunSpec, Scenario};

use super::flow::FlowArgs;
use super::{Args, blame};
use crate::failure::Failure;
use crate::values::Target;

/// The name of the port that sends.
pub const PORT: &str = "sender";
/// The name of a flow that is given none, and the beginning of it for several.
pub const FLOW: &str = "flow";

/// The scenario that a command line means, checked.
pub fn scenario(args: &Args) -> Result<Scenario, Failure> {
    let usual = Scenario::default();
    let mut scenario = Scenario { seed: args.run.seed.unwrap_or(usual.seed), ..usual };
    scenario.ports.insert(PORT.to_owned(), port(args));
    if args.flows.is_empty() {
        scenario.flows.insert(FLOW.to_owned(), flow(&args.flow)?);
    }
    for (number, named) in (1..).zip(&args.flows) {
        let name = named.name.clone().unwrap_or_else(|| format!("{FLOW}-{number}"));
        let place = format!("--flow name={name}");
        let spec = flow(&named.flow.clone().or(&args.flow)).map_err(|e| e.at(place.clone()))?;
        if scenario.flows.insert(name.clone(), spec).is_some() {
            let twice = format!("two flows are named '{name}'; give each a name of its own");
            return Err(Failure::usage(&twice).at(place));
        }
    }
    scenario.run = run(args);
    scenario.check().map_err(|problem| blame::invalid(&problem, &scenario))?;
    Ok(scenario)
}

fn port(args: &Args) -> PortSpec {
    PortSpec {
        interface: args.port.interface.clone(),
        namespace: args.port.namespace.clone(),
        engine: args.port.engine,
        cores: args.port.cpu.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default(),
        queues: args.port.queues,
        speed: args.port.speed,
        ..PortSpec::default()
    }
}

fn run(args: &Args) -> RunSpec {
    let usual = RunSpec::default();
    RunSpec {
        time: args.run.time,
        start_at: args.run.start_at,
        wait: args.run.wait,
        late: args.run.late,
        drift: args.run.drift.unwrap_or(usual.drift),
        settle: args.run.settle.unwrap_or(usual.settle),
    }
}

fn flow(args: &FlowArgs) -> Result<FlowSpec, Failure> {
    let Some(to) = args.to else {
        return Err(Failure::usage(
            "there is no destination; give --to, for example --to 10.0.0.2:9",
        ));
    };
    let usual = FlowSpec::from_port(PORT);
    Ok(FlowSpec {
        packet: packet(args, to)?.into(),
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
    let mut packet = Vec::new();
    if args.source_mac.is_some() || args.destination_mac.is_some() {
        let field = |mac: Option<MacAddr>| mac.map(|mac| Field::Fixed(Mac(mac)));
        let (source, destination) = (field(args.source_mac), field(args.destination_mac));
        let ethernet = Ethernet { source, destination, ether_type: None };
        packet.push(Header::Ethernet(ethernet));
    }
    packet.push(network(args, to.address)?);
    packet.push(Header::Udp(Udp {
        source: args.source_port.map(number),
        destination: (to.port != DISCARD).then(|| number(to.port)),
        checksum: if args.no_udp_checksum { Checksum::Off } else { Checksum::On },
        ..Udp::default()
    }));
    match &args.payload {
        None | Some(Payload::Zeros) => {}
        Some(payload) => packet.push(Header::Payload(payload.clone())),
    }
    Ok(packet)
}

fn number(value: impl Into<u64>) -> Field<Number> {
    Field::Fixed(Number::new(value.into()))
}

fn network(args: &FlowArgs, to: IpAddr) -> Result<Header, Failure> {
    let mixed = |source: IpAddr| {
        let message = format!(
            "a packet from {source} to {to} cannot be; give both addresses of one family, IPv4 or IPv6"
        );
        Failure::usage(&message).at("--source")
    };
    match to {
        IpAddr::V4(destination) => {
            let source = match args.source {
                Some(IpAddr::V4(source)) => Some(source),
                Some(other) => return Err(mixed(other)),
                None => None,
            };
            let usual = Ipv4::default();
            Ok(Header::Ipv4(Ipv4 {
                source: source.map(Field::Fixed),
                destination: Some(Field::Fixed(destination)),
                ttl: args.ttl.map_or(usual.ttl.clone(), number),
                dscp: args.dscp.map(Field::Fixed),
                tos: args.tos.map(number),
                identification: args.ip_id.clone().unwrap_or_default(),
                ..usual
            }))
        }
        IpAddr::V6(destination) => {
            let source = match args.source {
                Some(IpAddr::V6(source)) => Some(source),
                Some(other) => return Err(mixed(other)),
                None => None,
            };
            if args.ip_id.is_some() {
                let message =
                    "IPv6 has no identification; leave --ip-id out, or send to an IPv4 address";
                return Err(Failure::usage(message).at("--ip-id"));
            }
            let usual = Ipv6::default();
            Ok(Header::Ipv6(Ipv6 {
                source: source.map(Field::Fixed),
                destination: Some(Field::Fixed(destination)),
                hop_limit: args.ttl.map_or(usual.hop_limit.clone(), number),
                dscp: args.dscp.map(Field::Fixed),
                traffic_class: args.tos.map(number),
                ..usual
            }))
        }
    }
}
