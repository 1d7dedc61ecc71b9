//! From plain numbers to a report.
//!
//! What the sender and the receiver counted comes in as [`SenderSide`] and [`ReceiverSide`]; losses,
//! rates, consistency checks and findings follow from them here, by pure functions. Either side may be absent. One
//! step is one file: `pair` brings the two sides of each flow together, `rates` makes rates of
//! counts, `consistency` checks the sums, `findings` says what limited the run.
//! `sessions` and `session_findings` do the same for TCP sessions, `stacks` for our own TCP below them; `beside` makes one report
//! of both.

mod beside;
mod cards;
mod consistency;
mod findings;
mod intervals;
mod pair;
mod rates;
mod session_findings;
mod sessions;
mod stacks;

use std::time::SystemTime;

pub use beside::side_by_side;
pub use intervals::{Extremes, FlowIntervalCounts, IntervalCounts, interval};
pub use sessions::{SessionGroup, SessionIntervalCounts, session_interval};

use wirebeat_meter::departures::Departures;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_units::{FrameRate, Nanos};

use crate::model::{
    Capture, Change, Cost, DelayClock, End, Json, MemberKind, Outage, Relation, Replay, Report,
    SCHEMA_VERSION, Sizes, StackReport, Station, Verdict, Volume,
};
use crate::time::rfc3339;

/// What is known of the run as a whole.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// Version of the program.
    pub wirebeat_version: String,
    /// The command line, program and arguments.
    pub command_line: Vec<String>,
    /// The seed of a run that sends.
    pub seed: Option<u64>,
    /// Its scenario, as it was run.
    pub scenario: Option<Json>,
    /// When the run started.
    pub started: SystemTime,
    /// How long it ran, until it had settled.
    pub duration: Nanos,
    /// Why it ended.
    pub end: End,
    /// How the clocks of sender and receiver relate; a receiver alone does not know it.
    pub clocks: Clocks,
    /// CPU time by role.
    pub costs: Vec<CpuTime>,
    /// What was noticed on the machine that makes measurements less exact, each in one sentence.
    pub machine: Vec<String>,
    /// What changed in the flows while they were sent, in the order of time.
    pub changes: Vec<Change>,
    /// When links were down.
    pub outages: Vec<Outage>,
    /// What was recorded and sent again.
    pub replays: Vec<Replay>,
    /// What was kept of the frames.
    pub captures: Vec<Capture>,
    /// What sessions did, by group and end.
    pub sessions: Vec<SessionGroup>,
    /// What our own TCP did, by port and thread.
    pub stacks: Vec<StackReport>,
}

/// How the clocks of sender and receiver relate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// Both ends read one clock.
    Same,
    /// Their offset is known up to `bound`, by the way that `how` names.
    Bounded {
        /// The bound.
        bound: Nanos,
        /// How it is known: "both follow NTP", "measured over the control connection".
        how: String,
    },
    /// Nothing is known of their offset, for this reason.
    Unbounded(String),
}

/// CPU time that a role took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// Who took it: "transmit", "receive".
    pub role: String,
    /// In the program.
    pub user: Nanos,
    /// In the kernel on its behalf.
    pub system: Nanos,
    /// In interrupts on its CPUs, where the system tells.
    pub interrupt: Option<Nanos>,
    /// Frames that it sent or received.
    pub frames: u64,
}

/// What the sender counted.
#[derive(Clone, Debug)]
pub struct SenderSide {
    /// The ports that sent.
    pub stations: Vec<Station>,
    /// Each flow.
    pub flows: Vec<SentFlow>,
    /// The buckets of the histograms of all that have none of their own.
    pub shared_departures: Departures,
}

