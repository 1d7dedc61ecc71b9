//! The receiving ports of a run: opened beforehand, metering until they are told to stop.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wirebeat_engine::budget::RunClock;
use wirebeat_engine::collect::{LiveRx, Manner, collect_and_tell};
use wirebeat_engine::intervals::LiveIntervals;
use wirebeat_engine::port::{Arrival, CardStamps, PortError, RxPort};
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
use crate::engines::{Engine, OwnMeter, RxOpening};
use crate::error::RunError;
use crate::packet_log::PacketLog;
use crate::ports::ResolvedPort;

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
    /// A log of each packet.
    pub(crate) log: Option<PacketLog>,
    /// Groups that were joined; they are left when the receiver ends.
    pub(crate) groups: Vec<Membership>,
    /// How many queues, with a thread each, divide among them what arrives, where threads meter; at least one.
    pub(crate) queues: u16,
    /// Where and how these threads run: each on a CPU of its own, as far as CPUs are named.
    pub(crate) thread: ThreadOrders,
}

/// Joins multicast groups at a port: on its interface, or on that of the system's choice. An engine without a network
/// has nobody to tell.
pub(crate) fn join(port: &ResolvedPort, groups: &[Group]) -> Result<Vec<Membership>, RunError> {
    let nobody = port.spec.engine.engine().is_some_and(|engine| !engine.has_network());
    if groups.is_empty() || nobody {
        return Ok(Vec::new());
    }
    let interface = port.link.as_ref().map_or(0, |link| link.index.get());
    let joined = |group: &Group| {
        Membership::join(interface, group).map_err(|error| {
            RunError::usage(format!("port '{}' cannot join the group {group}: {error}", port.name))
        })
    };
    port.enter(|| groups.iter().map(joined).collect::<Result<Vec<_>, _>>())?
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
    _groups: Vec<Membership>,
    /// That its card takes all frames, where no socket of it says so.
    _promiscuous: Option<Promiscuous>,
    /// What the stack drops before a socket sees it.
    damage: Option<DamageWatch>,
}

#[derive(Debug)]
enum MeteredBy {
    /// The engine meters by itself, and somebody who looks makes intervals of its counts.
    Engine { receiver: Box<dyn OwnMeter>, intervals: Box<LiveIntervals<MeterSeries>> },
    /// A thread for each queue meters what that delivers; there is at least one.
    Threads { queues: Vec<QueueThread>, stop: Arc<AtomicBool> },
}

/// The thread of a receive queue.
#[derive(Debug)]
struct QueueThread {
    thread: JoinHandle<Collected>,
    live: Arc<LiveRx>,
}

/// What a metering thread leaves.
#[derive(Debug)]
struct Collected {
    summary: MeterSummary,
    error: Option<PortError>,
    log_error: Option<std::io::Error>,
    card_stamps: Option<CardStamps>,
}

/// What a receiver measured, at its end.
#[derive(Debug)]
pub(crate) struct ReceiverResult {
    pub(crate) summary: MeterSummary,
    pub(crate) error: Option<PortError>,
    /// Why the log of packets is incomplete.
    pub(crate) log_error: Option<std::io::Error>,
    /// What arrived damaged and never reached it, in words.
    pub(crate) damage: Option<String>,
    /// What its card stamped, where it does.
    pub(crate) card_stamps: Option<CardStamps>,
    /// What it measured in intervals that nobody took before.
    pub(crate) intervals: Series<MeterBooks>,
}

/// After so many frames a receiver looks whether it has to rest.
const REST: u32 = 64;

