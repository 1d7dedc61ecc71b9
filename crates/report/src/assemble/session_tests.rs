//! What a report makes of sessions.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use wirebeat_meter::distribution::Recorder;
use wirebeat_meter::session::{SessionCounts, SessionMeter, SessionSummary, SessionTime};

use super::tests::{facts, kinds};
use super::*;
use crate::document::Document;
use crate::format::{Presentable, Rendering};
use crate::model::{
    Equation, Expectation, FindingKind, SessionDatagrams, SessionEnd, SessionZeroCopy,
};

/// A group of clients of which 100 sessions were asked for in a second, and all did what they should.
fn client() -> SessionGroup {
    let counts = SessionCounts {
        due: 100,
        opened: 100,
        established: 100,
        in_order: 100,
        requests: 200,
        responses: 200,
        offered_bytes: 20_000,
        sent_bytes: 20_000,
        acked_bytes: 20_000,
        delivered_bytes: 400_000,
        verified_bytes: 400_000,
        data_segments: 200,
        ..SessionCounts::default()
    };
    SessionGroup {
        name: "web".to_owned(),
        stack: "host".to_owned(),
        program: "http".to_owned(),
        local: "10.0.1.0/24, ports of the system".to_owned(),
        remote: "10.0.2.9:80".to_owned(),
        rate: Some(FrameRate { frames: 100, per: Nanos::from_secs(1) }),
        steady: true,
        under_way: Some((Nanos::ZERO, Nanos::from_secs(1))),
        summary: SessionSummary { counts, most_open: 7, ..SessionSummary::default() },
        ..SessionGroup::default()
    }
}

/// The other end of the same sessions.
fn server() -> SessionGroup {
    let counts = SessionCounts {
        due: 0,
        responses: 0,
        requests: 0,
        offered_bytes: 400_000,
        sent_bytes: 400_000,
        acked_bytes: 400_000,
        delivered_bytes: 20_000,
        verified_bytes: 0,
        ..client().summary.counts
    };
    SessionGroup {
        end: SessionEnd::Server,
        local: "10.0.2.9:80".to_owned(),
        remote: "any".to_owned(),
        rate: None,
        summary: SessionSummary { counts, ..SessionSummary::default() },
        ..client()
    }
}

fn both() -> [SessionGroup; 2] {
    [
        SessionGroup { paired_with: Some(1), ..client() },
        SessionGroup { paired_with: Some(0), ..server() },
    ]
}

fn run(sessions: impl Into<Vec<SessionGroup>>) -> Report {
    assemble(RunFacts { sessions: sessions.into(), ..facts() }, None, None)
}

type Change = fn(&mut SessionCounts);

/// The report of a client whose counts are changed.
fn changed(change: impl Fn(&mut SessionCounts)) -> Report {
    let mut group = client();
    change(&mut group.summary.counts);
    run([group])
}

fn wrong(report: &Report) -> Vec<(&str, i64)> {
    let wrong = report.consistency_checks.iter().filter(|equation| !equation.balances());
    wrong.map(|equation| (equation.left.name.as_str(), equation.difference)).collect()
}

fn message(report: &Report, kind: FindingKind) -> &str {
    report.findings.iter().find(|finding| finding.kind == kind).map_or("", |found| &found.message)
}

#[test]
fn a_run_of_sessions_alone_is_done() {
    let report = run(both());
    assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0));
    assert!(report.findings.is_empty() && report.flows.is_empty(), "{:?}", report.findings);
    assert_eq!(
        (&report.total.sent, &report.total.received, report.total.loss),
        (&None, &None, None)
    );
    let [client, server] = &report.sessions[..] else { panic!() };
    let rates = client.rates.unwrap();
    assert_eq!((rates.opened_per_second, rates.responses_per_second), (100.0, 200.0));
    assert_eq!((rates.goodput_bits_per_second, rates.acked_bits_per_second), (3.2e6, 160e3));
    assert_eq!(
        (client.starts.due, client.starts.expired, client.most_open),
        (Some(100), Some(0), 7)
    );
    assert_eq!((server.starts.due, server.asked_per_second), (None, None));
    assert_eq!((client.paired_with, server.paired_with), (Some(1), Some(0)));
}

