//! DNS: both ends ours over UDP and TCP, a real server for our clients, a real client for our server, and servers that answer wrongly.

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_report::model::{SessionEnd, Verdict};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, require};
use wirebeat_traffic::scenario::Scenario;

use crate::sessions::{balances, side};
use crate::udp_sessions::{free_port, run};

#[test]
fn both_ends_agree_over_udp_and_over_tcp() {
    let port = free_port();
    let group = |transport: &str| {
        format!(
            "  {transport}: {{ from: a, to: a, transport: {transport}, servers: {{ addresses: 127.0.0.1, ports: {port} }}, users: 2, \
             count: 10, timeout: 3s, program: {{ dns: {{ name: 'host-{{n}}.example.com', type: AAAA, requests: 5, \
             answers: [10.0.0.1, 2001:db8::1], ttl: 5s }} }}, expect: [ rcode.noerror == 50, rcode.nxdomain == 0 ] }}\n"
        )
    };
    let report = run(&format!("sessions:\n{}{}", group("udp"), group("tcp")));
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    for transport in ["udp", "tcp"] {
        let client = side(&report, transport, SessionEnd::Client);
        let server = side(&report, transport, SessionEnd::Server);
        assert_eq!((client.ends.in_order, client.starts.established), (10, 10), "{transport}");
        assert_eq!((client.messages.requests, client.messages.responses), (50, 50));
        assert_eq!((server.messages.requests, server.messages.responses), (50, 50));
        assert_eq!((client.messages.unexpected, client.messages.malformed), (0, 0));
        assert!(client.expectations.iter().all(|expectation| expectation.met), "{client:#?}");
        let [status] = &client.statuses[..] else { panic!("{client:#?}") };
        assert_eq!((status.name.as_deref(), status.count), (Some("NOERROR"), 50));
        // header, question with "host-N.example.com", and one record; TCP has lengths
        let prefix = if transport == "tcp" { 50 * 2 } else { 0 };
        assert_eq!(client.bytes.delivered - client.bytes.sent, 50 * 28, "{transport}");
        assert!(client.bytes.sent > 50 * (12 + 20 + 4) + prefix, "{transport}");
    }
}

#[test]
fn a_response_code_that_is_not_expected_is_counted_by_its_name() {
    let port = free_port();
    let report = run(&format!(
        "sessions:\n  x: {{ from: a, to: a, transport: udp, servers: {{ addresses: 127.0.0.1, ports: {port} }}, users: 1, count: 4, \
         timeout: 2s, program: {{ dns: {{ rcode: nxdomain, expect-rcode: noerror }} }}, \
         expect: [ rcode.nxdomain == 4, unexpected == 4 ] }}\n"
    ));
    let client = side(&report, "x", SessionEnd::Client);
    assert!(client.expectations.iter().all(|expectation| expectation.met), "{client:#?}");
    assert_eq!(client.statuses[0].name.as_deref(), Some("NXDOMAIN"));
}

