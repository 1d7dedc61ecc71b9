//! A capture in memory, bounded: the newest frames are kept, and what is fetched is a whole file.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wirebeat_units::{Bytes, Fault, fault};

use super::destination::Destination;
use super::options::CaptureOptions;
use crate::seen::Opening;
use crate::sink::Sink;

/// The least memory of a capture: a few of the longest frames.
const LEAST: u64 = 1 << 20;
/// Pieces that the memory is divided into: so much of it goes at once when it is full.
const PIECES: u64 = 16;

/// What is held.
#[derive(Debug, Default)]
struct Ring {
    /// What a file begins with.
    header: Vec<u8>,
    /// Whole blocks, the oldest first.
    pieces: VecDeque<Box<[u8]>>,
    /// Bytes of the pieces.
    len: u64,
    most: u64,
    /// Bytes of pieces that went for newer ones.
    dropped: u64,
}

/// The memory, as the sink and those who fetch share it.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<Ring>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        // a thread that ended while it held the lock left whole pieces
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes whole blocks: the header first.
    pub fn push(&self, blocks: &[u8]) {
        let mut ring = self.lock();
        if ring.header.is_empty() {
            ring.header = blocks.into();
            return;
        }
        ring.len += blocks.len() as u64;
        ring.pieces.push_back(blocks.into());
        while ring.len > ring.most && ring.pieces.len() > 1 {
            let Some(oldest) = ring.pieces.pop_front() else { break };
            ring.len -= oldest.len() as u64;
            ring.dropped += oldest.len() as u64;
        }
    }
}

/// A capture in memory. Its sink writes to it, on another thread; it can be fetched at any time, also when the sink has ended.
#[derive(Clone, Debug)]
pub struct MemoryCapture(Shared);

impl MemoryCapture {
    /// All that is held, as a file. While frames still come, the newest are those of the last pause.
    pub fn fetch(&self) -> Vec<u8> {
        let ring = self.0.lock();
        let mut file = Vec::with_capacity(ring.header.len() + ring.len as usize);
        file.extend_from_slice(&ring.header);
        ring.pieces.iter().for_each(|piece| file.extend_from_slice(piece));
        file
    }

    /// Bytes of frames that were given up for newer ones.
    pub fn dropped(&self) -> Bytes {
        Bytes::new(self.0.lock().dropped)
    }
}

/// Opens a capture in memory that holds the newest `most` bytes: a sink to give frames to, and a handle to fetch them by. Of the
/// options, those that concern files and compression are not looked at.
///
/// # Errors
/// Invalid options, less memory than 1 MiB.
pub fn in_memory(
    most: Bytes,
    options: &CaptureOptions,
    opening: &Opening,
) -> Result<(Box<dyn Sink>, MemoryCapture), Fault> {
    if most.get() < LEAST {
        return Err(fault!("a capture in {most} of memory is too small"; "give it 1MiB or more"));
    }
    let ring = Ring { most: most.get(), ..Ring::default() };
    let shared = Shared(Arc::new(Mutex::new(ring)));
    let piece = usize::try_from(most.get() / PIECES).unwrap_or(usize::MAX);
    // pieces that go may not be what others are told by
    let options = CaptureOptions { compress: Some(false), ..options.clone() };
    options.check_frames()?;
    let sink = options.sink(Destination::Memory(shared.clone()), piece, opening);
    let sink = sink.map_err(|error| error.fault())?;
    Ok((sink, MemoryCapture(shared)))
}
