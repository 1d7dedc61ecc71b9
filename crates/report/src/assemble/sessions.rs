//! Sessions: from what a run counted of each group to what a report says of it.

use std::collections::BTreeMap;

use wirebeat_meter::connections::ConnectionGauges;
use wirebeat_meter::session::{SessionCounts, SessionSummary, SessionTime};
use wirebeat_units::{FrameRate, Nanos};

use super::rates::digits;
use crate::human;
use crate::model::{
    Expectation, FindingKind, PlannedActual, SessionBytes, SessionConnections, SessionDatagrams,
    SessionEnd, SessionEnds, SessionFrames, SessionGoal, SessionInterval, SessionIntervals,
    SessionMessages, SessionMisbehaviour, SessionOneWay, SessionPairs, SessionRates, SessionReport,
    SessionSegments, SessionStarts, SessionTimes, SessionTls, SessionZeroCopy, SessionsExpired,
    Stats, StatusCount, TlsFailures,
};

/// The name of all groups together; a group may have it too, and is told from them by where it stands.
const TOTAL: &str = "all";

/// A group of sessions at one end, as the run counted it.
#[derive(Clone, Debug, Default)]
pub struct SessionGroup {
    /// Its name in the scenario.
    pub name: String,
    /// Which end this is.
    pub end: SessionEnd,
    /// Whose TCP it is: "host", "own"; or whose wire: "iperf3", "iperf2".
    pub stack: String,
    /// Whether its messages are datagrams of UDP: then some may be lost, and nothing says that a session is established but an answer.
    pub over_udp: bool,
    /// Whether its sessions are associations of SCTP.
    pub over_sctp: bool,
    /// Whether it has TLS between the program and TCP.
    pub has_tls: bool,
    /// Whether clients of ours were asked to end the sessions of this server by RST: one that was reset has not failed.
    pub resets: bool,
    /// What its sessions do: "http", "bulk".
    pub program: String,
    /// The names of statuses, where the protocol has names for them.
    pub status_name: Option<fn(u16) -> Option<&'static str>>,
    /// Its own addresses and ports, in words: "10.0.1.0/24, ports of the system".
    pub local: String,
    /// Those of the other end: "10.0.2.9:80".
    pub remote: String,
    /// Session starts in a second that were asked for, on average; `None` for users, as fast as possible, and a server.
    pub rate: Option<FrameRate>,
    /// Whether starts come at equal gaps of that rate all the time. Where they do not, chance may make them fewer, and they are
    /// not held against the rate as strictly.
    pub steady: bool,
    /// Users that start one session after the other.
    pub users: Option<u32>,
    /// When sessions were to start, from the start of the run; where the run was stopped, until then. `None`: all the time.
    pub under_way: Option<(Nanos, Nanos)>,
    /// How many sessions it was to have established, and when it had; `None`: it was to reach nothing.
    pub goal: Option<SessionGoal>,
    /// For how long sessions were to start, where that is not all that time: a count may be reached before.
    pub starting: Option<Nanos>,
    /// The place among the groups of the other end of the same connections. `None` where that is not ours, and where something
    /// between the ends has connections of its own (a proxy), so that bytes of both ends need not be equal.
    pub paired_with: Option<usize>,
    /// Sessions of both ends, put together by their numbers.
    pub pairs: Option<SessionPairs>,
    /// What it did. `acked_bytes` has to be without SYN and FIN, which Linux counts as a byte each.
    pub summary: SessionSummary,
    /// Frames that were sent for it, where that is counted.
    pub frames: Option<SessionFrames>,
    /// Sends without a copy, where they were asked for.
    pub zero_copy: Option<SessionZeroCopy>,
    /// What it counted of datagrams, where its sessions are streams over UDP.
    pub datagrams: Option<SessionDatagrams>,
    /// What it did over time.
    pub intervals: Vec<SessionIntervalCounts>,
    /// What was expected of it, and what came of it.
    pub expectations: Vec<Expectation>,
    /// What limited it and no counter says, as findings.
    pub notes: Vec<(FindingKind, String)>,
}

/// What was counted of a group of sessions in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionIntervalCounts {
    /// When it began, from the start of the run.
    pub from: Nanos,
    /// When it ended.
    pub to: Nanos,
    /// What happened in it ([`SessionCounts::since`]).
    pub counts: SessionCounts,
    /// Sessions that were open when it ended.
    pub open: u64,
    /// What open connections were like shortly before.
    pub connections: Option<ConnectionGauges>,
    /// Datagrams, where sessions are streams over UDP.
    pub datagrams: Option<SessionDatagrams>,
    /// How long the responses took that came in it, without the histogram.
    pub response: Option<Stats>,
}

