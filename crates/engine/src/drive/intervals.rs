//! What a transmit core sent in each interval of a run: the difference of what its port had accepted at the ends.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use wirebeat_meter::interval::{Beat, LISTED};
use wirebeat_meter::series::{Books, Series};
use wirebeat_units::Nanos;

use super::Job;
use crate::intervals::LiveIntervals;
use crate::port::{TxPort, TxTotals};

/// Frames that left, and their bytes with FCS. A packet in fragments is one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentBooks {
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub frame_bytes: u64,
}

/// What a core sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderBooks {
    /// By tag; those below [`LISTED`].
    pub tags: BTreeMap<u32, SentBooks>,
    /// Of all other tags.
    pub others: SentBooks,
    /// Frames that were dropped because they were later than their drift.
    pub expired: u64,
}

/// What the core does and others look at.
pub type TxIntervals = LiveIntervals<SenderSeries>;

/// Notes what has left by `now`, where an interval has ended.
#[inline]
pub(super) fn look<P: TxPort>(port: &P, job: &Job<'_>, now: Nanos) {
    if job.live.intervals.due(now) {
        note(port, job, |series, totals, expired| series.pass(now, totals, expired));
    }
}

/// Notes what has left in all.
pub(super) fn finish<P: TxPort>(port: &P, job: &Job<'_>) {
    note(port, job, |series, totals, expired| series.finish(totals, expired));
}

#[cold]
fn note<P: TxPort>(
    port: &P,
    job: &Job<'_>,
    note: impl FnOnce(&mut SenderSeries, &[TxTotals], u64),
) {
    job.live.intervals.pass(|series| {
        let mut totals = vec![TxTotals::default(); job.program.tags() as usize];
        port.totals(&mut totals);
        note(series, &totals, job.live.expired.load(Ordering::Relaxed));
        series.next()
    });
}

impl SentBooks {
    fn since(self, earlier: SentBooks) -> SentBooks {
        SentBooks {
            frames: self.frames.saturating_sub(earlier.frames),
            frame_bytes: self.frame_bytes.saturating_sub(earlier.frame_bytes),
        }
    }
}

impl Books for SentBooks {
    fn join(&mut self, later: SentBooks) {
        self.frames = self.frames.saturating_add(later.frames);
        self.frame_bytes = self.frame_bytes.saturating_add(later.frame_bytes);
    }
}

impl Books for SenderBooks {
    fn join(&mut self, later: SenderBooks) {
        for (tag, books) in later.tags {
            self.tags.entry(tag).or_default().join(books);
        }
        self.others.join(later.others);
        self.expired = self.expired.saturating_add(later.expired);
    }
}

/// Makes a series of what a port has accepted.
#[derive(Clone, Debug)]
pub struct SenderSeries {
    beat: Beat,
    /// The interval that goes on.
    interval: u64,
    /// What had been sent of the listed tags when it began …
    before: Vec<SentBooks>,
    /// … of all others, and how much had been dropped.
    before_others: SentBooks,
    before_expired: u64,
    series: Series<SenderBooks>,
}

impl SenderSeries {
    /// A series of at most `limit` entries, of a port that has sent nothing.
    pub fn new(beat: Beat, limit: usize) -> SenderSeries {
        SenderSeries {
            beat,
            interval: 0,
            before: Vec::new(),
            before_others: SentBooks::default(),
            before_expired: 0,
            series: Series::new(limit),
        }
    }

    /// When the interval ends that goes on.
    pub fn next(&self) -> Nanos {
        if self.interval == u64::MAX { Nanos::MAX } else { self.beat.end(self.interval) }
    }

    /// It is `now`, the port has accepted `totals`, by tag, and `expired` frames were dropped.
    pub fn pass(&mut self, now: Nanos, totals: &[TxTotals], expired: u64) {
        if now >= self.next() {
            self.close(totals, expired);
            self.interval = (self.interval + 1).max(self.beat.at(now));
        }
    }

    /// Nothing more is sent.
    pub fn finish(&mut self, totals: &[TxTotals], expired: u64) {
        self.close(totals, expired);
        self.interval = u64::MAX;
    }

    /// All intervals with a number below this are complete.
    pub fn complete(&self) -> u64 {
        self.interval
    }

    /// Takes the entries so far.
    pub fn take(&mut self) -> Series<SenderBooks> {
        self.series.take()
    }

    fn close(&mut self, totals: &[TxTotals], expired: u64) {
        let sent = |total: &TxTotals| SentBooks {
            frames: total.sent.frames,
            frame_bytes: total.sent.bytes,
        };
        let (listed, others) = totals.split_at(totals.len().min(LISTED));
        self.before.resize(listed.len(), SentBooks::default());
        let mut books = SenderBooks::default();
        for ((tag, total), before) in (0..).zip(listed).zip(&mut self.before) {
            let now = sent(total);
            let more = now.since(std::mem::replace(before, now));
            if more.frames > 0 {
                books.tags.insert(tag, more);
            }
        }
        let mut all = SentBooks::default();
        others.iter().for_each(|total| all.join(sent(total)));
        books.others = all.since(std::mem::replace(&mut self.before_others, all));
        books.expired =
            expired.saturating_sub(std::mem::replace(&mut self.before_expired, expired));
        if books != SenderBooks::default() {
            self.series.add(self.interval, books);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Amount;

    fn totals(frames: &[u64]) -> Vec<TxTotals> {
        let total = |&frames: &u64| {
            let sent = Amount { frames, bytes: frames * 64, ..Amount::default() };
            TxTotals { sent, ..TxTotals::default() }
        };
        frames.iter().map(total).collect()
    }

    #[test]
    fn an_interval_has_what_was_sent_since_the_one_before() {
        let millis = Nanos::from_millis;
        let beat = Beat { start: millis(1000), length: millis(100), last: None };
        let mut series = SenderSeries::new(beat, 8);
        series.pass(millis(1099), &totals(&[1, 1]), 0);
        series.pass(millis(1101), &totals(&[2, 1]), 3);
        // nothing in two intervals, then some in the one after
        series.pass(millis(1400), &totals(&[2, 1]), 3);
        assert_eq!(series.complete(), 4);
        series.finish(&totals(&[2, 5]), 5);
        let taken = series.take();
        let found: Vec<_> = taken
            .iter()
            .map(|(range, books)| {
                let frames = |tag| books.tags.get(&tag).map(|sent| (sent.frames, sent.frame_bytes));
                (range.start, frames(0), frames(1), books.expired)
            })
            .collect();
        assert_eq!(found, [(0, Some((2, 128)), Some((1, 64)), 3), (4, None, Some((4, 256)), 2)]);
    }
}
