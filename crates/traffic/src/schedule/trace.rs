//! Times between departures from a list, again and again.

use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    at: u64,
    gaps: Arc<[u64]>,
    /// All of them together, saturating.
    sum: u64,
    /// Which gap is next.
    n: usize,
    burst: u64,
}

impl Trace {
    pub(super) fn new(gaps: &Arc<[u64]>, at: u64, burst: u64) -> Trace {
        let sum = gaps.iter().fold(0, |sum: u64, gap| sum.saturating_add(*gap));
        Trace { at, gaps: Arc::clone(gaps), sum, n: 0, burst }
    }

    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        // A burst may be longer than the list by far.
        let rounds = self.burst / (self.gaps.len() as u64).max(1);
        self.at = self.at.saturating_add(self.sum.saturating_mul(rounds));
        for _ in 0..self.burst % (self.gaps.len() as u64).max(1) {
            self.at = self.at.saturating_add(self.gaps.get(self.n).copied().unwrap_or(0));
            self.n = if self.n + 1 < self.gaps.len() { self.n + 1 } else { 0 };
        }
    }

    pub(super) fn restart(&mut self, at: u64) {
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_many_rounds_is_not_walked() {
        let gaps: Arc<[u64]> = [1, 2, 3].into();
        let mut trace = Trace::new(&gaps, 5, 4_000_000_001);
        for burst in 1..1000 {
            trace.advance();
            // Two more than a multiple of three.
            let frames = burst * 4_000_000_001;
            assert_eq!(trace.at(), 5 + frames / 3 * 6 + [0, 1, 3][(frames % 3) as usize]);
        }
    }
}
