//! What sessions did: TCP connections with a program, or exchanges over UDP, by group and end.
//!
//! A group that Wirebeat runs at both ends has two reports, one for each end; `paired_with` of each names the other. Counters
//! stand in structures by what they count, and each counts at one place only ([`wirebeat_meter::session`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Expectation;
use super::stats::Stats;

/// What a group of sessions did at one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionReport {
    /// Its name in the scenario.
    pub name: String,
    /// Which end this is.
    pub end: SessionEnd,
    /// Whose TCP it is: "host" (the operating system's sockets), "own"; or whose wire: "iperf3", "iperf2".
    pub stack: String,
    /// "udp" where messages are datagrams, "sctp"; absent over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// What its sessions do: "http", "bulk".
    pub program: String,
    /// Its own addresses and ports, in words.
    pub local: String,
    /// Those of the other end, in words.
    pub remote: String,
    /// Session starts in a second that were asked for, on average; absent at the end that accepts, with `users`, and where
    /// sessions start as fast as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_per_second: Option<f64>,
    /// Users that take turns: each starts its next session when the one before has ended. Absent where starts have a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// When it was under way, from the start of the run; absent where it was all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// See `from_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// How many sessions it was to have established (`until`), and when it had; absent where it was to reach nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<SessionGoal>,
    /// The place in `sessions`, from 0, of the other end of the same connections; absent where that is not ours, and where
    /// something between the ends makes connections of its own (a proxy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paired_with: Option<u32>,
    /// Sessions of both ends, put together by the number that the client says first; at the client's end alone, and where it was asked
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<SessionPairs>,
    /// How sessions began.
    pub starts: SessionStarts,
    /// How they ended.
    pub ends: SessionEnds,
    /// The most that were open at a time; of several cores the sum of theirs.
    pub most_open: u64,
    /// Requests and responses.
    pub messages: SessionMessages,
    /// Bytes of the TCP streams, without headers.
    pub bytes: SessionBytes,
    /// TCP segments with data.
    pub segments: SessionSegments,
    /// Frames that this end sent for them; absent with the system's TCP, which tells nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<SessionFrames>,
    /// Sends without a copy; absent where they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<SessionZeroCopy>,
    /// Datagrams, where sessions are streams over UDP (a test of iperf3); absent over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<SessionDatagrams>,
    /// Messages one way; absent where the program has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<SessionOneWay>,
    /// Handshakes of TLS; absent where the sessions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<SessionTls>,
    /// What its clients did that misbehave, and their peers; absent where they did nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misbehaviour: Option<SessionMisbehaviour>,
    /// Rates over the time under way; absent where no time passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<SessionRates>,
    /// Responses by status, where the protocol has one (HTTP, DNS); in the order of the statuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<StatusCount>,
    /// How long things took.
    pub times: SessionTimes,
    /// How long the timers took that the program names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub timers_ns: BTreeMap<String, Stats>,
    /// How much later than planned sessions started.
    pub start_lateness_ns: Stats,
    /// Smoothed round-trip time as TCP measured it (RFC 6298), one value for each session that ended.
    pub round_trip_ns: Stats,
    /// What was expected of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
}

impl SessionReport {
    /// What stands behind the name of a group whose numbers the other end told, as it counted them (iperf3).
    pub const AS_THE_OTHER_END_SAYS: &str = ", as the other end says";

    /// The transport of datagrams.
    pub(crate) const UDP: &str = "udp";
    /// That of associations.
    pub(crate) const SCTP: &str = "sctp";

    /// Whether its messages are datagrams, of which some may be lost.
    pub fn is_over_udp(&self) -> bool {
        self.transport.as_deref() == Some(SessionReport::UDP)
    }

    /// All of its distributions.
    pub(super) fn distributions(&mut self) -> impl Iterator<Item = &mut Stats> {
        let SessionTimes { connect, handshake, first_byte, response, delay, session } =
            &mut self.times;
        let times =
            [connect, handshake, first_byte, response, delay, session].into_iter().flatten();
        let one_way = self.one_way.iter_mut();
        let one_way =
            one_way.flat_map(|of| [&mut of.gap_ns, &mut of.jitter_ns, &mut of.length_bytes]);
        times
            .flat_map(|times| [&mut times.planned_ns, &mut times.actual_ns])
            .chain(one_way)
            .chain(self.timers_ns.values_mut())
            .chain([&mut self.start_lateness_ns, &mut self.round_trip_ns])
    }
}

/// What a group was to reach; it stopped when it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionGoal {
    /// Sessions that were to be established, on all cores together.
    pub established: u64,
    /// When that many were, from the start of the run; absent where they never were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_ns: Option<u64>,
}

