//! The Cauchy distribution: a bell with tails so heavy that they outweigh any mean.

use std::f64::consts::PI;

use libm::{atan, log1p, tan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::Fault;

use super::draw::Draw;
use super::written::{DistributionSpec, Form, positive};
use super::{Quantity, Variable};

/// Both parameters are always written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity")]
pub struct Cauchy<Q> {
    /// The peak, and the median of the distribution that is not cut at 0.
    #[schemars(with = "Q::Text")]
    pub location: Q,
    /// Half of all values lie closer to the location than this.
    #[schemars(with = "Q::Text")]
    pub scale: Q,
}

impl<Q: Quantity> DistributionSpec for Cauchy<Q> {
    type Variable = CauchyVariable;

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        positive("scale", self.scale.to_f64())
    }

    fn form(&self) -> Form {
        Form::Fixed("'location' and 'scale'")
    }

    fn variable(&self, _: f64) -> Option<CauchyVariable> {
        Some(CauchyVariable { location: self.location.to_f64(), scale: self.scale.to_f64() })
    }

    fn without_mean(&self) -> &'static str {
        "a Cauchy distribution never has one: leave the rate out, since 'location' and 'scale' say it all, or \
         take a distribution that has a mean, such as normal or pareto"
    }
}

/// By its two parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CauchyVariable {
    location: f64,
    scale: f64,
}

impl CauchyVariable {
    fn standard(&self, x: f64) -> f64 {
        (x - self.location) / self.scale
    }
}

impl Variable for CauchyVariable {
    fn draw(&self, draw: &mut Draw) -> f64 {
        self.location + self.scale * tan(PI * (draw.unit() - 0.5))
    }

    fn cdf(&self, x: f64) -> f64 {
        0.5 + atan(self.standard(x)) / PI
    }

    fn moment(&self, x: f64) -> f64 {
        let z = self.standard(x);
        self.location * self.cdf(x) + self.scale * log1p(z * z) / (2.0 * PI)
    }

    fn mean(&self) -> Option<f64> {
        None
    }
}
