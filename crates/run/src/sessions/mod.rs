//! A run of sessions: planned and checked, opened (`worker.rs`, a thread for each port and core), watched, reported (`outcome.rs`).
//!
//! Servers listen before the first client starts. Clients end by themselves: their sessions start until the group's stop, and have
//! the group's time-out to end. Then, or when the run is asked to stop, all that is open is closed in order, and given up after a
//! while. `checks.rs` finds before the start what this machine cannot do.

mod carrier;
mod checks;
mod claims;
mod counted;
mod far;
mod granted;
mod mix;
mod opening;
mod outcome;
mod own;
mod own_profile;
mod pairs;
mod ports;
mod sample_times;
mod shown;
mod simulated;
mod tls;
mod words;
mod worker;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use wirebeat_converse::{End, Gates, Waiting};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_host::{CpuTimes, Machine};
use wirebeat_meter::connections::ConnectionGauges;
use wirebeat_meter::session::SessionCounts;
use wirebeat_meter::summary::Distribution;
use wirebeat_report::assemble::{SessionIntervalCounts, session_interval};
use wirebeat_report::model::{self, Interval, Report, SessionEnd, Stats};
use wirebeat_traffic::compile::{Live, compile_live_sessions};
use wirebeat_traffic::program::script::Sessions;
use wirebeat_traffic::scenario::{LateChoice, Scenario, WaitChoice};
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::{Nanos, fault};

use crate::control::socket::ControlSocket;
use crate::control::{Changeable, Control, Controlled};
use crate::engines::{Engine, driver};
use crate::error::RunError;
use crate::flows::{VirtualPorts, check_clocks};
use crate::observe::{Looks, Observer, Progress, SessionProgress, Stop};
use crate::options::Options;
use crate::placement::Cpus;
use carrier::Carriage;
pub(crate) use carrier::Carrier;
use claims::Claims;
use counted::{StackLook, Stacks};
pub(crate) use granted::GrantedServer;
pub(crate) use own::{OwnParts, own_stack};
use shown::Lost;
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
pub(crate) struct PreparedSessions {
    scenario: Scenario,
    sessions: Sessions,
    options: Options,
    workers: Vec<Worker>,
    /// What groups wait for, where that is not on a virtual clock.
    gates: Arc<Gates>,
    /// The addresses of our own TCP, which no other run has meanwhile.
    _claims: Vec<Claims>,
    machine: Machine,
    notices: Vec<String>,
    /// What changes their starts, where that is asked for; the handle, and the socket if there is one.
    pub(crate) changeable: Option<Arc<Changeable>>,
    pub(crate) control: Option<Control>,
    pub(crate) control_socket: Option<ControlSocket>,
}

/// Which groups' ends a snapshot of counts is of.
pub(crate) type Counts = BTreeMap<(usize, SessionEnd), SessionCounts>;

/// How long responses took at groups' ends.
type Times = BTreeMap<(usize, SessionEnd), Distribution>;

/// What open connections of groups' ends were like.
type Samples = BTreeMap<(usize, SessionEnd), ConnectionGauges>;

