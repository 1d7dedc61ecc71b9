//! What takes the frames that were seen: a capture file, a packet log, memory.

use std::io;
use std::path::PathBuf;

use crate::seen::{InterfaceCounts, Seen};

/// What a sink has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Frames that it kept.
    pub frames: u64,
    /// Bytes of its files, as they lie on the disk; those of a ring that were removed again count.
    pub bytes: u64,
    /// Its files by name, those that are there; none of a sink that writes to standard output or to memory.
    pub files: Vec<PathBuf>,
    /// Frames that a filter or a selection left out.
    pub filtered: u64,
}

/// Takes frames, on the writing thread. It is opened with a [`crate::seen::Opening`], by a function of its own.
///
/// After an error nothing more is given to it but [`Sink::finish`].
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
