//! How far a session's messages are, and what is done when something happened to its socket.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sendto};
use wirebeat_converse::stack::{Programs, Reason, SessionKey};
use wirebeat_units::Nanos;

use super::UdpCounters;
use super::listener::Listener;
use crate::error::reason;

/// Datagrams that a session sends, and receives, before others have their turn.
const BUDGET: usize = 32;
/// The longest datagram, and one byte more.
const LONGEST: usize = 1 << 16;
/// What a socket is watched for: room to send only where there was none, as the kernel tells of each datagram that left.
pub(super) const WATCHED: EventFlags = EventFlags::IN.union(EventFlags::ET);
/// What a socket is watched for that has no room to send.
pub(super) const BLOCKED: EventFlags = WATCHED.union(EventFlags::OUT);

/// Memory that all sessions of a stack use in turn.
#[derive(Debug)]
pub(super) struct Buffers {
    pub received: Vec<u8>,
    scratch: Vec<u8>,
    message: Vec<u8>,
}

impl Buffers {
    pub fn new() -> Buffers {
        Buffers {
            received: vec![0; LONGEST],
            scratch: vec![0; LONGEST],
            message: Vec::with_capacity(LONGEST),
        }
    }
}

/// Where a session sends and receives.
#[derive(Debug)]
pub(super) enum Place {
    /// At a socket of its own, which knows its peer.
    Own(OwnedFd),
    /// At that of a listener.
    Peer {
        /// Its number.
        listener: usize,
        /// The peer's address.
        address: SocketAddr,
    },
}

/// What is to become of a session after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It waits for events or actions.
    Wait,
    /// There is no room to send: it waits for that.
    Blocked,
    /// Its budget is spent, and there is more to do.
    Again,
    /// It ended.
    End(Reason),
}

/// What a piece of work needs besides the session's own.
pub(super) struct Worker<'a> {
    pub now: Nanos,
    pub session: SessionKey,
    pub place: &'a Place,
    /// The listener, of one that has no socket of its own.
    pub listener: Option<&'a mut Listener>,
    pub buffers: &'a mut Buffers,
    pub programs: &'a mut dyn Programs,
    pub counters: &'a mut UdpCounters,
}

/// How far the messages of a session are.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    /// Up to where the program's messages were sent.
    sent: u64,
    /// There may be something to read, or an error.
    readable: bool,
    /// The program may have something to send.
    offered: bool,
    /// The program has nothing more to say.
    finishing: bool,
    /// There was no room to send, and no event since.
    blocked: bool,
}

impl Datagrams {
    /// Keeps what an event said.
    pub fn note(&mut self, flags: EventFlags) {
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        self.readable |= broken || flags.contains(EventFlags::IN);
        self.blocked &= !(broken || flags.contains(EventFlags::OUT));
    }

    /// The program has something to send.
    pub fn offer(&mut self) {
        self.offered = true;
    }

    /// The program has nothing to send after what there is.
    pub fn finish(&mut self) {
        self.finishing = true;
        self.offered = true;
    }

    /// Does what the events so far allow, up to the budgets.
    pub fn work(&mut self, worker: &mut Worker<'_>) -> Next {
        if let Some(listener) = &worker.listener {
            self.blocked = !listener.writable;
        }
        let more = match self.receive(worker) {
            Ok(more) => more,
            Err(reason) => return Next::End(reason),
        };
        match self.send(worker) {
            Err(reason) => Next::End(reason),
            Ok(_) if self.offered && self.blocked => Next::Blocked,
            Ok(again) if again || more => Next::Again,
            Ok(_) if self.finishing => Next::End(Reason::InOrder),
            Ok(_) => Next::Wait,
        }
    }

    /// Reads what came at a socket of the session's own; `true`: there is more than the budget.
    fn receive(&mut self, worker: &mut Worker<'_>) -> Result<bool, Reason> {
        let Place::Own(fd) = worker.place else { return Ok(false) };
        let mut left = BUDGET;
        while self.readable {
            if left == 0 {
                return Ok(true);
            }
            match recv(fd, &mut worker.buffers.received[..], RecvFlags::empty()) {
                Ok((length, _)) => {
                    left -= 1;
                    worker.counters.received += 1;
                    let bytes = worker.buffers.received.get(..length).unwrap_or_default();
                    worker.programs.message(worker.now, worker.session, bytes);
                    // what follows from it leaves with the same turn
                    self.offered = true;
                }
                Err(Errno::AGAIN) => self.readable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(reason(error)),
            }
        }
        Ok(false)
    }

    /// Sends what there is room for; `true`: there is more than the budget.
    fn send(&mut self, worker: &mut Worker<'_>) -> Result<bool, Reason> {
        let mut left = BUDGET;
        while self.offered && !self.blocked {
            let Some(end) = worker.programs.message_end(worker.session, self.sent) else {
                self.offered = false;
                break;
            };
            if left == 0 {
                return Ok(true);
            }
            left -= 1;
            self.gather(worker, end);
            let message = &worker.buffers.message[..];
            let flags = SendFlags::NOSIGNAL;
            let sent = match (worker.place, &worker.listener) {
                (Place::Own(fd), _) => send(fd, message, flags),
                (Place::Peer { address, .. }, Some(listener)) => {
                    sendto(&listener.fd, message, flags, address)
                }
                (Place::Peer { .. }, None) => return Err(Reason::Aborted),
            };
            match sent {
                Ok(_) => {
                    worker.counters.sent += 1;
                    self.sent = end;
                    worker.programs.taken(worker.now, worker.session, end);
                }
                Err(Errno::AGAIN) => {
                    self.blocked = true;
                    if let Some(listener) = &mut worker.listener {
                        listener.writable = false;
                    }
                }
                Err(Errno::INTR) => {}
                // the peer's address is the broadcast address of a network of ours: nobody is to be answered there (RFC 1122 §3.2.1.3)
                Err(Errno::ACCESS) if matches!(worker.place, Place::Peer { .. }) => {
                    return Err(Reason::Unreachable);
                }
                Err(error) => return Err(reason(error)),
            }
        }
        Ok(false)
    }

    /// Puts the message up to `end` into one piece.
    fn gather(&self, worker: &mut Worker<'_>, end: u64) {
        let Buffers { scratch, message, .. } = &mut *worker.buffers;
        message.clear();
        let mut at = self.sent;
        while at < end {
            let piece = worker.programs.payload(worker.session, at, scratch);
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            let piece = piece.get(..left).unwrap_or(piece);
            if piece.is_empty() {
                break;
            }
            message.extend_from_slice(piece);
            at += piece.len() as u64;
        }
    }
}
