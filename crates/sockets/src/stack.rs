//! The stack: listeners, connections, the turns of its loop.
//!
//! A turn waits once, notes what the events say, and lets connections work in the order in which something happened to them,
//! until each had its share or the turn has had its: connections with much to send neither delay others nor what the loop does
//! at `until`. What is left is done in the next turn, which then does not wait.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, accept_with, bind, connect, getsockname, listen, sockopt,
};
use wirebeat_converse::newcomers::PEERS_MAX;
use wirebeat_converse::stack::{
    Action, Connection, ConnectionSample, ConnectionStats, ProfileId, Programs, Reason, SessionKey,
    Stack,
};
use wirebeat_host::set_bind_address_no_port;
use wirebeat_units::Nanos;

use crate::error::{SocketsError, reason};
use crate::poller::{Poller, clock};
use crate::profile::{Profile, Protocol, TriedProfile, system};
use crate::slab::Slab;
use crate::socket::{Buffers, Next, TcpSocket, WATCHED, Worker};
use crate::zero_copy::ZeroCopyCounters;

/// Connections that a listener accepts in a turn.
const ACCEPTS: usize = 64;
/// How long it takes to open a connection, or to note that one is established and to end it: some system calls.
const TURN: Nanos = Nanos::from_micros(25);
/// Connections that work in a turn.
const WORKED: usize = 128;
/// Of which so many may work on when the end of the turn has come.
const WORKED_AT_LEAST: usize = 16;
/// Bytes that are moved in a turn, roughly.
const MOVED: usize = 1 << 20;
/// How long nothing is accepted after descriptors or memory ran out: what gives them back takes time, and the kernel would
/// report the waiting connection at once, again and again.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(10);
/// Marks of listeners' events lie above all numbers of connections.
const LISTENER: u64 = 1 << 32;

/// What a stack may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at a time. More fail with `Failure::NoDescriptor`; those of peers wait in the backlog.
    pub connections: usize,
    /// Over UDP: the most peers of all servers, which need no descriptors.
    pub peers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 1 << 20, peers: PEERS_MAX }
    }
}

/// What happened to the stack itself, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Turns of the loop.
    pub turns: u64,
    /// Events that the kernel reported.
    pub events: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections of peers that the programs did not want: they got RST.
    pub unwanted: u64,
    /// Connections of peers that failed before they were accepted.
    pub accepts_failed: u64,
    /// Times that accepting paused, because descriptors, memory or the limit had run out.
    pub accepts_paused: u64,
    /// Connections that this machine could not even begin to open.
    pub connects_failed: u64,
}

#[derive(Debug)]
struct Listener {
    fd: OwnedFd,
    profile: ProfileId,
    /// There are connections to accept.
    ready: bool,
}

/// Sends without a copy of one profile, by who opened the connection.
#[derive(Clone, Copy, Debug, Default)]
struct ZeroCopies {
    opened: ZeroCopyCounters,
    accepted: ZeroCopyCounters,
}

impl ZeroCopies {
    fn of(&mut self, socket: &TcpSocket) -> &mut ZeroCopyCounters {
        if socket.opened_here { &mut self.opened } else { &mut self.accepted }
    }
}

/// The sockets of one thread as a [`Stack`]. Dropping it resets all connections.
#[derive(Debug)]
pub struct HostStack {
    poller: Poller,
    profiles: Vec<TriedProfile>,
    limits: Limits,
    listeners: Vec<Listener>,
    sockets: Slab<TcpSocket>,
    /// Those with work to do, in order.
    queue: VecDeque<u32>,
    /// When accepting goes on after a pause.
    accepts_again: Option<Nanos>,
    buffers: Buffers,
    counters: Counters,
    /// One for each profile.
    zero_copies: Vec<ZeroCopies>,
}

