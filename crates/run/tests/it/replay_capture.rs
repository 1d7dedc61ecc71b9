//! Captures that are sent again: every frame, at its time to the nanosecond, as it was or as it was to become.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use wirebeat_report::model::{End, FindingKind, Report};
use wirebeat_run::{Options, RunError, prepare};
use wirebeat_testbed::{Capability, Program, require};
use wirebeat_trace::archive::OnBad;
use wirebeat_trace::capture::Frames;
use wirebeat_traffic::spec::Scenario;
use wirebeat_wire::checksum::Sum;
use wirebeat_wire::filter::Filter;

use crate::interop::cable_to_a_program;
use crate::world::{balanced, cable, run};

/// 2015-07-01T18:20:30Z.
const BEGIN_NS: u64 = 1_435_774_830_000_000_000;

/// Nanoseconds since the beginning, and a frame.
type Timed = (u64, Vec<u8>);

/// A file of a test, which does not exist yet.
fn file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-capture-{name}"));
    let _ = std::fs::remove_file(&path);
    path
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = file(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A pcap of nanoseconds; the length of each frame on the line is `more` than there is of it.
fn pcap_of(link: u32, more: u32, frames: &[Timed]) -> Vec<u8> {
    let mut bytes: Vec<u8> = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, link]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    for (ns, frame) in frames {
        let at = BEGIN_NS + ns;
        let len = frame.len() as u32;
        let head = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, len, len + more];
        bytes.extend(head.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(frame);
    }
    bytes
}

fn pcap(frames: &[Timed]) -> Vec<u8> {
    pcap_of(1, 0, frames)
}

/// A pcap of microseconds, the greatest byte first.
fn pcap_big(frames: &[Timed]) -> Vec<u8> {
    let head = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 1];
    let mut bytes: Vec<u8> = head.into_iter().flat_map(u32::to_be_bytes).collect();
    for (ns, frame) in frames {
        let us = (BEGIN_NS + ns) / 1000;
        let len = frame.len() as u32;
        let head = [(us / 1_000_000) as u32, (us % 1_000_000) as u32, len, len];
        bytes.extend(head.into_iter().flat_map(u32::to_be_bytes));
        bytes.extend(frame);
    }
    bytes
}

fn block(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    content.resize(content.len().next_multiple_of(4), 0);
    let total = content.len() as u32 + 12;
    [&kind.to_le_bytes()[..], &total.to_le_bytes(), &content, &total.to_le_bytes()].concat()
}

/// A pcapng of two interfaces in turn, one with nanoseconds and one with units of 2^-20 s.
fn pcapng(frames: &[Timed]) -> Vec<u8> {
    let mut bytes = block(
        0x0a0d_0d0a,
        &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat(),
    );
    for resolution in [9, 0x80 | 20] {
        bytes.extend(block(
            1,
            &[1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0],
        ));
    }
    for (n, (ns, frame)) in frames.iter().enumerate() {
        let at = u128::from(BEGIN_NS + ns);
        let units = if n % 2 == 0 { at as u64 } else { ((at << 20) / 1_000_000_000) as u64 };
        let len = frame.len() as u32;
        let head = [n as u32 % 2, (units >> 32) as u32, units as u32, len, len];
        let head: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.extend(block(6, &[&head[..], frame].concat()));
    }
    bytes
}

fn ethernet(from: u8, to: u8, ether_type: u16, rest: &[u8]) -> Vec<u8> {
    let mac = |last| [2, 0, 0, 0, 0, last];
    [&mac(to)[..], &mac(from), &ether_type.to_be_bytes(), rest].concat()
}

