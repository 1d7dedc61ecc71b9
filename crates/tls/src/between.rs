//! What the TCP tells and asks, with TLS between it and the programs.
//!
//! What the TCP is to be asked in return waits until it has returned: it may call from within.

use std::collections::VecDeque;
use std::net::IpAddr;

use rustls::{ClientConnection, Connection as Tls, ServerConnection};
use wirebeat_converse::stack::{
    Action, Connection, ConnectionStats, ProfileId, Programs, Reason, SessionKey, TlsCause,
    TlsEvent,
};
use wirebeat_units::Nanos;

use crate::profile::Ends;
use crate::secured::{Phase, RECORD, ROOM, Secured, cause};

/// Numbers of connections from here on are of those that no TCP has yet, or of datagrams.
const CONNECTIONS_MAX: usize = 1 << 28;
/// The number of no session.
const NOBODY: u32 = u32::MAX;

/// What is known of the place of a session.
#[derive(Debug, Default)]
enum Place {
    /// It has no TLS, or there is none.
    #[default]
    Plain,
    /// A client of this profile asked for a connection to there.
    Opening(ProfileId, IpAddr),
    /// It has a connection.
    Secured(Box<Secured>),
}

/// All sessions of a thread, as far as they have TLS.
#[derive(Debug)]
pub(crate) struct Layer {
    /// By the number of the profile.
    profiles: Vec<Option<Ends>>,
    /// By the number of the session.
    places: Vec<Place>,
    /// The sessions of connections.
    connections: Vec<u32>,
    /// What the TCP is to be asked.
    pub(crate) actions: VecDeque<Action>,
    /// What time it is: cryptography takes some. `None`: no time passes in a call.
    pub(crate) clock: Option<fn() -> Nanos>,
    scratch: Box<[u8]>,
    plain: Box<[u8]>,
}

impl Layer {
    pub(crate) fn new(profiles: Vec<Option<Ends>>) -> Layer {
        Layer {
            profiles: profiles.into_iter().map(|ends| ends.map(Ends::for_thread)).collect(),
            places: Vec::new(),
            connections: Vec::new(),
            actions: VecDeque::new(),
            clock: None,
            scratch: vec![0; 4 * RECORD].into(),
            plain: vec![0; RECORD].into(),
        }
    }

    fn ends(&self, ProfileId(profile): ProfileId) -> Option<&Ends> {
        self.profiles.get(usize::from(profile))?.as_ref()
    }

    fn secured(&self, SessionKey(key): SessionKey) -> Option<&Secured> {
        match self.places.get(key as usize)? {
            Place::Secured(of) => Some(of),
            _ => None,
        }
    }

    fn secured_mut(&mut self, SessionKey(key): SessionKey) -> Option<&mut Secured> {
        match self.places.get_mut(key as usize)? {
            Place::Secured(of) => Some(of),
            _ => None,
        }
    }

    fn set(&mut self, SessionKey(key): SessionKey, place: Place) {
        let key = key as usize;
        if self.places.len() <= key {
            self.places.resize_with(key + 1, Place::default);
        }
        if let Some(found) = self.places.get_mut(key) {
            *found = place;
        }
    }

    /// A session of `key` has a connection, over which TLS begins.
    fn begin(&mut self, key: SessionKey, connection: Connection, tls: Tls) {
        let number = connection.0 as usize;
        if number < CONNECTIONS_MAX && self.connections.len() <= number {
            self.connections.resize((number + 1).next_power_of_two(), NOBODY);
        }
        if let Some(session) = self.connections.get_mut(number) {
            *session = key.0;
        }
        self.set(key, Place::Secured(Box::new(Secured::new(connection, tls))));
    }

    /// The session of a connection that has TLS.
    pub(crate) fn key(&self, Connection(number): Connection) -> Option<SessionKey> {
        let key = *self.connections.get(number as usize)?;
        (key != NOBODY).then_some(SessionKey(key))
    }

    #[cfg(test)]
    pub(crate) fn held(&self, session: SessionKey) -> usize {
        self.secured(session).map_or(0, Secured::memory)
    }

