//! Sends without a copy (`SO_ZEROCOPY`): what the kernel tells of memory that it was handed. No safe crate wraps the error queue of
//! a socket, so this file has an `unsafe` block.
//!
//! A send with [`MSG_ZEROCOPY`] lets the kernel read the memory of the program until the peer has acknowledged it. Each is told
//! once by a notification on the error queue, and one notification may tell of several (Documentation/networking/msg_zerocopy.rst). The
//! option itself is [`IntOption::ZeroCopy`](crate::IntOption::ZeroCopy). The bytes of a notification are read by a pure function.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The flag of send(2) by which a piece of memory is handed over instead of copied.
pub const MSG_ZEROCOPY: u32 = libc::MSG_ZEROCOPY as u32;

/// Where a notification comes from, and that the kernel has copied (`SO_EE_ORIGIN_ZEROCOPY`, `SO_EE_CODE_ZEROCOPY_COPIED` of
/// include/uapi/linux/errqueue.h).
const ORIGIN: u8 = 5;
const COPIED: u8 = 1;
/// More than a notification has: a header, `struct sock_extended_err` and an address of IPv6 are 60 bytes.
const ROOM: usize = 128;
/// `struct cmsghdr`, with what aligns the data behind it.
const HEADER: usize = size_of::<libc::cmsghdr>().next_multiple_of(WORD);
const WORD: usize = size_of::<usize>();

/// What a notification tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroCopyNotice {
    /// Sends of which the kernel no longer needs the memory; 0 of a notification about something else.
    pub sends: u32,
    /// Whether it copied them after all.
    pub copied: bool,
}

/// Bytes for the kernel, aligned as it wants them.
#[repr(align(8))]
struct Control([u8; ROOM]);

/// Takes the next notification off the error queue of a socket; `None` where there is none. Never waits.
///
/// # Errors
/// Those of recvmsg(2).
#[allow(unsafe_code)]
pub fn zero_copy_notice(socket: BorrowedFd<'_>) -> io::Result<Option<ZeroCopyNotice>> {
    let mut control = Control([0; ROOM]);
    // SAFETY: a `msghdr` of zeros is one without an address, without parts and without control messages.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = ROOM as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most `msg_controllen` bytes, which is the size of `control`, and the lengths and flags in `message`;
    // both live until the call returns.
    let status = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
    if status >= 0 {
        #[allow(clippy::unnecessary_cast, reason = "it has 32 bits with some C libraries")]
        let written = message.msg_controllen as usize;
        return Ok(Some(notice(control.0.get(..written).unwrap_or_default())));
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        error => Err(error),
    }
}

/// Reads control messages: each is its length with the header, its level, its type, and its data.
fn notice(mut control: &[u8]) -> ZeroCopyNotice {
    while let Some(length) = control.first_chunk().copied().map(usize::from_ne_bytes) {
        let level = word(control, WORD).map(u32::cast_signed);
        let kind = word(control, WORD + 4).map(u32::cast_signed);
        let of_errors = [
            (Some(libc::SOL_IP), Some(libc::IP_RECVERR)),
            (Some(libc::SOL_IPV6), Some(libc::IPV6_RECVERR)),
        ];
        let data = control.get(HEADER..length).filter(|_| of_errors.contains(&(level, kind)));
        if let Some(notice) = data.and_then(extended_error) {
            return notice;
        }
        let next = length.max(HEADER).checked_next_multiple_of(WORD);
        control = next.and_then(|next| control.get(next..)).unwrap_or_default();
    }
    ZeroCopyNotice::default()
}

/// `struct sock_extended_err`: errno, origin, type, code, padding, info, data. The last two are the first and the last of a range of
/// sends, which are counted in 32 bits.
fn extended_error(bytes: &[u8]) -> Option<ZeroCopyNotice> {
    let (&origin, &code) = (bytes.get(4)?, bytes.get(6)?);
    let (first, last) = (word(bytes, 8)?, word(bytes, 12)?);
    let sends = last.wrapping_sub(first).wrapping_add(1);
    (origin == ORIGIN).then_some(ZeroCopyNotice { sends, copied: code & COPIED != 0 })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use rustix::net::{SendFlags, send};

    use super::*;
    use crate::{IntOption, set_int_option};

    fn control(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes
    }

    fn error(origin: u8, code: u8, range: [u32; 2]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, origin, 0, code, 0];
        bytes.extend(range.into_iter().flat_map(u32::to_ne_bytes));
        // the address behind it
        bytes.resize(32, 0);
        bytes
    }

    #[test]
    fn a_notification_is_read_at_both_levels_and_behind_others() {
        let read = |sends, copied| ZeroCopyNotice { sends, copied };
        let four = control(libc::SOL_IP, libc::IP_RECVERR, &error(ORIGIN, COPIED, [7, 7]));
        assert_eq!(notice(&four), read(1, true));
        let six = control(libc::SOL_IPV6, libc::IPV6_RECVERR, &error(ORIGIN, 0, [u32::MAX, 2]));
        assert_eq!(notice(&six), read(4, false), "numbers begin again after 32 bits");
        let behind = [control(libc::SOL_SOCKET, 29, &[1; 13]), six].concat();
        assert_eq!(notice(&behind), read(4, false));
    }

    #[test]
    fn what_is_about_something_else_tells_of_no_sends() {
        let icmp = control(libc::SOL_IP, libc::IP_RECVERR, &error(2, 3, [0, 9]));
        let other = control(libc::SOL_SOCKET, 29, &error(ORIGIN, 0, [0, 9]));
        let whole = control(libc::SOL_IP, libc::IP_RECVERR, &error(ORIGIN, 0, [0, 9]));
        let no_length = [vec![0; HEADER], whole.clone()].concat();
        for bytes in [&icmp[..], &other, &[], &whole[..HEADER], &whole[..HEADER + 15]] {
            assert_eq!(notice(bytes), ZeroCopyNotice::default(), "{bytes:?}");
        }
        assert_eq!(notice(&no_length).sends, 10, "and it comes to an end");
    }

    #[test]
    fn the_kernel_tells_of_each_send_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        assert_eq!(zero_copy_notice(sender.as_fd()).unwrap(), None);
        set_int_option(sender.as_fd(), IntOption::ZeroCopy, 1).unwrap();
        let piece = vec![7; 20_000];
        let flags = SendFlags::from_bits_retain(MSG_ZEROCOPY);
        for _ in 0..2 {
            assert_eq!(send(&sender, &piece, flags).unwrap(), piece.len());
        }
        let mut heard = vec![0; 40_000];
        receiver.read_exact(&mut heard).unwrap();
        assert!(heard.iter().all(|&byte| byte == 7));
        let (begun, mut told) = (Instant::now(), 0);
        while told < 2 {
            assert!(begun.elapsed() < Duration::from_secs(10), "{told} of 2 sends were told");
            if let Some(notice) = zero_copy_notice(sender.as_fd()).unwrap() {
                assert!(notice.copied, "the loopback interface always copies");
                told += notice.sends;
            }
        }
        assert_eq!(told, 2);
        assert_eq!(zero_copy_notice(sender.as_fd()).unwrap(), None);
    }

    #[test]
    fn a_file_has_no_error_queue() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(zero_copy_notice(file.as_fd()).is_err());
    }
}
