//! A run of sessions: planned and checked, opened (`worker.rs`, a thread for each port and core), watched, reported (`outcome.rs`).
//!
//! Servers listen before the first client starts. Clients end by themselves: their sessions start until the group's stop, and have
//! the group's time-out to end. Then, or when the run is asked to stop, all that is open is closed in order, and given up after a
//! while. `checks.rs` finds before the start what this machine cannot do.

mod checks;
mod expectations;
mod outcome;
mod words;
mod worker;

use std::collections::BTreeMap;
use std::time::SystemTime;

use wirebeat_converse::{End, Waiting};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_host::{CpuTimes, Machine};
use wirebeat_meter::session::SessionCounts;
use wirebeat_report::assemble::{SessionIntervalCounts, session_interval};
use wirebeat_report::model::{self, FlowInterval, Interval, Report, SessionEnd};
use wirebeat_traffic::compile::compile_sessions;
use wirebeat_traffic::program::script::Sessions;
use wirebeat_traffic::scenario::{LateChoice, Scenario, WaitChoice};
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::{Nanos, fault};

use crate::error::RunError;
use crate::observe::{Looks, Observer, Progress, SessionProgress, Stop};
use crate::options::Options;
use crate::placement::Cpus;
use crate::ports;
use worker::{Job, Worker};

/// From the decision to start until the first session is due: threads get going in the meantime.
const LEAD: Nanos = Nanos::from_millis(20);
/// How often the run is looked at.
const WATCH: std::time::Duration = std::time::Duration::from_millis(10);
/// How often the observer looks, unless intervals are shorter.
const LOOK: Nanos = Nanos::from_millis(200);
/// The most intervals of a report; later ones are told and not kept.
const INTERVALS_MAX: usize = 4096;

/// A run of sessions that is ready to start: compiled, checked, its servers listening.
#[derive(Debug)]
pub struct PreparedSessions {
    scenario: Scenario,
    sessions: Sessions,
    options: Options,
    workers: Vec<Worker>,
    machine: Machine,
    notices: Vec<String>,
}

/// Which groups' ends a snapshot of counts is of.
pub(crate) type Counts = BTreeMap<(usize, SessionEnd), SessionCounts>;

/// Compiles the sessions of `scenario`, finds their ports, and listens where they have servers. No session starts.
///
/// # Errors
/// What the scenario cannot mean, or this machine cannot do.
pub fn prepare_sessions(
    scenario: &Scenario,
    options: Options,
) -> Result<PreparedSessions, RunError> {
    if !scenario.flows.is_empty() {
        return Err(RunError::usage(fault!(
            "flows and sessions in one run are not possible yet";
            "make a scenario of each, and run them at the same time"
        )));
    }
    let files = crate::files::read(scenario, &options)?;
    let sessions = compile_sessions(scenario, &files)?;
    let cpus = Cpus::here();
    for (name, port) in &scenario.ports {
        cpus.check(&format!("port '{name}'"), &port.cores)?;
    }
    let mut found = ports::unlinked(scenario);
    for port in &mut found {
        port.namespace = ports::namespace(port.spec.namespace.as_deref(), &options.namespaces)?;
    }
    let sessions = checks::with_addresses(sessions, &found)?;
    let notices = checks::check(&sessions, scenario, &found)?;
    let mut workers = Vec::new();
    for port in &found {
        let mine = worker::share(&sessions, &port.name);
        if mine.groups.iter().all(|group| group.client.is_none() && group.server.is_none()) {
            continue;
        }
        let of = port.spec.cores.len().max(1) as u32;
        for number in 0..of {
            let cpu = port.spec.cores.get(number as usize).map(|&cpu| usize::from(cpu));
            let job = Job {
                port: port.name.clone(),
                namespace: port.namespace.clone(),
                cpu,
                core: Shard { core: number, cores: of },
                sessions: mine.clone(),
                waiting: match scenario.run.wait {
                    WaitChoice::Spin => Waiting::Spin,
                    WaitChoice::Hybrid => Waiting::Hybrid,
                    WaitChoice::Sleep => Waiting::Sleep,
                },
                drift: (scenario.run.late == LateChoice::Drop).then_some(scenario.run.drift),
                time: scenario.run.time,
                settle: scenario.run.settle,
            };
            workers.push(job);
        }
    }
    let share = checks::connections(workers.len());
    let workers: Result<Vec<Worker>, RunError> =
        workers.into_iter().map(|job| Worker::open(job, share)).collect();
    Ok(PreparedSessions {
        scenario: scenario.clone(),
        sessions,
        options,
        workers: workers?,
        machine: Machine::observe(),
        notices,
    })
}

impl PreparedSessions {
    /// What the person who waits should know before the start.
    fn tell(&self, observer: &mut dyn Observer) {
        self.notices.iter().for_each(|notice| observer.notice(notice));
        for worker in &self.workers {
            for (group, address) in worker.listening() {
                observer.notice(&format!("sessions '{group}': listening at {address}"));
                observer.listening(*address);
            }
        }
    }

