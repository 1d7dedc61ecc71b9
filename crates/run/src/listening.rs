//! A receiver that measures for senders on other hosts: the local side of the control connection.
//!
//! Interface, engine, filter and limits are those of the request, made here before anyone connects. A
//! sender can only say which flow numbers to expect, and ask for the result.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_host::card::Card;
use wirebeat_host::{CpuTimes, Machine};
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::interval::MeterBooks;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_meter::series::Series;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_netlink::{LinkEvent, LinkWatch};
use wirebeat_report::assemble::{Clocks, ReceiverSide, RunFacts, assemble};
use wirebeat_report::model::{End, Interval, Relation, Report, Station};
use wirebeat_traffic::scenario::EngineChoice;
use wirebeat_units::human::{self, counted};
use wirebeat_units::{Nanos, fault};

use crate::applications::Applications;
use crate::cards;
use crate::engines::Engine;
use crate::error::RunError;
use crate::facts;
use crate::flows;
use crate::granted::GrantedSender;
use crate::intervals::Timeline;
use crate::links;
use crate::observe::{Observer, Stop};
use crate::ports::ResolvedPort;
use crate::receive::{self, Listen, ReceiveRequest};
use crate::receivers::{self, Receiver};
use crate::remote::{
    AskedIntervals, ClockIdentity, Count, CpuSpent, Expected, Identity, IntervalBacklog, Limits,
    Listener, Measured, Metering, SendingSide, Served, Service, ServingSide, Timeouts, serve,
};
use crate::sessions::GrantedServer;
use crate::timestamps;

/// How often it is looked whether a stop was asked.
const LOOK: Duration = Duration::from_millis(30);
/// How often the receiver's intervals are looked after.
const WATCH: Duration = Duration::from_millis(10);

/// How long frames may be on their way after their sender was lost: as long as runs wait where nothing else is written.
const LOST_SETTLE: Nanos = Nanos::from_millis(100);

/// Measures for senders until `stop` is asked, or for one sender. The report is of the last
/// measurement.
pub(crate) fn receive(
    request: &ReceiveRequest,
    (port, engine): (ResolvedPort, Engine),
    listen: &Listen,
    (observer, stop): (&mut dyn Observer, &Stop),
) -> Result<Report, RunError> {
    let kept = request.log.is_some() || request.packet_log.is_some() || request.capture.is_some();
    if !request.codecs.is_empty() || kept {
        return Err(RunError::usage(fault!(
            "with --listen, other tools' probes cannot be read, and neither a packet log nor a capture can be written: a \
             listener measures the probes of its senders, one sender after the other";
            "leave them out, or receive without --listen"
        )));
    }
    let listener = Listener::bind(listen)?;
    let machine = Machine::observe();
    // Open while nobody is served, too: what is missing is known before anyone connects, and a sender
    // on a virtual cable finds that redirected frames are taken here.
    let idle = receive::open(request, (&port, engine), (idle_meter(request), None))?;
    timestamps::told(&port).inspect(|told| observer.notice(told));
    let mut station = facts::station(&port, engine, &idle.mode, &machine);
    facts::threads(&mut station, "receive", &idle.states);
    let (started, begun) = (SystemTime::now(), MonotonicClock.now());
    let watch = watch(&port)?;
    let mut local = Local {
        request,
        port,
        engine,
        stop,
        machine,
        station,
        watch,
        idle: Some(idle),
        work: MeteringState::Idle,
        timeline: None,
        kept: IntervalBacklog::default(),
        unseen: Vec::new(),
        histograms: observer.wants_histograms(),
        complete: 0,
        granted: listen
            .allow_send
            .clone()
            .map(|grant| GrantedSender::new(request, EngineChoice::from(engine), grant, stop)),
        serving: listen
            .allow_serve
            .clone()
            .map(|grant| GrantedServer::new(request, grant, stop))
            .transpose()?,
    };
    if let Some(grant) = &listen.allow_send {
        observer.notice(&format!("senders with the key may have this host send to {grant}"));
    }
    if let Some(grant) = &listen.allow_serve {
        observer
            .notice(&format!("senders with the key may have this host serve sessions at {grant}"));
    }
    let service = Service {
        identity: Identity {
            limits: Limits { flows: request.flows },
            clock: Arc::new(MonotonicClock),
            clock_identity: ClockIdentity::here(),
        },
        interval: request.interval,
        time: request.time,
        timeouts: Timeouts::default(),
    };
    let served = serve(&listener, &mut local, &service, observer, stop)?;
    let (summary, relation, unread) = match mem::take(&mut local.work) {
        MeteringState::Done { summary, relation, unread, .. } => (*summary, relation, unread),
        MeteringState::Idle | MeteringState::Measuring { .. } => {
            (MeterSummary::default(), Relation::Unbounded, Vec::new())
        }
    };
    let end = match served.last_lost {
        Some(sender) => End::PeerGone { peer: sender.to_string() },
        None => flows::stopped(stop).unwrap_or(End::Completed),
    };
    let sent = local.granted.as_ref().and_then(granted_finding);
    let accepted = local.serving.as_ref().and_then(serving_finding);
    let machine =
        served_findings(&served).into_iter().chain(sent).chain(accepted).chain(unread).collect();
    let facts = RunFacts {
        wirebeat_version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: request.command_line.clone(),
        seed: None,
        scenario: None,
        started,
        duration: MonotonicClock.now().saturating_sub(begun),
        end,
        clocks: match relation {
            Relation::Same => Clocks::Same,
            _ => Clocks::Unbounded(
                "how far the clocks are apart is in the sender's report, which has both ends"
                    .to_owned(),
            ),
        },
        costs: Vec::new(),
        machine,
        changes: Vec::new(),
        outages: Vec::new(),
        replays: Vec::new(),
        captures: Vec::new(),
        sessions: Vec::new(),
        stacks: Vec::new(),
    };
    let side = ReceiverSide {
        stations: vec![local.station],
        summary,
        delivered: None,
        at_interfaces: None,
    };
    let mut report = assemble(facts, None, Some(side));
    if let Some(mut timeline) = local.timeline.take() {
        let lasted = MonotonicClock.now().saturating_sub(timeline.beat().start);
        let told = timeline.finish(&mut report, (None, lasted));
        local.unseen.iter().chain(&told).for_each(|interval| observer.interval(interval));
    }
    Ok(report)
}

