//! Sessions whose servers are on another host: a listener there serves them (`--allow-serve`), in a namespace of its own. Both ends in
//! one report, and every limit of the owner held against senders that ask for more.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_report::model::{End, Report, SessionEnd, Verdict};
use wirebeat_run::options::KeySource;
use wirebeat_run::receive::ReceiveRequest;
use wirebeat_run::remote::{
    AskedGroup, AskedServing, Connection, RemoteError, ServeGrant, ServingOrder,
};
use wirebeat_run::{Observer, Options, Progress, RunError, Silent, Stop, prepare, receive};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::{EngineChoice, Scenario};

use crate::sessions::{balances, side};
use crate::two_hosts::{KEY, request};
use crate::world::cable;

/// A listener at the far end whose owner allows `grant`.
fn listener(bed: &Testbed, grant: Option<&str>) -> ReceiveRequest {
    let mut request = request(bed, EngineChoice::Packet);
    let listen = request.listen.as_mut().unwrap();
    let grant = grant.map(|grant| grant.replace("{B}", &bed.b.ipv4.to_string()));
    listen.allow_serve = grant.map(|grant| grant.parse::<ServeGrant>().unwrap());
    listen.once = false;
    request
}

struct Telling(mpsc::Sender<String>);

impl Observer for Telling {
    fn progress(&mut self, _progress: &Progress) {}

    fn notice(&mut self, message: &str) {
        let _ = self.0.send(message.to_owned());
    }
}

/// Runs `work` in the near namespace while a listener listens in the other, which `Stop` ends; gives what it said and the listener's
/// report.
fn with_listener<T: Send>(
    grant: Option<&str>,
    work: impl FnOnce(&Testbed, &Stop) -> T + Send,
) -> (T, Report) {
    let bed = cable();
    let request = listener(&bed, grant);
    let stop = Stop::new();
    thread::scope(|scope| {
        let (telling, notices) = mpsc::channel();
        let (stopped, bed) = (stop.clone(), &bed);
        let receiver = scope.spawn(move || {
            let work = || receive(&request, &mut Telling(telling), &stopped);
            bed.b.namespace.run(work).unwrap().unwrap_or_else(|error| panic!("{error}"))
        });
        while !notices.recv_timeout(Duration::from_secs(30)).unwrap().contains("listening") {}
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            bed.a.namespace.run(|| work(bed, &stop)).unwrap()
        }));
        stop.ask(0);
        let report = receiver.join().unwrap();
        (done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), report)
    })
}

fn key_file(name: &str, key: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sessions-{name}.key"));
    std::fs::write(&file, key).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    file
}

