//! Every format against bytes written out by hand and bytes captured from the real programs.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::prelude::*;

use super::*;
use crate::checksum::{Sum, fold};

/// The bytes of hexadecimal digits.
pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// A payload of `len` bytes with everything in it.
fn made(codec: Codec, facts: &Facts, len: usize, (sequence, time_ns): (u64, u64)) -> Vec<u8> {
    let mut payload = vec![0; len];
    codec.blank(facts, &mut payload).unwrap();
    let start = codec.starts_at(len).unwrap();
    codec.marks().write(&mut payload[start..], sequence, time_ns);
    payload
}

const FLOW: u32 = 0x0a0b_0c0d;
const V4: Facts = Facts { flow: FLOW, destination: v4(0x1234) };
const V6: Facts = Facts {
    flow: FLOW,
    destination: SocketAddr::new(
        std::net::IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        0x1234,
    ),
};

const fn v4(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), port)
}

/// 0x6b006a3e s and 0x7a2a8 µs: 2026-11-20 15:41:50.500392 UTC.
const TIME_NS: u64 = 0x6b00_6a3e * SECOND_NS + 0x0007_a2a8 * 1000;

/// Each format, a packet's length, and the bytes that its table gives for number 0x01020304 at `TIME_NS`.
const BY_HAND: &[(Codec, Facts, usize, &str)] = &[
    (Codec::Wirebeat, V4, 20, "00000000 5742 0c0d 01020304 18e9cb2aa4f44c40"),
    (Codec::Pktgen, V4, 18, "be9be955 01020304 6b006a3e 0007a2a8 0000"),
    (Codec::PktgenNanoseconds, V4, 18, "be9be955 01020304 18e9cb2aa4f44c40 0000"),
    (Codec::Mgen, V4, 28, "001c 02 08 0a0b0c0d 01020304 6b006a3e 0007a2a8 1234 01 04 c0000201"),
    (
        Codec::Mgen,
        V6,
        62,
        "003e 02 08 0a0b0c0d 01020304 6b006a3e 0007a2a8 \
         1234 02 10 20010db8000000000000000000000001 \
         0000 00 00 04376820 04376820 fffffc19 00 00 0000 0000",
    ),
    (Codec::Rude, V4, 24, "01020304 6b006a3e 0007a2a8 0a0b0c0d 0200 1234 c0000201"),
    (
        Codec::Rude,
        V6,
        40,
        "01020304 6b006a3e 0007a2a8 0a0b0c0d \
         0a00 1234 00000000 20010db8000000000000000000000001",
    ),
    (Codec::RudeOld, V4, 22, "01020304 6b006a3e 0007a2a8 0a0b0c0d c0000201 0000"),
    (Codec::RudeOld, V6, 20, "01020304 6b006a3e 0007a2a8 0a0b0c0d 00000000"),
    (Codec::Iperf2, V4, 18, "01020304 6b006a3e 0007a2a8 00000000 4801"),
    (
        Codec::Iperf2,
        V4,
        80,
        "01020304 6b006a3e 0007a2a8 00000000 48010098 00000001 00001234 00000050 \
         00000000 00000000 00000000 00000000 00000000 00020001 00080003 00000000 \
         00000000 00000000 00000000 00000000",
    ),
    // 0xdcbe s: 15:41:50.
    (Codec::DitgStandard, V4, 16, "0a0b0c0d 01020304 0000dcbe 0007a2a8"),
    (Codec::DitgShort, V4, 10, "0a0b0c0d 01020304 0000"),
];

#[test]
fn every_codec_writes_and_reads_the_bytes_of_its_table() {
    for (codec, facts, len, hex) in BY_HAND {
        let expected = bytes(hex);
        assert_eq!(made(*codec, facts, *len, (0x0102_0304, TIME_NS)), expected, "{codec}");
        let seen = codec.read(&expected).unwrap();
        assert_eq!((seen.sequence, seen.last), (0x0102_0304, false), "{codec}");
        match codec {
            Codec::Wirebeat => assert_eq!(seen.flow, Some(FLOW & 0xffff)),
            Codec::Pktgen | Codec::PktgenNanoseconds | Codec::Iperf2 => assert_eq!(seen.flow, None),
            _ => assert_eq!(seen.flow, Some(FLOW), "{codec}"),
        }
        let unix_ns = seen.sent.and_then(|sent| sent.unix_ns(TIME_NS + 5));
        match codec.clock() {
            Clock::Unix => assert_eq!(unix_ns, Some(TIME_NS), "{codec}"),
            Clock::Monotonic => assert_eq!(seen.sent, Some(Sent::Monotonic(TIME_NS)), "{codec}"),
            Clock::None => assert_eq!(seen.sent, None, "{codec}"),
        }
    }
    for codec in Codec::ALL {
        assert!(BY_HAND.iter().any(|(by_hand, ..)| by_hand == codec), "{codec}");
    }
}

/// MGEN 5.02b: `ON 7 UDP SRC 4000 DST 127.0.0.1/5500 PERIODIC [10 64]`, its second message.
const MGEN: &str = "\
    0040020800000007000000016b006a3e000929cb157c01047f000001000000000437682004376820\
    fffffc190000000000000000000000000000000000000000";
