//! Frames cross the cables, and are counted.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use wirebeat_testbed::{
    Addressing, Capability, End, Neighbours, Offload, Offloads, Options, Testbed, TestbedError,
    require,
};

use crate::PATIENCE;

/// Sends a datagram from one end to another and back.
fn exchange(from: &End, to: &End, address: impl Fn(&End) -> IpAddr) {
    let open = |end: &End| {
        let local = SocketAddr::new(address(end), 0);
        let socket = end.namespace.run(|| UdpSocket::bind(local)).unwrap().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let (near, far) = (open(from), open(to));
    let mut buffer = [0; 64];
    near.send_to(b"there", far.local_addr().unwrap()).unwrap();
    let (read, source) = far.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..read], source), (&b"there"[..], near.local_addr().unwrap()));
    far.send_to(b"and back", source).unwrap();
    assert_eq!(near.recv(&mut buffer).unwrap(), b"and back".len());
}

fn v4(end: &End) -> IpAddr {
    end.ipv4.into()
}

fn v6(end: &End) -> IpAddr {
    end.ipv6.unwrap().into()
}

#[test]
fn datagrams_cross_a_pair_in_both_families() {
    require!(Capability::NetworkNamespaces);
    let testbed = Testbed::pair(&Options::default()).unwrap();
    assert_ne!(testbed.a.namespace, testbed.b.namespace);
    exchange(&testbed.a, &testbed.b, v4);
    exchange(&testbed.a, &testbed.b, v6);
}

#[test]
fn datagrams_cross_a_router_in_both_families() {
    require!(Capability::NetworkNamespaces);
    for neighbours in [Neighbours::Asked, Neighbours::Fixed] {
        let testbed = Testbed::router(&Options { neighbours, ..Options::default() }).unwrap();
        exchange(&testbed.a, &testbed.b, v4);
        exchange(&testbed.b, &testbed.a, v6);
    }
}

#[test]
fn a_bridge_joins_all_its_ends() {
    require!(Capability::NetworkNamespaces);
    let testbed = Testbed::bridge(3, &Options::default()).unwrap();
    let ends: Vec<&End> = testbed.ends().collect();
    assert_eq!(ends.iter().map(|end| end.interface()).collect::<Vec<_>>(), ["wb0", "wb1", "wb2"]);
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        exchange(ends[from], ends[to], v4);
        exchange(ends[from], ends[to], v6);
    }
}

#[test]
fn a_bridge_with_one_end_is_refused() {
    for ends in [0, 1, 251] {
        let error = Testbed::bridge(ends, &Options::default()).unwrap_err();
        assert!(matches!(error, TestbedError::Ends(n) if n == ends), "{error}");
    }
}

#[test]
fn interfaces_are_as_they_were_ordered() {
    require!(Capability::NetworkNamespaces);
    let options = Options { mtu: 9000, queues: 3, ..Options::default() };
    let testbed = Testbed::pair(&options).unwrap();
    for (end, other) in [(&testbed.a, &testbed.b), (&testbed.b, &testbed.a)] {
        let link = &end.link;
        assert_eq!((link.mtu, link.tx_queues, link.rx_queues), (9000, 3, 3));
        assert_eq!(link.kind.as_deref(), Some("veth"));
        assert_eq!(link.mac, Some(end.mac));
        assert_eq!(link.peer.map(|peer| peer.index), Some(other.link.index));
        assert_eq!(link.speed, None, "the speed of a veth is only nominal");
        assert!(link.xdp.is_none());
        let channels = end.netlink().unwrap().channels(link.index).unwrap();
        assert_eq!((channels.rx, channels.tx), (Some(3), Some(3)));
    }
}

#[test]
fn offloads_are_as_they_were_ordered() {
    require!(Capability::NetworkNamespaces);
    for (offload, on) in [(Offload::On, true), (Offload::Off, false)] {
        let offloads = Offloads { gro: offload, gso: offload, tso: offload, ..Offloads::default() };
        let testbed = Testbed::pair(&Options { offloads, ..Options::default() }).unwrap();
        for end in testbed.ends() {
            let features = end.netlink().unwrap().features(end.link.index).unwrap();
            for name in ["rx-gro", "tx-generic-segmentation", "tx-tcp-segmentation"] {
                let feature = features.iter().find(|feature| feature.name == name).unwrap();
                assert_eq!(feature.active, on, "{name}");
            }
        }
    }
}

#[test]
fn nothing_but_what_is_sent_is_counted() {
    require!(Capability::NetworkNamespaces);
    const COUNT: u64 = 500;
    const PAYLOAD: u64 = 100;
    // Ethernet, IPv4 and IPv6, UDP.
    let cases = [
        (Addressing::V4, v4 as fn(&End) -> IpAddr, 14 + 20 + 8),
        (Addressing::V4AndV6, v6, 14 + 40 + 8),
    ];
    for (addressing, address, headers) in cases {
        let options = Options { addressing, neighbours: Neighbours::Fixed, ..Options::default() };
        let testbed = Testbed::pair(&options).unwrap();
        let (a, b) = (&testbed.a, &testbed.b);
        let receiver = b.namespace.run(|| UdpSocket::bind((address(b), 9))).unwrap().unwrap();
        let sender = a.namespace.run(|| UdpSocket::bind((address(a), 0))).unwrap().unwrap();
        for _ in 0..COUNT {
            sender.send_to(&[0; PAYLOAD as usize], receiver.local_addr().unwrap()).unwrap();
        }
        let sent = a.netlink().unwrap().stats(a.link.index).unwrap();
        let came = b.netlink().unwrap().stats(b.link.index).unwrap();
        let (sent_before, came_before) = (a.link.stats, b.link.stats);
        assert_eq!(sent.tx_packets - sent_before.tx_packets, COUNT);
        assert_eq!(came.rx_packets - came_before.rx_packets, COUNT);
        assert_eq!(sent.tx_bytes - sent_before.tx_bytes, COUNT * (headers + PAYLOAD));
        assert_eq!(came.tx_packets - came_before.tx_packets, 0);
        assert_eq!(
            (sent.tx_dropped, came.rx_dropped),
            (sent_before.tx_dropped, came_before.rx_dropped)
        );
    }
}
