//! Histograms with bins of one width, for those who ask for them.

use wirebeat_units::{Fault, Nanos, fault, into_fault};

use crate::summary::LinearBins;

/// The most bins that can be asked for: 512 KiB of counters for each flow.
pub const MAX_BINS: usize = 65_536;

/// Which bins are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    width: u64,
    count: usize,
}

/// Why bins cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum BinsError {
    /// The width is zero.
    Width,
    /// There are none, or too many.
    Count(usize),
}

impl BinsError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            BinsError::Width => {
                fault!("a histogram needs bins that are wider than nothing"; "give a width of 1ns or more")
            }
            BinsError::Count(it) => {
                fault!("a histogram of {it} bins cannot be made"; "ask for 1 to {MAX_BINS}")
            }
        }
    }
}

into_fault!(BinsError);

impl Bins {
    /// `count` bins of `width` each, from 0 on.
    pub fn new(width: Nanos, count: usize) -> Result<Self, BinsError> {
        if width == Nanos::ZERO {
            return Err(BinsError::Width);
        }
        if !(1..=MAX_BINS).contains(&count) {
            return Err(BinsError::Count(count));
        }
        Ok(Bins { width: width.get(), count })
    }

    /// The width of each.
    pub fn width(&self) -> Nanos {
        Nanos::new(self.width)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the counters.
    pub(crate) fn memory(&self) -> usize {
        self.count * size_of::<u64>()
    }

    /// Empty bins.
    pub fn empty(&self) -> LinearBins {
        LinearBins { width: self.width, counts: vec![0; self.count], overflow: 0 }
    }
}

impl LinearBins {
    /// Counts `value`; negative ones are left out.
    #[inline]
    pub fn record(&mut self, value: i64) {
        let Ok(value) = u64::try_from(value) else { return };
        let bin = usize::try_from(value / self.width.max(1)).unwrap_or(usize::MAX);
        match self.counts.get_mut(bin) {
            Some(count) => *count += 1,
            None => self.overflow += 1,
        }
    }

    /// Adds the counts of `other`; says whether that is possible, which it is for bins of one width.
    /// Of two lengths the shorter remains, and what lies beyond it goes to the overflow.
    #[must_use]
    pub fn merge(&mut self, other: &LinearBins) -> bool {
        if self.width != other.width {
            return false;
        }
        let common = self.counts.len().min(other.counts.len());
        self.overflow = self.overflow.saturating_add(other.overflow);
        for &beyond in self.counts[common..].iter().chain(&other.counts[common..]) {
            self.overflow = self.overflow.saturating_add(beyond);
        }
        self.counts.truncate(common);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(width: u64, count: usize, values: &[i64]) -> LinearBins {
        let mut bins = Bins::new(Nanos::new(width), count).unwrap().empty();
        values.iter().for_each(|&value| bins.record(value));
        bins
    }

    #[test]
    fn a_bin_holds_values_from_its_edge_up_to_the_next() {
        let bins = bins(10, 3, &[0, 9, 10, 29, 30, i64::MAX, -1]);
        assert_eq!((bins.counts, bins.overflow), (vec![2, 1, 1], 2));
    }

    #[test]
    fn bins_that_cannot_be_are_refused() {
        assert_eq!(Bins::new(Nanos::ZERO, 1), Err(BinsError::Width));
        assert_eq!(Bins::new(Nanos::new(1), 0), Err(BinsError::Count(0)));
        assert_eq!(Bins::new(Nanos::new(1), MAX_BINS + 1), Err(BinsError::Count(MAX_BINS + 1)));
    }

    #[test]
    fn merging_keeps_the_shorter_and_every_value() {
        let mut merged = bins(10, 4, &[5, 35]);
        assert!(merged.merge(&bins(10, 2, &[5, 15, 25])));
        assert_eq!((merged.counts, merged.overflow), (vec![2, 1], 2));
    }

    #[test]
    fn bins_of_two_widths_cannot_be_merged() {
        let mut merged = bins(10, 4, &[5]);
        assert!(!merged.merge(&bins(20, 4, &[5])));
        assert_eq!(merged, bins(10, 4, &[5]));
    }
}
