//! Multicast sources as flows: datagrams to groups, which nobody answers.

use std::net::IpAddr;

use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::size::Size;
use wirebeat_traffic::scenario::{FlowRate, FlowSpec, Probe, yaml};
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::Rate;
use wirebeat_wire::codec::Codec;
use wirebeat_wire::ip::Version;

use super::command::CaseId;
use super::places::Places;
use super::schedule::Plan;
use super::setup::{App, Case};
use crate::ScriptError;
use crate::draft::Draft;

/// The TTL of all packets of WARP17 (src/tpg_ipv4.c).
const TTL: u8 = 60;

/// Adds the flow of a test case.
pub(super) fn flow(
    (id, case): (CaseId, &Case),
    plan: &Plan,
    places: &Places,
    draft: &mut Draft<'_>,
) -> Result<(), ScriptError> {
    let leave_out = |draft: &mut Draft<'_>, why: &str| {
        draft.leave_out(&case.line, &format!("test case {}", id.case), why)
    };
    if places.in_memory {
        let why = "it is a flow, and a run in memory has sessions alone: convert with --interface and --to";
        leave_out(draft, why);
        return Ok(());
    }
    let App::Raw { request, response } = case.app else {
        leave_out(
            draft,
            "a source of datagrams has a length alone: 'raw … data-req-plen 100 data-resp-plen 0'",
        );
        return Ok(());
    };
    if request == 0 || case.send == Some(0) {
        leave_out(draft, "it sends nothing");
        return Ok(());
    }
    if request > 65_507 {
        leave_out(draft, "a datagram has 65507 bytes at most");
        return Ok(());
    }
    if response > 0 {
        leave_out(draft, "nobody answers datagrams to a group");
    }
    if plan.after.is_some() {
        leave_out(
            draft,
            "a flow waits for no sessions: it starts when these are about to be established",
        );
    }
    if case.uptime.is_some() {
        leave_out(draft, "a flow has no sessions that close and open again: it sends all the time");
    }
    let Some((groups, ports)) = case.pools.peers else { return Ok(()) };
    let (from, from_ports) = case.pools.own;
    let address = |first: IpAddr, count: u64| match count {
        1 => first.to_string(),
        count => format!("{{ increment: {first}, count: {count} }}"),
    };
    let port = |range: PortRange| match len(range) {
        1 => range.first.to_string(),
        count => format!("{{ increment: {}, count: {count} }}", range.first),
    };
    let counts = [from.len(), len(from_ports), groups.len(), len(ports)];
    let apart = counts
        .iter()
        .enumerate()
        .all(|(at, count)| counts.iter().skip(at + 1).all(|other| gcd(*count, *other) == 1));
    if !apart {
        leave_out(
            draft,
            "addresses and ports advance together with each frame, so not each meets each",
        );
    }
    let tos = if case.tos == 0 { String::new() } else { format!(", tos: {}", case.tos) };
    let packet = format!(
        "[ {{ ipv4: {{ source: {}, destination: {}, ttl: {TTL}{tos} }} }}, {{ udp: {{ source: {}, destination: {} }} }} ]",
        address(from.first, from.len()),
        address(groups.first, groups.len()),
        port(from_ports),
        port(ports),
    );
    let wrong = |why| case.line.wrong(why);
    let packet: Vec<Header> = yaml::value(&packet).map_err(wrong)?;
    let size: Size = yaml::value(&format!("{request}B@payload")).map_err(wrong)?;
    let rate = match case.send {
        None => FlowRate::default(),
        Some(rate) => {
            let rate: Rate = format!("{rate}/s").parse().map_err(|_| {
                case.line
                    .wrong(wirebeat_units::fault!("{rate}/s is too high"; "write a lower rate"))
            })?;
            FlowRate::Fixed(rate)
        }
    };
    let begin = plan.base;
    let run = draft.scenario.run.time;
    let start = begin.saturating_add(plan.start);
    if run.is_some_and(|time| start >= time) {
        leave_out(draft, "it would start when the run has ended");
        return Ok(());
    }
    let stop = plan.stop.map(|stop| begin.saturating_add(stop));
    let mut flow = FlowSpec {
        packet: packet.into(),
        size: Some(size),
        rate,
        start,
        stop: stop.filter(|stop| run.is_none_or(|time| *stop < time)),
        ..FlowSpec::from_port(places.name(id.port, case.vlan))
    };
    let name = format!("port-{}-test-{}", id.port, id.case);
    let needed = Codec::Wirebeat.min_len(Version::V4) as u64;
    if u64::from(request) < needed {
        flow.probe = Probe::Off;
        draft.leave_out_probe(&case.line, &name, request.into(), needed);
    }
    draft.flow(&case.line, name, flow)
}

fn len(ports: PortRange) -> u64 {
    u64::from(ports.last - ports.first) + 1
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut high, mut low) = (a, b);
    while low != 0 {
        (high, low) = (low, high % low);
    }
    high
}
