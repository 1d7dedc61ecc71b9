//! Keeps the transmit program in the kernel's XDP dispatcher between calls.
//!
//! A test run that repeats enters its program into the dispatcher (`bpf_prog_change_xdp`, in
//! `kernel/bpf/dispatcher.c`) and takes it out at its end, and each of both waits for an RCU grace
//! period: ten to thirty milliseconds during which nothing is sent (measured on Linux 6.18: without this
//! the bare loop makes half of its rate, and paced frames are late by as much at every call). A program
//! that is attached somewhere is in the dispatcher already, and a call then only counts one user more.
//! So the program is attached where it never runs: to the loopback interface, which is down, of a
//! namespace that nobody else has.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{fs::File, ptr, thread};

/// The index of the loopback interface, which is the first of every namespace.
const LOOPBACK: u32 = 1;

/// The attachment; gone with its descriptors.
#[derive(Debug)]
pub(crate) struct Entered {
    _link: OwnedFd,
    _namespace: File,
}

/// Enters `program` into the dispatcher, and does `more` in the namespace that it lives in from then on.
/// Needs CAP_SYS_ADMIN for the namespace; without it calls are slow and everything else works.
pub(crate) fn enter<T: Send>(
    program: BorrowedFd<'_>,
    more: impl FnOnce() -> T + Send,
) -> io::Result<(Entered, T)> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("wb-dispatcher".to_owned());
        let entering = || Ok((attach(program)?, more()));
        let entered = thread.spawn_scoped(scope, entering)?;
        entered.join().map_err(|_| io::Error::other("the attaching thread panicked"))?
    })
}

/// Moves this thread, which ends afterwards, into a new namespace and attaches the program there.
fn attach(program: BorrowedFd<'_>) -> io::Result<Entered> {
    // SAFETY: takes flags only; it moves the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let namespace = File::open("/proc/thread-self/ns/net")?;
    Ok(Entered { _link: attach_to(program, LOOPBACK, 0)?, _namespace: namespace })
}

/// Attaches a program to an interface of this thread's namespace for as long as the link is held, with these flags
/// (`XDP_FLAGS_…` of `linux/if_link.h`).
pub(super) fn attach_to(program: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: integers and pointers, for which zero is a value.
    let mut options: libbpf_sys::bpf_link_create_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as libbpf_sys::size_t;
    options.flags = flags;
    // SAFETY: the descriptor is open, and the options are read during the call.
    let link = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            index as i32,
            libbpf_sys::BPF_XDP,
            ptr::from_ref(&options),
        )
    };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: a descriptor that was just made and that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}
