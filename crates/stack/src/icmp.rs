//! ICMP errors about segments of ours (RFC 792, RFC 4443), read out of bytes that come from anywhere.
//!
//! Nothing here knows sessions: whether the quoted segment is under way is asked by [`crate::Stack::receive_icmp`]. Redirects,
//! source quench (RFC 6633) and messages that are no errors are foreign here.

use wirebeat_wire::checksum::Sum;
use wirebeat_wire::ip::{Protocol, Version};
use wirebeat_wire::walk::{self, Policy};
use wirebeat_wire::{ipv4, ipv6};

use crate::segment::{Refused, Tuple};
use crate::seq::Seq;

/// Bytes of a message before the packet that it quotes.
const HEADER: usize = 8;
/// Bytes of TCP that have to be quoted: ports and sequence number (RFC 792 has at least these).
const QUOTED: usize = 8;
/// Sizes of packets that are in use (RFC 1191 §7.1), for routers that do not tell theirs.
const PLATEAUS: [u32; 7] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006];

/// What an error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The packet is larger than a link takes, which takes `mtu` bytes.
    TooBig { mtu: u32 },
    /// There is no such port or protocol: trying again does not help (RFC 1122 §4.2.3.9).
    Hard,
    /// The path fails at present, or somebody forbids it.
    Soft,
}

/// An error, and the segment that it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcmpError {
    pub problem: Problem,
    /// The ends of the quoted segment, seen from its sender.
    pub tuple: Tuple,
    /// Its first sequence number.
    pub seq: Seq,
    /// The length of its packet, as its IP header has it.
    pub packet_len: u32,
}

/// What `kind` and `code` of IPv4 say (RFC 792, RFC 1191 §4); `word` is the last half of the header.
fn problem_v4(kind: u8, code: u8, mtu: u16, quoted_len: u32) -> Option<Problem> {
    Some(match (kind, code) {
        (3, 2 | 3) => Problem::Hard,
        (3, 4) if mtu == 0 => {
            // RFC 1191 §5: a router that is older than that.
            let below = PLATEAUS.into_iter().find(|plateau| *plateau < quoted_len);
            Problem::TooBig { mtu: below.unwrap_or(0) }
        }
        (3, 4) => Problem::TooBig { mtu: mtu.into() },
        (3, 0..=15) | (11 | 12, _) => Problem::Soft,
        _ => return None,
    })
}

/// What `kind` and `code` of IPv6 say (RFC 4443 §3).
fn problem_v6(kind: u8, code: u8, mtu: u32) -> Option<Problem> {
    Some(match (kind, code) {
        // No such port, and no such next header.
        (1, 4) | (4, 1) => Problem::Hard,
        (2, _) => Problem::TooBig { mtu },
        (1 | 3 | 4, _) => Problem::Soft,
        _ => return None,
    })
}

