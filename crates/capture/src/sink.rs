//! What takes the frames that were seen: a capture file, a packet log, memory.

use std::io;
use std::path::PathBuf;

use crate::seen::{InterfaceCounts, Seen};

/// What a sink has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Frames that are in its files, those that are there.
    pub frames: u64,
    /// Bytes of these files, as they lie on the disk.
    pub bytes: u64,
    /// Its files by name, those that are there, or the pipe; none of a sink that writes to standard output or to memory.
    pub files: Vec<PathBuf>,
    /// Frames that a filter or a selection left out.
    pub filtered: u64,
    /// Frames that it would have kept and could not write: those that an error caught on their way, and all behind it.
    pub lost: u64,
    /// Frames of files of a ring that were removed for newer ones.
    pub removed: u64,
}

/// Takes frames, on the writing thread. It is opened with a [`crate::seen::Opening`], by a function of its own.
///
/// After an error it writes nothing more but what [`Sink::finish`] takes to leave whole files, tells no other error, and counts
/// the frames that it would have kept.
pub trait Sink: Send {
    /// A frame. Those of one interface and queue come in order of time; those of several, as far as their blocks allow.
    ///
    /// # Errors
    /// What the system says: a full disk, a reader of a pipe that has gone.
    fn frame(&mut self, seen: &Seen<'_>) -> io::Result<()>;

    /// Nothing came for a while, or a block ended: what it holds back goes on, if somebody may be waiting for it (a pipe), and
    /// what is to happen at a time (a new file, a statistics block) happens. Called some times a second, with the time in
    /// nanoseconds since 1970, and the counts of each interface so far.
    ///
    /// # Errors
    /// What the system says.
    fn pause(&mut self, unix_ns: u64, counts: &[InterfaceCounts]) -> io::Result<()>;

    /// Whether it wants no more frames, because a limit is reached.
    fn is_full(&self) -> bool {
        false
    }

    /// What it has written so far, for the report.
    fn written(&self) -> Written;

    /// All has been seen: what is left is written, and files are ended.
    ///
    /// # Errors
    /// What the system says.
    fn finish(&mut self, unix_ns: u64, counts: &[InterfaceCounts]) -> io::Result<()>;
}
