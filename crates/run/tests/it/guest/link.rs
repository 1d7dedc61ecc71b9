//! The link of a real card that goes down in the middle of a run: its cable is pulled by the monitor of the emulated machine, or
//! the card is reset by a change of its rings.

use std::fs;
use std::thread;
use std::time::Duration;

use wirebeat_report::model::{End, FindingKind, Report};
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, monitor, require};

use super::{command, note};
use crate::world::{Engine, balanced, cable, ports, prepared};

/// How long the cable is pulled. Cards look at their links every two seconds.
const PULLED: Duration = Duration::from_secs(4);

/// Pulls the cable of a card, or puts it back.
fn plug(card: u8, connected: bool) {
    let state = if connected { "on" } else { "off" };
    // whatever stands before it on the line is ended: the first command was lost behind it
    fs::write(monitor().unwrap(), format!("\nset_link card{card} {state}\n")).unwrap();
}

/// Puts the cable back, however the test ends.
struct Pulled(u8);

impl Drop for Pulled {
    fn drop(&mut self) {
        plug(self.0, true);
    }
}

/// Runs a flow for 15 s; after two of them something happens.
fn disturbed(bed: &Testbed, engine: Engine, policy: &str, happens: impl FnOnce() + Send) -> Report {
    let text = format!(
        "{}flows:\n  f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 200pps, size: 100B }}\n\
         run: {{ time: 15s, on-link-down: {policy} }}\n",
        ports(engine, "")
    );
    let prepared = prepared(&text, Some(bed));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(2));
            happens();
        });
        prepared.start(&mut Silent, &Stop::new())
    })
}

/// The run went on, its outage is told with its time and length, and every frame is somewhere.
fn went_on(report: &Report, interface: &str) {
    balanced(report);
    assert_eq!(report.end, End::Completed, "{:#?}", report.findings);
    let [outage] = &report.outages[..] else { panic!("{:?}", report.outages) };
    assert_eq!(outage.interface, interface);
    assert!((1_500_000_000..8_000_000_000).contains(&outage.at_ns), "{outage:?}");
    assert!((50_000_000..10_000_000_000).contains(&outage.lasted_ns), "{outage:?}");
    assert!(report.findings.iter().any(|one| one.kind == FindingKind::LinkDown));
    let (sent, received) =
        (report.total.sent.as_ref().unwrap(), report.total.received.as_ref().unwrap());
    let lost = report.total.loss.as_ref().unwrap().frames;
    assert_eq!(sent.sent.frames, received.unique + lost, "every frame is somewhere");
    // some seconds of 15
    assert!(received.unique > 1000, "{} of {}", received.unique, sent.requested.frames);
    // QEMU's e1000e keeps what comes while the cable is pulled, and takes it afterwards
    let longest = received.one_way_delay_ns.as_ref().and_then(|delay| delay.max).unwrap_or(0);
    let kept = longest >= outage.lasted_ns as i64 / 2;
    assert!(lost + sent.failed + sent.expired > 0 || kept, "none was lost in {outage:?}");
}

fn a_cable_that_is_pulled(engine: Engine, card: u8, interface: &str) {
    let bed = cable();
    let report = disturbed(&bed, engine, "wait 15s", || {
        let pulled = Pulled(card);
        plug(card, false);
        thread::sleep(PULLED);
        drop(pulled);
    });
    went_on(&report, interface);
}

#[test]
fn a_cable_that_is_pulled_from_the_receiver_is_an_event_of_the_run() {
    require!(Capability::NetworkNamespaces, Capability::Cards, Capability::Monitor);
    a_cable_that_is_pulled(Engine::Packet, 1, "wb1");
}

#[test]
fn a_cable_that_is_pulled_from_the_kernel_engine_is_an_event_of_the_run() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Cards,
        Capability::Monitor,
        Capability::XdpLiveFrames
    );
    a_cable_that_is_pulled(Engine::Kernel, 0, "wb0");
}

#[test]
fn a_cable_that_is_pulled_may_end_the_run() {
    require!(Capability::NetworkNamespaces, Capability::Cards, Capability::Monitor);
    let bed = cable();
    let report = disturbed(&bed, Engine::Packet, "end", || {
        let _pulled = Pulled(1);
        plug(1, false);
        thread::sleep(PULLED);
    });
    balanced(&report);
    assert_eq!(report.end, End::InterfaceGone { interface: "wb1".to_owned() });
    assert_eq!(report.exit_code, 1);
    assert!(report.duration_ns < 12_000_000_000, "{}", report.duration_ns);
}

/// `ethtool -G` resets many cards. Where it does not (virtio_net), nothing has to be told.
#[test]
fn rings_that_change_in_the_middle_of_a_run_are_lived_through() {
    require!(Capability::NetworkNamespaces, Capability::Cards, Capability::Program("ethtool"));
    let bed = cable();
    let rings = bed.b.netlink().unwrap().rings(bed.b.link.index).unwrap_or_default();
    let before = rings.rx.unwrap_or(0);
    if before == 0 || rings.rx_max.unwrap_or(0) < 2 * before {
        return note("the rings of this card do not grow: their change was not tried");
    }
    let resize = |rx: u32| command(&bed.b.namespace, &format!("ethtool -G wb1 rx {rx}"));
    let report = disturbed(&bed, Engine::Packet, "wait 15s", || {
        resize(before * 2);
    });
    resize(before);
    balanced(&report);
    assert_eq!(report.end, End::Completed);
    if !report.outages.is_empty() {
        went_on(&report, "wb1");
    }
}
