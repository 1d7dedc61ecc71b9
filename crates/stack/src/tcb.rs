//! The state of a session: three cache lines.
//!
//! A segment in order touches all three; a timer that finds nothing to do, which is most of them, the first alone. Names are those of RFC 9293 §3.3.1 where it has them.

use std::net::{IpAddr, Ipv4Addr};

use wirebeat_units::Nanos;

use crate::api::Totals;
use crate::segment::Tuple;
use crate::seq::Seq;
use crate::slab::{NONE, Slot};
use crate::tick::Tick;

/// The states of RFC 9293 §3.3.2 that a session can be in; those of a server without a session have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// No session.
    Closed,
    /// A SYN was sent.
    SynSent,
    /// A SYN was received, and sent.
    SynReceived,
    /// Established.
    Established,
    /// We closed first.
    FinWait1,
    /// We closed first, and the peer knows.
    FinWait2,
    /// The peer closed first.
    CloseWait,
    /// Both closed at the same time.
    Closing,
    /// The peer closed first, and we did.
    LastAck,
    /// Both closed; old segments may be about.
    TimeWait,
}

/// How many states there are.
pub const STATES: usize = State::TimeWait as usize + 1;

/// Single facts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(pub u32);

impl Marks {
    /// Addresses are of IPv6.
    pub const V6: Marks = Marks(1);
    /// Timestamps were agreed on.
    pub const TIMESTAMPS: Marks = Marks(1 << 1);
    /// SACK was agreed on.
    pub const SACK: Marks = Marks(1 << 2);
    /// ECN was agreed on.
    pub const ECN: Marks = Marks(1 << 3);
    /// A SYN or SYN-ACK is to be sent.
    pub const SEND_SYN: Marks = Marks(1 << 4);
    /// The SYN was sent more than once.
    pub const SYN_REPEATED: Marks = Marks(1 << 5);
    /// The embedder sends no more: a FIN follows the data.
    pub const CLOSED: Marks = Marks(1 << 6);
    /// The FIN was sent; it has the last number before `snd_nxt`.
    pub const FIN_SENT: Marks = Marks(1 << 7);
    /// A round trip is being measured.
    pub const TIMING: Marks = Marks(1 << 8);
    /// In fast recovery.
    pub const RECOVERY: Marks = Marks(1 << 9);
    /// In recovery from a timeout.
    pub const LOSS: Marks = Marks(1 << 10);
    /// One lost segment may be sent whatever the congestion window is.
    pub const FORCE: Marks = Marks(1 << 11);
    /// The congestion window was what limited sending.
    pub const LIMITED: Marks = Marks(1 << 12);
    /// A small segment may be sent into a small window (RFC 9293 §3.8.6.2.1).
    pub const OVERRIDE: Marks = Marks(1 << 13);
    /// A probe is to be sent.
    pub const PROBE: Marks = Marks(1 << 14);
    /// Acknowledgments owed are duplicates: they must go without data to be seen as such.
    pub const DUPLICATE: Marks = Marks(1 << 15);
    /// An acknowledgment waits for `ack_timer`.
    pub const ACK_DELAYED: Marks = Marks(1 << 16);
    /// The peer is to be told of congestion until it has heard (RFC 3168 §6.1.3).
    pub const ECHO: Marks = Marks(1 << 17);
    /// The peer is to be told that the window was reduced.
    pub const REDUCED: Marks = Marks(1 << 18);
    /// The window was reduced because of ECN in this round trip; until `recover`.
    pub const ECN_RECOVERY: Marks = Marks(1 << 19);
    /// While the SYN is not answered: the network said that the peer is not reached now.
    pub const UNREACHABLE: Marks = Marks(1 << 20);
    /// The same bit, once the session is established: the peer has acknowledged as much at once as a segment holds, so that the path
    /// seems to take such segments.
    pub const PROVEN: Marks = Marks::UNREACHABLE;
    /// Both: what was too large for the path is sent again, until `recover`. Neither goes with the other otherwise.
    pub const RESIZING: Marks = Marks(Marks::LOSS.0 | Marks::ECN_RECOVERY.0);
    /// The timer is for a tail loss probe (RFC 8985 §7).
    pub const TAIL: Marks = Marks(1 << 22);
    /// A tail loss probe is to be sent.
    pub const SEND_TAIL: Marks = Marks(1 << 23);
    /// A tail loss probe was sent, and what became of it is not known.
    pub const TAIL_SENT: Marks = Marks(1 << 24);
    /// It repeats what was sent before.
    pub const TAIL_REPEATS: Marks = Marks(1 << 25);
    /// What is missing first was sent again and lost again.
    pub const AGAIN: Marks = Marks(1 << 26);
    /// The timer is for data out of order at the peer: what is missing below it is lost then (RFC 8985 §6).
    pub const REORDER: Marks = Marks(1 << 27);
    /// How many quarters of a round trip more the timer of `REORDER` waits, because the network was seen to reorder: two bits.
    pub const REORDERING: Marks = Marks(0b11 << 28);
    /// More data follows what was offered last, which is not pushed.
    pub const MORE: Marks = Marks(1 << 30);
    /// The embedder takes no data any more.
    pub const DEAF: Marks = Marks(1 << 31);
    /// The wheel calls at `wheel_at`.
    pub const ARMED: Marks = Marks(1 << 21);
}

