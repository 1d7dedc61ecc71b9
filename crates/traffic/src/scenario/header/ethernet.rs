//! Ethernet (IEEE 802.3 §3.2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Carries, Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::Lay;
use crate::scenario::number::Number;
use crate::scenario::pattern::{Field, Mac};

/// The Ethernet header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Ethernet {
    /// Destination address. Default: the port's `next-hop`, else the next hop towards the destination.
    #[serde(skip_serializing_if = "is_default")]
    pub destination: Option<Field<Mac>>,
    /// Source address. Default: that of the sending interface.
    #[serde(skip_serializing_if = "is_default")]
    pub source: Option<Field<Mac>>,
    /// The EtherType. Default: that of the next header.
    #[serde(skip_serializing_if = "is_default", rename = "type")]
    pub ether_type: Option<Number>,
}

impl HeaderSpec for Ethernet {
    fn lay(&self, out: &mut Lay) {
        let unknown = Field::Fixed(Mac::default());
        out.field("destination", 48, self.destination.as_ref().unwrap_or(&unknown));
        out.field("source", 48, self.source.as_ref().unwrap_or(&unknown));
        out.next("type", 16, self.ether_type, Space::EtherType);
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        // Transparent Ethernet bridging (RFC 1701).
        (space == Space::EtherType).then_some(0x6558)
    }

    fn carries(&self) -> Carries {
        Carries::Numbered(Space::EtherType, self.ether_type.is_some())
    }
}
