//! Packet sockets: opening, binding, and what an interface must know of them (packet(7)).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wirebeat_engine::port::PortError;

use super::ENGINE;
use crate::sys::{self, refused};

/// Which frames a socket is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// None: it only sends.
    None,
    /// All that pass its filter.
    All,
}

/// A socket for whole frames that is not bound yet, and gets none.
pub(super) fn open(interface: &str) -> Result<OwnedFd, PortError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).map_err(|errno| match errno {
        rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => {
            let hint = "run as root, grant it with 'setcap cap_net_raw+ep', or use --engine socket";
            PortError::missing(ENGINE, interface, "packet sockets need CAP_NET_RAW").with_hint(hint)
        }
        rustix::io::Errno::AFNOSUPPORT => {
            let missing = "this kernel was built without packet sockets (CONFIG_PACKET)";
            PortError::missing(ENGINE, interface, missing)
        }
        errno => refused("opening a packet socket", interface, errno.into()),
    })
}

/// Binds to an interface.
pub(super) fn bind(socket: &OwnedFd, index: u32, protocol: Protocol) -> io::Result<()> {
    let protocol = match protocol {
        Protocol::None => 0,
        Protocol::All => libc::ETH_P_ALL as u16,
    };
    // SAFETY: plain integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as libc::c_int;
    // SAFETY: an address of its full length, read during the call.
    let result = unsafe {
        let address = std::ptr::from_ref(&address).cast();
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), address, len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the interface take frames for everybody, until the socket is closed.
pub(crate) fn be_promiscuous(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set_option(socket, (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP), &request)
}
