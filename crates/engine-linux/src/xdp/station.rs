//! The receiver of hosts that are played on a link: frames for their Ethernet addresses come by an AF_XDP socket, which costs the kernel
//! the least, and all others, those for groups among them, by a packet socket.
//!
//! Only the first queue of the interface has an AF_XDP socket. What a card hands to another comes by the packet socket.
//!
//! Where several cores have the sessions of an interface, all comes by packet sockets, one for each core ([`CoreRx`]): an AF_XDP socket
//! takes frames of the queue that it is bound to and of no other (`xsk_rcv_check` of the kernel's `net/xdp/xsk.c`), and a queue has the
//! frames of all cores.

use std::sync::Arc;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, PortError, RxCaps, RxPort, View};
use wirebeat_engine::steering::Shard;
use wirebeat_units::Nanos;

use super::{Backlog, StationMask, Steering, XdpCopy, XdpOptions, XdpQueue, XdpRx};
use crate::kernel::Attachment;
use crate::packet::{Accept, PromptRx};
use crate::sys::{poll_until, refused};

/// After so many looks at the first the second has its turn as well: it has what is seldom, and nothing that is urgent.
const LOOKS: u32 = 16;

/// The receiver.
#[derive(Debug)]
pub struct StationRx {
    caps: RxCaps,
    ours: XdpRx,
    others: PromptRx,
    looks: u32,
    interface: String,
    // its socket is one of `ours`
    _queue: XdpQueue,
}

impl StationRx {
    /// Receives the frames for `stations`, and for groups, on an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// The interface is gone; a program cannot be loaded or put into its place; or the process lacks a right.
    pub fn open(
        interface: &str,
        attachment: Arc<Attachment>,
        stations: StationMask,
    ) -> Result<StationRx, PortError> {
        let others = PromptRx::open(interface, Accept::All)?;
        let receives = Some(Backlog::Long);
        let options = XdpOptions { copy: XdpCopy::Always, receives, ..XdpOptions::default() };
        let mut queue = XdpQueue::open(interface, options)?;
        let steering = Arc::new(Steering::for_station((interface, attachment), stations)?);
        let ours = XdpRx::open(&mut queue, &steering, None)?;
        let mode = format!("{}; groups by {}", ours.caps().mode, others.caps().mode);
        Ok(StationRx {
            caps: RxCaps { mode, view: View::Frame },
            ours,
            others,
            looks: 0,
            interface: interface.to_owned(),
            _queue: queue,
        })
    }

    /// Waits until either has something, at most until `until`; says whether that may be.
    fn wait(&mut self, until: Nanos) -> Result<bool, PortError> {
        let mut files = [self.ours.readable(), self.others.readable()];
        let ready = poll_until(&mut files, until)
            .map_err(|error| refused("waiting for frames", &self.interface, error))?;
        let failed = files.iter().any(|file| file.revents & (libc::POLLERR | libc::POLLHUP) != 0);
        if failed && self.ours.check() {
            return Err(PortError::Gone(self.interface.clone()));
        }
        Ok(ready)
    }
}

impl RxPort for StationRx {
    fn caps(&self) -> &RxCaps {
        &self.caps
    }

    /// When `until` has passed it looks once at the frames for the station, and seldom at the others, without a system call.
    fn receive<F>(&mut self, until: Nanos, mut sink: F) -> Result<usize, PortError>
    where
        F: FnMut(&Arrival<'_>),
    {
        loop {
            let mut count = self.ours.look(&mut sink);
            self.looks += 1;
            let now = if count > 0 { Nanos::MAX } else { MonotonicClock.now() };
            if self.looks >= LOOKS || now < until {
                self.looks = 0;
                count += self.others.receive(Nanos::ZERO, &mut sink)?;
            }
            if count > 0 || now >= until {
                return Ok(count);
            }
            if !self.wait(until)? {
                return Ok(0);
            }
        }
    }

    fn receive_drops(&self) -> u64 {
        self.ours.receive_drops() + self.others.receive_drops()
    }
}

/// The receiver of one of several cores.
#[derive(Debug)]
pub struct CoreRx {
    packets: PromptRx,
    // as long as it is there, the driver takes redirected frames
    _attachment: Arc<Attachment>,
}

impl CoreRx {
    /// Receives what is for `core` on an interface of the calling thread's namespace, whose program lets everything pass.
    ///
    /// # Errors
    /// As [`PromptRx::open`].
    pub fn open(
        interface: &str,
        attachment: Arc<Attachment>,
        core: Shard,
    ) -> Result<CoreRx, PortError> {
        let packets = PromptRx::open_for_core(interface, Accept::All, core)?;
        Ok(CoreRx { packets, _attachment: attachment })
    }
}

impl RxPort for CoreRx {
    fn caps(&self) -> &RxCaps {
        self.packets.caps()
    }

    fn receive<F>(&mut self, until: Nanos, sink: F) -> Result<usize, PortError>
    where
        F: FnMut(&Arrival<'_>),
    {
        self.packets.receive(until, sink)
    }

    fn receive_drops(&self) -> u64 {
        self.packets.receive_drops()
    }
}
