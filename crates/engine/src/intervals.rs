//! What a loop and those who look at it share of the intervals of a run.
//!
//! The loop asks once for each batch whether an interval has ended ([`LiveIntervals::due`]: one read of memory), and notes
//! what it has counted when one has. Others begin the intervals and take what was noted. Knows nothing of what is counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wirebeat_units::Nanos;

/// The series of a loop, once it has begun. Several loops may have one together.
#[derive(Debug)]
pub struct LiveIntervals<S> {
    /// When this loop has something to do, on its clock; `u64::MAX`: never.
    next: AtomicU64,
    series: Arc<Mutex<Option<S>>>,
}

impl<S> Default for LiveIntervals<S> {
    fn default() -> Self {
        LiveIntervals { next: AtomicU64::new(u64::MAX), series: Arc::default() }
    }
}

impl<S> LiveIntervals<S> {
    /// From now on `series` is kept, which has something to do at `next`.
    pub fn begin(&self, series: S, next: Nanos) {
        let mut mine = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        *mine = Some(series);
        self.next.store(next.get(), Ordering::Release);
    }

    /// Those of another loop with the same series.
    pub fn beside(&self) -> LiveIntervals<S> {
        LiveIntervals { next: AtomicU64::new(u64::MAX), series: Arc::clone(&self.series) }
    }

    /// The series that another loop has begun goes on here at `next`.
    pub fn join(&self, next: Nanos) {
        self.next.store(next.get(), Ordering::Release);
    }

    /// When something is to be done.
    #[inline]
    pub fn next(&self) -> Nanos {
        Nanos::new(self.next.load(Ordering::Relaxed))
    }

    /// Whether something is to be done at `now`.
    #[inline]
    pub fn due(&self, now: Nanos) -> bool {
        now >= self.next()
    }

    /// Does it; `work` says when there is something to do again.
    #[cold]
    pub fn pass(&self, work: impl FnOnce(&mut S) -> Nanos) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let next = series.as_mut().map_or(Nanos::MAX, work);
        self.next.store(next.get(), Ordering::Release);
    }

    /// Looks at the series, if it has begun.
    pub fn look<R>(&self, look: impl FnOnce(&mut S) -> R) -> Option<R> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(look)
    }
}
