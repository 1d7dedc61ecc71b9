//! Collects frames in a buffer of whole blocks, hands it on when it is full or at a pause, ends files and begins others.
//!
//! Only whole blocks are handed on, so that a file ends with one however the program ends. It costs less than it saves to
//! write multiples of a page instead: the system collects them anyway.

use std::collections::VecDeque;
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
    /// The most files that are kept; 0: all.
    pub files: usize,
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
    /// That file has ended, and the next begins with its first frame.
    between: bool,
    /// The files before it that are there, where there is a most: the oldest first.
    ended: VecDeque<FileState>,
    /// Bytes of all files that were handed on.
    bytes: u64,
    /// Frames of all files, and those of them in the buffer.
    frames: u64,
    waiting: u64,
    /// What files had that were removed.
    removed: FileState,
    /// Frames that an error kept from the files.
    lost: u64,
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
            between: false,
            ended: VecDeque::new(),
            bytes: 0,
            frames: 0,
            waiting: 0,
            removed: FileState::default(),
            lost: 0,
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
        self.between = false;
        self.parts.encoder.header(&self.opening, &mut self.buffer);
        self.hand_on(Ends::No, |destination, piece| {
            let begun = destination.begin(unix_ns, piece);
            (if begun.is_ok() { piece.bytes.len() } else { 0 }, begun)
        })?;
        while self.parts.rotation.files != 0 && self.ended.len() >= self.parts.rotation.files {
            let Some(FileState { bytes, frames, .. }) = self.ended.pop_front() else { break };
            self.removed.bytes += bytes;
            self.removed.frames += frames;
        }
        Ok(())
    }

    /// Ends this file. Another begins with the next frame.
    #[cold]
    fn end_file(&mut self, unix_ns: u64) -> io::Result<()> {
        self.parts.encoder.trailer(unix_ns, &mut self.buffer);
        self.flush(Ends::Yes)?;
        if self.parts.rotation.files != 0 {
            self.ended.push_back(self.file);
        }
        self.between = true;
        Ok(())
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
        act: impl FnOnce(&mut Destination, &Piece<'_>) -> (usize, io::Result<()>),
    ) -> io::Result<()> {
        let Parts { encoder, destination, packer, .. } = &mut self.parts;
        let blocks = self.buffer.as_slice();
        let waiting = std::mem::take(&mut self.waiting);
        let (kept, frames, written) = match packer {
            Some(packer) => {
                let packed = packer.pack(blocks, ends);
                let bytes = packed.as_ref().map_or(&[][..], |bytes| bytes);
                // what came before ends with a block, and half of this is none
                let piece = Piece { bytes, whole: &|_| 0, end: pack::END };
                let (kept, written) = match packed.as_ref() {
                    Ok(_) => act(destination, &piece),
                    Err(_) => (0, Ok(())),
                };
                let whole = kept == bytes.len() && packed.is_ok();
                (kept, if whole { waiting } else { 0 }, packed.map(drop).and(written))
            }
            None => {
                let whole = |written| encoder.whole(blocks, written);
                let piece = Piece { bytes: blocks, whole: &whole, end: &[] };
                let (kept, written) = act(destination, &piece);
                let frames = match blocks.get(..kept) {
                    Some(part) if kept < blocks.len() => encoder.frames_in(part),
                    _ => waiting,
                };
                (kept, frames, written)
            }
        };
        self.buffer.clear();
        let missing = waiting.saturating_sub(frames);
        self.frames -= missing;
        self.file.frames -= missing;
        self.bytes += kept as u64;
        self.file.bytes += kept as u64;
        self.full |= destination.is_gone();
        if written.is_err() {
            self.lost += missing;
        }
        written
    }

    /// Bytes in the buffer, as far as they say how many bytes of a file they become.
    fn buffered(&self) -> u64 {
        if self.parts.packer.is_some() { 0 } else { self.buffer.len() as u64 }
    }

    /// Whether a frame that came at this time is one too many.
    #[inline]
    fn ends(&self, unix_ns: u64, block: u64) -> bool {
        let Limits { frames, bytes, duration_ns } = self.parts.limits;
        let since = unix_ns.saturating_sub(self.opening.unix_ns);
        frames != 0 && self.frames >= frames
            || bytes != 0 && self.bytes + self.buffered() + block > bytes
            || duration_ns != 0 && since >= duration_ns
    }

    /// Whether a frame that comes at this time belongs into the next file.
    #[inline]
    fn turns(&self, unix_ns: u64, block: u64) -> bool {
        let Rotation { bytes, duration_ns, frames, .. } = self.parts.rotation;
        let since = unix_ns.saturating_sub(self.file.began_ns);
        self.file.frames != 0
            && !self.between
            && (bytes != 0 && self.file.bytes + self.buffered() + block > bytes
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
        // where the file before cannot be ended or the next not begun, it does not come into the buffer
        self.turn(seen.unix_ns, block).inspect_err(|_| self.lost += 1)?;
        self.parts.encoder.frame(seen, &kept, &mut self.buffer);
        self.frames += 1;
        self.waiting += 1;
        self.file.frames += 1;
        if self.buffer.len() >= self.parts.buffer {
            self.flushed_ns = seen.unix_ns;
            self.flush(Ends::No)?;
        }
        let most = self.parts.limits.frames;
        self.full |= most != 0 && self.frames >= most;
        Ok(())
    }

    /// Ends the file that is full, and begins the one for a frame that comes now.
    #[inline]
    fn turn(&mut self, unix_ns: u64, block: u64) -> io::Result<()> {
        if self.turns(unix_ns, block) {
            self.end_file(unix_ns)?;
        }
        if self.between { self.begin_file(unix_ns) } else { Ok(()) }
    }

    /// What happens at a time, and not with a frame.
    fn tick(&mut self, unix_ns: u64) -> io::Result<()> {
        let limit = self.parts.limits.duration_ns;
        let since = unix_ns.saturating_sub(self.opening.unix_ns);
        self.full |= limit != 0 && since >= limit.saturating_add(UNDER_WAY_NS);
        if !self.full && self.turns(unix_ns, 0) {
            self.end_file(unix_ns)?;
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
        let unwanted =
            !self.parts.unsent && matches!(seen.outcome, Outcome::Failed | Outcome::Expired);
        if self.full || unwanted {
            return Ok(());
        }
        if self.failed {
            self.lost += 1;
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
        let FileState { bytes, frames, .. } = self.writer.removed;
        Written {
            frames: self.writer.frames - frames,
            bytes: self.writer.bytes - bytes,
            files: self.writer.parts.destination.files(),
            filtered: self.choice.left_out(),
            lost: self.writer.lost,
            removed: frames,
        }
    }

    fn finish(&mut self, unix_ns: u64, counts: &[InterfaceCounts]) -> io::Result<()> {
        self.writer.parts.encoder.counts(self.choice.counted(counts));
        if self.writer.between {
            return Ok(());
        }
        self.writer.unless_failed(|writer| {
            writer.parts.encoder.trailer(unix_ns, &mut writer.buffer);
            writer.flush(Ends::Yes)
        })
    }
}
