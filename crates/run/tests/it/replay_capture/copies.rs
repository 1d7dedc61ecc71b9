//! Captures as templates: copies of what is in them, each between other ends, packet by packet.

use std::net::IpAddr;

use wirebeat_testbed::Testbed;
use wirebeat_wire::locate::locate;
use wirebeat_wire::rewrite::Ends;

use super::*;
use crate::world::{Engine, ports};

/// A query and its response, and another query: 3 ms and 2 ms apart.
fn names(is_v6: bool) -> Vec<Timed> {
    vec![
        (0, udp(is_v6, [1, 2], [5000, 53], 40)),
        (3_000_000, udp(is_v6, [2, 1], [53, 5000], 200)),
        (5_000_000, udp(is_v6, [1, 2], [5000, 53], 20)),
    ]
}

/// A connection: handshake, and a packet of the client.
fn page() -> Vec<Timed> {
    vec![
        (0, tcp(false, [1, 2], [6000, 80], 0x02)),
        (1_000_000, tcp(false, [2, 1], [80, 6000], 0x12)),
        (2_000_000, tcp(false, [1, 2], [6000, 80], 0x10)),
    ]
}

/// When, from whom and to whom: `10.0.0.1:1024 > 10.9.0.1:53`.
fn tuples(frames: &[Timed]) -> Vec<(u64, String)> {
    let shown = |(at, frame): &Timed| {
        let located = locate(frame).unwrap();
        let Ends { addresses, ports } = Ends::of(frame, &located).unwrap();
        let end = |n: usize| format!("{}:{}", addresses[n].unwrap(), ports[n].unwrap());
        (*at, format!("{} > {}", end(0), end(1)))
    };
    frames.iter().map(shown).collect()
}

fn at_us(all: &[(u64, &str)]) -> Vec<(u64, String)> {
    all.iter().map(|(us, tuple)| (us * 1000, (*tuple).to_owned())).collect()
}

/// That the checksums of a packet of IP and UDP or TCP are right.
fn is_right(frame: &[u8]) -> bool {
    let located = locate(frame).unwrap();
    let at = located.carried.transport().unwrap();
    let addresses = match frame[12] {
        0x08 => &frame[located.at + 12..located.at + 20],
        _ => &frame[located.at + 8..located.at + 40],
    };
    // shorter packets are padded on the line, and theirs is the length of IP
    let transport = match frame[12] {
        0x08 => usize::from(u16::from_be_bytes([frame[16], frame[17]])) - 20,
        _ => usize::from(u16::from_be_bytes([frame[18], frame[19]])),
    };
    let numbers = (u64::from(located.protocol.0) + transport as u64).to_be_bytes();
    let sum = wirebeat_wire::checksum::Sum::ZERO
        .add_bytes(&[addresses, &numbers, &frame[at..at + transport]].concat());
    sum.checksum() == 0 || sum.checksum() == 0xffff
}

const POOLS: &str =
    "clients: { addresses: 10.0.0.1-10.0.0.2 }, servers: { addresses: 10.9.0.1-10.9.0.3 }";

#[test]
fn copies_overlap_at_the_times_of_the_capture_each_between_its_own_ends() {
    let path = written("names.pcap", &pcap(&names(false)));
    let sent = sent("names", &path, &format!(", copies: {{ rate: 250/s, count: 3, {POOLS} }}"));
    assert_eq!(
        tuples(&sent),
        at_us(&[
            (0, "10.0.0.1:1024 > 10.9.0.1:53"),
            (3_000, "10.9.0.1:53 > 10.0.0.1:1024"),
            (4_000, "10.0.0.2:1024 > 10.9.0.2:53"),
            (5_000, "10.0.0.1:1024 > 10.9.0.1:53"),
            (7_000, "10.9.0.2:53 > 10.0.0.2:1024"),
            (8_000, "10.0.0.1:1025 > 10.9.0.3:53"),
            (9_000, "10.0.0.2:1024 > 10.9.0.2:53"),
            (11_000, "10.9.0.3:53 > 10.0.0.1:1025"),
            (13_000, "10.0.0.1:1025 > 10.9.0.3:53"),
        ])
    );
    assert!(sent.iter().all(|(_, frame)| is_right(frame)));
    // all but addresses, ports and checksums is as it was
    let captured = names(false);
    for (n, packet) in [(0, 0), (1, 1), (8, 2)] {
        let (got, was): (&Vec<u8>, &Vec<u8>) = (&sent[n].1, &captured[packet].1);
        assert_eq!((got.len(), &got[42..]), (was.len().max(60), &was[42..]));
        assert_eq!(got[..24], was[..24]);
    }
}

