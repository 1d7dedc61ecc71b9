//! Hardware timestamps: what has none is refused, and two cards with clocks of their own measure one time.
//!
//! The tests with cards run in guests: `scripts/test-guest.sh --card igb --only timestamps`.

use std::env;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_engine_linux::card::{StampConfig, StampSetting};
use wirebeat_netlink::{ReceiveStamps, Timestamping};
use wirebeat_report::model::{End, FindingKind, HardwareTimestamps, Report};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{
    Addressing, Capability, End as Side, Neighbours, Options as Cables, Testbed, Unlatched,
    disturb_card_clock, require,
};
use wirebeat_traffic::scenario::Scenario;

use crate::world::{Engine, balanced, cable, ports, run, tried};

const HARDWARE: &str = "run: { timestamps: hardware }\n";

/// Virtual cables, whatever cards there are.
fn bridge() -> Testbed {
    let options =
        Cables { neighbours: Neighbours::Fixed, addressing: Addressing::V4, ..Cables::default() };
    Testbed::bridge(2, &options).unwrap()
}

fn plain(engine: Engine) -> String {
    format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], count: 10 }} }}\n{HARDWARE}",
        ports(engine, "")
    )
}

#[test]
fn what_has_no_hardware_timestamps_is_refused_before_any_traffic() {
    require!(Capability::NetworkNamespaces);
    let bed = bridge();
    for (engine, code, why) in [
        (
            Engine::Packet,
            3,
            "the packet engine cannot run on wb0: its card has no clock to stamp frames by; use '--timestamps software'",
        ),
        (
            Engine::Socket,
            3,
            "the socket engine cannot run on wb0: its card has no clock to stamp frames by; use '--timestamps software'",
        ),
        (Engine::Kernel, 2, "the engine 'kernel' of port 'a' has no hardware timestamps"),
        (Engine::Loopback, 2, "the engine 'loopback' of port 'a' has no hardware timestamps"),
    ] {
        if engine == Engine::Kernel {
            require!(Capability::Bpf);
        }
        let error = tried(&plain(engine), Some(&bed)).map(|_| ()).unwrap_err();
        assert_eq!(error.exit_code(), code, "{error}");
        assert!(error.to_string().starts_with(why), "{error}");
    }
}

/// What the card of an end offers, and what it is told to stamp.
fn card(side: &Side) -> (Timestamping, StampConfig) {
    let offered = side.netlink().unwrap().timestamping(side.link.index).unwrap();
    let setting = side.namespace.run(|| StampSetting::open(side.interface())).unwrap().unwrap();
    (offered, setting.get().unwrap())
}

/// Sync messages of PTP by Ethernet: emulated cards stamp these alone of what they receive. With a probe at their end.
fn sync(run: &str) -> String {
    format!(
        "{}flows:
  f: {{ from: a, to: b, packet: [ {{ ethernet: {{ type: 0x88f7 }} }}, {{ payload: {{ pattern: '00020000' }} }} ],
       size: 100B, rate: 400pps }}
run: {{ timestamps: hardware, {run} }}
",
        ports(Engine::Packet, "")
    )
}

fn stamps(report: &Report) -> [HardwareTimestamps; 2] {
    let of = |station: &wirebeat_report::model::Station| station.hardware_timestamps.clone();
    [of(&report.senders[0]).unwrap(), of(&report.receivers[0]).unwrap()]
}

/// The cards' clocks are 123 s apart, and one gains 80 millionths on the other.
#[test]
fn two_cards_with_clocks_of_their_own_measure_one_time() {
    require!(Capability::NetworkNamespaces, Capability::CardTimestamps);
    let bed = cable();
    let [(first, before), (second, _)] = [card(&bed.a), card(&bed.b)];
    let (Some(near), Some(far)) = (first.clock, second.clock) else { panic!("{first:?}") };
    assert_ne!(near, far, "each card has a clock of its own");
    // without it an emulated card stamps one received frame
    let _unlatched = Unlatched::card(far);
    disturb_card_clock(near, 0, -30).unwrap();
    disturb_card_clock(far, 123, 50).unwrap();
    let report = run(&sync("time: 5s"), Some(&bed));
    disturb_card_clock(near, 0, 0).unwrap();
    disturb_card_clock(far, -123, 0).unwrap();
    balanced(&report);
    assert_eq!(report.end, End::Completed);
    let [sent, received] = stamps(&report);
    let told = wirebeat_report::format::Presentable::text(&report, Default::default());
    assert_eq!((sent.clock, received.clock), (format!("/dev/ptp{near}"), format!("/dev/ptp{far}")));
    // a card that holds one stamp may miss some, and this is an emulated processor
    assert!(sent.sent > 100 && sent.sent <= sent.sent_asked, "{told}");
    let all = received.received + received.received_unstamped;
    assert!(received.received > 20 && all > 1_000, "{told}");
    let flow = report.flows[0].received.as_ref().unwrap();
    assert_eq!(flow.unstamped, received.received_unstamped);
    let delay = flow.one_way_delay_ns.as_ref().unwrap();
    assert_eq!(delay.count, received.received);
    // bounds of microseconds, where the clocks are 123 s apart
    let bound = (sent.conversion_bound_ns + received.conversion_bound_ns) as i64;
    assert!(bound < 1_000_000, "{told}");
    assert_eq!(report.delay_clock.unwrap().uncertainty_ns, Some(received.conversion_bound_ns));
    // no frame left before it was handed over, nor arrived before it was sent
    let (left, sent_late) = (&sent.hand_over_to_wire_ns, &sent.wire_send_lateness_ns);
    assert!(left.min.unwrap() >= -bound && sent_late.min.unwrap() >= -bound, "{told}");
    assert!(delay.min.unwrap() >= -bound, "{told}");
    // nor are there milliseconds between the two cards
    let [p50, late] = [delay.percentiles.p50.unwrap(), left.percentiles.p50.unwrap()];
    assert!((p50 - late).abs() < 5_000_000, "{p50} {late} {told}");
    // what was set is known to the bound: the rest is what the system's clock gains on that of the emulator
    let gained = (received.drift_low_ppm - sent.drift_high_ppm)
        ..=(received.drift_high_ppm - sent.drift_low_ppm);
    assert!(gained.contains(&80.0), "{gained:?} {told}");
    assert!(gained.end() - gained.start() < 60.0, "{gained:?} {told}");
    assert_eq!(card(&bed.a).1, before, "what the card is told is as it was");
}

