//! What is counted and measured by itself: devices and sub-flows of a recording.

use wirebeat_report::model::{FlowReport, MemberKind, Members};
use wirebeat_wire::probe::Probe;

use wirebeat_run::{Observer, Progress};

use super::*;
use crate::world::{Engine, ports};

/// How many frames had been sent when it was told last.
#[derive(Default)]
struct Shown(u64);

impl Observer for Shown {
    fn progress(&mut self, progress: &Progress) {
        self.0 = progress.sent.unwrap().0;
    }

    fn notice(&mut self, _message: &str) {}
}

/// Records of each device and their bytes of data.
fn of_device(lines: &[Line], device: u8) -> (u64, u64) {
    let mine = lines.iter().filter(|line| line.1 == device);
    mine.fold((0, 0), |(records, bytes), line| (records + 1, bytes + line.2 as u64))
}

fn members(report: &Report) -> &Members {
    report.flows[0].members.as_ref().unwrap()
}

/// That the flow is all of its members.
fn is_their_sum(flow: &FlowReport, members: &Members) {
    let sum = |of: fn(&FlowReport) -> u64| members.flows.iter().map(of).sum::<u64>();
    let sent = |flow: &FlowReport| flow.sent.as_ref().unwrap().sent.frames;
    assert_eq!(sum(sent), sent(flow));
    let expired = |flow: &FlowReport| flow.sent.as_ref().unwrap().expired;
    assert_eq!(sum(expired), expired(flow));
    let errors = |flow: &FlowReport| flow.sent.as_ref().unwrap().send_lateness_ns.count;
    assert_eq!(sum(errors), errors(flow));
    let unique = |flow: &FlowReport| flow.received.as_ref().map_or(0, |received| received.unique);
    assert_eq!(sum(unique), unique(flow));
    let lost = |flow: &FlowReport| flow.loss.map_or(0, |loss| loss.frames);
    assert_eq!(sum(lost), lost(flow));
}

/// In probes a device is a flow of its own, with numbers of its own.
#[test]
fn devices_have_numbers_of_their_own() {
    let lines: Vec<Line> = (0..500).map(|n| (n / 3 * 250, (n % 5) as u8, n as usize)).collect();
    let path = archive("members-probes", &lines);
    for (name, keys) in [
        ("device", "statistics: device"),
        ("in-order", "statistics: device, flow-of: device"),
        ("sub-flow", "statistics: sub-flow, flow-of: device"),
        ("delayed", "statistics: device, out-of-order: { probability: 0.3, window: 5ms }"),
    ] {
        let packets = captured(&format!("members-{name}"), &path, keys, "probe: on,");
        let mut next = [0; 5];
        for (_, _, payload) in &packets {
            let probe = Probe::from_tail(payload).unwrap();
            let n = payload.len() - 16;
            assert!(payload[..n] == data(n, n));
            // number 0 is that of the flow, and devices are numbered as they come
            let device = usize::from(probe.flow) - 1;
            assert_eq!(device, n % 5, "{name}");
            // those that leave later keep their numbers
            let number = if name == "delayed" { n as u32 / 5 } else { next[device] };
            assert_eq!(probe.sequence, number, "{name}");
            next[device] += 1;
        }
        assert_eq!(next, [100; 5], "{name}");
    }
}