#[test]
fn connections_and_ipv6_have_right_checksums_too() {
    let page = written("page.pcap", &pcap(&page()));
    let keys = format!(", copies: {{ rate: 1000/s, count: 2, {POOLS} }}");
    let frames = sent("page", &page, &keys);
    // due together are the second packet of the first copy and the first of the second
    let shown: Vec<String> = tuples(&frames).into_iter().map(|it| it.1).collect();
    assert_eq!(shown[1..3], ["10.0.0.2:1024 > 10.9.0.2:80", "10.9.0.1:80 > 10.0.0.1:1024"]);
    assert!(frames.len() == 6 && frames.iter().all(|(_, frame)| is_right(frame)));
    let names = written("names-v6.pcap", &pcap(&names(true)));
    let v6 = ", copies: { rate: 100/s, count: 2, clients: { addresses: 'fd07::/64' }, servers: { addresses: 'fd08::9' } }";
    let frames = sent("names-v6", &names, v6);
    assert_eq!(
        tuples(&frames).into_iter().map(|it| it.1).collect::<Vec<_>>(),
        [
            "fd07::1:1024 > fd08::9:53",
            "fd08::9:53 > fd07::1:1024",
            "fd07::1:1024 > fd08::9:53",
            "fd07::2:1024 > fd08::9:53",
            "fd08::9:53 > fd07::2:1024",
            "fd07::2:1024 > fd08::9:53",
        ]
    );
    assert!(frames.iter().all(|(_, frame)| is_right(frame)));
}

#[test]
fn times_are_those_that_are_written() {
    let path = written("times.pcap", &pcap(&names(false)));
    let times = |keys: &str, copies: &str| {
        let keys = format!("{keys}, copies: {{ rate: 1/s, count: 1{copies} }}");
        sent("times", &path, &keys).into_iter().map(|it| it.0 / 1000).collect::<Vec<_>>()
    };
    assert_eq!(times("", ""), [0, 3_000, 5_000]);
    assert_eq!(times("", ", turnaround: 10ms"), [0, 10_000, 20_000]);
    assert_eq!(times("", ", gap: 10ms"), [0, 3_000, 5_000], "no end sends twice");
    assert_eq!(times("", ", min-gap: 2500us"), [0, 3_000, 5_500]);
    assert_eq!(times(", speed: 2x", ""), [0, 1_500, 2_500]);
    assert_eq!(times(", max-gap: 1ms", ""), [0, 1_000, 2_000]);
    let both = written(
        "gaps.pcap",
        &pcap(&[
            (0, udp(false, [1, 2], [5000, 53], 40)),
            (1, udp(false, [1, 2], [5000, 53], 40)),
            (2, udp(false, [2, 1], [53, 5000], 40)),
            (9, udp(false, [2, 1], [53, 5000], 40)),
            (10, udp(false, [1, 2], [5000, 53], 40)),
        ]),
    );
    let written =
        sent("gaps", &both, ", copies: { rate: 1/s, count: 1, gap: 10us, turnaround: 1ms }");
    let us: Vec<u64> = written.iter().map(|it| it.0 / 1000).collect();
    assert_eq!(us, [0, 10, 1_010, 1_020, 2_020]);
}

#[test]
fn copies_go_on_to_their_end_unless_the_run_is_over() {
    let path = written("stops.pcap", &pcap(&names(false)));
    let run_of = |keys: &str, run_keys: &str| {
        let out = file("stops-out.pcapng");
        let text = format!(
            "ports: {{ a: {{ engine: pcap, file: '{}' }} }}\nflows: {{ x: {{ from: a, {keys}, replay: {{ capture: '{}', copies: {{ rate: 1000/s, {POOLS} }} }} }} }}\n{run_keys}",
            out.display(),
            path.display()
        );
        let report = run(&text, None);
        balanced(&report);
        (read(&out).len(), report.replays[0].copies.unwrap(), report.replays[0].records)
    };
    assert_eq!(run_of("stop: 10ms", ""), (30, 10, 30));
    assert_eq!(run_of("start: 1s, stop: 1010ms", ""), (30, 10, 30));
    // those of the first 7 ms have three packets by then, the others begin
    assert_eq!(run_of("stop: 10ms", "run: { time: 10ms }\n"), (10 + 7 + 5, 10, 22));
    assert_eq!(run_of("count: 5", "run: { time: 10ms }\n").0, 5);
}

