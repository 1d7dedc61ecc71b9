//! Packets that are longer than the link carries: tshark puts the fragments together, and finds the packet that was
//! asked for.

use wirebeat_testbed::{Capability, require};
use wirebeat_wire::codec::Codec;

use crate::observer::reassemble;
use crate::world::{frames, program_from};

const V4: &str = "{ ipv4: {} }";
const V6: &str = "{ ipv6: {} }";

/// The frames of the first packets of a flow whose link carries so many bytes.
fn cut(mtu: u32, packet: &str, keys: &str, count: u64) -> Vec<Vec<u8>> {
    let keys = format!("packet: [ {packet} ]\n    {keys}");
    frames(&program_from(&format!("mtu: {mtu}B"), &keys).unwrap(), count)
}

/// Where the last frame of each packet is: the one that tshark knows the packet by.
fn ends(frames: &[Vec<u8>], packets: usize) -> Vec<usize> {
    let each = frames.len() / packets;
    (1..=packets).map(|number| number * each - 1).collect()
}

#[test]
fn fragments_make_the_packet_again() {
    require!(Capability::Program("tshark"));
    let payload = "{ payload: { pattern: 'c0ffee11' } }";
    let hops = "{ hop-by-hop: { options: '0104000000000104000000000100' } }";
    let target = "{ destination-options: { options: '010400000000' } }";
    let gre = "{ ipv4: {} }, { gre: {} }, { ipv4: { source: 10.9.0.1, destination: 10.9.0.2 } }";
    // MTU, headers, frames of each packet
    for (mtu, network, size, parts) in [
        (1500, V4, "4000B@payload", 3),
        (1500, V6, "4000B@payload", 3),
        (1500, V4, "65507B@payload", 45),
        (1280, V6, "65480B@payload", 54),
        (576, "{ vlan: { id: 7 } }, { ipv4: { dscp: ef } }", "1501B@payload", 3),
        (1500, "{ ipv4: { options: '9404000007030400' } }", "4001B@payload", 3),
        (1400, &format!("{{ ipv6: {{}} }}, {hops}, {target}"), "2999B@payload", 3),
        (1500, gre, "3001B@payload", 3),
        // the last fragment would hold a part of the probe
        (1500, V4, "2957B@payload", 3),
        (1500, V4, "2965B@payload", 3),
        (1500, V4, "1473B@payload", 2),
    ] {
        for checksum in ["on", "off"] {
            let packet = format!(
                "{network}, {{ udp: {{ destination: 7777, checksum: {checksum} }} }}, {payload}"
            );
            if checksum == "off" && packet.contains("ipv6") {
                continue;
            }
            let all = cut(mtu, &packet, &format!("size: {size}"), 3);
            let what = format!("{network}, {size} in {mtu}");
            assert_eq!(all.len(), 3 * parts, "{what}");
            let tags = if network.contains("vlan") { 4 } else { 0 };
            assert!(all.iter().all(|frame| frame.len() <= mtu as usize + 14 + tags), "{what}");
            let seen = reassemble(&all);
            for (number, end) in ends(&all, 3).into_iter().enumerate() {
                let whole = &seen[end];
                let length = size.trim_end_matches("B@payload").parse::<usize>().unwrap() + 8;
                assert_eq!(whole.values("udp.length"), [length.to_string()], "{what}: {whole:?}");
                let probe = whole.values("udp.payload").remove(0).replace(':', "");
                let probe = &probe[probe.len() - 32..];
                assert!(probe.starts_with(&format!("57420000{number:08x}")), "{what}: {probe}");
                if number == 0 {
                    let tail = whole.values("udp.payload").remove(0).replace(':', "");
                    let end = tail.len() - 32 - if checksum == "on" { 4 } else { 0 };
                    assert!("c0ffee11".repeat(length).starts_with(&tail[..end]), "{what}");
                }
            }
            for frame in &seen {
                assert_eq!(frame.complaints(), Vec::<String>::new(), "{what}");
            }
        }
    }
}

#[test]
fn probes_of_every_tool_are_whole_in_one_fragment() {
    require!(Capability::Program("tshark"));
    for &codec in Codec::ALL {
        let keys = match codec {
            Codec::Wirebeat => "size: 3000B@payload".to_owned(),
            other => format!("size: 3000B@payload\n    probe: {{ codec: {other}, flow: 7 }}"),
        };
        for network in [V4, V6] {
            let packet = format!("{network}, {{ udp: {{ destination: 7777 }} }}");
            let all = cut(1500, &packet, &keys, 2);
            let seen = reassemble(&all);
            for end in ends(&all, 2) {
                assert_eq!(seen[end].values("udp.checksum.status"), ["1"], "{codec} {network}");
            }
        }
    }
}

