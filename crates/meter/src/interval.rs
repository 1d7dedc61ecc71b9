//! What a meter counts in an interval: the difference of what it had counted at its ends.
//!
//! Nothing is done for a frame. [`MeterSeries`] is told the time now and then; at the end of each interval it takes the counts
//! of the meter ([`Metered`]) and keeps what they are more than the time before. So the intervals of a run add up to what its
//! meter measured. Loss is what is missing among the sequence numbers that had arrived by the end of an interval, and still
//! is after [`HORIZON`]: a frame that was overtaken is there by then, and one that comes later still is taken off the loss of
//! the interval in which it comes. No clock, no threads: the caller has both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wirebeat_units::Nanos;

use crate::merge::add;
use crate::series::{Books, Series};
use crate::summary::{Distribution, FlowSummary, MeterSummary};

/// How long a sequence number has to be missing until its frame counts as lost.
pub const HORIZON: Nanos = Nanos::from_millis(20);
/// The number of flows that have counts of their own in each interval, those that came first or were announced first. All others are
/// added up in [`MeterBooks::others`], and have no percentiles.
pub const LISTED: usize = 256;

/// What was received of a flow, in an interval or so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowBooks {
    /// Frames received, duplicates included.
    pub frames: u64,
    /// Their bytes with FCS.
    pub frame_bytes: u64,
    /// Different sequence numbers.
    pub unique: u64,
    /// Arrivals whose number had been seen.
    pub duplicates: u64,
    /// Arrivals with a number below one seen before.
    pub reordered: u64,
    /// Sequence numbers that went missing, less those that came after they had counted as lost: negative where the latter
    /// are more.
    pub lost: i64,
    /// What was taken off each delay before it was recorded, in ns: see [`FlowSummary::delay_base`].
    pub delay_base: i64,
    /// One-way delay less `delay_base` in ns. Minimum and maximum of an interval are those of the buckets that its values
    /// are in.
    pub delay: Distribution,
}

/// What a meter received, in an interval or so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterBooks {
    /// By the flow's number in the probe; [`LISTED`] at most.
    pub flows: BTreeMap<u16, FlowBooks>,
    /// All other flows, without their histograms.
    pub others: FlowBooks,
    /// Datagrams without a probe.
    pub unprobed: FlowBooks,
}

/// What keeps counts by flow that only grow.
pub trait Metered {
    /// All of them now. [`FlowBooks::lost`] is what is missing now.
    fn books(&self) -> MeterBooks;

    /// Makes [`FlowBooks::lost`] in `books`, which are some time old, no more than what is missing now.
    fn bound_lost(&self, books: &mut MeterBooks);
}

impl FlowBooks {
    /// All that was measured of a flow.
    pub fn of(summary: &FlowSummary) -> FlowBooks {
        let sequence = &summary.sequence;
        let missing = sequence.expected().saturating_sub(sequence.unique);
        FlowBooks {
            frames: summary.frames,
            frame_bytes: summary.frame_bytes,
            unique: sequence.unique,
            duplicates: sequence.duplicates,
            reordered: sequence.reordered,
            lost: i64::try_from(missing).unwrap_or(i64::MAX),
            delay_base: summary.delay_base,
            delay: summary.delay.clone(),
        }
    }

    /// What was counted since the same counts were `earlier`.
    pub fn since(&self, earlier: &FlowBooks) -> FlowBooks {
        FlowBooks {
            frames: self.frames.saturating_sub(earlier.frames),
            frame_bytes: self.frame_bytes.saturating_sub(earlier.frame_bytes),
            unique: self.unique.saturating_sub(earlier.unique),
            duplicates: self.duplicates.saturating_sub(earlier.duplicates),
            reordered: self.reordered.saturating_sub(earlier.reordered),
            lost: self.lost.saturating_sub(earlier.lost),
            delay_base: self.delay_base,
            delay: self.delay.since(&earlier.delay),
        }
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.frames == 0 && self.lost == 0
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<FlowBooks>() + self.delay.buckets.capacity() * size_of::<(u16, u64)>()
    }

