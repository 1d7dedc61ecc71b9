//! Changes of flows while they are sent: how one that is made elsewhere reaches all transmit cores alike.
//!
//! A change takes effect at a time of the schedule that no core has reached. To be sure of that without a word
//! from the cores, whoever publishes it raises a counter first and reads the clock then: a core that has not
//! seen the counter move had read its own clock before, and hands nothing over beyond that time and [`LEAD`].
//! The cores look at the counter once a batch and take the lock only when it moved. They end together, because
//! one that has nothing left may get more: what they share says when there is no more to come.
//!
//! This file does not know what changes are about, nor who makes them: starts of sessions change in the same way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wirebeat_traffic::program::Stream;
use wirebeat_units::Nanos;

/// How far ahead of its effect a change has to be published: further than frames are handed over ahead of their
/// launch times (50 ms, see `feed.rs`).
const LEAD: Nanos = Nanos::from_millis(60);
/// How often a core with nothing to send looks whether it gets more, or all have ended.
pub(super) const IDLE: Nanos = Nanos::from_millis(5);
/// The most changes of a session. Each holds its frames until the end.
const MOST: usize = 10_000;

/// A change of a flow.
#[derive(Clone, Debug)]
pub struct Update {
    /// The flow's index in the program.
    pub flow: u32,
    /// From when on, counted from the start of the run.
    pub at: Nanos,
    /// What it sends then; `None`: nothing more.
    pub stream: Option<Stream>,
}

/// Why a change was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its time was too near; a later one will do.
    TooLate,
    /// Nothing is sent any more.
    Over,
    /// There have been too many.
    TooMany,
}

/// The changes of a run, shared by its transmit cores and whoever makes them.
#[derive(Debug)]
pub struct Changes {
    /// Moves with every change.
    version: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    list: Vec<Update>,
    cores: Vec<Core>,
    over: bool,
}

/// What a core has said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Core {
    Working,
    /// It had nothing left to send at this version.
    Idle(u64),
    Gone,
}

impl Changes {
    /// None yet, for so many cores.
    pub fn new(cores: usize) -> Changes {
        let state = State { list: Vec::new(), cores: vec![Core::Working; cores], over: false };
        Changes { version: AtomicU64::new(0), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives all cores a change; `now` reads the time since the start of the run. It has to be `LEAD` ahead.
    pub fn publish(&self, update: Update, now: impl FnOnce() -> Nanos) -> Result<(), Refused> {
        let mut state = self.state();
        if state.over {
            return Err(Refused::Over);
        }
        if state.list.len() >= MOST {
            return Err(Refused::TooMany);
        }
        // Cores that see it wait for the lock; those that do not read their clocks before we read ours.
        self.version.fetch_add(1, Ordering::SeqCst);
        if update.at < now().saturating_add(LEAD) {
            return Err(Refused::TooLate);
        }
        state.list.push(update);
        Ok(())
    }

    /// Which changes there are, so far as a number says it: read it after the clock.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The changes after the first `known`, and the version that they belong to.
    pub fn after(&self, known: usize) -> (Vec<Update>, u64) {
        // The other cores and who makes changes wait for the list no longer than it takes to copy what is new.
        let state = self.state();
        (state.list.get(known..).unwrap_or_default().to_vec(), self.version())
    }

    /// Whether nothing is sent any more.
    pub fn over(&self) -> bool {
        self.state().over
    }

    /// A core has ended, or never began.
    pub fn leave(&self, core: usize) {
        self.set(core, Core::Gone);
    }

    /// A core has nothing left to send, as far as it knows with the changes of version `seen`. Returns whether all have ended.
    pub fn idle(&self, core: usize, seen: u64) -> bool {
        self.set(core, Core::Idle(seen))
    }

    fn set(&self, core: usize, what: Core) -> bool {
        let mut state = self.state();
        if let Some(place) = state.cores.get_mut(core) {
            *place = what;
        }
        let version = self.version.load(Ordering::SeqCst);
        let done = |core: &Core| *core == Core::Gone || *core == Core::Idle(version);
        if state.cores.iter().all(done) {
            state.over = true;
        }
        state.over
    }
}

/// A transmit core that listens to changes.
#[derive(Clone, Copy, Debug)]
pub struct Listener<'a> {
    /// The changes.
    pub changes: &'a Changes,
    /// Its place among all cores of the run.
    pub core: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(at_ms: u64) -> Update {
        Update { flow: 0, at: Nanos::from_millis(at_ms), stream: None }
    }

    #[test]
    fn a_change_that_senders_may_be_past_is_refused() {
        let changes = Changes::new(1);
        let now = || Nanos::from_millis(100);
        assert_eq!(changes.publish(stop(159), now), Err(Refused::TooLate));
        assert_eq!(changes.publish(stop(160), now), Ok(()));
        assert_eq!(changes.state().list.len(), 1);
    }

    #[test]
    fn cores_end_together_and_a_change_keeps_all_of_them() {
        let changes = Changes::new(3);
        assert!(!changes.idle(0, 0));
        assert!(!changes.idle(1, 0));
        changes.publish(stop(100), || Nanos::ZERO).unwrap();
        // the last one ends, and the others have not looked at the change
        changes.leave(2);
        assert!(!changes.over());
        assert!(!changes.idle(0, 1));
        assert!(changes.idle(1, 1));
        assert_eq!(changes.publish(stop(900), || Nanos::ZERO), Err(Refused::Over));
    }

    #[test]
    fn a_session_has_no_more_changes_than_it_may() {
        let changes = Changes::new(1);
        for _ in 0..MOST {
            changes.publish(stop(100), || Nanos::ZERO).unwrap();
        }
        assert_eq!(changes.publish(stop(100), || Nanos::ZERO), Err(Refused::TooMany));
    }
}
