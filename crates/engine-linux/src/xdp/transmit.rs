//! The sending half: frames are built in the UMEM and handed over by the transmit ring; the completion ring says when the kernel
//! has no more use for them.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use rustix::io::Errno;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Fate, PortError, TxCaps, TxMeta, TxPlan, TxPort, TxTotals, View};
use wirebeat_netlink::Link;
use wirebeat_units::{Nanos, fault};

use super::ENGINE;
use super::frames::{Pieces, TxFrames};
use super::queue::{QueueFacts, Shelf, TransmitHalf, XdpQueue};
use super::ring::{FrameDescriptor, MORE};
use crate::link;
use crate::sys::refused;

/// The most frames that are reserved at once.
pub(super) const BATCH: usize = 64;
/// How often a full port is tried again while it drains.
const RETRY: Nanos = Nanos::from_micros(50);
/// How long what the kernel has taken is waited for when nothing more is to be sent: a copying kernel gives it back at once,
/// and a card when its ring has gone round.
const LAST: Nanos = Nanos::from_millis(50);

/// The transmitter of the xdp engine: one queue.
#[derive(Debug)]
pub struct XdpTx {
    caps: TxCaps,
    half: ManuallyDrop<TransmitHalf>,
    /// Where `half` goes when this is dropped.
    shelf: Arc<Shelf>,
    frames: TxFrames,
    stalls: u64,
    /// The kernel has frames that were counted already, and did not give their chunks back: nothing more can be sent.
    ended: bool,
}

impl XdpTx {
    /// Takes the transmitting half of a queue. It sends nothing yet.
    ///
    /// # Errors
    /// Somebody has the half, the queue cannot be bound, or planned frames are too long.
    pub fn open(queue: &mut XdpQueue, plan: &TxPlan) -> Result<XdpTx, PortError> {
        let half = queue.take_transmit()?;
        let frames = frames_of(&half, plan);
        let caps = TxCaps {
            engine: ENGINE,
            mode: half.facts.mode(&half.socket),
            frame_max: plan.frame_max.size(),
            batch: BATCH,
            view: View::Frame,
            holds: false,
            repeats: 0,
            external: None,
            link: half.facts.speed,
        };
        let (half, shelf) = (ManuallyDrop::new(half), queue.shelf());
        let port = XdpTx { caps, half, shelf, frames, stalls: 0, ended: false };
        check_length(&port.half.facts, port.half.facts.mtu, plan)?;
        Ok(port)
    }

    /// Sends another run by the same socket and memory, with counters from zero. In the namespace of the interface. Says `false`,
    /// and does nothing, where that takes another port: the interface is another one, or the kernel still has frames.
    ///
    /// # Errors
    /// The interface is gone, or frames of `plan` are too long for it.
    pub fn rearm(&mut self, plan: &TxPlan) -> Result<bool, PortError> {
        self.complete(Fate::Sent);
        let facts = &self.half.facts;
        let link: Link = link::find(ENGINE, &facts.interface)?;
        check_length(facts, link.mtu, plan)?;
        if self.ended || self.frames.len() > 0 || link.index.get() != facts.index {
            return Ok(false);
        }
        // a socket whose interface went away serves the one of the same name no more
        if let Err(Errno::NXIO | Errno::NODEV) = self.half.socket.wake_to_transmit() {
            return Ok(false);
        }
        match self.frames.pieces() == pieces_of(&self.half, plan) {
            true => self.frames.rearm(plan.tags),
            // the kernel has no chunk of those before
            false => self.frames = frames_of(&self.half, plan),
        }
        (self.caps.frame_max, self.caps.link) = (plan.frame_max.size(), link.speed);
        self.stalls = 0;
        Ok(true)
    }

    /// Whether the driver sends frames from where they were built.
    pub fn is_zero_copy(&self) -> bool {
        self.half.socket.zero_copy
    }

    /// How often the kernel or the driver had no room, so that frames had to wait.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Takes back what the kernel is done with. `last` is what became of the frame that it was done with last.
    fn complete(&mut self, last: Fate) {
        let TransmitHalf { completion, memory, .. } = &mut *self.half;
        let mut previous = None;
        while let Some(address) = completion.pop() {
            let chunk = memory.number(address).unwrap_or(usize::MAX);
            if let Some(chunk) = previous.replace(chunk) {
                self.frames.complete(chunk, Fate::Sent);
            }
        }
        match previous {
            Some(chunk) => {
                self.frames.complete(chunk, last);
                completion.release();
            }
            None if last == Fate::Failed => self.frames.drop_one(),
            None => {}
        }
    }

