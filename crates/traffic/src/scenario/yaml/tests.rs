//! What the parser says to mistakes, and that no text breaks it.

use std::num::{NonZeroU32, NonZeroU64};

use proptest::prelude::*;
use wirebeat_units::{BitRate, FrameLen, FrameRate, Layer, Nanos, Rate};
use wirebeat_wire::mac::MacAddr;

use super::*;
use crate::scenario::header::Header;
use crate::scenario::header::dscp::Dscp;
use crate::scenario::header::ethernet::Ethernet;
use crate::scenario::header::ipv4::{Identification, Ipv4};
use crate::scenario::header::ipv6::Ipv6;
use crate::scenario::header::payload::Payload;
use crate::scenario::header::udp::Udp;
use crate::scenario::header::vlan::Vlan;
use crate::scenario::number::Number;
use crate::scenario::pattern::{Field, Mac};
use crate::scenario::{Change, Departures, FlowRate, FlowSpec, PortSpec, Probe, Size, is_datagram};
use crate::schedule::tests::config;

/// Two ports and one flow with these lines in it, from line 6 on.
fn flow(lines: &str) -> String {
    format!(
        "ports:\n  a: {{ interface: eth1 }}\n  b: {{}}\nflows:\n  x:\n    from: a\n    to: b\n{lines}"
    )
}

fn message(text: &str) -> String {
    Scenario::from_yaml(text, "f.yaml").expect_err(text).to_string()
}

#[test]
fn mistakes_in_a_flow_are_named_with_place_and_remedy() {
    for (lines, expected) in [
        ("    rat: 5kpps", "8:5: unknown key 'rat'; did you mean 'rate'?"),
        (
            "    speed: 5kpps",
            "8:5: unknown key 'speed'; there are from, to, packet, sub-flows, size, rate, departures, burst, start, stop, count, bytes, at, replay, probe, expect",
        ),
        (
            "    rate: 5",
            "8:11: '5' is not a rate: it has no unit; write for example 100kpps, 2Gbps, 2Gbps@line, 50% or unlimited",
        ),
        (
            "    rate: [5]",
            "8:5: 'rate' is a list, and should be a rate, or how it changes with time",
        ),
        (
            "    size: 10",
            "8:11: '10' is not a frame length: frames are 64 to 65535 bytes long, with FCS; write for example 64B or 1518B",
        ),
        ("    count: 0", "8:5: 'count' is 0, and should be a whole number from 1 on"),
        ("    burst: -1", "8:12: 'burst' should be a whole number up to 4294967295"),
        (
            "    probe: maybe",
            "8:12: unknown probe 'maybe'; there are on, off, wirebeat, pktgen, pktgen-ns, mgen, rude, \
             rude-old, iperf2, d-itg, d-itg-short",
        ),
        ("    from: a", "8:5: 'from' occurs twice; give each of them a name of its own"),
        (
            "    packet: { ipv4: {} }",
            "8:13: 'packet' should be a list ('[a, b]', or lines that begin with '- ')",
        ),
        (
            "    packet:\n      ipv4: {}\n      udp: {}",
            "9:7: 'packet' should be a list ('[a, b]', or lines that begin with '- '); write '- ipv4: {}'",
        ),
        (
            "\tcount: 5",
            "7:9: a tab stands behind this value, or before the next key; indent with spaces",
        ),
        (
            "    count: ${r}",
            "8:12: there is no variable 'r'; declare it: 'variables: { r: … }' at the top, or write $${ for a dollar and a brace",
        ),
        (
            "    departures: poison",
            "8:17: unknown word 'poison'; did you mean 'poisson'? there are constant, poisson, uniform, exponential, pareto, \
             cauchy, normal, poisson-distributed, gamma, weibull, log-normal",
        ),
        (
            "    departures: jitter",
            "8:17: 'jitter' has a value; write for example '{ jitter: 10% }'",
        ),
        ("    packet: [ { ip4: {} } ]", "8:17: unknown word 'ip4'; did you mean 'ipv4'?"),
        (
            "    packet: [ { ipv4: { ttl: 300 } } ]",
            "8:25: flows.x.packet[0].ipv4.ttl: this field has 8 bits, so at most 255",
        ),
        (
            "    packet: [ { ipv4: { dscp: eff } } ]",
            "8:31: 'eff' is not a DSCP value; write a name such as ef, af41 or cs5, or 0 to 63",
        ),
        (
            "    packet: [ { ipv4: { source: 1.2.3 } } ]",
            "8:33: invalid IPv4 address syntax; write for example 10.0.0.1",
        ),
        (
            "    packet: [ { ipv4: { identification: -1 } } ]",
            "8:41: this is not an identification; write 'count' or a number up to 65535",
        ),
        (
            "    packet:\n      - ipv4: {}\n        udp: {}",
            "10:9: only one key may stand here; begin the next with '- ' on a line of its own",
        ),
        (
            "    packet:\n      - udp",
            "10:1: 'udp' has no value; write 'udp: VALUE', or 'udp: {}' if it has keys",
        ),
        (
            "    packet: [ { payload: { pattern: 123 } } ]",
            "8:37: there are two hex digits for each byte, not 3 in all",
        ),
        (
            "    packet: [ { payload: { pattern: xyz } } ]",
            "8:37: bytes are written in hex digits, for example deadbeef",
        ),
        (
            "    packet: [ { payload: ones } ]",
            "8:26: unknown word 'ones'; there are zeros, random, pattern, text, file",
        ),
        (
            "    packet: [ { ethernet: { source: 1:2 } } ]",
            "8:37: '1:2' is not a MAC address; write six pairs of hexadecimal digits, for example 02:00:5e:00:53:01",
        ),
    ] {
        assert_eq!(message(&flow(&format!("{lines}\n"))), format!("f.yaml:{expected}"), "{lines}");
    }
}

