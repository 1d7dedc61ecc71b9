//! Received bytes that a program has not taken: those behind a gap, and those for which it had no room.
//!
//! The TCP hands each byte over once and keeps none. Most sessions never need this: an entry is made when bytes come early, and goes
//! when all were handed on. All entries together have a limit; beyond it, bytes behind a gap are not accepted and come again.

use std::collections::{BTreeMap, HashMap};

/// The bytes that may be kept in all: 256 sessions with a full window of 1 MiB.
pub(crate) const LIMIT: usize = 256 << 20;

/// What is kept of one session.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Bytes by where they begin in the stream; they do not overlap.
    pieces: BTreeMap<u64, Vec<u8>>,
    /// Up to where the program has them.
    handed: u64,
    /// Whether the peer has closed, which is told after the last byte.
    pub(crate) peer_closed: bool,
}

impl Kept {
    /// The next bytes for the program, if they are here.
    pub(crate) fn next(&self) -> Option<&[u8]> {
        let (&begin, bytes) = self.pieces.first_key_value()?;
        let skip = usize::try_from(self.handed.checked_sub(begin)?).ok()?;
        bytes.get(skip..)
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// What is kept of all sessions, by the number of the connection.
#[derive(Debug, Default)]
pub(crate) struct AllKept {
    sessions: HashMap<u32, Kept>,
    bytes: usize,
}

impl AllKept {
    /// Whether there is room for `len` more bytes that come early.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.bytes + len <= LIMIT
    }

    /// Keeps `bytes`, which begin at `offset`, of a session whose program has everything before `handed`.
    pub(crate) fn keep(&mut self, session: u32, handed: u64, offset: u64, bytes: &[u8]) {
        let kept =
            self.sessions.entry(session).or_insert_with(|| Kept { handed, ..Kept::default() });
        self.bytes += bytes.len();
        if let Some(before) = kept.pieces.insert(offset, bytes.to_vec()) {
            // the TCP hands each byte over once: this does not happen
            self.bytes = self.bytes.saturating_sub(before.len());
        }
    }

    /// What is kept of a session.
    pub(crate) fn get(&mut self, session: u32) -> Option<&mut Kept> {
        self.sessions.get_mut(&session)
    }

    /// The program took `len` of the next bytes of a session.
    pub(crate) fn took(&mut self, session: u32, len: usize) {
        let Some(kept) = self.sessions.get_mut(&session) else { return };
        kept.handed += len as u64;
        let done = |(&begin, bytes): (&u64, &Vec<u8>)| {
            begin.saturating_add(bytes.len() as u64) <= kept.handed
        };
        if kept.pieces.first_key_value().is_some_and(done)
            && let Some((_, bytes)) = kept.pieces.pop_first()
        {
            self.bytes = self.bytes.saturating_sub(bytes.len());
        }
    }

    /// Keeps nothing more of a session; says whether its peer has closed.
    pub(crate) fn remove(&mut self, session: u32) -> bool {
        let Some(kept) = self.sessions.remove(&session) else { return false };
        let bytes: usize = kept.pieces.values().map(Vec::len).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        kept.peer_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes that can be handed on now, in steps.
    fn take(all: &mut AllKept, session: u32, step: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Some(bytes) = all.get(session).and_then(|kept| kept.next()) {
            let some = bytes[..bytes.len().min(step)].to_vec();
            all.took(session, some.len());
            taken.extend(some);
        }
        taken
    }

    #[test]
    fn bytes_come_out_in_order_and_once() {
        for step in [1, 3, 100] {
            let mut all = AllKept::default();
            all.keep(7, 10, 14, b"efg");
            assert_eq!(take(&mut all, 7, step), b"");
            all.keep(7, 10, 17, b"hi");
            all.keep(7, 10, 10, b"abcd");
            assert_eq!(all.bytes, 9);
            assert_eq!(take(&mut all, 7, step), b"abcdefghi");
            assert!(all.get(7).unwrap().is_empty());
            assert_eq!((all.remove(7), all.bytes), (false, 0));
        }
    }

    #[test]
    fn what_goes_away_makes_room() {
        let mut all = AllKept::default();
        all.keep(1, 0, 5, &[0; 100]);
        assert!(all.has_room(LIMIT - 100) && !all.has_room(LIMIT - 99));
        all.get(1).unwrap().peer_closed = true;
        assert!(all.remove(1));
        assert!(all.has_room(LIMIT) && !all.remove(1));
    }
}
