//! Captures and packet logs: each frame that a port received or sent, into files.
//!
//! ```text
//! receiving thread ──Tap──▶ blocks ──▶ Pump (one writing thread) ──Seen, in order of time──▶ Sink, Sink …
//! ```
//!
//! A thread that receives or sends notes frames in blocks of memory and hands a block over when it is full. The writing
//! thread puts the blocks of all threads in order of time and shows each frame to the sinks, which write files. A thread that
//! finds no free block loses the frame for the capture, counts that, and goes on measuring.
//!
//! Nothing here knows engines or sockets.

mod choice;
pub mod file;
mod history;
mod open_error;
pub mod packet_log;
pub mod pump;
mod record;
pub mod seen;
pub mod selection;
pub mod sink;
pub mod tap;

pub use open_error::OpenError;