impl HostStack {
    /// A stack without listeners. [`ProfileId`] counts the profiles from 0.
    ///
    /// # Errors
    /// A profile that the system refuses; no epoll.
    pub fn new(profiles: Vec<Profile>, limits: Limits) -> Result<HostStack, SocketsError> {
        let tried: Result<Vec<_>, _> = profiles.into_iter().map(TriedProfile::new).collect();
        let profiles = tried?;
        Ok(HostStack {
            poller: Poller::new().map_err(SocketsError::Setup)?,
            zero_copies: vec![ZeroCopies::default(); profiles.len()],
            profiles,
            limits,
            listeners: Vec::new(),
            sockets: Slab::new(),
            queue: VecDeque::new(),
            accepts_again: None,
            buffers: Buffers::new(),
            counters: Counters::default(),
        })
    }

    /// Listens at an address (port 0: the system chooses) and returns it with its port. `[::]` is IPv6 alone.
    ///
    /// # Errors
    /// By name where the address is taken, not of this machine, or needs a right.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        profile: ProfileId,
        backlog: u32,
    ) -> Result<SocketAddr, SocketsError> {
        let of_listener = |error| SocketsError::of_listener(address, error);
        let tried = self.profiles.get(usize::from(profile.0));
        let tried = tried.ok_or(SocketsError::NoProfile(profile.0))?;
        let fd = tried.socket(family(address)).map_err(of_listener)?;
        sockopt::set_socket_reuseaddr(&fd, true).map_err(of_listener)?;
        if tried.profile.shared_port {
            sockopt::set_socket_reuseport(&fd, true).map_err(of_listener)?;
        }
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true).map_err(of_listener)?;
        }
        bind(&fd, &address).map_err(of_listener)?;
        listen(&fd, i32::try_from(backlog).unwrap_or(i32::MAX)).map_err(of_listener)?;
        let bound = getsockname(&fd).and_then(SocketAddr::try_from).map_err(of_listener)?;
        let mark = LISTENER + self.listeners.len() as u64;
        self.poller.add(&fd, mark, EventFlags::IN).map_err(of_listener)?;
        self.listeners.push(Listener { fd, profile, ready: false });
        Ok(bound)
    }

    /// What happened to the stack itself.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What became of sends without a copy, of the connections that were opened from here with a profile and of those that were
    /// accepted; `None` where it has no such sends.
    pub fn zero_copies(&self, profile: ProfileId) -> Option<[ZeroCopyCounters; 2]> {
        let at = usize::from(profile.0);
        self.profiles.get(at)?.profile.zero_copy.as_ref()?;
        self.zero_copies.get(at).map(|of| [of.opened, of.accepted])
    }

    #[cfg(test)]
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &TcpSocket> {
        self.sockets.iter()
    }

    fn connect(
        &mut self,
        now: Nanos,
        session: SessionKey,
        attempt: Attempt,
        programs: &mut dyn Programs,
    ) {
        let opened = match self.sockets.len() < self.limits.connections {
            true => self.open_socket(&attempt),
            false => Err(Errno::MFILE),
        };
        match opened {
            Ok(fd) => {
                let socket = TcpSocket::opening(fd, session);
                let socket = socket.of_profile(attempt.profile, self.asked(attempt.profile));
                let number = self.sockets.insert(socket);
                programs.opening(now, session, Connection(number));
            }
            Err(error) => {
                self.counters.connects_failed += 1;
                programs.ended(now, session, reason(error), ConnectionStats::default());
            }
        }
    }

    fn asked(&self, profile: ProfileId) -> Option<&Profile> {
        self.profiles.get(usize::from(profile.0)).map(|tried| &tried.profile)
    }

    /// A socket that is on its way to be connected, watched under the number that comes next.
    fn open_socket(&self, attempt: &Attempt) -> Result<OwnedFd, Errno> {
        let Attempt { profile, local, remote } = *attempt;
        let profile = self.profiles.get(usize::from(profile.0)).ok_or(Errno::INVAL)?;
        let fd = profile.socket(family(remote))?;
        let anywhere = local.ip().is_unspecified();
        match (anywhere, local.port()) {
            (true, 0) => {}
            (_, 0) => {
                // SCTP has no such choice: its own port goes to one association at a time.
                if profile.profile.protocol != Protocol::Sctp {
                    system(set_bind_address_no_port(fd.as_fd()))?;
                }
                bind(&fd, &local)?;
            }
            (_, _) => {
                // One local port may have connections to several peers, and old ones in TIME-WAIT.
                sockopt::set_socket_reuseaddr(&fd, true)?;
                match anywhere {
                    true => bind(&fd, &SocketAddr::new(unspecified(remote), local.port()))?,
                    false => bind(&fd, &local)?,
                }
            }
        }
        match connect(&fd, &remote) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        // Watched from here on only: a socket that is not connected yet reports EPOLLHUP.
        self.poller.add(&fd, self.sockets.next().into(), WATCHED)?;
        Ok(fd)
    }

    fn accept(&mut self, index: usize, now: Nanos, programs: &mut dyn Programs) {
        for _ in 0..ACCEPTS {
            if self.sockets.len() >= self.limits.connections {
                return self.pause_accepting(now);
            }
            let Some(listener) = self.listeners.get(index) else { return };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let fd = match accept_with(&listener.fd, flags) {
                Ok(fd) => fd,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return self.pause_accepting(now);
                }
                // That connection's own error (accept(2)).
                Err(_) => {
                    self.counters.accepts_failed += 1;
                    continue;
                }
            };
            let profile = listener.profile;
            if let Some(tried) = self.profiles.get(usize::from(profile.0)) {
                tried.complete(&fd);
            }
            let number = self.sockets.next();
            let watched = self.poller.add(&fd, number.into(), WATCHED);
            if watched.is_err() {
                self.counters.accepts_failed += 1;
                let _ = sockopt::set_socket_linger(&fd, Some(std::time::Duration::ZERO));
                continue;
            }
            match programs.accepted(now, Connection(number), profile) {
                Some(session) => {
                    self.counters.accepted += 1;
                    let socket = TcpSocket::accepted(fd, session);
                    let socket = socket.of_profile(profile, self.asked(profile));
                    self.sockets.insert(socket);
                }
                None => {
                    self.counters.unwanted += 1;
                    let _ = sockopt::set_socket_linger(&fd, Some(std::time::Duration::ZERO));
                }
            }
        }
    }

    fn pause_accepting(&mut self, now: Nanos) {
        self.counters.accepts_paused += 1;
        self.accepts_again = Some(now.saturating_add(ACCEPT_PAUSE));
        self.watch_listeners(EventFlags::empty());
    }

    fn watch_listeners(&mut self, flags: EventFlags) {
        for (mark, listener) in (LISTENER..).zip(&mut self.listeners) {
            listener.ready = false;
            // Fails on no descriptor that was added before.
            let _ = self.poller.modify(&listener.fd, mark, flags);
        }
    }

    /// Puts what the events say into the queue.
    fn note_events(&mut self) {
        let mut index = 0;
        while let Some((mark, flags)) = self.poller.event(index) {
            index += 1;
            self.counters.events += 1;
            if let Ok(number) = u32::try_from(mark) {
                let Some(socket) = self.sockets.get_mut(number) else { continue };
                socket.note(flags);
                if !std::mem::replace(&mut socket.queued, true) {
                    self.queue.push_back(number);
                }
            } else if let Some(listener) =
                usize::try_from(mark - LISTENER).ok().and_then(|at| self.listeners.get_mut(at))
            {
                listener.ready = true;
            }
        }
    }

    /// Lets a connection work; returns the bytes that it moved.
    fn work(&mut self, number: u32, now: Nanos, programs: &mut dyn Programs) -> usize {
        let Some(socket) = self.sockets.get_mut(number) else { return 0 };
        let at = usize::from(socket.profile.0);
        let asked = self.profiles.get(at).map(|tried| &tried.profile);
        let Some(zero_copies) = self.zero_copies.get_mut(at) else { return 0 };
        let mut worker = Worker {
            now,
            number: Connection(number),
            buffers: &mut self.buffers,
            programs,
            constant: asked.and_then(|asked| asked.zero_copy.as_ref()),
            zero_copies: zero_copies.of(socket),
            moved: 0,
        };
        let next = socket.work(&mut worker);
        let moved = worker.moved;
        match next {
            Next::Wait => {}
            Next::Again => {
                if !std::mem::replace(&mut socket.queued, true) {
                    self.queue.push_back(number);
                }
            }
            Next::End(reason, stats) => {
                let end = End { number, now, reason };
                self.end(end, Some(stats), programs);
            }
        }
        moved
    }

    /// `stats`: what the kernel knew of the connection, where it was asked already.
    fn end(&mut self, end: End, stats: Option<ConnectionStats>, programs: &mut dyn Programs) {
        let End { number, now, reason } = end;
        let Some(socket) = self.sockets.remove(number) else { return };
        let stats = stats.unwrap_or_else(|| socket.stats());
        if let Some(of) = self.zero_copies.get_mut(usize::from(socket.profile.0)) {
            socket.read_last_notices(of.of(&socket));
        }
        if matches!(reason, Reason::Aborted | Reason::Failed(_) | Reason::Unreachable) {
            socket.reset_at_close();
        }
        let session = socket.session;
        drop(socket);
        programs.ended(now, session, reason, stats);
    }

    /// When a turn has to begin at the latest, besides what the caller wants.
    fn wakes_until(&self, now: Nanos, until: Nanos) -> Nanos {
        if !self.queue.is_empty() {
            return now;
        }
        self.accepts_again.map_or(until, |again| until.min(again))
    }
}

