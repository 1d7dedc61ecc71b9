//! Interarrival jitter (RFC 3550 §6.4.1): the running estimate that RTP, iperf 2 and voice tools report.
//!
//! For two consecutive arrivals, D is the difference of their transit times; each D moves the estimate J by a
//! sixteenth of what it is away: J += (|D| - J) / 16. The arithmetic is that of RFC 3550 A.8, in integers, so that
//! the kernel's meter (bpf/receive.bpf.c) does the same with shifts. It knows nothing of flows; which arrivals
//! count is for the caller to say.

use serde::{Deserialize, Serialize};

/// The largest difference that moves the estimate, in ns (9 years): sixteen times it fits 63 bits.
const LARGEST_NS: u64 = 1 << 58;

/// The running estimate of one stream of arrivals. Estimates of several streams cannot be added: each depends on
/// which arrival came after which. A sum of them says how many there are, and has no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterarrivalJitter {
    /// Streams of arrivals (receive queues) with an estimate; 0 before the second arrival of the first.
    pub streams: u32,
    /// Sixteen times the estimate, in ns; 0 unless there is one stream.
    pub sixteenths_ns: u64,
}

impl InterarrivalJitter {
    /// Takes the absolute difference of the transit times of two consecutive arrivals, in ns.
    #[inline]
    pub fn record(&mut self, difference_ns: u64) {
        // RFC 3550 A.8
        let decay = (self.sixteenths_ns + 8) >> 4;
        self.sixteenths_ns = self.sixteenths_ns + difference_ns.min(LARGEST_NS) - decay;
        self.streams = 1;
    }

    /// The estimate in ns. `None`: fewer than two arrivals, or several streams.
    pub fn estimate_ns(&self) -> Option<f64> {
        (self.streams == 1).then(|| self.sixteenths_ns as f64 / 16.0)
    }

    /// Puts the estimate of another stream beside it.
    pub fn merge(&mut self, other: &InterarrivalJitter) {
        let sixteenths_ns =
            if other.streams == 0 { self.sixteenths_ns } else { other.sixteenths_ns };
        let streams = self.streams.saturating_add(other.streams);
        *self = InterarrivalJitter {
            streams,
            sixteenths_ns: if streams == 1 { sixteenths_ns } else { 0 },
        };
    }

    /// Whether arithmetic can have come to it.
    pub(crate) fn is_possible(&self) -> bool {
        self.streams == 1 && self.sixteenths_ns <= 16 * LARGEST_NS || self.sixteenths_ns == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(differences_ns: &[u64]) -> InterarrivalJitter {
        let mut jitter = InterarrivalJitter::default();
        differences_ns.iter().for_each(|ns| jitter.record(*ns));
        jitter
    }

    #[test]
    fn each_difference_moves_it_by_a_sixteenth() {
        assert_eq!(after(&[]).estimate_ns(), None);
        assert_eq!(after(&[0]).estimate_ns(), Some(0.0));
        assert_eq!(after(&[1600]).estimate_ns(), Some(100.0));
        // 100 + (1700 - 100) / 16
        assert_eq!(after(&[1600, 1700]).estimate_ns(), Some(200.0));
        let long = after(&vec![50_000; 1000]).estimate_ns().unwrap();
        assert!((long - 50_000.0).abs() < 1.0, "{long}");
    }

    #[test]
    fn it_is_the_recursion_of_the_standard_to_a_sixteenth_of_a_nanosecond_a_step() {
        let differences: Vec<u64> = (0..10_000u64).map(|n| n * n * 7919 % 3_000_000).collect();
        let exact = differences.iter().fold(0.0, |j: f64, d| j + (*d as f64 - j) / 16.0);
        let found = after(&differences).estimate_ns().unwrap();
        assert!((found - exact).abs() < 1.0, "{found} {exact}");
    }

    #[test]
    fn several_streams_have_no_estimate_together() {
        let (a, b) = (after(&[1600]), after(&[3200]));
        let mut one = a;
        one.merge(&InterarrivalJitter::default());
        assert_eq!(one, a);
        let mut other = InterarrivalJitter::default();
        other.merge(&b);
        assert_eq!(other, b);
        one.merge(&b);
        one.merge(&a);
        assert_eq!((one.streams, one.estimate_ns()), (3, None));
        assert!(one.is_possible());
    }

    #[test]
    fn differences_of_any_size_do_not_overflow() {
        let most = after(&[u64::MAX; 5000]);
        assert!(most.is_possible(), "{most:?}");
        assert!(after(&[u64::MAX, 0, 0, 1]).is_possible());
    }
}
