//! How many sessions a second a group started: over the time in which there were to be starts, however long their sessions last. All in
//! memory, so that each number is known.

use wirebeat_report::model::{Report, SessionEnd, Verdict};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::Nanos;

use crate::sessions::{balances, side};

/// The groups of `text`, each with clients at `a` and servers at `b`, 5 ms apart.
fn run(groups: &[(&str, &str)], time: &str) -> Report {
    let groups = groups.iter().enumerate().map(|(number, (name, rest))| {
        format!(
            "  {name}: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1-10.0.1.99 }}, servers: {{ addresses: 10.0.2.{}, \
             ports: 80 }}, departures: constant, {rest} }}\n",
            number + 1
        )
    });
    let groups: String = groups.collect();
    let cable = "{ engine: loopback, cable: { delay: 5ms } }";
    let text = format!(
        "ports: {{ a: {cable}, b: {cable} }}\nsessions:\n{groups}run: {{ time: {time} }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let options = Options { interval: Some(Nanos::from_secs(1)), ..Options::default() };
    let prepared = prepare(&scenario, options).unwrap_or_else(|error| panic!("{error}"));
    let report = prepared.start(&mut Silent, &Stop::new());
    balances(&report);
    report
}

fn opened(report: &Report, name: &str, end: SessionEnd) -> f64 {
    side(report, name, end).rates.unwrap().opened_per_second
}

#[test]
fn a_group_that_waits_for_another_is_held_to_its_own_time() {
    let later = "program: http, hold: 1s, rate: 100/s, after: { group: first, established: 50 }, expect: [ rate.opened >= 99/s, rate.opened <= 101/s ]";
    let report = run(&[("first", "program: http, rate: 100/s"), ("later", later)], "2s");
    // from 510 ms on
    assert!((140..155).contains(&side(&report, "later", SessionEnd::Client).starts.opened));
    assert_eq!(report.verdict, Verdict::Done, "{:#?}", report.sessions);
    let server = opened(&report, "later", SessionEnd::Server);
    assert!((99.0..101.0).contains(&server), "{server}");
}

#[test]
fn users_start_until_the_stop_and_not_until_the_last_of_their_sessions_has_ended() {
    let users = "program: http, hold: 3s, users: 100, limit: { opening: 20/s }, expect: [ rate.opened >= 19.5/s, rate.opened <= 20.5/s, interval.rate.opened >= 19/s ]";
    let report = run(&[("users", users)], "4s");
    assert_eq!(report.verdict, Verdict::Done, "{:#?}", report.sessions);
}

#[test]
fn a_run_that_ends_before_its_time_has_the_rate_that_was_asked_for() {
    let few = "program: http, rate: 1/s, expect: [ rate.opened == 1/s ]";
    let report = run(&[("few", few)], "5s");
    assert_eq!(side(&report, "few", SessionEnd::Client).starts.opened, 5);
    assert!(report.duration_ns < 4_500_000_000, "{}", report.duration_ns);
    assert_eq!(report.verdict, Verdict::Done, "{:#?}", report.sessions);
}

/// The last of them has a gap behind it as the others have, though the run ends before that has passed.
#[test]
fn as_many_as_were_asked_for_start_at_the_rate_that_was_asked_for() {
    for count in [2, 5, 100] {
        let few =
            format!("program: http, rate: 10/s, count: {count}, expect: [ rate.opened == 10/s ]");
        let report = run(&[("few", &few)], "60s");
        assert_eq!(report.verdict, Verdict::Done, "{:#?}", report.sessions);
        let server = opened(&report, "few", SessionEnd::Server);
        // the first of them is later by what it takes to learn the next hop
        assert!(count < 100 || (9.99..10.02).contains(&server), "{server}");
    }
}

/// A limit of 0.4/s was judged as 0/s, and one of 9.9/s as 10/s; rates were looked at where nothing started any more.
#[test]
fn limits_are_judged_as_they_are_written_and_where_sessions_start() {
    let slow = "program: http, hold: 3s, rate: 9.95/s, expect: [ rate.opened >= 9.9/s, rate.opened > 0.4/s, interval.rate.responses >= 9/s ]";
    let report = run(&[("slow", slow)], "5s");
    assert_eq!(report.verdict, Verdict::Done, "{:#?}", report.sessions);
    let limits: Vec<Option<f64>> = side(&report, "slow", SessionEnd::Client)
        .expectations
        .iter()
        .map(|one| one.limit)
        .collect();
    assert_eq!(limits, [Some(9.9), Some(0.4), Some(9.0)]);
    let fails = "program: http, rate: 5/s, expect: [ rate.opened <= 0.4/s ]";
    assert_eq!(run(&[("fails", fails)], "2s").verdict, Verdict::Unmet);
}

/// It sent RST at the time that a session was held to, behind the FIN of the end of the run.
#[test]
fn sessions_that_are_held_beyond_the_run_are_closed_and_not_reset() {
    let held = "program: http, rate: 100/s, hold: 11s";
    let report = run(&[("held", held)], "2s");
    for end in [SessionEnd::Client, SessionEnd::Server] {
        let ends = &side(&report, "held", end).ends;
        assert_eq!((ends.reset, ends.timed_out), (0, 0), "{end:?}: {ends:#?}");
    }
    let ends = &side(&report, "held", SessionEnd::Client).ends;
    assert_eq!(ends.in_order + ends.unfinished, 200, "{ends:#?}");
    assert!(ends.unfinished > 50, "{ends:#?}");
}
