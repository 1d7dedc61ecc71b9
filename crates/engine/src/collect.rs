//! The one receive loop: takes what a port delivers and gives it to the meter.
//!
//! For ports that deliver frames; the kernel engine meters before they ever reach user space.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use wirebeat_meter::meter::Meter;
use wirebeat_meter::observation::Judged;
use wirebeat_meter::queue_series::QueueSeries;
use wirebeat_meter::sequence::SeenNumbers;
use wirebeat_units::Nanos;

use crate::answers::Answers;
use crate::clock::Clock;
use crate::intervals::LiveIntervals;
use crate::port::{Arrival, PortError, RxPort, View};

/// What one queue of a receiver has seen so far, to look at from another thread. Updated by batches.
#[derive(Debug, Default)]
pub struct LiveRx {
    /// Frames that arrived, whatever they were.
    pub frames: AtomicU64,
    /// Their bytes with FCS.
    pub bytes: AtomicU64,
    /// The sequence numbers of each flow that had arrived when that was asked last.
    seen: Mutex<Vec<(u16, SeenNumbers)>>,
    /// Asks for `seen`. The receive loop clears it once that is there: after a batch, or within 10 ms.
    pub asked: AtomicBool,
    /// What arrived in each interval.
    pub intervals: LiveIntervals<QueueSeries>,
    /// The number of the queue, from 0.
    queue: usize,
}

impl LiveRx {
    /// Those of `queues` queues of one receiver.
    pub fn of_queues(queues: usize) -> Vec<LiveRx> {
        let first = LiveRx::default();
        let another = |queue| {
            let intervals = first.intervals.beside();
            LiveRx { queue, intervals, ..LiveRx::default() }
        };
        let others: Vec<LiveRx> = (1..queues).map(another).collect();
        [first].into_iter().chain(others).collect()
    }

    /// How many sequence numbers none of `queues`, all those of a receiver, had seen when that was asked last.
    pub fn missing<'a>(queues: impl IntoIterator<Item = &'a LiveRx>) -> u64 {
        let mut flows: BTreeMap<u16, SeenNumbers> = BTreeMap::new();
        for live in queues {
            for (id, seen) in &*live.seen.lock().unwrap_or_else(PoisonError::into_inner) {
                flows.entry(*id).or_default().join(*seen);
            }
        }
        flows.values().map(SeenNumbers::missing).sum()
    }

    /// Answers what was asked, between two batches.
    fn answer(&self, meter: &Meter) {
        if self.asked.load(Ordering::Relaxed) {
            self.tell(meter);
        }
    }

    #[cold]
    fn tell(&self, meter: &Meter) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = meter.seen();
        self.asked.store(false, Ordering::Release);
    }

    /// `meter` counts nothing more: its queue holds no interval up.
    fn end(&self, meter: &Meter) {
        self.intervals.pass(|series| {
            series.end(self.queue, meter);
            series.next(self.queue)
        });
    }

    /// Notes what `meter` has counted by `now`, before anything that came later, where an interval has ended. Says when
    /// there is something to note again.
    #[inline]
    fn note(&self, meter: &Meter, now: Nanos) -> Nanos {
        if self.intervals.due(now) {
            self.intervals.pass(|series| {
                series.pass(self.queue, now, meter);
                series.next(self.queue)
            });
        }
        self.intervals.next()
    }
}

/// Longest wait before the stop flag is looked at again.
const STEP: Nanos = Nanos::from_millis(10);
/// How long a port may hold back what has arrived: blocks of a ring are handed over when they are full, or after some milliseconds.
const HELD_BACK: Nanos = Nanos::from_millis(10);

/// Whether senders that wait for an answer to the last datagram of their flow get one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// They do.
    Answering,
    /// They do not.
    #[default]
    Silent,
}

