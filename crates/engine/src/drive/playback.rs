//! What was recorded and is sent again: records come in batches from those who read them, in the order of their
//! times, and are taken like the departures of a schedule.
//!
//! A batch refers to the data of its records in a buffer that it keeps alive, so nothing is copied until a frame is
//! built. Batches come through a queue without locks, one for each worker; workers take turns by chunks, so that a
//! core knows whose turn it is without asking. This file does not know where records come from.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rtrb::Consumer;
use wirebeat_traffic::program::Recorded;
use wirebeat_traffic::schedule::Departure;
use wirebeat_units::Nanos;

use super::delayed::Delayed;
use super::disorder::{Disorder, DisorderCounter};
use super::gates::{Gates, Passage};

/// In the index of a departure: the record left later than its turn.
const DELAYED: u64 = 1 << 63;
/// How often a patient one looks.
const LOOK: Duration = Duration::from_micros(50);

/// Data that was read, and stays as it is as long as somebody refers to it.
pub trait Chunk: fmt::Debug + Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// Where they begin in the memory that the port shares ([`TxCaps::external`](crate::port::TxCaps::external)), if they are in
    /// there.
    fn shared_at(&self) -> Option<u32> {
        None
    }
}

/// A record that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When its turn is, from the start of the run.
    pub due: Nanos,
    /// When it leaves: then, or later.
    pub at: Nanos,
    /// Its number in the flow, over all cores.
    pub number: u64,
    /// Where its data begins in the chunk.
    pub start: u32,
    /// The number of its sub-flow.
    pub sub_flow: u32,
    /// What it is counted by.
    pub tag: u16,
    /// Bytes of its data.
    pub len: u16,
    /// Their sum as checksums want it, where somebody took it when they came by.
    pub sum: Option<u16>,
    /// The sequence number that its probe carries; `None`: the next one when it leaves.
    pub sequence: Option<u32>,
}

/// A record that was taken, and what it is sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found<'a> {
    pub(super) recorded: Recorded<'a>,
    /// Where its data is in the memory that the port shares.
    pub(super) shared_at: Option<u32>,
    /// The sequence number that it was given.
    pub(super) sequence: Option<u32>,
}

impl Entry {
    /// The record, whose data is in `chunk`.
    #[inline]
    fn recorded<'a>(&self, chunk: &'a dyn Chunk) -> Option<Recorded<'a>> {
        let start = self.start as usize;
        let data = chunk.bytes().get(start..start + usize::from(self.len))?;
        let Entry { number, tag, sum, .. } = *self;
        Some(Recorded { number, sub_flow: self.sub_flow.into(), tag, data, sum })
    }
}

/// Records of one chunk, in the order in which they are due.
#[derive(Debug)]
pub struct Batch {
    /// The records.
    pub entries: Vec<Entry>,
    /// Where their data is.
    pub chunk: Arc<dyn Chunk>,
    /// Whether the next batch is another worker's.
    pub last: bool,
}

/// What others see of a playback, and the one who reads.
#[derive(Debug, Default)]
pub struct PlaybackCounts {
    /// Records that had been due already when they came: the reader could not keep up.
    pub starved: AtomicU64,
    /// Records that were to leave later and did not, because too many others waited.
    pub undelayed: AtomicU64,
    /// Records that were not sent, because their flow paused or their sub-flow was none of those that are sent.
    pub passed_over: AtomicU64,
    /// What left out of its order, of all cores that have ended.
    pub disorder: Mutex<Disorder>,
}

/// The records that one core sends of a flow.
#[derive(Debug)]
pub struct Playback {
    flow: u32,
    stream: u32,
    /// One for each worker.
    queues: Vec<Consumer<Batch>>,
    /// Whose turn it is.
    turn: usize,
    /// Those that were not given up yet, and the number of the first record of the first, as this core counts.
    batches: VecDeque<Batch>,
    first: u64,
    /// Which of the batches the next record is in, where in that, and its number as this core counts.
    batch: usize,
    place: usize,
    next: u64,
    /// Records before this one were handed over, and nobody looks at them any more.
    settled: u64,
    /// Data that the port may take yet, and how many frames it is done with when it is done with that.
    in_use: VecDeque<(u64, Arc<dyn Chunk>)>,
    /// Frames that were handed over.
    handed: u64,
    /// Nothing is due at or after this.
    stop: Nanos,
    /// Which records are sent.
    gates: Gates,
    counts: Arc<PlaybackCounts>,
    /// It waits for records that are not there yet.
    patient: bool,
    /// Whether records have times to be late by.
    timed: bool,
    /// There was nothing when it looked last.
    waited: bool,
    /// Records that leave later than their turn.
    delayed: Delayed,
    /// How far out of their order they leave, where some are to.
    disorder: Option<Box<DisorderCounter>>,
    /// Whether the next record is one of those.
    is_delayed: bool,
    /// The record whose turn it is may not be sent, and that may change.
    held_back: bool,
}

