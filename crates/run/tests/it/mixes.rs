//! Rates that groups of sessions share: each has what it was asked to have, and the report says so.

use std::fs;
use std::path::Path;

use wirebeat_report::model::{MixShared, Report, SessionEnd, Verdict};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;

use crate::sessions::balances;

fn in_memory(rate: &str, time: &str) -> Report {
    let group = |name: &str, rest: &str| {
        format!(
            "  {name}: {{ from: a, to: b, stack: own, departures: constant, clients: {{ addresses: 10.0.1.1-10.0.1.9 }}, {rest} }}\n"
        )
    };
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nsessions:\n{}{}{}\
         mix: {{ rate: {rate}, shares: {{ web: 50, trips: 30, calls: 20 }} }}\nrun: {{ time: {time} }}\n",
        group(
            "web",
            "servers: { addresses: 10.0.2.9, ports: 80 }, program: { http: { size: 20kB } }"
        ),
        group(
            "trips",
            "servers: { addresses: 10.0.2.9, ports: 81 }, program: { request-response: { request: 100B, response: 900B, requests: 5 } }"
        ),
        group(
            "calls",
            "transport: udp, servers: { addresses: 10.0.2.9, ports: 5004 }, program: { messages: { size: 172B, gap: 1ms, time: 20ms } }"
        ),
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let prepared = prepare(&scenario, Options::default());
    prepared.unwrap_or_else(|error| panic!("{error}")).start(&mut Silent, &Stop::new())
}

/// Frames of groups and those of ports are counted in two places.
fn frames_balance(report: &Report) {
    let of_groups: u64 = report.sessions.iter().filter_map(|group| Some(group.frames?.sent)).sum();
    let of_ports: u64 = report
        .stacks
        .iter()
        .map(|stack| {
            let datagrams = stack.datagrams.map_or(0, |datagrams| datagrams.sent);
            assert_eq!(stack.link.unresolved, 0);
            stack.segments.all + datagrams
        })
        .sum();
    assert_eq!(of_groups, of_ports, "{report:#?}");
    for group in &report.sessions {
        // a server of messages one way says nothing
        let Some(frames) = group.frames else {
            assert_eq!(group.bytes.sent, 0, "{group:#?}");
            continue;
        };
        assert!(frames.sent_bytes > group.bytes.sent, "{group:#?}");
        assert!(frames.sent_bytes >= 64 * frames.sent, "{group:#?}");
    }
}

#[test]
fn bits_are_shared_as_they_were_asked_to() {
    for rate in ["20Mbps", "20Mbps@line", "20Mbps@payload"] {
        let report = in_memory(rate, "5s");
        balances(&report);
        assert_eq!(report.verdict, Verdict::Done);
        frames_balance(&report);
        let mix = report.mix.as_ref().unwrap();
        assert_eq!((mix.of, mix.rate.as_str()), (MixShared::Bits, rate));
        for (group, asked) in mix.groups.iter().zip([0.5, 0.3, 0.2]) {
            assert!((group.asked_ratio - asked).abs() < 1e-9, "{group:?}");
            let got = group.got_ratio.unwrap();
            assert!((got / asked - 1.0).abs() < 0.03, "{rate}: {mix:#?}");
        }
        let all: f64 = mix.groups.iter().map(|group| group.got_ratio.unwrap()).sum();
        assert!((all - 1.0).abs() < 1e-9, "{mix:#?}");
        let rate = mix.got_per_second().unwrap();
        assert!((rate / 20e6 - 1.0).abs() < 0.05, "{rate}");
    }
}

#[test]
fn starts_are_shared_as_they_were_asked_to() {
    let report = in_memory("1000/s", "2s");
    balances(&report);
    frames_balance(&report);
    let mix = report.mix.as_ref().unwrap();
    assert_eq!(mix.of, MixShared::Starts);
    let clients = report.sessions.iter().filter(|group| group.end == SessionEnd::Client);
    let opened: Vec<Option<u64>> = clients.map(|group| Some(group.starts.opened)).collect();
    let got: Vec<Option<u64>> = mix.groups.iter().map(|group| group.got).collect();
    assert_eq!((&got, opened.iter().flatten().sum::<u64>()), (&opened, 2000));
    assert_eq!(mix.groups[0].got_ratio, Some(0.5));
}

/// The examples as they are, at a lower rate and for less time: every group has sessions, and all of them do as they should.
#[test]
fn the_mixes_among_the_examples_open_and_close_sessions_of_all_groups() {
    for (name, rate, groups) in [
        ("mix-provider", "100Mbps", 17),
        ("mix-enterprise", "100Mbps", 18),
        ("mix-mobile", "100Mbps", 14),
        ("mix-iot", "50Mbps", 11),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let mut text = fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
        for (from, to) in [
            (format!("{{ rate: {rate}, "), "{ rate: 20Mbps, "),
            ("run: { time: 10s }".to_owned(), "run: { time: 2s }"),
        ] {
            assert!(text.contains(&from), "{name}: {from}");
            text = text.replace(&from, to);
        }
        let scenario = Scenario::from_yaml(&text, name).unwrap_or_else(|error| panic!("{error}"));
        let prepared = prepare(&scenario, Options::default());
        let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
        let report = prepared.start(&mut Silent, &Stop::new());
        balances(&report);
        assert_eq!(report.verdict, Verdict::Done, "{name}: {report:#?}");
        let clients: Vec<_> =
            report.sessions.iter().filter(|group| group.end == SessionEnd::Client).collect();
        assert_eq!((clients.len(), report.sessions.len()), (groups, 2 * groups), "{name}");
        for group in &report.sessions {
            let opened = group.starts.opened;
            assert!(opened > 0, "{name}: {group:#?}");
            assert_eq!(group.ends.in_order, opened, "{name}: {group:#?}");
        }
    }
}
