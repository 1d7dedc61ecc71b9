//! What follows the headers.
//!
//! The probe, where the flow carries one, takes the last 16 bytes of it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HeaderSpec;
use crate::spec::schema::HexText;

/// The longest pattern or text: more than any frame holds.
pub const MAX_LEN: usize = 9018;

/// What the payload holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Zeros.
    #[default]
    Zeros,
    /// Bytes in hex, repeated until the payload is full.
    Pattern(#[schemars(with = "HexText")] Hex),
    /// A text, followed by zeros.
    Text(String),
}

impl Payload {
    /// Fills `out`.
    pub fn fill(&self, out: &mut [u8]) {
        match self {
            Payload::Zeros => out.fill(0),
            Payload::Pattern(Hex(pattern)) => {
                for (byte, pattern) in out.iter_mut().zip(pattern.iter().cycle()) {
                    *byte = *pattern;
                }
            }
            Payload::Text(text) => {
                let padded = text.bytes().chain(std::iter::repeat(0));
                for (byte, text) in out.iter_mut().zip(padded) {
                    *byte = text;
                }
            }
        }
    }
}

impl HeaderSpec for Payload {
    fn header_len(&self) -> u16 {
        0
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            Payload::Text(text) if text.len() > MAX_LEN => {
                Err(("text", format!("no frame holds more than {MAX_LEN} bytes")))
            }
            _ => Ok(()),
        }
    }
}

/// Bytes, written as hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hex(Vec<u8>);

impl FromStr for Hex {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let digits: Option<Vec<u8>> =
            digits.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        let Some(digits) = digits else {
            return Err("a pattern is written in hex digits, for example deadbeef".to_owned());
        };
        match digits.len() {
            0 => Err("a pattern has at least one byte, for example 00".to_owned()),
            odd if odd % 2 == 1 => {
                Err(format!("a pattern has two hex digits for each byte, not {odd} in all"))
            }
            long if long > 2 * MAX_LEN => {
                Err(format!("no frame holds more than {MAX_LEN} bytes of pattern"))
            }
            _ => Ok(Hex(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())),
        }
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

// Not a `word_or_number`: digits alone must not be read as a number, which would lose leading zeros.
impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
