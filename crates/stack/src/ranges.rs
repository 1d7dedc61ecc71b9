//! Ranges of sequence numbers: what came out of order, and what the peer says that it has (SACK).
//!
//! Most sessions never need one, so a set of ranges is a block of its own in a small slab. It holds at most [`RANGES_MAX`]
//! ranges, sorted and apart from each other; what would need more is refused, which costs a retransmission and nothing else.

use crate::seq::Seq;
use crate::slab::{NONE, Slot};

/// How many ranges a set holds. At a loss of 1 % a window of 1,600 segments has 16 holes on average.
pub const RANGES_MAX: usize = 32;

/// A range of sequence numbers, from the first to behind the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub start: Seq,
    /// The one behind the last.
    pub end: Seq,
}

impl Range {
    /// From `start` to before `end`.
    pub const fn new(start: Seq, end: Seq) -> Range {
        Range { start, end }
    }

    /// How many numbers it holds.
    #[inline]
    pub const fn len(self) -> u32 {
        self.end.since(self.start)
    }

    /// Whether it holds none.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A set of ranges that all lie within half a circle.
#[derive(Clone, Debug)]
pub struct Ranges {
    ranges: [Range; RANGES_MAX],
    len: u8,
    /// Whether a FIN stands at the end of the last range, and has a number in it.
    pub fin: bool,
    is_vacant: bool,
    next_vacant: u32,
    /// Where the newest one begins: it is told first (RFC 2018 §4).
    newest: Seq,
    /// What came twice, to be told once (RFC 2883 §4).
    pub duplicate: Option<Range>,
}

impl Slot for Ranges {
    fn vacant(next: u32) -> Ranges {
        Ranges { is_vacant: true, next_vacant: next, ..Ranges::EMPTY }
    }

    fn next_vacant(&self) -> Option<u32> {
        self.is_vacant.then_some(self.next_vacant)
    }
}

impl Ranges {
    /// No ranges.
    pub const EMPTY: Ranges = Ranges {
        ranges: [Range::new(Seq(0), Seq(0)); RANGES_MAX],
        len: 0,
        fin: false,
        is_vacant: false,
        next_vacant: NONE,
        newest: Seq(0),
        duplicate: None,
    };

