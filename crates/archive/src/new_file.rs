//! A file that is not there until it is whole.
//!
//! It has no name while it is written (`O_TMPFILE`), so nothing of it is left however the program ends. Where the
//! file system cannot do that, it has the name with `.part` behind it, and is removed when it is not kept. A file
//! that is there already is never written over.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};

/// A file that is being written.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    /// Where it is until it is whole, on file systems without nameless files.
    part: Option<PathBuf>,
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
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let path = path.to_owned();
        match rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => Ok(NewFile { file: file.into(), path, part: None }),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                let mut part = OsString::from(&path);
                part.push(".part");
                let part = PathBuf::from(part);
                let file =
                    OpenOptions::new().read(true).write(true).create_new(true).open(&part)?;
                Ok(NewFile { file, path, part: Some(part) })
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
        match self.part.take() {
            None => {
                let own = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
                let flags = AtFlags::SYMLINK_FOLLOW;
                rustix::fs::linkat(CWD, own, CWD, &self.path, flags).map_err(io::Error::from)
            }
            Some(part) => {
                let flags = RenameFlags::NOREPLACE;
                let kept = rustix::fs::renameat_with(CWD, &part, CWD, &self.path, flags);
                if kept.is_err() {
                    self.part = Some(part);
                }
                kept.map_err(io::Error::from)
            }
        }
    }
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
