//! What the machine alone would cost a sender that has to be in time: the gaps of a busy loop on the sender's CPU, right
//! before and right after a measurement.
//!
//! A record is late by what is left of the gap in which it falls due. So of records that come evenly, those are dropped
//! that are due in a gap earlier than the tolerance before its end, however good the sender is. It is an estimate: the
//! gaps during the measurement itself are others.

use std::thread;
use std::time::Duration;

use wirebeat_engine_linux::affinity;
use wirebeat_host::gaps;

use crate::lab::Failure;

/// Shorter gaps than this are the loop's own, in nanoseconds.
const SHORTEST: u64 = 1_000;

/// Gaps of a busy loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    elapsed_ns: u64,
    /// Those longer than [`SHORTEST`].
    lengths: Vec<u64>,
}

impl Gaps {
    /// Listens to a CPU.
    pub fn on(cpu: usize, time: Duration) -> Result<Gaps, Failure> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                affinity::pin(cpu)?;
                let mut heard = Gaps::default();
                let note = |gap| heard.note(gap);
                heard.elapsed_ns = gaps(time, note);
                Ok::<_, Failure>(heard)
            });
            thread.join().map_err(|_| "the listener panicked")?
        })
    }

    /// Those of a loop of somebody else, who listened for so long.
    pub fn of(elapsed_ns: u64, lengths: impl Iterator<Item = u64>) -> Gaps {
        Gaps { elapsed_ns, lengths: lengths.collect() }
    }

    fn note(&mut self, gap_ns: u64) {
        if gap_ns > SHORTEST {
            self.lengths.push(gap_ns);
        }
    }

    /// These and others.
    pub fn and(mut self, others: Gaps) -> Gaps {
        self.elapsed_ns += others.elapsed_ns;
        self.lengths.extend(others.lengths);
        self
    }

    /// The longest, in nanoseconds.
    pub fn longest(&self) -> u64 {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    fn beyond(&self, tolerance_ns: u64) -> impl Iterator<Item = u64> {
        self.lengths.iter().filter_map(move |gap| gap.checked_sub(tolerance_ns)).filter(|&g| g > 0)
    }

    /// How many are longer than this.
    pub fn count(&self, tolerance_ns: u64) -> usize {
        self.beyond(tolerance_ns).count()
    }

    /// The share of time at which something that is due is late by more than this.
    pub fn share(&self, tolerance_ns: u64) -> f64 {
        self.beyond(tolerance_ns).sum::<u64>() as f64 / self.elapsed_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_in_a_gap_is_late_by_what_is_left_of_it() {
        let mut gaps = Gaps { elapsed_ns: 1_000_000, lengths: Vec::new() };
        for gap in [60, 1_000, 4_000, 25_000, 105_000] {
            gaps.note(gap);
        }
        assert_eq!(gaps.lengths, [4_000, 25_000, 105_000]);
        assert_eq!((gaps.count(0), gaps.count(5_000), gaps.count(25_000)), (3, 2, 1));
        assert_eq!(gaps.share(5_000), 0.12);
        assert_eq!(gaps.share(1_000_000), 0.0);
        assert_eq!(gaps.longest(), 105_000);
    }

    #[test]
    fn what_was_heard_before_and_after_is_one() {
        let one = |gap| Gaps { elapsed_ns: 1_000_000, lengths: vec![gap] };
        let both = one(10_000).and(one(20_000));
        assert_eq!((both.elapsed_ns, both.count(0)), (2_000_000, 2));
        assert_eq!(both.share(0), 0.015);
        assert_eq!(Gaps::default().share(0), 0.0);
    }
}
