//! A response that is read a few bytes at a time.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos};

use super::slow_write::check_gap;
use super::{check_asked, check_time, is_root, root};
use crate::scenario::departures::Duration;
use crate::scenario::is_default;
use crate::scenario::schema::TimeText;

/// A whole request, and a response that is read a few bytes at a time, into a small receive window (`tcp: { receive-buffer }`, 4kB where
/// nothing is written). The server has to keep what it cannot send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SlowRead {
    /// What is asked for. Default: /.
    #[serde(skip_serializing_if = "is_root")]
    pub target: String,
    /// What is sent instead of a request of HTTP, at most 4096 bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub text: Option<String>,
    /// How many bytes are read at a time. Default: 100.
    #[serde(skip_serializing_if = "is_usual_bytes")]
    pub bytes: NonZeroU32,
    /// The time from one reading to the next. Default: 1s.
    #[serde(skip_serializing_if = "is_usual")]
    pub gap: Duration,
    /// How long it lasts at most. Default: until the server ends the session, at the latest until the group's `stop`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub time: Option<Nanos>,
}

impl Default for SlowRead {
    fn default() -> SlowRead {
        SlowRead { target: root(), text: None, bytes: usual_bytes(), gap: usual(), time: None }
    }
}

impl SlowRead {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        check_asked(&self.target, self.text.as_deref())?;
        check_gap(&self.gap)?;
        check_time(self.time)
    }
}

fn usual() -> Duration {
    Duration::Fixed(Nanos::from_secs(1))
}

fn is_usual(gap: &Duration) -> bool {
    *gap == usual()
}

fn usual_bytes() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(99)
}

fn is_usual_bytes(bytes: &NonZeroU32) -> bool {
    *bytes == usual_bytes()
}
