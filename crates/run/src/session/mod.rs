//! A run from beginning to end: find the ports, compile, open receivers and then senders, start all at
//! one time, watch, settle, and report. `opening.rs` opens the ports, `reception.rs` says what each port
//! receives, `watching.rs` what is looked at meanwhile, `start.rs` when it begins.

mod choices;
mod opening;
mod reception;
mod start;
mod watching;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::drive::{LiveTx, Sequences};
use wirebeat_engine_linux::affinity::Aside;
use wirebeat_engine_linux::kernel::Accepted;
use wirebeat_engine_linux::scheduling::{Priority, ThreadState, raise_helpers};
use wirebeat_engine_linux::time::RealtimeToMonotonic;
use wirebeat_host::{CpuTimes, Machine};
use wirebeat_meter::headers::HeaderTable;
use wirebeat_netlink::LinkWatch;
use wirebeat_report::assemble::Attribution;
use wirebeat_report::model::{Change, End, Report, TransmitQueue};
use wirebeat_traffic::compile::{Live, compile};
use wirebeat_traffic::program::{Flow, Program};
use wirebeat_traffic::scenario::{OnLinkDown, Scenario, TimestampsChoice, WaitChoice};
use wirebeat_units::{Nanos, WallTime};

use crate::attribution::attribute_remote;
use crate::cards;
use crate::control::socket::ControlSocket;
use crate::control::{Control, Controlled};
use crate::day_clock::DayClock;
use crate::engines::{self, Ability, Engine, InMemory};
use crate::error::RunError;
use crate::files;
use crate::links::Links;
use crate::observe::{Looks, Observer, Stop};
use crate::options::Options;
use crate::outcome::{self, Outcome};
use crate::placement::{self, Cpus, Demand, Placement, Seat};
use crate::ports::{self, PortHere};
use crate::priority;
use crate::queues::{self, Queues};
use crate::receivers::Receiver;
use crate::refusals::Refusals;
use crate::remote::{Connection, ExpectedFlow, Measurement, RemoteError};
use crate::replay::{Opened, Replaying};
use crate::spread;
use crate::starvation::Starvation;
use crate::transmit::{Marching, Sender};

use choices::{check_bins, check_ends, chosen, overwritten, planned};
use opening::await_links;
use reception::nominal_gap;
use start::before_a_tick;
pub(crate) use watching::stopped;
use watching::{Halt, HandedOver, Looking, end_of_sending, halt_when_asked};

/// When a run on a virtual clock starts: a round number, the same every time.
const VIRTUAL_START: Nanos = Nanos::from_secs(1);
/// How often links are looked at, and the longest that a stop waits.
const WATCH: Duration = Duration::from_millis(10);

/// A run that is ready to start: compiled, its ports open, nothing sent.
#[allow(missing_debug_implementations, reason = "a connection has no readable form")]
pub struct Prepared {
    pub(crate) program: Program,
    pub(crate) options: Options,
    pub(crate) ports: Vec<PortHere>,
    pub(crate) engines: Vec<Engine>,
    /// Interfaces and engines that were not written and had to be chosen, for the person who waits.
    chosen: Vec<String>,
    pub(crate) senders: Vec<Sender>,
    /// What was recorded, until it is begun, and on its way to them.
    opened: Vec<Opened>,
    replaying: Vec<Replaying>,
    /// What the report says of each sender, once they are at work.
    pub(crate) sending: Vec<Sending>,
    pub(crate) receivers: Vec<Receiver>,
    /// How the frames of each flow that somebody receives are recognised, by the flow's number.
    pub(crate) attributions: BTreeMap<u16, Attribution>,
    /// The headers of those that are known by theirs.
    pub(crate) recognised: HeaderTable,
    pub(crate) wait: Wait,
    pub(crate) priority: Priority,
    /// What the placement of its threads has to say.
    pub(crate) placed: Vec<String>,
    pub(crate) settle: Nanos,
    /// When it starts by the clock of the day, if that was said.
    start_at: Option<WallTime>,
    /// The clock of the day, for probes of other tools.
    day: DayClock,
    pub(crate) machine: Machine,
    /// Who stamps frames.
    timestamps: TimestampsChoice,
    /// How long to wait for links before the start, and what becomes of the run when one goes down.
    links: (Nanos, OnLinkDown),
    watches: Vec<LinkWatch>,
    /// What the drivers of ports accept, where it is counted.
    pub(crate) accepted: Vec<Option<Accepted>>,
    in_memory: InMemory,
    /// The receiver on another host.
    connection: Option<Connection>,
    /// What it measures, from [`Prepared::begin`] on.
    measurement: Option<Measurement>,
    /// Where its flows may change while it runs: the handle, and the socket if there is one.
    pub(crate) control: Option<Control>,
    control_socket: Option<ControlSocket>,
    /// What the scenario changes while it runs, in the order of time.
    pub(crate) planned: Vec<Change>,
    /// The longest frame of each port that there is room for, without FCS.
    room: Vec<u16>,
}

