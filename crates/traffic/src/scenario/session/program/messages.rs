//! Messages one way: each says when it was planned and when it was sent, so that the end that receives it measures its delay.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Bytes, Fault, Nanos, fault};

use super::Direction;
use crate::scenario::departures::Duration;
use crate::scenario::is_default;
use crate::scenario::schema::TimeText;
use crate::scenario::session::size::DataSize;
use crate::values::session::{MAX_STAMPED, STAMP};

/// Messages one way, each with a number and with the times when it was planned and sent: the end that receives them measures the
/// one-way delay of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Messages {
    /// How many bytes a message has, the 32 bytes of its number and times included. Default: 64.
    #[serde(skip_serializing_if = "is_usual_size")]
    pub size: DataSize,
    /// How long it is from one planned message to the next. A message that is late does not delay the plan of those after it.
    /// Default: 10ms.
    #[serde(skip_serializing_if = "is_usual_gap")]
    pub gap: Duration,
    /// How many messages a session has each way that messages go. Default: as many as `time` has room for.
    #[serde(skip_serializing_if = "is_default")]
    pub messages: Option<NonZeroU32>,
    /// For how long messages are planned. Default: until the group's `stop`, or until there were as many as `messages` says.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub time: Option<Nanos>,
    /// Which way. Default: from the client to the server.
    #[serde(skip_serializing_if = "is_default")]
    pub direction: Direction,
}

impl Default for Messages {
    fn default() -> Messages {
        Messages {
            size: usual_size(),
            gap: usual_gap(),
            messages: None,
            time: None,
            direction: Direction::Forward,
        }
    }
}

impl Messages {
    /// Whether only the group's stop ends them.
    pub fn is_endless(&self) -> bool {
        self.messages.is_none() && self.time.is_none()
    }

    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        self.size.check().map_err(|why| ("size", why))?;
        let fits = |bytes: Bytes| match bytes.get() {
            STAMP..=MAX_STAMPED => Ok(()),
            0..STAMP => Err(fault!(
                "a message of {bytes} has no room for its number and times, {STAMP} bytes";
                "write {STAMP}B or more"
            )),
            _ => Err(fault!("a message of {bytes} is too long"; "write {MAX_STAMPED}B or less")),
        };
        let bounds = match &self.size {
            DataSize::Fixed(bytes) => [Some(*bytes), None],
            // what is drawn beyond that is as long as may be
            DataSize::Drawn(drawn) => [drawn.min, drawn.max],
        };
        bounds.into_iter().flatten().try_for_each(fits).map_err(|why| ("size", why))?;
        self.gap.check().map_err(|why| ("gap", why))?;
        if self.gap == Duration::Fixed(Nanos::ZERO) {
            return Err((
                "gap",
                fault!("messages without a gap have no plan"; "write a time, or use the program 'bulk'"),
            ));
        }
        match self.time {
            Some(Nanos::ZERO) => {
                Err(("time", fault!("in no time there is no message"; "write 1s, for example")))
            }
            _ => Ok(()),
        }
    }
}

fn usual_size() -> DataSize {
    Bytes::new(64).into()
}

fn usual_gap() -> Duration {
    Duration::Fixed(Nanos::from_millis(10))
}

fn is_usual_size(size: &DataSize) -> bool {
    *size == usual_size()
}

fn is_usual_gap(gap: &Duration) -> bool {
    *gap == usual_gap()
}
