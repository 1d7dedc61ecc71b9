//! What came out of a flow: plain data, for a report.

use std::net::SocketAddr;

use wirebeat_meter::session::{SessionCounts, SessionSummary};
use wirebeat_units::{Fault, Nanos};

use crate::control::{Meter, PayloadKind, Transport};

/// How a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEnd {
    /// Both ends agreed that it is over.
    InOrder,
    /// The other end gave it up, or closed a connection before its end.
    ClosedEarly,
    /// The other end no longer answers.
    Silent,
    /// It lasted longer than a flow may.
    TooLong,
    /// What came is none of D-ITG's messages.
    Malformed,
    /// This end's socket broke.
    Broken,
    /// This end was asked to stop.
    Stopped,
}

impl FlowEnd {
    /// The counter of sessions that ended so.
    pub fn counter(self, counts: &mut SessionCounts) -> &mut u64 {
        match self {
            FlowEnd::InOrder => &mut counts.in_order,
            FlowEnd::ClosedEarly => &mut counts.closed_early,
            FlowEnd::Silent => &mut counts.timed_out,
            FlowEnd::TooLong => &mut counts.abandoned,
            FlowEnd::Malformed => &mut counts.malformed,
            FlowEnd::Broken => &mut counts.failed_here,
            FlowEnd::Stopped => &mut counts.unfinished,
        }
    }
}

/// One flow, as this end counted it.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// Its number.
    pub flow: u32,
    /// What carried it.
    pub transport: Transport,
    /// What was measured.
    pub meter: Meter,
    /// What its packets began with.
    pub payload: PayloadKind,
    /// The sender's address; port 0 where nothing came.
    pub source: SocketAddr,
    /// The receiver's address.
    pub destination: SocketAddr,
    /// How it ended.
    pub end: FlowEnd,
    /// Packets, duplicates among them.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// From the first packet to the last.
    pub time: Nanos,
    /// What was counted and measured. A flow is a session, a packet a message one way.
    pub summary: SessionSummary,
}

/// How the sending of flows ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadEnd {
    /// All was sent, and the receiver agreed.
    Completed,
    /// This end was asked to stop; the receiver was told.
    Stopped,
    /// It broke.
    Failed(Fault),
}

/// What came of flows that were sent.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// The flows.
    pub flows: Vec<FlowResult>,
    /// From the first packet to the last.
    pub time: Nanos,
    /// How it ended.
    pub end: LoadEnd,
}
