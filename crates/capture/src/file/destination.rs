//! Where the bytes of a capture go: a series of files, a pipe, or memory.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use wirebeat_units::{Fault, fault, into_fault};

use super::memory::Shared;
use super::series::Series;

/// What standard output is called in messages.
const STANDARD_OUTPUT: &str = "standard output";

/// A capture that could not be written any further. An [`io::Error`] of a sink holds it.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub struct WriteError {
    /// The file, or what it is called.
    pub file: String,
    /// What the system says.
    pub why: io::Error,
}

impl WriteError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let WriteError { file, why } = self;
        if why.kind() == io::ErrorKind::AlreadyExists {
            return fault!("the file '{file}' is there already"; "choose another name, or remove it first");
        }
        let fault = fault!("cannot write the capture '{file}': {why}");
        match why.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => fault.or_hint(
                "make room, or let it take less with a snap length, a filter, a ring of files or compression; what was written \
                 before is whole",
            ),
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
                fault.or_hint("write to a folder that is there and that you may write to")
            }
            io::ErrorKind::TimedOut => fault.or_hint("its reader has read nothing for long; have it read, or write to a file"),
            _ => fault,
        }
    }

    /// The fault that an error of a sink holds, or what the system says.
    pub fn fault_of(error: &io::Error) -> Fault {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<WriteError>());
        inner.map_or_else(|| Fault::from(error.to_string().as_str()), WriteError::fault)
    }

    /// As the error of a sink.
    pub(super) fn of(file: impl Into<String>, why: io::Error) -> io::Error {
        io::Error::new(why.kind(), WriteError { file: file.into(), why })
    }
}

into_fault!(WriteError);

/// Where bytes go.
#[derive(Debug)]
pub enum Destination {
    Files(Series),
    Pipe(Pipe),
    Memory(Shared),
}

/// Bytes that belong together.
pub struct Piece<'a> {
    pub bytes: &'a [u8],
    /// How many of the first bytes are whole blocks, where not all could be written.
    pub whole: &'a dyn Fn(usize) -> usize,
    /// What a file needs to end there.
    pub end: &'static [u8],
}

impl Destination {
    /// Takes what a file begins with.
    pub fn begin(&mut self, unix_ns: u64, header: &Piece<'_>) -> io::Result<()> {
        match self {
            Destination::Files(series) => series.begin(unix_ns, header),
            _ => self.write(header).1,
        }
    }

    /// Takes whole blocks. Says how many bytes of them are there as whole blocks, and why not all.
    pub fn write(&mut self, piece: &Piece<'_>) -> (usize, io::Result<()>) {
        match self {
            Destination::Files(series) => series.write(piece),
            Destination::Pipe(pipe) => pipe.write(piece),
            Destination::Memory(shared) => {
                shared.push(piece.bytes);
                (piece.bytes.len(), Ok(()))
            }
        }
    }

    /// Whether somebody waits for each byte: others than a file.
    pub fn is_live(&self) -> bool {
        !matches!(self, Destination::Files(_))
    }

    /// Whether nobody takes any more: a reader of a pipe that has gone.
    pub fn is_gone(&self) -> bool {
        matches!(self, Destination::Pipe(Pipe { gone: true, .. }))
    }

    /// The files that are there, or the pipe; none where it has no name.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Destination::Files(series) => series.files(),
            Destination::Pipe(pipe) if pipe.name != STANDARD_OUTPUT => vec![(&pipe.name).into()],
            _ => Vec::new(),
        }
    }
}

/// Standard output, a named pipe, or a device.
#[derive(Debug)]
pub struct Pipe {
    file: File,
    name: String,
    /// The reader has gone.
    gone: bool,
    /// For so long a reader may read nothing, in seconds.
    patience_s: i64,
}

/// A reader that is stopped for longer would keep the capture from its end.
const PATIENCE_S: i64 = 30;

