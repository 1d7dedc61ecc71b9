//! The sending ports of a run: opened beforehand, driven by one thread for each transmit core.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle, Thread};

use wirebeat_engine::budget::RunClock;
use wirebeat_engine::drive::playback::Playback;
use wirebeat_engine::drive::{
    Changes, Driven, Job, LineLimit, Listener, LiveTx, Plan, RunTimes, Sequences,
};
use wirebeat_engine::loopback::VirtualClock;
use wirebeat_engine::port::{PortError, View};
use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::scheduling::{Priority, ThreadOrders, realtime_share};
use wirebeat_meter::departures::Departures;
use wirebeat_traffic::engines::{Ability, Engine, Pinning};
use wirebeat_traffic::program::Program;
use wirebeat_traffic::schedule::{ROUND_MAX, Shard};
use wirebeat_units::{BufferLen, Nanos};

use crate::engines::{Transmitter, TxClock, TxCore, TxOpening, driver};
use crate::error::RunError;
use crate::placement::Seat;
use crate::ports::ResolvedPort;
use crate::spread::{self, Share};
use crate::tapping::SentTap;

/// One transmit core: a port and its share of the flows.
#[derive(Debug)]
pub(crate) struct TxWorker {
    pub(crate) engine: Engine,
    pub(crate) port: Box<dyn Transmitter>,
    pub(crate) plan: Plan,
    pub(crate) flows: Vec<u32>,
    pub(crate) shard: Shard,
    /// Where and how its thread runs that sends.
    pub(crate) thread: ThreadOrders,
    pub(crate) live: Arc<LiveTx>,
    /// What it sends of what was recorded.
    pub(crate) playbacks: Vec<Playback>,
    /// Its place among all transmit cores of the run.
    pub(crate) place: usize,
    /// Where what it sends is noted, if somebody keeps that and the port does not hold frames.
    tap: Option<SentTap>,
}

/// What all transmit cores are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendContext<'a> {
    pub(crate) program: &'a Program,
    pub(crate) sequences: &'a Sequences,
    pub(crate) times: RunTimes<'a>,
    pub(crate) stop: &'a AtomicBool,
    /// Changes from outside, if there may be some.
    pub(crate) changes: Option<&'a Changes>,
    /// The most that a core sends.
    pub(crate) limit: Option<LineLimit>,
    /// Where each says that it has ended.
    pub(crate) at_work: &'a AtWork,
}

/// Transmit cores that are at work. The thread that watches them is woken when one has ended.
#[derive(Debug)]
pub(crate) struct AtWork {
    cores: AtomicUsize,
    watching: Thread,
}

impl AtWork {
    /// So many; the calling thread watches them.
    pub(crate) fn new(cores: usize) -> AtWork {
        AtWork { cores: AtomicUsize::new(cores), watching: thread::current() }
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.cores.load(Ordering::Acquire) > 0
    }

    /// One has ended, or never began.
    pub(crate) fn leave(&self) {
        self.cores.fetch_sub(1, Ordering::AcqRel);
        self.watching.unpark();
    }
}

/// A transmitter between two runs of a lab.
#[derive(Debug)]
pub(crate) struct RestingTx {
    /// The place of its port among those of the lab.
    pub(crate) place: usize,
    pub(crate) engine: Engine,
    transmitter: Box<dyn Transmitter>,
}

/// Gets transmitters that rested ready for these cores, if they are as many and can do it.
fn rearmed(
    (port, engine): (&ResolvedPort, Engine),
    opening: &TxOpening<'_>,
    cores: &[TxCore],
    resting: Vec<RestingTx>,
) -> Result<Option<Vec<Box<dyn Transmitter>>>, RunError> {
    if resting.len() != cores.len() || resting.iter().any(|one| one.engine != engine) {
        return Ok(None);
    }
    let mut transmitters = Vec::with_capacity(cores.len());
    for (RestingTx { mut transmitter, .. }, core) in resting.into_iter().zip(cores) {
        if !driver(engine).rearm_transmitter(port, opening, core, &mut *transmitter)? {
            return Ok(None);
        }
        transmitters.push(transmitter);
    }
    Ok(Some(transmitters))
}

