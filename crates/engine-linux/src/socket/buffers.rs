//! Memory for batches of messages as recvmmsg(2) wants it.

use std::io;
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
    controls: Vec<Control>,
    messages: Messages,
}

/// Aligned for control data.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Control([u8; control::LEN]);

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
            controls: vec![Control([0; control::LEN]); BATCH],
            messages: Messages::new(BATCH),
        })
    }

    /// Messages of a batch.
    pub(super) fn len(&self) -> usize {
        BATCH
    }

    /// Receives up to a batch without waiting; returns how many messages came, at least one.
    pub(super) fn receive(&mut self, socket: &OwnedFd) -> Result<usize, Errno> {
        let messages = self.messages.get();
        let room = self.iovecs.iter_mut().zip(&mut self.controls);
        for (message, (iovec, control)) in messages.iter_mut().zip(room) {
            message.msg_hdr.msg_iov = iovec;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = control::LEN as _;
        }
        // SAFETY: each message has one iovec of `memory` and control data in `controls`, as long as
        // they say; no reference into either is alive.
        unsafe { sys::receive_messages(socket, messages) }
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
