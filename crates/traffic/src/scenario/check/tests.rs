//! What the checks say.

use super::*;

fn why(text: &str) -> String {
    Scenario::from_yaml(text, "f").expect_err(text).to_string()
}

/// What is said of a flow with these keys, from port `a` to port `b`.
fn of_flow(keys: &str) -> String {
    let text =
        format!("ports: {{ a: {{}}, b: {{}} }}\nflows:\n  x: {{ from: a, to: b, {keys} }}\n");
    let why = why(&text);
    why.strip_prefix("f:3:").and_then(|why| why.split_once(": ")).unwrap().1.to_owned()
}

fn of_port(keys: &str) -> String {
    why(&format!("ports: {{ a: {{ {keys} }} }}\nflows: {{}}\n"))
}

#[test]
fn packets_that_cannot_be() {
    for (keys, expected) in [
        ("packet: []", "flows.x.packet: a packet needs a header; add '- ipv4: {}' and '- udp: {}'"),
        (
            "packet: [ { udp: {} } ]",
            "flows.x.packet[0].udp: udp cannot begin a packet: it is carried by another header; \
             write that one before it",
        ),
        (
            "packet: [ { ipv4: {} }, { vlan: {} } ]",
            "flows.x.packet[1].vlan: vlan cannot follow ipv4; a packet is written from the outside \
             in, for example ipv4, udp, payload",
        ),
        (
            "packet: [ { ipv4: {} }, { payload: zeros }, { udp: {} } ]",
            "flows.x.packet[2].udp: nothing follows the payload; a packet is written from the \
             outside in",
        ),
        (
            "packet: [ { frame: { hex: 000000000000000000000000ffff } }, { ipv4: {} } ]",
            "flows.x.packet[1].ipv4: a whole frame stands alone; write headers or a frame",
        ),
        (
            "packet: [ { frame: { hex: 00 } } ]",
            "flows.x.packet[0].frame.hex: a frame begins with an Ethernet header of 14 bytes, and \
             this is 1 long",
        ),
        (
            "packet: [ { frame: { capture: { file: x } } } ], size: 64B",
            "flows.x.size: a whole frame has its length; leave 'size' out",
        ),
        (
            "packet: [ { ipv4: {} }, { ipv4: { source: 10.0.0.1 } } ]",
            "flows.x.packet[1].ipv4.destination: the ends of a tunnelled packet are not known; \
             write its addresses",
        ),
        (
            "packet: [ { ipv6: {} }, { udp: { checksum: off } } ]",
            "flows.x.packet[1].udp.checksum: UDP over IPv6 needs its checksum (RFC 8200 §8.1); \
             remove 'checksum', or use IPv4, or write the number that is to stand there",
        ),
        (
            "packet: [ { ipv4: { ttl: 0 } }, { udp: {} } ]",
            "flows.x.packet[0].ipv4.ttl: a packet with TTL 0 may not be sent (RFC 1122 §3.2.1.7)",
        ),
        (
            "packet: [ { ipv4: { dscp: ef, tos: 3 } }, { udp: {} } ]",
            "flows.x.packet[0].ipv4.tos: the ToS byte holds DSCP and ECN; give it or them, not both",
        ),
        (
            "packet: [ { ipv6: { flow-label: 1048576 } }, { udp: {} } ]",
            "flows.x.packet[0].ipv6.flow-label: this field has 20 bits, so at most 1048575",
        ),
        (
            "packet: [ { ipv4: {} }, { udp: { source: { random: [9, 8] } } } ]",
            "flows.x.packet[1].udp.source: the range ends before it begins; write the smaller \
             value first",
        ),
        (
            "packet: [ { ipv4: {} }, { udp: { destination: 0 } } ]",
            "flows.x.packet[1].udp.destination: port 0 is reserved; give a port from 1 on",
        ),
        (
            "packet: [ { ipv4: {} }, { udp: { source: { random: [1, 9], per: sub-flow } } } ]",
            "flows.x.packet[1].udp: a pattern advances with sub-flows, and there are none; give the \
             flow 'sub-flows', or leave 'per' out",
        ),
        (
            "sub-flows: { count: 5 }",
            "flows.x.sub-flows: sub-flows differ in the fields that advance with them, and there are \
             none; give a pattern 'per: sub-flow'",
        ),
        (
            "sub-flows: { count: 5, order: one-by-one }",
            "flows.x.sub-flows: one by one, a sub-flow ends before the next begins: give it a \
             'length'",
        ),
        (
            "size: { normal: { mean: 500B, deviation: 10% }, min: 400B, max: 300B }",
            "flows.x.size: 'min' is 400B and 'max' is 300B; exchange them",
        ),
        ("size: { mix: { 64B: 0 } }", "flows.x.size: a mix has at least one length with a weight"),
        (
            "probe: mgen, packet: [ { ipv4: {} }, { tcp: {} } ]",
            "flows.x.probe: a probe of mgen is found behind UDP over IP, and in no tunnel; leave \
             'probe' out for Wirebeat's own",
        ),
        (
            "departures: { trace: x.txt }, size: 64B",
            "flows.x.size: the file of 'departures' says how long frames are; leave 'size' out",
        ),
        (
            "rate: { steps: { 1s: 5pps } }",
            "flows.x.rate: the first step is at 1s; say what holds from 0s on",
        ),
        (
            "rate: { ramp: { from: 1pps, to: unlimited, over: 1s } }",
            "flows.x.rate: a rate that changes with time has a limit; write it",
        ),
        (
            "departures: { on-off: { on: 1s } }, rate: 1pps",
            "flows.x.departures: bursts have a pause after them: give 'off', or 'every'",
        ),
        (
            "rate: 1pps, at: { 2s: pause, 1s: resume }",
            "flows.x.at.1s: it is not after 2s, when it changed last; write changes in the order \
             of time",
        ),
        ("rate: 1pps, at: { 2s: resume }", "flows.x.at.2s: it does not pause"),
        (
            "rate: 1pps, at: { 2s: {} }",
            "flows.x.at.2s: nothing changes; write what does, or 'pause'",
        ),
        (
            "at: { 2s: pause }",
            "flows.x.at: a flow that is as fast as the engine can does not change; give it a 'rate'",
        ),
        (
            "rate: 1pps, stop: 2s, at: { 2s: pause }",
            "flows.x.at.2s: the flow has stopped by then; make 'stop' later",
        ),
    ] {
        assert_eq!(of_flow(keys), expected, "{keys}");
    }
    let text = "ports: { a: {} }\nflows: { x: { from: a } }";
    assert!(why(text).contains("there is no destination"), "{}", why(text));
}