#[test]
fn conversations_of_one_client_stay_together_whoever_opens_them() {
    // the server opens a second one to the client, and a third host takes part
    let frames = vec![
        (0, tcp(false, [1, 2], [6000, 21], 0x02)),
        (1_000, tcp(false, [2, 1], [21, 6000], 0x12)),
        (2_000, tcp(false, [2, 1], [20, 6001], 0x02)),
        (3_000, tcp(false, [1, 2], [6001, 20], 0x12)),
        (4_000, udp(false, [1, 3], [6000, 53], 40)),
        (5_000, icmp(false, [1, 2])),
    ];
    let path = written("together.pcap", &pcap(&frames));
    let of = |side: &str| {
        let keys = format!(", side: {side}, copies: {{ rate: 100/s, count: 2, {POOLS} }}");
        sent(&format!("together-{side}"), &path, &keys)
    };
    let (client, server) = (of("client"), of("server"));
    assert_eq!((client.len(), server.len()), (8, 4));
    let frames: Vec<Timed> = client.into_iter().filter(|it| it.1[23] != 1).collect();
    let shown: Vec<String> = tuples(&frames).into_iter().map(|it| it.1).collect();
    assert_eq!(
        shown,
        [
            "10.0.0.1:1024 > 10.9.0.1:21",
            "10.0.0.1:1025 > 10.9.0.1:20",
            "10.0.0.1:1024 > 10.9.0.1:53",
            "10.0.0.2:1024 > 10.9.0.2:21",
            "10.0.0.2:1025 > 10.9.0.2:20",
            "10.0.0.2:1024 > 10.9.0.2:53",
        ]
    );
    let shown: Vec<String> = tuples(&server).into_iter().map(|it| it.1).collect();
    assert_eq!(shown[..2], ["10.9.0.1:21 > 10.0.0.1:1024", "10.9.0.1:20 > 10.0.0.1:1025"]);
}

#[test]
fn ports_and_addresses_of_the_capture_stay_where_nothing_else_is_written() {
    let path = written("keep.pcap", &pcap(&names(false)));
    let shown = |copies: &str| {
        let keys = format!(", side: client, copies: {{ rate: 100/s, count: 2, {copies} }}");
        tuples(&sent("keep", &path, &keys)).into_iter().map(|it| it.1).collect::<Vec<_>>()
    };
    assert_eq!(
        shown("keep-ports: true, clients: { addresses: 10.0.0.1-10.0.0.9 }")[0],
        "10.0.0.1:5000 > 10.1.0.2:53"
    );
    assert_eq!(shown("clients: { ports: 7-8 }")[2], "10.1.0.1:8 > 10.1.0.2:53");
    // a group is no server
    let mut query = udp(false, [1, 2], [5000, 53], 40);
    query[30] = 224;
    let path = written("group.pcap", &pcap(&[(0, query)]));
    let frames = sent("group", &path, &format!(", copies: {{ count: 1, {POOLS} }}"));
    assert_eq!(tuples(&frames)[0].1, "10.0.0.1:1024 > 224.1.0.2:53");
}

/// Two templates in both directions; what each port received is what the other sent.
fn received(engine: Engine) {
    let names = written("both-names.pcap", &pcap(&names(false)));
    let page = written("both-page.pcap", &pcap(&page()));
    let bed: Option<Testbed> = (engine != Engine::Loopback).then(cable);
    let flow = |name: &str, path: &Path, side: &str, ends: [&str; 2]| {
        format!(
            "  {name}-{side}: {{ from: {}, to: {}, stop: 200ms, replay: {{ capture: '{}', side: {side}, copies: {{ rate: 500/s, departures: exponential, {POOLS} }} }} }}\n",
            ends[0],
            ends[1],
            path.display()
        )
    };
    let flows: String = [("names", &names), ("page", &page)]
        .into_iter()
        .flat_map(|(name, path)| {
            [flow(name, path, "client", ["a", "b"]), flow(name, path, "server", ["b", "a"])]
        })
        .collect();
    let report = run(&format!("{}flows:\n{flows}", ports(engine, "")), bed.as_ref());
    balanced(&report);
    assert_eq!(report.flows.len(), 4);
    let copies: Vec<u64> = report.replays.iter().map(|it| it.copies.unwrap()).collect();
    assert_eq!((copies[0], copies[2]), (copies[1], copies[3]), "{engine:?}: both sides are one");
    assert!((60..160).contains(&copies[0]) && copies[0] != 100, "{engine:?}: {copies:?}");
    for (flow, packets) in report.flows.iter().zip([2, 1, 2, 1]) {
        let replay = report.replays.iter().find(|it| it.flow == flow.name).unwrap();
        let frames = replay.copies.unwrap() * packets;
        assert_eq!(flow.not_measured, None, "{engine:?} {}", flow.name);
        assert_eq!(flow.sent.as_ref().unwrap().sent.frames, frames, "{engine:?}");
        assert_eq!(flow.received.as_ref().unwrap().received.frames, frames, "{engine:?}");
        assert_eq!(flow.loss.unwrap().frames, 0, "{engine:?}");
    }
}

