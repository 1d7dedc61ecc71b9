//! A thread that has the sessions of a port on one core: its stack, its listeners, its loop.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};

use wirebeat_converse::stack::Stack;
use wirebeat_converse::{Conversations, Converse, End, Gates, Room, Waiting};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::drive::Update;
use wirebeat_host::large_pages;
use wirebeat_meter::session::{SessionCounts, SessionSummary};
use wirebeat_netlink::Namespace;
use wirebeat_report::model::SessionZeroCopy;
use wirebeat_tls::Ends;
use wirebeat_traffic::program::script::{SessionGroup, Sessions};
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::{Fault, Nanos};

use super::carrier::{AnyCarrier, Carriage, Carrier, zero_copies};
use super::counted::{Counted, StackLook};
use super::opening::open;
use super::sample_times::SampleTimes;
use super::shown::{
    CLOSE, EndCounts, EndSamples, EndTimes, FINISH, LEAVE, Lost, Shared, ShownInterval,
};
use super::simulated::Simulation;
use crate::control::Changeable;
use crate::error::RunError;
use crate::remote::ClockIdentity;

/// How often counts are shown to the thread that watches.
const SHOWN: Nanos = Nanos::from_millis(10);
/// The longest that the loop waits without looking whether it is to end.
const LOOK: Nanos = Nanos::from_millis(20);
/// How long sessions that are closed by the run have to end in order.
pub(super) const CLOSING: Nanos = Nanos::from_secs(1);
/// How long servers wait at the end of the run until clients of the same run have closed their sessions: those that close at the same
/// moment would see that the peer closed early.
pub(super) const LEAVING: Nanos = Nanos::from_millis(500);

/// `limit`, and 5 µs more for each session that is open: of millions, the last has its turn much later than the first.
pub(super) fn leaving(limit: Nanos, programs: &Conversations) -> Nanos {
    let open: u64 = programs.sides().map(|(.., counts)| counts.open()).sum();
    limit.saturating_add(Nanos::from_micros(5 * open))
}

/// What a thread is to do.
#[derive(Debug)]
pub(super) struct Job {
    /// Our own TCP on the port; `None`: the system's.
    pub(super) own: Option<Box<dyn Carrier + Send>>,
    /// What carries messages.
    pub(super) carriage: Carriage,
    pub(super) port: String,
    pub(super) namespace: Option<Namespace>,
    pub(super) cpu: Option<usize>,
    pub(super) core: Shard,
    /// All groups, with the ends that are of this port.
    pub(super) sessions: Sessions,
    /// How many of them are expected to be open at a time.
    pub(super) expected: usize,
    /// Their TLS, by the numbers of groups that have it.
    pub(super) tls: Vec<Option<Ends>>,
    pub(super) waiting: Waiting,
    pub(super) drift: Option<Nanos>,
    /// How long the run lasts, where the scenario says it.
    pub(super) time: Option<Nanos>,
    /// Open connections are looked at once in each interval.
    pub(super) interval: Nanos,
    /// How long servers go on after the last client.
    pub(super) settle: Nanos,
    /// What groups wait for.
    pub(super) gates: Option<Arc<Gates>>,
    /// What changes the starts of its sessions, and its place among those who listen.
    pub(super) changes: Option<(Arc<Changeable>, usize)>,
}

impl Job {
    /// Whether the other ends of its sessions are of this run and may need an answer when it is done itself: TIME-WAIT is in our own
    /// TCP, and gone with it. The system's stays with the system.
    fn is_needed_longer(&self) -> bool {
        let ends = || {
            let groups = self.sessions.groups.iter();
            groups.filter(|group| group.client.is_some() || group.server.is_some())
        };
        self.own.is_some() && ends().all(|group| group.both_ends)
    }
}

/// A thread of sessions, from its listeners to its results.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    go: Sender<Nanos>,
    thread: Option<JoinHandle<Finished>>,
    listening: Vec<(String, SocketAddr)>,
    has_clients: bool,
    serves_ours_alone: bool,
    /// Whether its sessions are of another host.
    is_elsewhere: bool,
    /// Whether it runs on a virtual clock.
    pub(super) in_no_time: bool,
    pub(super) port: String,
}

