use super::*;
use crate::program::script::{Body, Expected, ExpectedLength, Op, Receive};
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Shard};

fn compiled(sessions: &str) -> Result<Sessions, String> {
    let text =
        format!("ports: {{ a: {{}}, b: {{ addresses: [10.0.2.9] }} }}\nsessions:\n{sessions}\n");
    let scenario = Scenario::from_yaml(&text, "").map_err(|error| error.to_string())?;
    let printed = scenario.to_yaml().map_err(|error| error.to_string())?;
    assert_eq!(Scenario::from_yaml(&printed, "").as_ref(), Ok(&scenario), "{printed}");
    let json = scenario.to_json().map_err(|error| error.to_string())?;
    assert_eq!(Scenario::from_yaml(&json, "").as_ref(), Ok(&scenario), "{json}");
    compile_sessions(&scenario, &Files::default()).map_err(|error| error.to_string())
}

fn starts(sessions: &Sessions) -> Vec<u64> {
    let flows: Vec<u32> = (0..sessions.starts.flows.len() as u32).collect();
    let schedule = Schedule::new(&sessions.starts, &flows, Shard::WHOLE);
    schedule.map(|departure| departure.at.get()).collect()
}

#[test]
fn starts_follow_the_laws_of_flows() {
    let sessions = compiled(
        "  web: { from: a, to: b, program: http, servers: { ports: 80 }, rate: 1000/s, stop: 5ms, \
         at: { 2ms: { rate: 2000/s } } }",
    )
    .unwrap();
    assert_eq!(
        starts(&sessions),
        [0, 1_000_000, 2_000_000, 2_500_000, 3_000_000, 3_500_000, 4_000_000, 4_500_000]
    );
    let group = &sessions.groups[0];
    assert_eq!(group.servers.get(0), ("10.0.2.9".parse().ok(), 80));
    assert_eq!(group.clients.get(7), (None, 0));
}

#[test]
fn servers_of_two_groups_are_apart() {
    let group = |name: &str, servers: &str, rest: &str| {
        format!(
            "  {name}: {{ from: a, to: b, program: echo, servers: {servers}, users: 1, {rest} }}\n"
        )
    };
    let both = |one: [&str; 2], other: [&str; 2]| {
        compiled(&(group("s", one[0], one[1]) + &group("t", other[0], other[1]))).err()
    };
    for stack in ["stack: host", "stack: own, clients: { addresses: 10.0.0.1 }"] {
        for (one, other) in [
            ("{ ports: 80 }", "{ ports: 80 }"),
            ("{ ports: 80 }", "{ addresses: 10.0.2.0/24, ports: 1-100 }"),
            ("{ addresses: 10.1.0.0/16, ports: 80 }", "{ addresses: 10.1.2.9, ports: [79, 80] }"),
        ] {
            let said = both([one, stack], [other, stack]).unwrap();
            let why = "some of its sessions would be accepted where those of 's' are";
            assert!(said.contains("sessions.t.servers") && said.contains(why), "{said}");
        }
        for (one, other) in [
            ("{ ports: 80 }", "{ ports: 81 }"),
            ("{ ports: 80 }", "{ addresses: 10.0.2.8, ports: 80 }"),
        ] {
            assert_eq!(both([one, stack], [other, stack]), None);
        }
        let udp = format!("{stack}, transport: udp");
        assert_eq!(both(["{ ports: 80 }", stack], ["{ ports: 80 }", &udp]), None);
    }
}

#[test]
fn a_count_without_a_rate_starts_together() {
    let sessions = compiled(
        "  web: { from: a, program: http, servers: { addresses: 10.0.0.2, ports: 80 }, count: 3 }",
    )
    .unwrap();
    assert_eq!(starts(&sessions), [0, 0, 0]);
    assert!(sessions.groups[0].server.is_none());
}

