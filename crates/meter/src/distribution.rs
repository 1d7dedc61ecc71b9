//! A distribution: exact moments beside a log-linear histogram.
//!
//! [`Recorder`] is the hot form, with every bucket in its place; [`Distribution`] is the form that
//! travels, with the empty buckets left out. Values are signed, because a delay between two clocks can
//! be negative; those below zero are counted apart and are in the moments only.

use std::collections::BTreeMap;

use crate::histogram::{
    BUCKETS, Histogram, LARGEST, bucket_at, bucket_of, highest, lowest, midpoint, rank,
};
use crate::summary::{Distribution, Moments};

/// A distribution that is being recorded. Takes 1 KiB for each octave of its values, 31 KiB at most.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    moments: Moments,
    negative: u64,
    histogram: Option<Histogram>,
}

impl Recorder {
    /// Counts `value`.
    #[inline]
    pub fn record(&mut self, value: i64) {
        self.moments.record(value);
        match u64::try_from(value) {
            Ok(value) => self.histogram.get_or_insert_default().record(value),
            Err(_) => self.negative += 1,
        }
    }

    /// The exact moments so far.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// What was recorded so far.
    pub fn distribution(&self) -> Distribution {
        Distribution {
            moments: self.moments,
            negative: self.negative,
            buckets: self.histogram.iter().flat_map(Histogram::non_empty).collect(),
        }
    }
}

/// Adds the counts of `more`, in order of their buckets as `to`, saturating.
pub(crate) fn add_buckets(to: &mut Vec<(u16, u64)>, more: &[(u16, u64)]) {
    if more.is_empty() {
        return;
    }
    let mut merged: BTreeMap<u16, u64> = to.iter().copied().collect();
    for &(bucket, count) in more {
        let sum = merged.entry(bucket).or_default();
        *sum = sum.saturating_add(count);
    }
    *to = merged.into_iter().collect();
}

/// The counts of `from` less those of `less`, both in order of their buckets, without empty buckets.
fn subtract(from: &[(u16, u64)], less: &[(u16, u64)]) -> Vec<(u16, u64)> {
    let mut less = less.iter().peekable();
    let rest = |&(bucket, count): &(u16, u64)| {
        while less.next_if(|(other, _)| *other < bucket).is_some() {}
        let taken = less.next_if(|(other, _)| *other == bucket).map_or(0, |(_, count)| *count);
        Some((bucket, count.saturating_sub(taken))).filter(|(_, count)| *count > 0)
    };
    from.iter().filter_map(rest).collect()
}

