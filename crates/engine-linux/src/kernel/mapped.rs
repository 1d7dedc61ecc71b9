//! A memory-mapped eBPF array, shared with the kernel without system calls.
//!
//! The kernel reads and writes the same memory at any time, so every access here is an atomic one of
//! 64 bits, or a copy into bytes that the protocol of the ring says the kernel does not touch now.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, slice};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping of a whole array map. Values lie one after the other, each rounded up to 8 bytes.
#[derive(Debug)]
pub(crate) struct Mapped {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned, process-wide memory; all shared access goes through atomics, and
// `bytes_mut` needs `&mut self`.
unsafe impl Send for Mapped {}
// SAFETY: as above; `&Mapped` gives only atomic access.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `len` bytes (rounded up to pages) of the array map behind `map`.
    pub(crate) fn new(map: BorrowedFd<'_>, len: usize) -> io::Result<Mapped> {
        let len = len.next_multiple_of(rustix::param::page_size());
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing of ours.
        let memory = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                map,
                0,
            )?
        };
        let memory = NonNull::new(memory.cast())
            .ok_or_else(|| io::Error::other("the kernel mapped a map at address zero"))?;
        Ok(Mapped { memory, len })
    }

    /// The 64-bit word at byte `offset`, which must be a multiple of 8 within the mapping; the first
    /// word where it is not, which cannot happen with offsets taken from the types.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.len);
        let offset = if offset.is_multiple_of(8) && offset + 8 <= self.len { offset } else { 0 };
        // SAFETY: in bounds and aligned (the mapping is page-aligned); the memory lives as long as
        // `self`; the kernel updates such words with plain 64-bit stores, which are atomic.
        unsafe { &*self.memory.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Reads the word at `offset`.
    pub(crate) fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Writes the word at `offset`.
    pub(crate) fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Writes zeros everywhere.
    pub(crate) fn zero(&self) {
        (0..self.len).step_by(8).for_each(|at| self.word(at).store(0, Ordering::Relaxed));
    }

    /// Reads two neighbouring words of 32 bits, the first at `offset`, a multiple of 8.
    pub(crate) fn load_pair(&self, offset: usize) -> (u32, u32) {
        let [a, b, c, d, e, f, g, h] = self.load(offset).to_ne_bytes();
        (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
    }

    /// Writes two neighbouring words of 32 bits, the first at `offset`, a multiple of 8.
    pub(crate) fn store_pair(&self, offset: usize, (first, second): (u32, u32)) {
        let [a, b, c, d] = first.to_ne_bytes();
        let [e, f, g, h] = second.to_ne_bytes();
        self.store(offset, u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
    }

    /// Bytes that the kernel side does not touch at present: a free slot of the ring.
    ///
    /// An empty slice when the range is not within the mapping.
    pub(crate) fn bytes_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return &mut [];
        }
        // SAFETY: in bounds; `&mut self` keeps other users of this mapping away, and the ring's
        // protocol keeps the program away from slots that have not been handed over.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr().add(offset), len) }
    }

    /// Writes `value` to where the kernel side does not look at present: the head of a free slot. Nothing, where it would not
    /// lie within the mapping, or not as its type has to.
    #[inline]
    pub(crate) fn put<T: Copy>(&mut self, offset: usize, value: T) {
        let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.len);
        debug_assert!(fits && offset.is_multiple_of(align_of::<T>()));
        if fits && offset.is_multiple_of(align_of::<T>()) {
            // SAFETY: in bounds and aligned (the mapping is page-aligned); for the rest as `bytes_mut`.
            unsafe { self.memory.as_ptr().add(offset).cast::<T>().write(value) };
        }
    }

    /// Bytes of a part of it. An empty slice when the range is not within the mapping.
    ///
    /// # Safety
    /// Nobody writes to that part while the slice lives.
    #[inline]
    pub(crate) unsafe fn bytes_of(&self, offset: usize, len: usize) -> &[u8] {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return &[];
        }
        // SAFETY: in bounds, and the memory lives as long as `self`; the rest is the caller's promise.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().add(offset), len) }
    }

    /// The same, to be written to.
    ///
    /// # Safety
    /// Nobody else looks at that part or writes to it while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "parts have owners of their own, who are `&mut`")]
    #[inline]
    pub(crate) unsafe fn bytes_of_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return &mut [];
        }
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr().add(offset), len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length and nothing borrows from it any more.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.len) };
    }
}
