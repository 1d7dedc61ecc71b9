//! The exponential distribution: what has waited goes on waiting as if it had just begun.

use libm::{exp, expm1, log};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::Fault;

use super::draw::Draw;
use super::written::{DistributionSpec, Form, positive_amount};
use super::{Quantity, Variable};

/// Of gaps, it makes a Poisson process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity")]
pub struct Exponential<Q> {
    /// The mean. Without it: what the rate asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Q::Text>")]
    pub mean: Option<Q>,
}

impl<Q: Quantity> DistributionSpec for Exponential<Q> {
    type Variable = ExponentialVariable;

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        positive_amount("mean", self.mean)
    }

    fn form(&self) -> Form {
        Form::of("'mean'", &self.mean)
    }

    fn variable(&self, mean: f64) -> Option<ExponentialVariable> {
        Some(ExponentialVariable { mean: self.mean.map_or(mean, Q::to_f64) })
    }
}

/// By its mean.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExponentialVariable {
    mean: f64,
}

impl Variable for ExponentialVariable {
    fn draw(&self, draw: &mut Draw) -> f64 {
        -self.mean * log(draw.positive_unit())
    }

    fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 { 0.0 } else { -expm1(-x / self.mean) }
    }

    fn moment(&self, x: f64) -> f64 {
        let x = x / self.mean;
        if x <= 0.0 {
            0.0
        } else if x == f64::INFINITY {
            self.mean
        } else {
            self.mean * (-expm1(-x) - x * exp(-x))
        }
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean)
    }
}
