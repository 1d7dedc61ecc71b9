//! What was recorded, on its way from files to the transmit cores.
//!
//! One thread reads (`read.rs`), files that others may read ahead for it (`ahead.rs`): it checks every record and copies those that are to be sent into large buffers
//! (`buffers.rs`), whole records each. Workers (`work.rs`) make batches of what is in a buffer: when each record is due
//! and where its data is. A core takes batches from a queue without locks, and looks at the data where it was read to
//! (`wirebeat_engine::drive::playback`); a port that shares memory takes it from there by itself. A buffer goes back to
//! the reader when no batch refers to it.
//!
//! Each worker has two buffers: while one is worked on the other is filled. Chunks go to the workers in turn, and
//! the cores take them in the same turn, so the order of records is that of the archive however many workers there
//! are. All times count from the first record, on the clock of the run. Copies of a capture (`copies.rs`) are made of one that
//! was read before (`template.rs`), and their times count from the start of the flow.

mod ahead;
mod buffers;
mod captures;
mod copies;
mod devices;
mod filling;
mod headers;
mod nothing;
mod read;
pub(crate) mod shared;
mod source;
mod template;
mod work;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtrb::RingBuffer;
use wirebeat_engine::drive::disorder::Disorder;
use wirebeat_engine::drive::gates::Gates;
use wirebeat_engine::drive::playback::{Playback, PlaybackCounts};
use wirebeat_engine_linux::kernel::{EXTERNAL_MIN, Piece};
use wirebeat_traffic::distribution::draw::{Key, Purpose};
use wirebeat_traffic::program::{Copies, Flow, Pace, Program, Stream};
use wirebeat_traffic::scenario::Replay;
use wirebeat_traffic::scenario::Shared;
use wirebeat_units::{Nanos, fault, human};

use crate::error::RunError;
use buffers::Buffer;
pub(crate) use captures::{HeldBack, longest_frame};
pub(crate) use devices::{Member, Numbered, kind, members, shared as shared_sub_flows, sub_flows};
use filling::Way;
pub(crate) use headers::headers_of;
use read::{Readers, Summary};
pub(crate) use source::{ArchiveFacts, look_into};
pub use template::{TemplatePackets, template_packets};
use work::Worker;

/// Batches that wait in a queue.
const QUEUE: usize = 64;
/// How long is waited for the first records before the run starts, and for the disk to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long is waited, once there are some, for all buffers to be full: as many seconds of a fast replay may be in them.
const AHEAD: Duration = Duration::from_secs(2);
/// How long is waited at the end for a reader to answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often those who wait look whether the run is over.
const LOOK: Duration = Duration::from_millis(20);

/// A flow of a recording, and where that is.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// Its number, and that of its stream.
    flow: u32,
    stream: u32,
    name: String,
    replay: Shared<Replay>,
    /// What its delays are drawn with.
    delays: Key,
    /// The archives or captures.
    paths: Vec<PathBuf>,
    /// What says which device is which sub-flow.
    table: Option<PathBuf>,
    /// Tags of what is counted by itself.
    members: Range<u32>,
    /// What its streams say, which follow one another and differ in nothing but what is let through.
    start: Nanos,
    stop: Nanos,
    /// From when on records of sub-flows below a number are sent.
    gates: Vec<(Nanos, u32)>,
    count: u64,
    /// The longest data that its packets have room for, or the longest frame.
    data_max: usize,
    /// The longest frame without a VLAN tag.
    untagged_max: usize,
    /// Whether checksums cover its data.
    sums: bool,
    /// How many of its sub-flows differ, where that is known.
    different: Option<u64>,
    /// The copies of a capture that it sends, instead of what is in it once.
    copies: Option<Arc<Copies>>,
}

