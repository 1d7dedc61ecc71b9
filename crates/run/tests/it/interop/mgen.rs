//! MGEN 5: it logs our messages, and we log its.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use wirebeat_report::model::CaptureKind;
use wirebeat_run::{Codec, LogForm, LogRequest, ReceiveRequest};
use wirebeat_testbed::{Capability, Process, Program, Testbed, require};
use wirebeat_traffic::scenario::EngineChoice;
use wirebeat_wire::log::Received;
use wirebeat_wire::log::crude::CrudeLine;
use wirebeat_wire::log::mgen::MgenLine;

use super::{
    BUFFER, FEW, PATIENCE, cable_to_a_program, file, near, number_after, received, receiver,
    timely, while_receiving,
};
use crate::world::{balanced, run};

/// Messages by the number of their flow, in the order of a log.
pub type Messages<T> = BTreeMap<u32, Vec<T>>;

/// A message that MGEN says it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub at_ns: u64,
    pub sequence: u64,
    pub size: u32,
}

fn now_ns() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64
}

/// MGEN at the far end, which logs what comes to a port.
pub fn logging(bed: &Testbed, port: &str) -> Process {
    let program = Program::new(&bed.b.namespace, "mgen").args(["rxbuffer", BUFFER, "port", port]);
    let mgen = program.args(["flush"]).spawn().unwrap();
    mgen.wait_for("LISTEN", PATIENCE).unwrap();
    mgen
}

/// What a log says was received.
pub fn messages_received(log: &str) -> Messages<Received> {
    let mut messages: Messages<Received> = BTreeMap::new();
    for line in log.lines() {
        let line =
            MgenLine::parse(line, now_ns()).unwrap_or_else(|error| panic!("{error}: {line}"));
        if let Some(MgenLine::Receive(message)) = line {
            messages.entry(message.flow).or_default().push(message);
        }
    }
    messages
}

/// What a log that MGEN wrote with `txlog` says was sent.
pub fn messages_sent(log: &str) -> Messages<Sent> {
    let mut messages: Messages<Sent> = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains(" SEND ")) {
        // the times of all events are written alike
        let time = line.split_once(' ').unwrap().0;
        let at_ns = MgenLine::parse(&format!("{time} STOP"), now_ns()).unwrap().unwrap().at_ns();
        let number = |key| number_after(line, key).unwrap_or_else(|| panic!("{line}"));
        let sent = Sent { at_ns, sequence: number("seq>"), size: number("size>") as u32 };
        messages.entry(number("flow>") as u32).or_default().push(sent);
    }
    messages
}

#[test]
fn mgen_logs_our_messages() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames, Capability::Program("mgen"));
    let bed = cable_to_a_program();
    let mgen = logging(&bed, "5000");
    let flows = [(7, "socket"), (8, "packet"), (4_000_000_009, "kernel")];
    for (flow, engine) in flows {
        let report = run(
            &format!(
                "{}flows:\n  x: {{ from: a, rate: 500pps, count: {FEW}, size: {{ list: [200B, 141B] }}, \
                 probe: {{ codec: mgen, flow: {flow} }}, packet: [ {{ ipv4: {{ destination: {} }} }}, \
                 {{ udp: {{ source: 4000, destination: 5000 }} }} ] }}\n",
                near(engine),
                bed.b.ipv4
            ),
            Some(&bed),
        );
        balanced(&report);
        assert_eq!(report.total.sent.as_ref().unwrap().sent.frames, FEW, "{engine}");
        mgen.wait_for(&format!("flow>{flow} seq>{} ", FEW - 1), PATIENCE).unwrap();
    }
    mgen.interrupt();
    let log = mgen.wait(PATIENCE).unwrap().stdout;
    assert!(!log.contains("RERR"), "{log}");
    let messages = messages_received(&log);
    assert_eq!(messages.len(), flows.len(), "{log}");
    for (flow, engine) in flows {
        let messages = &messages[&flow];
        assert_eq!(messages.len() as u64, FEW, "{engine}");
        for (number, message) in (0..).zip(messages) {
            assert_eq!(message.sequence, number, "{engine}");
            // less 46 bytes of headers and FCS
            assert_eq!(message.size, [154, 95][number as usize % 2], "{engine}");
            assert_eq!(message.source, (bed.a.ipv4, 4000).into(), "{engine}");
            assert_eq!(message.destination, (bed.b.ipv4, 5000).into(), "{engine}");
            let delay = message.arrived_ns as i64 - message.sent_ns.unwrap() as i64;
            // both times are cut off to microseconds
            assert!((-20_000..5_000_000_000).contains(&delay), "{engine}: {message:?}");
        }
        assert!(messages.is_sorted_by_key(|message| message.sent_ns), "{engine}");
    }
}

