//! The transmit ring: slots in memory shared with the program, and the words around it.
//!
//! Pure bookkeeping over two mappings: it says how many slots are free and writes slot heads. It makes
//! no system call, so it tests without a kernel program.

use wirebeat_engine::port::{Counted, ExternalPayload, Place, TxMeta};
use wirebeat_units::{FrameLen, Nanos};

use wirebeat_wire::codec::{Marks, SequenceForm, TimeForm};
use wirebeat_wire::stamp::Stamp;

use super::abi::{
    PROBE_MICROSECONDS, PROBE_NANOSECONDS, PROBE_OF_DAY, PROBE_OWN, SLOT_HEAD, Slot, orders,
    progress, slot,
};
use super::mapped::Mapped;

/// The slots and where they stand.
#[derive(Debug)]
pub(crate) struct SlotRing {
    slots: Mapped,
    slot_size: usize,
    /// Number of slots; a power of two.
    count: u64,
    frame_max: usize,
    /// From which tag on fragments are counted that are not counted as their packet: that of the packet, so much
    /// further.
    fragments: u32,
    /// Slots written and handed over.
    head: u64,
    /// Slots reserved after `head`.
    reserved: u64,
}

impl SlotRing {
    /// A ring of `count` slots (a power of two) of `slot_size` bytes each in `slots`, for `tags` tags.
    pub(crate) fn new(slots: Mapped, slot_size: usize, count: u32, tags: u32) -> SlotRing {
        let frame_max = slot_size - SLOT_HEAD;
        let count = u64::from(count);
        SlotRing { slots, slot_size, count, frame_max, fragments: tags, head: 0, reserved: 0 }
    }

    /// Nothing is reserved or written, as at first. The program's own counts have to be zero, too.
    pub(crate) fn rearm(&mut self) {
        (self.head, self.reserved) = (0, 0);
    }

    /// Reserves up to `want` slots, given how many the program has consumed.
    pub(crate) fn reserve(&mut self, want: usize, consumed: u64) -> usize {
        let free = self.count - self.head.saturating_sub(consumed).min(self.count);
        self.reserved = free.min(want as u64).max(self.reserved);
        self.reserved as usize
    }

    /// The frame bytes of reserved slot `index`.
    pub(crate) fn frame(&mut self, index: usize) -> &mut [u8] {
        assert!((index as u64) < self.reserved, "slot {index} is not reserved");
        let at = self.offset(self.head + index as u64) + SLOT_HEAD;
        self.slots.bytes_mut(at, self.frame_max)
    }

    fn offset(&self, position: u64) -> usize {
        (position & (self.count - 1)) as usize * self.slot_size
    }

    /// Writes the heads of the first `metas.len()` reserved slots. The program sees them once
    /// [`SlotRing::head`] is stored into its orders.
    pub(crate) fn commit(&mut self, metas: &[TxMeta]) {
        assert!(metas.len() as u64 <= self.reserved, "more frames committed than reserved");
        for meta in metas {
            let at = self.offset(self.head);
            self.slots.put(at, head(meta, self.fragments));
            self.head += 1;
        }
        self.reserved -= metas.len() as u64;
    }

    /// Slots handed over so far.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// The tag in the slot at `position`, and what the frame is counted as.
    pub(crate) fn counted(&self, position: u64) -> (u32, Counted) {
        let at = self.offset(position);
        let (tag, _) = self.slots.load_pair(at + slot::TAG);
        let (lengths, _) = self.slots.load_pair(at + slot::FRAME_LEN);
        let [a, b, c, d] = lengths.to_ne_bytes();
        let frame = FrameLen::with_fcs(u16::from_ne_bytes([a, b]));
        let frame = Counted::frame(frame, u16::from_ne_bytes([c, d]));
        match tag.checked_sub(self.fragments) {
            Some(tag) => (tag, Counted { packets: 0, fragments: 1, ..frame }),
            None => (tag, frame),
        }
    }
}

