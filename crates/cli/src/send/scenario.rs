//! From the command line to a scenario: the same language, written out.

use std::net::IpAddr;

use wirebeat_traffic::spec::header::Header;
use wirebeat_traffic::spec::header::ethernet::Ethernet;
use wirebeat_traffic::spec::header::ipv4::Ipv4;
use wirebeat_traffic::spec::header::ipv6::Ipv6;
use wirebeat_traffic::spec::header::payload::Payload;
use wirebeat_traffic::spec::header::udp::Udp;
use wirebeat_traffic::spec::{FlowSpec, PortSpec, RunSpec, Scenario};

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
        packet: packet(args, to)?,
        size: args.size,
        rate: args.rate.unwrap_or(usual.rate),
        burst: args.burst.unwrap_or(usual.burst),
        count: args.count,
        probe: !args.no_probe,
        ..usual
    })
}

fn packet(args: &FlowArgs, to: Target) -> Result<Vec<Header>, Failure> {
    let mut packet = Vec::new();
    if args.source_mac.is_some() || args.destination_mac.is_some() {
        let ethernet = Ethernet { source: args.source_mac, destination: args.destination_mac };
        packet.push(Header::Ethernet(ethernet));
    }
    packet.push(network(args, to.address)?);
    packet.push(Header::Udp(Udp {
        source: args.source_port,
        destination: to.port,
        checksum: !args.no_udp_checksum,
    }));
    match &args.payload {
        None | Some(Payload::Zeros) => {}
        Some(payload) => packet.push(Header::Payload(payload.clone())),
    }
    Ok(packet)
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
                source,
                destination: Some(destination),
                ttl: args.ttl.unwrap_or(usual.ttl),
                dscp: args.dscp,
                tos: args.tos,
                identification: args.ip_id.unwrap_or(usual.identification),
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
                source,
                destination: Some(destination),
                hop_limit: args.ttl.unwrap_or(usual.hop_limit),
                dscp: args.dscp,
                traffic_class: args.tos,
                ..usual
            }))
        }
    }
}