#[test]
fn the_shortest_frames_are_those_of_the_headers() {
    let len = |packet: &str, probe: &str| {
        let text = format!(
            "ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, to: a, packet: {packet}, probe: {probe} }} }}"
        );
        Scenario::from_yaml(&text, "").unwrap().flows["x"].shortest("x").unwrap().get()
    };
    assert_eq!(len("[ { ipv4: {} }, { udp: {} } ]", "on"), 64);
    assert_eq!(len("[ { ipv6: {} }, { udp: {} } ]", "on"), 82);
    assert_eq!(len("[ { ethernet: {} }, { ipv6: {} }, { udp: {} } ]", "off"), 66);
}

#[test]
fn times_that_contradict_each_other() {
    assert_eq!(
        of_flow("start: 2s, stop: 2s"),
        "flows.x.stop: it stops at 2s, before anything is due: it starts at 2s"
    );
    let text = "ports: { a: {} }\nflows: { x: { from: a, to: a, start: 5s } }\nrun: { time: 5s }";
    assert_eq!(
        why(text),
        "f:2:31: flows.x.start: it starts at 5s, and the run ends at 5s; make 'run.time' longer"
    );
    assert!(why("ports: {}\nflows: {}\nrun: { time: 0 }").starts_with("f:3:8: run.time: "));
    assert_eq!(
        why("ports: {}\nflows: {}\nrun: { drift: 5us }"),
        "f:3:8: run.drift: a drift needs late frames to be dropped; add 'late: drop'"
    );
}

