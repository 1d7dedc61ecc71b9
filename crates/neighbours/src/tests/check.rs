//! The search for duplicates.

use super::*;

fn settings() -> CheckSettings {
    CheckSettings { announce: false, ..CheckSettings::new(Link { mac: OURS, vlan: None }) }
}

fn new(settings: CheckSettings) -> AddressCheck {
    AddressCheck::new(settings, &hosts(), T0).unwrap()
}

/// Runs it to its end without an answer; what it sent, and when.
fn silent(check: &mut AddressCheck) -> (Vec<(Nanos, Vec<u8>)>, Nanos) {
    let (mut frames, mut now) = (Vec::new(), T0);
    let mut buffer = [0; FRAME_MAX];
    while check.outcome(now) == Outcome::Running {
        assert!(frames.len() < 1000);
        now = check.next_time().unwrap();
        if let Some(len) = check.next_frame(now, &mut buffer) {
            frames.push((now, buffer[..len].to_vec()));
        }
        assert_eq!(check.next_frame(now, &mut buffer), None, "one frame at a time");
    }
    (frames, now)
}

#[test]
fn every_address_is_probed_three_times_a_second_apart() {
    let mut check = new(settings());
    let (frames, end) = silent(&mut check);
    assert_eq!(check.outcome(end), Outcome::Free { checked: 7 });
    assert_eq!(check.checked(), 7);
    let times: Vec<u64> =
        frames.iter().map(|(at, _)| at.saturating_sub(T0).get() / 100_000).collect();
    let expected: Vec<u64> =
        (0..3).flat_map(|second| (0..7).map(move |at| second * 10_000 + at)).collect();
    assert_eq!(times, expected);
    // 2 s after the last probe.
    assert_eq!(end.saturating_sub(T0), Nanos::new(4_000_600_000));
    let probe = hex("ffffffffffff 020000000001 0806
        0001 0800 06 04 0001 020000000001 00000000 000000000000 0a000001
        000000000000000000000000000000000000");
    assert_eq!(frames[0].1, probe);
    let probe = hex("3333ff000001 020000000001 86dd
        60000000 0018 3a ff 00000000000000000000000000000000 ff0200000000000000000001ff000001
        8700 7da5 00000000 fd000000000000000000000000000001");
    assert_eq!(frames[4].1, probe);
}

#[test]
fn no_more_are_checked_than_asked_for_and_then_announced() {
    let mut check = new(CheckSettings { most: 2, probes: 1, announce: true, ..settings() });
    let (frames, end) = silent(&mut check);
    assert_eq!(check.outcome(end), Outcome::Free { checked: 4 });
    assert_eq!((frames.len(), check.next_time()), (8, None));
    let announcement = hex("ffffffffffff 020000000001 0806
        0001 0800 06 04 0001 020000000001 0a000002 000000000000 0a000002
        000000000000000000000000000000000000");
    assert_eq!(frames[5].1, announcement);
    let announcement = &frames[7].1;
    assert_eq!(announcement[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!((announcement[54], announcement[58]), (136, 0x20));
    let empty = AddressCheck::new(settings(), &Hosts::default(), T0).unwrap();
    assert_eq!((empty.outcome(T0), empty.next_time()), (Outcome::Free { checked: 0 }, None));
}

#[test]
fn whoever_has_or_wants_an_address_of_ours_is_found() {
    let IpAddr::V6(target) = ip("fd00::2") else { panic!("IPv6") };
    let answer = [&[136, 0, 0, 0, 0x20, 0, 0, 0][..], &target.octets(), &[2, 1], &OTHER.0].concat();
    let wish = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets()].concat();
    let to_all = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
    for (frame, address) in [
        (reply((OTHER, "10.0.0.9"), "0.0.0.0"), "10.0.0.9"),
        (request((OTHER, "10.0.0.9"), "10.0.0.77"), "10.0.0.9"),
        (request((OTHER, "0.0.0.0"), "10.0.0.3"), "10.0.0.3"),
        (frame(to_all, OTHER, 0x86dd, &packet(58, 255, "fd00::2", "ff02::1", &answer)), "fd00::2"),
        (frame(to_all, OTHER, 0x86dd, &packet(58, 255, "::", "ff02::1:ff00:2", &wish)), "fd00::2"),
    ] {
        let mut check = new(settings());
        let conflict = Conflict { address: ip(address), mac: OTHER };
        assert_eq!(check.receive(&frame), Some(conflict));
        assert_eq!((check.outcome(T0), check.next_time()), (Outcome::Conflict(conflict), None));
        assert_eq!(check.next_frame(T0, &mut [0; FRAME_MAX]), None);
    }
}

#[test]
fn others_and_we_ourselves_are_not_duplicates() {
    let mut check = new(settings());
    let mut buffer = [0; FRAME_MAX];
    let len = check.next_frame(T0, &mut buffer).unwrap();
    for frame in [
        // Our own frame comes back; a bridge repeats it under its own address.
        buffer[..len].to_vec(),
        [&buffer[..6], &PEER.0, &buffer[12..len]].concat(),
        reply((PEER, "10.0.0.4"), "10.0.0.1"),
        request((PEER, "10.0.0.77"), "10.0.0.1"),
        request((PEER, "0.0.0.0"), "10.0.0.77"),
        syn(PEER, "10.0.0.1", "10.0.0.2"),
    ] {
        assert_eq!(check.receive(&frame), None);
    }
    assert_eq!(check.outcome(T0), Outcome::Running);
}
