//! What a run has counted so far, for those who ask while it goes on.
//!
//! [`RunStats`] holds the last intervals that ended, as lines to send, and the sum of all, in bounded memory. [`Counting`] is the
//! observer that fills it, on the thread that watches the run, and never waits for a reader. Each reader has a place in it ([`RunStats::next`]); one
//! that is slower than the run misses intervals, and is told how many. `following.rs` sends the lines; nothing here knows sockets.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use wirebeat_report::json;
use wirebeat_report::model::Interval;
use wirebeat_report::stats::StatsLine;
use wirebeat_units::Nanos;

use super::{Control, locked};
use crate::observe::{Observer, Progress};

/// The most intervals that are held.
const INTERVALS: usize = 1024;
/// The most bytes of their lines; a longer line is not held, and so no line of a stream is longer.
pub(super) const BYTES: usize = 4 << 20;

/// The intervals of a run that were counted last.
#[derive(Debug, Default)]
pub(crate) struct RunStats(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    /// The lines of intervals, the last of them that of the interval before `next`.
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    /// The number of the interval that ends next.
    next: u64,
    total: Option<Interval>,
    /// No interval follows.
    over: bool,
}

/// What comes next for a reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This line.
    Line(Arc<str>),
    /// So many intervals are not held any more.
    Missed(u64),
    /// Nothing until another interval ends.
    Nothing,
    /// Nothing any more.
    Over,
}

impl RunStats {
    fn count(&self, interval: &Interval) {
        let line = json::stats_line(&StatsLine::Interval(Box::new(interval.clone())));
        locked(&self.0).count(interval, line.into());
    }

    /// Counts an interval of a nanosecond.
    #[cfg(test)]
    pub(super) fn count_for_test(&self, number: u64) {
        let (from_ns, to_ns) = (number, number + 1);
        self.count(&Interval { from_ns, to_ns, expired: Some(1), ..Interval::empty() });
    }

    /// No interval follows.
    pub(super) fn end(&self) {
        locked(&self.0).over = true;
    }

    /// The place of a reader who begins with the last `count` intervals.
    pub(super) fn last(&self, count: u64) -> u64 {
        let recent = locked(&self.0);
        recent.next.saturating_sub(count.min(recent.lines.len() as u64))
    }

    /// What comes next for the reader at `place`, which moves on.
    pub(super) fn next(&self, place: &mut u64) -> Next {
        let recent = locked(&self.0);
        let first = recent.next.saturating_sub(recent.lines.len() as u64);
        let missed = first.saturating_sub(*place);
        if missed > 0 {
            *place = first;
            return Next::Missed(missed);
        }
        let at = usize::try_from(place.saturating_sub(first)).unwrap_or(usize::MAX);
        match recent.lines.get(at) {
            Some(line) => {
                *place = place.saturating_add(1);
                Next::Line(Arc::clone(line))
            }
            None if recent.over => Next::Over,
            None => Next::Nothing,
        }
    }

    /// The line with the sum of all intervals.
    pub(super) fn total(&self) -> String {
        let total = locked(&self.0).total.clone();
        json::stats_line(&StatsLine::Total(Box::new(total.unwrap_or_else(Interval::empty))))
    }
}

impl Recent {
    fn count(&mut self, interval: &Interval, line: Arc<str>) {
        match &mut self.total {
            Some(total) => total.merge(interval),
            none => *none = Some(interval.clone()),
        }
        self.next = self.next.saturating_add(1);
        if line.len() > BYTES {
            // those that are held follow each other
            self.lines.clear();
            self.bytes = 0;
            return;
        }
        self.bytes = self.bytes.saturating_add(line.len());
        self.lines.push_back(line);
        while self.bytes > BYTES || self.lines.len() > INTERVALS {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.len());
        }
    }
}

/// Keeps what a run counts for those who ask, beside telling it.
pub(super) struct Counting<'a> {
    pub(super) inner: &'a mut dyn Observer,
    pub(super) control: Control,
}

impl Observer for Counting<'_> {
    fn progress(&mut self, progress: &Progress) {
        self.inner.progress(progress);
    }

    fn watches(&self) -> bool {
        self.inner.watches()
    }

    fn interval(&mut self, interval: &Interval) {
        self.control.stats().count(interval);
        self.inner.interval(interval);
    }

    fn notice(&mut self, message: &str) {
        self.inner.notice(message);
    }

    fn begins(&mut self, start: Nanos) {
        self.inner.begins(start);
    }

    fn listening(&mut self, address: SocketAddr) {
        self.inner.listening(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(number: u64) -> Interval {
        let second = 1_000_000_000;
        let expired = Some(1);
        let (from_ns, to_ns) = (number * second, (number + 1) * second);
        Interval { from_ns, to_ns, expired, ..Interval::empty() }
    }

    /// The ends of the intervals that a reader is told, in seconds; those that it missed are negative.
    fn told(stats: &RunStats, place: &mut u64) -> Vec<i64> {
        let mut told = Vec::new();
        loop {
            match stats.next(place) {
                Next::Line(line) => {
                    let StatsLine::Interval(interval) = serde_json::from_str(&line).unwrap() else {
                        panic!("{line}");
                    };
                    told.push((interval.to_ns / 1_000_000_000) as i64);
                }
                Next::Missed(count) => told.push(-(count as i64)),
                Next::Nothing | Next::Over => return told,
            }
        }
    }

    #[test]
    fn a_reader_gets_each_interval_once_and_in_order() {
        let stats = RunStats::default();
        let mut place = stats.last(5);
        assert_eq!(stats.next(&mut place), Next::Nothing);
        (0..3).for_each(|number| stats.count(&interval(number)));
        assert_eq!(told(&stats, &mut place), [1, 2, 3]);
        stats.count(&interval(3));
        assert_eq!(told(&stats, &mut place), [4]);
        assert_eq!(told(&stats, &mut stats.last(2)), [3, 4]);
        assert!(told(&stats, &mut stats.last(0)).is_empty());
        stats.end();
        assert_eq!(stats.next(&mut place), Next::Over);
    }

    #[test]
    fn a_slow_reader_is_told_how_much_it_missed_and_memory_stays_bounded() {
        let stats = RunStats::default();
        let mut place = stats.last(0);
        let all = INTERVALS as u64 + 10;
        (0..all).for_each(|number| stats.count(&interval(number)));
        let told = told(&stats, &mut place);
        assert_eq!((told[0], told[1], told.len()), (-10, 11, INTERVALS + 1));
        let StatsLine::Total(total) = serde_json::from_str(&stats.total()).unwrap() else {
            panic!("no total");
        };
        assert_eq!((total.from_ns, total.expired), (0, Some(all)));

        let mut recent = Recent::default();
        let long: Arc<str> = "x".repeat(BYTES / 3).into();
        for number in 0..9 {
            recent.count(&interval(number), Arc::clone(&long));
            assert!(recent.bytes <= BYTES && recent.lines.len() <= 3);
        }
        // one that is longer than all that is held takes those before it along
        recent.count(&interval(9), "x".repeat(BYTES + 1).into());
        assert_eq!((recent.lines.len(), recent.bytes, recent.next), (0, 0, 10));
    }
}
