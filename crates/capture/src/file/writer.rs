//! Collects frames in a buffer of whole blocks, hands it on when it is full or at a pause, ends files and begins others.
//!
//! Only whole blocks are handed on, so that a file ends with one however the program ends. It costs less than it saves to
//! write multiples of a page instead: the system collects them anyway.

use std::io;

use super::destination::{Destination, Piece};
use super::encoder::{Encoder, Fcs, Kept};
use super::pack::{self, Ends, Packer};
use crate::choice::Choice;
use crate::history::Before;
use crate::seen::{InterfaceCounts, Opening, Outcome, Seen};
use crate::sink::{Sink, Written};

/// Bytes that are collected before they are written.
pub const BUFFER: usize = 1 << 20;
/// What a block may have beside the bytes of its frame: head, options, a comment.
const BESIDE: usize = 2048;
/// For so long a file holds nothing back.
const FLUSH_NS: u64 = 200_000_000;

/// For so long frames are under way from the thread that noted them. A later one ends the capture exactly; this is for silence.
const UNDER_WAY_NS: u64 = 500_000_000;

/// When the capture ends by itself; 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// After so many frames.
    pub frames: u64,
    /// After so many bytes in files. With compression it is looked at when a buffer has been written.
    pub bytes: u64,
    /// After so many nanoseconds.
    pub duration_ns: u64,
}

/// When a file ends and another begins; 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// A file has at most so many bytes. With compression it is looked at when a buffer has been written.
    pub bytes: u64,
    /// So many nanoseconds after it began.
    pub duration_ns: u64,
    /// A file has so many frames.
    pub frames: u64,
}

/// What a writer is made of.
#[derive(Debug)]
pub struct Parts {
    pub encoder: Encoder,
    pub destination: Destination,
    pub packer: Option<Packer>,
    pub limits: Limits,
    pub rotation: Rotation,
    /// Bytes that are collected before they are written.
    pub buffer: usize,
    /// The most bytes of a frame; 0: all.
    pub snap_len: usize,
    pub fcs: Fcs,
    /// Whether frames are written that did not leave.
    pub unsent: bool,
}

/// A capture file, or several.
#[derive(Debug)]
pub struct Writer {
    parts: Parts,
    opening: Opening,
    /// Whole blocks.
    buffer: Vec<u8>,
    /// When the buffer was handed on.
    flushed_ns: u64,
    /// Of the file that is written now: bytes behind the buffer, frames, when it began.
    file: FileState,
    /// Bytes of all files that were handed on.
    bytes: u64,
    frames: u64,
    /// Bytes that a file ends with.
    trailer: usize,
    full: bool,
    /// The first error has been told, and nothing more is written.
    failed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct FileState {
    bytes: u64,
    frames: u64,
    began_ns: u64,
}

impl Writer {
    /// Writes what files begin with at once, so that what is wrong with them is known before the first frame.
    pub fn open(parts: Parts, opening: &Opening) -> io::Result<Writer> {
        let mut writer = Writer {
            buffer: Vec::with_capacity(parts.buffer + super::encoder::FRAME_MAX + BESIDE),
            parts,
            opening: opening.clone(),
            flushed_ns: opening.unix_ns,
            file: FileState { began_ns: opening.unix_ns, ..FileState::default() },
            bytes: 0,
            frames: 0,
            trailer: 0,
            full: false,
            failed: false,
        };
        writer.parts.encoder.trailer(0, &mut writer.buffer);
        writer.trailer = writer.buffer.len();
        writer.buffer.clear();
        writer.begin_file(opening.unix_ns)?;
        Ok(writer)
    }

    fn begin_file(&mut self, unix_ns: u64) -> io::Result<()> {
        self.file = FileState { began_ns: unix_ns, ..FileState::default() };
        self.parts.encoder.header(&self.opening, &mut self.buffer);
        self.hand_on(Ends::No, |destination, piece| destination.begin(unix_ns, piece))
    }

    /// Ends this file and begins another.
    #[cold]
    fn rotate(&mut self, unix_ns: u64) -> io::Result<()> {
        self.parts.encoder.trailer(unix_ns, &mut self.buffer);
        self.flush(Ends::Yes)?;
        self.begin_file(unix_ns)
    }

    /// Writes what is collected.
    fn flush(&mut self, ends: Ends) -> io::Result<()> {
        if self.buffer.is_empty() && (ends == Ends::No || self.parts.packer.is_none()) {
            return Ok(());
        }
        self.hand_on(ends, Destination::write)
    }

