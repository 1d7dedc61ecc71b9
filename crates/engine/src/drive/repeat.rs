//! For ports that repeat a period by themselves: one round is written, and the port walks it.

use std::sync::atomic::Ordering;

use wirebeat_traffic::program::Program;
use wirebeat_traffic::schedule::{Period, Schedule, Shard};
use wirebeat_units::{Nanos, fault};

use super::outgoing::Outgoing;
use super::{Job, TxCounters, intervals};
use crate::clock::Clock;
use crate::port::{PortError, Repeat, TxPort, TxTotals};

/// How often the port is looked at.
const LOOK: Nanos = Nanos::from_millis(5);

/// How many frames a schedule has in all, if repeating `period` and breaking off gives exactly it: its
/// end must be the beginning of one more round. `u64::MAX` for a schedule without end.
pub(super) fn frames_in_all(
    program: &Program,
    flows: &[u32],
    shard: Shard,
    period: &Period,
) -> Option<u64> {
    if period.rounds == u64::MAX {
        return Some(u64::MAX);
    }
    let mut rest = Schedule::after_rounds(program, flows, shard, period, period.rounds);
    let mut tail = 0;
    for expected in &period.round {
        match rest.next() {
            Some(departure) if departure.flow == expected.flow => tail += 1,
            Some(_) => return None,
            None => break,
        }
    }
    if rest.peek().is_some() {
        return None;
    }
    period.rounds.checked_mul(period.round.len() as u64)?.checked_add(tail)
}

pub(super) fn repeat<P: TxPort, C: Clock>(
    port: &mut P,
    clock: &C,
    job: &Job<'_>,
    (period, all): (&Period, u64),
    tally: &mut TxCounters,
) -> Result<(), PortError> {
    write_round(port, job, period)?;
    port.repeat(&Repeat {
        start: job.times.start,
        length_q32: period.length_q32,
        limit: all,
        stop: job.times.latest,
    })?;
    let mut done = false;
    let mut now = clock.now();
    let mut gone = 0;
    // when the frame behind those that are gone was due: the last one is right before the end
    let (round, length) = (period.round.len().max(1) as u128, period.length_q32);
    let next = |gone: u64| {
        let left = (u128::from(all.saturating_sub(gone)).saturating_mul(length) / round) >> 32;
        let left = Nanos::new(u64::try_from(left).unwrap_or(u64::MAX));
        Some(job.times.end.saturating_sub(job.times.start).saturating_sub(left))
    };
    while !done && !job.stopped(now) && !job.too_slow(now, || next(gone)) {
        let end = if now < job.times.end { job.times.end } else { job.times.latest };
        let step = now.saturating_add(LOOK).min(end).min(job.live.intervals.next());
        done = port.drain(step)?;
        port.flush()?;
        let (sent, expired) = show(job, port, 0);
        gone = sent.saturating_add(expired);
        now = clock.now();
        intervals::look(port, job, now);
    }
    port.stop()?;
    show(job, port, 0);
    let mut totals = vec![TxTotals::default(); job.program.tags() as usize];
    port.totals(&mut totals);
    let mut done = 0;
    for (line, total) in tally.lines.iter_mut().zip(&totals) {
        for amount in [total.sent, total.expired, total.failed] {
            line.requested += amount;
            done += amount.frames;
        }
    }
    if done < all {
        let mut out = Outgoing::new(job, port.caps());
        out.schedule = rest(job, period, done);
        tally.not_reached(job, now, out, Vec::new());
    }
    Ok(())
}

/// The schedule after its first `done` frames, which a port that repeats sends in order.
fn rest(job: &Job<'_>, period: &Period, done: u64) -> Schedule {
    let round = period.round.len().max(1) as u64;
    let rounds = (done / round).min(period.rounds);
    let mut schedule = Schedule::after_rounds(job.program, job.flows, job.shard, period, rounds);
    for _ in rounds * round..done {
        schedule.next();
    }
    schedule
}

/// Builds the frames of the first round into the port.
fn write_round<P: TxPort>(port: &mut P, job: &Job<'_>, period: &Period) -> Result<(), PortError> {
    let (images, handing) = (job.images(port.caps()), job.handing());
    let mut departures = period.round.iter();
    loop {
        let left = departures.len();
        if left == 0 {
            return Ok(());
        }
        let room = port.reserve(left)?;
        if room == 0 {
            return Err(PortError::Unsupported {
                engine: port.caps().engine,
                what: fault!("hold a round of {} frames", period.round.len()),
            });
        }
        let mut metas = Vec::with_capacity(room);
        for (index, departure) in departures.by_ref().take(room).enumerate() {
            let stream = departure.stream as usize;
            let Some((image, hand)) = images.get(stream).zip(handing.get(stream)) else { continue };
            let built = image.build(departure.index, port.slot(index));
            metas.push(hand.meta(&built, departure.tag, departure.at));
        }
        port.commit(&metas)?;
    }
}

/// Shows others how far the port is; `passed_over` frames were dropped before it had them. Returns how many it has sent
/// and how many it has dropped because they were late.
pub(super) fn show<P: TxPort>(job: &Job<'_>, port: &P, passed_over: u64) -> (u64, u64) {
    let mut totals = vec![TxTotals::default(); job.program.tags() as usize];
    port.totals(&mut totals);
    let sum = |count: fn(&TxTotals) -> u64| totals.iter().map(count).sum();
    let (sent, expired) = (sum(|total| total.sent.frames), sum(|total| total.expired.frames));
    job.live.frames.store(sent, Ordering::Relaxed);
    job.live.bytes.store(sum(|total| total.sent.bytes), Ordering::Relaxed);
    job.live.expired.store(passed_over + expired, Ordering::Relaxed);
    (sent, expired)
}
