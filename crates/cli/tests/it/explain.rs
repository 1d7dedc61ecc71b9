//! `explain`: pages in golden files that a person reviews, and that every example has one.

use crate::{Scratch, examples, golden, run};

/// Examples of which the whole page is held.
const REVIEWED: [&str; 7] =
    ["single", "sizes", "bursts", "voice-over-bulk", "web-load", "tcp-throughput", "round-trips"];

/// Everything that a page can have.
const RICH: &str = "\
variables: { rate: 2kpps }
ports:
  a: { engine: pcap, file: a.pcapng }
  b: {}
flows:
  tagged:
    from: a
    to: b
    packet:
      - ethernet: {}
      - vlan: { id: { increment: 100, count: 3 } }
      - ipv4: { source: { random: [10.0.0.1, 10.0.0.9] }, destination: { list: [10.1.0.1, 10.1.0.2] }, dscp: ef }
      - tcp: { flags: syn+ack, checksum: wrong }
      - payload: { text: hello }
    size: { normal: { mean: 400B, deviation: 50B }, max: 800B }
    rate: ${rate}
    departures: { on-off: { on: 10ms, off: { exponential: { mean: 5ms } } } }
    start: 1s
    stop: 20s
    at: { 5s: { rate: 4kpps }, 8s: pause, 9s: resume }
    probe: off
  ramp:
    from: a
    to: b
    rate: { ramp: { from: 1kpps, to: 5kpps, over: 4s } }
    probe: mgen
    size: 200B
    count: 1000
";

#[test]
fn pages_are_as_reviewed() {
    for (name, path) in examples() {
        let ended = run(&["explain", &path]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{name}");
        for line in ended.out.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        if REVIEWED.contains(&name.as_str()) {
            golden(&format!("explain/{name}.txt"), &ended.out);
        }
    }
    let scratch = Scratch::new("explain");
    let rich = scratch.file("rich.yaml", RICH.as_bytes());
    golden("explain/rich.txt", &run(&["explain", &rich]).out);
}

#[test]
fn one_flow_is_explained_alone() {
    let scratch = Scratch::new("explain-one");
    let rich = scratch.file("rich.yaml", RICH.as_bytes());
    let page = run(&["explain", &rich, "--flow", "ramp", "--frames", "2", "--departures", "1"]).out;
    assert!(page.starts_with("flow ramp\n") && !page.contains("\nflow tagged\n"), "{page}");
    assert!(page.contains("frame 1 ") && !page.contains("frame 2 "), "{page}");
    let none = run(&["explain", &rich, "--flow", "rampe"]);
    assert_eq!(none.code, 2);
    let told = "error: there is no flow 'rampe'\n  --flow\n  hint: there are tagged, ramp\n";
    assert_eq!(none.err, told);
    let none = run(&["explain", &rich, "--frames", "0", "--departures", "0"]).out;
    assert!(!none.contains("frame 0") && !none.contains("first due"), "{none}");
}

#[test]
fn a_group_of_sessions_is_explained_alone() {
    let scratch = Scratch::new("explain-sessions");
    let two = "ports: { a: {} }\nsessions:\n  x: { from: a, program: http, servers: { addresses: 10.0.2.9, ports: 80 }, users: 3 }\n  \
               y: { from: a, program: echo, servers: { addresses: 10.0.2.9, ports: 7 }, rate: 5/s }\n";
    let two = scratch.file("two.yaml", two.as_bytes());
    let page = run(&["explain", &two, "--flow", "y"]).out;
    assert!(page.starts_with("sessions y\n") && !page.contains("sessions x"), "{page}");
    let none = run(&["explain", &two, "--flow", "z"]);
    assert_eq!((none.code, none.err.contains("there are x, y")), (2, true), "{}", none.err);
}

#[test]
fn variables_are_part_of_what_is_explained() {
    let scratch = Scratch::new("explain-set");
    let rich = scratch.file("rich.yaml", RICH.as_bytes());
    let page = run(&["explain", &rich, "--flow", "tagged", "--set", "rate=3kpps"]).out;
    assert!(page.contains("rate        3kpps\n"), "{page}");
}

#[test]
fn what_cannot_be_meant_is_told_as_check_does() {
    let scratch = Scratch::new("explain-wrong");
    let wrong = scratch.file("wrong.yaml", RICH.replace("ramp: {", "rampe: {").as_bytes());
    let (explain, check) = (run(&["explain", &wrong]), run(&["check", &wrong]));
    assert_eq!((explain.code, explain.err), (2, check.err));
}
