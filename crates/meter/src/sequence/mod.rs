//! Loss, duplicates and reordering from 32-bit sequence numbers, in bounded memory.
//!
//! Two parts, so that several receive queues can share one of them: the `Window` of a flow says which numbers were
//! seen, and the `Order` of each queue says what came before what, because order across queues is
//! not defined. [`SequenceTracker`] joins one of each, and holds the judgement that both need. Where several queues
//! have a thread each, their trackers share a window of atomic words (`shared.rs`; the kernel programs do the same).
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
mod shared;
mod window;

use wirebeat_units::Nanos;

use crate::memory::{Measure, Memory};
use crate::recorder::FlowRecorder;
use crate::summary::SequenceSummary;
pub use order::GAPS;
use order::{Doubtful, GAPS_MIN_BYTES, Order};
pub(crate) use shared::{QueueWindow, SharedWindow};
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
    /// The first of its number, and no higher one before.
    New,
    /// The first of its number, behind a higher one.
    Reordered,
    /// Behind all that the window reaches: counted as the first of its number, which nobody can know.
    BeyondWindow,
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

impl NumberPlace {
    /// Of a number that is not above the highest: whether the window reaches it, and whether it was sent so late that the
    /// sender must have begun again, where that is known.
    #[inline]
    fn behind(number: u64, reaches: bool, again: Option<bool>) -> NumberPlace {
        match (reaches, again) {
            (_, Some(true)) | (false, None) => NumberPlace::Behind(number),
            (false, Some(false)) => NumberPlace::Late(number),
            (true, _) => NumberPlace::Near(number),
        }
    }
}

/// The 64-bit number that `wire` stands for, the nearest to `highest`, and how far above that it is.
#[inline]
fn step_to(wire: u32, highest: u64) -> (u64, i32) {
    let distance = wire.wrapping_sub(highest as u32) as i32;
    (highest.wrapping_add_signed(i64::from(distance)), distance)
}

/// Numbers of a flow that some queues, or all, have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenNumbers {
    /// How many different ones.
    pub unique: u64,
    /// The lowest and the highest, as in [`SequenceSummary::range`].
    pub range: Option<(u64, u64)>,
}

impl SeenNumbers {
    /// Adds those that another queue has seen.
    pub fn join(&mut self, other: SeenNumbers) {
        self.unique = self.unique.saturating_add(other.unique);
        self.range = match (self.range, other.range) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }

