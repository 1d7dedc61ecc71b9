//! Who runs the transmit program ([`Calls`]). Usually a thread does, one for each transmit core, pinned to it, because a test
//! run executes on the CPU of the calling thread. A loop that decides by what arrives what it sends next calls by itself, and
//! what it has built has left when the call returns.
//!
//! The program itself waits for launch times to the nanosecond; this thread decides when it is worth
//! being in the kernel at all. That is the wait mode: `spin` stays in the kernel, `hybrid` sleeps
//! through pauses longer than [`NEAR`], `sleep` wakes up to send what is due and lies down again. It
//! knows launch times and nothing else of what is sent.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use wirebeat_engine::budget::Budget;
use wirebeat_engine::clock::{Clock, MonotonicClock, NAP, SPIN_BEFORE, Wait};
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_units::Nanos;

use super::abi::{orders, progress};
use super::mapped::Mapped;
use super::ring::{Next, Outlook, RingView};
use super::test_run::{self, Call};
use crate::scheduling::{Priority, ThreadOrders, realtime_share};

/// Pauses up to this are waited out in the kernel. A call costs about 26 µs to set up (measured:
/// page pool and program), waking up from a sleep tens more.
const NEAR: Nanos = Nanos::from_micros(150);
/// Frames of a flat-out batch. The ring of a virtual cable holds 256: with batches of 128 and more it
/// overflows once in some million frames when the machine is busy (measured), with 64 it does not, and
/// 64 reaches 0.98 of the rate of 256. A multiple of the sixteen that share a departure time, and of the 32
/// that take their numbers together (`BULK` and `BLOCK` in `bpf/transmit.bpf.c`).
const FLOOD_BATCH: u32 = 64;
const _: () = assert!(FLOOD_BATCH.is_multiple_of(32) && FLOOD_RUNS.is_multiple_of(FLOOD_BATCH));
/// Runs of a flat-out call: some 15 ms.
const FLOOD_RUNS: u32 = 1 << 16;
/// Frames of a paced batch: so many that are due leave together, and so many runs are spent where none is
/// (`bpf/transmit.bpf.c`). A sender that is late catches up with 3.9 M/s instead of 2.4, in time it is as exact (measured
/// with 2, 4 and 8, of which 8 gains no more and costs exactness at 2 M/s).
const CATCH_UP: u32 = 4;
/// Gaps into which a batch just fits on slow machines, where one takes a microsecond and each run that is spent 0.1 of
/// it. Batches of two are exacter there: at 1 M/s, 27 runs of each in turn, the median gap error was 61 ns, with four 282.
/// Of one there are no pairs, but in slow moments 5 % too few frames; and with two, gaps of less than 700 ns would be too
/// short for them. Only where a ring repeats: replays, which have windows, gain more by catching up fast.
const TIGHT: Range<Nanos> = Nanos::new(900)..Nanos::new(2_000);
/// How long a paced call lasts at most, so that a stop is obeyed and the set-up cost is spread.
const CALL_TIME: Nanos = Nanos::from_millis(100);
/// The same where the thread is before everything else: it has to rest a tenth of the time ([`Budget`]).
const CALL_TIME_REALTIME: Nanos = Nanos::from_millis(4);
/// Longest wait inside the kernel before softirqs get their turn and the way is warmed up once more
/// (measured: 10 µs and more leave it colder, less gains nothing).
pub(crate) const PATIENCE: Nanos = Nanos::from_micros(5);

/// How the program is run.
#[derive(Clone, Debug)]
pub(crate) struct PumpOrders {
    pub(crate) wait: Wait,
    pub(crate) thread: ThreadOrders,
    pub(crate) paced: bool,
    /// What the pages of the kernel begin as; only its length matters.
    pub(crate) frame: Vec<u8>,
}

impl PumpOrders {
    /// How long a paced call lasts at most.
    fn call_time(&self) -> Nanos {
        match self.thread.priority {
            Priority::Realtime => CALL_TIME_REALTIME,
            Priority::Normal | Priority::High => CALL_TIME,
        }
    }
}

/// The part of a transmitter that the pump thread uses.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) program: std::os::fd::OwnedFd,
    pub(crate) view: RingView,
    pub(crate) orders: Arc<Mapped>,
    pub(crate) progress: Arc<Mapped>,
    pub(crate) unix_offset: UnixOffset,
    pub(crate) quit: AtomicBool,
}