/// A scenario with the port `here`, and `far` at the other end; `{A}`, `{B}` are the addresses of both.
fn scenario(bed: &Testbed, key: PathBuf, rest: &str) -> Scenario {
    let text = format!(
        "ports:\n  here: {{}}\n  far: {{ peer: '{}', key-file: '{}', addresses: ['{{B}}'] }}\n{rest}",
        SocketAddr::new(bed.b.ipv4.into(), 4790),
        key.display()
    );
    let text = text.replace("{A}", &bed.a.ipv4.to_string()).replace("{B}", &bed.b.ipv4.to_string());
    Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn run(scenario: &Scenario, observer: &mut dyn Observer, stop: &Stop) -> Result<Report, RunError> {
    Ok(prepare(scenario, Options::default())?.start(observer, stop))
}

const GRANT: &str = "{B}:80,{B}:5001-5003,sessions=200,time=60s";

const GROUPS: &str = "sessions:
  web: { from: here, to: far, servers: { ports: 80 }, program: { http: { size: { uniform: { min: 1kB, max: 40kB } }, requests: 3 } }, rate: 100/s, count: 50 }
  bulk: { from: here, to: far, servers: { ports: 5001 }, program: { bulk: { bytes: 2MB, direction: both } }, users: 2, count: 4 }
  echo: { from: here, to: far, servers: { ports: 5002 }, program: { echo: { messages: 20, gap: 5ms } }, count: 10 }
  back: { from: here, to: far, servers: { ports: 5003 }, program: { bulk: { direction: reverse } }, users: 1, count: 1 }
run: { time: 1s, interval: 200ms }
";

#[test]
fn both_ends_agree_run_after_run() {
    require!(Capability::NetworkNamespaces);
    let (reports, far) = with_listener(Some(GRANT), |bed, _| {
        let scenario = scenario(bed, key_file("agree", KEY), GROUPS);
        [(); 2].map(|()| run(&scenario, &mut Silent, &Stop::new()))
    });
    for report in reports {
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        balances(&report);
        assert_eq!((report.verdict, &report.end), (Verdict::Done, &End::Completed), "{report:#?}");
        for (name, sessions, requests) in
            [("web", 50, 150), ("bulk", 4, 0), ("echo", 10, 200), ("back", 1, 0)]
        {
            let (client, server) =
                (side(&report, name, SessionEnd::Client), side(&report, name, SessionEnd::Server));
            assert_eq!(
                (client.ends.in_order, server.ends.in_order),
                (sessions, sessions),
                "{name}"
            );
            assert_eq!(client.messages.requests, requests, "{name}");
            assert_eq!((client.messages.damaged, server.messages.damaged), (0, 0), "{name}");
            assert_eq!(client.bytes.sent, server.bytes.delivered, "{name}");
            assert_eq!(server.bytes.sent, client.bytes.delivered, "{name}");
            assert_eq!((client.stack.as_str(), server.stack.as_str()), ("host", "host"));
            assert!(client.paired_with.is_some() && server.paired_with.is_some());
            // by one clock
            assert!(server.to_ns.unwrap() < 10_000_000_000, "{name}");
        }
        // each end knows what the other sends
        assert_eq!(side(&report, "bulk", SessionEnd::Server).bytes.verified, 8_000_000);
        let back = side(&report, "back", SessionEnd::Client);
        assert!(back.bytes.delivered > 0 && back.bytes.verified == back.bytes.delivered);
        let between = |check: &&wirebeat_report::model::Equation| check.scope.contains(" to ");
        assert_eq!(report.consistency_checks.iter().filter(between).count(), 8);
        let ends = report.session_intervals.iter().flat_map(|of| &of.sessions).map(|of| of.end);
        assert!(ends.filter(|end| *end == SessionEnd::Server).count() >= 8);
    }
    let told = |text: &str| far.findings.iter().any(|finding| finding.message.contains(text));
    assert!(told("130 sessions were served for senders"), "{:#?}", far.findings);
}

#[test]
fn our_own_tcp_speaks_with_servers_on_another_host() {
    require!(Capability::NetworkNamespaces);
    let (report, _) = with_listener(Some(GRANT), |bed, _| {
        let mut octets = bed.a.ipv4.octets();
        octets[3] = 77;
        let client = std::net::Ipv4Addr::from(octets);
        let groups = format!(
            "sessions:\n  web: {{ from: here, to: far, stack: own, clients: {{ addresses: {client} }}, servers: {{ ports: 80 }}, program: \
             {{ http: {{ size: 10kB }} }}, rate: 50/s, count: 20 }}\n"
        );
        let mut scenario = scenario(bed, key_file("own", KEY), &groups);
        scenario.ports["here"].interface = Some("wb0".to_owned());
        run(&scenario, &mut Silent, &Stop::new())
    });
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    balances(&report);
    let (client, server) =
        (side(&report, "web", SessionEnd::Client), side(&report, "web", SessionEnd::Server));
    assert_eq!((client.stack.as_str(), server.stack.as_str()), ("own", "host"));
    assert_eq!((client.ends.in_order, server.ends.in_order), (20, 20), "{report:#?}");
    assert_eq!(client.bytes.verified, 200_000);
}

/// The listener makes a certificate for the run, which nobody vouches for; what is said over it is compared as everywhere.
#[test]
fn tls_is_spoken_with_servers_on_another_host() {
    require!(Capability::NetworkNamespaces);
    let (report, _) = with_listener(Some(GRANT), |bed, _| {
        let groups = "sessions:\n  web: { from: here, to: far, servers: { ports: 80 }, program: { http: { size: 10kB, requests: 2 } }, rate: 50/s, \
                      count: 20, tls: { verify: false }, expect: [ 'handshakes.resumed >= 50%' ] }\n  \
                      bulk: { from: here, to: far, servers: { ports: 5001 }, program: { bulk: { bytes: 200kB, direction: both } }, users: 2, count: 4, \
                      tls: { verify: false, versions: [1.2] } }\n";
        run(&scenario(bed, key_file("tls", KEY), groups), &mut Silent, &Stop::new())
    });
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    balances(&report);
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    for (name, sessions, version) in [("web", 20, "TLS13"), ("bulk", 4, "TLS_ECDHE")] {
        let ends = [SessionEnd::Client, SessionEnd::Server].map(|end| side(&report, name, end));
        for of in ends {
            let tls = of.tls.as_ref().unwrap_or_else(|| panic!("{of:#?}"));
            assert_eq!((of.ends.in_order, tls.handshakes), (sessions, sessions), "{name}: {of:#?}");
            assert!(tls.suites.keys().all(|suite| suite.contains(version)), "{tls:?}");
            assert_eq!(of.messages.damaged, 0);
        }
        let [client, server] = ends;
        assert_eq!(client.bytes.sent, server.bytes.delivered, "{name}");
        assert_eq!(server.bytes.sent, client.bytes.delivered, "{name}");
    }
    assert_eq!(side(&report, "web", SessionEnd::Client).bytes.verified, 400_000);
}

/// What a group waits for is counted by its clients, which are here; the listener accepts it from the begin on.
#[test]
fn a_group_waits_for_another_whose_servers_are_on_another_host() {
    require!(Capability::NetworkNamespaces);
    let (report, _) = with_listener(Some(GRANT), |bed, _| {
        let groups = "sessions:\n  first: { from: here, to: far, servers: { ports: 80 }, program: { http: {} }, rate: 20/s, count: 20 }\n  \
                      then: { from: here, to: far, servers: { ports: 5001 }, program: { http: {} }, rate: 50/s, start: 100ms, stop: 400ms, \
                      after: { group: first, established: 20 } }\nrun: { time: 5s }\n";
        run(&scenario(bed, key_file("after", KEY), groups), &mut Silent, &Stop::new())
    });
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    balances(&report);
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    let ended = |name, end| side(&report, name, end).ends.in_order;
    assert_eq!(ended("first", SessionEnd::Client), 20);
    // between 100 and 400 ms behind the twentieth session of the first, which is established after 950 ms
    assert_eq!(
        (ended("then", SessionEnd::Client), ended("then", SessionEnd::Server)),
        (15, 15),
        "{report:#?}"
    );
    let from = side(&report, "then", SessionEnd::Client).from_ns.unwrap();
    assert!((1_000_000_000..1_500_000_000).contains(&from), "{from}");
}

/// What is said where a run with this listener and group does not begin, and its exit code.
fn refused(grant: Option<&str>, key: &str, group: &str) -> (String, u8) {
    let (said, far) = with_listener(grant, |bed, _| {
        let name = format!("refused-{}", std::process::id());
        let groups = format!("sessions:\n  web: {{ from: here, to: far, {group} }}\n");
        let scenario = scenario(bed, key_file(&name, key), &groups);
        let error = run(&scenario, &mut Silent, &Stop::new()).unwrap_err();
        (error.to_string(), error.exit().code())
    });
    let served =
        |finding: &wirebeat_report::model::Finding| finding.message.contains("were served");
    assert!(!far.findings.iter().any(served), "{:#?}", far.findings);
    said
}

const WEB: &str = "servers: { ports: 80 }, program: http, count: 1";

#[test]
fn what_the_owner_does_not_allow_is_refused_with_the_remedy() {
    require!(Capability::NetworkNamespaces);
    let short = "{B}:80,sessions=10,time=5s";
    for (grant, group, says) in [
        (None, WEB, "it serves no sessions; its owner can allow it with --allow-serve"),
        (
            Some(GRANT),
            "servers: { ports: 81 }, program: http, count: 1",
            ":81; the listener allows 10.",
        ),
        (
            Some(GRANT),
            "servers: { addresses: 127.0.0.1, ports: 80 }, program: http, count: 1",
            "it is to be accepted at 127.0.0.1:80",
        ),
        (
            Some(short),
            "servers: { ports: 80 }, program: http, users: 11",
            "11 sessions may be open at a time",
        ),
        (
            Some(short),
            "servers: { ports: 80 }, program: http, rate: 1/s, stop: 6s",
            "its sessions start for 6",
        ),
        (
            Some(GRANT),
            "servers: { ports: 80 }, program: http, count: 1, tcp: { receive-buffer: 1MiB }",
            "leave 'receive-buffer' out",
        ),
    ] {
        let (said, code) = refused(grant, KEY, group);
        assert!(said.contains(says) && code == 2, "{group}: {said} ({code})");
    }
}

#[test]
fn another_key_is_refused() {
    require!(Capability::NetworkNamespaces);
    let (said, code) = refused(Some(GRANT), "another-key-than-the-listener-has", WEB);
    assert!(said.contains("has another key") && code == 2, "{said} ({code})");
}

/// Stops something when so many sessions have ended.
struct StopWhen<'a> {
    ended: u64,
    stop: &'a Stop,
}

