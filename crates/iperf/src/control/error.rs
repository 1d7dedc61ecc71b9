//! What is wrong with what the peer sent.

use wirebeat_units::{Fault, fault, into_fault, printable};

/// What is wrong with what the peer sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum ControlError {
    /// The first 37 bytes are no cookie: not a client of iperf3.
    Cookie,
    /// This byte is no state.
    State(u8),
    /// A state that may not come now.
    Unexpected {
        /// Which one.
        got: super::State,
        /// What may come.
        expected: &'static str,
    },
    /// A message of so many bytes is longer than any that is read here.
    TooLong {
        /// The length that was announced.
        announced: u64,
        /// The limit.
        limit: usize,
    },
    /// The message is not the JSON that it has to be.
    Json {
        /// Which message.
        what: &'static str,
        /// The parser's words.
        why: String,
    },
    /// A header of iperf 2 that is not one.
    Header(&'static str),
}

impl ControlError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ControlError::Cookie => {
                fault!("the first bytes are no cookie of iperf3"; "is the peer iperf3? iperf 2 has another wire")
            }
            ControlError::State(byte) => fault!(
                "the byte {byte:#04x} is not a state of iperf3";
                "is the peer an iperf3? for one of iperf 2 write --iperf2"
            ),
            ControlError::Unexpected { got, expected } => {
                fault!("the peer sent {got} where {expected} belongs")
            }
            ControlError::TooLong { announced, limit } => {
                fault!("the peer announced a message of {announced} B; at most {limit} B are read")
            }
            ControlError::Json { what, why } => {
                fault!("the {what} cannot be read: {}", printable::printable(why))
            }
            ControlError::Header(why) => fault!("the header of iperf 2 cannot be read: {why}"),
        }
    }
}

into_fault!(ControlError);
