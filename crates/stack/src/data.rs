//! What data and FINs do to a receiver: bytes in order, ranges out of order, acknowledgments owed.

use crate::api::{Application, Event, Reason, Received};
use crate::core::{Context, Core, Fate};
use crate::fault::Fault;
use crate::flight::ActiveTcb;
use crate::profile::{OutOfOrder, Reading};
use crate::ranges::{Range, Ranges};
use crate::segment::{ECN_CE, Flags, Segment};
use crate::seq::Seq;
use crate::slab::NONE;
use crate::tcb::{Marks, State, Tcb};
use crate::tick::Tick;

/// An acknowledgment is sent for every so manieth segment (RFC 9293 §3.8.6.3).
const SEGMENTS_PER_ACK: u8 = 2;

impl ActiveTcb<'_> {
    /// Takes the data and the FIN of a segment, of which some lies in the window.
    pub(crate) fn take_data<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
    ) -> Fate {
        let has_fin = segment.flags.has(Flags::FIN);
        if segment.payload.is_empty() && !has_fin {
            return Fate::Keep;
        }
        if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            // The peer closed before: nothing can follow (RFC 9293 §3.10.7.4).
            return Fate::Keep;
        }
        if self.has(Marks::DEAF)
            && !segment.payload.is_empty()
            && segment.end().is_after(self.rcv_nxt)
        {
            // RFC 1122 §4.2.2.13: the peer is to know that it is lost. With the number that it expects, which RFC 5961 asks for.
            core.reset_reply(segment);
            return Fate::Close(Reason::Aborted);
        }
        if self.has(Marks::ECN) {
            self.note_congestion(core, segment);
        }
        // A SYN has the first number of its segment.
        let start = segment.seq.plus(u32::from(segment.flags.has(Flags::SYN)));
        let mut bytes = segment.payload;
        let before = if start.is_before(self.rcv_nxt) { self.rcv_nxt.since(start) } else { 0 };
        let old = bytes.len().min(before as usize);
        core.counters.arrivals.duplicate_bytes += old as u64;
        let is_repeated = self.note_duplicate(core, start, old, bytes.len());
        if old > 0 && !core.fault(Fault::DuplicateDelivered) {
            bytes = bytes.get(old..).unwrap_or_default();
        }
        let start = if before > 0 { self.rcv_nxt } else { start };
        let room =
            if start.is_before(self.rcv_adv) { self.rcv_adv.since(start) as usize } else { 0 };
        let is_cut = bytes.len() > room;
        if is_cut {
            core.counters.arrivals.dropped_bytes += (bytes.len() - room) as u64;
            bytes = bytes.get(..room).unwrap_or_default();
        }
        let fin = has_fin && !is_cut;
        if bytes.is_empty() && !fin {
            self.acks_owed = self.acks_owed.max(1);
            return Fate::Keep;
        }
        if start == self.rcv_nxt {
            let fate = self.in_order(core, cx, bytes, fin);
            if is_repeated {
                // What came twice is told of the segment that came last (RFC 2883 §4, rule 1).
                self.acks_owed = self.acks_owed.max(1);
            }
            fate
        } else {
            self.out_of_order(
                core,
                cx,
                Range::new(start, start.plus(bytes.len() as u32)),
                bytes,
                fin,
            )
        }
    }

    /// Data, FIN or both at `rcv_nxt`.
    fn in_order<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        bytes: &[u8],
        fin: bool,
    ) -> Fate {
        if self.flight.reassembly != NONE {
            return self.in_order_before_others(core, cx, bytes, fin);
        }
        let offset = self.received;
        let len = bytes.len() as u32;
        let reached = self.rcv_nxt.plus(len);
        self.advance_to(core, reached);
        if !bytes.is_empty() {
            cx.app.received(cx.session, Received { offset, bytes, in_order: self.received });
            self.delay_ack(core, len);
        }
        if fin { self.take_fin(cx) } else { Fate::Keep }
    }

    /// As [`ActiveTcb::in_order`], where there may be ranges behind it.
    fn in_order_before_others<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        bytes: &[u8],
        mut fin: bool,
    ) -> Fate {
        let start = self.rcv_nxt;
        let end = start.plus(bytes.len() as u32);
        let mut reached = end;
        let mut fills = false;
        let mut before = Ranges::EMPTY;
        if let Some(ranges) = core.ranges.get_mut(self.flight.reassembly) {
            fills = !ranges.is_empty();
            before = ranges.clone();
            if let Some(first) =
                ranges.as_slice().iter().rev().find(|range| !range.start.is_after(end))
            {
                reached = reached.max(first.end);
            }
            ranges.remove_before(reached);
            if ranges.is_empty() {
                if ranges.fin && fills {
                    // The last range ended with a FIN, which is reached with it.
                    reached = reached.minus(1);
                    fin = true;
                }
                if ranges.duplicate.is_none() {
                    core.release_ranges(&mut self.flight.reassembly);
                }
            }
        }
        let advanced = reached.since(start);
        let offset = self.received;
        self.advance_to(core, reached);
        if fills {
            self.hand_over(cx, &before, Range::new(start, end), bytes, offset);
            self.acks_owed = self.acks_owed.max(1);
        } else if !bytes.is_empty() {
            cx.app.received(cx.session, Received { offset, bytes, in_order: self.received });
            self.delay_ack(core, advanced);
        }
        if fin { self.take_fin(cx) } else { Fate::Keep }
    }

    /// Data, FIN or both behind a gap.
    fn out_of_order<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        range: Range,
        bytes: &[u8],
        fin: bool,
    ) -> Fate {
        self.owe_ack();
        self.set(Marks::DUPLICATE);
        if core.fault(Fault::EarlyFin) && fin {
            return self.take_fin(cx);
        }
        let with_fin = Range::new(range.start, range.end.plus(u32::from(fin)));
        let discard = core.profile(self.profile).out_of_order == OutOfOrder::Discard;
        let had_block = self.flight.reassembly != NONE;
        let refused =
            discard || !bytes.is_empty() && !cx.app.has_room_out_of_order(cx.session, bytes.len());
        let taken = if refused { None } else { core.ranges_at(&mut self.flight.reassembly) }
            .and_then(|ranges| {
                let before = ranges.clone();
                // Behind a FIN there is nothing, and there is one FIN.
                let last = before.last().filter(|_| before.fin);
                if last.is_some_and(|last| {
                    with_fin.end.is_after(last.end) || fin && with_fin.end != last.end
                }) {
                    return None;
                }
                if fin && before.last().is_some_and(|last| last.end.is_after(with_fin.end)) {
                    return None;
                }
                let fresh = ranges.insert(with_fin)?;
                ranges.fin |= fin;
                Some((before, fresh))
            });
        let Some((before, fresh)) = taken else {
            core.counters.arrivals.dropped_bytes += bytes.len() as u64;
            if !had_block && core.ranges.get(self.flight.reassembly).is_some_and(Ranges::is_empty) {
                core.release_ranges(&mut self.flight.reassembly);
            }
            return Fate::Keep;
        };
        // A FIN that is new is no byte.
        let fin_is_new = u32::from(fin && !before.fin);
        let fresh = fresh.saturating_sub(fin_is_new);
        core.counters.arrivals.out_of_order_bytes += u64::from(fresh);
        core.counters.arrivals.duplicate_bytes +=
            (bytes.len() as u64).saturating_sub(u64::from(fresh));
        let offset = self.received + u64::from(range.start.since(self.rcv_nxt));
        self.hand_over(cx, &before, range, bytes, offset);
        Fate::Keep
    }

    /// Hands over those of `bytes`, which are `range` and begin at `offset`, that had not come `before`.
    fn hand_over<A: Application>(
        &self,
        cx: &mut Context<'_, A>,
        before: &Ranges,
        range: Range,
        bytes: &[u8],
        offset: u64,
    ) {
        let mut at = range.start;
        while at.is_before(range.end) {
            if let Some(known) = before.holding(at) {
                at = known.end;
                continue;
            }
            let end = before.following(at).map_or(range.end, |next| next.start.min(range.end));
            let from = at.since(range.start);
            if let Some(piece) = bytes.get(from as usize..end.since(range.start) as usize) {
                let offset = offset + u64::from(from);
                cx.app.received(
                    cx.session,
                    Received { offset, bytes: piece, in_order: self.received },
                );
            }
            at = end;
        }
    }

    /// Remembers the first of `len` bytes at `start` that came before, of which `old` are below `rcv_nxt`: a part of a segment is told too
    /// (RFC 2883 §4.2). Whether there is one.
    #[inline]
    fn note_duplicate(&mut self, core: &mut Core, start: Seq, old: usize, len: usize) -> bool {
        if old == 0 && self.flight.reassembly == NONE {
            return false;
        }
        let end = start.plus(if old > 0 { old } else { len } as u32);
        let range = Range::new(start, end);
        let duplicate = match old {
            0 => core.ranges.get(self.flight.reassembly).and_then(|ranges| ranges.first_in(range)),
            _ => Some(range),
        };
        if let Some(duplicate) = duplicate {
            self.remember_duplicate(core, duplicate);
        }
        duplicate.is_some()
    }

    /// Remembers what came twice, to tell it with the next acknowledgment (RFC 2883 §4).
    pub(crate) fn remember_duplicate(&mut self, core: &mut Core, range: Range) {
        if self.has(Marks::SACK)
            && !range.is_empty()
            && let Some(ranges) = core.ranges_at(&mut self.flight.reassembly)
        {
            ranges.duplicate = Some(range);
        }
    }

    /// Takes the FIN that is next (RFC 9293 §3.10.7.4, eighth).
    fn take_fin<A: Application>(&mut self, cx: &mut Context<'_, A>) -> Fate {
        self.rcv_nxt = self.rcv_nxt.plus(1);
        self.rcv_adv = self.rcv_adv.max(self.rcv_nxt);
        self.acks_owed = self.acks_owed.max(1);
        cx.app.event(cx.session, Event::PeerClosed);
        match self.state {
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => return Fate::TimeWait,
            _ => self.state = State::CloseWait,
        }
        Fate::Keep
    }

    /// What the network and the sender say of congestion (RFC 3168 §6.1.3).
    fn note_congestion(&mut self, core: &mut Core, segment: &Segment<'_>) {
        if segment.flags.has(Flags::CWR) {
            self.clear(Marks::ECHO);
        }
        if segment.ecn == ECN_CE {
            core.counters.arrivals.congestion_marks += 1;
            self.set(Marks::ECHO);
        }
    }
}