#[test]
fn ports_that_cannot_be() {
    for (keys, expected) in [
        (
            "engine: kernel",
            "f:1:10: ports.a.interface: this engine needs the name of an interface, because no flow from here has a \
             destination; write for example 'interface: eth1'",
        ),
        (
            "engine: pcap",
            "f:1:10: ports.a.file: the engine pcap needs the name of the file to write",
        ),
        (
            "file: x.pcapng",
            "f:1:15: ports.a.file: only the engine pcap writes a file; add 'engine: pcap'",
        ),
        (
            "cores: [1, 2], queues: 3",
            "f:1:30: ports.a.queues: 3 threads do not fit 2 cores; leave one of the two out",
        ),
        ("cores: [1, 1]", "f:1:26: ports.a.cores[1]: a core sends once; name it once"),
        ("mtu: 100B", "f:1:15: ports.a.mtu: a link carries packets of 128B to 65535B"),
    ] {
        assert_eq!(of_port(keys), expected, "{keys}");
    }
    for (keys, expected) in [
        (
            "peer: '10.0.0.2:5960', engine: packet",
            "ports.a.engine: this port is on another host, whose receiver has its own settings; leave 'engine' out",
        ),
        (
            "key-file: lab.key",
            "ports.a.key-file: a key is for a port on another host; give its 'peer'",
        ),
    ] {
        let why = of_port(keys);
        assert!(why.ends_with(expected), "{why}");
    }
    let far = "{ peer: '10.0.0.2:5960' }";
    let twice = why(&format!("ports: {{ a: {far}, b: {far} }}\nflows: {{}}"));
    assert!(
        twice.ends_with(
            "ports.b.peer: another port is received there; send the flows of both to that one"
        ),
        "{twice}"
    );
    let from = why(&format!("ports: {{ a: {far} }}\nflows: {{ x: {{ from: a }} }}"));
    assert!(
        from.ends_with(
            "flows.x.to: port 'a' is on another host, and nothing here receives the flow; give the name of a port of this host in \
             'to'"
        ),
        "{from}"
    );
    let two = "a: { peer: '10.0.0.2:5960' }, b: { peer: '10.0.0.3:5960' }";
    let from = why(&format!("ports: {{ {two} }}\nflows: {{ x: {{ from: a, to: b }} }}"));
    assert!(from.contains("flows.x.to: port 'a' is on another host, and so is the port"), "{from}");
    let here = format!("ports: {{ a: {far}, b: {{}} }}\nflows: {{ x: {{ from: a, to: b }} }}");
    assert!(Scenario::from_yaml(&here, "").is_ok());
    let pcap = "{ engine: pcap, file: x }";
    assert_eq!(
        why(&format!("ports: {{ a: {pcap}, b: {pcap} }}\nflows: {{}}")),
        "f:1:59: ports.b.file: another port writes this file; give each its own"
    );
    let senders = |keys: &str| {
        let text = format!("ports: {{ a: {{ {keys} }} }}\nflows: {{}}\n");
        Scenario::from_yaml(&text, "").unwrap().ports["a"].senders()
    };
    assert_eq!([senders(""), senders("cores: [4, 2]"), senders("queues: 3")], [1, 2, 3]);
}

/// A port of the engines `packet` and `kernel` without interface was refused although its flows say where they go.
#[test]
fn a_port_whose_flows_have_a_destination_needs_no_interface() {
    let of = |engine: &str, b: &str, network: &str| {
        let text = format!(
            "ports: {{ a: {{ engine: {engine} }}, b: {{ {b} }} }}\n\
             flows: {{ x: {{ from: a, to: b, packet: [ {{ {network} }}, {{ udp: {{}} }} ] }} }}\n"
        );
        Scenario::from_yaml(&text, "f")
            .map(|scenario| scenario.destination_from("a").unwrap().to_string())
    };
    for engine in ["packet", "kernel"] {
        assert_eq!(of(engine, "", "ipv4: { destination: 10.0.0.2 }").unwrap(), "10.0.0.2");
        let both = "addresses: [ 'fd00::2', 10.0.0.3 ]";
        assert_eq!(of(engine, both, "ipv4: {}").unwrap(), "10.0.0.3");
        assert_eq!(of(engine, both, "ipv6: {}").unwrap(), "fd00::2");
        let nowhere = of(engine, "", "ipv4: {}").unwrap_err().to_string();
        assert!(nowhere.contains("ports.a.interface: this engine needs"), "{nowhere}");
    }
}

#[test]
fn flows_name_ports_that_exist() {
    let text = "ports: { left: {}, right: {} }\nflows: { x: { from: left, to: rigth } }";
    assert_eq!(why(text), "f:2:27: flows.x.to: there is no port 'rigth'; did you mean 'right'?");
}

