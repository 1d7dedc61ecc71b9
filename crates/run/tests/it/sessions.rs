//! Sessions over the system's sockets: both ends ours across a cable, and real servers and clients at the other end.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_report::model::{End, Report, SessionEnd, SessionReport, Verdict};
use wirebeat_run::iperf::{Serving, Wire, WireServer, serve};
use wirebeat_run::{Observer, Options, Progress, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::Scenario;

use crate::own_sessions::{free, own_port};
use crate::servers::Server;
use crate::world::cable;

/// Runs sessions between the ends of a cable, `a` and `b`, whose addresses are `A` and `B` in `text`.
pub(super) fn run(bed: &Testbed, text: &str, stop: &Stop) -> Report {
    run_observed(bed, text, stop, &mut Silent)
}

/// Asks a run to stop when this number of clients' sessions has ended, and the servers had time to see it: where groups only accept,
/// a run does not end by itself.
pub(super) struct StopAfter {
    sessions: u64,
    stop: Stop,
    ended: Option<Instant>,
}

impl StopAfter {
    /// More than a server waits to send its last segment again, a few times.
    const GRACE: Duration = Duration::from_secs(3);

    pub(super) fn new(sessions: u64, stop: &Stop) -> StopAfter {
        StopAfter { sessions, stop: stop.clone(), ended: None }
    }
}

impl Observer for StopAfter {
    fn progress(&mut self, progress: &Progress) {
        if progress.sessions.is_some_and(|sessions| sessions.ended >= self.sessions) {
            let ended = *self.ended.get_or_insert_with(Instant::now);
            if ended.elapsed() >= StopAfter::GRACE {
                self.stop.ask(2);
            }
        }
    }
}

/// The same, and `observer` looks at it.
pub(super) fn run_observed(
    bed: &Testbed,
    text: &str,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Report {
    let (a, b) = (bed.a.ipv4.to_string(), bed.b.ipv4.to_string());
    let text = text.replace("{A}", &a).replace("{B}", &b);
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let named = [("a", &bed.a), ("b", &bed.b)];
    let named = named.map(|(name, end)| (name.to_owned(), end.namespace.clone()));
    let options = Options { namespaces: named.into(), ..Options::default() };
    let prepared = prepare(&scenario, options).unwrap_or_else(|error| panic!("{error}"));
    prepared.start(observer, stop)
}

const PORTS: &str = "ports: { a: { namespace: a, addresses: [\"{A}\"] }, b: { namespace: b, addresses: [\"{B}\"] } }\n";

pub(super) fn side<'a>(report: &'a Report, name: &str, end: SessionEnd) -> &'a SessionReport {
    let found = report.sessions.iter().find(|group| group.name == name && group.end == end);
    found.unwrap_or_else(|| panic!("no {name} {end:?} in {report:#?}"))
}

