use proptest::prelude::*;

use super::*;

fn filter(text: &str) -> Filter {
    Filter::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn ethernet(ether_type: u16, rest: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ether_type.to_be_bytes(), rest].concat()
}

/// 10.0.0.1 to 192.168.7.9, from port 1234 to 80.
fn tcp() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 192, 168, 7, 9];
    packet.extend([0x04, 0xd2, 0, 80]);
    packet.resize(40, 0);
    ethernet(0x0800, &packet)
}

#[test]
fn ends_protocols_and_lengths() {
    let frame = tcp();
    for text in [
        "tcp",
        "ip",
        "ip proto 6",
        "proto \\tcp",
        "port 80",
        "tcp port 80",
        "src port 1234",
        "dst port 80",
        "portrange 70-90",
        "host 10.0.0.1",
        "src 10.0.0.1",
        "ip host 192.168.7.9",
        "net 10",
        "net 192.168",
        "net 10.0.0.0/8",
        "net 10.0.0.0 mask 255.0.0.0",
        "ether src 02:00:00:00:00:02",
        "ether host 02-00-00-00-00-01",
        "ether proto 0x800",
        "less 54",
        "greater 54",
        "src or dst port 80",
        "not udp",
        "! ( udp or arp )",
        "tcp && !port 22",
        "port (22 or 80)",
        "port 22 or 80",
        "host 1.2.3.4 or 10.0.0.1 and tcp",
    ] {
        assert!(filter(text).matches(&frame, 54), "{text}");
    }
    for text in [
        "udp",
        "arp",
        "ip6",
        "port 81",
        "src port 80",
        "udp port 80",
        "src and dst port 80",
        "host 10.0.0.2",
        "dst host 10.0.0.1",
        "arp host 10.0.0.1",
        "net 10.0.0.0/32",
        "less 53",
        "greater 55",
        "broadcast",
        "ether multicast",
        "ip multicast",
        "vlan",
        "host ::1",
        "vlan or tcp",
    ] {
        assert!(!filter(text).matches(&frame, 54), "{text}");
    }
}

#[test]
fn and_and_or_bind_alike_from_the_left() {
    // with precedence the first would hold
    assert!(!filter("tcp or udp and udp").matches(&tcp(), 54));
    assert!(filter("tcp or (udp and udp)").matches(&tcp(), 54));
}

#[test]
fn numbers_are_worked_out_as_libpcap_does() {
    let frame = tcp();
    for text in [
        "len = 54",
        "54 == len",
        "ip[8] = 64",
        "ip[2:2] = 40",
        "ip[12:4] = 0x0a000001",
        "tcp[0:2] = 1234",
        "tcp[2:2] = 80 and port 80",
        "ether[0] & 1 = 0",
        "ether[12:2] = 0x800",
        "ip[0] & 0xf = 5",
        "(ip[0] & 0xf) * 4 = 20",
        "((ip[0] & 0xf) * 4) = 20",
        "not (ip[0] > 0x45 or len < 10)",
        "2 + 3 * 4 = 14",
        "10 - 3 - 2 = 5",
        "64 / 4 / 2 = 8",
        "1 | 6 & 3 = 3",
        "1 << 2 + 1 = 8",
        "-1 = 0xffffffff",
        "0 - 1 > 5",
        "017 = 15",
        "17 % 5 = 2",
        "6 ^ 3 = 5",
        // what is behind these comes first
        "7 ^ 1 + 1 = 5",
        "2 * 7 ^ 1 + 1 = 10",
        "1 << ip[8] = 0",
        "tcp[tcpflags] & tcp-syn = 0",
        "ip[ip[8] - 55] = 6",
        "not udp[0] = 5",
        "not icmp6[0] = 5",
        "tcp[0:2] + ip[8] != 0",
        "tcp[0] + udp[0] = 8",
    ] {
        assert!(filter(text).matches(&frame, 54), "{text}");
    }
    for text in [
        "udp[0] = 4",
        "udp[0] != 4",
        "ip6[0] >= 0",
        // there are no such bytes, and nothing is divided by zero: no match whatever is asked
        "tcp[40] = 0",
        "not tcp[40] = 0",
        "len / (ip[8] - 64) = 1",
        "not len / (ip[8] - 64) = 1",
        "ether[52:4] >= 0",
        "ether[0xffffffff] >= 0",
        "udp[0] + tcp[0] >= 0",
    ] {
        assert!(!filter(text).matches(&frame, 54), "{text}");
    }
    // the length on the line, and not what was kept of it
    assert!(filter("len = 54").matches(&frame[..20], 54));
    // a fragment behind the first has no TCP header
    let mut fragment = frame.clone();
    fragment[21] = 1;
    assert!(filter("tcp").matches(&fragment, 54) && !filter("tcp[0] >= 0").matches(&fragment, 54));
    let tagged = ethernet(0x8100, &[&[0x60, 5, 8, 0][..], &frame[14..]].concat());
    for text in ["vlan and ip[8] = 64", "vlan and tcp[2:2] = 80", "ether[14:2] & 0xfff = 5"] {
        assert!(filter(text).matches(&tagged, 58), "{text}");
    }
}

