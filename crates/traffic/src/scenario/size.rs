//! How long the frames of a flow are.

use std::fmt;
use std::str::FromStr;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, MapAccess};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Bytes, Fault, FrameLen, UnitError, fault};

use super::different;
use super::schema::LengthText;
use super::shared::Shared;
use super::tagged::{self, Tagged, described, kinds};
use crate::distribution::{Bounded, Distribution};
use crate::text::word_or_number;

/// The longest IP packet's UDP payload (RFC 791, RFC 768).
pub const MAX_PAYLOAD: u16 = 65_507;
/// The most lengths of a list or a mix.
pub const MAX_LENGTHS: usize = 65_536;

/// A length, and of what: `64B` of the frame with its FCS, `100B@payload` of what follows the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Length {
    /// Bytes.
    pub bytes: u16,
    /// Of what.
    pub of: Of,
}

/// What a length counts.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// The frame with header and FCS.
    #[default]
    Frame,
    /// What follows the headers; the probe is part of it.
    Payload,
}

/// The sizes of a flow's frames.
#[derive(Clone, Debug, PartialEq)]
pub enum Size {
    /// All the same.
    Fixed(Length),
    /// Drawn by weight.
    Mix(Shared<IndexMap<Length, u32>>),
    /// One after the other, and again from the first (RFC 6985).
    List(Shared<Vec<Length>>),
    /// Those of a text file, one in each line, one after the other.
    File(String),
    /// Those of the frames of a capture, one after the other.
    Capture(String),
    /// Drawn from a distribution: the lengths of this. By default none is below the shortest frame, nor above the longest that
    /// does not need fragmenting, 1518 bytes.
    Drawn(Bounded<Bytes>, Of),
}

/// The IMIX that most testers mean: frames of 64, 594 and 1518 bytes, 7 to 4 to 1; IP packets of 40 (as
/// short as Ethernet allows), 576 and 1500 bytes.
const IMIX: [(u16, u32); 3] = [(64, 7), (594, 4), (1518, 1)];

impl Size {
    /// All frames of one length.
    pub fn frame(len: FrameLen) -> Size {
        Size::Fixed(Length { bytes: len.get(), of: Of::Frame })
    }

    /// The weights of the simple IMIX.
    pub fn imix() -> Size {
        let length = |&(bytes, weight): &(u16, u32)| (Length { bytes, of: Of::Frame }, weight);
        Size::Mix(IMIX.iter().map(length).collect())
    }

    /// What is invalid, whatever the headers are.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let count = match self {
            Size::Mix(mix) => {
                if mix.values().all(|weight| *weight == 0) {
                    return Err("a mix has at least one length with a weight".into());
                }
                mix.len()
            }
            Size::List(list) if list.is_empty() => {
                return Err("a list has at least one length".into());
            }
            Size::List(list) => list.len(),
            Size::Drawn(drawn, _) => return drawn.check(),
            Size::File(name) | Size::Capture(name) if name.is_empty() => {
                return Err("the name of a file is not empty".into());
            }
            _ => 1,
        };
        if count > MAX_LENGTHS {
            return Err(fault!("there are {count} lengths, and {MAX_LENGTHS} is the most"));
        }
        Ok(())
    }
}

impl FromStr for Length {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let (bytes, of) = match text.split_once('@') {
            None => (text, Of::Frame),
            Some((bytes, "frame")) => (bytes, Of::Frame),
            Some((bytes, "payload")) => (bytes, Of::Payload),
            Some((_, other)) => {
                return Err(fault!(
                    "'{}' is nothing that a length counts", crate::text::printable(other, 64);
                    "write 64B, or 20B@payload"
                ));
            }
        };
        match of {
            Of::Frame => {
                let len: FrameLen = bytes.parse().map_err(|error: UnitError| error.fault())?;
                Ok(Length { bytes: len.get(), of })
            }
            Of::Payload => {
                let len: Bytes = bytes.parse().map_err(|error: UnitError| error.fault())?;
                match u16::try_from(len.get()) {
                    Ok(bytes) if bytes <= MAX_PAYLOAD => Ok(Length { bytes, of }),
                    _ => Err(fault!(
                        "'{text}' is more than the {MAX_PAYLOAD} bytes that a datagram holds"
                    )),
                }
            }
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            Of::Frame => write!(f, "{}B", self.bytes),
            Of::Payload => write!(f, "{}B@payload", self.bytes),
        }
    }
}

