//! Next hops: asked for, known, confirmed, given up, replaced.

use super::*;

const SECOND: Nanos = Nanos::from_secs(1);

fn after(seconds: u64) -> Nanos {
    T0.saturating_add(Nanos::from_secs(seconds))
}

fn gateway() -> Settings {
    let gateway =
        AddressPair { v4: Some([10, 0, 0, 254].into()), v6: Some("fd00::fe".parse().unwrap()) };
    Settings { gateway, on_link: vec![(ip("10.0.0.0"), 24), (ip("fd00::"), 64)], ..settings() }
}

#[test]
fn a_next_hop_is_asked_for_and_known_when_it_answers() {
    let mut neighbours = neighbours();
    assert_eq!(neighbours.state(ip("10.0.0.20")), State::Unknown);
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.20")), None);
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.20")), None);
    assert_eq!(
        (neighbours.state(ip("10.0.0.20")), neighbours.next_time()),
        (State::Asking, Some(Nanos::ZERO))
    );
    let question = hex("ffffffffffff 020000000001 0806
        0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000014
        000000000000000000000000000000000000");
    assert_eq!(sent(&mut neighbours, T0), [question]);
    assert_eq!(neighbours.next_time(), Some(T0.saturating_add(SECOND)));
    assert_eq!(neighbours.next_change(), None);
    assert_eq!(neighbours.receive(T0, &reply((PEER, "10.0.0.20"), "10.0.0.1")), Received::Handled);
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.20")), Some(PEER));
    assert_eq!(neighbours.next_time(), None);
    let change = Change { next_hop: ip("10.0.0.20"), mac: Some(PEER) };
    assert_eq!((neighbours.next_change(), neighbours.next_change()), (Some(change), None));
    assert_eq!((neighbours.counters().arp_requests, neighbours.counters().learnt), (1, 1));
}

#[test]
fn one_that_does_not_answer_is_asked_three_times_and_given_up() {
    let mut neighbours = neighbours();
    for address in ["10.0.0.20", "fd00::20"] {
        neighbours.mac_for(T0, ip(address));
    }
    for second in 0..3 {
        assert_eq!(sent(&mut neighbours, after(second)).len(), 2, "{second}");
        let before = after(second + 1).saturating_sub(Nanos::new(1));
        assert_eq!(sent(&mut neighbours, before).len(), 0, "{second}");
        assert_eq!(neighbours.next_time(), Some(after(second + 1)));
    }
    assert_eq!(neighbours.state(ip("fd00::20")), State::Asking);
    neighbours.expire(after(3));
    assert_eq!((neighbours.next_time(), neighbours.state(ip("10.0.0.20"))), (None, State::Failed));
    for next_hop in ["10.0.0.20", "fd00::20"] {
        assert_eq!(neighbours.next_change(), Some(Change { next_hop: ip(next_hop), mac: None }));
    }
    let counters = neighbours.counters();
    assert_eq!((counters.arp_requests, counters.solicitations, counters.failed), (3, 3, 2));
    // The next packet asks again, and what comes of the old question is told no more.
    assert_eq!(neighbours.mac_for(after(3), ip("10.0.0.20")), None);
    assert_eq!(sent(&mut neighbours, after(3)).len(), 1);
    assert_eq!(neighbours.next_change(), None);
    neighbours.receive(after(3), &reply((PEER, "10.0.0.20"), "10.0.0.1"));
    assert_eq!(
        neighbours.next_change(),
        Some(Change { next_hop: ip("10.0.0.20"), mac: Some(PEER) })
    );
}

#[test]
fn what_is_not_on_the_link_goes_to_the_gateway() {
    let mut neighbours = Neighbours::new(gateway()).unwrap();
    for (destination, next_hop) in [
        ("10.0.0.20", "10.0.0.20"),
        ("10.0.1.20", "10.0.0.254"),
        ("10.0.0.254", "10.0.0.254"),
        ("169.254.3.4", "169.254.3.4"),
        ("192.0.2.1", "10.0.0.254"),
        ("fd00::77", "fd00::77"),
        ("fe80::1", "fe80::1"),
        ("2001:db8::1", "fd00::fe"),
    ] {
        assert_eq!(neighbours.next_hop(ip(destination)), ip(next_hop), "{destination}");
    }
    for last in 1..100 {
        assert_eq!(neighbours.mac_for(T0, [192, 0, 2, last].into()), None);
    }
    assert_eq!(sent(&mut neighbours, T0).len(), 1, "all have one next hop");
    neighbours.receive(T0, &reply((PEER, "10.0.0.254"), "10.0.0.1"));
    assert_eq!(neighbours.mac_for(T0, ip("198.51.100.7")), Some(PEER));
    // A station that is not on the link cannot be a next hop.
    neighbours.receive(T0, &request((OTHER, "192.0.2.7"), "10.0.0.1"));
    assert_eq!(neighbours.state(ip("192.0.2.7")), State::Known(PEER));
}

#[test]
fn groups_follow_from_their_address_and_what_no_host_has_has_no_next_hop() {
    let mut neighbours = neighbours();
    let group = MacAddr([1, 0, 0x5e, 0, 0, 0xfb]);
    assert_eq!(neighbours.mac_for(T0, ip("224.0.0.251")), Some(group));
    assert_eq!(neighbours.mac_for(T0, ip("255.255.255.255")), Some(MacAddr::BROADCAST));
    assert_eq!(neighbours.mac_for(T0, ip("ff02::1")), Some(MacAddr([0x33, 0x33, 0, 0, 0, 1])));
    for address in ["0.0.0.0", "127.0.0.1", "::", "::1"] {
        assert_eq!(
            (neighbours.mac_for(T0, ip(address)), neighbours.state(ip(address))),
            (None, State::Failed)
        );
    }
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
}

#[test]
fn without_an_address_to_ask_from_there_is_no_question() {
    let hosts = Hosts::new([(ip("10.0.0.1"), ip("10.0.0.1"))]).unwrap();
    let mut neighbours = Neighbours::new(Settings { hosts, ..settings() }).unwrap();
    assert_eq!(
        (neighbours.mac_for(T0, ip("fd00::20")), neighbours.state(ip("fd00::20"))),
        (None, State::Failed)
    );
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
}

#[test]
fn a_fixed_next_hop_is_never_asked_for() {
    let mut neighbours = Neighbours::new(Settings { next_hop: Some(OTHER), ..settings() }).unwrap();
    neighbours.receive(T0, &syn(PEER, "10.0.0.20", "10.0.0.1"));
    neighbours.receive(T0, &request((PEER, "10.0.0.20"), "10.0.0.1"));
    for address in ["10.0.0.20", "192.0.2.1", "fd00::20"] {
        assert_eq!(neighbours.mac_for(T0, ip(address)), Some(OTHER));
        assert_eq!(neighbours.state(ip(address)), State::Known(OTHER));
    }
    // It answers all the same.
    assert_eq!(sent(&mut neighbours, T0).len(), 1);
    assert_eq!(neighbours.counters().learnt_from_packets, 0);
}

#[test]
fn a_client_is_learnt_from_its_syn() {
    let mut neighbours = neighbours();
    assert_eq!(
        neighbours.receive(T0, &syn(PEER, "10.0.0.20", "10.0.0.1")),
        Received::Packet(14..54)
    );
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.20")), Some(PEER));
    // Not against what is known, not from our own addresses, not from groups, and from no other segment.
    neighbours.receive(T0, &syn(OTHER, "10.0.0.20", "10.0.0.1"));
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.20")), Some(PEER));
    for source in ["10.0.0.2", "224.0.0.1", "0.0.0.0", "255.255.255.255"] {
        neighbours.receive(T0, &syn(OTHER, source, "10.0.0.1"));
    }
    let mut data = syn(OTHER, "10.0.0.21", "10.0.0.1");
    data[47] = 0x10;
    neighbours.receive(T0, &data);
    assert_eq!(neighbours.state(ip("10.0.0.21")), State::Unknown);
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
    assert_eq!(neighbours.counters().learnt_from_packets, 1);
}

/// Where a datagram begins a session, the caller has its sender learnt: nobody is asked for, however many the senders are.
#[test]
fn who_begins_a_session_is_learnt_without_a_question() {
    let mut neighbours = neighbours();
    for last in 20..220 {
        let source = format!("192.0.2.{last}");
        let datagram = [0x30, 0x39, 0, 53, 0, 8, 0, 0];
        let packet = packet(17, 64, &source, "10.0.0.1", &datagram);
        let frame = frame(OURS, PEER, 0x0800, &packet);
        assert_eq!(neighbours.receive(T0, &frame), Received::Packet(14..42));
        assert_eq!(neighbours.state(ip(&source)), State::Unknown);
        neighbours.learn(T0, &frame);
        assert_eq!(neighbours.mac_for(T0, ip(&source)), Some(PEER));
    }
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
    // what is no packet teaches nothing
    for frame in [&[][..], &[0; 60], &request((PEER, "10.0.0.20"), "10.0.0.1")] {
        neighbours.learn(T0, frame);
    }
    assert_eq!(neighbours.counters().learnt_from_packets, 200);
}

/// Packets of no session under many addresses have us ask for few.
#[test]
fn strangers_are_asked_for_at_a_bounded_rate() {
    let mut neighbours = neighbours();
    let asked = |neighbours: &mut Neighbours, now: Nanos, net: u8| -> usize {
        for last in 1..=200 {
            let address = ip(&format!("192.0.{net}.{last}"));
            assert_eq!(neighbours.mac_for_stranger(now, address), None);
        }
        sent(neighbours, now).len()
    };
    assert_eq!(asked(&mut neighbours, T0, 1), 64);
    assert_eq!(asked(&mut neighbours, T0, 2), 0);
    let later = T0.saturating_add(Nanos::from_millis(500));
    assert_eq!(asked(&mut neighbours, later, 3), 32);
    // one who is known costs nothing, and our own sessions ask as many as they want
    neighbours.receive(later, &syn(PEER, "10.0.0.20", "10.0.0.1"));
    assert_eq!(neighbours.mac_for_stranger(later, ip("10.0.0.20")), Some(PEER));
    assert_eq!(neighbours.mac_for(later, ip("192.0.4.1")), None);
    assert_eq!(sent(&mut neighbours, later).len(), 1);
}

#[test]
fn who_says_to_be_from_where_it_goes_is_ignored() {
    let mut neighbours = neighbours();
    let land = syn(PEER, "10.0.0.1", "10.0.0.1");
    assert_eq!(neighbours.receive(T0, &land), Received::Ignored(Ignored::Source));
}

#[test]
fn a_gateway_is_learnt_from_a_distant_client_and_asked_at_once() {
    let mut neighbours = Neighbours::new(gateway()).unwrap();
    neighbours.receive(T0, &syn(PEER, "192.0.2.1", "10.0.0.1"));
    assert_eq!(neighbours.mac_for(T0, ip("198.51.100.1")), Some(PEER));
    let frames = sent(&mut neighbours, T0);
    // A frame to it alone.
    assert_eq!(
        (frames.len(), &frames[0][..6], &frames[0][38..42]),
        (1, &PEER.0[..], &[10, 0, 0, 254][..])
    );
    // The gateway itself says that it is elsewhere.
    neighbours.receive(T0, &reply((OTHER, "10.0.0.254"), "10.0.0.1"));
    assert_eq!(neighbours.mac_for(T0, ip("198.51.100.1")), Some(OTHER));
    neighbours.receive(T0, &syn(PEER, "192.0.2.1", "10.0.0.1"));
    assert_eq!(neighbours.mac_for(T0, ip("198.51.100.1")), Some(OTHER));
    assert_eq!(neighbours.state(ip("10.0.0.20")), State::Unknown);
}

#[test]
fn a_next_hop_in_use_is_confirmed_after_a_minute() {
    let mut neighbours = neighbours();
    neighbours.receive(T0, &syn(PEER, "10.0.0.20", "10.0.0.1"));
    assert_eq!(neighbours.mac_for(after(59), ip("10.0.0.20")), Some(PEER));
    assert_eq!(sent(&mut neighbours, after(59)).len(), 0);
    assert_eq!(neighbours.mac_for(after(90), ip("10.0.0.20")), Some(PEER));
    let frames = sent(&mut neighbours, after(90));
    assert_eq!((frames.len(), &frames[0][..6]), (1, &PEER.0[..]));
    neighbours.receive(after(90), &reply((PEER, "10.0.0.20"), "10.0.0.1"));
    assert_eq!(neighbours.mac_for(after(149), ip("10.0.0.20")), Some(PEER));
    assert_eq!(sent(&mut neighbours, after(149)).len(), 0);
    // Nothing was waited for, so nothing is told.
    assert_eq!(neighbours.next_change(), None);
    // It goes away: packets go there until the third question stays without answer.
    for second in 0..3 {
        assert_eq!(neighbours.mac_for(after(180 + second), ip("10.0.0.20")), Some(PEER));
        assert_eq!(sent(&mut neighbours, after(180 + second)).len(), 1);
    }
    neighbours.expire(after(183));
    assert_eq!(neighbours.next_change(), Some(Change { next_hop: ip("10.0.0.20"), mac: None }));
    assert_eq!(neighbours.mac_for(after(183), ip("10.0.0.20")), None);
}

#[test]
fn what_is_set_stays() {
    let mut neighbours = neighbours();
    assert!(neighbours.set(T0, ip("10.0.0.20"), PEER));
    for frame in [
        request((OTHER, "10.0.0.20"), "10.0.0.1"),
        request((OTHER, "10.0.0.20"), "10.0.0.20"),
        reply((OTHER, "10.0.0.20"), "10.0.0.1"),
        syn(OTHER, "10.0.0.20", "10.0.0.1"),
    ] {
        neighbours.receive(T0, &frame);
        assert_eq!(neighbours.mac_for(after(1000), ip("10.0.0.20")), Some(PEER));
    }
    assert!(
        !neighbours.set(T0, ip("10.0.0.1"), PEER)
            && !neighbours.set(T0, ip("10.0.0.20"), MacAddr::BROADCAST)
    );
    // Somebody waits for it already.
    neighbours.mac_for(T0, ip("10.0.0.21"));
    assert!(neighbours.set(T0, ip("10.0.0.21"), PEER));
    assert_eq!(
        neighbours.next_change(),
        Some(Change { next_hop: ip("10.0.0.21"), mac: Some(PEER) })
    );
    assert_eq!(neighbours.next_time(), Some(Nanos::ZERO), "the answer to the request");
}

#[test]
fn a_full_table_replaces_who_was_not_used_for_long_and_nobody_who_is_waited_for() {
    let mut neighbours = Neighbours::new(Settings { next_hops: 4, ..settings() }).unwrap();
    let host = |last: u8| IpAddr::from([10, 0, 1, last]);
    // Four clients are known; two are used all the time.
    for last in 0..4 {
        neighbours.receive(T0, &syn(PEER, &host(last).to_string(), "10.0.0.1"));
    }
    for last in 4..100 {
        for used in [1, 2] {
            assert_eq!(neighbours.mac_for(T0, host(used)), Some(PEER), "{last}");
            // Past the one that was used last.
            neighbours.mac_for(T0, host(2));
        }
        neighbours.receive(T0, &syn(PEER, &host(last).to_string(), "10.0.0.1"));
    }
    assert_eq!([1, 2].map(|last| neighbours.state(host(last))), [State::Known(PEER); 2]);
    // Everybody is asked for: there is no room, and that is counted.
    let mut neighbours = Neighbours::new(Settings { next_hops: 4, ..settings() }).unwrap();
    for last in 0..10 {
        neighbours.mac_for(T0, host(last));
    }
    assert_eq!((sent(&mut neighbours, T0).len(), neighbours.counters().table_full), (4, 6));
    assert_eq!([3, 4].map(|last| neighbours.state(host(last))), [State::Asking, State::Unknown]);
    // Those that were given up and told make room.
    for second in 1..4 {
        sent(&mut neighbours, after(second));
    }
    while neighbours.next_change().is_some() {}
    neighbours.mac_for(after(4), host(50));
    assert_eq!(neighbours.state(host(50)), State::Asking);
}

#[test]
fn invalid_settings_are_told() {
    let with = |change: fn(&mut Settings)| {
        let mut settings = gateway();
        change(&mut settings);
        settings.check().unwrap_err().fault().what
    };
    for (change, what) in [
        (
            (|it| it.link.mac = MacAddr([1, 0, 0, 0, 0, 1])) as fn(&mut Settings),
            "01:00:00:00:00:01 is not the address of one station",
        ),
        (|it| it.link.mac = MacAddr([0; 6]), "00:00:00:00:00:00 is not the address of one station"),
        (|it| it.link.vlan = Some(4095), "there is no VLAN 4095"),
        (|it| it.link.vlan = Some(0), "there is no VLAN 0"),
        (
            |it| it.next_hop = Some(MacAddr::BROADCAST),
            "the next hop ff:ff:ff:ff:ff:ff is not the address of one other station",
        ),
        (
            |it| it.gateway.v4 = Some([10, 0, 0, 9].into()),
            "the gateway 10.0.0.9 is one of our hosts, or an address that no host can have",
        ),
        (
            |it| it.on_link = vec![(ip("10.0.0.0"), 33)],
            "the prefix 10.0.0.0/33 is longer than an address",
        ),
        (
            |it| it.on_link = vec![(ip("10.0.0.0"), 24); 65],
            "65 prefixes are on the link, and 64 can be",
        ),
        (
            |it| it.solicit_from.v4 = Some([10, 0, 0, 8].into()),
            "questions cannot come from 10.0.0.8, which is not one of our hosts",
        ),
        (|it| it.next_hops = 0, "a table cannot have 0 next hops"),
    ] {
        assert_eq!(with(change), what);
    }
    assert_eq!(gateway().check(), Ok(()));
}

#[test]
fn those_that_came_at_once_are_not_confirmed_at_once() {
    let mut neighbours = neighbours();
    let clients: Vec<IpAddr> = (0..1000_u32)
        .map(|host| std::net::Ipv4Addr::from_bits(0x0a01_0000 + host).into())
        .collect();
    for client in &clients {
        neighbours.receive(T0, &syn(PEER, &client.to_string(), "10.0.0.1"));
    }
    let mut asked = Vec::new();
    for second in 60..=90 {
        for client in &clients {
            assert_eq!(neighbours.mac_for(after(second), *client), Some(PEER));
        }
        let questions = sent(&mut neighbours, after(second));
        asked.push(questions.len());
        for question in questions {
            let client = IpAddr::from(<[u8; 4]>::try_from(&question[38..42]).unwrap());
            neighbours.receive(after(second), &reply((PEER, &client.to_string()), "10.0.0.1"));
        }
    }
    assert_eq!(asked.iter().sum::<usize>(), 1000);
    // 33 each second, give or take five standard deviations.
    assert!(asked.iter().all(|count| *count <= 33 + 29), "{asked:?}");
}

#[test]
fn a_thread_that_listens_learns_and_asks_and_leaves_answers_to_another() {
    let mut neighbours = Neighbours::new(Settings { role: Role::Listening, ..settings() }).unwrap();
    let not_answering = Received::Ignored(Ignored::NotAnswering);
    assert_eq!(neighbours.receive(T0, &request((PEER, "10.0.0.20"), "10.0.0.1")), not_answering);
    assert_eq!(
        neighbours.receive(T0, &echo_request(PEER, "10.0.0.20", "10.0.0.1", &[7; 9])),
        not_answering
    );
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.20")), Some(PEER));
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
    neighbours.mac_for(T0, ip("10.0.0.21"));
    assert_eq!(sent(&mut neighbours, T0).len(), 1);
    // The answer came to the other thread, for which it means nothing.
    let mut answering = super::neighbours();
    let answer = reply((OTHER, "10.0.0.21"), "10.0.0.1");
    assert_eq!(answering.receive(T0, &answer), Received::Handled);
    assert_eq!(neighbours.receive(T0, &answer), Received::Handled);
    assert_eq!(neighbours.mac_for(T0, ip("10.0.0.21")), Some(OTHER));
}

#[test]
fn a_full_table_of_next_hops_in_use_replaces_one_of_them() {
    let mut neighbours = Neighbours::new(Settings { next_hops: 200, ..settings() }).unwrap();
    let host = |last: u8| IpAddr::from([10, 0, 1, last]);
    for last in 0..200 {
        neighbours.receive(T0, &syn(PEER, &host(last).to_string(), "10.0.0.1"));
        assert_eq!(neighbours.mac_for(T0, host(last)), Some(PEER));
    }
    neighbours.receive(T0, &syn(OTHER, &host(200).to_string(), "10.0.0.1"));
    assert_eq!(neighbours.state(host(200)), State::Known(OTHER));
    assert_eq!(neighbours.counters().table_full, 0);
}

#[test]
fn a_packet_for_one_host_by_a_group_frame_is_not_taken() {
    let mut neighbours = neighbours();
    for source in ["10.0.0.20", "fd00::20"] {
        let destination = if source == "10.0.0.20" { "10.0.0.1" } else { "fd00::1" };
        let mut frame = syn(PEER, source, destination);
        frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(neighbours.receive(T0, &frame), Received::Ignored(Ignored::Destination));
    }
}
