//! Sessions over our own TCP: beside servers and clients of the system, and at both ends.

use std::process::Command;

use wirebeat_report::model::{End, FindingKind, Interval, Report, SessionEnd, Verdict};
use wirebeat_run::{Observer, Options, Progress, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Offload, Offloads, Options as Cable, Testbed, require};
use wirebeat_traffic::scenario::Scenario;

use crate::servers::Server;
use crate::sessions::{balances, run, run_observed, side};
use crate::world::cable;

/// Addresses on the link of `bed` that nobody has: from `first` on in the network of its end `b`.
pub(super) fn free(bed: &Testbed, first: u8, count: u8) -> String {
    let [a, b, c, _] = bed.b.ipv4.octets();
    format!("{a}.{b}.{c}.{first}-{a}.{b}.{c}.{}", first + count - 1)
}

pub(super) fn own_port(bed: &Testbed, engine: &str) -> String {
    format!("a: {{ namespace: a, interface: {}, engine: {engine} }}", bed.a.link.name)
}

/// A cable whose ends take the frames of the engine `kernel` without a program of ours.
pub(super) fn joining_cable() -> Testbed {
    let offloads = Offloads { gro: Offload::On, ..Offloads::default() };
    Testbed::pair(&Cable { offloads, ..Cable::default() }).unwrap()
}

