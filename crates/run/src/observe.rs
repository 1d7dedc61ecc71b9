//! What can be seen of a run while it lasts, and how it is asked to stop.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_report::model::{ABORT_ON_FAIL, End, Interval};
use wirebeat_units::Nanos;

/// A look at a run in progress. Counts are from its start; differences of two looks give rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time since the start of the run.
    pub elapsed: Nanos,
    /// How long it is going to last, where that is known.
    pub duration: Option<Nanos>,
    /// Frames that are going to be sent, where that is known.
    pub expected: Option<u64>,
    /// Frames sent so far, and their bytes with FCS; `None` where nothing is sent here.
    pub sent: Option<(u64, u64)>,
    /// Frames received so far, and their bytes with FCS; `None` without a receiver.
    pub received: Option<(u64, u64)>,
    /// Frames that are known to be lost by now: later ones of their flow arrived at least 20 ms ago, or they were sent
    /// more than a second ago and nothing came of them. `None` without a receiver. A very late frame takes one off.
    pub lost: Option<u64>,
    /// Frames whose fate is known by now: those among which `lost` were found. `None` where that is not counted apart.
    pub lost_of: Option<u64>,
    /// Frames that were handed over so far and that the device did not send; they are not among `sent`.
    pub failed: u64,
    /// Frames dropped so far because they were later than their drift.
    pub expired: u64,
    /// What sessions did so far, of all groups; `None` where there are none.
    pub sessions: Option<SessionProgress>,
    /// How long nothing is due, where the senders wait for the next frame.
    pub next_in: Option<Nanos>,
    /// Whether this is the last look, when all has been sent and nothing more arrives.
    pub ended: bool,
}

/// What sessions did from the start of a run: counts of the end that opens them where it is here, else of the end that accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionProgress {
    /// Sessions that were due to start; `None` at the end that accepts.
    pub due: Option<u64>,
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that are open now.
    pub open: u64,
    /// Sessions that ended, in whatever way.
    pub ended: u64,
    /// Those of them that did not end in order.
    pub failed: u64,
    /// Sessions that were not opened because too many were open or they were too late.
    pub expired: u64,
    /// Responses that were received whole.
    pub responses: u64,
    /// Bytes that were delivered to programs, at every end that is here.
    pub delivered_bytes: u64,
}

/// When to look: at each multiple of the interval, the first one interval from the start, and not shortly before the end, when the last look comes anyway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    interval: Nanos,
    next: Nanos,
}

impl Looks {
    pub(crate) fn every(interval: Nanos) -> Looks {
        Looks { interval, next: interval }
    }

    /// Whether to look at `elapsed` from the start of a run of `duration`, if that is known.
    pub(crate) fn due(&mut self, elapsed: Nanos, duration: Option<Nanos>) -> bool {
        /// As long as a look takes, and less than the time that a run may take longer than it should.
        const END: u64 = 20_000_000;
        let interval = self.interval.get().max(1);
        let end = duration.map_or(u64::MAX, Nanos::get);
        let near = END.min(interval / 2);
        let ends =
            elapsed.get() >= end.saturating_sub(near) && elapsed.get() <= end.saturating_add(near);
        if elapsed < self.next || ends {
            return false;
        }
        self.next =
            Nanos::new((elapsed.get() / interval).saturating_add(1).saturating_mul(interval));
        true
    }
}

/// Looks at a run. Called some times a second from one thread, never from a hot path.
pub trait Observer {
    /// A look.
    fn progress(&mut self, progress: &Progress);

    /// Whether it wants progress: a look takes some time of the thread that watches.
    fn watches(&self) -> bool {
        true
    }

    /// Whether intervals have the histograms of delays; they take memory.
    fn wants_histograms(&self) -> bool {
        false
    }

    /// What happened in an interval of the run, soon after its end. Intervals come in the order of time.
    fn interval(&mut self, interval: &Interval) {
        let _ = interval;
    }

    /// A line for the person who waits: what the run is about to do, or that it waits for a peer.
    fn notice(&mut self, message: &str) {
        let _ = message;
    }

    /// The run begins at this time of the monotonic clock: it is prepared, and what could fail before has succeeded.
    fn begins(&mut self, start: Nanos) {
        let _ = start;
    }

