//! VLAN tags (IEEE 802.1Q §9.3, 802.1ad).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::Fault;

use super::{Carries, Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::Lay;
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;

/// A VLAN tag; two of them are QinQ, the outer one first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Vlan {
    /// VLAN identifier, 0 to 4095.
    #[serde(skip_serializing_if = "is_default")]
    pub id: Field<Number>,
    /// Priority code point, 0 to 7.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: Field<Number>,
    /// Drop eligible indicator, 0 or 1.
    #[serde(skip_serializing_if = "is_default")]
    pub drop_eligible: Field<Number>,
    /// The tag's own type. Default: 0x88a8 (802.1ad) before another tag, else 0x8100 (802.1Q).
    #[serde(skip_serializing_if = "is_default")]
    pub tpid: Option<Number>,
    /// The EtherType that follows. Default: that of the next header.
    #[serde(skip_serializing_if = "is_default", rename = "type")]
    pub ether_type: Option<Number>,
}

impl HeaderSpec for Vlan {
    fn lay(&self, out: &mut Lay) {
        out.field("priority", 3, &self.priority);
        out.field("drop-eligible", 1, &self.drop_eligible);
        out.field("id", 12, &self.id);
        out.next("type", 16, self.ether_type, Space::EtherType);
    }

    fn number(&self, space: Space, next: Option<&Header>) -> Option<u16> {
        let outer = matches!(next, Some(Header::Vlan(_)));
        let usual = if outer { 0x88a8 } else { 0x8100 };
        let tpid = self.tpid.and_then(|tpid| u16::try_from(tpid.get()).ok());
        (space == Space::EtherType).then_some(tpid.unwrap_or(usual))
    }

    fn carries(&self) -> Carries {
        Carries::Numbered(Space::EtherType, self.ether_type.is_some())
    }

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        super::at_most("tpid", self.tpid, 0xffff)
    }
}
