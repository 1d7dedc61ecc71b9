//! Times between departures from a list, again and again.

use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    at: u64,
    gaps: Arc<[u64]>,
    /// Which gap is next.
    n: usize,
    burst: u64,
}

impl Trace {
    pub(super) fn new(gaps: &Arc<[u64]>, at: u64, burst: u64) -> Trace {
        Trace { at, gaps: Arc::clone(gaps), n: 0, burst }
    }

    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        for _ in 0..self.burst {
            self.at = self.at.saturating_add(self.gaps.get(self.n).copied().unwrap_or(0));
            self.n = if self.n + 1 < self.gaps.len() { self.n + 1 } else { 0 };
        }
    }

    pub(super) fn restart(&mut self, at: u64) {
        self.at = at;
    }
}
