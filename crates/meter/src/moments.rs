//! Exact moments: what needs no histogram.
//!
//! Sums are kept as integers, so that minimum, maximum, mean and standard deviation have no error of
//! their own, in whatever order values came and however summaries were merged. The kernel programs
//! keep the same sums as two 64-bit words each.

use crate::summary::Moments;

impl Moments {
    /// Counts `value`.
    #[inline]
    pub fn record(&mut self, value: i64) {
        if self.count == 0 {
            (self.min, self.max) = (value, value);
        } else {
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
        self.count += 1;
        self.sum += i128::from(value);
        let magnitude = u128::from(value.unsigned_abs());
        // Saturates after four values of 292 years; anything that is measured is far from it.
        self.sum_of_squares = self.sum_of_squares.saturating_add(magnitude * magnitude);
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        self.count = self.count.saturating_add(other.count);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
    }

    /// The moments of `count` values between `min` and `max` that were added since they were `earlier`. Sums that those
    /// values cannot have, because they were read while values came, are the nearest possible ones.
    pub(crate) fn since(&self, earlier: &Moments, count: u64, min: i64, max: i64) -> Moments {
        if count == 0 {
            return Moments::default();
        }
        let many = i128::from(count);
        let (least, most) = (many * i128::from(min), many * i128::from(max));
        let sum = self.sum.saturating_sub(earlier.sum).clamp(least.min(most), most);
        // Cauchy and Schwarz; and no value is further from zero than the extremes
        let squares = self.sum_of_squares.saturating_sub(earlier.sum_of_squares);
        let mean = sum as f64 / count as f64;
        let possible = squares as f64 * (1.0 + 1e-9) >= mean * mean * count as f64;
        let largest = u128::from(min.unsigned_abs().max(max.unsigned_abs()));
        let largest = largest.saturating_mul(largest).saturating_mul(u128::from(count));
        let sum_of_squares = if possible { squares.min(largest) } else { largest };
        Moments { count, min, max, sum, sum_of_squares }
    }

    /// The mean; `None` when there is no value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The sample variance, which divides by `count - 1`; `None` for fewer than two values.
    pub fn variance(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let count = i128::from(self.count);
        // With sum = q * count + r: the squared deviations sum to squares - q^2 count - 2 q r - r^2/count.
        // All but the last term are integers, so that nothing cancels in floating point. The wrapping
        // matters only to sums that no values can have (a hostile summary).
        let (q, r) = (self.sum.div_euclid(count), self.sum.rem_euclid(count));
        let whole = (self.sum_of_squares as i128)
            .wrapping_sub(q.wrapping_mul(q).wrapping_mul(count))
            .wrapping_sub(q.wrapping_mul(r).wrapping_mul(2));
        let r = r as f64;
        let squares = (whole as u128) as f64 - r * r / count as f64;
        Some(squares.max(0.0) / (self.count - 1) as f64)
    }

    /// The sample standard deviation; `None` for fewer than two values.
    pub fn standard_deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The moments of the same values, each `by` greater; exact, saturating at the ends of `i64`.
    pub fn shifted(&self, by: i64) -> Moments {
        if self.count == 0 {
            return *self;
        }
        let (count, shift) = (i128::from(self.count), i128::from(by));
        // sum of (x + s)^2 = sum of x^2 + 2 s sum + count s^2, modulo 2^128 as in `variance`.
        let squares = (self.sum_of_squares as i128)
            .wrapping_add(shift.wrapping_mul(self.sum).wrapping_mul(2))
            .wrapping_add(shift.wrapping_mul(shift).wrapping_mul(count));
        Moments {
            count: self.count,
            min: self.min.saturating_add(by),
            max: self.max.saturating_add(by),
            sum: self.sum.saturating_add(count.saturating_mul(shift)),
            sum_of_squares: squares as u128,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::config;

    fn of(values: &[i64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|&value| moments.record(value));
        moments
    }

    #[test]
    fn without_values_there_is_no_mean() {
        assert_eq!(Moments::default().mean(), None);
        assert_eq!(Moments::default().variance(), None);
        assert_eq!(of(&[5]).variance(), None);
    }

    #[test]
    fn small_deviations_of_great_values_are_exact() {
        let great = 1_700_000_000_000_000_000;
        assert_eq!(of(&[great, great + 1, great + 2]).variance(), Some(1.0));
        assert_eq!(of(&[-great, -great - 1, -great - 2]).variance(), Some(1.0));
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        let moments = of(&[i64::MIN, i64::MAX, i64::MIN, i64::MIN, i64::MIN, i64::MIN]);
        assert_eq!((moments.min, moments.max), (i64::MIN, i64::MAX));
        assert!(moments.standard_deviation().unwrap().is_finite());
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn mean_and_deviation_are_those_of_the_definition(
            values in prop::collection::vec(-1_000_000_000_000..1_000_000_000_000i64, 2..100),
        ) {
            let moments = of(&values);
            let count = values.len() as f64;
            let mean = values.iter().map(|&value| value as f64).sum::<f64>() / count;
            let squares: f64 = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum();
            let variance = squares / (count - 1.0);
            prop_assert!((moments.mean().unwrap() - mean).abs() <= 1e-9 * mean.abs() + 1e-3);
            prop_assert!((moments.variance().unwrap() - variance).abs() <= 1e-9 * variance);
            prop_assert_eq!(moments.min, *values.iter().min().unwrap());
            prop_assert_eq!(moments.max, *values.iter().max().unwrap());
        }

        #[test]
        fn merging_is_recording_both(
            one in prop::collection::vec(any::<i32>(), 0..20),
            two in prop::collection::vec(any::<i32>(), 0..20),
        ) {
            let (one, two): (Vec<i64>, Vec<i64>) =
                (one.into_iter().map(i64::from).collect(), two.into_iter().map(i64::from).collect());
            let mut merged = of(&one);
            merged.merge(&of(&two));
            prop_assert_eq!(merged, of(&[one, two].concat()));
        }

        #[test]
        fn shifting_is_recording_shifted_values(
            values in prop::collection::vec(any::<i32>(), 0..20),
            by in any::<i32>(),
        ) {
            let values: Vec<i64> = values.into_iter().map(i64::from).collect();
            let by = i64::from(by);
            let shifted: Vec<i64> = values.iter().map(|value| value + by).collect();
            prop_assert_eq!(of(&values).shifted(by), of(&shifted));
        }
    }
}