    /// Without the histogram.
    fn without_histogram(mut self) -> FlowBooks {
        self.delay.buckets = Vec::new();
        self
    }
}

impl Books for FlowBooks {
    fn join(&mut self, later: FlowBooks) {
        add(&mut self.frames, later.frames);
        add(&mut self.frame_bytes, later.frame_bytes);
        add(&mut self.unique, later.unique);
        add(&mut self.duplicates, later.duplicates);
        add(&mut self.reordered, later.reordered);
        self.lost = self.lost.saturating_add(later.lost);
        if self.delay.moments.count == 0 {
            (self.delay_base, self.delay) = (later.delay_base, later.delay);
        } else if later.delay.moments.count > 0 {
            let rebase = later.delay_base.saturating_sub(self.delay_base);
            self.delay.merge(&later.delay.shifted(rebase));
        }
    }
}

impl MeterBooks {
    /// All that was measured. Flows that are listed in `before` stay so, and those that were among its others.
    pub fn of(summary: &MeterSummary, before: &MeterBooks) -> MeterBooks {
        let mut books =
            MeterBooks { unprobed: FlowBooks::of(&summary.unprobed), ..MeterBooks::default() };
        let more = LISTED.saturating_sub(before.flows.len());
        let mut more = if before.others.is_empty() { more } else { 0 };
        for (&id, flow) in &summary.flows {
            let known = before.flows.contains_key(&id);
            if known || more > 0 {
                more -= usize::from(!known);
                books.flows.insert(id, FlowBooks::of(flow));
            } else {
                books.others.join(FlowBooks::of(flow).without_histogram());
            }
        }
        books
    }

    /// What was counted since the same counts were `earlier`; without flows of which nothing was.
    pub fn since(&self, earlier: &MeterBooks) -> MeterBooks {
        let none = FlowBooks::default();
        let flow = |(id, now): (&u16, &FlowBooks)| {
            let books = now.since(earlier.flows.get(id).unwrap_or(&none));
            (!books.is_empty()).then_some((*id, books))
        };
        MeterBooks {
            flows: self.flows.iter().filter_map(flow).collect(),
            others: self.others.since(&earlier.others),
            unprobed: self.unprobed.since(&earlier.unprobed),
        }
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        let rest = [&self.others, &self.unprobed];
        self.flows.values().chain(rest).map(FlowBooks::bytes).sum()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.others.is_empty() && self.unprobed.is_empty()
    }
}

impl Books for MeterBooks {
    fn join(&mut self, later: MeterBooks) {
        for (id, books) in later.flows {
            self.flows.entry(id).or_default().join(books);
        }
        self.others.join(later.others);
        self.unprobed.join(later.unprobed);
    }
}

/// When intervals end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// When the first one begins.
    pub start: Nanos,
    /// How long each is.
    pub length: Nanos,
    /// The number of the interval with which sending ends, where that is known: what arrives soon after counts in it.
    pub last: Option<u64>,
}

impl Beat {
    /// When interval number `interval` is over.
    pub fn end(&self, interval: u64) -> Nanos {
        let end = self.length.get().max(1).saturating_mul(interval.saturating_add(1));
        let grace = if self.last == Some(interval) { HORIZON } else { Nanos::ZERO };
        self.start.saturating_add(Nanos::new(end)).saturating_add(grace)
    }

    /// When losses of interval number `interval` are final: a frame that was overtaken is there by then.
    pub fn settled(&self, interval: u64) -> Nanos {
        self.end(interval).saturating_add(HORIZON.min(Nanos::new(self.length.get() / 2)))
    }

    /// The interval of `now`; the first one before the start.
    pub fn at(&self, now: Nanos) -> u64 {
        now.saturating_sub(self.start).get() / self.length.get().max(1)
    }
}

