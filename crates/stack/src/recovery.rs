//! What an acknowledgment does to a sender: progress, round trips, the peer's window, and what is lost.
//!
//! There is one account of loss for all ways of recovery. What lies before `lost_edge` and was not acknowledged is lost; what of it
//! lies before `high_rxt` was sent again. With SACK the edge follows from RFC 6675 §4; without, a third duplicate puts it behind
//! the first segment and each partial acknowledgment behind the next (RFC 6582 §3.2); after a timeout it stands behind all that
//! was sent. `pipe` is what is then in the network, and the congestion window is compared with nothing else. A duplicate
//! acknowledgment thus takes a segment off the pipe, which is the limited transmit of RFC 3042.

use crate::api::{Application, Event};
use crate::core::{Context, Core};
use crate::fault::Fault;
use crate::flight::{ActiveTcb, Flight};
use crate::ranges::Range;
use crate::segment::{Flags, Segment};
use crate::seq::Seq;
use crate::slab::NONE;
use crate::tcb::{Marks, Tcb, Timer};
use crate::tick::Tick;
use wirebeat_units::Nanos;

/// After how many duplicates, or ranges above it, a segment is lost (RFC 5681 §3.2, RFC 6675 §2).
const DUPLICATES: u8 = 3;

/// What an acknowledgment told.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    /// Bytes that it acknowledges cumulatively.
    acked: u32,
    /// Bytes that left the network.
    delivered: u32,
    /// Whether it is a duplicate.
    duplicate: bool,
}

