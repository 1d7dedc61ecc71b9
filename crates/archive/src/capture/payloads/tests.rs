use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wirebeat_wire::testing::udp_frame;

use super::*;
use crate::capture::{Frames, Place};

/// Sources and destinations.
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 9)];
const V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
];

fn v4(payload: &[u8]) -> Vec<u8> {
    udp_frame(&format!("{}:4660", V4[0]), &format!("{}:9", V4[1]), payload)
}

fn v6(payload: &[u8]) -> Vec<u8> {
    udp_frame(&format!("[{}]:4660", V6[0]), &format!("[{}]:9", V6[1]), payload)
}

/// A capture of nanoseconds: time, bytes that are missing at the end, and the frame.
fn pcap(link: u32, frames: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, link]);
    for (ns, missing, bytes) in frames {
        let len = bytes.len() as u32;
        file.extend(words(&[1, *ns, len, len + missing]));
        file.extend(bytes);
    }
    file
}

type Seen = (i64, Device, Vec<u8>);

fn all(
    bytes: &[u8],
    on_bad: OnBad,
    take: Take,
    of: DeviceOf,
) -> Result<(Vec<Seen>, Skipped, HeldBack), ReadError> {
    within(None, bytes, on_bad, take, of)
}

/// With frames in order within so many nanoseconds.
fn within(
    width_ns: Option<u64>,
    bytes: &[u8],
    on_bad: OnBad,
    take: Take,
    of: DeviceOf,
) -> Result<(Vec<Seen>, Skipped, HeldBack), ReadError> {
    let frames = Window::new(Frames::new(bytes, "test", on_bad), width_ns);
    let mut payloads = Payloads::new(frames, take, of);
    let mut all = Vec::new();
    while payloads.advance()? {
        let Record { time, device, data } = payloads.record();
        all.push((time.unix_us() - 1_000_000, device, data.to_vec()));
    }
    Ok((all, *payloads.skipped(), *payloads.held_back()))
}

fn udp(bytes: &[u8]) -> (Vec<Seen>, Skipped) {
    let (all, skipped, _) = all(bytes, OnBad::Stop, Take::Udp, DeviceOf::Source).unwrap();
    (all, skipped)
}

fn counts(skipped: &Skipped) -> Vec<(&'static str, u64)> {
    skipped.iter().filter(|(_, count)| *count > 0).collect()
}

/// `frame` with changed bytes.
fn changed(mut frame: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for (at, value) in changes {
        frame[*at] = *value;
    }
    frame
}

#[test]
fn payloads_are_taken_with_their_time_rounded_down_and_their_source() {
    let tagged = |frame: Vec<u8>, tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
    let mpls = |frame: Vec<u8>| {
        [&frame[..12], &[0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x21, 64], &frame[14..]].concat()
    };
    let file = pcap(
        1,
        &[
            (0, 0, v4(b"short")),
            (1_999, 0, v6(b"over IPv6")),
            (2_000, 0, tagged(v4(b"tagged"), &[0x81, 0, 0, 5])),
            (3_000, 0, tagged(v6(b"twice"), &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 5])),
            (4_000, 0, mpls(v4(b"labelled"))),
        ],
    );
    let (seen, skipped) = udp(&file);
    let four = Device(V4[0].to_ipv6_mapped().octets());
    let six = Device(V6[0].octets());
    let expected: [(i64, Device, &[u8]); 5] = [
        (0, four, b"short"),
        (1, six, b"over IPv6"),
        (2, four, b"tagged"),
        (3, six, b"twice"),
        (4, four, b"labelled"),
    ];
    assert_eq!(seen, expected.map(|(us, device, data)| (us, device, data.to_vec())));
    assert_eq!(skipped.total(), 0);
}

#[test]
fn packets_are_found_on_every_link() {
    let ip = |frame: Vec<u8>| frame[14..].to_vec();
    let sll = |frame: Vec<u8>| [&[0; 14][..], &frame[12..]].concat();
    let sll2 = |frame: Vec<u8>| [&frame[12..14], &[0; 18], &frame[14..]].concat();
    let null = |frame: Vec<u8>| [&[2, 0, 0, 0], &frame[14..]].concat();
    for (link, frames) in [
        (0, [null(v4(b"x")), null(v6(b"x"))]),
        (12, [ip(v4(b"x")), ip(v6(b"x"))]),
        (101, [ip(v4(b"x")), ip(v6(b"x"))]),
        (108, [null(v4(b"x")), null(v6(b"x"))]),
        (113, [sll(v4(b"x")), sll(v6(b"x"))]),
        (228, [ip(v4(b"x")), ip(v4(b"x"))]),
        (276, [sll2(v4(b"x")), sll2(v6(b"x"))]),
    ] {
        let (seen, skipped) = udp(&pcap(link, &frames.map(|frame| (0, 0, frame))));
        assert!(seen.len() == 2 && seen.iter().all(|(.., data)| data == b"x"), "{link}");
        assert_eq!(skipped.total(), 0);
    }
    let file = pcap(147, &[(0, 0, v4(b"x")), (0, 0, v4(b"x"))]);
    let error = all(&file, OnBad::Stop, Take::Udp, DeviceOf::Source).unwrap_err().to_string();
    assert_eq!(
        error,
        "test: frame 1 at byte 24: its link type is 147, and what is in such frames is not known here"
    );
    let (seen, skipped, _) = all(&file, OnBad::Skip, Take::Udp, DeviceOf::Source).unwrap();
    assert!(seen.is_empty());
    assert_eq!(counts(&skipped), [("of a link type that is not known here", 2)]);
}