impl Observer for StopWhen<'_> {
    fn progress(&mut self, progress: &Progress) {
        if progress.sessions.is_some_and(|sessions| sessions.ended >= self.ended) {
            self.stop.ask(0);
        }
    }

    fn watches(&self) -> bool {
        true
    }
}

const LONG: &str = "sessions:
  web: { from: here, to: far, servers: { ports: 80 }, program: { http: { size: 1kB } }, rate: 50/s }
run: { time: 20s }
";

#[test]
fn a_listener_that_goes_away_ends_the_run_and_is_told() {
    require!(Capability::NetworkNamespaces);
    let begun = Instant::now();
    let (report, _) = with_listener(Some(GRANT), |bed, far| {
        let scenario = scenario(bed, key_file("gone", KEY), LONG);
        run(&scenario, &mut StopWhen { ended: 20, stop: far }, &Stop::new()).unwrap()
    });
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(matches!(report.end, End::PeerGone { .. }), "{:?}", report.end);
    assert_eq!(report.verdict, Verdict::Unfinished);
    let told = |text: &str| report.findings.iter().any(|finding| finding.message.contains(text));
    assert!(
        told("no longer serves the sessions of this run: it was stopped"),
        "{:#?}",
        report.findings
    );
    assert!(side(&report, "web", SessionEnd::Client).ends.in_order >= 20);
}

