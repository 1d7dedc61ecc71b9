//! Our hosts on both ends of a link, with and without a VLAN.

use super::*;

/// Carries frames between both until neither has one; returns how often they went.
fn carry(ends: &mut [Neighbours; 2], now: Nanos) -> usize {
    for count in 0..100 {
        let [there, back] = [0, 1].map(|end| sent(&mut ends[end], now));
        if there.is_empty() && back.is_empty() {
            return count;
        }
        for (frames, end) in [(there, 1), (back, 0)] {
            for frame in frames {
                assert_eq!(ends[end].receive(now, &frame), Received::Handled, "{frame:02x?}");
            }
        }
    }
    panic!("they do not come to an end");
}

#[test]
fn both_ends_find_each_other() {
    for vlan in [None, Some(1), Some(4094)] {
        let ends = [(OURS, 0_u8), (PEER, 100)].map(|(mac, first)| {
            let v4 = |last| IpAddr::from([10, 0, 0, first + last]);
            let v6 =
                |last| IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, first + last]);
            let hosts = Hosts::new([(v4(1), v4(9)), (v6(1), v6(9))]).unwrap();
            Neighbours::new(Settings::new(Link { mac, vlan }, hosts, [1, 2])).unwrap()
        });
        let mut ends = ends;
        for (from, mac, addresses) in [
            (0, PEER, ["10.0.0.101", "10.0.0.109", "fd00::65", "fd00::6d"]),
            (1, OURS, ["10.0.0.1", "10.0.0.9", "fd00::1", "fd00::9"]),
        ] {
            for address in addresses {
                ends[from].mac_for(T0, ip(address));
                carry(&mut ends, T0);
                assert_eq!(ends[from].mac_for(T0, ip(address)), Some(mac), "{address} in {vlan:?}");
            }
        }
        // An echo through the helper that writes the Ethernet header.
        let request = echo_request(OURS, "10.0.0.1", "10.0.0.101", &[9; 100]);
        let mut frame = [0; 200];
        let at = ends[0].link().write_header(PEER, EtherType::IPV4, &mut frame).unwrap();
        let len = at + request.len() - 14;
        frame[at..len].copy_from_slice(&request[14..]);
        assert_eq!(ends[1].receive(T0, &frame[..len]), Received::Handled);
        let replies = sent(&mut ends[1], T0);
        assert_eq!(ends[0].receive(T0, &replies[0]), Received::Packet(at..len));
        // After two minutes both confirm each other, and nobody is lost.
        let later = T0.saturating_add(Nanos::from_secs(120));
        assert_eq!(ends[0].mac_for(later, ip("fd00::65")), Some(PEER));
        assert!(carry(&mut ends, later) > 0);
        assert_eq!(ends[0].next_time(), None);
        assert_eq!(ends[0].state(ip("fd00::65")), State::Known(PEER));
        assert_eq!(
            ends.each_ref().map(|end| (end.counters().failed, end.conflict())),
            [(0, None); 2]
        );
    }
}

#[test]
fn the_same_hosts_on_both_ends_are_found_by_both() {
    let mut checks = [OURS, PEER].map(|mac| {
        let settings = CheckSettings::new(Link { mac, vlan: None });
        AddressCheck::new(settings, &hosts(), T0).unwrap()
    });
    let mut buffer = [0; FRAME_MAX];
    let frames = checks.each_mut().map(|check| {
        let len = check.next_frame(T0, &mut buffer).unwrap();
        buffer[..len].to_vec()
    });
    checks[0].receive(&frames[1]);
    checks[1].receive(&frames[0]);
    let conflict = |mac| Outcome::Conflict(Conflict { address: ip("10.0.0.1"), mac });
    assert_eq!([0, 1].map(|at| checks[at].outcome(T0)), [conflict(PEER), conflict(OURS)]);
}
