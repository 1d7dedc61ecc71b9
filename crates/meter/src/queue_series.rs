//! Intervals of a receiver with several queues: what all of them have counted at the same moments.
//!
//! Each queue looks at the clock by itself, and the thread of one may be behind that of another. So a queue leaves its counts
//! here at each moment that matters, the end of an interval and the time at which its losses are final ([`Beat`]), and the
//! series goes on when all have. Loss is what is missing among the numbers that any queue has seen. A receiver with one queue
//! leaves nothing: its meter is asked at once.

use std::collections::{BTreeMap, VecDeque};

use wirebeat_units::Nanos;

use crate::interval::{Beat, FlowBooks, MeterBooks, MeterSeries, Metered};
use crate::meter::Meter;
use crate::sequence::SeenNumbers;
use crate::series::{Books, Series};
use crate::summary::MeterSummary;

/// The most counts that a queue leaves ahead of the others. A queue that is further behind has its frames counted in a later
/// interval.
const AHEAD: usize = 16;
/// The moment of a queue that has ended.
const NEVER: u64 = u64::MAX;

/// What a queue has counted by some moment.
#[derive(Clone, Debug)]
struct QueueCounts {
    /// Twice the number of an interval: its end. One more: its losses are final.
    moment: u64,
    books: MeterBooks,
    /// By flow: whether it has books of its own, and the numbers that have arrived.
    seen: Vec<(bool, u16, SeenNumbers)>,
}

/// Makes one series of the counts of several meters ([`crate::queues::meters`]).
#[derive(Clone, Debug)]
pub struct QueueSeries {
    beat: Beat,
    series: MeterSeries,
    /// What each queue has left, the earliest first.
    left: Vec<VecDeque<QueueCounts>>,
    /// The moment that each queue comes to next.
    next: Vec<u64>,
}

impl QueueSeries {
    /// A series of at most `limit` entries of `queues` meters whose counts begin at zero.
    pub fn new(beat: Beat, limit: usize, queues: usize) -> QueueSeries {
        let queues = queues.max(1);
        let left = vec![VecDeque::new(); queues];
        QueueSeries { beat, series: MeterSeries::new(beat, limit), left, next: vec![0; queues] }
    }

    /// When [`QueueSeries::pass`] is to be called next for `queue`, or soon after.
    pub fn next(&self, queue: usize) -> Nanos {
        match self.left.len() {
            1 => self.series.next(),
            _ => self.next.get(queue).map_or(Nanos::MAX, |moment| self.time(*moment)),
        }
    }

    /// It is `now`, and `meter`, that of `queue`, has counted all that arrived there before.
    pub fn pass(&mut self, queue: usize, now: Nanos, meter: &Meter) {
        if self.left.len() == 1 {
            return self.series.pass(now, meter);
        }
        let Some(next) = self.next.get(queue).copied() else { return };
        if next == NEVER || now < self.time(next) {
            return;
        }
        // of several moments that have passed, nothing was counted in between
        let mut moment = next.max(2 * self.beat.at(now).saturating_sub(1));
        while moment > next && now < self.time(moment) {
            moment -= 1;
        }
        // an interval that ends the sending is longer by a little than the next one may be
        for _ in 0..8 {
            moment += u64::from(now >= self.time(moment + 1));
        }
        self.leave(queue, moment, meter);
    }

    /// The thread of `queue` has ended: `meter` counts nothing more.
    pub fn end(&mut self, queue: usize, meter: &Meter) {
        if self.left.len() > 1 {
            self.leave(queue, NEVER, meter);
        }
    }

    /// All has arrived: the last interval is what is left of the whole.
    pub fn finish(&mut self, summary: &MeterSummary) {
        self.series.finish(summary);
        self.next.fill(NEVER);
    }

    /// All intervals with a number below this are complete.
    pub fn complete(&self) -> u64 {
        self.series.complete()
    }

    /// Takes the entries so far.
    pub fn take(&mut self) -> Series<MeterBooks> {
        self.series.take()
    }

    fn time(&self, moment: u64) -> Nanos {
        match moment {
            NEVER => Nanos::MAX,
            moment if moment % 2 == 0 => self.beat.end(moment / 2),
            moment => self.beat.settled(moment / 2),
        }
    }