#[test]
fn flows_with_and_without_a_rate_do_not_share_a_port() {
    let of = |x: &str, y: &str| {
        format!(
            "ports: {{ a: {{}}, b: {{}} }}\nflows:\n  x: {{ from: a, to: b, {x} }}\n  \
             y: {{ from: a, to: b, {y} }}\n"
        )
    };
    assert_eq!(
        why(&of("rate: 1pps", "size: 64B")),
        "f:4:3: flows.y.rate: flows with a rate and flows without cannot leave from one port, and \
         'x' has one; give all of them a rate, or none"
    );
    for (x, y, key) in [
        ("start: 1s", "start: 2s", "start"),
        ("stop: 1s", "stop: 2s", "stop"),
        ("size: 64B", "count: 5", "count"),
    ] {
        let why = why(&of(x, y));
        assert!(why.contains(&format!("flows.y.{key}: flows without a rate take turns")), "{why}");
    }
    assert!(Scenario::from_yaml(&of("count: 4", "count: 5"), "").is_ok());
    let both_ways =
        of("rate: 1pps", "size: 64B").replace("y: { from: a, to: b", "y: { from: b, to: a");
    assert!(Scenario::from_yaml(&both_ways, "").is_ok());
}

#[test]
fn real_time_and_a_thread_that_never_sleeps_are_refused_together() {
    let of = |run: &str| format!("ports: {{}}\nflows: {{}}\nrun: {{ {run} }}");
    let why = why(&of("wait: spin, priority: realtime"));
    assert!(
        why.starts_with("f:3:20: run.priority: real time does not go with 'wait: spin'"),
        "{why}"
    );
    assert!(why.ends_with("use 'wait: hybrid', or the priority 'high'"), "{why}");
    for run in
        ["priority: realtime", "wait: sleep, priority: realtime", "wait: spin, priority: high"]
    {
        assert!(Scenario::from_yaml(&of(run), "").is_ok(), "{run}");
    }
}

#[test]
fn there_are_no_more_flows_than_numbers() {
    let flow = FlowSpec { to: Some("a".to_owned()), ..FlowSpec::from_port("a") };
    let mut scenario = Scenario::default();
    scenario.ports.insert("a".to_owned(), PortSpec::default());
    scenario.flows = (0..MAX_FLOWS).map(|i| (i.to_string(), flow.clone())).collect();
    assert_eq!(scenario.check(), Ok(()));
    scenario.flows.insert("one more".to_owned(), flow);
    assert!(scenario.check().unwrap_err().why.what.starts_with("there are 65536 flows"));
}

#[test]
fn names_fit_a_report() {
    for name in ["", "a\tb", &"x".repeat(65)] {
        let mut scenario = Scenario::default();
        scenario.ports.insert(name.to_owned(), PortSpec::default());
        assert!(scenario.check().is_err(), "{name}");
    }
}