/// Sees each arrival, with what the meter says of it.
pub trait ArrivalTap {
    /// One arrived.
    fn arrived(&mut self, arrival: &Arrival<'_>, judged: &Judged);

    /// It is `now`, and what the port delivers next arrives from about now on. Called between batches, at least once in
    /// some 10 ms.
    fn pass(&mut self, now: Nanos) {
        let _ = now;
    }
}

/// Sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTap;

impl ArrivalTap for NoTap {
    #[inline]
    fn arrived(&mut self, _: &Arrival<'_>, _: &Judged) {}
}

/// Receives until `stop` is set or the port fails. What has arrived until then is in the meter either
/// way.
pub fn collect<P: RxPort, C: Clock>(
    port: &mut P,
    clock: &C,
    meter: &mut Meter,
    stop: &AtomicBool,
    live: &LiveRx,
) -> Result<(), PortError> {
    let manner = Manner::Silent;
    collect_and_tell((port, clock, manner), meter, (stop, live), u64::MAX, &mut NoTap)
}

/// The same, and shows each arrival to `tap` as well. It ends by itself with the frame that makes `most` measured ones;
/// what the port delivers behind that one is not looked at.
pub fn collect_and_tell<P: RxPort, C: Clock>(
    from: (&mut P, &C, Manner),
    meter: &mut Meter,
    (stop, live): (&AtomicBool, &LiveRx),
    most: u64,
    tap: &mut impl ArrivalTap,
) -> Result<(), PortError> {
    let ended = receive_all(from, meter, (stop, live), most, tap);
    live.end(meter);
    ended
}

/// Until when all that arrived has been taken from a port. A thread that was kept from its CPU finds frames of that time in the port when it
/// goes on: intervals that have passed meanwhile are not over before these are metered.
#[derive(Debug, Default)]
struct Drained {
    /// The last time at which a port with nothing in it was asked, and until when it waited for something.
    asked: Option<(Nanos, Nanos)>,
}

impl Drained {
    /// At `asked` or later there was nothing in the port, which waited for it until `until` at most.
    fn note(&mut self, asked: Nanos, until: Nanos) {
        self.asked = Some((asked, until));
    }