/// Opens the transmit cores of a port, on these CPUs. Those that rested at the port are used again where they can be, and closed
/// before others open where they cannot.
pub(crate) fn open(
    (port, engine): (&ResolvedPort, Engine),
    opening: &TxOpening<'_>,
    (seats, priority): (&[Seat], Priority),
    resting: Vec<RestingTx>,
) -> Result<Vec<TxWorker>, RunError> {
    let program = opening.program;
    let flows = program.flows_from(&port.name);
    if flows.is_empty() {
        return Ok(Vec::new());
    }
    driver(engine).check_flows(port, program, &flows)?;
    // in memory there is one, wherever it is put
    let shares = spread::shares(program, &flows, (seats.len(), port.spec.names_several()));
    let repeats = match opening.room {
        None if engine.can(Ability::Repeat) && !opening.is_limited => ROUND_MAX,
        _ => 0,
    };
    let core = |(seat, share): (&Seat, &Share)| {
        let thread = ThreadOrders {
            cpus: seat.cpu.into_iter().collect(),
            priority,
            ..ThreadOrders::default()
        };
        let unix_offset = opening.unix_offset.get();
        let mut plan = Plan::new(program, &share.flows, share.shard, (repeats, unix_offset));
        if let Some(room) = opening.room {
            plan.tx.frame_max = plan.tx.frame_max.max(BufferLen::new(room.into()));
            plan.tx.frame_len = None;
        }
        TxCore { plan, flows: share.flows.clone(), thread }
    };
    let cores: Vec<TxCore> = seats.iter().zip(&shares).map(core).collect();
    let ports = match rearmed((port, engine), opening, &cores, resting)? {
        Some(ports) => ports,
        None => driver(engine).open_transmitters(port, opening, &cores)?,
    };
    let taps = opening.sent_taps.filter(|_| !engine.can(Ability::Hold));
    let sender = |(number, ((core, share), port)): (usize, ((TxCore, Share), _))| TxWorker {
        tap: taps.map(|taps| taps.of_sender(number, program)),
        engine,
        port,
        plan: core.plan,
        flows: core.flows,
        shard: share.shard,
        thread: core.thread,
        live: Arc::default(),
        playbacks: Vec::new(),
        place: 0,
    };
    let cores = cores.into_iter().zip(shares).zip(ports).enumerate();
    let senders: Vec<TxWorker> = cores.map(sender).collect();
    debug_assert!(senders.iter().all(TxWorker::is_as_the_table_says), "{engine}: {senders:?}");
    Ok(senders)
}

/// Says at its end that a core sends nothing more.
struct WorkerExit<'a> {
    changes: Option<&'a Changes>,
    place: usize,
    at_work: &'a AtWork,
}

impl Drop for WorkerExit<'_> {
    fn drop(&mut self) {
        self.changes.inspect(|changes| changes.leave(self.place));
        self.at_work.leave();
    }
}

impl TxWorker {
    /// Its transmitter, for another run. In memory and on files there is nothing to keep: each run begins anew.
    pub(crate) fn rest(self, place: usize) -> Option<RestingTx> {
        let TxWorker { engine, port: transmitter, .. } = self;
        (!engine.is_virtual()).then_some(RestingTx { place, engine, transmitter })
    }

