//! Clients that misbehave against servers of others: nginx as it comes, and the kernel's TCP. What it counts is what our report says.
//! And the other way round: a server of the system that stops reading for ever.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;

use wirebeat_report::model::{Report, SessionEnd, SessionInterval};
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Testbed, require};

use crate::own_sessions::{free, own_port};
use crate::servers::Server;
use crate::sessions::{balances, run, side};
use crate::world::cable;

/// What the kernel at the end `b` has counted of TCP, by the names of nstat(8) without what stands before them.
fn counted(bed: &Testbed) -> BTreeMap<String, u64> {
    let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap();
    let text = bed.b.namespace.run(|| read("snmp") + &read("netstat")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut all = BTreeMap::new();
    for pair in lines.chunks(2) {
        let [names, values] = pair else { continue };
        if names.starts_with("Tcp") {
            let words = names.split_whitespace().zip(values.split_whitespace()).skip(1);
            all.extend(words.map(|(name, value)| (name.to_owned(), value.parse().unwrap_or(0))));
        }
    }
    all
}

/// What a group's clients did in each interval.
fn intervals<'a>(report: &'a Report, group: &str) -> Vec<(f64, &'a SessionInterval)> {
    let all = report
        .session_intervals
        .iter()
        .flat_map(|interval| interval.sessions.iter().map(|of| (interval.to_ns as f64 / 1e9, of)));
    all.filter(|(_, of)| of.name == group && of.end == SessionEnd::Client).collect()
}

/// 512 connections are all that a worker of nginx has where nothing else is written.
#[test]
fn slow_clients_have_an_nginx_with_default_settings_refuse_and_the_report_says_when() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    let bed = cable();
    let nginx = Server::nginx_as_it_comes(&bed);
    let report = run(
        &bed,
        "ports: { a: { namespace: a } }\nsessions:\n  \
         slow: { from: a, servers: { addresses: \"{B}\", ports: 80 }, program: { misbehave: { slow-write: { gap: 1s, time: 12s } } }, \
         rate: 300/s, limit: { open: 600 }, start: 3s, stop: 8s }\n  \
         others: { from: a, servers: { addresses: \"{B}\", ports: 80 }, program: { http: { target: /page } }, rate: 20/s, timeout: 2s }\n\
         run: { time: 10s, interval: 500ms }\n",
        &Stop::new(),
    );
    balances(&report);
    let slow = side(&report, "slow", SessionEnd::Client);
    assert!(slow.most_open > 400 && slow.starts.established > 500, "{slow:#?}");
    let acts = slow.misbehaviour.unwrap();
    assert!(acts.acts > slow.starts.established, "{acts:?}");
    // those that found no place were closed or reset at once
    assert!(acts.ended_by_peer > 0 && slow.timers_ns["peer-ended"].count == acts.ended_by_peer);
    let others = side(&report, "others", SessionEnd::Client);
    assert!(others.ends.in_order >= 60, "{others:#?}");
    let found = intervals(&report, "others");
    let failed: Vec<f64> =
        found.iter().filter(|(_, of)| of.failed > 0).map(|(to, _)| *to).collect();
    let answered = |from: f64, to: f64| -> u64 {
        let within = found.iter().filter(|(at, _)| *at > from && *at <= to);
        within.map(|(_, of)| of.responses).sum()
    };
    // three seconds without slow clients, 512 of which are there less than two seconds later
    assert!(failed.first().is_some_and(|first| (3.0..=7.0).contains(first)), "{failed:?}");
    assert!(answered(0.0, 3.0) >= 55 && answered(6.0, 8.0) <= 4, "{found:#?}");
    let said = nginx.errors();
    assert!(said.contains("512 worker_connections are not enough"), "{said}");
}

#[test]
fn the_kernels_tcp_survives_forged_segments_and_counts_them() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    let bed = cable();
    let _nginx = Server::nginx(&bed);
    let ways = [
        "rst-storm",
        "out-of-window",
        "bad-checksum",
        "ack-unsent",
        "overlapping",
        "sequence-guess",
    ];
    let mut text = format!("ports: {{ {} }}\nsessions:\n", own_port(&bed, "packet"));
    for (number, way) in (0..).zip(ways) {
        text += &format!(
            "  {way}: {{ from: a, stack: own, clients: {{ addresses: {} }}, servers: {{ addresses: \"{{B}}\", ports: 80 }}, \
             program: {{ misbehave: {{ {way}: {{ segments: 200, gap: 2ms, target: /page }} }} }}, count: 3 }}\n",
            free(&bed, 100 + 8 * number, 8)
        );
    }
    let before = counted(&bed);
    let report = run(&bed, &text, &Stop::new());
    let after = counted(&bed);
    let grew = |name: &str| after[name] - before[name];
    balances(&report);
    for way in ways {
        let client = side(&report, way, SessionEnd::Client);
        let acts = client.misbehaviour.unwrap();
        assert_eq!((acts.acts, acts.ended_by_peer), (600, 0), "{way}");
        let all = (client.ends.in_order, client.messages.responses, client.messages.unexpected);
        assert_eq!(all, (3, 6, 0), "{way}: {:?}", client.ends);
        assert_eq!(
            client.bytes.delivered,
            side(&report, "rst-storm", SessionEnd::Client).bytes.delivered
        );
        // to what has no data, one answer each half second at most (net.ipv4.tcp_invalid_ratelimit), or none
        let answers = acts.answered;
        match way {
            "rst-storm" => assert!((1..=300).contains(&answers), "{way} {answers}"),
            "out-of-window" => assert!((1..=600).contains(&answers), "{way} {answers}"),
            // those of them that have data
            "sequence-guess" => assert!((1..=300).contains(&answers), "{way} {answers}"),
            "bad-checksum" => assert_eq!(answers, 0, "{way}"),
            _ => {}
        }
    }
    assert_eq!(grew("InCsumErrors"), 600);
    assert!(grew("TCPChallengeACK") > 0 && grew("EstabResets") == 0, "{after:?}");
}

