//! SCTP (RFC 9260): the common header and one DATA chunk, without an association.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use super::{Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::{Covers, Lay, Span};
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::schema::ChecksumText;

/// Bytes of the common header (RFC 9260 §3.1).
const COMMON: u16 = 12;

/// The SCTP header with a DATA chunk around the payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Sctp {
    /// Source port.
    pub source: Field<Number>,
    /// Destination port.
    pub destination: Field<Number>,
    /// The verification tag.
    #[serde(skip_serializing_if = "is_default")]
    pub verification_tag: Field<Number>,
    /// Flags of the chunk. Default: 3, an unfragmented message.
    #[serde(skip_serializing_if = "is_default")]
    pub flags: Option<Number>,
    /// Transmission sequence number.
    #[serde(skip_serializing_if = "is_default")]
    pub tsn: Field<Number>,
    /// Stream identifier.
    #[serde(skip_serializing_if = "is_default")]
    pub stream: Field<Number>,
    /// Stream sequence number.
    #[serde(skip_serializing_if = "is_default")]
    pub stream_sequence: Field<Number>,
    /// Payload protocol identifier.
    #[serde(skip_serializing_if = "is_default")]
    pub payload_protocol: Field<Number>,
    /// The CRC32c.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "ChecksumText")]
    pub checksum: Checksum,
}

impl Default for Sctp {
    fn default() -> Self {
        let discard = Field::Fixed(Number::new(super::udp::DISCARD.into()));
        Sctp {
            source: discard.clone(),
            destination: discard,
            verification_tag: Field::default(),
            flags: None,
            tsn: Field::default(),
            stream: Field::default(),
            stream_sequence: Field::default(),
            payload_protocol: Field::default(),
            checksum: Checksum::On,
        }
    }
}

impl HeaderSpec for Sctp {
    fn lay(&self, out: &mut Lay) {
        out.field("source", 16, &self.source);
        out.field("destination", 16, &self.destination);
        out.field("verification-tag", 32, &self.verification_tag);
        out.checksum("checksum", self.checksum, Covers::Crc32c);
        out.fixed("chunk-type", 8, 0);
        out.field("flags", 8, &Field::Fixed(self.flags.unwrap_or(Number::new(3))));
        out.length("chunk-length", 16, None, Span::From(COMMON));
        out.field("tsn", 32, &self.tsn);
        out.field("stream", 16, &self.stream);
        out.field("stream-sequence", 16, &self.stream_sequence);
        out.field("payload-protocol", 32, &self.payload_protocol);
        // Chunks are multiples of 4 bytes (RFC 9260 §3.2).
        out.align(4);
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        (space == Space::IpProtocol).then_some(132)
    }
}
