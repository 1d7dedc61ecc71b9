//! Loss, duplicates and reordering from 32-bit sequence numbers, in bounded memory.
//!
//! Two parts, so that several receive queues can share one of them (the kernel programs do, with
//! atomics on the words and on the highest number): the [`Window`] of a flow says which numbers were
//! seen, and the [`Order`] of each queue says what came before what, because order across queues is
//! not defined. [`SequenceTracker`] joins one of each, and holds the judgement that both need.
//!
//! An arrival is judged in this order:
//!
//! 1. *Place.* The number is unwrapped to the 64-bit number nearest to the highest seen. It is in doubt
//!    when it is more than a window ahead; when it is behind the window and was not sent before the
//!    highest number was (or nobody knows); and when it is not above the highest but was sent more
//!    than [`RESTART_AFTER`] later. Sent earlier and behind the window, it is merely very late: it
//!    counts as unique, reordered and `beyond_window`.
//! 2. *Doubt.* An arrival in doubt is held, and the next one of the queue decides (as RFC 3550 appendix
//!    A.1 does): when that is in doubt too and within a window of the held one, both are believed. Behind
//!    or sent later, they mean that the sender restarted, and the tracker counts on as if its number 0
//!    followed the highest number; ahead, they mean a long loss. Otherwise the held one is placed
//!    again, and if it is still in doubt it is decided alone: as `beyond_window` when it is behind and
//!    nobody knows when it was sent, else as `implausible`. So one forged arrival changes no other count.
//! 3. *Count.* The window says whether the number is new; the queue says whether it is in order and,
//!    if not, the extent (RFC 4737 §4.2.1) from its last [`GAPS`] gaps.

use crate::distribution::Recorder;
use crate::summary::SequenceSummary;

/// Numbers that a window tells apart unless asked otherwise; at least `WINDOW - 31` behind the highest.
pub const WINDOW: u32 = 65_536;
/// Gaps that a queue remembers to find extents in.
pub const GAPS: usize = 64;
/// A number that was passed before and was sent this much (in ns) after the highest one means a new
/// start of the sender: longer than one of several transmit cores is held up, shorter than a person
/// or a script takes to start a sender again.
pub const RESTART_AFTER: u64 = 500_000_000;
/// The unwrapped form of wire number 0, so that numbers from before the first arrival stay positive.
pub const BASE: u64 = 1 << 32;
/// Binary logarithm of the numbers in a word of the window.
const WORD_BITS: u32 = 5;

/// Which numbers of a flow were seen. Shared by all queues of the flow.
///
/// The word of number `n` is `words[(n >> 5) & mask]`: `n >> 5` (its low 32 bits) as a tag in the upper
/// half, and a bit for `n & 31` in the lower. A word with another tag holds nothing of interest any
/// more, so the window moves without clearing anything.
#[derive(Clone, Debug)]
pub struct Window {
    /// Empty before the first arrival.
    words: Box<[u64]>,
    /// Words that the window will have, a power of two.
    length: usize,
    /// The highest number believed; 0 before the first arrival.
    highest: u64,
    /// The lowest.
    lowest: u64,
    /// Added to numbers from the wire; changes when the sender restarts.
    offset: u32,
}

impl Window {
    /// A window of `numbers`, rounded up to a power of two from 64 to 2^30.
    fn new(numbers: u32) -> Self {
        let numbers = numbers.clamp(64, 1 << 30).next_power_of_two();
        let length = (numbers >> WORD_BITS) as usize;
        Window { words: Box::default(), length, highest: 0, lowest: u64::MAX, offset: 0 }
    }

    /// How many numbers the window spans.
    fn numbers(&self) -> u64 {
        (self.length as u64) << WORD_BITS
    }

    /// Whether `number`, not above the highest, can still be told apart.
    #[inline]
    fn reaches(&self, number: u64) -> bool {
        (self.highest >> WORD_BITS).wrapping_sub(number >> WORD_BITS) < self.length as u64
    }

