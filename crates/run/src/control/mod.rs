//! Changing the flows of a run, and the starts of its sessions, from outside.
//!
//! [`Control`] is the handle: it lists, changes and stops flows. A change is compiled here, wins all transmit
//! cores through [`Changes`], and is noted for the report. `socket.rs` offers the handle to the owner of the
//! run on a local socket, `place.rs` says where that lies, `message.rs` what is said on it, and `client.rs` is
//! the other end; `scale.rs` makes a rate a share greater. What the run counts is held for those who ask by `stats.rs`, and sent by
//! `following.rs`. The senders do not know any of this.

pub mod client;
mod following;
pub mod message;
pub mod place;
mod scale;
pub(crate) mod socket;
mod stats;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::drive::{Changes, Refused, Update};
use wirebeat_report::model::{Change as Noted, ChangeOrigin};
use wirebeat_traffic::compile::{CompileError, Live, Part};
use wirebeat_traffic::program::{Flow, Program};
use wirebeat_traffic::scenario::Change;
use wirebeat_traffic::scenario::session::check_settings;
use wirebeat_units::{Fault, Nanos, fault, into_fault};

pub(crate) use message::Of;
use message::{FlowState, What, words};
use stats::RunStats;

/// How far ahead of now a change takes effect at first: what the senders need, and time to compile it.
const AHEAD: Nanos = Nanos::from_millis(150);
/// How often it is tried, each time twice as far ahead.
const TRIES: u32 = 6;

/// Whether a run can be changed from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Controlled {
    /// It cannot.
    #[default]
    No,
    /// By the handle that [`crate::Prepared::control`] gives.
    ByHandle,
    /// By that, and through a local socket; without a path in this user's runtime directory.
    BySocket(Option<PathBuf>),
}

/// Why a change was refused. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum ControlError {
    /// It is invalid.
    #[error(transparent)]
    Invalid(#[from] CompileError),
    /// There is no such flow.
    Unknown(String),
    /// The flow is over.
    Ended(String),
    /// The run has not begun.
    NotStarted,
    /// The run is over.
    Over,
    /// It has been changed too often.
    TooMany,
    /// The frames would not fit.
    TooLong {
        /// The longest, with FCS.
        longest: u16,
        /// The longest that would fit, with FCS.
        room: u16,
    },
    /// Headers stay as they are.
    Headers,
    /// The starts of sessions do not change in this way.
    Sessions(Fault),
    /// There is no share of its rate.
    Scale(Fault),
    /// The machine is too busy.
    Busy,
}

impl ControlError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ControlError::Invalid(inner) => inner.problem().fault(),
            ControlError::Unknown(it) => {
                fault!("there is no flow '{it}', and no group of sessions that starts by a rate"; "'wirebeat ctl list' shows those there are")
            }
            ControlError::Ended(it) => fault!("'{it}' has ended"),
            ControlError::NotStarted => {
                fault!("the run has not begun"; "try again in a moment")
            }
            ControlError::Over => fault!("the run sends nothing any more"),
            ControlError::TooMany => fault!("this run has reached its limit of changes"),
            ControlError::TooLong { longest, room } => {
                fault!(
                    "frames of {longest} bytes do not fit: this run has room for {room} bytes";
                    "start it with a flow of that size"
                )
            }
            ControlError::Headers => {
                fault!(
                    "headers cannot change from outside";
                    "write the change under 'at' in the scenario"
                )
            }
            ControlError::Sessions(why) | ControlError::Scale(why) => why.clone(),
            ControlError::Busy => {
                fault!("the change could not be made in time on this busy machine"; "try again")
            }
        }
    }
}

into_fault!(ControlError);

/// What changes in one way: the flows of a run, or the starts of its sessions.
#[derive(Debug)]
pub(crate) struct Changeable {
    live: Mutex<Live>,
    changes: Changes,
    /// The longest frame of each flow that the senders have room for, without FCS; `None`: starts of sessions, which have no frames.
    room: Option<Vec<u16>>,
    /// What was changed from outside.
    noted: Mutex<Vec<Noted>>,
}

impl Changeable {
    fn new(live: Live, threads: usize, room: Option<Vec<u16>>) -> Changeable {
        let (live, noted) = (Mutex::new(live), Mutex::new(Vec::new()));
        Changeable { live, changes: Changes::new(threads), room, noted }
    }

    /// The starts of sessions, by so many threads.
    pub(crate) fn starts(live: Live, threads: usize) -> Changeable {
        Changeable::new(live, threads, None)
    }

