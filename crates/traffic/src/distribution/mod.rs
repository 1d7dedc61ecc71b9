//! The distributions of chance: how inter-departure times and sizes vary.
//!
//! One distribution is one file, and one line of the table below. Such a file has the parameters as they are
//! written ([`Distribution`] is the enum of them) and the random variable that they describe: how it is drawn,
//! its distribution function and its mean. What all distributions share is in `written.rs` (text) and in
//! `sampler.rs` (a mean that a rate demands, bounds). [`draw`] is the random source, [`choice`] draws
//! among weighted entries, and [`fit`] tests whether samples follow a distribution.
//!
//! Everything here is pure. It knows neither flows nor schedules: a mean and bounds are passed in, and
//! samples are numbers of nanoseconds or bytes.
//!
//! **Reproducible.** The same seed gives the same samples on every machine. Random bits are integers, and
//! what is calculated from them here goes through the crate `libm`, never through the C library, whose
//! logarithms differ between machines. One thing is left: `rand_distr`, which draws the normal, gamma and
//! Poisson variables, uses the C library's `exp` and `log`, because `serde-saphyr` turns on `num-traits`'
//! feature `std` for the whole build. They decide whether a candidate is accepted, and shape the normal
//! distribution's tails beyond 3.65 deviations. Two C libraries differ in the last of 53 bits at most, which shows
//! only where rounding to a nanosecond or byte falls between the two: with gaps of up to a millisecond,
//! less than once in 10^12.

mod bounded;
pub mod cauchy;
pub mod choice;
pub mod draw;
pub mod exponential;
pub mod fit;
pub mod gamma;
pub mod log_normal;
pub mod normal;
pub mod pareto;
pub mod poisson;
mod quantity;
mod sampler;
mod special;
pub mod uniform;
pub mod weibull;
mod written;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, MapAccess};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::text::hint::with_hint;
pub use bounded::Bounded;
use draw::Draw;
pub use quantity::{Deviation, Quantity};
pub use sampler::{Bounds, LawError, Sampler};
use wirebeat_units::Fault;
use written::DistributionSpec;

/// A random variable: a distribution with all its parameters as numbers, in nanoseconds or bytes.
trait Variable {
    /// A sample.
    fn draw(&self, draw: &mut Draw) -> f64;

    /// The probability of a value up to `x`, which may be infinite.
    fn cdf(&self, x: f64) -> f64;

    /// An antiderivative of t dF(t) at `x`, where F is [`cdf`](Variable::cdf): its differences are the
    /// mean within bounds, times their probability. It may be infinite at infinity.
    fn moment(&self, x: f64) -> f64;

    /// The mean, where there is one.
    fn mean(&self) -> Option<f64>;

    /// The largest value it takes below `x`, or `x` where it takes all values.
    fn before(&self, x: f64) -> f64 {
        x
    }

    /// About which value it is mirrored, and is still to be when it is cut at 0.
    fn centre(&self) -> Option<f64> {
        None
    }
}

