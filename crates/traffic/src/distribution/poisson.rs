//! The Poisson distribution: how many events there are where each is rare. It counts nanoseconds or bytes.
//!
//! Its standard deviation is the square root of its mean, so gaps of 10 µs deviate by 100 ns. The gaps
//! of a Poisson *process* are exponential; `departures: poisson` means that, and this distribution has a name of its own.

use libm::{ceil, floor};
use rand_distr::Distribution as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::Fault;

use super::draw::Draw;
use super::special::gamma_p;
use super::written::{DistributionSpec, Form, positive_amount};
use super::{Quantity, Variable};

/// Its mean is all there is to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity")]
pub struct Poisson<Q> {
    /// The mean. Without it: what the rate asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Q::Text>")]
    pub mean: Option<Q>,
}

impl<Q: Quantity> DistributionSpec for Poisson<Q> {
    type Variable = PoissonVariable;

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        positive_amount("mean", self.mean)
    }

    fn form(&self) -> Form {
        Form::of("'mean'", &self.mean)
    }

    fn variable(&self, mean: f64) -> Option<PoissonVariable> {
        let mean = self.mean.map_or(mean, Q::to_f64);
        Some(PoissonVariable { mean, counts: rand_distr::Poisson::new(mean).ok()? })
    }
}

/// By its mean.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PoissonVariable {
    mean: f64,
    counts: rand_distr::Poisson<f64>,
}

impl Variable for PoissonVariable {
    fn draw(&self, draw: &mut Draw) -> f64 {
        self.counts.sample(draw)
    }

    fn cdf(&self, x: f64) -> f64 {
        if x < 0.0 {
            0.0
        } else if x == f64::INFINITY {
            1.0
        } else {
            1.0 - gamma_p(floor(x) + 1.0, self.mean)
        }
    }

    fn moment(&self, x: f64) -> f64 {
        self.mean * self.cdf(x - 1.0)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean)
    }

    fn before(&self, x: f64) -> f64 {
        ceil(x) - 1.0
    }
}
