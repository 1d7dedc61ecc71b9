//! What a listener sends for a sender on another host, where its owner allows that (`--allow-send`).
//!
//! Port, engine, interface and namespace are the listener's own. What is asked for becomes a scenario with one port, is held
//! against the grant before and after it is compiled, and is run like any other in a thread of its own. Another thread
//! watches it and stops it: when the time of the grant is over, when the sender has said nothing for [`SILENCE`], when the
//! owner asks for it. The transmit loop bounds the rate by itself. Only one run sends at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::drive::{LineLimit, TxFlowStats};
use wirebeat_netlink::Namespace;
use wirebeat_report::model::{End, Report, Station};
use wirebeat_traffic::compile::{CompileError, Links};
use wirebeat_traffic::program::Program;
use wirebeat_traffic::scenario::{
    EngineChoice, FlowSpec, LateChoice, OnLinkDown, PortSpec, PriorityChoice, RunSpec, Scenario,
};
use wirebeat_units::human::{self, counted};
use wirebeat_units::{Fault, LINE_OVERHEAD, Nanos};

use crate::flows::{self, PreparedFlows};
use crate::observe::{Silent, Stop};
use crate::options::Options;
use crate::receive::ReceiveRequest;
use crate::remote::{
    AT_ONCE, AskedSending, Grant, PORT, SendingSide, Sent, SentAmount, SentBacklog, SentFlowCounts,
    SentIntervals, SentLook, SentSummary, check_program, check_sources, time_at,
};

/// A sender that says nothing for so long is gone, and what is sent for it ends.
pub(crate) const SILENCE: Nanos = Nanos::from_secs(2);
/// How far ahead a start may be, and how long what was prepared waits for one.
pub(crate) const START_WITHIN: Nanos = Nanos::from_secs(10);
/// How long the link may take to come up: the sender waits for the answer.
const LINK_TIMEOUT: Nanos = Nanos::from_secs(2);
/// How long a sender waits at most until all is open.
const OPEN_WITHIN: Nanos = Nanos::from_secs(8);
/// How often it is looked meanwhile whether the owner wants to end.
const STEP: Duration = Duration::from_millis(50);
/// How often it is looked whether sending has to end.
const WATCH: Duration = Duration::from_millis(5);

/// What bounds a run that is sent for another host.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    asked: AskedSending,
    grant: Grant,
    /// The most that a core sends, from when it was compiled.
    pub(crate) limit: Option<LineLimit>,
    /// What it sent in intervals, for the sender.
    pub(crate) intervals: Arc<SentBacklog>,
}

impl Bounds {
    /// The number in probes of the flow at a place.
    pub(crate) fn number(&self, place: u16) -> u16 {
        self.asked.flows.get(usize::from(place)).map_or(place, |flow| flow.id)
    }

    /// Holds what was compiled against the grant.
    ///
    /// # Errors
    /// What is not allowed, and what is.
    pub(crate) fn check(&mut self, program: &Program, links: &Links) -> Result<(), Fault> {
        let own = links.ports.get(PORT).map_or(&[][..], |link| &link.addresses);
        check_sources(&self.asked, own)?;
        if program.flows.len() != self.asked.flows.len() {
            return Err("there are other flows than were asked for".into());
        }
        self.limit = Some(check_program(program, program.flows.iter(), &self.grant)?);
        Ok(())
    }
}

/// The listener's own side of what it sends.
#[derive(Debug)]
struct OwnPort {
    spec: PortSpec,
    namespaces: BTreeMap<String, Namespace>,
    priority: PriorityChoice,
}

/// Sends what senders on other hosts ask for, within a grant.
#[derive(Debug)]
pub(crate) struct GrantedSender {
    grant: Grant,
    /// Time that was sent for so far, in all. What left faster than the rate that is allowed counts as long as it takes at that.
    used: Nanos,
    /// When what was sent last has had that time.
    busy_until: Nanos,
    frames: u64,
    port: OwnPort,
    /// The owner's wish to end.
    owner: Stop,
    state: State,
    notices: Vec<String>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Ready(Job),
    UnderWay(Job),
}