/// What a reader of the last measurement must know of the senders.
fn served_findings(served: &Served) -> Vec<String> {
    let mut findings = Vec::new();
    if let Some(sender) = served.last_lost {
        findings.push(format!(
            "the sender at {sender} was lost while it was measured: the counts are of what had arrived until then, and how \
             much it sent is not known"
        ));
    } else if served.interrupted > 0 {
        findings.push(
            "this receiver ended before the measurement did: the counts are of what had arrived by then, and the sender was \
             told so"
                .to_owned(),
        );
    }
    if served.measured() > 1 {
        let others = match served.lost - u64::from(served.last_lost.is_some()) {
            0 => String::new(),
            lost => format!(", {lost} of the others were lost"),
        };
        findings.push(format!(
            "{} were served one after the other{others}; this report is of the last one, and each sender has its own",
            counted(served.measured(), "run")
        ));
    }
    findings
}

/// What was sent for senders.
fn granted_finding(granted: &GrantedSender) -> Option<String> {
    let (frames, time) = granted.total();
    (time > Nanos::ZERO).then(|| {
        format!(
            "{} were sent for senders in {} altogether, as --allow-send permits",
            counted(frames, "frame"),
            human::time(time.get() as f64)
        )
    })
}

/// What was served for senders.
fn serving_finding(serving: &GrantedServer) -> Option<String> {
    let (sessions, time) = serving.total();
    (time > Nanos::ZERO).then(|| {
        format!(
            "{} were served for senders in {} altogether, as --allow-serve permits",
            counted(sessions, "session"),
            human::time(time.get() as f64)
        )
    })
}

/// A meter for nobody.
fn idle_meter(request: &ReceiveRequest) -> MeterConfig {
    MeterConfig { flows: Flows::Any(1), filter: request.filter, ..MeterConfig::default() }
}

/// Watches the link of a port, if it has one.
fn watch(port: &ResolvedPort) -> Result<Option<LinkWatch>, RunError> {
    port.link.as_ref().map(|link| links::watch(port, link)).transpose()
}

/// The local side of a measurement.
struct Local<'a> {
    request: &'a ReceiveRequest,
    port: ResolvedPort,
    engine: Engine,
    stop: &'a Stop,
    machine: Machine,
    station: Station,
    /// Says when the port's link is deleted.
    watch: Option<LinkWatch>,
    /// The port while nobody is served; `None` also when it could not be opened.
    idle: Option<Receiver>,
    work: MeteringState,
    /// The intervals of the measurement, where its sender says when they end.
    timeline: Option<Timeline>,
    /// What it has not been told of them.
    kept: IntervalBacklog,
    /// Those that the observer here has not seen.
    unseen: Vec<Interval>,
    /// Whether it wants the histograms of delays in them.
    histograms: bool,
    complete: u64,
    /// What sends for senders, where the owner allows it.
    granted: Option<GrantedSender>,
    /// What serves sessions for senders, where the owner allows it.
    serving: Option<GrantedServer>,
}