/// Compiles the sessions of `scenario`, finds their ports, and listens where they have servers. No session starts.
///
/// # Errors
/// What the scenario cannot mean, or this machine cannot do.
pub(crate) fn prepare(scenario: &Scenario, options: Options) -> Result<PreparedSessions, RunError> {
    let files = crate::files::read(scenario, &options)?;
    let (sessions, live) = compile_live_sessions(scenario, &files)?;
    let cpus = Cpus::here();
    for (name, port) in &scenario.ports {
        cpus.check(&format!("port '{name}'"), &port.cores)?;
    }
    let found = ports::find(scenario, &sessions, &options)?;
    let mut sessions = checks::with_addresses(sessions, &found)?;
    for group in sessions.groups.iter_mut().filter(|group| far::is_far(scenario, group)) {
        // a listener there serves them
        group.server = None;
    }
    let notices = checks::check(&sessions, scenario, &found)?;
    let tls = tls::ends(&sessions)?;
    for port in found.iter().filter(|port| port.link.is_some()) {
        // of both ends of a cable, before either sends
        driver(ports::engine(port)?).prepare_receiver(port)?;
    }
    let mut workers = Vec::new();
    let mut simulated = Vec::new();
    let mut claims = Vec::new();
    let carried = found.iter().flat_map(|port| Carriage::ALL.map(|carriage| (port, carriage)));
    for (port, carriage) in carried {
        let mine = worker::share(&sessions, &port.name, carriage);
        if mine.groups.iter().all(|group| group.client.is_none() && group.server.is_none()) {
            continue;
        }
        let number = (workers.len() + simulated.len()) as u8;
        let engine = (carriage == Carriage::Own).then(|| ports::engine(port)).transpose()?;
        if engine.is_some_and(Engine::is_virtual) {
            let secret = own::Secret::of_seed(scenario.seed, number);
            simulated.push(simulated::SimulatedEnd {
                port: port.name.clone(),
                parts: own::parts((&mine, &sessions), port, (number, secret), 1)?,
                sessions: mine,
                tls: tls.clone(),
                cable: port.spec.cable.clone(),
                file: port.spec.file.as_ref().map(|file| options.path(file)),
            });
            continue;
        }
        let of = port.spec.cores.len().max(1) as u32;
        let expected = own::expected(&mine, &sessions, of);
        let own = engine
            .map(|engine| own::open((&mine, &sessions), port, (engine, number, of), expected))
            .transpose()?;
        let (own, claimed) = own.unzip();
        claims.extend(claimed.flatten());
        let mut own = own.into_iter().flatten();
        for number in 0..of {
            let cpu = port.spec.cores.get(number as usize).map(|&cpu| usize::from(cpu));
            let job = Job {
                own: own.next(),
                carriage,
                port: port.name.clone(),
                namespace: port.namespace.clone(),
                cpu,
                core: Shard { core: number, cores: of },
                sessions: mine.clone(),
                expected,
                tls: tls.clone(),
                waiting: match scenario.run.wait {
                    WaitChoice::Spin => Waiting::Spin,
                    WaitChoice::Hybrid => Waiting::Hybrid,
                    WaitChoice::Sleep => Waiting::Sleep,
                },
                drift: drift(scenario),
                time: scenario.run.time,
                interval: options.interval.unwrap_or(scenario.run.interval),
                settle: scenario.run.settle,
                changes: None,
                gates: None,
            };
            workers.push(job);
        }
    }
    let share = checks::connections(workers.len());
    let simulation = {
        let any_far = sessions.groups.iter().any(|group| far::is_far(scenario, group));
        ports::simulation(simulated, scenario, &options, !workers.is_empty() || any_far)?
    };
    let changing = options.control != Controlled::No;
    check_clocks(VirtualPorts {
        count: usize::from(simulation.is_some()),
        of: usize::from(simulation.is_some()),
        controlled: changing,
    })?;
    if let Some(group) = sessions.groups.iter().find(|group| changing && group.after.is_some()) {
        return Err(RunError::usage(
            fault!(
                "the times of '{}' count from when '{}' has its sessions, which 'wirebeat ctl' does not know before", group.name,
                group.after.and_then(|after| sessions.groups.get(usize::from(after.group))).map_or("", |of| &of.name);
                "leave 'after' or --control out"
            )
            .at(format!("sessions.{}.after", group.name)),
        ));
    }
    let changeable = changing.then(|| changeable(&mut workers, live));
    let gates = Gates::new(workers.iter().map(|job| &job.sessions));
    workers.iter_mut().for_each(|job| job.gates = Some(Arc::clone(&gates)));
    let workers = workers.into_iter().map(|job| Worker::open(job, share));
    let workers: Result<Vec<Worker>, RunError> =
        workers.chain(simulation.map(Worker::simulate)).collect();
    let mut workers = workers?;
    workers.extend(far::open(scenario, &sessions, &options)?);
    // last, so that a signal that ends the program while it waits leaves no socket behind
    let control_socket = match &options.control {
        Controlled::BySocket(path) => Some(ControlSocket::open(path.as_deref())?),
        Controlled::No | Controlled::ByHandle => None,
    };
    Ok(PreparedSessions {
        scenario: scenario.clone(),
        sessions,
        options,
        workers,
        gates,
        _claims: claims,
        machine: Machine::observe(),
        notices,
        control: changeable.clone().map(Control::of),
        changeable,
        control_socket,
    })
}

