//! A run on a lab, in three states: *planned* (compiled and placed, `planned.rs`), *opened* (receivers and then senders,
//! `opening.rs`; `reception.rs` says what each port receives), *running* (started at one time, watched, settled, reported).
//! `watching.rs` is what is looked at meanwhile, `start.rs` when it begins, `far.rs` what other hosts send. What outlives a run is the [`Lab`]'s.

mod choices;
pub(crate) mod far;
mod opening;
mod planned;
mod reception;
mod start;
mod watching;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use wirebeat_capture::packet_log::MeterFacts;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::drive::{LiveTx, RunTimes, Sequences};
use wirebeat_engine_linux::affinity::HelperCpuGuard;
use wirebeat_engine_linux::kernel::Accepted;
use wirebeat_engine_linux::scheduling::{ThreadState, raise_helpers};
use wirebeat_host::CpuTimes;
use wirebeat_meter::headers::HeaderTable;
use wirebeat_netlink::LinkWatch;
use wirebeat_report::assemble::Attribution;
use wirebeat_report::model::{End, Report, Station, TransmitQueue};
use wirebeat_traffic::compile::Live;
use wirebeat_traffic::program::Flow;
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::Nanos;

use crate::attribution::attribute_remote;
use crate::cards;
use crate::control::socket::{ControlSocket, answered};
use crate::control::{Control, Controlled};
use crate::engines::{Ability, Engine, InMemory};
use crate::error::RunError;
use crate::facts;
use crate::granted::{Bounds, Tags};
use crate::lab::{Host, Lab};
use crate::links::Links;
use crate::observe::{Looks, Observer, Stop};
use crate::options::Options;
use crate::outcome::{self, Outcome, RemoteResults};
use crate::placement::Seat;
use crate::ports::ResolvedPort;
use crate::receivers::Receiver;
use crate::refusals::Refusals;
use crate::remote::{ExpectedFlow, Measurement, RemoteError};
use crate::replay::{self, Replaying};
use crate::starvation::Starvation;
use crate::tapping::Keeping;
use crate::transmit::{AtWork, SendContext, TxWorker};

pub(crate) use choices::{check_ends, chosen, overwritten};
pub(crate) use opening::await_links;
use planned::{Planned, monotonic};
pub(crate) use planned::{VirtualPorts, check_clocks, check_far};
use start::before_a_tick;
pub(crate) use watching::stopped;
use watching::{FarLook, HandedOver, RunMonitor, SenderStop, end_of_sending, halt_when_asked};

/// When a run on a virtual clock starts: a round number, the same every time.
const VIRTUAL_START: Nanos = Nanos::from_secs(1);
/// How often the observer looks, unless intervals are shorter.
const LOOK: Nanos = Nanos::from_millis(200);
/// How often links are looked at, and the longest that a stop waits.
const WATCH: Duration = Duration::from_millis(10);

/// A run of flows that is ready to start: compiled, its ports open, nothing sent.
#[allow(missing_debug_implementations, reason = "a connection has no readable form")]
pub(crate) struct PreparedFlows {
    lab: Lab,
    plan: Planned,
    open: RunResources,
}

/// A run on a lab from its start to its report.
pub(crate) struct Running<'lab> {
    pub(crate) lab: &'lab mut Lab,
    pub(crate) plan: Planned,
    pub(crate) open: RunResources,
}

/// What is open for one run beside the ports of the lab.
#[derive(Default)]
pub(crate) struct RunResources {
    /// The engine that each port sends by.
    pub(crate) engines: Vec<Engine>,
    pub(crate) senders: Vec<TxWorker>,
    /// What was recorded, until it is begun, and on its way to them.
    recordings: Vec<replay::Opened>,
    replaying: Vec<Replaying>,
    /// What the report says of each sender, once they are at work.
    pub(crate) sending: Vec<SenderSeat>,
    pub(crate) receivers: Vec<Receiver>,
    /// What is kept of the frames of ports, from before they are opened to the report.
    pub(crate) keeping: Option<Keeping>,
    /// How ports measure, by their places: for the packet log.
    pub(crate) meters: BTreeMap<usize, MeterFacts>,
    /// How the frames of each flow that somebody receives are recognised, by the flow's number.
    pub(crate) attributions: BTreeMap<u16, Attribution>,
    /// The headers of those that are known by theirs.
    pub(crate) recognised: HeaderTable,
    watches: Vec<LinkWatch>,
    /// What the drivers of ports accept, where it is counted.
    pub(crate) accepted: Vec<Option<Accepted>>,
    /// The links in memory.
    in_memory: InMemory,
    /// What the receivers on other hosts measure, from [`PreparedFlows::begin`] on.
    measurements: Vec<(Host, Measurement)>,
    /// Where its flows may change while it runs: the handle, and the socket if there is one.
    pub(crate) control: Option<Control>,
    control_socket: Option<ControlSocket>,
    /// The longest frame of each port that there is room for, without FCS.
    room: Vec<u16>,
}

