//! What a run says at its end.
//!
//! Plain data, the same for every engine and every rendering. A field's name ends in its unit; all
//! times are nanoseconds unless the name says otherwise; a ratio is of 1. `None` (JSON: `null`) means
//! that there is no such value, never zero; in flows such a field is left out, because there may be tens of thousands of
//! them. A change that readers could notice raises [`SCHEMA_VERSION`]; new fields alone do not.

mod capture;
mod card;
mod expectation;
mod flow;
mod interval;
mod json;
mod merged_interval;
mod mix;
mod replay;
mod session;
mod stack;
mod station;
mod stats;
mod trend;

pub use capture::{Capture, CaptureKind};
pub use card::{
    Card, CardChange, CardCoalescing, CardCounter, CardPause, CardRings, CardRss, CounterMeaning,
    CounterSource, QueueChoice, QueueFrames, QueueShare, TransmitQueue,
};
pub use expectation::{Expectation, Expected};
pub use flow::{
    FlowReport, LengthRange, Loss, LossBasis, MemberKind, Members, OFFERED, Rates, Received, Sent,
    Sizes, Volume,
};
pub use interval::{
    FlowInterval, GaugeReport, Interval, IntervalExtremes, IntervalPart, IntervalReceived,
    IntervalSent,
};
pub use json::Json;
pub use mix::{MixReport, MixShare, MixShared};
pub use replay::{HeldBack, LeftOut, OutOfOrder, ProbeNumbers, Replay, Shortened};
pub use session::{
    PlannedActual, SessionBytes, SessionConnections, SessionDatagrams, SessionEnd, SessionEnds,
    SessionFrames, SessionGoal, SessionInterval, SessionIntervals, SessionMessages,
    SessionMisbehaviour, SessionOneWay, SessionPairs, SessionRates, SessionReport, SessionSegments,
    SessionStarts, SessionTimes, SessionTls, SessionZeroCopy, SessionsExpired, StatusCount,
    TlsFailures,
};
pub use stack::{
    StackArrivals, StackBytes, StackCable, StackConflict, StackDatagrams, StackInterval, StackLink,
    StackRecoveries, StackReport, StackSegments, StackSessions, StackState,
};
pub use station::{
    Clock, Cost, DelayClock, HardwareTimestamps, Host, Interruptions, Relation, Station, Thread,
};
pub(crate) use stats::round;
pub use stats::{Bins, Bucket, Percentiles, Stats};
pub use trend::{Trend, TrendChange, TrendMeasure};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// The version of this model, in every report.
pub const SCHEMA_VERSION: &str = "4";

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this model: "4".
    pub schema_version: String,
    /// Version of the program.
    pub wirebeat_version: String,
    /// The command line, program and arguments.
    pub command_line: Vec<String>,
    /// The seed of every random choice; absent where nothing was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The scenario as it was run, in the traffic language: with its defaults, and the interfaces, engines, addresses, lengths
    /// and ends that were chosen where nothing was written. Absent where nothing was sent, and for more than 10,000 flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub scenario: Option<Json>,
    /// When the run started: RFC 3339, UTC.
    pub started: String,
    /// How long it ran, from its start until it had settled.
    pub duration_ns: u64,
    /// Why it ended.
    pub end: End,
    /// What to make of it.
    pub verdict: Verdict,
    /// The exit code that follows from the verdict. The program ends with 5 instead of 0 where an output, as the text,
    /// could not be written.
    pub exit_code: u8,
    /// All flows together.
    pub total: FlowReport,
    /// Each flow.
    pub flows: Vec<FlowReport>,
    /// What happened in each interval, in the order of time. Neighbouring ones of a long run are merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// How measures changed in the course of a soak test; absent in other runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trends: Vec<Trend>,
    /// What sessions did, by group and end; absent where there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionReport>,
    /// The same of all groups of an end together, clients first; of an end that has one group there is none. `program` says how many groups
    /// these are, `most_open` is the sum of theirs, and there are no statuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub session_totals: Vec<SessionReport>,
    /// The rate that groups of sessions shared; absent where they did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixReport>,
    /// What sessions did in each interval, in the order of time. Neighbouring ones of a long run are merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub session_intervals: Vec<SessionIntervals>,
    /// What our own TCP did, by port; absent where no session went over it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackReport>,
    /// What changed in the flows while they were sent, in the order of time.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// When links were down while it ran, in the order in which they came back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// What was recorded and sent again, by flow.
    #[serde(default)]
    pub replays: Vec<Replay>,
    /// The frames that were kept in files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<Capture>,
    /// Frames that reached the receiver and belong to no flow; `null` without a receiver.
    pub others: Option<Others>,
    /// What limited the run or makes its numbers less certain; the gravest first.
    pub findings: Vec<Finding>,
    /// The sums that must be right: all of them, or of more than 100 flows those of the total and those that are wrong.
    pub consistency_checks: Vec<Equation>,
    /// The ports that sent.
    pub senders: Vec<Station>,
    /// The ports that received.
    pub receivers: Vec<Station>,
    /// How exact one-way delays are; `null` without a receiver.
    pub delay_clock: Option<DelayClock>,
    /// CPU time that the run took, by role.
    pub costs: Vec<Cost>,
}

