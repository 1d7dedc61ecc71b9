//! From what the threads of a run of sessions left behind to a report.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use wirebeat_host::CpuTimes;
use wirebeat_meter::session::{SessionCounts, SessionSummary, SessionTime};
use wirebeat_report::assemble::{
    Clocks, RunFacts, SessionGroup as Group, SessionIntervalCounts, assemble,
};
use wirebeat_report::model::{
    Change, End, FindingKind, Json, Report, SessionEnd, SessionFrames, SessionGoal, SessionZeroCopy,
};
use wirebeat_traffic::program::script::SessionGroup;
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::values::session::{Pairing, StackChoice, Transport};
use wirebeat_units::Nanos;

use super::counted::Counted;
use super::shown::Lost;
use super::worker::Finished;
use super::{PreparedSessions, far, mix, of, pairs, words};
use crate::expectations::sessions::{GroupMeasures, is_of_report};
use crate::{control, facts};

/// What a run of sessions left.
pub(super) struct Outcome {
    pub(super) finished: Vec<Finished>,
    pub(super) end: End,
    pub(super) started: SystemTime,
    pub(super) begin: Nanos,
    pub(super) ended: Nanos,
    pub(super) cpu: CpuTimes,
    pub(super) intervals: Vec<(usize, SessionEnd, SessionIntervalCounts)>,
    /// A listener on another host that served no more.
    pub(super) lost: Option<Lost>,
}