/// A run that is prepared or sent.
#[derive(Debug)]
struct Job {
    /// When it was ready.
    since: Nanos,
    /// Its flows, for the owner.
    what: String,
    /// Their numbers in probes, by tag.
    numbers: Vec<u16>,
    intervals: Arc<SentBacklog>,
    shared: Arc<Shared>,
    start: SyncSender<Nanos>,
    thread: JoinHandle<Result<Sent, String>>,
}

/// What the threads of a run share.
#[derive(Debug)]
struct Shared {
    stop: Stop,
    /// When the sender was heard last, in ns of the monotonic clock.
    heard: AtomicU64,
    /// Why it was stopped.
    silent: AtomicBool,
    out_of_time: AtomicBool,
    /// From when to when it was sent, in ns of the monotonic clock; 0: not yet.
    began: AtomicU64,
    ended: AtomicU64,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            stop: Stop::new(),
            heard: AtomicU64::new(now().get()),
            silent: AtomicBool::new(false),
            out_of_time: AtomicBool::new(false),
            began: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// How long it was sent.
    fn lasted(&self) -> Nanos {
        let began = self.began.load(Ordering::Acquire);
        let ended = match self.ended.load(Ordering::Acquire) {
            0 => now().get(),
            ended => ended,
        };
        Nanos::new(if began == 0 { 0 } else { ended.saturating_sub(began) })
    }

    /// Stops what is sent once it has to end, until it is over.
    fn watch(&self, owner: &Stop, end: Nanos, over: &AtomicBool) {
        while !over.load(Ordering::Acquire) {
            let now = now();
            let heard = Nanos::new(self.heard.load(Ordering::Acquire));
            if now.saturating_sub(heard) >= SILENCE {
                self.silent.store(true, Ordering::Release);
                self.stop.ask(0);
            }
            if now >= end {
                self.out_of_time.store(true, Ordering::Release);
                self.stop.ask(0);
            }
            if owner.asked() {
                self.stop.ask(owner.signal());
            }
            if self.stop.asked() {
                return;
            }
            thread::park_timeout(WATCH);
        }
    }
}

fn now() -> Nanos {
    MonotonicClock.now()
}

impl GrantedSender {
    /// For the port of `request`, which receives by `engine`.
    pub(crate) fn new(
        request: &ReceiveRequest,
        engine: EngineChoice,
        grant: Grant,
        owner: &Stop,
    ) -> GrantedSender {
        let spec = PortSpec {
            interface: request.interface.clone(),
            namespace: request.namespace.clone(),
            engine,
            ..PortSpec::default()
        };
        GrantedSender {
            grant,
            used: Nanos::ZERO,
            busy_until: Nanos::ZERO,
            frames: 0,
            port: OwnPort {
                spec,
                namespaces: request.namespaces.clone(),
                priority: request.priority,
            },
            owner: owner.clone(),
            state: State::Idle,
            notices: Vec::new(),
        }
    }

    /// Frames that were sent for others so far, and for how long.
    pub(crate) fn total(&self) -> (u64, Nanos) {
        (self.frames, self.used)
    }

    /// What is left of the grant.
    fn left(&self) -> Grant {
        let left = self.grant.time().saturating_sub(self.used);
        Grant { time_ns: left.get(), ..self.grant.clone() }
    }

    /// How long what was sent takes at the rate that is allowed.
    fn on_line(&self, sent: &Sent) -> Nanos {
        let bytes = |amount: &SentAmount| {
            let overhead = amount.frames.saturating_mul(LINE_OVERHEAD.into());
            amount.bytes.saturating_add(overhead)
        };
        // a frame that was refused may have left
        let flows = sent.flows.iter().flat_map(|flow| [&flow.sent, &flow.failed]);
        time_at(self.grant.rate_bps, flows.map(bytes).fold(0, u64::saturating_add))
    }

    /// Waits until what was sent last has had its time, and refuses where none is left.
    fn await_turn(&self) -> Result<(), String> {
        const PATIENCE: Nanos = Nanos::from_secs(1);
        if self.left().time_ns == 0 {
            return Err("the time that the listener allows is used up".to_owned());
        }
        let wait = self.busy_until.saturating_sub(now());
        if wait > PATIENCE {
            let wait = human::time(wait.get() as f64);
            return Err(format!(
                "what was sent last takes {wait} more at the rate that is allowed"
            ));
        }
        thread::sleep(Duration::from_nanos(wait.get()));
        Ok(())
    }