/// An IPv4 or IPv6 packet between 10.1.0.x or fd00::x with right checksums. `transport` has zeros where its checksum
/// is to stand, `checksum_at`.
fn ip(
    is_v6: bool,
    ends: [u8; 2],
    protocol: u8,
    mut transport: Vec<u8>,
    checksum_at: usize,
) -> Vec<u8> {
    let len = transport.len() as u16;
    let mut packet = match is_v6 {
        true => {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend(len.to_be_bytes());
            packet.extend([protocol, 64]);
            for end in ends {
                packet.extend([&[0xfd, 0][..], &[0; 13], &[end]].concat());
            }
            packet
        }
        false => {
            let mut packet = vec![0x45, 0];
            packet.extend((len + 20).to_be_bytes());
            packet
                .extend([0, 7, 0x40, 0, 64, protocol, 0, 0, 10, 1, 0, ends[0], 10, 1, 0, ends[1]]);
            let checksum = Sum::ZERO.add_bytes(&packet).checksum();
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            packet
        }
    };
    let addresses = if is_v6 { packet[8..].to_vec() } else { packet[12..].to_vec() };
    let numbers = (u64::from(protocol) + u64::from(len)).to_be_bytes();
    let sum = Sum::ZERO.add_bytes(&transport);
    // of ICMP over IPv4 there is no pseudo header
    let sum =
        if protocol == 1 { sum } else { sum.add_bytes(&[addresses, numbers.to_vec()].concat()) };
    // an odd end has to come last, and there is none
    assert!(transport.len().is_multiple_of(2));
    transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.checksum().to_be_bytes());
    packet.extend(transport);
    packet
}

fn udp(is_v6: bool, ends: [u8; 2], ports: [u16; 2], len: usize) -> Vec<u8> {
    let mut transport: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    transport.extend((len as u16 + 8).to_be_bytes());
    transport.extend([0, 0]);
    transport.extend((0..len).map(|byte| byte as u8 | 1));
    framed(is_v6, ends, &ip(is_v6, ends, 17, transport, 6))
}

fn tcp(is_v6: bool, ends: [u8; 2], ports: [u16; 2], flags: u8) -> Vec<u8> {
    let mut transport: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    transport.extend([0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, flags, 0x20, 0, 0, 0, 0, 0]);
    transport.extend([7; 20]);
    framed(is_v6, ends, &ip(is_v6, ends, 6, transport, 16))
}

fn icmp(is_v6: bool, ends: [u8; 2]) -> Vec<u8> {
    let (protocol, kind) = if is_v6 { (58, 128) } else { (1, 8) };
    let transport = [&[kind, 0, 0, 0, 0, 1, 0, 1][..], &[9; 24]].concat();
    framed(is_v6, ends, &ip(is_v6, ends, protocol, transport, 2))
}

fn framed(is_v6: bool, ends: [u8; 2], packet: &[u8]) -> Vec<u8> {
    ethernet(ends[0], ends[1], if is_v6 { 0x86dd } else { 0x0800 }, packet)
}

fn tagged(id: u8, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0x60, id], &frame[12..]].concat()
}

fn arp(from: u8, to: u8) -> Vec<u8> {
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, from, 10, 1, 0, from];
    arp.extend([0, 0, 0, 0, 0, 0, 10, 1, 0, to]);
    arp.resize(46, 0);
    ethernet(from, to, 0x0806, &arp)
}

/// Frames of many kinds, all at least 60 bytes long.
fn kinds() -> Vec<Vec<u8>> {
    let mut kinds = vec![
        udp(false, [1, 2], [5000, 53], 40),
        udp(false, [2, 1], [53, 5000], 200),
        udp(true, [1, 2], [5001, 80], 1000),
        tcp(false, [1, 2], [6000, 80], 0x02),
        tcp(false, [2, 1], [80, 6000], 0x12),
        tcp(true, [3, 1], [1500, 443], 0x02),
        icmp(false, [1, 2]),
        icmp(true, [2, 1]),
        arp(1, 2),
        tagged(5, &udp(false, [1, 3], [5000, 53], 40)),
        tagged(6, &tcp(true, [1, 3], [6000, 80], 0x10)),
        ethernet(4, 5, 0x88cc, &[3; 50]),
        udp(false, [9, 8], [5000, 53], 1472),
    ];
    let mut group = udp(false, [1, 2], [7, 7], 60);
    group[..6].copy_from_slice(&[0xff; 6]);
    kinds.push(group);
    // a later fragment, and one without a checksum
    let mut fragment = udp(false, [1, 2], [5000, 53], 40);
    fragment[20..22].copy_from_slice(&[0x20, 5]);
    let checksum = Sum::ZERO.add_bytes(&fragment[14..24]).add_bytes(&fragment[26..34]).checksum();
    fragment[24..26].copy_from_slice(&checksum.to_be_bytes());
    kinds.push(fragment);
    let mut none = udp(false, [1, 2], [5000, 80], 40);
    none[40..42].fill(0);
    kinds.push(none);
    kinds
}

