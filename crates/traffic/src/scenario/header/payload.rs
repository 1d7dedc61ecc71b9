//! What follows the headers.
//!
//! The probe, where the flow carries one, takes the last bytes of it (other tools' probes the first).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::HeaderSpec;
use super::hex::{Hex, MAX_LEN};
use crate::scenario::lay::Lay;
use crate::scenario::schema::HexText;

/// What the payload holds, the same in every frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Zeros.
    #[default]
    Zeros,
    /// Bytes that no compression makes shorter, drawn from the seed of the scenario.
    Random,
    /// Bytes in hex, repeated until the payload is full.
    Pattern(#[schemars(with = "HexText")] Hex),
    /// A text, followed by zeros.
    Text(String),
    /// The bytes of a file, followed by zeros.
    File(String),
}

impl HeaderSpec for Payload {
    // It has no fields, and fills what the headers leave.
    fn lay(&self, _: &mut Lay) {}

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        match self {
            Payload::Text(text) if text.len() > MAX_LEN => {
                Err(("text", fault!("no packet holds more than {MAX_LEN} bytes")))
            }
            Payload::File(name) if name.is_empty() => {
                Err(("file", "the name of a file is not empty".into()))
            }
            _ => Ok(()),
        }
    }
}
