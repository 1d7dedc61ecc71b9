//! Opens what an archive is read from, which may be a named pipe.
//!
//! The system lets the opening of a pipe wait until somebody opens it for writing, for ever if nobody does. Here that
//! waiting has an end. Once there is a writer, the pipe is read like any other file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};

/// How long is waited for a writer: what a shell starts beside this program is there long before.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Opens a file for reading. [`io::ErrorKind::TimedOut`] where it is a pipe and nobody writes to it.
pub fn open(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.file_type().is_fifo() {
        return File::open(path);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let pipe = rustix::fs::open(path, flags, Mode::empty())?;
    let mut waiting = [PollFd::new(&pipe, PollFlags::IN)];
    // a pipe that was never opened for writing has no event (pipe_poll of fs/pipe.c)
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    if poll(&mut waiting, Some(&patience))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)? - OFlags::NONBLOCK)?;
    Ok(File::from(pipe))
}
