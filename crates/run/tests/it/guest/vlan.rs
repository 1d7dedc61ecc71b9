//! VLAN devices: traffic over them and beside them, by each engine. What an engine cannot do there is refused with the remedy.

use wirebeat_report::model::End;
use wirebeat_testbed::{Capability, Testbed, require};

use super::command;
use crate::world::{balanced, cable, prepared, tried};

/// The tag of the VLAN.
const TAG: u16 = 5;
const FRAMES: u64 = 300;

/// A cable with a VLAN device on each of its ends, `v5`, at 10.78.0.1 and 10.78.0.2.
fn tagged() -> Testbed {
    let bed = cable();
    for (end, other, host) in [(&bed.a, &bed.b, 1), (&bed.b, &bed.a, 2)] {
        let on = |line: &str| command(&end.namespace, line);
        on(&format!("ip link add link {} name v5 type vlan id {TAG}", end.interface()));
        on(&format!("ip address add 10.78.0.{host}/24 dev v5"));
        on("ip link set v5 up");
        // What a socket hands over together crosses a virtual cable as one, and a program that the stack runs on the VLAN device (generic
        // XDP) sees it so. QEMU's igb loses such datagrams when they have a tag.
        on("ethtool -K v5 tx-udp-segmentation off");
        // addresses of its own are not needed, and would be looked for on the link
        on(&format!("ip neighbour replace 10.78.0.{} lladdr {} dev v5", 3 - host, other.mac));
    }
    bed
}

/// A run of one flow from `from` to `to`, each an interface and its engine.
fn scenario(from: (&str, &str), to: (&str, &str), tag: &str) -> String {
    let port = |name, (interface, engine): (&str, &str)| {
        format!(
            "  {name}: {{ interface: {interface}, namespace: {name}, engine: {engine}, speed: 10Gbps }}\n"
        )
    };
    format!(
        "ports:\n{}{}flows:\n  f: {{ from: a, to: b, packet: [ {tag}{{ ipv4: {{ source: 10.78.0.1, destination: 10.78.0.2 }} }}, \
         {{ udp: {{ source: 4001, destination: 9001 }} }} ], size: 128B, rate: 1kpps, count: {FRAMES} }}\n",
        port("a", from),
        port("b", to)
    )
}

/// All frames arrive once and in order.
fn arrives(bed: &Testbed, from: (&str, &str), to: (&str, &str), tag: &str) {
    let text = scenario(from, to, tag);
    let report =
        prepared(&text, Some(bed)).start(&mut wirebeat_run::Silent, &wirebeat_run::Stop::new());
    balanced(&report);
    assert_eq!(report.end, End::Completed, "{from:?} {to:?}");
    let received = report.flows[0].received.as_ref().unwrap();
    let came = (received.unique, received.duplicates, received.reordered);
    assert_eq!(came, (FRAMES, 0, 0), "{from:?} {to:?}: {:#?}", report.findings);
}

#[test]
fn every_engine_receives_on_a_vlan_device() {
    require!(Capability::NetworkNamespaces, Capability::VlanDevices, Capability::XdpLiveFrames);
    let bed = tagged();
    for to in ["packet", "socket", "kernel"] {
        for from in ["packet", "socket"] {
            arrives(&bed, ("v5", from), ("v5", to), "");
        }
    }
}

#[test]
fn frames_of_a_vlan_device_are_metered_below_it_too() {
    require!(Capability::NetworkNamespaces, Capability::VlanDevices, Capability::XdpLiveFrames);
    let bed = tagged();
    for to in ["packet", "kernel"] {
        for from in ["packet", "socket"] {
            arrives(&bed, ("v5", from), ("wb1", to), "");
        }
    }
}

/// The kernel engine puts the tag there itself.
#[test]
fn tagged_frames_from_below_arrive_on_the_vlan_device() {
    require!(Capability::NetworkNamespaces, Capability::VlanDevices, Capability::XdpLiveFrames);
    let bed = tagged();
    // else a virtual cable takes no redirected frames without a program at its far end
    let mut far = bed.b.netlink().unwrap();
    far.set_features(bed.b.link.index, &[("rx-gro", true)]).unwrap();
    let ethernet = format!("{{ ethernet: {{ destination: '{}' }} }}, ", bed.b.mac);
    let tag = format!("{ethernet}{{ vlan: {{ id: {TAG} }} }}, ");
    for to in ["packet", "kernel"] {
        for from in ["packet", "kernel"] {
            arrives(&bed, ("wb0", from), ("v5", to), &tag);
        }
    }
}

#[test]
fn the_kernel_engine_does_not_send_on_a_vlan_device_and_says_what_does() {
    require!(Capability::NetworkNamespaces, Capability::VlanDevices, Capability::XdpLiveFrames);
    let bed = tagged();
    let text = scenario(("v5", "kernel"), ("v5", "packet"), "");
    let error = tried(&text, Some(&bed)).map(|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
    let why = error.to_string();
    assert!(why.contains("v5") && why.contains("'packet'"), "{why}");
    // and nothing is left on it
    let shown = command(&bed.a.namespace, "ip -d link show dev v5");
    assert!(!shown.contains("xdp"), "{shown}");
}
