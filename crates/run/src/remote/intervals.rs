//! Intervals over a control connection: what a sender asks for, and what a receiver tells of them.
//!
//! A receiver tells each part once. Parts are of bounded length, so that a message is; several may be of one interval, and
//! the sender adds them.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use wirebeat_meter::interval::{Beat, MeterBooks};
use wirebeat_meter::series::Series;
use wirebeat_traffic::scenario::RunSpec;
use wirebeat_units::Nanos;

/// Buckets of histograms in a part, and a little more: a flow is in one piece, and has 3,968 at most.
const PART: usize = 16_384;
/// Parts in a message: 4 MiB hold them, with up to 25 bytes for a bucket.
const PARTS: usize = 8;
/// Parts of intervals that a sender takes at most before somebody adds them up.
pub const PARTS_MAX: usize = 4096;
/// Bytes of what a sender was told of intervals and nobody has added up: those of a result at the most.
pub const TOLD_MAX: usize = 128 << 20;
/// Entries that a receiver keeps for a sender that does not ask.
pub const ROOM: usize = 64;

/// When intervals end, by the receiver's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedIntervals {
    /// When the first one begins, in ns.
    pub start_ns: u64,
    /// How long each is, in ns.
    pub length_ns: u64,
    /// The number of the one with which sending ends, where that is known.
    pub last: Option<u64>,
}

/// What was measured in one interval, or in several that are not told apart: a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldInterval {
    /// The number of the first interval.
    pub first: u64,
    /// How many they are.
    pub intervals: u64,
    /// What was measured.
    pub books: MeterBooks,
}

/// What a receiver tells of intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldIntervals {
    /// All intervals with a number below this have been told.
    pub complete: u64,
    /// What has not been told before.
    pub parts: Vec<ToldInterval>,
}

impl ToldIntervals {
    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.books.bytes()).sum()
    }
}

impl AskedIntervals {
    /// Intervals that end as `beat` says, on a clock that is so far ahead.
    pub fn of(beat: Beat, ahead_ns: i64) -> AskedIntervals {
        AskedIntervals {
            start_ns: beat.start.get().saturating_add_signed(ahead_ns),
            length_ns: beat.length.get(),
            last: beat.last,
        }
    }

    /// The same here; not shorter than intervals may be.
    pub fn beat(&self) -> Beat {
        Beat {
            start: Nanos::new(self.start_ns),
            length: Nanos::new(self.length_ns).max(RunSpec::SHORTEST_INTERVAL),
            last: self.last,
        }
    }
}

/// What a receiver has not told yet.
#[derive(Debug, Default)]
pub struct Untold {
    parts: VecDeque<ToldInterval>,
    complete: u64,
}

impl Untold {
    /// More was measured, and all intervals with a number below `complete` are over.
    pub fn add(&mut self, series: Series<MeterBooks>, complete: u64) {
        for (range, books) in series {
            let intervals = range.end - range.start;
            let part = |books| ToldInterval { first: range.start, intervals, books };
            self.parts.extend(divided(books).into_iter().map(part));
        }
        self.complete = complete;
    }