#[test]
fn what_gives_no_record_is_counted_by_reason() {
    let fragment = [17, 0, 0, 1, 0, 0, 0, 9];
    let six = [&changed(v6(&fragment), &[(20, 44)])[..54], &fragment, &[0; 16]].concat();
    let whole = v4(&[7; 30]);
    let file = pcap(
        1,
        &[
            (0, 0, changed(v4(b"ARP"), &[(13, 6)])),
            (0, 0, changed(v4(b"first"), &[(20, 0x20)])),
            (0, 0, changed(v4(b"last"), &[(21, 1)])),
            (0, 0, six),
            (0, 0, changed(v4(b"TCP"), &[(23, 6)])),
            (0, 10, whole[..whole.len() - 10].to_vec()),
            (0, 50, whole[..20].to_vec()),
            (0, 70, whole[..3].to_vec()),
            (0, 0, whole[..whole.len() - 10].to_vec()),
            (0, 0, changed(whole.clone(), &[(39, 200)])),
            // padding alone is missing
            (0, 14, v4(b"whole")[..14 + 20 + 8 + 5].to_vec()),
        ],
    );
    let (seen, skipped) = udp(&file);
    assert_eq!(seen.len(), 1);
    let expected = [
        ("not IP", 1),
        ("fragments of IP packets", 3),
        ("not UDP", 1),
        ("cut short in the capture", 3),
        ("malformed", 2),
    ];
    assert_eq!(counts(&skipped), expected);
    assert_eq!(skipped.total(), 10);
}

#[test]
fn any_ip_packet_is_taken_with_its_transport_header_where_that_is_asked_for() {
    let tcp = changed(v4(b"0123456789abcdef"), &[(23, 6)]);
    let file =
        pcap(1, &[(0, 0, tcp.clone()), (0, 0, v6(b"x")), (0, 0, changed(v4(b""), &[(13, 6)]))]);
    let (seen, skipped, _) = all(&file, OnBad::Stop, Take::Ip, DeviceOf::Destination).unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].2, tcp[34..58]);
    assert_eq!(seen[0].1, Device(V4[1].to_ipv6_mapped().octets()));
    assert_eq!((seen[1].2.len(), seen[1].1), (9, Device(V6[1].octets())));
    assert_eq!(counts(&skipped), [("not IP", 1)]);
}

#[test]
fn flows_are_devices() {
    let other_port = changed(v6(b"x"), &[(55, 1)]);
    let file = pcap(1, &[(0, 0, v4(b"x")), (0, 0, v6(b"x")), (0, 0, v6(b"y")), (0, 0, other_port)]);
    let (seen, ..) = all(&file, OnBad::Stop, Take::Udp, DeviceOf::Flow).unwrap();
    let four = [192, 0, 2, 1, 198, 51, 100, 9, 0x12, 0x34, 0, 9, 17, 0, 0, 0];
    assert_eq!(seen[0].1, Device(four));
    assert_eq!(seen[1].1, seen[2].1);
    assert_ne!(seen[1].1, seen[3].1);
    // the test vectors of FNV-1a
    assert_eq!(u128::from_be_bytes(fnv(b"")), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    assert_eq!(u128::from_be_bytes(fnv(b"a")), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
}

/// Live captures of several interfaces or CPUs have these.
#[test]
fn a_step_back_of_nanoseconds_is_held_back_and_counted() {
    let times = [(5_007, b"a"), (5_000, b"b"), (3_000, b"c"), (9_000, b"d")];
    let file = pcap(1, &times.map(|(ns, data)| (ns, 0, v4(data))));
    let data = |seen: Vec<Seen>| -> Vec<(i64, u8)> {
        seen.into_iter().map(|(us, _, data)| (us, data[0])).collect()
    };
    let (seen, _, held) = all(&file, OnBad::Stop, Take::Udp, DeviceOf::Source).unwrap();
    assert_eq!(data(seen), [(5, b'a'), (5, b'b'), (5, b'c'), (9, b'd')]);
    let first = Some(Place { offset: 100, number: 2 });
    assert_eq!(held, HeldBack { frames: 2, most_ns: 2_007, first, set_back: 0 });
    let sorted = within(Some(3_000), &file, OnBad::Stop, Take::Udp, DeviceOf::Source).unwrap();
    assert_eq!(data(sorted.0), [(3, b'c'), (5, b'b'), (5, b'a'), (9, b'd')]);
    assert_eq!(sorted.2, HeldBack::default());
    // what gives no record holds none back
    let other = changed(v4(b"x"), &[(13, 6)]);
    let file = pcap(1, &[(9_000, 0, other), (5_000, 0, v4(b"a"))]);
    let (seen, _, held) = all(&file, OnBad::Stop, Take::Udp, DeviceOf::Source).unwrap();
    assert_eq!((data(seen), held.frames), (vec![(5, b'a')], 0));
}

proptest! {
    /// Bytes that are almost frames, on every link.
    #[test]
    fn any_frame_is_taken_or_counted(
        six: bool,
        link in prop::sample::select(vec![0_u32, 1, 12, 101, 108, 113, 228, 229, 276]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len: prop::sample::Index,
        from in 0..16_usize,
    ) {
        let mut bytes = if six { v6(&[7; 40]) } else { v4(&[7; 40]) };
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(from + len.index(bytes.len() - from + 1));
        let file = pcap(link, &[(0, 0, bytes[from.min(bytes.len())..].to_vec())]);
        for take in [Take::Udp, Take::Ip] {
            let (seen, skipped, _) = all(&file, OnBad::Skip, take, DeviceOf::Flow).unwrap();
            prop_assert_eq!(seen.len() as u64 + skipped.total(), 1);
        }
    }
}