#[test]
fn mistakes_around_flows_are_named_with_place_and_remedy() {
    for (text, expected) in [
        ("", ":1:1: the text ends here; a scenario has the keys ports and flows"),
        ("null", ": the key 'ports' is missing"),
        ("[1]", ":1:1: this should be keys with values ('key: value', or '{ key: value }')"),
        ("ports: {}\nflow: {}", ":2:1: unknown key 'flow'; did you mean 'flows'?"),
        (
            "ports: {}",
            ":1:1: the key 'flows' is missing, and so is 'sessions'; write at least one of them",
        ),
        ("ports: {}\nflows: { x: {} }", ":2:13: the key 'from' is missing"),
        (
            "ports: { a: { engine: kernal } }",
            ":1:23: unknown word 'kernal'; did you mean 'kernel'?",
        ),
        (
            "ports: { a: { engine: 5 } }",
            ":1:23: unknown word '5'; there are auto, kernel, packet, socket, xdp, null, pcap, loopback",
        ),
        ("ports: { a: { engine: [] } }", ":1:23: this should be a word, or one key with its value"),
        (
            "ports: { a: { cores: 3 } }",
            ":1:22: 'cores' should be a list ('[a, b]', or lines that begin with '- ')",
        ),
        (
            "ports: { a: { addresses: [10.0.0.300] } }",
            ":1:27: invalid IP address syntax; write for example 10.0.0.1 or 2001:db8::1",
        ),
        (
            "run: { time: 10 }",
            ":1:14: '10' is not a time: it has no unit; write for example 100us, 1.5ms or 10s",
        ),
        ("run: { wait: spinn }", ":1:14: unknown word 'spinn'; did you mean 'spin'?"),
        ("seed: -1", ":1:7: 'seed' should be a whole number up to 18446744073709551615"),
        (
            "ports: {}\nflows: {}\n---\nports: {}",
            ":4:1: a second document begins here; a scenario is one, so give each a file",
        ),
        (
            "ports: { a: *b }",
            ":1:13: there is no anchor of this name before here; anchors are written &name",
        ),
        (
            "ports: { a: &a { engine: pcap } , b: { <<: *a, fil: x } }",
            ":1:48: unknown key 'fil'; did you mean 'file'?",
        ),
    ] {
        assert_eq!(message(text), format!("f.yaml{expected}"), "{text}");
    }
    // What the parser says of broken YAML is its own affair, but it has a place.
    for text in ["ports: { a: {}\nflows:", "flows:\n\tx:", "ports: \"abc", "%", "\0", "a: !x {}"] {
        assert!(message(text).starts_with("f.yaml:"), "{text}: {}", message(text));
        assert!(message(text).split(':').nth(1).is_some_and(|line| line.parse::<u32>().is_ok()));
    }
}