/// Established sessions of both ends, put together by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPairs {
    /// Numbers that both ends have.
    pub paired: u64,
    /// Those of them that ended in order at both ends.
    pub in_order: u64,
    /// Those of the in order of which each end was given as many bytes as the other one sent.
    pub equal: u64,
    /// Sessions that the client has and the server has not.
    pub client_only: u64,
    /// Sessions that the server has and the client has not, those without a number included.
    pub server_only: u64,
    /// Sessions of either end beyond the first 1,048,576 of a core: they are in none of the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

/// Frames that an end sent for its sessions. Answers to packets of no session are in those of no group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionFrames {
    /// Frames, those that are cut from large packets one by one.
    pub sent: u64,
    /// Their bytes, with FCS.
    pub sent_bytes: u64,
}

/// Sends that handed memory to the system instead of having it copied (`SO_ZEROCOPY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionZeroCopy {
    /// Sends whose memory was handed over.
    pub sends: u64,
    /// Those of them that the system is known to be done with.
    pub told: u64,
    /// Those of the told that it copied after all, as it always does where packets stay on this machine (loopback, veth).
    pub copied: u64,
    /// Sends that were copied, because the system had no room to keep account of another one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub no_room: u64,
}

impl SessionZeroCopy {
    /// Both together.
    #[must_use]
    pub fn and(self, other: SessionZeroCopy) -> SessionZeroCopy {
        SessionZeroCopy {
            sends: self.sends.saturating_add(other.sends),
            told: self.told.saturating_add(other.told),
            copied: self.copied.saturating_add(other.copied),
            no_room: self.no_room.saturating_add(other.no_room),
        }
    }
}

/// An end of sessions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SessionEnd {
    /// The end that opens them.
    #[default]
    Client,
    /// The end that accepts them.
    Server,
}

impl SessionEnd {
    /// Its name in text.
    pub const fn name(self) -> &'static str {
        match self {
            SessionEnd::Client => "client",
            SessionEnd::Server => "server",
        }
    }
}

/// How sessions began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStarts {
    /// Sessions that were due to start; absent at the end that accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
    /// Those of them that were not opened; absent at the end that accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired: Option<u64>,
    /// Why they expired; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_by: Option<SessionsExpired>,
    /// Sessions that were opened: a connection was asked for, or a peer's was accepted.
    pub opened: u64,
    /// Those of them that were established; all that were accepted are.
    pub established: u64,
}

/// Why sessions that were due were not opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsExpired {
    /// As many as the limit allows were open.
    pub at_limit: u64,
    /// They still waited for a limit when no session was opened any more.
    pub waiting: u64,
    /// The tester was too late: its own failure.
    pub late: u64,
}

/// How sessions ended: each of the opened in one of these ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionEnds {
    /// The program ended, and both sides closed.
    pub in_order: u64,
    /// The peer answered the attempt to connect with RST.
    pub refused: u64,
    /// The peer did not answer in time: the attempt to connect, or data.
    pub timed_out: u64,
    /// The peer reset the session before its program was done.
    pub reset: u64,
    /// The network said that the peer cannot be reached (ICMP, or no route).
    pub unreachable: u64,
    /// The peer closed its side before the program had what it waits for.
    pub closed_early: u64,
    /// The peer sent what its protocol does not allow.
    pub malformed: u64,
    /// TLS failed: an alert, a certificate that is not taken, nothing that both ends have. `tls` of the group says which.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tls_failed: u64,
    /// The program did not get what it asked for in the time that it has.
    pub abandoned: u64,
    /// This machine could not: no port, no file descriptor, no memory. The tester's own failure.
    pub failed_here: u64,
    /// Still open when the run ended, which closed them.
    pub unfinished: u64,
}

impl SessionEnds {
    /// The name of one of the ways.
    pub(crate) const CLOSED_EARLY: &str = "closed early";

    /// Sessions that the peer or the network ended, or that got no answer: each way with its name.
    pub fn failed_there(&self) -> [(&'static str, u64); 8] {
        [
            ("refused", self.refused),
            ("timed out", self.timed_out),
            ("reset", self.reset),
            ("unreachable", self.unreachable),
            (Self::CLOSED_EARLY, self.closed_early),
            ("malformed", self.malformed),
            ("TLS failed", self.tls_failed),
            ("abandoned", self.abandoned),
        ]
    }
}

/// Requests and responses of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMessages {
    /// Requests whose last byte was handed to TCP.
    pub requests: u64,
    /// Responses: at a client those that were received whole, at a server those that its program gave to TCP or UDP.
    pub responses: u64,
    /// Responses and messages that were not as expected: another size, another status.
    pub unexpected: u64,
    /// Messages with bytes that were not what they should be.
    pub damaged: u64,
    /// Responses of those sessions that the peer then closed early (HTTP): over `ends.closed_early`, after how many it did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before_closed_early: u64,
    /// Over UDP: responses that did not come in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Over UDP: responses to requests that were given up before, or that had one already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Messages that are none of the protocol, and were left aside.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub malformed: u64,
}