/// Who runs the program.
#[derive(Debug)]
pub(crate) enum Calls {
    /// A thread of its own.
    Thread(Pump),
    /// The thread that flushes the port.
    Caller {
        engine: Box<Engine>,
        /// What the pages of the kernel begin as; only its length matters.
        frame: Vec<u8>,
    },
}

impl Calls {
    /// Sees to it that what is committed leaves: tells the thread, or calls.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Calls::Thread(pump) => pump.wake(),
            Calls::Caller { engine, frame } => send_all(engine, frame)?,
        }
        Ok(())
    }

    /// Whether the thread has ended by itself, which only an error makes it do.
    pub(crate) fn failed(&self) -> bool {
        matches!(self, Calls::Thread(pump) if pump.failed())
    }

    /// Ends the thread and says how it went.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Calls::Thread(pump) => pump.finish(),
            Calls::Caller { engine, .. } => {
                engine.orders.store(orders::STOP, 1);
                Ok(())
            }
        }
    }
}

/// Runs the program until all that is in the ring has left.
fn send_all(engine: &Engine, frame: &[u8]) -> io::Result<()> {
    let waiting = || {
        let head = engine.orders.load(orders::HEAD);
        head.saturating_sub(engine.progress.load(progress::CONSUMED))
    };
    let mut before = u64::MAX;
    loop {
        let left = waiting();
        // a program that sends nothing more would be called for ever
        if left == 0 || left == before || engine.orders.load(orders::STOP) != 0 {
            return Ok(());
        }
        before = left;
        let repeat = u32::try_from(left).unwrap_or(u32::MAX);
        engine.progress.store(progress::PLACE, 0);
        match test_run::run(
            engine.program.as_fd(),
            Call { frame, repeat, batch: repeat.min(FLOOD_BATCH) },
        ) {
            // a signal came: what is left is sent by another call
            Err(error) if error.kind() == io::ErrorKind::Interrupted => before = u64::MAX,
            other => other?,
        }
    }
}

