//! The sending half: frames are built in the UMEM and handed over by the transmit ring; the completion ring says when the kernel
//! has no more use for them.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use rustix::io::Errno;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{
    CardStamps, Fate, PortError, TxCaps, TxMeta, TxPlan, TxPort, TxTotals, View,
};
use wirebeat_netlink::Link;
use wirebeat_units::{Nanos, fault};

use super::ENGINE;
use super::frames::{Pieces, TxFrames};
use super::metadata::{HAS_ORDER, ORDER_LEN, ORDER_ROOM, Order, SentSample, answer};
use super::queue::{QueueFacts, Shelf, TransmitHalf, XdpQueue};
use super::ring::{FrameDescriptor, MORE};
use crate::card::{Asked, Conversion, SharedCard};
use crate::link;
use crate::sys::refused;

/// The most frames that are reserved at once.
pub(super) const BATCH: usize = 64;
/// How often a full port is tried again while it drains.
const RETRY: Nanos = Nanos::from_micros(50);
/// How long what the kernel has taken is waited for when nothing more is to be sent: a copying kernel gives it back at once,
/// and a card when its ring has gone round.
const LAST: Nanos = Nanos::from_millis(50);

/// How long before it is due the card has a frame that it sends by itself: longer than a thread is kept from its core by what
/// a machine has to do, and far below the second that cards look ahead (igc).
const LEAD: Nanos = Nanos::from_micros(500);

/// What the driver is told of frames that are sent, where it offers that.
#[derive(Clone, Debug)]
pub struct CardOrders {
    /// The card, whose clock is the driver's.
    pub card: SharedCard,
    /// It says when some of them left.
    pub stamps: bool,
    /// It sends each at its launch time, and has it half a millisecond before.
    pub launch: bool,
}

/// The same with what it takes to give orders.
#[derive(Debug)]
struct Orders {
    launch: Option<Conversion>,
    sample: Option<SentSample>,
    /// Keeps its clock followed.
    card: Option<SharedCard>,
}

impl Orders {
    fn of(asked: &CardOrders) -> Orders {
        let conversion = || asked.card.clock().conversion();
        Orders {
            launch: asked.launch.then(conversion),
            sample: asked.stamps.then(|| SentSample::new(conversion())),
            card: Some(Arc::clone(&asked.card)),
        }
    }

    /// Whether they are what is asked for.
    fn fit(&self, asked: &CardOrders) -> bool {
        let card = self.card.as_ref().is_some_and(|card| Arc::ptr_eq(card, &asked.card));
        card && self.launch.is_some() == asked.launch && self.sample.is_some() == asked.stamps
    }

    fn lead(&self) -> Nanos {
        if self.launch.is_some() { LEAD } else { Nanos::ZERO }
    }
}

/// The transmitter of the xdp engine: one queue.
#[derive(Debug)]
pub struct XdpTx {
    caps: TxCaps,
    half: ManuallyDrop<TransmitHalf>,
    /// Where `half` goes when this is dropped.
    shelf: Arc<Shelf>,
    frames: TxFrames,
    orders: Option<Orders>,
    stalls: u64,
    /// The kernel has frames that were counted already, and did not give their chunks back: nothing more can be sent.
    ended: bool,
}

impl XdpTx {
    /// Takes the transmitting half of a queue. It sends nothing yet. Orders are for a queue that was opened for them.
    ///
    /// # Errors
    /// Somebody has the half, the queue cannot be bound, or planned frames are too long.
    pub fn open(
        queue: &mut XdpQueue,
        plan: &TxPlan,
        orders: Option<&CardOrders>,
    ) -> Result<XdpTx, PortError> {
        let port = XdpTx::with(queue, plan, orders.map(Orders::of))?;
        if orders.is_some() && !port.is_zero_copy() {
            // a kernel that copies puts a time of its own where the card's would be (`xsk_destruct_skb` of `net/xdp/xsk.c`)
            let missing = "the kernel copies its frames, and the card sees no orders for them";
            let hint = "use 'xdp-mode: zero-copy' where the driver offers it, or leave launch times and hardware timestamps out";
            let on = &port.half.facts.interface;
            return Err(PortError::missing(ENGINE, on, missing).with_hint(hint));
        }
        Ok(port)
    }

    fn with(
        queue: &mut XdpQueue,
        plan: &TxPlan,
        orders: Option<Orders>,
    ) -> Result<XdpTx, PortError> {
        let half = queue.take_transmit()?;
        let orders = orders.filter(|_| half.facts.orders);
        let frames = frames_of(&half, plan);
        let stamps = orders.as_ref().is_some_and(|orders| orders.sample.is_some());
        let launch = orders.as_ref().is_some_and(|orders| orders.launch.is_some());
        let caps = TxCaps {
            engine: ENGINE,
            mode: format!(
                "{}{}{}",
                half.facts.mode(&half.socket),
                if stamps { ", hardware timestamps" } else { "" },
                if launch { ", launch times by the card" } else { "" }
            ),
            frame_max: plan.frame_max.size(),
            batch: BATCH,
            view: View::Frame,
            holds: false,
            lead: orders.as_ref().map_or(Nanos::ZERO, Orders::lead),
            repeats: 0,
            external: None,
            large: false,
            link: half.facts.speed,
        };
        let (half, shelf) = (ManuallyDrop::new(half), queue.shelf());
        let port = XdpTx { caps, half, shelf, frames, orders, stalls: 0, ended: false };
        check_length(&port.half.facts, port.half.facts.mtu, plan)?;
        Ok(port)
    }

