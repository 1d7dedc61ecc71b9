//! pcap (draft-ietf-opsawg-pcap): a header of 24 bytes, and one of 16 before each frame. In the byte order of
//! whoever wrote it; the first four bytes say which, and whether times are in microseconds or nanoseconds.

use super::frames::{Endianness, Found, Head, Links};
use super::{Defect, FRAME_MAX, LinkType};

/// Bytes of the header of the file.
pub const HEADER: usize = 24;
/// Bytes of the header of a frame.
pub const FRAME_HEADER: usize = 16;

/// What the header of the file says.
#[derive(Clone, Copy, Debug)]
pub struct Pcap {
    order: Endianness,
    nanoseconds: bool,
    pub links: Links,
}

impl Pcap {
    /// Whether it begins so, and in which byte order and unit of time.
    pub fn magic(bytes: &[u8]) -> Option<(Endianness, bool)> {
        match bytes.first_chunk()? {
            [0xa1, 0xb2, 0xc3, 0xd4] => Some((Endianness::Big, false)),
            [0xd4, 0xc3, 0xb2, 0xa1] => Some((Endianness::Little, false)),
            [0xa1, 0xb2, 0x3c, 0x4d] => Some((Endianness::Big, true)),
            [0x4d, 0x3c, 0xb2, 0xa1] => Some((Endianness::Little, true)),
            _ => None,
        }
    }

    /// Reads the header of the file.
    pub fn read(header: &[u8]) -> Option<Pcap> {
        let (order, nanoseconds) = Pcap::magic(header)?;
        let network = order.u32(header, 20)?;
        // The upper half has the length of the FCS in units of two bytes, where bit 26 says so.
        let fcs = if network & 1 << 26 == 0 { 0 } else { (network >> 28) as u8 * 2 };
        Some(Pcap { order, nanoseconds, links: Links { link: LinkType(network as u16), fcs } })
    }

    /// What the header of a frame says.
    #[inline]
    pub fn frame(&self, header: &[u8]) -> Option<Found> {
        let order = self.order;
        let (seconds, part) = (order.u32(header, 0)?, order.u32(header, 4)?);
        let (captured, original) = (order.u32(header, 8)?, order.u32(header, 12)?);
        if captured as usize > FRAME_MAX {
            return Some(Found::Lost(Defect::Long(captured)));
        }
        let total = FRAME_HEADER + captured as usize;
        let (in_second, ns) =
            if self.nanoseconds { (1_000_000_000, 1) } else { (1_000_000, 1_000) };
        if part >= in_second {
            return Some(Found::Bad(Defect::Fraction(part), total as u64));
        }
        let time_ns = Some(i64::from(seconds) * 1_000_000_000 + i64::from(part) * ns);
        let head = Head { time_ns, interface: 0, links: self.links, captured, original };
        Some(Found::Frame { head, data_at: FRAME_HEADER, total })
    }
}
