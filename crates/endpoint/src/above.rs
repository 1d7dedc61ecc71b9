//! What our TCP tells the programs of sessions, and asks them.
//!
//! The TCP calls from within, so what it has to be asked in return waits in [`Wishes`] until it has returned.

use std::net::{IpAddr, Ipv4Addr};

use wirebeat_converse::stack::{
    Connection, ConnectionStats, Failure, ProfileId, Programs, Reason, SessionKey,
};
use wirebeat_stack::{Accept, Application, Event, Received, Session, SessionId, Totals, Tuple};
use wirebeat_units::Nanos;

use crate::kept::AllKept;
use crate::misbehaving::Misbehaving;
use crate::own::Listeners;

/// How many bytes of data without an end the TCP has beyond what it may send: more than an acknowledgment lets go, and little enough
/// that a session that is cut ends soon.
const AHEAD: u64 = 256 << 10;
/// Bytes that programs may make at a time.
const SCRATCH: usize = 16 << 10;

/// What the TCP is to be asked when it has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The program took so many bytes.
    Consume(SessionId, u32),
    /// There is more to send.
    Offer(SessionId),
    /// Nobody wants the session.
    Abort(SessionId),
}

/// A connection, as far as it is known here, in 4 bytes, since connections are millions: the number of its session, below 2^30, and
/// two marks.
#[derive(Clone, Copy, Debug)]
struct Known(u32);

impl Known {
    /// It has bytes in [`AllKept`].
    const KEEPS: u32 = 1 << 31;
    /// There is more to send than was offered.
    const MORE: u32 = 1 << 30;
    /// The number that no session has.
    const NOBODY: u32 = Known::MORE - 1;
    /// No connection.
    const NONE: Known = Known(Known::NOBODY);

    fn key(self) -> Option<SessionKey> {
        let key = self.0 & Known::NOBODY;
        (key != Known::NOBODY).then_some(SessionKey(key))
    }

    fn has(self, mark: u32) -> bool {
        self.0 & mark != 0
    }

    fn mark(&mut self, mark: u32, has: bool) {
        self.0 = if has { self.0 | mark } else { self.0 & !mark };
    }
}

/// What lies between the TCP and the programs.
#[derive(Debug)]
pub(crate) struct Between {
    connections: Vec<Known>,
    kept: AllKept,
    pub(crate) wishes: Vec<Wish>,
    pub(crate) misbehaving: Misbehaving,
    scratch: Box<[u8]>,
    totals: Totals,
}

impl Between {
    /// Without sessions, and with room for `sessions`, of which memory is used as they are opened.
    pub(crate) fn new(sessions: usize) -> Between {
        Between {
            connections: Vec::with_capacity(sessions),
            kept: AllKept::default(),
            wishes: Vec::with_capacity(1024),
            misbehaving: Misbehaving::default(),
            scratch: vec![0; SCRATCH].into(),
            totals: Totals::default(),
        }
    }

    fn known(&mut self, SessionId(id): SessionId) -> Option<&mut Known> {
        self.connections.get_mut(id as usize)
    }

    /// The session of a connection.
    pub(crate) fn key(&self, SessionId(id): SessionId) -> Option<SessionKey> {
        self.connections.get(id as usize)?.key()
    }

    fn has(&self, SessionId(id): SessionId, mark: u32) -> bool {
        self.connections.get(id as usize).is_some_and(|known| known.has(mark))
    }

    /// The connection `id` is that of `key`.
    pub(crate) fn begin(&mut self, id: SessionId, SessionKey(key): SessionKey) {
        let needed = id.0 as usize + 1;
        if self.connections.len() < needed {
            self.connections.resize(needed, Known::NONE);
        }
        if let Some(known) = self.known(id) {
            *known = Known(key & Known::NOBODY);
        }
    }

    /// How many more bytes the program of a connection has to send than the `offered` that were offered before; `limit` is up to where
    /// they may leave now.
    pub(crate) fn offer(
        &mut self,
        id: SessionId,
        (limit, offered): (u64, u64),
        programs: &mut dyn Programs,
    ) -> u64 {
        let Some(key) = self.key(id) else { return 0 };
        let most = limit.saturating_add(AHEAD);
        let end = programs.offer(key, most);
        if let Some(known) = self.known(id) {
            known.mark(Known::MORE, end == most);
        }
        end.saturating_sub(offered)
    }

