//! Runs the ops of a session until it waits for something.

use wirebeat_meter::session::SessionTime;
use wirebeat_traffic::program::script::{Op, Receive};
use wirebeat_traffic::values::session::{ENDLESS, OPS_WITHOUT_WAIT};
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::events::first_byte;
use crate::greeting::GREETING;
use crate::http_message::HttpMessageState;
use crate::misbehaviour::{Misbehaved, acts_by_time};
use crate::session::{DataWait, End, Fate, Protocol, Session, Side, Wait};
use crate::stack::{Action, SessionKey};

/// What an op did.
enum Outcome {
    /// The next one follows.
    Next,
    /// This one.
    Jump(u16),
    /// It waits.
    Wait(Wait),
    /// It waits until a time.
    Until(Nanos),
}

impl Conversations {
    /// What the session waited for is there: its ops go on.
    pub(crate) fn go_on(&mut self, now: Nanos, key: SessionKey) {
        let Some((session, side)) = self.both(key) else { return };
        if session.fate.is_some() {
            return;
        }
        match session.wait {
            Wait::Nothing | Wait::Connect | Wait::Handshake | Wait::Room => {}
            Wait::Slot => session.has_slot = true,
            // the time between two requests of HTTP is over, not HTTP itself
            Wait::Time if matches!(session.protocol, Protocol::HttpClient(_)) => {}
            Wait::Time if session.protocol.asks_by_dns() => {}
            // it was held open until now, and closes
            Wait::Time if closes(session, side) => {}
            // the gap between two messages is over, not the messages themselves
            Wait::Time if acts_by_time(session, side) => {}
            Wait::Unlimited => {
                let bytes = session.out.cut();
                side.meter.counts.offered_bytes += bytes;
                session.pc += 1;
            }
            Wait::End => return,
            _ => session.pc += 1,
        }
        session.wait = Wait::Nothing;
        self.run(now, key);
    }

    /// Runs ops from where the session stands.
    pub(crate) fn run(&mut self, now: Nanos, key: SessionKey) {
        for _ in 0..OPS_WITHOUT_WAIT {
            let Some((session, side)) = self.both(key) else { return };
            let Some(op) = side.script.ops.get(usize::from(session.pc)).copied() else {
                return self.said_all(now, key);
            };
            // what is sent within a request has the slot of the request
            let sends = matches!(op, Op::Send(_) | Op::Request) && !session.in_request;
            if sends && !self.has_slot(now, key) {
                return;
            }
            // what closes the session waits until it has been open for as long as it is to be
            if matches!(op, Op::Shutdown | Op::Reset) && self.is_held(now, key) {
                return;
            }
            let stops = matches!(op, Op::Repeat { times: ENDLESS, .. })
                && self.is_client(key)
                && self.is_over(now, key);
            let Some((session, side)) = self.both(key) else { return };
            let outcome = match op {
                Op::Send(message) => match self.queue_message(now, key, message) {
                    true => Outcome::Next,
                    false => return,
                },
                Op::HttpClient(_) => {
                    if !matches!(session.protocol, Protocol::HttpClient(_)) {
                        session.protocol = Protocol::HttpClient(Box::default());
                    }
                    session.wait = Wait::Protocol;
                    self.keep_patience(now, key);
                    return self.send_requests(now, key);
                }
                Op::HttpServer(_) => {
                    session.protocol = Protocol::HttpServer(Box::default());
                    Outcome::Wait(Wait::Protocol)
                }
                Op::ReceiveHttp(_) => {
                    let message = HttpMessageState::new(side.end);
                    session.protocol = Protocol::HttpMessage(Box::new(message));
                    Outcome::Wait(Wait::Protocol)
                }
                Op::Echo => {
                    session.protocol = Protocol::Echo(Vec::new());
                    Outcome::Wait(Wait::Protocol)
                }
                Op::Dns => return self.run_dns(now, key),
                Op::Messages(plan) => match self.send_by_plan(now, key, plan) {
                    true => Outcome::Next,
                    false => return,
                },
                Op::Misbehave => match self.misbehave(now, key) {
                    Misbehaved::Waits => return,
                    Misbehaved::Over => Outcome::Next,
                    Misbehaved::Ended => Outcome::Jump(u16::MAX),
                },
                Op::Reset => {
                    session.fate = Some(Fate::Done);
                    session.wait = Wait::End;
                    let connection = session.connection;
                    self.actions.extend(connection.map(Action::Abort));
                    return;
                }
                Op::Shutdown => {
                    if !std::mem::replace(&mut session.finished, true) {
                        let connection = session.connection;
                        self.actions.extend(connection.map(Action::Finish));
                    }
                    Outcome::Next
                }
                // what goes on as long as it may ends with its group
                Op::Repeat { times: ENDLESS, .. } if stops => Outcome::Next,
                Op::UntilStop => match self.is_over(now, key) {
                    true => Outcome::Next,
                    false => Outcome::Wait(Wait::Stop),
                },
                op => simple(&op, session, side, now),
            };
            let Some(session) = self.session(key) else { return };
            match outcome {
                Outcome::Next => session.pc += 1,
                Outcome::Jump(to) => session.pc = to,
                Outcome::Wait(wait) => {
                    session.wait = wait;
                    self.keep_patience(now, key);
                    return self.take_early(now, key);
                }
                Outcome::Until(at) => {
                    session.wait = Wait::Time;
                    return self.set_alarm(key, at);
                }
            }
        }
        self.give_up(now, key, Fate::Abandoned);
    }

