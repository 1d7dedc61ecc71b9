//! What a run of our own TCP and UDP leaves behind: nothing, whether it came to its end or was killed in the middle, and whatever
//! comes next finds the interface as it was.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_report::model::{Report, SessionEnd};
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, End, Program, Testbed, require};

use crate::own_sessions::{free, own_port};
use crate::sessions::{balances, run, side};
use crate::victim::{READY, start};
use crate::world::cable;

const PATIENCE: Duration = Duration::from_secs(60);

/// What is looked at, where there is the program for it.
const LOOKS: [&str; 9] = [
    "ip -d link show",
    "ip address show",
    "ip route show table all",
    "ip -6 route show table all",
    "ip rule show",
    "ip maddress show",
    "nft list ruleset",
    "iptables-save",
    "tc filter show",
];

/// What a command prints at an end; nothing where the program is not there.
fn told(end: &End, line: &str) -> String {
    let mut words = line.split_whitespace();
    let program = Program::new(&end.namespace, words.next().unwrap()).args(words);
    match program.output(PATIENCE) {
        // counters of packets change
        Ok(output) => output
            .stdout
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect::<Vec<_>>()
            .join("\n"),
        Err(_) => String::new(),
    }
}

/// The settings of the system for interfaces, each with what is in it.
fn settings() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec!["/proc/sys/net/ipv4/conf".into(), "/proc/sys/net/ipv6/conf".into()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir::<std::path::PathBuf>(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                all.insert(path.display().to_string(), text);
            }
        }
    }
    all
}

/// All that is known of an end of the cable: links, addresses, routes, memberships, filters, packet sockets, settings, and neighbours.
fn state(end: &End) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> =
        LOOKS.iter().map(|line| ((*line).to_owned(), told(end, line))).collect();
    let show = format!("tc qdisc show dev {}", end.interface());
    all.insert("qdisc".to_owned(), told(end, &show));
    // how fresh an entry is changes by itself
    let neighbours = told(end, "ip neighbour show nud all");
    let mut neighbours: Vec<String> = neighbours
        .lines()
        .filter(|line| !line.contains("NOARP"))
        .map(|line| line.split(' ').take(5).collect::<Vec<_>>().join(" "))
        .collect();
    neighbours.sort();
    all.insert("neighbours".to_owned(), neighbours.join("\n"));
    all.extend(end.namespace.run(settings).unwrap());
    let sockets = || fs::read_to_string("/proc/thread-self/net/packet").unwrap();
    let sockets = end.namespace.run(sockets).unwrap();
    all.insert("packet sockets".to_owned(), sockets.lines().count().to_string());
    all
}

/// That both ends are as they were, at once or soon: a process that was killed is gone a moment later.
fn as_it_was(bed: &Testbed, before: &[BTreeMap<String, String>; 2], when: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let now = [state(&bed.a), state(&bed.b)];
        if now == *before {
            return;
        }
        if Instant::now() > deadline {
            for (now, before) in now.iter().zip(before) {
                for (what, now) in now {
                    assert_eq!(Some(now), before.get(what), "{when}: {what}");
                }
            }
            assert_eq!(now, *before, "{when}");
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// TCP and UDP between the ends of `bed`, all of it ours, with `more` keys in each group.
fn scenario(bed: &Testbed, more: &str) -> String {
    format!(
        "ports: {{ {}, b: {{ namespace: b, interface: {}, engine: packet }} }}\nsessions:\n  \
         web: {{ from: a, to: b, stack: own, clients: {{ addresses: {}, mac: {{ increment: \"02:57:00:00:01:00\" }} }}, \
         servers: {{ addresses: {}, ports: 80 }}, program: http, rate: 200/s, {more} }}\n  \
         asks: {{ from: a, to: b, stack: own, transport: udp, clients: {{ addresses: {} }}, servers: {{ addresses: {}, ports: 53 }}, \
         program: dns, rate: 100/s, {more} }}\nrun: {{ time: 300s }}\n",
        own_port(bed, "packet"),
        bed.b.link.name,
        free(bed, 100, 20),
        free(bed, 200, 2),
        free(bed, 130, 5),
        free(bed, 210, 1),
    )
}

/// A run that comes to its end: all of its sessions did.
fn comes_to_its_end(bed: &Testbed) -> Report {
    let report = run(bed, &scenario(bed, "count: 100"), &Stop::new());
    balances(&report);
    for name in ["web", "asks"] {
        let client = side(&report, name, SessionEnd::Client);
        assert_eq!(client.ends.in_order, 100, "{name}: {client:#?}");
    }
    report
}

#[test]
fn sessions_of_our_own_stack_leave_no_trace_after_their_end_and_after_a_kill() {
    require!(Capability::NetworkNamespaces, Capability::Program("setpriv"));
    let bed = cable();
    let before = [state(&bed.a), state(&bed.b)];
    assert!(before[0]["ip -d link show"].contains(bed.a.interface()), "{before:?}");
    assert_eq!(before[0]["packet sockets"], "1", "the heading alone");

    comes_to_its_end(&bed);
    as_it_was(&bed, &before, "after the end of a run");

    // sessions are held, so that some are open whenever it comes
    let killed = scenario(&bed, "hold: 1s");
    for kill in 0..3 {
        let victim = start(&bed, &killed);
        victim.wait_for(READY, PATIENCE).unwrap();
        let during = [state(&bed.a), state(&bed.b)];
        assert_ne!(during[0]["packet sockets"], before[0]["packet sockets"]);
        victim.kill();
        as_it_was(&bed, &before, &format!("after kill {kill}"));
    }

    // the addresses are nobody's: the next run takes them at once
    comes_to_its_end(&bed);
    as_it_was(&bed, &before, "after the run behind the kills");
}
