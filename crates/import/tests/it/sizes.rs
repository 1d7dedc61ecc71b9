//! Sizes that a tool does not send, or not as one packet, are an error or named, with the script's line.

use wirebeat_import::{Converted, Dialect, Options, Source, convert};
use wirebeat_traffic::scenario::FlowSpec;
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::size::{Length, Of, Size};
use wirebeat_units::Bytes;

fn try_convert(dialect: Dialect, text: &str) -> Result<Converted, String> {
    let read = |name: &str| match name {
        "long.trace" => Ok(b"500 0.02\n9000 0.02\n".to_vec()),
        "short.trace" => Ok(b"500 0.02\n1472 0.02\n".to_vec()),
        "long.bytes" => Ok(b"500\n9000\n".to_vec()),
        "too-long.bytes" => Ok(b"500\n\n64001\n".to_vec()),
        "gaps.ms" => Ok(b"1\n2\n".to_vec()),
        other => Err(format!("there is no '{other}'")),
    };
    let source = Source { name: "s", text, read: &read, sessions: &wirebeat_import::no_sessions };
    convert(dialect, &source, &Options::default()).map_err(|error| error.to_string())
}

fn why(dialect: Dialect, text: &str) -> String {
    try_convert(dialect, text).err().unwrap_or_else(|| panic!("it was not refused: {text}"))
}