    /// A client is going to ask for a connection.
    pub(crate) fn opens(&mut self, key: SessionKey, profile: ProfileId, remote: IpAddr) {
        if self.ends(profile).is_some_and(|ends| ends.client.is_some()) {
            self.set(key, Place::Opening(profile, remote));
        }
    }

    /// The TCP is asked for this now.
    pub(crate) fn asks(&mut self, action: &Action) {
        if let Action::Send(connection) = action
            && let Some(key) = self.key(*connection)
            && let Some(of) = self.secured_mut(key)
        {
            of.offers = false;
        }
    }
}

/// What lies between a TCP and the programs for the length of a call.
pub(crate) struct Between<'a> {
    pub(crate) layer: &'a mut Layer,
    pub(crate) programs: &'a mut dyn Programs,
}

impl Between<'_> {
    /// Does something with a session that has TLS, and the programs. `None`: it has none.
    fn with<T>(
        &mut self,
        key: SessionKey,
        work: impl FnOnce(&mut Work<'_>, &mut Secured) -> T,
    ) -> Option<T> {
        let place = self.layer.places.get_mut(key.0 as usize)?;
        let Place::Secured(of) = place else { return None };
        let mut work_of = Work {
            key,
            programs: &mut *self.programs,
            actions: &mut self.layer.actions,
            clock: self.layer.clock,
            scratch: &mut self.layer.scratch,
            plain: &mut self.layer.plain,
        };
        Some(work(&mut work_of, of))
    }

    /// There is more to send, above.
    pub(crate) fn sends(&mut self, key: SessionKey) {
        self.with(key, |work, of| {
            work.pull(of);
        });
    }

    /// There is room again, above. Whether there is here.
    pub(crate) fn has_room(&mut self, now: Nanos, key: SessionKey) -> bool {
        let room = self.with(key, |work, of| {
            work.read(now, of, &[]);
            of.held.is_empty() && of.backlog == 0
        });
        room.unwrap_or(true)
    }

    /// The program has nothing to send after what it has now. Whether the caller is to tell the TCP so.
    pub(crate) fn finishes(&mut self, key: SessionKey) -> bool {
        let tells = self.with(key, |work, of| {
            of.finishing = true;
            match of.phase {
                Phase::Open => {
                    work.pull(of);
                    work.offer(of);
                }
                Phase::Handshake | Phase::Failed => {
                    return !std::mem::replace(&mut of.finished, true);
                }
            }
            false
        });
        tells.unwrap_or(true)
    }
}

/// What work on a session needs besides it.
struct Work<'a> {
    key: SessionKey,
    programs: &'a mut dyn Programs,
    actions: &'a mut VecDeque<Action>,
    clock: Option<fn() -> Nanos>,
    scratch: &'a mut [u8],
    plain: &'a mut [u8],
}

