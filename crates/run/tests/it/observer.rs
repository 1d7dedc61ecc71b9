//! An independent observer on the link agrees with the report: tshark counts, dissects and checks what
//! each engine put on the wire.

use std::time::Duration;

use wirebeat_report::model::Report;
use wirebeat_testbed::{Capability, Program, require};

use crate::world::{Engine, balanced, cable, run};

/// What tshark saw of a frame.
#[derive(Debug)]
struct Seen {
    len: u64,
    udp_checksum: String,
    payload: Vec<u8>,
}

fn fields(line: &str) -> Seen {
    let columns: Vec<&str> = line.split('\t').collect();
    let payload = columns[2].as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    Seen {
        len: columns[0].parse().unwrap(),
        udp_checksum: columns[1].to_owned(),
        payload: payload.map(byte).collect(),
    }
}

/// Sends by `engine` with nobody of ours at the far end, and returns the report and what tshark saw.
fn observed(engine: Engine, flow: &str) -> (Report, Vec<Seen>) {
    let bed = cable();
    // With GRO on, a virtual cable takes redirected frames without a program at its far end. What a
    // socket sends is to be on the link as it would be on a wire: not joined, with its checksum.
    let mut far = bed.b.netlink().unwrap();
    far.set_features(bed.b.link.index, &[("rx-gro", true)]).unwrap();
    let mut near = bed.a.netlink().unwrap();
    near.set_features(bed.a.link.index, &[("tx-udp-segmentation", false)]).unwrap();
    near.set_features(bed.a.link.index, &[("tx-checksum-ip-generic", false)]).unwrap();
    let capture = Program::new(&bed.b.namespace, "tshark")
        .args(["-i", "wb1", "-l", "-f", "udp dst port 9007", "-o", "udp.check_checksum:TRUE"])
        .args(["-a", "duration:8", "-T", "fields", "-e", "frame.len", "-e", "udp.checksum.status"])
        .args(["-e", "udp.payload"])
        .spawn()
        .unwrap();
    capture.wait_for("Capturing on", Duration::from_secs(30)).unwrap();
    // tshark says so a moment before its capture really runs
    std::thread::sleep(Duration::from_millis(500));
    let address = match flow.contains("ipv6") {
        true => bed.b.ipv6.unwrap().to_string(),
        false => bed.b.ipv4.to_string(),
    };
    let text = format!(
        "ports: {{ a: {{ interface: wb0, namespace: a, engine: {} }} }}\nflows:\n  seen: {}\n",
        engine.name(),
        flow.replace("ADDRESS", &format!("\"{address}\""))
    );
    let report = run(&text, Some(&bed));
    std::thread::sleep(Duration::from_millis(500));
    capture.interrupt();
    let output = capture.wait(Duration::from_secs(30)).unwrap();
    let lines = output.stdout.lines().filter(|line| !line.is_empty());
    (report, lines.map(fields).collect())
}

fn agree(engine: Engine, flow: &str, headers: u64) {
    let (report, seen) = observed(engine, flow);
    balanced(&report);
    let sent = report.total.sent.as_ref().unwrap();
    assert_eq!(sent.sent.frames, 300, "{sent:#?}");
    assert_eq!(seen.len() as u64, sent.sent.frames, "tshark and the report differ");
    // the capture leaves the FCS out
    let bytes: u64 = seen.iter().map(|frame| frame.len + 4).sum();
    assert_eq!(bytes, sent.sent.frame_bytes);
    for (number, frame) in (0u32..).zip(&seen) {
        assert_ne!(frame.udp_checksum, "0", "frame {number} has a bad checksum");
        assert_eq!(frame.payload.len() as u64, frame.len - headers);
        let probe = frame.payload.last_chunk::<16>().unwrap();
        assert_eq!(probe[..4], [0x57, 0x42, 0, 0]);
        assert_eq!(probe[4..8], number.to_be_bytes());
    }
    let times: Vec<u64> =
        seen.iter().map(|frame| u64::from_be_bytes(*frame.payload.last_chunk().unwrap())).collect();
    assert!(times.is_sorted(), "transmit times go backwards");
}

const V4: &str = "{ from: a, packet: [ { ipv4: { destination: ADDRESS } }, \
                  { udp: { destination: 9007, checksum: true } } ], size: 128B, rate: 2kpps, count: 300 }";
const V6: &str = "{ from: a, packet: [ { ipv6: { destination: ADDRESS } }, \
                  { udp: { destination: 9007 } } ], size: 257B, rate: 2kpps, count: 300 }";

#[test]
fn tshark_agrees_with_the_kernel_engine() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("tshark")
    );
    agree(Engine::Kernel, V4, 42);
    agree(Engine::Kernel, V6, 62);
}

#[test]
fn tshark_agrees_with_the_packet_engine() {
    require!(Capability::NetworkNamespaces, Capability::Program("tshark"));
    agree(Engine::Packet, V4, 42);
    agree(Engine::Packet, V6, 62);
}

#[test]
fn tshark_agrees_with_the_socket_engine() {
    require!(Capability::NetworkNamespaces, Capability::Program("tshark"));
    agree(Engine::Socket, V4, 42);
    agree(Engine::Socket, V6, 62);
}
