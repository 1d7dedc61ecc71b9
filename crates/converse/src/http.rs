//! HTTP within sessions: requests and responses, as their readers see them.

use wirebeat_http::{After, Limits, Method, RequestEvent, RequestKind, ResponseEvent};
use wirebeat_meter::session::SessionTime;
use wirebeat_traffic::program::script::{HttpClient, HttpServer, Op};
use wirebeat_traffic::values::session::ENDLESS;
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::outgoing::content as of_response;
use crate::reading::is_from;
use crate::session::{Fate, HttpClientState, Protocol, Session, Side, Wait};
use crate::stack::{Action, SessionKey};

/// A status from which on a response is an error (RFC 9110 §15).
pub(crate) const FIRST_ERROR: u16 = 400;

/// The most interim responses (1xx) before a final one: a server that sends nothing else is not waited for.
pub(crate) const INTERIM_MAX: u32 = 100;

/// The client's op, where the session stands at one.
fn client_op(session: &Session, side: &Side) -> Option<HttpClient> {
    match side.script.ops.get(usize::from(session.pc)) {
        Some(Op::HttpClient(op)) => Some(*op),
        _ => None,
    }
}

/// The server's.
fn server_op(session: &Session, side: &Side) -> Option<HttpServer> {
    match side.script.ops.get(usize::from(session.pc)) {
        Some(Op::HttpServer(op)) => Some(*op),
        _ => None,
    }
}

impl Conversations {
    /// Sends as many requests as may wait for their responses.
    pub(crate) fn send_requests(&mut self, now: Nanos, key: SessionKey) {
        let mut sent = false;
        let is_over = self.is_over(now, key);
        while let Some((session, side)) = self.both(key) {
            let Some(op) = client_op(session, side) else { return };
            let has_room = session.out.has_room();
            let planned = session.planned_request(now);
            let n = session.draw();
            let (closed, waits) = (session.peer_closed, session.wait == Wait::Protocol);
            let Protocol::HttpClient(http) = &mut session.protocol else { return };
            let waiting = http.sent.saturating_sub(http.received);
            let stops = is_over && op.requests == ENDLESS;
            if stops && waiting == 0 && waits {
                return self.leave_http(now, key);
            }
            let may = http.sent < op.requests
                && !stops
                && waiting < op.pipeline.into()
                && !http.holds_content;
            if may && waits && closed && waiting == 0 {
                // it left while nothing was under way
                return self.give_up(now, key, Fate::ClosedEarly);
            }
            if !may || !has_room || http.closes || !waits {
                break;
            }
            // those that go together have one slot
            if waiting == 0 && !self.has_slot(now, key) {
                break;
            }
            let Some((session, side)) = self.both(key) else { return };
            let Protocol::HttpClient(http) = &mut session.protocol else { return };
            http.sent += 1;
            let message = if http.sent == op.requests { op.last } else { op.request };
            http.begun.push_back((planned, now));
            http.holds_content = op.content.is_some();
            side.meter.counts.requests += 1;
            side.meter.counts.offered_bytes += session.out.add(&side.script, message, n);
            sent = true;
        }
        let connection = self.session(key).and_then(|session| session.connection);
        self.actions.extend(connection.filter(|_| sent).map(Action::Send));
    }

    /// Bytes of the server.
    pub(crate) fn received_response(&mut self, now: Nanos, key: SessionKey, mut bytes: &[u8]) {
        loop {
            let Some((session, side)) = self.both(key) else { return };
            let Some(op) = client_op(session, side) else { return };
            let Protocol::HttpClient(http) = &mut session.protocol else { return };
            let kind = if op.head { RequestKind::Head } else { RequestKind::Other };
            let outstanding = (http.sent > http.received).then_some(kind);
            first_byte_of_response(http, side, now, bytes);
            let event = match http.reader.read(outstanding, &mut bytes) {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(_) => return self.give_up(now, key, Fate::Malformed),
            };
            match event {
                ResponseEvent::Interim { status, .. } => {
                    http.interim += 1;
                    if http.interim > INTERIM_MAX {
                        return self.give_up(now, key, Fate::Malformed);
                    }
                    if status == 100 && http.holds_content {
                        self.send_content(key, op);
                    }
                }
                ResponseEvent::Head(head) => {
                    (http.status, http.content, http.damaged) = (head.status, 0, false);
                }
                ResponseEvent::Body(content) => {
                    let at = http.content;
                    http.content = at.saturating_add(content.len() as u64);
                    if op.verify && !is_from(side, at, content, of_response) {
                        http.damaged = true;
                    }
                }
                ResponseEvent::End(end) => {
                    self.response(now, key, op, end.after);
                    let waits =
                        self.session(key).is_some_and(|session| session.wait == Wait::Protocol);
                    if !waits {
                        // what follows the last response belongs to nobody
                        return self.after_last_response(now, key, bytes);
                    }
                }
            }
        }
    }

