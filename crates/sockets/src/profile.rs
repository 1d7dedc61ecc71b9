//! What is asked of TCP for the connections of a group: plain data, set on each socket explicitly.
//!
//! Accepted sockets inherit the options of their listener (a test holds that they do), so a listener costs the calls once. A profile
//! is tried on sockets of both families before the start: the error names the option, its limit and the remedy.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use wirebeat_host::{set_max_pacing_rate, set_tcp_max_segment};
use wirebeat_units::{BitRate, Bytes};

use crate::error::SocketsError;
use crate::machine;

/// What is asked of TCP. `None`: as the system has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The congestion control by name (`TCP_CONGESTION`).
    pub congestion: Option<String>,
    /// The most bytes of data in a segment (`TCP_MAXSEG`).
    pub mss: Option<u16>,
    /// How many bytes wait to be sent or acknowledged at most (`SO_SNDBUF`; the kernel doubles it for what it needs itself).
    pub send_buffer: Option<Bytes>,
    /// How many received bytes wait to be read at most (`SO_RCVBUF`; likewise).
    pub receive_buffer: Option<Bytes>,
    /// Whether small segments wait while others are unacknowledged: else `TCP_NODELAY`.
    pub nagle: bool,
    /// No connection sends faster than this (`SO_MAX_PACING_RATE`).
    pub pacing: Option<BitRate>,
    /// Time to live, or hop limit (`IP_TTL`, `IPV6_UNICAST_HOPS`).
    pub ttl: Option<u8>,
    /// Type of service, or traffic class: DSCP and ECN bits (`IP_TOS`, `IPV6_TCLASS`).
    pub tos: Option<u8>,
    /// Listeners share their address with those of other stacks, one for each core (`SO_REUSEPORT`); the kernel spreads
    /// connections over them.
    pub shared_port: bool,
}

/// A profile with what trying it has shown.
#[derive(Clone, Debug)]
pub(crate) struct TriedProfile {
    pub profile: Profile,
    /// The buffers need `SO_SNDBUFFORCE`, `SO_RCVBUFFORCE`, which CAP_NET_ADMIN may.
    forced: bool,
}

/// Tries the options of a profile on sockets that nothing else uses.
///
/// # Errors
/// The option that the system refuses, or the buffer that it makes smaller.
pub fn check_profile(profile: &Profile) -> Result<(), SocketsError> {
    TriedProfile::new(profile.clone()).map(|_| ())
}