/// They were told in the words of the parser: "integer `0`", "string scalar", "floating point", "an array of length 2".
#[test]
fn values_of_a_wrong_kind_are_told_in_plain_words_with_their_key() {
    for (lines, expected) in [
        ("    count: 0", "8:5: 'count' is 0, and should be a whole number from 1 on"),
        ("    count: many", "8:12: 'count' should be a whole number up to 18446744073709551615"),
        ("    count: 1.5", "8:12: 'count' should be a whole number up to 18446744073709551615"),
        ("    burst: [1]", "8:12: 'burst' should be one value, and not a list or keys with values"),
        (
            "    burst:\n      a: 1",
            "9:7: 'burst' should be one value, and not a list or keys with values",
        ),
        (
            "    sub-flows: 3",
            "8:16: 'sub-flows' should be keys with values ('key: value', or '{ key: value }')",
        ),
        (
            "    size: { mix: [64B] }",
            "8:18: 'mix' should be keys with values ('key: value', or '{ key: value }')",
        ),
        (
            "    departures: { gamma: { shape: no } }",
            "8:35: 'shape' should be a number, for example 2 or 0.5",
        ),
        ("    at: { 1s: 5 }", "8:11: '1s' is 5, and should be 'pause', 'resume', or what changes"),
        ("    probe: [on]", "8:5: 'probe' is a list, and should be on, off, or whose probe it is"),
        (
            "    packet: [ { udp: { source: { random: [1] } } } ]",
            "8:34: 'random' has 1 value, and should have 2",
        ),
        (
            "    replay: { archive: { a: 5 } }",
            "8:24: 'archive' should be the name of a file, or a list of names",
        ),
    ] {
        assert_eq!(message(&flow(&format!("{lines}\n"))), format!("f.yaml:{expected}"), "{lines}");
    }
    for (text, expected) in [
        (
            "ports: { a: { cores: [x] } }",
            ":1:23: an entry of 'cores' should be a whole number up to 65535",
        ),
        (
            "include: { a: 5 }",
            ":1:10: 'include' is keys with values, and should be the name of a file, or a list of names",
        ),
        (
            "flows: { x: 3 }",
            ":1:13: 'x' should be keys with values ('key: value', or '{ key: value }')",
        ),
    ] {
        assert_eq!(message(text), format!("f.yaml{expected}"), "{text}");
    }
}

#[test]
fn what_cannot_be_meant_has_the_line_of_its_key() {
    assert_eq!(
        message(&flow("    stop: 0s\n    packet: [ { ipv6: {} }, { udp: {} } ]\n")),
        "f.yaml:8:5: flows.x.stop: it stops at 0ns, before anything is due: it starts at 0ns"
    );
}

#[test]
fn json_is_yaml() {
    let json = r#"{"ports": {"a": {"interface": "eth1"}, "b": {}},
        "flows": {"x": {"from": "a", "to": "b", "rate": "1kpps", "count": 5}}}"#;
    let yaml = flow("    rate: 1kpps\n    count: 5\n");
    assert_eq!(Scenario::from_yaml(json, "").unwrap(), Scenario::from_yaml(&yaml, "").unwrap());
}

#[test]
fn anchors_and_merges_give_flows_common_defaults() {
    let text = "ports: { a: {}, b: {} }\nflows:\n  x: &common { from: a, to: b, size: 100B, rate: 1kpps }\n  \
                y: { <<: *common, rate: 2kpps }\n";
    let scenario = Scenario::from_yaml(text, "").unwrap();
    assert_eq!(scenario.flows["y"].size, scenario.flows["x"].size);
    assert_ne!(scenario.flows["y"].rate, scenario.flows["x"].rate);
}