/// It said that nothing was received: a receiver had no flow to listen for.
#[test]
fn a_receiver_without_flows_does_not_miss_them() {
    let receiver = ReceiverSide {
        stations: Vec::new(),
        summary: MeterSummary::default(),
        delivered: None,
        at_interfaces: Some(0),
    };
    let sender = SenderSide {
        stations: Vec::new(),
        flows: Vec::new(),
        shared_departures: Departures::default(),
    };
    let facts = RunFacts { sessions: both().into(), ..facts() };
    let report = assemble(facts, Some(sender), Some(receiver));
    assert_eq!((kinds(&report), report.verdict), (vec![], Verdict::Done));
}

#[test]
fn rates_are_over_the_time_under_way() {
    let late = SessionGroup {
        under_way: Some((Nanos::from_millis(500), Nanos::from_secs(1))),
        ..client()
    };
    let rate = |group| run([group]).sessions[0].rates.map(|rates| rates.opened_per_second);
    assert_eq!(rate(late), Some(200.0));
    assert_eq!(rate(SessionGroup { under_way: None, ..client() }), Some(100.0));
    let never = Some((Nanos::from_secs(1), Nanos::from_secs(1)));
    assert_eq!(rate(SessionGroup { under_way: never, ..client() }), None);
}

#[test]
fn sums_of_a_group_that_are_wrong_make_counters_inconsistent() {
    let cases: [(Change, &[(&str, i64)]); 5] = [
        (|counts| counts.due = 101, &[("due", 1)]),
        (|counts| counts.in_order = 98, &[("opened", 2)]),
        (|counts| counts.refused = 1, &[("opened", -1)]),
        (|counts| counts.established = 103, &[("opened", -3)]),
        (|counts| counts.acked_bytes = 20_001, &[("bytes sent", -1)]),
    ];
    for (change, expected) in cases {
        let report = changed(change);
        assert_eq!(wrong(&report), expected);
        assert_eq!((report.verdict, report.exit_code), (Verdict::CountersInconsistent, 1));
        assert!(kinds(&report).contains(&FindingKind::CountersInconsistent));
        assert!(
            message(&report, FindingKind::CountersInconsistent).contains("sessions web (client)")
        );
    }
    // fewer are no fault
    for change in [
        |counts: &mut SessionCounts| {
            (counts.established, counts.in_order, counts.refused) = (90, 90, 10)
        },
        |counts: &mut SessionCounts| {
            (counts.opened, counts.in_order, counts.expired) = (60, 60, 40)
        },
        |counts: &mut SessionCounts| counts.acked_bytes = 5,
    ] {
        let report = changed(|counts| {
            change(counts);
            counts.established = counts.established.min(counts.opened);
        });
        assert_eq!(wrong(&report), []);
    }
}

