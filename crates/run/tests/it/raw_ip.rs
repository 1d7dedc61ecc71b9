//! Links that carry IP packets and no Ethernet frames: tun, ppp, WireGuard.

use std::net::UdpSocket;

use wirebeat_run::{Codec, ReceiveRequest};
use wirebeat_testbed::{Capability, Options, Tunnel, require};
use wirebeat_traffic::scenario::EngineChoice;

use crate::interop::{receiver, while_receiving};
use crate::world::{balanced, run};

const COUNT: u64 = 300;
const PAYLOAD: u64 = 18;

/// 9.60 kB were counted where 5.40 kB had been sent: the first 14 bytes of each packet were taken for an Ethernet header, and
/// the other 32 for its payload. The engines that read such a header are refused there; `auto` takes sockets.
#[test]
fn payload_on_a_link_without_ethernet_is_what_was_sent() {
    require!(Capability::NetworkNamespaces, Capability::Tun);
    let tunnel = Tunnel::new(&Options::default()).unwrap();
    let bed = &tunnel.bed;
    let port = |end: &str, interface: &str| {
        format!("{end}: {{ interface: {interface}, namespace: {end}, engine: auto }}")
    };
    let (a, b) = (port("a", "wb0"), port("b", "wb1"));
    for probe in ["on", "off"] {
        let report = run(
            &format!(
                "ports: {{ {a}, {b} }}\nflows:\n  x: {{ from: a, to: b, rate: 1kpps, count: {COUNT}, probe: {probe}, \
                 packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{ destination: 9000 }} }} ] }}\n",
                bed.b.ipv4
            ),
            Some(bed),
        );
        balanced(&report);
        let sent = report.total.sent.as_ref().unwrap().sent;
        let received = report.total.received.as_ref().unwrap().received;
        assert_eq!((sent.frames, sent.payload_bytes), (COUNT, COUNT * PAYLOAD), "{probe}");
        assert_eq!((received.frames, received.payload_bytes), (COUNT, COUNT * PAYLOAD), "{probe}");
    }

    let request = receiver(bed, Codec::Iperf2, Some(9000));
    let request = ReceiveRequest { engine: EngineChoice::Auto, codecs: Vec::new(), ..request };
    let ((), report) = while_receiving(&request, || {
        let sender = bed.a.namespace.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        for _ in 0..COUNT {
            sender.send_to(&[7; PAYLOAD as usize], (bed.b.ipv4, 9000)).unwrap();
        }
        ((), COUNT)
    });
    let received = report.total.received.as_ref().unwrap().received;
    assert_eq!((received.frames, received.payload_bytes), (COUNT, COUNT * PAYLOAD));
}
