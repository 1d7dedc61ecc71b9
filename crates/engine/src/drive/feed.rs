//! For ports that hold frames until their launch time: frames are built and handed over ahead of it.

use wirebeat_traffic::schedule::Departure;
use wirebeat_units::Nanos;

use super::admission::Admission;
use super::changes::IDLE;
use super::final_packet::{self, AFTER};
use super::outgoing::Outgoing;
use super::repeat::show;
use super::{Job, TxCounters, intervals};
use crate::clock::{Clock, Wait};
use crate::port::{Place, PortError, TxMeta, TxPort};

/// Frames handed over at once.
const BATCH: usize = 256;
/// How far ahead of their launch time frames are handed over: longer than a thread is kept from its
/// core on a busy machine, short enough that a stop or a change is soon obeyed.
pub(super) const AHEAD: Nanos = Nanos::from_millis(50);
/// Pause when the port is full of frames that are not due yet, or nothing is due soon.
const PAUSE: Nanos = Nanos::from_micros(200);
/// Spin-loop hints (some 10 to 40 ns each) until a full port is looked at again.
const LOOK_AGAIN: usize = 64;
/// How often others are shown how far the port is.
const SHOW: Nanos = Nanos::from_millis(5);
/// What passes, about, from when a frame is committed until the port looks at it.
const NOTICED: Nanos = Nanos::from_micros(5);

pub(super) fn feed<P: TxPort, C: Clock>(
    port: &mut P,
    clock: &C,
    job: &Job<'_>,
    tally: &mut TxCounters,
) -> Result<(), PortError> {
    let mut out = Outgoing::new(job, port.caps());
    match feed_all(port, clock, job, &mut out, tally) {
        Ok(stopped) => {
            tally.not_reached(job, stopped, out, Vec::new());
            Ok(())
        }
        Err(error) => {
            // what it may take by itself yet is given up in a moment
            let _ = port.stop();
            Err(error)
        }
    }
}

