//! The normal distribution: a period with jitter.

use rand_distr::{Distribution as _, StandardNormal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::Fault;

use super::draw::Draw;
use super::special::{normal_cdf, normal_density};
use super::written::{DistributionSpec, Form, positive_amount};
use super::{Deviation, Quantity, Variable};

/// Without bounds it is cut at 0 and at twice its mean, which leaves the mean as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity")]
pub struct Normal<Q> {
    /// The mean. Without it: what the rate asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Q::Text>")]
    pub mean: Option<Q>,
    /// The standard deviation: an amount, or a share of the mean.
    pub deviation: Deviation<Q>,
}

impl<Q: Quantity> DistributionSpec for Normal<Q> {
    type Variable = NormalVariable;

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        positive_amount("mean", self.mean)?;
        self.deviation.check()
    }

    fn form(&self) -> Form {
        Form::of("'mean'", &self.mean)
    }

    fn variable(&self, mean: f64) -> Option<NormalVariable> {
        let mean = self.mean.map_or(mean, Q::to_f64);
        let deviation = self.deviation.of(mean);
        (deviation > 0.0 && deviation.is_finite()).then_some(NormalVariable { mean, deviation })
    }
}

/// By its two parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NormalVariable {
    mean: f64,
    deviation: f64,
}

impl NormalVariable {
    fn standard(&self, x: f64) -> f64 {
        (x - self.mean) / self.deviation
    }
}

impl Variable for NormalVariable {
    fn draw(&self, draw: &mut Draw) -> f64 {
        let standard: f64 = StandardNormal.sample(draw);
        self.mean + self.deviation * standard
    }

    fn cdf(&self, x: f64) -> f64 {
        normal_cdf(self.standard(x))
    }

    fn moment(&self, x: f64) -> f64 {
        self.mean * self.cdf(x) - self.deviation * normal_density(self.standard(x))
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean)
    }

    fn centre(&self) -> Option<f64> {
        Some(self.mean)
    }
}