#[test]
fn each_device_is_counted_on_every_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> =
        (0..3000).map(|n| (n * 40, (n * n % 7) as u8, 20 + n as usize % 60)).collect();
    let path = archive("members-engines", &lines);
    for (engine, more) in [
        (Engine::Kernel, ""),
        (Engine::Kernel, ", queues: 2"),
        (Engine::Packet, ""),
        (Engine::Packet, ", queues: 2"),
        (Engine::Socket, ""),
        (Engine::Loopback, ""),
    ] {
        let wait = if more.is_empty() { "" } else { "run: { wait: sleep }\n" };
        let text = format!(
            "{}flows:\n  x: {{ from: a, to: b, probe: on, replay: {{ archive: '{}', statistics: device }} }}\n{wait}",
            ports(engine, more),
            path.display()
        );
        let bed = match engine {
            Engine::Loopback => None,
            Engine::Kernel => Some(cable()),
            _ => Some(cable_to_a_program()),
        };
        let mut shown = Shown::default();
        let report = prepared(&text, bed.as_ref()).start(&mut shown, &Stop::new());
        assert_eq!(shown.0, 3000, "{engine:?}{more}: others see all that is sent");
        balanced(&report);
        let (flow, members) = (&report.flows[0], members(&report));
        assert_eq!(members.are, MemberKind::Device);
        // squares modulo 7 are 0, 1, 2 and 4, in the order of their first record
        let names: Vec<&str> = members.flows.iter().map(|flow| flow.name.as_str()).collect();
        assert_eq!(names, ["device-0", "device-1", "device-4", "device-2"], "{engine:?}");
        is_their_sum(flow, members);
        assert_eq!(flow.sent.as_ref().unwrap().sent.frames, 3000, "{engine:?}{more}");
        for member in &members.flows {
            // several transmit queues, and each device on one of them
            let reordered = member.received.as_ref().unwrap().reordered;
            assert_eq!(reordered, 0, "{} of {engine:?}{more}", member.name);
        }
        for (member, id) in members.flows.iter().zip(1..) {
            let device = member.name.trim_start_matches("device-").parse().unwrap();
            let (records, bytes) = of_device(&lines, device);
            let (sent, received) =
                (member.sent.as_ref().unwrap(), member.received.as_ref().unwrap());
            assert_eq!((member.id, member.sub_flow), (Some(id), None));
            assert_eq!(sent.sent.frames, records, "{engine:?}{more}");
            assert_eq!(sent.sent.payload_bytes, bytes + records * 16, "{engine:?}{more}");
            assert_eq!(sent.send_lateness_ns.count, records);
            assert_eq!(received.unique + member.loss.unwrap().frames, records, "{engine:?}{more}");
            let delay = received.one_way_delay_ns.as_ref().unwrap();
            assert_eq!((delay.count, delay.histogram.len()), (received.unique, 0));
            assert!(delay.percentiles.p50.is_some());
        }
    }
}

/// Fragments are counted beside their packets, on the kernel engine in counters of their own.
#[test]
fn fragments_are_those_of_their_device() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> =
        (0..300).map(|n| (n * 100, (n % 3) as u8, if n % 3 == 2 { 4000 } else { 100 })).collect();
    let path = archive("members-fragments", &lines);
    for engine in ["kernel", "packet"] {
        let bed = cable_to_a_program();
        let text = format!(
            "ports:\n  a: {{ interface: wb0, namespace: a, engine: {engine} }}\n  b: {{ interface: wb1, namespace: b, \
             engine: packet }}\nflows:\n  x: {{ from: a, to: b, probe: on, replay: {{ archive: '{}', statistics: \
             device }} }}\n",
            path.display()
        );
        let report = run(&text, Some(&bed));
        balanced(&report);
        is_their_sum(&report.flows[0], members(&report));
        let fragments: Vec<(u64, u64)> = members(&report)
            .flows
            .iter()
            .map(|member| {
                let sent = member.sent.as_ref().unwrap().sent;
                (sent.frames, sent.fragments)
            })
            .collect();
        assert_eq!(fragments, [(100, 0), (100, 0), (100, 200)], "{engine}");
    }
}