/// A sender, as the report names it.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub(crate) place: usize,
    /// The flows that it sends, and how many senders share them.
    pub(crate) flows: Vec<u32>,
    pub(crate) cores: u32,
    /// Where it was put, and what is in force for its thread.
    pub(crate) seat: Seat,
    /// By which transmit queues it sends from there, where that is known.
    pub(crate) transmit_queue: Option<TransmitQueue>,
    pub(crate) state: Arc<ThreadState>,
    pub(crate) mode: String,
}

/// Resolves links, compiles the scenario and opens its ports. Nothing is sent.
pub fn prepare(scenario: &Scenario, options: Options) -> Result<Prepared, RunError> {
    let cpus = Cpus::here();
    for (name, port) in &scenario.ports {
        cpus.check(&format!("port '{name}'"), &port.cores)?;
    }
    let ports = ports::find(scenario, &options.namespaces)?;
    let choices =
        ports.iter().map(|port| engines::choose(port, scenario)).collect::<Result<Vec<_>, _>>()?;
    let engines: Vec<Engine> = choices.iter().map(|choice| choice.engine).collect();
    let mut chosen = chosen(scenario, &ports, &choices);
    chosen.extend(overwritten(&ports, &engines, &options));
    // neighbours answer only then
    chosen.extend(await_links(&ports, &engines, scenario.run.link_timeout)?);
    let found = files::find(scenario, &options)?;
    let links = ports::links(scenario, &ports, &engines)?;
    let program = compile(scenario, &links, &found.files)?;
    found.check(&program)?;
    check_bins(&program, &options)?;
    check_ends(&program, &ports, &engines)?;
    let wait = match scenario.run.wait {
        WaitChoice::Spin => Wait::Spin,
        WaitChoice::Hybrid => Wait::Hybrid,
        WaitChoice::Sleep => Wait::Sleep,
    };
    let mut prepared = Prepared {
        program,
        options,
        ports,
        engines,
        chosen,
        senders: Vec::new(),
        opened: Vec::new(),
        replaying: Vec::new(),
        sending: Vec::new(),
        receivers: Vec::new(),
        attributions: BTreeMap::new(),
        recognised: HeaderTable::default(),
        wait,
        priority: priority::of(scenario.run.priority),
        placed: Vec::new(),
        settle: scenario.run.settle,
        day: DayClock::new(),
        start_at: scenario.run.start_at,
        machine: Machine::observe(),
        timestamps: scenario.run.timestamps,
        links: (scenario.run.link_timeout, scenario.run.on_link_down),
        watches: Vec::new(),
        accepted: Vec::new(),
        in_memory: InMemory::default(),
        connection: None,
        measurement: None,
        control: None,
        control_socket: None,
        planned: planned(scenario),
        room: Vec::new(),
    };
    prepared.check_clocks()?;
    prepared.check_start()?;
    if let Some(peer) = &prepared.options.peer {
        prepared.connection = Some(Connection::open(peer)?);
    }
    let placement = prepared.place(&cpus)?;
    prepared.check_priority(&placement)?;
    prepared.placed.clone_from(&placement.findings);
    // what transmits is not kept from it by those who help it
    let _aside = Aside::from(placement.cpus());
    let _raised = raise_helpers(prepared.priority);
    prepared.open(placement.senders)?;
    prepared.watch()?;
    prepared.begin_replays()?;
    if prepared.is_controlled() {
        let live = Live::new(scenario.clone(), links, found.files, &prepared.program);
        prepared.control = Some(prepared.control_of(live));
    }
    // last, so that a signal that ends the program while it waits leaves no socket behind
    if let Controlled::BySocket(path) = &prepared.options.control {
        prepared.control_socket = Some(ControlSocket::open(path.as_deref())?);
    }
    Ok(prepared)
}

