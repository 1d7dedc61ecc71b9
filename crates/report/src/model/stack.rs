//! What our own TCP did on a port: segments, bytes, recoveries from losses and sessions, as it counted them.
//!
//! The counters are those of the whole port, whatever group of sessions they are of. Each counts at one place only, and segments
//! sent are the sum of their kinds ([`StackSegments::kinds`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IntervalSent;

/// What our own TCP did on a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackReport {
    /// The port, by its name in the scenario.
    pub port: String,
    /// How it sends, in words.
    pub transmit_mode: String,
    /// How it receives, in words.
    pub receive_mode: String,
    /// Segments sent.
    pub segments: StackSegments,
    /// Packets received.
    pub arrivals: StackArrivals,
    /// Bytes of the TCP streams, without headers.
    pub bytes: StackBytes,
    /// Recovery from losses, and reductions.
    pub recoveries: StackRecoveries,
    /// Sessions that ended in a way which only TCP knows.
    pub sessions: StackSessions,
    /// Sessions in each TCP state at the end of the run.
    pub states: Vec<StackState>,
    /// What lies below TCP.
    pub link: StackLink,
    /// What a cable in memory did to frames from here; absent on others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cable: Option<StackCable>,
    /// Datagrams of UDP; absent where no sessions are over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<StackDatagrams>,
    /// The first next hop that did not answer when it was asked for its link-layer address; absent where all did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_next_hop: Option<String>,
    /// The first station that was seen to use an address of ours while the run went on; absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<StackConflict>,
}

/// Another station that uses an address of ours (RFC 5227 §2.4, RFC 4862 §5.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackConflict {
    /// Which address.
    pub address: String,
    /// The Ethernet address of the station.
    pub mac: String,
}

/// Implements `add` for structures of counters. The pattern has no `..`: a counter that is missing here does not compile.
macro_rules! addable {
    ($($name:ident { $($field:ident),* $(,)? })*) => {
        $(impl $name {
            /// Adds what another thread of the same port counted.
            pub(crate) fn add(&mut self, other: &$name) {
                let $name { $($field),* } = *other;
                $(self.$field = self.$field.saturating_add($field);)*
            }
        })*
    };
}

addable! {
    StackSegments {
        all, new_data, retransmitted_timeout, retransmitted_fast, retransmitted_tail, retransmitted_too_big,
        retransmitted_syn, syn, syn_ack, fin, rst, ack, probe,
    }
    StackArrivals {
        packets, foreign, malformed, bad_checksum, unverified, no_session, paws, outside_window, bad_ack, challenged,
        duplicate_acks, syn_dropped, icmp_ignored,
    }
    StackBytes { sent, retransmitted, acked, delivered, duplicate, out_of_order, dropped }
    StackRecoveries {
        timeouts, fast, reordering, tail, spurious, congestion_echoes, path_mtu_reductions, black_holes,
    }
    StackSessions { time_waits, time_wait_skipped, half_open_dropped }
    StackLink { neighbour_frames, unresolved, receive_drops, replies_dropped }
    StackCable { lost, dropped }
    StackDatagrams { sent, packets, received, unverified, malformed, bad_checksum, no_session }
}

/// TCP segments that were sent, each in one of the kinds behind the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackSegments {
    /// All.
    pub all: u64,
    /// With data that was never sent before, perhaps with a FIN.
    pub new_data: u64,
    /// Sent again after a retransmission timeout (RFC 6298).
    pub retransmitted_timeout: u64,
    /// Sent again because later data had arrived: fast retransmit and recovery (RFC 5681, RFC 6675, RFC 8985).
    pub retransmitted_fast: u64,
    /// Sent again as a tail loss probe (RFC 8985 §7).
    pub retransmitted_tail: u64,
    /// Sent again in smaller segments, because the network said that the packet was too large (ICMP; RFC 1191, RFC 8201).
    pub retransmitted_too_big: u64,
    /// A SYN or SYN-ACK that was sent again.
    pub retransmitted_syn: u64,
    /// SYN without ACK, the first of its session.
    pub syn: u64,
    /// SYN-ACK, the first of its session.
    pub syn_ack: u64,
    /// FIN without data, for the first time.
    pub fin: u64,
    /// RST.
    pub rst: u64,
    /// Acknowledgments without anything else.
    pub ack: u64,
    /// Window and keep-alive probes.
    pub probe: u64,
}