/// Has MGEN send 200 messages in each of two flows to port 5000; what it says that it sent.
fn two_flows(bed: &Testbed) -> Messages<Sent> {
    let to = bed.b.ipv4;
    let mgen = Program::new(&bed.a.namespace, "mgen").args(["txlog", "flush", "ttl", "9"]);
    let periodic = format!("0.0 ON 1 UDP SRC 6001 DST {to}/5000 PERIODIC [400 100] COUNT 200");
    let poisson = format!("0.0 ON 70000 UDP SRC 6002 DST {to}/5000 POISSON [400 300] COUNT 200");
    let mgen = mgen.args(["event", &periodic, "event", &poisson]);
    let log = mgen.output(PATIENCE).unwrap().stdout;
    let sent = messages_sent(&log);
    assert_eq!(sent.keys().copied().collect::<Vec<_>>(), [1, 70_000], "{log}");
    assert!(sent.values().all(|sent| sent.len() == 200), "{log}");
    sent
}

/// The log in `file` has a line for each message that was sent, with what it says.
fn lines_equal(file: &Path, sent: &Messages<Sent>, (bed, ttl): (&Testbed, Option<u8>)) {
    let log = std::fs::read_to_string(file).unwrap();
    let ours = messages_received(&log);
    assert_eq!(ours.keys().collect::<Vec<_>>(), sent.keys().collect::<Vec<_>>());
    for (flow, sent) in sent {
        let ours = &ours[flow];
        let said = |message: &Received| Sent {
            at_ns: message.sent_ns.unwrap(),
            sequence: message.sequence,
            size: message.size,
        };
        // a program that moves from one CPU to another has its frames in two rings of the kernel engine
        let mut all: Vec<Sent> = ours.iter().map(said).collect();
        all.sort_by_key(|message| message.sequence);
        assert_eq!(&all, sent, "{flow}");
        for message in ours {
            assert_eq!((message.destination, message.ttl), ((bed.b.ipv4, 5000).into(), ttl));
            assert_eq!(message.source.ip(), bed.a.ipv4);
            let delay = message.arrived_ns as i64 - message.sent_ns.unwrap() as i64;
            assert!((-20_000..5_000_000_000).contains(&delay), "{message:?}");
        }
    }
    let events = |event: &str| log.lines().filter(|line| line.contains(event)).count();
    let all = sent.values().map(Vec::len).sum();
    assert_eq!(["START", "LISTEN", "RECV", "STOP"].map(events), [1, 1, all, 1], "{log}");
}

/// Waits until the log has so many lines that contain this.
pub fn await_lines(file: &Path, lines: usize, with: &str) {
    let deadline = Instant::now() + PATIENCE;
    let has = || {
        let log = std::fs::read_to_string(file).unwrap_or_default();
        log.lines().filter(|line| line.contains(with)).count() >= lines
    };
    while !has() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
}

