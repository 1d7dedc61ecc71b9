//! The wires of iperf3 and of iperf 2 as reports have them: what the real programs say at the other end is what the report says.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use wirebeat_report::model::{Interval, Report, SessionEnd, Verdict};
use wirebeat_run::iperf::{
    Amount, Direction, Protocol, Serving, TestSpec, Wire, WireServer, load, serve,
};
use wirebeat_run::{Observer, Options, Progress, Stop};
use wirebeat_testbed::{Capability, Process, Program, Testbed, require};
use wirebeat_traffic::scenario::session::Expectation;
use wirebeat_units::{BitRate, Bytes, Nanos};

use crate::sessions::{balances, side};
use crate::world::cable;

/// How long is waited for what takes an idle machine a second or two.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is told while a test runs.
#[derive(Default)]
struct Told {
    notices: Vec<String>,
    intervals: Vec<Interval>,
    ended: bool,
}

impl Observer for Told {
    fn progress(&mut self, progress: &Progress) {
        self.ended |= progress.ended;
    }

    fn interval(&mut self, interval: &Interval) {
        self.intervals.push(interval.clone());
    }

    fn notice(&mut self, message: &str) {
        self.notices.push(message.to_owned());
    }
}

/// A server of ours at `b` for one test, and what `client` at `a` says that it was told until its port is open.
fn served(
    bed: &Testbed,
    wire: Wire,
    mut client: impl FnMut(SocketAddr) -> Option<String>,
) -> (Report, Told, String) {
    let address = SocketAddr::from((bed.b.ipv4, wire.port()));
    let here = bed.b.namespace.clone();
    let serving = thread::spawn(move || {
        let mut told = Told::default();
        let server = WireServer { wire, address };
        let serve = || {
            serve(
                server,
                Serving { one_off: true, ..Serving::default() },
                &Options::default(),
                &mut told,
                &Stop::new(),
            )
            .unwrap()
        };
        let report = here.run(serve).unwrap();
        (report, told)
    });
    let until = Instant::now() + PATIENCE;
    let said = loop {
        match client(address) {
            Some(said) => break said,
            None => assert!(Instant::now() < until, "no client came through"),
        }
        thread::sleep(Duration::from_millis(50));
    };
    let (report, told) = serving.join().unwrap();
    (report, told, said)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn datagrams_of_a_client_of_iperf3_are_in_the_report_of_both_ends() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = cable();
    for reverse in [false, true] {
        let client = |at: SocketAddr| {
            let (ip, way) = (at.ip().to_string(), if reverse { "-R" } else { "-4" });
            let client = Program::new(&bed.a.namespace, "iperf3");
            let client =
                client.args(["-c", &ip, way]).args("-u -b 4M -l 1000 -t 1 -P 2 -J".split(' '));
            let said = client.output_limit(1 << 20).output(PATIENCE).unwrap().stdout;
            json(&said).get("error").is_none().then_some(said)
        };
        let (report, told, said) = served(&bed, Wire::Iperf3, client);
        balances(&report);
        assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0), "{report:#?}");
        let said = json(&said);
        let server = side(&report, "iperf3", SessionEnd::Server);
        let client = side(&report, "iperf3, as the other end says", SessionEnd::Client);
        assert_eq!(
            (server.program.as_str(), server.ends.in_order, server.most_open),
            ("udp", 2, 2)
        );
        let (sender, receiver) = if reverse { (server, client) } else { (client, server) };
        let (sent, received) = (sender.datagrams.unwrap(), receiver.datagrams.unwrap());
        let sum = |key: &str| -> u64 {
            said["end"]["streams"]
                .as_array()
                .unwrap()
                .iter()
                .map(|of| number(&of["udp"][key]))
                .sum()
        };
        assert_eq!(
            (sum("packets"), sum("lost_packets")),
            (sent.sent.max(received.received + received.lost), received.lost)
        );
        assert!(
            received.received > 100 && received.received + received.lost <= sent.sent,
            "{sent:?} {received:?}"
        );
        assert_eq!(sender.bytes.sent, sent.sent * 1_000);
        assert_eq!(receiver.bytes.delivered, received.received * 1_000);
        assert_eq!((sent.jitter_ns, sent.out_of_order), (None, None));
        // the wire does not have what the other end saw out of order
        assert_eq!(received.out_of_order, if reverse { None } else { Some(sum("out_of_order")) });
        let most = said["end"]["streams"].as_array().unwrap().iter();
        let most = most.map(|of| of["udp"]["jitter_ms"].as_f64().unwrap()).fold(0.0, f64::max);
        let jitter_ms = received.jitter_ns.unwrap() as f64 / 1e6;
        assert!((jitter_ms - most).abs() < 0.001, "{jitter_ms} ms and {most} ms");
        assert!(
            told.notices.iter().any(|line| line.contains("a test with") && line.contains("udp")),
            "{:?}",
            told.notices
        );
        // the intervals of this end are the whole, live and in the report
        let live = told.intervals.iter().flat_map(|interval| &interval.sessions);
        let kept = report.session_intervals.iter().flat_map(|interval| &interval.sessions);
        assert_eq!(live.clone().map(|of| of.opened).sum::<u64>(), server.starts.opened);
        assert_eq!(kept.clone().map(|of| of.opened).sum::<u64>(), server.starts.opened);
        let sums = [
            live.filter_map(|of| of.datagrams).collect::<Vec<_>>(),
            kept.filter_map(|of| of.datagrams).collect(),
        ];
        for sum in sums {
            let own = server.datagrams.unwrap();
            assert_eq!(sum.iter().map(|of| of.sent).sum::<u64>(), own.sent);
            assert_eq!(sum.iter().map(|of| of.received).sum::<u64>(), own.received);
        }
        assert!(told.ended);
    }
}

