//! MGEN 5: it logs our messages, and we log its.

use std::collections::BTreeMap;
use std::time::SystemTime;

use wirebeat_run::{Codec, LogForm, LogRequest};
use wirebeat_testbed::{Capability, Process, Program, Testbed, require};
use wirebeat_wire::log::Received;
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

#[test]
fn we_log_the_messages_of_mgen() {
    require!(Capability::NetworkNamespaces, Capability::Program("mgen"));
    let bed = cable_to_a_program();
    let file = file("messages.log");
    let mut request = receiver(&bed, Codec::Mgen, Some(5000));
    request.log = Some(LogRequest { form: LogForm::Mgen, file: Some(file.clone()) });
    let (log, report) = while_receiving(&request, || {
        let to = bed.b.ipv4;
        let mgen = Program::new(&bed.a.namespace, "mgen").args(["txlog", "flush", "ttl", "9"]);
        let periodic = format!("0.0 ON 1 UDP SRC 6001 DST {to}/5000 PERIODIC [400 100] COUNT 200");
        let poisson =
            format!("0.0 ON 70000 UDP SRC 6002 DST {to}/5000 POISSON [400 300] COUNT 200");
        let mgen = mgen.args(["event", &periodic, "event", &poisson]);
        (mgen.output(PATIENCE).unwrap().stdout, 400)
    });
    let sent = messages_sent(&log);
    assert_eq!(sent.keys().copied().collect::<Vec<_>>(), [1, 70_000], "{log}");
    let ours = messages_received(&std::fs::read_to_string(&file).unwrap());
    assert_eq!(ours.keys().collect::<Vec<_>>(), sent.keys().collect::<Vec<_>>());
    for (flow, sent) in &sent {
        assert_eq!(sent.len(), 200, "{flow}: {log}");
        let ours = &ours[flow];
        let said = |message: &Received| Sent {
            at_ns: message.sent_ns.unwrap(),
            sequence: message.sequence,
            size: message.size,
        };
        assert_eq!(&ours.iter().map(said).collect::<Vec<_>>(), sent, "{flow}");
        for message in ours {
            assert_eq!((message.destination, message.ttl), ((bed.b.ipv4, 5000).into(), Some(9)));
            let delay = message.arrived_ns as i64 - message.sent_ns.unwrap() as i64;
            assert!((-20_000..5_000_000_000).contains(&delay), "{message:?}");
        }
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
