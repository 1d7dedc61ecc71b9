//! Where nobody answers for a destination: as pktgen is used, with the link-layer address written by hand.

use std::net::IpAddr;

use wirebeat_netlink::{MacAddr, Netlink, NewLink};
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Options as Cable, Testbed, require};

use crate::world::{Engine, Notices, balanced, ports, prepared, run, tried};

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

/// A cable with both its ends in namespace `a`: an interface with an address, and another one.
fn both_ends_here(bed: &Testbed) {
    let namespace = &bed.a.namespace;
    let link = |number: u8| NewLink {
        name: format!("eth{number}"),
        mac: Some(MacAddr([2, 0, 0, 0, 1, number])),
        mtu: 1500,
        queues: 1,
    };
    let mut netlink = Netlink::open_in(namespace).unwrap();
    netlink.add_veth(&link(1), &link(2), namespace).unwrap();
    for number in [1, 2] {
        let index = netlink.link_by_name(&format!("eth{number}")).unwrap().index;
        netlink.set_up(index).unwrap();
        netlink.add_address(index, IpAddr::from([10, 0, 1, number]), 24).unwrap();
    }
}

/// The sender asked for the receiver's address, and Linux does not answer requests from its own addresses.
fn a_port_of_the_same_host_needs_no_answer(engine: Engine) {
    let bed = Testbed::pair(&Cable::default()).unwrap();
    both_ends_here(&bed);
    let name = engine.name();
    for engine in [name, "auto"] {
        let report = run(
            &format!(
                "ports:\n  p: {{ interface: eth1, namespace: a, engine: {engine} }}\n  q: {{ interface: eth2, namespace: a, \
                 engine: {name} }}\nflows:\n  x: {{ from: p, to: q, rate: 20kpps, count: 1000 }}\n"
            ),
            Some(&bed),
        );
        balanced(&report);
        assert_ne!(report.senders[0].engine, "socket");
        let received = report.flows[0].received.as_ref().unwrap();
        assert_eq!((received.unique, received.duplicates), (1000, 0));
    }
}

#[test]
fn a_port_of_the_same_host_needs_no_answer_on_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    a_port_of_the_same_host_needs_no_answer(Engine::Kernel);
}

#[test]
fn a_port_of_the_same_host_needs_no_answer_on_the_packet_engine() {
    require!(Capability::NetworkNamespaces);
    a_port_of_the_same_host_needs_no_answer(Engine::Packet);
}

/// It was sent by the engine 'packet' without a word, though the kernel engine works here.
#[test]
fn why_the_engine_of_auto_is_not_the_kernels_is_told() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = Testbed::pair(&Cable::default()).unwrap();
    let text = "ports: { a: { interface: wb0, namespace: a } }\nflows: { x: { from: a, rate: 1kpps, count: 10, packet: [ { \
                ipv4: { destination: 10.77.0.2 } }, { udp: {} } ] } }\n";
    let mut notices = Notices::default();
    let report = prepared(text, Some(&bed)).start(&mut notices, &Stop::new());
    let [notice] = &notices.0[..] else { panic!("{:?}", notices.0) };
    assert_eq!(report.senders[0].engine, "packet");
    assert!(notice.starts_with("port 'a' uses the engine 'packet': "), "{notice}");
    assert!(notice.contains("the other end of a virtual cable"), "{notice}");
}
