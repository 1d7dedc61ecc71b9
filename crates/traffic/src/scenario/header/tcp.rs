//! TCP segments without a connection (RFC 9293 §3.1).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::checksum::Checksum;
use super::hex::Hex;
use super::{Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::{Covers, Lay};
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::schema::{ChecksumText, FlagsText, HexText};
use crate::text::word_or_number;

/// The TCP header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tcp {
    /// Source port.
    pub source: Field<Number>,
    /// Destination port.
    pub destination: Field<Number>,
    /// Sequence number.
    #[serde(skip_serializing_if = "is_default")]
    pub sequence: Field<Number>,
    /// Acknowledgment number.
    #[serde(skip_serializing_if = "is_default")]
    pub acknowledgment: Field<Number>,
    /// The flags, by name: `syn`, `syn+ack`, `psh+ack` …
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "FlagsText")]
    pub flags: Flags,
    /// The window. Default: 65535.
    pub window: Field<Number>,
    /// The urgent pointer.
    #[serde(skip_serializing_if = "is_default")]
    pub urgent: Field<Number>,
    /// The options, padded with zeros to a multiple of 4 bytes.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<HexText>")]
    pub options: Option<Hex>,
    /// The checksum.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "ChecksumText")]
    pub checksum: Checksum,
}

impl Default for Tcp {
    fn default() -> Self {
        let discard = Field::Fixed(Number::new(super::udp::DISCARD.into()));
        Tcp {
            source: discard.clone(),
            destination: discard,
            sequence: Field::default(),
            acknowledgment: Field::default(),
            flags: Flags::default(),
            window: Field::Fixed(Number::new(0xffff)),
            urgent: Field::default(),
            options: None,
            checksum: Checksum::On,
        }
    }
}

impl HeaderSpec for Tcp {
    fn lay(&self, out: &mut Lay) {
        let options = self.options.as_ref().map(|hex| hex.padded(4)).unwrap_or_default();
        out.field("source", 16, &self.source);
        out.field("destination", 16, &self.destination);
        out.field("sequence", 32, &self.sequence);
        out.field("acknowledgment", 32, &self.acknowledgment);
        out.fixed("data-offset", 4, 5 + options.len() as u128 / 4);
        out.fixed("reserved", 3, 0);
        out.fixed("flags", 9, self.flags.0.into());
        out.field("window", 16, &self.window);
        out.checksum("checksum", self.checksum, Covers::ToEndAndAddresses { zero_is_none: false });
        out.field("urgent", 16, &self.urgent);
        out.bytes("options", &options);
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        (space == Space::IpProtocol).then_some(6)
    }

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        match self.options.as_ref().map(|hex| hex.bytes().len()) {
            // A header of 60 bytes is the longest.
            Some(len) if len > 40 => {
                Err(("options", fault!("there is room for 40 bytes of options, not {len}")))
            }
            _ => Ok(()),
        }
    }
}

/// The control bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

/// Their names (RFC 9293 §3.1, RFC 3168; AE was NS, RFC 3540 and RFC 7560).
const FLAGS: [(&str, u16); 9] = [
    ("fin", 0x001),
    ("syn", 0x002),
    ("rst", 0x004),
    ("psh", 0x008),
    ("ack", 0x010),
    ("urg", 0x020),
    ("ece", 0x040),
    ("cwr", 0x080),
    ("ae", 0x100),
];

impl Default for Flags {
    /// A segment in the midst of a connection.
    fn default() -> Self {
        Flags(0x010)
    }
}

impl FromStr for Flags {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        if text == "none" {
            return Ok(Flags(0));
        }
        let mut flags = 0;
        for word in text.split('+') {
            let word = word.trim();
            match FLAGS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
                Some((_, flag)) => flags |= flag,
                None => {
                    return Err(fault!(
                        "these are no TCP flags";
                        "join fin, syn, rst, psh, ack, urg, ece, cwr and ae with +, for \
                         example syn+ack, or write none"
                    ));
                }
            }
        }
        Ok(Flags(flags))
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set: Vec<&str> = (FLAGS.iter())
            .filter_map(|(name, flag)| (self.0 & flag != 0).then_some(*name))
            .collect();
        f.pad(&if set.is_empty() { "none".to_owned() } else { set.join("+") })
    }
}

word_or_number!(Flags);
