//! The state of a session: two cache lines, and a third in [`crate::flight`] while something unusual is under way.
//!
//! A small segment in order touches these two; a timer that finds nothing to do, which is most of them, the first alone. Names are those of
//! RFC 9293 §3.3.1 where it has them. SND.WL2 is not kept: it is `snd_una`, since each acknowledgment of something new tells the window.

use std::net::{IpAddr, Ipv4Addr};

use crate::prefetch::prefetch;
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

/// In [`Tcb::flight`]: the session is idle, and the history of its congestion is in fields that mean nothing then.
pub(crate) const PACKED: u32 = NONE - 1;

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
    pub(crate) timer: Timer,
    pub(crate) shifts: u8,
    pub(crate) snd_una: Seq,
    pub(crate) snd_nxt: Seq,
    /// Bytes of data that were offered and are not acknowledged; beyond 2^32 - 1, [`crate::flight::Flight::more`] has the rest.
    pub(crate) queued: u32,
    /// Bytes of data since the session began, up to `snd_una`.
    pub(crate) acked: u64,
    pub(crate) timer_at: Tick,
    /// When the wheel calls, if it is armed.
    pub(crate) wheel_at: Tick,
    pub(crate) user: u32,
    /// Where it is what the session has under way; [`NONE`] where it does without, or [`PACKED`].
    pub(crate) flight: u32,
    pub(crate) last_sent: Tick,
    /// When a delayed acknowledgment is due: the lower half of the tick, which is 17 s.
    pub(crate) ack_timer_at: u16,
    /// Acknowledgments to be sent at once.
    pub(crate) acks_owed: u8,
    /// Segments in order since the last acknowledgment went.
    pub(crate) unacked: u8,

    // The second line: windows, numbers and round trips, which a segment in order touches.
    /// Bytes of data since the session began, up to `rcv_nxt`.
    pub(crate) received: u64,
    pub(crate) snd_wnd: u32,
    pub(crate) cwnd: u32,
    pub(crate) rcv_nxt: Seq,
    /// The right edge of the window that was announced.
    pub(crate) rcv_adv: Seq,
    pub(crate) last_ack_sent: Seq,
    pub(crate) ts_recent: u32,
    /// The most bytes of data in a segment, options taken off.
    pub(crate) mss: u16,
    /// As `mss`, before the path turned out to take less: what the peer's segments are measured by.
    pub(crate) rcv_mss: u16,
    /// In microseconds, times 8; 0 before the first sample.
    pub(crate) srtt: u32,
    /// In microseconds, times 4.
    pub(crate) rttvar: u32,
    pub(crate) rtt_start: u32,
    pub(crate) rtt_seq: Seq,
    /// The largest window that the peer announced.
    pub(crate) max_wnd: u32,
    /// Bytes in order that the embedder has not consumed.
    pub(crate) unread: u32,
    pub(crate) last_heard: Tick,
}

/// What congestion control counts in the phase it is in, three numbers each. Recovery, slow start and avoidance exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// In recovery: bytes delivered since it began (RFC 9937 §6.2). In slow start: the number with which this round trip ends. In
    /// avoidance by CUBIC: the tick in which it began.
    pub(crate) a: u32,
    /// In recovery: bytes sent since it began. In avoidance: CUBIC's K in milliseconds (RFC 9438 §4.2), or that NewReno counts.
    pub(crate) b: u32,
    /// In recovery: bytes that were outstanding when it began. In slow start: the most that was outstanding in this round trip. In
    /// avoidance by CUBIC: what NewReno's window would be, in bytes; by NewReno: bytes acknowledged since the window grew last.
    pub(crate) c: u32,
}

// Two lines of 64 bytes, and no more: at ten million sessions each line is 640 MB.
const _: () = assert!(size_of::<Tcb>() == 128);

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
        timer: Timer::Idle,
        shifts: 0,
        snd_una: Seq(0),
        snd_nxt: Seq(0),
        queued: 0,
        acked: 0,
        timer_at: Tick(0),
        wheel_at: Tick(0),
        user: NONE,
        flight: NONE,
        last_sent: Tick(0),
        ack_timer_at: 0,
        acks_owed: 0,
        unacked: 0,
        received: 0,
        snd_wnd: 0,
        cwnd: 0,
        rcv_nxt: Seq(0),
        rcv_adv: Seq(0),
        last_ack_sent: Seq(0),
        ts_recent: 0,
        mss: 0,
        rcv_mss: 0,
        srtt: 0,
        rttvar: 0,
        rtt_start: 0,
        rtt_seq: Seq(0),
        max_wnd: 0,
        unread: 0,
        last_heard: Tick(0),
    };

    /// How far windows of the peer are shifted, at most 14 (RFC 7323 §2.3).
    #[inline]
    pub(crate) fn snd_shift(&self) -> u8 {
        self.shifts & 0xf
    }

    /// The same for windows that are announced to it.
    #[inline]
    pub(crate) fn rcv_shift(&self) -> u8 {
        self.shifts >> 4
    }

    pub(crate) fn set_shifts(&mut self, snd_shift: u8, rcv_shift: u8) {
        self.shifts = rcv_shift << 4 | snd_shift & 0xf;
    }

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

    /// Asks for both of its lines.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.snd_una);
        prefetch(&self.srtt);
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
        self.snd_una.plus(self.queued.min(1 << 30))
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