#[test]
fn requests_and_responses_are_bytes_of_http() {
    let sessions = compiled(
        "  web:\n    from: a\n    to: b\n    servers: { ports: 8080 }\n    users: 3\n    program:\n      \
         http: { target: /x, method: POST, body: 10B, headers: { X-One: two }, server-closes: true, \
         requests: 2, size: { uniform: { min: 1B, max: 9B } } }",
    )
    .unwrap();
    let group = &sessions.groups[0];
    let client = group.client.as_ref().unwrap();
    let head = |n: usize| String::from_utf8(client.messages[n].head.to_vec()).unwrap();
    assert_eq!(
        head(0),
        "POST /x HTTP/1.1\r\nHost: 10.0.2.9:8080\r\nContent-Length: 10\r\nUser-Agent: wirebeat\r\n\
         X-One: two\r\n\r\n"
    );
    assert!(head(1).contains("Connection: close\r\n"));
    let server = group.server.as_ref().unwrap();
    let response = &server.messages[0];
    let at = response.length_at.unwrap();
    assert_eq!(&response.head[at..at + 20], b"00000000000000000000");
    assert!(matches!(&response.body, Body::Generated(_)));
    assert!(matches!(server.ops[..], [Op::HttpServer(_)]));
    assert_eq!((group.users, group.starts), (Some(3), None));
}

#[test]
fn steps_become_ops_that_repeat() {
    let sessions = compiled(
        "  own:\n    from: a\n    servers: { addresses: 10.0.0.2, ports: 7 }\n    rate: 1/s\n    program:\n      \
         steps:\n        client: [ start: all, repeat: { times: 3, steps: [ send: 5B, receive: 5B ] }, stop: all, shutdown, wait-close ]",
    )
    .unwrap();
    let client = sessions.groups[0].client.as_ref().unwrap();
    assert_eq!(
        client.ops,
        [
            Op::Start(0),
            Op::Send(0),
            Op::Receive(0),
            Op::Repeat { register: 0, times: 3, to: 1 },
            Op::Stop(0),
            Op::Shutdown,
            Op::WaitClose
        ]
    );
    assert_eq!(client.timers, ["all"]);
}

#[test]
fn mistakes_are_named_with_their_key() {
    for (group, says) in [
        ("{ program: http, servers: { ports: 80 } }", "sessions.x: neither end"),
        ("{ from: a, program: http, rate: 1/s }", "sessions.x.servers.ports: there is no port"),
        (
            "{ from: a, program: http, servers: { ports: 80 }, rate: 1/s }",
            "no address to connect to",
        ),
        (
            "{ from: a, program: http, servers: { addresses: 239.0.0.1, ports: 80 }, rate: 1/s }",
            "sessions.x.servers.addresses: no host has an address for multicast groups",
        ),
        (
            "{ from: a, stack: own, program: http, clients: { addresses: 127.0.0.0/8 }, servers: { addresses: 10.0.0.1, ports: 80 }, rate: 1/s }",
            "sessions.x.clients.addresses: no host has an address for the host itself",
        ),
        ("{ from: a, program: htp }", "did you mean 'http'"),
        ("{ from: a, to: b, program: http, servers: { ports: 80 } }", "nothing says how many"),
        (
            "{ from: a, to: b, program: http, servers: { ports: 80 }, rate: 10% }",
            "does not say how many sessions",
        ),
        (
            "{ from: a, to: b, program: http, servers: { ports: 80 }, rate: 1/s, users: 3 }",
            "sessions.x.rate: users start",
        ),
        (
            "{ to: b, program: http, servers: { ports: 80 }, rate: 1/s }",
            "sessions.x.rate: the clients are somebody else's",
        ),
        (
            "{ from: a, to: b, program: http, servers: { ports: 80 }, rate: 1/s, think: 1s }",
            "only users think",
        ),
        (
            "{ from: c, to: b, program: http, servers: { ports: 80 }, rate: 1/s }",
            "there is no port 'c'",
        ),
        (
            "{ from: a, to: b, program: { http: { target: x } }, servers: { ports: 80 }, rate: 1/s }",
            "sessions.x.program.target: a target begins with /",
        ),
        (
            "{ from: a, to: b, program: { http: { headers: { Host: x } } }, servers: { ports: 80 }, rate: 1/s }",
            "follows from other settings",
        ),
        (
            "{ from: a, to: b, program: { steps: { client: [ response ] } }, servers: { ports: 80 }, rate: 1/s }",
            "sessions.x.program.steps.client[0]: there is no 'request'",
        ),
        (
            "{ from: a, to: b, program: http, servers: { ports: 80 }, rate: 1/s, at: { 1s: { size: 64B } } }",
            "only 'rate' and 'departures' change",
        ),
        (
            "{ from: a, to: b, program: http, servers: { ports: 80 }, rate: 1/s, start: 5s, at: { 1s: pause } }",
            "sessions.x.at.1s",
        ),
        (
            "{ from: a, to: b, program: http, servers: { ports: 80 }, rate: 1/s, expect: [ 'page.p99 < 1s' ] }",
            "sessions.x.expect[0]: nothing measures 'page'",
        ),
        (
            "{ from: a, to: b, program: http, servers: { ports: 80 }, rate: 1/s, departures: { normal: { mean: 5ms, deviation: 1ms } } }",
            "sessions.x.departures",
        ),
        (
            "{ from: a, program: http, clients: { addresses: '::1' }, servers: { addresses: 10.0.0.2, ports: 80 }, count: 1 }",
            "sessions.x.clients.addresses: clients have ::1",
        ),
        (
            "{ from: a, to: b, program: { echo: { gap: exponential } }, servers: { ports: 80 }, rate: 1/s }",
            "sessions.x.program",
        ),
    ] {
        let said = compiled(&format!("  x: {group}")).map(|_| ()).unwrap_err();
        assert!(said.contains(says), "{group}: {said}");
    }
}

