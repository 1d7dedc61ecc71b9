//! The transmit ring: slots in memory shared with the program, and the words around it.
//!
//! Pure bookkeeping over two mappings: it says how many slots are free and writes slot heads. It makes
//! no system call, so it tests without a kernel program.

use wirebeat_engine::port::TxMeta;
use wirebeat_units::Nanos;

use super::abi::{SLOT_HEAD, orders, progress};
use super::mapped::Mapped;

/// The slots and where they stand.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Mapped,
    slot_size: usize,
    /// Number of slots; a power of two.
    count: u64,
    frame_max: usize,
    /// Slots written and handed over.
    head: u64,
    /// Slots reserved after `head`.
    reserved: u64,
}

impl Ring {
    /// A ring of `count` slots (a power of two) of `slot_size` bytes each in `slots`.
    pub(crate) fn new(slots: Mapped, slot_size: usize, count: u32) -> Ring {
        let frame_max = slot_size - SLOT_HEAD;
        Ring { slots, slot_size, count: u64::from(count), frame_max, head: 0, reserved: 0 }
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
    /// [`Ring::head`] is stored into its orders.
    pub(crate) fn commit(&mut self, metas: &[TxMeta]) {
        assert!(metas.len() as u64 <= self.reserved, "more frames committed than reserved");
        for meta in metas {
            let at = self.offset(self.head);
            write_head(self.slots.bytes_mut(at, SLOT_HEAD), meta);
            self.head += 1;
        }
        self.reserved -= metas.len() as u64;
    }

    /// Slots handed over so far.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// The tag in the slot at `position`.
    pub(crate) fn tag(&self, position: u64) -> u32 {
        self.slots.load(self.offset(position) + 16) as u32
    }
}

/// The fields of `struct wb_slot`.
fn write_head(head: &mut [u8], meta: &TxMeta) {
    let Ok(head) = <&mut [u8; SLOT_HEAD]>::try_from(head) else { return };
    head[0..8].copy_from_slice(&meta.launch.get().to_ne_bytes());
    head[8..16].copy_from_slice(&meta.drift.get().to_ne_bytes());
    head[16..20].copy_from_slice(&meta.tag.to_ne_bytes());
    head[20..22].copy_from_slice(&meta.len.to_ne_bytes());
    head[22..24].copy_from_slice(&meta.stamp.probe_at.to_ne_bytes());
    head[24..26].copy_from_slice(&meta.stamp.checksum_at.to_ne_bytes());
    head[26..28].copy_from_slice(&meta.stamp.identification_at.to_ne_bytes());
    head[28..32].fill(0);
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
        self.slots.load((position & (self.count - 1)) as usize * self.slot_size)
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
