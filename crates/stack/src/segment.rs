//! Segments in their IP packets: read out of bytes that come from anywhere, and written into a buffer of the embedder.
//!
//! A packet begins with its IP header; Ethernet and what stands before IP are the embedder's. Headers of IP are walked by the
//! crate `wire`. Nothing here knows sessions.

use std::net::IpAddr;

use wirebeat_wire::checksum::{self, Sum, fold};
use wirebeat_wire::ip::{Protocol, Version};
use wirebeat_wire::walk::{self, Policy};
use wirebeat_wire::{ipv4, ipv6};

use crate::options::Options;
use crate::seq::Seq;

/// Bytes of a header without options (RFC 9293 §3.1).
pub const LEN: usize = 20;
/// Hop limit and time to live, where nothing else is asked for (RFC 1700's default).
pub const TTL: u8 = 64;
/// Don't fragment, in the word of IPv4 that has the flags (RFC 791 §3.1).
pub(crate) const DONT_FRAGMENT: u16 = 0x4000;

/// Control bits and the two of ECN (RFC 9293 §3.1, RFC 3168 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment number counts.
    pub const ACK: Flags = Flags(0x10);
    /// ECN echo.
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x80);

    /// These and `other`.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These without `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// Whether all of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Both ends of a connection, seen from one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// This end.
    pub local: IpAddr,
    /// The other end, of the same version of IP.
    pub remote: IpAddr,
    /// The port of this end.
    pub local_port: u16,
    /// The port of the other end.
    pub remote_port: u16,
}

impl Tuple {
    /// The version of IP; that of the local address.
    #[inline]
    pub fn version(&self) -> Version {
        Version::of(self.local)
    }

    /// Seen from the other end.
    #[must_use]
    pub fn reversed(&self) -> Tuple {
        Tuple {
            local: self.remote,
            remote: self.local,
            local_port: self.remote_port,
            remote_port: self.local_port,
        }
    }
}

/// Congestion as the IP header tells it (RFC 3168 §5): not ECN-capable, ECT(1), ECT(0), CE.
pub const ECN_MASK: u8 = 0x03;
/// ECN-capable transport, codepoint 0.
pub const ECN_ECT0: u8 = 0x02;
/// Congestion experienced.
pub const ECN_CE: u8 = 0x03;

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its ends, seen from its receiver: `local` is where it goes.
    pub tuple: Tuple,
    /// Its first sequence number.
    pub seq: Seq,
    /// The acknowledgment number, which counts only with [`Flags::ACK`].
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// The window as it stands in the header, not shifted.
    pub window: u16,
    /// The two bits of the IP header that tell of congestion.
    pub ecn: u8,
    /// Options.
    pub options: Options,
    /// Data.
    pub payload: &'a [u8],
    /// Whether its checksum was verified.
    pub verified: bool,
}

/// Whether the checksum of a packet is to be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It is there: a packet with a wrong one is refused.
    Verify,
    /// As [`Checksum::Verify`], unless it is the sum of the pseudo-header alone, as a kernel leaves it to its card: a virtual
    /// link has none, and its packets arrive like that.
    VerifyOrPartial,
    /// It is not there yet, as in what a local kernel sends over a virtual link, or was verified by the card.
    Skip,
}

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not TCP, or a fragment.
    Foreign,
    /// Cut short, or with lengths that contradict each other.
    Malformed,
    /// The checksum is wrong.
    Checksum,
}