#[test]
fn texts_beyond_the_bounds_are_refused() {
    let long = " ".repeat(MAX_BYTES + 1);
    assert!(matches!(Scenario::from_yaml(&long, ""), Err(SpecError::TooLarge { .. })));

    let deep = format!("ports: {}", "[".repeat(100_000));
    assert!(message(&deep).len() < 2000);

    // Each line stands for ten times the line before.
    let mut laughs = String::from("ports:\n  l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let aliases = vec![format!("*l{}", i - 1); 10].join(", ");
        laughs.push_str(&format!("  l{i}: &l{i} [{aliases}]\n"));
    }
    let path = crate::scenario::KeyPath::port("l11").key("x");
    let place = crate::scenario::place::locate(&laughs, &path, &Variables::default());
    assert!(place.is_none_or(|(_, place)| place.line <= 13));
    assert!(message(&laughs).starts_with("f.yaml:2:"));

    let many =
        format!("ports: {{ a: {{ cores: [{}] }} }}\nflows: {{}}", "1,".repeat(MAX_NODES + 1));
    assert!(message(&many).contains("the text is larger than any scenario"), "{}", message(&many));
}

#[test]
fn what_is_quoted_from_the_text_is_cut() {
    let key = "k".repeat(1 << 20);
    for text in [
        format!("{key}: 1"),
        format!("ports: {{ a: {{ engine: {key} }} }}"),
        format!("ports: {{ a: {{ cores: {key} }} }}"),
        format!("ports:\n  ? {key}\n  : {{}}\nflows: {{}}"),
        format!("ports: {{}}\nflows: {{ x: {{ from: {key} }} }}"),
        format!("ports: {{}}\nflows: {{ x: {{ from: a, rate: {key} }} }}"),
        format!(
            "ports: {{}}\nflows: {{ x: {{ from: a, packet: [ {{ ipv4: {{ dscp: {key} }} }} ] }} }}"
        ),
    ] {
        assert!(message(&text).len() < 3000, "{}", message(&text).len());
    }
}

/// Texts that resemble scenarios: parts of one, in any order.
fn near_scenarios() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "ports:",
        "flows:",
        "run:",
        " ",
        "\n",
        "\n  ",
        "\n    ",
        "- ",
        "a:",
        "{",
        "}",
        "[",
        "]",
        ",",
        "from: a",
        "to: a",
        "packet:",
        "ipv4:",
        "ipv6:",
        "udp:",
        "payload:",
        "size: 64B",
        "rate:",
        "1kpps",
        "&x",
        "*x",
        "<<: ",
        "\"",
        "'",
        "|",
        ">",
        "#",
        "!",
        "? ",
        ": ",
        "null",
        "~",
        "1e400",
        ".nan",
        "0x7f",
        "---\n",
        "\t",
        "\u{fffd}",
        "\0",
        "count: 18446744073709551615",
    ]);
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Names that YAML would rather take for something else, and others.
fn names() -> impl Strategy<Value = String> {
    let odd =
        ["on", "1", "0x1F", "~", "null", "a: b", "#x", "- y", "é", "<<", "'", "1e3", "*a", "{"];
    prop_oneof![prop::sample::select(odd.to_vec()).prop_map(str::to_owned), "[a-z0-9 :#-]{1,64}"]
}

/// A value of the language, from how it is written.
fn written<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str_with_options(text, options()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// One of these values.
fn one_of<T: serde::de::DeserializeOwned + Clone + std::fmt::Debug + 'static>(
    texts: &[&str],
) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(texts.iter().map(|text| written(text)).collect::<Vec<T>>())
}

/// A field of `bits` bits, of any pattern.
fn fields(bits: u32) -> impl Strategy<Value = Field<Number>> {
    let most = (1_u64 << bits) - 1;
    let number = (0..=most).prop_map(Number::new);
    let per = |text: &str, n: u64| written(&text.replace('N', &n.to_string()));
    prop_oneof![
        number.clone().prop_map(Field::Fixed),
        (0..=most).prop_map(move |n| per("{ list: [N, 0, 1] }", n)),
        (0..=most).prop_map(move |n| per("{ increment: N, step: 3, count: 7 }", n)),
        (0..=most).prop_map(move |n| per("{ decrement: N, per: sub-flow }", n)),
        (0..=most).prop_map(move |n| per("{ random: [0, N], mask: 1 }", n)),
    ]
}