    /// Whether the session may send now: where the group's clients send at a rate, it waits for its slot.
    pub(crate) fn has_slot(&mut self, now: Nanos, key: SessionKey) -> bool {
        let Some((session, side)) = self.both(key) else { return false };
        if std::mem::take(&mut session.has_slot) || side.end != End::Client {
            return true;
        }
        let Some(group) = self.group_mut(key).filter(|group| group.sending.limits()) else {
            return true;
        };
        let slot = group.sending.take(now);
        if slot <= now {
            return true;
        }
        if let Some(session) = self.session(key) {
            session.wait = Wait::Slot;
        }
        self.set_alarm(key, slot);
        false
    }

    /// Whether the group of the session has come to its stop.
    pub(crate) fn is_over(&self, now: Nanos, key: SessionKey) -> bool {
        self.group(key).is_some_and(|group| group.stop <= now)
    }

    /// The peer has some time from now on.
    pub(crate) fn keep_patience(&mut self, now: Nanos, key: SessionKey) {
        let timeout = self.timeout(key);
        if let Some(session) = self.session(key) {
            session.active = now;
            self.set_alarm(key, now.saturating_add(timeout));
        }
    }

    /// Sends message number `message`. `false`: it waits, for room or for the end of a message without one.
    fn queue_message(&mut self, now: Nanos, key: SessionKey, message: u16) -> bool {
        let Some((session, side)) = self.both(key) else { return false };
        if !session.out.has_room() {
            session.wait = Wait::Room;
            self.keep_patience(now, key);
            return false;
        }
        match side.script.datagrams {
            true => Conversations::add_message(session, side, message),
            false => {
                let n = session.draw();
                let answers = side.answers || side.unmarked && side.end == End::Server;
                let counts = &mut side.meter.counts;
                counts.offered_bytes += session.out.add(&side.script, message, n);
                // what it says before it was asked is no response
                counts.responses += u64::from(answers && counts.responses < counts.requests);
            }
        }
        let (endless, peer_closed) = (session.out.is_unlimited(), session.peer_closed);
        let connection = session.connection;
        self.actions.extend(connection.map(Action::Send));
        if !endless {
            return true;
        }
        let over = peer_closed || self.is_over(now, key);
        let Some(session) = self.session(key) else { return false };
        if over {
            session.out.cut();
            return true;
        }
        session.wait = Wait::Unlimited;
        self.keep_patience(now, key);
        false
    }

    /// The stack has taken some of what a session sends.
    pub(crate) fn room_again(&mut self, now: Nanos, key: SessionKey) {
        let Some(session) = self.session(key) else { return };
        match session.wait {
            Wait::Room if session.out.has_room() => self.go_on(now, key),
            Wait::Protocol if session.out.has_room() => match &session.protocol {
                Protocol::HttpClient(_) => self.send_requests(now, key),
                Protocol::HttpServer(_) => self.send_responses(now, key),
                _ => {}
            },
            _ => {}
        }
    }

