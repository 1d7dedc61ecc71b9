//! What is looked at while a run goes on: how far it is, whether it has to end, and whether its links are
//! still there.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::drive::{Driven, LiveTx, SenderSeries};
use wirebeat_engine_linux::kernel::Accepted;
use wirebeat_report::model::End;
use wirebeat_units::Nanos;

use crate::intervals::Timeline;
use crate::observe::{Observer, Progress, Stop};
use crate::receivers::{self, Receiver};
use crate::remote::{Count, Measurement, SentBacklog};
use crate::transmit;

use super::far::{self, FarClocks};
use super::{SenderSeat, WATCH};

/// Waits for frames on their way, so long or until a stop is asked: that none comes for a while does not say that none is
/// on its way. A flow may be slower than the path is long.
pub(super) fn settle(settle: Nanos, stop: &Stop, mut look: impl FnMut(Nanos)) {
    let until = MonotonicClock.now().saturating_add(settle);
    let asked_before = stop.asked();
    while asked_before || !stop.asked() {
        let now = MonotonicClock.now();
        look(now);
        let left = until.saturating_sub(now);
        if left == Nanos::ZERO {
            return;
        }
        thread::sleep(WATCH.min(left.to_duration()));
    }
}

/// What a look at the run needs.
pub(super) struct RunMonitor<'a> {
    pub(super) receivers: &'a [Receiver],
    pub(super) lives: &'a [Arc<LiveTx>],
    pub(super) duration: Option<Nanos>,
    /// The receivers on other hosts, and when they were asked last for their counts.
    pub(super) remotes: Vec<FarLook<'a>>,
    pub(super) asked: Option<Nanos>,
    /// When they are asked for their intervals next.
    pub(super) asks_intervals: Nanos,
    /// What tells whether devices sent what they were handed.
    pub(super) handed: HandedOver<'a>,
    /// When it was looked last.
    pub(super) looked: Nanos,
    /// Frames handed over by the last look.
    pub(super) frames: u64,
    /// Whether all frames that are sent are counted by receivers, one for one.
    pub(super) all_counted: bool,
    /// When frames were counted, and how many were sent by then: some since [`UNDER_WAY`] ago, and one before.
    pub(super) sent: VecDeque<(Nanos, u64)>,
    /// How far the clocks are ahead that stamp what other hosts send.
    pub(super) far_clocks: FarClocks,
    /// When other hosts end sending by their schedules, by our clock.
    pub(super) far_end: Nanos,
    /// Where a sender on another host is told what was sent in intervals.
    pub(super) backlog: Option<Arc<SentBacklog>>,
}

/// A receiver on another host, and the count that it told last.
pub(super) struct FarLook<'a> {
    remote: &'a mut Measurement,
    told: Option<Count>,
    /// When it is asked next whether it has ended sending.
    asks_sent: Nanos,
    /// When it was told first to stop.
    stopped: Option<Nanos>,
}

/// How often a listener that sends is asked whether it has ended: often enough that it knows that somebody is there.
const FAR_LOOK: Nanos = Nanos::from_millis(50);
/// How long a listener that sends may take beyond its schedule, and then beyond a stop.
const FAR_GRACE: Nanos = Nanos::from_secs(3);

impl<'a> FarLook<'a> {
    /// Nothing was told yet.
    pub(super) fn new(remote: &'a mut Measurement) -> FarLook<'a> {
        FarLook { remote, told: None, asks_sent: Nanos::ZERO, stopped: None }
    }

    /// Whether it sends. Tells it to stop where that was asked for, or where it should have ended.
    fn is_sending(&mut self, now: Nanos, (halted, end): (bool, Nanos)) -> bool {
        if !self.remote.is_sending() {
            return false;
        }
        let stop = halted || now >= end.saturating_add(FAR_GRACE);
        if stop && now >= self.stopped.get_or_insert(now).saturating_add(FAR_GRACE) {
            self.remote
                .lose_sending("the listener did not stop sending when it was told to".to_owned());
        } else if now >= self.asks_sent {
            self.asks_sent = now.saturating_add(FAR_LOOK);
            self.remote.look_at_sending(stop);
        }
        self.remote.is_sending()
    }

    /// Asks how much has arrived.
    fn ask(&mut self, patience: Duration) {
        // that it is gone is found at the end, when its result is asked for
        self.told = self.remote.received_now(patience).ok().or(self.told);
    }
}

/// Frames that the kernel engine handed to drivers: whether they were sent is known where it is counted what a driver accepts.
pub(super) struct HandedOver<'a> {
    /// By sender.
    pub(super) sending: &'a [SenderSeat],
    pub(super) lives: &'a [Arc<LiveTx>],
    /// By port.
    pub(super) accepted: &'a [Option<Accepted>],
}