impl Tcb {
    /// Moves `rcv_nxt` to `reached`, data in order alone.
    #[inline]
    pub(crate) fn advance_to(&mut self, core: &mut Core, reached: Seq) {
        let advanced = reached.since(self.rcv_nxt);
        self.rcv_nxt = reached;
        self.received += u64::from(advanced);
        core.counters.bytes.delivered += u64::from(advanced);
        if core.profile(self.profile).reading == Reading::Manual {
            self.unread = self.unread.saturating_add(advanced);
        }
    }

    /// Owes an acknowledgment for `len` bytes of data in order: for every second segment at once, otherwise before long.
    #[inline]
    pub(crate) fn delay_ack(&mut self, core: &Core, len: u32) {
        let profile = core.profile(self.profile);
        let (delay, mss) = (profile.delayed_ack, u32::from(self.rcv_mss));
        // A card or a kernel may have put several segments together (GRO): each of them counts.
        let segments = if len > mss { SEGMENTS_PER_ACK } else { 1 };
        self.unacked = self.unacked.saturating_add(segments);
        let is_quick = profile.quick_acks > 0
            && self.received <= u64::from(profile.quick_acks) * u64::from(mss);
        if self.unacked >= SEGMENTS_PER_ACK || is_quick || delay.get() == 0 {
            self.acks_owed = self.acks_owed.max(1);
        }
    }

