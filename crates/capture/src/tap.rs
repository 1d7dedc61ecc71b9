//! The side of the threads that receive or send: a frame is noted in a block of memory, and a full block goes to the writing
//! thread.
//!
//! For each frame there is one copy and no lock, no allocation and no system call; handing a block over takes one of each at
//! the most, once for some thousand frames.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use wirebeat_meter::observation::Sampled;
use wirebeat_units::Nanos;

use crate::pump::Message;
use crate::record::{HEAD, encode};
use crate::seen::Outcome;

/// How long frames stay in a block that does not fill.
const HAND_OVER: Nanos = Nanos::from_millis(20);
/// How much earlier than now a frame may have arrived that a thread has not seen yet: as long as a receive ring of the system
/// keeps frames back.
const BEHIND: Nanos = Nanos::from_millis(20);

/// A frame, as the thread that received or sent it knows it. The fields are those of [`crate::seen::Seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// What became of it.
    pub outcome: Outcome,
    /// When it arrived or left, on the monotonic clock.
    pub at: Nanos,
    /// The number of its flow.
    pub flow: Option<u16>,
    /// Its sequence number.
    pub sequence: Option<u32>,
    /// When it left by its probe.
    pub sent: Option<Nanos>,
    /// When it was to leave.
    pub due: Option<Nanos>,
    /// Bytes of the frame, with FCS.
    pub frame_len: u32,
    /// What the meter took of it beside these.
    pub sampled: Option<Sampled>,
    /// The queue that it came or went by.
    pub queue: u16,
    /// What the card chose that queue by.
    pub hash: Option<u32>,
    /// Its bytes, without FCS; the tap keeps the first of them.
    pub bytes: &'a [u8],
}

/// Frames on their way to the writing thread.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// The tap, by its number.
    pub(crate) tap: usize,
    pub(crate) records: Vec<u8>,
    /// All frames of this tap that are earlier have been handed over.
    pub(crate) until: Nanos,
    /// What was counted since the block before.
    pub(crate) seen: u64,
    pub(crate) lost: u64,
    pub(crate) receiver_drops: u64,
}

/// Where a thread notes the frames that it receives or sends. What it has noted is handed over when it is dropped.
pub struct Tap {
    number: usize,
    snap_len: usize,
    /// The block that is filled; none while the writer has all of them.
    records: Option<Vec<u8>>,
    full: Sender<Message>,
    empty: Receiver<Vec<u8>>,
    /// Nobody wants frames any more.
    closed: Arc<AtomicBool>,
    seen: u64,
    lost: u64,
    receiver_drops: u64,
    last: Nanos,
    handed_over: Nanos,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Tap {
    pub(crate) fn new(
        (number, snap_len): (usize, u32),
        full: Sender<Message>,
        empty: Receiver<Vec<u8>>,
        closed: Arc<AtomicBool>,
    ) -> Tap {
        Tap {
            number,
            snap_len: if snap_len == 0 { usize::MAX } else { snap_len as usize },
            records: None,
            full,
            empty,
            closed,
            seen: 0,
            lost: 0,
            receiver_drops: 0,
            last: Nanos::ZERO,
            handed_over: Nanos::ZERO,
        }
    }

    /// Notes a frame. Where the writing thread has all blocks, it is counted as lost.
    #[inline]
    pub fn note(&mut self, note: &Note<'_>) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        self.seen += 1;
        self.last = note.at;
        let caught = note.bytes.len().min(self.snap_len);
        let wanted = HEAD + caught;
        let has_room =
            self.records.as_ref().is_some_and(|block| block.capacity() - block.len() >= wanted);
        if !has_room && !self.turn(wanted) {
            self.lost += 1;
            return;
        }
        if let Some(block) = &mut self.records {
            encode(block, note, &note.bytes[..caught]);
        }
    }

    /// The most bytes of a frame that it keeps.
    pub fn snap_len(&self) -> usize {
        self.snap_len
    }

    /// Frames that were to be noted and never came here: lost by a ring on the way.
    pub fn missed(&mut self, frames: u64) {
        self.seen += frames;
        self.lost += frames;
    }

    /// Frames that the receiver lost before it could measure them.
    pub fn dropped(&mut self, frames: u64) {
        self.receiver_drops += frames;
    }

    /// Whether nobody wants frames any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// It is `now`, and all that arrived long ago has been noted: what stands in a block for long is handed over. To be called
    /// between batches, several times in 100 ms.
    #[inline]
    pub fn pass(&mut self, now: Nanos) {
        if now.saturating_sub(self.handed_over) >= HAND_OVER {
            let until = now.saturating_sub(BEHIND);
            self.hand_over(until, now);
        }
    }

    /// Gets a block with room; says whether there is one.
    #[cold]
    fn turn(&mut self, wanted: usize) -> bool {
        if self.records.is_some() {
            self.hand_over(self.last.saturating_sub(BEHIND), self.last);
        }
        if self.records.is_none() {
            self.records = self.empty.try_recv().ok();
        }
        self.records.as_ref().is_some_and(|block| block.capacity() - block.len() >= wanted)
    }

    #[cold]
    fn hand_over(&mut self, until: Nanos, now: Nanos) {
        self.handed_over = now;
        self.send(until);
    }

    fn send(&mut self, until: Nanos) {
        let block = Block {
            tap: self.number,
            records: self.records.take().unwrap_or_default(),
            until,
            seen: std::mem::take(&mut self.seen),
            lost: std::mem::take(&mut self.lost),
            receiver_drops: std::mem::take(&mut self.receiver_drops),
        };
        // a writer that is gone has said why
        let _ = self.full.send(Message::Block(block));
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.send(Nanos::MAX);
    }
}