impl Playback {
    /// Of the flow and the stream with these numbers, from these queues, until `stop`.
    pub fn new(
        (flow, stream): (u32, u32),
        queues: Vec<Consumer<Batch>>,
        stop: Nanos,
        counts: Arc<PlaybackCounts>,
    ) -> Playback {
        Playback {
            flow,
            stream,
            queues,
            turn: 0,
            batches: VecDeque::new(),
            first: 0,
            batch: 0,
            place: 0,
            next: 0,
            settled: 0,
            in_use: VecDeque::new(),
            handed: 0,
            stop,
            gates: Gates::default(),
            counts,
            patient: false,
            timed: true,
            waited: false,
            delayed: Delayed::default(),
            disorder: None,
            is_delayed: false,
            held_back: false,
        }
    }

    /// Whether it waits for records that are not there yet: where a clock goes on only when somebody waits for it,
    /// they would come too late.
    #[must_use]
    pub fn patient(mut self, patient: bool) -> Playback {
        self.patient = patient;
        self
    }

    /// Whether records have times to be late by.
    #[must_use]
    pub fn timed(mut self, timed: bool) -> Playback {
        self.timed = timed;
        self
    }

    /// Whether some records leave out of their order, so that it is counted how far.
    #[must_use]
    pub fn out_of_order(mut self, out_of_order: bool) -> Playback {
        self.disorder = out_of_order.then(Box::default);
        self
    }

    /// Which records are sent.
    #[must_use]
    pub fn gated(mut self, gates: Gates) -> Playback {
        self.gates = gates;
        self
    }

    /// The flow that it is of.
    pub(super) fn flow(&self) -> u32 {
        self.flow
    }

    /// Whether records may come that are not here yet, or are not sent as things stand.
    pub(super) fn is_waiting(&self) -> bool {
        self.held_back || self.batch >= self.batches.len() && !self.has_ended()
    }

    /// Whether nothing may leave before what is not here yet.
    pub(super) fn holds_up(&self) -> bool {
        self.patient && self.is_waiting()
    }

    /// Whether nothing comes any more.
    fn has_ended(&self) -> bool {
        // A worker whose queue is at its end will never fill it again, and no other has its turn.
        match self.queues.get(self.turn) {
            Some(queue) => queue.is_abandoned() && queue.is_empty(),
            None => true,
        }
    }

    /// Nothing is due at or after `at`.
    pub(super) fn end_at(&mut self, at: Nanos) {
        self.stop = self.stop.min(at);
    }

    /// From `at` on records of sub-flows below a number are sent, and nothing that was planned for later holds.
    pub(super) fn change(&mut self, at: Nanos, sub_flows: u32) {
        self.gates.change(at, sub_flows);
        self.held_back = false;
    }

    /// Nothing changes any more.
    pub(super) fn settle_gates(&mut self) {
        // what is looked at from here on does not leave
        self.tell_disorder();
        self.gates.settle();
        self.held_back = false;
    }

    /// Adds what left out of its order to what others see.
    fn tell_disorder(&mut self) {
        if let Some(counter) = self.disorder.take() {
            let mut all = self.counts.disorder.lock().unwrap_or_else(PoisonError::into_inner);
            all.merge(&counter.found());
        }
    }

    /// The record whose turn it is.
    #[inline]
    fn entry(&mut self, elapsed: Nanos) -> Option<Entry> {
        if self.gates.are_open() { self.here(elapsed) } else { self.gated_entry(elapsed) }
    }

