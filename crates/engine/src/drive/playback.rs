//! What was recorded and is sent again: records come in batches from those who read them, in the order of their
//! times, and are taken like the departures of a schedule.
//!
//! A batch refers to the data of its records in a buffer that it keeps alive, so nothing is copied until a frame is
//! built. Batches come through a queue without locks, one for each worker; workers take turns by chunks, so that a
//! core knows whose turn it is without asking. This file does not know where records come from.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use rtrb::Consumer;
use wirebeat_traffic::program::Recorded;
use wirebeat_traffic::schedule::Departure;
use wirebeat_units::Nanos;

use super::delayed::Delayed;
use super::gates::{Gates, Passage};

/// In the index of a departure: the record left later than its turn.
const DELAYED: u64 = 1 << 63;
/// How often a patient one looks.
const LOOK: Duration = Duration::from_micros(50);

/// Data that was read. It goes back to whoever reads when nobody refers to it any more.
#[derive(Debug)]
pub struct Chunk {
    bytes: Vec<u8>,
    home: Sender<Vec<u8>>,
}

impl Chunk {
    /// Of these bytes, which go `home` at the end.
    pub fn new(bytes: Vec<u8>, home: Sender<Vec<u8>>) -> Chunk {
        Chunk { bytes, home }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // nobody reads any more: then they are freed
        let _ = self.home.send(std::mem::take(&mut self.bytes));
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
}

impl Entry {
    /// The record, whose data is in `chunk`.
    #[inline]
    fn recorded<'a>(&self, chunk: &'a Chunk) -> Option<Recorded<'a>> {
        let start = self.start as usize;
        let data = chunk.bytes().get(start..start + usize::from(self.len))?;
        Some(Recorded { number: self.number, sub_flow: self.sub_flow.into(), tag: self.tag, data })
    }
}

