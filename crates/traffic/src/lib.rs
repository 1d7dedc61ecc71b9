//! The traffic language: [`spec`] is what a person writes, [`mod@compile`] lowers it to a [`program`],
//! and [`schedule`] says when each frame of the program is due. [`law`] has the laws of chance.
//!
//! Everything here is pure: no files, sockets, clocks or threads. What depends on the machine (link
//! addresses, link speed) is passed in. Read `spec/mod.rs`, then `compile/mod.rs`, then `program/mod.rs`.

pub mod compile;
pub mod law;
pub mod program;
pub mod schedule;
pub mod spec;
