//! What a run is going to do, before anything is open: the program, when it starts, where its threads run. Nothing here sends or
//! attaches.

use std::collections::BTreeMap;

use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine_linux::scheduling::Priority;
use wirebeat_engine_linux::time::RealtimeToMonotonic;
use wirebeat_meter::interval::Beat;
use wirebeat_report::assemble::Attribution;
use wirebeat_report::model::{Change, Json};
use wirebeat_traffic::compile::{Live, as_run, compile_numbered};
use wirebeat_traffic::program::{Flow, Program};
use wirebeat_traffic::scenario::{
    OnLinkDown, Replay, RunSpec, Scenario, Shared, TimestampsChoice, WaitChoice,
};
use wirebeat_units::{Nanos, WallTime, fault};

use super::choices::{check_bins, check_ends, planned};
use super::far::FarSenders;
use super::reception::nominal_gap;
use crate::engines::{Engine, TransmitQueue};
use crate::error::RunError;
use crate::files;
use crate::intervals::Timeline;
use crate::lab::{Host, Lab};
use crate::placement::{self, Demand, Placement, Seat};
use crate::ports::ResolvedPort;
use crate::priority;
use crate::queues::{self, Queues};
use crate::remote::Connection;
use crate::spread;

/// The most flows whose scenario is in the report: a kilobyte each, at most.
const REPORTED_FLOWS: usize = 10_000;

/// A run that is compiled and placed; nothing of it is open.
pub(crate) struct Planned {
    pub(crate) program: Program,
    /// The scenario as it is compiled, for the report; none of very many flows.
    scenario: Option<Scenario>,
    /// What is replayed, by the number of its flow.
    pub(super) replays: Vec<Option<Shared<Replay>>>,
    pub(crate) wait: Wait,
    pub(crate) priority: Priority,
    /// Where the senders of each port run.
    pub(super) seats: Vec<Vec<Seat>>,
    /// What the placement of its threads has to say.
    pub(crate) placed: Vec<String>,
    pub(crate) settle: Nanos,
    /// The length of intervals.
    pub(super) interval: Nanos,
    /// When it starts by the clock of the day, if that was said.
    pub(super) start_at: Option<WallTime>,
    /// Who stamps frames.
    pub(super) timestamps: TimestampsChoice,
    /// How long to wait for links before the start.
    pub(super) link_timeout: Nanos,
    /// What the run does when a link goes down.
    pub(super) on_link_down: OnLinkDown,
    /// What the scenario changes while it runs, in the order of time.
    pub(crate) planned: Vec<Change>,
    /// What changes from outside are compiled with, where there may be some.
    pub(super) live: Option<Live>,
    /// The receivers on other hosts, until they begin to measure.
    pub(super) connections: Vec<(Host, Connection)>,
    /// What listeners on other hosts send.
    pub(crate) far: FarSenders,
    /// When it starts by the monotonic clock, where another host says that.
    pub(super) begin_at: Option<Nanos>,
}

impl Planned {
    /// What a flow replays, by its number.
    pub(crate) fn replay(&self, flow: u32) -> Option<&Shared<Replay>> {
        self.replays.get(flow as usize)?.as_ref()
    }