/// The head of a slot. Fragments are counted `fragments` tags further than their packets.
fn head(meta: &TxMeta, fragments: u32) -> Slot {
    let (follows, followers) = match meta.place {
        Place::Whole => (0, 0),
        Place::First(followers) => (0, followers),
        Place::Following => (1, 0),
    };
    let ExternalPayload { from, len, at } = meta.external;
    let slot = Slot {
        launch_ns: meta.launch.get(),
        drift_ns: meta.drift.get(),
        tag: meta.tag + if meta.counted.packets == 0 { fragments } else { 0 },
        len: meta.len,
        probe_at: meta.stamp.probe_at,
        checksum_at: meta.stamp.checksum_at,
        identification_at: meta.stamp.identification_at,
        spacing_ns: u32::try_from(meta.spacing.get()).unwrap_or(u32::MAX),
        // A page of the kernel holds no frame that is longer.
        frame_len: meta.counted.bytes as u16,
        payload_len: meta.counted.payload,
        first: meta.stamp.first,
        follows,
        followers,
        apart_at: at,
        apart_from: from,
        apart_len: len,
        ..Slot::default()
    };
    match (Places::of(&meta.stamp), meta.number) {
        (Some(Places { sequence_at, time_at, form }), _) => {
            Slot { sequence_at, time_at, form, ..slot }
        }
        // the number takes the room of both places
        (None, Some(number)) => {
            let [a, b, c, d] = number.to_ne_bytes();
            let (sequence_at, time_at) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
            Slot { sequence_at, time_at, form: PROBE_OWN, numbered: 1, ..slot }
        }
        (None, None) => Slot { form: PROBE_OWN, ..slot },
    }
}

/// Where number and time of a probe lie, from the start of the frame.
struct Places {
    sequence_at: u16,
    time_at: u16,
    form: u8,
}

impl Places {
    /// `None` for Wirebeat's own, whose places the program knows.
    fn of(stamp: &Stamp) -> Option<Places> {
        if stamp.marks == Marks::WIREBEAT {
            return None;
        }
        let from = |at: u16| stamp.probe_at.saturating_add(at);
        // The program counts with 32 bits: a high word stays zero.
        let (SequenceForm::Word { at } | SequenceForm::Halves { low_at: at, .. }) =
            stamp.marks.sequence;
        let (time_at, form) = match stamp.marks.time {
            TimeForm::None => (0, PROBE_NANOSECONDS),
            TimeForm::Nanoseconds { at } => (from(at), PROBE_NANOSECONDS),
            TimeForm::Microseconds { at } => (from(at), PROBE_MICROSECONDS),
            TimeForm::OfDay { at } => (from(at), PROBE_OF_DAY),
        };
        Some(Places { sequence_at: from(at), time_at, form })
    }
}

/// How the slot that is next in line is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is waiting.
    Nothing,
    /// This is its launch time.
    At(Nanos),
}

/// A reader's view of the ring, for the thread that runs the program.
#[derive(Debug)]
pub(crate) struct Outlook<'a> {
    pub(crate) ring: &'a RingView,
    pub(crate) orders: &'a Mapped,
    pub(crate) progress: &'a Mapped,
}

/// A second mapping of the slots, to look at launch times from another thread.
#[derive(Debug)]
pub(crate) struct RingView {
    pub(crate) slots: Mapped,
    pub(crate) slot_size: usize,
    pub(crate) count: u64,
    pub(crate) repeat: bool,
}

impl RingView {
    fn launch(&self, position: u64) -> u64 {
        let at = (position & (self.count - 1)) as usize * self.slot_size;
        self.slots.load(at + slot::LAUNCH_NS)
    }
}

impl Outlook<'_> {
    /// The launch time of the frame `ahead` places after the next one; `None` when there is none.
    pub(crate) fn launch(&self, ahead: u64) -> Option<Nanos> {
        let consumed = self.progress.load(progress::CONSUMED);
        if self.orders.load(orders::STOP) != 0 {
            return None;
        }
        if !self.ring.repeat {
            let position = consumed + ahead;
            return (position < self.orders.load(orders::HEAD))
                .then(|| Nanos::new(self.ring.launch(position)));
        }
        if consumed + ahead >= self.orders.load(orders::LIMIT) {
            return None;
        }
        let slots = self.orders.load(orders::ROUND_SLOTS).max(1);
        let slot = self.progress.load(progress::SLOT) + ahead;
        let rounds = slot / slots;
        let start =
            self.progress.load(progress::ROUND_START) + rounds * self.orders.load(orders::ROUND_NS);
        Some(Nanos::new(start + self.ring.launch(slot % slots)))
    }

    /// The launch time of the next frame.
    pub(crate) fn next(&self) -> Next {
        self.launch(0).map_or(Next::Nothing, Next::At)
    }
}

/// A ring without a program, in memory that no kernel map backs.
#[cfg(test)]
pub(super) mod testing {
    use std::os::fd::AsFd;

    use super::*;