/// What the retransmission timer is for at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Timer {
    /// Nothing.
    Idle,
    /// Data, SYN or FIN without acknowledgment.
    Retransmit,
    /// Data that the peer's window does not take.
    Persist,
    /// A peer that is silent.
    KeepAlive,
    /// A peer that does not close.
    FinWait2,
}

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Tcb {
    // The first line: its ends, what waits to be sent, and timers. What is called by a timer and has nothing to do touches no other.
    pub(crate) local: u32,
    pub(crate) remote: u32,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) marks: Marks,
    pub(crate) state: State,
    pub(crate) profile: u8,
    /// Shifts of the windows that come in and go out.
    pub(crate) snd_shift: u8,
    pub(crate) rcv_shift: u8,
    pub(crate) snd_una: Seq,
    /// Bytes of data since the session began.
    pub(crate) offered: u64,
    /// Likewise, up to `snd_una`.
    pub(crate) acked: u64,
    pub(crate) snd_nxt: Seq,
    pub(crate) timer_at: Tick,
    pub(crate) ack_timer_at: Tick,
    /// When the wheel calls, if it is armed.
    pub(crate) wheel_at: Tick,
    pub(crate) user: u32,
    pub(crate) timer: Timer,
    pub(crate) backoff: u8,
    /// Acknowledgments to be sent at once.
    pub(crate) acks_owed: u8,
    /// Segments in order since the last acknowledgment went.
    pub(crate) unacked: u8,

    // The second line: windows, numbers and round trips, which a segment in order touches.
    /// Bytes of data since the session began, up to `rcv_nxt`.
    pub(crate) received: u64,
    pub(crate) snd_wnd: u32,
    pub(crate) rcv_nxt: Seq,
    /// The right edge of the window that was announced.
    pub(crate) rcv_adv: Seq,
    pub(crate) snd_wl1: Seq,
    pub(crate) snd_wl2: Seq,
    pub(crate) cwnd: u32,
    pub(crate) ts_recent: u32,
    /// The most bytes of data in a segment, options taken off.
    pub(crate) mss: u16,
    /// Duplicate acknowledgments in a row: segments that have left the network, where SACK does not tell.
    pub(crate) dup_acks: u8,
    pub(crate) retries: u8,
    pub(crate) last_ack_sent: Seq,
    /// In microseconds, times 8; 0 before the first sample.
    pub(crate) srtt: u32,
    /// In microseconds, times 4.
    pub(crate) rttvar: u32,
    pub(crate) rtt_start: u32,
    pub(crate) rtt_seq: Seq,
    /// What the peer has out of order: a block of ranges, or none.
    pub(crate) scoreboard: u32,

    // The third line: when something came and went, congestion, and what is being recovered.
    /// What we have out of order.
    pub(crate) reassembly: u32,
    pub(crate) last_heard: Tick,
    pub(crate) last_sent: Tick,
    /// The largest window that the peer announced.
    pub(crate) max_wnd: u32,
    pub(crate) ssthresh: u32,
    /// Recovery ends when this is acknowledged.
    pub(crate) recover: Seq,
    /// What lies before it and was not acknowledged, selectively or not, is lost.
    pub(crate) lost_edge: Seq,
    /// What lies before it was sent again in this recovery.
    pub(crate) high_rxt: Seq,
    /// Acknowledged since the congestion window grew last.
    pub(crate) bytes_acked: u32,
    /// Bytes in order that the embedder has not consumed.
    pub(crate) unread: u32,
    pub(crate) phase: Phase,
    /// The window before the last reduction, in bytes (RFC 9438 §4.1).
    pub(crate) cubic_max: u32,
    /// Where the last tail loss probe begins; in recovery, where `snd_nxt` was when what is missing first was sent again.
    pub(crate) tail: Seq,
    /// Sequence numbers of the last tail loss probe.
    pub(crate) tail_len: u16,
    /// As `mss`, before the path turned out to take less: what the peer's segments are measured by.
    pub(crate) rcv_mss: u16,
}