    /// The content of a request that waited for 100 (Continue).
    fn send_content(&mut self, key: SessionKey, op: HttpClient) {
        let Some((session, side)) = self.both(key) else { return };
        let n = session.draw();
        let Protocol::HttpClient(http) = &mut session.protocol else { return };
        http.holds_content = false;
        let Some(content) = op.content else { return };
        side.meter.counts.offered_bytes += session.out.add(&side.script, content, n);
        let connection = session.connection;
        self.actions.extend(connection.map(Action::Send));
    }

    /// A response is complete.
    fn response(&mut self, now: Nanos, key: SessionKey, op: HttpClient, after: After) {
        let is_over = op.requests == ENDLESS && self.is_over(now, key);
        let Some((session, side)) = self.both(key) else { return };
        let Protocol::HttpClient(http) = &mut session.protocol else { return };
        http.received += 1;
        http.interim = 0;
        http.first_byte = false;
        // a final response instead of 100 (Continue): the content is not sent (RFC 9110 §10.1.1)
        let refused = std::mem::take(&mut http.holds_content);
        http.closes |= after != After::Keep || refused;
        let counts = &mut side.meter.counts;
        counts.responses += 1;
        counts.damaged += u64::from(http.damaged);
        let right_status = match op.expect_status {
            Some(status) => http.status == status,
            None => http.status < FIRST_ERROR,
        };
        let right_size = op.expect_size.is_none_or(|size| size == http.content);
        counts.unexpected += u64::from(!right_status || !right_size);
        side.meter.status(http.status);
        if let Some((planned, actual)) = http.begun.pop_front() {
            side.meter.took(SessionTime::Response, planned, actual, now);
        }
        let (received, closes) = (http.received, http.closes);
        let is_last = http.sent == received;
        session.pace = Some(now);
        session.active = now;
        if received >= op.requests || is_last && is_over {
            return self.leave_http(now, key);
        }
        if closes {
            // not all requests were made, and no further one can be
            let fate = match after {
                After::Doubtful | After::Tunnel => Fate::Malformed,
                After::Keep | After::Close => Fate::ClosedEarly,
            };
            return self.give_up(now, key, fate);
        }
        let think = op.think.and_then(|think| side.script.times.get(usize::from(think)));
        match think {
            Some(law) => {
                let n = (session.number << 20).wrapping_add(received.into());
                let until = now.saturating_add(law.get(n));
                session.pace = Some(until);
                session.wait = Wait::Time;
                self.set_alarm(key, until);
            }
            None => self.send_requests(now, key),
        }
    }

    /// HTTP is done: the ops after it follow.
    fn leave_http(&mut self, now: Nanos, key: SessionKey) {
        let Some(session) = self.session(key) else { return };
        session.protocol = Protocol::None;
        self.go_on(now, key);
    }

    fn after_last_response(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        let Some(session) = self.session(key) else { return };
        if !bytes.is_empty() && session.fate.is_none() {
            // nobody asked for it
            self.give_up(now, key, Fate::Malformed);
        }
    }

    /// The server closed its side.
    pub(crate) fn response_ended_by_close(&mut self, now: Nanos, key: SessionKey) {
        let Some((session, side)) = self.both(key) else { return };
        let Some(op) = client_op(session, side) else { return };
        let Protocol::HttpClient(http) = &mut session.protocol else { return };
        match http.reader.finish() {
            Ok(Some(_)) => self.response(now, key, op, After::Close),
            Ok(None) | Err(_) => self.give_up(now, key, Fate::ClosedEarly),
        }
    }