impl Local<'_> {
    /// Takes the intervals that have ended from the receiver, and says until when there are no more.
    fn look(&mut self) -> Duration {
        let now = MonotonicClock.now();
        let (Some(timeline), MeteringState::Measuring { receiver, .. }) =
            (&mut self.timeline, &self.work)
        else {
            return Duration::MAX;
        };
        let (series, complete) = receiver.take_intervals(now);
        self.kept.add(&series);
        self.complete = complete;
        timeline.received(series);
        self.unseen.extend(timeline.tell(now, complete));
        timeline.pause(now, WATCH)
    }

    /// Opens the port again, where nothing of it rests.
    fn rest(&mut self) {
        self.idle = receive::open(
            self.request,
            (&self.port, self.engine),
            (idle_meter(self.request), None),
        )
        .ok();
    }

    /// Whether the port's link was deleted since the last call.
    fn was_deleted(&mut self) -> bool {
        let events = self.watch.as_mut().and_then(|watch| watch.events().ok()).unwrap_or_default();
        events.iter().any(|event| matches!(event, LinkEvent::Removed { .. }))
    }

    /// Finds the port's link anew by its name: one that was deleted and made again has another number.
    fn find_again(&mut self) -> Result<(), RunError> {
        let found = receive::find(self.request)?;
        let port = ResolvedPort { engine_reason: self.port.engine_reason.clone(), ..found };
        let number = |port: &ResolvedPort| port.link.as_ref().map(|link| link.index);
        if number(&port) != number(&self.port) || self.watch.is_none() {
            self.watch = watch(&port)?;
            let mode = std::mem::take(&mut self.station.mode);
            self.station = facts::station(&port, self.engine, &mode, &self.machine);
            self.port = port;
        }
        Ok(())
    }
}

#[derive(Default)]
enum MeteringState {
    #[default]
    Idle,
    Measuring {
        receiver: Box<Receiver>,
        cpu: CpuTimes,
        relation: Relation,
        /// `None` where no datagram goes on to a program, or its sockets cannot be looked at.
        applications: Option<Applications>,
        /// What the card said before it.
        card: Option<Box<Card>>,
    },
    Done {
        summary: Box<MeterSummary>,
        count: Count,
        relation: Relation,
        /// What programs behind the receiver did not read.
        unread: Vec<String>,
    },
}