    /// The next record, whether or not it is sent.
    #[inline]
    fn here(&mut self, elapsed: Nanos) -> Option<Entry> {
        let here = self.batches.get(self.batch).and_then(|batch| batch.entries.get(self.place));
        here.copied().or_else(|| self.look_further(elapsed))
    }

    /// The record whose turn it is where not all are sent.
    fn gated_entry(&mut self, elapsed: Nanos) -> Option<Entry> {
        self.held_back = false;
        loop {
            let entry = self.here(elapsed)?;
            if entry.due >= self.stop {
                return Some(entry);
            }
            match self.gates.passage(entry.due, entry.sub_flow, elapsed) {
                Passage::Open => return Some(entry),
                Passage::NotYetKnown => {
                    self.held_back = true;
                    return None;
                }
                Passage::Shut => {}
            }
            self.counts.passed_over.fetch_add(1, Ordering::Relaxed);
            self.pass();
        }
    }

    /// The next record, which stays the next. `elapsed` is the time since the start of the run.
    #[inline]
    pub(super) fn peek(&mut self, elapsed: Nanos) -> Option<Departure> {
        let entry = self.entry(elapsed);
        match entry {
            Some(entry) if self.delayed.is_empty() && entry.at == entry.due => {
                self.is_delayed = false;
                self.departure(entry.at, self.next, entry.tag)
            }
            _ => self.peek_delayed(entry, elapsed),
        }
    }

    /// The same where some records leave later than their turn; `entry` is the one whose turn it is.
    fn peek_delayed(&mut self, entry: Option<Entry>, elapsed: Nanos) -> Option<Departure> {
        let mut entry = entry;
        loop {
            let first = self.delayed.first();
            let leaves = |first: Nanos| match entry {
                Some(entry) => first <= entry.due,
                // What is not read yet may be due before it.
                None => !self.is_waiting() || first <= elapsed,
            };
            if let Some((at, place)) = first.filter(|(first, _)| leaves(*first)) {
                self.is_delayed = true;
                let tag = self.delayed.get(place)?.0.tag;
                return self.departure(at, DELAYED | u64::from(place), tag);
            }
            let now = entry?;
            let later = now.at > now.due
                && now.at < self.stop
                && self.gates.let_through(now.at, now.sub_flow);
            if !later || !self.delay(now) {
                self.is_delayed = false;
                return self.departure(now.due, self.next, now.tag);
            }
            self.pass();
            entry = self.entry(elapsed);
        }
    }

    fn departure(&self, at: Nanos, index: u64, tag: u16) -> Option<Departure> {
        let (flow, stream) = (self.flow, self.stream);
        (at < self.stop).then_some(Departure { at, flow, stream, index, tag: tag.into(), part: 0 })
    }

