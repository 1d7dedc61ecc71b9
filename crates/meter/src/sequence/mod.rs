//! Loss, duplicates and reordering from 32-bit sequence numbers, in bounded memory.
//!
//! Two parts, so that several receive queues can share one of them (the kernel programs do, with
//! atomics on the words and on the highest number): the `Window` of a flow says which numbers were
//! seen, and the `Order` of each queue says what came before what, because order across queues is
//! not defined. [`SequenceTracker`] joins one of each, and holds the judgement that both need.
//!
//! An arrival is judged in this order:
//!
//! 1. *Place.* The number is unwrapped to the 64-bit number nearest to the highest seen. It is in
//!    doubt when it is more than a window ahead; when it is not above the highest but was sent more
//!    than [`RESTART_AFTER`] later; and when it is behind the window and nobody knows when it was sent.
//!    Behind the window but sent earlier than that, it is very late, or from a transmit core that has
//!    fallen far behind the others: it counts as unique, reordered and `beyond_window`.
//! 2. *Doubt.* An arrival in doubt is held, and the next one of the queue decides (as RFC 3550
//!    appendix A.1 does): when that is in doubt too and within a window of the held one, both are
//!    believed. Behind or sent later, they mean that the sender restarted, and the tracker counts on
//!    as if its number 0 followed the highest number; ahead, they mean a long loss. Otherwise the
//!    held one is placed again (another queue may have moved the window), and if it is still in doubt
//!    it is decided alone: as `beyond_window` when it is behind and nobody knows when it was sent,
//!    else as `implausible`. So one forged arrival changes no other count.
//! 3. *Count.* The window says whether the number is new; the queue says whether it is in order and,
//!    if not, the extent (RFC 4737 §4.2) from its last [`GAPS`] gaps.

mod order;
mod window;

use wirebeat_units::Nanos;

use crate::memory::{Measure, Memory};
use crate::recorder::FlowRecorder;
use crate::summary::SequenceSummary;
pub use order::GAPS;
use order::{Doubtful, GAPS_MIN_BYTES, Order};
use window::{Mark, Window};

/// Numbers that a window tells apart unless asked otherwise; at least `WINDOW - 31` behind the highest.
pub const WINDOW: u32 = 65_536;
/// A number that was passed before and was sent this much after the highest one means a new start of the
/// sender: longer than one of several transmit cores is held up, shorter than a person takes to start
/// a sender again.
pub const RESTART_AFTER: Nanos = Nanos::from_millis(500);
/// The unwrapped form of wire number 0, so that numbers from before the first arrival stay positive.
pub const BASE: u64 = 1 << 32;

/// What an arrival turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceStanding {
    /// The first of its number.
    New,
    /// Its number was seen before.
    Duplicate,
    /// In doubt: counted when the next one has arrived, or when a summary is asked for.
    Held,
}

/// Where a number belongs.
enum NumberPlace {
    /// Within reach of the window, or ahead of it by less.
    Near(u64),
    /// Behind the window, with no sign of a restart.
    Late(u64),
    /// In doubt, ahead.
    Ahead(u64),
    /// In doubt: behind, or sent too late for its number.
    Behind(u64),
}

/// Counts that only grow.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    unique: u64,
    duplicates: u64,
    conflicting: u64,
    reordered: u64,
    beyond_window: u64,
    implausible: u64,
    restarts: u64,
}

/// Judges the sequence numbers of one flow on one receive queue. See the module's documentation.
#[derive(Clone, Debug)]
pub struct SequenceTracker {
    window: Window,
    order: Order,
    counts: Counts,
    extent: FlowRecorder,
}

impl Default for SequenceTracker {
    fn default() -> Self {
        SequenceTracker::new(WINDOW)
    }
}

impl SequenceTracker {
    /// With a window of `numbers` (a power of two from 64 to 2^30; others are rounded up or clamped).
    /// The window's memory, a quarter of a byte per number, is taken as numbers come: `memory_of`.
    pub fn new(numbers: u32) -> Self {
        SequenceTracker {
            window: Window::new(numbers),
            order: Order::new(),
            counts: Counts::default(),
            extent: FlowRecorder::default(),
        }
    }

