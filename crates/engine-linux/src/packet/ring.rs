//! The receive ring: blocks of frames that the kernel fills and we empty, in turn (`TPACKET_V3`,
//! `Documentation/networking/packet_mmap.rst`).
//!
//! The kernel packs frames one after the other into a block and hands it over when it is full or a
//! millisecond old. One wake-up serves a whole block: against slots handed over singly
//! (`TPACKET_V2`) a frame costs a tenth of the CPU here and disturbs its sender less (measured).
//! (Those are in `slot_ring`.) Knows no sockets: it reads memory that the kernel, or a test, has filled.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{tpacket_block_desc, tpacket_hdr_v1, tpacket_hdr_variant1, tpacket3_hdr};

use super::segments::{Joined, OFFLOAD_LEN};
use crate::memory::Memory;

/// Where a block's fields lie.
const BLOCK: usize = offset_of!(tpacket_block_desc, hdr);
const STATUS: usize = BLOCK + offset_of!(tpacket_hdr_v1, block_status);
const COUNT: usize = BLOCK + offset_of!(tpacket_hdr_v1, num_pkts);
const FIRST: usize = BLOCK + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);
/// Where the VLAN tag lies in a frame's header.
const VLAN: usize = offset_of!(tpacket3_hdr, hv1);

/// Bytes of a VLAN tag, and of the addresses before it.
const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;
/// The EtherType of a tag, where the kernel does not say (IEEE 802.1Q).
const CUSTOMER_TAG: u16 = 0x8100;

/// A frame in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// When it was stamped, in nanoseconds of the clock that did.
    pub(super) stamp: u64,
    /// Whether that is the card's, and not `CLOCK_REALTIME`.
    pub(super) by_card: bool,
    /// Its bytes, with its VLAN tag.
    pub(super) bytes: &'a [u8],
    /// How long it is, where `bytes` is cut short.
    pub(super) len: usize,
    /// Whether it is several datagrams.
    pub(super) joined: Option<Joined>,
}

/// What the kernel says of a frame in the header that it writes before it, in native byte order.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHeader {
    /// `TP_STATUS_*`.
    pub(super) status: u32,
    /// Bytes of the frame without its VLAN tag, where fewer are in the ring.
    pub(super) len: usize,
    /// When it was stamped.
    pub(super) seconds: u32,
    /// The rest of that, in nanoseconds.
    pub(super) nanoseconds: u32,
    /// The VLAN tag that was taken out, where the status says so.
    pub(super) tag: u16,
    /// Its EtherType, where the status says so.
    pub(super) tag_type: u16,
}

impl FrameHeader {
    /// The frame whose `captured` bytes begin at `start` of `bytes`, behind its offload header; its VLAN tag is put back,
    /// over that header. `None` where that is not within `bytes`.
    pub(super) fn frame<'a>(
        &self,
        bytes: &'a mut [u8],
        mut start: usize,
        captured: usize,
    ) -> Option<Frame<'a>> {
        let end = start.checked_add(captured)?;
        let offload = bytes.get(start.checked_sub(OFFLOAD_LEN)?..start)?.first_chunk()?;
        let mut joined = Joined::from_offload(offload);
        let mut tag_len = 0;
        if self.status & libc::TP_STATUS_VLAN_VALID != 0 && captured >= ADDRESSES_LEN {
            let known = self.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tag_type = if known { self.tag_type } else { CUSTOMER_TAG };
            insert_tag(bytes.get_mut(..end)?, start, tag_type, self.tag);
            tag_len = TAG_LEN;
            start -= TAG_LEN;
            joined = joined.map(|joined| joined.shifted(TAG_LEN));
        }
        Some(Frame {
            stamp: u64::from(self.seconds) * 1_000_000_000 + u64::from(self.nanoseconds),
            by_card: self.status & libc::TP_STATUS_TS_RAW_HARDWARE != 0,
            bytes: bytes.get(start..end)?,
            len: self.len + tag_len,
            joined,
        })
    }
}

/// The ring, and which block comes next.
#[derive(Debug)]
pub(super) struct BlockRing {
    memory: Memory,
    block_len: usize,
    next: usize,
}

impl BlockRing {
    /// Over memory that is a whole number of blocks.
    pub(super) fn new(memory: Memory, block_len: usize) -> Self {
        BlockRing { memory, block_len, next: 0 }
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.memory.len() / self.block_len
    }

