//! VXLAN (RFC 7348 §5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Carries, HeaderSpec};
use crate::scenario::is_default;
use crate::scenario::lay::Lay;
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;

/// The port of VXLAN (RFC 7348 §8).
pub const PORT: u16 = 4789;

/// The VXLAN header; an Ethernet frame follows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Vxlan {
    /// VXLAN network identifier, up to 16777215.
    #[serde(skip_serializing_if = "is_default")]
    pub vni: Field<Number>,
    /// The flags. Default: 0x08, a valid identifier.
    #[serde(skip_serializing_if = "is_default")]
    pub flags: Option<Number>,
}

impl HeaderSpec for Vxlan {
    fn lay(&self, out: &mut Lay) {
        out.field("flags", 8, &Field::Fixed(self.flags.unwrap_or(Number::new(0x08))));
        out.fixed("reserved", 24, 0);
        out.field("vni", 24, &self.vni);
        out.fixed("reserved", 8, 0);
    }

    fn carries(&self) -> Carries {
        Carries::OneOf(&["ethernet"])
    }
}
