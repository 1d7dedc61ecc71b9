//! Round trips of flows: a reflector, which is a server of the program `echo` over UDP, sends frames back to the port that they left by.

use std::thread;
use std::time::{Duration, Instant};

use wirebeat_report::model::SessionEnd;
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, require};

use crate::own_sessions::free;
use crate::sessions::{run, side};
use crate::world::{Engine, balanced, cable, prepared};

const FRAMES: u64 = 2000;

/// Waits until the reflector answers: its port is there when a datagram to it is no longer refused.
fn answers(bed: &Testbed, address: &str) {
    let ask = || {
        let socket = std::net::UdpSocket::bind((bed.a.ipv4, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let _ = socket.send_to(b"is anybody there?", (address, 7));
        socket.recv(&mut [0; 64]).is_ok()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !bed.a.namespace.run(ask).unwrap() {
        assert!(Instant::now() < deadline, "the reflector does not answer");
    }
}

/// Sends frames of `engine` to a reflector at `address`, whose group has these `keys` and whose port these.
fn comes_back(bed: &Testbed, engine: Engine, (address, port, keys): (&str, &str, &str)) {
    let reflector = format!(
        "ports: {{ b: {{ namespace: b{port} }} }}\nsessions:\n  echo: {{ to: b, transport: udp, {keys} servers: {{ addresses: {address}, \
         ports: 7 }}, program: echo, timeout: 1s }}\nrun: {{ time: 60s }}\n"
    );
    let text = format!(
        "ports: {{ a: {{ interface: wb0, namespace: a, engine: {} }} }}\nflows:\n  pings: {{ from: a, to: a, packet: [ {{ ipv4: {{ destination: \
         {address} }} }}, {{ udp: {{ source: 49152, destination: 7 }} }} ], size: 128B, rate: 2kpps, count: {FRAMES} }}\n",
        engine.name()
    );
    let stop = Stop::new();
    let report = thread::scope(|scope| {
        let serving = scope.spawn(|| run(bed, &reflector, &stop));
        answers(bed, address);
        let report = prepared(&text, Some(bed)).start(&mut Silent, &Stop::new());
        stop.ask(2);
        let served = serving.join().unwrap();
        // and the datagrams that asked whether it is there
        let server = side(&served, "echo", SessionEnd::Server);
        assert!(server.messages.responses > FRAMES, "{server:#?}");
        report
    });
    balanced(&report);
    let flow = &report.flows[0];
    let received = flow.received.as_ref().unwrap();
    assert_eq!(flow.sent.as_ref().unwrap().sent.frames, FRAMES);
    assert_eq!((received.unique, received.duplicates), (FRAMES, 0), "{:?}", flow.loss);
    // there and back takes some time, by one clock
    let delay = received.one_way_delay_ns.as_ref().unwrap();
    assert_eq!(delay.count, FRAMES);
    assert!(delay.min.unwrap() > 1_000 && delay.uncertain_below.is_none(), "{delay:?}");
}

#[test]
fn frames_that_the_systems_udp_reflects_have_round_trips() {
    require!(Capability::NetworkNamespaces, Capability::VirtualCable);
    let bed = cable();
    let address = bed.b.ipv4.to_string();
    comes_back(&bed, Engine::Packet, (&address, "", ""));
}

#[test]
fn frames_that_our_own_udp_reflects_have_round_trips() {
    require!(Capability::NetworkNamespaces, Capability::VirtualCable);
    let bed = cable();
    let pool = free(&bed, 77, 1);
    let address = pool.split('-').next().unwrap();
    let port = format!(", interface: {}, engine: packet", bed.b.link.name);
    comes_back(&bed, Engine::Packet, (address, &port, "stack: own,"));
}