    /// Compiles `scenario` for the ports of `lab`, and wins the receiver on the other host, if there is one.
    pub(crate) fn of(lab: &mut Lab, scenario: &Scenario) -> Result<Planned, RunError> {
        let found = files::find(scenario, &lab.options)?;
        let links = lab.links(scenario)?;
        let number = |place| lab.bounds.as_ref().map_or(place, |bounds| bounds.number(place));
        let program = compile_numbered(scenario, &links, &found.files, number)?;
        if let Some(bounds) = &mut lab.bounds {
            bounds.check(&program, &links).map_err(RunError::usage)?;
        }
        found.check(&program)?;
        check_bins(&program, &lab.ports, &lab.options)?;
        check_ends(&program, &lab.ports, &lab.engines)?;
        let reported = program.flows.len() <= REPORTED_FLOWS;
        let reported = reported.then(|| as_run(scenario, &links, &program));
        let live =
            lab.is_controlled().then(|| Live::new(scenario.clone(), links, found.files, &program));
        let mut plan = Planned {
            program,
            scenario: reported,
            replays: scenario.flows.values().map(|flow| flow.replay.clone()).collect(),
            wait: match scenario.run.wait {
                WaitChoice::Spin => Wait::Spin,
                WaitChoice::Hybrid => Wait::Hybrid,
                WaitChoice::Sleep => Wait::Sleep,
            },
            priority: priority::of(scenario.run.priority),
            seats: Vec::new(),
            placed: Vec::new(),
            settle: scenario.run.settle,
            interval: lab.options.interval.unwrap_or(scenario.run.interval),
            start_at: scenario.run.start_at,
            timestamps: scenario.run.timestamps,
            link_timeout: scenario.run.link_timeout,
            on_link_down: scenario.run.on_link_down,
            planned: planned(scenario),
            live,
            connections: Vec::new(),
            far: FarSenders::default(),
            begin_at: None,
        };
        let virtual_ports = VirtualPorts::of(lab);
        check_clocks(virtual_ports)?;
        plan.check_start()?;
        plan.connections = lab.connect()?;
        plan.far = FarSenders::of(scenario, (&plan.program, plan.interval), &mut plan.connections)?;
        if !plan.far.is_empty() {
            check_far(virtual_ports)?;
        }
        let placement = plan.place(lab)?;
        plan.check_priority(lab, &placement)?;
        plan.placed = placement.findings;
        plan.seats = placement.senders;
        Ok(plan)
    }

    /// A start that has passed cannot be kept.
    fn check_start(&self) -> Result<(), RunError> {
        let Some(moment) = self.start_at else { return Ok(()) };
        if monotonic(moment) >= MonotonicClock.now() {
            return Ok(());
        }
        let why = fault!(
            "the start at {moment} has passed";
            "give a later one, or leave 'run.start-at' out"
        );
        Err(RunError::usage(why))
    }

    /// The scenario for the report, with the interfaces and engines of the ports. What cannot be written is left out.
    pub(crate) fn scenario(&self, ports: &[ResolvedPort], engines: &[Engine]) -> Option<Json> {
        let mut scenario = self.scenario.clone()?;
        for (port, &engine) in ports.iter().zip(engines) {
            let Some(spec) = scenario.ports.get_mut(&port.name) else { continue };
            spec.engine = engine.into();
            spec.interface = port.link.as_ref().map(|link| link.name.clone());
        }
        Json::parse(&scenario.to_json().ok()?)
    }

    /// When it starts and how long that is from now, where it waits for a moment.
    pub(super) fn awaited_start(&self, lab: &Lab) -> Option<String> {
        let moment = self.start_at?;
        let ahead = monotonic(moment).saturating_sub(MonotonicClock.now()).get();
        let seconds = ahead.div_ceil(1_000_000_000);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        (!lab.is_virtual() && ahead > 0).then(|| {
            format!(
                "waiting for the start at {moment}, in {hours:02}:{minutes:02}:{:02}",
                seconds % 60
            )
        })
    }

    /// Where the transmit cores of all ports run.
    fn place(&self, lab: &Lab) -> Result<Placement, RunError> {
        let of = |(port, engine): (&ResolvedPort, &Engine)| {
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
            let by_cpu = engine.row().transmit_queue != TransmitQueue::BySender;
            if !port.spec.transmit_queues.is_empty() && by_cpu {
                let named = queues::choose(port, *engine, (&lab.cpus.allowed, near))?;
                return Ok(Demand { named, ..demand });
            }
            let below = Queues::of(port, *engine).as_ref().and_then(Queues::cpus_below);
            Ok(Demand { below, ..demand })
        };
        let demands = lab.ports.iter().zip(&lab.engines).map(of);
        let demands = demands.collect::<Result<Vec<Demand>, RunError>>()?;
        Ok(placement::place(&demands, &lab.cpus.allowed))
    }

    /// That real time is permitted, where it is asked for and somebody sends or receives.
    fn check_priority(&self, lab: &Lab, placement: &Placement) -> Result<(), RunError> {
        match lab.engines.iter().all(|engine| engine.is_virtual()) {
            true => Ok(()),
            false => priority::check(self.priority, placement),
        }
    }