    /// Starts the thread that drives this core.
    pub(crate) fn spawn<'scope, 'env: 'scope>(
        &'env mut self,
        scope: &'scope thread::Scope<'scope, 'env>,
        context: SendContext<'env>,
        clocks: &mut impl Iterator<Item = VirtualClock>,
    ) -> std::io::Result<ScopedJoinHandle<'scope, Driven>> {
        let name = format!("wb-send-{}", self.shard.core);
        let clock = if self.is_on_virtual_time() { clocks.next() } else { None };
        thread::Builder::new().name(name).spawn_scoped(scope, move || {
            // The others wait for it to end, however it does.
            let SendContext { changes, at_work, .. } = context;
            let _leaving = WorkerExit { changes, place: self.place, at_work };
            self.run(&context, clock.unwrap_or_default())
        })
    }

    /// Whether it sends to what keeps a clock of its own.
    pub(crate) fn is_on_virtual_time(&self) -> bool {
        self.engine.is_virtual()
    }

    /// Whether its port does what the table of engines says.
    fn is_as_the_table_says(&self) -> bool {
        let caps = self.port.caps();
        let repeats = caps.repeats == 0 || self.engine.can(Ability::Repeat);
        let sees_headers = (caps.view == View::Frame) == self.engine.can(Ability::SeeHeaders);
        let holds = caps.holds == self.engine.can(Ability::Hold);
        caps.engine == self.engine.name() && holds && sees_headers && repeats
    }

    /// Drives the port; `virtual_clock` is its clock if it keeps one of its own.
    fn run(&mut self, context: &SendContext<'_>, virtual_clock: VirtualClock) -> Driven {
        // else another thread sends, and applies them to itself
        let own = self.engine.row().pinning == Pinning::CallingThread;
        let _applied = match own.then(|| self.thread.apply()).transpose() {
            Ok(applied) => applied,
            Err(source) => {
                let on = format!("CPU {:?}, priority {:?}", self.thread.cpus, self.thread.priority);
                let what = "preparing the sending thread".into();
                let error = Some(PortError::System { what, on, source });
                let (flows, shared_departures) = (Vec::new(), Departures::default());
                return Driven {
                    flows,
                    shared_departures,
                    interruptions: None,
                    card_stamps: None,
                    error,
                };
            }
        };
        affinity::precise_timers();
        let clock = match own && self.thread.priority == Priority::Realtime {
            _ if self.is_on_virtual_time() => TxClock::Virtual(virtual_clock),
            true => TxClock::Monotonic(RunClock::with_budget(realtime_share())),
            false => TxClock::Monotonic(RunClock::default()),
        };
        let live = Arc::clone(&self.live);
        let job = Job {
            program: context.program,
            flows: &self.flows,
            shard: self.shard,
            sequences: context.sequences,
            times: RunTimes { latest: self.latest(&context.times), ..context.times },
            stop: context.stop,
            live: &live,
            playbacks: RefCell::new(std::mem::take(&mut self.playbacks)),
            changes: context.changes.map(|changes| Listener { changes, core: self.place }),
            limit: context.limit,
        };
        let driven = self.port.drive(clock, &job, &self.plan, self.tap.as_mut());
        // what it noted is handed over now
        self.tap = None;
        driven
    }

    /// Flows with a rate end by their own schedule and get a moment for their last frames: longer than
    /// a busy machine keeps a thread from its core.
    fn latest(&self, times: &RunTimes<'_>) -> Nanos {
        const GRACE: Nanos = Nanos::from_millis(100);
        if self.plan.tx.paced { times.end.saturating_add(GRACE) } else { times.end }
    }
}

/// Frames and bytes sent, and frames expired, over all cores.
pub(crate) fn progress(senders: &[Arc<LiveTx>]) -> (u64, u64, u64) {
    senders.iter().fold((0, 0, 0), |(frames, bytes, expired), live| {
        (
            frames + live.frames.load(Ordering::Relaxed),
            bytes + live.bytes.load(Ordering::Relaxed),
            expired + live.expired.load(Ordering::Relaxed),
        )
    })
}

/// The interface that an error says is gone.
pub(crate) fn gone(error: &PortError) -> Option<&str> {
    match error {
        PortError::Gone(interface) => Some(interface),
        _ => None,
    }
}
