//! A cable that nobody else sees, to keep the way of a frame warm.
//!
//! A frame that leaves after a long wait meets caches, translations and predictions that others have used
//! meanwhile; it comes out later than one that follows another closely, by about 100 ns and not always by
//! the same. So while the transmit program waits it sends a frame every few microseconds down a cable of
//! its own, through the same code of the kernel, into a program that drops it. Measured: the median error
//! of a gap at 1,000 frames per second goes from 100 to 35 ns.
//!
//! The cable lies in the namespace that [`super::dispatcher`] makes, and is gone with it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use wirebeat_netlink::{Namespace, Netlink, NewLink};

use super::dispatcher::attach_to;

/// `WARM_UP` in `bpf/transmit.bpf.c`: the cable's place among the targets.
const WARM_UP: u32 = 1;

/// The largest that a virtual cable with an XDP program takes, about; frames are no longer than this.
const MTU: u32 = super::FRAME_MAX as u32;

/// The far end's program; the cable is of use as long as it is held.
#[derive(Debug)]
pub(crate) struct WarmUp {
    _far: OwnedFd,
}

/// Lays the cable in this thread's namespace and makes it a target of the transmit program.
pub(crate) fn lay(dropping: BorrowedFd<'_>, targets: &MapHandle) -> io::Result<WarmUp> {
    let end = |name: &str| NewLink { name: name.to_owned(), mtu: MTU, queues: 1, mac: None };
    let mut netlink = Netlink::open().map_err(io::Error::other)?;
    let here = Namespace::current().map_err(io::Error::other)?;
    netlink.add_veth(&end("warm0"), &end("warm1"), &here).map_err(io::Error::other)?;
    let mut up = |name: &str| -> io::Result<u32> {
        let index = netlink.link_by_name(name).map_err(io::Error::other)?.index;
        netlink.set_up(index).map_err(io::Error::other)?;
        Ok(index.get())
    };
    let (near, far) = (up("warm0")?, up("warm1")?);
    let far = attach_to(dropping, far, 0)?;
    targets
        .update(&WARM_UP.to_ne_bytes(), &near.to_ne_bytes(), MapFlags::ANY)
        .map_err(io::Error::other)?;
    Ok(WarmUp { _far: far })
}