impl HandedOver<'_> {
    /// Frames that were handed over by now and that no driver accepted. While it sends, some are on their way to it.
    fn unsent(&self, ended: bool) -> u64 {
        /// More than a few batches.
        const ON_THE_WAY: u64 = 1024;
        let of = |(place, accepted): (usize, &Option<Accepted>)| {
            let accepted = accepted.as_ref()?;
            // first what was handed over: what is between is not missing
            let mine = self.sending.iter().zip(self.lives).filter(|(one, _)| one.place == place);
            let handed: u64 = mine.map(|(_, live)| live.frames.load(Ordering::Relaxed)).sum();
            let missing = handed.saturating_sub(accepted.answers().accepted);
            Some(missing).filter(|missing| ended || *missing > ON_THE_WAY)
        };
        self.accepted.iter().enumerate().filter_map(of).sum()
    }
}

/// When sending ended, from the start of a run that took `ran`: when it was to end, or with the last frame where that was
/// later. What came behind is not a time in which frames were sent.
pub(super) fn end_of_sending(
    sent: &[io::Result<Driven>],
    (start, ran): (Nanos, Nanos),
    planned: Option<Nanos>,
) -> Nanos {
    let flows = sent.iter().flatten().flat_map(|driven| &driven.flows);
    let last = flows.filter_map(|flow| flow.span).map(|(_, last)| last.saturating_sub(start)).max();
    match (last, planned) {
        (Some(last), planned) => last.max(planned.unwrap_or(Nanos::ZERO)).min(ran),
        (None, planned) => planned.unwrap_or(ran).min(ran),
    }
}

/// Frames that were sent so long ago are not on their way any more.
const UNDER_WAY: Nanos = Nanos::from_secs(1);