/// Some thousand frames with gaps of all lengths; in whole microseconds where they are to be.
fn frames(unit: u64) -> Vec<Timed> {
    let kinds = kinds();
    let mut at = 0;
    let frame = |n: u64| {
        at += n % 7 * n % 1001 * unit + unit * (n % 3);
        (at, kinds[n as usize % kinds.len()].clone())
    };
    (0..2000).map(frame).collect()
}

fn flow(capture: &Path, port: &str, keys: &str) -> String {
    format!("{{ from: {port}, replay: {{ capture: '{}'{keys} }} }}", capture.display())
}

/// Replays into a file, and reads that.
fn replayed(name: &str, capture: &Path, keys: &str) -> (Report, Vec<Timed>) {
    let out = file(&format!("{name}-out.pcapng"));
    let text = format!(
        "ports: {{ a: {{ engine: pcap, mtu: 1500B, file: '{}' }} }}\nflows:\n  x: {}\n",
        out.display(),
        flow(capture, "a", keys)
    );
    let report = run(&text, None);
    balanced(&report);
    (report, read(&out))
}

fn sent(name: &str, capture: &Path, keys: &str) -> Vec<Timed> {
    let (report, frames) = replayed(name, capture, keys);
    assert_eq!(report.end, End::Completed);
    from_first(frames)
}

fn read(path: &Path) -> Vec<Timed> {
    let mut frames = Frames::new(std::fs::File::open(path).unwrap(), "test", OnBad::Stop);
    let mut all = Vec::new();
    while frames.advance().unwrap() {
        let frame = frames.frame();
        all.push((frame.time_ns.unwrap() as u64, frame.bytes.to_vec()));
    }
    all
}

fn from_first(mut frames: Vec<Timed>) -> Vec<Timed> {
    let first = frames.first().map_or(0, |frame| frame.0);
    frames.iter_mut().for_each(|frame| frame.0 -= first);
    frames
}

#[track_caller]
fn same(got: &[Timed], expected: &[Timed]) {
    assert_eq!(got.len(), expected.len());
    for (n, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.0, expected.0, "frame {n}");
        assert!(got.1 == expected.1, "frame {n}: {:02x?}\n{:02x?}", got.1, expected.1);
    }
}

fn bytes(frames: Vec<Timed>) -> Vec<Vec<u8>> {
    frames.into_iter().map(|frame| frame.1).collect()
}

#[test]
fn every_frame_leaves_as_it_was_at_its_own_time() {
    let ns = from_first(frames(1));
    same(&sent("ns", &written("ns.pcap", &pcap(&ns)), ""), &ns);
    let us = from_first(frames(1000));
    same(&sent("us", &written("us.pcap", &pcap_big(&us)), ""), &us);
    // of the second interface what its clock can say
    let ng = written("two.pcapng", &pcapng(&ns));
    let mut expected: Vec<Timed> = Vec::new();
    for frame in read(&ng) {
        if expected.last().is_none_or(|last| last.0 <= frame.0) {
            expected.push(frame);
        }
    }
    same(&sent("ng", &ng, ", on-bad: skip"), &from_first(expected));
}

#[test]
fn readers_workers_buffers_and_memory_change_nothing() {
    let all = from_first(frames(1000));
    let path = written("readers.pcap", &pcap(&all));
    for keys in [
        ", preload: on",
        ", reader: mmap",
        ", reader: direct",
        ", workers: 3, buffer: 128KiB",
        ", preload: on, reader: direct, workers: 2",
    ] {
        same(&sent("readers", &path, keys), &all);
    }
}

