//! Sessions: for each group at each end what became of its sessions, and how long things took.
//!
//! Made for 80 columns: counters that are not zero stand side by side, and a percentile that is the maximum, because there are
//! too few values, is left out; where a table is wider all the same, p90 gives way to p95.

use super::blocks::{Block, COLUMNS, line, side_by_side};
use super::overview::time;
use super::style::{Style, clean, cut, hang};
use super::table::{Cell, NOTHING, Table};
use crate::columns::sent_bits_per_second;
use crate::human;
use crate::model::{
    PlannedActual, Report, SessionDatagrams, SessionEnd, SessionGoal, SessionMisbehaviour,
    SessionOneWay, SessionPairs, SessionRates, SessionReport, SessionTimes, SessionTls,
    SessionZeroCopy, Stats, StatusCount,
};

/// Groups that are shown; the rest are in the JSON form.
const GROUPS: usize = 8;
/// Statuses that are shown.
const STATUSES: usize = 12;
/// Named timers that are shown.
const TIMERS: usize = 16;
/// Columns of a timer's name.
const NAME: usize = 16;
/// What was timed from the actual start has a row of its own where it differs by more than this part: less is hard to see
/// beside what histograms are exact to (0.4 %) and what differs from run to run.
const DIFFERS: f64 = 0.05;

/// What stands in the place of figures that the system tells of TCP alone.
const NO_FIGURES: &str =
    "the system tells no chunks, retransmissions or round trips of single associations";

/// Each group of sessions.
pub fn sessions(report: &Report, style: Style) -> Vec<String> {
    let totals = report.session_totals.iter();
    let shown = totals.chain(report.sessions.iter().take(GROUPS));
    let mut parts: Vec<String> = shown.map(|group| self::group(group, style)).collect();
    if let Some(more) = report.sessions.len().checked_sub(GROUPS).filter(|&more| more > 0) {
        let more = human::counted(more as u64, "more group");
        parts.push(format!("{more} of sessions: in the JSON form of this report\n"));
    }
    parts
}

fn group(group: &SessionReport, style: Style) -> String {
    let mut out = style.strong(&heading(group)) + "\n";
    line(&mut out, "  ", &asked(group));
    out += &side_by_side(&counters(group), style);
    line(&mut out, "  pairs: ", &group.pairs.as_ref().map_or_else(String::new, pairs));
    line(&mut out, "  datagrams: ", &group.datagrams.as_ref().map_or_else(String::new, datagrams));
    line(&mut out, "  one way: ", &group.one_way.as_ref().map_or_else(String::new, one_way));
    line(
        &mut out,
        "  zero copy: ",
        &group.zero_copy.as_ref().filter(|of| of.sends > 0).map_or_else(String::new, zero_copy),
    );
    line(&mut out, "  TLS: ", &group.tls.as_ref().map_or_else(String::new, tls));
    let misbehaved = group.misbehaviour.as_ref().map_or_else(String::new, misbehaviour);
    line(&mut out, "  misbehaviour: ", &misbehaved);
    line(
        &mut out,
        "  SCTP: ",
        if group.transport.as_deref() == Some(SessionReport::SCTP) { NO_FIGURES } else { "" },
    );
    line(&mut out, "  rates: ", &all_rates(group));
    line(&mut out, "  statuses: ", &statuses(&group.statuses));
    out += &times(group, style);
    line(&mut out, "  start lateness: ", &short(&group.start_lateness_ns));
    line(&mut out, "  round trip (TCP): ", &short(&group.round_trip_ns));
    out
}

/// Whether it is all groups together: they have no addresses of their own.
fn is_total(group: &SessionReport) -> bool {
    group.local.is_empty() && group.remote.is_empty()
}

