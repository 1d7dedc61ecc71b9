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
use wirebeat_report::assemble::{Clocks, RunFacts, SessionGroup, assemble, session_interval};
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
    let result = ended.map_err(|error| RunError::machine(error.fault()))?;
    Ok(begun.report(options, stop, &[result], None))
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
    let (mut results, mut failures) = (Vec::new(), 0_u64);
    let ended = with_stop(stop, |stop| {
        server.run(stop, &mut |event| {
            tell(&event, observer);
            match event {
                // the sums of all tests: a server may run for months
                Event::Ended(Ok(result)) => add(&mut results, result),
                Event::Ended(Err(_)) => failures += 1,
                _ => {}
            }
        })
    });
    let failed = ended.err().map(|error| error.fault().to_string());
    let failed = failed.or((failures > 0 && results.is_empty())
        .then(|| format!("none of {failures} tests came to its end; the lines above say why")));
    Ok(begun.report(options, stop, &results, failed))
}

/// Keeps the results of a server, those of many tests with one peer as one.
fn add(results: &mut Vec<TestResult>, result: &TestResult) {
    /// Tests that a report has room for, beside which their sums are kept.
    const TESTS_MAX: usize = 10_000;
    if results.len() < TESTS_MAX {
        let mut kept = result.clone();
        kept.intervals.clear();
        results.push(kept);
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
    model::Interval {
        from_ns: interval.start.get(),
        to_ns: interval.end.get(),
        total: FlowInterval::default(),
        flows: Vec::new(),
        sessions: vec![session_interval(NAME, SessionEnd::Client, &counts, open)],
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
        results: &[TestResult],
        failed: Option<String>,
    ) -> Report {
        let elapsed = MonotonicClock.now().saturating_sub(self.at);
        let terminated = results.iter().any(|result| result.end == End::Terminated);
        let client = results.iter().any(|result| result.role == Role::Client);
        let end = match (crate::session::stopped(stop), failed) {
            (Some(stopped), _) => stopped,
            (None, Some(message)) => model::End::Failed { message },
            (None, None) if terminated && client => {
                let message = "the server ended the test before its time".to_owned();
                model::End::Failed { message }
            }
            (None, None) => model::End::Completed,
        };
        let (costs, spent) = facts::cost(&self.cpu, results.len() as u64);
        let machine = Machine::observe();
        let mut notes: Vec<String> = facts::disturbances(&spent, &machine);
        for result in results {
            notes.extend(result.inconsistencies().iter().map(|wrong| {
                format!(
                    "stream {} with {}: {}: {} and {}; one end counts wrongly",
                    wrong.id, result.peer, wrong.what, wrong.sent, wrong.received
                )
            }));
        }
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
                sessions: groups(results),
            },
            None,
            None,
        )
    }
}

/// The groups of a report: what this end counted of all tests, and what the other ends say.
fn groups(results: &[TestResult]) -> Vec<SessionGroup> {
    let Some(first) = results.first() else { return Vec::new() };
    let (ours, theirs) = match first.role {
        Role::Client => (SessionEnd::Client, SessionEnd::Server),
        Role::Server => (SessionEnd::Server, SessionEnd::Client),
    };
    let time = results.iter().fold(Nanos::ZERO, |sum, result| sum.saturating_add(result.time));
    let group =
        |end: SessionEnd, counts: SessionCounts, (local, remote): (String, String)| SessionGroup {
            name: if end == ours {
                NAME.to_owned()
            } else {
                format!("{NAME}, as the other end says")
            },
            end,
            stack: NAME.to_owned(),
            program: protocol(first.spec.protocol).to_owned(),
            local,
            remote,
            under_way: Some((Nanos::ZERO, time)),
            summary: SessionSummary { counts, most_open: 0, ..SessionSummary::default() },
            ..SessionGroup::default()
        };
    let (here, there) = (first.local.to_string(), first.peer.to_string());
    let mut groups = vec![group(ours, counts(results, ours, true), (here.clone(), there.clone()))];
    let told =
        results.iter().flat_map(|result| &result.streams).any(|stream| stream.theirs.is_some());
    if told {
        groups.push(group(theirs, counts(results, theirs, false), (there, here)));
    }
    if let Some(name) = results.iter().find_map(|result| result.our_congestion.as_deref()) {
        for group in &mut groups {
            group.program.push_str(&format!(", {}", printable(name)));
        }
    }
    groups
}

/// What one end counted of all streams of all tests.
fn counts(results: &[TestResult], end: SessionEnd, ours: bool) -> SessionCounts {
    let mut counts = SessionCounts::default();
    for result in results {
        for stream in &result.streams {
            let side: Option<Side> = if ours { Some(stream.ours) } else { stream.theirs };
            let Some(side) = side else { continue };
            counts.opened += 1;
            counts.established += 1;
            match result.end {
                End::Completed => counts.in_order += 1,
                End::Stopped | End::Terminated => counts.unfinished += 1,
            }
            counts.due += u64::from(end == SessionEnd::Client);
            match stream.sending == ours {
                true => counts.sent_bytes += side.bytes.get(),
                false => counts.delivered_bytes += side.bytes.get(),
            }
            counts.retransmitted_segments += side.retransmits.unwrap_or(0);
        }
    }
    counts.offered_bytes = counts.sent_bytes;
    counts
}
