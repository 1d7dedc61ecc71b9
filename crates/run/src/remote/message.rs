//! What is said over a control connection, as JSON.
//!
//! The sender asks ([`Request`]), the receiver answers ([`Reply`]); `docs/control-connection.md` shows
//! each shape. A receiver can only be asked to count and to tell: no request names an interface, a file or
//! anything else that is its owner's choice. Only one names addresses ([`Request::Send`]), and it is refused unless the
//! owner allows them. Whatever a peer wrote into a text is made harmless ([`tame`]) before anyone sees it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use wirebeat_meter::session::{SessionCounts, SessionSummary};
use wirebeat_meter::summary::{FlowSummary, MeterSummary};
use wirebeat_meter::validate::COUNT_MAX;
use wirebeat_report::assemble::CpuTime;
use wirebeat_report::model::{Card, CardChange, HardwareTimestamps, Relation, Station, Stats};
use wirebeat_units::Nanos;
use wirebeat_units::human::counted;
use wirebeat_units::printable::printable;

use super::asked::AskedSending;
use super::asked_serving::{AskedServing, ServedPlace, ServedSummary, ServingOrder};
use super::clock::ClockIdentity;
use super::grant::Grant;
use super::intervals::{AskedIntervals, ToldIntervals};
use super::sent::{SentFlowCounts, SentIntervals, SentSummary};
use super::serve_grant::ServeGrant;

/// The version of the messages. Both ends must have the same.
pub const PROTOCOL: u32 = 4;

/// The longest greeting, in bytes.
pub const GREETING_LIMIT: usize = 4096;
/// The longest reply, in bytes. The longest that can be is the summary of one flow: five histograms of
/// 3,968 buckets and 65,536 linear bins take less than 2 MiB.
pub const REPLY_LIMIT: usize = 4 << 20;
/// The longest name of a flow, in characters.
const NAME: usize = 64;
/// The longest text of another kind, in characters.
pub(super) const TEXT: usize = 400;
/// The most entries of a list that only describes: stations, notes, roles.
const ENTRIES: usize = 64;
/// The most CPUs of a station.
const CPUS: usize = 1024;
/// The most counters of a card.
const COUNTERS: usize = 256;

/// What a sender asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The first message: who asks. Its shape is the same in all versions.
    Hello(Version),
    /// What time is it?
    Clock,
    /// Forget what was counted, and measure these flows.
    Begin(Expected),
    /// How much has arrived?
    Received,
    /// What was measured in intervals that were not told yet? The first time it says when they end.
    Intervals {
        /// When they end, if that was not said.
        ends: Option<AskedIntervals>,
    },
    /// Get ready to send these flows in the run that has begun: only where the owner allows it, and once for each run.
    Send(Box<AskedSending>),
    /// Accept these sessions in the run that has begun: only where the owner allows it, and once for each run.
    Serve(Box<AskedServing>),
    /// What was served?
    Served {
        /// The number of the run that has begun.
        run: u64,
        /// How it goes on.
        order: ServingOrder,
    },
    /// Begin to send, or the moment from which the times of sessions count.
    Start {
        /// The number of the run that has begun.
        run: u64,
        /// When, in ns of the receiver's clock.
        at_ns: u64,
    },
    /// What was sent?
    Sent {
        /// The number of the run that has begun.
        run: u64,
        /// Stop sending now.
        stop: bool,
    },
    /// The last frame has been sent: let arrivals end, then tell what was measured.
    Finish {
        /// The number of the run that has begun.
        run: u64,
        /// How long to wait for frames on their way, in ns. The receiver waits no longer than
        /// [`LONGEST_SETTLE`].
        settle_ns: u64,
    },
}

/// The longest time that a receiver waits for frames on their way.
pub const LONGEST_SETTLE: Nanos = Nanos::from_secs(30);

