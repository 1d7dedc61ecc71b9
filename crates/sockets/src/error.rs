//! What goes wrong: [`SocketsError`] before the start, and the [`Reason`] of a connection's end out of the system's error number.

use std::fmt;
use std::net::SocketAddr;

use rustix::io::Errno;
use wirebeat_converse::stack::{Failure, Reason};
use wirebeat_units::{Fault, fault, into_fault};

/// Why a stack or a listener could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketsError {
    /// No epoll, no timer.
    Setup(Errno),
    /// Another socket has the address.
    InUse(SocketAddr),
    /// The address is on no interface of this machine.
    NotOurs(SocketAddr),
    /// A port below 1024 (or what the system has set), without the right to it.
    Privileged(SocketAddr),
    /// The system has no sockets of this address family.
    NoFamily(SocketAddr),
    /// No file descriptor is left.
    NoDescriptor,
    /// There is no such profile.
    NoProfile(u16),
    /// A listener failed otherwise.
    Listen {
        /// At this address.
        address: SocketAddr,
        /// The system's error.
        error: Errno,
    },
    /// The kernel does not have the congestion control, or not for this user.
    Congestion {
        /// The name that was asked for.
        name: String,
        /// Those that there are.
        available: Vec<String>,
        /// Those of them that a user without privileges may have.
        allowed: Vec<String>,
        /// The system's error.
        error: Errno,
    },
    /// The system gives a smaller buffer than asked for.
    Buffer {
        /// The socket option.
        option: &'static str,
        /// What limits it, a sysctl.
        limit: &'static str,
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that the system gives.
        given: u64,
    },
    /// The kernel has no Multipath TCP, or it is switched off.
    Multipath(Errno),
    /// The kernel has no SCTP.
    Sctp(Errno),
    /// The system refused an option.
    Option {
        /// The socket option by its name in the manual pages.
        option: &'static str,
        /// The value.
        value: String,
        /// The system's error.
        error: Errno,
    },
}

impl SocketsError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            SocketsError::Setup(error) => fault!("no epoll or timer: {error}"),
            SocketsError::InUse(address) => fault!(
                "another program listens at {address}";
                "choose another port, or find the program with: ss -ltunp 'sport = :{}'", address.port()
            ),
            SocketsError::NotOurs(address) => fault!(
                "{} is not an address of this machine", address.ip();
                "add it to an interface (ip address add), or choose one that 'ip address' shows"
            ),
            SocketsError::Privileged(address) => fault!(
                "port {} needs the right CAP_NET_BIND_SERVICE", address.port();
                "choose a port from 1024 on, or run as root"
            ),
            SocketsError::NoFamily(address) => fault!(
                "this machine has no {}", if address.is_ipv6() { "IPv6" } else { "IPv4" };
                "choose an address of the other family"
            ),
            SocketsError::NoDescriptor => fault!(
                "no file descriptor is left";
                "raise the limit: ulimit -n"
            ),
            SocketsError::NoProfile(number) => fault!("there is no profile {number}"),
            SocketsError::Listen { address, error } => {
                fault!("no listener at {address}: {error}")
            }
            SocketsError::Congestion { name, available, allowed, error } => {
                let there = available.join(", ");
                if available.contains(name) {
                    fault!(
                        "the congestion control '{name}' is not allowed to this user: {error}";
                        "choose one of {}, run as root, or add it to the sysctl net.ipv4.tcp_allowed_congestion_control",
                        allowed.join(", ")
                    )
                } else {
                    fault!(
                        "this machine does not have the congestion control '{name}': {error}";
                        "choose one of {there}, or load it: modprobe tcp_{name}"
                    )
                }
            }
            SocketsError::Buffer { option, limit, asked, given } => fault!(
                "{option} of {asked} bytes: this machine gives {given} at most";
                "raise the limit: sysctl -w {limit}={asked}"
            ),
            SocketsError::Multipath(error) => fault!(
                "this machine has no Multipath TCP: {error}";
                "set the sysctl net.mptcp.enabled to 1 in the namespace of the port, use a kernel with CONFIG_MPTCP, or leave \
                 'multipath' out"
            ),
            SocketsError::Sctp(error) => fault!(
                "this machine has no SCTP: {error}";
                "load it (modprobe sctp), use a kernel with CONFIG_IP_SCTP, or write 'transport: tcp'"
            ),
            SocketsError::Option { option: option @ "SO_ZEROCOPY", error, .. } => fault!(
                "this machine cannot send without a copy: the system refuses {option}: {error}";
                "leave 'zero-copy' out: it needs Linux 4.14, and TCP that is not Multipath TCP"
            ),
            SocketsError::Option {
                option,
                value,
                error: error @ (Errno::NOPROTOOPT | Errno::OPNOTSUPP),
            } => fault!(
                "the system refuses {option} of {value}: {error}";
                "leave it out: this kernel, or its Multipath TCP, does not have it"
            ),
            SocketsError::Option {
                option: option @ ("TCP_RTO_MIN_US" | "TCP_DELACK_MAX_US"),
                value,
                error: error @ Errno::INVAL,
            } => fault!(
                "the system refuses {option} of {value}: {error}";
                "ask for two ticks of the kernel's clock at least, which are 8ms at 250 Hz"
            ),
            SocketsError::Option { option, value, error } => {
                fault!("the system refuses {option} of {value}: {error}")
            }
        }
    }

    /// What the error number of bind(2) or listen(2) means.
    pub(crate) fn of_listener(address: SocketAddr, error: Errno) -> Self {
        match error {
            Errno::ADDRINUSE => SocketsError::InUse(address),
            Errno::ADDRNOTAVAIL => SocketsError::NotOurs(address),
            Errno::ACCESS => SocketsError::Privileged(address),
            Errno::AFNOSUPPORT => SocketsError::NoFamily(address),
            Errno::MFILE | Errno::NFILE => SocketsError::NoDescriptor,
            error => SocketsError::Listen { address, error },
        }
    }
}

into_fault!(SocketsError);

impl fmt::Display for SocketsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault().fmt(f)
    }
}

impl std::error::Error for SocketsError {}

/// Why a connection ended, by the system's error.
pub(crate) fn reason(error: Errno) -> Reason {
    match error {
        Errno::CONNREFUSED => Reason::Refused,
        Errno::TIMEDOUT => Reason::TimedOut,
        // EPIPE: a reset after the peer's FIN, or one that an earlier call has told already (tcp_reset of the kernel).
        // ESHUTDOWN: a peer that has closed an association of SCTP, both ways, before it got all (RFC 9260 §9.2).
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED | Errno::SHUTDOWN => Reason::Reset,
        Errno::HOSTUNREACH
        | Errno::NETUNREACH
        | Errno::HOSTDOWN
        | Errno::NETDOWN
        | Errno::NONET => Reason::Unreachable,
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Reason::Failed(Failure::NoPort),
        Errno::MFILE | Errno::NFILE => Reason::Failed(Failure::NoDescriptor),
        Errno::NOMEM | Errno::NOBUFS => Reason::Failed(Failure::NoMemory),
        Errno::ACCESS | Errno::PERM => Reason::Failed(Failure::NotAllowed),
        error => Reason::Failed(Failure::Other(error.raw_os_error())),
    }
}