#[test]
fn faster_in_a_tight_loop_again_and_in_part() {
    let all = from_first(frames(1000));
    let path = written("speeds.pcap", &pcap(&all));
    let mapped = |at: &dyn Fn(usize, u64) -> u64| -> Vec<Timed> {
        all.iter().enumerate().map(|(n, (ns, frame))| (at(n, *ns), frame.clone())).collect()
    };
    same(&sent("speeds", &path, ", speed: 10x"), &mapped(&|_, ns| ns / 10));
    same(&sent("speeds", &path, ", speed: 0.5x"), &mapped(&|_, ns| ns * 2));
    same(&sent("speeds", &path, ", tight-loop: 3us"), &mapped(&|n, _| n as u64 * 3000));
    let (report, flat_out) = replayed("speeds", &path, ", tight-loop: 0");
    assert!(bytes(flat_out) == bytes(all.clone()));
    assert_eq!(report.replays[0].starved, 0, "what has no deadline is not late");
    let (twice, last) = (sent("speeds", &path, ", loop: 2"), all.last().unwrap().0);
    let gap = last / (all.len() as u64 - 1);
    let again = all.iter().map(|(ns, frame)| (ns + last + gap, frame.clone()));
    same(&twice, &all.iter().cloned().chain(again).collect::<Vec<_>>());
    let part = sent("speeds", &path, ", from: 2015-07-01T18:20:30.1Z, to: 2015-07-01T18:20:30.2Z");
    let kept = all.iter().filter(|frame| (100_000_000..200_000_000).contains(&frame.0));
    same(&part, &from_first(kept.cloned().collect()));
    assert!(part.len() > 10);
}

#[test]
fn several_captures_are_merged_by_time() {
    let all = from_first(frames(1000));
    let (even, odd): (Vec<_>, Vec<_>) =
        all.iter().cloned().enumerate().partition(|(n, _)| n % 3 == 0);
    let part =
        |part: Vec<(usize, Timed)>| part.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>();
    let (one, two) = (part(even), part(odd));
    let (first, second) =
        (written("merge-1.pcap", &pcap(&one)), written("merge-2.pcapng", &pcap_big(&two)));
    let both = PathBuf::from(format!("{}', '{}", first.display(), second.display()));
    let out = file("merge-out.pcapng");
    let flow = flow(&both, "a", "").replace("capture: '", "capture: ['").replace("' }", "'] }");
    let text = format!(
        "ports: {{ a: {{ engine: pcap, file: '{}' }} }}\nflows: {{ x: {flow} }}\n",
        out.display()
    );
    balanced(&run(&text, None));
    let mut expected = [one, two].concat();
    expected.sort_by_key(|frame| frame.0);
    same(&from_first(read(&out)), &expected);
}

#[test]
fn what_was_cut_short_is_padded_sent_as_it_is_or_left_out() {
    let all: Vec<Timed> =
        kinds().into_iter().zip(0..).map(|(frame, n)| (n * 1000, frame)).collect();
    let snapped: Vec<Timed> = all.iter().map(|(ns, frame)| (*ns, frame[..60].to_vec())).collect();
    let path = written("cut.pcap", &pcap_of(1, 40, &snapped));
    let padded: Vec<Timed> =
        snapped.iter().map(|(ns, frame)| (*ns, [&frame[..], &[0; 40]].concat())).collect();
    same(&sent("cut", &path, ""), &padded);
    same(&sent("cut", &path, ", truncated: send"), &snapped);
    let (report, frames) = replayed("cut", &path, ", truncated: skip");
    assert_eq!((report.end, frames.len()), (End::Completed, 0));
    let left_out = &report.replays[0].left_out[0];
    assert_eq!(
        (left_out.kind.as_str(), left_out.count),
        ("cut short in the capture", all.len() as u64)
    );
    assert!(
        left_out.first.contains("frame 1 at byte 24: 60 of its 100 bytes"),
        "{}",
        left_out.first
    );
}