pub(super) fn report(mut run: PreparedSessions, outcome: Outcome) -> Report {
    let Outcome { finished, mut end, started, ended, cpu, intervals, begin, lost } = outcome;
    let mut summaries: BTreeMap<(usize, SessionEnd), SessionSummary> = BTreeMap::new();
    let mut counted = Vec::new();
    let in_no_time = finished.iter().any(|worker| worker.ended.is_some());
    let gates = finished.iter().find_map(|worker| worker.gates.as_ref()).unwrap_or(&run.gates);
    let gates = Arc::clone(gates);
    for worker in &finished {
        counted.extend(worker.counted.iter().cloned());
        if let Some(message) = &worker.error {
            end = End::Failed { message: message.clone() };
        }
        for (group, side, summary) in &worker.summaries {
            summaries.entry((*group, of(*side))).or_default().merge(summary);
        }
    }
    // with all that changed meanwhile
    if let Some(control) = &run.control {
        run.sessions.starts = control.program();
    }
    count_lost(&run, &mut summaries);
    let places: Vec<(usize, SessionEnd)> = summaries.keys().copied().collect();
    let mut groups = Vec::new();
    for (&(number, side), summary) in &summaries {
        let Some(plan) = run.sessions.groups.get(number) else { continue };
        let other = match side {
            SessionEnd::Client => SessionEnd::Server,
            SessionEnd::Server => SessionEnd::Client,
        };
        let mut group = described(&run, plan, side, summary, Span { begin, ended });
        if side == SessionEnd::Server && far::is_far(&run.scenario, plan) {
            // of the other host, whoever's TCP speaks here
            group.stack = StackChoice::Host.name().to_owned();
        }
        group.paired_with = places.iter().position(|place| *place == (number, other));
        group.summary = summary.clone();
        group.zero_copy = zero_copy(&finished, (number, side));
        if side == SessionEnd::Client || plan.from.is_none() {
            group.goal = plan.until.map(|established| {
                let reached = gates.reached(number as u16).map(|at| at.saturating_sub(begin));
                SessionGoal { established, reached_ns: reached.map(Nanos::get) }
            });
        }
        group.frames = frames(&counted, (run.sessions.groups.len(), number), side);
        if plan.pair == Pairing::Payload && side == SessionEnd::Client {
            group.pairs = pairs::of(summary, summaries.get(&(number, other)));
        }
        let mine = intervals.iter().filter(|(of, end, _)| (*of, *end) == (number, side));
        group.intervals = mine.map(|(_, _, counts)| counts.clone()).collect();
        let judged = side == SessionEnd::Client || plan.from.is_none();
        if judged {
            let rates = group.rates(ended);
            let both = with_other(summary, summaries.get(&(number, other)));
            let mut expected = run.scenario.expected_of_sessions(&plan.name);
            // those are judged when there is a report
            expected.retain(|expectation| !is_of_report(expectation));
            let measures = GroupMeasures {
                summary: &both,
                rates: rates.as_ref(),
                duration: ended,
                both_ends: summaries.contains_key(&(number, other)),
            };
            let judge = |one| crate::expectations::sessions::judge(one, measures);
            group.expectations = expected.iter().map(judge).collect();
        }
        if summary.counts.failed_here > 0 && side == SessionEnd::Client {
            group.notes.push((
                FindingKind::SessionsFailedHere,
                format!(
                    "sessions '{}': {} could not be opened by this machine: no client port was free, or {}",
                    plan.name,
                    summary.counts.failed_here,
                    match plan.stack {
                        StackChoice::Own => {
                            "more were open than its TCP has room for; give more client addresses, or \
                             'limit: { open: N }', which makes room"
                        }
                        StackChoice::Host => {
                            "no file descriptor; see docs/sessions.md, 'What the system decides'"
                        }
                    }
                ),
            ));
        }
        let counts = &summary.counts;
        let nothing = counts.sent_bytes == 0 && counts.delivered_bytes == 0;
        if plan.program == "bulk" && side == SessionEnd::Client && nothing && counts.established > 0
        {
            group.notes.push((
                FindingKind::ResponsesUnexpected,
                format!(
                    "sessions '{}': no data came or went; both ends of bulk data have to be told the same direction \
                     (--reverse, --both-ways)",
                    plan.name
                ),
            ));
        }
        let elsewhere = counts.messages_of_other_clocks;
        if elsewhere > 0 {
            group.notes.push((
                FindingKind::ClockUncertain,
                format!(
                    "sessions '{}': {elsewhere} messages carry times of another host's clock, so their delays are not \
                     known; jitter and gaps are",
                    plan.name
                ),
            ));
        }
        if plan.after.is_some() && side == SessionEnd::Client && counts.due == 0 {
            group.notes.push((FindingKind::SessionsNotBegun, never_began(&run, plan, &summaries)));
        }
        groups.push(group);
    }
    // servers of a thread have their descriptors together: it is said once
    let mut servers = groups.iter_mut().filter(|group| {
        group.end == SessionEnd::Server
            && !group.over_udp
            && group.stack == StackChoice::Host.name()
    });
    if finished.iter().any(|worker| worker.accepted_late)
        && let Some(group) = servers.next()
    {
        let why = "this machine had no file descriptor or memory for more connections of its servers, and accepted them late: peers \
                   waited to connect or to be answered; see 'ulimit -n'";
        group.notes.push((FindingKind::SessionsFailedHere, why.to_owned()));
    }
    let events: u64 = groups.iter().map(|group| group.summary.counts.opened).sum();
    let (costs, spent) = facts::cost(&cpu, events);
    let mut machine =
        if in_no_time { Vec::new() } else { facts::disturbances(&spent, &run.machine) };
    machine.extend(lost.map(|lost| {
        format!(
            "the listener at {} no longer serves the sessions of this run: {}",
            lost.peer, lost.why
        )
    }));
    let scenario = run.scenario.to_json().ok().and_then(|json| Json::parse(&json));
    let completed = end == End::Completed;
    let changes = match &run.control {
        Some(control) => control.noted(ended, completed),
        None => planned(&run.scenario, ended),
    };
    let run_facts = RunFacts {
        wirebeat_version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: run.options.command_line.clone(),
        seed: Some(run.scenario.seed),
        scenario,
        started,
        duration: ended,
        end,
        clocks: Clocks::Same,
        costs,
        // of a run on a virtual clock nothing depends on how fast the machine was
        machine,
        changes,
        outages: Vec::new(),
        replays: Vec::new(),
        captures: Vec::new(),
        sessions: groups,
        stacks: counted.into_iter().map(|(port, counted)| counted.report(port)).collect(),
    };
    let mut report = assemble(run_facts, None, None);
    report.mix = mix::of(&run.scenario, &run.sessions, &report);
    report
}

/// Sends without a copy of one end of a group, on all cores; `None` where they were not asked for.
fn zero_copy(finished: &[Finished], of: (usize, SessionEnd)) -> Option<SessionZeroCopy> {
    let all = finished.iter().flat_map(|worker| &worker.zero_copies);
    let mine = all.filter(|(group, end, _)| (*group, super::of(*end)) == of);
    mine.map(|(.., counters)| *counters).reduce(SessionZeroCopy::and)
}

