//! Departure deadlines: pure, the same on every engine.
//!
//! The schedule of a port's share of a program is a stream of [`Departure`]s in the order of their
//! deadlines. Several transmit cores share it by [`Shard`]: burst `n` of a flow belongs to core
//! `n mod cores`.

use wirebeat_units::Nanos;

/// One frame that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its deadline, relative to the start of the run. Frames of a flow without a rate are all due at
    /// the flow's start.
    pub at: Nanos,
    /// Index of the flow in the program.
    pub flow: u32,
    /// Number of the frame within its flow, over all cores, from 0.
    pub index: u64,
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
    /// How many whole rounds there are until the first flow ends; `u64::MAX` if none ends.
    pub rounds: u64,
}