fn headers() -> impl Strategy<Value = Vec<Header>> {
    let mac =
        any::<Option<[u8; 6]>>().prop_map(|mac| mac.map(|mac| Field::Fixed(Mac(MacAddr(mac)))));
    let ethernet = (mac.clone(), mac).prop_map(|(source, destination)| {
        Header::Ethernet(Ethernet { source, destination, ether_type: None })
    });
    let vlan = (fields(12), fields(3))
        .prop_map(|(id, priority)| Header::Vlan(Vlan { id, priority, ..Vlan::default() }));
    let dscp =
        || prop::option::of((0..64_u8).prop_map(|dscp| Field::Fixed(Dscp::new(dscp).unwrap())));
    let v4 = (any::<Option<[u8; 4]>>(), 1..=255_u64, dscp(), prop::option::of(fields(16)));
    let v4 = v4.prop_map(|(source, ttl, dscp, id)| {
        let identification = id.map_or(Identification::Count, Identification::Field);
        let source = source.map(|source| Field::Fixed(source.into()));
        let ttl = Field::Fixed(Number::new(ttl));
        Header::Ipv4(Ipv4 { source, ttl, dscp, identification, ..Ipv4::default() })
    });
    let v6 = (any::<Option<[u8; 16]>>(), 1..=255_u64, dscp(), fields(20));
    let v6 = v6.prop_map(|(destination, hop_limit, dscp, flow_label)| {
        let destination = destination.map(|destination| Field::Fixed(destination.into()));
        let hop_limit = Field::Fixed(Number::new(hop_limit));
        Header::Ipv6(Ipv6 { destination, hop_limit, dscp, flow_label, ..Ipv6::default() })
    });
    let udp = (prop::option::of(fields(16)), 1..=65535_u64).prop_map(|(source, destination)| {
        let destination = Some(Field::Fixed(Number::new(destination)));
        Header::Udp(Udp { source, destination, ..Udp::default() })
    });
    let others = one_of(&[
        "tcp: { destination: 80, flags: syn+ack, checksum: wrong }",
        "icmp: { type: time-exceeded, code: 1 }",
        "icmpv6: { sequence: { increment: 0 } }",
        "igmp: { group: 224.1.2.3, type: 17 }",
        "sctp: { tsn: { increment: 5 }, checksum: 0xffffffff }",
        "dccp: { sequence: 281474976710655, type: 1 }",
        "gre: { key: 7, checksum: on, protocol: 0x88be }",
    ]);
    let payload = prop_oneof![
        Just(Payload::Zeros),
        Just(Payload::Random),
        "([0-9a-f]{2}){1,20}".prop_map(|hex| Payload::Pattern(hex.parse().unwrap())),
        any::<String>().prop_map(Payload::Text),
    ];
    let outer = (prop::option::of(ethernet), prop::collection::vec(vlan, 0..3));
    let inner = (prop_oneof![v4, v6], prop_oneof![2 => udp, 1 => others]);
    (outer, inner, prop::option::of(payload)).prop_map(
        |((ethernet, vlans), (network, transport), payload)| {
            let (inner, payload) = ([network, transport], payload.map(Header::Payload));
            ethernet.into_iter().chain(vlans).chain(inner).chain(payload).collect()
        },
    )
}

fn sizes() -> impl Strategy<Value = Size> {
    prop_oneof![
        (160..=9018_u16).prop_map(|len| Size::frame(FrameLen::with_fcs(len))),
        one_of(&[
            "imix",
            "1000B@payload",
            "{ mix: { 200B: 7, 570B@payload: 0, 1518B: 1 } }",
            "{ list: [200B, 570B@payload] }",
            "{ uniform: { min: 200B, max: 300B } }",
            "{ normal: { mean: 500B, deviation: 20% }, min: 200B, max: 1kB, of: payload }",
            "{ file: sizes.txt }",
            "{ capture: x.pcapng }",
        ]),
    ]
}

fn departures() -> impl Strategy<Value = Departures> {
    one_of(&[
        "constant",
        "exponential",
        "{ gamma: { shape: 2 }, max: 1s }",
        "{ pareto: { shape: 1.5, scale: 10us } }",
        "{ jitter: 25% }",
        "{ jitter: 2us }",
        "{ trace: x.txt }",
        "{ on-off: { on: 1s, off: { exponential: { mean: 2s } } } }",
        "{ on-off: { on: 1s, every: 2s, departures: { on-off: { on: 1ms, off: 1ms, departures: exponential } } } }",
    ])
}

