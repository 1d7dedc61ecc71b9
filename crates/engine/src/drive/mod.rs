//! The one transmit loop: takes due departures, builds their frames in the port's own buffers, commits
//! them, and records how late each one was. It does not know which engine it drives.
//!
//! There are three ways through it, chosen by what the port can do ([`Caps`]): a port that repeats a
//! period by itself is given one round (`repeat`); a port that holds frames until their launch time
//! is fed ahead of it (`feed`); for any other the loop waits and hands each frame over when it is due
//! (`pace`). Several cores share a flow by [`Shard`] and number its frames from one [`Sequences`].

mod feed;
mod pace;
mod repeat;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use wirebeat_meter::distribution::Recorder;
use wirebeat_meter::summary::Distribution;
use wirebeat_traffic::program::{Image, Late, Program};
use wirebeat_traffic::schedule::{Period, Schedule, Shard, period};
use wirebeat_units::Nanos;

use crate::clock::{Clock, Wait};
use crate::port::{Caps, Port, PortError, TxPlan, TxTotals, View};

/// The longest time between frames that catch up: waiting for one holds up those of other flows.
const SPACING_MAX: Nanos = Nanos::from_micros(5);

/// Numbers of the frames of each flow, shared by all cores that send it, so that no two frames carry
/// one number. A number is taken when a frame leaves, so that frames which never leave make no gap.
#[derive(Debug)]
pub struct Sequences(Vec<AtomicU32>);

impl Sequences {
    /// Every flow from 0.
    pub fn new(flows: usize) -> Sequences {
        Sequences((0..flows).map(|_| AtomicU32::new(0)).collect())
    }

    /// Takes the next `count` numbers of `flow`, and returns the first.
    fn take(&self, flow: u32, count: u32) -> u32 {
        self.0.get(flow as usize).map_or(0, |next| next.fetch_add(count, Ordering::Relaxed))
    }
}

/// What a transmit core has done so far, to look at from another thread. Updated by batches.
#[derive(Debug, Default)]
pub struct LiveTx {
    /// Frames handed to the port.
    pub frames: AtomicU64,
    /// Their bytes with FCS.
    pub bytes: AtomicU64,
    /// Frames dropped as time violations.
    pub expired: AtomicU64,
}

