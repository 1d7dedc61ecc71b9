//! Filling buffers with what is read, and handing them on: to the workers in turn, or to be kept where all is read before
//! the run. It does not know where records come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};

use wirebeat_units::Fault;
use wirebeat_wire::checksum::Sum;

use super::buffers::{Buffer, Filled, Head, Work};
use super::{LOOK, Live};

/// The most that is read into memory before the run, of all files of a flow.
pub(super) const PRELOADED: usize = 1 << 30;
/// The longest buffer that it is read into, which may be filled before it shows that there is more.
pub(super) const PRELOADED_AT_ONCE: usize = 64 << 20;

/// Tags have 16 bits.
const TAGS: usize = 1 << 16;

/// The way to a worker, and the way on which its buffers come back, with its beginning.
pub(super) struct Way {
    pub(super) worker: SyncSender<Work>,
    pub(super) back: Receiver<Buffer>,
    pub(super) home: Sender<Buffer>,
}

/// Times as nanoseconds since the first record; what is sent again goes on behind what was sent.
#[derive(Default)]
pub(super) struct TimeLine {
    /// The first time of this turn, and what comes before it.
    first: Option<i128>,
    pub(super) before: u64,
    last: u64,
    records: u64,
    gaps: Gaps,
}

/// Times from one record to the next that are long.
#[derive(Clone, Copy, Debug, Default)]
struct Gaps {
    /// What a longer one is shortened to.
    most: Option<u64>,
    /// From which length on one is told.
    told_from: Option<u64>,
    /// The time of the record before in this turn, as it was recorded.
    last: u64,
    /// How much was taken out of this turn.
    cut: u64,
    shortened: Shortened,
    /// The longest that is to be told, until it is asked for.
    long: Option<u64>,
    longest: u64,
}

/// Times between records that were shortened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shortened {
    pub(crate) gaps: u64,
    /// By how many nanoseconds in all, as they were recorded.
    pub(crate) by_ns: u64,
}

impl TimeLine {
    /// Where a gap of more than `most` is shortened to that, and one of more than `told_from` is told; both in
    /// nanoseconds as it was recorded.
    pub(super) fn new(most: Option<u64>, told_from: Option<u64>) -> TimeLine {
        TimeLine { gaps: Gaps { most, told_from, ..Gaps::default() }, ..TimeLine::default() }
    }

    /// From the beginning again, as long after the last as records are apart on average.
    pub(super) fn again(&mut self) {
        if self.first.take().is_some() {
            let span = self.last - self.before;
            let gap = span.checked_div(self.records.saturating_sub(1)).unwrap_or(0);
            self.before = self.last.saturating_add(gap.max(GAP_MIN));
            self.records = 0;
            (self.gaps.last, self.gaps.cut) = (0, 0);
        }
    }

    /// The time of a record, in nanoseconds since any moment.
    #[inline]
    pub(super) fn at(&mut self, time_ns: i128) -> u64 {
        let first = *self.first.get_or_insert(time_ns);
        self.records += 1;
        // In the order of time, so it is not before the first. What is 584 years later is as late as can be.
        let since = u64::try_from((time_ns - first).max(0)).unwrap_or(u64::MAX);
        let since = self.gaps.shortened(since);
        self.last = self.before.saturating_add(since);
        self.last
    }

    /// A gap that is longer than all before it and is to be told, right before the last record.
    #[inline]
    pub(super) fn long(&mut self) -> Option<u64> {
        self.gaps.long.take()
    }

    /// What was shortened.
    pub(super) fn shortened(&self) -> Shortened {
        self.gaps.shortened
    }
}

impl Gaps {
    /// The time of a record, without what is too much of the gaps before it.
    #[inline]
    fn shortened(&mut self, since: u64) -> u64 {
        let gap = since.saturating_sub(std::mem::replace(&mut self.last, since));
        if let Some(over) =
            self.most.and_then(|most| gap.checked_sub(most)).filter(|over| *over > 0)
        {
            self.cut += over;
            self.shortened.gaps += 1;
            self.shortened.by_ns = self.shortened.by_ns.saturating_add(over);
        }
        if gap > self.longest && self.told_from.is_some_and(|from| gap > from) {
            (self.longest, self.long) = (gap, Some(gap));
        }
        since - self.cut
    }
}

