//! A TCP that loses nothing: what one end sends is there for the other after a delay, in pieces of a given length.

use std::net::SocketAddr;

use wirebeat_units::Nanos;

use crate::stack::{
    Action, Connection, ConnectionStats, ProfileId, Programs, Reason, SessionKey, Stack,
};

/// From one end to the other.
const DELAY: Nanos = Nanos::from_micros(50);

#[derive(Debug, Default)]
pub(super) struct End {
    session: Option<SessionKey>,
    /// What was sent and not handed over: bytes with the time from which they are there.
    arrived: Vec<u8>,
    from: Nanos,
    sent: u64,
    wants: bool,
    fin: bool,
    fin_wanted: bool,
    fin_told: bool,
    gone: bool,
}

/// See the module. Connections 2n and 2n + 1 are the ends of one.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) ends: Vec<End>,
    pub(super) opening: Vec<(u32, ProfileId, SocketAddr, Nanos)>,
    /// The most bytes that are handed over at once.
    pub(super) piece: usize,
    /// Whether connections are refused.
    pub(super) refuses: bool,
    /// Whether nothing answers.
    pub(super) silent: bool,
    /// Whether nothing is taken of what is sent: the peer does not read.
    pub(super) full: bool,
    /// A byte of what is sent is changed, at this offset of a server's stream.
    pub(super) damage: Option<u64>,
    pub(super) remotes: Vec<SocketAddr>,
    pub(super) locals: Vec<SocketAddr>,
}

impl Memory {
    pub(super) fn new(piece: usize) -> Memory {
        Memory {
            ends: Vec::new(),
            opening: Vec::new(),
            piece,
            refuses: false,
            silent: false,
            full: false,
            damage: None,
            remotes: Vec::new(),
            locals: Vec::new(),
        }
    }

    fn end(&mut self, Connection(n): Connection) -> Option<&mut End> {
        self.ends.get_mut(n as usize).filter(|end| !end.gone)
    }

    /// Takes what the session sends.
    fn pull(&mut self, now: Nanos, connection: Connection, programs: &mut dyn Programs) {
        if self.full {
            return;
        }
        let damage = self.damage;
        let Some(session) = self.end(connection).and_then(|end| end.session) else { return };
        let mut scratch = vec![0; 16 << 10];
        // an endless message has to stop somewhere
        for _ in 0..2 {
            let Some(end) = self.end(connection) else { return };
            let offset = end.sent;
            let mut bytes = programs.payload(session, offset, &mut scratch).to_vec();
            if bytes.is_empty() {
                break;
            }
            end.sent += bytes.len() as u64;
            let sent = end.sent;
            if let Some(at) =
                damage.filter(|at| connection.0 % 2 == 1 && (offset..sent).contains(at))
            {
                bytes[(at - offset) as usize] ^= 1;
            }
            if let Some(other) = self.ends.get_mut((connection.0 ^ 1) as usize) {
                if other.arrived.is_empty() {
                    other.from = now.saturating_add(DELAY);
                }
                other.arrived.extend_from_slice(&bytes);
            }
            programs.taken(now, session, sent);
        }
        // what has no end goes on with the next turn
        if let Some(end) = self.end(connection) {
            end.wants = end.session.is_some_and(|session| {
                !programs.payload(session, end.sent, &mut scratch).is_empty()
            });
            end.fin = end.fin_wanted && !end.wants;
        }
    }

    fn finish_if_done(&mut self, now: Nanos, n: usize, programs: &mut dyn Programs) {
        let peer = &self.ends[n ^ 1];
        let peer_done = peer.fin || peer.gone;
        let end = &mut self.ends[n];
        if end.fin && end.fin_told && peer_done && !end.gone {
            end.gone = true;
            if let Some(session) = end.session {
                let stats = ConnectionStats { acked: end.sent, ..ConnectionStats::default() };
                programs.ended(now, session, Reason::InOrder, stats);
            }
        }
    }
}