#[test]
fn a_filter_chooses_as_tcpdump_does() {
    require!(Capability::Program("tcpdump"));
    let all: Vec<Timed> =
        kinds().into_iter().zip(0..).map(|(frame, n)| (n * 1000, frame)).collect();
    // and each cut short
    let cut = all.iter().map(|(ns, frame)| (ns + 1_000_000, frame[..36].to_vec()));
    let all: Vec<Timed> = all.iter().cloned().chain(cut).collect();
    let path = written("filter.pcap", &pcap(&all));
    let mut kept = 0;
    for text in [
        "tcp",
        "udp",
        "icmp",
        "icmp6",
        "ip",
        "ip6",
        "arp",
        "vlan",
        "vlan 5",
        "vlan 6 and tcp",
        "vlan and ip",
        "vlan or ip",
        "ip or vlan",
        "not vlan",
        "host 10.1.0.1",
        "src host 10.1.0.2",
        "dst 10.1.0.1",
        "src or dst host 10.1.0.1",
        "src and dst host 10.1.0.1",
        "host fd00::1",
        "ip6 host fd00::3",
        "arp host 10.1.0.2",
        "ip host 10.1.0.2",
        "net 10.1.0.0/16",
        "net 10.1",
        "src net 10.1.0.0/30",
        "net fd00::/64",
        "net 10.1.0.0 mask \
         255.255.0.0",
        "port 80",
        "port 53 or 443",
        "tcp port 80",
        "udp port 80",
        "src port 53",
        "dst portrange 50-90",
        "udp and not port 53",
        "not port 53",
        "not (tcp or udp)",
        "tcp or udp and port 53",
        "tcp && port 80 || arp",
        "! ip",
        "less 80",
        "greater 200",
        "ether host 02:00:00:00:00:02",
        "ether src 02:00:00:00:00:01",
        "ether dst ff:ff:ff:ff:ff:ff",
        "broadcast",
        "ether multicast",
        "multicast",
        "ip proto 17",
        "ip6 proto 6",
        "proto 17",
        "ether proto 0x88cc",
        "ether proto \\arp",
        "ip proto \\tcp",
        "tcp port (80 or 443)",
        "host 10.1.0.1 and not 10.1.0.2",
        "udp src port 5000 and host 10.1.0.9",
        "ip multicast",
        "sctp",
        "rarp",
        "not tcp port 80 and not arp",
        "not not udp",
    ] {
        let output = Command::new("tcpdump")
            .args(["-r", path.to_str().unwrap(), "-w", "-", text])
            .output()
            .unwrap();
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        let out = written("filter-out.pcap", &output.stdout);
        let theirs: Vec<u64> = read(&out).iter().map(|frame| frame.0 / 1000).collect();
        let filter = Filter::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let ours = all.iter().filter(|(_, frame)| filter.matches(frame, frame.len()));
        let ours: Vec<u64> = ours.map(|(ns, _)| (BEGIN_NS + ns) / 1000).collect();
        assert_eq!(ours, theirs, "{text}");
        kept += ours.len();
    }
    assert!(kept > 400, "{kept}");
}

#[test]
fn a_filter_leaves_the_times_of_what_it_keeps() {
    let all = from_first(frames(1000));
    let path = written("kept.pcap", &pcap(&all));
    let filter = Filter::new("udp port 53 and host 10.1.0.9").unwrap();
    let kept: Vec<Timed> =
        all.iter().filter(|(_, frame)| filter.matches(frame, frame.len())).cloned().collect();
    assert!(kept.len() > 100);
    same(&sent("kept", &path, ", filter: udp port 53 and host 10.1.0.9"), &from_first(kept));
    let text =
        format!("ports: {{ a: {{}} }}\nflows:\n  x: {}\n", flow(&path, "a", ", filter: port http"));
    let why = Scenario::from_yaml(&text, "test").unwrap_err().to_string();
    assert!(why.contains("flows.x.replay.filter: at character 6: 'http' is no port"), "{why}");
}

const REWRITE: &str = ", rewrite: { source-mac: '02:00:00:00:09:01', destination-mac: '02:00:00:00:09:02', vlan: { 5: 50 }, \
                       addresses: { 10.1.0.0/16: 192.168.0.0/16, 'fd00::/64': '2001:db8::/64' }, ports: { 53: 5353, \
                       1500-1999: 2500-2999, 5000-5001: 7 } }";

