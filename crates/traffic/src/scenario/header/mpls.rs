//! MPLS label stack entries (RFC 3032 §2.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Carries, Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::Lay;
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;

/// One entry of a label stack; the last before another header is the bottom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Mpls {
    /// The label, 0 to 1048575.
    pub label: Field<Number>,
    /// Traffic class, 0 to 7.
    #[serde(skip_serializing_if = "is_default")]
    pub traffic_class: Field<Number>,
    /// Whether this is the bottom of the stack, 0 or 1. Default: as the next header says.
    #[serde(skip_serializing_if = "is_default")]
    pub bottom: Option<Number>,
    /// Time to live. Default: 64.
    #[serde(skip_serializing_if = "super::is_default_ttl")]
    pub ttl: Field<Number>,
}

impl Default for Mpls {
    fn default() -> Self {
        Mpls {
            label: Field::default(),
            traffic_class: Field::default(),
            bottom: None,
            ttl: super::default_ttl(),
        }
    }
}

impl HeaderSpec for Mpls {
    fn lay(&self, out: &mut Lay) {
        out.field("label", 20, &self.label);
        out.field("traffic-class", 3, &self.traffic_class);
        out.next("bottom", 1, self.bottom, Space::Bottom);
        out.field("ttl", 8, &self.ttl);
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        match space {
            // Unicast (RFC 3032 §5).
            Space::EtherType => Some(0x8847),
            Space::Bottom => Some(0),
            Space::IpProtocol => Some(137),
        }
    }

    fn carries(&self) -> Carries {
        // What a label stands for is an agreement between routers: IP of either version, or Ethernet.
        Carries::OneOf(&["mpls", "ipv4", "ipv6", "ethernet"])
    }
}
