//! IGMPv2 (RFC 2236 §2); the messages of version 3 (RFC 3376) that are longer have their rest in the
//! payload.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::checksum::Checksum;
use super::{Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::{Covers, Lay};
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::schema::{ChecksumText, IgmpTypeText};
use crate::text::word_or_number;

/// An IGMP message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Igmp {
    /// `query`, `report`, `leave`, `report-v1`, `report-v3`, or a number. Default: report.
    #[serde(skip_serializing_if = "is_default", rename = "type")]
    #[schemars(with = "IgmpTypeText")]
    pub kind: IgmpType,
    /// Maximum response time in units of 100 ms.
    #[serde(skip_serializing_if = "is_default")]
    pub max_response_time: Field<Number>,
    /// The group.
    pub group: Field<Ipv4Addr>,
    /// The checksum.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "ChecksumText")]
    pub checksum: Checksum,
}

impl Default for Igmp {
    fn default() -> Self {
        Igmp {
            kind: IgmpType::default(),
            max_response_time: Field::default(),
            group: Field::Fixed(Ipv4Addr::UNSPECIFIED),
            checksum: Checksum::On,
        }
    }
}

impl HeaderSpec for Igmp {
    fn lay(&self, out: &mut Lay) {
        out.fixed("type", 8, self.kind.0.into());
        out.field("max-response-time", 8, &self.max_response_time);
        out.checksum("checksum", self.checksum, Covers::ToEnd);
        out.field("group", 32, &self.group);
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        (space == Space::IpProtocol).then_some(2)
    }
}

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgmpType(u8);

const TYPES: [(&str, u16); 5] =
    [("report", 0x16), ("query", 0x11), ("leave", 0x17), ("report-v1", 0x12), ("report-v3", 0x22)];

impl Default for IgmpType {
    fn default() -> Self {
        IgmpType(0x16)
    }
}

impl FromStr for IgmpType {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let number = super::word_number(text, &TYPES);
        number.and_then(|number| u8::try_from(number).ok()).map(IgmpType).ok_or_else(|| {
            fault!(
                "this is not an IGMP type";
                "write query, report, leave, report-v1, report-v3, or a number up to 255"
            )
        })
    }
}

impl fmt::Display for IgmpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::write_word(f, self.0.into(), &TYPES)
    }
}

word_or_number!(IgmpType);
