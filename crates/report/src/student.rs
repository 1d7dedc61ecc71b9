//! How sure a mean of a few runs is: Student's t.

/// The two-sided 95 % quantiles of Student's t, by degrees of freedom from 1 on.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same of the normal distribution.
const NORMAL: f64 = 1.96;

/// The mean of values, and how far their true mean is from it in 95 % of all cases; `None` of the latter with fewer than two
/// values, and `None` at all without one.
pub fn mean_within(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let count = values.len();
    let mean = values.iter().sum::<f64>() / count as f64;
    let Some(student) = count.checked_sub(2) else {
        return (count == 1).then_some((mean, None));
    };
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let error = (squares / (count as f64 - 1.0) / count as f64).sqrt();
    Some((mean, Some(error * STUDENT.get(student).copied().unwrap_or(NORMAL))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1, 2, 3: a deviation of 1, an error of 1/√3, and two degrees of freedom.
    #[test]
    fn an_interval_takes_two_values() {
        let (mean, within) = mean_within(&[1.0, 2.0, 3.0]).unwrap();
        assert!(mean == 2.0 && (within.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(mean_within(&[7.0]), Some((7.0, None)));
        assert_eq!(mean_within(&[]), None);
        assert_eq!(mean_within(&[5.0; 40]), Some((5.0, Some(0.0))));
    }
}
