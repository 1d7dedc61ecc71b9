//! A listener whose owner lets it send (`--allow-send`): flows both ways at once in one report, and every limit held against
//! peers that ask for more. Each end is in a namespace of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_report::model::{End, Relation, Report};
use wirebeat_run::options::KeySource;
use wirebeat_run::receive::ReceiveRequest;
use wirebeat_run::remote::{
    AskedFlow, AskedSending, Connection, Grant, Measurement, RemoteError, Sent,
};
use wirebeat_run::{Lab, Observer, Options, Peer, Progress, RunError, Silent, Stop, receive};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::{EngineChoice, Scenario};
use wirebeat_units::Nanos;

use crate::two_hosts::{KEY, request};
use crate::world::{balanced, cable};

/// What most owners here allow: the other end of the cable.
fn usual(bed: &Testbed) -> String {
    format!("{},rate=50Mbps,time=20s", bed.a.ipv4)
}

/// A receiver at the far end whose owner allows `grant`.
fn allowing(bed: &Testbed, engine: EngineChoice, grant: Option<&str>) -> ReceiveRequest {
    let mut request = request(bed, engine);
    let listen = request.listen.as_mut().unwrap();
    listen.allow_send = grant.map(|grant| grant.parse::<Grant>().unwrap());
    // peers that are refused something come again
    listen.once = false;
    request
}

/// Tells all notices.
struct Telling(mpsc::Sender<String>);

impl Observer for Telling {
    fn progress(&mut self, _progress: &Progress) {}

    fn notice(&mut self, message: &str) {
        let _ = self.0.send(message.to_owned());
    }
}

/// A listener that runs in the far namespace.
struct Far<'a> {
    bed: &'a Testbed,
    stop: Stop,
    notices: Mutex<mpsc::Receiver<String>>,
}

impl Far<'_> {
    /// A connection of a peer for which the flow `x` is sent by now.
    fn sending(&self, flow: &str) -> Measurement {
        let mut measurement = connect(self.bed);
        measurement.prepare_sending(asked(self.bed, flow)).unwrap();
        measurement.start_sending(now()).unwrap();
        self.await_notice("sends 1 flow (x), as --allow-send permits");
        measurement
    }

    /// Waits for a notice with this text in it.
    fn await_notice(&self, text: &str) -> String {
        let mut heard = Vec::new();
        loop {
            match self.notices.lock().unwrap().recv_timeout(Duration::from_secs(30)) {
                Ok(notice) if notice.contains(text) => return notice,
                Ok(notice) => heard.push(notice),
                Err(_) => panic!("'{text}' was not told: {heard:#?}"),
            }
        }
    }
}

/// Runs `work` in the near namespace while a listener listens in the other; gives what it said and the listener's report.
fn with_listener<T: Send>(
    request: impl FnOnce(&Testbed) -> ReceiveRequest,
    work: impl FnOnce(&Far<'_>) -> T + Send,
) -> (T, Report) {
    let bed = cable();
    let request = request(&bed);
    let stop = Stop::new();
    thread::scope(|scope| {
        let (telling, notices) = mpsc::channel();
        let (stopped, bed) = (stop.clone(), &bed);
        let receiver = scope.spawn(move || {
            let work = || receive(&request, &mut Telling(telling), &stopped);
            bed.b.namespace.run(work).unwrap().unwrap_or_else(|error| panic!("{error}"))
        });
        let far = Far { bed, stop: stop.clone(), notices: Mutex::new(notices) };
        far.await_notice("listening");
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            bed.a.namespace.run(|| work(&far)).unwrap()
        }));
        stop.ask(0);
        let report = receiver.join().unwrap();
        (done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), report)
    })
}

fn key_file(name: &str) -> PathBuf {
    let key = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.key"));
    std::fs::write(&key, KEY).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    key
}