    /// What arrived before this has been taken; it is `now`, and the port has delivered nothing since.
    fn before(&self, now: Nanos) -> Nanos {
        let Some((asked, until)) = self.asked else { return Nanos::ZERO };
        // a port that came back before its time was empty when it was asked
        let empty = if now >= until { until } else { asked };
        empty.saturating_sub(HELD_BACK)
    }
}

fn receive_all<P: RxPort, C: Clock>(
    (port, clock, manner): (&mut P, &C, Manner),
    meter: &mut Meter,
    (stop, live): (&AtomicBool, &LiveRx),
    most: u64,
    tap: &mut impl ArrivalTap,
) -> Result<(), PortError> {
    let view = port.caps().view;
    // One more look after the stop: what had arrived before it is waiting in the port.
    let mut last = false;
    let mut measured = 0;
    let mut answers = (manner == Manner::Answering).then(|| Answers::new(clock.now()));
    let mut drained = Drained::default();
    while !last && measured < most {
        last = stop.load(Ordering::Acquire);
        let now = clock.now();
        // on a virtual clock arrivals alone say how late it is
        if !last && !clock.is_virtual() {
            live.note(meter, drained.before(now));
        }
        tap.pass(now);
        let until = if last { Nanos::ZERO } else { now.saturating_add(STEP) };
        loop {
            let mut noted = Nanos::MAX;
            let (mut bytes, mut frames) = (0, 0_u64);
            let delivered = port.receive(until, |arrival| {
                if measured >= most {
                    return;
                }
                if frames == 0 {
                    // intervals may begin while this waits for the first frame
                    noted = live.intervals.next();
                }
                if arrival.at >= noted {
                    noted = live.note(meter, arrival.at);
                }
                let before = meter.left_alone();
                frames += 1;
                bytes += u64::from(arrival.frame_len);
                let Arrival { at, timed, bytes, frame_len, ends, .. } = *arrival;
                if !timed {
                    meter.leave_time_out();
                }
                let judged = match view {
                    View::Frame => meter.record_frame(at, bytes, frame_len),
                    View::Datagram => meter.record_datagram(at, bytes, ends, frame_len),
                };
                tap.arrived(arrival, &judged);
                measured += u64::from(meter.left_alone() == before);
                if let Some(answers) = &mut answers
                    && let Some(answer) = meter.take_answer()
                {
                    answers.push(answer);
                }
            })?;
            if let Some(answers) = &mut answers {
                answers.release(clock.now(), |answer| {
                    port.answer(answer);
                });
            }
            live.frames.fetch_add(frames, Ordering::Relaxed);
            live.bytes.fetch_add(bytes, Ordering::Relaxed);
            live.answer(meter);
            if delivered == 0 {
                drained.note(now, until);
            }
            if delivered == 0 || measured >= most || (!last && stop.load(Ordering::Relaxed)) {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use wirebeat_meter::interval::Beat;
    use wirebeat_meter::meter::MeterConfig;

    use super::*;
    use crate::clock::Wait;
    use crate::port::RxCaps;

    /// A clock that others set.
    #[derive(Debug, Default)]
    struct Hand(AtomicU64);

    impl Clock for &Hand {
        fn now(&self) -> Nanos {
            Nanos::new(self.0.load(Ordering::Relaxed))
        }
        fn wait_until(&self, _: Nanos, _: Wait) {}
    }

    /// Frames of a frame a millisecond, which a thread takes that was kept from its CPU from 150 ms to 390 ms.
    struct Stalled<'a> {
        caps: RxCaps,
        clock: &'a Hand,
        stop: &'a AtomicBool,
        next: u64,
    }

    impl RxPort for Stalled<'_> {
        fn caps(&self) -> &RxCaps {
            &self.caps
        }

        fn receive<F: FnMut(&Arrival<'_>)>(
            &mut self,
            until: Nanos,
            mut sink: F,
        ) -> Result<usize, PortError> {
            // a datagram without a probe
            let payload = [0_u8; 18];
            let mut delivered = 0;
            let now = Nanos::new(self.clock.0.load(Ordering::Relaxed));
            while Nanos::from_millis(self.next) <= now {
                let at = Nanos::from_millis(self.next);
                sink(&Arrival {
                    at,
                    timed: true,
                    bytes: &payload,
                    frame_len: 64,
                    ends: None,
                    hash: None,
                });
                self.next += 1;
                delivered += 1;
            }
            if delivered == 0 {
                // the next one comes in a moment, or much later
                let next = Nanos::from_millis(self.next).min(until);
                let stalls = next >= Nanos::from_millis(150) && next < Nanos::from_millis(390);
                let then = if stalls { Nanos::from_millis(390) } else { next };
                self.clock.0.store(then.get(), Ordering::Relaxed);
                self.stop.store(then >= Nanos::from_millis(600), Ordering::Relaxed);
            }
            Ok(delivered)
        }
    }

    #[test]
    fn frames_are_counted_in_the_interval_in_which_they_arrived_however_late_they_are_read() {
        let (clock, stop, live) = (Hand::default(), AtomicBool::new(false), LiveRx::default());
        let mut port = Stalled {
            caps: RxCaps { mode: String::new(), view: View::Datagram },
            clock: &clock,
            stop: &stop,
            next: 0,
        };
        let beat = Beat { start: Nanos::ZERO, length: Nanos::from_millis(100), last: None };
        live.intervals.begin(QueueSeries::new(beat, 64, 1), beat.end(0));
        let mut meter = Meter::new(MeterConfig::default());
        collect(&mut port, &&clock, &mut meter, &stop, &live).unwrap();
        let series = live.intervals.look(QueueSeries::take).unwrap();
        let frames: Vec<u64> = series.iter().map(|(_, books)| books.unprobed.frames).collect();
        assert_eq!(frames[..5], [100; 5], "{frames:?}");
    }
}
