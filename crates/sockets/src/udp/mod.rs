//! The system's UDP sockets as a [`Stack`] of messages: a datagram for each message of a program, a message for each datagram.
//!
//! A client's session is a connected socket of its own, so that the system hands it what its peer sends, and tells when nobody listens
//! there (ICMP port unreachable). A server's sessions share the socket of their listener and are told apart by the addresses of their
//! peers (`listener.rs`). There is nothing to open and nothing to close: a session is open when it has a socket or a first datagram,
//! and ends when its program does. `socket.rs` sends and receives.

mod listener;
mod profile;
mod socket;

use std::collections::VecDeque;
use std::net::SocketAddr;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{bind, connect, getsockname, sockopt};
use wirebeat_converse::newcomers::{Newcomers, may_be_server};
use wirebeat_converse::stack::{
    Action, Connection, ConnectionStats, ProfileId, Programs, Reason, SessionKey, Stack,
};
use wirebeat_units::Nanos;

use crate::error::{SocketsError, reason};
use crate::poller::{Poller, clock};
use crate::slab::Slab;
use crate::stack::{Attempt, Limits, unspecified};
use listener::Listener;
pub use profile::UdpProfile;
use socket::{BLOCKED, Buffers, Datagrams, Next, Place, WATCHED};

/// Sessions that work in a turn before time is looked at again.
const WORKED: usize = 256;
/// Datagrams that a listener takes in a turn.
const TAKEN: usize = 256;
/// How long a turn with work to do may take: starts that are nearer go first.
const TURN: Nanos = Nanos::from_micros(20);
/// Marks of listeners' events lie above all numbers of sessions.
const LISTENER: u64 = 1 << 32;

/// What happened to the stack itself, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that were received.
    pub received: u64,
    /// Sessions of peers.
    pub accepted: u64,
    /// Datagrams of new peers that were dropped: there are as many as there may be, they may be servers themselves, or the programs did
    /// not want them.
    pub unwanted: u64,
    /// Sessions that this machine could not even begin.
    pub connects_failed: u64,
}

/// A session, by its socket.
#[derive(Debug)]
struct UdpSession {
    session: SessionKey,
    place: Place,
    datagrams: Datagrams,
    /// Datagrams that came.
    heard: u64,
    /// Whether it is among those with work to do.
    queued: bool,
}

/// The UDP sockets of one thread as a [`Stack`].
#[derive(Debug)]
pub struct UdpStack {
    poller: Poller,
    profiles: Vec<UdpProfile>,
    limits: Limits,
    listeners: Vec<Listener>,
    sessions: Slab<UdpSession>,
    /// How many of them are clients' own.
    clients: usize,
    newcomers: Newcomers,
    /// Those with work to do, in order.
    queue: VecDeque<u32>,
    buffers: Buffers,
    counters: UdpCounters,
}

impl UdpStack {
    /// A stack without listeners. [`ProfileId`] counts the profiles from 0.
    ///
    /// # Errors
    /// A profile that the system refuses; no epoll.
    pub fn new(profiles: Vec<UdpProfile>, limits: Limits) -> Result<UdpStack, SocketsError> {
        profiles.iter().try_for_each(UdpProfile::check)?;
        Ok(UdpStack {
            poller: Poller::new().map_err(SocketsError::Setup)?,
            profiles,
            limits,
            listeners: Vec::new(),
            sessions: Slab::new(),
            clients: 0,
            newcomers: Newcomers::default(),
            queue: VecDeque::new(),
            buffers: Buffers::new(),
            counters: UdpCounters::default(),
        })
    }

