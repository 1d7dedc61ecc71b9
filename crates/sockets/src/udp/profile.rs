//! What is asked of UDP sockets of a group, and a buffer that bears a burst.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use wirebeat_host::{IntOption, MTU_DISCOVER_DO, MTU_DISCOVER_DONT, set_int_option};

use crate::error::SocketsError;
use crate::profile::system;
use crate::stack::family;

/// Bytes that a listener's socket holds, as far as the system allows it: some 2,000 datagrams of full size.
const RECEIVE_BUFFER: usize = 4 << 20;

/// What is asked of UDP. `None`: as the system has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpProfile {
    /// Time to live, or hop limit (`IP_TTL`, `IPV6_UNICAST_HOPS`).
    pub ttl: Option<u8>,
    /// Type of service, or traffic class: DSCP and ECN bits (`IP_TOS`, `IPV6_TCLASS`).
    pub tos: Option<u8>,
    /// Whether packets of IPv4 have DF (`IP_MTU_DISCOVER`). Without it messages longer than a packet leave in fragments; with it they end
    /// their session (`EMSGSIZE`).
    pub dont_fragment: Option<bool>,
    /// Listeners share their address with those of other stacks, one for each core (`SO_REUSEPORT`); the kernel gives all datagrams of
    /// a peer to one of them.
    pub shared_port: bool,
}

impl UdpProfile {
    /// Tries the options on a socket that nothing else uses.
    pub(super) fn check(&self) -> Result<(), SocketsError> {
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            match self.open(family) {
                // without IPv6 or IPv4 a machine can do what the other can
                Ok(_) | Err(Errno::AFNOSUPPORT) => {}
                Err(Errno::MFILE | Errno::NFILE) => return Err(SocketsError::NoDescriptor),
                Err(error) => return Err(SocketsError::Setup(error)),
            }
        }
        Ok(())
    }

    /// A new socket that speaks with such an address, not blocking.
    pub(super) fn socket(&self, address: SocketAddr) -> Result<OwnedFd, Errno> {
        self.open(family(address))
    }

    fn open(&self, family: AddressFamily) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
        let six = family == AddressFamily::INET6;
        if let Some(ttl) = self.ttl {
            match six {
                true => sockopt::set_ipv6_unicast_hops(&socket, Some(ttl))?,
                false => sockopt::set_ip_ttl(&socket, ttl.into())?,
            }
        }
        if let Some(tos) = self.tos {
            match six {
                true => sockopt::set_ipv6_tclass(&socket, tos.into())?,
                false => sockopt::set_ip_tos(&socket, tos)?,
            }
        }
        if let Some(asked) = self.dont_fragment.filter(|_| !six) {
            let value = if asked { MTU_DISCOVER_DO } else { MTU_DISCOVER_DONT };
            system(set_int_option(socket.as_fd(), IntOption::MtuDiscover, value))?;
        }
        Ok(socket)
    }
}

/// Gives the socket of a listener as large a buffer as the system allows.
pub(super) fn large_buffers(socket: &OwnedFd) {
    // the first needs CAP_NET_ADMIN, the second is cut to net.core.rmem_max
    let _ = sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER));
}

#[cfg(test)]
mod tests {
    use wirebeat_host::int_option;

    use super::*;

    #[test]
    fn sockets_have_what_was_asked_for() {
        for (asked, value) in [(true, MTU_DISCOVER_DO), (false, MTU_DISCOVER_DONT)] {
            let profile = UdpProfile {
                ttl: Some(9),
                tos: Some(0xb8),
                dont_fragment: Some(asked),
                shared_port: false,
            };
            let socket = profile.socket("127.0.0.1:0".parse().unwrap()).unwrap();
            let discovery = int_option(socket.as_fd(), IntOption::MtuDiscover).unwrap();
            assert_eq!((sockopt::ip_ttl(&socket).unwrap(), discovery), (9, value));
            assert_eq!(sockopt::ip_tos(&socket).unwrap(), 0xb8);
        }
    }
}
