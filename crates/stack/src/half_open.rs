//! Sessions that a peer has begun to open: a SYN came and was answered. They are small, so that many SYNs cost little.

use crate::core::Core;
use crate::options::{Options, TIMESTAMPS_LEN};
use crate::segment::{Flags, Outgoing, Segment, Tuple};
use crate::seq::Seq;
use crate::slab::Slot;
use crate::tcb::{Marks, State, Tcb};
use crate::tick::Tick;
use wirebeat_units::Nanos;

/// A half-open session. Addresses and ports are as in [`Tcb`].
#[derive(Clone, Debug)]
pub(crate) struct HalfOpen {
    pub local: u32,
    pub remote: u32,
    pub local_port: u16,
    pub remote_port: u16,
    pub irs: Seq,
    pub iss: Seq,
    ts_recent: u32,
    pub user: u32,
    pub deadline: Tick,
    /// What was agreed on; of [`Marks`].
    pub marks: Marks,
    window: u16,
    mss: u16,
    pub profile: u8,
    /// How often the answer was sent; 0 before the first time.
    pub sent: u8,
    /// When the answer was sent first, in microseconds: the handshake is a round trip as any other.
    pub sent_at: u32,
    /// The peer's shift and the one that was told, where windows are scaled.
    shifts: Option<(u8, u8)>,
    is_taken: bool,
}

// The target for a flood of SYNs.
const _: () = assert!(size_of::<HalfOpen>() <= 64);

impl Slot for HalfOpen {
    fn vacant(next: u32) -> HalfOpen {
        HalfOpen {
            local: 0,
            remote: 0,
            local_port: 0,
            remote_port: 0,
            irs: Seq(0),
            iss: Seq(0),
            ts_recent: 0,
            user: next,
            deadline: Tick(0),
            marks: Marks(0),
            window: 0,
            mss: 0,
            profile: 0,
            sent: 0,
            sent_at: 0,
            shifts: None,
            is_taken: false,
        }
    }

    #[inline]
    fn next_vacant(&self) -> Option<u32> {
        (!self.is_taken).then_some(self.user)
    }
}

impl HalfOpen {
    /// Of the SYN `segment`, between `addresses` as the table has them.
    pub fn new(
        core: &Core,
        segment: &Segment<'_>,
        addresses: (u32, u32),
        profile: u8,
        iss: Seq,
    ) -> HalfOpen {
        let wishes = core.profile(profile);
        let options = &segment.options;
        let timestamps = options.timestamps.filter(|_| wishes.timestamps);
        let ecn = wishes.ecn && segment.flags.has(Flags::ECE.with(Flags::CWR));
        let mark = |marks: Marks, is: bool| if is { marks.0 } else { 0 };
        let marks = mark(Marks::V6, segment.tuple.local.is_ipv6())
            | mark(Marks::TIMESTAMPS, timestamps.is_some())
            | mark(Marks::SACK, options.sack_permitted && wishes.sack)
            | mark(Marks::ECN, ecn);
        HalfOpen {
            local: addresses.0,
            remote: addresses.1,
            local_port: segment.tuple.local_port,
            remote_port: segment.tuple.remote_port,
            irs: segment.seq,
            iss,
            ts_recent: timestamps.map_or(0, |timestamps| timestamps.value),
            user: 0,
            deadline: Tick(0),
            marks: Marks(marks),
            window: segment.window,
            mss: wishes.send_mss(segment.tuple.version(), options.mss),
            profile,
            sent: 0,
            sent_at: 0,
            shifts: options.window_shift.zip(wishes.shift()),
            is_taken: true,
        }
    }

    fn has(&self, marks: Marks) -> bool {
        self.marks.0 & marks.0 != 0
    }

    /// The answer to the SYN.
    pub fn syn_ack(&self, core: &mut Core, tuple: &Tuple, now: Nanos) -> Outgoing {
        let profile = *core.profile(self.profile);
        let options = Options {
            mss: Some(profile.announced_mss(tuple.version())),
            window_shift: self.shifts.map(|(_, own)| own),
            sack_permitted: self.has(Marks::SACK),
            ..core.timestamps(self.has(Marks::TIMESTAMPS), self.ts_recent, now)
        };
        let flags = Flags::SYN.with(Flags::ACK);
        Outgoing {
            tuple: *tuple,
            seq: self.iss,
            ack: self.irs.plus(1),
            flags: if self.has(Marks::ECN) { flags.with(Flags::ECE) } else { flags },
            window: profile.syn_window(),
            options,
            payload_len: 0,
            tos: profile.packet_tos(),
            ttl: profile.ttl,
            identification: core.identification(),
            dont_fragment: profile.dont_fragment,
        }
    }

    /// What tells a peer where this side is, without its SYN (RFC 5961 §3.2).
    pub fn acknowledgment(&self, core: &mut Core, tuple: &Tuple, now: Nanos) -> Outgoing {
        let shift = self.shifts.map_or(0, |(_, own)| own);
        let syn_ack = self.syn_ack(core, tuple, now);
        Outgoing {
            seq: self.iss.plus(1),
            flags: Flags::ACK,
            // Rounded up, as in `Tcb::announce`.
            window: u32::from(syn_ack.window).div_ceil(1 << shift) as u16,
            options: core.timestamps(self.has(Marks::TIMESTAMPS), self.ts_recent, now),
            ..syn_ack
        }
    }

    /// The session that it becomes, which waits for the acknowledgment of its SYN.
    pub fn session(&self, core: &Core) -> Tcb {
        let profile = core.profile(self.profile);
        let rcv_nxt = self.irs.plus(1);
        let mut tcb = Tcb {
            local: self.local,
            remote: self.remote,
            local_port: self.local_port,
            remote_port: self.remote_port,
            marks: self.marks,
            state: State::SynReceived,
            profile: self.profile,
            snd_una: self.iss,
            snd_nxt: self.iss.plus(1),
            rcv_nxt,
            rcv_adv: rcv_nxt.plus(profile.syn_window().into()),
            last_ack_sent: rcv_nxt,
            ts_recent: self.ts_recent,
            max_wnd: self.window.into(),
            mss: self.mss,
            user: self.user,
            ..Tcb::CLOSED
        };
        if let Some((peer, own)) = self.shifts {
            tcb.set_shifts(peer, own);
        }
        if tcb.has(Marks::TIMESTAMPS) {
            tcb.mss -= TIMESTAMPS_LEN;
        }
        tcb.rcv_mss = tcb.mss;
        if self.sent > 1 {
            tcb.set(Marks::SYN_REPEATED);
        } else {
            tcb.set(Marks::TIMING);
            (tcb.rtt_start, tcb.rtt_seq) = (self.sent_at, tcb.snd_nxt);
        }
        tcb
    }

    /// How long to wait for an acknowledgment after the answer was sent `sent` times (RFC 6298 §5.5).
    pub fn timeout(&self, core: &Core) -> Nanos {
        let profile = core.profile(self.profile);
        let doubled =
            profile.rto_initial.get().saturating_mul(1 << self.sent.saturating_sub(1).min(30));
        Nanos::new(doubled.min(profile.rto_max.get()))
    }
}
