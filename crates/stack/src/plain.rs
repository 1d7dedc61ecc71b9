//! Packets that nearly all are once a session is established, read without questions that do not arise for them; and what can be fetched
//! ahead for a packet. [`Segment::read`] reads any packet, and is what this agrees with.

use std::net::{IpAddr, Ipv4Addr};

use wirebeat_wire::checksum::Sum;
use wirebeat_wire::ip::Protocol;
use wirebeat_wire::{ipv4, ipv6};

use crate::options::{Options, Timestamps};
use crate::segment::{Checksum, DONT_FRAGMENT, ECN_MASK, Flags, LEN, Segment, Tuple};
use crate::seq::Seq;

impl<'a> Segment<'a> {
    /// As [`Segment::read`], for the packets that nearly all are once a session is established: IPv4 without options, no flags but ACK
    /// and PSH, and no options but timestamps in the order that RFC 7323 appendix A recommends. `None` for all others, and for those
    /// that are refused, which [`Segment::read`] tells apart.
    #[inline(always)]
    pub(crate) fn read_plain(packet: &'a [u8], checksum: Checksum) -> Option<Segment<'a>> {
        const HEADERS: usize = ipv4::LEN + LEN;
        let header = packet.first_chunk::<HEADERS>()?;
        let word = |at: usize| {
            header
                .get(at..at + 4)
                .and_then(<[u8]>::first_chunk)
                .map_or(0, |it| u32::from_be_bytes(*it))
        };
        let (first, second, third) = (word(0), word(4), word(8));
        let flags = Flags(header[33]);
        let is_plain = first >> 24 == 0x45
            && second & 0xffff & !u32::from(DONT_FRAGMENT) == 0
            && (third >> 16) & 0xff == u32::from(Protocol::TCP.0)
            && flags.without(Flags::PSH) == Flags::ACK;
        if !is_plain {
            return None;
        }
        let content = packet.get(ipv4::LEN..(first & 0xffff) as usize)?;
        let (timestamps, payload) = match header[32] >> 4 {
            5 => (None, content.get(LEN..)?),
            8 => {
                let (options, payload) = content.get(LEN..)?.split_first_chunk()?;
                (Some(Timestamps::read(options)?), payload)
            }
            _ => return None,
        };
        let (source, destination) = (word(12), word(16));
        if Sum::of_words([first, second, third, source, destination]).checksum() != 0 {
            return None;
        }
        if checksum != Checksum::Skip {
            let numbers = u32::from(Protocol::TCP.0) + content.len() as u32;
            let pseudo = Sum::of_words([source, destination, numbers]);
            let is_partial = checksum == Checksum::VerifyOrPartial
                && u16::from_be_bytes([header[36], header[37]]) == pseudo.folded();
            if is_partial || pseudo.add_bytes(content).checksum() != 0 {
                return None;
            }
        }
        let ports = word(20);
        Some(Segment {
            tuple: Tuple {
                local: Ipv4Addr::from_bits(destination).into(),
                remote: Ipv4Addr::from_bits(source).into(),
                local_port: ports as u16,
                remote_port: (ports >> 16) as u16,
            },
            seq: Seq(word(24)),
            ack: Seq(word(28)),
            flags,
            window: u16::from_be_bytes([header[34], header[35]]),
            ecn: header[1] & ECN_MASK,
            options: Options { timestamps, ..Options::default() },
            payload,
            verified: checksum != Checksum::Skip,
        })
    }

    /// The ends of a packet of TCP over IPv4 without options or IPv6 without extension headers, seen from its receiver. Nothing else is
    /// verified: it serves to fetch ahead what a session's packet will need. What [`Segment::read`] takes has these ends.
    #[inline]
    pub(crate) fn ends(packet: &[u8]) -> Option<Tuple> {
        let (local, remote, ports): (IpAddr, IpAddr, &[u8; 4]) = match *packet.first()? {
            0x45 => {
                let (header, behind) = packet.split_first_chunk::<{ ipv4::LEN }>()?;
                let [.., protocol, _, _, r0, r1, r2, r3, l0, l1, l2, l3] = *header;
                if protocol != Protocol::TCP.0 {
                    return None;
                }
                let local = Ipv4Addr::from_bits(u32::from_be_bytes([l0, l1, l2, l3]));
                let remote = Ipv4Addr::from_bits(u32::from_be_bytes([r0, r1, r2, r3]));
                (local.into(), remote.into(), behind.first_chunk()?)
            }
            first if first >> 4 == 6 => {
                let (header, behind) = packet.split_first_chunk::<{ ipv6::LEN }>()?;
                let (_, addresses) = header.split_last_chunk::<32>()?;
                let (remote, local) = addresses.split_first_chunk::<16>()?;
                let local: &[u8; 16] = local.first_chunk()?;
                if header[6] != Protocol::TCP.0 {
                    return None;
                }
                ((*local).into(), (*remote).into(), behind.first_chunk()?)
            }
            _ => return None,
        };
        let ports = u32::from_be_bytes(*ports);
        Some(Tuple { local, remote, local_port: ports as u16, remote_port: (ports >> 16) as u16 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::options::tests::options;
    use crate::segment::tests::{packet, tuple};

    #[test]
    fn segments_of_established_sessions_are_plain() {
        let timestamps = Some(Timestamps { value: 7, echo: u32::MAX });
        let options = Options { timestamps, ..Options::default() };
        for options in [Options::default(), options] {
            for payload in [&[][..], &[1], &[7; 1400]] {
                let bytes = packet(false, options, payload);
                for checksum in [Checksum::Verify, Checksum::VerifyOrPartial, Checksum::Skip] {
                    let read = Segment::read(&bytes, checksum);
                    assert!(read.is_ok());
                    assert_eq!(Segment::read_plain(&bytes, checksum), read.ok());
                }
            }
        }
        assert_eq!(Segment::read_plain(&packet(true, options, &[]), Checksum::Skip), None);
    }

    proptest! {
        /// Of packets with some bytes changed, and checksums that are right all the same or not looked at.
        #[test]
        fn what_is_read_as_plain_is_read_as_any_packet(
            six: bool,
            options in options(),
            keeps_options: bool,
            payload in prop::collection::vec(any::<u8>(), 0..100),
            changes in prop::collection::vec((0..80_usize, any::<u8>()), 0..3),
            checksum in prop::sample::select(vec![Checksum::Verify, Checksum::VerifyOrPartial, Checksum::Skip]),
            cut in 0..9_usize,
        ) {
            let timestamps_alone = Options { timestamps: options.timestamps, ..Options::default() };
            let options = if keeps_options { options } else { timestamps_alone };
            let mut bytes = packet(six, options, &payload);
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if !six {
                bytes[10..12].fill(0);
                let sum = Sum::ZERO.add_bytes(&bytes[..20]).checksum();
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            bytes.truncate(bytes.len() - cut.saturating_sub(4));
            let read = Segment::read(&bytes, checksum);
            if let Some(plain) = Segment::read_plain(&bytes, checksum) {
                prop_assert_eq!(read, Ok(plain));
            }
            if let (Some(ends), Ok(read)) = (Segment::ends(&bytes), read) {
                prop_assert_eq!(ends, read.tuple);
            }
        }

        #[test]
        fn the_ends_of_any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..70), six: bool) {
            let _ = Segment::ends(&bytes);
            let _ = Segment::read_plain(&bytes, Checksum::Skip);
            let ends = Segment::ends(&packet(six, Options::default(), &bytes));
            prop_assert_eq!(ends, Some(tuple(six).reversed()));
        }
    }
}
