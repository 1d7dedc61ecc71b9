//! Connections that came and are not part of a test yet.
//!
//! All begin with a greeting: the cookie of iperf3, or the header of iperf 2. The first whose greeting is complete may begin a test;
//! while one runs, those with its cookie are its streams and others are told that the server is busy. So a connection that says nothing
//! holds nobody up. The number of connections and the time that each may take are bounded.

use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt;
use wirebeat_units::Nanos;

use crate::Error;
use crate::channel::{Channel, Filled};
use crate::control::iperf2::Header;
use crate::control::{ControlError, Cookie, Inbox, STREAMS_MAX, State};
use crate::socket::{now, wait};

/// Connections without a complete greeting: all streams of the largest test, and some others.
const PENDING_MAX: usize = 2 * STREAMS_MAX as usize + 64;
/// Connections that were told to go.
const LEAVING_MAX: usize = 64;
/// How long a connection may take for its greeting.
const GREETING: Nanos = Nanos::from_secs(10);
/// How long a connection that was told to go may take to read that.
const LEAVE: Nanos = Nanos::from_secs(1);
/// The same where others wait for its place.
const GRACE: Nanos = Nanos::from_secs(1);
/// The pause after the system gave us no connection (out of files, say).
const PAUSE: Nanos = Nanos::from_millis(100);

/// What a connection begins with.
pub(super) trait Greeting: Sized {
    /// Bytes that are missing in the inbox of a connection.
    fn missing(inbox: &Inbox) -> usize;
    /// Takes it, once it is complete.
    fn take(inbox: &mut Inbox) -> Result<Option<Self>, ControlError>;
}

impl Greeting for Cookie {
    fn missing(inbox: &Inbox) -> usize {
        Cookie::LEN.saturating_sub(inbox.len())
    }

    fn take(inbox: &mut Inbox) -> Result<Option<Self>, ControlError> {
        inbox.cookie()
    }
}

impl Greeting for Header {
    fn missing(inbox: &Inbox) -> usize {
        Header::missing(inbox)
    }

    fn take(inbox: &mut Inbox) -> Result<Option<Self>, ControlError> {
        Header::take(inbox)
    }
}

/// A connection with a complete greeting.
#[derive(Debug)]
pub(super) struct Arrived<G> {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    pub greeting: G,
    /// Connections are numbered in the order in which they were accepted.
    pub number: u64,
}

#[derive(Debug)]
struct Pending {
    channel: Channel,
    peer: SocketAddr,
    number: u64,
    deadline: Nanos,
}

impl Pending {
    /// When another may have its place.
    fn silent_at(&self) -> Nanos {
        self.deadline.saturating_sub(GREETING).saturating_add(GRACE)
    }
}

#[derive(Debug)]
struct Leaving {
    channel: Channel,
    deadline: Nanos,
}

/// The listener and the connections that came.
#[derive(Debug)]
pub(super) struct Admission<G> {
    listener: TcpListener,
    pending: Vec<Pending>,
    arrived: VecDeque<Arrived<G>>,
    leaving: VecDeque<Leaving>,
    accepted: u64,
    paused_until: Nanos,
}

impl<G: Greeting> Admission<G> {
    pub fn new(listener: TcpListener) -> Admission<G> {
        Admission {
            listener,
            pending: Vec::new(),
            arrived: VecDeque::new(),
            leaving: VecDeque::new(),
            accepted: 0,
            paused_until: Nanos::ZERO,
        }
    }

    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The next connection with a complete greeting.
    pub fn next(&mut self) -> Option<Arrived<G>> {
        self.arrived.pop_front()
    }

