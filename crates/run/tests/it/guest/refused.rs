//! A driver that takes nothing: the run ends soon and says so.

use std::thread;
use std::time::{Duration, Instant};

use wirebeat_netlink::LinkState;
use wirebeat_report::model::End;
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, require};

use super::{PATIENCE, command};
use crate::world::{Engine, balanced, cable, ports, prepared};

/// An MTU that is given back.
struct Mtu<'a>(&'a Testbed);

impl Mtu<'_> {
    /// Sets that of the sending card, and waits until it has a link again.
    fn set(&self, bytes: u32) {
        let end = &self.0.a;
        command(&end.namespace, &format!("ip link set wb0 mtu {bytes}"));
        let begun = Instant::now();
        let mut netlink = end.netlink().unwrap();
        thread::sleep(Duration::from_millis(500));
        while netlink.link_by_index(end.link.index).unwrap().state != LinkState::Up {
            assert!(begun.elapsed() < PATIENCE, "wb0 stays down");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Mtu<'_> {
    fn drop(&mut self) {
        let mut netlink = self.0.a.netlink().unwrap();
        let line = "link set wb0 mtu 1500";
        let ip = wirebeat_testbed::Program::new(&self.0.a.namespace, "ip").args(line.split(' '));
        let _ = ip.output(PATIENCE);
        // the next test finds a card that has settled
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE
            && netlink
                .link_by_index(self.0.a.link.index)
                .is_ok_and(|link| link.state != LinkState::Up)
        {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Frames longer than the MTU are refused on their way to the driver: here the MTU shrinks between the opening of the port and the
/// first frame.
#[test]
fn a_driver_that_takes_nothing_ends_the_run() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames, Capability::Cards);
    let bed = cable();
    let prepared = prepared(
        &format!(
            "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: 1200B, rate: 5kpps }} }}\n\
             run: {{ time: 60s }}\n",
            ports(Engine::Kernel, "")
        ),
        Some(&bed),
    );
    let mtu = Mtu(&bed);
    mtu.set(600);
    let report = prepared.start(&mut Silent, &Stop::new());
    balanced(&report);
    let End::Failed { message } = &report.end else {
        panic!("{:?} {:#?}", report.end, report.findings)
    };
    assert!(message.starts_with("the driver of wb0 took none of the first "), "{message}");
    assert!(message.contains("'packet'"), "{message}");
    assert_eq!(report.exit_code, 1);
    let sent = report.total.sent.as_ref().unwrap();
    assert_eq!((sent.sent.frames, sent.failed > 0), (0, true), "{sent:#?}");
    assert!(report.duration_ns < 5_000_000_000, "{} ns", report.duration_ns);
    drop(mtu);
}
