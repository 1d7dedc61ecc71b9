use std::sync::mpsc::{self, Sender};

use rtrb::{Producer, RingBuffer};

use super::*;

/// Data that goes home when nobody refers to it.
#[derive(Debug)]
struct Data {
    bytes: Vec<u8>,
    home: Sender<Vec<u8>>,
    shared_at: Option<u32>,
}

impl Chunk for Data {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn shared_at(&self) -> Option<u32> {
        self.shared_at
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = self.home.send(std::mem::take(&mut self.bytes));
    }
}

struct Worker {
    shared_at: Option<u32>,
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
            sum: None,
            sequence: None,
        };
        let entries: Vec<Entry> = times.iter().enumerate().map(entry).collect();
        let bytes = entries.iter().map(|entry| entry.number as u8).collect();
        self.number += entries.len() as u64;
        let (home, shared_at) = (self.home.clone(), self.shared_at);
        let chunk = Arc::new(Data { bytes, home, shared_at });
        self.queue.push(Batch { entries, chunk, last }).unwrap();
    }
}

fn pair(workers: usize) -> (Vec<Worker>, Playback, mpsc::Receiver<Vec<u8>>) {
    let (home, back) = mpsc::channel();
    let (queues, ends): (Vec<_>, Vec<_>) = (0..workers).map(|_| RingBuffer::new(8)).unzip();
    let worker = |queue| Worker { queue, home: home.clone(), number: 0, shared_at: None };
    let counts = Arc::new(PlaybackCounts::default());
    let playback = Playback::new((0, 0), ends, Nanos::new(1000), counts);
    (queues.into_iter().map(worker).collect(), playback, back)
}

fn taken(playback: &mut Playback) -> Vec<(u64, u8)> {
    let mut all = Vec::new();
    while let Some(departure) = playback.peek(Nanos::ZERO) {
        playback.take();
        let data = playback.recorded(&departure).unwrap().recorded.data[0];
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
    playback.settle(all[1699..].iter(), 0);
    assert_eq!(back.try_iter().count(), 5);
    playback.settle([].iter(), 0);
    assert_eq!(back.try_iter().count(), 2);
    workers[0].batch(&[1; 3], false);
    workers[0].batch(&[1; 3], false);
    for _ in 0..3 {
        playback.peek(Nanos::ZERO).unwrap();
        playback.take();
    }
    playback.settle([].iter(), 0);
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
    playback.gates =
        Gates::new(vec![(Nanos::ZERO, 1), (Nanos::new(1), 0), (Nanos::new(5), u32::MAX)], false);
    let first = playback.peek(Nanos::ZERO).unwrap();
    playback.take();
    let second = playback.peek(Nanos::ZERO).unwrap();
    playback.take();
    assert_eq!((first.at, second.at), (Nanos::ZERO, Nanos::new(5)));
    assert_eq!(playback.counts.passed_over.load(Ordering::Relaxed), 4);
    playback.settle([first, second].iter(), 0);
    assert_eq!(playback.recorded(&first).unwrap().recorded.data, [0]);
    playback.settle([second].iter(), 0);
    assert_eq!(playback.recorded(&second).unwrap().recorded.data, [5]);
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
    let record = Recorded { number: 0, sub_flow: 0, tag: 0, data: &data, sum: None };
    let at = (Nanos::new(900), Nanos::new(1));
    while playback.delayed.wait(at, record, None).is_some() {}
    workers[0].batch(&[10], false);
    playback.peek(Nanos::ZERO);
    playback.batches[0].entries[0].at = Nanos::new(500);
    // no room is left for one that long
    let home = mpsc::channel().0;
    playback.batches[0].chunk = Arc::new(Data { bytes: data, home, shared_at: None });
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

/// It would be written over while the port reads it.
#[test]
fn what_the_port_takes_by_itself_goes_home_when_that_is_done_with_it() {
    let (mut workers, mut playback, back) = pair(1);
    workers[0].shared_at = Some(4096);
    for first in [0, 10, 20] {
        workers[0].batch(&[first, first + 1, first + 2], false);
    }
    let mut departures = Vec::new();
    while let Some(departure) = playback.peek(Nanos::ZERO) {
        playback.take();
        departures.push(departure);
    }
    let shared_at: Vec<_> = departures
        .iter()
        .map(|departure| playback.recorded(departure).unwrap().shared_at)
        .collect();
    assert_eq!(shared_at[..4], [Some(4096), Some(4097), Some(4098), Some(4096)]);
    // other flows of the port have frames, too
    playback.settle(departures[7..].iter(), 20);
    assert_eq!(back.try_iter().count(), 0);
    playback.done(19);
    assert_eq!(back.try_iter().count(), 0);
    playback.done(20);
    assert_eq!(back.try_iter().count(), 2);
    playback.settle([].iter(), 30);
    workers[0].batch(&[30], false);
    playback.peek(Nanos::ZERO).unwrap();
    playback.done(29);
    assert_eq!(back.try_iter().count(), 0);
    playback.done(u64::MAX);
    assert_eq!(back.try_iter().count(), 1);
}
