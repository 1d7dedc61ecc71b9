//! One queue of an interface: memory that its transmitter and its receiver share, and a socket for each of both.
//!
//! The kernel gives a queue to one memory at a time (`xsk_get_pool_from_qid` of `net/xdp/xsk.c`), so a port that sends and
//! receives by the same queue opens it once and takes both halves. A half that is not used any more goes back to its queue, and
//! the next run of a lab takes it again: binding anew would wait until the kernel has freed the queue.

use std::sync::{Arc, Mutex, PoisonError};

use wirebeat_engine::port::PortError;
use wirebeat_netlink::Link;
use wirebeat_units::{BitRate, BufferLen};
use wirebeat_wire::{ethernet, vlan};

use super::ENGINE;
use super::ring::{Consumer, FrameDescriptor, Producer};
use super::socket::{
    BoundQueue, FrameRing, QueueRings, RingSizes, SocketOptions, XdpCopy, XdpSocket,
};
use super::umem::{CHUNK_MAX, Umem, UmemPart};
use crate::link;
use crate::sys::refused;

/// Frames that may be on their way out. The rings of cards have 256 to 4096 places.
const TRANSMIT_FRAMES: u32 = 1024;
/// The same where nobody receives. With zero copy the driver receives into them all the same: what the program lets pass has to
/// lie somewhere.
const PASSING_FRAMES: u32 = 1024;
/// What a frame may have beyond the MTU: the Ethernet header and a VLAN tag.
pub(super) const HEADER_MAX: u32 = (ethernet::LEN + vlan::LEN) as u32;
/// What the kernel keeps before a received frame (XDP_PACKET_HEADROOM of `linux/bpf.h`).
const HEADROOM: u32 = 256;
/// The longest frame without FCS that lies in several chunks: that of a jumbo packet of 9,000 bytes.
pub(super) const LONGEST: u32 = 9000 + HEADER_MAX;

/// Whether frames on an interface of this MTU may be longer than a chunk.
pub fn needs_several_buffers(mtu: u32) -> bool {
    mtu.saturating_add(HEADER_MAX) > CHUNK_MAX as u32 - HEADROOM
}

/// How a queue is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpOptions {
    /// Its number. No program may have another socket there.
    pub queue: u32,
    /// Who copies frames.
    pub copy: XdpCopy,
    /// Whether the threads that send and receive serve the card's queue themselves (preferred busy polling). The interface has to
    /// be set up for that (`napi_defer_hard_irqs` and `gro_flush_timeout` in `/sys/class/net`), else its interrupts go on.
    pub busy_poll: bool,
    /// Whether somebody receives by it, and how many frames may wait for that: there is memory for as many.
    pub receives: Option<Backlog>,
    /// Whether the driver is told what to do with frames that are sent ([`super::CardOrders`]). Such a frame lies in one chunk.
    pub orders: bool,
}

/// How many frames may wait for a thread that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// 8,192: 8 ms at a million frames a second, 80 ms at a hundred thousand.
    Short,
    /// 16,384: who answers what arrives has more to do with a burst than to look at it.
    Long,
}

impl Backlog {
    /// A power of two, as rings are.
    const fn frames(self) -> u32 {
        match self {
            Backlog::Short => 8192,
            Backlog::Long => 16_384,
        }
    }
}

/// A queue of an interface, whose halves are taken by [`XdpTx`](super::XdpTx) and [`XdpRx`](super::XdpRx).
#[derive(Debug)]
pub struct XdpQueue {
    facts: Arc<QueueFacts>,
    options: XdpOptions,
    umem: Arc<Umem>,
    /// The socket that was opened first, which the other one shares the memory of.
    first: Option<Arc<XdpSocket>>,
    /// What was never taken.
    completion: Option<Consumer<u64>>,
    fill: Option<Producer<u64>>,
    transmit: Option<UmemPart>,
    receive: Option<UmemPart>,
    /// Halves that came back.
    shelf: Arc<Shelf>,
}

/// What both halves know.
#[derive(Debug)]
pub(super) struct QueueFacts {
    pub(super) interface: String,
    /// The interface's number.
    pub(super) index: u32,
    pub(super) mtu: u32,
    pub(super) speed: Option<BitRate>,
    pub(super) busy_poll: bool,
    huge: bool,
    /// Whether there is room for orders before frames that are sent.
    pub(super) orders: bool,
    /// Whether a frame may lie in several chunks.
    pub(super) several: bool,
    /// The longest frame that a chunk holds, or several do.
    pub(super) frame_max: BufferLen,
}

