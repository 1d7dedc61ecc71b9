//! D-ITG's signalling (TSP, `ITG.h`), sans I/O: messages as bytes, and what came over a connection as messages.
//!
//! A message is a byte that says its kind, and a body whose length follows from the kind. A sender connects, asks for its flows,
//! sends them, closes each, and releases the connection; the receiver answers each step:
//!
//! ```text
//! sender    CONNECT  SEND_FLOW       …data…  CLOSED_FLOW       RELEASE
//! receiver         ACK       ACK + port                ACK             ACK
//! ```
//! [`message`] has the bytes, [`Inbox`] takes messages from what was read. Knows nothing of sockets and clocks.

mod error;
mod inbox;
pub mod message;
#[cfg(test)]
mod tests;

pub use error::ControlError;
pub use inbox::Inbox;
pub use message::{FlowFault, FlowRequest, Message, Meter, PayloadKind, Transport};

/// The port that a receiver's signalling is at.
pub const PORT: u16 = 9000;
/// The port that flows go to, unless another is asked for.
pub const DATA_PORT: u16 = 8999;
