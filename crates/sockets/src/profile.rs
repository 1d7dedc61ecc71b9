//! What is asked of TCP for the connections of a group: plain data, set on each socket explicitly.
//!
//! Accepted sockets inherit the options of their listener (a test holds that they do) but for some of SCTP, so a listener costs the
//! calls once. A profile is tried on sockets of both families before the start: the error names the option, its limit and the remedy.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use wirebeat_host::{
    IntOption, MTU_DISCOVER_DO, MTU_DISCOVER_DONT, set_int_option, set_max_pacing_rate,
    set_tcp_max_segment,
};
use wirebeat_units::{BitRate, Bytes, Nanos};

use crate::error::SocketsError;
use crate::machine;
use crate::zero_copy::ConstantMemory;

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
    /// Whether packets of IPv4 have DF (`IP_MTU_DISCOVER`).
    pub dont_fragment: Option<bool>,
    /// Probes of an idle connection (`SO_KEEPALIVE`).
    pub keep_alive: Option<KeepAlive>,
    /// How often a SYN, or the answer to one, is repeated (`TCP_SYNCNT`).
    pub syn_retries: Option<u8>,
    /// How long data waits for an acknowledgment (`TCP_USER_TIMEOUT`), in whole milliseconds, rounded up.
    pub user_timeout: Option<Nanos>,
    /// The least retransmission timeout (`TCP_RTO_MIN_US`), in whole microseconds.
    pub rto_min: Option<Nanos>,
    /// The longest one (`TCP_RTO_MAX_MS`), in whole milliseconds, rounded up.
    pub rto_max: Option<Nanos>,
    /// How long an acknowledgment is delayed at most (`TCP_DELACK_MAX_US`), in whole microseconds.
    pub delayed_ack: Option<Nanos>,
    /// What connections are of.
    pub protocol: Protocol,
    /// What is sent out of this memory is handed to the kernel instead of copied (`SO_ZEROCOPY`). `None`: all is copied.
    pub zero_copy: Option<ConstantMemory>,
    /// Listeners share their address with those of other stacks, one for each core (`SO_REUSEPORT`); the kernel spreads
    /// connections over them.
    pub shared_port: bool,
}

/// What connections are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// Multipath TCP (`IPPROTO_MPTCP`), where the peer has it too; else it is TCP.
    MultipathTcp,
    /// SCTP, by one-to-one sockets (RFC 6458 §4): a connection is an association.
    Sctp,
}

