//! Captures that tests write, and the frames in them.

use std::path::PathBuf;

use wirebeat_wire::checksum::Sum;

/// 2015-07-01T18:20:30Z.
pub(super) const BEGIN_NS: u64 = 1_435_774_830_000_000_000;

/// Nanoseconds since the beginning, and a frame.
pub(crate) type Timed = (u64, Vec<u8>);

/// A file of a test, which does not exist yet.
pub(super) fn file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-capture-{name}"));
    let _ = std::fs::remove_file(&path);
    path
}

pub(super) fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = file(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A pcap of nanoseconds; the length of each frame on the line is `more` than there is of it.
pub(super) fn pcap_of(link: u32, more: u32, frames: &[Timed]) -> Vec<u8> {
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

pub(crate) fn pcap(frames: &[Timed]) -> Vec<u8> {
    pcap_of(1, 0, frames)
}

/// A pcap of microseconds, the greatest byte first.
pub(super) fn pcap_big(frames: &[Timed]) -> Vec<u8> {
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

pub(super) fn block(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    content.resize(content.len().next_multiple_of(4), 0);
    let total = content.len() as u32 + 12;
    [&kind.to_le_bytes()[..], &total.to_le_bytes(), &content, &total.to_le_bytes()].concat()
}

/// A pcapng of two interfaces in turn, one with nanoseconds and one with units of 2^-20 s.
pub(super) fn pcapng(frames: &[Timed]) -> Vec<u8> {
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

pub(super) fn ethernet(from: u8, to: u8, ether_type: u16, rest: &[u8]) -> Vec<u8> {
    let mac = |last| [2, 0, 0, 0, 0, last];
    [&mac(to)[..], &mac(from), &ether_type.to_be_bytes(), rest].concat()
}

/// An IPv4 or IPv6 packet between 10.1.0.x or fd00::x with right checksums. `transport` has zeros where its checksum
/// is to stand, `checksum_at`.
pub(super) fn ip(
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

pub(super) fn udp(is_v6: bool, ends: [u8; 2], ports: [u16; 2], len: usize) -> Vec<u8> {
    let mut transport: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    transport.extend((len as u16 + 8).to_be_bytes());
    transport.extend([0, 0]);
    transport.extend((0..len).map(|byte| byte as u8 | 1));
    framed(is_v6, ends, &ip(is_v6, ends, 17, transport, 6))
}

pub(super) fn tcp(is_v6: bool, ends: [u8; 2], ports: [u16; 2], flags: u8) -> Vec<u8> {
    let mut transport: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    transport.extend([0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, flags, 0x20, 0, 0, 0, 0, 0]);
    transport.extend([7; 20]);
    framed(is_v6, ends, &ip(is_v6, ends, 6, transport, 16))
}

pub(super) fn icmp(is_v6: bool, ends: [u8; 2]) -> Vec<u8> {
    let (protocol, kind) = if is_v6 { (58, 128) } else { (1, 8) };
    let transport = [&[kind, 0, 0, 0, 0, 1, 0, 1][..], &[9; 24]].concat();
    framed(is_v6, ends, &ip(is_v6, ends, protocol, transport, 2))
}

pub(super) fn framed(is_v6: bool, ends: [u8; 2], packet: &[u8]) -> Vec<u8> {
    ethernet(ends[0], ends[1], if is_v6 { 0x86dd } else { 0x0800 }, packet)
}

pub(super) fn tagged(id: u8, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0x60, id], &frame[12..]].concat()
}

pub(super) fn arp(from: u8, to: u8) -> Vec<u8> {
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, from, 10, 1, 0, from];
    arp.extend([0, 0, 0, 0, 0, 0, 10, 1, 0, to]);
    arp.resize(46, 0);
    ethernet(from, to, 0x0806, &arp)
}

/// Frames of many kinds, all at least 60 bytes long.
pub(super) fn kinds() -> Vec<Vec<u8>> {
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
pub(super) fn frames(unit: u64) -> Vec<Timed> {
    let kinds = kinds();
    let mut at = 0;
    let frame = |n: u64| {
        at += n % 7 * n % 1001 * unit + unit * (n % 3);
        (at, kinds[n as usize % kinds.len()].clone())
    };
    (0..2000).map(frame).collect()
}
