//! Filling buffers with what is read, and handing them on: to the workers in turn, or to be kept where all is read before
//! the run. It does not know where records come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};

use wirebeat_wire::checksum::Sum;

use super::buffers::{Buffer, Filled, Head, Work};
use super::{LOOK, Live};

/// The most that is read into memory before the run, of all files of a flow.
pub(super) const PRELOADED: usize = 1 << 30;
/// The longest buffer that it is read into, which may be filled before it shows that there is more.
pub(super) const PRELOADED_AT_ONCE: usize = 64 << 20;

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
}

impl TimeLine {
    /// From the beginning again, as long after the last as records are apart on average.
    pub(super) fn again(&mut self) {
        if self.first.take().is_some() {
            let span = self.last - self.before;
            let gap = span.checked_div(self.records.saturating_sub(1)).unwrap_or(0);
            self.before = self.last.saturating_add(gap.max(GAP_MIN));
            self.records = 0;
        }
    }

    /// The time of a record, in nanoseconds since any moment.
    #[inline]
    pub(super) fn at(&mut self, time_ns: i128) -> u64 {
        let first = *self.first.get_or_insert(time_ns);
        self.records += 1;
        // In the order of time, so it is not before the first. What is 584 years later is as late as can be.
        let since = u64::try_from((time_ns - first).max(0)).unwrap_or(u64::MAX);
        self.last = self.before.saturating_add(since);
        self.last
    }
}

/// The least time from one turn to the next.
const GAP_MIN: u64 = 1_000;

/// Why the reading ended when it was told to.
pub(super) const HALTED: &str = "halted";

/// Buffers that stay.
#[derive(Debug, Default)]
struct Kept {
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
    kept: Option<Kept>,
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
}

impl<'a> Filling<'a> {
    pub(super) fn new(
        sums: bool,
        ways: Vec<Way>,
        (halt, live): (&'a AtomicBool, &'a Live),
    ) -> Self {
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
        }
    }

    /// Keeps what is filled, so many bytes at the most.
    pub(super) fn keeping(self, most: usize) -> Self {
        Filling { kept: Some(Kept { most, ..Kept::default() }), ..self }
    }

    /// What was kept; `None` if it was too much.
    pub(super) fn kept(self) -> Option<Vec<Buffer>> {
        self.kept.filter(|kept| kept.bytes <= kept.most).map(|kept| kept.buffers)
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
    pub(super) fn begin(&mut self, capacity: usize) -> Result<(), String> {
        self.buffer = match &self.kept {
            Some(kept) if kept.bytes > kept.most => return Err(HALTED.to_owned()),
            Some(_) => Buffer::default(),
            None => self.take()?,
        };
        self.buffer.clear(capacity);
        self.room = capacity;
        Ok(())
    }

    fn take(&self) -> Result<Buffer, String> {
        let Some(Way { back, .. }) = self.ways.get(self.turn) else {
            return Err(HALTED.to_owned());
        };
        loop {
            if self.halt.load(Ordering::Relaxed) {
                return Err(HALTED.to_owned());
            }
            match back.try_recv().map_err(|_| ()).or_else(|()| {
                self.live.ahead.store(true, Ordering::Release);
                back.recv_timeout(LOOK)
            }) {
                Ok(buffer) => return Ok(buffer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(HALTED.to_owned()),
            }
        }
    }

    /// Gives the buffer to its worker.
    pub(super) fn hand_on(&mut self) -> Result<(), String> {
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
            return Err(HALTED.to_owned());
        };
        let filled = Filled::new(buffer, Some(home.clone()));
        self.send(filled, usize::MAX, 0)
    }

    /// Gives records to the worker whose turn it is.
    pub(super) fn send(
        &mut self,
        filled: Arc<Filled>,
        most: usize,
        later_ns: u64,
    ) -> Result<(), String> {
        let Some(Way { worker, .. }) = self.ways.get(self.turn) else {
            return Err(HALTED.to_owned());
        };
        let records = filled.buffer.heads.len().min(most) as u64;
        let work = Work { filled, number: self.begun, most, later_ns };
        match worker.try_send(work) {
            Ok(()) => {}
            Err(TrySendError::Full(work)) => {
                self.live.ahead.store(true, Ordering::Release);
                worker.send(work).map_err(|_| HALTED.to_owned())?;
            }
            Err(TrySendError::Disconnected(_)) => return Err(HALTED.to_owned()),
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
    ) -> Result<(), String> {
        if self.buffer.taken() + data.len() + size_of::<Head>() > self.room {
            self.hand_on()?;
            self.begin(capacity)?;
        }
        let sum = self.sums.then(|| Sum::ZERO.add_bytes(data).folded());
        let head = Head { time_ns, start: 0, sub_flow, tag, len: data.len() as u16, sum };
        // a buffer has room for one of any length
        if self.buffer.add(head, data) {
            self.next += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of 1000 bytes that are kept, up to so many bytes, in buffers of 128 KiB.
    fn kept(records: usize, most: usize) -> Option<Vec<Buffer>> {
        let (halt, live) = (AtomicBool::new(false), Live::default());
        let mut filling = Filling::new(false, Vec::new(), (&halt, &live)).keeping(most);
        let capacity = 128 << 10;
        filling.begin(capacity).unwrap();
        for n in 0..records {
            if let Err(why) = filling.add(n as u64, (0, 0), &[7; 1000], capacity) {
                assert_eq!(why, HALTED);
                break;
            }
        }
        filling.hand_on().unwrap();
        filling.kept()
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
