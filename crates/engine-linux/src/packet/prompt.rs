//! The receiver for protocols that answer: each frame as soon as it is there, and super-frames whole.
//!
//! [`PacketRx`](super::PacketRx) takes less CPU time for a frame, and hands it over up to a millisecond late: a TCP that waits for
//! it would be as slow. Here the kernel fills a ring of slots (`slot_ring`) and hands each over at once. What a local sender
//! hands over before segmentation, or the kernel joined on receipt (TSO, GRO; up to 64 KiB), is longer than a slot: the
//! kernel then puts the whole frame into the socket's queue and marks the slot (PACKET_COPY_THRESH of packet(7)), and it is read
//! from there, in order. Such a frame is given as it is, without the checksum that its card would have finished.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, recv, sockopt};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, PortError, RxCaps, RxPort, View};
use wirebeat_engine::steering::Shard;
use wirebeat_units::Nanos;

use super::receive::deliver;
use super::ring::FrameHeader;
use super::segments::OFFLOAD_LEN;
use super::slot_ring::SlotRing;
use super::socket::{self, Protocol, TpacketVersion};
use super::{Accept, HEADER_MAX, core_filter};
use crate::memory::Memory;
use crate::sys::{self, poll_until, refused};
use crate::time::RealtimeToMonotonic;

/// Bytes before a frame in its slot, at the most: `struct tpacket2_hdr` and `struct sockaddr_ll` (52), the link-layer header's
/// place (16) and the alignment (15) that tpacket_rcv of the kernel's `net/packet/af_packet.c` adds, and the offload header.
const HEADROOM: usize = 52 + 16 + 15 + OFFLOAD_LEN;
/// Bytes of a slot: a frame of 1,518 bytes fits, and slots fill blocks without a gap.
const SLOT_MIN: usize = 2048;
/// The same where the MTU is larger: enough for 9,000-byte frames. The loopback interface's 64 KiB come as super-frames do.
const SLOT_MAX: usize = 16 * 1024;
/// Bytes of a ring, which is 16,384 slots of 2 KiB: so many frames come in 11 ms at 1.5 million a second, or in 65 ms at a rate that
/// many sessions at one core reach. Measured with a mix of applications: with a quarter of it, bursts that take a reader some 20 ms to
/// work off lost frames at two thirds of the rate that it can carry.
const RING_LEN: usize = 32 << 20;
/// Slots where they are larger: 9,000-byte frames come seven times as slowly.
const SLOTS_MIN: usize = 1024;
/// What the kernel allocates at a time; a whole number of slots and of pages.
const BLOCK_LEN: usize = 64 * 1024;
/// Bytes of super-frames that wait to be read; the kernel doubles it (socket(7)). At 40 Gbit/s these are 6 ms.
const QUEUE_LEN: usize = 16 << 20;
/// The longest super-frame, with its offload header: an IP packet (RFC 791 §3.1) behind the headers of Ethernet and a VLAN. Those
/// that exceed the IP length field ("BIG TCP") are lost, and counted.
const FRAME_MAX: usize = OFFLOAD_LEN + HEADER_MAX as usize + u16::MAX as usize;
/// Frames of one call, so that a TCP sends in between.
const BATCH: usize = 256;
/// After so many looks without a frame nor a wait the socket is asked whether the interface is still there.
const LOOKS: u32 = 256;

/// A receiver of the packet engine that hands frames over at once: a socket, its ring and its queue.
#[derive(Debug)]
pub struct PromptRx {
    caps: RxCaps,
    ring: SlotRing,
    time: RealtimeToMonotonic,
    /// Where joined datagrams are taken apart.
    scratch: Vec<u8>,
    copies: Copies,
    interface: String,
    /// What the ring had no slot for.
    drops: Cell<u64>,
    /// Frames that were not whole.
    cut: u64,
    looks: u32,
}

/// The socket's queue of frames that are longer than a slot.
#[derive(Debug)]
struct Copies {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Whether the interface is gone.
    gone: bool,
}

impl PromptRx {
    /// Receives on an interface of the calling thread's namespace from now on, what `accept` says: frames of any kind,
    /// stamped by the system.
    ///
    /// # Errors
    /// The interface is not there, is switched off or carries no Ethernet frames; the process lacks CAP_NET_RAW; or the
    /// system refuses the ring, the filter or promiscuous mode.
    pub fn open(interface: &str, accept: Accept) -> Result<Self, PortError> {
        PromptRx::open_for_core(interface, accept, Shard::WHOLE)
    }