#[test]
fn half_open_sessions_fill_the_backlog_of_a_listener() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    let bed = cable();
    let _nginx = Server::nginx(&bed);
    let cookies = |on: &str| fs::write("/proc/sys/net/ipv4/tcp_syncookies", on).unwrap();
    bed.b.namespace.run(|| cookies("0")).unwrap();
    let text = format!(
        "ports: {{ {} }}\nsessions:\n  begun: {{ from: a, stack: own, clients: {{ addresses: {} }}, \
         servers: {{ addresses: \"{{B}}\", ports: 80 }}, program: {{ misbehave: {{ half-open: {{ time: 3s }} }} }}, \
         rate: 2000/s, count: 2000, limit: {{ open: 2000 }} }}\n",
        own_port(&bed, "packet"),
        free(&bed, 100, 8)
    );
    let before = counted(&bed);
    let report = run(&bed, &text, &Stop::new());
    let after = counted(&bed);
    balances(&report);
    let begun = side(&report, "begun", SessionEnd::Client);
    let acts = begun.misbehaviour.unwrap();
    let ends = (begun.starts.established, begun.ends.in_order, acts.acts);
    assert_eq!(ends, (0, 2000, 2000), "{begun:#?}");
    // the backlog of nginx is 511; what is dropped is not answered
    let dropped = after["ListenDrops"] - before["ListenDrops"];
    assert!(dropped > 500 && acts.answered > 100, "{dropped} {acts:?}");
    // an answer is repeated after a second, so there are more answers than sessions that have one
    assert!(acts.answered < 2 * 1500 + 1500, "{acts:?}");
    // every one that was answered was taken back: the listener has room again at once
    let page = "ports: { a: { namespace: a } }\nsessions:\n  page: { from: a, servers: { addresses: \"{B}\", ports: 80 }, \
                program: { http: { target: /page } }, count: 20 }\n";
    let report = run(&bed, page, &Stop::new());
    assert_eq!(side(&report, "page", SessionEnd::Client).ends.in_order, 20);
}

/// The window of a listener that accepts nobody is large at first, is used up, and never opens again. The system answers every probe
/// of it, so that no TCP gives up by itself: the group's `timeout` does.
#[test]
fn a_server_that_never_reads_again_ends_its_sessions_as_timed_out() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let bind = || TcpListener::bind((bed.b.ipv4, 5001));
    let _deaf = bed.b.namespace.run(bind).unwrap().unwrap();
    let clients = free(&bed, 100, 5);
    for (port, group) in [
        (own_port(&bed, "packet"), format!("stack: own, clients: {{ addresses: {clients} }},")),
        ("a: { namespace: a }".to_owned(), String::new()),
    ] {
        let text = format!(
            "ports: {{ {port} }}\nsessions:\n  bulk: {{ from: a, {group} servers: {{ addresses: \"{{B}}\", ports: 5001 }}, \
             program: {{ bulk: {{ bytes: 50MB }} }}, count: 5, rate: 100/s, timeout: 2s }}\n"
        );
        let report = run(&bed, &text, &Stop::new());
        balances(&report);
        let client = side(&report, "bulk", SessionEnd::Client);
        let ends = &client.ends;
        assert_eq!(
            (client.starts.established, ends.timed_out, ends.in_order),
            (5, 5, 0),
            "{ends:?}"
        );
        // the window was far from zero, and what the server's system has taken is far from all
        let acked = client.bytes.acked / 5;
        assert!((20_000..20_000_000).contains(&acked), "{acked}");
        assert!(report.duration_ns < 10_000_000_000, "{}", report.duration_ns);
        if let Some(stack) = report.stacks.first() {
            // RFC 9293 §3.8.6.1: the first probe after a retransmission timeout, and then further and further apart
            let probes = stack.segments.probe;
            assert!((5..=5 * 10).contains(&probes), "{:?}", stack.segments);
        }
    }
}
