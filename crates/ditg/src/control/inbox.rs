//! What came over a signalling connection and was not used yet.
//!
//! The caller adds what it read and takes messages until none is complete; only then it reads again. So an inbox holds at most a
//! part of one message ([`message::LEN_MAX`]) and one read.

use super::{ControlError, Message, message};

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

    /// Takes the next message; `None` while it is not complete.
    ///
    /// # Errors
    /// As [`Message::read`]. What follows cannot be understood then: the connection is to be closed.
    pub fn message(&mut self) -> Result<Option<Message>, ControlError> {
        let Some((message, len)) = Message::read(&self.bytes)? else {
            debug_assert!(self.bytes.len() < message::LEN_MAX);
            return Ok(None);
        };
        self.bytes.drain(..len);
        Ok(Some(message))
    }
}
