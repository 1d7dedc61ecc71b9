//! The operating system's sockets as a TCP for sessions, or an SCTP: [`HostStack`], an implementation of [`wirebeat_converse::stack::Stack`].
//!
//! One stack belongs to one thread and shares nothing: thousands of non-blocking sockets behind one epoll (`poller.rs`), each with
//! its place in its own stream (`socket.rs`). No memory is allocated for an event. What is asked of TCP is a [`Profile`] of plain
//! data, tried before the start; what this machine allows (descriptors, ports) is read in [`machine`]. Programs are known by the
//! trait alone; what they send and never changes may be handed to the kernel without a copy (`zero_copy.rs`). Begin reading in `stack.rs`; `udp/` is the same with datagrams: [`UdpStack`].

mod error;
pub mod machine;
pub mod opened;
mod poller;
mod profile;
mod slab;
mod socket;
mod stack;
#[cfg(test)]
mod tests;
mod udp;
mod zero_copy;

pub use error::SocketsError;
pub use poller::{Poller, clock};
pub use profile::{KeepAlive, Profile, Protocol, check_profile};
pub use stack::{Counters, HostStack, Limits};
pub use udp::{UdpCounters, UdpProfile, UdpStack};
pub use zero_copy::{ConstantMemory, ZeroCopyCounters};
