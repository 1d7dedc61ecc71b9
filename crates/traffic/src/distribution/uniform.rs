//! The uniform distribution.
//!
//! It is the one of whole numbers: with 64B to 66B, each of the three sizes is a third. Among
//! nanoseconds nobody can tell it from the continuous one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::draw::Draw;
use super::written::{DistributionSpec, Form};
use super::{Quantity, Variable};

/// From a smallest to a largest value, both included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity")]
pub struct Uniform<Q> {
    /// The smallest.
    #[schemars(with = "Q::Text")]
    pub min: Q,
    /// The largest.
    #[schemars(with = "Q::Text")]
    pub max: Q,
}

impl<Q: Quantity> DistributionSpec for Uniform<Q> {
    type Variable = UniformVariable;

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        if self.min.to_f64() > self.max.to_f64() {
            return Err(("max", fault!("{} is below 'min', which is {}", self.max, self.min)));
        }
        Ok(())
    }

    fn form(&self) -> Form {
        Form::Fixed("'min' and 'max'")
    }

    fn variable(&self, _: f64) -> Option<UniformVariable> {
        Some(UniformVariable { min: self.min.to_f64(), max: self.max.to_f64() })
    }
}

/// Whole numbers from `min` to `max`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UniformVariable {
    min: f64,
    max: f64,
}

impl UniformVariable {
    fn count(&self) -> f64 {
        self.max - self.min + 1.0
    }
}

impl Variable for UniformVariable {
    fn draw(&self, draw: &mut Draw) -> f64 {
        (self.min + libm::floor(draw.unit() * self.count())).min(self.max)
    }

    fn cdf(&self, x: f64) -> f64 {
        ((libm::floor(x) - self.min + 1.0) / self.count()).clamp(0.0, 1.0)
    }

    fn moment(&self, x: f64) -> f64 {
        let last = libm::floor(x).clamp(self.min - 1.0, self.max);
        self.cdf(last) * (self.min + last) / 2.0
    }

    fn mean(&self) -> Option<f64> {
        Some(self.min + (self.max - self.min) / 2.0)
    }

    fn before(&self, x: f64) -> f64 {
        libm::ceil(x) - 1.0
    }
}
