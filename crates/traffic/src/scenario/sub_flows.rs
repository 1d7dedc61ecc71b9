//! Sub-flows: many short flows within one, as pktgen has them.

use std::num::{NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;
pub use crate::values::sub_flows::Order;

/// Sub-flows of which so many are there at a time. Patterns with `per: sub-flow` take a new value for
/// each new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SubFlows {
    /// How many there are at a time.
    pub count: NonZeroU32,
    /// After how many frames one ends and a new one takes its place. Default: they do not end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub length: Option<NonZeroU64>,
    /// Whose turn it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub order: Order,
}