/// What a receiver answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To `hello`: who answers.
    Welcome(Box<Welcome>),
    /// To `hello`: the protocols differ. Its shape is the same in all versions.
    Incompatible(Version),
    /// To `hello`: another sender is being served.
    Busy,
    /// To `clock`.
    Clock {
        /// When the question had arrived, in ns of the receiver's clock.
        received_ns: u64,
        /// When the answer left.
        sent_ns: u64,
    },
    /// To `begin`: measuring, at these ports.
    Begun {
        /// The number of the run.
        run: u64,
        /// The ports.
        stations: Vec<Station>,
    },
    /// To `received`.
    Received(Count),
    /// To `send`: all is open, at these ports.
    Ready {
        /// The number of the run.
        run: u64,
        /// The ports.
        stations: Vec<Station>,
    },
    /// To `start`.
    Started {
        /// The number of the run.
        run: u64,
    },
    /// To `sent`: it goes on.
    Sending {
        /// The number of the run.
        run: u64,
        /// What was not told before of intervals.
        intervals: SentIntervals,
    },
    /// To `sent`, once for each flow when sending has ended.
    SentFlow(Box<SentFlowCounts>),
    /// To `sent`, at the end: all but the flows.
    Sent(Box<SentSummary>),
    /// To `serve`: sessions are accepted.
    Listening {
        /// The number of the run.
        run: u64,
        /// Where.
        at: Vec<ServedPlace>,
    },
    /// To `served`: it goes on.
    Serving {
        /// The number of the run.
        run: u64,
        /// What was counted so far, in the order in which the groups were asked for.
        counts: Vec<SessionCounts>,
    },
    /// To `served`, once for each group when serving has ended.
    ServedGroup {
        /// The number of the group.
        number: u32,
        /// What its servers did.
        summary: Box<SessionSummary>,
    },
    /// To `served`, at the end: all but the groups.
    Served(ServedSummary),
    /// To `intervals`; to `finish`, as often as needed, before the end.
    Intervals(Box<ToldIntervals>),
    /// To `finish`, once for each flow.
    Flow {
        /// The flow's number in probes.
        id: u16,
        /// What was measured of it.
        summary: Box<FlowSummary>,
    },
    /// To `finish`, at the end: all but the flows.
    Finished(Box<Measured>),
    /// To anything: not done, for this reason.
    Refused {
        /// Why.
        reason: String,
    },
}

/// A version of the protocol, and of the program that speaks it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The program's version.
    pub wirebeat: String,
}

impl Version {
    /// This program's.
    pub fn ours() -> Version {
        Version { protocol: PROTOCOL, wirebeat: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// Who receives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The receiver's version.
    pub version: Version,
    /// Its ports.
    pub stations: Vec<Station>,
    /// What it takes.
    pub limits: Limits,
    /// Which clock it reads.
    pub clock: ClockIdentity,
    /// What its owner lets it send; `None`: nothing.
    #[serde(default)]
    pub sends: Option<Grant>,
    /// What its owner lets it serve; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<ServeGrant>,
}

/// What a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The most flows that it measures at a time.
    pub flows: u16,
}

impl Limits {
    /// The longest request, in bytes: room for as many flows.
    pub fn request(&self) -> usize {
        GREETING_LIMIT + usize::from(self.flows) * 512
    }
}

/// What a sender is going to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The number of the run on this connection: each has a larger one than the run before.
    pub run: u64,
    /// Its flows.
    pub flows: Vec<ExpectedFlow>,
    /// To be taken off each delay, in ns: see [`FlowSummary::delay_base`].
    pub delay_base: i64,
    /// How the clocks of the two ends relate.
    pub relation: Relation,
    /// The sender's time now, in ns: probes that were sent before are none of this run.
    pub sent_from_ns: u64,
}

/// A flow that a sender is going to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedFlow {
    /// Its number in probes.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Time between its frames in ns, where that is constant.
    pub nominal_gap_ns: Option<u64>,
}

/// Frames that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Frames.
    pub frames: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
    /// Frames that the receiver knows to be lost: their numbers are missing.
    #[serde(default)]
    pub missing: u64,
}

impl Count {
    /// Whether any link carries so much.
    pub fn is_possible(&self) -> bool {
        self.frames <= self.bytes && self.bytes <= COUNT_MAX && self.missing <= COUNT_MAX
    }
}

/// What a receiver tells at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The number of the run.
    pub run: u64,
    /// The measurements.
    pub summary: MeterSummary,
    /// Frames that the engine delivered to the meter, by the engine's own count, if it keeps one.
    pub delivered: Option<u64>,
    /// CPU time that it took, by role.
    pub costs: Vec<CpuSpent>,
    /// What a reader of the numbers must know of the receiver, each in one sentence.
    pub notes: Vec<String>,
    /// Its ports, with what their cards counted meanwhile; none from those that do not tell.
    #[serde(default)]
    pub stations: Vec<Station>,
    /// Of its intervals, what was not told before; it goes in messages of its own.
    #[serde(skip)]
    pub intervals: Vec<ToldIntervals>,
}