/// A running pump. Dropping it stops the program and ends the thread.
#[derive(Debug)]
pub(crate) struct Pump {
    pub(crate) engine: Arc<Engine>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Pump {
    /// Starts the thread; it sleeps until there is something to send.
    pub(crate) fn start(engine: Engine, orders: PumpOrders) -> io::Result<Pump> {
        let engine = Arc::new(engine);
        let shared = Arc::clone(&engine);
        let thread = thread::Builder::new()
            .name("wb-pump".to_owned())
            .spawn(move || pump(&shared, &orders))?;
        Ok(Pump { engine, thread: Some(thread) })
    }

    /// Starts another thread where the last one was ended.
    pub(crate) fn restart(&mut self, orders: PumpOrders) -> io::Result<()> {
        self.finish()?;
        self.engine.quit.store(false, Ordering::Release);
        self.engine.orders.store(orders::STOP, 0);
        let shared = Arc::clone(&self.engine);
        let thread = thread::Builder::new().name("wb-pump".to_owned());
        self.thread = Some(thread.spawn(move || pump(&shared, &orders))?);
        Ok(())
    }

    /// Tells the thread that there is something new.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Whether the thread has ended by itself, which only an error makes it do.
    pub(crate) fn failed(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Ends the thread and says how it went.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.engine.quit.store(true, Ordering::Release);
        self.engine.orders.store(orders::STOP, 1);
        self.wake();
        match self.thread.take() {
            Some(thread) => {
                thread.join().map_err(|_| io::Error::other("the transmitting thread panicked"))?
            }
            None => Ok(()),
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

fn pump(engine: &Engine, how: &PumpOrders) -> io::Result<()> {
    let _applied = how.thread.apply()?;
    crate::affinity::precise_timers();
    let clock = MonotonicClock;
    let mut budget = (how.thread.priority == Priority::Realtime)
        .then(|| Budget::new(realtime_share(), clock.now()));
    let outlook =
        Outlook { ring: &engine.view, orders: &engine.orders, progress: &engine.progress };
    while !engine.quit.load(Ordering::Acquire) {
        let before = clock.now();
        let Next::At(launch) = outlook.next() else {
            thread::park_timeout(Duration::from_micros(200));
            rested(budget.as_mut(), before, &clock);
            continue;
        };
        if let Some(rest) = budget.as_ref().and_then(|budget| budget.owed(before)) {
            nap(&clock, before.saturating_add(rest));
            rested(budget.as_mut(), before, &clock);
            continue;
        }
        let call = if how.paced {
            paced_call(&outlook, &clock, launch, how)
        } else if budget.is_some() {
            Some(Call { frame: &how.frame, repeat: FLOOD_RUNS / 4, batch: FLOOD_BATCH })
        } else {
            Some(Call { frame: &how.frame, repeat: FLOOD_RUNS, batch: FLOOD_BATCH })
        };
        if let Some(call) = call {
            // who sleeps calls for what is due already, and each run waits for the spacing of its frame
            let waits = how.wait != Wait::Sleep;
            engine.progress.store(progress::BATCH, if waits { call.batch.into() } else { 1 });
            engine.progress.store(progress::PLACE, 0);
            engine.progress.store(progress::SEEN_NS, 0);
            show_time_of_day(&engine.orders, &engine.unix_offset);
            match test_run::run(engine.program.as_fd(), call) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        } else {
            rested(budget.as_mut(), before, &clock);
        }
    }
    Ok(())
}

/// Lets the program know what the clock of the day is now. Calls last for up to 100 ms, so the feeding thread does this as
/// well as the one that calls. The program reads that line for each frame: it is written to only when there is a change.
pub(crate) fn show_time_of_day(to: &Mapped, unix_offset: &UnixOffset) {
    let now = unix_offset.get();
    if to.load(orders::UNIX_OFFSET_NS) != now {
        to.store(orders::UNIX_OFFSET_NS, now);
    }
}

/// Counts what went by since `before` as rest.
fn rested(budget: Option<&mut Budget>, before: Nanos, clock: &MonotonicClock) {
    if let Some(budget) = budget {
        budget.rested(before, clock.now());
    }
}

/// Sleeps as the wait mode says; then the call that sends what is near, if anything is.
fn paced_call<'a>(
    outlook: &Outlook<'_>,
    clock: &MonotonicClock,
    launch: Nanos,
    how: &'a PumpOrders,
) -> Option<Call<'a>> {
    let now = clock.now();
    let call = |batches: u64, until: Nanos| {
        outlook.orders.store(orders::UNTIL_NS, until.get());
        let batch = batch(outlook);
        let repeat = batches.clamp(1, 1 << 20) as u32 * batch;
        Some(Call { frame: &how.frame, repeat, batch })
    };
    let call_time = how.call_time();
    match how.wait {
        Wait::Spin => call(runs_within(outlook, call_time), Nanos::MAX),
        Wait::Hybrid if launch > now.saturating_add(NEAR) => {
            nap(clock, launch.saturating_sub(SPIN_BEFORE));
            None
        }
        Wait::Hybrid => {
            let (batches, until) = runs_until_pause(outlook, now, call_time);
            call(batches, until)
        }
        Wait::Sleep => {
            nap(clock, launch.max(now.saturating_add(NAP)));
            outlook.orders.store(orders::UNTIL_NS, u64::MAX);
            let due = due_by(outlook, clock.now());
            let batch = (due as u32).min(FLOOD_BATCH);
            (due > 0).then_some(Call { frame: &how.frame, repeat: due as u32, batch })
        }
    }
}

/// Sleeps until `until`, in steps that let a stop through.
fn nap(clock: &MonotonicClock, until: Nanos) {
    let step = clock.now().saturating_add(Nanos::from_millis(50));
    clock.sleep_until(until.min(step));
}

/// Frames that are looked ahead at.
const LOOK: u64 = 64;

/// How often the program runs, and finds it too early, before a frame that is due in `wait`.
fn idle_runs(wait: Nanos) -> u64 {
    // it waits for the last two patiences at once
    (wait.get() / PATIENCE.get()).saturating_sub(1)
}

/// The mean gap between the next frames, 100 ns at the least.
fn mean_gap(outlook: &Outlook<'_>) -> Option<Nanos> {
    let first = outlook.launch(0)?;
    let (ahead, at) = (1..=LOOK).rev().find_map(|ahead| Some((ahead, outlook.launch(ahead)?)))?;
    Some(Nanos::new((at.saturating_sub(first).get() / ahead).max(100)))
}

/// Frames of a paced batch, judged by the next frames.
fn batch(outlook: &Outlook<'_>) -> u32 {
    let tight = outlook.ring.repeat && mean_gap(outlook).is_some_and(|gap| TIGHT.contains(&gap));
    if tight { 2 } else { CATCH_UP }
}

/// About how many batches take `time`, judged by the next frames.
fn runs_within(outlook: &Outlook<'_>, time: Nanos) -> u64 {
    let batches = |gap: Nanos| (time.get() / gap.get()).saturating_mul(1 + idle_runs(gap));
    mean_gap(outlook).map_or(1, batches)
}

/// How many runs there are from `now` until a pause that is worth sleeping through, and the launch time of the last frame
/// before it. Setting up a call takes as long as several runs, on a busy machine as many: those that are left over would
/// wait for the next frame, one call after the other, and the thread would never sleep.
fn runs_until_pause(outlook: &Outlook<'_>, now: Nanos, call_time: Nanos) -> (u64, Nanos) {
    let Some(mut before) = outlook.launch(0) else { return (1, Nanos::MAX) };
    let mut runs = 1 + idle_runs(before.saturating_sub(now));
    for ahead in 1..LOOK {
        let Some(at) = outlook.launch(ahead) else { return (runs, before) };
        if at > before.saturating_add(NEAR) {
            return (runs, before);
        }
        runs += 1 + idle_runs(at.saturating_sub(before));
        before = at;
    }
    (runs_within(outlook, call_time).max(runs), Nanos::MAX)
}

/// How many frames are due by `now`.
fn due_by(outlook: &Outlook<'_>, now: Nanos) -> u64 {
    const MOST: u64 = 4096;
    (0..MOST).find(|&ahead| outlook.launch(ahead).is_none_or(|at| at > now)).unwrap_or(MOST)
}

/// What the program itself found wrong, if anything.
pub(crate) fn refused(progress: &Mapped) -> u64 {
    progress.load(progress::REFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ring::testing::World;

    /// A stream of frames with these launch times in µs.
    fn world(launches: &[u64]) -> World {
        let mut world = World::stream(256);
        for &launch in launches {
            world.push(Nanos::from_micros(launch));
        }
        world
    }

    #[test]
    fn a_pause_that_is_worth_a_sleep_ends_a_call() {
        let runs = |launches: &[u64], now| {
            runs_until_pause(&world(launches).outlook(), Nanos::from_micros(now), CALL_TIME).0
        };
        assert_eq!(runs(&[10, 20, 30, 400, 410], 10), 5, "10 µs: one run finds it too early");
        assert_eq!(runs(&[10, 12, 14, 400], 10), 3);
        assert_eq!(runs(&[10], 10), 1);
        assert_eq!(runs(&[110], 10), 20, "100 µs of waiting, 5 at a time, the last ten at once");
        assert_eq!(runs(&[], 10), 1);
    }

    #[test]
    fn runs_that_are_left_over_do_not_wait_for_a_frame_behind_a_pause() {
        let until = |launches: &[u64]| {
            runs_until_pause(&world(launches).outlook(), Nanos::ZERO, CALL_TIME).1
        };
        assert_eq!(until(&[10, 20, 30, 400, 410]), Nanos::from_micros(30));
        assert_eq!(until(&[10, 20]), Nanos::from_micros(20), "no further frame is known");
        assert_eq!(until(&(0..200).collect::<Vec<_>>()), Nanos::MAX, "no pause");
    }

    #[test]
    fn frames_without_a_pause_are_sent_by_one_long_call() {
        let every = |us: u64| (0..200).map(|n| n * us).collect::<Vec<_>>();
        let runs = |us| {
            runs_until_pause(&world(&every(us)).outlook(), Nanos::ZERO, CALL_TIME).0 / 1000 * 1000
        };
        assert_eq!(runs(2), 50_000, "100 ms");
        assert_eq!(runs(20), 20_000, "5,000 frames, and three runs before each");
    }

    #[test]
    fn batches_are_of_two_where_a_ring_repeats_and_one_just_fits_the_gap() {
        let repeated = |gap| batch(&World::repeating(&[0], gap, 1_000).outlook());
        assert_eq!([500, 899, 900, 1_000, 1_999, 2_000].map(repeated), [4, 4, 2, 2, 2, 4]);
        let last = World::repeating(&[0], 1_000, 1);
        assert_eq!(batch(&last.outlook()), 4, "one frame has no gap");
        let streamed = world(&(0..100).collect::<Vec<_>>());
        assert_eq!(batch(&streamed.outlook()), 4);
    }

    #[test]
    fn what_is_due_is_counted_up_to_the_first_that_is_not() {
        let world = world(&[10, 20, 30, 40]);
        let at = |us| due_by(&world.outlook(), Nanos::from_micros(us));
        assert_eq!([at(9), at(10), at(35), at(100)], [0, 1, 3, 4]);
    }
}