impl SessionGroup {
    /// What it did in a second, in a run that lasted so long.
    pub fn rates(&self, duration: Nanos) -> Option<SessionRates> {
        let rates = rates(&self.summary.counts, over(self, duration), self.starting)?;
        let handshakes_per_second = rates.handshakes_per_second.filter(|_| self.has_tls);
        Some(SessionRates { handshakes_per_second, ..rates })
    }
}

/// What a report says of each group, of a run that lasted so long.
pub(super) fn reports(groups: &[SessionGroup], duration: Nanos) -> Vec<SessionReport> {
    groups.iter().map(|group| report(group, groups.len(), duration)).collect()
}

/// All groups of each end together, where they are several: counters, distributions and rates as those of one group.
pub(super) fn totals(groups: &[SessionGroup], duration: Nanos) -> Vec<SessionReport> {
    let ends = [SessionEnd::Client, SessionEnd::Server];
    ends.into_iter().filter_map(|end| total(groups, end, duration)).collect()
}

fn total(groups: &[SessionGroup], end: SessionEnd, duration: Nanos) -> Option<SessionReport> {
    let all = || groups.iter().filter(|group| group.end == end);
    let (first, count) = (all().next()?, all().count());
    if count < 2 {
        return None;
    }
    let alike = |of: fn(&SessionGroup) -> &str| {
        let is_one = all().all(|group| of(group) == of(first));
        if is_one { of(first).to_owned() } else { String::new() }
    };
    let mut summary = SessionSummary::default();
    let (mut frames, mut datagrams) = (None::<SessionFrames>, None::<SessionDatagrams>);
    let zero_copy = all().filter_map(|group| group.zero_copy).reduce(SessionZeroCopy::and);
    for group in all() {
        summary.merge(&group.summary);
        // those of single sessions are of their groups, and a status is a word of one protocol
        summary.numbered.clear();
        if let Some(SessionFrames { sent, sent_bytes }) = group.frames {
            let all = frames.get_or_insert_default();
            all.sent = all.sent.saturating_add(sent);
            all.sent_bytes = all.sent_bytes.saturating_add(sent_bytes);
        }
        if let Some(more) = group.datagrams {
            datagrams.get_or_insert_default().merge(&more);
        }
    }
    summary.statuses.clear();
    let under_way = all().filter_map(|group| group.under_way);
    let under_way = under_way.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)));
    let starting = all().filter_map(|group| group.starting).max();
    let whole = SessionGroup {
        name: TOTAL.to_owned(),
        end,
        stack: alike(|group| &group.stack),
        over_udp: all().all(|group| group.over_udp),
        over_sctp: all().all(|group| group.over_sctp),
        has_tls: all().any(|group| group.has_tls),
        program: human::counted(count as u64, "group"),
        summary,
        frames,
        zero_copy,
        datagrams,
        under_way,
        starting,
        ..SessionGroup::default()
    };
    Some(report(&whole, 0, duration))
}

