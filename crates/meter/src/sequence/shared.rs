//! Which numbers of a flow were seen, where the flow may arrive on several receive queues and each has a thread of its own.
//!
//! The words of the window are atomic, and a number is new to the queue that sets its bit. So what is unique and what is a
//! duplicate is exact across queues, in whatever order their threads come to it, as long as none is behind another by more than
//! the window. Beside the words a queue writes one cache line of its own for each new number, which others read only where
//! they cannot place a number by what they have seen themselves: a line that all of them write would cost more than all else.
//! The kernel's meter does the same (`bpf/sequence.h`).
//!
//! A number is placed against the highest of all queues and the time at which just that number was sent. A sender that
//! restarted is agreed on under a lock, once. A queue whose thread is behind goes on with the former numbers until it comes to
//! frames that were sent after the restart.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wirebeat_units::Nanos;

use super::window::{Mark, WORD_BITS, words};
use super::{BASE, NumberPlace, RESTART_AFTER, SequenceStanding, SequenceTracker, step_to};
use crate::memory::{Memory, PIECE};

/// A window for several queues holds this multiple of what one queue would have: a thread may be kept from its CPU while the
/// others go on.
const SEVERAL: u32 = 4;
/// A number that is above those of its own queue by no more than this is placed by them alone.
const NEAR_STEPS: u64 = 256;
/// Stands for a time that is not known.
const UNKNOWN: u64 = u64::MAX;

/// What a queue has seen of a flow, for the others to read. The queue alone writes it.
#[derive(Debug)]
#[repr(align(64))]
struct QueueHighest {
    /// The highest number; 0 before the first.
    number: AtomicU64,
    /// When that was sent, in ns, or later; [`UNKNOWN`].
    sent: AtomicU64,
}

impl Default for QueueHighest {
    fn default() -> Self {
        QueueHighest { number: AtomicU64::new(0), sent: AtomicU64::new(UNKNOWN) }
    }
}

impl QueueHighest {
    /// The time first: who sees the number sees a time that is no earlier, which means neither restart nor conflict.
    #[inline]
    fn publish(&self, number: u64, sent: Option<Nanos>) {
        self.sent.store(sent.map_or(UNKNOWN, Nanos::get), Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
    }

    fn read(&self) -> Option<(u64, Option<Nanos>)> {
        let number = self.number.load(Ordering::Acquire);
        let sent = self.sent.load(Ordering::Relaxed);
        (number > 0).then_some((number, (sent != UNKNOWN).then_some(Nanos::new(sent))))
    }
}

/// The last restart of the sender.
#[derive(Clone, Copy, Debug, Default)]
struct Restart {
    /// Added to numbers from the wire since.
    offset: u32,
    /// What was sent later than this belongs to it; `None`: everything that comes.
    after: Option<Nanos>,
}

/// The window of a flow, for all of its queues.
#[derive(Debug)]
pub(crate) struct SharedWindow {
    /// As those of `Window`: number >> 5 in the upper half, a bit for each number in the lower. Made with the first arrival.
    words: OnceLock<Box<[AtomicU64]>>,
    /// How many words, a power of two.
    length: usize,
    queues: Box<[QueueHighest]>,
    /// How often the sender restarted.
    restarts: AtomicU32,
    last_restart: Mutex<Restart>,
}

impl SharedWindow {
    /// For `queues` queues, of at most `most` bytes, where one queue would have a window of `numbers`.
    pub(crate) fn new(numbers: u32, queues: usize, most: usize) -> SharedWindow {
        let fits = (most / size_of::<u64>()).max(words(0));
        let fits = if fits.is_power_of_two() { fits } else { fits.next_power_of_two() / 2 };
        SharedWindow {
            words: OnceLock::new(),
            length: words(numbers.saturating_mul(SEVERAL)).min(fits),
            queues: (0..queues).map(|_| QueueHighest::default()).collect(),
            restarts: AtomicU32::new(0),
            last_restart: Mutex::default(),
        }
    }

    /// Bytes that one takes beside its words.
    pub(crate) fn bytes_beside(queues: usize) -> usize {
        size_of::<SharedWindow>() + queues * size_of::<QueueHighest>() + 3 * PIECE
    }