/// Records of one chunk, in the order in which they are due.
#[derive(Debug)]
pub struct Batch {
    /// The records.
    pub entries: Vec<Entry>,
    /// Where their data is.
    pub chunk: Arc<Chunk>,
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
            stop,
            gates: Gates::default(),
            counts,
            patient: false,
            timed: true,
            waited: false,
            delayed: Delayed::default(),
            is_delayed: false,
            held_back: false,
        }
    }

    /// Whether it waits for records that are not there yet: where a clock goes on only when somebody waits for it,
    /// they would come too late.
    #[must_use]
    pub fn patient(self, patient: bool) -> Playback {
        Playback { patient, ..self }
    }

    /// Whether records have times to be late by.
    #[must_use]
    pub fn timed(self, timed: bool) -> Playback {
        Playback { timed, ..self }
    }

    /// Which records are sent.
    #[must_use]
    pub fn gated(self, gates: Gates) -> Playback {
        Playback { gates, ..self }
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
        self.gates.settle();
        self.held_back = false;
    }

    /// The record whose turn it is.
    #[inline]
    fn entry(&mut self, elapsed: Nanos) -> Option<Entry> {
        let here = self.batches.get(self.batch).and_then(|batch| batch.entries.get(self.place));
        let entry = here.copied().or_else(|| self.look_further(elapsed));
        if self.gates.are_open() { entry } else { self.gated_entry(entry, elapsed) }
    }

    /// The same where not all records are sent.
    fn gated_entry(&mut self, entry: Option<Entry>, elapsed: Nanos) -> Option<Entry> {
        let mut entry = entry;
        self.held_back = false;
        loop {
            let now = entry?;
            if now.due >= self.stop {
                return entry;
            }
            match self.gates.passage(now.due, now.sub_flow, elapsed) {
                Passage::Open => return entry,
                Passage::NotYetKnown => {
                    self.held_back = true;
                    return None;
                }
                Passage::Shut => {}
            }
            self.counts.passed_over.fetch_add(1, Ordering::Relaxed);
            self.pass();
            let here = self.batches.get(self.batch).and_then(|batch| batch.entries.get(self.place));
            entry = here.copied().or_else(|| self.look_further(elapsed));
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
                let tag = self.delayed.get(place)?.tag;
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
        let record = entry.recorded(&batch.chunk);
        if record.is_some_and(|record| self.delayed.wait(entry.at, record)) {
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
            self.delayed.take();
        } else {
            self.step();
        }
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
    /// the order in which they were taken.
    #[inline]
    pub(super) fn settle<'a>(&mut self, pending: impl Iterator<Item = &'a Departure> + Clone) {
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
            self.batches.pop_front();
            self.batch -= 1;
        }
    }

    /// The record that was taken as this departure.
    #[inline]
    pub(super) fn recorded(&self, departure: &Departure) -> Option<Recorded<'_>> {
        if departure.index & DELAYED != 0 {
            return self.delayed.get(departure.index as u32);
        }
        let mut place = departure.index.checked_sub(self.first)? as usize;
        for batch in &self.batches {
            let Some(entry) = batch.entries.get(place) else {
                place -= batch.entries.len();
                continue;
            };
            return entry.recorded(&batch.chunk);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rtrb::{Producer, RingBuffer};

    use super::*;

    struct Worker {
        queue: Producer<Batch>,
        home: Sender<Vec<u8>>,
        number: u64,
    }

    impl Worker {
        /// Sends records at these times, each with its number as its only byte.
        fn batch(&mut self, times: &[u64], last: bool) {
            let entry = |(place, &at): (usize, &u64)| Entry {
                due: Nanos::new(at),
                at: Nanos::new(at),
                number: self.number + place as u64,
                start: place as u32,
                sub_flow: 0,
                tag: 0,
                len: 1,
            };
            let entries: Vec<Entry> = times.iter().enumerate().map(entry).collect();
            let bytes = entries.iter().map(|entry| entry.number as u8).collect();
            self.number += entries.len() as u64;
            let chunk = Arc::new(Chunk::new(bytes, self.home.clone()));
            self.queue.push(Batch { entries, chunk, last }).unwrap();
        }
    }

    fn pair(workers: usize) -> (Vec<Worker>, Playback, mpsc::Receiver<Vec<u8>>) {
        let (home, back) = mpsc::channel();
        let (queues, ends): (Vec<_>, Vec<_>) = (0..workers).map(|_| RingBuffer::new(8)).unzip();
        let worker = |queue| Worker { queue, home: home.clone(), number: 0 };
        let counts = Arc::new(PlaybackCounts::default());
        let playback = Playback::new((0, 0), ends, Nanos::new(1000), counts);
        (queues.into_iter().map(worker).collect(), playback, back)
    }

    fn taken(playback: &mut Playback) -> Vec<(u64, u8)> {
        let mut all = Vec::new();
        while let Some(departure) = playback.peek(Nanos::ZERO) {
            playback.take();
            let data = playback.recorded(&departure).unwrap().data[0];
            all.push((departure.at.get(), data));
        }
        all
    }

    #[test]
    fn workers_take_turns_by_chunks() {
        let (mut workers, mut playback, _back) = pair(2);
        workers[1].number = 100;
        workers[0].batch(&[1, 2], false);
        workers[1].batch(&[5, 6], true);
        assert_eq!(taken(&mut playback), [(1, 0), (2, 1)]);
        assert!(playback.is_waiting(), "the second worker's turn has not come");
        workers[0].batch(&[3], true);
        assert_eq!(taken(&mut playback), [(3, 2), (5, 100), (6, 101)]);
        assert!(playback.is_waiting());
        drop(workers);
        assert!(!playback.is_waiting());
        assert_eq!(taken(&mut playback), []);
    }

    #[test]
    fn nothing_is_due_after_the_stop() {
        let (mut workers, mut playback, _back) = pair(1);
        workers[0].batch(&[998, 999, 1000, 1001], false);
        assert_eq!(taken(&mut playback).len(), 2);
        playback.end_at(Nanos::new(5));
        assert_eq!(taken(&mut playback), []);
    }

    #[test]
    fn chunks_go_home_when_nobody_looks_at_them() {
        let (mut workers, mut playback, back) = pair(1);
        workers[0].batch(&[1; 200], false);
        for _ in 0..6 {
            workers[0].batch(&[1; 300], false);
        }
        let mut all = Vec::new();
        while let Some(departure) = playback.peek(Nanos::ZERO) {
            playback.take();
            all.push(departure);
        }
        assert_eq!(all.len(), 2000);
        assert_eq!(back.try_iter().count(), 0, "all may be looked at still");
        playback.settle(all[1699..].iter());
        assert_eq!(back.try_iter().count(), 5);
        playback.settle([].iter());
        assert_eq!(back.try_iter().count(), 2);
        workers[0].batch(&[1; 3], false);
        workers[0].batch(&[1; 3], false);
        for _ in 0..3 {
            playback.peek(Nanos::ZERO).unwrap();
            playback.take();
        }
        playback.settle([].iter());
        // the last of a batch is seen to be the last when the next is looked for
        playback.peek(Nanos::ZERO).unwrap();
        assert_eq!(back.try_iter().count(), 1);
    }

    /// What leaves later, or not at all, lies between them.
    #[test]
    fn what_is_not_handed_over_can_be_looked_at_though_others_were_not_taken() {
        let (mut workers, mut playback, _back) = pair(1);
        for first in [0, 4] {
            workers[0].batch(&[first, first + 1, first + 2, first + 3], false);
        }
        playback.gates = Gates::new(
            vec![(Nanos::ZERO, 1), (Nanos::new(1), 0), (Nanos::new(5), u32::MAX)],
            false,
        );
        let first = playback.peek(Nanos::ZERO).unwrap();
        playback.take();
        let second = playback.peek(Nanos::ZERO).unwrap();
        playback.take();
        assert_eq!((first.at, second.at), (Nanos::ZERO, Nanos::new(5)));
        assert_eq!(playback.counts.passed_over.load(Ordering::Relaxed), 4);
        playback.settle([first, second].iter());
        assert_eq!(playback.recorded(&first).unwrap().data, [0]);
        playback.settle([second].iter());
        assert_eq!(playback.recorded(&second).unwrap().data, [5]);
        assert_eq!(playback.recorded(&first), None);
    }

    /// What it waits for is not passed over before that is settled.
    #[test]
    fn a_pause_from_outside_can_end_sooner_than_was_known() {
        let (mut workers, playback, _back) = pair(1);
        let ms = |ms: u64| ms * 1_000_000;
        let mut playback = playback.gated(Gates::new(vec![(Nanos::ZERO, u32::MAX)], true));
        playback.stop = Nanos::MAX;
        workers[0].batch(&[0, ms(100), ms(200), ms(300)], true);
        let due = |playback: &mut Playback, now: u64| {
            let departure = playback.peek(Nanos::from_millis(now))?;
            playback.take();
            Some(departure.at.get() / 1_000_000)
        };
        assert_eq!(due(&mut playback, 0), Some(0));
        playback.change(Nanos::from_millis(90), 0);
        assert_eq!((due(&mut playback, 20), playback.is_waiting()), (None, true));
        assert_eq!((due(&mut playback, 60), playback.is_waiting()), (None, true));
        // the first is passed over for good
        playback.change(Nanos::from_millis(150), u32::MAX);
        assert_eq!(due(&mut playback, 61), Some(200));
        assert_eq!(playback.counts.passed_over.load(Ordering::Relaxed), 1);
        playback.change(Nanos::from_millis(250), 0);
        assert_eq!(due(&mut playback, 170), None);
        drop(workers);
        assert!(playback.is_waiting());
        playback.end_at(Nanos::from_millis(260));
        assert_eq!((due(&mut playback, 170), playback.is_waiting()), (None, false));
        assert_eq!(playback.counts.passed_over.load(Ordering::Relaxed), 1);
    }

    /// It is looked at again and again until it is taken.
    #[test]
    fn what_cannot_wait_leaves_in_its_turn_and_is_counted_once() {
        let (mut workers, mut playback, _back) = pair(1);
        let data = vec![0; 60_000];
        while playback
            .delayed
            .wait(Nanos::new(900), Recorded { number: 0, sub_flow: 0, tag: 0, data: &data })
        {
        }
        workers[0].batch(&[10], false);
        playback.peek(Nanos::ZERO);
        playback.batches[0].entries[0].at = Nanos::new(500);
        // no room is left for one that long
        playback.batches[0].chunk = Arc::new(Chunk::new(data, mpsc::channel().0));
        playback.batches[0].entries[0].len = 60_000;
        for _ in 0..3 {
            assert_eq!(playback.peek(Nanos::ZERO).unwrap().at, Nanos::new(10));
        }
        assert_eq!(playback.counts.undelayed.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_comes_too_late_is_counted_as_the_readers_doing() {
        let (mut workers, mut playback, _back) = pair(1);
        let starved = |playback: &Playback| playback.counts.starved.load(Ordering::Relaxed);
        workers[0].batch(&[1, 2], false);
        assert_eq!(playback.peek(Nanos::new(5)).unwrap().at, Nanos::new(1));
        assert_eq!(
            starved(&playback),
            0,
            "it was there; that it is taken late is not the reader's doing"
        );
        (0..2).for_each(|_| playback.take());
        assert_eq!(playback.peek(Nanos::new(8)), None);
        workers[0].batch(&[10, 20, 30, 40], false);
        assert_eq!(playback.peek(Nanos::new(30)).unwrap().at, Nanos::new(10));
        assert_eq!(starved(&playback), 2);
    }
}
