//! Sessions that a client begins to open, and does not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos};

use super::check_time;
use crate::scenario::is_default;
use crate::scenario::schema::TimeText;

/// A SYN, and no acknowledgment of its answer: the server holds the beginning of a session. At the end a RST takes it back, where the
/// server had answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct HalfOpen {
    /// How long it lasts. Default: until the group's `stop`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub time: Option<Nanos>,
}

impl HalfOpen {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        check_time(self.time)
    }
}
