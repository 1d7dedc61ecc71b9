//! The wires of iperf3 and of iperf 2: a server for their clients, and a client for their servers, reported as sessions.
//!
//! The wires are the crate `iperf`'s; here its results become a report (`totals.rs`). A test has two groups of sessions, one for each
//! end: what this process counted, and what the other end says that it counted. Over iperf 2's wire it says nothing, and there is one.

mod totals;

use std::net::SocketAddr;
use std::time::Duration;

use wirebeat_iperf::result::Interval;
use wirebeat_iperf::{
    Error, Event, Iperf2Server, Limits, Server, ServerOptions, Started, TestResult, client,
};
use wirebeat_meter::session::SessionSummary;
use wirebeat_report::assemble::{SessionGroup, SessionIntervalCounts};
use wirebeat_report::model::{self, Report, SessionEnd};
use wirebeat_traffic::scenario::session::Expectation;
use wirebeat_units::{Nanos, human};

use crate::error::RunError;
use crate::expectations::sessions::{self, GroupMeasures};
use crate::observe::{Observer, Stop};
use crate::options::Options;
use crate::other_tool::{Came, Ends, Telling, interval};
use totals::{Counted, Totals, protocol};

pub use wirebeat_iperf::{Amount, Direction, Protocol, TestSpec};

/// How often it is looked whether the run is asked to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Whose wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// iperf3's: TCP and UDP.
    Iperf3,
    /// That of iperf 2: TCP.
    Iperf2,
}

impl Wire {
    /// The name in reports and of flags.
    pub const fn name(self) -> &'static str {
        match self {
            Wire::Iperf3 => "iperf3",
            Wire::Iperf2 => "iperf2",
        }
    }

    /// The port of its servers (iperf3(1), iperf(1): `--port`).
    pub const fn port(self) -> u16 {
        match self {
            Wire::Iperf3 => 5201,
            Wire::Iperf2 => 5001,
        }
    }
}

/// A server: where it is, or is to be, and whose wire it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireServer {
    /// Whose wire.
    pub wire: Wire,
    /// Where it listens.
    pub address: SocketAddr,
}

/// How clients of another tool are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Ends after one test.
    pub one_off: bool,
    /// The longest test that a client may ask for: iperf3's clients are refused what is longer, a test of iperf 2 is ended then.
    pub longest: Nanos,
    /// How long; `None`: until it is asked to stop.
    pub time: Option<Nanos>,
}

impl Serving {
    /// The longest test, unless it is written.
    pub const LONGEST: Nanos = Nanos::from_secs(3600);
}

impl Default for Serving {
    fn default() -> Self {
        Serving { one_off: false, longest: Serving::LONGEST, time: None }
    }
}

/// Runs a test against `server`, of which `expected` has to come: what the ends that receive count, by what they say.
///
/// # Errors
/// The server cannot be reached, is busy, or does not speak its wire; the test cannot be said in it.
pub fn load(
    server: WireServer,
    spec: &TestSpec,
    expected: &[Expectation],
    options: &Options,
    (observer, stop): (&mut dyn Observer, &Stop),
) -> Result<Report, RunError> {
    let mut run = Run::begin(server.wire, SessionEnd::Client, observer);
    run.told.duration = match spec.amount {
        Amount::Time(time) => Some(spec.omit.saturating_add(time)),
        Amount::Bytes(_) | Amount::Blocks(_) => None,
    };
    let spec = TestSpec { interval: Some(interval(options)), ..spec.clone() };
    let target = client::Target::new(server.address);
    let ended = with_stop(&Ends::after(None, stop), |stop| {
        let mut told = |event: Event<'_>| run.take(&event);
        match server.wire {
            Wire::Iperf3 => client::run(&target, &spec, stop, &mut told),
            Wire::Iperf2 => client::run_iperf2(&target, &spec, stop, &mut told),
        }
    });
    let result = ended.map_err(refused)?;
    run.add(&result);
    let failed = result.fault.map(|fault| format!("the test broke: {fault}"));
    let (summary, time) = run.totals.received();
    let mut report = run.report(options, stop, failed);
    if let Some(group) = report.sessions.first_mut() {
        let duration = Nanos::new(report.duration_ns);
        group.expectations = judged(expected, &summary, (time, duration));
    }
    report.judge();
    report.judge_stop();
    Ok(report)
}

