//! IP fragments in received frames (RFC 791 §3.2, RFC 8200 §4.5): where they belong, and what they hold.
//!
//! As with [`crate::datagram`], nothing is believed before it is checked. Fragments behind MPLS labels or in
//! tunnels are not looked for.

use std::net::IpAddr;

use crate::ip::Version;
use crate::ipv6;
use crate::walk::{self, Policy};

/// Which packet a fragment is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// What it carries; 0 over IPv6, where the first fragment alone says it.
    pub protocol: u8,
    /// Its number.
    pub identification: u32,
}

/// A fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Which packet it is of.
    pub packet: Packet,
    /// Where in the packet its data begins.
    pub offset: usize,
    /// Whether others follow.
    pub more: bool,
    /// The frame up to what every fragment has, the fragment header not included.
    pub head: &'a [u8],
    /// The data.
    pub data: &'a [u8],
    /// How the head of the packet is made from `head`.
    pub shape: Shape,
}

/// What of the head of a first fragment is not that of its packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Where the network header begins.
    network_at: usize,
    /// Over IPv6: where the number of what follows lies, and what it is in the packet.
    next: Option<(usize, u8)>,
}

impl<'a> Fragment<'a> {
    /// The fragment in `frame`, which begins at the Ethernet header and has no FCS; `None` when there is none, or
    /// it contradicts itself.
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let (ether_type, network_at) = walk::network(frame)?;
        let version = ether_type.version()?;
        let ip = walk::ip_packet(frame.get(network_at..)?, version, Policy::Strict)?;
        let part = ip.part()?;
        Some(Fragment {
            packet: Packet {
                source: ip.source(),
                destination: ip.destination(),
                protocol: if version == Version::V4 { ip.protocol.0 } else { 0 },
                identification: part.identification,
            },
            offset: part.offset,
            more: part.more,
            head: frame.get(..network_at + part.head_len)?,
            data: ip.content,
            shape: Shape {
                network_at,
                next: part.next.map(|(next_at, next)| (network_at + next_at, next)),
            },
        })
    }
}

impl Shape {
    /// Makes `head`, a copy of the first fragment's, that of the whole packet with `data` bytes behind it; `None`
    /// when the packet is longer than any.
    pub fn make_whole(&self, head: &mut [u8], data: usize) -> Option<()> {
        let network = head.get_mut(self.network_at..)?;
        match self.next {
            None => {
                let length = u16::try_from(network.len() + data).ok()?;
                *network.get_mut(2..)?.first_chunk_mut()? = length.to_be_bytes();
                network.get_mut(6..8)?.fill(0);
                // Nobody looks at the header's checksum behind this.
            }
            Some((next_at, next)) => {
                let length = u16::try_from(network.len() - ipv6::LEN + data).ok()?;
                *network.get_mut(4..)?.first_chunk_mut()? = length.to_be_bytes();
                *head.get_mut(next_at)? = next;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::datagram::Datagram;

    /// A frame with this network header and 16 bytes behind it.
    fn frame(ether_type: [u8; 2], network: &[u8]) -> Vec<u8> {
        [&[0; 12][..], &ether_type, network, &[0xdd; 16]].concat()
    }

    fn v4(place: u16) -> Vec<u8> {
        let mut header = [0x45, 0, 0, 36, 0x12, 0x34, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        header[6..8].copy_from_slice(&place.to_be_bytes());
        frame([8, 0], &header)
    }

    /// With hop-by-hop options before the fragment header.
    fn v6(place: u16) -> Vec<u8> {
        let mut header = [0; 56];
        header[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 32, 0, 64]);
        header[40..48].copy_from_slice(&[44, 0, 1, 4, 0, 0, 0, 0]);
        header[48..50].copy_from_slice(&[17, 0]);
        header[50..52].copy_from_slice(&place.to_be_bytes());
        header[52..].copy_from_slice(&[1, 2, 3, 4]);
        frame([0x86, 0xdd], &header)
    }

    #[test]
    fn fragments_are_told_from_packets() {
        for frame in [v4(0), v4(0x4000), v6(0), frame([8, 6], &[0; 28])] {
            assert_eq!(Fragment::parse(&frame), None);
        }
        let frame = v4(0x2000 | 185);
        let first = Fragment::parse(&frame).unwrap();
        assert_eq!((first.offset, first.more, first.head.len()), (1480, true, 34));
        assert_eq!((first.packet.identification, first.data), (0x1234, &[0xdd; 16][..]));
        let frame = v6(1480 | 1);
        let first = Fragment::parse(&frame).unwrap();
        assert_eq!((first.offset, first.more, first.head.len()), (1480, true, 62));
        assert_eq!((first.packet.identification, first.data), (0x0102_0304, &[0xdd; 16][..]));
    }

    #[test]
    fn the_head_of_the_first_is_made_that_of_the_packet() {
        for frame in [v4(0x2000), v6(1)] {
            let first = Fragment::parse(&frame).unwrap();
            // a datagram of 24 bytes
            let data = [&[0, 1, 0, 2, 0, 24, 0, 0][..], &[7; 16]].concat();
            let mut whole = first.head.to_vec();
            first.shape.make_whole(&mut whole, data.len()).unwrap();
            whole.extend(&data);
            let datagram = Datagram::parse(&whole).unwrap();
            assert_eq!((datagram.destination_port, datagram.payload), (2, &[7; 16][..]));
            assert_eq!(first.shape.make_whole(&mut first.head.to_vec(), 65_536), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0..4) {
            for (to, from) in bytes.iter_mut().zip(if kind & 1 == 0 { v4(0x2000) } else { v6(1) }) {
                if kind < 2 && *to & 7 != 0 {
                    *to = from;
                }
            }
            if let Some(fragment) = Fragment::parse(&bytes) {
                let mut head = fragment.head.to_vec();
                let _ = fragment.shape.make_whole(&mut head, fragment.data.len());
            }
        }
    }
}