    /// Begins the delay of an acknowledgment, at the end of a turn in which nothing took it along: who answers at once needs none.
    #[inline]
    pub(crate) fn begin_ack_delay<A>(&mut self, core: &mut Core, cx: &Context<'_, A>) {
        let delay = core.profile(self.profile).delayed_ack;
        match core.acks.push(delay, Tick::after(cx.now, delay), cx.node) {
            Some(at) => {
                self.set(Marks::ACK_DELAYED);
                self.ack_timer_at = at.0 as u16;
            }
            None => self.owe_ack(),
        }
    }

    /// The window to announce now, shifted, and its right edge remembered. The edge never moves back (RFC 9293 §3.8.6) and
    /// moves on only by a segment or half the buffer (silly window avoidance, RFC 9293 §3.8.6.2.2).
    #[inline]
    pub(crate) fn announce(&mut self, core: &Core) -> u16 {
        let (edge, buffer) = self.free_edge(core);
        let gain = if edge.is_after(self.rcv_adv) { edge.since(self.rcv_adv) } else { 0 };
        let step = (buffer / 2).min(self.rcv_mss.into());
        if gain >= step.max(1) || core.fault(Fault::SillyWindow) {
            self.rcv_adv = edge;
        }
        let window = self.rcv_adv.since(self.rcv_nxt);
        // Rounded up, so that the edge does not move back by the bits that are shifted out (RFC 7323 §2.4).
        let field =
            (window.saturating_add((1 << self.rcv_shift()) - 1) >> self.rcv_shift()).min(0xffff);
        self.rcv_adv = self.rcv_nxt.plus(field << self.rcv_shift());
        field as u16
    }

    /// Where the window could end now, and its largest size. A buffer that is larger than what can be announced fills first where
    /// it is larger.
    #[inline]
    fn free_edge(&self, core: &Core) -> (Seq, u32) {
        let profile = core.profile(self.profile);
        let largest = profile.buffer(self.rcv_shift());
        let free = profile.window.saturating_sub(self.unread).min(largest);
        (self.rcv_nxt.plus(free), largest)
    }

    /// Whether the window could open by so much that the peer is to hear of it at once: by a segment or half the buffer, and to
    /// twice what the peer still has. Who has room left hears of more with the next acknowledgment; without that rule every segment
    /// that is read costs a segment of its own.
    pub(crate) fn window_opens(&self, core: &Core) -> bool {
        let (edge, buffer) = self.free_edge(core);
        let left = self.rcv_adv.since(self.rcv_nxt);
        edge.is_after(self.rcv_adv)
            && edge.since(self.rcv_adv) >= (buffer / 2).min(self.rcv_mss.into())
            && edge.since(self.rcv_nxt) / 2 >= left
    }
}
