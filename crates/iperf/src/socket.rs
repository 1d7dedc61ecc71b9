//! Sockets as tests need them: made, set, connected and waited for, all non-blocking, with deadlines on the monotonic clock.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{SocketType, sockopt};
use wirebeat_host::set_tcp_max_segment;
pub(crate) use wirebeat_sockets::clock as now;
use wirebeat_sockets::opened;
pub(crate) use wirebeat_sockets::opened::{listen, wait, wait_for};
use wirebeat_units::Nanos;

use crate::TestSpec;

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

/// A UDP socket bound to this address, which other sockets may be bound to as well.
pub(crate) fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = opened::open(address, SocketType::DGRAM)?;
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
    opened::connect(address, deadline, |socket| {
        set(socket)?;
        match local {
            Some(local) => Ok(rustix::net::bind(socket, &SocketAddr::new(local, 0))?),
            None => Ok(()),
        }
    })
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