#[test]
fn both_ends_count_what_the_other_sends() {
    received(Engine::Loopback);
    require!(Capability::NetworkNamespaces);
    received(Engine::Packet);
}

#[test]
fn both_ends_count_what_the_other_sends_by_the_kernel() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    received(Engine::Kernel);
}

/// What others see of it: tuples in the order of their times, on a cable. Times are far apart, for machines that are busy.
#[test]
fn an_observer_sees_conversations() {
    require!(Capability::NetworkNamespaces, Capability::Program("tcpdump"));
    let path = written("observed.pcap", &pcap(&names(false)));
    let bed = cable();
    // frames that a port sends itself are not seen there
    let ends = [(&bed.a, "wb0"), (&bed.b, "wb1")];
    let captures = ends.map(|(end, interface)| {
        let out = file(&format!("observed-{interface}.pcap"));
        let capture = Program::new(&end.namespace, "tcpdump")
            .args(["-i", interface, "-Q", "in", "--immediate-mode", "-U", "-n", "-w"])
            .args([out.to_str().unwrap(), "udp port 53"])
            .spawn()
            .unwrap();
        capture.wait_for("listening on", Duration::from_secs(30)).unwrap();
        (capture, out)
    });
    thread::sleep(Duration::from_millis(300));
    let flow = |port: &str, side: &str| {
        format!(
            "{{ from: {port}, stop: 800ms, replay: {{ capture: '{}', side: {side}, speed: 0.05x, copies: {{ rate: 12.5/s, {POOLS} }} }} }}",
            path.display()
        )
    };
    let text = format!(
        "ports:\n  a: {{ interface: wb0, namespace: a, engine: packet }}\n  b: {{ interface: wb1, namespace: b, engine: packet }}\nflows:\n  clients: {}\n  servers: {}\nrun: {{ wait: spin }}\n",
        flow("a", "client"),
        flow("b", "server")
    );
    let report = run(&text, Some(&bed));
    thread::sleep(Duration::from_millis(500));
    let mut seen = Vec::new();
    for (capture, out) in captures {
        capture.interrupt();
        let _ = capture.wait(Duration::from_secs(10));
        seen.extend(read(&out));
    }
    balanced(&report);
    seen.sort_by_key(|frame| frame.0);
    let seen = from_first(seen);
    assert_eq!(seen.len(), 30);
    assert!(seen.iter().all(|(_, frame)| is_right(frame)));
    let all: Vec<(u64, String)> = tuples(&seen);
    for n in 0..10_u64 {
        let (client, port) = (1 + n % 2, 1024 + n / 2);
        let end = format!("10.0.0.{client}:{port}");
        let mine: Vec<_> = all.iter().filter(|it| it.1.contains(&end)).collect();
        let server = format!("10.9.0.{}:53", 1 + n % 3);
        let (asks, answers) = (format!("{end} > {server}"), format!("{server} > {end}"));
        assert_eq!(mine.iter().map(|it| &it.1).collect::<Vec<_>>(), [&asks, &answers, &asks]);
        // with what a loaded machine is late by
        for (seen, planned) in mine.iter().zip([0, 60_000, 100_000]) {
            let planned = i128::from(n * 80_000 + planned) * 1000;
            let late = i128::from(seen.0) - planned;
            assert!((-30_000_000..30_000_000).contains(&late), "copy {n}: {late} ns late");
        }
    }
}

