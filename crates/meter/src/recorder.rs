//! The distribution of one flow: exact moments beside a histogram of its own, as far as memory goes.
//!
//! A histogram takes memory by the octave. Where there is none for the first octave, or for one more, all values of
//! the flow go to the histogram that it shares with others, those that it has counted too: half a histogram has no
//! percentiles, and its memory serves another flow. That happens once to each, so that no values make memory go to and fro.

use crate::histogram::{Histogram, OCTAVE_MEMORY};
use crate::memory::{Measure, Memory, PIECE};
use crate::summary::{Distribution, Moments};

/// A distribution that is being recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowRecorder {
    moments: Moments,
    negative: u64,
    histogram: HistogramPlace,
}

/// Where its histogram is.
#[derive(Clone, Debug, Default)]
enum HistogramPlace {
    /// There was no value.
    #[default]
    Nowhere,
    Own(Box<Histogram>),
    Shared,
}

impl FlowRecorder {
    /// Counts `value`.
    #[inline]
    pub(crate) fn record(&mut self, value: i64, measure: Measure, memory: &mut Memory) {
        self.moments.record(value);
        let Ok(value) = u64::try_from(value) else {
            self.negative += 1;
            return;
        };
        let counted = match &mut self.histogram {
            HistogramPlace::Own(own) => own.count_in_place(value),
            HistogramPlace::Nowhere | HistogramPlace::Shared => false,
        };
        if !counted {
            self.record_elsewhere(value, measure, memory);
        }
    }

    /// Counts a value that has no place in a histogram of its own.
    #[inline(never)]
    fn record_elsewhere(&mut self, value: u64, measure: Measure, memory: &mut Memory) {
        match &mut self.histogram {
            HistogramPlace::Nowhere if memory.take_to_begin(OCTAVE_MEMORY + DIRECTORY) => {
                let mut own = Box::<Histogram>::default();
                own.record(value);
                self.histogram = HistogramPlace::Own(own);
                return;
            }
            HistogramPlace::Own(own) if memory.take_to_grow(OCTAVE_MEMORY) => {
                return own.record(value);
            }
            HistogramPlace::Own(own) => {
                memory.shared(measure).merge(own);
                memory.give(own.memory() + DIRECTORY);
                self.histogram = HistogramPlace::Shared;
            }
            HistogramPlace::Nowhere => self.histogram = HistogramPlace::Shared,
            HistogramPlace::Shared => {}
        }
        memory.shared(measure).record(value);
    }

    /// What was recorded so far, without the values that are shared.
    pub(crate) fn distribution(&self) -> Distribution {
        let buckets = match &self.histogram {
            HistogramPlace::Own(own) => own.non_empty().collect(),
            HistogramPlace::Nowhere | HistogramPlace::Shared => Vec::new(),
        };
        Distribution { moments: self.moments, negative: self.negative, buckets }
    }

    /// Without the histogram, which it may share.
    pub(crate) fn without_histogram(&self) -> Distribution {
        Distribution { moments: self.moments, negative: self.negative, buckets: Vec::new() }
    }

    /// Whether its values are with those of others.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.histogram, HistogramPlace::Shared)
    }

    /// Bytes that it has beside itself.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        match &self.histogram {
            HistogramPlace::Own(own) => own.memory() + DIRECTORY,
            HistogramPlace::Nowhere | HistogramPlace::Shared => 0,
        }
    }
}

/// What a histogram takes before its first octave.
const DIRECTORY: usize = size_of::<Histogram>() + PIECE;
