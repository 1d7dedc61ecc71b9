//! For ports that send at once: frames are built ahead, and handed over when they are due. When one left is recorded
//! once the port has accepted it: what it refuses was never on its way.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use wirebeat_traffic::program::{Built, Counted};
use wirebeat_traffic::schedule::Departure;
use wirebeat_units::Nanos;

use super::changes::IDLE;
use super::outgoing::Outgoing;
use super::{Job, TxCounters, final_packet, intervals};
use crate::clock::{Clock, NAP, Wait};
use crate::port::{Fate, PortError, TxMeta, TxPort};

/// Frames built ahead, and the most that are handed over at once.
const BATCH: usize = 64;
/// How long before its deadline a frame may be built: enough to fill a batch at 64,000 a second.
const BUILD_AHEAD: Nanos = Nanos::from_millis(1);
/// How often it is looked whether the reader has more.
const STARVED: Nanos = Nanos::from_micros(50);
/// Longest sleep before the stop flag is looked at again.
const STEP: Nanos = Nanos::from_millis(20);
/// How long frames may be on their way once the last is handed over.
const SETTLE: Nanos = Nanos::from_secs(1);

/// What handing a frame over costs at first, until it is known: about a microsecond (measured on virtual machines).
const COST: Nanos = Nanos::from_micros(1);

/// Frames that a port has room for, or more.
const HANDED: usize = 512;

/// A frame that was handed over, and of which the port has not said yet what became of it.
#[derive(Clone, Copy, Debug)]
struct Handed {
    tag: u32,
    counted: Counted,
    /// When it left, if it is accepted.
    at: Nanos,
    /// When it was due, if it was.
    deadline: Option<Nanos>,
}

/// The loop's state. `departures` and `built` are those of the frames built in the port's slots, in order.
struct Pace<'a, P, C> {
    port: &'a mut P,
    clock: &'a C,
    job: &'a Job<'a>,
    tally: &'a mut TxCounters,
    out: Outgoing<'a>,
    batch: usize,
    /// The shortest drift of a flow that drops what is late.
    drift: Option<Nanos>,
    /// How long before it is due a frame is handed over: its card waits for the time.
    lead: Nanos,
    /// What handing a frame over cost last.
    cost: Nanos,
    departures: Vec<Departure>,
    built: Vec<Built>,
    metas: Vec<TxMeta>,
    handed: VecDeque<Handed>,
    /// The packet whose first fragment was too late, by stream and number.
    dropped: Option<(u32, u64)>,
}

pub(super) fn pace<'a, P: TxPort, C: Clock>(
    port: &'a mut P,
    clock: &'a C,
    job: &'a Job<'a>,
    tally: &'a mut TxCounters,
) -> Result<(), PortError> {
    let batch = BATCH.min(port.caps().batch).max(1);
    let mut pace = Pace {
        out: Outgoing::new(job, port.caps()),
        batch,
        drift: job.flows.iter().map(|&flow| job.drift(flow)).min().filter(|&d| d < Nanos::MAX),
        lead: port.caps().lead.min(BUILD_AHEAD),
        cost: COST,
        departures: Vec::with_capacity(batch),
        built: Vec::with_capacity(batch),
        metas: Vec::with_capacity(batch),
        handed: VecDeque::with_capacity(HANDED),
        dropped: None,
        port,
        clock,
        job,
        tally,
    };
    let stopped = pace.run()?;
    pace.tally.not_reached(job, stopped, pace.out, pace.departures);
    Ok(())
}

