//! What a sender measures of the departures of frames that have deadlines.

use serde::{Deserialize, Serialize};
use wirebeat_units::Nanos;

use crate::distribution::Recorder;
use crate::summary::{Distribution, Moments};

/// Departures of a flow, all in ns.
///
/// A gap is the time from one departure of the flow to the next. What is dropped because it is late has none: the gap is then
/// that between those before and behind it, and so is the planned one. Several transmit cores measure each its own share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departures {
    /// Departure less deadline.
    pub lateness: Distribution,
    /// Gaps.
    #[serde(default)]
    pub gap: Distribution,
    /// Gaps less the planned ones, of those that were not shorter.
    #[serde(default)]
    pub longer: Distribution,
    /// The planned gaps less these, of those that were shorter.
    #[serde(default)]
    pub shorter: Distribution,
}

impl Departures {
    /// Adds those of another core, or of another flow.
    pub fn merge(&mut self, other: &Departures) {
        self.each_mut().into_iter().zip(other.each()).for_each(|(all, more)| all.merge(more));
    }

    /// Adds histograms that several share, where they are those of the values that are missing.
    pub fn complete(&mut self, shared: &Departures) {
        let each = self.each_mut().into_iter().zip(shared.each());
        each.for_each(|(all, shared)| all.complete(&shared.buckets));
    }

    /// Absolute differences of gaps and planned gaps.
    pub fn gap_error(&self) -> Distribution {
        let mut all = self.longer.clone();
        all.merge(&self.shorter);
        all
    }

    /// All of them.
    pub fn each(&self) -> [&Distribution; 4] {
        [&self.lateness, &self.gap, &self.longer, &self.shorter]
    }

    /// All of them.
    pub fn each_mut(&mut self) -> [&mut Distribution; 4] {
        [&mut self.lateness, &mut self.gap, &mut self.longer, &mut self.shorter]
    }
}

/// What keeps the values of one distribution.
trait Keeps: Default {
    fn record(&mut self, value: i64);
    fn distribution(&self) -> Distribution;
}

impl Keeps for Recorder {
    #[inline]
    fn record(&mut self, value: i64) {
        Recorder::record(self, value);
    }

    fn distribution(&self) -> Distribution {
        Recorder::distribution(self)
    }
}

/// Moments, and how many values are negative: all but the histogram.
#[derive(Clone, Copy, Debug, Default)]
struct Bare {
    moments: Moments,
    negative: u64,
}

impl Keeps for Bare {
    fn record(&mut self, value: i64) {
        self.moments.record(value);
        self.negative += u64::from(value < 0);
    }

    fn distribution(&self) -> Distribution {
        Distribution { moments: self.moments, negative: self.negative, buckets: Vec::new() }
    }
}

/// All distributions of departures.
#[derive(Clone, Debug, Default)]
struct All<K> {
    lateness: K,
    gap: K,
    longer: K,
    shorter: K,
}

/// What one departure adds: its lateness, and where there was one before it the gap and by how much that was too long.
type Values = (i64, Option<(i64, i64)>);

impl<K: Keeps> All<K> {
    #[inline]
    fn record(&mut self, (late, gap): Values) {
        self.lateness.record(late);
        let Some((gap, error)) = gap else { return };
        self.gap.record(gap);
        match error < 0 {
            true => self.shorter.record(error.saturating_neg()),
            false => self.longer.record(error),
        }
    }

    fn departures(&self) -> Departures {
        Departures {
            lateness: self.lateness.distribution(),
            gap: self.gap.distribution(),
            longer: self.longer.distribution(),
            shorter: self.shorter.distribution(),
        }
    }
}

/// The departure before.
#[derive(Clone, Copy, Debug, Default)]
struct Last(Option<(Nanos, i64)>);

impl Last {
    #[inline]
    fn next(&mut self, at: Nanos, late: i64) -> Values {
        let last = self.0.replace((at, late));
        (late, last.map(|(before, was)| (at.signed_sub(before), late.saturating_sub(was))))
    }
}

/// Departures that are being recorded.
#[derive(Clone, Debug, Default)]
pub struct DepartureRecorder {
    last: Last,
    all: All<Recorder>,
}

impl DepartureRecorder {
    /// A frame left at `at`, so many nanoseconds after its deadline.
    #[inline]
    pub fn record(&mut self, at: Nanos, late: i64) {
        let values = self.last.next(at, late);
        self.all.record(values);
    }

    /// What was recorded so far.
    pub fn departures(&self) -> Departures {
        self.all.departures()
    }
}

/// Departures of one of many flows, without histograms: the flows share one of each kind.
#[derive(Clone, Debug, Default)]
pub struct DepartureMoments {
    last: Last,
    all: All<Bare>,
}

impl DepartureMoments {
    /// A frame left at `at`, so many nanoseconds after its deadline: counted here, and in the histograms that are shared.
    pub fn record(&mut self, at: Nanos, late: i64, shared: &mut SharedDepartures) {
        let values = self.last.next(at, late);
        self.all.record(values);
        shared.0.record(values);
    }

    /// What was recorded so far, without buckets.
    pub fn departures(&self) -> Departures {
        self.all.departures()
    }
}

/// The histograms of many flows together.
#[derive(Clone, Debug, Default)]
pub struct SharedDepartures(All<Recorder>);

impl SharedDepartures {
    /// The buckets of all: their moments are those of the flows.
    pub fn buckets(&self) -> Departures {
        let mut all = self.0.departures();
        for of in all.each_mut() {
            let buckets = std::mem::take(&mut of.buckets);
            *of = Distribution { buckets, ..Distribution::default() };
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deadlines each 100 ns, and by how much they were missed.
    fn left() -> impl Iterator<Item = (Nanos, i64)> {
        let late = [0_i64, 30, 10, 10, -5, 250];
        (1_i64..).zip(late).map(|(n, late)| (Nanos::new((n * 100 + late).unsigned_abs()), late))
    }

    #[test]
    fn gaps_are_too_long_or_too_short_by_what_lateness_changes() {
        let mut recorder = DepartureRecorder::default();
        left().for_each(|(at, late)| recorder.record(at, late));
        let departures = recorder.departures();
        let range = |of: &Distribution| (of.moments.count, of.moments.min, of.moments.max);
        assert_eq!(range(&departures.lateness), (6, -5, 250));
        assert_eq!(range(&departures.gap), (5, 80, 355));
        // +30, 0 and +255; -20 and -15
        assert_eq!(range(&departures.longer), (3, 0, 255));
        assert_eq!(range(&departures.shorter), (2, 15, 20));
        assert_eq!(range(&departures.gap_error()), (5, 0, 255));
        assert_eq!(departures.gap_error().moments.sum, 30 + 20 + 15 + 255);
    }

    #[test]
    fn flows_that_share_histograms_have_exact_moments_and_complete_together() {
        let (mut flows, mut shared) =
            (vec![DepartureMoments::default(); 2], SharedDepartures::default());
        let mut reference = DepartureRecorder::default();
        for (at, late) in left() {
            flows.iter_mut().for_each(|flow| flow.record(at, late, &mut shared));
            reference.record(at, late);
        }
        let (mut all, one) = (flows[0].departures(), reference.departures());
        for (of, expected) in all.each().into_iter().zip(one.each()) {
            assert_eq!(of.moments, expected.moments);
            assert_eq!(of.missing(), expected.moments.count - expected.negative);
        }
        all.merge(&flows[1].departures());
        all.complete(&shared.buckets());
        let mut twice = one.clone();
        twice.merge(&one);
        assert_eq!(all, twice);
    }
}
