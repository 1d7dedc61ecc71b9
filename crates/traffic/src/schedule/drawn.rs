//! Times between departures are drawn, each by itself: a renewal process.

use super::walk::Time;
use crate::program::pace::Gaps;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct DrawnWalk {
    time: Time,
    /// Which gap is next.
    n: u64,
    gaps: Gaps,
    /// Frames of a burst: the pause after it is as long as that many gaps would be on average.
    burst: f64,
}

impl DrawnWalk {
    pub(super) fn new(gaps: &Gaps, at: u64, burst: u64) -> DrawnWalk {
        DrawnWalk { time: Time::new(at), n: 0, gaps: gaps.clone(), burst: burst as f64 }
    }

    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.time.ns
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        self.time.add(self.gaps.gap(self.n) * self.burst);
        self.n += 1;
    }

    pub(super) fn restart(&mut self, at: u64) {
        self.time = Time::new(at);
    }
}
