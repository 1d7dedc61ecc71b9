//! The window of a file that a reader looks at: it slides, and never grows.

use std::io::{self, Read};

/// Bytes of the window.
const WINDOW: usize = 1 << 20;
/// The most that can be asked for at once. Half of the window, so that what is read is at least as much as what is
/// moved.
pub const ASK_MAX: usize = WINDOW / 2;

/// A file from its beginning to its end.
#[derive(Debug)]
pub struct Input<R> {
    from: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where `start` is in the file.
    offset: u64,
    at_end: bool,
}

impl<R: Read> Input<R> {
    pub fn new(from: R) -> Input<R> {
        Input { from, buffer: vec![0; WINDOW], start: 0, end: 0, offset: 0, at_end: false }
    }

    /// Where in the file what comes next is.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What comes next: as many bytes as are asked for, or all there are.
    #[inline]
    pub fn ask(&mut self, count: usize) -> io::Result<&[u8]> {
        let count = count.min(ASK_MAX);
        if self.end - self.start < count {
            self.fill(count)?;
        }
        let end = self.end.min(self.start + count);
        Ok(self.buffer.get(self.start..end).unwrap_or_default())
    }

    /// Where in the window what comes next is. It stays there until [`Input::ask`].
    #[inline]
    pub fn at(&self) -> usize {
        self.start
    }

    /// Bytes of the window.
    #[inline]
    pub fn window(&self, at: usize, len: usize) -> &[u8] {
        self.buffer.get(at..at + len).unwrap_or_default()
    }

    /// Goes on by bytes that were asked for and are there.
    #[inline]
    pub fn step(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Goes on by any number of bytes, and says how many of them there were.
    pub fn skip(&mut self, count: u64) -> io::Result<u64> {
        let mut left = count;
        while left > 0 {
            let ask = left.min(ASK_MAX as u64) as usize;
            let have = self.ask(ask)?.len();
            if have == 0 {
                break;
            }
            self.step(have);
            left -= have as u64;
        }
        Ok(count - left)
    }

    #[cold]
    fn fill(&mut self, count: usize) -> io::Result<()> {
        if self.at_end {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < count {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.from.read(room) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
