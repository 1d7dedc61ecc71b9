//! Echo: what is answered, and how often.

use super::*;

#[test]
fn a_request_comes_back() {
    let mut neighbours = neighbours();
    let data: Vec<u8> = (0..57).collect();
    for (source, destination) in
        [("10.0.0.20", "10.0.0.2"), ("192.0.2.1", "10.0.0.9"), ("fd00::20", "fd00::1")]
    {
        let request = echo_request(PEER, source, destination, &data);
        assert_eq!(neighbours.receive(T0, &request), Received::Handled);
        let mut frames = sent(&mut neighbours, T0);
        let reply = frames.pop().unwrap();
        assert!(frames.is_empty());
        assert_eq!(reply.len(), request.len());
        assert_eq!(reply[..12], [PEER.0, OURS.0].concat());
        let (at, message) = if ip(source).is_ipv4() { (34, 0) } else { (54, 129) };
        let mut expected = request[at..].to_vec();
        (expected[0], expected[2], expected[3]) = (message, 0, 0);
        let protocol = if ip(source).is_ipv4() { 1 } else { 58 };
        if protocol == 1 {
            let sum = checksum(&expected).to_be_bytes();
            expected[2..4].copy_from_slice(&sum);
            assert_eq!(checksum(&reply[14..34]), 0);
        }
        let expected = packet(protocol, 64, destination, source, &expected);
        let same = |reply: &[u8]| match protocol {
            // Without identification, flags and the header's checksum.
            1 => [&reply[..4], &reply[8..10], &reply[12..]].concat(),
            _ => reply.to_vec(),
        };
        assert_eq!(same(&reply[14..]), same(&expected));
    }
    assert_eq!(neighbours.counters().echo_replies, 3);
}

