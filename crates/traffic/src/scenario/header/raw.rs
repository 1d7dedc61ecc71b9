//! A whole frame as it is: written in hex, or one of a capture file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::HeaderSpec;
use super::hex::Hex;
use crate::scenario::lay::Lay;
use crate::scenario::schema::HexText;

/// A whole frame, from the Ethernet header on and without FCS. Nothing in it is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Raw {
    /// Its bytes in hex.
    Hex(#[schemars(with = "HexText")] Hex),
    /// A frame of a capture file.
    Capture(Captured),
}

/// A frame of a capture file (pcap or pcapng).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Captured {
    /// The file.
    pub file: String,
    /// Which of its frames, from 1.
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    pub number: u64,
}

fn first() -> u64 {
    1
}

impl HeaderSpec for Raw {
    // Its bytes may lie in a file: `compile/frame.rs` takes them from there.
    fn lay(&self, out: &mut Lay) {
        if let Raw::Hex(hex) = self {
            out.bytes("bytes", hex.bytes());
        }
    }

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        match self {
            Raw::Hex(hex) if hex.bytes().len() < wirebeat_wire::ethernet::LEN => Err((
                "hex",
                fault!(
                    "a frame begins with an Ethernet header of {} bytes, and this is {} long",
                    wirebeat_wire::ethernet::LEN,
                    hex.bytes().len()
                ),
            )),
            Raw::Capture(captured) if captured.number == 0 => {
                Err(("capture", "frames are numbered from 1".into()))
            }
            _ => Ok(()),
        }
    }
}
