//! The sending half: slots of our own, handed to the kernel in batches.
//!
//! `sendmmsg` on a socket that bypasses the queueing discipline, not the kernel's transmit ring:
//! the ring makes packets of two pieces, which virtual cables and XDP must copy together again, and
//! is a tenth slower there, a quarter with single frames (measured with 64 and 1518-byte frames). What
//! the kernel took is known when the call returns; a frame it had no room for stays in front.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use wirebeat_engine::port::{CardStamps, PortError, TxCaps, TxMeta, TxPlan};
use wirebeat_netlink::{Link, LinkIndex};
use wirebeat_units::{BufferLen, fault};

use super::segments::{OFFLOAD_LEN, offload_header};
use super::socket::{self, Protocol};
use super::{ENGINE, HEADER_MAX};
use crate::card::{Asked, Card, REQUEST_WORDS, SentStamps, request};
use crate::slot_port::{SlotPort, tx_port_of_slots};
use crate::slots::{BATCH, Front, Slots};
use crate::sys::{self, Messages, refused};

/// How much may be in the hands of the driver, with what the kernel adds to each frame (about 700
/// bytes): enough for the transmit ring of any card.
const BUFFER: usize = 4 << 20;

/// The transmitter of the packet engine: a sending socket and its slots.
#[derive(Debug)]
pub struct PacketTx {
    caps: TxCaps,
    socket: OwnedFd,
    interface: String,
    /// The interface's number.
    index: LinkIndex,
    slots: Slots,
    messages: Messages,
    stalls: u64,
    /// Where the card stamps.
    stamps: Option<Box<Stamps>>,
}

/// Asks for the stamps of frames.
#[derive(Debug)]
struct Stamps {
    sent: SentStamps,
    /// The control message of the frame that asks.
    request: [u64; REQUEST_WORDS],
}

impl PacketTx {
    /// Opens a transmitter on an interface of the calling thread's namespace; `card` stamps what leaves, or the system does. It
    /// sends nothing yet.
    pub fn open(interface: &str, plan: &TxPlan, card: Option<&Card>) -> Result<Self, PortError> {
        let link = super::link_of(interface)?;
        check_length(&link, plan)?;
        let slots = Slots::new(plan).map_err(|e| refused("making slots", interface, e))?;
        let mode = super::mode("AF_PACKET, qdisc bypass", card);
        let port = PacketTx::with_slots(&link, slots, (plan, mode), card)?;
        const ON: libc::c_int = 1;
        sys::set_option(&port.socket, (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS), &ON)
            .map_err(|e| refused("bypassing the queueing discipline", interface, e))?;
        Ok(port)
    }

    /// The same, and a frame may hold several segments of TCP ([`TxMeta::segments`]), up to 65,535 bytes, whatever the plan says of
    /// lengths. The card cuts it where it can, else the kernel does; a virtual cable hands it over whole. What is longer than the
    /// link takes and not to be cut fails. Frames go through the queueing discipline: past it the kernel drops what it would have to
    /// cut (`__dev_direct_xmit` of `net/core/dev.c`).
    pub fn open_large(interface: &str, plan: &TxPlan) -> Result<Self, PortError> {
        let link = super::link_of(interface)?;
        let plan = TxPlan { frame_max: BufferLen::new(u16::MAX.into()), ..*plan };
        let slots = Slots::with_lead(&plan, OFFLOAD_LEN);
        let slots = slots.map_err(|e| refused("making slots", interface, e))?;
        let mode = super::mode("AF_PACKET, GSO", None);
        let mut port = PacketTx::with_slots(&link, slots, (&plan, mode), None)?;
        const ON: libc::c_int = 1;
        sys::set_option(&port.socket, (libc::SOL_PACKET, libc::PACKET_VNET_HDR), &ON)
            .map_err(|e| refused("asking for offload headers", interface, e))?;
        port.caps.large = true;
        Ok(port)
    }

    fn with_slots(
        link: &Link,
        slots: Slots,
        (plan, mode): (&TxPlan, String),
        card: Option<&Card>,
    ) -> Result<Self, PortError> {
        let interface = link.name.as_str();
        let socket = socket::open(interface)?;
        sys::set_send_buffer(&socket, BUFFER)
            .map_err(|e| refused("setting the send buffer", interface, e))?;
        socket::bind(&socket, link.index.get(), Protocol::None)
            .map_err(|e| refused("binding a packet socket", interface, e))?;
        let messages = Messages::new(BATCH);
        let stamps = card.map(|card| SentStamps::start(&[&socket], card.clock())).transpose();
        let stamps = stamps.map_err(|e| refused("asking for the card's stamps", interface, e))?;
        let stamps = stamps.map(|sent| Box::new(Stamps { sent, request: request() }));
        let mut caps = TxCaps::of_frames(ENGINE, mode, plan.frame_max.size(), BATCH);
        caps.link = link.speed;
        let (interface, index) = (interface.to_owned(), link.index);
        Ok(PacketTx { caps, socket, interface, index, slots, messages, stalls: 0, stamps })
    }

