//! A series: what was counted in each interval of a run, in bounded memory.
//!
//! An interval is known by its number from the start of the run; how long it is, is the caller's affair. A [`Series`] keeps
//! one entry of [`Books`] for each interval. Where there would be more entries than it may keep, it merges all of them two by
//! two, and an entry stands for twice as many intervals from then on. So a series of any length takes the same memory, the sum
//! of its entries stays the same, and series of several threads and hosts add up entry by entry. [`Gauge`] is for what is not
//! summed. Pure: it knows no clock, and nothing of what is counted.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What was counted in a time. The default is what is counted when nothing happens.
pub trait Books: Default {
    /// Adds what was counted right after, or at the same time elsewhere.
    fn join(&mut self, later: Self);
}

/// Books by interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series<T> {
    /// The most entries that it spans.
    limit: u64,
    /// Intervals of an entry: a power of two.
    width: u64,
    /// By the number of their first interval, over `width`. Intervals in which nothing happened may have none.
    entries: BTreeMap<u64, T>,
}

impl<T: Books> Series<T> {
    /// An empty series that never spans more than `limit` entries (at least 2).
    pub fn new(limit: usize) -> Self {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(2);
        Series { limit, width: 1, entries: BTreeMap::new() }
    }

    /// Adds `books` to those of interval number `interval`.
    pub fn add(&mut self, interval: u64, books: T) {
        while !self.has_room_for(interval) {
            self.fold();
        }
        self.entries.entry(interval / self.width).or_default().join(books);
    }

    /// Adds the books of several intervals, which are not told apart.
    pub fn add_span(&mut self, intervals: Range<u64>, books: T) {
        let length = intervals.end.saturating_sub(intervals.start);
        while self.width < length && self.width <= u64::MAX / 2 {
            self.fold();
        }
        self.add(intervals.start, books);
    }

    /// Adds a series of intervals of the same length, entry by entry.
    pub fn merge(&mut self, mut other: Series<T>) {
        while self.width < other.width {
            self.fold();
        }
        while other.width < self.width {
            other.fold();
        }
        for (entry, books) in other.entries {
            self.add(entry * other.width, books);
        }
    }

    /// Takes all entries, and goes on with none.
    pub fn take(&mut self) -> Series<T> {
        let Series { limit, width, .. } = *self;
        self.width = 1;
        Series { limit, width, entries: std::mem::take(&mut self.entries) }
    }

    /// Takes the first entry, if all its intervals have a number below `end`.
    pub fn take_first_before(&mut self, end: u64) -> Option<(Range<u64>, T)> {
        let (&entry, _) = self.entries.first_key_value()?;
        let range = self.range(entry);
        if range.end > end {
            return None;
        }
        let (_, books) = self.entries.pop_first()?;
        if self.entries.is_empty() {
            self.width = 1;
        }
        Some((range, books))
    }

    /// How many intervals an entry stands for.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The intervals that its entries span.
    pub fn span(&self) -> Range<u64> {
        let first = self.entries.first_key_value().map_or(0, |(entry, _)| self.range(*entry).start);
        let end = self.entries.last_key_value().map_or(0, |(entry, _)| self.range(*entry).end);
        first..end
    }

    /// The entries in order, and which intervals they stand for. What is left out is a time in which nothing happened.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Range<u64>, &T)> {
        self.entries.iter().map(|(entry, books)| (self.range(*entry), books))
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (Range<u64>, &mut T)> {
        let width = self.width;
        self.entries.iter_mut().map(move |(entry, books)| (range(*entry, width), books))
    }

    fn range(&self, entry: u64) -> Range<u64> {
        range(entry, self.width)
    }

    /// Whether `interval` has an entry, or may have one.
    fn has_room_for(&self, interval: u64) -> bool {
        let entry = interval / self.width;
        let first = self.entries.first_key_value().map_or(entry, |(first, _)| entry.min(*first));
        let last = self.entries.last_key_value().map_or(entry, |(last, _)| entry.max(*last));
        last - first < self.limit
    }

    /// Merges entries two by two. With the widest entries there are two at most, so that there is always room in the end.
    fn fold(&mut self) {
        self.width *= 2;
        for (entry, books) in std::mem::take(&mut self.entries) {
            self.entries.entry(entry / 2).or_default().join(books);
        }
    }
}

impl<T> IntoIterator for Series<T> {
    type Item = (Range<u64>, T);
    type IntoIter = Entries<T>;

    fn into_iter(self) -> Entries<T> {
        Entries { width: self.width, entries: self.entries.into_iter() }
    }
}

/// The entries of a series, in order.
#[derive(Debug)]
pub struct Entries<T> {
    width: u64,
    entries: std::collections::btree_map::IntoIter<u64, T>,
}

impl<T> Iterator for Entries<T> {
    type Item = (Range<u64>, T);

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(|(entry, books)| (range(entry, self.width), books))
    }
}

