//! What has to hold in the simulation after each event.

use std::hash::{DefaultHasher, Hasher};

use wirebeat_units::Nanos;

use super::cutter::Packet;
use super::program::{FIRST_PORT, Programs};
use crate::counters::Counters;
use crate::flight::{ActiveTcb, Flight};
use crate::profile::Congestion;
use crate::segment::{Checksum, Flags, Segment};
use crate::seq::Seq;
use crate::slab::NONE;
use crate::stack::Stack;
use crate::tcb::{Marks, State, Tcb, Timer};
use crate::tick::{Tick, micros};

/// All sessions are looked at each time so often; in between those that changed.
const ALL: u64 = 16;

/// What was seen of the sessions of one side.
#[derive(Debug, Default)]
pub struct Watch {
    /// By handle: the user, the right edges of both windows, the announced one by its last change.
    seen: Vec<Option<(u32, Option<Seq>, Seq)>>,
    /// By user: the highest number that was sent, and when something was sent again last.
    sent: Vec<Option<(Seq, Option<Nanos>)>>,
    /// By handle: what it was when it was looked at last.
    last: Vec<Option<(Tcb, Flight)>>,
    /// The users of those that were looked at.
    pub changed: Vec<u32>,
    looks: u64,
    now: Nanos,
    /// Of all packets and their times, in their order.
    pub digest: DefaultHasher,
    /// Segments, and packets that held several.
    segments: u64,
    pub large: u64,
}

macro_rules! holds {
    ($what:expr, $condition:expr, $tcb:expr) => {
        if !$condition {
            return Err(format!("{}: {} in {:?}", $what, stringify!($condition), $tcb));
        }
    };
}

impl Watch {
    /// Sees a packet that `side` sends at `now`.
    pub fn packet(&mut self, side: usize, packet: &[u8], now: Nanos) {
        self.segments += 1;
        self.digest.write_u64(now.get());
        self.digest.write(packet);
        let Ok(segment) = Segment::read(packet, Checksum::Verify) else { return };
        let port = if side == 0 { segment.tuple.remote_port } else { segment.tuple.local_port };
        if segment.seq_len() > 0 && !segment.flags.has(Flags::RST) {
            let user = usize::from(port.wrapping_sub(FIRST_PORT));
            let (highest, again) = at(&mut self.sent, user).get_or_insert((segment.seq, None));
            if segment.seq.is_before(*highest) {
                *again = Some(now);
            }
            *highest = highest.max(segment.end());
        }
    }

    /// Checks a packet with several segments. Others are as they were before there were such.
    pub fn large(
        &mut self,
        side: usize,
        packet: &Packet,
        stack: &Stack,
        programs: &Programs,
    ) -> Result<(), String> {
        let Some((segment_len, _)) = packet.large else { return Ok(()) };
        self.large += 1;
        let segment =
            Segment::read(&packet.bytes, Checksum::Skip).map_err(|it| format!("{it:?}"))?;
        let port = if side == 0 { segment.tuple.remote_port } else { segment.tuple.local_port };
        let record = programs.records.get(usize::from(port.wrapping_sub(FIRST_PORT)));
        let tcb = record.and_then(|record| stack.sessions.get(record.id?.0)).ok_or("nobody's")?;
        let profile = stack.core.profile(tcb.profile);
        let segments = segment.payload.len().div_ceil(segment_len.into());
        let is_whole = segment.payload.len() % usize::from(segment_len) == 0;
        holds!("large", segments <= profile.gso_segments.into(), tcb);
        holds!("large", segment_len == tcb.mss, tcb);
        holds!("Nagle", is_whole || !profile.nagle || tcb.has(Marks::CLOSED), tcb);
        Ok(())
    }