pub(super) fn balances(report: &Report) {
    let wrong: Vec<_> = report.consistency_checks.iter().filter(|sum| !sum.balances()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn both_ends_agree_across_a_cable() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let report = run(
        &bed,
        &format!(
            "{PORTS}sessions:\n  \
             web: {{ from: a, to: b, servers: {{ ports: 80 }}, program: {{ http: {{ size: 20kB, requests: 3 }} }}, rate: 200/s, count: 100 }}\n  \
             bulk: {{ from: a, to: b, servers: {{ ports: 5001 }}, program: {{ bulk: {{ bytes: 5MB, direction: both }} }}, users: 2, count: 4 }}\n  \
             echo: {{ from: b, to: a, servers: {{ ports: 7 }}, program: {{ echo: {{ messages: 20, gap: 5ms }} }}, count: 10 }}\n"
        ),
        &Stop::new(),
    );
    balances(&report);
    assert_eq!((report.verdict, &report.end), (Verdict::Done, &End::Completed), "{report:#?}");
    for (name, sessions, requests) in [("web", 100, 300), ("bulk", 4, 0), ("echo", 10, 200)] {
        let (client, server) =
            (side(&report, name, SessionEnd::Client), side(&report, name, SessionEnd::Server));
        assert_eq!((client.ends.in_order, server.ends.in_order), (sessions, sessions), "{name}");
        assert_eq!(client.messages.requests, requests, "{name}");
        assert_eq!(client.messages.responses, requests, "{name}");
        assert_eq!((client.messages.damaged, server.messages.damaged), (0, 0), "{name}");
        assert_eq!(client.bytes.sent, server.bytes.delivered, "{name}");
        assert_eq!(server.bytes.sent, client.bytes.delivered, "{name}");
        assert_eq!(client.bytes.acked, client.bytes.sent, "{name}");
    }
    assert_eq!(side(&report, "web", SessionEnd::Client).bytes.verified, 300 * 20_000);
    assert_eq!(side(&report, "bulk", SessionEnd::Server).bytes.verified, 4 * 5_000_000);
}

#[test]
fn refused_sessions_and_unmet_expectations_are_told() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let report = run(
        &bed,
        &format!(
            "{PORTS}sessions:\n  x: {{ from: a, servers: {{ addresses: \"{{B}}\", ports: 81 }}, program: http, rate: 50/s, \
             count: 10, expect: [ \"established >= 1\", \"refused == 10\" ] }}\n"
        ),
        &Stop::new(),
    );
    balances(&report);
    let client = side(&report, "x", SessionEnd::Client);
    assert_eq!((client.starts.opened, client.ends.refused), (10, 10));
    let met: Vec<bool> = client.expectations.iter().map(|one| one.met).collect();
    assert_eq!((met, report.exit_code), (vec![false, true], 4));
}

#[test]
fn a_run_that_is_asked_to_stop_closes_its_sessions() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let stop = Stop::new();
    let asking = stop.clone();
    let asked = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        asking.ask(2);
    });
    let report = run(
        &bed,
        &format!(
            "{PORTS}sessions:\n  x: {{ from: a, to: b, servers: {{ ports: 80 }}, users: 5, count: 5, \
             program: {{ steps: {{ client: [ send: 5B, receive: 5B ], server: [ receive: 5B, think: 60s, send: 5B ] }} }}, timeout: 100s }}\n"
        ),
        &stop,
    );
    asked.join().unwrap();
    balances(&report);
    assert_eq!(report.end, End::Stopped { signal: "SIGINT".to_owned() });
    let client = side(&report, "x", SessionEnd::Client);
    assert_eq!((client.starts.opened, client.ends.unfinished), (5, 5));
    // nothing listens or lingers: the same port is free at once
    let again = run(
        &bed,
        &format!(
            "{PORTS}sessions: {{ x: {{ from: a, to: b, servers: {{ ports: 80 }}, program: http, count: 3 }} }}\n"
        ),
        &Stop::new(),
    );
    assert_eq!(side(&again, "x", SessionEnd::Client).ends.in_order, 3);
}

