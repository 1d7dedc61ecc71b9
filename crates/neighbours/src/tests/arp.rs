//! ARP: who is answered, and who is believed.

use super::*;

#[test]
fn a_request_for_a_host_of_ours_is_answered() {
    let mut neighbours = neighbours();
    // From a capture of Linux: who has 10.0.0.2? Tell 10.0.0.20.
    let request = hex("ffffffffffff 020000000002 0806
        0001 0800 06 04 0001 020000000002 0a000014 000000000000 0a000002");
    assert_eq!(neighbours.receive(T0, &request), Received::Handled);
    let expected = hex("020000000002 020000000001 0806
        0001 0800 06 04 0002 020000000001 0a000002 020000000002 0a000014
        000000000000000000000000000000000000");
    assert_eq!(sent(&mut neighbours, T0), [expected]);
    assert_eq!(neighbours.counters().arp_replies, 1);
    // Who asks us is going to send to us, and is known from then on (RFC 826).
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.20")), Some(PEER));
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
}

#[test]
fn only_our_hosts_answer() {
    let mut neighbours = neighbours();
    for target in ["10.0.0.0", "10.0.0.4", "10.0.0.8", "10.0.0.10", "10.0.0.255", "0.0.0.0"] {
        let received = neighbours.receive(T0, &request((PEER, "10.0.0.20"), target));
        assert_eq!(received, Received::Ignored(Ignored::Address), "{target}");
    }
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
    // What others ask each other is not learnt.
    assert_eq!(neighbours.state(ip("10.0.0.20")), State::Unknown);
    for target in ["10.0.0.1", "10.0.0.3", "10.0.0.9"] {
        assert_eq!(
            neighbours.receive(T0, &request((PEER, "10.0.0.20"), target)),
            Received::Handled
        );
    }
    assert_eq!(sent(&mut neighbours, T0).len(), 3);
}

#[test]
fn a_probe_for_an_address_of_ours_is_answered_and_not_learnt_from() {
    let mut neighbours = neighbours();
    assert_eq!(neighbours.receive(T0, &request((PEER, "0.0.0.0"), "10.0.0.3")), Received::Handled);
    let frames = sent(&mut neighbours, T0);
    assert_eq!(
        (frames.len(), &frames[0][28..32], &frames[0][38..42]),
        (1, &[10, 0, 0, 3][..], &[0; 4][..])
    );
    assert_eq!(neighbours.conflict(), None);
}

#[test]
fn a_station_with_an_address_of_ours_is_told_and_not_answered() {
    let mut neighbours = neighbours();
    for frame in [
        request((PEER, "10.0.0.9"), "10.0.0.9"),
        request((OTHER, "10.0.0.9"), "10.0.0.1"),
        reply((OTHER, "10.0.0.2"), "10.0.0.1"),
    ] {
        assert_eq!(neighbours.receive(T0, &frame), Received::Ignored(Ignored::Conflict));
    }
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
    assert_eq!(neighbours.conflict(), Some(Conflict { address: ip("10.0.0.9"), mac: PEER }));
    assert_eq!(neighbours.counters().ignored(Ignored::Conflict), 3);
}

#[test]
fn a_gratuitous_arp_changes_who_is_known_and_nobody_else() {
    let mut neighbours = neighbours();
    let announce = |mac| request((mac, "10.0.0.20"), "10.0.0.20");
    neighbours.receive(T0, &announce(PEER));
    assert_eq!(neighbours.state(ip("10.0.0.20")), State::Unknown);
    neighbours.receive(T0, &request((PEER, "10.0.0.20"), "10.0.0.1"));
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.20")), Some(PEER));
    neighbours.receive(T0, &announce(OTHER));
    assert_eq!(
        neighbours.mac_for(T0, ip("10.0.0.20")),
        Some(OTHER),
        "the one used last is forgotten too"
    );
    // An answer that nobody asked for is not believed.
    neighbours.receive(T0, &reply((PEER, "10.0.0.20"), "10.0.0.1"));
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.20")), Some(OTHER));
}

#[test]
fn senders_that_are_no_station_are_refused() {
    let mut neighbours = neighbours();
    for (mac, sender, why) in [
        (MacAddr([0; 6]), "10.0.0.20", Ignored::Source),
        (MacAddr([3, 0, 0, 0, 0, 2]), "10.0.0.20", Ignored::Source),
        (OURS, "10.0.0.20", Ignored::Source),
        (PEER, "224.0.0.1", Ignored::Invalid),
        (PEER, "255.255.255.255", Ignored::Invalid),
        (PEER, "127.0.0.1", Ignored::Invalid),
    ] {
        let mut frame = request((mac, sender), "10.0.0.1");
        frame[6..12].copy_from_slice(&PEER.0);
        assert_eq!(neighbours.receive(T0, &frame), Received::Ignored(why), "{mac} {sender}");
    }
    let mut elsewhere = request((PEER, "10.0.0.20"), "10.0.0.1");
    elsewhere[..6].copy_from_slice(&OTHER.0);
    assert_eq!(neighbours.receive(T0, &elsewhere), Received::Ignored(Ignored::Destination));
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
}

#[test]
fn no_more_than_1024_answers_wait() {
    let mut neighbours = neighbours();
    let request = request((PEER, "10.0.0.20"), "10.0.0.1");
    for at in 0..1500 {
        let expected =
            if at < 1024 { Received::Handled } else { Received::Ignored(Ignored::AnswersFull) };
        assert_eq!(neighbours.receive(T0, &request), expected, "{at}");
    }
    assert_eq!(neighbours.next_time(), Some(Nanos::ZERO));
    assert_eq!(sent(&mut neighbours, T0).len(), 1024);
    assert_eq!(neighbours.next_time(), None);
    assert_eq!(neighbours.receive(T0, &request), Received::Handled);
}

#[test]
fn frames_of_a_vlan_are_answered_in_it() {
    let link = Link { mac: OURS, vlan: Some(7) };
    let mut neighbours = Neighbours::new(Settings { link, ..settings() }).unwrap();
    let plain = request((PEER, "10.0.0.20"), "10.0.0.1");
    assert_eq!(neighbours.receive(T0, &plain), Received::Ignored(Ignored::Vlan));
    let tagged = |number: u8| [&plain[..12], &[0x81, 0, 0, number], &plain[12..]].concat();
    assert_eq!(neighbours.receive(T0, &tagged(8)), Received::Ignored(Ignored::Vlan));
    assert_eq!(neighbours.receive(T0, &tagged(7)), Received::Handled);
    let frames = sent(&mut neighbours, T0);
    assert_eq!(frames[0][12..22], [0x81, 0, 0, 7, 8, 6, 0, 1, 8, 0]);
    let segment = syn(PEER, "10.0.0.20", "10.0.0.1");
    let tagged = [&segment[..12], &[0x81, 0, 0, 7], &segment[12..]].concat();
    assert_eq!(neighbours.receive(T0, &tagged), Received::Packet(18..58));
}