/// Bytes of the TCP streams of sessions, without headers; over UDP those of the payload of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionBytes {
    /// That programs asked to be sent.
    pub offered: u64,
    /// That TCP took (with sockets: the kernel).
    pub sent: u64,
    /// That the peer acknowledged; 0 where TCP does not say it.
    pub acked: u64,
    /// That were received in order and handed to programs.
    pub delivered: u64,
    /// Those of the delivered that were compared with what they should be.
    pub verified: u64,
}

/// TCP segments of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSegments {
    /// Segments that were sent with data, again or for the first time; 0 where TCP does not say it.
    pub data: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
}

/// Datagrams of sessions over UDP, as one end counted them. Lost and late ones are those of what this end received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionDatagrams {
    /// Sent by this end.
    pub sent: u64,
    /// Received by this end.
    pub received: u64,
    /// Never received, though one with a higher sequence number was. What was sent after the last that arrived is in no counter.
    pub lost: u64,
    /// Received after one with a higher sequence number, as a duplicate is; absent where the wire does not tell it, as of the other
    /// end of a test of iperf3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_order: Option<u64>,
    /// Jitter (RFC 1889 §6.3.1) in nanoseconds at the end, of the session that has the most; absent at an end that received nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
}

impl SessionDatagrams {
    /// Adds what other sessions counted.
    pub fn merge(&mut self, other: &SessionDatagrams) {
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        self.lost = self.lost.saturating_add(other.lost);
        let late = [self.out_of_order, other.out_of_order].into_iter().flatten();
        self.out_of_order = late.reduce(u64::saturating_add);
        self.jitter_ns = self.jitter_ns.max(other.jitter_ns);
    }
}

/// Messages one way of sessions, as one end counted them. Their delays are in `times.delay`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionOneWay {
    /// Handed to the stack by this end.
    pub sent: u64,
    /// Received by this end, each once.
    pub received: u64,
    /// Over UDP: not received, though a later one was; where both ends are ours, all that were not received.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Over UDP: received after a later one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub out_of_order: u64,
    /// Over UDP: received again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicate: u64,
    /// Those of the received that carry times of another host's clock: they are in no delay.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub of_other_clocks: u64,
    /// From one arrival to the next, within each session.
    pub gap_ns: Stats,
    /// By how much the delays of two messages differ that arrived one after the other in a session (RFC 4689).
    pub jitter_ns: Stats,
    /// Lengths of the received.
    pub length_bytes: Stats,
}

/// TLS of sessions, as one end counted it. Bytes in `bytes` are those of programs, without TLS; segments are those of TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionTls {
    /// Handshakes that were completed.
    pub handshakes: u64,
    /// Those of them that resumed an earlier session.
    pub resumed: u64,
    /// Handshakes that failed, by their cause.
    pub failed: TlsFailures,
    /// Sessions whose peer closed TCP without the closing alert of TLS (RFC 8446 §6.1): what it sent may have been cut.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated: u64,
    /// Completed handshakes by cipher suite; the names of those of TLS 1.3 begin with "TLS13".
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub suites: BTreeMap<String, u64>,
    /// Why TLS failed first, in words; absent where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
}

/// Handshakes of TLS that failed, each by one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsFailures {
    /// The peer sent a fatal alert.
    pub alert: u64,
    /// The peer's certificate is not taken.
    pub certificate: u64,
    /// No version, cipher suite or application protocol is common to both ends.
    pub incompatible: u64,
    /// What the peer sent is not TLS, or not valid there.
    pub malformed: u64,
    /// The peer closed or reset the connection.
    pub closed: u64,
    /// It was not completed in time.
    pub timed_out: u64,
}

impl TlsFailures {
    /// Each cause with its name.
    pub fn by_cause(&self) -> [(&'static str, u64); 6] {
        [
            ("alert", self.alert),
            ("certificate", self.certificate),
            ("incompatible", self.incompatible),
            ("malformed", self.malformed),
            ("closed", self.closed),
            ("timed out", self.timed_out),
        ]
    }
}

/// What clients did that misbehave, and what their peers did. The way they misbehave is in `program`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMisbehaviour {
    /// What they did: forged segments and SYNs that left, pieces of requests, readings.
    pub acts: u64,
    /// Acknowledgments that acknowledge nothing new, by which peers answered forged segments (challenge acknowledgments, RFC 5961), and
    /// the answers to SYNs.
    pub answered: u64,
    /// Sessions that the peer closed or reset meanwhile; `timers_ns` has when.
    pub ended_by_peer: u64,
}

