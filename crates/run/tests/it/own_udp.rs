//! Sessions over UDP of our own stack: at both ends, beside TCP on the same port, and with peers of the system.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use wirebeat_report::model::{End, Report, SessionEnd, Verdict};
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{Capability, Program, Testbed, require};

use crate::own_sessions::{free, joining_cable, own_port};
use crate::sessions::{StopAfter, balances, run, run_observed, side};
use crate::world::{cable, tried};

/// A run in memory.
fn in_no_time(text: &str) -> Report {
    let prepared = tried(text, None).unwrap_or_else(|error| panic!("{error}"));
    prepared.start(&mut Silent, &Stop::new())
}

/// The first address of a pool.
fn first(pool: &str) -> &str {
    pool.split('-').next().unwrap()
}

#[test]
fn both_ends_in_no_time_agree_lose_what_the_cable_loses_and_repeat() {
    let text = "ports:\n  a: { engine: loopback, cable: { delay: 5ms, loss: 0.01 } }\n  \
                b: { engine: loopback, cable: { delay: 5ms, loss: 0.01 } }\nsessions:\n  \
                ask: { from: a, to: b, stack: own, transport: udp, clients: { addresses: 10.0.1.1-10.0.1.9 }, \
                servers: { addresses: 10.0.2.9, ports: 7000 }, rate: 100/s, count: 500, timeout: 1s, on-timeout: next, \
                program: { request-response: { request: 50B, response: 900B, requests: 4 } } }\n  \
                names: { from: a, to: b, stack: own, transport: udp, clients: { addresses: 10.0.1.1-10.0.1.9 }, \
                servers: { addresses: 10.0.2.9, ports: 53 }, users: 2, count: 10, timeout: 1s, on-timeout: next, \
                program: { dns: { name: 'host-{n}.example.com', requests: 5, answers: [10.0.0.1] } } }\n  \
                web: { from: a, to: b, stack: own, clients: { addresses: 10.0.1.1-10.0.1.9 }, \
                servers: { addresses: 10.0.2.9, ports: 53 }, users: 2, count: 20, timeout: 60s, program: http }\n\
                run: { time: 30s }\n";
    let report = in_no_time(text);
    balances(&report);
    assert_eq!((report.verdict, &report.end), (Verdict::Done, &End::Completed), "{report:#?}");
    let (client, server) =
        (side(&report, "ask", SessionEnd::Client), side(&report, "ask", SessionEnd::Server));
    assert_eq!((client.starts.opened, client.transport.as_deref()), (500, Some("udp")));
    let messages = client.messages;
    assert_eq!((messages.requests, messages.responses + messages.lost), (2000, 2000));
    // 2 % of 2,000, within six standard deviations
    assert!((5..80).contains(&messages.lost), "{messages:?}");
    assert_eq!((messages.damaged, messages.unexpected, messages.late), (0, 0, 0));
    assert_eq!(client.bytes.delivered, messages.responses * 900);
    assert_eq!(server.messages.requests, server.messages.responses);
    // there and back in 10 ms, and no time but that of the cable
    let fastest = client.times.response.as_ref().unwrap().planned_ns.min.unwrap();
    assert!((10_000_000..10_100_000).contains(&fastest), "{fastest}");
    assert_eq!(side(&report, "names", SessionEnd::Client).messages.requests, 50);
    // TCP has the same port at the same address
    assert_eq!(side(&report, "web", SessionEnd::Client).ends.in_order, 20);
    let again = in_no_time(text);
    assert_eq!(report.sessions, again.sessions);
}

