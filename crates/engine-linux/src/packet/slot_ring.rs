//! The receive ring of slots: one frame in each, handed over as soon as it is there, in turn (`TPACKET_V2`,
//! `Documentation/networking/packet_mmap.rst`).
//!
//! A frame that is longer than its slot is cut, and marked where the kernel keeps all of it elsewhere. Knows no sockets: it
//! reads memory that the kernel, or a test, has filled. The ring of blocks: `ring`.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::tpacket2_hdr;

use super::ring::{Frame, FrameHeader, half, word};
use crate::memory::Memory;

const STATUS: usize = offset_of!(tpacket2_hdr, tp_status);

/// The ring, and which slot comes next.
#[derive(Debug)]
pub(super) struct SlotRing {
    memory: Memory,
    slot_len: usize,
    next: usize,
}

/// A slot that the kernel handed over.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    /// What the kernel says of the frame.
    pub(super) header: FrameHeader,
    bytes: &'a mut [u8],
    start: usize,
    captured: usize,
}

impl<'a> Slot<'a> {
    /// Reads the header of a slot; `None` where the slot is too short for one.
    fn read(bytes: &'a mut [u8]) -> Option<Self> {
        let header = FrameHeader {
            status: word(bytes, STATUS)?,
            len: word(bytes, offset_of!(tpacket2_hdr, tp_len))? as usize,
            seconds: word(bytes, offset_of!(tpacket2_hdr, tp_sec))?,
            nanoseconds: word(bytes, offset_of!(tpacket2_hdr, tp_nsec))?,
            tag: half(bytes, offset_of!(tpacket2_hdr, tp_vlan_tci))?,
            tag_type: half(bytes, offset_of!(tpacket2_hdr, tp_vlan_tpid))?,
        };
        let start = usize::from(half(bytes, offset_of!(tpacket2_hdr, tp_mac))?);
        let captured = word(bytes, offset_of!(tpacket2_hdr, tp_snaplen))? as usize;
        Some(Slot { header, bytes, start, captured })
    }

    /// Whether the kernel keeps the whole frame, to be read from the socket.
    pub(super) fn is_copied(&self) -> bool {
        self.header.status & libc::TP_STATUS_COPY != 0
    }

    /// The frame, if the slot holds all of it.
    pub(super) fn frame(self) -> Option<Frame<'a>> {
        if self.captured < self.header.len {
            return None;
        }
        self.header.frame(self.bytes, self.start, self.captured)
    }
}

impl SlotRing {
    /// Over memory that is a whole number of slots, each a whole number of words.
    pub(super) fn new(memory: Memory, slot_len: usize) -> Self {
        SlotRing { memory, slot_len, next: 0 }
    }