#[test]
fn what_is_replayed_has_its_own_sizes_and_times() {
    let of = |flow: &str, replay: &str| {
        format!(
            "ports: {{ a: {{}} }}\nflows:\n  x: {{ from: a, to: a, {flow} replay: {{ archive: day.wbar, {replay} }} }}\n"
        )
    };
    for (flow, replay, expected) in [
        ("size: 64B,", "", "size: what is replayed has its sizes; leave 'size' out"),
        (
            "rate: 1kpps,",
            "",
            "rate: what is replayed has its times; leave 'rate' out, or give 'replay' a 'tight-loop'",
        ),
        ("departures: exponential,", "", "departures: what is replayed has its times"),
        ("burst: 2,", "", "burst: what is replayed has its times"),
        ("bytes: 1MB,", "", "bytes: what is replayed ends by its 'count' or at a time"),
        (
            "at: { 1s: { size: 100B } },",
            "",
            "at.1s: what is replayed has times, sizes and headers of its own",
        ),
        (
            "packet: [ { ipv4: {} }, { udp: {} }, { payload: zeros } ],",
            "",
            "packet: records are the payload",
        ),
        ("probe: mgen,", "", "probe: what is replayed has room for Wirebeat's own probe behind it"),
        (
            "",
            "speed: 2x, tight-loop: 1us",
            "replay.speed: a tight loop does not look at recorded times",
        ),
        (
            "",
            "tight-loop: 0, drift: 1us",
            "replay.drift: what leaves as fast as it can is never late",
        ),
        (
            "",
            "flow-of: device",
            "replay.flow-of: sub-flows differ in the fields that advance with them",
        ),
        ("", "buffer: 1kB", "replay.buffer: a buffer has 128KiB to 2GiB"),
        ("", "workers: 300", "replay.workers: there are 256 at most"),
        ("", "readers: 2", "replay.readers: each file has one at the most; give 0 to 1"),
        (
            "",
            "out-of-order: { probability: 2, window: 1ms }",
            "replay.out-of-order: a probability is 0 to 1",
        ),
        (
            "",
            "out-of-order: { probability: 0.1, window: 0 }",
            "replay.out-of-order: nothing can leave later",
        ),
        (
            "",
            "tight-loop: 0, out-of-order: { probability: 0.1, window: 1ms }",
            "replay.out-of-order: what leaves",
        ),
        (
            "",
            "out-of-order: { probability: 0.1, window: 1ms, cores: 1 }",
            "replay.out-of-order: its port sends with 1 ",
        ),
        (
            "",
            "from: 2015-07-01T00:00:00Z, to: 2015-07-01T00:00:00Z",
            "replay.to: it is not after 'from'",
        ),
    ] {
        let why = why(&of(flow, replay));
        assert!(why.contains(&format!("flows.x.{expected}")), "{flow} {replay}: {why}");
    }
    for (flow, replay) in [
        (
            "count: 5, start: 1s, stop: 2s, probe: on,",
            "speed: 0.5x, drift: 10us, loop: 3, on-bad: skip",
        ),
        (
            "packet: [ { ipv4: {} }, { udp: { source: { increment: 1, per: sub-flow } } } ],",
            "flow-of: { hash: 8 }",
        ),
        ("", "tight-loop: 1us, devices: [a, b], reader: direct, workers: 4, buffer: 1MiB"),
        ("", "out-of-order: { probability: 0.25, window: 1ms }"),
    ] {
        let read =
            Scenario::from_yaml(&of(flow, replay), "").unwrap_or_else(|error| panic!("{error}"));
        let again = Scenario::from_yaml(&read.to_yaml().unwrap(), "").unwrap();
        assert_eq!(again, read);
    }
}

#[test]
fn sessions_with_an_end_on_another_host_that_cannot_be() {
    let with = |group: &str| {
        let far = "far: { peer: 10.0.2.9, addresses: [10.0.2.9] }";
        why(&format!(
            "ports: {{ a: {{}}, {far} }}\nsessions: {{ x: {{ servers: {{ ports: 80 }}, {group} }} }}\n"
        ))
    };
    for (group, says) in [
        ("from: far, to: a, program: http, count: 1", "clients run on this one only"),
        ("to: far, program: http", "name the port of the clients here in 'from'"),
        (
            "from: a, to: far, program: echo, transport: udp, count: 1",
            "serves sessions over TCP only; run 'wirebeat serve' there, and leave 'to' out",
        ),
        ("from: a, to: far, program: http, count: 1, tls: true", "write 'tls: { verify: false }'"),
        (
            "from: a, to: far, program: http, count: 1, tls: { verify: false, certificate: c.pem, key: k.pem }",
            "a listener there reads no files; leave 'certificate' and 'key' out",
        ),
    ] {
        let said = with(group);
        assert!(said.contains(says), "{group}: {said}");
    }
    let after = "ports: { a: {}, far: { peer: 10.0.2.9, addresses: [10.0.2.9] } }\nsessions:\n  x: { from: a, to: far, servers: { \
                 ports: 80 }, program: http, count: 1 }\n  y: { from: a, to: far, servers: { ports: 81 }, program: http, count: 1, \
                 after: { group: x }, tls: { verify: false } }\n";
    Scenario::from_yaml(after, "").unwrap_or_else(|error| panic!("{error}"));
    let both = "ports: { a: {}, far: { peer: 10.0.2.9, addresses: [10.0.2.9] } }\nflows: { f: { from: a, to: far } }\nsessions: { x: { \
                from: a, to: far, servers: { ports: 80 }, program: http, count: 1 } }\n";
    assert!(why(both).contains("has the flow 'f' too"), "{}", why(both));
}
