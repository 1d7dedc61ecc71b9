//! The threads that prepare: of a buffer they make batches, which say when each record is due and where its data is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rtrb::{Producer, PushError};
use wirebeat_engine::drive::playback::{Batch, Chunk, Entry};
use wirebeat_traffic::distribution::draw::Key;
use wirebeat_traffic::scenario::replay::{Numbers, OutOfOrder};
use wirebeat_units::{Factor, Nanos};

use super::buffers::{Head, Work};
use super::{LOOK, Recording};

/// Records of a batch.
const BATCH: usize = 1024;
/// How long a worker waits for room in a queue until it looks again.
const FULL: Duration = Duration::from_micros(200);

/// A worker.
pub(super) struct Worker {
    /// One for each core.
    queues: Vec<Producer<Batch>>,
    /// Whether they take records in turn; else each device, or the flow, has one.
    spread: bool,
    from_reader: Receiver<Work>,
    halt: Arc<AtomicBool>,
    times: Times,
    delays: Option<Delays>,
    /// Whether numbers in probes follow the order of records.
    numbered: bool,
    start: Nanos,
    stop: Nanos,
}

/// How much later than they should records leave.
#[derive(Clone, Copy)]
struct Delays {
    key: Key,
    of: OutOfOrder,
}

/// When records are due.
#[derive(Clone, Copy)]
enum Times {
    Recorded(Factor),
    Every(Nanos),
}

impl Worker {
    /// One of those who work for a recording: it fills `queues` with what comes from the reader.
    pub(super) fn new(
        recording: &Recording,
        queues: Vec<Producer<Batch>>,
        spread: bool,
        from_reader: Receiver<Work>,
        halt: Arc<AtomicBool>,
    ) -> Worker {
        let replay = &recording.replay;
        // packets of copies have their speed already, and their starts have none
        let speed = if recording.copies.is_some() { Factor::ONE } else { replay.speed };
        let times = replay.tight_loop.map_or(Times::Recorded(speed), Times::Every);
        let delays = replay.out_of_order.map(|of| Delays { key: recording.delays, of });
        let numbered = replay.out_of_order.is_some_and(|of| of.numbers == Numbers::Records);
        let (start, stop) = (recording.start, recording.stop);
        Worker { queues, spread, from_reader, halt, times, delays, numbered, start, stop }
    }

    /// Works until the reader has no more, nothing more is due, or it is told to halt.
    pub(super) fn run(mut self) {
        while !self.halt.load(Ordering::Relaxed) {
            match self.from_reader.recv_timeout(LOOK) {
                Ok(work) => {
                    if self.work(work).is_none() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Makes batches of a buffer; `None` when nobody wants more.
    fn work(&mut self, Work { filled, number, most, later_ns, before }: Work) -> Option<()> {
        let chunk: Arc<dyn Chunk> = Arc::clone(&filled) as Arc<dyn Chunk>;
        let empty = || Vec::with_capacity(BATCH);
        let mut batches: Vec<Vec<Entry>> = self.queues.iter().map(|_| empty()).collect();
        let (mut number, mut over) = (number, false);
        for &Head { time_ns, start, sub_flow, tag, len, sum, sequence } in
            filled.buffer.heads.iter().take(most)
        {
            let due = self.due(time_ns.saturating_add(later_ns), number);
            if due >= self.stop {
                over = true;
                break;
            }
            let delay = self.delays.and_then(|delays| delays.of(number));
            let turn = if self.spread { number } else { tag.into() };
            let core = self.core(turn, delay.is_some());
            let entry = Entry {
                due,
                at: due.saturating_add(delay.unwrap_or(Nanos::ZERO)),
                number,
                start,
                sub_flow,
                tag,
                len,
                sum,
                sequence: self.numbered.then(|| {
                    let before = before.get(usize::from(tag)).copied().unwrap_or(0);
                    before.wrapping_add(sequence)
                }),
            };
            let batch = batches.get_mut(core)?;
            batch.push(entry);
            if batch.len() == BATCH {
                let entries = std::mem::replace(batch, empty());
                self.push(core, Batch { entries, chunk: Arc::clone(&chunk), last: false })?;
            }
            number += 1;
        }
        for (core, entries) in batches.into_iter().enumerate() {
            self.push(core, Batch { entries, chunk: Arc::clone(&chunk), last: true })?;
        }
        (!over).then_some(())
    }

    /// Which core sends a record: those of one turn leave by the same one, in their order.
    #[inline]
    fn core(&self, turn: u64, delayed: bool) -> usize {
        let all = self.queues.len().max(1);
        let own = self.delays.map_or(0, |delays| usize::from(delays.of.cores)).min(all - 1);
        let of = |cores: usize| (turn % cores as u64) as usize;
        match (own, delayed) {
            (0, _) => of(all),
            (own, true) => all - own + of(own),
            (own, false) => of(all - own),
        }
    }

    #[inline]
    fn due(&self, time_ns: u64, number: u64) -> Nanos {
        let after = match self.times {
            Times::Recorded(Factor::ONE) => time_ns,
            Times::Recorded(speed) => speed.divide(time_ns.into()),
            Times::Every(gap) => gap.get().saturating_mul(number),
        };
        self.start.saturating_add(Nanos::new(after))
    }

    /// Puts a batch into the queue of a core, when there is room.
    fn push(&mut self, core: usize, batch: Batch) -> Option<()> {
        let queue = self.queues.get_mut(core)?;
        let mut batch = batch;
        loop {
            if self.halt.load(Ordering::Relaxed) || queue.is_abandoned() {
                return None;
            }
            match queue.push(batch) {
                Ok(()) => return Some(()),
                Err(PushError::Full(back)) => batch = back,
            }
            thread::sleep(FULL);
        }
    }
}

impl Delays {
    /// How much later record `number` leaves, if it does.
    #[inline]
    fn of(&self, number: u64) -> Option<Nanos> {
        let mut draw = self.key.draw(number);
        let later = draw.unit() < self.of.probability;
        later.then(|| Nanos::new((draw.positive_unit() * self.of.window.get() as f64) as u64))
    }
}
