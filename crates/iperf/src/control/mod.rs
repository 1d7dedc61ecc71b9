//! The signalling of iperf3 and of iperf 2, sans I/O: bytes in, values out, and back.
//!
//! An iperf3 client opens a TCP connection, sends a [`Cookie`], and both ends then exchange [`State`]s of one byte, some of which
//! are followed by a length and JSON: [`Parameters`] after `PARAM_EXCHANGE`, [`Results`] after `EXCHANGE_RESULTS`. Each data
//! connection over TCP begins with the same cookie; over UDP each begins with one [`hello`](datagram::hello_reply) datagram. [`iperf2`] has the header that an iperf 2
//! client begins its data with. Every parser takes any bytes within bounded memory. Nothing here reads a
//! socket or a clock: [`Inbox`] holds what came and was not used yet.

mod cookie;
pub mod datagram;
mod error;
mod inbox;
pub mod iperf2;
mod lenient;
mod parameters;
mod results;
mod state;

pub use cookie::Cookie;
pub use error::ControlError;
pub use inbox::{Inbox, message};
pub use parameters::Parameters;
pub use results::{PeerOutput, Results, StreamResults};
pub use state::State;

/// Bytes of the parameters that a server reads at most; real ones have some 300.
pub const PARAMETERS_MAX: usize = 64 << 10;
/// Bytes of results without a server's output: 256 streams of some 300 bytes each.
pub const RESULTS_MAX: usize = 256 << 10;
/// Bytes of results with a server's output, which has some lines for each interval.
pub const RESULTS_WITH_OUTPUT_MAX: usize = 16 << 20;
/// Streams of a test in one direction at most, as iperf3 has it.
pub const STREAMS_MAX: u32 = 128;

#[cfg(test)]
mod tests;
