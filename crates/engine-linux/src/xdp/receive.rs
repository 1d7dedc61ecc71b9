//! The receiving half: frames that the steering program hands to the socket, as arrivals.

use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, CardStamps, PortError, RxCaps, RxPort, View};
use wirebeat_units::{Nanos, PacketLen, fault};

use super::ENGINE;
use super::metadata::{KNOWN_LEN, Known};
use super::queue::{HEADER_MAX, QueueFacts, ReceiveHalf, Shelf, XdpQueue};
use super::ring::MORE;
use super::steering::Steering;
use crate::card::{Card, Stamped};
use crate::link;
use crate::sys::{self, poll_until, refused};

/// After so many frames their chunks go back to the kernel, and the clock is read again.
const BATCH: u32 = 64;

/// A frame that lies in several chunks, as far as they were there: put together by a copy.
#[derive(Debug)]
struct Joining {
    /// Its bytes so far. There is room for the longest frame.
    bytes: Vec<u8>,
    /// Its last piece is not there.
    open: bool,
    /// It is too long, or a piece of it lies where none can.
    wrong: bool,
    /// Frames that were wrong.
    lost: u64,
    /// What the driver knew of it: that stands before its first piece.
    known: Known,
}

impl Joining {
    /// For frames of up to `longest` bytes.
    fn new(longest: usize) -> Joining {
        Joining {
            bytes: Vec::with_capacity(longest),
            open: false,
            wrong: false,
            lost: 0,
            known: Known::default(),
        }
    }

    /// Forgets what is there of a frame.
    fn clear(&mut self) {
        self.bytes.clear();
        (self.open, self.wrong) = (false, false);
    }

    /// Takes the next piece of a frame, and gives the frame where that was the last one.
    #[inline]
    fn take(&mut self, piece: Option<&[u8]>, more: bool) -> Option<&[u8]> {
        if !self.open {
            self.clear();
        }
        self.open = more;
        match piece {
            // no more than there is room for: nothing is allocated here
            Some(piece) if self.bytes.len() + piece.len() <= self.bytes.capacity() => {
                self.bytes.extend_from_slice(piece);
            }
            _ => self.wrong = true,
        }
        let whole = !more;
        self.lost += u64::from(whole && self.wrong);
        (whole && !self.wrong).then_some(&*self.bytes)
    }
}

/// The receiver of the xdp engine: one queue.
#[derive(Debug)]
pub struct XdpRx {
    caps: RxCaps,
    half: ManuallyDrop<ReceiveHalf>,
    /// Where `half` goes when this is dropped.
    shelf: Arc<Shelf>,
    /// The number of the queue.
    number: u32,
    joining: Joining,
    /// Frames that the socket had lost when this run began.
    lost_before: u64,
    gone: bool,
    /// What hands frames over, as long as one of the queues receives.
    steering: Option<Arc<Steering>>,
    /// Whether that says what the driver knows of each.
    knows: bool,
    /// Where the card stamps, and what it did.
    card: Option<Stamped>,
}

