//! Files that are read whole: regular ones. A pipe or a device might never begin, or never end.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use wirebeat_units::{Fault, fault};

/// Opens a file to read it; `None` where it is not a regular one. Never waits for the writer of a pipe.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    // looked at before it is opened too, because opening some devices does something
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    // of the open file, so that nobody can exchange it in between
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Why what is to be replayed cannot be read again and again; `None` where it is a regular file.
pub(crate) fn refusal(metadata: &Metadata) -> Option<Fault> {
    if metadata.is_file() {
        return None;
    }
    Some(match metadata.is_dir() {
        true => fault!("it is a folder, and a file is needed"; "name a file in it"),
        false => {
            fault!(
                "it is not a regular file";
                "write it to one first, or give it to 'wirebeat replay', which does"
            )
        }
    })
}
