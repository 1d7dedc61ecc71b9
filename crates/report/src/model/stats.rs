//! A distribution as a report shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_meter::histogram::{highest, lowest};
use wirebeat_meter::summary::{Distribution, LinearBins, Moments};

/// A distribution. Count, minimum, maximum, mean and standard deviation are exact; percentiles are
/// within 0.4 % (RFC 5481 delay variation: of the delay that it was derived from).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// How many values.
    pub count: u64,
    /// The smallest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
    /// Their mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// The sample standard deviation; `null` for fewer than two values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_deviation: Option<f64>,
    /// Percentiles.
    #[serde(default, skip_serializing_if = "Percentiles::is_unknown")]
    pub percentiles: Percentiles,
    /// Values that the histogram does not hold because they are negative (delays across hosts: below
    /// the base that was taken off them). Percentiles among them are `null`.
    pub below_histogram: u64,
    /// Values whose magnitude is below this are not given (`null`, and one bucket in the histogram),
    /// because the clocks are not exact enough; `null` when all are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertain_below: Option<u64>,
    /// The histogram: the buckets that are not empty, each as `[lowest, highest, count]`. The last
    /// possible bucket also collects everything above 2^37 - 1. Left out when it is empty (nothing was measured, or the flow
    /// shares its histogram with others and has no percentiles), and without `--histograms`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bucket>,
}

impl Stats {
    /// The value at quantile `q` of 0 to 1: that of rank `ceil(q * count)`, as exact as the percentiles.
    ///
    /// `None` when there is no value, when the histogram is not here or does not hold it, and when it is among those that
    /// are too uncertain to be given.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let Percentiles { p50, p90, p95, p99, p99_9, p99_99 } = self.percentiles;
        let known =
            [(0.5, p50), (0.9, p90), (0.95, p95), (0.99, p99), (0.999, p99_9), (0.9999, p99_99)];
        let known = known.iter().find(|(known, _)| (q - known).abs() < 1e-12);
        if let Some(value) = known.and_then(|(_, value)| *value) {
            return Some(value as f64);
        }
        let held: u64 = self.histogram.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.2));
        if self.count == 0 || held.saturating_add(self.below_histogram) != self.count {
            return None;
        }
        // 0.95 times 100 is a little more than 95 in binary
        let rank = (q * self.count as f64 * (1.0 - 1e-12)).ceil().max(1.0) as u64;
        let mut left = rank.checked_sub(self.below_histogram).filter(|left| *left > 0)?;
        let bucket = self.histogram.iter().find(|bucket| {
            let here = left <= bucket.2;
            left = left.saturating_sub(bucket.2);
            here
        })?;
        let uncertain =
            self.uncertain_below.map_or(0, |bound| i64::try_from(bound).unwrap_or(i64::MAX));
        if uncertain > 0 && bucket.0 < uncertain && bucket.1 > -uncertain {
            return None;
        }
        let middle = bucket.0 as f64 + (bucket.1 as f64 - bucket.0 as f64) / 2.0;
        let (min, max) = (self.min.map(|min| min as f64), self.max.map(|max| max as f64));
        Some(middle.max(min.unwrap_or(middle)).min(max.unwrap_or(middle)))
    }

    /// Leaves the numbers that the distribution comes to.
    pub fn forget_histogram(&mut self) {
        self.histogram = Vec::new();
    }
}

/// The percentiles of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// The median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<i64>,
    /// The 90th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<i64>,
    /// The 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<i64>,
    /// The 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<i64>,
    /// The 99.9th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_9: Option<i64>,
    /// The 99.99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_99: Option<i64>,
}

impl Percentiles {
    /// Whether none of them is known.
    fn is_unknown(&self) -> bool {
        *self == Percentiles::default()
    }

    /// All of them, in order.
    pub fn each_mut(&mut self) -> [&mut Option<i64>; 6] {
        let Percentiles { p50, p90, p95, p99, p99_9, p99_99 } = self;
        [p50, p90, p95, p99, p99_9, p99_99]
    }
}

/// A bucket of a histogram: lowest value, highest value, how many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket(pub i64, pub i64, pub u64);

/// A histogram with bins of one width.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bins {
    /// Width of a bin; bin `i` holds values from `i * width_ns` up to the next bin.
    pub width_ns: u64,
    /// The bins.
    pub counts: Vec<u64>,
    /// Values beyond the last bin.
    pub overflow: u64,
}

impl From<&LinearBins> for Bins {
    fn from(bins: &LinearBins) -> Self {
        Bins { width_ns: bins.width, counts: bins.counts.clone(), overflow: bins.overflow }
    }
}

impl Stats {
    /// Of the values of `distribution`.
    pub fn of(distribution: &Distribution) -> Self {
        Stats::raised(distribution, 0)
    }

    /// Of the values of `distribution`, each `by` greater; as precise as without.
    pub fn raised(distribution: &Distribution, by: i64) -> Self {
        let raise = |value: u64| i64::try_from(value).unwrap_or(i64::MAX).saturating_add(by);
        let moments = distribution.moments.shifted(by);
        let some = moments.count > 0;
        let at = |q: f64| distribution.quantile(q).map(raise);
        Stats {
            count: moments.count,
            min: some.then_some(moments.min),
            max: some.then_some(moments.max),
            mean: moments.mean().map(round),
            standard_deviation: moments.standard_deviation().map(round),
            percentiles: Percentiles {
                p50: at(0.5),
                p90: at(0.9),
                p95: at(0.95),
                p99: at(0.99),
                p99_9: at(0.999),
                p99_99: at(0.9999),
            },
            below_histogram: distribution.negative,
            uncertain_below: None,
            histogram: distribution
                .buckets
                .iter()
                .map(|&(bucket, count)| {
                    let bucket = usize::from(bucket);
                    Bucket(raise(lowest(bucket)), raise(highest(bucket)), count)
                })
                .collect(),
        }
    }