/// CPU time that a role took, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSpent {
    /// Who took it: "receive".
    pub role: String,
    /// In the program.
    pub user_ns: u64,
    /// In the kernel on its behalf.
    pub system_ns: u64,
    /// In interrupts on its CPUs, where the system tells.
    pub interrupt_ns: Option<u64>,
    /// Frames that it received.
    pub frames: u64,
}

impl From<CpuTime> for CpuSpent {
    fn from(time: CpuTime) -> Self {
        CpuSpent {
            role: time.role,
            user_ns: time.user.get(),
            system_ns: time.system.get(),
            interrupt_ns: time.interrupt.map(Nanos::get),
            frames: time.frames,
        }
    }
}

impl From<CpuSpent> for CpuTime {
    fn from(spent: CpuSpent) -> Self {
        CpuTime {
            role: spent.role,
            user: Nanos::new(spent.user_ns),
            system: Nanos::new(spent.system_ns),
            interrupt: spent.interrupt_ns.map(Nanos::new),
            frames: spent.frames,
        }
    }
}

/// What a peer sent is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAMessage(String);

impl From<serde_json::Error> for NotAMessage {
    fn from(error: serde_json::Error) -> Self {
        let how = match error.classify() {
            Category::Eof => "ends too early",
            Category::Data => "is none of this version of the protocol",
            Category::Syntax | Category::Io => "is not JSON",
        };
        NotAMessage(format!("a message {how} (at byte {})", error.column()))
    }
}

impl Request {
    /// The bytes of this message.
    pub fn encode(&self) -> Result<Vec<u8>, NotAMessage> {
        Ok(serde_json::to_vec(self)?)
    }

    /// The message that a sender sent as `bytes`, with its texts made harmless.
    pub fn decode(bytes: &[u8]) -> Result<Request, NotAMessage> {
        let mut request = serde_json::from_slice(bytes)?;
        match &mut request {
            Request::Hello(version) => version.tame(),
            Request::Begin(expected) => expected.tame(),
            Request::Send(asked) => asked.tame(),
            Request::Serve(asked) => asked.tame(),
            Request::Start { .. }
            | Request::Sent { .. }
            | Request::Served { .. }
            | Request::Clock
            | Request::Received
            | Request::Intervals { .. }
            | Request::Finish { .. } => {}
        }
        Ok(request)
    }
}

impl Reply {
    /// The bytes of this message.
    pub fn encode(&self) -> Result<Vec<u8>, NotAMessage> {
        Ok(serde_json::to_vec(self)?)
    }

    /// The message that a receiver sent as `bytes`, with its texts made harmless. Its numbers are still
    /// to be validated.
    pub fn decode(bytes: &[u8]) -> Result<Reply, NotAMessage> {
        let mut reply = serde_json::from_slice(bytes)?;
        match &mut reply {
            Reply::Welcome(welcome) => {
                welcome.version.tame();
                tame_stations(&mut welcome.stations);
            }
            Reply::Incompatible(version) => version.tame(),
            Reply::Begun { stations, .. } | Reply::Ready { stations, .. } => {
                tame_stations(stations)
            }
            Reply::Sent(sent) => sent.tame(),
            Reply::Served(served) => served.tame(),
            Reply::Listening { at, .. } => {
                at.truncate(ENTRIES);
                at.iter_mut().for_each(|place| tame(&mut place.group, NAME));
            }
            Reply::Finished(measured) => measured.tame(),
            Reply::Refused { reason } => tame(reason, TEXT),
            Reply::Busy
            | Reply::Started { .. }
            | Reply::Sending { .. }
            | Reply::SentFlow(_)
            | Reply::Serving { .. }
            | Reply::ServedGroup { .. }
            | Reply::Clock { .. }
            | Reply::Received(_)
            | Reply::Intervals(_)
            | Reply::Flow { .. } => {}
        }
        Ok(reply)
    }
}

impl Version {
    fn tame(&mut self) {
        tame(&mut self.wirebeat, NAME);
    }
}

