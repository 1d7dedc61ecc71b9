//! Records that leave out of their order: what the report says of them is what a receiver measures.

use wirebeat_report::model::{OutOfOrder, ProbeNumbers, Received};

use super::*;

/// 4,000 records 250 µs apart, of which a tenth leaves up to 5 ms later.
fn displaced(bed: Option<&wirebeat_testbed::Testbed>, ports: &str, keys: &str) -> Report {
    let lines: Vec<Line> = (0..4000).map(|n| (n * 250, (n % 3) as u8, 28)).collect();
    let path = archive(&format!("displaced-{:?}", thread::current().id()), &lines);
    let text = format!(
        "{ports}flows:\n  x: {{ from: a, to: b, probe: on, replay: {{ archive: '{}', out-of-order: {{ probability: \
         0.1, window: 5ms{keys} }} }} }}\n",
        path.display()
    );
    let report = run(&text, bed);
    balanced(&report);
    assert_eq!(report.end, End::Completed);
    report
}

fn both(report: &Report) -> (&OutOfOrder, &Received) {
    (report.replays[0].out_of_order.as_ref().unwrap(), report.flows[0].received.as_ref().unwrap())
}

fn measured(report: &Report, engine: &str) {
    let (of, received) = both(report);
    assert_eq!((of.probability, of.window_ns, of.numbers), (0.1, 5_000_000, ProbeNumbers::Records));
    // 4,000 draws with a tenth: within five standard deviations
    assert!((305..=495).contains(&of.delayed), "{engine}: {of:?}");
    assert_eq!((of.delay_ns.count, of.extent_records.count), (of.delayed, of.reordered));
    let (least, most) = (of.delay_ns.min.unwrap(), of.delay_ns.max.unwrap());
    assert!(least > 0 && most <= 5_000_000 && most > 4_500_000, "{engine}: {least} {most}");
    assert!(of.reordered > of.delayed / 2 && of.extent_records.max.unwrap() >= 15, "{engine}");
    assert_eq!((received.unique, received.implausible, received.duplicates), (4000, 0, 0));
    // a cable keeps the order, so the receiver sees what left, and nothing else
    assert_eq!(received.reordered, of.reordered, "{engine}");
    assert_eq!(received.reordering_extent_frames.max, of.extent_records.max, "{engine}");
}

#[test]
fn a_receiver_measures_the_disorder_that_a_replay_was_to_have() {
    let ports = "ports: { a: { engine: loopback }, b: { engine: loopback } }\n";
    measured(&displaced(None, ports, ""), "loopback");
    // of records that are sent again and again, too, and of each device by itself
    for keys in ["loop: 3, preload: true", "loop: 3", "loop: 2, preload: true, statistics: device"]
    {
        let lines: Vec<Line> = (0..1000).map(|n| (n * 250, (n % 3) as u8, 28)).collect();
        let path = archive("displaced-again", &lines);
        let keys = format!("{keys}, out-of-order: {{ probability: 0.1, window: 5ms }}");
        let report = run(&scenario(&path, ports, &keys, "to: b, probe: on,"), None);
        balanced(&report);
        let (of, received) = both(&report);
        let turns = if keys.contains("loop: 3") { 3000 } else { 2000 };
        assert_eq!((received.unique, received.duplicates, received.implausible), (turns, 0, 0));
        assert!(received.reordered > 100 && received.reordered <= of.reordered, "{keys}");
    }
}

#[test]
fn every_engine_numbers_by_record() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for engine in ["kernel", "packet", "socket"] {
        let bed = if engine == "kernel" { cable() } else { cable_to_a_program() };
        // a sender that finds its CPU taken may go to another, and redirected frames then come in through another queue of
        // the cable, by which order is measured; one that is told its CPU stays there
        let ports = format!(
            "ports:\n  a: {{ interface: wb0, namespace: a, engine: {engine}, cores: [0] }}\n  b: {{ interface: wb1, \
             namespace: b, engine: {engine} }}\n"
        );
        measured(&displaced(Some(&bed), &ports, ""), engine);
        let by_departure = displaced(Some(&bed), &ports, ", numbers: departures");
        let (of, received) = both(&by_departure);
        assert_eq!((of.numbers, received.reordered), (ProbeNumbers::Departures, 0), "{engine}");
        assert!(of.reordered > 150, "{engine}: the sender knows");
    }
}

/// Data that a port takes from shared memory, and packets in fragments, are numbered as others are.
#[test]
fn long_records_are_numbered_as_short_ones() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> =
        (0..1000).map(|n| (n * 500, 0, [28, 400, 3000][n as usize % 3])).collect();
    let path = archive("displaced-long", &lines);
    for engine in ["kernel", "packet"] {
        let bed = cable_to_a_program();
        let text = format!(
            "ports:\n  a: {{ interface: wb0, namespace: a, engine: {engine} }}\n  b: {{ interface: wb1, namespace: \
             b, engine: packet }}\nflows:\n  x: {{ from: a, to: b, probe: on, replay: {{ archive: '{}', out-of-order: \
             {{ probability: 0.2, window: 5ms }} }} }}\n",
            path.display()
        );
        let report = run(&text, Some(&bed));
        balanced(&report);
        let (of, received) = both(&report);
        assert_eq!((received.unique, received.implausible), (1000, 0), "{engine}");
        assert!(of.reordered > 100, "{engine}");
        // one receive queue may put a packet together after one that came behind its first fragment
        assert!(received.reordered.abs_diff(of.reordered) <= 20, "{engine}: {of:?} {received:?}");
    }
}
