//! What a thread of sessions shows of itself to the one that watches, and what it is told.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use wirebeat_converse::End;
use wirebeat_meter::connections::ConnectionGauges;
use wirebeat_meter::session::SessionCounts;
use wirebeat_meter::summary::Distribution;
use wirebeat_units::Nanos;

use super::counted::StackLook;

/// What each end of a group has counted so far.
pub(super) type EndCounts = Vec<(usize, End, SessionCounts)>;

/// How long responses took so far, at each end of a group that has had some.
pub(super) type EndTimes = Vec<(usize, End, Distribution)>;

/// What open connections of each end of a group were like.
pub(super) type EndSamples = Vec<(usize, End, ConnectionGauges)>;

/// An interval on a virtual clock.
#[derive(Debug)]
pub(super) struct ShownInterval {
    /// When it ended, from the begin of the run.
    pub(super) to: Nanos,
    /// What was counted until then.
    pub(super) counts: EndCounts,
    /// How long responses took until then.
    pub(super) response_times: EndTimes,
    /// What open connections were like then.
    pub(super) samples: EndSamples,
    /// What our own TCP did until then.
    pub(super) stacks: Vec<(String, StackLook)>,
}

/// What the thread shows of itself.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) counts: Mutex<Vec<(usize, End, SessionCounts)>>,
    /// How long responses took: as it was shown around the end of the latest interval.
    pub(super) response_times: Mutex<EndTimes>,
    /// What our own TCP did, by the names of ports.
    pub(super) stacks: Mutex<Vec<(String, StackLook)>>,
    /// One of the orders below.
    pub(super) order: AtomicU8,
    /// What open connections were like at the latest look, and the number of the interval in which that was.
    pub(super) samples: Mutex<(u64, EndSamples)>,
    /// Of a run in no time: the intervals that nobody has looked at yet.
    pub(super) intervals: Mutex<Vec<ShownInterval>>,
    /// Whether its clients have nothing more to do.
    pub(super) clients_done: AtomicBool,
    /// Whether it goes on for the other ends of its sessions alone.
    pub(super) stays: AtomicBool,
    pub(super) done: AtomicBool,
    /// Why a listener on another host serves no more, though the run goes on.
    pub(super) lost: OnceLock<Lost>,
}

/// A listener on another host that serves no more.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    /// Where it is.
    pub(super) peer: String,
    /// What happened.
    pub(super) why: String,
}

impl Shared {
    /// The order that holds.
    pub(super) fn order(&self) -> u8 {
        self.order.load(Ordering::Acquire)
    }

    /// Shows what our own TCP did.
    pub(super) fn show_stacks(&self, stacks: Vec<(String, StackLook)>) {
        *self.stacks.lock().unwrap_or_else(PoisonError::into_inner) = stacks;
    }

    /// Shows that a listener on another host serves no more.
    pub(super) fn lose(&self, lost: Lost) {
        let _ = self.lost.set(lost);
    }

    /// Shows these counts.
    pub(super) fn show(&self, counts: Vec<(usize, End, SessionCounts)>) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    /// Shows how long responses took.
    pub(super) fn show_response_times(&self, times: EndTimes) {
        *self.response_times.lock().unwrap_or_else(PoisonError::into_inner) = times;
    }

    /// Shows an interval that ended on a virtual clock.
    pub(super) fn show_interval(&self, interval: ShownInterval) {
        self.intervals.lock().unwrap_or_else(PoisonError::into_inner).push(interval);
    }

    /// Shows what open connections are like in an interval.
    pub(super) fn show_samples(&self, interval: u64, samples: EndSamples) {
        *self.samples.lock().unwrap_or_else(PoisonError::into_inner) = (interval, samples);
    }

    /// Shows that it is done.
    pub(super) fn end(&self) {
        self.clients_done.store(true, Ordering::Release);
        self.done.store(true, Ordering::Release);
    }
}

/// Let what is open come to its end (0, as it begins: go on).
pub(super) const FINISH: u8 = 1;
/// Close all, the clients of the run first.
pub(super) const LEAVE: u8 = 2;
/// Close all now.
pub(super) const CLOSE: u8 = 3;
