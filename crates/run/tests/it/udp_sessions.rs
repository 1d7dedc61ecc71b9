//! Sessions over UDP on the loopback interface: both ends ours, and peers of the standard library that lose, double and delay.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wirebeat_report::model::{Report, SessionEnd, Verdict};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;

use crate::sessions::{balances, side};

/// Runs a scenario of one port, `a`, in which `{AT}` is the address of a peer.
pub(super) fn run(text: &str) -> Report {
    let text = format!("ports: {{ a: {{}} }}\n{text}");
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let prepared = prepare(&scenario, Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let report = prepared.start(&mut Silent, &Stop::new());
    balances(&report);
    report
}

/// A port that nobody has at this moment.
pub(super) fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A peer in a thread of its own: what it sends for each datagram, by its number.
struct Peer {
    at: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Peer {
    fn new(answer: impl Fn(u64, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Peer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut into = vec![0; 1 << 16];
            let mut taken = 0;
            while !seen.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut into) else { continue };
                for message in answer(taken, &into[..length]) {
                    // a client that has gone refuses
                    let _ = socket.send_to(&message, from);
                }
                taken += 1;
            }
            taken
        });
        Peer { at, over, thread: Some(thread) }
    }

    /// How many datagrams it took.
    fn taken(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[test]
fn both_ends_agree_and_every_byte_is_compared() {
    let (first, second) = (free_port(), free_port());
    let report = run(&format!(
        "sessions:\n  \
         ask: {{ from: a, to: a, transport: udp, servers: {{ addresses: 127.0.0.1, ports: {first} }}, rate: 200/s, count: 50, \
         timeout: 2s, program: {{ request-response: {{ request: 50B, response: 900B, requests: 4 }} }} }}\n  \
         reflect: {{ from: a, to: a, transport: udp, servers: {{ addresses: 127.0.0.1, ports: {second} }}, users: 3, count: 6, \
         timeout: 2s, program: {{ echo: {{ size: {{ uniform: {{ min: 20B, max: 3kB }} }}, messages: 20, gap: 2ms }} }} }}\n"
    ));
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    let client = side(&report, "ask", SessionEnd::Client);
    let server = side(&report, "ask", SessionEnd::Server);
    assert_eq!(
        (client.starts.opened, client.starts.established, client.ends.in_order),
        (50, 50, 50)
    );
    assert_eq!((client.messages.requests, client.messages.responses), (200, 200));
    assert_eq!((server.messages.requests, server.messages.responses), (200, 200));
    assert_eq!((client.bytes.sent, server.bytes.delivered), (200 * 50, 200 * 50));
    assert_eq!((server.bytes.sent, client.bytes.delivered), (200 * 900, 200 * 900));
    // all but the numbers
    assert_eq!((client.bytes.verified, server.bytes.verified), (200 * 892, 200 * 42));
    assert_eq!((client.transport.as_deref(), client.times.connect.is_none()), (Some("udp"), true));
    assert_eq!(client.times.response.as_ref().unwrap().planned_ns.count, 200);
    assert_eq!(server.ends.in_order, server.starts.opened, "a server has nothing left to do");
    let client = side(&report, "reflect", SessionEnd::Client);
    assert_eq!((client.ends.in_order, client.messages.responses), (6, 120));
    assert_eq!((client.messages.damaged, client.messages.unexpected), (0, 0));
    assert_eq!(client.bytes.sent, client.bytes.delivered);
}

#[test]
fn every_third_datagram_lost_is_as_many_responses_lost() {
    // of each response, and of each request
    let peer = Peer::new(|number, bytes| match number % 3 {
        2 => Vec::new(),
        _ => vec![bytes.to_vec()],
    });
    let report = run(&format!(
        "sessions:\n  x: {{ from: a, transport: udp, servers: {{ addresses: 127.0.0.1, ports: {} }}, users: 1, count: 1, \
         timeout: 400ms, on-timeout: next, program: {{ echo: {{ messages: 30 }} }}, \
         expect: [ 'lost-responses == 10', 'in-order == 1', 'failed == 0' ] }}\n",
        peer.at.port()
    ));
    let client = side(&report, "x", SessionEnd::Client);
    assert!(client.expectations.iter().all(|expectation| expectation.met), "{client:#?}");
    let messages = client.messages;
    assert_eq!((messages.requests, messages.responses, messages.lost), (30, 20, 10));
    assert_eq!(messages.late, 0);
    assert_eq!(peer.taken(), 30);
}

#[test]
fn a_session_ends_with_its_first_lost_response_unless_it_is_told_to_go_on() {
    let peer =
        Peer::new(|number, bytes| if number == 1 { Vec::new() } else { vec![bytes.to_vec()] });
    let report = run(&format!(
        "sessions:\n  x: {{ from: a, transport: udp, servers: {{ addresses: 127.0.0.1, ports: {} }}, users: 1, count: 2, \
         timeout: 400ms, program: {{ echo: {{ messages: 2 }} }} }}\n",
        peer.at.port()
    ));
    let client = side(&report, "x", SessionEnd::Client);
    assert_eq!((client.ends.timed_out, client.ends.in_order), (1, 1));
    let messages = client.messages;
    assert_eq!((messages.requests, messages.responses, messages.lost), (4, 3, 1));
}

/// The answer to the first request comes when the second waits, and the second's comes twice: neither is one of another.
#[test]
fn late_and_doubled_responses_are_nobodys() {
    let held = std::sync::Mutex::new(Vec::new());
    let peer = Peer::new(move |number, bytes| match number {
        0 => {
            held.lock().unwrap().extend_from_slice(bytes);
            Vec::new()
        }
        1 => vec![held.lock().unwrap().clone(), bytes.to_vec(), bytes.to_vec()],
        _ => vec![bytes.to_vec()],
    });
    let report = run(&format!(
        "sessions:\n  x: {{ from: a, transport: udp, servers: {{ addresses: 127.0.0.1, ports: {} }}, users: 1, count: 1, \
         timeout: 300ms, on-timeout: next, program: {{ request-response: {{ request: 64B, response: 64B, requests: 3 }} }} }}\n",
        peer.at.port()
    ));
    let messages = side(&report, "x", SessionEnd::Client).messages;
    assert_eq!((messages.requests, messages.responses, messages.lost), (3, 2, 1));
    assert_eq!(messages.late, 2);
}

#[test]
fn a_port_where_nobody_listens_refuses_sessions() {
    let report = run(&format!(
        "sessions:\n  x: {{ from: a, transport: udp, servers: {{ addresses: 127.0.0.1, ports: {} }}, rate: 100/s, count: 10, \
         timeout: 5s, program: echo }}\n",
        free_port()
    ));
    let client = side(&report, "x", SessionEnd::Client);
    assert_eq!((client.starts.opened, client.starts.established), (10, 0));
    assert_eq!((client.ends.refused, client.messages.lost), (10, 0));
}

/// A server answers what its owner said that requests are, each once, and nothing else.
#[test]
fn a_server_answers_requests_of_their_size_alone() {
    let port = free_port();
    let text = format!(
        "ports: {{ a: {{}} }}\nsessions:\n  x: {{ to: a, transport: udp, servers: {{ addresses: 127.0.0.1, ports: {port} }}, \
         timeout: 200ms, program: {{ request-response: {{ request: 20B, response: 100B }} }} }}\nrun: {{ time: 1500ms }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let prepared = prepare(&scenario, Options::default()).unwrap();
    let asking = thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        for length in [1, 19, 21, 1400] {
            socket.send(&vec![7; length]).unwrap();
        }
        let mut request = [0; 20];
        request[..8].copy_from_slice(b"number 5");
        socket.send(&request).unwrap();
        let mut into = [0; 2000];
        let length = socket.recv(&mut into).unwrap();
        assert_eq!((length, &into[..8]), (100, &b"number 5"[..]));
        assert!(socket.recv(&mut into).is_err(), "one answer to one request");
    });
    let report = prepared.start(&mut Silent, &Stop::new());
    asking.join().unwrap();
    balances(&report);
    let server = side(&report, "x", SessionEnd::Server);
    assert_eq!((server.messages.requests, server.messages.responses), (1, 1));
    assert_eq!((server.messages.unexpected, server.messages.malformed), (3, 1));
    // silent for long, it was done
    assert_eq!((server.starts.opened, server.ends.in_order), (1, 1));
}

