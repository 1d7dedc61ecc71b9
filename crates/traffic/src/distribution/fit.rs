//! Goodness of fit: whether samples follow a distribution, at the 1 % level.
//!
//! One in a hundred sets of samples that do follow it fails, so a test fixes its seed. For everything
//! that compares what was drawn, sent or received with what was asked for.

use libm::sqrt;

/// The outcome of a test of fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// How far the samples are from the distribution.
    pub statistic: f64,
    /// What samples of the distribution exceed in one case of a hundred.
    pub critical: f64,
}

impl Fit {
    /// Whether the samples may well be of the distribution. Never without samples.
    pub fn passes(&self) -> bool {
        self.statistic <= self.critical
    }
}

/// The test of Kolmogorov and Smirnov: the largest distance between the distribution of `samples`, which
/// are put in order, and `cdf`, the probability of a value up to its argument.
///
/// `cdf` may have steps; fewer than one in a hundred sets of samples of the distribution then fail. The critical
/// value is the asymptotic one, 1.628/√n, good from about 35 samples on.
pub fn ks(samples: &mut [f64], cdf: impl Fn(f64) -> f64) -> Fit {
    samples.sort_unstable_by(f64::total_cmp);
    let n = samples.len() as f64;
    let mut statistic = if samples.is_empty() { f64::NAN } else { 0.0f64 };
    let mut before = 0;
    for equal in samples.chunk_by(|a, b| a == b) {
        let x = equal[0];
        let up_to = before + equal.len();
        let below = (before as f64 / n - cdf(x.next_down())).abs();
        let above = (up_to as f64 / n - cdf(x)).abs();
        // Not f64::max, which would forget a NaN.
        for distance in [below, above] {
            if distance > statistic || distance.is_nan() {
                statistic = distance;
            }
        }
        before = up_to;
    }
    Fit { statistic, critical: ks_critical(samples.len() as u64) }
}

/// The critical value of [`ks`] for so many samples (Smirnov 1948).
pub fn ks_critical(samples: u64) -> f64 {
    1.628 / sqrt(samples as f64)
}

/// How many samples a cell must be expected to have (Cochran 1954).
const MIN_EXPECTED: f64 = 5.0;

/// Pearson's χ² test: how many samples fell into each cell, and how many were expected to. Neighbouring
/// cells are put together until five samples are expected in each.
///
/// It fails where the two do not have the same number of cells, or fewer than two are left.
pub fn chi_square(observed: &[u64], expected: &[f64]) -> Fit {
    let mut cells: Vec<(f64, f64)> = Vec::new();
    let mut open = (0.0, 0.0);
    for (observed, expected) in observed.iter().zip(expected) {
        open = (open.0 + *observed as f64, open.1 + expected);
        if open.1 >= MIN_EXPECTED {
            cells.push(open);
            open = (0.0, 0.0);
        }
    }
    if let Some(last) = cells.last_mut() {
        *last = (last.0 + open.0, last.1 + open.1);
    }
    if observed.len() != expected.len() || cells.len() < 2 {
        return Fit { statistic: f64::NAN, critical: f64::NAN };
    }
    let distance = |(observed, expected): &(f64, f64)| (observed - expected).powi(2) / expected;
    Fit { statistic: cells.iter().map(distance).sum(), critical: critical(cells.len() - 1) }
}

/// The 99 % quantile of χ² (Wilson and Hilferty 1931), within 1 % from 3 degrees of freedom on.
fn critical(degrees: usize) -> f64 {
    /// The 99 % quantile of the standard normal distribution.
    const Z: f64 = 2.326_347_874;
    let degrees = degrees as f64;
    let spread = 2.0 / (9.0 * degrees);
    degrees * (1.0 - spread + Z * sqrt(spread)).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(n: usize) -> Vec<f64> {
        (0..n).map(|i| (i as f64 + 0.5) / n as f64).collect()
    }

    #[test]
    fn the_distance_is_that_of_the_definition() {
        let fit = ks(&mut [0.5, 0.1, 0.9], |x| x);
        assert!((fit.statistic - (1.0 / 3.0 - 0.1)).abs() < 1e-12, "{fit:?}");
        assert!((fit.critical - 1.628 / f64::sqrt(3.0)).abs() < 1e-12);
        assert!(ks(&mut grid(1000), |x| x).passes());
        assert!(!ks(&mut grid(1000), |x| x * x).passes());
        assert!(!ks(&mut grid(1000), |x| (x + 0.06).min(1.0)).passes());
    }

    #[test]
    fn steps_are_no_distance() {
        let die = |x: f64| (x.floor() / 6.0).clamp(0.0, 1.0);
        let mut rolls: Vec<f64> = (0..600).map(|i| f64::from(i % 6 + 1)).collect();
        assert!(ks(&mut rolls, die).statistic < 1e-12);
        assert!(!ks(&mut rolls.repeat(100), |x| (x / 6.0).clamp(0.0, 1.0)).passes());
    }

    #[test]
    fn nothing_to_judge_does_not_pass() {
        assert!(!ks(&mut [], |x| x).passes());
        assert!(!ks(&mut [0.5; 100], |_| f64::NAN).passes());
        assert!(!chi_square(&[], &[]).passes());
        assert!(!chi_square(&[1000], &[1000.0]).passes());
        assert!(!chi_square(&[500, 500], &[500.0, 300.0, 200.0]).passes());
    }

    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (degrees, value) in [(3, 11.345), (10, 23.209), (100, 135.807), (4095, 4309.1)] {
            let critical = critical(degrees);
            assert!((critical / value - 1.0).abs() < 0.01, "{degrees}: {critical}");
        }
    }

    #[test]
    fn cells_are_judged_by_their_counts() {
        assert!(chi_square(&[98, 205, 297], &[100.0, 200.0, 300.0]).passes());
        assert!(!chi_square(&[150, 150, 300], &[100.0, 200.0, 300.0]).passes());
        // Two samples where a millionth is expected are no evidence in a pooled cell.
        assert!(chi_square(&[98, 205, 297, 2], &[100.0, 200.0, 300.0, 1e-6]).passes());
    }
}
