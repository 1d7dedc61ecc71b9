//! Sessions of our own TCP through netem, which loses, duplicates, delays and puts frames before others, both ways: a peer that is the
//! system's TCP, and every byte of it compared.
//!
//! netem stands at both ports of a bridge. What it counts itself says that it did what it was told.

use wirebeat_report::model::{Report, SessionEnd};
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Testbed, require};

use super::{command, note};
use crate::impaired_wire::{agree, sends_each_byte};
use crate::interop::number_after;
use crate::loss::bridged;
use crate::own_sessions::free;
use crate::sessions::{StopAfter, balances, run_observed, side};

/// What netem is told at either port. Some frames leave at once and the others 3 ms later, so that they overtake these.
const TOLD: &str = "limit 10000 delay 3ms reorder 5% loss 2% duplicate 1%";

/// What netem counted at a port: frames that left, that it lost, and that it sent before others.
fn counted(bed: &Testbed, port: &str) -> [u64; 3] {
    let shown = command(bed.device.as_ref().unwrap(), &format!("tc -s qdisc show dev {port}"));
    [" bytes ", "(dropped ", " requeues "]
        .map(|what| number_after(&shown, what).unwrap_or_else(|| panic!("{shown}")))
}

/// Segments that our TCP sent again, and bytes that it was sent twice and out of order.
fn troubles(report: &Report) -> [u64; 3] {
    let [stack] = &report.stacks[..] else { panic!("{:#?}", report.stacks) };
    let again = stack.segments.retransmitted().iter().map(|(_, count)| count).sum();
    [again, stack.bytes.duplicate, stack.bytes.out_of_order]
}

/// A bridge with netem at both of its ports.
fn disturbed() -> Testbed {
    let bed = bridged();
    for port in ["p0", "p1"] {
        let line = format!("tc qdisc add dev {port} root netem {TOLD}");
        command(bed.device.as_ref().unwrap(), &line);
    }
    bed
}

/// That netem did what it was told and our TCP had to repair it, in words.
fn was_disturbed(bed: &Testbed, report: &Report) -> String {
    let [again, twice, early] = troubles(report);
    assert!(again > 0 && twice > 0 && early > 0, "{:#?}", report.stacks);
    let [there, back] = ["p1", "p0"].map(|port| counted(bed, port));
    for of in [there, back] {
        assert!(of.iter().all(|&count| count > 0), "{of:?}");
    }
    let seconds = report.duration_ns as f64 / 1e9;
    format!(
        "{seconds:.0} s; netem lost {} and {} frames and put {} and {} before others, ours sent {again} segments again",
        there[1], back[1], there[2], back[2]
    )
}

/// Ours asks a server of the system's TCP, and serves clients of it: both ends count the same.
#[test]
fn sessions_of_our_tcp_with_the_systems_pass_netem() {
    require!(Capability::NetworkNamespaces, Capability::Netem);
    let bed = disturbed();
    let server = free(&bed, 77, 1);
    let server = server.split('-').next().unwrap();
    // an emulated machine has little time: a hundred sessions, and 2 MB of bulk each way
    let http = "program: { http: { size: 20kB, body: 5kB, method: POST, requests: 2 } }";
    let bulk = "program: { bulk: { bytes: 500kB, direction: both } }";
    let text = format!(
        "ports: {{ a: {{ namespace: a, interface: {}, engine: packet }}, b: {{ namespace: b, addresses: [\"{{B}}\"] }} }}\nsessions:\n  \
         web: {{ from: a, stack: own, clients: {{ addresses: {} }}, servers: {{ addresses: \"{{B}}\", ports: 80 }}, {http}, rate: 20/s, count: 100, timeout: 100s }}\n  \
         web-there: {{ to: b, servers: {{ ports: 80 }}, {http}, timeout: 100s }}\n  \
         bulk: {{ from: b, servers: {{ addresses: {server}, ports: 5001 }}, {bulk}, users: 2, count: 4, timeout: 100s }}\n  \
         bulk-there: {{ to: a, stack: own, servers: {{ addresses: {server}, ports: 5001 }}, {bulk}, timeout: 100s }}\n\
         run: {{ time: 200s }}\n",
        bed.a.link.name,
        free(&bed, 100, 8),
    );
    let stop = Stop::new();
    let mut observer = StopAfter::new(100 + 4, &stop);
    let report = run_observed(&bed, &text, &stop, &mut observer);
    balances(&report);
    for (client, server, sessions) in [("web", "web-there", 100), ("bulk", "bulk-there", 4)] {
        let ends = [(client, SessionEnd::Client), (server, SessionEnd::Server)];
        let [client, server] = ends.map(|(name, end)| side(&report, name, end));
        agree(client, server, sessions);
    }
    note(&format!(
        "netem, 104 sessions of our own TCP with the system's: {}",
        was_disturbed(&bed, &report)
    ));
}

/// The system compares each byte that comes from ours, and each that ours sends back.
#[test]
fn every_byte_of_our_tcp_to_the_systems_and_back_passes_netem() {
    require!(Capability::NetworkNamespaces, Capability::Netem);
    let bed = disturbed();
    let report = sends_each_byte(&bed, 400_000, 300_000);
    note(&format!(
        "netem, 2.8 MB of our own TCP compared by the system: {}",
        was_disturbed(&bed, &report)
    ));
}