/// A sender, as the report names it.
#[derive(Clone, Debug)]
pub(crate) struct SenderSeat {
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

/// Opens a lab, compiles the flows of a scenario and opens what it sends and receives by. Nothing is sent.
pub(crate) fn prepare(scenario: &Scenario, options: Options) -> Result<PreparedFlows, RunError> {
    let mut lab = Lab::open(scenario, options)?;
    let plan = Planned::of(&mut lab, scenario)?;
    let (plan, open) = open_all(&mut lab, plan)?;
    Ok(PreparedFlows { lab, plan, open })
}

/// The same for a run that is sent for another host: what it sends is bounded.
pub(crate) fn prepare_bounded(
    scenario: &Scenario,
    options: Options,
    bounds: Bounds,
) -> Result<PreparedFlows, RunError> {
    let mut lab = Lab::open(scenario, options)?;
    lab.bounds = Some(bounds);
    let plan = Planned::of(&mut lab, scenario)?;
    let (plan, open) = open_all(&mut lab, plan)?;
    Ok(PreparedFlows { lab, plan, open })
}

impl PreparedFlows {
    /// The ports that it sends by.
    pub(crate) fn stations(&self) -> Vec<Station> {
        let PreparedFlows { lab, open, .. } = self;
        let of = |(place, (port, engine)): (usize, (&ResolvedPort, &Engine))| {
            let sending = open.sending.iter().find(|sending| sending.place == place)?;
            Some(facts::sending_station(port, *engine, &sending.mode, &lab.machine))
        };
        lab.ports.iter().zip(&open.engines).enumerate().filter_map(of).collect()
    }

    /// Sends from `at` on, or from now on if that is over, and says what became of each tag.
    pub(crate) fn send(
        self,
        at: Nanos,
        observer: &mut dyn Observer,
        stop: &Stop,
    ) -> (Report, Tags) {
        let PreparedFlows { mut lab, mut plan, open } = self;
        plan.begin_at = Some(at);
        Running { lab: &mut lab, plan, open }.execute(observer, stop)
    }

    /// The handle for those who change its flows, where [`Options::control`] asks for one. It works while the
    /// session runs.
    pub(crate) fn control(&self) -> Option<Control> {
        self.open.control.clone()
    }

    /// Where the control socket lies, if there is one.
    pub(crate) fn control_path(&self) -> Option<&std::path::Path> {
        self.open.control_socket.as_ref().map(ControlSocket::path)
    }

    /// The control socket, for the one who has it answered.
    pub(crate) fn take_control_socket(&mut self) -> Option<ControlSocket> {
        self.open.control_socket.take()
    }

    /// Lets the receiver on another host begin to measure, if there is one: call it right before [`PreparedFlows::start`], which
    /// otherwise does so itself and can only report that it failed. Waiting for that host ends as soon as `stop` is asked.
    ///
    /// # Errors
    /// What the other host cannot do, or says that cannot be true. Nothing has been sent.
    pub(crate) fn begin(&mut self, stop: &Stop) -> Result<(), RunError> {
        let PreparedFlows { lab, plan, open } = self;
        open.measurements = begin_remote(lab, plan, open, stop)?;
        Ok(())
    }

