//! The receiving ports of a run: opened beforehand, metering until they are told to stop. Between the runs of a lab they rest:
//! what is open stays open, and nothing is metered.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wirebeat_capture::tap::Tap;
use wirebeat_engine::budget::RunClock;
use wirebeat_engine::collect::{LiveRx, Manner, collect_and_tell};
use wirebeat_engine::intervals::LiveIntervals;
use wirebeat_engine::port::{CardStamps, PortError, RxPort};
use wirebeat_engine_linux::group::{Group, Membership};
use wirebeat_engine_linux::kernel::Fate;
use wirebeat_engine_linux::promiscuous::Promiscuous;
use wirebeat_engine_linux::scheduling::{Priority, ThreadOrders, ThreadState, realtime_share};
use wirebeat_meter::interval::{Beat, MeterBooks, MeterSeries};
use wirebeat_meter::meter::{Meter, MeterConfig};
use wirebeat_meter::queue_series::QueueSeries;
use wirebeat_meter::queues::meters;
use wirebeat_meter::series::Series;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_units::Nanos;

use crate::damage::DamageWatch;
use crate::engines::{Engine, OwnMeter, RxOpening, driver};
use crate::error::RunError;
use crate::ports::ResolvedPort;
use crate::tapping::{Observing, PortTaps, QueueTaps};

/// How a port receives.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) meter: MeterConfig,
    /// Whether metered datagrams go on to the stack.
    pub(crate) fate: Fate,
    /// Whether frames of one flow may arrive on several CPUs at once.
    pub(crate) several_queues: bool,
    /// Flows that are sent as fast as possible: what lies between two arrivals is measured within each queue.
    pub(crate) by_queue: BTreeSet<u16>,
    /// Also frames that are addressed to other machines.
    pub(crate) promiscuous: bool,
    /// Where the socket engine listens.
    pub(crate) listen: Vec<SocketAddr>,
    /// Whether senders of other tools get the answer that they wait for.
    pub(crate) manner: Manner,
    /// Ends by itself when so many frames were measured.
    pub(crate) most: Option<u64>,
    /// Who wants to see each frame.
    pub(crate) taps: Option<PortTaps>,
    /// Groups that were joined; they are left when the receiver ends.
    pub(crate) groups: Memberships,
    /// How many queues, with a thread each, divide among them what arrives, where threads meter; at least one.
    pub(crate) queues: u16,
    /// Whether packets may arrive in fragments.
    pub(crate) fragments: bool,
    /// Where and how these threads run: each on a CPU of its own, as far as CPUs are named.
    pub(crate) thread: ThreadOrders,
}

/// Joins multicast groups at a port: on its interface, or on that of the system's choice. An engine without a network
/// has nobody to tell.
pub(crate) fn join(port: &ResolvedPort, groups: &[Group]) -> Result<Memberships, RunError> {
    let nobody = port.spec.engine.engine().is_some_and(|engine| !engine.has_network());
    if groups.is_empty() || nobody {
        return Ok(Memberships::default());
    }
    let interface = port.link.as_ref().map_or(0, |link| link.index.get());
    let joined = |group: &Group| {
        Membership::join(interface, group).map_err(|error| {
            RunError::usage(format!("port '{}' cannot join the group {group}: {error}", port.name))
        })
    };
    let held = port.enter(|| groups.iter().map(joined).collect::<Result<Vec<_>, _>>())??;
    Ok(Memberships { groups: groups.to_vec(), _held: held })
}

/// Memberships of multicast groups, until they are dropped.
#[derive(Debug, Default)]
pub(crate) struct Memberships {
    groups: Vec<Group>,
    _held: Vec<Membership>,
}

/// A receiver at work.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) place: usize,
    pub(crate) engine: Engine,
    pub(crate) mode: String,
    /// What is in force for each of its threads; nothing where the kernel meters.
    pub(crate) states: Vec<Arc<ThreadState>>,
    work: MeteredBy,
    /// Sequence numbers that were missing at the last look.
    missing: AtomicU64,
    groups: Memberships,
    /// That its card takes all frames, where no socket of it says so.
    _promiscuous: Option<Promiscuous>,
    /// What the stack drops before a socket sees it.
    damage: Option<DamageWatch>,
}