impl XdpRx {
    /// Takes the receiving half of a queue, to which `steering` hands frames from now on; `card` stamps them, where that says
    /// so, or they have the time at which they are seen here.
    ///
    /// # Errors
    /// Somebody has the half, the queue cannot be bound or is none of those that are steered to, or frames are too long.
    pub fn open(
        queue: &mut XdpQueue,
        steering: &Arc<Steering>,
        card: Option<&Card>,
    ) -> Result<XdpRx, PortError> {
        let number = queue.number();
        let half = queue.take_receive()?;
        let stamps = if card.is_some() { ", hardware timestamps" } else { "" };
        let mode = format!("{}{stamps}", half.facts.mode(&half.socket));
        let caps = RxCaps { mode, view: View::Frame };
        let joined = if half.facts.several { half.facts.frame_max.size() } else { 0 };
        let mut port = XdpRx {
            caps,
            half: ManuallyDrop::new(half),
            shelf: queue.shelf(),
            number,
            joining: Joining::new(joined),
            lost_before: 0,
            gone: false,
            steering: None,
            knows: false,
            card: None,
        };
        check_mtu(&port.half.facts, port.half.facts.mtu)?;
        port.begin(steering, card)?;
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
    pub fn rearm(
        &mut self,
        steering: &Arc<Steering>,
        card: Option<&Card>,
    ) -> Result<bool, PortError> {
        if card.is_some() != self.card.is_some() {
            return Ok(false);
        }
        let facts = &self.half.facts;
        let link = link::find(ENGINE, &facts.interface)?;
        check_mtu(facts, link.mtu)?;
        if self.gone || link.index.get() != facts.index || self.check() {
            return Ok(false);
        }
        self.begin(steering, card)?;
        Ok(true)
    }

    /// Leaves out what is there from before, and takes what comes from now on.
    fn begin(&mut self, steering: &Arc<Steering>, card: Option<&Card>) -> Result<(), PortError> {
        // once around: what is there now
        self.take(&mut |_| {});
        self.knows = steering.says_what_drivers_know();
        self.card = card.map(Stamped::by);
        self.joining.clear();
        self.lost_before = self.lost();
        steering.add(self.number, self.half.socket.as_fd())?;
        self.steering = Some(Arc::clone(steering));
        Ok(())
    }

    /// Frames that the socket lost, or that could not be put together.
    fn lost(&self) -> u64 {
        self.half.socket.receive_drops().saturating_add(self.joining.lost)
    }

    /// Gives what has arrived to `sink`, and the chunks back to the kernel; once around at most. Says how many frames that
    /// were. The time of a frame is when it was seen here: those of a batch that are there at one look have the same.
    fn take(&mut self, sink: &mut impl FnMut(&Arrival<'_>)) -> usize {
        let (joining, card, knows) = (&mut self.joining, &mut self.card, self.knows);
        let ReceiveHalf { rx, fill, memory, .. } = &mut *self.half;
        let (mut taken, mut frames) = (0, 0);
        while taken < memory.len() {
            let some = rx.available().min(BATCH);
            if some == 0 {
                break;
            }
            let seen = MonotonicClock.now();
            card.iter_mut().for_each(Stamped::refresh);
            for _ in 0..some {
                let Some(frame) = rx.pop() else { break };
                taken += 1;
                if knows && !joining.open {
                    let before = memory.before_mut(frame.address, KNOWN_LEN);
                    joining.known = before.map(Known::take).unwrap_or_default();
                }
                let Known { stamp, hash } = joining.known;
                let piece = memory.bytes(frame.address, frame.len);
                let more = frame.options & MORE != 0;
                let whole = match joining.open || more {
                    false => piece,
                    true => joining.take(piece, more),
                };
                if let Some(bytes) = whole {
                    frames += 1;
                    let (at, timed) =
                        card.as_mut().map_or((seen, true), |card| card.time(stamp, || seen));
                    // virtual links bring short frames without their padding
                    let frame_len = PacketLen::new(bytes.len() as u32).buffer().with_fcs();
                    sink(&Arrival { at, timed, bytes, frame_len, ends: None, hash });
                }
                if let Some(number) = memory.number(frame.address) {
                    // there are as many places as chunks
                    fill.push(memory.address(number));
                }
            }
            rx.release();
            fill.publish();
        }
        frames
    }

    /// Gives what is there to `sink`, and does not wait; says how many frames that were.
    pub(super) fn look(&mut self, sink: &mut impl FnMut(&Arrival<'_>)) -> usize {
        let count = self.take(sink);
        self.wake();
        count
    }

    /// What is polled until there may be something.
    pub(super) fn readable(&self) -> libc::pollfd {
        sys::readable(&*self.half.socket)
    }

    /// Has the driver look into the fill ring, where it waits for that.
    fn wake(&mut self) {
        if self.half.socket.zero_copy && self.half.fill.needs_wakeup() {
            // best effort: it looks by itself when frames arrive
            let _: Result<(), Errno> = self.half.socket.wake_to_receive();
        }
    }

    /// Looks whether the interface is gone or down, which no poll tells. With busy polling this serves the queue.
    pub(super) fn check(&mut self) -> bool {
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

/// That a chunk, or several, hold every frame that may arrive.
fn check_mtu(facts: &QueueFacts, mtu: u32) -> Result<(), PortError> {
    let most = facts.frame_max.get();
    if mtu.saturating_add(HEADER_MAX) <= most {
        return Ok(());
    }
    let what = match facts.several {
        true => "are longer than those of jumbo packets, the longest that it receives",
        false => {
            "do not fit a chunk of memory, and this kernel or driver knows no frames of several (Linux 6.6)"
        }
    };
    Err(PortError::missing(
        ENGINE,
        &facts.interface,
        fault!(
            "frames of its MTU of {mtu} {what}";
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
        self.lost().saturating_sub(self.lost_before)
    }

    fn card_stamps(&self) -> Option<CardStamps> {
        self.card.as_ref().map(Stamped::stamps)
    }

    fn rest(&mut self) -> bool {
        if let Some(steering) = &self.steering {
            steering.rest();
        }
        !self.gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_put_together_and_what_is_too_long_is_lost() {
        let mut joining = Joining::new(8);
        assert_eq!(joining.take(Some(b"abc"), true), None);
        assert_eq!(joining.take(Some(b"def"), true), None);
        assert_eq!(joining.take(Some(b"gh"), false), Some(&b"abcdefgh"[..]));
        assert_eq!(joining.take(Some(b"ij"), true), None);
        assert_eq!(joining.take(Some(b"k"), false), Some(&b"ijk"[..]));
        // one byte too long, and a piece that lies nowhere
        for wrong in [[Some(&b"abcdefgh"[..]), Some(b"i")], [Some(b"a"), None], [None, Some(b"a")]]
        {
            let [first, last] = wrong;
            assert_eq!(joining.take(first, true), None);
            assert_eq!(joining.take(last, false), None);
        }
        assert_eq!((joining.lost, joining.bytes.capacity()), (3, 8));
        // the rest of a frame of an earlier run is forgotten
        assert_eq!(joining.take(Some(b"old"), true), None);
        joining.clear();
        assert_eq!(joining.take(Some(b"new"), false), Some(&b"new"[..]));
    }
}
