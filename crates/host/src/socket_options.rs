//! Options of TCP sockets that no safe crate wraps (socket(7), ip(7)), so this file has `unsafe` blocks. `TCP_MAXSEG` stands
//! beside `TCP_INFO` in `tcp_info.rs`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use wirebeat_units::BitRate;

/// Limits the rate at which the kernel lets segments of this socket leave (`SO_MAX_PACING_RATE`). The kernel counts whole
/// bytes a second, so the rate is rounded up to eight bits a second.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_max_pacing_rate(socket: BorrowedFd<'_>, rate: BitRate) -> io::Result<()> {
    // an unsigned long since Linux 4.20
    let bytes = libc::c_ulong::try_from(rate.0.div_ceil(8)).unwrap_or(libc::c_ulong::MAX);
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes.to_ne_bytes())
}

/// The rate at which the kernel lets segments of this socket leave at most; `None`: no limit.
///
/// # Errors
/// Those of getsockopt(2).
#[allow(unsafe_code)]
pub fn max_pacing_rate(socket: BorrowedFd<'_>) -> io::Result<Option<BitRate>> {
    let mut bytes: libc::c_ulong = 0;
    let mut length = size_of_val(&bytes) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `bytes`, and the length that it wrote to
    // `length`; both live until the call returns. Any bytes are a value of the integer.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw mut bytes).cast(),
            &mut length,
        )
    };
    match status {
        0 if bytes == libc::c_ulong::MAX => Ok(None),
        #[allow(clippy::unnecessary_cast, reason = "it has 32 bits on some targets")]
        0 => Ok(Some(BitRate((bytes as u64).saturating_mul(8)))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Leaves the choice of the port to connect(2), where an address is bound without one (`IP_BIND_ADDRESS_NO_PORT`, which covers
/// IPv6 too): so one port serves several destinations.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_bind_address_no_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    set(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on.to_ne_bytes())
}

/// An option with a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOption {
    /// How often a SYN, or the answer of a listener to one, is repeated (`TCP_SYNCNT`).
    SynCount,
    /// The least retransmission timeout in microseconds (`TCP_RTO_MIN_US`, Linux 6.15).
    RtoMinMicros,
    /// The longest one in milliseconds (`TCP_RTO_MAX_MS`, Linux 6.15).
    RtoMaxMillis,
    /// How long an acknowledgment is delayed at most, in microseconds (`TCP_DELACK_MAX_US`, Linux 6.15).
    DelayedAckMicros,
    /// Whether packets of IPv4 have DF (`IP_MTU_DISCOVER`): [`MTU_DISCOVER_DO`] or [`MTU_DISCOVER_DONT`].
    MtuDiscover,
    /// Whether a connection of Multipath TCP is one, rather than TCP because the peer has no other: 1 or 0 (`TCP_IS_MPTCP`, Linux
    /// 5.16). Only to be read.
    IsMultipath,
    /// Whether sends may hand memory over instead of copying it (`SO_ZEROCOPY`, Linux 4.14): 1 or 0.
    ZeroCopy,
    /// Whether small chunks of SCTP leave at once: 1 or 0 (`SCTP_NODELAY`, RFC 6458 §8.1.5).
    SctpNoDelay,
}

/// Always DF (`IP_PMTUDISC_DO`).
pub const MTU_DISCOVER_DO: i32 = libc::IP_PMTUDISC_DO;
/// Never DF (`IP_PMTUDISC_DONT`).
pub const MTU_DISCOVER_DONT: i32 = libc::IP_PMTUDISC_DONT;

impl IntOption {
    /// Its name in the manual pages and the kernel's headers.
    pub const fn name(self) -> &'static str {
        match self {
            IntOption::SynCount => "TCP_SYNCNT",
            IntOption::RtoMinMicros => "TCP_RTO_MIN_US",
            IntOption::RtoMaxMillis => "TCP_RTO_MAX_MS",
            IntOption::DelayedAckMicros => "TCP_DELACK_MAX_US",
            IntOption::MtuDiscover => "IP_MTU_DISCOVER",
            IntOption::IsMultipath => "TCP_IS_MPTCP",
            IntOption::ZeroCopy => "SO_ZEROCOPY",
            IntOption::SctpNoDelay => "SCTP_NODELAY",
        }
    }

    /// Its level and its number; those that libc does not have are of the kernel's `include/uapi`, linux/tcp.h, linux/sctp.h and asm-generic/socket.h.
    const fn number(self) -> (libc::c_int, libc::c_int) {
        match self {
            IntOption::SynCount => (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
            IntOption::IsMultipath => (libc::IPPROTO_TCP, 43),
            IntOption::RtoMaxMillis => (libc::IPPROTO_TCP, 44),
            IntOption::RtoMinMicros => (libc::IPPROTO_TCP, 45),
            IntOption::DelayedAckMicros => (libc::IPPROTO_TCP, 46),
            IntOption::MtuDiscover => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            IntOption::ZeroCopy => (libc::SOL_SOCKET, 60),
            IntOption::SctpNoDelay => (libc::IPPROTO_SCTP, 3),
        }
    }
}

/// Sets an option with a whole number.
///
/// # Errors
/// Those of setsockopt(2): `ENOPROTOOPT` where the kernel does not have it, `EINVAL` where it has other bounds.
pub fn set_int_option(socket: BorrowedFd<'_>, option: IntOption, value: i32) -> io::Result<()> {
    let (level, name) = option.number();
    set(socket, level, name, &value.to_ne_bytes())
}

/// What an option with a whole number is set to.
///
/// # Errors
/// Those of getsockopt(2).
#[allow(unsafe_code)]
pub fn int_option(socket: BorrowedFd<'_>, option: IntOption) -> io::Result<i32> {
    let (level, name) = option.number();
    let mut value: libc::c_int = 0;
    let mut length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `value`, and the length that it wrote to `length`;
    // both live until the call returns. Any bytes are a value of the integer.
    let status = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &mut length)
    };
    if status == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// More than `struct sctp_status` has today (Linux 6.18: 176 bytes).
