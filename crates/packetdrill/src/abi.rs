//! The table of calls that packetdrill asks a library for, and what of the C library it has to see differently.
//!
//! The only place with `unsafe` code. Declared from facts alone: the order of the entries and the types of their arguments. Pointers
//! come from packetdrill, which passes what a program would pass to the kernel: they are good for the length that goes with them,
//! or null. `fcntl` and `ioctl` have variable arguments there; on the 64-bit ABIs of Linux a callee with one argument more finds the
//! optional one in its register, and does not look at it where the command has none.
//!
//! `getsockopt`, `sendfile` and `close` are exported under those names too: packetdrill calls the C library's for `TCP_INFO`, for
//! `sendfile` and at its end, past the table. The library is preloaded, so that they come here; descriptors that are not ours go to the kernel.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::slice;

use libc::{
    epoll_event, iovec, msghdr, nfds_t, off_t, pollfd, sockaddr, socklen_t, ssize_t, timeval,
    useconds_t,
};
use wirebeat_units::Nanos;

use crate::calls::{Got, OptionValue};
use crate::sockets::{Errno, FIRST};
use crate::world::{Shared, shared};

/// A packet of no version of IP: packetdrill ends with an error, where it would wait for ever.
const NO_PACKET: [u8; 20] = [0; 20];

type User = *mut c_void;