impl Report {
    /// All that was expected of it: of all flows together, of each flow, of each group of sessions.
    pub fn expectations(&self) -> impl Iterator<Item = Expected<'_>> {
        let total = named(None, &self.total.expectations);
        let flows =
            self.flows.iter().flat_map(|flow| named(Some(flow.name.as_str()), &flow.expectations));
        let groups = self
            .sessions
            .iter()
            .flat_map(|group| named(Some(group.name.as_str()), &group.expectations));
        total.chain(flows).chain(groups)
    }

    /// Holds the verdict and the exit code against what was expected, which changes those of a run that is done.
    pub fn judge(&mut self) {
        if self.verdict == Verdict::Done && !self.expectations().all(|of| of.expectation.met) {
            self.verdict = Verdict::Unmet;
            let own = Exit::of(self.exit_code).unwrap_or(Exit::Done);
            self.exit_code = Exit::Unmet.and(own).code();
        }
    }

    /// Holds against what was expected that somebody stopped the run before its end: what is met by a part of it says nothing of the
    /// rest.
    pub fn judge_stop(&mut self) {
        let End::Stopped { signal } = &self.end else { return };
        if self.verdict != Verdict::Done || self.expectations().next().is_none() {
            return;
        }
        let message = format!(
            "stopped by {signal} before its end: what was expected holds for a part of the run only"
        );
        self.findings.insert(0, Finding { kind: FindingKind::Unfinished, message });
        self.verdict = Verdict::Unfinished;
        let own = Exit::of(self.exit_code).unwrap_or(Exit::Done);
        self.exit_code = Exit::Unfinished.and(own).code();
    }

    /// The same with the numbers that distributions come to, and without the histograms behind them.
    #[must_use]
    pub fn without_histograms(mut self) -> Report {
        let flows = self.flows.iter_mut().chain([&mut self.total]);
        flows.flat_map(FlowReport::distributions).for_each(Stats::forget_histogram);
        let sessions = self.sessions.iter_mut().chain(&mut self.session_totals);
        sessions.flat_map(SessionReport::distributions).for_each(Stats::forget_histogram);
        let stations = self.senders.iter_mut().chain(&mut self.receivers);
        stations.flat_map(Station::distributions).for_each(Stats::forget_histogram);
        let disorders = self.replays.iter_mut().filter_map(|replay| replay.out_of_order.as_mut());
        disorders
            .flat_map(|of| [&mut of.delay_ns, &mut of.extent_records])
            .for_each(Stats::forget_histogram);
        self
    }
}

/// Expectations, and whom they are about.
fn named<'a>(
    of: Option<&'a str>,
    expectations: &'a [Expectation],
) -> impl Iterator<Item = Expected<'a>> {
    expectations.iter().map(move |expectation| Expected { of, expectation })
}

/// A time in which a link was down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outage {
    /// The interface.
    pub interface: String,
    /// When it began, from the start of the run.
    pub at_ns: u64,
    /// How long it lasted, within the run.
    pub lasted_ns: u64,
}

/// A change of a flow while it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// When it took effect, from the start of the run.
    pub at_ns: u64,
    /// The flow's name.
    pub flow: String,
    /// What changed, in words.
    pub change: String,
    /// Who wanted it.
    pub origin: ChangeOrigin,
}

/// Who wanted a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOrigin {
    /// The scenario, in the flow's `at`.
    Scenario,
    /// Somebody from outside, while it ran.
    Control,
}

/// What asked a run to stop that broke what was expected of it, as [`End::Stopped`] names it.
pub const ABORT_ON_FAIL: &str = "--abort-on-fail";

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum End {
    /// It did all that was asked.
    Completed,
    /// A signal asked it to stop, or somebody else did.
    Stopped {
        /// Name of the signal; `--abort-on-fail` where it broke what was expected of it.
        signal: String,
    },
    /// The interface went down or was removed.
    InterfaceGone {
        /// Its name.
        interface: String,
    },
    /// The other host no longer answers.
    PeerGone {
        /// Its address.
        peer: String,
    },
    /// Something else failed while it ran.
    Failed {
        /// What.
        message: String,
    },
}

/// What to make of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It completed, or was told to stop, and its counters are consistent.
    Done,
    /// It ended before it was done; what it reports is right as far as it went.
    Unfinished,
    /// A sum is wrong: the numbers cannot be trusted.
    CountersInconsistent,
    /// It is done and its counters are consistent, and something that was expected of it is not so.
    Unmet,
}

impl Verdict {
    /// The program's exit code: 0 when done, 4 when an expectation was not met, else 1.
    pub const fn exit_code(self) -> u8 {
        self.exit().code()
    }

    /// How the program ends.
    pub const fn exit(self) -> Exit {
        match self {
            Verdict::Done => Exit::Done,
            Verdict::Unfinished | Verdict::CountersInconsistent => Exit::Unfinished,
            Verdict::Unmet => Exit::Unmet,
        }
    }
}

