//! The memory that frames lie in, shared with the kernel: chunks of one size. A frame lies in one, or in several where it is
//! longer; those that are built here lie side by side.
//!
//! A transmitter and a receiver of one queue have a part each ([`UmemPart`]). Knows no sockets and no rings. Addresses are
//! offsets from the start of all of it, as in descriptors.

use std::io;
use std::sync::Arc;

use crate::memory::Memory;

/// The chunks that AF_XDP takes without unaligned mode: powers of two from 2 KiB to a page (`xdp_umem_reg` in
/// `net/xdp/xdp_umem.c`).
const CHUNK_MIN: usize = 2048;
/// The largest; pages are not smaller anywhere.
pub(super) const CHUNK_MAX: usize = 4096;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// The memory of a socket.
#[derive(Debug)]
pub(super) struct Umem {
    memory: Memory,
    chunk: usize,
    huge: bool,
}

impl Umem {
    /// `chunks` chunks of at least `least` bytes: in huge pages, where the system has some to spare.
    ///
    /// # Errors
    /// There is no memory, or no chunk is so large.
    pub(super) fn new(chunks: usize, least: usize) -> io::Result<Umem> {
        let chunk = least.max(CHUNK_MIN).next_power_of_two();
        if chunk > CHUNK_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let len = chunks.checked_mul(chunk).ok_or(io::ErrorKind::OutOfMemory)?;
        if len.is_multiple_of(HUGE)
            && let Ok(memory) = Memory::huge(len)
        {
            return Ok(Umem { memory, chunk, huge: true });
        }
        Ok(Umem { memory: Memory::anonymous(len)?, chunk, huge: false })
    }

    /// Its first byte, for the kernel.
    pub(super) fn base(&self) -> *mut u8 {
        self.memory.pointer(0, self.memory.len())
    }

    /// Its bytes.
    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Bytes of a chunk.
    pub(super) fn chunk(&self) -> usize {
        self.chunk
    }

    /// Whether it lies in huge pages.
    pub(super) fn is_huge(&self) -> bool {
        self.huge
    }

    /// Divides it in two: the first `at` chunks, and all others.
    pub(super) fn divide(self: &Arc<Self>, at: usize) -> [UmemPart; 2] {
        let all = self.memory.len() / self.chunk;
        let at = at.min(all);
        [(0, at), (at, all - at)].map(|(first, chunks)| UmemPart {
            umem: Arc::clone(self),
            first,
            chunks,
        })
    }
}

// SAFETY: its bytes are reached through parts alone, which have no chunk in common.
unsafe impl Sync for Umem {}

/// Some chunks of a [`Umem`], which no other part has.
#[derive(Debug)]
pub(super) struct UmemPart {
    umem: Arc<Umem>,
    /// The number of its first chunk.
    first: usize,
    chunks: usize,
}

impl UmemPart {
    /// How many chunks.
    pub(super) fn len(&self) -> usize {
        self.chunks
    }

    /// Bytes of a chunk.
    pub(super) fn chunk(&self) -> usize {
        self.umem.chunk
    }

    /// Where chunk `number` begins; numbers go round.
    pub(super) fn address(&self, number: usize) -> u64 {
        ((self.first + number % self.chunks.max(1)) * self.umem.chunk) as u64
    }

    /// The number of the chunk that `address` lies in, where that is one of these.
    pub(super) fn number(&self, address: u64) -> Option<usize> {
        let number = usize::try_from(address).ok()? / self.umem.chunk;
        number.checked_sub(self.first).filter(|number| *number < self.chunks)
    }

    /// The `count` chunks from number `first` on, to build a frame in: fewer where the part ends.
    pub(super) fn chunks_mut(&mut self, first: usize, count: usize) -> &mut [u8] {
        let first = first % self.chunks.max(1);
        let len = count.min(self.chunks - first) * self.umem.chunk;
        let base = self.umem.memory.pointer(self.address(first) as usize, len);
        // SAFETY: `len` initialised bytes of the mapping, which no other part has. The caller has the chunks: the kernel
        // reads only those whose addresses are in its rings. The reference borrows `self`.
        unsafe { std::slice::from_raw_parts_mut(base, len) }
    }

    /// The `len` bytes before `address`, where those lie in the same chunk of this part.
    pub(super) fn before_mut(&mut self, address: u64, len: usize) -> Option<&mut [u8]> {
        self.number(address)?;
        let at = usize::try_from(address).ok()?;
        let from = (at % self.umem.chunk).checked_sub(len).map(|_| at - len)?;
        let base = self.umem.memory.pointer(from, len);
        // SAFETY: as in `bytes`; nobody has another reference while this one borrows `self`.
        Some(unsafe { std::slice::from_raw_parts_mut(base, len) })
    }