#[test]
fn a_bit_rate_is_as_many_sessions_as_have_so_many_bits() {
    let exchange = "program: { request-response: { request: 1000B, response: 9000B } }, servers: { ports: 80 }";
    let rate = |rate: &str| {
        let text = format!("  x: {{ from: a, to: b, {exchange}, rate: {rate}, stop: 1s }}");
        let sessions = compiled(&text).unwrap();
        sessions.starts.offered(0).unwrap().0.per_second()
    };
    // 10,000 bytes of data; 7 segments with data and 7 of control, at least, and acknowledgments
    assert!((rate("8Mbps@payload") - 100.0).abs() < 0.01, "{}", rate("8Mbps@payload"));
    let (frame, line) = (rate("8Mbps"), rate("8Mbps@line"));
    assert!(line < frame && frame < 100.0 && line > 80.0, "{frame} {line}");
    // datagrams of 8 and 400 bytes: the shorter ones are filled up to 64, and the line adds 20 to each
    for (ip, short) in [("", 64.0), (", addresses: 'fd00::1'", 74.0)] {
        let clients = if ip.is_empty() { "" } else { "clients: { addresses: 'fd00::2' }, " };
        let text = format!(
            "  x: {{ from: a, to: b, transport: udp, {clients}servers: {{ ports: 80{ip} }}, rate: 8Mbps@line, stop: 1s, program: {{ steps: {{ \
             client: [ send: 8B, receive: 400B ], server: [ receive: 8B, send: 400B ] }} }} }}"
        );
        let sessions = compiled(&text).unwrap();
        let rate = sessions.starts.offered(0).unwrap().0.per_second();
        let long = 400.0 + if ip.is_empty() { 46.0 } else { 66.0 };
        assert!((rate - 1e6 / (short + long + 40.0)).abs() < 0.01, "{rate}");
    }
    let unknown =
        "  x: { from: a, program: http, servers: { addresses: 10.0.3.1, ports: 80 }, rate: 8Mbps }";
    let said = compiled(unknown).unwrap_err();
    assert!(said.contains("sessions.x.rate") && said.contains("not known before"), "{said}");
    let known = unknown.replace("program: http", "program: { http: { expect-size: 1kB } }");
    compiled(&known).unwrap();
    assert!(compiled(&unknown.replace("8Mbps", "10%")).unwrap_err().contains("does not say"));
}

