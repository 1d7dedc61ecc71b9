//! How a port recognises the frames of each flow that is sent to it: by probes, by headers that no other flow has, or not
//! at all. What a receiver cannot recognise is not measured; it is never lost.

use std::collections::HashMap;
use std::net::SocketAddr;

use wirebeat_meter::headers::HeaderTable;
use wirebeat_report::assemble::Attribution;
use wirebeat_traffic::program::{Endpoint, Flow, NoHeaders, Program};
use wirebeat_units::Fault;
use wirebeat_wire::headers::{HeaderKey, HeaderMatch, LEN};

use crate::engines::{Ability, Engine, driver};

/// The most flows without probes that one port tells apart: each may have to be compared with all others.
const FLOWS_MAX: usize = 4096;
/// The number of comparisons that are faster than a table for them is made.
const FEW: usize = 64;

/// How a port recognises the flows to it.
#[derive(Debug, Default)]
pub(crate) struct Attributions {
    /// Of each flow, by its number.
    pub(crate) flows: Vec<(u16, Attribution)>,
    /// The headers of those that are known by theirs.
    pub(crate) headers: HeaderTable,
}

/// A flow without a probe, and the headers of its frames.
type ProbelessFlow<'a> = (&'a Flow, Vec<HeaderMatch>);

/// How flows are sent, as far as it says something of their headers.
pub(crate) struct SendingEngines<'a> {
    /// By which engine; `None` where that is not known.
    pub(crate) engine: &'a dyn Fn(&Flow) -> Option<Engine>,
    /// The headers of the frames that a flow replays from captures, or why they are not known.
    pub(crate) captured: &'a dyn Fn(&Flow) -> Result<Vec<HeaderMatch>, Fault>,
}

impl SendingEngines<'_> {
    /// The headers that the frames of a flow arrive with, or why they are not known.
    fn headers(&self, program: &Program, flow: &Flow) -> Result<Vec<HeaderMatch>, Fault> {
        let headers = match program.headers(flow) {
            Ok(headers) => headers,
            Err(NoHeaders::Recorded) => return (self.captured)(flow),
            Err(NoHeaders::Changing) => {
                return Err("its frames are of kinds that change, or fragments".into());
            }
        };
        // where none is asked for, the system chooses the port of a socket, and the program's is not sent
        let chosen = |endpoint: &Endpoint| endpoint.source.port() == 0;
        match flow.endpoint.as_ref().is_some_and(chosen)
            && (self.engine)(flow).is_some_and(|engine| !engine.can(Ability::SeeHeaders))
        {
            true => Ok(headers.into_iter().map(HeaderMatch::from_any_port).collect()),
            false => Ok(headers),
        }
    }
}