/// What came of what is expected of a test, in both directions together, which was measured for so long in a run that lasted so long.
fn judged(
    expected: &[Expectation],
    summary: &SessionSummary,
    (time, duration): (Nanos, Nanos),
) -> Vec<model::Expectation> {
    let group = SessionGroup {
        summary: summary.clone(),
        under_way: Some((Nanos::ZERO, time)),
        ..SessionGroup::default()
    };
    let rates = group.rates(time);
    let measures = GroupMeasures {
        summary,
        rates: rates.as_ref(),
        duration,
        both_ends: summary.counts.messages_sent > 0,
    };
    expected.iter().map(|one| sessions::judge(one, measures)).collect()
}

/// Serves clients at `server` until it is asked to stop, for a time, or for one test, as `how` says.
///
/// # Errors
/// The address cannot be listened on.
pub fn serve(
    server: WireServer,
    how: Serving,
    options: &Options,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Report, RunError> {
    let WireServer { wire, address } = server;
    let usual = ServerOptions::default();
    let serving = ServerOptions {
        one_off: how.one_off,
        limits: Limits { time: how.longest, ..usual.limits },
        interval: Some(interval(options)),
        // to the host of the client alone, and no more than its header asks
        connect_back: true,
        ..usual
    };
    let failed = |error: Error| RunError::machine(error.fault());
    let served = match wire {
        Wire::Iperf3 => {
            let mut server = Server::bind(address, serving).map_err(failed)?;
            serve_with(
                wire,
                server.address(),
                (options, how.time),
                (observer, stop),
                |stop, told| server.run(stop, told),
            )
        }
        Wire::Iperf2 => {
            let mut server = Iperf2Server::bind(address, serving).map_err(failed)?;
            serve_with(
                wire,
                server.address(),
                (options, how.time),
                (observer, stop),
                |stop, told| server.run(stop, told),
            )
        }
    };
    Ok(served)
}

/// What is told of events.
type Told<'a> = &'a mut dyn FnMut(Event<'_>);

/// Serves by `serve`, which listens at `address`, for `time`.
fn serve_with(
    wire: Wire,
    address: SocketAddr,
    (options, time): (&Options, Option<Nanos>),
    (observer, stop): (&mut dyn Observer, &Stop),
    serve: impl FnOnce(&wirebeat_iperf::Stop, Told<'_>) -> Result<(), Error>,
) -> Report {
    observer.notice(&format!("{}: listening at {address}", wire.name()));
    observer.listening(address);
    let mut run = Run::begin(wire, SessionEnd::Server, observer);
    let ends = Ends::after(time, stop);
    let ended = with_stop(&ends, |stop| serve(stop, &mut |event| run.take(&event)));
    let failed = ended.err().map(|error| error.fault().to_string());
    let failed = failed.or((run.failures > 0 && run.totals.tests == 0).then(|| {
        format!("none of {} tests came to its end; the lines above say why", run.failures)
    }));
    run.report(options, stop, failed)
}

/// The error of a test of ours.
fn refused(error: Error) -> RunError {
    match &error {
        Error::Refused(refusal) => RunError::usage(refusal.fault.clone()),
        _ => RunError::machine(error.fault()),
    }
}

/// Runs `work` with a flag that is set when it is to end.
fn with_stop<T: Send>(ends: &Ends<'_>, work: impl FnOnce(&wirebeat_iperf::Stop) -> T) -> T {
    let theirs = wirebeat_iperf::Stop::new();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let following = std::thread::Builder::new().name("stop".to_owned());
        let following = following.spawn_scoped(scope, || {
            while !over.load(std::sync::atomic::Ordering::Acquire) {
                if ends.now() {
                    theirs.ask();
                }
                std::thread::sleep(LOOK);
            }
        });
        let done = work(&theirs);
        over.store(true, std::sync::atomic::Ordering::Release);
        drop(following);
        done
    })
}

/// A run: who is told, and what its tests come to.
struct Run<'a> {
    wire: Wire,
    told: Telling<'a>,
    /// When the present test began, from the start of the run.
    test_begun: Nanos,
    /// Streams of the present test that are in no interval yet as opened.
    new_streams: u64,
    totals: Totals,
    failures: u64,
}