    /// How many numbers it spans.
    pub(super) fn numbers(&self) -> u64 {
        (self.length as u64) << WORD_BITS
    }

    /// The highest number that any queue has seen, and when that was sent.
    fn highest(&self) -> Option<(u64, Option<Nanos>)> {
        self.queues.iter().filter_map(QueueHighest::read).max_by_key(|(number, _)| *number)
    }

    /// Notes a number that some queue has placed.
    #[inline]
    fn mark(&self, number: u64) -> Mark {
        let words =
            self.words.get_or_init(|| (0..self.length).map(|_| AtomicU64::new(0)).collect());
        let tag = (number >> WORD_BITS) as u32;
        let bit = 1u32 << (number & 31);
        let Some(word) = words.get(tag as usize & (words.len().wrapping_sub(1))) else {
            return Mark::New;
        };
        let mut old = word.load(Ordering::Relaxed);
        loop {
            let known = (old >> 32) as u32;
            let seen = if known == tag { old as u32 } else { 0 };
            // a queue that is ahead by a window has taken the word
            if old != 0 && known.wrapping_sub(tag) as i32 > 0 {
                return Mark::Behind;
            }
            if seen & bit != 0 {
                return Mark::Seen;
            }
            let new = u64::from(tag) << 32 | u64::from(seen | bit);
            match word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Mark::New,
                Err(now) => old = now,
            }
        }
    }
}

/// The part that one queue has in the window of a flow.
#[derive(Clone, Debug)]
pub(crate) struct QueueWindow {
    window: Arc<SharedWindow>,
    queue: usize,
    /// Restarts that the queue has followed.
    restarts: u32,
}

impl QueueWindow {
    pub(crate) fn new(window: Arc<SharedWindow>, queue: usize) -> QueueWindow {
        QueueWindow { window, queue, restarts: 0 }
    }

    /// See [`SharedWindow::numbers`].
    pub(super) fn numbers(&self) -> u64 {
        self.window.numbers()
    }

    /// See [`SharedWindow::mark`].
    #[inline]
    pub(super) fn mark(&self, number: u64) -> Mark {
        self.window.mark(number)
    }

    /// Tells the others of a number above all of this queue.
    #[inline]
    pub(super) fn publish(&self, number: u64, sent: Option<Nanos>) {
        if let Some(mine) = self.window.queues.get(self.queue) {
            mine.publish(number, sent);
        }
    }

    /// As `Order::is_conflict`, against the highest number of each queue.
    #[cold]
    pub(super) fn is_conflict(&self, number: u64, sent: Option<Nanos>) -> bool {
        let Some(sent) = sent else { return false };
        self.window.queues.iter().filter_map(QueueHighest::read).any(|(highest, highest_sent)| {
            number <= highest
                && highest_sent.is_some_and(|highest| {
                    sent > highest && sent <= highest.saturating_add(RESTART_AFTER)
                })
        })
    }

    /// Whether the sender restarted, as another queue found out.
    #[inline]
    fn is_behind(&self) -> bool {
        self.restarts != self.window.restarts.load(Ordering::Acquire)
    }

    /// The offset of numbers of a frame that was sent at `sent`, where it is another one from now on.
    #[cold]
    fn follow(&mut self, sent: Option<Nanos>) -> Option<u32> {
        let last = self.window.last_restart.lock().unwrap_or_else(PoisonError::into_inner);
        let before = sent.zip(last.after).is_some_and(|(sent, after)| sent <= after);
        if before {
            return None;
        }
        self.restarts = self.window.restarts.load(Ordering::Acquire);
        Some(last.offset)
    }

    /// The sender restarted: the number that its number 0 has from now on. `None` where another queue was first.
    pub(super) fn restart(&mut self, wire: u32, sent: Option<Nanos>) -> Option<u64> {
        let mut last = self.window.last_restart.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_behind() {
            return None;
        }
        let (highest, highest_sent) = self.window.highest()?;
        let zero = highest.wrapping_add(1);
        let after = highest_sent.map(|highest| highest.saturating_add(RESTART_AFTER));
        *last = Restart { offset: zero as u32, after };
        self.restarts = self.restarts.wrapping_add(1);
        // before others follow, so that they place by what is the highest then
        self.publish(zero.wrapping_add(u64::from(wire)), sent);
        self.window.restarts.store(self.restarts, Ordering::Release);
        Some(zero)
    }

