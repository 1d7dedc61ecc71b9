//! What the kernel says beside a datagram: when it came, to which address, and how long each of several joined ones is.
//!
//! Reads the control data of recvmsg(2) (cmsg(3)); pure.

use std::mem::offset_of;
use std::net::IpAddr;

use crate::control_messages::{self, timespec};

/// Bytes of control data that a datagram can have: two timestamps, a segment size and an address, each with a header.
pub(super) const LEN: usize = 160;

/// What was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    /// When it came: nanoseconds of `CLOCK_REALTIME`.
    pub(super) realtime: Option<u64>,
    /// When it came by the card's clock, where the card stamped it.
    pub(super) card: Option<u64>,
    /// Bytes of each datagram but the last, where several are joined.
    pub(super) segment: Option<usize>,
    /// The address that it was sent to, where that was asked for.
    pub(super) destination: Option<IpAddr>,
}

impl Control {
    /// Reads control data; ends at what makes no sense.
    pub(super) fn parse(bytes: &[u8]) -> Control {
        let mut control = Control::default();
        for (level, kind, data) in control_messages::iter(bytes) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => control.realtime = timespec(data),
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    control.card = control_messages::card_stamp(data);
                }
                (libc::SOL_UDP, libc::UDP_GRO) => control.segment = segment(data),
                (libc::SOL_IP, libc::IP_PKTINFO) => {
                    let at = offset_of!(libc::in_pktinfo, ipi_addr);
                    control.destination = address::<4>(data, at);
                }
                (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                    let at = offset_of!(libc::in6_pktinfo, ipi6_addr);
                    control.destination = address::<16>(data, at);
                }
                _ => {}
            }
        }
        control
    }
}

fn segment(data: &[u8]) -> Option<usize> {
    let size = libc::c_int::from_ne_bytes(*data.first_chunk()?);
    usize::try_from(size).ok().filter(|&size| size > 0)
}

fn address<const N: usize>(data: &[u8], at: usize) -> Option<IpAddr>
where
    IpAddr: From<[u8; N]>,
{
    Some(IpAddr::from(*data.get(at..)?.first_chunk::<N>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_messages::{HEADER, message};

    fn time(seconds: i64, nanoseconds: i64) -> Vec<u8> {
        let data = [seconds.to_ne_bytes(), nanoseconds.to_ne_bytes()].concat();
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &data)
    }

    fn joined(size: i32) -> Vec<u8> {
        message(libc::SOL_UDP, libc::UDP_GRO, &size.to_ne_bytes())
    }

    #[test]
    fn time_and_segment_size_are_found_in_any_order() {
        let expected = Control {
            realtime: Some(1_800_000_000_999_999_999),
            segment: Some(18),
            ..Control::default()
        };
        let time = time(1_800_000_000, 999_999_999);
        let other = message(libc::SOL_IP, libc::IP_TTL, &[0; 4]);
        for parts in [[&time, &joined(18), &other], [&other, &joined(18), &time]] {
            let bytes = parts.map(Vec::as_slice).concat();
            assert_eq!(Control::parse(&bytes), expected);
        }
        let info = message(libc::SOL_IPV6, libc::IPV6_PKTINFO, &[0; 20]);
        let card = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &[0; 48]);
        assert!(time.len() + card.len() + joined(18).len() + info.len() <= LEN);
    }

    #[test]
    fn the_address_that_a_datagram_was_sent_to_is_found() {
        let v4 = [[7, 0, 0, 0], [10, 0, 0, 1], [10, 0, 0, 2]].concat();
        let v4 = message(libc::SOL_IP, libc::IP_PKTINFO, &v4);
        assert_eq!(Control::parse(&v4).destination, Some([10, 0, 0, 2].into()));
        let v6 = [&[0xfe; 16][..], &[7, 0, 0, 0]].concat();
        let v6 = message(libc::SOL_IPV6, libc::IPV6_PKTINFO, &v6);
        assert_eq!(Control::parse(&v6).destination, Some([0xfe; 16].into()));
        let short = message(libc::SOL_IP, libc::IP_PKTINFO, &[0; 11]);
        assert_eq!(Control::parse(&short).destination, None);
    }

    #[test]
    fn what_is_absent_is_absent() {
        assert_eq!(Control::parse(&[]), Control::default());
        assert_eq!(Control::parse(&[0; LEN]), Control::default());
    }

    #[test]
    fn nonsense_is_ignored() {
        assert_eq!(Control::parse(&time(-1, 0)), Control::default());
        assert_eq!(Control::parse(&time(i64::MAX, 0)), Control::default());
        assert_eq!(Control::parse(&joined(0)), Control::default());
        assert_eq!(Control::parse(&joined(-18)), Control::default());
        for len in [0, 1, HEADER - 1, HEADER + 17, 1_000, usize::MAX] {
            let mut bytes = time(1, 1);
            bytes[..8].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(Control::parse(&bytes), Control::default(), "length {len}");
        }
        for cut in 0..time(1, 1).len() {
            assert_eq!(Control::parse(&time(1, 1)[..cut]), Control::default(), "cut at {cut}");
        }
    }
}
