//! Where records are read to: the data of many, one after the other, and what workers need to know of each. Whoever
//! sends refers to the data where it is; when nobody does any more, the buffer goes back to whoever reads.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use wirebeat_engine::drive::playback::Chunk;
use wirebeat_engine_linux::kernel::Piece;

/// Some memory.
#[derive(Debug)]
enum Memory {
    Own(Vec<u8>),
    /// Of the port, which takes data from there by itself.
    Shared(Piece),
}

impl Default for Memory {
    fn default() -> Self {
        Memory::Own(Vec::new())
    }
}

impl Memory {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Shared(piece) => piece.bytes(),
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Shared(piece) => piece.bytes_mut(),
        }
    }

    fn shared_at(&self) -> Option<u32> {
        match self {
            Memory::Own(_) => None,
            Memory::Shared(piece) => Some(piece.at()),
        }
    }
}

/// What workers need to know of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Nanoseconds since the first record.
    pub(super) time_ns: u64,
    /// Where its data begins.
    pub(super) start: u32,
    pub(super) sub_flow: u32,
    pub(super) tag: u16,
    pub(super) len: u16,
    /// The sum of its data, where it was taken.
    pub(super) sum: Option<u16>,
    /// Its number among those of its tag, from 0.
    pub(super) sequence: u32,
}

/// Records in the order of their times.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Memory,
    used: usize,
    pub(super) heads: Vec<Head>,
}

impl Buffer {
    /// One in memory that the port shares.
    pub(super) fn shared(piece: Piece) -> Buffer {
        Buffer { memory: Memory::Shared(piece), ..Buffer::default() }
    }

    /// Bytes of its memory.
    pub(super) fn len(&self) -> usize {
        self.memory.bytes().len()
    }

    /// Begins anew, with room for so many bytes.
    pub(super) fn clear(&mut self, capacity: usize) {
        self.used = 0;
        self.heads.clear();
        match &mut self.memory {
            // fresh pages take no room until they are written to
            Memory::Own(bytes) if bytes.len() < capacity => *bytes = vec![0; capacity],
            _ => {}
        }
    }

    /// Bytes that are taken, by data and what is known of it.
    pub(super) fn taken(&self) -> usize {
        self.used + self.heads.len() * size_of::<Head>()
    }

    /// Adds a record, whose head says all but where it begins; says whether there was room.
    #[inline]
    pub(super) fn add(&mut self, head: Head, data: &[u8]) -> bool {
        let start = self.used;
        let Some(to) = self.memory.bytes_mut().get_mut(start..start + data.len()) else {
            return false;
        };
        to.copy_from_slice(data);
        self.used += data.len();
        self.heads.push(Head { start: start as u32, ..head });
        true
    }

    /// No longer than it has to be.
    pub(super) fn fitting(mut self) -> Buffer {
        if let Memory::Own(bytes) = &mut self.memory {
            bytes.truncate(self.used);
            bytes.shrink_to_fit();
        }
        self.heads.shrink_to_fit();
        self
    }

    /// The same records in other memory, if there is room in it.
    pub(super) fn moved(self, piece: Piece) -> Buffer {
        let mut memory = Memory::Shared(piece);
        let Some(from) = self.memory.bytes().get(..self.used) else { return self };
        let Some(to) = memory.bytes_mut().get_mut(..self.used) else { return self };
        to.copy_from_slice(from);
        Buffer { memory, ..self }
    }

    /// Bytes of data.
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

/// A buffer on its way.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) buffer: Buffer,
    /// Where it goes back to; one that is sent again and again stays.
    home: Option<Sender<Buffer>>,
}

impl Filled {
    pub(super) fn new(buffer: Buffer, home: Option<Sender<Buffer>>) -> Arc<Filled> {
        Arc::new(Filled { buffer, home })
    }
}

impl Chunk for Filled {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.buffer.memory.bytes()
    }

    #[inline]
    fn shared_at(&self) -> Option<u32> {
        self.buffer.memory.shared_at()
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            // nobody reads any more: then it is freed
            let _ = home.send(std::mem::take(&mut self.buffer));
        }
    }
}

/// What a worker gets.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) filled: Arc<Filled>,
    /// The number of its first record, and how many of them are wanted.
    pub(super) number: u64,
    pub(super) most: usize,
    /// Nanoseconds that its times are later than they say.
    pub(super) later_ns: u64,
    /// By tag: how many records were sent of those that are sent again.
    pub(super) before: Arc<[u32]>,
}
