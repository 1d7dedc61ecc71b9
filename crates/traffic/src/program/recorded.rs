//! Frames of what is replayed: the headers are those of the flow, the data comes with each record, and so does its
//! length. All else, from lengths and changing fields to checksums and probe, is as for any other frame. What comes from
//! a capture has its headers with it, and nothing is added.

use wirebeat_wire::checksum::Sum;
use wirebeat_wire::probe;

use super::frames::{Built, Counted, Frames};

/// What is replayed: the payload of a packet, all of it but a probe at the end, or a whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// Its number in the flow.
    pub number: u64,
    /// The number of its sub-flow.
    pub sub_flow: u64,
    /// What it is counted by, which is its flow in probes.
    pub tag: u16,
    /// Its bytes.
    pub data: &'a [u8],
}

impl Frames {
    /// Makes the frame of what is replayed in `out`; `None` when `out` is too short for it.
    #[inline]
    pub(super) fn write_recorded(&self, of: &Recorded<'_>, out: &mut [u8]) -> Option<Built> {
        let packet = self.recorded_len(of.data.len());
        let built = self.built(packet);
        let frame = out.get_mut(..built.len as usize)?;
        let (headers, rest) = frame.split_at_mut_checked(self.recorded_at())?;
        headers.copy_from_slice(self.bytes.get(..headers.len())?);
        let (data, rest) = rest.split_at_mut_checked(of.data.len())?;
        data.copy_from_slice(of.data);
        rest.fill(0);
        self.fill_in(frame, packet, (of.number, of.sub_flow), Some(of.tag), Self::recorded_sum)?;
        Some(built)
    }

    /// The length of the packet with so much replayed data.
    #[inline]
    pub(super) fn recorded_len(&self, data: usize) -> u32 {
        let tail = if self.probe.is_some() { probe::LEN } else { 0 };
        (self.recorded_at() + data + tail) as u32
    }

    /// Where what is replayed begins.
    #[inline]
    fn recorded_at(&self) -> usize {
        if self.whole.is_some() { 0 } else { self.headers_len.into() }
    }

    /// Where whole frames are replayed: how long one without a VLAN tag can be.
    pub fn whole_max(&self) -> Option<usize> {
        self.whole.map(usize::from)
    }

    /// The most replayed data that a packet has room for, or the longest frame that is replayed.
    pub fn recorded_max(&self) -> usize {
        self.lengths.longest().saturating_sub(self.recorded_len(0)) as usize
    }

    /// What fragment `part` of a packet with so much replayed data is counted as, from 1; 0: all of it.
    pub fn counted_recorded(&self, data: usize, part: u16) -> Counted {
        self.counted_part_of(self.recorded_len(data), part)
    }

    /// The sum of a payload that is known only now, with sequence and time zero.
    #[inline]
    fn recorded_sum(&self, frame: &[u8], packet: u32) -> u64 {
        let payload = frame.get(self.headers_len.into()..packet as usize).unwrap_or_default();
        Sum::ZERO.add_bytes(payload).folded().into()
    }
}
