//! The gamma distribution: the sum of `shape` exponential ones, where that is a whole number (Erlang).

use libm::pow;
use rand_distr::Distribution as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::Fault;

use super::draw::Draw;
use super::special::gamma_p;
use super::written::{DistributionSpec, Form, check_shape, positive_amount};
use super::{Quantity, Variable};

/// Its mean is shape × scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity")]
pub struct Gamma<Q> {
    /// The shape, k.
    pub shape: f64,
    /// The scale, θ. Without it: what the mean that a rate asks for makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Q::Text>")]
    pub scale: Option<Q>,
}

impl<Q: Quantity> DistributionSpec for Gamma<Q> {
    type Variable = GammaVariable;

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        check_shape(self.shape)?;
        positive_amount("scale", self.scale)
    }

    fn form(&self) -> Form {
        Form::of("'scale'", &self.scale)
    }

    fn variable(&self, mean: f64) -> Option<GammaVariable> {
        let shape = self.shape;
        let scale = self.scale.map_or(mean / shape, Q::to_f64);
        let values = rand_distr::Gamma::new(GammaVariable::drawn(shape), scale).ok()?;
        Some(GammaVariable { shape, scale, values })
    }
}

/// By its two parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GammaVariable {
    shape: f64,
    scale: f64,
    /// Of the shape [`GammaVariable::drawn`].
    values: rand_distr::Gamma<f64>,
}

impl GammaVariable {
    /// The shape that is drawn for `shape`: below 1, the one above it, whose values are then made smaller
    /// (Marsaglia and Tsang 2000, §6). `rand_distr` would do the same, but with the C library's power.
    fn drawn(shape: f64) -> f64 {
        if shape < 1.0 { shape + 1.0 } else { shape }
    }
}

impl Variable for GammaVariable {
    fn draw(&self, draw: &mut Draw) -> f64 {
        let value = self.values.sample(draw);
        if self.shape < 1.0 { value * pow(draw.positive_unit(), 1.0 / self.shape) } else { value }
    }

    fn cdf(&self, x: f64) -> f64 {
        gamma_p(self.shape, x / self.scale)
    }

    fn moment(&self, x: f64) -> f64 {
        self.shape * self.scale * gamma_p(self.shape + 1.0, x / self.scale)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.shape * self.scale)
    }
}