/// The kernel's meter does not read MGEN's messages, and a socket does not see their headers: the lines are the same.
#[test]
fn we_log_the_messages_of_mgen_by_every_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames, Capability::Program("mgen"));
    for (engine, ttl) in [
        (EngineChoice::Kernel, Some(9)),
        (EngineChoice::Xdp, Some(9)),
        (EngineChoice::Socket, None),
    ] {
        let bed = cable_to_a_program();
        let file = file("messages-of-engine.log");
        let request = ReceiveRequest {
            engine,
            codecs: Vec::new(),
            log: Some(LogRequest { form: LogForm::Mgen, file: Some(file.clone()) }),
            ..receiver(&bed, Codec::Mgen, Some(5000))
        };
        let (sent, report) = while_receiving(&request, || {
            let sent = two_flows(&bed);
            await_lines(&file, 400, "RECV");
            (sent, 0)
        });
        lines_equal(&file, &sent, (&bed, ttl));
        let kept = &report.captures[0];
        assert_eq!(
            (kept.kind, kept.frames, kept.lost),
            (CaptureKind::PacketLog, 400, 0),
            "{engine:?}"
        );
        assert_eq!(kept.files, [file.display().to_string()]);
    }
}

#[test]
fn we_log_messages_as_crude_does_by_every_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    use EngineChoice::{Kernel, Packet, Socket, Xdp};
    for engine in [Kernel, Packet, Xdp, Socket] {
        let bed = cable_to_a_program();
        let file = file("crude-of-engine.log");
        let request = ReceiveRequest {
            engine,
            codecs: Vec::new(),
            log: Some(LogRequest { form: LogForm::Crude, file: Some(file.clone()) }),
            ..receiver(&bed, Codec::Rude, Some(5000))
        };
        while_receiving(&request, || {
            let flow = |name: &str, source: u16, id: u32| {
                format!(
                    "  {name}: {{ from: a, rate: 500pps, count: {FEW}, size: 700B, \
                     probe: {{ codec: rude, flow: {id} }}, packet: \
                     [ {{ ipv4: {{ destination: {} }} }}, \
                     {{ udp: {{ source: {source}, destination: 5000 }} }} ] }}\n",
                    bed.b.ipv4
                )
            };
            let flows = flow("one", 4000, 70_001) + &flow("two", 4001, 3);
            balanced(&run(&format!("{}flows:\n{flows}", near("packet")), Some(&bed)));
            await_lines(&file, 2 * FEW as usize, "SIZE=654");
            ((), 0)
        });
        let log = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<_> = log.lines().map(|line| CrudeLine::parse(line).unwrap().0).collect();
        for (source, id) in [(4000, 70_001), (4001, 3)] {
            let of_flow = lines.iter().filter(|line| line.source == (bed.a.ipv4, source).into());
            let of_flow: Vec<_> = of_flow.collect();
            let numbers: Vec<_> = of_flow.iter().map(|line| line.sequence).collect();
            let first = numbers[0];
            assert_eq!(numbers, (first..first + FEW).collect::<Vec<_>>(), "{engine:?}: {log}");
            for line in of_flow {
                assert_eq!((line.destination, line.size), ((bed.b.ipv4, 5000).into(), 654));
                assert_eq!(line.flow, id, "{engine:?}: {line:?}");
                let delay = line.arrived_ns as i64 - line.sent_ns.unwrap() as i64;
                assert!((-20_000..5_000_000_000).contains(&delay), "{engine:?}: {line:?}");
            }
        }
        assert_eq!(lines.len() as u64, 2 * FEW, "{engine:?}: {log}");
    }
}

#[test]
fn we_log_the_messages_of_mgen() {
    require!(Capability::NetworkNamespaces, Capability::Program("mgen"));
    let bed = cable_to_a_program();
    let file = file("messages.log");
    let mut request = receiver(&bed, Codec::Mgen, Some(5000));
    request.log = Some(LogRequest { form: LogForm::Mgen, file: Some(file.clone()) });
    let (sent, report) = while_receiving(&request, || (two_flows(&bed), 400));
    lines_equal(&file, &sent, (&bed, Some(9)));
    for sent in sent.values() {
        let bytes: u64 = sent.iter().map(|message| u64::from(message.size)).sum();
        let flow = report.flows.iter().find(|flow| {
            flow.received.as_ref().is_some_and(|flow| flow.received.payload_bytes == bytes)
        });
        let flow = flow.unwrap_or_else(|| panic!("{report:#?}"));
        timely(flow.received.as_ref().unwrap(), 200);
        assert_eq!(flow.loss.unwrap().frames, 0);
    }
    timely(received(&report, 1), 200);
}