#[test]
fn steps_are_told_from_each_other_by_their_messages() {
    let port = free_port();
    let report = run(&format!(
        "sessions:\n  x:\n    from: a\n    to: a\n    transport: udp\n    servers: {{ addresses: 127.0.0.1, ports: {port} }}\n    \
         users: 1\n    count: 2\n    timeout: 2s\n    program:\n      steps:\n        client:\n        - send-text: hello\n        \
         - think: 20ms\n        - receive: 100B\n        - receive-until: you\n        - request\n        - send: 10B\n        \
         - receive: 30B\n        - response\n        server:\n        - receive-until: hel\n        - send: 100B\n        \
         - send-text: 'hello you'\n        - receive: 10B\n        - send: 30B\n"
    ));
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    let client = side(&report, "x", SessionEnd::Client);
    let server = side(&report, "x", SessionEnd::Server);
    assert_eq!((client.ends.in_order, server.ends.in_order), (2, 2));
    assert_eq!((client.messages.requests, client.messages.responses), (2, 2));
    // the server says a text too, so nothing of it is held against generated data
    assert_eq!((client.messages.damaged, client.bytes.verified), (0, 0));
    assert_eq!((server.messages.damaged, server.bytes.verified), (0, 0));
}

#[test]
fn generated_data_of_steps_is_compared_at_both_ends() {
    let port = free_port();
    let report = run(&format!(
        "sessions:\n  x:\n    from: a\n    to: a\n    transport: udp\n    servers: {{ addresses: 127.0.0.1, ports: {port} }}\n    \
         users: 1\n    count: 2\n    timeout: 2s\n    program:\n      steps:\n        client:\n        - send: 20B\n        \
         - receive: 100B\n        server:\n        - receive: 20B\n        - send: 100B\n"
    ));
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    let client = side(&report, "x", SessionEnd::Client);
    let server = side(&report, "x", SessionEnd::Server);
    assert_eq!((client.messages.damaged, client.bytes.verified), (0, 2 * 100));
    assert_eq!((server.messages.damaged, server.bytes.verified), (0, 2 * 20));
}