/// A run in memory.
fn in_no_time(text: &str) -> Report {
    let scenario = Scenario::from_yaml(text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let prepared = prepare(&scenario, Options::default());
    prepared.unwrap_or_else(|error| panic!("{error}")).start(&mut Silent, &Stop::new())
}

/// It went on to its time, or with more hosts on the link than next hops were remembered for ever.
/// Tells a run to end once a thousand sessions were opened, however long this machine takes for them.
struct Enough(Stop);

impl Observer for Enough {
    fn progress(&mut self, progress: &Progress) {
        if progress.sessions.is_some_and(|sessions| sessions.opened > 1000) {
            self.0.ask(15);
        }
    }
}

#[test]
fn a_run_in_memory_ends_when_it_is_told_to() {
    let text = "ports: { a: { engine: loopback }, b: { engine: loopback } }\nsessions:\n  s: { from: a, to: b, stack: own, clients: { \
                addresses: 10.0.0.1-10.0.0.9 }, servers: { addresses: 10.9.0.0/16, ports: 80 }, program: http, rate: 2000/s }\n\
                run: { time: 100000h }\n";
    let scenario = Scenario::from_yaml(text, "").unwrap();
    let prepared = prepare(&scenario, Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let stop = Stop::new();
    let report = prepared.start(&mut Enough(stop.clone()), &stop);
    balances(&report);
    let client = side(&report, "s", SessionEnd::Client);
    assert!(matches!(report.end, End::Stopped { .. }), "{:?}", report.end);
    assert!(client.starts.established > 1000, "{client:#?}");
    assert_eq!(client.ends.timed_out + client.ends.unreachable, 0, "{client:#?}");
}

/// What is on its way when a run is told to end arrives, and is not lost.
#[test]
fn messages_on_their_way_at_a_stop_are_not_lost() {
    let text = "ports: { a: { engine: loopback, cable: { delay: 5ms } }, b: { engine: loopback, cable: { delay: 5ms } } }\nsessions:\n  \
                s: { from: a, to: b, stack: own, transport: udp, clients: { addresses: 10.0.0.1-10.0.0.9 }, \
                servers: { addresses: 10.9.0.1, ports: 5004 }, program: { messages: { size: 172B, gap: 2ms, time: 4s } }, rate: 100/s }\n\
                run: { time: 100000h }\n";
    let scenario = Scenario::from_yaml(text, "").unwrap();
    let prepared = prepare(&scenario, Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let stop = Stop::new();
    let report = prepared.start(&mut Enough(stop.clone()), &stop);
    assert!(matches!(report.end, End::Stopped { .. }), "{:?}", report.end);
    let server = side(&report, "s", SessionEnd::Server);
    let one_way = server.one_way.as_ref().unwrap();
    // some 400 sessions of 500 messages a second, each 5 ms on its way
    assert!(one_way.received > 100_000, "{one_way:#?}");
    assert_eq!((one_way.lost, server.messages.unexpected), (0, 0), "{server:#?}");
}

const MEMORY: &str = "ports:\n  a: { engine: loopback, cable: { delay: 5ms, rate: 50Mbps, loss: 0.01 } }\n  \
                      b: { engine: loopback, cable: { delay: 5ms, loss: 0.01 } }\n";

#[test]
fn both_ends_in_no_time_agree_and_repeat() {
    let text = format!(
        "{MEMORY}sessions:\n  web: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1-10.0.1.9 }}, \
         servers: {{ addresses: 10.0.2.9, ports: 80 }}, program: {{ http: {{ size: 20kB, requests: 3 }} }}, rate: 50/s, timeout: 60s }}\n\
         run: {{ time: 10s }}\n"
    );
    let report = in_no_time(&text);
    balances(&report);
    assert_eq!((report.verdict, &report.end), (Verdict::Done, &End::Completed), "{report:#?}");
    let (client, server) =
        (side(&report, "web", SessionEnd::Client), side(&report, "web", SessionEnd::Server));
    assert_eq!((client.ends.in_order, server.ends.in_order), (500, 500), "{:?}", client.ends);
    assert_eq!((client.messages.responses, client.bytes.verified), (1500, 1500 * 20_000));
    assert_eq!(
        (client.bytes.sent, server.bytes.sent),
        (server.bytes.delivered, client.bytes.delivered)
    );
    // 1 % was lost each way, and only time on the virtual clock passed
    let ports: Vec<&str> = report.stacks.iter().map(|stack| stack.port.as_str()).collect();
    assert_eq!(ports, ["a", "b"]);
    let retransmitted: u64 = report.stacks[1].segments.retransmitted().iter().map(|(_, n)| n).sum();
    assert!((50..2000).contains(&retransmitted), "{retransmitted}");
    for stack in &report.stacks {
        let (cable, sent) = (stack.cable.unwrap(), stack.segments.all);
        assert!((sent / 200..sent / 50).contains(&cable.lost) && cable.dropped == 0, "{stack:#?}");
    }
    assert!(report.duration_ns >= 10_000_000_000);
    let again = in_no_time(&text);
    assert_eq!(report.stacks, again.stacks);
    assert_eq!(report.sessions, again.sessions);
    assert_eq!(report.session_intervals, again.session_intervals);
}

#[test]
fn sessions_that_are_open_when_the_run_ends_are_not_closed_early() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let group = |name: &str, port: u16, program: &str| {
        format!(
            "  {name}: {{ from: a, to: b, stack: own, clients: {{ addresses: {} }}, servers: {{ addresses: {}, ports: {port} }}, \
             program: {program}, users: 50, timeout: 1s }}\n",
            free(&bed, 100, 50),
            free(&bed, 200, 2)
        )
    };
    let report = run(
        &bed,
        &format!(
            "ports: {{ {}, b: {{ namespace: b, interface: {}, engine: packet }} }}\nsessions:\n{}{}{}run: {{ time: 1s }}\n",
            own_port(&bed, "packet"),
            bed.b.link.name,
            group("trips", 7, "{ echo: { messages: 100000, gap: 10ms } }"),
            group(
                "asks",
                80,
                "{ request-response: { requests: 100000, response: 20kB, think: 5ms } }"
            ),
            group("waits", 81, "{ http: { requests: 100000, think: 500ms } }"),
        ),
        &Stop::new(),
    );
    balances(&report);
    for name in ["trips", "asks", "waits"] {
        let (client, server) =
            (side(&report, name, SessionEnd::Client), side(&report, name, SessionEnd::Server));
        assert_eq!((client.ends.unfinished, client.ends.closed_early), (50, 0), "{client:#?}");
        assert_eq!(server.ends.unfinished + server.ends.in_order, 50, "{server:#?}");
    }
    // a second of starts, one of patience, and far less than the programs would take
    assert!(report.duration_ns < 20_000_000_000, "{}", report.duration_ns);
}

#[test]
fn a_real_server_logs_what_our_own_clients_report() {
    require!(Capability::NetworkNamespaces, Capability::Program("nginx"));
    asks_a_real_server(&cable(), "packet");
}

#[test]
fn a_real_server_logs_what_our_own_clients_report_over_the_kernel_engine() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("nginx")
    );
    asks_a_real_server(&joining_cable(), "kernel");
}

