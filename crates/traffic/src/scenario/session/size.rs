//! How many bytes of data a message has: `1kB`, or a distribution.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, MapAccess};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Bytes, Fault, UnitError, fault};

use crate::distribution::{Bounded, Distribution};
use crate::scenario::schema::BytesText;
use crate::scenario::tagged::{self, Tagged};
use crate::values::session::MAX_DATA;

/// How many bytes of data.
#[derive(Clone, Debug, PartialEq)]
pub enum DataSize {
    /// Always as many.
    Fixed(Bytes),
    /// As many as a distribution says, by the number of the session and of the message.
    Drawn(Bounded<Bytes>),
}

impl DataSize {
    /// What is invalid.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        match self {
            DataSize::Fixed(bytes) if bytes.get() > MAX_DATA => {
                Err(fault!("a message has 1 TiB at most"))
            }
            DataSize::Fixed(_) => Ok(()),
            DataSize::Drawn(drawn) => drawn.check(),
        }
    }
}

impl From<Bytes> for DataSize {
    fn from(bytes: Bytes) -> DataSize {
        DataSize::Fixed(bytes)
    }
}

impl Serialize for DataSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        match self {
            DataSize::Fixed(bytes) => bytes.serialize(serializer),
            DataSize::Drawn(drawn) if drawn.min.is_none() && drawn.max.is_none() => {
                drawn.distribution.serialize(serializer)
            }
            DataSize::Drawn(drawn) => {
                let mut map = serializer.serialize_map(None)?;
                drawn.write_entries(&mut map)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for DataSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |word: String| word.parse())
    }
}

impl std::str::FromStr for DataSize {
    type Err = Fault;

    fn from_str(word: &str) -> Result<Self, Fault> {
        match Distribution::<Bytes>::NAMES.contains(&word) {
            true => Ok(DataSize::Drawn(Distribution::from_bare_word(word)?.into())),
            false => word.parse().map(DataSize::Fixed).map_err(|error: UnitError| error.fault()),
        }
    }
}

impl<'de> Tagged<'de> for DataSize {
    const KINDS: &'static [&'static str] = Distribution::<Bytes>::NAMES;
    const WHAT: &'static str = "a number of bytes such as 1kB, or a distribution";
    const OTHERS: &'static [&'static str] = &["min", "max"];
    type Beside = (Option<Bytes>, Option<Bytes>);

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        let drawn: Distribution<Bytes> = tagged::variant(key, value)?;
        Ok(DataSize::Drawn(drawn.into()))
    }

    fn beside<A: MapAccess<'de>>(
        key: &str,
        map: &mut A,
        beside: &mut Self::Beside,
    ) -> Result<bool, A::Error> {
        match key {
            "min" => beside.0 = Some(map.next_value()?),
            "max" => beside.1 = Some(map.next_value()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn join(self, (min, max): Self::Beside) -> Result<Self, Fault> {
        match self {
            DataSize::Drawn(drawn) => Ok(DataSize::Drawn(Bounded { min, max, ..drawn })),
            fixed => Ok(fixed),
        }
    }
}

impl JsonSchema for DataSize {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "data-size".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let bytes = generator.subschema_for::<BytesText>();
        let distribution = generator.subschema_for::<Distribution<Bytes>>();
        let bounded = crate::scenario::schema::bounded::<Bytes>(generator, &bytes, None);
        json_schema!({
            "description": "How many bytes of data, or how that varies.",
            "anyOf": [bytes, distribution, bounded]
        })
    }
}
