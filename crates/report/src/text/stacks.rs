//! Our own TCP: for each port what it sent, received, sent again and refused.
//!
//! Counters that are zero are left out, except those without which a reader would not know that they were looked at: segments,
//! packets, and retransmissions.

use super::blocks::{Block, COLUMNS, line, side_by_side};
use super::style::{Style, clean, hang};
use crate::human;
use crate::model::{Report, StackReport};

/// Ports that are shown; the rest are in the JSON form.
const PORTS: usize = 8;
/// States that are shown; RFC 9293 has eleven.
const STATES: usize = 12;

/// Each port with our own TCP.
pub fn stacks(report: &Report, style: Style) -> Vec<String> {
    let shown = report.stacks.iter().take(PORTS);
    let mut parts: Vec<String> = shown.map(|stack| self::stack(stack, style)).collect();
    if let Some(more) = report.stacks.len().checked_sub(PORTS).filter(|&more| more > 0) {
        let more = human::counted(more as u64, "more port");
        parts.push(format!("{more} with our own TCP: in the JSON form of this report\n"));
    }
    parts
}

fn stack(stack: &StackReport, style: Style) -> String {
    // a port whose sessions are all over UDP has nothing to say of TCP
    let has_tcp = stack.datagrams.is_none() || stack.segments.all + stack.arrivals.packets > 0;
    let kind = if has_tcp { "TCP" } else { "UDP" };
    let heading = format!("own {kind} on {}{}", stack.port, modes(stack));
    let heading = hang("", &clean(&heading), COLUMNS);
    let mut out: String = heading.lines().map(|line| style.strong(line) + "\n").collect();
    if has_tcp {
        out += &side_by_side(&counters(stack), style);
    }
    line(&mut out, "  retransmitted: ", &retransmitted(stack));
    line(&mut out, "  recovery: ", &recovery(stack));
    line(&mut out, "  sessions: ", &sessions(stack));
    line(&mut out, "  states at the end: ", &clean(&states(stack)));
    line(&mut out, "  UDP: ", &datagrams(stack));
    line(&mut out, "  below TCP: ", &below(stack));
    out
}

/// " (sends …, receives …)", as far as it is known.
fn modes(stack: &StackReport) -> String {
    let modes = [("sends", &stack.transmit_mode), ("receives", &stack.receive_mode)];
    let known = modes.into_iter().filter(|(_, mode)| !mode.is_empty());
    let known: Vec<String> = known.map(|(verb, mode)| format!("{verb}: {mode}")).collect();
    match known.is_empty() {
        true => String::new(),
        false => format!(" ({})", known.join("; ")),
    }
}

