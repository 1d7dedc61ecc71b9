//! How long the payload of a frame is, by its headers alone, where its receiver does not say.

use wirebeat_wire::ip::Protocol;
use wirebeat_wire::locate::{Carried, locate};

/// Where in a UDP header its length is, and how long the header is (RFC 768).
const UDP_LEN_AT: usize = 4;
const UDP_HEADER: u32 = 8;

/// Bytes of the payload of a UDP datagram, of whose frame these are the first bytes; `None` where it is none, or its length is
/// not among them.
pub(super) fn len(frame: &[u8]) -> Option<u32> {
    let located = locate(frame).filter(|located| located.protocol == Protocol::UDP)?;
    let Carried::Whole(at) = located.carried else { return None };
    let len = frame.get(at + UDP_LEN_AT..)?.first_chunk()?;
    u32::from(u16::from_be_bytes(*len)).checked_sub(UDP_HEADER)
}

#[cfg(test)]
mod tests {
    use wirebeat_wire::datagram::Datagram;
    use wirebeat_wire::testing::udp_frame;

    use super::*;

    #[test]
    fn a_payload_is_as_long_as_the_whole_frame_says_where_only_headers_are_left() {
        for (source, destination) in [("10.0.0.1:9", "10.0.0.2:9"), ("[fd00::1]:9", "[fd00::2]:9")]
        {
            for payload in [0, 1, 18, 1400] {
                let frame = udp_frame(source, destination, &vec![7; payload]);
                let whole = Datagram::parse(&frame).unwrap();
                assert_eq!(len(&frame), Some(payload as u32));
                assert_eq!(len(&frame[..whole.payload_at]), Some(payload as u32));
                assert_eq!(len(&frame[..whole.payload_at - 3]), None);
            }
        }
        assert_eq!(len(&[]), None);
        assert_eq!(len(&[0x88; 60]), None);
    }
}