/// The same to `DST ::1/5502`, flow 10.
const MGEN_V6: &str = "\
    004002080000000a000000016b006a3f0004c9c2157e021000000000000000000000000000000001\
    000000000437682004376820fffffc190000000000000000";
/// The same to IPv4, 100 bytes, flow 9, with the host's own address in it.
const MGEN_HOST: &str = "\
    0064020800000009000000006b006a3f000024a7157c01047f0000010fa20104000000000437682004376820\
    fffffc1900000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000000000000000";
/// iperf 2.1.8: `iperf -u -c 127.0.0.1 -b 80k -l 200 -t 1`, the header of its second datagram …
const IPERF2: &str = "\
    000000026b006a450008104500000000480100980000000100001389000000c800000000ffffff9c\
    000000000000000000000000000200010008000300000000000138800000000000000000";
/// … and of its last: −53.
const IPERF2_LAST: &str = "\
    ffffffcb6b006a4600081064ffffffff480100980000000100001389000000c800000000ffffff9c\
    000000000000000000000000000200010008000300000000000138800000000000000000";
/// D-ITG 2.8.1 (r1023): `ITGSend -a 127.0.0.1 -C 5 -c 64 -t 600 -T UDP -p 0`, its third packet …
const DITG: &str = "\
    00000001000000030000df2900094e6ec00779c0b57d0db3b96c26c7b911a4fb146050ddd5ce06c3\
    96f97fe9484d2509559e498a9b563fd442e49cfb75c0f88a";
/// … and that of `-p 1`.
const DITG_SHORT: &str = "\
    0000000100000003a6469f48eb35c73b966476a1705797b5e75a50b2b1674997d7e6df824062f8e7\
    2898af144e7750e4db4607cc1d1e82057852b82bb902c211";

#[test]
fn packets_of_the_real_programs_are_read_as_those_say() {
    let unix = |s: u64, us: u64| Some(Sent::Unix((s * 1_000_000 + us) * 1000));
    let of_day = |h: u64, m: u64, s: u64, us: u64| {
        Some(Sent::OfDay(((h * 60 + m) * 60 + s) * SECOND_NS + us * 1000))
    };
    let seen = |flow, sequence, sent, last| Some(Seen { flow, sequence, sent, last });
    for (codec, hex, expected) in [
        (Codec::Mgen, MGEN, seen(Some(7), 1, unix(1_795_189_310, 600_523), false)),
        (Codec::Mgen, MGEN_V6, seen(Some(10), 1, unix(1_795_189_311, 313_794), false)),
        (Codec::Mgen, MGEN_HOST, seen(Some(9), 0, unix(1_795_189_311, 9_383), false)),
        (Codec::Iperf2, IPERF2, seen(None, 2, unix(1_795_189_317, 528_453), false)),
        (Codec::Iperf2, IPERF2_LAST, seen(None, 53, unix(1_795_189_318, 528_484), true)),
        (Codec::DitgStandard, DITG, seen(Some(1), 3, of_day(15, 52, 9, 609_902), false)),
        (Codec::DitgShort, DITG_SHORT, seen(Some(1), 3, None, false)),
    ] {
        assert_eq!(codec.read(&bytes(hex)), expected, "{codec}");
    }
}

#[test]
fn mgen_s_own_message_is_the_one_that_is_made_for_its_flow() {
    let facts = Facts { flow: 7, destination: ([127, 0, 0, 1], 5500).into() };
    let packet = made(Codec::Mgen, &facts, 64, (1, 1_795_189_310_600_523_000));
    assert_eq!(packet, bytes(MGEN));
    let facts = Facts { flow: 10, destination: (Ipv6Addr::LOCALHOST, 5502).into() };
    let packet = made(Codec::Mgen, &facts, 64, (1, 1_795_189_311_313_794_000));
    assert_eq!(packet, bytes(MGEN_V6));
}

#[test]
fn iperf_s_own_last_datagram_is_the_one_that_is_made_but_for_amount_and_rate() {
    let facts = Facts { flow: 0, destination: ([127, 0, 0, 1], 5001).into() };
    let last = Codec::Iperf2.last(53).unwrap();
    let packet = made(Codec::Iperf2, &facts, 200, (last, 1_795_189_318_528_484_000));
    let mut captured = bytes(IPERF2_LAST);
    captured[36..40].fill(0);
    captured[64..68].fill(0);
    assert_eq!(packet[..76], captured);
    for codec in Codec::ALL.iter().filter(|codec| **codec != Codec::Iperf2) {
        assert_eq!(codec.last(53), None, "{codec}");
    }
}

#[test]
fn a_message_that_contradicts_itself_is_not_mgen_s() {
    let message = bytes(MGEN);
    assert_eq!(Codec::Mgen.read(&message[..63]), None);
    for (at, byte) in [(2, 1), (22, 2), (23, 16), (23, 5), (16, 0x7f)] {
        let mut wrong = message.clone();
        wrong[at] = byte;
        assert_eq!(Codec::Mgen.read(&wrong), None, "byte {at}");
    }
}