    /// What those who send, or start sessions, listen to.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What its rates count.
    fn of(&self) -> Of {
        if self.room.is_some() { Of::Frames } else { Of::Sessions }
    }

    /// What it is to be, from `at` on.
    fn part(
        &self,
        live: &Live,
        number: u32,
        at: Nanos,
        change: &Change,
    ) -> Result<Part, ControlError> {
        if let (Of::Sessions, Change::To(settings)) = (self.of(), change) {
            check_settings(settings).map_err(ControlError::Sessions)?;
        }
        let part = live.change(number, at, change)?;
        let Some(room) = &self.room else { return Ok(part) };
        let room = room.get(number as usize).copied().unwrap_or(0);
        let longest = part.stream.frames.longest();
        if longest.buffer() > room {
            let room = wirebeat_units::FrameLen::without_fcs(room).get();
            return Err(ControlError::TooLong { longest: longest.get(), room });
        }
        Ok(part)
    }
}

/// A handle on a run that goes on. Clones share it.
#[derive(Clone, Debug)]
pub struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    first: Arc<Changeable>,
    /// The starts of sessions beside flows.
    beside: OnceLock<Arc<Changeable>>,
    start: OnceLock<Nanos>,
    stats: RunStats,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// Of flows that so many transmit cores send; `room` as in [`Changeable`].
    pub(crate) fn new(live: Live, cores: usize, room: Vec<u16>) -> Control {
        Control::of(Arc::new(Changeable::new(live, cores, Some(room))))
    }

    /// Of this alone.
    pub(crate) fn of(first: Arc<Changeable>) -> Control {
        let (beside, start, stats) = (OnceLock::new(), OnceLock::new(), RunStats::default());
        Control(Arc::new(Inner { first, beside, start, stats }))
    }

    /// Has the starts of these sessions change by the same handle.
    pub(crate) fn join(&self, starts: Arc<Changeable>) {
        self.0.beside.get_or_init(|| starts);
    }

    /// The run starts at this time of the monotonic clock.
    pub(crate) fn begin(&self, start: Nanos) {
        self.0.start.get_or_init(|| start);
    }

    /// What the run has counted so far.
    fn stats(&self) -> &RunStats {
        &self.0.stats
    }

    /// What the transmit cores listen to.
    pub(crate) fn changes(&self) -> &Changes {
        &self.0.first.changes
    }

    /// The program of the flows with all changes.
    pub(crate) fn program(&self) -> Program {
        locked(&self.0.first.live).program()
    }

    /// All that changes.
    fn parts(&self) -> impl Iterator<Item = &Arc<Changeable>> {
        [Some(&self.0.first), self.0.beside.get()].into_iter().flatten()
    }

    /// All changes until `end`, those of the scenario among them, in the order of time; those of sessions beside flows are noted by the
    /// handle of the sessions.
    pub(crate) fn noted(&self, end: Nanos, completed: bool) -> Vec<Noted> {
        let live = locked(&self.0.first.live);
        let name = |flow: u32| live.flows().get(flow as usize).map_or("", |flow| &flow.name);
        let mut noted = planned(live.planned(), self.0.first.of(), name);
        noted.retain(|change| change.at_ns < end.get());
        // A run may end by itself a moment before the changes that end it were to take effect.
        let end = if completed { end.saturating_add(AHEAD) } else { end };
        let in_time = |change: &&Noted| change.at_ns < end.get();
        noted.extend(locked(&self.0.first.noted).iter().filter(in_time).cloned());
        noted.sort_by_key(|change| change.at_ns);
        noted
    }

    fn elapsed(&self) -> Result<Nanos, ControlError> {
        let start = *self.0.start.get().ok_or(ControlError::NotStarted)?;
        if self.parts().all(|part| part.changes.over()) {
            return Err(ControlError::Over);
        }
        Ok(MonotonicClock.now().saturating_sub(start))
    }

    /// The flows as they are now, in the order of the scenario, and after them the groups of sessions that start by a rate.
    pub fn list(&self) -> Result<Vec<FlowState>, ControlError> {
        let now = self.elapsed()?;
        let mut all = Vec::new();
        for part in self.parts() {
            let live = locked(&part.live);
            let noted = locked(&part.noted);
            let next: Vec<_> = noted.iter().filter(|change| change.at_ns > now.get()).collect();
            let state = |(number, flow): (u32, &Flow)| {
                let next = next.iter().rfind(|change| change.flow == flow.name);
                let next = next.map(|change| (change.change.as_str(), Nanos::new(change.at_ns)));
                FlowState::of((&flow.name, part.of()), live.part(number, now), now, next)
            };
            all.extend((0..).zip(live.flows()).map(state));
        }
        Ok(all)
    }

    /// Changes a flow, or the starts of a group of sessions. Returns the time from the start of the run at which that takes effect:
    /// 150 ms from now, or the flow's start where that is later.
    pub fn change(&self, flow: &str, change: &Change) -> Result<Nanos, ControlError> {
        if matches!(change, Change::To(settings) if settings.packet.is_some()) {
            return Err(ControlError::Headers);
        }
        let (part, number) = self.find(flow)?;
        self.make(part, flow, &words(change, part.of()), |live, at| {
            Ok(What::Sends(Box::new(part.part(live, number, at, change)?)))
        })
    }

    /// Ends a flow, or the starts of a group of sessions: those that are open go on to their end. Returns the time from the start of
    /// the run at which nothing more leaves or starts.
    pub fn stop(&self, flow: &str) -> Result<Nanos, ControlError> {
        let (part, number) = self.find(flow)?;
        self.make(part, flow, "stopped", |live, at| {
            let ended = || ControlError::Ended(flow.to_owned());
            live.part(number, at).map(|_| What::Stops(number, at)).ok_or_else(ended)
        })
    }

    /// Ends all that has not ended. Returns when each does, by name.
    pub fn stop_all(&self) -> Result<Vec<(String, Nanos)>, ControlError> {
        let mut names = Vec::new();
        for part in self.parts() {
            names.extend(locked(&part.live).flows().iter().map(|flow| flow.name.clone()));
        }
        let mut stopped = Vec::new();
        for name in names {
            match self.stop(&name) {
                Ok(at) => stopped.push((name, at)),
                // one part of a run may be over while the other goes on
                Err(ControlError::Ended(_) | ControlError::Over) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stopped)
    }

    fn find(&self, flow: &str) -> Result<(&Changeable, u32), ControlError> {
        let found = self.parts().find_map(|part| {
            let number = locked(&part.live).find(flow)?;
            Some((part.as_ref(), number))
        });
        found.ok_or_else(|| ControlError::Unknown(flow.to_owned()))
    }

    /// Makes a change at the soonest time at which all who follow it can.
    fn make(
        &self,
        part: &Changeable,
        name: &str,
        words: &str,
        what: impl Fn(&Live, Nanos) -> Result<What, ControlError>,
    ) -> Result<Nanos, ControlError> {
        let mut live = locked(&part.live);
        let start = *self.0.start.get().ok_or(ControlError::NotStarted)?;
        let now = || MonotonicClock.now().saturating_sub(start);
        for attempt in 0..TRIES {
            let ahead = Nanos::new(AHEAD.get() << attempt);
            let what = what(&live, self.elapsed()?.saturating_add(ahead))?;
            let update = match &what {
                What::Sends(part) => Update {
                    flow: part.stream.flow,
                    at: part.phase.from,
                    stream: Some(part.stream.clone()),
                },
                What::Stops(flow, at) => Update { flow: *flow, at: *at, stream: None },
            };
            let at = update.at;
            match part.changes.publish(update, now) {
                Ok(()) => {}
                Err(Refused::TooLate) => continue,
                Err(Refused::Over) => return Err(ControlError::Over),
                Err(Refused::TooMany) => return Err(ControlError::TooMany),
            }
            match what {
                What::Sends(part) => live.add(*part),
                What::Stops(flow, at) => live.stop(flow, at),
            }
            let (flow, change) = (name.to_owned(), words.to_owned());
            let origin = ChangeOrigin::Control;
            locked(&part.noted).push(Noted { at_ns: at.get(), flow, change, origin });
            return Ok(at);
        }
        Err(ControlError::Busy)
    }
}

/// What a scenario plans to change, in words.
pub(crate) fn planned<'a>(
    changes: impl Iterator<Item = (u32, Nanos, &'a Change)>,
    of: Of,
    name: impl Fn(u32) -> &'a str,
) -> Vec<Noted> {
    let noted = |(flow, at, change): (u32, Nanos, &Change)| Noted {
        at_ns: at.get(),
        flow: name(flow).to_owned(),
        change: words(change, of),
        origin: ChangeOrigin::Scenario,
    };
    changes.map(noted).collect()
}
