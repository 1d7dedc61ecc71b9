//! What a listener serves for a sender on another host, where its owner allows that (`--allow-serve`).
//!
//! The namespace is the listener's own, and its addresses and ports are those of the grant. What is asked for becomes a scenario with
//! both ends, of which the servers are here: one thread, with the system's TCP. Another thread closes all of it when the time of the
//! grant is over, when the sender has said nothing for [`SILENCE`], and when the owner asks for it. Only one run is served at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wirebeat_converse::Waiting;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_meter::session::SessionCounts;
use wirebeat_netlink::Namespace;
use wirebeat_traffic::scenario::RunSpec;
use wirebeat_traffic::schedule::Shard;
use wirebeat_traffic::values::session::Transport;
use wirebeat_units::Nanos;
use wirebeat_units::human::{self, counted};

use super::carrier::Carriage;
use super::worker::{self, Closer, Job, Worker};
use super::{checks, tls};
use crate::error::RunError;
use crate::granted::{SILENCE, START_WITHIN};
use crate::observe::Stop;
use crate::ports;
use crate::receive::ReceiveRequest;
use crate::remote::{
    AskedServing, PORT, ServeGrant, ServedPlace, ServedSessions, ServedSummary, ServingLook,
    ServingOrder, ServingSide,
};

/// How often it is looked whether serving has to end.
const WATCH: Duration = Duration::from_millis(5);

/// Serves sessions that senders on other hosts ask for, within a grant.
#[derive(Debug)]
pub(crate) struct GrantedServer {
    grant: ServeGrant,
    /// Time that was served for so far, in all.
    used: Nanos,
    /// Sessions that were accepted so far.
    sessions: u64,
    namespace: Option<Namespace>,
    /// The owner's wish to end.
    owner: Stop,
    job: Option<ServingJob>,
    notices: Vec<String>,
}

/// A run that is served.
#[derive(Debug)]
struct ServingJob {
    worker: Worker,
    /// The numbers of its groups, in their order.
    numbers: Vec<u32>,
    began: Nanos,
    is_started: bool,
    shared: Arc<Watched>,
    watching: JoinHandle<()>,
}

/// What is watched of a run.
#[derive(Debug)]
struct Watched {
    /// When the sender was heard last, in ns of the monotonic clock.
    heard: AtomicU64,
    over: AtomicBool,
    /// Why it was closed.
    silent: AtomicBool,
    out_of_time: AtomicBool,
    stopped: AtomicBool,
}

impl Watched {
    /// Closes what is served once it has to end, until it is over.
    fn watch(&self, closer: &Closer, owner: &Stop, end: Nanos) {
        while !self.over.load(Ordering::Acquire) {
            let now = now();
            let heard = Nanos::new(self.heard.load(Ordering::Acquire));
            let reasons = [
                (&self.silent, now.saturating_sub(heard) >= SILENCE),
                (&self.out_of_time, now >= end),
                (&self.stopped, owner.asked()),
            ];
            if let Some((why, _)) = reasons.into_iter().find(|(_, holds)| *holds) {
                why.store(true, Ordering::Release);
                closer.close();
                return;
            }
            thread::park_timeout(WATCH);
        }
    }

    fn why(&self) -> Option<&'static str> {
        let reasons = [
            (&self.silent, "the sender said nothing for 2 s"),
            (&self.out_of_time, "the time was over that the listener's owner allows"),
            (&self.stopped, "it was stopped"),
        ];
        reasons.into_iter().find(|(is, _)| is.load(Ordering::Acquire)).map(|(_, why)| why)
    }
}

fn now() -> Nanos {
    MonotonicClock.now()
}

impl GrantedServer {
    /// In the namespace of `request`.
    ///
    /// # Errors
    /// There is no such namespace.
    pub(crate) fn new(
        request: &ReceiveRequest,
        grant: ServeGrant,
        owner: &Stop,
    ) -> Result<GrantedServer, RunError> {
        Ok(GrantedServer {
            grant,
            used: Nanos::ZERO,
            sessions: 0,
            namespace: ports::namespace(request.namespace.as_deref(), &request.namespaces)?,
            owner: owner.clone(),
            job: None,
            notices: Vec::new(),
        })
    }

    /// Sessions that were accepted for others so far, and for how long they were served.
    pub(crate) fn total(&self) -> (u64, Nanos) {
        (self.sessions, self.used)
    }

    /// What is left of the grant.
    fn left(&self) -> ServeGrant {
        let left = self.grant.time().saturating_sub(self.used);
        ServeGrant { time_ns: left.get(), ..self.grant.clone() }
    }

    /// Listens for what is asked.
    fn open(&self, asked: &AskedServing, grant: &ServeGrant) -> Result<Worker, String> {
        let told = |fault: wirebeat_units::Fault| fault.to_string();
        let scenario = asked.scenario().map_err(told)?;
        let sessions = asked.compile(&scenario).map_err(told)?;
        let carriage = Carriage::System(Transport::Tcp);
        let mine = worker::share(&sessions, PORT, carriage);
        // certificates are made here: nothing of it reads a file
        let tls = tls::ends(&mine).map_err(|error| error.to_string())?;
        checks::check(&mine, &scenario, &[]).map_err(|error| error.to_string())?;
        let most = usize::try_from(grant.sessions).unwrap_or(usize::MAX);
        let job = Job {
            own: None,
            carriage,
            port: PORT.to_owned(),
            namespace: self.namespace.clone(),
            cpu: None,
            core: Shard { core: 0, cores: 1 },
            sessions: mine,
            // nobody elsewhere has memory given here before sessions are open
            expected: 0,
            tls,
            waiting: Waiting::Hybrid,
            drift: None,
            time: scenario.run.time,
            interval: RunSpec::DEFAULT_INTERVAL,
            settle: scenario.run.settle.min(crate::remote::LONGEST_SETTLE),
            changes: None,
            gates: None,
        };
        Worker::open(job, most.min(checks::connections(1))).map_err(|error| error.to_string())
    }