#[test]
fn a_payload_too_short_is_refused_and_left_alone() {
    for codec in Codec::ALL {
        for facts in [&V4, &V6] {
            let min_len = codec.min_len(Version::of(facts.destination.ip()));
            let mut payload = vec![0xaa; min_len];
            assert_eq!(codec.blank(facts, &mut payload), Ok(()), "{codec}");
            assert!(
                codec.read(&payload).is_some() || *codec == Codec::PktgenNanoseconds,
                "{codec}"
            );
            let mut payload = vec![0xaa; min_len - 1];
            let too_short = TooShort { codec: *codec, len: min_len - 1, min_len };
            assert_eq!(codec.blank(facts, &mut payload), Err(too_short));
            assert_eq!(payload, vec![0xaa; min_len - 1], "{codec}");
        }
    }
}

#[test]
fn names_are_read_as_they_are_written() {
    for codec in Codec::ALL {
        assert_eq!(codec.to_string().parse(), Ok(*codec));
        assert_eq!(serde_json::to_string(codec).unwrap(), format!("\"{codec}\""));
    }
    let error = "iperf3".parse::<Codec>().unwrap_err().to_string();
    assert_eq!(
        error,
        "'iperf3' is not a codec; choose one of wirebeat, pktgen, pktgen-ns, mgen, rude, rude-old, \
         iperf2, d-itg, d-itg-short"
    );
}

#[test]
fn a_time_of_day_is_that_of_the_day_that_is_nearest() {
    let midnight = 20_000 * DAY_NS;
    let unix_ns = |of_day: u64, near: u64| Sent::OfDay(of_day).unix_ns(near);
    assert_eq!(unix_ns(DAY_NS - 1, midnight + 3), Some(midnight - 1));
    assert_eq!(unix_ns(3, midnight - 1), Some(midnight + 3));
    assert_eq!(unix_ns(7, midnight + 7), Some(midnight + 7));
    assert_eq!(unix_ns(DAY_NS - 1, 0), None);
    assert_eq!(unix_ns(u64::MAX % DAY_NS + 1, u64::MAX), None);
    assert_eq!(Sent::Monotonic(1).unix_ns(1), None);
}

fn any_codec() -> impl Strategy<Value = Codec> {
    prop::sample::select(Codec::ALL)
}

proptest! {
    #[test]
    fn what_is_made_is_read_and_its_checksum_can_be_mended(
        codec in any_codec(),
        v6: bool,
        flow: u32,
        room in 0..100_usize,
        sequence in 1..u64::MAX >> 1,
        time_ns in 1..(u64::from(u32::MAX) * SECOND_NS),
    ) {
        let facts = Facts { flow, ..if v6 { V6 } else { V4 } };
        let len = codec.min_len(Version::of(facts.destination.ip())) + room;
        let mut payload = vec![0; len];
        codec.blank(&facts, &mut payload).unwrap();
        let blank = Sum::ZERO.add_bytes(&payload).folded();
        let start = codec.starts_at(len).unwrap();
        let sum = codec.marks().write(&mut payload[start..], sequence, time_ns);
        let sum = if start % 2 == 1 { sum.swap_bytes() } else { sum };
        let mended = fold(u64::from(blank) + u64::from(sum)) % 0xffff;
        prop_assert_eq!(mended, Sum::ZERO.add_bytes(&payload).folded() % 0xffff);

        let seen = codec.read(&payload);
        if codec == Codec::PktgenNanoseconds && sequence as u32 == 0 {
            prop_assert_eq!(seen, None);
            return Ok(());
        }
        let seen = seen.unwrap();
        if codec == Codec::Iperf2 && len >= 20 {
            prop_assert_eq!(seen.sequence, sequence);
        } else if codec != Codec::Iperf2 {
            prop_assert_eq!(seen.sequence, sequence & 0xffff_ffff);
        }
        let time_us = time_ns / 1000;
        match seen.sent {
            Some(Sent::Monotonic(ns)) => prop_assert_eq!(ns, time_ns),
            Some(Sent::Unix(ns)) => prop_assert_eq!(ns, time_us * 1000),
            Some(Sent::OfDay(ns)) => prop_assert_eq!(ns, time_us * 1000 % DAY_NS),
            None => prop_assert!(codec == Codec::DitgShort || (codec == Codec::Pktgen && time_us == 0)
                || time_ns > i64::MAX as u64),
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(payload: Vec<u8>) {
        for codec in Codec::ALL {
            let _ = codec.read(&payload);
            if let Some(start) = codec.starts_at(payload.len()) {
                prop_assert!(start <= payload.len());
            }
        }
    }

    #[test]
    fn times_of_any_kind_have_a_unix_time_or_none(of_day: u64, near_ns: u64) {
        if let Some(unix_ns) = Sent::OfDay(of_day).unix_ns(near_ns) {
            prop_assert!(unix_ns.abs_diff(near_ns) <= DAY_NS / 2);
            prop_assert_eq!(unix_ns % DAY_NS, of_day % DAY_NS);
        }
    }
}
