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
const LOOPBACK: i32 = 1;

/// The attachment; gone with its descriptors.
#[derive(Debug)]
pub(crate) struct Entered {
    _link: OwnedFd,
    _namespace: File,
}

/// Enters `program` into the dispatcher. Needs CAP_SYS_ADMIN for the namespace; without it calls are slow
/// and everything else works.
pub(crate) fn enter(program: BorrowedFd<'_>) -> io::Result<Entered> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("wb-dispatcher".to_owned());
        let attached = thread.spawn_scoped(scope, || attach(program))?;
        attached.join().map_err(|_| io::Error::other("the attaching thread panicked"))?
    })
}

/// Moves this thread, which ends afterwards, into a new namespace and attaches the program there.
fn attach(program: BorrowedFd<'_>) -> io::Result<Entered> {
    // SAFETY: takes flags only; it moves the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let namespace = File::open("/proc/thread-self/ns/net")?;
    // SAFETY: the descriptor is open, the interface exists, and no options are given.
    let link = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), LOOPBACK, libbpf_sys::BPF_XDP, ptr::null())
    };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: a descriptor that was just made and that nobody else owns.
    let link = unsafe { OwnedFd::from_raw_fd(link) };
    Ok(Entered { _link: link, _namespace: namespace })
}
