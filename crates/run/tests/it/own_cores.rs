//! Our own TCP on several cores of a port: each session is of one core at either end, and its answers come back to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use wirebeat_report::model::{End, Report, SessionEnd, Verdict};
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{
    Capability, Offload, Offloads, Options as Cable, Program, Testbed, require,
};

use crate::own_sessions::free;
use crate::servers::{PAGE, Server};
use crate::sessions::{StopAfter, balances, run, run_observed, side};
use crate::world::{cable, tried};

/// A cable whose ends take the frames of the engine `kernel` without a program of ours.
fn joining_cable() -> Testbed {
    let offloads = Offloads { gro: Offload::On, ..Offloads::default() };
    Testbed::pair(&Cable { offloads, ..Cable::default() }).unwrap()
}

/// The port at the end of this name, on so many of the first CPUs.
fn port(bed: &Testbed, name: &str, engine: &str, cores: usize) -> String {
    let end = if name == "a" { &bed.a } else { &bed.b };
    let cpus = (0..cores).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(", ");
    let interface = &end.link.name;
    format!(
        "{name}: {{ namespace: {name}, interface: {interface}, engine: {engine}, cores: [{cpus}] }}"
    )
}

/// Addresses of IPv6 on the link that nobody has, from number `first` on.
fn free_v6(bed: &Testbed, first: u16, count: u16) -> String {
    let address = |number: u16| {
        let mut segments = bed.b.ipv6.unwrap().segments();
        segments[7] = number;
        std::net::Ipv6Addr::from(segments)
    };
    format!("{}-{}", address(first), address(first + count - 1))
}

/// That all sessions of a port were of the core that their packets came to, and that it says how many there are.
fn comes_back(report: &Report, port: &str, cores: usize) {
    let stacks: Vec<_> = report.stacks.iter().filter(|stack| stack.port == port).collect();
    let [stack] = stacks[..] else { panic!("{stacks:#?}") };
    let (link, arrivals) = (&stack.link, &stack.arrivals);
    assert_eq!(
        (link.receive_drops, link.unresolved, arrivals.bad_checksum, arrivals.no_session),
        (0, 0, 0, 0),
        "{stack:#?}"
    );
    let said = stack.receive_mode.contains(&format!("to {cores} cores"));
    assert_eq!(said, cores > 1, "{}", stack.receive_mode);
}

/// That nothing of a run is left on the cable: no packet socket, no program, no promiscuous mode.
fn leaves_nothing(bed: &Testbed) {
    for end in [&bed.a, &bed.b] {
        let read = || std::fs::read_to_string("/proc/thread-self/net/packet");
        let sockets = end.namespace.run(read).unwrap().unwrap();
        assert_eq!(sockets.lines().count(), 1, "{sockets}");
        let link = end.netlink().unwrap().link_by_index(end.link.index).unwrap();
        assert!(link.xdp.is_none(), "{link:?}");
    }
}

fn asks_a_real_server(bed: &Testbed, engine: &str) {
    let nginx = Server::nginx(bed);
    // a connection of the host itself on the same interface, before and after
    let address = SocketAddr::new(bed.b.ipv4.into(), 80);
    let mut own = bed.a.namespace.run(|| TcpStream::connect(address)).unwrap().unwrap();
    own.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut ask = || {
        own.write_all(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut came = Vec::new();
        let mut some = [0; 4096];
        while came.len() < PAGE as usize {
            let len = own.read(&mut some).unwrap();
            assert!(len > 0, "the host's own connection goes on");
            came.extend_from_slice(&some[..len]);
        }
        came.starts_with(b"HTTP/1.1 200")
    };
    assert!(ask());
    let report = run(
        bed,
        &format!(
            "ports: {{ {} }}\nsessions:\n  web: {{ from: a, stack: own, clients: {{ addresses: {} }}, \
             servers: {{ addresses: \"{{B}}\", ports: [80, 81] }}, program: {{ http: {{ target: /page, requests: 4 }} }}, \
             rate: 200/s, count: 301 }}\n",
            port(bed, "a", engine, 2),
            free(bed, 100, 50),
        ),
        &Stop::new(),
    );
    balances(&report);
    assert_eq!((report.verdict, &report.end), (Verdict::Done, &End::Completed), "{report:#?}");
    let web = side(&report, "web", SessionEnd::Client);
    assert_eq!((web.starts.opened, web.ends.in_order), (301, 301), "{report:#?}");
    assert_eq!((web.messages.responses, report.stacks[0].segments.syn), (1204, 301));
    comes_back(&report, "a", 2);
    assert!(ask());
    assert_eq!(nginx.tally(200, 1206), (1206, 1206 * PAGE));
    leaves_nothing(bed);
}

#[test]
fn two_cores_ask_a_real_server() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    asks_a_real_server(&cable(), "packet");
}

