//! IPv4 (RFC 791).

use std::net::Ipv4Addr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::MapAccess;
use serde::{Deserialize, Deserializer, Serialize};
use wirebeat_units::{Fault, fault};

use super::checksum::Checksum;
use super::dscp::Dscp;
use super::hex::Hex;
use super::{Carries, Header, HeaderSpec, Space, default_ttl, is_default_ttl};
use crate::scenario::is_default;
use crate::scenario::lay::{Covers, Lay, Span};
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::schema::{ChecksumText, HexText, SwitchText};
use crate::scenario::tagged::{self, Tagged};

/// The IPv4 header. Length, protocol and checksum fill themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Ipv4 {
    /// Source address. Default: the sending port's.
    #[serde(skip_serializing_if = "is_default")]
    pub source: Option<Field<Ipv4Addr>>,
    /// Destination address. Default: the receiving port's.
    #[serde(skip_serializing_if = "is_default")]
    pub destination: Option<Field<Ipv4Addr>>,
    /// Time to live.
    #[serde(skip_serializing_if = "is_default_ttl")]
    pub ttl: Field<Number>,
    /// Differentiated services code point (RFC 2474): a name or a number.
    #[serde(skip_serializing_if = "is_default")]
    pub dscp: Option<Field<Dscp>>,
    /// Explicit congestion notification (RFC 3168), 0 to 3.
    #[serde(skip_serializing_if = "is_default")]
    pub ecn: Option<Field<Number>>,
    /// The whole ToS byte, instead of `dscp` and `ecn`.
    #[serde(skip_serializing_if = "is_default")]
    pub tos: Option<Field<Number>>,
    /// The identification field: a number, a pattern, or `count` to count the flow's frames modulo 65536.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "IdentificationSchema")]
    pub identification: Identification,
    /// Whether it must not be fragmented. Default: on, unless packets are longer than the link carries and leave
    /// as fragments.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<SwitchText>")]
    pub dont_fragment: Option<bool>,
    /// More fragments follow. Default: 0. With it the packet is sent as it is, however long.
    #[serde(skip_serializing_if = "is_default")]
    pub more_fragments: Option<Number>,
    /// Fragment offset in units of 8 bytes. Default: 0. With it the packet is sent as it is, however long.
    #[serde(skip_serializing_if = "is_default")]
    pub fragment_offset: Option<Field<Number>>,
    /// The options, padded with zeros to a multiple of 4 bytes.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<HexText>")]
    pub options: Option<Hex>,
    /// The protocol of what follows. Default: that of the next header.
    #[serde(skip_serializing_if = "is_default")]
    pub protocol: Option<Number>,
    /// The total length. Default: what it is.
    #[serde(skip_serializing_if = "is_default")]
    pub length: Option<Number>,
    /// The header checksum.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "ChecksumText")]
    pub checksum: Checksum,
}

impl Default for Ipv4 {
    fn default() -> Self {
        Ipv4 {
            source: None,
            destination: None,
            ttl: default_ttl(),
            dscp: None,
            ecn: None,
            tos: None,
            identification: Identification::default(),
            dont_fragment: None,
            more_fragments: None,
            fragment_offset: None,
            options: None,
            protocol: None,
            length: None,
            checksum: Checksum::On,
        }
    }
}

