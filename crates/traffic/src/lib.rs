//! The traffic language: [`scenario`] is what a person writes, [`mod@compile`] lowers it to a [`program`],
//! and [`schedule`] says when each frame of the program is due. [`distribution`] has the
//! distributions of chance, [`values`] the fields that change from frame to frame; [`text`] is how all of them are written.
//! [`engines`] is the table of what each engine can do.
//!
//! Everything here is pure: no files, sockets, clocks or threads. What depends on the machine (link
//! addresses, link speed) is passed in. Read `scenario/mod.rs`, then `compile/mod.rs`, then `program/mod.rs`.

pub mod compile;
pub mod distribution;
pub mod engines;
pub mod program;
pub mod scenario;
pub mod schedule;
pub mod text;
pub mod values;
