//! DNS within sessions: queries one after the other, and responses to each, over UDP and over TCP.
//!
//! Over TCP each message has its length before it, two bytes (RFC 1035 §4.2.2, RFC 7766); over UDP it is a datagram. A client takes a
//! response only if its number and its question are those of the query (RFC 5452 §9.1): over UDP what is not is left aside, over TCP it
//! ends the session. A server makes one response to each query, of at most 512 bytes over UDP, or 1232 to those that say they take
//! more.

use std::fmt::Write;

use wirebeat_dns::{Answer, EDNS_MAX, Message, Name, PLAIN_MAX, Query, Question, refuse};
use wirebeat_meter::session::SessionTime;
use wirebeat_traffic::program::script::DnsPart;
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::events::{KEPT, first_byte};
use crate::session::{End, Fate, Protocol, Session, Side, Wait};
use crate::stack::{Action, SessionKey};

/// Bytes of the length before a message over TCP.
const PREFIX: usize = 2;
/// The longest message over TCP.
const LONGEST: usize = 65_535;
/// The class of the internet.
const IN: u16 = 1;

/// Where an end of DNS stands.
#[derive(Debug, Default)]
pub(crate) struct DnsState {
    /// Messages, as they are sent, of which the stack has not taken all.
    kept: Vec<u8>,
    /// Over TCP: what came and is no whole message yet, or waits until there is room for its response.
    incoming: Vec<u8>,
    is_server: bool,
    /// How many queries were made.
    sent: u32,
    /// Whether no more follow.
    done: bool,
    /// The number and the question of the query under way.
    id: u16,
    question: Option<Question>,
    /// Its name as text.
    text: String,
}

impl DnsState {
    pub(crate) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Whether it is a server's that owes nothing and has no part of a query.
    pub(crate) fn is_idle_server(&self) -> bool {
        self.is_server && self.kept.is_empty() && self.incoming.is_empty()
    }

    /// The stack has taken so many bytes more; `true`: there is room for responses that there was none for.
    pub(crate) fn drop_taken(&mut self, more: u64) -> bool {
        let full = self.kept.len() >= KEPT;
        self.kept.drain(..usize::try_from(more).unwrap_or(usize::MAX).min(self.kept.len()));
        full && self.kept.len() < KEPT
    }

    /// How many bytes it can take: a whole message, and the beginning of the next.
    pub(crate) fn room(&self) -> usize {
        (2 * KEPT).saturating_sub(self.incoming.len())
    }

    /// Takes the next whole message of a stream out of `incoming`.
    fn next_message(&mut self, into: &mut Vec<u8>) -> bool {
        into.clear();
        let Some((length, rest)) = self.incoming.split_first_chunk::<PREFIX>() else {
            return false;
        };
        let length = usize::from(u16::from_be_bytes(*length));
        let Some(message) = rest.get(..length) else { return false };
        into.extend_from_slice(message);
        self.incoming.drain(..PREFIX + length);
        true
    }
}

impl Protocol {
    /// Whether it is the end of DNS that asks, and it has not done all.
    pub(crate) fn asks_by_dns(&self) -> bool {
        matches!(self, Protocol::Dns(dns) if !dns.is_server && !dns.done)
    }
}

/// What a response is to the query under way.
enum Judged {
    Awaited,
    Late,
    Malformed,
}

impl Conversations {
    /// Begins DNS, or goes on after a pause.
    pub(crate) fn run_dns(&mut self, now: Nanos, key: SessionKey) {
        let Some((session, side)) = self.both(key) else { return };
        let is_server = matches!(side.script.dns, Some(DnsPart::Server(_)));
        if !matches!(session.protocol, Protocol::Dns(_)) {
            session.protocol =
                Protocol::Dns(Box::new(DnsState { is_server, ..DnsState::default() }));
        }
        session.wait = Wait::Protocol;
        self.keep_patience(now, key);
        if !is_server {
            self.next_query(now, key);
        }
    }

