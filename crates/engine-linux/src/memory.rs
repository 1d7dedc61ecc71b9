//! Memory of our own or shared with the kernel: mapped, never moved, unmapped when dropped.
//!
//! Pointers into it go to the kernel (in `iovec`s) or come from it (packet rings), so it is never
//! reached through a Rust reference to the whole.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A mapping of zeroed pages.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, and pages are not bound to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// `len` bytes of our own, present from the start so that sending never waits for a page.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)
        }?;
        Memory::at(base.cast(), len)
    }

    /// The same in huge pages, of which `len` is a multiple. An error where the system has none to spare.
    pub(crate) fn huge(len: usize) -> io::Result<Self> {
        // SAFETY: as above.
        let base = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::POPULATE | MapFlags::HUGETLB;
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)
        }?;
        Memory::at(base.cast(), len)
    }

    /// The ring of a socket, `len` bytes.
    pub(crate) fn of_socket(socket: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Memory::of_socket_at(socket, len, 0)
    }

    /// One of the rings of a socket that has several: that which the socket gives at `offset`.
    pub(crate) fn of_socket_at(
        socket: BorrowedFd<'_>,
        len: usize,
        offset: u64,
    ) -> io::Result<Self> {
        // SAFETY: as above; the pages are the socket's ring and stay while they are mapped.
        let base = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            mmap(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, socket, offset)
        }?;
        Memory::at(base.cast(), len)
    }

    /// A file, `len` bytes, to be read.
    pub(crate) fn of_file(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        // SAFETY: as above; what others write to the file is seen here, and only copied.
        let base =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
        Memory::at(base.cast(), len)
    }

    fn at(base: *mut u8, len: usize) -> io::Result<Self> {
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory { base, len })
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where byte `offset` lies; valid for the `len` bytes from there.
    ///
    /// # Panics
    /// When those bytes are not all within the mapping: a wrong computation of ours must not become a
    /// wild pointer.
    #[inline]
    pub(crate) fn pointer(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "{offset}+{len} of {}", self.len);
        // SAFETY: just checked to lie within the mapping, whose length fits an isize.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in the constructor with this length; nothing borrows from it any more. A
        // failure would only leak address space.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
