//! The engines of Linux: [`kernel`] (eBPF), `packet` (AF_PACKET), `socket` (UDP sockets) and `xdp` (AF_XDP).
//!
//! This is where `unsafe` is allowed, in blocks that each say why they are sound. Nothing here knows
//! flows or makes statistics of its own; the kernel engine's receiving program is the meter itself,
//! and delivers what `wirebeat-meter` defines.

pub mod affinity;
pub mod card;
mod clock_offset;
mod control_messages;
pub mod group;
pub mod kernel;
pub mod link;
pub mod mapped_file;
mod memory;
pub mod packet;
pub mod promiscuous;
pub mod scheduling;
mod slot_port;
mod slots;
pub mod socket;
pub mod standard_output;
mod sys;
pub mod time;
pub mod xdp;
