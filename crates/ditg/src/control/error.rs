//! What is wrong with what the peer sent.

use wirebeat_units::{Fault, fault, into_fault};

/// What is wrong with what the peer sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum ControlError {
    /// This byte is not the kind of a message.
    Kind(u8),
    /// A field of a request for a flow has a value that nobody knows.
    Field {
        /// Which field.
        what: &'static str,
        /// Its value.
        value: u32,
    },
    /// A message that may not come now.
    Unexpected {
        /// Which one.
        got: &'static str,
        /// What may come.
        expected: &'static str,
    },
}

impl ControlError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ControlError::Kind(byte) => fault!(
                "the byte {byte:#04x} is not the kind of a message of D-ITG's signalling";
                "is the peer a D-ITG 2.8?"
            ),
            ControlError::Field { what, value } => {
                fault!("a message of D-ITG's signalling has the unknown {what} {value}")
            }
            ControlError::Unexpected { got, expected } => {
                fault!("the peer sent {got} where {expected} belongs")
            }
        }
    }
}

into_fault!(ControlError);