#[test]
fn a_run_that_is_stopped_has_no_clients_that_closed_early() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let stop = Stop::new();
    let asking = stop.clone();
    let asked = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        asking.ask(2);
        Instant::now()
    });
    let report = run(
        &bed,
        &format!(
            "{PORTS}sessions:\n  x: {{ from: a, to: b, servers: {{ ports: 80 }}, users: 50, timeout: 100s, \
             program: {{ request-response: {{ requests: 100000, response: 20kB, think: 5ms }} }} }}\n"
        ),
        &stop,
    );
    let took = asked.join().unwrap().elapsed();
    balances(&report);
    let (client, server) =
        (side(&report, "x", SessionEnd::Client), side(&report, "x", SessionEnd::Server));
    assert_eq!((client.ends.unfinished, client.ends.closed_early), (50, 0), "{client:#?}");
    assert_eq!((server.ends.unfinished, server.ends.closed_early), (50, 0), "{server:#?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn the_log_of_nginx_is_what_the_report_says() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    let bed = cable();
    let nginx = Server::nginx(&bed);
    let to = "servers: { addresses: \"{B}\", ports: 80 }, from: a";
    let report = run(
        &bed,
        &format!(
            "{PORTS}sessions:\n  \
             page: {{ {to}, program: {{ http: {{ target: /page, requests: 4, expect-size: 10kB }} }}, rate: 100/s, count: 50 }}\n  \
             large: {{ {to}, program: {{ http: {{ target: /large }} }}, users: 2, count: 4 }}\n  \
             head: {{ {to}, program: {{ http: {{ target: /page, method: HEAD, requests: 2 }} }}, count: 3 }}\n  \
             empty: {{ {to}, program: {{ http: {{ target: /empty, requests: 2 }} }}, count: 3 }}\n  \
             gone: {{ {to}, program: {{ http: {{ target: /gone }} }}, count: 5 }}\n  \
             limited: {{ {to}, program: {{ http: {{ target: /page, requests: 9 }} }}, count: 2 }}\n"
        ),
        &Stop::new(),
    );
    balances(&report);
    for (name, in_order, responses) in
        [("page", 50, 200), ("large", 4, 4), ("head", 3, 6), ("empty", 3, 6), ("gone", 5, 5)]
    {
        let client = side(&report, name, SessionEnd::Client);
        assert_eq!(
            (client.ends.in_order, client.messages.responses),
            (in_order, responses),
            "{name}: {client:#?}"
        );
    }
    // five requests are all that this server takes on a connection
    let limited = side(&report, "limited", SessionEnd::Client);
    assert_eq!((limited.ends.closed_early, limited.messages.responses), (2, 10), "{limited:#?}");
    assert_eq!(side(&report, "gone", SessionEnd::Client).messages.unexpected, 5);
    assert_eq!(side(&report, "page", SessionEnd::Client).messages.unexpected, 0);
    let content = 200 * 10_000 + 4 * 10_000_000 + 10 * 10_000;
    let logged = |status| nginx.tally(status, 220 + 6 + 5);
    assert_eq!(logged(200), (200 + 4 + 6 + 10, content));
    assert_eq!((logged(204).0, logged(404).0), (6, 5));
    let statuses = |status: u16| -> u64 {
        let all = report.sessions.iter().flat_map(|group| &group.statuses);
        all.filter(|one| one.status == status).map(|one| one.count).sum()
    };
    assert_eq!((statuses(200), statuses(204), statuses(404)), (220, 6, 5));
}

#[test]
fn a_server_that_stands_still_shows_in_the_times_from_the_plan() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    let bed = cable();
    let nginx = Server::nginx(&bed);
    let stacks = [
        // hosts of our own look for duplicates of their addresses before they begin
        ("own", format!("stack: own, clients: {{ addresses: {} }}, ", free(&bed, 100, 50)), 5),
        ("host", String::new(), 1),
    ];
    for (stack, keys, after) in stacks {
        // the group, which the worker is in as well
        let group = format!("-{}", nginx.process.id());
        let stopping = thread::spawn(move || {
            let signal = |name: &str| {
                let status = Command::new("kill").args([name, "--", &group]).status();
                assert!(status.unwrap().success());
            };
            thread::sleep(Duration::from_secs(after));
            signal("-STOP");
            thread::sleep(Duration::from_secs(1));
            signal("-CONT");
        });
        let report = run(
            &bed,
            &format!(
                "ports: {{ {} }}\nsessions: {{ x: {{ from: a, {keys}servers: {{ addresses: \"{{B}}\", ports: 80 }}, rate: 1000/s, stop: 10s, \
                 program: {{ http: {{ target: /page }} }} }} }}\n",
                own_port(&bed, "packet"),
            ),
            &Stop::new(),
        );
        stopping.join().unwrap();
        balances(&report);
        let client = side(&report, "x", SessionEnd::Client);
        // every request was made, and a tenth of them waited for up to a second
        let asked = (client.starts.due, client.messages.responses);
        assert_eq!(asked, (Some(10_000), 10_000), "{stack}: {client:#?}");
        let response = client.times.response.as_ref().unwrap();
        let [p95, p99] = [response.planned_ns.percentiles.p95, response.planned_ns.percentiles.p99];
        assert!(p95.unwrap() >= 300_000_000, "{stack}: {p95:?}");
        assert!(p99.unwrap() >= 800_000_000, "{stack}: {p99:?}");
        // and its intervals say when: one or two of them have such times
        let intervals = report.session_intervals.iter().flat_map(|of| &of.sessions);
        let times: Vec<_> = intervals.filter_map(|of| of.response_ns.as_ref()).collect();
        assert_eq!(times.iter().map(|of| of.count).sum::<u64>(), 10_000, "{stack}: {times:#?}");
        let slow = times.iter().filter(|of| of.percentiles.p99.unwrap() >= 300_000_000).count();
        assert!((1..=3).contains(&slow) && times.len() >= 9, "{stack}: {slow} of {times:#?}");
    }
}

