//! Packets that are longer than the link carries: they leave as fragments and are measured whole, between our own
//! engines, and with Linux's stack at either end.

use wirebeat_report::model::Report;
use wirebeat_run::{Options, RunError, prepare};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::Scenario;

use crate::interop::cable_to_a_program;
use crate::world::{balanced, cable, run};

const COUNT: u64 = 400;

/// Ports with these engines.
fn ports(from: &str, to: &str) -> String {
    match from {
        "loopback" => {
            "ports: { a: { engine: loopback, mtu: 1500B }, b: { engine: loopback } }\n".to_owned()
        }
        _ => format!(
            "ports:\n  a: {{ interface: wb0, namespace: a, engine: {from} }}\n  \
             b: {{ interface: wb1, namespace: b, engine: {to} }}\n"
        ),
    }
}

const FLOWS: &str = "flows:
  v4:    { from: a, to: b, packet: [ { ipv4: {} }, { udp: { destination: 9001 } } ],
           size: 4000B@payload, rate: 2kpps, count: 400 }
  v6:    { from: a, to: b, packet: [ { ipv6: {} }, { udp: { destination: 9002 } } ],
           size: 3001B@payload, rate: 1kpps, count: 400 }
  mixed: { from: a, to: b, packet: [ { ipv4: {} }, { udp: { destination: 9003 } } ],
           size: { list: [200B, 2000B, 1518B, 9000B] }, rate: 1kpps, count: 400 }
";

/// Frames beside the first of each packet, and bytes with FCS, of all packets of a flow.
const EXPECTED: [(u64, u64); 3] = [
    // 4,008 bytes behind an IP header of 20
    (2 * COUNT, COUNT * (4008 + 3 * 38)),
    // 3,009 behind one of 40 with one of 8 for the fragment
    (2 * COUNT, COUNT * (3009 + 3 * 66)),
    // 1,962 and 8,962 bytes in 2 and 7 frames
    (COUNT / 4 * (1 + 6), COUNT / 4 * (200 + 1518 + (1962 + 2 * 38) + (8962 + 7 * 38))),
];

fn check(report: &Report, datagrams: bool) {
    balanced(report);
    for (flow, (fragments, bytes)) in report.flows.iter().zip(EXPECTED) {
        let (sent, received) = (flow.sent.as_ref().unwrap(), flow.received.as_ref().unwrap());
        assert_eq!(
            (sent.requested.frames, sent.sent.frames, received.unique),
            (COUNT, COUNT, COUNT),
            "{flow:#?}"
        );
        assert_eq!((sent.sent.fragments, sent.sent.frame_bytes), (fragments, bytes), "{flow:#?}");
        assert_eq!(received.received.payload_bytes, sent.sent.payload_bytes);
        if !datagrams {
            assert_eq!(received.received.fragments, fragments);
            assert_eq!(received.received.frame_bytes, bytes);
        }
        assert_eq!(received.duplicates, 0);
        assert_eq!(received.one_way_delay_ns.as_ref().unwrap().count, COUNT);
        assert_eq!(sent.send_lateness_ns.count, COUNT, "one for each packet");
    }
    assert_eq!(report.others.as_ref().unwrap().fragments, 0);
}

fn between(from: &str, to: &str, bed: Option<&Testbed>) {
    let report = run(&format!("{}{FLOWS}", ports(from, to)), bed);
    check(&report, to == "socket");
}

#[test]
fn over_a_link_in_memory() {
    between("loopback", "loopback", None);
}

#[test]
fn from_every_engine_to_the_packet_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for from in ["kernel", "packet", "socket"] {
        between(from, "packet", Some(&cable_to_a_program()));
    }
}

#[test]
fn from_every_engine_to_the_stack_of_linux() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for from in ["kernel", "packet", "socket"] {
        between(from, "socket", Some(&cable_to_a_program()));
    }
}

/// Who leaves the choice to us gets engines that can.
#[test]
fn between_ports_whose_engines_are_not_said() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    between("auto", "auto", Some(&cable()));
}

#[test]
fn two_cores_share_a_flow_of_fragments() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for engine in ["kernel", "packet"] {
        let ports = ports(engine, "packet").replace("namespace: a", "namespace: a, queues: 2");
        let bed = cable_to_a_program();
        check(&run(&format!("{ports}{FLOWS}"), Some(&bed)), false);
    }
}

/// What is late is dropped as a whole: no fragment reaches the receiver whose packet does not.
fn late_packets_leave_no_fragments(ports: &str, limits: [&str; 4], bed: Option<&Testbed>) {
    let [size, rate, time, drift] = limits;
    let report = run(
        &format!(
            "{ports}flows:
  fast: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: {size}, rate: {rate} }}
run: {{ time: {time}, late: drop, drift: {drift} }}
"
        ),
        bed,
    );
    balanced(&report);
    let sent = report.total.sent.as_ref().unwrap();
    assert_eq!(sent.requested.frames, 40_000, "{ports}: {sent:#?}");
    assert_eq!(sent.sent.fragments, 2 * sent.sent.frames);
    assert_eq!(sent.requested.fragments, 2 * 40_000);
}

#[test]
fn what_is_late_is_dropped_as_a_whole() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for from in ["kernel", "packet"] {
        let limits = ["4000B", "2Mpps", "20ms", "300us"];
        let ports = ports(from, "packet");
        late_packets_leave_no_fragments(&ports, limits, Some(&cable_to_a_program()));
    }
    // the clock of a link in memory moves when it is looked at, twenty nanoseconds at a time
    let ports = ports("loopback", "loopback").replace("1500B", "128B");
    late_packets_leave_no_fragments(&ports, ["300B", "400Mpps", "100us", "1us"], None);
}

#[test]
fn flat_out() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for from in ["kernel", "packet", "socket"] {
        let text = "flows:
  flood: { from: a, to: b, packet: [ { ipv4: {} }, { udp: {} } ], size: 4000B, count: 20000 }
";
        let report = run(&format!("{}{text}", ports(from, "packet")), Some(&cable_to_a_program()));
        balanced(&report);
        let sent = report.total.sent.as_ref().unwrap();
        assert_eq!((sent.requested.frames, sent.sent.frames + sent.failed), (20_000, 20_000));
        assert_eq!(report.total.received.as_ref().unwrap().duplicates, 0);
    }
}

#[test]
fn a_kernel_receiver_that_was_asked_for_is_refused() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let text = format!("{}{FLOWS}", ports("kernel", "kernel"));
    let scenario = Scenario::from_yaml(&text, "test").unwrap();
    let namespaces =
        [("a".to_owned(), bed.a.namespace.clone()), ("b".to_owned(), bed.b.namespace.clone())];
    let options = Options { namespaces: namespaces.into(), ..Options::default() };
    let Err(RunError::Usage(why)) = prepare(&scenario, options) else { panic!("it was prepared") };
    let why = why.to_string();
    assert!(why.contains("'v4'") && why.contains("engine: packet"), "{why}");
}