impl<'a> Run<'a> {
    fn begin(wire: Wire, end: SessionEnd, observer: &'a mut dyn Observer) -> Run<'a> {
        Run {
            wire,
            told: Telling::begin(wire.name(), end, observer),
            test_begun: Nanos::ZERO,
            new_streams: 0,
            totals: Totals::default(),
            failures: 0,
        }
    }

    /// Takes what happens.
    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Started(started) => self.test_begins(started),
            Event::Interval(interval) => self.interval(interval),
            Event::Ended(Ok(result)) => {
                self.add(result);
                let line = line(result);
                self.told.say(&line);
                if let Some(fault) = &result.fault {
                    self.failures += 1;
                    self.told.say_of_failure(&format!("a test broke: {fault}"));
                }
            }
            Event::Ended(Err(error)) => {
                self.failures += 1;
                self.told.seen.open = 0;
                self.told.say_of_failure(&format!("a test failed: {}", error.fault()));
            }
            Event::Denied(peer) => {
                self.told.say_of_failure(&format!("{peer} was told that a test is running"))
            }
        }
    }

    fn test_begins(&mut self, Started { peer, spec, .. }: &Started) {
        self.test_begun = self.told.elapsed();
        let directions = match spec.direction {
            Direction::Forward | Direction::Reverse => 1,
            Direction::BothWays | Direction::InTurn => 2,
        };
        let streams = u64::from(spec.streams) * directions;
        self.told.seen.open = streams;
        self.told.seen.opened += streams;
        self.new_streams = streams;
        self.told.say(&format!(
            "a test with {peer}: {}, {}, streams: {}",
            protocol(spec.protocol),
            match spec.direction {
                Direction::Forward => "the client sends",
                Direction::Reverse => "the server sends",
                Direction::BothWays => "both send",
                Direction::InTurn => "the client sends, then the server",
            },
            spec.streams
        ));
    }

    fn interval(&mut self, interval: &Interval) {
        let Counted { mut counts, datagrams } = totals::of_interval(interval);
        // a test begins with all of its streams
        counts.opened = std::mem::take(&mut self.new_streams);
        counts.established = counts.opened;
        let counted = SessionIntervalCounts {
            from: self.test_begun.saturating_add(interval.start),
            to: self.test_begun.saturating_add(interval.end),
            counts,
            open: interval.streams.len() as u64,
            datagrams,
            ..SessionIntervalCounts::default()
        };
        self.told.interval(&counted);
        self.totals.add_interval(counted);
    }

    /// Adds a test that is over.
    fn add(&mut self, result: &TestResult) {
        self.totals.add(result);
        self.told.seen.open = 0;
        self.told.seen.ended = self.told.seen.opened;
    }

    fn report(self, options: &Options, stop: &Stop, failed: Option<String>) -> Report {
        let Run { wire, told, totals, failures, .. } = self;
        let end = match (crate::flows::stopped(stop), failed) {
            (Some(stopped), _) => stopped,
            (None, Some(message)) => model::End::Failed { message },
            (None, None) if totals.terminated && told.end == SessionEnd::Client => {
                let message = "the server ended the test before its time".to_owned();
                model::End::Failed { message }
            }
            (None, None) => model::End::Completed,
        };
        let mut notes = totals.inconsistencies.clone();
        if failures > 0 && told.end == SessionEnd::Server {
            let failed = human::counted(failures, "test");
            notes.push(format!("{failed} did not come to the end; the lines above say why"));
        }
        let sessions = totals.sessions();
        told.report(options, Came { end, groups: totals.groups(wire), sessions, notes })
    }
}

/// A test in a line, without whose wire it is.
fn line(result: &TestResult) -> String {
    let mut line = format!(
        "the test with {} is over: {} sent and {} received here in {}",
        result.peer,
        human::bytes(result.sent().get() as f64),
        human::bytes(result.received().get() as f64),
        human::time(result.time.get() as f64)
    );
    if let Some(of) = totals::received_datagrams(result) {
        line.push_str(&format!(
            "; of {} datagrams {} lost",
            of.received.saturating_add(of.lost),
            of.lost
        ));
        if let Some(late) = of.out_of_order {
            line.push_str(&format!(", {late} out of order"));
        }
        let jitter = of.jitter_ns.unwrap_or(0);
        line.push_str(&format!(", jitter (RFC 1889) {}", human::time(jitter as f64)));
    }
    line
}
