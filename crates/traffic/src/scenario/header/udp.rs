//! UDP (RFC 768).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::checksum::Checksum;
use super::{Carries, Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::{Covers, Lay, Span};
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::schema::ChecksumText;

/// The discard service (RFC 863).
pub const DISCARD: u16 = 9;

/// The UDP header. Its length fills itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Udp {
    /// Source port. Default: 9, or what the system chooses with the engine `socket`.
    #[serde(skip_serializing_if = "is_default")]
    pub source: Option<Field<Number>>,
    /// Destination port. Default: 9, the discard service; 4789 before `vxlan`.
    #[serde(skip_serializing_if = "is_default")]
    pub destination: Option<Field<Number>>,
    /// The length. Default: what it is.
    #[serde(skip_serializing_if = "is_default")]
    pub length: Option<Number>,
    /// The checksum. IPv6 demands one.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "ChecksumText")]
    pub checksum: Checksum,
}

impl Udp {
    /// The port that frames come from, where nothing else is said.
    pub fn source_or_default(&self) -> Field<Number> {
        self.source.clone().unwrap_or(Field::Fixed(Number::new(DISCARD.into())))
    }

    /// The port that frames go to, where nothing else is said.
    pub fn destination_or_default(&self) -> Field<Number> {
        self.destination.clone().unwrap_or(Field::Fixed(Number::new(DISCARD.into())))
    }
}

impl HeaderSpec for Udp {
    fn lay(&self, out: &mut Lay) {
        out.field("source", 16, &self.source_or_default());
        out.field("destination", 16, &self.destination_or_default());
        out.length("length", 16, self.length, Span::WithHeader);
        let covers = Covers::ToEndAndAddresses { zero_is_none: true };
        out.checksum("checksum", self.checksum, covers);
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        (space == Space::IpProtocol).then_some(17)
    }

    fn carries(&self) -> Carries {
        Carries::OneOf(&["vxlan"])
    }

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        match self.destination.as_ref().and_then(Field::fixed) {
            Some(port) if port == Number::new(0) => {
                Err(("destination", fault!("port 0 is reserved"; "give a port from 1 on")))
            }
            _ => Ok(()),
        }
    }
}
