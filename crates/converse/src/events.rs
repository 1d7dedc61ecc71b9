//! What a stack tells of sessions, and what follows.

use wirebeat_meter::session::{NumberedSession, SessionTime};
use wirebeat_traffic::program::script::Op;
use wirebeat_traffic::values::session::{ENDLESS, Transport};
use wirebeat_units::Nanos;

use crate::conversations::{Conversations, Group, first_greeting, first_protocol};
use crate::misbehaviour::{acts_by_time, note_end_by_peer};
use crate::session::{End, Fate, Protocol, Session, Side, Wait};
use crate::stack::{
    Action, Connection, ConnectionStats, ProfileId, Programs, Reason, SessionKey, TlsEvent,
};

/// How many bytes a session without a protocol takes at a time.
const ROOM: usize = 1 << 20;
/// How many bytes a server of HTTP reads while it owes no response, and how many are kept to be sent back.
pub(crate) const KEPT: usize = 64 << 10;
/// How much memory for that a connection has while there is nothing to send back.
const KEPT_IDLE: usize = 4 << 10;
/// How many that have more leave it for others.
const SPARE_MAX: usize = 16;

impl Programs for Conversations {
    fn accepted(
        &mut self,
        now: Nanos,
        connection: Connection,
        ProfileId(group): ProfileId,
    ) -> Option<SessionKey> {
        let of = self.groups.get(usize::from(group))?;
        // nobody would end it any more
        if self.closed && of.plan.transport == Transport::Udp {
            return None;
        }
        let side = of.server?;
        if of.is_watched && of.plan.from.is_none() {
            self.gates.established(group, now);
        }
        let protocol = first_protocol(of.plan.transport);
        let greeting = first_greeting(of.plan.pair);
        let secures = of.plan.tls.is_some();
        let counts = self.sides.get_mut(usize::from(side)).map(|side| &mut side.meter.counts)?;
        counts.opened += 1;
        counts.established += 1;
        let number = counts.opened - 1;
        let mut session = Session::new(side, number, now, now);
        session.connection = Some(connection);
        session.established = true;
        (session.protocol, session.greeting) = (protocol, greeting);
        let key = self.sessions.insert(session);
        if let Some(side) = self.sides.get_mut(usize::from(side)) {
            side.meter.note_open(now);
        }
        match secures {
            true => self.await_handshake(now, key),
            false => self.go_on(now, key),
        }
        Some(key)
    }

    fn opening(&mut self, now: Nanos, key: SessionKey, connection: Connection) {
        let Some((session, side)) = self.both(key) else { return };
        session.connection = Some(connection);
        if side.is_half_open() && session.fate.is_none() {
            // nothing else comes of it
            self.go_on(now, key);
        }
    }

    fn established(&mut self, now: Nanos, key: SessionKey, connection: Connection) {
        let Some((session, side)) = self.both(key) else { return };
        session.connection = Some(connection);
        session.established = true;
        session.active = now;
        let greets = session.greeting.is_some();
        if greets {
            side.meter.counts.offered_bytes += session.out.add_greeting(session.number);
        }
        // over UDP nobody has answered yet
        if !side.script.datagrams {
            side.meter.counts.established += 1;
            side.meter.took(SessionTime::Connect, session.planned, session.started, now);
            self.tell_established(now, key);
        }
        self.actions.extend(greets.then_some(Action::Send(connection)));
        match self.group(key).is_some_and(|of| of.plan.tls.is_some()) {
            true => self.await_handshake(now, key),
            false => self.go_on(now, key),
        }
    }

    fn payload<'a>(&'a mut self, key: SessionKey, offset: u64, scratch: &'a mut [u8]) -> &'a [u8] {
        let Some((session, side)) = self.both(key) else { return &[] };
        let Session { out, protocol, .. } = session;
        let echo = match protocol {
            Protocol::Echo(kept) => &kept[..],
            Protocol::Dns(dns) => dns.kept(),
            _ => &[],
        };
        out.payload(&side.script, echo, offset, scratch)
    }

