//! Sockets of those who wait for them by themselves, as the wires of other tools do: made without blocking, connected and waited for until a
//! deadline on [`clock`].

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use wirebeat_units::Nanos;

use crate::clock;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 256;

/// A socket of the family of `address`.
///
/// # Errors
/// Those of socket(2).
pub fn open(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, kind, flags, None)?)
}

/// A listener on this address.
///
/// # Errors
/// Those of bind(2) and listen(2).
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(address, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Connects over TCP before the clock shows `deadline`. `set` sets what has to be there before the SYN.
///
/// # Errors
/// Those of connect(2), [`io::ErrorKind::TimedOut`] at the deadline, and those of `set`.
pub fn connect(
    address: SocketAddr,
    deadline: Nanos,
    set: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let socket = open(address, SocketType::STREAM)?;
    set(socket.as_fd())?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            if !wait_for(socket.as_fd(), PollFlags::OUT, deadline)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(socket.into())
}

/// Waits until one of `fds` is ready or the clock shows `deadline`; what is ready is in their `revents`.
///
/// # Errors
/// Those of poll(2).
pub fn wait(fds: &mut [PollFd<'_>], deadline: Nanos) -> io::Result<()> {
    loop {
        let left = deadline.saturating_sub(clock()).get();
        let timeout = Timespec {
            tv_sec: i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (left % 1_000_000_000) as _,
        };
        match poll(fds, Some(&timeout)) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Waits for one file alone: whether it became ready.
///
/// # Errors
/// As [`wait`].
pub fn wait_for(fd: BorrowedFd<'_>, flags: PollFlags, deadline: Nanos) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    wait(&mut fds, deadline)?;
    Ok(fds.iter().any(|fd| !fd.revents().is_empty()))
}