impl Stack for Memory {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        match action {
            Action::Connect { session, profile, local, remote } => {
                let n = self.ends.len() as u32;
                self.ends.push(End { session: Some(session), ..End::default() });
                self.ends.push(End::default());
                self.opening.push((n, profile, remote, now.saturating_add(DELAY)));
                self.locals.push(local);
                programs.opening(now, session, Connection(n));
            }
            Action::Send(connection) => {
                if let Some(end) = self.end(connection) {
                    end.wants = true;
                }
                self.pull(now, connection, programs);
            }
            Action::Receive(_) | Action::Forge(..) => {}
            Action::Finish(connection) => {
                self.pull(now, connection, programs);
                if let Some(end) = self.end(connection) {
                    // once everything was taken
                    end.fin = !end.wants;
                    end.fin_wanted = true;
                }
            }
            Action::Abort(connection) => {
                let Some(end) = self.end(connection) else { return };
                end.gone = true;
                if let Some(session) = end.session {
                    programs.ended(now, session, Reason::Aborted, ConnectionStats::default());
                }
                let other = &mut self.ends[(connection.0 ^ 1) as usize];
                if !std::mem::replace(&mut other.gone, true)
                    && let Some(session) = other.session
                {
                    programs.ended(now, session, Reason::Reset, ConnectionStats::default());
                }
            }
        }
    }

    fn turn(&mut self, now: Nanos, until: Nanos, programs: &mut dyn Programs) -> Nanos {
        let busy = !self.opening.is_empty() && !self.silent
            || self.ends.iter().enumerate().any(|(n, end)| {
                let told = end.fin_told || !self.ends[n ^ 1].fin;
                !end.gone
                    && end.session.is_some()
                    && (!end.arrived.is_empty() || end.wants || !told)
            });
        let step = if busy { Nanos::from_micros(10) } else { Nanos::MAX };
        // a turn that does not wait takes some time all the same
        let now =
            until.min(now.saturating_add(step)).max(now.saturating_add(Nanos::from_micros(1)));
        for (n, profile, remote, at) in std::mem::take(&mut self.opening) {
            if at > now || self.silent {
                if !self.ends[n as usize].gone {
                    self.opening.push((n, profile, remote, at));
                }
                continue;
            }
            self.remotes.push(remote);
            let Some(session) =
                self.ends[n as usize].session.filter(|_| !self.ends[n as usize].gone)
            else {
                continue;
            };
            if self.refuses {
                self.ends[n as usize].gone = true;
                programs.ended(now, session, Reason::Refused, ConnectionStats::default());
                continue;
            }
            programs.established(now, session, Connection(n));
            let accepted = programs.accepted(now, Connection(n + 1), profile);
            self.ends[n as usize + 1].session = accepted;
        }
        for n in 0..self.ends.len() {
            if self.ends[n].gone {
                continue;
            }
            let connection = Connection(n as u32);
            if std::mem::take(&mut self.ends[n].wants) {
                self.pull(now, connection, programs);
            }
            let Some(session) = self.ends[n].session else { continue };
            if self.ends[n].from <= now {
                let mut arrived = std::mem::take(&mut self.ends[n].arrived);
                let mut at = 0;
                while at < arrived.len() && !self.ends[n].gone {
                    let room = programs.room(session).min(self.piece).min(arrived.len() - at);
                    if room == 0 {
                        break;
                    }
                    programs.received(now, session, &arrived[at..at + room]);
                    at += room;
                }
                arrived.drain(..at);
                arrived.append(&mut self.ends[n].arrived);
                self.ends[n].arrived = arrived;
            }
            let peer_fin = self.ends[n ^ 1].fin;
            let end = &mut self.ends[n];
            if peer_fin && end.arrived.is_empty() && !std::mem::replace(&mut end.fin_told, true) {
                programs.peer_closed(now, session);
            }
            self.finish_if_done(now, n, programs);
        }
        now
    }

    fn open(&self) -> usize {
        self.ends.iter().filter(|end| !end.gone && end.session.is_some()).count()
    }
}