/// What congestion control counts in the phase it is in, three numbers each. Recovery, slow start and avoidance exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// In recovery: bytes delivered since it began (RFC 9937 §6.2). In slow start: the number with which this round trip ends. In
    /// avoidance: the tick in which it began.
    pub(crate) a: u32,
    /// In recovery: bytes sent since it began. In avoidance: CUBIC's K in milliseconds (RFC 9438 §4.2).
    pub(crate) b: u32,
    /// In recovery: bytes that were outstanding when it began. In slow start: the most that was outstanding in this round trip. In avoidance: what NewReno's window would be, in bytes.
    pub(crate) c: u32,
}

// Three lines of 64 bytes, and no more: at ten million sessions each line is 640 MB.
const _: () = assert!(size_of::<Tcb>() == 192);

impl Slot for Tcb {
    fn vacant(next: u32) -> Tcb {
        Tcb { user: next, ..Tcb::CLOSED }
    }

    #[inline]
    fn next_vacant(&self) -> Option<u32> {
        (self.state == State::Closed).then_some(self.user)
    }
}

impl Tcb {
    /// No session.
    pub(crate) const CLOSED: Tcb = Tcb {
        local: 0,
        remote: 0,
        local_port: 0,
        remote_port: 0,
        marks: Marks(0),
        state: State::Closed,
        profile: 0,
        snd_shift: 0,
        rcv_shift: 0,
        snd_una: Seq(0),
        snd_nxt: Seq(0),
        snd_wnd: 0,
        rcv_nxt: Seq(0),
        rcv_adv: Seq(0),
        snd_wl1: Seq(0),
        snd_wl2: Seq(0),
        cwnd: 0,
        ts_recent: 0,
        mss: 0,
        acks_owed: 0,
        dup_acks: 0,
        last_ack_sent: Seq(0),
        offered: 0,
        acked: 0,
        received: 0,
        timer_at: Tick(0),
        ack_timer_at: Tick(0),
        srtt: 0,
        rttvar: 0,
        rtt_start: 0,
        rtt_seq: Seq(0),
        ssthresh: u32::MAX,
        recover: Seq(0),
        lost_edge: Seq(0),
        high_rxt: Seq(0),
        scoreboard: NONE,
        reassembly: NONE,
        user: NONE,
        bytes_acked: 0,
        last_heard: Tick(0),
        last_sent: Tick(0),
        unread: 0,
        max_wnd: 0,
        wheel_at: Tick(0),
        phase: Phase { a: 0, b: 0, c: 0 },
        cubic_max: 0,
        timer: Timer::Idle,
        backoff: 0,
        retries: 0,
        tail: Seq(0),
        tail_len: 0,
        rcv_mss: 0,
        unacked: 0,
    };

