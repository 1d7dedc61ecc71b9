//! What is asked of TCP and IP, as it is on the wire and in the report, and what is seen of TCP while sessions are open.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use pcap_file::pcapng::{Block, PcapNgReader};
use wirebeat_report::format::Rendering;
use wirebeat_report::model::{Report, SessionConnections, SessionEnd};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_stack::segment::{Checksum, Flags, Segment};
use wirebeat_testbed::{Capability, Program, Testbed, require};
use wirebeat_traffic::scenario::Scenario;

use crate::sessions::{balances, run, side};
use crate::world::{cable, scratch_folder};

/// An Ethernet header.
const ETHERNET: usize = 14;
/// Don't fragment, in the seventh byte of a header of IPv4.
const DF: u8 = 0x40;

/// Runs sessions in memory, with these keys, and keeps the frames that the server's end sends and receives, without Ethernet.
fn on_paper(name: &str, keys: &str) -> (Report, Vec<Vec<u8>>) {
    let path = scratch_folder().join(format!("tcp-options-{name}.pcapng"));
    let text = format!(
        "ports:\n  a: {{ engine: loopback, cable: {{ delay: 5ms }} }}\n  b: {{ engine: pcap, file: '{}', cable: {{ delay: 5ms }} }}\n\
         sessions:\n  web: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1 }}, servers: {{ addresses: 10.0.2.9, ports: 80 }}, \
         program: {{ http: {{ size: 30kB }} }}, rate: 10/s, {keys} }}\nrun: {{ time: 1s }}\n",
        path.display()
    );
    let report = in_no_time(&text);
    balances(&report);
    assert_eq!(side(&report, "web", SessionEnd::Client).ends.in_order, 10, "{report:#?}");
    (report, packets(&path))
}

fn in_no_time(text: &str) -> Report {
    let scenario = Scenario::from_yaml(text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let prepared = prepare(&scenario, Options::default());
    prepared.unwrap_or_else(|error| panic!("{error}")).start(&mut Silent, &Stop::new())
}

/// The IP packets of TCP of a capture file, which goes.
fn packets(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(path).unwrap();
    fs::remove_file(path).unwrap();
    let mut reader = PcapNgReader::new(&file[..]).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(frame) = block.unwrap() {
            packets.extend(frame.data.get(ETHERNET..).map(<[u8]>::to_vec));
        }
    }
    packets.retain(|packet| Segment::read(packet, Checksum::Verify).is_ok());
    packets
}

fn read(packets: &[Vec<u8>]) -> Vec<Segment<'_>> {
    packets.iter().map(|packet| Segment::read(packet, Checksum::Verify).unwrap()).collect()
}

