//! Our own TCP: from what each of its threads counted on a port to what a report says of it.

use std::collections::BTreeMap;

use crate::human;
use crate::model::{Finding, FindingKind, SessionReport, StackConflict, StackReport};

/// Ports that a finding tells of.
const PORTS: usize = 3;

/// What a report says of each port, in the order in which they come first: threads of one port that send and receive in the same way
/// are added.
pub(super) fn reports(stacks: &[StackReport]) -> Vec<StackReport> {
    let mut reports: Vec<StackReport> = Vec::new();
    let mut places: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    for facts in stacks {
        let key = [&*facts.port, &*facts.transmit_mode, &*facts.receive_mode];
        let place = *places.entry(key).or_insert(reports.len());
        match reports.get_mut(place) {
            Some(report) => add(report, facts),
            None => reports.push(facts.clone()),
        }
    }
    reports
}

fn add(report: &mut StackReport, facts: &StackReport) {
    report.segments.add(&facts.segments);
    report.arrivals.add(&facts.arrivals);
    report.bytes.add(&facts.bytes);
    report.recoveries.add(&facts.recoveries);
    report.sessions.add(&facts.sessions);
    report.link.add(&facts.link);
    if let Some(cable) = &facts.cable {
        report.cable.get_or_insert_default().add(cable);
    }
    if let Some(datagrams) = &facts.datagrams {
        report.datagrams.get_or_insert_default().add(datagrams);
    }
    if report.silent_next_hop.is_none() {
        report.silent_next_hop.clone_from(&facts.silent_next_hop);
    }
    if report.conflict.is_none() {
        report.conflict.clone_from(&facts.conflict);
    }
    for one in &facts.states {
        match report.states.iter_mut().find(|known| known.state == one.state) {
            Some(known) => known.sessions = known.sessions.saturating_add(one.sessions),
            None => report.states.push(one.clone()),
        }
    }
}

/// What limited our own TCP, or makes what it measured less certain.
pub(super) fn findings(stacks: &[StackReport], sessions: &[SessionReport]) -> Vec<Finding> {
    let lost = told(stacks, |stack| stack.link.receive_drops).map(|(count, ports)| {
        format!(
            "the tester lost {} before its TCP saw {} ({ports}): retransmissions and failed sessions may be its own and not \
             the network's; lower the rate, or take more queues or a longer receive ring",
            human::counted(count, "frame"),
            if count == 1 { "it" } else { "them" },
        )
    });
    let damaged = |stack: &StackReport| {
        let datagrams = stack.datagrams.map_or(0, |of| of.bad_checksum);
        stack.arrivals.bad_checksum.saturating_add(datagrams)
    };
    let wrong = told(stacks, damaged).map(|(count, ports)| {
        format!(
            "{} with a wrong checksum came in and {} dropped ({ports}): something on the way damages packets, or leaves \
             checksums to a card that does not complete them",
            human::counted(count, "packet"),
            if count == 1 { "was" } else { "were" },
        )
    });
    let without_room = |stack: &StackReport| {
        stack.arrivals.syn_dropped.saturating_add(stack.sessions.half_open_dropped)
    };
    let dropped = told(stacks, without_room).map(|(count, ports)| {
        format!(
            "{} of peers found no room in our own TCP ({ports}), which left {} unanswered: as many sessions were open or half-open as it \
             holds; raise 'limit' of the group, name more 'cores', or look for a flood of SYNs",
            human::counted(count, "SYN"),
            if count == 1 { "it" } else { "them" },
        )
    });
    // TCP fills queues to learn how much there is room for: where no session timed out, it is as it should be
    let timed_out = sessions.iter().any(|group| group.ends.timed_out > 0);
    let of_udp = told(stacks, |stack| match (stack.cable, stack.datagrams) {
        (Some(cable), Some(_)) => cable.dropped,
        _ => 0,
    });
    let by_it = match (of_udp.is_some(), timed_out) {
        (true, true) => "messages over UDP were lost and sessions over TCP timed out",
        (false, true) => "sessions over TCP timed out",
        (_, false) => "messages over UDP were lost",
    };
    let by_cable = match timed_out {
        true => told(stacks, |stack| stack.cable.map_or(0, |cable| cable.dropped)),
        false => of_udp,
    };
    let dropped_by_cable = by_cable.map(|(count, ports)| {
        format!(
            "the cable in memory dropped {} because its queue was full ({ports}): {by_it} by that; lower the rate, or write \
             a higher 'rate' or a longer 'queue' in 'cable' of the port",
            human::counted(count, "frame"),
        )
    });
    let silent = stacks.iter().find_map(|stack| {
        let next_hop = stack.silent_next_hop.as_ref()?;
        Some(format!(
            "the next hop {next_hop} did not answer on port '{}' when it was asked for its link-layer address (ARP, neighbour \
             discovery): no session could be opened by it; check the address, the gateway, the cable and the VLAN",
            stack.port
        ))
    });
    let conflict = stacks.iter().find_map(|stack| {
        let StackConflict { address, mac } = stack.conflict.as_ref()?;
        Some(format!(
            "the station {mac} on port '{}' says that it has {address}, an address of ours: packets for it may have gone there; \
             choose addresses that no other station has",
            stack.port
        ))
    });
    let kinds = [
        (FindingKind::NextHopSilent, silent),
        (FindingKind::AddressConflict, conflict),
        (FindingKind::ReceiverDrops, lost),
        (FindingKind::SynsDropped, dropped),
        (FindingKind::CableQueueFull, dropped_by_cable),
        (FindingKind::ChecksumsWrong, wrong),
    ];
    let found = kinds.into_iter().filter_map(|(kind, message)| Some((kind, message?)));
    found.map(|(kind, message)| Finding { kind, message }).collect()
}

/// The sum of a counter, and the ports that have any of it, with what each has where they are several; `None` where it is 0.
fn told(stacks: &[StackReport], counter: fn(&StackReport) -> u64) -> Option<(u64, String)> {
    let all: Vec<(&str, u64)> = stacks
        .iter()
        .map(|stack| (stack.port.as_str(), counter(stack)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let sum = all.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
    let ports = match all[..] {
        [] => return None,
        [(port, _)] => format!("port '{port}'"),
        _ => {
            let shown = all.iter().take(PORTS);
            let mut ports: Vec<String> = shown
                .map(|(port, count)| format!("port '{port}': {}", human::count(*count)))
                .collect();
            if let Some(more) = all.len().checked_sub(PORTS).filter(|&more| more > 0) {
                ports.push(format!("and {more} more"));
            }
            ports.join(", ")
        }
    };
    Some((sum, ports))
}