    /// Sends the next query, or goes on to what follows the last.
    pub(crate) fn next_query(&mut self, now: Nanos, key: SessionKey) {
        let Some((session, side)) = self.both(key) else { return };
        let Some(DnsPart::Client(client)) = &side.script.dns else { return };
        let planned = session.planned_request(now);
        let Protocol::Dns(dns) = &mut session.protocol else { return };
        if dns.sent >= client.requests {
            dns.done = true;
            session.wait = Wait::Protocol;
            return self.go_on(now, key);
        }
        if !self.has_slot(now, key) {
            return;
        }
        let Some((session, side)) = self.both(key) else { return };
        let Some(DnsPart::Client(client)) = &side.script.dns else { return };
        let Protocol::Dns(dns) = &mut session.protocol else { return };
        let number =
            session.number.wrapping_mul(client.requests.into()).wrapping_add(dns.sent.into());
        dns.text.clear();
        for (place, piece) in client.name.iter().enumerate() {
            // writing to a text does not fail
            let _ = if place > 0 { write!(dns.text, "{number}") } else { Ok(()) };
            dns.text.push_str(piece);
        }
        // the checks have seen that it is a name
        let (Ok(name), true) = (Name::of_text(&dns.text), session.out.has_room()) else {
            return self.give_up(now, key, Fate::Abandoned);
        };
        dns.sent += 1;
        dns.id = client.id(number);
        dns.question = Some(Question { name, kind: client.kind.number(), class: IN });
        let query = Query {
            id: dns.id,
            name: &name,
            kind: client.kind,
            recursion_desired: client.recursion_desired,
        };
        let sent = keep(&mut dns.kept, !side.script.datagrams, |out| {
            query.write(out);
            true
        });
        session.out.add_kept_message(sent);
        (session.request, session.in_request, session.first_byte) = ((planned, now), true, false);
        session.wait = Wait::Protocol;
        side.meter.counts.requests += 1;
        side.meter.counts.offered_bytes += sent;
        let connection = session.connection;
        self.actions.extend(connection.map(Action::Send));
        self.keep_patience(now, key);
    }

    /// A datagram, at either end.
    pub(crate) fn dns_message(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        let Some((session, side)) = self.both(key) else { return };
        if side.end == End::Server {
            return self.answer(now, key, bytes);
        }
        match judge(session, bytes) {
            (Judged::Awaited, Some(response)) => self.dns_response(now, key, &response),
            (Judged::Late, _) => side.meter.counts.late_responses += 1,
            _ => side.meter.counts.malformed_messages += 1,
        }
    }

    /// Bytes of a stream, at either end.
    pub(crate) fn received_dns(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        let Some(session) = self.session(key) else { return };
        let Protocol::Dns(dns) = &mut session.protocol else { return };
        dns.incoming.extend_from_slice(bytes);
        if dns.is_server {
            return self.answer_stream(now, key);
        }
        let mut message = Vec::new();
        while let Some((session, side)) = self.both(key) {
            let Protocol::Dns(dns) = &mut session.protocol else { return };
            if session.fate.is_some() || !dns.next_message(&mut message) {
                return;
            }
            match judge(session, &message) {
                (Judged::Awaited, Some(response)) => self.dns_response(now, key, &response),
                _ => {
                    side.meter.counts.malformed_messages += 1;
                    return self.give_up(now, key, Fate::Malformed);
                }
            }
        }
    }

    /// The response to the query under way.
    fn dns_response(&mut self, now: Nanos, key: SessionKey, response: &Message) {
        let Some((session, side)) = self.both(key) else { return };
        let Some(DnsPart::Client(client)) = &side.script.dns else { return };
        let client = std::sync::Arc::clone(client);
        first_byte(session, side, now);
        let (planned, actual) = session.request;
        side.meter.counts.responses += 1;
        side.meter.counts.unexpected +=
            u64::from(response.rcode != client.expected || response.truncated);
        side.meter.status(response.rcode);
        side.meter.took(SessionTime::Response, planned, actual, now);
        session.in_request = false;
        (session.active, session.pace) = (now, Some(now));
        let Protocol::Dns(dns) = &session.protocol else { return };
        let law = client.think.filter(|_| dns.sent < client.requests);
        match law.and_then(|law| side.script.times.get(usize::from(law))) {
            Some(law) => {
                let until = now.saturating_add(law.get(session.draw()));
                session.pace = Some(until);
                session.wait = Wait::Time;
                self.set_alarm(key, until);
            }
            None => self.next_query(now, key),
        }
    }

