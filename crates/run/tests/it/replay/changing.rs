//! What is replayed pauses, goes on, and has more or fewer flows while it is sent.

use wirebeat_report::model::ChangeOrigin;
use wirebeat_traffic::scenario::Change;
use wirebeat_units::Nanos;

use super::*;
use crate::control::controlled;
use crate::world::{Engine, ports};

/// What is sent of lines of which `open` lets those through that are sent, at their own times.
fn let_through(lines: &[Line], open: impl Fn(i64, u8) -> bool) -> Vec<(u64, u16, Vec<u8>)> {
    let all = lines.iter().enumerate().filter(|(_, line)| open(line.0, line.1));
    all.map(|(n, line)| (line.0 as u64 * 1000, 5000 + u16::from(line.1), data(n, line.2))).collect()
}

#[test]
fn it_pauses_and_has_more_and_fewer_flows_as_planned() {
    let lines = lines();
    let path = archive("planned", &lines);
    let open = |us: i64, device: u8| {
        let flows = match us {
            ..5_000 => 2,
            5_000..10_000 => 4,
            10_000..15_000 => 0,
            15_000..20_000 => 4,
            20_000..25_000 => 1,
            _ => 5,
        };
        device < flows
    };
    let expected = let_through(&lines, open);
    let at = "at: { 5ms: { sub-flows: 4 }, 10ms: pause, 15ms: resume, 20ms: { sub-flows: 1 }, 25ms: { sub-flows: 5 } },";
    for keys in ["", ", buffer: 128KiB, workers: 2"] {
        let keys = format!("flow-of: device, sub-flows: 2{keys}");
        let (report, packets) = run_captured("planned", &path, &keys, at);
        balanced(&report);
        assert!(from_first(packets) == expected, "{keys}");
        let replay = &report.replays[0];
        let sent = expected.len() as u64;
        assert_eq!((replay.records, replay.passed_over), (400, 400 - sent));
        // what was not to be sent was not asked for
        let sent = report.flows[0].sent.as_ref().unwrap();
        assert_eq!((sent.requested.frames, sent.expired), (expected.len() as u64, 0));
        assert_eq!(report.changes.len(), 5);
        assert_eq!(report.changes[0].change, "sub-flows 4");
    }
    // to its end, and again
    let (report, packets) = run_captured("planned", &path, "loop: 2", "at: { 10ms: pause },");
    assert_eq!(report.end, End::Completed);
    assert_eq!(packets.len(), lines.iter().filter(|line| line.0 < 10_000).count());
}

/// What is passed over keeps no buffer, however much it is.
#[test]
fn a_pause_may_be_longer_than_what_is_read_ahead() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> = (0..40_000).map(|n| (n * 10, 0, 40)).collect();
    let path = archive("long-pause", &lines);
    let sent = |us: i64| !(20_000..380_000).contains(&us);
    let expected: Vec<(u64, u16, Vec<u8>)> = expected(&lines, |_, us| us as u64 * 1000)
        .into_iter()
        .filter(|packet| sent(packet.0 as i64 / 1000))
        .collect();
    let at = "at: { 20ms: pause, 380ms: resume },";
    for keys in ["buffer: 128KiB", "buffer: 128KiB, workers: 2"] {
        let (report, packets) = run_captured("long-pause", &path, keys, at);
        balanced(&report);
        assert!(from_first(packets) == expected, "{keys}");
    }
    for engine in [Engine::Kernel, Engine::Packet] {
        let bed = cable();
        let text = format!(
            "{}flows:\n  x: {{ from: a, to: b, probe: on, {at} replay: {{ archive: '{}', buffer: 128KiB }} }}\n",
            ports(engine, ""),
            path.display()
        );
        let report = run(&text, Some(&bed));
        balanced(&report);
        assert_eq!(report.end, End::Completed);
        let sent = report.flows[0].sent.as_ref().unwrap().sent.frames;
        assert_eq!((sent, report.replays[0].passed_over), (4000, 36_000), "{engine:?}");
    }
}

/// Of an archive of an hour.
#[test]
fn a_stop_ends_a_pause() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> = (0..36_000).map(|n| (n * 100_000, 0, 28)).collect();
    let path = archive("stopped-pause", &lines);
    for engine in [Engine::Kernel, Engine::Packet] {
        let bed = cable();
        let text = format!(
            "{}flows:\n  x: {{ from: a, to: b, probe: on, replay: {{ archive: '{}' }} }}\n",
            ports(engine, ""),
            path.display()
        );
        let (report, (), _) = controlled(&text, &bed, |control| {
            control.change("x", &Change::Pause).unwrap();
            thread::sleep(Duration::from_millis(300));
            control.stop("x").unwrap();
        });
        assert_eq!(report.end, End::Completed);
        assert!(report.duration_ns < 60_000_000_000, "{engine:?}: {} ns", report.duration_ns);
    }
}

