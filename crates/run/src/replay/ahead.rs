//! A thread that reads a file ahead, for the one that checks what is in it.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

/// Bytes that it reads at once, and how many such pieces wait at the most.
const PIECE: usize = 1 << 20;
const WAITING: usize = 4;

/// What such a thread reads.
pub(super) struct ReadAhead {
    pieces: Receiver<io::Result<Vec<u8>>>,
    home: SyncSender<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl ReadAhead {
    /// Begins to read `from`. The thread ends with it, or when nobody wants more.
    pub(super) fn of(from: impl Read + Send + 'static) -> io::Result<ReadAhead> {
        let (told, pieces) = mpsc::sync_channel(WAITING);
        let (home, back) = mpsc::sync_channel(WAITING + 2);
        let read = move || {
            let mut from = from;
            loop {
                let mut piece: Vec<u8> = back.try_recv().unwrap_or_default();
                piece.resize(PIECE, 0);
                let read = match from.read(&mut piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let is_last = !matches!(read, Ok(1..));
                let read = read.map(|len| {
                    piece.truncate(len);
                    piece
                });
                if told.send(read).is_err() || is_last {
                    return;
                }
            }
        };
        thread::Builder::new().name("wb-ahead".to_owned()).spawn(read)?;
        Ok(ReadAhead { pieces, home, piece: Vec::new(), at: 0 })
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.piece.len() {
            // at the end the thread is gone, and with it what it would say
            let Ok(piece) = self.pieces.recv() else { return Ok(0) };
            let old = std::mem::replace(&mut self.piece, piece?);
            self.at = 0;
            // where there is no room for it, it is freed
            let _ = self.home.try_send(old);
        }
        let read = self.piece.get(self.at..).unwrap_or_default().read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some bytes, in pieces of all lengths, and then an error or the end.
    struct Pieces(usize, bool);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            match (self.0, self.1) {
                (3, _) => Err(io::ErrorKind::Interrupted.into()),
                (8.., true) => Err(io::Error::other("the disk is gone")),
                (8.., false) => Ok(0),
                (n, _) => {
                    let len = buffer.len().min(n * 777);
                    buffer[..len].fill(n as u8);
                    Ok(len)
                }
            }
        }
    }

    fn expected() -> Vec<u8> {
        let piece = |n: usize| vec![n as u8; n * 777];
        [1, 2, 4, 5, 6, 7].into_iter().flat_map(piece).collect()
    }

    #[test]
    fn all_of_a_file_comes_as_it_is() {
        let mut all = Vec::new();
        ReadAhead::of(Pieces(0, false)).unwrap().read_to_end(&mut all).unwrap();
        assert!(all == expected());
    }

    #[test]
    fn an_error_comes_behind_what_was_before_it() {
        let mut all = Vec::new();
        let error = ReadAhead::of(Pieces(0, true)).unwrap().read_to_end(&mut all).unwrap_err();
        assert_eq!(error.to_string(), "the disk is gone");
        assert!(all == expected());
    }
}
