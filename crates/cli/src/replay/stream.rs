//! Recordings that cannot be read twice: standard input, pipes, and what is packed with gzip or Zstandard.
//!
//! A replay reads its files more than once: what is in them is looked for before anything is sent, and `--loop` begins again.
//! So a stream is first written, unpacked, to a temporary file without a name, which is gone however the program ends.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use wirebeat_archive::compressed::{is_packed, unpacked};
use wirebeat_units::fault;

use super::beginning::{LOOKED_AT, refusal};
use crate::failure::Failure;
use crate::file::is_standard;

/// The most that is written: enough for what a person pipes, and not all of a disk.
const SPOOL_MAX: u64 = 16 << 30;
/// Bytes that are read at once.
const CHUNK: usize = 1 << 18;

/// A recording, and where it lies.
#[derive(Debug)]
pub struct Recording {
    /// What the command line calls it.
    pub name: PathBuf,
    /// The file to read: this one, or what was made of it.
    pub path: PathBuf,
    /// Keeps what was made of it.
    _file: Option<File>,
}

impl Recording {
    /// Whether it was read from a stream, or unpacked.
    pub fn is_spooled(&self) -> bool {
        self._file.is_some()
    }
}

/// Opens what the command line names. `notice` tells what takes time.
pub fn recordings(
    names: &[PathBuf],
    mut notice: impl FnMut(&str),
) -> Result<Vec<Recording>, Failure> {
    if names.iter().filter(|name| is_standard(name)).count() > 1 {
        let why = fault!("standard input is one file and can be read once"; "name '-' once");
        return Err(Failure::usage(why).at("<FILE>"));
    }
    let recording = |name: &PathBuf| match is_stream(name) {
        false => Ok(Recording { name: name.clone(), path: name.clone(), _file: None }),
        true => {
            notice(&format!("{}: read to its end before the replay starts", called(name)));
            let file = spool(name)?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            Ok(Recording { name: name.clone(), path, _file: Some(file) })
        }
    };
    names.iter().map(recording).collect()
}

/// Whether a file has to be read from its beginning to its end: what cannot be opened is told later.
pub fn is_stream(name: &Path) -> bool {
    if is_standard(name) {
        return true;
    }
    match fs::metadata(name) {
        Ok(meta) if meta.is_file() => is_packed_file(name),
        Ok(meta) => !meta.is_dir(),
        Err(_) => false,
    }
}

fn is_packed_file(name: &Path) -> bool {
    let mut first = [0; 4];
    File::open(name)
        .and_then(|mut file| file.read_exact(&mut first))
        .is_ok_and(|()| is_packed(&first))
}

fn called(name: &Path) -> String {
    if is_standard(name) { "standard input".to_owned() } else { name.display().to_string() }
}

/// Writes all of a stream, unpacked, to a file without a name.
fn spool(name: &Path) -> Result<File, Failure> {
    let unreadable = |error: io::Error| {
        Failure::usage(format!("cannot read it: {error}")).at(called(name)).hint("check what it is")
    };
    let from: Box<dyn Read> = match is_standard(name) {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(name).map_err(unreadable)?),
    };
    let (mut from, _) = unpacked(from).map_err(unreadable)?;
    let folder = env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let no_room = |error: io::Error| {
        let why = format!("cannot keep it in {}: {error}", folder.display());
        let hint = "name a folder with more room in TMPDIR, or write it to a file yourself";
        Failure::machine(&why).at(called(name)).hint(hint)
    };
    let mut file = unnamed(&folder).map_err(no_room)?;
    let mut chunk = vec![0; CHUNK];
    let (mut written, mut begin) = (0_u64, Vec::new());
    let check = |begin: &[u8]| match refusal(begin) {
        Some(why) => Err(Failure::usage(why).at(called(name))),
        None => Ok(()),
    };
    loop {
        let count = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        written += count as u64;
        if written > SPOOL_MAX {
            let why = format!("it is longer than {} GiB", SPOOL_MAX >> 30);
            let hint = "write it to a file, or make an archive of it with 'wirebeat archive'";
            return Err(Failure::usage(&why).at(called(name)).hint(hint));
        }
        let rest = LOOKED_AT.saturating_sub(begin.len()).min(count);
        begin.extend_from_slice(&chunk[..rest]);
        // one without an end is not read on
        if rest > 0 && begin.len() == LOOKED_AT {
            check(&begin)?;
        }
        file.write_all(&chunk[..count]).map_err(no_room)?;
    }
    if begin.len() < LOOKED_AT {
        check(&begin)?;
    }
    Ok(file)
}

/// A file that has no name, so that nothing is left of it.
fn unnamed(folder: &Path) -> io::Result<File> {
    let access = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match open(folder, flags | OFlags::TMPFILE, access) {
        Ok(file) => Ok(File::from(file)),
        // not every file system has such files
        Err(_) => {
            let name = folder.join(format!(".wirebeat-{}", std::process::id()));
            let file = open(&name, flags | OFlags::CREATE | OFlags::EXCL, access)?;
            fs::remove_file(&name)?;
            Ok(File::from(file))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_temporary_file() {
        let folder = env::temp_dir().join(format!("wirebeat-spool-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut file = unnamed(&folder).unwrap();
        file.write_all(b"here").unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert_eq!(fs::read(&path).unwrap(), b"here");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
    }
}
