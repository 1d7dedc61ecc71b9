//! IPv4 (RFC 791).

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HeaderSpec;
use super::dscp::Dscp;
use crate::spec::is_default;
use crate::spec::schema::{DscpText, IdentificationText};
use crate::spec::text::word_or_number;

/// The IPv4 header. Length, protocol and checksum fill themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Ipv4 {
    /// Source address. Default: the sending port's.
    #[serde(skip_serializing_if = "is_default")]
    pub source: Option<Ipv4Addr>,
    /// Destination address. Default: the receiving port's.
    #[serde(skip_serializing_if = "is_default")]
    pub destination: Option<Ipv4Addr>,
    /// Time to live.
    #[serde(skip_serializing_if = "is_default_ttl")]
    pub ttl: u8,
    /// Differentiated services code point (RFC 2474): a name or a number.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<DscpText>")]
    pub dscp: Option<Dscp>,
    /// The whole ToS byte, instead of `dscp`.
    #[serde(skip_serializing_if = "is_default")]
    pub tos: Option<u8>,
    /// The identification field: a number, or `count` to count the flow's frames modulo 65536.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "IdentificationText")]
    pub identification: Identification,
}

/// The time to live that RFC 1700 recommends and Linux uses.
const DEFAULT_TTL: u8 = 64;

impl Default for Ipv4 {
    fn default() -> Self {
        Ipv4 {
            source: None,
            destination: None,
            ttl: DEFAULT_TTL,
            dscp: None,
            tos: None,
            identification: Identification::default(),
        }
    }
}

fn is_default_ttl(ttl: &u8) -> bool {
    *ttl == DEFAULT_TTL
}

impl Ipv4 {
    /// The ToS byte.
    pub fn tos(&self) -> u8 {
        self.tos.or(self.dscp.map(Dscp::to_tos)).unwrap_or(0)
    }
}

impl HeaderSpec for Ipv4 {
    fn header_len(&self) -> u16 {
        wirebeat_wire::ipv4::LEN as u16
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.dscp.is_some() && self.tos.is_some() {
            return Err(("tos", "the ToS byte holds the DSCP; give one of the two".to_owned()));
        }
        if self.ttl == 0 {
            return Err((
                "ttl",
                "a packet with TTL 0 may not be sent (RFC 1122 §3.2.1.7)".to_owned(),
            ));
        }
        Ok(())
    }
}

/// What the identification field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identification {
    /// The same in every frame.
    Fixed(u16),
    /// The number of the frame in its flow, modulo 65536.
    Count,
}

impl Default for Identification {
    fn default() -> Self {
        Identification::Fixed(0)
    }
}

impl FromStr for Identification {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "count" => Ok(Identification::Count),
            number => number.parse().map(Identification::Fixed).map_err(|_| {
                "this is no identification: write 'count' or a number up to 65535".to_owned()
            }),
        }
    }
}

impl fmt::Display for Identification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identification::Fixed(number) => number.fmt(f),
            Identification::Count => f.pad("count"),
        }
    }
}

word_or_number!(Identification);