    /// The same for one of the cores that have the TCP connections of the interface: what is TCP and of another core does not come, ARP
    /// and neighbour discovery do, and all else comes to the first (`core_filter`).
    ///
    /// # Errors
    /// As [`PromptRx::open`].
    pub fn open_for_core(interface: &str, accept: Accept, core: Shard) -> Result<Self, PortError> {
        let link = super::link_of(interface)?;
        let index = link.index.get();
        let socket = socket::open(interface)?;
        let slot_len = slot_len(link.mtu);
        prepare(&socket, &core_filter::program(accept, core))
            .map_err(|e| refused("preparing a packet socket to receive", interface, e))?;
        let memory = map_ring(&socket, slot_len)
            .map_err(|e| refused("making a receive ring", interface, e))?;
        socket::bind(&socket, index, Protocol::All)
            .map_err(|e| refused("binding a packet socket", interface, e))?;
        if accept == Accept::All {
            socket::be_promiscuous(&socket, index)
                .map_err(|e| refused("switching on promiscuous mode", interface, e))?;
        }
        Ok(PromptRx {
            caps: RxCaps { mode: mode(core), view: View::Frame },
            ring: SlotRing::new(memory, slot_len),
            time: RealtimeToMonotonic::new(),
            scratch: Vec::with_capacity(usize::from(u16::MAX)),
            copies: Copies { socket, buffer: vec![0; FRAME_MAX], gone: false },
            interface: interface.to_owned(),
            drops: Cell::new(0),
            cut: 0,
            looks: 0,
        })
    }

    /// How far the times of arrivals can be off by conversion.
    pub fn timestamp_error(&self) -> Nanos {
        self.time.error()
    }

    /// Gives what is in the ring at `now` to `sink`, [`BATCH`] slots at most.
    fn take(&mut self, now: Nanos, sink: &mut impl FnMut(&Arrival<'_>)) -> usize {
        self.time.refresh(now);
        let mut count = 0;
        for _ in 0..BATCH {
            let (time, scratch, copies) = (&self.time, &mut self.scratch, &mut self.copies);
            let taken = self.ring.take(|slot| {
                let slot = slot?;
                let frame =
                    if slot.is_copied() { copies.read(&slot.header) } else { slot.frame() }?;
                Some(deliver(&frame, time.convert(frame.stamp), true, false, scratch, sink))
            });
            match taken {
                None => break,
                Some(None) => self.cut += 1,
                Some(Some(delivered)) => count += delivered,
            }
        }
        count
    }

    /// What is polled until there may be something.
    pub(crate) fn readable(&self) -> libc::pollfd {
        sys::readable(&self.copies.socket)
    }

    /// Waits until `until` for the socket to have something; says whether it may.
    fn wait(&mut self, until: Nanos) -> Result<bool, PortError> {
        let mut files = [sys::readable(&self.copies.socket)];
        let ready = poll_until(&mut files, until)
            .map_err(|e| refused("waiting for frames", &self.interface, e))?;
        let [socket] = files;
        if socket.revents & (libc::POLLERR | libc::POLLHUP) != 0 {
            self.copies.gone |= socket::lost_interface(&self.copies.socket, &self.interface)?;
        }
        Ok(ready)
    }
}

impl Copies {
    /// The next frame of the queue, of which the ring says `header`; `None` where it is not the whole frame.
    fn read(&mut self, header: &FrameHeader) -> Option<super::ring::Frame<'_>> {
        let mut read =
            recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC);
        if let Err(error) = read
            && socket::says_gone(error)
        {
            // said once, and before what is in the queue
            self.gone = true;
            read = recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC);
        }
        let (_, len) = read.ok()?;
        let captured = len.checked_sub(OFFLOAD_LEN)?;
        if captured != header.len {
            return None;
        }
        header.frame(&mut self.buffer, OFFLOAD_LEN, captured)
    }
}

impl RxPort for PromptRx {
    fn caps(&self) -> &RxCaps {
        &self.caps
    }

