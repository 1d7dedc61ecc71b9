//! Frames that leave otherwise than they were: rewritten, or given an Ethernet header.

use super::*;

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
    let none = refused(&path, ", on-bad: skip");
    assert!(
        none.contains("all of it was left out (8 of a link type that cannot be sent;"),
        "{none}"
    );
    let why = refused(&path, "");
    assert!(
        why.contains("frame 1 at byte 24: its link type is 101") && why.contains("'source-mac'"),
        "{why}"
    );
}
