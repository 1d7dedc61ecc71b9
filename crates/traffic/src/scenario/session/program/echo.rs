//! Messages that the server sends back.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Bytes, Fault};

use crate::scenario::departures::Duration;
use crate::scenario::is_default;
use crate::scenario::session::size::DataSize;

/// Messages that the server sends back as they are (RFC 862): the round trip of each is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Echo {
    /// How many bytes a message has. Default: 64.
    #[serde(skip_serializing_if = "is_usual")]
    pub size: DataSize,
    /// How many messages a session has. Default: 1.
    #[serde(skip_serializing_if = "is_one")]
    pub messages: NonZeroU32,
    /// How long it is from one planned message to the next. A message that is late does not delay the plan of those after it.
    /// Default: each is planned for when the one before is back.
    #[serde(skip_serializing_if = "is_default")]
    pub gap: Option<Duration>,
}

impl Default for Echo {
    fn default() -> Echo {
        Echo { size: usual(), messages: one(), gap: None }
    }
}

impl Echo {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        self.size.check().map_err(|why| ("size", why))?;
        self.gap.iter().try_for_each(Duration::check).map_err(|why| ("gap", why))
    }
}

fn usual() -> DataSize {
    Bytes::new(64).into()
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn is_usual(size: &DataSize) -> bool {
    *size == usual()
}

fn is_one(count: &NonZeroU32) -> bool {
    *count == one()
}
