//! The headers that a packet can have: one file each, and one line of the table below.
//!
//! A file has the header's fields as they are written, its length on the wire and its own checks. What
//! the headers mean together is `spec/packet.rs`; how they become bytes is `compile/template.rs`.

pub mod dscp;
pub mod ethernet;
pub mod ipv4;
pub mod ipv6;
pub mod payload;
pub mod udp;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where in a packet a header stands. The order is that of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Position {
    /// The link layer.
    Link,
    /// The network layer.
    Network,
    /// The transport layer.
    Transport,
    /// After all headers.
    Payload,
}

/// What every kind of header can say about itself.
pub trait HeaderSpec {
    /// Bytes on the wire; 0 for the payload, which fills what the headers leave.
    fn header_len(&self) -> u16;

    /// What cannot be meant: the key it is about, and why.
    fn check(&self) -> Result<(), (&'static str, String)> {
        Ok(())
    }
}

/// Makes the enum of the headers and what is the same for all of them.
macro_rules! headers {
    ($($(#[$doc:meta])* $name:literal $variant:ident $type:ty, $position:ident;)*) => {
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
            /// Where it stands.
            pub fn position(&self) -> Position {
                match self { $(Header::$variant(_) => Position::$position,)* }
            }
            /// What it says about itself.
            pub fn spec(&self) -> &dyn HeaderSpec {
                match self { $(Header::$variant(header) => header,)* }
            }
        }
    };
}

headers! {
    /// Ethernet. Without it the addresses are found by themselves.
    "ethernet" Ethernet ethernet::Ethernet, Link;
    /// IPv4.
    "ipv4" Ipv4 ipv4::Ipv4, Network;
    /// IPv6.
    "ipv6" Ipv6 ipv6::Ipv6, Network;
    /// UDP.
    "udp" Udp udp::Udp, Transport;
    /// What follows the headers. Without it: zeros.
    "payload" Payload payload::Payload, Payload;
}
