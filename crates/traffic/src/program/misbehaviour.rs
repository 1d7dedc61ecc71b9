//! How a client misbehaves, compiled.

use wirebeat_units::Nanos;

use crate::distribution::draw::Key;

/// How a client misbehaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misbehaviour {
    /// What it does.
    pub way: Way,
    /// The time from one of its acts to the next, by its number; `None`: it has none.
    pub gap: Option<u16>,
    /// How many acts there are at most; `None`: as many as there is time for.
    pub acts: Option<u32>,
    /// How long it lasts at most; `None`: until the group's stop.
    pub time: Option<Nanos>,
    /// What draws numbers that are guessed.
    pub(crate) guesses: Key,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing.
    Idle,
    /// A SYN, and no acknowledgment of its answer.
    HalfOpen,
    /// Sends the first `first` messages of the script, one with each act, and then the `again` ones behind them over and over.
    SlowWrite {
        /// How many are sent once.
        first: u16,
        /// How many follow, over and over.
        again: u16,
    },
    /// Sends the first message of the script, and reads so many bytes of what comes with each act.
    SlowRead {
        /// How many bytes.
        bytes: u32,
    },
    /// Sends the first message of the script, and reads nothing.
    ZeroWindow,
    /// Forges a segment with each act.
    Forged {
        /// What segments.
        forgery: Forgery,
        /// How many bytes of data they have, where they have any.
        bytes: u16,
    },
}

/// What segments are forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// Other data where data was sent before.
    Overlapping,
    /// Data beyond the peer's window.
    OutOfWindow,
    /// Data with a wrong checksum.
    BadChecksum,
    /// Acknowledgments of what the peer has not sent.
    AckUnsent,
    /// RSTs around the number that the peer expects.
    RstStorm,
    /// RSTs and data with numbers drawn at random.
    SequenceGuess,
}

impl Misbehaviour {
    /// Two numbers that are guessed, by the number of the act.
    pub fn guess(&self, n: u64) -> (u32, u32) {
        let bits = self.guesses.draw(n).bits();
        (bits as u32, (bits >> 32) as u32)
    }
}