/// Frames that all cores of all ports sent for one end of group `number` of so many; `None` where our own TCP had no part in it.
fn frames(
    counted: &[(String, Counted)],
    (groups, number): (usize, usize),
    side: SessionEnd,
) -> Option<SessionFrames> {
    let profile = match side {
        SessionEnd::Client => number,
        SessionEnd::Server => groups + number,
    };
    let sums = counted.iter().filter_map(|(_, of)| of.sent_for.get(profile));
    let sum = sums.fold(SessionFrames::default(), |sum, of| SessionFrames {
        sent: sum.sent.saturating_add(of.frames),
        sent_bytes: sum.sent_bytes.saturating_add(of.bytes),
    });
    (sum.sent > 0).then_some(sum)
}

/// Over UDP, where both ends are ours: what was sent and not received is lost, the last messages too.
fn count_lost(
    run: &PreparedSessions,
    summaries: &mut BTreeMap<(usize, SessionEnd), SessionSummary>,
) {
    let over_udp = |of: &SessionGroup| of.transport == Transport::Udp && of.both_ends;
    for (number, _) in run.sessions.groups.iter().enumerate().filter(|(_, of)| over_udp(of)) {
        let sent = summaries.get(&(number, SessionEnd::Client)).map(|of| of.counts.messages_sent);
        if let (Some(sent), Some(to)) = (sent, summaries.get_mut(&(number, SessionEnd::Server))) {
            to.counts.messages_lost = sent.saturating_sub(to.counts.messages_received);
        }
    }
}

/// What one end did, with the messages one way and the segments of the other: expectations are of both directions.
fn with_other<'a>(
    summary: &'a SessionSummary,
    other: Option<&SessionSummary>,
) -> Cow<'a, SessionSummary> {
    // where all are lost nothing was received
    let has_any = |other: &&SessionSummary| {
        let counts = &other.counts;
        [counts.messages_sent, counts.messages_received, counts.messages_lost] != [0; 3]
            || [counts.data_segments, counts.retransmitted_segments] != [0; 2]
    };
    let Some(other) = other.filter(has_any) else {
        return Cow::Borrowed(summary);
    };
    let others = SessionSummary {
        counts: SessionCounts {
            messages_sent: other.counts.messages_sent,
            messages_received: other.counts.messages_received,
            messages_lost: other.counts.messages_lost,
            damaged: other.counts.damaged,
            data_segments: other.counts.data_segments,
            retransmitted_segments: other.counts.retransmitted_segments,
            ..SessionCounts::default()
        },
        arrivals: other.arrivals.clone(),
        ..SessionSummary::default()
    };
    let mut both = summary.clone();
    both.merge(&others);
    if let Some(delay) = both.times.get_mut(SessionTime::Delay as usize) {
        let of = other.time(SessionTime::Delay);
        delay.planned.merge(&of.planned);
        delay.actual.merge(&of.actual);
    }
    Cow::Owned(both)
}

/// Why a group that waits for another had no session.
fn never_began(
    run: &PreparedSessions,
    plan: &SessionGroup,
    summaries: &BTreeMap<(usize, SessionEnd), SessionSummary>,
) -> String {
    let Some(after) = plan.after else { return String::new() };
    let group = usize::from(after.group);
    let Some(of) = run.sessions.groups.get(group) else { return String::new() };
    let end = if of.from.is_some() { SessionEnd::Client } else { SessionEnd::Server };
    let established = summaries.get(&(group, end)).map_or(0, |of| of.counts.established);
    if established >= after.established {
        return format!(
            "sessions '{}' had no time left: they were to begin when '{}' had {} established",
            plan.name, of.name, after.established
        );
    }
    format!(
        "sessions '{}' did not begin: they wait until '{}' has {} established, and it had {established}",
        plan.name, of.name, after.established
    )
}