/// Frames that reached the receiver and belong to no flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Others {
    /// Datagrams that match the filter, carry no probe, and have no headers of a flow that was sent without one.
    pub unprobed: u64,
    /// Frames with a probe of a flow that is not expected.
    pub unknown_flow: u64,
    /// Frames with a probe that was sent before the run.
    pub stale: u64,
    /// Frames that do not match the filter.
    pub foreign: u64,
    /// Frames too short or inconsistent to be read.
    pub malformed: u64,
    /// IP fragments that made no whole packet at the receiver.
    pub fragments: u64,
    /// Frames that the receiving engine lost by itself; they are among the lost of some flow.
    pub receiver_drops: u64,
}

impl Others {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Others::default()
    }
}

/// One thing that limited the run, or that a reader must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// In one sentence.
    pub message: String,
}

/// Kinds of findings; the gravest first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A sum is wrong.
    CountersInconsistent,
    /// The run ended before it was done.
    Unfinished,
    /// Nothing arrived.
    NothingReceived,
    /// Sessions were opened, and none was established.
    NothingEstablished,
    /// A next hop did not answer when our own TCP asked for its link-layer address.
    NextHopSilent,
    /// Another station says that it has an address of our own TCP.
    AddressConflict,
    /// A link was down for a while.
    LinkDown,
    /// This machine had no port, file descriptor or memory for sessions: the tester's failure, not the peer's.
    SessionsFailedHere,
    /// Sessions were not opened: too many were open, a limit held them back until starts ended, or the tester was too late.
    SessionsExpired,
    /// Received bytes were not what they should be.
    PayloadDamaged,
    /// The peer or the network ended sessions, or gave no answer.
    SessionsFailed,
    /// Over UDP, responses did not come in time.
    ResponsesLost,
    /// Responses were not as expected.
    ResponsesUnexpected,
    /// The sender failed to hand over frames.
    FramesFailed,
    /// The sender dropped frames that were too late.
    FramesExpired,
    /// The run ended before the sender came to frames that were due.
    FramesNotReached,
    /// Frames of a sender that drops what is late left later all the same.
    FramesLeftLate,
    /// A flow was spread over several transmit queues, which do not keep its order.
    OrderNotKept,
    /// A sender was let go to other CPUs during the run, and with them to other transmit queues.
    SenderMoved,
    /// The card of a receiver lost frames.
    CardDroppedIn,
    /// The card of a sender lost frames.
    CardDroppedOut,
    /// The other end of a sender's link asked it to pause.
    SenderPaused,
    /// Settings of a card were changed during the run.
    CardChanged,
    /// The receiver itself lost frames.
    ReceiverDrops,
    /// Peers opened more sessions than our own TCP has room for.
    SynsDropped,
    /// A cable in memory dropped frames, because its queue was full, and some sessions are over UDP.
    CableQueueFull,
    /// Segments with a wrong checksum came in for our own TCP, which dropped them.
    ChecksumsWrong,
    /// Records came too late from those who read them.
    ReaderBehind,
    /// Records that cannot be sent, or are none, were left out.
    RecordsLeftOut,
    /// Frames of a capture left later than their times say, because those were before that of the frame before.
    TimesHeldBack,
    /// Frames were measured and are not in the capture or the packet log.
    CaptureIncomplete,
    /// The sender was slower, or faster, than asked.
    RateMissed,
    /// Fewer sessions were opened in a second than asked.
    SessionRateMissed,
    /// The sender was late by more than the time between frames.
    DeparturesLate,
    /// Sessions started later than planned by more than the time between their starts.
    SessionStartsLate,
    /// Sessions were still open when the run ended.
    SessionsUnfinished,
    /// Sessions that wait for those of another group did not begin.
    SessionsNotBegun,
    /// One-way delays are uncertain, or not known.
    ClockUncertain,
    /// The card did not stamp all frames that it was to.
    NotStamped,
    /// Sequence numbers that cannot be right, or a sender that began anew.
    SequenceDoubtful,
    /// Several senders use one flow number.
    FlowNumberShared,
    /// Flows that could not be measured at their receiver.
    NotMeasured,
    /// Loss is counted without the sender's own count.
    LossEstimated,
    /// Frames with probes that belong to no flow of this run.
    StrangeProbes,
    /// Something on the machine that makes measurements less exact.
    Machine,
}

/// A sum that must be right: `left = right + right + …`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Equation {
    /// What it is about: "total", "flow voice", "receiver", "own TCP on a".
    pub scope: String,
    /// The left side.
    pub left: Term,
    /// The terms whose sum is the right side.
    pub right: Vec<Term>,
    /// Left less right; 0 when it balances.
    pub difference: i64,
}

impl Equation {
    /// Whether both sides are equal.
    pub fn balances(&self) -> bool {
        self.difference == 0
    }
}

/// A counter in a sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Term {
    /// The counter's name.
    pub name: String,
    /// What it counted.
    pub value: u64,
}