/// Until when it gave the port frames.
fn feed_all<P: TxPort, C: Clock>(
    port: &mut P,
    clock: &C,
    job: &Job<'_>,
    out: &mut Outgoing<'_>,
    tally: &mut TxCounters,
) -> Result<Nanos, PortError> {
    let batch = BATCH.min(port.caps().batch).max(1);
    let drops = job.drops();
    let mut admission = Admission::default();
    let mut passed_over = 0;
    let mut departures = Vec::with_capacity(batch);
    let mut metas = Vec::with_capacity(batch);
    let (mut shown, mut last, mut handed) = (Nanos::ZERO, Nanos::ZERO, 0);
    let mut first = None;
    // how long the last two batches took to build, of which one may have been disturbed
    let mut took = [Nanos::ZERO; 2];
    let mut now;
    loop {
        now = clock.now();
        out.listen(now);
        out.done(port.done());
        if job.stopped(now) {
            break;
        }
        if job.too_slow(now, || out.peek().map(|next| next.at)) {
            // what the port holds is as late
            port.stop()?;
            show(job, port, passed_over);
            return Ok(now);
        }
        intervals::look(port, job, now);
        if now >= shown.saturating_add(SHOW) {
            let (sent, expired) = show(job, port, passed_over);
            if drops {
                admission.look(now.saturating_sub(job.times.start), sent, expired);
            }
            shown = now;
        }
        if drops && let Some(next) = out.peek() {
            // what would be too late when it is built is not built: a feeder that is behind would be so for ever
            let ready = now.saturating_add(took[0].min(took[1])).saturating_add(NOTICED);
            let ready = ready.saturating_sub(job.times.start);
            let drift = out.hand(next.stream).map_or(Nanos::MAX, |hand| hand.drift);
            let free = admission.by(next.at, drift);
            out.drop_late(|drift| ready.max(free(drift)), &mut |tag, counted, many| {
                tally.expired(tag, counted, many);
                passed_over += u64::from(counted.packets) * many;
            });
        }
        let Some(next) = out.peek() else {
            if out.is_over(now) {
                break;
            }
            let pause = if out.is_starving() { PAUSE } else { IDLE };
            clock.wait_until(now.saturating_add(pause).min(job.times.latest), Wait::Sleep);
            continue;
        };
        let horizon = now.saturating_sub(job.times.start).saturating_add(AHEAD);
        let hand = out.hand(next.stream);
        let (rated, may_be_late) =
            hand.map_or((false, Nanos::MAX), |hand| (hand.limited, hand.drift));
        let enough = if rated { 1 } else { batch / 2 };
        if next.at > horizon {
            let deadline = job.times.start.saturating_add(next.at);
            let step = clock.step(now, IDLE).min(job.times.latest);
            job.live.wait_for(deadline);
            clock.wait_until(deadline.saturating_sub(AHEAD).min(step), Wait::Sleep);
            continue;
        }
        let room = port.reserve(batch)?;
        if room < enough.max(1) {
            // A port that is full of frames to be sent at once has room again in a moment. Looking for it
            // without a pause would keep taking the line that says so away from the one who writes it.
            if rated {
                clock.wait_until(now.saturating_add(PAUSE).min(job.times.latest), Wait::Sleep);
            } else {
                (0..LOOK_AGAIN).for_each(|_| std::hint::spin_loop());
            }
            continue;
        }
        departures.clear();
        let most = if drops { admission.most(next.at, may_be_late, batch) } else { batch };
        out.next_due(horizon, &mut departures, room.min(most));
        write(port, job, out, &departures, tally, &mut metas);
        if let Some(departure) = departures.first() {
            first.get_or_insert(job.times.start.saturating_add(departure.at));
        }
        if let Some(departure) = departures.last() {
            last = job.times.start.saturating_add(departure.at);
        }
        port.commit(&metas)?;
        handed += metas.len() as u64;
        out.settle(&[], handed);
        port.flush()?;
        if drops {
            took = [took[1], clock.now().saturating_sub(now)];
            departures.iter().for_each(|departure| admission.given(departure.at));
        }
    }
    final_packet::send(port, job, tally, last.max(clock.now()).saturating_add(AFTER))?;
    // the last frames wait for their launch times
    let first = first.unwrap_or(last);
    let gap = last.saturating_sub(first).get() / handed.max(1);
    loop {
        let now = clock.now();
        // of those that it holds, judged by their mean gap
        let held = |port: &P| handed.saturating_sub(port.done()).saturating_mul(gap);
        let next =
            || Some(last.saturating_sub(Nanos::new(held(port))).saturating_sub(job.times.start));
        if job.stopped(now) || job.too_slow(now, next) {
            break;
        }
        let end = if now < job.times.end { job.times.end } else { job.times.latest };
        let step = now.saturating_add(Nanos::from_millis(20)).min(end);
        if port.drain(step)? {
            break;
        }
        intervals::look(port, job, now);
        show(job, port, passed_over);
    }
    port.stop()?;
    show(job, port, passed_over);
    Ok(now)
}

/// Builds the frames of `departures` into reserved slots, and what goes with them into `metas`.
fn write<P: TxPort>(
    port: &mut P,
    job: &Job<'_>,
    out: &mut Outgoing<'_>,
    departures: &[Departure],
    tally: &mut TxCounters,
    metas: &mut Vec<TxMeta>,
) {
    metas.clear();
    for (index, departure) in departures.iter().enumerate() {
        let Some(hand) = out.hand(departure.stream) else { continue };
        let (built, external) = out.build(departure, port.slot(index));
        tally.requested(departure.tag, &built);
        let place = out.place(departure);
        metas.push(match (hand.limited, place) {
            // It leaves when the one before it has left.
            (_, Place::Following) => TxMeta {
                drift: Nanos::ZERO,
                spacing: Nanos::ZERO,
                place,
                ..hand.meta(&built, departure.tag, Nanos::ZERO)
            },
            (limited, place) => {
                let deadline = job.times.start.saturating_add(departure.at);
                let launch = if limited { deadline } else { Nanos::ZERO };
                TxMeta { place, external, ..hand.meta(&built, departure.tag, launch) }
            }
        });
    }
}
