//! Where control sockets lie, and how what a dead session left is found.
//!
//! A socket without a path of its own lies in a directory that belongs to its owner alone, under the number of
//! its process. Whether a socket belongs to a living session is asked of the socket: nobody answers on a dead one.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The most entries of the directory that are looked at.
const ENTRIES: usize = 4096;
/// How names of sockets end.
const ENDING: &str = "sock";

/// The directory of this user's sockets: `$XDG_RUNTIME_DIR/wirebeat`, or `/run/wirebeat` for root.
pub fn directory() -> Result<PathBuf, String> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_absolute());
    match runtime {
        Some(runtime) => Ok(Path::new(&runtime).join("wirebeat")),
        None if user() == 0 => Ok(PathBuf::from("/run/wirebeat")),
        None => {
            Err("XDG_RUNTIME_DIR is not set, so there is no place for a control socket; give a \
                     path"
                .to_owned())
        }
    }
}

/// Where the socket of this process lies unless a path is given. The directory is made, and what dead sessions
/// left in it is removed.
pub fn default_path() -> Result<PathBuf, String> {
    let directory = directory()?;
    let made = DirBuilder::new().mode(0o700).create(&directory);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(format!("cannot make '{}': {error}", directory.display()));
        }
        _ => {}
    }
    check_directory(&directory)?;
    for path in sockets(&directory)? {
        if is_dead(&path) {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(directory.join(format!("{}.{ENDING}", std::process::id())))
}

/// The sockets of this user's living sessions, in the default directory.
pub fn living() -> Result<Vec<PathBuf>, String> {
    let directory = directory()?;
    if !directory.exists() {
        return Ok(Vec::new());
    }
    check_directory(&directory)?;
    let mut living = sockets(&directory)?;
    living.retain(|path| UnixStream::connect(path).is_ok());
    living.sort();
    Ok(living)
}

/// Whether only its owner, who is this user or root, can put something into a directory.
pub(super) fn check_directory(directory: &Path) -> Result<(), String> {
    let told = |error: io::Error| format!("cannot look at '{}': {error}", directory.display());
    let metadata = fs::metadata(directory).map_err(told)?;
    let safe = metadata.mode() & 0o022 == 0 && [0, user()].contains(&metadata.uid());
    match safe && metadata.is_dir() {
        true => Ok(()),
        false => Err(format!(
            "others can write to '{}', so a control socket there would not be safe; choose a directory that \
             only you can write to",
            directory.display()
        )),
    }
}

/// Whether a path is a socket of this user on which nobody listens.
pub(super) fn is_dead(path: &Path) -> bool {
    let own = |metadata: Metadata| metadata.file_type().is_socket() && metadata.uid() == user();
    fs::symlink_metadata(path).is_ok_and(own)
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn sockets(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(directory)
        .map_err(|error| format!("cannot look into '{}': {error}", directory.display()))?;
    let paths = entries.flatten().take(ENTRIES).map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|ending| ending == ENDING)).collect())
}

pub(super) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
