//! How a port recognises the frames of each flow that is sent to it: by probes, by headers that no other flow has, or not
//! at all. What a receiver cannot recognise is not measured; it is never lost.

use std::net::SocketAddr;

use wirebeat_engine_linux::kernel::KernelReceiver;
use wirebeat_meter::headers::HeaderTable;
use wirebeat_report::assemble::Attribution;
use wirebeat_traffic::program::{Flow, NoHeaders, Program};
use wirebeat_wire::headers::HeaderMatch;

use crate::engines::Engine;

/// The most flows without probes that one port tells apart: each is compared with all others once.
const FLOWS_MAX: usize = 4096;

/// How a port recognises the flows to it.
#[derive(Debug, Default)]
pub(crate) struct Attributions {
    /// Of each flow, by its number.
    pub(crate) flows: Vec<(u16, Attribution)>,
    /// The headers of those that are known by theirs.
    pub(crate) headers: HeaderTable,
}

/// A flow without a probe, and the headers of its frames.
type Known<'a> = (&'a Flow, Vec<HeaderMatch>);

/// How a port that receives by `engine`, and by sockets at `listen`, recognises `flows`.
pub(crate) fn attribute(
    program: &Program,
    flows: &[&Flow],
    (engine, listen): (Engine, &[SocketAddr]),
) -> Attributions {
    let mut out = Attributions::default();
    let (probed, bare): (Vec<&Flow>, Vec<&Flow>) =
        flows.iter().partition(|flow| program.codec(flow.id.into()).is_some());
    for flow in probed {
        let heard = engine != Engine::Socket || is_heard(flow, listen);
        let how = if heard { Attribution::Probe } else { not_heard() };
        out.flows.push((flow.id, how));
    }
    match engine {
        Engine::Socket => {
            let datagrams = bare.iter().filter(|flow| is_heard(flow, listen)).count();
            let of = |flow: &&Flow| match (is_heard(flow, listen), datagrams) {
                (false, _) => not_heard(),
                (true, 1) => Attribution::Unprobed,
                (true, _) => not_measured(
                    "the engine 'socket' sees no headers, and several flows without probes reach its port",
                ),
            };
            out.flows.extend(bare.iter().map(|flow| (flow.id, of(flow))));
        }
        Engine::Kernel => by_headers(program, &bare, KernelReceiver::HEADER_MASKS, &mut out),
        Engine::Packet | Engine::Loopback | Engine::Pcap => {
            by_headers(program, &bare, usize::MAX, &mut out);
        }
    }
    out
}

fn not_measured(why: impl Into<String>) -> Attribution {
    Attribution::NotMeasured(why.into())
}

fn not_heard() -> Attribution {
    not_measured(
        "the engine 'socket' receives datagrams at fixed addresses and ports, and these are none of them",
    )
}

/// Whether a socket listens where the flow goes.
fn is_heard(flow: &Flow, listen: &[SocketAddr]) -> bool {
    flow.endpoint.is_some() || flow.destinations.iter().any(|to| listen.contains(to))
}

/// Whether a flow is of UDP and nothing else.
fn is_udp(program: &Program, flow: &Flow) -> bool {
    let headers = program.headers(flow);
    headers.is_ok_and(|all| !all.is_empty() && all.iter().all(HeaderMatch::is_udp))
}

/// Recognises flows without probes by headers that are theirs alone, of which so many different sets of fields may change.
fn by_headers(program: &Program, flows: &[&Flow], masks: usize, out: &mut Attributions) {
    if flows.len() > FLOWS_MAX {
        let why = format!("more than {FLOWS_MAX} flows without probes reach its port");
        out.flows.extend(flows.iter().map(|flow| (flow.id, not_measured(why.clone()))));
        return;
    }
    let mut known: Vec<Known<'_>> = Vec::with_capacity(flows.len());
    for &flow in flows {
        match program.headers(flow) {
            Ok(headers) => known.push((flow, headers)),
            Err(NoHeaders::Recorded) => out.flows.push((
                flow.id,
                not_measured(
                    "its frames are recorded, and have no probes and headers of their own",
                ),
            )),
            Err(NoHeaders::Changing) => out.flows.push((
                flow.id,
                not_measured(
                    "it has no probes, and its frames are of kinds that change, or fragments",
                ),
            )),
        }
    }
    for (flow, headers) in &known {
        let shared = |(other, theirs): &&Known<'_>| {
            other.id != flow.id
                && theirs.iter().any(|their| headers.iter().any(|own| own.overlaps(their)))
        };
        if let Some((other, _)) = known.iter().find(shared) {
            let why = format!(
                "it has no probes, and its headers are also those of flow '{}'",
                other.name
            );
            out.flows.push((flow.id, not_measured(why)));
            continue;
        }
        if out.headers.masks_with(headers) > masks {
            let why = format!(
                "it has no probes, and the engine 'kernel' knows flows by their headers where at most {masks} different \
                 sets of header fields change; let it receive with 'engine: packet'"
            );
            out.flows.push((flow.id, not_measured(why)));
            continue;
        }
        headers.iter().for_each(|own| out.headers.add(*own, flow.id));
        out.flows.push((flow.id, Attribution::Headers(flow.id)));
    }
}

/// How a receiver on another host recognises the flows that are sent to it: it knows numbers in probes, and counts UDP
/// without them.
pub(crate) fn attribute_remote(program: &Program, flows: &[&Flow]) -> Vec<(u16, Attribution)> {
    let bare = |flow: &Flow| program.codec(flow.id.into()).is_none();
    let udp = |flow: &Flow| is_udp(program, flow);
    let datagrams = flows.iter().filter(|flow| bare(flow) && udp(flow)).count();
    let of = |flow: &Flow| match (bare(flow), datagrams) {
        (false, _) => Attribution::Probe,
        (true, _) if !udp(flow) => not_measured(
            "the receiver on the other host counts what has no probes where it is UDP only",
        ),
        (true, 1) => Attribution::Unprobed,
        (true, _) => not_measured(
            "the receiver on the other host cannot tell several flows without probes apart",
        ),
    };
    flows.iter().map(|flow| (flow.id, of(flow))).collect()
}
