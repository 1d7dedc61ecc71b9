//! The same scenario gives the same frames at the same deadlines on every engine.
//!
//! The capture file of the engine `pcap` is what the others are held against, and it is held against
//! the scenario. Frames are compared byte by byte; but for the transmit time in the probe, which differs
//! from run to run, and the UDP checksum over it, which is computed anew instead. Of what sockets send,
//! the kernel makes the headers: there the fields that the scenario sets are compared, and the payload.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pcap_file::pcapng::{Block, PcapNgReader};
use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::drive::{Job, LiveTx, Plan, RunTimes, Sequences, drive};
use wirebeat_engine::loopback::{Link, VirtualClock, pair};
use wirebeat_engine::port::{Arrival, RxPort};
use wirebeat_engine_linux::packet::{Accept, PacketReceive, PacketRx};
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_report::model::Report;
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::compile::{Links, compile};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;
use wirebeat_wire::checksum::{Sum, checksum};
use wirebeat_wire::datagram::Datagram;
use wirebeat_wire::ip::Protocol;
use wirebeat_wire::probe::Probe;

use crate::world::{Engine, balanced, cable, run};

/// When runs on a virtual clock start.
const VIRTUAL_START: u64 = 1_000_000_000;
/// Bytes of the UDP header, and where its checksum lies.
const UDP_LEN: usize = 8;
const UDP_CHECKSUM: usize = 6;

/// How much the three flows send.
#[derive(Clone, Copy)]
struct Load {
    /// Frames per second.
    rates: [u64; 3],
    /// Frames in all.
    counts: [usize; 3],
}

/// Thirty times a period of a millisecond, which the kernel engine repeats.
const IN_STEP: Load = Load { rates: [10_000, 5_000, 4_000], counts: [300, 150, 120] };
/// Without a common period that is short enough to be repeated, and with gaps that are no whole
/// nanoseconds.
const OUT_OF_STEP: Load = Load { rates: [12_347, 9_973, 1_009], counts: [300, 200, 100] };

/// Three flows between the ends of `bed`, from the port that `port` describes. Everything that a machine
/// could fill in is written out.
fn scenario(bed: &Testbed, port: &str, load: Load) -> String {
    let ethernet = "ethernet: { source: '02:00:00:00:00:0a', destination: '02:00:00:00:00:0b' }";
    let v4 = format!("source: {}, destination: {}", bed.a.ipv4, bed.b.ipv4);
    let v6 = format!("source: '{}', destination: '{}'", bed.a.ipv6.unwrap(), bed.b.ipv6.unwrap());
    let ips = [
        format!("ipv4: {{ {v4}, ttl: 7, dscp: ef, identification: count }}"),
        format!("ipv4: {{ {v4}, identification: 4711 }}"),
        format!("ipv6: {{ {v6}, hop-limit: 9, dscp: af41, flow-label: 74565 }}"),
    ];
    let udps = [
        "udp: { source: 4001, destination: 9001, checksum: false }",
        "udp: { source: 4002, destination: 9002, checksum: true }",
        "udp: { source: 4003, destination: 9003 }",
    ];
    // the probe of the second begins at an odd offset
    let sizes = ["64B", "301B", "700B"];
    let mut text = format!("ports: {{ a: {{ {port} }} }}\nflows:\n");
    for flow in 0..3 {
        let (ip, udp, size) = (&ips[flow], udps[flow], sizes[flow]);
        let (rate, count) = (load.rates[flow], load.counts[flow]);
        text += &format!(
            "  flow{flow}: {{ from: a, packet: [ {{ {ethernet} }}, {{ {ip} }}, {{ {udp} }}, \
             {{ payload: {{ pattern: '0123456789ab' }} }} ], size: {size}, rate: {rate}pps, \
             count: {count} }}\n"
        );
    }
    text
}

/// When frame `number` of flow `flow` is due, from the start of the run: the flows of a port are
/// staggered by thirds of their gaps.
fn due(flow: usize, number: usize, load: Load) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let rate = load.rates[flow];
    SECOND * flow as u64 / (3 * rate) + SECOND * number as u64 / rate
}

/// A frame, when it was seen, and its probe.
#[derive(Debug)]
struct Seen {
    at: u64,
    bytes: Vec<u8>,
    probe: Probe,
}

/// Frames of each flow in the order of their numbers.
type Flows = [Vec<Seen>; 3];

fn by_flow(frames: Vec<(u64, Vec<u8>)>, load: Load) -> Flows {
    let mut flows = Flows::default();
    for (at, bytes) in frames {
        let probe = Probe::from_tail(Datagram::parse(&bytes).unwrap().payload).unwrap();
        flows[usize::from(probe.flow)].push(Seen { at, bytes, probe });
    }
    for (flow, count) in flows.iter_mut().zip(load.counts) {
        flow.sort_by_key(|seen| seen.probe.sequence);
        assert!(flow.iter().map(|seen| seen.probe.sequence).eq(0..count as u32));
    }
    flows
}

