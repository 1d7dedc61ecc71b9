//! Our own stack in a VLAN: every frame of its hosts has the tag (IEEE 802.1Q §9.6), sessions over TCP and UDP complete, and who is in
//! another VLAN is not there.
//!
//! No VLAN device takes part: the tags are of our own hosts, and a capture of a bridge between them says what was on the wire.

use std::process::Command;
use std::time::Duration;

use wirebeat_report::model::SessionEnd;
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Program, Testbed, require};

use crate::links::bridge;
use crate::own_sessions::free;
use crate::sessions::{balances, run, side};
use crate::world::{cable, scratch_folder};

const PATIENCE: Duration = Duration::from_secs(30);

/// Two ports of `engine`, whose hosts are in these VLANs.
fn ports(bed: &Testbed, engine: &str, [a, b]: [u16; 2]) -> String {
    let port = |name: &str, interface: &str, vlan: u16| {
        format!(
            "{name}: {{ namespace: {name}, interface: {interface}, engine: {engine}, hosts: {{ vlan: {vlan} }} }}"
        )
    };
    let (first, second) = (port("a", &bed.a.link.name, a), port("b", &bed.b.link.name, b));
    format!("ports: {{ {first}, {second} }}\n")
}

/// A group over TCP and one over UDP.
fn groups(bed: &Testbed, more: &str) -> String {
    format!(
        "sessions:\n  web: {{ from: a, to: b, stack: own, clients: {{ addresses: {} }}, servers: {{ addresses: {}, ports: 80 }}, \
         program: {{ http: {{ size: 20kB, requests: 2 }} }}, rate: 100/s, count: 50{more} }}\n  \
         asks: {{ from: a, to: b, stack: own, transport: udp, clients: {{ addresses: {} }}, servers: {{ addresses: {}, ports: 53 }}, \
         program: dns, rate: 100/s, count: 50{more} }}\n",
        free(bed, 100, 8),
        free(bed, 200, 1),
        free(bed, 110, 8),
        free(bed, 201, 1),
    )
}

/// Runs sessions in VLAN 7 over `engine` while tcpdump looks at the bridge: what the engine 'kernel' takes from an interface is seen there
/// by nobody else.
fn in_a_vlan(engine: &str) {
    let bed = &bridge();
    let file = scratch_folder().join(format!("own-vlan-{engine}.pcap"));
    let dump = Program::new(bed.device.as_ref().unwrap(), "tcpdump")
        .args(["--immediate-mode", "-B", "65536", "-i", "p1", "-U", "-Z", "root", "-w"])
        .args([&file])
        .spawn()
        .unwrap();
    dump.wait_for("listening on", PATIENCE).unwrap();
    let text = ports(bed, engine, [7, 7]) + &groups(bed, "");
    let report = run(bed, &text, &Stop::new());
    dump.interrupt();
    let output = dump.wait(PATIENCE).unwrap();
    assert!(output.stderr.contains("0 packets dropped by kernel"), "{}", output.stderr);

    balances(&report);
    for stack in &report.stacks {
        assert_eq!((stack.arrivals.bad_checksum, stack.link.unresolved), (0, 0), "{stack:#?}");
    }
    for name in ["web", "asks"] {
        let ends = [SessionEnd::Client, SessionEnd::Server].map(|end| side(&report, name, end));
        assert_eq!(ends.map(|of| of.ends.in_order), [50, 50], "{name}: {report:#?}");
        assert_eq!(ends[0].messages.damaged, 0);
    }
    assert_eq!(side(&report, "web", SessionEnd::Client).bytes.verified, 100 * 20_000);

    let count = |filter: &str| -> usize {
        let read = ["-n", "-T", "fields", "-e", "frame.number"];
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&file).args(read).args(["-Y", filter]);
        let output = tshark.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    // all of both ways, each with the tag and no other, ARP too
    let (segments, datagrams) = (count("tcp.port == 80"), count("udp.port == 53"));
    assert!(segments > 50 * 10 && datagrams == 100, "{segments} {datagrams}");
    assert_eq!(count("tcp.port == 80 && vlan.id == 7"), segments);
    assert_eq!(count("udp.port == 53 && vlan.id == 7"), datagrams);
    assert!(count("arp && vlan.id == 7") > 0);
    assert_eq!(count("vlan && vlan.id != 7"), 0);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn sessions_in_a_vlan_have_its_tag_on_the_wire() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("tcpdump"),
        Capability::Program("tshark")
    );
    in_a_vlan("packet");
}

#[test]
fn sessions_in_a_vlan_have_its_tag_on_the_wire_over_the_kernel_engine() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("tcpdump"),
        Capability::Program("tshark")
    );
    in_a_vlan("kernel");
}

#[test]
fn servers_in_another_vlan_are_not_there() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let text = ports(&bed, "packet", [7, 8]) + &groups(&bed, ", timeout: 3s");
    let report = run(&bed, &text, &Stop::new());
    balances(&report);
    for name in ["web", "asks"] {
        let client = side(&report, name, SessionEnd::Client);
        let ends = &client.ends;
        assert_eq!((client.starts.established, ends.in_order), (0, 0), "{name}: {ends:?}");
        assert_eq!(ends.unreachable + ends.timed_out, 50, "{name}: {ends:?}");
        assert_eq!(side(&report, name, SessionEnd::Server).starts.opened, 0, "{name}");
    }
}