impl LiveTx {
    fn add(&self, frames: u64, bytes: u64) {
        self.frames.fetch_add(frames, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What a transmit core is to send.
#[derive(Debug)]
pub struct Job<'a> {
    /// The program.
    pub program: &'a Program,
    /// Indices of the flows that leave by this port.
    pub flows: &'a [u32],
    /// This core's share of them.
    pub shard: Shard,
    /// Numbers of their frames.
    pub sequences: &'a Sequences,
    /// When the run starts, on the port's clock: deadlines count from here.
    pub start: Nanos,
    /// When it ends at the latest, on the port's clock. Flows with a rate end by their own schedule:
    /// leave them a moment after the last deadline, so that the last frames get out.
    pub end: Nanos,
    /// How deadlines are awaited.
    pub wait: Wait,
    /// Set from outside to end early.
    pub stop: &'a AtomicBool,
    /// What others see of it.
    pub live: &'a LiveTx,
}

impl Job<'_> {
    fn stopped(&self, now: Nanos) -> bool {
        now >= self.end || self.stop.load(Ordering::Relaxed)
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(self.program, self.flows, self.shard)
    }

    /// Whether the frames of `flow` have deadlines of their own.
    fn rated(&self, flow: u32) -> bool {
        let flow = self.program.flows.get(flow as usize);
        flow.is_some_and(|flow| flow.departures.rate.is_some())
    }

    /// How late a frame of `flow` may be.
    fn drift(&self, flow: u32) -> Nanos {
        match self.program.flows.get(flow as usize).map(|flow| flow.late) {
            Some(Late::Drop(drift)) => drift,
            Some(Late::Send) | None => Nanos::MAX,
        }
    }

    /// How long after the frame before it a late frame of `flow` leaves at the soonest: three quarters of
    /// the time that is meant to lie between them, so that a sender which was held up catches up at 4/3 of
    /// the rate and not in a burst that the device has to swallow. Zero for bursts, which are asked for; for time
    /// violations, where nothing counts but the deadline; and where frames are slept for, which leave
    /// together anyhow.
    fn spacing(&self, flow: u32) -> Nanos {
        let Some(flow) = self.program.flows.get(flow as usize) else { return Nanos::ZERO };
        match (flow.departures.rate, flow.late) {
            (Some(rate), Late::Send) if flow.departures.burst == 1 && self.wait != Wait::Sleep => {
                let gap = rate.deadline(u64::from(self.shard.cores));
                Nanos::new(gap.get().saturating_mul(3) / 4).min(SPACING_MAX)
            }
            _ => Nanos::ZERO,
        }
    }
}

/// What became of the frames of one flow on one core.
#[derive(Clone, Debug, Default)]
pub struct FlowSent {
    /// Frames taken from the schedule because they were due.
    pub requested: u64,
    /// Frames that the engine accepted.
    pub sent: u64,
    /// Frames that were later than their drift.
    pub expired: u64,
    /// Frames that the engine refused or lost.
    pub failed: u64,
    /// Departure of the first and of the last frame.
    pub span: Option<(Nanos, Nanos)>,
    /// Departure minus deadline, in ns, of the frames that had a deadline.
    pub error: Distribution,
}

/// How a drive ended, with what was done until then.
#[derive(Debug)]
pub struct Driven {
    /// By flow index; flows of other ports stay zero.
    pub flows: Vec<FlowSent>,
    /// The error that ended it, if one did.
    pub error: Option<PortError>,
}

/// What a port is told beforehand, and the round that it is going to repeat, if it can.
#[derive(Clone, Debug)]
pub struct Plan {
    /// For opening the port.
    pub tx: TxPlan,
    /// The round, and how many frames there are in all.
    pub round: Option<(Period, u64)>,
}

impl Plan {
    /// Plans for a core's share of a program. `repeats` is the longest round that the engine repeats,
    /// 0 if it does not.
    pub fn new(program: &Program, flows: &[u32], shard: Shard, repeats: usize) -> Plan {
        let lengths = || {
            let templates = flows.iter().filter_map(|&flow| program.flows.get(flow as usize));
            templates.map(|flow| flow.template.bytes.len() as u16)
        };
        let frame_max = lengths().max().unwrap_or(0);
        let rated = |&flow: &u32| {
            program.flows.get(flow as usize).is_some_and(|flow| flow.departures.rate.is_some())
        };
        let paced = flows.iter().any(rated);
        let round = (repeats > 0)
            .then(|| period(program, flows, shard, repeats))
            .flatten()
            .and_then(|period| {
                repeat::frames_in_all(program, flows, shard, &period).map(|all| (period, all))
            });
        let tx = TxPlan {
            tags: program.flows.len() as u32,
            frame_max,
            frame_len: lengths().all(|len| len == frame_max).then_some(frame_max),
            paced,
            round: round.as_ref().map_or(0, |(period, _)| period.round.len()),
        };
        Plan { tx, round }
    }
}

/// Sends a job through a port until its schedule ends, its time is over, it is stopped, or the port
/// fails; waits for the frames that are on their way; and says what became of each.
pub fn drive<P: Port, C: Clock>(port: &mut P, clock: &C, job: &Job<'_>, plan: &Plan) -> Driven {
    let mut tally = Tally::new(job.program.flows.len());
    let caps = port.caps().clone();
    if !plan.tx.paced {
        // frames without a launch time leave as soon as the port has them
        await_start(clock, job);
    }
    let outcome = match &plan.round {
        Some((period, all)) if caps.repeats >= period.round.len() => {
            repeat::repeat(port, clock, job, (period, *all), &mut tally)
        }
        _ if caps.holds => feed::feed(port, clock, job, &mut tally),
        _ => pace::pace(port, clock, job, &mut tally),
    };
    let stopped = port.stop();
    let error = outcome.err().or(stopped.err());
    Driven { flows: tally.finish(port), error }
}

/// Returns at the start of the job, or when it is stopped.
fn await_start<C: Clock>(clock: &C, job: &Job<'_>) {
    const STEP: Nanos = Nanos::from_millis(10);
    let mut now = clock.now();
    while now < job.start && !job.stopped(now) {
        clock.wait_until(now.saturating_add(STEP).min(job.start), Wait::Sleep);
        now = clock.now();
    }
}

/// The image of each flow that a port is given.
fn images<'a>(program: &'a Program, caps: &Caps) -> Vec<Image<'a>> {
    let image = |flow: &'a wirebeat_traffic::program::Flow| match caps.view {
        View::Frame => flow.template.frame(),
        View::Datagram => flow.template.datagram(),
    };
    program.flows.iter().map(image).collect()
}

/// Counts and departure errors of one core, by flow.
#[derive(Debug)]
struct Tally {
    flows: Vec<Line>,
}

#[derive(Clone, Debug, Default)]
struct Line {
    requested: u64,
    expired: u64,
    span: Option<(Nanos, Nanos)>,
    error: Recorder,
}

impl Tally {
    fn new(flows: usize) -> Tally {
        Tally { flows: vec![Line::default(); flows] }
    }

    fn requested(&mut self, flow: u32, frames: u64) {
        if let Some(line) = self.flows.get_mut(flow as usize) {
            line.requested += frames;
        }
    }

    fn expired(&mut self, flow: u32) {
        if let Some(line) = self.flows.get_mut(flow as usize) {
            line.expired += 1;
        }
    }

    /// A frame of `flow` left at `now`; `late` where it had a deadline.
    fn departed(&mut self, flow: u32, now: Nanos, late: Option<i64>) {
        let Some(line) = self.flows.get_mut(flow as usize) else { return };
        line.span = Some((line.span.map_or(now, |(first, _)| first), now));
        if let Some(late) = late {
            line.error.record(late);
        }
    }

    /// Joins what the port says.
    fn finish<P: Port>(self, port: &P) -> Vec<FlowSent> {
        let mut totals = vec![TxTotals::default(); self.flows.len()];
        port.totals(&mut totals);
        let lines = self.flows.into_iter().zip(totals).zip(0u32..);
        let join = |((line, total), tag): ((Line, TxTotals), u32)| {
            let held = port.departures(tag);
            let mut error = line.error.distribution();
            error.merge(&held.error);
            FlowSent {
                requested: line.requested - total.withdrawn.min(line.requested),
                sent: total.sent,
                expired: line.expired + total.expired,
                failed: total.failed,
                span: line.span.or(held.span),
                error,
            }
        };
        lines.map(join).collect()
    }
}