/// Has all threads that start sessions by a rate listen to changes.
fn changeable(workers: &mut [Job], live: Live) -> Arc<Changeable> {
    let starts = |job: &&mut Job| job.sessions.groups.iter().any(|group| group.starts.is_some());
    let starting: Vec<&mut Job> = workers.iter_mut().filter(starts).collect();
    let changeable = Arc::new(Changeable::starts(live, starting.len()));
    for (place, job) in starting.into_iter().enumerate() {
        job.changes = Some((Arc::clone(&changeable), place));
    }
    changeable
}

/// How late a session may start.
fn drift(scenario: &Scenario) -> Option<Nanos> {
    (scenario.run.late == LateChoice::Drop).then_some(scenario.run.drift)
}

impl PreparedSessions {
    /// Whether sessions are opened here: then the run has an end of its own.
    pub(crate) fn have_clients(&self) -> bool {
        self.sessions.groups.iter().any(|group| group.client.is_some())
    }

    /// What the person who waits should know before the start.
    pub(crate) fn tell(&self, observer: &mut dyn Observer) {
        self.notices.iter().for_each(|notice| observer.notice(notice));
        for worker in &self.workers {
            for (group, address) in worker.listening() {
                observer.notice(&format!("sessions '{group}': listening at {address}"));
                observer.listening(*address);
            }
        }
    }

    /// Where the control socket lies, if there is one.
    pub(crate) fn control_path(&self) -> Option<&Path> {
        self.control_socket.as_ref().map(ControlSocket::path)
    }

    /// Runs to the end and reports.
    pub(crate) fn start(self, observer: &mut dyn Observer, stop: &Stop) -> Report {
        self.tell(observer);
        let any_far = self.sessions.groups.iter().any(|group| far::is_far(&self.scenario, group));
        let lead = if any_far { far::LEAD } else { LEAD };
        self.start_at(MonotonicClock.now().saturating_add(lead), observer, stop)
    }