    /// The `len` bytes from `address` on, where those lie in one chunk of this part.
    pub(super) fn bytes(&self, address: u64, len: u32) -> Option<&[u8]> {
        self.number(address)?;
        let at = usize::try_from(address).ok()?;
        let inside = at % self.umem.chunk + len as usize <= self.umem.chunk;
        let base = inside.then(|| self.umem.memory.pointer(at, len as usize))?;
        // SAFETY: initialised bytes of the mapping, which no other part has. The kernel gave the chunk to us, and writes to
        // it again when it is back in the fill ring. The reference borrows `self`.
        Some(unsafe { std::slice::from_raw_parts(base, len as usize) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_a_frame_and_are_powers_of_two() {
        for (frame, chunk) in [(0, 2048), (60, 2048), (2048, 2048), (2049, 4096), (4096, 4096)] {
            assert_eq!(Umem::new(4, frame).unwrap().chunk(), chunk);
        }
        assert!(Umem::new(4, 4097).is_err() && Umem::new(usize::MAX, 2048).is_err());
    }

    #[test]
    fn parts_have_chunks_of_their_own_and_numbers_go_round() {
        let umem = Arc::new(Umem::new(8, 60).unwrap());
        let [mut first, mut second] = umem.divide(4);
        assert_eq!((umem.len(), first.len(), second.len()), (16_384, 4, 4));
        assert_eq!((first.address(5), second.address(0), second.address(5)), (2048, 8192, 10_240));
        for number in 0..4 {
            first.chunks_mut(number, 1).fill(number as u8);
            second.chunks_mut(number, 1).fill(0x80 | number as u8);
        }
        for number in 0..4 {
            let [mine, theirs] = [&first, &second]
                .map(|part| part.bytes(part.address(number), 2048).unwrap().to_vec());
            assert!(mine.iter().all(|byte| *byte == number as u8));
            assert!(theirs.iter().all(|byte| *byte == 0x80 | number as u8));
        }
    }

    #[test]
    fn chunks_of_a_long_frame_lie_side_by_side_and_end_with_the_part() {
        let umem = Arc::new(Umem::new(8, 4096).unwrap());
        let [mut first, mut second] = umem.divide(4);
        first.chunks_mut(1, 3).fill(1);
        assert_eq!((first.chunks_mut(2, 3).len(), second.chunks_mut(3, 3).len()), (8192, 4096));
        second.chunks_mut(0, 4).fill(2);
        let of = |part: &UmemPart, number| part.bytes(part.address(number), 4096).unwrap()[4095];
        assert_eq!([0, 1, 3].map(|number| of(&first, number)), [0, 1, 1]);
        assert_eq!(of(&second, 0), 2);
    }

    #[test]
    fn parts_may_differ_in_size_and_none_goes_beyond_the_end() {
        let umem = Arc::new(Umem::new(8, 60).unwrap());
        for (at, expected) in [(0, [0, 8]), (3, [3, 5]), (8, [8, 0]), (9, [8, 0])] {
            assert_eq!(umem.divide(at).map(|part| part.len()), expected);
        }
    }

    #[test]
    fn what_is_before_a_frame_lies_in_its_chunk() {
        let umem = Arc::new(Umem::new(8, 60).unwrap());
        let [mut first, mut second] = umem.divide(4);
        first.chunks_mut(0, 4).fill(1);
        first.before_mut(2048 + 256, 16).unwrap().fill(2);
        let chunk = first.bytes(2048, 2048).unwrap();
        assert!(chunk[240..256].iter().all(|byte| *byte == 2));
        assert_eq!((chunk[239], chunk[256]), (1, 1));
        assert_eq!(first.before_mut(2048 + 16, 16).map(|before| before.len()), Some(16));
        for (address, len) in [(2048 + 15, 16), (2048, 1), (8192 + 256, 16), (u64::MAX, 1)] {
            assert!(first.before_mut(address, len).is_none(), "{address} {len}");
        }
        assert!(second.before_mut(8192 + 256, 16).is_some());
    }

    #[test]
    fn no_address_leads_out_of_a_part_or_a_chunk() {
        let umem = Arc::new(Umem::new(8, 60).unwrap());
        let [first, second] = umem.divide(4);
        assert_eq!(first.bytes(2048 + 256, 1792).map(<[u8]>::len), Some(1792));
        assert_eq!(
            (first.number(8191), first.number(8192), second.number(8192)),
            (Some(3), None, Some(0))
        );
        for (address, len) in
            [(2048 + 256, 1793), (8192, 1), (u64::MAX, 1), (16_384, 1), (0, u32::MAX)]
        {
            assert!(first.bytes(address, len).is_none(), "{address} {len}");
        }
    }
}
