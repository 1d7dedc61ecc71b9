//! Where control sockets lie, and how what a dead run left is found.
//!
//! A socket without a path of its own lies in a directory that belongs to its owner alone, under the number of
//! its process. A `Directory` is looked at and used through one file descriptor, so that nobody can put another in its
//! place in between. Whether a socket belongs to a living run is asked of the socket: nobody answers on a dead one.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, mkdirat, openat, statat, unlinkat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use wirebeat_units::{Fault, fault};

/// The most entries of the directory that are looked at.
const ENTRIES: usize = 4096;
/// How names of sockets end.
const ENDING: &str = ".sock";
/// Where sockets of root lie without a runtime directory of its own.
const OF_ROOT: &str = "/run";
/// The folder of sockets in a runtime directory.
const FOLDER: &str = "wirebeat";

/// A directory that only its owner, who is this user or root, can put something into.
#[derive(Debug)]
pub(super) struct Directory {
    file: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// The directory that the user named.
    pub(super) fn open(path: &Path) -> Result<Directory, Fault> {
        let directory =
            Directory::at(CWD, path, path, OFlags::empty()).map_err(|e| told(path, &e))?;
        directory.checked(&[0, user()])
    }

    /// What `name` is in the directory `of`; never what a link leads to.
    fn at(
        of: impl std::os::fd::AsFd,
        name: &Path,
        path: &Path,
        how: OFlags,
    ) -> io::Result<Directory> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | how;
        Ok(Directory { file: openat(of, name, how, Mode::empty())?, path: path.to_owned() })
    }

    fn checked(self, owners: &[u32]) -> Result<Directory, Fault> {
        let stat = rustix::fs::fstat(&self.file).map_err(|e| told(&self.path, &e.into()))?;
        match stat.st_mode & 0o022 == 0 && owners.contains(&stat.st_uid) {
            true => Ok(self),
            false => Err(fault!(
                "others can write to '{}', so a control socket there would not be safe",
                self.path.display();
                "choose a directory that only you can write to"
            )),
        }
    }

    /// Where an entry is, for people.
    pub(super) fn path_of(&self, name: &Path) -> PathBuf {
        self.path.join(name)
    }

    /// Where an entry is, for the system: in this directory, whatever has its name by now.
    pub(super) fn reach(&self, name: &Path) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd())).join(name)
    }

    /// The descriptor.
    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Takes an entry away. That it is not there is no error.
    pub(super) fn remove(&self, name: &Path) {
        let _ = unlinkat(&self.file, name, AtFlags::empty());
    }

    /// Whether an entry is a socket of this user on which nobody listens.
    pub(super) fn is_dead(&self, name: &Path) -> bool {
        let own = statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::Socket && stat.st_uid == user()
        });
        own && connect_at_once(&self.reach(name))
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Removes what dead runs left in it.
    fn remove_dead(&self) -> Result<(), Fault> {
        let dead = self.sockets()?.into_iter().filter(|name| self.is_dead(name));
        dead.for_each(|name| self.remove(&name));
        Ok(())
    }

    /// The names of sockets in it.
    fn sockets(&self) -> Result<Vec<PathBuf>, Fault> {
        let failed = |error: rustix::io::Errno| told(&self.path, &error.into());
        let entries = Dir::read_from(&self.file).map_err(failed)?;
        let names = entries.flatten().take(ENTRIES).filter_map(|entry| {
            let name = entry.file_name().to_str().ok()?;
            name.ends_with(ENDING).then(|| PathBuf::from(name))
        });
        Ok(names.collect())
    }
}

fn told(path: &Path, error: &io::Error) -> Fault {
    fault!("cannot use the directory '{}': {error}", path.display())
}