/// Nine of ten sessions timed out, and nothing said why.
#[test]
fn an_address_is_at_one_end_alone() {
    let text = |clients: &str, stack: &str| {
        let servers = if clients.contains("fd00") { "'fd00::1'" } else { "10.0.2.1-10.0.2.9" };
        format!(
            "  x: {{ from: a, to: b, stack: {stack}, program: http, clients: {{ addresses: {clients} }}, \
             servers: {{ addresses: {servers}, ports: 80 }}, rate: 10/s }}"
        )
    };
    for (clients, common) in [
        ("10.0.0.0/22", Some("10.0.2.1")),
        ("[10.0.1.1, 10.0.2.9]", Some("10.0.2.9")),
        ("10.0.2.4", Some("10.0.2.4")),
        ("'fd00::/64'", Some("fd00::1")),
        ("10.0.2.10-10.0.2.20", None),
        ("10.0.1.1-10.0.2.0", None),
    ] {
        let said = compiled(&text(clients, "own")).map(|_| ()).err();
        match common {
            Some(address) => {
                let said = said.unwrap_or_else(|| panic!("{clients}"));
                let says = format!("{address} is an address of its clients and of its servers");
                assert!(
                    said.contains(&says) && said.contains("sessions.x.clients.addresses"),
                    "{said}"
                );
            }
            None => assert_eq!(said, None, "{clients}"),
        }
        // a host of the system speaks with itself
        assert!(compiled(&text(clients, "host")).is_ok(), "{clients}");
    }
}