word_or_number!(Length);

impl FromStr for Size {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        match text {
            "imix" => Ok(Size::imix()),
            distribution if Distribution::<Bytes>::NAMES.contains(&distribution) => {
                let drawn = Distribution::from_bare_word(distribution)?;
                Ok(Size::Drawn(drawn.into(), Of::Frame))
            }
            length => length.parse().map(Size::Fixed),
        }
    }
}

kinds! {
    Size:
    "mix" Mix different::map, |_: &mut SchemaGenerator| json_schema!({
        "description": "Lengths with their weights.",
        "type": "object",
        "additionalProperties": { "type": "integer", "minimum": 0 }
    });
    "list" List Shared::deserialize, |generator: &mut SchemaGenerator| {
        let length = generator.subschema_for::<LengthText>();
        json_schema!({ "type": "array", "items": length, "minItems": 1 })
    };
    "file" File String::deserialize, described::<String>;
    "capture" Capture String::deserialize, described::<String>;
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Size::Fixed(length) => length.serialize(serializer),
            mix if *mix == Size::imix() => serializer.serialize_str("imix"),
            Size::Drawn(drawn, of) => {
                let mut map = serializer.serialize_map(None)?;
                drawn.write_entries(&mut map)?;
                if *of != Of::Frame {
                    map.serialize_entry("of", of)?;
                }
                map.end()
            }
            plain => plain.write_plain(serializer)?.or_else(S::serialize_none),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |text: String| text.parse())
    }
}

/// What stands beside the kind.
#[derive(Debug, Default)]
pub struct SizeBounds {
    min: Option<Bytes>,
    max: Option<Bytes>,
    of: Option<Of>,
}

const ALL_KINDS: [&str; Size::PLAIN.len() + Distribution::<Bytes>::NAMES.len()] =
    tagged::joined(&Size::PLAIN, Distribution::<Bytes>::NAMES);

impl<'de> Tagged<'de> for Size {
    const KINDS: &'static [&'static str] = &ALL_KINDS;
    const WHAT: &'static str = "a length such as 64B, 'imix', or how lengths are chosen";
    const OTHERS: &'static [&'static str] = &["min", "max", "of"];
    type Beside = SizeBounds;

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        match Size::read_plain(key, value)? {
            Ok(size) => Ok(size),
            Err(value) => {
                let drawn: Distribution<Bytes> = tagged::variant(key, value)?;
                Ok(Size::Drawn(drawn.into(), Of::Frame))
            }
        }
    }

    fn beside<A: MapAccess<'de>>(
        key: &str,
        map: &mut A,
        beside: &mut SizeBounds,
    ) -> Result<bool, A::Error> {
        match key {
            "min" => beside.min = Some(map.next_value()?),
            "max" => beside.max = Some(map.next_value()?),
            "of" => beside.of = Some(map.next_value()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn join(self, beside: SizeBounds) -> Result<Self, Fault> {
        match self {
            Size::Drawn(drawn, _) => {
                let SizeBounds { min, max, of } = beside;
                Ok(Size::Drawn(Bounded { min, max, ..drawn }, of.unwrap_or_default()))
            }
            other if beside.min.is_none() && beside.max.is_none() && beside.of.is_none() => {
                Ok(other)
            }
            _ => Err(fault!(
                "'min', 'max' and 'of' go with a distribution";
                "write 20B@payload for a length of the payload"
            )),
        }
    }
}

impl JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "size".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let length = generator.subschema_for::<LengthText>();
        let bytes = generator.subschema_for::<super::schema::BytesText>();
        let of = generator.subschema_for::<Of>();
        let distribution = generator.subschema_for::<Distribution<Bytes>>();
        let bounded = super::schema::bounded::<Bytes>(generator, &bytes, Some(&of));
        let [mix, list, file, capture] = Size::plain_schemas(generator);
        json_schema!({
            "description": "How long frames are: a length, or how lengths are chosen.",
            "anyOf": [
                length,
                { "const": "imix" },
                mix,
                list,
                file,
                capture,
                distribution,
                bounded
            ]
        })
    }
}
