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

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm { at: Nanos::MAX, entry: Nanos::MAX }
    }
}

/// The most spans ahead of which entries are kept by the span: 73 minutes. Entries beyond are in the queue.
const SPANS_MAX: u64 = 1024;
/// How many entries of the span that comes next go into the queue at a time.
const MOVED: usize = 256;

/// Entries of a span of 2^32 ns: how far behind its beginning, and the session.
type Span = Vec<(u32, u32)>;

/// The alarms of all sessions. Those of the next seconds are in a queue; of those that ring later, as nearly all of millions of sessions
/// do, there is a list for each span of 4.3 s, in no order and in half the memory.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    queue: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// The span up to which entries are in the queue.
    queued: u64,
    /// Those behind it.
    spans: VecDeque<Span>,
    /// The first of them with entries, by its number.
    filled: Option<u64>,
}

/// The number of a time's span.
fn span_of(at: Nanos) -> u64 {
    at.get() >> 32
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
        let Some(ahead) = ahead else { return self.queue.push(Reverse((at, key))) };
        let ahead = ahead as usize;
        if self.spans.len() <= ahead {
            self.spans.resize_with(ahead + 1, Span::new);
        }
        if let Some(span) = self.spans.get_mut(ahead) {
            span.push((at.get() as u32, key));
            self.filled = Some(self.filled.map_or(number, |first| first.min(number)));
        }
    }

    /// When the next entry comes up, or has to be looked for.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let queued = self.queue.peek().map(|Reverse((at, _))| *at);
        let filled = self.filled.map(|number| Nanos::new(number << 32));
        queued.into_iter().chain(filled).min()
    }

    /// The next session with an entry that is due at `now`; [`Alarms::rings`] says whether its alarm does.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        let current = span_of(now);
        while self.filled.is_some_and(|number| number <= current) {
            self.queue_span(usize::MAX);
        }
        if self.filled.is_none() {
            self.spans.clear();
            self.queued = self.queued.max(current);
        } else if self.queued <= current {
            // a little of what comes next, so that it is not much at once
            self.queue_span(MOVED);
        }
        let Reverse((at, _)) = self.queue.peek()?;
        if *at > now {
            return None;
        }
        self.queue.pop().map(|Reverse(entry)| entry)
    }

    /// Has so many entries of the span behind the queue in it, and the whole span when none are left.
    fn queue_span(&mut self, most: usize) {
        let number = self.queued + 1;
        if let Some(span) = self.spans.front_mut() {
            let from = span.len().saturating_sub(most);
            let moved = span.drain(from..);
            let begin = number << 32;
            self.queue
                .extend(moved.map(|(at, key)| Reverse((Nanos::new(begin | u64::from(at)), key))));
            if !span.is_empty() {
                return;
            }
            self.spans.pop_front();
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
