//! Capture files: frames as pcapng or pcap, in a file, a series of files, a pipe, or memory.
//!
//! ```text
//! frame ─▶ choose (filter, selection) ─▶ writer (limits, buffer) ─▶ encoder (pcapng, pcap) ─▶ pack (zstd) ─▶ destination
//! ```
//!
//! `options` is what a user asks for and [`open`] makes a sink of it. `writer` collects whole blocks in one large buffer,
//! without allocation for a frame, and hands them on when it is full or at a pause; it knows no format. `pcapng` and `pcap`
//! know nothing else. `destination` knows where bytes go and not what they are.

mod destination;
mod encoder;
mod memory;
mod options;
mod pack;
mod pcap;
mod pcapng;
mod series;
mod writer;

pub use destination::WriteError;
pub use encoder::{Comments, Fcs, FileFormat};
pub use memory::{MemoryCapture, in_memory};
pub use options::{CaptureOptions, open};