    /// Takes datagrams at an address (port 0: the system chooses) and returns it with its port. `[::]` is IPv6 alone.
    ///
    /// # Errors
    /// By name where the address is taken, not of this machine, or needs a right.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        profile: ProfileId,
    ) -> Result<SocketAddr, SocketsError> {
        let of_listener = |error| SocketsError::of_listener(address, error);
        let of = self.profiles.get(usize::from(profile.0));
        let of = of.ok_or(SocketsError::NoProfile(profile.0))?;
        let fd = of.socket(address).map_err(of_listener)?;
        profile::large_buffers(&fd);
        if of.shared_port {
            sockopt::set_socket_reuseport(&fd, true).map_err(of_listener)?;
        }
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true).map_err(of_listener)?;
        }
        bind(&fd, &address).map_err(of_listener)?;
        let bound = getsockname(&fd).and_then(SocketAddr::try_from).map_err(of_listener)?;
        let mark = LISTENER + self.listeners.len() as u64;
        self.poller.add(&fd, mark, WATCHED).map_err(of_listener)?;
        self.listeners.push(Listener::new(fd, profile, bound.port()));
        Ok(bound)
    }

    /// What happened to the stack itself.
    pub fn counters(&self) -> UdpCounters {
        self.counters
    }

    fn connect(
        &mut self,
        now: Nanos,
        session: SessionKey,
        attempt: &Attempt,
        programs: &mut dyn Programs,
    ) {
        let opened = match self.clients < self.limits.connections {
            true => self.open_socket(attempt),
            false => Err(Errno::MFILE),
        };
        let place = match opened {
            Ok(place) => place,
            Err(error) => {
                self.counters.connects_failed += 1;
                return programs.ended(now, session, reason(error), ConnectionStats::default());
            }
        };
        self.clients += 1;
        let datagrams = Datagrams::default();
        let queued = false;
        let number =
            self.sessions.insert(UdpSession { session, place, datagrams, heard: 0, queued });
        programs.opening(now, session, Connection(number));
        // there is no handshake: it may speak
        programs.established(now, session, Connection(number));
    }

    /// A socket that talks to its peer alone, watched under the number that comes next.
    fn open_socket(&self, attempt: &Attempt) -> Result<Place, Errno> {
        let Attempt { profile, local, remote } = *attempt;
        let profile = self.profiles.get(usize::from(profile.0)).ok_or(Errno::INVAL)?;
        let fd = profile.socket(remote)?;
        match (local.ip().is_unspecified(), local.port()) {
            (true, 0) => {}
            (true, port) => {
                // sessions to several peers may have one port
                sockopt::set_socket_reuseaddr(&fd, true)?;
                bind(&fd, &SocketAddr::new(unspecified(remote), port))?;
            }
            (false, port) => {
                if port > 0 {
                    sockopt::set_socket_reuseaddr(&fd, true)?;
                }
                bind(&fd, &local)?;
            }
        }
        connect(&fd, &remote)?;
        self.poller.add(&fd, self.sessions.next().into(), WATCHED)?;
        Ok(Place::Own(fd))
    }

    /// Puts what the events say into the queue.
    fn note_events(&mut self) {
        let mut index = 0;
        while let Some((mark, flags)) = self.poller.event(index) {
            index += 1;
            if let Ok(number) = u32::try_from(mark) {
                let Some(session) = self.sessions.get_mut(number) else { continue };
                session.datagrams.note(flags);
                if let (Place::Own(fd), EventFlags::OUT) = (&session.place, flags & EventFlags::OUT)
                {
                    let _ = self.poller.modify(fd, mark, WATCHED);
                }
                self.enqueue(number);
            } else if let Some(listener) =
                usize::try_from(mark - LISTENER).ok().and_then(|at| self.listeners.get_mut(at))
            {
                listener.note(flags);
                if listener.writable && !listener.blocked.is_empty() {
                    // fails on no descriptor that was added before
                    let _ = self.poller.modify(&listener.fd, mark, WATCHED);
                    self.queue.extend(listener.blocked.drain(..));
                }
            }
        }
    }

    fn enqueue(&mut self, number: u32) {
        let Some(session) = self.sessions.get_mut(number) else { return };
        if !std::mem::replace(&mut session.queued, true) {
            self.queue.push_back(number);
        }
    }

    /// Lets a session work.
    fn work(&mut self, number: u32, now: Nanos, programs: &mut dyn Programs) {
        let Some(UdpSession { session, place, datagrams, .. }) = self.sessions.get_mut(number)
        else {
            return;
        };
        let listener = match place {
            Place::Own(_) => None,
            Place::Peer { listener, .. } => self.listeners.get_mut(*listener),
        };
        let mut worker = socket::Worker {
            now,
            session: *session,
            place,
            listener,
            buffers: &mut self.buffers,
            programs,
            counters: &mut self.counters,
        };
        match datagrams.work(&mut worker) {
            Next::Wait => {}
            Next::Blocked => match place {
                Place::Own(fd) => {
                    let _ = self.poller.modify(fd, number.into(), BLOCKED);
                }
                Place::Peer { listener: index, .. } => {
                    let Some(listener) = self.listeners.get_mut(*index) else { return };
                    if listener.blocked.is_empty() {
                        let mark = LISTENER + *index as u64;
                        let _ = self.poller.modify(&listener.fd, mark, BLOCKED);
                    }
                    listener.blocked.push(number);
                    // its turn comes with the listener's
                    if let Some(session) = self.sessions.get_mut(number) {
                        session.queued = true;
                    }
                }
            },
            Next::Again => self.enqueue(number),
            Next::End(reason) => self.end(number, now, reason, programs),
        }
    }

    fn end(&mut self, number: u32, now: Nanos, reason: Reason, programs: &mut dyn Programs) {
        let Some(gone) = self.sessions.remove(number) else { return };
        match gone.place {
            Place::Own(_) => self.clients = self.clients.saturating_sub(1),
            Place::Peer { listener, address } => {
                if let Some(listener) = self.listeners.get_mut(listener) {
                    listener.peers.remove(&address);
                }
            }
        }
        programs.ended(now, gone.session, reason, ConnectionStats::default());
    }

    /// Takes what has come at listener number `index`.
    fn take(&mut self, index: usize, programs: &mut dyn Programs) {
        for _ in 0..TAKEN {
            let Some(listener) = self.listeners.get_mut(index) else { return };
            let Some((address, length)) = listener.take(&mut self.buffers.received) else { return };
            let now = clock();
            self.counters.received += 1;
            let profile = listener.profile;
            let known = listener.peers.get(&address).copied();
            let number = known.or_else(|| self.accept(now, index, address, profile, programs));
            let Some(session) = number.and_then(|number| self.sessions.get_mut(number)) else {
                self.counters.unwanted += 1;
                continue;
            };
            session.heard += 1;
            let bytes = self.buffers.received.get(..length).unwrap_or_default();
            programs.message(now, session.session, bytes);
            // the answer leaves at once, and does not wait for those to others
            session.datagrams.offer();
            if let Some(number) = number.filter(|_| !session.queued) {
                self.work(number, now, programs);
            }
        }
    }

    /// A session with a peer that is new.
    fn accept(
        &mut self,
        now: Nanos,
        index: usize,
        address: SocketAddr,
        profile: ProfileId,
        programs: &mut dyn Programs,
    ) -> Option<u32> {
        let port = self.listeners.get(index)?.port;
        let may_loop = programs.answers_anything(profile) && may_be_server(address, port);
        if may_loop || !self.has_room(now, programs) {
            programs.unwanted(profile);
            return None;
        }
        let session = programs.accepted(now, Connection(self.sessions.next()), profile)?;
        let place = Place::Peer { listener: index, address };
        let (datagrams, queued) = (Datagrams::default(), false);
        let number =
            self.sessions.insert(UdpSession { session, place, datagrams, heard: 0, queued });
        let UdpStack { newcomers, sessions, .. } = self;
        newcomers.add(number, session, |number, session| said_one_thing(sessions, number, session));
        self.counters.accepted += 1;
        self.listeners.get_mut(index)?.peers.insert(address, number);
        Some(number)
    }

    /// Whether there is room for another peer; one that said one thing alone makes it.
    fn has_room(&mut self, now: Nanos, programs: &mut dyn Programs) -> bool {
        if self.sessions.len().saturating_sub(self.clients) < self.limits.peers {
            return true;
        }
        let UdpStack { newcomers, sessions, .. } = self;
        let gone = newcomers.take(|number, session| said_one_thing(sessions, number, session));
        gone.into_iter().for_each(|number| self.end(number, now, Reason::Aborted, programs));
        gone.is_some()
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.listeners.iter().any(Listener::is_ready)
    }
}