    /// Gives the frames of the next block to `sink` and the block back to the kernel; `None` when
    /// the kernel still fills it.
    pub(super) fn take(&mut self, sink: impl FnMut(Frame<'_>)) -> Option<usize> {
        let base = self.memory.pointer(self.next * self.block_len, self.block_len);
        // SAFETY: an aligned word of the mapping, which outlives the reference.
        let status = unsafe { AtomicU32::from_ptr(base.add(STATUS).cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: with that bit the kernel left the block to us until we store the status below, and
        // nobody else has the mapping. No other reference into the block is in use meanwhile.
        let block = unsafe { std::slice::from_raw_parts_mut(base, self.block_len) };
        let count = read_block(block, sink);
        // SAFETY: as above; the slice is not used any more.
        let status = unsafe { AtomicU32::from_ptr(base.add(STATUS).cast()) };
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks();
        Some(count)
    }
}

/// Gives the frames of a block to `sink`. Ends early at a frame that is not within the block.
fn read_block(block: &mut [u8], mut sink: impl FnMut(Frame<'_>)) -> usize {
    let (Some(count), Some(first)) = (word(block, COUNT), word(block, FIRST)) else { return 0 };
    let mut at = first as usize;
    for done in 0..count as usize {
        match read_frame(block, at, &mut sink) {
            None => return done,
            Some(0) => return done + 1,
            Some(next) => at += next,
        }
    }
    count as usize
}

/// Gives the frame whose header is at `at` to `sink`, and returns how far the next header is; zero
/// after the last.
fn read_frame(block: &mut [u8], at: usize, sink: &mut impl FnMut(Frame<'_>)) -> Option<usize> {
    let field = |offset| word(block, at + offset);
    let next = field(offset_of!(tpacket3_hdr, tp_next_offset))?;
    let captured = field(offset_of!(tpacket3_hdr, tp_snaplen))? as usize;
    let header = FrameHeader {
        status: field(offset_of!(tpacket3_hdr, tp_status))?,
        len: field(offset_of!(tpacket3_hdr, tp_len))? as usize,
        seconds: field(offset_of!(tpacket3_hdr, tp_sec))?,
        nanoseconds: field(offset_of!(tpacket3_hdr, tp_nsec))?,
        tag: field(VLAN + offset_of!(tpacket_hdr_variant1, tp_vlan_tci))? as u16,
        tag_type: half(block, at + VLAN + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid))?,
    };
    let start = at + usize::from(half(block, at + offset_of!(tpacket3_hdr, tp_mac))?);
    sink(header.frame(block, start, captured)?);
    Some(next as usize)
}

/// Puts the tag that the kernel took out back in front of the EtherType, over the offload header.
fn insert_tag(block: &mut [u8], start: usize, tag_type: u16, tag: u16) {
    let from = start - TAG_LEN;
    block.copy_within(start..start + ADDRESSES_LEN, from);
    let at = from + ADDRESSES_LEN;
    block[at..at + 2].copy_from_slice(&tag_type.to_be_bytes());
    block[at + 2..at + TAG_LEN].copy_from_slice(&tag.to_be_bytes());
}

/// The 32-bit word at `at`, in native byte order.
pub(super) fn word(block: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*block.get(at..)?.first_chunk()?))
}

/// The 16-bit word at `at`, in native byte order.
pub(super) fn half(block: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*block.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_LEN: usize = 4096;
    /// Where the kernel puts the bytes of a frame, from its header on.
    const MAC: usize = 82;

    /// What the kernel does: lays frames into blocks and hands them over.
    struct Kernel {
        block: Vec<u8>,
        at: usize,
        count: u32,
    }

    impl Kernel {
        fn new() -> Self {
            let mut block = vec![0; BLOCK_LEN];
            put(&mut block, FIRST, &48u32.to_ne_bytes());
            Kernel { block, at: 48, count: 0 }
        }

        fn frame(&mut self, bytes: &[u8], realtime: (u32, u32), vlan: Option<(u16, u16)>) {
            let next = (MAC + bytes.len()).next_multiple_of(16);
            let mut field =
                |offset, value: u32| put(&mut self.block, self.at + offset, &value.to_ne_bytes());
            field(offset_of!(tpacket3_hdr, tp_next_offset), next as u32);
            field(offset_of!(tpacket3_hdr, tp_sec), realtime.0);
            field(offset_of!(tpacket3_hdr, tp_nsec), realtime.1);
            field(offset_of!(tpacket3_hdr, tp_snaplen), bytes.len() as u32);
            field(offset_of!(tpacket3_hdr, tp_len), bytes.len() as u32 + 1);
            if let Some((tag_type, tag)) = vlan {
                let valid = libc::TP_STATUS_VLAN_VALID
                    | if tag_type == 0 { 0 } else { libc::TP_STATUS_VLAN_TPID_VALID };
                field(offset_of!(tpacket3_hdr, tp_status), valid);
                field(VLAN + offset_of!(tpacket_hdr_variant1, tp_vlan_tci), tag.into());
                let at = self.at + VLAN + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid);
                put(&mut self.block, at, &tag_type.to_ne_bytes());
            }
            put(
                &mut self.block,
                self.at + offset_of!(tpacket3_hdr, tp_mac),
                &(MAC as u16).to_ne_bytes(),
            );
            put(&mut self.block, self.at + MAC, bytes);
            self.at += next;
            self.count += 1;
            put(&mut self.block, COUNT, &self.count.to_ne_bytes());
        }

        fn hand_over(&self, ring: &BlockRing, index: usize) {
            let base = ring.memory.pointer(index * BLOCK_LEN, BLOCK_LEN);
            // SAFETY: the ring is not being read, and the status comes last.
            unsafe {
                std::ptr::copy_nonoverlapping(self.block.as_ptr(), base, BLOCK_LEN);
                AtomicU32::from_ptr(base.add(STATUS).cast())
                    .store(libc::TP_STATUS_USER | libc::TP_STATUS_BLK_TMO, Ordering::Release);
            }
        }
    }

    fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
        block[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn ring(blocks: usize) -> BlockRing {
        BlockRing::new(Memory::anonymous(blocks * BLOCK_LEN).unwrap(), BLOCK_LEN)
    }

    fn frames(block: &mut [u8]) -> Vec<(u64, Vec<u8>, usize)> {
        let mut frames = Vec::new();
        read_block(block, |f| frames.push((f.stamp, f.bytes.to_vec(), f.len)));
        frames
    }

    #[test]
    fn blocks_are_read_in_turn_and_given_back() {
        let mut ring = ring(3);
        assert_eq!((ring.blocks(), ring.take(|_| ())), (3, None));
        let mut expected = 0u32;
        for round in 0..7u32 {
            let mut kernel = Kernel::new();
            for number in 0..=round {
                kernel.frame(&(round * 100 + number).to_be_bytes(), (0, 0), None);
            }
            kernel.hand_over(&ring, round as usize % 3);
            let mut number = 0;
            let count = ring.take(|frame| {
                assert_eq!(frame.bytes, (round * 100 + number).to_be_bytes());
                number += 1;
                expected += 1;
            });
            assert_eq!(count, Some(round as usize + 1));
            assert_eq!(ring.take(|_| ()), None);
        }
        assert_eq!(expected, 28);
    }

    #[test]
    fn frames_have_their_bytes_length_and_time() {
        let mut kernel = Kernel::new();
        let long: Vec<u8> = (0..200).collect();
        kernel.frame(&long, (1_800_000_000, 999_999_999), None);
        kernel.frame(&[], (0, 1), None);
        let expected = vec![(1_800_000_000_999_999_999, long, 201), (1, vec![], 1)];
        assert_eq!(frames(&mut kernel.block), expected);
    }

    #[test]
    fn stamps_of_the_card_are_told_from_those_of_the_system() {
        let mut kernel = Kernel::new();
        kernel.frame(&[7; 60], (5, 6), None);
        let second = kernel.at;
        kernel.frame(&[8; 60], (7, 8), None);
        let status = libc::TP_STATUS_TS_RAW_HARDWARE | libc::TP_STATUS_USER;
        let at = second + offset_of!(tpacket3_hdr, tp_status);
        put(&mut kernel.block, at, &status.to_ne_bytes());
        let mut seen = Vec::new();
        read_block(&mut kernel.block, |frame| seen.push((frame.stamp, frame.by_card)));
        assert_eq!(seen, [(5_000_000_006, false), (7_000_000_008, true)]);
    }

    #[test]
    fn the_vlan_tag_is_put_back() {
        let untagged: Vec<u8> = (0..60).collect();
        for (tag_type, expected_type) in [(0x88a8u16, [0x88, 0xa8]), (0, [0x81, 0x00])] {
            let mut kernel = Kernel::new();
            kernel.frame(&untagged, (0, 0), Some((tag_type, 0xe007)));
            kernel.frame(&untagged, (0, 0), None);
            let tagged = [&untagged[..12], &expected_type, &[0xe0, 0x07], &untagged[12..]].concat();
            let expected = vec![(0, tagged, 65), (0, untagged.clone(), 61)];
            assert_eq!(frames(&mut kernel.block), expected);
        }
    }

    #[test]
    fn a_tagged_stump_is_left_alone() {
        let mut kernel = Kernel::new();
        kernel.frame(&[1; 11], (0, 0), Some((0x8100, 7)));
        assert_eq!(frames(&mut kernel.block), [(0, vec![1; 11], 12)]);
    }

    #[test]
    fn joined_datagrams_are_marked() {
        let mut kernel = Kernel::new();
        kernel.frame(&[0; 60], (0, 0), None);
        let offload = [1, 5, 0, 0, 18, 0, 34, 0, 6, 0];
        put(&mut kernel.block, 48 + MAC - OFFLOAD_LEN, &offload);
        let mut joined = None;
        read_block(&mut kernel.block, |frame| joined = frame.joined);
        assert_eq!(joined, Joined::from_offload(&offload));
        assert!(joined.is_some());
    }

    #[test]
    fn no_bytes_make_it_read_outside_the_block() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32
        };
        for _ in 0..5_000 {
            let mut kernel = Kernel::new();
            kernel.frame(&[7; 60], (0, 0), Some((0x8100, 1)));
            kernel.frame(&[8; 60], (0, 0), None);
            for _ in 0..3 {
                let at = (random() % 260) as usize & !3;
                let value =
                    if random() % 2 == 0 { random() % 5_000 } else { u32::MAX - random() % 99 };
                put(&mut kernel.block, at, &value.to_ne_bytes());
            }
            put(&mut kernel.block, COUNT, &(random() % 1_000).to_ne_bytes());
            read_block(&mut kernel.block, |frame| assert!(frame.bytes.len() < BLOCK_LEN));
        }
    }
}