#[test]
fn what_has_no_copies_is_told_or_left_out() {
    let names = names(false);
    let copies = format!("copies: {{ rate: 100/s, count: 1, {POOLS} }}");
    // one side alone
    let one = written("one-side.pcap", &pcap(&names[..1]));
    assert_eq!(sent("one-side", &one, &format!(", side: client, {copies}")).len(), 1);
    let why = refused(&one, &format!(", side: server, {copies}"));
    assert!(why.contains("nothing to send") && why.contains("server"), "{why}");
    // ARP has no addresses to copy
    let mixed = written("mixed-arp.pcap", &pcap(&[vec![(0, arp(1, 2))], names.clone()].concat()));
    let why = refused(&mixed, &format!(", {copies}"));
    assert!(
        why.contains("frame 1 at byte 24: copies have addresses of IP, and this frame has none; leave it out with a 'filter'"),
        "{why}"
    );
    assert_eq!(sent("mixed-arp", &mixed, &format!(", filter: ip, {copies}")).len(), 3);
    let (report, frames) = replayed("mixed-skip", &mixed, &format!(", on-bad: skip, {copies}"));
    assert_eq!(frames.len(), 3);
    let left_out = &report.replays[0].left_out[0];
    assert_eq!((left_out.kind.as_str(), left_out.count), ("not of IP", 1));
    // frames cut short are padded to their length, or left out
    let cut: Vec<Timed> = names.iter().map(|(at, frame)| (*at, frame[..50].to_vec())).collect();
    let cut = written("cut-copies.pcap", &pcap_of(1, 30, &cut));
    let padded = sent("cut-copies", &cut, &format!(", {copies}"));
    assert!(
        padded.iter().all(|(_, frame)| frame.len() == 80 && frame[50..].iter().all(|b| *b == 0))
    );
    assert_eq!(tuples(&padded)[0].1, "10.0.0.1:1024 > 10.9.0.1:53");
    let why = refused(&cut, &format!(", truncated: skip, {copies}"));
    assert!(why.contains("all of it was left out (3 cut short in the capture"), "{why}");
    // garbage behind good frames
    let mut broken = pcap(&names);
    broken.extend([0xff; 100]);
    let broken = written("broken-copies.pcap", &broken);
    let why = refused(&broken, &format!(", {copies}"));
    assert!(why.contains("broken-copies.pcap"), "{why}");
    assert_eq!(replayed("broken-copies", &broken, &format!(", on-bad: skip, {copies}")).1.len(), 3);
    for garbage in [&b""[..], &[0x5a; 1000], b"flows: {}"] {
        let path = written("garbage-copies.pcap", garbage);
        let why = refused(&path, &format!(", {copies}"));
        assert!(why.contains("garbage-copies"), "{why}");
    }
}

#[test]
fn what_cannot_be_told_apart_is_refused_with_the_remedy() {
    let path = written("apart-copies.pcap", &pcap(&names(false)));
    for (copies, words) in [
        (
            "rate: 1000/s, clients: { addresses: 10.0.0.1, ports: 7-8 }",
            "there are addresses and ports for 2 copies, and the next one begins 2.00 ms after the first, which lasts 5.00 ms; \
             write more addresses or ports in 'clients', or lower the 'rate'",
        ),
        ("rate: 1000/s, tuples: 4", "for 4 copies"),
        ("rate: 1/s, clients: { addresses: 'fd00::1' }", "write pools of its version of IP"),
        ("count: 1, servers: { addresses: 'fd00::1' }", "write pools of its version of IP"),
        (
            "rate: 1e12/s, clients: { addresses: 10.0.0.0/8 }, servers: { addresses: 11.0.0.0/8 }",
            "1e12",
        ),
    ] {
        let text = format!(
            "ports: {{ a: {{ engine: pcap, file: '{}' }} }}\nflows: {{ x: {} }}\n",
            file("apart-out").display(),
            flow(&path, "a", &format!(", copies: {{ {copies} }}"))
        );
        let why = match Scenario::from_yaml(&text, "test") {
            Err(error) => error.to_string(),
            Ok(_) => refused(&path, &format!(", copies: {{ {copies} }}")),
        };
        assert!(why.contains(words), "{copies}: {why}");
    }
    // as often as they may
    assert_eq!(
        sent("apart-copies", &path, ", copies: { rate: 200/s, count: 9, tuples: 1 }").len(),
        27
    );
    let two = [(0, udp(false, [1, 2], [5000, 53], 40)), (1, udp(false, [1, 2], [5001, 53], 40))];
    let path = written("two-ports.pcap", &pcap(&two));
    let why = refused(&path, ", copies: { rate: 1/s, clients: { ports: 9 } }");
    assert!(
        why.contains("more ports in the capture than the 1 of 'clients'; write more ports"),
        "{why}"
    );
}