    /// At most 256 frames of the wire (a super-frame counts as one) come of one call. When `until` has passed it looks once,
    /// without a system call.
    fn receive<F>(&mut self, until: Nanos, mut sink: F) -> Result<usize, PortError>
    where
        F: FnMut(&Arrival<'_>),
    {
        loop {
            let now = MonotonicClock.now();
            let count = self.take(now, &mut sink);
            if count > 0 {
                self.looks = 0;
                return Ok(count);
            }
            if self.copies.gone {
                return Err(PortError::Gone(self.interface.clone()));
            }
            if until <= now {
                self.looks += 1;
                if self.looks < LOOKS {
                    return Ok(0);
                }
            }
            self.looks = 0;
            if !self.wait(until)? {
                return Ok(0);
            }
        }
    }

    /// Frames that found the ring full, and those longer than a slot that found the socket's queue full or are
    /// longer than an IP packet.
    fn receive_drops(&self) -> u64 {
        // struct tpacket_stats: packets, drops; reading sets them to zero
        let statistics: io::Result<[u32; 2]> =
            sys::option(&self.copies.socket, (libc::SOL_PACKET, libc::PACKET_STATISTICS));
        if let Ok([_, drops]) = statistics {
            self.drops.set(self.drops.get() + u64::from(drops));
        }
        self.drops.get() + self.cut
    }
}

/// How it works, for the report: the same for all cores of an interface.
fn mode(core: Shard) -> String {
    let way = "AF_PACKET, TPACKET_V2";
    match core.cores {
        0 | 1 => super::mode(way, None),
        cores => super::mode(&format!("{way}, by TCP ports to {cores} cores"), None),
    }
}

/// Bytes of a slot for the frames of an interface with this MTU.
fn slot_len(mtu: u32) -> usize {
    let frame_max = (mtu as usize).saturating_add(HEADER_MAX as usize);
    let len = frame_max.saturating_add(HEADROOM).min(SLOT_MAX);
    len.next_power_of_two().clamp(SLOT_MIN, SLOT_MAX)
}

/// Everything that must be set before there is a ring.
fn prepare(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    const ON: libc::c_int = 1;
    socket::prepare(socket, TpacketVersion::V2, None, program)?;
    sys::set_option(socket, (libc::SOL_PACKET, libc::PACKET_COPY_THRESH), &ON)?;
    // more than the system's limit takes CAP_NET_ADMIN; with less a slow reader loses super-frames sooner
    if sockopt::set_socket_recv_buffer_size_force(socket, QUEUE_LEN).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, QUEUE_LEN)?;
    }
    Ok(())
}

fn map_ring(socket: &OwnedFd, slot_len: usize) -> io::Result<Memory> {
    let slots = (RING_LEN / slot_len).max(SLOTS_MIN);
    let len = slots * slot_len;
    let count = |n: usize| libc::c_uint::try_from(n).map_err(|_| io::ErrorKind::OutOfMemory);
    let request = libc::tpacket_req {
        tp_block_size: count(BLOCK_LEN)?,
        tp_block_nr: count(len / BLOCK_LEN)?,
        tp_frame_size: count(slot_len)?,
        tp_frame_nr: count(slots)?,
    };
    socket::map_ring(socket, &request, len)
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

    use super::*;

    /// A queue, and the end that fills it.
    fn queue() -> (Copies, OwnedFd) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
        let (socket, kernel) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        sockopt::set_socket_send_buffer_size(&kernel, 1 << 20).unwrap();
        (Copies { socket, buffer: vec![0; FRAME_MAX], gone: false }, kernel)
    }

    fn header(len: usize) -> FrameHeader {
        FrameHeader { status: 3, len, seconds: 1, nanoseconds: 2, tag: 0, tag_type: 0 }
    }

    #[test]
    fn only_whole_frames_come_out_of_the_queue_and_each_is_taken() {
        let (mut queue, kernel) = queue();
        let lengths = [3_000, 65_553, 65_554, 200_000, 4_000, 5_000];
        for (number, len) in (1u8..).zip(lengths) {
            let message = vec![number; OFFLOAD_LEN + len];
            send(&kernel, &message, SendFlags::empty()).unwrap();
        }
        // the fifth is shorter than the ring says
        let expected = [Some(1), Some(2), None, None, None, Some(6)];
        for (index, (len, expected)) in lengths.into_iter().zip(expected).enumerate() {
            let said = header(if index == 4 { 4_001 } else { len });
            let frame = queue.read(&said).map(|frame| frame.bytes.to_vec());
            assert!(frame == expected.map(|number| vec![number; len]), "{len}");
        }
        assert!(queue.read(&header(3_000)).is_none(), "nothing is left");
        assert!(!queue.gone);
    }

    #[test]
    fn slots_hold_a_frame_of_the_mtu_and_fill_blocks() {
        for (mtu, len) in [
            (0, 2048),
            (1500, 2048),
            (1937, 2048),
            (1938, 4096),
            (9000, 16_384),
            (65_536, 16_384),
            (u32::MAX, 16_384),
        ] {
            assert_eq!(slot_len(mtu), len, "{mtu}");
            assert_eq!(BLOCK_LEN % len, 0);
            assert_eq!(RING_LEN.max(SLOTS_MIN * len) % BLOCK_LEN, 0);
        }
    }
}
