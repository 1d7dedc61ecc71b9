//! The one transmit loop: takes due departures, builds their frames in the port's own buffers, commits
//! them, and records how late each one was. It does not know which engine it drives.
//!
//! There are three ways through it, chosen by what the port can do ([`TxCaps`]): a port that repeats a
//! period by itself is given one round (`repeat`); a port that holds frames until their launch time
//! is fed ahead of it (`feed`); for any other the loop waits and hands each frame over when it is due
//! (`pace`). Several cores share a flow by [`Shard`] and number its frames from one [`Sequences`]. What changes
//! from outside while they are at work comes by [`Changes`].

mod admission;
mod changes;
mod delayed;
pub mod disorder;
mod errors;
mod feed;
mod final_packet;
pub mod gates;
mod intervals;
mod limit;
mod outgoing;
mod pace;
pub mod playback;
mod repeat;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wirebeat_meter::codecs::UnixOffset;
use wirebeat_meter::departures::Departures;
use wirebeat_traffic::program::{Built, Counted, Image, Late, Program, Stream};
use wirebeat_traffic::schedule::{Departure, Period, Schedule, Shard, period};
use wirebeat_units::Nanos;
use wirebeat_wire::codec::Moment;

pub use changes::{Changes, Listener, Refused, Update};
pub use intervals::{SenderBooks, SenderSeries, SentBooks, TxIntervals};
pub use limit::LineLimit;

use errors::Errors;
use outgoing::Outgoing;
use playback::Playback;

use crate::clock::{Clock, Wait};
use crate::port::{
    Amount, CardStamps, ExternalPayload, Interruptions, Place, PortError, Segments, TxCaps, TxMeta,
    TxPlan, TxPort, TxTotals, View, late_after,
};

/// The longest time between frames that catch up: waiting for one holds up those of other flows.
const SPACING_MAX: Nanos = Nanos::from_micros(5);

/// A sender that is told to stop is behind its schedule if it is so by more than this: it is not told at once.
const MOMENT: Nanos = Nanos::from_millis(1);
/// How long the frames are counted that a run ended before.
const COUNT_FOR: Duration = Duration::from_millis(50);

/// Numbers of the frames of each tag, shared by all cores that send it, so that no two frames carry
/// one number. A number is taken when a frame leaves, so that frames which never leave make no gap.
#[derive(Debug)]
pub struct Sequences(Vec<AtomicU32>);

impl Sequences {
    /// Every tag from 0.
    pub fn new(tags: u32) -> Sequences {
        Sequences((0..tags).map(|_| AtomicU32::new(0)).collect())
    }

    /// Takes the next `count` numbers of `tag`, and returns the first.
    fn take(&self, tag: u32, count: u32) -> u32 {
        self.0.get(tag as usize).map_or(0, |next| next.fetch_add(count, Ordering::Relaxed))
    }
}

/// What a transmit core has done so far, to look at from another thread. Updated by batches.
#[derive(Debug, Default)]
pub struct LiveTx {
    /// Frames handed to the port.
    pub frames: AtomicU64,
    /// Their bytes with FCS.
    pub bytes: AtomicU64,
    /// Frames that were dropped because they were later than their drift.
    pub expired: AtomicU64,
    /// When the next frame is due that was waited for last, on the port's clock; 0: none was waited for.
    pub due: AtomicU64,
    /// What left in each interval.
    pub intervals: TxIntervals,
}

impl LiveTx {
    /// Nothing is due before `deadline`, which is some time off.
    fn wait_for(&self, deadline: Nanos) {
        self.due.store(deadline.get(), Ordering::Relaxed);
    }