/// A scenario with the port `here`, and `far` at the other end.
fn scenario(bed: &Testbed, engine: &str, key: &str, flows: &str) -> Scenario {
    let text = format!(
        "ports:\n  here: {{ interface: wb0, engine: {engine} }}\n  far: {{ peer: '{}', key-file: '{}', addresses: [{}] }}\n\
         flows:\n{flows}run: {{ interval: 50ms }}\n",
        SocketAddr::new(bed.b.ipv4.into(), 4790),
        key_file(key).display(),
        bed.b.ipv4
    );
    Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn flow(name: &str, (from, to): (&str, &str), port: u16, rate: &str) -> String {
    format!(
        "  {name}: {{ from: {from}, to: {to}, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: {port} }} }} ], rate: {rate} \
         }}\n"
    )
}

fn run_for(scenario: &Scenario, millis: u64) -> Result<Report, RunError> {
    let mut lab = Lab::open(scenario, Options::default())?;
    let time = Some(Nanos::from_millis(millis));
    lab.run(scenario.flows.clone(), time, &mut Silent, &Stop::new())
}

/// What is sent both ways at once is in one report, by frames that were counted at both ends.
fn both_ways(engine: EngineChoice, name: &str) {
    const RUNS: u64 = 3;
    let flows = flow("there", ("here", "far"), 9000, "2kpps")
        + &flow("back", ("far", "here"), 9001, "1kpps")
        + &flow("again", ("far", "here"), 9002, "500pps");
    let (reports, far) = with_listener(
        |bed| allowing(bed, engine, Some(&usual(bed))),
        |far| {
            let scenario = scenario(far.bed, name, &format!("both-{name}"), &flows);
            let mut lab = Lab::open(&scenario, Options::default())?;
            let run = |_| {
                let time = Some(Nanos::from_millis(300));
                lab.run(scenario.flows.clone(), time, &mut Silent, &Stop::new())
            };
            (0..RUNS).map(run).collect::<Result<Vec<_>, RunError>>()
        },
    );
    for report in reports.unwrap_or_else(|error| panic!("{error}")) {
        assert_eq!(report.end, End::Completed, "{:#?}", report.findings);
        balanced(&report);
        for (flow, (name, frames)) in
            report.flows.iter().zip([("there", 600), ("back", 300), ("again", 150)])
        {
            let (sent, received) = (flow.sent.as_ref().unwrap(), flow.received.as_ref().unwrap());
            assert_eq!((flow.name.as_str(), sent.requested.frames), (name, frames));
            // a machine that has no time for a sender sends less
            assert!(sent.sent.frames > 0, "{name}");
            let lost = flow.loss.unwrap().frames;
            assert_eq!(received.unique + lost, sent.sent.frames, "{name}");
            assert!(received.unique >= sent.sent.frames / 2, "{name}: {} arrived", received.unique);
            assert_eq!((received.duplicates, received.implausible), (0, 0), "{name}");
            assert_eq!(sent.send_lateness_ns.count, sent.sent.frames, "{name}");
        }
        let interfaces = |stations: &[wirebeat_report::model::Station]| {
            stations.iter().map(|one| one.interface.clone().unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(interfaces(&report.senders), ["wb0", "wb1"]);
        assert_eq!(interfaces(&report.receivers), ["wb0", "wb1"]);
        assert_eq!(report.delay_clock.as_ref().unwrap().relation, Relation::Same);
        assert!(report.intervals.len() >= 6, "{}", report.intervals.len());
    }
    assert!(
        far.findings.iter().any(|finding| finding.message.contains("as --allow-send permits")),
        "{:#?}",
        far.findings
    );
}

#[test]
fn the_kernel_engine_sends_both_ways_at_once() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    both_ways(EngineChoice::Kernel, "kernel");
}

#[test]
fn the_packet_engine_sends_both_ways_at_once() {
    require!(Capability::NetworkNamespaces);
    both_ways(EngineChoice::Packet, "packet");
}

#[test]
fn the_socket_engine_sends_both_ways_at_once() {
    require!(Capability::NetworkNamespaces);
    both_ways(EngineChoice::Socket, "socket");
}

/// The host here only receives.
#[test]
fn a_run_may_be_sent_by_the_other_host_alone() {
    require!(Capability::NetworkNamespaces);
    let flows = flow("back", ("far", "here"), 9001, "1kpps");
    let (report, _) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, Some(&usual(bed))),
        |far| run_for(&scenario(far.bed, "packet", "alone", &flows), 300),
    );
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.end, End::Completed, "{:#?}", report.findings);
    balanced(&report);
    assert_eq!(report.flows[0].sent.as_ref().unwrap().requested.frames, 300);
}