    /// Checks all of `stack`.
    pub fn check(&mut self, stack: &Stack, programs: &Programs, now: Nanos) -> Result<(), String> {
        self.now = now;
        let counters = stack.counters();
        if !counters.segments_balance() || !counters.sessions_balance() || !counters.icmp_balances()
        {
            return Err(format!("the counters do not balance: {counters:?}"));
        }
        if counters.segments.sent != self.segments {
            return Err(format!(
                "{} segments counted, {} seen",
                counters.segments.sent, self.segments
            ));
        }
        let mut states = [0_u32; crate::tcb::STATES];
        for (_, tcb) in stack.sessions.iter() {
            states[tcb.state as usize] += 1;
        }
        states[State::SynReceived as usize] += stack.half_open.len() as u32;
        states[State::TimeWait as usize] += stack.time_wait.len() as u32;
        if states != counters.in_state {
            return Err(format!("in states {states:?}, counted {:?}", counters.in_state));
        }
        if !stack.core.ready.is_consistent() {
            return Err("who has a turn is not there once".to_owned());
        }
        self.looks += 1;
        self.changed.clear();
        for (at, seen) in (0..).zip(&mut self.seen) {
            seen.take_if(|(user, ..)| stack.sessions.get(at).is_none_or(|tcb| tcb.user != *user));
        }
        for (node, all) in stack.sessions.snapshots() {
            let last = at(&mut self.last, node as usize);
            if last.as_ref() == Some(&all) && !self.looks.is_multiple_of(ALL) {
                continue;
            }
            let (mut tcb, mut flight) = all.clone();
            *last = Some(all);
            let tcb = &ActiveTcb { tcb: &mut tcb, flight: &mut flight };
            self.changed.push(tcb.user);
            self.session(stack, node, tcb)?;
            let record = &programs.records[tcb.user as usize];
            holds!("acked", tcb.acked == record.acked || tcb.state == State::SynSent, tcb);
            holds!("offered", tcb.offered() == record.offered, tcb);
            holds!("received", tcb.received == record.in_order, tcb);
        }
        Ok(())
    }

    fn session(&mut self, stack: &Stack, node: u32, tcb: &ActiveTcb<'_>) -> Result<(), String> {
        let core = &stack.core;
        let is_after = |a: Seq, b: Seq| a.is_after(b);
        holds!("sent", !is_after(tcb.snd_una, tcb.snd_nxt), tcb);
        holds!("received", !is_after(tcb.rcv_nxt, tcb.rcv_adv), tcb);
        if matches!(tcb.state, State::SynSent | State::SynReceived) {
            holds!("opening", tcb.outstanding() <= 1, tcb);
        } else {
            let edge = tcb.snd_una.plus(tcb.snd_wnd);
            let (_, seen_edge, announced) =
                at(&mut self.seen, node as usize).get_or_insert((tcb.user, None, tcb.rcv_adv));
            let edge = seen_edge.map_or(edge, |seen| seen.max(edge));
            *seen_edge = Some(edge);
            holds!("the peer's window", !is_after(tcb.snd_nxt, edge), (tcb, edge));
            holds!("the window went back", !is_after(*announced, tcb.rcv_adv), (tcb, announced));
            let step = tcb.rcv_adv.since(*announced);
            let profile = core.profile(tcb.profile);
            let least = (profile.buffer(tcb.rcv_shift()) / 2)
                .min(tcb.rcv_mss.into())
                .min(1 + tcb.rcv_adv.since(tcb.rcv_nxt));
            holds!(
                "a silly window",
                step == 0 || step >= least || step <= 1 << tcb.rcv_shift(),
                (tcb, announced)
            );
            *announced = tcb.rcv_adv;
            holds!("window", tcb.cwnd >= u32::from(tcb.mss) || tcb.has(Marks::RECOVERY), tcb);
            holds!("data", tcb.acked <= tcb.offered(), tcb);
            holds!(
                "lost",
                !is_after(tcb.flight.lost_edge, tcb.snd_nxt)
                    && !is_after(tcb.snd_una, tcb.flight.lost_edge),
                tcb
            );
            holds!("sent again", !is_after(tcb.flight.high_rxt, tcb.snd_nxt), tcb);
            holds!("pipe", tcb.pipe(core) <= tcb.outstanding(), tcb);
            // What was too large is sent again at once, as far as there are buffers.
            let is_queued = core.ready.has(node);
            let resends = tcb.flight.high_rxt.is_after(tcb.snd_una) || tcb.snd_una == tcb.snd_nxt;
            holds!("too large", !tcb.resizes() || is_queued || resends, tcb);
            holds!("too large", tcb.mss <= tcb.rcv_mss, tcb);
            let limited = profile.congestion != Congestion::None;
            holds!("congestion", limited || tcb.cwnd > 1 << 20, tcb);
        }
        if let Some(ranges) = core.ranges.get(tcb.flight.scoreboard) {
            let (first, last) = (ranges.as_slice().first().unwrap(), ranges.last().unwrap());
            holds!(
                "scoreboard",
                is_after(first.start, tcb.snd_una) && !is_after(last.end, tcb.snd_nxt),
                (tcb, ranges)
            );
        }
        holds!("scoreboard", tcb.flight.scoreboard == NONE || tcb.has(Marks::SACK), tcb);
        if let Some(first) =
            core.ranges.get(tcb.flight.reassembly).and_then(|ranges| ranges.as_slice().first())
        {
            holds!("reassembly", is_after(first.start, tcb.rcv_nxt), (tcb, first));
        }
        // Timers are set if and only if they are needed, and the wheel knows of them. Who waits for a buffer is settled in its
        // turn.
        let is_queued = core.ready.has(node);
        let waits = tcb.has(Marks::ARMED) && core.first_waits.holds(node, |at| at == tcb.wheel_at);
        let (needed, armed) = (tcb.timer_needed(core), core.wheel.armed(node));
        let armed = armed.or(waits.then_some(tcb.wheel_at));
        holds!("timer", is_queued || tcb.timer == needed, (tcb, needed));
        if let Some(deadline) = tcb.deadline().filter(|_| !is_queued) {
            holds!(
                "wheel",
                armed.is_some_and(|armed| armed.is_due(deadline)),
                (tcb, deadline, armed)
            );
        }
        let delayed = tcb.has(Marks::ACK_DELAYED) && !is_queued;
        let is_meant = |at: Tick| at.0 as u16 == tcb.ack_timer_at;
        holds!("delayed", !delayed || core.acks.holds(node, is_meant), tcb);
        // A queue and the wheel may have the same tick for a session; the one that calls second finds nothing to do.
        let is_called_twice =
            core.wheel.armed(node).is_some_and(|at| at.is_due(Tick::at(self.now)));
        holds!(
            "armed",
            tcb.has(Marks::ARMED) == armed.is_some() && armed.is_none_or(|it| it == tcb.wheel_at)
                || is_called_twice,
            (tcb, armed)
        );
        // What is missing below data out of order is waited for no longer than a round trip (RFC 8985 §6.2).
        let rack = core.profile(tcb.profile).rack && tcb.srtt > 0 && tcb.timer == Timer::Retransmit;
        let missing =
            tcb.flight.scoreboard != NONE && !tcb.has(Marks(Marks::RECOVERY.0 | Marks::LOSS.0));
        let round_trip = Tick::after(self.now, Nanos::from_micros(tcb.smoothed_rtt().into()));
        holds!(
            "order",
            !(rack && missing)
                || is_queued
                || tcb.has(Marks::REORDER)
                || tcb.timer_at.is_due(round_trip),
            tcb
        );
        holds!("order", !tcb.has(Marks::REORDER) || tcb.timer_at.is_due(round_trip), tcb);
        // Karn: what is timed was not sent before the last time that something was sent again.
        let again = self.sent.get(tcb.user as usize).and_then(|sent| sent.as_ref()?.1);
        // Half a circle of microseconds is 35 minutes.
        let again = again.filter(|again| self.now.saturating_sub(*again) < Nanos::from_secs(2000));
        let after = |again: Nanos| (tcb.rtt_start.wrapping_sub(micros(again)) as i32) >= 0;
        holds!("Karn", !tcb.has(Marks::TIMING) || again.is_none_or(after), (tcb, again));
        let doubles = matches!(tcb.timer, Timer::Retransmit | Timer::Persist);
        holds!("backoff", !doubles || tcb.flight.backoff >= tcb.flight.retries, tcb);
        let owes = tcb.has(Marks::SEND_SYN) || tcb.acks_owed > 0 || tcb.has(Marks::PROBE);
        holds!("queue", !owes || is_queued, tcb);
        // Who has nothing under way has given back what was for that.
        let rests = is_queued || !tcb.flight.is_idle(tcb.tcb);
        holds!("rests", rests || stack.sessions.rests(node) || stack.sessions.keeps_flights(), tcb);
        Ok(())
    }
}

