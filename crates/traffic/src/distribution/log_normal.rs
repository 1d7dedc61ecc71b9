//! The log-normal distribution: the product of many influences, as the normal one is their sum.
//!
//! It is written by the mean and the deviation of the values themselves, or by `mu` and `sigma`, those of
//! their natural logarithm. The logarithm is that of the number of nanoseconds or of bytes: gaps with a
//! median of 10 µs have a `mu` of ln 10000 = 9.21.

use libm::{exp, log, log1p, sqrt};
use rand_distr::{Distribution as _, StandardNormal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::draw::Draw;
use super::special::normal_cdf;
use super::written::{DistributionSpec, Form, positive, positive_amount};
use super::{Deviation, Quantity, Variable};

/// Its width is one of `deviation` and `sigma`; its size is `mean`, or `mu` beside `sigma`, or a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity")]
pub struct LogNormal<Q> {
    /// The mean. Without it: what the rate asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Q::Text>")]
    pub mean: Option<Q>,
    /// The standard deviation: an amount, or a share of the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<Deviation<Q>>,
    /// The mean of the natural logarithm of the number of nanoseconds or bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mu: Option<f64>,
    /// The standard deviation of the natural logarithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
}

/// e^44 is 2^64 ns or bytes.
const MAX_MU: f64 = 44.0;
/// Of a larger one the mean leaves the range of floating point.
const MAX_SIGMA: f64 = 20.0;

impl<Q: Quantity> DistributionSpec for LogNormal<Q> {
    type Variable = LogNormalVariable;

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        positive_amount("mean", self.mean)?;
        match (&self.deviation, self.sigma) {
            (None, None) => Err((
                "deviation",
                fault!("how wide the distribution is, is missing"; "give this or 'sigma'"),
            )),
            (Some(_), Some(_)) => {
                Err(("sigma", fault!("'deviation' says it too"; "give one of the two")))
            }
            (Some(deviation), None) => deviation.check(),
            (None, Some(sigma)) => positive("sigma", sigma),
        }?;
        if self.sigma.is_some_and(|sigma| sigma > MAX_SIGMA) {
            return Err(("sigma", fault!("it is at most {MAX_SIGMA}")));
        }
        match self.mu {
            Some(_) if self.mean.is_some() => {
                Err(("mu", fault!("'mean' says it too"; "give one of the two")))
            }
            Some(_) if self.sigma.is_none() => {
                Err(("mu", fault!("it goes with 'sigma'"; "with 'deviation' give 'mean'")))
            }
            Some(mu) if !(-MAX_MU..=MAX_MU).contains(&mu) => {
                Err(("mu", fault!("it is {mu}, and goes from -{MAX_MU} to {MAX_MU}")))
            }
            _ => Ok(()),
        }
    }

    fn form(&self) -> Form {
        if self.mu.is_some() { Form::Fixed("'mu'") } else { Form::of("'mean'", &self.mean) }
    }

    fn variable(&self, mean: f64) -> Option<LogNormalVariable> {
        let mean = self.mean.map_or(mean, Q::to_f64);
        let variance = match (self.sigma, &self.deviation) {
            (Some(sigma), _) => sigma * sigma,
            (None, Some(deviation)) => {
                let coefficient = deviation.of(mean) / mean;
                log1p(coefficient * coefficient)
            }
            (None, None) => return None,
        };
        let numbers = LogNormalVariable {
            mu: self.mu.unwrap_or_else(|| log(mean) - variance / 2.0),
            sigma: sqrt(variance),
        };
        (numbers.sigma > 0.0 && numbers.mu.is_finite() && numbers.sigma.is_finite())
            .then_some(numbers)
    }
}

/// By the mean and the deviation of the logarithm.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LogNormalVariable {
    mu: f64,
    sigma: f64,
}

impl LogNormalVariable {
    fn expected(&self) -> f64 {
        exp(self.mu + self.sigma * self.sigma / 2.0)
    }
}

impl Variable for LogNormalVariable {
    fn draw(&self, draw: &mut Draw) -> f64 {
        let standard: f64 = StandardNormal.sample(draw);
        exp(self.mu + self.sigma * standard)
    }

    fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 { 0.0 } else { normal_cdf((log(x) - self.mu) / self.sigma) }
    }

    fn moment(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        self.expected() * normal_cdf((log(x) - self.mu) / self.sigma - self.sigma)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.expected())
    }
}
