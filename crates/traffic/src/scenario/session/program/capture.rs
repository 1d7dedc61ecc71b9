//! A session out of a capture, said again.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos, fault};

use crate::scenario::is_default;
use crate::scenario::schema::TimeText;

/// A session of a capture: each end says what it said there, when the other has said what came before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Capture {
    /// The capture: a file of pcap or pcapng.
    pub file: String,
    /// Which of its sessions: by its number, as `wirebeat convert` shows it. Default: the only one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<NonZeroU64>,
    /// Whether each end waits before it speaks as long as it did when it was captured. Default: over UDP yes, over TCP no.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep_times: Option<bool>,
    /// Instead: how long an end waits before each message but the first of those that it says in a row, over UDP.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub gap: Option<Nanos>,
    /// Instead: how long an end waits before it answers what the other said.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub turnaround: Option<Nanos>,
}

impl Capture {
    /// The only session of a capture, with every other setting at its default.
    pub fn of(file: String) -> Capture {
        Capture { file, session: None, keep_times: None, gap: None, turnaround: None }
    }

    /// Whether the times of the capture are kept, over UDP or not.
    pub(crate) fn keeps_times(&self, datagrams: bool) -> bool {
        let others = self.gap.is_some() || self.turnaround.is_some();
        self.keep_times.unwrap_or(datagrams && !others)
    }

    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        if self.file.is_empty() || self.file.len() > 4096 {
            return Err(("file", fault!("a file name has 1 to 4096 bytes")));
        }
        let others = [("gap", self.gap), ("turnaround", self.turnaround)];
        match others.into_iter().find(|(_, time)| time.is_some()) {
            Some((key, _)) if self.keep_times == Some(true) => Err((
                key,
                fault!("times are those of the capture, or these"; "leave it out, or 'keep-times'"),
            )),
            _ => Ok(()),
        }
    }
}
