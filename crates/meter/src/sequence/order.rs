//! What came before what on one receive queue, and how far out of order an arrival is.
//!
//! Knows nothing of windows, and judges nothing: numbers come here when they are believed. An arrival in
//! doubt is only kept here.

use wirebeat_units::Nanos;

use crate::memory::{Memory, PIECE};

/// Gaps that a queue remembers to find extents in.
pub const GAPS: usize = 64;
/// Gaps that it remembers where no memory is left for more. The first number of a flow opens one.
pub(super) const GAPS_MIN: usize = 4;
/// Bytes of these.
pub(super) const GAPS_MIN_BYTES: usize = GAPS_MIN * size_of::<Gap>() + PIECE;

/// A place in the order of a queue where numbers were missing.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    /// Which arrival of the queue opened it, from 0.
    arrival: u64,
    /// The highest number before that arrival.
    before: u64,
    /// The number of that arrival.
    after: u64,
}

/// What came before what on one receive queue.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// The highest number on this queue; 0 before the first.
    pub(super) highest: u64,
    /// When that was sent, if known.
    pub(super) highest_sent: Option<Nanos>,
    /// New numbers that arrived on this queue.
    pub(super) arrivals: u64,
    /// The last gaps, 0, [`GAPS_MIN`] or [`GAPS`] of them; gap `i` is at `i` modulo their number.
    gaps: Box<[Gap]>,
    /// How many gaps there were.
    gap_count: u64,
    /// An arrival in doubt.
    pub(super) held: Option<Doubtful>,
}

/// An arrival that fits nothing so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubtful {
    pub(super) wire: u32,
    pub(super) sent: Option<Nanos>,
}

impl Order {
    pub(super) fn new() -> Self {
        Order {
            highest: 0,
            highest_sent: None,
            arrivals: 0,
            gaps: Box::default(),
            gap_count: 0,
            held: None,
        }
    }

    /// Notes a new number; says whether it is in order.
    #[inline]
    pub(super) fn note(&mut self, number: u64, sent: Option<Nanos>, memory: &mut Memory) -> bool {
        let arrival = self.arrivals;
        self.arrivals += 1;
        if number < self.highest {
            return false;
        }
        if number != self.highest.wrapping_add(1) {
            self.open_gap(Gap { arrival, before: self.highest, after: number }, memory);
        }
        self.highest = number;
        self.highest_sent = sent;
        true
    }

    #[inline]
    fn open_gap(&mut self, gap: Gap, memory: &mut Memory) {
        let known = self.gaps.len();
        // it asks for more once
        if self.gap_count == known as u64 && known < GAPS {
            self.remember_more(memory);
        }
        let slot = self.gap_count as usize & (self.gaps.len().wrapping_sub(1));
        if let Some(oldest) = self.gaps.get_mut(slot) {
            *oldest = gap;
        }
        self.gap_count += 1;
    }

    /// Makes the list of gaps longer, if there is memory for that.
    #[cold]
    fn remember_more(&mut self, memory: &mut Memory) {
        let length = if self.gaps.is_empty() { GAPS_MIN } else { GAPS };
        let more = (GAPS - GAPS_MIN) * size_of::<Gap>();
        if length == GAPS_MIN || memory.take_to_grow(more) {
            let mut gaps = std::mem::take(&mut self.gaps).into_vec();
            gaps.resize(length, Gap::default());
            self.gaps = gaps.into_boxed_slice();
        }
    }

    /// Whether a duplicate is not a copy: a sender sends its numbers in order, and this one was sent after a higher number, or
    /// after its own had been. Much later it may be a copy that was held up.
    pub(super) fn is_conflict(&self, number: u64, sent: Option<Nanos>) -> bool {
        let times = sent.zip(self.highest_sent);
        number <= self.highest
            && times.is_some_and(|(sent, highest)| {
                sent > highest && sent <= highest.saturating_add(super::RESTART_AFTER)
            })
    }

    /// The extent of the newest arrival, which is out of order: arrivals since the earliest with a
    /// higher number. That one opened the gap in which `number` lies; `None` when the gap is forgotten.
    pub(super) fn extent(&self, number: u64) -> Option<u64> {
        // none, or a power of two
        let known = self.gap_count.min(self.gaps.len() as u64);
        let mask = (self.gaps.len() as u64).wrapping_sub(1);
        let gap = (1..=known)
            .filter_map(|back| self.gaps.get(((self.gap_count - back) & mask) as usize))
            .find(|gap| gap.before < number)?;
        (number < gap.after).then(|| self.arrivals - 1 - gap.arrival)
    }

    /// Bytes that it has beside itself.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        if self.gaps.is_empty() { 0 } else { size_of_val(&*self.gaps) + PIECE }
    }
}
