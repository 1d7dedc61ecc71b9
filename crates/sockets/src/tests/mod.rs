//! Tests over the loopback interface, against the stack itself and against the standard library's sockets.
//!
//! [`Script`] is a small set of programs: streams of a known pattern, echoes, sinks. Nothing here asserts how long anything takes;
//! [`until`] ends a test that hangs.

mod exchange;
mod profiles;
mod sctp;
mod trouble;
mod udp;
mod zero_copy;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirebeat_converse::stack::{
    Action, Connection, ConnectionStats, ProfileId, Programs, Reason, SessionKey, Stack,
};
use wirebeat_units::Nanos;

use crate::poller::clock;
use crate::{HostStack, Limits, Profile};

/// A prime, so that no buffer's size divides it.
const PERIOD: usize = 65_521;
const LOCAL: &str = "127.0.0.1:0";
const ANYWHERE: &str = "0.0.0.0:0";

/// Two periods of bytes that look like nothing in particular.
fn pattern() -> &'static Arc<[u8]> {
    static PATTERN: std::sync::OnceLock<Arc<[u8]>> = std::sync::OnceLock::new();
    PATTERN.get_or_init(|| {
        let byte = |at: usize| ((at % PERIOD) as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0];
        (0..2 * PERIOD).map(byte).collect()
    })
}

/// The pattern from an offset on, as far as it lies in one piece.
fn stream(offset: u64) -> &'static [u8] {
    &pattern()[(offset % PERIOD as u64) as usize..][..PERIOD]
}

fn is_stream(offset: u64, bytes: &[u8]) -> bool {
    let mut at = offset;
    bytes.chunks(PERIOD).all(|chunk| {
        let same = stream(at)[..chunk.len()] == *chunk;
        at += chunk.len() as u64;
        same
    })
}

/// What a session says.
#[derive(Clone, Debug)]
enum Says {
    /// So many bytes of the pattern, in pieces of at most so many, then FIN (or not).
    Pattern { bytes: u64, piece: usize, finish: bool },
    /// The same bytes, of which the first `head` are made for each send, and the others are there already; then FIN (or not).
    Constant { head: usize, bytes: u64, piece: usize, finish: bool },
    /// What it hears. FIN after the peer's.
    Echo,
}

#[derive(Clone, Debug)]
struct Session {
    says: Says,
    connection: Option<Connection>,
    heard: u64,
    /// What an echo has to say.
    echo: Vec<u8>,
    taken: u64,
    /// How much it hears at most before [`Script::allow`].
    allowed: u64,
    peer_closed: bool,
    end: Option<(Reason, ConnectionStats)>,
}

impl Session {
    fn new(says: Says) -> Self {
        Session {
            says,
            connection: None,
            heard: 0,
            echo: Vec::new(),
            taken: 0,
            allowed: u64::MAX,
            peer_closed: false,
            end: None,
        }
    }

    fn sends(bytes: u64) -> Self {
        Session::new(Says::Pattern { bytes, piece: usize::MAX, finish: true })
    }

    fn holds(bytes: u64) -> Self {
        Session::new(Says::Pattern { bytes, piece: usize::MAX, finish: false })
    }

    fn echoes() -> Self {
        Session::new(Says::Echo)
    }
}

/// Programs by a list.
#[derive(Default)]
struct Script {
    sessions: Vec<Session>,
    /// What an accepted connection becomes; `None`: unwanted.
    accepts: Option<Session>,
    actions: VecDeque<Action>,
}

impl Script {
    fn session(&mut self, session: SessionKey) -> &mut Session {
        let session = &mut self.sessions[session.0 as usize];
        assert_eq!(session.end, None, "nothing is told after the end");
        session
    }

    fn begin(&mut self, key: SessionKey, connection: Connection) {
        let session = self.session(key);
        session.connection = Some(connection);
        if let Says::Pattern { finish, .. } | Says::Constant { finish, .. } = session.says {
            let first = if finish { Action::Finish } else { Action::Send };
            self.actions.push_back(first(connection));
        }
    }

    /// Lets a session hear more.
    fn allow(&mut self, key: u32, bytes: u64) {
        let session = self.session(SessionKey(key));
        session.allowed = session.allowed.saturating_add(bytes);
        let connection = session.connection.unwrap();
        self.actions.push_back(Action::Receive(connection));
    }

    fn connect(&mut self, session: Session, remote: SocketAddr) -> SessionKey {
        let key = SessionKey(self.sessions.len() as u32);
        self.sessions.push(session);
        let local = if remote.is_ipv4() { ANYWHERE } else { "[::]:0" }.parse().unwrap();
        self.actions.push_back(Action::Connect {
            session: key,
            profile: ProfileId(0),
            local,
            remote,
        });
        key
    }

    fn reasons(&self) -> Vec<Option<Reason>> {
        self.sessions.iter().map(|session| session.end.map(|(reason, _)| reason)).collect()
    }
}