/// "web (client, host stack, http to 10.0.2.9:80)".
fn heading(group: &SessionReport) -> String {
    let stack = match group.stack.as_str() {
        stack @ ("host" | "own") => format!("{stack} stack"),
        other => other.to_owned(),
    };
    let stack = match &group.transport {
        Some(transport) => format!("{stack}, {transport}"),
        None => stack,
    };
    let SessionReport { name, end, program, .. } = group;
    let place = match group.end {
        SessionEnd::Client => format!("to {}", group.remote),
        SessionEnd::Server => format!("at {}", group.local),
    };
    let over = if group.tls.is_some() { " over TLS" } else { "" };
    let what = if is_total(group) { program.clone() } else { format!("{program}{over} {place}") };
    let parts = [end.name(), &stack, &what].map(str::to_owned);
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    clean(&format!("{name} ({})", parts.join(", ")))
}

/// Where sessions came from, and how many were asked for.
fn asked(group: &SessionReport) -> String {
    let from = match group.end {
        SessionEnd::Client => &group.local,
        SessionEnd::Server => &group.remote,
    };
    let mut parts = Vec::new();
    if !from.is_empty() {
        parts.push(format!("from {from}"));
    }
    match (group.asked_per_second, group.users) {
        (Some(rate), _) => parts.push(format!("{} starts/s asked", human::number(rate))),
        (None, Some(users)) => parts.push(human::counted(users.into(), "user")),
        // one that waited for another in vain
        (None, None) if group.starts.due == Some(0) => {}
        // a test on another tool's wire has a rate of its own
        (None, None)
            if group.end == SessionEnd::Client
                && matches!(&*group.stack, "host" | "own")
                && !is_total(group) =>
        {
            parts.push("starts as fast as possible".to_owned());
        }
        (None, None) => {}
    }
    let at = |ns: u64| human::time(ns as f64);
    if let (Some(from), Some(to)) = (group.from_ns, group.to_ns) {
        parts.push(match from {
            0 => format!("for {}", at(to)),
            from => format!("from {} to {} of the run", at(from), at(to)),
        });
    }
    if let Some(SessionGoal { established, reached_ns }) = group.until {
        let goal = format!("until {} are established", human::count(established));
        parts.push(match reached_ns {
            Some(reached) => format!("{goal}: reached after {}", at(reached)),
            None => format!("{goal}: not reached"),
        });
    }
    clean(&parts.join("; "))
}

