//! Messages one way: sent by their plan, and measured where they arrive.
//!
//! A message says when it was planned and when it was handed to the stack (`stamp.rs`). The end that receives it takes its delay when
//! its last byte is there, so over TCP the time that bytes before it took is part of it. Nothing is kept of a message but how much
//! of it is still to come: a peer that says anything else than messages ends the session, and takes no memory.

use wirebeat_meter::session::SessionTime;
use wirebeat_traffic::program::script::OneWay;
use wirebeat_traffic::values::session::STAMP;
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::reading::is_generated;
use crate::session::{End, Fate, Protocol, Side, Wait};
use crate::stack::{Action, SessionKey};
use crate::stamp::Stamp;

/// How far back a message that was received is known again, in messages.
const WINDOW: u64 = 64;

/// Where the messages of a session stand, those that it sends and those that it receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneWayState {
    /// When the first one was planned, and when the next one is; how many were sent.
    begun: Nanos,
    next: Nanos,
    sent: u64,
    incoming: Incoming,
    order: Order,
    /// When the last one arrived, and how long it was under way by the two clocks.
    last: Option<(Nanos, i128)>,
}

/// The message that comes in over a stream.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    /// What it begins with, and how many bytes of that are there.
    head: [u8; STAMP as usize],
    have: usize,
    /// The same, read; bytes after it that came; whether some were wrong.
    stamp: Option<Stamp>,
    data: u64,
    damaged: bool,
}

impl Default for Incoming {
    fn default() -> Incoming {
        Incoming { head: [0; STAMP as usize], have: 0, stamp: None, data: 0, damaged: false }
    }
}

/// What a number is beside those that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Later than all of them, with so many left out.
    New(u64),
    /// Earlier than the last, and not there yet.
    Late,
    /// There already, or too early to be known.
    Duplicate,
}

/// Which numbers came.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    /// One more than the highest.
    next: u64,
    /// Bit `k`: number `next - 1 - k` came.
    came: u64,
}

impl Order {
    fn take(&mut self, number: u64) -> Standing {
        if number >= self.next {
            let skipped = number - self.next;
            self.came = match skipped + 1 {
                shift @ ..WINDOW => self.came << shift | 1,
                _ => 1,
            };
            self.next = number + 1;
            return Standing::New(skipped);
        }
        let bit = match self.next - 1 - number {
            back @ ..WINDOW => 1_u64 << back,
            _ => return Standing::Duplicate,
        };
        if self.came & bit != 0 {
            return Standing::Duplicate;
        }
        self.came |= bit;
        Standing::Late
    }
}

impl OneWayState {
    fn new(planned: Nanos) -> OneWayState {
        OneWayState {
            begun: planned,
            next: planned,
            sent: 0,
            incoming: Incoming::default(),
            order: Order::default(),
            last: None,
        }
    }

    /// Reads something of each line of its memory.
    pub(crate) fn touch(&self) -> u64 {
        self.next.get() ^ self.order.next
    }

    /// Whether a message has begun and is not whole yet.
    pub(crate) fn is_within_message(&self) -> bool {
        self.incoming.have > 0
    }

    /// Whether all messages of the plan were sent.
    fn has_sent_all(&self, plan: &OneWay) -> bool {
        let end = plan.time.map(|time| self.begun.saturating_add(time));
        plan.count.is_some_and(|count| self.sent >= u64::from(count))
            || end.is_some_and(|end| self.next >= end)
    }

    /// A message is there, whole. `clock` is that of this end.
    fn arrived(&mut self, side: &mut Side, now: Nanos, stamp: &Stamp, clock: u32) {
        let counts = &mut side.meter.counts;
        match self.order.take(stamp.number) {
            Standing::New(skipped) => {
                counts.messages_lost = counts.messages_lost.saturating_add(skipped);
            }
            Standing::Late => {
                counts.messages_lost = counts.messages_lost.saturating_sub(1);
                counts.messages_out_of_order += 1;
            }
            Standing::Duplicate => return counts.messages_duplicate += 1,
        }
        counts.messages_received += 1;
        match stamp.clock == clock {
            true => side.meter.took(SessionTime::Delay, stamp.planned, stamp.sent, now),
            false => counts.messages_of_other_clocks += 1,
        }
        // what two clocks are apart is the same in both, and not in their difference
        let transit = i128::from(now.get()) - i128::from(stamp.sent.get());
        let since = self.last.map(|(last, before)| {
            let jitter = (transit - before).abs().try_into().unwrap_or(i64::MAX);
            (now.saturating_sub(last), jitter)
        });
        self.last = Some((now, transit));
        side.meter.arrived(u64::from(stamp.length), since);
    }
}

impl Conversations {
    /// Sends what is due of the messages of `plan`. `true`: all were sent.
    pub(crate) fn send_by_plan(&mut self, now: Nanos, key: SessionKey, plan: OneWay) -> bool {
        let Some((session, side)) = self.both(key) else { return false };
        if !matches!(session.protocol, Protocol::OneWay(_)) {
            let planned = session.planned_request(now);
            session.protocol = Protocol::OneWay(Box::new(OneWayState::new(planned)));
        }
        let Some(message) = plan.sends else {
            if !side.script.datagrams {
                return true;
            }
            // nobody says over UDP that there are no more
            session.wait = Wait::Protocol;
            self.keep_patience(now, key);
            return false;
        };
        let before = session.out.end();
        let done = self.send_due(now, key, &plan, message);
        if let Some((session, _)) = self.both(key)
            && session.out.end() > before
        {
            let connection = session.connection;
            self.actions.extend(connection.map(Action::Send));
        }
        done
    }