    /// How many numbers between the lowest and the highest are missing.
    pub fn missing(&self) -> u64 {
        let expected = self
            .range
            .map_or(0, |(lowest, highest)| highest.saturating_sub(lowest).saturating_add(1));
        expected.saturating_sub(self.unique)
    }
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
    /// What takes the place of the window's words where the flow may arrive on several queues; the rest of `window` is
    /// what this queue has seen then.
    queue: Option<QueueWindow>,
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
            queue: None,
            order: Order::new(),
            counts: Counts::default(),
            extent: FlowRecorder::default(),
        }
    }

    /// The same for one of several queues that have a window together, as one of `numbers` would be.
    pub(crate) fn of_queue(numbers: u32, queue: Option<QueueWindow>) -> Self {
        SequenceTracker { queue, ..SequenceTracker::new(numbers) }
    }

    /// Bytes beside itself that one takes at its first arrival where queues share windows.
    pub(crate) const MEMORY_ON_QUEUE: usize = GAPS_MIN_BYTES;

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
        if self.queue.is_some() {
            return self.record_on_queue(wire, sent, memory);
        }
        let place = self.place_alone(wire, sent);
        self.judge(place, wire, sent, memory)
    }

    /// Judges an arrival that is placed, or in doubt.
    #[inline]
    fn judge(
        &mut self,
        place: NumberPlace,
        wire: u32,
        sent: Option<Nanos>,
        memory: &mut Memory,
    ) -> SequenceStanding {
        match place {
            NumberPlace::Near(number) => {
                if self.order.held.is_some() {
                    self.settle(memory);
                }
                self.count_near(number, sent, memory)
            }
            place => self.doubt(place, Doubtful { wire, sent }, memory),
        }
    }

    /// Counts an arrival that is near, and says whether one that is not new is no copy.
    #[inline]
    fn count_near(
        &mut self,
        number: u64,
        sent: Option<Nanos>,
        memory: &mut Memory,
    ) -> SequenceStanding {
        let standing = self.count(number, sent, memory);
        if standing == SequenceStanding::Duplicate {
            let conflict = match &self.queue {
                None => self.order.is_conflict(number, sent),
                Some(queue) => queue.is_conflict(number, sent),
            };
            self.counts.conflicting += u64::from(conflict);
        }
        standing
    }

    /// The first number ever is believed.
    #[cold]
    fn begin(&mut self, wire: u32) -> NumberPlace {
        self.window.begin();
        NumberPlace::Near(BASE + u64::from(wire))
    }

    /// Finds where a number belongs.
    fn place(&mut self, wire: u32, sent: Option<Nanos>) -> NumberPlace {
        match &self.queue {
            None => self.place_alone(wire, sent),
            Some(_) => self.place_on_queue(wire, sent),
        }
    }

    /// The same on the only queue.
    #[inline]
    fn place_alone(&mut self, wire: u32, sent: Option<Nanos>) -> NumberPlace {
        if self.window.highest == 0 {
            return self.begin(wire);
        }
        let shifted = wire.wrapping_add(self.window.offset);
        let (number, distance) = step_to(shifted, self.window.highest);
        if distance > 0 {
            let near = u64::from(distance.unsigned_abs()) <= self.window.asked;
            return if near { NumberPlace::Near(number) } else { NumberPlace::Ahead(number) };
        }
        let times = sent.zip(self.order.highest_sent);
        let again = |(sent, highest): (Nanos, Nanos)| sent > highest.saturating_add(RESTART_AFTER);
        NumberPlace::behind(number, self.window.reaches(number), times.map(again))
    }

    /// Notes a number that is placed.
    #[inline]
    fn mark(&mut self, number: u64, memory: &mut Memory) -> Mark {
        let Some(queue) = &self.queue else { return self.window.mark(number, memory) };
        self.window.stretch(number);
        queue.mark(number)
    }

    /// Counts an arrival that is placed.
    #[inline]
    fn count(&mut self, number: u64, sent: Option<Nanos>, memory: &mut Memory) -> SequenceStanding {
        match self.mark(number, memory) {
            Mark::New => self.counts.unique += 1,
            Mark::Seen => {
                self.counts.duplicates += 1;
                return SequenceStanding::Duplicate;
            }
            Mark::Behind => {
                self.count_late(number);
                return SequenceStanding::BeyondWindow;
            }
        }
        if self.order.note(number, sent, memory) {
            if let Some(queue) = &self.queue {
                queue.publish(number, sent);
            }
            return SequenceStanding::New;
        }
        self.counts.reordered += 1;
        if let Some(extent) = self.order.extent(number) {
            let extent = i64::try_from(extent).unwrap_or(i64::MAX);
            self.extent.record(extent, Measure::Extent, memory);
        }
        SequenceStanding::Reordered
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
            return SequenceStanding::BeyondWindow;
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
            NumberPlace::Behind(_) => self.begin_again(held, memory),
            NumberPlace::Near(number) | NumberPlace::Ahead(number) => {
                self.count(number, held.sent, memory);
            }
            NumberPlace::Late(number) => self.count_late(number),
        }
        // Nothing is held now, so this goes no deeper than holding the second.
        self.record(arrival.wire, arrival.sent, memory)
    }

    /// The sender restarted, and `held` is the first that came since.
    fn begin_again(&mut self, held: Doubtful, memory: &mut Memory) {
        // Its number 0 follows the highest. Wraps after 2^32 forged restarts at the least.
        let zero = match &mut self.queue {
            None => Some(self.window.highest.wrapping_add(1)),
            Some(queue) => queue.restart(held.wire, held.sent),
        };
        let Some(zero) = zero else {
            // another queue was first, which moved the numbers
            return self.decide(held, memory);
        };
        self.counts.restarts += 1;
        self.window.offset = zero as u32;
        self.count(zero.wrapping_add(u64::from(held.wire)), held.sent, memory);
    }

    /// Decides the held arrival, if there is one, without another that confirms it.
    pub(crate) fn settle(&mut self, memory: &mut Memory) {
        if let Some(held) = self.order.held.take() {
            self.decide(held, memory);
        }
    }

    /// Decides an arrival in doubt by itself.
    fn decide(&mut self, held: Doubtful, memory: &mut Memory) {
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

    /// The numbers that have arrived so far, on this queue. An arrival in doubt is none of them.
    pub fn seen(&self) -> SeenNumbers {
        let Window { lowest, highest, .. } = self.window;
        SeenNumbers {
            unique: self.counts.unique,
            range: (highest > 0).then_some((lowest, highest)),
        }
    }

    /// How many numbers between the lowest and the highest have not arrived so far.
    pub fn missing(&self) -> u64 {
        self.seen().missing()
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
    /// What queues share is not to be copied: there it counts as implausible.
    pub fn summary(&self) -> SequenceSummary {
        if self.order.held.is_some() && self.queue.is_none() {
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
        let numbers = self.queue.as_ref().map_or(window.numbers(), QueueWindow::numbers);
        SequenceSummary {
            unique,
            duplicates,
            conflicting,
            reordered,
            beyond_window,
            implausible: implausible + u64::from(self.order.held.is_some()),
            restarts,
            range: (window.highest > 0).then_some((window.lowest, window.highest)),
            window: if window.highest > 0 { numbers } else { 0 },
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
