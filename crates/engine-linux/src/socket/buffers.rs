//! Memory for batches of messages as recvmmsg(2) wants it.

use std::io;
use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::control;
use crate::memory::Memory;
use crate::sys::{self, Messages};

/// Messages of a batch.
const BATCH: usize = 64;
/// Bytes of each: the longest datagram, and the most that are joined.
const MESSAGE_LEN: usize = 65_536;
/// From one message to the next: not a power of two, so that their starts share no cache set.
const STRIDE: usize = MESSAGE_LEN + 64;

/// Room for a batch.
#[derive(Debug)]
pub(super) struct Buffers {
    memory: Memory,
    iovecs: Vec<libc::iovec>,
    controls: Vec<AlignedControl>,
    /// Where messages came from, where that is asked for.
    sources: Vec<libc::sockaddr_storage>,
    messages: Messages,
}

/// Aligned for control data.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct AlignedControl([u8; control::LEN]);

// SAFETY: the pointers in `iovecs` point into `memory`, which moves along and is bound to no thread.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Four MiB.
    pub(super) fn new() -> io::Result<Self> {
        let memory = Memory::anonymous(BATCH * STRIDE)?;
        let iovec = |index| libc::iovec {
            iov_base: memory.pointer(index * STRIDE, MESSAGE_LEN).cast(),
            iov_len: MESSAGE_LEN,
        };
        Ok(Buffers {
            iovecs: (0..BATCH).map(iovec).collect(),
            memory,
            controls: vec![AlignedControl([0; control::LEN]); BATCH],
            // SAFETY: integers, for which zero is a value.
            sources: vec![unsafe { std::mem::zeroed() }; BATCH],
            messages: Messages::new(BATCH),
        })
    }

    /// Messages of a batch.
    pub(super) fn len(&self) -> usize {
        BATCH
    }

    /// Receives up to a batch without waiting; returns how many messages came, at least one. Where they
    /// came from is noted for [`Buffers::frequent`] and [`Buffers::source`] if `sources` are asked for.
    pub(super) fn receive(&mut self, socket: &OwnedFd, sources: bool) -> Result<usize, Errno> {
        let messages = self.messages.get();
        let room = self.iovecs.iter_mut().zip(&mut self.controls).zip(&mut self.sources);
        for (message, ((iovec, control), source)) in messages.iter_mut().zip(room) {
            let (name, len) = match sources {
                true => (std::ptr::from_mut(source).cast(), size_of_val(source)),
                false => (std::ptr::null_mut(), 0),
            };
            message.msg_hdr.msg_name = name;
            message.msg_hdr.msg_namelen = len as libc::socklen_t;
            message.msg_hdr.msg_iov = iovec;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = control::LEN as _;
        }
        // SAFETY: each message has one iovec of `memory`, control data in `controls` and no source or
        // one of `sources`, as long as they say; no reference into any is alive.
        unsafe { sys::receive_messages(socket, messages) }
    }

    /// The source that more than half of the first `received` messages of a batch came from.
    pub(super) fn frequent(&self, received: usize) -> Option<SocketAddr> {
        let sources = self.sources.get(..received)?.iter().map(source);
        // who has more than half of all is left when each pair of two has left (Boyer and Moore)
        let (mut left, mut surplus) = (None, 0_usize);
        for source in sources.clone() {
            if surplus == 0 {
                left = source;
            }
            surplus = if source == left { surplus + 1 } else { surplus - 1 };
        }
        let same = sources.filter(|source| *source == left).count();
        left.filter(|_| same * 2 > received)
    }

    /// Where a message of the last batch came from, if that was asked for.
    pub(super) fn source(&self, index: usize) -> Option<SocketAddr> {
        self.sources.get(index).and_then(source)
    }

    /// Bytes and control data of a message of the last batch.
    ///
    /// # Panics
    /// When `index` is not below [`Buffers::len`].
    pub(super) fn message(&mut self, index: usize) -> (&[u8], &[u8]) {
        let message = &self.messages.get()[index];
        let len = (message.msg_len as usize).min(MESSAGE_LEN);
        let control_len = message.msg_hdr.msg_controllen.min(control::LEN);
        let base = self.memory.pointer(index * STRIDE, MESSAGE_LEN);
        // SAFETY: initialised bytes of the mapping; the kernel writes there only in `receive`, which
        // cannot be called while the reference lives.
        let bytes = unsafe { std::slice::from_raw_parts(base, len) };
        (bytes, &self.controls[index].0[..control_len])
    }
}

/// Address and port, as the kernel writes them.
fn source(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at = std::ptr::from_ref(name);
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: of this family, and shorter than the storage, which is aligned for it.
            let v4 = unsafe { &*at.cast::<libc::sockaddr_in>() };
            let ip = u32::from_be(v4.sin_addr.s_addr);
            Some(SocketAddr::from((ip.to_be_bytes(), u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: of this family, and shorter than the storage, which is aligned for it.
            let v6 = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(v6.sin6_addr.s6_addr.into(), port, 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
