//! The kernel's pktgen as a peer: what it sends is received to the last packet, by its own headers; and how much CPU time it and
//! the kernel engine take for the same.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_netlink::{LinkState, Namespace};
use wirebeat_report::model::Report;
use wirebeat_run::{Codec, ReceiveRequest, Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, has_cards, require};
use wirebeat_traffic::scenario::EngineChoice;

use super::{PATIENCE, command, note};
use crate::interop::{cable_to_a_program, number_after, receiver, timely, while_receiving, whole};
use crate::world::{balanced, prepared};

/// pktgen of a namespace, with a device on its first thread.
pub struct Pktgen {
    namespace: Namespace,
    device: &'static str,
}

impl Pktgen {
    /// Adds the device `wb0` of end `a`, which sends to end `b`.
    pub fn new(bed: &Testbed) -> Pktgen {
        let pktgen = Pktgen { namespace: bed.a.namespace.clone(), device: "wb0" };
        pktgen.write("pgctrl", "reset");
        pktgen.write("kpktgend_0", "add_device wb0");
        let to = format!("dst {}", bed.b.ipv4);
        let station = format!("dst_mac {}", bed.b.mac);
        pktgen.set(&["pkt_size 60", &to, &station]);
        pktgen
    }

    /// pktgen's files are those of the namespace of the thread that reads them.
    fn file(name: &str) -> String {
        format!("/proc/thread-self/net/pktgen/{name}")
    }

    fn write(&self, file: &str, text: &str) {
        // it takes off the last byte of what it reads
        let write = || fs::write(Pktgen::file(file), format!("{text}\n"));
        self.namespace
            .run(write)
            .unwrap()
            .unwrap_or_else(|error| panic!("{file}: {text}: {error}"));
    }

    pub fn set(&self, commands: &[&str]) {
        commands.iter().for_each(|command| self.write(self.device, command));
    }

    /// Sends until the count is reached, and returns how many packets it says it sent. What the driver refuses it sends again, and
    /// counts as errors.
    pub fn start(&self) -> u64 {
        self.write("pgctrl", "start");
        let read = || fs::read_to_string(Pktgen::file(self.device));
        let text = self.namespace.run(read).unwrap().unwrap();
        assert!(text.contains("Result: OK: "), "{text}");
        number_after(&text, "pkts-sofar:").unwrap()
    }
}

impl Drop for Pktgen {
    /// A card on a thread of pktgen would not be given back with its namespace.
    fn drop(&mut self) {
        let reset = || fs::write(Pktgen::file("pgctrl"), "reset\n");
        let _ = self.namespace.run(reset);
    }
}

fn request(bed: &Testbed, engine: EngineChoice) -> ReceiveRequest {
    let request = receiver(bed, Codec::Pktgen, Some(9));
    let interface = request.interface.filter(|_| engine != EngineChoice::Socket);
    ReceiveRequest { engine, interface, ..request }
}

/// The only flow of a report.
fn only(report: &Report) -> &wirebeat_report::model::Received {
    assert_eq!(report.flows.len(), 1, "{report:#?}");
    report.flows[0].received.as_ref().unwrap()
}

fn packets_are_received_to_the_last(engine: EngineChoice) {
    let bed = cable_to_a_program();
    let pktgen = Pktgen::new(&bed);
    pktgen.set(&["count 2000", "delay 500000"]);
    let (sent, report) = while_receiving(&request(&bed, engine), || {
        let sent = pktgen.start();
        (sent, sent)
    });
    balanced(&report);
    assert_eq!(sent, 2000);
    let received = only(&report);
    // its numbers, and its times, which are of the clock of the day in microseconds
    whole(received, sent);
    timely(received, sent);
    assert_eq!(received.received.frame_bytes, sent * 64);
    assert_eq!(report.flows[0].loss.unwrap().frames, 0);
    let others = report.others.as_ref().unwrap();
    assert_eq!((others.unprobed, others.malformed), (0, 0), "{others:?}");
}

#[test]
fn packets_are_received_to_the_last_by_the_packet_engine() {
    require!(Capability::NetworkNamespaces, Capability::Pktgen);
    packets_are_received_to_the_last(EngineChoice::Packet);
}

#[test]
fn packets_are_received_to_the_last_by_the_socket_engine() {
    require!(Capability::NetworkNamespaces, Capability::Pktgen);
    packets_are_received_to_the_last(EngineChoice::Socket);
}

/// A card sends one packet of pktgen so many times, with one number.
#[test]
fn copies_are_duplicates() {
    require!(Capability::NetworkNamespaces, Capability::Pktgen, Capability::Cards);
    let bed = cable_to_a_program();
    let pktgen = Pktgen::new(&bed);
    pktgen.set(&["count 1000", "delay 1000000", "clone_skb 2"]);
    let (sent, report) = while_receiving(&request(&bed, EngineChoice::Packet), || {
        let sent = pktgen.start();
        (sent, sent)
    });
    let received = only(&report);
    assert_eq!((sent, received.received.frames), (1000, 1000), "{received:#?}");
    assert_eq!((received.unique, received.duplicates, received.reordered), (500, 500, 0));
}