fn converted(dialect: Dialect, text: &str) -> Converted {
    try_convert(dialect, text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn left_out(dialect: Dialect, text: &str) -> Vec<String> {
    converted(dialect, text).left_out.iter().map(ToString::to_string).collect()
}

#[test]
fn sizes_that_a_tool_does_not_send_are_refused_with_their_line() {
    let pktgen = "pg_thread 0 add_device eth0\npg_set eth0 dst 10.0.0.2\n";
    for (dialect, text, expected) in [
        (
            Dialect::Rude,
            "START NOW\n0 1 ON 3001 10.0.0.2:1 CBR 1 32769\n9 1 OFF\n".to_owned(),
            "s:2: sizes are 20 to 32768 bytes, not 32769",
        ),
        (
            Dialect::Mgen,
            "ON 1 UDP DST 10.0.0.2/5 PERIODIC [1 8193]".to_owned(),
            "s:1: '8193' is not a size of 28 to 8192 bytes, or min:max",
        ),
        (
            Dialect::Mgen,
            "ON 1 UDP DST 10.0.0.2/5 PERIODIC [1 99]\n1 MOD 1 PERIODIC [1 99:8193]".to_owned(),
            "s:2: '8193' is not a size of 28 to 8192 bytes, or min:max",
        ),
        (
            Dialect::Mgen,
            "\nON 1 TCP DST 10.0.0.2/5 PERIODIC [1 75]".to_owned(),
            "s:2: messages over TCP have 76 bytes or more, and not 75",
        ),
        (
            Dialect::Ditg,
            "\n-c 64001".to_owned(),
            "s:2: -c: '64001' is not a size of 1 to 64000 bytes",
        ),
        (
            Dialect::Ditg,
            "\n-Fs too-long.bytes".to_owned(),
            "too-long.bytes:3: '64001' is not a size of 1 to 64000 bytes",
        ),
        (Dialect::Ditg, "\n-u 64001 70000".to_owned(), "s:2: -u: "),
        (Dialect::Ditg, "\n-n 70000 10".to_owned(), "s:2: -n: "),
        (Dialect::Ditg, "\n-v 2 70000".to_owned(), "s:2: -v: "),
        (
            Dialect::Pktgen,
            format!("{pktgen}\npg_set eth0 pkt_size 65532\n"),
            "s:4: packets of 65532 bytes make frames of more than 65535",
        ),
        (
            Dialect::Pktgen,
            format!("{pktgen}\npg_set eth0 max_pkt_size 65535\n"),
            "s:4: packets of ",
        ),
        (
            Dialect::Pktgen,
            format!("{pktgen}\npg_set eth0 \"imix_weights 60,1 65535,1\"\n"),
            "s:4: packets of 65535 bytes",
        ),
    ] {
        let why = why(dialect, &text);
        assert!(why.starts_with(expected), "{text}: {why}");
    }
}

#[test]
fn sizes_of_a_law_that_are_not_drawn_are_named() {
    for (text, expected) in [
        ("\n-u 100 70000\n", "s:2: -u: sizes above 64000 bytes"),
        ("\n-v 1 100\n", "s:2: -v: sizes above 64000 bytes"),
        ("\n-e 500\n", "s:2: -e: sizes below 16 bytes"),
    ] {
        let left_out = left_out(Dialect::Ditg, text);
        assert_eq!(left_out.len(), 1, "{left_out:#?}");
        assert!(left_out[0].starts_with(expected), "{left_out:#?}");
    }
    for text in ["-u 100 64001\n", "-n 600 50\n", "-u 5 17\n", "-n 5 1\n"] {
        assert_eq!(left_out(Dialect::Ditg, text), [""; 0], "{text}");
    }
}

#[test]
fn what_a_tool_sends_in_several_packets_is_named() {
    let without = "packets are sent without a connection";
    for (protocol, least) in [("DCCP", 1465), ("SCTP 1 1", 1453)] {
        let text = format!("\n-T {protocol} -c {least}\n");
        let all = left_out(Dialect::Ditg, &text);
        let more: Vec<_> = all.iter().filter(|line| line.contains("one packet")).collect();
        assert_eq!(more.len(), 1, "{text}: {all:#?}");
        assert!(more[0].starts_with("s:2: ") && !more[0].contains(without));
        let text = format!("\n-T {protocol} -c {}\n", least - 1);
        let all = left_out(Dialect::Ditg, &text);
        assert!(!all.iter().any(|line| line.contains("one packet")), "{text}: {all:#?}");
    }
    let all = left_out(Dialect::Ditg, "-T DCCP -a 2001:db8::2 -u 100 1446\n");
    assert!(all.iter().any(|line| line.contains("1444 bytes") && line.contains("one packet")));
    for text in ["-T DCCP -Fs long.bytes\n", "-T DCCP -Fs long.bytes -Ft gaps.ms\n"] {
        let all = left_out(Dialect::Ditg, text);
        assert!(all.iter().any(|line| line.contains("one packet")), "{text}: {all:#?}");
    }
    // Datagrams are divided by IP, and so they are here.
    assert_eq!(left_out(Dialect::Ditg, "-c 20000\n-T ICMP -c 20000 -p 2\n"), [""; 0]);
}

#[test]
fn the_link_decides_whether_datagrams_are_divided() {
    let dont_fragment = |flow: &FlowSpec| match flow.packet.first() {
        Some(Header::Ipv4(header)) => header.dont_fragment,
        other => panic!("{other:?}"),
    };
    let rude = |trace: &str| format!("START NOW\n0 1 ON 3001 10.0.0.2:1 TRACE {trace}\n9 1 OFF\n");
    for (dialect, text) in [
        (Dialect::Rude, rude("short.trace")),
        (Dialect::Rude, rude("long.trace")),
        (Dialect::Rude, "START NOW\n0 1 ON 3001 10.0.0.2:1 CBR 1 32768\n9 1 OFF\n".to_owned()),
        (Dialect::Mgen, "ON 1 UDP DST 10.0.0.2/5 PERIODIC [1 8192]\n9 OFF 1\n".to_owned()),
        (Dialect::Ditg, "-Fs long.bytes -Ft gaps.ms\n-c 64000\n-e 20000\n".to_owned()),
    ] {
        let converted = converted(dialect, &text);
        for flow in converted.scenario.flows.values() {
            assert_eq!(dont_fragment(flow), None, "{text}");
        }
    }
}

#[test]
fn a_datagram_that_may_not_be_divided_and_has_to_is_named() {
    let text = "\nON 1 UDP DST 10.0.0.2/5 DF on PERIODIC [1 SIZE]\n9 OFF 1\n";
    let all = left_out(Dialect::Mgen, &text.replace("SIZE", "1473"));
    assert_eq!(all.len(), 1, "{all:#?}");
    assert!(all[0].starts_with("s:2: DF on: "), "{all:#?}");
    assert_eq!(left_out(Dialect::Mgen, &text.replace("SIZE", "1472")), [""; 0]);
    assert_eq!(
        left_out(Dialect::Mgen, &text.replace("SIZE", "8192").replace("on", "off")),
        [""; 0]
    );
    let text = "DF on\nON 1 UDP DST 10.0.0.2/5 PERIODIC [1 100:2000]\n9 OFF 1\n";
    assert!(left_out(Dialect::Mgen, text)[0].starts_with("s:2: DF on: "));
}

#[test]
fn sizes_are_drawn_as_far_as_they_go() {
    for (text, expected) in
        [("-e 512\n", 8900), ("-n 20000 100\n", 64_000), ("-u 100 64001\n", 64_000)]
    {
        let flow = &converted(Dialect::Ditg, text).scenario.flows["flow-1"];
        let Some(Size::Drawn(drawn, _)) = &flow.size else { panic!("{:?}", flow.size) };
        assert_eq!(drawn.max, Some(Bytes::new(expected)), "{text}");
    }
}

#[test]
fn frames_that_pktgen_sends_whole_and_a_link_may_not_are_named() {
    let pktgen = "pg_thread 0 add_device eth0\npg_set eth0 dst 10.0.0.2\n";
    for (size, count) in [("pkt_size 1514", 0), ("pkt_size 1515", 1), ("max_pkt_size 9000", 1)] {
        let all = left_out(Dialect::Pktgen, &format!("{pktgen}\npg_set eth0 {size}\n"));
        assert_eq!(all.len(), count, "{size}: {all:#?}");
        assert!(all.iter().all(|line| line.starts_with("s:4: eth0: ")), "{all:#?}");
    }
}

#[test]
fn sizes_that_are_all_too_short_are_as_long_as_the_shortest() {
    for text in ["-u 5 16\n", "-n 5 1\n", "-c 5\n"] {
        let flow = &converted(Dialect::Ditg, text).scenario.flows["flow-1"];
        let length = Length { bytes: 16, of: Of::Payload };
        assert_eq!(flow.size, Some(Size::Fixed(length)), "{text}");
    }
}

#[test]
fn chunks_of_sctp_are_whole_words_in_a_trace_too() {
    let converted = converted(Dialect::Ditg, "-T SCTP 1 1 -c 101 -Ft gaps.ms\n");
    let (_, trace) = &converted.files[0];
    assert_eq!(std::str::from_utf8(trace).unwrap(), "104B@payload 1ms\n104B@payload 2ms\n");
    assert!(converted.left_out.iter().any(|line| line.why.contains("multiple of 4")));
}