impl Distribution {
    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Distribution) {
        self.moments.merge(&other.moments);
        self.negative = self.negative.saturating_add(other.negative);
        add_buckets(&mut self.buckets, &other.buckets);
    }

    /// The values that were added since the same distribution was `earlier`.
    ///
    /// Count, mean and histogram are exact. Minimum and maximum are exact where they are new, and else those of the buckets
    /// that the values lie in (within 1/128). Where the histogram is not complete, there is none.
    pub fn since(&self, earlier: &Distribution) -> Distribution {
        let negative = self.negative.saturating_sub(earlier.negative);
        let complete = self.missing() == 0;
        let buckets = if complete { subtract(&self.buckets, &earlier.buckets) } else { Vec::new() };
        let held = buckets.iter().fold(negative, |sum, &(_, count)| sum.saturating_add(count));
        let counted = self.moments.count.saturating_sub(earlier.moments.count);
        // a distribution that is read while values come has as many as its buckets say
        let count = if complete { held } else { counted };
        let (min, max) = self.extremes(earlier, negative, &buckets);
        let moments = self.moments.since(&earlier.moments, count, min, max);
        if moments.count == 0 {
            return Distribution::default();
        }
        Distribution { moments, negative, buckets }
    }

    /// Between what the values lie that were added since `earlier`, of which so many are negative.
    fn extremes(
        &self,
        earlier: &Distribution,
        negative: u64,
        buckets: &[(u16, u64)],
    ) -> (i64, i64) {
        let edge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let (all, before) = (&self.moments, &earlier.moments);
        let is_first = before.count == 0;
        let min = match buckets.first() {
            _ if is_first || all.min < before.min => all.min,
            Some(&(bucket, _)) if negative == 0 => edge(lowest(bucket.into())).max(all.min),
            _ => all.min,
        };
        let max = match buckets.last() {
            _ if is_first || all.max > before.max => all.max,
            Some(&(bucket, _)) if usize::from(bucket) < BUCKETS - 1 => {
                edge(highest(bucket.into())).min(all.max)
            }
            _ => all.max,
        };
        (min, max)
    }

    /// How many values the histogram should hold and does not: those of flows that share theirs with others.
    pub fn missing(&self) -> u64 {
        let held = self.buckets.iter().fold(0u64, |sum, &(_, count)| sum.saturating_add(count));
        self.moments.count.saturating_sub(self.negative).saturating_sub(held)
    }

    /// Adds the histogram that `buckets` are, if it is that of the values that are missing.
    pub fn complete(&mut self, buckets: &[(u16, u64)]) {
        let held = buckets.iter().fold(0u64, |sum, &(_, count)| sum.saturating_add(count));
        if held > 0 && held == self.missing() {
            add_buckets(&mut self.buckets, buckets);
        }
    }

    /// The value at quantile `q` of 0 to 1 (0.5 is the median): that of rank `ceil(q * count)`, within
    /// 1/256 of itself, and never outside the exact minimum and maximum.
    ///
    /// `None` when there is no value, when values are [missing](Distribution::missing) from the histogram, and when
    /// the rank falls among the negative ones, which the histogram does not hold. Among values from 2^37 on it gives the maximum.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let Moments { count, min, max, .. } = self.moments;
        let rank = rank(q, count)?;
        if rank <= self.negative {
            return None;
        }
        // all quantiles are known, or none: with few values the highest ones are the maximum
        if self.missing() > 0 {
            return None;
        }
        let (min, max) = (u64::try_from(min).unwrap_or(0), u64::try_from(max).ok()?);
        if rank == count {
            return Some(max);
        }
        let bucket = bucket_at(self.buckets.iter().copied(), rank - self.negative)?;
        let bucket = usize::from(bucket);
        if bucket == BUCKETS - 1 && max > LARGEST {
            return Some(max);
        }
        let value = if rank == 1 { min } else { midpoint(bucket) };
        Some(value.max(min).min(max))
    }

    /// The distribution of the same values, each `by` greater.
    ///
    /// The moments stay exact. Each bucket moves as a whole to where its midpoint goes, so a value is
    /// off by up to 1/256 of what it was *before*. Negative values move only in the moments: they stay
    /// counted as negative.
    pub fn shifted(&self, by: i64) -> Distribution {
        if by == 0 {
            return self.clone();
        }
        let moments = self.moments.shifted(by);
        let mut negative = self.negative;
        let mut buckets: BTreeMap<u16, u64> = BTreeMap::new();
        for &(bucket, count) in &self.buckets {
            let value = (midpoint(usize::from(bucket)) as i64).saturating_add(by);
            // A midpoint may leave the exact range by half a bucket; its values did not.
            match u64::try_from(value.max(moments.min).min(moments.max)) {
                Ok(value) => {
                    let sum = buckets.entry(bucket_of(value) as u16).or_default();
                    *sum = sum.saturating_add(count);
                }
                Err(_) => negative = negative.saturating_add(count),
            }
        }
        Distribution { moments, negative, buckets: buckets.into_iter().collect() }
    }

    /// Each value less the smallest: the range form of delay variation (RFC 5481 §4.2) when the values
    /// are delays. Derived with the precision of [`Distribution::shifted`].
    pub fn above_minimum(&self) -> Distribution {
        self.shifted(self.moments.min.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::config;

    fn of(values: &[i64]) -> Distribution {
        let mut recorder = Recorder::default();
        values.iter().for_each(|&value| recorder.record(value));
        recorder.distribution()
    }

    #[test]
    fn nothing_recorded_is_the_default() {
        assert_eq!(of(&[]), Distribution::default());
        assert_eq!(of(&[]).quantile(0.5), None);
    }

    #[test]
    fn quantiles_stay_within_the_exact_extremes() {
        let distribution = of(&[100_001, 100_001, 100_002]);
        assert_eq!(distribution.quantile(0.0), Some(100_001));
        assert_eq!(distribution.quantile(1.0), Some(100_002));
    }

    #[test]
    fn negative_values_have_no_quantile_but_count_below_the_others() {
        let distribution = of(&[-7, -7, 5, 6]);
        assert_eq!(distribution.negative, 2);
        assert_eq!(distribution.quantile(0.5), None);
        assert_eq!(distribution.quantile(0.75), Some(5));
        assert_eq!(of(&[-1, -2]).quantile(1.0), None);
    }

    /// p99 of few values was the maximum, beside a median that was not known.
    #[test]
    fn no_quantile_is_known_where_values_are_missing_from_the_histogram() {
        let whole = of(&[10, 20, 30]);
        let shared = Distribution { buckets: Vec::new(), ..whole.clone() };
        for q in [0.0, 0.5, 0.99, 1.0] {
            assert!(whole.quantile(q).is_some());
            assert_eq!(shared.quantile(q), None, "{q}");
        }
    }

    #[test]
    fn values_beyond_the_layout_read_as_the_maximum() {
        let beyond = LARGEST as i64 + 1_000_000_000_000;
        assert_eq!(of(&[1, beyond]).quantile(1.0), Some(beyond as u64));
    }

    #[test]
    fn above_the_minimum_starts_at_zero() {
        let variation = of(&[1000, 1000, 1300, 5000]).above_minimum();
        assert_eq!((variation.moments.min, variation.moments.max), (0, 4000));
        assert_eq!(variation.moments.sum, 4300);
        assert!(variation.quantile(0.5).unwrap() <= 1000 / 128);
        assert!(variation.quantile(0.75).unwrap().abs_diff(300) <= 1300 / 128);
    }

    #[test]
    fn delays_all_negative_keep_their_exact_range_form() {
        let variation = of(&[-500, -400]).above_minimum();
        assert_eq!((variation.moments.min, variation.moments.max), (0, 100));
        assert_eq!(variation.quantile(0.5), None);
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(-1000..100_000_000i64, 1..200),
            q in 0.0..=1.0f64,
        ) {
            let distribution = of(&values);
            values.sort_unstable();
            let exact = values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
            match distribution.quantile(q) {
                None => prop_assert!(exact < 0),
                Some(found) => prop_assert!(found.abs_diff(exact as u64) * 128 <= exact as u64),
            }
        }

        #[test]
        fn merging_is_recording_both(
            one in prop::collection::vec(-10..100_000i64, 0..50),
            two in prop::collection::vec(-10..100_000i64, 0..50),
        ) {
            let mut merged = of(&one);
            merged.merge(&of(&two));
            prop_assert_eq!(merged, of(&[one, two].concat()));
        }

        #[test]
        fn shifted_values_are_off_by_no_more_than_their_bucket_was_wide(
            mut values in prop::collection::vec(0..100_000_000i64, 1..50),
            by in -100_000_000..100_000_000i64,
            q in 0.0..=1.0f64,
        ) {
            let shifted = of(&values).shifted(by);
            values.sort_unstable();
            let before = values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
            prop_assert_eq!(shifted.moments.count as usize, values.len());
            if let Some(found) = shifted.quantile(q) {
                let exact = before + by;
                // A bucket's width before, and one after.
                let allowed = before / 128 + exact.abs() / 128 + 1;
                prop_assert!((found as i64 - exact).abs() <= allowed, "{found} for {exact}");
            }
        }

        #[test]
        fn no_numbers_make_it_panic(
            (count, min, max, sum, sum_of_squares) in any::<(u64, i64, i64, i128, u128)>(),
            negative in any::<u64>(),
            buckets in prop::collection::vec(any::<(u16, u64)>(), 0..20),
            by in any::<i64>(),
            q in any::<f64>(),
        ) {
            let moments = Moments { count, min, max, sum, sum_of_squares };
            let mut hostile = Distribution { moments, negative, buckets };
            let _ = (hostile.quantile(q), hostile.above_minimum(), hostile.shifted(by));
            if let Some(deviation) = moments.standard_deviation() {
                prop_assert!(deviation.is_finite());
            }
            let other = hostile.clone();
            hostile.merge(&other);
        }
    }
}
