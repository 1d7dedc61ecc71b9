//! The machine's own noise: how often, and for how long, it stops a program that only reads the clock.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::accounting::nanoseconds;

/// Gaps between two readings of the clock in a busy loop: interrupts, other programs, the hypervisor.
/// No sender on this machine can be more exact than these allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Noise {
    /// How long was looked, in nanoseconds.
    pub elapsed_ns: u64,
    /// How often the clock was read.
    pub reads: u64,
    /// The longest gap, in nanoseconds.
    pub longest_gap_ns: u64,
    /// Gaps longer than 1 µs; the next two are among them.
    pub above_1_us: u64,
    /// Gaps longer than 20 µs.
    pub above_20_us: u64,
    /// Gaps longer than 100 µs.
    pub above_100_us: u64,
    /// Time in gaps longer than 1 µs, in nanoseconds.
    pub lost_ns: u64,
}

impl Noise {
    fn note(&mut self, gap_ns: u64) {
        self.reads += 1;
        self.longest_gap_ns = self.longest_gap_ns.max(gap_ns);
        self.above_1_us += u64::from(gap_ns > 1_000);
        self.above_20_us += u64::from(gap_ns > 20_000);
        self.above_100_us += u64::from(gap_ns > 100_000);
        if gap_ns > 1_000 {
            self.lost_ns += gap_ns;
        }
    }
}

/// Keeps the calling thread's CPU busy for `duration` and reports the gaps. Pin the thread first to
/// learn about one CPU.
pub fn noise(duration: Duration) -> Noise {
    let mut noise = Noise::default();
    noise.elapsed_ns = gaps(duration, |gap_ns| noise.note(gap_ns));
    noise
}

/// The same for who looks at the gaps in another way: each is told, in nanoseconds. Says how long it looked.
pub fn gaps(duration: Duration, mut each: impl FnMut(u64)) -> u64 {
    let begun = Instant::now();
    let mut last = begun;
    loop {
        let now = Instant::now();
        each(nanoseconds(now.duration_since(last)));
        last = now;
        if now.duration_since(begun) >= duration {
            return nanoseconds(now.duration_since(begun));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_by_length() {
        let mut noise = Noise::default();
        for gap in [50, 1_000, 1_001, 20_001, 100_000, 300_000] {
            noise.note(gap);
        }
        assert_eq!((noise.above_1_us, noise.above_20_us, noise.above_100_us), (4, 3, 1));
        assert_eq!((noise.reads, noise.longest_gap_ns), (6, 300_000));
        assert_eq!(noise.lost_ns, 1_001 + 20_001 + 100_000 + 300_000);
    }

    #[test]
    fn it_looks_as_long_as_it_was_told() {
        let noise = noise(Duration::from_millis(5));
        assert!(noise.elapsed_ns >= 5_000_000);
        assert!(noise.reads > 0 && noise.longest_gap_ns > 0 && noise.lost_ns <= noise.elapsed_ns);
    }
}
