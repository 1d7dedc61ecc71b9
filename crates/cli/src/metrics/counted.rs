//! What a run has counted, between the thread that watches it and those that tell it to others.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use wirebeat_report::metrics::RunMetrics;
use wirebeat_run::Interval;

/// The same for several threads. Nobody holds it longer than a copy takes.
#[derive(Debug)]
pub struct SharedMetrics(Mutex<Counted>);

/// What was counted, how often that changed, and when it last did.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The sums.
    pub metrics: RunMetrics,
    /// How many intervals were added.
    pub changes: u64,
    /// When the last of them was, or the beginning.
    pub at: Instant,
}

impl SharedMetrics {
    /// Nothing has been counted.
    pub fn new(metrics: RunMetrics) -> SharedMetrics {
        SharedMetrics(Mutex::new(Counted { metrics, changes: 0, at: Instant::now() }))
    }

    /// Adds what happened in an interval.
    pub fn add(&self, interval: &Interval) {
        let mut counted = self.locked();
        counted.metrics.add(interval);
        counted.changes = counted.changes.wrapping_add(1);
        counted.at = Instant::now();
    }

    /// What was counted by now.
    pub fn locked(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
