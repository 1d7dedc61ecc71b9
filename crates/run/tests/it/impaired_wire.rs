//! Sessions over a cable that loses, delays, reorders and duplicates frames: every byte arrives as it was sent, and the counters are consistent.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use wirebeat_report::model::{Report, SessionEnd, SessionReport, Verdict};
use wirebeat_run::Stop;
use wirebeat_testbed::{
    Capability, ImpairedCable, Impairment, Neighbours, Options, Testbed, require,
};

use crate::own_sessions::{free, own_port};
use crate::sessions::{StopAfter, balances, run, run_observed, side};

/// Generated data repeats after this number of bytes.
const BLOCK: usize = 65_521;

/// A cable that is bad both ways, and not in the same way.
pub(super) fn bad(seed: u64) -> ImpairedCable {
    let way = |seed| Impairment {
        delay: Duration::from_millis(2),
        loss: 0.015,
        duplicates: 0.01,
        held: 0.02,
        hold: Duration::from_millis(3),
        seed,
        ..Impairment::default()
    };
    let options = Options { neighbours: Neighbours::Asked, ..Options::default() };
    ImpairedCable::new(&options, way(seed), way(seed + 1)).unwrap()
}

/// The first of the addresses that nobody has.
fn first(bed: &Testbed, number: u8) -> Ipv4Addr {
    free(bed, number, 1).split('-').next().unwrap().parse().unwrap()
}

/// Both ways of the cable did what it is for.
fn was_bad(cable: &ImpairedCable) {
    for carried in cable.carried() {
        let all = [carried.lost, carried.duplicated, carried.held];
        assert!(all.iter().all(|&count| count > 0), "{carried:?}");
    }
}

pub(super) fn agree(client: &SessionReport, server: &SessionReport, sessions: u64) {
    let name = &client.name;
    assert_eq!(client.ends.in_order, sessions, "{name}: {:?}", client.ends);
    assert_eq!(server.ends.in_order, sessions, "{name}: {:?}", server.ends);
    assert_eq!(client.bytes.sent, server.bytes.delivered, "{name}");
    assert_eq!(server.bytes.sent, client.bytes.delivered, "{name}");
    assert_eq!((client.bytes.acked, server.bytes.acked), (client.bytes.sent, server.bytes.sent));
    assert_eq!((client.messages.damaged, server.messages.damaged), (0, 0), "{name}");
    assert_eq!(client.messages.requests, client.messages.responses, "{name}");
}

/// Segments that our own TCP sent again, at each of its ports.
fn sent_again(report: &Report) -> Vec<u64> {
    let sum = |stack: &wirebeat_report::model::StackReport| {
        stack.segments.retransmitted().iter().map(|(_, count)| count).sum()
    };
    report.stacks.iter().map(sum).collect()
}

/// Groups whose ends are both ours. A server whose last segment is lost sends it again after a fifth of a second at the earliest.
fn ours_at_both_ends(ports: &str, stack: [&str; 3]) -> String {
    let [web, bulk, echo] = stack;
    format!(
        "{ports}sessions:\n  \
         web: {{ from: a, to: b, {web}, program: {{ http: {{ size: 20kB, requests: 3 }} }}, rate: 100/s, count: 200, timeout: 100s }}\n  \
         bulk: {{ from: a, to: b, {bulk}, program: {{ bulk: {{ bytes: 3MB, direction: both }} }}, users: 2, count: 4, timeout: 100s }}\n  \
         echo: {{ from: b, to: a, {echo}, program: {{ echo: {{ messages: 50, size: 10kB }} }}, count: 5, timeout: 100s }}\n\
         run: {{ settle: 20s }}\n"
    )
}

fn all_was_verified(report: &Report) {
    balances(report);
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    for (name, sessions) in [("web", 200), ("bulk", 4), ("echo", 5)] {
        let ends = [SessionEnd::Client, SessionEnd::Server].map(|end| side(report, name, end));
        agree(ends[0], ends[1], sessions);
    }
    let verified = |name, end| side(report, name, end).bytes.verified;
    assert_eq!(verified("web", SessionEnd::Client), 600 * 20_000);
    let bulk = [SessionEnd::Client, SessionEnd::Server].map(|end| verified("bulk", end));
    assert_eq!(bulk, [4 * 3_000_000; 2]);
    assert_eq!(verified("echo", SessionEnd::Client), 5 * 50 * 10_000);
}

