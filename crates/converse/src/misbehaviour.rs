//! Clients that misbehave: slowly, silently, or with segments that a sound TCP does not send.
//!
//! What a client does has times of its own, like messages one way: nothing that the peer says hurries it, and it ends when its time is
//! over or when the peer ends the session. That end is no failure: when it came is what the program measures. Segments are forged by the
//! stack ([`Action::Forge`]), which knows where the connection stands; here is only which ones.

use wirebeat_traffic::program::misbehaviour::{Forgery, Misbehaviour, Way};
use wirebeat_traffic::program::script::Op;
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::session::{Fate, Protocol, Session, Side, Wait};
use crate::stack::{Action, Forged, Place, SessionKey};

/// The most acts of a session before others have their turn.
const ACTS_MAX: u32 = 16;
/// How long answers to the last forged segment are waited for.
const ANSWERED: Nanos = Nanos::from_millis(200);
/// How many bytes that nobody reads are taken at a time.
const ROOM: usize = 1 << 20;
/// RSTs go so far from the number that the peer expects at least, each beyond the one before, and begin anew.
const STEPS: u64 = 64;

/// Where a client stands that misbehaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MisbehaviourState {
    /// When it began, and when its next act is due.
    begun: Nanos,
    next: Nanos,
    /// Its acts so far.
    acts: u64,
    /// How many bytes it may read; `None`: all that come.
    room: Option<usize>,
}

impl MisbehaviourState {
    /// How many bytes are taken now.
    pub(crate) fn room(&self) -> usize {
        self.room.unwrap_or(ROOM)
    }
}

/// How it goes on.
pub(crate) enum Misbehaved {
    /// It waits for its next act.
    Waits,
    /// It is over, and what follows it is done.
    Over,
    /// The peer has ended the session.
    Ended,
}

impl Side {
    /// How its clients misbehave.
    fn misbehaviour(&self) -> Option<Misbehaviour> {
        self.script.misbehaviour
    }

    /// Whether its clients do not open their sessions in full.
    pub(crate) fn is_half_open(&self) -> bool {
        self.misbehaviour().is_some_and(|of| of.way == Way::HalfOpen)
    }
}

impl Conversations {
    /// Does what is due of a client that misbehaves.
    pub(crate) fn misbehave(&mut self, now: Nanos, key: SessionKey) -> Misbehaved {
        for _ in 0..ACTS_MAX {
            let stop = self.group(key).map_or(now, |group| group.stop);
            let Some((session, side)) = self.both(key) else { return Misbehaved::Waits };
            let Some(plan) = side.misbehaviour() else { return Misbehaved::Over };
            if !matches!(session.protocol, Protocol::Misbehaviour(_)) {
                self.begin_misbehaviour(now, key, plan);
                continue;
            }
            let Protocol::Misbehaviour(state) = &mut session.protocol else { continue };
            if session.peer_closed {
                note_end_by_peer(session, side, now);
                session.protocol = Protocol::None;
                return Misbehaved::Ended;
            }
            let end = plan.time.map_or(Nanos::MAX, |time| state.begun.saturating_add(time));
            let end = end.min(stop);
            let did_all = plan.acts.is_some_and(|acts| state.acts >= acts.into());
            if end <= now || did_all && state.next <= now {
                match plan.way {
                    Way::HalfOpen => {
                        session.protocol = Protocol::None;
                        return self.leave_half_open(key);
                    }
                    // what lies there is never read
                    Way::SlowRead { .. } | Way::ZeroWindow => state.room = Some(0),
                    _ => session.protocol = Protocol::None,
                }
                // what follows is planned for now
                session.pace = Some(now);
                return Misbehaved::Over;
            }
            if state.next > now {
                let at = state.next.min(end);
                session.wait = Wait::Time;
                self.set_alarm(key, at);
                return Misbehaved::Waits;
            }
            if !self.has_slot(now, key) {
                return Misbehaved::Waits;
            }
            self.act(now, key, plan);
        }
        if let Some(session) = self.session(key) {
            session.wait = Wait::Time;
        }
        self.set_alarm(key, now);
        Misbehaved::Waits
    }

    fn begin_misbehaviour(&mut self, now: Nanos, key: SessionKey, plan: Misbehaviour) {
        let Some((session, side)) = self.both(key) else { return };
        let (asks, room) = match plan.way {
            Way::SlowRead { .. } | Way::ZeroWindow => (true, Some(0)),
            _ => (false, None),
        };
        // who does nothing by itself waits for its end
        let next = match plan.way {
            Way::Idle | Way::HalfOpen | Way::ZeroWindow => Nanos::MAX,
            _ => now,
        };
        let state = MisbehaviourState { begun: now, next, acts: 0, room };
        session.protocol = Protocol::Misbehaviour(Box::new(state));
        if asks {
            let n = session.draw();
            side.meter.counts.offered_bytes += session.out.add(&side.script, 0, n);
            let connection = session.connection;
            self.actions.extend(connection.map(Action::Send));
        }
    }

