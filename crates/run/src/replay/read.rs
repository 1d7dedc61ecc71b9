//! The thread that reads: records are checked, chosen and copied into buffers for the workers, those of archives
//! (`source.rs`) and frames of captures (`captures.rs`) alike. What is preloaded is read once before the run, and its
//! buffers are handed on again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wirebeat_archive::Source;
use wirebeat_archive::select::Selection;
use wirebeat_archive::time_series::{Device, Record, Timestamp};
use wirebeat_engine_linux::kernel::Piece;
use wirebeat_report::model::LeftOut;
use wirebeat_traffic::scenario::Replay;
use wirebeat_traffic::scenario::replay::OnBad;
use wirebeat_units::{Fault, Nanos, WallTime, fault};

use super::buffers::{Buffer, Filled};
use super::captures::{Captures, HeldBack};
use super::copies::CopySource;
use super::devices::{Devices, Member, chosen};
use super::filling::{Filling, HALTED, PRELOADED, PRELOADED_AT_ONCE, Shortened, TimeLine, Way};
use super::nothing;
use super::source::Archives;
use super::{Live, LongGap, Recording};
use crate::error::RunError;

/// The first buffer is this long, so that what cannot be read from the beginning is known soon.
const FIRST: usize = 1 << 20;
/// Buffers that the port shares come back when all of their records have left, so that what leaves as fast as it can
/// wants longer ones than fit the cache: of 1472 bytes 1.7 M/s with 2 MiB, 2.0 with 8 and 16, 1.6 with 32.
const SHARED: usize = 8 << 20;

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
    /// Frames of a capture whose times were before that of the frame before them.
    pub(crate) held_back: HeldBack,
    /// Times between records that were shortened.
    pub(crate) shortened: Shortened,
    /// Copies of a capture that have begun; `None` where none are made.
    pub(crate) copies: Option<u64>,
    /// Why it ended before its end.
    pub(crate) error: Option<Fault>,
}

/// What reads a recording.
pub(super) struct Readers {
    recording: Recording,
    selection: Selection,
    devices: Devices,
    preloaded: Option<Preloaded>,
    /// Bytes of a buffer.
    capacity: usize,
    /// Opened beforehand, so that what cannot be read is known before the run.
    first: Option<Input>,
    notes: Vec<String>,
    held_back: HeldBack,
    shortened: Shortened,
    /// The longest gap that is to be told, and where it is.
    long_gap: Option<LongGap>,
    /// Copies that have begun.
    copies: u64,
}

/// What is read.
enum Input {
    Archives(Archives),
    Captures(Box<Captures>),
    Copies(Box<CopySource>),
}

/// What was read before the run: all of it, once.
struct Preloaded {
    buffers: Vec<Buffer>,
    /// By tag: records of a turn.
    records: Vec<u32>,
    /// From the first record to the first of the next turn.
    turn_ns: u64,
    left_out: Vec<LeftOut>,
    /// Why it ended before its end.
    error: Option<Fault>,
}

/// A record that cannot be sent.
pub(super) struct Unsendable {
    pub(super) kind: &'static str,
    pub(super) why: Fault,
    /// Nobody asked that such ones are left out.
    pub(super) wanted: bool,
}

impl Readers {
    /// Opens the files of a recording.
    pub(super) fn open(recording: &Recording) -> Result<Readers, RunError> {
        let replay = &recording.replay;
        let told = |why: Fault| RunError::usage(why.at(format!("flow '{}'", recording.name)));
        let moment = |time: Option<WallTime>| {
            let at = |time: WallTime| Timestamp::from_ns(time.unix().get().into(), 0);
            time.map(|time| at(time).map_err(|why| told(why.fault().at(time)))).transpose()
        };
        let selection = Selection {
            from: moment(replay.from)?,
            to: moment(replay.to)?,
            devices: chosen(replay).map_err(told)?,
        };
        let devices = Devices::of(recording).map_err(told)?;
        let (preload, recording, notes) = (replay.preload, recording.clone(), Vec::new());
        let capacity = usize::try_from(replay.buffer().get()).unwrap_or(usize::MAX);
        let mut readers = Readers {
            recording,
            selection,
            devices,
            preloaded: None,
            capacity,
            first: None,
            notes,
            held_back: HeldBack::default(),
            shortened: Shortened::default(),
            long_gap: None,
            copies: 0,
        };
        readers.first = Some(readers.source().map_err(told)?);
        if preload {
            readers.preloaded = Some(readers.preload().map_err(told)?);
        }
        Ok(readers)
    }

