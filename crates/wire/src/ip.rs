//! What IPv4 and IPv6 share: the numbers of the protocols they carry.

/// A protocol number (IPv4) or next header (IPv6), as IANA assigns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options (RFC 8200 §4.3).
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// UDP (RFC 768).
    pub const UDP: Protocol = Protocol(17);
    /// IPv6 routing header (RFC 8200 §4.4).
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: Protocol = Protocol(44);
    /// IPv6 destination options (RFC 8200 §4.6).
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
}