    fn leave(&mut self, queue: usize, moment: u64, meter: &Meter) {
        let (Some(left), Some(next)) = (self.left.get_mut(queue), self.next.get_mut(queue)) else {
            return;
        };
        if left.len() >= AHEAD {
            left.pop_back();
        }
        let seen = meter.seen_by_listing().collect();
        left.push_back(QueueCounts { moment, books: meter.books(), seen });
        *next = moment.saturating_add(1);
        self.advance();
    }

    /// Goes on as far as all queues have come. What a queue has left first holds until its moment.
    fn advance(&mut self) {
        loop {
            let first = |left: &VecDeque<QueueCounts>| left.front().map(|counts| counts.moment);
            let Some(moments) = self.left.iter().map(first).collect::<Option<Vec<u64>>>() else {
                return;
            };
            let moment = moments.into_iter().min().unwrap_or(NEVER);
            if moment == NEVER {
                return;
            }
            let joined = JoinedQueues(self.left.iter().filter_map(VecDeque::front).collect());
            self.series.pass(self.time(moment), &joined);
            for left in &mut self.left {
                if left.front().is_some_and(|counts| counts.moment == moment) {
                    left.pop_front();
                }
            }
        }
    }
}

/// The counts of all queues at one moment.
struct JoinedQueues<'a>(Vec<&'a QueueCounts>);

impl JoinedQueues<'_> {
    /// How many numbers are missing: of each flow with books of its own, and of all others.
    fn missing(&self) -> (BTreeMap<u16, i64>, i64) {
        let mut flows: BTreeMap<u16, (bool, SeenNumbers)> = BTreeMap::new();
        for (listed, id, seen) in self.0.iter().flat_map(|counts| &counts.seen) {
            flows.entry(*id).or_insert((*listed, SeenNumbers::default())).1.join(*seen);
        }
        let (mut own, mut others) = (BTreeMap::new(), 0_i64);
        for (id, (listed, seen)) in flows {
            let missing = i64::try_from(seen.missing()).unwrap_or(i64::MAX);
            match listed {
                true => drop(own.insert(id, missing)),
                false => others = others.saturating_add(missing),
            }
        }
        (own, others)
    }
}

