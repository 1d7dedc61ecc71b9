//! Each header, and what tunnels make of them.

use wirebeat_testbed::{Capability, require};

use super::{look, packet};

#[test]
fn link_layer_headers() {
    require!(Capability::Program("tshark"));
    look(&[
        packet("{ ethernet: { source: 02:00:00:00:00:55, destination: 02:00:00:00:00:66 } }, { ipv4: {} }, { udp: {} }")
            .sees("eth.src", "02:00:00:00:00:55")
            .sees("eth.dst", "02:00:00:00:00:66")
            .sees("eth.type", "0x0800"),
        packet("{ ethernet: { type: 0x88b6 } }, { ipv4: {} }, { udp: {} }").sees("eth.type", "0x88b6"),
        packet("{ vlan: { id: 5, priority: 3, drop-eligible: 1 } }, { ipv4: {} }, { udp: {} }")
            .sees("eth.type", "0x8100")
            .sees("vlan.id", "5")
            .sees("vlan.priority", "3")
            .sees("vlan.dei", "1")
            .sees("vlan.etype", "0x0800"),
        packet("{ vlan: { id: 1, tpid: 0x9100, type: 0x0800 } }, { ipv4: {} }, { udp: {} }")
            .sees("eth.type", "0x9100"),
        packet("{ mpls: { label: 16, traffic-class: 3, ttl: 9 } }, { mpls: { label: 1048575 } }, { ipv4: {} }, { udp: {} }")
            .sees("eth.type", "0x8847")
            .sees("mpls.label", "16 1048575")
            .sees("mpls.exp", "3 0")
            .sees("mpls.bottom", "0 1")
            .sees("mpls.ttl", "9 64"),
        packet("{ mpls: { label: 70 } }, { ethernet: { destination: 02:00:00:00:00:66 } }, { ipv4: {} }, { udp: {} }")
            .sees("mpls.bottom", "1")
            .sees("eth.dst", "02:00:00:ff:ff:ff 02:00:00:00:00:66"),
        packet("{ arp: {} }")
            .plain()
            .sees("eth.dst", "ff:ff:ff:ff:ff:ff")
            .sees("eth.type", "0x0806")
            .sees("arp.opcode", "1")
            .sees("arp.src.hw_mac", "02:00:00:00:00:00")
            .sees("arp.src.proto_ipv4", "198.18.0.1")
            .sees("arp.dst.hw_mac", "00:00:00:00:00:00")
            .sees("arp.dst.proto_ipv4", "198.18.0.2"),
        packet("{ arp: { operation: reply, sender: 10.0.0.7, target-mac: 02:00:00:00:00:66, target: 10.0.0.8 } }")
            .plain()
            .sees("arp.opcode", "2")
            .sees("arp.src.proto_ipv4", "10.0.0.7")
            .sees("arp.dst.hw_mac", "02:00:00:00:00:66"),
        // The probe lies in the padding.
        packet("{ arp: {} }")
            .complains("Didn't find padding of zeros, and an undecoded trailer exists. There may be padding of non-zeros."),
    ]);
}

#[test]
fn ipv4_headers() {
    require!(Capability::Program("tshark"));
    look(&[
        packet("{ ipv4: { source: 10.0.1.1, destination: 10.0.2.1, ttl: 7, dscp: ef, ecn: 1, identification: 0x1234 } }, { udp: {} }")
            .sees("ip.src", "10.0.1.1")
            .sees("ip.dst", "10.0.2.1")
            .sees("ip.ttl", "7")
            .sees("ip.dsfield.dscp", "46")
            .sees("ip.dsfield.ecn", "1")
            .sees("ip.id", "0x1234")
            .sees("ip.flags.df", "1")
            .sees("ip.len", "46")
            .sees("ip.proto", "17"),
        packet("{ ipv4: { tos: 0xb9, options: '94040000' } }, { udp: {} }")
            .sees("ip.dsfield", "0xb9")
            .sees("ip.hdr_len", "24")
            .sees("ip.opt.type", "148"),
        // Options are filled up with zeros, which end the list.
        packet("{ ipv4: { options: '0101' } }, { udp: {} }").sees("ip.hdr_len", "24"),
        packet("{ ipv4: { identification: count } }, { udp: {} }").sees_in_turn("ip.id", &["0x0000", "0x0001", "0x0002"]),
        packet("{ ipv4: { protocol: 17, fragment-offset: 5, more-fragments: 1, dont-fragment: off } }, { payload: random }")
            .plain()
            .sees("ip.flags.df", "0")
            .sees("ip.flags.mf", "1")
            .sees("ip.frag_offset", "5"),
        packet("{ ipv4: {} }, { payload: zeros }").plain().sees("ip.proto", "59"),
        packet("{ ipv4: {} }, { ipv6: { source: '2001:db8::1', destination: '2001:db8::2' } }, { udp: {} }")
            .sees("ip.proto", "41")
            .sees("ipv6.nxt", "17"),
        packet("{ ipv4: {} }, { ipv4: { source: 10.0.0.1, destination: 10.0.0.2, identification: count } }, { udp: {} }")
            .sees("ip.proto", "4 17")
            .sees("ip.len", "64 44"),
    ]);
}