#[derive(Debug)]
enum MeteredBy {
    /// The engine meters by itself, and somebody who looks makes intervals of its counts.
    Engine {
        receiver: Box<dyn OwnMeter>,
        intervals: Box<LiveIntervals<MeterSeries>>,
        /// Who reads what it tells of single frames.
        observing: Option<Observing>,
    },
    /// A thread for each queue meters what that delivers; there is at least one.
    Threads(QueueThreads),
    /// Nobody reads the ports of the threads.
    Idle(Vec<Box<dyn IdlePort>>),
}

/// The threads of the receive queues of a port. They end when this is dropped: a run that fails while it opens its ports lets
/// go of what they hold, so that another may have it.
#[derive(Debug)]
struct QueueThreads {
    queues: Vec<QueueThread>,
    stop: Arc<AtomicBool>,
}

impl QueueThreads {
    /// Tells them to end.
    fn end(mut self) -> Vec<QueueThread> {
        self.stop.store(true, Ordering::Release);
        std::mem::take(&mut self.queues)
    }
}

impl Drop for QueueThreads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for QueueThread { thread, .. } in self.queues.drain(..) {
            // what it measured is not asked for
            let _ = thread.join();
        }
    }
}

/// The thread of a receive queue.
#[derive(Debug)]
struct QueueThread {
    thread: JoinHandle<Collected>,
    live: Arc<LiveRx>,
}