    fn offer(&mut self, key: SessionKey, most: u64) -> u64 {
        self.session(key).map_or(0, |session| session.out.offer(most))
    }

    fn taken(&mut self, now: Nanos, key: SessionKey, offset: u64) {
        let Some((session, side)) = self.both(key) else { return };
        let more = session.out.take(offset);
        if more == 0 {
            return;
        }
        session.active = now;
        side.meter.counts.sent_bytes += more;
        if let Protocol::Echo(kept) = &mut session.protocol {
            let full = kept.len() >= KEPT;
            kept.drain(..(more as usize).min(kept.len()));
            // a datagram may name any source: for none of them memory is kept
            let most = if side.script.datagrams { 0 } else { KEPT_IDLE };
            let is_idle = kept.is_empty() && kept.capacity() > most;
            let spare = if is_idle { std::mem::take(kept) } else { Vec::new() };
            if full && let Some(connection) = session.connection {
                self.actions.push_back(Action::Receive(connection));
            }
            if is_idle && self.spare.len() < SPARE_MAX {
                self.spare.push(spare);
            }
        }
        let room = match self.session(key).map(|session| &mut session.protocol) {
            Some(Protocol::Dns(dns)) => dns.drop_taken(more),
            _ => false,
        };
        if room {
            self.answer_stream(now, key);
        }
        self.room_again(now, key);
    }

    fn room(&self, key: SessionKey) -> usize {
        let keeps = |side: u16| self.sides.get(usize::from(side)).is_some_and(|side| side.keeps);
        if let Some(packed) = self.sessions.get_packed(key) {
            let reads_on = !packed.has_fate() && !packed.has_said_all();
            let keeps = packed.has_no_protocol() && reads_on && keeps(packed.side);
            return if packed.reads_little() || keeps { KEPT } else { ROOM };
        }
        let Some(session) = self.sessions.get_whole(key) else { return 0 };
        let keeps = keeps(session.side);
        match &session.protocol {
            Protocol::None if keeps && session.fate.is_none() && session.wait != Wait::End => {
                KEPT.saturating_sub(session.early.len())
            }
            Protocol::None
            | Protocol::HttpClient(_)
            | Protocol::Messages(_)
            | Protocol::OneWay(_) => ROOM,
            Protocol::Echo(kept) => KEPT.saturating_sub(kept.len()),
            Protocol::Dns(dns) => dns.room(),
            Protocol::Misbehaviour(state) => state.room(),
            Protocol::HttpServer(http) if http.pending.is_empty() => KEPT,
            Protocol::HttpServer(_) if session.fate.is_some() => ROOM,
            Protocol::HttpServer(_) => 0,
            Protocol::Text(_) | Protocol::HttpMessage(_) => KEPT,
        }
    }

    fn received(&mut self, now: Nanos, key: SessionKey, mut bytes: &[u8]) {
        let Some((session, side)) = self.both(key) else { return };
        if !session.lingers {
            session.active = now;
        }
        side.meter.counts.delivered_bytes += bytes.len() as u64;
        if session.fate.is_some() {
            return;
        }
        if let Some(greeting) = &mut session.greeting {
            greeting.delivered += bytes.len() as u64;
            if side.end == End::Server && !greeting.read(&mut bytes) {
                return self.give_up(now, key, Fate::Malformed);
            }
        }
        if bytes.is_empty() {
            return;
        }
        first_byte(session, side, now);
        match &session.protocol {
            Protocol::None | Protocol::Messages(_) => self.received_data(now, key, bytes),
            Protocol::HttpClient(_) => self.received_response(now, key, bytes),
            Protocol::HttpServer(_) => self.received_request(now, key, bytes),
            Protocol::OneWay(_) => self.received_one_way(now, key, bytes),
            Protocol::Echo(_) => self.received_echo(key, bytes),
            Protocol::Dns(_) => self.received_dns(now, key, bytes),
            Protocol::Misbehaviour(_) => self.received_misbehaving(key, bytes.len()),
            Protocol::Text(_) | Protocol::HttpMessage(_) => self.take_bytes(now, key, bytes),
        }
    }