/// Makes a series of the counts of a meter.
#[derive(Clone, Debug)]
pub struct MeterSeries {
    beat: Beat,
    /// The interval that goes on.
    interval: u64,
    /// When something is to be done.
    next: Nanos,
    /// The counts at the end of the interval, of which losses may still become fewer.
    ended: Option<MeterBooks>,
    /// The counts at the end of the one before.
    before: MeterBooks,
    series: Series<MeterBooks>,
}

impl MeterSeries {
    /// A series of at most `limit` entries of a meter whose counts begin at zero.
    pub fn new(beat: Beat, limit: usize) -> MeterSeries {
        MeterSeries {
            beat,
            interval: 0,
            next: beat.end(0),
            ended: None,
            before: MeterBooks::default(),
            series: Series::new(limit),
        }
    }

    /// When [`MeterSeries::pass`] is to be called next, or soon after.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// It is `now`, and `meter` has counted all that arrived before.
    pub fn pass<M: Metered + ?Sized>(&mut self, now: Nanos, meter: &M) {
        while now >= self.next {
            match self.ended.take() {
                None => {
                    self.ended = Some(meter.books());
                    self.next = self.beat.settled(self.interval);
                }
                Some(mut books) => {
                    meter.bound_lost(&mut books);
                    self.close(books);
                    // where nothing arrived for long, there is nothing to keep of the intervals between
                    self.interval = (self.interval + 1).max(self.beat.at(now));
                    self.next = self.beat.end(self.interval);
                }
            }
        }
    }

    /// All has arrived: the last interval is what is left of the whole.
    pub fn finish(&mut self, summary: &MeterSummary) {
        if let Some(books) = self.ended.take() {
            self.close(books);
            self.interval += 1;
        }
        self.close(MeterBooks::of(summary, &self.before));
        (self.interval, self.next) = (u64::MAX, Nanos::MAX);
    }

    /// All intervals with a number below this are complete.
    pub fn complete(&self) -> u64 {
        self.interval
    }

    /// Takes the entries so far.
    pub fn take(&mut self) -> Series<MeterBooks> {
        self.series.take()
    }