    fn add(&self, frames: u64, bytes: u64) {
        self.frames.fetch_add(frames, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The times of a run, on the clock of the port that sends.
#[derive(Clone, Copy, Debug)]
pub struct RunTimes<'a> {
    /// When it starts: deadlines count from here.
    pub start: Nanos,
    /// When its time is over. A sender that is behind its schedule by more than [`BEHIND`] ends then.
    pub end: Nanos,
    /// When it ends at the latest. Flows with a rate end by their own schedule: leave them a moment after the last
    /// deadline, so that the last frames get out.
    pub latest: Nanos,
    /// How deadlines are awaited.
    pub wait: Wait,
    /// How far the clock of the day is ahead of the port's, in nanoseconds (modulo 2^64): for probes that carry it.
    pub unix_offset: &'a UnixOffset,
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
    /// Its times, on the port's clock.
    pub times: RunTimes<'a>,
    /// Set from outside to end early.
    pub stop: &'a AtomicBool,
    /// What others see of it.
    pub live: &'a LiveTx,
    /// What this core sends of what was recorded; taken when it begins.
    pub playbacks: RefCell<Vec<Playback>>,
    /// Changes from outside, if there may be some: then all cores of the run end together, and a port does not
    /// repeat a round by itself.
    pub changes: Option<Listener<'a>>,
    /// The most that this core sends, whatever the program says; a port does not repeat a round by itself then.
    pub limit: Option<LineLimit>,
}

/// A sender that is so far behind when its time is over is too slow: what it did not send is not reached. One that keeps up
/// sends its last frames, though the machine kept it from its CPU right before the end.
pub const BEHIND: Nanos = Nanos::from_millis(20);

impl Job<'_> {
    /// Whether its time is over at `now` and a sender whose next frame is due at `next`, from the start, is behind.
    fn too_slow(&self, now: Nanos, next: impl FnOnce() -> Option<Nanos>) -> bool {
        now >= self.times.end
            && next().is_some_and(|next| {
                self.times.start.saturating_add(next).saturating_add(BEHIND) < now
            })
    }

    /// Whether a port may repeat a round by itself.
    fn may_repeat(&self) -> bool {
        self.changes.is_none() && self.limit.is_none()
    }

    fn stopped(&self, now: Nanos) -> bool {
        now >= self.times.latest || self.stop.load(Ordering::Relaxed)
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(self.program, self.flows, self.shard)
    }

    /// The images of all streams.
    fn images(&self, caps: &TxCaps) -> Vec<Image> {
        self.program.streams.iter().map(|stream| caps.view.image(stream)).collect()
    }

    /// How every stream is handed over.
    fn handing(&self) -> Vec<SendPolicy> {
        self.program.streams.iter().map(|stream| self.hand(stream)).collect()
    }

    fn hand(&self, stream: &Stream) -> SendPolicy {
        SendPolicy {
            limited: stream.departures.pace.is_limited(),
            drift: self.drift(stream.flow),
            spacing: self.spacing(stream),
        }
    }

    /// Whether some of its frames are dropped when they are late.
    fn drops(&self) -> bool {
        self.flows.iter().any(|&flow| self.drift(flow) < Nanos::MAX)
    }

    /// A time on both clocks.
    fn moment(&self, now: Nanos) -> Moment {
        let monotonic_ns = now.get();
        Moment { monotonic_ns, unix_ns: monotonic_ns.wrapping_add(self.times.unix_offset.get()) }
    }

    /// How late a frame of `flow` may be.
    fn drift(&self, flow: u32) -> Nanos {
        match self.program.flows.get(flow as usize).map(|flow| flow.late) {
            Some(Late::Drop(drift)) => drift,
            Some(Late::Send) | None => Nanos::MAX,
        }
    }

    /// How long after the frame before it a late frame of a stream leaves at the soonest: three quarters of
    /// the time that is meant to lie between them, so that a sender which was held up catches up at 4/3 of
    /// the rate and not in a burst that the device has to swallow. Zero for bursts, which are asked for, and times
    /// that vary by themselves; where late frames are dropped and nothing counts but the deadline; and where frames
    /// are slept for, which leave together anyhow.
    fn spacing(&self, stream: &Stream) -> Nanos {
        let late = self.program.flows.get(stream.flow as usize).map(|flow| flow.late);
        match (stream.departures.pace.constant(), late) {
            (Some(rate), Some(Late::Send))
                if stream.departures.burst == 1 && self.times.wait != Wait::Sleep =>
            {
                let gap = rate.deadline(u64::from(self.shard.cores));
                Nanos::new(gap.get().saturating_mul(3) / 4).min(SPACING_MAX)
            }
            _ => Nanos::ZERO,
        }
    }
}

impl View {
    /// What a port with this view is given of a stream.
    fn image(self, stream: &Stream) -> Image {
        match self {
            View::Frame => stream.frames.frame(),
            View::Datagram => stream.frames.datagram(),
        }
    }
}

/// What became of the frames of one tag on one core.
#[derive(Clone, Debug, Default)]
pub struct TxFlowStats {
    /// Frames taken from the schedule because they were due.
    pub requested: Amount,
    /// Frames that the engine accepted.
    pub sent: Amount,
    /// Frames that were later than their drift.
    pub expired: Amount,
    /// Frames that the engine refused or lost.
    pub failed: Amount,
    /// Frames that the run ended before: the schedule, or the port, still had them when the time was over. They are none
    /// of `requested`.
    pub not_reached: Amount,
    /// Departure of the first and of the last frame.
    pub span: Option<(Nanos, Nanos)>,
    /// Lateness and gaps of the frames that had a deadline. From tag [`OWN_HISTOGRAMS`] on without histograms.
    ///
    /// [`OWN_HISTOGRAMS`]: crate::port::OWN_HISTOGRAMS
    pub departures: Departures,
    /// How many were later than their flow allows ([`late_after`]).
    pub late: u64,
    /// More were not reached than that: they were too many to be counted in a moment.
    pub uncounted: bool,
}

/// How a drive ended, with what was done until then.
#[derive(Debug)]
pub struct Driven {
    /// By tag: flows by their index, and behind them their members. Those of other ports stay zero.
    pub flows: Vec<TxFlowStats>,
    /// The buckets of the histograms of all those that have none of their own.
    pub shared_departures: Departures,
    /// How its core was interrupted, where the port knows.
    pub interruptions: Option<Interruptions>,
    /// What its card stamped, where it was asked to.
    pub card_stamps: Option<CardStamps>,
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

/// How the frames of a stream are handed over.
#[derive(Clone, Copy, Debug)]
struct SendPolicy {
    /// Whether they have deadlines of their own.
    limited: bool,
    /// How late they may be.
    drift: Nanos,
    /// How close to the one before it a late one may follow.
    spacing: Nanos,
}

impl SendPolicy {
    /// What goes with a frame that was built.
    #[inline]
    fn meta(&self, built: &Built, tag: u32, launch: Nanos) -> TxMeta {
        TxMeta {
            // A slot holds a frame, or a datagram: no more than 16 bits.
            len: built.len as u16,
            counted: built.counted,
            tag,
            launch,
            stamp: built.stamp,
            number: built.number,
            drift: self.drift,
            spacing: self.spacing,
            place: Place::Whole,
            external: ExternalPayload::default(),
            segments: Segments::default(),
        }
    }
}

impl Plan {
    /// Plans for a core's share of a program. `repeats` is the longest round that the engine repeats,
    /// 0 if it does not; `unix_offset` is that of [`RunTimes`], as it is now.
    pub fn new(
        program: &Program,
        flows: &[u32],
        shard: Shard,
        (repeats, unix_offset): (usize, u64),
    ) -> Plan {
        let images = || program.streams_of(flows).map(|stream| stream.frames.frame());
        let frame_max = images().map(|image| image.longest()).max().unwrap_or_default();
        let paced = program.streams_of(flows).any(|stream| stream.departures.pace.is_limited());
        // What is repeated has no end after which a final packet could be sent.
        let endless = !flows.iter().any(|&flow| final_packet::has_last(program, flow));
        let cut = program.streams_of(flows).any(|stream| stream.frames.is_cut());
        let round = (repeats > 0 && endless && !cut)
            .then(|| period(program, flows, shard, repeats))
            .flatten()
            .and_then(|period| {
                repeat::frames_in_all(program, flows, shard, &period).map(|all| (period, all))
            });
        let tx = TxPlan {
            tags: program.tags(),
            frame_max,
            frame_len: images()
                .all(|image| image.fixed_len() == Some(frame_max))
                .then_some(frame_max),
            paced,
            cut,
            unix_offset,
            round: round.as_ref().map_or(0, |(period, _)| period.round.len()),
        };
        Plan { tx, round }
    }
}

/// Sends a job through a port until its schedule ends, its time is over, it is stopped, or the port
/// fails; waits for the frames that are on their way; and says what became of each.
pub fn drive<P: TxPort, C: Clock>(port: &mut P, clock: &C, job: &Job<'_>, plan: &Plan) -> Driven {
    let mut tally = TxCounters::new(job.program);
    let caps = port.caps().clone();
    if !plan.tx.paced {
        // frames without a launch time leave as soon as the port has them
        await_start(clock, job);
    }
    let outcome = match &plan.round {
        Some((period, all)) if job.may_repeat() && caps.repeats >= period.round.len() => {
            repeat::repeat(port, clock, job, (period, *all), &mut tally)
        }
        _ if caps.holds => feed::feed(port, clock, job, &mut tally),
        _ => pace::pace(port, clock, job, &mut tally),
    };
    let stopped = port.stop();
    intervals::finish(port, job);
    if let Some(listener) = job.changes {
        listener.changes.leave(listener.core);
    }
    let error = outcome.err().or(stopped.err());
    let shared_departures = tally.shared_departures(port);
    let flows = tally.finish(port, job);
    Driven {
        flows,
        shared_departures,
        interruptions: port.interruptions(),
        card_stamps: port.card_stamps(),
        error,
    }
}

/// Returns at the start of the job, or when it is stopped.
fn await_start<C: Clock>(clock: &C, job: &Job<'_>) {
    const STEP: Nanos = Nanos::from_millis(10);
    let mut now = clock.now();
    while now < job.times.start && !job.stopped(now) {
        clock.wait_until(now.saturating_add(STEP).min(job.times.start), Wait::Sleep);
        now = clock.now();
    }
}

/// Counts and send lateness of one core, by tag.
#[derive(Debug)]
struct TxCounters {
    lines: Vec<TagCounters>,
    errors: Errors,
    /// It was told to stop when it was behind its schedule.
    behind: bool,
    /// More was not reached than was counted.
    uncounted: bool,
}

#[derive(Clone, Debug, Default)]
struct TagCounters {
    requested: Amount,
    expired: Amount,
    not_reached: Amount,
    span: Option<(Nanos, Nanos)>,
}

impl TxCounters {
    fn new(program: &Program) -> TxCounters {
        let flow = |tag| program.flows.get(program.flow_of(tag) as usize);
        let limit = |tag| late_after(flow(tag).map_or(Late::Send, |flow| flow.late));
        TxCounters {
            lines: vec![TagCounters::default(); program.tags() as usize],
            errors: Errors::new((0..program.tags()).map(limit)),
            behind: false,
            uncounted: false,
        }
    }

