//! Long times without a record, and sub-flows that would share what they are told apart by.

use std::time::Instant;

use super::*;

const DAY_US: i64 = 86_400_000_000;

/// Between addresses that are there.
fn here(text: &str, bed: &wirebeat_testbed::Testbed) -> String {
    let text = text.replace("10.0.0.2", &bed.b.ipv4.to_string());
    text.replace("10.0.0.1", &bed.a.ipv4.to_string())
}

/// Why a replay on a real clock does not begin.
fn why(path: &Path, keys: &str) -> String {
    let bed = cable();
    let mut namespaces = std::collections::BTreeMap::new();
    namespaces.insert("a".to_owned(), bed.a.namespace.clone());
    let options = Options { namespaces, ..Options::default() };
    let ports = "ports: { a: { interface: wb0, namespace: a, engine: packet } }\n";
    let text = here(&scenario(path, ports, keys, ""), &bed);
    let scenario = Scenario::from_yaml(&text, "test").unwrap();
    match prepare(&scenario, options) {
        Err(error @ RunError::Usage(_)) => error.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => "it began".to_owned(),
    }
}

#[test]
fn a_record_a_year_ahead_does_not_hang_a_replay() {
    require!(Capability::NetworkNamespaces);
    let lines = [(0, 0, 20), (10, 0, 20), (365 * DAY_US, 0, 20), (365 * DAY_US + 5, 0, 20)];
    let path = archive("year", &lines);
    for keys in ["", "preload: true", "speed: 100x"] {
        let told = why(&path, keys);
        let days = if keys.contains("100x") { "3 d 15 h" } else { "364 d 23 h" };
        assert!(
            told.contains(&format!(
                "record 2 at byte 100: nothing is due for {days} before this record"
            )) && told.contains("--max-gap"),
            "{told}"
        );
    }
    for keys in ["max-gap: 1s", "max-gap: 86400s", "tight-loop: 1s", "speed: 100000x"] {
        assert_eq!(why(&path, keys), "it began", "{keys}");
    }
    // a run that has an end by time is no surprise
    let text =
        scenario(&path, "ports: { a: { interface: wb0, namespace: a, engine: packet } }\n", "", "");
    let bed = cable();
    let report = run(&(here(&text, &bed) + "run: { time: 50ms }\n"), Some(&bed));
    balanced(&report);
    assert_eq!(report.flows[0].sent.as_ref().unwrap().sent.frames, 2);
}

#[test]
fn gaps_are_shortened_to_what_was_asked_for() {
    let lines = [(0, 0, 20), (10, 0, 20), (365 * DAY_US, 0, 20), (365 * DAY_US + 5, 0, 20)];
    let path = archive("shortened", &lines);
    let (report, packets) = run_captured("shortened", &path, "max-gap: 1ms, speed: 10x", "");
    let times: Vec<u64> = from_first(packets).into_iter().map(|packet| packet.0).collect();
    assert_eq!(times, [0, 1_000, 1_001_000, 1_001_500]);
    let shortened = report.replays[0].shortened.unwrap();
    assert_eq!(shortened.gaps, 1);
    assert_eq!(shortened.by_ns, (365 * DAY_US - 10) as u64 * 1000 - 10_000_000);
}

/// A day of idle took half a minute of CPU.
#[test]
fn a_virtual_clock_jumps_over_a_year() {
    let lines: Vec<Line> = (0..50).map(|n| (n * 365 * DAY_US / 2, 0, 20)).collect();
    let path = archive("virtual", &lines);
    let begun = Instant::now();
    let packets = captured("virtual", &path, "", "");
    assert!(from_first(packets) == expected(&lines, |_, us| us as u64 * 1000));
    let ports = "ports: { a: { engine: loopback }, b: { engine: loopback } }\n";
    let report = run(&scenario(&path, ports, "", "to: b, probe: on,"), None);
    balanced(&report);
    assert_eq!(report.flows[0].received.as_ref().unwrap().unique, 50);
    // 25 years in steps of 20 ms are 40,000 million
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn devices_do_not_share_source_ports_in_silence() {
    require!(Capability::NetworkNamespaces);
    let path = archive("ports", &lines());
    let one_port = |keys: &str, count: u32| {
        let ports =
            format!("ports: {{ a: {{ engine: pcap, file: '{}' }} }}\n", file("p").display());
        let text =
            scenario(&path, &ports, keys, "").replace("count: 1000", &format!("count: {count}"));
        let scenario = Scenario::from_yaml(&text, "test").unwrap();
        prepare(&scenario, Options::default()).map(drop)
    };
    let told = one_port("flow-of: device", 3).unwrap_err();
    assert_eq!(told.exit_code(), 2);
    let told = told.to_string();
    assert!(
        told.contains("there are 5 sub-flows ('flow-of'), and 3 of them differ")
            && told.contains("--flow-of hash:3"),
        "{told}"
    );
    assert!(one_port("flow-of: { hash: 4 }", 3).is_err());
    for keys in [
        "flow-of: { hash: 3 }",
        "flow-of: device, sub-flows: 3",
        "flow-of: device, devices: [device-1]",
    ] {
        assert!(one_port(keys, 3).is_ok(), "{keys}");
    }
    let table = file("ports-table");
    let lines = "device-0,1\ndevice-1,11\ndevice-2,2\ndevice-3,3\ndevice-4,4\n";
    std::fs::write(&table, lines).unwrap();
    let keys = format!("flow-of: {{ table: '{}' }}", table.display());
    assert!(one_port(&keys, 7).is_err(), "4 and 11 are 7 apart");
    assert!(one_port(&keys, 6).is_ok(), "11 is 5 there");
}
