//! The one walk over the headers of a frame: Ethernet, VLAN tags, MPLS labels, IPv4, IPv6 with its extension headers.
//!
//! Frames come from anywhere, so nothing in them is believed before it is checked; how much has to be true is said by a
//! [`Policy`]. [`crate::datagram`], [`crate::carrier`], [`crate::headers`], [`crate::fragment`] and [`crate::ptp`] walk
//! strictly, because what they find is measured; [`crate::locate`] walks leniently. Tunnels are not opened, and checksums are
//! not looked at. `bpf/dissect.h` does the same; this is its reference.

use std::net::IpAddr;

use crate::datagram::NotADatagram::{self, Foreign, Malformed};
use crate::ethernet::{self, EtherType};
use crate::ip::{Protocol, Version};
use crate::{ipv4, ipv6, vlan};

/// The most MPLS labels that are walked; a deeper stack is foreign.
pub const LABELS_MAX: usize = 4;
/// Bytes of a label stack entry (RFC 3032 §2.1).
const LABEL: usize = 4;

/// How much of what headers say has to be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Lengths agree with each other and with the bytes that are there, and the walk ends at a fragment.
    Strict,
    /// The first header of the packet is there. The frame may have been cut short when it was captured; the walk goes on
    /// in a first fragment.
    Lenient,
}

/// An IP packet, whichever version it is. It refers to the bytes and copies nothing: most of what it says is asked by nobody.
#[derive(Clone, Copy, Debug)]
pub struct IpPacket<'a> {
    pub(crate) header: Header<'a>,
    /// What it carries. Where one extension header too many, or one that is cut short, keeps us from looking further, that
    /// header is what it carries.
    pub protocol: Protocol,
    /// Bytes of the IP header with its options or extension headers.
    pub headers_len: usize,
    /// What follows them; walked strictly, without padding.
    pub content: &'a [u8],
    /// Whether a routing header says that the destination is not the last one, which checksums cover (RFC 8200 §8.1).
    pub is_routed: bool,
}

/// The first header of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Header<'a> {
    V4(&'a [u8; ipv4::LEN]),
    /// With the header of a fragment, where there is one.
    V6(&'a [u8; ipv6::LEN], Option<ipv6::FragmentHeader<'a>>),
}

/// Which part of a packet a fragment is (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the packet.
    pub identification: u32,
    /// Where in the packet its data begins, in bytes.
    pub offset: usize,
    /// Whether others follow.
    pub more: bool,
    /// Bytes of the headers that every fragment has, without the fragment header of IPv6.
    pub head_len: usize,
    /// Over IPv6: where in the packet the number of the fragment header lies, and what it is in a packet without one.
    pub next: Option<(usize, u8)>,
}

impl IpPacket<'_> {
    /// Where it comes from.
    #[inline]
    pub fn source(&self) -> IpAddr {
        match self.header {
            Header::V4(header) => ipv4::address(header, 3),
            Header::V6(header, _) => ipv6::address(header, 8),
        }
    }

    /// Where it goes.
    #[inline]
    pub fn destination(&self) -> IpAddr {
        match self.header {
            Header::V4(header) => ipv4::address(header, 4),
            Header::V6(header, _) => ipv6::address(header, 24),
        }
    }

    /// Time to live, or hop limit.
    #[inline]
    pub fn ttl(&self) -> u8 {
        match self.header {
            Header::V4(header) => header[8],
            Header::V6(header, _) => header[7],
        }
    }

    /// The ToS byte, or traffic class.
    #[inline]
    pub fn tos(&self) -> u8 {
        match self.header {
            Header::V4(header) => header[1],
            Header::V6(header, _) => header[0] << 4 | header[1] >> 4,
        }
    }

    /// Which part of a packet it is, where it is not all of it.
    #[inline]
    pub fn part(&self) -> Option<Part> {
        match self.header {
            Header::V4(header) => ipv4::part(header, self.headers_len),
            Header::V6(_, fragment) => fragment.map(ipv6::FragmentHeader::part),
        }
    }

    /// Whether it is only a part of a packet, as far as it was walked.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.protocol == Protocol::FRAGMENT
            || match self.header {
                Header::V4(header) => ipv4::is_fragment(header),
                Header::V6(_, fragment) => fragment.is_some(),
            }
    }
}

