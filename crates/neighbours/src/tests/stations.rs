//! Hosts with Ethernet addresses of their own, and packets between our own hosts.

use wirebeat_wire::mac::MacSequence;

use super::*;

/// 10.0.0.1 to 10.0.0.3 are at 02:00:00:00:01:00 and the next two, fd00::1 to fd00::3 at the same; 10.0.0.9 is at the link's address.
fn stations() -> Hosts {
    let of = |first, last| StationRange {
        first: ip(first),
        last: ip(last),
        number: 0,
        macs: MacSequence::Step { first: MacAddr([2, 0, 0, 0, 1, 0]), step: 1, count: 3 },
    };
    hosts().with_stations([of("10.0.0.1", "10.0.0.3"), of("fd00::1", "fd00::3")]).unwrap()
}

fn at_stations() -> Neighbours {
    Neighbours::new(Settings { hosts: stations(), ..settings() }).unwrap()
}

const SECOND: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);

#[test]
fn a_host_answers_with_its_own_address() {
    let mut neighbours = at_stations();
    for (target, mac) in [("10.0.0.2", SECOND), ("10.0.0.9", OURS)] {
        neighbours.receive(T0, &request((PEER, "10.0.0.20"), target));
        let frames = sent(&mut neighbours, T0);
        assert_eq!((&frames[0][6..12], &frames[0][22..28]), (&mac.0[..], &mac.0[..]), "{target}");
    }
    let mut echo = echo_request(PEER, "10.0.0.20", "10.0.0.2", b"data");
    assert_eq!(neighbours.receive(T0, &echo), Received::Ignored(Ignored::Destination));
    echo[..6].copy_from_slice(&SECOND.0);
    assert_eq!(neighbours.receive(T0, &echo), Received::Handled);
    assert_eq!(sent(&mut neighbours, T0)[0][6..12], SECOND.0);
}

#[test]
fn packets_for_a_host_come_to_its_own_address() {
    let mut neighbours = at_stations();
    let mut frame = syn(PEER, "10.0.0.20", "10.0.0.2");
    for (mac, is_ours) in [(OURS, false), (MacAddr([2, 0, 0, 0, 1, 2]), false), (SECOND, true)] {
        frame[..6].copy_from_slice(&mac.0);
        let received = neighbours.receive(T0, &frame);
        assert_eq!(matches!(received, Received::Packet(_)), is_ours, "{mac}: {received:?}");
    }
}

#[test]
fn what_our_hosts_say_and_hear_again_is_no_conflict() {
    let mut neighbours = at_stations();
    let own = request((SECOND, "10.0.0.2"), "10.0.0.3");
    assert_eq!(neighbours.receive(T0, &own), Received::Ignored(Ignored::Source));
    // a probe of our own
    let own = request((SECOND, "0.0.0.0"), "10.0.0.2");
    assert_eq!(neighbours.receive(T0, &own), Received::Ignored(Ignored::Source));
    assert_eq!(neighbours.conflict(), None);
    // an address of ours at the station of another host of ours
    let other = request((SECOND, "10.0.0.3"), "10.0.0.1");
    assert_eq!(neighbours.receive(T0, &other), Received::Ignored(Ignored::Conflict));
    let check = CheckSettings::new(Link { mac: OURS, vlan: None });
    let mut check = AddressCheck::new(check, &stations(), T0).unwrap();
    assert_eq!(check.receive(&request((SECOND, "0.0.0.0"), "10.0.0.2")), None);
    assert!(check.receive(&request((SECOND, "0.0.0.0"), "10.0.0.3")).is_some());
}

#[test]
fn each_address_is_probed_from_its_own_station() {
    let settings = CheckSettings::new(Link { mac: OURS, vlan: None });
    let mut check = AddressCheck::new(settings, &stations(), T0).unwrap();
    let mut frame = [0; FRAME_MAX];
    let mut now = T0;
    let mut from = Vec::new();
    for _ in 0..7 {
        check.next_frame(now, &mut frame).unwrap();
        from.push(frame[11]);
        now = check.next_time().unwrap();
    }
    assert_eq!(from, [0, 1, 2, OURS.0[5], 0, 1, 2]);
}

#[test]
fn packets_between_our_own_hosts_leave_to_the_other_one_or_to_the_gateway() {
    let mut neighbours = at_stations();
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.2")), Some(SECOND));
    assert_eq!(neighbours.state(ip("10.0.0.9")), State::Known(OURS));
    assert_eq!(sent(&mut neighbours, T0).len(), 0, "nobody is asked");
    let gateway = AddressPair { v4: Some([10, 0, 0, 254].into()), v6: None };
    let on_link = vec![(ip("10.0.0.0"), 24)];
    let with_gateway = Settings { gateway, on_link, hosts: stations(), ..settings() };
    let mut neighbours = Neighbours::new(with_gateway).unwrap();
    assert_eq!(neighbours.next_hop(ip("10.0.0.2")), ip("10.0.0.254"));
    assert_eq!(neighbours.next_hop(ip("10.0.0.20")), ip("10.0.0.20"));
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.2")), None);
    assert_eq!(sent(&mut neighbours, T0).len(), 1, "the gateway is asked for");
    // no gateway of this version
    assert_eq!(neighbours.mac_for(T0, ip("fd00::2")), Some(SECOND));
}
