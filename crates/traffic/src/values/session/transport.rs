//! What carries the messages of a group: TCP, or UDP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most bytes of a datagram's data: 65,535 less the headers of IPv4 and UDP. IPv6 could carry 20 more.
pub const MAX_DATAGRAM: u64 = 65_507;
/// Bytes of the number at the beginning of a numbered message, big-endian.
pub const NUMBER: u64 = 8;

/// What carries the messages of both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP: a connection, one stream each way.
    #[default]
    Tcp,
    /// UDP: every message is a datagram, which may be lost.
    Udp,
}

impl Transport {
    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }
}

/// What a client does when a message over UDP does not come in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnTimeout {
    /// The session ends, and is counted as timed out.
    #[default]
    End,
    /// It goes on as if the message had come: the next request follows.
    Next,
}