    /// As much of it as a message holds.
    pub fn tell(&mut self) -> ToldIntervals {
        let parts: Vec<_> = self.parts.drain(..self.parts.len().min(PARTS)).collect();
        let complete = self.parts.front().map_or(self.complete, |next| next.first);
        ToldIntervals { complete, parts }
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// Books in parts that are not too long.
fn divided(books: MeterBooks) -> Vec<MeterBooks> {
    let MeterBooks { flows, others, unprobed } = books;
    let mut parts = vec![MeterBooks { others, unprobed, ..MeterBooks::default() }];
    let mut buckets = 0;
    for (id, flow) in flows {
        buckets += flow.delay.buckets.len();
        if buckets > PART {
            buckets = flow.delay.buckets.len();
            parts.push(MeterBooks::default());
        }
        if let Some(part) = parts.last_mut() {
            part.flows.insert(id, flow);
        }
    }
    parts
}

/// What a sender was told of intervals, and nobody has taken.
#[derive(Debug)]
pub struct Heard {
    /// The numbers of the flows that were announced.
    flows: BTreeSet<u16>,
    series: Series<MeterBooks>,
    complete: u64,
    /// Bytes that may still be told until somebody takes them.
    room: usize,
}

impl Heard {
    /// Nothing, of these flows.
    pub fn new(flows: BTreeSet<u16>) -> Heard {
        Heard { flows, series: Series::new(ROOM), complete: 0, room: TOLD_MAX }
    }

    /// Takes what a receiver told. An error says what of it cannot be true.
    pub fn take_in(&mut self, told: ToldIntervals) -> Result<(), String> {
        if told.parts.len() > PARTS_MAX {
            return Err("it tells of more intervals at a time than it may".to_owned());
        }
        let room = self.room.checked_sub(told.bytes());
        self.room = room.ok_or_else(|| {
            format!("it tells more than {} MiB of intervals at a time", TOLD_MAX >> 20)
        })?;
        for ToldInterval { first, intervals, books } in told.parts {
            if books.flows.keys().any(|id| !self.flows.contains(id)) {
                return Err("it tells intervals of a flow that was not announced".to_owned());
            }
            if intervals == 0 {
                return Err("it tells of no interval".to_owned());
            }
            books.validate().map_err(|error| error.to_string())?;
            self.series.add_span(first..first.saturating_add(intervals), books);
        }
        self.complete = self.complete.max(told.complete);
        Ok(())
    }

    /// All of it, and below which number intervals are complete. Delays are by a clock that is so far ahead.
    pub fn take(&mut self, ahead_ns: i64) -> (Series<MeterBooks>, u64) {
        self.room = TOLD_MAX;
        let mut series = self.series.take();
        for (_, books) in series.iter_mut() {
            let flows = books.flows.values_mut().chain([&mut books.others, &mut books.unprobed]);
            for flow in flows {
                flow.delay_base = flow.delay_base.saturating_sub(ahead_ns);
            }
        }
        (series, self.complete)
    }
}

/// Keeps what was measured for a sender that has not asked.
#[derive(Debug)]
pub struct IntervalBacklog(Series<MeterBooks>);

impl Default for IntervalBacklog {
    fn default() -> Self {
        IntervalBacklog(Series::new(ROOM))
    }
}

impl IntervalBacklog {
    /// More was measured.
    pub fn add(&mut self, series: &Series<MeterBooks>) {
        self.0.merge(series.clone());
    }

    /// All of it.
    pub fn take(&mut self) -> Series<MeterBooks> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_meter::interval::FlowBooks;
    use wirebeat_meter::summary::{Distribution, Moments};

    use super::*;

    /// Books of a flow with so many buckets, one value in each.
    fn books(buckets: u16) -> FlowBooks {
        let count = u64::from(buckets);
        let moments = Moments {
            count,
            max: 5000,
            sum: 5000,
            sum_of_squares: 5000 * 5000,
            ..Moments::default()
        };
        let buckets = (0..buckets).map(|bucket| (bucket, 1)).collect();
        FlowBooks {
            frames: count,
            frame_bytes: count * 64,
            unique: count,
            delay: Distribution { moments, negative: 0, buckets },
            ..FlowBooks::default()
        }
    }

    fn told(flows: u16, buckets: u16) -> (MeterBooks, Heard) {
        let ids = 0..flows;
        let all = MeterBooks {
            flows: ids.clone().map(|id| (id, books(buckets))).collect(),
            ..MeterBooks::default()
        };
        (all, Heard::new(ids.collect()))
    }

    #[test]
    fn what_is_told_in_parts_is_the_same_together() {
        let (all, mut heard) = told(256, 3968);
        let mut series = Series::new(4);
        series.add(3, all.clone());
        let mut untold = Untold::default();
        untold.add(series, 5);
        let mut messages = 0;
        while !untold.is_empty() {
            let message = untold.tell();
            let bytes = serde_json::to_vec(&message).unwrap();
            assert!(bytes.len() < super::super::message::REPLY_LIMIT, "{}", bytes.len());
            assert!(messages == 0 || heard.complete <= 3);
            heard.take_in(serde_json::from_slice(&bytes).unwrap()).unwrap();
            messages += 1;
        }
        assert!(messages > 2);
        let (series, complete) = heard.take(0);
        let entries: Vec<_> = series.into_iter().collect();
        assert_eq!((entries, complete), (vec![(3..4, all)], 5));
    }

    #[test]
    fn what_is_told_at_a_time_is_bounded() {
        let (all, mut heard) = told(256, 3968);
        let parts = |first| vec![ToldInterval { first, intervals: 1, books: all.clone() }];
        let message = |first| ToldIntervals { complete: first, parts: parts(first) };
        let refused = (0..64).find_map(|first| heard.take_in(message(first)).err());
        let refused = refused.unwrap();
        assert!(refused.contains("more than 128 MiB of intervals at a time"), "{refused}");
        // as much again once it was taken
        let fits = TOLD_MAX / all.bytes();
        assert!(fits > 2, "{}", all.bytes());
        let kept: usize = heard.take(0).0.iter().map(|(_, books)| books.bytes()).sum();
        assert!(kept <= TOLD_MAX, "{kept}");
        assert!((0..fits as u64).all(|first| heard.take_in(message(first)).is_ok()));
        assert!(heard.take_in(message(fits as u64)).is_err());
    }

    #[test]
    fn what_cannot_be_true_is_not_taken() {
        let (all, _) = told(2, 10);
        let part = |first, intervals| ToldInterval { first, intervals, books: all.clone() };
        let take = |flows: &[u16], part| {
            let told = ToldIntervals { complete: 1, parts: vec![part] };
            Heard::new(flows.iter().copied().collect()).take_in(told)
        };
        assert_eq!(take(&[0, 1], part(u64::MAX, 7)), Ok(()));
        assert!(take(&[0], part(0, 1)).unwrap_err().contains("announced"));
        assert!(take(&[0, 1], part(0, 0)).unwrap_err().contains("no interval"));
        let mut lie = part(0, 1);
        lie.books.flows.get_mut(&1).unwrap().delay.buckets.push((9999, 1));
        assert!(take(&[0, 1], lie).unwrap_err().contains("bucket"));
    }
}