/// The runtime directory: `$XDG_RUNTIME_DIR` where that is this user's own, and for root else `/run`. Under `sudo -E`
/// root has the variable of another user, who could put anything there.
fn runtime() -> Result<Directory, Fault> {
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let named = named.filter(|path| path.is_absolute());
    let own = named.as_deref().map(|path| {
        let opened = Directory::at(CWD, path, path, OFlags::NOFOLLOW);
        opened
            .map_err(|error| told(path, &error))
            .and_then(|directory| directory.checked(&[user()]))
    });
    match own {
        Some(Ok(directory)) => Ok(directory),
        _ if user() == 0 => Directory::open(Path::new(OF_ROOT)),
        Some(Err(why)) => Err(fault!("XDG_RUNTIME_DIR is not a place for a control socket: {why}")),
        None => Err(fault!(
            "XDG_RUNTIME_DIR is not set, so there is no place for a control socket";
            "give a path"
        )),
    }
}

/// The directory of this user's sockets in the runtime directory; `None` where it has not been made.
fn directory(runtime: &Directory) -> Result<Option<Directory>, Fault> {
    let path = runtime.path_of(Path::new(FOLDER));
    match Directory::at(&runtime.file, Path::new(FOLDER), &path, OFlags::NOFOLLOW) {
        Ok(directory) => directory.checked(&[user()]).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(told(&path, &error)),
    }
}

/// Where the socket of this process lies unless a path is given. The directory is made, and what dead runs
/// left in it is removed.
pub(super) fn default_place() -> Result<(Directory, PathBuf), Fault> {
    let runtime = runtime()?;
    match mkdirat(&runtime.file, FOLDER, Mode::RWXU) {
        Err(error) if error != rustix::io::Errno::EXIST => {
            let path = runtime.path_of(Path::new(FOLDER));
            return Err(fault!("cannot make '{}': {error}", path.display()));
        }
        _ => {}
    }
    let directory = directory(&runtime)?.ok_or("the directory of sockets was taken away")?;
    directory.remove_dead()?;
    Ok((directory, PathBuf::from(format!("{}{ENDING}", std::process::id()))))
}

/// Removes what dead runs of this user left in the default directory, once in a process: a test has a run for each trial, and living runs
/// are asked. That there is no directory, or none that is safe, is left to who needs it.
pub(crate) fn remove_dead() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let found = runtime().and_then(|runtime| directory(&runtime));
        if let Ok(Some(directory)) = found {
            let _ = directory.remove_dead();
        }
    });
}

/// The sockets of this user's living runs, in the default directory.
pub fn living() -> Result<Vec<PathBuf>, Fault> {
    let Some(directory) = directory(&runtime()?)? else { return Ok(Vec::new()) };
    directory.remove_dead()?;
    let mut living = directory.sockets()?;
    let lives = |connected: io::Result<UnixStream>| match connected {
        Ok(_) => true,
        // it has as many connections as it takes
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    };
    living.retain(|name| lives(connect_at_once(&directory.reach(name))));
    living.sort();
    Ok(living.iter().map(|name| directory.path_of(name)).collect())
}

/// Connects without waiting: `WouldBlock` where a run has as many connections waiting as it takes. The stream does not
/// block either.
pub(super) fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

pub(super) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("wb-place-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    #[test]
    fn a_folder_of_sockets_that_is_a_link_is_not_followed() {
        let (runtime, other) = (folder("runtime"), folder("other"));
        symlink(&other, runtime.join(FOLDER)).unwrap();
        let opened = Directory::open(&runtime).unwrap();
        assert!(directory(&opened).unwrap_err().what.contains("cannot use the directory"));
        fs::remove_file(runtime.join(FOLDER)).unwrap();
        assert!(directory(&opened).unwrap().is_none());
        fs::remove_dir_all(runtime).unwrap();
        fs::remove_dir_all(other).unwrap();
    }

    #[test]
    fn an_open_directory_stays_the_one_that_was_checked() {
        let (checked, other) = (folder("checked"), folder("swapped"));
        let opened = Directory::open(&checked).unwrap();
        let away = checked.with_extension("away");
        fs::rename(&checked, &away).unwrap();
        symlink(&other, &checked).unwrap();
        fs::write(opened.reach(Path::new("x")), "x").unwrap();
        assert!(away.join("x").exists() && !other.join("x").exists());
        fs::remove_file(checked).unwrap();
        fs::remove_dir_all(away).unwrap();
        fs::remove_dir_all(other).unwrap();
    }
}
