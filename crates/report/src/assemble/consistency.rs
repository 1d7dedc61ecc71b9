//! The sums that must be right (section 5 of the design).
//!
//! Each counter counts in one place only, so that a sum which does not come out says that frames were
//! counted twice, not at all, or came from elsewhere. Loss is what is left of the sent, so over a
//! closed link that sum fails exactly when more different frames arrived than were sent.

use super::ReceiverSide;
use super::pair::Pair;
use crate::model::{
    Equation, FlowReport, Received, SessionEnd, SessionMessages, SessionReport, StackDatagrams,
    StackReport, Term,
};
use wirebeat_meter::summary::FlowSummary;

/// With more flows, groups of sessions or ports than this, only those of their sums are listed that are wrong.
const FLOWS: usize = 100;
/// How the scope of a sum of our own TCP begins.
pub const OWN_TCP: &str = "own TCP on ";

/// All sums: each flow's when there are several, the total's, and the receiver's.
pub fn checks(
    pairs: &[Pair<'_>],
    flows: &[FlowReport],
    total: &FlowReport,
    receiver: Option<&ReceiverSide>,
) -> Vec<Equation> {
    let mut checks = Vec::new();
    let (mut sent, mut unique, mut lost) = (0u64, 0u64, 0u64);
    let (mut probed, mut arrivals) = (false, [0u64; 4]);
    for (pair, flow) in pairs.iter().zip(flows) {
        checks.extend(members(pair, flow));
        let scope = format!("flow {}", flow.name);
        let several = flows.len() > 1;
        if several {
            checks.extend(requested(&scope, flow));
        }
        let Some(received) = flow.received.as_ref().filter(|_| pair.probed()) else { continue };
        if let (Some(side), Some(loss)) = (&flow.sent, &flow.loss) {
            let terms = (side.sent.frames, received.unique, loss.frames);
            sent = sent.saturating_add(terms.0);
            unique = unique.saturating_add(terms.1);
            lost = lost.saturating_add(terms.2);
            checks.extend(several.then(|| closed_link(&scope, terms)));
        }
        probed = true;
        let counted = self::arrivals(received);
        for (sum, more) in arrivals.iter_mut().zip(counted) {
            *sum = sum.saturating_add(more);
        }
        checks.extend(several.then(|| received_equation(&scope, counted)));
    }
    if flows.len() > FLOWS {
        checks.retain(|equation: &Equation| !equation.balances());
    }
    checks.extend(requested("total", total));
    let scope = if pairs.iter().all(Pair::probed) { "total" } else { "flows with probes" };
    if probed && total.sent.is_some() {
        checks.push(closed_link(scope, (sent, unique, lost)));
    }
    if probed {
        checks.push(received_equation(scope, arrivals));
    }
    checks.extend(receiver.and_then(delivered));
    checks
}

/// The sums of a flow's members that are wrong: there may be thousands that are right.
fn members(pair: &Pair<'_>, flow: &FlowReport) -> Vec<Equation> {
    let all = flow.members.iter().flat_map(|members| &members.flows);
    let mut wrong = Vec::new();
    for member in all {
        let scope = format!("{} of flow {}", member.name, flow.name);
        wrong.extend(requested(&scope, member));
        let Some(received) = member.received.as_ref().filter(|_| pair.probed()) else { continue };
        if let (Some(side), Some(loss)) = (&member.sent, &member.loss) {
            wrong.push(closed_link(&scope, (side.sent.frames, received.unique, loss.frames)));
        }
        wrong.push(received_equation(&scope, arrivals(received)));
    }
    wrong.retain(|equation| !equation.balances());
    wrong
}

fn requested(scope: &str, flow: &FlowReport) -> Option<Equation> {
    let sent = flow.sent.as_ref()?;
    Some(equation(
        scope,
        ("requested", sent.requested.frames),
        &[
            ("sent", sent.sent.frames),
            ("expired", sent.expired),
            ("not reached", sent.not_reached),
            ("failed", sent.failed),
        ],
    ))
}

fn closed_link(scope: &str, (sent, unique, lost): (u64, u64, u64)) -> Equation {
    equation(scope, ("sent", sent), &[("unique", unique), ("lost", lost)])
}

/// What arrived: all of it, unique, duplicates, implausible.
fn arrivals(received: &Received) -> [u64; 4] {
    [received.received.frames, received.unique, received.duplicates, received.implausible]
}

fn received_equation(scope: &str, counted: [u64; 4]) -> Equation {
    let [received, unique, duplicates, implausible] = counted;
    equation(
        scope,
        ("received", received),
        &[("unique", unique), ("duplicates", duplicates), ("implausible", implausible)],
    )
}

/// What the engine delivered is what the meter counted.
fn delivered(receiver: &ReceiverSide) -> Option<Equation> {
    let summary = &receiver.summary;
    let frames = |flow: &FlowSummary| flow.frames.saturating_add(flow.fragments);
    let flows = summary.flows.values().fold(0, |sum: u64, flow| sum.saturating_add(frames(flow)));
    Some(equation(
        "receiver",
        ("delivered", receiver.delivered?),
        &[
            ("in flows", flows),
            ("without probe", frames(&summary.unprobed)),
            ("unknown flow", summary.unknown_flow),
            ("stale", summary.stale),
            ("foreign", summary.foreign),
            ("malformed", summary.malformed),
            ("fragments", summary.fragments),
        ],
    ))
}

/// The sums of sessions. Of very many groups only those that are wrong.
pub fn of_sessions(sessions: &[SessionReport]) -> Vec<Equation> {
    let mut checks = Vec::new();
    for (place, group) in (0..).zip(sessions) {
        checks.extend(of_group(group));
        let other = group.paired_with.and_then(|other| sessions.get(other as usize));
        checks.extend(messages_between_ends(group, other));
        // of datagrams some are lost, and the network may double others
        let other = other.filter(|_| !group.is_over_udp());
        let Some(other) = other.filter(|other| other.paired_with == Some(place)) else { continue };
        checks.push(between_ends(group, other));
    }
    if sessions.len() > FLOWS {
        checks.retain(|equation: &Equation| !equation.balances());
    }
    checks
}

/// The sums of our own TCP on each port. Of very many ports only those that are wrong.
pub fn of_stacks(stacks: &[StackReport]) -> Vec<Equation> {
    let check = |stack: &StackReport| {
        let kinds: Vec<_> = stack.segments.kinds().collect();
        equation(&format!("{OWN_TCP}{}", stack.port), ("segments sent", stack.segments.all), &kinds)
    };
    let mut checks: Vec<Equation> = stacks.iter().map(check).collect();
    let datagrams = |stack: &StackReport| {
        let StackDatagrams { packets, received, malformed, bad_checksum, no_session, .. } =
            stack.datagrams?;
        let parts = [
            ("received", received),
            ("malformed", malformed),
            ("bad checksum", bad_checksum),
            ("no session", no_session),
        ];
        Some(equation(&format!("own UDP on {}", stack.port), ("packets of UDP", packets), &parts))
    };
    checks.extend(stacks.iter().filter_map(datagrams));
    if stacks.len() > FLOWS {
        checks.retain(|equation: &Equation| !equation.balances());
    }
    checks
}

fn session_scope(group: &SessionReport) -> String {
    format!("sessions {} ({})", group.name, group.end.name())
}

fn of_group(group: &SessionReport) -> Vec<Equation> {
    let SessionReport { starts, ends, bytes, .. } = group;
    let scope = session_scope(group);
    let mut checks = Vec::new();
    if group.end == SessionEnd::Client {
        let expired = ("expired", starts.expired.unwrap_or(0));
        let due = ("due", starts.due.unwrap_or(0));
        checks.push(equation(&scope, due, &[("opened", starts.opened), expired]));
    }
    let opened = ("opened", starts.opened);
    let mut ways = vec![("in order", ends.in_order)];
    ways.extend(ends.failed_there());
    ways.extend([("failed here", ends.failed_here), ("unfinished", ends.unfinished)]);
    checks.push(equation(&scope, opened, &ways));
    checks.push(part(&scope, opened, ("established", starts.established), "not established"));
    if group.is_over_udp() && group.end == SessionEnd::Client {
        let SessionMessages { requests, responses, lost, .. } = group.messages;
        // of a session that ended otherwise nobody waits for the response any more
        let answered = responses.saturating_add(lost);
        let rest = requests.saturating_sub(answered);
        let terms = [("responses", responses), ("lost", lost), ("not awaited", rest)];
        checks.push(equation(&scope, ("requests", requests), &terms));
    }
    if let Some(pairs) = group.pairs {
        let in_order = ("pairs in order", pairs.in_order);
        checks.push(equation(&scope, in_order, &[("with equal bytes", pairs.equal)]));
    }
    // not every TCP says what was acknowledged
    if bytes.acked > 0 {
        let sent = ("bytes sent", bytes.sent);
        checks.push(part(&scope, sent, ("acknowledged", bytes.acked), "not acknowledged"));
    }
    checks
}

/// What was sent here was delivered there: all of it where every session ended in order at both ends.
fn between_ends(from: &SessionReport, to: &SessionReport) -> Equation {
    let in_order = |group: &SessionReport| group.ends.in_order == group.starts.opened;
    let whole = in_order(from) && in_order(to) && from.starts.opened == to.starts.opened;
    let scope = format!("sessions {} ({} to {})", from.name, from.end.name(), to.end.name());
    let (sent, delivered) = (("bytes sent", from.bytes.sent), ("delivered", to.bytes.delivered));
    match whole {
        true => equation(&scope, sent, &[delivered]),
        false => part(&scope, sent, delivered, "not delivered"),
    }
}

/// Messages one way that were sent here were received there: all of them where no session ended before its end, over TCP.
fn messages_between_ends(from: &SessionReport, to: Option<&SessionReport>) -> Option<Equation> {
    let to = to?;
    let (sent, received) = (from.one_way.as_ref()?.sent, to.one_way.as_ref()?.received);
    if sent == 0 {
        return None;
    }
    let in_order = |group: &SessionReport| group.ends.in_order == group.starts.opened;
    let whole = in_order(from) && in_order(to) && !from.is_over_udp();
    let scope = format!("sessions {} ({} to {})", from.name, from.end.name(), to.end.name());
    let (sent, received) = (("messages sent", sent), ("received", received));
    Some(match whole && from.starts.opened == to.starts.opened {
        true => equation(&scope, sent, &[received]),
        false => part(&scope, sent, received, "not received"),
    })
}

/// That a counter is a part of another: the rest is what is missing, and the sum is wrong where the part is greater.
fn part(scope: &str, whole: (&str, u64), part: (&str, u64), rest: &str) -> Equation {
    equation(scope, whole, &[part, (rest, whole.1.saturating_sub(part.1))])
}

fn equation(scope: &str, left: (&str, u64), right: &[(&str, u64)]) -> Equation {
    let term = |&(name, value): &(&str, u64)| Term { name: name.to_owned(), value };
    let sum: i128 = right.iter().map(|&(_, value)| i128::from(value)).sum();
    let difference = i128::from(left.1) - sum;
    let ends = i128::from(i64::MIN)..=i128::from(i64::MAX);
    Equation {
        scope: scope.to_owned(),
        left: term(&left),
        right: right.iter().map(term).collect(),
        // Within the ends, so that the cast keeps the value.
        difference: difference.clamp(*ends.start(), *ends.end()) as i64,
    }
}
