//! The hosts of our own TCP on a link: an Ethernet address for each, and both ends of sessions at one port.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use wirebeat_report::model::{Report, SessionEnd};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Options as Cable, Testbed, require};
use wirebeat_traffic::scenario::Scenario;

use crate::own_sessions::{free, joining_cable, own_port};
use crate::servers::Server;
use crate::sessions::{balances, run, side};
use crate::world::{cable, scratch_folder};

/// What a command says in the namespace of the end `b`, which has to like it.
fn at_b(bed: &Testbed, command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let output = bed.b.namespace.run(|| Command::new(words[0]).args(&words[1..]).output());
    let output = output.unwrap().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The Ethernet addresses that the system of the end `b` knows, by IP address.
fn known_to_b(bed: &Testbed) -> BTreeMap<String, String> {
    let neighbours = at_b(bed, &format!("ip neighbour show dev {}", bed.b.link.name));
    let known = neighbours.lines().filter_map(|line| {
        let (address, rest) = line.split_once(" lladdr ")?;
        Some((address.to_owned(), rest.split(' ').next()?.to_owned()))
    });
    known.collect()
}

/// That the interface of the end `a` is as it was.
fn leaves_no_trace(bed: &Testbed) {
    let link = bed.a.link.name.clone();
    let show = || Command::new("ip").args(["-d", "link", "show", &link]).output();
    let told = bed.a.namespace.run(show).unwrap().unwrap();
    let told = String::from_utf8_lossy(&told.stdout);
    assert!(told.contains(" promiscuity 0") && !told.contains("xdp"), "{told}");
}

/// A peer of the system sees as many stations as there are addresses, and answers each of them.
fn is_many_stations(bed: &Testbed, engine: &str) {
    let _nginx = Server::nginx(bed);
    let report = run(
        bed,
        &format!(
            "ports: {{ {} }}\nsessions:\n  web: {{ from: a, stack: own, clients: {{ addresses: {}, \
             mac: {{ increment: \"02:57:00:00:01:00\", step: 3 }} }}, \
             servers: {{ addresses: \"{{B}}\", ports: 80 }}, program: {{ http: {{ target: /page, requests: 2 }} }}, rate: 200/s, count: 100 }}\n",
            own_port(bed, engine),
            free(bed, 100, 50),
        ),
        &Stop::new(),
    );
    balances(&report);
    let web = side(&report, "web", SessionEnd::Client);
    assert_eq!((web.ends.in_order, web.messages.responses), (100, 200), "{report:#?}");
    assert_eq!(report.stacks[0].link.unresolved, 0, "{:?}", report.stacks[0]);
    let known = known_to_b(bed);
    let [a, b, c, _] = bed.b.ipv4.octets();
    for number in 0..50_u8 {
        let address = format!("{a}.{b}.{c}.{}", 100 + number);
        let expected = format!("02:57:00:00:01:{:02x}", 3 * number);
        assert_eq!(known.get(&address), Some(&expected), "{address}: {known:?}");
    }
    leaves_no_trace(bed);
}

#[test]
fn a_peer_sees_a_station_for_each_address() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    is_many_stations(&Testbed::pair(&Cable::default()).unwrap(), "packet");
}

#[test]
fn a_peer_sees_a_station_for_each_address_over_the_kernel_engine() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("nginx")
    );
    is_many_stations(&joining_cable(), "kernel");
}