fn report(group: &SessionGroup, groups: usize, duration: Nanos) -> SessionReport {
    let SessionSummary { counts, statuses, timers, lateness, rtt, most_open, .. } = &group.summary;
    let client = group.end == SessionEnd::Client;
    let name = |status| group.status_name.and_then(|name| name(status)).map(str::to_owned);
    let statuses = statuses.iter();
    let statuses =
        statuses.map(|(&status, &count)| StatusCount { status, name: name(status), count });
    let named = timers.iter().filter(|(_, timer)| timer.moments.count > 0);
    let paired_with = group.paired_with.filter(|&other| other < groups);
    SessionReport {
        name: group.name.clone(),
        end: group.end,
        stack: group.stack.clone(),
        transport: match group {
            SessionGroup { over_udp: true, .. } => Some(SessionReport::UDP.to_owned()),
            SessionGroup { over_sctp: true, .. } => Some(SessionReport::SCTP.to_owned()),
            _ => None,
        },
        program: group.program.clone(),
        local: group.local.clone(),
        remote: group.remote.clone(),
        asked_per_second: group.rate.map(|rate| digits(rate.per_second())),
        users: group.users,
        from_ns: group.under_way.map(|(from, _)| from.get()),
        to_ns: group.under_way.map(|(_, to)| to.get()),
        until: group.goal,
        paired_with: paired_with.and_then(|other| u32::try_from(other).ok()),
        pairs: group.pairs,
        starts: SessionStarts {
            due: client.then_some(counts.due),
            expired: client.then_some(counts.expired),
            expired_by: (client && counts.expired > 0).then(|| expired_by(counts)),
            opened: counts.opened,
            established: counts.established,
        },
        ends: ends(counts),
        most_open: *most_open,
        messages: SessionMessages {
            requests: counts.requests,
            responses: counts.responses,
            unexpected: counts.unexpected,
            damaged: counts.damaged,
            before_closed_early: counts.closed_early_responses,
            lost: counts.lost_responses,
            late: counts.late_responses,
            malformed: counts.malformed_messages,
        },
        bytes: SessionBytes {
            offered: counts.offered_bytes,
            sent: counts.sent_bytes,
            acked: counts.acked_bytes,
            delivered: counts.delivered_bytes,
            verified: counts.verified_bytes,
        },
        segments: SessionSegments {
            data: counts.data_segments,
            retransmitted: counts.retransmitted_segments,
        },
        frames: group.frames,
        zero_copy: group.zero_copy,
        datagrams: group.datagrams,
        one_way: one_way(&group.summary),
        tls: group.has_tls.then(|| tls(&group.summary)),
        misbehaviour: misbehaviour(counts),
        rates: group.rates(duration),
        statuses: statuses.collect(),
        times: times(&group.summary),
        timers_ns: named.map(|(name, timer)| (name.clone(), Stats::of(timer))).collect(),
        start_lateness_ns: Stats::of(lateness),
        round_trip_ns: Stats::of(rtt),
        expectations: group.expectations.clone(),
    }
}

/// What became of its TLS.
fn tls(SessionSummary { counts, suites, tls_failure, .. }: &SessionSummary) -> SessionTls {
    SessionTls {
        handshakes: counts.handshakes,
        resumed: counts.handshakes_resumed,
        failed: TlsFailures {
            alert: counts.handshakes_alert,
            certificate: counts.handshakes_certificate,
            incompatible: counts.handshakes_incompatible,
            malformed: counts.handshakes_malformed,
            closed: counts.handshakes_closed,
            timed_out: counts.handshakes_timed_out,
        },
        truncated: counts.tls_truncated,
        suites: suites.clone(),
        first_failure: Some(tls_failure.clone()).filter(|why| !why.is_empty()),
    }
}

/// What it did of messages one way, if anything.
fn one_way(SessionSummary { counts, arrivals, .. }: &SessionSummary) -> Option<SessionOneWay> {
    let any = counts.messages_sent > 0 || counts.messages_received > 0;
    any.then(|| SessionOneWay {
        sent: counts.messages_sent,
        received: counts.messages_received,
        lost: counts.messages_lost,
        out_of_order: counts.messages_out_of_order,
        duplicate: counts.messages_duplicate,
        of_other_clocks: counts.messages_of_other_clocks,
        gap_ns: Stats::of(&arrivals.gap),
        jitter_ns: Stats::of(&arrivals.jitter),
        length_bytes: Stats::of(&arrivals.length),
    })
}

/// What its clients did that misbehave, if anything.
fn misbehaviour(counts: &SessionCounts) -> Option<SessionMisbehaviour> {
    let any = counts.misbehaved > 0 || counts.ended_by_peer > 0;
    any.then_some(SessionMisbehaviour {
        acts: counts.misbehaved,
        answered: counts.answered_misbehaviour,
        ended_by_peer: counts.ended_by_peer,
    })
}

fn expired_by(counts: &SessionCounts) -> SessionsExpired {
    let (late, waiting) = (counts.expired_late, counts.expired_waiting);
    SessionsExpired {
        at_limit: counts.expired.saturating_sub(late).saturating_sub(waiting),
        waiting,
        late,
    }
}

fn ends(counts: &SessionCounts) -> SessionEnds {
    SessionEnds {
        in_order: counts.in_order,
        refused: counts.refused,
        timed_out: counts.timed_out,
        reset: counts.reset,
        unreachable: counts.unreachable,
        closed_early: counts.closed_early,
        malformed: counts.malformed,
        tls_failed: counts.tls_failed,
        abandoned: counts.abandoned,
        failed_here: counts.failed_here,
        unfinished: counts.unfinished,
    }
}

/// How long a group was under way.
fn over(group: &SessionGroup, duration: Nanos) -> Nanos {
    group.under_way.map_or(duration, |(from, to)| to.saturating_sub(from))
}

