//! The writing thread: takes the blocks of all taps, puts their frames in order of time, and shows them to the sinks.
//!
//! Its memory is bounded: blocks are made once and go round. Frames of one tap keep their order; those of several are in order
//! of time as long as no tap is behind by more than [`PATIENCE`].

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wirebeat_units::Nanos;

use crate::record::{decode, first_at};
use crate::seen::{InterfaceCounts, Seen};
use crate::sink::{Sink, Written};
use crate::tap::{Block, Note, Tap};

/// Bytes of a block.
const BLOCK: usize = 512 << 10;
/// How often sinks are told that time goes on.
const PAUSE: Duration = Duration::from_millis(100);
/// How long frames of one tap wait for those of another.
pub const PATIENCE: Duration = Duration::from_millis(500);
/// The least and the most blocks of a tap, and how many all have together as long as there are not too many taps.
const BLOCKS_MIN: usize = 4;
const BLOCKS_MAX: usize = 64;
const BLOCKS: usize = 256;

/// Makes times of the clock of the day.
pub trait UnixClock: Send {
    /// Nanoseconds since 1970 (UTC) at a time of the monotonic clock.
    fn unix_ns(&self, at: Nanos) -> u64;

    /// Reads the clocks again. Called some times a second.
    fn refresh(&mut self);

    /// It is now, on the monotonic clock.
    fn now(&self) -> Nanos;
}

/// A port whose frames are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// Its place among the interfaces of the capture.
    pub interface: u16,
    /// How many bytes of a frame are kept; 0: all.
    pub snap_len: u32,
}

/// What a sink did.
#[derive(Debug)]
pub struct SinkResult {
    /// What it has written.
    pub written: Written,
    /// The first error; no frame was written after it.
    pub error: Option<io::Error>,
}

/// What became of all frames.
#[derive(Debug, Default)]
pub struct PumpResult {
    /// The counts of each interface.
    pub counts: Vec<InterfaceCounts>,
    /// What each sink did, in the order in which they were given.
    pub sinks: Vec<SinkResult>,
}

/// The writing thread at work.
#[derive(Debug)]
pub struct Pump {
    thread: Option<JoinHandle<PumpResult>>,
}

/// Tells of one sink whether it still writes.
#[derive(Clone, Debug, Default)]
pub struct SinkWatch(Arc<AtomicBool>);