#[test]
fn each_address_has_a_station_at_both_ends_of_a_link_in_memory() {
    require!(Capability::Program("tshark"));
    let file = scratch_folder().join("own-hosts.pcapng");
    let text = format!(
        "ports:\n  a: {{ engine: loopback }}\n  b: {{ engine: pcap, file: '{}' }}\nsessions:\n  \
         web: {{ from: a, to: b, stack: own, program: http, count: 12, rate: 100/s, \
         clients: {{ addresses: [2001:db8::1, \"2001:db8::11-2001:db8::15\"], mac: {{ decrement: \"02:00:00:00:01:01\" }} }}, \
         servers: {{ addresses: \"2001:db8:1::1-2001:db8:1::2\", ports: 80, mac: {{ list: [\"06:00:00:00:00:07\", \"02:00:00:00:00:09\"] }} }} }}\n",
        file.display()
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let report = prepare(&scenario, Options::default()).unwrap().start(&mut Silent, &Stop::new());
    balances(&report);
    assert_eq!(side(&report, "web", SessionEnd::Client).ends.in_order, 12, "{report:#?}");
    let fields = ["-Y", "tcp", "-T", "fields", "-e", "eth.src", "-e", "ipv6.src"];
    let output = Command::new("tshark").arg("-r").arg(&file).args(fields).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let stations: BTreeSet<&str> = told.lines().collect();
    let expected = [
        "02:00:00:00:00:09\t2001:db8:1::2",
        "02:00:00:00:00:fc\t2001:db8::15",
        "02:00:00:00:00:fd\t2001:db8::14",
        "02:00:00:00:00:fe\t2001:db8::13",
        "02:00:00:00:00:ff\t2001:db8::12",
        "02:00:00:00:01:00\t2001:db8::11",
        "02:00:00:00:01:01\t2001:db8::1",
        "06:00:00:00:00:07\t2001:db8:1::1",
    ];
    assert_eq!(stations.into_iter().collect::<Vec<_>>(), expected);
    fs::remove_file(file).unwrap();
}

#[test]
fn pools_that_say_different_of_an_address_are_refused() {
    let group = |name: &str, port: u16, mac: &str| {
        format!(
            "  {name}: {{ from: a, to: b, stack: own, program: http, count: 1, clients: {{ addresses: 10.0.1.1-10.0.1.9, mac: \"{mac}\" }}, \
             servers: {{ addresses: 10.0.2.9, ports: {port} }} }}\n"
        )
    };
    let tried = |second: &str| {
        let text = "ports: { a: { engine: loopback }, b: { engine: loopback } }\nsessions:\n"
            .to_owned()
            + &group("x", 80, "02:00:00:00:00:01")
            + &group("y", 81, second);
        let scenario = Scenario::from_yaml(&text, "").unwrap();
        prepare(&scenario, Options::default()).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(tried("02:00:00:00:00:01"), Ok(()));
    let error = tried("02:00:00:00:00:02").unwrap_err();
    assert!(error.contains("10.0.1.1 is in two pools"), "{error}");
}

/// Both ends of 300 sessions at one port, with these keys of the port and of the pools of clients and servers.
fn hairpins(bed: &Testbed, engine: &str, (port, clients, servers): (&str, &str, &str)) -> Report {
    let report = run(
        bed,
        &format!(
            "ports: {{ a: {{ namespace: a, interface: {}, engine: {engine}{port} }} }}\nsessions:\n  \
             web: {{ from: a, to: a, stack: own, clients: {{ {clients} }}, servers: {{ {servers}, ports: 80 }}, \
             program: {{ http: {{ size: 20kB, requests: 3 }} }}, rate: 300/s, count: 300 }}\n",
            bed.a.link.name
        ),
        &Stop::new(),
    );
    balances(&report);
    let (client, server) =
        (side(&report, "web", SessionEnd::Client), side(&report, "web", SessionEnd::Server));
    assert_eq!((client.ends.in_order, server.ends.in_order), (300, 300), "{report:#?}");
    assert_eq!((client.messages.responses, client.bytes.verified), (900, 900 * 20_000));
    assert_eq!(client.bytes.delivered, server.bytes.sent);
    let stack = &report.stacks[0];
    assert_eq!((report.stacks.len(), stack.link.unresolved), (1, 0), "{stack:#?}");
    assert_eq!(stack.arrivals.bad_checksum, 0, "{stack:#?}");
    leaves_no_trace(bed);
    report
}

/// A router of the system with one interface: between the network of the cable and another one on the same link.
fn through_a_router(bed: &Testbed, engine: &str, (cores, mac): (&str, &str)) {
    let link = &bed.b.link.name;
    at_b(bed, "sysctl -w net.ipv4.ip_forward=1");
    for of in ["all", link] {
        at_b(bed, &format!("sysctl -w net.ipv4.conf.{of}.send_redirects=0"));
    }
    at_b(bed, &format!("ip address add 198.51.100.254/24 dev {link}"));
    let forwarded = || {
        let snmp = bed.b.namespace.run(|| fs::read_to_string("/proc/thread-self/net/snmp"));
        let snmp = snmp.unwrap().unwrap();
        let line = snmp.lines().filter(|line| line.starts_with("Ip:")).nth(1).unwrap().to_owned();
        line.split(' ').nth(6).unwrap().parse::<u64>().unwrap()
    };
    let before = forwarded();
    let report = hairpins(
        bed,
        engine,
        (
            &format!(", hosts: {{ gateways: [ {} ] }}{cores}", bed.b.ipv4),
            &format!("addresses: {}", free(bed, 100, 20)),
            &format!("addresses: 198.51.100.9-198.51.100.12{mac}"),
        ),
    );
    // each packet went through the router; one that came in a large packet of segments was counted once
    let sent = report.stacks[0].segments.all;
    assert!(forwarded() - before > sent / 50, "{} {sent}", forwarded() - before);
}

#[test]
fn both_ends_at_one_port_speak_through_a_router() {
    require!(Capability::NetworkNamespaces);
    through_a_router(&cable(), "packet", ("", ""));
}

#[test]
fn both_ends_at_one_port_speak_through_a_router_over_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let mac = ", mac: { increment: \"02:57:00:00:02:00\" }";
    through_a_router(&joining_cable(), "kernel", ("", mac));
}

#[test]
fn both_ends_on_two_cores_of_one_port_speak_through_a_router() {
    require!(Capability::NetworkNamespaces);
    let mac = ", mac: { decrement: \"02:57:00:00:02:ff\" }";
    through_a_router(&cable(), "packet", (", cores: [0, 1]", mac));
}

#[test]
fn both_ends_at_one_port_speak_through_a_bridge_that_sends_frames_back() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let link = &bed.b.link.name;
    at_b(&bed, "ip link add name back type bridge");
    at_b(&bed, &format!("ip link set dev {link} master back"));
    at_b(&bed, &format!("ip link set dev {link} type bridge_slave hairpin on"));
    at_b(&bed, "ip link set dev back up");
    hairpins(
        &bed,
        "packet",
        (
            "",
            "addresses: 198.51.100.100-198.51.100.119, mac: { increment: \"02:57:00:00:01:00\" }",
            "addresses: 198.51.100.9, mac: \"02:57:00:00:02:00\"",
        ),
    );
}

