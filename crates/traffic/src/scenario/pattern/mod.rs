//! How a field changes from frame to frame: one file for each pattern, and one line of the table below.
//!
//! A field is written as its value, or as a map whose first word is the pattern. What a pattern means
//! for frame number `n` is `values/mod.rs`; here is only how it is written and what is invalid.

mod list;
mod random;
mod step;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error, MapAccess};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Fault, fault};
use wirebeat_wire::mac::MacAddr;

use super::header::dscp::Dscp;
use super::number::Number;
use super::tagged::{self, Tagged, keyed};
pub use crate::values::Per;
use crate::values::{Shape, low_bits};

pub use list::List;
pub use random::Random;
pub use step::{Decrement, Increment};

/// What a field can hold.
pub trait FieldValue:
    Copy + fmt::Debug + PartialEq + Serialize + for<'de> Deserialize<'de> + JsonSchema
{
    /// Its bits as a number, in the order of the wire.
    fn to_bits(self) -> u128;
}

/// A field of a header: what it holds in each frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<T> {
    /// The same in every frame.
    Fixed(T),
    /// It changes.
    Changing(Changing<T>),
}

/// A pattern, and what it advances by.
#[derive(Clone, Debug, PartialEq)]
pub struct Changing<T> {
    /// How the values follow one another.
    pub pattern: Pattern<T>,
    /// With what they follow.
    pub per: Per,
}

/// What each kind of pattern says about itself.
pub(crate) trait PatternSpec<T: FieldValue> {
    /// What it holds in the first frame (of a random one: the smallest).
    fn first(&self) -> T;
    /// What it does in a field of `bits`.
    fn shape(&self, bits: u32) -> Shape;
    /// The largest number that it can mean, before it is cut to the field.
    fn largest(&self) -> u128;
    /// What is invalid.
    fn check(&self) -> Result<(), Fault>;
    /// Takes over what stands beside the pattern.
    fn beside(&mut self, beside: &mut Beside<T>);
}

/// What can stand beside a pattern.
#[derive(Debug)]
pub(crate) struct Beside<T> {
    step: Option<Number>,
    count: Option<u64>,
    mask: Option<T>,
    per: Per,
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Beside { step: None, count: None, mask: None, per: Per::Frame }
    }
}

/// Makes the enum of the patterns and what is the same for all of them.
macro_rules! patterns {
    ($($(#[$doc:meta])* $name:literal $variant:ident;)*) => {
        /// How the values of a field follow one another.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Pattern<T> {
            $($(#[$doc])* $variant($variant<T>),)*
        }

        const KINDS: &[&str] = &[$($name),*];

        impl<T: FieldValue> Pattern<T> {
            fn spec(&self) -> &dyn PatternSpec<T> {
                match self { $(Pattern::$variant(pattern) => pattern,)* }
            }
            fn spec_mut(&mut self) -> &mut dyn PatternSpec<T> {
                match self { $(Pattern::$variant(pattern) => pattern,)* }
            }
            fn read<'de, D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
                match key {
                    $($name => $variant::read(value).map(Pattern::$variant),)*
                    _ => Err(D::Error::custom("no pattern")),
                }
            }
            fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self { $(Pattern::$variant(pattern) => pattern.write($name, map),)* }
            }
        }
    };
}

patterns! {
    /// One value after the other, and again from the first.
    "list" List;
    /// Up by a step, `count` values, and again from the first.
    "increment" Increment;
    /// Down by a step.
    "decrement" Decrement;
    /// Drawn from a range.
    "random" Random;
}

impl<T: FieldValue> Field<T> {
    /// What it holds in the first frame.
    pub fn first(&self) -> T {
        match self {
            Field::Fixed(value) => *value,
            Field::Changing(changing) => changing.pattern.spec().first(),
        }
    }

    /// The value, if it is the same in every frame.
    pub fn fixed(&self) -> Option<T> {
        match self {
            Field::Fixed(value) => Some(*value),
            Field::Changing(_) => None,
        }
    }

    /// Ranges of numbers in the order of the wire, in a field of `bits`: every value that it ever holds lies in one of
    /// them. A pattern may leave out some values of its range.
    pub fn ranges(&self, bits: u32) -> Vec<RangeInclusive<u128>> {
        match self {
            Field::Fixed(value) => vec![value.to_bits()..=value.to_bits()],
            Field::Changing(changing) => changing.pattern.spec().shape(bits).ranges(),
        }
    }

    /// What it does in a field of `bits`; `None` for a value that does not change.
    pub(crate) fn shape(&self, bits: u32) -> Option<(Shape, Per)> {
        match self {
            Field::Fixed(_) => None,
            Field::Changing(changing) => Some((changing.pattern.spec().shape(bits), changing.per)),
        }
    }

    /// What is invalid in a field of `bits`.
    pub(crate) fn check(&self, bits: u32) -> Result<(), Fault> {
        let largest = match self {
            Field::Fixed(value) => value.to_bits(),
            Field::Changing(changing) => {
                changing.pattern.spec().check()?;
                changing.pattern.spec().largest()
            }
        };
        match low_bits(bits) {
            most if largest > most => Err(fault!("this field has {bits} bits, so at most {most}")),
            _ => Ok(()),
        }
    }
}

impl<T: Default> Default for Field<T> {
    fn default() -> Self {
        Field::Fixed(T::default())
    }
}

impl<T> From<T> for Field<T> {
    fn from(value: T) -> Self {
        Field::Fixed(value)
    }
}

impl<T: FieldValue> Serialize for Field<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        match self {
            Field::Fixed(value) => value.serialize(serializer),
            Field::Changing(changing) => {
                let mut map = serializer.serialize_map(None)?;
                changing.pattern.write(&mut map)?;
                if changing.per != Per::default() {
                    map.serialize_entry("per", &changing.per)?;
                }
                map.end()
            }
        }
    }
}

