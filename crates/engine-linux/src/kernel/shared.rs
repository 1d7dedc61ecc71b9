//! Memory that the transmit programs share with user space beside their rings: what is replayed is read into it, and
//! slots of a ring say where in it a part of their frame lies. It is copied once, by the program, on its CPU.
//!
//! It knows neither records nor rings: it hands out pieces, each to one owner.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use libbpf_rs::MapHandle;
use wirebeat_engine::port::PortError;

use super::load::{memory, system};
use super::mapped::Mapped;
use super::verifier;

/// The most that is shared. The verifier allows offsets below 2^29.
pub const SHARED_MAX: usize = 448 << 20;
/// `WB_SHARED_TAIL`.
const TAIL: usize = 4096;
/// Pieces begin at multiples of this.
const ALIGNED: usize = 4096;

/// Some memory.
#[derive(Debug)]
pub struct Shared {
    map: MapHandle,
    len: u32,
}

/// A piece of it, which nobody else has.
#[derive(Debug)]
pub struct Piece {
    memory: Arc<Mapped>,
    at: usize,
    len: usize,
}

impl Shared {
    /// How much of it so many bytes take.
    pub fn room(bytes: usize) -> usize {
        bytes.next_multiple_of(ALIGNED)
    }

    /// Memory for pieces of these lengths, and the pieces. All of it together is at most [`SHARED_MAX`] when each is
    /// taken as [`Shared::room`] says.
    pub fn new(lengths: &[usize]) -> Result<(Shared, Vec<Piece>), PortError> {
        verifier::listen();
        let all: usize = lengths.iter().map(|&len| Shared::room(len)).sum();
        let len = u32::try_from(all).unwrap_or(u32::MAX);
        let map = memory("shared", len.saturating_add(TAIL as u32), 1)
            .map_err(|error| system("making memory for what is replayed", "", error))?;
        let mapped = Mapped::new(map.as_fd(), all).map_err(|source| PortError::System {
            what: "mapping memory for what is replayed".into(),
            on: "the kernel engine".into(),
            source,
        })?;
        let memory = Arc::new(mapped);
        let mut at = 0;
        let pieces = lengths.iter().map(|&len| {
            let piece = Piece { memory: Arc::clone(&memory), at, len };
            at += Shared::room(len);
            piece
        });
        let pieces = pieces.collect();
        Ok((Shared { map, len }, pieces))
    }

    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }
}

impl Piece {
    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: pieces of one memory do not overlap, whoever writes to this one holds it exclusively, and programs
        // only read.
        unsafe { self.memory.bytes_of(self.at, self.len) }
    }

    /// The same, to be written to.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` keeps other users of this piece away.
        unsafe { self.memory.bytes_of_mut(self.at, self.len) }
    }

    /// Where it begins in the memory.
    #[inline]
    pub fn at(&self) -> u32 {
        self.at as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_written_to_by_their_owners_alone() {
        wirebeat_testbed::require!(wirebeat_testbed::Capability::Bpf);
        let (shared, mut pieces) = Shared::new(&[100, 5000, 0, 64]).unwrap();
        assert_eq!(shared.len(), 4096 + 8192 + 4096);
        assert_eq!(pieces.iter().map(Piece::at).collect::<Vec<_>>(), [0, 4096, 12288, 12288]);
        for (value, piece) in pieces.iter_mut().enumerate() {
            piece.bytes_mut().fill(value as u8 + 1);
        }
        let lens: Vec<usize> = pieces.iter().map(|piece| piece.bytes().len()).collect();
        assert_eq!(lens, [100, 5000, 0, 64]);
        for (value, piece) in pieces.iter().enumerate() {
            assert!(piece.bytes().iter().all(|&byte| byte == value as u8 + 1));
        }
    }
}