/// Starts a thread for each of `ports`, the receive queues of one port, that meters what it delivers.
pub(crate) fn start<P, C>(
    opening: &RxOpening<'_>,
    ports: Vec<P>,
    clock: C,
    how: Receiving,
) -> Result<Receiver, RunError>
where
    P: RxPort + 'static,
    C: wirebeat_engine::clock::Clock + Clone + 'static,
{
    let stop = Arc::new(AtomicBool::new(false));
    let mut mode = ports.first().map(|port| port.caps().mode.clone()).unwrap_or_default();
    let count = ports.len();
    if count > 1 {
        mode = format!("{mode}, {count} queues");
    }
    let Receiving { meter: config, mut log, groups, manner, most, thread: orders, .. } = how;
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
            // there is none where several queues are
            log: log.take(),
        };
        states.push(Arc::clone(&work.orders.state));
        queues.push(work.start(&stop)?);
    }
    let work = MeteredBy::Threads { queues, stop };
    Ok(Receiver {
        place: opening.place,
        engine: opening.engine,
        mode,
        states,
        work,
        missing: AtomicU64::new(0),
        _groups: groups,
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
    log: Option<PacketLog>,
}

impl<P, C> QueueWork<P, C>
where
    P: RxPort + 'static,
    C: wirebeat_engine::clock::Clock + 'static,
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
        let QueueWork { mut port, clock, mut meter, orders, stop, live, manner, most, mut log } =
            self;
        let applied = match orders.apply() {
            Ok(applied) => applied,
            Err(source) => {
                let (what, on) =
                    ("preparing the receiving thread".into(), format!("CPU {:?}", orders.cpus));
                let error = Some(PortError::System { what, on, source });
                let summary = meter.into_summary();
                return Collected { summary, error, log_error: None, card_stamps: None };
            }
        };
        let rest = match orders.priority {
            Priority::Realtime => RunClock::with_budget(realtime_share()),
            Priority::Normal | Priority::High => RunClock::default(),
        };
        let mut taken = 0_u32;
        let tap = |arrival: &Arrival<'_>| {
            taken = taken.wrapping_add(1);
            if taken.is_multiple_of(REST) {
                rest.rest();
            }
            if let Some(log) = &mut log {
                log.record(arrival.at, arrival.bytes);
            }
        };
        let told = (&*stop, &*live);
        let error =
            collect_and_tell((&mut port, &clock, manner), &mut meter, told, most, tap).err();
        let written = log.map_or(Ok(()), |log| log.finish(clock.now()));
        let mut summary = meter.into_summary();
        summary.receiver_drops = port.receive_drops();
        let card_stamps = port.card_stamps();
        drop(applied);
        Collected { summary, error, log_error: written.err(), card_stamps }
    }
}

impl Collected {
    /// What all queues leave, and the first error of each kind.
    fn all(queues: impl IntoIterator<Item = Collected>) -> Collected {
        let add = |mut all: Collected, one: Collected| {
            all.summary.merge(&one.summary);
            all.error = all.error.or(one.error);
            all.log_error = all.log_error.or(one.log_error);
            match (&mut all.card_stamps, one.card_stamps) {
                (Some(stamps), Some(more)) => stamps.merge(&more),
                (stamps, more) => *stamps = stamps.take().or(more),
            }
            all
        };
        queues.into_iter().reduce(add).unwrap_or_else(|| Collected {
            summary: MeterSummary::default(),
            error: None,
            log_error: None,
            card_stamps: None,
        })
    }

    /// What a thread leaves that panicked.
    fn nothing() -> Collected {
        let error = PortError::System {
            what: "metering".into(),
            on: "a receiving thread".to_owned(),
            source: std::io::Error::other("it panicked"),
        };
        Collected {
            summary: MeterSummary::default(),
            error: Some(error),
            log_error: None,
            card_stamps: None,
        }
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
        meter: Box<dyn OwnMeter>,
        (groups, promiscuous): (Vec<Membership>, Option<Promiscuous>),
    ) -> Receiver {
        Receiver {
            place: opening.place,
            engine: opening.engine,
            mode,
            states: Vec::new(),
            work: MeteredBy::Engine { receiver: meter, intervals: Box::default() },
            missing: AtomicU64::new(0),
            _groups: groups,
            _promiscuous: promiscuous,
            damage: None,
        }
    }

    /// The same receiver, and what the stack drops before it sees it.
    pub(crate) fn watched(self, damage: DamageWatch) -> Receiver {
        Receiver { damage: Some(damage), ..self }
    }