impl Work<'_> {
    /// The TCP is told that there is more to send, once.
    fn offer(&mut self, of: &mut Secured) {
        if !std::mem::replace(&mut of.offers, true) {
            self.actions.push_back(Action::Send(of.connection));
        }
    }

    /// Pulls what the program has to send, as far as there is room for it.
    fn pull(&mut self, of: &mut Secured) {
        if of.phase != Phase::Open || of.finished {
            return;
        }
        loop {
            of.more = of.is_full();
            if of.more {
                return;
            }
            let mut filled = 0;
            while let Some(room) = self.plain.get_mut(filled..).filter(|room| !room.is_empty()) {
                let offset = of.pulled.saturating_add(filled as u64);
                let bytes = self.programs.payload(self.key, offset, self.scratch);
                let len = bytes.len().min(room.len());
                match (room.get_mut(..len), bytes.get(..len)) {
                    (Some(room), Some(bytes)) if len > 0 => room.copy_from_slice(bytes),
                    _ => break,
                }
                filled += len;
            }
            let Some(plain) = self.plain.get(..filled).filter(|plain| !plain.is_empty()) else {
                break;
            };
            of.encrypt(plain);
        }
        if of.finishing {
            of.close();
            of.finished = true;
            self.actions.push_back(Action::Finish(of.connection));
        }
    }

    /// Takes in ciphertext: what is held first, then `bytes`. What there is no room for is held.
    fn read(&mut self, now: Nanos, of: &mut Secured, bytes: &[u8]) {
        if of.phase == Phase::Failed {
            return;
        }
        let held = std::mem::take(&mut of.held);
        let (mut first, mut second) = (&held[..], bytes);
        if !first.is_empty() || of.backlog > 0 {
            self.decrypt(now, of, &mut first);
        }
        if first.is_empty() {
            self.decrypt(now, of, &mut second);
        }
        if !(first.is_empty() && second.is_empty()) && of.phase != Phase::Failed {
            of.held = [first, second].concat();
        }
        self.tell_closed(now, of);
    }

    /// Decrypts and hands on until nothing is left of `bytes`, or there is no room for what comes out.
    fn decrypt(&mut self, now: Nanos, of: &mut Secured, bytes: &mut &[u8]) {
        loop {
            if !self.hand_on(now, of) || bytes.is_empty() {
                return;
            }
            let decrypted = of.decrypt(bytes);
            if of.keep() {
                self.offer(of);
            }
            if of.phase == Phase::Handshake && of.is_through() {
                of.phase = Phase::Open;
                let (resumed, suite) = of.how();
                let completed = TlsEvent::Completed { resumed, suite };
                // with what it took to verify and to sign
                let now = self.clock.map_or(now, |clock| clock().max(now));
                self.programs.tls(now, self.key, completed);
            }
            if let Err(error) = decrypted {
                self.hand_on(now, of);
                *bytes = &[];
                let (cause, why) = cause(&error);
                return self.fail(now, of, cause, why);
            }
        }
    }

    /// Hands plaintext on, as far as the program has room. Whether none is left.
    fn hand_on(&mut self, now: Nanos, of: &mut Secured) -> bool {
        while of.backlog > 0 {
            let room = self.programs.room(self.key);
            if room == 0 {
                return false;
            }
            let (programs, key) = (&mut *self.programs, self.key);
            if !of.plaintext(room, |bytes| programs.received(now, key, bytes)) {
                break;
            }
        }
        true
    }

    /// Gives the session up: the peer is told why, and that nothing follows.
    fn fail(&mut self, now: Nanos, of: &mut Secured, cause: TlsCause, why: String) {
        of.phase = Phase::Failed;
        (of.backlog, of.held) = (0, Vec::new());
        self.programs.tls(now, self.key, TlsEvent::Failed(cause, why));
        self.offer(of);
        if !std::mem::replace(&mut of.finished, true) {
            self.actions.push_back(Action::Finish(of.connection));
        }
    }

    /// Tells the program that its peer closed, where that is so and all that it sent was handed on.
    fn tell_closed(&mut self, now: Nanos, of: &mut Secured) {
        let closed = of.close_notified || of.tcp_closed;
        if !closed || of.told_closed || of.backlog > 0 || !of.held.is_empty() {
            return;
        }
        if of.phase == Phase::Handshake {
            let why = "the peer closed the connection within the handshake".to_owned();
            self.fail(now, of, TlsCause::Closed, why);
        } else if !of.close_notified && of.phase == Phase::Open && !of.finished {
            self.programs.tls(now, self.key, TlsEvent::Truncated);
        }
        of.told_closed = true;
        self.programs.peer_closed(now, self.key);
    }
}

