//! AF_XDP sockets: made, given their memory and rings, and bound to a queue of an interface.
//!
//! A queue has a socket for each direction. The first that is opened registers the memory; the other shares it
//! (XDP_SHARED_UMEM). One socket for both would not do: a receiver that waits on it has a copying kernel send what its transmit
//! ring holds (`xsk_poll` of `net/xdp/xsk.c`), and the transmitter would not learn what became of that.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wirebeat_engine::port::PortError;
use wirebeat_units::fault;

use super::ring::{Consumer, Descriptor, FrameDescriptor, Producer, RingLayout};
use super::umem::Umem;
use super::{ENGINE, metadata};
use crate::memory::Memory;
use crate::sys::{self, refused};

/// Who copies frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpCopy {
    /// Nobody, where the driver can do without; else the kernel.
    #[default]
    AsDriverOffers,
    /// Nobody: an error where the driver cannot.
    Never,
    /// The kernel.
    Always,
}

/// The queue that a socket is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoundQueue<'a> {
    pub(super) interface: &'a str,
    pub(super) index: u32,
    pub(super) number: u32,
}

/// The number of descriptors of each ring: powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingSizes {
    /// Of the transmit and the completion ring.
    pub(super) transmit: u32,
    /// Of the receive and the fill ring.
    pub(super) receive: u32,
}

/// How a queue works.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketOptions {
    pub(super) sizes: RingSizes,
    pub(super) copy: XdpCopy,
    /// Whether the thread that calls serves the card's queue itself (SO_PREFER_BUSY_POLL).
    pub(super) busy_poll: bool,
    /// Whether frames may lie in several chunks, where the kernel can do that.
    pub(super) several: bool,
    /// Whether the driver finds orders before the frames that are sent, and writes its answers there.
    pub(super) orders: bool,
}

/// A socket that is bound.
#[derive(Debug)]
pub(super) struct XdpSocket {
    file: OwnedFd,
    /// Whether the driver sends from the UMEM and receives into it itself.
    pub(super) zero_copy: bool,
    /// Whether a frame may lie in several chunks.
    pub(super) several: bool,
}

/// The rings that belong to the queue, whichever its sockets are.
#[derive(Debug)]
pub(super) struct QueueRings {
    pub(super) completion: Consumer<u64>,
    pub(super) fill: Producer<u64>,
}

/// The ring of frames that a socket has: its transmit or its receive ring.
pub(super) trait FrameRing: Sized {
    /// The option that makes it (`linux/if_xdp.h`).
    const OPTION: libc::c_int;
    /// Where it is mapped.
    const OFFSET: u64;

    /// Its number of descriptors.
    fn size(sizes: RingSizes) -> u32;

    /// Its parts.
    fn parts(offsets: &libc::xdp_mmap_offsets) -> &libc::xdp_ring_offset;

    /// Over its memory; `None` where the layout does not fit that.
    fn over(memory: Memory, layout: RingLayout) -> Option<Self>;
}

impl FrameRing for Producer<FrameDescriptor> {
    const OPTION: libc::c_int = libc::XDP_TX_RING;
    const OFFSET: u64 = libc::XDP_PGOFF_TX_RING as u64;

    fn size(sizes: RingSizes) -> u32 {
        sizes.transmit
    }

    fn parts(offsets: &libc::xdp_mmap_offsets) -> &libc::xdp_ring_offset {
        &offsets.tx
    }

    fn over(memory: Memory, layout: RingLayout) -> Option<Self> {
        Producer::new(memory, layout)
    }
}

impl FrameRing for Consumer<FrameDescriptor> {
    const OPTION: libc::c_int = libc::XDP_RX_RING;
    const OFFSET: u64 = libc::XDP_PGOFF_RX_RING as u64;

    fn size(sizes: RingSizes) -> u32 {
        sizes.receive
    }

    fn parts(offsets: &libc::xdp_mmap_offsets) -> &libc::xdp_ring_offset {
        &offsets.rx
    }

    fn over(memory: Memory, layout: RingLayout) -> Option<Self> {
        Consumer::new(memory, layout)
    }
}

/// How often, and how long each, a queue is waited for that another socket has just left: the kernel frees it some time after
/// the socket is closed (`xp_put_pool` of `net/xdp/xsk_buff_pool.c`).
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);
/// What a copying kernel may have on its way for a socket: all frames of a transmit ring, with what it keeps of each.
const SEND_BUFFER: usize = 8 << 20;
/// The number of frames that a copying kernel sends at one call, where it can be told (XDP_MAX_TX_SKB_BUDGET of `linux/if_xdp.h`,
/// Linux 6.17; without that 32): a batch.
const BUDGET_OPTION: libc::c_int = 9;
const BUDGET: u32 = super::transmit::BATCH as u32;
/// How long a call serves the card's queue, in microseconds, and for how many frames at most: the kernel's own defaults
/// (`net.core.busy_poll` as its documentation suggests, BUSY_POLL_BUDGET of `net/core/dev.c`).
const BUSY_POLL_US: libc::c_int = 50;
const BUSY_POLL_BUDGET: libc::c_int = 64;