    fn message_end(&mut self, key: SessionKey, offset: u64) -> Option<u64> {
        self.session(key)?.out.message_end(offset)
    }

    fn message(&mut self, now: Nanos, key: SessionKey, bytes: &[u8]) {
        self.received_message(now, key, bytes);
    }

    fn answers_anything(&self, ProfileId(group): ProfileId) -> bool {
        let program = self.groups.get(usize::from(group)).map(|of| of.plan.program);
        // a response of DNS says that it is one; messages one way are answered by nobody
        program.is_some_and(|program| !matches!(program, "dns" | "messages"))
    }

    fn misbehaved(&mut self, key: SessionKey) {
        if let Some((_, side)) = self.both(key) {
            side.meter.counts.misbehaved += 1;
        }
    }

    fn answered(&mut self, key: SessionKey) {
        if let Some((_, side)) = self.both(key) {
            side.meter.counts.answered_misbehaviour += 1;
        }
    }

    fn unwanted(&mut self, ProfileId(group): ProfileId) {
        let side = self.groups.get(usize::from(group)).and_then(|of| of.server);
        if let Some(side) = side.and_then(|side| self.sides.get_mut(usize::from(side))) {
            side.meter.counts.unexpected += 1;
        }
    }

    fn tls(&mut self, now: Nanos, key: SessionKey, event: TlsEvent) {
        self.tls_event(now, key, event);
    }

    fn peer_closed(&mut self, now: Nanos, key: SessionKey) {
        let is_early = self.is_client(key) && !self.is_over(now, key);
        let Some((session, side)) = self.both(key) else { return };
        session.peer_closed = true;
        session.active = now;
        if session.fate.is_some() {
            return;
        }
        let is_within = match &session.protocol {
            Protocol::OneWay(state) => state.is_within_message(),
            _ => false,
        };
        match session.wait {
            Wait::Data(wait) if wait.got == 0 && answers_without_end(side) => {
                // there are no more requests, and none is begun
                (session.pc, session.wait) = (side.script.ops.len() as u16, Wait::Nothing);
                self.run(now, key);
            }
            Wait::Data(_) | Wait::Text(_) => self.give_up(now, key, Fate::ClosedEarly),
            _ if is_within && session.wait != Wait::End => {
                self.give_up(now, key, Fate::ClosedEarly);
            }
            Wait::Protocol => self.peer_closed_protocol(now, key),
            // a client that sends until its group stops was to be heard to its end
            Wait::Unlimited if is_early => self.give_up(now, key, Fate::ClosedEarly),
            Wait::PeerClose | Wait::Unlimited => self.go_on(now, key),
            // what has no end by itself ends
            Wait::Time if acts_by_time(session, side) => self.go_on(now, key),
            // what is left to do needs nothing of the peer, or will see that it is gone
            Wait::Nothing
            | Wait::Connect
            | Wait::Handshake
            | Wait::Room
            | Wait::Time
            | Wait::Slot
            | Wait::Stop
            | Wait::End => {}
            // a datagram's peer closes nothing
            Wait::Message(_) => {}
        }
    }

