//! No frame, however it was made, makes our hosts panic, lose count, speak for others or say more than they were asked.

use proptest::prelude::*;

use super::*;
use wirebeat_wire::ip::Version;
use wirebeat_wire::walk::{Policy, ip_packet};

/// What happens to the hosts.
#[derive(Clone, Debug)]
enum Step {
    Frame {
        bytes: Vec<u8>,
        damage: Option<(prop::sample::Index, u8)>,
        len: Option<prop::sample::Index>,
    },
    MacFor(IpAddr),
    Wait(u32),
}

/// Addresses of ours, of others, and of nobody.
fn address() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "10.0.0.1",
        "10.0.0.4",
        "10.0.0.9",
        "10.0.0.20",
        "10.0.0.21",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
    ])
}

fn address_v6() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "fd00::1",
        "fd00::3",
        "fd00::4",
        "fd00::20",
        "fe80::1",
        "::",
        "ff02::1",
        "ff02::1:ff00:1",
        "ff02::1:ff00:4",
    ])
}

fn mac() -> impl Strategy<Value = MacAddr> {
    let group = MacAddr([0x33, 0x33, 0xff, 0, 0, 1]);
    prop::sample::select(vec![OURS, PEER, OTHER, MacAddr::BROADCAST, group, MacAddr([0; 6])])
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let arp = (mac(), mac(), 0_u8..4, mac(), address(), address()).prop_map(
        |(to, from, operation, sender_mac, sender, target)| {
            frame(to, from, 0x0806, &arp_packet(operation, (sender_mac, sender), target))
        },
    );
    let discovery = (
        mac(),
        mac(),
        address_v6(),
        address_v6(),
        address_v6(),
        134..138_u8,
        any::<u8>(),
        prop::option::of((0..4_u8, 0..3_u8, mac())),
    )
        .prop_map(|(to, from, source, destination, target, kind, flags, option)| {
            let IpAddr::V6(target) = ip(target) else { panic!("IPv6") };
            let option =
                option.map_or(Vec::new(), |(kind, len, mac)| [&[kind, len], &mac.0[..]].concat());
            let message =
                [&[kind, 0, 0, 0, flags, 0, 0, 0][..], &target.octets(), &option].concat();
            frame(to, from, 0x86dd, &packet(58, 255, source, destination, &message))
        });
    let data = || prop::collection::vec(any::<u8>(), 0..100);
    let echo = (mac(), mac(), address(), address(), data()).prop_map(
        |(to, from, source, destination, data)| {
            [&to.0[..], &echo_request(from, source, destination, &data)[6..]].concat()
        },
    );
    let echo_v6 = (mac(), mac(), address_v6(), address_v6(), data()).prop_map(
        |(to, from, source, destination, data)| {
            [&to.0[..], &echo_request(from, source, destination, &data)[6..]].concat()
        },
    );
    let syns = (mac(), address(), address())
        .prop_map(|(from, source, destination)| syn(from, source, destination));
    prop_oneof![
        4 => arp,
        4 => discovery,
        2 => echo,
        2 => echo_v6,
        2 => syns,
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let damage = prop::option::weighted(0.1, (any::<prop::sample::Index>(), any::<u8>()));
    let len = prop::option::weighted(0.1, any::<prop::sample::Index>());
    let frames = (any_frame(), damage, len).prop_map(|(bytes, damage, len)| Step::Frame {
        bytes,
        damage,
        len,
    });
    prop_oneof![
        8 => frames,
        2 => address().prop_map(|it| Step::MacFor(ip(it))),
        2 => address_v6().prop_map(|it| Step::MacFor(ip(it))),
        1 => (0..90_000_u32).prop_map(Step::Wait),
    ]
}

/// Who speaks in a frame of ours: the sender of ARP, the source of IP.
fn speaker(frame: &[u8]) -> IpAddr {
    match frame[12..14] {
        [8, 6] => IpAddr::from(<[u8; 4]>::try_from(&frame[28..32]).unwrap()),
        [8, 0] => ip_packet(&frame[14..], Version::V4, Policy::Strict).unwrap().source(),
        [0x86, 0xdd] => ip_packet(&frame[14..], Version::V6, Policy::Strict).unwrap().source(),
        _ => panic!("{frame:02x?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn any_frames_in_any_order(next_hops in prop::sample::select(vec![1, 2, 16]), steps in prop::collection::vec(step(), 0..120)) {
        let hosts = hosts();
        let mut neighbours = Neighbours::new(Settings { next_hops, ..settings() }).unwrap();
        let mut check = AddressCheck::new(CheckSettings::new(Link { mac: OURS, vlan: None }), &hosts, T0).unwrap();
        let mut now = T0;
        for step in steps {
            match step {
                Step::Frame { mut bytes, damage, len } => {
                    if let Some((at, value)) = damage && !bytes.is_empty() {
                        let at = at.index(bytes.len());
                        bytes[at] ^= value;
                    }
                    if let Some(len) = len {
                        bytes.truncate(len.index(bytes.len() + 1));
                    }
                    if let Some(conflict) = check.receive(&bytes) {
                        prop_assert!(hosts.contains(conflict.address) && conflict.mac != OURS);
                    }
                    let questions = sent(&mut neighbours, now).len();
                    prop_assert!(questions <= 32);
                    match neighbours.receive(now, &bytes) {
                        Received::Packet(range) => {
                            let version = if bytes[range.start] >> 4 == 4 { Version::V4 } else { Version::V6 };
                            let packet = ip_packet(&bytes[range.clone()], version, Policy::Strict).unwrap();
                            prop_assert!(hosts.contains(packet.destination()));
                            prop_assert_eq!(packet.headers_len + packet.content.len(), range.len());
                            // The gateway is not confirmed here: there is none.
                            prop_assert_eq!(sent(&mut neighbours, now).len(), 0);
                        }
                        Received::Handled => {
                            let frames = sent(&mut neighbours, now);
                            prop_assert!(frames.len() <= 1);
                            for frame in frames {
                                let is_advertisement = frame[12] == 0x86 && frame[54] == 136;
                                let longer = if is_advertisement { 8 } else { 0 };
                                prop_assert!(frame.len() <= bytes.len().max(60) + longer);
                            }
                        }
                        Received::Ignored(_) => prop_assert_eq!(sent(&mut neighbours, now).len(), 0),
                    }
                }
                Step::MacFor(address) => {
                    if let Some(mac) = neighbours.mac_for(now, address) {
                        prop_assert!(mac != MacAddr([0; 6]) && (mac == OURS) == hosts.contains(address));
                        prop_assert_eq!(neighbours.state(address), State::Known(mac));
                    }
                }
                Step::Wait(ms) => now = now.saturating_add(Nanos::from_millis(ms.into())),
            }
            let mut buffer = [0; FRAME_MAX];
            while let Some(len) = neighbours.next_frame(now, &mut buffer) {
                let frame = &buffer[..len];
                prop_assert_eq!(&frame[6..12], &OURS.0[..]);
                prop_assert!(hosts.contains(speaker(frame)), "{:02x?}", frame);
                prop_assert!(!MacAddr(*frame.first_chunk().unwrap()).eq(&OURS));
            }
            while let Some(change) = neighbours.next_change() {
                prop_assert!(!hosts.contains(change.next_hop));
            }
        }
        // Whatever happened, questions end.
        for _ in 0..5 {
            now = now.saturating_add(Nanos::from_secs(1));
            sent(&mut neighbours, now);
        }
        prop_assert_eq!(neighbours.next_time(), None);
    }
}