    /// Bytes of the buffers that it would read into, two for each worker, or has read into, where a port shares them.
    pub(super) fn shared_lengths(&self) -> Vec<usize> {
        let replay = &self.recording.replay;
        match &self.preloaded {
            Some(preloaded) => preloaded.buffers.iter().map(Buffer::used).collect(),
            None if replay.is_unlimited() && replay.buffer.is_none() => {
                vec![self.capacity.max(SHARED); 2 * usize::from(replay.workers.get())]
            }
            None => vec![self.capacity; 2 * usize::from(replay.workers.get())],
        }
    }

    /// Takes memory of these lengths, and what was read moves into it. The buffers that are to be read into.
    pub(super) fn share(&mut self, pieces: Vec<Piece>) -> Vec<Buffer> {
        if let Some(Preloaded { buffers, .. }) = &mut self.preloaded {
            let old = std::mem::take(buffers).into_iter();
            *buffers = old.zip(pieces).map(|(buffer, piece)| buffer.moved(piece)).collect();
            return Vec::new();
        }
        let buffers: Vec<Buffer> = pieces.into_iter().map(Buffer::shared).collect();
        self.capacity = buffers.iter().map(Buffer::len).min().unwrap_or(self.capacity);
        buffers
    }

    /// Reads all of it once, before the run.
    fn preload(&mut self) -> Result<Preloaded, Fault> {
        let (halt, live) = (AtomicBool::new(false), Live::default());
        let filling = Filling::new(self.recording.sums, Vec::new(), &halt, &live);
        let mut filling = filling.keeping(PRELOADED);
        let (mut times, mut left_out) = (self.time_line(), Vec::new());
        let capacity = self.capacity.min(PRELOADED_AT_ONCE);
        filling.begin(capacity)?;
        let error = self.read_once(&mut filling, capacity, &mut times, &mut left_out).err();
        filling.hand_on()?;
        self.shortened = times.shortened();
        let (buffers, records) = filling.kept().ok_or_else(|| {
            fault!(
                "there is more than {} MiB to preload", PRELOADED >> 20;
                "leave 'preload' out, and it is read while the run goes on"
            )
        })?;
        times.again();
        Ok(Preloaded { buffers, records, turn_ns: times.before, left_out, error })
    }

    /// All that is to be sent, once.
    fn source(&mut self) -> Result<Input, Fault> {
        let notes = &mut self.notes;
        let Recording { paths, replay, .. } = &self.recording;
        if let Some(copies) = &self.recording.copies {
            return CopySource::open(&self.recording, copies)
                .map(|all| Input::Copies(Box::new(all)));
        }
        if replay.is_capture() {
            let captures = Captures::open(&self.recording)?;
            return Ok(Input::Captures(Box::new(captures)));
        }
        let open = Archives::open(paths, replay, &self.selection, |note| notes.push(note));
        open.map(Input::Archives)
    }

    /// Reads to the end, or until it is told to halt.
    pub(super) fn run(mut self, ways: Vec<Way>, halt: &AtomicBool, live: &Live) -> Summary {
        let mut filling = Filling::new(self.recording.sums, ways, halt, live);
        let mut summary = Summary::default();
        if let Some(gap) = self.long_gap.take() {
            live.tell_gap(gap);
        }
        let left_out = &mut summary.left_out;
        let ended = match self.preloaded.take() {
            Some(preloaded) => self.send_preloaded(preloaded, &mut filling, left_out),
            None => self.read_all(&mut filling, left_out),
        };
        summary.error = ended.err();
        summary.members = self.devices.members();
        summary.copies = self.recording.copies.is_some().then_some(self.copies);
        (summary.held_back, summary.shortened) = (self.held_back.clone(), self.shortened);
        summary.notes = std::mem::take(&mut self.notes);
        summary.notes.extend(self.devices.note());
        summary.notes.extend(self.devices.note_shared());
        if summary.error.as_ref().is_some_and(|error| error.what == HALTED) {
            summary.error = None;
        }
        // what is before the place of an error is sent
        let _ = filling.hand_on();
        summary.records = filling.next;
        if summary.records == 0 && summary.error.is_none() && !halt.load(Ordering::Relaxed) {
            summary.error = Some(self.nothing(&summary.left_out));
        }
        summary
    }