/// Rates of a group: its counts over the time under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRates {
    /// The time.
    pub over_ns: u64,
    /// For how long sessions started, or were to start where that is longer: what `opened_per_second` and `established_per_second` are
    /// over.
    #[serde(default)]
    pub starting_ns: u64,
    /// Sessions opened in a second, while sessions started.
    pub opened_per_second: f64,
    /// Sessions established in a second, while sessions started.
    pub established_per_second: f64,
    /// Handshakes of TLS completed in a second, while sessions started; absent without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes_per_second: Option<f64>,
    /// Sessions ended in a second, without those that the end of the run closed.
    pub ended_per_second: f64,
    /// Requests in a second.
    pub requests_per_second: f64,
    /// Responses in a second.
    pub responses_per_second: f64,
    /// Delivered bytes as bits in a second: the goodput of what this end received.
    pub goodput_bits_per_second: f64,
    /// Acknowledged bytes as bits in a second: the goodput of what this end sent, by the peer's TCP.
    pub acked_bits_per_second: f64,
}

/// How many responses had a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusCount {
    /// The status.
    pub status: u16,
    /// Its name, where it has one (response codes of DNS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Responses.
    pub count: u64,
}

/// How long things took in sessions; absent what was never timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionTimes {
    /// From the start to the established connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<PlannedActual>,
    /// From the established connection to the completed handshake of TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<PlannedActual>,
    /// From a request to the first byte of its response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<PlannedActual>,
    /// From a request to the last byte of its response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<PlannedActual>,
    /// One way: from when a message was sent until its last byte was received, at the end that received it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<PlannedActual>,
    /// From the start to the end of a session that ended in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<PlannedActual>,
}

/// A duration from two beginnings. Only that from the plan has the time that a user would have waited because the tester or the
/// device fell behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedActual {
    /// From when it was planned to begin.
    pub planned_ns: Stats,
    /// From when it began.
    pub actual_ns: Stats,
}

/// What all groups of sessions did in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionIntervals {
    /// When it began, from the start of the run.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// Each group at each end.
    pub sessions: Vec<SessionInterval>,
}

/// What a group of sessions did at one end in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInterval {
    /// The group's name.
    pub name: String,
    /// Which end this is.
    pub end: SessionEnd,
    /// Sessions that were open when the interval ended.
    pub open: u64,
    /// Sessions that became due; absent at the end that accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
    /// Those that were not opened because too many were open or they were too late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub expired: u64,
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that were established.
    pub established: u64,
    /// Sessions that ended in order.
    pub in_order: u64,
    /// Sessions that ended in another way, without the unfinished.
    pub failed: u64,
    /// Those of the failed for which this machine had no port, descriptor or memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_here: u64,
    /// Sessions that the end of the run closed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unfinished: u64,
    /// Handshakes of TLS that were completed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub handshakes: u64,
    /// Handshakes of TLS that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub handshakes_failed: u64,
    /// Requests whose last byte was handed to TCP.
    pub requests: u64,
    /// Responses: at a client those that were received whole, at a server those that its program gave to TCP or UDP.
    pub responses: u64,
    /// Responses and messages that were not as expected.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unexpected: u64,
    /// Messages with bytes that were not what they should be.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// Over UDP: responses that did not come in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Over UDP: responses to requests that were given up before, or that had one already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Messages that are none of the protocol, and were left aside.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub malformed: u64,
    /// Messages one way that were sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent_messages: u64,
    /// Messages one way that were received.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub received_messages: u64,
    /// What clients did that misbehave.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub misbehaved: u64,
    /// By how many acknowledgments peers answered it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub answered: u64,
    /// Sessions that peers ended while their clients misbehaved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ended_by_peer: u64,
    /// Bytes that TCP took.
    pub sent_bytes: u64,
    /// Bytes that the peer acknowledged.
    pub acked_bytes: u64,
    /// Bytes that were received in order and handed to programs.
    pub delivered_bytes: u64,
    /// Segments that were sent again, as far as open sessions were looked at; the rest when they end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retransmitted_segments: u64,
    /// What TCP knew of open connections shortly before the interval ended; absent where none was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<SessionConnections>,
    /// Datagrams, where sessions are streams over UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<SessionDatagrams>,
    /// How long the responses took that came in the interval, from when their requests were planned, without the histogram; minimum and
    /// maximum are within 0.8 %. Absent where none came. A response within some milliseconds of the end may stand in the interval beside
    /// the one that counts it in `responses`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ns: Option<Stats>,
}

/// What TCP knew of open connections of a group, at one end. What it does not say is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionConnections {
    /// Connections that were looked at: at most 1,024 on each core.
    pub sampled: u64,
    /// The mean of their smoothed round trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// The longest of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_max_ns: Option<u64>,
    /// The mean of their congestion windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u64>,
    /// The sum of their delivery rates: how fast data arrived at the peers most recently. With the system's TCP alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_bits_per_second: Option<u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