/// Whether a peer's session is there, and the peer said one thing alone.
fn said_one_thing(sessions: &Slab<UdpSession>, number: u32, session: SessionKey) -> bool {
    sessions.get(number).is_some_and(|of| {
        matches!(of.place, Place::Peer { .. }) && of.session == session && of.heard <= 1
    })
}

impl Stack for UdpStack {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        let number = match action {
            Action::Connect { session, profile, local, remote } => {
                let attempt = Attempt { profile, local, remote };
                return self.connect(now, session, &attempt, programs);
            }
            Action::Abort(Connection(number)) => {
                return self.end(number, now, Reason::Aborted, programs);
            }
            Action::Send(Connection(number))
            | Action::Receive(Connection(number))
            | Action::Finish(Connection(number)) => number,
            // refused by the checks of the language
            Action::Forge(..) => return,
        };
        let Some(session) = self.sessions.get_mut(number) else { return };
        match action {
            Action::Send(_) => session.datagrams.offer(),
            Action::Finish(_) => session.datagrams.finish(),
            _ => {}
        }
        // one that waits for its turn anyway does not jump the queue
        if !session.queued {
            self.work(number, now, programs);
        }
    }

    fn longest_turn(&self) -> Nanos {
        TURN
    }

    fn is_behind(&self) -> bool {
        !self.queue.is_empty()
    }

    fn spin(&mut self, until: Nanos) -> Nanos {
        loop {
            let now = clock();
            if now >= until {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    fn turn(&mut self, now: Nanos, until: Nanos, programs: &mut dyn Programs) -> Nanos {
        self.sessions.settle();
        let until = if self.has_work() { now } else { until };
        let mut now = self.poller.wait(now, until);
        self.note_events();
        for index in 0..self.listeners.len() {
            self.take(index, programs);
        }
        for _ in 0..self.queue.len().min(WORKED) {
            now = clock();
            let Some(number) = self.queue.pop_front() else { break };
            if let Some(session) = self.sessions.get_mut(number) {
                session.queued = false;
                self.work(number, now, programs);
            }
        }
        now
    }

    fn open(&self) -> usize {
        self.sessions.len()
    }
}
