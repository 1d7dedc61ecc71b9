//! What a session reads without a protocol: data, texts and messages of HTTP that its steps wait for, one after the other.

use wirebeat_traffic::program::script::{Op, Receive, Script};
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::events::KEPT;
use crate::outgoing::{PREFIX, generated};
use crate::session::{DataWait, Fate, Protocol, Session, Side, Wait};
use crate::stack::{Action, SessionKey};

/// What became of bytes.
pub(crate) enum Taken {
    /// All of them are taken, and it waits on.
    All,
    /// What it waited for is there; so many of them belong to it.
    Whole(usize),
    /// They are invalid.
    Malformed,
}

impl Session {
    /// Whether what arrives belongs to a step that waits for it.
    fn reads(&self) -> bool {
        let is_message = matches!(self.protocol, Protocol::HttpMessage(_));
        matches!(self.wait, Wait::Data(_) | Wait::Text(_) | Wait::Message(_))
            || (self.wait == Wait::Protocol && is_message)
    }
}

impl Conversations {
    /// What came before it was asked for.
    pub(crate) fn take_early(&mut self, now: Nanos, key: SessionKey) {
        let Some((session, side)) = self.both(key) else { return };
        let is_datagrams = side.script.datagrams;
        // while bytes of a session are taken those that are left follow by themselves: a step of it does not begin to take some
        if !session.reads() || self.takes == Some(key) {
            return;
        }
        if is_datagrams {
            let outer = self.takes.replace(key);
            self.take_early_message(now, key);
            self.takes = outer;
            return;
        }
        let Some(session) = self.session(key) else { return };
        let (early, peer_closed) = (std::mem::take(&mut session.early), session.peer_closed);
        if !early.is_empty() {
            let connection = session.connection.filter(|_| early.len() >= KEPT);
            self.actions.extend(connection.map(Action::Receive));
            self.take_bytes(now, key, &early);
        }
        let Some(session) = self.session(key) else { return };
        if !peer_closed || !session.early.is_empty() || !session.reads() {
            return;
        }
        match session.wait {
            Wait::Protocol => self.http_message_ended_by_close(now, key),
            _ => self.give_up(now, key, Fate::ClosedEarly),
        }
    }

    /// Data without a protocol.
    pub(crate) fn received_data(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        let Some((session, side)) = self.both(key) else { return };
        if side.verifies_stream {
            verify(side, session.received, bytes);
        }
        session.received = session.received.saturating_add(bytes.len() as u64);
        self.take_bytes(now, key, bytes);
    }

    /// Hands bytes to the steps that wait for them, one after the other; what is too early for that is noted, or kept.
    pub(crate) fn take_bytes(&mut self, now: Nanos, key: SessionKey, mut bytes: &[u8]) {
        let outer = self.takes.replace(key);
        while !bytes.is_empty() {
            let Some((session, side)) = self.both(key) else { break };
            if !session.reads() {
                match (side.keeps, &session.protocol) {
                    _ if session.fate.is_some() => {}
                    (true, Protocol::None) => session.early.extend_from_slice(bytes),
                    (false, Protocol::None) => {
                        session.pending = session.pending.saturating_add(bytes.len() as u64);
                    }
                    _ => {}
                }
                break;
            }
            let taken = match session.wait {
                Wait::Data(mut wait) => {
                    let (pc, len) = (session.pc, bytes.len());
                    let taken = take_data(&mut wait, side, bytes, pc);
                    session.wait = Wait::Data(wait);
                    match wait.left {
                        0 => {
                            side.meter.counts.damaged += u64::from(wait.damaged);
                            side.meter.counts.requests += u64::from(side.answers);
                            Taken::Whole(taken)
                        }
                        // the length of the message may have come just now
                        _ if taken < len => {
                            bytes = bytes.get(taken..).unwrap_or_default();
                            continue;
                        }
                        _ => Taken::All,
                    }
                }
                Wait::Text(number) => take_text(session, side, number, bytes),
                _ => self.take_http_message(key, bytes),
            };
            let Taken::Whole(len) = taken else {
                if let Taken::Malformed = taken {
                    self.give_up(now, key, Fate::Malformed);
                }
                break;
            };
            bytes = bytes.get(len..).unwrap_or_default();
            self.go_on(now, key);
        }
        self.takes = outer;
    }
}