/// The table. Entries without a function here would be null; none is.
#[repr(C)]
pub struct Interface {
    userdata: User,
    free: extern "C" fn(User),
    socket: extern "C" fn(User, c_int, c_int, c_int) -> c_int,
    bind: extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: extern "C" fn(User, c_int, c_int) -> c_int,
    accept: extern "C" fn(User, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    read: extern "C" fn(User, c_int, *mut c_void, usize) -> ssize_t,
    readv: extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t,
    recv: extern "C" fn(User, c_int, *mut c_void, usize, c_int) -> ssize_t,
    recvfrom: extern "C" fn(
        User,
        c_int,
        *mut c_void,
        usize,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    recvmsg: extern "C" fn(User, c_int, *mut msghdr, c_int) -> ssize_t,
    write: extern "C" fn(User, c_int, *const c_void, usize) -> ssize_t,
    writev: extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t,
    send: extern "C" fn(User, c_int, *const c_void, usize, c_int) -> ssize_t,
    sendto: extern "C" fn(
        User,
        c_int,
        *const c_void,
        usize,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    sendmsg: extern "C" fn(User, c_int, *const msghdr, c_int) -> ssize_t,
    fcntl: extern "C" fn(User, c_int, c_int, c_long) -> c_int,
    ioctl: extern "C" fn(User, c_int, c_ulong, *mut c_int) -> c_int,
    close: extern "C" fn(User, c_int) -> c_int,
    shutdown: extern "C" fn(User, c_int, c_int) -> c_int,
    getsockopt: extern "C" fn(User, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: extern "C" fn(User, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: extern "C" fn(User, *mut pollfd, nfds_t, c_int) -> c_int,
    netdev_send: extern "C" fn(User, *const c_void, usize) -> c_int,
    netdev_receive: extern "C" fn(User, *mut c_void, *mut usize, *mut i64) -> c_int,
    usleep: extern "C" fn(User, useconds_t) -> c_int,
    gettimeofday: extern "C" fn(User, *mut timeval, *mut c_void) -> c_int,
    epoll_create: extern "C" fn(User, c_int) -> c_int,
    epoll_ctl: extern "C" fn(User, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: extern "C" fn(User, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: extern "C" fn(User, *mut c_int) -> c_int,
    splice: extern "C" fn(User, c_int, *mut i64, c_int, *mut i64, usize, c_uint) -> c_int,
}

/// Fills the table. `flags` are parted by commas: addresses of this side, from which connections leave, `mtu=` with the largest
/// packet, which is 1500 bytes otherwise, and `quick_acks=` with the number of segments that are acknowledged without delay at first.
///
/// # Safety
/// `flags` is null or ends with a zero byte; `interface` is a table of packetdrill's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    let flags = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: a string of the command line, as the caller promises.
        unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned()
    };
    shared().lock().sockets.configure(&flags);
    let table = Interface {
        userdata: std::ptr::null_mut(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close: close_socket,
        shutdown,
        getsockopt: get_option,
        setsockopt: set_option,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    if !interface.is_null() {
        // SAFETY: a table of packetdrill's, as the caller promises, which it has allocated for this.
        unsafe { interface.write(table) };
    }
}

/// The result of a call as C has it: -1 and `errno` for an error.
fn answer<T: From<i8>>(result: Result<T, Errno>) -> T {
    match result {
        Ok(value) => value,
        Err(Errno(errno)) => {
            // SAFETY: the thread's own errno.
            unsafe { *libc::__errno_location() = errno };
            T::from(-1)
        }
    }
}

/// The bytes at `at`; none where it is null.
///
/// # Safety
/// `at` is null or good for reading `len` bytes while they are used.
unsafe fn bytes<'a>(at: *const c_void, len: usize) -> &'a [u8] {
    if at.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(at.cast(), len) }
}

/// The bytes at `at`, to be written; none where it is null.
///
/// # Safety
/// `at` is null or good for writing `len` bytes while they are used, and nobody else uses them.
unsafe fn bytes_mut<'a>(at: *mut c_void, len: usize) -> &'a mut [u8] {
    if at.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts_mut(at.cast(), len) }
}

/// The pieces of a scattered buffer.
///
/// # Safety
/// `at` is null or points to `count` entries, each of which is null or good for its length.
unsafe fn pieces<'a>(at: *const iovec, count: usize) -> &'a [iovec] {
    if at.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(at, count) }
}

/// The address at `at`, one of IPv4 that is mapped into IPv6 as what it is.
fn address(at: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    // SAFETY: packetdrill passes an address of this length.
    let bytes = unsafe { bytes(at.cast(), len as usize) };
    let [a, b, high, low, rest @ ..] = bytes else { return Err(Errno::INVAL) };
    let port = u16::from_be_bytes([*high, *low]);
    let ip = match c_int::from(u16::from_ne_bytes([*a, *b])) {
        libc::AF_INET => {
            let octets: [u8; 4] = *rest.first_chunk().ok_or(Errno::INVAL)?;
            IpAddr::from(octets)
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] =
                *rest.get(4..).and_then(|rest| rest.first_chunk()).ok_or(Errno::INVAL)?;
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return Err(Errno(libc::EAFNOSUPPORT)),
    };
    Ok(SocketAddr::new(ip, port))
}

/// Writes an address where the caller wants one.
fn put_address(address: SocketAddr, at: *mut sockaddr, len: *mut socklen_t) {
    if at.is_null() || len.is_null() {
        return;
    }
    let mut written = Vec::with_capacity(28);
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u16;
    written.extend(family.to_ne_bytes());
    written.extend(address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            written.extend(Ipv4Addr::octets(&ip));
            written.extend([0; 8]);
        }
        IpAddr::V6(ip) => {
            written.extend([0; 4]);
            written.extend(ip.octets());
            written.extend([0; 4]);
        }
    }
    // SAFETY: packetdrill passes room for an address, and its length.
    unsafe {
        let room = (*len as usize).min(written.len());
        bytes_mut(at.cast(), room).copy_from_slice(written.get(..room).unwrap_or_default());
        *len = written.len() as socklen_t;
    }
}

extern "C" fn free(_: User) {}

extern "C" fn socket(_: User, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    answer(shared().act(|world| world.socket(domain, kind, protocol)))
}

extern "C" fn bind(_: User, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    let bind = |address| shared().act(|world| world.bind(fd, address));
    answer(address(at, len).and_then(bind).map(|()| 0))
}

extern "C" fn listen(_: User, fd: c_int, _backlog: c_int) -> c_int {
    answer(shared().act(|world| world.listen(fd)).map(|()| 0))
}

/// A call that waits where its descriptor blocks.
fn waits<R>(
    shared: &Shared,
    fd: c_int,
    flags: c_int,
    mut call: impl FnMut(&mut crate::world::World) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let blocks = shared.lock().blocks(fd, flags);
    if blocks { shared.block(None, call) } else { shared.act(&mut call) }
}

extern "C" fn accept(_: User, fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let accepted = waits(shared(), fd, 0, |world| world.accept(fd));
    answer(accepted.map(|(accepted, peer)| {
        put_address(peer, at, len);
        accepted
    }))
}

extern "C" fn connect(_: User, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    let begin = |address| shared().act(|world| world.connect(fd, address));
    let blocks = shared().lock().blocks(fd, 0);
    let result = match address(at, len).and_then(begin) {
        Err(Errno(libc::EINPROGRESS)) if blocks => {
            shared().block(None, |world| world.connected(fd))
        }
        other => other,
    };
    answer(result.map(|()| 0))
}

/// Reads into pieces, one after the other.
fn read_pieces(fd: c_int, pieces: &[iovec], flags: c_int) -> Result<Got, Errno> {
    let room = pieces.iter().map(|piece| piece.iov_len).sum();
    let mut buffer = vec![0; room];
    let got = waits(shared(), fd, flags, |world| world.read(fd, &mut buffer, flags))?;
    let mut rest = buffer.get(..got.len).unwrap_or_default();
    for piece in pieces {
        let (front, behind) = rest.split_at(rest.len().min(piece.iov_len));
        // SAFETY: packetdrill passes a buffer of this length.
        unsafe { bytes_mut(piece.iov_base, front.len()) }.copy_from_slice(front);
        rest = behind;
    }
    Ok(got)
}

fn read_one(fd: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> ssize_t {
    if buffer.is_null() && len > 0 {
        return answer(Err(Errno(libc::EFAULT)));
    }
    let got = read_pieces(fd, &[iovec { iov_base: buffer, iov_len: len }], flags);
    answer(got.map(|got| got.len as ssize_t))
}

extern "C" fn read(_: User, fd: c_int, buffer: *mut c_void, len: usize) -> ssize_t {
    read_one(fd, buffer, len, 0)
}

extern "C" fn readv(_: User, fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: packetdrill passes as many pieces as it says.
    let pieces = unsafe { pieces(at, count.max(0) as usize) };
    answer(read_pieces(fd, pieces, 0).map(|got| got.len as ssize_t))
}

extern "C" fn recv(_: User, fd: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> ssize_t {
    read_one(fd, buffer, len, flags)
}

extern "C" fn recvfrom(
    _: User,
    fd: c_int,
    buffer: *mut c_void,
    len: usize,
    flags: c_int,
    _: *mut sockaddr,
    source_len: *mut socklen_t,
) -> ssize_t {
    if !source_len.is_null() {
        // SAFETY: packetdrill passes a length, which is 0 for a stream.
        unsafe { *source_len = 0 };
    }
    read_one(fd, buffer, len, flags)
}

extern "C" fn recvmsg(_: User, fd: c_int, at: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: packetdrill passes a message.
    let Some(message) = (unsafe { at.as_mut() }) else { return answer(Err(Errno(libc::EFAULT))) };
    // SAFETY: the message has as many pieces as it says.
    let pieces = unsafe { pieces(message.msg_iov, message.msg_iovlen) };
    let got = read_pieces(fd, pieces, flags);
    if let Ok(got) = &got {
        put_control(message, got.queue);
        (message.msg_flags, message.msg_namelen) = (0, 0);
    }
    answer(got.map(|got| got.len as ssize_t))
}

/// Puts the control message of `TCP_INQ`, or none, into a message.
fn put_control(message: &mut msghdr, queue: Option<i32>) {
    // SAFETY: arithmetic on a length.
    let needed = unsafe { libc::CMSG_SPACE(4) } as usize;
    let room = message.msg_controllen;
    message.msg_controllen = 0;
    let Some(queue) = queue.filter(|_| !message.msg_control.is_null() && room >= needed) else {
        return;
    };
    message.msg_controllen = needed;
    // SAFETY: the message has room for one header and a word, as was just looked up, aligned as for any message.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if let Some(it) = header.as_mut() {
            it.cmsg_level = libc::SOL_TCP;
            it.cmsg_type = libc::TCP_CM_INQ;
            it.cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(queue);
        }
    }
}

/// Writes all of `data` where the descriptor blocks, what there is room for otherwise.
fn write_all(fd: c_int, data: &[u8], flags: c_int) -> Result<usize, Errno> {
    let blocks = shared().lock().blocks(fd, flags);
    let mut written = 0;
    while let Some(rest) = data.get(written..) {
        let write = |world: &mut crate::world::World| world.write(fd, rest, flags);
        let result = if blocks { shared().block(None, write) } else { shared().act(write) };
        match result {
            Ok(taken) => written += taken,
            Err(error) if written == 0 => return Err(error),
            Err(_) => break,
        }
        if written == data.len() || !blocks {
            break;
        }
    }
    Ok(written)
}

fn write_pieces(fd: c_int, pieces: &[iovec], flags: c_int) -> ssize_t {
    let mut data = Vec::new();
    for piece in pieces {
        if piece.iov_base.is_null() && piece.iov_len > 0 {
            return answer(Err(Errno(libc::EFAULT)));
        }
        // SAFETY: packetdrill passes a buffer of this length.
        data.extend_from_slice(unsafe { bytes(piece.iov_base, piece.iov_len) });
    }
    answer(write_all(fd, &data, flags).map(|written| written as ssize_t))
}

extern "C" fn write(_: User, fd: c_int, buffer: *const c_void, len: usize) -> ssize_t {
    write_pieces(fd, &[iovec { iov_base: buffer.cast_mut(), iov_len: len }], 0)
}

extern "C" fn writev(_: User, fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: packetdrill passes as many pieces as it says.
    write_pieces(fd, unsafe { pieces(at, count.max(0) as usize) }, 0)
}

extern "C" fn send(_: User, fd: c_int, buffer: *const c_void, len: usize, flags: c_int) -> ssize_t {
    write_pieces(fd, &[iovec { iov_base: buffer.cast_mut(), iov_len: len }], flags)
}

extern "C" fn sendto(
    _: User,
    fd: c_int,
    buffer: *const c_void,
    len: usize,
    flags: c_int,
    _: *const sockaddr,
    _: socklen_t,
) -> ssize_t {
    write_pieces(fd, &[iovec { iov_base: buffer.cast_mut(), iov_len: len }], flags)
}

extern "C" fn sendmsg(_: User, fd: c_int, at: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: packetdrill passes a message.
    let Some(message) = (unsafe { at.as_ref() }) else { return answer(Err(Errno(libc::EFAULT))) };
    // SAFETY: the message has as many pieces as it says.
    write_pieces(fd, unsafe { pieces(message.msg_iov, message.msg_iovlen) }, flags)
}

extern "C" fn fcntl(_: User, fd: c_int, command: c_int, word: c_long) -> c_int {
    answer(shared().act(|world| world.control(fd, command, word as c_int)))
}

extern "C" fn ioctl(_: User, fd: c_int, request: c_ulong, value: *mut c_int) -> c_int {
    answer(shared().act(|world| world.ioctl(fd, request)).map(|word| {
        if !value.is_null() {
            // SAFETY: packetdrill passes room for a word with the requests that are answered.
            unsafe { *value = word };
        }
        0
    }))
}

extern "C" fn close_socket(_: User, fd: c_int) -> c_int {
    answer(shared().act(|world| world.close(fd)).map(|()| 0))
}

extern "C" fn shutdown(_: User, fd: c_int, how: c_int) -> c_int {
    answer(shared().act(|world| world.shutdown(fd, how)).map(|()| 0))
}

extern "C" fn get_option(
    _: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if value.is_null() || len.is_null() {
        return answer(Err(Errno(libc::EFAULT)));
    }
    let found = shared().act(|world| world.get_option(fd, level, name));
    answer(found.map(|found| {
        let found = match found {
            OptionValue::Word(word) => word.to_ne_bytes().to_vec(),
            OptionValue::Bytes(bytes) => bytes,
        };
        // SAFETY: packetdrill passes room for as many bytes as the length says.
        unsafe {
            let room = found.len().min(*len as usize);
            bytes_mut(value, room).copy_from_slice(found.get(..room).unwrap_or_default());
            *len = room as socklen_t;
        }
        0
    }))
}

extern "C" fn set_option(
    _: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes a value of this length.
    let value = unsafe { bytes(value, len as usize) };
    answer(shared().act(|world| world.set_option(fd, level, name, value)).map(|()| 0))
}

extern "C" fn poll(_: User, at: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    let entries = if at.is_null() {
        &mut []
    } else {
        // SAFETY: packetdrill passes as many entries as it says.
        unsafe { slice::from_raw_parts_mut(at, count as usize) }
    };
    let deadline = shared().lock().deadline(timeout);
    let found = shared().block(deadline, |world| {
        let mut ready = 0;
        for entry in entries.iter_mut() {
            entry.revents = world.poll(entry.fd, entry.events);
            ready += c_int::from(entry.revents != 0);
        }
        if ready > 0 { Ok(ready) } else { Err(Errno::AGAIN) }
    });
    found.unwrap_or(0)
}

extern "C" fn netdev_send(_: User, buffer: *const c_void, len: usize) -> c_int {
    // SAFETY: packetdrill passes a packet of this length.
    let packet = unsafe { bytes(buffer, len) };
    shared().act(|world| world.inject(packet));
    0
}

extern "C" fn netdev_receive(
    _: User,
    buffer: *mut c_void,
    len: *mut usize,
    micros: *mut i64,
) -> c_int {
    if len.is_null() || micros.is_null() {
        return -1;
    }
    let (time, packet) =
        shared().receive().unwrap_or_else(|| (shared().clock(), NO_PACKET.to_vec()));
    // SAFETY: packetdrill passes room for as many bytes as the length says, and for the time.
    unsafe {
        let room = packet.len().min(*len);
        bytes_mut(buffer, room).copy_from_slice(packet.get(..room).unwrap_or_default());
        *len = room;
        *micros = (time.get() / 1_000) as i64;
    }
    0
}

extern "C" fn usleep(_: User, micros: useconds_t) -> c_int {
    shared().sleep(Nanos::from_micros(micros.into()));
    0
}

extern "C" fn gettimeofday(_: User, time: *mut timeval, _: *mut c_void) -> c_int {
    let now = shared().clock().get();
    // SAFETY: packetdrill passes room for a time, or null.
    if let Some(time) = unsafe { time.as_mut() } {
        time.tv_sec = (now / 1_000_000_000) as i64;
        time.tv_usec = (now % 1_000_000_000 / 1_000) as i64;
    }
    0
}

extern "C" fn epoll_create(_: User, _size: c_int) -> c_int {
    shared().lock().sets.insert()
}

extern "C" fn epoll_ctl(
    _: User,
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: packetdrill passes an event, or null.
    let event = unsafe { event.as_ref() }.map(|event| (event.events, event.u64));
    answer(shared().lock().sets.control(set, operation, fd, event).map(|()| 0))
}

extern "C" fn epoll_wait(
    _: User,
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    if events.is_null() || most <= 0 {
        return answer(Err(Errno::INVAL));
    }
    let deadline = shared().lock().deadline(timeout);
    match shared().block(deadline, |world| world.ready(set, most as usize)) {
        Ok(found) => {
            for (at, (events_found, data)) in found.iter().enumerate() {
                // SAFETY: packetdrill passes room for `most` events, and there are no more than that.
                unsafe { events.add(at).write(epoll_event { events: *events_found, u64: *data }) };
            }
            found.len() as c_int
        }
        Err(Errno::AGAIN) => 0,
        Err(error) => answer(Err(error)),
    }
}

extern "C" fn pipe(_: User, ends: *mut c_int) -> c_int {
    // SAFETY: packetdrill passes room for two descriptors; these are the kernel's.
    unsafe { libc::pipe(ends) }
}

/// From a pipe to a socket; the other way there is nothing that asks for it.
extern "C" fn splice(
    _: User,
    from: c_int,
    _: *mut i64,
    to: c_int,
    _: *mut i64,
    len: usize,
    _flags: c_uint,
) -> c_int {
    if from >= FIRST {
        let mut buffer = vec![0; len];
        let got = waits(shared(), from, 0, |world| world.read(from, &mut buffer, 0));
        // SAFETY: the buffer is as long as what was read at least.
        let put = |got: Got| unsafe { libc::write(to, buffer.as_ptr().cast(), got.len) };
        return answer(got.map(|got| put(got) as c_int));
    }
    let mut buffer = vec![0_u8; len];
    // SAFETY: the buffer has this length.
    let got = unsafe { libc::read(from, buffer.as_mut_ptr().cast(), len) };
    let Ok(got) = usize::try_from(got) else { return -1 };
    answer(write_all(to, buffer.get(..got).unwrap_or_default(), 0).map(|len| len as c_int))
}

/// The C library's `getsockopt`: descriptors of ours are answered here, others by the kernel.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if fd >= FIRST {
        return get_option(std::ptr::null_mut(), fd, level, name, value, len);
    }
    // SAFETY: the arguments go on as they came.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int }
}

/// The C library's `close`: packetdrill closes at its end what a script left open.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if fd >= FIRST {
        return close_socket(std::ptr::null_mut(), fd);
    }
    // SAFETY: the argument goes on as it came.
    unsafe { libc::syscall(libc::SYS_close, fd) as c_int }
}

/// The C library's `sendfile`: to a socket of ours the file is read and written here, the rest is the kernel's.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    len: usize,
) -> ssize_t {
    if to < FIRST {
        // SAFETY: the arguments go on as they came.
        return unsafe { libc::syscall(libc::SYS_sendfile, to, from, offset, len) as ssize_t };
    }
    let mut buffer = vec![0_u8; len];
    // SAFETY: an offset or null, as the caller promises; the buffer has this length.
    let got = unsafe {
        let at = offset.as_ref().copied().unwrap_or(0);
        libc::pread(from, buffer.as_mut_ptr().cast(), len, at)
    };
    let Ok(got) = usize::try_from(got) else { return -1 };
    let written = write_all(to, buffer.get(..got).unwrap_or_default(), 0);
    if let (Ok(written), false) = (&written, offset.is_null()) {
        // SAFETY: an offset, as the caller promises.
        unsafe { *offset += *written as off_t };
    }
    answer(written.map(|written| written as ssize_t))
}
