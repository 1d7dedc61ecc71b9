//! A session in which the client says nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos};

use super::check_time;
use crate::scenario::is_default;
use crate::scenario::schema::TimeText;

/// A connection on which the client says nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Idle {
    /// How long it lasts at most. Default: until the server ends the session, at the latest until the group's `stop`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub time: Option<Nanos>,
}

impl Idle {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        check_time(self.time)
    }
}
