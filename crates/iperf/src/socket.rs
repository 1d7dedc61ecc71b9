//! Sockets as tests need them: made, set, connected and waited for, all non-blocking, with deadlines on the monotonic clock.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::time::{ClockId, clock_gettime};
use wirebeat_host::set_tcp_max_segment;
use wirebeat_units::Nanos;

use crate::TestSpec;

/// Connections that the kernel keeps until they are accepted: all streams of the largest test.
const BACKLOG: i32 = 256;

/// The monotonic clock.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Nanos::from_secs(part(time.tv_sec)).saturating_add(Nanos::new(part(time.tv_nsec)))
}

/// Waits until one of `fds` is ready or the clock shows `deadline`; what is ready is in their `revents`.
pub(crate) fn wait(fds: &mut [PollFd<'_>], deadline: Nanos) -> io::Result<()> {
    loop {
        let left = deadline.saturating_sub(now()).get();
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
pub(crate) fn wait_for(fd: BorrowedFd<'_>, flags: PollFlags, deadline: Nanos) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    wait(&mut fds, deadline)?;
    Ok(fds.iter().any(|fd| !fd.revents().is_empty()))
}

/// Wakes a thread that waits in [`wait`].
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes it, now or when it next waits.
    pub fn wake(&self) {
        // fails only where it was woken 2^64 times and did not look
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Forgets that it was woken.
    pub fn reset(&self) {
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn open(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family(address), kind, flags, None)?)
}

/// A listener on this address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(address, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A UDP socket bound to this address, which other sockets may be bound to as well.
pub(crate) fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = open(address, SocketType::DGRAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

/// Any address of the same family.
pub(crate) fn any(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = if address.is_ipv4() { [0_u8; 4].into() } else { [0_u8; 16].into() };
    (ip, 0).into()
}

/// Connects over TCP before the clock shows `deadline`. `set` sets options that have to be there before the SYN.
pub(crate) fn connect(
    address: SocketAddr,
    local: Option<IpAddr>,
    deadline: Nanos,
    set: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let socket = open(address, SocketType::STREAM)?;
    set(socket.as_fd())?;
    if let Some(local) = local {
        rustix::net::bind(&socket, &SocketAddr::new(local, 0))?;
    }
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

/// Sets what a test asks for on a data socket. What belongs before the SYN is [`set_before_connect`].
pub(crate) fn set_data(
    socket: BorrowedFd<'_>,
    spec: &TestSpec,
    address: SocketAddr,
) -> io::Result<()> {
    if let Some(window) = spec.window {
        let bytes = usize::try_from(window.get()).unwrap_or(usize::MAX);
        sockopt::set_socket_send_buffer_size(socket, bytes)?;
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    if spec.tos != 0 {
        if address.is_ipv4() {
            sockopt::set_ip_tos(socket, spec.tos)?;
        } else {
            sockopt::set_ipv6_tclass(socket, spec.tos.into())?;
        }
    }
    Ok(())
}

/// Sets what a test asks for on a TCP socket before it is connected.
pub(crate) fn set_before_connect(
    socket: BorrowedFd<'_>,
    spec: &TestSpec,
    address: SocketAddr,
) -> io::Result<()> {
    set_data(socket, spec, address)?;
    if let Some(mss) = spec.mss {
        set_tcp_max_segment(socket, mss)?;
    }
    if let Some(congestion) = &spec.congestion {
        sockopt::set_tcp_congestion(socket, congestion)?;
    }
    sockopt::set_tcp_nodelay(socket, spec.no_delay)?;
    Ok(())
}