/// What the owner does not allow is refused here already, and says what is allowed. Nothing has been sent.
#[test]
fn a_sender_is_told_what_the_owner_allows() {
    require!(Capability::NetworkNamespaces);
    let back = |rate: &str| flow("back", ("far", "here"), 9001, rate);
    let ((), far) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, Some(&usual(bed))),
        |far| {
            let refused = |flows: &str, millis: u64| {
                let error =
                    run_for(&scenario(far.bed, "packet", "told", flows), millis).unwrap_err();
                assert!(
                    matches!(error, RunError::Remote(RemoteError::NotAllowed { .. })),
                    "{error}"
                );
                assert_eq!(error.exit_code(), 2);
                error.to_string()
            };
            let why = refused(&back("100Mbps"), 100);
            assert!(why.contains("on the line") && why.contains("the listener allows"), "{why}");
            let why = refused(&back("1kpps"), 21_000);
            assert!(why.contains("it ends after 21"), "{why}");
            let elsewhere = "  back: { from: far, to: here, packet: [ { ipv4: { destination: 10.99.0.1 } }, { udp: {} } ], rate: \
                             1kpps }\n";
            let why = refused(elsewhere, 100);
            assert!(why.contains("it goes to 10.99.0.1"), "{why}");
        },
    );
    let sent = far.findings.iter().any(|finding| finding.message.contains("--allow-send"));
    assert!(!sent, "{:#?}", far.findings);
}

#[test]
fn a_listener_sends_nothing_unless_its_owner_allows_it() {
    require!(Capability::NetworkNamespaces);
    let flows = flow("back", ("far", "here"), 9001, "1kpps");
    let ((), _) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, None),
        |far| {
            let error = run_for(&scenario(far.bed, "packet", "nothing", &flows), 100).unwrap_err();
            assert!(error.to_string().contains("--allow-send"), "{error}");
            // nor one that asks all the same
            let mut measurement = connect(far.bed);
            let error = measurement.prepare_sending(asked(far.bed, PLAIN)).unwrap_err();
            assert!(error.to_string().contains("it sends nothing"), "{error}");
        },
    );
}

/// What a peer that does not check anything asks for; `TO` is the near end.
const PLAIN: &str = "packet: [ { ipv4: { destination: TO } }, { udp: { destination: 9001 } } ], rate: 1kpps, stop: 10s";

/// A connection of a peer over which a run has begun.
fn connect(bed: &Testbed) -> Measurement {
    let peer = Peer {
        address: SocketAddr::new(bed.b.ipv4.into(), 4790),
        key: Some(KeySource::Text(KEY.to_owned())),
    };
    // the place of the one before is free soon
    let connection = (0..100).find_map(|_| match Connection::open(&peer) {
        Err(RemoteError::Busy { .. }) => {
            thread::sleep(Duration::from_millis(50));
            None
        }
        opened => Some(opened.unwrap_or_else(|error| panic!("{error}"))),
    });
    connection.unwrap().begin(Vec::new()).unwrap_or_else(|error| panic!("{error}"))
}

