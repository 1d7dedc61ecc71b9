//! The thread that pushes: at each period what was counted by then, and the last values when the run is over.
//!
//! One push is under way at a time, and what it carries is the newest: sums are cumulative, so that the next push makes up for one
//! that failed. The run never waits for it, but at its end, for [`LAST`] at most.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use wirebeat_report::metrics::otlp::{Origin, reason, rejected};
use wirebeat_report::text::style::clean;

use super::http::{Answer, Client};
use crate::metrics::SharedMetrics;

/// How long the end of a run waits for the last push.
pub const LAST: Duration = Duration::from_secs(3);
/// So much earlier the last push gives up, so that its reason is known in time.
const SPARE: Duration = Duration::from_millis(200);
/// The longest pause that failures make where the period is shorter, and the longest that a collector is granted.
const PAUSE_MAX: Duration = Duration::from_secs(16);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// What is pushed, where to, and how often.
#[derive(Debug)]
pub struct Pushing {
    /// The collector.
    pub client: Client,
    /// What was counted.
    pub metrics: Arc<SharedMetrics>,
    /// Attributes of the program.
    pub resource: Vec<(String, String)>,
    /// From one push to the next.
    pub period: Duration,
    /// How long one may take.
    pub timeout: Duration,
}

/// What became of it so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Pushes that were begun.
    pub begun: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Why the last of these did.
    pub why: String,
    /// What a collector said first of values that it did not take, of a request that it answered with success.
    pub rejected: Option<String>,
    /// Whether the last push failed, was not made, or is still under way.
    pub is_behind: bool,
}

/// What the two threads tell each other.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pushed: Pushed,
    /// What of it was told.
    told: Told,
    /// When the run was over.
    over: Option<Instant>,
    done: bool,
}