#[test]
fn what_one_end_sent_arrived_at_the_other() {
    let with = |change: fn(&mut [SessionGroup; 2])| {
        let mut groups = both();
        change(&mut groups);
        run(groups)
    };
    let between = |report: &Report| -> Vec<Equation> {
        let to = |equation: &&Equation| equation.scope.contains(" to ");
        report.consistency_checks.iter().filter(to).cloned().collect()
    };
    let all = with(|_| ());
    assert_eq!(between(&all).len(), 2);
    assert_eq!(between(&all)[0].scope, "sessions web (client to server)");
    assert_eq!(between(&all)[0].right.len(), 1, "nothing may be missing");
    // all ended in order, and a byte is missing
    let short = with(|[_, server]| server.summary.counts.delivered_bytes -= 1);
    assert_eq!(wrong(&short), [("bytes sent", 1)]);
    // one was reset, so that bytes may be missing, and still not too many arrive
    let reset = |groups: &mut [SessionGroup; 2]| {
        groups[1].summary.counts.in_order -= 1;
        groups[1].summary.counts.reset += 1;
    };
    let mut groups = both();
    reset(&mut groups);
    groups[1].summary.counts.delivered_bytes -= 7;
    let report = run(groups.clone());
    assert_eq!(wrong(&report), []);
    assert_eq!(
        (between(&report)[0].right[1].name.as_str(), between(&report)[0].right[1].value),
        ("not delivered", 7)
    );
    groups[1].summary.counts.delivered_bytes += 8;
    assert_eq!(wrong(&run(groups)), [("bytes sent", -1)]);
    // a peer that is not ours, one that does not exist, and a pair of which one end does not know
    let alone = with(|[client, _]| client.paired_with = Some(9));
    assert!(between(&alone).is_empty());
    assert_eq!(alone.sessions[0].paired_with, None);
    let half =
        with(|[_, server]| (server.paired_with, server.summary.counts.delivered_bytes) = (None, 0));
    assert_eq!(wrong(&half), []);
}

#[test]
fn an_expectation_that_is_not_met_ends_with_4_behind_1() {
    let expect = |met| Expectation {
        text: "established >= 100".into(),
        measured: "99".into(),
        met,
        ..Expectation::default()
    };
    let group = |met: &[bool]| {
        let expectations = met.iter().map(|met| expect(*met)).collect();
        SessionGroup { expectations, ..client() }
    };
    let verdict = |group, end| {
        let report = assemble(RunFacts { sessions: vec![group], end, ..facts() }, None, None);
        assert_eq!(report.exit_code, report.verdict.exit().code());
        (report.verdict, report.exit_code)
    };
    assert_eq!(verdict(group(&[true, true]), End::Completed), (Verdict::Done, 0));
    assert_eq!(verdict(group(&[true, false]), End::Completed), (Verdict::Unmet, 4));
    let stopped = End::Stopped { signal: "SIGINT".to_owned() };
    assert_eq!(verdict(group(&[false]), stopped), (Verdict::Unmet, 4));
    let gone = End::InterfaceGone { interface: "eth1".to_owned() };
    assert_eq!(verdict(group(&[false]), gone), (Verdict::Unfinished, 1));
    let mut odd = group(&[false]);
    odd.summary.counts.due = 5;
    assert_eq!(verdict(odd, End::Completed), (Verdict::CountersInconsistent, 1));
}

#[test]
fn what_the_tester_failed_in_is_not_the_peers() {
    let report = changed(|counts| {
        (counts.established, counts.in_order) = (88, 80);
        (counts.failed_here, counts.refused, counts.timed_out, counts.reset) = (5, 4, 3, 2);
        (counts.unreachable, counts.unfinished) = (1, 5);
        (counts.unexpected, counts.damaged) = (6, 1);
        counts.due = 140;
        counts.expired = 40;
    });
    assert_eq!(wrong(&report), []);
    assert_eq!(
        kinds(&report),
        [
            FindingKind::SessionsFailedHere,
            FindingKind::SessionsExpired,
            FindingKind::PayloadDamaged,
            FindingKind::SessionsFailed,
            FindingKind::ResponsesUnexpected,
            FindingKind::SessionsUnfinished,
        ]
    );
    let here = message(&report, FindingKind::SessionsFailedHere);
    assert!(here.starts_with("this machine failed, not the peer: web: 5 of 100 opened"), "{here}");
    let there = message(&report, FindingKind::SessionsFailed);
    let ways = "web: 4 refused, 3 timed out, 2 reset, 1 unreachable of 100 opened";
    assert!(there.ends_with(ways), "{there}");
    let expired = message(&report, FindingKind::SessionsExpired);
    assert_eq!(
        expired,
        "sessions expired: web: 40 of 140 due (28.6 %), because too many were open"
    );
}