fn asked(bed: &Testbed, flow: &str) -> AskedSending {
    let text = format!(
        "ports: {{ here: {{}} }}\nflows: {{ x: {{ from: here, {} }} }}\n",
        flow.replace("TO", &bed.a.ipv4.to_string())
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let flow = Box::new(scenario.flows["x"].clone());
    let flows = vec![AskedFlow { id: 0, name: "x".to_owned(), flow }];
    AskedSending { run: 0, seed: 1, drift_ns: None, interval_ns: 1_000_000_000, flows }
}

fn now() -> Nanos {
    MonotonicClock.now()
}

/// Waits until it has ended.
fn await_sent(measurement: &mut Measurement, stop: bool) -> Sent {
    while measurement.is_sending() {
        measurement.look_at_sending(stop);
    }
    measurement.take_sent().unwrap().unwrap_or_else(|error| panic!("{error}"))
}

/// The listener holds what it is asked against the grant by itself.
#[test]
fn the_listener_checks_what_a_peer_did_not() {
    require!(Capability::NetworkNamespaces);
    let ((), far) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, Some(&usual(bed))),
        |far| {
            for (flow, told) in [
                (PLAIN.replace("TO", "10.99.0.1"), "it goes to 10.99.0.1"),
                (PLAIN.replace("1kpps", "1Mpps"), "on the line"),
                (PLAIN.replace("10s", "21s"), "it ends after 21"),
                (
                    PLAIN.replace("TO }", "TO, source: 10.98.0.1 }"),
                    "no address of the listener's interface",
                ),
                (
                    PLAIN.replace(
                        "packet: [",
                        "packet: [ { ethernet: { destination: '02:00:00:00:00:09' } },",
                    ),
                    "and no other headers",
                ),
                (PLAIN.replace("rate: 1kpps", "rate: unlimited"), "'rate'"),
            ] {
                let mut measurement = connect(far.bed);
                let error = measurement.prepare_sending(asked(far.bed, &flow)).err();
                let error = error.unwrap_or_else(|| panic!("{flow} passed"));
                assert!(matches!(error, RemoteError::Refused { .. }), "{flow}: {error}");
                assert!(error.to_string().contains(told), "{flow}: {error}");
            }
            // ports of the peer's choice
            let mut other = asked(far.bed, PLAIN);
            other.flows[0].flow.from = "wb1".to_owned();
            let error = connect(far.bed).prepare_sending(other).unwrap_err();
            assert!(error.to_string().contains("its own port"), "{error}");
        },
    );
    assert!(!far.findings.iter().any(|finding| finding.message.contains("--allow-send")));
}

/// It is asked once in a run, started once and soon, and sends nothing before.
#[test]
fn a_run_is_prepared_and_started_once() {
    require!(Capability::NetworkNamespaces);
    let ((), _) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, Some(&usual(bed))),
        |far| {
            let ready = || {
                let mut measurement = connect(far.bed);
                measurement.prepare_sending(asked(far.bed, PLAIN)).unwrap();
                measurement
            };
            let error = ready().prepare_sending(asked(far.bed, PLAIN)).unwrap_err();
            assert!(
                error.to_string().contains("asked to send or to serve in this run before"),
                "{error}"
            );
            let late = now().saturating_add(Nanos::from_secs(11));
            let error = ready().start_sending(late).unwrap_err();
            assert!(error.to_string().contains("starts within 10.0 s"), "{error}");
            // it may begin in ten seconds, and stops before
            let mut measurement = ready();
            measurement.start_sending(now().saturating_add(Nanos::from_millis(9_900))).unwrap();
            let sent = await_sent(&mut measurement, true);
            assert_eq!(sent.flows[0].sent.frames, 0);
        },
    );
}

/// A peer that says nothing is gone: what is sent for it ends after 2 s, long before the 10 s that it asked for.
#[test]
fn what_is_sent_for_a_silent_peer_ends() {
    require!(Capability::NetworkNamespaces);
    let (frames, _) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, Some(&usual(bed))),
        |far| {
            let mut measurement = far.sending(PLAIN);
            thread::sleep(Duration::from_secs(4));
            // it holds its connection all the time
            let sent = await_sent(&mut measurement, false);
            assert_eq!(sent.summary.ended.as_deref(), Some("the sender said nothing for 2 s"));
            sent.flows[0].sent.frames
        },
    );
    assert!((1..3500).contains(&frames), "{frames} of 10000");
}

/// The same for one that closes its connection, which is noticed at once.
#[test]
fn what_is_sent_for_a_peer_that_leaves_ends() {
    require!(Capability::NetworkNamespaces);
    let (told, _) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, Some(&usual(bed))),
        |far| {
            drop(far.sending(PLAIN));
            far.await_notice(": sent ")
        },
    );
    let frames: u64 = told
        .split(": sent ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .replace(',', "")
        .parse()
        .unwrap();
    assert!(frames < 3500, "{told}");
}

