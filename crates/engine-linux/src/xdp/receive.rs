//! The receiving half: frames that the steering program hands to the socket, as arrivals.

use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, PortError, RxCaps, RxPort, View};
use wirebeat_units::{Nanos, PacketLen, fault};

use super::ENGINE;
use super::queue::{HEADER_MAX, QueueFacts, ReceiveHalf, Shelf, XdpQueue};
use super::steering::Steering;
use crate::link;
use crate::sys::{self, poll_until, refused};

/// After so many frames their chunks go back to the kernel, and the clock is read again.
const BATCH: u32 = 64;

/// The receiver of the xdp engine: one queue.
#[derive(Debug)]
pub struct XdpRx {
    caps: RxCaps,
    half: ManuallyDrop<ReceiveHalf>,
    /// Where `half` goes when this is dropped.
    shelf: Arc<Shelf>,
    /// The number of the queue.
    number: u32,
    /// Frames that the socket had lost when this run began.
    lost_before: u64,
    gone: bool,
    /// What hands frames over, as long as one of the queues receives.
    steering: Option<Arc<Steering>>,
}

impl XdpRx {
    /// Takes the receiving half of a queue, to which `steering` hands frames from now on.
    ///
    /// # Errors
    /// Somebody has the half, the queue cannot be bound or is none of those that are steered to, or frames are too long.
    pub fn open(queue: &mut XdpQueue, steering: &Arc<Steering>) -> Result<XdpRx, PortError> {
        let number = queue.number();
        let half = queue.take_receive()?;
        let caps = RxCaps { mode: half.facts.mode(&half.socket), view: View::Frame };
        let mut port = XdpRx {
            caps,
            half: ManuallyDrop::new(half),
            shelf: queue.shelf(),
            number,
            lost_before: 0,
            gone: false,
            steering: None,
        };
        check_mtu(&port.half.facts, port.half.facts.mtu)?;
        port.begin(steering)?;
        Ok(port)
    }

    /// What hands frames to it, which it gives up.
    pub fn take_steering(&mut self) -> Option<Arc<Steering>> {
        self.steering.take()
    }

    /// Receives again after a [rest](RxPort::rest), what `steering` hands over from now on. In the namespace of the interface.
    /// Says `false`, and does nothing, where that takes another port: the interface is not the one that it was.
    ///
    /// # Errors
    /// The interface is gone, frames are too long by now, or the queue is none of those that are steered to.
    pub fn rearm(&mut self, steering: &Arc<Steering>) -> Result<bool, PortError> {
        let facts = &self.half.facts;
        let link = link::find(ENGINE, &facts.interface)?;
        check_mtu(facts, link.mtu)?;
        if self.gone || link.index.get() != facts.index || self.check() {
            return Ok(false);
        }
        self.begin(steering)?;
        Ok(true)
    }

    /// Leaves out what is there from before, and takes what comes from now on.
    fn begin(&mut self, steering: &Arc<Steering>) -> Result<(), PortError> {
        // once around: what is there now
        self.take(&mut |_| {});
        self.lost_before = self.half.socket.receive_drops();
        steering.add(self.number, self.half.socket.as_fd())?;
        self.steering = Some(Arc::clone(steering));
        Ok(())
    }

    /// Gives what has arrived to `sink`, and the chunks back to the kernel; once around at most. The time of a frame is when
    /// it was seen here: those of a batch that are there at one look have the same.
    fn take(&mut self, sink: &mut impl FnMut(&Arrival<'_>)) -> usize {
        let ReceiveHalf { rx, fill, memory, .. } = &mut *self.half;
        let mut taken = 0;
        while taken < memory.len() {
            let some = rx.available().min(BATCH);
            if some == 0 {
                break;
            }
            let at = MonotonicClock.now();
            for _ in 0..some {
                let Some(frame) = rx.pop() else { break };
                taken += 1;
                if let Some(bytes) = memory.bytes(frame.address, frame.len) {
                    // virtual links bring short frames without their padding
                    let frame_len = PacketLen::new(frame.len).buffer().with_fcs();
                    sink(&Arrival { at, timed: true, bytes, frame_len, ends: None });
                }
                if let Some(number) = memory.number(frame.address) {
                    // there are as many places as chunks
                    fill.push(memory.address(number));
                }
            }
            rx.release();
            fill.publish();
        }
        taken
    }

    /// Has the driver look into the fill ring, where it waits for that.
    fn wake(&mut self) {
        if self.half.socket.zero_copy && self.half.fill.needs_wakeup() {
            // best effort: it looks by itself when frames arrive
            let _: Result<(), Errno> = self.half.socket.wake_to_receive();
        }
    }

    /// Looks whether the interface is gone or down, which no poll tells. With busy polling this serves the queue.
    fn check(&mut self) -> bool {
        let looked = self.half.socket.wake_to_receive();
        self.gone |= matches!(looked, Err(Errno::NETDOWN | Errno::NXIO | Errno::NODEV));
        self.gone
    }

    /// Waits until something may have arrived, at most until `until`; says whether that may be.
    fn wait(&mut self, until: Nanos) -> Result<bool, PortError> {
        if self.half.facts.busy_poll {
            return Ok(self.check() || MonotonicClock.now() < until);
        }
        let mut files = [sys::readable(&*self.half.socket)];
        let ready = poll_until(&mut files, until)
            .map_err(|error| refused("waiting for frames", &self.half.facts.interface, error))?;
        let failed = files[0].revents & (libc::POLLERR | libc::POLLHUP) != 0;
        if ready && !failed {
            return Ok(true);
        }
        Ok(self.check() || (failed && MonotonicClock.now() < until))
    }
}

impl Drop for XdpRx {
    fn drop(&mut self) {
        // nothing is handed over any more
        self.steering = None;
        // SAFETY: taken once, and nothing uses it after that.
        let half = unsafe { ManuallyDrop::take(&mut self.half) };
        self.shelf.put_receive(half);
    }
}

/// That a chunk holds every frame that may arrive.
fn check_mtu(facts: &QueueFacts, mtu: u32) -> Result<(), PortError> {
    let most = facts.frame_max.get();
    if mtu.saturating_add(HEADER_MAX) <= most {
        return Ok(());
    }
    Err(PortError::missing(
        ENGINE,
        &facts.interface,
        fault!(
            "frames of its MTU of {mtu} do not fit a chunk of memory";
            "lower it with 'ip link set {} mtu {}', or use --engine packet", facts.interface, most - HEADER_MAX
        ),
    ))
}

impl RxPort for XdpRx {
    fn caps(&self) -> &RxCaps {
        &self.caps
    }

    fn receive<F>(&mut self, until: Nanos, mut sink: F) -> Result<usize, PortError>
    where
        F: FnMut(&Arrival<'_>),
    {
        loop {
            let count = self.take(&mut sink);
            self.wake();
            if count > 0 {
                return Ok(count);
            }
            if self.gone {
                return Err(PortError::Gone(self.half.facts.interface.clone()));
            }
            if !self.wait(until)? {
                return Ok(0);
            }
        }
    }

    fn receive_drops(&self) -> u64 {
        self.half.socket.receive_drops().saturating_sub(self.lost_before)
    }

    fn rest(&mut self) -> bool {
        if let Some(steering) = &self.steering {
            steering.rest();
        }
        !self.gone
    }
}
