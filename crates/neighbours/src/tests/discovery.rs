//! Neighbour discovery: who is answered, and who is believed.

use super::*;

/// A solicitation for `target`, with the source's link-layer address where it has one.
fn solicitation(
    to: MacAddr,
    source: &str,
    destination: &str,
    target: &str,
    mac: Option<MacAddr>,
) -> Vec<u8> {
    let IpAddr::V6(target) = ip(target) else { panic!("IPv6") };
    let option = mac.map_or(Vec::new(), |mac| [&[1, 1], &mac.0[..]].concat());
    let message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), &option].concat();
    frame(to, PEER, 0x86dd, &packet(58, 255, source, destination, &message))
}

/// An advertisement of `target` with these flags.
fn advertisement(destination: &str, target: &str, flags: u8, mac: Option<MacAddr>) -> Vec<u8> {
    let IpAddr::V6(address) = ip(target) else { panic!("IPv6") };
    let option = mac.map_or(Vec::new(), |mac| [&[2, 1], &mac.0[..]].concat());
    let message = [&[136, 0, 0, 0, flags, 0, 0, 0][..], &address.octets(), &option].concat();
    let to = if destination.starts_with("ff") { MacAddr([0x33, 0x33, 0, 0, 0, 1]) } else { OURS };
    frame(to, mac.unwrap_or(PEER), 0x86dd, &packet(58, 255, target, destination, &message))
}