/// How a port that receives by `engine`, and by sockets at `listen`, recognises `flows`.
pub(crate) fn attribute(
    program: &Program,
    (flows, sending): (&[&Flow], &SendingEngines<'_>),
    (engine, listen): (Engine, &[SocketAddr]),
) -> Attributions {
    let mut out = Attributions::default();
    let (probed, bare): (Vec<&Flow>, Vec<&Flow>) =
        flows.iter().partition(|flow| program.codec(flow.id.into()).is_some());
    for flow in probed {
        let heard = engine.can(Ability::SeeHeaders) || is_heard(flow, listen);
        let how = if heard { Attribution::Probe } else { not_heard() };
        out.flows.push((flow.id, how));
    }
    match engine.can(Ability::SeeHeaders) {
        false => {
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
        true => by_headers(program, &bare, sending, engine, &mut out),
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

/// Recognises flows without probes by headers that are theirs alone.
fn by_headers(
    program: &Program,
    flows: &[&Flow],
    sending: &SendingEngines<'_>,
    engine: Engine,
    out: &mut Attributions,
) {
    let masks = driver(engine).header_masks();
    if flows.len() > FLOWS_MAX {
        let why = format!("more than {FLOWS_MAX} flows without probes reach its port");
        out.flows.extend(flows.iter().map(|flow| (flow.id, not_measured(why.clone()))));
        return;
    }
    let mut known: Vec<ProbelessFlow<'_>> = Vec::with_capacity(flows.len());
    for &flow in flows {
        match sending.headers(program, flow) {
            Ok(headers) => known.push((flow, headers)),
            Err(why) => {
                out.flows.push((flow.id, not_measured(format!("it has no probes: {why}"))));
            }
        }
    }
    let headers: Vec<&[HeaderMatch]> = known.iter().map(|(_, headers)| &headers[..]).collect();
    let shared = shared(&headers);
    for ((flow, headers), shared) in known.iter().zip(shared) {
        if let Some((other, _)) = shared.and_then(|other| known.get(other)) {
            let why = format!(
                "it has no probes, and its headers are also those of flow '{}'",
                other.name
            );
            out.flows.push((flow.id, not_measured(why)));
            continue;
        }
        if out.headers.masks_with(headers) > masks {
            let why = format!(
                "it has no probes, and the engine '{engine}' knows flows by their headers where at most {masks} different \
                 sets of header fields change; let it receive with 'engine: packet'"
            );
            out.flows.push((flow.id, not_measured(why)));
            continue;
        }
        headers.iter().for_each(|own| out.headers.add(*own, flow.id));
        out.flows.push((flow.id, Attribution::Headers(flow.id)));
    }
}

/// Of each flow the place of another one that has some of its headers, too.
fn shared(flows: &[&[HeaderMatch]]) -> Vec<Option<usize>> {
    let mut by_mask: HashMap<[u8; LEN], Vec<(&HeaderMatch, usize)>> = HashMap::new();
    for (flow, headers) in flows.iter().enumerate() {
        headers.iter().for_each(|of| by_mask.entry(of.mask).or_default().push((of, flow)));
    }
    let mut found = vec![None; flows.len()];
    for (here_mask, here) in &by_mask {
        for (there_mask, there) in &by_mask {
            if here.len() * there.len() <= FEW {
                for (of, flow) in here {
                    let theirs = |(their, other): &&(&HeaderMatch, usize)| {
                        other != flow && of.overlaps(their)
                    };
                    if let Some((_, other)) = there.iter().find(theirs) {
                        found[*flow] = Some(*other);
                    }
                }
                continue;
            }
            // what both masks say of a frame
            let mut both = *here_mask;
            both.iter_mut().zip(there_mask).for_each(|(byte, mask)| *byte &= mask);
            let mut theirs: HashMap<HeaderKey, (usize, Option<usize>)> = HashMap::new();
            for (of, flow) in there {
                let entry = theirs.entry(of.key.masked(&both)).or_insert((*flow, None));
                if entry.0 != *flow {
                    entry.1 = Some(*flow);
                }
            }
            for (of, flow) in here {
                let Some((one, another)) = theirs.get(&of.key.masked(&both)) else { continue };
                let other = [Some(*one), *another].into_iter().flatten().find(|one| one != flow);
                found[*flow] = found[*flow].or(other);
            }
        }
    }
    found
}

/// How a receiver on another host recognises the flows that are sent to it: it knows numbers in probes, and counts UDP
/// without them. Where there are `several` such receivers, what has no probe could be for any of them.
pub(crate) fn attribute_remote(
    program: &Program,
    flows: &[&Flow],
    several: bool,
) -> Vec<(u16, Attribution)> {
    let bare = |flow: &Flow| program.codec(flow.id.into()).is_none();
    let udp = |flow: &Flow| is_udp(program, flow);
    let datagrams = flows.iter().filter(|flow| bare(flow) && udp(flow)).count();
    let of = |flow: &Flow| match (bare(flow), datagrams) {
        (false, _) => Attribution::Probe,
        (true, _) if !udp(flow) => not_measured(
            "the receiver on the other host counts what has no probes where it is UDP only",
        ),
        (true, _) if several => not_measured(
            "of receivers on several hosts, none knows whose a datagram without a probe is",
        ),
        (true, 1) => Attribution::Unprobed,
        (true, _) => not_measured(
            "the receiver on the other host cannot tell several flows without probes apart",
        ),
    };
    flows.iter().map(|flow| (flow.id, of(flow))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(source: u16, destination: u16) -> Vec<u8> {
        let mut frame = vec![4; 60];
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6]);
        frame[34..36].copy_from_slice(&source.to_be_bytes());
        frame[36..38].copy_from_slice(&destination.to_be_bytes());
        frame
    }

    fn exact(source: u16, destination: u16) -> HeaderMatch {
        HeaderMatch::of(&tcp(source, destination), |_| false).unwrap()
    }

    fn any_source(destination: u16) -> HeaderMatch {
        HeaderMatch::of(&tcp(0, destination), |at| at == 34 || at == 35).unwrap()
    }

    #[test]
    fn flows_that_share_headers_are_found_however_many_headers_they_have() {
        for count in [1, 3, 500] {
            let many = |destination: u16| -> Vec<HeaderMatch> {
                (0..count).map(|source| exact(source, destination)).collect()
            };
            let (one, other) = (many(1), many(2));
            assert_eq!(shared(&[&one, &other]), [None, None]);
            let partly = [exact(9000, 5), exact(count - 1, 1)];
            assert_eq!(shared(&[&one, &other, &partly]), [Some(2), None, Some(0)]);
            let changing = [any_source(2)];
            assert_eq!(shared(&[&one, &other, &changing]), [None, Some(2), Some(1)]);
            // two that differ in what the other's mask leaves out do not share anything with each other
            let (left, right) = ([exact(1, 7)], [exact(2, 7)]);
            assert_eq!(shared(&[&left, &one, &right, &other]), [None; 4]);
            assert_eq!(shared(&[&left, &[any_source(7)], &right]), [Some(1), Some(0), Some(1)]);
            // nor does a flow with itself
            assert_eq!(shared(&[&[one.clone(), one.clone()].concat()]), [None]);
        }
    }
}
