//! One frame, one call: the plainest sender of raw frames that there is, for the benchmark to compare with. The engine
//! itself sends by other means.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

use super::socket::{self, Protocol};

/// A raw socket of an interface, which waits when the interface is busy.
#[derive(Debug)]
pub struct PlainSocket(OwnedFd);

impl PlainSocket {
    /// Of the interface with this index, in the calling thread's namespace.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(index: u32) -> io::Result<PlainSocket> {
        let opened =
            socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        socket::bind(&opened, index, Protocol::None)?;
        Ok(PlainSocket(opened))
    }

    /// Sends a frame without FCS.
    ///
    /// # Errors
    /// What the system says.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        send(&self.0, frame, SendFlags::empty())?;
        Ok(())
    }
}