fn asks_a_real_server(bed: &Testbed, engine: &str) {
    let nginx = Server::nginx(bed);
    let report = run(
        bed,
        &format!(
            "ports: {{ {} }}\nsessions:\n  web: {{ from: a, stack: own, clients: {{ addresses: {} }}, \
             servers: {{ addresses: \"{{B}}\", ports: 80 }}, program: {{ http: {{ target: /page, requests: 4 }} }}, rate: 200/s, count: 300 }}\n  \
             large: {{ from: a, stack: own, clients: {{ addresses: {} }}, servers: {{ addresses: \"{{B}}\", ports: 80 }}, \
             program: {{ http: {{ target: /large }} }}, count: 2 }}\n",
            own_port(bed, engine),
            free(bed, 100, 50),
            free(bed, 200, 2),
        ),
        &Stop::new(),
    );
    balances(&report);
    let web = side(&report, "web", SessionEnd::Client);
    assert_eq!((web.ends.in_order, web.messages.responses), (300, 1200), "{report:#?}");
    let large = side(&report, "large", SessionEnd::Client);
    assert_eq!((large.ends.in_order, large.messages.responses), (2, 2), "{report:#?}");
    assert!(large.bytes.delivered > 20_000_000);
    let stack = &report.stacks[0];
    assert_eq!(
        (stack.segments.syn, stack.arrivals.bad_checksum, stack.link.unresolved),
        (302, 0, 0),
        "{stack:?}"
    );
    // nothing of a kernel at the other end of a cable has a checksum
    assert!(stack.arrivals.unverified > 0);
    assert_eq!(nginx.tally(200, 1202), (1202, 1200 * 10_000 + 2 * 10_000_000));
    // the system at this end has no address of ours and saw no connection
    let sockets = bed
        .a
        .namespace
        .run(|| std::fs::read_to_string("/proc/thread-self/net/tcp"))
        .unwrap()
        .unwrap();
    assert_eq!(sockets.lines().count(), 1, "{sockets}");
}

#[test]
fn the_systems_clients_are_served_by_our_own_tcp() {
    require!(Capability::NetworkNamespaces, Capability::Program("curl"));
    serves_real_clients(&cable(), "packet");
}

#[test]
fn the_systems_clients_are_served_by_our_own_tcp_over_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames, Capability::Program("curl"));
    serves_real_clients(&joining_cable(), "kernel");
}

fn serves_real_clients(bed: &Testbed, engine: &str) {
    let address = free(bed, 77, 1);
    let address = address.split('-').next().unwrap().to_owned();
    let stop = Stop::new();
    let asking = stop.clone();
    let (text, url) = (
        format!(
            "ports: {{ {} }}\nsessions:\n  web: {{ to: a, stack: own, servers: {{ addresses: {address}, ports: 80 }}, \
             program: {{ http: {{ size: 300kB }} }} }}\nrun: {{ time: 60s }}\n",
            own_port(bed, engine)
        ),
        format!("http://{address}/x"),
    );
    let namespace = bed.b.namespace.clone();
    let clients = std::thread::spawn(move || {
        let curl = || {
            let output = Command::new("curl")
                .args([
                    "--silent",
                    "--show-error",
                    "--max-time",
                    "20",
                    "--retry",
                    "20",
                    "--retry-connrefused",
                ])
                .args([
                    "--retry-delay",
                    "1",
                    "--output",
                    "/dev/null",
                    "--write-out",
                    "%{http_code} %{size_download}\n",
                ])
                .args([&url, "--next", "--silent", "--output", "/dev/null"])
                .args(["--write-out", "%{http_code} %{size_download}\n", &url])
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let said = namespace.run(curl).unwrap();
        asking.ask(2);
        said
    });
    let report = run(bed, &text, &stop);
    let said = clients.join().unwrap();
    assert_eq!(said, "200 300000\n200 300000\n");
    balances(&report);
    let server = side(&report, "web", SessionEnd::Server);
    assert_eq!((server.messages.responses, server.bytes.sent > 600_000), (2, true), "{report:#?}");
}

/// Both ends are ours, over a real cable: what one sent the other received, and nothing of it went to the systems.
fn speaks_to_itself(engine: &str) {
    let bed = cable();
    let (clients, server) = (free(&bed, 100, 20), free(&bed, 77, 1));
    let server = server.split('-').next().unwrap();
    let port = |name: &str, end: &str| {
        format!("{name}: {{ namespace: {name}, interface: {end}, engine: {engine} }}")
    };
    let report = run(
        &bed,
        &format!(
            "ports: {{ {}, {} }}\nsessions:\n  web: {{ from: a, to: b, stack: own, clients: {{ addresses: {clients} }}, \
             servers: {{ addresses: {server}, ports: 80 }}, program: {{ http: {{ size: 20kB, requests: 3 }} }}, rate: 500/s, count: 500 }}\n",
            port("a", &bed.a.link.name),
            port("b", &bed.b.link.name),
        ),
        &Stop::new(),
    );
    balances(&report);
    let (client, server) =
        (side(&report, "web", SessionEnd::Client), side(&report, "web", SessionEnd::Server));
    assert_eq!((client.ends.in_order, server.ends.in_order), (500, 500), "{report:#?}");
    assert_eq!((client.messages.responses, client.bytes.verified), (1500, 1500 * 20_000));
    assert_eq!(client.bytes.delivered, server.bytes.sent);
    assert_eq!(client.messages.damaged, 0);
    for stack in &report.stacks {
        let (link, arrivals) = (&stack.link, &stack.arrivals);
        assert_eq!(
            (link.receive_drops, link.unresolved, arrivals.bad_checksum),
            (0, 0, 0),
            "{stack:#?}"
        );
    }
}

#[test]
fn both_ends_are_ours_over_a_cable() {
    require!(Capability::NetworkNamespaces);
    speaks_to_itself("packet");
}

#[test]
fn both_ends_are_ours_over_a_cable_and_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    speaks_to_itself("kernel");
}