/// Both ends are ours, with as many cores as are said: what one sent the other received, over UDP and TCP.
fn speaks_to_itself(bed: &Testbed, engine: &str, [a, b]: [usize; 2], pools: [&str; 2]) {
    let port = |name: &str, cores: usize| {
        let end = if name == "a" { &bed.a } else { &bed.b };
        let cpus = (0..cores).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(", ");
        let interface = &end.link.name;
        format!(
            "{name}: {{ namespace: {name}, interface: {interface}, engine: {engine}, cores: [{cpus}] }}"
        )
    };
    let [clients, servers] = pools;
    let group = |name: &str, port: u16, more: &str| {
        format!(
            "  {name}: {{ from: a, to: b, stack: own, clients: {{ addresses: \"{clients}\" }}, \
             servers: {{ addresses: \"{servers}\", ports: {port} }}, timeout: 2s, {more} }}\n"
        )
    };
    let asks = "program: { request-response: { request: 64B, response: 1400B, requests: 3 } }, rate: 500/s, count: 400, transport: udp";
    let sends = "program: { messages: { size: 200B, gap: 2ms, messages: 100 } }, users: 3, count: 6, transport: udp";
    let text = format!(
        "ports: {{ {}, {} }}\nsessions:\n{}{}{}",
        port("a", a),
        port("b", b),
        group("asks", 9000, asks),
        group("sends", 9001, sends),
        group("web", 9000, "program: { http: { size: 20kB } }, rate: 200/s, count: 100"),
    );
    let report = run(bed, &text, &Stop::new());
    balances(&report);
    assert_eq!((report.verdict, &report.end), (Verdict::Done, &End::Completed), "{report:#?}");
    let (client, server) =
        (side(&report, "asks", SessionEnd::Client), side(&report, "asks", SessionEnd::Server));
    assert_eq!((client.ends.in_order, client.messages.responses), (400, 1200), "{client:#?}");
    assert_eq!((server.messages.requests, server.messages.responses), (1200, 1200));
    assert_eq!((client.bytes.verified, client.messages.damaged), (1200 * 1392, 0));
    let way = side(&report, "sends", SessionEnd::Server).one_way.as_ref().unwrap();
    assert_eq!((way.received, way.lost), (600, 0), "{way:#?}");
    assert_eq!(side(&report, "web", SessionEnd::Client).ends.in_order, 100);
    for stack in &report.stacks {
        let (link, arrivals) = (&stack.link, &stack.arrivals);
        let strange = (arrivals.bad_checksum, arrivals.no_session, link.unresolved);
        assert_eq!(strange, (0, 0, 0), "{stack:#?}");
        let of = stack.datagrams.unwrap();
        assert_eq!((of.malformed, of.bad_checksum, of.no_session), (0, 0, 0), "{of:?}");
    }
}

#[test]
fn datagrams_and_connections_share_a_port_and_its_cores() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let (clients, servers) = (free(&bed, 100, 20), free(&bed, 200, 3));
    for cores in [[1, 1], [2, 2]] {
        speaks_to_itself(&bed, "packet", cores, [&clients, &servers]);
    }
}

#[test]
fn datagrams_and_connections_share_a_port_over_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let (clients, servers) = (free(&bed, 100, 20), free(&bed, 200, 3));
    for cores in [[1, 1], [2, 2]] {
        speaks_to_itself(&bed, "kernel", cores, [&clients, &servers]);
    }
}

#[test]
fn datagrams_and_connections_share_a_port_over_ipv6() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let Some(address) = bed.b.ipv6 else { return };
    let free = |last: u16| {
        let mut segments = address.segments();
        segments[7] = last;
        std::net::Ipv6Addr::from(segments)
    };
    let clients = format!("{}-{}", free(0x100), free(0x113));
    let servers = format!("{}-{}", free(0x200), free(0x202));
    speaks_to_itself(&bed, "packet", [1, 1], [&clients, &servers]);
}

/// Datagrams that the system's sockets of a namespace received, and those with a wrong checksum (`/proc/net/snmp`).
fn system_counted(bed: &Testbed) -> [u64; 2] {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let text = bed.b.namespace.run(read).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let of = |wanted: &str| {
        let place = names.split(' ').position(|name| name == wanted).unwrap();
        values.split(' ').nth(place).unwrap().parse().unwrap()
    };
    ["InDatagrams", "InCsumErrors"].map(of)
}