#[test]
fn ipv6_headers() {
    require!(Capability::Program("tshark"));
    look(&[
        packet("{ ipv6: { source: '2001:db8::1', destination: '2001:db8::2', hop-limit: 3, dscp: af41, ecn: 2, flow-label: 0x12345 } }, { udp: {} }")
            .sees("ipv6.src", "2001:db8::1")
            .sees("ipv6.dst", "2001:db8::2")
            .sees("ipv6.hlim", "3")
            .sees("ipv6.tclass.dscp", "34")
            .sees("ipv6.tclass.ecn", "2")
            .sees("ipv6.flow", "0x012345")
            .sees("ipv6.plen", "24")
            .sees("ipv6.nxt", "17"),
        packet("{ ipv6: { traffic-class: 0xb9 } }, { udp: {} }").sees("ipv6.tclass", "0x000000b9"),
        packet("{ ipv6: {} }, { hop-by-hop: { options: '05020000' } }, { destination-options: {} }, { udp: {} }")
            .sees("ipv6.nxt", "0")
            .sees("ipv6.hopopts.nxt", "60")
            .sees("ipv6.opt.router_alert", "0")
            .sees("ipv6.dstopts.nxt", "17")
            .sees("ipv6.plen", "40"),
        packet("{ ipv6: {} }, { hop-by-hop: { options: '0502000001' } }, { udp: {} }").sees("ipv6.hopopts.len", "0"),
        packet("{ ipv6: {} }, { routing: { segments: ['2001:db8::1', '2001:db8::2'] } }, { udp: {} }")
            .sees("ipv6.nxt", "43")
            .sees("ipv6.routing.type", "4")
            .sees("ipv6.routing.segleft", "0")
            .sees("ipv6.routing.srh.last_entry", "1")
            .sees("ipv6.routing.srh.addr", "2001:db8::1 2001:db8::2"),
        packet("{ ipv6: {} }, { fragment: { offset: 3, more-fragments: 1, identification: 77, next-header: 17 } }, { payload: random }")
            .plain()
            .size("96B@payload")
            .sees("ipv6.fraghdr.offset", "3")
            .sees("ipv6.fraghdr.more", "1")
            .sees("ipv6.fraghdr.ident", "0x0000004d")
            .sees("ipv6.fraghdr.nxt", "17"),
        packet("{ ipv6: {} }, { fragment: {} }, { udp: {} }").sees("ipv6.fraghdr.nxt", "17").sees("udp.length", "24"),
        packet("{ ipv6: {} }, { ipv4: { source: 10.0.0.1, destination: 10.0.0.2 } }, { udp: {} }")
            .sees("ipv6.nxt", "4")
            .sees("ip.proto", "17"),
    ]);
}

#[test]
fn transport_headers() {
    require!(Capability::Program("tshark"));
    look(&[
        packet("{ ipv4: {} }, { udp: { source: 50001, destination: 50002 } }")
            .sees("udp.srcport", "50001")
            .sees("udp.dstport", "50002")
            .sees("udp.length", "26"),
        packet("{ ipv4: {} }, { udp: { checksum: off } }").sees("udp.checksum", "0x0000"),
        packet("{ ipv4: {} }, { tcp: { source: 50001, destination: 50002, sequence: 7, acknowledgment: 8, flags: psh+ack, window: 9, urgent: 0, options: '080a0000000100000002' } }")
            .sees("tcp.seq_raw", "7")
            .sees("tcp.ack_raw", "8")
            .sees("tcp.flags", "0x0018")
            .sees("tcp.window_size_value", "9")
            .sees("tcp.hdr_len", "32")
            .sees("tcp.options.timestamp.tsval", "1"),
        packet("{ ipv6: {} }, { tcp: { flags: syn+ece+cwr } }").sees("tcp.flags", "0x00c2"),
        packet("{ ipv4: {} }, { icmp: { identifier: 7, sequence: { increment: 1 } } }")
            .sees("icmp.type", "8")
            .sees("icmp.ident", "7")
            .sees_in_turn("icmp.seq", &["1", "2"]),
        packet("{ ipv4: {} }, { icmp: { type: 13, code: 0 } }, { payload: zeros }").plain().size("64B").sees("icmp.type", "13"),
        packet("{ ipv6: {} }, { icmpv6: { identifier: 7, sequence: 9 } }")
            .sees("icmpv6.type", "128")
            .sees("icmpv6.echo.identifier", "0x0007")
            .sees("icmpv6.echo.sequence_number", "9"),
        packet("{ ipv4: { destination: 239.1.1.1, ttl: 1, options: '94040000' } }, { igmp: { group: 239.1.1.1, max-response-time: 0 } }")
            .plain()
            .sees("eth.dst", "01:00:5e:01:01:01")
            .sees("igmp.type", "0x16")
            .sees("igmp.maddr", "239.1.1.1"),
        packet("{ ipv4: { destination: 224.0.0.1, ttl: 1 } }, { igmp: { type: query, max-response-time: 100 } }")
            .plain()
            .sees("igmp.type", "0x11")
            .sees("igmp.max_resp", "100"),
        packet("{ ipv4: {} }, { sctp: { source: 50001, destination: 50002, verification-tag: 5, tsn: 7, stream: 1, stream-sequence: 2, payload-protocol: 3000000000 } }, { payload: random }")
            .plain()
            .frames(1)
            .size("100B@payload")
            .sees("sctp.verification_tag", "0x00000005")
            .sees("sctp.chunk_length", "116")
            .sees("sctp.data_tsn_raw", "7")
            .sees("sctp.data_sid", "0x0001")
            .sees("sctp.data_ssn", "2")
            .sees("sctp.data_payload_proto_id", "3000000000"),
        packet("{ ipv6: {} }, { dccp: { source: 50001, destination: 50002, cc-value: 3, sequence: 0x0102030405 } }")
            .sees("dccp.srcport", "50001")
            .sees("dccp.type", "2")
            .sees("dccp.ccval", "3")
            .sees("dccp.data_offset", "4")
            .sees("dccp.seq_raw", "4328719365"),
    ]);
}