    /// Bytes of a client.
    pub(crate) fn received_request(&mut self, now: Nanos, key: SessionKey, mut bytes: &[u8]) {
        loop {
            let Some((session, side)) = self.both(key) else { return };
            let Some(op) = server_op(session, side) else { return };
            let Protocol::HttpServer(http) = &mut session.protocol else { return };
            if http.closes {
                // what follows the last request is not answered (RFC 9112 §9.6)
                break;
            }
            let event = match http.reader.read(&Limits::default(), &mut bytes, |_| ()) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => {
                    side.meter.counts.requests += 1;
                    side.meter.counts.unexpected += 1;
                    http.pending.push_back(op.bad);
                    (http.closes, http.bad) = (true, true);
                    break;
                }
            };
            match event {
                RequestEvent::Head(head) if head.method == Method::Connect => {
                    // there is no tunnel behind this server, and what follows is no request (RFC 9110 §9.3.6)
                    side.meter.counts.requests += 1;
                    side.meter.counts.unexpected += 1;
                    http.pending.push_back(op.bad);
                    (http.closes, http.bad) = (true, true);
                }
                RequestEvent::Head(head) => {
                    http.head_since = None;
                    http.head = head.method == Method::Head;
                    http.old = head.minor_version == 0;
                    if head.expects_continue {
                        http.pending.push_back(op.go_on);
                    }
                }
                RequestEvent::Body(_) => {}
                RequestEvent::End(end) => {
                    side.meter.counts.requests += 1;
                    let closes = op.closes || end.after != After::Keep;
                    http.closes |= closes;
                    let with = if http.old { op.old } else { op.current };
                    http.pending.push_back(match (http.head, closes) {
                        (false, false) => with.response,
                        (false, true) => with.last,
                        (true, false) => with.head,
                        (true, true) => with.head_last,
                    });
                }
            }
        }
        if let Some(Protocol::HttpServer(http)) = self.session(key).map(|of| &mut of.protocol) {
            // a head that comes in pieces is held until it is whole
            let since = http.head_since.unwrap_or(now);
            http.head_since = (http.reader.held() > 0).then_some(since);
        }
        self.send_responses(now, key);
    }

    /// Sends what is owed, as far as there is room.
    pub(crate) fn send_responses(&mut self, now: Nanos, key: SessionKey) {
        let mut sent = false;
        while let Some((session, side)) = self.both(key) {
            let Some(op) = server_op(session, side) else { return };
            if !session.out.has_room() {
                break;
            }
            let n = session.draw();
            let Protocol::HttpServer(http) = &mut session.protocol else { return };
            let Some(message) = http.pending.pop_front() else { break };
            side.meter.counts.offered_bytes += session.out.add(&side.script, message, n);
            side.meter.counts.responses += u64::from(message != op.go_on);
            sent = true;
        }
        let Some(session) = self.session(key) else { return };
        let (connection, peer_closed) = (session.connection, session.peer_closed);
        let Protocol::HttpServer(http) = &mut session.protocol else { return };
        let (owes, closes) = (!http.pending.is_empty(), http.closes);
        if sent && !owes {
            // from now on it is waited for
            http.head_since = http.head_since.map(|_| now);
        }
        let ends = !owes && (closes || peer_closed);
        session.lingers = ends && http.bad && !peer_closed;
        self.actions.extend(connection.filter(|_| sent).map(Action::Send));
        if owes {
            return;
        }
        if ends {
            self.leave_http(now, key);
            let Some(session) = self.session(key).filter(|session| session.lingers) else { return };
            let until = session.patience(Nanos::MAX);
            return self.set_alarm(key, until);
        }
        // it may read again
        self.actions.extend(connection.filter(|_| sent).map(Action::Receive));
    }

    /// The client closed its side.
    pub(crate) fn request_ended_by_close(&mut self, now: Nanos, key: SessionKey) {
        let Some(session) = self.session(key) else { return };
        let Protocol::HttpServer(http) = &mut session.protocol else { return };
        match http.reader.finish() {
            // within a request
            Err(_) if http.pending.is_empty() => self.give_up(now, key, Fate::ClosedEarly),
            _ => self.send_responses(now, key),
        }
    }
}

/// The first byte of a response.
fn first_byte_of_response(http: &mut HttpClientState, side: &mut Side, now: Nanos, bytes: &[u8]) {
    if bytes.is_empty() || http.first_byte {
        return;
    }
    http.first_byte = true;
    if let Some(&(planned, actual)) = http.begun.front() {
        side.meter.took(SessionTime::FirstByte, planned, actual, now);
    }
}
