//! Changes of flows while they are sent: how one that is made elsewhere reaches all transmit cores alike.
//!
//! A change takes effect at a time of the schedule that no core has reached. To be sure of that without a word
//! from the cores, whoever publishes it raises a counter first and reads the clock then: a core that has not
//! seen the counter move had read its own clock before, and hands nothing over beyond that time and [`LEAD`].
//! The cores look at the counter once a batch and take the lock only when it moved. They end together, because
//! one that has nothing left may get more: what they share says when there is no more to come.
//!
//! This file does not know what changes are about, nor who makes them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wirebeat_traffic::program::{Built, Counted, Cutter, Image, Stream};
use wirebeat_traffic::schedule::{Departure, Schedule};
use wirebeat_units::Nanos;

use super::{Handing, Job};
use crate::port::{Caps, Place, View};

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

    /// Whether nothing is sent any more.
    pub fn over(&self) -> bool {
        self.state().over
    }

    /// A core has ended, or never began.
    pub fn leave(&self, core: usize) {
        self.set(core, Core::Gone);
    }

    /// A core has nothing left to send, as far as it knows. Returns whether all have ended.
    fn idle(&self, core: usize, seen: u64) -> bool {
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

/// All that a core sends: when, and the frames of each stream by its number.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    job: &'a Job<'a>,
    view: View,
    pub(super) schedule: Schedule,
    images: Vec<Image>,
    handing: Vec<Handing>,
    /// Those that the program did not have.
    added: Vec<Stream>,
    version: u64,
    applied: usize,
    /// When the next change is due that waits, because it is about a flow without deadlines.
    held: Option<Nanos>,
    /// Where some packets leave as fragments.
    cut: Option<Box<Cutting>>,
}

/// The packet whose fragments are being taken.
#[derive(Debug, Default)]
struct Cutting {
    cutter: Cutter,
    /// The next of them, and how many there are.
    next: Option<(Departure, u16)>,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(job: &'a Job<'a>, caps: &Caps) -> Outgoing<'a> {
        Outgoing {
            job,
            view: caps.view,
            schedule: job.schedule(),
            images: job.images(caps),
            handing: job.program.streams.iter().map(|stream| job.hand(stream)).collect(),
            added: Vec::new(),
            version: 0,
            applied: 0,
            held: None,
            cut: job.program.is_cut().then(Box::default),
        }
    }

    /// What is due next.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<Departure> {
        match self.cut.as_ref().and_then(|cut| cut.next) {
            Some((departure, _)) => Some(departure),
            None => self.schedule.peek(),
        }
    }

    /// Appends up to `most` frames that are due by `until`: a packet that leaves as fragments is so many.
    #[inline]
    pub(super) fn next_due(&mut self, until: Nanos, into: &mut Vec<Departure>, most: usize) {
        match &self.cut {
            None => {
                self.schedule.next_due(until, into, most);
            }
            Some(_) => self.next_cut(until, into, most),
        }
    }

    fn next_cut(&mut self, until: Nanos, into: &mut Vec<Departure>, most: usize) {
        let Some(cut) = &mut self.cut else { return };
        let end = into.len() + most;
        while into.len() < end {
            if let Some((departure, parts)) = cut.next {
                into.push(departure);
                let part = departure.part + 1;
                cut.next = (part <= parts).then_some((Departure { part, ..departure }, parts));
                continue;
            }
            let before = into.len();
            self.schedule.next_due(until, into, 1);
            let Some(departure) = into.get(before).copied() else { return };
            let image = self.images.get(departure.stream as usize);
            let parts = image.map_or(1, |image| image.parts(departure.index));
            if parts > 1 {
                into.pop();
                cut.next = Some((Departure { part: 1, ..departure }, parts));
            }
        }
    }

    /// Makes the frame of a departure in `slot`.
    #[inline]
    pub(super) fn build(&mut self, departure: &Departure, slot: &mut [u8]) -> Built {
        let Some(image) = self.images.get(departure.stream as usize) else {
            return Built::default();
        };
        match &mut self.cut {
            Some(cut) if departure.part > 0 => {
                let packet = (departure.stream, departure.index);
                cut.cutter.build(image, packet, departure.part, slot)
            }
            _ => image.build(departure.index, slot),
        }
    }

    /// Where a frame stands among those of its packet.
    #[inline]
    pub(super) fn place(&self, departure: &Departure) -> Place {
        match departure.part {
            0 => Place::Whole,
            1 => {
                let image = self.images.get(departure.stream as usize);
                Place::First(image.map_or(0, |image| image.parts(departure.index) - 1))
            }
            _ => Place::Following,
        }
    }

    /// How a stream is handed over.
    #[inline]
    pub(super) fn hand(&self, stream: u32) -> Option<Handing> {
        self.handing.get(stream as usize).copied()
    }

    /// Takes in what changed. `now` is the time by which frames are taken.
    #[inline]
    pub(super) fn listen(&mut self, now: Nanos) {
        let Some(Listener { changes, .. }) = self.job.changes else { return };
        let elapsed = now.saturating_sub(self.job.start);
        if changes.version.load(Ordering::SeqCst) != self.version
            || self.held.is_some_and(|at| elapsed >= at)
        {
            self.take_in(changes, elapsed);
        }
    }

    #[cold]
    fn take_in(&mut self, changes: &Changes, elapsed: Nanos) {
        // The other cores and who makes changes wait for the list no longer than it takes to copy what is new.
        let news: Vec<Update> = {
            let state = changes.state();
            self.version = changes.version.load(Ordering::SeqCst);
            state.list.get(self.applied..).unwrap_or_default().to_vec()
        };
        self.held = None;
        for Update { flow, at, stream } in news {
            if !self.job.flows.contains(&flow) {
                self.applied += 1;
                continue;
            }
            // What has no deadlines ends when its time has come. Beside it this core has none that has some.
            if at > elapsed && self.job.program.is_unlimited(flow) {
                self.held = Some(at);
                break;
            }
            let number = self.images.len() as u32;
            let next = stream.as_ref().map(|stream| (number, stream.departures.clone()));
            if let Some(stream) = stream {
                self.images.push(self.view.image(&stream));
                self.handing.push(self.job.hand(&stream));
                self.added.push(stream);
            }
            self.schedule.change(flow, at, next);
            self.applied += 1;
        }
    }

    /// Whether nothing is left to send, now that the schedule is at its end: a flow that pauses may be resumed, and
    /// what another core still sends may be changed.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        let Some(listener) = self.job.changes else { return true };
        let elapsed = now.saturating_sub(self.job.start);
        let pauses = self.schedule.pauses_until().is_some_and(|until| elapsed < until);
        !pauses && listener.changes.idle(listener.core, self.version)
    }

    /// What is left of the schedule, and the streams that it is about.
    pub(super) fn into_rest(self) -> (impl Iterator<Item = Departure>, Vec<Stream>) {
        let begun = self.cut.and_then(|cut| cut.next);
        let begun = begun.into_iter().flat_map(|(departure, parts)| {
            (departure.part..=parts).map(move |part| Departure { part, ..departure })
        });
        (begun.chain(self.schedule), self.added)
    }
}

/// What a departure is counted as; `None` where it has no deadline.
pub(super) fn counted(job: &Job<'_>, added: &[Stream], departure: &Departure) -> Option<Counted> {
    let number = departure.stream as usize;
    let known = job.program.streams.len();
    let stream = match number.checked_sub(known) {
        Some(number) => added.get(number),
        None => job.program.streams.get(number),
    }?;
    let limited = stream.departures.pace.is_limited();
    limited.then(|| stream.frames.counted_part(departure.index, departure.part))
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