    /// A frame was taken from the schedule.
    #[inline]
    fn requested(&mut self, tag: u32, built: &Built) {
        if let Some(line) = self.lines.get_mut(tag as usize) {
            line.requested.add(built.counted);
        }
    }

    /// A number of frames of one size were taken from the schedule and were too late.
    fn expired(&mut self, tag: u32, counted: Counted, many: u64) {
        if let Some(line) = self.lines.get_mut(tag as usize) {
            line.requested.add_many(counted, many);
            line.expired.add_many(counted, many);
        }
    }

    /// What was taken, and what still was to come, was not reached in time. Of a job that was told to stop this is what was
    /// due until `now`, if it was behind by more than a moment; what was to come later is no longer asked for.
    fn not_reached(
        &mut self,
        job: &Job<'_>,
        now: Nanos,
        mut out: Outgoing<'_>,
        taken: Vec<Departure>,
    ) {
        let elapsed = now.saturating_sub(job.times.start);
        let told = job.stop.load(Ordering::Relaxed);
        let until = if told {
            let next = taken.first().copied().or_else(|| out.peek());
            self.behind = next.is_some_and(|next| next.at.saturating_add(MOMENT) < elapsed);
            if !self.behind {
                return;
            }
            elapsed
        } else {
            Nanos::MAX
        };
        // neither a schedule without an end nor one of very many frames keeps a run from its end
        let begun = Instant::now();
        let may = || begun.elapsed() < COUNT_FOR && (told || !job.stop.load(Ordering::Relaxed));
        let all = out.left((taken, until), may, |tag, counted, many| {
            if let Some(line) = self.lines.get_mut(tag as usize) {
                line.not_reached.add_many(counted, many);
            }
        });
        self.uncounted = !all;
    }