/// Ten thousand conversations in one template, and copies of it that all overlap.
#[test]
fn a_template_may_have_ten_thousand_conversations() {
    let frames: Vec<Timed> = (0..10_000_u64)
        .flat_map(|n| {
            let port = 1024 + n as u16;
            [
                (n * 1000, udp(false, [1, 2], [port, 53], 20)),
                (n * 1000 + 500, udp(false, [2, 1], [53, port], 20)),
            ]
        })
        .collect();
    let path = written("ten-thousand.pcap", &pcap(&frames));
    let keys = ", copies: { rate: 1000/s, count: 7, clients: { addresses: 10.0.0.1-10.0.0.4, ports: 2000-22000 } }";
    let sent = sent("ten-thousand", &path, keys);
    assert_eq!(sent.len(), 140_000);
    assert!(sent.is_sorted_by_key(|it| it.0));
    let ends: std::collections::HashSet<String> =
        tuples(&sent).into_iter().map(|it| it.1).collect();
    assert_eq!(ends.len(), 140_000, "each conversation of each copy is another one");
}

/// Millions of copies that are under way at a time take 8 bytes each and no time to find.
#[test]
fn a_million_copies_may_be_under_way() {
    let far = [
        (0, udp(false, [1, 2], [5000, 53], 20)),
        (2_000_000_000, udp(false, [2, 1], [53, 5000], 20)),
    ];
    let path = written("a-million.pcap", &pcap(&far));
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nflows: {{ x: {{ from: a, to: b, replay: {{ capture: '{}', side: server, copies: {{ rate: 1000000/s, count: 1000000, clients: {{ addresses: 10.0.0.0/8 }} }} }} }} }}\n",
        path.display()
    );
    let report = run(&text, None);
    balanced(&report);
    assert_eq!(report.replays[0].copies, Some(1_000_000));
    assert_eq!(report.flows[0].sent.as_ref().unwrap().sent.frames, 1_000_000);
}

/// The frames of the example's first 10 ms, client and server, against a capture that a person looked at.
#[test]
fn the_example_sends_what_was_looked_at() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(root.join("../../examples/templates.yaml")).unwrap();
    let (client, server) = (file("example-client.pcapng"), file("example-server.pcapng"));
    let example = example
        .replace(
            "{ interface: ${a} }",
            &format!("{{ engine: pcap, file: '{}' }}", client.display()),
        )
        .replace(
            "{ interface: ${b} }",
            &format!("{{ engine: pcap, file: '{}' }}", server.display()),
        )
        .replace("stop: 5s", "stop: 10ms")
        // a file receives nothing
        .replace("    to: a\n", "")
        .replace("    to: b\n", "");
    let scenario = Scenario::from_yaml(&example, "templates").unwrap_or_else(|why| panic!("{why}"));
    let options = Options { directory: Some(root.join("../../examples")), ..Options::default() };
    let prepared = prepare(&scenario, options).unwrap_or_else(|why| panic!("{why}"));
    balanced(&prepared.start(&mut wirebeat_run::Silent, &wirebeat_run::Stop::new()));
    let frames = [read(&client), read(&server)];
    let golden = root.join("tests/golden");
    for (frames, name) in frames.iter().zip(["templates-client.pcap", "templates-server.pcap"]) {
        let begin = frames.first().map_or(0, |it| it.0);
        let text =
            pcap(&frames.iter().map(|(at, frame)| (at - begin, frame.clone())).collect::<Vec<_>>());
        let path = golden.join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(&golden).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read(&path).unwrap_or_default();
        assert!(
            text == expected,
            "{} differs; look at it with UPDATE_GOLDEN=1 and tcpdump -r",
            path.display()
        );
    }
    let addresses: Vec<IpAddr> = frames[0]
        .iter()
        .map(|(_, frame)| Ends::of(frame, &locate(frame).unwrap()).unwrap().addresses[0].unwrap())
        .collect();
    assert!(addresses.iter().all(|ip| ip.to_string().starts_with("198.18.0.")), "{addresses:?}");
}