    /// Waits until a job is open or cannot be opened. An error says why nobody waits any longer.
    fn await_open<T>(&self, is_ready: &Receiver<T>) -> Result<T, String> {
        let until = now().saturating_add(OPEN_WITHIN);
        loop {
            match is_ready.recv_timeout(STEP) {
                Ok(ready) => return Ok(ready),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the thread that sends ended while it opened its ports".to_owned());
                }
                Err(RecvTimeoutError::Timeout) if self.owner.asked() => {
                    return Err("the listener is being stopped".to_owned());
                }
                Err(RecvTimeoutError::Timeout) if now() >= until => {
                    return Err("its ports did not open in time".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Takes in a job that has ended, or is to end.
    fn finish(&mut self, job: Job) -> Result<Sent, String> {
        let Job { shared, start, thread, numbers, intervals, .. } = job;
        drop(start);
        shared.stop.ask(0);
        let sent =
            thread.join().unwrap_or_else(|_| Err("the thread that sends panicked".to_owned()));
        let sent = sent.map(|mut sent| {
            sent.summary.intervals = intervals.take(&numbers);
            sent
        });
        let began = shared.began.load(Ordering::Acquire);
        if began > 0 {
            let lasted = shared.lasted();
            // where it is not known what left, no more did than may at once
            let unknown = lasted.saturating_add(AT_ONCE);
            let taken = sent.as_ref().map_or(unknown, |sent| self.on_line(sent)).max(lasted);
            self.used = self.used.saturating_add(taken);
            self.busy_until = Nanos::new(began).saturating_add(taken);
            let frames = sent.as_ref().map_or(0, frames);
            self.frames = self.frames.saturating_add(frames);
            let ended = sent.as_ref().ok().and_then(|sent| sent.summary.ended.as_deref());
            let why = ended.map_or_else(String::new, |why| format!(" ({why})"));
            let left = human::time(self.left().time_ns as f64);
            self.notices.push(format!(
                "sent {} in {}{why}; {left} of the time that is allowed are left",
                counted(frames, "frame"),
                human::time(shared.lasted().get() as f64),
            ));
        }
        sent
    }
}

/// The flows that are asked for: how many, and the first of them.
fn what(asked: &AskedSending) -> String {
    const NAMED: usize = 4;
    let names: Vec<&str> = asked.flows.iter().take(NAMED).map(|flow| flow.name.as_str()).collect();
    let more = if asked.flows.len() > NAMED { ", …" } else { "" };
    format!("{} ({}{more})", counted(asked.flows.len() as u64, "flow"), names.join(", "))
}

fn frames(sent: &Sent) -> u64 {
    sent.flows.iter().map(|flow| flow.sent.frames).sum()
}

impl SendingSide for GrantedSender {
    fn grant(&self) -> Grant {
        self.left()
    }

    fn prepare(&mut self, asked: AskedSending) -> Result<Vec<Station>, String> {
        self.end();
        self.await_turn()?;
        let grant = self.left();
        asked.check(&grant).map_err(|why| why.to_string())?;
        let scenario = scenario(&asked, &self.port);
        scenario.check().map_err(|error| CompileError::from(error).to_string())?;
        let what = what(&asked);
        let time = grant.time();
        let intervals = Arc::new(SentBacklog::default());
        let numbers = asked.numbers();
        let bounds = Bounds { asked, grant, limit: None, intervals: Arc::clone(&intervals) };
        let options = Options { namespaces: self.port.namespaces.clone(), ..Options::default() };
        let shared = Arc::new(Shared::new());
        let (start, started) = sync_channel(1);
        let (ready, is_ready) = sync_channel(1);
        let (sharing, owner) = (Arc::clone(&shared), self.owner.clone());
        let work = move || {
            let prepared = flows::prepare_bounded(&scenario, options, bounds.clone());
            let prepared = match prepared {
                Ok(prepared) => prepared,
                Err(error) => {
                    let _ = ready.send(Err(error.to_string()));
                    return Err(error.to_string());
                }
            };
            let _ = ready.send(Ok(prepared.stations()));
            run(prepared, &bounds.asked, (&started, time), (&sharing, &owner))
        };
        let thread = thread::Builder::new().name("wb-granted".to_owned()).spawn(work);
        let thread = thread.map_err(|error| format!("there is no thread to send by: {error}"))?;
        let job = Job { since: now(), what, numbers, intervals, shared, start, thread };
        match self.await_open(&is_ready) {
            Ok(Ok(stations)) => {
                self.state = State::Ready(Job { since: now(), ..job });
                Ok(stations)
            }
            Ok(Err(why)) => {
                let _ = job.thread.join();
                Err(why)
            }
            // it ends by itself once it is open, as nobody is there to start it
            Err(why) => Err(why),
        }
    }

    fn start(&mut self, at: Nanos) -> Result<(), String> {
        let job = match std::mem::take(&mut self.state) {
            State::Ready(job) => job,
            other => {
                self.state = other;
                return Err("nothing is ready to be sent, or it was started before".to_owned());
            }
        };
        let now = now();
        let late = now.saturating_sub(job.since) > START_WITHIN;
        if late || at.saturating_sub(now) > START_WITHIN {
            let _ = self.finish(job);
            let within = human::time(START_WITHIN.get() as f64);
            return Err(match late {
                true => format!("what is sent from here is started within {within}"),
                false => format!("what is sent from here starts within {within}, and not later"),
            });
        }
        if job.start.send(at).is_err() {
            return self.finish(job).map(|_| ());
        }
        self.notices.push(format!("sends {}, as --allow-send permits", job.what));
        self.state = State::UnderWay(job);
        Ok(())
    }

    fn heard(&mut self) {
        if let State::Ready(job) | State::UnderWay(job) = &self.state {
            job.shared.heard.store(now().get(), Ordering::Release);
        }
    }

    fn sent(&mut self, stop: bool) -> Result<SentLook, String> {
        match std::mem::take(&mut self.state) {
            State::UnderWay(job) => {
                if stop {
                    job.shared.stop.ask(0);
                }
                if !job.thread.is_finished() {
                    let intervals = job.intervals.take(&job.numbers);
                    self.state = State::UnderWay(job);
                    return Ok(SentLook::Sending(intervals));
                }
                self.finish(job).map(SentLook::Ended)
            }
            other => {
                self.state = other;
                Err("nothing is sent".to_owned())
            }
        }
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn end(&mut self) -> Option<Sent> {
        match std::mem::take(&mut self.state) {
            State::Idle => None,
            State::Ready(job) => {
                // an error is that it was not started
                let _ = self.finish(job);
                None
            }
            State::UnderWay(job) => self.finish(job).ok(),
        }
    }
}

impl Drop for GrantedSender {
    fn drop(&mut self) {
        self.end();
    }
}

/// The scenario that is sent: these flows, from the listener's port.
fn scenario(asked: &AskedSending, port: &OwnPort) -> Scenario {
    let flow = |flow: &FlowSpec| FlowSpec { from: PORT.to_owned(), to: None, ..flow.clone() };
    let late = match asked.drift_ns {
        Some(_) => LateChoice::Drop,
        None => LateChoice::Send,
    };
    let usual = RunSpec::default();
    Scenario {
        seed: asked.seed,
        ports: [(PORT.to_owned(), port.spec.clone())].into_iter().collect(),
        flows: asked.flows.iter().map(|one| (one.name.clone(), flow(&one.flow))).collect(),
        sessions: Default::default(),
        mix: None,
        expect: Vec::new(),
        run: RunSpec {
            late,
            drift: asked.drift_ns.map_or(usual.drift, Nanos::new),
            priority: port.priority,
            link_timeout: LINK_TIMEOUT,
            on_link_down: OnLinkDown::End,
            interval: Nanos::new(asked.interval_ns).max(RunSpec::SHORTEST_INTERVAL),
            ..usual
        },
    }
}

/// Waits until it is started, sends, and says what was sent.
fn run(
    prepared: PreparedFlows,
    asked: &AskedSending,
    (started, time): (&Receiver<Nanos>, Nanos),
    (shared, owner): (&Shared, &Stop),
) -> Result<Sent, String> {
    let at = match started.recv_timeout(START_WITHIN.to_duration()) {
        Ok(at) => at,
        Err(RecvTimeoutError::Timeout) => return Err("it was not started in time".to_owned()),
        Err(RecvTimeoutError::Disconnected) => return Err("it was not started".to_owned()),
    };
    let begins = at.max(now());
    shared.began.store(begins.get().max(1), Ordering::Release);
    let over = AtomicBool::new(false);
    let (report, tags) = thread::scope(|scope| {
        let watch = || shared.watch(owner, begins.saturating_add(time), &over);
        let watching = thread::Builder::new().name("wb-granted-end".to_owned());
        let watching = watching.spawn_scoped(scope, watch);
        if watching.is_err() {
            // what nobody watches is not sent
            shared.stop.ask(0);
        }
        let done = prepared.send(at, &mut Silent, &shared.stop);
        shared.ended.store(now().get().max(1), Ordering::Release);
        over.store(true, Ordering::Release);
        let _ = watching.inspect(|watching| watching.thread().unpark());
        done
    });
    Ok(sent(report, &tags, asked, (at, shared)))
}

/// What was sent, by flow.
fn sent(report: Report, tags: &Tags, asked: &AskedSending, (at, shared): (Nanos, &Shared)) -> Sent {
    let counts = |(flow, stats)| SentFlowCounts::of(flow, stats, tags.start.max(at));
    let ended = match &report.end {
        _ if shared.silent.load(Ordering::Acquire) => {
            Some("the sender said nothing for 2 s".to_owned())
        }
        _ if shared.out_of_time.load(Ordering::Acquire) => {
            Some("the time was over that the listener's owner allows".to_owned())
        }
        End::Completed => None,
        End::Stopped { .. } => Some("it was stopped".to_owned()),
        End::InterfaceGone { interface } => Some(format!("the interface {interface} is gone")),
        End::PeerGone { peer } => Some(format!("{peer} is gone")),
        End::Failed { message } => Some(message.clone()),
    };
    Sent {
        flows: asked.numbers().into_iter().zip(&tags.stats).map(counts).collect(),
        summary: SentSummary {
            run: asked.run,
            stations: report.senders,
            ended,
            intervals: SentIntervals::default(),
        },
    }
}

/// What was sent by each tag, and from when on.
#[derive(Debug)]
pub(crate) struct Tags {
    pub(crate) start: Nanos,
    pub(crate) stats: Vec<TxFlowStats>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Watches until it stops what is sent, or it is `over` beforehand.
    fn watched(shared: &Shared, owner: &Stop, end: Nanos) -> bool {
        shared.watch(owner, end, &AtomicBool::new(false));
        shared.stop.asked()
    }

    #[test]
    fn what_is_sent_ends_with_its_time_with_its_peer_and_with_its_owner() {
        let far_off = Nanos::MAX;
        let shared = Shared::new();
        assert!(watched(&shared, &Stop::new(), now()));
        assert!(shared.out_of_time.into_inner() && !shared.silent.into_inner());

        let shared = Shared::new();
        shared.heard.store(now().saturating_sub(SILENCE).get(), Ordering::Release);
        assert!(watched(&shared, &Stop::new(), far_off));
        assert!(shared.silent.into_inner() && !shared.out_of_time.into_inner());

        let (shared, owner) = (Shared::new(), Stop::new());
        owner.ask(2);
        assert!(watched(&shared, &owner, far_off));
        assert_eq!(shared.stop.signal(), 2);

        // one that talks, has time and is wanted goes on
        let shared = Shared::new();
        shared.watch(&Stop::new(), far_off, &AtomicBool::new(true));
        assert!(!shared.stop.asked());
    }

    /// A listener that may send 1 Mbit/s for 10 s.
    fn sender() -> GrantedSender {
        GrantedSender {
            grant: "10.0.0.0/24,rate=1Mbps,time=10s".parse().unwrap(),
            used: Nanos::ZERO,
            busy_until: Nanos::ZERO,
            frames: 0,
            port: OwnPort {
                spec: PortSpec::default(),
                namespaces: BTreeMap::new(),
                priority: PriorityChoice::default(),
            },
            owner: Stop::new(),
            state: State::Idle,
            notices: Vec::new(),
        }
    }

    /// A job that was sent for `lasted` from `began` on, and what it says.
    fn job((began, lasted): (Nanos, Nanos), sent: Result<Sent, String>) -> Job {
        let shared = Arc::new(Shared::new());
        shared.began.store(began.get(), Ordering::Release);
        shared.ended.store(began.saturating_add(lasted).get(), Ordering::Release);
        Job {
            since: began,
            what: "x".to_owned(),
            numbers: vec![0],
            intervals: Arc::default(),
            shared,
            start: sync_channel(1).0,
            thread: thread::spawn(|| sent),
        }
    }

    /// Frames of 105 bytes take 125 on the line: one a millisecond at 1 Mbit/s.
    fn frames_of_a_millisecond(frames: u64) -> SentAmount {
        SentAmount { frames, bytes: frames * 105, payload: 0 }
    }

    fn sent_of(sent: u64, failed: u64) -> Result<Sent, String> {
        let (sent, failed) = (frames_of_a_millisecond(sent), frames_of_a_millisecond(failed));
        let flow = SentFlowCounts { sent, failed, ..SentFlowCounts::default() };
        Ok(Sent { flows: vec![flow], summary: SentSummary::default() })
    }

    #[test]
    fn what_left_at_once_is_charged_for_the_time_that_it_takes_at_the_rate_that_is_allowed() {
        let ms = Nanos::from_millis;
        let began = Nanos::from_secs(5);
        for (lasted, sent, charged) in [
            // a burst, and what a device refused of it, as that may have left
            (1, sent_of(3000, 0), 3000),
            (1, sent_of(2000, 500), 2500),
            // what left slower counts as long as it lasted
            (4000, sent_of(3000, 0), 4000),
            // nobody knows what left: no more than may at once
            (200, Err("lost".to_owned()), 200 + AT_ONCE.get() / 1_000_000),
        ] {
            let mut sender = sender();
            let known = sent.is_ok();
            let finished = sender.finish(job((began, ms(lasted)), sent));
            assert_eq!(finished.is_ok(), known);
            assert_eq!(sender.total().1, ms(charged), "{lasted} ms");
            assert_eq!(sender.left().time(), ms(10_000 - charged));
            assert_eq!(sender.busy_until, began.saturating_add(ms(charged)));
        }
        // one that was never started costs nothing
        let mut sender = sender();
        let _ = sender.finish(job((Nanos::ZERO, ms(100)), sent_of(0, 0)));
        assert_eq!((sender.total(), sender.notices.len()), ((0, Nanos::ZERO), 0));
    }

    #[test]
    fn the_next_run_waits_until_what_was_sent_at_once_has_had_its_time() {
        let ms = Nanos::from_millis;
        // 500 frames left within a millisecond, just now
        let mut waiting = sender();
        let began = now();
        waiting.finish(job((began, ms(1)), sent_of(500, 0))).unwrap();
        waiting.await_turn().unwrap();
        assert!(now() >= began.saturating_add(ms(500)));
        // of an hour that is to go nobody waits for the end
        let mut refusing = sender();
        refusing.busy_until = now().saturating_add(Nanos::from_secs(3600));
        let why = refusing.await_turn().unwrap_err();
        assert!(why.contains("takes") && why.contains("at the rate that is allowed"), "{why}");
        // and no time is left after 10 s
        let mut spent = sender();
        spent.finish(job((Nanos::from_secs(1), ms(1)), sent_of(10_000, 0))).unwrap();
        let why = spent.await_turn().unwrap_err();
        assert_eq!(why, "the time that the listener allows is used up");
    }

    #[test]
    fn the_owner_ends_the_wait_for_ports_that_open() {
        let sender = sender();
        let (ready, is_ready) = sync_channel::<u8>(1);
        sender.owner.ask(2);
        let why = sender.await_open(&is_ready).unwrap_err();
        assert_eq!(why, "the listener is being stopped");
        ready.send(7).unwrap();
        assert_eq!(sender.await_open(&is_ready), Ok(7));
        drop(ready);
        assert!(sender.await_open(&is_ready).unwrap_err().contains("ended while it opened"));
    }

    #[test]
    fn time_is_used_up_and_never_given_back() {
        let shared = Shared::new();
        assert_eq!(shared.lasted(), Nanos::ZERO);
        shared.began.store(1_000, Ordering::Release);
        shared.ended.store(4_000, Ordering::Release);
        assert_eq!(shared.lasted(), Nanos::new(3_000));
    }
}
