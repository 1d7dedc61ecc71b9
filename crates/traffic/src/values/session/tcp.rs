//! What is asked of TCP for the sessions of a group.

use std::num::NonZeroU16;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{BitRate, Bytes, Fault, fault};

use super::is_default;
use crate::text::schema::{BitRateText, BytesText};

/// The longest name of a congestion control (`TCP_CA_NAME_MAX` of linux/tcp.h, less the final NUL).
const CONGESTION_NAME_MAX: usize = 15;

/// What is asked of TCP. Each default is the stack's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct TcpSpec {
    /// The congestion control by name: `cubic`, `reno`; with the system's stack, whatever the system has; with our own also `none`,
    /// which sends as much as the peer's window allows.
    #[serde(skip_serializing_if = "is_default")]
    pub congestion: Option<String>,
    /// The most bytes of data in a segment (MSS).
    #[serde(skip_serializing_if = "is_default")]
    pub mss: Option<NonZeroU16>,
    /// How many bytes wait to be sent or acknowledged at most. The system may double it.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub send_buffer: Option<Bytes>,
    /// How many received bytes wait to be read at most: the receive window.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub receive_buffer: Option<Bytes>,
    /// Whether a small segment waits while others are unacknowledged (Nagle, RFC 9293 §3.7.4). Default: no, as load
    /// generators and browsers have it.
    #[serde(skip_serializing_if = "is_default")]
    pub nagle: bool,
    /// No session sends faster than this. Default: no limit.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BitRateText>")]
    pub pacing: Option<BitRate>,
    /// Whether the client ends a session with RST instead of FIN once its program is done: no port stays in TIME-WAIT. Default: no.
    #[serde(skip_serializing_if = "is_default")]
    pub reset: bool,
}

impl TcpSpec {
    pub(crate) fn check(&self) -> Result<(), (&'static str, Fault)> {
        if let Some(name) = &self.congestion {
            let known = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            if name.is_empty() || name.len() > CONGESTION_NAME_MAX || !name.chars().all(known) {
                let why = fault!(
                    "the name of a congestion control has 1 to {CONGESTION_NAME_MAX} letters, digits, - and _";
                    "write for example cubic"
                );
                return Err(("congestion", why));
            }
        }
        let buffers = [("send-buffer", self.send_buffer), ("receive-buffer", self.receive_buffer)];
        for (key, bytes) in buffers {
            if bytes.is_some_and(|bytes| !(1 << 10..=1 << 30).contains(&bytes.get())) {
                return Err((key, fault!("a buffer has 1kB to 1GiB")));
            }
        }
        if self.mss.is_some_and(|mss| mss.get() < 88) {
            // Linux: TCP_MIN_MSS is 88
            return Err(("mss", fault!("an MSS has 88 bytes at least")));
        }
        Ok(())
    }
}
