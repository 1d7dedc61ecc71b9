//! The JSON Schema of the language, for editors and other tools.
//!
//! Values that are text with a form of their own have types for the schema alone: those of the language below, quantities
//! and addresses in `text/schema.rs`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::Scenario;
use crate::distribution::{Distribution, Quantity};
pub(crate) use crate::text::schema::*;

/// The JSON Schema (draft 2020-12) of a file: of a scenario, or a part of one that others include.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Scenario).to_value();
    let Some(file) = schema.as_object_mut() else { return schema };
    // Another file may have them.
    file.remove("required");
    file.values_mut().for_each(allow_variables);
    if let Some(keys) = file.get_mut("properties").and_then(Value::as_object_mut) {
        keys.extend(keys_of_files());
    }
    if let Some(types) = file.get_mut("$defs").and_then(Value::as_object_mut) {
        types.insert(
            "variable".to_owned(),
            json!({
                "description": "A text with variables in it.",
                "type": "string", "pattern": "\\$\\{[A-Za-z0-9_-]+\\}"
            }),
        );
    }
    schema
}

/// The keys of a file that a scenario, once it is read, does not have.
fn keys_of_files() -> Map<String, Value> {
    let keys = json!({
        "include": {
            "description": "Files whose ports, flows, variables and settings are beneath those written here; their names are relative to this file.",
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } }
            ]
        },
        "variables": {
            "description": "Values for ${name} anywhere in the text, unless they are set from outside.",
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9_-]+$" },
            "additionalProperties": { "type": ["string", "number", "boolean"] }
        }
    });
    match keys {
        Value::Object(keys) => keys,
        _ => Map::new(),
    }
}

/// Allows a text with a variable wherever a value has a form that such a text does not have.
fn allow_variables(schema: &mut Value) {
    let map = match schema {
        Value::Array(list) => return list.iter_mut().for_each(allow_variables),
        Value::Object(map) => map,
        _ => return,
    };
    let variable = json!({ "$ref": "#/$defs/variable" });
    // Of words no two are the same, so that one of them is any of them.
    let words = |choices: &mut Value| choices.as_array().is_some_and(|c| c.iter().any(is_formed));
    if map.get_mut("oneOf").is_some_and(words) {
        let choices = map.remove("oneOf").unwrap_or_default();
        map.insert("anyOf".to_owned(), choices);
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        choices.iter_mut().filter(|choice| !is_formed(choice)).for_each(allow_variables);
        if choices.iter().any(is_formed) {
            choices.push(variable);
        }
        return;
    }
    if !is_formed(&Value::Object(map.clone())) {
        return map.values_mut().for_each(allow_variables);
    }
    let mut form = std::mem::take(map);
    for key in ["description", "examples", "default"] {
        map.extend(form.remove_entry(key));
    }
    map.insert("anyOf".to_owned(), json!([form, variable]));
}

/// Whether it is the schema of a single value that not any text is.
fn is_formed(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else { return false };
    match map.get("type") {
        Some(Value::String(kind)) => match kind.as_str() {
            "integer" | "number" | "boolean" => true,
            "string" => {
                map.contains_key("pattern") || map.contains_key("enum") || map.contains_key("const")
            }
            _ => false,
        },
        Some(Value::Array(kinds)) => !kinds.contains(&json!("string")),
        _ => {
            map.get("enum").is_some_and(Value::is_array)
                || map.get("const").is_some_and(Value::is_string)
        }
    }
}

/// A probability distribution with bounds beside it; what `of` allows, if anything, says what is drawn.
pub(super) fn bounded<Q: Quantity>(
    generator: &mut SchemaGenerator,
    bound: &Schema,
    of: Option<&Schema>,
) -> Schema {
    let mut beside = serde_json::Map::new();
    beside.insert("min".to_owned(), bound.clone().into());
    beside.insert("max".to_owned(), bound.clone().into());
    beside.extend(of.map(|of| ("of".to_owned(), of.clone().into())));
    let distribution = |(name, parameters): (&str, Schema)| {
        let mut properties = beside.clone();
        properties.insert(name.to_owned(), parameters.into());
        json_schema!({
            "type": "object",
            "properties": properties,
            "required": [name],
            "additionalProperties": false
        })
    };
    let distributions: Vec<Schema> =
        Distribution::<Q>::parameters(generator).into_iter().map(distribution).collect();
    json_schema!({ "description": "A probability distribution with bounds.", "anyOf": distributions })
}

texts! {
    /// [`super::OnLinkDown`]
    OnLinkDownText = "on-link-down" {
        "type": "string",
        "description": "What the run does when a link goes down: it waits for this time, or ends.",
        "examples": ["wait 5s", "end"]
    };
    /// [`super::header::checksum::Checksum`]
    ChecksumText = "checksum" {
        "description": "Right (on), zero (off), one more than right (wrong), or what is to stand there.",
        "anyOf": [
            { "enum": [true, false, "on", "off", "yes", "no", "wrong"] },
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^0[xX][0-9A-Fa-f]+$" }
        ]
    };
    /// [`super::header::tcp::Flags`]
    FlagsText = "tcp-flags" {
        "type": "string",
        "description": "TCP flags joined with +: fin, syn, rst, psh, ack, urg, ece, cwr, ae; or none.",
        "examples": ["syn", "syn+ack", "psh+ack", "none"]
    };
    /// [`super::header::icmp::IcmpType`]
    IcmpTypeText = "icmp-type" {
        "type": ["string", "integer"],
        "description": "The type of an ICMP message: its name, or 0 to 255.",
        "examples": ["echo-request", "time-exceeded", 8]
    };
    /// [`super::header::arp::Operation`]
    OperationText = "arp-operation" {
        "description": "What an ARP packet is: request, reply, or 0 to 65535.",
        "anyOf": [{ "enum": ["request", "reply"] }, { "type": "integer", "minimum": 0, "maximum": 65535 }]
    };
    /// [`super::header::igmp::IgmpType`]
    IgmpTypeText = "igmp-type" {
        "type": ["string", "integer"],
        "description": "The type of an IGMP message: query, report, leave, report-v1, report-v3, or 0 to 255.",
        "examples": ["report", "query", 22]
    };
    /// [`super::header::hex::Hex`]
    HexText = "hex" {
        "type": "string",
        "description": "Bytes as hex digits.",
        "pattern": "^(0x)?([0-9A-Fa-f\\s]{2})+$",
        "examples": ["deadbeef"]
    };
    /// A switch: YAML 1.1 knows more words for true and false than JSON.
    SwitchText = "switch" {
        "description": "On or off.",
        "enum": [true, false, "on", "off", "yes", "no"]
    };
}