    pub(in super::super) struct World {
        pub(in super::super) ring: SlotRing,
        view: RingView,
        orders: Mapped,
        pub(in super::super) progress: Mapped,
    }

    fn memory(len: usize) -> Mapped {
        let file = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, len as u64).unwrap();
        Mapped::new(file.as_fd(), len).unwrap()
    }

    impl World {
        fn new(slots: u32, repeat: bool) -> World {
            let slot_size = SLOT_HEAD + 64;
            let len = (slots as usize * slot_size).next_multiple_of(4096);
            let file = rustix::fs::memfd_create("slots", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            rustix::fs::ftruncate(&file, len as u64).unwrap();
            let map = || Mapped::new(file.as_fd(), len).unwrap();
            World {
                ring: SlotRing::new(map(), slot_size, slots, 8),
                view: RingView { slots: map(), slot_size, count: u64::from(slots), repeat },
                orders: memory(4096),
                progress: memory(4096),
            }
        }

        pub(in super::super) fn stream(slots: u32) -> World {
            World::new(slots, false)
        }

        /// A round that is repeated from `start` on.
        pub(in super::super) fn repeating(launches: &[u64], length_ns: u64, limit: u64) -> World {
            let mut world = World::new(64, true);
            for &launch in launches {
                world.push(Nanos::new(launch));
            }
            world.orders.store(orders::ROUND_SLOTS, launches.len() as u64);
            world.orders.store(orders::ROUND_NS, length_ns);
            world.orders.store(orders::LIMIT, limit);
            world
        }

        /// Commits a frame with this launch time.
        pub(in super::super) fn push(&mut self, launch: Nanos) {
            let consumed = self.progress.load(progress::CONSUMED);
            assert!(self.ring.reserve(1, consumed) > 0, "the ring is full");
            let meta = TxMeta {
                len: 60,
                counted: Counted::frame(FrameLen::MIN, 18),
                tag: 7,
                launch,
                ..TxMeta::default()
            };
            self.ring.commit(&[meta]);
            self.orders.store(orders::HEAD, self.ring.head());
        }

        pub(super) fn orders_for_tests(&self) -> &Mapped {
            &self.orders
        }

        pub(in super::super) fn outlook(&self) -> Outlook<'_> {
            Outlook { ring: &self.view, orders: &self.orders, progress: &self.progress }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::World;
    use super::*;

    #[test]
    fn a_full_ring_gives_no_slots_until_some_are_consumed() {
        let mut world = World::stream(4);
        for launch in 1..=4 {
            world.push(Nanos::new(launch));
        }
        assert_eq!(world.ring.reserve(10, 0), 0);
        world.progress.store(progress::CONSUMED, 3);
        assert_eq!(world.ring.reserve(10, 3), 3);
        assert_eq!(world.outlook().launch(0), Some(Nanos::new(4)));
        assert_eq!(world.outlook().launch(1), None);
    }

    #[test]
    fn slots_that_stay_reserved_move_to_the_front() {
        let mut world = World::stream(8);
        assert_eq!(world.ring.reserve(3, 0), 3);
        for index in 0..3 {
            world.ring.frame(index)[0] = index as u8;
        }
        world.ring.commit(&[TxMeta { len: 1, ..TxMeta::default() }]);
        assert_eq!((world.ring.frame(0)[0], world.ring.frame(1)[0]), (1, 2));
        assert_eq!(world.ring.reserve(1, 0), 2);
    }

    #[test]
    fn slots_are_used_again_after_a_lap() {
        let mut world = World::stream(4);
        for launch in 0..100u64 {
            world.push(Nanos::new(launch));
            assert_eq!(world.outlook().launch(0), Some(Nanos::new(launch)));
            assert_eq!(world.ring.counted(launch), (7, Counted::frame(FrameLen::MIN, 18)));
            world.progress.store(progress::CONSUMED, launch + 1);
        }
        assert_eq!(world.outlook().next(), Next::Nothing);
    }

    #[test]
    fn a_repeating_ring_looks_into_later_rounds() {
        let world = World::repeating(&[0, 300, 700], 1000, 7);
        world.progress.store(progress::ROUND_START, 5000);
        let at = |ahead| world.outlook().launch(ahead).map(Nanos::get);
        assert_eq!([at(0), at(2), at(3), at(5)], [Some(5000), Some(5700), Some(6000), Some(6700)]);
        assert_eq!([at(6), at(7)], [Some(7000), None]);
        world.orders_for_tests().store(orders::STOP, 1);
        assert_eq!(world.outlook().launch(0), None);
    }
}
