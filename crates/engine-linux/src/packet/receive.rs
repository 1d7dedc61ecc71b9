//! The receiving half: a socket that fills a ring, and the ring's frames as arrivals.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, CardStamps, PortError, RxCaps, RxPort, View};
use wirebeat_meter::codecs::Answer;
use wirebeat_units::{Nanos, PacketLen};

use super::answer::Answerer;
use super::ring::{BlockRing, Frame};
use super::socket::{self, Protocol, TpacketVersion};
use super::{Accept, Fanout, PacketReceive, filter};
use crate::card::{Card, Stamped};
use crate::memory::Memory;
use crate::sys::{self, poll_until, refused};
use crate::time::RealtimeToMonotonic;

/// Bytes of a block: the longest packet that the kernel hands over (64 KiB of joined datagrams and
/// their headers) fits, and at 900 thousand 64-byte frames a second a block is full when it is due
/// anyway. Few blocks would do for less traffic, but each is handed over after a millisecond, so that
/// their number is also how many milliseconds a reader may be kept from reading.
const BLOCK_LEN: usize = 128 * 1024;
/// What the kernel divides a block by to count the frames of a ring; of no effect with this version.
const FRAME_LEN: usize = 2048;
/// After so long the kernel hands over a block that is not full; its timer counts milliseconds.
const RETIRE: Nanos = Nanos::from_millis(1);
/// PACKET_FANOUT_FLAG_IGNORE_OUTGOING (`linux/if_packet.h`): a group is given what leaves as well, whatever its sockets asked
/// for. Kernels that do not know it take it and do nothing; there the filter drops what leaves.
const IGNORE_OUTGOING: u32 = 0x4000;
/// How long a block may take to come when the interface is gone, on a busy machine.
const GRACE: Nanos = Nanos::from_millis(20);

/// The receiver of the packet engine: a receiving socket and its ring.
#[derive(Debug)]
pub struct PacketRx {
    caps: RxCaps,
    socket: OwnedFd,
    interface: String,
    /// The interface's number.
    index: u32,
    /// How it was opened, or re-armed last.
    options: PacketReceive,
    /// What arrived before is of an earlier run.
    since: Nanos,
    ring: BlockRing,
    time: RealtimeToMonotonic,
    /// Where the card stamps, and what it did.
    card: Option<Stamped>,
    /// Where joined datagrams are taken apart.
    scratch: Vec<u8>,
    drops: Cell<u64>,
    /// Whether it shares frames with others: the number of a group does not say so, for 0 is one.
    shares: bool,
    gone: bool,
    answerer: Answerer,
}

impl PacketRx {
    /// Receives on an interface of the calling thread's namespace from now on; `card` stamps what arrives, or the system does.
    pub fn open(
        interface: &str,
        options: &PacketReceive,
        card: Option<&Card>,
    ) -> Result<Self, PortError> {
        let index = super::link_of(interface)?.index.get();
        let socket = socket::open(interface)?;
        let blocks = (options.ring.get() as usize).div_ceil(BLOCK_LEN).max(2);
        let program = filter::program(options.accept, options.kinds);
        socket::prepare(&socket, TpacketVersion::V3, card, &program)
            .map_err(|e| refused("preparing a packet socket to receive", interface, e))?;
        let memory = map_ring(&socket, blocks)
            .map_err(|e| refused("making a receive ring", interface, e))?;
        socket::bind(&socket, index, Protocol::All)
            .map_err(|e| refused("binding a packet socket", interface, e))?;
        let receiver = PacketRx {
            caps: RxCaps { mode: super::mode("AF_PACKET, TPACKET_V3", card), view: View::Frame },
            socket,
            interface: interface.to_owned(),
            index,
            options: *options,
            since: Nanos::ZERO,
            ring: BlockRing::new(memory, BLOCK_LEN),
            time: RealtimeToMonotonic::new(),
            card: card.map(Stamped::by),
            scratch: Vec::with_capacity(usize::from(u16::MAX)),
            drops: Cell::new(0),
            shares: options.fanout != Fanout::Alone,
            gone: false,
            answerer: Answerer::here(index),
        };
        receiver.share(options.fanout)?;
        if options.accept == Accept::All {
            socket::be_promiscuous(&receiver.socket, index)
                .map_err(|e| refused("switching on promiscuous mode", interface, e))?;
        }
        Ok(receiver)
    }