impl XdpSocket {
    /// Makes the first socket of a queue, over `umem`.
    pub(super) fn first<R: FrameRing>(
        queue: BoundQueue<'_>,
        umem: &Umem,
        options: SocketOptions,
    ) -> Result<(XdpSocket, QueueRings, R), PortError> {
        let on = queue.interface;
        let file = open(on)?;
        register(&file, umem, options.orders).map_err(|error| no_memory(on, umem.len(), error))?;
        let rings = |error| refused("making the rings of an AF_XDP socket", on, error);
        let of_queue = QueueRings::of(&file, options.sizes).map_err(rings)?;
        let frames = frame_ring::<R>(&file, options.sizes).map_err(rings)?;
        prepare(&file, on, options.busy_poll)?;
        let several = bind(&file, queue, options)?;
        Ok((XdpSocket::over(file, on, several)?, of_queue, frames))
    }

    /// Makes a socket for the other direction of the queue that `self` has.
    pub(super) fn beside<R: FrameRing>(
        &self,
        queue: BoundQueue<'_>,
        options: SocketOptions,
    ) -> Result<(XdpSocket, R), PortError> {
        let on = queue.interface;
        let file = open(on)?;
        let frames = frame_ring::<R>(&file, options.sizes)
            .map_err(|error| refused("making the ring of an AF_XDP socket", on, error))?;
        prepare(&file, on, options.busy_poll)?;
        let flags = libc::XDP_SHARED_UMEM;
        bind_once(&file, queue, flags, self.file.as_raw_fd() as u32)
            .map_err(|error| refused("sharing the memory of an AF_XDP socket", on, error))?;
        Ok((XdpSocket::over(file, on, self.several)?, frames))
    }

    fn over(file: OwnedFd, on: &str, several: bool) -> Result<XdpSocket, PortError> {
        let options: [u32; 1] = sys::option(&file, (libc::SOL_XDP, libc::XDP_OPTIONS))
            .map_err(|error| refused("asking how an AF_XDP socket works", on, error))?;
        let zero_copy = options[0] & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(XdpSocket { file, zero_copy, several })
    }

