//! The JSON Schema of quantities and addresses, which are text with a form of their own. The types here exist only for the
//! schema and are never made.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Declares types of text: their name in the schema, and the schema.
macro_rules! texts {
    ($($(#[$doc:meta])* $type:ident = $name:literal $schema:tt;)*) => {
        $(
            $(#[$doc])*
            pub enum $type {}

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
pub(crate) use texts;

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
        "description": "Length of a frame in bytes, header and FCS included; with @payload, of what follows the headers.",
        "examples": ["64B", "1518B", "100B@payload"]
    };
    /// [`wirebeat_units::Nanos`]
    TimeText = "time" {
        "type": ["string", "integer"],
        "description": "A time with its unit: ns, us, ms, s, m, h or d.",
        "examples": ["100us", "1.5ms", "10s", "2m"]
    };
    /// [`wirebeat_units::WallTime`]
    MomentText = "moment" {
        "type": "string",
        "description": "A moment by the clock of the day, in UTC (RFC 3339).",
        "examples": ["2026-11-20T18:00:00Z"]
    };
    /// [`wirebeat_wire::mac::MacAddr`]
    MacText = "mac-address" {
        "type": "string",
        "description": "An Ethernet address.",
        "pattern": "^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$",
        "examples": ["02:00:00:00:00:01"]
    };
    /// [`wirebeat_units::Bytes`]
    BytesText = "bytes" {
        "type": ["string", "integer"],
        "description": "An amount of data.",
        "examples": ["100B", "64KiB", "1GB"]
    };
    /// [`wirebeat_units::Factor`]
    FactorText = "factor" {
        "type": ["string", "number"],
        "description": "A multiple of the recorded speed.",
        "examples": ["10x", "0.5x"]
    };
}
