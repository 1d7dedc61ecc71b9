//! Where nobody answers for a destination: as pktgen is used, with the link-layer address written by hand.

use wirebeat_testbed::{Capability, Options as Cable, Testbed, require};

use crate::world::{Engine, balanced, ports, run, tried};

/// In the network of the cable, and nobody's.
const NOBODY: [&str; 2] = ["10.77.0.99", "fd77:6200::99"];

fn scenario(engine: Engine, ethernet: &str, to: &str) -> String {
    let ip = if to.contains(':') { "ipv6" } else { "ipv4" };
    format!(
        "{}flows:\n  x: {{ from: a, to: b, rate: 20kpps, count: 1000, packet: [ {ethernet}{{ {ip}: {{ destination: \
         '{to}' }} }}, {{ udp: {{}} }} ] }}\n",
        ports(engine, "")
    )
}

/// The sender asked for the address though it was written, and ended when nobody answered.
fn a_destination_mac_by_hand_needs_no_neighbour(engine: Engine) {
    let bed = Testbed::pair(&Cable::default()).unwrap();
    let ethernet = format!("{{ ethernet: {{ destination: '{}' }} }}, ", bed.b.mac);
    for to in NOBODY {
        let report = run(&scenario(engine, &ethernet, to), Some(&bed));
        balanced(&report);
        let received = report.flows[0].received.as_ref().unwrap();
        assert_eq!((received.unique, received.duplicates), (1000, 0), "{to}");
    }
    // it does have to be asked for where it is not written
    let error = tried(&scenario(engine, "", NOBODY[0]), Some(&bed)).err();
    let error = error.unwrap();
    assert_eq!(error.exit_code(), 3, "{error}");
    assert!(error.to_string().contains(NOBODY[0]), "{error}");
}

#[test]
fn a_destination_mac_by_hand_needs_no_neighbour_on_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    a_destination_mac_by_hand_needs_no_neighbour(Engine::Kernel);
}

#[test]
fn a_destination_mac_by_hand_needs_no_neighbour_on_the_packet_engine() {
    require!(Capability::NetworkNamespaces);
    a_destination_mac_by_hand_needs_no_neighbour(Engine::Packet);
}