/// Where a connection is opened, from where and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub profile: ProfileId,
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// That a connection ended.
#[derive(Clone, Copy, Debug)]
struct End {
    number: u32,
    now: Nanos,
    reason: Reason,
}

impl Stack for HostStack {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        let number = match action {
            Action::Connect { session, profile, local, remote } => {
                let attempt = Attempt { profile, local, remote };
                return self.connect(now, session, attempt, programs);
            }
            Action::Abort(Connection(number)) => {
                let end = End { number, now, reason: Reason::Aborted };
                return self.end(end, None, programs);
            }
            Action::Send(Connection(number))
            | Action::Receive(Connection(number))
            | Action::Finish(Connection(number)) => number,
            // refused by the checks of the language
            Action::Forge(..) => return,
        };
        let Some(socket) = self.sockets.get_mut(number) else { return };
        match action {
            Action::Send(_) => socket.offer(),
            Action::Finish(_) => socket.finish(),
            _ => {}
        }
        // One that waits for its turn anyway does not jump the queue.
        if !socket.queued {
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
        self.counters.turns += 1;
        self.sockets.settle();
        let mut now = self.poller.wait(now, self.wakes_until(now, until));
        if self.accepts_again.is_some_and(|again| again <= now) {
            self.accepts_again = None;
            self.watch_listeners(EventFlags::IN);
        }
        self.note_events();
        for index in 0..self.listeners.len() {
            let listener = self.listeners.get_mut(index);
            if listener.is_some_and(|listener| std::mem::take(&mut listener.ready)) {
                self.accept(index, now, programs);
            }
        }
        let mut moved = 0;
        for worked in 0..self.queue.len().min(WORKED) {
            now = clock();
            if moved >= MOVED || worked >= WORKED_AT_LEAST && now >= until {
                break;
            }
            let Some(number) = self.queue.pop_front() else { break };
            if let Some(socket) = self.sockets.get_mut(number) {
                socket.queued = false;
                moved += self.work(number, now, programs);
            }
        }
        now
    }

    fn open(&self) -> usize {
        self.sockets.len()
    }

    fn look(&mut self, Connection(number): Connection) -> Option<ConnectionSample> {
        self.sockets.get_mut(number)?.look()
    }
}

impl Drop for HostStack {
    fn drop(&mut self) {
        self.sockets.iter().for_each(TcpSocket::reset_at_close);
    }
}

pub(crate) fn family(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// The address of no interface in particular, of this address's family.
pub(crate) fn unspecified(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}
