//! Linux asks and pings our hosts, is asked by them, and has an address of theirs.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_neighbours::{Change, Conflict, Hosts, Link, Neighbours, Outcome, Settings, State};
use wirebeat_testbed::{Capability, End, Options, Output, Program, Testbed, require};

use crate::station::{OURS, Port, alive, check, until};

const PLAIN: Link = Link { mac: OURS, vlan: None };
const TIMEOUT: Duration = Duration::from_secs(60);

fn cable() -> Testbed {
    Testbed::pair(&Options::default()).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn hosts(ranges: &[(&str, &str)]) -> Hosts {
    Hosts::new(ranges.iter().map(|(first, last)| (ip(first), ip(last)))).unwrap()
}

/// A pool of 100 addresses of each version.
fn pool() -> Hosts {
    hosts(&[("10.77.0.100", "10.77.0.199"), ("fd77:6200::100", "fd77:6200::163")])
}

fn neighbours(link: Link, hosts: Hosts) -> Neighbours {
    Neighbours::new(Settings::new(link, hosts, [0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321]))
        .unwrap()
}

fn run(end: &End, program: &str, arguments: &str) -> Output {
    Program::new(&end.namespace, program).args(arguments.split(' ')).output(TIMEOUT).unwrap()
}

/// What ping says of three echoes of this size.
fn ping(end: &End, address: &str, size: u32) -> String {
    let program = if address.contains(':') { "ping6" } else { "ping" };
    run(end, "busybox", &format!("{program} -c 3 -i 0.2 -W 5 -s {size} {address}")).stdout
}

/// Whether the other end has IPv6; then addresses of both versions are tried.
fn tried<'a>(cable: &Testbed, addresses: &[&'a str]) -> Vec<&'a str> {
    let has_v6 = cable.b.ipv6.is_some();
    addresses.iter().copied().filter(|address| has_v6 || !address.contains(':')).collect()
}

#[test]
fn linux_pings_our_hosts_and_nobody_else_answers() {
    require!(
        Capability::NetworkNamespaces,
        Capability::VirtualCable,
        Capability::Program("busybox")
    );
    let cable = cable();
    let (mut port, mut hosts) = (Port::open(&cable.a), neighbours(PLAIN, pool()));
    let ours = ["10.77.0.100", "10.77.0.150", "10.77.0.199", "fd77:6200::100", "fd77:6200::163"];
    let ours = tried(&cable, &ours);
    alive(&mut port, &mut hosts, || {
        for address in &ours {
            for size in [0, 56, 1400] {
                let said = ping(&cable.b, address, size);
                assert!(
                    said.contains("3 packets transmitted, 3 packets received, 0% packet loss"),
                    "{said}"
                );
            }
        }
        // Linux has them all at our address.
        let table = run(&cable.b, "ip", "neigh show dev wb1").stdout;
        for address in &ours {
            let entry = table.lines().find(|line| line.split(' ').next() == Some(*address));
            assert!(
                entry.is_some_and(|line| line.contains(&format!("lladdr {OURS}"))),
                "{address}: {table}"
            );
        }
        for address in tried(&cable, &["10.77.0.99", "10.77.0.200", "fd77:6200::164"]) {
            let mut netlink = cable.b.netlink().unwrap();
            let found =
                netlink.neighbour(ip(address), cable.b.link.index, Duration::from_millis(500));
            assert!(found.is_err(), "{address} is at {found:?}");
        }
    });
    let counters = hosts.counters();
    assert!(counters.balance(), "{counters:?}");
    assert_eq!(counters.echo_replies, ours.len() as u64 * 9);
    assert!(counters.arp_replies >= 3, "{counters:?}");
    assert_eq!((hosts.conflict(), counters.buffer_too_short), (None, 0));
}

#[test]
fn our_hosts_find_linux_and_give_up_who_is_not_there() {
    require!(Capability::NetworkNamespaces, Capability::VirtualCable);
    let cable = cable();
    let (mut port, mut hosts) = (Port::open(&cable.a), neighbours(PLAIN, pool()));
    let v6 = cable.b.ipv6.map(IpAddr::from);
    for address in [Some(IpAddr::from(cable.b.ipv4)), v6].into_iter().flatten() {
        assert_eq!(hosts.mac_for(MonotonicClock.now(), address), None);
        until(&mut port, &mut hosts, |hosts| hosts.state(address) != State::Asking);
        assert_eq!(hosts.mac_for(MonotonicClock.now(), address), Some(cable.b.mac));
        assert_eq!(hosts.next_change(), Some(Change { next_hop: address, mac: Some(cable.b.mac) }));
    }
    let absent = IpAddr::from(Ipv4Addr::new(10, 77, 0, 77));
    hosts.mac_for(MonotonicClock.now(), absent);
    until(&mut port, &mut hosts, |hosts| hosts.state(absent) == State::Failed);
    assert_eq!(hosts.next_change(), Some(Change { next_hop: absent, mac: None }));
    let counters = hosts.counters();
    assert_eq!((counters.arp_requests, counters.failed), (4, 1));
    assert_eq!(counters.solicitations, u64::from(v6.is_some()));
}