const STATUS_ROOM: usize = 512;

/// Whether a one-to-one socket of SCTP has an association still (`SCTP_STATUS`, RFC 6458 §8.2.1): none when it was shut down or aborted.
///
/// # Errors
/// Those of getsockopt(2) but `EINVAL`, which says that there is none.
#[allow(unsafe_code)]
pub fn has_sctp_association(socket: BorrowedFd<'_>) -> io::Result<bool> {
    const SCTP_STATUS: libc::c_int = 14;
    let mut status = [0_u32; STATUS_ROOM / size_of::<u32>()];
    let mut length = STATUS_ROOM as libc::socklen_t;
    // SAFETY: the kernel reads and writes at most `length` bytes, which is the size of `status`, and writes the length to `length`; both
    // live until the call returns. Any bytes are values of the integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_SCTP,
            SCTP_STATUS,
            status.as_mut_ptr().cast(),
            &mut length,
        )
    };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(true),
        error if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        error => Err(error),
    }
}

#[allow(unsafe_code)]
fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the kernel reads the bytes that pointer and length name; they live until the call returns.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

    use super::*;

    #[test]
    fn the_rate_is_kept_in_whole_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(max_pacing_rate(listener.as_fd()).unwrap(), None);
        // more than 32 bits of bytes a second
        for (rate, kept) in [(8_000_001, 8_000_008), (100_000_000_000, 100_000_000_000)] {
            set_max_pacing_rate(listener.as_fd(), BitRate(rate)).unwrap();
            assert_eq!(max_pacing_rate(listener.as_fd()).unwrap(), Some(BitRate(kept)));
        }
    }

    #[test]
    fn an_address_is_bound_without_a_port() {
        for (family, address) in
            [(AddressFamily::INET, "127.0.0.1:0"), (AddressFamily::INET6, "[::1]:0")]
        {
            let socket = socket(family, SocketType::STREAM, None).unwrap();
            set_bind_address_no_port(socket.as_fd()).unwrap();
            let address: std::net::SocketAddr = address.parse().unwrap();
            bind(&socket, &address).unwrap();
            let bound = std::net::SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
            assert_eq!(bound, address, "the port is chosen later");
        }
    }

    #[test]
    fn whole_numbers_are_read_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = listener.as_fd();
        for (option, value) in [
            (IntOption::SynCount, 3),
            (IntOption::MtuDiscover, MTU_DISCOVER_DONT),
            (IntOption::ZeroCopy, 1),
        ] {
            assert_ne!(int_option(fd, option).unwrap(), value, "{option:?}");
            set_int_option(fd, option, value).unwrap();
            assert_eq!(int_option(fd, option).unwrap(), value, "{option:?}");
        }
        assert!(set_int_option(fd, IntOption::SynCount, 0).is_err());
        let later = [
            (IntOption::RtoMinMicros, 100_000),
            (IntOption::RtoMaxMillis, 5_000),
            (IntOption::DelayedAckMicros, 100_000),
        ];
        for (option, value) in later {
            match set_int_option(fd, option, value) {
                Ok(()) => assert_eq!(int_option(fd, option).unwrap(), value, "{option:?}"),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT), "{option:?}");
                    eprintln!("SKIPPED: this kernel has no {}", option.name());
                }
            }
        }
    }

    #[test]
    fn a_file_is_no_socket() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(set_bind_address_no_port(file.as_fd()).is_err());
        assert!(set_max_pacing_rate(file.as_fd(), BitRate(8)).is_err());
        assert!(max_pacing_rate(file.as_fd()).is_err());
        assert!(has_sctp_association(file.as_fd()).is_err());
    }
}
