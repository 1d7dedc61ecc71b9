//! What can be said of captures that are replayed, and not of archives: their records are whole frames.

use std::borrow::Cow;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Fault, fault};
use wirebeat_wire::mac::MacAddr;
use wirebeat_wire::rewrite::{self, PortRange, Prefix, Rules};

use crate::scenario::is_default;
use crate::scenario::schema::MacText;

/// The greatest VLAN identifier (IEEE 802.1Q §9.6 reserves the one behind it).
const VLAN_MAX: u16 = 4094;
/// The most rules of a kind: they are looked at one after the other.
const RULES_MAX: usize = 1024;

/// How to handle frames that were not captured whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Truncated {
    /// Zeros follow, so that they are as long as they were.
    #[default]
    Pad,
    /// What was captured is sent.
    Send,
    /// They are left out and counted.
    Skip,
}

/// One of the two ends of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The end that opened it.
    Client,
    /// The other.
    Server,
}

/// What becomes other in captured frames; checksums follow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rewrite {
    /// The source address of every frame.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<MacText>")]
    pub source_mac: Option<MacAddr>,
    /// The destination address of every frame that does not go to a group.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<MacText>")]
    pub destination_mac: Option<MacAddr>,
    /// The VLAN of all frames, `off` for none, or which becomes which.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vlan: Option<Vlan>,
    /// Which IP addresses become which: an address or a prefix, and the one in its place.
    #[serde(default, skip_serializing_if = "is_default")]
    #[serde(deserialize_with = "crate::scenario::different::map")]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub addresses: IndexMap<Prefix, Prefix>,
    /// Which ports of TCP and UDP become which: a port or a range, and the one in its place.
    #[serde(default, skip_serializing_if = "is_default")]
    #[serde(deserialize_with = "crate::scenario::different::map")]
    #[schemars(with = "std::collections::BTreeMap<String, PortText>")]
    pub ports: IndexMap<PortRange, PortRange>,
}

/// What becomes of VLAN tags.
#[derive(Clone, Debug, PartialEq)]
pub enum Vlan {
    /// All frames are in this one.
    Set(u16),
    /// Frames have no tags.
    Off,
    /// The first becomes the second.
    Map(IndexMap<u16, u16>),
}

/// A port, or some that follow one another, in the schema.
struct PortText;

impl JsonSchema for PortText {
    fn schema_name() -> Cow<'static, str> {
        "ports".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "description": "A port, or a range of ports.",
            "examples": [8080, "5000-5999"]
        })
    }
}

impl Serialize for Vlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Vlan::Set(id) => serializer.serialize_u16(*id),
            Vlan::Off => serializer.serialize_str("off"),
            Vlan::Map(map) => map.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Vlan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(IdOrMap)
    }
}

struct IdOrMap;

impl<'de> Visitor<'de> for IdOrMap {
    type Value = Vlan;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a VLAN identifier, off, or a map from one to another")
    }
    fn visit_bool<E: Error>(self, on: bool) -> Result<Vlan, E> {
        match on {
            false => Ok(Vlan::Off),
            true => Err(E::custom("write which VLAN, for example 100")),
        }
    }
    fn visit_u64<E: Error>(self, id: u64) -> Result<Vlan, E> {
        u16::try_from(id).map(Vlan::Set).map_err(|_| E::custom(format!("there is no VLAN {id}")))
    }
    fn visit_i64<E: Error>(self, id: i64) -> Result<Vlan, E> {
        u16::try_from(id).map(Vlan::Set).map_err(|_| E::custom(format!("there is no VLAN {id}")))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Vlan, E> {
        match text {
            "off" | "false" | "no" => Ok(Vlan::Off),
            text => text.parse().map(Vlan::Set).map_err(|_| {
                crate::text::custom(
                    fault!("'{text}' is not a VLAN"; "write a number, off, or a map"),
                )
            }),
        }
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vlan, A::Error> {
        crate::scenario::different::map(MapAccessDeserializer::new(map)).map(Vlan::Map)
    }
}

impl JsonSchema for Vlan {
    fn schema_name() -> Cow<'static, str> {
        "vlan-rule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The VLAN of all frames, off for none, or which becomes which.",
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": VLAN_MAX },
                { "enum": [false, "off", "no"] },
                { "type": "object", "additionalProperties": { "type": "integer", "minimum": 0, "maximum": VLAN_MAX } }
            ]
        })
    }
}

impl Rewrite {
    /// The same for whoever rewrites.
    pub fn rules(&self) -> Rules {
        let vlan = self.vlan.as_ref().map(|vlan| match vlan {
            Vlan::Set(id) => rewrite::Vlan::Set(*id),
            Vlan::Off => rewrite::Vlan::Off,
            Vlan::Map(map) => {
                rewrite::Vlan::Map(map.iter().map(|(from, to)| (*from, *to)).collect())
            }
        });
        Rules {
            source_mac: self.source_mac,
            destination_mac: self.destination_mac,
            vlan,
            addresses: self.addresses.iter().map(|(from, to)| (*from, *to)).collect(),
            ports: self.ports.iter().map(|(from, to)| (*from, *to)).collect(),
        }
    }

    /// What is invalid, and the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        let ids: Vec<u16> = match &self.vlan {
            Some(Vlan::Set(id)) => vec![*id],
            Some(Vlan::Map(map)) => map.iter().flat_map(|(from, to)| [*from, *to]).collect(),
            Some(Vlan::Off) | None => Vec::new(),
        };
        if let Some(id) = ids.into_iter().find(|id| *id > VLAN_MAX) {
            return Err(("vlan", fault!("there is no VLAN {id}"; "the last is {VLAN_MAX}")));
        }
        for (from, to) in &self.addresses {
            if from.address().is_ipv4() != to.address().is_ipv4() {
                let why = fault!("{from} and {to} are of different versions of IP");
                return Err(("addresses", why));
            }
            if to.bits() < from.bits() {
                let why = fault!(
                    "{to} is shorter than {from}, and does not say what the bits between become";
                    "write a prefix of {} bits", from.bits()
                );
                return Err(("addresses", why));
            }
        }
        for (from, to) in &self.ports {
            if to.count() != 1 && to.count() != from.count() {
                let why = fault!(
                    "{from} are {} ports and {to} are {}", from.count(), to.count();
                    "write one port, or as many"
                );
                return Err(("ports", why));
            }
        }
        let long = [("addresses", self.addresses.len()), ("ports", self.ports.len())];
        match long.into_iter().find(|(_, count)| *count > RULES_MAX) {
            Some((key, _)) => Err((key, fault!("there are {RULES_MAX} rules at most"))),
            None => Ok(()),
        }
    }
}