#[test]
fn both_ends_of_our_own_tcp_over_a_bad_wire() {
    require!(Capability::NetworkNamespaces, Capability::Tun, Capability::VirtualCable);
    let cable = bad(1);
    let bed = &cable.bed;
    let ports = format!(
        "ports: {{ {}, b: {{ namespace: b, interface: {}, engine: packet }} }}\n",
        own_port(bed, "packet"),
        bed.b.link.name
    );
    let group = |clients, server, port| {
        format!(
            "stack: own, clients: {{ addresses: {} }}, servers: {{ addresses: {}, ports: {port} }}",
            free(bed, clients, 8),
            first(bed, server)
        )
    };
    let groups = [group(100, 77, 80), group(110, 77, 5001), group(120, 78, 7)];
    let text = ours_at_both_ends(&ports, groups.each_ref().map(String::as_str));
    let report = run(bed, &text, &Stop::new());
    all_was_verified(&report);
    was_bad(&cable);
    for (port, again) in report.stacks.iter().zip(sent_again(&report)) {
        assert!(again > 0, "{port:#?}");
        assert_eq!((port.arrivals.bad_checksum, port.arrivals.malformed), (0, 0), "{port:#?}");
        // what the cable delivered twice or late
        assert!(port.bytes.duplicate > 0 && port.bytes.out_of_order > 0, "{port:#?}");
    }
}

#[test]
fn the_systems_tcp_at_both_ends_over_a_bad_wire() {
    require!(Capability::NetworkNamespaces, Capability::Tun, Capability::VirtualCable);
    let cable = bad(11);
    let ports = "ports: { a: { namespace: a, addresses: [\"{A}\"] }, b: { namespace: b, addresses: [\"{B}\"] } }\n";
    let group = |port: u16| format!("servers: {{ ports: {port} }}");
    let groups = [group(80), group(5001), group(7)];
    let text = ours_at_both_ends(ports, groups.each_ref().map(String::as_str));
    let report = run(&cable.bed, &text, &Stop::new());
    all_was_verified(&report);
    was_bad(&cable);
}

/// In one run, our own TCP at one end and the system's at the other, both ways.
#[test]
fn our_own_tcp_and_the_systems_over_a_bad_wire() {
    require!(Capability::NetworkNamespaces, Capability::Tun, Capability::VirtualCable);
    let cable = bad(21);
    let bed = &cable.bed;
    let server = first(bed, 77);
    let clients = free(bed, 100, 8);
    let http = "program: { http: { size: 20kB, body: 5kB, method: POST, requests: 3 } }";
    let bulk = "program: { bulk: { bytes: 3MB, direction: both } }";
    let text = format!(
        "ports: {{ {}, b: {{ namespace: b, addresses: [\"{{B}}\"] }} }}\nsessions:\n  \
         web: {{ from: a, stack: own, clients: {{ addresses: {clients} }}, servers: {{ addresses: \"{{B}}\", ports: 80 }}, {http}, rate: 100/s, count: 200, timeout: 100s }}\n  \
         web-there: {{ to: b, servers: {{ ports: 80 }}, {http}, timeout: 100s }}\n  \
         bulk: {{ from: b, servers: {{ addresses: {server}, ports: 5001 }}, {bulk}, users: 2, count: 4, timeout: 100s }}\n  \
         bulk-there: {{ to: a, stack: own, servers: {{ addresses: {server}, ports: 5001 }}, {bulk}, timeout: 100s }}\n\
         run: {{ time: 100s }}\n",
        own_port(bed, "packet")
    );
    let stop = Stop::new();
    let mut observer = StopAfter::new(200 + 4, &stop);
    let report = run_observed(bed, &text, &stop, &mut observer);
    balances(&report);
    for (client, server, sessions) in [("web", "web-there", 200), ("bulk", "bulk-there", 4)] {
        let ends = [(client, SessionEnd::Client), (server, SessionEnd::Server)];
        let [client, server] = ends.map(|(name, end)| side(&report, name, end));
        agree(client, server, sessions);
    }
    assert!(sent_again(&report)[0] > 0);
    was_bad(&cable);
}