impl Expected {
    /// Makes its names harmless and short enough for [`Limits::request`].
    pub fn tame(&mut self) {
        self.flows.iter_mut().for_each(|flow| tame(&mut flow.name, NAME));
    }

    /// Whether a receiver with `limits` can measure it; if not, why.
    pub fn check(&self, limits: &Limits) -> Result<(), String> {
        if self.flows.len() > usize::from(limits.flows) {
            return Err(format!(
                "it measures at most {} at a time, and {} were announced",
                counted(limits.flows.into(), "flow"),
                self.flows.len()
            ));
        }
        let mut seen = BTreeSet::new();
        match self.flows.iter().find(|flow| !seen.insert(flow.id)) {
            Some(flow) => Err(format!("flow {} was announced twice", flow.id)),
            None => Ok(()),
        }
    }
}

impl Measured {
    fn tame(&mut self) {
        self.notes.truncate(ENTRIES);
        self.notes.iter_mut().for_each(|note| tame(note, TEXT));
        self.costs.truncate(ENTRIES);
        self.costs.iter_mut().for_each(|cost| tame(&mut cost.role, NAME));
        tame_stations(&mut self.stations);
    }
}

fn tame_stamps(stamps: &mut HardwareTimestamps) {
    let HardwareTimestamps { clock, clock_name, read_by, receive, .. } = stamps;
    let optional = [clock_name, receive].into_iter().flatten();
    [clock, read_by].into_iter().chain(optional).for_each(|text| tame(text, TEXT));
    // a receiver sends nothing, and its numbers are not ours to draw
    (stamps.sent_asked, stamps.sent) = (0, 0);
    stamps.wire_send_lateness_ns = Stats::default();
    stamps.hand_over_to_wire_ns = Stats::default();
}

pub(super) fn tame_stations(stations: &mut Vec<Station>) {
    stations.truncate(ENTRIES);
    for station in stations {
        let Station {
            host,
            interface,
            namespace,
            engine,
            engine_reason,
            mode,
            timestamps,
            wait,
            cpus,
            threads,
            clock,
            card,
            ..
        } = station;
        let texts = [
            &mut host.name,
            &mut host.kernel,
            &mut host.cpu_model,
            engine,
            engine_reason,
            mode,
            timestamps,
        ];
        let optional = [interface, namespace, wait].into_iter().flatten();
        let clock = [&mut clock.name, &mut clock.synchronisation];
        texts.into_iter().chain(optional).chain(clock).for_each(|text| tame(text, TEXT));
        cpus.truncate(CPUS);
        card.iter_mut().for_each(tame_card);
        threads.truncate(ENTRIES);
        for thread in threads {
            let texts = [&mut thread.role, &mut thread.policy].into_iter().chain(&mut thread.note);
            texts.for_each(|text| tame(text, TEXT));
            thread.cpus.truncate(CPUS);
            let queues = thread.transmit_queue.iter_mut().map(|of| &mut of.queues);
            queues.for_each(|queues| queues.truncate(CPUS));
        }
        station.hardware_timestamps.iter_mut().for_each(tame_stamps);
    }
}

fn tame_card(card: &mut Card) {
    card.driver.iter_mut().for_each(|text| tame(text, NAME));
    if let Some(rss) = &mut card.rss {
        rss.hash.iter_mut().chain([&mut rss.summary]).for_each(|text| tame(text, TEXT));
        rss.queues.truncate(CPUS);
    }
    card.queues.truncate(CPUS);
    card.counters.truncate(COUNTERS);
    for counter in &mut card.counters {
        tame(&mut counter.name, NAME);
        counter.explanation.iter_mut().for_each(|text| tame(text, TEXT));
    }
    card.changed.truncate(ENTRIES);
    for CardChange { setting, before, after } in &mut card.changed {
        [setting, before, after].into_iter().for_each(|text| tame(text, TEXT));
    }
}

/// Cuts `text` to `longest` characters and replaces those that act on a terminal or on the text around them.
pub fn tame(text: &mut String, longest: usize) {
    if let Some((end, _)) = text.char_indices().nth(longest) {
        text.truncate(end);
        text.shrink_to_fit();
    }
    if let Cow::Owned(harmless) = printable(text) {
        *text = harmless;
    }
}
