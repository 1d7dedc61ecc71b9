//! The headers that a packet can have: one file each, and one line of the table below.
//!
//! A file has the header's fields as they are written, how they lie on the wire (`HeaderSpec::lay`), by
//! what number others name it, what it carries, and its own checks. What the headers mean together is
//! `scenario/packet.rs`; how they become bytes is `compile/frame.rs`.

pub mod arp;
pub mod checksum;
pub mod dccp;
pub mod dscp;
pub mod ethernet;
pub mod extension;
pub mod gre;
pub mod hex;
pub mod icmp;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod mpls;
pub mod payload;
pub mod raw;
pub mod sctp;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use self::dscp::Dscp;
use super::lay::{Item, Lay, What};
use super::number::Number;
use super::pattern::{Field, Per};

/// The numbers by which a header names the one that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// EtherTypes (IEEE 802.3 §3.2.6).
    EtherType,
    /// Protocol numbers of IPv4 and IPv6 (IANA).
    IpProtocol,
    /// Whether a label is the bottom of its stack: 0 before another label, else 1 (RFC 3032 §2.1).
    Bottom,
}

/// What may follow a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Payload only.
    Payload,
    /// Headers with a number of this space; any, where the scenario writes the number itself.
    Numbered(Space, bool),
    /// These headers.
    OneOf(&'static [&'static str]),
}

/// What every kind of header can say about itself.
pub(crate) trait HeaderSpec {
    /// Its fields, in the order of the wire.
    fn lay(&self, out: &mut Lay);

    /// The number that the header before it names it by, if it has one there.
    fn number(&self, space: Space, next: Option<&Header>) -> Option<u16> {
        let _ = (space, next);
        None
    }

    /// What may follow it.
    fn carries(&self) -> Carries {
        Carries::Payload
    }

    /// What is invalid: the key it is about, and why. Whether values fit their fields is found by
    /// `HeaderSpec::lay`.
    fn check(&self) -> Result<(), (&'static str, Fault)> {
        Ok(())
    }
}

/// Makes the enum of the headers and what is the same for all of them.
macro_rules! headers {
    ($($(#[$doc:meta])* $name:literal $variant:ident $type:ty;)*) => {
        /// A header of a packet, or its payload.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub enum Header {
            $($(#[$doc])* #[serde(rename = $name)] $variant($type),)*
        }

        impl Header {
            /// The key that it is written with.
            pub fn name(&self) -> &'static str {
                match self { $(Header::$variant(_) => $name,)* }
            }
            /// What it says about itself.
            pub(crate) fn spec(&self) -> &dyn HeaderSpec {
                match self { $(Header::$variant(header) => header,)* }
            }
        }
    };
}

headers! {
    /// Ethernet. Without it the addresses are found by themselves.
    "ethernet" Ethernet ethernet::Ethernet;
    /// A VLAN tag.
    "vlan" Vlan vlan::Vlan;
    /// An MPLS label.
    "mpls" Mpls mpls::Mpls;
    /// ARP.
    "arp" Arp arp::Arp;
    /// IPv4.
    "ipv4" Ipv4 ipv4::Ipv4;
    /// IPv6.
    "ipv6" Ipv6 ipv6::Ipv6;
    /// Hop-by-hop options of IPv6.
    "hop-by-hop" HopByHop extension::HopByHop;
    /// A routing header of IPv6.
    "routing" Routing extension::Routing;
    /// A fragment header of IPv6.
    "fragment" Fragment extension::Fragment;
    /// Destination options of IPv6.
    "destination-options" DestinationOptions extension::DestinationOptions;
    /// UDP.
    "udp" Udp udp::Udp;
    /// TCP.
    "tcp" Tcp tcp::Tcp;
    /// ICMP.
    "icmp" Icmp icmp::Icmp;
    /// ICMPv6.
    "icmpv6" Icmpv6 icmp::Icmpv6;
    /// IGMP.
    "igmp" Igmp igmp::Igmp;
    /// GRE.
    "gre" Gre gre::Gre;
    /// VXLAN.
    "vxlan" Vxlan vxlan::Vxlan;
    /// SCTP.
    "sctp" Sctp sctp::Sctp;
    /// DCCP.
    "dccp" Dccp dccp::Dccp;
    /// A whole frame as it is, instead of headers.
    "frame" Raw raw::Raw;
    /// What follows the headers. Without it: zeros.
    "payload" Payload payload::Payload;
}

impl Header {
    /// Its fields.
    pub(crate) fn laid(&self) -> Lay {
        let mut lay = Lay::default();
        self.spec().lay(&mut lay);
        lay
    }

    /// Whether something in it advances with sub-flows.
    pub(crate) fn has_sub_flows(&self) -> bool {
        let advances = |item: &Item| matches!(item.what, What::Changing { per: Per::SubFlow, .. });
        self.laid().items().iter().any(advances)
    }

    /// Whether `next` may follow it.
    pub(crate) fn may_carry(&self, next: &Header) -> bool {
        match (next, self.spec().carries()) {
            (Header::Payload(_), _) => true,
            (_, Carries::Payload) => false,
            (_, Carries::Numbered(space, written)) => {
                written || next.spec().number(space, None).is_some()
            }
            (_, Carries::OneOf(names)) => names.contains(&next.name()),
        }
    }
}

/// The time to live that RFC 1700 recommends and Linux uses.
fn default_ttl() -> Field<Number> {
    Field::Fixed(Number::new(64))
}

fn is_default_ttl(ttl: &Field<Number>) -> bool {
    *ttl == default_ttl()
}

/// The ToS byte or traffic class: whole, or DSCP and ECN.
fn lay_tos(
    out: &mut Lay,
    name: &'static str,
    whole: &Option<Field<Number>>,
    dscp: &Option<Field<Dscp>>,
    ecn: &Option<Field<Number>>,
) {
    match whole {
        Some(whole) => out.field(name, 8, whole),
        None => {
            match dscp {
                Some(dscp) => out.field("dscp", 6, dscp),
                None => out.fixed("dscp", 6, 0),
            }
            out.field("ecn", 2, ecn.as_ref().unwrap_or(&Field::Fixed(Number::default())));
        }
    }
}

/// A number that is not a field of its header.
fn at_most(
    key: &'static str,
    number: Option<Number>,
    most: u64,
) -> Result<(), (&'static str, Fault)> {
    match number {
        Some(number) if number.get() > most => Err((key, fault!("at most {most}"))),
        _ => Ok(()),
    }
}

/// The number that a word stands for, or that is written.
fn word_number(text: &str, words: &[(&str, u16)]) -> Option<u16> {
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, number)) => Some(*number),
        None => text.parse::<Number>().ok().and_then(|number| u16::try_from(number.get()).ok()),
    }
}

/// The word that stands for a number, or the number.
fn write_word(f: &mut fmt::Formatter<'_>, number: u16, words: &[(&str, u16)]) -> fmt::Result {
    match words.iter().find(|(_, named)| *named == number) {
        Some((word, _)) => f.pad(word),
        None => fmt::Display::fmt(&number, f),
    }
}
