//! ICMP (RFC 792) and ICMPv6 (RFC 4443): the header of every message, with the identifier and sequence
//! number of an echo, or whatever else its second word holds. What follows is payload.

use std::fmt;
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
use crate::scenario::schema::{ChecksumText, IcmpTypeText};
use crate::text::word_or_number;

/// Names of ICMP's types (RFC 792).
const V4_TYPES: [(&str, u16); 7] = [
    ("echo-request", 8),
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("redirect", 5),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp", 13),
];

/// Names of ICMPv6's types (RFC 4443, RFC 4861).
const V6_TYPES: [(&str, u16); 10] = [
    ("echo-request", 128),
    ("echo-reply", 129),
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbor-solicitation", 135),
    ("neighbor-advertisement", 136),
];

/// Makes the header of one of the two and its type.
macro_rules! icmp {
    ($(#[$doc:meta])* $type:ident, $kind:ident, $names:ident, $protocol:literal, $covers:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        pub struct $type {
            /// The type: its name or a number. Default: echo-request.
            #[serde(skip_serializing_if = "is_default", rename = "type")]
            #[schemars(with = "IcmpTypeText")]
            pub kind: $kind,
            /// The code.
            #[serde(skip_serializing_if = "is_default")]
            pub code: Field<Number>,
            /// Identifier of an echo; the first 16 bits of the second word.
            #[serde(skip_serializing_if = "is_default")]
            pub identifier: Field<Number>,
            /// Sequence number of an echo; the last 16 bits of the second word.
            #[serde(skip_serializing_if = "is_default")]
            pub sequence: Field<Number>,
            /// The checksum.
            #[serde(skip_serializing_if = "is_default")]
            #[schemars(with = "ChecksumText")]
            pub checksum: Checksum,
        }

        impl HeaderSpec for $type {
            fn lay(&self, out: &mut Lay) {
                out.fixed("type", 8, self.kind.0.into());
                out.field("code", 8, &self.code);
                out.checksum("checksum", self.checksum, $covers);
                out.field("identifier", 16, &self.identifier);
                out.field("sequence", 16, &self.sequence);
            }

            fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
                (space == Space::IpProtocol).then_some($protocol)
            }
        }

        /// The type of a message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $kind(u8);

        impl Default for $kind {
            fn default() -> Self {
                $kind($names[0].1 as u8)
            }
        }

        impl FromStr for $kind {
            type Err = Fault;

            fn from_str(text: &str) -> Result<Self, Fault> {
                let number = super::word_number(text, &$names);
                number.and_then(|number| u8::try_from(number).ok()).map($kind).ok_or_else(|| {
                    let names: Vec<&str> = $names.iter().map(|(name, _)| *name).collect();
                    fault!(
                        "this is not a type";
                        "write a number up to 255, or {}", names.join(", ")
                    )
                })
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                super::write_word(f, self.0.into(), &$names)
            }
        }

        word_or_number!($kind);
    };
}

icmp! {
    /// An ICMP message.
    Icmp, IcmpType, V4_TYPES, 1, Covers::ToEnd
}
icmp! {
    /// An ICMPv6 message.
    Icmpv6, Icmpv6Type, V6_TYPES, 58, Covers::ToEndAndAddresses { zero_is_none: false }
}
