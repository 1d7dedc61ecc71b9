//! TCP for millions of sessions, sans I/O: segments and times in, segments and events out.
//!
//! Nothing here does I/O, reads a clock, or allocates after the start; the crate knows headers (by `wire`) and nothing of
//! ports and programs. This is the ground that the state machine will stand on: [`segment`] and [`options`] read and write
//! packets, [`slab`], [`index`] and [`addresses`] hold sessions and find them, [`wheel`] has their timers, [`ranges`] what came
//! out of order. The state machine itself is not here yet.

pub mod addresses;
pub mod hash;
pub mod index;
pub mod options;
pub mod ranges;
pub mod segment;
pub mod seq;
pub mod slab;
pub mod tick;
pub mod wheel;