#[test]
fn a_server_of_iperf3_says_of_our_datagrams_what_the_report_says() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = cable();
    for direction in [Direction::Forward, Direction::Reverse, Direction::BothWays] {
        let server = Program::new(&bed.b.namespace, "iperf3");
        let server = server.args(["-s", "-1", "-J"]).output_limit(1 << 20).spawn().unwrap();
        let address = SocketAddr::from((bed.b.ipv4, 5201));
        let spec = TestSpec {
            protocol: Protocol::Udp,
            direction,
            streams: 2,
            amount: Amount::Time(Nanos::from_secs(1)),
            rate: Some(BitRate(4_000_000)),
            block: Some(Bytes::new(1_400)),
            ..TestSpec::default()
        };
        // the ends that receive count it, whichever these are
        let expected =
            ["rate.goodput >= 6Mbps", "lost-messages <= 5%", "received-messages > 1000000"];
        let expected: Vec<Expectation> = expected.iter().map(|one| one.parse().unwrap()).collect();
        let begun = Instant::now();
        let report = loop {
            let wire = WireServer { wire: Wire::Iperf3, address };
            let run = || {
                load(
                    wire,
                    &spec,
                    &expected,
                    &Options::default(),
                    (&mut Told::default(), &Stop::new()),
                )
            };
            match bed.a.namespace.run(run).unwrap() {
                Ok(report) => break report,
                // it says nothing before its first test
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{}", error.fault()),
            }
            thread::sleep(Duration::from_millis(20));
        };
        let said = json(&server.wait(PATIENCE).unwrap().stdout);
        assert_eq!(said.get("error"), None, "{said:#}");
        balances(&report);
        assert_eq!((report.verdict, report.exit_code), (Verdict::Unmet, 4), "{report:#?}");
        let judged = &side(&report, "iperf3", SessionEnd::Client).expectations;
        let met: Vec<bool> = judged.iter().map(|one| one.met).collect();
        assert_eq!(met, [true, true, false], "{judged:#?}");
        let ours = side(&report, "iperf3", SessionEnd::Client).datagrams.unwrap();
        let theirs = side(&report, "iperf3, as the other end says", SessionEnd::Server);
        let theirs = theirs.datagrams.unwrap();
        let streams = said["end"]["streams"].as_array().unwrap();
        let of = |sender: bool, key: &str| -> u64 {
            // both ways it has those that it receives first
            let split = if direction == Direction::BothWays { 2 } else { streams.len() };
            let (first, second) = streams.split_at(split);
            let chosen = match (direction, sender) {
                (Direction::Forward, true) | (Direction::Reverse, false) => &[][..],
                (Direction::BothWays, true) => second,
                _ => first,
            };
            chosen.iter().map(|of| number(&of["udp"][key])).sum()
        };
        assert_eq!(theirs.lost, of(false, "lost_packets"), "{said:#}");
        assert_eq!(theirs.received + theirs.lost, of(false, "packets"), "{said:#}");
        assert!(theirs.received + theirs.lost <= ours.sent, "{theirs:?} {ours:?}");
        assert!(ours.received + ours.lost <= theirs.sent, "{theirs:?} {ours:?}");
        assert_eq!(ours.sent > 0, direction != Direction::Reverse);
        assert_eq!(ours.received > 100, direction != Direction::Forward);
        assert_eq!(theirs.out_of_order, None);
        assert_eq!(ours.out_of_order, Some(0).filter(|_| direction != Direction::Forward));
    }
}

