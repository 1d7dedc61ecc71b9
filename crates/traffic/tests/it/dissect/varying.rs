//! What is deliberately wrong, patterns, sizes, payloads and the probes of every tool.

use wirebeat_testbed::{Capability, require};
use wirebeat_wire::codec::{Codec, Sent};

use super::{flow, look, packet};
use crate::observer::dissect;
use crate::world::{frames, moment, program};

#[test]
fn what_is_deliberately_wrong_and_nothing_else() {
    require!(Capability::Program("tshark"));
    const BAD: &str = "Bad checksum [should be";
    look(&[
        packet("{ ipv4: { checksum: wrong } }, { udp: {} }").complains(BAD).complains("ip.checksum.status 0"),
        packet("{ ipv4: { checksum: 0xbeef } }, { udp: {} }")
            .sees("ip.checksum", "0xbeef")
            .complains(BAD)
            .complains("ip.checksum.status 0"),
        packet("{ ipv4: {} }, { udp: { checksum: wrong } }").complains(BAD).complains("udp.checksum.status 0"),
        packet("{ ipv4: {} }, { udp: { checksum: wrong, source: { random: [1, 65535] } } }")
            .size("{ list: [100B, 101B, 102B] }")
            .frames(30)
            .complains(BAD)
            .complains("udp.checksum.status 0"),
        packet("{ ipv6: {} }, { tcp: { checksum: wrong, flags: syn } }").complains(BAD).complains("tcp.checksum.status 0"),
        packet("{ ipv4: {} }, { icmp: { checksum: 0x1234 } }").complains(BAD).complains("icmp.checksum.status 0"),
        packet("{ ipv6: {} }, { icmpv6: { checksum: wrong } }").complains(BAD).complains("icmpv6.checksum.status 0"),
        packet("{ ipv4: {} }, { dccp: { checksum: wrong } }").complains(BAD).complains("dccp.checksum.status 0"),
        packet("{ ipv4: {} }, { igmp: { checksum: wrong } }").plain().complains(BAD).complains("igmp.checksum.status 0"),
        packet("{ ipv4: {} }, { gre: { checksum: wrong } }, { ipv4: { source: 10.0.0.1, destination: 10.0.0.2 } }, { udp: {} }")
            .complains("Incorrect GRE Checksum [should be")
            .complains("gre.checksum.status 0"),
        packet("{ ipv4: {} }, { udp: { length: 7 } }").complains("Bad length value 7 < 8"),
        packet("{ ipv4: { length: 19 } }, { udp: {} }").complains("Bogus IP length"),
        packet("{ ipv4: { protocol: 6 } }, { udp: { checksum: 0 } }")
            .plain()
            .sees("ip.proto", "6")
            .complains("Bogus TCP header length"),
    ]);
}