/// A socket of the system sends each datagram back; its kernel verifies our checksums, and leaves its own to a card.
#[test]
fn the_system_takes_our_datagrams_and_we_take_its() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let at = SocketAddr::new(bed.b.ipv4.into(), 7);
    let socket = bed.b.namespace.run(|| UdpSocket::bind(at)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let before = system_counted(&bed);
    let echo = thread::spawn(move || {
        let mut into = [0; 2000];
        let mut sources = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let (len, from) = socket.recv_from(&mut into).unwrap();
            sources.insert(from.ip());
            socket.send_to(&into[..len], from).unwrap();
        }
        sources.len()
    });
    let report = run(
        &bed,
        &format!(
            "ports: {{ {} }}\nsessions:\n  x: {{ from: a, stack: own, transport: udp, clients: {{ addresses: {} }}, \
             servers: {{ addresses: \"{{B}}\", ports: 7 }}, rate: 500/s, count: 100, timeout: 5s, \
             program: {{ echo: {{ size: 333B, messages: 3 }} }} }}\n",
            own_port(&bed, "packet"),
            free(&bed, 100, 50),
        ),
        &Stop::new(),
    );
    balances(&report);
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    assert_eq!(echo.join().unwrap(), 50, "each client address asks");
    let client = side(&report, "x", SessionEnd::Client);
    assert_eq!((client.ends.in_order, client.messages.responses), (100, 300), "{client:#?}");
    assert_eq!(client.bytes.delivered, 300 * 333);
    let of = report.stacks[0].datagrams.unwrap();
    assert_eq!((of.sent, of.received, of.packets), (300, 300, 300), "{of:?}");
    let after = system_counted(&bed);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [300, 0]);
}

#[test]
fn a_port_where_nobody_listens_refuses_sessions() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let report = run(
        &bed,
        &format!(
            "ports: {{ {} }}\nsessions:\n  x: {{ from: a, stack: own, transport: udp, clients: {{ addresses: {} }}, \
             servers: {{ addresses: \"{{B}}\", ports: 7 }}, rate: 100/s, count: 5, timeout: 2s, program: echo }}\n",
            own_port(&bed, "packet"),
            free(&bed, 100, 5),
        ),
        &Stop::new(),
    );
    balances(&report);
    let client = side(&report, "x", SessionEnd::Client);
    // the kernel limits how many errors it sends to one host (icmp_ratelimit), and each has one session here
    assert_eq!((client.ends.refused, client.starts.established), (5, 0), "{client:#?}");
}

