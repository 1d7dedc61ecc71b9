//! A request that never ends, piece by piece: Slowloris.

use std::num::NonZeroU16;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos, fault};

use super::{check_asked, check_time, is_root, root};
use crate::scenario::departures::Duration;
use crate::scenario::is_default;
use crate::scenario::schema::TimeText;

/// The beginning of a request, and then more of its head, and never its end. A server that waits for the end holds the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SlowWrite {
    /// What the request is for. Default: /.
    #[serde(skip_serializing_if = "is_root")]
    pub target: String,
    /// What is sent instead of a request of HTTP, at most 4096 bytes. Nothing follows it.
    #[serde(skip_serializing_if = "is_default")]
    pub text: Option<String>,
    /// How many bytes go at a time. Default: the first lines together, and then one line of a header at a time.
    #[serde(skip_serializing_if = "is_default")]
    pub bytes: Option<NonZeroU16>,
    /// The time from one piece to the next. Default: 10s.
    #[serde(skip_serializing_if = "is_usual")]
    pub gap: Duration,
    /// How long it lasts at most. Default: until the server ends the session, at the latest until the group's `stop`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub time: Option<Nanos>,
}

impl Default for SlowWrite {
    fn default() -> SlowWrite {
        SlowWrite { target: root(), text: None, bytes: None, gap: usual(), time: None }
    }
}

impl SlowWrite {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        check_asked(&self.target, self.text.as_deref())?;
        check_gap(&self.gap)?;
        check_time(self.time)
    }
}

/// That slow is slow.
pub(super) fn check_gap(gap: &Duration) -> Result<(), (&'static str, Fault)> {
    gap.check().map_err(|why| ("gap", why))?;
    match gap {
        Duration::Fixed(Nanos::ZERO) => Err((
            "gap",
            fault!("without a time in between it is not slow"; "write for example 10s"),
        )),
        _ => Ok(()),
    }
}

fn usual() -> Duration {
    Duration::Fixed(Nanos::from_secs(10))
}

fn is_usual(gap: &Duration) -> bool {
    *gap == usual()
}
