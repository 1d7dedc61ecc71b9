//! Packet sockets: opening, binding, and what an interface must know of them (packet(7)).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use wirebeat_engine::port::PortError;

use super::ENGINE;
use crate::card::Card;
use crate::memory::Memory;
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
        Errno::PERM | Errno::ACCESS => {
            let hint = "run as root, grant it with 'setcap cap_net_raw+ep', or use --engine socket";
            PortError::missing(ENGINE, interface, "packet sockets need CAP_NET_RAW").with_hint(hint)
        }
        Errno::AFNOSUPPORT => {
            let missing = "this kernel was built without packet sockets (CONFIG_PACKET)";
            PortError::missing(ENGINE, interface, missing)
        }
        errno => refused("opening a packet socket", interface, errno.into()),
    })
}

/// How the kernel hands over received frames (`Documentation/networking/packet_mmap.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TpacketVersion {
    /// Each in a slot of its own, at once.
    V2,
    /// Many in a block.
    V3,
}

/// Everything that must be set before there is a receive ring: the version of the ring, an offload header before each
/// frame, nothing of what leaves, stamps, and the filter.
pub(super) fn prepare(
    socket: &OwnedFd,
    version: TpacketVersion,
    card: Option<&Card>,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    const ON: libc::c_int = 1;
    let packet = |name| (libc::SOL_PACKET, name);
    let version = match version {
        TpacketVersion::V2 => libc::tpacket_versions::TPACKET_V2,
        TpacketVersion::V3 => libc::tpacket_versions::TPACKET_V3,
    };
    sys::set_option(socket, packet(libc::PACKET_VERSION), &version)?;
    sys::set_option(socket, packet(libc::PACKET_VNET_HDR), &ON)?;
    sys::set_option(socket, packet(libc::PACKET_IGNORE_OUTGOING), &ON)?;
    // stamped when the frame enters the stack, not when it gets here
    let stamping = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    sys::set_option(socket, (libc::SOL_SOCKET, libc::SO_TIMESTAMPING), &stamping)?;
    if card.is_some() {
        // the card's where there is one, and else the system's
        let preferred = libc::SOF_TIMESTAMPING_RAW_HARDWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        sys::set_option(socket, packet(libc::PACKET_TIMESTAMP), &preferred)?;
    }
    sys::attach_filter(socket, program)
}

/// Makes the receive ring that `request` asks for (`struct tpacket_req` or `tpacket_req3`), `len` bytes, and maps it.
pub(super) fn map_ring<T: Copy>(socket: &OwnedFd, request: &T, len: usize) -> io::Result<Memory> {
    sys::set_option(socket, (libc::SOL_PACKET, libc::PACKET_RX_RING), request)?;
    Memory::of_socket(socket.as_fd(), len)
}

/// Whether a socket that reports an error lost its interface. It does not report it again.
///
/// # Errors
/// The socket has another error.
pub(super) fn lost_interface(socket: &OwnedFd, interface: &str) -> Result<bool, PortError> {
    match sockopt::socket_error(socket).and_then(|pending| pending) {
        Ok(()) => Ok(false),
        Err(error) if says_gone(error) => Ok(true),
        Err(error) => Err(refused("receiving", interface, error.into())),
    }
}

/// Whether an error says that the interface went down or was removed.
pub(super) fn says_gone(error: Errno) -> bool {
    matches!(error, Errno::NETDOWN | Errno::NXIO | Errno::NODEV)
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
