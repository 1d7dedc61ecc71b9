//! A card that takes frames for other stations too, for engines that read none by a socket of their own.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, socket};

use crate::packet::socket::be_promiscuous;

/// An interface takes all frames as long as this is held. The system counts who wants that: another program's wish stays.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Lets the interface of this index, in the calling thread's namespace, take all frames.
    ///
    /// # Errors
    /// The system's: no such interface, no CAP_NET_RAW.
    pub fn enter(index: u32) -> io::Result<Promiscuous> {
        // of no protocol, so that it receives nothing
        let socket = socket(AddressFamily::PACKET, SocketType::RAW, None)?;
        be_promiscuous(&socket, index)?;
        Ok(Promiscuous { _socket: socket })
    }
}
