//! D-ITG's flows as reports have them: what ITGDec reads from the logs of the real programs, and from ours, is what the report says.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_report::format::{Presentable, Rendering};
use wirebeat_report::model::{Interval, Report, SessionReport, Verdict};
use wirebeat_run::ditg::{Amount, FlowMeter, FlowSpec, LONGEST, PORT, Transport, load, serve};
use wirebeat_run::{Observer, Options, Progress, Stop};
use wirebeat_testbed::{Capability, Program, Testbed, require};
use wirebeat_traffic::scenario::session::Expectation;
use wirebeat_units::{FrameRate, Nanos};

use crate::sessions::balances;
use crate::world::cable;

/// How long is waited for what takes an idle machine a second or two.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is told while flows go.
#[derive(Default)]
struct Told {
    notices: Vec<String>,
    intervals: Vec<Interval>,
    listening: Option<std::sync::mpsc::Sender<SocketAddr>>,
}

impl Observer for Told {
    fn progress(&mut self, _progress: &Progress) {}

    fn interval(&mut self, interval: &Interval) {
        self.intervals.push(interval.clone());
    }

    fn notice(&mut self, message: &str) {
        self.notices.push(message.to_owned());
    }

    fn listening(&mut self, address: SocketAddr) {
        if let Some(listening) = &self.listening {
            listening.send(address).unwrap();
        }
    }
}

fn file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ditg-{name}"));
    let _ = std::fs::remove_file(&path);
    path
}

/// What ITGDec says of all flows of a log: packets, bytes, packets dropped, and the mean delay in nanoseconds.
fn decoded(bed: &Testbed, log: &Path) -> (u64, u64, u64, f64) {
    let dec = Program::new(&bed.a.namespace, "ITGDec").args([log.to_str().unwrap()]);
    let text = dec.output(PATIENCE).unwrap().stdout;
    let total = text.split_once("TOTAL RESULTS").unwrap_or_else(|| panic!("{text}")).1;
    let value = |key: &str| -> f64 {
        let rest = total.split_once(key).unwrap_or_else(|| panic!("{key}: {text}")).1;
        let rest = rest.split_once('=').unwrap().1.trim_start();
        rest.split_ascii_whitespace().next().unwrap().parse().unwrap()
    };
    assert_eq!(value("Error lines"), 0.0, "{text}");
    let count = |key: &str| value(key) as u64;
    let (packets, bytes) = (count("Total packets"), count("Bytes received"));
    (packets, bytes, count("Packets dropped"), value("Average delay") * 1e9)
}

/// Does `work` while a receiver of ours listens at `b`.
fn serving(bed: &Testbed, log: &Path, work: impl FnOnce(SocketAddr)) -> (Report, Told) {
    let stop = Stop::new();
    let (tell, told) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut told = Told { listening: Some(tell), ..Told::default() };
            let address = SocketAddr::from((bed.b.ipv4, PORT));
            let serve = || {
                serve(address, (None, LONGEST, Some(log)), &Options::default(), &mut told, &stop)
            };
            let report = bed.b.namespace.run(serve).unwrap().unwrap();
            (report, told)
        });
        let address = told.recv_timeout(PATIENCE).unwrap();
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(address)));
        stop.ask(0);
        let served = server.join().unwrap();
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        served
    })
}

/// The group of the flow with this number.
fn flow(report: &Report, number: u32) -> &SessionReport {
    let of = |group: &&SessionReport| {
        group.name == format!("flow {number}")
            || group.name.starts_with(&format!("flow {number} of "))
    };
    report.sessions.iter().find(of).unwrap_or_else(|| panic!("no flow {number}: {report:#?}"))
}

#[test]
fn flows_of_itgsend_are_in_the_report_as_itgdec_reads_our_log() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("ITGSend"),
        Capability::Program("ITGDec")
    );
    let bed = cable();
    for transport in ["UDP", "TCP"] {
        let log = file(&format!("received-{transport}.log"));
        let (namespace, to) = (&bed.a.namespace, bed.b.ipv4.to_string());
        let (report, told) = serving(&bed, &log, |_| {
            let line = format!("-a {to} -T {transport} -z 300 -C 200 -c 400");
            let send = Program::new(namespace, "ITGSend");
            let send = send.args(line.split_ascii_whitespace()).output(PATIENCE).unwrap();
            assert!(send.status.success(), "{send:?}");
        });
        balances(&report);
        let group = flow(&report, 1);
        let one_way = group.one_way.as_ref().unwrap();
        let delay = group.times.delay.as_ref().unwrap();
        let (packets, bytes, dropped, mean) = decoded(&bed, &log);
        assert_eq!((one_way.received, one_way.lost), (packets, dropped), "{report:#?}");
        assert_eq!((one_way.out_of_order, one_way.duplicate), (0, 0));
        assert_eq!((packets, bytes), (300, group.bytes.delivered));
        assert_eq!((delay.actual_ns.count, delay.planned_ns.count), (300, 0));
        let ours = delay.actual_ns.mean.unwrap();
        assert!((ours - mean).abs() <= 2_000.0, "{ours} ns and {mean} ns");
        assert_eq!(group.transport.as_deref(), (transport == "UDP").then_some("udp"));
        assert_eq!((group.stack.as_str(), group.program.as_str()), ("d-itg", "owdm"));
        assert_eq!((group.starts.opened, group.ends.in_order), (1, 1));
        // the intervals are the whole, live and in the report
        let live = told.intervals.iter().flat_map(|interval| &interval.sessions);
        let kept = report.session_intervals.iter().flat_map(|interval| &interval.sessions);
        assert_eq!(live.map(|of| of.received_messages).sum::<u64>(), 300);
        assert_eq!(kept.clone().map(|of| of.received_messages).sum::<u64>(), 300);
        assert_eq!(kept.map(|of| of.opened).sum::<u64>(), 1);
        let says = |what: &str| told.notices.iter().any(|line| line.contains(what));
        assert!(
            says("flow 1 of ") && says("300 packets with 120 kB received"),
            "{:?}",
            told.notices
        );
        let text = report.text(Rendering::default());
        assert!(
            text.contains("300 messages received of 400 B") && text.contains("delay"),
            "{text}"
        );
    }
}

