//! Several sources as one, in the order of time.
//!
//! Each must be in order itself, as a [`Reader`](crate::time_series::Reader) sees to. Equal moments come in the order
//! in which the sources were given. Memory is one record of each source, and what the sources read ahead:
//! [`buffer`] says how much that should be.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::source::{Error, Source};
use crate::time_series::timestamp::Moment;
use crate::time_series::{Device, Record, Timestamp};

/// Bytes that all sources together read ahead, as far as they can do with so few.
const READ_AHEAD: usize = 64 << 20;

/// How many bytes each of so many archives should read ahead.
pub fn buffer(archives: usize) -> usize {
    READ_AHEAD / archives.max(1)
}

/// The records of several sources by time.
#[derive(Debug)]
pub struct Merge<S> {
    sources: Vec<S>,
    /// The sources that are at a record, by its moment and their number.
    heads: BinaryHeap<Reverse<(Moment, usize)>>,
    state: MergeState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeState {
    /// No source was asked for anything.
    New,
    /// The source at the top of the heap is at the current record.
    Going,
    /// All records were there, or one source ended with an error.
    Ended,
}

impl<S: Source> Merge<S> {
    /// Of these.
    pub fn new(sources: Vec<S>) -> Merge<S> {
        Merge { heads: BinaryHeap::with_capacity(sources.len()), sources, state: MergeState::New }
    }

    /// What it reads.
    pub fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Goes to the first record of each.
    fn begin(&mut self) -> Result<(), Error> {
        for (number, source) in self.sources.iter_mut().enumerate() {
            if source.advance()? {
                self.heads.push(Reverse((source.record().time.moment(), number)));
            }
        }
        Ok(())
    }

    /// Goes to the next record of the source whose record was the last.
    #[inline]
    fn step(&mut self) -> Result<(), Error> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(()) };
        let Some(source) = self.sources.get_mut(head.0.1) else { return Ok(()) };
        if source.advance()? {
            head.0.0 = source.record().time.moment();
        } else {
            PeekMut::pop(head);
        }
        Ok(())
    }
}

impl<S: Source> Source for Merge<S> {
    fn advance(&mut self) -> Result<bool, Error> {
        let before = std::mem::replace(&mut self.state, MergeState::Ended);
        match before {
            MergeState::New => self.begin()?,
            MergeState::Going => self.step()?,
            MergeState::Ended => return Ok(false),
        }
        if !self.heads.is_empty() {
            self.state = MergeState::Going;
        }
        Ok(self.state == MergeState::Going)
    }

    fn record(&self) -> Record<'_> {
        let source = self.heads.peek().and_then(|head| self.sources.get(head.0.1));
        let none = Record { time: Timestamp::EPOCH, device: Default::default(), data: &[] };
        source.map_or(none, Source::record)
    }

    fn name(&self, device: Device) -> Option<&str> {
        self.sources.iter().find_map(|source| source.name(device))
    }

    fn position(&self) -> u64 {
        self.sources.iter().map(Source::position).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time_series::{Reader, Reading, Writer};

    /// An archive of device `number`, whose data says which of its records it is.
    fn archive(number: usize, times: &[i64]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        for (count, &us) in times.iter().enumerate() {
            let time = Timestamp::utc(us).unwrap();
            let data = [count as u8];
            writer
                .write(&Record { time, device: Device([number as u8; 16]), data: &data })
                .unwrap();
        }
        writer.finish().unwrap()
    }

    fn merged(archives: &[Vec<u8>]) -> Result<Vec<(i64, u8, u8)>, Error> {
        let reader = |(number, bytes): (usize, &Vec<u8>)| {
            let bytes = std::io::Cursor::new(bytes.clone());
            Reader::new(bytes, format!("archive {number}"), Reading::default())
                .with_buffer(buffer(archives.len()))
        };
        let mut merge = Merge::new(archives.iter().enumerate().map(reader).collect());
        let mut all = Vec::new();
        while merge.advance()? {
            let record = merge.record();
            all.push((record.time.unix_us(), record.device.0[0], record.data[0]));
        }
        assert_eq!(merge.position(), archives.iter().map(|bytes| bytes.len() as u64).sum::<u64>());
        assert!(!merge.advance()?);
        Ok(all)
    }

    #[test]
    fn equal_moments_come_in_the_order_of_the_archives() {
        let archives = [archive(0, &[1, 3, 3]), archive(1, &[0, 3]), archive(2, &[])];
        let expected = [(0, 1, 0), (1, 0, 0), (3, 0, 1), (3, 0, 2), (3, 1, 1)];
        assert_eq!(merged(&archives).unwrap(), expected);
        assert_eq!(merged(&[]).unwrap(), []);
    }

    #[test]
    fn an_archive_that_is_out_of_order_is_named() {
        let error = merged(&[archive(0, &[1, 2]), archive(1, &[5, 4])]).unwrap_err();
        assert!(error.to_string().starts_with("archive 1: record 1 at byte 31: "), "{error}");
    }

    #[test]
    fn a_thousand_archives_are_merged() {
        let archives: Vec<Vec<u8>> =
            (0..1_000).map(|number| archive(number % 256, &[number as i64, 5_000])).collect();
        let all = merged(&archives).unwrap();
        assert_eq!(all.len(), 2_000);
        assert!(all.is_sorted_by_key(|&(us, ..)| us));
    }

    proptest! {
        /// As a stable sort of all of them one after another.
        #[test]
        fn it_is_a_stable_sort(
            lists in prop::collection::vec(prop::collection::vec(0..20_i64, 0..20), 0..8)
        ) {
            let lists: Vec<Vec<i64>> = lists
                .into_iter()
                .map(|mut list| {
                    list.sort();
                    list
                })
                .collect();
            let archives: Vec<Vec<u8>> =
                lists.iter().enumerate().map(|(number, list)| archive(number, list)).collect();
            let mut expected: Vec<(i64, u8, u8)> = lists
                .iter()
                .enumerate()
                .flat_map(|(number, list)| {
                    list.iter().enumerate().map(move |(count, &us)| (us, number as u8, count as u8))
                })
                .collect();
            expected.sort_by_key(|&(us, ..)| us);
            prop_assert_eq!(merged(&archives).unwrap(), expected);
        }
    }
}
