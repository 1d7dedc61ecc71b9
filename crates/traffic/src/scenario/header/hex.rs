//! Bytes, written as hex digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

/// The most bytes: the largest IP packet and its Ethernet header.
pub const MAX_LEN: usize = 65_535 + 14;

/// Bytes, written as hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hex(Vec<u8>);

impl Hex {
    /// From bytes; `None` for none, or more than [`MAX_LEN`].
    pub fn new(bytes: Vec<u8>) -> Option<Hex> {
        (1..=MAX_LEN).contains(&bytes.len()).then_some(Hex(bytes))
    }
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
    /// The bytes, with zeros after them up to a multiple of `of`.
    pub(super) fn padded(&self, of: usize) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.resize(bytes.len().next_multiple_of(of), 0);
        bytes
    }
}

impl FromStr for Hex {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let digits: Option<Vec<u8>> = digits
            .chars()
            .filter(|c| !c.is_ascii_whitespace())
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect();
        let Some(digits) = digits else {
            return Err("bytes are written in hex digits, for example deadbeef".into());
        };
        match digits.len() {
            0 => Err("there is at least one byte, for example 00".into()),
            odd if odd % 2 == 1 => {
                Err(fault!("there are two hex digits for each byte, not {odd} in all"))
            }
            long if long > 2 * MAX_LEN => Err(fault!("no packet holds more than {MAX_LEN} bytes")),
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
        String::deserialize(deserializer)?.parse().map_err(crate::text::custom)
    }
}