    /// The first number of this queue: the first of all is believed.
    #[cold]
    fn begin(&self, wire: u32, sent: Option<Nanos>) -> Option<u64> {
        let _one_at_a_time =
            self.window.last_restart.lock().unwrap_or_else(PoisonError::into_inner);
        if self.window.highest().is_some() {
            return None;
        }
        let number = BASE + u64::from(wire);
        self.publish(number, sent);
        Some(number)
    }
}

impl SequenceTracker {
    /// [`SequenceTracker::record`] on one of several queues.
    pub(super) fn record_on_queue(
        &mut self,
        wire: u32,
        sent: Option<Nanos>,
        memory: &mut Memory,
    ) -> SequenceStanding {
        if let Some(number) = self.step_of_queue(wire, sent) {
            return self.count_near(number, sent, memory);
        }
        let place = self.place_on_queue(wire, sent);
        self.judge(place, wire, sent, memory)
    }

    /// Its number, where that is a little above those that this queue has seen itself.
    #[inline]
    fn step_of_queue(&self, wire: u32, sent: Option<Nanos>) -> Option<u64> {
        let highest = self.order.highest;
        let step = wire.wrapping_add(self.window.offset).wrapping_sub(highest as u32);
        let times = sent.zip(self.order.highest_sent);
        let again = times.is_some_and(|(sent, last)| sent > last.saturating_add(RESTART_AFTER));
        let behind = self.queue.as_ref().is_none_or(QueueWindow::is_behind);
        let simple = highest > 0 && self.order.held.is_none() && !again && !behind;
        let near = u64::from(step.wrapping_sub(1)) < self.window.asked.min(NEAR_STEPS);
        (simple && near).then(|| highest + u64::from(step))
    }