/// The cable is cut: nobody says that the listener is gone.
#[test]
fn a_listener_that_falls_silent_ends_the_run() {
    require!(Capability::NetworkNamespaces);
    let begun = Instant::now();
    let (report, far) = with_listener(Some(GRANT), |bed, _| {
        let scenario = scenario(bed, key_file("silent", KEY), LONG);
        let cut = Stop::new();
        thread::scope(|scope| {
            let (cut, over) = (&cut, Instant::now() + Duration::from_secs(10));
            scope.spawn(move || {
                while !cut.asked() && Instant::now() < over {
                    thread::sleep(Duration::from_millis(10));
                }
                let mut netlink = bed.b.netlink().unwrap();
                let link = netlink.link_by_name("wb1").unwrap().index;
                netlink.set_down(link).unwrap();
            });
            run(&scenario, &mut StopWhen { ended: 20, stop: cut }, &Stop::new()).unwrap()
        })
    });
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    assert!(matches!(report.end, End::PeerGone { .. }), "{:?}", report.end);
    // the other end had ended by itself long before
    let told = |text: &str| far.findings.iter().any(|finding| finding.message.contains(text));
    assert!(told("were served for senders in"), "{:#?}", far.findings);
}

#[test]
fn the_time_that_is_allowed_ends_what_is_served() {
    require!(Capability::NetworkNamespaces);
    let (report, _) = with_listener(Some("{B}:80,time=1s"), |bed, _| {
        let groups = "sessions:\n  web: { from: here, to: far, servers: { ports: 80 }, program: { http: { requests: 1000, think: 20ms } }, \
                      users: 3, count: 3, timeout: 3s }\n";
        let scenario = scenario(bed, key_file("time", KEY), groups);
        let report = run(&scenario, &mut Silent, &Stop::new()).unwrap();
        // nobody listens there any more
        let at = SocketAddr::new(bed.b.ipv4.into(), 80);
        assert!(TcpStream::connect_timeout(&at, Duration::from_secs(5)).is_err());
        report
    });
    assert!(matches!(report.end, End::PeerGone { .. }), "{:?}", report.end);
    let told = |text: &str| report.findings.iter().any(|finding| finding.message.contains(text));
    assert!(told("the time was over that the listener's owner allows"), "{:#?}", report.findings);
}

