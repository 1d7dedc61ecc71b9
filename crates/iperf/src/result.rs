//! What came out of a test: plain data, for a report.
//!
//! "Ours" is what this process counted, "theirs" what the peer says it counted. Bytes are payload; the omitted time is in none of
//! them, unless it says so. A sender counts what the kernel took from it, a receiver what the kernel gave it, so what is between
//! both at the end of a test is the difference; texts of the peer are as it sent them ([`wirebeat_units::printable`] makes them
//! harmless); [`TestResult::differences`] says where the difference is impossible.

use std::net::SocketAddr;

use wirebeat_host::TcpInfo;
use wirebeat_units::{BitRate, Bytes, Fault, Nanos};

pub use crate::control::PeerOutput;
use crate::{Error, TestSpec};

/// Which end this process was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As agreed, and both ends told each other their results.
    Completed,
    /// This end was asked to stop: there are no results of the peer.
    Stopped,
    /// The peer ended it before its time: there are no results of the peer.
    Terminated,
    /// It broke, [`TestResult::fault`] says why: there are no results of the peer, or not all.
    Failed,
}

/// How a test ended whose data has flowed, and why it broke.
pub(crate) fn end_of(ended: Result<End, Error>) -> (End, Option<Fault>) {
    match ended {
        Ok(end) => (end, None),
        Err(Error::Stopped) => (End::Stopped, None),
        Err(Error::Terminated) => (End::Terminated, None),
        Err(error) => (End::Failed, Some(error.fault())),
    }
}

/// Percent of one CPU that an end used, all its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuPercent {
    /// All in all.
    pub total: f64,
    /// In user space.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// What is counted of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// Sent; at a receiver the highest sequence number, so that lost ones are in it.
    pub packets: u64,
    /// Received, duplicates among them; of a peer those that it does not take for lost. Zero at a sender.
    pub received: u64,
    /// Sequence numbers that never came, as the receiver counts; zero at a sender.
    pub lost: u64,
    /// Those that came after one with a higher number; `None` at a sender, and of a peer: the wire does not have it.
    pub out_of_order: Option<u64>,
    /// Jitter (RFC 1889) at the end; zero at a sender.
    pub jitter: Nanos,
}

/// What one end counted of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Bytes of payload.
    pub bytes: Bytes,
    /// The time in which it counted.
    pub time: Nanos,
    /// Segments sent again; `None` at a receiver and over UDP.
    pub retransmits: Option<u64>,
    /// Over UDP.
    pub datagrams: Option<Datagrams>,
}

impl Side {
    /// Bits of payload in a second; `None` where no time passed.
    pub fn rate(&self) -> Option<BitRate> {
        let bits = u128::from(self.bytes.get()) * 8 * 1_000_000_000;
        let rate = bits.checked_div(self.time.get().into())?;
        Some(BitRate(u64::try_from(rate).unwrap_or(u64::MAX)))
    }
}

/// One stream.
#[derive(Clone, Debug)]
pub struct StreamResult {
    /// iperf3's number of it: 1, 3, 4, 5, …
    pub id: u32,
    /// Whether this process sent.
    pub sending: bool,
    /// This end of it.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// What this process counted.
    pub ours: Side,
    /// What the peer says it counted.
    pub theirs: Option<Side>,
    /// Over TCP: what the kernel knew of the connection at the end. Its counters begin with the connection, omitted time and all.
    pub tcp: Option<TcpInfo>,
}

impl StreamResult {
    /// What the sender and the receiver counted, in this order.
    fn sender_and_receiver(&self) -> (Option<Side>, Option<Side>) {
        let (ours, theirs) = (Some(self.ours), self.theirs);
        if self.sending { (ours, theirs) } else { (theirs, ours) }
    }
}

/// What this process counted of one stream in one interval.
#[derive(Clone, Copy, Debug)]
pub struct StreamInterval {
    /// The stream.
    pub id: u32,
    /// Whether this process sent.
    pub sending: bool,
    /// What was counted in this interval.
    pub side: Side,
    /// Over TCP: what the kernel knew of the connection at the end of the interval.
    pub tcp: Option<TcpInfo>,
}

/// One interval of a test.
#[derive(Clone, Debug)]
pub struct Interval {
    /// When it began, from the start of the test.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// Whether it is of the omitted time.
    pub omitted: bool,
    /// By stream.
    pub streams: Vec<StreamInterval>,
}

