//! When sessions want to be called: one alarm for each, and few entries in the queue.
//!
//! An alarm that is put off costs nothing: its entry stays, and is put where it belongs when its time comes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wirebeat_units::Nanos;

/// An alarm of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    /// When it is to ring; [`Nanos::MAX`]: not at all.
    at: Nanos,
    /// The time of its earliest entry in the queue; [`Nanos::MAX`]: there is none.
    entry: Nanos,
}

impl Alarm {
    /// Reads of it.
    pub(crate) fn touch(&self) -> u64 {
        self.at.get()
    }
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm { at: Nanos::MAX, entry: Nanos::MAX }
    }
}

/// The most spans ahead of which entries are kept by the span: 73 minutes. Entries beyond are in the queue.
const SPANS_MAX: u64 = 1024;
/// How many entries of the span that comes next go into slots at a time.
const MOVED: usize = 256;
/// A slot is 2^20 ns, a span 2^32.
const SLOT_BITS: u32 = 20;
const SPAN_BITS: u32 = 32;
/// The slots of two spans: of the current one and of the one behind it.
const SLOTS: usize = 2 << (SPAN_BITS - SLOT_BITS);
/// A slot that held more entries gives their memory back.
const KEPT: usize = 1024;

/// Entries of a span: how far behind its beginning, and the session.
type Span = Vec<(u32, u32)>;

/// Entries of a slot, in no order: how far behind the beginning of its span, and the session.
#[derive(Debug, Default)]
struct Slot {
    entries: Span,
    /// The earliest of them.
    first: Nanos,
}

/// The alarms of all sessions. Those of this millisecond are in a queue; those of the next seconds in a slot for each millisecond; of
/// those that ring later, as nearly all of millions of sessions do, there is a list for each span of 4.3 s, in no order and in half the
/// memory.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    queue: BinaryHeap<Reverse<(Nanos, u32)>>,
    slots: Vec<Slot>,
    /// Which slots have entries, a bit each.
    filled_slots: Vec<u64>,
    /// The first of them, by the number of its time.
    first_slot: Option<u64>,
    /// The slot from which on entries are in slots; those of earlier ones are in the queue.
    moved: u64,
    /// The span up to which entries are in slots or in the queue.
    queued: u64,
    /// Those behind it.
    spans: VecDeque<Span>,
    /// The first of them with entries, by its number.
    filled: Option<u64>,
}

/// The number of a time's span.
fn span_of(at: Nanos) -> u64 {
    at.get() >> SPAN_BITS
}

/// The number of a time's slot.
fn slot_of(at: Nanos) -> u64 {
    at.get() >> SLOT_BITS
}

impl Alarms {
    /// The alarm of session `key` is to ring at `at`, and at no other time.
    pub(crate) fn set(&mut self, alarm: &mut Alarm, key: u32, at: Nanos) {
        alarm.at = at;
        if at < alarm.entry {
            self.push(at, key);
            alarm.entry = at;
        }
    }

    fn push(&mut self, at: Nanos, key: u32) {
        let number = span_of(at);
        let ahead = number.checked_sub(self.queued + 1).filter(|ahead| *ahead < SPANS_MAX);
        let Some(ahead) = ahead else { return self.push_near(at, key) };
        let ahead = ahead as usize;
        if self.spans.len() <= ahead {
            self.spans.resize_with(ahead + 1, Span::new);
        }
        if let Some(span) = self.spans.get_mut(ahead) {
            span.push((at.get() as u32, key));
            self.filled = Some(self.filled.map_or(number, |first| first.min(number)));
        }
    }

