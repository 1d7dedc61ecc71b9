//! SCTP between two hosts of a testbed: plain sockets of the kernel, our sessions at both ends, and each against the other.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;

use rustix::net::{AddressFamily, SocketType, accept, bind, connect, ipproto, listen, socket};
use wirebeat_report::format::Rendering;
use wirebeat_report::model::{End, SessionEnd, Verdict};
use wirebeat_run::{Options, Stop, prepare};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::Scenario;

use super::note;
use crate::sessions::{StopAfter, balances, run, run_observed, side};
use crate::world::cable;

/// Bytes of a message, and how many are sent.
const MESSAGE: usize = 1000;
const MESSAGES: usize = 200;

fn sctp() -> OwnedFd {
    socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::SCTP)).unwrap()
}

/// What message `number` holds.
fn message(number: usize) -> Vec<u8> {
    (0..MESSAGE).map(|at| (at * 7 + number * 13) as u8).collect()
}

/// Reads whole messages until the other end closes.
fn read(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn an_association_carries_messages_both_ways() {
    require!(Capability::NetworkNamespaces, Capability::Sctp);
    let bed = cable();
    let server = SocketAddrV4::new(bed.b.ipv4, 5000);
    let listening = bed.b.namespace.run(|| {
        let socket = sctp();
        bind(&socket, &server).unwrap();
        listen(&socket, 1).unwrap();
        socket
    });
    let listening = listening.unwrap();
    let expected: Vec<u8> = (0..MESSAGES).flat_map(message).collect();
    thread::scope(|scope| {
        // what std calls a TCP stream is a socket that reads and writes
        let echo = scope.spawn(|| {
            let mut stream = TcpStream::from(accept(&listening).unwrap());
            let mut buffer = [0; MESSAGE];
            let mut echoed = 0;
            while echoed < MESSAGE * MESSAGES {
                let count = stream.read(&mut buffer).unwrap();
                assert!(count > 0, "the association ended after {echoed} bytes");
                stream.write_all(&buffer[..count]).unwrap();
                echoed += count;
            }
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let client = bed.a.namespace.run(sctp).unwrap();
        connect(&client, &server).unwrap();
        let mut client = TcpStream::from(client);
        let reader = client.try_clone().unwrap();
        let reading = scope.spawn(move || read(reader));
        for number in 0..MESSAGES {
            client.write_all(&message(number)).unwrap();
        }
        assert!(reading.join().unwrap() == expected, "what came back is not what was sent");
        echo.join().unwrap();
    });
}

const PORTS: &str = "ports: { a: { namespace: a, addresses: [\"{A}\"] }, b: { namespace: b, addresses: [\"{B}\"] } }\n";

#[test]
fn sessions_over_sctp_agree_at_both_ends() {
    require!(Capability::NetworkNamespaces, Capability::Sctp);
    let bed = cable();
    let text = format!(
        "{PORTS}sessions:\n  \
         asks: {{ from: a, to: b, transport: sctp, servers: {{ ports: 80 }}, program: {{ request-response: {{ request: 100B, response: 20kB, requests: 3 }} }}, rate: 50/s, count: 50 }}\n  \
         web: {{ from: a, to: b, transport: sctp, servers: {{ ports: 81 }}, program: {{ http: {{ size: 20kB, requests: 3 }} }}, rate: 50/s, count: 50 }}\n  \
         bulk: {{ from: a, to: b, transport: sctp, servers: {{ ports: 82 }}, program: {{ bulk: {{ bytes: 1MB }} }}, users: 2, count: 4 }}\n  \
         back: {{ from: b, to: a, transport: sctp, servers: {{ ports: 83 }}, program: {{ bulk: {{ bytes: 1MB, direction: reverse }} }}, users: 1, count: 2 }}\n  \
         echo: {{ from: b, to: a, transport: sctp, pair: payload, servers: {{ ports: 84 }}, program: {{ echo: {{ messages: 20, gap: 5ms }} }}, count: 10 }}\n  \
         talk: {{ from: a, to: b, transport: sctp, servers: {{ ports: 85 }}, program: {{ messages: {{ messages: 20, gap: 5ms }} }}, count: 5 }}\n  \
         steps: {{ from: a, to: b, transport: sctp, servers: {{ ports: 86 }}, count: 5, program: {{ steps: {{ \
         client: [ {{ send: 70kB }}, {{ receive: 3kB }}, shutdown, wait-close ], server: [ {{ receive: 70kB }}, {{ send: 3kB }}, wait-close ] }} }} }}\n  \
         tcp: {{ from: a, to: b, servers: {{ ports: 80 }}, program: http, rate: 50/s, count: 20 }}\nrun: {{ time: 30s }}\n"
    );
    let report = run(&bed, &text, &Stop::new());
    balances(&report);
    assert_eq!((report.verdict, &report.end), (Verdict::Done, &End::Completed), "{report:#?}");
    let groups = [
        ("asks", 50, 150),
        ("web", 50, 150),
        ("bulk", 4, 0),
        ("back", 2, 0),
        ("echo", 10, 200),
        ("talk", 5, 0),
        ("steps", 5, 0),
    ];
    for (name, sessions, requests) in groups {
        let (client, server) =
            (side(&report, name, SessionEnd::Client), side(&report, name, SessionEnd::Server));
        assert_eq!((client.ends.in_order, server.ends.in_order), (sessions, sessions), "{name}");
        assert_eq!((client.messages.requests, client.messages.responses), (requests, requests));
        assert_eq!((client.messages.damaged, server.messages.damaged), (0, 0), "{name}");
        assert_eq!(client.bytes.sent, server.bytes.delivered, "{name}");
        assert_eq!(server.bytes.sent, client.bytes.delivered, "{name}");
        assert_eq!(client.bytes.acked, client.bytes.sent, "{name}");
        assert_eq!(client.transport.as_deref(), Some("sctp"), "{name}");
    }
    let verified = |name, end| side(&report, name, end).bytes.verified;
    assert_eq!(verified("asks", SessionEnd::Client), 150 * 20_000);
    assert_eq!(verified("web", SessionEnd::Client), 150 * 20_000);
    assert_eq!(verified("bulk", SessionEnd::Server), 4 * 1_000_000);
    assert_eq!(verified("back", SessionEnd::Client), 2 * 1_000_000);
    let pairs = side(&report, "echo", SessionEnd::Client).pairs.unwrap();
    assert_eq!((pairs.paired, pairs.equal), (10, 10));
    // the port of the same number is TCP's own
    assert_eq!(side(&report, "tcp", SessionEnd::Client).ends.in_order, 20);
    let text = wirebeat_report::text::report(&report, Rendering::default());
    assert!(text.contains("SCTP: the system tells no chunks"), "{text}");
    note("sessions over SCTP, both ends ours: all in order, books balance");
}

/// A plain socket of the namespace `b` that sends back what it hears, on this many associations, one after the other.
fn plain_echo(bed: &Testbed, at: SocketAddrV4, associations: usize) -> thread::JoinHandle<()> {
    let listening = bed.b.namespace.run(|| {
        let socket = sctp();
        bind(&socket, &at).unwrap();
        listen(&socket, 16).unwrap();
        socket
    });
    let listening = listening.unwrap();
    thread::spawn(move || {
        for _ in 0..associations {
            let mut stream = TcpStream::from(accept(&listening).unwrap());
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                stream.write_all(&buffer[..count]).unwrap();
            }
        }
    })
}

#[test]
fn our_client_is_served_by_plain_sockets() {
    require!(Capability::NetworkNamespaces, Capability::Sctp);
    let bed = cable();
    let echo = plain_echo(&bed, SocketAddrV4::new(bed.b.ipv4, 5000), 5);
    let text = format!(
        "{PORTS}sessions:\n  echo: {{ from: a, transport: sctp, servers: {{ addresses: \"{{B}}\", ports: 5000 }}, \
         program: {{ echo: {{ size: 1000B, messages: 20, gap: 1ms }} }}, users: 1, count: 5 }}\n"
    );
    let report = run(&bed, &text, &Stop::new());
    echo.join().unwrap();
    balances(&report);
    let client = side(&report, "echo", SessionEnd::Client);
    assert_eq!((client.ends.in_order, client.messages.responses), (5, 100), "{report:#?}");
    assert_eq!((client.bytes.sent, client.bytes.delivered), (100_000, 100_000));
    note("sessions over SCTP, client ours, server plain sockets: all in order");
}

#[test]
fn our_server_serves_plain_sockets() {
    require!(Capability::NetworkNamespaces, Capability::Sctp);
    let bed = cable();
    let server = SocketAddrV4::new(bed.b.ipv4, 5000);
    let stop = Stop::new();
    let text = format!(
        "{PORTS}sessions:\n  echo: {{ to: b, transport: sctp, servers: {{ addresses: \"{{B}}\", ports: 5000 }}, program: echo }}\n"
    );
    let namespace = bed.a.namespace.clone();
    let peer = thread::spawn(move || {
        let client = namespace.run(sctp).unwrap();
        while connect(&client, &server).is_err() {
            thread::sleep(std::time::Duration::from_millis(50));
        }
        let mut client = TcpStream::from(client);
        for number in 0..MESSAGES {
            client.write_all(&message(number)).unwrap();
            let mut heard = [0; MESSAGE];
            client.read_exact(&mut heard).unwrap();
            assert!(heard[..] == message(number)[..], "message {number}");
        }
    });
    let report = run_observed(&bed, &text, &stop, &mut StopAfter::new(1, &stop));
    peer.join().unwrap();
    balances(&report);
    let server = side(&report, "echo", SessionEnd::Server);
    assert_eq!((server.starts.opened, server.ends.in_order), (1, 1), "{report:#?}");
    assert_eq!(server.bytes.delivered, (MESSAGE * MESSAGES) as u64);
    note("sessions over SCTP, server ours, client plain sockets: in order");
}

#[test]
fn a_machine_without_sctp_refuses_before_the_start() {
    let text = "ports: { a: {} }\nsessions: { s: { from: a, to: a, transport: sctp, servers: { addresses: 127.0.0.1, ports: 5000 }, \
                program: echo, count: 1 } }\nrun: { time: 1s }\n";
    let scenario = Scenario::from_yaml(text, "").unwrap();
    match prepare(&scenario, Options::default()) {
        Ok(_) => assert!(wirebeat_sockets::machine::has_sctp()),
        Err(error) => {
            assert_eq!(error.exit_code(), 3, "{error}");
            assert!(error.to_string().contains("no SCTP"), "{error}");
        }
    }
}
