//! UDP (RFC 768).

/// Bytes of the header.
pub const LEN: usize = 8;
/// Where the checksum lies in the header. Zero there means that there is none.
pub const CHECKSUM: usize = 6;

/// A datagram whose length fits into what carries it.
#[derive(Clone, Copy, Debug)]
pub struct CarriedDatagram<'a> {
    header: &'a [u8; LEN],
    payload: &'a [u8],
}

impl<'a> CarriedDatagram<'a> {
    /// Views the datagram at the front of `bytes`, which are what the IP packet carries; `None` when it
    /// is cut short or claims to be shorter than its header. The checksum is not looked at.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header: &[u8; LEN] = bytes.first_chunk()?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        Some(CarriedDatagram { header, payload: bytes.get(LEN..len)? })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_is_read() {
        let bytes = [0x12, 0x34, 0, 9, 0, 11, 0, 0, 1, 2, 3, 4];
        let packet = CarriedDatagram::parse(&bytes).expect("a datagram");
        assert_eq!((packet.source_port(), packet.destination_port()), (0x1234, 9));
        assert_eq!(packet.payload(), [1, 2, 3]);
    }

    #[test]
    fn lengths_that_do_not_fit_together_are_none() {
        assert!(CarriedDatagram::parse(&[0, 1, 0, 2, 0, 8, 0]).is_none(), "header cut short");
        assert!(CarriedDatagram::parse(&[0, 1, 0, 2, 0, 9, 0, 0]).is_none(), "payload cut short");
        assert!(
            CarriedDatagram::parse(&[0, 1, 0, 2, 0, 7, 0, 0]).is_none(),
            "shorter than a header"
        );
        assert!(
            CarriedDatagram::parse(&[0, 1, 0, 2, 0, 0, 0, 0]).is_none(),
            "a jumbogram's length"
        );
        assert!(CarriedDatagram::parse(&[0, 1, 0, 2, 0, 8, 0, 0]).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_datagram_or_none(bytes: Vec<u8>) {
            if let Some(packet) = CarriedDatagram::parse(&bytes) {
                prop_assert!(LEN + packet.payload().len() <= bytes.len());
            }
        }
    }
}