    /// Gets ready for another run by the same socket, with counters from zero. In the namespace of the interface. Says `false`,
    /// and does nothing, where that takes another port: the interface is not the one that it was or had an error, or its card
    /// stamps.
    ///
    /// # Errors
    /// The interface is gone, or does not carry frames of that length.
    pub fn rearm(&mut self, plan: &TxPlan) -> Result<bool, PortError> {
        let link = super::link_of(&self.interface)?;
        check_length(&link, plan)?;
        let whole = matches!(rustix::net::sockopt::socket_error(&self.socket), Ok(Ok(())));
        if !whole || link.index != self.index || self.stamps.is_some() || self.caps.large {
            return Ok(false);
        }
        self.slots.rearm(plan).map_err(|e| refused("making slots", &self.interface, e))?;
        (self.caps.frame_max, self.caps.link) = (plan.frame_max.size(), link.speed);
        self.stalls = 0;
        Ok(true)
    }

    /// How often the driver had no room, so that frames had to wait.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }
}

/// That a link carries the frames that are planned.
fn check_length(link: &Link, plan: &TxPlan) -> Result<(), PortError> {
    let frame_max = BufferLen::new(link.mtu.saturating_add(HEADER_MAX));
    if plan.frame_max <= frame_max {
        return Ok(());
    }
    Err(PortError::Unsupported {
        engine: ENGINE,
        what: fault!(
            "send frames of {} bytes by {}: its MTU of {} allows {} with FCS",
            plan.frame_max.with_fcs(), link.name, link.mtu, frame_max.with_fcs();
            "send shorter ones, or raise the MTU"
        ),
    })
}

tx_port_of_slots!(PacketTx);

impl SlotPort for PacketTx {
    fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    fn check(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        if self.caps.large {
            // more than are reserved are refused on commit
            let reserved = self.slots.reserve(0).min(metas.len());
            for (index, meta) in metas[..reserved].iter().enumerate() {
                self.slots.lead(index).copy_from_slice(&offload_header(meta.segments));
            }
        }
        Ok(())
    }

    fn stamps_of_card(&mut self) -> Option<CardStamps> {
        self.stamps.as_mut()?.sent.finish()
    }

    fn send_slots(&mut self) -> Result<(), PortError> {
        while !self.slots.is_empty() {
            match send(&self.socket, &self.slots.front(), &mut self.messages, &mut self.stamps) {
                Ok(count) => self.slots.sent(count),
                Err(Errno::INTR) => {}
                // the driver's ring, the queue of a virtual cable or the buffer is full, or there is
                // no carrier: the frame was not sent and stays in front
                Err(Errno::NOBUFS | Errno::AGAIN | Errno::NOMEM) => {
                    self.stalls += 1;
                    return Ok(());
                }
                Err(Errno::NETDOWN | Errno::NXIO | Errno::NODEV) => {
                    self.slots.fail_all();
                    return Err(PortError::Gone(self.interface.clone()));
                }
                // longer than the interface takes (its MTU was lowered), or not a frame
                Err(Errno::MSGSIZE | Errno::INVAL) => self.slots.failed(1),
                Err(errno) => {
                    self.slots.fail_all();
                    return Err(refused("sending frames", &self.interface, errno.into()));
                }
            }
        }
        Ok(())
    }
}

/// Sends the frames in front; returns how many were taken, at least one.
fn send(
    socket: &OwnedFd,
    front: &Front<'_>,
    messages: &mut Messages,
    stamps: &mut Option<Box<Stamps>>,
) -> Result<usize, Errno> {
    if let Some(stamps) = stamps
        && let Some((place, at)) = stamps.sent.pick(front.len())
    {
        let asked = Asked { socket: 0, due: front.due(place), at };
        return send_asking(socket, front, messages, stamps, place, asked);
    }
    if let [frame] = front.iovecs {
        // a seventh cheaper than a batch of one
        // SAFETY: an iovec of the slots is valid for its length.
        return unsafe { sys::send_message(socket, frame) }.map(|()| 1);
    }
    let messages = &mut messages.get()[..front.len()];
    lay_out(front, messages);
    // SAFETY: each message has one iovec of the slots, which is valid for its length; the kernel only
    // reads it. The other pointers are null.
    unsafe { sys::send_messages(socket, messages) }
}

/// One message for each frame.
fn lay_out(front: &Front<'_>, messages: &mut [libc::mmsghdr]) {
    for (message, frame) in messages.iter_mut().zip(front.iovecs) {
        message.msg_hdr.msg_iov = std::ptr::from_ref(frame).cast_mut();
        message.msg_hdr.msg_iovlen = 1;
    }
}

/// The same, and the frame at `place` asks for its stamp.
#[cold]
fn send_asking(
    socket: &OwnedFd,
    front: &Front<'_>,
    messages: &mut Messages,
    stamps: &mut Stamps,
    place: usize,
    asked: Asked,
) -> Result<usize, Errno> {
    let messages = &mut messages.get()[..front.len()];
    lay_out(front, messages);
    let header = &mut messages[place].msg_hdr;
    header.msg_control = stamps.request.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&stamps.request) as _;
    stamps.sent.ask(asked);
    // SAFETY: as above; and the control data of one of them is as long as it says, and is read during the call.
    let result = unsafe { sys::send_messages(socket, messages) };
    let header = &mut messages[place].msg_hdr;
    (header.msg_control, header.msg_controllen) = (std::ptr::null_mut(), 0);
    if result.as_ref().map_or(0, |count| *count) <= place {
        stamps.sent.not_sent();
    }
    result
}