/// A port that rests between runs.
pub(crate) trait IdlePort: Any + Debug + Send {
    /// Starts threads that meter what it and the ports of the same receiver's `other` queues deliver. They have been re-armed.
    fn start(
        self: Box<Self>,
        others: Vec<Box<dyn IdlePort>>,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Receiver, RunError>;
}

/// The same of one engine, with the clock that it is read by.
#[derive(Debug)]
pub(crate) struct IdleRx<P, C> {
    pub(crate) port: P,
    clock: C,
}

impl<P, C> IdlePort for IdleRx<P, C>
where
    P: RxPort + Debug + 'static,
    C: wirebeat_engine::clock::Clock + Clone + Debug + 'static,
{
    fn start(
        self: Box<Self>,
        others: Vec<Box<dyn IdlePort>>,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Receiver, RunError> {
        let IdleRx { port, clock } = *self;
        // all are of one engine
        let same = |other: Box<dyn IdlePort>| {
            let other: Box<dyn Any> = other;
            other.downcast::<Self>().ok().map(|other| other.port)
        };
        let ports = [port].into_iter().chain(others.into_iter().filter_map(same)).collect();
        start(opening, ports, clock, how)
    }
}

/// What a metering thread leaves.
#[derive(Debug, Default)]
struct Collected {
    summary: MeterSummary,
    error: Option<PortError>,
    card_stamps: Option<CardStamps>,
    /// Its port, where that can rest.
    idle: Option<Box<dyn IdlePort>>,
}

/// What a receiver measured, at its end.
#[derive(Debug)]
pub(crate) struct ReceiverResult {
    pub(crate) summary: MeterSummary,
    pub(crate) error: Option<PortError>,
    /// What arrived damaged and never reached it, in words.
    pub(crate) damage: Option<String>,
    /// What its card stamped, where it does.
    pub(crate) card_stamps: Option<CardStamps>,
    /// What it measured in intervals that nobody took before.
    pub(crate) intervals: Series<MeterBooks>,
}

impl Default for ReceiverResult {
    fn default() -> Self {
        ReceiverResult {
            summary: MeterSummary::default(),
            error: None,
            damage: None,
            card_stamps: None,
            intervals: Series::new(0),
        }
    }
}

/// Starts a thread for each of `ports`, the receive queues of one port, that meters what it delivers.
pub(crate) fn start<P, C>(
    opening: &RxOpening<'_>,
    ports: Vec<P>,
    clock: C,
    how: Receiving,
) -> Result<Receiver, RunError>
where
    P: RxPort + Debug + 'static,
    C: wirebeat_engine::clock::Clock + Clone + Debug + 'static,
{
    let stop = Arc::new(AtomicBool::new(false));
    let mut mode = ports.first().map(|port| port.caps().mode.clone()).unwrap_or_default();
    let count = ports.len();
    if count > 1 {
        mode = format!("{mode}, {count} queues");
    }
    let Receiving { meter: config, groups, manner, most, thread: orders, .. } = how;
    let taps = how.taps;
    let meters = meters(config, count);
    let lives = LiveRx::of_queues(count);
    let (mut queues, mut states) = (Vec::new(), Vec::new());
    for (index, ((port, meter), live)) in ports.into_iter().zip(meters).zip(lives).enumerate() {
        let work = QueueWork {
            port,
            clock: clock.clone(),
            meter,
            orders: orders.of_worker(index, count),
            stop: Arc::clone(&stop),
            live: Arc::new(live),
            manner,
            most: most.unwrap_or(u64::MAX),
            tap: taps.as_ref().map(|taps| (taps.tap(), index as u16)),
        };
        states.push(Arc::clone(&work.orders.state));
        queues.push(work.start(&stop)?);
    }
    let work = MeteredBy::Threads(QueueThreads { queues, stop });
    Ok(Receiver {
        place: opening.place,
        engine: opening.engine,
        mode,
        states,
        work,
        missing: AtomicU64::new(0),
        groups,
        _promiscuous: None,
        damage: None,
    })
}

/// What the thread of a receive queue works with.
struct QueueWork<P, C> {
    port: P,
    clock: C,
    meter: Meter,
    orders: ThreadOrders,
    stop: Arc<AtomicBool>,
    live: Arc<LiveRx>,
    manner: Manner,
    most: u64,
    /// Where its frames are noted, and the number of its queue.
    tap: Option<(Tap, u16)>,
}

impl<P, C> QueueWork<P, C>
where
    P: RxPort + Debug + 'static,
    C: wirebeat_engine::clock::Clock + Clone + Debug + 'static,
{
    /// Starts the thread. Where that fails, `stop` ends those that have begun.
    fn start(self, stop: &AtomicBool) -> Result<QueueThread, RunError> {
        let live = Arc::clone(&self.live);
        let spawned =
            thread::Builder::new().name("wb-receive".to_owned()).spawn(move || self.run());
        match spawned {
            Ok(thread) => Ok(QueueThread { thread, live }),
            Err(error) => {
                stop.store(true, Ordering::Release);
                Err(RunError::machine(format!("cannot start a receiving thread: {error}")))
            }
        }
    }

    /// Meters until it is stopped.
    fn run(self) -> Collected {
        let QueueWork { mut port, clock, mut meter, orders, stop, live, .. } = self;
        let (manner, most) = (self.manner, self.most);
        let applied = match orders.apply() {
            Ok(applied) => applied,
            Err(source) => {
                let (what, on) =
                    ("preparing the receiving thread".into(), format!("CPU {:?}", orders.cpus));
                let error = Some(PortError::System { what, on, source });
                let summary = meter.into_summary();
                return Collected { summary, error, ..Collected::default() };
            }
        };
        let rest = match orders.priority {
            Priority::Realtime => RunClock::with_budget(realtime_share()),
            Priority::Normal | Priority::High => RunClock::default(),
        };
        let told = (&*stop, &*live);
        let mut taps = QueueTaps::new(rest, self.tap, port.caps().view);
        let error =
            collect_and_tell((&mut port, &clock, manner), &mut meter, told, most, &mut taps).err();
        let QueueTaps { tap, .. } = taps;
        let drops = port.receive_drops();
        if let Some((mut tap, _)) = tap {
            tap.dropped(drops);
        }
        let mut summary = meter.into_summary();
        summary.receiver_drops = drops;
        let card_stamps = port.card_stamps();
        drop(applied);
        let rests = error.is_none() && port.rest();
        let idle = rests.then(|| Box::new(IdleRx { port, clock }) as Box<dyn IdlePort>);
        Collected { summary, error, card_stamps, idle }
    }
}

impl Collected {
    /// What all queues leave, and the first error of each kind.
    fn all(queues: impl IntoIterator<Item = Collected>) -> Collected {
        let add = |mut all: Collected, one: Collected| {
            all.summary.merge(&one.summary);
            all.error = all.error.or(one.error);
            match (&mut all.card_stamps, one.card_stamps) {
                (Some(stamps), Some(more)) => stamps.merge(&more),
                (stamps, more) => *stamps = stamps.take().or(more),
            }
            all
        };
        queues.into_iter().reduce(add).unwrap_or_default()
    }

    /// What a thread leaves that panicked.
    fn nothing() -> Collected {
        let error = PortError::System {
            what: "metering".into(),
            on: "a receiving thread".to_owned(),
            source: std::io::Error::other("it panicked"),
        };
        Collected { error: Some(error), ..Collected::default() }
    }
}

/// What is left of intervals when all that was measured is `summary`.
fn left(intervals: &LiveIntervals<MeterSeries>, summary: &MeterSummary) -> Series<MeterBooks> {
    let left = |series: &mut MeterSeries| {
        series.finish(summary);
        series.take()
    };
    intervals.look(left).unwrap_or(Series::new(0))
}

/// How long a sequence number has to be missing until a look counts its frame as lost: frames that overtook each other
/// are there by then.
pub(crate) const REORDERING: Duration = Duration::from_millis(20);
/// Longer than a metering thread takes to answer.
const ANSWER: Duration = Duration::from_millis(15);
/// How often it is looked whether it has.
const STEP: Duration = Duration::from_millis(1);

/// Frames of which `receivers` know by now that they are lost: their numbers are missing, and still are after
/// [`REORDERING`]. Takes that long where more are missing than at the last look.
pub(crate) fn lost(receivers: &[Receiver]) -> u64 {
    let missing = || -> Vec<u64> {
        receivers.iter().for_each(Receiver::ask_missing);
        let until = Instant::now() + ANSWER;
        receivers.iter().map(|receiver| receiver.missing(until)).collect()
    };
    let mut now = missing();
    let before = |receiver: &Receiver| receiver.missing.load(Ordering::Relaxed);
    if receivers.iter().zip(&now).any(|(receiver, now)| *now > before(receiver)) {
        thread::sleep(REORDERING);
        now = now.into_iter().zip(missing()).map(|(then, now)| then.min(now)).collect();
    }
    for (receiver, now) in receivers.iter().zip(&now) {
        receiver.missing.store(*now, Ordering::Relaxed);
    }
    now.iter().sum()
}

impl Receiver {
    /// One whose engine meters by itself, with what it holds meanwhile: groups, and that the card takes all frames.
    pub(crate) fn metered_by_engine(
        opening: &RxOpening<'_>,
        mode: String,
        (meter, observing): (Box<dyn OwnMeter>, Option<Observing>),
        (groups, promiscuous): (Memberships, Option<Promiscuous>),
    ) -> Receiver {
        Receiver {
            place: opening.place,
            engine: opening.engine,
            mode,
            states: Vec::new(),
            work: MeteredBy::Engine { receiver: meter, intervals: Box::default(), observing },
            missing: AtomicU64::new(0),
            groups,
            _promiscuous: promiscuous,
            damage: None,
        }
    }

    /// The same receiver, which works in this `mode` as well, and holds that its card takes all frames.
    pub(crate) fn holding(
        self,
        mode: Option<String>,
        promiscuous: Option<Promiscuous>,
    ) -> Receiver {
        let mode = [Some(self.mode), mode].into_iter().flatten().collect::<Vec<_>>().join(", ");
        Receiver { mode, _promiscuous: promiscuous, ..self }
    }

    /// The same receiver, and what the stack drops before it sees it.
    pub(crate) fn watched(self, damage: DamageWatch) -> Receiver {
        Receiver { damage: Some(damage), ..self }
    }

    /// Frames received so far, and their bytes with FCS.
    pub(crate) fn received(&self) -> (u64, u64) {
        match &self.work {
            MeteredBy::Engine { receiver, .. } => receiver.received(),
            MeteredBy::Threads(QueueThreads { queues, .. }) => {
                let read = |queue: &QueueThread| {
                    let LiveRx { frames, bytes, .. } = &*queue.live;
                    (frames.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
                };
                queues.iter().map(read).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
            }
            MeteredBy::Idle(_) => (0, 0),
        }
    }

    /// Measures in these intervals from now on. Nothing that belongs to them has arrived.
    pub(crate) fn begin_intervals(&self, beat: Beat, limit: usize) {
        match &self.work {
            MeteredBy::Engine { intervals, .. } => {
                let series = MeterSeries::new(beat, limit);
                let next = series.next();
                intervals.begin(series, next);
            }
            MeteredBy::Threads(QueueThreads { queues, .. }) => {
                let mut series = Some(QueueSeries::new(beat, limit, queues.len()));
                for QueueThread { live, .. } in queues {
                    // they have it together
                    match series.take() {
                        Some(series) => live.intervals.begin(series, beat.end(0)),
                        None => live.intervals.join(beat.end(0)),
                    }
                }
            }
            MeteredBy::Idle(_) => {}
        }
    }

    /// Takes what it measured in intervals so far, and how many of them are complete. It is `now`.
    pub(crate) fn take_intervals(&self, now: Nanos) -> (Series<MeterBooks>, u64) {
        let taken = match &self.work {
            MeteredBy::Engine { receiver, intervals, .. } => {
                if intervals.due(now) {
                    intervals.pass(|series| {
                        series.pass(now, &**receiver);
                        series.next()
                    });
                }
                intervals.look(|series| (series.take(), series.complete()))
            }
            MeteredBy::Threads(QueueThreads { queues, .. }) => queues.first().and_then(|first| {
                first.live.intervals.look(|series| (series.take(), series.complete()))
            }),
            MeteredBy::Idle(_) => None,
        };
        taken.unwrap_or((Series::new(0), u64::MAX))
    }

    /// Asks for what is missing now.
    fn ask_missing(&self) {
        if let MeteredBy::Threads(QueueThreads { queues, .. }) = &self.work {
            queues.iter().for_each(|queue| queue.live.asked.store(true, Ordering::Relaxed));
        }
    }

    /// Sequence numbers that are missing now, or were when the threads that meter answered last. They have until `until`.
    fn missing(&self, until: Instant) -> u64 {
        match &self.work {
            MeteredBy::Engine { receiver, .. } => receiver.missing(),
            MeteredBy::Threads(QueueThreads { queues, .. }) => {
                for QueueThread { live, thread } in queues {
                    while live.asked.load(Ordering::Acquire)
                        && !thread.is_finished()
                        && Instant::now() < until
                    {
                        thread::sleep(STEP);
                    }
                }
                LiveRx::missing(queues.iter().map(|queue| &*queue.live))
            }
            MeteredBy::Idle(_) => 0,
        }
    }

    /// How many queues have a meter of their own.
    pub(crate) fn queues(&self) -> u16 {
        match &self.work {
            MeteredBy::Engine { .. } | MeteredBy::Idle(_) => 1,
            MeteredBy::Threads(QueueThreads { queues, .. }) => queues.len() as u16,
        }
    }

    /// Whether it has measured so many frames.
    pub(crate) fn has_measured(&self, count: u64) -> bool {
        match &self.work {
            MeteredBy::Engine { receiver, .. } => receiver.received().0 >= count,
            // it was told how many, and has ended with the last of them
            MeteredBy::Threads(QueueThreads { queues, .. }) => {
                queues.iter().all(|queue| queue.thread.is_finished())
            }
            MeteredBy::Idle(_) => false,
        }
    }

    /// Stops and says what was measured; what stays open for another run comes back beside it.
    pub(crate) fn rest(self) -> (ReceiverResult, Option<Receiver>) {
        let damage = self.damage.as_ref().and_then(DamageWatch::finding);
        let (received, work) = match self.work {
            MeteredBy::Engine { receiver, intervals, observing } => {
                receiver.pause();
                let observed = observing.is_some();
                drop(observing);
                let received = of_meter(&*receiver, &intervals);
                let (intervals, observing) = (Box::default(), None);
                // there is one reader of what it tells, and that has ended
                let rests = !observed;
                (received, rests.then_some(MeteredBy::Engine { receiver, intervals, observing }))
            }
            MeteredBy::Threads(threads) => {
                let (received, idle) = of_threads(threads.end());
                (received, (!idle.is_empty()).then_some(MeteredBy::Idle(idle)))
            }
            MeteredBy::Idle(idle) => (ReceiverResult::default(), Some(MeteredBy::Idle(idle))),
        };
        let resting = work.map(|work| Receiver { work, ..self });
        (ReceiverResult { damage, ..received }, resting)
    }

    /// Measures another run, as `how` says; gives that back where it takes another receiver.
    pub(crate) fn restart(
        mut self,
        port: &ResolvedPort,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Result<Receiver, Receiving>, RunError> {
        if self.engine != opening.engine {
            return Ok(Err(how));
        }
        match self.work {
            MeteredBy::Engine { receiver: ref mut meter, .. } => {
                if !meter.restart(&how)? {
                    return Ok(Err(how));
                }
                self.missing = AtomicU64::new(0);
                self.groups = how.groups;
                Ok(Ok(self))
            }
            MeteredBy::Idle(mut idle) => {
                if !driver(self.engine).rearm_receiver(port, &mut idle, &how)? {
                    return Ok(Err(how));
                }
                let damage = self.damage.map(|_| DamageWatch::of(port)).transpose()?;
                let Some(first) = (!idle.is_empty()).then(|| idle.remove(0)) else {
                    return Ok(Err(how));
                };
                let (mode, _promiscuous) = (self.mode, self._promiscuous);
                let started = first.start(idle, opening, how)?;
                Ok(Ok(Receiver { damage, mode, _promiscuous, ..started }))
            }
            MeteredBy::Threads(_) => Ok(Err(how)),
        }
    }

    /// Its memberships, if they are those of `groups`.
    pub(crate) fn take_groups(&mut self, groups: &[Group]) -> Option<Memberships> {
        let alike = self.groups.groups == groups;
        alike.then(|| std::mem::take(&mut self.groups))
    }

    /// Stops and says what was measured.
    pub(crate) fn finish(self) -> ReceiverResult {
        self.rest().0
    }
}

/// What an engine has metered.
fn of_meter(meter: &dyn OwnMeter, intervals: &LiveIntervals<MeterSeries>) -> ReceiverResult {
    let summary = meter.summary();
    ReceiverResult { intervals: left(intervals, &summary), summary, ..ReceiverResult::default() }
}

/// What threads leave that were told to end, and their ports where all of these can rest: one of several would go on taking its
/// share of what others receive.
fn of_threads(queues: Vec<QueueThread>) -> (ReceiverResult, Vec<Box<dyn IdlePort>>) {
    let join = |queue: QueueThread| {
        let collected = queue.thread.join().unwrap_or_else(|_| Collected::nothing());
        (collected, queue.live)
    };
    let (mut collected, lives): (Vec<_>, Vec<_>) = queues.into_iter().map(join).unzip();
    let idle: Option<Vec<_>> = collected.iter_mut().map(|one| one.idle.take()).collect();
    let idle = idle.unwrap_or_default();
    let Collected { summary, error, card_stamps, .. } = Collected::all(collected);
    let intervals = lives.first().and_then(|live| {
        live.intervals.look(|series| {
            series.finish(&summary);
            series.take()
        })
    });
    let intervals = intervals.unwrap_or(Series::new(0));
    (ReceiverResult { summary, error, card_stamps, damage: None, intervals }, idle)
}
