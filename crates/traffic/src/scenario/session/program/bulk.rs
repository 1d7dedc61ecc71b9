//! Bulk data: as much as goes through.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Bytes, Fault, fault};

use crate::scenario::is_default;
use crate::scenario::schema::BytesText;

/// As much data as goes through.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Bulk {
    /// How many bytes go each way that data goes. Default: as many as go through until the group's `stop`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub bytes: Option<Bytes>,
    /// Which way. Default: from the client to the server.
    #[serde(skip_serializing_if = "is_default")]
    pub direction: Direction,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the client to the server.
    #[default]
    Forward,
    /// From the server to the client.
    Reverse,
    /// Both ways at a time.
    Both,
}

impl Bulk {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        match self.bytes {
            Some(bytes) if bytes.get() == 0 => Err(("bytes", fault!("no data is no program"))),
            _ => Ok(()),
        }
    }
}
