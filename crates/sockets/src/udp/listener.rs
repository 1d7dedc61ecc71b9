//! The socket of a server, which all of its peers send to.
//!
//! What is not read stays in the socket's buffer, and what does not fit there the kernel drops and counts: a listener that cannot send
//! reads nothing either, so that nobody's datagrams pile up here.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recvfrom};
use wirebeat_converse::stack::ProfileId;

/// Errors of the socket that are passed over in a turn.
const ERRORS: usize = 16;

/// A socket with its peers.
#[derive(Debug)]
pub(super) struct Listener {
    pub fd: OwnedFd,
    pub profile: ProfileId,
    /// Its port.
    pub port: u16,
    /// The numbers of sessions, by the addresses of their peers.
    pub peers: HashMap<SocketAddr, u32>,
    /// Sessions that wait until there is room to send.
    pub blocked: Vec<u32>,
    readable: bool,
    pub writable: bool,
}

impl Listener {
    pub fn new(fd: OwnedFd, profile: ProfileId, port: u16) -> Listener {
        Listener {
            fd,
            profile,
            port,
            peers: HashMap::new(),
            blocked: Vec::new(),
            readable: true,
            writable: true,
        }
    }

    /// Keeps what an event said.
    pub fn note(&mut self, flags: EventFlags) {
        self.readable |= flags.intersects(EventFlags::IN | EventFlags::ERR);
        self.writable |= flags.intersects(EventFlags::OUT | EventFlags::ERR);
    }

    /// Whether there may be something to take.
    pub fn is_ready(&self) -> bool {
        self.readable && self.writable
    }

    /// Takes the next datagram: whose it is, and its length.
    pub fn take(&mut self, into: &mut [u8]) -> Option<(SocketAddr, usize)> {
        for _ in 0..ERRORS {
            if !self.is_ready() {
                break;
            }
            match recvfrom(&self.fd, &mut *into, RecvFlags::empty()) {
                Ok((length, _, from)) => {
                    match from.and_then(|from| SocketAddr::try_from(from).ok()) {
                        Some(from) => return Some((from, length)),
                        None => continue,
                    }
                }
                Err(Errno::AGAIN) => self.readable = false,
                // an error of the socket is of something that was sent before, and is told once (udp(7))
                Err(_) => {}
            }
        }
        None
    }
}
