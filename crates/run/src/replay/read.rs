//! The thread that reads: records are checked, chosen and copied into buffers for the workers, those of archives
//! (`source.rs`) and frames of captures (`captures.rs`) alike.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};

use wirebeat_report::model::LeftOut;
use wirebeat_trace::Source;
use wirebeat_trace::archive::{Record, Timestamp};
use wirebeat_trace::select::Selection;
use wirebeat_traffic::spec::replay::OnBad;
use wirebeat_units::WallTime;

use super::captures::{Captures, Preloaded};
use super::devices::{Devices, Member, chosen};
use super::source::Archives;
use super::{LOOK, Live, Recording};
use crate::error::RunError;

/// Bytes before the data of a record in a buffer: its time in nanoseconds, the number of its sub-flow, its tag, and the
/// length of its data.
pub(super) const HEAD: usize = 8 + 4 + 2 + 2;
/// The first buffer is this long, so that what cannot be read from the beginning is known soon.
const FIRST: usize = 1 << 20;

/// Records of a recording in a buffer, one after the other.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) bytes: Vec<u8>,
    /// The number of the first of them.
    pub(super) number: u64,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// Records that were handed on.
    pub(crate) records: u64,
    /// What was no record or could not be sent, and was skipped.
    pub(crate) left_out: Vec<LeftOut>,
    /// What is counted by itself, by tag.
    pub(crate) members: Vec<Member>,
    /// What whoever asked for it should know.
    pub(crate) notes: Vec<String>,
    /// Why it ended before its end.
    pub(crate) error: Option<String>,
}

/// What reads a recording.
pub(super) struct Readers {
    recording: Recording,
    selection: Selection,
    devices: Devices,
    preloaded: Preloaded,
    /// Opened beforehand, so that what cannot be read is known before the run.
    first: Option<Input>,
    notes: Vec<String>,
}

/// What is read.
enum Input {
    Archives(Archives),
    Captures(Box<Captures>),
}

/// The way to a worker, and the way on which its buffers come back.
pub(super) type Way = (SyncSender<Filled>, Receiver<Vec<u8>>);

/// A record that cannot be sent.
pub(super) struct Unsendable {
    pub(super) kind: &'static str,
    pub(super) why: String,
    /// Nobody asked that such ones are left out.
    pub(super) wanted: bool,
}

impl Readers {
    /// Opens the files of a recording.
    pub(super) fn open(recording: &Recording) -> Result<Readers, RunError> {
        let replay = &recording.replay;
        let told = |why: String| RunError::Usage(format!("flow '{}': {why}", recording.name));
        let moment = |time: Option<WallTime>| {
            let us = |time: WallTime| (time.unix().get() / 1000) as i64;
            time.map(|time| Timestamp::utc(us(time)).map_err(|why| told(format!("{time}: {why}"))))
                .transpose()
        };
        let selection = Selection {
            from: moment(replay.from)?,
            to: moment(replay.to)?,
            devices: chosen(replay).map_err(told)?,
        };
        let devices = Devices::of(recording).map_err(told)?;
        let preloaded = match replay.preload {
            true => Preloaded::read(recording).map_err(told)?,
            false => Preloaded::default(),
        };
        let recording = recording.clone();
        let notes = Vec::new();
        let mut readers = Readers { recording, selection, devices, preloaded, first: None, notes };
        readers.first = Some(readers.source().map_err(told)?);
        Ok(readers)
    }

    /// All that is to be sent, once.
    fn source(&mut self) -> Result<Input, String> {
        let notes = &mut self.notes;
        let Recording { paths, replay, .. } = &self.recording;
        if replay.is_capture() {
            let captures = Captures::open(&self.recording, &self.preloaded)?;
            return Ok(Input::Captures(Box::new(captures)));
        }
        let open = Archives::open(paths, replay, &self.selection, |note| notes.push(note));
        open.map(Input::Archives)
    }

    /// Reads to the end, or until it is told to halt.
    pub(super) fn run(mut self, ways: Vec<Way>, halt: &AtomicBool, live: &Live) -> Summary {
        let mut filling =
            Filling { ways, turn: 0, buffer: Vec::new(), halt, live, begun: 0, next: 0 };
        let mut summary = Summary::default();
        summary.error = self.read_all(&mut filling, &mut summary.left_out).err();
        summary.members = self.devices.members();
        summary.notes = self.notes;
        summary.notes.extend(self.devices.note());
        if summary.error.as_deref() == Some(HALTED) {
            summary.error = None;
        }
        // what is before the place of an error is sent
        let _ = filling.hand_on();
        summary.records = filling.next;
        summary
    }