#[test]
fn what_is_inside_a_tunnel_stays_as_it_is() {
    let inner = "{ ipv4: { source: 10.9.0.1, destination: 10.9.0.2 } }";
    let all = cut(
        1500,
        &format!("{{ ipv6: {{}} }}, {{ gre: {{}} }}, {inner}, {{ udp: {{}} }}"),
        "size: 3000B",
        1,
    );
    // behind Ethernet, IPv6 with its fragment header, and GRE: the inner header's flags
    assert_eq!(all[0][14 + 48 + 4 + 6] & 0x40, 0x40);
}

#[test]
fn options_are_copied_where_they_are_to_be() {
    let all = cut(1500, "{ ipv4: { options: '0703bb8604aabb94' } }, { udp: {} }", "size: 3000B", 1);
    assert_eq!(all[0][34..42], [7, 3, 0xbb, 0x86, 4, 0xaa, 0xbb, 0x94]);
    assert_eq!(all[1][34..42], [1, 1, 1, 0x86, 4, 0xaa, 0xbb, 0x94]);
}

#[test]
fn packets_have_an_identification_each_and_what_is_written_stays() {
    let number = |frame: &Vec<u8>| u16::from_be_bytes([frame[18], frame[19]]);
    let all = cut(1500, "{ ipv4: {} }, { udp: {} }", "size: 3000B", 3);
    let numbers: Vec<u16> =
        all.iter().map(|frame| number(frame).wrapping_sub(number(&all[0]))).collect();
    assert_eq!(numbers, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    let all = cut(1500, "{ ipv4: { identification: 9 } }, { udp: {} }", "size: 3000B", 2);
    assert!(all.iter().all(|frame| number(frame) == 9));
}

#[test]
fn what_must_not_be_cut_is_refused_and_fragments_as_written_are_left_alone() {
    let refused = |packet: &str, keys: &str| {
        program_from("mtu: 1500B", &format!("packet: [ {packet} ]\n    {keys}")).unwrap_err()
    };
    let why = refused("{ ipv4: { dont-fragment: on } }, { udp: {} }", "size: 1600B");
    assert!(
        why.contains("flows.x.size") && why.contains("1518B") && why.contains("dont-fragment"),
        "{why}"
    );
    let why = refused(
        "{ ipv4: {} }, { gre: {} }, { ipv4: { source: 10.9.0.1, destination: 10.9.0.2 } }, { udp: {} }",
        "size: 65507B@payload",
    );
    assert!(why.contains("the longest is 65483B"), "{why}");
    let alone = cut(1500, "{ ipv4: { more-fragments: 1 } }, { udp: {} }", "size: 1600B", 1);
    assert_eq!((alone.len(), alone[0].len()), (1, 1596));
    let fits = cut(1500, "{ ipv4: {} }, { udp: {} }", "size: 1518B", 1);
    assert_eq!(
        (fits.len(), fits[0][20] & 0x40),
        (1, 0x40),
        "as it is, and not to be cut on its way"
    );
}

#[test]
fn rates_count_the_frames_that_leave() {
    // 3,000 bytes of payload are 3 frames: 3,008 of UDP, and each has 34 of headers and 4 of FCS.
    let bytes = 3_008 + 3 * 38;
    let per_second = |rate: &str| {
        let program =
            program_from("mtu: 1500B", &format!("size: 3000B@payload\n    rate: {rate}")).unwrap();
        let rate = program.offered(0).unwrap().0;
        rate.frames as f64 * 1e9 / rate.per.get() as f64
    };
    assert!((per_second("1Gbps") - 1e9 / (8.0 * f64::from(bytes))).abs() < 0.01);
    assert!((per_second("1Gbps@line") - 1e9 / (8.0 * f64::from(bytes + 60))).abs() < 0.01);
    assert!((per_second("1Gbps@payload") - 1e9 / (8.0 * 3_000.0)).abs() < 0.01);
    // sizes that are drawn: what the schedule means is what the frames are, on average
    let keys = "size: { uniform: { min: 100B, max: 8000B }, max: 8000B }\n    rate: 1Gbps";
    let program = program_from("mtu: 1500B", keys).unwrap();
    let rate = program.offered(0).unwrap().0;
    let count = 100_000;
    let bytes: u64 =
        (0..count).map(|n| u64::from(program.streams[0].frames.counted(n).bytes)).sum();
    let bits = bytes as f64 * 8.0 / count as f64 * rate.frames as f64 * 1e9 / rate.per.get() as f64;
    assert!((bits / 1e9 - 1.0).abs() < 0.005, "{bits}");
}
