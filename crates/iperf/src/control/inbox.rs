//! What came over a control connection and was not used yet.
//!
//! The caller adds what it read and takes what it expects. It reads only while something it expects is not
//! complete, so that an inbox holds at most the message that is expected and one read.

use super::{ControlError, Cookie, State};

/// Bytes of the length before a message.
const PREFIX: usize = 4;

/// Bytes that came and were not used yet.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// Adds what was read.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The number of bytes that it holds.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the first `N` bytes, once they are there.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let first = *self.bytes.first_chunk::<N>()?;
        self.bytes.drain(..N);
        Some(first)
    }

    /// The first four bytes as a number, once they are there.
    pub(super) fn first_word(&self) -> Option<u32> {
        self.bytes.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// Takes the first `len` bytes, once they are there.
    pub(super) fn take_bytes(&mut self, len: usize) -> Option<Vec<u8>> {
        let rest = self.bytes.get(len..)?.to_vec();
        let mut taken = std::mem::replace(&mut self.bytes, rest);
        taken.truncate(len);
        Some(taken)
    }

    /// Takes a cookie; `None` while it is not complete.
    ///
    /// # Errors
    /// As [`Cookie::read`].
    pub fn cookie(&mut self) -> Result<Option<Cookie>, ControlError> {
        self.take().map(Cookie::read).transpose()
    }

    /// Takes a state; `None` while none is there.
    ///
    /// # Errors
    /// As [`State::read`].
    pub fn state(&mut self) -> Result<Option<State>, ControlError> {
        self.take::<1>().map(|[byte]| State::read(byte)).transpose()
    }

    /// Takes the two numbers behind `SERVER_ERROR`: iperf3's own and that of the system.
    pub fn error_numbers(&mut self) -> Option<(i32, i32)> {
        let numbers = self.take::<8>()?;
        let [a, b, c, d, e, f, g, h] = numbers;
        Some((i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h])))
    }

    /// Takes a message; `None` while it is not complete.
    ///
    /// # Errors
    /// [`ControlError::TooLong`] as soon as a length of more than `limit` is announced.
    pub fn message(&mut self, limit: usize) -> Result<Option<Vec<u8>>, ControlError> {
        let Some(&prefix) = self.bytes.first_chunk::<PREFIX>() else { return Ok(None) };
        let announced = u32::from_be_bytes(prefix) as usize;
        if announced > limit {
            return Err(ControlError::TooLong { announced: announced as u64, limit });
        }
        let end = PREFIX + announced;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let rest = self.bytes.split_off(end);
        let mut message = std::mem::replace(&mut self.bytes, rest);
        message.drain(..PREFIX);
        Ok(Some(message))
    }
}

/// A message as it goes over the wire: its length, then its text. What is longer than a length can say is empty.
pub fn message(text: &str) -> Vec<u8> {
    let (length, text) = match u32::try_from(text.len()) {
        Ok(length) => (length, text),
        Err(_) => (0, ""),
    };
    [&length.to_be_bytes(), text.as_bytes()].concat()
}
