//! Departure deadlines: pure, the same on every engine.
//!
//! The schedule of a port's share of a program is a stream of [`Departure`]s in the order of their
//! deadlines. Several transmit cores share it by [`Shard`]: burst `n` of a flow belongs to core
//! `n mod cores`. [`Schedule`] makes the stream; [`period()`] finds the round that it repeats, for
//! engines that walk a round by themselves.
//!
//! Nothing here reads a clock: deadlines count from the start of the run, and the caller adds that.
//! One kind of pace is one file (`drawn.rs`, `on_off.rs` …) and one line of the table in `walk.rs`;
//! `flow.rs` adds bursts, shards, limits and changes; `merge.rs` puts the flows in order.

mod constant;
mod copies;
mod drawn;
mod flow;
mod jittered;
mod merge;
mod on_off;
mod period;
mod profile;
mod trace;
mod walk;

use wirebeat_units::Nanos;

pub use merge::Schedule;
pub use period::{ROUND_MAX, period};

/// One frame that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its deadline, relative to the start of the run. Frames of a flow without a rate are all due at
    /// the flow's start.
    pub at: Nanos,
    /// Index of the flow in the program.
    pub flow: u32,
    /// Index of the stream in the program: what the flow sends at this time.
    pub stream: u32,
    /// Number of the frame within its flow, over all cores, from 0.
    pub index: u64,
    /// What it is counted by and numbered in: the flow, or a member of it.
    pub tag: u32,
    /// Which of the fragments of that packet, from 1; 0: all of it.
    pub part: u16,
}

/// Which part of a schedule a transmit core takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// This core, from 0.
    pub core: u32,
    /// How many cores share the schedule; at least 1.
    pub cores: u32,
}

impl Shard {
    /// One core does it all.
    pub const WHOLE: Shard = Shard { core: 0, cores: 1 };
}

/// A schedule that repeats: one round of it, and how long a round takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// The departures of the first round, in order.
    pub round: Vec<Departure>,
    /// Length of a round in units of 2^-32 ns (so that rates which are no whole number of nanoseconds
    /// do not drift); 0 when nothing in it has a rate.
    pub length_q32: u128,
    /// How many whole rounds there are until the first flow ends; `u64::MAX` if none ends. Flows
    /// without a rate end here by their count alone: when their stop comes is for the caller to see.
    pub rounds: u64,
}

#[cfg(test)]
mod change_tests;
#[cfg(test)]
pub(crate) mod tests;
