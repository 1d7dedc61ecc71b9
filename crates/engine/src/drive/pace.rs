//! For ports that send at once: frames are built ahead, and handed over when they are due.

use std::sync::atomic::Ordering;

use wirebeat_traffic::program::Built;
use wirebeat_traffic::schedule::Departure;
use wirebeat_units::Nanos;

use super::changes::IDLE;
use super::outgoing::Outgoing;
use super::{Job, Tally, farewell};
use crate::clock::{Clock, NAP, Wait};
use crate::port::{Port, PortError, TxMeta};

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

/// The loop's state. `departures` and `built` are those of the frames built in the port's slots, in order.
struct Pace<'a, P, C> {
    port: &'a mut P,
    clock: &'a C,
    job: &'a Job<'a>,
    tally: &'a mut Tally,
    out: Outgoing<'a>,
    batch: usize,
    departures: Vec<Departure>,
    built: Vec<Built>,
    metas: Vec<TxMeta>,
    /// The packet whose first fragment was too late, by stream and number.
    dropped: Option<(u32, u64)>,
}

pub(super) fn pace<'a, P: Port, C: Clock>(
    port: &'a mut P,
    clock: &'a C,
    job: &'a Job<'a>,
    tally: &'a mut Tally,
) -> Result<(), PortError> {
    let batch = BATCH.min(port.caps().batch).max(1);
    let mut pace = Pace {
        out: Outgoing::new(job, port.caps()),
        batch,
        departures: Vec::with_capacity(batch),
        built: Vec::with_capacity(batch),
        metas: Vec::with_capacity(batch),
        dropped: None,
        port,
        clock,
        job,
        tally,
    };
    pace.run()?;
    pace.tally.unsent(job, pace.out, pace.departures);
    Ok(())
}

impl<P: Port, C: Clock> Pace<'_, P, C> {
    fn run(&mut self) -> Result<(), PortError> {
        loop {
            let now = self.clock.now();
            if self.job.stopped(now) {
                break;
            }
            self.out.listen(now);
            self.prepare(now)?;
            let due = self.due(now);
            if due > 0 {
                let due = self.expire(now, due);
                self.hand_over(due)?;
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
                let soon = now.saturating_add(pause).min(self.job.end);
                self.clock.wait_until(soon, Wait::Sleep);
                continue;
            };
            self.wait(self.job.start.saturating_add(next.at), now);
        }
        self.port.flush()?;
        self.port.drain(self.clock.now().saturating_add(SETTLE))?;
        self.say_farewell()
    }

    /// Once everything that is due is gone.
    fn say_farewell(&mut self) -> Result<(), PortError> {
        if !self.job.flows.iter().any(|&flow| farewell::has_last(self.job.program, flow)) {
            return Ok(());
        }
        let after = self.clock.now().saturating_add(farewell::AFTER);
        self.clock.wait_until(after, Wait::Sleep);
        let now = self.clock.now();
        farewell::farewell(self.port, self.job, self.tally, now)?;
        self.port.drain(now.saturating_add(SETTLE)).map(|_| ())
    }

    /// Builds frames that will soon be due into free slots.
    fn prepare(&mut self, now: Nanos) -> Result<(), PortError> {
        let have = self.departures.len();
        let ahead = now.saturating_sub(self.job.start).saturating_add(BUILD_AHEAD);
        // top up by halves: a call for every frame would cost more than the frame
        if have > self.batch / 2 || self.out.peek().is_none_or(|next| next.at > ahead) {
            return Ok(());
        }
        let room = self.port.reserve(self.batch)?;
        if room <= have {
            return self.port.flush();
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
        if now < self.job.start {
            return 0;
        }
        let elapsed = now.saturating_sub(self.job.start);
        self.departures.iter().take_while(|departure| departure.at <= elapsed).count()
    }

    /// Takes frames that are later than their drift out of the first `due`; returns how many remain.
    fn expire(&mut self, now: Nanos, due: usize) -> usize {
        let elapsed = now.saturating_sub(self.job.start);
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
                tally.requested(departure.tag, built);
                tally.expired(departure.tag, built);
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
    /// time.
    fn hand_over(&mut self, due: usize) -> Result<(), PortError> {
        if due == 0 {
            return Ok(());
        }
        self.metas.clear();
        let (mut frames, mut bytes) = (0, 0);
        let now = self.clock.now();
        // numbers are shared by all cores: those of one tag are taken at once where it has the batch
        // for itself
        let first = self.departures[0].tag;
        let alone = |departure: &Departure| departure.tag == first && departure.part == 0;
        let alone = self.departures[..due].iter().all(alone);
        let base = alone.then(|| self.job.sequences.take(first, due as u32));
        let moment = self.job.moment(now);
        let leaving = self.departures.drain(..due).zip(self.built.drain(..due));
        for (index, (departure, built)) in leaving.enumerate() {
            let Some(hand) = self.out.hand(departure.stream) else { continue };
            let sequence = match base {
                Some(base) => base.wrapping_add(index as u32),
                None => self.job.sequences.take(departure.tag, built.counted.packets.into()),
            };
            built.stamp(self.port.slot(index), sequence, moment);
            let deadline = self.job.start.saturating_add(departure.at);
            let first = departure.part <= 1;
            let late = (hand.limited && first).then(|| now.signed_sub(deadline));
            self.tally.requested(departure.tag, &built);
            self.tally.departed(departure.tag, now, late);
            bytes += u64::from(built.counted.bytes);
            frames += u64::from(built.counted.packets);
            self.metas.push(hand.meta(&built, departure.tag, Nanos::ZERO));
        }
        self.port.commit(&self.metas)?;
        self.port.flush()?;
        self.job.live.add(frames, bytes);
        Ok(())
    }

    /// Waits for `deadline`, in steps that let a stop through.
    fn wait(&self, deadline: Nanos, now: Nanos) {
        let deadline = match self.job.wait {
            Wait::Sleep => deadline.max(now.saturating_add(NAP)),
            Wait::Spin | Wait::Hybrid => deadline,
        };
        let step = now.saturating_add(STEP).min(self.job.end);
        if deadline > step {
            self.clock.wait_until(step, Wait::Sleep);
        } else {
            self.clock.wait_until(deadline, self.job.wait);
        }
    }
}
