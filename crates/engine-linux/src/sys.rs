//! System calls on sockets that `rustix` does not cover: options by number, batches of messages.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::net::sockopt;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::PortError;
use wirebeat_netlink::request_name;
use wirebeat_units::Nanos;

/// A plain old C type that may cross a socket option.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for libc::c_int {}
// SAFETY: an array of integers.
unsafe impl<const N: usize> Plain for [u32; N] {}

/// Sets an option to a value of plain bytes.
pub(crate) fn set_option<T: Copy>(
    socket: impl AsFd,
    (level, name): (libc::c_int, libc::c_int),
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads the bytes of `value`, which lives through the call.
    let result = unsafe {
        let len = size_of::<T>() as libc::socklen_t;
        let socket = socket.as_fd().as_raw_fd();
        libc::setsockopt(socket, level, name, std::ptr::from_ref(value).cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option. What the kernel leaves out is zero.
pub(crate) fn option<T: Plain>(
    socket: impl AsFd,
    (level, name): (libc::c_int, libc::c_int),
) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`.
    let result = unsafe {
        let socket = socket.as_fd().as_raw_fd();
        libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed at the start, and every bit pattern is a `T` by the promise of `Plain`.
    Ok(unsafe { value.assume_init() })
}

/// Sends one message without waiting.
///
/// # Safety
/// `message` must be valid for reading as long as it says.
#[inline]
pub(crate) unsafe fn send_message(socket: impl AsFd, message: &libc::iovec) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let sent = unsafe {
        let socket = socket.as_fd().as_raw_fd();
        libc::send(socket, message.iov_base, message.iov_len, libc::MSG_DONTWAIT)
    };
    if sent < 0 { Err(last_error()) } else { Ok(()) }
}

/// Sends messages without waiting; returns how many the kernel took, at least one.
///
/// # Safety
/// Every pointer in `messages` must be valid for reading as long as its length says.
pub(crate) unsafe fn send_messages(
    socket: impl AsFd,
    messages: &mut [libc::mmsghdr],
) -> Result<usize, Errno> {
    let count = messages.len() as libc::c_uint;
    // SAFETY: the caller's promise; the kernel writes only `msg_len` of each.
    let sent = unsafe {
        let socket = socket.as_fd().as_raw_fd();
        libc::sendmmsg(socket, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT)
    };
    usize::try_from(sent).map_err(|_| last_error())
}

/// Receives messages without waiting; returns how many came, at least one.
///
/// # Safety
/// Every pointer in `messages` must be valid for writing as long as its length says.
pub(crate) unsafe fn receive_messages(
    socket: impl AsFd,
    messages: &mut [libc::mmsghdr],
) -> Result<usize, Errno> {
    let count = messages.len() as libc::c_uint;
    // SAFETY: the caller's promise; no timeout is given.
    let received = unsafe {
        let socket = socket.as_fd().as_raw_fd();
        let none = std::ptr::null_mut();
        libc::recvmmsg(socket, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT, none)
    };
    usize::try_from(received).map_err(|_| last_error())
}

/// Whether an error may say what an ICMP message said, of a datagram sent before (icmp_err_convert of the
/// kernel's `net/ipv4/icmp.c`, `tab_unreach` and icmpv6_err_convert of `net/ipv6/icmp.c`).
pub(crate) fn came_by_icmp(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNREFUSED
            | Errno::HOSTUNREACH
            | Errno::HOSTDOWN
            | Errno::NETUNREACH
            | Errno::NOPROTOOPT
            | Errno::OPNOTSUPP
            | Errno::NONET
            | Errno::PROTO
            | Errno::MSGSIZE
            | Errno::ACCESS
    )
}

/// The error of the call that just failed.
pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Has the kernel run a classic BPF program on what the socket would get.
pub(crate) fn attach_filter(socket: impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    set_program(socket, libc::SO_ATTACH_FILTER, program)
}

/// Takes that program off again.
pub(crate) fn detach_filter(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, (libc::SOL_SOCKET, libc::SO_DETACH_FILTER), &0)
}

/// Has a classic BPF program choose among sockets that are bound to one address. Before it is bound.
pub(crate) fn choose_socket(socket: impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    set_program(socket, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

fn set_program(
    socket: impl AsFd,
    name: libc::c_int,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    // the kernel copies the instructions and changes none
    set_option(socket, (libc::SOL_SOCKET, name), &program)
}

/// Has what was sent wait in up to `bytes` of the kernel's memory. More than the system's limit takes
/// CAP_NET_ADMIN; with less the socket is full sooner.
pub(crate) fn set_send_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    if sockopt::set_socket_send_buffer_size_force(&socket, bytes).is_err() {
        sockopt::set_socket_send_buffer_size(&socket, bytes)?;
    }
    Ok(())
}

/// Has the socket use one interface only. Needs no privilege since Linux 5.7.
pub(crate) fn bind_to_device(socket: impl AsFd, name: &str) -> io::Result<()> {
    set_option(socket, (libc::SOL_SOCKET, libc::SO_BINDTODEVICE), &request_name(name)?)
}

/// What to wait for: that `file` can be read.
pub(crate) fn readable(file: impl AsFd) -> libc::pollfd {
    libc::pollfd { fd: file.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Waits until one of `files` is ready, at most until `until` or a signal; says whether one is. Looks
/// at least once.
pub(crate) fn poll_until(files: &mut [libc::pollfd], until: Nanos) -> io::Result<bool> {
    let left = until.saturating_sub(MonotonicClock.now()).get();
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(left / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: (left % 1_000_000_000) as _,
    };
    // SAFETY: as many entries as it is told, which the kernel writes `revents` of; no signal mask. A
    // file that was closed in the meantime is reported as such.
    let ready = unsafe {
        let count = files.len() as libc::nfds_t;
        libc::ppoll(files.as_mut_ptr(), count, &timeout, std::ptr::null())
    };
    match ready {
        0.. => Ok(ready > 0),
        _ => match last_error() {
            Errno::INTR => Ok(false),
            errno => Err(errno.into()),
        },
    }
}

/// Room for messages, which are filled in before each call.
#[derive(Debug)]
pub(crate) struct Messages(Vec<libc::mmsghdr>);

// SAFETY: the pointers in there are written before each use; between uses they mean nothing.
unsafe impl Send for Messages {}

impl Messages {
    /// Room for `count`.
    pub(crate) fn new(count: usize) -> Self {
        // SAFETY: `mmsghdr` is integers and pointers, for which zero is a value.
        Messages(vec![unsafe { std::mem::zeroed() }; count])
    }

    /// The messages.
    pub(crate) fn get(&mut self) -> &mut [libc::mmsghdr] {
        &mut self.0
    }
}

/// That the system refused `what` on `on`.
pub(crate) fn refused(what: &'static str, on: &str, source: io::Error) -> PortError {
    PortError::System { what: what.into(), on: on.to_owned(), source }
}
