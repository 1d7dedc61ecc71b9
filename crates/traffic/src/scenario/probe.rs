//! What a receiver measures the frames of a flow from.

use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Fault, fault};
use wirebeat_wire::codec::Codec;

use crate::text::hint::with_hint;

/// The probe of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// Wirebeat's own, unless the packet is a whole frame or is replayed, and is to stay as it is.
    #[default]
    Auto,
    /// None: frames are only counted.
    Off,
    /// This one.
    Carried(Carried),
}

/// A probe that frames carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Carried {
    /// Whose.
    pub codec: Codec,
    /// The number of the flow in it, for other tools' probes. Default: Wirebeat's own number of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<u32>,
}

impl Probe {
    /// Wirebeat's own.
    pub(super) const WIREBEAT: Carried = Carried { codec: Codec::Wirebeat, flow: None };

    /// This probe, with the flow's own number.
    pub fn of(codec: Codec) -> Probe {
        Probe::Carried(Carried { codec, flow: None })
    }

    /// What is invalid.
    pub(super) fn check(self) -> Result<(), Fault> {
        match self {
            Probe::Carried(Carried { codec: Codec::Wirebeat, flow: Some(_) }) => Err(fault!(
                "Wirebeat's own probes carry the number of the flow by themselves";
                "leave 'flow' out"
            )),
            _ => Ok(()),
        }
    }
}

impl FromStr for Probe {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        match text {
            "auto" => Ok(Probe::Auto),
            "on" | "true" | "yes" => Ok(Probe::of(Codec::Wirebeat)),
            "off" | "false" | "no" => Ok(Probe::Off),
            name => name.parse().map(Probe::of).map_err(|_| {
                let names =
                    ["on", "off"].into_iter().chain(Codec::ALL.iter().map(|codec| codec.name()));
                with_hint("unknown probe", name, names)
            }),
        }
    }
}

impl Serialize for Probe {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Probe::Auto => serializer.serialize_str("auto"),
            Probe::Off => serializer.serialize_str("off"),
            Probe::Carried(Carried { codec: Codec::Wirebeat, .. }) => {
                serializer.serialize_str("on")
            }
            Probe::Carried(Carried { codec, flow: None }) => serializer.collect_str(codec),
            Probe::Carried(carried) => carried.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Probe {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WordOrMap)
    }
}

struct WordOrMap;

impl<'de> Visitor<'de> for WordOrMap {
    type Value = Probe;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("on, off, or whose probe it is")
    }
    fn visit_bool<E: Error>(self, on: bool) -> Result<Probe, E> {
        Ok(if on { Probe::of(Codec::Wirebeat) } else { Probe::Off })
    }
    fn visit_str<E: Error>(self, word: &str) -> Result<Probe, E> {
        word.parse().map_err(crate::text::custom)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Probe, A::Error> {
        Carried::deserialize(MapAccessDeserializer::new(map)).map(Probe::Carried)
    }
}

impl JsonSchema for Probe {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "probe".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let codecs: Vec<&str> = Codec::ALL.iter().map(|codec| codec.name()).collect();
        json_schema!({
            "description": "What the receiver measures from.",
            "anyOf": [
                { "enum": [true, false, "on", "off", "yes", "no", "auto"] },
                { "enum": codecs },
                {
                    "type": "object", "additionalProperties": false, "required": ["codec"],
                    "properties": {
                        "codec": { "enum": codecs },
                        "flow": {
                            "description": "The number of the flow in it.",
                            "type": "integer", "minimum": 0, "maximum": u32::MAX
                        }
                    }
                }
            ]
        })
    }
}
