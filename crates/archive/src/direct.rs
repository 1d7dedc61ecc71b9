//! Reading a file past the system's cache (`O_DIRECT`): an archive that is larger than memory then does not push
//! everything else out of it, and is read at the speed of the disk.
//!
//! Such reads begin at multiples of a block in the file and in memory; [`Direct`] sees to that.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Larger than the blocks of disks: 512 bytes or 4 KiB.
const BLOCK: usize = 4096;
/// Bytes read at once: a disk is fast when much is asked for.
const AT_ONCE: usize = 4 << 20;

/// A file that is read past the cache.
#[derive(Debug)]
pub struct Direct {
    file: File,
    memory: Vec<u8>,
    /// Where in `memory` the first block begins.
    base: usize,
    /// What of it is read and not taken yet, from `base` on.
    taken: usize,
    read: usize,
    /// Where in the file what is read next begins.
    offset: u64,
}

impl Direct {
    /// Opens a file, to be read from `offset` on.
    ///
    /// # Errors
    /// What the system says; `InvalidInput` where the file system cannot do it.
    pub fn open(path: &Path, offset: u64) -> io::Result<Direct> {
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let memory = vec![0; AT_ONCE + BLOCK];
        // where it begins does not matter to what is read, only to whether it can be
        let base = memory.as_ptr().addr().next_multiple_of(BLOCK) - memory.as_ptr().addr();
        Ok(Direct { file, memory, base, taken: 0, read: 0, offset })
    }

    /// Reads the next blocks; says whether there was anything new.
    fn fill(&mut self) -> io::Result<bool> {
        // A read may end within a block, and then the next one begins at that block again.
        let behind = (self.offset % BLOCK as u64) as usize;
        let begin = self.offset - behind as u64;
        let room = self.memory.get_mut(self.base..self.base + AT_ONCE).unwrap_or_default();
        let count = loop {
            match rustix::io::pread(&self.file, &mut *room, begin) {
                Ok(count) => break count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        (self.taken, self.read) = (behind.min(count), count);
        self.offset = self.offset.max(begin + count as u64);
        Ok(self.taken < self.read)
    }
}

impl Read for Direct {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.read && !self.fill()? {
            return Ok(0);
        }
        let ready = self.memory.get(self.base + self.taken..self.base + self.read);
        let count = ready.unwrap_or_default().read(into)?;
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_is_in_the_file() {
        let folder =
            std::env::var_os("CARGO_TARGET_TMPDIR").map_or(std::env::temp_dir(), Into::into);
        for len in [0, 1, BLOCK, BLOCK + 1, AT_ONCE - 1, AT_ONCE, 2 * AT_ONCE + 777] {
            let path = folder.join(format!("wb-direct-{}-{len}", std::process::id()));
            let bytes: Vec<u8> = (0..len).map(|n| ((n * 31) >> 3) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let begin = len / 3;
            let opened = Direct::open(&path, begin as u64);
            std::fs::remove_file(&path).unwrap();
            let mut direct = match opened {
                Ok(direct) => direct,
                // a file system in memory has no cache to go past
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                Err(error) => panic!("{error}"),
            };
            let mut read = Vec::new();
            let mut piece = vec![0; 10_001];
            loop {
                match direct.read(&mut piece).unwrap() {
                    0 => break,
                    count => read.extend_from_slice(&piece[..count]),
                }
            }
            assert!(read == bytes[begin..], "{len}");
        }
    }
}