    /// Lets the record whose turn it is wait; says whether there was room. Without, it leaves in its turn.
    fn delay(&mut self, entry: Entry) -> bool {
        let Some(batch) = self.batches.get_mut(self.batch) else { return false };
        let when = (entry.at, entry.at.saturating_sub(entry.due));
        let record = entry.recorded(batch.chunk.as_ref());
        if let Some(place) =
            record.and_then(|record| self.delayed.wait(when, record, entry.sequence))
        {
            if let Some(counter) = &mut self.disorder {
                counter.wait(entry.number, place);
            }
            return true;
        }
        // it is looked at again and again until it is taken
        if let Some(entry) = batch.entries.get_mut(self.place) {
            entry.at = entry.due;
        }
        self.counts.undelayed.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Takes the next record, which was looked at.
    #[inline]
    pub(super) fn take(&mut self) {
        if self.is_delayed {
            let taken = self.delayed.take();
            if let (Some(counter), Some((place, number, later))) = (&mut self.disorder, taken) {
                counter.leave_later(place, number, later);
            }
            return;
        }
        if let Some(counter) = &mut self.disorder
            && let Some(batch) = self.batches.get(self.batch)
            && let Some(entry) = batch.entries.get(self.place)
        {
            counter.leave(entry.number);
        }
        self.step();
    }

    /// Goes on to the next record; nobody looks at this one.
    fn pass(&mut self) {
        if self.settled == self.next {
            self.settled += 1;
        }
        self.step();
    }

    #[inline]
    fn step(&mut self) {
        self.place += 1;
        self.next += 1;
    }

    /// Goes on to the next batch that has records.
    #[cold]
    fn look_further(&mut self, elapsed: Nanos) -> Option<Entry> {
        loop {
            if let Some(batch) = self.batches.get(self.batch) {
                if let Some(entry) = batch.entries.get(self.place) {
                    return Some(*entry);
                }
                (self.batch, self.place) = (self.batch + 1, 0);
                self.give_up();
            }
            if self.batch >= self.batches.len() {
                let batch = self.next_batch()?;
                if batch.last {
                    self.turn = (self.turn + 1) % self.queues.len().max(1);
                }
                // What was there in time and is taken late is nobody's doing but ours.
                if std::mem::take(&mut self.waited) && self.timed {
                    let due = batch.entries.partition_point(|entry| entry.due < elapsed);
                    let due = batch.entries.iter().take(due);
                    let sent = |entry: &&Entry| self.gates.let_through(entry.due, entry.sub_flow);
                    let starved = due.filter(sent).count() as u64;
                    self.counts.starved.fetch_add(starved, Ordering::Relaxed);
                }
                self.batches.push_back(batch);
            }
        }
    }

    fn next_batch(&mut self) -> Option<Batch> {
        loop {
            match self.queues.get_mut(self.turn)?.pop() {
                Ok(batch) => return Some(batch),
                // What is not handed over may be in the very buffer that is waited for.
                Err(_) if self.patient && self.next <= self.settled && !self.has_ended() => {
                    thread::sleep(LOOK);
                }
                Err(_) => {
                    self.waited = !self.patient;
                    return None;
                }
            }
        }
    }

    /// All that were taken are handed over, and their data is not looked at any more, but for these departures, in
    /// the order in which they were taken. So many frames were handed over in all.
    #[inline]
    pub(super) fn settle<'a>(
        &mut self,
        pending: impl Iterator<Item = &'a Departure> + Clone,
        handed: u64,
    ) {
        self.handed = handed;
        let mine = pending.filter(|departure| departure.stream == self.stream);
        let is_delayed = |departure: &&Departure| departure.index & DELAYED != 0;
        let first = mine.clone().find(|departure| !is_delayed(departure));
        self.settled = first.map_or(self.next, |departure| departure.index).max(self.settled);
        self.delayed.settle(|| mine.filter(is_delayed).count());
        if self.batch > 0 {
            self.give_up();
        }
    }

    /// Gives up batches that nobody looks at any more.
    fn give_up(&mut self) {
        while let Some(front) = self.batches.front()
            && self.batch > 0
            && self.first + front.entries.len() as u64 <= self.settled
        {
            self.first += front.entries.len() as u64;
            self.batch -= 1;
            let Some(Batch { chunk, .. }) = self.batches.pop_front() else { return };
            if chunk.shared_at().is_none() {
                continue;
            }
            match self.in_use.back_mut().filter(|(_, last)| Arc::ptr_eq(last, &chunk)) {
                Some((handed, _)) => *handed = self.handed,
                None => self.in_use.push_back((self.handed, chunk)),
            }
        }
    }

    /// The port is done with so many frames.
    #[inline]
    pub(super) fn done(&mut self, frames: u64) {
        while self.in_use.front().is_some_and(|(handed, _)| *handed <= frames) {
            self.in_use.pop_front();
        }
    }

    /// The record that was taken as this departure.
    #[inline]
    pub(super) fn recorded(&self, departure: &Departure) -> Option<Found<'_>> {
        if departure.index & DELAYED != 0 {
            let (recorded, sequence) = self.delayed.get(departure.index as u32)?;
            return Some(Found { recorded, shared_at: None, sequence });
        }
        let mut place = departure.index.checked_sub(self.first)? as usize;
        for batch in &self.batches {
            let Some(entry) = batch.entries.get(place) else {
                place -= batch.entries.len();
                continue;
            };
            let chunk = batch.chunk.as_ref();
            let shared_at = chunk.shared_at().map(|at| at + entry.start);
            let recorded = entry.recorded(chunk)?;
            return Some(Found { recorded, shared_at, sequence: entry.sequence });
        }
        None
    }
}

impl Drop for Playback {
    fn drop(&mut self) {
        self.tell_disorder();
    }
}

#[cfg(test)]
mod tests;
