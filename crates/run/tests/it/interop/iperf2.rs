//! iperf 2: its server reports on our datagrams, and we measure its client's.

use std::net::UdpSocket;

use wirebeat_run::{Codec, ReceiveRequest};
use wirebeat_testbed::{Capability, Process, Program, Testbed, require};
use wirebeat_traffic::scenario::EngineChoice;

use super::{
    BUFFER, FEW, PATIENCE, cable_to_a_program, near, number_after, received, receiver, timely,
    while_receiving, whole,
};
use crate::world::{balanced, run};

/// So often at most a client of iperf says farewell, a quarter of a second apart and each time with the next number
/// (`write_UDP_FIN` in its src/Client.cpp).
const FAREWELLS: u64 = 10;

/// What iperf's server prints on a client.
#[derive(Debug, PartialEq, Eq)]
struct Printed {
    lost: u64,
    datagrams: u64,
}

/// Waits for the server's line on its only client, such as
/// `[  1] 0.0000-0.1800 sec  17.6 KBytes   800 Kbits/sec   0.012 ms    0/   91 (0%)`.
fn printed(server: Process) -> (Printed, String) {
    server.wait_for("%)", PATIENCE).unwrap();
    // it does not end by being interrupted once
    server.kill();
    let text = server.wait(PATIENCE).unwrap().stdout;
    let line = text.lines().find(|line| line.contains("%)")).unwrap();
    let (before, after) = line.rsplit_once('/').unwrap();
    let lost = before.rsplit(' ').next().unwrap().parse().unwrap();
    let datagrams = number_after(after, "").unwrap();
    (Printed { lost, datagrams }, line.to_owned())
}

fn server(bed: &Testbed) -> Process {
    let server = Program::new(&bed.b.namespace, "iperf");
    let server = server.args(["-s", "-u", "-p", "5001", "-w", BUFFER]).spawn().unwrap();
    server.wait_for("UDP buffer size", PATIENCE).unwrap();
    server
}

#[test]
fn the_server_of_iperf_2_reports_on_our_datagrams() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("iperf")
    );
    let bed = cable_to_a_program();
    for engine in ["socket", "packet", "kernel"] {
        let server = server(&bed);
        let report = run(
            &format!(
                "{}flows:\n  x: {{ from: a, rate: 500pps, count: {FEW}, size: 242B, probe: iperf2, packet: [ \
                 {{ ipv4: {{ destination: {} }} }}, {{ udp: {{ destination: 5001 }} }} ] }}\n",
                near(engine),
                bed.b.ipv4
            ),
            Some(&bed),
        );
        balanced(&report);
        // one more than the schedule has: the one that ends the test
        let sent = report.total.sent.as_ref().unwrap().sent.frames;
        assert_eq!(sent, FEW + 1, "{engine}");
        let (printed, line) = printed(server);
        assert_eq!(printed, Printed { lost: 0, datagrams: sent }, "{engine}: {line}");
    }
}

#[test]
fn the_client_of_iperf_2_is_measured_as_its_server_does() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let bed = cable_to_a_program();
    let server = server(&bed);
    let request = receiver(&bed, Codec::Iperf2, Some(5001));
    let (sent, report) = while_receiving(&request, || {
        let client = Program::new(&bed.a.namespace, "iperf");
        let to = bed.b.ipv4.to_string();
        let client = client.args(["-c", &to, "-u", "-p", "5001", "-b", "200pps", "-l", "200"]);
        let text = client.args(["-t", "1"]).output(PATIENCE).unwrap().stdout;
        let said = number_after(&text, "Sent ").unwrap_or_else(|| panic!("{text}"));
        let (printed, line) = printed(server);
        assert_eq!(printed.lost, 0, "{line}");
        // 2.1.8 says that it sent one more than it numbers
        assert!((said - 1..=said).contains(&printed.datagrams), "{text}\n{line}");
        (printed.datagrams, printed.datagrams)
    });
    let received = received(&report, 0);
    // the server counts the first that says farewell; more come until its answer does
    assert!(received.ends_repeated < FAREWELLS, "{}", received.ends_repeated);
    timely(received, sent);
    assert_eq!(received.received.payload_bytes, sent * 200);
    assert_eq!(received.one_way_delay_ns, None);
}

/// What a client of iperf prints that was answered: lost and all datagrams of its server's report.
fn told(text: &str) -> (u64, u64) {
    let line = text.lines().rfind(|line| line.contains("%)"));
    let line = line.unwrap_or_else(|| panic!("no report: {text}"));
    let (before, after) = line.rsplit_once('/').unwrap();
    let lost = before.rsplit(' ').next().unwrap().parse().unwrap();
    (lost, number_after(after, "").unwrap())
}

