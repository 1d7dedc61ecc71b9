//! One end of a conversation, and the socket that sends to it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use wirebeat_engine::port::PortError;
use wirebeat_units::fault;

use super::ENGINE;
use crate::sys::{self, refused};

/// How much may wait in a socket, with what the kernel adds to each datagram.
const BUFFER: usize = 4 << 20;
/// A classic BPF program of one instruction: return 0, keep nothing.
pub(super) const DROP: [libc::sock_filter; 1] =
    [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];

/// Where datagrams of a flow come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Source address and port; with an unspecified address or port 0 the kernel chooses.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The ToS byte or traffic class.
    pub tos: u8,
    /// Whether there is a checksum.
    pub checksum: Checksum,
}

/// Whether datagrams carry a UDP checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// They do.
    #[default]
    Sent,
    /// The field is zero (RFC 768; over IPv6 only for those who agreed on it, RFC 6935).
    Omitted,
}

/// Opens a socket of the family of `address`, on an interface if one is named.
pub(super) fn open(address: &SocketAddr, interface: Option<&str>) -> Result<OwnedFd, PortError> {
    let on = address.to_string();
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None).map_err(|e| match e {
        Errno::MFILE | Errno::NFILE => {
            let missing = "every endpoint takes an open file, and no more are allowed";
            PortError::missing(ENGINE, &on, missing)
                .with_hint("raise the limit with 'ulimit -n', or use --engine packet")
        }
        e => refused("opening a UDP socket", &on, e.into()),
    })?;
    if let Some(name) = interface {
        sys::bind_to_device(&socket, name)
            .map_err(|e| refused("binding a UDP socket to the interface", name, e))?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)
            .map_err(|e| refused("setting up a UDP socket", &on, e.into()))?;
    }
    Ok(socket)
}

/// Why an address is not ours, with the remedy where that is known.
pub(super) fn not_bound(what: &'static str, address: &SocketAddr, errno: Errno) -> PortError {
    let remedy = match errno {
        Errno::ADDRINUSE => {
            fault!("another program has this port"; "end that one, or choose another port")
        }
        Errno::ACCESS => {
            fault!("ports below 1024 are for root"; "run as root, or choose a port from 1024 on")
        }
        Errno::ADDRNOTAVAIL => {
            fault!(
                "it is not an address of this host";
                "choose one that 'ip address' lists, or use the engine 'packet', which sends \
                 from any"
            )
        }
        _ => return refused(what, &address.to_string(), errno.into()),
    };
    let error = io::Error::from(errno);
    let told = io::Error::new(error.kind(), remedy.at(&error));
    refused(what, &address.to_string(), told)
}

impl Endpoint {
    /// Opens a socket that sends here, and gets nothing.
    pub(super) fn connect(&self, interface: Option<&str>) -> Result<OwnedFd, PortError> {
        if self.source.is_ipv4() != self.destination.is_ipv4() {
            return Err(PortError::Unsupported {
                engine: ENGINE,
                what: fault!(
                    "send from {} to {}: one is IPv4 and the other IPv6",
                    self.source,
                    self.destination
                ),
            });
        }
        let socket = open(&self.destination, interface)?;
        let on = self.destination.to_string();
        self.prepare(&socket).map_err(|e| refused("setting up a UDP socket", &on, e))?;
        if self.source.port() != 0 || !self.source.ip().is_unspecified() {
            bind(&socket, &self.source)
                .map_err(|e| not_bound("taking the source address", &self.source, e))?;
        }
        connect(&socket, &self.destination).map_err(|errno| {
            let error = io::Error::from(errno);
            let told = match errno {
                Errno::NETUNREACH | Errno::HOSTUNREACH => io::Error::new(
                    error.kind(),
                    fault!("{error}: there is no route"; "add one, or give the interface"),
                ),
                _ => error,
            };
            refused("finding a route for UDP", &on, told)
        })?;
        Ok(socket)
    }

    fn prepare(&self, socket: &OwnedFd) -> io::Result<()> {
        const ON: libc::c_int = 1;
        // Without error reports the kernel says nothing of a datagram that found a queue full.
        if self.destination.is_ipv4() {
            sys::set_option(socket, (libc::SOL_IP, libc::IP_RECVERR), &ON)?;
            sockopt::set_ip_tos(socket, self.tos)?;
            if self.destination.ip().is_multicast() {
                sockopt::set_ip_multicast_ttl(socket, self.ttl.into())?;
            } else {
                sockopt::set_ip_ttl(socket, self.ttl.into())?;
            }
            sockopt::set_socket_broadcast(socket, true)?;
        } else {
            sys::set_option(socket, (libc::SOL_IPV6, libc::IPV6_RECVERR), &ON)?;
            sockopt::set_ipv6_tclass(socket, self.tos.into())?;
            if self.destination.ip().is_multicast() {
                sockopt::set_ipv6_multicast_hops(socket, self.ttl.into())?;
            } else {
                sockopt::set_ipv6_unicast_hops(socket, Some(self.ttl))?;
            }
        }
        match (self.checksum, self.destination) {
            (Checksum::Sent, _) => {}
            (Checksum::Omitted, SocketAddr::V4(_)) => {
                sys::set_option(socket, (libc::SOL_SOCKET, libc::SO_NO_CHECK), &ON)?;
            }
            (Checksum::Omitted, SocketAddr::V6(_)) => {
                sys::set_option(socket, (libc::SOL_UDP, libc::UDP_NO_CHECK6_TX), &ON)?;
            }
        }
        // several transmit cores send from one port; replies are for others, and cost no memory here
        sockopt::set_socket_reuseport(socket, true)?;
        sys::attach_filter(socket, &DROP)?;
        sockopt::set_socket_recv_buffer_size(socket, 0)?;
        sys::set_send_buffer(socket, BUFFER)
    }
}
