//! The socket engine: what passes.

use std::net::SocketAddr;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{RxPort, View};
use wirebeat_engine_linux::socket::{Gro, Joining, SocketReceive};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Nanos;

use crate::lab::{
    PORT, assert_times, bytes, cable, endpoint, payload, receive, send, sent, socket_receiver,
    socket_sender, totals, versions,
};

#[test]
fn every_datagram_arrives_with_its_bytes_length_and_a_time() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    for (_, destination) in versions(&cable) {
        for joining in [Joining::Never, Joining::WhereSizesAllow] {
            for gro in [Gro::On, Gro::Off] {
                let listen = vec![SocketAddr::new(destination, PORT)];
                let options = SocketReceive { listen, gro, ..SocketReceive::default() };
                let mut receiver = socket_receiver(&cable.b, options);
                let endpoint = endpoint(SocketAddr::new(destination, PORT));
                let mut sender = socket_sender(&cable.a, &[endpoint, endpoint], joining);
                // one length, then every length
                let len = |index: u32| if index < 2_000 { 18 } else { index as usize % 1_400 };
                let frames: Vec<_> = (0..4_000)
                    .map(|index| (index % 2, payload(index, len(index).max(4))))
                    .collect();
                let from = MonotonicClock.now();
                send(&mut sender, 64, &frames);
                let arrived = receive(&mut receiver, frames.len());
                let expected: Vec<_> = frames.into_iter().map(|(_, bytes)| bytes).collect();
                assert!(bytes(&arrived) == expected, "{} arrived", arrived.len());
                assert_eq!(totals(&sender, 2), [sent(2_000); 2]);
                assert_eq!(receiver.receive_drops(), 0);
                let headers = if destination.is_ipv4() { 42 } else { 62 };
                for arrival in &arrived {
                    let len = (arrival.bytes.len() + headers + 4).max(64);
                    assert_eq!(arrival.frame_len as usize, len);
                }
                assert!(receiver.timestamp_error() < Nanos::from_micros(20));
                assert_times(&arrived, from, MonotonicClock.now());
            }
        }
    }
}

#[test]
fn empty_datagrams_count() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let address = SocketAddr::new(cable.b.ipv4.into(), PORT);
    let listen = vec![address];
    let mut receiver =
        socket_receiver(&cable.b, SocketReceive { listen, ..SocketReceive::default() });
    let mut sender = socket_sender(&cable.a, &[endpoint(address)], Joining::WhereSizesAllow);
    let frames = [payload(0, 4), vec![], vec![], payload(1, 4)].map(|bytes| (0, bytes));
    send(&mut sender, 4, &frames);
    assert_eq!(bytes(&receive(&mut receiver, 4)), frames.map(|(_, bytes)| bytes));
}

#[test]
fn several_addresses_are_listened_on() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let listen: Vec<_> = versions(&cable)
        .into_iter()
        .flat_map(|(_, ip)| [SocketAddr::new(ip, 0), SocketAddr::new(ip, 0)])
        .collect();
    let mut receiver =
        socket_receiver(&cable.b, SocketReceive { listen, ..SocketReceive::default() });
    assert_eq!(receiver.caps().view, View::Datagram);
    let addresses: Vec<_> = receiver.addresses().collect();
    assert!(addresses.iter().all(|address| address.port() != 0));
    let endpoints: Vec<_> = addresses.into_iter().map(endpoint).collect();
    let mut sender = socket_sender(&cable.a, &endpoints, Joining::Never);
    let tags = endpoints.len() as u32;
    let frames: Vec<_> = (0..100 * tags).map(|n| (n % tags, payload(n, 18))).collect();
    send(&mut sender, 64, &frames);
    let mut arrived = bytes(&receive(&mut receiver, frames.len()));
    let mut expected: Vec<_> = frames.into_iter().map(|(_, bytes)| bytes).collect();
    arrived.sort();
    expected.sort();
    assert!(arrived == expected, "{} arrived", arrived.len());
    assert_eq!(totals(&sender, tags as usize), vec![sent(100); tags as usize]);
}

#[test]
fn several_senders_share_a_source_port() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let address = SocketAddr::new(cable.b.ipv4.into(), PORT);
    let listen = vec![address];
    let mut receiver =
        socket_receiver(&cable.b, SocketReceive { listen, ..SocketReceive::default() });
    let mut endpoint = endpoint(address);
    endpoint.source = SocketAddr::new(cable.a.ipv4.into(), 9_999);
    let mut senders =
        [(); 3].map(|()| socket_sender(&cable.a, &[endpoint], Joining::WhereSizesAllow));
    for (number, sender) in senders.iter_mut().enumerate() {
        send(sender, 1, &[(0, payload(number as u32, 18))]);
    }
    let expected: Vec<_> = (0..3).map(|number| payload(number, 18)).collect();
    assert_eq!(bytes(&receive(&mut receiver, 3)), expected);
}

#[test]
fn longer_than_the_path_takes_is_sent_in_fragments() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    for (_, destination) in versions(&cable) {
        let address = SocketAddr::new(destination, PORT);
        let listen = vec![address];
        let mut receiver =
            socket_receiver(&cable.b, SocketReceive { listen, ..SocketReceive::default() });
        let mut sender = socket_sender(&cable.a, &[endpoint(address)], Joining::WhereSizesAllow);
        // joined, the long ones are refused; the short ones stay joined
        let frames: Vec<_> = (0..300u32)
            .map(|index| (0, payload(index, if index / 10 % 2 == 0 { 3_000 } else { 18 })))
            .collect();
        send(&mut sender, 40, &frames);
        let arrived = receive(&mut receiver, frames.len());
        let expected: Vec<_> = frames.into_iter().map(|(_, bytes)| bytes).collect();
        assert!(bytes(&arrived) == expected, "{} arrived", arrived.len());
        assert_eq!(totals(&sender, 1), [sent(300)]);
    }
}

#[test]
fn receiving_waits_no_longer_than_asked() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let address = SocketAddr::new(cable.b.ipv4.into(), PORT);
    let listen = vec![address];
    let mut receiver =
        socket_receiver(&cable.b, SocketReceive { listen, ..SocketReceive::default() });
    let mut sender = socket_sender(&cable.a, &[endpoint(address)], Joining::Never);
    send(&mut sender, 1, &[(0, payload(0, 18))]);
    assert_eq!(receive(&mut receiver, 1).len(), 1);
    let start = MonotonicClock.now();
    let until = start.saturating_add(Nanos::from_millis(30));
    assert_eq!(receiver.receive(until, |_| panic!("nothing was sent")).unwrap(), 0);
    assert!(MonotonicClock.now() >= until);
    assert_eq!(receiver.receive(Nanos::ZERO, |_| panic!("nothing was sent")).unwrap(), 0);
    assert!(MonotonicClock.now().saturating_sub(start) < Nanos::from_secs(5));
}