    /// Has the kernel look at what is to be sent.
    #[inline]
    pub(super) fn wake_to_transmit(&self) -> Result<(), Errno> {
        // SAFETY: no bytes are read.
        let sent = unsafe {
            let file = self.file.as_raw_fd();
            libc::sendto(file, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        if sent < 0 { Err(sys::last_error()) } else { Ok(()) }
    }

    /// Has the driver look at the chunks that it may receive into; or serves its queue here, where that was asked for. Fails
    /// where the interface is gone or down.
    #[inline]
    pub(super) fn wake_to_receive(&self) -> Result<(), Errno> {
        let null = std::ptr::null_mut;
        // SAFETY: no bytes are written, and no address.
        let received = unsafe {
            let file = self.file.as_raw_fd();
            libc::recvfrom(file, null(), 0, libc::MSG_DONTWAIT, null().cast(), null().cast())
        };
        if received < 0 { Err(sys::last_error()) } else { Ok(()) }
    }

    /// Frames that found no chunk, or no place in the ring, since the socket was made (`struct xdp_statistics`: rx_dropped and
    /// rx_ring_full).
    pub(super) fn receive_drops(&self) -> u64 {
        let statistics: io::Result<[u32; 12]> =
            sys::option(&self.file, (libc::SOL_XDP, libc::XDP_STATISTICS));
        let Ok(words) = statistics else { return 0 };
        let number = |at: usize| {
            let mut bytes = [0; 8];
            let (low, high) = bytes.split_at_mut(4);
            low.copy_from_slice(&words[at].to_ne_bytes());
            high.copy_from_slice(&words[at + 1].to_ne_bytes());
            u64::from_ne_bytes(bytes)
        };
        number(0).saturating_add(number(6))
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl QueueRings {
    /// Has the socket make them, and maps them.
    fn of(file: &OwnedFd, sizes: RingSizes) -> io::Result<QueueRings> {
        let RingSizes { transmit, receive } = sizes;
        for (name, size) in
            [(libc::XDP_UMEM_FILL_RING, receive), (libc::XDP_UMEM_COMPLETION_RING, transmit)]
        {
            sys::set_option(file, (libc::SOL_XDP, name), &size)?;
        }
        let offsets = offsets(file)?;
        let fill = layout(&offsets.fr, receive).ok_or_else(unfit)?;
        let completion = layout(&offsets.cr, transmit).ok_or_else(unfit)?;
        let fill_memory = memory_of::<u64>(file, &fill, libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let memory = memory_of::<u64>(file, &completion, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?;
        Ok(QueueRings {
            completion: Consumer::new(memory, completion).ok_or_else(unfit)?,
            fill: Producer::new(fill_memory, fill).ok_or_else(unfit)?,
        })
    }
}

/// Has the socket make its ring of frames, and maps it.
fn frame_ring<R: FrameRing>(file: &OwnedFd, sizes: RingSizes) -> io::Result<R> {
    let size = R::size(sizes);
    sys::set_option(file, (libc::SOL_XDP, R::OPTION), &size)?;
    let layout = layout(R::parts(&offsets(file)?), size).ok_or_else(unfit)?;
    let memory = memory_of::<FrameDescriptor>(file, &layout, R::OFFSET)?;
    R::over(memory, layout).ok_or_else(unfit)
}

fn unfit() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// That this process may open such a socket, and that the kernel makes its memory and its rings. Binds to no queue: each has
/// one such socket, which may be another program's.
pub(super) fn probe() -> Result<(), PortError> {
    const FRAMES: u32 = 64;
    let on = "this machine";
    let file = open(on)?;
    let umem = Umem::new(FRAMES as usize, 0)
        .map_err(|error| refused("making the memory of frames", on, error))?;
    register(&file, &umem, false).map_err(|error| no_memory(on, umem.len(), error))?;
    let sizes = RingSizes { transmit: FRAMES, receive: FRAMES };
    let made = QueueRings::of(&file, sizes)
        .and_then(|_| frame_ring::<Producer<FrameDescriptor>>(&file, sizes));
    made.map(drop).map_err(|error| refused("making the rings of an AF_XDP socket", on, error))
}

fn open(on: &str) -> Result<OwnedFd, PortError> {
    let family = AddressFamily::from_raw(libc::AF_XDP as _);
    socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None).map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => {
            let hint = "run as root, grant it with 'setcap cap_net_raw+ep', or use --engine socket";
            PortError::missing(ENGINE, on, "AF_XDP sockets need CAP_NET_RAW").with_hint(hint)
        }
        Errno::AFNOSUPPORT => {
            let missing = "this kernel was built without AF_XDP sockets (CONFIG_XDP_SOCKETS)";
            PortError::missing(ENGINE, on, missing).with_hint("use --engine packet")
        }
        errno => refused("opening an AF_XDP socket", on, errno.into()),
    })
}

/// Gives the socket its memory; with room for orders before each frame that is sent, where that is wanted.
fn register(file: &OwnedFd, umem: &Umem, orders: bool) -> io::Result<()> {
    let request = |flags, tx_metadata_len| libc::xdp_umem_reg {
        addr: umem.base() as u64,
        len: umem.len() as u64,
        chunk_size: umem.chunk() as u32,
        headroom: 0,
        flags,
        tx_metadata_len,
    };
    let set = |request| sys::set_option(file, (libc::SOL_XDP, libc::XDP_UMEM_REG), &request);
    if !orders {
        return set(request(0, 0));
    }
    let len = metadata::ORDER_LEN as u32;
    // Linux 6.8 to 6.10 take the length without the flag, which they do not know
    set(request(libc::XDP_UMEM_TX_METADATA_LEN, len)).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => set(request(0, len)),
        _ => Err(error),
    })
}

fn no_memory(on: &str, bytes: usize, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::ENOBUFS | libc::ENOMEM) => PortError::missing(
            ENGINE,
            on,
            fault!(
                "the frames of a queue take {} KiB of locked memory, and this process may not have so much", bytes >> 10;
                "raise the limit ('ulimit -l unlimited'), or grant CAP_IPC_LOCK"
            ),
        ),
        _ => refused("registering the memory of an AF_XDP socket", on, error),
    }
}