    /// Why there was nothing to send.
    fn nothing(&self, left_out: &[LeftOut]) -> Fault {
        match left_out.first() {
            Some(LeftOut { kind, count, first, .. }) => {
                fault!(
                    "nothing to send: all of it was left out ({count} {kind}; the first is {first})"
                )
            }
            None => nothing::why(&self.recording, &self.selection),
        }
    }

    fn read_all(
        &mut self,
        filling: &mut Filling<'_>,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<(), Fault> {
        let capacity = self.capacity;
        filling.begin(FIRST.min(capacity))?;
        let mut times = self.time_line();
        for _ in 0..self.recording.replay.times.get() {
            let done = self.read_once(filling, capacity, &mut times, left_out)?;
            if self.recording.copies.is_none() {
                self.shortened = times.shortened();
            }
            // nothing was in it, and nothing will be
            if done || filling.next == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Where long gaps are shortened, or told: where they would be waited for and no end by time was asked for.
    fn time_line(&self) -> TimeLine {
        let Recording { replay, stop, .. } = &self.recording;
        let recorded = |time: Nanos| replay.speed.multiply(time.get());
        let endless = replay.tight_loop.is_none() && *stop == Nanos::MAX;
        let told_from = endless.then_some(Replay::LONG_GAP).filter(|_| replay.max_gap.is_none());
        TimeLine::new(replay.max_gap.map(recorded), told_from.map(recorded))
    }

    /// Reads all of it; says whether there are as many records as were wanted.
    fn read_once(
        &mut self,
        filling: &mut Filling<'_>,
        capacity: usize,
        times: &mut TimeLine,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<bool, Fault> {
        let mut source = match self.first.take() {
            Some(source) => source,
            None => self.source()?,
        };
        times.again();
        let mut to = (filling, capacity);
        match &mut source {
            Input::Archives(source) => {
                let ended = self.read_records(source, times, &mut to, left_out);
                self.devices.learn(source.names());
                ended
            }
            Input::Captures(source) => {
                let read = self.read_frames(source, times, &mut to, left_out);
                self.held_back.add(&source.held_back());
                read
            }
            Input::Copies(source) => {
                let read = self.read_copies(source, &mut to, left_out);
                self.copies += source.begun();
                read
            }
        }
    }

    /// A long gap before the record at `place`, as it was recorded.
    #[cold]
    fn tell_gap(&mut self, filling: &Filling<'_>, recorded_ns: u64, place: String) {
        let gap_ns = self.recording.replay.speed.divide(recorded_ns.into());
        let gap = LongGap { gap: Nanos::new(gap_ns), place };
        match filling.is_kept() {
            true => self.long_gap = Some(gap),
            false => filling.live().tell_gap(gap),
        }
    }

    /// Hands on what was read before, as often as it is to be sent.
    fn send_preloaded(
        &self,
        preloaded: Preloaded,
        filling: &mut Filling<'_>,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<(), Fault> {
        let Preloaded { buffers, records, turn_ns, left_out: each_turn, error } = preloaded;
        let buffers: Vec<_> = buffers.into_iter().map(|buffer| Filled::new(buffer, None)).collect();
        let (mut later_ns, mut before) = (0_u64, Arc::default());
        for turn in 1..=self.recording.replay.times.get() {
            for filled in &buffers {
                let left = self.recording.count - filling.next;
                if left == 0 {
                    return Ok(());
                }
                let most = usize::try_from(left).unwrap_or(usize::MAX);
                filling.send(Arc::clone(filled), most, later_ns, &before)?;
            }
            each_turn.iter().for_each(|more| add(left_out, more.clone()));
            match &error {
                Some(error) => return Err(error.clone()),
                None if filling.next == 0 => return Ok(()),
                None => {}
            }
            later_ns = later_ns.saturating_add(turn_ns);
            // numbers go round after 2^32
            before = records.iter().map(|of_tag| of_tag.wrapping_mul(turn as u32)).collect();
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
    ) -> Result<bool, Fault> {
        while filling.reading(|| source.advance()).map_err(|error| error.to_string())? {
            let record = source.record();
            if filling.next >= self.recording.count {
                return Ok(true);
            }
            let at = times.at(record.time.unix_ns());
            if let Some(gap) = times.long() {
                self.tell_gap(filling, gap, source.place());
            }
            match self.check(&record) {
                Ok(place) => filling.add(at, place, record.data, *capacity)?,
                Err(unsendable) => {
                    let what = || {
                        format!(
                            "{}: the record of {} at {}",
                            source.place(),
                            named(source.name(record.device), record.device),
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
    ) -> Result<bool, Fault> {
        let place = (0, self.recording.flow as u16);
        while let Some(time) = filling.reading(|| source.advance())? {
            if filling.next >= self.recording.count {
                return Ok(true);
            }
            let at = times.at(time.into());
            if let Some(gap) = times.long() {
                self.tell_gap(filling, gap, source.place());
            }
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

    /// The same of copies of a capture, which was read before. Their times are those of the flow.
    fn read_copies(
        &mut self,
        source: &mut CopySource,
        (filling, capacity): &mut (&mut Filling<'_>, usize),
        left_out: &mut Vec<LeftOut>,
    ) -> Result<bool, Fault> {
        let template = source.template();
        template.left_out.iter().for_each(|more| add(left_out, more.clone()));
        self.held_back.add(&template.held_back);
        self.shortened = template.shortened;
        let place = (0, self.recording.flow as u16);
        while let Some((at, frame)) = source.take()? {
            if filling.next >= self.recording.count {
                return Ok(true);
            }
            filling.add(at, place, frame, *capacity)?;
        }
        Ok(true)
    }

    /// The sub-flow and the tag of a record that can be sent.
    #[inline]
    fn check(&mut self, record: &Record<'_>) -> Result<(u32, u16), Unsendable> {
        if record.data.len() > self.recording.data_max {
            return Err(Unsendable {
                kind: "longer than its packets have room for",
                why: fault!(
                    "its data has {} bytes, and packets of this flow have room for {} without \
                     fragments",
                    record.data.len(), self.recording.data_max;
                    "with an index ('wirebeat archive index') its length is known beforehand, \
                     and fragments are allowed for"
                ),
                wanted: true,
            });
        }
        self.devices.place(record.device).ok_or_else(|| Unsendable {
            kind: "of devices without a flow",
            why: fault!("its device {} is not in the table of 'flow-of'", record.device),
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
    ) -> Result<(), Fault> {
        let told = why.at(what());
        if wanted && self.recording.replay.on_bad == OnBad::Stop {
            return Err(
                told.then_hint(format!("--on-bad skip ('on-bad: skip') leaves such {all} out"))
            );
        }
        let kind = kind.to_owned();
        add(left_out, LeftOut { kind, count: 1, records: 1, bytes: 0, first: told.to_string() });
        Ok(())
    }
}

/// A device as it is shown.
fn named(name: Option<&str>, device: Device) -> String {
    name.map_or_else(|| device.to_string(), str::to_owned)
}

/// Counts what was left out with others of its kind.
pub(super) fn add(all: &mut Vec<LeftOut>, more: LeftOut) {
    match all.iter_mut().find(|known| known.kind == more.kind) {
        Some(known) => {
            known.count += more.count;
            known.records += more.records;
            known.bytes += more.bytes;
        }
        None => all.push(more),
    }
}