impl RunMonitor<'_> {
    /// Whether other hosts send.
    pub(super) fn is_sent_far(&mut self, halted: bool) -> bool {
        let (now, end) = (MonotonicClock.now(), self.far_end);
        let sending = self
            .remotes
            .iter_mut()
            .filter_map(|far| far.is_sending(now, (halted, end)).then_some(()));
        sending.count() > 0
    }

    /// What was sent by `elapsed`, for later looks.
    pub(super) fn note_sent(&mut self, elapsed: Nanos) {
        self.sent.push_back((elapsed, transmit::progress(self.lives).0));
        let begins = elapsed.saturating_sub(UNDER_WAY);
        while self.sent.get(1).is_some_and(|(at, _)| *at <= begins) {
            self.sent.pop_front();
        }
    }

    /// Lets everybody begin with their intervals.
    pub(super) fn begin_intervals(&mut self, timeline: &mut Timeline) {
        let (beat, room) = (timeline.beat(), timeline.room_of_each());
        if !self.remotes.is_empty() {
            timeline.asks_far();
            // delays of all together are as uncertain as the worst
            let each = self.remotes.iter().map(|far| far.remote.uncertainty());
            let all: Option<Vec<u64>> = each.collect();
            timeline.certain_to(all.and_then(|all| all.into_iter().max()));
        }
        self.remotes.iter_mut().for_each(|far| far.remote.begin_intervals(beat));
        for live in self.lives {
            let series = SenderSeries::new(beat, room);
            let next = series.next();
            live.intervals.begin(series, next);
        }
        self.receivers.iter().for_each(|receiver| receiver.begin_intervals(beat, room));
    }

    /// Takes what everybody has of intervals; says how many of them all are done with.
    pub(super) fn take_intervals(&mut self, now: Nanos, timeline: &mut Timeline) -> u64 {
        let mut complete = u64::MAX;
        for live in self.lives {
            let taken = live.intervals.look(|series| (series.take(), series.complete()));
            let Some((series, done)) = taken else { continue };
            if let Some(backlog) = &self.backlog {
                backlog.add(&series, done);
            }
            timeline.sent(series);
            complete = complete.min(done);
        }
        for receiver in self.receivers {
            let (mut series, done) = receiver.take_intervals(now);
            far::correct_intervals(&mut series, &self.far_clocks);
            timeline.received(series);
            complete = complete.min(done);
        }
        let asks = now >= self.asks_intervals;
        if asks {
            self.asks_intervals = now.saturating_add(timeline.asks_every());
        }
        for FarLook { remote, .. } in &mut self.remotes {
            if asks {
                // that it is gone is found at the end, when its result is asked for
                let _ = remote.look_at_intervals();
            }
            if let Some((series, done)) = remote.take_sent_intervals() {
                timeline.sent(series);
                complete = complete.min(done);
            }
            let (series, done) = remote.take_intervals();
            if !timeline.received_far(series) {
                remote.refuse_intervals();
            }
            complete = complete.min(done);
        }
        complete
    }

    /// Tells the observer of intervals that are over.
    pub(super) fn tell_intervals(
        &mut self,
        now: Nanos,
        timeline: &mut Timeline,
        observer: &mut dyn Observer,
    ) {
        let complete = self.take_intervals(now, timeline);
        let told = timeline.tell(now, complete);
        told.iter().for_each(|interval| observer.interval(interval));
    }

    pub(super) fn at(&mut self, elapsed: Nanos) -> Progress {
        self.look(elapsed, false)
    }

    fn look(&mut self, elapsed: Nanos, ended: bool) -> Progress {
        let (handed, bytes, expired) = transmit::progress(self.lives);
        let failed = self.handed.unsent(ended).min(handed);
        let frames = handed - failed;
        let told = self.ask(elapsed);
        self.looked = elapsed;
        let received = self.receivers.iter().map(Receiver::received);
        let received = received.chain(told.map(|count| (count.frames, count.bytes)));
        let received = received.reduce(|a, b| (a.0.saturating_add(b.0), a.1.saturating_add(b.1)));
        let next_in = self.next_in(handed);
        let lost = received.map(|(received, _)| self.lost(elapsed, received, (told, failed)));
        Progress {
            elapsed,
            duration: self.duration,
            expected: None,
            sent: (!self.lives.is_empty()).then_some((frames, bytes)),
            received,
            lost: lost.map(|(lost, _)| lost),
            lost_of: lost.map(|(_, of)| of),
            failed,
            expired,
            sessions: None,
            next_in,
            ended: false,
        }
    }

    /// At the end: all that was sent has arrived, or will not.
    pub(super) fn last(&mut self, elapsed: Nanos) -> Progress {
        let elapsed = elapsed.max(self.looked);
        /// Longer than a message both ways takes, and not long to wait for a report.
        const PATIENCE: Duration = Duration::from_millis(300);
        self.remotes.iter_mut().for_each(|far| far.ask(PATIENCE));
        self.asked = Some(elapsed);
        let last = self.look(elapsed, true);
        let all = last.sent.filter(|_| self.all_counted).zip(last.received);
        let missing = all.map_or(0, |((sent, _), (received, _))| sent.saturating_sub(received));
        Progress {
            lost: last.lost.map(|lost| lost.max(missing)),
            lost_of: all.map(|((sent, _), _)| sent).or(last.lost_of),
            next_in: None,
            ended: true,
            ..last
        }
    }

    /// Frames that are lost by now, where `received` arrived, and of how many: by their numbers, or because nothing came of
    /// them.
    fn lost(
        &self,
        elapsed: Nanos,
        received: u64,
        (told, failed): (Option<Count>, u64),
    ) -> (u64, u64) {
        let by_numbers =
            receivers::lost(self.receivers).saturating_add(told.map_or(0, |count| count.missing));
        let begins = elapsed.saturating_sub(UNDER_WAY);
        let settled = self.sent.front().filter(|(at, _)| self.all_counted && *at <= begins);
        let settled = settled.map_or(0, |(_, sent)| sent.saturating_sub(failed));
        match settled.saturating_sub(received) {
            unseen if unseen > by_numbers => (unseen, settled),
            _ => (by_numbers, received.saturating_add(by_numbers)),
        }
    }

    /// How long nothing is due, if nothing was sent since the last look.
    fn next_in(&mut self, frames: u64) -> Option<Nanos> {
        let is_idle = std::mem::replace(&mut self.frames, frames) == frames;
        let now = MonotonicClock.now();
        let due = self.lives.iter().map(|live| Nanos::new(live.due.load(Ordering::Relaxed)));
        let next = due.filter(|due| *due > now).min().filter(|_| is_idle)?;
        Some(next.saturating_sub(now))
    }

    /// Asks the receiver on the other host, not too often: it is a message both ways. Waits a moment for the answer, so that
    /// what arrived is of the same time as what was sent.
    fn ask(&mut self, elapsed: Nanos) -> Option<Count> {
        const PAUSE: Nanos = Nanos::from_millis(500);
        const PATIENCE: Duration = Duration::from_millis(100);
        if self.asked.is_none_or(|asked| elapsed >= asked.saturating_add(PAUSE)) {
            self.asked = Some(elapsed);
            self.remotes.iter_mut().for_each(|far| far.ask(PATIENCE));
        }
        let told = self.remotes.iter().filter_map(|far| far.told);
        told.reduce(|a, b| Count {
            frames: a.frames.saturating_add(b.frames),
            bytes: a.bytes.saturating_add(b.bytes),
            missing: a.missing.saturating_add(b.missing),
        })
    }
}

