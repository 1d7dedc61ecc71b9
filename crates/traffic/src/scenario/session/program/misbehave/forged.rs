//! Segments that a sound TCP does not send, in sessions that are sound otherwise.

use std::num::{NonZeroU16, NonZeroU32};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos, fault};

use super::{check_asked, is_root, root};
use crate::scenario::departures::Duration;
use crate::scenario::is_default;

/// The most forged segments of a session.
const SEGMENTS_MAX: u32 = 1_000_000;
/// The most data of a forged segment: what fits a packet of 1280 bytes, which every link of IPv6 takes (RFC 8200 §5), behind all headers.
const BYTES_MAX: u16 = 1180;

/// Segments that a sound TCP does not send, one after the other, between two ordinary exchanges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Forged {
    /// How many a session sends, at most 1,000,000. Default: 100.
    #[serde(skip_serializing_if = "is_usual_count")]
    pub segments: NonZeroU32,
    /// The time from one to the next; 0: one right after the other. Default: 10ms.
    #[serde(skip_serializing_if = "is_usual_gap")]
    pub gap: Duration,
    /// How many bytes of data each has that has any, at most 1180. Default: 100.
    #[serde(skip_serializing_if = "is_usual_bytes")]
    pub bytes: NonZeroU16,
    /// What the session does before and after them. Default: http.
    #[serde(skip_serializing_if = "is_default")]
    pub exchange: Exchanges,
    /// What the requests are for. Default: /.
    #[serde(skip_serializing_if = "is_root")]
    pub target: String,
}

/// What a session does before and after it misbehaves: whether the peer is still well shows in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exchanges {
    /// A request of HTTP and its response, before and after.
    #[default]
    Http,
    /// Nothing: the client only opens the session, and closes it.
    None,
}

impl Default for Forged {
    fn default() -> Forged {
        Forged {
            segments: usual_count(),
            gap: usual_gap(),
            bytes: usual_bytes(),
            exchange: Exchanges::default(),
            target: root(),
        }
    }
}

impl Forged {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        if self.segments.get() > SEGMENTS_MAX {
            return Err(("segments", fault!("a session sends {SEGMENTS_MAX} of them at most")));
        }
        if self.bytes.get() > BYTES_MAX {
            return Err((
                "bytes",
                fault!("a forged segment has {BYTES_MAX} bytes of data at most, to fit any path"),
            ));
        }
        if self.exchange == Exchanges::None && !is_root(&self.target) {
            return Err(("target", fault!("nothing is asked for"; "leave it, or 'exchange', out")));
        }
        check_asked(&self.target, None)?;
        self.gap.check().map_err(|why| ("gap", why))
    }
}

fn usual_count() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(99)
}

fn is_usual_count(count: &NonZeroU32) -> bool {
    *count == usual_count()
}

fn usual_gap() -> Duration {
    Duration::Fixed(Nanos::from_millis(10))
}

fn is_usual_gap(gap: &Duration) -> bool {
    *gap == usual_gap()
}

fn usual_bytes() -> NonZeroU16 {
    NonZeroU16::MIN.saturating_add(99)
}

fn is_usual_bytes(bytes: &NonZeroU16) -> bool {
    *bytes == usual_bytes()
}