/// What the scenario planned to change in the starts of sessions before `ended`.
fn planned(scenario: &Scenario, ended: Nanos) -> Vec<Change> {
    let groups = (0..).zip(scenario.sessions.values());
    let changes = groups
        .flat_map(|(group, spec)| spec.at.iter().map(move |(&at, change)| (group, at, change)));
    let name = |group: u32| {
        let group = scenario.sessions.get_index(group as usize);
        group.map_or("", |(name, _)| name.as_str())
    };
    let mut planned = control::planned(changes, control::Of::Sessions, name);
    planned.retain(|change| change.at_ns < ended.get());
    planned.sort_by_key(|change| change.at_ns);
    planned
}

/// When a run began, on the clock of the run, and how long it took.
#[derive(Clone, Copy)]
struct Span {
    begin: Nanos,
    ended: Nanos,
}

/// What the starts of a group were to be.
struct Starting {
    /// How many a second, where that was said; users start as sessions end.
    rate: Option<f64>,
    /// For how long as many as were due start at a steady rate, in bursts as well; zero where it is none.
    due: Nanos,
    /// When they were to end.
    stop: Nanos,
}

impl Starting {
    /// For how long a group started sessions, of which the last was opened `last` after its `start`; `done` where no more were to come
    /// before `stop`.
    fn took(&self, start: Nanos, last: Nanos, ended: Nanos, done: bool) -> Nanos {
        let planned = self.stop.saturating_sub(start);
        // starts that were late, or had to wait, took as long as they took
        let by_time = planned.min(ended.saturating_sub(start)).max(last);
        // the last start has its gap as the others have
        let gap = self.rate.map_or(Nanos::ZERO, |rate| Nanos::new((1e9 / rate).round() as u64));
        let by_count = last.saturating_add(gap).max(self.due);
        match done {
            // though nothing is waited for after the last start
            true => by_count.min(planned.max(last)),
            // a run whose last session has ended does not wait for a stop at which nothing happens
            false if ended < self.stop => by_time.max(by_count.min(planned)),
            false => by_time,
        }
    }
}

/// For how long an end accepted `opened` sessions, the last one with the gap that the others have on average.
fn accepting(opened: u64, first: Nanos, last: Nanos) -> Option<Nanos> {
    let (span, gaps) = (last.saturating_sub(first), opened.saturating_sub(1));
    (gaps > 0 && span > Nanos::ZERO)
        .then(|| Nanos::new((span.get() as f64 * opened as f64 / gaps as f64) as u64))
}