/// What the Ethernet header of `frame` and up to two VLAN tags say that they carry, and where that begins; `None` when it is
/// cut short before that.
#[inline(always)]
pub fn network(frame: &[u8]) -> Option<(EtherType, usize)> {
    behind_tags(frame, EtherType::read(frame, ethernet::LEN - 2)?, ethernet::LEN)
}

/// What up to two VLAN tags carry, of which the first is at `at` if `ether_type` is that of a tag, and where that begins.
#[inline(always)]
pub fn behind_tags(
    frame: &[u8],
    mut ether_type: EtherType,
    mut at: usize,
) -> Option<(EtherType, usize)> {
    for _ in 0..vlan::TAGS_MAX {
        if !matches!(ether_type, EtherType::VLAN | EtherType::SERVICE_VLAN) {
            break;
        }
        at += vlan::LEN;
        ether_type = EtherType::read(frame, at - 2)?;
    }
    Some((ether_type, at))
}

/// What stands behind a stack of MPLS labels: IP by its first digit (RFC 4928), or anything else.
///
/// # Errors
/// Where the stack is cut short, or deeper than [`LABELS_MAX`].
pub fn behind_labels(mut packet: &[u8]) -> Result<(Option<Version>, &[u8]), NotADatagram> {
    for _ in 0..LABELS_MAX {
        let (label, rest) = packet.split_first_chunk::<LABEL>().ok_or(Malformed)?;
        packet = rest;
        let is_bottom = label[2] & 1 == 1;
        if is_bottom {
            return Ok((Version::of_packet(packet), packet));
        }
    }
    Err(Foreign)
}

/// The packet of this version that begins where `bytes` do; `None` where that is not so.
///
/// Always inlined, so that what nobody asks for is never written: in memory a packet costs twice what its walk does.
#[inline(always)]
pub fn ip_packet(bytes: &[u8], version: Version, policy: Policy) -> Option<IpPacket<'_>> {
    match version {
        Version::V4 => ipv4::packet(bytes, policy),
        Version::V6 => ipv6::packet(bytes, policy),
    }
}

/// The two bytes at `at`.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_two_tags_are_skipped_and_a_third_is_not() {
        /// A service tag, a customer tag, a third tag, IPv4.
        const TAGS: [u8; 14] = [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 8, 0];
        let frame = |tags: &[u8]| [&[2; 12], tags, &[0x45]].concat();
        assert_eq!(network(&frame(&TAGS[12..])), Some((EtherType::IPV4, 14)));
        assert_eq!(network(&frame(&TAGS[8..])), Some((EtherType::IPV4, 18)));
        assert_eq!(network(&frame(&TAGS[4..])), Some((EtherType::IPV4, 22)));
        assert_eq!(network(&frame(&TAGS)), Some((EtherType::VLAN, 22)));
        let cut = frame(&TAGS[8..]);
        for len in 0..18 {
            assert!(network(&cut[..len]).is_none(), "{len} bytes");
        }
    }

    #[test]
    fn a_stack_of_labels_ends_at_its_bottom() {
        let (label, bottom) = ([0, 1, 0, 64], [0, 2, 1, 64]);
        let stack = [&label[..], &bottom, &[0x60, 7]].concat();
        assert_eq!(behind_labels(&stack), Ok((Some(Version::V6), &[0x60, 7][..])));
        assert_eq!(behind_labels(&stack[..8]), Ok((None, &[][..])));
        assert_eq!(behind_labels(&stack[..7]), Err(Malformed));
        assert_eq!(behind_labels(&label.repeat(LABELS_MAX + 1)), Err(Foreign));
    }
}