impl ActiveTcb<'_> {
    /// Takes the acknowledgment of a segment in the window, in a state in which data is exchanged. `false` where the rest of the
    /// segment does not count (RFC 9293 §3.10.7.4, RFC 5961 §5.2).
    pub(crate) fn acknowledge<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
    ) -> bool {
        let ack = segment.ack;
        let is_old = ack.is_before(self.snd_una);
        if ack.is_after(self.snd_nxt) || is_old && self.snd_una.since(ack) > self.max_wnd {
            core.counters.arrivals.bad_ack += 1;
            if core.challenge(cx.now) {
                self.owe_ack();
            }
            return false;
        }
        if is_old && (!self.has(Marks::SACK) || segment.options.sack().is_empty()) {
            return true;
        }
        if !is_old && self.nothing_is_missing() && !segment.flags.has(Flags::ECE) {
            let (acked, has_sack) = (ack.since(self.snd_una), segment.options.sack_len > 0);
            if !has_sack && (acked > 0 || self.has(Marks::SACK)) {
                self.acknowledge_in_order(core, cx, segment, acked);
                return true;
            }
        }
        let outstanding = self.outstanding();
        let sacked = self.sacked(core);
        // One that was overtaken by a later one may still tell of data that arrived out of order.
        let acked = if is_old { 0 } else { ack.since(self.snd_una) };
        let window_changed = !is_old && self.update_window(segment, acked > 0);
        if self.timer == Timer::Persist || self.snd_wnd == 0 {
            // A peer that answers is alive, however long its window stays closed (RFC 9293 §3.8.6.1).
            self.flight.retries = 0;
        }
        if acked > 0 {
            self.advance(core, cx, segment, acked);
        }
        let duplicate = self.has(Marks::SACK) && self.take_sack(core, segment);
        if self.has(Marks::TAIL_SENT) {
            self.tail_news(core, duplicate);
        }
        let sacked_now = self.sacked(core);
        let mut news = News { acked, ..News::default() };
        if self.has(Marks::SACK) {
            news.delivered = (acked + sacked_now).saturating_sub(sacked);
            news.duplicate = acked == 0 && sacked_now > sacked;
        } else {
            let mss = u32::from(self.mss);
            let credit = u32::from(self.flight.dup_acks) * mss;
            let plain =
                segment.payload.is_empty() && !segment.flags.has(Flags::FIN) && !window_changed;
            news.duplicate = acked == 0 && outstanding > credit && plain && !self.has(Marks::LOSS);
            news.delivered = if acked > 0 {
                acked.saturating_sub(credit)
            } else {
                mss * u32::from(news.duplicate)
            };
        }
        if acked > 0 || news.duplicate || self.has(Marks::RECOVERY) {
            self.recover(core, cx, news);
            self.await_order(core, cx.now);
        }
        if segment.flags.has(Flags::ECE) && self.has(Marks::ECN) {
            self.congestion_echo(core, cx);
        }
        true
    }

    /// Whether all that was sent is acknowledged or on its way for the first time, as far as the peer's news tell.
    #[inline]
    fn nothing_is_missing(&self) -> bool {
        const TROUBLE: Marks = Marks(
            Marks::RECOVERY.0
                | Marks::LOSS.0
                | Marks::ECN_RECOVERY.0
                | Marks::TAIL_SENT.0
                | Marks::AGAIN.0
                | Marks::REORDER.0,
        );
        self.flight.scoreboard == NONE
            && self.flight.dup_acks == 0
            && !self.has(TROUBLE)
            && !self.flight.lost_edge.is_after(self.snd_una)
    }

    /// As [`ActiveTcb::acknowledge`], where nothing is missing and the segment tells of nothing out of order: all that is left of it then.
    #[inline]
    fn acknowledge_in_order<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
        acked: u32,
    ) {
        self.update_window(segment, acked > 0);
        if self.timer == Timer::Persist || self.snd_wnd == 0 {
            self.flight.retries = 0;
        }
        if acked > 0 {
            self.advance(core, cx, segment, acked);
            self.congestion_ack(core.profile(self.profile), acked, cx.tick);
        }
    }

    /// Bytes that the peer has out of order.
    pub(crate) fn sacked(&self, core: &Core) -> u32 {
        if self.flight.scoreboard == NONE {
            return 0;
        }
        core.ranges.get(self.flight.scoreboard).map_or(0, |ranges| ranges.total())
    }

    /// Sequence numbers that are taken as lost and were not sent again or not acknowledged since.
    pub(crate) fn lost(&self, core: &Core) -> u32 {
        self.not_sacked(core, Range::new(self.snd_una, self.flight.lost_edge.max(self.snd_una)))
    }

    /// Sequence numbers that were sent again in this recovery and are not acknowledged.
    pub(crate) fn sent_again(&self, core: &Core) -> u32 {
        self.not_sacked(core, Range::new(self.snd_una, self.flight.high_rxt.max(self.snd_una)))
    }

    fn not_sacked(&self, core: &Core, range: Range) -> u32 {
        let sacked =
            core.ranges.get(self.flight.scoreboard).map_or(0, |ranges| ranges.count_in(range));
        range.len() - sacked
    }

    /// Takes the window, unless an older segment tells it (RFC 9293 §3.10.7.4). Whether it changed. The segment acknowledges no less than
    /// `snd_una`.
    ///
    /// A segment that acknowledges something new tells the window whatever its own number is: where data was sent again, its
    /// number is old, and the window from before would reach too far behind the new `snd_una`. Linux has the same rule. One that begins
    /// before `rcv_nxt` and is in the window was sent again, so that it is as new as one at `rcv_nxt`.
    #[inline]
    pub(crate) fn update_window(&mut self, segment: &Segment<'_>, acks_new: bool) -> bool {
        if !acks_new && self.flight.snd_wl1.is_after(segment.seq.max(self.rcv_nxt)) {
            return false;
        }
        self.flight.snd_wl1 = segment.seq;
        self.tcb.take_window(segment)
    }

    /// Moves `snd_una` on by `acked`.
    fn advance<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
        acked: u32,
    ) {
        let fin = u32::from(self.has(Marks::FIN_SENT) && segment.ack == self.snd_nxt);
        let partial = u32::from(core.fault(Fault::AckedTooMuch) && segment.ack != self.snd_nxt);
        let data = acked - fin + partial;
        self.snd_una = segment.ack;
        self.dequeue(data);
        core.counters.bytes.acked += u64::from(data);
        self.flight.retries = 0;
        if data >= self.mss.into() {
            self.set(Marks::PROVEN);
        }
        if self.has(Marks::TIMING) && !segment.ack.is_before(self.rtt_seq) {
            self.clear(Marks::TIMING);
            core.counters.recoveries.rtt_samples += 1;
            let rtt = cx.micros().wrapping_sub(self.rtt_start);
            self.rtt_sample(rtt);
        } else if self.has(Marks::RECOVERY) || self.has(Marks::LOSS) || self.flight.backoff > 0 {
            // A segment that was sent twice is not timed (Karn), but a timestamp tells which of the two is acknowledged
            // (RFC 7323 §4.1), to a millisecond.
            if let Some(timestamps) =
                segment.options.timestamps.filter(|t| self.has(Marks::TIMESTAMPS) && t.echo != 0)
            {
                let ms = core.timestamp(cx.now).wrapping_sub(timestamps.echo);
                if ms < 1 << 18 {
                    core.counters.recoveries.rtt_samples += 1;
                    self.rtt_sample(ms.max(1) * 1000);
                }
            }
        }
        // RFC 6298 §5 keeps the doubled timeout until a round trip was measured, which takes new data. A path that loses so much
        // that all is sent twice would then move at one segment a minute; so progress ends the doubling, as in Linux.
        self.flight.backoff = 0;
        if let Some(ranges) = core.ranges.get_mut(self.flight.scoreboard) {
            ranges.remove_before(self.snd_una);
            if ranges.is_empty() {
                core.release_ranges(&mut self.flight.scoreboard);
            }
        }
        self.flight.follow(self.tcb.snd_una);
        if self.outstanding() > 0 {
            self.await_ack(cx.now, core.profile(self.profile));
        } else {
            self.timer = Timer::Idle;
        }
        if data > 0 {
            cx.app.event(cx.session, Event::Acknowledged { offset: self.acked });
        }
    }

    /// Takes the SACK blocks of a segment (RFC 2018 §5), and says whether something came twice (RFC 2883 §4).
    fn take_sack(&mut self, core: &mut Core, segment: &Segment<'_>) -> bool {
        let blocks = segment.options.sack();
        let mut duplicate = false;
        if let [first, rest @ ..] = blocks {
            let within = rest.first().is_some_and(|outer| {
                !first.start.is_before(outer.start) && !first.end.is_after(outer.end)
            });
            if !first.end.is_after(segment.ack) && !first.is_empty() || within {
                core.counters.recoveries.spurious += 1;
                duplicate = true;
                self.widen_reordering(core);
            }
        }
        for block in blocks {
            // As distances from `snd_una`: numbers half a circle away compare as nobody means them.
            let (start, end) = (block.start.since(self.snd_una), block.end.since(self.snd_una));
            let wild = end > self.outstanding() && !core.fault(Fault::WildSack);
            if block.start.is_before(self.snd_una) || start >= end || wild {
                continue;
            }
            // Where there is no room for it, the block is as if it had been lost.
            if let Some(ranges) = core.ranges_at(&mut self.flight.scoreboard) {
                ranges.insert(*block);
            }
        }
        duplicate
    }

    /// What an acknowledgment tells of a tail loss probe (RFC 8985 §7.4).
    fn tail_news(&mut self, core: &mut Core, duplicate: bool) {
        let end = self.flight.tail.plus(self.flight.tail_len.into());
        let last = end.minus(1);
        let arrived = core
            .ranges
            .get(self.flight.scoreboard)
            .is_some_and(|ranges| ranges.holding(last).is_some());
        if arrived {
            // The probe arrived and what was sent two round trips before it did not: it is lost. That is RACK's rule for the one
            // segment whose time is known.
            self.clear(Marks::TAIL_SENT);
            self.flight.lost_edge = self.flight.lost_edge.max(self.flight.tail).min(self.snd_nxt);
        } else if !self.snd_una.is_before(end) {
            if !self.has(Marks::TAIL_REPEATS) || duplicate {
                // New data, or both copies arrived.
                self.clear(Marks::TAIL_SENT);
            } else if self.snd_una.is_after(end) {
                // No second copy was told of: the probe has repaired a loss, which is congestion all the same.
                self.clear(Marks::TAIL_SENT);
                let profile = *core.profile(self.profile);
                core.counters.recoveries.tail += 1;
                self.congestion_loss(&profile);
                self.prr_end(&profile);
            }
        }
    }

    /// Something was sent again that arrived after all: the network reorders, and more patience is due (RFC 8985 §6.2 step 4). A
    /// tail loss probe is no sign of that: it was sent for another reason.
    fn widen_reordering(&mut self, core: &Core) {
        let step = Marks::REORDERING.0 / 3;
        if core.profile(self.profile).rack
            && !(self.has(Marks::TAIL_SENT) && self.has(Marks::TAIL_REPEATS))
            && self.marks.0 & Marks::REORDERING.0 != Marks::REORDERING.0
        {
            self.marks.0 += step;
        }
    }

    /// Where the last range begins that the peer has out of order.
    pub(crate) fn highest_sacked(&self, core: &Core) -> Option<Seq> {
        core.ranges.get(self.flight.scoreboard)?.last().map(|range| range.start)
    }

    /// Where SACK says that what lies before is lost: three ranges, or more than two segments, lie above it (RFC 6675 §4).
    fn sack_edge(&self, core: &Core) -> Seq {
        let Some(ranges) = core.ranges.get(self.flight.scoreboard) else { return self.snd_una };
        let (mut bytes, mut count) = (0, 0);
        for range in ranges.as_slice().iter().rev() {
            (bytes, count) = (bytes + range.len(), count + 1);
            if count >= DUPLICATES || bytes > u32::from(DUPLICATES - 1) * u32::from(self.mss) {
                return range.start;
            }
        }
        self.snd_una
    }

    /// Bytes that are in the network (RFC 6675 §4).
    pub(crate) fn pipe(&self, core: &Core) -> u32 {
        let outstanding = self.outstanding();
        let lost = Range::new(
            self.flight.high_rxt.max(self.snd_una),
            self.flight.lost_edge.max(self.snd_una),
        );
        let lost_len = if lost.start.is_before(lost.end) { lost.len() } else { 0 };
        if self.flight.scoreboard == NONE {
            let left = if self.has(Marks::SACK) {
                0
            } else {
                u32::from(self.flight.dup_acks) * u32::from(self.mss)
            };
            return outstanding.saturating_sub(left).saturating_sub(lost_len);
        }
        let Some(ranges) = core.ranges.get(self.flight.scoreboard) else { return outstanding };
        let lost_sacked = if lost_len > 0 { ranges.count_in(lost) } else { 0 };
        outstanding.saturating_sub(ranges.total()).saturating_sub(lost_len - lost_sacked)
    }

    /// Begins, continues or ends recovery, and sets the congestion window.
    fn recover<A: Application>(&mut self, core: &mut Core, cx: &Context<'_, A>, news: News) {
        let profile = *core.profile(self.profile);
        let mss = u32::from(self.mss);
        let done = !self.snd_una.is_before(self.flight.recover);
        if done && news.acked > 0 {
            self.clear(Marks::LOSS);
            self.clear(Marks::ECN_RECOVERY);
            self.clear(Marks::AGAIN);
            if self.take(Marks::RECOVERY) {
                self.prr_end(&profile);
            }
        }
        if news.duplicate {
            core.counters.arrivals.duplicate_acks += 1;
            self.flight.dup_acks = self.flight.dup_acks.saturating_add(1);
        } else if news.acked > 0 {
            // A partial acknowledgment covers the segment that was sent again and those that duplicates stood for.
            let covered = (news.acked.div_ceil(mss.max(1)) - 1).min(255) as u8;
            let partial = self.has(Marks::RECOVERY) && !self.has(Marks::SACK);
            self.flight.dup_acks =
                if partial { self.flight.dup_acks.saturating_sub(covered) } else { 0 };
            if partial {
                self.flight.lost_edge = self.snd_una.plus(mss).min(self.snd_nxt);
                self.flight.high_rxt = self.snd_una;
            }
        }
        let lost_before = self.flight.lost_edge;
        let recovering = self.has(Marks::RECOVERY) || self.has(Marks::LOSS);
        let reorders = profile.rack && self.has(Marks::REORDERING);
        let told = self.sack_edge(core);
        if profile.rack && !reorders && (recovering || told.is_after(self.snd_una)) {
            // In recovery, and when three segments tell of a loss, nothing waits for order any more (RFC 8985 §6.2 step 4): what
            // was sent before something that arrived and is not there is lost.
            self.flight.lost_edge =
                self.flight.lost_edge.max(self.highest_sacked(core).unwrap_or(self.snd_una));
        } else if recovering || !reorders {
            self.flight.lost_edge = self.flight.lost_edge.max(told);
        }
        // Without SACK duplicates of what was sent before the last recovery say nothing (RFC 6582 §3.2 step 1).
        let counts = self.has(Marks::SACK) || self.snd_una.is_after(self.flight.recover);
        if !recovering && self.flight.dup_acks >= DUPLICATES && counts && self.outstanding() > 0 {
            self.flight.lost_edge =
                self.flight.lost_edge.max(self.snd_una.plus(mss).min(self.snd_nxt));
        }
        // What the last recovery sent again is under way, and no reason for another.
        if !recovering && self.next_lost(core).is_some() {
            self.begin_recovery(core, cx.now);
        }
        self.lost_again(core, news);
        if self.has(Marks::RECOVERY) {
            let pipe = self.pipe(core);
            let is_safe = news.acked > 0 && !self.flight.lost_edge.is_after(lost_before);
            self.prr_ack(&profile, news.delivered, pipe, is_safe);
        } else if news.acked > 0 && !self.has(Marks::ECN_RECOVERY) {
            // What was told to have arrived before, out of order, has opened the window then (RFC 3042).
            self.congestion_ack(&profile, news.acked.min(news.delivered), cx.tick);
        }
    }

    /// Begins recovery: something is lost.
    pub(crate) fn begin_recovery(&mut self, core: &mut Core, now: Nanos) {
        let profile = *core.profile(self.profile);
        if self.take(Marks::REORDER) {
            // The timer was for that, and is the retransmission timer again.
            self.timer_at = Tick::after(now, self.rto(&profile));
        }
        core.counters.recoveries.fast += 1;
        self.congestion_loss(&profile);
        self.prr_start();
        self.set(Marks::RECOVERY);
        self.set(Marks::FORCE);
        self.forget_tail();
        self.clear(Marks::ECN_RECOVERY);
        self.flight.recover = self.snd_nxt;
        self.flight.tail = self.snd_nxt;
    }

    /// The peer tells of congestion: once a round trip that is like a loss, but nothing is sent again (RFC 3168 §6.1.2).
    fn congestion_echo<A: Application>(&mut self, core: &mut Core, _: &Context<'_, A>) {
        let reduced =
            self.has(Marks::RECOVERY) || self.has(Marks::LOSS) || self.has(Marks::ECN_RECOVERY);
        if reduced || self.outstanding() == 0 {
            return;
        }
        let profile = *core.profile(self.profile);
        core.counters.recoveries.congestion_echoes += 1;
        self.congestion_loss(&profile);
        self.prr_end(&profile);
        self.flight.recover = self.snd_nxt;
        self.set(Marks::ECN_RECOVERY);
        self.set(Marks::REDUCED);
    }

    /// Sees whether a retransmission was lost: what was sent after it arrives, and more of it than reordering explains (RFC 6675's
    /// threshold, in the order of sending). Only the first missing segment is looked at, for its time is known.
    fn lost_again(&mut self, core: &Core, news: News) {
        if !self.has(Marks::RECOVERY) || !self.has(Marks::SACK) {
            return;
        }
        if news.acked > 0 {
            self.flight.tail = self.snd_nxt;
            self.clear(Marks::AGAIN);
        } else if self.flight.high_rxt.is_after(self.snd_una)
            && let Some(ranges) = core.ranges.get(self.flight.scoreboard)
        {
            let later = ranges.count_in(Range::new(self.flight.tail, self.snd_nxt));
            if later > u32::from(DUPLICATES - 1) * u32::from(self.mss) {
                self.flight.tail = self.snd_nxt;
                self.set(Marks::AGAIN);
            }
        }
    }

    /// Recovery has begun: a probe before it decides nothing any more.
    pub(crate) fn forget_tail(&mut self) {
        self.clear(Marks(Marks::TAIL.0 | Marks::SEND_TAIL.0 | Marks::TAIL_SENT.0 | Marks::AGAIN.0));
    }

    /// The retransmission timer ran out: all that is outstanding is lost (RFC 6298 §5.4 to §5.6, RFC 5681 §3.1).
    pub(crate) fn retransmission_timeout(&mut self, core: &mut Core) {
        let profile = *core.profile(self.profile);
        core.counters.recoveries.timeouts += 1;
        if self.flight.retries <= 1 {
            // RFC 5681 §3.1: a segment that is lost again does not lower the threshold again.
            self.congestion_loss(&profile);
        }
        self.congestion_timeout(&profile);
        self.clear(Marks(Marks::RECOVERY.0 | Marks::ECN_RECOVERY.0));
        self.clear(Marks(Marks::REORDER.0 | Marks::REORDERING.0));
        self.set(Marks::LOSS);
        self.set(Marks::FORCE);
        self.forget_tail();
        // A peer may take back what it said out of order (RFC 2018 §8).
        core.release_ranges(&mut self.flight.scoreboard);
        self.flight.dup_acks = 0;
        (self.flight.recover, self.flight.lost_edge, self.flight.high_rxt) =
            (self.snd_nxt, self.snd_nxt, self.snd_una);
    }
}

impl Flight {
    /// Has numbers that are not of use now follow `snd_una`, so that they never are half a circle behind.
    #[inline]
    pub(crate) fn follow(&mut self, snd_una: Seq) {
        self.lost_edge = self.lost_edge.max(snd_una);
        self.high_rxt = self.high_rxt.max(snd_una);
        if self.recover.is_before(snd_una) && snd_una.since(self.recover) > 1 << 30 {
            self.recover = snd_una.minus(1 << 30);
        }
    }
}

impl Tcb {
    /// Takes the window of a segment. Whether it changed.
    #[inline]
    pub(crate) fn take_window(&mut self, segment: &Segment<'_>) -> bool {
        let shift = if segment.flags.has(Flags::SYN) { 0 } else { self.snd_shift() };
        let window = u32::from(segment.window) << shift;
        self.max_wnd = self.max_wnd.max(window);
        std::mem::replace(&mut self.snd_wnd, window) != window
    }
}