#[test]
fn what_is_rewritten_has_right_checksums() {
    require!(Capability::Program("tshark"));
    let all: Vec<Timed> =
        kinds().into_iter().zip(0..).map(|(frame, n)| (n * 1000, frame)).collect();
    let path = written("rewrite.pcap", &pcap(&all));
    let out = file("rewrite-out.pcapng");
    let rewritten = sent("rewrite", &path, REWRITE);
    assert_eq!(rewritten.len(), all.len());
    std::fs::write(&out, pcap(&rewritten)).unwrap();
    let output = Command::new("tshark")
        .args(["-r", out.to_str().unwrap(), "-T", "fields", "-E", "occurrence=f"])
        .args([
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "tcp.check_checksum:TRUE",
            "-o",
            "udp.check_checksum:TRUE",
        ])
        .args([
            "-e",
            "eth.src",
            "-e",
            "eth.dst",
            "-e",
            "vlan.id",
            "-e",
            "ip.src",
            "-e",
            "ipv6.src",
            "-e",
            "arp.src.proto_ipv4",
        ])
        .args([
            "-e",
            "udp.srcport",
            "-e",
            "tcp.srcport",
            "-e",
            "ip.checksum.status",
            "-e",
            "udp.checksum.status",
        ])
        .args([
            "-e",
            "tcp.checksum.status",
            "-e",
            "icmp.checksum.status",
            "-e",
            "icmpv6.checksum.status",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), all.len(), "{text}");
    for line in &lines {
        // 0 is bad, 1 is good
        assert!(line[8..].iter().all(|status| *status != "0"), "{line:?}");
        assert_eq!(line[0], "02:00:00:00:09:01");
        assert!(line[3].is_empty() || line[3].starts_with("192.168.0."), "{line:?}");
        assert!(line[4].is_empty() || line[4].starts_with("2001:db8::"), "{line:?}");
        assert!(line[5].is_empty() || line[5].starts_with("192.168.0."), "{line:?}");
    }
    let column = |number: usize| {
        lines.iter().map(|line| line[number]).filter(|one| !one.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(column(1).iter().filter(|to| **to == "ff:ff:ff:ff:ff:ff").count(), 1);
    assert_eq!(column(2), ["50", "6"]);
    assert_eq!(column(6), ["7", "5353", "7", "7", "7", "7", "7"]);
    assert_eq!(column(7), ["6000", "80", "2500", "6000"]);
    assert_eq!(column(8).iter().filter(|status| **status == "1").count(), 10, "{text}");
}

#[test]
fn both_sides_leave_from_ports_of_their_own_and_keep_step() {
    let all: Vec<Timed> = vec![
        // a frame of the server comes first, and is no conversation that was seen to open
        (0, tcp(false, [2, 1], [80, 6000], 0x12)),
        (1000, tcp(false, [1, 2], [6000, 80], 0x10)),
        (5000, tcp(false, [3, 2], [6001, 80], 0x02)),
        (9000, tcp(false, [2, 3], [80, 6001], 0x12)),
        (12_000, udp(true, [4, 2], [7000, 53], 60)),
        (13_000, udp(true, [2, 4], [53, 7000], 60)),
        (20_000, arp(1, 2)),
        (21_000, arp(2, 1)),
    ];
    let path = written("sides.pcap", &pcap(&all));
    let (a, b) = (file("sides-a.pcapng"), file("sides-b.pcapng"));
    for keys in ["", ", loop: 2", ", speed: 2x, preload: on"] {
        let text = format!(
            "ports: {{ a: {{ engine: pcap, file: '{}' }}, b: {{ engine: pcap, file: '{}' }} }}\nflows:\n  c: {}\n  s: \
             {}\n",
            a.display(),
            b.display(),
            flow(&path, "a", &format!(", side: client{keys}")),
            flow(&path, "b", &format!(", side: server{keys}")),
        );
        balanced(&run(&text, None));
        let whole = sent("sides", &path, keys);
        let (client, server) = (read(&a), read(&b));
        let first = server[0].0;
        let is_of_client = |frame: &Vec<u8>| [1, 3, 4].contains(&frame[11]);
        let of = |client: bool| {
            let some = whole.iter().filter(|(_, frame)| is_of_client(frame) == client);
            some.map(|(ns, frame)| (ns + first, frame.clone())).collect::<Vec<_>>()
        };
        same(&client, &of(true));
        same(&server, &of(false));
    }
}

#[test]
fn what_has_no_ethernet_header_is_given_one() {
    let packets: Vec<Vec<u8>> = kinds()[..8].iter().map(|frame| frame[14..].to_vec()).collect();
    let macs =
        ", rewrite: { source-mac: '02:00:00:00:00:07', destination-mac: '02:00:00:00:00:08' }";
    let expected: Vec<Vec<u8>> = packets
        .iter()
        .map(|packet| ethernet(7, 8, if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, packet))
        .collect();
    let raw: Vec<Timed> =
        packets.iter().cloned().zip(0..).map(|(packet, n)| (n * 1000, packet)).collect();
    let path = written("raw.pcap", &pcap_of(101, 0, &raw));
    assert!(bytes(sent("raw", &path, macs)) == expected);
    let kept = bytes(sent("raw", &path, &format!("{macs}, filter: tcp")));
    assert_eq!(kept.len(), 3);
    let cooked = |packet: &[u8]| {
        let ether_type: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &ether_type, packet].concat()
    };
    let sll: Vec<Timed> = raw.iter().map(|(ns, packet)| (*ns, cooked(packet))).collect();
    let path_sll = written("sll.pcap", &pcap_of(113, 0, &sll));
    assert!(bytes(sent("sll", &path_sll, macs)) == expected);
    let (report, _) = replayed("raw", &path, ", on-bad: skip");
    assert_eq!(report.replays[0].left_out[0].count, 8);
    let why = refused(&path, "");
    assert!(
        why.contains("frame 1 at byte 24: its link type is 101") && why.contains("'source-mac'"),
        "{why}"
    );
}

/// Why it cannot begin.
fn refused(capture: &Path, keys: &str) -> String {
    let text = format!(
        "ports: {{ a: {{ engine: pcap, mtu: 1500B, file: '{}' }} }}\nflows:\n  x: {}\n",
        file("refused-out").display(),
        flow(capture, "a", keys)
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    match prepare(&scenario, Options::default()) {
        Err(RunError::Usage(why)) => why,
        Err(other) => other.to_string(),
        Ok(_) => panic!("it began"),
    }
}

#[test]
fn what_is_no_capture_is_known_before_anything_is_sent() {
    let garbage =
        refused(&written("garbage.pcap", b"garbage, and no capture at all, whatever it is"), "");
    assert!(garbage.contains("frame 1 at byte 0: this is no capture"), "{garbage}");
    let gone = refused(&file("gone.pcap"), "");
    assert!(gone.contains("the capture '") && gone.contains("No such file"), "{gone}");
    let link = refused(&written("wifi.pcap", &pcap_of(105, 0, &frames(1)[..3])), "");
    assert!(link.contains("frame 1 at byte 24: its link type is 105"), "{link}");
}

#[test]
fn what_is_wrong_ends_it_with_its_place_or_is_left_out() {
    let all = from_first(frames(1000));
    let whole = pcap(&all);
    let message = |report: &Report| match &report.end {
        End::Failed { message } => message.clone(),
        other => panic!("{other:?}"),
    };
    // cut in the middle of the last frame
    let path = written("half.pcap", &whole[..whole.len() - 5]);
    let (report, sent) = replayed("half", &path, "");
    let cut = message(&report);
    assert!(cut.contains("frame 2000 at byte ") && cut.contains("the file ends after"), "{cut}");
    same(&from_first(sent), &all[..1999]);
    let (report, sent) = replayed("half", &path, ", on-bad: skip");
    assert_eq!((report.end, sent.len()), (End::Completed, 1999));
    assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::RecordsLeftOut));
    // time runs backwards
    let mut back = all[..100].to_vec();
    back[50].0 = back[49].0 - 7;
    let path = written("back.pcap", &pcap(&back));
    let (report, sent) = replayed("back", &path, "");
    let why = message(&report);
    assert!(why.contains("frame 51 at byte ") && why.contains("is 7ns before"), "{why}");
    assert_eq!(sent.len(), 50);
    let (report, sent) = replayed("back", &path, ", on-bad: skip");
    assert_eq!((sent.len(), report.replays[0].left_out[0].count), (99, 1));
    let sent = replayed("back", &path, ", tight-loop: 1us").1;
    assert_eq!(sent.len(), 100, "a tight loop does not look at times");
    // longer than the link carries, but for a tag
    let long = |len: usize| ethernet(1, 2, 0x88b5, &vec![1; len - 14]);
    let some = vec![(0, long(1514)), (1, tagged(1, &long(1514))), (2, long(1515)), (3, long(100))];
    let path = written("long.pcap", &pcap(&some));
    let (report, sent) = replayed("long", &path, "");
    let why = message(&report);
    assert!(
        why.contains("frame 3 at byte ")
            && why.contains("it has 1515 bytes, and the link carries 1514"),
        "{why}"
    );
    assert_eq!(sent.len(), 2);
    assert_eq!(replayed("long", &path, ", on-bad: skip").1.len(), 3);
}

