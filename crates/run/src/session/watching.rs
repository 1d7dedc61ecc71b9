//! What is looked at while a run goes on: how far it is, whether it has to end, and whether its links are
//! still there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::drive::LiveTx;
use wirebeat_netlink::{Link, LinkEvent, LinkState, LinkWatch};
use wirebeat_report::model::End;
use wirebeat_units::Nanos;

use crate::error::RunError;
use crate::observe::{Progress, Stop};
use crate::ports::PortHere;
use crate::receivers::Receiver;
use crate::remote::Measurement;
use crate::transmit;

use super::WATCH;

/// Watches the link of a port.
pub(crate) fn watch(port: &PortHere, link: &Link) -> Result<LinkWatch, RunError> {
    let links = std::slice::from_ref(link);
    match &port.namespace {
        Some(namespace) => LinkWatch::open_in(namespace, links)
            .map_err(|error| RunError::Machine(error.to_string())),
        None => LinkWatch::open(links).map_err(|error| RunError::Machine(error.to_string())),
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
    pub(super) told: Option<(u64, u64)>,
    /// Frames sent by the last look.
    pub(super) frames: u64,
}

impl Looking<'_> {
    pub(super) fn at(&mut self, elapsed: Nanos) -> Progress {
        let (frames, bytes, expired) = transmit::progress(self.lives);
        let received = self.receivers.iter().map(Receiver::received);
        let received = received.chain(self.ask(elapsed));
        Progress {
            elapsed,
            duration: self.duration,
            expected: None,
            sent: (!self.lives.is_empty()).then_some((frames, bytes)),
            received: received.reduce(|a, b| (a.0 + b.0, a.1 + b.1)),
            expired,
            next_in: self.next_in(frames),
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

    /// Asks the receiver on the other host, not too often: it is a message both ways.
    fn ask(&mut self, elapsed: Nanos) -> Option<(u64, u64)> {
        const PAUSE: Nanos = Nanos::from_millis(500);
        let remote = self.remote.as_mut()?;
        if self.told.is_none() || elapsed >= self.asked.saturating_add(PAUSE) {
            self.asked = elapsed;
            // that it is gone is found at the end, when its result is asked for
            self.told =
                remote.received().ok().map(|count| (count.frames, count.bytes)).or(self.told);
        }
        self.told
    }
}

/// Halts all senders when a stop is asked for, until the run is `over`: whoever shows how far it is may wait for a reader
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

/// Why a run has to end now, if it has to.
pub(crate) fn interrupted(stop: &Stop, watches: &mut [LinkWatch]) -> Option<End> {
    if stop.asked() {
        let signal = match stop.signal() {
            1 => "SIGHUP".to_owned(),
            2 => "SIGINT".to_owned(),
            15 => "SIGTERM".to_owned(),
            0 => "request".to_owned(),
            other => format!("signal {other}"),
        };
        return Some(End::Stopped { signal });
    }
    for watch in watches {
        for event in watch.events().unwrap_or_default() {
            match event {
                LinkEvent::Removed { name, .. } => {
                    return Some(End::InterfaceGone { interface: name });
                }
                LinkEvent::State { name, state, .. } if state != LinkState::Up => {
                    return Some(End::InterfaceGone { interface: name });
                }
                LinkEvent::State { .. } => {}
            }
        }
    }
    None
}