    fn read_all(
        &mut self,
        filling: &mut Filling<'_>,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<(), String> {
        let capacity = usize::try_from(self.recording.replay.buffer().get()).unwrap_or(usize::MAX);
        filling.begin(FIRST.min(capacity))?;
        let mut times = TimeLine::default();
        let mut to = (filling, capacity);
        for _ in 0..self.recording.replay.times.get() {
            let mut source = match self.first.take() {
                Some(source) => source,
                None => self.source()?,
            };
            times.again();
            let done = match &mut source {
                Input::Archives(source) => {
                    self.read_records(source, &mut times, &mut to, left_out)?
                }
                Input::Captures(source) => {
                    self.read_frames(source, &mut times, &mut to, left_out)?
                }
            };
            // nothing was in it, and nothing will be
            if done || to.0.next == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads archives to their end; says whether there are as many records as were wanted.
    fn read_records(
        &mut self,
        source: &mut Archives,
        times: &mut TimeLine,
        (filling, capacity): &mut (&mut Filling<'_>, usize),
        left_out: &mut Vec<LeftOut>,
    ) -> Result<bool, String> {
        while filling.reading(|| source.advance()).map_err(|error| error.to_string())? {
            let record = source.record();
            if filling.next >= self.recording.count {
                return Ok(true);
            }
            let at = times.at(record.time.unix_us(), 1000);
            match self.check(&record) {
                Ok(place) => filling.add(at, place, record.data, *capacity)?,
                Err(unsendable) => {
                    let what = || {
                        format!(
                            "{}: the record of {} at {}",
                            source.place(),
                            record.device,
                            record.time
                        )
                    };
                    self.unsendable("records", what, unsendable, left_out)?;
                }
            }
        }
        source.skipped().into_iter().for_each(|skipped| add(left_out, skipped));
        Ok(false)
    }

    /// The same of captures. The time of frames that are not sent goes by as well, so that two flows of one capture
    /// keep step.
    fn read_frames(
        &mut self,
        source: &mut Captures,
        times: &mut TimeLine,
        (filling, capacity): &mut (&mut Filling<'_>, usize),
        left_out: &mut Vec<LeftOut>,
    ) -> Result<bool, String> {
        let place = (0, self.recording.flow as u16);
        while let Some(time) = filling.reading(|| source.advance())? {
            if filling.next >= self.recording.count {
                return Ok(true);
            }
            let at = times.at(time, 1);
            match source.take() {
                Ok(Some(frame)) => filling.add(at, place, frame, *capacity)?,
                Ok(None) => {}
                Err(unsendable) => {
                    self.unsendable("frames", || source.place(), unsendable, left_out)?;
                }
            }
        }
        source.skipped().into_iter().for_each(|skipped| add(left_out, skipped));
        Ok(false)
    }

    /// The sub-flow and the tag of a record that can be sent.
    #[inline]
    fn check(&mut self, record: &Record<'_>) -> Result<(u32, u16), Unsendable> {
        if record.data.len() > self.recording.data_max {
            return Err(Unsendable {
                kind: "longer than its packets have room for",
                why: format!(
                    "its data has {} bytes, and packets of this flow have room for {} without fragments; with an index \
                     ('wirebeat archive index') its length is known beforehand, and fragments are allowed for",
                    record.data.len(),
                    self.recording.data_max
                ),
                wanted: true,
            });
        }
        self.devices.place(record.device).ok_or_else(|| Unsendable {
            kind: "of devices without a flow",
            why: format!("its device {} is not in the table of 'flow-of'", record.device),
            wanted: true,
        })
    }

    #[cold]
    fn unsendable(
        &self,
        all: &str,
        what: impl Fn() -> String,
        Unsendable { kind, why, wanted }: Unsendable,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<(), String> {
        let told = format!("{}: {why}", what());
        if wanted && self.recording.replay.on_bad == OnBad::Stop {
            return Err(format!("{told}; 'on-bad: skip' leaves such {all} out"));
        }
        add(left_out, LeftOut { kind: kind.to_owned(), count: 1, first: told });
        Ok(())
    }
}

/// Counts what was left out with others of its kind.
pub(super) fn add(all: &mut Vec<LeftOut>, more: LeftOut) {
    match all.iter_mut().find(|known| known.kind == more.kind) {
        Some(known) => known.count += more.count,
        None => all.push(more),
    }
}

/// Times as nanoseconds since the first record; what is sent again goes on behind what was sent.
#[derive(Default)]
struct TimeLine {
    /// The first time of this turn, and what comes before it.
    first: Option<i64>,
    before: u64,
    last: u64,
    records: u64,
}

impl TimeLine {
    /// From the beginning again, as long after the last as records are apart on average.
    fn again(&mut self) {
        if self.first.take().is_some() {
            let span = self.last - self.before;
            let gap = span.checked_div(self.records.saturating_sub(1)).unwrap_or(0);
            self.before = self.last.saturating_add(gap.max(GAP_MIN));
            self.records = 0;
        }
    }

    /// The time of a record, which is counted in units of so many nanoseconds.
    #[inline]
    fn at(&mut self, time: i64, unit_ns: u64) -> u64 {
        let first = *self.first.get_or_insert(time);
        self.records += 1;
        // In the order of time, so it is not before the first. What is 584 years later is as late as can be.
        let since = time.saturating_sub(first).max(0) as u64;
        self.last = self.before.saturating_add(since.saturating_mul(unit_ns));
        self.last
    }
}

/// The least time from one turn to the next.
const GAP_MIN: u64 = 1_000;

/// Why the reading ended when it was told to.
const HALTED: &str = "halted";

/// The buffer that is being filled.
struct Filling<'a> {
    ways: Vec<Way>,
    /// Whose buffer it is.
    turn: usize,
    buffer: Vec<u8>,
    halt: &'a AtomicBool,
    live: &'a Live,
    /// The number of its first record, and of the next.
    begun: u64,
    next: u64,
}

impl Filling<'_> {
    /// Says while it goes on that a call of the system may be waited for.
    #[inline]
    fn reading<T>(&self, call: impl FnOnce() -> T) -> T {
        self.live.looked.fetch_add(1, Ordering::Relaxed);
        self.live.reading.store(true, Ordering::Relaxed);
        let read = call();
        self.live.reading.store(false, Ordering::Relaxed);
        read
    }

    /// Takes a buffer with this much room from the worker whose turn it is.
    fn begin(&mut self, capacity: usize) -> Result<(), String> {
        let Some((_, back)) = self.ways.get(self.turn) else { return Err(HALTED.to_owned()) };
        loop {
            if self.halt.load(Ordering::Relaxed) {
                return Err(HALTED.to_owned());
            }
            match back.try_recv().map_err(|_| ()).or_else(|()| {
                self.live.ahead.store(true, Ordering::Release);
                back.recv_timeout(LOOK)
            }) {
                Ok(buffer) => {
                    self.buffer = buffer;
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(HALTED.to_owned()),
            }
        }
        self.buffer.clear();
        self.buffer.reserve_exact(capacity);
        self.begun = self.next;
        Ok(())
    }

    /// Gives the buffer to its worker.
    fn hand_on(&mut self) -> Result<(), String> {
        let bytes = std::mem::take(&mut self.buffer);
        if self.next == self.begun {
            return Ok(());
        }
        let Some((worker, _)) = self.ways.get(self.turn) else { return Err(HALTED.to_owned()) };
        // It has two buffers, one of which it works on, so there is room.
        worker.send(Filled { bytes, number: self.begun }).map_err(|_| HALTED.to_owned())?;
        self.live.records.store(self.next, Ordering::Release);
        self.turn = (self.turn + 1) % self.ways.len();
        Ok(())
    }

    #[inline]
    fn add(
        &mut self,
        at_ns: u64,
        (sub_flow, tag): (u32, u16),
        data: &[u8],
        capacity: usize,
    ) -> Result<(), String> {
        if self.buffer.capacity() - self.buffer.len() < HEAD + data.len() {
            self.hand_on()?;
            self.begin(capacity)?;
        }
        self.buffer.extend_from_slice(&at_ns.to_ne_bytes());
        self.buffer.extend_from_slice(&sub_flow.to_ne_bytes());
        self.buffer.extend_from_slice(&tag.to_ne_bytes());
        self.buffer.extend_from_slice(&(data.len() as u16).to_ne_bytes());
        self.buffer.extend_from_slice(data);
        self.next += 1;
        Ok(())
    }
}