    /// The ranges in order.
    #[inline]
    pub fn as_slice(&self) -> &[Range] {
        self.ranges.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many numbers they hold in all.
    pub fn total(&self) -> u32 {
        self.as_slice().iter().map(|range| range.len()).sum()
    }

    /// How many of the numbers in `within` they hold.
    pub fn count_in(&self, within: Range) -> u32 {
        let common = |range: &Range| {
            let (start, end) = (range.start.max(within.start), range.end.min(within.end));
            if start.is_before(end) { end.since(start) } else { 0 }
        };
        self.as_slice().iter().map(common).sum()
    }

    /// The range that holds `seq`.
    pub fn holding(&self, seq: Seq) -> Option<Range> {
        self.as_slice().iter().copied().find(|range| seq.is_in(range.start, range.len()))
    }

    /// The first range that begins at `seq` or behind it.
    pub fn following(&self, seq: Seq) -> Option<Range> {
        self.as_slice().iter().copied().find(|range| !range.start.is_before(seq))
    }

    /// The first run of numbers in `within` that they hold; `None` where they hold none.
    pub fn first_in(&self, within: Range) -> Option<Range> {
        let common =
            |range: &Range| Range::new(range.start.max(within.start), range.end.min(within.end));
        self.as_slice().iter().map(common).find(|common| common.start.is_before(common.end))
    }

    /// The last range.
    pub fn last(&self) -> Option<Range> {
        self.as_slice().last().copied()
    }

    /// Adds `added`, which is not empty. How many of its numbers are new; `None` when there is no room for one range more.
    pub fn insert(&mut self, added: Range) -> Option<u32> {
        let fresh = added.len() - self.count_in(added);
        let ranges = self.as_slice();
        // Those before it, those that touch it, those behind it.
        let first = ranges.iter().take_while(|range| range.end.is_before(added.start)).count();
        let behind =
            ranges.iter().skip(first).take_while(|range| !range.start.is_after(added.end)).count()
                + first;
        let mut merged = added;
        for range in ranges.get(first..behind).unwrap_or_default() {
            merged = Range::new(merged.start.min(range.start), merged.end.max(range.end));
        }
        let len = ranges.len();
        if first == behind {
            if len == RANGES_MAX {
                return None;
            }
            self.ranges.copy_within(first..len, first + 1);
            self.len += 1;
        } else {
            self.ranges.copy_within(behind..len, first + 1);
            self.len = (len - (behind - first) + 1) as u8;
        }
        if let Some(slot) = self.ranges.get_mut(first) {
            *slot = merged;
        }
        self.newest = merged.start;
        Some(fresh)
    }

    /// Removes all numbers before `seq`.
    pub fn remove_before(&mut self, seq: Seq) {
        let len = usize::from(self.len);
        let gone = self.as_slice().iter().take_while(|range| !range.end.is_after(seq)).count();
        self.ranges.copy_within(gone..len, 0);
        self.len = (len - gone) as u8;
        if let Some(first) =
            self.ranges.first_mut().filter(|first| gone < len && first.start.is_before(seq))
        {
            first.start = seq;
        }
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The ranges in the order in which a receiver tells them: the one of the newest segment, then those with the highest
    /// numbers.
    pub fn told(&self) -> impl Iterator<Item = Range> {
        let newest = self.holding(self.newest);
        newest.into_iter().chain(
            self.as_slice().iter().rev().copied().filter(move |range| Some(*range) != newest),
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(start: u32, end: u32) -> Range {
        Range::new(Seq(start), Seq(end))
    }

    #[test]
    fn a_set_that_is_full_refuses_one_range_more_and_takes_what_touches() {
        let mut ranges = Ranges::EMPTY;
        for at in 0..RANGES_MAX as u32 {
            assert_eq!(ranges.insert(range(at * 10, at * 10 + 5)), Some(5));
        }
        assert_eq!(ranges.insert(range(1000, 1001)), None);
        assert_eq!(ranges.insert(range(5, 10)), Some(5));
        assert_eq!(ranges.as_slice()[0], range(0, 15));
        assert_eq!(ranges.insert(range(0, 1000)), Some(1000 - 32 * 5 - 5));
        assert_eq!(ranges.as_slice(), [range(0, 1000)]);
    }

    #[test]
    fn the_range_of_the_newest_segment_is_told_first() {
        let mut ranges = Ranges::EMPTY;
        for start in [100, 300, 200] {
            ranges.insert(range(start, start + 10));
        }
        let told: Vec<Range> = ranges.told().collect();
        assert_eq!(told, [range(200, 210), range(300, 310), range(100, 110)]);
    }

    proptest! {
        /// The model: a bit for each number, around the end of the circle.
        #[test]
        fn sets_agree_with_bits(
            base in prop::sample::select(vec![0_u32, u32::MAX - 60, 1 << 31]),
            steps in prop::collection::vec((any::<bool>(), 0..120_u32, 1..20_u32), 0..60),
        ) {
            let (mut ranges, mut model) = (Ranges::EMPTY, [false; 160]);
            for (insert, at, len) in steps {
                let seq = Seq(base).plus(at);
                if insert {
                    let bits = &mut model[at as usize..(at + len) as usize];
                    let fresh = bits.iter().filter(|bit| !**bit).count() as u32;
                    if let Some(added) = ranges.insert(Range::new(seq, seq.plus(len))) {
                        prop_assert_eq!(added, fresh);
                        bits.fill(true);
                    } else {
                        prop_assert_eq!(ranges.as_slice().len(), RANGES_MAX);
                    }
                } else if len < 4 {
                    ranges.remove_before(seq);
                    model[..at as usize].fill(false);
                }
                prop_assert_eq!(ranges.total() as usize, model.iter().filter(|bit| **bit).count());
                for (at, bit) in model.iter().enumerate() {
                    prop_assert_eq!(ranges.holding(Seq(base).plus(at as u32)).is_some(), *bit);
                }
                let within = Range::new(seq, seq.plus(len));
                let bits = model[at as usize..(at + len) as usize].iter().filter(|bit| **bit).count();
                prop_assert_eq!(ranges.count_in(within) as usize, bits);
                let first = (at..at + len).find(|at| model[*at as usize]).map(|first| {
                    let end = (first..at + len).find(|at| !model[*at as usize]);
                    Range::new(Seq(base).plus(first), Seq(base).plus(end.unwrap_or(at + len)))
                });
                prop_assert_eq!(ranges.first_in(within), first);
                for pair in ranges.as_slice().windows(2) {
                    prop_assert!(pair[0].end.is_before(pair[1].start), "they touch");
                }
            }
        }
    }
}
