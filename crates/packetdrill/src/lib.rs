//! `wirebeat-stack` as a library that packetdrill loads (`--so_filename`): its scripts then test our TCP instead of the kernel's.
//!
//! packetdrill is a program of its own (GPL-2.0), found outside this repository by `scripts/packetdrill.sh`; nothing of it is here.
//! What both sides have to agree on, the order and the types of the calls in one table, is declared in `abi` from those facts
//! alone. Time is virtual: it passes while packetdrill sleeps or waits for a packet, so that a script of minutes takes no time and a
//! stalled machine changes nothing.
//!
//! Read `world` first (time, packets, waiting), then `sockets` (buffers, what the stack tells), `calls` and `ready` (what programs
//! ask of sockets), `settings` (sysctls and socket options to profiles of the stack), `tcp_info` (what `TCP_INFO` says). The stack
//! itself has neither sockets nor buffers; all of that is made here, as an embedder would.

mod abi;
mod calls;
mod ready;
mod settings;
mod sockets;
mod tcp_info;
#[cfg(test)]
mod tests;
mod world;