/// How a receiver recognises the frames of a flow. What it does not recognise is not measured, and not lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Attribution {
    /// By the flow's number in their probes.
    #[default]
    Probe,
    /// By their headers, which no other flow has: they are counted under this number.
    Headers(u16),
    /// As what arrives without a probe: the receiver sees no headers, and this is the only such flow.
    Unprobed,
    /// Nobody was asked to receive it.
    NoReceiver,
    /// Not at all, for this reason.
    NotMeasured(String),
}

/// What the sender counted of a flow.
#[derive(Clone, Debug, Default)]
pub struct SentFlow {
    /// Its name.
    pub name: String,
    /// Its number in probes; `None` for a flow that carries no probe.
    pub id: Option<u16>,
    /// How its arrivals are recognised.
    pub attribution: Attribution,
    /// The rate that was asked for, on average; `None` for as fast as possible.
    pub offered: Option<FrameRate>,
    /// What frames of different lengths are on average by their scenario, for that rate in bits; `None`: as they were sent.
    pub mean: Option<Volume>,
    /// How long its frames are by the scenario.
    pub sizes: Option<Sizes>,
    /// Whether that rate was asked for all the time, so that the sent rate can be held against it.
    pub steady: bool,
    /// Whether that rate was to be another at another time: its rates are its frames over the time under way.
    pub varies: bool,
    /// When it was to be under way, from the start of the run; `None` where that is not known.
    pub under_way: Option<(Nanos, Nanos)>,
    /// Frames that leave back to back; 0 counts as 1.
    pub burst: u32,
    /// Transmit queues that it was spread over; 0 counts as 1.
    pub queues: u32,
    /// What the schedule asked for until the run ended.
    pub requested: Volume,
    /// What the engine accepted.
    pub sent: Volume,
    /// Frames that were dropped because they were later than their drift.
    pub expired: u64,
    /// Frames that the run ended before.
    pub not_reached: u64,
    /// Whether there were more of these: they were too many to be counted.
    pub not_reached_at_least: bool,
    /// Frames that the engine or the system refused.
    pub failed: u64,
    /// First and last departure, from the start of the run.
    pub departures: Option<(Nanos, Nanos)>,
    /// Lateness and gaps of the frames that were sent and had deadlines.
    pub left: Departures,
    /// Frames that were sent later than `late_after`.
    pub late: u64,
    /// Frames with a greater send lateness are late.
    pub late_after: Nanos,
    /// Whether late frames are dropped.
    pub drops_late: bool,
    /// Of a member: the number of its sub-flow, where there are any.
    pub sub_flow: Option<u32>,
    /// What they are, and its members: parts of it that were counted each by itself. Its own counts are all of them and
    /// what belongs to none.
    pub members: Option<(MemberKind, Vec<SentFlow>)>,
}

/// What the receiver counted.
#[derive(Clone, Debug)]
pub struct ReceiverSide {
    /// The ports that received.
    pub stations: Vec<Station>,
    /// The measurements of all of them.
    pub summary: MeterSummary,
    /// Frames that the engine delivered to the meter, by the engine's own count, if it keeps one.
    pub delivered: Option<u64>,
    /// Frames that came in at the interfaces meanwhile, whatever they were, by the devices' counters; `None` where one
    /// has none.
    pub at_interfaces: Option<u64>,
}

