//! Our client of HTTP asks servers of others, by the system's TCP and by our own: what the report says of responses, by status and by
//! bytes, is what the server's log says.

use std::collections::BTreeMap;

use wirebeat_report::model::{Report, SessionEnd, Verdict};
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Testbed, require};

use crate::own_sessions::{free, own_port};
use crate::servers::{CHUNKED, LARGE, Logged, PAGE, Server, WRITTEN};
use crate::sessions::{balances, run, side};
use crate::world::cable;

/// Whose TCP our clients have.
#[derive(Clone, Copy)]
enum Stack {
    Host,
    Own,
}

/// A group of sessions, and what is to come of it.
struct Group {
    name: &'static str,
    port: u16,
    /// Parameters of the program.
    http: String,
    /// When its sessions start.
    starts: &'static str,
    sessions: u64,
    /// Responses of them all.
    responses: u64,
    status: u16,
}

/// What every one of the servers is asked for.
fn groups() -> Vec<Group> {
    let group = |name, http: &str, starts, [sessions, responses]: [u64; 2], status| {
        let (port, http) = (80, http.to_owned());
        Group { name, port, http, starts, sessions, responses, status }
    };
    let page = format!("target: /page, requests: 4, expect-size: {PAGE}B");
    let large = format!("target: /large, expect-size: {LARGE}B");
    let chunked = format!("target: /chunked, requests: 3, expect-size: {CHUNKED}B");
    let unchanged = format!(
        "target: /page, requests: 2, expect-status: 304, headers: {{ If-Modified-Since: \"{WRITTEN}\" }}"
    );
    let few = "count: 3";
    vec![
        group("page", &page, "rate: 100/s, count: 50", [50, 200], 200),
        group("large", &large, "users: 2, count: 4", [4, 4], 200),
        group("head", "target: /page, method: HEAD, requests: 3", few, [3, 9], 200),
        group("empty", "target: /empty, requests: 2, expect-status: 204", few, [3, 6], 204),
        group("unchanged", &unchanged, few, [3, 6], 304),
        group("gone", "target: /gone, expect-status: 404", few, [3, 3], 404),
        group("chunked", &chunked, few, [3, 9], 200),
        // the client waits for 100 (Continue) with its content
        group(
            "posted",
            "target: /posted, method: POST, body: 100kB, expect-continue: true, requests: 2",
            few,
            [3, 6],
            200,
        ),
        group("asked", "target: /page, server-closes: true, requests: 2", few, [3, 6], 200),
    ]
}

/// The server closes these after a second without a request.
fn idle() -> Group {
    Group {
        name: "idle",
        port: 81,
        http: "target: /page, requests: 2, think: 3s".to_owned(),
        starts: "count: 3",
        sessions: 3,
        responses: 3,
        status: 200,
    }
}

fn scenario(bed: &Testbed, stack: Stack, groups: &[Group]) -> String {
    let mut text = match stack {
        Stack::Host => "ports: { a: { namespace: a } }\nsessions:\n".to_owned(),
        Stack::Own => format!("ports: {{ {} }}\nsessions:\n", own_port(bed, "packet")),
    };
    for (number, Group { name, port, http, starts, .. }) in (0..).zip(groups) {
        let ours = match stack {
            Stack::Host => String::new(),
            Stack::Own => {
                format!(
                    ", stack: own, clients: {{ addresses: {} }}",
                    free(bed, 100 + 8 * number, 8)
                )
            }
        };
        text += &format!(
            "  {name}: {{ from: a{ours}, servers: {{ addresses: \"{{B}}\", ports: {port} }}, program: {{ http: {{ {http} }} }}, \
             {starts}, timeout: 60s }}\n"
        );
    }
    text
}

/// Asks `server` by `stack`, for all that others are asked for and for `more`.
fn ask(start: fn(&Testbed) -> Server, stack: Stack, more: Vec<Group>) {
    let bed = cable();
    let server = start(&bed);
    let mut groups = groups();
    groups.extend(more);
    groups.push(idle());
    let report = run(&bed, &scenario(&bed, stack, &groups), &Stop::new());
    balances(&report);
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    for group in &groups {
        let client = side(&report, group.name, SessionEnd::Client);
        let ended = match group.name {
            "idle" => client.ends.closed_early,
            _ => client.ends.in_order,
        };
        let came = (ended, client.messages.responses, client.messages.unexpected);
        assert_eq!(
            came,
            (group.sessions, group.responses, 0),
            "{}: {:?} {:?}",
            group.name,
            client.ends,
            client.messages
        );
        let statuses: Vec<_> = client.statuses.iter().map(|it| (it.status, it.count)).collect();
        assert_eq!(statuses, [(group.status, group.responses)], "{}", group.name);
    }
    let count: u64 = groups.iter().map(|group| group.responses).sum();
    let log = server.logged(count as usize);
    assert_eq!(by_status(&log), reported(&report));
    let bytes: u64 = log.iter().map(|one| one.bytes).sum();
    let delivered: u64 = report.sessions.iter().map(|group| group.bytes.delivered).sum();
    match server.behind() {
        None => assert_eq!(delivered, bytes, "{:?}", by_status(&log)),
        // HAProxy counts a message as it holds it: without line ends, chunk sizes and 100 (Continue)
        Some(_) => assert!((0..=30 * count).contains(&(delivered - bytes)), "{delivered} {bytes}"),
    }
    let methods = |method: &str| log.iter().filter(|one| one.method == method).count();
    assert_eq!((methods("HEAD"), methods("POST")), (9, 6));
    if let Some(behind) = server.behind() {
        assert_eq!(by_status(&behind.logged(count as usize)), reported(&report));
    }
}

/// How many responses a log has of each status.
fn by_status(log: &[Logged]) -> BTreeMap<u16, u64> {
    let mut all = BTreeMap::new();
    log.iter().for_each(|one| *all.entry(one.status).or_default() += 1);
    all
}

/// How many the report has.
fn reported(report: &Report) -> BTreeMap<u16, u64> {
    let mut all = BTreeMap::new();
    let counts = report.sessions.iter().flat_map(|group| &group.statuses);
    counts.for_each(|one| *all.entry(one.status).or_default() += one.count);
    all
}

#[test]
fn the_log_of_nginx_is_what_both_stacks_report() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    ask(Server::nginx, Stack::Host, Vec::new());
    ask(Server::nginx, Stack::Own, Vec::new());
}

#[test]
fn the_log_of_apache_is_what_both_stacks_report() {
    require!(Capability::NetworkNamespaces, Capability::Program("apache2"));
    ask(Server::apache, Stack::Host, Vec::new());
    ask(Server::apache, Stack::Own, Vec::new());
}

#[test]
fn the_logs_of_haproxy_and_of_what_is_behind_it_are_what_both_stacks_report() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("haproxy"),
        Capability::Program("nginx")
    );
    ask(Server::haproxy, Stack::Host, Vec::new());
    ask(Server::haproxy, Stack::Own, Vec::new());
}

/// Chunks across segments, and content that the end of the connection ends.
#[test]
fn the_log_of_python_is_what_both_stacks_report() {
    require!(Capability::NetworkNamespaces, Capability::Program("python3"));
    let old = || Group {
        name: "old",
        port: 80,
        http: format!("target: /old/large, expect-size: {LARGE}B"),
        starts: "count: 3",
        sessions: 3,
        responses: 3,
        status: 200,
    };
    ask(Server::python, Stack::Host, vec![old()]);
    ask(Server::python, Stack::Own, vec![old()]);
}
