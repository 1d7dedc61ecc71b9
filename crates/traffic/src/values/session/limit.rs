//! How many sessions of a group may be open at a time.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;

/// How many sessions may be open at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limit {
    /// The most sessions that are open at a time.
    pub open: NonZeroU32,
    /// What becomes of a session that is due when so many are open.
    #[serde(default, skip_serializing_if = "is_default")]
    pub beyond: Beyond,
}

/// What becomes of a session that is due when as many as may be are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// It does not start, and is counted as expired.
    #[default]
    Expire,
    /// It starts as soon as another has ended; its planned start stays what it was.
    Queue,
}