    /// Puts an entry into its slot, or into the queue where that has come, or is far beyond all slots.
    fn push_near(&mut self, at: Nanos, key: u32) {
        let number = slot_of(at);
        if number < self.moved || number - self.moved >= SLOTS as u64 {
            return self.queue.push(Reverse((at, key)));
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Slot::default);
            self.filled_slots.resize(SLOTS / 64, 0);
        }
        let place = number as usize % SLOTS;
        let slot = self.slots.get_mut(place).zip(self.filled_slots.get_mut(place / 64));
        if let Some((slot, filled)) = slot {
            let is_first = slot.entries.is_empty();
            slot.first = if is_first { at } else { slot.first.min(at) };
            slot.entries.push((at.get() as u32, key));
            *filled |= 1 << (place % 64);
            self.first_slot = Some(self.first_slot.map_or(number, |first| first.min(number)));
        }
    }

    /// Has the entries of all slots up to that of `now` in the queue.
    fn move_slots(&mut self, now: Nanos) {
        let until = slot_of(now) + 1;
        while let Some(number) = self.first_slot.filter(|first| *first < until) {
            let place = number as usize % SLOTS;
            if let Some(slot) = self.slots.get_mut(place) {
                let begin = number >> (SPAN_BITS - SLOT_BITS) << SPAN_BITS;
                let entries = slot.entries.drain(..);
                self.queue.extend(
                    entries.map(|(at, key)| Reverse((Nanos::new(begin | u64::from(at)), key))),
                );
                slot.entries.shrink_to(KEPT);
            }
            if let Some(filled) = self.filled_slots.get_mut(place / 64) {
                *filled &= !(1 << (place % 64));
            }
            self.first_slot = self.next_filled(number + 1);
        }
        self.moved = self.moved.max(until);
    }

    /// The first slot with entries from `number` on.
    fn next_filled(&self, number: u64) -> Option<u64> {
        let words = self.filled_slots.len();
        let mut at = number;
        // one word more than there are: the first may be looked at from its middle
        for _ in 0..=words {
            let place = at as usize % SLOTS;
            let word = self.filled_slots.get(place / 64)? >> (place % 64);
            if word != 0 {
                return Some(at + u64::from(word.trailing_zeros()));
            }
            at = (at | 63) + 1;
        }
        None
    }

    /// When the next entry comes up, or has to be looked for.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let queued = self.queue.peek().map(|Reverse((at, _))| *at);
        let slot = self.first_slot.and_then(|number| self.slots.get(number as usize % SLOTS));
        let filled = self.filled.map(|number| Nanos::new(number << SPAN_BITS));
        [queued, slot.map(|slot| slot.first), filled].into_iter().flatten().min()
    }

    /// The next session with an entry that is due at `now`; [`Alarms::rings`] says whether its alarm does.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        self.move_slots(now);
        let current = span_of(now);
        while self.filled.is_some_and(|number| number <= current) {
            self.open_span(usize::MAX);
        }
        if self.filled.is_none() {
            self.spans.clear();
            self.queued = self.queued.max(current);
        } else if self.queued <= current {
            // a little of what comes next, so that it is not much at once
            self.open_span(MOVED);
        }
        let Reverse((at, _)) = self.queue.peek()?;
        if *at > now {
            return None;
        }
        self.queue.pop().map(|Reverse(entry)| entry)
    }

    /// Has so many entries of the span behind those that are open in slots, and the span is open when none are left.
    fn open_span(&mut self, most: usize) {
        let number = self.queued + 1;
        if let Some(mut span) = self.spans.pop_front() {
            let begin = number << SPAN_BITS;
            let from = span.len().saturating_sub(most);
            for (at, key) in span.drain(from..) {
                self.push_near(Nanos::new(begin | u64::from(at)), key);
            }
            if !span.is_empty() {
                return self.spans.push_front(span);
            }
        }
        self.queued = number;
        if self.filled.is_some_and(|first| first <= number) {
            let next = self.spans.iter().position(|span| !span.is_empty());
            self.filled = next.map(|next| number + 1 + next as u64);
        }
    }

    /// Whether the alarm of session `key` rings at `now`, now that its entry of `at` was taken out; it is put back where not.
    pub(crate) fn rings(&mut self, alarm: &mut Alarm, key: u32, at: Nanos, now: Nanos) -> bool {
        if alarm.entry != at {
            // an entry of before: there is an earlier one, or the session is another
            return false;
        }
        alarm.entry = Nanos::MAX;
        if alarm.at <= now {
            alarm.at = Nanos::MAX;
            return true;
        }
        if alarm.at < Nanos::MAX {
            let at = alarm.at;
            self.set(alarm, key, at);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_alarm_that_is_put_off_rings_once_and_later() {
        let (mut alarms, mut alarm) = (Alarms::default(), Alarm::default());
        let at = Nanos::new;
        for deadline in [10, 20, 30] {
            alarms.set(&mut alarm, 7, at(deadline));
        }
        assert_eq!(alarms.next(), Some(at(10)));
        let mut rung = Vec::new();
        for now in [9, 10, 29, 30, 31] {
            while let Some((entry, key)) = alarms.due(at(now)) {
                assert_eq!(key, 7);
                rung.extend(alarms.rings(&mut alarm, key, entry, at(now)).then_some(now));
            }
        }
        assert_eq!((rung, alarms.next()), (vec![30], None));
        // earlier than before
        alarms.set(&mut alarm, 7, at(100));
        alarms.set(&mut alarm, 7, at(50));
        let (entry, key) = alarms.due(at(60)).unwrap();
        assert!(alarms.rings(&mut alarm, key, entry, at(60)));
        let (entry, key) = alarms.due(at(200)).unwrap();
        assert!(!alarms.rings(&mut alarm, key, entry, at(200)));
    }

    proptest! {
        /// Alarms that are set, put off and brought forward over hours ring once each, in time and in order.
        #[test]
        fn alarms_ring_when_they_are_due(
            steps in prop::collection::vec((0..20_u32, any::<u16>(), 0..6_u32), 1..200),
        ) {
            let (mut alarms, mut all) = (Alarms::default(), vec![Alarm::default(); 20]);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = 5_u64 << 30;
            for (key, time, size) in steps {
                // from nanoseconds to days
                let at = now + (u64::from(time) << (8 * size));
                alarms.set(&mut all[key as usize], key, Nanos::new(at));
                model.insert(key, at);
                if time % 3 > 0 {
                    continue;
                }
                now += u64::from(time) << 20;
                let mut rung = Vec::new();
                while let Some((entry, key)) = alarms.due(Nanos::new(now)) {
                    if alarms.rings(&mut all[key as usize], key, entry, Nanos::new(now)) {
                        rung.push(key);
                    }
                }
                rung.sort_unstable();
                let due: Vec<u32> = model.iter().filter(|(_, at)| **at <= now).map(|(key, _)| *key).collect();
                prop_assert_eq!(&rung, &due);
                model.retain(|_, at| *at > now);
                let next = alarms.next().map_or(u64::MAX, Nanos::get);
                prop_assert!(model.values().all(|at| next <= *at), "{} of {:?}", next, model);
            }
        }

        #[test]
        fn very_many_are_moved_bit_by_bit(seconds in prop::collection::vec(0..20_u64, 2000)) {
            let mut alarms = Alarms::default();
            for (key, seconds) in (0..).zip(&seconds) {
                alarms.set(&mut Alarm::default(), key, Nanos::from_secs(*seconds));
            }
            let mut rung = Vec::new();
            for millis in 0..20_001 {
                let now = Nanos::from_millis(millis);
                while let Some((entry, key)) = alarms.due(now) {
                    prop_assert_eq!(entry, Nanos::from_secs(seconds[key as usize]));
                    prop_assert!(entry <= now);
                    rung.push(key);
                }
            }
            rung.sort_unstable();
            prop_assert_eq!(rung, (0..2000).collect::<Vec<u32>>());
            prop_assert_eq!(alarms.next(), None);
        }
    }
}
