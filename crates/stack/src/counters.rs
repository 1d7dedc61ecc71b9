//! What a stack counts. Each number says where it counts and is used for nothing else.
//!
//! Two sums hold at any time ([`Counters::segments_balance`], [`Counters::sessions_balance`]): segments sent are those with new
//! data, those retransmitted by cause, and control segments by kind; sessions opened are those closed by reason and those open.

use crate::tcb::{STATES, State};

/// Segments that were handed to the embedder's buffers, each in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// All.
    pub sent: u64,
    /// With data that was never sent before (and perhaps a FIN).
    pub new_data: u64,
    /// Sent again after a retransmission timeout.
    pub retransmitted_timeout: u64,
    /// Sent again because later data had arrived (fast retransmit and recovery).
    pub retransmitted_fast: u64,
    /// Sent again in smaller segments because the network said that they were too large (ICMP).
    pub retransmitted_too_big: u64,
    /// Sent again as a tail loss probe (RFC 8985 §7). A probe with new data counts there.
    pub retransmitted_tail: u64,
    /// SYN without ACK, the first of its session.
    pub syn: u64,
    /// SYN and ACK, the first of its session.
    pub syn_ack: u64,
    /// A SYN or SYN-ACK sent again.
    pub retransmitted_syn: u64,
    /// FIN without data, for the first time.
    pub fin: u64,
    /// RST.
    pub rst: u64,
    /// Acknowledgments without anything else.
    pub ack: u64,
    /// Window and keep-alive probes.
    pub probe: u64,
}

/// What arrived, and what was refused of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Packets handed in.
    pub packets: u64,
    /// Not TCP, or a fragment.
    pub foreign: u64,
    /// Cut short or contradicting themselves.
    pub malformed: u64,
    /// With a wrong checksum.
    pub bad_checksum: u64,
    /// Whose checksum was not verified, because the embedder said so or it was not complete.
    pub unverified: u64,
    /// Of no session, and no SYN to a listener.
    pub no_session: u64,
    /// Older than a segment before by their timestamp (PAWS, RFC 7323 §5).
    pub paws: u64,
    /// Without the timestamp that was agreed on.
    pub without_timestamp: u64,
    /// Outside the window.
    pub outside_window: u64,
    /// Acknowledging what was never sent, or long ago.
    pub bad_ack: u64,
    /// RST or SYN that was in the window and not exact (RFC 5961).
    pub challenged: u64,
    /// Acknowledgments that were not sent because of the limit of RFC 5961 §7.
    pub challenges_withheld: u64,
    /// Duplicate acknowledgments.
    pub duplicate_acks: u64,
    /// SYNs dropped because there was no room for a half-open session.
    pub syn_dropped: u64,
    /// Bytes that had arrived before.
    pub duplicate_bytes: u64,
    /// Bytes that arrived out of order and were handed over.
    pub out_of_order_bytes: u64,
    /// Bytes out of order that were dropped, by choice or for want of room, and bytes behind the window.
    pub dropped_bytes: u64,
    /// With a mark of congestion from the network (CE).
    pub congestion_marks: u64,
}

/// Bytes of data, without headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataBytes {
    /// Offered by the embedder to be sent.
    pub offered: u64,
    /// Sent for the first time.
    pub sent: u64,
    /// Sent again.
    pub retransmitted: u64,
    /// Acknowledged by the peer.
    pub acked: u64,
    /// Delivered in order, which is goodput.
    pub delivered: u64,
}

/// Sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// Opened by the embedder.
    pub connects: u64,
    /// Opened by a peer, counted when the handshake is complete.
    pub accepts: u64,
    /// Established, either way.
    pub established: u64,
    /// Closed in order: both sides sent FIN, and both were acknowledged.
    pub closed: u64,
    /// Answered with RST instead of SYN-ACK.
    pub refused: u64,
    /// Timed out before they were established.
    pub timed_out_opening: u64,
    /// Timed out afterwards.
    pub timed_out: u64,
    /// Reset by the peer before they were established, other than refused.
    pub reset_opening: u64,
    /// Reset by the peer afterwards.
    pub reset: u64,
    /// Ended by an ICMP error before they were established.
    pub unreachable: u64,
    /// Given up by the embedder.
    pub aborted: u64,
    /// Half-open: SYNs of peers that were answered.
    pub half_opened: u64,
    /// Half-open ones that were reset by the peer, or replaced by a new SYN.
    pub half_open_reset: u64,
    /// Half-open ones that were never completed.
    pub half_open_timed_out: u64,
    /// Half-open ones that were closed by a stack without room for one session more.
    pub half_open_dropped: u64,
    /// In TIME-WAIT since the start.
    pub time_waits: u64,
    /// Without TIME-WAIT because it was skipped by choice, or for want of room.
    pub time_wait_skipped: u64,
    /// In TIME-WAIT when the peer opened a new session with the same addresses and ports (RFC 6191).
    pub time_wait_reused: u64,
}

