//! How far records leave out of their order: how much later than their turn, and behind how many others.
//!
//! As a receiver of one queue sees it (RFC 4737 §4.2): a record is reordered when one with a higher number left before it,
//! and its extent is how many left since the first of those. Knows numbers and places, and no data.

use std::collections::VecDeque;

use wirebeat_meter::distribution::Recorder;
use wirebeat_meter::summary::Distribution;
use wirebeat_units::Nanos;

/// What left out of its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disorder {
    /// How much later than its turn each record was to leave that was delayed, in nanoseconds.
    pub later: Distribution,
    /// The extent of each record that left behind one with a higher number: departures since the first of those.
    pub extent: Distribution,
}

impl Disorder {
    /// Adds what another core found.
    pub fn merge(&mut self, other: &Disorder) {
        self.later.merge(&other.later);
        self.extent.merge(&other.extent);
    }
}

/// Takes it, on one core.
#[derive(Debug, Default)]
pub(super) struct DisorderCounter {
    /// Records that left.
    departures: u64,
    /// The highest number among them.
    highest: Option<u64>,
    /// Records that wait and that none with a higher number has left before, in the order of their numbers, with their
    /// places.
    unpassed: VecDeque<(u64, u32)>,
    /// By place: which departure was the first with a higher number.
    passed_at: Vec<u64>,
    later: Recorder,
    extent: Recorder,
}

impl DisorderCounter {
    /// The record whose turn it is begins to wait in a place.
    pub(super) fn wait(&mut self, number: u64, place: u32) {
        let least = place as usize + 1;
        if self.passed_at.len() < least {
            self.passed_at.resize(least, 0);
        }
        self.unpassed.push_back((number, place));
    }

    /// A record leaves in its turn.
    #[inline]
    pub(super) fn leave(&mut self, number: u64) {
        self.highest = Some(number);
        while let Some((waiting, place)) = self.unpassed.front().copied()
            && waiting <= number
        {
            self.unpassed.pop_front();
            if let Some(at) = self.passed_at.get_mut(place as usize) {
                *at = self.departures;
            }
        }
        self.departures += 1;
    }

    /// A record leaves from a place, so much later than its turn.
    pub(super) fn leave_later(&mut self, place: u32, number: u64, later: Nanos) {
        self.later.record(i64::try_from(later.get()).unwrap_or(i64::MAX));
        if self.highest.is_none_or(|highest| highest < number) {
            self.leave(number);
            return;
        }
        let passed_at = self.passed_at.get(place as usize).copied().unwrap_or(self.departures);
        self.extent.record(i64::try_from(self.departures - passed_at).unwrap_or(i64::MAX));
        self.departures += 1;
    }

    /// What was found.
    pub(super) fn found(&self) -> Disorder {
        Disorder { later: self.later.distribution(), extent: self.extent.distribution() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Departures of some records, those that wait with a place each; the extents by brute force.
    #[test]
    fn extents_are_those_that_a_receiver_sees() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 33
        };
        let mut counter = DisorderCounter::default();
        let (mut waiting, mut order) = (Vec::new(), Vec::new());
        for number in 0..2000_u64 {
            let leaves = |at: &(u64, u64)| at.0 <= number;
            while let Some(place) = waiting.iter().position(leaves) {
                let (_, late) = waiting.remove(place);
                counter.leave_later(late as u32, late, Nanos::new(late));
                order.push(late);
            }
            if random() % 5 == 0 {
                counter.wait(number, number as u32);
                waiting.push((number + random() % 20, number));
            } else {
                counter.leave(number);
                order.push(number);
            }
        }
        let first_higher = |at: usize| order[..at].iter().position(|other| *other > order[at]);
        let extents: Vec<i64> = (0..order.len())
            .filter_map(|at| first_higher(at).map(|first| (at - first) as i64))
            .collect();
        let found = counter.found();
        let mut expected = Recorder::default();
        extents.iter().for_each(|extent| expected.record(*extent));
        assert!(extents.len() > 200);
        assert_eq!(found.extent, expected.distribution());
    }
}