/// What a worker left.
#[derive(Debug, Default)]
pub(super) struct Finished {
    pub(super) summaries: Vec<(usize, End, SessionSummary)>,
    /// What our own TCP counted, by the names of ports.
    pub(super) counted: Vec<(String, Counted)>,
    /// Sends without a copy, by the numbers of groups that have any.
    pub(super) zero_copies: Vec<(usize, End, SessionZeroCopy)>,
    /// Whether it accepted no connections for a while, because there was no file descriptor or memory for one.
    pub(super) accepted_late: bool,
    /// When it ended, where that was on a virtual clock.
    pub(super) ended: Option<Nanos>,
    /// The counts at the end, likewise.
    pub(super) last: EndCounts,
    /// How long responses took until the end, likewise.
    pub(super) last_times: EndTimes,
    /// What groups waited for, likewise.
    pub(super) gates: Option<Arc<Gates>>,
    /// Why it did not come to its end.
    pub(super) error: Option<String>,
}

/// The groups with the ends that are of the port `port` and carried in this way; the starts of others are left out.
pub(super) fn share(sessions: &Sessions, port: &str, carriage: Carriage) -> Sessions {
    let mut mine = sessions.clone();
    for group in &mut mine.groups {
        let other = Carriage::of(group) != carriage;
        if group.from.as_deref() != Some(port) || other {
            group.client = None;
            (group.starts, group.users) = (None, None);
        }
        if group.to.as_deref() != Some(port) || other {
            group.server = None;
        }
    }
    mine
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
            is_elsewhere: false,
            in_no_time: false,
            port,
        })
    }

    /// Starts the thread of a run in no time.
    pub(super) fn simulate(simulation: Simulation) -> Result<Worker, RunError> {
        let shared = Arc::new(Shared::default());
        let (go, begins) = channel();
        let ready = simulation.open()?;
        let seen = Arc::clone(&shared);
        let work = move || match begins.recv() {
            Ok(_begin) => ready.run(&seen),
            Err(_) => Finished::default(),
        };
        let thread = Builder::new().name("sessions in no time".to_owned()).spawn(work);
        let failed =
            |error: std::io::Error| RunError::machine(format!("cannot start a thread: {error}"));
        Ok(Worker {
            shared,
            go,
            thread: Some(thread.map_err(failed)?),
            listening: Vec::new(),
            has_clients: true,
            serves_ours_alone: true,
            is_elsewhere: false,
            in_no_time: true,
            port: "loopback".to_owned(),
        })
    }

    /// Starts the thread that speaks with a listener on another host, which listens there.
    pub(super) fn elsewhere(
        port: &str,
        listening: Vec<(String, SocketAddr)>,
        work: impl FnOnce(&Shared, &Receiver<Nanos>) -> Finished + Send + 'static,
    ) -> Result<Worker, RunError> {
        let shared = Arc::new(Shared::default());
        let (go, begins) = channel();
        let seen = Arc::clone(&shared);
        let work = move || {
            let finished = work(&seen, &begins);
            seen.end();
            finished
        };
        let thread = Builder::new().name("sessions elsewhere".to_owned()).spawn(work);
        let failed =
            |error: std::io::Error| RunError::machine(format!("cannot start a thread: {error}"));
        Ok(Worker {
            shared,
            go,
            thread: Some(thread.map_err(failed)?),
            listening,
            has_clients: false,
            serves_ours_alone: true,
            is_elsewhere: true,
            in_no_time: false,
            port: port.to_owned(),
        })
    }

    /// The listener on another host that serves no more, though nobody asked it to end.
    pub(super) fn lost(&self) -> Option<&Lost> {
        self.shared.lost.get()
    }

    /// What closes it from another thread.
    pub(super) fn closer(&self) -> Closer {
        Closer { shared: Arc::clone(&self.shared), go: self.go.clone() }
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

    /// Whether it is done, or would be if nobody needed it.
    pub(super) fn may_leave(&self) -> bool {
        self.shared.stays.load(Ordering::Acquire) || self.is_done()
    }

    pub(super) fn is_done(&self) -> bool {
        self.shared.done.load(Ordering::Acquire)
            || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Lets what is open come to its end.
    pub(super) fn finish(&self) {
        self.shared.order.fetch_max(FINISH, Ordering::AcqRel);
    }

    /// Closes all sessions, those of our clients first. What a listener on another host serves is let go when these are done, as at
    /// any end.
    pub(super) fn leave(&self) {
        if !self.is_elsewhere {
            self.shared.order.fetch_max(LEAVE, Ordering::AcqRel);
        }
    }

    /// Closes all sessions now.
    pub(super) fn close(&self) {
        self.shared.order.fetch_max(CLOSE, Ordering::AcqRel);
    }

    /// What it counted so far.
    pub(super) fn counts(&self) -> Vec<(usize, End, SessionCounts)> {
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long responses took until about the end of the latest interval, and at the end of the run in all.
    pub(super) fn response_times(&self) -> EndTimes {
        self.shared.response_times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What our own TCP did so far.
    pub(super) fn stacks(&self) -> Vec<(String, StackLook)> {
        self.shared.stacks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What open connections were like in the interval of this number; nothing where they were not looked at in it.
    pub(super) fn samples(&self, interval: u64) -> EndSamples {
        let samples = self.shared.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.0 == interval { samples.1.clone() } else { EndSamples::new() }
    }

    /// The intervals on its virtual clock that have ended since the last time.
    pub(super) fn take_intervals(&self) -> Vec<ShownInterval> {
        std::mem::take(&mut *self.shared.intervals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn join(mut self) -> Finished {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(finished)) => finished,
            Some(Err(_)) => {
                let error = Some(format!("the thread of port '{}' panicked", self.port));
                Finished { error, ..Finished::default() }
            }
            None => Finished::default(),
        }
    }
}

/// Closes a worker.
#[derive(Debug)]
pub(super) struct Closer {
    shared: Arc<Shared>,
    go: Sender<Nanos>,
}

impl Closer {
    /// Closes all sessions now, and lets the thread end if it waits for its start.
    pub(super) fn close(&self) {
        self.shared.order.fetch_max(CLOSE, Ordering::AcqRel);
        let _ = self.go.send(MonotonicClock.now());
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
    mut job: Job,
    connections: usize,
    shared: &Shared,
    opened: &Sender<Opened>,
    begins: &Receiver<Nanos>,
) -> Finished {
    let is_needed_longer = job.is_needed_longer();
    let mut room = Room::new(job.expected);
    large_pages::ask_for_tables(job.expected);
    room.populate();
    let stack = match open(&mut job, connections) {
        Ok((stack, listening)) => {
            // the opener waits for it
            let _ = opened.send(Ok(listening));
            stack
        }
        Err(fault) => {
            let _ = opened.send(Err(fault));
            return Finished::default();
        }
    };
    let Ok(begin) = begins.recv() else { return Finished::default() };
    let mut converse = Converse::new(&job.sessions, job.core, stack, begin, job.drift, job.waiting);
    converse.programs.take_room(room);
    converse.programs.name_clock(ClockIdentity::here().short());
    job.gates.take().into_iter().for_each(|gates| converse.share(gates));
    let mut turning = Turning {
        converse,
        shared,
        job: &job,
        begin,
        shown: Nanos::ZERO,
        sample_times: SampleTimes::new(job.interval),
        known: 0,
        version: 0,
        is_needed_longer,
    };
    let error = turning.run().map(|fault| fault.to_string());
    let counted = turning.converse.stack.0.counted();
    let zero_copies = zero_copies(&job.sessions.groups, &*turning.converse.stack.0);
    Finished {
        summaries: turning.converse.programs.summaries(),
        counted: counted.into_iter().map(|counted| (job.port.clone(), counted)).collect(),
        zero_copies,
        accepted_late: turning.converse.stack.0.accepted_late(),
        error,
        ..Finished::default()
    }
}

/// When the last session has had its time, from the begin on; of servers alone when the run is over. `None`: never.
pub(super) fn ends(groups: &[SessionGroup], time: Option<Nanos>) -> Option<Nanos> {
    // sessions of ours that started before the stop, at whatever port, have their time to end
    let clients = groups.iter().filter(|group| group.from.is_some());
    clients.map(|group| ended(groups, group, groups.len())).max().or(time)
}

/// When the sessions of a group have had their time. What it waits for comes at the latest when the other group is over; `depth`: how
/// many groups may still wait for one another.
fn ended(groups: &[SessionGroup], group: &SessionGroup, depth: usize) -> Nanos {
    let other = group.after.filter(|_| depth > 0);
    let other = other.and_then(|after| groups.get(usize::from(after.group)));
    let begins = other.map_or(Nanos::ZERO, |of| match of.from {
        Some(_) => ended(groups, of, depth - 1),
        // the sessions of somebody else come when they come
        None => group.end,
    });
    let stop = begins.saturating_add(group.stop).min(group.end);
    stop.saturating_add(group.timeout)
}

/// Whether an interval has just ended or is about to: then who watches wants to know how long responses took. At other times nobody does,
/// and a distribution has some hundred numbers. Where a turn takes long, as where the system takes its time for each connection, the next
/// one may pass over an edge.
fn is_at_edge(elapsed: Nanos, interval: Nanos, turn: Nanos) -> bool {
    let length = interval.get().max(1);
    let since = elapsed.get() % length;
    since.min(length - since) <= turn.max(SHOWN).get().saturating_mul(2)
}

/// The loop of a thread, until it is done.
struct Turning<'a> {
    converse: Converse<AnyCarrier>,
    shared: &'a Shared,
    job: &'a Job,
    begin: Nanos,
    shown: Nanos,
    sample_times: SampleTimes,
    /// The changes that were taken in: how many, and up to which version.
    known: usize,
    version: u64,
    is_needed_longer: bool,
}

impl Drop for Turning<'_> {
    /// However it ends, the others do not wait for it.
    fn drop(&mut self) {
        self.leave();
    }
}

impl Turning<'_> {
    /// Runs to the end; says why it could not.
    fn run(&mut self) -> Option<Fault> {
        let groups = &self.job.sessions.groups;
        let has_clients = groups.iter().any(|group| group.client.is_some());
        let has_servers = groups.iter().any(|group| group.server.is_some());
        let ends =
            ends(groups, self.job.time).map_or(Nanos::MAX, |end| self.begin.saturating_add(end));
        let mut now = MonotonicClock.now();
        let mut finish = Nanos::MAX;
        loop {
            now = self.turn(now, ends.min(finish));
            if let Some(fault) = self.converse.stack.broken() {
                self.converse.abort_all(now);
                self.show(now);
                self.shared.done.store(true, Ordering::Release);
                return Some(fault);
            }
            let order = self.shared.order.load(Ordering::Acquire);
            if order == FINISH {
                finish = finish.min(now.saturating_add(self.job.settle));
            }
            if has_clients && self.is_done(now) {
                self.shared.clients_done.store(true, Ordering::Release);
                if !has_servers {
                    break;
                }
            }
            let served = order == FINISH && !self.converse.programs.has_open();
            if order >= LEAVE || served || now >= ends.min(finish) {
                break;
            }
        }
        self.leave();
        now = self.stay(now, ends);
        if now < finish {
            now = self.let_clients_close(now);
        }
        self.converse.close_all(now);
        let until = now.saturating_add(leaving(CLOSING, &self.converse.programs));
        while self.converse.programs.has_open() && now < until {
            now = self.turn(now, until);
        }
        let until = now.saturating_add(leaving(CLOSING, &self.converse.programs));
        self.converse.abort_all(now);
        // those that were given up just now are told in the next turns, and peers get what they wait for
        for _ in 0..3 {
            now = self.turn(now, now);
        }
        while self.converse.stack.has_output() && now < until {
            now = self.turn(now, now);
        }
        self.show(now);
        self.shared.done.store(true, Ordering::Release);
        None
    }

    /// Whether all sessions that were to start have started and ended, and none may start by a change.
    fn is_done(&mut self, now: Nanos) -> bool {
        if !self.converse.is_done(now) {
            return false;
        }
        let Some((of, place)) = &self.job.changes else { return true };
        // as a transmit core has it: one with nothing left may get more, as long as another has some
        !self.converse.pauses(now) && of.changes().idle(*place, self.version)
    }

    /// Nothing changes any more.
    fn leave(&self) {
        if let Some((of, place)) = &self.job.changes {
            of.changes().leave(*place);
        }
    }

    /// Takes in what changed.
    fn listen(&mut self) {
        let Some((of, _)) = &self.job.changes else { return };
        if of.changes().version() == self.version {
            return;
        }
        let (news, version) = of.changes().after(self.known);
        self.version = version;
        self.known += news.len();
        for Update { flow, at, stream } in news {
            self.converse.change(flow, at, stream.as_ref().map(|stream| &stream.departures));
        }
    }

    /// Answers the other ends of its sessions, which may have missed its last acknowledgment (RFC 9293 §3.6), until all are done.
    fn stay(&mut self, mut now: Nanos, until: Nanos) -> Nanos {
        if !self.is_needed_longer || self.converse.programs.has_open() {
            return now;
        }
        self.show(now);
        self.shared.stays.store(true, Ordering::Release);
        while self.shared.order.load(Ordering::Acquire) != CLOSE
            && now < until
            && self.converse.stack.broken().is_none()
        {
            now = self.turn(now, until);
        }
        now
    }

    /// Closes its clients, and waits a while until those of the run have closed what is served here.
    fn let_clients_close(&mut self, mut now: Nanos) -> Nanos {
        self.converse.close_clients(now);
        let until = now.saturating_add(leaving(LEAVING, &self.converse.programs));
        while self.converse.programs.awaits_clients(true)
            && now < until
            && self.shared.order() != CLOSE
        {
            now = self.turn(now, until);
        }
        now
    }

    fn turn(&mut self, now: Nanos, until: Nanos) -> Nanos {
        self.listen();
        let wait = self.sample_times.wait(now.saturating_sub(self.begin), LOOK);
        let before = now;
        let now = self.converse.turn(now, until.min(now.saturating_add(wait)));
        self.look(now);
        if now.saturating_sub(self.shown) >= SHOWN {
            self.show_counts(now);
            let turn = now.saturating_sub(before);
            if is_at_edge(now.saturating_sub(self.begin), self.job.interval, turn) {
                self.show_response_times();
            }
        }
        now
    }

    /// Looks at open connections, where it is time to.
    fn look(&mut self, now: Nanos) {
        // before the begin nothing is open
        let Some(elapsed) = now.get().checked_sub(self.begin.get()).map(Nanos::new) else { return };
        if self.sample_times.begins(elapsed) {
            self.converse.begin_samples();
        }
        if let Some(interval) = self.sample_times.under_way
            && self.converse.sample()
        {
            self.sample_times.under_way = None;
            self.shared.show_samples(interval, self.converse.samples());
        }
    }

    /// Shows all that it has done.
    fn show(&mut self, now: Nanos) {
        self.show_counts(now);
        self.show_response_times();
    }

    fn show_response_times(&self) {
        let times = self.converse.programs.response_times().collect();
        self.shared.show_response_times(times);
    }

    fn show_counts(&mut self, now: Nanos) {
        self.shown = now;
        let counts =
            self.converse.programs.sides().map(|(group, end, counts)| (group, end, *counts));
        let mut shown = self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clear();
        shown.extend(counts);
        drop(shown);
        if let Some(look) = self.converse.stack.0.done_so_far() {
            let mut stacks = self.shared.stacks.lock().unwrap_or_else(PoisonError::into_inner);
            match stacks.first_mut() {
                Some((_, before)) => *before = look,
                None => stacks.push((self.job.port.clone(), look)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_times_are_shown_where_intervals_end_and_begin() {
        let second = Nanos::from_secs(1);
        let ms = Nanos::from_millis;
        for (at, shown) in
            [(0, true), (20, true), (21, false), (979, false), (980, true), (3015, true)]
        {
            assert_eq!(is_at_edge(ms(at), second, Nanos::ZERO), shown, "{at} ms");
        }
        // a turn of 70 ms from there on passes over the end
        assert!(is_at_edge(ms(950), second, ms(70)) && !is_at_edge(ms(850), second, ms(70)));
        // of short intervals all the time
        assert!((0..1000).all(|at| is_at_edge(ms(at), ms(40), Nanos::ZERO)));
    }
}