/// Other frames than PTP's: the card that receives stamps none, and that is said before anything is sent.
#[test]
fn a_card_that_stamps_ptp_alone_is_refused_for_other_frames() {
    require!(Capability::NetworkNamespaces, Capability::CardTimestamps);
    let bed = cable();
    let [(_, before), (offered, received_before)] = [card(&bed.a), card(&bed.b)];
    if offered.receive == ReceiveStamps::All {
        let report = run(&plain(Engine::Packet), Some(&bed));
        assert_eq!(stamps(&report)[1].received, 10);
    } else {
        let error = tried(&plain(Engine::Packet), Some(&bed)).map(|_| ()).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        let told = error.to_string();
        assert!(told.contains("the card of wb1 stamps received PTP event messages only"), "{told}");
        assert!(told.contains("use '--timestamps software'"), "{told}");
    }
    assert_eq!((card(&bed.a).1, card(&bed.b).1), (before, received_before));
}

/// A sender by itself needs no stamps of what arrives, and its card stamps frames of any kind.
#[test]
fn departures_are_stamped_by_the_card_with_both_engines() {
    require!(Capability::NetworkNamespaces, Capability::CardTimestamps);
    let bed = cable();
    let before = card(&bed.a).1;
    for engine in [Engine::Packet, Engine::Socket] {
        let name = engine.name();
        let report = run(
            &format!(
                "ports: {{ a: {{ interface: wb0, namespace: a, engine: {name} }} }}
flows: {{ f: {{ from: a, packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{}} }} ], rate: 400pps, count: 800 }} }}
{HARDWARE}",
                bed.b.ipv4
            ),
            Some(&bed),
        );
        balanced(&report);
        let stamps = report.senders[0].hardware_timestamps.clone().unwrap();
        let told = format!("{name}: {stamps:#?}");
        assert!(stamps.sent > 50 && stamps.sent <= stamps.sent_asked, "{told}");
        assert!(stamps.sent_asked <= 800, "{told}");
        let bound = stamps.conversion_bound_ns as i64;
        let (left, late) = (&stamps.hand_over_to_wire_ns, &stamps.wire_send_lateness_ns);
        assert_eq!((left.count, late.count), (stamps.sent, stamps.sent));
        assert!(left.min.unwrap() >= -bound && late.min.unwrap() >= left.min.unwrap(), "{told}");
        // it is handed over late, and then leaves
        let handed = report.total.sent.as_ref().unwrap().send_lateness_ns.min.unwrap();
        assert!(late.min.unwrap() >= handed - bound, "{told}");
        assert!(!report.findings.iter().any(|found| found.kind == FindingKind::NotStamped));
        assert_eq!(card(&bed.a).1, before);
    }
}

const KILLED: &str = "WIREBEAT_TEST_KILLED";

/// The process that is killed by the test below: it sends for a minute from the namespace that it is started in.
#[test]
fn a_sender_to_be_killed() {
    let Ok(to) = env::var(KILLED) else { return };
    let text = format!(
        "ports: {{ a: {{ interface: wb0, engine: packet }} }}
flows: {{ f: {{ from: a, packet: [ {{ ipv4: {{ destination: {to} }} }}, {{ udp: {{}} }} ], rate: 100pps }} }}
run: {{ timestamps: hardware, time: 60s }}"
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap();
    prepare(&scenario, Options::default()).unwrap().start(&mut Silent, &Stop::new());
}

fn started(bed: &Testbed) -> Child {
    let start = || {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "timestamps::a_sender_to_be_killed"])
            .env(KILLED, bed.b.ipv4.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    bed.a.namespace.run(start).unwrap()
}

/// Waits until what the card is told fulfils `wanted`.
fn eventually(side: &Side, wanted: impl Fn(StampConfig) -> bool) {
    let begun = Instant::now();
    while !wanted(card(side).1) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", card(side));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_card_stamps_no_more_when_the_sender_was_killed() {
    require!(Capability::NetworkNamespaces, Capability::CardTimestamps);
    let bed = cable();
    let before = card(&bed.a).1;
    for _ in 0..10 {
        let mut child = started(&bed);
        eventually(&bed.a, |now| now != before);
        child.kill().unwrap();
        child.wait().unwrap();
        eventually(&bed.a, |now| now == before);
    }
}