/// How many segments with data the server of the first session sends before anything that arrived could have opened its window.
fn first_flight(segments: &[Segment<'_>]) -> usize {
    let port = segments[0].tuple.remote_port;
    let of_first = segments
        .iter()
        .filter(|segment| [segment.tuple.remote_port, segment.tuple.local_port].contains(&port));
    let answer = of_first
        .skip_while(|segment| segment.tuple.remote_port != 80 || segment.payload.is_empty());
    answer.take_while(|segment| segment.tuple.remote_port == 80).count()
}

#[test]
fn segments_have_what_was_asked_for() {
    let asked = "dont-fragment: false, ttl: 9, dscp: ef, tcp: { window-scaling: false, timestamps: false, sack: false, mss: 1000, \
                 initial-window: 3, receive-buffer: 40000B }";
    let (_, packets) = on_paper("asked", asked);
    let segments = read(&packets);
    let syns: Vec<_> = segments.iter().filter(|segment| segment.flags.has(Flags::SYN)).collect();
    assert_eq!(syns.len(), 20, "10 SYNs and their answers");
    for syn in syns {
        let options = &syn.options;
        assert_eq!((options.mss, options.window_shift), (Some(1000), None), "{syn:?}");
        assert!(options.timestamps.is_none() && !options.sack_permitted, "{syn:?}");
        assert_eq!(syn.window, 40_000);
    }
    for packet in &packets {
        assert_eq!((packet[6] & DF, packet[8], packet[1]), (0, 9, 0xb8), "{packet:x?}");
    }
    assert_eq!(first_flight(&segments), 3);
    assert!(segments.iter().all(|segment| segment.payload.len() <= 1000));
}

#[test]
fn segments_have_all_options_where_nothing_is_asked_for() {
    let (report, packets) = on_paper("usual", "tcp: {}");
    let segments = read(&packets);
    let syn = segments.iter().find(|segment| segment.flags.has(Flags::SYN)).unwrap();
    assert_eq!((syn.options.mss, syn.options.window_shift), (Some(1460), Some(5)), "{syn:?}");
    assert!(syn.options.timestamps.is_some() && syn.options.sack_permitted);
    assert!(!syn.flags.has(Flags::ECE), "no ECN unless it is asked for");
    assert!(packets.iter().all(|packet| packet[6] & DF != 0));
    assert_eq!(first_flight(&segments), 10);
    assert_eq!(report.stacks[0].sessions.time_waits, 10);
}

#[test]
fn ecn_is_offered_and_agreed_on() {
    let (_, packets) = on_paper("ecn", "tcp: { ecn: true }");
    let segments = read(&packets);
    let offers = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
    assert!(segments.iter().any(|segment| segment.flags == offers));
    // data is ECN-capable then (RFC 3168 §6.1.2)
    let data = segments.iter().filter(|segment| !segment.payload.is_empty());
    assert!(data.clone().count() > 10 && data.clone().all(|segment| segment.ecn == 0b10));
}

/// A whole byte, with the bits of ECN, which TCP does not use then: in SYNs, data, FINs and the answers of TIME-WAIT.
#[test]
fn a_tos_byte_stands_in_each_packet_of_our_own_tcp() {
    let (_, packets) = on_paper("tos", "tos: 0x6d");
    assert!(packets.len() > 100);
    for packet in &packets {
        assert_eq!(packet[1], 0x6d, "{packet:x?}");
    }
    // where ECN is asked for, its bits are TCP's
    let (_, packets) = on_paper("tos-ecn", "tos: 0x6c, tcp: { ecn: true }");
    let segments = read(&packets);
    for (packet, segment) in packets.iter().zip(&segments) {
        let ecn = if segment.payload.is_empty() { 0 } else { 0b10 };
        assert_eq!(packet[1], 0x6c | ecn, "{segment:?}");
    }
}

/// The ToS bytes of the packets that come to the end `b` of a port, by tcpdump.
fn tos_at_b(bed: &Testbed, filter: &str, text: &str) -> (Report, BTreeSet<String>) {
    let file = scratch_folder().join(format!("tos-{}.pcap", std::process::id()));
    let patience = Duration::from_secs(30);
    let dump = Program::new(&bed.b.namespace, "tcpdump")
        .args(["--immediate-mode", "-i", bed.b.interface(), "-U", "-Z", "root", "-w"])
        .args([&file])
        .args([filter])
        .spawn()
        .unwrap();
    dump.wait_for("listening on", patience).unwrap();
    let report = run(bed, text, &Stop::new());
    dump.interrupt();
    dump.wait(patience).unwrap();
    let told = Program::new(&bed.b.namespace, "tshark")
        .args(["-r", file.to_str().unwrap(), "-T", "fields", "-e", "ip.dsfield"])
        .output(patience)
        .unwrap();
    fs::remove_file(&file).unwrap();
    (report, told.stdout.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn a_tos_byte_stands_in_each_packet_of_the_systems_stack() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("tcpdump"),
        Capability::Program("tshark")
    );
    let bed = cable();
    let ports = "ports: { a: { namespace: a, addresses: [\"{A}\"] }, b: { namespace: b, addresses: [\"{B}\"] } }\n";
    for (filter, group, tos) in [
        ("tcp", "program: { http: { requests: 2 } }, tos: 0x6c", "0x6c"),
        // over UDP the bits of ECN are nobody else's
        ("udp", "transport: udp, program: echo, tos: 0x6d", "0x6d"),
    ] {
        let text = format!(
            "{ports}sessions: {{ x: {{ from: a, to: b, servers: {{ ports: 9000 }}, count: 5, timeout: 1s, {group} }} }}\n"
        );
        let (report, found) = tos_at_b(&bed, filter, &text);
        balances(&report);
        assert_eq!(side(&report, "x", SessionEnd::Client).ends.in_order, 5, "{report:#?}");
        assert_eq!(found, BTreeSet::from([tos.to_owned()]), "{group}");
    }
}

#[test]
fn time_wait_is_skipped_where_that_is_asked_for() {
    let (report, _) = on_paper("time-wait", "tcp: { time-wait: 0s }");
    let [clients, servers] = &report.stacks[..] else { panic!("{:#?}", report.stacks) };
    let (clients, servers) = (&clients.sessions, &servers.sessions);
    assert_eq!((clients.time_waits, clients.time_wait_skipped), (0, 10));
    assert_eq!((servers.time_waits, servers.time_wait_skipped), (0, 0));
}

/// What was known of open connections in the intervals of an end, and how many were open when they ended; those in which nothing was
/// open are left out.
fn looks(report: &Report, end: SessionEnd) -> Vec<(u64, SessionConnections)> {
    let intervals = report.session_intervals.iter().flat_map(|interval| &interval.sessions);
    let of_end = intervals.filter(|of| of.end == end);
    of_end.filter_map(|of| Some((of.open, of.connections?))).collect()
}

#[test]
fn open_connections_of_our_own_tcp_are_seen_in_each_interval() {
    let report = in_no_time(
        "ports:\n  a: { engine: loopback, cable: { delay: 5ms, rate: 20Mbps } }\n  b: { engine: loopback, cable: { delay: 5ms } }\n\
         sessions:\n  data: { from: a, to: b, stack: own, clients: { addresses: 10.0.1.1 }, servers: { addresses: 10.0.2.9, ports: 80 }, \
         program: bulk, users: 3, count: 3 }\nrun: { time: 3s, interval: 500ms }\n",
    );
    balances(&report);
    let clients = looks(&report, SessionEnd::Client);
    assert!(clients.len() >= 5, "{:#?}", report.session_intervals);
    assert_eq!(clients[0].0, 3);
    for (open, look) in clients {
        assert_eq!((look.sampled, look.delivery_bits_per_second), (open, None), "{look:?}");
        let (mean, most) = (look.round_trip_ns.unwrap(), look.round_trip_max_ns.unwrap());
        assert!(mean >= 10_000_000 && most >= mean, "5 ms each way, and a queue: {look:?}");
        assert!(look.cwnd_bytes.unwrap() >= 1460, "{look:?}");
    }
    let servers = looks(&report, SessionEnd::Server);
    assert!(servers.iter().all(|(open, look)| look.sampled == *open), "{servers:?}");
}

#[test]
fn open_connections_of_the_systems_tcp_are_seen_in_each_interval() {
    require!(Capability::NetworkNamespaces);
    let report = run(
        &cable(),
        "ports: { a: { namespace: a, addresses: [\"{A}\"] }, b: { namespace: b, addresses: [\"{B}\"] } }\nsessions:\n  \
         data: { from: a, to: b, servers: { ports: 5201 }, program: bulk, users: 2, count: 2, tcp: { pacing: 20Mbps } }\n\
         run: { time: 2s, interval: 500ms }\n",
        &Stop::new(),
    );
    balances(&report);
    let clients = looks(&report, SessionEnd::Client);
    // the last may end before the thread looks, and a busy machine may miss one
    assert!(clients.len() >= 2, "{:#?}", report.session_intervals);
    assert_eq!(clients[0].1.sampled, 2);
    for (_, look) in clients {
        assert!((1..=2).contains(&look.sampled), "{look:?}");
        assert!((1..1_000_000_000).contains(&look.round_trip_ns.unwrap()), "{look:?}");
        assert!(look.cwnd_bytes.unwrap() >= 1448, "{look:?}");
        assert!(look.delivery_bits_per_second.unwrap() > 1_000_000, "{look:?}");
    }
    // what was told of a session while it was open is not told again at its end
    let client = side(&report, "data", SessionEnd::Client);
    let told = report.session_intervals.iter().flat_map(|interval| &interval.sessions);
    let told = told.filter(|of| of.end == SessionEnd::Client);
    let told: u64 = told.map(|of| of.retransmitted_segments).sum();
    assert_eq!(told, client.segments.retransmitted);
}

#[test]
fn data_is_handed_over_and_arrives_and_the_system_tells_that_it_copied() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let report = run(
        &bed,
        "ports: { a: { namespace: a, addresses: [\"{A}\"] }, b: { namespace: b, addresses: [\"{B}\"] } }\nsessions:\n  \
         bulk: { from: a, to: b, servers: { ports: 5001 }, tcp: { zero-copy: true }, program: { bulk: { bytes: 20MB, direction: both } }, users: 2, count: 4 }\n  \
         web: { from: a, to: b, servers: { ports: 80 }, tcp: { zero-copy: true }, program: { http: { size: 100kB, requests: 3 } }, rate: 50/s, count: 20 }\n  \
         plain: { from: a, to: b, servers: { ports: 81 }, program: { http: { size: 100kB } }, rate: 50/s, count: 20 }\nrun: { time: 5s }\n",
        &Stop::new(),
    );
    balances(&report);
    for (name, sessions, bytes) in [("bulk", 4, 80_000_000), ("web", 20, 60 * 100_000)] {
        for end in [SessionEnd::Client, SessionEnd::Server] {
            assert_eq!(side(&report, name, end).ends.in_order, sessions, "{name} {end:?}");
            assert_eq!(side(&report, name, end).messages.damaged, 0, "{name} {end:?}");
        }
        assert_eq!(side(&report, name, SessionEnd::Client).bytes.verified, bytes, "{name}");
        let sends = side(&report, name, SessionEnd::Server).zero_copy.unwrap();
        assert!(sends.sends > 0, "{name}: {sends:?}");
        assert_eq!((sends.told, sends.copied), (sends.sends, sends.sends), "over veth: {sends:?}");
    }
    let requests = side(&report, "web", SessionEnd::Client).zero_copy.unwrap();
    assert_eq!((requests.sends, requests.no_room), (0, 0), "requests are short");
    assert_eq!(side(&report, "plain", SessionEnd::Server).zero_copy, None);
    let text = wirebeat_report::text::report(&report, Rendering::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("of them copied by the system (loopback and veth always copy)"),
        "{text}"
    );
}