    /// All that the program has to send, which has an end by now.
    pub(crate) fn offer_rest(
        &mut self,
        id: SessionId,
        offered: u64,
        programs: &mut dyn Programs,
    ) -> u64 {
        let Some(key) = self.key(id) else { return 0 };
        let end = programs.offer(key, u64::MAX);
        if let Some(known) = self.known(id) {
            known.mark(Known::MORE, false);
        }
        end.saturating_sub(offered)
    }

    /// Hands on what is kept of a connection, as far as its program has room.
    pub(crate) fn hand_on(&mut self, now: Nanos, id: SessionId, programs: &mut dyn Programs) {
        let Some(key) = self.key(id) else { return };
        let mut taken = 0;
        loop {
            // the program may end the session, but not the connection: that waits for the TCP
            let room = programs.room(key);
            let Some(kept) = self.kept.get(id.0) else { break };
            let Some(bytes) = kept.next().filter(|_| room > 0) else { break };
            let bytes = bytes.get(..room).unwrap_or(bytes);
            let len = bytes.len();
            programs.received(now, key, bytes);
            self.kept.took(id.0, len);
            taken += len;
        }
        self.consumed(id, taken);
        if self.kept.get(id.0).is_some_and(|kept| kept.is_empty()) {
            if let Some(known) = self.known(id) {
                known.mark(Known::KEEPS, false);
            }
            if self.kept.remove(id.0) {
                programs.peer_closed(now, key);
            }
        }
    }

    fn consumed(&mut self, id: SessionId, bytes: usize) {
        if let Ok(bytes @ 1..) = u32::try_from(bytes) {
            self.wishes.push(Wish::Consume(id, bytes));
        }
    }
}

/// Has the program of a session write what it sends from the byte at `offset` on.
pub(crate) fn fill(
    into: &mut [u8],
    (key, offset): (SessionKey, u64),
    scratch: &mut [u8],
    programs: &mut dyn Programs,
) {
    let mut at = 0;
    while let Some(rest) = into.get_mut(at..).filter(|rest| !rest.is_empty()) {
        let bytes = programs.payload(key, offset + at as u64, scratch);
        let len = bytes.len().min(rest.len());
        match (rest.get_mut(..len), bytes.get(..len)) {
            (Some(rest), Some(bytes)) if len > 0 => rest.copy_from_slice(bytes),
            // what was offered is there; a program that lost it sends zeros
            _ => return rest.fill(0),
        }
        at += len;
    }
}

/// The programs, as the TCP sees them for the length of a call.
pub(crate) struct Above<'a> {
    pub(crate) now: Nanos,
    pub(crate) between: &'a mut Between,
    pub(crate) programs: &'a mut dyn Programs,
    pub(crate) listeners: &'a Listeners,
    /// The number of profiles for clients: those of servers follow.
    pub(crate) of_clients: u8,
}

impl Above<'_> {
    /// A connection that a peer opened, or that we did.
    fn established(&mut self, session: Session) {
        let connection = Connection(session.id.0);
        if let Some(key) = self.between.key(session.id) {
            return self.programs.established(self.now, key, connection);
        }
        let profile = ProfileId(session.user as u16);
        match self.programs.accepted(self.now, connection, profile) {
            Some(key) => self.between.begin(session.id, key),
            None => self.between.wishes.push(Wish::Abort(session.id)),
        }
    }

    fn closed(&mut self, session: Session, reason: wirebeat_stack::Reason) {
        let id = session.id;
        // what is kept belongs to the program, as far as it wants it
        self.between.hand_on(self.now, id, self.programs);
        let Some(key) = self.between.key(id) else { return };
        let told = self.between.kept.remove(id.0);
        if told {
            self.programs.peer_closed(self.now, key);
        }
        if let Some(known) = self.between.known(id) {
            *known = Known::NONE;
        }
        self.between.misbehaving.forget(id);
        let stats = ConnectionStats {
            rtt: self.between.totals.rtt,
            acked: self.between.totals.acked,
            in_flight: self.between.totals.in_flight,
            data_segments: self.between.totals.data_segments,
            retransmitted: self.between.totals.retransmitted,
        };
        self.programs.ended(self.now, key, reason_of(reason), stats);
    }
}