/// A line of 10 Mbit/s was asked for 100, and all sessions but a tenth failed.
#[test]
fn a_line_carries_what_sessions_send() {
    let text = |cable: &str, groups: &str, rest: &str| {
        format!(
            "seed: 1\nports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback, cable: {{ rate: {cable} }} }} }}\n\
             sessions:\n{groups}\n{rest}"
        )
    };
    let group = |name: &str, port: u16, rest: &str| {
        format!(
            "  {name}: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.1.0.1 }}, servers: {{ addresses: 10.2.0.1, ports: {port} }}, \
             program: {{ request-response: {{ request: 100B, response: 9kB }} }}, {rest} }}"
        )
    };
    let compiled = |text: &str| {
        let scenario = Scenario::from_yaml(text, "test").unwrap_or_else(|error| panic!("{error}"));
        compile_sessions(&scenario, &Files::default())
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let one = group("x", 80, "rate: 1000/s");
    let said = compiled(&text("10Mbps", &one, "run: { time: 10s }")).unwrap_err();
    for says in ["ports.b", "on the line, which carries 10.0 Mbit/s", "lower their rates to "] {
        assert!(said.contains(says), "{says}: {said}");
    }
    // what is named fits, and not by far
    let number = |said: &str, behind: &str| -> f64 {
        said.split(behind).nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    let named = 10.0 * number(&said, "lower their rates to ");
    for (share, fits) in [(1.0, true), (1.03, false)] {
        let one = group("x", 80, &format!("rate: {}/s", (named * share) as u32));
        let said = compiled(&text("10Mbps", &one, "run: { time: 10s }"));
        assert_eq!(said.is_ok(), fits, "{share}: {said:?}");
    }
    let fits = compiled(&text("100Mbps", &one, "run: { time: 10s }"));
    assert_eq!(fits, Ok(()));
    // groups add up, and a mix is told as one
    let two = [group("x", 80, ""), group("y", 81, "")].join("\n");
    let mix = |rate: &str| {
        format!("mix: {{ rate: {rate}, shares: {{ x: 1, y: 1 }} }}\nrun: {{ time: 10s }}")
    };
    let said = compiled(&text("10Mbps", &two, &mix("20Mbps"))).unwrap_err();
    let named = number(&said, "lower 'mix.rate' to ");
    for (share, fits) in [(1.0, true), (1.03, false)] {
        let said = compiled(&text("10Mbps", &two, &mix(&format!("{}Mbps", named * share))));
        assert_eq!(said.is_ok(), fits, "{share} of {named}: {said:?}");
    }
    // a burst takes longer, and those that think are spread over their time
    for rest in ["rate: 10000/s, count: 500", "users: 1000", "rate: 1000/s, count: 2000, hold: 60s"]
    {
        let one = group("x", 80, rest);
        assert_eq!(compiled(&text("10Mbps", &one, "run: { time: 100s }")), Ok(()), "{rest}");
    }
}

#[test]
fn a_group_is_not_stopped_by_more_sessions_than_it_has() {
    let with = |rest: &str| {
        compiled(&format!(
            "  x: {{ from: a, to: b, program: echo, servers: {{ ports: 80 }}, users: 5, {rest} }}"
        ))
        .err()
    };
    let told = with("count: 5, until: { established: 6 }").unwrap();
    assert!(
        told.contains("sessions.x.until.established: the group has 5 sessions, fewer than 6"),
        "{told}"
    );
    assert_eq!(with("count: 5, until: { established: 5 }"), None);
}

/// How many sessions of a group are open at a time, as far as the scenario says it.
#[test]
fn as_many_are_expected_as_a_scenario_says() {
    for (rest, expected) in [
        ("rate: 100/s", 0),
        ("rate: 100/s, limit: { open: 5000 }", 1000),
        ("rate: 1000/s, limit: { open: 5000 }", 5000),
        ("rate: 1000/s, limit: { open: 5000 }, count: 300", 300),
        ("rate: 1000/s, hold: 2s", 2000),
        ("rate: 1000/s, hold: 2s, limit: { open: 50 }", 50),
        ("rate: 1000/s, hold: 1h", 10_000),
        ("users: 70", 70),
        ("users: 70, count: 7", 7),
        ("count: 300, limit: { open: 4000000000 }", 300),
    ] {
        let sessions = compiled(&format!(
            "  x: {{ from: a, to: b, program: echo, servers: {{ ports: 80 }}, {rest} }}\nrun: {{ time: 10s }}"
        ))
        .unwrap();
        assert_eq!(sessions.expected_open(&sessions.groups[0]), expected, "{rest}");
    }
}

#[test]
fn a_mix_shares_bits_or_starts_out() {
    let groups = "  one: { from: a, to: b, program: { request-response: { request: 1000B, response: 9000B } }, servers: { ports: 80 } }\n  \
                  two: { from: a, to: b, program: { request-response: { request: 100B, response: 900B } }, servers: { ports: 81 } }";
    let rates = |mix: &str| {
        let sessions = compiled(&format!("{groups}\nmix: {mix}\nrun: {{ time: 1s }}")).unwrap();
        [0, 1].map(|flow| sessions.starts.offered(flow).unwrap().0.per_second())
    };
    let [one, two] = rates("{ rate: 10Mbps@payload, shares: { one: 80, two: 20 } }");
    assert!((one - 100.0).abs() < 0.01 && (two - 250.0).abs() < 0.01, "{one} {two}");
    let [one, two] = rates("{ rate: 100/s, shares: { one: 1, two: 2 } }");
    assert!((one - 100.0 / 3.0).abs() < 1e-6 && (two - 200.0 / 3.0).abs() < 1e-6, "{one} {two}");
    for (mix, says) in [
        ("{ rate: 100/s, shares: { three: 1 } }", "no group"),
        ("{ rate: unlimited, shares: { one: 1 } }", "share"),
        ("{ rate: 100/s, shares: {} }", "no group has a share"),
    ] {
        let said = compiled(&format!("{groups}\nmix: {mix}")).unwrap_err();
        assert!(said.contains(says), "{mix}: {said}");
    }
}

#[test]
fn over_udp_messages_have_numbers_and_servers_have_no_end() {
    let sessions = compiled(
        "  x: { from: a, to: b, transport: udp, on-timeout: next, servers: { ports: 9 }, users: 1, program: { request-response: \
         { request: 20B, response: { exponential: { mean: 200B } }, requests: 3 } } }",
    )
    .unwrap();
    let group = &sessions.groups[0];
    let (client, server) = (group.client.as_ref().unwrap(), group.server.as_ref().unwrap());
    assert!(client.datagrams && matches!(client.messages[0].body, Body::Numbered(_)));
    assert_eq!(server.ops, [Op::Receive(0), Op::Send(0), Op::Jump(0)]);
    let expected = |length, numbered| Receive::Message(Expected { length, numbered });
    assert_eq!(client.lengths, [expected(ExpectedLength::Any, true)]);
    assert_eq!(server.lengths, [expected(ExpectedLength::Bytes(20), true)]);
    // there is no room in both, or it is not asked for
    for program in ["request: 7B", "response: 7B", "numbers: false"] {
        let sessions = compiled(&format!(
            "  x: {{ from: a, to: b, transport: udp, servers: {{ ports: 9 }}, users: 1, program: {{ request-response: {{ {program} }} }} }}"
        ));
        let client = sessions.unwrap().groups[0].client.clone().unwrap();
        assert!(matches!(client.messages[0].body, Body::Generated(_)), "{program}");
    }
}

#[test]
fn groups_that_wait_for_each_other_are_refused() {
    let group = |name: &str, after: &str| {
        format!(
            "  {name}: {{ from: a, to: b, program: http, servers: {{ ports: 80 }}, count: 3, after: {after} }}\n"
        )
    };
    let both = group("one", "{ group: two }") + &group("two", "{ group: one }");
    for (text, says) in [
        (both.as_str(), "wait for each other"),
        (&group("one", "{ group: one }"), "wait for each other"),
        (&group("one", "{ group: none }"), "no group"),
        (
            &(group("one", "{ group: two, established: 4 }")
                + "  two: { from: a, to: b, program: http, servers: { ports: 81 }, count: 3 }"),
            "fewer than 4",
        ),
    ] {
        let said = compiled(text).unwrap_err();
        assert!(said.contains(says), "{says}: {said}");
    }
}

#[test]
fn files_are_sent_and_jumps_are_checked() {
    let text = "ports: { a: {} }\nsessions: { x: { from: a, count: 1, servers: { addresses: 10.0.2.9, ports: 80 }, \
                program: { steps: { client: [ { label: top }, { send-file: hello.txt }, { add: { n: 1 } }, \
                { jump: { to: top, if: 'n < 3' } }, { jump: { to: end } }, { send-text: no }, { label: end } ] } } } }";
    let scenario = Scenario::from_yaml(text, "").unwrap();
    assert!(Files::named_in(&scenario).contains("hello.txt"));
    let missing = compile_sessions(&scenario, &Files::default()).unwrap_err().to_string();
    assert!(missing.contains("hello.txt"), "{missing}");
    let mut files = Files::default();
    files.insert("hello.txt".to_owned(), b"hello".to_vec());
    let sessions = compile_sessions(&scenario, &files).unwrap();
    let script = sessions.groups[0].client.as_ref().unwrap();
    assert_eq!(&*script.messages[0].head, b"hello");
    assert!(
        matches!(script.ops[2], Op::JumpIf { variable: 0, value: 3, to: 0, .. }),
        "{:?}",
        script.ops
    );
    assert_eq!(script.ops[3], Op::Jump(script.ops.len() as u16));
    for (steps, says) in [
        ("{ jump: { to: nowhere } }", "no label"),
        ("{ label: a }, { label: a }", "twice"),
        ("{ repeat: { times: 2, steps: [ { label: a } ] } }", "within 'repeat'"),
        ("{ set: { a: 1, b: 1, c: 1, d: 1, e: 1 } }", "4 variables"),
        ("{ label: a }, { jump: { to: a, if: 'n ~ 3' } }", "comparison"),
        ("{ set: {} }", "no variable"),
    ] {
        let text = text.replace("{ label: top }", &format!("{{ label: top }}, {steps}"));
        let said = Scenario::from_yaml(&text, "").unwrap_err().to_string();
        assert!(said.contains(says), "{steps}: {said}");
    }
}

#[test]
fn programs_that_go_round_without_waiting_are_refused_with_the_step() {
    let check = |steps: &str| {
        let text = format!(
            "ports: {{ a: {{}} }}\nsessions:\n  x:\n    from: a\n    servers: {{ addresses: 10.0.2.9, ports: 80 }}\n    count: 1\n    \
             program:\n      steps:\n        client:\n{steps}"
        );
        Scenario::from_yaml(&text, "f.yaml").map_err(|error| error.to_string())
    };
    let step = |text: &str| format!("          - {text}\n");
    let all = |steps: &[&str]| steps.iter().map(|text| step(text)).collect::<String>();
    for (steps, at) in [
        (&["label: a", "jump: { to: a }"][..], 1),
        (&["label: a", "add: { n: 1 }", "jump: { to: a, if: 'n != 0' }"], 2),
        (
            &[
                "send: 1B",
                "label: a",
                "set: { n: 1 }",
                "jump: { to: a, if: 'n == 1' }",
                "think: 1s",
            ],
            3,
        ),
        (&["repeat: { times: 4000000000, steps: [ { send: 0B } ] }"], 0),
        (&["repeat: { times: 100001, steps: [ request, { think: 0s }, response ] }"], 0),
        // the peer closes once
        (&["label: a", "wait-close", "jump: { to: a }"], 2),
    ] {
        let why = check(&all(steps)).unwrap_err();
        let line = 10 + at;
        let begins = format!("f.yaml:{line}:");
        let key = format!("sessions.x.program.steps.client[{at}]: from here on");
        assert!(why.starts_with(&begins) && why.contains(&key), "{steps:?}: {why}");
        assert!(why.contains("think"), "{why}");
    }
    for steps in [
        &["label: a", "think: 1s", "jump: { to: a }"][..],
        &["label: a", "send: 1B", "jump: { to: a }"],
        &["label: a", "receive: 1B", "jump: { to: a }"],
        &["label: a", "add: { n: 1 }", "jump: { to: a, if: 'n < 40000' }"],
        &["repeat: { times: 4000000000, steps: [ { think: 1s } ] }"],
        &[
            "repeat: { times: 4000000000, steps: [ { repeat: { times: 9, steps: [ request, response ] } }, { send: 1B } ] }",
        ],
        &["label: a", "set: { n: 1 }", "jump: { to: a, if: 'n == 2' }"],
    ] {
        check(&all(steps)).unwrap();
    }
}

#[test]
fn what_datagrams_cannot_be_is_named_with_the_reason() {
    for (group, says) in [
        ("program: http", "sessions.x.program: HTTP/1.1 needs a stream"),
        ("program: bulk", "sessions.x.program: as much data as goes through"),
        ("program: echo, tcp: { reset: true }", "sessions.x.tcp: over UDP there is no TCP"),
        (
            "program: { echo: { size: 65508B } }",
            "sessions.x.program.size: a message of 65508 bytes is longer",
        ),
        (
            "program: { request-response: { request: 0B } }",
            "sessions.x.program.request: a datagram of no bytes",
        ),
        (
            "program: { steps: { client: [ wait-close ] } }",
            "sessions.x.program.client: there is no connection to close",
        ),
        (
            "program: { dns: { name: 'a..b' } }",
            "sessions.x.program.name: a label of 'a..b' is empty",
        ),
        ("program: { dns: { ttl: 1500ms } }", "sessions.x.program.ttl: a TTL has whole seconds"),
        ("program: { dns: { type: AAAAA } }", "did you mean 'AAAA'"),
        (
            "program: echo, expect: [ 'connect.p99 < 1s' ]",
            "sessions.x.expect[0]: 'connect' is of TCP",
        ),
        (
            "program: echo, expect: [ 'rcode.nxdomain == 0' ]",
            "sessions.x.expect[0]: only the program 'dns'",
        ),
    ] {
        let text = format!(
            "  x: {{ from: a, to: b, transport: udp, servers: {{ ports: 80 }}, rate: 1/s, {group} }}"
        );
        let said = compiled(&text).unwrap_err();
        assert!(said.contains(says), "{group}: {said}");
    }
    for (group, says) in [
        ("program: echo, on-timeout: next", "sessions.x.on-timeout: over TCP nothing is lost"),
        (
            "program: { request-response: { numbers: false } }",
            "sessions.x.program.numbers: messages over TCP have no numbers",
        ),
    ] {
        let text =
            format!("  x: {{ from: a, to: b, servers: {{ ports: 80 }}, rate: 1/s, {group} }}");
        let said = compiled(&text).unwrap_err();
        assert!(said.contains(says), "{group}: {said}");
    }
}
