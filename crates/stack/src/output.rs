//! What a session sends next, and in which segment: what is lost first, then new data as far as both windows let it, a FIN behind
//! the data, probes, and acknowledgments that found no company.

use crate::api::{Application, Transmit};
use crate::core::{Context, Core};
use crate::fault::Fault;
use crate::flight::ActiveTcb;
use crate::options::{OPTIONS_MAX, Options};
use crate::profile::Congestion;
use crate::ranges::Range;
use crate::segment::{ECN_ECT0, Flags, Outgoing, Summed, Tuple};
use crate::seq::Seq;
use crate::slab::NONE;
use crate::tcb::{Marks, State, Timer};
use crate::tick::{Tick, ticks};

/// Segments that a session sends before it is the turn of the next one; more only where they are in one packet.
const BURST: u32 = 16;
/// The most data of a packet: 65,535 bytes (RFC 791 §3.1, RFC 8200 §3) without the longest headers, those of IPv6 and 40 of options.
const LARGE_MAX: u32 = 65_535 - 40 - 20 - 40;

/// How a session's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It has nothing more to send now.
    Done,
    /// It has more, and others wait.
    Again,
    /// There was no buffer.
    Blocked,
}

/// What a segment is sent for; each is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    NewData,
    Fin,
    Lost,
    /// The end of what was sent, as a probe.
    Tail,
    Ack,
    Probe,
}

/// The next segment of a session.
#[derive(Clone, Copy, Debug)]
struct Next {
    cause: Cause,
    /// Its numbers, with that of a FIN.
    range: Range,
    fin: bool,
    /// Whether it is the last of several that go together, half the congestion window at most: a receiver that collects segments
    /// (GRO) need not wait for more, and acknowledges the first half while the second is under way.
    push: bool,
}