    /// Adds messages to what is sent, until one is not due, or there is no room.
    fn send_due(&mut self, now: Nanos, key: SessionKey, plan: &OneWay, message: u16) -> bool {
        let stop = self.group(key).map_or(now, |group| group.stop);
        let clock = self.clock;
        loop {
            let Some((session, _)) = self.both(key) else { return false };
            let Protocol::OneWay(state) = &mut session.protocol else { return true };
            let is_over = plan.is_endless() && (stop <= now || session.peer_closed);
            if is_over || state.has_sent_all(plan) {
                return true;
            }
            let next = state.next;
            if next > now {
                session.wait = Wait::Time;
                let at = if plan.is_endless() { next.min(stop) } else { next };
                self.set_alarm(key, at);
                return false;
            }
            if !session.out.has_room() {
                session.wait = Wait::Room;
                self.keep_patience(now, key);
                return false;
            }
            if !self.has_slot(now, key) {
                return false;
            }
            let Some((session, side)) = self.both(key) else { return false };
            let (length, gap) = (session.draw(), session.draw());
            let gap = side.script.times.get(usize::from(plan.gap)).map(|law| law.get(gap));
            let Protocol::OneWay(state) = &mut session.protocol else { return true };
            let stamp = Stamp { length: 0, clock, number: state.sent, planned: next, sent: now };
            state.sent += 1;
            state.next = next.saturating_add(gap.unwrap_or_default());
            let counts = &mut side.meter.counts;
            counts.offered_bytes += session.out.add_stamped(&side.script, message, length, stamp);
            counts.messages_sent += 1;
        }
    }

    /// Bytes of a stream of messages.
    pub(crate) fn received_one_way(&mut self, now: Nanos, key: SessionKey, mut bytes: &[u8]) {
        let clock = self.clock;
        let Some((session, side)) = self.both(key) else { return };
        let Protocol::OneWay(state) = &mut session.protocol else { return };
        while !bytes.is_empty() {
            let incoming = &mut state.incoming;
            let stamp = match incoming.stamp {
                Some(stamp) => stamp,
                None => {
                    let missing = incoming.head.len().saturating_sub(incoming.have);
                    let (head, rest) = bytes.split_at(missing.min(bytes.len()));
                    let to = incoming.have..incoming.have + head.len();
                    if let Some(place) = incoming.head.get_mut(to) {
                        place.copy_from_slice(head);
                    }
                    incoming.have += head.len();
                    bytes = rest;
                    if incoming.have < incoming.head.len() {
                        return;
                    }
                    let Some(stamp) = Stamp::decode(&incoming.head) else {
                        return self.give_up(now, key, Fate::Malformed);
                    };
                    incoming.stamp = Some(stamp);
                    stamp
                }
            };
            let left = u64::from(stamp.length) - STAMP - incoming.data;
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            let (data, rest) = bytes.split_at(taken);
            if side.verifies && !data.is_empty() {
                incoming.damaged |= !is_generated(side, STAMP + incoming.data, data);
            }
            incoming.data += data.len() as u64;
            bytes = rest;
            if incoming.data + STAMP == u64::from(stamp.length) {
                side.meter.counts.damaged += u64::from(incoming.damaged);
                *incoming = Incoming::default();
                state.arrived(side, now, &stamp, clock);
            }
        }
    }

    /// A datagram.
    pub(crate) fn one_way_message(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        let clock = self.clock;
        let Some((session, side)) = self.both(key) else { return };
        session.active = now;
        let Protocol::OneWay(state) = &mut session.protocol else { return };
        let stamp = bytes.first_chunk().and_then(Stamp::decode);
        let whole = stamp.filter(|stamp| stamp.length as usize == bytes.len());
        let Some(stamp) = whole.filter(|_| side.end == End::Server) else {
            return side.meter.counts.malformed_messages += 1;
        };
        if side.verifies && !is_generated(side, STAMP, bytes.get(STAMP as usize..).unwrap_or(&[])) {
            side.meter.counts.damaged += 1;
        }
        state.arrived(side, now, &stamp, clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_what_is_lost_late_and_there_already() {
        let mut order = Order::default();
        let standings = [
            (0, Standing::New(0)),
            (1, Standing::New(0)),
            (4, Standing::New(2)),
            (3, Standing::Late),
            (3, Standing::Duplicate),
            (4, Standing::Duplicate),
            (2, Standing::Late),
            (67, Standing::New(62)),
            (4, Standing::Duplicate),
            (3, Standing::Duplicate),
            (200, Standing::New(132)),
            (140, Standing::Late),
            (1 << 48, Standing::New((1 << 48) - 201)),
        ];
        for (number, standing) in standings {
            assert_eq!(order.take(number), standing, "{number}");
        }
    }
}
