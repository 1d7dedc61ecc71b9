//! A test in which nothing moves.

use wirebeat_units::{BitRate, Nanos};

use crate::TestSpec;
use crate::socket::now;

/// Finds a test in which nothing moves.
#[derive(Debug)]
pub(crate) struct Idle {
    pub limit: Nanos,
    moved: [u64; 2],
    since: Nanos,
}

impl Idle {
    pub fn new(limit: Nanos, spec: &TestSpec, block: usize) -> Idle {
        // at a low rate a block is rare: three of them
        let block_ns =
            |rate: BitRate| (block as u64).saturating_mul(24_000_000_000) / rate.0.max(1);
        let slow = spec.rate.map_or(Nanos::ZERO, |rate| Nanos::new(block_ns(rate)));
        Idle { limit: limit.max(slow), moved: [0; 2], since: now() }
    }

    pub fn is_over(&mut self, moved: [u64; 2], time: Nanos) -> bool {
        if moved != self.moved {
            self.moved = moved;
            self.since = time;
        }
        time.saturating_sub(self.since) >= self.limit
    }
}