impl HeaderSpec for Ipv4 {
    fn lay(&self, out: &mut Lay) {
        let nowhere = Field::Fixed(Ipv4Addr::UNSPECIFIED);
        let options = self.options.as_ref().map(|hex| hex.padded(4)).unwrap_or_default();
        out.fixed("version", 4, 4);
        out.fixed("header-length", 4, 5 + options.len() as u128 / 4);
        super::lay_tos(out, "tos", &self.tos, &self.dscp, &self.ecn);
        out.length("length", 16, self.length, Span::WithHeader);
        match &self.identification {
            Identification::Count => out.count("identification", 16),
            Identification::Field(field) => out.field("identification", 16, field),
        }
        out.fixed("reserved", 1, 0);
        out.fixed("dont-fragment", 1, self.dont_fragment.unwrap_or(true).into());
        let zero = Number::default();
        out.field("more-fragments", 1, &Field::Fixed(self.more_fragments.unwrap_or(zero)));
        out.field(
            "fragment-offset",
            13,
            self.fragment_offset.as_ref().unwrap_or(&Field::Fixed(zero)),
        );
        out.field("ttl", 8, &self.ttl);
        out.next("protocol", 8, self.protocol, Space::IpProtocol);
        out.checksum("checksum", self.checksum, Covers::Header);
        out.field("source", 32, self.source.as_ref().unwrap_or(&nowhere));
        out.field("destination", 32, self.destination.as_ref().unwrap_or(&nowhere));
        out.bytes("options", &options);
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        match space {
            Space::EtherType => Some(0x0800),
            // IPv4 in IP (RFC 2003).
            Space::IpProtocol => Some(4),
            Space::Bottom => None,
        }
    }

    fn carries(&self) -> Carries {
        Carries::Numbered(Space::IpProtocol, self.protocol.is_some())
    }

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        if self.tos.is_some() && (self.dscp.is_some() || self.ecn.is_some()) {
            return Err((
                "tos",
                fault!("the ToS byte holds DSCP and ECN"; "give it or them, not both"),
            ));
        }
        if self.ttl.fixed() == Some(Number::new(0)) {
            return Err(("ttl", "a packet with TTL 0 may not be sent (RFC 1122 §3.2.1.7)".into()));
        }
        match self.options.as_ref().map(|hex| hex.bytes().len()) {
            // A header of 60 bytes is the longest (RFC 791 §3.1).
            Some(len) if len > 40 => {
                Err(("options", fault!("there is room for 40 bytes of options, not {len}")))
            }
            _ => Ok(()),
        }
    }
}

/// What the identification field holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Identification {
    /// A number or a pattern.
    Field(Field<Number>),
    /// The number of the frame in its flow, modulo 65536.
    Count,
}

impl Default for Identification {
    fn default() -> Self {
        Identification::Field(Field::default())
    }
}

impl FromStr for Identification {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        match text {
            "count" => Ok(Identification::Count),
            number => match number.parse::<Number>() {
                Ok(number) if number.get() <= 0xffff => {
                    Ok(Identification::Field(Field::Fixed(number)))
                }
                _ => Err(fault!(
                    "this is not an identification";
                    "write 'count' or a number up to 65535"
                )),
            },
        }
    }
}

impl Serialize for Identification {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Identification::Count => serializer.serialize_str("count"),
            Identification::Field(field) => field.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Identification {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |text: String| text.parse())
    }
}

impl<'de> Tagged<'de> for Identification {
    const KINDS: &'static [&'static str] = <Field<Number> as Tagged<'de>>::KINDS;
    const WHAT: &'static str = "'count', a number, or a pattern";
    const OTHERS: &'static [&'static str] = <Field<Number> as Tagged<'de>>::OTHERS;
    type Beside = <Field<Number> as Tagged<'de>>::Beside;

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        Field::kind(key, value).map(Identification::Field)
    }
    fn beside<A: MapAccess<'de>>(
        key: &str,
        map: &mut A,
        beside: &mut Self::Beside,
    ) -> Result<bool, A::Error> {
        <Field<Number> as Tagged<'de>>::beside(key, map, beside)
    }
    fn join(self, beside: Self::Beside) -> Result<Self, Fault> {
        match self {
            Identification::Field(field) => field.join(beside).map(Identification::Field),
            Identification::Count => Ok(Identification::Count),
        }
    }
}

/// The schema of [`Identification`].
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "identification")]
#[expect(dead_code, reason = "it exists for its schema")]
enum IdentificationSchema {
    /// It counts the frames.
    Count(CountWord),
    /// A number, or a pattern.
    Field(Field<Number>),
}

/// The word.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[expect(dead_code, reason = "it exists for its schema")]
enum CountWord {
    Count,
}
