//! For ports that send at once: frames are built ahead, and handed over when they are due.

use std::sync::atomic::Ordering;

use wirebeat_traffic::program::Image;
use wirebeat_traffic::schedule::{Departure, Schedule};
use wirebeat_units::Nanos;

use super::{Job, Tally, images};
use crate::clock::{Clock, NAP, Wait};
use crate::port::{Port, PortError, TxMeta};

/// Frames built ahead, and the most that are handed over at once.
const BATCH: usize = 64;
/// How long before its deadline a frame may be built: enough to fill a batch at 64,000 a second.
const BUILD_AHEAD: Nanos = Nanos::from_millis(1);
/// Longest sleep before the stop flag is looked at again.
const STEP: Nanos = Nanos::from_millis(20);
/// How long frames may be on their way once the last is handed over.
const SETTLE: Nanos = Nanos::from_secs(1);

/// The loop's state. `departures` are those of the frames built in the port's slots, in order.
struct Pace<'a, P, C> {
    port: &'a mut P,
    clock: &'a C,
    job: &'a Job<'a>,
    tally: &'a mut Tally,
    images: Vec<Image<'a>>,
    schedule: Schedule,
    batch: usize,
    departures: Vec<Departure>,
    metas: Vec<TxMeta>,
}

pub(super) fn pace<P: Port, C: Clock>(
    port: &mut P,
    clock: &C,
    job: &Job<'_>,
    tally: &mut Tally,
) -> Result<(), PortError> {
    let batch = BATCH.min(port.caps().batch).max(1);
    let mut pace = Pace {
        images: images(job.program, port.caps()),
        schedule: job.schedule(),
        batch,
        departures: Vec::with_capacity(batch),
        metas: Vec::with_capacity(batch),
        port,
        clock,
        job,
        tally,
    };
    pace.run()
}

impl<P: Port, C: Clock> Pace<'_, P, C> {
    fn run(&mut self) -> Result<(), PortError> {
        loop {
            let now = self.clock.now();
            if self.job.stopped(now) {
                break;
            }
            self.prepare(now)?;
            let due = self.due(now);
            if due > 0 {
                let due = self.expire(now, due);
                self.hand_over(due)?;
                continue;
            }
            let next = self.departures.first().copied().or_else(|| self.schedule.peek());
            let Some(next) = next else { break };
            self.wait(self.job.start.saturating_add(next.at), now);
        }
        self.port.flush()?;
        self.port.drain(self.clock.now().saturating_add(SETTLE))?;
        Ok(())
    }

    /// Builds frames that will soon be due into free slots.
    fn prepare(&mut self, now: Nanos) -> Result<(), PortError> {
        let have = self.departures.len();
        let ahead = now.saturating_sub(self.job.start).saturating_add(BUILD_AHEAD);
        // top up by halves: a call for every frame would cost more than the frame
        if have > self.batch / 2 || self.schedule.peek().is_none_or(|next| next.at > ahead) {
            return Ok(());
        }
        let room = self.port.reserve(self.batch)?;
        if room <= have {
            return self.port.flush();
        }
        self.schedule.next_due(ahead, &mut self.departures, room - have);
        for index in have..self.departures.len() {
            self.build(index);
        }
        Ok(())
    }

    fn build(&mut self, index: usize) {
        let flow = self.departures[index].flow as usize;
        if let Some(image) = self.images.get(flow) {
            image.build(self.port.slot(index));
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
        let job = self.job;
        let too_late = |departure: &Departure| {
            elapsed.saturating_sub(departure.at) > job.drift(departure.flow)
        };
        if !self.departures[..due].iter().any(too_late) {
            return due;
        }
        let mut index = 0;
        let mut gone = 0;
        let tally = &mut *self.tally;
        self.departures.retain(|departure| {
            let keep = index >= due || !too_late(departure);
            index += 1;
            if !keep {
                tally.requested(departure.flow, 1);
                tally.expired(departure.flow);
                gone += 1;
            }
            keep
        });
        job.live.expired.fetch_add(gone as u64, Ordering::Relaxed);
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
        let mut bytes = 0;
        let now = self.clock.now();
        // numbers are shared by all cores: those of one flow are taken at once where it has the batch
        // for itself
        let first = self.departures[0].flow;
        let alone = self.departures[..due].iter().all(|departure| departure.flow == first);
        let base = alone.then(|| self.job.sequences.take(first, due as u32));
        for (index, departure) in self.departures.drain(..due).enumerate() {
            let flow = departure.flow as usize;
            let Some((image, flow)) = self.images.get(flow).zip(self.job.program.flows.get(flow))
            else {
                continue;
            };
            let sequence = match base {
                Some(base) => base.wrapping_add(index as u32),
                None => self.job.sequences.take(departure.flow, 1),
            };
            image.stamp(self.port.slot(index), sequence, now.get());
            let deadline = self.job.start.saturating_add(departure.at);
            let late = flow.departures.rate.map(|_| now.signed_sub(deadline));
            self.tally.requested(departure.flow, 1);
            self.tally.departed(departure.flow, now, late);
            bytes += u64::from(flow.template.len().get());
            let len = image.bytes.len() as u16;
            self.metas.push(TxMeta { len, tag: departure.flow, ..TxMeta::default() });
        }
        self.port.commit(&self.metas)?;
        self.port.flush()?;
        self.job.live.add(due as u64, bytes);
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
