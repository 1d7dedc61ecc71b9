//! Any frames, and addresses asked for, to our hosts on a link and to the search for duplicates: nobody speaks for others, no more
//! is said than was asked, and counters balance.

#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use wirebeat_neighbours::{
    AddressCheck, AddressPair, CheckSettings, FRAME_MAX, Hosts, Link, Neighbours, Received,
    Settings,
};
use wirebeat_units::Nanos;
use wirebeat_wire::mac::MacAddr;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// The sender of ARP, or the source of IP, behind the Ethernet header of `header_len` bytes.
fn speaker(frame: &[u8], header_len: usize) -> IpAddr {
    let v4 = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&frame[at..at + 4]).unwrap());
    match frame[header_len - 2..header_len] {
        [8, 6] => v4(header_len + 14),
        [8, 0] => v4(header_len + 12),
        _ => IpAddr::from(<[u8; 16]>::try_from(&frame[header_len + 8..header_len + 24]).unwrap()),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[options], mut rest)) = bytes.split_first_chunk::<1>() else { return };
    let link = Link { mac: OURS, vlan: (options & 1 == 1).then_some(5) };
    let range = |first: [u8; 4], last: [u8; 4]| (IpAddr::from(first), IpAddr::from(last));
    let six = |last| IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    let hosts = Hosts::new([range([10, 0, 0, 1], [10, 0, 0, 9]), (six(1), six(9))]).unwrap();
    let mut settings = Settings::new(link, hosts.clone(), [1, 2]);
    settings.next_hops = 1 + u32::from(options >> 6);
    if options & 2 != 0 {
        let gateway = "fd00::fe".parse().unwrap();
        settings.gateway = AddressPair { v4: Some([10, 0, 0, 254].into()), v6: Some(gateway) };
        settings.on_link = vec![([10, 0, 0, 0].into(), 24), (six(0), 64)];
    }
    let mut now = Nanos::from_secs(1);
    let mut neighbours = Neighbours::new(settings).unwrap();
    let mut check = AddressCheck::new(CheckSettings::new(link), &hosts, now).unwrap();
    let mut buffer = [0; FRAME_MAX];
    while let Some((&[kind, a, b], behind)) = rest.split_first_chunk::<3>() {
        let (frame, behind) = behind.split_at(usize::from(b).min(behind.len()));
        rest = behind;
        let mut answers = 64;
        match kind & 7 {
            0 => now = now.saturating_add(Nanos::from_millis(u64::from(a) * 300)),
            1 => {
                neighbours.mac_for(now, [10, 0, a & 1, b].into());
            }
            2 => {
                neighbours.mac_for(now, six(b));
            }
            _ => {
                // What is always asked first is given, so that more of it gets further.
                let mut whole = [&OURS.0[..], &[2, 0, 0, 0, 0, a & 3]].concat();
                whole.extend_from_slice(if options & 1 == 1 { &[0x81, 0, 0, 5] } else { &[] });
                whole.extend_from_slice(frame);
                if kind & 8 != 0 {
                    whole[..6].copy_from_slice(&[0x33, 0x33, 0xff, 0, 0, a]);
                }
                check.receive(&whole);
                while neighbours.next_frame(now, &mut buffer).is_some() {}
                match neighbours.receive(now, &whole) {
                    Received::Packet(range) => assert!(whole[range].len() >= 20),
                    Received::Handled => {}
                    Received::Ignored(_) => answers = 0,
                }
                answers = answers.min(1);
            }
        }
        let mut count = 0;
        while let Some(len) = neighbours.next_frame(now, &mut buffer) {
            assert!(hosts.contains(speaker(&buffer[..len], link.header_len())));
            count += 1;
        }
        assert!(count <= answers, "{count} frames");
        while neighbours.next_change().is_some() {}
        if let Some(len) = check.next_frame(now, &mut buffer) {
            assert!(len <= 86 + 4);
        }
        assert!(neighbours.counters().balance());
    }
});
