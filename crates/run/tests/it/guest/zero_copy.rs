//! Frames that the driver sends from the memory they are built in, and receives into that which they are read from.

use wirebeat_netlink::XdpFeatures;
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{Capability, require};

use crate::world::{Engine, balanced, cable, ports, run, tried};

/// Both ways at once by one queue each; a driver without is refused before any traffic.
#[test]
fn frames_go_both_ways_without_a_copy_or_that_is_refused() {
    require!(Capability::NetworkNamespaces, Capability::Cards);
    let bed = cable();
    let offered = [&bed.a, &bed.b].map(|end| {
        let mut netlink = end.netlink().unwrap();
        let offer = netlink.xdp_offer(end.link.index).unwrap_or_default();
        offer.features.contains(XdpFeatures::XSK_ZEROCOPY)
    });
    let text = format!(
        "{}flows:\n  there: {{ from: a, to: b, size: 64B, rate: 500pps, count: 300 }}\n  \
         back: {{ from: b, to: a, size: 1518B, rate: 500pps, count: 300, \
         packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 9001 }} }} ] }}\n",
        ports(Engine::Xdp, "").replace("engine: xdp", "engine: xdp, xdp-mode: zero-copy"),
    );
    if offered != [true, true] {
        let why = match tried(&text, Some(&bed)) {
            Err(error) => error.to_string(),
            Ok(prepared) => format!("{:?}", prepared.start(&mut Silent, &Stop::new()).end),
        };
        assert!(why.contains("zero copy"), "{why}");
        println!("no zero copy: {why}");
        return;
    }
    let report = run(&text, Some(&bed));
    balanced(&report);
    for station in report.senders.iter().chain(&report.receivers) {
        assert!(station.mode.contains("zero copy"), "{}", station.mode);
    }
    for flow in &report.flows {
        let received = flow.received.as_ref().unwrap();
        assert_eq!((received.unique, received.duplicates), (300, 0), "{}", flow.name);
    }
}