impl SinkWatch {
    /// Whether it writes no frames any more: it is full, or has failed.
    pub fn has_ended(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Makes taps for a writing thread, which ends when all of them and all clones of this are gone.
#[derive(Clone, Debug)]
pub struct TapSource {
    full: Sender<Message>,
    taps: Arc<AtomicUsize>,
    blocks_left: Arc<AtomicUsize>,
    closed: Arc<AtomicBool>,
}

impl TapSource {
    /// A tap for the thread of one queue.
    pub fn tap(&self, tapped: Tapped) -> Tap {
        let number = self.taps.fetch_add(1, Ordering::Relaxed);
        let left = self.blocks_left.load(Ordering::Relaxed);
        let blocks = (left / 2).clamp(BLOCKS_MIN, BLOCKS_MAX);
        self.blocks_left.store(left.saturating_sub(blocks), Ordering::Relaxed);
        let (back, empty) = mpsc::channel();
        for _ in 0..blocks {
            // written to once, so that no thread waits for its pages later
            let mut block = vec![1; BLOCK];
            block.clear();
            let _ = back.send(block);
        }
        let _ = self.full.send(Message::Lane(number, Lane::new(tapped.interface, back)));
        let of = (number, tapped.snap_len);
        Tap::new(of, self.full.clone(), empty, Arc::clone(&self.closed))
    }

    /// Shows nothing to anybody until [`TapSource::go_on`], so that sinks which are added one after the other see the same frames
    /// from the first on. What no block has room for meanwhile counts as lost.
    pub fn hold(&self) {
        let _ = self.full.send(Message::Hold(true));
    }

    /// All sinks are there: shows them what came since [`TapSource::hold`], and what comes.
    pub fn go_on(&self) {
        let _ = self.full.send(Message::Hold(false));
    }

    /// Shows what comes from now on to one more sink. Their results are in the order in which they were added.
    pub fn add_sink(&self, sink: Box<dyn Sink>) -> SinkWatch {
        let watch = SinkWatch::default();
        let _ = self.full.send(Message::Sink(sink, watch.clone()));
        watch
    }
}

impl Pump {
    /// Starts it: the sinks that are added to the source take what the taps note that are made of it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(clock: Box<dyn UnixClock>, interfaces: usize) -> io::Result<(Pump, TapSource)> {
        let closed = Arc::new(AtomicBool::new(false));
        let (full, blocks) = mpsc::channel();
        let work = Work {
            sinks: Vec::new(),
            clock,
            lanes: BTreeMap::new(),
            counts: vec![InterfaceCounts::default(); interfaces],
            closed: Arc::clone(&closed),
            held: false,
            blocks,
        };
        let thread = thread::Builder::new().name("wb-capture".to_owned());
        let thread = Some(thread.spawn(move || work.run())?);
        let (taps, blocks_left) = (Arc::default(), Arc::new(AtomicUsize::new(BLOCKS)));
        let source = TapSource { full, taps, blocks_left, closed };
        Ok((Pump { thread }, source))
    }

    /// Waits for the end, which comes when all taps are dropped, and what makes them.
    pub fn finish(mut self) -> PumpResult {
        let thread = self.thread.take();
        let ended = thread.and_then(|thread| thread.join().ok());
        ended.unwrap_or_else(|| PumpResult {
            sinks: vec![SinkResult {
                written: Written::default(),
                error: Some(io::Error::other("the writing thread panicked")),
            }],
            ..PumpResult::default()
        })
    }
}

/// A sink, and its first error.
struct Guarded {
    sink: Box<dyn Sink>,
    error: Option<io::Error>,
    watch: SinkWatch,
}

impl Guarded {
    /// Whether it still writes. One that has failed counts what it would have kept.
    fn writes(&self) -> bool {
        self.error.is_none() && !self.sink.is_full()
    }
}

/// What the writing thread is told.
#[allow(missing_debug_implementations, reason = "a sink has no readable form")]
pub(crate) enum Message {
    /// There is one more sink, and who asks for its end.
    Sink(Box<dyn Sink>, SinkWatch),
    /// Whether frames wait until all sinks are there.
    Hold(bool),
    /// There is a new tap, of this number.
    Lane(usize, Lane),
    /// A block is full, or old.
    Block(Block),
}

/// The blocks of one tap.
#[derive(Debug)]
pub(crate) struct Lane {
    interface: u16,
    /// Gives blocks back to the tap.
    back: Sender<Vec<u8>>,
    waiting: VecDeque<Vec<u8>>,
    /// How much of the first was shown.
    shown: usize,
    /// All earlier frames have come.
    until: Nanos,
}

impl Lane {
    fn new(interface: u16, back: Sender<Vec<u8>>) -> Lane {
        Lane { interface, back, waiting: VecDeque::new(), shown: 0, until: Nanos::ZERO }
    }

    /// When its next frame was seen.
    fn next_at(&self) -> Option<Nanos> {
        self.waiting.front().and_then(|block| first_at(&block[self.shown..]))
    }

