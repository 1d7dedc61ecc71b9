//! What a histogram of a report says: its quantiles, and the five numbers and outliers of a box plot.
//!
//! Reports come from files too, so nothing is assumed of the buckets: neither their order nor that their counts add up.

use crate::model::Stats;

/// A histogram with its buckets in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    /// Values by bucket: the middle of each and how many there are up to its end.
    buckets: Vec<(f64, f64)>,
    min: f64,
    max: f64,
    total: f64,
}

/// What a box plot shows (Tukey, Exploratory Data Analysis, 1977).
#[derive(Clone, Debug, PartialEq)]
pub struct Boxed {
    /// The smallest value.
    pub min: f64,
    /// The end of the lower whisker: the smallest value within 1.5 interquartile ranges of the lower quartile.
    pub low: f64,
    /// Quartiles: 25, 50 and 75 %.
    pub quartiles: [f64; 3],
    /// The end of the upper whisker.
    pub high: f64,
    /// The largest value.
    pub max: f64,
    /// Values beyond the whiskers, with the count of each place, thinned to [`OUTLIERS`] places.
    pub outliers: Vec<(f64, u64)>,
}

/// Places of outliers that are kept on each side.
pub const OUTLIERS: usize = 24;
/// How far whiskers reach, in interquartile ranges.
const WHISKERS: f64 = 1.5;

impl Quantiles {
    /// Of a distribution of a report; `None` without a histogram.
    pub fn of(stats: &Stats) -> Option<Quantiles> {
        let mut parts: Vec<(f64, u64)> = stats
            .histogram
            .iter()
            .filter(|bucket| bucket.2 > 0)
            // the middle as percentiles of reports have it: a whole number
            .map(|bucket| (((bucket.0 as f64 + bucket.1 as f64) / 2.0).floor(), bucket.2))
            .collect();
        // values that the histogram does not hold are below it
        if stats.below_histogram > 0 {
            let least = stats.min.map_or(0.0, |min| min as f64);
            parts.push((least, stats.below_histogram));
        }
        parts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (parts.first()?.0, parts.last()?.0);
        let min = stats.min.map_or(first, |min| min as f64);
        let max = stats.max.map_or(last, |max| max as f64).max(min);
        let mut total = 0.0;
        let buckets = parts.into_iter().map(|(value, count)| {
            total += count as f64;
            (value.clamp(min, max), total)
        });
        let buckets = buckets.collect();
        Some(Quantiles { buckets, min, max, total })
    }

    /// Of values as they are; `None` without one. What is not a number is left out.
    pub fn of_values(values: &[f64]) -> Option<Quantiles> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let mut upto = 0.0;
        let equal = sorted.chunk_by(|a, b| a == b).filter_map(|of| {
            upto += of.len() as f64;
            Some((*of.first()?, upto))
        });
        let buckets = equal.collect();
        Some(Quantiles { buckets, min, max, total: sorted.len() as f64 })
    }

    /// The share of 0 to 1 of all values that is not above this one.
    pub fn share_upto(&self, value: f64) -> f64 {
        let above = self.buckets.partition_point(|(at, _)| *at <= value);
        let upto = above.checked_sub(1).and_then(|at| self.buckets.get(at));
        upto.map_or(0.0, |(_, upto)| upto / self.total)
    }

    /// How many values there are.
    pub fn count(&self) -> f64 {
        self.total
    }

    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The value that a share of 0 to 1 of all values does not exceed.
    pub fn at(&self, share: f64) -> f64 {
        if share >= 1.0 {
            return self.max;
        }
        // as `Stats::quantile`: 99.9 / 100 times 1,000 is a little more than 999 in binary
        let rank = share * self.total * (1.0 - 1e-12);
        let at = self.buckets.partition_point(|(_, upto)| *upto < rank);
        self.buckets.get(at).map_or(self.max, |(value, _)| *value)
    }

    /// Its box plot.
    pub fn boxed(&self) -> Boxed {
        let quartiles = [0.25, 0.5, 0.75].map(|share| self.at(share));
        let reach = (quartiles[2] - quartiles[0]) * WHISKERS;
        let (from, to) = (quartiles[0] - reach, quartiles[2] + reach);
        let inside = |value: &f64| (from..=to).contains(value);
        let mut before = 0.0;
        let mut counts = Vec::with_capacity(self.buckets.len());
        for (value, upto) in &self.buckets {
            counts.push((*value, (upto - before) as u64));
            before = *upto;
        }
        let within = || counts.iter().map(|(value, _)| *value).filter(inside);
        let low = within().reduce(f64::min).unwrap_or(quartiles[0]);
        let high = within().reduce(f64::max).unwrap_or(quartiles[2]);
        let (low, high) = (
            if inside(&self.min) { self.min } else { low },
            if inside(&self.max) { self.max } else { high },
        );
        let below: Vec<_> = counts.iter().copied().filter(|(value, _)| *value < from).collect();
        let above: Vec<_> = counts.iter().copied().filter(|(value, _)| *value > to).collect();
        let outliers = thinned(&below).into_iter().chain(thinned(&above)).collect();
        Boxed { min: self.min, low, quartiles, high, max: self.max, outliers }
    }
}

/// The same values in at most [`OUTLIERS`] places, with all counts: neighbours are put together, at the one with the most.
fn thinned(all: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let places = all.len().min(OUTLIERS);
    (0..places)
        .filter_map(|place| {
            let part = all.get(place * all.len() / places..(place + 1) * all.len() / places)?;
            let most = part.iter().max_by_key(|(_, count)| *count)?;
            let count = part.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
            Some((most.0, count))
        })
        .collect()
}