impl Recording {
    /// The recordings among flows, which replay `replays`; their files are found by `path`.
    pub(crate) fn all(
        program: &Program,
        replays: &[Option<Shared<Replay>>],
        path: impl Fn(&str) -> PathBuf,
    ) -> Vec<Recording> {
        let of = |(flow, number): (&Flow, u32)| {
            let replay = replays.get(number as usize)?.clone()?;
            let streams = program.streams(number);
            let (stream, last) = (streams.first()?, streams.last()?);
            let gate = |stream: &Stream| match stream.departures.pace {
                Pace::Recorded { sub_flows, .. } => (stream.departures.start, sub_flows),
                _ => (stream.departures.start, u32::MAX),
            };
            Some(Recording {
                flow: number,
                stream: flow.streams.start,
                name: flow.name.clone(),
                delays: Key::new(program.seed, number, Purpose::Delay),
                paths: replay.names().iter().map(|name| path(name)).collect(),
                table: replay.table().map(&path),
                members: flow.members.clone(),
                start: stream.departures.start,
                stop: last.departures.stop,
                gates: streams.iter().map(gate).collect(),
                count: stream.departures.count,
                data_max: stream.frames.recorded_max(),
                untagged_max: stream.frames.whole_max().unwrap_or(usize::MAX),
                sums: stream.frames.sums_recorded(),
                different: stream.frames.sub_flow_period(),
                copies: flow.copies.clone(),
                replay,
            })
        };
        program.flows.iter().zip(0..).filter_map(of).collect()
    }

    /// Of one capture, which is looked at and not sent.
    fn of_capture(path: &Path) -> Recording {
        let name = path.display().to_string();
        let replay =
            Replay { archive: None, capture: Some(vec![name.clone()].into()), ..Replay::of("") };
        Recording {
            flow: 0,
            stream: 0,
            name,
            replay: replay.into(),
            delays: Key::new(0, 0, Purpose::Delay),
            paths: vec![path.to_owned()],
            table: None,
            members: 0..0,
            start: Nanos::ZERO,
            stop: Nanos::MAX,
            gates: Vec::new(),
            count: u64::MAX,
            data_max: usize::from(u16::MAX),
            untagged_max: usize::from(u16::MAX),
            sums: false,
            different: None,
            copies: None,
        }
    }

    /// The number of its flow.
    pub(crate) fn flow(&self) -> u32 {
        self.flow
    }

    /// The same for a port where the system sees to headers, and so to checksums.
    pub(crate) fn without_headers(self) -> Recording {
        Recording { sums: false, ..self }
    }
}

/// A recording whose files are open.
pub(crate) struct Opened {
    recording: Recording,
    readers: Readers,
    buffers: Vec<Buffer>,
}

impl Opened {
    /// Opens the files of a recording, and reads what is preloaded.
    pub(crate) fn open(recording: Recording) -> Result<Opened, RunError> {
        let readers = Readers::open(&recording)?;
        Ok(Opened { recording, readers, buffers: Vec::new() })
    }

    /// The number of its flow.
    pub(crate) fn flow(&self) -> u32 {
        self.recording.flow
    }

    /// Lengths of the memory that its port should share, if it gains by that.
    pub(crate) fn shared(&self) -> Vec<usize> {
        match self.recording.data_max {
            ..EXTERNAL_MIN => Vec::new(),
            _ => self.readers.shared_lengths(),
        }
    }

    /// Uses memory that its port shares, of the lengths that it said.
    pub(crate) fn share(&mut self, pieces: Vec<Piece>) {
        self.buffers = self.readers.share(pieces);
    }
}

/// How far a reader is, and what it waits for.
#[derive(Debug, Default)]
struct Live {
    /// Records that were handed on.
    records: AtomicU64,
    /// All buffers were full.
    ahead: AtomicBool,
    /// It is at a record that the system may have to read first, and which one that is.
    reading: AtomicBool,
    looked: AtomicU64,
    /// The longest time between records that is to be told.
    long_gap: Mutex<Option<LongGap>>,
}

/// A long time from one record to the next, on the clock of the run.
#[derive(Clone, Debug, Default)]
struct LongGap {
    gap: Nanos,
    /// The record behind it.
    place: String,
}

impl Live {
    fn tell_gap(&self, gap: LongGap) {
        *self.long_gap.lock().unwrap_or_else(PoisonError::into_inner) = Some(gap);
    }

