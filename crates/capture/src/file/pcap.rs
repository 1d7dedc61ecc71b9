//! Classic pcap (draft-ietf-opsawg-pcap), little-endian. It knows one interface, and neither comments nor counts: frames of
//! all ports stand in one row.

use wirebeat_units::FCS;

use super::encoder::{FRAME_MAX, Kept};
use crate::seen::Seen;

/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// Bytes before the bytes of a frame.
pub const RECORD: usize = 16;
const SECOND: u64 = 1_000_000_000;

/// Makes pcap.
#[derive(Debug)]
pub struct Pcap {
    pub micros: bool,
    /// The most bytes of a frame, without FCS; 0: all.
    pub snap_len: usize,
}

impl Pcap {
    pub fn header(&self, into: &mut Vec<u8>) {
        let magic = if self.micros { MAGIC_MICROS } else { MAGIC_NANOS };
        let snap = if self.snap_len == 0 { FRAME_MAX } else { self.snap_len.min(FRAME_MAX) };
        into.extend(magic.to_le_bytes());
        into.extend(2_u16.to_le_bytes());
        into.extend(4_u16.to_le_bytes());
        into.extend([0; 8]);
        into.extend((snap as u32 + u32::from(FCS)).to_le_bytes());
        into.extend(ETHERNET.to_le_bytes());
    }

    #[inline]
    pub fn frame(&self, seen: &Seen<'_>, kept: &Kept<'_>, into: &mut Vec<u8>) {
        let fraction = seen.unix_ns % SECOND;
        let fraction = if self.micros { fraction / 1000 } else { fraction };
        let mut record = [0; RECORD];
        let words = [
            (seen.unix_ns / SECOND) as u32,
            fraction as u32,
            kept.captured() as u32,
            kept.original,
        ];
        for (place, word) in record.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        into.extend_from_slice(&record);
        into.extend_from_slice(kept.bytes);
        if let Some(fcs) = kept.fcs {
            into.extend_from_slice(&fcs);
        }
    }
}

/// Bytes of the record that `bytes` begins with; `None` where its head is cut short.
pub fn record_len(bytes: &[u8]) -> Option<usize> {
    let captured = bytes.get(8..RECORD)?.first_chunk::<4>()?;
    Some(RECORD + u32::from_le_bytes(*captured) as usize)
}
