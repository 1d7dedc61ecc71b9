//! What happens while flows are received or sent, told as it happens.

use std::net::SocketAddr;

use wirebeat_meter::session::SessionCounts;
use wirebeat_units::{Fault, Nanos};

use crate::control::{Meter, Transport};
use crate::result::FlowResult;

/// A flow that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowBegins {
    /// Its number.
    pub flow: u32,
    /// The other end of the signalling connection.
    pub peer: SocketAddr,
    /// What carries it.
    pub transport: Transport,
    /// What is measured.
    pub meter: Meter,
    /// The receiver's port.
    pub port: u16,
}

/// What was counted of all flows together in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When it began, on the monotonic clock.
    pub from: Nanos,
    /// When it ended.
    pub to: Nanos,
    /// What was counted. Duplicates are among the received messages.
    pub counts: SessionCounts,
    /// Flows that were open when it ended.
    pub open: u64,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A flow begins.
    Begins(&'a FlowBegins),
    /// A flow is over.
    Ended(&'a FlowResult),
    /// A sender asked for what it does not get.
    Refused {
        /// Who.
        peer: SocketAddr,
        /// What, and why not.
        fault: &'a Fault,
    },
    /// A sender asked for a log, which is not written for it.
    LogLeftOut(SocketAddr),
    /// An interval is over.
    Interval(&'a Interval),
}