impl QueueFacts {
    /// How a socket works, for the report.
    pub(super) fn mode(&self, socket: &XdpSocket) -> String {
        let copy = if socket.zero_copy { "zero copy" } else { "copy" };
        let busy = if self.busy_poll { ", busy polling" } else { "" };
        let pages = if self.huge { ", huge pages" } else { "" };
        let several = if self.several { ", frames of several buffers" } else { "" };
        format!("AF_XDP, {copy}, need-wakeup{busy}{pages}{several}")
    }

    /// The same for a socket whose frames may lie in several chunks, or may not.
    fn with_several(&self, several: bool) -> QueueFacts {
        let frame_max = if several { BufferLen::new(LONGEST) } else { self.frame_max };
        QueueFacts { several, frame_max, interface: self.interface.clone(), ..*self }
    }

    /// The longest frame that is sent by an interface of this MTU, in bytes without FCS.
    pub(super) fn longest(&self, mtu: u32) -> BufferLen {
        let one = BufferLen::new(CHUNK_MAX as u32 - HEADROOM);
        let most = if self.orders { self.frame_max.min(one) } else { self.frame_max };
        BufferLen::new(mtu.saturating_add(HEADER_MAX)).min(most)
    }
}

/// Halves that nobody uses.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    transmit: Mutex<Option<TransmitHalf>>,
    receive: Mutex<Option<ReceiveHalf>>,
}

impl Shelf {
    /// Takes a half back, of which the kernel has no frame.
    pub(super) fn put_transmit(&self, half: TransmitHalf) {
        *self.transmit.lock().unwrap_or_else(PoisonError::into_inner) = Some(half);
    }

    /// Takes a half back.
    pub(super) fn put_receive(&self, half: ReceiveHalf) {
        *self.receive.lock().unwrap_or_else(PoisonError::into_inner) = Some(half);
    }
}

/// What a transmitter takes.
#[derive(Debug)]
pub(super) struct TransmitHalf {
    pub(super) facts: Arc<QueueFacts>,
    pub(super) socket: Arc<XdpSocket>,
    pub(super) tx: Producer<FrameDescriptor>,
    pub(super) completion: Consumer<u64>,
    pub(super) memory: UmemPart,
}

/// What a receiver takes.
#[derive(Debug)]
pub(super) struct ReceiveHalf {
    pub(super) facts: Arc<QueueFacts>,
    pub(super) socket: Arc<XdpSocket>,
    pub(super) rx: Consumer<FrameDescriptor>,
    pub(super) fill: Producer<u64>,
    pub(super) memory: UmemPart,
}

impl XdpQueue {
    /// Makes the memory for a queue of an interface of the calling thread's namespace. It is bound by the first that takes a half
    /// of it, in the same namespace.
    ///
    /// # Errors
    /// There is no such interface, or no memory.
    pub fn open(interface: &str, options: XdpOptions) -> Result<XdpQueue, PortError> {
        let link = link::find(ENGINE, interface)?;
        let frames = TRANSMIT_FRAMES + receive_frames(options);
        let umem = Umem::new(frames as usize, least_chunk(&link, options.copy))
            .map_err(|error| refused("making the memory of frames", interface, error))?;
        let umem = Arc::new(umem);
        let [transmit, receive] = umem.divide(TRANSMIT_FRAMES as usize);
        Ok(XdpQueue {
            facts: Arc::new(facts(&link, &umem, options)),
            options,
            umem,
            first: None,
            completion: None,
            fill: None,
            transmit: Some(transmit),
            receive: Some(receive),
            shelf: Arc::default(),
        })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.options.queue
    }

    /// Whether the half that sends did not come back, because the kernel kept some of its frames, and nobody receives: then the
    /// queue has to be opened anew.
    pub fn has_lost_transmitter(&self) -> bool {
        let Shelf { transmit, receive } = &*self.shelf;
        let transmitter = transmit.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let receiver = receive.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        self.transmit.is_none() && !transmitter && (receiver || self.receive.is_some())
    }

