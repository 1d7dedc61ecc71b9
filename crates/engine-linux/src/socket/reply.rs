//! One datagram from an address of this host, on a socket that listens on all of them.
//!
//! Without the address the system chooses one by its routes, and a sender whose socket is connected would not get what comes
//! from another address than the one that it sends to. ip(7), ipv6(7): `IP_PKTINFO`, `IPV6_PKTINFO`.

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Control data of one message.
#[derive(Clone, Copy)]
#[repr(C)]
struct ReplyControl<T> {
    header: libc::cmsghdr,
    from: T,
}

impl<T> ReplyControl<T> {
    fn new(level: libc::c_int, kind: libc::c_int, from: T) -> Self {
        // SAFETY: integers, for which zero is a value.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<T>()) as _;
        header.cmsg_level = level;
        header.cmsg_type = kind;
        ReplyControl { header, from }
    }
}

/// Sends `payload` to `to` from the address of `from`, without waiting.
pub(super) fn send(
    socket: &OwnedFd,
    payload: &[u8],
    to: &SocketAddr,
    from: &SocketAddr,
) -> io::Result<()> {
    match (to, from) {
        (SocketAddr::V4(to), SocketAddr::V4(from)) => {
            let address =
                |ip: &std::net::Ipv4Addr| libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
            let name = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: to.port().to_be(),
                sin_addr: address(to.ip()),
                sin_zero: [0; 8],
            };
            let from = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: address(from.ip()),
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            message(socket, payload, name, ReplyControl::new(libc::SOL_IP, libc::IP_PKTINFO, from))
        }
        (SocketAddr::V6(to), SocketAddr::V6(from)) => {
            let address = |ip: &std::net::Ipv6Addr| libc::in6_addr { s6_addr: ip.octets() };
            let name = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: to.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: address(to.ip()),
                sin6_scope_id: to.scope_id(),
            };
            let from = libc::in6_pktinfo {
                ipi6_addr: address(from.ip()),
                ipi6_ifindex: to.scope_id() as _,
            };
            message(
                socket,
                payload,
                name,
                ReplyControl::new(libc::SOL_IPV6, libc::IPV6_PKTINFO, from),
            )
        }
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn message<N, T>(
    socket: &OwnedFd,
    payload: &[u8],
    mut name: N,
    mut control: ReplyControl<T>,
) -> io::Result<()> {
    let mut part =
        libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    // SAFETY: integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = std::ptr::from_mut(&mut name).cast();
    message.msg_namelen = size_of::<N>() as libc::socklen_t;
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = std::ptr::from_mut(&mut control).cast();
    message.msg_controllen = size_of::<ReplyControl<T>>() as _;
    // SAFETY: name, part and control live through the call, which reads them; `N` and `T` are the kernel's own structs, and
    // the control data is as long as its header says, with the padding that follows it.
    let sent = unsafe {
        libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
