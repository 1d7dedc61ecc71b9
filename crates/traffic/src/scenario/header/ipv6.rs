//! IPv6 (RFC 8200).

use std::net::Ipv6Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::dscp::Dscp;
use super::{Carries, Header, HeaderSpec, Space, default_ttl, is_default_ttl};
use crate::scenario::is_default;
use crate::scenario::lay::{Lay, Span};
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;

/// The IPv6 header. Length and next header fill themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Ipv6 {
    /// Source address. Default: the sending port's.
    #[serde(skip_serializing_if = "is_default")]
    pub source: Option<Field<Ipv6Addr>>,
    /// Destination address. Default: the receiving port's.
    #[serde(skip_serializing_if = "is_default")]
    pub destination: Option<Field<Ipv6Addr>>,
    /// Hop limit.
    #[serde(skip_serializing_if = "is_default_ttl")]
    pub hop_limit: Field<Number>,
    /// Differentiated services code point (RFC 2474): a name or a number.
    #[serde(skip_serializing_if = "is_default")]
    pub dscp: Option<Field<Dscp>>,
    /// Explicit congestion notification (RFC 3168), 0 to 3.
    #[serde(skip_serializing_if = "is_default")]
    pub ecn: Option<Field<Number>>,
    /// The whole traffic class, instead of `dscp` and `ecn`.
    #[serde(skip_serializing_if = "is_default")]
    pub traffic_class: Option<Field<Number>>,
    /// Flow label, up to 1048575 (RFC 6437 §2).
    #[serde(skip_serializing_if = "is_default")]
    pub flow_label: Field<Number>,
    /// The protocol of what follows. Default: that of the next header.
    #[serde(skip_serializing_if = "is_default")]
    pub next_header: Option<Number>,
    /// The payload length. Default: what it is.
    #[serde(skip_serializing_if = "is_default")]
    pub length: Option<Number>,
}

impl Default for Ipv6 {
    fn default() -> Self {
        Ipv6 {
            source: None,
            destination: None,
            hop_limit: default_ttl(),
            dscp: None,
            ecn: None,
            traffic_class: None,
            flow_label: Field::default(),
            next_header: None,
            length: None,
        }
    }
}

impl HeaderSpec for Ipv6 {
    fn lay(&self, out: &mut Lay) {
        let nowhere = Field::Fixed(Ipv6Addr::UNSPECIFIED);
        out.fixed("version", 4, 6);
        super::lay_tos(out, "traffic-class", &self.traffic_class, &self.dscp, &self.ecn);
        out.field("flow-label", 20, &self.flow_label);
        out.length("length", 16, self.length, Span::BehindHeader);
        out.next("next-header", 8, self.next_header, Space::IpProtocol);
        out.field("hop-limit", 8, &self.hop_limit);
        out.field("source", 128, self.source.as_ref().unwrap_or(&nowhere));
        out.field("destination", 128, self.destination.as_ref().unwrap_or(&nowhere));
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        match space {
            Space::EtherType => Some(0x86dd),
            // IPv6 in IP (RFC 2473).
            Space::IpProtocol => Some(41),
            Space::Bottom => None,
        }
    }

    fn carries(&self) -> Carries {
        Carries::Numbered(Space::IpProtocol, self.next_header.is_some())
    }

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        if self.traffic_class.is_some() && (self.dscp.is_some() || self.ecn.is_some()) {
            return Err((
                "traffic-class",
                fault!("the traffic class holds DSCP and ECN"; "give it or them, not both"),
            ));
        }
        if self.hop_limit.fixed() == Some(Number::new(0)) {
            return Err(("hop-limit", "a packet with hop limit 0 goes nowhere".into()));
        }
        Ok(())
    }
}
