//! A thread that has the sessions of a port on one core: its stack, its listeners, its loop.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use wirebeat_converse::stack::{ProfileId, Stack};
use wirebeat_converse::{Converse, End, Waiting};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine_linux::affinity;
use wirebeat_meter::session::{SessionCounts, SessionSummary};
use wirebeat_netlink::Namespace;
use wirebeat_sockets::{HostStack, Limits, Profile};
use wirebeat_traffic::program::script::{SessionGroup, Sessions};
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;

use crate::error::RunError;

/// Connections that wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: u32 = 65_535;
/// How often counts are shown to the thread that watches.
const SHOWN: Nanos = Nanos::from_millis(10);
/// The longest that the loop waits without looking whether it is to end.
const LOOK: Nanos = Nanos::from_millis(20);
/// How long sessions that are closed by the run have to end in order.
const CLOSING: Nanos = Nanos::from_secs(1);

/// What a thread is to do.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) port: String,
    pub(super) namespace: Option<Namespace>,
    pub(super) cpu: Option<usize>,
    pub(super) core: Shard,
    /// All groups, with the ends that are of this port.
    pub(super) sessions: Sessions,
    pub(super) waiting: Waiting,
    pub(super) drift: Option<Nanos>,
    /// How long the run lasts, where the scenario says it.
    pub(super) time: Option<Nanos>,
    /// How long servers go on after the last client.
    pub(super) settle: Nanos,
}

/// What the thread shows of itself.
#[derive(Debug, Default)]
struct Shared {
    counts: Mutex<Vec<(usize, End, SessionCounts)>>,
    /// One of the orders below.
    order: AtomicU8,
    /// Whether its clients have nothing more to do.
    clients_done: AtomicBool,
    done: AtomicBool,
}

/// Let what is open come to its end (0, as it begins: go on).
const FINISH: u8 = 1;
/// Close all now.
const CLOSE: u8 = 2;

/// A thread of sessions, from its listeners to its results.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    go: Sender<Nanos>,
    thread: Option<JoinHandle<Vec<(usize, End, SessionSummary)>>>,
    listening: Vec<(String, SocketAddr)>,
    has_clients: bool,
    serves_ours_alone: bool,
    pub(super) port: String,
}

/// What a worker left.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) summaries: Vec<(usize, End, SessionSummary)>,
    /// Why it did not come to its end.
    pub(super) error: Option<String>,
}

/// The groups with the ends that are of the port `port`; the starts of others are left out.
pub(super) fn share(sessions: &Sessions, port: &str) -> Sessions {
    let mut mine = sessions.clone();
    for group in &mut mine.groups {
        if group.from.as_deref() != Some(port) {
            group.client = None;
            (group.starts, group.users) = (None, None);
        }
        if group.to.as_deref() != Some(port) {
            group.server = None;
        }
    }
    mine
}

fn profile(group: &SessionGroup, core: Shard) -> Profile {
    let tcp = &group.tcp;
    Profile {
        congestion: tcp.congestion.clone(),
        mss: tcp.mss.map(Into::into),
        send_buffer: tcp.send_buffer,
        receive_buffer: tcp.receive_buffer,
        nagle: tcp.nagle,
        pacing: tcp.pacing,
        ttl: group.ttl,
        tos: group.tos,
        shared_port: core.cores > 1,
    }
}