    /// Of differences, by the magnitudes of the negative ones and of all others.
    pub fn signed(positive: &Distribution, negative: &Distribution) -> Self {
        let (below, above) = (&negative.moments, &positive.moments);
        let count = below.count.saturating_add(above.count);
        if count == 0 {
            return Stats::default();
        }
        let min = if below.count > 0 { below.max.saturating_neg() } else { above.min };
        let max = if above.count > 0 { above.max } else { below.min.saturating_neg() };
        let sum = above.sum.saturating_sub(below.sum);
        let sum_of_squares = above.sum_of_squares.saturating_add(below.sum_of_squares);
        let moments = Moments { count, min, max, sum, sum_of_squares };
        let whole = negative.missing() == 0 && positive.missing() == 0;
        let at = |q: f64| {
            let rank = ((q * count as f64 * (1.0 - 1e-12)).ceil().max(1.0) as u64).min(count);
            // the middle of a rank is of that rank, whatever is rounded
            let of = |rank: u64, of: u64| (rank as f64 - 0.5) / of as f64;
            let edge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let value = match rank.checked_sub(below.count) {
                None | Some(0) => {
                    let rank = below.count - rank + 1;
                    negative.quantile(of(rank, below.count)).map(|value| -edge(value))
                }
                Some(rank) => positive.quantile(of(rank, above.count)).map(edge),
            };
            value.filter(|_| whole)
        };
        let bucket = |&(bucket, count): &(u16, u64)| {
            let edge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let bucket = usize::from(bucket);
            Bucket(edge(lowest(bucket)), edge(highest(bucket)), count)
        };
        let turned = |Bucket(low, high, count)| Bucket(-high, -low, count);
        let mut histogram: Vec<Bucket> = Vec::new();
        if whole {
            histogram.extend(negative.buckets.iter().rev().map(bucket).map(turned));
            histogram.extend(positive.buckets.iter().map(bucket));
        }
        Stats {
            count,
            min: Some(min),
            max: Some(max),
            mean: moments.mean().map(round),
            standard_deviation: moments.standard_deviation().map(round),
            percentiles: Percentiles {
                p50: at(0.5),
                p90: at(0.9),
                p95: at(0.95),
                p99: at(0.99),
                p99_9: at(0.999),
                p99_99: at(0.9999),
            },
            below_histogram: 0,
            uncertain_below: None,
            histogram,
        }
    }

    /// The same with every value whose magnitude is below `bound` left out, because it could as well be
    /// another one.
    pub fn certain_from(mut self, bound: u64) -> Self {
        if bound == 0 {
            return self;
        }
        let certain = |value: &i64| value.unsigned_abs() >= bound;
        self.min = self.min.filter(certain);
        self.max = self.max.filter(certain);
        self.mean = self.mean.filter(|mean| mean.abs() >= bound as f64);
        for percentile in self.percentiles.each_mut() {
            *percentile = percentile.filter(certain);
        }
        self.uncertain_below = Some(bound);
        let limit = i64::try_from(bound).unwrap_or(i64::MAX);
        let within = |bucket: &Bucket| bucket.0 < limit && bucket.1 > -limit;
        if let Some(first) = self.histogram.iter().position(within) {
            let hidden = self.histogram.iter().filter(|bucket| within(bucket));
            let one = hidden.fold(Bucket(-limit, limit, 0), |one, bucket| {
                let lowest = one.0.min(bucket.0);
                Bucket(lowest, one.1.max(bucket.1), one.2.saturating_add(bucket.2))
            });
            self.histogram.retain(|bucket| !within(bucket));
            self.histogram.insert(first, one);
        }
        self
    }
}

/// To thousandths of the unit: more digits than any clock has, and no tails of binary fractions.
pub(crate) fn round(value: f64) -> f64 {
    let rounded = (value * 1000.0).round() / 1000.0;
    // Where that overflows, there is nothing to round.
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use wirebeat_meter::distribution::Recorder;

    use super::*;

    #[test]
    fn magnitudes_and_those_below_zero_are_differences_again() {
        let (mut above, mut below) = (Recorder::default(), Recorder::default());
        let values = [-300, -20, -1, 0, 0, 2, 40, 5_000];
        for value in values {
            if value < 0 { below.record(-value) } else { above.record(value) }
        }
        let below = below.distribution();
        let stats = Stats::signed(&above.distribution(), &below);
        assert_eq!((stats.count, stats.min, stats.max), (8, Some(-300), Some(5_000)));
        let mean = values.iter().sum::<i64>() as f64 / 8.0;
        assert!((stats.mean.unwrap() - mean).abs() < 1e-3, "{stats:?}");
        assert_eq!((stats.percentiles.p50, stats.percentiles.p90), (Some(0), Some(5_000)));
        assert!((stats.quantile(0.01).unwrap() + 300.0).abs() <= 3.0, "{stats:?}");
        assert_eq!(stats.quantile(0.25), Some(-20.0));
        assert!(stats.histogram.is_sorted_by_key(|bucket| bucket.0), "{stats:?}");
        assert_eq!(stats.histogram.iter().map(|bucket| bucket.2).sum::<u64>(), 8);
        // nothing but early ones, and nothing at all
        let early = Stats::signed(&Distribution::default(), &below);
        assert_eq!((early.count, early.min, early.max), (3, Some(-300), Some(-1)));
        assert_eq!(Stats::signed(&Distribution::default(), &Distribution::default()).count, 0);
    }
}