/// The frames that the engine `pcap` writes, held against the schedule that the scenario asks for.
fn golden(bed: &Testbed, name: &str, load: Load) -> Flows {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcapng"));
    let port = format!("engine: pcap, file: '{}'", path.display());
    balanced(&run(&scenario(bed, &port, load), None));
    let file = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let mut reader = PcapNgReader::new(&file[..]).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            frames.push((packet.timestamp.as_nanos() as u64, packet.data.to_vec()));
        }
    }
    assert!(frames.is_sorted_by_key(|(at, _)| *at));
    let flows = by_flow(frames, load);
    for (flow, frames) in flows.iter().enumerate() {
        for (number, seen) in frames.iter().enumerate() {
            let deadline = VIRTUAL_START + due(flow, number, load);
            assert_eq!((seen.at, seen.probe.transmit_ns), (deadline, deadline));
        }
    }
    flows
}

/// Sends by `engine` and takes what arrives at the far end.
fn captured(bed: &Testbed, engine: Engine, load: Load) -> (Report, Flows) {
    // With GRO on, a virtual cable takes redirected frames without a program at its far end. What a
    // socket sends is to be on the link as it would be on a wire: not joined, with its checksum.
    let mut far = bed.b.netlink().unwrap();
    far.set_features(bed.b.link.index, &[("rx-gro", true)]).unwrap();
    let mut near = bed.a.netlink().unwrap();
    near.set_features(bed.a.link.index, &[("tx-udp-segmentation", false)]).unwrap();
    near.set_features(bed.a.link.index, &[("tx-checksum-ip-generic", false)]).unwrap();
    let receive = PacketReceive { accept: Accept::All, ..PacketReceive::default() };
    let open = || PacketRx::open(bed.b.interface(), &receive, None);
    let mut capture = bed.b.namespace.run(open).unwrap().unwrap();
    let port = format!("interface: wb0, namespace: a, engine: {}", engine.name());
    let report = run(&scenario(bed, &port, load), Some(bed));
    balanced(&report);
    // everything is on its way or there; what is there comes at once
    let mut frames = Vec::new();
    loop {
        let until = MonotonicClock.now().saturating_add(Nanos::from_millis(100));
        let take = |arrival: &Arrival<'_>| {
            frames.push((arrival.at.get(), arrival.bytes.to_vec()));
        };
        if capture.receive(until, take).unwrap() == 0 && MonotonicClock.now() >= until {
            return (report, by_flow(frames, load));
        }
    }
}

/// When the frames of a flow left, as the engine says.
#[derive(Debug, PartialEq)]
struct Departures {
    first: u64,
    count: u64,
    min_error: i64,
    max_error: i64,
}

fn reported(report: &Report) -> [Departures; 3] {
    [0, 1, 2].map(|flow| {
        let sent = report.flows[flow].sent.as_ref().unwrap();
        let errors = &sent.send_lateness_ns;
        Departures {
            first: sent.first_departure_ns.unwrap(),
            count: errors.count,
            min_error: errors.min.unwrap(),
            max_error: errors.max.unwrap(),
        }
    })
}

/// Fails unless each frame had the deadline that it has in the capture file: its transmit time, less
/// that deadline, is what the engine says that its departure was off by. The run's start follows from
/// the first departure of a flow, and must be the same for all.
fn assert_deadlines(frames: &Flows, departures: &[Departures; 3], load: Load) {
    let start = frames[0][0].probe.transmit_ns - departures[0].first;
    for (flow, (frames, departures)) in frames.iter().zip(departures).enumerate() {
        let errors = || {
            frames.iter().enumerate().map(move |(number, seen)| {
                (seen.probe.transmit_ns - start) as i64 - due(flow, number, load) as i64
            })
        };
        let found = Departures {
            first: frames[0].probe.transmit_ns - start,
            count: frames.len() as u64,
            min_error: errors().min().unwrap(),
            max_error: errors().max().unwrap(),
        };
        assert_eq!(&found, departures);
        assert!(found.min_error >= 0, "a frame left before its deadline");
    }
}

/// The frame without what may differ from run to run, after the checksums over it have been found
/// right: a transmit time of zero and, where there is a UDP checksum, all ones instead of it.
fn masked(frame: &[u8]) -> Vec<u8> {
    let datagram = Datagram::parse(frame).unwrap();
    let udp = datagram.payload_at - UDP_LEN;
    let end = datagram.payload_at + datagram.payload.len();
    if datagram.source.is_ipv4() {
        assert_eq!(checksum(&frame[14..udp]), 0, "a bad header checksum");
    }
    let len = (end - udp) as u32;
    let pseudo = Sum::pseudo(datagram.source, datagram.destination, Protocol::UDP, len).unwrap();
    let mut masked = frame.to_vec();
    let field = udp + UDP_CHECKSUM..udp + UDP_LEN;
    if frame[field.clone()] != [0, 0] {
        assert_eq!(pseudo.add_bytes(&frame[udp..end]).checksum(), 0, "a bad UDP checksum");
        masked[field].fill(0xff);
    }
    masked[end - 8..end].fill(0);
    masked
}