/// Recovery from losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recoveries {
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions because a tail loss probe repaired a loss (RFC 8985 §7.4).
    pub tail: u64,
    /// Fast recoveries.
    pub fast: u64,
    /// Of them, those that began because data out of order had not become whole in time (RFC 8985 §6).
    pub reordering: u64,
    /// Segments that the peer says came twice (D-SACK, RFC 2883): retransmissions that were not needed, and copies that the
    /// network made.
    pub spurious: u64,
    /// Reductions because of ECN.
    pub congestion_echoes: u64,
    /// The MSS was reduced because segments of full size timed out again and again.
    pub black_holes: u64,
    /// Round trips measured.
    pub rtt_samples: u64,
}

/// ICMP messages that were handed in, each in one of the places below the first ([`Counters::icmp_balances`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Icmp {
    /// All.
    pub packets: u64,
    /// No error, or none about a TCP segment.
    pub foreign: u64,
    /// Cut short before the sequence number of the segment that they quote, or contradicting themselves.
    pub malformed: u64,
    /// With a wrong checksum.
    pub bad_checksum: u64,
    /// About no session.
    pub no_session: u64,
    /// About a number that is not outstanding (RFC 5927 §4.1): forged, or late.
    pub not_outstanding: u64,
    /// The packet was too large, and the session sends smaller ones since (RFC 1191, RFC 8201).
    pub too_big: u64,
    /// The packet was too large, which was known, or not possible.
    pub too_big_ignored: u64,
    /// There is no such port or protocol. That ends a session whose SYN is not answered.
    pub hard: u64,
    /// Other reasons why the peer is not reached, such as no route. They end a session whose SYN is not answered with its next
    /// timeout.
    pub soft: u64,
}

/// All counters of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments sent.
    pub segments: Segments,
    /// What arrived.
    pub arrivals: Arrivals,
    /// Bytes.
    pub bytes: DataBytes,
    /// Sessions.
    pub sessions: Sessions,
    /// Recovery.
    pub recoveries: Recoveries,
    /// ICMP errors.
    pub icmp: Icmp,
    /// Sessions in each state now, by [`State`]; those half-open by a peer's SYN and those in TIME-WAIT included.
    pub in_state: [u32; STATES],
    /// Segments without a session (RST and the like) that found no room in the queue.
    pub replies_dropped: u64,
}

impl Counters {
    /// Sessions in `state` now.
    pub fn in_state(&self, state: State) -> u32 {
        self.in_state.get(state as usize).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn enter(&mut self, state: State) {
        if let Some(count) = self.in_state.get_mut(state as usize) {
            *count = count.saturating_add(1);
        }
    }

    #[inline]
    pub(crate) fn leave(&mut self, state: State) {
        if let Some(count) = self.in_state.get_mut(state as usize) {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether the segments sent are the sum of their kinds.
    pub fn segments_balance(&self) -> bool {
        let s = &self.segments;
        let retransmitted = s.retransmitted_timeout
            + s.retransmitted_fast
            + s.retransmitted_too_big
            + s.retransmitted_tail
            + s.retransmitted_syn;
        s.sent == s.new_data + retransmitted + s.syn + s.syn_ack + s.fin + s.rst + s.ack + s.probe
    }

    /// Whether ICMP messages are the sum of what became of them.
    pub fn icmp_balances(&self) -> bool {
        let i = &self.icmp;
        let refused = i.foreign + i.malformed + i.bad_checksum + i.no_session + i.not_outstanding;
        i.packets == refused + i.too_big + i.too_big_ignored + i.hard + i.soft
    }

    /// Whether sessions opened are those closed for any reason and those open now, and half-open ones likewise.
    pub fn sessions_balance(&self) -> bool {
        let s = &self.sessions;
        let closed = s.closed
            + s.refused
            + s.timed_out_opening
            + s.timed_out
            + s.reset_opening
            + s.reset
            + s.unreachable
            + s.aborted;
        let half_closed =
            s.half_open_reset + s.half_open_timed_out + s.half_open_dropped + s.accepts;
        let open: u64 = self.in_state.iter().map(|count| u64::from(*count)).sum();
        let waiting = u64::from(self.in_state(State::TimeWait));
        let half_open = s.half_opened.checked_sub(half_closed);
        half_open.is_some_and(|half| s.connects + s.accepts + half + waiting == closed + open)
    }
}
