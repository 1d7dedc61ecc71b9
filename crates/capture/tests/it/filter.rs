//! A filter keeps what tcpdump keeps of the same file.

use std::fs;
use std::process::Command;

use wirebeat_capture::file::{CaptureOptions, open};
use wirebeat_capture::seen::Seen;
use wirebeat_testbed::{Capability, require};

use crate::world::{BEGIN_NS, Folder, NO_COUNTS, opening, options, read, seen, write};

fn ethernet(ether_type: u16, rest: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ether_type.to_be_bytes(), rest].concat()
}

/// With options of so many words.
fn v4(protocol: u8, options: usize, rest: &[u8]) -> Vec<u8> {
    let mut packet =
        vec![0x45 + options as u8, 0x10, 0, 0, 0x12, 0x34, 0, 0, 60 + protocol, protocol];
    packet.extend([0, 0, 10, 0, 0, protocol, 192, 168, 7, 9]);
    packet.extend(vec![1; options * 4]);
    packet.extend(rest);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    ethernet(0x0800, &packet)
}

fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((rest.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend(rest);
    ethernet(0x86dd, &packet)
}

fn tcp(flags: u8) -> Vec<u8> {
    let mut header = vec![0x04, 0xd2, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0];
    header.extend([flags; 30]);
    header
}

fn udp(port: u16, len: usize) -> Vec<u8> {
    let mut header = [0x13_u16, port, len as u16 + 8, 0].map(u16::to_be_bytes).concat();
    header.extend((0..len).map(|at| at as u8));
    header
}

fn tagged(id: u16, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0x60 | (id >> 8) as u8, id as u8], &frame[12..]].concat()
}

/// Frames of many kinds, and each of them cut short at many places.
fn frames() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for flags in [0x02, 0x12, 0x10, 0x11, 0x18, 0x04, 0xc2] {
        all.extend([v4(6, 0, &tcp(flags)), v4(6, 3, &tcp(flags)), v6(6, &tcp(flags))]);
    }
    for (port, len) in [(53, 20), (80, 0), (443, 300), (9007, 1400), (53, 512)] {
        all.extend([
            v4(17, 0, &udp(port, len)),
            v4(17, 10, &udp(port, len)),
            v6(17, &udp(port, len)),
        ]);
        all.push(tagged(port % 4096, &v4(17, 0, &udp(port, len))));
    }
    for kind in [0, 3, 8, 11] {
        all.extend([v4(1, 0, &[kind; 40]), v4(1, 1, &[kind; 8])]);
    }
    for kind in [1, 128, 129, 134, 135] {
        all.push(v6(58, &[kind; 32]));
    }
    all.extend([v4(132, 0, &udp(36412, 40)), v4(2, 0, &[0x16; 8]), v4(103, 0, &[0x20; 12])]);
    all.extend([
        ethernet(0x0806, &[1; 28]),
        ethernet(0x8035, &[2; 28]),
        ethernet(0x88cc, &[3; 60]),
    ]);
    let mut fragment = v4(17, 0, &udp(53, 100));
    fragment[20..22].copy_from_slice(&[0x20, 5]);
    let mut first = fragment.clone();
    first[21] = 0;
    let mut group = v4(17, 0, &udp(7, 60));
    group[..6].copy_from_slice(&[0xff; 6]);
    let mut multicast = v4(17, 0, &udp(7, 60));
    multicast[0] = 1;
    multicast[30] = 239;
    all.extend([fragment, first, group, multicast, tagged(5, &tagged(6, &v4(6, 0, &tcp(2))))]);
    all
}