    /// Runs to the end and reports.
    pub(crate) fn start(self, observer: &mut dyn Observer, stop: &Stop) -> Report {
        let PreparedFlows { mut lab, plan, open } = self;
        Running { lab: &mut lab, plan, open }.execute(observer, stop).0
    }
}

/// Runs `scenario` on the ports of `lab` to its end.
pub(crate) fn run(
    lab: &mut Lab,
    scenario: &Scenario,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Report, RunError> {
    let plan = Planned::of(lab, scenario)?;
    let (mut plan, mut open) = open_all(lab, plan)?;
    open.measurements = begin_remote(lab, &mut plan, &mut open, stop)?;
    let socket = open.control_socket.take().zip(open.control.clone());
    let running = Running { lab, plan, open };
    Ok(answered(socket, observer, |observer| running.execute(observer, stop).0))
}

/// Opens what a planned run sends and receives by.
fn open_all(lab: &mut Lab, plan: Planned) -> Result<(Planned, RunResources), RunError> {
    let mut running = Running { lab, plan, open: RunResources::default() };
    running.open_all()?;
    let Running { plan, open, .. } = running;
    Ok((plan, open))
}

/// Lets the receivers on other hosts begin to measure the flows that go to them. One that has none in this run rests.
fn begin_remote(
    lab: &mut Lab,
    plan: &mut Planned,
    open: &mut RunResources,
    stop: &Stop,
) -> Result<Vec<(Host, Measurement)>, RemoteError> {
    let mut measurements = std::mem::take(&mut open.measurements);
    let connections = std::mem::take(&mut plan.connections);
    let several = connections.len() > 1;
    for (host, mut connection) in connections {
        let there = plan.program.flows.iter().filter(|flow| host.receives(flow));
        let there: Vec<&Flow> = there.collect();
        let asked = plan.far.asked_of(&host);
        if there.is_empty() && asked.is_none() && host != Host::OfRun {
            lab.keep_connection(host, connection);
            continue;
        }
        connection.heed(stop);
        open.attributions.extend(attribute_remote(&plan.program, &there, several));
        let expected = there.into_iter().flat_map(|flow| {
            let nominal_gap_ns = plan.nominal_gap(lab, flow).map(Nanos::get);
            let name = flow.name.clone();
            let expected = move |id| ExpectedFlow { id, name: name.clone(), nominal_gap_ns };
            plan.program.probes_of(flow).map(expected)
        });
        let mut measurement = connection.begin(expected.collect())?;
        if let Some(asked) = asked {
            measurement.prepare_sending(asked)?;
        }
        measurements.push((host, measurement));
    }
    measurements.iter_mut().for_each(|(_, begun)| begun.heed(stop, plan.settle));
    Ok(measurements)
}

impl Running<'_> {
    /// Opens all that the run takes.
    fn open_all(&mut self) -> Result<(), RunError> {
        let seats = std::mem::take(&mut self.plan.seats);
        self.open.engines.clone_from(&self.lab.engines);
        // what transmits is not kept from it by those who help it
        let _aside = HelperCpuGuard::from(seats.iter().flatten().filter_map(|seat| seat.cpu));
        let _raised = raise_helpers(self.plan.priority);
        self.open(seats)?;
        self.watch()?;
        self.begin_replays()?;
        if let Some(live) = self.plan.live.take() {
            self.open.control = Some(self.control_of(live));
        }
        self.open_files()?;
        // last, so that a signal that ends the program while it waits leaves no socket behind
        if let Controlled::BySocket(path) = &self.lab.options.control {
            self.open.control_socket = Some(ControlSocket::open(path.as_deref())?);
        }
        Ok(())
    }

    fn control_of(&mut self, live: Live) -> Control {
        for (place, sender) in self.open.senders.iter_mut().enumerate() {
            sender.place = place;
        }
        let room = |flow: &Flow| {
            let place = self.lab.ports.iter().position(|port| port.name == flow.from);
            place.and_then(|place| self.open.room.get(place)).copied().unwrap_or(0)
        };
        let room = self.plan.program.flows.iter().map(room).collect();
        Control::new(live, self.open.senders.len(), room)
    }

    /// What will not be as it is written: a sentence for each port.
    fn left_to_the_system(&self) -> Vec<String> {
        let of_port = |(port, engine): (&ResolvedPort, &Engine)| {
            let names = |flow: &Flow| {
                let mut names =
                    flow.endpoint.map_or(Vec::new(), |endpoint| endpoint.replaced.names());
                names.extend(port.spec.next_hop.map(|_| "the next hop"));
                names
            };
            let flows = self.plan.program.flows.iter().filter(|flow| flow.from == port.name);
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
        self.lab.ports.iter().zip(&self.open.engines).filter_map(of_port).collect()
    }

    /// Runs to the end and reports.
    fn execute(mut self, observer: &mut dyn Observer, stop: &Stop) -> (Report, Tags) {
        for notice in std::mem::take(&mut self.lab.notices).iter().chain(&self.left_to_the_system())
        {
            observer.notice(notice);
        }
        if let Some(notice) = self.plan.awaited_start(self.lab) {
            observer.notice(&notice);
        }
        let remote = begin_remote(self.lab, &mut self.plan, &mut self.open, stop);
        let cards = cards::read_all(&self.lab.ports);
        let started = SystemTime::now();
        let cpu = CpuTimes::now();
        let duration = self.plan.duration();
        let virtual_time = self.lab.is_virtual();
        let begun = MonotonicClock.now();
        let start = match self.plan.start_at {
            _ if virtual_time => VIRTUAL_START,
            Some(moment) => monotonic(moment).max(before_a_tick(begun)),
            None if !self.plan.far.is_empty() => before_a_tick(begun.saturating_add(far::LEAD)),
            None => self.plan.begin_at.unwrap_or_default().max(before_a_tick(begun)),
        };
        if remote.is_ok() {
            observer.begins(start);
        }
        let mut remote = far::start(remote, start);
        // What lies before the start is waiting, and no part of the run.
        let origin = if virtual_time { begun } else { start };
        let sequences = Sequences::new(self.plan.program.tags());
        // without the receiver that was asked for, nothing is sent
        let halt = SenderStop::new(remote.is_err());
        // before any of them waits: who begins alone would go on alone
        let on_virtual_time = self.open.senders.iter().filter(|sender| sender.is_on_virtual_time());
        let mut clocks = self.open.in_memory.clock.waiters(on_virtual_time.count()).into_iter();
        // it may be long since this was prepared
        self.lab.day.refresh();
        let unix_offset = self.lab.day.offset().clone();
        let at_work = AtWork::new(self.open.senders.len());
        let end = start.saturating_add(self.plan.time_limit());
        let context = SendContext {
            program: &self.plan.program,
            sequences: &sequences,
            times: RunTimes {
                start,
                end,
                latest: end,
                wait: self.plan.wait,
                unix_offset: &unix_offset,
            },
            stop: &halt.flag,
            changes: self.open.control.as_ref().map(Control::changes),
            limit: self.lab.bounds.as_ref().and_then(|bounds| bounds.limit),
            at_work: &at_work,
        };
        if let Some(control) = &self.open.control {
            control.begin(start);
        }
        let mut senders = std::mem::take(&mut self.open.senders);
        let _aside =
            HelperCpuGuard::from(self.open.sending.iter().filter_map(|sending| sending.seat.cpu));
        let _raised = raise_helpers(self.plan.priority);
        let seats = self.open.sending.iter().map(|sending| (&sending.state, &sending.seat));
        let mut starvation = Starvation::watch(seats, begun);
        let lives: Vec<Arc<LiveTx>> =
            senders.iter().map(|sender| Arc::clone(&sender.live)).collect();
        let mut links =
            Links::new(std::mem::take(&mut self.open.watches), self.plan.on_link_down, origin);
        let stopped_before = matches!(remote, Err(RemoteError::Stopped { .. }));
        let mut refusals = Refusals::new(&self, &lives);
        let handed = HandedOver {
            sending: &self.open.sending,
            lives: &lives,
            accepted: &self.open.accepted,
        };
        let mut looking = RunMonitor {
            receivers: &self.open.receivers,
            lives: &lives,
            duration,
            remotes: remote.iter_mut().flatten().map(|(_, remote)| FarLook::new(remote)).collect(),
            asked: None,
            asks_intervals: Nanos::ZERO,
            handed,
            looked: Nanos::ZERO,
            frames: 0,
            all_counted: self.counts_all(),
            sent: VecDeque::new(),
            far_clocks: self.plan.far.clocks(),
            far_end: start.saturating_add(duration.unwrap_or(Nanos::MAX)),
            backlog: self.lab.bounds.as_ref().map(|bounds| Arc::clone(&bounds.intervals)),
        };
        let mut timeline = self.plan.timeline(&self.open.attributions, (start, virtual_time));
        timeline.keep_histograms(observer.wants_histograms());
        looking.begin_intervals(&mut timeline);
        let mut looks = Looks::every(self.plan.interval.min(LOOK));
        let mut end = End::Completed;
        let over = AtomicBool::new(false);
        let sent = thread::scope(|scope| {
            let threads: Vec<_> = senders
                .iter_mut()
                .map(|sender| sender.spawn(scope, context, &mut clocks))
                .collect();
            for (place, _) in threads.iter().enumerate().filter(|(_, thread)| thread.is_err()) {
                // The others would wait for it.
                context.changes.inspect(|changes| changes.leave(place));
                at_work.leave();
            }
            let heeding = thread::Builder::new().name("stop".to_owned());
            let heeding = heeding.spawn_scoped(scope, || halt_when_asked(stop, &halt, &over));
            while looking.is_sent_far(halt.is_set()) | at_work.any() {
                thread::park_timeout(timeline.pause(MonotonicClock.now(), WATCH));
                let now = MonotonicClock.now();
                if !virtual_time {
                    self.lab.day.refresh();
                    looking.tell_intervals(now, &mut timeline, observer);
                }
                if end == End::Completed {
                    let stuck = self.open.replaying.iter().find_map(Replaying::stuck);
                    let failed = stuck.or_else(|| refusals.look(&self.open.accepted, now));
                    let failed = failed.map(|message| End::Failed { message });
                    let reason = stopped(stop).or_else(|| links.look(now)).or(failed);
                    if reason.is_some() {
                        halt.set();
                    }
                    end = reason.unwrap_or(End::Completed);
                }
                for told in self.open.replaying.iter().filter_map(Replaying::long_gap) {
                    observer.notice(&told);
                }
                starvation.look(now);
                let elapsed = now.saturating_sub(origin);
                looking.note_sent(elapsed);
                if observer.watches() && looks.due(elapsed, duration) {
                    observer.progress(&looking.at(elapsed));
                }
            }
            over.store(true, Ordering::Release);
            // it would look only after its pause
            let _ = heeding.inspect(|heeding| heeding.thread().unpark());
            threads.into_iter().map(outcome::join).collect::<Vec<_>>()
        });
        // Nothing may have run for so long that it was looked at.
        if end == End::Completed && (stopped_before || halt.is_set()) {
            end = stopped(stop).unwrap_or(End::Completed);
        }
        let ran = match virtual_time {
            true => self.plan.time_limit(),
            false => MonotonicClock.now().saturating_sub(start),
        };
        let (outages, watches) = links.finish(MonotonicClock.now());
        self.lab.watches = watches;
        for ((sender, sending), sent) in senders.into_iter().zip(&self.open.sending).zip(&sent) {
            let rests = sent.as_ref().is_ok_and(|driven| driven.error.is_none());
            let resting = Some(sender).filter(|_| rests);
            let resting = resting.and_then(|sender| sender.rest(sending.place));
            self.lab.transmitters.extend(resting);
        }
        let replayed =
            std::mem::take(&mut self.open.replaying).into_iter().map(Replaying::finish).collect();
        // the last look is at what was sent by now, and has arrived or not when all is quiet
        let ended = match virtual_time {
            true => MonotonicClock.now().saturating_sub(origin),
            false => end_of_sending(&sent, (start, ran), halt.since(start).or(duration)),
        };
        if !virtual_time && !self.open.receivers.is_empty() {
            watching::settle(self.plan.settle, stop, |now| {
                looking.take_intervals(now, &mut timeline);
            });
        }
        observer.progress(&looking.last(ended));
        looking.take_intervals(MonotonicClock.now(), &mut timeline);
        let finished = outcome::finish_remote(remote, self.plan.settle);
        let RemoteResults { remotes, connections } = finished;
        for (host, connection) in connections {
            self.lab.keep_connection(host, connection);
        }
        let elapsed = MonotonicClock.now().saturating_sub(origin);
        let spans = match virtual_time {
            true => (duration, Nanos::MAX),
            false => (Some(ended), elapsed),
        };
        let (report, told, stats) = outcome::report(
            self,
            (timeline, spans),
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
                remotes,
                outages,
            },
        );
        told.iter().for_each(|interval| observer.interval(interval));
        (report, Tags { start, stats })
    }

    /// Whether all frames that are sent are counted by receivers, one for one: each has a probe that somebody reads, and
    /// leaves as one.
    fn counts_all(&self) -> bool {
        let probed =
            |flow: &Flow| self.open.attributions.get(&flow.id) == Some(&Attribution::Probe);
        self.plan.far.is_empty()
            && self.plan.program.flows.iter().all(probed)
            && !self.plan.program.is_cut()
    }
}
