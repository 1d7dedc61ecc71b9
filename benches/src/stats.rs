//! Medians, spreads and ratios of what several rounds measured. Pure.

/// How often rounds are drawn again for an interval.
const RESAMPLES: usize = 10_000;

/// What the rounds measured of one thing, in the order of the rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series(Vec<f64>);

impl Series {
    /// Of these values.
    pub fn new(values: Vec<f64>) -> Series {
        Series(values)
    }

    /// The middle value; of an even number, the mean of the two in the middle. `None` of nothing.
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            count if count % 2 == 1 => Some(sorted[middle]),
            _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        }
    }

    /// The smallest and the largest value.
    pub fn range(&self) -> Option<(f64, f64)> {
        let min = self.0.iter().copied().min_by(f64::total_cmp)?;
        let max = self.0.iter().copied().max_by(f64::total_cmp)?;
        Some((min, max))
    }

    /// The bootstrap interval of 95 % of the median (Efron 1979, by percentiles): always the same for the same values. `None` of
    /// nothing.
    pub fn median_interval(&self) -> Option<(f64, f64)> {
        let count = self.0.len() as u64;
        // xorshift64 (Marsaglia 2003)
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            self.0[(state % count) as usize]
        };
        let mut median = || Series((0..count).map(|_| draw()).collect()).median();
        let mut medians: Vec<f64> = (0..RESAMPLES).map_while(|_| median()).collect();
        medians.sort_by(f64::total_cmp);
        let at = |place: usize| medians.get(place).copied();
        Some((at(RESAMPLES / 40)?, at(RESAMPLES - 1 - RESAMPLES / 40)?))
    }

    /// How many rounds measured it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// This over `other`: the ratio of the medians, and the ratios of the single rounds, in which both
    /// were measured one after the other.
    pub fn over(&self, other: &Series) -> Option<Ratio> {
        let median = divided(self.median()?, other.median()?)?;
        let rounds = self.0.iter().zip(&other.0).filter_map(|(&a, &b)| divided(a, b));
        Some(Ratio { median, rounds: Series(rounds.collect()) })
    }
}

fn divided(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

/// How many times as much one thing is as another.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The ratio of the medians.
    pub median: f64,
    /// The ratios of the rounds.
    pub rounds: Series,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Series {
        Series::new(values.to_vec())
    }

    #[test]
    fn the_median_does_not_depend_on_the_order_or_on_one_outlier() {
        assert_eq!(of(&[3.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(of(&[1000.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(of(&[4.0, 1.0]).median(), Some(2.5));
        assert_eq!(of(&[]).median(), None);
    }

    #[test]
    fn the_range_is_that_of_all_rounds() {
        assert_eq!(of(&[3.0, 1.0, 2.0]).range(), Some((1.0, 3.0)));
        assert_eq!(of(&[]).range(), None);
    }

    #[test]
    fn the_interval_holds_the_median_and_narrows_with_agreement() {
        let values = [1.0, 1.1, 0.9, 1.05, 0.95, 1.2, 0.8, 1.0, 1.0, 1.0];
        let (low, high) = of(&values).median_interval().unwrap();
        assert!((0.85..=1.0).contains(&low) && (1.0..1.15).contains(&high), "{low} {high}");
        assert_eq!(of(&[2.0; 10]).median_interval(), Some((2.0, 2.0)));
        assert_eq!(of(&[7.0]).median_interval(), Some((7.0, 7.0)));
        assert_eq!(of(&[]).median_interval(), None);
    }

    #[test]
    fn a_ratio_is_that_of_the_medians_and_of_each_round() {
        let ratio = of(&[8.0, 2.0, 6.0]).over(&of(&[4.0, 2.0, 1.0])).unwrap();
        assert_eq!(ratio.median, 3.0);
        assert_eq!(ratio.rounds, of(&[2.0, 1.0, 6.0]));
    }

    #[test]
    fn nothing_is_a_multiple_of_nothing() {
        assert_eq!(of(&[1.0]).over(&of(&[0.0])), None);
        assert_eq!(of(&[1.0]).over(&of(&[])), None);
        assert_eq!(of(&[]).over(&of(&[1.0])), None);
    }
}