    /// Notes `number`, which [`Window::reaches`] or is above the highest; says whether it is new.
    #[inline]
    fn mark(&mut self, number: u64) -> bool {
        self.stretch(number);
        let tag = (number >> WORD_BITS) as u32;
        let bit = 1u32 << (number & 31);
        let index = tag as usize & (self.words.len().wrapping_sub(1));
        let Some(word) = self.words.get_mut(index) else { return true };
        let seen = if (*word >> 32) as u32 == tag { *word as u32 } else { 0 };
        *word = (u64::from(tag) << 32) | u64::from(seen | bit);
        seen & bit == 0
    }

    /// Takes `number` into the range.
    #[inline]
    fn stretch(&mut self, number: u64) {
        self.highest = self.highest.max(number);
        self.lowest = self.lowest.min(number);
    }
}

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
pub struct Order {
    /// The highest number on this queue; 0 before the first.
    highest: u64,
    /// When that was sent, if known.
    highest_sent: Option<u64>,
    /// New numbers that arrived on this queue.
    arrivals: u64,
    /// The last gaps; gap `i` is at `i % GAPS`.
    gaps: [Gap; GAPS],
    /// How many gaps there were.
    gap_count: u64,
    /// An arrival in doubt.
    held: Option<Doubtful>,
}

/// An arrival that fits nothing so far.
#[derive(Clone, Copy, Debug)]
struct Doubtful {
    wire: u32,
    sent: Option<u64>,
}

impl Order {
    fn new() -> Self {
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
    fn note(&mut self, number: u64, sent: Option<u64>) -> bool {
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

    /// The extent of the newest arrival, which is out of order: arrivals since the earliest with a
    /// higher number. That one opened the gap in which `number` lies; `None` when the gap is forgotten.
    fn extent(&self, number: u64) -> Option<u64> {
        let known = self.gap_count.min(GAPS as u64);
        let gap = (1..=known)
            .map(|back| &self.gaps[((self.gap_count - back) % GAPS as u64) as usize])
            .find(|gap| gap.before < number)?;
        (number < gap.after).then(|| self.arrivals - 1 - gap.arrival)
    }
}

/// What an arrival turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The first of its number.
    New,
    /// Its number was seen before.
    Duplicate,
    /// In doubt: counted when the next one has arrived, or when a summary is asked for.
    Held,
}

/// Where a number belongs.
enum Place {
    /// Within reach of the window, or ahead of it by less.
    Near(u64),
    /// Sent long ago and behind the window.
    Late(u64),
    /// In doubt, ahead.
    Ahead(u64),
    /// In doubt, behind or sent too late for its number.
    Behind(u64),
}

/// Counts that only grow.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    unique: u64,
    duplicates: u64,
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
    extent: Recorder,
}

impl Default for SequenceTracker {
    fn default() -> Self {
        SequenceTracker::new(WINDOW)
    }
}

impl SequenceTracker {
    /// With a window of `numbers` (a power of two from 64 to 2^30; others are rounded up or clamped).
    /// The window's memory, a quarter of a byte per number, is taken at the first arrival.
    pub fn new(numbers: u32) -> Self {
        SequenceTracker {
            window: Window::new(numbers),
            order: Order::new(),
            counts: Counts::default(),
            extent: Recorder::default(),
        }
    }

    /// Judges the arrival of number `wire`, sent at `sent` ns of the sender's clock if that is known.
    #[inline]
    pub fn record(&mut self, wire: u32, sent: Option<u64>) -> Standing {
        match self.place(wire, sent) {
            Place::Near(number) => {
                if self.order.held.is_some() {
                    self.settle_held();
                }
                self.count(number, sent)
            }
            place => self.doubt(place, Doubtful { wire, sent }),
        }
    }

    /// The first number ever is believed.
    #[cold]
    fn begin(&mut self, wire: u32) -> Place {
        self.window.words = vec![0; self.window.length].into_boxed_slice();
        Place::Near(BASE + u64::from(wire))
    }

