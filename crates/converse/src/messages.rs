//! Sessions over UDP: messages, each a datagram, which may be lost, late, twice there, or somebody else's.
//!
//! A client knows the response to its request by the number at the beginning of both, where they have one. What does not come within
//! the group's timeout is lost. A server answers a datagram only if it is what its owner said that requests are, and each of them once:
//! nobody gets more out of it than that. It is done with a peer that has been silent for the timeout.

use wirebeat_traffic::program::script::{Expected, ExpectedLength, Op, Receive};
use wirebeat_traffic::values::session::{NUMBER, OnTimeout};
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::events::{KEPT, first_byte};
use crate::reading::is_generated;
use crate::session::{End, Fate, Protocol, Session, Side, Wait};
use crate::stack::{Action, SessionKey};

/// The most messages that are kept for a program that does not wait for them yet.
const EARLY_MAX: usize = 64;
/// Bits of a message's number that count the messages of a session; those above are the session's number.
const COUNT_BITS: u32 = 20;

/// Where the messages of a session stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Messages {
    /// The number of the request under way: the client's own, or the one that the server answers.
    pub(crate) number: u64,
    /// How many bytes the message has that was sent last.
    pub(crate) length: u64,
}

/// What a message is to the program that waits for one.
enum Judged {
    /// What it waits for.
    Awaited,
    /// An answer to something before.
    Late,
    /// None of the protocol.
    Malformed,
    /// Not of the size that requests have.
    Unasked,
}

impl Side {
    /// Whether it is a server that answers each datagram by itself, and has nothing to do between them.
    pub(crate) fn answers_messages(&self) -> bool {
        self.script.datagrams && self.end == End::Server && !self.keeps
    }
}

impl Conversations {
    /// A datagram of the peer.
    pub(crate) fn received_message(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        let Some((session, side)) = self.both(key) else { return };
        side.meter.counts.delivered_bytes += bytes.len() as u64;
        if side.end == End::Client && !std::mem::replace(&mut session.heard, true) {
            // nothing else says that there is a peer
            side.meter.counts.established += 1;
            self.tell_established(now, key);
        }
        let Some((session, _)) = self.both(key) else { return };
        if session.fate.is_some() || session.wait == Wait::End {
            return;
        }
        match &session.protocol {
            Protocol::Echo(_) => self.echo_message(now, key, bytes),
            Protocol::Dns(_) => self.dns_message(now, key, bytes),
            Protocol::OneWay(_) => self.one_way_message(now, key, bytes),
            _ => self.take_message(now, key, bytes),
        }
    }

    /// Sends a message back as it is.
    fn echo_message(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        let mut spare = self.spare.pop();
        let Some((session, side)) = self.both(key) else { return };
        session.active = now;
        let counts = &mut side.meter.counts;
        counts.requests += 1;
        let Protocol::Echo(kept) = &mut session.protocol else { return };
        if kept.len().saturating_add(bytes.len()) > KEPT || !session.out.has_room() {
            // what was sent back before is still here: the network of this machine is full
            counts.unexpected += 1;
            self.spare.extend(spare);
            return;
        }
        if kept.capacity() == 0 {
            *kept = spare.take().unwrap_or_default();
        }
        kept.extend_from_slice(bytes);
        session.out.add_kept_message(bytes.len() as u64);
        counts.responses += 1;
        counts.offered_bytes += bytes.len() as u64;
        let connection = session.connection;
        self.spare.extend(spare);
        self.actions.extend(connection.map(Action::Send));
    }

    /// Hands a message to what waits for one; one that is early is kept for steps, and left aside else.
    pub(crate) fn take_message(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        let Some((session, side)) = self.both(key) else { return };
        match session.wait {
            Wait::Message(index) => {
                let expected = match side.script.lengths.get(usize::from(index)) {
                    Some(Receive::Message(expected)) => *expected,
                    _ => return,
                };
                let judged = judge(session, side, expected, bytes);
                let counts = &mut side.meter.counts;
                match judged {
                    Judged::Awaited => {}
                    Judged::Late => return counts.late_responses += 1,
                    Judged::Malformed => return counts.malformed_messages += 1,
                    Judged::Unasked => return counts.unexpected += 1,
                }
                note_message(side);
            }
            Wait::Text(number) => {
                let Some(text) = side.script.texts.get(usize::from(number)) else { return };
                if let Some(Op::Expect(_)) = side.script.ops.get(usize::from(session.pc)) {
                    side.meter.counts.unexpected += u64::from(bytes != &text[..]);
                    note_message(side);
                    session.active = now;
                    first_byte(session, side, now);
                    return self.go_on(now, key);
                }
                let mut windows = bytes.windows(text.len().max(1));
                if !windows.any(|window| window == &text[..]) {
                    return;
                }
            }
            _ if side.keeps => return keep(session, side, bytes),
            _ if side.end == End::Client => return side.meter.counts.late_responses += 1,
            _ => return side.meter.counts.unexpected += 1,
        }
        session.active = now;
        first_byte(session, side, now);
        self.go_on(now, key);
    }