impl Worker {
    /// Starts the thread and waits until it listens.
    pub(super) fn open(job: Job, connections: usize) -> Result<Worker, RunError> {
        let shared = Arc::new(Shared::default());
        let (go, begins) = channel();
        let (opened, answer) = channel();
        let groups = &job.sessions.groups;
        let has_clients = groups.iter().any(|group| group.client.is_some());
        let served = || groups.iter().filter(|group| group.server.is_some());
        let serves_ours_alone = served().all(|group| group.both_ends);
        let port = job.port.clone();
        let of_port = format!("port '{port}'");
        let thread = Builder::new().name(format!("sessions {}", job.core.core));
        let seen = Arc::clone(&shared);
        let thread = thread.spawn(move || run(job, connections, &seen, &opened, &begins));
        let failed =
            |error: std::io::Error| RunError::machine(format!("cannot start a thread: {error}"));
        let thread = thread.map_err(failed)?;
        let listening = match answer.recv() {
            Ok(Ok(listening)) => listening,
            Ok(Err(fault)) => return Err(RunError::machine(fault.at(of_port))),
            Err(_) => return Err(RunError::machine("a thread of sessions ended at its start")),
        };
        Ok(Worker {
            shared,
            go,
            thread: Some(thread),
            listening,
            has_clients,
            serves_ours_alone,
            port,
        })
    }

    /// Where it listens, with the names of the groups.
    pub(super) fn listening(&self) -> &[(String, SocketAddr)] {
        &self.listening
    }

    pub(super) fn start(&self, begin: Nanos) {
        // one that has ended says so when it is joined
        let _ = self.go.send(begin);
    }

    pub(super) fn has_clients(&self) -> bool {
        self.has_clients
    }

    /// Whether all whom it serves are clients of this run.
    pub(super) fn serves_ours_alone(&self) -> bool {
        self.serves_ours_alone
    }

    /// Whether its clients have nothing more to do.
    pub(super) fn are_clients_done(&self) -> bool {
        self.shared.clients_done.load(Ordering::Acquire) || self.is_done()
    }

    pub(super) fn is_done(&self) -> bool {
        self.shared.done.load(Ordering::Acquire)
            || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Lets what is open come to its end.
    pub(super) fn finish(&self) {
        self.shared.order.fetch_max(FINISH, Ordering::AcqRel);
    }

    /// Closes all sessions now.
    pub(super) fn close(&self) {
        self.shared.order.fetch_max(CLOSE, Ordering::AcqRel);
    }

    /// What it counted so far.
    pub(super) fn counts(&self) -> Vec<(usize, End, SessionCounts)> {
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn join(mut self) -> Finished {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(summaries)) => Finished { summaries, error: None },
            Some(Err(_)) => {
                let error = Some(format!("the thread of port '{}' panicked", self.port));
                Finished { summaries: Vec::new(), error }
            }
            None => Finished { summaries: Vec::new(), error: None },
        }
    }
}

