//! A segment arrives for a session: the order of checks of RFC 9293 §3.10.7, with those of RFC 5961 and RFC 7323.

use crate::api::{Application, Event, Reason};
use crate::core::{Context, Core, Fate};
use crate::flight::ActiveTcb;
use crate::ranges::Range;
use crate::segment::{Flags, Segment};
use crate::tcb::{Marks, State, Timer};

impl ActiveTcb<'_> {
    /// Takes a segment of this session.
    pub(crate) fn arrival<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
    ) -> Fate {
        if self.state == State::SynSent {
            return self.arrival_syn_sent(core, cx, segment);
        }
        let is_simultaneous = self.state == State::SynReceived
            && segment.flags.has(Flags::SYN)
            && segment.seq.plus(1) == self.rcv_nxt;
        if is_simultaneous {
            // Both sides opened at the same time: the SYN is known, its acknowledgment counts (RFC 9293 figure 8).
            let flags = segment.flags.without(Flags::SYN);
            return self.arrival_open(core, cx, &Segment { seq: self.rcv_nxt, flags, ..*segment });
        }
        self.arrival_open(core, cx, segment)
    }

    /// RFC 9293 §3.10.7.4.
    fn arrival_open<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
    ) -> Fate {
        if !self.timestamp_counts(core, cx, segment) || !self.is_acceptable(core, cx, segment) {
            return Fate::Keep;
        }
        if segment.flags.has(Flags::RST) {
            // RFC 5961 §3.2: only the exact number resets. Half-open here is who opened it itself: it was refused.
            if segment.seq == self.rcv_nxt {
                let is_refused = self.state == State::SynReceived;
                return Fate::Close(if is_refused { Reason::Refused } else { Reason::Reset });
            }
            self.challenge(core, cx);
            return Fate::Keep;
        }
        if segment.flags.has(Flags::SYN) {
            // RFC 5961 §4.2: whatever it is, the peer learns where we are.
            self.challenge(core, cx);
            return Fate::Keep;
        }
        if !segment.flags.has(Flags::ACK) {
            return Fate::Keep;
        }
        self.last_heard = cx.tick;
        // Of what comes below only a segment with a valid acknowledgment counts, its timestamp neither.
        let timestamp = segment
            .options
            .timestamps
            .filter(|_| self.has(Marks::TIMESTAMPS) && !segment.seq.is_after(self.last_ack_sent));
        if self.state == State::SynReceived {
            if segment.ack != self.snd_nxt {
                core.reset_reply(segment);
                return Fate::Keep;
            }
            self.establish(core, cx, segment);
        } else if !self.acknowledge(core, cx, segment) {
            return Fate::Keep;
        }
        if let Some(timestamp) = timestamp {
            // RFC 7323 §4.3.
            self.ts_recent = timestamp.value;
        }
        let fin_is_acked = self.has(Marks::FIN_SENT) && self.snd_una == self.snd_nxt;
        match self.state {
            State::FinWait1 if fin_is_acked => self.state = State::FinWait2,
            State::Closing if fin_is_acked => return Fate::TimeWait,
            State::LastAck if fin_is_acked => return Fate::Close(Reason::InOrder),
            _ => {}
        }
        self.take_data(core, cx, segment)
    }

    /// The protection against wrapped sequence numbers (RFC 7323 §5.3).
    fn timestamp_counts<A>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
    ) -> bool {
        if !self.has(Marks::TIMESTAMPS) || segment.flags.has(Flags::RST) {
            return true;
        }
        let Some(timestamps) = segment.options.timestamps else {
            core.counters.arrivals.without_timestamp += 1;
            return false;
        };
        let is_older = (timestamps.value.wrapping_sub(self.ts_recent) as i32) < 0;
        if is_older {
            core.counters.arrivals.paws += 1;
            // what has a number of its own its sender sends again until it is answered
            let may = match segment.seq_len() {
                0 => core.challenge(cx.now),
                _ => core.answers_repeat(cx.now),
            };
            if may {
                self.acks_owed = self.acks_owed.max(1);
            }
        }
        !is_older
    }

    /// Whether some of the segment lies in the window (RFC 9293 §3.10.7.4, first). A segment without a number of its own may stand
    /// at the right edge: an acknowledgment stands there when its sender has used the window up.
    fn is_acceptable<A>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
    ) -> bool {
        let len = segment.seq_len();
        let begins = !segment.seq.is_after(self.rcv_adv);
        let ends = if len == 0 {
            !segment.seq.is_before(self.rcv_nxt)
        } else {
            segment.end().is_after(self.rcv_nxt)
        };
        if begins && ends {
            return true;
        }
        core.counters.arrivals.outside_window += 1;
        if segment.flags.has(Flags::RST) {
            return false;
        }
        if begins && !segment.payload.is_empty() {
            core.counters.arrivals.duplicate_bytes += segment.payload.len() as u64;
            let start = segment.seq.plus(u32::from(segment.flags.has(Flags::SYN)));
            self.remember_duplicate(core, Range::new(start, segment.end()));
            if let Some(timestamps) = segment.options.timestamps
                && self.has(Marks::TIMESTAMPS)
            {
                // It passed PAWS, so it was sent again just now. Were an older timestamp echoed, the sender would take the time
                // of its timeout for a round trip, and wait longer and longer.
                self.ts_recent = timestamps.value;
            }
        }
        // A probe stands one before what is expected. Others without a number of their own could answer each other for ever, and what
        // stands behind the window nobody sends who knows it.
        let is_repeat = begins && len > 0 || segment.seq.plus(1) == self.rcv_nxt;
        if if is_repeat { core.answers_repeat(cx.now) } else { core.challenge(cx.now) } {
            self.acks_owed = self.acks_owed.max(1);
        }
        false
    }

    /// Answers a segment that may be forged, within the limit.
    fn challenge<A>(&mut self, core: &mut Core, cx: &Context<'_, A>) {
        core.counters.arrivals.challenged += 1;
        if core.challenge(cx.now) {
            self.acks_owed = self.acks_owed.max(1);
        }
    }

    /// RFC 9293 §3.10.7.3.
    fn arrival_syn_sent<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
    ) -> Fate {
        let has_ack = segment.flags.has(Flags::ACK);
        // Before the SYN has left, nothing can acknowledge it.
        let acks_syn =
            has_ack && segment.ack == self.snd_una.plus(1) && segment.ack == self.snd_nxt;
        if has_ack && !acks_syn {
            if !segment.flags.has(Flags::RST) {
                core.reset_reply(segment);
                // The peer has an older connection with these ends, which the RST takes away: the SYN is good behind it (RFC 9293
                // figure 9, line 7). Once: a peer that goes on like that gets the next one after the timeout.
                if !self.has(Marks::SYN_REPEATED) && self.snd_nxt != self.snd_una {
                    self.set(Marks::SEND_SYN);
                }
            }
            return Fate::Keep;
        }
        if segment.flags.has(Flags::RST) {
            return if acks_syn { Fate::Close(Reason::Refused) } else { Fate::Keep };
        }
        if !segment.flags.has(Flags::SYN) {
            return Fate::Keep;
        }
        self.last_heard = cx.tick;
        self.take_syn(core, segment);
        if !acks_syn {
            // Both sides open at the same time: our SYN goes again, with an acknowledgment.
            self.state = State::SynReceived;
            self.set(Marks::SEND_SYN);
            return Fate::Keep;
        }
        self.establish(core, cx, segment);
        self.acks_owed = self.acks_owed.max(1);
        self.take_data(core, cx, segment)
    }

    /// Takes what a SYN says: its number, and what is agreed on by both.
    fn take_syn(&mut self, core: &Core, segment: &Segment<'_>) {
        let profile = core.profile(self.profile);
        let options = &segment.options;
        self.rcv_nxt = segment.seq.plus(1);
        self.rcv_adv = self.rcv_nxt.plus(profile.syn_window().into());
        self.last_ack_sent = self.rcv_nxt;
        self.flight.snd_wl1 = segment.seq;
        let agreed = |marks: Marks, is: bool| if is { marks.0 } else { 0 };
        let timestamps = options.timestamps.filter(|_| profile.timestamps);
        self.ts_recent = timestamps.map_or(0, |timestamps| timestamps.value);
        let ecn = match segment.flags.has(Flags::ACK) {
            true => segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::CWR),
            false => segment.flags.has(Flags::ECE.with(Flags::CWR)),
        };
        self.marks.0 |= agreed(Marks::TIMESTAMPS, timestamps.is_some())
            | agreed(Marks::SACK, options.sack_permitted && profile.sack)
            | agreed(Marks::ECN, ecn && profile.ecn);
        // The own shift is the one that the SYN told, whatever the profile says by now.
        let own = self.rcv_shift();
        match options.window_shift.filter(|_| profile.window_scaling) {
            Some(peer) => self.set_shifts(peer, own),
            None => self.set_shifts(0, 0),
        }
        let version = if self.has(Marks::V6) {
            wirebeat_wire::ip::Version::V6
        } else {
            wirebeat_wire::ip::Version::V4
        };
        self.mss = profile.send_mss(version, options.mss);
        if self.has(Marks::TIMESTAMPS) {
            self.mss -= crate::options::TIMESTAMPS_LEN;
        }
        self.rcv_mss = self.mss;
        // It answers after all.
        self.clear(Marks::UNREACHABLE);
    }

    /// Our SYN is acknowledged: data can flow.
    pub(crate) fn establish<A: Application>(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_, A>,
        segment: &Segment<'_>,
    ) {
        // Karn: a SYN that was sent twice is not timed.
        if self.take(Marks::TIMING) && !self.has(Marks::SYN_REPEATED) {
            core.counters.recoveries.rtt_samples += 1;
            let rtt = cx.micros().wrapping_sub(self.rtt_start);
            self.rtt_sample(rtt);
        }
        self.clear(Marks::SEND_SYN);
        (self.flight.retries, self.flight.backoff, self.timer) = (0, 0, Timer::Idle);
        self.snd_una = segment.ack;
        (self.flight.recover, self.flight.lost_edge, self.flight.high_rxt) =
            (self.snd_una.minus(1), self.snd_una, self.snd_una);
        self.state = State::Established;
        self.flight.snd_wl1 = segment.seq;
        self.take_window(segment);
        self.last_sent = cx.tick;
        let profile = *core.profile(self.profile);
        self.congestion_start(&profile);
        core.counters.sessions.established += 1;
        cx.app.event(cx.session, Event::Established);
    }
}
