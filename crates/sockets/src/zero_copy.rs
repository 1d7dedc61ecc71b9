//! Sends that hand memory to the kernel instead of copying it (`MSG_ZEROCOPY`): which memory may be handed over, and what became of
//! it.
//!
//! The kernel reads such memory until the peer has acknowledged it, and again if it has to repeat it. So only bytes that never change
//! may be: those of a [`ConstantMemory`], which lives as long as the stack. What a program makes for each send lies elsewhere, and is
//! copied as ever.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::net::SendFlags;
use wirebeat_host::{MSG_ZEROCOPY, zero_copy_notice};

/// Below some 10 kB it costs more to pin pages and to tell of them than to copy (Documentation/networking/msg_zerocopy.rst).
const LEAST: usize = 10 << 10;
/// Notifications that are read in a turn of a connection; each may tell of many sends.
const NOTICES: usize = 16;
/// Those that are read when it ends. The kernel keeps no more than `net.core.optmem_max` has room for, which is some hundreds.
const LAST_NOTICES: usize = 4096;

/// The flag of such a send.
pub(crate) const HAND_OVER: SendFlags = SendFlags::from_bits_retain(MSG_ZEROCOPY);

/// Memory that never changes, in the order of its addresses.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConstantMemory(Vec<Arc<[u8]>>);

impl ConstantMemory {
    /// These pieces of memory, those left out that are too small to be worth it.
    pub fn new(pieces: impl IntoIterator<Item = Arc<[u8]>>) -> Self {
        let mut pieces: Vec<_> = pieces.into_iter().filter(|piece| piece.len() >= LEAST).collect();
        pieces.sort_unstable_by_key(|piece| piece.as_ptr());
        pieces.dedup_by(|a, b| Arc::ptr_eq(a, b));
        ConstantMemory(pieces)
    }

    /// Whether `bytes` lie in it, and are enough to be worth it.
    pub(crate) fn hands_over(&self, bytes: &[u8]) -> bool {
        let range = bytes.as_ptr_range();
        let behind = self.0.partition_point(|piece| piece.as_ptr() <= range.start);
        let piece = behind.checked_sub(1).and_then(|at| self.0.get(at));
        bytes.len() >= LEAST && piece.is_some_and(|piece| range.end <= piece.as_ptr_range().end)
    }
}

/// Without the bytes.
impl fmt::Debug for ConstantMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths: Vec<usize> = self.0.iter().map(|piece| piece.len()).collect();
        write!(f, "ConstantMemory {{ lengths: {lengths:?} }}")
    }
}

/// What became of sends without a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroCopyCounters {
    /// Sends whose memory was handed over.
    pub sends: u64,
    /// Those of them that the kernel has told by now that it is done with.
    pub told: u64,
    /// Those of the told that it copied after all.
    pub copied: u64,
    /// Sends that were copied, because the kernel had no room for another that is not (ENOBUFS).
    pub no_room: u64,
}

impl ZeroCopyCounters {
    /// Reads what the kernel tells of earlier sends of a socket; `true`: there may be more.
    pub(crate) fn read(&mut self, socket: &OwnedFd) -> bool {
        self.read_up_to(NOTICES, socket)
    }

    /// The same of a connection that ends.
    pub(crate) fn read_last(&mut self, socket: &OwnedFd) {
        self.read_up_to(LAST_NOTICES, socket);
    }

    fn read_up_to(&mut self, most: usize, socket: &OwnedFd) -> bool {
        for _ in 0..most {
            let Ok(Some(notice)) = zero_copy_notice(socket.as_fd()) else { return false };
            let sends = u64::from(notice.sends);
            self.told += sends;
            self.copied += if notice.copied { sends } else { 0 };
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enough_bytes_within_constant_memory_are_handed_over() {
        let piece = |len: usize| Arc::<[u8]>::from(vec![0; len]);
        let pieces = [piece(LEAST), piece(100_000), piece(LEAST - 1)];
        let memory = ConstantMemory::new([&pieces[..], &pieces[..]].concat());
        assert_eq!(memory.0.len(), 2, "each once, and not the small one: {memory:?}");
        for piece in &pieces[..2] {
            assert!(memory.hands_over(piece));
            assert!(memory.hands_over(&piece[piece.len() - LEAST..]));
            assert!(!memory.hands_over(&piece[..LEAST - 1]));
        }
        assert!(!memory.hands_over(&pieces[2]) && !memory.hands_over(&vec![0; 100_000]));
        assert!(!ConstantMemory::default().hands_over(&pieces[1]));
        // part of a larger one that is not: it begins within, and ends behind
        let all = piece(3 * LEAST);
        let low = ConstantMemory::new([Arc::clone(&all)]);
        assert!(low.hands_over(&all[LEAST..]) && low.hands_over(&all[..2 * LEAST]));
    }
}