#[test]
fn two_cores_ask_a_real_server_over_the_kernel_engine() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("nginx")
    );
    asks_a_real_server(&joining_cable(), "kernel");
}

/// Both ends are ours, with as many cores as are said: what one sent the other received.
fn speaks_to_itself(bed: &Testbed, engine: &str, [a, b]: [usize; 2], pools: [&str; 2]) {
    let [clients, servers] = pools;
    let report = run(
        bed,
        &format!(
            "ports: {{ {}, {} }}\nsessions:\n  web: {{ from: a, to: b, stack: own, clients: {{ addresses: \"{clients}\" }}, \
             servers: {{ addresses: \"{servers}\", ports: 80-84 }}, program: {{ http: {{ size: 20kB, requests: 3 }} }}, \
             rate: 500/s, count: 401 }}\n  \
             users: {{ from: a, to: b, stack: own, clients: {{ addresses: \"{clients}\" }}, \
             servers: {{ addresses: \"{servers}\", ports: 9000 }}, program: {{ echo: {{ messages: 5 }} }}, users: 5, count: 50 }}\n",
            port(bed, "a", engine, a),
            port(bed, "b", engine, b),
        ),
        &Stop::new(),
    );
    balances(&report);
    assert_eq!((report.verdict, &report.end), (Verdict::Done, &End::Completed), "{report:#?}");
    for (name, sessions) in [("web", 401), ("users", 50)] {
        let (client, server) =
            (side(&report, name, SessionEnd::Client), side(&report, name, SessionEnd::Server));
        assert_eq!(
            (client.ends.in_order, server.ends.in_order),
            (sessions, sessions),
            "{report:#?}"
        );
        assert_eq!((client.messages.damaged, server.messages.damaged), (0, 0));
        assert_eq!(client.bytes.delivered, server.bytes.sent);
    }
    let web = side(&report, "web", SessionEnd::Client);
    assert_eq!((web.messages.responses, web.bytes.verified), (1203, 1203 * 20_000));
    comes_back(&report, "a", a);
    comes_back(&report, "b", b);
    leaves_nothing(bed);
}

#[test]
fn cores_of_both_ends_speak_to_each_other() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let (clients, servers) = (free(&bed, 100, 20), free(&bed, 200, 3));
    for cores in [[2, 2], [2, 1], [1, 2]] {
        speaks_to_itself(&bed, "packet", cores, [&clients, &servers]);
    }
}

#[test]
fn cores_of_both_ends_speak_to_each_other_over_ipv6() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    if bed.b.ipv6.is_some() {
        let (clients, servers) = (free_v6(&bed, 0x100, 20), free_v6(&bed, 0x200, 3));
        speaks_to_itself(&bed, "packet", [2, 2], [&clients, &servers]);
    }
}

#[test]
fn cores_of_both_ends_speak_to_each_other_over_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let (clients, servers) = (free(&bed, 100, 20), free(&bed, 200, 3));
    speaks_to_itself(&bed, "kernel", [2, 2], [&clients, &servers]);
}

/// The system's clients take every second port, and each connection is served by one of the cores.
#[test]
fn the_systems_clients_are_served_by_two_cores() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let server = free(&bed, 77, 1);
    let server = server.split('-').next().unwrap();
    let stop = Stop::new();
    let text = format!(
        "ports: {{ {}, b: {{ namespace: b, addresses: [\"{{B}}\"] }} }}\nsessions:\n  \
         served: {{ to: a, stack: own, servers: {{ addresses: {server}, ports: 80 }}, program: {{ http: {{ size: 30kB }} }} }}\n  \
         asks: {{ from: b, servers: {{ addresses: {server}, ports: 80 }}, program: {{ http: {{ expect-size: 30kB, requests: 2 }} }}, \
         rate: 200/s, count: 200 }}\nrun: {{ time: 60s }}\n",
        port(&bed, "a", "packet", 2),
    );
    let report = run_observed(&bed, &text, &stop, &mut StopAfter::new(200, &stop));
    balances(&report);
    let (asks, served) =
        (side(&report, "asks", SessionEnd::Client), side(&report, "served", SessionEnd::Server));
    assert_eq!((asks.ends.in_order, served.ends.in_order), (200, 200), "{report:#?}");
    assert_eq!((asks.messages.unexpected, served.messages.responses), (0, 400));
    comes_back(&report, "a", 2);
    leaves_nothing(&bed);
}