impl Prepared {
    /// Ports on a virtual clock and ports on a real one cannot share a run.
    fn check_clocks(&self) -> Result<(), RunError> {
        let count = self.engines.iter().filter(|engine| engine.is_virtual()).count();
        if count > 0 && self.is_controlled() {
            let real = Engine::names(|engine| !engine.is_virtual());
            return Err(RunError::usage(
                "a run on a virtual clock is over before anyone could change it",
            )
            .hint(format!("use the engine {real}, or run it without control")));
        }
        if count == 0 || count == self.engines.len() {
            return Ok(());
        }
        let of = Engine::names(Engine::is_virtual);
        Err(RunError::usage(format!(
            "ports of the engine {of} run on a virtual clock and cannot share a scenario with ports on a real one"
        ))
        .hint("give all ports a virtual engine, or none"))
    }

    /// A start that has passed cannot be kept.
    fn check_start(&self) -> Result<(), RunError> {
        let Some(moment) = self.start_at else { return Ok(()) };
        if self.monotonic(moment) >= MonotonicClock.now() {
            return Ok(());
        }
        let why = format!(
            "the start at {moment} has passed; give a later one, or leave 'run.start-at' out"
        );
        Err(RunError::usage(why))
    }

    /// When it starts and how long that is from now, where it waits for a moment.
    fn awaited_start(&self) -> Option<String> {
        let moment = self.start_at?;
        let ahead = self.monotonic(moment).saturating_sub(MonotonicClock.now()).get();
        let seconds = ahead.div_ceil(1_000_000_000);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        (!self.is_virtual() && ahead > 0).then(|| {
            format!(
                "waiting for the start at {moment}, in {hours:02}:{minutes:02}:{:02}",
                seconds % 60
            )
        })
    }

    /// Whether it runs on a virtual clock.
    fn is_virtual(&self) -> bool {
        self.engines.iter().any(|engine| engine.is_virtual())
    }

    /// Whether flows may change while it runs.
    fn is_controlled(&self) -> bool {
        self.options.control != Controlled::No
    }

    /// The handle for those who change its flows, where [`Options::control`] asks for one. It works while the
    /// session runs.
    pub fn control(&self) -> Option<Control> {
        self.control.clone()
    }

    /// Where the control socket lies, if there is one.
    pub fn control_path(&self) -> Option<&std::path::Path> {
        self.control_socket.as_ref().map(ControlSocket::path)
    }

    fn control_of(&mut self, live: Live) -> Control {
        for (place, sender) in self.senders.iter_mut().enumerate() {
            sender.place = place;
        }
        let room = |flow: &Flow| {
            let place = self.ports.iter().position(|port| port.name == flow.from);
            place.and_then(|place| self.room.get(place)).copied().unwrap_or(0)
        };
        let room = self.program.flows.iter().map(room).collect();
        Control::new(live, self.senders.len(), room)
    }

