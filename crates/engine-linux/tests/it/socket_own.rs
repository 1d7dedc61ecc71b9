//! The socket engine: a source that sends much gets a socket of its own, and nobody notices.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wirebeat_engine::port::RxPort;
use wirebeat_engine_linux::socket::{Joining, SocketReceive, SocketRx, SocketTransmit, SocketTx};
use wirebeat_testbed::{Capability, End, Testbed, require};
use wirebeat_wire::checksum::checksum;

use crate::lab::{
    self, PORT, bytes, cable, endpoint, packet_sender, payload, plan, receive, send, sending,
    socket_receiver, socket_sender, versions,
};

/// More than are read before it is looked at where they come from.
const MANY: u32 = 6_000;

/// Sockets of the far end's port that are connected, by /proc/net/udp (proc(5)).
fn connected(end: &End) -> usize {
    let mut count = 0;
    for (file, nobody) in
        [("udp", "00000000:0000"), ("udp6", "00000000000000000000000000000000:0000")]
    {
        let path = format!("/proc/thread-self/net/{file}");
        let table = end.namespace.run(|| fs::read_to_string(path)).unwrap().unwrap_or_default();
        count += table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| {
                words.get(1).is_some_and(|local| local.ends_with(&format!(":{PORT:04X}")))
            })
            .filter(|words| words.get(2).is_some_and(|remote| *remote != nobody))
            .count();
    }
    count
}

fn any(version_of: IpAddr) -> IpAddr {
    match version_of {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn frames(numbers: std::ops::Range<u32>) -> Vec<(u32, Vec<u8>)> {
    numbers.map(|number| (0, payload(number, 18))).collect()
}

fn listening(end: &End, address: SocketAddr) -> SocketRx {
    socket_receiver(end, SocketReceive { listen: vec![address], ..SocketReceive::default() })
}

/// Listens at the far end until a sender of the near one, from port `source`, has a socket of its own there.
fn with_its_own(cable: &Testbed, source: u16) -> (SocketRx, SocketTx) {
    let address = SocketAddr::new(cable.b.ipv4.into(), PORT);
    let mut receiver = listening(&cable.b, address);
    let mut to = endpoint(address);
    to.source = SocketAddr::new(cable.a.ipv4.into(), source);
    let mut sender = socket_sender(&cable.a, &[to], Joining::Never);
    send(&mut sender, 64, &frames(0..MANY));
    assert_eq!(receive(&mut receiver, MANY as usize).len(), MANY as usize);
    assert_eq!(connected(&cable.b), 1);
    (receiver, sender)
}

#[test]
fn datagrams_keep_their_order_when_their_source_gets_a_socket_of_its_own() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    for (_, destination) in versions(&cable) {
        for listen in [destination, any(destination)] {
            let mut receiver = listening(&cable.b, SocketAddr::new(listen, PORT));
            let to = endpoint(SocketAddr::new(destination, PORT));
            let mut much = socket_sender(&cable.a, &[to], Joining::Never);
            let mut little = socket_sender(&cable.a, &[to], Joining::Never);
            // what comes from two sources is one flow for the meter: its order is that of arrival
            let (mut number, mut arrived) = (0, Vec::new());
            for round in 0..200 {
                for (sender, count) in [(&mut much, 61), (&mut little, 3)] {
                    send(sender, 64, &frames(number..number + count));
                    number += count;
                }
                // now and then, so that both sockets hold something
                if round % 5 == 4 {
                    arrived.extend(bytes(&receive(&mut receiver, 5 * 64)));
                }
            }
            assert!(number > 2 * MANY);
            assert_eq!(connected(&cable.b), 1, "listening on {listen}");
            let expected: Vec<_> = frames(0..number).into_iter().map(|(_, bytes)| bytes).collect();
            assert!(arrived == expected, "{} arrived, or in another order", arrived.len());
            assert_eq!(receiver.receive_drops(), 0);
        }
    }
}

#[test]
fn an_address_is_not_shared_with_another_program() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let (_receiver, _sender) = with_its_own(&cable, 0);
    let address = SocketAddr::new(cable.b.ipv4.into(), PORT);
    // neither with one that listens, nor with one that would share its source
    let mut taken = endpoint(SocketAddr::new(cable.a.ipv4.into(), PORT));
    taken.source = address;
    let transmit =
        SocketTransmit { plan: plan(1, 18), endpoints: vec![Some(taken)], joining: Joining::Never };
    let listens = SocketReceive { listen: vec![address], ..SocketReceive::default() };
    let sends = sending(&cable.b, &transmit).unwrap_err();
    let listens = lab::listening(&cable.b, None, &listens).unwrap_err();
    for error in [sends, listens].map(|error| error.to_string()) {
        assert!(error.contains("in use"), "{error}");
    }
}

#[test]
fn an_icmp_message_about_nothing_that_was_sent_ends_nothing() {
    const SOURCE: u16 = 9_998;
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let (mut receiver, mut sender) = with_its_own(&cable, SOURCE);

    // "port unreachable", and every other code that is an error (RFC 792), of a datagram from there
    let (a, b) = (cable.a.ipv4.octets(), cable.b.ipv4.octets());
    let forged = |code: u8| {
        let ip = |protocol: u8, len: u8, from: [u8; 4], to: [u8; 4]| {
            let mut header =
                [&[0x45, 0, 0, len, 0, 0, 0, 0, 64, protocol, 0, 0], &from[..], &to[..]].concat();
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        };
        let ports = [PORT.to_be_bytes(), SOURCE.to_be_bytes()].concat();
        let told = [ip(17, 46, b, a), ports, vec![0, 26, 0, 0]].concat();
        let mut icmp = [vec![3, code, 0, 0, 0, 0, 0, 0], told].concat();
        let sum = checksum(&icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let head = [&cable.b.mac.0[..], &cable.a.mac.0[..], &[8, 0]].concat();
        (0, [head, ip(1, 20 + icmp.len() as u8, a, b), icmp].concat())
    };
    let mut forger = packet_sender(&cable.a, 1);
    for _ in 0..3 {
        send(&mut forger, 16, &(0..16).map(forged).collect::<Vec<_>>());
        send(&mut sender, 64, &frames(0..100));
        assert_eq!(receive(&mut receiver, 100).len(), 100);
    }
}