    /// The receiver listens at this address from now on: all that could fail before has succeeded.
    fn listening(&mut self, address: SocketAddr) {
        let _ = address;
    }
}

/// The lines that a person has heard.
#[derive(Clone, Debug, Default)]
pub struct Heard(BTreeSet<String>);

/// An observer of one of many runs: a line that was told in an earlier one is not told again.
pub struct Once<'a> {
    /// Who is told.
    pub observer: &'a mut dyn Observer,
    /// What was told before.
    pub heard: &'a mut Heard,
}

impl std::fmt::Debug for Once<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Once").field("heard", &self.heard).finish_non_exhaustive()
    }
}

impl Observer for Once<'_> {
    fn progress(&mut self, progress: &Progress) {
        self.observer.progress(progress);
    }
    fn watches(&self) -> bool {
        self.observer.watches()
    }
    fn wants_histograms(&self) -> bool {
        self.observer.wants_histograms()
    }
    fn interval(&mut self, interval: &Interval) {
        self.observer.interval(interval);
    }
    fn notice(&mut self, message: &str) {
        if self.heard.0.insert(message.to_owned()) {
            self.observer.notice(message);
        }
    }
    fn begins(&mut self, start: Nanos) {
        self.observer.begins(start);
    }
    fn listening(&mut self, address: SocketAddr) {
        self.observer.listening(address);
    }
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _progress: &Progress) {}

    fn watches(&self) -> bool {
        false
    }
}

/// Asks a run to stop. Clones share one state; setting it from a signal handler is safe.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicU8>,
    /// When it was asked first, on the monotonic clock; 0 before.
    at: Arc<AtomicU64>,
}

impl Stop {
    /// Not asked yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// What [`Stop::ask`] is told where a run ends because it broke what was expected of it; no signal has this number.
    pub const BROKEN: u8 = u8::MAX;

    /// Asks, because of signal number `signal` (0: for another reason).
    pub fn ask(&self, signal: u8) {
        self.signal.store(signal, Ordering::Relaxed);
        let now = MonotonicClock.now().get().max(1);
        let _ = self.at.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        self.asked.store(true, Ordering::Release);
    }

    /// Whether it was asked.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// How long ago it was asked first, if it was.
    pub fn since(&self) -> Option<Duration> {
        let at = match self.at.load(Ordering::Acquire) {
            0 => return None,
            at => at,
        };
        Some(Duration::from_nanos(MonotonicClock.now().get().saturating_sub(at)))
    }

    /// The signal's number; 0 for another reason.
    pub fn signal(&self) -> u8 {
        self.signal.load(Ordering::Relaxed)
    }

    /// Why whatever was asked to stop ends; `None` where it was not asked.
    pub fn end(&self) -> Option<End> {
        let signal = match self.signal() {
            1 => "SIGHUP".to_owned(),
            2 => "SIGINT".to_owned(),
            15 => "SIGTERM".to_owned(),
            0 => "request".to_owned(),
            Stop::BROKEN => ABORT_ON_FAIL.to_owned(),
            other => format!("signal {other}"),
        };
        self.asked().then_some(End::Stopped { signal })
    }

    /// The flag itself, for loops and for signal handlers.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_keep_to_the_interval_and_leave_the_end_to_the_last_one() {
        let millis = Nanos::from_millis;
        let looks = |duration: Option<Nanos>, times: &[u64]| -> Vec<u64> {
            let mut looks = Looks::every(millis(1000));
            times.iter().copied().filter(|time| looks.due(millis(*time), duration)).collect()
        };
        let times = [0, 10, 990, 1007, 1017, 1995, 2005, 2015];
        assert_eq!(looks(None, &times), [1007, 2005]);
        assert_eq!(looks(Some(millis(2000)), &times), [1007]);
        // one that goes on for longer than it should is looked at
        assert_eq!(looks(Some(millis(2000)), &[0, 1000, 2000, 2040, 3000]), [1000, 2040, 3000]);
        // a first look that came late was a line for 0.1 s
        assert_eq!(looks(None, &[130, 1000]), [1000]);
    }
}
