//! What limited the sessions of a run: the tester's own failures apart from those of the peer and the network.
//!
//! A finding of each kind is one sentence about all groups that it holds for.

use std::collections::BTreeMap;

use super::sessions::SessionGroup;
use crate::human;
use crate::model::{Finding, FindingKind, SessionEnd, SessionEnds, SessionReport};

/// Groups that a finding tells of.
const GROUPS: usize = 3;
/// A rate of starts below this part of what was asked is worth a finding.
const RATE: f64 = 0.99;
/// Where starts are not at equal gaps, as many standard deviations of a Poisson process may be missing: by chance it happens
/// in one of 30,000 runs.
const DEVIATIONS: f64 = 4.0;

/// How a run of which nothing came is made to fail; without an expectation it is done.
const HINT: &str = "; with --expect 'failed == 0' such a run ends with exit code 4";

/// Everything to be said about `sessions`, which are those of `groups` in their order.
pub(super) fn findings(sessions: &[SessionReport], groups: &[SessionGroup]) -> Vec<Finding> {
    let mut alike: BTreeMap<&str, u64> = BTreeMap::new();
    for group in sessions {
        *alike.entry(&group.name).or_default() += 1;
    }
    let all = || sessions.iter().map(|group| (label(&alike, group), group));
    let told = |tell: fn(&SessionReport) -> Option<String>| {
        listed(all().filter_map(|(name, group)| Some(format!("{name}: {}", tell(group)?))))
    };
    let late = told(start_lateness).map(|told| {
        format!("sessions started late ({told}): times from the planned start include this delay, those from the actual start do not")
    });
    let missed = all().zip(groups).filter_map(|((name, group), facts)| {
        Some(format!("{name} {}", rate_missed(group, facts.steady)?))
    });
    let failed = all().zip(groups).filter_map(|((name, group), facts)| {
        Some(format!("{name}: {}", failed_there(group, facts.resets)?))
    });
    let kinds = [
        (FindingKind::NothingEstablished, told(nothing_established).map(|told| {
            format!("no session was established: {told}; check the addresses, the port, and what filters between")
        })),
        (FindingKind::SessionsFailedHere, told(failed_here).map(|told| {
            format!(
                "this machine failed, not the peer: {told} had no port, file descriptor or memory; see 'ulimit -n', more \
                 client addresses or ports, or a lower rate"
            )
        })),
        (FindingKind::SessionsExpired, told(expired).map(|told| format!("sessions expired: {told}"))),
        (FindingKind::PayloadDamaged, told(damaged)
            .map(|told| format!("received bytes are not what they should be: {told}"))),
        (FindingKind::SessionsFailed, listed(failed)
            .map(|told| format!("sessions failed by the peer or the network: {told}"))),
        (FindingKind::ResponsesLost, told(lost)
            .map(|told| format!("responses did not come in time: {told}"))),
        (FindingKind::ResponsesUnexpected, told(unexpected_responses)
            .map(|told| format!("responses were not as expected: {told}"))),
        (FindingKind::ResponsesUnexpected, told(unexpected_requests)
            .map(|told| format!("requests were not as expected: {told}"))),
        (FindingKind::SessionRateMissed, listed(missed)
            .map(|told| format!("fewer sessions were opened than asked: {told}"))),
        (FindingKind::SessionStartsLate, late),
        (FindingKind::SessionsUnfinished, told(unfinished)
            .map(|told| format!("sessions were open when the run ended, which closed them: {told}"))),
    ];
    let mut hint = (all_failed(sessions) && !any_expected(sessions)).then_some(HINT);
    let found = kinds.into_iter().filter_map(|(kind, message)| {
        let mut message = message?;
        if matches!(kind, FindingKind::SessionsFailedHere | FindingKind::SessionsFailed) {
            message += hint.take().unwrap_or_default();
        }
        Some((kind, message))
    });
    let noted = groups.iter().flat_map(|group| group.notes.iter().cloned());
    found.chain(noted).map(|(kind, message)| Finding { kind, message }).collect()
}

/// The name of a group, with its end where another one has the same: how many have each name.
fn label(alike: &BTreeMap<&str, u64>, group: &SessionReport) -> String {
    match alike.get(group.name.as_str()) {
        None | Some(0 | 1) => group.name.clone(),
        _ => format!("{} ({})", group.name, group.end.name()),
    }
}

/// The first of them; `None` where there are none.
fn listed(all: impl Iterator<Item = String>) -> Option<String> {
    let mut all: Vec<String> = all.collect();
    let more = all.len().saturating_sub(GROUPS);
    all.truncate(GROUPS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!all.is_empty()).then(|| all.join("; ") + &more)
}

fn sessions(count: u64) -> String {
    human::counted(count, "session")
}

fn nothing_established(group: &SessionReport) -> Option<String> {
    match group.end {
        // what the other end of ours says
        SessionEnd::Server if group.paired_with.is_some() => None,
        SessionEnd::Server => {
            (group.starts.opened == 0).then(|| format!("none at {}", group.local))
        }
        // nobody answers messages one way
        SessionEnd::Client if group.is_over_udp() && group.one_way.is_some() => None,
        // sessions that are not to be established, and were answered
        SessionEnd::Client if group.misbehaviour.is_some_and(|of| of.answered > 0) => None,
        SessionEnd::Client => (group.starts.opened > 0 && group.starts.established == 0)
            .then(|| format!("none of {} to {}", sessions(group.starts.opened), group.remote)),
    }
}