/// The least time from one turn to the next.
const GAP_MIN: u64 = 1_000;

/// Why the reading ended when it was told to.
pub(super) const HALTED: &str = "halted";

/// Buffers that stay.
#[derive(Debug, Default)]
struct KeptBuffers {
    buffers: Vec<Buffer>,
    bytes: usize,
    most: usize,
}

/// The buffer that is being filled.
pub(super) struct Filling<'a> {
    ways: Vec<Way>,
    /// Whose buffer it is.
    turn: usize,
    /// Buffers that are filled before the run.
    kept: Option<KeptBuffers>,
    buffer: Buffer,
    /// Bytes that it may take.
    room: usize,
    /// Whether the sum of the data is wanted.
    sums: bool,
    halt: &'a AtomicBool,
    live: &'a Live,
    /// The number of its first record, and of the next.
    begun: u64,
    pub(super) next: u64,
    /// By tag: how many records there were.
    sequences: Vec<u32>,
}

impl<'a> Filling<'a> {
    pub(super) fn new(sums: bool, ways: Vec<Way>, halt: &'a AtomicBool, live: &'a Live) -> Self {
        Filling {
            ways,
            turn: 0,
            kept: None,
            buffer: Buffer::default(),
            room: 0,
            sums,
            halt,
            live,
            begun: 0,
            next: 0,
            sequences: vec![0; TAGS],
        }
    }

    /// Whether all of it is read before the run.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// What others see.
    pub(super) fn live(&self) -> &Live {
        self.live
    }

    /// Keeps what is filled, so many bytes at the most.
    pub(super) fn keeping(self, most: usize) -> Self {
        Filling { kept: Some(KeptBuffers { most, ..KeptBuffers::default() }), ..self }
    }

    /// What was kept, and by tag how many records of it; `None` if it was too much.
    pub(super) fn kept(self) -> Option<(Vec<Buffer>, Vec<u32>)> {
        let kept = self.kept.filter(|kept| kept.bytes <= kept.most)?;
        Some((kept.buffers, self.sequences))
    }

    /// Says while it goes on that a call of the system may be waited for.
    #[inline]
    pub(super) fn reading<T>(&self, call: impl FnOnce() -> T) -> T {
        // nobody else writes, and an atomic addition would wait until all that was copied before has left this CPU
        let looked = self.live.looked.load(Ordering::Relaxed);
        self.live.looked.store(looked.wrapping_add(1), Ordering::Relaxed);
        self.live.reading.store(true, Ordering::Relaxed);
        let read = call();
        self.live.reading.store(false, Ordering::Relaxed);
        read
    }

    /// Takes a buffer with this much room from the worker whose turn it is.
    pub(super) fn begin(&mut self, capacity: usize) -> Result<(), Fault> {
        self.buffer = match &self.kept {
            Some(kept) if kept.bytes > kept.most => return Err(HALTED.into()),
            Some(_) => Buffer::default(),
            None => self.take()?,
        };
        self.buffer.clear(capacity);
        self.room = capacity;
        Ok(())
    }

