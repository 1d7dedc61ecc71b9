//! Records that leave later than their turn: they wait here, with copies of their data, and what was read is free for
//! what comes next. However long they wait, no buffer waits with them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wirebeat_traffic::program::Recorded;
use wirebeat_units::Nanos;

/// The most that can wait at once, and their bytes.
const MOST: usize = 1 << 20;
const MOST_BYTES: usize = 256 << 20;

/// Records that wait.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    /// When they leave, and where they are in `held`.
    waiting: BinaryHeap<Reverse<(Nanos, u32)>>,
    held: Vec<Held>,
    bytes: usize,
    /// Places in `held` that are free.
    free: Vec<u32>,
    /// Places that were taken and may still be looked at, in the order in which they were.
    taken: VecDeque<u32>,
}

/// A record.
#[derive(Debug, Default)]
struct Held {
    number: u64,
    sub_flow: u64,
    tag: u16,
    sequence: Option<u32>,
    /// How much later than its turn it leaves.
    later: Nanos,
    data: Vec<u8>,
}

impl Delayed {
    /// Whether none waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the first leaves, and its place.
    #[inline]
    pub(super) fn first(&self) -> Option<(Nanos, u32)> {
        self.waiting.peek().map(|Reverse(first)| *first)
    }

    /// Lets a record wait until `at`, `later` than its turn; its place, or `None` where there is no room for it.
    pub(super) fn wait(
        &mut self,
        (at, later): (Nanos, Nanos),
        record: Recorded<'_>,
        sequence: Option<u32>,
    ) -> Option<u32> {
        if self.waiting.len() >= MOST || self.bytes + record.data.len() > MOST_BYTES {
            return None;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.held.push(Held::default());
            self.held.len() as u32 - 1
        });
        let held = self.held.get_mut(place as usize)?;
        (held.number, held.sub_flow, held.tag) = (record.number, record.sub_flow, record.tag);
        (held.sequence, held.later) = (sequence, later);
        held.data.clear();
        held.data.extend_from_slice(record.data);
        self.bytes += record.data.len();
        self.waiting.push(Reverse((at, place)));
        Some(place)
    }

    /// Takes the first, which can be looked at until it is settled: its place, its number, and how much later than its
    /// turn it leaves.
    pub(super) fn take(&mut self) -> Option<(u32, u64, Nanos)> {
        let Reverse((_, place)) = self.waiting.pop()?;
        self.taken.push_back(place);
        let held = self.held.get(place as usize)?;
        Some((place, held.number, held.later))
    }

    /// All but the last so many that were taken are not looked at any more.
    pub(super) fn settle(&mut self, pending: impl FnOnce() -> usize) {
        if self.taken.is_empty() {
            return;
        }
        let settled = self.taken.len().saturating_sub(pending());
        for place in self.taken.drain(..settled) {
            self.bytes -= self.held.get(place as usize).map_or(0, |held| held.data.len());
            self.free.push(place);
        }
    }

    /// The record at a place, and the sequence number that it was given.
    #[inline]
    pub(super) fn get(&self, place: u32) -> Option<(Recorded<'_>, Option<u32>)> {
        let Held { number, sub_flow, tag, sequence, data, .. } = self.held.get(place as usize)?;
        let of = Recorded { number: *number, sub_flow: *sub_flow, tag: *tag, data, sum: None };
        Some((of, *sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_leave_in_the_order_of_their_times_and_their_room_is_used_again() {
        let mut delayed = Delayed::default();
        let mut left = Vec::new();
        for round in 0..5000_u64 {
            for n in [3, 1, 2] {
                let (number, data) = (round * 10 + n, [n as u8; 5]);
                let record =
                    Recorded { number, sub_flow: n, tag: n as u16, data: &data, sum: None };
                let at = (Nanos::new(number), Nanos::new(n));
                assert!(delayed.wait(at, record, Some(n as u32)).is_some());
            }
            while let Some((at, place)) = delayed.first() {
                let taken = delayed.take().unwrap();
                let (record, sequence) = delayed.get(place).unwrap();
                assert_eq!(taken, (place, record.number, Nanos::new(record.sub_flow)));
                assert_eq!(sequence, Some(record.sub_flow as u32));
                assert_eq!(
                    (record.number, record.data),
                    (at.get(), &[record.sub_flow as u8; 5][..])
                );
                left.push(record.number);
            }
            delayed.settle(|| 2);
        }
        assert!(delayed.is_empty() && left.is_sorted() && left.len() == 15_000);
        assert_eq!(delayed.held.len(), 5, "three of a round, and two that may be looked at");
        delayed.settle(|| 0);
        assert_eq!((delayed.free.len(), delayed.bytes), (5, 0));
    }

    #[test]
    fn there_is_an_end_to_what_waits() {
        let mut delayed = Delayed::default();
        let record = Recorded { number: 0, sub_flow: 0, tag: 0, data: &vec![0; 60_000], sum: None };
        let at = (Nanos::ZERO, Nanos::ZERO);
        let waited = (0..10_000).take_while(|_| delayed.wait(at, record, None).is_some()).count();
        assert_eq!(waited, MOST_BYTES / 60_000);
    }
}
