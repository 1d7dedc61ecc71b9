//! A scenario as it is run: with the addresses, lengths, probes and ends that the compiler chose where nothing was written.
//!
//! It is a scenario again, and compiles to the same frames and deadlines on a machine that knows nothing of the links
//! (`tests/it/examples.rs` shows it for each example). What changes while a flow is sent (`at`) stays as it is written.

use wirebeat_units::{Bytes, Nanos};

use super::{CompileError, Link, Links, links, stack};
use crate::program::{Flow, Program};
use crate::scenario::header::Header;
use crate::scenario::header::payload::Payload;
use crate::scenario::size::{Length, Of};
use crate::scenario::{FlowSpec, PortSpec, Probe, Scenario, Size};

/// The scenario that `program` was compiled from with `links`, filled in.
pub fn as_run(scenario: &Scenario, links: &Links, program: &Program) -> Scenario {
    let mut whole = scenario.clone();
    for (name, port) in &mut whole.ports {
        if let Some(link) = links.ports.get(name) {
            fill_port(port, link);
        }
    }
    for (flow, (name, spec)) in program.flows.iter().zip(&mut whole.flows) {
        // A flow that was compiled has a packet that can be meant.
        if let Ok(Some(filled)) = packet(scenario, links, name, spec) {
            spec.packet = filled.into();
        }
        fill_flow(spec, flow, program);
    }
    whole
}

fn fill_port(port: &mut PortSpec, link: &Link) {
    port.speed = port.speed.or(link.speed.filter(|_| !link.speed_is_assumed));
    port.mtu = port.mtu.or(link.mtu.map(|mtu| Bytes::new(mtu.into())));
}

/// The headers with the addresses that were found; `None` where the system fills them in, or the packet is a whole frame.
fn packet(
    scenario: &Scenario,
    links: &Links,
    name: &str,
    spec: &FlowSpec,
) -> Result<Option<Vec<Header>>, CompileError> {
    let packet = spec.headers(name)?;
    let of_sockets = links.ports.get(&spec.from).is_some_and(Link::is_of_sockets);
    if packet.raw.is_some() || spec.is_captured() || of_sockets {
        return Ok(None);
    }
    match links::addresses(scenario, links, name, spec)? {
        Some(addresses) if addresses.source.is_unspecified() => Ok(None),
        addresses => {
            let mut headers = stack::stack(name, &packet, addresses.as_ref())?;
            if *packet.payload != Payload::default() {
                headers.push(Header::Payload(packet.payload.clone()));
            }
            Ok(Some(headers))
        }
    }
}

fn fill_flow(spec: &mut FlowSpec, flow: &Flow, program: &Program) {
    let streams = program.streams(flow.id.into());
    let Some(first) = streams.first() else { return };
    let Ok(packet) = spec.headers(&flow.name) else { return };
    let probe = match spec.probe {
        Probe::Auto => spec.carried(&packet).map_or(Probe::Off, Probe::Carried),
        written => written,
    };
    let own_length =
        packet.raw.is_none() && spec.replay.is_none() && spec.departures.file().is_none();
    let frame = first.frames.lengths().fixed().map(|length| length.buffer().with_fcs());
    let frame = frame.and_then(|frame| u16::try_from(frame).ok()).filter(|_| own_length);
    let size = frame.map(|bytes| Size::Fixed(Length { bytes, of: Of::Frame }));
    let stop = streams.iter().map(|stream| stream.departures.stop).max();
    let stop = stop.filter(|stop| *stop < Nanos::MAX && spec.at.keys().all(|at| at < stop));
    spec.probe = probe;
    spec.size = spec.size.take().or(size);
    spec.stop = spec.stop.or(stop);
}