impl Programs for Script {
    fn accepted(&mut self, _: Nanos, connection: Connection, _: ProfileId) -> Option<SessionKey> {
        let key = SessionKey(self.sessions.len() as u32);
        self.sessions.push(self.accepts.clone()?);
        self.begin(key, connection);
        Some(key)
    }

    fn opening(&mut self, _: Nanos, session: SessionKey, connection: Connection) {
        assert_eq!(self.session(session).connection.replace(connection), None);
    }

    fn established(&mut self, _: Nanos, session: SessionKey, connection: Connection) {
        assert_eq!(self.session(session).connection, Some(connection));
        self.begin(session, connection);
    }

    fn payload<'a>(
        &'a mut self,
        session: SessionKey,
        offset: u64,
        scratch: &'a mut [u8],
    ) -> &'a [u8] {
        assert!(scratch.len() >= 16 << 10);
        let session = self.session(session);
        assert!(offset >= session.taken, "never before what was taken");
        match session.says {
            Says::Pattern { bytes, piece, .. } => {
                let left = usize::try_from(bytes - offset).unwrap();
                let piece = left.min(piece).min(PERIOD);
                // every other piece is made, every other is there already
                if piece <= scratch.len() && offset.is_multiple_of(2) {
                    scratch[..piece].copy_from_slice(&stream(offset)[..piece]);
                    &scratch[..piece]
                } else {
                    &stream(offset)[..piece]
                }
            }
            Says::Constant { head, bytes, piece, .. } => {
                let left = usize::try_from(bytes - offset).unwrap();
                let at = usize::try_from(offset).unwrap();
                if at < head {
                    let made = &mut scratch[..left.min(head - at)];
                    made.copy_from_slice(&stream(offset)[..made.len()]);
                    return made;
                }
                &stream(offset)[..left.min(piece).min(PERIOD)]
            }
            Says::Echo => &session.echo[offset as usize..],
        }
    }

    fn offer(&mut self, _: SessionKey, most: u64) -> u64 {
        most
    }

    fn taken(&mut self, _: Nanos, session: SessionKey, offset: u64) {
        let session = self.session(session);
        assert!(offset > session.taken);
        session.taken = offset;
    }

    fn room(&self, session: SessionKey) -> usize {
        let session = &self.sessions[session.0 as usize];
        usize::try_from(session.allowed - session.heard).unwrap()
    }

    fn received(&mut self, _: Nanos, session: SessionKey, bytes: &[u8]) {
        let room = self.room(session);
        let session = self.session(session);
        assert!(!bytes.is_empty() && bytes.len() <= room && !session.peer_closed);
        assert!(is_stream(session.heard, bytes), "not what was sent, from {}", session.heard);
        session.heard += bytes.len() as u64;
        if let (Says::Echo, Some(connection)) = (&session.says, session.connection) {
            session.echo.extend_from_slice(bytes);
            self.actions.push_back(Action::Send(connection));
        }
    }

    fn peer_closed(&mut self, _: Nanos, session: SessionKey) {
        let session = self.session(session);
        assert!(!std::mem::replace(&mut session.peer_closed, true), "once");
        if let (Says::Echo, Some(connection)) = (&session.says, session.connection) {
            self.actions.push_back(Action::Finish(connection));
        }
    }

    fn ended(&mut self, _: Nanos, session: SessionKey, reason: Reason, stats: ConnectionStats) {
        self.session(session).end = Some((reason, stats));
    }
}

/// A stack with its programs.
struct Side {
    stack: HostStack,
    script: Script,
}

impl Side {
    fn new() -> Self {
        Side::with(Profile::default(), Limits::default())
    }

    fn with(profile: Profile, limits: Limits) -> Self {
        let stack = HostStack::new(vec![profile], limits).unwrap();
        Side { stack, script: Script::default() }
    }

    /// One that accepts connections as such sessions.
    fn server(accepts: Session) -> (Self, SocketAddr) {
        let mut side = Side::new();
        side.script.accepts = Some(accepts);
        let address = side.stack.listen(LOCAL.parse().unwrap(), ProfileId(0), 4096).unwrap();
        assert_ne!(address.port(), 0);
        (side, address)
    }

    /// Does all actions, and one turn without waiting long.
    fn step(&mut self) {
        let mut now = clock();
        for _ in 0..2 {
            while let Some(action) = self.script.actions.pop_front() {
                self.stack.apply(now, action, &mut self.script);
            }
            let patience = now.saturating_add(Nanos::from_micros(50));
            now = self.stack.turn(now, patience, &mut self.script);
        }
    }

    fn ended(&self) -> bool {
        !self.script.sessions.is_empty() && self.script.sessions.iter().all(|s| s.end.is_some())
    }
}

/// Steps the sides in turn until a condition holds.
fn until(sides: &mut [&mut Side], mut done: impl FnMut(&[&mut Side]) -> bool) {
    let begun = Instant::now();
    while !done(sides) {
        for side in sides.iter_mut() {
            side.step();
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "it hangs");
    }
}