/// Makes the report of a run of which either side, or both, are known.
pub fn assemble(
    facts: RunFacts,
    sender: Option<SenderSide>,
    receiver: Option<ReceiverSide>,
) -> Report {
    let clock = delay_clock(&facts.clocks);
    let uncertainty = clock.uncertainty_ns;
    let pairs = pair::pair(sender.as_ref(), receiver.as_ref());
    let flows: Vec<_> = pairs.iter().map(|pair| pair.report(uncertainty)).collect();
    let shared = receiver.as_ref().map(|receiver| &receiver.summary.shared);
    let shared_departures = sender.as_ref().map(|sender| &sender.shared_departures);
    let total = pair::total(&pairs, &flows, shared_departures, shared, uncertainty);
    let mut consistency_checks = consistency::checks(&pairs, &flows, &total, receiver.as_ref());
    let sessions = sessions::reports(&facts.sessions, facts.duration);
    consistency_checks.extend(consistency::of_sessions(&sessions));
    let stacks = stacks::reports(&facts.stacks);
    consistency_checks.extend(consistency::of_stacks(&stacks));
    let others = receiver.as_ref().map(|receiver| pair::others(&pairs, receiver));
    let balanced = consistency_checks.iter().all(|equation| equation.balances());
    let verdict = verdict(balanced, &facts.end);
    let delay_clock = receiver.is_some().then_some(clock);
    let at_interfaces = receiver.as_ref().and_then(|receiver| receiver.at_interfaces);
    let mut report = Report {
        schema_version: SCHEMA_VERSION.to_owned(),
        wirebeat_version: facts.wirebeat_version,
        command_line: facts.command_line,
        seed: facts.seed,
        scenario: facts.scenario,
        started: rfc3339(facts.started),
        duration_ns: facts.duration.get(),
        end: facts.end,
        verdict,
        exit_code: verdict.exit_code(),
        total,
        flows,
        intervals: Vec::new(),
        mix: None,
        session_totals: sessions::totals(&facts.sessions, facts.duration),
        session_intervals: sessions::intervals(&facts.sessions),
        sessions,
        stacks,
        trends: Vec::new(),
        changes: facts.changes,
        outages: facts.outages,
        replays: facts.replays,
        captures: facts.captures,
        others,
        findings: Vec::new(),
        consistency_checks,
        senders: sender.map_or_else(Vec::new, |sender| sender.stations),
        receivers: receiver.map_or_else(Vec::new, |receiver| receiver.stations),
        delay_clock,
        costs: facts.costs.iter().map(|cost| self::cost(cost, facts.duration)).collect(),
    };
    report.findings = findings::findings(&report, at_interfaces, facts.machine);
    report.findings.extend(session_findings::findings(&report.sessions, &facts.sessions));
    report.findings.extend(stacks::findings(&report.stacks, &report.sessions));
    report.findings.sort_by_key(|finding| finding.kind);
    report.judge();
    report
}

fn verdict(balanced: bool, end: &End) -> Verdict {
    match end {
        _ if !balanced => Verdict::CountersInconsistent,
        End::Completed | End::Stopped { .. } => Verdict::Done,
        End::InterfaceGone { .. } | End::PeerGone { .. } | End::Failed { .. } => {
            Verdict::Unfinished
        }
    }
}

fn delay_clock(clocks: &Clocks) -> DelayClock {
    let (relation, uncertainty, explanation) = match clocks {
        Clocks::Same => (Relation::Same, Some(0), "both ends read one clock"),
        Clocks::Bounded { bound, how } => (Relation::Bounded, Some(bound.get()), how.as_str()),
        Clocks::Unbounded(why) => (Relation::Unbounded, None, why.as_str()),
    };
    DelayClock { relation, uncertainty_ns: uncertainty, explanation: explanation.to_owned() }
}

fn cost(cpu: &CpuTime, duration: Nanos) -> Cost {
    let spent = cpu.user.get() as f64
        + cpu.system.get() as f64
        + cpu.interrupt.map_or(0.0, |interrupt| interrupt.get() as f64);
    let per = |count: u64| if count == 0 { None } else { Some(spent / count as f64) };
    Cost {
        role: cpu.role.clone(),
        user_seconds: cpu.user.as_secs_f64(),
        system_seconds: cpu.system.as_secs_f64(),
        interrupt_seconds: cpu.interrupt.map(Nanos::as_secs_f64),
        cpus: per(duration.get()).map_or(0.0, crate::model::round),
        frames: cpu.frames,
        nanoseconds_per_frame: per(cpu.frames).map(crate::model::round),
    }
}

#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod stack_tests;
#[cfg(test)]
mod tests;
