//! The header of TCP, as far as data is put together by it.

use std::ops::Range;

/// The shortest header, in bytes (RFC 9293 §3.1).
const LEN: usize = 20;

/// A segment of TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The number of its first byte, or of its SYN.
    pub(super) seq: u32,
    /// What it acknowledges, where it does.
    pub(super) ack: Option<u32>,
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) rst: bool,
    /// Where its data lies in what the packet carries.
    pub(super) data: Range<usize>,
}

impl Segment {
    /// The segment that a packet carries; `None` if its header contradicts itself.
    pub(super) fn parse(carried: &[u8]) -> Option<Segment> {
        let word = |at: usize| Some(u32::from_be_bytes(*carried.get(at..)?.first_chunk()?));
        let [offset, flags] = *carried.get(12..)?.first_chunk()?;
        let header = usize::from(offset >> 4) * 4;
        if header < LEN || header > carried.len() {
            return None;
        }
        let ack = word(8)?;
        Some(Segment {
            seq: word(4)?,
            ack: (flags & 0x10 != 0).then_some(ack),
            syn: flags & 0x02 != 0,
            fin: flags & 0x01 != 0,
            rst: flags & 0x04 != 0,
            data: header..carried.len(),
        })
    }
}