    fn take(&self) -> Result<Buffer, Fault> {
        let Some(Way { back, .. }) = self.ways.get(self.turn) else {
            return Err(HALTED.into());
        };
        loop {
            if self.halt.load(Ordering::Relaxed) {
                return Err(HALTED.into());
            }
            match back.try_recv().map_err(|_| ()).or_else(|()| {
                self.live.ahead.store(true, Ordering::Release);
                back.recv_timeout(LOOK)
            }) {
                Ok(buffer) => return Ok(buffer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(HALTED.into()),
            }
        }
    }

    /// Gives the buffer to its worker.
    pub(super) fn hand_on(&mut self) -> Result<(), Fault> {
        let buffer = std::mem::take(&mut self.buffer);
        if buffer.heads.is_empty() {
            return Ok(());
        }
        if let Some(kept) = &mut self.kept {
            let buffer = buffer.fitting();
            kept.bytes += buffer.taken();
            kept.buffers.push(buffer);
            return Ok(());
        }
        let Some(Way { home, .. }) = self.ways.get(self.turn) else {
            return Err(HALTED.into());
        };
        let filled = Filled::new(buffer, Some(home.clone()));
        self.send(filled, usize::MAX, 0, &Arc::default())
    }

    /// Gives records to the worker whose turn it is.
    pub(super) fn send(
        &mut self,
        filled: Arc<Filled>,
        most: usize,
        later_ns: u64,
        before: &Arc<[u32]>,
    ) -> Result<(), Fault> {
        let Some(Way { worker, .. }) = self.ways.get(self.turn) else {
            return Err(HALTED.into());
        };
        let records = filled.buffer.heads.len().min(most) as u64;
        let before = Arc::clone(before);
        let work = Work { filled, number: self.begun, most, later_ns, before };
        match worker.try_send(work) {
            Ok(()) => {}
            Err(TrySendError::Full(work)) => {
                self.live.ahead.store(true, Ordering::Release);
                worker.send(work).map_err(|_| Fault::from(HALTED))?;
            }
            Err(TrySendError::Disconnected(_)) => return Err(HALTED.into()),
        }
        self.begun += records;
        self.next = self.next.max(self.begun);
        self.live.records.store(self.begun, Ordering::Release);
        self.turn = (self.turn + 1) % self.ways.len();
        Ok(())
    }

    #[inline]
    pub(super) fn add(
        &mut self,
        time_ns: u64,
        (sub_flow, tag): (u32, u16),
        data: &[u8],
        capacity: usize,
    ) -> Result<(), Fault> {
        if self.buffer.taken() + data.len() + size_of::<Head>() > self.room {
            self.hand_on()?;
            self.begin(capacity)?;
        }
        let sum = self.sums.then(|| Sum::ZERO.add_bytes(data).folded());
        let sequence = self.sequences.get(usize::from(tag)).copied().unwrap_or(0);
        let len = data.len() as u16;
        let head = Head { time_ns, start: 0, sub_flow, tag, len, sum, sequence };
        // a buffer has room for one of any length
        if self.buffer.add(head, data) {
            self.next += 1;
            if let Some(next) = self.sequences.get_mut(usize::from(tag)) {
                *next = sequence.wrapping_add(1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_gaps_are_shortened_and_told() {
        let mut times = TimeLine::new(Some(5_000), None);
        let at: Vec<u64> =
            [10_i64, 12, 100, 101, 200].map(|us| times.at(i128::from(us) * 1000)).to_vec();
        assert_eq!(at, [0, 2_000, 7_000, 8_000, 13_000]);
        assert_eq!(times.shortened(), Shortened { gaps: 2, by_ns: 83_000 + 94_000 });
        times.again();
        assert_eq!((times.at(10_000), times.at(100_000)), (16_250, 21_250));
        let mut times = TimeLine::new(None, Some(50_000));
        times.at(i128::from(i64::MIN) * 1000);
        times.at(i128::from(i64::MAX) * 1000);
        assert_eq!((times.long(), times.long()), (Some(u64::MAX), None));
        assert_eq!(times.at(i128::from(i64::MAX) * 1000), u64::MAX);
    }

    /// Records of 1000 bytes that are kept, up to so many bytes, in buffers of 128 KiB.
    fn kept(records: usize, most: usize) -> Option<Vec<Buffer>> {
        let (halt, live) = (AtomicBool::new(false), Live::default());
        let mut filling = Filling::new(false, Vec::new(), &halt, &live).keeping(most);
        let capacity = 128 << 10;
        filling.begin(capacity).unwrap();
        for n in 0..records {
            if let Err(why) = filling.add(n as u64, (0, 0), &[7; 1000], capacity) {
                assert_eq!(why.what, HALTED);
                break;
            }
        }
        filling.hand_on().unwrap();
        filling.kept().map(|(buffers, _)| buffers)
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let all: usize = 1000 * (1000 + size_of::<Head>());
        let buffers = kept(1000, all).unwrap();
        assert_eq!(buffers.iter().map(|buffer| buffer.heads.len()).sum::<usize>(), 1000);
        assert_eq!(buffers.iter().map(Buffer::taken).sum::<usize>(), all);
        assert!(kept(1000, all - 1).is_none(), "one byte too much");
        assert!(kept(100_000, all).is_none());
    }
}
