//! The special functions behind the distributions, of which the crate `libm` has only some.
//!
//! Good to about 1e-9 (the incomplete gamma function beyond [`LARGE`]) or 1e-12 (the rest), which is
//! far finer than a million samples can tell. Pure arithmetic and `libm`: the same on every machine.

use libm::{erfc, exp, lgamma, log, log1p, sqrt};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The probability that a standard normal variable is at most `z`.
pub(super) fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z * FRAC_1_SQRT_2)
}

/// The density of a standard normal variable at `z`.
pub(super) fn normal_density(z: f64) -> f64 {
    exp(-0.5 * z * z) / sqrt(2.0 * PI)
}

/// From this shape on the series take thousands of terms, and the asymptotic expansion is as exact.
const LARGE: f64 = 1e4;
/// More than the series and the fraction need below [`LARGE`].
const MAX_TERMS: usize = 5_000;
/// What a further term must add, as a share of the sum.
const ENOUGH: f64 = 1e-16;

/// The regularised lower incomplete gamma function P(a, x) for a > 0: the probability that a gamma
/// variable of shape `a` and scale 1 is at most `x`.
pub(super) fn gamma_p(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if x == f64::INFINITY {
        1.0
    } else if a >= LARGE {
        large_shape(a, x)
    } else if x < a + 1.0 {
        series(a, x)
    } else {
        1.0 - fraction(a, x)
    }
}

/// x^a e^-x / Γ(a).
fn front(a: f64, x: f64) -> f64 {
    exp(a * log(x) - x - lgamma(a))
}

/// DLMF 8.7.1 (https://dlmf.nist.gov/8.7.E1), for P.
fn series(a: f64, x: f64) -> f64 {
    let mut term = 1.0 / a;
    let mut sum = term;
    for n in 1..MAX_TERMS {
        term *= x / (a + n as f64);
        sum += term;
        if term < sum * ENOUGH {
            break;
        }
    }
    (front(a, x) * sum).min(1.0)
}

/// DLMF 8.9.2 (https://dlmf.nist.gov/8.9.E2), for Q = 1 - P, by the method of Lentz (1976).
fn fraction(a: f64, x: f64) -> f64 {
    /// Stands for a zero in a denominator.
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut value = d;
    for n in 1..MAX_TERMS {
        let n = n as f64;
        let numerator = n * (a - n);
        b += 2.0;
        let denominator = numerator * d + b;
        d = 1.0 / if denominator.abs() < TINY { TINY } else { denominator };
        c = b + numerator / c;
        if c.abs() < TINY {
            c = TINY;
        }
        value *= c * d;
        if (c * d - 1.0).abs() < ENOUGH {
            break;
        }
    }
    (front(a, x) * value).clamp(0.0, 1.0)
}

/// Temme's uniform expansion, DLMF 8.12.3 with the first term of 8.12.7.
fn large_shape(a: f64, x: f64) -> f64 {
    let mu = (x - a) / a;
    // Half of η²: μ - ln(1 + μ), which cancels near 0.
    let half = if mu.abs() < 1e-3 {
        mu * mu * (1.0 / 2.0 - mu * (1.0 / 3.0 - mu * (1.0 / 4.0 - mu * (1.0 / 5.0 - mu / 6.0))))
    } else {
        mu - log1p(mu)
    };
    let eta = sqrt(2.0 * half).copysign(mu);
    let step = normal_cdf(eta * sqrt(a));
    // Beyond that the correction is below 1e-22.
    if a * half > 50.0 {
        return step;
    }
    // c0 around η = 0, DLMF 8.12.9; here |η| is at most 0.1.
    let c0 = -1.0 / 3.0 + eta * (1.0 / 12.0 - eta * (2.0 / 135.0 - eta / 864.0));
    (step - exp(-a * half) / sqrt(2.0 * PI * a) * c0).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF, Normal};
    use statrs::function::gamma::checked_gamma_lr;

    use super::*;

    #[test]
    fn the_incomplete_gamma_function_is_that_of_statrs() {
        for a in [0.01, 0.5, 1.0, 1.5, 3.0, 12.0, 101.0, 5e3, 9_999.0] {
            for share in [1e-6, 0.1, 0.5, 0.9, 0.99, 1.0, 1.01, 1.1, 1.5, 3.0, 20.0] {
                let x = a * share;
                let (ours, theirs) = (gamma_p(a, x), checked_gamma_lr(a, x).unwrap());
                assert!((ours - theirs).abs() < 1e-11, "P({a}, {x}): {ours} {theirs}");
            }
        }
    }

    #[test]
    fn the_expansion_for_large_shapes_meets_the_series() {
        for a in [1e4, 3e4, 1e5] {
            for sigmas in [-6.0, -3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0, 6.0] {
                let x = a + sigmas * f64::sqrt(a);
                let exact = if x < a + 1.0 { series(a, x) } else { 1.0 - fraction(a, x) };
                assert!((large_shape(a, x) - exact).abs() < 2e-9, "P({a}, {x})");
            }
        }
        assert!((gamma_p(1e18, 1e18) - 0.5).abs() < 1e-9);
        assert_eq!([gamma_p(1e18, 1e17), gamma_p(1e18, 1e19)], [0.0, 1.0]);
    }

    #[test]
    fn the_normal_law_is_that_of_statrs() {
        let normal = Normal::standard();
        for z in [-38.0, -8.0, -3.0, -1.0, 0.0, 0.5, 2.0, 5.0] {
            // That of statrs is no better.
            assert!((normal_cdf(z) - normal.cdf(z)).abs() < 1e-10, "{z}");
        }
        assert!((normal_cdf(-1.0) - 0.158_655_253_931_457_05).abs() < 1e-15);
        assert_eq!([normal_cdf(f64::NEG_INFINITY), normal_cdf(f64::INFINITY)], [0.0, 1.0]);
    }

    #[test]
    fn no_argument_takes_for_ever_or_leaves_the_unit() {
        let values = [1e-300, 1e-9, 0.01, 1.0, 1e3, 9_999.9, 1e4, 1e9, 1e300];
        for a in values {
            for x in values.into_iter().chain([0.0, -1.0, f64::INFINITY]) {
                let p = gamma_p(a, x);
                assert!((0.0..=1.0).contains(&p), "P({a}, {x}) = {p}");
            }
        }
    }
}
