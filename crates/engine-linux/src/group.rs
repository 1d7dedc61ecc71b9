//! Membership of a multicast group (RFC 3376, RFC 3810): any source, or one.
//!
//! The system sends the reports and answers queries as long as the socket is open. No frame is read from
//! it: whoever receives does so by other means.

use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, socket};

use crate::sys;

/// A group, and of which source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// The multicast address.
    pub group: IpAddr,
    /// Only what comes from here; `None`: from anywhere.
    pub source: Option<IpAddr>,
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.source {
            Some(source) => write!(f, "{} from {source}", self.group),
            None => self.group.fmt(f),
        }
    }
}

/// A membership; it ends when this is dropped.
#[derive(Debug)]
pub struct Membership {
    _socket: OwnedFd,
}

/// `struct group_req` of linux/in.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct GroupRequest {
    interface: u32,
    group: libc::sockaddr_storage,
}

/// `struct group_source_req`.
#[repr(C)]
#[derive(Clone, Copy)]
struct GroupSourceRequest {
    interface: u32,
    group: libc::sockaddr_storage,
    source: libc::sockaddr_storage,
}

impl Membership {
    /// Joins a group on the interface of this index, in the calling thread's namespace.
    ///
    /// # Errors
    /// The system's: no such interface, no multicast address, too many memberships.
    pub fn join(interface: u32, group: &Group) -> io::Result<Membership> {
        let (family, level) = match group.group {
            IpAddr::V4(_) => (AddressFamily::INET, libc::IPPROTO_IP),
            IpAddr::V6(_) => (AddressFamily::INET6, libc::IPPROTO_IPV6),
        };
        let socket = socket(family, SocketType::DGRAM, None)?;
        let address = storage(group.group);
        match group.source {
            None => {
                let request = GroupRequest { interface, group: address };
                sys::set_option(&socket, (level, libc::MCAST_JOIN_GROUP), &request)?;
            }
            Some(source) if source.is_ipv4() == group.group.is_ipv4() => {
                let source = storage(source);
                let request = GroupSourceRequest { interface, group: address, source };
                sys::set_option(&socket, (level, libc::MCAST_JOIN_SOURCE_GROUP), &request)?;
            }
            Some(_) => return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        }
        Ok(Membership { _socket: socket })
    }
}

/// The address as the system wants it.
fn storage(address: IpAddr) -> libc::sockaddr_storage {
    // SAFETY: all zeros are a valid sockaddr_storage: integers and arrays of them.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    match SocketAddr::new(address, 0) {
        SocketAddr::V4(v4) => write_v4(&mut storage, &v4),
        SocketAddr::V6(v6) => write_v6(&mut storage, &v6),
    }
    storage
}

fn write_v4(storage: &mut libc::sockaddr_storage, address: &SocketAddrV4) {
    let v4 = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: a sockaddr_storage is as long as any address and as strictly aligned.
    unsafe { std::ptr::from_mut(storage).cast::<libc::sockaddr_in>().write(v4) };
}

fn write_v6(storage: &mut libc::sockaddr_storage, address: &SocketAddrV6) {
    let v6 = libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: 0,
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
        sin6_scope_id: 0,
    };
    // SAFETY: as above.
    unsafe { std::ptr::from_mut(storage).cast::<libc::sockaddr_in6>().write(v6) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_group_is_refused() {
        let group = |group: &str, source: Option<&str>| Group {
            group: group.parse().unwrap(),
            source: source.map(|source| source.parse().unwrap()),
        };
        // the loopback interface has number 1 in every namespace
        assert!(Membership::join(1, &group("10.0.0.1", None)).is_err());
        assert!(Membership::join(1, &group("232.1.1.1", Some("::1"))).is_err());
        assert!(Membership::join(u32::MAX, &group("239.1.1.1", None)).is_err());
    }
}