impl ActiveTcb<'_> {
    /// Sends what may be sent now.
    pub(crate) fn transmit<A: Application, T: Transmit>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        tuple: &Tuple,
        out: &mut T,
    ) -> Turn {
        if self.is_quiet() {
            self.clear(Marks::OVERRIDE);
            if self.unacked > 0 && !self.has(Marks::ACK_DELAYED) {
                self.begin_ack_delay(core, cx);
            }
            if self.acks_owed == 0 {
                return Turn::Done;
            }
        }
        if matches!(self.state, State::SynSent | State::SynReceived) {
            if self.has(Marks::SEND_SYN) && !self.send_syn(core, cx, tuple, out) {
                return Turn::Blocked;
            }
            if self.state == State::SynSent {
                self.acks_owed = 0;
            }
        }
        // A duplicate acknowledgment is one only without data (RFC 5681 §2).
        while self.acks_owed > 0 && self.has(Marks::DUPLICATE) {
            let left = self.acks_owed - 1;
            if !self.send_control(core, cx, tuple, Cause::Ack, out) {
                return Turn::Blocked;
            }
            self.acks_owed = left;
        }
        self.clear(Marks::DUPLICATE);
        let mut turn = Turn::Again;
        if matches!(self.state, State::SynSent | State::SynReceived) {
            turn = Turn::Done;
        } else {
            self.after_idle(core, cx);
            let (mut together, mut left) = (0, BURST);
            let largest = self.largest(core, out);
            while left > 0 {
                let Some(mut next) = self.next(core) else {
                    turn = Turn::Done;
                    break;
                };
                if largest > self.mss.into() {
                    self.enlarge(core, &mut next, largest);
                }
                let data = next.range.len() - u32::from(next.fin);
                let segments = self.segments_of(data);
                left = left.saturating_sub(segments);
                together += segments * u32::from(self.mss);
                let half = together > self.cwnd / 2 - (self.cwnd / 2).min(u32::from(self.mss));
                if half || self.ends_burst(core, &next) {
                    next.push = together > self.mss.into() && next.cause == Cause::NewData;
                    together = 0;
                }
                if !self.send(core, cx, tuple, next, out) {
                    return Turn::Blocked;
                }
                if self.is_drained() {
                    turn = Turn::Done;
                    break;
                }
            }
        }
        if turn == Turn::Done {
            self.clear(Marks(Marks::OVERRIDE.0 | Marks::SEND_TAIL.0));
        }
        if self.has(Marks::PROBE) {
            if !self.send_control(core, cx, tuple, Cause::Probe, out) {
                return Turn::Blocked;
            }
            self.clear(Marks::PROBE);
        }
        let waits = self.unacked > 0 && self.acks_owed == 0 && turn == Turn::Done;
        if waits && !self.has(Marks::ACK_DELAYED) {
            self.begin_ack_delay(core, cx);
        }
        if self.acks_owed > 0 && !self.send_control(core, cx, tuple, Cause::Ack, out) {
            return Turn::Blocked;
        }
        turn
    }

    /// Whether a turn sends nothing: as it is after most arrivals that need no answer.
    #[inline]
    fn is_quiet(&self) -> bool {
        const SOMETHING: Marks = Marks(
            Marks::SEND_SYN.0
                | Marks::DUPLICATE.0
                | Marks::PROBE.0
                | Marks::SEND_TAIL.0
                | Marks::AGAIN.0
                | Marks::FORCE.0
                | Marks::LIMITED.0,
        );
        self.acks_owed == 0
            && !matches!(self.state, State::SynSent | State::SynReceived)
            && !self.has(SOMETHING)
            && self.unsent() == 0
            && !self.owes_fin()
            && !self.flight.lost_edge.is_after(self.snd_una)
    }

    /// How many segments so many bytes of data are cut into; one without data is one too.
    #[inline]
    fn segments_of(&self, data: u32) -> u32 {
        let mss = u32::from(self.mss).max(1);
        // divisions are slow, and seldom needed
        if data <= mss { 1 } else { data.div_ceil(mss) }
    }

    /// Whether all that was offered is sent, once, and nothing else is asked of a turn with data.
    #[inline]
    fn is_drained(&mut self) -> bool {
        const MORE_TO_DO: Marks =
            Marks(Marks::AGAIN.0 | Marks::FORCE.0 | Marks::SEND_TAIL.0 | Marks::LIMITED.0);
        self.unsent() == 0
            && !self.owes_fin()
            && !self.has(MORE_TO_DO)
            && !self.flight.lost_edge.is_after(self.snd_una)
    }

    /// After a pause the congestion window begins anew (RFC 5681 §4.1).
    fn after_idle<A>(&mut self, core: &Core, cx: &Context<'_, A>) {
        if self.outstanding() > 0 || self.unsent() == 0 || self.snd_wnd == 0 {
            return;
        }
        let profile = core.profile(self.profile);
        if self.srtt > 0 && cx.tick.since(self.last_sent) <= ticks(profile.rto_min) {
            // No timeout is shorter.
            return;
        }
        // Probes of a closed window do not count as sending, and a timeout that they doubled does not count here.
        if cx.tick.since(self.last_sent) > ticks(self.rto_at(profile, 0)) {
            self.congestion_idle(profile);
        }
    }

    /// What to send next; `None` when there is nothing or it may not be sent now.
    fn next(&mut self, core: &Core) -> Option<Next> {
        let mss = u32::from(self.mss);
        if self.has(Marks::AGAIN) && self.outstanding() > 0 {
            let end = self.snd_una.plus(mss).min(self.snd_nxt);
            let known = core
                .ranges
                .get(self.flight.scoreboard)
                .and_then(|ranges| ranges.following(self.snd_una));
            let range = Range::new(self.snd_una, known.map_or(end, |known| known.start.min(end)));
            return Some(Next {
                cause: Cause::Lost,
                range,
                fin: self.holds_fin(range),
                push: false,
            });
        }
        if let Some(range) = self.next_lost(core) {
            if self.has(Marks::FORCE) || self.pipe(core).saturating_add(range.len()) <= self.cwnd {
                return Some(Next {
                    cause: Cause::Lost,
                    range,
                    fin: self.holds_fin(range),
                    push: false,
                });
            }
            self.set(Marks::LIMITED);
            return None;
        }
        self.clear(Marks::FORCE);
        let probes_tail = self.has(Marks::SEND_TAIL);
        let new = self.next_new(core, probes_tail);
        if new.is_none() && probes_tail && self.outstanding() > 0 {
            // No new data may go, so the last segment goes again (RFC 8985 §7.3).
            let start = self.snd_nxt.minus(self.outstanding().min(mss));
            let range = Range::new(start, self.snd_nxt);
            return Some(Next {
                cause: Cause::Tail,
                range,
                fin: self.holds_fin(range),
                push: false,
            });
        }
        new
    }

    /// New data and the FIN, as far as the windows let them; a probe needs no room in the congestion window.
    fn next_new(&mut self, core: &Core, is_probe: bool) -> Option<Next> {
        let mss = u32::from(self.mss);
        let (unsent, owes_fin) = (self.unsent(), self.owes_fin());
        if unsent == 0 && !owes_fin {
            self.clear(Marks::LIMITED);
            return None;
        }
        let edge =
            self.snd_una.plus(self.snd_wnd).plus(u32::from(core.fault(Fault::WindowOffByOne)));
        let room = if edge.is_after(self.snd_nxt) { edge.since(self.snd_nxt) } else { 0 };
        let len = unsent.min(mss).min(room);
        // The FIN goes with the last data, or by itself behind it.
        let fin = owes_fin && len == unsent && room > len;
        let outstanding = self.outstanding();
        if len < mss && !fin {
            let is_all = len == unsent && len > 0;
            let may_wait = core.profile(self.profile).nagle && outstanding > 0;
            let has_override = self.has(Marks::OVERRIDE) || len >= (self.max_wnd / 2).max(1);
            // RFC 9293 §3.8.6.2.1: all there is, or much of the window, or what a timeout lets go.
            if !(is_all && !may_wait || !is_all && len > 0 && has_override || is_all && owes_fin) {
                self.clear(Marks::LIMITED);
                return None;
            }
        }
        if outstanding > 0 && !is_probe && self.pipe(core).saturating_add(len) > self.cwnd {
            self.set(Marks::LIMITED);
            return None;
        }
        let cause = if len > 0 { Cause::NewData } else { Cause::Fin };
        Some(Next {
            cause,
            range: Range::new(self.snd_nxt, self.snd_nxt.plus(len + u32::from(fin))),
            fin,
            push: false,
        })
    }

    /// The most bytes of data that may go into one packet now.
    fn largest<T: Transmit>(&self, core: &Core, out: &T) -> u32 {
        let mss = u32::from(self.mss);
        let segments = core.profile(self.profile).gso_segments;
        // A packet tells once that the window was reduced (RFC 3168 §6.1.2), not with each of its segments.
        if segments < 2
            || self.has(Marks(Marks::REDUCED.0 | Marks::SEND_TAIL.0))
            || !out.takes_large()
        {
            return mss;
        }
        (mss * u32::from(segments)).min(LARGE_MAX)
    }

    /// Has a full segment of new data take along those that could follow it, `largest` bytes at most.
    fn enlarge(&mut self, core: &Core, next: &mut Next, largest: u32) {
        let mss = u32::from(self.mss);
        if next.cause != Cause::NewData || next.fin || next.range.len() != mss {
            return;
        }
        let edge = self.snd_una.plus(self.snd_wnd);
        let start = next.range.start;
        let unsent = self.unsent();
        let by_congestion = self.cwnd.saturating_sub(self.pipe(core));
        let room = edge.since(start);
        let mut len = unsent.min(largest).min(room).min(by_congestion);
        // What does not fill a segment goes by the rules for small ones, by itself. Without them, at the end of the data, it goes along.
        let rest = len % mss;
        let is_end = len == unsent && (self.owes_fin() || !core.profile(self.profile).nagle);
        if !is_end && !core.fault(Fault::LargeWithRest) {
            len -= rest;
        }
        if len > mss {
            let fin = self.owes_fin() && len == unsent && room > len;
            next.range = Range::new(start, start.plus(len + u32::from(fin)));
            next.fin = fin;
        }
    }

    /// Whether no full segment of new data may follow `next` now. What would be asked anew for each segment is asked roughly: it
    /// decides about a flag that is free to the sender (RFC 9293 §3.9.1.2).
    fn ends_burst(&self, core: &Core, next: &Next) -> bool {
        if next.cause != Cause::NewData {
            return true;
        }
        let (mss, len) = (u32::from(self.mss), next.range.len());
        let edge = self.snd_una.plus(self.snd_wnd);
        let has_data = self.unsent() >= len + mss;
        let has_room = !next.range.end.plus(mss).is_after(edge);
        !(has_data && has_room && self.pipe(core).saturating_add(len + mss) <= self.cwnd)
    }

    /// The next piece that is lost and was not sent again.
    pub(crate) fn next_lost(&self, core: &Core) -> Option<Range> {
        if !self.flight.lost_edge.is_after(self.snd_una) {
            return None;
        }
        let mut start = self.flight.high_rxt.max(self.snd_una);
        let mut end = self.flight.lost_edge.min(self.snd_nxt);
        if let Some(ranges) = core.ranges.get(self.flight.scoreboard) {
            while let Some(known) = ranges.holding(start) {
                start = known.end;
            }
            end = ranges.following(start).map_or(end, |next| next.start.min(end));
        }
        start.is_before(end).then(|| Range::new(start, start.plus(self.mss.into()).min(end)))
    }

    /// Whether the FIN that was sent has the last number of `range`.
    fn holds_fin(&self, range: Range) -> bool {
        self.has(Marks::FIN_SENT) && range.end == self.snd_nxt
    }

    /// Sends a segment with data, a FIN, or both.
    fn send<A: Application, T: Transmit>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        tuple: &Tuple,
        next: Next,
        out: &mut T,
    ) -> bool {
        let Next { cause, range, fin, push } = next;
        if core.fault(Fault::FinOnce)
            && matches!(cause, Cause::Lost | Cause::Tail)
            && fin
            && range.len() == 1
        {
            self.flight.high_rxt = self.flight.high_rxt.max(range.end);
            self.clear(Marks(Marks::SEND_TAIL.0 | Marks::AGAIN.0));
            return true;
        }
        let payload_len = (range.len() - u32::from(fin)) as u16;
        let mut flags = Flags::ACK;
        if fin {
            flags = flags.with(Flags::FIN);
        }
        let data_end = range.start.plus(payload_len.into());
        if payload_len > 0 && (push || data_end == self.data_end() && !self.has(Marks::MORE)) {
            flags = flags.with(Flags::PSH);
        }
        let mut tos = core.profile(self.profile).packet_tos();
        if self.has(Marks::ECN) && cause == Cause::NewData {
            tos |= ECN_ECT0;
            if self.take(Marks::REDUCED) {
                flags = flags.with(Flags::CWR);
            }
        }
        let room = self.mss.saturating_sub(payload_len);
        let mut outgoing = self.outgoing(core, cx, tuple, range.start, flags, room.into());
        (outgoing.payload_len, outgoing.tos) = (payload_len, tos);
        let mut offset = self.offset_of(range.start);
        if core.fault(Fault::WrongOffset) && matches!(cause, Cause::Lost | Cause::Tail) {
            offset += 1;
        }
        let is_large = payload_len > self.mss;
        let summed = if is_large { Summed::PseudoHeader } else { Summed::All };
        let Some(buffer) = out.buffer(outgoing.packet_len()) else { return false };
        let (session, app) = (cx.session, &mut *cx.app);
        if !outgoing.write_summed(buffer, summed, |into| app.payload(session, offset, into)) {
            return false;
        }
        out.of_profile(self.profile);
        if is_large {
            out.commit_large(self.mss, outgoing.header_len() as u16);
        } else {
            out.commit();
        }
        self.sent(core, cx, next, payload_len);
        true
    }

    /// Accounts for a segment with data or a FIN.
    fn sent<A>(&mut self, core: &mut Core, cx: &Context<'_, A>, next: Next, payload_len: u16) {
        let Next { cause, range, fin, .. } = next;
        let bytes = u64::from(payload_len);
        // Those that it is cut into.
        let mut count = u64::from(self.segments_of(payload_len.into()));
        if core.fault(Fault::LargeIsOne) {
            count = 1;
        }
        let again = matches!(cause, Cause::Lost | Cause::Tail);
        let data = if payload_len > 0 { count } else { 0 };
        core.note_sent(self.profile, data, if again { count } else { 0 });
        let segments = &mut core.counters.segments;
        segments.sent += count;
        if cause == Cause::Lost {
            *match () {
                () if self.resizes() => &mut segments.retransmitted_too_big,
                () if self.has(Marks::LOSS) => &mut segments.retransmitted_timeout,
                () => &mut segments.retransmitted_fast,
            } += 1;
            core.counters.bytes.retransmitted += bytes;
            self.flight.high_rxt = self.flight.high_rxt.max(range.end);
            if range.start == self.snd_una && self.has(Marks::RECOVERY) {
                self.flight.tail = self.snd_nxt;
            }
            self.clear(Marks(Marks::FORCE.0 | Marks::AGAIN.0));
            if !core.fault(Fault::NoKarn) {
                self.clear(Marks::TIMING);
            }
        } else if cause == Cause::Tail {
            segments.retransmitted_tail += 1;
            core.counters.bytes.retransmitted += bytes;
            if !core.fault(Fault::NoKarn) {
                self.clear(Marks::TIMING);
            }
        } else {
            segments.new_data += if cause == Cause::NewData { count } else { 0 };
            segments.fin += u64::from(cause == Cause::Fin);
            core.counters.bytes.sent += bytes;
            self.snd_nxt = range.end;
            self.congestion_sent();
            if fin {
                self.set(Marks::FIN_SENT);
                self.state =
                    if self.state == State::CloseWait { State::LastAck } else { State::FinWait1 };
            }
            // What is sent anew while something is lost says nothing of the path without trouble.
            if !self.has(Marks::TIMING) && !self.has(Marks::LOSS) {
                self.set(Marks::TIMING);
                // Of several the first: the peer does not wait for the last one.
                let end = if payload_len > self.mss {
                    range.start.plus(self.mss.into())
                } else {
                    range.end
                };
                (self.rtt_start, self.rtt_seq) = (cx.micros(), end);
            }
        }
        if self.has(Marks::RECOVERY) && core.profile(self.profile).congestion != Congestion::None {
            self.flight.phase.b = self.flight.phase.b.saturating_add(range.len());
        }
        if self.take(Marks::SEND_TAIL) {
            self.set(Marks::TAIL_SENT);
            self.clear(Marks::TAIL_REPEATS);
            if cause == Cause::Tail {
                self.set(Marks::TAIL_REPEATS);
            }
            (self.flight.tail, self.flight.tail_len) = (range.start, range.len() as u16);
        }
        if self.timer != Timer::Retransmit || self.has(Marks::TAIL) {
            if self.timer == Timer::KeepAlive {
                // Probes that found no answer were counted there.
                self.flight.retries = 0;
            }
            self.await_ack(cx.now, core.profile(self.profile));
        }
        self.last_sent = cx.tick;
        self.acknowledged(core);
    }

    /// A segment with an acknowledgment went.
    fn acknowledged(&mut self, core: &mut Core) {
        self.acks_owed = 0;
        self.unacked = 0;
        self.clear(Marks::ACK_DELAYED);
        self.last_ack_sent = self.rcv_nxt;
        if self.flight.reassembly != NONE
            && let Some(ranges) = core.ranges.get_mut(self.flight.reassembly)
        {
            ranges.duplicate = None;
            if ranges.is_empty() {
                core.release_ranges(&mut self.flight.reassembly);
            }
        }
    }

    /// Sends a segment without data: an acknowledgment, or a probe, which stands one before what is expected so that it is answered.
    fn send_control<A: Application, T: Transmit>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        tuple: &Tuple,
        cause: Cause,
        out: &mut T,
    ) -> bool {
        let seq = if cause == Cause::Probe { self.snd_una.minus(1) } else { self.snd_nxt };
        let outgoing = self.outgoing(core, cx, tuple, seq, Flags::ACK, OPTIONS_MAX);
        let Some(buffer) = out.buffer(outgoing.packet_len()) else { return false };
        if !outgoing.write(buffer, |_| ()) {
            return false;
        }
        out.of_profile(self.profile);
        out.commit();
        core.counters.segments.sent += 1;
        if cause == Cause::Probe {
            core.counters.segments.probe += 1;
        } else {
            core.counters.segments.ack += 1;
        }
        self.acknowledged(core);
        true
    }

    /// Sends the SYN, or the SYN and ACK of a session that both sides open.
    fn send_syn<A: Application, T: Transmit>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        tuple: &Tuple,
        out: &mut T,
    ) -> bool {
        let profile = *core.profile(self.profile);
        let with_ack = self.state == State::SynReceived;
        if !with_ack && self.snd_nxt == self.snd_una {
            // What is told first holds: the profile may change before the peer answers.
            self.set_shifts(0, profile.shift().unwrap_or(0));
        }
        let agreed = |marks: Marks, wish: bool| if with_ack { self.has(marks) } else { wish };
        let has_timestamps = agreed(Marks::TIMESTAMPS, profile.timestamps);
        // An answer scales windows if the peer's SYN did, which shows in the shifts only where they are not 0: both ways are
        // 0 without scaling, and then the option would be wrong.
        let scales =
            profile.window_scaling && (!with_ack || self.snd_shift() > 0 || self.rcv_shift() > 0);
        let options = Options {
            mss: Some(profile.announced_mss(tuple.version())),
            window_shift: scales.then_some(self.rcv_shift()),
            sack_permitted: agreed(Marks::SACK, profile.sack),
            ..core.timestamps(has_timestamps, self.ts_recent, cx.now)
        };
        let mut flags = if with_ack { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
        if agreed(Marks::ECN, profile.ecn) && !self.has(Marks::SYN_REPEATED) {
            // RFC 3168 §6.1.1; without ECN when repeated, as §6.1.1.1 allows for networks that drop such SYNs.
            flags = flags.with(Flags::ECE).with(if with_ack { Flags(0) } else { Flags::CWR });
        }
        let outgoing = Outgoing {
            tuple: *tuple,
            seq: self.snd_una,
            ack: if with_ack { self.rcv_nxt } else { Seq(0) },
            flags,
            window: profile.syn_window(),
            options,
            payload_len: 0,
            tos: profile.packet_tos(),
            ttl: profile.ttl,
            identification: core.identification(),
            dont_fragment: profile.dont_fragment,
        };
        let Some(buffer) = out.buffer(outgoing.packet_len()) else { return false };
        if !outgoing.write(buffer, |_| ()) {
            return false;
        }
        out.of_profile(self.profile);
        out.commit();
        let segments = &mut core.counters.segments;
        segments.sent += 1;
        if self.snd_nxt == self.snd_una {
            segments.syn += 1;
            self.set(Marks::TIMING);
            (self.rtt_start, self.rtt_seq) = (cx.micros(), self.snd_una.plus(1));
        } else {
            segments.retransmitted_syn += 1;
            core.note_sent(self.profile, 0, 1);
            // The answer to a SYN that crossed ours is no repetition of ours, of which RFC 5681 §3.1 and RFC 6298 §5.7 speak.
            if !with_ack || self.flight.retries > 0 {
                self.set(Marks::SYN_REPEATED);
            }
            if !core.fault(Fault::NoKarn) {
                self.clear(Marks::TIMING);
            }
        }
        self.snd_nxt = self.snd_una.plus(1);
        self.clear(Marks::SEND_SYN);
        self.timer = Timer::Retransmit;
        self.timer_at = Tick::after(cx.now, self.rto(&profile));
        if with_ack {
            self.acknowledged(core);
        }
        true
    }

    /// A segment at `seq` with what every segment has: acknowledgment, window, timestamps, and as many SACK blocks as fit into
    /// `room` bytes beside the data.
    fn outgoing<A>(
        &mut self,
        core: &mut Core,
        cx: &Context<'_, A>,
        tuple: &Tuple,
        seq: Seq,
        flags: Flags,
        room: usize,
    ) -> Outgoing {
        let window = self.announce(core);
        let mut options = core.timestamps(self.has(Marks::TIMESTAMPS), self.ts_recent, cx.now);
        if self.flight.reassembly != NONE
            && self.has(Marks::SACK)
            && let Some(ranges) = core.ranges.get(self.flight.reassembly)
        {
            let base = options.len();
            for block in ranges.duplicate.into_iter().chain(ranges.told()) {
                let with_one_more =
                    if options.sack().is_empty() { 12 } else { options.len() - base + 8 };
                if with_one_more > room || !options.push_sack(block) {
                    break;
                }
            }
        }
        let identification = core.identification();
        let profile = core.profile(self.profile);
        Outgoing {
            tuple: *tuple,
            seq,
            ack: self.rcv_nxt,
            flags: if self.has(Marks::ECHO) { flags.with(Flags::ECE) } else { flags },
            window,
            options,
            payload_len: 0,
            tos: profile.packet_tos(),
            ttl: profile.ttl,
            identification,
            dont_fragment: profile.dont_fragment,
        }
    }
}
