//! UDP (RFC 768).

use std::fmt;

use crate::checksum::Sum;

/// Bytes of the header.
pub const LEN: usize = 8;
/// Where the checksum lies in the header. Zero there means that there is none.
pub const CHECKSUM: usize = 6;

/// A datagram whose length fits into what carries it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; LEN],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Views the datagram at the front of `bytes`, which are what the IP packet carries; `None` when it
    /// is cut short or claims to be shorter than its header. The checksum is not looked at.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header: &[u8; LEN] = bytes.first_chunk()?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        Some(Packet { header, payload: bytes.get(LEN..len)? })
    }

    /// Where it comes from.
    pub fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }
    /// Where it goes.
    pub fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }
    /// What it carries.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Where it comes from.
    pub source_port: u16,
    /// Where it goes.
    pub destination_port: u16,
}

impl Repr {
    /// Writes the header of a datagram that carries `payload_len` bytes, without a checksum. A payload
    /// that does not fit into a datagram (65 535 bytes) is not told from the longest that does.
    pub fn emit(&self, out: &mut [u8; LEN], payload_len: u16) {
        out[..2].copy_from_slice(&self.source_port.to_be_bytes());
        out[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        out[4..6].copy_from_slice(&payload_len.saturating_add(LEN as u16).to_be_bytes());
        out[6..].fill(0);
    }
}

/// Writes the checksum of `payload` and the `header` that [`Repr::emit`] made, over `pseudo`.
pub fn emit_checksum(header: &mut [u8; LEN], pseudo: Sum, payload: &[u8]) {
    // Zero would say that there is none; all ones is its equal (RFC 768).
    let checksum = match pseudo.add_bytes(header).add_bytes(payload).checksum() {
        0 => 0xffff,
        checksum => checksum,
    };
    header[CHECKSUM..].copy_from_slice(&checksum.to_be_bytes());
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UDP {} > {}", self.source_port, self.destination_port)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPR: Repr = Repr { source_port: 0x1234, destination_port: 9 };

    #[test]
    fn a_header_is_written_and_read() {
        let mut header = [0xff; LEN];
        REPR.emit(&mut header, 3);
        assert_eq!(header, [0x12, 0x34, 0, 9, 0, 11, 0, 0]);
        let bytes = [&header[..], &[1, 2, 3, 4]].concat();
        let packet = Packet::parse(&bytes).expect("a datagram");
        assert_eq!((packet.source_port(), packet.destination_port()), (0x1234, 9));
        assert_eq!(packet.payload(), [1, 2, 3]);
        assert_eq!(REPR.to_string(), "UDP 4660 > 9");
    }

    #[test]
    fn lengths_that_do_not_fit_together_are_none() {
        assert!(Packet::parse(&[0, 1, 0, 2, 0, 8, 0]).is_none(), "header cut short");
        assert!(Packet::parse(&[0, 1, 0, 2, 0, 9, 0, 0]).is_none(), "payload cut short");
        assert!(Packet::parse(&[0, 1, 0, 2, 0, 7, 0, 0]).is_none(), "shorter than a header");
        assert!(Packet::parse(&[0, 1, 0, 2, 0, 0, 0, 0]).is_none(), "a jumbogram's length");
        assert!(Packet::parse(&[0, 1, 0, 2, 0, 8, 0, 0]).is_some());
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_all_ones() {
        let mut header = [0; LEN];
        emit_checksum(&mut header, Sum::ZERO, &[0xff, 0xff]);
        assert_eq!(header, [0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_datagram_or_none(bytes: Vec<u8>) {
            if let Some(packet) = Packet::parse(&bytes) {
                prop_assert!(LEN + packet.payload().len() <= bytes.len());
            }
        }
    }
}