#[test]
fn keys_of_the_other_kind_are_refused() {
    let path = written("keys.pcap", &pcap(&frames(1)[..3]));
    let check = |flow: &str| {
        let text = format!("ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, {flow} }} }}\n");
        Scenario::from_yaml(&text, "test").unwrap_err().to_string()
    };
    for (flow, why) in [
        ("replay: { capture: x.pcap, devices: [a] }", "a capture has no devices"),
        ("replay: { capture: x.pcap, flow-of: device }", "a capture has no devices"),
        ("to: a, replay: { archive: x.wbar, side: client }", "only a capture has this"),
        ("to: a, replay: { archive: x.wbar, filter: tcp }", "only a capture has this"),
        ("to: a, replay: { archive: x.wbar, capture: y.pcap }", "leave one of the two out"),
        ("to: a, replay: { speed: 2x }", "there is nothing to replay"),
        ("replay: { capture: [] }", "day.pcapng"),
        ("replay: { capture: x.pcap }, probe: on", "stay as they are"),
        ("replay: { capture: x.pcap }, packet: [ ipv6: {}, udp: {} ]", "have their headers"),
        ("replay: { capture: x.pcap }, rate: 1Mpps", "'tight-loop'"),
        ("replay: { capture: x.pcap, rewrite: { vlan: 4095 } }", "there is no VLAN 4095"),
        (
            "replay: { capture: x.pcap, rewrite: { addresses: { 10.0.0.0/8: 'fd00::/8' } } }",
            "different versions",
        ),
        (
            "replay: { capture: x.pcap, rewrite: { addresses: { 10.0.0.0/8: 0.0.0.0/0 } } }",
            "is shorter than",
        ),
        (
            "replay: { capture: x.pcap, rewrite: { ports: { 1-9: 2-3 } } }",
            "write one port, or as many",
        ),
    ] {
        let told = check(flow);
        assert!(told.contains(why), "{flow}: {told}");
    }
    let text =
        format!("ports: {{ a: {{ engine: socket }} }}\nflows:\n  x: {}\n", flow(&path, "a", ""));
    let scenario = Scenario::from_yaml(&text, "test").unwrap();
    assert!(prepare(&scenario, Options::default()).is_err(), "a socket sends no frames");
}