/// A group at one end, without what it counted.
fn described(
    run: &PreparedSessions,
    plan: &SessionGroup,
    side: SessionEnd,
    summary: &SessionSummary,
    Span { begin, ended }: Span,
) -> Group {
    let client = side == SessionEnd::Client;
    let offered = plan.starts.filter(|_| client).and_then(|flow| run.sessions.starts.offered(flow));
    // of a group that waited in vain nothing was asked
    let begun = plan.after.is_none() || summary.counts.due > 0;
    let offered = offered.filter(|_| begun);
    let at = |moment: Nanos| moment.saturating_sub(begin);
    // a server works from its first session on
    let start = match plan.after {
        Some(_) => at(summary.first_opened).min(ended),
        None => plan.start,
    };
    let stop = match plan.after {
        Some(_) => plan.stop.saturating_sub(plan.start).saturating_add(start).min(plan.end),
        None => plan.stop,
    };
    let from = if client { start } else { at(summary.first_opened) };
    let until = match summary.last_ended {
        Nanos::ZERO => ended,
        last => at(last).min(ended),
    };
    let until = until.max(from);
    let rate = offered.map(|(rate, _)| rate.per_second());
    let starting = match client {
        true if rate.is_some() || plan.users.is_some() => {
            let reached = plan.until.is_some_and(|until| summary.counts.established >= until);
            let done = reached || summary.counts.due >= plan.count;
            let last = at(summary.last_opened).saturating_sub(start);
            let steady = rate.filter(|_| offered.is_some_and(|(_, steady)| steady));
            let due = steady.map_or(0.0, |rate| summary.counts.due as f64 / rate * 1e9);
            let starting = Starting { rate, due: Nanos::new(due.round() as u64), stop };
            Some(starting.took(start, last, ended, done))
        }
        true => None,
        // others' clients start when they like
        false => accepting(summary.counts.opened, from, at(summary.last_opened)),
    };
    let (local, remote) = match side {
        SessionEnd::Client => (
            words::pool(&plan.clients, plan.stack, true),
            words::pool(&plan.servers, plan.stack, false),
        ),
        SessionEnd::Server => (
            words::pool(&plan.servers, plan.stack, false),
            words::pool(&plan.clients, plan.stack, false),
        ),
    };
    Group {
        name: plan.name.clone(),
        end: side,
        stack: plan.stack.name().to_owned(),
        over_udp: plan.transport == Transport::Udp,
        over_sctp: plan.transport == Transport::Sctp,
        has_tls: plan.tls.is_some(),
        resets: !client && plan.both_ends && plan.tcp.reset,
        status_name: (plan.program == "dns").then_some(wirebeat_dns::rcode_name),
        program: plan.program.to_owned(),
        local,
        remote,
        rate: offered.map(|(rate, _)| rate),
        steady: offered.is_some_and(|(_, steady)| steady),
        users: plan.users.filter(|_| client),
        under_way: Some((from, until)),
        starting,
        ..Group::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_over_the_time_in_which_there_were_to_be_some() {
        let [second, ended] = [1, 4].map(Nanos::from_secs);
        let stop = Nanos::from_secs(5);
        let each_second = Starting { rate: Some(1.0), due: Nanos::ZERO, stop };
        let took = |of: &Starting, start, last, ended, done| of.took(start, last, ended, done);
        // the last of five ended at once, and the run with it
        assert_eq!(took(&each_second, Nanos::ZERO, ended, ended, false), stop);
        // as many as were asked for, with the gap behind the last one, however soon the run ended; late ones
        assert_eq!(took(&each_second, Nanos::ZERO, second, stop, true), Nanos::from_secs(2));
        assert_eq!(took(&each_second, Nanos::ZERO, second, second, true), Nanos::from_secs(2));
        assert_eq!(took(&each_second, Nanos::ZERO, ended, ended, true), stop);
        let late = Nanos::from_secs(7);
        assert_eq!(took(&each_second, Nanos::ZERO, late, Nanos::from_secs(20), false), late);
        // a run that was stopped while there were to be more
        assert_eq!(took(&each_second, second, Nanos::ZERO, ended, false), Nanos::from_secs(3));
        // users start until the stop, and what is open then ends later
        let users = Starting { rate: None, due: Nanos::ZERO, stop };
        assert_eq!(took(&users, Nanos::ZERO, ended, Nanos::from_secs(20), false), stop);
        // five in bursts of which the last came at 3 s, or four of them expired: the plan took five seconds
        let bursts = Starting { rate: Some(1.0), due: stop, stop };
        let third = Nanos::from_secs(3);
        assert_eq!(took(&bursts, Nanos::ZERO, third, ended, false), stop);
        assert_eq!(took(&bursts, Nanos::ZERO, third, ended, true), stop);
        // a server: eleven in ten seconds are one in a second
        let accepted = accepting(11, second, Nanos::from_secs(11)).unwrap();
        assert_eq!(accepted, Nanos::from_secs(11));
        assert_eq!(accepting(1, second, second), None);
    }

    /// Those of the other end were not counted where it received nothing, so that `lost-messages == 0` held.
    #[test]
    fn messages_that_are_all_lost_are_counted() {
        let summary = |counts| SessionSummary { counts, ..SessionSummary::default() };
        let client = summary(SessionCounts { messages_sent: 10, ..SessionCounts::default() });
        let server = summary(SessionCounts { messages_lost: 10, ..SessionCounts::default() });
        assert_eq!(with_other(&client, Some(&server)).counts.messages_lost, 10);
        assert_eq!(with_other(&client, None).counts.messages_lost, 0);
    }

    /// Of a download, the client sends no data again.
    #[test]
    fn segments_that_the_other_end_sent_again_count() {
        let summary = |data_segments, retransmitted_segments| SessionSummary {
            counts: SessionCounts { data_segments, retransmitted_segments, ..Default::default() },
            ..SessionSummary::default()
        };
        let (client, server) = (summary(0, 4), summary(9634, 984));
        let both = with_other(&client, Some(&server)).counts;
        assert_eq!((both.data_segments, both.retransmitted_segments), (9634, 988));
    }
}