    /// Bytes beside itself that one with a window of `numbers` takes at its first arrival, whatever is left, and
    /// those that its window may take from [`Memory`] later.
    pub(crate) fn memory_of(numbers: u32) -> (usize, usize) {
        let (first, full) = Window::bytes(numbers);
        (first + GAPS_MIN_BYTES, full - first)
    }

    /// Judges the arrival of number `wire`, sent at `sent` of the sender's clock if that is known.
    #[inline]
    pub fn record(
        &mut self,
        wire: u32,
        sent: Option<Nanos>,
        memory: &mut Memory,
    ) -> SequenceStanding {
        match self.place(wire, sent) {
            NumberPlace::Near(number) => {
                if self.order.held.is_some() {
                    self.settle(memory);
                }
                let standing = self.count(number, sent, memory);
                if standing == SequenceStanding::Duplicate && self.order.is_conflict(number, sent) {
                    self.counts.conflicting += 1;
                }
                standing
            }
            place => self.doubt(place, Doubtful { wire, sent }, memory),
        }
    }

    /// The first number ever is believed.
    #[cold]
    fn begin(&mut self, wire: u32) -> NumberPlace {
        self.window.begin();
        NumberPlace::Near(BASE + u64::from(wire))
    }

    /// Finds where a number belongs.
    #[inline]
    fn place(&mut self, wire: u32, sent: Option<Nanos>) -> NumberPlace {
        if self.window.highest == 0 {
            return self.begin(wire);
        }
        let highest = self.window.highest;
        let shifted = wire.wrapping_add(self.window.offset);
        let distance = shifted.wrapping_sub(highest as u32) as i32;
        let number = highest.wrapping_add_signed(i64::from(distance));
        if distance > 0 {
            let near = u64::from(distance.unsigned_abs()) <= self.window.asked;
            return if near { NumberPlace::Near(number) } else { NumberPlace::Ahead(number) };
        }
        let times = sent.zip(self.order.highest_sent);
        let again = |(sent, highest): (Nanos, Nanos)| sent > highest.saturating_add(RESTART_AFTER);
        match (self.window.reaches(number), times.map(again)) {
            (_, Some(true)) | (false, None) => NumberPlace::Behind(number),
            (false, Some(false)) => NumberPlace::Late(number),
            (true, _) => NumberPlace::Near(number),
        }
    }

    /// Counts an arrival that is placed.
    #[inline]
    fn count(&mut self, number: u64, sent: Option<Nanos>, memory: &mut Memory) -> SequenceStanding {
        match self.window.mark(number, memory) {
            Mark::New => self.counts.unique += 1,
            Mark::Seen => {
                self.counts.duplicates += 1;
                return SequenceStanding::Duplicate;
            }
            Mark::Behind => {
                self.count_late(number);
                return SequenceStanding::New;
            }
        }
        if !self.order.note(number, sent, memory) {
            self.counts.reordered += 1;
            if let Some(extent) = self.order.extent(number) {
                let extent = i64::try_from(extent).unwrap_or(i64::MAX);
                self.extent.record(extent, Measure::Extent, memory);
            }
        }
        SequenceStanding::New
    }

    /// Deals with an arrival that is not simply near.
    #[cold]
    fn doubt(
        &mut self,
        place: NumberPlace,
        arrival: Doubtful,
        memory: &mut Memory,
    ) -> SequenceStanding {
        if let NumberPlace::Late(number) = place {
            self.settle(memory);
            self.count_late(number);
            return SequenceStanding::New;
        }
        if let Some(held) = self.order.held {
            let step = arrival.wire.wrapping_sub(held.wire) as i32;
            if step != 0 && u64::from(step.unsigned_abs()) <= self.window.asked {
                self.order.held = None;
                return self.believe(held, arrival, memory);
            }
        }
        self.settle(memory);
        self.order.held = Some(arrival);
        SequenceStanding::Held
    }

