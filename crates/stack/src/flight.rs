//! What a session needs beside the two cache lines of its [`Tcb`] as long as something unusual is under way: a third line.
//!
//! Losses and their repair, data out of order, duplicates, retries, a congestion window that is about to grow. A session that only sends
//! small requests and answers never has it ([`PlainTcb`], for [`crate::fast_path`]); everything else works on an [`ActiveTcb`], which has.
//! [`crate::sessions`] gives the line to a session and takes it back when nothing is under way any more. Then each field follows from the
//! TCB ([`Flight::of_plain`]), but for the history of congestion, which a session without losses does not have; that of others is kept in
//! fields of the TCB that mean nothing while a session is idle ([`Flight::pack`]). So nothing is lost; a test compares every packet.

use std::ops::{Deref, DerefMut};

use wirebeat_units::Nanos;

use crate::api::Totals;
use crate::congestion::NO_EPOCH;
use crate::core::{Context, Core};
use crate::seq::Seq;
use crate::slab::{NONE, Slot};
use crate::tcb::{Marks, PACKED, Phase, State, Tcb, Timer};

/// What a session has under way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Flight {
    /// Bytes of data that were offered beyond those that [`Tcb::queued`] counts.
    pub(crate) more: u64,
    /// What the peer has out of order: a block of ranges, or none.
    pub(crate) scoreboard: u32,
    /// What we have out of order.
    pub(crate) reassembly: u32,
    /// Recovery ends when this is acknowledged.
    pub(crate) recover: Seq,
    /// What lies before it and was not acknowledged, selectively or not, is lost.
    pub(crate) lost_edge: Seq,
    /// What lies before it was sent again in this recovery.
    pub(crate) high_rxt: Seq,
    /// Where the last tail loss probe begins; in recovery, where `snd_nxt` was when what is missing first was sent again.
    pub(crate) tail: Seq,
    /// Sequence numbers of the last tail loss probe.
    pub(crate) tail_len: u16,
    /// Duplicate acknowledgments in a row: segments that have left the network, where SACK does not tell.
    pub(crate) dup_acks: u8,
    pub(crate) backoff: u8,
    /// Where the segment began that told the window last; only what lies behind `rcv_nxt` counts.
    pub(crate) snd_wl1: Seq,
    pub(crate) ssthresh: u32,
    pub(crate) phase: Phase,
    /// The window before the last reduction, in bytes (RFC 9438 §4.1).
    pub(crate) cubic_max: u32,
    pub(crate) retries: u8,
    is_vacant: bool,
}

const _: () = assert!(size_of::<Flight>() == 64);

impl Slot for Flight {
    fn vacant(next: u32) -> Flight {
        Flight { is_vacant: true, scoreboard: next, ..Flight::of_plain(&Tcb::CLOSED) }
    }

    #[inline]
    fn next_vacant(&self) -> Option<u32> {
        self.is_vacant.then_some(self.scoreboard)
    }
}

/// Facts that stand for something under way.
const UNDER_WAY: Marks = Marks(
    Marks::SEND_SYN.0
        | Marks::TIMING.0
        | Marks::ACK_DELAYED.0
        | Marks::DUPLICATE.0
        | Marks::LIMITED.0
        | Marks::RECOVERY.0
        | Marks::LOSS.0
        | Marks::ECN_RECOVERY.0
        | Marks::AGAIN.0,
);

impl Flight {
    /// That of a session that has done without it.
    #[inline]
    pub(crate) fn of_plain(tcb: &Tcb) -> Flight {
        Flight {
            more: 0,
            scoreboard: NONE,
            reassembly: NONE,
            recover: tcb.snd_una.minus(1),
            lost_edge: tcb.snd_una,
            high_rxt: tcb.snd_una,
            // A probe whose fate is not known ends with what was acknowledged last.
            tail: tcb.snd_una.minus(1),
            tail_len: 1,
            dup_acks: 0,
            backoff: 0,
            snd_wl1: tcb.rcv_nxt,
            ssthresh: u32::MAX,
            phase: Phase { a: tcb.snd_una.0, b: NO_EPOCH, c: 0 },
            cubic_max: 0,
            retries: 0,
            is_vacant: false,
        }
    }

    /// Whether nothing is under way.
    #[inline]
    pub(crate) fn is_idle(&self, tcb: &Tcb) -> bool {
        tcb.snd_nxt == tcb.snd_una
            && tcb.queued == 0
            && tcb.last_ack_sent == tcb.rcv_nxt
            && !tcb.has(UNDER_WAY)
            && tcb.acks_owed | tcb.unacked == 0
            && tcb.unread == 0
            && self.dup_acks | self.backoff | self.retries == 0
            && self.scoreboard == NONE
            && self.reassembly == NONE
            && self.lost_edge == tcb.snd_una
            && self.high_rxt == tcb.snd_una
            && !self.recover.is_after(tcb.snd_una)
            && !self.snd_wl1.is_after(tcb.rcv_nxt)
            && (!tcb.has(Marks::TAIL_SENT) || self.tail.plus(self.tail_len.into()) == tcb.snd_una)
    }

