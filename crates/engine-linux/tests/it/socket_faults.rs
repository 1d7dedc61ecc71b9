//! The socket engine: what goes wrong, and that the counters are consistent all the same.

use std::net::{Ipv4Addr, SocketAddr};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{PortError, RxPort, TxPort, TxTotals};
use wirebeat_engine_linux::packet::PacketReceive;
use wirebeat_engine_linux::socket::{Gro, Joining, SocketReceive, SocketTransmit};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_units::{BufferLen, Bytes, Nanos};

use crate::lab::{
    self, PATIENCE, PORT, bytes, cable, commit, endpoint, fill, frames, packet_receiver, payload,
    plan, receive, send, sending, sent, socket_receiver, socket_sender, totals,
};

fn address(cable: &Testbed) -> SocketAddr {
    SocketAddr::new(cable.b.ipv4.into(), PORT)
}

fn listening(cable: &Testbed) -> SocketReceive {
    SocketReceive { listen: vec![address(cable)], ..SocketReceive::default() }
}

#[test]
fn without_carrier_datagrams_wait_and_none_is_lost() {
    require!(Capability::NetworkNamespaces);
    for joining in [Joining::Never, Joining::WhereSizesAllow] {
        let cable = cable();
        let mut receiver = socket_receiver(&cable.b, listening(&cable));
        let mut sender = socket_sender(&cable.a, &[endpoint(address(&cable))], joining);
        // with its far end down the cable drops what it is given, and says so (ENOBUFS)
        let mut far = cable.b.netlink().unwrap();
        far.set_down(cable.b.link.index).unwrap();
        let committed = fill(&mut sender, &payload(1, 18));
        for _ in 0..100 {
            sender.flush().unwrap();
            assert_eq!(sender.reserve(1).unwrap(), 0, "the port stays full");
        }
        assert!(sender.stalls() >= 100, "{} stalls", sender.stalls());
        assert_eq!(totals(&sender, 1), [sent(0)]);
        far.set_up(cable.b.link.index).unwrap();
        assert!(sender.drain(MonotonicClock.now().saturating_add(PATIENCE)).unwrap());
        assert_eq!(totals(&sender, 1), [sent(committed)]);
        let arrived = receive(&mut receiver, committed as usize);
        assert_eq!(bytes(&arrived), vec![payload(1, 18); committed as usize]);
    }
}

#[test]
fn what_cannot_be_sent_by_the_deadline_has_failed() {
    require!(Capability::NetworkNamespaces);
    // once the system has noticed that there is no carrier, some time within a second, it takes datagrams
    // and drops them, and says nothing: then another attempt
    let fails = || {
        let cable = cable();
        let mut sender = socket_sender(&cable.a, &[endpoint(address(&cable))], Joining::Never);
        cable.b.netlink().unwrap().set_down(cable.b.link.index).unwrap();
        let committed = fill(&mut sender, &payload(1, 18));
        let soon = MonotonicClock.now().saturating_add(Nanos::from_millis(20));
        if sender.drain(soon).unwrap() {
            return false;
        }
        assert_eq!(totals(&sender, 1), [TxTotals { failed: frames(committed), ..sent(0) }]);
        true
    };
    assert!((0..5).any(|_| fails()));
}

#[test]
fn an_interface_that_goes_away_ends_the_run_with_its_counters() {
    require!(Capability::NetworkNamespaces);
    for removed in [false, true] {
        let cable = cable();
        let mut far = packet_receiver(&cable.b, PacketReceive::default());
        let endpoints = [endpoint(address(&cable))];
        let mut sender = socket_sender(&cable.a, &endpoints, Joining::WhereSizesAllow);
        let mut netlink = cable.a.netlink().unwrap();
        let index = cable.a.link.index;
        let remover = std::thread::spawn(move || {
            std::thread::sleep(Nanos::from_millis(30).to_duration());
            if removed { netlink.delete_link(index) } else { netlink.set_down(index) }.unwrap();
        });
        let deadline = MonotonicClock.now().saturating_add(PATIENCE);
        let mut committed = 0;
        let error = loop {
            let got = sender.reserve(7).unwrap();
            commit(&mut sender, &vec![(0, payload(1, 18)); got]).unwrap();
            committed += got as u64;
            if let Err(error) = sender.flush() {
                break error;
            }
            assert!(MonotonicClock.now() < deadline, "the port did not notice");
        };
        remover.join().unwrap();
        let expected = format!("interface towards {} went down or was removed", address(&cable));
        assert_eq!(error.to_string(), expected);
        let [sum] = totals(&sender, 1)[..] else { panic!("one tag") };
        assert_eq!(sum.sent.frames + sum.failed.frames, committed);
        assert!(sum.sent.frames > 0 && sum.failed.frames > 0, "{sum:?}");
        let mut arrived = 0;
        let soon = || MonotonicClock.now().saturating_add(Nanos::from_millis(20));
        while !matches!(far.receive(soon(), |_| arrived += 1), Ok(0) | Err(_)) {}
        // what the stack took in the last moment it may have thrown away with the route
        assert!(arrived > 0 && arrived <= sum.sent.frames, "{arrived} of {sum:?} arrived");
    }
}