fn flow_rates() -> impl Strategy<Value = FlowRate> {
    one_of(&[
        "{ steps: { 0s: 1kpps, 10s: 50% }, every: 1m }",
        "{ ramp: { from: 1kpps, to: 1Mbps@line, over: 10s } }",
        "{ sine: { mean: 10kpps, amplitude: 5kpps, period: 10s } }",
    ])
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let rate = prop_oneof![
        (1..u64::MAX).prop_map(|frames| FrameRate { frames, per: Nanos::from_secs(1) }),
        (1..u64::MAX, 1..u64::MAX)
            .prop_map(|(frames, per)| FrameRate { frames, per: Nanos::new(per) }),
    ];
    let rate = prop_oneof![
        rate.prop_map(Rate::Frames),
        (1..u64::MAX).prop_map(|bits| Rate::Bits(BitRate(bits), Layer::Line)),
        (1..=1_000_000_u32).prop_map(Rate::LinkShare),
    ];
    let rate = prop_oneof![4 => rate.prop_map(FlowRate::Fixed), 1 => flow_rates()];
    let start = (0..u64::MAX / 2).prop_map(Nanos::new);
    let (size, pace) = (prop::option::of(sizes()), (rate, departures()));
    let flow = (headers(), size, pace, any::<NonZeroU32>(), start, any::<Option<NonZeroU64>>());
    let flow = flow.prop_map(|(packet, size, (rate, departures), burst, start, count)| {
        let begun = start.saturating_add(Nanos::from_secs(1));
        let change = written("{ rate: 1kpps, size: 1000B }");
        let at = if count.is_some() { vec![(begun, Change::Pause)] } else { vec![(begun, change)] };
        let from_file = departures.file().is_some();
        FlowSpec {
            to: Some("b".to_owned()),
            stop: count.map(|_| Nanos::MAX),
            probe: match count {
                Some(_) if is_datagram(&packet) => written("{ codec: rude, flow: 7 }"),
                _ => Probe::Auto,
            },
            size: if from_file { None } else { size },
            sub_flows: packet
                .iter()
                .any(Header::has_sub_flows)
                .then(|| written("{ count: 100, length: 5, order: random }")),
            bytes: from_file.then(|| wirebeat_units::Bytes::new(u64::from(burst.get()))),
            at: if from_file { Default::default() } else { at.into_iter().collect() },
            packet: packet.into(),
            ..FlowSpec { rate, departures, burst, start, count, ..FlowSpec::from_port("a") }
        }
    });
    (any::<u64>(), names(), prop::collection::vec((names(), flow), 0..4)).prop_map(
        |(seed, interface, flows)| {
            let a = PortSpec { interface: Some(interface), ..PortSpec::default() };
            let ports = [("a".to_owned(), a), ("b".to_owned(), PortSpec::default())];
            let (ports, flows) = (ports.into_iter().collect(), flows.into_iter().collect());
            Scenario { seed, ports, flows, ..Scenario::default() }
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_scenario_survives_writing_and_reading(scenario in scenarios()) {
        let yaml = scenario.to_yaml().unwrap();
        prop_assert_eq!(Scenario::from_yaml(&yaml, &yaml).unwrap(), scenario);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = Scenario::from_yaml(&text, "f.yaml").map_err(|error| error.to_string());
    }

    #[test]
    fn any_near_scenario_is_read_or_refused(text in near_scenarios()) {
        if let Ok(scenario) = Scenario::from_yaml(&text, "f.yaml") {
            let again = Scenario::from_yaml(&scenario.to_yaml().unwrap(), "again").unwrap();
            prop_assert_eq!(again, scenario);
        }
    }

    #[test]
    fn a_scenario_with_one_wrong_byte_is_read_or_refused(at in 0..400_usize, byte: u8) {
        let mut text = flow(
            "    rate: 1kpps\n    packet:\n      - ethernet: { source: 02:00:00:00:00:01 }\n      \
             - ipv4: { source: 10.0.0.1, dscp: ef, identification: count }\n      - udp: {}\n      \
             - payload: { pattern: 00ff }\n    size: 128B\n    start: 1ms\n",
        )
        .into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let _ = Scenario::from_yaml(&String::from_utf8_lossy(&text), "f.yaml");
    }
}