impl Programs for Between<'_> {
    fn accepted(
        &mut self,
        now: Nanos,
        connection: Connection,
        profile: ProfileId,
    ) -> Option<SessionKey> {
        let key = self.programs.accepted(now, connection, profile)?;
        let config = self.layer.ends(profile).and_then(|ends| ends.server.clone());
        match config.map(ServerConnection::new) {
            None => {}
            Some(Ok(tls)) => self.layer.begin(key, connection, Tls::Server(tls)),
            Some(Err(_)) => self.layer.actions.push_back(Action::Abort(connection)),
        }
        Some(key)
    }

    fn opening(&mut self, now: Nanos, session: SessionKey, connection: Connection) {
        self.programs.opening(now, session, connection);
    }

    fn established(&mut self, now: Nanos, session: SessionKey, connection: Connection) {
        self.programs.established(now, session, connection);
        let place = self.layer.places.get(session.0 as usize);
        let Some(&Place::Opening(profile, remote)) = place else { return };
        let ends = self.layer.ends(profile).and_then(|ends| ends.client.as_ref());
        let tls = ends.map(|end| ClientConnection::new(end.config.clone(), end.name(remote)));
        match tls {
            Some(Ok(tls)) => {
                self.layer.begin(session, connection, Tls::Client(tls));
                self.with(session, |work, of| work.offer(of));
            }
            // the system gives no random numbers
            Some(Err(error)) => {
                let (cause, why) = cause(&error);
                self.programs.tls(now, session, TlsEvent::Failed(cause, why));
                self.layer.actions.push_back(Action::Abort(connection));
            }
            None => {}
        }
    }

    fn payload<'a>(
        &'a mut self,
        session: SessionKey,
        offset: u64,
        scratch: &'a mut [u8],
    ) -> &'a [u8] {
        match self.with(session, |work, of| {
            if offset >= of.end() {
                work.pull(of);
            }
        }) {
            Some(()) => self.layer.secured(session).map_or(&[], |of| of.from(offset)),
            None => self.programs.payload(session, offset, scratch),
        }
    }

    fn offer(&mut self, session: SessionKey, most: u64) -> u64 {
        match self.with(session, |work, of| {
            work.pull(of);
            of.end().min(most)
        }) {
            Some(end) => end,
            None => self.programs.offer(session, most),
        }
    }

    fn taken(&mut self, now: Nanos, session: SessionKey, offset: u64) {
        let told = self.with(session, |work, of| {
            let taken = of.take(offset);
            work.programs.taken(now, work.key, taken);
            if of.more && !of.is_full() {
                work.offer(of);
            }
        });
        if told.is_none() {
            self.programs.taken(now, session, offset);
        }
    }

    fn room(&self, session: SessionKey) -> usize {
        match self.layer.secured(session) {
            None => self.programs.room(session),
            Some(of) if of.phase != Phase::Open => ROOM,
            Some(of) if of.backlog > 0 || !of.held.is_empty() => 0,
            Some(_) if self.programs.room(session) == 0 => 0,
            Some(_) => ROOM,
        }
    }

    fn received(&mut self, now: Nanos, session: SessionKey, bytes: &[u8]) {
        if self.with(session, |work, of| work.read(now, of, bytes)).is_none() {
            self.programs.received(now, session, bytes);
        }
    }

    fn message_end(&mut self, session: SessionKey, offset: u64) -> Option<u64> {
        self.programs.message_end(session, offset)
    }

    fn message(&mut self, now: Nanos, session: SessionKey, bytes: &[u8]) {
        self.programs.message(now, session, bytes);
    }

    fn misbehaved(&mut self, session: SessionKey) {
        self.programs.misbehaved(session);
    }

    fn answered(&mut self, session: SessionKey) {
        self.programs.answered(session);
    }

    fn answers_anything(&self, profile: ProfileId) -> bool {
        self.programs.answers_anything(profile)
    }

    fn unwanted(&mut self, profile: ProfileId) {
        self.programs.unwanted(profile);
    }

    fn peer_closed(&mut self, now: Nanos, session: SessionKey) {
        let told = self.with(session, |work, of| {
            of.close_tcp();
            work.tell_closed(now, of);
        });
        if told.is_none() {
            self.programs.peer_closed(now, session);
        }
    }

    fn ended(&mut self, now: Nanos, session: SessionKey, reason: Reason, stats: ConnectionStats) {
        let mut stats = stats;
        if let Some(place) = self.layer.places.get_mut(session.0 as usize)
            && let Place::Secured(of) = std::mem::take(place)
        {
            stats = of.stats(stats);
            let connection = of.connection;
            if let Some(known) = self.layer.connections.get_mut(connection.0 as usize) {
                *known = NOBODY;
            }
            // another may have its number soon
            self.layer.actions.retain(|action| match action {
                Action::Send(of)
                | Action::Receive(of)
                | Action::Finish(of)
                | Action::Abort(of)
                | Action::Forge(of, _) => *of != connection,
                Action::Connect { .. } => true,
            });
        }
        self.programs.ended(now, session, reason, stats);
    }
}