impl Metered for JoinedQueues<'_> {
    fn books(&self) -> MeterBooks {
        let mut books = MeterBooks::default();
        self.0.iter().for_each(|counts| books.join(counts.books.clone()));
        let (own, others) = self.missing();
        for (id, flow) in &mut books.flows {
            flow.lost = own.get(id).copied().unwrap_or(0);
        }
        books.others.lost = others;
        books
    }

    fn bound_lost(&self, books: &mut MeterBooks) {
        let (own, others) = self.missing();
        let bound = |flow: &mut FlowBooks, missing: i64| flow.lost = flow.lost.min(missing);
        for (id, flow) in &mut books.flows {
            bound(flow, own.get(id).copied().unwrap_or(0));
        }
        bound(&mut books.others, others);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirebeat_wire::probe::Probe;

    use super::*;
    use crate::meter::MeterConfig;
    use crate::queues::meters;
    use crate::testing::config;

    const LENGTH: u64 = 100_000_000;
    const BEAT: Beat = Beat { start: Nanos::from_secs(1), length: Nanos::new(LENGTH), last: None };

    /// A frame: when it arrives after the start, its flow, its number, its queue.
    type Frame = (u64, u16, u32, usize);

    /// Receives `frames`, of which queue `q` is read `lag[q]` ns later, and ends.
    fn series_of(frames: &[Frame], lags: &[u64]) -> (MeterSummary, Series<MeterBooks>) {
        let mut meters = meters(MeterConfig::default(), lags.len());
        let mut series = QueueSeries::new(BEAT, 1000, lags.len());
        // (when it is read, when it arrived)
        let mut reads: Vec<(u64, Frame)> =
            frames.iter().map(|&frame| (frame.0 + lags[frame.3 % lags.len()], frame)).collect();
        reads.sort();
        // an idle thread looks at its clock now and then
        let end = reads.last().map_or(0, |read| read.0) + 10 * LENGTH;
        let mut idle = 0;
        for (read, (at, flow, number, queue)) in reads {
            while idle + 10_000_000 < read {
                idle += 10_000_000;
                for (queue, lag) in lags.iter().enumerate() {
                    let now = Nanos::new(BEAT.start.get() + idle.saturating_sub(*lag));
                    series.pass(queue, now, &meters[queue]);
                }
            }
            let queue = queue % lags.len();
            let now = Nanos::new(BEAT.start.get() + at);
            if now >= series.next(queue) {
                series.pass(queue, now, &meters[queue]);
            }
            let probe = Probe { flow, sequence: number, transmit_ns: BEAT.start.get() };
            meters[queue].record_datagram(
                now,
                &[&[0, 0][..], &probe.to_bytes()].concat(),
                None,
                64,
            );
        }
        for (queue, meter) in meters.iter().enumerate() {
            series.pass(queue, Nanos::new(BEAT.start.get() + end), meter);
            series.end(queue, meter);
        }
        let mut summary = MeterSummary::default();
        meters.into_iter().for_each(|meter| summary.merge(&meter.into_summary()));
        series.finish(&summary);
        (summary, series.take())
    }

    fn listed(series: &Series<MeterBooks>) -> Vec<(u64, u16, u64, u64, u64, i64)> {
        let flows = |(range, books): (std::ops::Range<u64>, &MeterBooks)| {
            let row = move |(id, flow): (&u16, &FlowBooks)| {
                (range.start, *id, flow.frames, flow.unique, flow.duplicates, flow.lost)
            };
            books.flows.iter().map(row).collect::<Vec<_>>()
        };
        series.iter().flat_map(flows).collect()
    }

    #[test]
    fn loss_across_queues_is_that_of_the_flow() {
        // every second number on each queue; 20 to 29 are lost
        let frames: Vec<Frame> = (0..100u32)
            .filter(|number| !(20..30).contains(number))
            .map(|number| (u64::from(number) * 5_000_000, 7, number, number as usize))
            .collect();
        let (_, one) = series_of(&frames, &[0]);
        let (_, two) = series_of(&frames, &[0, 30_000_000]);
        assert_eq!(listed(&two), listed(&one));
        let lost: Vec<i64> = listed(&two).iter().map(|row| row.5).collect();
        assert_eq!(lost, [0, 10, 0, 0, 0]);
    }

    #[test]
    fn a_queue_without_frames_holds_nothing_up() {
        let frames: Vec<Frame> = (0..100).map(|n| (n * 10_000_000, 1, n as u32, 0)).collect();
        let (_, one) = series_of(&frames, &[0]);
        let (_, three) = series_of(&frames, &[0, 0, 0]);
        assert_eq!(listed(&three), listed(&one));
    }

    #[test]
    fn a_queue_that_has_ended_holds_nothing_up() {
        let mut meters = meters(MeterConfig::default(), 2);
        let mut series = QueueSeries::new(BEAT, 1000, 2);
        series.end(1, &meters[1]);
        for number in 0..10u32 {
            let now = Nanos::new(BEAT.start.get() + u64::from(number) * LENGTH);
            series.pass(0, now, &meters[0]);
            let probe = Probe { flow: 1, sequence: number, transmit_ns: 0 };
            meters[0].record_datagram(now, &[&[0, 0][..], &probe.to_bytes()].concat(), None, 64);
        }
        assert!(series.complete() >= 8, "{}", series.complete());
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn the_sum_is_what_was_measured_whatever_the_queues_lag(
            frames in prop::collection::vec((0..3_000_000_000u64, 0..3u16, 0..300u32, 0..3usize), 1..200),
            lags in prop::collection::vec(0..3_000_000_000u64, 3),
        ) {
            let mut frames = frames;
            frames.sort();
            let (summary, series) = series_of(&frames, &lags);
            let mut sum = MeterBooks::default();
            series.iter().for_each(|(_, books)| sum.join(books.clone()));
            for (id, flow) in &summary.flows {
                let books = &sum.flows[id];
                let sequence = &flow.sequence;
                prop_assert_eq!(
                    (books.frames, books.unique, books.duplicates),
                    (flow.frames, sequence.unique, sequence.duplicates)
                );
                prop_assert_eq!(books.lost, (sequence.expected() - sequence.unique) as i64);
                prop_assert_eq!(books.delay.moments.count, flow.delay.moments.count);
            }
        }

        #[test]
        fn queues_that_keep_up_have_the_intervals_of_one(
            frames in prop::collection::vec((0..1_000_000_000u64, 0..3u16, 0..3usize), 1..200),
        ) {
            let mut frames = frames;
            frames.sort();
            let numbered: Vec<Frame> = frames
                .iter()
                .enumerate()
                .map(|(number, &(at, flow, queue))| (at, flow, number as u32, queue))
                .collect();
            let (_, one) = series_of(&numbered, &[0]);
            let (_, three) = series_of(&numbered, &[0, 0, 0]);
            prop_assert_eq!(listed(&three), listed(&one));
        }
    }
}