#[test]
fn curl_and_wrk_are_served() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("curl"),
        Capability::Program("wrk")
    );
    let bed = cable();
    let stop = Stop::new();
    let asking = stop.clone();
    let url = format!("http://{}/x", bed.b.ipv4);
    let namespace = bed.a.namespace.clone();
    let clients = thread::spawn(move || {
        let run = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).arg(&url);
            namespace.run(move || command.output()).unwrap().unwrap()
        };
        let until = Instant::now() + Duration::from_secs(10);
        let mut plain = run("curl", &["-s"]);
        while plain.stdout.is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
            plain = run("curl", &["-s"]);
        }
        let old = run("curl", &["-s", "-m", "5", "--http1.0"]);
        let posted = run("curl", &["-s", "-m", "5", "-d", "some content"]);
        let head = run("curl", &["-s", "-m", "5", "-I"]);
        let load = run("wrk", &["-t1", "-c10", "-d1"]);
        asking.ask(15);
        (plain.stdout, old.stdout, posted.stdout, head.stdout, load.stdout)
    });
    let report = run(
        &bed,
        &format!(
            "{PORTS}sessions: {{ h: {{ to: b, servers: {{ ports: 80 }}, program: {{ http: {{ size: 30kB, framing: chunked }} }} }} }}\n"
        ),
        &stop,
    );
    let (plain, old, posted, head, load) = clients.join().unwrap();
    assert_eq!((plain.len(), plain == old, plain == posted), (30_000, true, true));
    assert!(String::from_utf8_lossy(&head).starts_with("HTTP/1.1 200 OK\r\n"));
    let load = String::from_utf8_lossy(&load).into_owned();
    assert!(load.contains("requests in") && !load.contains("Non-2xx"), "{load}");
    balances(&report);
    let server = side(&report, "h", SessionEnd::Server);
    assert!(server.messages.responses > 14 && server.messages.unexpected == 0, "{server:#?}");
    assert_eq!(server.starts.opened, server.starts.established);
}

#[test]
fn what_iperf3_says_is_what_the_report_says() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = cable();
    let at = std::net::SocketAddr::from((bed.b.ipv4, 5201));
    let here = bed.b.namespace.clone();
    let serving = thread::spawn(move || {
        let server = WireServer { wire: Wire::Iperf3, address: at };
        let serve = || {
            serve(
                server,
                Serving { one_off: true, ..Serving::default() },
                &Options::default(),
                &mut Silent,
                &Stop::new(),
            )
        };
        here.run(serve).unwrap()
    });
    let there = bed.a.namespace.clone();
    let until = Instant::now() + Duration::from_secs(10);
    let said = loop {
        let mut client = Command::new("iperf3");
        client.args(["-c", &at.ip().to_string(), "-t", "1", "-P", "2", "-J"]);
        let output = there.run(move || client.output()).unwrap().unwrap();
        if output.status.success() || Instant::now() > until {
            break String::from_utf8(output.stdout).unwrap();
        }
        thread::sleep(Duration::from_millis(50));
    };
    let report = serving.join().unwrap().unwrap();
    balances(&report);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let bytes = |side: &str| said["end"][side]["bytes"].as_u64().unwrap();
    let server = side(&report, "iperf3", SessionEnd::Server);
    assert_eq!((server.ends.in_order, server.bytes.delivered), (2, bytes("sum_received")));
    let client = side(&report, "iperf3, as the other end says", SessionEnd::Client);
    assert_eq!(client.bytes.sent, bytes("sum_sent"));
    assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0));
}
