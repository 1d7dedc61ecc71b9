//! DCCP (RFC 4340 §5.1): the generic header with extended sequence numbers, of a packet of type Data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use super::{Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::{Covers, Lay};
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::schema::ChecksumText;

/// The DCCP header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Dccp {
    /// Source port.
    pub source: Field<Number>,
    /// Destination port.
    pub destination: Field<Number>,
    /// CCVal, 0 to 15.
    #[serde(skip_serializing_if = "is_default")]
    pub cc_value: Field<Number>,
    /// The packet type, 0 to 15. Default: 2, Data.
    #[serde(skip_serializing_if = "is_default", rename = "type")]
    pub kind: Option<Number>,
    /// Sequence number, 48 bits.
    #[serde(skip_serializing_if = "is_default")]
    pub sequence: Field<Number>,
    /// The checksum; it covers the whole packet.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "ChecksumText")]
    pub checksum: Checksum,
}

impl Default for Dccp {
    fn default() -> Self {
        let discard = Field::Fixed(Number::new(super::udp::DISCARD.into()));
        Dccp {
            source: discard.clone(),
            destination: discard,
            cc_value: Field::default(),
            kind: None,
            sequence: Field::default(),
            checksum: Checksum::On,
        }
    }
}

impl HeaderSpec for Dccp {
    fn lay(&self, out: &mut Lay) {
        out.field("source", 16, &self.source);
        out.field("destination", 16, &self.destination);
        // In words of 4 bytes.
        out.fixed("data-offset", 8, 4);
        out.field("cc-value", 4, &self.cc_value);
        out.fixed("checksum-coverage", 4, 0);
        out.checksum("checksum", self.checksum, Covers::ToEndAndAddresses { zero_is_none: false });
        out.fixed("reserved", 3, 0);
        out.field("type", 4, &Field::Fixed(self.kind.unwrap_or(Number::new(2))));
        out.fixed("extended", 1, 1);
        out.fixed("reserved", 8, 0);
        out.field("sequence", 48, &self.sequence);
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        (space == Space::IpProtocol).then_some(33)
    }
}
