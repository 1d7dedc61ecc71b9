//! A distribution: exact moments beside a log-linear histogram.
//!
//! [`Recorder`] is the hot form, with every bucket in its place; [`Distribution`] is the form that
//! travels, with the empty buckets left out. Values are signed, because a delay between two clocks can
//! be negative; those below zero are counted apart and are in the moments only.

use std::collections::BTreeMap;

use crate::histogram::{BUCKETS, Histogram, LARGEST, bucket_at, bucket_of, midpoint, rank};
use crate::summary::{Distribution, Moments};

/// A distribution that is being recorded. Takes 31 KiB from its first value on, little before.
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

impl Distribution {
    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Distribution) {
        self.moments.merge(&other.moments);
        self.negative = self.negative.saturating_add(other.negative);
        if other.buckets.is_empty() {
            return;
        }
        let mut merged: BTreeMap<u16, u64> = self.buckets.iter().copied().collect();
        for &(bucket, count) in &other.buckets {
            let sum = merged.entry(bucket).or_default();
            *sum = sum.saturating_add(count);
        }
        self.buckets = merged.into_iter().collect();
    }

    /// The value at quantile `q` of 0 to 1 (0.5 is the median): that of rank `ceil(q * count)`, within
    /// 1/256 of itself, and never outside the exact minimum and maximum.
    ///
    /// `None` when there is no value, and when the rank falls among the negative ones, which the
    /// histogram does not hold. Among values from 2^37 on it gives the maximum.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank =
            rank(q, self.moments.count)?.checked_sub(self.negative).filter(|&rank| rank > 0)?;
        let bucket = usize::from(bucket_at(self.buckets.iter().copied(), rank)?);
        let max = u64::try_from(self.moments.max).ok()?;
        if bucket == BUCKETS - 1 && max > LARGEST {
            return Some(max);
        }
        let min = u64::try_from(self.moments.min).unwrap_or(0);
        Some(midpoint(bucket).max(min).min(max))
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