#[test]
fn a_solicitation_of_the_group_is_answered() {
    let mut neighbours = neighbours();
    // fd00::20 asks the group of fd00::2 for it. The checksums here are those that tshark finds right.
    let question = hex("3333ff000002 020000000002 86dd
        60000000 0020 3a ff fd000000000000000000000000000020 ff0200000000000000000001ff000002
        8700 7d77 00000000 fd000000000000000000000000000002 0101 020000000002");
    assert_eq!(neighbours.receive(T0, &question), Received::Handled);
    let frames = sent(&mut neighbours, T0);
    let expected = hex("020000000002 020000000001 86dd
        60000000 0020 3a ff fd000000000000000000000000000002 fd000000000000000000000000000020
        8800 1c7c 60000000 fd000000000000000000000000000002 0201 020000000001");
    assert_eq!(frames, [expected]);
    assert_eq!(neighbours.mac_for(T0, ip("fd00::20")), Some(PEER));
}

#[test]
fn a_solicitation_of_one_host_and_one_without_address_are_answered() {
    let mut neighbours = neighbours();
    let unicast = solicitation(OURS, "fd00::20", "fd00::3", "fd00::3", None);
    assert_eq!(neighbours.receive(T0, &unicast), Received::Handled);
    // Without the option nothing is learnt.
    assert_eq!(neighbours.state(ip("fd00::20")), State::Unknown);
    let probe =
        solicitation(MacAddr([0x33, 0x33, 0xff, 0, 0, 3]), "::", "ff02::1:ff00:3", "fd00::3", None);
    assert_eq!(neighbours.receive(T0, &probe), Received::Handled);
    let frames = sent(&mut neighbours, T0);
    assert_eq!((&frames[0][..6], frames[0][58]), (&PEER.0[..], 0x60));
    assert_eq!((&frames[1][..6], frames[1][58]), (&[0x33, 0x33, 0, 0, 0, 1][..], 0x20));
    assert_eq!(frames[1][38..54], hex("ff020000000000000000000000000001"));
    assert_eq!(neighbours.counters().advertisements, 2);
}

#[test]
fn only_our_hosts_answer() {
    let mut neighbours = neighbours();
    for target in ["fd00::", "fd00::4", "fd00::1:1", "fe80::1"] {
        let group = format!("ff02::1:ff{:02x}:{:04x}", 0, 4);
        let question = solicitation(
            MacAddr([0x33, 0x33, 0xff, 0, 0, 4]),
            "fd00::20",
            &group,
            target,
            Some(PEER),
        );
        assert_eq!(
            neighbours.receive(T0, &question),
            Received::Ignored(Ignored::Address),
            "{target}"
        );
    }
    // By a frame that goes to somebody else.
    let question = solicitation(OTHER, "fd00::20", "fd00::3", "fd00::3", Some(PEER));
    assert_eq!(neighbours.receive(T0, &question), Received::Ignored(Ignored::Destination));
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
    assert_eq!(neighbours.state(ip("fd00::20")), State::Unknown);
}

#[test]
fn from_beyond_a_router_nothing_is_taken() {
    let mut neighbours = neighbours();
    let mut question = solicitation(OURS, "fd00::20", "fd00::3", "fd00::3", Some(PEER));
    question[21] = 254;
    assert_eq!(neighbours.receive(T0, &question), Received::Ignored(Ignored::Invalid));
    let mut question = solicitation(OURS, "fd00::20", "fd00::3", "fd00::3", Some(PEER));
    question[85] ^= 1;
    assert_eq!(neighbours.receive(T0, &question), Received::Ignored(Ignored::Checksum));
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
}

#[test]
fn an_answer_counts_where_there_was_a_question() {
    let mut neighbours = neighbours();
    let answer = advertisement("fd00::1", "fd00::20", 0x60, Some(PEER));
    assert_eq!(neighbours.receive(T0, &answer), Received::Handled);
    assert_eq!(neighbours.state(ip("fd00::20")), State::Unknown);
    assert_eq!(neighbours.mac_for(T0, ip("fd00::20")), None);
    let frames = sent(&mut neighbours, T0);
    let expected = hex("3333ff000020 020000000001 86dd
        60000000 0020 3a ff fd000000000000000000000000000001 ff0200000000000000000001ff000020
        8700 7d5b 00000000 fd000000000000000000000000000020 0101 020000000001");
    assert_eq!(frames, [expected]);
    // Without a link-layer address it says nothing.
    let empty = advertisement("fd00::1", "fd00::20", 0x60, None);
    assert_eq!(neighbours.receive(T0, &empty), Received::Ignored(Ignored::Invalid));
    assert_eq!(neighbours.receive(T0, &answer), Received::Handled);
    assert_eq!(neighbours.mac_for(T0, ip("fd00::20")), Some(PEER));
    assert_eq!(
        neighbours.next_change(),
        Some(Change { next_hop: ip("fd00::20"), mac: Some(PEER) })
    );
}

#[test]
fn an_announcement_overrides_or_not() {
    let mut neighbours = neighbours();
    neighbours.receive(T0, &solicitation(OURS, "fd00::20", "fd00::3", "fd00::3", Some(PEER)));
    neighbours.receive(T0, &advertisement("ff02::1", "fd00::20", 0, Some(OTHER)));
    assert_eq!(neighbours.state(ip("fd00::20")), State::Known(PEER));
    neighbours.receive(T0, &advertisement("ff02::1", "fd00::20", 0x20, Some(OTHER)));
    assert_eq!(neighbours.state(ip("fd00::20")), State::Known(OTHER));
    neighbours.receive(T0, &advertisement("ff02::1", "fd00::21", 0x20, Some(OTHER)));
    assert_eq!(neighbours.state(ip("fd00::21")), State::Unknown);
}

#[test]
fn a_station_with_an_address_of_ours_is_told() {
    let mut neighbours = neighbours();
    let answer = advertisement("ff02::1", "fd00::2", 0x20, Some(PEER));
    assert_eq!(neighbours.receive(T0, &answer), Received::Ignored(Ignored::Conflict));
    let question = solicitation(OURS, "fd00::1", "fd00::3", "fd00::3", Some(OTHER));
    assert_eq!(neighbours.receive(T0, &question), Received::Ignored(Ignored::Conflict));
    assert_eq!(neighbours.conflict(), Some(Conflict { address: ip("fd00::2"), mac: PEER }));
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
}

#[test]
fn fragments_are_not_discovery() {
    let mut neighbours = neighbours();
    let whole = solicitation(OURS, "fd00::20", "fd00::3", "fd00::3", Some(PEER));
    let message = &whole[54..];
    let content = [&[58, 0, 0, 1, 0, 0, 0, 9], message].concat();
    let fragment = frame(OURS, PEER, 0x86dd, &packet(44, 255, "fd00::20", "fd00::3", &content));
    assert_eq!(neighbours.receive(T0, &fragment), Received::Ignored(Ignored::Fragment));
    assert_eq!(sent(&mut neighbours, T0).len(), 0);
}
