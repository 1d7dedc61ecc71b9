//! What all flows of a meter may take together, and where the values go that no flow has a histogram for.
//!
//! What is exact is there for every flow that the meter takes: counters, moments, a first window and a first list of gaps.
//! `Memory::new` sets all of that aside. What grows with what arrives (histograms, linear bins, windows, lists of gaps) asks
//! here before it grows, and never for a frame that needs no more than is there. When nothing is left, histograms share
//! (`recorder.rs`), windows and lists stay as they are. It knows nothing of frames.

use crate::histogram::{Histogram, OCTAVE_MEMORY, OCTAVES};
use crate::summary::SharedHistograms;

/// Memory that the flows of a receiver take at most, whatever a peer sends.
pub const MEMORY: usize = 1 << 30;
/// What the allocator keeps beside each piece of memory, and rounds it up by (glibc: 16 bytes at the most for these sizes).
pub(crate) const PIECE: usize = 16;
/// Of all memory, what only windows may take …
const FOR_WINDOWS: usize = 4;
/// … and what only histograms may take that have begun: a flow that has one rarely has to give it up for another octave.
const FOR_GROWTH: usize = 8;

/// What is measured of a flow as a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Extent,
    Delay,
    DelayVariation,
    InterArrival,
    GapError,
    GapEarly,
}

/// How many [`Measure`] has.
const MEASURES: usize = 6;

/// The memory of one meter.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Bytes that nobody has.
    left: usize,
    /// Those of them that are kept for windows.
    for_windows: usize,
    /// Those that are kept for histograms that have begun.
    for_growth: usize,
    shared: [Histogram; MEASURES],
}

impl Default for Memory {
    /// [`MEMORY`] for a single flow.
    fn default() -> Self {
        Memory::new(MEMORY, 0, 0)
    }
}

impl Memory {
    /// Of `total` bytes, `fixed` are taken already; windows of all flows together never want more than `windows`.
    pub(crate) fn new(total: usize, fixed: usize, windows: usize) -> Self {
        let shared = MEASURES * OCTAVES * OCTAVE_MEMORY;
        Memory {
            left: total.saturating_sub(fixed).saturating_sub(shared),
            for_windows: windows.min(total / FOR_WINDOWS),
            for_growth: total / FOR_GROWTH,
            shared: Default::default(),
        }
    }

    /// Takes `bytes` for a longer window; says whether they are there.
    #[must_use]
    pub(crate) fn take_for_window(&mut self, bytes: usize) -> bool {
        let taken = self.take(bytes, 0);
        if taken {
            self.for_windows = self.for_windows.saturating_sub(bytes);
        }
        taken
    }

    /// Takes `bytes` for a histogram or bins that begin.
    #[must_use]
    pub(crate) fn take_to_begin(&mut self, bytes: usize) -> bool {
        self.take(bytes, self.for_windows.saturating_add(self.for_growth))
    }

    /// Takes `bytes` for more of what has begun.
    #[must_use]
    pub(crate) fn take_to_grow(&mut self, bytes: usize) -> bool {
        self.take(bytes, self.for_windows)
    }

    fn take(&mut self, bytes: usize, kept: usize) -> bool {
        let taken = bytes <= self.left.saturating_sub(kept);
        if taken {
            self.left -= bytes;
        }
        taken
    }

    /// Gives `bytes` back.
    pub(crate) fn give(&mut self, bytes: usize) {
        self.left += bytes;
    }

    /// The histogram of the values that no flow has a place for. Its memory is set aside.
    #[inline]
    pub(crate) fn shared(&mut self, measure: Measure) -> &mut Histogram {
        &mut self.shared[measure as usize]
    }

    /// What `flows` flows share.
    pub(crate) fn shared_by(&self, flows: u32) -> SharedHistograms {
        let buckets = |measure: Measure| self.shared[measure as usize].non_empty().collect();
        SharedHistograms {
            flows,
            extent: buckets(Measure::Extent),
            delay: buckets(Measure::Delay),
            delay_variation: buckets(Measure::DelayVariation),
            inter_arrival: buckets(Measure::InterArrival),
            gap_error: buckets(Measure::GapError),
            gap_early: buckets(Measure::GapEarly),
        }
    }

    /// Bytes of the shared histograms.
    #[cfg(test)]
    pub(crate) fn shared_bytes(&self) -> usize {
        self.shared.iter().map(Histogram::memory).sum()
    }

    /// Bytes that nobody has.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.left
    }
}

#[cfg(test)]
mod tests;
