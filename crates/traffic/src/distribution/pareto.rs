//! The Pareto distribution (of type I): a power distribution above its scale.

use libm::{expm1, log, pow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::Fault;

use super::draw::Draw;
use super::written::{DistributionSpec, Form, check_shape, positive_amount};
use super::{Quantity, Variable};

/// P(X > x) = (scale / x)^shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity")]
pub struct Pareto<Q> {
    /// The tail index. It has a mean above 1, and a variance above 2.
    pub shape: f64,
    /// The smallest value. Without it: what the mean that a rate asks for makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Q::Text>")]
    pub scale: Option<Q>,
}

impl<Q: Quantity> DistributionSpec for Pareto<Q> {
    type Variable = ParetoVariable;

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        check_shape(self.shape)?;
        positive_amount("scale", self.scale)
    }

    fn form(&self) -> Form {
        Form::of("'scale'", &self.scale)
    }

    fn variable(&self, mean: f64) -> Option<ParetoVariable> {
        let shape = self.shape;
        let unit = ParetoVariable { shape, scale: 1.0 };
        let scale = self.scale.map_or(mean / unit.mean().unwrap_or(1.0), Q::to_f64);
        (scale > 0.0).then_some(ParetoVariable { shape, scale })
    }

    fn without_mean(&self) -> &'static str {
        "a Pareto distribution has one from a 'shape' above 1 on: raise it, give 'scale' and no rate, or bound \
         the values from above"
    }
}

/// By its two parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ParetoVariable {
    shape: f64,
    scale: f64,
}

impl Variable for ParetoVariable {
    fn draw(&self, draw: &mut Draw) -> f64 {
        self.scale * pow(draw.positive_unit(), -1.0 / self.shape)
    }

    fn cdf(&self, x: f64) -> f64 {
        if x <= self.scale { 0.0 } else { -expm1(-self.shape * log(x / self.scale)) }
    }

    fn moment(&self, x: f64) -> f64 {
        if x <= self.scale {
            return 0.0;
        }
        let log = log(x / self.scale);
        let excess = self.shape - 1.0;
        // The limit at an excess of 0 is the logarithm itself.
        let integral = if excess == 0.0 { log } else { -expm1(-excess * log) / excess };
        self.shape * self.scale * integral
    }

    fn mean(&self) -> Option<f64> {
        (self.shape > 1.0).then(|| self.shape * self.scale / (self.shape - 1.0))
    }
}