    /// The next act.
    fn act(&mut self, now: Nanos, key: SessionKey, plan: Misbehaviour) {
        let Some((session, side)) = self.both(key) else { return };
        let n = session.draw();
        let gap = plan.gap.and_then(|gap| side.script.times.get(usize::from(gap)));
        let gap = gap.map_or(Nanos::MAX, |law| law.get(n));
        let Some(connection) = session.connection else { return };
        let Protocol::Misbehaviour(state) = &mut session.protocol else { return };
        let act = state.acts;
        state.acts += 1;
        state.next = state.next.saturating_add(gap);
        if plan.acts.is_some_and(|acts| state.acts >= acts.into()) {
            state.next = state.next.max(now.saturating_add(ANSWERED));
        }
        match plan.way {
            Way::Idle | Way::HalfOpen | Way::ZeroWindow => {}
            Way::SlowRead { bytes } => {
                let room = state.room.unwrap_or(0).saturating_add(bytes as usize);
                state.room = Some(room.min(ROOM));
                side.meter.counts.misbehaved += 1;
                self.actions.push_back(Action::Receive(connection));
            }
            Way::SlowWrite { first, again } => {
                let Some(message) = piece(act, first, again) else {
                    state.next = Nanos::MAX;
                    return;
                };
                // a peer that takes nothing is waited for
                if session.out.has_room() {
                    let added = session.out.add(&side.script, message, n);
                    side.meter.counts.offered_bytes += added;
                    side.meter.counts.misbehaved += 1;
                    self.actions.push_back(Action::Send(connection));
                }
            }
            Way::Forged { forgery, bytes } => {
                let forged = forged(forgery, (act, bytes), plan.guess(n));
                self.actions.push_back(Action::Forge(connection, forged));
            }
        }
    }

    /// A session that was never open ends: its beginning is taken back.
    fn leave_half_open(&mut self, key: SessionKey) -> Misbehaved {
        let Some(session) = self.session(key) else { return Misbehaved::Waits };
        session.fate = Some(Fate::Done);
        session.wait = Wait::End;
        let connection = session.connection;
        self.actions.extend(connection.map(Action::Abort));
        Misbehaved::Waits
    }

    /// Bytes for a client that misbehaves: nobody looks at them.
    pub(crate) fn received_misbehaving(&mut self, key: SessionKey, bytes: usize) {
        let Some(session) = self.session(key) else { return };
        if let Protocol::Misbehaviour(state) = &mut session.protocol {
            state.room = state.room.map(|room| room.saturating_sub(bytes));
        }
    }
}

/// Whether the session is at an op that has times of its own: messages one way, or a client that misbehaves.
pub(crate) fn acts_by_time(session: &Session, side: &Side) -> bool {
    let op = side.script.ops.get(usize::from(session.pc));
    matches!(op, Some(Op::Messages(_) | Op::Misbehave))
}

/// The peer has ended the session, while its client misbehaved if it did.
pub(crate) fn note_end_by_peer(session: &Session, side: &mut Side, now: Nanos) {
    if let Protocol::Misbehaviour(state) = &session.protocol {
        side.meter.counts.ended_by_peer += 1;
        // half-open sessions have no timer
        side.meter.timer(0, state.begun, now);
    }
}

/// Which message act number `act` sends; `None`: there are no more.
fn piece(act: u64, first: u16, again: u16) -> Option<u16> {
    match act.checked_sub(first.into()) {
        None => Some(act as u16),
        Some(later) => Some(first + later.checked_rem(again.into())? as u16),
    }
}

/// The segment that act number `act` forges.
fn forged(forgery: Forgery, (act, bytes): (u64, u16), guess: (u32, u32)) -> Forged {
    let data = Forged { seq: Place::Next(0), ack: 0, bytes, reset: false, wrong_checksum: false };
    let (length, step) = (i32::from(bytes), (act % STEPS) as i32);
    match forgery {
        // the last data, and half of it with half of what was before: pieces that overlap each other
        Forgery::Overlapping if act.is_multiple_of(2) => {
            Forged { seq: Place::Acknowledged(-length), ..data }
        }
        Forgery::Overlapping => {
            Forged { seq: Place::Acknowledged(-length - length / 2 - 1), ..data }
        }
        Forgery::OutOfWindow => Forged { seq: Place::BehindWindow(1 + step * length), ..data },
        Forgery::BadChecksum => Forged { wrong_checksum: true, ..data },
        Forgery::AckUnsent => Forged { ack: 1 + step * 1000, bytes: 0, ..data },
        Forgery::RstStorm => {
            let seq = match act % 4 {
                // in the window
                0 => Place::Next(1 + step),
                1 => Place::Next(1 + step * 100),
                // outside of it: behind it, and before what the peer has
                2 => Place::BehindWindow(1 + step),
                _ => Place::Acknowledged(-1 - step),
            };
            Forged { seq, bytes: 0, reset: true, ..data }
        }
        Forgery::SequenceGuess => {
            let reset = act.is_multiple_of(2);
            let bytes = if reset { 0 } else { bytes };
            Forged { seq: Place::Number(guess.0), ack: guess.1 as i32, bytes, reset, ..data }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pieces_go_once_and_the_others_over_and_over() {
        let sent: Vec<_> = (0..7).map(|act| piece(act, 3, 2)).collect();
        assert_eq!(sent, [0, 1, 2, 3, 4, 3, 4].map(Some));
        let sent: Vec<_> = (0..4).map(|act| piece(act, 2, 0)).collect();
        assert_eq!(sent, [Some(0), Some(1), None, None]);
    }

    #[test]
    fn no_rst_of_a_storm_has_a_number_that_the_peer_may_expect() {
        for act in 0..1000 {
            let Forged { seq, reset, bytes, .. } = forged(Forgery::RstStorm, (act, 100), (0, 0));
            assert!(reset && bytes == 0);
            match seq {
                // the peer expects something from what it acknowledged to what is sent next
                Place::Next(by) | Place::BehindWindow(by) => assert!(by > 0),
                Place::Acknowledged(by) => assert!(by < 0),
                Place::Number(_) => panic!("{seq:?}"),
            }
        }
    }
}
