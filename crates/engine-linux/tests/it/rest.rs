//! Ports that rest between two runs: what comes meanwhile is none of the next, and counters begin at zero.

use std::net::SocketAddr;

use wirebeat_engine::port::{RxPort, TxTotals};
use wirebeat_engine_linux::packet::{Accept, Kinds, PacketReceive};
use wirebeat_engine_linux::socket::{Gro, Joining, SocketReceive, SocketTransmit};
use wirebeat_testbed::{Capability, Testbed, require};

use crate::lab::{
    PORT, bytes, cable, endpoint, frame, packet_receiver, packet_sender, payload, plan, receive,
    send, sent, socket_receiver, socket_sender, totals, versions,
};

/// How often a port rests.
const ROUNDS: u32 = 20;
/// Frames that are sent before it rests, while it does and afterwards, each.
const FRAMES: u32 = 50;

/// The payloads of a part of a round: all are different.
fn payloads(round: u32, part: u32) -> Vec<Vec<u8>> {
    let first = (round * 3 + part) * FRAMES;
    (first..first + FRAMES).map(|index| payload(index, 18)).collect()
}

fn tagged(frames: &[Vec<u8>]) -> Vec<(u32, Vec<u8>)> {
    frames.iter().map(|bytes| (0, bytes.clone())).collect()
}

#[test]
fn a_packet_receiver_delivers_what_comes_after_its_rest() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    let mut sender = packet_sender(&cable.a, 1);
    for round in 0..ROUNDS {
        let frames = [0, 1, 2].map(|part| {
            let framed = |bytes: Vec<u8>| frame(&cable, versions(&cable)[0], &bytes);
            payloads(round, part).into_iter().map(framed).collect::<Vec<_>>()
        });
        // nobody reads these
        send(&mut sender, 50, &tagged(&frames[0]));
        assert!(receiver.rest());
        send(&mut sender, 50, &tagged(&frames[1]));
        let kinds = if round % 2 == 0 { Kinds::Any } else { Kinds::Probed };
        let options = PacketReceive { kinds, ..PacketReceive::default() };
        assert!(cable.b.namespace.run(|| receiver.rearm(&options, None)).unwrap().unwrap());
        send(&mut sender, 50, &tagged(&frames[2]));
        let arrived = receive(&mut receiver, FRAMES as usize);
        assert!(bytes(&arrived) == frames[2], "round {round}");
        assert_eq!(receiver.receive_drops(), 0);
    }
}

#[test]
fn a_packet_receiver_of_other_frames_is_another() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    assert!(receiver.rest());
    let options = PacketReceive { accept: Accept::All, ..PacketReceive::default() };
    assert!(!cable.b.namespace.run(|| receiver.rearm(&options, None)).unwrap().unwrap());
}

fn listen(cable: &Testbed) -> SocketReceive {
    let address = SocketAddr::new(cable.b.ipv4.into(), PORT);
    SocketReceive { listen: vec![address], ..SocketReceive::default() }
}

#[test]
fn a_socket_receiver_delivers_what_comes_after_its_rest() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let options = listen(&cable);
    let mut receiver = socket_receiver(&cable.b, options.clone());
    let to = endpoint(options.listen[0]);
    let mut sender = socket_sender(&cable.a, &[to], Joining::Never);
    for round in 0..ROUNDS {
        let datagrams = [0, 1, 2].map(|part| payloads(round, part));
        send(&mut sender, 50, &tagged(&datagrams[0]));
        assert!(receiver.rest());
        send(&mut sender, 50, &tagged(&datagrams[1]));
        let rearm = || receiver.rearm(None, &options, None);
        assert!(cable.b.namespace.run(rearm).unwrap().unwrap());
        send(&mut sender, 50, &tagged(&datagrams[2]));
        let arrived = receive(&mut receiver, FRAMES as usize);
        assert!(bytes(&arrived) == datagrams[2], "round {round}");
        // the kernel counts what a resting socket refuses as dropped
        assert_eq!(receiver.receive_drops(), 0);
    }
}