fn range(entry: u64, width: u64) -> Range<u64> {
    let start = entry.saturating_mul(width);
    start..start.saturating_add(width)
}

/// A value that is looked at now and then, and not summed: how full a queue is, how much of a CPU is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauge {
    /// How often it was looked at; without a look all others are 0.
    pub looks: u64,
    /// The latest value.
    pub last: u64,
    /// The smallest.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

impl Gauge {
    /// A look.
    pub fn of(value: u64) -> Gauge {
        Gauge { looks: 1, last: value, least: value, most: value }
    }
}

impl Books for Gauge {
    fn join(&mut self, later: Gauge) {
        *self = match (self.looks, later.looks) {
            (_, 0) => *self,
            (0, _) => later,
            _ => Gauge {
                looks: self.looks.saturating_add(later.looks),
                last: later.last,
                least: self.least.min(later.least),
                most: self.most.max(later.most),
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::config;

    /// A counter, and the order in which it was counted.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Counted(u64, Gauge);

    impl Books for Counted {
        fn join(&mut self, later: Counted) {
            self.0 += later.0;
            self.1.join(later.1);
        }
    }

    fn counted(value: u64) -> Counted {
        Counted(value, Gauge::of(value))
    }

    fn entries(series: &Series<Counted>) -> Vec<(Range<u64>, u64)> {
        series.iter().map(|(range, books)| (range, books.0)).collect()
    }

    #[test]
    fn old_intervals_are_merged_two_by_two() {
        let mut series = Series::new(4);
        (0..4).for_each(|n| series.add(n, counted(1 << n)));
        assert_eq!(entries(&series), [(0..1, 1), (1..2, 2), (2..3, 4), (3..4, 8)]);
        series.add(4, counted(16));
        assert_eq!(entries(&series), [(0..2, 3), (2..4, 12), (4..6, 16)]);
        series.add(5, counted(32));
        series.add(1, counted(64));
        assert_eq!(entries(&series), [(0..2, 67), (2..4, 12), (4..6, 48)]);
        assert_eq!((series.width(), series.span()), (2, 0..6));
    }

    #[test]
    fn a_jump_over_years_takes_no_time_and_no_memory() {
        let mut series = Series::new(16);
        series.add(0, counted(1));
        series.add(u64::MAX, counted(2));
        assert_eq!(series.len(), 2);
        assert_eq!(series.iter().map(|(_, books)| books.0).sum::<u64>(), 3);
    }

    #[test]
    fn series_of_different_widths_add_up() {
        let (mut one, mut other) = (Series::new(4), Series::new(4));
        (0..8).for_each(|n| one.add(n, counted(1)));
        (0..3).for_each(|n| other.add(n, counted(10)));
        let mut both = one.clone();
        both.merge(other.clone());
        assert_eq!(entries(&both), [(0..2, 22), (2..4, 12), (4..6, 2), (6..8, 2)]);
        other.merge(one);
        assert_eq!(entries(&other), entries(&both));
    }

    #[test]
    fn what_was_taken_goes_on_elsewhere() {
        let mut series = Series::new(2);
        (0..4).for_each(|n| series.add(n, counted(1)));
        let mut taken = series.take();
        assert!(series.is_empty());
        series.add(4, counted(1));
        assert_eq!(entries(&series), [(4..5, 1)]);
        assert_eq!(taken.take_first_before(1), None);
        assert_eq!(
            taken.take_first_before(2).map(|(range, books)| (range, books.0)),
            Some((0..2, 2))
        );
        assert_eq!(
            taken.take_first_before(9).map(|(range, books)| (range, books.0)),
            Some((2..4, 2))
        );
        assert_eq!(taken.take_first_before(9), None);
    }

    #[test]
    fn a_gauge_is_not_summed() {
        let mut gauge = Gauge::default();
        [5, 2, 9, 3].into_iter().for_each(|value| gauge.join(Gauge::of(value)));
        gauge.join(Gauge::default());
        assert_eq!(gauge, Gauge { looks: 4, last: 3, least: 2, most: 9 });
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn the_sum_and_the_bound_hold_whatever_comes(
            limit in 2usize..20,
            adds in prop::collection::vec((0u64..100_000, 0u64..1000), 0..200),
        ) {
            let mut series = Series::new(limit);
            adds.iter().for_each(|&(interval, value)| series.add(interval, counted(value)));
            let sum: u64 = adds.iter().map(|(_, value)| value).sum();
            prop_assert_eq!(series.iter().map(|(_, books)| books.0).sum::<u64>(), sum);
            let span = series.span();
            prop_assert!((span.end - span.start) / series.width() <= limit as u64);
            for (range, books) in series.iter() {
                let within = adds.iter().filter(|(interval, _)| range.contains(interval));
                prop_assert_eq!(books.0, within.map(|(_, value)| value).sum::<u64>());
            }
        }
    }
}