    /// Receives again after a [rest](RxPort::rest), by the same socket and ring: what arrives from now on, of the kinds that
    /// `options` say. In the namespace of the interface. Says `false`, and does nothing, where that takes another port: the
    /// interface is not the one that it was or had an error, or the options differ in more than the kinds of frames.
    ///
    /// # Errors
    /// The interface is gone, or the socket refuses the filter.
    pub fn rearm(
        &mut self,
        options: &PacketReceive,
        card: Option<&Card>,
    ) -> Result<bool, PortError> {
        let index = super::link_of(&self.interface)?.index.get();
        let alike = PacketReceive { kinds: options.kinds, ..self.options } == *options;
        let alike = alike && index == self.index && card.is_some() == self.card.is_some();
        let whole = matches!(rustix::net::sockopt::socket_error(&self.socket), Ok(Ok(())));
        if !alike || !whole || self.gone {
            return Ok(false);
        }
        for _ in 0..self.ring.blocks() {
            if self.ring.take(|_| {}).is_none() {
                break;
            }
        }
        // reading sets the kernel's counter to zero
        self.receive_drops();
        self.drops.set(0);
        self.card = card.map(Stamped::by);
        // a block that is not full comes later, and may hold frames of before
        self.since = MonotonicClock.now();
        sys::attach_filter(&self.socket, &filter::program(options.accept, options.kinds))
            .map_err(|e| refused("receiving again", &self.interface, e))?;
        self.options = *options;
        Ok(true)
    }

    /// Joins a group of sockets that divide the frames among them.
    fn share(&self, fanout: Fanout) -> Result<(), PortError> {
        let request = match fanout {
            Fanout::Alone => return Ok(()),
            Fanout::New => libc::PACKET_FANOUT_FLAG_UNIQUEID << 16,
            Fanout::Join(group) => u32::from(group),
        } | (libc::PACKET_FANOUT_HASH | IGNORE_OUTGOING) << 16;
        sys::set_option(&self.socket, (libc::SOL_PACKET, libc::PACKET_FANOUT), &request)
            .map_err(|e| refused("sharing the frames among several queues", &self.interface, e))
    }

    /// The group of ports that divide the interface's frames among them. The kernel gives numbers from 0 on.
    pub fn group(&self) -> Option<u16> {
        if !self.shares {
            return None;
        }
        let [group]: [u32; 1] =
            sys::option(&self.socket, (libc::SOL_PACKET, libc::PACKET_FANOUT)).ok()?;
        // how frames are divided is in the upper half
        Some(group as u16)
    }

    /// Gives what the ring holds to `sink`; once around at most.
    fn take(&mut self, sink: &mut impl FnMut(&Arrival<'_>)) -> usize {
        self.time.refresh(MonotonicClock.now());
        let mut count = 0;
        for _ in 0..self.ring.blocks() {
            let (time, card, scratch) = (&self.time, &mut self.card, &mut self.scratch);
            let since = self.since;
            // a block may have been filled since
            card.iter_mut().for_each(Stamped::refresh);
            let taken = self.ring.take(|frame| {
                let by_card = frame.by_card.then_some(frame.stamp);
                let time = |stamp| time.convert(stamp);
                let (at, timed) = match card {
                    None => (time(frame.stamp), true),
                    // it carries one of both stamps
                    Some(card) => card.time(by_card, || time(frame.stamp)),
                };
                if at < since {
                    return;
                }
                let delivered = deliver(&frame, at, timed, card.is_some(), scratch, sink);
                count += delivered;
                card.iter_mut().for_each(|card| card.joined(delivered));
            });
            if taken.is_none() {
                break;
            }
        }
        count
    }

    /// Why the socket reports an error. A block that was not full when the interface went away still
    /// comes.
    fn check(&mut self) -> Result<(), PortError> {
        if socket::lost_interface(&self.socket, &self.interface)? {
            self.gone = true;
            let now = MonotonicClock.now();
            MonotonicClock.sleep_until(now.saturating_add(GRACE));
        }
        Ok(())
    }

    /// How far the times of arrivals can be off by conversion.
    pub fn timestamp_error(&self) -> Nanos {
        self.card.as_ref().map_or_else(|| self.time.error(), Stamped::error)
    }
}

impl RxPort for PacketRx {
    fn caps(&self) -> &RxCaps {
        &self.caps
    }