    fn hand_on(
        &mut self,
        ends: Ends,
        act: impl FnOnce(&mut Destination, &Piece<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Parts { encoder, destination, packer, .. } = &mut self.parts;
        let blocks = self.buffer.as_slice();
        let (len, written) = match packer {
            Some(packer) => {
                let bytes = packer.pack(blocks, ends)?;
                // what came before ends with a block, and half of this is none
                (bytes.len(), act(destination, &Piece { bytes, whole: &|_| 0, end: pack::END }))
            }
            None => {
                let whole = |written| encoder.whole(blocks, written);
                let piece = Piece { bytes: blocks, whole: &whole, end: &[] };
                (blocks.len(), act(destination, &piece))
            }
        };
        self.buffer.clear();
        written?;
        self.bytes += len as u64;
        self.file.bytes += len as u64;
        self.full |= destination.is_gone();
        Ok(())
    }

    /// Bytes that are waiting, as far as they say how many bytes of a file they become.
    fn waiting(&self) -> u64 {
        if self.parts.packer.is_some() { 0 } else { self.buffer.len() as u64 }
    }

    /// Whether a frame that came at this time is one too many.
    #[inline]
    fn ends(&self, unix_ns: u64, block: u64) -> bool {
        let Limits { frames, bytes, duration_ns } = self.parts.limits;
        let since = unix_ns.saturating_sub(self.opening.unix_ns);
        frames != 0 && self.frames >= frames
            || bytes != 0 && self.bytes + self.waiting() + block > bytes
            || duration_ns != 0 && since >= duration_ns
    }

    /// Whether a frame that comes at this time belongs into the next file.
    #[inline]
    fn turns(&self, unix_ns: u64, block: u64) -> bool {
        let Rotation { bytes, duration_ns, frames } = self.parts.rotation;
        let since = unix_ns.saturating_sub(self.file.began_ns);
        self.file.frames != 0
            && (bytes != 0 && self.file.bytes + self.waiting() + block > bytes
                || duration_ns != 0 && since >= duration_ns
                || frames != 0 && self.file.frames >= frames)
    }

    fn take(&mut self, seen: &Seen<'_>, before: Before) -> io::Result<()> {
        let kept = Kept::of(seen, self.parts.snap_len, self.parts.fcs);
        let kept = Kept { missing: before.missing, ..kept };
        let block = (self.parts.encoder.block_max(&kept) + self.trailer) as u64;
        if self.ends(seen.unix_ns, block) {
            self.full = true;
            return Ok(());
        }
        if self.turns(seen.unix_ns, block) {
            self.rotate(seen.unix_ns)?;
        }
        self.parts.encoder.frame(seen, &kept, &mut self.buffer);
        self.frames += 1;
        self.file.frames += 1;
        if self.buffer.len() >= self.parts.buffer {
            self.flushed_ns = seen.unix_ns;
            self.flush(Ends::No)?;
        }
        let most = self.parts.limits.frames;
        self.full |= most != 0 && self.frames >= most;
        Ok(())
    }

    /// What happens at a time, and not with a frame.
    fn tick(&mut self, unix_ns: u64) -> io::Result<()> {
        let limit = self.parts.limits.duration_ns;
        let since = unix_ns.saturating_sub(self.opening.unix_ns);
        self.full |= limit != 0 && since >= limit.saturating_add(UNDER_WAY_NS);
        if !self.full && self.turns(unix_ns, 0) {
            self.rotate(unix_ns)?;
        }
        let due = unix_ns.saturating_sub(self.flushed_ns) >= FLUSH_NS;
        if due || self.parts.destination.is_live() {
            self.flushed_ns = unix_ns;
            self.flush(Ends::No)?;
        }
        Ok(())
    }

    /// Nothing is written after an error.
    fn unless_failed(&mut self, act: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        if self.failed {
            return Ok(());
        }
        let done = act(self);
        self.failed = done.is_err();
        done
    }
}

impl Writer {
    fn put(&mut self, seen: &Seen<'_>, before: Before) -> io::Result<()> {
        if self.full || self.failed {
            return Ok(());
        }
        if !self.parts.unsent && matches!(seen.outcome, Outcome::Failed | Outcome::Expired) {
            return Ok(());
        }
        let done = self.take(seen, before);
        self.failed = done.is_err();
        done
    }
}

/// Capture files of those frames that are chosen.
#[derive(Debug)]
pub struct ChosenFrames {
    pub choice: Choice,
    pub writer: Writer,
}

impl Sink for ChosenFrames {
    fn frame(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let ChosenFrames { choice, writer } = self;
        choice.offer(seen, |seen, before| writer.put(seen, before))
    }

    fn pause(&mut self, unix_ns: u64, counts: &[InterfaceCounts]) -> io::Result<()> {
        self.writer.parts.encoder.counts(self.choice.counted(counts));
        self.writer.unless_failed(|writer| writer.tick(unix_ns))
    }

    fn is_full(&self) -> bool {
        self.writer.full
    }

    fn written(&self) -> Written {
        Written {
            frames: self.writer.frames,
            bytes: self.writer.bytes,
            files: self.writer.parts.destination.files(),
            filtered: self.choice.left_out(),
        }
    }

    fn finish(&mut self, unix_ns: u64, counts: &[InterfaceCounts]) -> io::Result<()> {
        self.writer.parts.encoder.counts(self.choice.counted(counts));
        self.writer.unless_failed(|writer| {
            writer.parts.encoder.trailer(unix_ns, &mut writer.buffer);
            writer.flush(Ends::Yes)
        })
    }
}