impl IcmpError {
    /// Reads the packet, which begins with its IP header.
    ///
    /// # Errors
    /// Where it is no error about a segment, cut short before the segment's sequence number, or has a wrong checksum. A quoted
    /// fragment is foreign: what is sent here is not cut.
    pub fn read(packet: &[u8]) -> Result<IcmpError, Refused> {
        let version = Version::of_packet(packet).ok_or(Refused::Malformed)?;
        let ip = walk::ip_packet(packet, version, Policy::Strict).ok_or(Refused::Malformed)?;
        let (protocol, pseudo) = match version {
            Version::V4 => (Protocol::ICMP, Some(Sum::ZERO)),
            Version::V6 => {
                let len = ip.content.len() as u32;
                let pseudo = Sum::pseudo(ip.source(), ip.destination(), Protocol::ICMPV6, len);
                (Protocol::ICMPV6, pseudo)
            }
        };
        if ip.protocol != protocol || ip.is_fragment() || ip.is_routed {
            return Err(Refused::Foreign);
        }
        if pseudo.ok_or(Refused::Malformed)?.add_bytes(ip.content).checksum() != 0 {
            return Err(Refused::Checksum);
        }
        let (header, quote) = ip.content.split_first_chunk::<HEADER>().ok_or(Refused::Malformed)?;
        let [kind, code, _, _, m0, m1, m2, m3] = *header;
        let quoted_len = match (version, quote) {
            (Version::V4, [_, _, l0, l1, ..]) => u32::from(u16::from_be_bytes([*l0, *l1])),
            (Version::V6, [_, _, _, _, l0, l1, ..]) => {
                u32::from(u16::from_be_bytes([*l0, *l1])) + ipv6::LEN as u32
            }
            _ => 0,
        };
        let problem = match version {
            Version::V4 => problem_v4(kind, code, u16::from_be_bytes([m2, m3]), quoted_len),
            Version::V6 => problem_v6(kind, code, u32::from_be_bytes([m0, m1, m2, m3])),
        };
        let problem = problem.ok_or(Refused::Foreign)?;
        let quoted = walk::ip_packet(quote, version, Policy::Lenient).ok_or(Refused::Malformed)?;
        if quoted.protocol != Protocol::TCP || quoted.is_fragment() || quoted.is_routed {
            return Err(Refused::Foreign);
        }
        let segment = quoted.content.first_chunk::<QUOTED>().ok_or(Refused::Malformed)?;
        // An error goes to who sent the packet.
        let least = (quoted.headers_len + QUOTED).max(ipv4::LEN) as u32;
        if quoted.source() != ip.destination() || quoted_len < least {
            return Err(Refused::Malformed);
        }
        let [s0, s1, d0, d1, q0, q1, q2, q3] = *segment;
        let tuple = Tuple {
            local: quoted.source(),
            remote: quoted.destination(),
            local_port: u16::from_be_bytes([s0, s1]),
            remote_port: u16::from_be_bytes([d0, d1]),
        };
        let seq = Seq(u32::from_be_bytes([q0, q1, q2, q3]));
        Ok(IcmpError { problem, tuple, seq, packet_len: quoted_len })
    }
}