    fn long_gap(&self) -> Option<LongGap> {
        self.long_gap.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// How it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplayPolicy {
    /// Cores wait for records that are not there yet, because their clock does not go on by itself.
    pub(crate) patient: bool,
    /// Its flow may change from outside.
    pub(crate) controlled: bool,
    /// Cores take records in turn, whatever order they leave in; else what is counted by itself stays on one.
    pub(crate) spread: bool,
}

/// A recording at work.
#[derive(Debug)]
pub(crate) struct Replaying {
    name: String,
    flow: u32,
    halt: Arc<AtomicBool>,
    live: Arc<Live>,
    counts: Arc<PlaybackCounts>,
    result: Receiver<Summary>,
    summary: Mutex<Option<Summary>>,
    /// The last record that it was seen at, and when it came to that.
    seen: Mutex<(u64, Instant)>,
    /// Whether what is not due yet is waited for.
    waits: bool,
}

/// What became of a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) flow: u32,
    /// Why it ended before its end.
    pub(crate) error: Option<String>,
    pub(crate) summary: Summary,
    /// Records that came from the reader when they were due already.
    pub(crate) starved: u64,
    /// Records that were to leave later and did not, because too many others waited.
    pub(crate) undelayed: u64,
    /// Records that were not sent, because their flow paused or their sub-flow was none of those that are sent.
    pub(crate) passed_over: u64,
    /// What left out of its order.
    pub(crate) disorder: Disorder,
}

impl Replaying {
    /// Begins to read a recording for so many cores; what each of them is to send.
    pub(crate) fn start(
        opened: Opened,
        cores: usize,
        ReplayPolicy { patient, controlled, spread }: ReplayPolicy,
    ) -> Result<(Replaying, Vec<Playback>), RunError> {
        let Opened { recording, readers, mut buffers } = opened;
        let failed = |error: std::io::Error| {
            RunError::machine(format!("flow '{}': cannot start a thread: {error}", recording.name))
        };
        let (halt, live) = (Arc::new(AtomicBool::new(false)), Arc::new(Live::default()));
        let (mut ends, mut ways) = (Vec::new(), Vec::new());
        for number in 0..usize::from(recording.replay.workers.get()) {
            let (queues, consumers): (Vec<_>, Vec<_>) =
                (0..cores).map(|_| RingBuffer::new(QUEUE)).unzip();
            let (to_worker, from_reader) = mpsc::sync_channel(1);
            let (home, back) = mpsc::channel();
            for _ in 0..2 {
                // one that is not shared takes its room when it is filled for the first time
                let _ = home.send(buffers.pop().unwrap_or_default());
            }
            let worker = Worker::new(&recording, queues, spread, from_reader, Arc::clone(&halt));
            let name = format!("wb-work-{number}");
            thread::Builder::new().name(name).spawn(move || worker.run()).map_err(failed)?;
            ends.push(consumers);
            ways.push(Way { worker: to_worker, back, home });
        }
        let (told, result) = mpsc::channel();
        let (halt_reader, seen) = (Arc::clone(&halt), Arc::clone(&live));
        let read = move || {
            let _ = told.send(readers.run(ways, &halt_reader, &seen));
        };
        thread::Builder::new().name("wb-read".to_owned()).spawn(read).map_err(failed)?;
        let counts = Arc::new(PlaybackCounts::default());
        let mut queues: Vec<Vec<_>> = (0..cores).map(|_| Vec::new()).collect();
        for consumers in ends {
            queues.iter_mut().zip(consumers).for_each(|(queue, end)| queue.push(end));
        }
        let numbers = (recording.flow, recording.stream);
        let playback = |queues| {
            let counts = Arc::clone(&counts);
            let timed = !recording.replay.is_unlimited();
            let gates = Gates::new(recording.gates.clone(), controlled);
            let playback = Playback::new(numbers, queues, recording.stop, counts);
            let playback = playback.patient(patient).timed(timed).gated(gates);
            playback.out_of_order(recording.replay.out_of_order.is_some())
        };
        let playbacks: Vec<Playback> = queues.into_iter().map(playback).collect();
        let (name, flow, summary) = (recording.name.clone(), recording.flow, Mutex::new(None));
        let seen = Mutex::new((0, Instant::now()));
        let waits = !patient;
        Ok((Replaying { name, flow, halt, live, counts, result, summary, seen, waits }, playbacks))
    }

    /// Waits until as many records are there as are read ahead, or at least some after a while, or there are none. Refuses
    /// what would wait for long between two of them.
    pub(crate) fn await_first(&self) -> Result<(), RunError> {
        self.await_some()?;
        match self.long_gap() {
            Some(why) => Err(RunError::usage(why)),
            None => Ok(()),
        }
    }