    /// Answers the queries of a stream, as far as there is room.
    pub(crate) fn answer_stream(&mut self, now: Nanos, key: SessionKey) {
        let mut message = Vec::new();
        while let Some(session) = self.session(key) {
            let Protocol::Dns(dns) = &mut session.protocol else { return };
            let full = dns.kept.len() >= KEPT || !session.out.has_room();
            if !dns.is_server || full || !dns.next_message(&mut message) {
                break;
            }
            self.answer(now, key, &message);
        }
        // it may have had none before
        let connection = self.session(key).and_then(|session| session.connection);
        self.actions.extend(connection.map(Action::Receive));
    }

    /// Answers a query.
    fn answer(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        let Some((session, side)) = self.both(key) else { return };
        let Side { script, meter, .. } = side;
        let Some(DnsPart::Server(server)) = &script.dns else { return };
        let Session { protocol: Protocol::Dns(dns), out, .. } = session else { return };
        session.active = now;
        if dns.kept.len().saturating_add(EDNS_MAX) > KEPT + LONGEST || !out.has_room() {
            // the network of this machine is full
            meter.counts.unexpected += 1;
            return;
        }
        let mut code = None;
        let sent = match Message::read(bytes) {
            Ok(query) => {
                let longest = match (script.datagrams, query.edns) {
                    (false, _) => LONGEST,
                    (true, None) => PLAIN_MAX,
                    (true, Some(edns)) => usize::from(edns.size).clamp(PLAIN_MAX, EDNS_MAX),
                };
                let answer =
                    Answer { addresses: &server.answers, ttl: server.ttl, rcode: server.rcode };
                keep(&mut dns.kept, !script.datagrams, |out| {
                    code = answer.write(&query, bytes, longest, out);
                    code.is_some()
                })
            }
            Err(_) => {
                meter.counts.malformed_messages += 1;
                keep(&mut dns.kept, !script.datagrams, |out| refuse(bytes, out))
            }
        };
        if let Some(code) = code {
            meter.counts.requests += 1;
            meter.status(code);
        }
        if sent == 0 {
            return;
        }
        out.add_kept_message(sent);
        meter.counts.responses += u64::from(code.is_some());
        meter.counts.offered_bytes += sent;
        let connection = session.connection;
        self.actions.extend(connection.map(Action::Send));
    }
}

/// Adds a message to what is sent, behind its length where it has one there; gives how many bytes that makes. `write` says whether there
/// is one.
fn keep(kept: &mut Vec<u8>, prefixed: bool, write: impl FnOnce(&mut Vec<u8>) -> bool) -> u64 {
    let begin = kept.len();
    if prefixed {
        kept.extend_from_slice(&[0; PREFIX]);
    }
    let from = kept.len();
    if !write(kept) {
        kept.truncate(begin);
        return 0;
    }
    let length = kept.len() - from;
    if let Some(place) = kept.get_mut(begin..from).filter(|place| !place.is_empty()) {
        place.copy_from_slice(&(length as u16).to_be_bytes());
    }
    (kept.len() - begin) as u64
}

/// What a message is to the query under way.
fn judge(session: &Session, bytes: &[u8]) -> (Judged, Option<Message>) {
    let Protocol::Dns(dns) = &session.protocol else { return (Judged::Malformed, None) };
    let Ok(message) = Message::read(bytes) else { return (Judged::Malformed, None) };
    if !message.is_response {
        return (Judged::Malformed, None);
    }
    if message.id != dns.id || !session.in_request {
        return (Judged::Late, None);
    }
    // a server that could not read the question need not repeat it
    let right = match message.questions {
        0 => message.rcode != wirebeat_dns::NOERROR,
        1 => message.question == dns.question,
        _ => false,
    };
    if right { (Judged::Awaited, Some(message)) } else { (Judged::Malformed, None) }
}
