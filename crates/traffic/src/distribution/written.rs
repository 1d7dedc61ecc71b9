//! How a distribution is written: `exponential`, or `gamma: { shape: 2, scale: 5us }`.
//!
//! A distribution whose parameters may all be left out may be written as a bare word. Which ones these are
//! follows from the distributions' own types, so that reading, writing and the JSON Schema agree.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{Error as PlainError, MapDeserializer};
use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use wirebeat_units::{Fault, fault};

use super::{Distribution, Quantity, Variable};

/// What every distribution says about its parameters as they are written.
pub(super) trait DistributionSpec {
    /// The distribution with all its parameters as numbers.
    type Variable: Variable;

    /// What is invalid: the key it is about, and why.
    fn check(&self) -> Result<(), (&'static str, Fault)>;

    /// Where its mean comes from.
    fn form(&self) -> Form;

    /// The distribution with all its parameters as numbers. Its mean is `mean`, in nanoseconds or bytes, where
    /// the form is [`Form::Free`]; a distribution without a mean takes it as its scale. `None` where the numbers
    /// lie beyond all floating point.
    fn variable(&self, mean: f64) -> Option<Self::Variable>;

    /// Why it has no mean, and what to do about it, where that is so.
    fn without_mean(&self) -> &'static str {
        "leave the mean to the distribution"
    }
}

/// Where the mean of a distribution comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// From what is written: these keys.
    Fixed(&'static str),
    /// From outside, as long as this key is left out.
    Free(&'static str),
}

impl Form {
    /// [`Form::Fixed`] where the one parameter that gives the mean is written.
    pub(super) fn of<T>(key: &'static str, written: &Option<T>) -> Form {
        if written.is_some() { Form::Fixed(key) } else { Form::Free(key) }
    }
}

/// The shapes that distributions may have. Beyond them means and probabilities leave the range of floating
/// point, and no textbook goes near these ends.
const SHAPES: std::ops::RangeInclusive<f64> = 0.01..=1e6;

/// Of the parameter `shape`.
pub(super) fn check_shape(shape: f64) -> Result<(), (&'static str, Fault)> {
    if SHAPES.contains(&shape) {
        return Ok(());
    }
    Err(("shape", fault!("it is {shape}, and goes from {} to {}", SHAPES.start(), SHAPES.end())))
}

/// Of a parameter that is above 0.
pub(super) fn positive(key: &'static str, value: f64) -> Result<(), (&'static str, Fault)> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err((
        key,
        fault!(
            "it is {value}, and must be above 0";
            "for a value that does not vary, use no distribution"
        ),
    ))
}

/// Of an amount that may be left out and is otherwise above 0.
pub(super) fn positive_amount<Q: Quantity>(
    key: &'static str,
    amount: Option<Q>,
) -> Result<(), (&'static str, Fault)> {
    amount.map_or(Ok(()), |amount| positive(key, amount.to_f64()))
}

/// The distribution that a bare word means: without a single parameter. An error where some are needed.
pub(super) fn bare<T: DistributionSpec + DeserializeOwned>() -> Result<T, Fault> {
    let nothing: [(&str, &str); 0] = [];
    let nothing = MapDeserializer::<_, PlainError>::new(nothing.into_iter());
    let distribution =
        T::deserialize(nothing).map_err(|error| Fault::unpacked(&error.to_string()))?;
    match distribution.check() {
        Ok(()) => Ok(distribution),
        Err((_, why)) => Err(why),
    }
}

/// A way to write a distribution in the JSON Schema: with its parameters, and as a word where that is enough.
pub(super) fn alternatives<T: DistributionSpec + DeserializeOwned>(
    name: &str,
    description: &str,
    parameters: &schemars::Schema,
) -> Vec<Value> {
    let keyed = json!({
        "type": "object",
        "description": description,
        "properties": { name: parameters },
        "required": [name],
        "additionalProperties": false
    });
    let word = bare::<T>().is_ok().then(|| json!({ "const": name, "description": description }));
    word.into_iter().chain([keyed]).collect()
}

impl<'de, Q: Quantity> Deserialize<'de> for Distribution<Q> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LawVisitor(PhantomData))
    }
}

struct LawVisitor<Q>(PhantomData<Q>);

impl<'de, Q: Quantity> Visitor<'de> for LawVisitor<Q> {
    type Value = Distribution<Q>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a distribution, such as exponential or 'normal: { deviation: 25% }'")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Distribution<Q>, E> {
        match Distribution::from_word(word) {
            None => Err(E::unknown_variant(word, Distribution::<Q>::NAMES)),
            Some(Ok(distribution)) => Ok(distribution),
            Some(Err(why)) => Err(crate::text::custom(
                why.at(format!("'{word}' needs parameters, as in '{word}: {{ … }}'")),
            )),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Distribution<Q>, A::Error> {
        let Some(name) = map.next_key::<String>()? else {
            return Err(crate::text::custom(
                fault!("a distribution is missing here"; "write for example exponential"),
            ));
        };
        let distribution = match Distribution::from_entry(&name, &mut map)? {
            Some(distribution) => distribution,
            None => return Err(A::Error::unknown_variant(&name, Distribution::<Q>::NAMES)),
        };
        match map.next_entry::<String, IgnoredAny>()? {
            None => Ok(distribution),
            Some(_) => Err(A::Error::custom("only one distribution may stand here")),
        }
    }
}