impl<'a> Segment<'a> {
    /// Reads the packet, which begins with its IP header; what follows the packet is padding.
    ///
    /// # Errors
    /// Where it is something else, damaged, or has a wrong checksum. A destination that a routing header changes is foreign.
    pub fn read(packet: &'a [u8], checksum: Checksum) -> Result<Segment<'a>, Refused> {
        // One after the other, so that what each version has is known below.
        match Version::of_packet(packet) {
            Some(Version::V4) => Segment::in_packet(packet, Version::V4, checksum),
            Some(Version::V6) => Segment::in_packet(packet, Version::V6, checksum),
            None => Err(Refused::Malformed),
        }
    }

    #[inline(always)]
    fn in_packet(
        packet: &'a [u8],
        version: Version,
        checksum: Checksum,
    ) -> Result<Segment<'a>, Refused> {
        let ip = walk::ip_packet(packet, version, Policy::Strict).ok_or(Refused::Malformed)?;
        // Nobody leaves this one to a card (RFC 1122 §3.2.1.2).
        if version == Version::V4
            && packet.get(..ip.headers_len).is_some_and(|header| checksum::checksum(header) != 0)
        {
            return Err(Refused::Checksum);
        }
        if ip.protocol != Protocol::TCP || ip.is_fragment() || ip.is_routed {
            return Err(Refused::Foreign);
        }
        let (header, behind) = ip.content.split_first_chunk::<LEN>().ok_or(Refused::Malformed)?;
        let (source, destination) = (ip.source(), ip.destination());
        let mut verified = false;
        if checksum != Checksum::Skip {
            let pseudo = Sum::pseudo(source, destination, Protocol::TCP, ip.content.len() as u32);
            let pseudo = pseudo.ok_or(Refused::Malformed)?;
            let [c0, c1] = [header[16], header[17]];
            // what Linux leaves there for CHECKSUM_PARTIAL (include/linux/skbuff.h): the sum of the pseudo-header, not inverted
            let is_partial = checksum == Checksum::VerifyOrPartial
                && u16::from_be_bytes([c0, c1]) == pseudo.folded();
            verified = !is_partial;
            if verified && pseudo.add_bytes(ip.content).checksum() != 0 {
                return Err(Refused::Checksum);
            }
        }
        let options_len =
            (usize::from(header[12] >> 4) * 4).checked_sub(LEN).ok_or(Refused::Malformed)?;
        let (options, payload) = behind.split_at_checked(options_len).ok_or(Refused::Malformed)?;
        let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, _, flags, w0, w1, ..] = *header;
        Ok(Segment {
            tuple: Tuple {
                local: destination,
                remote: source,
                local_port: u16::from_be_bytes([d0, d1]),
                remote_port: u16::from_be_bytes([s0, s1]),
            },
            seq: Seq(u32::from_be_bytes([q0, q1, q2, q3])),
            ack: Seq(u32::from_be_bytes([a0, a1, a2, a3])),
            flags: Flags(flags),
            window: u16::from_be_bytes([w0, w1]),
            ecn: ip.tos() & ECN_MASK,
            options: if options.is_empty() { Options::default() } else { Options::read(options) },
            payload,
            verified,
        })
    }

    /// How many sequence numbers it takes: its data, and one each for SYN and FIN.
    #[inline]
    pub fn seq_len(&self) -> u32 {
        let control = u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN));
        self.payload.len() as u32 + control
    }

    /// The number behind its last one.
    #[inline]
    pub fn end(&self) -> Seq {
        self.seq.plus(self.seq_len())
    }
}

/// What the checksum of a segment that is written covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summed {
    /// All: it is complete.
    All,
    /// The pseudo header, for the packet as long as it is, and not complemented: a kernel or a card sums the rest.
    PseudoHeader,
}

/// A segment to be written.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Its ends, seen from its sender: `remote` is where it goes.
    pub tuple: Tuple,
    /// Its first sequence number.
    pub seq: Seq,
    /// The acknowledgment number; 0 without [`Flags::ACK`].
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// The window, shifted already.
    pub window: u16,
    /// Options.
    pub options: Options,
    /// Bytes of data.
    pub payload_len: u16,
    /// The ToS byte, or traffic class, with the bits of ECN.
    pub tos: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The identification of an IPv4 packet. Of one that may not be fragmented any number will do (RFC 6864 §4.1).
    pub identification: u16,
    /// Whether an IPv4 packet may not be fragmented (DF).
    pub dont_fragment: bool,
}