    /// The gap between frames of a flow, where it is sure to stay the same.
    pub(super) fn nominal_gap(&self, lab: &Lab, flow: &Flow) -> Option<Nanos> {
        nominal_gap(&self.program, flow).filter(|_| !lab.is_controlled())
    }

    /// How long the flows are going to send, where their schedule says so.
    pub(super) fn duration(&self) -> Option<Nanos> {
        let flows = 0..self.program.flows.len() as u32;
        flows.map(|flow| self.program.end(flow)).max().filter(|&end| end < Nanos::MAX)
    }

    /// The intervals of the run, which begins at `start`; its flows are recognised as `attributions` say.
    pub(super) fn timeline(
        &self,
        attributions: &BTreeMap<u16, Attribution>,
        (start, is_virtual): (Nanos, bool),
    ) -> Timeline {
        let length = self.interval.max(RunSpec::SHORTEST_INTERVAL);
        let duration = self.duration().filter(|duration| *duration > Nanos::ZERO);
        let last = duration.map(|duration| (duration.get() - 1) / length.get());
        let beat = Beat { start, length, last };
        let mut timeline = Timeline::of_run(beat, &self.program, attributions);
        // a card's clock is compared with the system's while it runs
        let certain = self.timestamps != TimestampsChoice::Hardware;
        timeline.certain_to(certain.then_some(0));
        match is_virtual {
            true => timeline.tells_at_the_end(self.program.flows.len()),
            false => timeline.begin_cpu(start),
        }
        timeline
    }

    /// When the last flow has to end by time, from the start of the run. A flow that ends by its count
    /// takes as long as it takes.
    pub(super) fn time_limit(&self) -> Nanos {
        let stops = self.program.streams.iter().map(|stream| stream.departures.stop);
        stops.max().unwrap_or(Nanos::ZERO)
    }
}

/// The ports of a run that are on a virtual clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VirtualPorts {
    /// How many.
    pub(crate) count: usize,
    /// Of how many ports of this host.
    pub(crate) of: usize,
    /// Whether the run can be changed while it goes on.
    pub(crate) controlled: bool,
}

impl VirtualPorts {
    fn of(lab: &Lab) -> VirtualPorts {
        let count = lab.engines.iter().filter(|engine| engine.is_virtual()).count();
        VirtualPorts { count, of: lab.engines.len(), controlled: lab.is_controlled() }
    }
}

/// Ports on a virtual clock and ports on a real one cannot share a run.
pub(crate) fn check_clocks(ports: VirtualPorts) -> Result<(), RunError> {
    if ports.count > 0 && ports.controlled {
        let real = Engine::names(|engine| !engine.is_virtual());
        return Err(RunError::usage(
            "a run on a virtual clock takes no time, so it cannot be changed while it runs",
        )
        .hint(format!("use the engine {real}, or run it without control")));
    }
    if ports.count == 0 || ports.count == ports.of {
        return Ok(());
    }
    let of = Engine::names(Engine::is_virtual);
    Err(RunError::usage(format!(
        "ports of the engine {of} run on a virtual clock and cannot share a scenario with ports on a real one"
    ))
    .hint("give all ports a virtual engine, or none"))
}

/// What another host sends takes real time, and is not changed from here.
pub(crate) fn check_far(ports: VirtualPorts) -> Result<(), RunError> {
    if ports.count > 0 {
        let of = Engine::names(Engine::is_virtual);
        return Err(RunError::usage(fault!(
            "a flow comes from another host, and ports of the engine {of} run on a virtual clock";
            "give the ports here an engine with a network"
        )));
    }
    if ports.controlled {
        return Err(RunError::usage(fault!(
            "a flow comes from another host, and a run with such a flow cannot be changed while it runs";
            "run it without control"
        )));
    }
    Ok(())
}

/// A moment on the monotonic clock, as the two clocks stand now.
pub(super) fn monotonic(moment: WallTime) -> Nanos {
    Nanos::new(moment.unix().get().saturating_sub(RealtimeToMonotonic::new().offset()))
}
