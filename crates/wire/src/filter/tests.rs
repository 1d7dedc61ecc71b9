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
        ("tcp[13] = 2", 4, "expressions about bytes"),
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
            "arp", "vlan", "less", "80", "::1", "10/8", "mask", "multicast", "0x800",
        ]), 0..12),
        ether_type in prop::sample::select(vec![0x0800_u16, 0x86dd, 0x8100, 0x0806]),
        rest in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        if let Ok(filter) = Filter::new(&words.join(" ")) {
            let frame = ethernet(ether_type, &rest);
            filter.matches(&frame, frame.len());
        }
    }
}