/// Sends over a cable, and captures at the far end.
fn over_a_cable(engine: &str, path: &Path, all: &[Timed], keys: &str) {
    let bed = if engine == "kernel" { cable_to_a_program() } else { cable() };
    let out = file(&format!("cable-{engine}.pcapng"));
    let capture = Program::new(&bed.b.namespace, "tshark")
        .args([
            "-i",
            "wb1",
            "-l",
            "-f",
            "ether src 02:00:00:00:00:01",
            "-a",
            "duration:20",
            "-P",
            "-w",
            out.to_str().unwrap(),
        ])
        .spawn()
        .unwrap();
    capture.wait_for("Capturing on", Duration::from_secs(30)).unwrap();
    // tshark says so a moment before its capture really runs
    thread::sleep(Duration::from_millis(500));
    let text = format!(
        "ports: {{ a: {{ interface: wb0, namespace: a, engine: {engine} }} }}\nflows:\n  x: {}\nrun: {{ wait: sleep }}\n",
        flow(path, "a", keys)
    );
    let report = run(&text, Some(&bed));
    thread::sleep(Duration::from_millis(500));
    capture.interrupt();
    let _ = capture.wait(Duration::from_secs(10));
    balanced(&report);
    assert_eq!(report.flows[0].sent.as_ref().unwrap().sent.frames, all.len() as u64, "{engine}");
    let mut seen = bytes(read(&out));
    let mut all = bytes(all.to_vec());
    assert_eq!(seen.len(), all.len(), "{engine}");
    if engine == "kernel" {
        // GRO at the far end holds some back until others have passed
        seen.sort();
        all.sort();
    }
    assert!(seen == all, "{engine}");
}

#[test]
fn frames_arrive_as_they_were_captured() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("tshark")
    );
    // from one address, so that they are told from what systems send
    let mut all: Vec<Timed> = from_first(frames(10));
    all.truncate(500);
    for (ns, frame) in &mut all {
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        *ns *= 100;
    }
    let path = written("cable.pcap", &pcap(&all));
    for engine in ["kernel", "packet"] {
        over_a_cable(engine, &path, &all, "");
        over_a_cable(engine, &path, &all, ", tight-loop: 20us");
    }
}