#[test]
fn patterns() {
    require!(Capability::Program("tshark"));
    let source =
        |pattern: &str| packet(&format!("{{ ipv4: {{ source: {pattern} }} }}, {{ udp: {{}} }}"));
    let port =
        |pattern: &str| packet(&format!("{{ ipv4: {{}} }}, {{ udp: {{ source: {pattern} }} }}"));
    let sub_flows = |pattern: &str, sub_flows: &str| {
        flow(&format!(
            "sub-flows: {sub_flows}\n    packet: [ {{ ipv4: {{}} }}, {{ udp: {{ source: {pattern}, destination: {{ increment: 1 }} }} }} ]"
        ))
    };
    look(&[
        source("{ list: [10.0.0.1, 10.0.0.9, 192.0.2.7] }")
            .sees_in_turn("ip.src", &["10.0.0.1", "10.0.0.9", "192.0.2.7", "10.0.0.1"]),
        source("{ increment: 10.0.0.254, step: 256, count: 3 }")
            .sees_in_turn("ip.src", &["10.0.0.254", "10.0.1.254", "10.0.2.254", "10.0.0.254"]),
        source("{ increment: 255.255.255.255 }").sees_in_turn("ip.src", &["255.255.255.255", "0.0.0.0"]),
        source("{ decrement: 10.0.0.0, count: 2 }").sees_in_turn("ip.src", &["10.0.0.0", "9.255.255.255", "10.0.0.0"]),
        port("{ decrement: 1, step: 2 }").sees_in_turn("udp.srcport", &["1", "65535", "65533"]),
        port("{ random: [7, 7] }").sees_in_turn("udp.srcport", &["7", "7"]),
        packet("{ ethernet: { source: { increment: 02:00:00:00:00:ff, count: 2 } } }, { ipv4: {} }, { udp: {} }")
            .sees_in_turn("eth.src", &["02:00:00:00:00:ff", "02:00:00:00:01:00"]),
        packet("{ vlan: { id: { increment: 4094 }, priority: { decrement: 0 } } }, { ipv4: {} }, { udp: {} }")
            .sees_in_turn("vlan.id", &["4094", "4095", "0"])
            .sees_in_turn("vlan.priority", &["0", "7", "6"]),
        packet("{ mpls: { label: { increment: 0xffffe }, ttl: { list: [1, 255] } } }, { ipv4: {} }, { udp: {} }")
            .sees_in_turn("mpls.label", &["1048574", "1048575", "0"])
            .sees_in_turn("mpls.ttl", &["1", "255", "1"]),
        packet("{ ipv4: { dscp: { list: [ef, af41, 0] }, ecn: { increment: 2 }, ttl: { decrement: 20, count: 2 } } }, { udp: {} }")
            .sees_in_turn("ip.dsfield.dscp", &["46", "34", "0"])
            .sees_in_turn("ip.dsfield.ecn", &["2", "3", "0"])
            .sees_in_turn("ip.ttl", &["20", "19", "20"]),
        packet("{ ipv6: { destination: { increment: '2001:db8::ffff:ffff:ffff:ffff' }, flow-label: { increment: 0xfffff } } }, { udp: {} }")
            .sees_in_turn("ipv6.dst", &["2001:db8::ffff:ffff:ffff:ffff", "2001:db8:0:1::"])
            .sees_in_turn("ipv6.flow", &["0x0fffff", "0x000000"]),
        sub_flows("{ increment: 100, per: sub-flow }", "{ count: 2, length: 2 }")
            .sees_in_turn("udp.srcport", &["100", "101", "100", "101", "102", "103", "102", "103"])
            .sees_in_turn("udp.dstport", &["1", "2", "3", "4", "5", "6", "7", "8"]),
        sub_flows("{ increment: 100, per: sub-flow }", "{ count: 2, length: 3, order: one-by-one }")
            .sees_in_turn("udp.srcport", &["100", "100", "100", "101", "101", "101", "102"]),
    ]);
}

#[test]
fn random_fields_stay_in_their_range_and_under_their_mask() {
    require!(Capability::Program("tshark"));
    let keys = "packet: [ { ipv4: { source: { random: [10.1.0.0, 10.255.255.255], mask: 0.0.255.0 } } }, \
                { udp: { source: { random: [20000, 29999] } } } ]";
    let seen = dissect(&frames(&program(keys), 400));
    let mut ports = std::collections::BTreeSet::new();
    for frame in &seen {
        let source = &frame.values("ip.src")[0];
        assert!(source.starts_with("10.1.") && source.ends_with(".0"), "{source}");
        let port: u16 = frame.values("udp.srcport")[0].parse().unwrap();
        assert!((20_000..30_000).contains(&port), "{port}");
        ports.insert(port);
        assert!(frame.complaints().is_empty(), "{frame:?}");
    }
    assert!(ports.len() > 350, "{} of 10,000 ports", ports.len());
}

/// Sizes that vary, in every way.
const SIZES: [&str; 5] = [
    "222B",
    "{ list: [178B, 179B, 1000B, 999B] }",
    "{ mix: { 180B: 1, 181B: 1, 1518B: 1 } }",
    "{ uniform: { min: 110B, max: 140B }, of: payload }",
    "{ normal: { mean: 600B, deviation: 200B }, min: 178B, max: 1400B }",
];