    /// Runs to the end and reports.
    pub fn start(mut self, observer: &mut dyn Observer, stop: &Stop) -> Report {
        self.tell(observer);
        let started = SystemTime::now();
        let cpu = CpuTimes::now();
        let begin = MonotonicClock.now().saturating_add(LEAD);
        self.workers.iter().for_each(|worker| worker.start(begin));
        let mut watch = Watching::new(&self, begin);
        let mut end = model::End::Completed;
        loop {
            std::thread::sleep(WATCH);
            let now = MonotonicClock.now();
            watch.look(&self.workers, now, observer);
            if end == model::End::Completed
                && let Some(reason) = crate::session::stopped(stop)
            {
                end = reason;
                // clients leave first: their servers are let go when they have, as at any end
                let leaves = |worker: &&Worker| worker.has_clients() || !worker.serves_ours_alone();
                self.workers.iter().filter(leaves).for_each(Worker::close);
            }
            let clients = || self.workers.iter().filter(|worker| worker.has_clients());
            if clients().next().is_some() && clients().all(Worker::are_clients_done) {
                // nobody of ours is left to serve
                let ours = |worker: &&Worker| worker.serves_ours_alone();
                self.workers.iter().filter(ours).for_each(Worker::finish);
            }
            if self.workers.iter().all(Worker::is_done) {
                break;
            }
        }
        let now = MonotonicClock.now();
        let ended = now.saturating_sub(begin);
        watch.last(&self.workers, now, observer);
        let finished: Vec<_> =
            std::mem::take(&mut self.workers).into_iter().map(Worker::join).collect();
        outcome::report(
            self,
            outcome::Outcome {
                finished,
                end,
                started,
                begin,
                ended,
                cpu,
                intervals: watch.intervals,
            },
        )
    }
}

/// What is looked at while sessions run.
struct Watching {
    begin: Nanos,
    interval: Nanos,
    duration: Option<Nanos>,
    looks: Looks,
    names: Vec<String>,
    /// The counts at the end of the last interval, and when that was.
    before: (Nanos, Counts),
    intervals: Vec<(usize, SessionEnd, SessionIntervalCounts)>,
}

impl Watching {
    fn new(run: &PreparedSessions, begin: Nanos) -> Watching {
        let interval = run.options.interval.unwrap_or(run.scenario.run.interval);
        let stops = run.sessions.groups.iter().map(|group| group.stop).max();
        Watching {
            begin,
            interval,
            duration: stops.filter(|stop| *stop < Nanos::MAX),
            looks: Looks::every(interval.min(LOOK)),
            names: run.sessions.groups.iter().map(|group| group.name.clone()).collect(),
            before: (Nanos::ZERO, Counts::new()),
            intervals: Vec::new(),
        }
    }

    fn look(&mut self, workers: &[Worker], now: Nanos, observer: &mut dyn Observer) {
        let Some(elapsed) = now.get().checked_sub(self.begin.get()).map(Nanos::new) else { return };
        let to = Nanos::new(elapsed.get() / self.interval.get().max(1) * self.interval.get());
        if to > self.before.0 {
            self.tell(to, counts(workers), observer);
        }
        if observer.watches() && self.looks.due(elapsed, self.duration) {
            observer.progress(&self.progress(&counts(workers), elapsed, false));
        }
    }

    fn last(&mut self, workers: &[Worker], now: Nanos, observer: &mut dyn Observer) {
        let elapsed = now.saturating_sub(self.begin);
        let counts = counts(workers);
        observer.progress(&self.progress(&counts, elapsed, true));
        if elapsed > self.before.0 {
            self.tell(elapsed, counts, observer);
        }
    }

    /// An interval that ended at `to`.
    fn tell(&mut self, to: Nanos, counts: Counts, observer: &mut dyn Observer) {
        let from = self.before.0;
        let mut sessions = Vec::new();
        for (&(group, end), now) in &counts {
            let since = now.since(&self.before.1.get(&(group, end)).copied().unwrap_or_default());
            let name = self.names.get(group).map_or("", |name| name);
            sessions.push(session_interval(name, end, &since, now.open()));
            let row = SessionIntervalCounts { from, to, counts: since, open: now.open() };
            if self.intervals.len() < INTERVALS_MAX * counts.len().max(1) {
                self.intervals.push((group, end, row));
            }
        }
        observer.interval(&Interval {
            from_ns: from.get(),
            to_ns: to.get(),
            total: FlowInterval::default(),
            flows: Vec::new(),
            sessions,
            expired: None,
            cpus: None,
        });
        self.before = (to, counts);
    }

    fn progress(&self, counts: &Counts, elapsed: Nanos, ended: bool) -> Progress {
        let has_clients = counts.keys().any(|(_, end)| *end == SessionEnd::Client);
        let seen = if has_clients { SessionEnd::Client } else { SessionEnd::Server };
        let mut sum = SessionCounts::default();
        let mut delivered = 0_u64;
        for ((_, end), of) in counts {
            delivered = delivered.saturating_add(of.delivered_bytes);
            if *end == seen {
                sum.merge(of);
            }
        }
        let failed = sum.ended().saturating_sub(sum.in_order).saturating_sub(sum.unfinished);
        Progress {
            elapsed,
            duration: self.duration,
            sessions: Some(SessionProgress {
                due: has_clients.then_some(sum.due),
                opened: sum.opened,
                open: sum.open(),
                ended: sum.ended(),
                failed,
                expired: sum.expired,
                responses: sum.responses,
                delivered_bytes: delivered,
            }),
            ended,
            ..Progress::default()
        }
    }
}

/// What all workers counted so far.
fn counts(workers: &[Worker]) -> Counts {
    let mut all = Counts::new();
    for worker in workers {
        for (group, end, counts) in worker.counts() {
            all.entry((group, of(end))).or_default().merge(&counts);
        }
    }
    all
}

/// An end, as reports name it.
pub(crate) fn of(end: End) -> SessionEnd {
    match end {
        End::Client => SessionEnd::Client,
        End::Server => SessionEnd::Server,
    }
}