    /// Lets go of blocks that were shown.
    fn trim(&mut self) {
        while self.waiting.front().is_some_and(|block| self.shown >= block.len()) {
            if let Some(mut block) = self.waiting.pop_front() {
                block.clear();
                // a tap that is gone needs none
                let _ = self.back.send(block);
            }
            self.shown = 0;
        }
    }
}

struct Work {
    sinks: Vec<Guarded>,
    clock: Box<dyn UnixClock>,
    /// By the number of the tap.
    lanes: BTreeMap<usize, Lane>,
    counts: Vec<InterfaceCounts>,
    /// Whether there are sinks, and all of them are full.
    closed: Arc<AtomicBool>,
    /// Whether frames wait for sinks that are still to come.
    held: bool,
    blocks: Receiver<Message>,
}

impl Work {
    fn run(mut self) -> PumpResult {
        let (mut paused, mut emptied) = (Instant::now(), Instant::now());
        loop {
            match self.blocks.recv_timeout(PAUSE) {
                Ok(message) => {
                    self.take(message);
                    while let Ok(message) = self.blocks.try_recv() {
                        self.take(message);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.held {
                emptied = Instant::now();
                continue;
            }
            let hurry = emptied.elapsed() >= PATIENCE;
            self.show(if hurry { Nanos::MAX } else { self.complete() });
            if self.lanes.values().all(|lane| lane.waiting.is_empty()) || hurry {
                emptied = Instant::now();
            }
            self.lanes.retain(|_, lane| lane.until < Nanos::MAX || !lane.waiting.is_empty());
            if paused.elapsed() >= PAUSE {
                paused = Instant::now();
                self.pause();
            }
        }
        self.show(Nanos::MAX);
        self.finish()
    }

    fn take(&mut self, message: Message) {
        let block = match message {
            Message::Lane(number, lane) => {
                self.lanes.insert(number, lane);
                return;
            }
            Message::Hold(held) => {
                self.held = held;
                return;
            }
            Message::Sink(sink, watch) => {
                if self.sinks.is_empty() && !self.held {
                    // what came before the first was not asked for
                    self.counts.fill(InterfaceCounts::default());
                }
                self.sinks.push(Guarded { sink, error: None, watch });
                self.closed.store(false, Ordering::Relaxed);
                return;
            }
            Message::Block(block) => block,
        };
        let Some(lane) = self.lanes.get_mut(&block.tap) else { return };
        lane.until = lane.until.max(block.until);
        if let Some(counts) = self.counts.get_mut(usize::from(lane.interface)) {
            counts.seen += block.seen;
            counts.lost += block.lost;
            counts.receiver_drops += block.receiver_drops;
        }
        if block.records.capacity() > 0 {
            lane.waiting.push_back(block.records);
            lane.trim();
        }
    }

    /// Until when the frames of all taps have come.
    fn complete(&self) -> Nanos {
        self.lanes.values().map(|lane| lane.until).min().unwrap_or(Nanos::MAX)
    }

    /// Shows what was seen until `until`, in order of time.
    fn show(&mut self, until: Nanos) {
        // of one tap nothing can come before what is there
        let until = if self.lanes.len() == 1 { Nanos::MAX } else { until };
        loop {
            let next = |(number, lane): (&usize, &Lane)| lane.next_at().map(|at| (at, *number));
            let mut heads = self.lanes.iter().filter_map(next);
            let Some(first) = heads.next() else { return };
            let (mut least, mut second) = (first, Nanos::MAX);
            for head in heads {
                second = second.min(least.0.max(head.0));
                least = least.min(head);
            }
            if least.0 > until {
                return;
            }
            self.show_run(least.1, second.min(until));
        }
    }

    /// Shows the frames of one tap up to `until`, and one at least.
    fn show_run(&mut self, lane: usize, until: Nanos) {
        let Work { lanes, sinks, clock, .. } = self;
        let Some(lane) = lanes.get_mut(&lane) else { return };
        let interface = lane.interface;
        if let Some(block) = lane.waiting.front() {
            let mut rest = &block[lane.shown..];
            while let Some((note, behind)) = decode(rest) {
                let seen = with_clock(&note, interface, &**clock);
                give(sinks, &seen);
                rest = behind;
                if first_at(rest).is_none_or(|at| at > until) {
                    break;
                }
            }
            // a record is never cut short: taps write whole ones
            let stuck = rest.len() == block.len() - lane.shown;
            lane.shown = if stuck { block.len() } else { block.len() - rest.len() };
        }
        lane.trim();
        self.look_for_the_end();
    }

    /// Tells those who wait for the end of a sink that it has come, and those who note frames when that of all has. One that has
    /// failed still counts what comes.
    fn look_for_the_end(&self) {
        // taps first: who waits for a sink may look at them
        if !self.sinks.is_empty() && self.sinks.iter().all(|guarded| guarded.sink.is_full()) {
            self.closed.store(true, Ordering::Release);
        }
        for guarded in self.sinks.iter().filter(|guarded| !guarded.writes()) {
            guarded.watch.0.store(true, Ordering::Release);
        }
    }

    fn pause(&mut self) {
        self.clock.refresh();
        let unix_ns = self.clock.unix_ns(self.clock.now());
        for guarded in self.sinks.iter_mut().filter(|sink| sink.error.is_none()) {
            guarded.error = guarded.sink.pause(unix_ns, &self.counts).err();
        }
        self.look_for_the_end();
    }

    fn finish(mut self) -> PumpResult {
        let unix_ns = self.clock.unix_ns(self.clock.now());
        let mut results = Vec::new();
        for Guarded { mut sink, error, .. } in self.sinks {
            let ended = sink.finish(unix_ns, &self.counts).err();
            results.push(SinkResult { written: sink.written(), error: error.or(ended) });
        }
        PumpResult { counts: std::mem::take(&mut self.counts), sinks: results }
    }
}

fn with_clock<'a>(note: &Note<'a>, interface: u16, clock: &dyn UnixClock) -> Seen<'a> {
    Seen {
        interface,
        queue: note.queue,
        hash: note.hash,
        outcome: note.outcome,
        at: note.at,
        unix_ns: clock.unix_ns(note.at),
        flow: note.flow,
        sequence: note.sequence,
        sent: note.sent,
        due: note.due,
        frame_len: note.frame_len,
        sampled: note.sampled,
        bytes: note.bytes,
    }
}

#[inline]
fn give(sinks: &mut [Guarded], seen: &Seen<'_>) {
    for guarded in sinks {
        if !guarded.sink.is_full() {
            let error = guarded.sink.frame(seen).err();
            guarded.error = guarded.error.take().or(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use wirebeat_meter::observation::Standing;

    use super::*;
    use crate::record::HEAD;
    use crate::seen::Outcome;

    struct Zero;

    impl UnixClock for Zero {
        fn unix_ns(&self, at: Nanos) -> u64 {
            at.get() + 1_000
        }

        fn refresh(&mut self) {}

        fn now(&self) -> Nanos {
            Nanos::ZERO
        }
    }

    /// What a sink was given: interface, time, bytes.
    type Given = Arc<Mutex<Vec<(u16, u64, Vec<u8>)>>>;

    /// Keeps what it is given, and is full, or fails, at a number of frames; before the first it waits until it may begin.
    struct Keeping {
        given: Given,
        most: usize,
        fails: bool,
        begin: Option<Receiver<()>>,
    }

    impl Keeping {
        fn new(given: &Given) -> Keeping {
            Keeping { given: Arc::clone(given), most: usize::MAX, fails: false, begin: None }
        }
    }

    impl Sink for Keeping {
        fn frame(&mut self, seen: &Seen<'_>) -> io::Result<()> {
            if let Some(begin) = self.begin.take() {
                let _ = begin.recv();
            }
            let mut given = self.given.lock().unwrap();
            if given.len() >= self.most {
                return Err(io::ErrorKind::StorageFull.into());
            }
            assert_eq!(seen.unix_ns, seen.at.get() + 1_000);
            given.push((seen.interface, seen.at.get(), seen.bytes.to_vec()));
            Ok(())
        }

        fn pause(&mut self, _: u64, _: &[InterfaceCounts]) -> io::Result<()> {
            Ok(())
        }

        fn is_full(&self) -> bool {
            !self.fails && self.given.lock().unwrap().len() >= self.most
        }

        fn written(&self) -> Written {
            Written { frames: self.given.lock().unwrap().len() as u64, ..Written::default() }
        }

        fn finish(&mut self, _: u64, _: &[InterfaceCounts]) -> io::Result<()> {
            Ok(())
        }
    }

    fn note(at: u64, bytes: &[u8]) -> Note<'_> {
        Note {
            outcome: Outcome::Received(Standing::New),
            at: Nanos::new(at),
            flow: None,
            sequence: None,
            sent: None,
            due: None,
            frame_len: 64,
            sampled: None,
            queue: 0,
            hash: None,
            bytes,
        }
    }

    /// With a tap for each of so many interfaces, and no other.
    fn start(sink: Keeping, taps: u16) -> (Pump, Vec<Tap>) {
        let (pump, taps, _) = start_all([sink], taps);
        (pump, taps)
    }

    /// The same with several sinks, and what tells of their ends.
    fn start_all<const N: usize>(
        sinks: [Keeping; N],
        taps: u16,
    ) -> (Pump, Vec<Tap>, [SinkWatch; N]) {
        let (pump, source) = Pump::start(Box::new(Zero), taps.into()).unwrap();
        let watches = sinks.map(|sink| source.add_sink(Box::new(sink)));
        let tap = |interface| source.tap(Tapped { interface, snap_len: 4 });
        (pump, (0..taps).map(tap).collect(), watches)
    }

    #[test]
    fn frames_of_several_taps_come_in_order_of_time() {
        let given = Given::default();
        let (pump, mut taps) = start(Keeping::new(&given), 3);
        let mut expected = Vec::new();
        for at in 0..3_000_u64 {
            let tap = (at * 7 % 3) as u16;
            taps[usize::from(tap)].note(&note(at, &at.to_le_bytes()));
            expected.push((tap, at, at.to_le_bytes()[..4].to_vec()));
        }
        drop(taps);
        let result = pump.finish();
        assert_eq!(*given.lock().unwrap(), expected);
        assert!(result.counts.iter().all(|counts| (counts.seen, counts.lost) == (1_000, 0)));
        assert!(result.sinks[0].error.is_none());
    }

    /// A writer that does nothing for a while: what was noted meanwhile is kept as far as there are blocks, the rest counted.
    #[test]
    fn what_finds_no_block_is_counted_as_lost() {
        let given = Given::default();
        let (go, begin) = mpsc::channel();
        let (pump, mut taps) = start(Keeping { begin: Some(begin), ..Keeping::new(&given) }, 1);
        let record = HEAD + 4;
        let many = 2 * BLOCKS_MAX * BLOCK / record;
        (0..many as u64).for_each(|at| taps[0].note(&note(at, &[7; 60])));
        go.send(()).unwrap();
        taps[0].missed(3);
        taps[0].dropped(2);
        drop(taps);
        let result = pump.finish();
        let kept = given.lock().unwrap().len();
        let InterfaceCounts { seen, lost, receiver_drops, .. } = result.counts[0];
        assert_eq!((seen, receiver_drops), (many as u64 + 3, 2));
        assert_eq!(kept as u64 + lost, seen);
        // all blocks were filled before the first was given back
        assert!(kept >= BLOCKS_MAX * (BLOCK / record), "{kept} of {many}");
        assert!(lost > many as u64 / 4, "{lost} of {many}");
        assert!(given.lock().unwrap().is_sorted_by_key(|(_, at, _)| *at));
    }

    #[test]
    fn a_limit_and_an_error_end_it() {
        for fails in [false, true] {
            let given = Given::default();
            let sink = Keeping { most: 5, fails, ..Keeping::new(&given) };
            let (pump, mut taps, [watch]) = start_all([sink], 1);
            let begun = Instant::now();
            let mut at = 0;
            while !watch.has_ended() && begun.elapsed() < Duration::from_secs(60) {
                taps[0].note(&note(at, &[1]));
                taps[0].pass(Nanos::new(at));
                at += 1_000_000;
            }
            assert!(watch.has_ended());
            // who has failed counts what comes
            assert_eq!(taps[0].is_closed(), !fails);
            drop(taps);
            let result = pump.finish();
            assert_eq!(given.lock().unwrap().len(), 5);
            assert_eq!(result.sinks[0].error.is_some(), fails);
            assert_eq!(result.sinks[0].written.frames, 5);
        }
    }

    /// A receiver is open before the last file is: what it had seen by then was in none of them, and counted nowhere.
    #[test]
    fn frames_that_come_before_the_sinks_wait_for_all_of_them() {
        let (first, second) = (Given::default(), Given::default());
        let (pump, source) = Pump::start(Box::new(Zero), 1).unwrap();
        source.hold();
        let mut tap = source.tap(Tapped { interface: 0, snap_len: 0 });
        (0..3).for_each(|at| tap.note(&note(at, &[1])));
        tap.pass(Nanos::from_secs(1));
        source.add_sink(Box::new(Keeping::new(&first)));
        thread::sleep(2 * PAUSE);
        source.add_sink(Box::new(Keeping::new(&second)));
        tap.note(&note(2_000_000_000, &[1]));
        source.go_on();
        drop((tap, source));
        let result = pump.finish();
        assert_eq!((first.lock().unwrap().len(), second.lock().unwrap().len()), (4, 4));
        assert_eq!((result.counts[0].seen, result.counts[0].lost), (4, 0));
    }

    /// A capture with a limit beside a log without one never ended.
    #[test]
    fn the_end_of_one_sink_is_told_while_another_goes_on() {
        let (full, all) = (Given::default(), Given::default());
        let sinks = [Keeping { most: 5, ..Keeping::new(&full) }, Keeping::new(&all)];
        let (pump, mut taps, [first, second]) = start_all(sinks, 1);
        (0..9).for_each(|at| taps[0].note(&note(at, &[1])));
        taps[0].pass(Nanos::from_secs(1));
        let begun = Instant::now();
        while !first.has_ended() && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(first.has_ended() && !second.has_ended() && !taps[0].is_closed());
        (9..20).for_each(|at| taps[0].note(&note(at, &[1])));
        drop(taps);
        pump.finish();
        assert_eq!([full.lock().unwrap().len(), all.lock().unwrap().len()], [5, 20]);
    }

    #[test]
    fn a_tap_that_is_silent_holds_nothing_up() {
        let given = Given::default();
        let (pump, mut taps) = start(Keeping::new(&given), 2);
        taps[0].note(&note(1, &[1]));
        taps[0].pass(Nanos::from_secs(1));
        let begun = Instant::now();
        while given.lock().unwrap().is_empty() && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(given.lock().unwrap().len(), 1, "the other tap has not said a word");
        drop(taps);
        pump.finish();
    }
}