#[test]
fn a_receiver_on_an_interface_notices_that_it_goes_away() {
    require!(Capability::NetworkNamespaces);
    for removed in [false, true] {
        let cable = cable();
        let mut receiver = lab::listening(&cable.b, Some("wb1"), &listening(&cable)).unwrap();
        let mut sender = socket_sender(&cable.a, &[endpoint(address(&cable))], Joining::Never);
        send(&mut sender, 1, &[(0, payload(7, 18))]);
        assert_eq!(bytes(&receive(&mut receiver, 1)), [payload(7, 18)]);
        let mut netlink = cable.b.netlink().unwrap();
        if removed {
            netlink.delete_link(cable.b.link.index).unwrap();
        } else {
            netlink.set_down(cable.b.link.index).unwrap();
        }
        let until = MonotonicClock.now().saturating_add(PATIENCE);
        let error = receiver.receive(until, |_| ()).unwrap_err();
        assert_eq!(error.to_string(), "interface wb1 went down or was removed");
    }
}

#[test]
fn what_a_full_buffer_loses_is_counted() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let small = SocketReceive { buffer: Bytes::new(100_000), gro: Gro::Off, ..listening(&cable) };
    let mut receiver = socket_receiver(&cable.b, small);
    let mut sender = socket_sender(&cable.a, &[endpoint(address(&cable))], Joining::Never);
    send(&mut sender, 64, &vec![(0, payload(1, 18)); 5_000]);
    let arrived = receive(&mut receiver, 0).len() as u64;
    let drops = receiver.receive_drops();
    assert!(arrived > 10 && drops > 1_000, "{arrived} arrived, {drops} dropped");
    assert_eq!(arrived + drops, 5_000);
    assert_eq!(receiver.receive_drops(), drops, "asking does not change it");
}

#[test]
fn replies_to_a_sender_take_no_memory() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut there = endpoint(address(&cable));
    there.source = SocketAddr::new(cable.a.ipv4.into(), 7_000);
    let mut sender = socket_sender(&cable.a, &[there], Joining::Never);
    let mut back = endpoint(there.source);
    back.source = there.destination;
    let mut replier = socket_sender(&cable.b, &[back], Joining::Never);
    send(&mut replier, 64, &vec![(0, payload(1, 18)); 2_000]);
    send(&mut sender, 1, &[(0, payload(1, 18))]);
    assert_eq!(totals(&sender, 1), [sent(1)]);
    let used = cable.a.namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/udp"));
    let used = used.unwrap().unwrap();
    let queues: Vec<_> = used.lines().skip(1).filter(|line| !line.contains(":00000000 ")).collect();
    assert!(queues.is_empty(), "{queues:?}");
}

#[test]
fn ports_that_cannot_be_opened_say_why() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let send_to = |change: &dyn Fn(&mut SocketTransmit)| {
        let mut transmit = SocketTransmit {
            plan: plan(1, 100),
            endpoints: vec![Some(endpoint(address(&cable)))],
            joining: Joining::Never,
        };
        change(&mut transmit);
        sending(&cable.a, &transmit).unwrap_err().to_string()
    };
    let to = |destination: SocketAddr| {
        send_to(&move |t: &mut SocketTransmit| t.endpoints = vec![Some(endpoint(destination))])
    };
    let unroutable = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9));
    let expected = "finding a route for UDP on 192.0.2.1:9: Network is unreachable";
    assert!(to(unroutable).starts_with(expected), "{}", to(unroutable));
    assert!(to(unroutable).ends_with("add one, or give the interface"), "{}", to(unroutable));
    let source = |source: SocketAddr| {
        let mut endpoint = endpoint(address(&cable));
        endpoint.source = source;
        send_to(&move |t: &mut SocketTransmit| t.endpoints = vec![Some(endpoint)])
    };
    let strange = source(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9)));
    assert!(strange.starts_with("taking the source address on 192.0.2.1:9: "), "{strange}");
    assert!(strange.contains("it is not an address of this host; choose one"), "{strange}");
    assert_eq!(
        source(SocketAddr::from(([0u16; 8], 9))),
        "the socket engine cannot send from [::]:9 to 10.77.0.2:5000: one is IPv4 and the other IPv6"
    );
    assert_eq!(
        send_to(&|t| t.plan.frame_max = BufferLen::new(65_508)),
        "the socket engine cannot send payloads of 65508 bytes; UDP carries 65507 at most"
    );
    assert_eq!(
        send_to(&|t| t.plan.tags = 3),
        "the socket engine cannot send 3 flows to 1 endpoints"
    );
    let missing = lab::listening(&cable.a, Some("eth7"), &SocketReceive::default()).unwrap_err();
    assert!(matches!(missing, PortError::Missing { engine: "socket", .. }), "{missing}");
}

#[test]
fn an_address_that_is_taken_is_told() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let _first = socket_receiver(&cable.b, listening(&cable));
    let error = lab::listening(&cable.b, None, &listening(&cable)).unwrap_err().to_string();
    assert!(error.starts_with("listening on 10.77.0.2:5000: Address already in use"), "{error}");
    assert!(
        error.ends_with("another program has this port; end that one, or choose another port"),
        "{error}"
    );
}

#[test]
fn a_flow_without_endpoint_is_refused() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let transmit = SocketTransmit {
        plan: plan(2, 100),
        endpoints: vec![None, Some(endpoint(address(&cable)))],
        joining: Joining::WhereSizesAllow,
    };
    let mut sender = sending(&cable.a, &transmit).unwrap();
    sender.reserve(2).unwrap();
    let error = commit(&mut sender, &[(1, payload(1, 18)), (0, payload(2, 18))]).unwrap_err();
    let expected = "the socket engine cannot send flow 0: it was opened without an endpoint";
    assert_eq!(error.to_string(), expected);
    sender.flush().unwrap();
    assert_eq!(totals(&sender, 2), [sent(0); 2], "nothing was handed over");
}
