//! What the machine alone would cost a sender that has to be in time: the gaps of a busy loop on the sender's CPU, right
//! before and right after a measurement, or those that a sender heard itself while it waited.
//!
//! A record is late by what is left of the gap in which it falls due. So of records that come evenly, those are dropped
//! that are due in a gap earlier than the tolerance before its end, however good the sender is. It is an estimate: the
//! gaps during the measurement itself are others.

use std::thread;
use std::time::Duration;

use wirebeat_engine_linux::affinity;
use wirebeat_host::gaps;
use wirebeat_report::model::{Bucket, Report};

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

    /// These, heard in so long.
    pub fn of(elapsed_ns: u64, lengths: impl Iterator<Item = u64>) -> Gaps {
        Gaps { elapsed_ns, lengths: lengths.collect() }
    }

    /// Those that the senders of a run heard while they waited.
    pub fn heard_in(report: &Report) -> Gaps {
        let all = report.senders.iter().filter_map(|station| station.interruptions.as_ref());
        all.map(|of| {
            let lengths = of.lengths_ns.histogram.iter().flat_map(|&Bucket(low, high, count)| {
                std::iter::repeat_n((low + high).unsigned_abs() / 2, count as usize)
            });
            Gaps::of(of.listened_ns, lengths)
        })
        .fold(Gaps::default(), Gaps::and)
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

    /// Of frames that come every `every_ns`, from a sender that is exact but for these gaps: the error in ns that all
    /// but this share of the times between two frames stay within.
    ///
    /// The first frame that is due in a gap leaves at its end, too far from the one before it by what was left of the
    /// gap. The next comes too near by as much, or by one spacing where more were due meanwhile. These others are not
    /// counted: how a sender makes up for them is its own affair.
    pub fn error(&self, every_ns: u64, beyond: f64) -> f64 {
        let frames = self.elapsed_ns as f64 / every_ns as f64;
        let disturbed = |error: u64| {
            let of_each = if error < every_ns { 2.0 } else { 1.0 };
            let hit = |rest: u64| (rest as f64 / every_ns as f64).min(1.0);
            of_each * self.beyond(error).map(hit).sum::<f64>()
        };
        let (mut least, mut most) = (0, self.longest());
        while least < most {
            let middle = least + (most - least) / 2;
            if disturbed(middle) <= beyond * frames {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        least as f64
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
    fn a_gap_disturbs_two_times_between_frames() {
        // a hundred frames; each gap takes two of them, and the first is late by 500 to 600 us
        let lengths = vec![600_000; 5];
        let gaps = Gaps { elapsed_ns: 10_000_000, lengths };
        assert_eq!(gaps.error(100_000, 0.025), 550_000.0);
        assert_eq!(gaps.error(100_000, 0.04), 520_000.0);
        assert_eq!(gaps.error(100_000, 0.06), 100_000.0, "the second is one spacing too near");
        assert_eq!(gaps.error(100_000, 0.1), 0.0, "all others are in time");
        assert_eq!(gaps.error(100_000, 0.0), 600_000.0);
        assert_eq!(Gaps::default().error(100_000, 0.001), 0.0);
    }

    #[test]
    fn frames_that_are_far_apart_are_rarely_met() {
        // ten frames, each of which meets one of these in ten
        let gaps = Gaps { elapsed_ns: 10_000_000, lengths: vec![10_000; 10] };
        assert_eq!(gaps.error(1_000_000, 0.02), 0.0);
        assert_eq!(gaps.error(1_000_000, 0.01), 5_000.0);
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