#[test]
fn a_vlan_moves_what_is_written_behind_it() {
    let frame = tcp();
    let tagged = ethernet(0x8100, &[&[0x60, 5, 8, 0][..], &frame[14..]].concat());
    for text in ["vlan", "vlan 5", "vlan and tcp port 80", "vlan 5 and host 10.0.0.1"] {
        assert!(filter(text).matches(&tagged, 58), "{text}");
    }
    for text in ["tcp", "vlan 6", "tcp and vlan", "not vlan and tcp"] {
        assert!(!filter(text).matches(&tagged, 58), "{text}");
    }
}

#[test]
fn a_frame_that_ends_before_what_is_looked_at_does_not_match() {
    let frame = &tcp()[..35];
    assert!(!filter("port 80").matches(frame, 54) && !filter("not port 80").matches(frame, 54));
    assert!(filter("tcp").matches(frame, 54));
}

#[test]
fn what_is_not_understood_is_told_with_its_place() {
    for (text, at, why) in [
        ("", 1, "ends where a test is to follow"),
        ("tcp and", 8, "ends where a test is to follow"),
        ("tcp foo", 5, "'and' or 'or' is missing before 'foo'"),
        ("foo", 1, "'foo' is not known; there are host, net"),
        ("port http", 6, "names are not looked up"),
        ("host example.org", 6, "names are not looked up"),
        ("port 65536", 6, "up to 65535"),
        ("net 10.0.0.1/8", 5, "write 10.0.0.0/8"),
        ("net 10.0.0.0/33", 5, "is not a network"),
        ("(tcp", 1, "not closed"),
        ("tcp)", 4, "no parenthesis was opened"),
        ("(tcp udp)", 6, "is missing before 'udp'"),
        ("tcp host 10.0.0.1", 10, "'tcp' does not say this"),
        ("arp port 7", 10, "'arp' does not say this"),
        ("vlan 4096", 6, "there is no VLAN 4096"),
        ("tcp[13]", 8, "ends where a comparison is to follow"),
        ("tcp[13] and udp", 9, "'and' stands where numbers are compared"),
        ("tcp[13 = 2", 8, "'=' stands where ']' is to follow"),
        ("tcp[13", 4, "'[' is not closed"),
        ("tcp[13:3] = 2", 8, "write 1, 2 or 4"),
        ("tcp[] = 2", 5, "']' is not a number"),
        ("esp[0] = 2", 1, "there are ether, ip"),
        ("foo[0] = 2", 1, "there are ether, ip"),
        ("ip[0] / 0 = 2", 7, "divided by 0"),
        ("ip[0] << 32 = 2", 7, "31 at most"),
        ("(len + 2 > 5", 1, "not closed"),
        ("len > (5", 7, "'(' is not closed"),
        ("len >", 6, "ends where a number is to follow"),
        ("port 09", 6, "not a port"),
        ("ether", 1, "what of it?"),
        ("10.0.0.1", 1, "write for example host 10.0.0.1"),
        ("less many", 6, "is not a number"),
        ("ip proto 256", 10, "up to 255"),
        ("net 10.0.0.0 mask 255.0.255.0", 19, "ones and then zeros"),
    ] {
        let error = Filter::new(text).expect_err(text);
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.why.to_string().contains(why), "{text}: {error}");
    }
    for (text, why) in [
        (format!("len = {}1", "-".repeat(100)), "64 parentheses and operators"),
        (format!("len = {}1{}", "(".repeat(100), ")".repeat(100)), "64 parentheses"),
        (format!("len = {}1", "1 ^ ".repeat(100)), "32 numbers wait"),
        (format!("len = {}1{}", "1 + (".repeat(40), ")".repeat(40)), "32 numbers wait"),
        (format!("{}len > 1{}", "(".repeat(100), ")".repeat(100)), "64 parentheses"),
    ] {
        let error = Filter::new(&text).unwrap_err();
        assert!(error.why.to_string().contains(why), "{text}: {error}");
    }
    assert!(Filter::new(&"(".repeat(100)).unwrap_err().why.to_string().contains("64 parentheses"));
    assert!(Filter::new(&" ".repeat(5000)).is_err());
}

proptest! {
    #[test]
    fn any_text_is_a_filter_or_an_error_with_a_place(text in "\\PC{0,60}", frame: Vec<u8>) {
        match Filter::new(&text) {
            Ok(filter) => drop(filter.matches(&frame, frame.len())),
            Err(error) => prop_assert!(error.at >= 1 && error.at <= text.chars().count() + 1),
        }
    }

    #[test]
    fn any_words_are_a_filter_or_an_error(
        words in prop::collection::vec(prop::sample::select(vec![
            "not", "and", "or", "(", ")", "src", "dst", "host", "net", "port", "proto", "tcp", "ip", "ip6", "ether",
            "arp", "vlan", "less", "80", "::1", "10/8", "mask", "multicast", "0x800", "len", "[", "]", ":", "+", "-", "*",
            "/", "%", "^", "&", "|", "<<", ">>", "=", "!=", ">", "tcp[0]", "ip[2:2]", "1", "0",
        ]), 0..14),
        ether_type in prop::sample::select(vec![0x0800_u16, 0x86dd, 0x8100, 0x0806]),
        rest in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        if let Ok(filter) = Filter::new(&words.join(" ")) {
            let frame = ethernet(ether_type, &rest);
            filter.matches(&frame, frame.len());
        }
    }
}