fn assert_same_bytes(golden: &Flows, found: &Flows) {
    for (golden, found) in golden.iter().flatten().zip(found.iter().flatten()) {
        assert_eq!(masked(&golden.bytes), masked(&found.bytes), "{:?}", golden.probe);
    }
}

/// Sends over the link in memory.
fn in_memory(bed: &Testbed, load: Load) -> (Flows, [Departures; 3]) {
    let scenario = Scenario::from_yaml(&scenario(bed, "engine: loopback", load), "test").unwrap();
    let program = compile(&scenario, &Links::default(), &Default::default()).unwrap();
    let clock = VirtualClock::default();
    let (there, back) = pair(&clock, Link::default());
    let (mut near, mut far) = (there.tx, back.rx);
    let start = Nanos::new(VIRTUAL_START);
    let job = Job {
        program: &program,
        flows: &[0, 1, 2],
        shard: Shard::WHOLE,
        sequences: &Sequences::new(3),
        times: RunTimes {
            start,
            end: Nanos::MAX,
            latest: Nanos::MAX,
            wait: Wait::Spin,
            unix_offset: &UnixOffset::default(),
        },
        stop: &AtomicBool::new(false),
        live: &LiveTx::default(),
        playbacks: std::cell::RefCell::default(),
        changes: None,
        limit: None,
    };
    let driven = drive(&mut near, &clock, &job, &Plan::new(&program, job.flows, job.shard, (0, 0)));
    let departures = [0, 1, 2].map(|flow: usize| {
        let sent = &driven.flows[flow];
        let errors = &sent.departures.lateness.moments;
        Departures {
            first: sent.span.unwrap().0.saturating_sub(start).get(),
            count: errors.count,
            min_error: errors.min,
            max_error: errors.max,
        }
    });
    let mut frames = Vec::new();
    let mut take = |arrival: &Arrival<'_>| frames.push((arrival.at.get(), arrival.bytes.to_vec()));
    while far.receive(Nanos::ZERO, &mut take).unwrap() > 0 {}
    (by_flow(frames, load), departures)
}

#[test]
fn the_link_in_memory_carries_the_frames_of_the_capture_file() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    for (name, load) in [("memory-in-step", IN_STEP), ("memory-out-of-step", OUT_OF_STEP)] {
        let (frames, departures) = in_memory(&bed, load);
        assert_same_bytes(&golden(&bed, name, load), &frames);
        assert_deadlines(&frames, &departures, load);
    }
}

/// An engine that sends whole frames sends those of the capture file.
fn agrees(engine: Engine, name: &str, load: Load) -> Report {
    let bed = cable();
    let golden = golden(&bed, name, load);
    let (report, frames) = captured(&bed, engine, load);
    assert_same_bytes(&golden, &frames);
    assert_deadlines(&frames, &reported(&report), load);
    report
}

#[test]
fn the_kernel_engine_sends_the_frames_of_the_capture_file() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let report = agrees(Engine::Kernel, "kernel-in-step", IN_STEP);
    assert!(!report.senders[0].mode.contains("streamed"), "{}", report.senders[0].mode);
    let report = agrees(Engine::Kernel, "kernel-out-of-step", OUT_OF_STEP);
    assert!(report.senders[0].mode.contains("streamed"), "{}", report.senders[0].mode);
}

#[test]
fn the_packet_engine_sends_the_frames_of_the_capture_file() {
    require!(Capability::NetworkNamespaces);
    agrees(Engine::Packet, "packet-in-step", IN_STEP);
    agrees(Engine::Packet, "packet-out-of-step", OUT_OF_STEP);
}

/// What of a frame the scenario decides when the kernel makes the headers.
fn of_a_socket(frame: &[u8]) -> impl PartialEq + std::fmt::Debug {
    let masked = masked(frame);
    let datagram = Datagram::parse(&masked).unwrap();
    let udp = datagram.payload_at - UDP_LEN;
    let checksum = masked[udp + UDP_CHECKSUM..udp + UDP_LEN].to_vec();
    let from = (datagram.source, datagram.source_port);
    let to = (datagram.destination, datagram.destination_port);
    (from, to, datagram.ttl, datagram.tos, checksum, datagram.payload.to_vec())
}

#[test]
fn the_socket_engine_sends_the_datagrams_of_the_capture_file() {
    require!(Capability::NetworkNamespaces);
    for (name, load) in [("socket-in-step", IN_STEP), ("socket-out-of-step", OUT_OF_STEP)] {
        let bed = cable();
        let golden = golden(&bed, name, load);
        let (report, frames) = captured(&bed, Engine::Socket, load);
        for (golden, found) in golden.iter().flatten().zip(frames.iter().flatten()) {
            assert_eq!(of_a_socket(&golden.bytes), of_a_socket(&found.bytes));
        }
        assert_deadlines(&frames, &reported(&report), load);
    }
}