    /// Waits until one of `others` is readable, something comes, or the clock shows `deadline`; then accepts and reads what came.
    pub fn turn(&mut self, others: &[BorrowedFd<'_>], deadline: Nanos) -> Result<(), Error> {
        self.make_room();
        let full = self.pending.len() + self.arrived.len() >= PENDING_MAX;
        let accepting = !full && now() >= self.paused_until;
        // those who say nothing keep nobody out for long
        let oldest = self.pending.first().filter(|_| full).map(Pending::silent_at);
        let deadline = oldest.map_or(deadline, |at| deadline.min(at));
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = others.iter().map(|fd| readable(*fd)).collect();
        fds.extend(self.pending.iter().map(|pending| readable(pending.channel.fd())));
        fds.extend(self.leaving.iter().map(|leaving| readable(leaving.channel.fd())));
        if accepting {
            fds.push(readable(self.listener.as_fd()));
        }
        wait(&mut fds, deadline).map_err(Error::socket("wait for connections"))?;
        drop(fds);
        if accepting {
            self.accept();
        }
        self.read();
        Ok(())
    }

    /// Drops the oldest connections without a greeting, where no other has a place and they have had some time.
    fn make_room(&mut self) {
        let over = (self.pending.len() + self.arrived.len() + 1).saturating_sub(PENDING_MAX);
        let silent = self.pending.iter().take_while(|pending| now() >= pending.silent_at()).count();
        if over > 0 {
            self.pending.drain(..silent);
        }
    }

    fn accept(&mut self) {
        while self.pending.len() + self.arrived.len() < PENDING_MAX {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    // control messages are single bytes
                    let ready = stream.set_nonblocking(true).is_ok()
                        && sockopt::set_tcp_nodelay(&stream, true).is_ok();
                    if ready {
                        let (number, deadline) = (self.accepted, now().saturating_add(GREETING));
                        self.accepted += 1;
                        let channel = Channel::new(stream);
                        self.pending.push(Pending { channel, peer, number, deadline });
                    }
                }
                Err(error) => {
                    match error.kind() {
                        std::io::ErrorKind::WouldBlock => {}
                        // a client that went away meanwhile
                        std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::Interrupted => {
                            continue;
                        }
                        _ => self.paused_until = now().saturating_add(PAUSE),
                    }
                    return;
                }
            }
        }
    }

    /// Reads what came on connections without a complete greeting, and on those that were told to go.
    fn read(&mut self) {
        let time = now();
        let mut at = 0;
        while let Some(pending) = self.pending.get_mut(at) {
            let missing = G::missing(&pending.channel.inbox);
            // what follows a greeting is a stream's data, and stays with the kernel
            let filled = pending.channel.fill(missing);
            match (G::take(&mut pending.channel.inbox), filled) {
                (Ok(Some(greeting)), _) => {
                    let Pending { channel, peer, number, .. } = self.pending.remove(at);
                    let stream = channel.stream;
                    self.arrived.push_back(Arrived { stream, peer, greeting, number });
                }
                // the length of a header is known when its first word is
                (Ok(None), Ok(Filled::Some)) if time < pending.deadline => {}
                (Ok(None), Ok(Filled::Nothing)) if time < pending.deadline => at += 1,
                _ => drop(self.pending.remove(at)),
            }
        }
        self.leaving.retain_mut(|leaving| {
            let filled = leaving.channel.fill(1 << 10);
            leaving.channel.inbox = Default::default();
            time < leaving.deadline && matches!(filled, Ok(Filled::Some | Filled::Nothing))
        });
    }

    /// Closes all connections that came: where they come from.
    pub fn close_all(&mut self) -> Vec<SocketAddr> {
        self.arrived.drain(..).map(|arrived| arrived.peer).collect()
    }
}

impl Admission<Cookie> {
    /// Tells a client that the server is busy. It is given time to read that: closing at once could take it back (RFC 1122 §4.2.2.13).
    pub fn deny(&mut self, arrived: Arrived<Cookie>) {
        let mut channel = Channel::new(arrived.stream);
        let told = rustix::net::send(
            &channel.stream,
            &[State::AccessDenied.byte()],
            rustix::net::SendFlags::NOSIGNAL,
        );
        if told.is_ok() && channel.stream.shutdown(Shutdown::Write).is_ok() {
            channel.inbox = Default::default();
            if self.leaving.len() >= LEAVING_MAX {
                self.leaving.pop_front();
            }
            let deadline = now().saturating_add(LEAVE);
            self.leaving.push_back(Leaving { channel, deadline });
        }
    }

    /// Tells all clients that came that the server is busy: where they come from.
    pub fn deny_all(&mut self) -> Vec<SocketAddr> {
        let mut denied = Vec::new();
        while let Some(arrived) = self.next() {
            denied.push(arrived.peer);
            self.deny(arrived);
        }
        denied
    }
}
