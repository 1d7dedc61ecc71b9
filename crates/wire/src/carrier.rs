//! Finds the payload of a frame that is not a plain UDP datagram: of another protocol over IP, behind MPLS
//! labels, or without any network header. A probe lies at its end, whatever the headers are.
//!
//! Tunnels are not opened: what an outer IP packet ends with is what the innermost payload ends with. As with
//! [`crate::datagram`], nothing is believed before it is checked, and fragments are foreign.
//! `bpf/dissect.h` does the same; this is its reference.

use std::net::IpAddr;

use crate::datagram::Datagram;
use crate::datagram::NotADatagram::{self, Foreign, Malformed};
use crate::ethernet;
use crate::ip::Protocol;
use crate::walk::{self, Policy};

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier<'a> {
    /// Where it comes from, if it is IP.
    pub source: Option<IpAddr>,
    /// What follows the headers that are understood, without the padding of a short IP packet.
    pub payload: &'a [u8],
}

impl<'a> Carrier<'a> {
    /// Finds the payload of `frame`, which begins at the Ethernet header and has no FCS.
    pub fn parse(frame: &'a [u8]) -> Result<Self, NotADatagram> {
        let (ether_type, at) = walk::network(frame).ok_or(Malformed)?;
        let packet = frame.get(at..).unwrap_or_default();
        let (version, packet) = match ether_type.is_mpls() {
            true => walk::behind_labels(packet)?,
            false => (ether_type.version(), packet),
        };
        let Some(version) = version else { return Ok(Carrier { source: None, payload: packet }) };
        let ip = walk::ip_packet(packet, version, Policy::Strict).ok_or(Malformed)?;
        if ip.is_fragment() {
            return Err(Foreign);
        }
        let header = transport_len(ip.protocol, ip.content).ok_or(Malformed)?;
        let payload = ip.content.get(header..).ok_or(Malformed)?;
        Ok(Carrier { source: Some(ip.source()), payload })
    }
}

/// How many bytes of `frame`, which begins at the Ethernet header and has no FCS, a receiver counts as payload: what
/// follows the transport header. Where no header says what is padding, and where headers contradict themselves, it is all
/// that follows the EtherType, the padding included.
pub fn payload_len(frame: &[u8]) -> usize {
    let carried = match Datagram::parse(frame) {
        Ok(datagram) => return datagram.payload.len(),
        Err(Foreign) => Carrier::parse(frame).ok(),
        Err(Malformed) => None,
    };
    carried.map_or(frame.len().saturating_sub(ethernet::LEN), |carrier| carrier.payload.len())
}

/// Bytes of the transport header, for protocols that are known here; `None` where it is cut short.
fn transport_len(protocol: Protocol, bytes: &[u8]) -> Option<usize> {
    /// Of TCP (RFC 9293 §3.1) and of DCCP (RFC 4340 §5.1), in words of 4 bytes.
    const TCP_OFFSET_AT: usize = 12;
    const DCCP_OFFSET_AT: usize = 4;
    Some(match protocol {
        Protocol::TCP => usize::from(bytes.get(TCP_OFFSET_AT)? >> 4) * 4,
        Protocol::DCCP => usize::from(*bytes.get(DCCP_OFFSET_AT)?) * 4,
        // The common header and that of a DATA chunk (RFC 9260 §3.1, §3.3.1).
        Protocol::SCTP => 12 + 16,
        Protocol::UDP | Protocol::ICMP | Protocol::IGMP | Protocol::ICMPV6 => 8,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An IPv4 packet of this protocol with 20 bytes of `content`, behind what stands before it.
    fn frame(ether_type: u16, before: &[u8], protocol: u8, content: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(ether_type.to_be_bytes());
        frame.extend(before);
        let total = 20 + content.len() as u16;
        frame.extend([0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(content);
        frame.resize(frame.len().max(60), 0xee);
        frame
    }

    fn payload(frame: &[u8]) -> Vec<u8> {
        Carrier::parse(frame).unwrap().payload.to_vec()
    }

    #[test]
    fn the_payload_follows_the_transport_header_and_is_not_padding() {
        let mut tcp = vec![0; 24];
        tcp[12] = 6 << 4;
        tcp.extend([7; 3]);
        assert_eq!(payload(&frame(0x0800, &[], 6, &tcp)), [7; 3]);
        assert_eq!(payload(&frame(0x0800, &[], 1, &[[0; 8], [9; 8]].concat())), [9; 8]);
        assert_eq!(payload(&frame(0x0800, &[], 47, &[5; 6])), [5; 6]);
        let source = Carrier::parse(&frame(0x0800, &[], 47, &[5; 6])).unwrap().source;
        assert_eq!(source, Some([10, 0, 0, 1].into()));
    }

    #[test]
    fn labels_and_tags_are_walked() {
        let two = [0, 1, 0, 64, 0, 2, 1, 64];
        assert_eq!(payload(&frame(0x8847, &two, 47, &[5; 6])), [5; 6]);
        assert_eq!(payload(&frame(0x8100, &[0, 5, 0x08, 0x00], 47, &[5; 6])), [5; 6]);
        let endless = [0, 1, 0, 64].repeat(walk::LABELS_MAX + 1);
        assert_eq!(Carrier::parse(&frame(0x8847, &endless, 47, &[])), Err(Foreign));
    }

    #[test]
    fn without_a_network_header_it_is_all_that_follows() {
        let mut arp = vec![2; 12];
        arp.extend([0x08, 0x06]);
        arp.extend([3; 46]);
        assert_eq!(Carrier::parse(&arp), Ok(Carrier { source: None, payload: &[3; 46] }));
    }

    #[test]
    fn padding_is_payload_where_no_header_says_how_long_the_packet_is() {
        let other = frame(0x88b5, &[], 6, &[0; 2]);
        assert_eq!(payload_len(&other), 46);
        let tagged = [&other[..12], &[0x81, 0, 0, 5], &other[12..]].concat();
        assert_eq!(payload_len(&tagged), 46);
        let datagram = [0, 1, 0, 2, 0, 11, 0, 0, 7, 7, 7, 9];
        assert_eq!(payload_len(&frame(0x0800, &[], 17, &datagram)), 3);
        assert_eq!(payload_len(&frame(0x0800, &[], 1, &[0; 10])), 2);
        // a length of more than there is, a packet that is not a fragment and cut short, and nothing at all
        let wrong = [0, 1, 0, 2, 0, 90, 0, 0, 7, 7, 7];
        assert_eq!(payload_len(&frame(0x0800, &[], 17, &wrong)), 46);
        assert_eq!(payload_len(&frame(0x0800, &[], 6, &[])), 46);
        assert_eq!(payload_len(&[0; 13]), 0);
    }

    #[test]
    fn what_is_cut_short_is_malformed() {
        let mut tcp = vec![0; 20];
        tcp[12] = 15 << 4;
        assert_eq!(Carrier::parse(&frame(0x0800, &[], 6, &tcp)), Err(Malformed));
        assert_eq!(Carrier::parse(&frame(0x0800, &[], 6, &[])), Err(Malformed));
        assert_eq!(Carrier::parse(&[0; 13]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Carrier::parse(&bytes);
            prop_assert!(payload_len(&bytes) <= bytes.len());
        }

        #[test]
        fn any_packet_of_any_protocol_is_safe(
            ether_type in prop::sample::select(vec![0x0800_u16, 0x8847, 0x86dd, 0x8100, 0x0806]),
            before in prop::collection::vec(any::<u8>(), 0..8),
            protocol: u8,
            content in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let _ = Carrier::parse(&frame(ether_type, &before, protocol, &content));
        }
    }
}