/// Makes the enums of the distributions and of their variables, and what is the same for all of them.
macro_rules! distributions {
    ($($(#[doc = $doc:literal])* $name:literal $variant:ident $variable:ident $module:ident;)*) => {
        /// A probability distribution as it is written. `Q` is what it is about: [`wirebeat_units::Nanos`] or
        /// [`wirebeat_units::Bytes`].
        #[derive(Clone, Debug, PartialEq)]
        pub enum Distribution<Q> {
            $($(#[doc = $doc])* $variant($module::$variant<Q>),)*
        }

        /// The random variable of a distribution.
        #[derive(Clone, Debug, PartialEq)]
        enum AnyVariable {
            $($variant($module::$variable),)*
        }

        impl<Q: Quantity> Distribution<Q> {
            /// The names of all distributions: the keys they are written with.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The key that it is written with.
            pub fn name(&self) -> &'static str {
                match self { $(Distribution::$variant(_) => $name,)* }
            }

            /// What is invalid: the key it is about, and why.
            pub fn check(&self) -> Result<(), (&'static str, Fault)> {
                match self { $(Distribution::$variant(distribution) => distribution.check(),)* }
            }

            /// What draws from it. `mean` is the mean that is demanded from outside, by a rate, in
            /// nanoseconds or bytes; it takes the place of the parameter that is left out.
            pub fn sampler(&self, mean: Option<f64>, bounds: Bounds) -> Result<Sampler, LawError> {
                match self {
                    $(Distribution::$variant(distribution) => sampler::sampler::<Q, _>($name, distribution, mean, bounds),)*
                }
            }

            /// Its mean without bounds, in nanoseconds or bytes: `None` where it has none, or where one
            /// is to be demanded.
            pub fn mean(&self) -> Option<f64> {
                match self { $(Distribution::$variant(distribution) => sampler::mean(distribution),)* }
            }

            /// The JSON Schema of the parameters of each distribution.
            pub(crate) fn parameters(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
                vec![$(($name, generator.subschema_for::<$module::$variant<Q>>()),)*]
            }

            /// The distribution that a bare word means, or why it needs parameters. `None`: there is no such distribution.
            fn from_word(word: &str) -> Option<Result<Self, Fault>> {
                match word {
                    $($name => Some(written::bare().map(Distribution::$variant)),)*
                    _ => None,
                }
            }

            /// Writes it as an entry of a map that holds more than it.
            pub(crate) fn write_entry<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self { $(Distribution::$variant(distribution) => map.serialize_entry($name, distribution),)* }
            }

            /// Reads the parameters of the distribution of this name. `None`: there is no such distribution.
            fn from_entry<'de, A: MapAccess<'de>>(
                name: &str,
                map: &mut A,
            ) -> Result<Option<Self>, A::Error> {
                match name {
                    $($name => map.next_value().map(|distribution| Some(Distribution::$variant(distribution))),)*
                    _ => Ok(None),
                }
            }
        }

        impl<Q: Quantity> Serialize for Distribution<Q> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Distribution::$variant(distribution) => write($name, distribution, serializer),)* }
            }
        }

        impl<Q: Quantity> JsonSchema for Distribution<Q> {
            fn schema_name() -> Cow<'static, str> {
                Q::DISTRIBUTION.into()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let mut distributions = Vec::new();
                $(
                    let parameters = generator.subschema_for::<$module::$variant<Q>>();
                    let doc = concat!($($doc),*).trim();
                    distributions.extend(written::alternatives::<$module::$variant<Q>>($name, doc, &parameters));
                )*
                schemars::json_schema!({ "description": "A probability distribution.", "anyOf": distributions })
            }
        }

        $(impl From<$module::$variable> for AnyVariable {
            fn from(variable: $module::$variable) -> AnyVariable {
                AnyVariable::$variant(variable)
            }
        })*

        impl Variable for AnyVariable {
            #[inline]
            fn draw(&self, draw: &mut Draw) -> f64 {
                match self { $(AnyVariable::$variant(variable) => variable.draw(draw),)* }
            }
            fn cdf(&self, x: f64) -> f64 {
                match self { $(AnyVariable::$variant(variable) => variable.cdf(x),)* }
            }
            fn moment(&self, x: f64) -> f64 {
                match self { $(AnyVariable::$variant(variable) => variable.moment(x),)* }
            }
            fn mean(&self) -> Option<f64> {
                match self { $(AnyVariable::$variant(variable) => variable.mean(),)* }
            }
            fn before(&self, x: f64) -> f64 {
                match self { $(AnyVariable::$variant(variable) => variable.before(x),)* }
            }
            fn centre(&self) -> Option<f64> {
                match self { $(AnyVariable::$variant(variable) => variable.centre(),)* }
            }
        }
    };
}

distributions! {
    /// Every whole number from a smallest to a largest one, equally likely.
    "uniform" Uniform UniformVariable uniform;
    /// Exponential: the gaps of a Poisson process.
    "exponential" Exponential ExponentialVariable exponential;
    /// Pareto: heavy-tailed.
    "pareto" Pareto ParetoVariable pareto;
    /// Cauchy: so heavy-tailed that it has no mean.
    "cauchy" Cauchy CauchyVariable cauchy;
    /// Normal (Gaussian).
    "normal" Normal NormalVariable normal;
    /// Poisson-distributed: a count, as D-ITG draws it. A Poisson process has exponential gaps.
    "poisson-distributed" Poisson PoissonVariable poisson;
    /// Gamma; of a whole shape, Erlang.
    "gamma" Gamma GammaVariable gamma;
    /// Weibull.
    "weibull" Weibull WeibullVariable weibull;
    /// Log-normal: its logarithm is normal.
    "log-normal" LogNormal LogNormalVariable log_normal;
}

impl<Q: Quantity> Distribution<Q> {
    /// The distribution that a word means, which needs no parameters.
    pub(crate) fn from_bare_word(word: &str) -> Result<Self, Fault> {
        let unknown = || with_hint("unknown word", word, Self::NAMES.iter().copied());
        Self::from_word(word).unwrap_or_else(|| Err(unknown()))
    }
}

/// A distribution without parameters as a word, others as a key with them.
fn write<S: Serializer, T>(
    name: &'static str,
    distribution: &T,
    serializer: S,
) -> Result<S::Ok, S::Error>
where
    T: DistributionSpec + Serialize + DeserializeOwned + PartialEq,
{
    if written::bare::<T>().is_ok_and(|bare| bare == *distribution) {
        return serializer.serialize_str(name);
    }
    serializer.collect_map([(name, distribution)])
}

#[cfg(test)]
mod tests;