impl StackSegments {
    /// Those sent again, by cause.
    pub fn retransmitted(&self) -> [(&'static str, u64); 5] {
        [
            ("retransmitted by timeout", self.retransmitted_timeout),
            ("fast retransmitted", self.retransmitted_fast),
            ("tail loss probes", self.retransmitted_tail),
            ("retransmitted as too big", self.retransmitted_too_big),
            ("retransmitted SYN", self.retransmitted_syn),
        ]
    }

    /// Control segments, by kind.
    pub fn control(&self) -> [(&'static str, u64); 6] {
        [
            ("SYN", self.syn),
            ("SYN-ACK", self.syn_ack),
            ("FIN", self.fin),
            ("RST", self.rst),
            ("ACK", self.ack),
            ("probes", self.probe),
        ]
    }

    /// All kinds, whose sum is all segments.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let data = [("new data", self.new_data)];
        data.into_iter().chain(self.retransmitted()).chain(self.control())
    }
}

/// Packets that were handed to TCP, and what was refused of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackArrivals {
    /// All packets.
    pub packets: u64,
    /// Not TCP, or a fragment.
    pub foreign: u64,
    /// Cut short, or with contradicting lengths.
    pub malformed: u64,
    /// With a wrong checksum: dropped.
    pub bad_checksum: u64,
    /// Whose checksum was not verified, because the port vouches for it or it was not complete yet; not dropped.
    pub unverified: u64,
    /// Of no session, and no SYN to a listener.
    pub no_session: u64,
    /// Older than a segment before, by their timestamp (PAWS, RFC 7323 §5).
    pub paws: u64,
    /// Outside the receive window (RFC 9293 §3.10.7.4).
    pub outside_window: u64,
    /// Which acknowledge what was never sent, or long ago (RFC 5961 §5).
    pub bad_ack: u64,
    /// RST or SYN in the window with an inexact sequence number, answered by a challenge ACK (RFC 5961 §3, §4).
    pub challenged: u64,
    /// Duplicate acknowledgments (RFC 5681 §2).
    pub duplicate_acks: u64,
    /// SYNs that were dropped, because there was no room for a half-open session.
    pub syn_dropped: u64,
    /// ICMP messages that changed nothing: invalid, of no session, about a number that is not outstanding (RFC 5927 §4.1), or
    /// known before.
    pub icmp_ignored: u64,
}

/// Bytes of the TCP streams, without headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackBytes {
    /// Sent for the first time.
    pub sent: u64,
    /// Sent again.
    pub retransmitted: u64,
    /// Acknowledged by the peer.
    pub acked: u64,
    /// Delivered in order: goodput.
    pub delivered: u64,
    /// Received that had been received before.
    pub duplicate: u64,
    /// Received out of order and kept.
    pub out_of_order: u64,
    /// Received and dropped: out of order without room, or behind the window.
    pub dropped: u64,
}

/// How TCP recovered from losses, and why it sent less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackRecoveries {
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub fast: u64,
    /// Those of the fast recoveries that the reordering timer began (RFC 8985 §6).
    pub reordering: u64,
    /// Losses that a tail loss probe repaired (RFC 8985 §7.4).
    pub tail: u64,
    /// Segments that the peer received twice, by its D-SACK (RFC 2883): retransmissions that were not needed, and copies that
    /// the network made.
    pub spurious: u64,
    /// Reductions of the congestion window because of ECN (RFC 3168).
    pub congestion_echoes: u64,
    /// ICMP messages that reduced a path MTU (RFC 1191, RFC 8201).
    pub path_mtu_reductions: u64,
    /// Times that the MSS was reduced because segments of full size timed out again and again: the path drops them silently (RFC 4821 §7.7).
    pub black_holes: u64,
}

/// Sessions that ended in a way which only TCP knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackSessions {
    /// Sessions that entered TIME-WAIT.
    pub time_waits: u64,
    /// Sessions that skipped TIME-WAIT, because they were asked to or for want of room.
    pub time_wait_skipped: u64,
    /// Half-open sessions that were dropped for want of room.
    pub half_open_dropped: u64,
}

/// How many sessions are in a TCP state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackState {
    /// The state as RFC 9293 §3.3.2 calls it: "ESTABLISHED", "TIME-WAIT".
    pub state: String,
    /// Sessions in it; 0 is possible.
    pub sessions: u64,
}

/// Datagrams of UDP on a port. `packets = received + malformed + bad_checksum + no_session`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackDatagrams {
    /// Sent.
    pub sent: u64,
    /// Packets of UDP that arrived for the hosts of the port.
    pub packets: u64,
    /// Those of them that were of a session.
    pub received: u64,
    /// Received without a checksum, or with one that was left to a card: they count as received.
    pub unverified: u64,
    /// Cut short, in fragments, or with lengths that contradict each other.
    pub malformed: u64,
    /// With a wrong checksum.
    pub bad_checksum: u64,
    /// For a port where nobody listens, or whose group has no room for another peer.
    pub no_session: u64,
}

/// What lies below TCP on its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackLink {
    /// Frames of ARP, neighbour discovery and echo that were sent.
    pub neighbour_frames: u64,
    /// Packets that were not sent, because the link-layer address of their next hop was not known.
    pub unresolved: u64,
    /// Frames that the receiving port lost before TCP saw them: the tester's own losses.
    pub receive_drops: u64,
    /// Segments of no session that were not sent, because too many waited to be: RSTs to strangers, acknowledgments of sessions in
    /// TIME-WAIT.
    #[serde(default)]
    pub replies_dropped: u64,
}

/// What a cable in memory did to frames that left by a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackCable {
    /// Frames that it lost, as its `loss` asks for.
    pub lost: u64,
    /// Frames that it dropped, because its `queue` was full.
    pub dropped: u64,
}

/// What our own TCP on a port did in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackInterval {
    /// The port's name.
    pub port: String,
    /// How many connections were in each state when it ended; states without any are left out.
    pub states: Vec<StackState>,
    /// What left: all frames, with those of ARP and neighbour discovery.
    pub sent: IntervalSent,
    /// What arrived. A large packet that the system put together is one frame.
    pub received: IntervalSent,
}