const EXPRESSIONS: [&str; 96] = [
    "tcp[13] & 2 != 0",
    "tcp[13] = 18",
    "tcp[13] == 0x12",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "tcp[tcpflags] & (tcp-syn | tcp-ack) = tcp-syn",
    "tcp[tcpflags] == tcp-syn or tcp[13] = 4",
    "not tcp[13] & 2 != 0",
    "tcp[0:2] = 1234",
    "tcp[2:2] < 100 and ip",
    "tcp[4:4] = 7",
    "tcp[12] >> 4 = 5",
    "tcp[((tcp[12] & 0xf0) >> 2):1] = 24",
    "tcp[200] = 0",
    "not tcp[200] = 0",
    "ether[0] & 1 = 1",
    "ether[0] & 1 = 0 and udp",
    "ether[12:2] = 0x800",
    "ether[12:2] = 2048 or arp",
    "ether[6:4] = 0x02000000",
    "ether[100] = 50",
    "not ether[100] = 50",
    "ip[8] < 70",
    "ip[8] <= 66",
    "ip[8] > 70",
    "ip[8] >= 77",
    "ip[9] = 17",
    "ip[0] & 0xf != 5",
    "ip[0] & 0xf > 5 and tcp",
    "(ip[0] & 0xf) << 2 = 32",
    "ip[2:2] > 500",
    "ip[2:2] - (ip[0] & 0xf) * 4 > 100",
    "ip[6:2] & 0x1fff = 0",
    "ip[6:2] & 0x3fff != 0",
    "ip[12:4] = 0x0a000006",
    "ip[1] / 4 = 4",
    "ip[1] % 7 = 2",
    "ip[1] * 3 + 1 = 49",
    "ip[1] | 1 = 17",
    "ip[1] ^ 0xff = 239",
    "ip[1] + 1 ^ 1 = 16",
    "ip[1] ^ 1 + 1 = 18",
    "ip[1] * 2 ^ 3 + 1 = 96",
    "7 % ip[1] + 1 = 7",
    "100 / (ip[1] - 16) = 1",
    "not 100 / (ip[1] - 16) = 1",
    "1 << ip[1] = 65536",
    "1 << (ip[1] + 16) = 0",
    "-ip[1] = 0xfffffff0",
    "- ip[1] + 16 = 0",
    "0 - ip[1] > 0x80000000",
    "ip[ip[1] - 7] = 6",
    "udp[4:2] > 100",
    "udp[4:2] > 100 and udp[2:2] != 9007",
    "udp[8] = 0",
    "udp[2:2] & 1 = 1",
    "udp[0:2] + udp[2:2] = 99",
    "udp[4:2] = ip[2:2] - 20",
    "tcp[0] + udp[0] >= 0",
    "icmp[0] = 8",
    "icmp[icmptype] = icmp-echo",
    "icmp[icmptype] != icmp-echoreply and icmp[icmpcode] > 2",
    "icmp6[0] = 128",
    "icmp6[icmp6type] = icmp6-echoreply",
    "icmp6[0] > 130 or icmp",
    "ip6[6] = 17",
    "ip6[4:2] > 300",
    "ip6[40] = 0x04",
    "arp[1] = 1",
    "arp[6:2] = 0x0101",
    "rarp[0] = 2",
    "sctp[2:2] = 36412",
    "igmp[0] = 0x16",
    "pim[0] = 0x20",
    "len > 500",
    "len <= 60",
    "len - 14 = 60",
    "len = 60 or len = 74",
    "len & 1 = 1",
    "len > ip[2:2] + 14",
    "60 < len",
    "017 = 15 and udp",
    "1 = 1",
    "1 > 2",
    "2 + 3 * 4 = 14 and arp",
    "64 / 4 / 2 = 8 and icmp",
    "1 | 6 & 3 = 3 and icmp",
    "vlan and ip[8] = 77",
    "vlan and udp[2:2] = 53",
    "vlan and ether[14:2] & 0xfff = 53",
    "vlan 5 and vlan 6 and tcp[13] = 2",
    "(ip[8] = 77) or (tcp[13] = 2)",
    "((ip[8] & 1) = 1 and (len > 100))",
    "not (ip[8] = 77 or len < 100)",
    "port 53 and udp[4:2] < 100 or arp",
    "greater 100 and less 600 and not ip6",
    "portrange 50-90 and (udp or tcp[13] & 2 = 2)",
];

#[test]
fn a_filter_keeps_what_tcpdump_keeps() {
    require!(Capability::Program("tcpdump"));
    let folder = Folder::new("filter");
    // whole, and kept in part: the rest was on the line
    let mut all: Vec<(Vec<u8>, usize)> = Vec::new();
    for frame in frames() {
        for kept in [frame.len(), 70, 60, 55, 48, 36, 34, 20, 14] {
            // the shortest are always whole
            let mut part = frame.clone();
            if kept < frame.len() && frame.len() <= 60 {
                continue;
            }
            part.truncate(kept);
            all.push((part, frame.len()));
        }
    }
    let given = |number: usize| {
        let (kept, len) = &all[number];
        Seen { frame_len: *len as u32 + 4, ..seen(number as u32, kept) }
    };
    let file = folder.file("all.pcap");
    let mut sink = open(&options(&file), &opening()).unwrap();
    (0..all.len()).for_each(|number| sink.frame(&given(number)).unwrap());
    sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
    let number = |ns: u64| (ns - BEGIN_NS) / 1_000_100;
    let (mut kept, mut differing) = (0, Vec::new());
    for text in EXPRESSIONS {
        let output = Command::new("tcpdump")
            .args(["-r", file.to_str().unwrap(), "--nano", "-w", "-", "--", text])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let theirs = match stderr.contains("expression rejects all packets") {
            true => Vec::new(),
            false => {
                assert!(output.status.success(), "{text}: {stderr}");
                read(&output.stdout)
            }
        };
        let theirs: Vec<u64> = theirs.iter().map(|frame| number(frame.0)).collect();
        let path = folder.file("ours.pcapng");
        let filter = Some(text.to_owned());
        let options = CaptureOptions { filter, overwrite: true, ..options(&path) };
        let mut sink = open(&options, &opening()).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        (0..all.len()).for_each(|number| sink.frame(&given(number)).unwrap());
        sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
        let written = sink.written();
        assert_eq!(written.frames + written.filtered, all.len() as u64);
        let ours = read(&fs::read(&path).unwrap());
        let ours: Vec<u64> = ours.iter().map(|frame| number(frame.0)).collect();
        kept += ours.len();
        if ours != theirs {
            differing.push(format!("{text}: {} and not {}", ours.len(), theirs.len()));
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
    assert!(kept > 3000, "{kept}");
}

/// What was written with a filter is what was written without, of the frames that it means.
#[test]
fn a_filter_and_a_snap_length_do_not_get_in_each_others_way() {
    let folder = Folder::new("filter-snap");
    let file = folder.file("a.pcapng");
    let options = CaptureOptions {
        filter: Some("udp[100] = 0x77".to_owned()),
        snap_len: Some(14),
        ..options(&file)
    };
    let written = write(&options, 3000);
    let frames = read(&fs::read(&file).unwrap());
    let meant = (0..3000).map(crate::world::bytes).filter(|bytes| bytes.get(134) == Some(&0x77));
    let meant: Vec<_> = meant.map(|bytes| (bytes.len() as u32, bytes[..14].to_vec())).collect();
    let found: Vec<_> = frames.into_iter().map(|(_, original, data)| (original, data)).collect();
    assert_eq!(found, meant);
    assert!(found.len() > 5 && written.filtered == 3000 - found.len() as u64);
}