#[test]
fn tunnels() {
    require!(Capability::Program("tshark"));
    const INNER: &str = "{ ipv4: { source: 10.0.0.1, destination: 10.0.0.2 } }, { udp: {} }";
    const INNER6: &str =
        "{ ipv6: { source: '2001:db8::1', destination: '2001:db8::2' } }, { udp: {} }";
    look(&[
        packet(&format!("{{ ipv4: {{}} }}, {{ gre: {{}} }}, {INNER}"))
            .sees("gre.proto", "0x0800")
            .sees("gre.flags_and_version", "0x0000"),
        packet(&format!("{{ ipv4: {{}} }}, {{ gre: {{ key: 7, sequence: {{ increment: 8 }}, checksum: on }} }}, {{ ethernet: {{}} }}, {INNER6}"))
            .sees("gre.proto", "0x6558")
            .sees("gre.key", "0x00000007")
            .sees_in_turn("gre.sequence_number", &["8", "9"]),
        packet(&format!("{{ ipv4: {{}} }}, {{ udp: {{}} }}, {{ vxlan: {{ vni: 70000 }} }}, {{ ethernet: {{}} }}, {INNER6}"))
            .sees("udp.dstport", "4789 9")
            .sees("udp.length", "94 24")
            .sees("vxlan.vni", "70000"),
        packet(&format!("{{ ipv6: {{}} }}, {{ udp: {{ checksum: off }} }}, {{ vxlan: {{}} }}, {{ ethernet: {{}} }}, {{ vlan: {{ id: 9 }} }}, {INNER}"))
            .sees("vlan.id", "9")
            .complains("Illegal checksum value (0)")
            .complains("udp.checksum.status 4"),
        packet("{ ipv4: {} }, { gre: { checksum: on } }, { ipv4: { source: 10.0.0.1, destination: 10.0.0.2 } }, { icmp: {} }"),
    ]);
}

#[test]
fn the_outer_of_two_tags_is_of_802_1ad() {
    require!(Capability::Program("tshark"));
    look(&[packet("{ vlan: { id: 100 } }, { vlan: { id: 4095 } }, { ipv6: {} }, { udp: {} }")
        .sees("eth.type", "0x88a8")
        .sees("ieee8021ad.id", "100")
        .sees("vlan.id", "4095")
        .sees("vlan.etype", "0x86dd")]);
}

#[test]
fn behind_segments_that_are_left_the_checksum_covers_the_last_one() {
    require!(Capability::Program("tshark"));
    look(&[packet("{ ipv6: { destination: '2001:db8::2' } }, { routing: { segments: ['2001:db8::1', '2001:db8::2'], segments-left: 1 } }, { udp: {} }")
            .sees("ipv6.routing.segleft", "1")]);
}

#[test]
fn a_crc_can_be_wrong() {
    require!(Capability::Program("tshark"));
    look(&[packet("{ ipv4: {} }, { sctp: { checksum: wrong } }, { payload: random }")
        .plain()
        .complains("Bad SCTP checksum")
        .complains("sctp.checksum.status 0")]);
}

#[test]
fn a_checksum_around_a_crc_covers_it() {
    require!(Capability::Program("tshark"));
    look(&[packet("{ ipv4: {} }, { gre: { checksum: on } }, { ipv4: { source: 10.0.0.1, destination: 10.0.0.2 } }, { sctp: { tsn: { increment: 1 } } }, { payload: random }")
            .plain()
            .sees_in_turn("sctp.data_tsn_raw", &["1", "2"])]);
}
