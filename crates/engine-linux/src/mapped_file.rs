//! Reading a file through memory that it is mapped to: one of the ways to read an archive, to be compared with the
//! others. It stands here because mapping is `unsafe`, and knows nothing of engines.
//!
//! A file that becomes shorter while it is read is an error as long as that is seen before its pages are touched. A page
//! that cannot be read ends the program (SIGBUS): the system has no other way to say so. The other ways to read do not
//! have this weakness.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::ptr;

use rustix::mm::{Advice, madvise};

use crate::memory::Memory;

/// The most that is copied between two looks at the length of the file.
const AT_ONCE: usize = 1 << 20;

/// Pages are given back so many bytes at a time: a multiple of the length of any page.
const GIVE_BACK: usize = 16 << 20;

/// A file that is read through memory.
#[derive(Debug)]
pub struct MappedFile {
    file: File,
    /// `None` for an empty file, which cannot be mapped.
    memory: Option<Memory>,
    taken: usize,
    /// Pages before this were given back.
    given_back: usize,
}

impl MappedFile {
    /// Maps a file, to be read from `offset` on.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path, offset: u64) -> io::Result<MappedFile> {
        let file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let memory = (len > 0).then(|| Memory::of_file(file.as_fd(), len)).transpose()?;
        if let Some(memory) = &memory {
            // SAFETY: advice about pages of our own mapping, which changes nothing in them.
            unsafe { madvise(memory.pointer(0, len).cast(), len, Advice::Sequential) }?;
        }
        let taken = usize::try_from(offset).unwrap_or(usize::MAX).min(len);
        Ok(MappedFile { file, memory, taken, given_back: 0 })
    }

    /// Gives pages back that were read, so that memory does not grow with the file.
    fn give_back(&mut self) -> io::Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let done = self.taken / GIVE_BACK * GIVE_BACK;
        let len = done.saturating_sub(self.given_back);
        if len > 0 {
            let pages = memory.pointer(self.given_back, len).cast();
            // SAFETY: pages of our own mapping, of which nothing is looked at any more; a multiple of their length.
            unsafe { madvise(pages, len, Advice::LinuxDontNeed) }?;
            self.given_back = done;
        }
        Ok(())
    }
}

impl Read for MappedFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(memory) = &self.memory else { return Ok(0) };
        let count = into.len().min(memory.len() - self.taken).min(AT_ONCE);
        if self.file.metadata()?.len() < (self.taken + count) as u64 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
        }
        let from = memory.pointer(self.taken, count);
        // SAFETY: `from` is valid for `count` bytes of the mapping, `into` is that long, and memory that was handed to
        // us cannot lie within a mapping of our own.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), count) };
        self.taken += count;
        self.give_back()?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("wb-mapped-{name}-{}", std::process::id()))
    }

    #[test]
    fn it_reads_what_is_in_the_file() {
        for len in [0, 1, 4096, 3 * AT_ONCE + 7, 2 * GIVE_BACK + 99] {
            let path = path(&len.to_string());
            let bytes: Vec<u8> = (0..len).map(|n| ((n * 31) >> 3) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let mut read = Vec::new();
            MappedFile::open(&path, len as u64 / 3).unwrap().read_to_end(&mut read).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert!(read == bytes[len / 3..], "{len}");
        }
    }

    #[test]
    fn a_file_that_becomes_shorter_is_an_error() {
        let path = path("shorter");
        std::fs::write(&path, vec![1; 10_000]).unwrap();
        let mut mapped = MappedFile::open(&path, 0).unwrap();
        assert_eq!(mapped.read(&mut [0; 100]).unwrap(), 100);
        File::options().write(true).open(&path).unwrap().set_len(50).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mapped.read(&mut [0; 100]).unwrap_err().to_string(), "the file became shorter");
    }
}