    /// Where the transmit cores of all ports run.
    fn place(&self, cpus: &Cpus) -> Result<Placement, RunError> {
        let of = |(port, engine): (&PortHere, &Engine)| {
            let flows = self.program.flows_from(&port.name);
            let most = (usize::from(port.spec.senders()), port.spec.names_several());
            let senders = match flows.is_empty() {
                true => 0,
                false => spread::shares(&self.program, &flows, most).len(),
            };
            let demand = Demand::of(port, *engine, senders);
            let near = demand.near.as_deref();
            if demand.senders == 0 {
                return Ok(demand);
            }
            if !port.spec.transmit_queues.is_empty() {
                let named = queues::choose(port, *engine, (&cpus.allowed, near))?;
                return Ok(Demand { named, ..demand });
            }
            let below = Queues::of(port, *engine).as_ref().and_then(Queues::cpus_below);
            Ok(Demand { below, ..demand })
        };
        let demands = self.ports.iter().zip(&self.engines).map(of);
        let demands = demands.collect::<Result<Vec<Demand>, RunError>>()?;
        Ok(placement::place(&demands, &cpus.allowed))
    }

    /// That real time is permitted, where it is asked for and somebody sends or receives.
    fn check_priority(&self, placement: &Placement) -> Result<(), RunError> {
        match self.engines.iter().all(|engine| engine.is_virtual()) {
            true => Ok(()),
            false => priority::check(self.priority, placement),
        }
    }

    /// The gap between frames of a flow, where it is sure to stay the same.
    fn nominal_gap(&self, flow: &Flow) -> Option<Nanos> {
        nominal_gap(&self.program, flow).filter(|_| !self.is_controlled())
    }

    /// How long the flows are going to send, where their schedule says so.
    fn duration(&self) -> Option<Nanos> {
        let flows = 0..self.program.flows.len() as u32;
        flows.map(|flow| self.program.end(flow)).max().filter(|&end| end < Nanos::MAX)
    }

    /// When the last flow has to end by time, from the start of the run. A flow that ends by its count
    /// takes as long as it takes.
    fn time_limit(&self) -> Nanos {
        let stops = self.program.streams.iter().map(|stream| stream.departures.stop);
        stops.max().unwrap_or(Nanos::ZERO)
    }

    /// Lets the receiver on another host begin to measure, if there is one: call it right before [`Prepared::start`], which
    /// otherwise does so itself and can only report that it failed. Waiting for that host ends as soon as `stop` is asked.
    ///
    /// # Errors
    /// What the other host cannot do, or says that cannot be true. Nothing has been sent.
    pub fn begin(&mut self, stop: &Stop) -> Result<(), RunError> {
        self.measurement = self.begin_remote(stop)?;
        Ok(())
    }

    /// Lets the receiver on another host begin to measure the flows that no port here receives.
    fn begin_remote(&mut self, stop: &Stop) -> Result<Option<Measurement>, RemoteError> {
        if let Some(mut begun) = self.measurement.take() {
            begun.heed(stop, self.settle);
            return Ok(Some(begun));
        }
        let Some(mut connection) = self.connection.take() else { return Ok(None) };
        connection.heed(stop);
        let flows = self.program.flows.iter().filter(|flow| flow.to.is_none());
        let there: Vec<&Flow> = flows.clone().collect();
        self.attributions.extend(attribute_remote(&self.program, &there));
        let expected = flows.flat_map(|flow| {
            let nominal_gap_ns = self.nominal_gap(flow).map(Nanos::get);
            let name = flow.name.clone();
            let expected = move |id| ExpectedFlow { id, name: name.clone(), nominal_gap_ns };
            self.program.probes_of(flow).map(expected)
        });
        let mut measurement = connection.begin(expected.collect())?;
        measurement.heed(stop, self.settle);
        Ok(Some(measurement))
    }

    /// A moment on the monotonic clock, as the two clocks stand now.
    fn monotonic(&self, moment: WallTime) -> Nanos {
        Nanos::new(moment.unix().get().saturating_sub(RealtimeToMonotonic::new().offset()))
    }

