//! What becomes of a checksum.

use std::fmt;
use std::str::FromStr;

use wirebeat_units::{Fault, fault};

use crate::scenario::number::Number;
use crate::text::word_or_number;

/// A checksum: right, left out, or deliberately something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// As it should be.
    #[default]
    On,
    /// Zero.
    Off,
    /// One more than it should be, in every frame.
    Wrong,
    /// This, whatever the packet is.
    Set(Number),
}

impl FromStr for Checksum {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        match text {
            "on" | "true" | "yes" => Ok(Checksum::On),
            "off" | "false" | "no" => Ok(Checksum::Off),
            "wrong" => Ok(Checksum::Wrong),
            number => number.parse().map(Checksum::Set).map_err(|_| {
                fault!(
                    "this is not a checksum";
                    "write on, off, wrong, or what is to stand there, for example 0xbeef"
                )
            }),
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Checksum::On => f.pad("on"),
            Checksum::Off => f.pad("off"),
            Checksum::Wrong => f.pad("wrong"),
            Checksum::Set(number) => number.fmt(f),
        }
    }
}

word_or_number!(Checksum);
