use proptest::prelude::*;

use super::*;
use crate::checksum::Sum;

fn rules() -> Rules {
    let prefix = |text: &str| text.parse::<Prefix>().unwrap();
    let port = |text: &str| text.parse::<PortRange>().unwrap();
    Rules {
        addresses: vec![
            (prefix("10.1.0.0/16"), prefix("192.168.0.0/16")),
            (prefix("fd00::/16"), prefix("2001:db8::/32")),
        ],
        ports: vec![(port("80"), port("8080")), (port("1000-1999"), port("5000-5999"))],
        ..Rules::default()
    }
}

fn ethernet(ether_type: u16, rest: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ether_type.to_be_bytes(), rest].concat()
}

/// An IPv4 packet with a right checksum in its header.
fn v4(place: u16, protocol: u8, ends: [[u8; 4]; 2], carried: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + carried.len() as u16).to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(place.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(ends.concat());
    let checksum = Sum::ZERO.add_bytes(&packet).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(carried);
    packet
}

fn v6(next: u8, ends: [[u8; 16]; 2], carried: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((carried.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(ends.concat());
    packet.extend(carried);
    packet
}

/// How far the transport checksum of a packet is from right: the sum of all it covers, and of itself. The two zeros
/// of ones' complement are one.
fn off(packet: &[u8], protocol: u8) -> u16 {
    let (addresses, carried) = match packet[0] >> 4 {
        4 => (&packet[12..20], &packet[20..]),
        _ => (&packet[8..40], &packet[40..]),
    };
    let numbers = u64::from(protocol) + carried.len() as u64;
    let sum = Sum::ZERO.add_bytes(addresses).add_bytes(&numbers.to_be_bytes()).add_bytes(carried);
    sum.folded() % 0xffff
}

fn header_off(packet: &[u8]) -> u16 {
    Sum::ZERO.add_bytes(&packet[..20]).folded() % 0xffff
}

fn rewritten(rules: &Rules, frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    rules.apply(&mut frame);
    frame
}

#[test]
fn addresses_and_ports_are_mapped_wherever_they_stand() {
    let udp = [0, 80, 0x04, 0x4c, 0, 8, 0, 0];
    let frame = ethernet(0x0800, &v4(0, 17, [[10, 1, 2, 3], [10, 1, 0, 9]], &udp));
    let out = rewritten(&rules(), &frame);
    assert_eq!(out[26..34], [192, 168, 2, 3, 192, 168, 0, 9]);
    assert_eq!(out[34..38], [0x1f, 0x90, 0x13, 0xec], "8080 and 5100");
    assert_eq!(out[40..42], [0, 0], "no checksum stays none");
    assert_eq!(header_off(&out[14..]), 0);
}

#[test]
fn ports_of_what_has_none_stay() {
    let icmp = [8, 0, 0xf7, 0xff, 0, 80, 0, 80];
    let frame = ethernet(0x0800, &v4(0, 1, [[10, 1, 2, 3], [8, 8, 8, 8]], &icmp));
    assert_eq!(rewritten(&rules(), &frame)[34..], icmp);
    let later = ethernet(0x0800, &v4(0x2001, 17, [[10, 1, 2, 3], [8, 8, 8, 8]], &[0, 80, 0, 80]));
    let out = rewritten(&rules(), &later);
    assert_eq!(
        (out[26..30].to_vec(), out[34..].to_vec()),
        (vec![192, 168, 2, 3], vec![0, 80, 0, 80])
    );
}

#[test]
fn the_checksum_in_a_first_fragment_follows_the_addresses() {
    let udp = [0, 80, 0, 81, 0x10, 0, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8];
    let packet = v4(0x2000, 17, [[10, 1, 2, 3], [8, 8, 8, 8]], &udp);
    let out = rewritten(&rules(), &ethernet(0x0800, &packet));
    // what the rest of the datagram adds to its checksum is the same before and after
    assert_eq!(off(&out[14..], 17), off(&packet, 17));
}

#[test]
fn arp_speaks_of_the_new_addresses() {
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
    arp.extend([2, 0, 0, 0, 0, 2, 10, 1, 0, 1, 0, 0, 0, 0, 0, 0, 10, 1, 0, 2]);
    let out = rewritten(&rules(), &ethernet(0x0806, &arp));
    assert_eq!(
        (out[28..32].to_vec(), out[38..42].to_vec()),
        (vec![192, 168, 0, 1], vec![192, 168, 0, 2])
    );
}

#[test]
fn a_neighbour_is_asked_for_by_its_new_address() {
    let (a, b) =
        ([&[0xfd, 0][..], &[0; 13], &[1]].concat(), [&[0xfd, 0][..], &[0; 13], &[2]].concat());
    let ends = [a.try_into().unwrap(), [0xff; 16]];
    let mut asked = vec![135, 0, 0x55, 0x55, 0, 0, 0, 0];
    asked.extend(&b);
    let packet = v6(58, ends, &asked);
    let out = rewritten(&rules(), &ethernet(0x86dd, &packet));
    assert_eq!(out[62..66], [0x20, 0x01, 0x0d, 0xb8]);
    assert_eq!(off(&out[14..], 58), off(&packet, 58));
}

#[test]
fn the_destination_of_a_routed_packet_is_in_no_checksum() {
    let last = [0xfd; 16];
    let mut carried = vec![17, 2, 2, 1, 0, 0, 0, 0];
    carried.extend(last);
    carried.extend([0, 7, 0, 9, 0, 8, 0x12, 0x34]);
    let (source, on_the_way) = ([7; 16], [&[0xfd, 0][..], &[1; 14]].concat());
    let frame = ethernet(0x86dd, &v6(43, [source, on_the_way.try_into().unwrap()], &carried));
    let out = rewritten(&rules(), &frame);
    assert_ne!(out[38..54], frame[38..54]);
    assert_eq!(out[54..], frame[54..]);
}

#[test]
fn link_addresses_are_replaced_but_for_groups() {
    let mac = |last| MacAddr([2, 0, 0, 0, 9, last]);
    let rules =
        Rules { source_mac: Some(mac(1)), destination_mac: Some(mac(2)), ..Rules::default() };
    let mut frame = ethernet(0x1234, &[5; 46]);
    assert_eq!(rewritten(&rules, &frame)[..12], [mac(2).0, mac(1).0].concat());
    frame[0] = 0x33;
    assert_eq!(rewritten(&rules, &frame)[..6], frame[..6]);
    assert_eq!(rewritten(&rules, &frame[..13]), frame[..13]);
}

#[test]
fn tags_are_set_added_mapped_and_taken_off() {
    let vlan = |vlan| Rules { vlan: Some(vlan), ..Rules::default() };
    let plain = ethernet(0x0800, &[9; 46]);
    let tagged = ethernet(0x8100, &[&[0x60, 5, 8, 0][..], &[9; 46]].concat());
    let double = ethernet(0x88a8, &[&[0, 7, 0x81, 0, 0x60, 5, 8, 0][..], &[9; 46]].concat());
    let set = vlan(Vlan::Set(9));
    assert_eq!(rewritten(&set, &plain)[12..18], [0x81, 0, 0, 9, 8, 0]);
    assert_eq!(rewritten(&set, &tagged)[12..18], [0x81, 0, 0x60, 9, 8, 0], "its priority stays");
    assert_eq!(rewritten(&vlan(Vlan::Off), &double), plain);
    assert_eq!(rewritten(&vlan(Vlan::Off), &plain), plain);
    let map = vlan(Vlan::Map(vec![(5, 6), (6, 8)]));
    assert_eq!(rewritten(&map, &tagged)[14..16], [0x60, 6]);
    assert_eq!(rewritten(&map, &double), double);
    assert_eq!(rewritten(&map, &plain), plain);
}

/// Packets of all kinds whose transport checksum is what it happens to be, with the number of their protocol.
fn packet() -> impl Strategy<Value = (Vec<u8>, u8)> {
    let protocol = prop::sample::select(vec![6_u8, 17, 33, 136, 58, 103, 89, 132, 1]);
    let port = prop::sample::select(vec![80_u16, 1000, 1999, 7, 65_535]);
    let address = prop::sample::select(vec![[10, 1], [10, 2], [0, 0], [255, 255]]);
    let ends = (address.clone(), address, any::<[u8; 2]>(), any::<[u8; 2]>());
    (
        protocol,
        (port.clone(), port),
        ends,
        prop::collection::vec(any::<u8>(), 20..60),
        any::<bool>(),
    )
        .prop_map(|(protocol, ports, (a, b, c, d), mut carried, is_v6)| {
            if matches!(protocol, 6 | 17) {
                carried[..2].copy_from_slice(&ports.0.to_be_bytes());
                carried[2..4].copy_from_slice(&ports.1.to_be_bytes());
            }
            let packet = match is_v6 {
                true => {
                    let end = |begin: [u8; 2], end: [u8; 2]| -> [u8; 16] {
                        let begin = if begin == [10, 1] { [0xfd, 0] } else { begin };
                        [&begin[..], &[0; 12], &end].concat().try_into().unwrap()
                    };
                    v6(protocol, [end(a, c), end(b, d)], &carried)
                }
                false => {
                    v4(0, protocol, [[a[0], a[1], c[0], c[1]], [b[0], b[1], d[0], d[1]]], &carried)
                }
            };
            (packet, protocol)
        })
}

proptest! {
    #[test]
    fn a_checksum_stays_as_right_or_as_wrong_as_it_was((packet, protocol) in packet()) {
        let is_v6 = packet[0] >> 4 == 6;
        let out = rewritten(&rules(), &ethernet(if is_v6 { 0x86dd } else { 0x0800 }, &packet));
        let out = &out[14..];
        let Some((at, zero_is_none)) = checksum_at(Protocol(protocol), is_v6) else {
            let begin = if is_v6 { 40 } else { 20 };
            prop_assert_eq!(&out[begin..], &packet[begin..]);
            return Ok(());
        };
        let at = at + if is_v6 { 40 } else { 20 };
        if zero_is_none && packet[at..at + 2] == [0, 0] {
            prop_assert_eq!(&out[at..at + 2], &[0, 0]);
        } else {
            prop_assert_eq!(off(out, protocol), off(&packet, protocol));
            prop_assert!(!zero_is_none || out[at..at + 2] != [0, 0]);
        }
        if !is_v6 {
            prop_assert_eq!(header_off(out), 0);
        }
    }

    #[test]
    fn there_and_back_is_the_same_frame((packet, _) in packet()) {
        let back = |(from, to): &(Prefix, Prefix)| (*to, *from);
        let there = rules();
        let mut again = rules();
        // the second prefix of IPv6 is longer, and loses what lies behind
        again.addresses = there.addresses[..1].iter().map(back).collect();
        again.ports = there.ports.iter().map(|(from, to)| (*to, *from)).collect();
        let is_v6 = packet[0] >> 4 == 6;
        prop_assume!(!is_v6 && packet[20..] .iter().any(|byte| *byte != 0));
        let frame = ethernet(0x0800, &packet);
        let mut out = rewritten(&there, &frame);
        again.apply(&mut out);
        // ones' complement has two zeros: compare what does not depend on which of them it is
        prop_assert_eq!(&out[..24], &frame[..24]);
        prop_assert_eq!(&out[26..38], &frame[26..38]);
        prop_assert_eq!(off(&out[14..], packet[9]), off(&packet, packet[9]));
    }

    #[test]
    fn any_bytes_are_safe(
        ether_type in prop::sample::select(vec![0x0800_u16, 0x8847, 0x86dd, 0x8100, 0x0806]),
        rest in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        for vlan in [None, Some(Vlan::Set(5)), Some(Vlan::Off), Some(Vlan::Map(vec![(0, 1)]))] {
            let rules = Rules { vlan, source_mac: Some(MacAddr::default()), ..rules() };
            let frame = ethernet(ether_type, &rest);
            let len = frame.len();
            prop_assert!(rewritten(&rules, &frame).len() <= len + rules.adds());
            rewritten(&rules, &frame[..rest.len() % 20]);
        }
    }
}