impl Pipe {
    /// Standard output, unless that is a terminal.
    pub fn standard_output() -> Result<Pipe, Fault> {
        let stdout = io::stdout();
        if stdout.is_terminal() {
            return Err(fault!(
                "a capture is not written to a terminal";
                "pipe it into a program, for example '| wireshark -k -i -', or name a file"
            ));
        }
        let file = stdout.as_fd().try_clone_to_owned();
        let file = file.map_err(|why| WriteError { file: STANDARD_OUTPUT.into(), why }.fault())?;
        Ok(Pipe {
            file: file.into(),
            name: STANDARD_OUTPUT.into(),
            gone: false,
            patience_s: PATIENCE_S,
        })
    }

    /// A named pipe or a device that is there.
    pub fn open(path: &std::path::Path) -> Result<Pipe, Fault> {
        use rustix::fs::{Mode, fcntl_setfl, open};
        let name = path.display().to_string();
        let refused = |why: Errno| match why {
            // a named pipe without a reader (fifo(7))
            Errno::NXIO => fault!(
                "no program reads the pipe '{name}'";
                "start the reader first, for example 'wireshark -k -i {name}'"
            ),
            why => WriteError { file: name.clone(), why: why.into() }.fault(),
        };
        // it would wait for a reader for ever
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = open(path, flags, Mode::empty()).map_err(refused)?;
        fcntl_setfl(&file, OFlags::empty()).map_err(refused)?;
        Ok(Pipe { file: file.into(), name, gone: false, patience_s: PATIENCE_S })
    }

    fn write(&mut self, piece: &Piece<'_>) -> (usize, io::Result<()>) {
        let mut written = 0;
        // so much finds room where the system says that there is some (pipe(7): PIPE_BUF), and the thread does not get stuck
        for part in piece.bytes.chunks(4096) {
            if self.gone {
                break;
            }
            match self.wait().and_then(|()| self.file.write_all(part)) {
                Ok(()) => written += part.len(),
                Err(why) if why.kind() == io::ErrorKind::BrokenPipe => self.gone = true,
                Err(why) => {
                    return ((piece.whole)(written), Err(WriteError::of(&self.name, why)));
                }
            }
        }
        let whole = if self.gone { (piece.whole)(written) } else { written };
        (whole, Ok(()))
    }

    /// Waits for room.
    fn wait(&self) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
        let timeout = Timespec { tv_sec: self.patience_s, tv_nsec: 0 };
        loop {
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn piece(bytes: &[u8]) -> Piece<'_> {
        Piece { bytes, whole: &|written| written / 10_000 * 10_000, end: &[] }
    }

    #[test]
    fn a_reader_that_does_not_read_ends_it() {
        let (reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut pipe = Pipe { file, name: "here".into(), gone: false, patience_s: 1 };
        let (kept, error) = pipe.write(&piece(&vec![7; 10 << 20]));
        let error = error.unwrap_err();
        // what a pipe holds (pipe(7): 65,536 bytes), as far as it is whole blocks
        assert_eq!(kept, 60_000);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let fault = WriteError::fault_of(&error);
        assert!(fault.what.contains("'here'") && fault.hint.unwrap().contains("read"));
        // and one that goes does so without an error
        drop(reader);
        let (kept, done) = pipe.write(&piece(&[7; 100]));
        assert_eq!((kept, done.is_ok()), (0, true));
        assert!(Destination::Pipe(pipe).is_gone());
    }

    #[test]
    fn all_bytes_go_through_a_pipe_in_their_order() {
        let (mut reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut pipe = Pipe { file, name: "here".into(), gone: false, patience_s: 60 };
        let bytes: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 251) as u8).collect();
        let sent = bytes.clone();
        let thread = std::thread::spawn(move || pipe.write(&piece(&sent)));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == bytes);
        let (kept, done) = thread.join().unwrap();
        assert_eq!((kept, done.is_ok()), (3_000_001, true));
    }
}