impl Outgoing {
    /// The length of the packet, from its IP header on.
    #[inline]
    pub fn packet_len(&self) -> usize {
        let ip = if self.tuple.local.is_ipv4() { ipv4::LEN } else { ipv6::LEN };
        ip + LEN + self.options.len() + usize::from(self.payload_len)
    }

    /// Bytes of all headers, from that of IP to the end of TCP's options.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.packet_len() - usize::from(self.payload_len)
    }

    /// Writes the packet into `into`, which has [`Outgoing::packet_len`] bytes; `payload` writes the data. `false`, and a packet
    /// that may not be sent, where `into` is shorter or the addresses are of two versions.
    #[inline]
    pub fn write(&self, into: &mut [u8], payload: impl FnOnce(&mut [u8])) -> bool {
        self.write_summed(into, Summed::All, payload)
    }

    /// As [`Outgoing::write`], with as much of the checksum as `summed` says.
    ///
    /// Always inlined: who writes knows the version and the options, and what he knows is not asked for.
    #[inline(always)]
    pub fn write_summed(
        &self,
        into: &mut [u8],
        summed: Summed,
        payload: impl FnOnce(&mut [u8]),
    ) -> bool {
        let content_len = LEN + self.options.len() + usize::from(self.payload_len);
        let content = match (self.tuple.local, self.tuple.remote) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let Some((header, content)) = into.split_first_chunk_mut::<{ ipv4::LEN }>() else {
                    return false;
                };
                let [l0, l1] = ((ipv4::LEN + content_len) as u16).to_be_bytes();
                let [i0, i1] = self.identification.to_be_bytes();
                let ([a, b, c, d], [e, f, g, h]) = (source.octets(), destination.octets());
                let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
                let [f0, f1] = flags.to_be_bytes();
                *header = [
                    0x45,
                    self.tos,
                    l0,
                    l1,
                    i0,
                    i1,
                    f0,
                    f1,
                    self.ttl,
                    Protocol::TCP.0,
                    0,
                    0,
                    a,
                    b,
                    c,
                    d,
                    e,
                    f,
                    g,
                    h,
                ];
                // The words of the header as numbers: next to nothing to sum.
                let fixed =
                    u64::from(flags) + (u64::from(self.ttl) << 8 | u64::from(Protocol::TCP.0));
                let own = (0x4500 | u64::from(self.tos)) + (ipv4::LEN + content_len) as u64;
                let ends = u64::from(source.to_bits()) + u64::from(destination.to_bits());
                let sum = fold(fixed + own + u64::from(self.identification) + ends);
                let [c0, c1] = (!sum).to_be_bytes();
                (header[10], header[11]) = (c0, c1);
                content
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let Some((header, content)) = into.split_first_chunk_mut::<{ ipv6::LEN }>() else {
                    return false;
                };
                let [l0, l1] = (content_len as u16).to_be_bytes();
                let (first, addresses) = header.split_at_mut(8);
                first.copy_from_slice(&[
                    0x60 | self.tos >> 4,
                    self.tos << 4,
                    0,
                    0,
                    l0,
                    l1,
                    Protocol::TCP.0,
                    self.ttl,
                ]);
                let (from, to) = addresses.split_at_mut(16);
                from.copy_from_slice(&source.octets());
                to.copy_from_slice(&destination.octets());
                content
            }
            _ => return false,
        };
        let Some(content) = content.get_mut(..content_len) else { return false };
        let Some((header, behind)) = content.split_first_chunk_mut::<LEN>() else { return false };
        let ([s0, s1], [d0, d1]) =
            (self.tuple.local_port.to_be_bytes(), self.tuple.remote_port.to_be_bytes());
        let ([q0, q1, q2, q3], [a0, a1, a2, a3]) =
            (self.seq.0.to_be_bytes(), self.ack.0.to_be_bytes());
        let offset = (((LEN + self.options.len()) / 4) as u8) << 4;
        let [w0, w1] = self.window.to_be_bytes();
        *header = [
            s0,
            s1,
            d0,
            d1,
            q0,
            q1,
            q2,
            q3,
            a0,
            a1,
            a2,
            a3,
            offset,
            self.flags.0,
            w0,
            w1,
            0,
            0,
            0,
            0,
        ];
        let (options, data) = behind.split_at_mut(self.options.len());
        self.options.write(options);
        if !data.is_empty() {
            payload(data);
        }
        let pseudo =
            Sum::pseudo(self.tuple.local, self.tuple.remote, Protocol::TCP, content_len as u32);
        let Some(pseudo) = pseudo else { return false };
        let sum = match summed {
            Summed::All => {
                // As numbers: read back from memory they would have to wait until they are there.
                let (from, to) = (self.tuple.local_port.into(), self.tuple.remote_port.into());
                let rest = [offset, self.flags.0, w0, w1];
                let fields = [from, to, self.seq.0, self.ack.0, u32::from_be_bytes(rest)];
                let fields = Sum::of_words(fields).add_sum(self.options.sum(options));
                !pseudo.add_sum(fields).add_bytes(data).folded()
            }
            Summed::PseudoHeader => pseudo.folded(),
        };
        let [c0, c1] = sum.to_be_bytes();
        (header[16], header[17]) = (c0, c1);
        true
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::options::tests::options;

    pub fn tuple(six: bool) -> Tuple {
        let (local, remote): (IpAddr, IpAddr) = match six {
            false => ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            true => ([0xfd; 16].into(), [0x20; 16].into()),
        };
        Tuple { local, remote, local_port: 40_000, remote_port: 80 }
    }

    pub fn packet(six: bool, options: Options, payload: &[u8]) -> Vec<u8> {
        let outgoing = Outgoing {
            tuple: tuple(six),
            seq: Seq(0x0102_0304),
            ack: Seq(0x0506_0708),
            flags: Flags::ACK.with(Flags::PSH),
            window: 0x0a0b,
            options,
            payload_len: payload.len() as u16,
            tos: 0xb9,
            ttl: 64,
            identification: 7,
            dont_fragment: true,
        };
        let mut bytes = vec![0xee; outgoing.packet_len()];
        assert!(outgoing.write(&mut bytes, |into| into.copy_from_slice(payload)));
        bytes
    }

    /// A segment written by hand and summed with a calculator (RFC 1071), not by this crate.
    #[test]
    fn a_segment_is_the_bytes_of_the_rfc() {
        let bytes = packet(false, Options::default(), b"hi");
        let header =
            [0x45, 0xb9, 0, 42, 0, 7, 0x40, 0, 64, 6, 0x26, 0x0c, 10, 0, 0, 1, 10, 0, 0, 2];
        let tcp = [0x9c, 0x40, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x18, 0x0a, 0x0b];
        assert_eq!(bytes[..20], header);
        assert_eq!(bytes[20..36], tcp);
        assert_eq!(bytes[38..], *b"\0\0hi");
        let words: u32 = [0x0a00, 0x0001, 0x0a00, 0x0002, 6, 22, 0x6869].iter().sum::<u32>()
            + tcp.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum::<u32>();
        let sum = (words >> 16) + (words & 0xffff);
        assert_eq!(u32::from(bytes[36]) << 8 | u32::from(bytes[37]), !sum & 0xffff);
    }

    #[test]
    fn packets_may_be_fragmented_where_that_is_asked_for() {
        let mut outgoing = Outgoing {
            tuple: tuple(false),
            seq: Seq(1),
            ack: Seq(0),
            flags: Flags::SYN,
            window: 0,
            options: Options::default(),
            payload_len: 0,
            tos: 0,
            ttl: TTL,
            identification: 0x1234,
            dont_fragment: true,
        };
        for (dont_fragment, flags) in [(true, 0x40), (false, 0)] {
            outgoing.dont_fragment = dont_fragment;
            let mut bytes = [0; 40];
            assert!(outgoing.write(&mut bytes, |_| ()));
            assert_eq!(bytes[4..8], [0x12, 0x34, flags, 0]);
            assert_eq!(Sum::default().add_bytes(&bytes[..20]).checksum(), 0, "{bytes:x?}");
            assert!(Segment::read(&bytes, Checksum::Verify).is_ok());
        }
    }

    #[test]
    fn addresses_of_two_versions_and_short_buffers_are_refused() {
        let mut outgoing = Outgoing {
            tuple: tuple(false),
            seq: Seq(0),
            ack: Seq(0),
            flags: Flags::SYN,
            window: 0,
            options: Options::default(),
            payload_len: 0,
            tos: 0,
            ttl: TTL,
            identification: 0,
            dont_fragment: true,
        };
        for len in 0..40 {
            assert!(!outgoing.write(&mut vec![0; len], |_| ()), "{len}");
        }
        outgoing.tuple.remote = [1; 16].into();
        assert!(!outgoing.write(&mut [0; 100], |_| ()));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            six: bool,
            options in options(),
            payload in prop::collection::vec(any::<u8>(), 0..100),
            padding in 0..9_usize,
        ) {
            let mut bytes = packet(six, options, &payload);
            bytes.resize(bytes.len() + padding, 0);
            let segment = Segment::read(&bytes, Checksum::Verify);
            let expected = Segment {
                tuple: tuple(six).reversed(),
                seq: Seq(0x0102_0304),
                ack: Seq(0x0506_0708),
                flags: Flags(0x18),
                window: 0x0a0b,
                ecn: 1,
                options,
                payload: &payload,
                verified: true,
            };
            prop_assert_eq!(segment, Ok(expected));
            prop_assert_eq!(Segment::read(&bytes, Checksum::VerifyOrPartial), Ok(expected));
        }

        #[test]
        fn a_checksum_that_is_left_to_a_card_is_not_wrong(six: bool, payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut bytes = packet(six, Options::default(), &payload);
            let ip = if six { ipv6::LEN } else { ipv4::LEN };
            let len = (bytes.len() - ip) as u32;
            let ends = tuple(six);
            let pseudo = Sum::pseudo(ends.local, ends.remote, Protocol::TCP, len).unwrap();
            let partial = !pseudo.checksum();
            bytes[ip + 16..ip + 18].copy_from_slice(&partial.to_be_bytes());
            let segment = Segment::read(&bytes, Checksum::VerifyOrPartial).unwrap();
            prop_assert_eq!((segment.verified, segment.payload), (false, &payload[..]));
            prop_assert_eq!(Segment::read(&bytes, Checksum::Verify), Err(Refused::Checksum));
            bytes[ip + 16] ^= 1;
            prop_assert_eq!(Segment::read(&bytes, Checksum::VerifyOrPartial), Err(Refused::Checksum));
        }

        /// One bit that is wrong in the TCP part is found, and damage anywhere makes no trouble.
        #[test]
        fn damage_is_found(six: bool, options in options(), bit: prop::sample::Index, cut: prop::sample::Index, any: Vec<u8>) {
            let bytes = packet(six, options, &[7; 30]);
            let ip = if six { 40 } else { 20 };
            let mut damaged = bytes.clone();
            let at = ip * 8 + bit.index((bytes.len() - ip) * 8);
            damaged[at / 8] ^= 1 << (at % 8);
            prop_assert_eq!(Segment::read(&damaged, Checksum::Verify), Err(Refused::Checksum));
            let _ = Segment::read(&damaged, Checksum::Skip);
            prop_assert_eq!(Segment::read(&bytes[..cut.index(bytes.len())], Checksum::Skip), Err(Refused::Malformed));
            let _ = Segment::read(&any, Checksum::Skip);
        }
    }
}