    /// A time without records that is longer than anybody waits for without having asked to, once for each.
    pub(crate) fn long_gap(&self) -> Option<String> {
        let LongGap { gap, place } = self.live.long_gap().filter(|_| self.waits)?;
        Some(format!(
            "flow '{}': {place}: nothing is due for {} before this record; shorten such gaps with --max-gap ('max-gap'), \
             for example to 1s, keep them with one that is longer, or end the run by --time",
            self.name,
            human::long_time(gap.get())
        ))
    }

    fn await_some(&self) -> Result<(), RunError> {
        let begun = Instant::now();
        loop {
            let some = self.live.records.load(Ordering::Acquire) > 0;
            if self.live.ahead.load(Ordering::Acquire) || some && begun.elapsed() > AHEAD {
                return Ok(());
            }
            match self.result.recv_timeout(LOOK) {
                Ok(summary) => {
                    let error = summary.error.clone().filter(|_| summary.records == 0);
                    self.keep(summary);
                    return match error {
                        Some(error) => {
                            Err(RunError::usage(error.at(format!("flow '{}'", self.name))))
                        }
                        None => Ok(()),
                    };
                }
                Err(RecvTimeoutError::Timeout) if some || begun.elapsed() < PATIENCE => {}
                Err(_) => {
                    return Err(RunError::machine(fault!(
                        "flow '{}': no record could be read within {} s",
                        self.name, PATIENCE.as_secs();
                        "the disk does not answer, or the records that are asked for lie far \
                         behind others: an index makes them quick to find"
                    )));
                }
            }
        }
    }

    /// Why it will not go on: the system has not answered for long.
    pub(crate) fn stuck(&self) -> Option<String> {
        self.is_stuck(PATIENCE).then(|| {
            format!("flow '{}': the disk has not answered for {} s", self.name, PATIENCE.as_secs())
        })
    }

    /// Whether the system has not answered for so long.
    fn is_stuck(&self, patience: Duration) -> bool {
        let looked = self.live.looked.load(Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.0 != looked || !self.live.reading.load(Ordering::Relaxed) {
            *seen = (looked, Instant::now());
            return false;
        }
        seen.1.elapsed() > patience
    }

    fn keep(&self, summary: Summary) {
        *self.summary.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary);
    }

    /// Ends it, and says what became of it.
    pub(crate) fn finish(self) -> Replayed {
        self.halt.store(true, Ordering::Release);
        let kept = self.summary.lock().unwrap_or_else(PoisonError::into_inner).take();
        let summary = kept.or_else(|| self.result.recv_timeout(FAREWELL).ok());
        let starved = self.counts.starved.load(Ordering::Relaxed);
        let undelayed = self.counts.undelayed.load(Ordering::Relaxed);
        let passed_over = self.counts.passed_over.load(Ordering::Relaxed);
        let error = match &summary {
            Some(summary) => summary.error.clone(),
            None if self.live.reading.load(Ordering::Relaxed) => {
                Some("the disk did not answer".into())
            }
            None => Some("the thread that reads ended without a word".into()),
        };
        let error = error.map(|error| format!("flow '{}': {error}", self.name));
        Replayed {
            flow: self.flow,
            error,
            summary: summary.unwrap_or_default(),
            starved,
            undelayed,
            passed_over,
            disorder: self.counts.disorder.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Drop for Replaying {
    fn drop(&mut self) {
        // the threads end by themselves
        self.halt.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_stops_answering_is_told_from_one_that_is_not_asked() {
        let (told, result) = mpsc::channel::<Summary>();
        let live = Arc::new(Live::default());
        let replaying = Replaying {
            name: "x".to_owned(),
            flow: 0,
            halt: Arc::default(),
            live: Arc::clone(&live),
            counts: Arc::default(),
            result,
            summary: Mutex::new(None),
            seen: Mutex::new((0, Instant::now())),
            waits: true,
        };
        // it waits for room
        assert!(!replaying.is_stuck(Duration::ZERO));
        live.reading.store(true, Ordering::Relaxed);
        assert!(!replaying.is_stuck(Duration::from_secs(60)));
        assert!(replaying.is_stuck(Duration::ZERO));
        live.looked.store(1, Ordering::Relaxed);
        assert!(!replaying.is_stuck(Duration::from_secs(60)), "it went on");
        drop(told);
        let replayed = replaying.finish();
        assert_eq!(replayed.error.as_deref(), Some("flow 'x': the disk did not answer"));
    }
}