    /// Has the kernel send what it has not read; says whether it goes on.
    fn push(&mut self) -> Result<bool, PortError> {
        let before = (self.half.tx.unread(), self.frames.len());
        // a kernel that copies sends when it is asked, and a driver says whether it sleeps
        if before.0 == 0 || (self.is_zero_copy() && !self.half.tx.needs_wakeup()) {
            return Ok(false);
        }
        let last = match self.half.socket.wake_to_transmit() {
            Ok(()) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => Fate::Sent,
            // the driver dropped the frame that the kernel read last, and its chunk is free (`__xsk_generic_xmit` of
            // `net/xdp/xsk.c`)
            Err(Errno::BUSY) => Fate::Failed,
            Err(errno) => {
                self.complete(Fate::Sent);
                self.give_up();
                let interface = &self.half.facts.interface;
                return Err(match errno {
                    Errno::NETDOWN | Errno::NXIO | Errno::NODEV => {
                        PortError::Gone(interface.clone())
                    }
                    errno => refused("sending frames", interface, errno.into()),
                });
            }
        };
        self.complete(last);
        Ok((self.half.tx.unread(), self.frames.len()) != before)
    }

    /// Waits for nothing any more: what the kernel has not read has failed, and the rest is on its way.
    fn give_up(&mut self) {
        self.ended |= self.frames.len() > 0;
        let waiting = self.half.tx.unread() as usize;
        self.frames.give_up(waiting);
    }

    /// Waits until the kernel has no more use for any frame, at most until `deadline`.
    fn wait_for_all(&mut self, deadline: Nanos) -> Result<bool, PortError> {
        loop {
            self.flush()?;
            let now = MonotonicClock.now();
            if self.frames.len() == 0 {
                return Ok(true);
            }
            if now >= deadline {
                return Ok(false);
            }
            MonotonicClock.sleep_until(now.saturating_add(RETRY).min(deadline));
        }
    }
}

impl Drop for XdpTx {
    fn drop(&mut self) {
        // SAFETY: taken once, and nothing uses it after that.
        let half = unsafe { ManuallyDrop::take(&mut self.half) };
        if !self.ended && self.frames.len() == 0 {
            self.shelf.put_transmit(half);
        }
    }
}

/// How frames of `plan` lie in the memory.
fn pieces_of(half: &TransmitHalf, plan: &TxPlan) -> Pieces {
    Pieces::of(plan.frame_max.size(), half.memory.chunk())
}

/// The frames of `plan`, none of which is there yet.
fn frames_of(half: &TransmitHalf, plan: &TxPlan) -> TxFrames {
    TxFrames::new(half.memory.len(), pieces_of(half, plan), plan.tags)
}

/// That an interface and the memory carry the frames that are planned.
fn check_length(facts: &QueueFacts, mtu: u32, plan: &TxPlan) -> Result<(), PortError> {
    let longest = facts.longest(mtu);
    if plan.frame_max <= longest {
        return Ok(());
    }
    Err(PortError::Unsupported {
        engine: ENGINE,
        what: fault!(
            "send frames of {} bytes by {}: its MTU of {mtu} and a chunk of memory allow {} with FCS",
            plan.frame_max.with_fcs(), facts.interface, longest.with_fcs();
            "send shorter ones, or use --engine packet"
        ),
    })
}

impl TxPort for XdpTx {
    fn caps(&self) -> &TxCaps {
        &self.caps
    }

    fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
        if self.ended {
            let ended = std::io::Error::other("the driver took no more frames");
            return Err(refused("sending more frames", &self.half.facts.interface, ended));
        }
        let mut got = self.frames.reserve(want, BATCH);
        if got < want.min(BATCH) {
            self.complete(Fate::Sent);
            got = self.frames.reserve(want, BATCH);
        }
        Ok(got)
    }

    fn slot(&mut self, index: usize) -> &mut [u8] {
        let first = self.frames.reserved_chunk(index);
        self.half.memory.chunks_mut(first, self.frames.pieces().most)
    }

    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        let first = self.frames.commit(metas, self.caps.frame_max)?;
        let TransmitHalf { tx, memory, .. } = &mut *self.half;
        let chunk = self.frames.pieces().chunk;
        for (index, meta) in metas.iter().enumerate() {
            let mut number = self.frames.first_chunk(first.wrapping_add(index));
            let mut left = usize::from(meta.len);
            while left > 0 {
                let len = left.min(chunk);
                left -= len;
                let options = if left > 0 { MORE } else { 0 };
                // the ring has as many places as there are chunks
                let address = memory.address(number);
                tx.push(FrameDescriptor { address, len: len as u32, options });
                number += 1;
            }
        }
        tx.publish();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.complete(Fate::Sent);
        while !self.ended && self.half.tx.unread() > 0 {
            if !self.push()? {
                // a driver that is awake reads them by itself
                let waits = !self.is_zero_copy() && self.half.tx.unread() > 0;
                self.stalls += u64::from(waits);
                break;
            }
        }
        Ok(())
    }

    fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        self.frames.settled(each);
    }

    fn drain(&mut self, deadline: Nanos) -> Result<bool, PortError> {
        let all = self.wait_for_all(deadline)?;
        if !all {
            self.give_up();
        }
        Ok(all)
    }

    fn totals(&self, totals: &mut [TxTotals]) {
        self.frames.totals(totals);
    }

    fn stop(&mut self) -> Result<(), PortError> {
        // what was handed over is sent at once, and nothing of it can be taken back
        if self.frames.len() > 0 {
            self.drain(MonotonicClock.now().saturating_add(LAST))?;
        }
        Ok(())
    }
}
