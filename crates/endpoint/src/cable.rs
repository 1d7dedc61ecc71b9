//! A link in memory between two ports, on a virtual clock: with a delay, a rate, a queue, and losses by a seed.
//!
//! What is sent takes the time that its rate needs, waits in a queue that has an end, travels, and arrives in order; a seed decides what is
//! lost, so that a run is the same every time. Nobody waits in here: the clock is moved by `step` to what happens next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wirebeat_engine::clock::Clock;
use wirebeat_engine::loopback::VirtualClock;
use wirebeat_engine::port::{
    Arrival, PortError, RxCaps, RxPort, TxCaps, TxMeta, TxPort, TxTotals, View,
};
use wirebeat_units::{BitRate, Nanos, PacketLen};

/// How its ports work, for the report.
const MODE: &str = "in memory, virtual clock";
/// Frames that can be reserved at once.
const BATCH: usize = 64;
/// The longest frame, without FCS.
const FRAME_MAX: usize = 9018;
/// What a frame takes on a line beside its bytes: preamble, FCS and the gap to the next (IEEE 802.3 §3.1, §4.4.2).
const OVERHEAD: u64 = 8 + 4 + 12;

/// What happens to frames on the way, in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// Every frame travels so long.
    pub delay: Nanos,
    /// How fast the line is; `None`: frames take no time to be sent.
    pub rate: Option<BitRate>,
    /// How many bytes may wait for the line; more are dropped. Only with a rate.
    pub queue: u64,
    /// The share of frames that is lost, of 1.
    pub loss: f64,
    /// Decides which.
    pub seed: u64,
}

impl Default for Way {
    fn default() -> Way {
        Way { delay: Nanos::from_micros(10), rate: None, queue: 1 << 20, loss: 0.0, seed: 1 }
    }
}

/// Who sees each frame that leaves an end, or arrives there: when, and its bytes.
pub type Tap = Box<dyn FnMut(Nanos, &[u8]) + Send>;

struct Direction {
    way: Way,
    /// When the line is free again.
    free: Nanos,
    frames: VecDeque<(Nanos, Vec<u8>)>,
    /// Buffers that were used.
    spare: Vec<Vec<u8>>,
    draws: u64,
    sent: u64,
    lost: u64,
    dropped: u64,
}

impl Direction {
    fn new(way: Way) -> Arc<Mutex<Direction>> {
        Arc::new(Mutex::new(Direction {
            way,
            free: Nanos::ZERO,
            frames: VecDeque::new(),
            spare: Vec::new(),
            draws: 0,
            sent: 0,
            lost: 0,
            dropped: 0,
        }))
    }

    fn carry(&mut self, now: Nanos, bytes: &[u8]) {
        self.sent += 1;
        let mut leaves = now;
        if let Some(rate) = self.way.rate {
            let waiting = self.free.saturating_sub(now);
            let per_second = rate.0.max(1);
            if u128::from(waiting.get()) * u128::from(per_second) / 8_000_000_000
                > u128::from(self.way.queue)
            {
                self.dropped += 1;
                return;
            }
            let bits = (bytes.len() as u64 + OVERHEAD) * 8;
            let takes = u128::from(bits) * 1_000_000_000 / u128::from(per_second);
            self.free = self.free.max(now).saturating_add(Nanos::new(takes as u64));
            leaves = self.free;
        }
        self.draws += 1;
        // 53 bits of a mixed counter, as a share of 1
        let share = (mix(self.way.seed ^ mix(self.draws)) >> 11) as f64 / (1_u64 << 53) as f64;
        if share < self.way.loss {
            self.lost += 1;
            return;
        }
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.clear();
        frame.extend_from_slice(bytes);
        self.frames.push_back((leaves.saturating_add(self.way.delay), frame));
    }
}

/// A mixer of 64 bits (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn lock(direction: &Mutex<Direction>) -> MutexGuard<'_, Direction> {
    direction.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of the frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Sent.
    pub sent: u64,
    /// Lost by the draw.
    pub lost: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
}

/// The link.
pub struct Cable {
    directions: [Arc<Mutex<Direction>>; 2],
}

/// What an end of a [`Cable`] sends by, and receives by.
pub type End = (CableTx, CableRx);