#[test]
fn itgrecv_logs_what_the_report_says_that_we_sent() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("ITGRecv"),
        Capability::Program("ITGDec")
    );
    for (transport, meter) in [
        (Transport::Udp, FlowMeter::OneWay),
        (Transport::Tcp, FlowMeter::OneWay),
        (Transport::Udp, FlowMeter::RoundTrip),
    ] {
        let bed = cable();
        let name = format!("{}-{}", transport.name(), meter.name());
        let (theirs, ours) =
            (file(&format!("itgrecv-{name}.log")), file(&format!("sent-{name}.log")));
        let recv = Program::new(&bed.b.namespace, "ITGRecv");
        let recv = recv.args(["-q", "1", "-l", theirs.to_str().unwrap()]).spawn().unwrap();
        let rate = Some(FrameRate { frames: 300, per: Nanos::from_secs(1) });
        let amount = Amount::Time(Nanos::from_secs(1));
        let spec =
            FlowSpec { transport, meter, rate, amount, flows: 2, size: 200, ..FlowSpec::default() };
        let round_trips = meter == FlowMeter::RoundTrip;
        let expected = match round_trips {
            true => &["lost-responses == 0", "response.max.actual < 10s", "responses > 1000"][..],
            false => &["sent-messages == 600", "failed == 0", "sent-messages > 600"],
        };
        let expected: Vec<Expectation> = expected.iter().map(|one| one.parse().unwrap()).collect();
        let begun = Instant::now();
        let receiver = SocketAddr::from((bed.b.ipv4, PORT));
        let report = loop {
            let run = || {
                let flows = (&spec, Some(ours.as_path()));
                load(
                    receiver,
                    flows,
                    &expected,
                    &Options::default(),
                    (&mut Told::default(), &Stop::new()),
                )
            };
            match bed.a.namespace.run(run).unwrap() {
                Ok(report) => break report,
                // it says nothing before its first flow
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{}", error.fault()),
            }
            thread::sleep(Duration::from_millis(20));
        };
        recv.interrupt();
        recv.wait(PATIENCE).unwrap();
        balances(&report);
        assert_eq!((report.verdict, report.exit_code), (Verdict::Unmet, 4), "{report:#?}");
        let met: Vec<bool> = flow(&report, 1).expectations.iter().map(|one| one.met).collect();
        assert_eq!(met, [true, true, false], "{report:#?}");
        let (packets, bytes, dropped, _) = decoded(&bed, &theirs);
        assert_eq!((packets, bytes, dropped), (600, 120_000, 0), "{name}");
        let (packets, bytes, _, mean) = decoded(&bed, &ours);
        assert_eq!((packets, bytes), (600, 120_000), "{name}");
        for number in [1, 2] {
            let group = flow(&report, number);
            assert_eq!(group.one_way.as_ref().unwrap().sent, 300);
            assert_eq!(group.bytes.sent, 60_000);
            let back = if round_trips { 300 } else { 0 };
            assert_eq!((group.messages.responses, group.messages.lost), (back, 0));
            assert_eq!(group.times.response.is_some(), round_trips);
        }
        assert_eq!(mean > 0.0, round_trips, "{name}: {mean} ns");
    }
}

#[test]
fn flows_that_cannot_be_are_wrong_usage() {
    let receiver = SocketAddr::from(([127, 0, 0, 1], 9));
    let run = |spec: &FlowSpec, log: Option<&Path>| {
        let (mut told, stop) = (Told::default(), Stop::new());
        let refused = load(receiver, (spec, log), &[], &Options::default(), (&mut told, &stop));
        refused.unwrap_err().exit_code()
    };
    assert_eq!(run(&FlowSpec { size: 3, ..FlowSpec::default() }, None), 2);
    let nowhere = Path::new("/nonexistent/log");
    assert_eq!(run(&FlowSpec::default(), Some(nowhere)), 5);
}