/// Everything that must be set before it is bound.
fn prepare(file: &OwnedFd, on: &str, busy_poll: bool) -> Result<(), PortError> {
    sys::set_send_buffer(file, SEND_BUFFER)
        .map_err(|error| refused("preparing an AF_XDP socket", on, error))?;
    // older kernels do not know it, and a socket that receives has none
    let _ = sys::set_option(file, (libc::SOL_XDP, BUDGET_OPTION), &BUDGET);
    if !busy_poll {
        return Ok(());
    }
    let set = |name, value: libc::c_int| sys::set_option(file, (libc::SOL_SOCKET, name), &value);
    set(libc::SO_PREFER_BUSY_POLL, 1)
        .and_then(|()| set(libc::SO_BUSY_POLL, BUSY_POLL_US))
        .and_then(|()| set(libc::SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET))
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => PortError::missing(
                ENGINE,
                on,
                fault!("busy polling needs CAP_NET_ADMIN"; "run as root, or leave it out"),
            ),
            Some(libc::ENOPROTOOPT) => PortError::missing(
                ENGINE,
                on,
                fault!("this kernel has no preferred busy polling (Linux 5.11)"; "leave it out"),
            ),
            _ => refused("asking for busy polling", on, error),
        })
}

fn offsets(file: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: integers, for which zero is a value.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&offsets) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `offsets`.
    let result = unsafe {
        let to = std::ptr::from_mut(&mut offsets).cast();
        let file = file.as_raw_fd();
        libc::getsockopt(file, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, to, &mut len)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // kernels before 5.4 know no flags, and give less
    match len as usize == size_of_val(&offsets) {
        true => Ok(offsets),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn layout(offset: &libc::xdp_ring_offset, size: u32) -> Option<RingLayout> {
    let at = |offset: u64| usize::try_from(offset).ok();
    Some(RingLayout {
        producer: at(offset.producer)?,
        consumer: at(offset.consumer)?,
        flags: at(offset.flags)?,
        descriptors: at(offset.desc)?,
        size,
    })
}

fn memory_of<T: Descriptor>(
    file: &OwnedFd,
    layout: &RingLayout,
    offset: u64,
) -> io::Result<Memory> {
    let len = layout.descriptors + layout.size as usize * size_of::<T>();
    Memory::of_socket_at(file.as_fd(), len, offset)
}

/// Binds to the queue, as soon as nobody else has it. Says whether a frame may lie in several chunks.
fn bind(file: &OwnedFd, queue: BoundQueue<'_>, options: SocketOptions) -> Result<bool, PortError> {
    let (on, copy) = (queue.interface, options.copy);
    let flags = |copy| {
        libc::XDP_USE_NEED_WAKEUP
            | match copy {
                XdpCopy::AsDriverOffers => 0,
                XdpCopy::Never => libc::XDP_ZEROCOPY,
                XdpCopy::Always => libc::XDP_COPY,
            }
    };
    let number = queue.number;
    let mut several = options.several;
    for _ in 0..TRIES {
        let more = if several { libc::XDP_USE_SG } else { 0 };
        let Err(error) = bind_once(file, queue, flags(copy) | more, 0) else { return Ok(several) };
        match error.raw_os_error() {
            Some(libc::EBUSY) => {
                thread::sleep(PAUSE);
                continue;
            }
            // kernels before 6.6 do not know it, and not all drivers do it without a copy
            Some(libc::EINVAL | libc::EOPNOTSUPP) if several => {
                several = false;
                continue;
            }
            _ => {}
        }
        // a socket that failed to bind may try again: where copying works, the driver is what refused
        let refuses =
            copy == XdpCopy::Never && bind_once(file, queue, flags(XdpCopy::Always), 0).is_ok();
        return Err(match error.raw_os_error() {
            _ if refuses => PortError::missing(
                ENGINE,
                on,
                fault!(
                    "its driver refuses zero copy ({error})";
                    "leave the choice to the driver ('xdp-mode: auto'), or let the kernel copy ('xdp-mode: copy')"
                ),
            ),
            Some(libc::EINVAL) => PortError::missing(
                ENGINE,
                on,
                fault!(
                    "it has no queue {number}";
                    "see how many it has with 'ethtool -l {on}', and give it more with 'ethtool -L {on} combined {}'",
                    number.saturating_add(1)
                ),
            ),
            _ => refused("binding an AF_XDP socket", on, error),
        });
    }
    Err(PortError::missing(
        ENGINE,
        on,
        fault!(
            "another AF_XDP socket has its queue {number}";
            "end the program that holds it ('ss --xdp -p' names it), or choose another queue"
        ),
    ))
}

fn bind_once(file: &OwnedFd, queue: BoundQueue<'_>, flags: u16, shared: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: queue.index,
        sxdp_queue_id: queue.number,
        sxdp_shared_umem_fd: shared,
    };
    // SAFETY: an address of its full length, read during the call.
    let result = unsafe {
        let from = std::ptr::from_ref(&address).cast();
        let len = size_of_val(&address) as libc::socklen_t;
        libc::bind(file.as_raw_fd(), from, len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
