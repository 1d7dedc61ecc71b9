//! A file that is not there until it is whole.
//!
//! It has no name while it is written (`O_TMPFILE`), so nothing of it is left however the program ends. Where the
//! file system cannot do that, it has the name with `.part` behind it, and is removed when it is not kept. A file
//! that is there already is never written over; one that is to be replaced stays whole until the new one is.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};

/// A file that is being written.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    /// Where it is until it is whole, on file systems without nameless files.
    part: Option<PathBuf>,
    /// Whether there is a file of its name, which it takes the place of.
    replaces: bool,
}

impl NewFile {
    /// Begins it.
    ///
    /// # Errors
    /// What the system says; `AlreadyExists` where there is such a file.
    pub fn create(path: &Path) -> io::Result<NewFile> {
        // said before hours of work, and once more at the end
        if fs::symlink_metadata(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        NewFile::beside(path, false)
    }

    /// Begins one that takes the place of a regular file, with its permissions; of a link, of the file that it leads to. Until then that file
    /// stays as it is.
    ///
    /// # Errors
    /// What the system says; there is no such file, or it may not be written.
    pub fn replace(path: &Path) -> io::Result<NewFile> {
        let path = path.canonicalize()?;
        let about = fs::metadata(&path)?;
        // before it is opened: who reads a FIFO takes the end of the first writer for the end of all
        if !about.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        drop(OpenOptions::new().write(true).open(&path)?);
        let new = NewFile::beside(&path, true)?;
        new.file.set_permissions(about.permissions())?;
        // a user cannot give files away; root leaves them to their owner
        let _ = std::os::unix::fs::fchown(&new.file, Some(about.uid()), Some(about.gid()));
        Ok(new)
    }

    fn beside(path: &Path, replaces: bool) -> io::Result<NewFile> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let path = path.to_owned();
        match rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => Ok(NewFile { file: file.into(), path, part: None, replaces }),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                let part = part_of(&path);
                let file =
                    OpenOptions::new().read(true).write(true).create_new(true).open(&part)?;
                Ok(NewFile { file, path, part: Some(part), replaces })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The name that it is going to have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// What the system says; `AlreadyExists` where there is such a file by now.
    pub fn keep(&mut self) -> io::Result<()> {
        let name = |path: &Path| {
            let own = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
            let flags = AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(CWD, own, CWD, path, flags).map_err(io::Error::from)
        };
        match self.part.take() {
            None if self.replaces => {
                // what has no name cannot replace anything
                let part = part_of(&self.path);
                name(&part)?;
                let kept = fs::rename(&part, &self.path);
                if kept.is_err() {
                    let _ = fs::remove_file(&part);
                }
                kept
            }
            None => name(&self.path),
            Some(part) => {
                let flags = match self.replaces {
                    true => RenameFlags::empty(),
                    false => RenameFlags::NOREPLACE,
                };
                let kept = rustix::fs::renameat_with(CWD, &part, CWD, &self.path, flags);
                if kept.is_err() {
                    self.part = Some(part);
                }
                kept.map_err(io::Error::from)
            }
        }
    }
}

/// The name of a file until it is whole. That of another process is another.
fn part_of(path: &Path) -> PathBuf {
    let mut part = OsString::from(path);
    part.push(format!(".{}.part", std::process::id()));
    PathBuf::from(part)
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // there is nobody to tell
            let _ = fs::remove_file(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("wb-new-file-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn it_is_there_when_it_is_whole_and_not_before() {
        let folder = folder("whole");
        let path = folder.join("new");
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"all of it").unwrap();
        assert!(!path.exists());
        file.keep().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"all of it");
        assert_eq!(names(&folder), ["new"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_is_left_of_one_that_is_not_kept() {
        let folder = folder("dropped");
        drop(NewFile::create(&folder.join("new")).unwrap());
        assert_eq!(names(&folder), [""; 0]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn one_that_is_replaced_stays_until_the_new_one_is_whole() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = folder("replaced");
        let (path, link) = (folder.join("old"), folder.join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("old", &link).unwrap();
        let mut dropped = NewFile::replace(&path).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let mut kept = NewFile::replace(&link).unwrap();
        kept.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        kept.keep().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        let mut left = names(&folder);
        left.sort();
        assert_eq!(left, ["link", "old"]);
        assert!(NewFile::replace(&folder.join("none")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_is_written_over() {
        let folder = folder("over");
        let path = folder.join("old");
        let mut late = NewFile::create(&path).unwrap();
        fs::write(&path, "old").unwrap();
        let error = NewFile::create(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(late.keep().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        fs::remove_dir_all(folder).unwrap();
    }
}
