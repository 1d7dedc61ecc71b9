//! IPv6 (RFC 8200).

use std::net::Ipv6Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HeaderSpec;
use super::dscp::Dscp;
use crate::spec::is_default;
use crate::spec::schema::DscpText;

/// The largest flow label: 20 bits (RFC 6437 §2).
pub const MAX_FLOW_LABEL: u32 = 0xf_ffff;

/// The IPv6 header. Length and next header fill themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Ipv6 {
    /// Source address. Default: the sending port's.
    #[serde(skip_serializing_if = "is_default")]
    pub source: Option<Ipv6Addr>,
    /// Destination address. Default: the receiving port's.
    #[serde(skip_serializing_if = "is_default")]
    pub destination: Option<Ipv6Addr>,
    /// Hop limit.
    #[serde(skip_serializing_if = "is_default_hop_limit")]
    pub hop_limit: u8,
    /// Differentiated services code point (RFC 2474): a name or a number.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<DscpText>")]
    pub dscp: Option<Dscp>,
    /// The whole traffic class, instead of `dscp`.
    #[serde(skip_serializing_if = "is_default")]
    pub traffic_class: Option<u8>,
    /// Flow label, up to 1048575.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(max = MAX_FLOW_LABEL))]
    pub flow_label: u32,
}

/// As for IPv4.
const DEFAULT_HOP_LIMIT: u8 = 64;

impl Default for Ipv6 {
    fn default() -> Self {
        Ipv6 {
            source: None,
            destination: None,
            hop_limit: DEFAULT_HOP_LIMIT,
            dscp: None,
            traffic_class: None,
            flow_label: 0,
        }
    }
}

fn is_default_hop_limit(hop_limit: &u8) -> bool {
    *hop_limit == DEFAULT_HOP_LIMIT
}

impl Ipv6 {
    /// The traffic class.
    pub fn traffic_class(&self) -> u8 {
        self.traffic_class.or(self.dscp.map(Dscp::to_tos)).unwrap_or(0)
    }
}

impl HeaderSpec for Ipv6 {
    fn header_len(&self) -> u16 {
        wirebeat_wire::ipv6::LEN as u16
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.dscp.is_some() && self.traffic_class.is_some() {
            return Err((
                "traffic-class",
                "the traffic class holds the DSCP; give one of the two".to_owned(),
            ));
        }
        if self.hop_limit == 0 {
            return Err(("hop-limit", "a packet with hop limit 0 goes nowhere".to_owned()));
        }
        if self.flow_label > MAX_FLOW_LABEL {
            return Err(("flow-label", format!("a flow label is at most {MAX_FLOW_LABEL}")));
        }
        Ok(())
    }
}
