//! The one XDP program of an interface, which may take the place of another.
//!
//! An interface has one. Many drivers take redirected frames only while it has any, so that a sender needs one that lets
//! everything pass; a receiver on the same port needs its own there. Attaching the first one and detaching the last one
//! resets many cards, and their link is down for seconds (igb: two to four); replacing one by another does not. So a port
//! attaches once, and a receiver takes that place for a while.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{io, ptr};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use wirebeat_engine::port::PortError;

use super::dispatcher::attach_to;
use super::load::system;
use super::obstacles;
use super::skeletons::transmit::TransmitSkelBuilder;
use super::verifier;

/// Who runs the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpPlace {
    /// The driver where it can, else the stack.
    #[default]
    Best,
    /// The driver (native XDP).
    Driver,
    /// The stack, with any driver (generic XDP).
    Stack,
}

impl XdpPlace {
    /// As `linux/if_link.h` has it: XDP_FLAGS_DRV_MODE and XDP_FLAGS_SKB_MODE.
    fn flags(self) -> u32 {
        match self {
            XdpPlace::Best => 0,
            XdpPlace::Driver => 1 << 2,
            XdpPlace::Stack => 1 << 1,
        }
    }
}

/// Whether a driver may give programs a frame in several buffers, as it has to where it is longer than one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpBuffers {
    /// Not: all of a frame lies in one, or the driver takes no program.
    #[default]
    One,
    /// It may. All programs in the place have to be such (Linux 5.18).
    Several,
}

/// The flag of programs that can do with frames in several buffers (BPF_F_XDP_HAS_FRAGS of `linux/bpf.h`).
pub(crate) const SEVERAL_BUFFERS: u32 = 1 << 5;

/// A program on an interface, which lets everything pass unless another has taken its place. Gone when it is dropped, or the
/// process ends.
#[derive(Debug)]
pub struct Attachment {
    link: OwnedFd,
    passing: OwnedFd,
    /// The interface's number.
    index: u32,
    interface: String,
    buffers: XdpBuffers,
}

impl Attachment {
    /// Attaches a program that lets everything pass to the interface `index`, called `on`, of the calling thread's namespace.
    ///
    /// # Errors
    /// Another program is there, LRO is on, or the driver refuses any in its present state.
    pub fn open(
        (index, on): (u32, &str),
        place: XdpPlace,
        buffers: XdpBuffers,
    ) -> Result<Attachment, PortError> {
        if obstacles::has_lro(index) {
            let missing = "the card joins segments (LRO), which an XDP program would switch off, and not only for the run";
            return Err(PortError::missing("kernel", on, missing).with_hint(format!(
                "switch it off with 'ethtool -K {on} lro off', or use the engine 'packet'"
            )));
        }
        verifier::listen();
        let failed = |what| move |error| system(what, on, error);
        let mut storage = MaybeUninit::uninit();
        let mut open = TransmitSkelBuilder::default()
            .open(&mut storage)
            .map_err(failed("opening the passing program"))?;
        open.progs.wb_transmit.set_autoload(false);
        open.progs.wb_drop.set_autoload(false);
        if buffers == XdpBuffers::Several {
            open.progs.wb_pass.set_flags(SEVERAL_BUFFERS);
        }
        let skeleton = open.load().map_err(failed("loading the passing program"))?;
        let kept = |source| PortError::System {
            what: "keeping the passing program".into(),
            on: on.to_owned(),
            source,
        };
        let passing = skeleton.progs.wb_pass.as_fd().try_clone_to_owned().map_err(kept)?;
        let link = attach_to(passing.as_fd(), index, place.flags())
            .map_err(|error| refusal((index, on), error))?;
        Ok(Attachment { link, passing, index, interface: on.to_owned(), buffers })
    }

    /// The number of its interface.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Whether the driver may give programs here a frame in several buffers.
    pub(crate) fn sees_several_buffers(&self) -> bool {
        self.buffers == XdpBuffers::Several
    }

    /// Puts `program` into the place of the one that is there; its link stays up meanwhile.
    pub(crate) fn replace(&self, program: BorrowedFd<'_>) -> Result<(), PortError> {
        self.update(program).map_err(|source| PortError::System {
            what: "replacing the XDP program".into(),
            on: self.interface.clone(),
            source,
        })
    }

    /// Lets everything pass again.
    pub(crate) fn rest(&self) {
        // it fails only where the interface is gone, and the program with it
        let _ = self.update(self.passing.as_fd());
    }

    fn update(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: both descriptors are open, and no options are given.
        let result = unsafe {
            libbpf_sys::bpf_link_update(self.link.as_raw_fd(), program.as_raw_fd(), ptr::null())
        };
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}

/// Why no program can be attached, and what would mend it.
fn refusal((index, on): (u32, &str), error: io::Error) -> PortError {
    let missing =
        |missing: &str, hint: String| PortError::missing("kernel", on, missing).with_hint(hint);
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => missing(
            "another XDP program is attached to it",
            format!(
                "end the program that attached it, which may be another wirebeat ('bpftool net' tells), or use the engine 'packet' on {on}"
            ),
        ),
        Some(libc::EPERM | libc::EACCES) => missing(
            "attaching a program was not permitted: it needs CAP_BPF and CAP_NET_ADMIN",
            "run as root, or use the engine 'packet' or 'socket'".to_owned(),
        ),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSPC | libc::ENOMEM | libc::ERANGE) => {
            let found = obstacles::of(index, on, error.raw_os_error());
            let what = match found.is_empty() {
                false => format!(
                    "its driver refuses XDP programs in its present state ({error}): {}",
                    found.join(" and ")
                ),
                true => format!(
                    "its driver refuses XDP programs in its present state ({error}; the kernel's log may say more): usual \
                     reasons are joined segments ('ethtool -K {on} lro off rx-gro-hw off'), an MTU above a page ('ip link \
                     set {on} mtu 1500') or too few queues ('ethtool -L {on}')"
                ),
            };
            missing(&what, "change that, or use the engine 'packet'".to_owned())
        }
        _ => PortError::System {
            what: "attaching a program".into(),
            on: on.to_owned(),
            source: error,
        },
    }
}
