//! Sessions of both ends, put together by the number in their payload, while a proxy of TCP stands between.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use wirebeat_report::model::{SessionEnd, SessionPairs, Verdict};
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Testbed, require};

use crate::sessions::{run, side};
use crate::world::cable;

/// Where both the proxy, beside the clients, and the servers listen: each in a namespace of its own.
const PORTS: [u16; 4] = [7101, 7102, 7103, 7104];

/// Hands on what comes, and the end of it.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    // a session may be reset
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// A proxy for the connections to `port` of the clients' namespace, as long as the test lasts. Every second connection waits a while, so
/// that sessions do not come in the order of their numbers.
fn proxy(bed: &Testbed, port: u16) {
    let at = ("127.0.0.1", port);
    let listener = bed.a.namespace.run(|| TcpListener::bind(at).unwrap()).unwrap();
    let servers = bed.b.namespace.clone();
    thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (Ok(client), servers) = (client, servers.clone()) else { return };
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(if number % 2 == 0 { 40 } else { 0 }));
                let Ok(Ok(server)) = servers.run(|| TcpStream::connect(at)) else { return };
                let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let up = thread::spawn(move || copy(client, forth));
                copy(server, back);
                up.join().unwrap();
            });
        }
    });
}

#[test]
fn sessions_are_paired_by_their_number_through_a_proxy() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    PORTS.into_iter().for_each(|port| proxy(&bed, port));
    let group = |port: u16, program: &str| {
        format!(
            "{{ from: a, to: b, pair: payload, servers: {{ addresses: 127.0.0.1, ports: {port} }}, rate: 100/s, count: 20, \
             program: {{ {program} }} }}"
        )
    };
    let [ask, bulk, echo, messages] = PORTS;
    let text = format!(
        "ports: {{ a: {{ namespace: a }}, b: {{ namespace: b }} }}\nsessions:\n  ask: {}\n  bulk: {}\n  echo: {}\n  messages: {}\n",
        group(
            ask,
            "request-response: { request: { uniform: { min: 8B, max: 3kB } }, response: 5kB, requests: 3 }"
        ),
        group(bulk, "bulk: { bytes: 100kB, direction: both }"),
        group(echo, "echo: { size: 700B, messages: 4 }"),
        group(messages, "messages: { messages: 10, gap: 1ms, direction: both }"),
    );
    let stranger = bed.b.namespace.clone();
    let stranger = thread::spawn(move || {
        // somebody who knows no number
        for _ in 0..100 {
            let peer = stranger.run(|| TcpStream::connect(("127.0.0.1", ask))).unwrap();
            let Ok(mut peer) = peer else {
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let _ = peer.write_all(b"GET / HTTP/1.1\r\n\r\n");
            return thread::sleep(Duration::from_millis(100));
        }
    });
    let report = run(&bed, &text, &Stop::new());
    stranger.join().unwrap();
    // the bytes of the stranger came from elsewhere, and all others add up
    let wrong = report.consistency_checks.iter().filter(|sum| !sum.balances());
    let wrong: Vec<_> = wrong.map(|sum| sum.difference).collect();
    assert_eq!((wrong, report.verdict), (vec![-18], Verdict::CountersInconsistent), "{report:#?}");
    for name in ["ask", "bulk", "echo", "messages"] {
        let (client, server) =
            (side(&report, name, SessionEnd::Client), side(&report, name, SessionEnd::Server));
        let strangers = u64::from(name == "ask");
        let expected = SessionPairs {
            paired: 20,
            in_order: 20,
            equal: 20,
            server_only: strangers,
            ..SessionPairs::default()
        };
        assert_eq!(client.pairs, Some(expected), "{name}: {client:#?} {server:#?}");
        assert_eq!((server.pairs, server.ends.malformed), (None, strangers), "{name}");
        assert_eq!((client.messages.damaged, server.messages.damaged), (0, 0), "{name}");
        assert_eq!(client.messages.unexpected, 0, "{name}");
    }
}