#[test]
fn the_system_receives_and_sends_each_byte_over_a_bad_wire() {
    require!(Capability::NetworkNamespaces, Capability::Tun, Capability::VirtualCable);
    let cable = bad(31);
    sends_each_byte(&cable.bed, 3_000_000, 2_000_000);
    was_bad(&cable);
}

/// Where the other end is not ours, it looks at each byte itself: four streams to it of so many bytes, and four to us and back.
pub(super) fn sends_each_byte(bed: &Testbed, bulk: usize, echo: usize) -> Report {
    let (server, clients) = (first(bed, 77), free(bed, 100, 4));
    let listener = bed.b.namespace.run(|| TcpListener::bind((bed.b.ipv4, 5001)).unwrap()).unwrap();
    let text = format!(
        "ports: {{ {} }}\nsessions:\n  \
         bulk: {{ from: a, stack: own, clients: {{ addresses: {clients} }}, servers: {{ addresses: \"{{B}}\", ports: 5001 }}, \
         program: {{ bulk: {{ bytes: {bulk}B }} }}, count: 4, timeout: 100s }}\n  \
         echo: {{ to: a, stack: own, servers: {{ addresses: {server}, ports: 7 }}, program: echo, timeout: 100s }}\n\
         run: {{ time: 100s }}\n",
        own_port(bed, "packet")
    );
    let stop = Stop::new();
    let (received, report) = thread::scope(|scope| {
        let work = scope.spawn(|| {
            let streams: Vec<_> = (0..4)
                .map(|_| {
                    let (mut stream, _) = listener.accept().unwrap();
                    scope.spawn(move || {
                        let mut all = Vec::new();
                        stream.read_to_end(&mut all).unwrap();
                        all
                    })
                })
                .collect();
            // the run has begun, so our server answers
            let echoes: Vec<_> =
                (0..4_u8).map(|n| scope.spawn(move || echoed(bed, (server, n), echo))).collect();
            let received: Vec<_> = streams.into_iter().map(|one| one.join().unwrap()).collect();
            echoes.into_iter().for_each(|one| one.join().unwrap());
            // a last segment that was lost is sent again meanwhile
            thread::sleep(Duration::from_secs(3));
            stop.ask(2);
            received
        });
        let report = run(bed, &text, &stop);
        (work.join().unwrap(), report)
    });
    balances(&report);
    for stream in &received {
        assert_eq!(stream.len(), bulk);
        let wrong = (BLOCK..stream.len()).find(|&at| stream[at] != stream[at - BLOCK]);
        assert_eq!(wrong, None);
        assert!(stream[..BLOCK] == received[0][..BLOCK]);
    }
    let (sent, echoes) =
        (side(&report, "bulk", SessionEnd::Client), side(&report, "echo", SessionEnd::Server));
    let (bulk, echo) = (4 * bulk as u64, 4 * echo as u64);
    assert_eq!((sent.ends.in_order, sent.bytes.acked), (4, bulk), "{:?}", sent.ends);
    assert_eq!((echoes.ends.in_order, echoes.bytes.delivered), (4, echo), "{:?}", echoes.ends);
    assert_eq!((echoes.bytes.sent, echoes.bytes.acked), (echo, echo));
    report
}

/// Sends so many bytes that never repeat from the end `b`, and has them back.
fn echoed(bed: &Testbed, (server, number): (Ipv4Addr, u8), len: usize) {
    let mut value = u64::from(number) + 1;
    // xorshift (Marsaglia 2003)
    let mut next = || {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        value.to_le_bytes()[3]
    };
    let data: Vec<u8> = std::iter::repeat_with(&mut next).take(len).collect();
    let at = SocketAddr::new(IpAddr::V4(server), 7);
    let stream = bed.b.namespace.run(|| TcpStream::connect(at)).unwrap().unwrap();
    let (mut writing, mut reading) = (stream.try_clone().unwrap(), stream);
    let back = thread::scope(|scope| {
        scope.spawn(|| {
            writing.write_all(&data).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        reading.read_to_end(&mut back).unwrap();
        back
    });
    assert!(back == data, "{} bytes came back of {len}", back.len());
}