fn rates(counts: &SessionCounts, over: Nanos, starting: Option<Nanos>) -> Option<SessionRates> {
    if over == Nanos::ZERO {
        return None;
    }
    let per_second = |count: u64| digits(count as f64 / over.as_secs_f64());
    let bits = |bytes: u64| digits(bytes as f64 * 8.0 / over.as_secs_f64());
    let starting = starting.filter(|span| *span > Nanos::ZERO).unwrap_or(over);
    Some(SessionRates {
        over_ns: over.get(),
        starting_ns: starting.get(),
        opened_per_second: digits(counts.opened as f64 / starting.as_secs_f64()),
        established_per_second: digits(counts.established as f64 / starting.as_secs_f64()),
        handshakes_per_second: Some(digits(counts.handshakes as f64 / starting.as_secs_f64())),
        ended_per_second: per_second(counts.ended().saturating_sub(counts.unfinished)),
        requests_per_second: per_second(counts.requests),
        responses_per_second: per_second(counts.responses),
        goodput_bits_per_second: bits(counts.delivered_bytes),
        acked_bits_per_second: bits(counts.acked_bytes),
    })
}

fn times(summary: &SessionSummary) -> SessionTimes {
    let of = |what| {
        let times = summary.time(what);
        let timed = times.planned.moments.count > 0 || times.actual.moments.count > 0;
        timed.then(|| PlannedActual {
            planned_ns: Stats::of(&times.planned),
            actual_ns: Stats::of(&times.actual),
        })
    };
    SessionTimes {
        connect: of(SessionTime::Connect),
        handshake: of(SessionTime::Handshake),
        first_byte: of(SessionTime::FirstByte),
        response: of(SessionTime::Response),
        delay: of(SessionTime::Delay),
        session: of(SessionTime::Session),
    }
}

/// What a group did in an interval.
pub fn session_interval(
    name: &str,
    end: SessionEnd,
    interval: &SessionIntervalCounts,
) -> SessionInterval {
    let SessionIntervalCounts { counts, open, connections, datagrams, response, .. } = interval;
    let in_time = counts.ended().saturating_sub(counts.unfinished);
    SessionInterval {
        name: name.to_owned(),
        end,
        open: *open,
        due: (end == SessionEnd::Client).then_some(counts.due),
        expired: counts.expired,
        opened: counts.opened,
        established: counts.established,
        in_order: counts.in_order,
        failed: in_time.saturating_sub(counts.in_order),
        failed_here: counts.failed_here,
        unfinished: counts.unfinished,
        handshakes: counts.handshakes,
        handshakes_failed: counts.handshakes_failed(),
        requests: counts.requests,
        responses: counts.responses,
        unexpected: counts.unexpected,
        damaged: counts.damaged,
        lost: counts.lost_responses,
        late: counts.late_responses,
        malformed: counts.malformed_messages,
        sent_messages: counts.messages_sent,
        received_messages: counts.messages_received,
        misbehaved: counts.misbehaved,
        answered: counts.answered_misbehaviour,
        ended_by_peer: counts.ended_by_peer,
        sent_bytes: counts.sent_bytes,
        acked_bytes: counts.acked_bytes,
        delivered_bytes: counts.delivered_bytes,
        retransmitted_segments: counts.retransmitted_segments,
        connections: connections.as_ref().map(self::connections),
        datagrams: *datagrams,
        response_ns: response.clone(),
    }
}

fn connections(of: &ConnectionGauges) -> SessionConnections {
    let round_trip_ns = of.rtt_ns.mean();
    SessionConnections {
        sampled: of.sampled,
        round_trip_ns,
        round_trip_max_ns: round_trip_ns.map(|_| of.rtt_max.get()),
        cwnd_bytes: of.cwnd.mean(),
        delivery_bits_per_second: (of.delivery_rate.count > 0).then_some(of.delivery_rate.sum),
    }
}

/// The intervals of all groups, in the order of time; those that began and ended at one time are one.
pub(super) fn intervals(groups: &[SessionGroup]) -> Vec<SessionIntervals> {
    let mut all: BTreeMap<(Nanos, Nanos), Vec<SessionInterval>> = BTreeMap::new();
    for group in groups {
        for interval in &group.intervals {
            let one = session_interval(&group.name, group.end, interval);
            all.entry((interval.from, interval.to)).or_default().push(one);
        }
    }
    let interval = |((from, to), sessions): ((Nanos, Nanos), Vec<SessionInterval>)| {
        SessionIntervals { from_ns: from.get(), to_ns: to.get(), sessions }
    };
    all.into_iter().map(interval).collect()
}
