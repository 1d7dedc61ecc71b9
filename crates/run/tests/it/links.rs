//! Links that go down: before a run, and in the middle of it.

use std::thread;
use std::time::{Duration, Instant};

use wirebeat_netlink::Netlink;
use wirebeat_report::model::{End, FindingKind, Report};
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{Addressing, Capability, Neighbours, Options, Testbed, require};

use crate::world::{Engine, balanced, ports, prepared, tried};

/// Two ends on a bridge whose ports take redirected frames: both ways are seen there, whichever engine sends and receives.
pub(super) fn bridge() -> Testbed {
    let options =
        Options { neighbours: Neighbours::Fixed, addressing: Addressing::V4, ..Options::default() };
    let bed = Testbed::bridge(2, &options).unwrap();
    let mut netlink = Netlink::open_in(bed.device.as_ref().unwrap()).unwrap();
    for port in ["p0", "p1"] {
        let port = netlink.link_by_name(port).unwrap().index;
        netlink.set_features(port, &[("rx-gro", true)]).unwrap();
    }
    bed
}

/// Takes the carrier from end `a`, or gives it back: its cable's other end is a port of the bridge.
fn connect(bed: &Testbed, connected: bool) {
    let mut netlink = Netlink::open_in(bed.device.as_ref().unwrap()).unwrap();
    let port = netlink.link_by_name("p0").unwrap().index;
    match connected {
        true => netlink.set_up(port).unwrap(),
        false => netlink.set_down(port).unwrap(),
    }
}

fn scenario(engine: Engine, run: &str) -> String {
    format!(
        "{}flows:
  f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 1kpps, size: 100B }}
run: {{ time: 1500ms, {run} }}
",
        ports(engine, "")
    )
}

/// Runs it while the link is down from 0.4 s to 0.8 s after it begins.
fn with_outage(engine: Engine, run: &str) -> Report {
    let bed = bridge();
    let prepared = prepared(&scenario(engine, run), Some(&bed));
    let stop = Stop::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(400));
            connect(&bed, false);
            thread::sleep(Duration::from_millis(400));
            connect(&bed, true);
        });
        prepared.start(&mut Silent, &stop)
    })
}

fn a_link_that_comes_back_is_an_event_of_the_run(engine: Engine) {
    let report = with_outage(engine, "on-link-down: wait 5s");
    balanced(&report);
    assert_eq!(report.end, End::Completed);
    let [outage] = &report.outages[..] else { panic!("{:?}", report.outages) };
    assert_eq!(outage.interface, "wb0");
    assert!((300_000_000..900_000_000).contains(&outage.lasted_ns), "{outage:?}");
    assert!((250_000_000..900_000_000).contains(&outage.at_ns), "{outage:?}");
    let finding = report.findings.iter().find(|finding| finding.kind == FindingKind::LinkDown);
    let message = &finding.unwrap().message;
    assert!(message.starts_with("the link of wb0 was down for "), "{message}");
    // what was sent before and after it arrived
    let sent = report.total.sent.as_ref().unwrap();
    let received = report.total.received.as_ref().unwrap();
    assert!(received.unique > 700, "{}", received.unique);
    let lost = report.total.loss.as_ref().unwrap().frames;
    assert_eq!(sent.sent.frames, received.unique + lost, "every frame is somewhere");
}

fn a_link_that_goes_down_may_end_the_run(engine: Engine) {
    let report = with_outage(engine, "on-link-down: end");
    balanced(&report);
    assert_eq!(report.end, End::InterfaceGone { interface: "wb0".to_owned() });
    assert_eq!(report.exit_code, 1);
    assert!(report.duration_ns < 1_400_000_000, "{}", report.duration_ns);
}

mod kernel {
    use super::*;

    #[test]
    fn a_link_that_comes_back_is_an_event_of_the_run() {
        require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
        super::a_link_that_comes_back_is_an_event_of_the_run(Engine::Kernel);
    }

    #[test]
    fn a_link_that_goes_down_may_end_the_run() {
        require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
        super::a_link_that_goes_down_may_end_the_run(Engine::Kernel);
    }
}

mod packet {
    use super::*;

    #[test]
    fn a_link_that_comes_back_is_an_event_of_the_run() {
        require!(Capability::NetworkNamespaces);
        super::a_link_that_comes_back_is_an_event_of_the_run(Engine::Packet);
    }

    #[test]
    fn a_link_that_goes_down_may_end_the_run() {
        require!(Capability::NetworkNamespaces);
        super::a_link_that_goes_down_may_end_the_run(Engine::Packet);
    }
}

#[test]
fn a_link_that_stays_down_longer_ends_the_run() {
    require!(Capability::NetworkNamespaces);
    let report = with_outage(Engine::Packet, "on-link-down: wait 100ms");
    assert_eq!(report.end, End::InterfaceGone { interface: "wb0".to_owned() });
}

#[test]
fn a_link_is_waited_for_before_anything_is_sent() {
    require!(Capability::NetworkNamespaces);
    let bed = bridge();
    connect(&bed, false);
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(500));
            connect(&bed, true);
        });
        let begun = Instant::now();
        let prepared = prepared(&scenario(Engine::Packet, ""), Some(&bed));
        assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
        prepared.start(&mut Silent, &Stop::new())
    });
    balanced(&report);
    assert_eq!(report.total.loss.as_ref().unwrap().frames, 0);
    assert!(report.outages.is_empty(), "{:?}", report.outages);
}

#[test]
fn a_link_that_does_not_come_up_in_time_is_refused_before_any_traffic() {
    require!(Capability::NetworkNamespaces);
    let bed = bridge();
    connect(&bed, false);
    let error = tried(&scenario(Engine::Packet, "link-timeout: 300ms"), Some(&bed));
    let error = error.map(|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let why = error.to_string();
    assert!(why.contains("the link of wb0 is down (no carrier)"), "{why}");
    assert!(why.contains("within 300ms") && why.contains("--link-timeout"), "{why}");
}