    /// Leaves in the TCB of an idle session what does not follow from it, if anything. What the session has under way then: [`NONE`] or
    /// [`PACKED`].
    pub(crate) fn pack(&self, tcb: &mut Tcb) -> u32 {
        // Whether the last recovery ended with `snd_una`, and nothing was acknowledged since.
        let is_at_recover = self.recover == tcb.snd_una;
        // In slow start the next segment begins a round trip, whatever was before.
        if self.ssthresh == u32::MAX && self.cubic_max == 0 && !is_at_recover {
            return NONE;
        }
        let Phase { a, b, c } = self.phase;
        (tcb.snd_nxt, tcb.queued, tcb.last_ack_sent) = (Seq(self.ssthresh), a, Seq(b));
        (tcb.rtt_start, tcb.rtt_seq) = (c, Seq(self.cubic_max));
        tcb.unread = is_at_recover.into();
        PACKED
    }

    /// Takes back what [`Flight::pack`] left in the TCB.
    pub(crate) fn unpack(tcb: &mut Tcb) -> Flight {
        let flight = Flight {
            ssthresh: tcb.snd_nxt.0,
            phase: Phase { a: tcb.queued, b: tcb.last_ack_sent.0, c: tcb.rtt_start },
            cubic_max: tcb.rtt_seq.0,
            recover: tcb.snd_una.minus(1 - tcb.unread),
            ..Flight::of_plain(tcb)
        };
        (tcb.snd_nxt, tcb.queued, tcb.last_ack_sent) = (tcb.snd_una, 0, tcb.rcv_nxt);
        (tcb.rtt_start, tcb.rtt_seq, tcb.unread) = (0, Seq(0), 0);
        flight
    }
}

/// A session with what it has under way: what the state machine works on.
#[derive(Debug)]
pub(crate) struct ActiveTcb<'a> {
    pub tcb: &'a mut Tcb,
    pub flight: &'a mut Flight,
}

/// A session as the fast path works on it: with what it has under way, if it has.
#[derive(Debug)]
pub(crate) struct PlainTcb<'a> {
    pub tcb: &'a mut Tcb,
    pub flight: Option<&'a mut Flight>,
}

impl Deref for ActiveTcb<'_> {
    type Target = Tcb;

    #[inline(always)]
    fn deref(&self) -> &Tcb {
        self.tcb
    }
}

impl DerefMut for ActiveTcb<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Tcb {
        self.tcb
    }
}

impl Deref for PlainTcb<'_> {
    type Target = Tcb;

    #[inline(always)]
    fn deref(&self) -> &Tcb {
        self.tcb
    }
}

impl DerefMut for PlainTcb<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Tcb {
        self.tcb
    }
}

impl PlainTcb<'_> {
    /// As one that is active, where it is.
    #[inline(always)]
    pub(crate) fn active(&mut self) -> Option<ActiveTcb<'_>> {
        let flight = self.flight.as_deref_mut()?;
        Some(ActiveTcb { tcb: self.tcb, flight })
    }

    /// As [`ActiveTcb::settle`].
    #[inline(always)]
    pub(crate) fn settle<A>(&mut self, core: &mut Core, cx: &Context<'_, A>) {
        match self.active() {
            Some(mut active) => active.settle(core, cx),
            None => self.tcb.settle_timer(core, cx, 0),
        }
    }
}

impl ActiveTcb<'_> {
    /// Sets the main timer for what is needed now, and sees to it that the wheel calls. To be called when a session was touched, after its
    /// turn to send where it has one.
    #[inline]
    pub(crate) fn settle<A>(&mut self, core: &mut Core, cx: &Context<'_, A>) {
        let before = self.timer;
        self.tcb.settle_timer(core, cx, self.flight.backoff);
        if self.timer == Timer::KeepAlive && before != Timer::KeepAlive {
            self.flight.retries = 0;
        }
    }

    /// Counts `data` bytes as acknowledged.
    #[inline]
    pub(crate) fn dequeue(&mut self, data: u32) {
        self.tcb.acked += u64::from(data);
        self.tcb.queued = self.tcb.queued.saturating_sub(data);
        let next = self.flight.more.min(u64::from(u32::MAX - self.tcb.queued));
        self.tcb.queued += next as u32;
        self.flight.more -= next;
    }

    /// Bytes of data that were offered since the session began.
    pub(crate) fn offered(&self) -> u64 {
        self.acked.saturating_add(self.queued.into()).saturating_add(self.flight.more)
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
}
