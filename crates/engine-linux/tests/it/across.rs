//! One engine sends, another receives.

use std::net::{IpAddr, SocketAddr};

use wirebeat_engine::port::TxPort;
use wirebeat_engine_linux::packet::PacketReceive;
use wirebeat_engine_linux::socket::{Checksum, Endpoint, Joining, SocketReceive};
use wirebeat_testbed::{Capability, require};
use wirebeat_wire::datagram::Datagram;

use crate::lab::{
    PORT, bytes, cable, endpoint, frame, packet_receiver, packet_sender, payload, receive, send,
    sent, socket_receiver, socket_sender, totals, versions,
};

#[test]
fn datagrams_arrive_from_frames() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    for (source, destination) in versions(&cable) {
        let listen = vec![SocketAddr::new(destination, PORT)];
        let mut receiver =
            socket_receiver(&cable.b, SocketReceive { listen, ..SocketReceive::default() });
        let mut sender = packet_sender(&cable.a, 1);
        let payloads: Vec<_> =
            (0..3_000).map(|index| payload(index, 4 + index as usize % 1_400)).collect();
        let frames: Vec<_> =
            payloads.iter().map(|p| (0, frame(&cable, (source, destination), p))).collect();
        send(&mut sender, 64, &frames);
        let arrived = receive(&mut receiver, payloads.len());
        assert!(bytes(&arrived) == payloads, "{} arrived", arrived.len());
        for (arrival, (_, frame)) in arrived.iter().zip(&frames) {
            assert_eq!(arrival.frame_len as usize, frame.len() + 4, "as long as it was");
        }
        assert_eq!(totals(&sender, 1), [sent(3_000)]);
    }
}

/// The payloads in frames, and how long the frames are.
fn datagrams(arrived: &[crate::lab::Arrived]) -> Vec<Vec<u8>> {
    arrived
        .iter()
        .map(|arrival| {
            // without padding on this cable, and no shorter for it
            assert_eq!(arrival.frame_len as usize, arrival.bytes.len().max(60) + 4);
            Datagram::parse(&arrival.bytes).unwrap().payload.to_vec()
        })
        .collect()
}

#[test]
fn frames_arrive_from_datagrams_joined_or_not() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    for (_, destination) in versions(&cable) {
        for joining in [Joining::Never, Joining::WhereSizesAllow] {
            let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
            let endpoint = endpoint(SocketAddr::new(destination, PORT));
            let mut sender = socket_sender(&cable.a, &[endpoint], joining);
            // runs of one length, each ended by a shorter one
            let payloads: Vec<_> = (0..3_000u32)
                .map(|index| payload(index, if index % 50 == 49 { 17 } else { 18 }))
                .collect();
            let frames: Vec<_> = payloads.iter().map(|p| (0, p.clone())).collect();
            send(&mut sender, 64, &frames);
            let arrived = receive(&mut receiver, payloads.len());
            assert!(datagrams(&arrived) == payloads, "{} arrived", arrived.len());
            assert_eq!(totals(&sender, 1), [sent(3_000)]);
        }
    }
}

#[test]
fn headers_are_as_asked() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    for (source, destination) in versions(&cable) {
        let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
        let asked = Endpoint {
            source: SocketAddr::new(source, 4_321),
            destination: SocketAddr::new(destination, PORT),
            ttl: 7,
            tos: 0xb8,
            checksum: Checksum::Omitted,
        };
        let plain = Endpoint { checksum: Checksum::Sent, ..asked };
        let mut sender = socket_sender(&cable.a, &[asked, plain], Joining::WhereSizesAllow);
        let datagrams = [0, 0, 1, 1].map(|tag| (tag, payload(tag, 18)));
        send(&mut sender, 4, &datagrams);
        let arrived = receive(&mut receiver, 4);
        assert_eq!(arrived.len(), 4);
        for (arrival, (tag, payload)) in arrived.iter().zip(&datagrams) {
            let datagram = Datagram::parse(&arrival.bytes).unwrap();
            assert_eq!((datagram.ttl, datagram.tos), (7, 0xb8));
            assert_eq!((datagram.source, datagram.source_port), (source, 4_321));
            assert_eq!((datagram.destination, datagram.destination_port), (destination, PORT));
            assert_eq!(datagram.payload, payload);
            let checksum = &arrival.bytes[datagram.payload_at - 2..datagram.payload_at];
            assert_eq!(checksum == [0, 0], *tag == 0, "tag {tag}: checksum {checksum:?}");
        }
    }
}

#[test]
fn datagrams_to_a_closed_port_are_all_sent() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    // nobody listens: the far end answers with ICMP errors, which come back while we send
    let endpoint = endpoint(SocketAddr::new(IpAddr::V4(cable.b.ipv4), PORT));
    let mut sender = socket_sender(&cable.a, &[endpoint], Joining::Never);
    let payloads: Vec<_> = (0..500).map(|index| payload(index, 18)).collect();
    for part in payloads.chunks(20) {
        let frames: Vec<_> = part.iter().map(|p| (0, p.clone())).collect();
        send(&mut sender, 20, &frames);
    }
    assert_eq!(totals(&sender, 1), [sent(500)]);
    assert!(datagrams(&receive(&mut receiver, 500)) == payloads);
}

#[test]
fn what_leaves_joined_takes_its_turn_among_single_ones() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    let one = endpoint(SocketAddr::new(IpAddr::V4(cable.b.ipv4), PORT));
    let two = endpoint(SocketAddr::new(IpAddr::V4(cable.b.ipv4), PORT + 1));
    let mut sender = socket_sender(&cable.a, &[one, two, one], Joining::WhereSizesAllow);
    let tags = [0, 2, 0, 1, 1, 0, 1, 2, 2, 2];
    let frames: Vec<_> =
        (0..2_000u32).map(|index| (tags[index as usize % 10], payload(index, 30))).collect();
    send(&mut sender, 60, &frames);
    let arrived = datagrams(&receive(&mut receiver, frames.len()));
    let expected: Vec<_> = frames.iter().map(|(_, payload)| payload.clone()).collect();
    assert!(arrived == expected, "{} arrived", arrived.len());
    assert_eq!(totals(&sender, 3), [sent(600), sent(600), sent(800)]);
    assert_eq!(sender.stalls(), 0);
    sender.flush().unwrap();
}