/// Garbage, a response to something else and one to another question come before the right one: none is taken for it.
#[test]
fn what_is_not_the_response_is_left_aside() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let serving = thread::spawn(move || {
        let mut into = [0; 512];
        for _ in 0..3 {
            let (length, from) = server.recv_from(&mut into).unwrap();
            let mut response = into[..length].to_vec();
            response[2] |= 0x80;
            let mut other_id = response.clone();
            other_id[0] ^= 1;
            let mut other_name = response.clone();
            other_name[13] ^= 1;
            let query = &into[..length];
            for wrong in [&b"garbage"[..], query, &other_id, &other_name, &response[..length - 1]] {
                server.send_to(wrong, from).unwrap();
            }
            server.send_to(&response, from).unwrap();
        }
    });
    let report = run(&format!(
        "sessions:\n  x: {{ from: a, transport: udp, servers: {{ addresses: 127.0.0.1, ports: {} }}, users: 1, count: 1, timeout: 5s, \
         program: {{ dns: {{ requests: 3, think: 30ms }} }} }}\n",
        at.port()
    ));
    serving.join().unwrap();
    let client = side(&report, "x", SessionEnd::Client);
    assert_eq!((client.messages.requests, client.messages.responses), (3, 3));
    assert_eq!((client.messages.malformed, client.messages.late), (3 * 4, 3));
    assert_eq!(client.ends.in_order, 1);
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn dnsmasq_answers_our_clients() {
    require!(Capability::Program("dnsmasq"));
    let port = free_port();
    let dnsmasq = Command::new("dnsmasq")
        .args([
            "--keep-in-foreground",
            "--no-resolv",
            "--no-hosts",
            "--conf-file=/dev/null",
            "--bind-interfaces",
        ])
        .args(["--listen-address=127.0.0.1", "--user=root", "--pid-file=", "--local=/example.com/"])
        .args([&format!("--port={port}"), "--address=/www.example.com/10.9.8.7"])
        .args(["--txt-record=text.example.com,hello", "--cache-size=0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _running = Running(dnsmasq);
    let begun = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "dnsmasq does not listen");
        thread::sleep(Duration::from_millis(20));
    }
    let group = |name: &str, transport: &str, asks: &str| {
        format!(
            "  {name}: {{ from: a, transport: {transport}, servers: {{ addresses: 127.0.0.1, ports: {port} }}, rate: 100/s, count: 20, \
             timeout: 5s, program: {{ dns: {{ requests: 2, {asks} }} }} }}\n"
        )
    };
    let report = run(&format!(
        "sessions:\n{}{}{}",
        group("found", "udp", "name: www.example.com"),
        group("text", "tcp", "name: text.example.com, type: TXT"),
        group("missing", "udp", "name: 'no-{n}.example.com', expect-rcode: nxdomain"),
    ));
    for (name, code) in [("found", "NOERROR"), ("text", "NOERROR"), ("missing", "NXDOMAIN")] {
        let client = side(&report, name, SessionEnd::Client);
        assert_eq!((client.ends.in_order, client.messages.responses), (20, 40), "{client:#?}");
        assert_eq!((client.messages.unexpected, client.messages.malformed), (0, 0), "{name}");
        assert_eq!(client.statuses[0].name.as_deref(), Some(code), "{name}");
    }
}

#[test]
fn dig_is_answered_by_our_server_over_udp_and_tcp() {
    require!(Capability::Program("dig"));
    let port = free_port();
    let group = |transport: &str| {
        format!(
            "  {transport}: {{ to: a, transport: {transport}, servers: {{ addresses: 127.0.0.1, ports: {port} }}, timeout: 1s, \
             program: {{ dns: {{ answers: [10.1.2.3, 10.1.2.4, 2001:db8::7], ttl: 77s }} }} }}\n"
        )
    };
    let text = format!("ports: {{ a: {{}} }}\nsessions:\n{}{}", group("udp"), group("tcp"));
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let prepared = prepare(&scenario, Options::default()).unwrap();
    let stop = Stop::new();
    let stopping = stop.clone();
    let asking = thread::spawn(move || {
        let dig = |more: &[&str]| {
            let output = Command::new("dig")
                .args(["@127.0.0.1", "-p", &port.to_string(), "+tries=1", "+time=5"])
                .args(more)
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let plain = dig(&["+norecurse", "some.example.com"]);
        let both = [
            dig(&["+short", "x.example", "A"]),
            dig(&["+short", "x.example", "AAAA"]),
            dig(&["+short", "+tcp", "x.example", "A"]),
            dig(&["+short", "+noedns", "x.example", "MX"]),
        ];
        let version = dig(&["+edns=1", "+noednsnegotiation", "x.example"]);
        stopping.ask(2);
        (plain, both, version)
    });
    let report = prepared.start(&mut Silent, &stop);
    let (plain, both, version) = asking.join().unwrap();
    balances(&report);
    for says in [
        "status: NOERROR",
        "some.example.com.\t77\tIN\tA\t10.1.2.3",
        "ANSWER: 2",
        "EDNS: version: 0",
    ] {
        assert!(plain.contains(says), "{says}: {plain}");
    }
    assert!(!plain.contains("WARN"), "{plain}");
    assert_eq!(both, ["10.1.2.3\n10.1.2.4\n", "2001:db8::7\n", "10.1.2.3\n10.1.2.4\n", ""]);
    assert!(version.contains("status: BADVERS"), "{version}");
    assert_eq!(side(&report, "udp", SessionEnd::Server).messages.responses, 5);
    assert_eq!(side(&report, "tcp", SessionEnd::Server).messages.responses, 1);
}