    fn ended(&mut self, now: Nanos, key: SessionKey, reason: Reason, stats: ConnectionStats) {
        let is_left = self.gates.are_over() && self.group(key).is_some_and(|of| of.plan.both_ends);
        let Some((session, side)) = self.both(key) else { return };
        let said_all = session.wait == Wait::End;
        let was_closed_by_run = session.fate == Some(Fate::Unfinished) && session.established;
        side.meter.counts.handshakes_closed += u64::from(session.wait == Wait::Handshake);
        if session.fate == Some(Fate::ClosedEarly) && side.end == End::Server && is_left {
            // it was the end of the run, and not the client
            session.fate = Some(Fate::Unfinished);
        }
        if reason == Reason::Reset && session.fate.is_none() {
            note_end_by_peer(session, side, now);
        }
        let counts = &mut side.meter.counts;
        let closed_early = match session.fate {
            Some(fate) => fate == Fate::ClosedEarly,
            None => reason == Reason::InOrder && !said_all,
        };
        if let (true, Protocol::HttpClient(http)) = (closed_early, &session.protocol) {
            // a server that ends its connections after some number of requests shows in it
            counts.closed_early_responses += u64::from(http.received);
        }
        let count = match (session.fate, reason) {
            // what the programs decided counts before what the stack says of the connection
            (Some(Fate::Done), _) => &mut counts.in_order,
            (Some(Fate::ClosedEarly), _) => &mut counts.closed_early,
            (Some(Fate::Malformed), _) => &mut counts.malformed,
            (Some(Fate::TlsFailed), _) => &mut counts.tls_failed,
            (Some(Fate::TimedOut), _) => &mut counts.timed_out,
            (Some(Fate::Abandoned), _) => &mut counts.abandoned,
            (Some(Fate::Unfinished), _) => &mut counts.unfinished,
            (None, Reason::InOrder) if said_all => &mut counts.in_order,
            (None, Reason::InOrder) => &mut counts.closed_early,
            (None, Reason::Refused) => &mut counts.refused,
            (None, Reason::TimedOut) => &mut counts.timed_out,
            (None, Reason::Reset) => &mut counts.reset,
            (None, Reason::Unreachable) => &mut counts.unreachable,
            (None, Reason::Failed(_)) => &mut counts.failed_here,
            (None, Reason::Aborted) => &mut counts.abandoned,
        };
        *count += 1;
        let in_order = matches!((session.fate, reason), (None, Reason::InOrder) if said_all)
            || session.fate == Some(Fate::Done);
        if in_order && side.end == End::Client {
            side.meter.took(SessionTime::Session, session.planned, session.started, now);
        }
        if let Some(greeting) = session.greeting.take().filter(|_| session.established) {
            side.meter.numbered(NumberedSession {
                number: match side.end {
                    End::Client => Some(session.number),
                    End::Server => greeting.number(),
                },
                sent: session.out.taken().saturating_add(stats.in_flight),
                delivered: greeting.delivered,
                in_order,
            });
        }
        side.meter.note_end(now);
        side.meter.counts.acked_bytes += stats.acked;
        side.meter.counts.sent_bytes += stats.in_flight;
        side.meter.counts.data_segments += stats.data_segments;
        side.meter.counts.retransmitted_segments += stats.retransmitted;
        if let Some(rtt) = stats.rtt {
            side.meter.rtt(rtt);
        }
        if was_closed_by_run {
            self.closing.ended(now);
        }
        self.remove(now, key, in_order);
    }
}

/// The first byte since a request began.
pub(crate) fn first_byte(session: &mut Session, side: &mut Side, now: Nanos) {
    if session.in_request && !std::mem::replace(&mut session.first_byte, true) {
        let (planned, actual) = session.request;
        side.meter.took(SessionTime::FirstByte, planned, actual, now);
    }
}

/// Whether it is a server that answers as many requests as come.
fn answers_without_end(side: &Side) -> bool {
    let is_endless = |op: &Op| matches!(op, Op::Repeat { times: ENDLESS, .. });
    side.answers && side.script.ops.iter().any(is_endless)
}

impl Conversations {
    /// The session `key`.
    #[inline]
    pub(crate) fn session(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.sessions.get_mut(key)
    }

    /// The group of the session `key`.
    pub(crate) fn group(&self, key: SessionKey) -> Option<&Group> {
        let side = self.sessions.side(key)?;
        let group = self.group_of.get(usize::from(side))?;
        self.groups.get(usize::from(*group))
    }

    /// The session `key`, and its side.
    #[inline]
    pub(crate) fn both(&mut self, key: SessionKey) -> Option<(&mut Session, &mut Side)> {
        let session = self.sessions.get_mut(key)?;
        let side = self.sides.get_mut(usize::from(session.side))?;
        Some((session, side))
    }