    /// Frames received so far, and their bytes with FCS.
    pub(crate) fn received(&self) -> (u64, u64) {
        match &self.work {
            MeteredBy::Engine { receiver, .. } => receiver.received(),
            MeteredBy::Threads { queues, .. } => {
                let read = |queue: &QueueThread| {
                    let LiveRx { frames, bytes, .. } = &*queue.live;
                    (frames.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
                };
                queues.iter().map(read).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
            }
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
            MeteredBy::Threads { queues, .. } => {
                let mut series = Some(QueueSeries::new(beat, limit, queues.len()));
                for QueueThread { live, .. } in queues {
                    // they have it together
                    match series.take() {
                        Some(series) => live.intervals.begin(series, beat.end(0)),
                        None => live.intervals.join(beat.end(0)),
                    }
                }
            }
        }
    }

    /// Takes what it measured in intervals so far, and how many of them are complete. It is `now`.
    pub(crate) fn take_intervals(&self, now: Nanos) -> (Series<MeterBooks>, u64) {
        let taken = match &self.work {
            MeteredBy::Engine { receiver, intervals } => {
                if intervals.due(now) {
                    intervals.pass(|series| {
                        series.pass(now, &**receiver);
                        series.next()
                    });
                }
                intervals.look(|series| (series.take(), series.complete()))
            }
            MeteredBy::Threads { queues, .. } => queues.first().and_then(|first| {
                first.live.intervals.look(|series| (series.take(), series.complete()))
            }),
        };
        taken.unwrap_or((Series::new(0), u64::MAX))
    }

    /// Asks for what is missing now.
    fn ask_missing(&self) {
        if let MeteredBy::Threads { queues, .. } = &self.work {
            queues.iter().for_each(|queue| queue.live.asked.store(true, Ordering::Relaxed));
        }
    }

    /// Sequence numbers that are missing now, or were when the threads that meter answered last. They have until `until`.
    fn missing(&self, until: Instant) -> u64 {
        match &self.work {
            MeteredBy::Engine { receiver, .. } => receiver.missing(),
            MeteredBy::Threads { queues, .. } => {
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
        }
    }

    /// Whether it has measured so many frames.
    pub(crate) fn has_measured(&self, count: u64) -> bool {
        match &self.work {
            MeteredBy::Engine { receiver, .. } => receiver.received().0 >= count,
            // it was told how many, and has ended with the last of them
            MeteredBy::Threads { queues, .. } => {
                queues.iter().all(|queue| queue.thread.is_finished())
            }
        }
    }

    /// Stops and says what was measured; what stays attached for another run comes back beside it.
    pub(crate) fn rest(mut self) -> (ReceiverResult, Option<Receiver>) {
        let MeteredBy::Engine { receiver: meter, intervals } = &mut self.work else {
            return (self.finish(), None);
        };
        meter.pause();
        let summary = meter.summary();
        let received = ReceiverResult {
            intervals: left(intervals, &summary),
            summary,
            error: None,
            log_error: None,
            damage: self.damage.as_ref().and_then(DamageWatch::finding),
            card_stamps: None,
        };
        (received, Some(self))
    }

    /// Measures another run, as `how` says; gives it back where that takes another receiver.
    pub(crate) fn restart(
        mut self,
        how: Receiving,
    ) -> Result<Result<Receiver, Receiving>, RunError> {
        let MeteredBy::Engine { receiver: meter, .. } = &mut self.work else { return Ok(Err(how)) };
        if !meter.restart(&how)? {
            return Ok(Err(how));
        }
        self.missing = AtomicU64::new(0);
        self._groups = how.groups;
        Ok(Ok(self))
    }

    /// Stops and says what was measured.
    pub(crate) fn finish(self) -> ReceiverResult {
        let damage = self.damage.as_ref().and_then(DamageWatch::finding);
        match self.work {
            MeteredBy::Engine { receiver, intervals } => {
                let summary = receiver.summary();
                let intervals = left(&intervals, &summary);
                let (error, log_error, card_stamps) = (None, None, None);
                ReceiverResult { summary, error, log_error, damage, card_stamps, intervals }
            }
            MeteredBy::Threads { queues, stop } => {
                stop.store(true, Ordering::Release);
                let join = |queue: QueueThread| {
                    let collected = queue.thread.join().unwrap_or_else(|_| Collected::nothing());
                    (collected, queue.live)
                };
                let (collected, lives): (Vec<_>, Vec<_>) = queues.into_iter().map(join).unzip();
                let Collected { summary, error, log_error, card_stamps } =
                    Collected::all(collected);
                let intervals = lives.first().and_then(|live| {
                    live.intervals.look(|series| {
                        series.finish(&summary);
                        series.take()
                    })
                });
                ReceiverResult {
                    summary,
                    error,
                    log_error,
                    damage,
                    card_stamps,
                    intervals: intervals.unwrap_or(Series::new(0)),
                }
            }
        }
    }
}
