//! Two ports joined in memory, with a virtual clock: the whole pipeline in milliseconds, the same every
//! time.
//!
//! What one side commits arrives at the other after the link's delay. The link can lose, duplicate and
//! delay frames by their number, so that tests know exactly what a receiver has to report. No kernel,
//! no privilege, no waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use wirebeat_units::{Nanos, PacketLen};

use crate::port::{
    Arrival, Fate, Fates, PortError, RxCaps, RxPort, TxCaps, TxMeta, TxPort, TxTotals, View,
};
pub use crate::virtual_clock::VirtualClock;

/// What happens on the way. Numbers count the frames of one direction from 1; 0 means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Every frame takes this long.
    pub delay: Nanos,
    /// Every nth frame is lost.
    pub lose_every: u64,
    /// Every nth frame arrives twice.
    pub duplicate_every: u64,
    /// Every nth frame changes places with the next.
    pub swap_every: u64,
}

/// Frames that a direction holds before the sender has to wait.
const CAPACITY: usize = 1 << 20;
/// Frames that can be reserved at once.
const BATCH: usize = 256;
/// The longest frame, without FCS.
const FRAME_MAX: usize = 9014;

#[derive(Debug, Default)]
struct Direction {
    link: Link,
    /// Arrival time and length of the frames on the way.
    frames: VecDeque<(Nanos, usize)>,
    /// Their bytes, one after the other.
    bytes: VecDeque<u8>,
    count: u64,
    /// The frame that waits to change places; empty when none does.
    swapped: Vec<u8>,
}

impl Direction {
    fn carry(&mut self, now: Nanos, bytes: &[u8]) {
        self.count += 1;
        let hits = |every: u64| every > 0 && self.count.is_multiple_of(every);
        let (duplicate, swap) = (hits(self.link.duplicate_every), hits(self.link.swap_every));
        if hits(self.link.lose_every) {
            return;
        }
        if swap && self.swapped.is_empty() && !bytes.is_empty() {
            self.swapped.extend_from_slice(bytes);
            return;
        }
        let at = now.saturating_add(self.link.delay);
        for _ in 0..=usize::from(duplicate) {
            self.frames.push_back((at, bytes.len()));
            self.bytes.extend(bytes);
        }
        if !self.swapped.is_empty() {
            self.frames.push_back((at, self.swapped.len()));
            self.bytes.extend(&self.swapped);
            self.swapped.clear();
        }
    }
}

/// Frames that are being delivered; kept from one delivery to the next for its memory.
#[derive(Debug, Default)]
struct Delivery {
    frames: Vec<(Nanos, usize)>,
    bytes: Vec<u8>,
}

impl Delivery {
    /// Takes the first frames of `direction`, up to [`BATCH`] of them.
    fn take(&mut self, direction: &mut Direction) {
        let some = direction.frames.len().min(BATCH);
        self.frames.clear();
        self.frames.extend(direction.frames.drain(..some));
        let len = self.frames.iter().map(|(_, len)| len).sum::<usize>();
        self.bytes.clear();
        self.bytes.extend(direction.bytes.drain(..len));
    }
}

/// One end of a loopback link.
#[derive(Debug)]
pub struct LoopbackPort {
    /// Where it sends.
    pub tx: LoopbackTx,
    /// Where it receives.
    pub rx: LoopbackRx,
}

/// The sending side of an end.
#[derive(Debug)]
pub struct LoopbackTx {
    caps: TxCaps,
    clock: VirtualClock,
    outward: Arc<Mutex<Direction>>,
    slots: Vec<Vec<u8>>,
    reserved: usize,
    totals: Vec<TxTotals>,
    fates: Fates,
}

/// The receiving side of an end.
#[derive(Debug)]
pub struct LoopbackRx {
    caps: RxCaps,
    inward: Arc<Mutex<Direction>>,
    delivery: Delivery,
}

/// Two ends of a link; what either sends, the other receives.
pub fn pair(clock: &VirtualClock, link: Link) -> (LoopbackPort, LoopbackPort) {
    let direction = || Arc::new(Mutex::new(Direction { link, ..Direction::default() }));
    let (there, back) = (direction(), direction());
    let mode = || "in memory, virtual clock".to_owned();
    let port = |outward: &Arc<Mutex<Direction>>, inward: &Arc<Mutex<Direction>>| LoopbackPort {
        tx: LoopbackTx {
            caps: TxCaps::of_frames("loopback", mode(), FRAME_MAX, BATCH),
            clock: clock.clone(),
            outward: Arc::clone(outward),
            slots: Vec::new(),
            reserved: 0,
            totals: Vec::new(),
            fates: Fates::default(),
        },
        rx: LoopbackRx {
            caps: RxCaps { mode: mode(), view: View::Frame },
            inward: Arc::clone(inward),
            delivery: Delivery::default(),
        },
    };
    (port(&there, &back), port(&back, &there))
}

impl TxPort for LoopbackTx {
    fn caps(&self) -> &TxCaps {
        &self.caps
    }

    fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
        let waiting = self.outward.lock().unwrap_or_else(PoisonError::into_inner).frames.len();
        let room = CAPACITY.saturating_sub(waiting).min(BATCH);
        self.reserved = self.reserved.max(want.min(room));
        while self.slots.len() < self.reserved {
            self.slots.push(vec![0; FRAME_MAX]);
        }
        Ok(self.reserved)
    }

    fn slot(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.reserved, "slot {index} is not reserved");
        &mut self.slots[index]
    }

    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        assert!(metas.len() <= self.reserved, "more frames committed than reserved");
        let now = self.clock.read();
        let mut outward = self.outward.lock().unwrap_or_else(PoisonError::into_inner);
        for (meta, slot) in metas.iter().zip(&self.slots) {
            let tag = meta.tag as usize;
            if self.totals.len() <= tag {
                self.totals.resize(tag + 1, TxTotals::default());
            }
            match slot.get(..usize::from(meta.len)) {
                Some(bytes) => {
                    outward.carry(now, bytes);
                    self.totals[tag].sent.add(meta.counted);
                    self.fates.push(Fate::Sent, 1);
                }
                None => {
                    self.totals[tag].failed.add(meta.counted);
                    self.fates.push(Fate::Failed, 1);
                }
            }
        }
        self.slots.rotate_left(metas.len());
        self.reserved -= metas.len();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        self.fates.take(each);
    }

    fn drain(&mut self, _deadline: Nanos) -> Result<bool, PortError> {
        Ok(true)
    }

    fn totals(&self, totals: &mut [TxTotals]) {
        for (total, mine) in totals.iter_mut().zip(&self.totals) {
            *total += *mine;
        }
    }
}

impl RxPort for LoopbackRx {
    fn caps(&self) -> &RxCaps {
        &self.caps
    }

    fn receive<F>(&mut self, _until: Nanos, mut sink: F) -> Result<usize, PortError>
    where
        F: FnMut(&Arrival<'_>),
    {
        self.delivery.take(&mut self.inward.lock().unwrap_or_else(PoisonError::into_inner));
        let mut rest = self.delivery.bytes.as_slice();
        for (at, len) in &self.delivery.frames {
            let Some((bytes, after)) = rest.split_at_checked(*len) else { break };
            rest = after;
            // what is not padded counts as if it were, as on every engine
            let frame_len = PacketLen::new(*len as u32).buffer().with_fcs();
            sink(&Arrival { at: *at, timed: true, bytes, frame_len, ends: None, hash: None });
        }
        Ok(self.delivery.frames.len())
    }
}
