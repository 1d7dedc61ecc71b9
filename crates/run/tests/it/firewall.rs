//! Sessions through a firewall of the system: how many it has room for, to the session, with and without address translation.

use std::fs;
use std::path::Path;
use std::process::Command;

use wirebeat_report::model::{Report, SessionEnd};
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Options as Cable, Testbed, require};

use crate::sessions::{balances, run, side};

/// How many connections the firewall lets through at a time.
const TABLE: u64 = 700;

/// Sessions that stay open, more than a firewall has room for.
pub struct Held {
    /// How many are tried.
    pub tried: u64,
    /// How they are opened: keys of their group.
    pub keys: &'static str,
    /// How long the run takes.
    pub time: &'static str,
}

const HELD: Held =
    Held { tried: 1000, keys: "rate: 2000/s, timeout: 1500ms, hold: 4s", time: "5s" };

/// What `command` does in the namespace of the router, which has to like it.
pub fn at_router(bed: &Testbed, command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let router = bed.device.as_ref().unwrap();
    let output = router.run(|| Command::new(words[0]).args(&words[1..]).output()).unwrap().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Sessions through a firewall that drops what `rule` says.
pub fn through_a_firewall(bed: &Testbed, rule: &str, translates: bool, held: &Held) -> Report {
    let Held { tried, keys, time } = held;
    at_router(bed, "nft add table ip wall");
    at_router(bed, "nft add chain ip wall forward { type filter hook forward priority 0 ; }");
    at_router(bed, &format!("nft add rule ip wall forward {rule} drop"));
    if translates {
        at_router(bed, "nft add chain ip wall out { type nat hook postrouting priority 100 ; }");
        at_router(bed, "nft add rule ip wall out oifname p1 masquerade");
    }
    let group = format!(
        "from: a, to: b, stack: own, pair: payload, clients: {{ addresses: 10.77.1.100-10.77.1.109 }}, \
         servers: {{ addresses: 10.77.2.100-10.77.2.101, ports: 80 }}, count: {tried}, {keys}, \
         program: {{ request-response: {{ request: 100B, response: 200B }} }}"
    );
    let port = |name: &str, interface: &str, gateway: &str| {
        format!(
            "  {name}: {{ namespace: {name}, interface: {interface}, engine: packet, hosts: {{ gateways: [ {gateway} ] }} }}\n"
        )
    };
    let report = run(
        bed,
        &format!(
            "ports:\n{}{}sessions:\n  held: {{ {group} }}\nrun: {{ time: {time} }}\n",
            port("a", &bed.a.link.name, "10.77.1.254"),
            port("b", &bed.b.link.name, "10.77.2.254"),
        ),
        &Stop::new(),
    );
    balances(&report);
    report
}

/// That no more than `size` of the `tried` sessions got through.
pub fn finds_the_size(report: &Report, size: u64, tried: u64) {
    let client = side(report, "held", SessionEnd::Client);
    let server = side(report, "held", SessionEnd::Server);
    assert_eq!(client.starts.opened, tried, "{client:#?}");
    assert_eq!((client.starts.established, server.starts.established), (size, size));
    assert_eq!((client.ends.timed_out, client.ends.in_order), (tried - size, size));
    // each of those that got through was used, and every byte of it arrived
    assert_eq!((client.messages.requests, client.messages.responses), (size, size));
    assert_eq!((client.messages.damaged, server.messages.damaged), (0, 0));
    assert_eq!(client.bytes.sent, server.bytes.delivered);
}

/// What a firewall with room for so many connections drops.
fn rule() -> String {
    format!("ct state new ct count over {TABLE}")
}

#[test]
fn the_size_of_a_firewalls_table_is_found_to_the_session() {
    require!(Capability::NetworkNamespaces, Capability::Program("nft"));
    let bed = Testbed::router(&Cable::default()).unwrap();
    let report = through_a_firewall(&bed, &rule(), false, &HELD);
    finds_the_size(&report, TABLE, HELD.tried);
    let ruleset = at_router(&bed, "nft list ruleset");
    assert!(ruleset.contains("ct count over 700 drop"), "{ruleset}");
}

#[test]
fn the_size_is_found_through_address_translation_too() {
    require!(Capability::NetworkNamespaces, Capability::Program("nft"));
    let bed = Testbed::router(&Cable::default()).unwrap();
    let report = through_a_firewall(&bed, &rule(), true, &HELD);
    finds_the_size(&report, TABLE, HELD.tried);
    // both ends of each session are put together by the number in its first bytes: the server sees another address
    let pairs = side(&report, "held", SessionEnd::Client).pairs.unwrap();
    assert_eq!((pairs.paired, pairs.in_order, pairs.equal), (TABLE, TABLE, TABLE), "{pairs:#?}");
}

/// The example with other addresses of the firewall's, and a smaller table.
#[test]
fn the_example_finds_the_size_of_a_firewalls_table() {
    require!(Capability::NetworkNamespaces, Capability::Program("nft"));
    let bed = Testbed::router(&Cable::default()).unwrap();
    at_router(&bed, "nft add table ip wall");
    at_router(&bed, "nft add chain ip wall forward { type filter hook forward priority 0 ; }");
    at_router(&bed, &format!("nft add rule ip wall forward {} drop", rule()));
    for (address, port) in [("192.0.2.1/24", "p0"), ("198.51.100.1/24", "p1")] {
        at_router(&bed, &format!("ip address add {address} dev {port}"));
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/firewall-table.yaml");
    let mut text = fs::read_to_string(example).unwrap();
    for (from, to) in [
        ("tried: 300000", format!("tried: {}", HELD.tried)),
        ("a: { interface: ${a}", format!("a: {{ namespace: a, interface: {}", bed.a.link.name)),
        ("b: { interface: ${b}", format!("b: {{ namespace: b, interface: {}", bed.b.link.name)),
        ("timeout: 3s", "timeout: 1500ms".to_owned()),
        ("hold: 5m", "hold: 4s".to_owned()),
        ("rate: 5000/s", "rate: 2000/s".to_owned()),
        ("run: { time: 2m }", "run: { time: 5s }".to_owned()),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, &to);
    }
    let report = run(&bed, &text, &Stop::new());
    balances(&report);
    finds_the_size(&report, TABLE, HELD.tried);
}