impl<'de, T: FieldValue> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |value: T| Ok(Field::Fixed(value)))
    }
}

impl<'de, T: FieldValue> Tagged<'de> for Field<T> {
    const KINDS: &'static [&'static str] = KINDS;
    const WHAT: &'static str = "a value, or a pattern";
    const OTHERS: &'static [&'static str] = &["step", "count", "mask", "per"];
    type Beside = Beside<T>;

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        let pattern = Pattern::read(key, value)?;
        Ok(Field::Changing(Changing { pattern, per: Per::Frame }))
    }

    fn beside<A: MapAccess<'de>>(
        key: &str,
        map: &mut A,
        beside: &mut Beside<T>,
    ) -> Result<bool, A::Error> {
        match key {
            "step" => beside.step = Some(map.next_value()?),
            "count" => beside.count = Some(map.next_value()?),
            "mask" => beside.mask = Some(map.next_value()?),
            "per" => beside.per = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn join(mut self, mut beside: Beside<T>) -> Result<Self, Fault> {
        if let Field::Changing(changing) = &mut self {
            changing.per = beside.per;
            changing.pattern.spec_mut().beside(&mut beside);
        }
        let left = [
            ("step", beside.step.is_some()),
            ("count", beside.count.is_some()),
            ("mask", beside.mask.is_some()),
        ];
        match left.iter().find(|(_, left)| *left) {
            Some((key, _)) => Err(fault!("this pattern has no '{key}'")),
            None => Ok(self),
        }
    }
}

impl<T: FieldValue> JsonSchema for Field<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("field-of-{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        let per = generator.subschema_for::<Per>();
        let number = generator.subschema_for::<Number>();
        let count = schemars::json_schema!({ "type": "integer", "minimum": 1 });
        let list = schemars::json_schema!({ "type": "array", "items": value, "minItems": 1 });
        let range = schemars::json_schema!({ "type": "array", "items": value, "minItems": 2, "maxItems": 2 });
        let step = [("step", &number), ("count", &count), ("per", &per)];
        schemars::json_schema!({
            "description": "A value, or how it changes.",
            "anyOf": [
                value,
                keyed("list", &list, &[("per", &per)]),
                keyed("increment", &value, &step),
                keyed("decrement", &value, &step),
                keyed("random", &range, &[("mask", &value), ("per", &per)])
            ]
        })
    }
}

impl FieldValue for Number {
    fn to_bits(self) -> u128 {
        self.get().into()
    }
}

impl FieldValue for Ipv4Addr {
    fn to_bits(self) -> u128 {
        Ipv4Addr::to_bits(self).into()
    }
}

impl FieldValue for Ipv6Addr {
    fn to_bits(self) -> u128 {
        Ipv6Addr::to_bits(self)
    }
}

impl FieldValue for Dscp {
    fn to_bits(self) -> u128 {
        (self.to_tos() >> 2).into()
    }
}

/// An Ethernet address in a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(transparent)]
pub struct Mac(#[schemars(with = "super::schema::MacText")] pub MacAddr);

impl FieldValue for Mac {
    fn to_bits(self) -> u128 {
        self.0.0.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte))
    }
}
