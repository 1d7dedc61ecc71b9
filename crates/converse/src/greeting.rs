//! The number of a session, where both ends are put together by it: the first 16 bytes that a client says over TCP.
//!
//! 8 constant bytes, and the number of the session in its group, big-endian. The program's own bytes follow, as if nothing had been
//! before them.

/// How many bytes it has.
pub(crate) const GREETING: usize = 16;
/// The first half.
const MAGIC: [u8; 8] = *b"wirebeat";

/// What a session knows of its number, and what it was given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Greeting {
    bytes: [u8; GREETING],
    have: usize,
    /// Bytes that were delivered, these included.
    pub(crate) delivered: u64,
}

/// The greeting of session number `number`.
pub(crate) fn greeting(number: u64) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    for (place, byte) in bytes.iter_mut().zip(MAGIC.into_iter().chain(number.to_be_bytes())) {
        *place = byte;
    }
    bytes
}

impl Greeting {
    /// Takes what belongs to it from the beginning of `bytes`. `false`: the peer began with something else.
    pub(crate) fn read(&mut self, bytes: &mut &[u8]) -> bool {
        let missing = GREETING.saturating_sub(self.have).min(bytes.len());
        let (mine, rest) = bytes.split_at(missing);
        if let Some(place) = self.bytes.get_mut(self.have..self.have + missing) {
            place.copy_from_slice(mine);
        }
        self.have += missing;
        *bytes = rest;
        let known = self.have.min(MAGIC.len());
        self.bytes.get(..known) == MAGIC.get(..known)
    }

    /// The number, where all of it came.
    pub(crate) fn number(&self) -> Option<u64> {
        let number = self.bytes.last_chunk().filter(|_| self.have == GREETING)?;
        Some(u64::from_be_bytes(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_in_any_pieces_and_nothing_else_is_one() {
        let mut bytes = greeting(0x0102_0304_0506_0708).to_vec();
        bytes.extend_from_slice(b"data");
        for piece in 1..=bytes.len() {
            let (mut read, mut rest) = (Greeting::default(), Vec::new());
            for mut bytes in bytes.chunks(piece) {
                assert!(read.read(&mut bytes));
                rest.extend_from_slice(bytes);
            }
            assert_eq!((read.number(), &rest[..]), (Some(0x0102_0304_0506_0708), &b"data"[..]));
        }
        let mut read = Greeting::default();
        assert!(read.read(&mut &b"wire"[..]));
        assert_eq!(read.number(), None);
        assert!(!read.read(&mut &b"GET /"[..]));
    }
}