impl Drop for Worker {
    /// One that was never started ends when nobody can start it any more.
    fn drop(&mut self) {
        self.close();
        let (closed, _) = channel();
        self.go = closed;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where a thread listens, or why it cannot.
type Opened = Result<Vec<(String, SocketAddr)>, wirebeat_units::Fault>;

fn run(
    job: Job,
    connections: usize,
    shared: &Shared,
    opened: &Sender<Opened>,
    begins: &Receiver<Nanos>,
) -> Vec<(usize, End, SessionSummary)> {
    let stack = match open(&job, connections) {
        Ok((stack, listening)) => {
            // the opener waits for it
            let _ = opened.send(Ok(listening));
            stack
        }
        Err(fault) => {
            let _ = opened.send(Err(fault));
            return Vec::new();
        }
    };
    let Ok(begin) = begins.recv() else { return Vec::new() };
    let converse = Converse::new(&job.sessions, job.core, stack, begin, job.drift, job.waiting);
    let mut turning = Turning { converse, shared, job: &job, begin, shown: Nanos::ZERO };
    turning.run();
    turning.converse.programs.summaries()
}

/// Opens the stack in the namespace of the port, where the thread stays.
fn open(
    job: &Job,
    connections: usize,
) -> Result<(HostStack, Vec<(String, SocketAddr)>), wirebeat_units::Fault> {
    if let Some(namespace) = &job.namespace {
        namespace.enter().map_err(|error| error.fault())?;
    }
    if let Some(cpu) = job.cpu {
        affinity::pin(cpu)
            .map_err(|error| wirebeat_units::fault!("cannot stay on CPU {cpu}: {error}"))?;
    }
    affinity::precise_timers();
    let profiles = job.sessions.groups.iter().map(|group| profile(group, job.core)).collect();
    let mut stack =
        HostStack::new(profiles, Limits { connections }).map_err(|error| error.fault())?;
    let mut listening = Vec::new();
    for (number, group) in (0_u16..).zip(&job.sessions.groups) {
        if group.server.is_none() {
            continue;
        }
        for address in listeners(group) {
            let at =
                stack.listen(address, ProfileId(number), BACKLOG).map_err(|error| error.fault())?;
            listening.push((group.name.clone(), at));
        }
    }
    Ok((stack, listening))
}

/// All addresses where the servers of a group listen; `checks.rs` has seen that they are not too many.
pub(super) fn listeners(group: &SessionGroup) -> Vec<SocketAddr> {
    let pool = &group.servers.pool;
    let any = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let addresses: Vec<IpAddr> = match pool.addresses.len() {
        0 => any.to_vec(),
        len => (0..len).filter_map(|n| pool.addresses.get(n)).collect(),
    };
    let ports: Vec<u16> = pool.ports.iter().flat_map(|ports| ports.iter()).collect();
    let all =
        addresses.iter().flat_map(|&ip| ports.iter().map(move |&port| SocketAddr::new(ip, port)));
    all.collect()
}

/// The loop of a thread, until it is done.
struct Turning<'a> {
    converse: Converse<HostStack>,
    shared: &'a Shared,
    job: &'a Job,
    begin: Nanos,
    shown: Nanos,
}

impl Turning<'_> {
    fn run(&mut self) {
        let groups = &self.job.sessions.groups;
        let has_clients = groups.iter().any(|group| group.client.is_some());
        let has_servers = groups.iter().any(|group| group.server.is_some());
        // sessions of ours that started before the stop, at whatever port, have their time to end
        let clients = groups.iter().filter(|group| group.from.is_some());
        let last = clients.map(|group| group.stop.saturating_add(group.timeout)).max();
        let ends = match (last, self.job.time) {
            (Some(last), _) => last,
            (None, Some(time)) => time,
            (None, None) => Nanos::MAX,
        };
        let ends = self.begin.saturating_add(ends);
        let mut now = MonotonicClock.now();
        let mut finish = Nanos::MAX;
        loop {
            now = self.turn(now, ends.min(finish));
            let order = self.shared.order.load(Ordering::Acquire);
            if order == FINISH {
                finish = finish.min(now.saturating_add(self.job.settle));
            }
            if has_clients && self.converse.is_done(now) {
                self.shared.clients_done.store(true, Ordering::Release);
                if !has_servers {
                    break;
                }
            }
            let served = order == FINISH && !self.converse.programs.has_open();
            if order == CLOSE || served || now >= ends.min(finish) {
                break;
            }
        }
        self.converse.close_all(now);
        let until = now.saturating_add(CLOSING);
        while self.converse.programs.has_open() && now < until {
            now = self.turn(now, until);
        }
        self.converse.abort_all(now);
        // those that were given up just now are told in the next turns
        for _ in 0..3 {
            now = self.turn(now, now);
        }
        self.show(now);
        self.shared.done.store(true, Ordering::Release);
    }

    fn turn(&mut self, now: Nanos, until: Nanos) -> Nanos {
        let now = self.converse.turn(now, until.min(now.saturating_add(LOOK)));
        if now.saturating_sub(self.shown) >= SHOWN {
            self.show(now);
        }
        now
    }

    fn show(&mut self, now: Nanos) {
        self.shown = now;
        let counts =
            self.converse.programs.sides().map(|(group, end, counts)| (group, end, *counts));
        let mut shown = self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clear();
        shown.extend(counts);
    }
}

// so that a stack that holds what one thread alone may have is found here
const _: fn() = || {
    fn is_stack<S: Stack>() {}
    is_stack::<HostStack>();
};