fn counters(stack: &StackReport) -> Vec<Block> {
    let StackReport { segments, arrivals, bytes, .. } = stack;
    let again = segments.retransmitted().iter().fold(0, |sum: u64, (_, n)| sum.saturating_add(*n));
    let mut sent = Block::new("segments sent");
    sent.told("all", human::count(segments.all), false);
    sent.count("new data", segments.new_data, false);
    // that nothing was sent again is to be seen
    if segments.all > 0 {
        let again = if again > 0 { human::count(again) } else { "none".to_owned() };
        sent.told("retransmitted", again, false);
    }
    for (name, count) in segments.control() {
        sent.count(name, count, false);
    }
    let mut received = Block::new("packets received");
    received.told("all", human::count(arrivals.packets), false);
    let refused = [
        ("not TCP", arrivals.foreign, false),
        ("malformed", arrivals.malformed, true),
        ("bad checksum", arrivals.bad_checksum, true),
        ("checksum offloaded", arrivals.unverified, false),
        ("no session", arrivals.no_session, false),
        ("PAWS", arrivals.paws, false),
        ("out of window", arrivals.outside_window, false),
        ("bad ACK", arrivals.bad_ack, false),
        ("challenged", arrivals.challenged, false),
        ("duplicate ACKs", arrivals.duplicate_acks, false),
        ("SYNs dropped", arrivals.syn_dropped, true),
        ("ICMP ignored", arrivals.icmp_ignored, false),
    ];
    for (name, count, bad) in refused {
        received.count(name, count, bad);
    }
    let mut data = Block::new("data");
    data.bytes("sent", bytes.sent);
    data.bytes("retransmitted", bytes.retransmitted);
    data.bytes("acknowledged", bytes.acked);
    data.bytes("delivered", bytes.delivered);
    data.bytes("duplicate", bytes.duplicate);
    data.bytes("out of order", bytes.out_of_order);
    data.bytes("dropped", bytes.dropped);
    let mut blocks = vec![sent, received, data];
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// "3 after a timeout, 1,201 fast", or nothing.
fn retransmitted(stack: &StackReport) -> String {
    let segments = &stack.segments;
    counted([
        ("after a timeout", segments.retransmitted_timeout),
        ("fast", segments.retransmitted_fast),
        ("as tail loss probe", segments.retransmitted_tail),
        ("packet too big", segments.retransmitted_too_big),
        ("SYN or SYN-ACK", segments.retransmitted_syn),
    ])
}

fn recovery(stack: &StackReport) -> String {
    let of = &stack.recoveries;
    counted([
        plural(of.timeouts, "timeout", "timeouts"),
        plural(of.fast, "fast recovery", "fast recoveries"),
        ("of them by the reordering timer", of.reordering),
        plural(of.tail, "repair by a tail loss probe", "repairs by a tail loss probe"),
        ("spurious by D-SACK", of.spurious),
        plural(of.congestion_echoes, "reduction by ECN", "reductions by ECN"),
        plural(of.path_mtu_reductions, "path MTU reduction", "path MTU reductions"),
        plural(of.black_holes, "black hole", "black holes"),
    ])
}

fn sessions(stack: &StackReport) -> String {
    let of = &stack.sessions;
    counted([
        ("entered TIME-WAIT", of.time_waits),
        ("skipped TIME-WAIT", of.time_wait_skipped),
        ("dropped half-open", of.half_open_dropped),
    ])
}

fn states(stack: &StackReport) -> String {
    let left = || stack.states.iter().filter(|of| of.sessions > 0);
    let mut said = counted(left().take(STATES).map(|of| (of.state.as_str(), of.sessions)));
    if let Some(more) = left().count().checked_sub(STATES).filter(|&more| more > 0) {
        said += &format!(", and {more} more");
    }
    said
}

fn below(stack: &StackReport) -> String {
    let of = &stack.link;
    let cable = stack.cable.unwrap_or_default();
    counted([
        plural(
            of.neighbour_frames,
            "frame of ARP, neighbour discovery or echo sent",
            "frames of ARP, neighbour discovery and echo sent",
        ),
        plural(
            of.unresolved,
            "packet not sent for want of a next hop",
            "packets not sent for want of a next hop",
        ),
        plural(
            of.receive_drops,
            "frame lost by the receiving port",
            "frames lost by the receiving port",
        ),
        plural(
            of.replies_dropped,
            "reply not sent for want of room",
            "replies not sent for want of room",
        ),
        plural(cable.lost, "frame lost by the cable", "frames lost by the cable"),
        ("dropped by its full queue", cable.dropped),
    ])
}

fn plural(count: u64, one: &'static str, many: &'static str) -> (&'static str, u64) {
    match count {
        1 => (one, count),
        _ => (many, count),
    }
}

fn datagrams(stack: &StackReport) -> String {
    let Some(of) = &stack.datagrams else { return String::new() };
    let told = counted([
        ("datagrams sent", of.sent),
        ("received", of.received),
        ("without a checksum or with it offloaded", of.unverified),
        ("malformed", of.malformed),
        ("with a wrong checksum", of.bad_checksum),
        ("for nobody", of.no_session),
    ]);
    if told.is_empty() { "no datagrams".to_owned() } else { told }
}

/// Those that are not zero: "3 timeouts, 12 fast".
fn counted<'a>(all: impl IntoIterator<Item = (&'a str, u64)>) -> String {
    let some = all.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(name, count)| format!("{} {name}", human::count(count)))
        .collect::<Vec<_>>()
        .join(", ")
}