    /// Sends another run by the same socket and memory, with counters from zero. In the namespace of the interface. Says `false`,
    /// and does nothing, where that takes another port: the interface is another one, or the kernel still has frames.
    ///
    /// # Errors
    /// The interface is gone, or frames of `plan` are too long for it.
    pub fn rearm(&mut self, plan: &TxPlan, orders: Option<&CardOrders>) -> Result<bool, PortError> {
        self.complete(Fate::Sent);
        let alike = match (&self.orders, orders) {
            (None, None) => true,
            (Some(ours), Some(asked)) => ours.fit(asked),
            _ => false,
        };
        if !alike {
            return Ok(false);
        }
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
        self.orders = orders.map(Orders::of);
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
        let mut sample = self.orders.as_mut().and_then(|orders| orders.sample.as_mut());
        let mut previous = None;
        while let Some(address) = completion.pop() {
            let chunk = memory.number(address).unwrap_or(usize::MAX);
            if let Some(sample) = sample.as_mut().filter(|sample| sample.is_of(chunk)) {
                let frame = memory.address(chunk) + ORDER_ROOM as u64;
                sample.take(memory.before_mut(frame, ORDER_LEN).and_then(|before| answer(before)));
            }
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

    /// Commits frames from position `first` on, with what the driver is to do with each.
    fn order(&mut self, metas: &[TxMeta], first: usize) {
        let Some(Orders { launch, sample, .. }) = &mut self.orders else { return };
        let TransmitHalf { tx, memory, .. } = &mut *self.half;
        let now = MonotonicClock.now();
        launch.iter_mut().for_each(Conversion::refresh);
        let asks = sample.as_ref().and_then(|sample| sample.pick(now, metas.len()));
        for (index, meta) in metas.iter().enumerate() {
            let number = self.frames.first_chunk(first.wrapping_add(index));
            let address = memory.address(number) + ORDER_ROOM as u64;
            // what is late leaves at once
            let waits = launch.as_ref().filter(|_| meta.launch > now);
            let order = Order {
                launch: waits.map(|clock| clock.back(meta.launch)),
                stamp: asks == Some(index),
            };
            if let (true, Some(sample)) = (order.stamp, &mut *sample) {
                sample.ask(number, Asked { socket: 0, due: meta.launch, at: now });
            }
            let before = memory.before_mut(address, ORDER_LEN).filter(|_| !order.is_none());
            let options = match before {
                Some(before) => {
                    before.copy_from_slice(&order.bytes());
                    HAS_ORDER
                }
                None => 0,
            };
            // the ring has as many places as there are chunks
            tx.push(FrameDescriptor { address, len: meta.len.into(), options });
        }
        tx.publish();
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
    match half.facts.orders {
        true => Pieces::behind(ORDER_ROOM, half.memory.chunk()),
        false => Pieces::of(plan.frame_max.size(), half.memory.chunk()),
    }
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
        let Pieces { most, room, .. } = self.frames.pieces();
        // a chunk is longer than the room in it
        &mut self.half.memory.chunks_mut(first, most)[room..]
    }

    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        let first = self.frames.commit(metas, self.caps.frame_max)?;
        if self.orders.is_some() {
            self.order(metas, first);
            return Ok(());
        }
        let TransmitHalf { tx, memory, .. } = &mut *self.half;
        let Pieces { chunk, room, .. } = self.frames.pieces();
        let room = room as u64;
        for (index, meta) in metas.iter().enumerate() {
            let mut number = self.frames.first_chunk(first.wrapping_add(index));
            let mut left = usize::from(meta.len);
            while left > 0 {
                let len = left.min(chunk);
                left -= len;
                let options = if left > 0 { MORE } else { 0 };
                // the ring has as many places as there are chunks
                let address = memory.address(number) + room;
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

    fn card_stamps(&mut self) -> Option<CardStamps> {
        Some(self.orders.as_ref()?.sample.as_ref()?.stamps())
    }

    fn stop(&mut self) -> Result<(), PortError> {
        // what was handed over is sent at once, and nothing of it can be taken back
        if self.frames.len() > 0 {
            self.drain(MonotonicClock.now().saturating_add(LAST))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_engine::port::RxPort;
    use wirebeat_testbed::{Capability, Neighbours, Options as Cable, Testbed, require};
    use wirebeat_units::BufferLen;

    use super::super::XdpOptions;
    use super::*;
    use crate::card::of_test;
    use crate::packet::{Accept, PacketReceive, PacketRx};

    /// A UDP datagram to port 9000 in a frame of `len` bytes without FCS.
    fn datagram(len: usize, numbers: [u16; 2]) -> Vec<u8> {
        let mut frame: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        let [ip, udp] = [14, 34].map(|before| ((len - before) as u16).to_be_bytes());
        frame[..12].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1]);
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, ip[0], ip[1], 0, 0, 0, 0, 64, 17]);
        frame[36..42].copy_from_slice(&[0x23, 0x28, udp[0], udp[1], 0, 0]);
        for (at, number) in [42, 44].into_iter().zip(numbers) {
            frame[at..at + 2].copy_from_slice(&number.to_be_bytes());
        }
        frame
    }

    /// How far the clock by which a copying kernel answers is ahead of ours.
    fn tai_ahead() -> i64 {
        let of = |clock| {
            // SAFETY: integers, for which zero is a value, and the kernel writes to them alone.
            let time = unsafe {
                let mut time: libc::timespec = std::mem::zeroed();
                assert_eq!(libc::clock_gettime(clock, &mut time), 0);
                time
            };
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        of(libc::CLOCK_TAI) - of(libc::CLOCK_MONOTONIC)
    }

    /// A virtual cable waits for no launch time, and its kernel checks orders, and answers by a clock of its own: frames with
    /// orders, with some and without are all the same at the far end, in their order, and those that asked are answered.
    #[test]
    fn frames_with_orders_arrive_byte_for_byte() {
        require!(Capability::NetworkNamespaces);
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
        if version < (6, 14) {
            println!("no launch times before Linux 6.14: this is {release}");
            return;
        }
        let cable = Cable { neighbours: Neighbours::Fixed, ..Cable::default() };
        let bed = Testbed::pair(&cable).unwrap();
        let receive = PacketReceive { accept: Accept::All, ..PacketReceive::default() };
        let open = || PacketRx::open(bed.b.interface(), &receive, None);
        let mut receiver = bed.b.namespace.run(open).unwrap().unwrap();
        let plan = TxPlan { tags: 1, frame_max: BufferLen::new(1514), ..TxPlan::default() };
        for (launch, stamps) in [(false, false), (true, true), (true, false), (false, true)] {
            let ahead = tai_ahead();
            let orders = Orders {
                launch: launch.then(|| of_test(ahead)),
                sample: stamps.then(|| SentSample::new(of_test(ahead))),
                card: None,
            };
            let open = || {
                let options = XdpOptions { orders: true, ..XdpOptions::default() };
                let mut queue = XdpQueue::open(bed.a.interface(), options)?;
                XdpTx::with(&mut queue, &plan, Some(orders))
            };
            let mut sender = bed.a.namespace.run(open).unwrap().unwrap();
            assert_eq!(sender.caps().lead > Nanos::ZERO, launch);
            assert_eq!(sender.caps().mode.contains("launch times by the card"), launch);
            let soon = || MonotonicClock.now().saturating_add(Nanos::from_secs(5));
            let mut sent = Vec::new();
            // more than there are chunks, of which each had orders of other frames before
            for round in 0..60_u16 {
                assert_eq!(sender.reserve(40).unwrap(), 40);
                let mut metas = Vec::new();
                for index in 0..40_u16 {
                    let len = 60 + usize::from(index) * 37 + usize::from(round % 3);
                    sent.push(datagram(len, [round, index]));
                    let frame = &sent[sent.len() - 1];
                    sender.slot(usize::from(index))[..len].copy_from_slice(frame);
                    let now = MonotonicClock.now();
                    let launch = if index % 3 == 0 {
                        Nanos::ZERO
                    } else {
                        now.saturating_add(Nanos::from_micros(200))
                    };
                    metas.push(TxMeta { len: len as u16, launch, ..TxMeta::default() });
                }
                sender.commit(&metas).unwrap();
                sender.flush().unwrap();
                assert!(sender.drain(soon()).unwrap());
            }
            let mut arrived = Vec::new();
            let until = soon();
            while arrived.len() < sent.len() && MonotonicClock.now() < until {
                let take = |arrival: &wirebeat_engine::port::Arrival<'_>| {
                    if arrival.bytes.get(36..38) == Some(&[0x23, 0x28]) {
                        arrived.push(arrival.bytes.to_vec());
                    }
                };
                receiver.receive(until, take).unwrap();
            }
            assert!(arrived == sent, "{} of {} frames, or other ones", arrived.len(), sent.len());
            let mut totals = [TxTotals::default()];
            sender.totals(&mut totals);
            assert_eq!((totals[0].sent.frames, totals[0].failed.frames), (2400, 0));
            let told = sender.card_stamps();
            assert_eq!(told.is_some(), stamps);
            if let Some(told) = told {
                assert!(told.asked > 0 && told.sent == told.asked, "{told:?}");
                let took = told.hand_over.moments;
                assert!(took.min > 0 && took.max < 5_000_000_000, "{took:?}");
            }
        }
    }
}