/// Without an answer it says farewell 200 times, and all of them were data once: 1,249 datagrams for 1,050.
#[test]
fn a_client_of_iperf_2_without_a_server_is_answered_at_once() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let bed = cable_to_a_program();
    for (engine, len) in [
        (EngineChoice::Socket, "200"),
        (EngineChoice::Socket, "60"),
        (EngineChoice::Packet, "200"),
        (EngineChoice::Packet, "60"),
    ] {
        let interface = (engine == EngineChoice::Packet).then(|| "wb1".to_owned());
        let request =
            ReceiveRequest { engine, interface, ..receiver(&bed, Codec::Iperf2, Some(5001)) };
        let (text, report) = while_receiving(&request, || {
            let client = Program::new(&bed.a.namespace, "iperf");
            let to = bed.b.ipv4.to_string();
            let client = client.args(["-c", &to, "-u", "-p", "5001", "-b", "200pps", "-l", len]);
            let text = client.args(["-t", "1"]).output(PATIENCE).unwrap().stdout;
            let sent = number_after(&text, "Sent ").unwrap_or_else(|| panic!("{text}"));
            (text, sent - 1)
        });
        let flow = received(&report, 0);
        whole(flow, flow.unique);
        let lost = report.flows[0].loss.as_ref().unwrap().frames;
        assert_eq!(told(&text), (lost, lost + flow.unique), "{engine:?}: {text}");
        // on 'packet' nobody has the port: the system refuses what comes, and iperf counts what it is then kept from sending
        assert!(lost == 0 || engine == EngineChoice::Packet && lost < 20, "{engine:?}: {text}");
        // a busy machine may keep the answer waiting for a few
        assert!(flow.ends_repeated < 50, "{engine:?}: {}", flow.ends_repeated);
    }
}

/// The engine 'socket' made one flow of them, with 915 "duplicates".
#[test]
fn three_streams_of_a_client_of_iperf_2_without_a_server_are_three_flows() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let bed = cable_to_a_program();
    for engine in [EngineChoice::Socket, EngineChoice::Packet] {
        let interface = (engine == EngineChoice::Packet).then(|| "wb1".to_owned());
        let request = receiver(&bed, Codec::Iperf2, Some(5001));
        let request = ReceiveRequest { same_clock: true, engine, interface, ..request };
        let (text, report) = while_receiving(&request, || {
            let client = Program::new(&bed.a.namespace, "iperf");
            let to = bed.b.ipv4.to_string();
            let client = client.args(["-c", &to, "-u", "-p", "5001", "-b", "200pps", "-l", "200"]);
            let text = client.args(["-t", "1", "-P", "3"]).output(PATIENCE).unwrap().stdout;
            let sent = number_after(&text, "[SUM-3] Sent ").unwrap_or_else(|| panic!("{text}"));
            // each thread may say one more than it numbers
            (text, sent - 3)
        });
        let flows: Vec<_> = report.flows.iter().filter_map(|flow| flow.received.as_ref()).collect();
        assert_eq!(flows.len(), 3, "{engine:?}: {text}");
        let said = number_after(&text, "[SUM-3] Sent ").unwrap();
        let unique: u64 = flows.iter().map(|flow| flow.unique).sum();
        assert!((said - 3..=said).contains(&unique), "{engine:?} {unique}: {text}");
        assert_eq!(text.matches("Server Report:").count(), 3, "{engine:?}: {text}");
        let clock = report.delay_clock.as_ref().unwrap();
        assert!(clock.explanation.contains("the clock of the day in microseconds, which is known"));
        assert!(clock.uncertainty_ns.is_some_and(|ns| ns > 1_000), "{clock:?}");
        for flow in flows {
            whole(flow, flow.unique);
            // the namespaces are of one host, and so is their clock
            assert!(flow.one_way_delay_ns.is_some());
            assert!(flow.jitter_rfc3550_ns.is_some());
        }
    }
}

/// A program that has the port gives the answer, or none: two would be one too many.
#[test]
fn nobody_answers_a_client_of_iperf_2_in_the_place_of_the_program_that_has_the_port() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let bed = cable_to_a_program();
    let silent = bed.b.namespace.run(|| UdpSocket::bind("0.0.0.0:5001")).unwrap().unwrap();
    let request = receiver(&bed, Codec::Iperf2, Some(5001));
    let (text, report) = while_receiving(&request, || {
        let client = Program::new(&bed.a.namespace, "iperf");
        let to = bed.b.ipv4.to_string();
        let client = client.args(["-c", &to, "-u", "-p", "5001", "-b", "200pps", "-l", "200"]);
        let text = client.args(["-t", "1"]).output(PATIENCE).unwrap().stdout;
        let sent = number_after(&text, "Sent ").unwrap_or_else(|| panic!("{text}"));
        (text, sent - 1)
    });
    drop(silent);
    assert!(!text.contains("Server Report"), "{text}");
    let flow = received(&report, 0);
    whole(flow, flow.unique);
    assert!(flow.ends_repeated > 100, "{}", flow.ends_repeated);
}