    /// The ops are at their end: the session is held as long as it is to be, and closed.
    fn said_all(&mut self, now: Nanos, key: SessionKey) {
        let Some((session, side)) = self.both(key) else { return };
        let is_client = side.end == End::Client;
        let ops = side.script.ops.len() as u16;
        let is_first = session.pc == ops;
        let resets = is_client && self.group(key).is_some_and(|group| group.plan.tcp.reset);
        if is_first && self.is_held(now, key) {
            return;
        }
        let Some(session) = self.session(key) else { return };
        if is_client && session.pc < ops.saturating_add(2) && !session.peer_closed {
            // the place behind the last op but one says that it has had its slot
            session.pc = ops.saturating_add(1);
            let slot = self.group_mut(key).map_or(now, |group| group.closing.take(now));
            let Some(session) = self.session(key) else { return };
            if slot > now {
                session.wait = Wait::Time;
                return self.set_alarm(key, slot);
            }
        }
        let Some(session) = self.session(key) else { return };
        session.wait = Wait::End;
        let connection = session.connection;
        if resets {
            session.fate = Some(Fate::Done);
            self.actions.extend(connection.map(Action::Abort));
            return;
        }
        if !std::mem::replace(&mut session.finished, true) {
            self.actions.extend(connection.map(Action::Finish));
        }
        self.actions.extend(connection.map(Action::Receive));
        self.keep_patience(now, key);
    }

    /// Whether the client of a session is to hold it open for longer, before it closes or resets it: then it waits for that.
    fn is_held(&mut self, now: Nanos, key: SessionKey) -> bool {
        let Some((session, side)) = self.both(key) else { return false };
        let (started, number, end) = (session.started, session.number, side.end);
        let group = self.group(key).filter(|_| end == End::Client);
        let Some(hold) = group.and_then(|group| group.plan.hold.as_ref()) else { return false };
        let until = started.saturating_add(hold.get(number));
        if until <= now {
            return false;
        }
        if let Some(session) = self.session(key) {
            session.wait = Wait::Time;
        }
        self.set_alarm(key, until);
        true
    }

    /// Data that is sent back.
    pub(crate) fn received_echo(&mut self, key: SessionKey, bytes: &[u8]) {
        let mut spare = self.spare.pop();
        let Some((session, side)) = self.both(key) else { return };
        let Protocol::Echo(kept) = &mut session.protocol else { return };
        if kept.capacity() == 0 {
            *kept = spare.take().unwrap_or_default();
        }
        kept.extend_from_slice(bytes);
        session.out.add_echo(bytes.len() as u64);
        side.meter.counts.offered_bytes += bytes.len() as u64;
        let connection = session.connection;
        self.spare.extend(spare);
        self.actions.extend(connection.map(Action::Send));
    }

    /// The peer closed its side within a protocol.
    pub(crate) fn peer_closed_protocol(&mut self, now: Nanos, key: SessionKey) {
        let Some(session) = self.session(key) else { return };
        match &session.protocol {
            Protocol::HttpClient(_) => self.response_ended_by_close(now, key),
            Protocol::HttpServer(_) => self.request_ended_by_close(now, key),
            Protocol::HttpMessage(_) => self.http_message_ended_by_close(now, key),
            Protocol::Dns(_) if session.protocol.asks_by_dns() => {
                self.give_up(now, key, Fate::ClosedEarly);
            }
            _ => self.go_on(now, key),
        }
    }
}

/// Whether the op where a session stands closes it, or its side of it.
fn closes(session: &Session, side: &Side) -> bool {
    let op = side.script.ops.get(usize::from(session.pc));
    matches!(op, Some(Op::Shutdown | Op::Reset))
}