    /// The session failed in this way: it is given up.
    pub(crate) fn give_up(&mut self, now: Nanos, key: SessionKey, fate: Fate) {
        let Some(session) = self.session(key) else { return };
        if session.fate.is_some() {
            return;
        }
        session.fate = Some(fate);
        session.wait = Wait::End;
        session.out.cut();
        let action = match session.connection {
            // a peer that went in order is left in order
            Some(connection) if session.peer_closed && session.out.is_taken() => {
                session.finished = true;
                Action::Finish(connection)
            }
            Some(connection) => Action::Abort(connection),
            None => return,
        };
        self.actions.push_back(action);
        let timeout = self.timeout(key);
        self.set_alarm(key, now.saturating_add(timeout));
    }

    /// A session is established: groups may wait for that.
    pub(crate) fn tell_established(&self, now: Nanos, key: SessionKey) {
        let Some(side) = self.sessions.side(key) else { return };
        if let Some(&group) = self.group_of.get(usize::from(side))
            && self.groups.get(usize::from(group)).is_some_and(|of| of.is_watched)
        {
            self.gates.established(group, now);
        }
    }

    /// Whether the session is that of a client.
    pub(crate) fn is_client(&mut self, key: SessionKey) -> bool {
        self.both(key).is_some_and(|(_, side)| side.end == End::Client)
    }

    /// The group of the session `key`, to change it.
    pub(crate) fn group_mut(&mut self, key: SessionKey) -> Option<&mut Group> {
        let side = self.sessions.side(key)?;
        let group = self.group_of.get(usize::from(side))?;
        self.groups.get_mut(usize::from(*group))
    }

    /// How long the session waits for its peer.
    pub(crate) fn timeout(&self, key: SessionKey) -> Nanos {
        let Some(side) = self.sessions.side(key) else { return Nanos::MAX };
        let group = self.group_of.get(usize::from(side));
        let Some(group) = group.and_then(|&of| self.groups.get(usize::from(of))) else {
            return Nanos::MAX;
        };
        match group.server == Some(side) {
            true => group.plan.timeout.saturating_add(group.plan.silence),
            false => group.plan.timeout,
        }
    }

    /// Its alarm rings: a time that it waited for, or the end of its patience.
    pub(crate) fn alarm(&mut self, now: Nanos, key: SessionKey) {
        let timeout = self.timeout(key);
        let Some(session) = self.session(key) else { return };
        match session.wait {
            Wait::Time | Wait::Slot => return self.go_on(now, key),
            Wait::Nothing => return,
            // what is left to do needs nothing of the peer
            Wait::Stop if session.peer_closed => return,
            _ => {}
        }
        let patience = session.patience(timeout);
        if patience > now {
            return self.set_alarm(key, patience);
        }
        let (fate, connection, wait) = (session.fate, session.connection, session.wait);
        let asks = wait == Wait::Protocol && session.protocol.asks_by_dns();
        let is_datagrams = self.both(key).is_some_and(|(_, side)| side.script.datagrams);
        if is_datagrams && (asks || matches!(wait, Wait::Message(_) | Wait::Text(_))) {
            return self.message_timed_out(now, key);
        }
        let Some(session) = self.session(key) else { return };
        if is_datagrams && session.finished && fate.is_none() && session.out.is_taken() {
            // it has said all: the network is about to end it
            return self.set_alarm(key, now.saturating_add(timeout));
        }
        if session.wait == Wait::Protocol && session.protocol.is_idle() {
            // a server leaves a connection on which nothing happens, as servers do
            session.protocol = Protocol::None;
            return self.go_on(now, key);
        }
        if session.wait == Wait::End && fate.is_some() {
            self.actions.extend(connection.map(Action::Abort));
            return self.set_alarm(key, now.saturating_add(timeout));
        }
        session.fate = Some(if session.lingers { Fate::Malformed } else { Fate::TimedOut });
        session.wait = Wait::End;
        if wait == Wait::Handshake {
            self.handshake_timed_out(key);
        }
        self.actions.extend(connection.map(Action::Abort));
    }
}
