//! Zstandard (RFC 8878): a file is one frame, and each piece of a capture ends a block of it, so that a file that ends anywhere is
//! readable up to the last piece. Frames one after the other would say the same; Wireshark 4.0 reads the second of them wrong.

use std::fmt;
use std::io;

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::compress_bound;

/// The fastest of the ordinary levels: the writing thread has to keep up with the wire.
const LEVEL: i32 = 1;
/// What a block adds beside its content, with room to spare; so has the end of a frame.
const BESIDE: usize = 64;
/// An empty block that is the last one (RFC 8878 §3.1.1.2): ends a frame after any whole block.
pub const END: &[u8] = &[1, 0, 0];

/// Whether a file ends with a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    No,
    Yes,
}

/// Packs pieces.
pub struct Packer {
    encoder: Encoder<'static>,
    out: Vec<u8>,
}

impl Packer {
    /// Packs with what `zstd -1` does. There is no check sum: a file that ends early could not have it.
    pub fn new() -> io::Result<Packer> {
        Ok(Packer { encoder: Encoder::new(LEVEL)?, out: Vec::new() })
    }

    /// What a piece becomes.
    pub fn pack(&mut self, piece: &[u8], ends: Ends) -> io::Result<&[u8]> {
        self.out.clear();
        self.out.reserve(compress_bound(piece.len()) + BESIDE);
        let mut from = InBuffer::around(piece);
        while from.pos() < piece.len() {
            self.step(|encoder, into| encoder.run(&mut from, into))?;
        }
        let mut left = 1;
        while left > 0 {
            left = self.step(|encoder, into| match ends {
                Ends::No => encoder.flush(into),
                Ends::Yes => encoder.finish(into, false),
            })?;
        }
        if ends == Ends::Yes {
            self.encoder.reinit()?;
        }
        Ok(&self.out)
    }

    /// Appends what the encoder makes, where there is room.
    fn step(
        &mut self,
        act: impl FnOnce(&mut Encoder<'static>, &mut OutBuffer<'_, Vec<u8>>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let made = self.out.len();
        self.out.reserve(BESIDE);
        act(&mut self.encoder, &mut OutBuffer::around_pos(&mut self.out, made))
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}
