//! The Weibull distribution: exponential with an age, which wears (shape above 1) or hardens (below).

use libm::{expm1, log, pow, tgamma};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::Fault;

use super::draw::Draw;
use super::special::gamma_p;
use super::written::{DistributionSpec, Form, check_shape, positive_amount};
use super::{Quantity, Variable};

/// P(X > x) = exp(-(x / scale)^shape).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity")]
pub struct Weibull<Q> {
    /// The shape, k.
    pub shape: f64,
    /// The scale, λ. Without it: what the mean that a rate asks for makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Q::Text>")]
    pub scale: Option<Q>,
}

impl<Q: Quantity> DistributionSpec for Weibull<Q> {
    type Variable = WeibullVariable;

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        check_shape(self.shape)?;
        positive_amount("scale", self.scale)
    }

    fn form(&self) -> Form {
        Form::of("'scale'", &self.scale)
    }

    fn variable(&self, mean: f64) -> Option<WeibullVariable> {
        let shape = self.shape;
        let scale = self.scale.map_or(mean / tgamma(1.0 + 1.0 / shape), Q::to_f64);
        (scale > 0.0).then_some(WeibullVariable { shape, scale })
    }
}

/// By its two parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WeibullVariable {
    shape: f64,
    scale: f64,
}

impl Variable for WeibullVariable {
    fn draw(&self, draw: &mut Draw) -> f64 {
        self.scale * pow(-log(draw.positive_unit()), 1.0 / self.shape)
    }

    fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 { 0.0 } else { -expm1(-pow(x / self.scale, self.shape)) }
    }

    fn moment(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        let order = 1.0 + 1.0 / self.shape;
        self.scale * tgamma(order) * gamma_p(order, pow(x / self.scale, self.shape))
    }

    fn mean(&self) -> Option<f64> {
        Some(self.scale * tgamma(1.0 + 1.0 / self.shape))
    }
}