    fn receive<F>(&mut self, until: Nanos, mut sink: F) -> Result<usize, PortError>
    where
        F: FnMut(&Arrival<'_>),
    {
        loop {
            let count = self.take(&mut sink);
            if count > 0 {
                return Ok(count);
            }
            if self.gone {
                return Err(PortError::Gone(self.interface.clone()));
            }
            let mut files = [sys::readable(&self.socket)];
            let ready = poll_until(&mut files, until)
                .map_err(|e| refused("waiting for frames", &self.interface, e))?;
            if files[0].revents & (libc::POLLERR | libc::POLLHUP) != 0 {
                self.check()?;
            } else if !ready {
                return Ok(0);
            }
        }
    }

    fn answer(&mut self, answer: &Answer) -> bool {
        self.answerer.send(answer)
    }

    fn receive_drops(&self) -> u64 {
        // struct tpacket_stats_v3: packets, drops, freezes; reading sets them to zero
        let statistics: io::Result<[u32; 3]> =
            sys::option(&self.socket, (libc::SOL_PACKET, libc::PACKET_STATISTICS));
        if let Ok([_, drops, _]) = statistics {
            self.drops.set(self.drops.get() + u64::from(drops));
        }
        self.drops.get()
    }

    fn card_stamps(&self) -> Option<CardStamps> {
        self.card.as_ref().map(Stamped::stamps)
    }

    fn rest(&mut self) -> bool {
        !self.gone && sys::attach_filter(&self.socket, &filter::NOTHING).is_ok()
    }
}

/// Gives a frame to `sink`, or each of the datagrams that it consists of. A stamp of the card is that of the first.
pub(super) fn deliver(
    frame: &Frame<'_>,
    at: Nanos,
    mut timed: bool,
    by_card: bool,
    scratch: &mut Vec<u8>,
    sink: &mut impl FnMut(&Arrival<'_>),
) -> usize {
    match frame.joined {
        None => {
            let (bytes, frame_len) = (frame.bytes, frame_len(frame.len));
            sink(&Arrival { at, timed, bytes, frame_len, ends: None, hash: None });
            1
        }
        Some(joined) => joined.split(frame.bytes, scratch, |bytes| {
            sink(&Arrival {
                at,
                timed,
                bytes,
                frame_len: frame_len(bytes.len()),
                ends: None,
                hash: None,
            });
            timed &= !by_card;
        }),
    }
}

/// Bytes with FCS of a frame of which so many came: virtual links bring short frames without their padding.
fn frame_len(bytes: usize) -> u32 {
    PacketLen::new(bytes as u32).buffer().with_fcs()
}

fn map_ring(socket: &OwnedFd, blocks: usize) -> io::Result<Memory> {
    let count = |n: usize| libc::c_uint::try_from(n).map_err(|_| io::ErrorKind::OutOfMemory);
    let request = libc::tpacket_req3 {
        tp_block_size: count(BLOCK_LEN)?,
        tp_block_nr: count(blocks)?,
        tp_frame_size: count(FRAME_LEN)?,
        tp_frame_nr: count(blocks * (BLOCK_LEN / FRAME_LEN))?,
        tp_retire_blk_tov: (RETIRE.get() / 1_000_000) as libc::c_uint,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    socket::map_ring(socket, &request, blocks * BLOCK_LEN)
}