/// What the run has said of pushes: each kind of trouble once.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    failed: bool,
    rejected: bool,
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until then, or until the run is over; when it was, if it is.
    fn wait(&self, until: Instant) -> Option<Instant> {
        let mut state = self.locked();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.over.is_some() || left.is_zero() {
                return state.over;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A thread that pushes until it is ended.
#[derive(Debug)]
pub struct Pusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Pusher {
    /// Begins.
    ///
    /// # Errors
    /// This machine has no room for a thread.
    pub fn start(pushing: Pushing) -> std::io::Result<Pusher> {
        let shared = Arc::new(Shared::default());
        let mut work = Work::new(pushing, Arc::clone(&shared));
        let thread = thread::Builder::new().name("wb-otlp".to_owned());
        let thread = thread.spawn(move || work.run())?;
        Ok(Pusher { shared, thread: Some(thread) })
    }

    /// What the run should say now: of the first push that failed, and of the first values that were not taken.
    pub fn notices(&self) -> Vec<String> {
        let mut state = self.shared.locked();
        let State { pushed, told, .. } = &mut *state;
        let failed = (pushed.failed > 0 && !std::mem::replace(&mut told.failed, pushed.failed > 0))
            .then(|| format!("OTLP: a push failed: {}; the run goes on", pushed.why));
        let rejected =
            pushed.rejected.clone().filter(|_| !std::mem::replace(&mut told.rejected, true));
        failed.into_iter().chain(rejected).collect()
    }

    /// Has the last values pushed, and waits for that, for [`LAST`] at most; what became of all pushes, and whether the run has told
    /// what was rejected. A collector that does not answer by then is left alone with its connection.
    pub fn end(&mut self) -> (Pushed, bool) {
        let until = Instant::now() + LAST;
        let mut state = self.shared.locked();
        state.over.get_or_insert_with(Instant::now);
        self.shared.changed.notify_all();
        while !state.done {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (done, told, mut pushed) = (state.done, state.told.rejected, state.pushed.clone());
        drop(state);
        match self.thread.take() {
            Some(thread) if done => {
                let _ = thread.join();
            }
            _ if !done => {
                pushed.failed = pushed.failed.saturating_add(1);
                pushed.why =
                    format!("the collector did not answer within {} s of the end", LAST.as_secs());
                pushed.is_behind = true;
            }
            _ => {}
        }
        (pushed, told)
    }
}

/// What the thread works on.
#[derive(Debug)]
struct Work {
    pushing: Pushing,
    shared: Arc<Shared>,
    /// The beginning, by both clocks: the time of values does not jump with that of the system.
    began: Instant,
    began_ns: u64,
    /// Which state of the metrics was taken last.
    taken: Option<u64>,
    /// Failures one after the other.
    failures: u32,
    /// Until when the collector asked to be left alone.
    left_alone: Option<Instant>,
}

/// Nanoseconds; what does not fit is the most that does.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Work {
    fn new(pushing: Pushing, shared: Arc<Shared>) -> Work {
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let (began, began_ns) = (Instant::now(), nanoseconds(since_1970));
        let (taken, failures, left_alone) = (None, 0, None);
        Work { pushing, shared, began, began_ns, taken, failures, left_alone }
    }

    fn run(&mut self) {
        let mut next = self.began + self.pushing.period;
        loop {
            if let Some(over) = self.shared.wait(next) {
                self.last(over);
                let mut state = self.shared.locked();
                state.done = true;
                self.shared.changed.notify_all();
                return;
            }
            let timeout = self.pushing.timeout;
            if self.has_news() {
                self.push(Instant::now() + timeout);
            }
            next = self.next(next);
        }
    }

    /// When it is time again: at the next multiple of the period, and after failures later.
    fn next(&self, planned: Instant) -> Instant {
        let (now, period) = (Instant::now(), self.pushing.period);
        let mut next = planned + period;
        if next <= now {
            // those that were missed are made up for by the next
            next = now + period;
        }
        let pause = period.saturating_mul(1 << self.failures.min(8));
        let pause = if self.failures == 0 { period } else { pause.min(PAUSE_MAX.max(period)) };
        let next = if self.failures == 0 { next } else { now + pause };
        self.left_alone.map_or(next, |until| next.max(until))
    }

    /// Whether something was counted that the collector does not have.
    fn has_news(&self) -> bool {
        self.taken != Some(self.pushing.metrics.locked().changes)
    }

    /// Pushes the last values, if the collector does not have them.
    fn last(&mut self, over: Instant) {
        if !self.has_news() {
            return;
        }
        let deadline = (over + LAST - SPARE).min(Instant::now() + self.pushing.timeout);
        if let Some(until) = self.left_alone.filter(|until| *until > Instant::now()) {
            if until >= over + LAST - SPARE {
                let mut state = self.shared.locked();
                state.pushed.is_behind = true;
                return;
            }
            thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        self.push(deadline);
    }

    fn push(&mut self, deadline: Instant) {
        let counted = self.pushing.metrics.locked().clone();
        let at = counted.at.saturating_duration_since(self.began);
        let origin = Origin {
            resource: &self.pushing.resource,
            started_ns: self.began_ns,
            at_ns: self.began_ns.saturating_add(nanoseconds(at)),
        };
        let body = counted.metrics.otlp(&origin);
        {
            let mut state = self.shared.locked();
            state.pushed.begun = state.pushed.begun.saturating_add(1);
            state.pushed.is_behind = true;
        }
        let answered = self.pushing.client.post(&body, deadline);
        self.left_alone = None;
        let failed = match answered {
            Ok(answer) if (200..300).contains(&answer.status) => {
                self.taken = Some(counted.changes);
                self.failures = 0;
                self.note_rejected(&answer);
                self.shared.locked().pushed.is_behind = false;
                return;
            }
            Ok(answer) => {
                let asked = answer.retry_after.filter(|_| is_for_later(answer.status));
                self.left_alone = asked.map(|asked| Instant::now() + asked.min(RETRY_AFTER_MAX));
                refusal(&answer)
            }
            Err(error) => error.to_string(),
        };
        self.failures = self.failures.saturating_add(1);
        let mut state = self.shared.locked();
        let pushed = &mut state.pushed;
        pushed.failed = pushed.failed.saturating_add(1);
        // some of it is the collector's words: they stay on their line
        pushed.why = clean(&failed);
    }

    /// Keeps what the collector says first of values that it did not take.
    fn note_rejected(&self, answer: &Answer) {
        let Some(rejected) = rejected(&answer.body) else { return };
        let why = match rejected.message.as_str() {
            "" => "it does not say why",
            message => message,
        };
        let said = match rejected.data_points {
            0 => format!("OTLP: the collector says: {why}"),
            count => format!("OTLP: the collector rejected {count} values: {why}"),
        };
        self.shared.locked().pushed.rejected.get_or_insert(clean(&said));
    }
}

/// Whether the same can be taken later (specification of OTLP/HTTP, retryable response codes).
fn is_for_later(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

/// Why values were not taken.
fn refusal(answer: &Answer) -> String {
    let status = answer.status;
    match status {
        300..=399 => format!(
            "the collector answers {status}, a redirect, which is not followed; give the address that it means"
        ),
        401 | 403 => format!(
            "the collector answers {status}; give what it asks for in OTEL_EXPORTER_OTLP_HEADERS"
        ),
        404 | 405 => {
            format!(
                "the collector answers {status}; check the path of the URL (/v1/metrics is the usual one)"
            )
        }
        _ => {
            let said = reason(&answer.body).map_or_else(String::new, |said| format!(": {said}"));
            format!("the collector answers {status}{said}")
        }
    }
}