impl Interval {
    /// Bytes sent and received by this process in all streams, in this order.
    pub fn bytes(&self) -> (Bytes, Bytes) {
        let sum = |sending| {
            let of = self.streams.iter().filter(|stream| stream.sending == sending);
            Bytes::new(of.map(|stream| stream.side.bytes.get()).fold(0, u64::saturating_add))
        };
        (sum(true), sum(false))
    }
}

/// What came out of a test.
#[derive(Clone, Debug)]
pub struct TestResult {
    /// Which end this process was.
    pub role: Role,
    /// How it ended.
    pub end: End,
    /// Why it broke, if it did.
    pub fault: Option<Fault>,
    /// What was agreed on.
    pub spec: TestSpec,
    /// Bytes of a block.
    pub block: Bytes,
    /// This end of the control connection.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// The time that counted.
    pub time: Nanos,
    /// By stream, in the order of creation.
    pub streams: Vec<StreamResult>,
    /// The intervals, from the first on.
    pub intervals: Vec<Interval>,
    /// Intervals that were reported as events and not kept.
    pub intervals_not_kept: u64,
    /// What this process used.
    pub our_cpu: CpuPercent,
    /// What the peer says it used.
    pub their_cpu: Option<CpuPercent>,
    /// The congestion control of this end.
    pub our_congestion: Option<String>,
    /// That of the peer.
    pub their_congestion: Option<String>,
    /// What the server printed, where the client asked for it.
    pub server_output: Option<PeerOutput>,
}

/// Two counters that cannot both be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistency {
    /// The stream.
    pub id: u32,
    /// What is counted.
    pub what: &'static str,
    /// What the sender says.
    pub sent: u64,
    /// What the receiver says, which is more.
    pub received: u64,
}

/// What was sent and not received, of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The stream.
    pub id: u32,
    /// What the sender says.
    pub sent: Bytes,
    /// What the receiver says.
    pub received: Bytes,
}

impl Difference {
    /// Bytes that were on their way or lost; zero where the receiver says more.
    pub fn missing(&self) -> Bytes {
        Bytes::new(self.sent.get().saturating_sub(self.received.get()))
    }
}

impl TestResult {
    /// What both parts of a test made of which the second came after this one.
    pub(crate) fn followed_by(mut self, later: TestResult) -> TestResult {
        let time = self.time;
        let later_intervals = later.intervals.into_iter().map(|interval| Interval {
            start: interval.start.saturating_add(time),
            end: interval.end.saturating_add(time),
            ..interval
        });
        (self.end, self.fault) = (later.end, later.fault);
        self.time = time.saturating_add(later.time);
        self.streams.extend(later.streams);
        self.intervals.extend(later_intervals);
        self.intervals_not_kept = self.intervals_not_kept.saturating_add(later.intervals_not_kept);
        self
    }

    fn sum(&self, sending: bool) -> Bytes {
        let of = self.streams.iter().filter(|stream| stream.sending == sending);
        Bytes::new(of.map(|stream| stream.ours.bytes.get()).fold(0, u64::saturating_add))
    }

    /// Bytes that this process sent, all streams.
    pub fn sent(&self) -> Bytes {
        self.sum(true)
    }

    /// Bytes that this process received, all streams.
    pub fn received(&self) -> Bytes {
        self.sum(false)
    }

    /// What each stream's sender and receiver say, where both said something.
    pub fn differences(&self) -> Vec<Difference> {
        let difference = |stream: &StreamResult| match stream.sender_and_receiver() {
            (Some(sent), Some(received)) => {
                Some(Difference { id: stream.id, sent: sent.bytes, received: received.bytes })
            }
            _ => None,
        };
        self.streams.iter().filter_map(difference).collect()
    }

    /// Counters that cannot both be right: more received than sent. With an omitted time both ends leave out their own first
    /// bytes, so what was on its way when it ended counts only at the receiver: nothing is compared then.
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        if self.spec.omit > Nanos::ZERO {
            return Vec::new();
        }
        let mut found = Vec::new();
        for stream in &self.streams {
            let (Some(sent), Some(received)) = stream.sender_and_receiver() else { continue };
            let mut compare = |what, sent, received| {
                if received > sent {
                    found.push(Inconsistency { id: stream.id, what, sent, received });
                }
            };
            compare("bytes", sent.bytes.get(), received.bytes.get());
            if let (Some(sent), Some(received)) = (sent.datagrams, received.datagrams) {
                compare("datagrams", sent.packets, received.packets);
            }
        }
        found
    }
}