fn counters(group: &SessionReport) -> Vec<Block> {
    let SessionReport { starts, ends, messages, bytes, segments, .. } = group;
    let mut begun = Block::new("sessions");
    begun.count("due", starts.due.unwrap_or(0), false);
    begun.count("expired", starts.expired.unwrap_or(0), true);
    // that none was opened is to be seen
    begun.told("opened", human::count(starts.opened), starts.opened == 0);
    begun.count("established", starts.established, false);
    begun.count("most open", group.most_open, false);
    let mut ended = Block::new("ended");
    ended.count("in order", ends.in_order, false);
    for (name, count) in ends.failed_there() {
        ended.count(name, count, true);
    }
    ended.count("failed here", ends.failed_here, true);
    ended.count("unfinished", ends.unfinished, false);
    let mut data = Block::new("data");
    data.count("requests", messages.requests, false);
    data.count("responses", messages.responses, false);
    data.count("unexpected", messages.unexpected, true);
    data.count("lost", messages.lost, true);
    data.count("late", messages.late, true);
    data.count("malformed", messages.malformed, true);
    data.count("damaged", messages.damaged, true);
    if bytes.offered != bytes.sent {
        data.bytes("offered", bytes.offered);
    }
    data.bytes("sent", bytes.sent);
    data.bytes("acknowledged", bytes.acked);
    data.bytes("delivered", bytes.delivered);
    data.bytes("verified", bytes.verified);
    data.count("segments", segments.data, false);
    data.count("retransmitted", segments.retransmitted, false);
    let mut blocks = vec![begun, ended, data];
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// "1,200 sends, 1,200 of them copied by the system (loopback and veth always copy)".
fn zero_copy(of: &SessionZeroCopy) -> String {
    let mut said = human::counted(of.sends, "send");
    if of.copied > 0 {
        let copied = human::count(of.copied);
        said += &format!(", {copied} of them copied by the system (loopback and veth always copy)");
    }
    let untold = of.sends.saturating_sub(of.told);
    if untold > 0 {
        said += &format!(", {} of them not told of before the end", human::count(untold));
    }
    if of.no_room > 0 {
        let no_room = human::count(of.no_room);
        said +=
            &format!("; {no_room} more copied for want of room (net.core.optmem_max, ulimit -l)");
    }
    said
}

/// "1,000 handshakes, 990 resumed, 3 failed (2 certificate, 1 alert); TLS13_AES_256_GCM_SHA384".
fn tls(of: &SessionTls) -> String {
    let mut said = human::counted(of.handshakes, "handshake");
    if of.resumed > 0 {
        said += &format!(", {} resumed", human::count(of.resumed));
    }
    let causes = of.failed.by_cause().into_iter().filter(|(_, count)| *count > 0);
    let causes: Vec<(&str, u64)> = causes.collect();
    if !causes.is_empty() {
        let failed = causes.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        let causes =
            causes.iter().map(|(cause, count)| format!("{} {cause}", human::count(*count)));
        let causes: Vec<String> = causes.collect();
        said += &format!(", {} failed ({})", human::count(failed), causes.join(", "));
    }
    if of.truncated > 0 {
        said += &format!(", {} without a closing alert", human::count(of.truncated));
    }
    let suites: Vec<String> = match of.suites.len() {
        1 => of.suites.keys().map(|name| clean(name)).collect(),
        _ => {
            let each = of.suites.iter();
            each.map(|(name, count)| format!("{} × {}", clean(name), human::count(*count)))
                .collect()
        }
    };
    if !suites.is_empty() {
        said += &format!("; {}", suites.join(", "));
    }
    if let Some(why) = &of.first_failure {
        said += &format!("; first failure: {}", clean(why));
    }
    said
}

/// "100 by the number, 100 in order, 100 with equal bytes, 1 of the client alone".
fn pairs(of: &SessionPairs) -> String {
    let mut said = format!(
        "{} by the number, {} in order at both ends, {} of them with equal bytes",
        human::count(of.paired),
        human::count(of.in_order),
        human::count(of.equal)
    );
    let others = [
        (of.client_only, "of the client alone"),
        (of.server_only, "of the server alone"),
        (of.left_out, "not looked at"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        said += &format!(", {} {what}", human::count(count));
    }
    said
}

/// "125,000 sent; 124,900 received, 100 lost (0.0800 %), 3 out of order, jitter (RFC 1889) 12.0 µs".
fn datagrams(of: &SessionDatagrams) -> String {
    let mut directions = Vec::new();
    if of.sent > 0 {
        directions.push(format!("{} sent", human::count(of.sent)));
    }
    if of.received > 0 || of.lost > 0 {
        let (all, lost) = (of.received.saturating_add(of.lost), human::count(of.lost));
        let share =
            if of.lost > 0 { format!(" ({})", human::share(of.lost, all)) } else { String::new() };
        let mut received = format!("{} received, {lost} lost{share}", human::count(of.received));
        if let Some(late) = of.out_of_order {
            received += &format!(", {} out of order", human::count(late));
        }
        if let Some(jitter) = of.jitter_ns {
            received += &format!(", jitter (RFC 1889) {}", human::time(jitter as f64));
        }
        directions.push(received);
    }
    directions.join("; ")
}

/// "1,000 messages sent; 1,000 received of 64 B to 1.4 kB, 3 lost (0.300 %), 1 out of order".
fn one_way(of: &SessionOneWay) -> String {
    let mut directions = Vec::new();
    if of.sent > 0 {
        directions.push(format!("{} sent", human::counted(of.sent, "message")));
    }
    if of.received > 0 || of.lost > 0 {
        let mut received = format!("{} received", human::counted(of.received, "message"));
        let bytes = |length: Option<i64>| human::bytes(length.unwrap_or(0) as f64);
        let Stats { min, max, .. } = of.length_bytes;
        received += &match min == max {
            true => format!(" of {}", bytes(max)),
            false => format!(" of {} to {}", bytes(min), bytes(max)),
        };
        if of.lost > 0 {
            let share = human::share(of.lost, of.received.saturating_add(of.lost));
            received += &format!(", {} lost ({share})", human::count(of.lost));
        }
        let others = [
            (of.out_of_order, "out of order"),
            (of.duplicate, "twice"),
            (of.of_other_clocks, "without a delay, by another host's clock"),
        ];
        for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
            received += &format!(", {} {what}", human::count(count));
        }
        directions.push(received);
    }
    directions.join("; ")
}

/// "1,000 acts, answered by 500 acknowledgments; 12 sessions ended by the peer meanwhile".
fn misbehaviour(of: &SessionMisbehaviour) -> String {
    let answered = match of.answered {
        0 => String::new(),
        count => format!(", answered by {}", human::counted(count, "acknowledgment")),
    };
    let ended = match of.ended_by_peer {
        0 => "no session ended by the peer meanwhile".to_owned(),
        count => format!("{} ended by the peer meanwhile", human::counted(count, "session")),
    };
    format!("{}{answered}; {ended}", human::counted(of.acts, "act"))
}

/// The rates of a group, and what it sent in a second where TCP does not say what of that was acknowledged.
fn all_rates(group: &SessionReport) -> String {
    let said = group.rates.as_ref().map_or_else(String::new, rates);
    let sent = sent_bits_per_second(group).filter(|sent| *sent > 0.0 && group.bytes.acked == 0);
    let sent = sent.map(|sent| format!("sent {}", human::bit_rate(sent)));
    let parts: Vec<String> =
        [Some(said), sent].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// What happened in a second, as far as anything did.
fn rates(rates: &SessionRates) -> String {
    let starts = [
        (rates.opened_per_second, "opened/s"),
        (rates.established_per_second, "established/s"),
        (rates.handshakes_per_second.unwrap_or(0.0), "TLS handshakes/s"),
    ];
    let counts = [
        (rates.ended_per_second, "ended/s"),
        (rates.requests_per_second, "requests/s"),
        (rates.responses_per_second, "responses/s"),
    ];
    let bits =
        [(rates.goodput_bits_per_second, "goodput"), (rates.acked_bits_per_second, "acknowledged")];
    // one alone makes no rate: that would only say how short the time was
    let some = |(rate, what): (f64, &str), over: u64| {
        (rate * over as f64 > 1.5e9).then(|| format!("{} {what}", human::number(rate)))
    };
    let bits = bits.into_iter().filter(|(rate, _)| *rate > 0.0);
    let starts: Vec<String> =
        starts.into_iter().filter_map(|rate| some(rate, rates.starting_ns)).collect();
    let others: Vec<String> = counts
        .into_iter()
        .filter_map(|rate| some(rate, rates.over_ns))
        .chain(bits.map(|(rate, what)| format!("{what} {}", human::bit_rate(rate))))
        .collect();
    let in_all = |over: u64| format!(" in {}", human::time(over as f64));
    // what is over another time says which one
    let differs = !starts.is_empty()
        && !others.is_empty()
        && rates.starting_ns.abs_diff(rates.over_ns) > rates.over_ns / 50;
    match differs {
        true => format!(
            "{}{}; {}{}",
            starts.join(", "),
            in_all(rates.starting_ns),
            others.join(", "),
            in_all(rates.over_ns)
        ),
        false => [starts, others].concat().join(", "),
    }
}

fn statuses(statuses: &[StatusCount]) -> String {
    let shown = statuses.iter().take(STATUSES);
    let mut said: Vec<String> =
        shown.map(|of| format!("{} × {}", status(of), human::count(of.count))).collect();
    if let Some(more) = statuses.len().checked_sub(STATUSES).filter(|&more| more > 0) {
        said.push(format!("and {more} more"));
    }
    said.join(", ")
}

/// A status by its name or its number.
fn status(of: &StatusCount) -> String {
    of.name.as_ref().map_or_else(|| of.status.to_string(), |name| clean(name))
}

/// How long things took, one to a line; what was never timed is left out.
fn times(group: &SessionReport, style: Style) -> String {
    let heading =
        ["", "count", "min", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max", "mean"];
    let mut table = Table::new(&heading);
    let SessionTimes { connect, handshake, first_byte, response, delay, session } = &group.times;
    let all = [
        ("connect", connect),
        ("TLS handshake", handshake),
        ("first byte", first_byte),
        ("response", response),
        ("delay", delay),
        ("session", session),
    ];
    let (mut planned, mut differ) = (false, false);
    for (name, times) in all {
        let Some(PlannedActual { planned_ns, actual_ns }) = times else { continue };
        if planned_ns.count > 0 {
            planned = true;
            table.row(row(name, planned_ns));
        }
        if differs(planned_ns, actual_ns) {
            differ = true;
            let label =
                if planned_ns.count > 0 { "  actual".into() } else { format!("{name}, actual") };
            table.row(row(&label, actual_ns));
        }
    }
    for of in group.one_way.iter().filter(|of| of.gap_ns.count > 0) {
        table.row(row("arrival gap", &of.gap_ns));
        table.row(row("jitter", &of.jitter_ns));
    }
    for (name, stats) in group.timers_ns.iter().take(TIMERS) {
        table.row(row(&cut(&clean(name), NAME), stats));
    }
    if table.is_empty() {
        return String::new();
    }
    table = table.without_empty(2);
    if table.width(2) > COLUMNS {
        // the JSON form has it
        table = table.without("p90");
    }
    let mut out = table.render(2, style);
    if planned {
        let actual = match differ {
            true => "'actual' from the actual one, where it differs by more than 5 %",
            false => "from the actual one they are the same within 5 %",
        };
        let timers = match group.timers_ns.is_empty() {
            true => "",
            false => "; named timers from where the program starts them",
        };
        let ends = &group.ends;
        let failed =
            group.starts.opened.saturating_sub(ends.in_order).saturating_sub(ends.unfinished);
        let without = match failed {
            0 => String::new(),
            1 => {
                "; 1 session failed and is only in the times of what it had done before".to_owned()
            }
            failed => format!(
                "; {} sessions failed and are only in the times of what they had done before",
                human::count(failed)
            ),
        };
        let told = format!("(from the planned start; {actual}{timers}{without})");
        out += &hang("  ", &told, COLUMNS);
        out.push('\n');
    }
    out
}

/// Whether times from the actual start are worth a row of their own.
fn differs(planned: &Stats, actual: &Stats) -> bool {
    if actual.count == 0 || planned.count == 0 {
        return actual.count > 0;
    }
    let (of_plan, of_start) = (&planned.percentiles, &actual.percentiles);
    let pairs = [
        (of_plan.p50, of_start.p50),
        (of_plan.p99, of_start.p99),
        (of_plan.p99_9, of_start.p99_9),
        (planned.max, actual.max),
    ];
    pairs.into_iter().filter_map(|(planned, actual)| Some((planned?, actual?))).any(
        |(planned, actual)| {
            (planned as f64 - actual as f64).abs() > DIFFERS * (planned as f64).abs()
        },
    )
}

fn row(label: &str, stats: &Stats) -> Vec<Cell> {
    let show = |value: Option<f64>| Cell::from(time(stats, value));
    let whole = |value: Option<i64>| show(value.map(|value| value as f64));
    // of fewer values it is the maximum
    let from = |values: u64, value: Option<i64>| match stats.count >= values {
        true => whole(value),
        false => NOTHING.to_owned().into(),
    };
    let percentiles = &stats.percentiles;
    vec![
        label.to_owned().into(),
        human::count(stats.count).into(),
        whole(stats.min),
        whole(percentiles.p50),
        whole(percentiles.p90),
        whole(percentiles.p95),
        whole(percentiles.p99),
        from(1_000, percentiles.p99_9),
        from(10_000, percentiles.p99_99),
        whole(stats.max),
        show(stats.mean),
    ]
}

/// "p50 12.3 µs, p99 40.1 µs, max 1.00 ms".
fn short(stats: &Stats) -> String {
    let of = [("p50", stats.percentiles.p50), ("p99", stats.percentiles.p99), ("max", stats.max)];
    let said: Vec<String> = of
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", human::time(value? as f64))))
        .collect();
    said.join(", ")
}
