//! Flows that change often, and have much that does not: what stays the same is there once.

use std::fmt::Write;
use std::time::{Duration, Instant};

use wirebeat_traffic::compile::{Files, Live, compile};
use wirebeat_traffic::program::Program;
use wirebeat_traffic::scenario::change::MAX_CHANGES;
use wirebeat_traffic::scenario::size::MAX_LENGTHS;
use wirebeat_traffic::scenario::{MAX_FLOWS, Scenario};

use crate::world::imaginary_links;

/// Far more than one of each list takes, and far less than one for each change would.
const MEMORY: u64 = 400 << 20;
/// A debug build on a busy machine.
const TIME: Duration = Duration::from_secs(60);

/// Bytes of memory of this process.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// A flow with long lists and these settings that changes as often as may be.
fn scenario(keys: &str, change: impl Fn(usize) -> String) -> Scenario {
    let mut text = "ports: { a: {}, b: {} }\nflows:\n  x:\n    from: a\n    to: b\n".to_owned();
    let sizes: Vec<String> = (0..MAX_LENGTHS).map(|n| format!("{}B", 100 + n % 1000)).collect();
    let values: Vec<String> = (1..=100_000).map(|n| (n % 60_000 + 1).to_string()).collect();
    let keys = keys.replace("SIZES", &sizes.join(", ")).replace("VALUES", &values.join(", "));
    writeln!(text, "{keys}\n    stop: 1h\n    at:").unwrap();
    for number in 1..=MAX_CHANGES {
        writeln!(text, "      {number}ms: {}", change(number)).unwrap();
    }
    Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"))
}

/// Reads, compiles and keeps such a flow, within bounds.
fn bounded(keys: &str, change: impl Fn(usize) -> String) -> Program {
    let (before, begin) = (memory(), Instant::now());
    let scenario = scenario(keys, change);
    let links = imaginary_links(&scenario);
    let program = compile(&scenario, &links, &Files::default()).unwrap();
    assert_eq!(program.streams.len(), MAX_CHANGES + 1);
    let phases = scenario.flows["x"].phases();
    let live = Live::new(scenario, links, Files::default(), &program);
    let (took, grown) = (begin.elapsed(), memory().saturating_sub(before));
    assert!(grown < MEMORY, "{} MiB for {} phases", grown >> 20, phases.len());
    assert!(took < TIME, "{took:?}");
    assert_eq!(live.program(), program);
    program
}

const UDP: &str = "    packet: [ { ipv4: {} }, { udp: { source: { list: [ VALUES ] } } } ]";

#[test]
fn a_flow_that_changes_often_has_its_lists_once() {
    let rates = |number: usize| match number % 3 {
        0 => "pause".to_owned(),
        1 => format!("{{ rate: {number}pps }}"),
        _ => match number % 2 {
            0 => format!("{{ departures: exponential, rate: {number}pps }}"),
            _ => format!("{{ departures: constant, rate: {number}pps }}"),
        },
    };
    let resumed = |number: usize| match number % 3 {
        1 if number > 3 => "resume".to_owned(),
        _ => rates(number),
    };
    bounded(&format!("{UDP}\n    size: {{ list: [ SIZES ] }}\n    rate: 1pps"), resumed);
}

#[test]
fn a_flow_whose_packets_change_often_has_its_sizes_once() {
    let keys = "    size: { list: [ SIZES ] }\n    rate: 1pps";
    bounded(keys, |number| {
        format!(
            "{{ packet: [ {{ vlan: {{ id: {} }} }}, {{ ipv4: {{}} }}, {{ udp: {{}} }} ] }}",
            number % 4000
        )
    });
}

#[test]
fn a_flow_whose_sizes_change_often_has_its_patterns_and_its_profile_once() {
    let steps: Vec<String> = (0..50_000).map(|n| format!("{n}us: {}pps", 1000 + n % 7)).collect();
    let keys = format!("{UDP}\n    rate: {{ steps: {{ {} }}, every: 1s }}", steps.join(", "));
    bounded(&keys, |number| format!("{{ size: {}B }}", 100 + number % 1000));
}

#[test]
fn a_flow_that_begins_to_follow_a_trace_has_its_lengths() {
    let text = "ports: { a: {}, b: {} }\nflows:\n  x:\n    from: a\n    to: b\n    departures: { exponential: { mean: 1ms } }\n    \
                at: { 1s: { departures: { trace: lines } }, 2s: { departures: { exponential: { mean: 1ms } } } }";
    let scenario = Scenario::from_yaml(text, "").unwrap();
    let mut files = Files::default();
    files.insert("lines".to_owned(), b"100B 1ms\n200B 2ms\n".to_vec());
    let program = compile(&scenario, &imaginary_links(&scenario), &files).unwrap();
    let lengths = |stream: usize| [0, 1].map(|n| program.streams[stream].frames.counted(n).bytes);
    assert_eq!([lengths(0), lengths(1), lengths(2)], [[64, 64], [100, 200], [64, 64]]);
}

#[test]
fn there_can_be_as_many_flows_as_numbers() {
    let mut text = "ports: { a: {}, b: {} }\nflows:\n".to_owned();
    for number in 0..MAX_FLOWS {
        writeln!(text, "  f{number}: {{ from: a, to: b, rate: 1pps }}").unwrap();
    }
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let program = compile(&scenario, &imaginary_links(&scenario), &Files::default()).unwrap();
    assert_eq!(program.flows.last().map(|flow| flow.id), Some(65_534));
}

/// What is said of a flow with these keys.
fn why(keys: &str) -> String {
    let text = format!("ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, to: a, {keys} }} }}");
    Scenario::from_yaml(&text, "").unwrap_err().to_string()
}

#[test]
fn a_flow_that_changes_keeps_a_rate_and_has_no_end_by_bytes() {
    for change in ["rate: unlimited", "rate: unlimited, size: 100B"] {
        let why = why(&format!("rate: 1pps, at: {{ 1s: {{ {change} }} }}"));
        assert!(why.contains("a flow with a rate keeps one; give it a 'rate'"), "{why}");
    }
    let why = why("rate: 1pps, bytes: 1kB, at: { 1s: pause }");
    assert!(why.contains("flows.x.bytes: what changes has no simple end by bytes"), "{why}");
}

#[test]
fn what_is_said_twice_in_different_words_is_refused() {
    for (keys, twice) in [
        ("size: { mix: { 64B: 1, 64: 2 } }", "64B"),
        ("size: { mix: { 1500B@frame: 1, 1500B: 2 } }", "1500B"),
        ("rate: { steps: { 0s: 1pps, 1s: 2pps, 1000ms: 3pps } }", "1s"),
        ("rate: 1pps, at: { 1s: pause, 1000ms: resume }", "1s"),
    ] {
        let why = why(keys);
        assert!(why.contains(&format!("{twice} occurs twice; write it once")), "{keys}: {why}");
    }
}