impl Cable {
    /// A link and both its ends; `there` is the way from the first to the second.
    pub fn new(clock: &VirtualClock, there: Way, back: Way) -> (Cable, End, End) {
        let directions = [Direction::new(there), Direction::new(back)];
        let end = |out: usize| {
            let tx = CableTx {
                caps: TxCaps::of_frames("loopback", MODE.to_owned(), FRAME_MAX, BATCH),
                clock: clock.of_onlooker(),
                outward: Arc::clone(&directions[out]),
                slots: vec![vec![0; FRAME_MAX]; BATCH],
                reserved: 0,
                totals: TxTotals::default(),
                tap: None,
            };
            let rx = CableRx {
                caps: RxCaps { mode: MODE.to_owned(), view: View::Frame },
                clock: clock.of_onlooker(),
                inward: Arc::clone(&directions[1 - out]),
                tap: None,
            };
            (tx, rx)
        };
        let ends = (end(0), end(1));
        (Cable { directions }, ends.0, ends.1)
    }

    /// When the next frame arrives at either end.
    pub fn next_arrival(&self) -> Option<Nanos> {
        self.directions.iter().filter_map(|way| lock(way).frames.front().map(|(at, _)| *at)).min()
    }

    /// What became of the frames of both directions.
    pub fn carried(&self) -> [Carried; 2] {
        let of = |direction: &Arc<Mutex<Direction>>| {
            let Direction { sent, lost, dropped, .. } = *lock(direction);
            Carried { sent, lost, dropped }
        };
        let [there, back] = &self.directions;
        [of(there), of(back)]
    }
}

/// Sends into a cable.
pub struct CableTx {
    caps: TxCaps,
    clock: VirtualClock,
    outward: Arc<Mutex<Direction>>,
    slots: Vec<Vec<u8>>,
    reserved: usize,
    totals: TxTotals,
    tap: Option<Tap>,
}

impl CableTx {
    /// Has `tap` see each frame that leaves.
    pub fn tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }
}

impl std::fmt::Debug for CableTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CableTx").field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl TxPort for CableTx {
    fn caps(&self) -> &TxCaps {
        &self.caps
    }

    fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
        self.reserved = self.reserved.max(want.min(BATCH));
        Ok(self.reserved)
    }

    fn slot(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.reserved, "slot {index} is not reserved");
        self.slots.get_mut(index).map(Vec::as_mut_slice).unwrap_or_default()
    }

    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        let now = self.clock.now();
        let mut outward = lock(&self.outward);
        for (meta, slot) in metas.iter().zip(&self.slots) {
            let bytes = slot.get(..usize::from(meta.len)).unwrap_or_default();
            if let Some(tap) = &mut self.tap {
                tap(now, bytes);
            }
            outward.carry(now, bytes);
            self.totals.sent.add(meta.counted);
        }
        self.slots.rotate_left(metas.len());
        self.reserved = self.reserved.saturating_sub(metas.len());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn drain(&mut self, _deadline: Nanos) -> Result<bool, PortError> {
        Ok(true)
    }

    fn totals(&self, totals: &mut [TxTotals]) {
        if let Some(first) = totals.first_mut() {
            *first += self.totals;
        }
    }
}

/// Receives from a cable.
pub struct CableRx {
    caps: RxCaps,
    clock: VirtualClock,
    inward: Arc<Mutex<Direction>>,
    tap: Option<Tap>,
}

impl CableRx {
    /// Has `tap` see each frame that arrives.
    pub fn tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }
}

impl std::fmt::Debug for CableRx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CableRx").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl RxPort for CableRx {
    fn caps(&self) -> &RxCaps {
        &self.caps
    }

    fn receive<F>(&mut self, _until: Nanos, mut sink: F) -> Result<usize, PortError>
    where
        F: FnMut(&Arrival<'_>),
    {
        let now = self.clock.now();
        let mut count = 0;
        while count < BATCH {
            let next = {
                let mut inward = lock(&self.inward);
                match inward.frames.front() {
                    Some((at, _)) if *at <= now => inward.frames.pop_front(),
                    _ => None,
                }
            };
            let Some((at, bytes)) = next else { break };
            if let Some(tap) = &mut self.tap {
                tap(at, &bytes);
            }
            let frame_len = PacketLen::new(bytes.len() as u32).buffer().with_fcs();
            sink(&Arrival { at, timed: true, bytes: &bytes, frame_len, ends: None, hash: None });
            lock(&self.inward).spare.push(bytes);
            count += 1;
        }
        Ok(count)
    }
}