#[test]
fn a_real_name_server_answers_our_own_clients() {
    require!(Capability::NetworkNamespaces, Capability::Program("dnsmasq"));
    let bed = cable();
    let server = || {
        let mut command = Command::new("dnsmasq");
        command
            .args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null"])
            .args(["--bind-interfaces", "--user=root", "--pid-file=", "--local=/example.com/"])
            .args([&format!("--listen-address={}", bed.b.ipv4), "--port=53"])
            .args(["--address=/www.example.com/10.9.8.7", "--cache-size=0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    let mut dnsmasq = bed.b.namespace.run(server).unwrap().unwrap();
    let listens = || {
        let text = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
        text.lines().any(|line| line.contains(":0035 "))
    };
    for _ in 0..500 {
        if bed.b.namespace.run(listens).unwrap() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let report = run(
        &bed,
        &format!(
            "ports: {{ {} }}\nsessions:\n  x: {{ from: a, stack: own, transport: udp, clients: {{ addresses: {} }}, \
             servers: {{ addresses: \"{{B}}\", ports: 53 }}, rate: 200/s, count: 100, timeout: 5s, \
             program: {{ dns: {{ name: www.example.com, requests: 2 }} }}, expect: [ rcode.noerror == 200 ] }}\n",
            own_port(&bed, "packet"),
            free(&bed, 100, 50),
        ),
        &Stop::new(),
    );
    let _ = dnsmasq.kill();
    let _ = dnsmasq.wait();
    balances(&report);
    let client = side(&report, "x", SessionEnd::Client);
    assert!(client.expectations.iter().all(|expectation| expectation.met), "{client:#?}");
    assert_eq!((client.ends.in_order, client.messages.responses), (100, 200), "{client:#?}");
}

#[test]
fn our_own_server_answers_a_real_resolver() {
    require!(Capability::NetworkNamespaces, Capability::Program("dig"));
    for engine in ["packet", "kernel"] {
        if engine == "kernel" {
            require!(Capability::XdpLiveFrames);
        }
        let bed = if engine == "kernel" { joining_cable() } else { cable() };
        let servers = free(&bed, 77, 1);
        let stop = Stop::new();
        let text = format!(
            "ports: {{ {} }}\nsessions:\n  x: {{ to: a, stack: own, transport: udp, servers: {{ addresses: {}, ports: 53 }}, \
             timeout: 200ms, program: {{ dns: {{ answers: [10.0.0.7] }} }} }}\nrun: {{ time: 60s }}\n",
            own_port(&bed, engine),
            first(&servers),
        );
        let (namespace, server) = (bed.b.namespace.clone(), first(&servers).to_owned());
        let asking = thread::spawn(move || {
            let line = format!("@{server} +short +tries=20 +time=1 www.example.com A");
            let dig = Program::new(&namespace, "dig").args(line.split(' '));
            dig.output(Duration::from_secs(40)).unwrap().stdout
        });
        let report = run_observed(&bed, &text, &stop, &mut StopAfter::new(1, &stop));
        assert_eq!(asking.join().unwrap().trim(), "10.0.0.7", "{engine}: {report:#?}");
        balances(&report);
        let server = side(&report, "x", SessionEnd::Server);
        assert!(server.messages.responses >= 1, "{server:#?}");
    }
}

/// Datagrams from 200 sources that are not on the link, where no gateway is: three ARP broadcasts left for each. From a broadcast address,
/// where the system sends nothing: it was counted as a failure of ours.
#[test]
fn invented_sources_make_us_ask_for_nobody_and_fail_nowhere() {
    require!(Capability::NetworkNamespaces);
    for stack in ["own", "host"] {
        let bed = cable();
        let free = free(&bed, 77, 1);
        let [a, b, c, _] = bed.a.ipv4.octets();
        let own_mac = "02:00:5e:00:53:77";
        let (to, more, mac, source) = match stack {
            "own" => (
                first(&free).to_owned(),
                format!(", mac: \"{own_mac}\""),
                own_mac.to_owned(),
                "{ increment: 198.51.100.1, count: 200 }".to_owned(),
            ),
            _ => {
                let broadcast = format!("{a}.{b}.{c}.255");
                (bed.a.ipv4.to_string(), String::new(), bed.a.mac.to_string(), broadcast)
            }
        };
        let report = run(
            &bed,
            &format!(
                "ports: {{ {}, b: {{ namespace: b, interface: {}, engine: packet }} }}\nsessions:\n  \
                 x: {{ to: a, stack: {stack}, transport: udp, servers: {{ addresses: {to}, ports: 9000{more} }}, timeout: 500ms, program: echo }}\n\
                 flows:\n  f: {{ from: b, packet: [ {{ ethernet: {{ destination: \"{mac}\" }} }}, {{ ipv4: {{ source: {source}, destination: {to} }} }}, \
                 {{ udp: {{ source: 7000, destination: 9000 }} }} ], rate: 400pps, count: 200 }}\nrun: {{ time: 2s }}\n",
                own_port(&bed, "packet"),
                bed.b.link.name,
            ),
            &Stop::new(),
        );
        let of = side(&report, "x", SessionEnd::Server);
        if stack == "own" {
            assert_eq!((of.starts.opened, of.messages.responses), (200, 200), "{of:#?}");
            let stack = &report.stacks[0];
            assert_eq!(stack.datagrams.map(|of| (of.received, of.sent)), Some((200, 200)));
            // those that look for duplicates of the server's address, and announce it
            assert!(stack.link.neighbour_frames < 20, "{stack:#?}");
        } else {
            assert_eq!(of.ends.failed_here, 0, "{of:#?}");
            assert!(of.ends.unreachable > 0, "{of:#?}");
        }
    }
}

/// What is known is refused before the start; a drawn message that is too long ends its session, and no other.
#[test]
fn messages_that_fit_no_packet_are_said() {
    let text = |size: &str| {
        format!(
            "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nsessions:\n  \
             x: {{ from: a, to: b, stack: own, transport: udp, clients: {{ addresses: 10.0.1.1 }}, \
             servers: {{ addresses: 10.0.2.9, ports: 7 }}, users: 1, count: 20, timeout: 1s, program: {{ echo: {{ size: {size} }} }} }}\n"
        )
    };
    let error = tried(&text("1473B"), None).map(drop).unwrap_err().to_string();
    assert!(error.contains("fits no packet of 1500 bytes"), "{error}");
    let report = in_no_time(&text("1472B"));
    assert_eq!(side(&report, "x", SessionEnd::Client).messages.responses, 20);
    let report = in_no_time(&text("{ uniform: { min: 1000B, max: 2000B } }"));
    balances(&report);
    let client = side(&report, "x", SessionEnd::Client);
    assert!(client.ends.in_order > 0 && client.ends.failed_here > 0, "{client:#?}");
    assert_eq!(client.ends.in_order + client.ends.failed_here, 20, "{client:#?}");
}