/// What both sides know of a session agrees: acked ≤ delivered ≤ offered, and nothing was sent behind the window that the other side
/// announced, which never moves back.
pub fn pair(a: (&Programs, &Stack), b: (&Programs, &Stack), changed: &[u32]) -> Result<(), String> {
    for ((from, sends), (to, receives)) in [(a, b), (b, a)] {
        for user in changed {
            let at = *user as usize;
            let (Some(sender), Some(receiver)) = (from.records.get(at), to.records.get(at)) else {
                continue;
            };
            if sender.acked > receiver.in_order || receiver.seen_count > sender.offered {
                return Err(format!("session {user} from {}: {sender:?} {receiver:?}", from.side));
            }
            let tcb = sender.id.and_then(|id| sends.sessions.snapshot(id.0));
            let peer = receiver.id.and_then(|id| receives.sessions.get(id.0));
            let (Some((tcb, flight)), Some(peer)) = (tcb, peer) else { continue };
            let opening = matches!(tcb.state, State::SynSent | State::SynReceived);
            if !opening && peer.state != State::SynSent {
                holds!(
                    "beyond the window",
                    !tcb.snd_nxt.is_after(peer.rcv_adv),
                    (at, tcb, flight, peer)
                );
            }
        }
    }
    Ok(())
}