impl<P: TxPort, C: Clock> Pace<'_, P, C> {
    /// Until when it was at work.
    fn run(&mut self) -> Result<Nanos, PortError> {
        let mut now;
        loop {
            now = self.clock.now();
            if self.job.stopped(now) || self.is_too_slow(now) {
                break;
            }
            intervals::look(self.port, self.job, now);
            self.out.listen(now);
            self.prepare(now)?;
            let due = self.due(now);
            if due > 0 {
                self.leave(due)?;
                // ports that do not hold frames take nothing from elsewhere
                self.out.settle(&self.departures, 0);
                continue;
            }
            let next = self.departures.first().copied().or_else(|| self.out.peek());
            let Some(next) = next else {
                if self.out.is_over(now) {
                    break;
                }
                let pause = if self.out.is_starving() { STARVED } else { IDLE };
                let soon = now.saturating_add(pause).min(self.job.times.latest);
                self.clock.wait_until(soon, Wait::Sleep);
                continue;
            };
            let due = self.job.times.start.saturating_add(next.at);
            self.wait(due.saturating_sub(self.lead), now);
        }
        self.flush()?;
        self.drain()?;
        self.send_final_packet()?;
        Ok(now)
    }

    /// Whether its time is over and it is behind its schedule.
    fn is_too_slow(&mut self, now: Nanos) -> bool {
        let Pace { job, departures, out, .. } = self;
        let mut next = || departures.first().copied().or_else(|| out.peek());
        job.too_slow(now, || next().map(|next| next.at))
    }

    /// Lets the port go on with what it has, and takes in what became of it.
    fn flush(&mut self) -> Result<(), PortError> {
        if !self.handed.is_empty() {
            // what it had no room for leaves now, if it does
            let now = self.clock.now();
            self.handed.iter_mut().for_each(|handed| handed.at = now);
        }
        let flushed = self.port.flush();
        self.collect();
        flushed
    }

    fn drain(&mut self) -> Result<(), PortError> {
        let drained = self.port.drain(self.clock.now().saturating_add(SETTLE));
        self.collect();
        drained.map(|_| ())
    }

    /// Takes in what became of frames: only those that the port accepted have left.
    fn collect(&mut self) {
        let Pace { port, handed, tally, job, .. } = self;
        let (mut frames, mut bytes) = (0, 0);
        port.settled(&mut |fate, count| {
            for Handed { tag, counted, at, deadline } in handed.drain(..count.min(handed.len())) {
                if fate == Fate::Sent {
                    tally.departed(tag, at, deadline.map(|deadline| at.signed_sub(deadline)));
                    frames += u64::from(counted.packets);
                    bytes += u64::from(counted.bytes);
                }
            }
        });
        if frames > 0 || bytes > 0 {
            job.live.add(frames, bytes);
        }
    }

    /// Once everything that is due is gone.
    fn send_final_packet(&mut self) -> Result<(), PortError> {
        if !self.job.flows.iter().any(|&flow| final_packet::has_last(self.job.program, flow)) {
            return Ok(());
        }
        let after = self.clock.now().saturating_add(final_packet::AFTER);
        self.clock.wait_until(after, Wait::Sleep);
        let now = self.clock.now();
        let said = final_packet::send(self.port, self.job, self.tally, now);
        // they have no deadlines, and come after the span that is measured
        self.port.settled(&mut |_, _| {});
        said?;
        self.port.drain(now.saturating_add(SETTLE)).map(|_| ())
    }

    /// The most frames that are built ahead, and handed over at once. Where late ones are dropped, all that leave
    /// together have to be in time: they may take half of what a frame may be late.
    fn most(&self) -> usize {
        let Some(drift) = self.drift else { return self.batch };
        let most = drift.get() / 2 / self.cost.get().max(1);
        (most as usize).clamp(1, self.batch)
    }

    /// Drops what is too late, and what would be by the time when a batch of it has left, without building it.
    fn drop_late(&mut self, now: Nanos) {
        let Some(_) = self.drift else { return };
        let Pace { out, tally, job, cost, .. } = self;
        let elapsed = now.saturating_sub(job.times.start);
        let takes = cost.get().saturating_mul(self.batch as u64);
        let by = |drift: Nanos| elapsed.saturating_add(Nanos::new(takes.min(drift.get() / 2)));
        let mut gone = 0;
        // only what is too late already lets go of what soon will be
        let late = out.peek().is_some_and(|next| {
            let drift = out.hand(next.stream).map_or(Nanos::MAX, |hand| hand.drift);
            next.at.saturating_add(drift) < elapsed
        });
        if !late {
            return;
        }
        out.drop_late(by, &mut |tag, counted, many| {
            tally.expired(tag, counted, many);
            gone += u64::from(counted.packets) * many;
        });
        job.live.expired.fetch_add(gone, Ordering::Relaxed);
    }

    /// Builds frames that will soon be due into free slots.
    fn prepare(&mut self, now: Nanos) -> Result<(), PortError> {
        self.drop_late(now);
        let (have, most) = (self.departures.len(), self.most());
        let ahead = now.saturating_sub(self.job.times.start).saturating_add(BUILD_AHEAD);
        // top up by halves: a call for every frame would cost more than the frame
        if have > most / 2 || self.out.peek().is_none_or(|next| next.at > ahead) {
            return Ok(());
        }
        let room = self.port.reserve(self.batch)?.min(most.max(have));
        if room <= have {
            return self.flush();
        }
        self.out.next_due(ahead, &mut self.departures, room - have);
        for index in have..self.departures.len() {
            self.build(index);
        }
        Ok(())
    }

    fn build(&mut self, index: usize) {
        let departure = self.departures[index];
        // such ports share no memory
        let (built, _) = self.out.build(&departure, self.port.slot(index));
        match self.built.get_mut(index) {
            Some(place) => *place = built,
            None => self.built.push(built),
        }
    }

    /// How many frames at the front are due.
    fn due(&self, now: Nanos) -> usize {
        let by = now.saturating_add(self.lead);
        if by < self.job.times.start {
            return 0;
        }
        let elapsed = by.saturating_sub(self.job.times.start);
        self.departures.iter().take_while(|departure| departure.at <= elapsed).count()
    }

    /// Hands the first `due` frames over, without those that are too late by the time that is written into them.
    fn leave(&mut self, mut due: usize) -> Result<(), PortError> {
        due = due.min(self.most());
        while due > 0 {
            let now = self.clock.now();
            let kept = self.expire(now, due);
            if kept == due {
                return self.hand_over(now, due);
            }
            // that took its time
            due = kept;
        }
        Ok(())
    }

    /// Takes frames that are later than their drift out of the first `due`; returns how many remain.
    fn expire(&mut self, now: Nanos, due: usize) -> usize {
        if self.drift.is_none() {
            return due;
        }
        let elapsed = now.saturating_sub(self.job.times.start);
        let (job, out) = (self.job, &self.out);
        let dropped = &mut self.dropped;
        let mut too_late = |departure: &Departure| {
            let packet = (departure.stream, departure.index);
            if departure.part > 1 {
                return *dropped == Some(packet);
            }
            let drift = out.hand(departure.stream).map_or(Nanos::MAX, |hand| hand.drift);
            let late = elapsed.saturating_sub(departure.at) > drift;
            if late && departure.part == 1 {
                *dropped = Some(packet);
            }
            late
        };
        if !self.departures[..due].iter().any(&mut too_late) {
            return due;
        }
        let mut index = 0;
        let mut gone = 0;
        let (tally, built) = (&mut *self.tally, &self.built);
        self.departures.retain(|departure| {
            let keep = index >= due || !too_late(departure);
            if let (false, Some(built)) = (keep, built.get(index)) {
                tally.expired(departure.tag, built.counted, 1);
                job.live.expired.fetch_add(built.counted.packets.into(), Ordering::Relaxed);
                gone += 1;
            }
            index += 1;
            keep
        });
        self.built.truncate(self.departures.len());
        // the slots hold the frames in their old order: build them anew
        for index in 0..self.departures.len() {
            self.build(index);
        }
        due - gone
    }

    /// Stamps the first `due` frames and hands them over. They leave together, so that they carry one
    /// time; or each at its own, where the card waits for that.
    fn hand_over(&mut self, now: Nanos, due: usize) -> Result<(), PortError> {
        self.metas.clear();
        // numbers are shared by all cores: those of one tag are taken at once where it has the batch
        // for itself
        let first = self.departures[0].tag;
        let alone = |departure: &Departure| departure.tag == first && departure.part == 0;
        let alone = self.departures[..due].iter().all(alone);
        // frames that were numbered before take none
        let alone = alone && self.built[..due].iter().all(|built| built.number.is_none());
        let base = alone.then(|| self.job.sequences.take(first, due as u32));
        let moment = self.job.moment(now);
        let leaving = self.departures.drain(..due).zip(self.built.drain(..due));
        for (index, (departure, built)) in leaving.enumerate() {
            let Some(hand) = self.out.hand(departure.stream) else { continue };
            let sequence = match (built.number, base) {
                (Some(number), _) => number,
                (None, Some(base)) => base.wrapping_add(index as u32),
                (None, None) => {
                    self.job.sequences.take(departure.tag, built.counted.packets.into())
                }
            };
            let first = departure.part <= 1;
            let due = hand.limited.then(|| self.job.times.start.saturating_add(departure.at));
            let waits = due.filter(|due| *due > now && self.lead > Nanos::ZERO);
            let leaves = waits.map_or(moment, |due| self.job.moment(due));
            built.stamp(self.port.slot(index), sequence, leaves);
            self.tally.requested(departure.tag, &built);
            let deadline = due.filter(|_| first);
            self.handed.push_back(Handed {
                tag: departure.tag,
                counted: built.counted,
                at: waits.unwrap_or(now),
                deadline,
            });
            self.metas.push(hand.meta(&built, departure.tag, deadline.unwrap_or(Nanos::ZERO)));
        }
        let waiting = self.handed.len() > self.metas.len();
        self.port.commit(&self.metas)?;
        if waiting {
            return self.flush();
        }
        let flushed = self.port.flush();
        self.collect();
        if self.drift.is_some() {
            // what one disturbed call took does not count
            let took = self.clock.now().saturating_sub(now).get() / due.max(1) as u64;
            self.cost = Nanos::new(took.clamp(1, self.cost.get().saturating_mul(2)));
        }
        flushed
    }

    /// Waits for `deadline`, in steps that let a stop through.
    fn wait(&self, deadline: Nanos, now: Nanos) {
        let deadline = match self.job.times.wait {
            Wait::Sleep => deadline.max(now.saturating_add(NAP)),
            Wait::Spin | Wait::Hybrid => deadline,
        };
        let step = self.clock.step(now, STEP).min(self.job.times.latest);
        if deadline > step {
            self.job.live.wait_for(deadline);
            self.clock.wait_until(step, Wait::Sleep);
        } else {
            self.clock.wait_until(deadline, self.job.times.wait);
        }
    }
}