    /// Gives the next slot to `read` and then back to the kernel; `None` when the kernel has not filled it yet.
    #[inline]
    pub(super) fn take<T>(&mut self, read: impl FnOnce(Option<Slot<'_>>) -> T) -> Option<T> {
        let at = self.next * self.slot_len;
        let base = self.memory.pointer(at, self.slot_len);
        // SAFETY: an aligned word of the mapping, which outlives the reference.
        let status = unsafe { AtomicU32::from_ptr(base.add(STATUS).cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: with that bit the kernel left the slot to us until we store the status below, and nobody else has the
        // mapping. No other reference into the slot is in use meanwhile.
        let slot = unsafe { std::slice::from_raw_parts_mut(base, self.slot_len) };
        let result = read(Slot::read(slot));
        // SAFETY: as above; the slice is not used any more.
        let status = unsafe { AtomicU32::from_ptr(base.add(STATUS).cast()) };
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        let after = at + self.slot_len;
        self.next = if after < self.memory.len() { self.next + 1 } else { 0 };
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_LEN: usize = 256;
    /// Where the kernel puts the bytes of a frame: behind the header, an address and the offload header.
    const MAC: usize = 76;

    fn put(slot: &mut [u8], at: usize, bytes: &[u8]) {
        slot[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A slot with a frame of `len` bytes, of which `bytes` are there.
    fn slot(bytes: &[u8], len: usize, status: u32) -> Vec<u8> {
        let mut slot = vec![0; SLOT_LEN];
        let mut field = |at, value: u32| put(&mut slot, at, &value.to_ne_bytes());
        field(STATUS, status);
        field(offset_of!(tpacket2_hdr, tp_len), len as u32);
        field(offset_of!(tpacket2_hdr, tp_snaplen), bytes.len() as u32);
        field(offset_of!(tpacket2_hdr, tp_sec), 7);
        field(offset_of!(tpacket2_hdr, tp_nsec), 9);
        put(&mut slot, offset_of!(tpacket2_hdr, tp_mac), &(MAC as u16).to_ne_bytes());
        put(&mut slot, offset_of!(tpacket2_hdr, tp_vlan_tci), &0x2007u16.to_ne_bytes());
        put(&mut slot, offset_of!(tpacket2_hdr, tp_vlan_tpid), &0x88a8u16.to_ne_bytes());
        put(&mut slot, MAC, bytes);
        slot
    }

    fn ring(slots: usize) -> SlotRing {
        SlotRing::new(Memory::anonymous(slots * SLOT_LEN).unwrap(), SLOT_LEN)
    }

    /// What the kernel does: fills slot `index` and hands it over.
    fn hand_over(ring: &SlotRing, index: usize, slot: &[u8]) {
        let base = ring.memory.pointer(index * SLOT_LEN, SLOT_LEN);
        // SAFETY: the ring is not being read, and the status comes last.
        unsafe {
            std::ptr::copy_nonoverlapping(slot.as_ptr(), base, SLOT_LEN);
            let status = AtomicU32::from_ptr(base.add(STATUS).cast());
            status.store(word(slot, STATUS).unwrap(), Ordering::Release);
        }
    }

    #[test]
    fn slots_are_read_in_turn_and_given_back() {
        let mut ring = ring(16);
        assert_eq!(ring.take(|_| ()), None);
        for number in 0..100u8 {
            hand_over(&ring, usize::from(number) % 16, &slot(&[number; 60], 60, 1));
            let bytes = ring.take(|slot| slot.unwrap().frame().unwrap().bytes.to_vec());
            assert_eq!(bytes, Some(vec![number; 60]));
            assert_eq!(ring.take(|_| ()), None);
        }
    }

    #[test]
    fn a_full_ring_is_read_once_around() {
        let mut ring = ring(16);
        for number in 0..16u8 {
            hand_over(&ring, number.into(), &slot(&[number; 60], 60, 1));
        }
        for number in 0..16u8 {
            let first = ring.take(|slot| slot.unwrap().frame().unwrap().bytes[0]);
            assert_eq!(first, Some(number));
        }
        assert_eq!(ring.take(|_| ()), None);
    }

    #[test]
    fn the_vlan_tag_is_put_back() {
        let untagged: Vec<u8> = (0..60).collect();
        let tpid = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        for (status, tag) in [
            (0, &[][..]),
            (tpid, &[0x88, 0xa8, 0x20, 0x07]),
            (libc::TP_STATUS_VLAN_VALID, &[0x81, 0x00, 0x20, 0x07]),
        ] {
            let mut slot = slot(&untagged, 60, status | 1);
            let frame = Slot::read(&mut slot).unwrap().frame().unwrap();
            assert_eq!(frame.bytes, [&untagged[..12], tag, &untagged[12..]].concat());
            assert_eq!((frame.len, frame.stamp), (60 + tag.len(), 7_000_000_009));
        }
    }

    #[test]
    fn a_cut_frame_is_none() {
        for status in [1, 1 | libc::TP_STATUS_COPY] {
            let mut slot = slot(&[3; 60], 61, status);
            let slot = Slot::read(&mut slot).unwrap();
            assert_eq!(slot.is_copied(), status != 1);
            assert!(slot.frame().is_none());
        }
    }

    #[test]
    fn no_bytes_make_it_read_outside_the_slot() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32
        };
        for _ in 0..5_000 {
            let mut slot = slot(&[7; 60], 60, 0x51);
            for _ in 0..3 {
                let at = (random() % 80) as usize & !3;
                let value =
                    if random() % 2 == 0 { random() % 500 } else { u32::MAX - random() % 99 };
                put(&mut slot, at, &value.to_ne_bytes());
            }
            if let Some(frame) = Slot::read(&mut slot).unwrap().frame() {
                assert!(frame.bytes.len() < SLOT_LEN);
            }
        }
        for len in 0..offset_of!(tpacket2_hdr, tp_padding) {
            assert!(Slot::read(&mut vec![0xff; len]).is_none(), "{len}");
        }
    }
}