/// What the tester was too late for is its own failure, and told apart from what a limit asked for.
#[test]
fn expired_sessions_tell_why() {
    let report = changed(|counts| {
        (counts.due, counts.expired) = (140, 40);
        (counts.expired_late, counts.expired_waiting) = (7, 3);
    });
    assert_eq!(
        message(&report, FindingKind::SessionsExpired),
        "sessions expired: web: 40 of 140 due (28.6 %), 7 because the tester was too late, 30 because too many were open, 3 because a limit \
         held them back until starts ended"
    );
    let by = report.sessions[0].starts.expired_by.expect("some expired");
    assert_eq!((by.late, by.at_limit, by.waiting), (7, 30, 3));
    assert!(report.sessions.iter().all(|group| match group.end {
        SessionEnd::Client => true,
        SessionEnd::Server => group.starts.expired_by.is_none(),
    }));
}

/// A server that ends its connections after 100 requests was told as one that fails for no reason.
#[test]
fn closed_early_says_after_how_many_responses() {
    let report = changed(|counts| {
        (counts.in_order, counts.closed_early, counts.closed_early_responses) = (90, 10, 1_000);
    });
    let told = message(&report, FindingKind::SessionsFailed);
    let ways = "web: 10 closed early after 100 responses on average of 100 opened";
    assert!(told.ends_with(ways), "{told}");
    let report = changed(|counts| (counts.in_order, counts.closed_early) = (90, 10));
    let told = message(&report, FindingKind::SessionsFailed);
    assert!(told.ends_with("web: 10 closed early of 100 opened"), "{told}");
}

/// Of a mix nobody wants to add seventeen groups up.
#[test]
fn groups_of_an_end_are_told_together() {
    let mut groups = both().to_vec();
    assert_eq!(run(groups.clone()).session_totals, []);
    let mut other = SessionGroup { name: "dns".to_owned(), over_udp: true, ..groups[0].clone() };
    other.summary.statuses.insert(3, 7);
    other.under_way = groups[0].under_way.map(|(from, to)| (from, to.saturating_add(to)));
    groups.push(other);
    let report = run(groups);
    let [all] = &report.session_totals[..] else { panic!("{:?}", report.session_totals) };
    assert_eq!((&*all.name, &*all.program, all.end), ("all", "2 groups", SessionEnd::Client));
    let web = &report.sessions[0];
    assert_eq!(all.starts.opened, 2 * web.starts.opened);
    assert_eq!(
        (all.bytes.delivered, all.ends.in_order),
        (2 * web.bytes.delivered, 2 * web.ends.in_order)
    );
    let count = |report: &crate::model::SessionReport| {
        report.times.response.as_ref().map(|times| times.planned_ns.count)
    };
    assert_eq!(count(all), count(web).map(|count| 2 * count));
    assert_eq!((all.from_ns, all.to_ns), (web.from_ns, report.sessions[2].to_ns));
    assert!(all.statuses.is_empty() && all.transport.is_none(), "{all:#?}");
}