    #[inline]
    pub(crate) fn has(&self, marks: Marks) -> bool {
        self.marks.0 & marks.0 != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, marks: Marks) {
        self.marks.0 |= marks.0;
    }

    #[inline]
    pub(crate) fn clear(&mut self, marks: Marks) {
        self.marks.0 &= !marks.0;
    }

    /// Takes the mark away and says whether it was there.
    #[inline]
    pub(crate) fn take(&mut self, marks: Marks) -> bool {
        let had = self.has(marks);
        self.clear(marks);
        had
    }

    /// A word of each line: who reads it has the processor fetch all of them.
    #[inline]
    pub(crate) fn lines(&self) -> u32 {
        self.snd_una.0 ^ self.srtt ^ self.last_heard.0
    }

    /// Its ends, over IPv4.
    #[inline(always)]
    pub(crate) fn tuple_v4(&self) -> Option<Tuple> {
        (!self.has(Marks::V6)).then(|| Tuple {
            local: Ipv4Addr::from_bits(self.local).into(),
            remote: Ipv4Addr::from_bits(self.remote).into(),
            local_port: self.local_port,
            remote_port: self.remote_port,
        })
    }

    /// Whether its ends are these, over IPv4.
    #[inline]
    pub(crate) fn is_at(&self, tuple: &Tuple) -> bool {
        let (IpAddr::V4(local), IpAddr::V4(remote)) = (tuple.local, tuple.remote) else {
            return false;
        };
        self.local_port == tuple.local_port
            && self.remote_port == tuple.remote_port
            && self.local == local.to_bits()
            && self.remote == remote.to_bits()
            && !self.has(Marks::V6)
    }

    /// Sequence numbers sent and not acknowledged.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.snd_nxt.since(self.snd_una)
    }

    /// The sequence number behind the data that was offered, as far as half a circle reaches.
    #[inline]
    pub(crate) fn data_end(&self) -> Seq {
        // Behind `snd_una`, which stands on data or on the FIN behind it.
        self.snd_una.plus((self.offered - self.acked).min(1 << 30) as u32)
    }

    /// Bytes that wait to be sent for the first time.
    #[inline]
    pub(crate) fn unsent(&self) -> u32 {
        if self.has(Marks::FIN_SENT) { 0 } else { self.data_end().since(self.snd_nxt) }
    }

    /// The stream offset of `seq`, which lies at `snd_una` or behind it.
    #[inline]
    pub(crate) fn offset_of(&self, seq: Seq) -> u64 {
        self.acked + u64::from(seq.since(self.snd_una))
    }

    /// What is told of it at its end.
    pub(crate) fn totals(&self) -> Totals {
        // SYN and FIN have numbers of their own
        let opening = matches!(self.state, State::SynSent | State::SynReceived);
        let control = u32::from(opening || self.has(Marks::FIN_SENT));
        Totals {
            in_flight: self.outstanding().saturating_sub(control).into(),
            rtt: (self.srtt > 0).then(|| Nanos::from_micros(self.smoothed_rtt().into())),
            acked: self.acked,
            received: self.received,
            ..Totals::default()
        }
    }

    /// Whether a FIN is still to be sent.
    #[inline]
    pub(crate) fn owes_fin(&self) -> bool {
        self.has(Marks::CLOSED) && !self.has(Marks::FIN_SENT)
    }

    /// Owes one acknowledgment more, at once.
    #[inline]
    pub(crate) fn owe_ack(&mut self) {
        self.acks_owed = self.acks_owed.saturating_add(1);
    }

    /// When the wheel is to call: the deadline of the main timer. Delayed acknowledgments have a queue of their own.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Tick> {
        (self.timer != Timer::Idle).then_some(self.timer_at)
    }
}
