//! What a card is told to stamp (`SIOCGHWTSTAMP`, `SIOCSHWTSTAMP`; `Documentation/networking/timestamping.rst`), and how it
//! is told the former again, however this process ends.
//!
//! The setting is the device's and belongs to no file, so that the kernel does not take it back when a process is killed. A
//! child process waits for our end of a pipe to be closed, and then restores it; one that finds a byte in the pipe has nothing
//! to do. It holds two files, has a session of its own and blocks all signals, so that only SIGKILL to itself ends it early.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::pipe::{PipeFlags, pipe_with};
use wirebeat_netlink::request_name;

/// `linux/sockios.h`.
const SIOCSHWTSTAMP: libc::Ioctl = 0x89b0;
const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1;

/// `struct hwtstamp_config` (`linux/net_tstamp.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StampConfig {
    pub(super) flags: libc::c_int,
    /// [`TX_OFF`] or [`TX_ON`], or a kind of one-step.
    pub(super) tx_type: libc::c_int,
    /// `HWTSTAMP_FILTER_*`.
    pub(super) rx_filter: libc::c_int,
}

/// `HWTSTAMP_TX_OFF`, `HWTSTAMP_TX_ON`.
pub(super) const TX_OFF: libc::c_int = 0;
pub(super) const TX_ON: libc::c_int = 1;
/// `enum hwtstamp_rx_filters`.
pub(super) const FILTER_NONE: libc::c_int = 0;
pub(super) const FILTER_ALL: libc::c_int = 1;
pub(super) const FILTER_PTP_V2_L4_EVENT: libc::c_int = 6;
pub(super) const FILTER_PTP_V2_L2_EVENT: libc::c_int = 9;
pub(super) const FILTER_PTP_V2_EVENT: libc::c_int = 12;

/// The setting of an interface, by its name in the namespace of the calling thread.
#[derive(Debug)]
pub struct StampSetting {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl StampSetting {
    /// Of an interface in the calling thread's namespace.
    ///
    /// # Errors
    /// The system's, or the name is too long for one.
    pub fn open(interface: &str) -> io::Result<StampSetting> {
        let name = request_name(interface)?;
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(StampSetting { socket, name })
    }

    /// What is set. Drivers that stamp tell it, and some only from Linux 3.14 on.
    ///
    /// # Errors
    /// The system's: `EOPNOTSUPP` where the driver does not tell.
    pub fn get(&self) -> io::Result<StampConfig> {
        let mut config = StampConfig::default();
        self.call(SIOCGHWTSTAMP, &mut config)?;
        Ok(config)
    }

    /// Sets it, and returns what the driver made of it: it may stamp more than was asked for.
    ///
    /// # Errors
    /// The system's: `ERANGE` where the card cannot, `EPERM` without CAP_NET_ADMIN.
    pub(super) fn set(&self, config: StampConfig) -> io::Result<StampConfig> {
        let mut config = config;
        self.call(SIOCSHWTSTAMP, &mut config)?;
        Ok(config)
    }