#[test]
fn what_leaves_out_of_order_leaves_in_no_pause() {
    let lines: Vec<Line> = (0..10_000).map(|n| (n * 10, 0, 40)).collect();
    let path = archive("delayed-pause", &lines);
    let keys = "out-of-order: { probability: 0.3, window: 5ms }, buffer: 128KiB";
    let at = "at: { 20ms: pause, 60ms: resume },";
    let (report, packets) = run_captured("delayed-pause", &path, keys, at);
    balanced(&report);
    assert_eq!(packets.len(), 6000);
    let times: Vec<u64> = from_first(packets).iter().map(|packet| packet.0 / 1000).collect();
    assert!(times.is_sorted() && times.iter().all(|us| !(20_000..60_000).contains(us)));
}

#[test]
fn it_is_changed_from_outside() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> = (0..40_000).map(|n| (n * 50, (n % 4) as u8, 28)).collect();
    let path = archive("from-outside", &lines);
    let change = |text: &str| serde_json::from_str::<Change>(text).unwrap();
    for (engine, more) in
        [(Engine::Kernel, ""), (Engine::Kernel, ", queues: 2"), (Engine::Packet, "")]
    {
        let bed = cable();
        let text = format!(
            "{}flows:\n  x: {{ from: a, to: b, probe: on, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ source: {{ increment: 5000, \
             per: sub-flow }} }} }} ], replay: {{ archive: '{}', flow-of: device, statistics: device }} }}\nrun: {{ wait: \
             sleep }}\n",
            ports(engine, more),
            path.display()
        );
        let (report, times, _) = controlled(&text, &bed, |control| {
            let wrong =
                control.change("x", &change(r#"{ "rate": "1kpps" }"#)).unwrap_err().to_string();
            assert!(
                wrong.contains("what is replayed has times, sizes and headers of its own"),
                "{wrong}"
            );
            let fewer = control.change("x", &change(r#"{ "sub-flows": 2 }"#)).unwrap();
            thread::sleep(Duration::from_millis(400));
            let paused = control.change("x", &Change::Pause).unwrap();
            thread::sleep(Duration::from_millis(400));
            let resumed = control.change("x", &Change::Resume).unwrap();
            thread::sleep(Duration::from_millis(300));
            let more = control.change("x", &change(r#"{ "sub-flows": 3 }"#)).unwrap();
            assert_eq!(control.list().unwrap()[0].sends, "sub-flows 2");
            [fewer, paused, resumed, more]
        });
        let [fewer, paused, resumed, more_flows] = times;
        assert_eq!(report.end, End::Completed);
        assert!(report.changes.iter().all(|change| change.origin == ChangeOrigin::Control));
        assert_eq!(report.changes.len(), 4);
        let open = |us: i64, device: u8| {
            let at = Nanos::from_micros(us as u64);
            let flows = match at {
                _ if at < fewer => 4,
                _ if at < paused => 2,
                _ if at < resumed => 0,
                _ if at < more_flows => 2,
                _ => 3,
            };
            device < flows
        };
        // to the record, on every core
        let sent: Vec<u64> = report.flows[0]
            .members
            .as_ref()
            .unwrap()
            .flows
            .iter()
            .map(|member| member.sent.as_ref().unwrap().sent.frames)
            .collect();
        let expected: Vec<u64> = (0..4_u8)
            .map(|device| {
                lines.iter().filter(|line| line.1 == device && open(line.0, device)).count() as u64
            })
            .collect();
        assert_eq!(sent, expected, "{engine:?}{more}");
        let replay = &report.replays[0];
        assert_eq!(replay.passed_over, 40_000 - expected.iter().sum::<u64>());
    }
}

#[test]
fn what_it_cannot_change_is_told() {
    let path = archive("unchanging", &lines());
    let ports = format!("ports: {{ a: {{ engine: pcap, file: '{}' }} }}\n", file("none").display());
    for (keys, flow, why) in [
        ("", "at: { 1s: { rate: 1kpps } },", "what changes is 'sub-flows', or it pauses"),
        (
            "",
            "at: { 1s: { sub-flows: 3 } },",
            "there are no sub-flows without 'flow-of' in 'replay'",
        ),
        ("tight-loop: 0", "at: { 1s: pause },", "give 'tight-loop' a time"),
        ("sub-flows: 3", "", "there are none without 'flow-of'"),
        ("", "at: { 1s: resume },", "it does not pause"),
    ] {
        let text = scenario(&path, &ports, keys, flow);
        let told = Scenario::from_yaml(&text, "test").unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
    }
}
