//! What carries the messages of a group: TCP, SCTP, or UDP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most bytes of a datagram's data: 65,535 less the headers of IPv4 and UDP. IPv6 could carry 20 more.
pub const MAX_DATAGRAM: u64 = 65_507;
/// Bytes of the number at the beginning of a numbered message, big-endian.
pub const NUMBER: u64 = 8;

/// Bytes at the beginning of a message one way: its length, the clock, its number, and when it was planned and sent.
pub const STAMP: u64 = 32;
/// The most bytes of a message one way: its length has 32 bits.
pub const MAX_STAMPED: u64 = 0xffff_ffff;

/// What carries the messages of both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP: a connection, one stream each way.
    #[default]
    Tcp,
    /// UDP: every message is a datagram, which may be lost.
    Udp,
    /// SCTP (RFC 9260): an association, read as one stream each way; both end together.
    Sctp,
}

impl Transport {
    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::Sctp => "sctp",
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