/// What a queueing discipline takes out of pktgen's packets, and what it puts before others, is counted to the packet.
#[test]
fn loss_and_order_are_counted_to_the_packet() {
    require!(Capability::NetworkNamespaces, Capability::Pktgen, Capability::Netem);
    let bed = cable_to_a_program();
    // the far stack says that nobody listens there: it is not to ask for an address first, as the answer could be lost as well
    let neighbour =
        format!("ip neigh replace {} lladdr {} dev wb1 nud permanent", bed.a.ipv4, bed.a.mac);
    command(&bed.b.namespace, &neighbour);
    let pktgen = Pktgen::new(&bed);
    // with a queue before the driver, which others pass by
    pktgen.set(&["count 2000", "delay 500000", "xmit_mode queue_xmit"]);
    command(&bed.a.namespace, "tc qdisc add dev wb0 root netem limit 10000 loss 10%");
    let dropped = || {
        number_after(&command(&bed.a.namespace, "tc -s qdisc show dev wb0"), "dropped ").unwrap()
    };
    let ((sent, lost), report) = while_receiving(&request(&bed, EngineChoice::Packet), || {
        let sent = pktgen.start();
        let lost = dropped();
        ((sent, lost), sent - lost)
    });
    balanced(&report);
    let received = only(&report);
    whole(received, sent - lost);
    // packets that are lost before the first or after the last that came are not known without the sender's count
    let known = report.flows[0].loss.unwrap().frames;
    assert!(lost > 100 && known <= lost && known + 20 > lost, "{known} of {lost}");

    // Each fifth packet leaves at once, the others 300 ms later: all of them come behind the last. Not all at once: where
    // a card has no buffers, QEMU lets what comes later overtake what waits.
    command(
        &bed.a.namespace,
        "tc qdisc change dev wb0 root netem limit 10000 delay 300ms reorder 100% gap 5 loss 0%",
    );
    pktgen.set(&["count 200"]);
    let (sent, report) = while_receiving(&request(&bed, EngineChoice::Packet), || {
        let sent = pktgen.start();
        (sent, sent)
    });
    let received = only(&report);
    assert_eq!((sent, received.received.frames, received.unique), (200, 200, 200), "{received:#?}");
    assert_eq!((received.reordered, received.duplicates), (160, 0), "{received:#?}");
    assert_eq!(report.flows[0].loss.unwrap().frames, 0);
}

/// Seconds that all CPUs of this machine have worked so far (`/proc/stat`, in ticks of 10 ms).
fn worked() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let fields = stat.lines().next().unwrap().split_ascii_whitespace().skip(1);
    let ticks: Vec<f64> = fields.map(|field| field.parse().unwrap()).collect();
    // user, nice, system, then idle and iowait, then irq and softirq
    (ticks[..3].iter().sum::<f64>() + ticks[5] + ticks[6]) / 100.0
}

/// What this does, in frames per second of CPU time.
fn frames_per_cpu_second(work: impl FnOnce() -> u64) -> f64 {
    let before = worked();
    let frames = work();
    frames as f64 / (worked() - before)
}

/// Both send the shortest frames as fast as they can, to a host that does not listen. No figure is asserted: a processor that is
/// emulated says nothing about speed.
#[test]
fn the_kernel_engine_beside_pktgen() {
    require!(Capability::NetworkNamespaces, Capability::Pktgen, Capability::XdpLiveFrames);
    const FRAMES: u64 = 30_000;
    let bed = cable_to_a_program();
    let pktgen = {
        let pktgen = Pktgen::new(&bed);
        pktgen.set(&[&format!("count {FRAMES}"), "delay 0"]);
        frames_per_cpu_second(|| pktgen.start())
    };
    let scenario = format!(
        "ports: {{ a: {{ interface: wb0, namespace: a, engine: kernel }} }}\nflows:\n  \
         f: {{ from: a, packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{ source: 9, destination: 9 }} }} ], \
         size: 64B, count: {FRAMES} }}\n",
        bed.b.ipv4
    );
    // what takes time once is not counted with either
    let prepared = prepared(&scenario, Some(&bed));
    let ours = frames_per_cpu_second(|| {
        let report = prepared.start(&mut Silent, &Stop::new());
        balanced(&report);
        report.total.sent.unwrap().sent.frames
    });
    settled(&bed);
    let on = if has_cards() { "the cards" } else { "a virtual cable" };
    note(&format!(
        "over {on}, frames of 64 bytes for each second of emulated CPU time, receiver included: pktgen {pktgen:.0}, kernel \
         engine {ours:.0}"
    ));
    assert!(pktgen > 0.0 && ours > 0.0);
}

/// Waits until both links are up: the kernel engine's program has just been detached.
fn settled(bed: &Testbed) {
    let begun = Instant::now();
    for end in [&bed.a, &bed.b] {
        let mut netlink = end.netlink().unwrap();
        while netlink.link_by_index(end.link.index).unwrap().state != LinkState::Up {
            assert!(begun.elapsed() < PATIENCE, "{} stays down", end.interface());
            thread::sleep(Duration::from_millis(20));
        }
    }
}