/// The owner's wish to end counts at once, whatever the peer asks for.
#[test]
fn the_owner_ends_it() {
    require!(Capability::NetworkNamespaces);
    let ((frames, millis), _) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, Some(&usual(bed))),
        |far| {
            let flows = flow("back", ("far", "here"), 9001, "1kpps");
            let scenario = scenario(far.bed, "packet", "owner", &flows);
            let begun = now();
            let report = thread::scope(|scope| {
                let stopping = scope.spawn(|| {
                    far.await_notice("sends 1 flow");
                    thread::sleep(Duration::from_millis(300));
                    far.stop.ask(2);
                    now()
                });
                let report = run_for(&scenario, 15_000).unwrap_or_else(|error| panic!("{error}"));
                (report, stopping.join().unwrap())
            });
            let (report, stopped) = report;
            assert!(!matches!(report.end, End::Completed), "{:?}", report.end);
            // what it had sent by then was told
            balanced(&report);
            assert!(report.flows[0].sent.as_ref().unwrap().sent.frames > 0);
            let received = report.total.received.as_ref().unwrap().unique;
            (received, stopped.saturating_sub(begun).get() / 1_000_000)
        },
    );
    // a frame each millisecond until it was stopped, and some that were on their way
    assert!(frames > 0 && frames < millis + 1000, "{frames} in {millis} ms");
}

/// A stop here ends what is sent there, and what was sent until then is in the report.
#[test]
fn a_stop_here_ends_what_is_sent_there() {
    require!(Capability::NetworkNamespaces);
    let (report, _) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, Some(&usual(bed))),
        |far| {
            let flows = flow("there", ("here", "far"), 9000, "1kpps")
                + &flow("back", ("far", "here"), 9001, "1kpps");
            let scenario = scenario(far.bed, "packet", "stop-here", &flows);
            let stop = Stop::new();
            thread::scope(|scope| {
                scope.spawn(|| {
                    far.await_notice("sends 1 flow");
                    thread::sleep(Duration::from_millis(300));
                    stop.ask(2);
                });
                let mut lab = Lab::open(&scenario, Options::default())?;
                let time = Some(Nanos::from_secs(15));
                lab.run(scenario.flows.clone(), time, &mut Silent, &stop)
            })
        },
    );
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(report.end, End::Stopped { .. }), "{:?}", report.end);
    balanced(&report);
    for flow in &report.flows {
        let sent = flow.sent.as_ref().unwrap().sent.frames;
        assert!(sent > 0 && sent < 7_500, "{}: {sent} of 15000", flow.name);
        let received = flow.received.as_ref().unwrap();
        assert_eq!(received.unique + flow.loss.unwrap().frames, sent, "{}", flow.name);
    }
}

/// The time of the grant is that of all runs and connections together.
#[test]
fn the_time_of_the_owner_is_used_up_once() {
    require!(Capability::NetworkNamespaces);
    let ((), _) = with_listener(
        |bed| {
            allowing(
                bed,
                EngineChoice::Packet,
                Some(&format!("{},rate=50Mbps,time=1s", bed.a.ipv4)),
            )
        },
        |far| {
            let flow = PLAIN.replace("10s", "700ms");
            let mut measurement = far.sending(&flow);
            let sent = await_sent(&mut measurement, false);
            assert_eq!(sent.flows[0].requested.frames, 700);
            drop(measurement);
            let error = connect(far.bed).prepare_sending(asked(far.bed, &flow)).unwrap_err();
            assert!(error.to_string().contains("it ends after 700 ms"), "{error}");
        },
    );
}

/// A link that goes down ends what is sent over it. When it is up again the peer hears why.
#[test]
fn what_is_sent_ends_with_its_link() {
    require!(Capability::NetworkNamespaces);
    let (ended, _) = with_listener(
        |bed| allowing(bed, EngineChoice::Packet, Some(&usual(bed))),
        |far| {
            let mut measurement = far.sending(PLAIN);
            let mut netlink = far.bed.b.netlink().unwrap();
            let link = netlink.link_by_name("wb1").unwrap().index;
            netlink.set_down(link).unwrap();
            thread::sleep(Duration::from_millis(300));
            netlink.set_up(link).unwrap();
            await_sent(&mut measurement, false).summary.ended
        },
    );
    assert_eq!(ended.as_deref(), Some("the interface wb1 is gone"));
}
