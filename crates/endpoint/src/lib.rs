//! Our own TCP and UDP on a port, as a stack for sessions.
//!
//! `wirebeat_stack` is sans I/O: IP packets in and out. `wirebeat_converse` runs programs over any TCP. This crate puts the one below
//! the other, over a [`TxPort`](wirebeat_engine::port::TxPort) and an [`RxPort`](wirebeat_engine::port::RxPort): it writes Ethernet headers,
//! answers for the addresses that are ours, chooses client ports, and keeps received bytes that a program cannot take yet. One
//! [`OwnStack`] belongs to one thread and runs to completion: it receives a batch, does what is due, and sends a batch.
//!
//! Read `own.rs`, then `above.rs` (what the TCP tells the programs), `udp.rs` (datagrams) and `below.rs` (where packets go). [`cable`] is a link in memory for
//! runs on a virtual clock; `simulated.rs` drives both ends of it.

mod above;
mod below;
pub mod cable;
mod checked;
mod kept;
mod local;
mod misbehaving;
mod own;
mod simulated;
#[cfg(test)]
mod tests;
mod udp;

pub use below::SentFrames;
pub use checked::check_addresses;
pub use local::{CLIENT_PORTS, FIRST_CLIENT_PORT};
pub use own::{EndpointCounters, Frames, Listener, OwnStack, Settings};
pub use simulated::{OnCable, step};
pub use udp::{DatagramCounters, DatagramProfile};