    /// What will not be as it is written: a sentence for each port.
    fn left_to_the_system(&self) -> Vec<String> {
        let of_port = |(port, engine): (&PortHere, &Engine)| {
            let names = |flow: &Flow| {
                let mut names =
                    flow.endpoint.map_or(Vec::new(), |endpoint| endpoint.replaced.names());
                names.extend(port.spec.next_hop.map(|_| "the next hop"));
                names
            };
            let flows = self.program.flows.iter().filter(|flow| flow.from == port.name);
            let flows: Vec<&Flow> = flows.filter(|flow| !names(flow).is_empty()).collect();
            let first = flows.first().filter(|_| !engine.can(Ability::SeeHeaders))?;
            let others = match flows.len() {
                1 => String::new(),
                count => format!(" and of {} others", count - 1),
            };
            let able = Engine::names(|one| one.has_network() && one.can(Ability::SeeHeaders));
            Some(format!(
                "the engine '{engine}' of port '{}' leaves {} of flow '{}'{others} to the system; {able} sends what is \
                 written",
                port.name,
                names(first).join(", "),
                first.name
            ))
        };
        self.ports.iter().zip(&self.engines).filter_map(of_port).collect()
    }

    /// Runs to the end and reports.
    pub fn start(mut self, observer: &mut dyn Observer, stop: &Stop) -> Report {
        for notice in self.chosen.iter().chain(&self.left_to_the_system()) {
            observer.notice(notice);
        }
        if let Some(notice) = self.awaited_start() {
            observer.notice(&notice);
        }
        let mut remote = self.begin_remote(stop);
        let cards = cards::read_all(&self.ports);
        let started = SystemTime::now();
        let cpu = CpuTimes::now();
        let duration = self.duration();
        let virtual_time = self.is_virtual();
        let begun = MonotonicClock.now();
        let start = match self.start_at {
            _ if virtual_time => VIRTUAL_START,
            Some(moment) => self.monotonic(moment).max(before_a_tick(begun)),
            None => before_a_tick(begun),
        };
        // What lies before the start is waiting, and no part of the run.
        let origin = if virtual_time { begun } else { start };
        let sequences = Sequences::new(self.program.tags());
        // without the receiver that was asked for, nothing is sent
        let halt = Halt::new(remote.is_err());
        // before any of them waits: who begins alone would go on alone
        let on_virtual_time = self.senders.iter().filter(|sender| sender.is_on_virtual_time());
        let mut clocks = self.in_memory.clock.waiters(on_virtual_time.count()).into_iter();
        // it may be long since this was prepared
        self.day.refresh();
        let unix_offset = self.day.offset().clone();
        let marching = Marching {
            program: &self.program,
            sequences: &sequences,
            start,
            end: start.saturating_add(self.time_limit()),
            wait: self.wait,
            unix_offset: &unix_offset,
            stop: &halt.flag,
            changes: self.control.as_ref().map(Control::changes),
        };
        let socket = self.control_socket.take().zip(self.control.clone());
        let serving = socket.map(|(socket, control)| socket.serve(control));
        if let Some(Err(error)) = &serving {
            observer.notice(&format!("nothing answers on the control socket: {error}"));
        }
        if let Some(control) = &self.control {
            control.begin(start);
        }
        let mut senders = std::mem::take(&mut self.senders);
        let _aside = Aside::from(self.sending.iter().filter_map(|sending| sending.seat.cpu));
        let _raised = raise_helpers(self.priority);
        let seats = self.sending.iter().map(|sending| (&sending.state, &sending.seat));
        let mut starvation = Starvation::watch(seats, begun);
        let lives: Vec<Arc<LiveTx>> =
            senders.iter().map(|sender| Arc::clone(&sender.live)).collect();
        let mut links = Links::new(std::mem::take(&mut self.watches), self.links.1, origin);
        let stopped_before = matches!(remote, Err(RemoteError::Stopped { .. }));
        let mut refusals = Refusals::new(&self, &lives);
        let handed = HandedOver { sending: &self.sending, lives: &lives, accepted: &self.accepted };
        let mut looking = Looking {
            receivers: &self.receivers,
            lives: &lives,
            duration,
            remote: remote.as_mut().ok().and_then(Option::as_mut),
            asked: None,
            told: None,
            handed,
            looked: Nanos::ZERO,
            frames: 0,
            all_counted: self.counts_all(),
            sent: VecDeque::new(),
        };
        let mut looks = Looks::every(self.options.interval);
        let mut end = End::Completed;
        let over = AtomicBool::new(false);
        let sent = thread::scope(|scope| {
            let threads: Vec<_> = senders
                .iter_mut()
                .map(|sender| sender.spawn(scope, marching, &mut clocks))
                .collect();
            for (place, _) in threads.iter().enumerate().filter(|(_, thread)| thread.is_err()) {
                // The others would wait for it.
                marching.changes.inspect(|changes| changes.leave(place));
            }
            let heeding = thread::Builder::new().name("stop".to_owned());
            let _heeding = heeding.spawn_scoped(scope, || halt_when_asked(stop, &halt, &over));
            let running = |threads: &[std::io::Result<thread::ScopedJoinHandle<'_, _>>]| {
                threads.iter().flatten().any(|thread| !thread.is_finished())
            };
            while running(&threads) {
                thread::sleep(WATCH);
                if !virtual_time {
                    self.day.refresh();
                }
                let now = MonotonicClock.now();
                if end == End::Completed {
                    let stuck = self.replaying.iter().find_map(Replaying::stuck);
                    let failed = stuck.or_else(|| refusals.look(&self.accepted, now));
                    let failed = failed.map(|message| End::Failed { message });
                    let reason = stopped(stop).or_else(|| links.look(now)).or(failed);
                    if reason.is_some() {
                        halt.set();
                    }
                    end = reason.unwrap_or(End::Completed);
                }
                for told in self.replaying.iter().filter_map(Replaying::long_gap) {
                    observer.notice(&told);
                }
                starvation.look(now);
                let elapsed = now.saturating_sub(origin);
                looking.note_sent(elapsed);
                if looks.due(elapsed, duration) {
                    observer.progress(&looking.at(elapsed));
                }
            }
            over.store(true, Ordering::Release);
            threads.into_iter().map(outcome::join).collect::<Vec<_>>()
        });
        // Nothing may have run for so long that it was looked at.
        if end == End::Completed && (stopped_before || halt.is_set()) {
            end = stopped(stop).unwrap_or(End::Completed);
        }
        let ran = match virtual_time {
            true => self.time_limit(),
            false => MonotonicClock.now().saturating_sub(start),
        };
        let outages = links.into_outages(MonotonicClock.now());
        drop((senders, serving));
        let replayed =
            std::mem::take(&mut self.replaying).into_iter().map(Replaying::finish).collect();
        // the last look is at what was sent by now, and has arrived or not when all is quiet
        let ended = match virtual_time {
            true => MonotonicClock.now().saturating_sub(origin),
            false => end_of_sending(&sent, (start, ran), halt.since(start).or(duration)),
        };
        if !virtual_time && !self.receivers.is_empty() {
            watching::settle(self.settle, stop);
        }
        observer.progress(&looking.last(ended));
        let remote = outcome::finish_remote(remote, self.settle);
        let elapsed = MonotonicClock.now().saturating_sub(origin);
        outcome::report(
            self,
            Outcome {
                sent,
                end,
                started,
                start,
                elapsed,
                ran,
                cpu,
                cards,
                stopped_early: halt.is_set(),
                halted: halt.since(start),
                replayed,
                remote,
                outages,
            },
        )
    }

    /// Whether all frames that are sent are counted by receivers, one for one: each has a probe that somebody reads, and
    /// leaves as one.
    fn counts_all(&self) -> bool {
        let probed = |flow: &Flow| self.attributions.get(&flow.id) == Some(&Attribution::Probe);
        self.program.flows.iter().all(probed) && !self.program.is_cut()
    }
}