#[test]
fn checksums_are_right_whatever_varies() {
    require!(Capability::Program("tshark"));
    let packets = [
        "{ ipv4: { source: { random: [10.0.0.0, 10.255.255.255] }, ttl: { increment: 50, count: 99 }, identification: count } }, \
         { udp: { source: { random: [1, 65535] } } }",
        "{ ipv6: { source: { increment: '2001:db8::', step: 77777777 }, flow-label: { random: [0, 1048575] } } }, \
         { tcp: { sequence: { random: [0, 4294967295] }, window: { decrement: 3 } } }",
        "{ ipv4: {} }, { icmp: { code: 0, sequence: { increment: 0 } } }",
        "{ ipv4: {} }, { gre: { checksum: on, sequence: { increment: 0 } } }, \
         { ipv4: { source: { increment: 10.0.0.1 }, destination: 10.0.0.2 } }, { udp: { source: { decrement: 5 } } }",
        "{ ipv4: { identification: { random: [0, 65535] } } }, { udp: {} }, { vxlan: { vni: { increment: 5 } } }, \
         { ethernet: { source: { random: ['02:00:00:00:00:00', '02:ff:ff:ff:ff:ff'] } } }, { vlan: { id: { increment: 1 } } }, \
         { ipv6: { source: { random: ['2001:db8::', '2001:db8::ffff'] }, destination: '2001:db8::2' } }, { udp: {} }",
    ];
    let payloads =
        ["zeros", "random", "{ text: 'an odd number of bytes.' }", "{ pattern: '010203' }"];
    let mut cases = Vec::new();
    for headers in packets {
        for (number, size) in SIZES.iter().enumerate() {
            let case = packet(&format!("{headers}, {{ payload: {} }}", payloads[number % 4]))
                .size(size)
                .frames(12);
            cases.push(case);
            cases.push(
                packet(&format!("{headers}, {{ payload: {} }}", payloads[(number + 1) % 4]))
                    .size(size)
                    .plain()
                    .frames(12),
            );
        }
    }
    look(&cases);
}

#[test]
fn frames_are_as_long_as_asked() {
    for size in SIZES {
        let program = program(&format!("size: {size}"));
        let all = &program.streams[0].frames;
        for (number, frame) in frames(&program, 50).iter().enumerate() {
            let counted = all.counted(number as u64);
            assert_eq!(frame.len() + 4, counted.bytes as usize);
            assert_eq!(frame.len() - 42, usize::from(counted.payload));
        }
    }
    let lengths: Vec<usize> = frames(&program("size: { list: [64B, 30B@payload, 70B] }"), 4)
        .iter()
        .map(Vec::len)
        .collect();
    assert_eq!(lengths, [60, 72, 66, 60]);
}

#[test]
fn probes_of_every_tool_are_read_back_under_a_right_checksum() {
    require!(Capability::Program("tshark"));
    let mut all = Vec::new();
    for &codec in Codec::ALL {
        let (probe, flow) = match codec {
            Codec::Wirebeat => ("on".to_owned(), 0),
            other => (format!("{{ codec: {other}, flow: 7 }}"), 7),
        };
        for (network, headers) in [("ipv4", 42), ("ipv6", 62)] {
            for size in SIZES {
                let keys = format!(
                    "probe: {probe}\n    size: {size}\n    packet: [ {{ {network}: {{}} }}, \
                     {{ udp: {{ source: {{ increment: 50001 }}, destination: 50002 }} }}, {{ payload: random }} ]",
                );
                for (frame, n) in frames(&program(&keys), 10).into_iter().zip(0..) {
                    read_back(codec, (flow, n), &frame[headers..]);
                    all.push((format!("frame {n} of {keys}"), frame));
                }
            }
        }
    }
    let (names, all): (Vec<String>, Vec<Vec<u8>>) = all.into_iter().unzip();
    for (name, frame) in names.iter().zip(dissect(&all)) {
        assert!(frame.complaints().is_empty(), "{name}: {:?}", frame.complaints());
    }
}

/// Reads the probe of frame `n`.
fn read_back(codec: Codec, (flow, n): (u32, u64), payload: &[u8]) {
    let seen = codec.read(payload).unwrap_or_else(|| panic!("frame {n} is none of {codec}"));
    assert_eq!(seen.sequence, codec.first_sequence() + n, "{codec}");
    assert!(seen.flow.is_none_or(|number| number == flow), "{codec}: {seen:?}");
    let now = moment(n);
    let in_microseconds = now.unix_ns / 1000 * 1000;
    let expected = match codec {
        Codec::Wirebeat | Codec::PktgenNanoseconds => Some(Sent::Monotonic(now.monotonic_ns)),
        Codec::DitgStandard => Some(Sent::OfDay(in_microseconds % 86_400_000_000_000)),
        Codec::DitgShort => None,
        _ => Some(Sent::Unix(in_microseconds)),
    };
    assert_eq!(seen.sent, expected, "{codec}");
}

#[test]
fn a_length_in_a_message_is_summed_once() {
    require!(Capability::Program("tshark"));
    let mgen = "probe: mgen\n    size: { list: [100B, 201B, 1000B] }";
    look(&[flow(mgen).frames(3).sees("udp.dstport", "9")]);
}