/// Every core knows the next hops, and one of them answers for our hosts: once.
#[test]
fn one_core_answers_pings_and_arp() {
    require!(Capability::NetworkNamespaces, Capability::Program("busybox"));
    let bed = cable();
    let host = free(&bed, 77, 1);
    let host = host.split('-').next().unwrap().to_owned();
    let stop = Stop::new();
    let text = format!(
        "ports: {{ {} }}\nsessions:\n  x: {{ to: a, stack: own, servers: {{ addresses: {host}, ports: 80 }}, program: http }}\n\
         run: {{ time: 60s }}\n",
        port(&bed, "a", "packet", 2),
    );
    let asked = stop.clone();
    let (namespace, interface) = (bed.b.namespace.clone(), bed.b.link.name.clone());
    let asking = std::thread::spawn(move || {
        let busybox = |arguments: &str| {
            let program = Program::new(&namespace, "busybox").args(arguments.split(' '));
            program.output(Duration::from_secs(30)).unwrap().stdout
        };
        // until the host is there
        let ping = || busybox(&format!("ping -c 3 -W 5 {host}"));
        let mut pinged = ping();
        for _ in 0..20 {
            if pinged.contains("3 packets received") {
                break;
            }
            pinged = ping();
        }
        let said = [pinged, busybox(&format!("arping -c 3 -I {interface} {host}"))];
        asked.ask(2);
        said
    });
    let report = run(&bed, &text, &stop);
    let [pinged, asked] = asking.join().unwrap();
    assert!(pinged.contains("3 packets transmitted, 3 packets received"), "{pinged}");
    assert!(!pinged.contains("dup") && !pinged.contains("DUP"), "{pinged}");
    assert!(asked.contains("Received 3 "), "{asked}");
    comes_back(&report, "a", 2);
}

/// Client ports that are given are shared by the cores; where one of them would have none, that is said before the start.
#[test]
fn cores_share_client_ports_that_are_given() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    let bed = cable();
    let nginx = Server::nginx(&bed);
    let text = |ports: &str| {
        format!(
            "ports: {{ {} }}\nsessions:\n  web: {{ from: a, stack: own, clients: {{ addresses: {}, ports: \"{ports}\" }}, \
             servers: {{ addresses: \"{}\", ports: 80 }}, program: {{ http: {{ target: /page }} }}, rate: 200/s, count: 160 }}\n",
            port(&bed, "a", "packet", 2),
            free(&bed, 100, 2),
            bed.b.ipv4,
        )
    };
    let report = run(&bed, &text("5000-5099"), &Stop::new());
    balances(&report);
    let web = side(&report, "web", SessionEnd::Client);
    // each has its port for a minute, of the 100 of each of two addresses
    assert_eq!(web.ends.in_order, 160, "{report:#?}");
    comes_back(&report, "a", 2);
    assert_eq!(nginx.tally(200, 160).0, 160);
    let one = text("5000").replace("count: 160", "count: 1");
    let error = tried(&one, Some(&bed)).map(drop).unwrap_err().to_string();
    assert!(error.contains("some of 2 cores have no port among these"), "{error}");
}

/// In memory there is one thread, whatever is written.
#[test]
fn cores_mean_nothing_in_memory() {
    let text = "ports: { a: { engine: loopback, cores: [0, 1] }, b: { engine: loopback, cores: [0, 1] } }\nsessions:\n  \
                web: { from: a, to: b, stack: own, clients: { addresses: 10.0.1.1-10.0.1.9 }, \
                servers: { addresses: 10.0.2.9, ports: 80 }, program: http, rate: 50/s, count: 100 }\n";
    let report = tried(text, None).unwrap_or_else(|error| panic!("{error}"));
    let report = report.start(&mut Silent, &Stop::new());
    balances(&report);
    assert_eq!(side(&report, "web", SessionEnd::Client).ends.in_order, 100, "{report:#?}");
}