    /// A frame of `tag` left at `now`; `late` where it had a deadline.
    fn departed(&mut self, tag: u32, now: Nanos, late: Option<i64>) {
        let Some(line) = self.lines.get_mut(tag as usize) else { return };
        line.span = Some((line.span.map_or(now, |(first, _)| first), now));
        if let Some(late) = late {
            self.errors.record(tag, now, late);
        }
    }

    /// The buckets of the histograms that tags share, here and in the port.
    fn shared_departures<P: TxPort>(&self, port: &P) -> Departures {
        let mut all = self.errors.shared();
        all.merge(&port.shared_departures());
        all
    }

    /// Joins what the port says. What it has given back was not sent in time, like what the schedule still has
    /// ([`TxCounters::not_reached`]).
    fn finish<P: TxPort>(self, port: &P, job: &Job<'_>) -> Vec<TxFlowStats> {
        let told = job.stop.load(Ordering::Relaxed);
        let mut totals = vec![TxTotals::default(); self.lines.len()];
        port.totals(&mut totals);
        let lines = self.lines.into_iter().zip(totals).zip(0u32..);
        let join = |((line, total), tag): ((TagCounters, TxTotals), u32)| {
            let held = port.departures(tag);
            let (mut departures, late) = self.errors.of(tag);
            departures.merge(&held.departures);
            let (mut requested, mut not_reached) = (line.requested, line.not_reached);
            requested -= total.withdrawn;
            if (!told || self.behind) && !job.program.is_unlimited(job.program.flow_of(tag)) {
                not_reached += total.withdrawn;
            }
            let mut expired = line.expired;
            expired += total.expired;
            TxFlowStats {
                requested,
                sent: total.sent,
                expired,
                failed: total.failed,
                not_reached,
                span: line.span.or(held.span),
                departures,
                late: late + held.late,
                uncounted: self.uncounted && not_reached != Amount::default(),
            }
        };
        lines.map(join).collect()
    }
}
