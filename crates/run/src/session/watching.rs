//! What is looked at while a run goes on: how far it is, whether it has to end, and whether its links are
//! still there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::drive::LiveTx;
use wirebeat_report::model::End;
use wirebeat_units::Nanos;

use crate::observe::{Progress, Stop};
use crate::receivers::{self, Receiver};
use crate::remote::{Count, Measurement};
use crate::transmit;

use super::WATCH;

/// Waits for frames on their way, so long or until a stop is asked: that none comes for a while does not say that none is
/// on its way. A flow may be slower than the path is long.
pub(super) fn settle(settle: Nanos, stop: &Stop) {
    let until = MonotonicClock.now().saturating_add(settle);
    let asked_before = stop.asked();
    while asked_before || !stop.asked() {
        let left = until.saturating_sub(MonotonicClock.now());
        if left == Nanos::ZERO {
            return;
        }
        thread::sleep(WATCH.min(left.to_duration()));
    }
}

/// What a look at the run needs.
pub(super) struct Looking<'a> {
    pub(super) receivers: &'a [Receiver],
    pub(super) lives: &'a [Arc<LiveTx>],
    pub(super) duration: Option<Nanos>,
    pub(super) remote: Option<&'a mut Measurement>,
    /// When the receiver on the other host was asked last, and what it told.
    pub(super) asked: Nanos,
    pub(super) told: Option<Count>,
    /// Frames sent by the last look.
    pub(super) frames: u64,
    /// Whether all frames that are sent are counted by receivers, one for one.
    pub(super) all_counted: bool,
    /// When frames were counted, and how many were sent by then: some since [`UNDER_WAY`] ago, and one before.
    pub(super) sent: VecDeque<(Nanos, u64)>,
}

/// Frames that were sent so long ago are not on their way any more.
const UNDER_WAY: Nanos = Nanos::from_secs(1);

impl Looking<'_> {
    /// What was sent by `elapsed`, for later looks.
    pub(super) fn note_sent(&mut self, elapsed: Nanos) {
        self.sent.push_back((elapsed, transmit::progress(self.lives).0));
        let begins = elapsed.saturating_sub(UNDER_WAY);
        while self.sent.get(1).is_some_and(|(at, _)| *at <= begins) {
            self.sent.pop_front();
        }
    }

    pub(super) fn at(&mut self, elapsed: Nanos) -> Progress {
        let (frames, bytes, expired) = transmit::progress(self.lives);
        let told = self.ask(elapsed);
        let received = self.receivers.iter().map(Receiver::received);
        let received = received.chain(told.map(|count| (count.frames, count.bytes)));
        let received = received.reduce(|a, b| (a.0.saturating_add(b.0), a.1.saturating_add(b.1)));
        let next_in = self.next_in(frames);
        Progress {
            elapsed,
            duration: self.duration,
            expected: None,
            sent: (!self.lives.is_empty()).then_some((frames, bytes)),
            received,
            lost: received.map(|(received, _)| self.lost(elapsed, received, told)),
            expired,
            next_in,
            ended: false,
        }
    }

    /// At the end: all that was sent has arrived, or will not.
    pub(super) fn last(&mut self, elapsed: Nanos) -> Progress {
        /// Longer than a message both ways takes, and not long to wait for a report.
        const PATIENCE: Duration = Duration::from_millis(300);
        if let Some(remote) = self.remote.as_mut() {
            self.told = remote.received_now(PATIENCE).ok().or(self.told);
            self.asked = elapsed;
        }
        let last = self.at(elapsed);
        let all = last.sent.filter(|_| self.all_counted).zip(last.received);
        let missing = all.map_or(0, |((sent, _), (received, _))| sent.saturating_sub(received));
        Progress {
            lost: last.lost.map(|lost| lost.max(missing)),
            next_in: None,
            ended: true,
            ..last
        }
    }

    /// Frames that are lost by now, of which `received` arrived: by their numbers, or because nothing came of them.
    fn lost(&self, elapsed: Nanos, received: u64, told: Option<Count>) -> u64 {
        let by_numbers =
            receivers::lost(self.receivers).saturating_add(told.map_or(0, |count| count.missing));
        let begins = elapsed.saturating_sub(UNDER_WAY);
        let settled = self.sent.front().filter(|(at, _)| self.all_counted && *at <= begins);
        by_numbers.max(settled.map_or(0, |(_, sent)| sent.saturating_sub(received)))
    }

    /// How long nothing is due, if nothing was sent since the last look.
    fn next_in(&mut self, frames: u64) -> Option<Nanos> {
        let is_idle = std::mem::replace(&mut self.frames, frames) == frames;
        let now = MonotonicClock.now();
        let due = self.lives.iter().map(|live| Nanos::new(live.due.load(Ordering::Relaxed)));
        let next = due.filter(|due| *due > now).min().filter(|_| is_idle)?;
        Some(next.saturating_sub(now))
    }

    /// Asks the receiver on the other host, not too often: it is a message both ways.
    fn ask(&mut self, elapsed: Nanos) -> Option<Count> {
        const PAUSE: Nanos = Nanos::from_millis(500);
        let remote = self.remote.as_mut()?;
        if self.told.is_none() || elapsed >= self.asked.saturating_add(PAUSE) {
            self.asked = elapsed;
            // that it is gone is found at the end, when its result is asked for
            self.told = remote.received().ok().or(self.told);
        }
        self.told
    }
}

/// Halts all senders when a stop is asked for, until the run is `over`: the thread that shows how far it is may wait for a reader
/// (a terminal that is held, a full pipe), and no sender may go on meanwhile.
pub(super) fn halt_when_asked(stop: &Stop, halt: &AtomicBool, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        if stop.asked() {
            halt.store(true, Ordering::Release);
            return;
        }
        thread::sleep(WATCH);
    }
}

/// Why a run has to end now, if a stop was asked for.
pub(crate) fn stopped(stop: &Stop) -> Option<End> {
    let signal = match stop.signal() {
        1 => "SIGHUP".to_owned(),
        2 => "SIGINT".to_owned(),
        15 => "SIGTERM".to_owned(),
        0 => "request".to_owned(),
        other => format!("signal {other}"),
    };
    stop.asked().then_some(End::Stopped { signal })
}