#[test]
fn sub_flows_are_counted_by_their_numbers() {
    let lines = lines();
    let path = archive("members-sub-flows", &lines);
    let table = file("members-table");
    std::fs::write(&table, "device-0,900\ndevice-1,7\ndevice-2,7\ndevice-3,13\ndevice-4,900\n")
        .unwrap();
    let flow_of = format!("flow-of: {{ table: '{}' }}", table.display());
    let counted = |name: &str, keys: &str| {
        let (report, _) = run_captured(name, &path, keys, "");
        balanced(&report);
        is_their_sum(&report.flows[0], members(&report));
        let line = |member: &FlowReport| {
            let sent = member.sent.as_ref().unwrap().sent.frames;
            assert_eq!(member.id, None, "without a probe there is no number in it");
            (member.name.clone(), member.sub_flow, sent)
        };
        (members(&report).are, members(&report).flows.iter().map(line).collect::<Vec<_>>())
    };
    let line = |name: &str, sub_flow, sent| (name.to_owned(), Some(sub_flow), sent);
    let (are, of_table) = counted("members-by-table", &format!("{flow_of}, statistics: sub-flow"));
    assert_eq!(are, MemberKind::SubFlow);
    assert_eq!(of_table, [line("7", 7, 160), line("13", 13, 80), line("900", 900, 160)]);
    let (are, of_devices) = counted("members-of-table", &format!("{flow_of}, statistics: device"));
    assert_eq!(are, MemberKind::Device);
    let device = |n: u32, sub_flow| line(&format!("device-{n}"), sub_flow, 80);
    let all = [device(0, 900), device(1, 7), device(2, 7), device(3, 13), device(4, 900)];
    assert_eq!(of_devices, all);
    let hash = "flow-of: { hash: 3 }, statistics: sub-flow";
    let (_, hashed) = counted("members-by-hash", hash);
    assert_eq!(hashed.iter().map(|line| line.1).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    assert_eq!(hashed.iter().map(|line| line.2).sum::<u64>(), 400);
    let (_, of_device) = counted("members-chosen", "statistics: device, devices: [device-3]");
    assert_eq!(of_device, [("device-3".to_owned(), None, 80)]);
}

/// There is an end to it, and nothing is lost behind it.
#[test]
fn more_devices_than_are_counted_each_are_counted_together() {
    const DEVICES: usize = 4100;
    let path = file("members-many.wbar");
    let mut writer = Writer::new(Vec::new());
    for n in 0..2 * DEVICES {
        let time = Timestamp::utc(BEGIN_US + n as i64).unwrap();
        let device = format!("d{}", n % DEVICES).parse::<Device>().unwrap();
        writer.write(&Record { time, device, data: b"1" }).unwrap();
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    let ports = "ports: { a: { engine: loopback }, b: { engine: loopback } }\n";
    let report = run(&scenario(&path, ports, "statistics: device", "to: b, probe: on,"), None);
    balanced(&report);
    let (flow, members) = (&report.flows[0], members(&report));
    let sent = |flow: &FlowReport| flow.sent.as_ref().unwrap().sent.frames;
    let unique = |flow: &FlowReport| flow.received.as_ref().unwrap().unique;
    assert_eq!((sent(flow), unique(flow)), (8200, 8200));
    assert_eq!(members.flows.len(), 4096);
    assert!(members.flows.iter().all(|member| (sent(member), unique(member)) == (2, 2)));
    let told = "4096 devices are counted each by itself, and those that came after them together, in their flow alone";
    assert!(report.findings.iter().any(|finding| finding.message == told), "{:?}", report.findings);
}

/// UUIDs and topics of MQTT did not fit into an archive.
#[test]
fn devices_with_long_names_are_chosen_and_counted_by_their_names() {
    let topic = |n: u8| format!("plant/7/line-{n}/motor/temperature");
    let path = file("members-long.wbar");
    let mut writer = Writer::new(Vec::new());
    for n in 0..90_u8 {
        let (time, name) = (Timestamp::utc(BEGIN_US + i64::from(n)).unwrap(), topic(n % 3));
        let device: Device = name.parse().unwrap();
        writer.name(device, &name).unwrap();
        writer.write(&Record { time, device, data: b"1" }).unwrap();
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    let ports = "ports: { a: { engine: loopback }, b: { engine: loopback } }\n";
    let names = |keys: &str| {
        let report = run(&scenario(&path, ports, keys, "to: b, probe: on,"), None);
        balanced(&report);
        let sent = |flow: &FlowReport| flow.sent.as_ref().unwrap().sent.frames;
        let of = |member: &FlowReport| (member.name.clone(), sent(member));
        members(&report).flows.iter().map(of).collect::<Vec<_>>()
    };
    let all: Vec<(String, u64)> = (0..3).map(|n| (topic(n), 30)).collect();
    assert_eq!(names("statistics: device"), all);
    assert_eq!(names("statistics: device, flow-of: device"), all);
    let one = format!("statistics: device, devices: ['{}']", topic(1));
    assert_eq!(names(&one), all[1..2]);
    assert_eq!(names("statistics: device, devices: ['plant/7/line-2/*']"), all[2..]);
}

#[test]
fn what_cannot_be_counted_so_is_refused() {
    let path = archive("members-refused", &lines());
    let ports = format!("ports: {{ a: {{ engine: pcap, file: '{}' }} }}\n", file("none").display());
    let why = |keys: &str| {
        let text = scenario(&path, &ports, keys, "");
        Scenario::from_yaml(&text, "test").unwrap_err().to_string()
    };
    let refused = why("statistics: sub-flow");
    assert!(refused.contains("there are no sub-flows without 'flow-of'"), "{refused}");
    assert!(why("statistics: devices").contains("device"), "{}", why("statistics: devices"));
}
