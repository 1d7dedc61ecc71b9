//! A response that the client asks for, and has no room for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos};

use super::{check_asked, check_time, is_root, root};
use crate::scenario::is_default;
use crate::scenario::schema::TimeText;

/// A whole request, and a response of which nothing is read: the receive window (`tcp: { receive-buffer }`, 1kB where nothing is
/// written) is full soon, and stays so; the server's probes are answered with a window of 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ZeroWindow {
    /// What is asked for. Default: /.
    #[serde(skip_serializing_if = "is_root")]
    pub target: String,
    /// What is sent instead of a request of HTTP, at most 4096 bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub text: Option<String>,
    /// How long it lasts at most. Default: until the server ends the session, at the latest until the group's `stop`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub time: Option<Nanos>,
}

impl Default for ZeroWindow {
    fn default() -> ZeroWindow {
        ZeroWindow { target: root(), text: None, time: None }
    }
}

impl ZeroWindow {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        check_asked(&self.target, self.text.as_deref())?;
        check_time(self.time)
    }
}