#[test]
fn padding_and_options_are_not_sent_back() {
    let mut neighbours = neighbours();
    let request = echo_request(PEER, "10.0.0.20", "10.0.0.2", &[1, 2, 3]);
    assert_eq!(request.len(), 60);
    let mut noisy = request.clone();
    noisy[45..].fill(0xaa);
    neighbours.receive(T0, &noisy);
    let reply = &sent(&mut neighbours, T0)[0];
    assert_eq!((reply[16..18].to_vec(), reply[45..].to_vec()), (vec![0, 31], vec![0; 15]));
    // Record route, 3 addresses (RFC 791 §3.1).
    let plain = packet(1, 64, "10.0.0.20", "10.0.0.2", &request[34..45]);
    let options = [7, 15, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut with_options = [&plain[..20], &options, &plain[20..]].concat();
    (with_options[0], with_options[3]) = (0x49, with_options[3] + 16);
    with_options[10..12].fill(0);
    let sum = checksum(&with_options[..36]).to_be_bytes();
    with_options[10..12].copy_from_slice(&sum);
    neighbours.receive(T0, &frame(OURS, PEER, 0x0800, &with_options));
    assert_eq!(&sent(&mut neighbours, T0)[0], reply);
}

#[test]
fn what_is_not_to_be_answered_is_not() {
    let broadcasts = vec!["10.0.0.255".parse().unwrap()];
    let mut neighbours = Neighbours::new(Settings { broadcasts, ..settings() }).unwrap();
    let data = [0x55; 40];
    let whole = echo_request(PEER, "10.0.0.20", "10.0.0.2", &data);
    let whole_v6 = echo_request(PEER, "fd00::20", "fd00::2", &data);
    let changed = |frame: &[u8], at: usize, value: u8| {
        let mut frame = frame.to_vec();
        frame[at] = value;
        frame
    };
    let to = |mac: MacAddr, frame: &[u8]| [&mac.0[..], &frame[6..]].concat();
    let mut fragment = whole.clone();
    fragment[20] |= 0x20;
    let from = |source, destination| echo_request(PEER, source, destination, &data);
    for (frame, why, of) in [
        (from("10.0.0.20", "10.0.0.4"), Ignored::Address, "another host"),
        (from("fd00::20", "fd00::4"), Ignored::Address, "another host"),
        (to(MacAddr::BROADCAST, &whole), Ignored::Destination, "to everybody"),
        (to(MacAddr([0x33, 0x33, 0, 0, 0, 1]), &whole_v6), Ignored::Destination, "to all nodes"),
        (to(OTHER, &whole), Ignored::Destination, "to another station"),
        (to(OTHER, &whole_v6), Ignored::Destination, "to another station"),
        (from("10.0.0.9", "10.0.0.2"), Ignored::Source, "from us"),
        (from("224.0.0.1", "10.0.0.2"), Ignored::Source, "from a group"),
        (from("255.255.255.255", "10.0.0.2"), Ignored::Source, "from everybody"),
        (from("10.0.0.255", "10.0.0.2"), Ignored::Source, "from everybody on the network"),
        (from("0.0.0.0", "10.0.0.2"), Ignored::Source, "from nobody"),
        (from("127.0.0.1", "10.0.0.2"), Ignored::Source, "from this host"),
        (from("::", "fd00::2"), Ignored::Source, "from nobody"),
        (from("ff02::1", "fd00::2"), Ignored::Source, "from a group"),
        (changed(&whole, 50, 0), Ignored::Checksum, "damaged"),
        (changed(&whole, 15, 1), Ignored::Checksum, "its header is damaged"),
        (changed(&whole_v6, 70, 0), Ignored::Checksum, "damaged"),
        (fragment, Ignored::Fragment, "a fragment"),
        (whole[..70].to_vec(), Ignored::Malformed, "cut short"),
    ] {
        assert_eq!(neighbours.receive(T0, &frame), Received::Ignored(why), "{of}");
    }
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
    // nor does a TCP hear of what would have it answer to many
    let mut syn = vec![0; 20];
    (syn[12], syn[13]) = (0x50, 0x02);
    for (source, destination) in [
        ("10.0.0.255", "10.0.0.2"),
        ("224.0.0.1", "10.0.0.2"),
        ("255.255.255.255", "10.0.0.2"),
        ("ff02::1", "fd00::2"),
    ] {
        let of = frame(OURS, PEER, ether_type(source), &packet(6, 64, source, destination, &syn));
        let ignored = Received::Ignored(Ignored::Source);
        assert_eq!(neighbours.receive(T0, &of), ignored, "TCP from {source}");
    }
    let of = frame(OURS, PEER, 0x0800, &packet(6, 64, "10.0.0.254", "10.0.0.2", &syn));
    assert_eq!(neighbours.receive(T0, &of), Received::Packet(14..54));
    // A reply is no request: it may be for a program of the caller.
    assert_eq!(neighbours.receive(T0, &changed(&whole, 34, 0)), Received::Packet(14..82));
}

#[test]
fn longer_replies_than_a_frame_are_not_made() {
    let mut neighbours = neighbours();
    let request = |len| echo_request(PEER, "10.0.0.20", "10.0.0.2", &vec![7; len]);
    assert_eq!(neighbours.receive(T0, &request(1472)), Received::Handled);
    assert_eq!(neighbours.receive(T0, &request(1477)), Received::Ignored(Ignored::TooLong));
    assert_eq!(sent(&mut neighbours, T0)[0].len(), 1514);
    // The caller's buffer is too short for it: lost, counted, and nothing waits behind it.
    neighbours.receive(T0, &request(1472));
    neighbours.receive(T0, &request(10));
    let mut short = [0; 100];
    assert_eq!(neighbours.next_frame(T0, &mut short), Some(60));
    assert_eq!(neighbours.counters().buffer_too_short, 1);
}

#[test]
fn replies_have_a_rate() {
    let mut neighbours =
        Neighbours::new(Settings { echoes_per_second: 100, ..settings() }).unwrap();
    let request = echo_request(PEER, "10.0.0.20", "10.0.0.2", &[0; 8]);
    let mut answered = 0;
    // 10 s at 10,000 a second.
    for at in 0..100_000 {
        let now = T0.saturating_add(Nanos::from_micros(at * 100));
        if neighbours.receive(now, &request) == Received::Handled {
            answered += 1;
        }
        sent(&mut neighbours, now);
    }
    // 64 at once, and 100 each second.
    assert_eq!(answered, 64 + 999);
    assert_eq!(neighbours.counters().ignored(Ignored::EchoLimit), 100_000 - answered);
    let mut silent = Neighbours::new(Settings { echoes_per_second: 0, ..settings() }).unwrap();
    assert_eq!(silent.receive(T0, &request), Received::Ignored(Ignored::EchoLimit));
}

#[test]
fn no_more_than_64_replies_wait() {
    let mut neighbours =
        Neighbours::new(Settings { echoes_per_second: u32::MAX, ..settings() }).unwrap();
    let request = echo_request(PEER, "10.0.0.20", "10.0.0.2", &[0; 8]);
    let handled = (0..100).filter(|at| {
        let now = T0.saturating_add(Nanos::from_secs(*at));
        neighbours.receive(now, &request) == Received::Handled
    });
    assert_eq!(handled.count(), 64);
}