    /// The same with times that count from `begin`, which may be over.
    pub(crate) fn start_at(
        mut self,
        mut begin: Nanos,
        observer: &mut dyn Observer,
        stop: &Stop,
    ) -> Report {
        let started = SystemTime::now();
        let cpu = CpuTimes::now();
        let in_no_time = self.workers.iter().any(|worker| worker.in_no_time);
        self.workers.iter().for_each(|worker| worker.start(begin));
        self.control.iter().for_each(|control| control.begin(begin));
        let mut watch = Watching::new(&self, begin);
        let mut end = model::End::Completed;
        let mut lost: Option<Lost> = None;
        loop {
            std::thread::sleep(WATCH);
            let now = MonotonicClock.now();
            match in_no_time {
                true => watch.look_in_no_time(&self.workers, now, observer),
                false => watch.look(&self.workers, now, observer),
            }
            if lost.is_none() {
                lost = self.workers.iter().find_map(Worker::lost).cloned();
            }
            let gone = lost.as_ref().map(|lost| model::End::PeerGone { peer: lost.peer.clone() });
            if end == model::End::Completed
                && let Some(reason) = gone.or_else(|| crate::flows::stopped(stop))
            {
                end = reason;
                self.workers.iter().for_each(Worker::leave);
            }
            let clients = || self.workers.iter().filter(|worker| worker.has_clients());
            if clients().next().is_some() && clients().all(Worker::are_clients_done) {
                // nobody of ours is left to serve
                let ours = |worker: &&Worker| worker.serves_ours_alone();
                self.workers.iter().filter(ours).for_each(Worker::finish);
            }
            if self.workers.iter().all(Worker::may_leave) {
                self.workers.iter().for_each(Worker::close);
            }
            if self.workers.iter().all(Worker::is_done) {
                break;
            }
        }
        let now = MonotonicClock.now();
        let mut ended = now.saturating_sub(begin);
        match in_no_time {
            true => watch.take_in(&self.workers, observer),
            false => watch.last(&self.workers, now, observer),
        }
        let simulated_stacks = counted::together(self.workers.iter().flat_map(Worker::stacks));
        let finished: Vec<_> =
            std::mem::take(&mut self.workers).into_iter().map(Worker::join).collect();
        if let Some(simulated) = finished.iter().find(|worker| worker.ended.is_some()) {
            ended = simulated.ended.unwrap_or(ended);
            begin = simulated::BEGIN;
            let looked = Looked {
                counts: summed(&simulated.last),
                response_times: merged(simulated.last_times.iter()),
                samples: Samples::new(),
                stacks: simulated_stacks,
            };
            watch.end_at(ended, looked, observer);
        }
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
                lost,
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
    /// How long responses took until then.
    times_before: Times,
    /// The same of our own TCP.
    stacks_before: Stacks,
    /// An interval that is over and not told yet: what little follows at the end of the run becomes a part of it.
    held: Option<(Nanos, Looked)>,
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
            times_before: Times::new(),
            stacks_before: Stacks::new(),
            held: None,
            intervals: Vec::new(),
        }
    }

    fn look(&mut self, workers: &[Worker], now: Nanos, observer: &mut dyn Observer) {
        let Some(elapsed) = now.get().checked_sub(self.begin.get()).map(Nanos::new) else { return };
        let to = Nanos::new(elapsed.get() / self.interval.get().max(1) * self.interval.get());
        if self.held.as_ref().is_some_and(|(held, _)| !self.is_short(*held, elapsed)) {
            self.tell_held(observer);
        }
        let last = self.held.as_ref().map_or(self.before.0, |(held, _)| *held);
        if to > last {
            let looked = Looked::at(workers, self.samples(workers, to));
            self.hold((to, looked), observer);
        }
        if observer.watches() && self.looks.due(elapsed, self.duration) {
            observer.progress(&self.progress(&counts(workers), elapsed, false));
        }
    }

    /// What was looked at on the virtual clock since the last time, in the order of its time.
    fn take_in(&mut self, workers: &[Worker], observer: &mut dyn Observer) {
        for of in workers.iter().flat_map(Worker::take_intervals) {
            let looked = Looked {
                counts: summed(&of.counts),
                response_times: merged(of.response_times.iter()),
                samples: gathered(of.samples),
                stacks: counted::together(of.stacks),
            };
            self.hold((of.to, looked), observer);
        }
    }

    /// Whether what is from `from` to `to` would be too short an interval: less than a tenth of the others.
    fn is_short(&self, from: Nanos, to: Nanos) -> bool {
        to.saturating_sub(from).get() < self.interval.get() / 10
    }

    /// Keeps an interval until it is known whether the run goes on.
    fn hold(&mut self, interval: (Nanos, Looked), observer: &mut dyn Observer) {
        self.tell_held(observer);
        self.held = Some(interval);
    }

    fn tell_held(&mut self, observer: &mut dyn Observer) {
        if let Some((to, looked)) = self.held.take() {
            self.tell(to, looked, observer);
        }
    }

    /// The same, with a look at what was there some times a second of ours.
    fn look_in_no_time(&mut self, workers: &[Worker], now: Nanos, observer: &mut dyn Observer) {
        self.take_in(workers, observer);
        if observer.watches() && self.looks.due(now.saturating_sub(self.begin), None) {
            let (elapsed, counts) = &self.before;
            observer.progress(&self.progress(counts, *elapsed, false));
        }
    }

    fn last(&mut self, workers: &[Worker], now: Nanos, observer: &mut dyn Observer) {
        let elapsed = now.saturating_sub(self.begin);
        let looked = Looked::at(workers, self.samples(workers, elapsed));
        self.end_at(elapsed, looked, observer);
    }

    /// What open connections were like in the interval that ends at `to`.
    fn samples(&self, workers: &[Worker], to: Nanos) -> Samples {
        let number = to.get().saturating_sub(1) / self.interval.get().max(1);
        gathered(workers.iter().flat_map(|worker| worker.samples(number)))
    }

    fn end_at(&mut self, elapsed: Nanos, looked: Looked, observer: &mut dyn Observer) {
        observer.progress(&self.progress(&looked.counts, elapsed, true));
        // what is left is too short to be told by itself
        let rest = self.held.as_ref().map(|(held, _)| *held);
        match rest.is_some_and(|held| self.is_short(held, elapsed)) {
            true => self.held = None,
            false => self.tell_held(observer),
        }
        if elapsed > self.before.0 {
            self.tell(elapsed, looked, observer);
        }
    }

    /// An interval that ended at `to`.
    fn tell(&mut self, to: Nanos, looked: Looked, observer: &mut dyn Observer) {
        let Looked { counts, response_times, samples, stacks } = looked;
        let from = self.before.0;
        let mut sessions = Vec::new();
        for (&(group, end), now) in &counts {
            let since = now.since(&self.before.1.get(&(group, end)).copied().unwrap_or_default());
            let name = self.names.get(group).map_or("", |name| name);
            let connections = samples.get(&(group, end)).copied();
            let response = self.response_since((group, end), &response_times);
            let row = SessionIntervalCounts {
                from,
                to,
                counts: since,
                open: now.open(),
                connections,
                response,
                ..SessionIntervalCounts::default()
            };
            sessions.push(session_interval(name, end, &row));
            if self.intervals.len() < INTERVALS_MAX * counts.len().max(1) {
                self.intervals.push((group, end, row));
            }
        }
        let nothing = StackLook::default();
        let of_stacks = stacks.iter().map(|(port, look)| {
            look.interval(port, self.stacks_before.get(port).unwrap_or(&nothing))
        });
        observer.interval(&Interval {
            from_ns: from.get(),
            to_ns: to.get(),
            sessions,
            stacks: of_stacks.collect(),
            ..Interval::empty()
        });
        self.before = (to, counts);
        self.times_before = response_times;
        self.stacks_before = stacks;
    }

    /// How long the responses took that came since the end of the last interval; `None` where none came.
    fn response_since(&self, of: (usize, SessionEnd), now: &Times) -> Option<Stats> {
        let now = now.get(&of)?;
        let since = match self.times_before.get(&of) {
            Some(before) => now.since(before),
            None => now.clone(),
        };
        let mut stats = Stats::of(&since);
        stats.forget_histogram();
        (stats.count > 0).then_some(stats)
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

/// What is looked at when an interval ends.
struct Looked {
    counts: Counts,
    response_times: Times,
    samples: Samples,
    stacks: Stacks,
}

impl Looked {
    fn at(workers: &[Worker], samples: Samples) -> Looked {
        let stacks = counted::together(workers.iter().flat_map(Worker::stacks));
        let times: Vec<_> = workers.iter().flat_map(Worker::response_times).collect();
        Looked { counts: counts(workers), response_times: merged(times.iter()), samples, stacks }
    }
}

/// What all workers counted so far.
fn counts(workers: &[Worker]) -> Counts {
    let all: Vec<_> = workers.iter().flat_map(Worker::counts).collect();
    summed(&all)
}

/// The same, each end of a group once.
fn summed(counts: &[(usize, End, SessionCounts)]) -> Counts {
    let mut all = Counts::new();
    for (group, end, counts) in counts {
        all.entry((*group, of(*end))).or_default().merge(counts);
    }
    all
}

/// How long responses took, each end of a group once.
fn merged<'a>(times: impl Iterator<Item = &'a (usize, End, Distribution)>) -> Times {
    let mut all = Times::new();
    for (group, end, times) in times {
        all.entry((*group, of(*end))).or_default().merge(times);
    }
    all
}

/// What open connections were like, each end of a group once.
fn gathered(samples: impl IntoIterator<Item = (usize, End, ConnectionGauges)>) -> Samples {
    let mut all = Samples::new();
    for (group, end, found) in samples {
        all.entry((group, of(end))).or_default().merge(&found);
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
