//! One file, or several one after the other: their names, and the oldest removed where they are a ring.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use wirebeat_units::{Nanos, WallTime};

use super::destination::{Piece, WriteError};

/// The most names that are kept of a series without a ring. Later files are written and not listed.
const NAMES_MAX: usize = 100_000;
/// Endings that stand behind the number of a file, the longest first.
const ENDINGS: [&str; 4] = [".pcapng.zst", ".pcap.zst", ".pcapng", ".pcap"];

/// Files.
#[derive(Debug)]
pub struct Series {
    path: PathBuf,
    options: SeriesOptions,
    /// The one that is being written; none before the first.
    current: Option<File>,
    /// Bytes of it that are whole blocks.
    len: u64,
    /// Those that are there, the oldest first; the last one is being written.
    names: VecDeque<PathBuf>,
    /// How many there were.
    count: u64,
}

/// What files are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// As was asked for: there is one.
    Single,
    /// With number and time in the middle, as dumpcap's files: `name_00001_20261123041500.pcapng`.
    Numbered,
}

/// How files are made.
#[derive(Clone, Copy, Debug)]
pub struct SeriesOptions {
    pub naming: Naming,
    pub overwrite: bool,
    /// The most files that are kept; 0: all.
    pub most: usize,
}

impl Series {
    /// Of files that are still to begin.
    pub fn new(path: &Path, options: SeriesOptions) -> Series {
        Series {
            path: path.to_owned(),
            options,
            current: None,
            len: 0,
            names: VecDeque::new(),
            count: 0,
        }
    }

    /// Begins a file with what it begins with; the one before has ended.
    pub fn begin(&mut self, unix_ns: u64, header: &Piece<'_>) -> io::Result<()> {
        let SeriesOptions { naming, overwrite, most } = self.options;
        let name = named(&self.path, naming, self.count + 1, unix_ns);
        let file = begun(&name, overwrite, header.bytes)
            .map_err(|why| WriteError::of(name.display().to_string(), why))?;
        self.current = Some(file);
        self.len = header.bytes.len() as u64;
        self.count += 1;
        if most != 0 || self.names.len() < NAMES_MAX {
            self.names.push_back(name);
        }
        while most != 0 && self.names.len() > most {
            let Some(oldest) = self.names.pop_front() else { break };
            match fs::remove_file(&oldest) {
                Err(why) if why.kind() != ErrorKind::NotFound => {
                    return Err(WriteError::of(oldest.display().to_string(), why));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes whole blocks. Where only some of them find room, the file ends with the last whole one. Says how many bytes of them
    /// it has, and why not all.
    pub fn write(&mut self, piece: &Piece<'_>) -> (usize, io::Result<()>) {
        let Some(current) = &mut self.current else { return (0, Ok(())) };
        let mut written = 0;
        while let Some(rest) = piece.bytes.get(written..).filter(|rest| !rest.is_empty()) {
            let why = match current.write(rest) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(count) => {
                    written += count;
                    continue;
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(why) => why,
            };
            let whole = (piece.whole)(written);
            self.len += whole as u64;
            // the first error is told; the file is as good as it can be
            let _ = end_early(current, self.len, piece.end);
            let name = self.names.back().unwrap_or(&self.path).display().to_string();
            return (whole, Err(WriteError::of(name, why)));
        }
        self.len += written as u64;
        (written, Ok(()))
    }

    /// Those that are there, the oldest first.
    pub fn files(&self) -> Vec<PathBuf> {
        self.names.iter().cloned().collect()
    }
}

/// Ends a file behind its last whole block.
fn end_early(file: &mut File, len: u64, end: &[u8]) -> io::Result<()> {
    file.set_len(len)?;
    file.seek(SeekFrom::Start(len))?;
    file.write_all(end)
}

/// A new file that begins so. It gets its name when it has that, where the file system can do so: a program that is killed leaves
/// no empty file.
fn begun(path: &Path, overwrite: bool, header: &[u8]) -> io::Result<File> {
    let is_there = fs::symlink_metadata(path).is_ok();
    if is_there && !overwrite {
        return Err(ErrorKind::AlreadyExists.into());
    }
    if !is_there && let Ok(mut file) = nameless(path) {
        file.write_all(header)?;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        match rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => return Ok(file),
            Err(Errno::EXIST) if !overwrite => return Err(ErrorKind::AlreadyExists.into()),
            // it came in between, or there is no /proc
            Err(_) => {}
        }
    }
    let mut options = OpenOptions::new();
    match overwrite {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    let mut file = options.open(path)?;
    file.write_all(header)?;
    Ok(file)
}

/// A file without a name in the folder of this one.
fn nameless(path: &Path) -> Result<File, Errno> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let folder = folder.unwrap_or(Path::new("."));
    rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

/// What the nth file is called that begins at this time.
fn named(path: &Path, naming: Naming, number: u64, unix_ns: u64) -> PathBuf {
    if naming == Naming::Single {
        return path.to_owned();
    }
    let file = path.file_name().unwrap_or_default();
    let (stem, ending) = stem_and_ending(file);
    // RFC 3339 without what stands between the digits: year to second
    let time = WallTime::from_unix(Nanos::new(unix_ns)).to_string();
    let time: String = time.chars().filter(char::is_ascii_digit).take(14).collect();
    let mut name = OsString::from(stem);
    name.push(format!("_{number:05}_{time}"));
    name.push(ending);
    path.with_file_name(name)
}

/// The name of a file, before and from its ending on.
fn stem_and_ending(name: &OsStr) -> (&OsStr, &OsStr) {
    if let Some(text) = name.to_str() {
        for ending in ENDINGS {
            if let Some(stem) = text.strip_suffix(ending) {
                return (OsStr::new(stem), OsStr::new(ending));
            }
        }
    }
    (name, OsStr::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_number_and_time() {
        let unix_ns = 1_795_197_600_123_456_789;
        for (path, name) in [
            ("out.pcapng", "out_00001_20261120180000.pcapng"),
            ("/a.b/out.x.pcap.zst", "/a.b/out.x_00001_20261120180000.pcap.zst"),
            ("out", "out_00001_20261120180000"),
            ("d/.pcapng", "d/_00001_20261120180000.pcapng"),
        ] {
            let named = |naming, number| named(Path::new(path), naming, number, unix_ns);
            assert_eq!(named(Naming::Numbered, 1), Path::new(name));
            assert_eq!(named(Naming::Single, 1), Path::new(path));
        }
        let name = named(Path::new("o.pcap"), Naming::Numbered, 123_456, 0);
        assert_eq!(name, Path::new("o_123456_19700101000000.pcap"));
    }
}
