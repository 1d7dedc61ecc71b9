//! Sockets as flows need them: non-blocking, made, set and connected; and the clock of the day.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::time::{ClockId, clock_gettime};
use wirebeat_sockets::clock;
use wirebeat_units::Nanos;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 256;
/// What a socket of datagrams may keep until they are read, where the system allows it: half a second at 60 Mbit/s.
const BUFFER: usize = 4 << 20;

/// The clock of D-ITG's headers and logs: time since 1970.
pub(crate) fn wall_clock() -> Nanos {
    let time = clock_gettime(ClockId::Realtime);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Nanos::from_secs(part(time.tv_sec)).saturating_add(Nanos::new(part(time.tv_nsec)))
}

fn open(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, kind, flags, None)?)
}

/// A listener on this address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(address, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A UDP socket bound to this address, which is nobody else's.
pub(crate) fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = open(address, SocketType::DGRAM)?;
    // as much as the system gives
    let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

/// Sets the byte of DSCP and ECN.
fn set_ds(socket: BorrowedFd<'_>, to: SocketAddr, ds: u8) -> io::Result<()> {
    match (ds, to) {
        (0, _) => {}
        (ds, SocketAddr::V4(_)) => sockopt::set_ip_tos(socket, ds)?,
        (ds, SocketAddr::V6(_)) => sockopt::set_ipv6_tclass(socket, ds.into())?,
    }
    Ok(())
}

/// A UDP socket with a peer.
pub(crate) fn udp_to(to: SocketAddr, ds: u8) -> io::Result<UdpSocket> {
    let socket = open(to, SocketType::DGRAM)?;
    // for what comes back, as much as the system gives
    let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
    set_ds(socket.as_fd(), to, ds)?;
    rustix::net::connect(&socket, &to)?;
    Ok(socket.into())
}

/// Connects over TCP before the clock shows `deadline`.
pub(crate) fn connect(to: SocketAddr, ds: u8, deadline: Nanos) -> io::Result<TcpStream> {
    let socket = open(to, SocketType::STREAM)?;
    set_ds(socket.as_fd(), to, ds)?;
    // messages are small, and each has its time
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &to) {
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

/// Waits until a socket is ready or the clock shows `deadline`: whether it is ready.
pub(crate) fn wait_for(fd: BorrowedFd<'_>, flags: PollFlags, deadline: Nanos) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    loop {
        let left = deadline.saturating_sub(clock()).get();
        let timeout = Timespec {
            tv_sec: i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (left % 1_000_000_000) as _,
        };
        match poll(&mut fds, Some(&timeout)) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(ready) => return Ok(ready > 0),
        }
    }
}

/// An address of IPv4 that came over a socket of IPv6 is one of IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The form that a socket of the family of `of` sends to.
pub(crate) fn in_family_of(ip: IpAddr, of: IpAddr) -> IpAddr {
    match (ip, of) {
        (IpAddr::V4(ip), IpAddr::V6(_)) => ip.to_ipv6_mapped().into(),
        (ip, _) => ip,
    }
}