/// Bytes of the rows of single streams that iperf 2 prints with `-y C`.
fn rows(text: &str) -> Vec<u64> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, _, _, _, id, _, bytes, ..] = fields[..] else { return None };
        (id.parse::<i32>().ok()? > 0).then(|| bytes.parse().unwrap())
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn a_client_of_iperf_2_is_served_both_ways_and_in_turn() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    for (arguments, sent, received) in [
        ("-n 3M", 0, 1),
        ("-n 3M -P 3", 0, 3),
        ("-n 3M -d -L 5022", 1, 1),
        ("-n 3M -r -P 2 -L 5022", 2, 2),
    ] {
        let bed = cable();
        let client = |at: SocketAddr| {
            let client = Program::new(&bed.a.namespace, "iperf");
            let client = client.args(["-c", &at.ip().to_string(), "-y", "C"]);
            let client = client.args(arguments.split(' '));
            let said = client.output(PATIENCE).ok()?.stdout;
            (!rows(&said).is_empty()).then_some(said)
        };
        let (report, told, said) = served(&bed, Wire::Iperf2, client);
        balances(&report);
        assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0), "{report:#?}");
        assert_eq!(report.sessions.len(), 1, "iperf 2 says nothing of what it counted");
        let server = side(&report, "iperf2", SessionEnd::Server);
        assert_eq!((server.stack.as_str(), server.datagrams), ("iperf2", None));
        assert_eq!(server.ends.in_order, sent + received, "{arguments}");
        let each = 3 << 20;
        assert_eq!((server.bytes.sent, server.bytes.delivered), (sent * each, received * each));
        assert_eq!(
            rows(&said).iter().sum::<u64>(),
            (sent + received) * each,
            "{arguments}: {said}"
        );
        // the second part of a test in turn does not begin at zero again
        assert!(report.session_intervals.is_sorted_by_key(|of| of.from_ns), "{arguments}");
        assert!(
            told.notices.iter().any(|line| line.contains("iperf2: the test with")),
            "{told:?}",
            told = told.notices
        );
    }
}

/// A server of iperf 2 at `b`, which listens.
fn iperf2_server(bed: &Testbed) -> Process {
    let server = Program::new(&bed.b.namespace, "iperf");
    let server = server.args(["-s", "-y", "C"]).spawn().unwrap();
    // a connection would be a test: the table of sockets tells
    let listening = || {
        let table = |name| std::fs::read_to_string(name).unwrap_or_default();
        let all = table("/proc/thread-self/net/tcp") + &table("/proc/thread-self/net/tcp6");
        all.lines().any(|line| line.contains(":1389 ") && line.contains(" 0A "))
    };
    let begun = Instant::now();
    while !bed.b.namespace.run(listening).unwrap() {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
    server
}

#[test]
fn a_server_of_iperf_2_counts_what_the_report_says() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let amount = Amount::Bytes(Bytes::new(2_345_678));
    for (direction, streams) in [
        (Direction::Forward, 1),
        (Direction::Forward, 3),
        (Direction::BothWays, 2),
        // not with several streams: a server of iperf 2.1.8 then sometimes sends nothing
        (Direction::InTurn, 1),
    ] {
        let bed = cable();
        let server = iperf2_server(&bed);
        let wire = WireServer { wire: Wire::Iperf2, address: (bed.b.ipv4, 5001).into() };
        let spec = TestSpec { direction, streams, amount, ..TestSpec::default() };
        let run =
            || load(wire, &spec, &[], &Options::default(), (&mut Told::default(), &Stop::new()));
        let report = bed.a.namespace.run(run).unwrap().unwrap();
        balances(&report);
        assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0), "{report:#?}");
        let client = side(&report, "iperf2", SessionEnd::Client);
        let all = 2_345_678 * u64::from(streams);
        let back = if direction == Direction::Forward { 0 } else { all };
        assert_eq!((client.bytes.sent, client.bytes.delivered), (all, back));
        server.wait_for(",2345678,", PATIENCE).unwrap();
        let begun = Instant::now();
        while rows(&server.printed()).iter().sum::<u64>() < all + back && begun.elapsed() < PATIENCE
        {
            thread::sleep(Duration::from_millis(10));
        }
        server.interrupt();
        let text = server.wait(PATIENCE).unwrap().stdout;
        assert_eq!(rows(&text).iter().sum::<u64>(), all + back, "{text}");
    }
}

#[test]
fn what_a_wire_cannot_say_is_wrong_usage() {
    let wire = WireServer { wire: Wire::Iperf2, address: ([127, 0, 0, 1], 9).into() };
    let spec = TestSpec { protocol: Protocol::Udp, ..TestSpec::default() };
    let refused = load(wire, &spec, &[], &Options::default(), (&mut Told::default(), &Stop::new()));
    let refused = refused.unwrap_err();
    assert_eq!(refused.exit_code(), 2, "{}", refused.fault());
}
