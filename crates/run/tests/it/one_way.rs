//! Messages one way: both ends ours over the system's TCP and UDP and over our own TCP, and a sender on another clock.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use wirebeat_report::format::Rendering;
use wirebeat_report::model::{FindingKind, Report, SessionEnd, SessionReport, Verdict};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;

use crate::sessions::{balances, side};
use crate::udp_sessions::{free_port, run};

fn ends<'a>(report: &'a Report, name: &str) -> [&'a SessionReport; 2] {
    [side(report, name, SessionEnd::Client), side(report, name, SessionEnd::Server)]
}

/// What an end sent and received, and how many delays, gaps and jitters it has.
fn counted(of: &SessionReport) -> (u64, u64, u64, u64) {
    let Some(messages) = &of.one_way else { return (0, 0, 0, 0) };
    let delays = of.times.delay.as_ref().map_or(0, |delay| delay.actual_ns.count);
    assert_eq!(messages.gap_ns.count, messages.jitter_ns.count);
    assert_eq!(messages.length_bytes.count, messages.received);
    (messages.sent, messages.received, delays, messages.gap_ns.count)
}

#[test]
fn each_message_has_a_delay_over_tcp_and_udp() {
    let (up, both, udp) = (free_port(), free_port(), free_port());
    let at =
        |port: u16| format!("from: a, to: a, servers: {{ addresses: 127.0.0.1, ports: {port} }}");
    let report = run(&format!(
        "sessions:\n  \
         up: {{ {}, users: 2, count: 2, program: {{ messages: {{ messages: 50, gap: {{ exponential: {{ mean: 2ms }} }} }} }}, \
         expect: [ received-messages == 100, lost-messages == 0, delay.max < 10s, delay.p50.actual < 1s, jitter.p50 < 1s, gap.max < 10s ] }}\n  \
         both: {{ {}, users: 1, count: 1, program: {{ messages: {{ time: 195ms, direction: both, size: {{ uniform: {{ min: 32B, max: 9kB }} }} }} }} }}\n  \
         udp: {{ {}, transport: udp, timeout: 500ms, users: 1, count: 2, program: {{ messages: {{ messages: 20, gap: 1ms, size: 200B }} }} }}\n",
        at(up),
        at(both),
        at(udp)
    ));
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    let found = |name| ends(&report, name).map(counted);
    assert_eq!(found("up"), [(100, 0, 0, 0), (0, 100, 100, 98)]);
    assert_eq!(found("both"), [(20, 20, 20, 19), (20, 20, 20, 19)]);
    assert_eq!(found("udp"), [(40, 0, 0, 0), (0, 40, 40, 38)]);
    for end in ends(&report, "up").into_iter().chain(ends(&report, "both")) {
        assert_eq!(end.ends.in_order, end.starts.opened, "{end:#?}");
        assert_eq!(end.messages.damaged, 0);
    }
    let delay = side(&report, "up", SessionEnd::Server).times.delay.as_ref().unwrap();
    // no message arrives before it was sent, and none is sent before its plan
    assert!(delay.actual_ns.min.unwrap() > 0, "{delay:?}");
    assert!(delay.planned_ns.mean >= delay.actual_ns.mean, "{delay:?}");
    let text = wirebeat_report::text::report(&report, Rendering::default());
    assert!(text.contains("one way: 100 messages sent"), "{text}");
    assert!(text.contains("100 messages received of 64"), "{text}");
}

#[test]
fn our_own_tcp_takes_as_long_as_the_cable() {
    let text = "ports:\n  a: { engine: loopback, cable: { delay: 25ms } }\n  b: { engine: loopback, cable: { delay: 10ms } }\n\
                sessions:\n  x: { from: a, to: b, stack: own, clients: { addresses: 10.0.1.1 }, \
                servers: { addresses: 10.0.2.9, ports: 80 }, users: 1, count: 1, \
                program: { messages: { messages: 100, direction: both } } }\nrun: { time: 10s }\n";
    let scenario = Scenario::from_yaml(text, "").unwrap();
    let report = prepare(&scenario, Options::default()).unwrap().start(&mut Silent, &Stop::new());
    balances(&report);
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    for (end, takes) in ends(&report, "x").into_iter().zip([10_000_000, 25_000_000]) {
        assert_eq!(counted(end), (100, 100, 100, 99));
        let delay = &end.times.delay.as_ref().unwrap().actual_ns;
        let (min, max) = (delay.min.unwrap(), delay.max.unwrap());
        assert!(min >= takes && max < takes + 2_000_000, "{delay:?}");
        let messages = end.one_way.as_ref().unwrap();
        let gap = messages.gap_ns.mean.unwrap();
        assert!((9_900_000.0..10_100_000.0).contains(&gap), "{gap}");
        assert!(messages.jitter_ns.max.unwrap() < 1_000_000, "{:?}", messages.jitter_ns);
    }
}

/// Serves messages while `client` does what it does.
fn served(client: impl FnOnce(u16) + Send) -> Report {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "ports: {{ b: {{}} }}\nsessions:\n  x: {{ to: b, servers: {{ addresses: 127.0.0.1, ports: {port} }}, program: messages }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let prepared = prepare(&scenario, Options::default()).unwrap();
    let stop = Stop::new();
    thread::scope(|scope| {
        let server = scope.spawn(|| prepared.start(&mut Silent, &stop));
        thread::sleep(Duration::from_millis(300));
        client(port);
        thread::sleep(Duration::from_millis(500));
        stop.ask(2);
        server.join().unwrap()
    })
}

#[test]
fn a_run_of_its_own_on_this_host_reads_the_same_clock() {
    let report = served(|port| {
        let text = format!(
            "ports: {{ a: {{}} }}\nsessions:\n  x: {{ from: a, servers: {{ addresses: 127.0.0.1, ports: {port} }}, users: 1, \
             count: 1, program: {{ messages: {{ messages: 30, gap: 2ms }} }} }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap();
        let report = prepare(&scenario, Options::default()).unwrap();
        let report = report.start(&mut Silent, &Stop::new());
        assert_eq!(counted(&report.sessions[0]), (30, 0, 0, 0), "{report:#?}");
    });
    balances(&report);
    assert_eq!(counted(&report.sessions[0]), (0, 30, 30, 29), "{report:#?}");
}

#[test]
fn times_of_another_clock_give_no_delay_and_what_is_no_message_ends_the_session() {
    let report = served(|port| {
        let mut peer = TcpStream::connect(("127.0.0.1", port)).unwrap();
        for number in 0..3_u64 {
            let mut message = vec![0, 0, 0, 40, 0xde, 0xad, 0xbe, 0xef];
            message.extend((0x574d << 48 | number).to_be_bytes());
            message.extend([0xff; 24]);
            peer.write_all(&message).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        drop(peer);
        let mut other = TcpStream::connect(("127.0.0.1", port)).unwrap();
        other.write_all(&[b'x'; 100]).unwrap();
        thread::sleep(Duration::from_millis(200));
    });
    balances(&report);
    let server = &report.sessions[0];
    assert_eq!(counted(server), (0, 3, 0, 2), "{server:#?}");
    assert_eq!((server.ends.in_order, server.ends.malformed), (1, 1), "{server:#?}");
    let messages = server.one_way.as_ref().unwrap();
    assert_eq!((messages.of_other_clocks, messages.lost), (3, 0));
    assert!(messages.gap_ns.min.unwrap() > 10_000_000, "{messages:?}");
    let told = report.findings.iter().find(|told| told.kind == FindingKind::ClockUncertain);
    assert!(told.is_some_and(|told| told.message.contains("another host's clock")), "{report:#?}");
}
