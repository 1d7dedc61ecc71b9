//! How long the frames of a flow are.

use std::fmt;
use std::str::FromStr;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, MapAccess};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Bytes, FrameLen};

use super::different;
use super::schema::LengthText;
use super::shared::Shared;
use super::tagged::{self, Tagged, keyed};
use crate::distribution::Distribution;
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
    /// Drawn from a distribution.
    Drawn(Drawn),
}

/// Sizes that are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// From what.
    pub distribution: Distribution<Bytes>,
    /// No size is below; default: the shortest frame.
    pub min: Option<Bytes>,
    /// No size is above; default: the longest frame that does not need fragmenting, 1518 bytes.
    pub max: Option<Bytes>,
    /// What is drawn.
    pub of: Of,
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
    pub(super) fn check(&self) -> Result<(), String> {
        let count = match self {
            Size::Mix(mix) => {
                if mix.values().all(|weight| *weight == 0) {
                    return Err("a mix has at least one length with a weight".to_owned());
                }
                mix.len()
            }
            Size::List(list) if list.is_empty() => {
                return Err("a list has at least one length".to_owned());
            }
            Size::List(list) => list.len(),
            Size::Drawn(drawn) => {
                if let (Some(min), Some(max)) = (drawn.min, drawn.max)
                    && min > max
                {
                    return Err(format!("'min' is {min} and 'max' is {max}; exchange them"));
                }
                return drawn.distribution.check().map_err(|(key, why)| format!("{key}: {why}"));
            }
            Size::File(name) | Size::Capture(name) if name.is_empty() => {
                return Err("the name of a file is not empty".to_owned());
            }
            _ => 1,
        };
        if count > MAX_LENGTHS {
            return Err(format!("there are {count} lengths, and {MAX_LENGTHS} is the most"));
        }
        Ok(())
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (bytes, of) = match text.split_once('@') {
            None => (text, Of::Frame),
            Some((bytes, "frame")) => (bytes, Of::Frame),
            Some((bytes, "payload")) => (bytes, Of::Payload),
            Some((_, other)) => {
                return Err(format!(
                    "'{}' is nothing that a length counts; write 64B, or 20B@payload",
                    crate::text::printable(other, 64)
                ));
            }
        };
        match of {
            Of::Frame => {
                let len: FrameLen =
                    bytes.parse().map_err(|error: wirebeat_units::UnitError| error.to_string())?;
                Ok(Length { bytes: len.get(), of })
            }
            Of::Payload => {
                let len: Bytes =
                    bytes.parse().map_err(|error: wirebeat_units::UnitError| error.to_string())?;
                match u16::try_from(len.get()) {
                    Ok(bytes) if bytes <= MAX_PAYLOAD => Ok(Length { bytes, of }),
                    _ => Err(format!(
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
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "imix" => Ok(Size::imix()),
            distribution if Distribution::<Bytes>::NAMES.contains(&distribution) => {
                let drawn =
                    |distribution| Drawn { distribution, min: None, max: None, of: Of::Frame };
                Distribution::from_bare_word(distribution).map(drawn).map(Size::Drawn)
            }
            length => length.parse().map(Size::Fixed),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Size::Fixed(length) => length.serialize(serializer),
            mix if *mix == Size::imix() => serializer.serialize_str("imix"),
            Size::Mix(weights) => serializer.collect_map([("mix", weights)]),
            Size::List(lengths) => serializer.collect_map([("list", lengths)]),
            Size::File(name) => serializer.collect_map([("file", name)]),
            Size::Capture(name) => serializer.collect_map([("capture", name)]),
            Size::Drawn(drawn) => {
                let mut map = serializer.serialize_map(None)?;
                drawn.distribution.write_entry(&mut map)?;
                if let Some(min) = &drawn.min {
                    map.serialize_entry("min", min)?;
                }
                if let Some(max) = &drawn.max {
                    map.serialize_entry("max", max)?;
                }
                if drawn.of != Of::Frame {
                    map.serialize_entry("of", &drawn.of)?;
                }
                map.end()
            }
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
pub struct Bounds {
    min: Option<Bytes>,
    max: Option<Bytes>,
    of: Option<Of>,
}

const KINDS: [&str; 4] = ["mix", "list", "file", "capture"];
const ALL_KINDS: [&str; KINDS.len() + Distribution::<Bytes>::NAMES.len()] =
    tagged::joined(&KINDS, Distribution::<Bytes>::NAMES);

impl<'de> Tagged<'de> for Size {
    const KINDS: &'static [&'static str] = &ALL_KINDS;
    const WHAT: &'static str = "a length such as 64B, 'imix', or how lengths are chosen";
    const OTHERS: &'static [&'static str] = &["min", "max", "of"];
    type Beside = Bounds;

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        match key {
            "mix" => different::map(value).map(Size::Mix),
            "list" => Shared::deserialize(value).map(Size::List),
            "file" => String::deserialize(value).map(Size::File),
            "capture" => String::deserialize(value).map(Size::Capture),
            distribution => tagged::variant(distribution, value).map(|distribution| {
                Size::Drawn(Drawn { distribution, min: None, max: None, of: Of::Frame })
            }),
        }
    }

    fn beside<A: MapAccess<'de>>(
        key: &str,
        map: &mut A,
        beside: &mut Bounds,
    ) -> Result<bool, A::Error> {
        match key {
            "min" => beside.min = Some(map.next_value()?),
            "max" => beside.max = Some(map.next_value()?),
            "of" => beside.of = Some(map.next_value()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn join(self, beside: Bounds) -> Result<Self, String> {
        match self {
            Size::Drawn(drawn) => Ok(Size::Drawn(Drawn {
                min: beside.min,
                max: beside.max,
                of: beside.of.unwrap_or_default(),
                ..drawn
            })),
            other if beside.min.is_none() && beside.max.is_none() && beside.of.is_none() => {
                Ok(other)
            }
            _ => Err(
                "'min', 'max' and 'of' go with a distribution; write 20B@payload for a length of \
                      the payload"
                    .to_owned(),
            ),
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
        let file = generator.subschema_for::<String>();
        let mix = json_schema!({
            "description": "Lengths with their weights.",
            "type": "object",
            "additionalProperties": { "type": "integer", "minimum": 0 }
        });
        let list = json_schema!({ "type": "array", "items": length, "minItems": 1 });
        json_schema!({
            "description": "How long frames are: a length, or how lengths are chosen.",
            "anyOf": [
                length,
                { "const": "imix" },
                keyed("mix", &mix, &[]),
                keyed("list", &list, &[]),
                keyed("file", &file, &[]),
                keyed("capture", &file, &[]),
                distribution,
                bounded
            ]
        })
    }
}
