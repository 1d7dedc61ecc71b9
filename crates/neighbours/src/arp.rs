//! ARP for Ethernet and IPv4 (RFC 826): read, written.

use std::net::Ipv4Addr;

use wirebeat_wire::ethernet::EtherType;
use wirebeat_wire::mac::MacAddr;

use crate::Ignored;
use crate::link::{Link, Writer};

/// Bytes of a packet.
pub(crate) const LEN: usize = 28;
/// Hardware Ethernet, protocol IPv4, and the lengths of their addresses.
const PREFIX: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arp {
    pub is_reply: bool,
    pub sender_mac: MacAddr,
    pub sender: Ipv4Addr,
    /// Of no meaning in a request.
    pub target_mac: MacAddr,
    pub target: Ipv4Addr,
}

impl Arp {
    /// Reads the packet at the front of `bytes`; what follows is padding.
    pub fn read(bytes: &[u8]) -> Result<Arp, Ignored> {
        let bytes: &[u8; LEN] = bytes.first_chunk().ok_or(Ignored::Malformed)?;
        let [b0, b1, b2, b3, b4, b5, op_high, op_low, rest @ ..] = *bytes;
        if [b0, b1, b2, b3, b4, b5] != PREFIX {
            return Err(Ignored::Malformed);
        }
        let is_reply = match u16::from_be_bytes([op_high, op_low]) {
            REQUEST => false,
            REPLY => true,
            _ => return Err(Ignored::Malformed),
        };
        let [a, b, c, d, e, f, s0, s1, s2, s3, g, h, i, j, k, l, t0, t1, t2, t3] = rest;
        Ok(Arp {
            is_reply,
            sender_mac: MacAddr([a, b, c, d, e, f]),
            sender: [s0, s1, s2, s3].into(),
            target_mac: MacAddr([g, h, i, j, k, l]),
            target: [t0, t1, t2, t3].into(),
        })
    }

    /// Writes a frame with it to `to`; returns its length, or `None` where `into` is shorter.
    pub fn write(&self, link: &Link, to: MacAddr, into: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::new(link, to, EtherType::ARP, into);
        let operation = if self.is_reply { REPLY } else { REQUEST };
        writer.put(&PREFIX);
        writer.put(&operation.to_be_bytes());
        writer.put(&self.sender_mac.0);
        writer.put(&self.sender.octets());
        writer.put(&self.target_mac.0);
        writer.put(&self.target.octets());
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 02:00:00:00:00:02, 10.0.0.2, asks who has 10.0.0.1.
    const BYTES: [u8; LEN] =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1];

    #[test]
    fn a_packet_is_read_and_written() {
        let arp = Arp::read(&[&BYTES[..], &[0; 18]].concat()).unwrap();
        let (sender_mac, target_mac) = (MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([0; 6]));
        let expected = Arp {
            is_reply: false,
            sender_mac,
            sender: [10, 0, 0, 2].into(),
            target_mac,
            target: [10, 0, 0, 1].into(),
        };
        assert_eq!(arp, expected);
        let mut frame = [0xee; 60];
        let link = Link { mac: sender_mac, vlan: None };
        assert_eq!(arp.write(&link, MacAddr::BROADCAST, &mut frame), Some(60));
        assert_eq!(frame[..12], [[0xff; 6], sender_mac.0].concat());
        assert_eq!((frame[14..42].to_vec(), frame[42..].to_vec()), (BYTES.to_vec(), vec![0; 18]));
    }

    #[test]
    fn other_packets_are_not_taken_for_it() {
        assert_eq!(Arp::read(&BYTES[..LEN - 1]), Err(Ignored::Malformed));
        // Hardware, protocol, lengths, operations 0, 3 and 257.
        for (at, value) in
            [(0, 1), (1, 6), (2, 0x86), (3, 1), (4, 8), (5, 16), (7, 0), (7, 3), (6, 1)]
        {
            let mut bytes = BYTES;
            bytes[at] = value;
            assert_eq!(Arp::read(&bytes), Err(Ignored::Malformed), "{value} at {at}");
        }
    }
}
