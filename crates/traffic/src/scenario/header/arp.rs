//! ARP for IPv4 over Ethernet (RFC 826).

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::{Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::Lay;
use crate::scenario::number::Number;
use crate::scenario::pattern::{Field, Mac};
use crate::scenario::schema::OperationText;
use crate::text::word_or_number;

/// An ARP packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Arp {
    /// `request`, `reply`, or a number.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "OperationText")]
    pub operation: Operation,
    /// Sender's Ethernet address. Default: the frame's source.
    #[serde(skip_serializing_if = "is_default")]
    pub sender_mac: Option<Field<Mac>>,
    /// Sender's IPv4 address. Default: the sending port's.
    #[serde(skip_serializing_if = "is_default")]
    pub sender: Option<Field<Ipv4Addr>>,
    /// Target's Ethernet address. Default: zeros.
    #[serde(skip_serializing_if = "is_default")]
    pub target_mac: Field<Mac>,
    /// Target's IPv4 address. Default: the receiving port's.
    #[serde(skip_serializing_if = "is_default")]
    pub target: Option<Field<Ipv4Addr>>,
}

impl HeaderSpec for Arp {
    fn lay(&self, out: &mut Lay) {
        let nowhere = Field::Fixed(Ipv4Addr::UNSPECIFIED);
        let nobody = Field::Fixed(Mac::default());
        out.fixed("hardware-type", 16, 1);
        out.fixed("protocol-type", 16, 0x0800);
        out.fixed("hardware-length", 8, 6);
        out.fixed("protocol-length", 8, 4);
        out.field("operation", 16, &Field::Fixed(Number::new(self.operation.0.into())));
        out.field("sender-mac", 48, self.sender_mac.as_ref().unwrap_or(&nobody));
        out.field("sender", 32, self.sender.as_ref().unwrap_or(&nowhere));
        out.field("target-mac", 48, &self.target_mac);
        out.field("target", 32, self.target.as_ref().unwrap_or(&nowhere));
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        (space == Space::EtherType).then_some(0x0806)
    }
}

/// The operation code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation(u16);

const OPERATIONS: [(&str, u16); 2] = [("request", 1), ("reply", 2)];

impl Default for Operation {
    fn default() -> Self {
        Operation(1)
    }
}

impl FromStr for Operation {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        super::word_number(text, &OPERATIONS).map(Operation).ok_or_else(|| {
            fault!("this is not an ARP operation"; "write request, reply, or a number up to 65535")
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::write_word(f, self.0, &OPERATIONS)
    }
}

word_or_number!(Operation);