    /// Where halves go back to.
    pub(super) fn shelf(&self) -> Arc<Shelf> {
        Arc::clone(&self.shelf)
    }

    /// The half that sends, if nobody has it.
    pub(super) fn take_transmit(&mut self) -> Result<TransmitHalf, PortError> {
        let came_back = self.shelf.transmit.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(half) = came_back {
            return Ok(half);
        }
        let number = self.options.queue;
        let taken = || PortError::Unsupported {
            engine: ENGINE,
            what: format!("send by queue {number} while another sends by it").into(),
        };
        if self.transmit.is_none() {
            return Err(taken());
        }
        let (socket, tx) = self.socket()?;
        let parts = self.transmit.take().zip(self.completion.take());
        let (memory, completion) = parts.ok_or_else(taken)?;
        let facts = Arc::clone(&self.facts);
        Ok(TransmitHalf { facts, socket, tx, completion, memory })
    }

    /// The half that receives, if nobody has it.
    pub(super) fn take_receive(&mut self) -> Result<ReceiveHalf, PortError> {
        let came_back = self.shelf.receive.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(half) = came_back {
            return Ok(half);
        }
        let number = self.options.queue;
        let taken = || PortError::Unsupported {
            engine: ENGINE,
            what: format!("receive by queue {number} while another receives by it").into(),
        };
        if self.receive.is_none() {
            return Err(taken());
        }
        let (socket, rx) = self.socket()?;
        let parts = self.receive.take().zip(self.fill.take());
        let (memory, fill) = parts.ok_or_else(taken)?;
        let facts = Arc::clone(&self.facts);
        Ok(ReceiveHalf { facts, socket, rx, fill, memory })
    }

    /// A socket with a ring for one direction: the first of the queue, or one beside that.
    fn socket<R: FrameRing>(&mut self) -> Result<(Arc<XdpSocket>, R), PortError> {
        let queue = BoundQueue {
            interface: &self.facts.interface,
            index: self.facts.index,
            number: self.options.queue,
        };
        let options = SocketOptions {
            sizes: RingSizes { transmit: TRANSMIT_FRAMES, receive: receive_frames(self.options) },
            copy: self.options.copy,
            busy_poll: self.options.busy_poll,
            several: needs_several_buffers(self.facts.mtu),
            orders: self.options.orders,
        };
        if let Some(first) = &self.first {
            let (socket, ring) = first.beside(queue, options)?;
            return Ok((Arc::new(socket), ring));
        }
        let (socket, QueueRings { completion, mut fill }, ring) =
            XdpSocket::first(queue, &self.umem, options)?;
        // an older kernel has none
        self.facts = Arc::new(self.facts.with_several(socket.several));
        if let Some(receive) = &self.receive {
            // there are as many places as chunks
            (0..receive.len()).for_each(|number| {
                fill.push(receive.address(number));
            });
            fill.publish();
        }
        let socket = Arc::new(socket);
        self.first = Some(Arc::clone(&socket));
        (self.completion, self.fill) = (Some(completion), Some(fill));
        Ok((socket, ring))
    }
}

fn receive_frames(options: XdpOptions) -> u32 {
    options.receives.map_or(PASSING_FRAMES, Backlog::frames)
}

/// Bytes that a chunk has to have. Cards that receive into it count its room in KiB and leave out what is over (igb, igc), so
/// that one of 2 KiB, less its headroom, would hold no full frame; a page does.
fn least_chunk(link: &Link, copy: XdpCopy) -> usize {
    // the loopback interface has an MTU of 64 KiB, and short frames go by it all the same
    let longest = link.mtu.saturating_add(HEADER_MAX + HEADROOM).min(CHUNK_MAX as u32);
    if copy == XdpCopy::Always { longest as usize } else { CHUNK_MAX }
}

fn facts(link: &Link, umem: &Umem, options: XdpOptions) -> QueueFacts {
    QueueFacts {
        interface: link.name.clone(),
        index: link.index.get(),
        mtu: link.mtu,
        speed: link.speed,
        busy_poll: options.busy_poll,
        huge: umem.is_huge(),
        orders: options.orders,
        several: false,
        frame_max: BufferLen::new(umem.chunk() as u32 - HEADROOM),
    }
}
