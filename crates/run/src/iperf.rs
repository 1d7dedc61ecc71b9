//! iperf3's wire: a server for its clients, and a client for its servers, reported as sessions.
//!
//! The wire is the crate `iperf`'s; here its results become a report. A test has two groups of sessions, one for each end: what
//! this process counted, and what the other end says that it counted. What is counted of datagrams alone (lost ones, jitter) is told
//! in a line for each test.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_host::{CpuTimes, Machine};
use wirebeat_iperf::result::{End, Interval, Role, Side};
use wirebeat_iperf::{Error, Event, Protocol, Server, ServerOptions, TestResult, client};
use wirebeat_meter::session::{SessionCounts, SessionSummary};
use wirebeat_report::assemble::{
    Clocks, RunFacts, SessionGroup, SessionIntervalCounts, assemble, session_interval,
};
use wirebeat_report::model::{self, FlowInterval, Report, SessionEnd};
use wirebeat_units::{Nanos, human, printable::printable};

use crate::error::RunError;
use crate::facts;
use crate::observe::{Observer, Stop};
use crate::options::Options;

pub use wirebeat_iperf::{Amount, Direction, TestSpec};

/// The name of the groups in reports.
const NAME: &str = "iperf3";
/// How often it is looked whether the run is asked to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a test against the iperf3 server at `server`.
///
/// # Errors
/// The server cannot be reached, is busy, or does not speak iperf3's wire.
pub fn load_iperf3(
    server: SocketAddr,
    spec: &TestSpec,
    options: &Options,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Report, RunError> {
    let begun = Begun::now();
    let target = client::Target::new(server);
    let ended = with_stop(stop, |stop| {
        client::run(&target, spec, stop, &mut |event| tell(&event, observer))
    });
    let mut totals = Totals::default();
    totals.add(&ended.map_err(|error| RunError::machine(error.fault()))?);
    Ok(begun.report(options, stop, totals, None))
}

/// Serves iperf3's clients at `listen` until it is asked to stop, or for one test.
///
/// # Errors
/// The address cannot be listened on.
pub fn serve_iperf3(
    listen: SocketAddr,
    one_off: bool,
    options: &Options,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Report, RunError> {
    let server = ServerOptions { one_off, interval: options.interval, ..ServerOptions::default() };
    let failed = |error: Error| RunError::machine(error.fault());
    let mut server = Server::bind(listen, server).map_err(failed)?;
    observer.notice(&format!("iperf3: listening at {}", server.address()));
    observer.listening(server.address());
    let begun = Begun::now();
    let (mut totals, mut failures) = (Totals::default(), 0_u64);
    let ended = with_stop(stop, |stop| {
        server.run(stop, &mut |event| {
            tell(&event, observer);
            match event {
                Event::Ended(Ok(result)) => totals.add(result),
                Event::Ended(Err(_)) => failures += 1,
                _ => {}
            }
        })
    });
    let failed = ended.err().map(|error| error.fault().to_string());
    let failed = failed.or((failures > 0 && totals.first.is_none())
        .then(|| format!("none of {failures} tests came to its end; the lines above say why")));
    Ok(begun.report(options, stop, totals, failed))
}

/// The most inconsistencies of tests that are told.
const TOLD_MAX: usize = 100;

/// The sums of all tests: a server may run for months.
#[derive(Default)]
struct Totals {
    /// The first of them, for words.
    first: Option<TestResult>,
    /// What this end counted of all streams, and what the other ends say.
    ours: SessionCounts,
    theirs: Option<SessionCounts>,
    /// The time that counted.
    time: Nanos,
    tests: u64,
    terminated: bool,
    inconsistencies: Vec<String>,
}

impl Totals {
    fn add(&mut self, result: &TestResult) {
        self.ours.merge(&counts(result, true));
        if result.streams.iter().any(|stream| stream.theirs.is_some()) {
            self.theirs.get_or_insert_default().merge(&counts(result, false));
        }
        self.time = self.time.saturating_add(result.time);
        self.tests += 1;
        self.terminated |= result.end == End::Terminated;
        let room = TOLD_MAX.saturating_sub(self.inconsistencies.len());
        self.inconsistencies.extend(result.inconsistencies().iter().take(room).map(|wrong| {
            format!(
                "stream {} with {}: {}: {} and {}; one end counts wrongly",
                wrong.id, result.peer, wrong.what, wrong.sent, wrong.received
            )
        }));
        if self.first.is_none() {
            self.first = Some(TestResult { intervals: Vec::new(), ..result.clone() });
        }
    }
}

/// Runs `work` with a flag that follows `stop`.
fn with_stop<T: Send>(stop: &Stop, work: impl FnOnce(&wirebeat_iperf::Stop) -> T) -> T {
    let theirs = wirebeat_iperf::Stop::new();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let following = std::thread::Builder::new().name("stop".to_owned());
        let following = following.spawn_scoped(scope, || {
            while !over.load(std::sync::atomic::Ordering::Acquire) {
                if stop.asked() {
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

/// Says what happens.
fn tell(event: &Event<'_>, observer: &mut dyn Observer) {
    match event {
        Event::Started(started) => observer.notice(&format!(
            "iperf3: a test with {}: {}, streams: {}",
            started.peer,
            protocol(started.spec.protocol),
            started.spec.streams
        )),
        Event::Interval(interval) => observer.interval(&row(interval)),
        Event::Ended(Ok(result)) => observer.notice(&line(result)),
        Event::Ended(Err(error)) => {
            observer.notice(&format!("iperf3: a test failed: {}", error.fault()))
        }
        Event::Denied(peer) => {
            observer.notice(&format!("iperf3: {peer} was told that a test is running"))
        }
    }
}

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

/// A test in a line.
fn line(result: &TestResult) -> String {
    let mut line = format!(
        "iperf3: the test with {} is over: {} sent and {} received here in {}",
        result.peer,
        human::bytes(result.sent().get() as f64),
        human::bytes(result.received().get() as f64),
        human::time(result.time.get() as f64)
    );
    let received = result
        .streams
        .iter()
        .map(|stream| if stream.sending { stream.theirs } else { Some(stream.ours) });
    let datagrams: Vec<_> = received.flatten().filter_map(|side| side.datagrams).collect();
    if !datagrams.is_empty() {
        let sum = |of: fn(&wirebeat_iperf::result::Datagrams) -> u64| -> u64 {
            datagrams.iter().map(of).sum()
        };
        let jitter = datagrams.iter().map(|one| one.jitter).max().unwrap_or_default();
        line.push_str(&format!(
            "; of {} datagrams {} lost, {} out of order, jitter (RFC 1889) up to {}",
            sum(|one| one.packets),
            sum(|one| one.lost),
            sum(|one| one.out_of_order),
            human::time(jitter.get() as f64)
        ));
    }
    line
}

/// What was counted in an interval, as reports show it.
fn row(interval: &Interval) -> model::Interval {
    let (sent, received) = interval.bytes();
    let counts = SessionCounts {
        sent_bytes: sent.get(),
        delivered_bytes: received.get(),
        ..SessionCounts::default()
    };
    let open = interval.streams.len() as u64;
    let counted = SessionIntervalCounts { counts, open, ..SessionIntervalCounts::default() };
    model::Interval {
        from_ns: interval.start.get(),
        to_ns: interval.end.get(),
        total: FlowInterval::default(),
        flows: Vec::new(),
        sessions: vec![session_interval(NAME, SessionEnd::Client, &counted)],
        expired: None,
        cpus: None,
    }
}

/// When a run began.
struct Begun {
    started: SystemTime,
    at: Nanos,
    cpu: CpuTimes,
}

impl Begun {
    fn now() -> Begun {
        Begun { started: SystemTime::now(), at: MonotonicClock.now(), cpu: CpuTimes::now() }
    }

    fn report(
        self,
        options: &Options,
        stop: &Stop,
        totals: Totals,
        failed: Option<String>,
    ) -> Report {
        let elapsed = MonotonicClock.now().saturating_sub(self.at);
        let client = totals.first.as_ref().is_some_and(|result| result.role == Role::Client);
        let end = match (crate::flows::stopped(stop), failed) {
            (Some(stopped), _) => stopped,
            (None, Some(message)) => model::End::Failed { message },
            (None, None) if totals.terminated && client => {
                let message = "the server ended the test before its time".to_owned();
                model::End::Failed { message }
            }
            (None, None) => model::End::Completed,
        };
        let (costs, spent) = facts::cost(&self.cpu, totals.tests);
        let machine = Machine::observe();
        let mut notes: Vec<String> = facts::disturbances(&spent, &machine);
        notes.extend(totals.inconsistencies.iter().cloned());
        assemble(
            RunFacts {
                wirebeat_version: env!("CARGO_PKG_VERSION").to_owned(),
                command_line: options.command_line.clone(),
                seed: None,
                scenario: None,
                started: self.started,
                duration: elapsed,
                end,
                clocks: Clocks::Same,
                costs,
                machine: notes,
                changes: Vec::new(),
                outages: Vec::new(),
                replays: Vec::new(),
                captures: Vec::new(),
                sessions: groups(&totals),
                stacks: Vec::new(),
            },
            None,
            None,
        )
    }
}

/// The groups of a report: what this end counted of all tests, and what the other ends say.
fn groups(totals: &Totals) -> Vec<SessionGroup> {
    let Some(first) = &totals.first else { return Vec::new() };
    let (ours, theirs) = match first.role {
        Role::Client => (SessionEnd::Client, SessionEnd::Server),
        Role::Server => (SessionEnd::Server, SessionEnd::Client),
    };
    let mut program = protocol(first.spec.protocol).to_owned();
    if let Some(congestion) = &first.our_congestion {
        program.push_str(&format!(", {}", printable(congestion)));
    }
    let group = |end: SessionEnd, mut counts: SessionCounts, local: String, remote: String| {
        counts.due = if end == SessionEnd::Client { counts.opened } else { 0 };
        SessionGroup {
            name: if end == ours {
                NAME.to_owned()
            } else {
                format!("{NAME}, as the other end says")
            },
            end,
            stack: NAME.to_owned(),
            program: program.clone(),
            local,
            remote,
            under_way: Some((Nanos::ZERO, totals.time)),
            summary: SessionSummary { counts, ..SessionSummary::default() },
            ..SessionGroup::default()
        }
    };
    let (here, there) = (first.local.to_string(), first.peer.to_string());
    let mut groups = vec![group(ours, totals.ours, here.clone(), there.clone())];
    groups.extend(totals.theirs.map(|counts| group(theirs, counts, there, here)));
    groups
}

/// What this end (`ours`) or the other one counted of the streams of a test.
fn counts(result: &TestResult, ours: bool) -> SessionCounts {
    let mut counts = SessionCounts::default();
    for stream in &result.streams {
        let side: Option<Side> = if ours { Some(stream.ours) } else { stream.theirs };
        let Some(side) = side else { continue };
        counts.opened += 1;
        counts.established += 1;
        match result.end {
            End::Completed => counts.in_order += 1,
            End::Stopped | End::Terminated => counts.unfinished += 1,
        }
        match stream.sending == ours {
            true => counts.sent_bytes += side.bytes.get(),
            false => counts.delivered_bytes += side.bytes.get(),
        }
        counts.retransmitted_segments += side.retransmits.unwrap_or(0);
    }
    counts.offered_bytes = counts.sent_bytes;
    counts
}
