//! Extension headers of IPv6 (RFC 8200 §4): hop-by-hop options, routing, fragment, destination options.

use std::net::Ipv6Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::hex::Hex;
use super::{Carries, Header, HeaderSpec, Space};
use crate::scenario::is_default;
use crate::scenario::lay::Lay;
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::schema::HexText;

/// Options, of the kind that the key names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Options {
    /// The options as bytes, each with its type and length. Padding to a multiple of 8 bytes follows by
    /// itself. Default: padding alone.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<HexText>")]
    pub options: Option<Hex>,
    /// The protocol of what follows. Default: that of the next header.
    #[serde(skip_serializing_if = "is_default")]
    pub next_header: Option<Number>,
}

impl Options {
    /// The options, padded by Pad1 or PadN (RFC 8200 §4.2) so that the header is a multiple of 8 bytes.
    fn padded(&self) -> Vec<u8> {
        let mut bytes = self.options.as_ref().map(|hex| hex.bytes().to_vec()).unwrap_or_default();
        let missing = (bytes.len() + 2).next_multiple_of(8) - (bytes.len() + 2);
        match missing {
            0 => {}
            1 => bytes.push(0),
            many => {
                bytes.extend([1, many as u8 - 2]);
                bytes.resize(bytes.len() + many - 2, 0);
            }
        }
        bytes
    }

    fn lay(&self, out: &mut Lay) {
        let options = self.padded();
        out.next("next-header", 8, self.next_header, Space::IpProtocol);
        out.fixed("header-length", 8, (options.len() as u128 + 2) / 8 - 1);
        out.bytes("options", &options);
    }

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        match self.options.as_ref().map(|hex| hex.bytes().len()) {
            // The length field counts up to 256 units of 8 bytes, two bytes of which are its own.
            Some(len) if len > 2046 => {
                Err(("options", fault!("there is room for 2046 bytes of options, not {len}")))
            }
            _ => Ok(()),
        }
    }
}

/// Makes a header of options.
macro_rules! options {
    ($(#[$doc:meta])* $type:ident, $number:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(transparent)]
        pub struct $type(pub Options);

        impl HeaderSpec for $type {
            fn lay(&self, out: &mut Lay) {
                self.0.lay(out);
            }
            fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
                (space == Space::IpProtocol).then_some($number)
            }
            fn carries(&self) -> Carries {
                Carries::Numbered(Space::IpProtocol, self.0.next_header.is_some())
            }
            fn check(&self) -> Result<(), (&'static str, Fault)> {
                self.0.check()
            }
        }
    };
}

options! {
    /// Options for every router on the way (RFC 8200 §4.3).
    HopByHop, 0
}
options! {
    /// Options for the destination (RFC 8200 §4.6).
    DestinationOptions, 60
}

/// The routing type of segment routing (RFC 8754 §2).
const SEGMENT_ROUTING: Number = Number::new(4);

/// A routing header (RFC 8200 §4.4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Routing {
    /// The routing type. Default: 4, segment routing (RFC 8754).
    #[serde(skip_serializing_if = "is_default", rename = "type")]
    pub routing_type: Option<Number>,
    /// The segments, for segment routing the last one first. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub segments: Vec<Ipv6Addr>,
    /// How many segments are left. Default: none, so that the packet has arrived.
    #[serde(skip_serializing_if = "is_default")]
    pub segments_left: Field<Number>,
    /// The protocol of what follows. Default: that of the next header.
    #[serde(skip_serializing_if = "is_default")]
    pub next_header: Option<Number>,
}

impl Routing {
    /// Whether it is of segment routing (RFC 8754), which lists segments from the last one on.
    pub(crate) fn is_segment_routing(&self) -> bool {
        self.routing_type() == SEGMENT_ROUTING
    }

    fn routing_type(&self) -> Number {
        self.routing_type.unwrap_or(SEGMENT_ROUTING)
    }
}

impl HeaderSpec for Routing {
    fn lay(&self, out: &mut Lay) {
        let segments = self.segments.len() as u128;
        out.next("next-header", 8, self.next_header, Space::IpProtocol);
        out.fixed("header-length", 8, 2 * segments);
        out.field("type", 8, &Field::Fixed(self.routing_type()));
        out.field("segments-left", 8, &self.segments_left);
        out.fixed("last-entry", 8, segments.saturating_sub(1));
        out.fixed("flags", 8, 0);
        out.fixed("tag", 16, 0);
        for segment in &self.segments {
            out.field("segment", 128, &Field::Fixed(*segment));
        }
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        (space == Space::IpProtocol).then_some(43)
    }

    fn carries(&self) -> Carries {
        Carries::Numbered(Space::IpProtocol, self.next_header.is_some())
    }

    fn check(&self) -> Result<(), (&'static str, Fault)> {
        match self.segments.len() {
            0..=127 => Ok(()),
            many => Err(("segments", fault!("there is room for 127 segments, not {many}"))),
        }
    }
}

/// A fragment header (RFC 8200 §4.5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Fragment {
    /// Offset in units of 8 bytes, up to 8191.
    #[serde(skip_serializing_if = "is_default")]
    pub offset: Field<Number>,
    /// Whether more fragments follow, 0 or 1.
    #[serde(skip_serializing_if = "is_default")]
    pub more_fragments: Field<Number>,
    /// Identification.
    #[serde(skip_serializing_if = "is_default")]
    pub identification: Field<Number>,
    /// The protocol of what follows. Default: that of the next header.
    #[serde(skip_serializing_if = "is_default")]
    pub next_header: Option<Number>,
}

impl HeaderSpec for Fragment {
    fn lay(&self, out: &mut Lay) {
        out.next("next-header", 8, self.next_header, Space::IpProtocol);
        out.fixed("reserved", 8, 0);
        out.field("offset", 13, &self.offset);
        out.fixed("reserved", 2, 0);
        out.field("more-fragments", 1, &self.more_fragments);
        out.field("identification", 32, &self.identification);
    }

    fn number(&self, space: Space, _: Option<&Header>) -> Option<u16> {
        (space == Space::IpProtocol).then_some(44)
    }

    fn carries(&self) -> Carries {
        Carries::Numbered(Space::IpProtocol, self.next_header.is_some())
    }
}