/// The place `at` of a list that grows as needed.
fn at<T>(list: &mut Vec<Option<T>>, at: usize) -> &mut Option<T> {
    if list.len() <= at {
        list.resize_with(at + 1, || None);
    }
    &mut list[at]
}

/// Nothing is left.
pub fn is_empty(stack: &Stack) -> Result<(), String> {
    let left = (
        stack.sessions.len(),
        stack.sessions.active_len(),
        stack.half_open.len(),
        stack.time_wait.len(),
        stack.core.ranges.len(),
    );
    let tables = stack.table_sizes();
    if left != (0, 0, 0, 0, 0) || tables != (0, 0) || stack.has_output() {
        let open: Vec<_> = stack.sessions.iter().collect();
        return Err(format!("left: {left:?}, index and addresses {tables:?}: {open:?}"));
    }
    Ok(())
}

/// Adds the counters that [`saw_everything`] looks at.
pub fn add(sum: &mut Counters, one: &Counters) {
    let (s, o) = (&mut sum.segments, &one.segments);
    s.sent += o.sent;
    s.retransmitted_fast += o.retransmitted_fast;
    s.retransmitted_timeout += o.retransmitted_timeout;
    s.retransmitted_syn += o.retransmitted_syn;
    s.retransmitted_tail += o.retransmitted_tail;
    s.retransmitted_too_big += o.retransmitted_too_big;
    s.rst += o.rst;
    s.fin += o.fin;
    s.probe += o.probe;
    let (s, o) = (&mut sum.arrivals, &one.arrivals);
    s.bad_checksum += o.bad_checksum;
    s.paws += o.paws;
    s.challenged += o.challenged;
    s.bad_ack += o.bad_ack;
    s.out_of_order_bytes += o.out_of_order_bytes;
    s.dropped_bytes += o.dropped_bytes;
    s.congestion_marks += o.congestion_marks;
    let (s, o) = (&mut sum.recoveries, &one.recoveries);
    s.spurious += o.spurious;
    s.congestion_echoes += o.congestion_echoes;
    s.fast += o.fast;
    s.reordering += o.reordering;
    s.tail += o.tail;
    s.black_holes += o.black_holes;
    let (s, o) = (&mut sum.icmp, &one.icmp);
    s.no_session += o.no_session;
    s.not_outstanding += o.not_outstanding;
    s.too_big += o.too_big;
    s.too_big_ignored += o.too_big_ignored;
    s.hard += o.hard;
    s.soft += o.soft;
    let (s, o) = (&mut sum.sessions, &one.sessions);
    s.closed += o.closed;
    s.aborted += o.aborted;
    s.reset += o.reset;
    s.unreachable += o.unreachable;
    s.time_wait_skipped += o.time_wait_skipped;
    sum.bytes.delivered += one.bytes.delivered;
}

/// That all that the simulation is for has happened.
pub fn saw_everything(sum: &Counters) {
    println!("{sum:#?}");
    let (s, a, r, i) = (&sum.segments, &sum.arrivals, &sum.recoveries, &sum.icmp);
    for (what, count) in [
        ("fast retransmissions", s.retransmitted_fast),
        ("timeouts", s.retransmitted_timeout),
        ("tail loss probes", s.retransmitted_tail),
        ("losses that they repaired", r.tail),
        ("losses that the order told", r.reordering),
        ("SYNs again", s.retransmitted_syn),
        ("RST", s.rst),
        ("FIN", s.fin),
        ("probes", s.probe),
        ("wrong checksums", a.bad_checksum),
        ("PAWS", a.paws),
        ("challenges", a.challenged),
        ("forged acknowledgments", a.bad_ack),
        ("data out of order", a.out_of_order_bytes),
        ("data dropped", a.dropped_bytes),
        ("marks of congestion", a.congestion_marks),
        ("echoes of congestion", r.congestion_echoes),
        ("duplicates told", r.spurious),
        ("packets too large", i.too_big),
        ("sent again in smaller pieces", s.retransmitted_too_big),
        ("packets too large that were known", i.too_big_ignored),
        ("black holes", r.black_holes),
        ("errors about nobody", i.no_session),
        ("forged errors", i.not_outstanding),
        ("hard errors", i.hard),
        ("soft errors", i.soft),
        ("unreachable", sum.sessions.unreachable),
        ("resets", sum.sessions.reset),
        ("aborted", sum.sessions.aborted),
        ("without TIME-WAIT", sum.sessions.time_wait_skipped),
    ] {
        assert!(count > 0, "{what}: none");
    }
}
