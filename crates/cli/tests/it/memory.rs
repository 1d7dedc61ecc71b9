//! What the command takes of memory, inside namespaces that the test made.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use wirebeat_testbed::{
    Capability, Neighbours, Options as Cable, Process, Program, Testbed, require,
};

use crate::Scratch;

const PATIENCE: Duration = Duration::from_secs(120);
const FLOWS: usize = 10_000;
const EACH: usize = 3;

/// The most memory that a process had, in KiB: asked for until it has ended.
fn peak(process: &Process) -> thread::JoinHandle<u64> {
    let status = format!("/proc/{}/status", process.id());
    thread::spawn(move || {
        let mut peak = 0;
        while let Ok(text) = fs::read_to_string(&status) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let Some(kib) = line.and_then(|line| line.trim().strip_suffix(" kB")) else { break };
            peak = peak.max(kib.parse().unwrap());
            thread::sleep(Duration::from_millis(5));
        }
        peak
    })
}

/// 10,000 flows from one end to the other, of three frames each.
fn ten_thousand_flows(engine: &str) {
    let bed = Testbed::pair(&Cable { neighbours: Neighbours::Fixed, ..Cable::default() }).unwrap();
    let files = Scratch::new(&format!("flows-{engine}"));
    let flows: String = (0..FLOWS)
        .map(|number| {
            format!(
                "  f{number}: {{ from: a, rate: 1pps, count: {EACH}, packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: \
                 {{ source: {}, destination: 9 }} }} ] }}\n",
                bed.b.ipv4,
                1000 + number
            )
        })
        .collect();
    let text = format!("ports: {{ a: {{ interface: wb0, engine: packet }} }}\nflows:\n{flows}");
    let scenario = files.file("flows.yaml", text.as_bytes());
    let report = files.path("report.json");
    let command = |end: &wirebeat_testbed::End, line: &str| {
        let program = Program::new(&end.namespace, env!("CARGO_BIN_EXE_wirebeat"));
        program.args(line.split_whitespace()).spawn().unwrap()
    };
    let all = FLOWS * EACH;
    let receiver = command(
        &bed.b,
        &format!(
            "receive --interface wb1 --engine {engine} --port 9 --count {all} --time 60s --json {report}"
        ),
    );
    receiver.wait_for("receiving on", PATIENCE).unwrap();
    let peak = peak(&receiver);
    let sent = command(&bed.a, &format!("run {scenario}")).wait(PATIENCE).unwrap();
    assert_eq!(sent.status.code(), Some(0), "{}", sent.stderr);
    let received = receiver.wait(PATIENCE).unwrap();
    assert_eq!(received.status.code(), Some(0), "{}", received.stderr);
    let report: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let flows = report["flows"].as_array().unwrap();
    assert_eq!(flows.len(), FLOWS);
    for flow in flows {
        let received = &flow["received"];
        assert_eq!((&received["unique"], &received["duplicates"]), (&EACH.into(), &0.into()));
        let gaps = &received["inter_arrival_ns"];
        assert_eq!(gaps["count"], EACH - 1);
        assert!(gaps["percentiles"]["p50"].is_u64(), "{gaps}");
    }
    assert_eq!(report["total"]["received"]["unique"], all);
    let said = report["findings"].to_string();
    assert!(!said.contains("only counted") && !said.contains("share theirs"), "{said}");
    let peak = peak.join().unwrap() / 1024;
    println!("{engine}: {peak} MiB");
    assert!((1..512).contains(&peak), "{peak} MiB");
}

/// The packet engine took 5,825 flows, and only counted the frames of all others.
#[test]
fn ten_thousand_flows_are_measured_by_the_packet_engine_in_less_than_512_mib() {
    require!(Capability::NetworkNamespaces);
    ten_thousand_flows("packet");
}

#[test]
fn ten_thousand_flows_are_measured_by_the_socket_engine_in_less_than_512_mib() {
    require!(Capability::NetworkNamespaces);
    ten_thousand_flows("socket");
}

/// The most memory, in KiB, of a run in memory in which `count` sessions are open at a time, of which each has asked and is going to ask
/// again.
fn idle_sessions(bed: &Testbed, files: &Scratch, count: u32) -> u64 {
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nsessions:\n  idle: {{ from: a, to: b, stack: own, \
         clients: {{ addresses: 10.1.0.1-10.1.0.20 }}, servers: {{ addresses: 10.2.0.1, ports: 80 }}, \
         program: {{ request-response: {{ requests: 2, think: 60s }} }}, rate: 50000/s, count: {count}, limit: {{ open: {count} }}, \
         expect: [ established == {count}, failed == 0, damaged == 0, 'responses == {}' ] }}\nrun: {{ time: 2m }}\n",
        2 * count
    );
    let scenario = files.file(&format!("idle-{count}.yaml"), text.as_bytes());
    let program = Program::new(&bed.a.namespace, env!("CARGO_BIN_EXE_wirebeat"));
    let process = program.args(["run", &scenario]).spawn().unwrap();
    let peak = peak(&process);
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    peak.join().unwrap()
}

/// Both ends of a session that waits, all in: its TCP, its program, its timers and its places in tables.
#[test]
fn a_hundred_thousand_idle_sessions_take_less_than_a_few_hundred_bytes_each() {
    require!(Capability::NetworkNamespaces);
    let bed = Testbed::pair(&Cable::default()).unwrap();
    let files = Scratch::new("idle-sessions");
    let [few, many] = [20_000, 120_000].map(|count| idle_sessions(&bed, &files, count));
    let each = (many - few) * 1024 / 100_000 / 2;
    println!("{each} bytes for an end, from {few} KiB to {many} KiB");
    assert!((64..300).contains(&each), "{each} bytes for an end");
}