#[test]
fn an_address_that_another_has_ends_the_run_before_it_begins() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let prepare = |address: &str| {
        let text = format!(
            "ports: {{ {} }}\nsessions: {{ x: {{ from: a, stack: own, clients: {{ addresses: {address} }}, \
             servers: {{ addresses: 192.0.2.1, ports: 80 }}, program: http, count: 1 }} }}\n",
            own_port(&bed, "packet")
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap();
        let named = [("a".to_owned(), bed.a.namespace.clone())];
        let options = Options { namespaces: named.into(), ..Options::default() };
        prepare(&scenario, options).map(drop).unwrap_err().to_string()
    };
    let theirs = prepare(&bed.b.ipv4.to_string());
    assert!(theirs.contains("is an address of another station"), "{theirs}");
    let ours = prepare(&bed.a.ipv4.to_string());
    assert!(ours.contains("is an address of this machine"), "{ours}");
}

/// Intervals are told while such a run goes on, on its own clock, and add up to the report.
#[test]
fn intervals_in_no_time_are_told_and_add_up() {
    #[derive(Default)]
    struct Told(Vec<Interval>);

    impl Observer for Told {
        fn progress(&mut self, _progress: &Progress) {}

        fn interval(&mut self, interval: &Interval) {
            self.0.push(interval.clone());
        }
    }

    let text = format!(
        "{MEMORY}sessions:\n  web: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1-10.0.1.9 }}, \
         servers: {{ addresses: 10.0.2.9, ports: 80 }}, program: http, rate: 50/s }}\nrun: {{ time: 10s }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let prepared = prepare(&scenario, Options::default()).unwrap();
    let mut told = Told::default();
    let report = prepared.start(&mut told, &Stop::new());
    let ends: Vec<u64> = told.0.iter().map(|interval| interval.to_ns).collect();
    assert!(ends.is_sorted_by(|a, b| a < b) && ends.len() >= 10, "{ends:?}");
    let opened: u64 = told
        .0
        .iter()
        .flat_map(|interval| &interval.sessions)
        .filter(|of| of.end == SessionEnd::Client)
        .map(|of| of.opened)
        .sum();
    let client = side(&report, "web", SessionEnd::Client);
    assert_eq!(opened, client.starts.opened);
    // so do response times, and no interval has fewer of them than responses
    let mut answered = (0, 0.0);
    for of in told.0.iter().flat_map(|interval| &interval.sessions) {
        let Some(times) = &of.response_ns else {
            assert!(of.end == SessionEnd::Server || of.responses == 0, "{of:?}");
            continue;
        };
        assert_eq!((of.end, times.count), (SessionEnd::Client, of.responses), "{of:?}");
        assert!(times.histogram.is_empty() && times.percentiles.p99.is_some(), "{times:?}");
        let mean = times.mean.unwrap();
        assert!(
            times.min.unwrap() as f64 <= mean && mean <= times.max.unwrap() as f64,
            "{times:?}"
        );
        answered = (answered.0 + times.count, answered.1 + mean * times.count as f64);
    }
    let all = &client.times.response.as_ref().unwrap().planned_ns;
    assert_eq!(answered.0, all.count);
    assert!(
        (answered.1 / all.count as f64 - all.mean.unwrap()).abs() < 1e3,
        "{answered:?} {all:?}"
    );
    // how busy this machine was changes nothing of it
    assert!(!report.findings.iter().any(|finding| finding.kind == FindingKind::Machine));
}

#[test]
fn a_group_that_waits_in_vain_is_a_finding_and_another_begins_in_its_time() {
    let group = |name: &str, port: u16, more: &str| {
        format!(
            "  {name}: {{ from: a, stack: own, clients: {{ addresses: 10.0.1.1 }}, servers: {{ addresses: 10.0.2.9, ports: {port} }}, \
             program: http, rate: 10/s, count: 3, {more} }}\n"
        )
    };
    let text = "ports:\n  a: { engine: loopback }\n  b: { engine: loopback }\nsessions:\n".to_owned()
        // nobody listens there
        + &group("refused", 99, "timeout: 5s")
        + &group("vain", 80, "to: b, after: { group: refused, established: 3 }")
        + &group("first", 81, "to: b")
        + &group("then", 82, "to: b, after: { group: first, established: 3 }");
    let report = in_no_time(&text);
    balances(&report);
    let ended = |name: &str| {
        let clients = side(&report, name, SessionEnd::Client);
        (clients.starts.due, clients.ends.in_order, clients.ends.refused)
    };
    assert_eq!(ended("refused"), (Some(3), 0, 3));
    assert_eq!(ended("vain"), (Some(0), 0, 0));
    assert_eq!((ended("first"), ended("then")), ((Some(3), 3, 0), (Some(3), 3, 0)));
    let found = |kind| report.findings.iter().filter(|one| one.kind == kind).collect::<Vec<_>>();
    let waits = found(FindingKind::SessionsNotBegun);
    assert!(waits.len() == 1 && waits[0].message.contains("'vain'"), "{:#?}", report.findings);
    assert!(found(FindingKind::SessionRateMissed).is_empty(), "{:#?}", report.findings);
}

/// The interface goes away while sessions are open: the run ends soon, says what happened, and the books of what was balance.
#[test]
fn a_run_survives_its_interface() {
    struct OnceOpen<F>(Option<F>);

    impl<F: FnOnce()> Observer for OnceOpen<F> {
        fn progress(&mut self, progress: &Progress) {
            if progress.sessions.is_some_and(|sessions| sessions.opened > 100)
                && let Some(then) = self.0.take()
            {
                then();
            }
        }
    }

    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for engine in ["packet", "kernel"] {
        let bed = joining_cable();
        let text = format!(
            "ports: {{ {}, b: {{ namespace: b, interface: {}, engine: {engine} }} }}\nsessions:\n  x: {{ from: a, to: b, stack: own, \
             clients: {{ addresses: {} }}, servers: {{ addresses: {}, ports: 80 }}, program: http, rate: 1000/s, hold: 1s }}\n\
             run: {{ time: 60s }}\n",
            own_port(&bed, engine),
            bed.b.link.name,
            free(&bed, 100, 20),
            free(&bed, 200, 1),
        );
        let (mut netlink, index) = (bed.a.netlink().unwrap(), bed.a.link.index);
        let delete = move || netlink.delete_link(index).unwrap();
        let report = run_observed(&bed, &text, &Stop::new(), &mut OnceOpen(Some(delete)));
        balances(&report);
        let End::Failed { message } = &report.end else { panic!("{engine}: {:?}", report.end) };
        let names = [&bed.a.link.name, &bed.b.link.name];
        assert!(names.iter().any(|name| message.contains(name.as_str())), "{engine}: {message}");
        assert_eq!(report.verdict, Verdict::Unfinished, "{engine}: {report:#?}");
        assert!(report.duration_ns < 30_000_000_000, "{engine}: {}", report.duration_ns);
        assert!(side(&report, "x", SessionEnd::Client).starts.established > 0, "{engine}");
    }
}

/// RST that clients were asked to end with is no failure of their servers' sessions; RST that a server sends is one of its clients'.
#[test]
fn a_reset_that_was_asked_for_is_no_failure() {
    let run = |program: &str| {
        in_no_time(&format!(
            "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nsessions:\n  x: {{ from: a, to: b, stack: own, \
             clients: {{ addresses: 10.0.1.1 }}, servers: {{ addresses: 10.0.2.1, ports: 80 }}, rate: 100/s, count: 20, \
             tcp: {{ reset: true }}, program: {program} }}\nrun: {{ time: 5s }}\n"
        ))
    };
    let failed = |report: &Report| {
        report.findings.iter().any(|finding| finding.kind == FindingKind::SessionsFailed)
    };
    let asked = run("http");
    let ends = side(&asked, "x", SessionEnd::Server).ends;
    assert_eq!((ends.reset, side(&asked, "x", SessionEnd::Client).ends.in_order), (20, 20));
    assert!(!failed(&asked), "{:#?}", asked.findings);
    let unasked =
        run("{ steps: { client: [ send: 10B, receive: 10B ], server: [ receive: 10B, reset ] } }");
    assert_eq!(side(&unasked, "x", SessionEnd::Client).ends.reset, 20, "{unasked:#?}");
    assert!(failed(&unasked), "{:#?}", unasked.findings);
}