/// Probes of an idle connection, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// How long nothing has come before the first (`TCP_KEEPIDLE`).
    pub idle: Nanos,
    /// From one to the next (`TCP_KEEPINTVL`).
    pub interval: Nanos,
    /// How many are not answered before the connection has timed out (`TCP_KEEPCNT`).
    pub count: u8,
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
            let protocol = tried.profile.protocol;
            let socket = match open(family, protocol) {
                Ok(socket) => socket,
                // EPROTONOSUPPORT of a kernel that was built without it, ENOPROTOOPT where it is switched off (mptcp_init_sock).
                Err(error @ (Errno::PROTONOSUPPORT | Errno::NOPROTOOPT))
                    if protocol == Protocol::MultipathTcp =>
                {
                    return Err(SocketsError::Multipath(error));
                }
                Err(error @ (Errno::PROTONOSUPPORT | Errno::SOCKTNOSUPPORT))
                    if protocol == Protocol::Sctp =>
                {
                    return Err(SocketsError::Sctp(error));
                }
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
        let socket = open(family, self.profile.protocol)?;
        self.set(&socket, family).map_err(|(_, _, error)| error)?;
        Ok(socket)
    }

    /// Sets the options, in an order that connect(2) and listen(2) may follow.
    fn set(&self, socket: &OwnedFd, family: AddressFamily) -> Result<(), Refused> {
        let Profile { congestion, mss, send_buffer, receive_buffer, nagle, pacing, .. } =
            &self.profile;
        match self.profile.protocol {
            Protocol::Sctp => {
                let number = IntOption::SctpNoDelay;
                let set = || system(set_int_option(socket.as_fd(), number, (!nagle).into()));
                option(number.name(), !nagle, set)?;
            }
            Protocol::Tcp | Protocol::MultipathTcp => {
                option("TCP_NODELAY", !nagle, || sockopt::set_tcp_nodelay(socket, !nagle))?;
            }
        }
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
        if self.profile.zero_copy.is_some() {
            let set = || system(set_int_option(socket.as_fd(), IntOption::ZeroCopy, 1));
            option(IntOption::ZeroCopy.name(), 1, set)?;
        }
        self.set_times(socket)?;
        self.set_ip(socket, family)
    }

    /// How long, and how often, is waited for the peer.
    fn set_times(&self, socket: &OwnedFd) -> Result<(), Refused> {
        let Profile {
            keep_alive, syn_retries, user_timeout, rto_min, rto_max, delayed_ack, ..
        } = &self.profile;
        if let Some(KeepAlive { idle, interval, count }) = *keep_alive {
            option("SO_KEEPALIVE", true, || sockopt::set_socket_keepalive(socket, true))?;
            option("TCP_KEEPIDLE", idle, || sockopt::set_tcp_keepidle(socket, idle.to_duration()))?;
            option("TCP_KEEPINTVL", interval, || {
                sockopt::set_tcp_keepintvl(socket, interval.to_duration())
            })?;
            option("TCP_KEEPCNT", count, || sockopt::set_tcp_keepcnt(socket, count.into()))?;
        }
        if let Some(time) = *user_timeout {
            let millis = u32::try_from(time.get().div_ceil(1_000_000)).unwrap_or(u32::MAX);
            option("TCP_USER_TIMEOUT", time, || sockopt::set_tcp_user_timeout(socket, millis))?;
        }
        let in_units = |time: Nanos, unit: u64| (time.get().div_ceil(unit), time.to_string());
        let numbers = [
            (IntOption::SynCount, syn_retries.map(|count| (u64::from(count), count.to_string()))),
            (IntOption::RtoMinMicros, rto_min.map(|time| in_units(time, 1_000))),
            (IntOption::RtoMaxMillis, rto_max.map(|time| in_units(time, 1_000_000))),
            (IntOption::DelayedAckMicros, delayed_ack.map(|time| in_units(time, 1_000))),
        ];
        for (name, asked) in numbers {
            let Some((number, text)) = asked else { continue };
            let number = i32::try_from(number).unwrap_or(i32::MAX);
            let set = || system(set_int_option(socket.as_fd(), name, number));
            option(name.name(), text, set)?;
        }
        Ok(())
    }

    /// Sets what an accepted socket does not have of its listener: of SCTP the ToS byte, in Linux 6.1.
    pub fn complete(&self, accepted: &OwnedFd) {
        if self.profile.protocol == Protocol::Sctp
            && let Ok(family) = sockopt::socket_domain(accepted)
        {
            // what its listener has is valid
            let _ = self.set_ip(accepted, family);
        }
    }

    /// What the headers of IP say.
    fn set_ip(&self, socket: &OwnedFd, family: AddressFamily) -> Result<(), Refused> {
        let Profile { ttl, tos, dont_fragment, .. } = &self.profile;
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
        if let Some(asked) = dont_fragment.filter(|_| !six) {
            let value = if asked { MTU_DISCOVER_DO } else { MTU_DISCOVER_DONT };
            let set = || system(set_int_option(socket.as_fd(), IntOption::MtuDiscover, value));
            option(IntOption::MtuDiscover.name(), value, set)?;
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

fn open(family: AddressFamily, protocol: Protocol) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let protocol = match protocol {
        Protocol::Tcp => ipproto::TCP,
        Protocol::MultipathTcp => ipproto::MPTCP,
        Protocol::Sctp => ipproto::SCTP,
    };
    socket_with(family, SocketType::STREAM, flags, Some(protocol))
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
