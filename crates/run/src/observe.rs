//! What can be seen of a run while it lasts, and how it is asked to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
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
    /// Frames dropped so far because they were later than their drift.
    pub expired: u64,
    /// How long nothing is due, where the senders wait for the next frame.
    pub next_in: Option<Nanos>,
}

/// Looks at a run. Called some times a second from one thread, never from a hot path.
pub trait Observer {
    /// A look.
    fn progress(&mut self, progress: &Progress);

    /// A line for the person who waits: what the run is about to do, or that it waits for a peer.
    fn notice(&mut self, message: &str) {
        let _ = message;
    }

    /// The receiver listens at this address from now on: all that could fail before has succeeded.
    fn listening(&mut self, address: SocketAddr) {
        let _ = address;
    }
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _progress: &Progress) {}
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

    /// The flag itself, for loops and for signal handlers.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}
