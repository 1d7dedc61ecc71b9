//! The JSON Schema of the language, for editors and other tools.
//!
//! Quantities and addresses are text with a form of their own; the types below say so. They exist
//! only for the schema and are never made.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::Scenario;

/// The JSON Schema (draft 2020-12) of a scenario.
pub fn json_schema() -> Value {
    schemars::schema_for!(Scenario).to_value()
}

/// Declares types of text: their name in the schema, and the schema.
macro_rules! texts {
    ($($(#[$doc:meta])* $type:ident = $name:literal $schema:tt;)*) => {
        $(
            $(#[$doc])*
            pub(super) enum $type {}

            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    $name.into()
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!($schema)
                }
            }
        )*
    };
}

texts! {
    /// [`wirebeat_units::Rate`]
    RateText = "rate" {
        "type": "string",
        "description": "How fast: frames per second, bits per second (of the frame, unless @line or @payload follows), a share of the link, or unlimited.",
        "examples": ["100kpps", "1/10s", "2Gbps", "2Gbps@line", "50%", "unlimited"]
    };
    /// [`wirebeat_units::BitRate`]
    BitRateText = "bit-rate" {
        "type": "string",
        "description": "Bits per second.",
        "examples": ["800kbps", "10Gbps"]
    };
    /// [`wirebeat_units::FrameLen`]
    LengthText = "frame-length" {
        "type": ["string", "integer"],
        "description": "Length of a frame in bytes, header and FCS included.",
        "examples": ["64B", "1518B"]
    };
    /// [`wirebeat_units::Nanos`]
    TimeText = "time" {
        "type": ["string", "integer"],
        "description": "A time with its unit: ns, us, ms, s, m or h.",
        "examples": ["100us", "1.5ms", "10s", "2m"]
    };
    /// [`wirebeat_wire::mac::MacAddr`]
    MacText = "mac-address" {
        "type": "string",
        "description": "An Ethernet address.",
        "pattern": "^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$",
        "examples": ["02:00:00:00:00:01"]
    };
    /// [`super::header::dscp::Dscp`]
    DscpText = "dscp" {
        "type": ["string", "integer"],
        "description": "A differentiated services code point: its name, or 0 to 63.",
        "examples": ["ef", "af41", "cs5", 46]
    };
    /// [`super::header::ipv4::Identification`]
    IdentificationText = "identification" {
        "description": "'count', or the same number in every frame.",
        "anyOf": [
            { "const": "count" },
            { "type": "integer", "minimum": 0, "maximum": 65535 }
        ]
    };
    /// [`super::header::payload::Hex`]
    HexText = "hex" {
        "type": "string",
        "description": "Bytes as hex digits.",
        "pattern": "^(0x)?([0-9A-Fa-f]{2})+$",
        "examples": ["deadbeef"]
    };
    /// A switch: YAML 1.1 knows more words for true and false than JSON.
    SwitchText = "switch" {
        "description": "On or off.",
        "enum": [true, false, "on", "off", "yes", "no"]
    };
}
