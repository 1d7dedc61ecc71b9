//! Ethernet frames without their FCS (IEEE 802.3 §3.1, in the form that carries an EtherType).

use std::fmt;

use crate::mac::MacAddr;

/// Bytes of the header.
pub const LEN: usize = 14;
/// The shortest frame without FCS; a shorter one is padded with zeros (IEEE 802.3 §4.2.3.3).
pub const FRAME_MIN: usize = 60;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP (RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);
    /// IPv6 (RFC 2464).
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// A customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// MPLS labels (RFC 3032 §5).
    pub const MPLS: EtherType = EtherType(0x8847);
    /// MPLS labels of multicast (RFC 5332).
    pub const MPLS_MULTICAST: EtherType = EtherType(0x8848);
    /// A service VLAN tag (IEEE 802.1ad).
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);
}

/// A frame that is at least a header long.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    header: &'a [u8; LEN],
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Views `bytes`; `None` when they are shorter than a header.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, payload) = bytes.split_first_chunk()?;
        Some(Frame { header, payload })
    }

    /// Who it is for.
    pub fn destination(&self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = *self.header;
        MacAddr([a, b, c, d, e, f])
    }

    /// Who sent it.
    pub fn source(&self) -> MacAddr {
        let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *self.header;
        MacAddr([a, b, c, d, e, f])
    }

    /// What it carries. Below 0x600 it is a length, and matches no EtherType.
    pub fn ether_type(&self) -> EtherType {
        EtherType(u16::from_be_bytes([self.header[12], self.header[13]]))
    }

    /// What follows the header, padding included.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Who it is for.
    pub destination: MacAddr,
    /// Who sends it.
    pub source: MacAddr,
}

impl Repr {
    /// Writes the header of a frame that carries `ether_type`.
    pub fn emit(&self, out: &mut [u8; LEN], ether_type: EtherType) {
        out[..6].copy_from_slice(&self.destination.0);
        out[6..12].copy_from_slice(&self.source.0);
        out[12..].copy_from_slice(&ether_type.0.to_be_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ethernet {} > {}", self.source, self.destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPR: Repr =
        Repr { destination: MacAddr([1, 2, 3, 4, 5, 6]), source: MacAddr([7, 8, 9, 10, 11, 12]) };

    #[test]
    fn a_header_is_written_and_read() {
        let mut bytes = [0; LEN + 1];
        REPR.emit(bytes.first_chunk_mut().expect("long enough"), EtherType::IPV6);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x86, 0xdd, 0]);
        let frame = Frame::parse(&bytes).expect("a frame");
        assert_eq!((frame.destination(), frame.source()), (REPR.destination, REPR.source));
        assert_eq!(frame.ether_type(), EtherType::IPV6);
        assert_eq!(frame.payload(), [0]);
        assert_eq!(REPR.to_string(), "Ethernet 07:08:09:0a:0b:0c > 01:02:03:04:05:06");
    }

    #[test]
    fn a_frame_shorter_than_its_header_is_none() {
        assert!(Frame::parse(&[0; LEN - 1]).is_none());
        assert!(Frame::parse(&[0; LEN]).is_some());
    }
}