    /// Finds where a number belongs.
    #[inline]
    fn place(&mut self, wire: u32, sent: Option<u64>) -> Place {
        if self.window.highest == 0 {
            return self.begin(wire);
        }
        let highest = self.window.highest;
        let shifted = wire.wrapping_add(self.window.offset);
        let distance = shifted.wrapping_sub(highest as u32) as i32;
        let number = highest.wrapping_add_signed(i64::from(distance));
        if distance > 0 {
            let near = u64::from(distance.unsigned_abs()) <= self.window.numbers();
            return if near { Place::Near(number) } else { Place::Ahead(number) };
        }
        let later_by = |by: u64| match (sent, self.order.highest_sent) {
            (Some(sent), Some(highest)) => Some(sent > highest.saturating_add(by)),
            _ => None,
        };
        if self.window.reaches(number) {
            let again = later_by(RESTART_AFTER) == Some(true);
            return if again { Place::Behind(number) } else { Place::Near(number) };
        }
        if later_by(0) == Some(false) { Place::Late(number) } else { Place::Behind(number) }
    }

    /// Counts an arrival that is placed.
    #[inline]
    fn count(&mut self, number: u64, sent: Option<u64>) -> Standing {
        if !self.window.mark(number) {
            self.counts.duplicates += 1;
            return Standing::Duplicate;
        }
        self.counts.unique += 1;
        if !self.order.note(number, sent) {
            self.counts.reordered += 1;
            if let Some(extent) = self.order.extent(number) {
                self.extent.record(i64::try_from(extent).unwrap_or(i64::MAX));
            }
        }
        Standing::New
    }

    /// Deals with an arrival that is not simply near.
    #[cold]
    fn doubt(&mut self, place: Place, arrival: Doubtful) -> Standing {
        if let Place::Late(number) = place {
            self.settle_held();
            self.count_late(number);
            return Standing::New;
        }
        if let Some(held) = self.order.held {
            let step = arrival.wire.wrapping_sub(held.wire) as i32;
            if step != 0 && u64::from(step.unsigned_abs()) <= self.window.numbers() {
                self.order.held = None;
                return self.believe(held, arrival);
            }
        }
        self.settle_held();
        self.order.held = Some(arrival);
        Standing::Held
    }

    /// Two arrivals in doubt agree: the sender restarted, or very much was lost.
    fn believe(&mut self, held: Doubtful, arrival: Doubtful) -> Standing {
        match self.place(held.wire, held.sent) {
            Place::Behind(_) => {
                // Its number 0 follows the highest. Wraps after 2^32 forged restarts at the least.
                let zero = self.window.highest.wrapping_add(1);
                self.counts.restarts += 1;
                self.window.offset = zero as u32;
                self.count(zero.wrapping_add(u64::from(held.wire)), held.sent);
            }
            Place::Near(number) | Place::Ahead(number) => {
                self.count(number, held.sent);
            }
            Place::Late(number) => self.count_late(number),
        }
        // Nothing is held now, so this goes no deeper than holding the second.
        self.record(arrival.wire, arrival.sent)
    }

    /// Decides the held arrival, if there is one, without another that confirms it.
    fn settle_held(&mut self) {
        let Some(held) = self.order.held.take() else { return };
        match self.place(held.wire, held.sent) {
            Place::Near(number) => {
                self.count(number, held.sent);
            }
            Place::Late(number) => self.count_late(number),
            // Nothing speaks against it but the distance.
            Place::Behind(number) if held.sent.is_none() => self.count_late(number),
            Place::Ahead(_) | Place::Behind(_) => self.counts.implausible += 1,
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

    /// The counts so far. An arrival still in doubt is decided as if no other came.
    pub fn summary(&self) -> SequenceSummary {
        if self.order.held.is_some() {
            let mut end = self.clone();
            end.settle_held();
            return end.summary();
        }
        let Counts { unique, duplicates, reordered, beyond_window, implausible, restarts } =
            self.counts;
        let window = &self.window;
        SequenceSummary {
            unique,
            duplicates,
            reordered,
            beyond_window,
            implausible,
            restarts,
            range: (window.highest > 0).then_some((window.lowest, window.highest)),
            extent: self.extent.distribution(),
        }
    }
}
