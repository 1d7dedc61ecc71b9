//! A receiver by itself: counts what arrives until it is stopped, and measures for a sender on another
//! host when it listens.

mod abilities;
mod request;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use wirebeat_capture::file::CaptureOptions;
use wirebeat_capture::packet_log::{ClockRelation, LoggedRun, MeterFacts};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::collect::Manner;
use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::card::Wanted;
use wirebeat_engine_linux::kernel::Fate;
use wirebeat_engine_linux::scheduling::{Priority, ThreadOrders};
use wirebeat_host::{CpuTimes, Machine};
use wirebeat_meter::codecs::Codecs;
use wirebeat_meter::interval::Beat;
use wirebeat_meter::meter::{FLOWS, Flows, MeterConfig};
use wirebeat_meter::observation::Observed;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_report::assemble::{Clocks, ReceiverSide, RunFacts, assemble};
use wirebeat_report::exit::Exit;
use wirebeat_report::model::{End, Report};
use wirebeat_traffic::scenario::{PortSpec, RunSpec, TimestampsChoice};
use wirebeat_units::{Nanos, fault, human};
use wirebeat_wire::codec::Codec;

use crate::applications::Applications;
use crate::cards;
use crate::day_clock::DayClock;
use crate::engines::{
    self, Ability, Choice, Engine, EngineReason, InMemory, RxOpening, driver, fastest,
};
use crate::error::RunError;
use crate::expectations::{Expectations, Watching};
use crate::facts;
use crate::flows;
use crate::intervals::Timeline;
use crate::links::{self, Links};
use crate::listening;
use crate::observe::{Looks, Observer, Progress, Stop};
use crate::outcome;
use crate::placement::{self, Cpus};
use crate::ports::{self, ResolvedPort};
use crate::priority;
use crate::receivers::{self, Receiver, Receiving};
use crate::tapping::{Keeping, KeptRun, PortCapture, PortTaps, WantedFrames};
use crate::timestamps;

use abilities::{check_abilities, engine, fits};
pub use request::{Listen, LogRequest, ReceiveRequest};

/// The kernel numbers the loopback interface of each network namespace so.
const LOOPBACK_INDEX: u32 = 1;
/// What other tools write times in.
const MICROSECOND: Nanos = Nanos::from_micros(1);

/// How often the observer looks, unless intervals are shorter.
const LOOK: Nanos = Nanos::from_millis(200);
/// How often counters are looked at.
const WATCH: Duration = Duration::from_millis(10);