    fn call(&self, request: libc::Ioctl, config: &mut StampConfig) -> io::Result<()> {
        let mut ask = ask(self.name, config);
        // SAFETY: the kernel reads and writes `config` through the request, both of which live through the call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &mut ask) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets `config` until the returned value is dropped or this process is gone; then it is `former` again.
    ///
    /// # Errors
    /// The system's; it is as it was then.
    pub(super) fn hold(self, former: StampConfig, config: StampConfig) -> io::Result<Held> {
        let keeper = Keeper::start(&self, former)?;
        // dropped with the keeper where this fails: nothing is to be restored then, and that does no harm
        let mut held = Held { setting: self, former, now: None, keeper: Some(keeper) };
        held.now = Some(held.setting.set(config)?);
        Ok(held)
    }
}

fn ask(name: [libc::c_char; libc::IFNAMSIZ], config: *mut StampConfig) -> libc::ifreq {
    // SAFETY: plain integers and pointers, for which zero is a value.
    let mut ask: libc::ifreq = unsafe { std::mem::zeroed() };
    ask.ifr_name = name;
    ask.ifr_ifru.ifru_data = config.cast();
    ask
}

/// A setting that is restored in the end.
#[derive(Debug)]
pub(super) struct Held {
    setting: StampSetting,
    former: StampConfig,
    /// What the driver made of what it was asked for.
    now: Option<StampConfig>,
    keeper: Option<Keeper>,
}

impl Held {
    /// What the driver made of what it was asked for.
    pub(super) fn now(&self) -> Option<StampConfig> {
        self.now
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // it fails only where the interface is gone, and the setting with it
        let _ = self.setting.set(self.former);
        if let Some(keeper) = self.keeper.take() {
            keeper.dismiss();
        }
    }
}

/// The child process that restores a setting if we cannot.
#[derive(Debug)]
struct Keeper {
    process: libc::pid_t,
    pipe: OwnedFd,
}

impl Keeper {
    fn start(setting: &StampSetting, former: StampConfig) -> io::Result<Keeper> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut former = former;
        let mut ask = ask(setting.name, &mut former);
        let files = [read.as_raw_fd(), setting.socket.as_raw_fd()];
        let blocked = block_signals()?;
        // SAFETY: the child calls nothing but `keep`, which makes system calls only and never returns.
        let process = unsafe { libc::fork() };
        if process == 0 {
            keep(files, &mut ask);
        }
        let failed = io::Error::last_os_error();
        restore_signals(&blocked);
        if process < 0 {
            return Err(failed);
        }
        Ok(Keeper { process, pipe: write })
    }

    /// All is as it was: it has nothing to do any more.
    fn dismiss(self) {
        // where somebody ended it, nobody reads; Rust's programs ignore SIGPIPE
        let byte = [1_u8];
        // SAFETY: one byte that lives through the call, and no status that the system would write.
        unsafe {
            libc::write(self.pipe.as_raw_fd(), byte.as_ptr().cast(), byte.len());
            libc::waitpid(self.process, std::ptr::null_mut(), 0);
        }
    }
}

/// Blocks all signals of this thread, and returns those that were.
fn block_signals() -> io::Result<libc::sigset_t> {
    // SAFETY: sets of integers, which the calls fill in.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        match libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) {
            0 => Ok(before),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a set that was filled in by the system.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

/// What the child does: waits for the pipe, and then tells the card what it was told before. Only system calls, for another
/// thread may have held any lock when it was made.
fn keep([pipe, socket]: [libc::c_int; 2], ask: &mut libc::ifreq) -> ! {
    const NAME: &[u8] = b"wirebeat-keeper\0";
    // SAFETY: system calls on files of this process and on memory that lives as long as it.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        close_others(pipe, socket);
        let mut byte = 0_u8;
        let dismissed = loop {
            match libc::read(pipe, (&raw mut byte).cast(), size_of::<u8>()) {
                1 => break true,
                0 => break false,
                _ if *libc::__errno_location() == libc::EINTR => {}
                _ => break false,
            }
        };
        if !dismissed {
            libc::ioctl(socket, SIOCSHWTSTAMP, ask);
        }
        libc::_exit(0)
    }
}

/// Closes all files but these: who waits for the end of a pipe that we inherited must not wait for us.
///
/// # Safety
/// Nothing of this process uses the others any more.
unsafe fn close_others(one: libc::c_int, other: libc::c_int) {
    let (low, high) = (one.min(other) as libc::c_uint, one.max(other) as libc::c_uint);
    let ranges = [(0, low), (low + 1, high), (high + 1, libc::c_uint::MAX)];
    for (first, end) in ranges {
        if first >= end {
            continue;
        }
        // SAFETY: the caller's promise.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, first, end - 1, 0) };
        if closed != 0 {
            // before Linux 5.9
            for file in first..end.min(65_536) {
                // SAFETY: the caller's promise.
                unsafe { libc::close(file as libc::c_int) };
            }
        }
    }
}
