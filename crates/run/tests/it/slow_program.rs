//! A program behind a receiver that passes datagrams on, and reads too slowly.

use std::net::UdpSocket;

use wirebeat_report::model::Report;
use wirebeat_run::{Codec, ReceiveRequest};
use wirebeat_testbed::{Capability, require};
use wirebeat_traffic::scenario::EngineChoice;

use crate::interop::{cable_to_a_program, receiver, while_receiving};
use crate::two_hosts;

/// More than the buffer of a socket holds.
const MANY: u64 = 2_000;

/// It read 231 of 2,000, and the report said "0 lost" and nothing else.
#[test]
fn what_a_slow_program_did_not_read_is_named() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable_to_a_program();
    for engine in [EngineChoice::Packet, EngineChoice::Kernel] {
        let slow = bed.b.namespace.run(|| UdpSocket::bind("0.0.0.0:5001")).unwrap().unwrap();
        slow.set_nonblocking(true).unwrap();
        let request = receiver(&bed, Codec::Iperf2, Some(5001));
        let request = ReceiveRequest { engine, codecs: Vec::new(), ..request };
        let ((), report) = while_receiving(&request, || {
            let sender = bed.a.namespace.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
            for _ in 0..MANY {
                sender.send_to(&[7; 100], (bed.b.ipv4, 5001)).unwrap();
            }
            ((), MANY)
        });
        let (mut read, mut buffer) = (0, [0; 200]);
        while slow.recv(&mut buffer).is_ok() {
            read += 1;
        }
        assert!((1..MANY).contains(&read), "{engine:?}: {read}");
        let findings: Vec<&str> =
            report.findings.iter().map(|finding| finding.message.as_str()).collect();
        let dropped = format!("on UDP port 5001 dropped {} of what arrived", MANY - read);
        let process = format!("(process {})", std::process::id());
        let named = |text: &&&str| text.contains(&dropped) && text.contains(&process);
        assert_eq!(findings.iter().filter(named).count(), 1, "{engine:?} {read}: {findings:?}");
        drop(slow);
    }
}

/// The socket that dropped them was gone when the run ended.
#[test]
fn what_a_program_that_has_ended_did_not_read_is_counted() {
    require!(Capability::NetworkNamespaces);
    let bed = cable_to_a_program();
    let request = receiver(&bed, Codec::Iperf2, Some(5001));
    let request = ReceiveRequest { codecs: Vec::new(), ..request };
    let (read, report) = while_receiving(&request, || {
        let slow = bed.b.namespace.run(|| UdpSocket::bind("0.0.0.0:5001")).unwrap().unwrap();
        slow.set_nonblocking(true).unwrap();
        let sender = bed.a.namespace.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        for _ in 0..MANY {
            sender.send_to(&[7; 100], (bed.b.ipv4, 5001)).unwrap();
        }
        let (mut read, mut buffer) = (0, [0; 200]);
        while slow.recv(&mut buffer).is_ok() {
            read += 1;
        }
        (read, MANY)
    });
    let said = format!("{} datagrams found no room in sockets that are closed again", MANY - read);
    let findings: Vec<&str> =
        report.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert!(findings.iter().any(|text| text.contains(&said)), "{read}: {findings:?}");
}

/// A receiver that listens for senders named nothing of it, to neither of the two ends.
#[test]
fn what_a_slow_program_did_not_read_is_named_to_the_sender_on_another_host() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for engine in [EngineChoice::Packet, EngineChoice::Kernel] {
        let bed = cable_to_a_program();
        let slow = bed.b.namespace.run(|| UdpSocket::bind("0.0.0.0:9000")).unwrap().unwrap();
        slow.set_nonblocking(true).unwrap();
        let request = ReceiveRequest { pass: true, ..two_hosts::request(&bed, engine) };
        let (sent, received) = two_hosts::both_over(&bed, &request, |bed| {
            two_hosts::send(bed, "packet", two_hosts::KEY)
        });
        let sent = sent.unwrap_or_else(|error| panic!("{error}"));
        let (mut read, mut buffer) = (0, [0; 200]);
        while slow.recv(&mut buffer).is_ok() {
            read += 1;
        }
        let dropped =
            format!("on UDP port 9000 dropped {} of what arrived", two_hosts::SENT - read);
        let process = format!("(process {})", std::process::id());
        let named = |report: &Report, by: &str| {
            let findings: Vec<&str> =
                report.findings.iter().map(|finding| finding.message.as_str()).collect();
            let says = |text: &&&str| {
                text.starts_with(by) && text.contains(&dropped) && text.contains(&process)
            };
            assert_eq!(findings.iter().filter(says).count(), 1, "{engine:?} {read}: {findings:?}");
        };
        named(&sent, "at the receiver: the socket of ");
        named(&received, "the socket of ");
    }
}
