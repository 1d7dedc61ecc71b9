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

use wirebeat_units::Nanos;

use crate::distribution::Recorder;
use crate::summary::SequenceSummary;

/// Numbers that a window tells apart unless asked otherwise; at least `WINDOW - 31` behind the highest.
pub const WINDOW: u32 = 65_536;
/// Gaps that a queue remembers to find extents in.
pub const GAPS: usize = 64;
/// A number that was passed before and was sent this much after the highest one means a new start of the
/// sender: longer than one of several transmit cores is held up, shorter than a person takes to start
/// a sender again.
pub const RESTART_AFTER: Nanos = Nanos::from_millis(500);
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
struct Window {
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
struct Order {
    /// The highest number on this queue; 0 before the first.
    highest: u64,
    /// When that was sent, if known.
    highest_sent: Option<Nanos>,
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
    sent: Option<Nanos>,
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
    fn note(&mut self, number: u64, sent: Option<Nanos>) -> bool {
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

    /// Judges the arrival of number `wire`, sent at `sent` of the sender's clock if that is known.
    #[inline]
    pub fn record(&mut self, wire: u32, sent: Option<Nanos>) -> Standing {
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
    fn place(&mut self, wire: u32, sent: Option<Nanos>) -> Place {
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
        let times = sent.zip(self.order.highest_sent);
        let again = |(sent, highest): (Nanos, Nanos)| sent > highest.saturating_add(RESTART_AFTER);
        match (self.window.reaches(number), times.map(again)) {
            (_, Some(true)) | (false, None) => Place::Behind(number),
            (false, Some(false)) => Place::Late(number),
            (true, _) => Place::Near(number),
        }
    }

    /// Counts an arrival that is placed.
    #[inline]
    fn count(&mut self, number: u64, sent: Option<Nanos>) -> Standing {
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

impl SequenceSummary {
    /// How many frames the sender must have sent so that these numbers arrived: the length of the
    /// range. It knows nothing of frames lost before the first and after the last arrival.
    pub fn expected(&self) -> u64 {
        self.range.map_or(0, |(lowest, highest)| highest.saturating_sub(lowest).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::config;

    fn track(window: u32, arrivals: impl IntoIterator<Item = u32>) -> SequenceSummary {
        let mut tracker = SequenceTracker::new(window);
        for wire in arrivals {
            tracker.record(wire, None);
        }
        tracker.summary()
    }

    /// What the definitions say, with unbounded memory for numbers and `GAPS` gaps.
    #[derive(Debug, Default)]
    struct Reference {
        firsts: Vec<u64>,
        duplicates: u64,
        reordered: u64,
        extents: Vec<u64>,
    }

    impl Reference {
        fn of(numbers: &[u64]) -> Self {
            let mut model = Reference::default();
            let mut seen = BTreeSet::new();
            let mut openers: Vec<usize> = Vec::new();
            for &number in numbers {
                if !seen.insert(number) {
                    model.duplicates += 1;
                    continue;
                }
                let here = model.firsts.len();
                // RFC 4737 §4.2: e = i - j for the smallest j with s[j] > s[i].
                match model.firsts.iter().position(|&earlier| earlier > number) {
                    Some(opener) => {
                        model.reordered += 1;
                        if openers.iter().rev().take(GAPS).any(|&known| known == opener) {
                            model.extents.push((here - opener) as u64);
                        }
                    }
                    None if model.firsts.iter().max().is_none_or(|&max| number > max + 1) => {
                        openers.push(here);
                    }
                    None => (),
                }
                model.firsts.push(number);
            }
            model
        }

        fn assert_equals(&self, found: &SequenceSummary) {
            assert_eq!(found.unique, self.firsts.len() as u64);
            assert_eq!(found.duplicates, self.duplicates);
            assert_eq!(found.reordered, self.reordered);
            let extent = found.extent.moments;
            assert_eq!(extent.count, self.extents.len() as u64);
            assert_eq!(extent.sum, self.extents.iter().map(|&e| i128::from(e)).sum());
            assert_eq!(extent.max, self.extents.iter().max().map_or(0, |&e| e as i64));
            assert_eq!((found.beyond_window, found.implausible, found.restarts), (0, 0, 0));
            let (lowest, highest) = found.range.unwrap();
            assert_eq!(
                highest - lowest,
                self.firsts.iter().max().unwrap() - self.firsts.iter().min().unwrap()
            );
        }
    }

    /// A stream as a bad network delivers it: each frame is lost, doubled or held back for up to
    /// `delay` places.
    fn bad_network(frames: u64, delay: u64) -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0..20u8, 0..delay, 0..delay), 1..frames as usize).prop_map(|fates| {
            let mut arrivals = Vec::new();
            for (number, (fate, first, second)) in (1u64..).zip(fates) {
                let late = |by: u64| if fate % 4 == 0 { number + by } else { number };
                if fate != 1 {
                    arrivals.push((late(first), number));
                }
                if fate == 2 {
                    arrivals.push((number + second, number));
                }
            }
            arrivals.push((0, 0));
            arrivals.sort();
            arrivals.into_iter().map(|(_, number)| number).collect()
        })
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn counts_are_those_of_the_definitions(
            numbers in bad_network(400, 24),
            first in prop_oneof![Just(0u32), Just(u32::MAX - 100), any::<u32>()],
        ) {
            let wire = numbers.iter().map(|&number| first.wrapping_add(number as u32));
            Reference::of(&numbers).assert_equals(&track(64, wire));
        }

        #[test]
        fn extents_are_known_as_far_as_the_gaps_reach(numbers in bad_network(600, 200)) {
            let wire = numbers.iter().map(|&number| number as u32);
            Reference::of(&numbers).assert_equals(&track(1024, wire));
        }

        #[test]
        fn every_arrival_counts_once_whatever_arrives(
            arrivals in prop::collection::vec(
                (
                    prop_oneof![any::<u32>(), 0..300u32, Just(u32::MAX)],
                    prop::option::of(prop_oneof![any::<u64>(), 0..2_000_000_000u64]),
                ),
                0..300,
            ),
        ) {
            let mut tracker = SequenceTracker::new(64);
            for (count, &(wire, sent)) in (1..).zip(&arrivals) {
                tracker.record(wire, sent.map(Nanos::new));
                let summary = tracker.summary();
                prop_assert_eq!(summary.unique + summary.duplicates + summary.implausible, count);
                prop_assert!(summary.reordered >= summary.extent.moments.count);
                prop_assert!(summary.reordered >= summary.beyond_window);
            }
        }

        #[test]
        fn one_forged_arrival_changes_no_other_count(
            at in 1..2000usize,
            forged in any::<u32>(),
            sent in prop::option::of(any::<u64>()),
        ) {
            let distance = (forged.wrapping_sub(at as u32)) as i32;
            prop_assume!(distance > 4096 || sent.is_some() && distance < -4096);
            let mut tracker = SequenceTracker::new(1024);
            for number in 0..2000u32 {
                if number as usize == at {
                    tracker.record(forged, sent.map(Nanos::new));
                }
                tracker.record(number, Some(Nanos::new(u64::from(number))));
            }
            let summary = tracker.summary();
            // A number behind is either forged or, sent before the highest, very late.
            prop_assert_eq!(summary.unique + summary.implausible, 2001);
            prop_assert_eq!(summary.unique, 2000 + summary.beyond_window);
            prop_assert_eq!((summary.duplicates, summary.restarts), (0, 0));
            prop_assert_eq!(summary.range.unwrap().1, BASE + 1999);
        }
    }

    #[test]
    fn a_stream_in_order_is_all_new() {
        let summary = track(WINDOW, 0..200_000);
        assert_eq!(summary.unique, 200_000);
        assert_eq!((summary.duplicates, summary.reordered, summary.implausible), (0, 0, 0));
        assert_eq!(summary.range, Some((BASE, BASE + 199_999)));
    }

    #[test]
    fn numbers_wrap_at_32_bits() {
        let summary = track(64, (0..100).map(|i: u32| (u32::MAX - 49).wrapping_add(i)));
        assert_eq!((summary.unique, summary.reordered), (100, 0));
        let (lowest, highest) = summary.range.unwrap();
        assert_eq!(highest - lowest + 1, 100);
    }

    #[test]
    fn numbers_before_the_first_arrival_have_an_extent() {
        // The wrap lies between them, so the first arrival is not the lowest.
        let summary = track(64, [1, 0, u32::MAX, 2]);
        assert_eq!((summary.unique, summary.reordered), (4, 2));
        assert_eq!(summary.extent.moments.sum, 1 + 2);
        assert_eq!(summary.range, Some((BASE - 1, BASE + 2)));
    }

    #[test]
    fn a_loss_longer_than_the_window_is_believed_with_the_second_arrival() {
        let mut tracker = SequenceTracker::new(64);
        (0..100).for_each(|wire| assert_eq!(tracker.record(wire, None), Standing::New));
        assert_eq!(tracker.record(10_000, None), Standing::Held);
        assert_eq!(tracker.summary().implausible, 1);
        assert_eq!(tracker.record(10_003, None), Standing::New);
        let summary = tracker.summary();
        assert_eq!((summary.unique, summary.implausible, summary.reordered), (102, 0, 0));
        assert_eq!(summary.range, Some((BASE, BASE + 10_003)));
    }

    #[test]
    fn two_reordered_arrivals_after_a_long_loss_are_believed() {
        let summary = track(64, (0..100).chain([10_001, 10_000, 10_002]));
        assert_eq!((summary.unique, summary.reordered, summary.implausible), (103, 1, 0));
    }

    #[test]
    fn the_same_forged_number_twice_is_not_believed() {
        let summary = track(64, (0..100).chain([9_000, 9_000]).chain(100..200));
        assert_eq!((summary.unique, summary.implausible), (200, 2));
    }

    #[test]
    fn a_restarted_sender_is_counted_on() {
        let mut tracker = SequenceTracker::new(64);
        for wire in (0..1000).chain(0..500) {
            tracker.record(wire, None);
        }
        let summary = tracker.summary();
        assert_eq!((summary.unique, summary.duplicates, summary.restarts), (1500, 0, 1));
        assert_eq!(summary.range, Some((BASE, BASE + 1499)));
    }

    #[test]
    fn a_restart_within_the_window_shows_in_the_transmit_times() {
        let mut tracker = SequenceTracker::default();
        for run in 0..3u64 {
            for wire in 0..1000 {
                let sent = Nanos::new(run * 1_000_000_000 + u64::from(wire));
                tracker.record(wire, Some(sent));
            }
        }
        let summary = tracker.summary();
        assert_eq!((summary.unique, summary.duplicates, summary.restarts), (3000, 0, 2));
        assert_eq!(summary.reordered, 0);
    }

    #[test]
    fn frames_lost_at_the_start_of_a_new_run_are_missing_from_the_range() {
        let mut tracker = SequenceTracker::new(64);
        for wire in (0..1000).chain(200..300) {
            tracker.record(wire, None);
        }
        let summary = tracker.summary();
        let (lowest, highest) = summary.range.unwrap();
        assert_eq!(highest - lowest + 1 - summary.unique, 200);
    }

    #[test]
    fn very_late_frames_are_no_restart() {
        let mut tracker = SequenceTracker::new(64);
        for wire in (0..10).chain(20..1000).chain(10..20).chain(1000..1100) {
            tracker.record(wire, Some(Nanos::new(u64::from(wire))));
        }
        let summary = tracker.summary();
        assert_eq!((summary.unique, summary.duplicates, summary.restarts), (1100, 0, 0));
        assert_eq!((summary.reordered, summary.beyond_window), (10, 10));
        assert_eq!(summary.extent.moments.count, 0);
    }

    #[test]
    fn a_transmit_core_that_falls_behind_the_others_loses_nothing() {
        // Two cores send every second number in batches, one of them at half the speed.
        let mut tracker = SequenceTracker::new(64);
        let mut time = 0;
        for round in 0..1000u32 {
            for fast in 0..8 {
                time += 1;
                tracker.record(2 * (8 * round + fast), Some(Nanos::new(time)));
            }
            for slow in 0..4 {
                time += 1;
                tracker.record(2 * (4 * round + slow) + 1, Some(Nanos::new(time)));
            }
        }
        let summary = tracker.summary();
        assert_eq!((summary.unique, summary.duplicates, summary.restarts), (12_000, 0, 0));
        assert_eq!((summary.implausible, summary.reordered), (0, 4_000));
    }

    #[test]
    fn one_frame_behind_the_window_counts_as_late_where_times_are_not_known() {
        let summary = track(64, (0..10).chain(11..1000).chain([10]).chain(1000..1100));
        assert_eq!((summary.unique, summary.beyond_window, summary.reordered), (1100, 1, 1));
    }

    #[test]
    fn every_second_number_of_a_sprayed_flow_is_in_order() {
        let summary = track(64, (0..1000).map(|i| 2 * i));
        assert_eq!((summary.unique, summary.reordered, summary.implausible), (1000, 0, 0));
    }

    #[test]
    fn a_window_of_any_size_is_made_to_fit() {
        for numbers in [0, 1, 100, 1 << 16] {
            let summary = track(numbers, 0..50);
            assert_eq!(summary.unique, 50);
        }
        assert_eq!(Window::new(u32::MAX).numbers(), 1 << 30);
    }
}
