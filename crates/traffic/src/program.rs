//! What the compiler makes and the drive loop runs: tables, with every decision taken.

use std::net::SocketAddr;

use wirebeat_units::{FrameLen, FrameRate, Nanos};
use wirebeat_wire::stamp::Stamp;

/// A compiled scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Seed of every random choice.
    pub seed: u64,
    /// The flows; the index is [`crate::schedule::Departure::flow`].
    pub flows: Vec<Flow>,
}

impl Program {
    /// The indices of the flows that the port `name` sends, in order.
    pub fn flows_from(&self, name: &str) -> Vec<u32> {
        (0..).zip(&self.flows).filter(|(_, flow)| flow.from == name).map(|(i, _)| i).collect()
    }
}

/// One flow, ready to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The name in the scenario.
    pub name: String,
    /// Its number in probes.
    pub id: u16,
    /// The sending port's name.
    pub from: String,
    /// The receiving port's name, where the scenario has one.
    pub to: Option<String>,
    /// The frames.
    pub template: FrameTemplate,
    /// When they leave.
    pub departures: Departures,
    /// What happens to a frame that is late.
    pub late: Late,
    /// Addresses, for engines that send datagrams rather than frames.
    pub endpoint: Endpoint,
}

/// A frame with everything filled in that does not change from frame to frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTemplate {
    /// The frame without FCS; sequence, time and identification zero, checksums as [`Stamp`] wants them.
    pub bytes: Vec<u8>,
    /// Where the transport payload begins.
    pub payload_at: u16,
    /// Bytes of transport payload; what follows it is padding.
    pub payload_len: u16,
    /// What is written at the last moment, by offsets from the start of the frame.
    pub stamp: Stamp,
}

impl FrameTemplate {
    /// The length with FCS.
    pub fn len(&self) -> FrameLen {
        FrameLen::without_fcs(self.bytes.len() as u16)
    }
}

/// When the frames of a flow are due, relative to the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departures {
    /// The rate; `None` is as fast as the engine can.
    pub rate: Option<FrameRate>,
    /// Frames that leave back to back; the pause after them keeps the mean rate. At least 1.
    pub burst: u32,
    /// When the first is due (start time and stagger).
    pub start: Nanos,
    /// No frame is due at or after this.
    pub stop: Nanos,
    /// No more than this many frames.
    pub count: u64,
}

/// What happens to a frame that cannot leave in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// It is sent late; its lateness is recorded.
    Send,
    /// It is dropped as a time violation once it is later than this.
    Drop(Nanos),
}

/// Where datagrams of a flow come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Source address and port; unspecified address or port 0: the kernel chooses.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The ToS byte or traffic class.
    pub tos: u8,
    /// Whether the UDP checksum is sent.
    pub checksum: bool,
}