#[test]
fn sends_without_a_copy_are_told_and_add_up() {
    let mut groups = both().to_vec();
    let zero_copy = SessionZeroCopy { sends: 1_200, told: 1_199, copied: 1_000, no_room: 2 };
    groups[0].zero_copy = Some(zero_copy);
    groups.push(groups[0].clone());
    groups[2].paired_with = None;
    let report = run(groups);
    assert_eq!(report.sessions[0].zero_copy, Some(zero_copy));
    assert_eq!(report.sessions[1].zero_copy, None);
    assert_eq!(report.session_totals[0].zero_copy, Some(zero_copy.and(zero_copy)));
    let text = report.text(Rendering::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "zero copy: 1,200 sends, 1,000 of them copied by the system (loopback and veth always copy), 1 of them not told of \
                before the end; 2 more copied for want of room (net.core.optmem_max, ulimit -l)";
    assert!(text.contains(told), "{text}");
}

/// What SCTP delivers is held against what was sent, as with TCP: it loses nothing.
#[test]
fn associations_of_sctp_have_the_sums_of_streams_and_no_figures_of_tcp() {
    let over_sctp = || both().map(|group| SessionGroup { over_sctp: true, ..group });
    let report = run(over_sctp());
    assert_eq!(report.sessions[0].transport.as_deref(), Some("sctp"));
    assert!(report.consistency_checks.iter().all(|sum| sum.balances()));
    let text = report.text(Rendering::default());
    assert!(
        text.contains("host stack, sctp") && text.contains("SCTP: the system tells no"),
        "{text}"
    );
    let mut groups = over_sctp();
    groups[1].summary.counts.delivered_bytes -= 1;
    assert!(!wrong(&run(groups)).is_empty());
}

/// `tcp: { reset: true }` has clients end sessions by RST: our server's were told as failures.
#[test]
fn who_was_asked_to_reset_does_not_fail() {
    for resets in [true, false] {
        let mut group = SessionGroup { resets, ..server() };
        let counts = &mut group.summary.counts;
        (counts.in_order, counts.reset) = (0, counts.in_order);
        assert_eq!(kinds(&run([group])).contains(&FindingKind::SessionsFailed), !resets);
    }
}

#[test]
fn nothing_established_is_told_once() {
    let mut groups = both();
    let counts = SessionCounts { due: 100, opened: 100, refused: 100, ..Default::default() };
    groups[0].summary.counts = counts;
    groups[1].summary.counts = SessionCounts::default();
    let report = run(groups);
    assert_eq!(kinds(&report), [FindingKind::NothingEstablished, FindingKind::SessionsFailed]);
    let told = message(&report, FindingKind::NothingEstablished);
    assert!(told.contains("web (client): none of 100 sessions to 10.0.2.9:80;"), "{told}");
    // without an expectation such a run is done
    let told = message(&report, FindingKind::SessionsFailed);
    let hint =
        "100 refused of 100 opened; with --expect 'failed == 0' such a run ends with exit code 4";
    assert!(told.ends_with(hint), "{told}");
    let lonely = SessionGroup { summary: SessionSummary::default(), ..server() };
    let report = run([lonely]);
    assert!(message(&report, FindingKind::NothingEstablished).contains("none at 10.0.2.9:80"));
}

/// A server receives no responses.
#[test]
fn of_a_server_requests_are_unexpected() {
    let mut group = server();
    let counts = &mut group.summary.counts;
    (counts.unexpected, counts.responses) = (19_941, 1);
    let report = run([group]);
    let told = message(&report, FindingKind::ResponsesUnexpected);
    assert_eq!(told, "requests were not as expected: web: 19,941, and 1 response sent in all");
}

#[test]
fn a_rate_is_missed_where_chance_does_not_explain_it() {
    let missed = |opened: u64, steady| {
        let mut group = SessionGroup { steady, ..client() };
        let counts = &mut group.summary.counts;
        (counts.due, counts.opened, counts.established, counts.in_order) =
            (opened, opened, opened, opened);
        kinds(&run([group])) == [FindingKind::SessionRateMissed]
    };
    assert!(!missed(100, true) && !missed(99, true), "one is how the last of them fell");
    assert!(missed(98, true));
    assert!(!missed(70, false), "random starts are as few in one of a thousand runs");
    assert!(missed(59, false));
}

#[test]
fn starts_that_are_late_by_more_than_their_gap_are_told() {
    let late = |by: u64| {
        let mut meter = SessionMeter::new(0);
        (0..100).for_each(|_| meter.started(Nanos::ZERO, Nanos::from_micros(by)));
        let mut group = client();
        group.summary.lateness = meter.summary(&[]).lateness;
        run([group])
    };
    assert!(kinds(&late(9_000)).is_empty());
    let report = late(12_000);
    assert_eq!(kinds(&report), [FindingKind::SessionStartsLate]);
    let told = message(&report, FindingKind::SessionStartsLate);
    assert!(told.contains("web: p99 12.0 ms at 10.0 ms between starts"), "{told}");
}

#[test]
fn notes_of_the_run_stand_by_their_gravity() {
    let notes = vec![
        (FindingKind::Machine, "the ports of the system are few".to_owned()),
        (FindingKind::SessionsFailedHere, "no descriptor".to_owned()),
    ];
    let mut group = SessionGroup { notes, ..client() };
    (group.summary.counts.in_order, group.summary.counts.reset) = (99, 1);
    let report = run([group]);
    let kinds = kinds(&report);
    assert_eq!(
        kinds,
        [FindingKind::SessionsFailedHere, FindingKind::SessionsFailed, FindingKind::Machine]
    );
}

#[test]
fn of_many_groups_a_finding_tells_of_three() {
    let failed = |name: usize| {
        let mut group = SessionGroup { name: format!("g{name}"), ..client() };
        (group.summary.counts.in_order, group.summary.counts.reset) = (99, 1);
        group
    };
    let report = run((0..150).map(failed).collect::<Vec<_>>());
    let told = message(&report, FindingKind::SessionsFailed);
    assert!(told.contains("g2: 1 reset of 100 opened; and 147 more"), "{told}");
    assert!(report.consistency_checks.iter().all(|check| !check.scope.starts_with("sessions")));
}

#[test]
fn distributions_and_statuses_survive_json_and_histograms_can_be_left_out() {
    let mut meter = SessionMeter::new(1);
    let at = Nanos::from_micros;
    for what in SessionTime::ALL {
        meter.took(what, at(0), at(10), at(150));
    }
    meter.timer(0, at(0), at(70));
    meter.started(at(0), at(10));
    meter.rtt(at(40));
    meter.status(404);
    meter.status(200);
    let counts = client().summary.counts;
    let summary = SessionSummary { counts, ..meter.summary(&["page".to_owned()]) };
    let interval = SessionIntervalCounts { to: at(1), counts, open: 3, ..Default::default() };
    let report = run([SessionGroup { summary, intervals: vec![interval], ..client() }]);
    let group = &report.sessions[0];
    let response = group.times.response.as_ref().unwrap();
    assert_eq!((response.planned_ns.max, response.actual_ns.max), (Some(150_000), Some(140_000)));
    assert_eq!(
        group.statuses.iter().map(|of| (of.status, of.count)).collect::<Vec<_>>(),
        [(200, 1), (404, 1)]
    );
    assert_eq!(group.timers_ns["page"].max, Some(70_000));
    assert_eq!(
        (group.start_lateness_ns.max, group.round_trip_ns.max),
        (Some(10_000), Some(40_000))
    );
    let json = report.json(Rendering { histograms: true, ..Rendering::default() });
    let read: Document = serde_json::from_str(&json).unwrap();
    assert_eq!(read, Document::Report(Box::new(report.clone())));
    assert_eq!(json.matches("\"histogram\"").count(), 6 * 2 + 3);
    assert!(!report.json(Rendering::default()).contains("\"histogram\""));
}

#[test]
fn groups_share_the_intervals_that_they_have_in_common() {
    let interval = |from: u64, to: u64, opened: u64| SessionIntervalCounts {
        connections: None,
        from: Nanos::from_secs(from),
        to: Nanos::from_secs(to),
        counts: SessionCounts {
            due: opened,
            opened,
            in_order: 1,
            reset: 2,
            unfinished: 4,
            ..Default::default()
        },
        open: opened,
        ..Default::default()
    };
    let mut groups = both();
    groups[0].intervals = vec![interval(0, 1, 10), interval(1, 2, 20)];
    groups[1].intervals = vec![interval(1, 2, 19)];
    let report = run(groups);
    let names = |place: usize| -> Vec<(SessionEnd, u64, Option<u64>)> {
        let sessions = &report.session_intervals[place].sessions;
        sessions.iter().map(|of| (of.end, of.opened, of.due)).collect()
    };
    assert_eq!(report.session_intervals.len(), 2);
    assert_eq!(names(0), [(SessionEnd::Client, 10, Some(10))]);
    assert_eq!(names(1), [(SessionEnd::Client, 20, Some(20)), (SessionEnd::Server, 19, None)]);
    let second = &report.session_intervals[1];
    assert_eq!((second.from_ns, second.to_ns), (1_000_000_000, 2_000_000_000));
    let of = &second.sessions[0];
    assert_eq!((of.in_order, of.failed, of.unfinished, of.open), (1, 2, 4, 20));
}

#[test]
fn extremes_do_not_panic() {
    let most = u64::MAX;
    let counts = SessionCounts {
        due: most,
        opened: most,
        in_order: most,
        reset: most,
        sent_bytes: most,
        acked_bytes: 1,
        ..Default::default()
    };
    let mut far = Recorder::default();
    far.record(i64::MAX);
    far.record(i64::MIN);
    let summary = SessionSummary {
        counts,
        lateness: far.distribution(),
        statuses: BTreeMap::from([(u16::MAX, most)]),
        ..SessionSummary::default()
    };
    let rate = Some(FrameRate { frames: most, per: Nanos::new(0) });
    let under_way = Some((Nanos::from_secs(2), Nanos::ZERO));
    for under_way in [under_way, Some((Nanos::ZERO, Nanos::new(1))), None] {
        let report = run([SessionGroup { summary: summary.clone(), rate, under_way, ..client() }]);
        assert!(!report.json(Rendering::default()).is_empty());
        assert!(!report.text(Rendering::default()).is_empty());
    }
}

/// Counters as a run makes them, or with errors.
fn counts() -> impl Strategy<Value = SessionCounts> {
    let ends = prop::array::uniform11(0..4_u64);
    let bytes = (0..3_u64, 0..3_u64);
    (ends, 0..3_u64, 0..2_u64, 0..12_u64, bytes).prop_map(|(ends, expired, off, never, bytes)| {
        let [in_order, refused, timed_out, reset, unreachable, rest @ ..] = ends;
        let [closed_early, malformed, tls_failed, abandoned, failed_here, unfinished] = rest;
        let opened: u64 = ends.iter().sum();
        SessionCounts {
            due: opened + expired + off,
            expired,
            opened,
            established: (opened + 1).saturating_sub(never),
            in_order,
            refused,
            timed_out,
            reset,
            unreachable,
            closed_early,
            malformed,
            tls_failed,
            abandoned,
            failed_here,
            unfinished,
            sent_bytes: bytes.0,
            acked_bytes: bytes.1,
            ..SessionCounts::default()
        }
    })
}

/// Whether a pair of counts contradicts itself, as the documentation says it.
fn contradict(client: &SessionCounts, server: &SessionCounts) -> bool {
    let alone = |of: &SessionCounts| of.established > of.opened || of.acked_bytes > of.sent_bytes;
    let whole = client.in_order == client.opened
        && server.in_order == server.opened
        && client.opened == server.opened;
    let between = |from: &SessionCounts, to: &SessionCounts| {
        to.delivered_bytes > from.sent_bytes || whole && to.delivered_bytes != from.sent_bytes
    };
    client.due != client.opened + client.expired
        || alone(client)
        || alone(server)
        || between(client, server)
        || between(server, client)
}

proptest! {
    #![proptest_config(Config { cases: 2_000, rng_seed: RngSeed::Fixed(1), ..Config::default() })]
    #[test]
    fn counters_are_inconsistent_exactly_where_they_contradict(
        ends in (counts(), counts()),
        delivered in (0..3_u64, 0..3_u64),
        same in any::<bool>(),
    ) {
        let (mut at_client, mut at_server) = ends;
        if same {
            at_server = at_client;
        }
        (at_client.delivered_bytes, at_server.delivered_bytes) = delivered;
        let mut groups = both();
        groups[0].summary.counts = at_client;
        groups[1].summary.counts = at_server;
        let report = run(groups);
        let found = report.verdict == Verdict::CountersInconsistent;
        prop_assert_eq!(found, contradict(&at_client, &at_server));
        prop_assert_eq!(report.exit_code, u8::from(found));
        prop_assert!(report.findings.is_sorted_by_key(|finding| finding.kind));
        let text = report.text(Rendering { details: true, ..Rendering::default() });
        prop_assert!(!text.is_empty());
        let json = report.json(Rendering { histograms: true, ..Rendering::default() });
        let read: Document = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(read, Document::Report(Box::new(report)));
    }
}

/// What an end counted of 1,000 datagrams of which 990 arrived.
fn over_udp() -> [SessionGroup; 2] {
    let counts = SessionCounts { opened: 2, established: 2, in_order: 2, ..Default::default() };
    let end = |end, counts, datagrams| SessionGroup {
        end,
        stack: "iperf3".to_owned(),
        program: "udp".to_owned(),
        rate: None,
        summary: SessionSummary { counts, ..SessionSummary::default() },
        datagrams: Some(datagrams),
        ..client()
    };
    let sent = SessionDatagrams { sent: 1_000, ..SessionDatagrams::default() };
    let received = SessionDatagrams {
        received: 990,
        lost: 10,
        out_of_order: Some(3),
        jitter_ns: Some(12_000),
        ..SessionDatagrams::default()
    };
    let client = end(SessionEnd::Client, SessionCounts { due: 2, ..counts }, sent);
    [client, end(SessionEnd::Server, counts, received)]
}

#[test]
fn datagrams_of_streams_over_udp_are_in_the_text_and_in_json() {
    let report = run(over_udp());
    let text = report.text(Rendering::default());
    assert!(text.contains("\n  datagrams: 1,000 sent\n"), "{text}");
    let received = "datagrams: 990 received, 10 lost (1.00 %), 3 out of order, jitter (RFC 1889) 12.0 µs rates";
    let in_one_line: Vec<&str> = text.split_whitespace().collect();
    assert!(in_one_line.join(" ").contains(received), "{text}");
    let json = report.json(Rendering::default());
    let read: Document = serde_json::from_str(&json).unwrap();
    assert_eq!(read, Document::Report(Box::new(report.clone())));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let datagrams = |at: usize| json["sessions"][at]["datagrams"].clone();
    assert_eq!(datagrams(0), serde_json::json!({ "sent": 1000, "received": 0, "lost": 0 }));
    assert_eq!(datagrams(1)["jitter_ns"], 12_000);
    // connections of TCP have none
    assert!(!run(both()).json(Rendering::default()).contains("datagrams"));
}

#[test]
fn datagrams_of_an_interval_are_told_with_their_loss() {
    let [_, server] = over_udp();
    let interval = SessionIntervalCounts {
        to: Nanos::from_secs(1),
        datagrams: server.datagrams,
        open: 2,
        ..Default::default()
    };
    let report = run([SessionGroup { intervals: vec![interval], ..server }]);
    let of = &report.session_intervals[0];
    assert_eq!(of.sessions[0].datagrams, Some(report.sessions[0].datagrams.unwrap()));
    let row = crate::text::interval::row(&crate::model::Interval {
        from_ns: of.from_ns,
        to_ns: of.to_ns,
        total: Default::default(),
        flows: Vec::new(),
        sessions: of.sessions.clone(),
        stacks: Vec::new(),
        expired: None,
        cpus: None,
    });
    assert!(row.ends_with("lost 10 (1.00 %)"), "{row}");
}

#[test]
fn datagrams_of_several_sessions_add_up_and_the_greatest_jitter_is_told() {
    let [client, server] = over_udp().map(|group| group.datagrams.unwrap());
    let mut all = server;
    all.merge(&SessionDatagrams { jitter_ns: Some(7), out_of_order: None, ..server });
    all.merge(&client);
    let expected = SessionDatagrams {
        sent: 1_000,
        received: 1_980,
        lost: 20,
        out_of_order: Some(3),
        jitter_ns: Some(12_000),
    };
    assert_eq!(all, expected);
}