/// An option that the system refused: its name, the value, and why.
type Refused = (&'static str, String, Errno);

impl TriedProfile {
    pub fn new(profile: Profile) -> Result<Self, SocketsError> {
        let mut tried = TriedProfile { profile, forced: false };
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            let socket = match open(family) {
                Ok(socket) => socket,
                // Without IPv6 or IPv4 a machine can do what the other can.
                Err(Errno::AFNOSUPPORT) => continue,
                Err(Errno::MFILE | Errno::NFILE) => return Err(SocketsError::NoDescriptor),
                Err(error) => return Err(SocketsError::Setup(error)),
            };
            tried.set(&socket, family).map_err(|refused| tried.refused(refused))?;
            if tried.buffers(&socket).is_err() {
                tried.forced = true;
                tried.set(&socket, family).map_err(|refused| tried.refused(refused))?;
                tried.buffers(&socket)?;
            }
        }
        Ok(tried)
    }

    /// A new socket with these options, not blocking.
    pub fn socket(&self, family: AddressFamily) -> Result<OwnedFd, Errno> {
        let socket = open(family)?;
        self.set(&socket, family).map_err(|(_, _, error)| error)?;
        Ok(socket)
    }

    /// Sets the options, in an order that connect(2) and listen(2) may follow.
    fn set(&self, socket: &OwnedFd, family: AddressFamily) -> Result<(), Refused> {
        let Profile {
            congestion, mss, send_buffer, receive_buffer, nagle, pacing, ttl, tos, ..
        } = &self.profile;
        option("TCP_NODELAY", !nagle, || sockopt::set_tcp_nodelay(socket, !nagle))?;
        if let Some(name) = congestion {
            option("TCP_CONGESTION", name, || sockopt::set_tcp_congestion(socket, name))?;
        }
        if let Some(mss) = *mss {
            option("TCP_MAXSEG", mss, || system(set_tcp_max_segment(socket.as_fd(), mss)))?;
        }
        if let Some(bytes) = send_buffer {
            let size = size(*bytes);
            option("SO_SNDBUF", bytes, || match self.forced {
                true => sockopt::set_socket_send_buffer_size_force(socket, size)
                    .or_else(|_| sockopt::set_socket_send_buffer_size(socket, size)),
                false => sockopt::set_socket_send_buffer_size(socket, size),
            })?;
        }
        if let Some(bytes) = receive_buffer {
            let size = size(*bytes);
            option("SO_RCVBUF", bytes, || match self.forced {
                true => sockopt::set_socket_recv_buffer_size_force(socket, size)
                    .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, size)),
                false => sockopt::set_socket_recv_buffer_size(socket, size),
            })?;
        }
        if let Some(rate) = *pacing {
            let set = || system(set_max_pacing_rate(socket.as_fd(), rate));
            option("SO_MAX_PACING_RATE", rate, set)?;
        }
        let six = family == AddressFamily::INET6;
        if let Some(ttl) = *ttl {
            match six {
                true => option("IPV6_UNICAST_HOPS", ttl, || {
                    sockopt::set_ipv6_unicast_hops(socket, Some(ttl))
                })?,
                false => option("IP_TTL", ttl, || sockopt::set_ip_ttl(socket, ttl.into()))?,
            }
        }
        if let Some(tos) = *tos {
            match six {
                true => {
                    option("IPV6_TCLASS", tos, || sockopt::set_ipv6_tclass(socket, tos.into()))?;
                }
                false => option("IP_TOS", tos, || sockopt::set_ip_tos(socket, tos))?,
            }
        }
        Ok(())
    }

    /// Whether the buffers are as large as asked for: the system says nothing where it gives less.
    fn buffers(&self, socket: &OwnedFd) -> Result<(), SocketsError> {
        let checks = [
            (
                "SO_SNDBUF",
                "net.core.wmem_max",
                self.profile.send_buffer,
                sockopt::socket_send_buffer_size(socket),
            ),
            (
                "SO_RCVBUF",
                "net.core.rmem_max",
                self.profile.receive_buffer,
                sockopt::socket_recv_buffer_size(socket),
            ),
        ];
        for (option, limit, asked, doubled) in checks {
            let (Some(asked), Ok(doubled)) = (asked, doubled) else { continue };
            let given = doubled as u64 / 2;
            if given < asked.get() {
                return Err(SocketsError::Buffer { option, limit, asked: asked.get(), given });
            }
        }
        Ok(())
    }

    fn refused(&self, (option, value, error): Refused) -> SocketsError {
        match &self.profile.congestion {
            Some(name) if option == "TCP_CONGESTION" => SocketsError::Congestion {
                name: name.clone(),
                available: machine::congestion_controls(),
                allowed: machine::allowed_congestion_controls(),
                error,
            },
            _ => SocketsError::Option { option, value, error },
        }
    }
}

fn open(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

/// The kernel takes an int and doubles it.
fn size(bytes: Bytes) -> usize {
    usize::try_from(bytes.get()).unwrap_or(usize::MAX).min(i32::MAX as usize / 2)
}

fn option(
    name: &'static str,
    value: impl ToString,
    set: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Refused> {
    set().map_err(|error| (name, value.to_string(), error))
}

/// The error number behind an error of the standard library.
pub(crate) fn system(result: io::Result<()>) -> Result<(), Errno> {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
