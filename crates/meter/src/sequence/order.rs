//! What came before what on one receive queue, and how far out of order an arrival is.
//!
//! Knows nothing of windows, and judges nothing: numbers come here when they are believed. An arrival in
//! doubt is only kept here.

use wirebeat_units::Nanos;

/// Gaps that a queue remembers to find extents in.
pub const GAPS: usize = 64;

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
    highest: u64,
    /// When that was sent, if known.
    pub(super) highest_sent: Option<Nanos>,
    /// New numbers that arrived on this queue.
    pub(super) arrivals: u64,
    /// The last gaps; gap `i` is at `i % GAPS`.
    gaps: [Gap; GAPS],
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
            gaps: [Gap::default(); GAPS],
            gap_count: 0,
            held: None,
        }
    }

    /// Notes a new number; says whether it is in order.
    #[inline]
    pub(super) fn note(&mut self, number: u64, sent: Option<Nanos>) -> bool {
        let arrival = self.arrivals;
        self.arrivals += 1;
        if number < self.highest {
            return false;
        }
        if number != self.highest.wrapping_add(1) {
            let slot = (self.gap_count % GAPS as u64) as usize;
            self.gaps[slot] = Gap { arrival, before: self.highest, after: number };
            self.gap_count += 1;
        }
        self.highest = number;
        self.highest_sent = sent;
        true
    }

    /// Whether a duplicate is no copy: a sender sends its numbers in order, and this one was sent after a higher number, or
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
        let known = self.gap_count.min(GAPS as u64);
        let gap = (1..=known)
            .map(|back| &self.gaps[((self.gap_count - back) % GAPS as u64) as usize])
            .find(|gap| gap.before < number)?;
        (number < gap.after).then(|| self.arrivals - 1 - gap.arrival)
    }
}