/// The same reason, as programs know it.
pub(crate) fn reason_of(reason: wirebeat_stack::Reason) -> Reason {
    match reason {
        wirebeat_stack::Reason::InOrder => Reason::InOrder,
        wirebeat_stack::Reason::Refused => Reason::Refused,
        wirebeat_stack::Reason::TimedOut => Reason::TimedOut,
        wirebeat_stack::Reason::Unreachable => Reason::Unreachable,
        wirebeat_stack::Reason::Reset => Reason::Reset,
        wirebeat_stack::Reason::Aborted => Reason::Aborted,
    }
}

/// Whether it is the address of one station on some network.
fn is_station(address: IpAddr) -> bool {
    let any = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    !any && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Why a connection could not be opened, as programs know it.
pub(crate) fn failure_of(error: wirebeat_stack::OpenError) -> Failure {
    use wirebeat_stack::OpenError;
    match error {
        OpenError::InUse => Failure::NoPort,
        OpenError::Full | OpenError::Addresses => Failure::NoMemory,
        OpenError::Versions | OpenError::Profile => Failure::NotAllowed,
    }
}

impl Application for Above<'_> {
    fn accept(&mut self, tuple: &Tuple) -> Accept {
        // RFC 1122 §4.2.3.10: an answer would go to everybody
        if !is_station(tuple.remote) {
            return Accept::Ignore;
        }
        match self.listeners.find(tuple.local, tuple.local_port, false) {
            Some(group) => {
                let profile = self.of_clients.saturating_add(group as u8);
                Accept::Session { profile, user: group.into() }
            }
            None => Accept::Refuse,
        }
    }

    fn payload(&mut self, session: Session, offset: u64, into: &mut [u8]) {
        let Some(key) = self.between.key(session.id) else { return into.fill(0) };
        fill(into, (key, offset), &mut self.between.scratch, self.programs);
    }

    fn received(&mut self, session: Session, received: Received<'_>) {
        let (id, now) = (session.id, self.now);
        let Some(key) = self.between.key(id) else { return };
        let Received { offset, bytes, in_order } = received;
        let end = offset.saturating_add(bytes.len() as u64);
        let keeps = self.between.has(id, Known::KEEPS);
        if keeps {
            self.between.kept.keep(id.0, 0, offset, bytes);
            if in_order >= end {
                self.between.hand_on(now, id, self.programs);
            }
            return;
        }
        let mut rest = bytes;
        // without anything kept, the program has all that came before
        if end <= in_order {
            while !rest.is_empty() {
                let room = self.programs.room(key).min(rest.len());
                let (some, later) = rest.split_at(room);
                if some.is_empty() {
                    break;
                }
                self.programs.received(now, key, some);
                rest = later;
            }
            self.between.consumed(id, bytes.len() - rest.len());
        }
        if !rest.is_empty() {
            let begin = end - rest.len() as u64;
            let handed = begin.min(in_order);
            self.between.kept.keep(id.0, handed, begin, rest);
            if let Some(known) = self.between.known(id) {
                known.mark(Known::KEEPS, true);
            }
        }
    }

    fn event(&mut self, session: Session, event: Event) {
        match event {
            Event::Established => self.established(session),
            Event::Acknowledged { offset } => {
                let Some(key) = self.between.key(session.id) else { return };
                if self.between.has(session.id, Known::MORE) {
                    self.between.wishes.push(Wish::Offer(session.id));
                }
                self.programs.taken(self.now, key, offset);
            }
            Event::PeerClosed => {
                let Some(key) = self.between.key(session.id) else { return };
                match self.between.kept.get(session.id.0) {
                    Some(kept) => kept.peer_closed = true,
                    None => self.programs.peer_closed(self.now, key),
                }
            }
            Event::Closed(reason) => self.closed(session, reason),
        }
    }

    fn has_room_out_of_order(&mut self, _session: Session, len: usize) -> bool {
        self.between.kept.has_room(len)
    }

    fn ending(&mut self, _session: Session, totals: &Totals) {
        self.between.totals = *totals;
    }
}