impl Metering for Local<'_> {
    fn stations(&self) -> Vec<Station> {
        vec![self.station.clone()]
    }

    fn begin(&mut self, expected: &Expected) -> Result<(), String> {
        (self.work, self.timeline, self.kept) =
            (MeteringState::Idle, None, IntervalBacklog::default());
        let expectation = |gap: Option<u64>| Expectation {
            nominal_gap: gap.map(Nanos::new),
            delay_base: expected.delay_base,
        };
        let flows: BTreeMap<u16, Expectation> =
            expected.flows.iter().map(|flow| (flow.id, expectation(flow.nominal_gap_ns))).collect();
        let meter = MeterConfig {
            flows: Flows::Expected(flows),
            filter: self.request.filter,
            bins: self.request.bins,
            run_start: Some(Nanos::new(expected.sent_from_ns)),
            ..MeterConfig::default()
        };
        (self.complete, self.unseen) = (0, Vec::new());
        let resting = self.idle.take().and_then(|idle| idle.rest().1);
        let index = |port: &ResolvedPort| port.link.as_ref().map(|link| link.index);
        let before = index(&self.port);
        let found = self.find_again();
        // what rests is of the link that was there
        let resting = resting.filter(|_| index(&self.port) == before);
        let opened = found.and_then(|()| {
            receive::open_again(self.request, (&self.port, self.engine), (meter, None), resting)
        });
        let receiver = opened.map_err(|error| {
            self.rest();
            error.to_string()
        })?;
        let (receiver, cpu) = (Box::new(receiver), CpuTimes::now());
        // a measurement does not fail because the sockets beside it cannot be looked at
        let applications =
            Applications::watch(&self.port, self.engine, self.request).unwrap_or_default();
        let relation = expected.relation;
        self.station.card = None;
        let card = cards::read(&self.port).map(Box::new);
        self.work = MeteringState::Measuring { receiver, cpu, relation, applications, card };
        Ok(())
    }

    fn begin_intervals(&mut self, ends: AskedIntervals) {
        if let (None, MeteringState::Measuring { receiver, relation, .. }) =
            (&self.timeline, &self.work)
        {
            let mut timeline = Timeline::of_receiver(ends.beat());
            timeline.certain_to((*relation == Relation::Same).then_some(0));
            timeline.keep_histograms(self.histograms);
            receiver.begin_intervals(timeline.beat(), timeline.room_of_each());
            self.timeline = Some(timeline);
        }
    }

    fn watch(&mut self) -> (Vec<Interval>, Duration) {
        let pause = self.look();
        (mem::take(&mut self.unseen), pause)
    }

    fn intervals(&mut self) -> (Series<MeterBooks>, u64) {
        self.look();
        (self.kept.take(), self.complete)
    }

    fn received(&self) -> Count {
        match &self.work {
            MeteringState::Measuring { receiver, .. } => {
                let (frames, bytes) = receiver.received();
                let missing = receivers::lost(std::slice::from_ref(receiver));
                Count { frames, bytes, missing }
            }
            MeteringState::Done { count, .. } => *count,
            MeteringState::Idle => Count::default(),
        }
    }

    fn finish(&mut self, settle: Nanos) -> Result<Measured, String> {
        let MeteringState::Measuring { receiver, cpu, relation, applications, card } =
            mem::take(&mut self.work)
        else {
            return Err("no measurement has begun".to_owned());
        };
        wait_for_late(settle, self.stop);
        let spent = CpuTimes::now().since(&cpu);
        let missing = receivers::lost(std::slice::from_ref(&receiver));
        self.station.card = cards::report(card.as_deref(), cards::read(&self.port).as_ref());
        let (received, resting) = receiver.rest();
        if let Some(timeline) = &mut self.timeline {
            self.kept.add(&received.intervals);
            timeline.received(received.intervals);
            self.complete = u64::MAX;
        }
        let frames = received.summary.flows.values().map(|flow| flow.frames).sum();
        let costs = spent.process.iter().map(|process| CpuSpent {
            role: "receive".to_owned(),
            user_ns: process.user_ns,
            system_ns: process.system_ns,
            interrupt_ns: spent.interrupt_ns(),
            frames,
        });
        let error = received.error.as_ref().map(ToString::to_string);
        let left_alone = facts::left_alone(self.engine, &received.summary);
        let shared = facts::shared_histograms(&received.summary);
        self.station.hardware_timestamps =
            timestamps::of_station(&self.port, received.card_stamps.as_ref());
        let unread = applications.map(|applications| applications.findings(&self.port));
        let unread = unread.unwrap_or_default();
        let notes = error.into_iter().chain(left_alone).chain(shared).chain(received.damage);
        let notes = notes.chain(unread.clone());
        let notes = notes.map(|note| format!("at the receiver: {note}"));
        let summary = received.summary;
        let bytes = summary.flows.values().map(|flow| flow.frame_bytes).sum();
        let count = Count { frames, bytes, missing };
        self.work =
            MeteringState::Done { summary: Box::new(summary.clone()), count, relation, unread };
        self.idle = resting;
        if self.idle.is_none() {
            self.rest();
        }
        Ok(Measured {
            costs: costs.collect(),
            notes: notes.collect(),
            stations: self.stations(),
            summary,
            delivered: None,
            intervals: Vec::new(),
            ..Measured::default()
        })
    }

    fn abandon(&mut self) {
        // it has begun, so there is a result, which is kept
        let _ = self.finish(LOST_SETTLE);
    }

    fn sending(&mut self) -> Option<&mut dyn SendingSide> {
        self.granted.as_mut().map(|granted| granted as &mut dyn SendingSide)
    }

    fn serving(&mut self) -> Option<&mut dyn ServingSide> {
        self.serving.as_mut().map(|serving| serving as &mut dyn ServingSide)
    }

    fn between_senders(&mut self) -> Option<String> {
        let interface = self.request.interface.as_deref()?;
        if self.was_deleted() {
            self.idle.take().map(Receiver::finish);
            self.watch = None;
            return Some(format!(
                "the interface {interface} was deleted; senders are served again once there is one of that name"
            ));
        }
        if self.idle.is_some() || self.find_again().is_err() {
            return None;
        }
        self.rest();
        let idle = self.idle.as_ref()?;
        self.station = facts::station(&self.port, self.engine, &idle.mode, &self.machine);
        Some(format!("the interface {interface} is there again: {}", idle.mode))
    }
}

/// Waits `settle` for frames on their way, and no longer than until a stop is asked: that none comes for a while does not
/// say that none is on its way.
fn wait_for_late(settle: Nanos, stop: &Stop) {
    let until = MonotonicClock.now().saturating_add(settle);
    while !stop.asked() {
        let left = until.saturating_sub(MonotonicClock.now());
        if left == Nanos::ZERO {
            return;
        }
        thread::sleep(LOOK.min(left.to_duration()));
    }
}
