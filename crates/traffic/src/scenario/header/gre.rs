//! GRE (RFC 2784) with key and sequence number (RFC 2890).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use super::{Carries, Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::{Covers, Lay};
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::schema::ChecksumText;

/// The GRE header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Gre {
    /// The key. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub key: Option<Field<Number>>,
    /// The sequence number. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub sequence: Option<Field<Number>>,
    /// The checksum. Default: off, so that there is no field for it.
    #[serde(skip_serializing_if = "is_off")]
    #[schemars(with = "ChecksumText")]
    pub checksum: Checksum,
    /// The EtherType of what follows. Default: that of the next header.
    #[serde(skip_serializing_if = "is_default")]
    pub protocol: Option<Number>,
}

impl Default for Gre {
    fn default() -> Self {
        Gre { key: None, sequence: None, checksum: Checksum::Off, protocol: None }
    }
}

fn is_off(checksum: &Checksum) -> bool {
    *checksum == Checksum::Off
}

impl HeaderSpec for Gre {
    fn lay(&self, out: &mut Lay) {
        let summed = self.checksum != Checksum::Off;
        out.fixed("checksum-present", 1, summed.into());
        out.fixed("reserved", 1, 0);
        out.fixed("key-present", 1, self.key.is_some().into());
        out.fixed("sequence-present", 1, self.sequence.is_some().into());
        out.fixed("reserved", 9, 0);
        out.fixed("version", 3, 0);
        out.next("protocol", 16, self.protocol, Space::EtherType);
        if summed {
            out.checksum("checksum", self.checksum, Covers::ToEnd);
            out.fixed("reserved", 16, 0);
        }
        if let Some(key) = &self.key {
            out.field("key", 32, key);
        }
        if let Some(sequence) = &self.sequence {
            out.field("sequence", 32, sequence);
        }
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        (space == Space::IpProtocol).then_some(47)
    }

    fn carries(&self) -> Carries {
        Carries::Numbered(Space::EtherType, self.protocol.is_some())
    }
}