/// Tells all senders to end, and notes when.
pub(super) struct SenderStop {
    pub(super) flag: AtomicBool,
    /// On the monotonic clock, in nanoseconds; the first time counts.
    at: AtomicU64,
}

impl SenderStop {
    /// `set` where nothing is sent at all.
    pub(super) fn new(set: bool) -> SenderStop {
        SenderStop {
            flag: AtomicBool::new(set),
            at: AtomicU64::new(if set { 0 } else { u64::MAX }),
        }
    }

    pub(super) fn set(&self) {
        self.at.fetch_min(MonotonicClock.now().get(), Ordering::Relaxed);
        self.flag.store(true, Ordering::Release);
    }

    pub(super) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// When it was set, from `start` on.
    pub(super) fn since(&self, start: Nanos) -> Option<Nanos> {
        let at = Nanos::new(self.at.load(Ordering::Relaxed));
        self.is_set().then(|| at.saturating_sub(start))
    }
}

/// Halts all senders when a stop is asked for, until the run is `over`: the thread that shows how far it is may wait for a reader
/// (a terminal that is held, a full pipe), and no sender may go on meanwhile.
pub(super) fn halt_when_asked(stop: &Stop, halt: &SenderStop, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        if stop.asked() {
            halt.set();
            return;
        }
        thread::park_timeout(WATCH);
    }
}

/// Why a run has to end now, if a stop was asked for.
pub(crate) fn stopped(stop: &Stop) -> Option<End> {
    stop.end()
}

#[cfg(test)]
mod tests {
    use wirebeat_engine::drive::TxFlowStats;
    use wirebeat_meter::departures::Departures;

    use super::*;

    /// The last line of a run of 1 kpps said 984 pps: its time was that when all threads had ended.
    #[test]
    fn sending_ends_with_its_time_or_with_the_last_frame() {
        let millis = Nanos::from_millis;
        let start = millis(5000);
        let end = |last: Option<u64>, planned: Option<u64>| {
            let span = last.map(|last| (start, millis(5000 + last)));
            let flows = vec![TxFlowStats { span, ..TxFlowStats::default() }];
            let sent = [Ok(Driven {
                flows,
                shared_departures: Departures::default(),
                interruptions: None,
                card_stamps: None,
                error: None,
            })];
            end_of_sending(&sent, (start, millis(1016)), planned.map(millis))
        };
        assert_eq!(end(Some(999), Some(1000)), millis(1000));
        assert_eq!(end(Some(1010), Some(1000)), millis(1010));
        assert_eq!(end(Some(700), None), millis(700));
        assert_eq!(end(Some(700), Some(9000)), millis(1016));
        assert_eq!(end(None, None), millis(1016));
    }
}