    /// [`SequenceTracker::place`] on one of several queues.
    pub(super) fn place_on_queue(&mut self, wire: u32, sent: Option<Nanos>) -> NumberPlace {
        let SequenceTracker { window, queue: Some(queue), .. } = self else {
            return NumberPlace::Near(BASE + u64::from(wire));
        };
        if queue.is_behind()
            && let Some(offset) = queue.follow(sent)
        {
            window.offset = offset;
        }
        let highest = queue.window.highest();
        let (highest, highest_sent) = match highest {
            Some(highest) => highest,
            None => match queue.begin(wire, sent) {
                Some(number) => return NumberPlace::Near(number),
                None => queue.window.highest().unwrap_or((BASE + u64::from(wire), sent)),
            },
        };
        let (number, distance) = step_to(wire.wrapping_add(window.offset), highest);
        if distance > 0 {
            let near = u64::from(distance.unsigned_abs()) <= window.asked;
            return if near { NumberPlace::Near(number) } else { NumberPlace::Ahead(number) };
        }
        let times = sent.zip(highest_sent);
        let again = times.map(|(sent, highest)| sent > highest.saturating_add(RESTART_AFTER));
        let back = (highest >> WORD_BITS).wrapping_sub(number >> WORD_BITS);
        NumberPlace::behind(number, back < queue.window.length as u64, again)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use proptest::prelude::*;

    use super::*;
    use crate::summary::SequenceSummary;
    use crate::testing::config;

    /// A tracker for each of `queues` queues.
    fn queues(numbers: u32, queues: usize) -> Vec<SequenceTracker> {
        let window = Arc::new(SharedWindow::new(numbers, queues, usize::MAX));
        let of = |queue| Some(QueueWindow::new(Arc::clone(&window), queue));
        (0..queues).map(|queue| SequenceTracker::of_queue(numbers, of(queue))).collect()
    }

    fn take(tracker: &mut SequenceTracker, wire: u32, sent: Option<u64>) -> SequenceStanding {
        tracker.record(wire, sent.map(Nanos::new), &mut Memory::default())
    }

    /// What all have counted, at the end.
    fn total(mut trackers: Vec<SequenceTracker>) -> SequenceSummary {
        let mut all = SequenceSummary::default();
        for tracker in &mut trackers {
            tracker.settle(&mut Memory::default());
            all.merge(&tracker.summary());
        }
        all
    }

    /// Arrivals `(place, number, queue)` of a stream that a bad network divides among `queues`: each frame is lost, doubled or
    /// held back; queue `q` is read `lag[q]` places later than the first.
    fn divided(queues: usize) -> impl Strategy<Value = Vec<(u64, u64, usize)>> {
        let lags = prop::collection::vec(0..40u64, queues);
        let frames = prop::collection::vec((0..20u8, 0..24u64, 0..queues, 0..queues), 1..400);
        (lags, frames).prop_map(|(lags, frames)| {
            let mut arrivals = Vec::new();
            for (number, (fate, delay, queue, other)) in (0u64..).zip(frames) {
                let late = if fate % 4 == 0 { delay } else { 0 };
                if fate != 1 {
                    arrivals.push((number + late + lags[queue], number, queue));
                }
                if fate == 2 {
                    arrivals.push((number + delay + lags[other], number, other));
                }
            }
            arrivals.sort_by_key(|arrival| arrival.0);
            arrivals
        })
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn several_queues_count_what_one_would(
            arrivals in divided(4),
            first in prop_oneof![Just(0u32), Just(u32::MAX - 100), any::<u32>()],
            timed in any::<bool>(),
        ) {
            let mut several = queues(1024, 4);
            let mut one = SequenceTracker::new(1024);
            let (mut seen, mut highest, mut reordered) = (BTreeSet::new(), [None; 4], 0);
            for &(_, number, queue) in &arrivals {
                let wire = first.wrapping_add(number as u32);
                let sent = timed.then_some(1000 + 10 * number);
                take(&mut one, wire, sent);
                take(&mut several[queue], wire, sent);
                if seen.insert(number) {
                    reordered += u64::from(highest[queue] > Some(number));
                    highest[queue] = highest[queue].max(Some(number));
                }
            }
            let (one, all) = (one.summary(), total(several));
            prop_assert_eq!((all.unique, all.duplicates), (one.unique, one.duplicates));
            prop_assert_eq!((all.range, all.restarts), (one.range, one.restarts));
            prop_assert_eq!((all.implausible, all.beyond_window, all.conflicting), (0, 0, 0));
            // order is that within each queue
            prop_assert_eq!(all.reordered, reordered);
        }

        #[test]
        fn one_forged_arrival_changes_no_other_count_of_any_queue(
            at in 100..900usize,
            forged in any::<u32>(),
        ) {
            prop_assume!((forged.wrapping_sub(at as u32) as i32).unsigned_abs() > 8192);
            let mut several = queues(1024, 3);
            for number in 0..1000u32 {
                let queue = number as usize % 3;
                if number as usize == at {
                    take(&mut several[queue], forged, Some(u64::from(forged) % 1000));
                }
                take(&mut several[queue], number, Some(u64::from(number)));
            }
            let all = total(several);
            prop_assert_eq!(all.unique + all.implausible, 1001);
            prop_assert_eq!(all.unique, 1000 + all.beyond_window);
            prop_assert_eq!((all.duplicates, all.restarts), (0, 0));
            prop_assert_eq!(all.range.unwrap().1, BASE + 999);
        }
    }

    #[test]
    fn a_queue_alone_is_a_tracker_alone() {
        let mut alone = queues(64, 1);
        let mut one = SequenceTracker::new(64);
        for wire in [0, 1, 3, 2, 2, 9, 10, 4, 500, 501, 502, 0, 1] {
            assert_eq!(take(&mut alone[0], wire, None), take(&mut one, wire, None), "{wire}");
        }
        let (one, alone) = (one.summary(), total(alone));
        assert_eq!(alone.range, one.range);
        assert_eq!((alone.unique, alone.duplicates), (one.unique, one.duplicates));
        assert_eq!((alone.reordered, alone.restarts), (one.reordered, one.restarts));
    }

    /// Each number reaches two of four queues at about the same time, and one of those in four comes again.
    #[test]
    fn threads_agree_on_what_is_new() {
        const NUMBERS: u32 = 200_000;
        let trackers = queues(1 << 20, 4);
        let run = |(queue, mut tracker): (u32, SequenceTracker)| {
            thread::spawn(move || {
                for number in 0..NUMBERS {
                    // swapped two by two
                    let wire = if number % 8 < 2 { number ^ 1 } else { number };
                    if wire % 4 == queue || (wire + 1) % 4 == queue {
                        take(&mut tracker, wire, Some(u64::from(wire)));
                    }
                    if queue == 0 && wire % 4 == 0 {
                        take(&mut tracker, wire, Some(u64::from(wire)));
                    }
                }
                tracker
            })
        };
        let threads: Vec<_> = (0..).zip(trackers).map(run).collect();
        let all = total(threads.into_iter().map(|thread| thread.join().unwrap()).collect());
        let numbers = u64::from(NUMBERS);
        assert_eq!((all.unique, all.duplicates), (numbers, numbers + numbers / 4));
        assert_eq!(all.range, Some((BASE, BASE + numbers - 1)));
        assert_eq!((all.restarts, all.implausible, all.beyond_window), (0, 0, 0));
    }

    #[test]
    fn a_restart_is_one_even_where_a_queue_is_behind() {
        for timed in [true, false] {
            let run = |run: u64, wire: u32| {
                (wire, timed.then_some(run * 1_000_000_000 + u64::from(wire)))
            };
            let mut several = queues(64, 2);
            let queue_of = |wire: u32| (wire as usize + 1) % 2;
            for wire in 0..1000 {
                // the second queue has not come to its last frames yet
                if queue_of(wire) == 0 || wire < 960 {
                    let (number, sent) = run(1, wire);
                    take(&mut several[queue_of(wire)], number, sent);
                }
            }
            for wire in (1..100).step_by(2) {
                let (number, sent) = run(2, wire);
                take(&mut several[0], number, sent);
            }
            let unread = (960..1000).step_by(2).filter(|_| timed).map(|wire| run(1, wire));
            let second = (0..100).step_by(2).map(|wire| run(2, wire));
            for (number, sent) in unread.chain(second) {
                take(&mut several[1], number, sent);
            }
            for (number, sent) in (100..500).map(|wire| run(2, wire)) {
                take(&mut several[queue_of(number)], number, sent);
            }
            let all = total(several);
            let before = if timed { 1000 } else { 980 };
            assert_eq!((all.unique, all.duplicates, all.restarts), (before + 500, 0, 1), "{timed}");
            assert_eq!(all.implausible, 0, "{timed}");
        }
    }

    #[test]
    fn a_queue_on_which_nothing_came_for_long_sees_no_restart() {
        let mut several = queues(64, 2);
        let second = |number: u32| Some(u64::from(number) * 1_000_000_000);
        take(&mut several[1], 0, second(0));
        for number in 1..20 {
            take(&mut several[0], number, second(number));
        }
        // overtaken by the highest on the other queue
        for number in [18, 17] {
            take(&mut several[1], number, second(number));
        }
        take(&mut several[1], 20, second(20));
        let all = total(several);
        assert_eq!((all.unique, all.duplicates, all.restarts), (21, 2, 0));
    }

    #[test]
    fn a_queue_further_behind_than_the_window_says_so() {
        let mut several = queues(64, 2);
        (0..2000).step_by(2).for_each(|number| {
            take(&mut several[0], number, Some(u64::from(number)));
        });
        (1..2000).step_by(2).for_each(|number| {
            take(&mut several[1], number, Some(u64::from(number)));
        });
        let all = total(several);
        assert_eq!((all.unique, all.duplicates, all.implausible), (2000, 0, 0));
        assert!(all.beyond_window > 800 && all.beyond_window < 1000, "{}", all.beyond_window);
    }

    #[test]
    fn two_senders_with_one_number_are_seen_across_queues() {
        let mut several = queues(1024, 2);
        for number in 0..1000 {
            take(&mut several[0], number, Some(100 * u64::from(number)));
            take(&mut several[1], number, Some(100 * u64::from(number) + 50));
        }
        let all = total(several);
        assert_eq!((all.unique, all.duplicates, all.conflicting), (1000, 1000, 1000));
    }

    #[test]
    fn memory_bounds_the_window() {
        assert_eq!(SharedWindow::new(1024, 2, usize::MAX).numbers(), 4096);
        assert_eq!(SharedWindow::new(1024, 2, 300).numbers(), 1024);
        assert_eq!(SharedWindow::new(1024, 2, 0).numbers(), 64);
    }
}