    fn close(&mut self, books: MeterBooks) {
        let more = books.since(&self.before);
        if !more.is_empty() {
            self.series.add(self.interval, more);
        }
        self.before = books;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirebeat_wire::probe::Probe;

    use super::*;
    use crate::meter::{Meter, MeterConfig};
    use crate::testing::config;

    const SECOND: u64 = 1_000_000_000;
    const BEAT: Beat = Beat { start: Nanos::from_secs(1), length: Nanos::from_secs(1), last: None };

    /// Records frames `(arrival, delay, flow, number)`, the times in ns from the start, and ends.
    fn series_of(
        frames: impl IntoIterator<Item = (u64, u64, u16, u32)>,
        limit: usize,
    ) -> (MeterSummary, Series<MeterBooks>) {
        let mut meter = Meter::new(MeterConfig::default());
        let mut series = MeterSeries::new(BEAT, limit);
        for (at, delay, flow, sequence) in frames {
            let at = BEAT.start.saturating_add(Nanos::new(at));
            series.pass(at, &meter);
            let transmit_ns = at.get() - delay;
            let payload = [&[0, 0][..], &Probe { flow, sequence, transmit_ns }.to_bytes()].concat();
            meter.record_datagram(at, &payload, None, 64);
        }
        let summary = meter.into_summary();
        series.finish(&summary);
        (summary, series.take())
    }

    /// Of flow 7: interval, frames, lost.
    fn losses(series: &Series<MeterBooks>) -> Vec<(u64, u64, i64)> {
        let of = |(range, books): (std::ops::Range<u64>, &MeterBooks)| {
            books.flows.get(&7).map(|flow| (range.start, flow.frames, flow.lost))
        };
        series.iter().filter_map(of).collect()
    }

    #[test]
    fn an_interval_has_the_delays_of_its_frames() {
        // the delay is ten times as long from the second interval on
        let frames = (0..3000u64).map(|n| {
            let delay = if n < 1000 { 100 } else { 1000 + n % 2 };
            (n * SECOND / 1000, delay, 7, n as u32)
        });
        let (summary, series) = series_of(frames, 8);
        let delays: Vec<_> = series
            .iter()
            .map(|(range, books)| {
                let delay = &books.flows[&7].delay;
                let Distribution { moments, .. } = delay;
                (range.start, moments.count, delay.quantile(0.5), moments.mean())
            })
            .collect();
        assert_eq!(delays[0], (0, 1000, Some(100), Some(100.0)));
        for (n, delay) in (1..).zip(&delays[1..]) {
            let median = delay.2.unwrap();
            assert_eq!((delay.0, delay.1, delay.3), (n, 1000, Some(1000.5)));
            assert!((996..=1004).contains(&median), "{median}");
        }
        assert_eq!(summary.flows[&7].delay.quantile(0.9), Some(999 + 2));
    }

    #[test]
    fn a_frame_that_was_overtaken_is_not_lost_and_one_that_comes_late_is_found_again() {
        let before = SECOND - 1000;
        let (_, series) = series_of(
            [
                (before, 10, 7, 0),
                (before + 1, 10, 7, 4),
                // within the horizon, in the next interval
                (SECOND + 1_000_000, 10, 7, 1),
                // behind it
                (SECOND + 30_000_000, 10, 7, 2),
                (SECOND + 40_000_000, 10, 7, 5),
            ],
            8,
        );
        assert_eq!(losses(&series), [(0, 2, 2), (1, 3, -1)]);
    }

    #[test]
    fn times_in_which_nothing_arrives_take_no_memory() {
        let years = 10 * 365 * 24 * 3600;
        let (_, series) = series_of([(0, 10, 7, 0), (years * SECOND, 10, 7, 1)], 1 << 40);
        assert_eq!(losses(&series), [(0, 1, 0), (years, 1, 0)]);
    }

    #[test]
    fn flows_beyond_those_that_are_listed_are_counted_together() {
        let flows = 0..LISTED as u16 + 44;
        let frames = flows.clone().cycle().take(3 * flows.len()).enumerate().map(|(n, flow)| {
            (n as u64 * SECOND / flows.len() as u64, 100, flow, (n / flows.len()) as u32)
        });
        let (_, series) = series_of(frames, 8);
        for (_, books) in series.iter() {
            assert_eq!((books.flows.len(), books.others.frames), (LISTED, 44));
            assert_eq!(
                (books.others.delay.moments.count, books.others.delay.quantile(0.5)),
                (44, None)
            );
        }
        assert_eq!(series.len(), 3);
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn intervals_add_up_to_what_was_measured(
            limit in 2usize..12,
            steps in prop::collection::vec((0u64..2 * SECOND, 0u64..5000, 0u16..4, 0u32..300), 0..300),
        ) {
            let mut at = 0;
            let frames: Vec<_> = steps
                .into_iter()
                .map(|(step, delay, flow, number)| {
                    at += step / 4;
                    (at, delay, flow, number)
                })
                .collect();
            let (summary, series) = series_of(frames, limit);
            prop_assert!(series.len() <= limit);
            let mut sum = MeterBooks::default();
            series.into_iter().for_each(|(_, books)| sum.join(books));
            for (id, flow) in &summary.flows {
                let mut expected = FlowBooks::of(flow);
                let mut found = sum.flows.remove(id).unwrap();
                // of an interval they are those of its buckets
                for books in [&mut expected, &mut found] {
                    (books.delay.moments.min, books.delay.moments.max) = (0, 0);
                }
                prop_assert_eq!(found, expected);
            }
            prop_assert!(sum.is_empty());
        }
    }
}
