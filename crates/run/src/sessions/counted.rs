//! What our own TCP counted on a port, in the words of reports.

use std::collections::BTreeMap;

use wirebeat_endpoint::cable::Carried;
use wirebeat_endpoint::{DatagramCounters, EndpointCounters, Frames, SentFrames};
use wirebeat_report::model::{
    IntervalSent, StackArrivals, StackBytes, StackCable, StackConflict, StackDatagrams,
    StackInterval, StackLink, StackRecoveries, StackReport, StackSegments, StackSessions,
    StackState,
};
use wirebeat_stack::{Counters, State};

/// What our own TCP counted on a port.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// How the port sends and receives.
    pub(crate) sends: String,
    pub(crate) receives: String,
    pub(crate) tcp: Counters,
    /// Of UDP, where some group is over it.
    pub(crate) datagrams: Option<DatagramCounters>,
    pub(crate) port: EndpointCounters,
    /// What a cable in memory did to what left.
    pub(crate) cable: Option<Carried>,
    /// Frames for clients of each group, and then for servers of each.
    pub(crate) sent_for: Vec<SentFrames>,
}

/// The states of RFC 9293 §3.3.2, as it writes them.
const STATES: [(State, &str); 9] = [
    (State::SynSent, "SYN-SENT"),
    (State::SynReceived, "SYN-RECEIVED"),
    (State::Established, "ESTABLISHED"),
    (State::FinWait1, "FIN-WAIT-1"),
    (State::FinWait2, "FIN-WAIT-2"),
    (State::CloseWait, "CLOSE-WAIT"),
    (State::Closing, "CLOSING"),
    (State::LastAck, "LAST-ACK"),
    (State::TimeWait, "TIME-WAIT"),
];

/// What it did until a moment, as far as intervals tell it: connections in each of [`STATES`], frames and their bytes each way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StackLook {
    states: [u32; 9],
    sent: [u64; 2],
    received: [u64; 2],
}

impl StackLook {
    pub(crate) fn of(tcp: &Counters, frames: Frames) -> StackLook {
        StackLook {
            states: STATES.map(|(state, _)| tcp.in_state(state)),
            sent: [frames.sent, frames.bytes_sent],
            received: [frames.received, frames.bytes_received],
        }
    }

    /// Adds what another core of the port did.
    fn join(&mut self, other: &StackLook) {
        self.states.iter_mut().zip(other.states).for_each(|(all, more)| *all += more);
        for (all, more) in [(&mut self.sent, other.sent), (&mut self.received, other.received)] {
            all.iter_mut().zip(more).for_each(|(all, more)| *all = all.saturating_add(more));
        }
    }

    /// An interval that ends with it, and began with `before`.
    pub(super) fn interval(&self, port: &str, before: &StackLook) -> StackInterval {
        let since = |now: [u64; 2], then: [u64; 2]| IntervalSent {
            frames: now[0].saturating_sub(then[0]),
            frame_bytes: now[1].saturating_sub(then[1]),
        };
        let states = STATES.iter().zip(self.states).filter(|(_, sessions)| *sessions > 0);
        StackInterval {
            port: port.to_owned(),
            states: states
                .map(|((_, name), sessions)| StackState {
                    state: (*name).to_owned(),
                    sessions: sessions.into(),
                })
                .collect(),
            sent: since(self.sent, before.sent),
            received: since(self.received, before.received),
        }
    }
}

/// Those of all cores, by the names of ports.
pub(super) type Stacks = BTreeMap<String, StackLook>;

/// The same of several workers.
pub(super) fn together(looks: impl IntoIterator<Item = (String, StackLook)>) -> Stacks {
    let mut all = Stacks::new();
    for (port, look) in looks {
        all.entry(port).or_default().join(&look);
    }
    all
}

impl Counted {
    /// As a report has it, of the port with this name.
    pub(super) fn report(self, port: String) -> StackReport {
        let Counters { segments, arrivals, bytes, sessions, recoveries, icmp, .. } = self.tcp;
        let states = STATES.map(|(state, name)| (name, self.tcp.in_state(state)));
        let states = states.into_iter().filter(|(_, count)| *count > 0);
        StackReport {
            port,
            transmit_mode: self.sends,
            receive_mode: self.receives,
            segments: StackSegments {
                all: segments.sent,
                new_data: segments.new_data,
                retransmitted_timeout: segments.retransmitted_timeout,
                retransmitted_fast: segments.retransmitted_fast,
                retransmitted_tail: segments.retransmitted_tail,
                retransmitted_too_big: segments.retransmitted_too_big,
                retransmitted_syn: segments.retransmitted_syn,
                syn: segments.syn,
                syn_ack: segments.syn_ack,
                fin: segments.fin,
                rst: segments.rst,
                ack: segments.ack,
                probe: segments.probe,
            },
            arrivals: StackArrivals {
                packets: arrivals.packets,
                foreign: arrivals.foreign,
                malformed: arrivals.malformed,
                bad_checksum: arrivals.bad_checksum,
                unverified: arrivals.unverified,
                no_session: arrivals.no_session,
                paws: arrivals.paws,
                outside_window: arrivals.outside_window,
                bad_ack: arrivals.bad_ack,
                challenged: arrivals.challenged,
                duplicate_acks: arrivals.duplicate_acks,
                syn_dropped: arrivals.syn_dropped,
                icmp_ignored: icmp.packets.saturating_sub(icmp.too_big + icmp.hard + icmp.soft),
            },
            bytes: StackBytes {
                sent: bytes.sent,
                retransmitted: bytes.retransmitted,
                acked: bytes.acked,
                delivered: bytes.delivered,
                duplicate: arrivals.duplicate_bytes,
                out_of_order: arrivals.out_of_order_bytes,
                dropped: arrivals.dropped_bytes,
            },
            recoveries: StackRecoveries {
                timeouts: recoveries.timeouts,
                fast: recoveries.fast,
                reordering: recoveries.reordering,
                tail: recoveries.tail,
                spurious: recoveries.spurious,
                congestion_echoes: recoveries.congestion_echoes,
                path_mtu_reductions: icmp.too_big,
                black_holes: recoveries.black_holes,
            },
            sessions: StackSessions {
                time_waits: sessions.time_waits,
                time_wait_skipped: sessions.time_wait_skipped,
                half_open_dropped: sessions.half_open_dropped,
            },
            states: states
                .map(|(name, count)| StackState { state: name.to_owned(), sessions: count.into() })
                .collect(),
            link: StackLink {
                neighbour_frames: self.port.neighbour_frames,
                unresolved: self.port.unresolved,
                receive_drops: self.port.receive_drops,
                replies_dropped: self.tcp.replies_dropped,
            },
            cable: self.cable.map(|Carried { lost, dropped, .. }| StackCable { lost, dropped }),
            datagrams: self.datagrams.map(|of| StackDatagrams {
                sent: of.sent,
                packets: of.packets,
                received: of.received,
                unverified: of.unverified,
                malformed: of.malformed,
                bad_checksum: of.bad_checksum,
                no_session: of.no_session,
            }),
            silent_next_hop: self.port.silent_next_hop.map(|next_hop| next_hop.to_string()),
            conflict: self.port.conflict.map(|of| StackConflict {
                address: of.address.to_string(),
                mac: of.mac.to_string(),
            }),
        }
    }
}
