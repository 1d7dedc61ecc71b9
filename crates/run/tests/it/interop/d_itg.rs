//! D-ITG: we measure what ITGSend sends to ITGRecv, and ITGRecv logs what we send.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use wirebeat_run::Codec;
use wirebeat_testbed::{Capability, Process, Program, Testbed, require};

use super::{
    FEW, PATIENCE, cable_to_a_program, file, near, number_after, printed_at, received, receiver,
    timely, until, while_receiving,
};
use crate::world::{balanced, run};

/// Bytes of a packet's record in ITGRecv's log.
const RECORD: u64 = 144;

/// ITGRecv at the far end, which logs each packet as it comes.
fn itg_recv(bed: &Testbed, log: &Path) -> Process {
    let log = log.to_str().unwrap();
    let recv = Program::new(&bed.b.namespace, "ITGRecv").args(["-q", "1", "-l", log]);
    let recv = recv.spawn().unwrap();
    // it prints nothing when it can be told of flows
    let listens = |line: &str| line.contains(":2328 ") && line.contains(" 0A ");
    until("ITGRecv listens on port 9000", || {
        let sockets = printed_at(&bed.b, "cat", &["/proc/net/tcp", "/proc/net/tcp6"]);
        sockets.lines().any(listens)
    });
    recv
}

/// What ITGDec says of all flows of a log.
#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    flows: u64,
    packets: u64,
    bytes: u64,
    dropped: u64,
}

fn decoded(bed: &Testbed, log: &Path) -> Decoded {
    let text = printed_at(&bed.b, "ITGDec", &[log.to_str().unwrap()]);
    let total = text.split_once("TOTAL RESULTS").unwrap_or_else(|| panic!("{text}")).1;
    let value = |key: &str| {
        let value = total.split_once(key).and_then(|(_, rest)| number_after(rest, "="));
        value.unwrap_or_else(|| panic!("{text}"))
    };
    assert_eq!(value("Error lines"), 0);
    Decoded {
        flows: value("Number of flows"),
        packets: value("Total packets"),
        bytes: value("Bytes received"),
        dropped: value("Packets dropped"),
    }
}

#[test]
fn we_measure_what_itgsend_sends_to_itgrecv() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("ITGSend"),
        Capability::Program("ITGRecv"),
        Capability::Program("ITGDec")
    );
    let bed = cable_to_a_program();
    let log = file("itgsend.log");
    let recv = itg_recv(&bed, &log);
    let request = receiver(&bed, Codec::DitgStandard, Some(8999));
    let ((), report) = while_receiving(&request, || {
        let send = Program::new(&bed.a.namespace, "ITGSend");
        let send = send.args(["-a", &bed.b.ipv4.to_string(), "-rp", "8999", "-z", "150"]);
        let output = send.args(["-C", "300", "-u", "50", "400"]).output(PATIENCE).unwrap();
        assert!(output.status.success(), "{output:?}");
        ((), 150)
    });
    recv.interrupt();
    recv.wait(PATIENCE).unwrap();
    let flow = received(&report, 1);
    timely(flow, 150);
    let bytes = flow.received.payload_bytes;
    assert_eq!(decoded(&bed, &log), Decoded { flows: 1, packets: 150, bytes, dropped: 0 });
}

/// ITGSend's side of the connection on which it tells ITGRecv of a flow: each message begins with its kind,
/// and so does the answer.
struct Signalling(TcpStream);

impl Signalling {
    fn connect(bed: &Testbed) -> Signalling {
        let address = (bed.b.ipv4, 9000);
        let stream = bed.a.namespace.run(|| TcpStream::connect(address)).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut signalling = Signalling(stream);
        signalling.ask(&[1], &[2]);
        signalling
    }

    fn ask(&mut self, message: &[u8], expected: &[u8]) {
        self.0.write_all(message).unwrap();
        let mut answer = vec![0; expected.len()];
        self.0.read_exact(&mut answer).unwrap();
        assert_eq!(answer, expected);
    }

    /// Announces a flow over UDP and IPv4, measured one way.
    fn open(&mut self, flow: u32, destination: (Ipv4Addr, u16)) {
        let [udp, any_application, one_way, tos, ipv4, standard_payload] = [2, 0, 1, 0, 4, 0];
        let mut message = vec![3, udp, any_application, one_way, tos, ipv4];
        message.extend(flow.to_be_bytes());
        message.push(standard_payload);
        message.extend(b"noSerial\0\0");
        // the one number that is not in network order
        message.extend(destination.1.to_le_bytes());
        message.extend(destination.0.octets());
        let mut expected = vec![5];
        expected.extend(flow.to_be_bytes());
        expected.extend(destination.1.to_be_bytes());
        self.ask(&message, &expected);
    }

    fn close(mut self, flow: u32) {
        let number = flow.to_be_bytes();
        self.ask(&[&[4], &number[..]].concat(), &[&[6], &number[..]].concat());
        self.ask(&[11], &[7]);
    }
}

#[test]
fn itgrecv_logs_our_packets() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("ITGRecv"),
        Capability::Program("ITGDec")
    );
    let bed = cable_to_a_program();
    // ITGRecv's buffer is as small as Linux makes it
    let count = FEW / 2;
    for (flow, engine) in [(1, "socket"), (2, "packet"), (3, "kernel")] {
        let log = file(&format!("itgrecv-{engine}.log"));
        let recv = itg_recv(&bed, &log);
        let mut signalling = Signalling::connect(&bed);
        signalling.open(flow, (bed.b.ipv4, 8999));
        let report = run(
            &format!(
                "{}flows:\n  x: {{ from: a, rate: 500pps, count: {count}, size: 146B, probe: {{ codec: d-itg, \
                 flow: {flow} }}, packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{ source: 7001, \
                 destination: 8999 }} }} ] }}\n",
                near(engine),
                bed.b.ipv4
            ),
            Some(&bed),
        );
        balanced(&report);
        // there is nothing but the file to say that it has them all
        let written = || std::fs::metadata(&log).map_or(0, |log| log.len());
        until("records of all packets", || written() >= count * RECORD);
        signalling.close(flow);
        recv.interrupt();
        recv.wait(PATIENCE).unwrap();
        let decoded = decoded(&bed, &log);
        let expected = Decoded { flows: 1, packets: count, bytes: 100 * count, dropped: 0 };
        assert_eq!(decoded, expected, "{engine}");
    }
}