fn failed_here(group: &SessionReport) -> Option<String> {
    of_opened(group.ends.failed_here, group)
}

fn unfinished(group: &SessionReport) -> Option<String> {
    of_opened(group.ends.unfinished, group)
}

fn of_opened(count: u64, group: &SessionReport) -> Option<String> {
    let opened = human::count(group.starts.opened);
    (count > 0).then(|| format!("{} of {opened} opened", human::count(count)))
}

fn expired(group: &SessionReport) -> Option<String> {
    let (expired, due) = (group.starts.expired?, group.starts.due?);
    let by = group.starts.expired_by.unwrap_or_default();
    let causes: Vec<(u64, &str)> = [
        (by.late, "the tester was too late"),
        (by.at_limit, "too many were open"),
        (by.waiting, "a limit held them back until starts ended"),
    ]
    .into_iter()
    .filter(|(many, _)| *many > 0)
    .collect();
    let why = match causes[..] {
        [] => String::new(),
        [(_, cause)] => format!(", because {cause}"),
        _ => causes
            .iter()
            .map(|(many, cause)| format!(", {} because {cause}", human::count(*many)))
            .collect(),
    };
    (expired > 0).then(|| {
        let share = human::share(expired, due);
        format!("{} of {} due ({share}){why}", human::count(expired), human::count(due))
    })
}

fn damaged(group: &SessionReport) -> Option<String> {
    let damaged = group.messages.damaged;
    (damaged > 0).then(|| human::counted(damaged, "message"))
}

fn failed_there(group: &SessionReport, resets: bool) -> Option<String> {
    let ends = SessionEnds { reset: if resets { 0 } else { group.ends.reset }, ..group.ends };
    let ways = ends.failed_there().into_iter().filter(|(_, count)| *count > 0);
    let (early, responses) = (group.ends.closed_early, group.messages.before_closed_early);
    let way = |(name, count): (&str, u64)| {
        let mut way = format!("{} {name}", human::count(count));
        if name == SessionEnds::CLOSED_EARLY && responses > 0 {
            let each = responses as f64 / early.max(1) as f64;
            way += &format!(" after {} responses on average", human::number(each));
        }
        way
    };
    let ways: Vec<String> = ways.map(way).collect();
    let opened = human::count(group.starts.opened);
    (!ways.is_empty()).then(|| format!("{} of {opened} opened", ways.join(", ")))
}

fn unexpected_responses(group: &SessionReport) -> Option<String> {
    let unexpected = group.messages.unexpected;
    (group.end == SessionEnd::Client && unexpected > 0)
        .then(|| format!("{} beside {}", human::count(unexpected), received(group)))
}

/// A server receives requests and sends responses.
fn unexpected_requests(group: &SessionReport) -> Option<String> {
    let (unexpected, responses) = (group.messages.unexpected, group.messages.responses);
    (group.end == SessionEnd::Server && unexpected > 0).then(|| {
        let sent = human::counted(responses, "response");
        format!("{}, and {sent} sent in all", human::count(unexpected))
    })
}

fn lost(group: &SessionReport) -> Option<String> {
    let (lost, requests) = (group.messages.lost, group.messages.requests);
    (lost > 0).then(|| {
        let share = human::share(lost, requests);
        format!("{} of {}, {share}", human::count(lost), human::counted(requests, "request"))
    })
}

/// Whether sessions were opened, and none of them ended in order or went on until the run ended.
fn all_failed(sessions: &[SessionReport]) -> bool {
    let opened = |group: &SessionReport| group.starts.opened > 0;
    let well = |group: &SessionReport| group.ends.in_order > 0 || group.ends.unfinished > 0;
    sessions.iter().any(opened) && !sessions.iter().any(well)
}

fn any_expected(sessions: &[SessionReport]) -> bool {
    sessions.iter().any(|group| !group.expectations.is_empty())
}

fn received(group: &SessionReport) -> String {
    format!("{} received whole", human::count(group.messages.responses))
}

/// How late the starts were, where one of a hundred was as late as the next one was due.
fn start_lateness(group: &SessionReport) -> Option<String> {
    let gap = 1e9 / group.asked_per_second?;
    let p99 = group.start_lateness_ns.percentiles.p99? as f64;
    (gap.is_finite() && p99 > gap)
        .then(|| format!("p99 {} at {} between starts", human::time(p99), human::time(gap)))
}

/// What the rate of starts was, where it was less than asked by more than chance makes it.
fn rate_missed(group: &SessionReport, steady: bool) -> Option<String> {
    let (asked, rates) = (group.asked_per_second?, group.rates?);
    let expected = asked * (rates.starting_ns as f64 / 1e9);
    let missing = expected - group.starts.opened as f64;
    let chance = if steady { 1.0 } else { DEVIATIONS * expected.sqrt() };
    let missed = rates.opened_per_second < RATE * asked && missing > chance;
    missed.then(|| {
        format!(
            "opened {} of {}/s asked ({})",
            human::number(rates.opened_per_second),
            human::number(asked),
            human::deviation((rates.opened_per_second / asked - 1.0) * 1e6)
        )
    })
}