#[test]
fn a_second_run_with_addresses_of_the_first_on_an_interface_is_refused() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let named = [("a", &bed.a), ("b", &bed.b)];
    let opened = |from: u8, count: u8, end: &str, port: &str| {
        let link = if end == "a" { &bed.a.link.name } else { &bed.b.link.name };
        let text = format!(
            "ports: {{ a: {{ namespace: {end}, interface: {link}, engine: packet{port} }} }}\nsessions:\n  x: {{ from: a, stack: own, \
             clients: {{ addresses: {} }}, servers: {{ addresses: 198.51.100.1, ports: 80 }}, program: http, count: 1 }}\n",
            free(&bed, from, count)
        );
        let scenario =
            Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let namespaces = named.map(|(name, end)| (name.to_owned(), end.namespace.clone()));
        let options = Options { namespaces: namespaces.into(), ..Options::default() };
        prepare(&scenario, options).map_err(|error| (error.exit_code(), error.to_string()))
    };
    let first = opened(100, 20, "a", "").unwrap_or_else(|(_, error)| panic!("{error}"));
    let (code, error) = opened(119, 10, "a", "").map(drop).unwrap_err();
    let taken = free(&bed, 119, 1);
    let taken = taken.split('-').next().unwrap();
    assert_eq!(code, 3, "{error}");
    assert!(error.contains(taken) && error.contains(&bed.a.link.name), "{error}");
    // others are free: beside them, and in a VLAN
    for (from, port) in [(120, ""), (100, ", hosts: { vlan: 7 }")] {
        opened(from, 10, "a", port).map(drop).unwrap_or_else(|(_, error)| panic!("{error}"));
    }
    drop(first);
    opened(119, 10, "a", "").map(drop).unwrap_or_else(|(_, error)| panic!("{error}"));
}
