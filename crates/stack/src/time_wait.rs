//! Sessions in TIME-WAIT: what is needed to answer a FIN that comes again, and to let a new session in (RFC 9293 §3.10.7.4,
//! RFC 6191, RFC 1337).

use wirebeat_units::Nanos;

use crate::core::Core;
use crate::segment::{Flags, Outgoing, Segment, Tuple};
use crate::seq::Seq;
use crate::slab::Slot;
use crate::tcb::{Marks, Tcb};
use crate::tick::Tick;

/// A session in TIME-WAIT. Addresses and ports are as in [`Tcb`].
#[derive(Clone, Debug)]
pub(crate) struct TimeWait {
    pub local: u32,
    pub remote: u32,
    pub local_port: u16,
    pub remote_port: u16,
    pub snd_nxt: Seq,
    rcv_nxt: Seq,
    ts_recent: u32,
    pub deadline: Tick,
    window: u16,
    pub profile: u8,
    marks: u8,
}

/// In `marks`: the slot is taken; addresses are of IPv6; timestamps were agreed on.
const TAKEN: u8 = 1;
const V6: u8 = 2;
const TIMESTAMPS: u8 = 4;

// Sessions that are closed with 250,000 a second are 15 million in a minute.
const _: () = assert!(size_of::<TimeWait>() <= 40);

impl Slot for TimeWait {
    fn vacant(next: u32) -> TimeWait {
        TimeWait {
            local: next,
            remote: 0,
            local_port: 0,
            remote_port: 0,
            snd_nxt: Seq(0),
            rcv_nxt: Seq(0),
            ts_recent: 0,
            deadline: Tick(0),
            window: 0,
            profile: 0,
            marks: 0,
        }
    }

    #[inline]
    fn next_vacant(&self) -> Option<u32> {
        (self.marks & TAKEN == 0).then_some(self.local)
    }
}

/// What a segment does to a session in TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Nothing,
    Acknowledge,
    /// And the time begins anew.
    Restart,
    /// A new session may take its place.
    Reopen,
}

impl TimeWait {
    pub fn new(tcb: &Tcb, window: u16) -> TimeWait {
        let mark = |marks: Marks, bit: u8| if tcb.has(marks) { bit } else { 0 };
        TimeWait {
            local: tcb.local,
            remote: tcb.remote,
            local_port: tcb.local_port,
            remote_port: tcb.remote_port,
            snd_nxt: tcb.snd_nxt,
            rcv_nxt: tcb.rcv_nxt,
            ts_recent: tcb.ts_recent,
            deadline: Tick(0),
            window,
            profile: tcb.profile,
            marks: TAKEN | mark(Marks::V6, V6) | mark(Marks::TIMESTAMPS, TIMESTAMPS),
        }
    }

    pub fn is_v6(&self) -> bool {
        self.marks & V6 != 0
    }

    /// What `segment` does.
    pub fn arrival(&self, segment: &Segment<'_>) -> Answer {
        if segment.flags.has(Flags::RST) {
            // RFC 1337 §3: it would end the protection.
            return Answer::Nothing;
        }
        if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) {
            let timestamp = segment.options.timestamps.filter(|_| self.marks & TIMESTAMPS != 0);
            // RFC 6191 §2: a later timestamp, or without them a number behind the last one.
            let later =
                timestamp.is_some_and(|t| (t.value.wrapping_sub(self.ts_recent) as i32) > 0);
            return if later || segment.seq.is_after(self.rcv_nxt) {
                Answer::Reopen
            } else {
                Answer::Acknowledge
            };
        }
        if segment.flags.has(Flags::FIN) && segment.end() == self.rcv_nxt {
            return Answer::Restart;
        }
        // Without ACK it is dropped, unless it lies outside the window (RFC 9293 §3.10.7.4, first and fifth).
        let is_dropped = !segment.flags.has(Flags::ACK)
            && segment.seq.is_in(self.rcv_nxt, u32::from(self.window).max(1));
        // Behind the FIN there is no number but one, at which an acknowledgment asks for nothing.
        let is_last = segment.seq == self.rcv_nxt && segment.seq_len() == 0;
        if is_dropped || is_last { Answer::Nothing } else { Answer::Acknowledge }
    }

    /// The acknowledgment of all.
    pub fn acknowledgment(&self, core: &mut Core, tuple: &Tuple, now: Nanos) -> Outgoing {
        Outgoing {
            tuple: *tuple,
            seq: self.snd_nxt,
            ack: self.rcv_nxt,
            flags: Flags::ACK,
            window: self.window,
            options: core.timestamps(self.marks & TIMESTAMPS != 0, self.ts_recent, now),
            payload_len: 0,
            tos: core.profile(self.profile).packet_tos(),
            ttl: core.profile(self.profile).ttl,
            identification: core.identification(),
            dont_fragment: core.profile(self.profile).dont_fragment,
        }
    }
}
