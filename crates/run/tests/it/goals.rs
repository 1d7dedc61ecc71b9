//! Groups that stop when they have the sessions that they were to reach, as test cases of WARP17 do: the report says of each whether it did, and
//! when.

use wirebeat_report::model::{Report, SessionEnd, SessionGoal, Verdict};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Options as Cable, Testbed, require};
use wirebeat_traffic::scenario::Scenario;

use crate::sessions::{balances, run, side};

const REACHES: &str = "until: { established: 200 }, expect: [ established >= 200 ]";
const MISSES: &str = "until: { established: 5000 }, expect: [ established >= 5000 ]";

fn goal(report: &Report, name: &str) -> SessionGoal {
    let server = report.sessions.iter().find(|of| of.name == name && of.end == SessionEnd::Server);
    assert!(server.is_none_or(|server| server.until.is_none()), "{server:#?}");
    side(report, name, SessionEnd::Client).until.unwrap()
}

/// Whether each expectation of a group is met.
fn met(report: &Report, name: &str) -> Vec<bool> {
    let client = side(report, name, SessionEnd::Client);
    client.expectations.iter().map(|expectation| expectation.met).collect()
}

#[test]
fn the_report_says_of_each_group_whether_it_reached_its_sessions_and_when() {
    let group = |name: &str, port: u16, goal: &str| {
        format!(
            "  {name}: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1-10.0.1.9 }}, servers: {{ addresses: 10.0.2.9, ports: {port} }}, \
             program: {{ request-response: {{ request: 20B, response: 30B }} }}, departures: constant, rate: 100/s, {goal} }}\n"
        )
    };
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nsessions:\n{}{}{}run: {{ time: 4s }}\n",
        group("first", 80, REACHES),
        group("second", 81, MISSES),
        group("without", 82, "count: 10")
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
    let prepared = prepare(&scenario, Options::default());
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    let report = prepared.start(&mut Silent, &Stop::new());
    balances(&report);
    assert_eq!(report.verdict, Verdict::Unmet);
    let first = goal(&report, "first");
    let reached = first.reached_ns.unwrap();
    assert_eq!(first.established, 200);
    // the last of 200 starts is due 1.99 s after the first
    assert!((1_990_000_000..2_000_000_000).contains(&reached), "{reached}");
    assert_eq!(goal(&report, "second"), SessionGoal { established: 5000, reached_ns: None });
    assert_eq!((met(&report, "first"), met(&report, "second")), (vec![true], vec![false]));
    // it stopped then
    let opened = |name: &str| side(&report, name, SessionEnd::Client).starts.opened;
    assert!((200..=201).contains(&opened("first")) && opened("second") == 400, "{report:#?}");
    assert_eq!(side(&report, "without", SessionEnd::Client).until, None);
}

#[test]
fn it_does_so_on_the_clock_of_the_machine_too() {
    require!(Capability::NetworkNamespaces);
    let bed = Testbed::pair(&Cable::default()).unwrap();
    let text = format!(
        "ports: {{ a: {{ namespace: a, addresses: [{}] }}, b: {{ namespace: b, addresses: [{}] }} }}\nsessions:\n  one: {{ from: a, to: b, \
         servers: {{ ports: 80 }}, program: echo, rate: 200/s, until: {{ established: 100 }} }}\nrun: {{ time: 20s }}\n",
        bed.a.ipv4, bed.b.ipv4
    );
    let report = run(&bed, &text, &Stop::new());
    balances(&report);
    let reached = goal(&report, "one").reached_ns.unwrap();
    assert!((490_000_000..15_000_000_000).contains(&reached), "{reached}");
}