#[test]
fn a_run_that_is_stopped_ends_both_ends() {
    require!(Capability::NetworkNamespaces);
    let (report, _) = with_listener(Some(GRANT), |bed, _| {
        let scenario = scenario(bed, key_file("stopped", KEY), LONG);
        let stop = Stop::new();
        run(&scenario, &mut StopWhen { ended: 20, stop: &stop }, &stop).unwrap()
    });
    balances(&report);
    assert!(matches!(report.end, End::Stopped { .. }), "{:?}", report.end);
    let (client, server) =
        (side(&report, "web", SessionEnd::Client), side(&report, "web", SessionEnd::Server));
    assert!(client.ends.in_order >= 20 && server.ends.in_order >= 20);
}

#[test]
fn the_key_of_a_command_line_serves_where_a_port_has_none() {
    require!(Capability::NetworkNamespaces);
    let (report, _) = with_listener(Some(GRANT), |bed, _| {
        let mut scenario = scenario(
            bed,
            key_file("unused", KEY),
            &format!("sessions:\n  web: {{ from: here, to: far, {WEB} }}\n"),
        );
        scenario.ports["far"].key_file = None;
        let address = SocketAddr::new(bed.b.ipv4.into(), 4790);
        let peer = wirebeat_run::Peer { address, key: Some(KeySource::Text(KEY.to_owned())) };
        let options = Options { peer: Some(peer), ..Options::default() };
        prepare(&scenario, options)
            .unwrap_or_else(|error| panic!("{error}"))
            .start(&mut Silent, &Stop::new())
    });
    assert_eq!(side(&report, "web", SessionEnd::Server).ends.in_order, 1);
}

/// A sender that asks without having looked at what the owner allows.
#[test]
fn the_listener_checks_what_a_sender_did_not() {
    require!(Capability::NetworkNamespaces);
    with_listener(Some(GRANT), |bed, _| {
        let peer = wirebeat_run::Peer {
            address: SocketAddr::new(bed.b.ipv4.into(), 4790),
            key: Some(KeySource::Text(KEY.to_owned())),
        };
        let asked = |servers: &str, more: &str| {
            let text = format!(
                "ports: {{ there: {{}}, here: {{}} }}\nsessions: {{ web: {{ from: there, to: here, servers: {servers}, users: 1, program: \
                 http{more} }} }}\n"
            );
            let text = text.replace("{B}", &bed.b.ipv4.to_string());
            let spec = Scenario::from_yaml(&text, "test").unwrap().sessions["web"].clone();
            let group = AskedGroup { number: 0, name: "web".to_owned(), session: Box::new(spec) };
            AskedServing { run: 0, seed: 1, time_ns: None, settle_ns: 0, groups: vec![group] }
        };
        let plain = "{ addresses: '{B}', ports: 80 }";
        for (servers, more, says) in [
            ("{ addresses: '{B}', ports: 79 }", "", "it is to be accepted at"),
            ("{ addresses: 0.0.0.0, ports: 80 }", "", "it is to be accepted at 0.0.0.0:80"),
            ("{ addresses: '{B}', ports: 5001-65535 }", "", "and 1 to 64 can be"),
            (plain, ", stack: own, clients: { addresses: 10.9.9.9 }", "with its system's TCP"),
            (plain, ", clients: { addresses: 10.9.9.9 }", "what servers do not need"),
            (plain, ", tcp: { send-buffer: 1MiB }", "leave 'send-buffer' out"),
            (plain, ", stop: 61s", "its sessions start for"),
            (
                plain,
                ", tls: { certificate: /etc/passwd, key: /etc/passwd }",
                "a listener reads no files",
            ),
        ] {
            let mut measurement = Connection::open(&peer).unwrap().begin(Vec::new()).unwrap();
            let error = measurement.prepare_serving(asked(servers, more)).unwrap_err();
            assert!(matches!(error, RemoteError::Refused { .. }), "{error}");
            assert!(error.to_string().contains(says), "{servers}{more}: {error}");
        }
        // once in a run, and nothing before it was asked for
        let mut measurement = Connection::open(&peer).unwrap().begin(Vec::new()).unwrap();
        let error = measurement.look_at_serving(ServingOrder::GoOn, &[0]).unwrap_err();
        assert!(error.to_string().contains("nothing is served"), "{error}");
        let mut measurement = Connection::open(&peer).unwrap().begin(Vec::new()).unwrap();
        measurement.prepare_serving(asked(plain, "")).unwrap();
        let error = measurement.prepare_serving(asked(plain, "")).unwrap_err();
        assert!(error.to_string().contains("to serve in this run before"), "{error}");
    });
}
