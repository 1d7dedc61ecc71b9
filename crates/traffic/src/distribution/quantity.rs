//! What a distribution is about: times between departures, or sizes.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wirebeat_units::{Bytes, Fault, Nanos, UnitError, fault, human};

use crate::text::schema::{BytesText, TimeText};
use crate::text::word_or_number;

/// A quantity that a distribution may be about. Distributions calculate with the number of its finest unit.
pub trait Quantity:
    Copy
    + fmt::Debug
    + fmt::Display
    + PartialEq
    + FromStr<Err = UnitError>
    + Serialize
    + DeserializeOwned
    + 'static
{
    /// What it is in the JSON Schema.
    type Text: JsonSchema;
    /// What a distribution of it is called in the JSON Schema.
    const DISTRIBUTION: &'static str;

    /// In nanoseconds, or in bytes.
    fn to_f64(self) -> f64;

    /// A value in nanoseconds or in bytes, rounded for a message: "1.23 µs".
    fn words(value: f64) -> String;
}

impl Quantity for Nanos {
    type Text = TimeText;
    const DISTRIBUTION: &'static str = "distribution-of-time";

    fn to_f64(self) -> f64 {
        self.get() as f64
    }
    fn words(value: f64) -> String {
        human::time(value)
    }
}

impl Quantity for Bytes {
    type Text = BytesText;
    const DISTRIBUTION: &'static str = "distribution-of-size";

    fn to_f64(self) -> f64 {
        self.get() as f64
    }
    fn words(value: f64) -> String {
        human::bytes(value)
    }
}

/// A standard deviation: an amount, or a share of the mean, which then goes with any rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deviation<Q> {
    /// `2us`, `100B`.
    Amount(Q),
    /// `25%`: in percent of the mean.
    Percent(f64),
}

impl<Q: Quantity> Deviation<Q> {
    /// Of a distribution with this mean, in the same unit.
    pub(super) fn of(&self, mean: f64) -> f64 {
        match self {
            Deviation::Amount(amount) => amount.to_f64(),
            Deviation::Percent(percent) => mean * percent / 100.0,
        }
    }

    /// What is invalid.
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        match self {
            Deviation::Percent(percent) => super::written::positive("deviation", *percent),
            Deviation::Amount(amount) => super::written::positive("deviation", amount.to_f64()),
        }
    }
}

impl<Q: Quantity> FromStr for Deviation<Q> {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return text.parse().map(Deviation::Amount).map_err(
                |error: UnitError| fault!("{error}"; "or a share of the mean, such as 25%"),
            );
        };
        match percent.trim_end().parse() {
            Ok(percent) => Ok(Deviation::Percent(percent)),
            Err(_) => Err(fault!("this is not a share of the mean"; "write for example 25%")),
        }
    }
}

impl<Q: Quantity> fmt::Display for Deviation<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deviation::Amount(amount) => fmt::Display::fmt(amount, f),
            Deviation::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

word_or_number!(<Q: Quantity> Deviation<Q>);

impl<Q: Quantity> JsonSchema for Deviation<Q> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "deviation".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let amount = generator.subschema_for::<Q::Text>();
        json_schema!({
            "description": "A standard deviation: an amount, or a share of the mean.",
            "anyOf": [amount, { "type": "string", "pattern": "%$", "examples": ["25%"] }]
        })
    }
}