/// Looks for text number `number` in what came.
fn take_text(session: &mut Session, side: &mut Side, number: u16, bytes: &[u8]) -> Taken {
    let Protocol::Text(kept) = &mut session.protocol else { return Taken::All };
    let Some(text) = side.script.texts.get(usize::from(number)) else { return Taken::All };
    let before = kept.len();
    if let Some(Op::Expect(_)) = side.script.ops.get(usize::from(session.pc)) {
        let missing = text.len().saturating_sub(before);
        let Some(rest) = bytes.get(..missing) else {
            kept.extend_from_slice(bytes);
            return Taken::All;
        };
        kept.extend_from_slice(rest);
        side.meter.counts.unexpected += u64::from(kept[..] != text[..]);
        session.protocol = Protocol::None;
        side.note_unmarked();
        return Taken::Whole(missing);
    }
    let find = |bytes: &[u8]| bytes.windows(text.len().max(1)).position(|of| of == &text[..]);
    // one that began with what came before ends within so many bytes
    let most = text.len().saturating_sub(1);
    kept.extend_from_slice(bytes.get(..most).unwrap_or(bytes));
    let whole = match find(kept) {
        Some(at) => Some((at + text.len()).saturating_sub(before)),
        None => find(bytes).map(|at| at + text.len()),
    };
    if let Some(len) = whole {
        session.protocol = Protocol::None;
        return Taken::Whole(len);
    }
    // only the beginning of the text can still become one
    if bytes.len() > most {
        kept.clear();
        kept.extend_from_slice(bytes.get(bytes.len() - most..).unwrap_or_default());
    }
    let gone = kept.len().saturating_sub(most);
    kept.drain(..gone);
    Taken::All
}

/// Takes what belongs to `wait`, of op `pc`, from the beginning of `bytes`; says how many bytes those are.
fn take_data(wait: &mut DataWait, side: &mut Side, bytes: &[u8], pc: u16) -> usize {
    if wait.left == u64::MAX {
        // the length of the message comes first
        let at = wait.got as usize;
        let missing = (PREFIX as usize).saturating_sub(at);
        let taken = missing.min(bytes.len());
        if let (Some(to), Some(from)) = (wait.prefix.get_mut(at..at + taken), bytes.get(..taken)) {
            to.copy_from_slice(from);
        }
        wait.got += taken as u64;
        if wait.got == PREFIX {
            let length = u64::from_be_bytes(wait.prefix);
            // a length below its own is none
            wait.left = length.saturating_sub(PREFIX).min(u64::MAX - 1);
        }
        return taken;
    }
    let taken = usize::try_from(wait.left).unwrap_or(usize::MAX).min(bytes.len());
    let bytes = bytes.get(..taken).unwrap_or_default();
    if side.verifies {
        wait.damaged |= match known(&side.script, pc) {
            Some(known) => {
                side.meter.counts.verified_bytes += taken as u64;
                let from = known.get(wait.got as usize..);
                !from.is_some_and(|from| from.starts_with(bytes))
            }
            None => !is_generated(side, wait.got, bytes),
        };
    }
    wait.got += taken as u64;
    wait.left -= taken as u64;
    taken
}

/// What op `pc` waits for, where that is known.
fn known(script: &Script, pc: u16) -> Option<&[u8]> {
    let Op::Receive(index) = script.ops.get(usize::from(pc))? else { return None };
    match script.lengths.get(usize::from(*index))? {
        Receive::Known(bytes) => Some(bytes),
        _ => None,
    }
}

/// Compares a piece of a stream of generated data.
fn verify(side: &mut Side, at: u64, bytes: &[u8]) {
    if !is_generated(side, at, bytes) {
        side.meter.counts.damaged += 1;
    }
}

/// Whether `bytes` are the generated data from byte `at` of a message on; counts what was compared.
pub(crate) fn is_generated(side: &mut Side, at: u64, bytes: &[u8]) -> bool {
    is_from(side, at, bytes, generated)
}

/// Whether `bytes` are those that `source` has from byte `at` of a message on; counts what was compared.
pub(crate) fn is_from(
    side: &mut Side,
    mut at: u64,
    mut bytes: &[u8],
    source: fn(&Script, u64) -> &[u8],
) -> bool {
    side.meter.counts.verified_bytes += bytes.len() as u64;
    while !bytes.is_empty() {
        let should = source(&side.script, at);
        let len = should.len().min(bytes.len()).max(1);
        let (now, later) = bytes.split_at(len.min(bytes.len()));
        if should.get(..now.len()) != Some(now) {
            return false;
        }
        bytes = later;
        at = at.saturating_add(now.len() as u64);
    }
    true
}