/// An op that needs the session and its side alone.
fn simple(op: &Op, session: &mut Session, side: &mut Side, now: Nanos) -> Outcome {
    match op {
        Op::Receive(index) => {
            let Some(receive) = side.script.lengths.get(usize::from(*index)) else {
                return Outcome::Next;
            };
            if let Receive::Message(_) = receive {
                return Outcome::Wait(Wait::Message(*index));
            }
            let mut wait = DataWait { left: 0, got: 0, prefix: [0; 8], damaged: false };
            wait.left = match receive {
                Receive::Bytes(bytes) => *bytes,
                Receive::Known(bytes) => bytes.len() as u64,
                Receive::Prefixed | Receive::Message(_) => u64::MAX,
                // what was sent last
                Receive::Back(_) => {
                    let greeting = session.greeting.as_ref().map_or(0, |_| GREETING as u64);
                    let said = session.out.end().saturating_sub(greeting);
                    said.saturating_sub(session.received_back())
                }
            };
            // what came before it was asked for counts
            if wait.left < u64::MAX {
                let early = session.pending.min(wait.left);
                (wait.left, wait.got) = (wait.left - early, early);
                session.pending -= early;
            }
            if wait.left > 0 {
                return Outcome::Wait(Wait::Data(wait));
            }
            side.meter.counts.requests += u64::from(side.answers);
            Outcome::Next
        }
        Op::Set { variable, value } => {
            if let Some(place) = session.notes().variables.get_mut(usize::from(*variable)) {
                *place = *value;
            }
            Outcome::Next
        }
        Op::Add { variable, value } => {
            if let Some(place) = session.notes().variables.get_mut(usize::from(*variable)) {
                *place = place.wrapping_add(*value);
            }
            Outcome::Next
        }
        Op::JumpIf { variable, comparison, value, to } => {
            let notes = session.notes.as_ref();
            let is = notes.and_then(|notes| notes.variables.get(usize::from(*variable)));
            let is = is.copied().unwrap_or(0);
            if comparison.holds(is, *value) { Outcome::Jump(*to) } else { Outcome::Next }
        }
        Op::ReceiveText(text) | Op::Expect(text) => {
            if !side.script.datagrams {
                session.protocol = Protocol::Text(Vec::new());
            }
            Outcome::Wait(Wait::Text(*text))
        }
        Op::Request => {
            side.meter.counts.requests += 1;
            session.request = (session.planned_request(now), now);
            (session.in_request, session.first_byte) = (true, false);
            Outcome::Next
        }
        Op::Response => {
            if session.in_request {
                first_byte(session, side, now);
                let (planned, actual) = session.request;
                side.meter.counts.responses += 1;
                side.meter.took(SessionTime::Response, planned, actual, now);
                session.in_request = false;
            }
            session.pace = Some(now);
            Outcome::Next
        }
        Op::Think(index) => match side.script.times.get(usize::from(*index)) {
            Some(law) => {
                let n = session.draw();
                let until = now.saturating_add(law.get(n));
                session.pace = Some(until);
                // without time to pass it is as no wait, so that a loop of such ends as one without them
                if until > now { Outcome::Until(until) } else { Outcome::Next }
            }
            None => Outcome::Next,
        },
        Op::Pace(index) => match side.script.times.get(usize::from(*index)) {
            Some(law) => {
                let n = session.draw();
                // from plan to plan, so that a late message delays none of those after it
                let at = session.request.0.saturating_add(law.get(n));
                session.pace = Some(at);
                if at > now { Outcome::Until(at) } else { Outcome::Next }
            }
            None => Outcome::Next,
        },
        Op::Start(timer) => {
            let index = usize::from(*timer);
            let timers = &mut session.notes().timers;
            if timers.len() <= index {
                timers.resize(index + 1, now);
            }
            if let Some(place) = timers.get_mut(index) {
                *place = now;
            }
            Outcome::Next
        }
        Op::Stop(timer) => {
            let index = usize::from(*timer);
            let timers = session.notes.as_ref().map(|notes| &notes.timers);
            if let Some(&from) = timers.and_then(|timers| timers.get(index)) {
                side.meter.timer(index, from, now);
            }
            Outcome::Next
        }
        Op::Repeat { register, times, to } => {
            let Some(count) = session.registers.get_mut(usize::from(*register)) else {
                return Outcome::Next;
            };
            *count += 1;
            if *count < *times {
                return Outcome::Jump(*to);
            }
            *count = 0;
            Outcome::Next
        }
        Op::Jump(to) => Outcome::Jump(*to),
        Op::End => Outcome::Jump(side.script.ops.len() as u16),
        Op::WaitClose if session.peer_closed => Outcome::Next,
        Op::WaitClose => Outcome::Wait(Wait::PeerClose),
        // those that need more were done
        _ => Outcome::Next,
    }
}

impl Session {
    /// Bytes that were received and belong to messages before the last one that is sent back.
    fn received_back(&self) -> u64 {
        self.received.saturating_sub(self.pending)
    }
}
