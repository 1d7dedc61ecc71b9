//! The sending half: slots of our own, handed to the kernel in batches.
//!
//! `sendmmsg` on a socket that bypasses the queueing discipline, not the kernel's transmit ring:
//! the ring makes packets of two pieces, which virtual cables and XDP must copy together again, and
//! is a tenth slower there, a quarter with single frames (measured with 64 and 1518-byte frames). What
//! the kernel took is known when the call returns; a frame it had no room for stays in front.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use wirebeat_engine::port::{PortError, TxMeta, TxPlan};

use super::ENGINE;
use super::socket::{self, Protocol};
use crate::halves::Transmit;
use crate::slots::{BATCH, Front, Slots};
use crate::sys::{self, Messages, refused};

/// How much may be in the hands of the driver, with what the kernel adds to each frame (about 700
/// bytes): enough for the transmit ring of any card.
const BUFFER: usize = 4 << 20;

/// A sending socket and its slots.
#[derive(Debug)]
pub(super) struct Transmitter {
    socket: OwnedFd,
    interface: String,
    pub(super) slots: Slots,
    messages: Messages,
    stalls: u64,
}

impl Transmitter {
    /// Sends by the interface.
    pub(super) fn open(interface: &str, index: u32, plan: &TxPlan) -> Result<Self, PortError> {
        let socket = socket::open(interface)?;
        const ON: libc::c_int = 1;
        sys::set_option(&socket, (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS), &ON)
            .map_err(|e| refused("bypassing the queueing discipline", interface, e))?;
        sys::set_send_buffer(&socket, BUFFER)
            .map_err(|e| refused("setting the send buffer", interface, e))?;
        socket::bind(&socket, index, Protocol::None)
            .map_err(|e| refused("binding a packet socket", interface, e))?;
        let slots = Slots::new(plan).map_err(|e| refused("making slots", interface, e))?;
        let messages = Messages::new(BATCH);
        Ok(Transmitter { socket, interface: interface.to_owned(), slots, messages, stalls: 0 })
    }

    /// [`wirebeat_engine::port::Port::commit`].
    pub(super) fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        self.slots.commit(ENGINE, metas)
    }

    /// How often the driver had no room, so that frames had to wait.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls
    }
}

impl Transmit for Transmitter {
    fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    fn flush(&mut self) -> Result<(), PortError> {
        while !self.slots.is_empty() {
            match send(&self.socket, &self.slots.front(), &mut self.messages) {
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
fn send(socket: &OwnedFd, front: &Front<'_>, messages: &mut Messages) -> Result<usize, Errno> {
    if let [frame] = front.iovecs {
        // a seventh cheaper than a batch of one
        // SAFETY: an iovec of the slots is valid for its length.
        return unsafe { sys::send_message(socket, frame) }.map(|()| 1);
    }
    let messages = &mut messages.get()[..front.len()];
    for (message, frame) in messages.iter_mut().zip(front.iovecs) {
        message.msg_hdr.msg_iov = std::ptr::from_ref(frame).cast_mut();
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: each message has one iovec of the slots, which is valid for its length; the kernel only
    // reads it. The other pointers are null.
    unsafe { sys::send_messages(socket, messages) }
}
