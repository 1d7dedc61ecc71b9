//! What a session hears of its path: ICMP errors about its segments, the largest packet that the path takes (RFC 1191, RFC 8201),
//! and paths that swallow large packets without a word (RFC 4821 §7.7, as Linux does with `tcp_mtu_probing` = 1).
//!
//! [`crate::tcb::Tcb::mss`] is what is sent; it only shrinks. Smaller packets are no less data: what was outstanding is sent again in new sizes
//! and the congestion window stays what it is, in bytes.

use wirebeat_units::Nanos;
use wirebeat_wire::{ipv4, ipv6};

use crate::api::Reason;
use crate::core::{Core, Fate};
use crate::fault::Fault;
use crate::flight::ActiveTcb;
use crate::icmp::{IcmpError, Problem};
use crate::options::TIMESTAMPS_LEN;
use crate::segment;
use crate::tcb::{Marks, State};

/// No path is believed to take less over IPv4, as in Linux (`min_pmtu`): forged errors could have tiny segments sent (RFC 5927 §7.2).
const MTU_LEAST_V4: u32 = 552;
/// Every path takes so much over IPv6 (RFC 8200 §5); an error that says less is discarded (RFC 8201 §4).
const MTU_LEAST_V6: u32 = 1280;

/// Every path takes so much over IPv4, since every host does (RFC 791 §3.1).
const MTU_ANY_V4: u32 = 576;

/// After so many timeouts in a row large packets are taken to vanish. RFC 4821 §7.7 has R1 of RFC 1122 §4.2.3.5 here; two timeouts of the
/// 1 s of RFC 6298 take the 3 s that Linux's `tcp_retries1` of 3 takes from its 200 ms.
const BLACK_HOLE_TIMEOUTS: u8 = 2;
/// After so many where segments of this size went through before: an outage, or a path that loses much, is likelier then than a route
/// that has changed. In the simulation 2 had sessions end at 48 bytes on links that lose every eighth packet.
const BLACK_HOLE_TIMEOUTS_PROVEN: u8 = 5;
/// The MSS that is tried first then, options included (Linux's `tcp_base_mss`; RFC 4821 §7.2).
const BLACK_HOLE_MSS: u32 = 1024;
/// And the least one over IPv4 (Linux's `tcp_mtu_probe_floor`).
const BLACK_HOLE_MSS_LEAST: u32 = 48;

impl ActiveTcb<'_> {
    /// Takes an error about a segment that is outstanding.
    pub(crate) fn icmp(
        &mut self,
        core: &mut Core,
        now: Nanos,
        node: u32,
        error: &IcmpError,
    ) -> Fate {
        match error.problem {
            // RFC 5461 §4.1: who is connecting wants to know; who is connected stays so, for anybody on the path may say this.
            Problem::Hard => {
                core.counters.icmp.hard += 1;
                if self.state == State::SynSent {
                    return Fate::Close(Reason::Unreachable);
                }
            }
            Problem::Soft => {
                core.counters.icmp.soft += 1;
                if self.state == State::SynSent {
                    self.set(Marks::UNREACHABLE);
                }
            }
            Problem::TooBig { mtu } => {
                if self.packet_too_big(core, now, error.packet_len, mtu) {
                    core.counters.icmp.too_big += 1;
                    core.ready.push(node);
                } else {
                    core.counters.icmp.too_big_ignored += 1;
                }
            }
        }
        Fate::Keep
    }

    /// The path takes packets of `mtu` bytes, not the one of `packet_len`. Whether that is new.
    fn packet_too_big(&mut self, core: &mut Core, now: Nanos, packet_len: u32, mtu: u32) -> bool {
        let is_open = !matches!(self.state, State::SynSent | State::SynReceived);
        // RFC 5927 §7.2: a packet that the link would take was not refused by it.
        if !is_open || mtu >= packet_len || self.has(Marks::V6) && mtu < MTU_LEAST_V6 {
            return false;
        }
        let mtu = if self.has(Marks::V6) { mtu } else { mtu.max(MTU_LEAST_V4) };
        if !self.shrink(mtu - self.headers_len()) {
            return false;
        }
        self.resend_smaller(core, now);
        true
    }

    /// Bytes of the headers of IP and TCP, without options.
    fn headers_len(&self) -> u32 {
        (if self.has(Marks::V6) { ipv6::LEN } else { ipv4::LEN } + segment::LEN) as u32
    }

    /// Takes an MSS, options included, if it is less than the present one.
    fn shrink(&mut self, mss: u32) -> bool {
        let mss = if self.has(Marks::TIMESTAMPS) {
            mss.saturating_sub(TIMESTAMPS_LEN.into())
        } else {
            mss
        };
        let is_less = mss < u32::from(self.mss);
        if is_less {
            self.mss = mss as u16;
            self.clear(Marks::PROVEN);
        }
        is_less
    }

    /// Has all that is outstanding sent again, which is no sign of congestion (RFC 1191 §6.5, RFC 8201 §5.4). Until it is
    /// acknowledged the congestion window does not grow either.
    fn resend_smaller(&mut self, core: &mut Core, now: Nanos) {
        let profile = *core.profile(self.profile);
        if self.take(Marks::RECOVERY) {
            // The reduction that it began stays.
            self.prr_end(&profile);
        }
        if !self.has(Marks::LOSS) {
            self.set(Marks::RESIZING);
        }
        self.clear(Marks::REORDER);
        self.forget_tail();
        self.flight.dup_acks = 0;
        (self.flight.recover, self.flight.lost_edge, self.flight.high_rxt) =
            (self.snd_nxt, self.snd_nxt, self.snd_una);
        if core.fault(Fault::NotResent) {
            self.flight.lost_edge = self.snd_una;
        }
        self.await_ack(now, &profile);
    }

    /// Whether what is sent again now is so because it was too large for the path.
    pub(crate) fn resizes(&self) -> bool {
        self.marks.0 & Marks::RESIZING.0 == Marks::RESIZING.0
    }

    /// The retransmission timer ran out. Where that happens again and again with large segments, smaller ones are tried.
    pub(crate) fn suspect_black_hole(&mut self, core: &mut Core) {
        let patience = match self.has(Marks::PROVEN) {
            false => BLACK_HOLE_TIMEOUTS,
            true => BLACK_HOLE_TIMEOUTS_PROVEN,
        };
        if !core.profile(self.profile).black_hole_detection || self.flight.retries < patience {
            return;
        }
        let (mss, outstanding) = (u32::from(self.mss), self.outstanding());
        let options = if self.has(Marks::TIMESTAMPS) { TIMESTAMPS_LEN.into() } else { 0 };
        // What was sent again last, with its options; a small one that is lost says nothing of large ones.
        let sent = outstanding.min(mss) + options;
        if outstanding < mss && sent + self.headers_len() <= MTU_ANY_V4 {
            return;
        }
        let least = if self.has(Marks::V6) {
            MTU_LEAST_V6 - self.headers_len()
        } else {
            BLACK_HOLE_MSS_LEAST
        };
        let mut next = mss + options;
        while next >= sent && next > least {
            next = if next > BLACK_HOLE_MSS { BLACK_HOLE_MSS } else { next / 2 }.max(least);
        }
        core.counters.recoveries.black_holes += u64::from(self.shrink(next));
    }
}
