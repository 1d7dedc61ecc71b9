//! Captures that are received: they were reported as lost, all of them, as their frames have no probes.

use wirebeat_report::model::{FindingKind, Report};
use wirebeat_testbed::Testbed;

use super::make::*;
use super::*;
use crate::loss::Way;
use crate::world::{Engine, ports};

/// Frames of all kinds but fragments, and one that is shorter than the shortest frame.
fn captured(count: u64, change: impl Fn(usize, Vec<u8>) -> Vec<u8>) -> Vec<Timed> {
    let mut kinds = kinds();
    // a later fragment is among them
    kinds.remove(14);
    kinds.push(ethernet(3, 9, 0x88b5, &[1, 2]));
    kinds.push(ethernet(3, 9, 0x88b6, &[]));
    let frame = |n: u64| {
        let kind = n as usize % kinds.len();
        (n * 200_000, change(kind, kinds[kind].clone()))
    };
    (0..count).map(frame).collect()
}

fn received(engine: Engine, flows: &[(&str, &Path)]) -> Report {
    let flow = |(name, path): &(&str, &Path)| {
        format!("  {name}: {{ from: a, to: b, replay: {{ capture: '{}' }} }}\n", path.display())
    };
    let flows: String = flows.iter().map(flow).collect();
    let bed: Option<Testbed> = (engine != Engine::Loopback).then(cable);
    let report = run(&format!("{}flows:\n{flows}", ports(engine, "")), bed.as_ref());
    balanced(&report);
    report
}

fn engines() -> Vec<Engine> {
    let mut engines = vec![Engine::Loopback];
    let may = |capability| wirebeat_testbed::require(capability).is_ok();
    if may(Capability::NetworkNamespaces) {
        engines.push(Engine::Packet);
        engines.extend(may(Capability::XdpLiveFrames).then_some(Engine::Kernel));
    }
    engines
}

#[test]
fn captures_are_counted_by_their_headers_and_not_lost() {
    let one = written("received-one.pcap", &pcap(&captured(300, |_, frame| frame)));
    // others of the same kinds: another last byte of the source, or of the EtherType
    let changed = captured(200, |_, mut frame| {
        let at = match &frame[12..14] {
            [0x08, 0x00] => 29,
            [0x86, 0xdd] => 37,
            [0x81, 0x00] if frame[16] == 0x08 => 33,
            [0x81, 0x00] => 41,
            _ => 11,
        };
        frame[at] ^= 0x40;
        frame
    });
    let other = written("received-other.pcap", &pcap(&changed));
    for engine in engines() {
        let report = received(engine, &[("one", &one), ("other", &other)]);
        for (flow, count) in report.flows.iter().zip([300, 200]) {
            assert_eq!(flow.not_measured, None, "{engine:?}");
            assert_eq!(flow.sent.as_ref().unwrap().sent.frames, count);
            assert_eq!(flow.received.as_ref().unwrap().received.frames, count, "{engine:?}");
            assert_eq!(flow.loss.unwrap().frames, 0);
            let (sent, received) = (flow.sent.as_ref().unwrap(), flow.received.as_ref().unwrap());
            assert_eq!(
                sent.sent, received.received,
                "{engine:?}: padding is on both sides or on none"
            );
        }
        assert_eq!(report.total.loss.unwrap().frames, 0);
    }
}

/// The sum of the packets' lengths was sent, and the sum of the datagrams' received.
#[test]
fn the_payload_of_a_capture_is_that_of_its_datagrams() {
    let len = |n: u64| (n * 37 % 900) as usize & !1;
    let frame = |n: u64| (n * 100_000, udp(n % 2 == 1, [1, 2], [5000, 53], len(n)));
    let path = written("payload.pcap", &pcap(&(0..1000).map(frame).collect::<Vec<_>>()));
    let payload: u64 = (0..1000).map(|n| len(n) as u64).sum();
    for engine in engines() {
        let report = received(engine, &[("x", &path)]);
        let flow = &report.flows[0];
        assert_eq!(flow.sent.as_ref().unwrap().sent.payload_bytes, payload, "{engine:?}");
        assert_eq!(flow.received.as_ref().unwrap().received.payload_bytes, payload, "{engine:?}");
    }
}

#[test]
fn what_is_lost_of_a_capture_is_counted_to_the_frame() {
    // twice as fast as the narrow way, and all to one side of the bridge
    let kinds = [
        udp(false, [1, 2], [5000, 53], 1000),
        udp(true, [1, 2], [53, 5000], 1000),
        ethernet(1, 2, 0x88b5, &[7; 1000]),
    ];
    let frame = |n: u64| (n * 500_000, kinds[n as usize % 3].clone());
    let path = written("lossy.pcap", &pcap(&(0..600).map(frame).collect::<Vec<_>>()));
    for engine in engines() {
        let flow = format!("replay: {{ capture: '{}' }}", path.display());
        let (report, lost) = Way::on(engine).run(engine, &flow);
        balanced(&report);
        let flow = &report.flows[0];
        assert!(lost > 0 && lost < 600, "{engine:?}: {lost} of 600 were lost");
        assert_eq!((flow.not_measured.as_ref(), flow.loss.unwrap().frames), (None, lost));
        assert_eq!(flow.received.as_ref().unwrap().received.frames, 600 - lost);
    }
}

#[test]
fn captures_that_nobody_can_tell_apart_are_not_measured_and_not_lost() {
    let all = captured(60, |_, frame| frame);
    let one = written("shared-one.pcap", &pcap(&all));
    // one frame of it is enough
    let other = written("shared-other.pcap", &pcap(&all[7..8]));
    let fragments = written("fragments.pcap", &pcap(&[(0, kinds()[14].clone())]));
    for engine in engines() {
        let report =
            received(engine, &[("one", &one), ("other", &other), ("fragments", &fragments)]);
        for flow in &report.flows {
            let why = flow.not_measured.as_deref().unwrap();
            assert!(flow.received.is_none() && flow.loss.is_none(), "{engine:?}: {flow:#?}");
            let says = match flow.name.as_str() {
                "one" => "its headers are also those of flow 'other'",
                "other" => "its headers are also those of flow 'one'",
                _ => "a fragment has no ports to be known by",
            };
            assert!(why.contains(says), "{why}");
        }
        assert_eq!(report.total.loss, None);
        let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
        assert!(kinds.contains(&FindingKind::NotMeasured), "{kinds:?}");
        assert!(!kinds.contains(&FindingKind::NothingReceived), "{kinds:?}");
    }
}