#[cfg(test)]
pub mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::options::Options;
    use crate::segment::{Flags, Outgoing};

    /// The error that a router at the destination's address sends about `packet`, which it quotes up to `quoted` bytes. `word` is
    /// the second half of the header, in which an MTU stands.
    pub fn error(packet: &[u8], kind: u8, code: u8, word: u32, quoted: usize) -> Vec<u8> {
        let version = Version::of_packet(packet).unwrap();
        let ip = walk::ip_packet(packet, version, Policy::Lenient).unwrap();
        let (to, from) = (ip.source(), ip.destination());
        let mut message = vec![kind, code, 0, 0];
        message.extend(word.to_be_bytes());
        message.extend(&packet[..packet.len().min(quoted)]);
        let len = message.len() as u32;
        let sum = match version {
            Version::V4 => Sum::ZERO,
            Version::V6 => Sum::pseudo(from, to, Protocol::ICMPV6, len).unwrap(),
        };
        let sum = sum.add_bytes(&message).checksum().to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        let mut bytes = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0];
                header[2..4].copy_from_slice(&(len as u16 + 20).to_be_bytes());
                header.extend(from.octets().into_iter().chain(to.octets()));
                let sum = wirebeat_wire::checksum::checksum(&header).to_be_bytes();
                header[10..12].copy_from_slice(&sum);
                header
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut header = vec![0x60, 0, 0, 0, 0, 0, 58, 64];
                header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
                header.extend(from.octets().into_iter().chain(to.octets()));
                header
            }
            _ => panic!("two versions"),
        };
        bytes.extend(message);
        bytes
    }

    fn segment(six: bool, payload_len: u16) -> (Tuple, Vec<u8>) {
        let (local, remote): (IpAddr, IpAddr) = match six {
            false => ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            true => ([0xfd; 16].into(), [0x20; 16].into()),
        };
        let tuple = Tuple { local, remote, local_port: 40_000, remote_port: 80 };
        let outgoing = Outgoing {
            tuple,
            seq: Seq(0x0102_0304),
            ack: Seq(0),
            flags: Flags::ACK,
            window: 1,
            options: Options::default(),
            payload_len,
            tos: 0,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
        };
        let mut packet = vec![0; outgoing.packet_len()];
        assert!(outgoing.write(&mut packet, |_| ()));
        (tuple, packet)
    }

    /// A message written by hand and summed with a calculator (RFC 792): 10.0.0.2 has no port 80.
    #[test]
    fn a_message_is_the_bytes_of_the_rfc() {
        let bytes = [
            &[0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0x66, 0xc3, 10, 0, 0, 2, 10, 0, 0, 1][..],
            &[3, 3, 0x5c, 0x66, 0, 0, 0, 0],
            &[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0x26, 0xce, 10, 0, 0, 1, 10, 0, 0, 2],
            &[0x9c, 0x40, 0, 80, 1, 2, 3, 4],
        ];
        let read = IcmpError::read(&bytes.concat()).unwrap();
        assert_eq!((read.problem, read.tuple), (Problem::Hard, segment(false, 0).0));
        assert_eq!((read.seq, read.packet_len), (Seq(0x0102_0304), 40));
    }

    #[test]
    fn kinds_and_codes_are_told_apart() {
        use Problem::{Hard, Soft, TooBig};
        for (kind, code, word, expected) in [
            (3, 0, 0, Some(Soft)),
            (3, 1, 0, Some(Soft)),
            (3, 2, 0, Some(Hard)),
            (3, 3, 0, Some(Hard)),
            (3, 4, 1400, Some(TooBig { mtu: 1400 })),
            // RFC 1191 §7.1: the next plateau below 1,500.
            (3, 4, 0, Some(TooBig { mtu: 1492 })),
            (3, 13, 0, Some(Soft)),
            (3, 16, 0, None),
            (4, 0, 0, None),
            (5, 1, 0, None),
            (8, 0, 0, None),
            (11, 0, 0, Some(Soft)),
        ] {
            let (_, packet) = segment(false, 1460);
            let read = IcmpError::read(&error(&packet, kind, code, word, 28));
            assert_eq!(read.map(|read| read.problem).ok(), expected, "{kind} {code}");
        }
        for (kind, code, word, expected) in [
            (1, 0, 0, Some(Soft)),
            (1, 1, 0, Some(Soft)),
            (1, 4, 0, Some(Hard)),
            (2, 0, 1280, Some(TooBig { mtu: 1280 })),
            (3, 0, 0, Some(Soft)),
            (4, 0, 0, Some(Soft)),
            (4, 1, 6, Some(Hard)),
            (128, 0, 0, None),
        ] {
            let (_, packet) = segment(true, 1440);
            let read = IcmpError::read(&error(&packet, kind, code, word, 1232));
            assert_eq!(read.map(|read| read.problem).ok(), expected, "{kind} {code}");
        }
    }

    #[test]
    fn quotes_that_are_short_or_of_others_are_refused() {
        for six in [false, true] {
            let (kind, code) = if six { (1, 4) } else { (3, 3) };
            let headers = if six { 40 } else { 20 };
            let (_, packet) = segment(six, 100);
            for quoted in 0..headers + QUOTED {
                let read = IcmpError::read(&error(&packet, kind, code, 0, quoted));
                assert_eq!(read, Err(Refused::Malformed), "{quoted} bytes");
            }
            assert!(IcmpError::read(&error(&packet, kind, code, 0, headers + QUOTED)).is_ok());
            // To somebody else than who sent the segment.
            let mut other = error(&packet, kind, code, 0, 200);
            let last = headers - 1;
            other[last] ^= 1;
            let refused = if six { Refused::Checksum } else { Refused::Malformed };
            assert_eq!(IcmpError::read(&other), Err(refused));
        }
        let (_, mut packet) = segment(false, 100);
        packet[9] = 17;
        assert_eq!(IcmpError::read(&error(&packet, 3, 3, 0, 28)), Err(Refused::Foreign), "UDP");
        packet[9] = 6;
        packet[7] = 1;
        assert_eq!(
            IcmpError::read(&error(&packet, 3, 3, 0, 28)),
            Err(Refused::Foreign),
            "fragment"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_and_any_damage_make_no_trouble(
            six: bool, kind: u8, code: u8, word: u32, quoted in 0..140_usize,
            bit: prop::sample::Index, any: Vec<u8>,
        ) {
            let (_, packet) = segment(six, 80);
            let mut message = error(&packet, kind, code, word, quoted);
            let _ = IcmpError::read(&message);
            let from = if six { 40 } else { 20 };
            let at = from * 8 + bit.index((message.len() - from) * 8);
            message[at / 8] ^= 1 << (at % 8);
            prop_assert_eq!(IcmpError::read(&message), Err(Refused::Checksum));
            let _ = IcmpError::read(&message[..bit.index(message.len())]);
            let _ = IcmpError::read(&any);
        }
    }
}