    /// Takes in a run that has ended, or is to end.
    fn finish(&mut self, job: ServingJob) -> ServedSessions {
        let ServingJob { worker, numbers, began, shared, watching, is_started } = job;
        if !worker.is_done() {
            worker.close();
            if !is_started {
                // it waits for that
                worker.start(now());
            }
        }
        let finished = worker.join();
        shared.over.store(true, Ordering::Release);
        watching.thread().unpark();
        let _ = watching.join();
        let lasted = now().saturating_sub(began);
        self.used = self.used.saturating_add(lasted);
        let mut served = ServedSessions::default();
        for number in &numbers {
            served.groups.insert(*number, Default::default());
        }
        for (place, _, summary) in &finished.summaries {
            let group = numbers.get(*place).and_then(|number| served.groups.get_mut(number));
            group.into_iter().for_each(|group| group.merge(summary));
        }
        let accepted: u64 = served.groups.values().map(|of| of.counts.opened).sum();
        self.sessions = self.sessions.saturating_add(accepted);
        let ended = finished.error.or_else(|| shared.why().map(str::to_owned));
        let why = ended.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        self.notices.push(format!(
            "served {} in {}{why}; {} of the time that is allowed are left",
            counted(accepted, "session"),
            human::time(lasted.get() as f64),
            human::time(self.left().time_ns as f64),
        ));
        served.summary = ServedSummary { run: 0, ended };
        served
    }
}

impl ServingSide for GrantedServer {
    fn grant(&self) -> ServeGrant {
        self.left()
    }

    fn prepare(&mut self, asked: AskedServing) -> Result<Vec<ServedPlace>, String> {
        self.end();
        let grant = self.left();
        if grant.time_ns == 0 {
            return Err("the time that the listener allows is used up".to_owned());
        }
        asked.check(&grant).map_err(|why| why.to_string())?;
        let worker = self.open(&asked, &grant)?;
        let began = now();
        let shared = Arc::new(Watched {
            heard: AtomicU64::new(began.get()),
            over: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            out_of_time: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        let (closer, owner, watched) = (worker.closer(), self.owner.clone(), Arc::clone(&shared));
        let end = began.saturating_add(grant.time());
        let watching = thread::Builder::new().name("wb-serving-end".to_owned());
        // what nobody watches is not served
        let watching = watching
            .spawn(move || watched.watch(&closer, &owner, end))
            .map_err(|error| format!("there is no thread to watch by: {error}"))?;
        let place = |(group, address): &(String, _)| ServedPlace {
            group: group.clone(),
            address: *address,
        };
        let places: Vec<ServedPlace> = worker.listening().iter().map(place).collect();
        let listed: Vec<String> = places.iter().take(4).map(|at| at.address.to_string()).collect();
        let more = if places.len() > listed.len() { ", …" } else { "" };
        self.notices.push(format!(
            "serves sessions at {}{more}, as --allow-serve permits",
            listed.join(", ")
        ));
        let numbers = asked.groups.iter().map(|group| group.number).collect();
        self.job = Some(ServingJob { worker, numbers, began, is_started: false, shared, watching });
        Ok(places)
    }

    fn start(&mut self, at: Nanos) -> Result<(), String> {
        let Some(job) = self.job.as_mut().filter(|job| !job.is_started) else {
            return Err("nothing is ready to be served, or it was started before".to_owned());
        };
        if at.saturating_sub(now()) > START_WITHIN {
            let within = human::time(START_WITHIN.get() as f64);
            return Err(format!("what is served from here starts within {within}, and not later"));
        }
        job.is_started = true;
        job.worker.start(at);
        Ok(())
    }

    fn heard(&mut self) {
        if let Some(job) = &self.job {
            job.shared.heard.store(now().get(), Ordering::Release);
        }
    }

    fn served(&mut self, order: ServingOrder) -> Result<ServingLook, String> {
        let Some(job) = self.job.take() else { return Err("nothing is served".to_owned()) };
        match order {
            ServingOrder::GoOn => {}
            ServingOrder::Finish => job.worker.finish(),
            ServingOrder::Stop => job.worker.close(),
        }
        let is_over = order != ServingOrder::GoOn && !job.is_started;
        if is_over || job.worker.is_done() {
            return Ok(ServingLook::Ended(Box::new(self.finish(job))));
        }
        let mut counts = vec![SessionCounts::default(); job.numbers.len()];
        for (place, _, of) in job.worker.counts() {
            counts.get_mut(place).into_iter().for_each(|counts| counts.merge(&of));
        }
        self.job = Some(job);
        Ok(ServingLook::Serving(counts))
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn end(&mut self) -> Option<ServedSessions> {
        let job = self.job.take()?;
        Some(self.finish(job))
    }
}

impl Drop for GrantedServer {
    fn drop(&mut self) {
        self.end();
    }
}