/// One source that sends much has a socket of its own, which rests and is re-armed like the first.
#[test]
fn a_socket_of_a_source_that_sends_much_rests_too() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let options = listen(&cable);
    let mut receiver = socket_receiver(&cable.b, options.clone());
    let to = endpoint(options.listen[0]);
    let mut sender = socket_sender(&cable.a, &[to], Joining::Never);
    for round in 0..3 {
        for part in 0..200 {
            let datagrams: Vec<_> =
                (0..50).map(|index| (0, payload(part * 50 + index, 18))).collect();
            send(&mut sender, 50, &datagrams);
            assert_eq!(receive(&mut receiver, 50).len(), 50, "round {round}");
        }
        send(&mut sender, 50, &tagged(&payloads(round, 0)));
        assert!(receiver.rest());
        send(&mut sender, 50, &tagged(&payloads(round, 1)));
        let rearm = || receiver.rearm(None, &options, None);
        assert!(cable.b.namespace.run(rearm).unwrap().unwrap());
        let wanted = payloads(round, 2);
        send(&mut sender, 50, &tagged(&wanted));
        assert!(bytes(&receive(&mut receiver, wanted.len())) == wanted, "round {round}");
        assert_eq!(receiver.receive_drops(), 0);
    }
}

#[test]
fn a_socket_receiver_that_listens_elsewhere_is_another() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let options = listen(&cable);
    let mut receiver = socket_receiver(&cable.b, options.clone());
    assert!(receiver.rest());
    let elsewhere = SocketReceive {
        listen: vec![SocketAddr::new(cable.b.ipv4.into(), PORT + 1)],
        ..options.clone()
    };
    let single = SocketReceive { gro: Gro::Off, ..options };
    for other in [elsewhere, single] {
        let rearm = || receiver.rearm(None, &other, None);
        assert!(!cable.b.namespace.run(rearm).unwrap().unwrap());
    }
}

#[test]
fn a_packet_transmitter_counts_anew() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut sender = packet_sender(&cable.a, 1);
    let frames = |tag: u32, count| {
        let frame = |index| (tag, frame(&cable, versions(&cable)[0], &payload(index, 18)));
        (0..count).map(frame).collect::<Vec<_>>()
    };
    send(&mut sender, 50, &frames(0, 100));
    assert_eq!(totals(&sender, 1), [sent(100)]);
    let mut rearm =
        |tags, frame_max| cable.a.namespace.run(|| sender.rearm(&plan(tags, frame_max))).unwrap();
    let refused = rearm(1, 9014).unwrap_err().to_string();
    assert!(refused.contains("its MTU of 1500 allows"), "{refused}");
    assert!(rearm(2, 200).unwrap());
    send(&mut sender, 50, &frames(1, 60));
    assert_eq!(totals(&sender, 2), [TxTotals::default(), sent(60)]);
}

#[test]
fn a_socket_transmitter_counts_anew_and_sends_to_the_same_endpoints() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let options = listen(&cable);
    let mut receiver = socket_receiver(&cable.b, options.clone());
    let to = endpoint(options.listen[0]);
    let mut sender = socket_sender(&cable.a, &[to], Joining::Never);
    let datagrams: Vec<_> = (0..70).map(|index| (0, payload(index, 18))).collect();
    for _ in 0..3 {
        send(&mut sender, 50, &datagrams);
        assert_eq!(receive(&mut receiver, 70).len(), 70);
        assert_eq!(totals(&sender, 1), [sent(70)]);
        let same = SocketTransmit {
            plan: plan(1, 100),
            endpoints: vec![Some(to)],
            joining: Joining::Never,
        };
        let other = SocketTransmit {
            endpoints: vec![Some(endpoint(SocketAddr::new(cable.b.ipv4.into(), PORT + 1)))],
            ..same.clone()
        };
        let mut rearm = |transmit| cable.a.namespace.run(|| sender.rearm(None, transmit)).unwrap();
        assert!(!rearm(&other).unwrap());
        assert!(rearm(&same).unwrap());
    }
}