#[test]
fn an_address_that_linux_has_is_found_before_the_start() {
    require!(Capability::NetworkNamespaces, Capability::VirtualCable);
    let cable = cable();
    let mut port = Port::open(&cable.a);
    let conflict = |address| Outcome::Conflict(Conflict { address, mac: cable.b.mac });
    let taken = hosts(&[("10.77.0.2", "10.77.0.6")]);
    assert_eq!(check(&mut port, PLAIN, &taken), conflict(cable.b.ipv4.into()));
    if let Some(v6) = cable.b.ipv6 {
        let taken = hosts(&[("fd77:6200::2", "fd77:6200::6")]);
        assert_eq!(check(&mut port, PLAIN, &taken), conflict(v6.into()));
    }
    assert_eq!(check(&mut port, PLAIN, &pool()), Outcome::Free { checked: 200 });
}

#[test]
fn linux_finds_that_an_address_of_ours_is_taken() {
    require!(
        Capability::NetworkNamespaces,
        Capability::VirtualCable,
        Capability::Program("busybox"),
        Capability::Program("ip")
    );
    let cable = cable();
    let (mut port, mut hosts) = (Port::open(&cable.a), neighbours(PLAIN, pool()));
    alive(&mut port, &mut hosts, || {
        let taken = run(&cable.b, "busybox", "arping -D -c 2 -I wb1 10.77.0.120");
        assert!(
            taken.stdout.contains("Received 1 response") || !taken.status.success(),
            "{taken:?}"
        );
        let free = run(&cable.b, "busybox", "arping -D -c 1 -w 1 -I wb1 10.77.0.210");
        assert!(free.status.success(), "{free:?}");
        if cable.b.ipv6.is_some() {
            let add = "echo 1 > /proc/sys/net/ipv6/conf/wb1/accept_dad && \
                       ip addr add fd77:6200::120/64 dev wb1 && ip addr add fd77:6200::999/64 dev wb1";
            let added =
                Program::new(&cable.b.namespace, "sh").args(["-c", add]).output(TIMEOUT).unwrap();
            assert!(added.status.success(), "{added:?}");
            let mut netlink = cable.b.netlink().unwrap();
            let deadline = MonotonicClock.now().saturating_add(crate::station::PATIENCE);
            let failed = loop {
                assert!(MonotonicClock.now() < deadline, "Linux does not end its search");
                let addresses = netlink.addresses(Some(cable.b.link.index)).unwrap();
                // The one that is free can be used once the search is over.
                if addresses.iter().any(|it| it.address == ip("fd77:6200::999") && it.usable) {
                    break run(&cable.b, "ip", "-6 addr show dev wb1 dadfailed").stdout;
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            assert!(
                failed.contains("fd77:6200::120") && !failed.contains("fd77:6200::999"),
                "{failed}"
            );
        }
    });
}

#[test]
fn our_hosts_live_in_a_vlan() {
    require!(
        Capability::NetworkNamespaces,
        Capability::VirtualCable,
        Capability::VlanDevices,
        Capability::Program("busybox"),
        Capability::Program("ip")
    );
    let cable = cable();
    let lay = "ip link add link wb1 name v7 type vlan id 7 && ip link set v7 up && \
               ip addr add 10.78.0.2/24 dev v7";
    let laid = Program::new(&cable.b.namespace, "sh").args(["-c", lay]).output(TIMEOUT).unwrap();
    assert!(laid.status.success(), "{laid:?}");
    let link = Link { vlan: Some(7), ..PLAIN };
    let ranges = [("10.78.0.100", "10.78.0.101"), ("10.77.0.100", "10.77.0.100")];
    let (mut port, mut hosts) = (Port::open(&cable.a), neighbours(link, hosts(&ranges)));
    alive(&mut port, &mut hosts, || {
        for size in [0, 1472] {
            let said = ping(&cable.b, "10.78.0.101", size);
            assert!(said.contains("3 packets received, 0% packet loss"), "{said}");
        }
        // The same address without the tag is somebody else's.
        let found = cable.b.netlink().unwrap().neighbour(
            ip("10.77.0.100"),
            cable.b.link.index,
            Duration::from_millis(500),
        );
        assert!(found.is_err(), "{found:?}");
    });
    let address = ip("10.78.0.2");
    hosts.mac_for(MonotonicClock.now(), address);
    until(&mut port, &mut hosts, |hosts| hosts.state(address) != State::Asking);
    assert_eq!(hosts.state(address), State::Known(cable.b.mac));
    assert_eq!(
        check(&mut port, link, &self::hosts(&[("10.78.0.2", "10.78.0.2")])),
        Outcome::Conflict(Conflict { address, mac: cable.b.mac })
    );
}