    /// Two arrivals in doubt agree: the sender restarted, or very much was lost.
    fn believe(
        &mut self,
        held: Doubtful,
        arrival: Doubtful,
        memory: &mut Memory,
    ) -> SequenceStanding {
        match self.place(held.wire, held.sent) {
            NumberPlace::Behind(_) => {
                // Its number 0 follows the highest. Wraps after 2^32 forged restarts at the least.
                let zero = self.window.highest.wrapping_add(1);
                self.counts.restarts += 1;
                self.window.offset = zero as u32;
                self.count(zero.wrapping_add(u64::from(held.wire)), held.sent, memory);
            }
            NumberPlace::Near(number) | NumberPlace::Ahead(number) => {
                self.count(number, held.sent, memory);
            }
            NumberPlace::Late(number) => self.count_late(number),
        }
        // Nothing is held now, so this goes no deeper than holding the second.
        self.record(arrival.wire, arrival.sent, memory)
    }

    /// Decides the held arrival, if there is one, without another that confirms it.
    pub(crate) fn settle(&mut self, memory: &mut Memory) {
        let Some(held) = self.order.held.take() else { return };
        match self.place(held.wire, held.sent) {
            NumberPlace::Near(number) => {
                self.count(number, held.sent, memory);
            }
            NumberPlace::Late(number) => self.count_late(number),
            // Nothing speaks against it but the distance.
            NumberPlace::Behind(number) if held.sent.is_none() => self.count_late(number),
            NumberPlace::Ahead(_) | NumberPlace::Behind(_) => self.counts.implausible += 1,
        }
    }

    /// Counts an arrival behind the window.
    fn count_late(&mut self, number: u64) {
        self.window.stretch(number);
        self.counts.unique += 1;
        self.counts.reordered += 1;
        self.counts.beyond_window += 1;
        self.order.arrivals += 1;
    }

    /// How many numbers between the lowest and the highest have not arrived so far. An arrival in doubt is none of them.
    pub fn missing(&self) -> u64 {
        let Window { lowest, highest, .. } = self.window;
        match highest {
            0 => 0,
            _ => (highest - lowest + 1).saturating_sub(self.counts.unique),
        }
    }

    /// Unique, duplicate and reordered arrivals so far. One in doubt is none of them.
    pub(crate) fn judged(&self) -> (u64, u64, u64) {
        (self.counts.unique, self.counts.duplicates, self.counts.reordered)
    }

    /// Whether its histogram is with those of others.
    pub(crate) fn is_shared(&self) -> bool {
        self.extent.is_shared()
    }

    /// Bytes that it has beside itself.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.window.memory() + self.order.memory() + self.extent.memory()
    }

    /// The counts so far. An arrival still in doubt is decided as if no other came, in a copy: where histograms may be
    /// shared, `settle` comes first.
    pub fn summary(&self) -> SequenceSummary {
        if self.order.held.is_some() {
            let mut end = self.clone();
            end.settle(&mut Memory::default());
            return end.summary();
        }
        let Counts {
            unique,
            duplicates,
            conflicting,
            reordered,
            beyond_window,
            implausible,
            restarts,
        } = self.counts;
        let window = &self.window;
        SequenceSummary {
            unique,
            duplicates,
            conflicting,
            reordered,
            beyond_window,
            implausible,
            restarts,
            range: (window.highest > 0).then_some((window.lowest, window.highest)),
            window: if window.highest > 0 { window.numbers() } else { 0 },
            extent: self.extent.distribution(),
        }
    }
}

impl SequenceSummary {
    /// How many frames the sender must have sent so that these numbers arrived: the length of the
    /// range. It knows nothing of frames lost before the first and after the last arrival.
    pub fn expected(&self) -> u64 {
        self.range.map_or(0, |(lowest, highest)| highest.saturating_sub(lowest).saturating_add(1))
    }
}

#[cfg(test)]
mod tests;