/// Receives until it is stopped, its time is over or its count is reached.
pub fn receive(
    request: &ReceiveRequest,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Report, RunError> {
    Cpus::here().check("the receiver", &request.cores)?;
    let mut port = find(request)?;
    let choice = timestamps::engine(&port, engine(request, &port)?, request.timestamps)?;
    let fits = |engine| fits(request, engine);
    let Choice { engine, reason } = engines::settle_receiver(&port, choice, fits)?;
    port.engine_reason = reason;
    if let Some(why) = port.engine_reason.unexpected() {
        observer.notice(&format!("the engine '{}' receives: {why}", engine.name()));
    }
    if priority::of(request.priority) == Priority::Realtime {
        priority::permitted()?;
    }
    if let Some(listen) = &request.listen {
        return listening::receive(request, (port, engine), listen, (observer, stop));
    }
    let mut day = DayClock::new();
    let codecs = request.measured(engine);
    let config = MeterConfig {
        flows: Flows::Any(request.flows),
        filter: request.filter,
        bins: request.bins,
        codecs: Codecs {
            read: codecs.clone(),
            unix_offset: day.offset().clone(),
            ..Codecs::default()
        },
        ..MeterConfig::default()
    };
    let machine = Machine::observe();
    let (started, cpu, begun) = (SystemTime::now(), CpuTimes::now(), MonotonicClock.now());
    let logged = MeterFacts::new(&config, request.queues);
    let of_clocks = |day: &DayClock| clocks(request, (&port, &codecs), day);
    check_delays(request, &of_clocks(&day))?;
    let relation = clock_relation(of_clocks(&day));
    let captures = captures(request);
    let engines = [engine];
    let kept = kept(&port, &engines);
    let logs = request.logs();
    let wanted = logs.iter().map(WantedFrames::of_log).reduce(WantedFrames::and);
    let logged_frames: Vec<_> = wanted.map(|wanted| [Some(wanted), None]).into_iter().collect();
    let mut keeping = Keeping::start(&kept, &captures, &logged_frames)?;
    let taps = keeping.as_ref().and_then(|keeping| keeping.taps(0));
    let receiver = open(request, (&port, engine), (config, taps))?;
    if let Some(keeping) = &mut keeping {
        let logged = MeterFacts { queues: receiver.queues(), ..logged };
        keeping.open_files(&kept, &captures)?;
        let logged = logged_run(request, logged, relation);
        logs.iter().try_for_each(|log| keeping.log(&kept, log, &logged))?;
        keeping.go_on();
    }
    let applications = Applications::watch(&port, engine, request)?;
    let card = cards::read(&port);
    let watch = port.link.as_ref().map(|link| links::watch(&port, link)).transpose()?;
    let watches = watch.into_iter().collect();
    let mut links = Links::new(watches, request.on_link_down, MonotonicClock.now());
    observer.notice(&format!(
        "receiving on {} by the {} engine ({})",
        port.link.as_ref().map_or("all interfaces", |link| link.name.as_str()),
        engine.name(),
        receiver.mode
    ));
    timestamps::told(&port).inspect(|told| observer.notice(told));
    let expected = Expectations::of_all(request.expect.clone());
    let mut watching = Watching::new(observer, &expected, None);
    let observer: &mut dyn Observer = &mut watching;
    let mut timeline = timeline(request, of_clocks(&day));
    timeline.keep_histograms(observer.wants_histograms());
    let beat = timeline.beat();
    receiver.begin_intervals(beat, timeline.room_of_each());
    let waiting = (&receiver, &mut links, &mut day, &mut timeline);
    let is_full =
        || request.ends_with_capture && keeping.as_ref().is_some_and(Keeping::captures_have_ended);
    let end = wait(request, (observer, stop, &is_full), waiting);
    let lasted = MonotonicClock.now().saturating_sub(beat.start);
    let (outages, _) = links.finish(MonotonicClock.now());
    let elapsed = MonotonicClock.now().saturating_sub(begun);
    let mut station = facts::station(&port, engine, &receiver.mode, &machine);
    facts::threads(&mut station, "receive", &receiver.states);
    station.card = cards::report(card.as_ref(), cards::read(&port).as_ref());
    let received = receiver.finish();
    timeline.received(received.intervals);
    let captures = keeping.map_or_else(Vec::new, Keeping::finish);
    station.hardware_timestamps = timestamps::of_station(&port, received.card_stamps.as_ref());
    let frames = received.summary.flows.values().map(|flow| flow.frames).sum::<u64>()
        + received.summary.unprobed.frames;
    let (costs, spent) = facts::cost(&cpu, frames);
    let end = received.error.as_ref().map_or(end.clone(), |error| outcome::ended_by(&end, error));
    let mut machine = facts::disturbances(&spent, &machine);
    machine.extend(facts::left_alone(engine, &received.summary));
    machine.extend(facts::shared_histograms(&received.summary));
    machine.extend(received.damage.clone());
    machine.extend(applications.iter().flat_map(|applications| applications.findings(&port)));
    machine.extend(day.stepped().filter(|_| !codecs.is_empty()));
    machine.extend(no_room(request, engine, &received.summary));
    let unkept = captures.iter().any(|capture| capture.error.is_some());
    let outputs = if unkept { Exit::Output } else { Exit::Done };
    let facts = RunFacts {
        wirebeat_version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: request.command_line.clone(),
        seed: None,
        scenario: None,
        started,
        duration: elapsed,
        end,
        clocks: timestamps::clocks(of_clocks(&day), station.hardware_timestamps.iter()),
        costs,
        machine,
        changes: Vec::new(),
        outages,
        replays: Vec::new(),
        captures,
        sessions: Vec::new(),
        stacks: Vec::new(),
    };
    let summary = received.summary;
    let side =
        ReceiverSide { stations: vec![station], summary, delivered: None, at_interfaces: None };
    let mut report = assemble(facts, None, Some(side));
    let told = timeline.finish(&mut report, (Some(lasted), lasted));
    told.iter().for_each(|interval| observer.interval(interval));
    let watched = watching.watched();
    expected.judge(&mut report, watched.as_ref());
    report.exit_code = report.verdict.exit().and(outputs).code();
    Ok(report)
}

/// That a selection by delay has delays to select by.
fn check_delays(request: &ReceiveRequest, clocks: &Clocks) -> Result<(), RunError> {
    let asks = request.capture.as_ref().is_some_and(CaptureOptions::selects_by_delay);
    match clocks {
        Clocks::Unbounded(_) if asks => Err(RunError::usage(fault!(
            "the selection asks for 'delay', which is not known here: nothing says how the senders' clock relates to that of \
             this host";
            "give --same-clock where all senders are on this host, or select by 'gap' or by what was found"
        ))),
        _ => Ok(()),
    }
}

/// The capture that is asked for, if one is.
fn captures(request: &ReceiveRequest) -> Vec<PortCapture> {
    let of_all = |options: &CaptureOptions| PortCapture {
        place: 0,
        options: options.clone(),
        received: Some(Observed::All),
        sent: false,
    };
    request.capture.iter().map(of_all).collect()
}

/// What is known of it for those who keep its frames.
fn kept<'a>(port: &'a ResolvedPort, engines: &'a [Engine]) -> KeptRun<'a> {
    KeptRun {
        ports: std::slice::from_ref(port),
        engines,
        flows: Vec::new(),
        comment: Some(format!("wirebeat {}", env!("CARGO_PKG_VERSION"))),
        has_names: false,
        is_virtual: false,
    }
}

/// What a packet log says of it.
fn logged_run(request: &ReceiveRequest, meter: MeterFacts, clocks: ClockRelation) -> LoggedRun {
    LoggedRun {
        wirebeat_version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: request.command_line.clone(),
        seed: None,
        scenario: None,
        start_ns: MonotonicClock.now().get(),
        clocks,
        meters: vec![Some(meter)],
    }
}

/// How the clocks relate, as a packet log has it.
fn clock_relation(clocks: Clocks) -> ClockRelation {
    match clocks {
        Clocks::Same => ClockRelation::Same,
        Clocks::Bounded { bound, how } => ClockRelation::Bounded { bound_ns: bound.get(), how },
        Clocks::Unbounded(why) => ClockRelation::Unbounded { why },
    }
}

/// The intervals of a receiver by itself.
fn timeline(request: &ReceiveRequest, clocks: Clocks) -> Timeline {
    let (start, length) = (MonotonicClock.now(), request.interval.max(RunSpec::SHORTEST_INTERVAL));
    let time = request.time.filter(|time| *time > Nanos::ZERO);
    let last = time.map(|time| (time.get() - 1) / length.get());
    let mut timeline = Timeline::of_receiver(Beat { start, length, last });
    let certain = request.timestamps != TimestampsChoice::Hardware;
    timeline.certain_to(match clocks {
        Clocks::Same => Some(0).filter(|_| certain),
        Clocks::Bounded { bound, .. } => Some(bound.get()).filter(|_| certain),
        Clocks::Unbounded(_) => None,
    });
    timeline.begin_cpu(start);
    timeline
}

/// That there were more flows than are measured, if there were: what the limit is, and what raises it.
fn no_room(request: &ReceiveRequest, engine: Engine, summary: &MeterSummary) -> Option<String> {
    let limit = usize::from(request.flows);
    let measured = summary.flows.len();
    // the kernel's limit may be below what was asked for
    let full = measured >= limit || engine.can(Ability::MeterInKernel);
    if summary.unknown_flow == 0 || !full {
        return None;
    }
    let others = format!(
        "{} of other flows were only counted",
        human::counted(summary.unknown_flow, "frame")
    );
    let all = human::counted(FLOWS.into(), "flow");
    let choose = "choose flows with --source and --port";
    let flows = human::counted(measured as u64, "flow");
    Some(match engine.can(Ability::MeterInKernel) {
        _ if measured >= usize::from(FLOWS) => {
            format!("{flows} were measured, the most that a receiver takes, and {others}; {choose}")
        }
        true if measured >= limit => format!(
            "{flows} were measured, as --flows says, and {others}; give a larger number with --flows, as far as memory \
             allows, or {choose}"
        ),
        true => format!(
            "{flows} were measured, as many as fit into the memory of the {engine} engine, and {others}; {choose}, or use \
             the engine 'packet', which takes {all}"
        ),
        _ => format!(
            "{flows} were measured, as --flows says, and {others}; give a larger number with --flows, {all} at the most, \
             or {choose}"
        ),
    })
}

/// How the clock that stamped the probes relates to the one here. Wirebeat's own probes carry the monotonic clock of
/// their host; those of other tools that have a time, the clock of the day, to a microsecond.
fn clocks(
    request: &ReceiveRequest,
    (port, codecs): (&ResolvedPort, &[Codec]),
    day: &DayClock,
) -> Clocks {
    let on_loopback = port.link.as_ref().is_some_and(|link| link.index.get() == LOOPBACK_INDEX);
    let basis = match (request.same_clock, on_loopback) {
        (true, _) => "the senders are on this host, as '--same-clock' says",
        (false, true) => "what arrives on the loopback interface was sent on this host",
        (false, false) => {
            return Clocks::Unbounded(
                "a receiver by itself does not know whose clock stamped the probes; let the sender connect \
                 to it ('--listen' here, '--peer' there), or give --same-clock where all senders are on this \
                 host"
                    .to_owned(),
            );
        }
    };
    let how = match codecs.is_empty() {
        true => basis.to_owned(),
        false => format!("{basis}; {}", day.told()),
    };
    let bound = match codecs.is_empty() {
        true => Nanos::new(1),
        false => MICROSECOND.saturating_add(day.bound()),
    };
    Clocks::Bounded { bound, how }
}

/// The port that a request means.
pub(crate) fn find(request: &ReceiveRequest) -> Result<ResolvedPort, RunError> {
    let spec = PortSpec {
        interface: request.interface.clone(),
        namespace: request.namespace.clone(),
        engine: request.engine,
        xdp_mode: request.xdp_mode,
        busy_poll: request.busy_poll,
        ..PortSpec::default()
    };
    let namespace = ports::namespace(request.namespace.as_deref(), &request.namespaces)?;
    let mut port = ResolvedPort {
        name: "here".to_owned(),
        spec,
        namespace,
        link: None,
        engine_reason: EngineReason::default(),
        attachment: OnceLock::new(),
        card: OnceLock::new(),
        engine_state: Mutex::default(),
    };
    if let Some(interface) = &request.interface {
        let link = port.netlink()?.link_by_name(interface);
        port.link = Some(link.map_err(|error| RunError::usage(error.fault()))?);
    }
    Ok(port)
}

/// Opens the receiver that a request means.
pub(crate) fn open(
    request: &ReceiveRequest,
    at: (&ResolvedPort, Engine),
    meter: (MeterConfig, Option<PortTaps>),
) -> Result<Receiver, RunError> {
    open_again(request, at, meter, None)
}

/// The same, by the receiver that rests there if that can do it.
pub(crate) fn open_again(
    request: &ReceiveRequest,
    (port, engine): (&ResolvedPort, Engine),
    (meter, taps): (MeterConfig, Option<PortTaps>),
    mut resting: Option<Receiver>,
) -> Result<Receiver, RunError> {
    check_abilities(request, port, engine)?;
    if request.timestamps == TimestampsChoice::Hardware {
        timestamps::open(port, engine, Wanted { sent: false, received: true })?;
    }
    let held = resting.as_mut().and_then(|resting| resting.take_groups(&request.groups));
    let groups = held.map_or_else(|| receivers::join(port, &request.groups), Ok)?;
    let how = Receiving {
        meter,
        fate: if request.pass { Fate::Pass } else { Fate::Drop },
        several_queues: !port.has_one_queue(),
        by_queue: BTreeSet::new(),
        promiscuous: request.promiscuous,
        listen: listen_on(request, engine)?,
        taps,
        groups,
        // what a peer announced is ours, and our senders wait for no answer
        manner: if request.listen.is_some() { Manner::Silent } else { Manner::Answering },
        most: request.count,
        queues: request.queues,
        // nobody said what comes
        fragments: true,
        thread: thread(request, port),
    };
    let opening = RxOpening { place: 0, engine, in_memory: &InMemory::default() };
    let again = match resting {
        Some(resting) => resting.restart(port, &opening, how)?,
        None => Err(how),
    };
    let receiver = match again {
        Ok(receiver) => return Ok(receiver),
        Err(how) => driver(engine).open_receiver(port, &opening, how)?,
    };
    if engine.needs_link() {
        // attaching a program may have taken it down
        links::await_up(port, MonotonicClock.now(), request.link_timeout)?;
    }
    Ok(receiver)
}

/// Where and how the thread runs that receives: next to the card, where nothing else was asked for.
fn thread(request: &ReceiveRequest, port: &ResolvedPort) -> ThreadOrders {
    let named: Vec<usize> = request.cores.iter().map(|&core| usize::from(core)).collect();
    let near = placement::near(port).filter(|_| named.is_empty()).unwrap_or_default();
    let allowed = affinity::allowed();
    let near: Vec<usize> = near.into_iter().filter(|cpu| allowed.contains(cpu)).collect();
    let cpus = if named.is_empty() { near } else { named };
    ThreadOrders { cpus, priority: priority::of(request.priority), ..ThreadOrders::default() }
}

/// Where the socket engine listens: all addresses of both families, on the port of the filter.
fn listen_on(request: &ReceiveRequest, engine: Engine) -> Result<Vec<SocketAddr>, RunError> {
    if engine.needs_link() {
        return Ok(Vec::new());
    }
    let Some(port) = request.filter.destination_port else {
        const PORT: &str = "for example --port 9000";
        let automatic = request.engine.engine().is_none();
        return Err(match &request.interface {
            Some(interface) if automatic && !fastest(|_| true).needs_link() => {
                RunError::machine(format!(
                    "this process may not read frames from interface {interface} (CAP_NET_RAW), and the engine '{engine}' \
                     receives on one port"
                ))
                .hint(format!("run as root, or give a port, {PORT}"))
            }
            None if automatic => RunError::usage("no interface or address to receive on").hint(format!(
                "give --interface, for all that arrives there, or a port, {PORT}"
            )),
            _ => RunError::usage(format!("the engine '{engine}' has to know where to listen"))
                .hint(format!("give it a port, {PORT}")),
        });
    };
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    Ok(any.map(|address| SocketAddr::new(address, port)).into())
}

/// Waits for the end, and says why it came.
fn wait(
    request: &ReceiveRequest,
    (observer, stop, is_full): (&mut dyn Observer, &Stop, &dyn Fn() -> bool),
    (receiver, links, day, timeline): (&Receiver, &mut Links, &mut DayClock, &mut Timeline),
) -> End {
    let begun = MonotonicClock.now();
    let mut looks = Looks::every(request.interval.min(LOOK));
    let look = |observer: &mut dyn Observer, elapsed, ended| {
        observer.progress(&Progress {
            elapsed,
            duration: request.time,
            expected: request.count,
            received: Some(receiver.received()),
            lost: Some(receivers::lost(std::slice::from_ref(receiver))),
            ended,
            ..Progress::default()
        });
    };
    loop {
        let now = MonotonicClock.now();
        let elapsed = now.saturating_sub(begun);
        let over = request.time.is_some_and(|time| elapsed >= time)
            || is_full()
            || request.count.is_some_and(|count| receiver.has_measured(count));
        let end = flows::stopped(stop).or_else(|| links.look(now));
        let end = end.or(over.then_some(End::Completed));
        if let Some(end) = end {
            look(observer, elapsed, true);
            return end;
        }
        let (series, complete) = receiver.take_intervals(now);
        timeline.received(series);
        let told = timeline.tell(now, complete);
        told.iter().for_each(|interval| observer.interval(interval));
        if observer.watches() && looks.due(elapsed, request.time) {
            look(observer, elapsed, false);
        }
        day.refresh();
        thread::sleep(timeline.pause(now, WATCH));
    }
}
