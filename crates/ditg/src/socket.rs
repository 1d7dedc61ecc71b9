//! Sockets as flows need them: non-blocking, made, set and connected; and the clock of the day.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{SocketType, sockopt};
use rustix::time::{ClockId, clock_gettime};
use wirebeat_sockets::opened;
pub(crate) use wirebeat_sockets::opened::{listen, wait_for};
use wirebeat_units::Nanos;

/// What a socket of datagrams may keep until they are read, where the system allows it: half a second at 60 Mbit/s.
const BUFFER: usize = 4 << 20;

/// The clock of D-ITG's headers and logs: time since 1970.
pub(crate) fn wall_clock() -> Nanos {
    let time = clock_gettime(ClockId::Realtime);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Nanos::from_secs(part(time.tv_sec)).saturating_add(Nanos::new(part(time.tv_nsec)))
}

/// A UDP socket bound to this address, which is nobody else's.
pub(crate) fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = opened::open(address, SocketType::DGRAM)?;
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
    let socket = opened::open(to, SocketType::DGRAM)?;
    // for what comes back, as much as the system gives
    let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
    set_ds(socket.as_fd(), to, ds)?;
    rustix::net::connect(&socket, &to)?;
    Ok(socket.into())
}

/// Connects over TCP before the clock shows `deadline`.
pub(crate) fn connect(to: SocketAddr, ds: u8, deadline: Nanos) -> io::Result<TcpStream> {
    opened::connect(to, deadline, |socket| {
        set_ds(socket, to, ds)?;
        // messages are small, and each has its time
        Ok(sockopt::set_tcp_nodelay(socket, true)?)
    })
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
