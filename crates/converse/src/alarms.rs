//! When sessions want to be called: one alarm for each, and few entries in the queue.
//!
//! An alarm that is put off costs nothing: its entry stays, and is put where it belongs when its time comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// The alarms of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    queue: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl Alarms {
    /// The alarm of session `key` is to ring at `at`, and at no other time.
    pub(crate) fn set(&mut self, alarm: &mut Alarm, key: u32, at: Nanos) {
        alarm.at = at;
        if at < alarm.entry {
            self.queue.push(Reverse((at, key)));
            alarm.entry = at;
        }
    }

    /// When the next entry comes up.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// The next session with an entry that is due at `now`; [`Alarms::rings`] says whether its alarm does.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        let Reverse((at, _)) = self.queue.peek()?;
        if *at > now {
            return None;
        }
        self.queue.pop().map(|Reverse(entry)| entry)
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
}