    /// What came before it was asked for.
    pub(crate) fn take_early_message(&mut self, now: Nanos, key: SessionKey) {
        while let Some(session) = self.session(key) {
            let waits = matches!(session.wait, Wait::Message(_) | Wait::Text(_));
            let Some((length, rest)) = session.early.split_first_chunk::<2>().filter(|_| waits)
            else {
                return;
            };
            let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
            let message: Vec<u8> = session.early.drain(..length + 2).skip(2).collect();
            // it may not be the one that is waited for
            self.take_message(now, key, &message);
        }
    }

    /// Adds message number `message` of the script to what a session over UDP sends.
    pub(crate) fn add_message(session: &mut Session, side: &mut Side, message: u16) {
        let n = session.draw();
        let number = match &mut session.protocol {
            Protocol::Messages(messages) if side.end == End::Client => {
                let first = session.number << COUNT_BITS;
                messages.number = messages.number.max(first).saturating_add(1);
                messages.number
            }
            Protocol::Messages(messages) => messages.number,
            _ => 0,
        };
        let length = session.out.add_numbered(&side.script, message, n, number);
        if let Protocol::Messages(messages) = &mut session.protocol {
            messages.length = length;
        }
        side.meter.counts.offered_bytes += length;
        side.meter.counts.responses += u64::from(side.end == End::Server);
    }

    /// No message came in time.
    pub(crate) fn message_timed_out(&mut self, now: Nanos, key: SessionKey) {
        let next = self.group(key).is_some_and(|group| group.plan.on_timeout == OnTimeout::Next);
        let Some((session, side)) = self.both(key) else { return };
        if side.answers_messages() {
            return self.leave_peer(key);
        }
        if std::mem::take(&mut session.in_request) {
            side.meter.counts.lost_responses += 1;
        }
        if next && side.end == End::Client {
            return match session.protocol.asks_by_dns() {
                true => self.next_query(now, key),
                false => self.go_on(now, key),
            };
        }
        // the peer is not told: there is nothing to close
        session.fate = Some(Fate::TimedOut);
        session.wait = Wait::End;
        let connection = session.connection;
        self.actions.extend(connection.map(Action::Abort));
    }

    /// A server has nothing more to do with its peer, which said nothing for long.
    pub(crate) fn leave_peer(&mut self, key: SessionKey) {
        let Some(session) = self.session(key) else { return };
        session.wait = Wait::End;
        session.finished = true;
        let connection = session.connection;
        self.actions.extend(connection.map(Action::Finish));
    }
}

/// Counts a message that was waited for: a request at the server; a response at a client whose program does not say what its requests are.
fn note_message(side: &mut Side) {
    match side.end {
        End::Server => side.meter.counts.requests += 1,
        End::Client => side.note_unmarked(),
    }
}

/// What a message is, where `expected` is waited for.
fn judge(session: &mut Session, side: &mut Side, expected: Expected, bytes: &[u8]) -> Judged {
    let Protocol::Messages(messages) = &mut session.protocol else { return Judged::Awaited };
    let is_server = side.end == End::Server;
    let number = bytes.first_chunk().map(|number| u64::from_be_bytes(*number));
    match number.filter(|_| expected.numbered) {
        Some(number) if is_server => messages.number = number,
        Some(number) if number < messages.number => return Judged::Late,
        Some(number) if number > messages.number => return Judged::Malformed,
        Some(_) => {}
        None if expected.numbered => return Judged::Malformed,
        None => {}
    }
    let length = match expected.length {
        ExpectedLength::Any => None,
        ExpectedLength::Bytes(length) => Some(length),
        ExpectedLength::Back => Some(messages.length),
    };
    if length.is_some_and(|length| length != bytes.len() as u64) {
        if is_server {
            return Judged::Unasked;
        }
        side.meter.counts.unexpected += 1;
    }
    if side.verifies {
        let from = if expected.numbered { NUMBER } else { 0 };
        let data = bytes.get(from as usize..).unwrap_or_default();
        if !is_generated(side, from, data) {
            side.meter.counts.damaged += 1;
        }
    }
    Judged::Awaited
}

/// Keeps a message for a program that does not wait for it yet, behind its length.
fn keep(session: &mut Session, side: &mut Side, bytes: &[u8]) {
    let Ok(length) = u16::try_from(bytes.len()) else { return };
    let mut kept = 0;
    let mut rest = &session.early[..];
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        kept += 1;
        rest = after.get(usize::from(u16::from_be_bytes(*length))..).unwrap_or_default();
    }
    if kept >= EARLY_MAX || session.early.len().saturating_add(bytes.len()) > KEPT {
        side.meter.counts.unexpected += 1;
        return;
    }
    session.early.extend_from_slice(&length.to_be_bytes());
    session.early.extend_from_slice(bytes);
}
