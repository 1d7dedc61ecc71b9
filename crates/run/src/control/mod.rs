//! Changing the flows of a running session from outside.
//!
//! [`Control`] is the handle: it lists, changes and stops flows. A change is compiled here, wins all transmit
//! cores through [`Changes`], and is noted for the report. `socket.rs` offers the handle to the owner of the
//! session on a local socket, `place.rs` says where that lies, `message.rs` what is said on it, and `client.rs` is
//! the other end. The senders do not know any of this.

pub mod client;
pub mod message;
pub mod place;
pub(crate) mod socket;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::drive::{Changes, Refused, Update};
use wirebeat_report::model::{Change as Noted, ChangeOrigin};
use wirebeat_traffic::compile::{CompileError, Live};
use wirebeat_traffic::program::{Flow, Program};
use wirebeat_traffic::scenario::Change;
use wirebeat_units::{Fault, Nanos, fault, into_fault};

use message::{FlowState, What, words};

/// How far ahead of now a change takes effect at first: what the senders need, and time to compile it.
const AHEAD: Nanos = Nanos::from_millis(150);
/// How often it is tried, each time twice as far ahead.
const TRIES: u32 = 6;

/// Whether a session can be changed from outside.
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
    /// The session has not begun to send.
    NotStarted,
    /// The session is over.
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
    /// The machine is too busy.
    Busy,
}

impl ControlError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ControlError::Invalid(inner) => inner.problem().fault(),
            ControlError::Unknown(it) => {
                fault!("there is no flow '{it}'"; "'wirebeat ctl list' shows those there are")
            }
            ControlError::Ended(it) => fault!("flow '{it}' has ended"),
            ControlError::NotStarted => {
                fault!("the session has not begun to send"; "try again in a moment")
            }
            ControlError::Over => fault!("the session sends nothing any more"),
            ControlError::TooMany => fault!("this session has reached its limit of changes"),
            ControlError::TooLong { longest, room } => {
                fault!(
                    "frames of {longest} bytes do not fit: this session has room for {room} bytes";
                    "start it with a flow of that size"
                )
            }
            ControlError::Headers => {
                fault!(
                    "headers cannot change from outside";
                    "write the change under 'at' in the scenario"
                )
            }
            ControlError::Busy => {
                fault!("the change could not be made in time on this busy machine"; "try again")
            }
        }
    }
}

into_fault!(ControlError);

/// A handle on a running session. Clones share it.
#[derive(Clone, Debug)]
pub struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    live: Mutex<Live>,
    changes: Changes,
    /// The longest frame of each flow that the senders have room for, without FCS.
    room: Vec<u16>,
    start: OnceLock<Nanos>,
    noted: Mutex<Vec<Noted>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// Of a session with so many transmit cores; `room` as in [`Inner`].
    pub(crate) fn new(live: Live, cores: usize, room: Vec<u16>) -> Control {
        Control(Arc::new(Inner {
            live: Mutex::new(live),
            changes: Changes::new(cores),
            room,
            start: OnceLock::new(),
            noted: Mutex::new(Vec::new()),
        }))
    }

    /// The session starts at this time of the monotonic clock.
    pub(crate) fn begin(&self, start: Nanos) {
        self.0.start.get_or_init(|| start);
    }

    /// What the transmit cores listen to.
    pub(crate) fn changes(&self) -> &Changes {
        &self.0.changes
    }

    /// The program with all changes.
    pub(crate) fn program(&self) -> Program {
        locked(&self.0.live).program()
    }

    /// All changes until `end`, those of the scenario among them, in the order of time.
    pub(crate) fn noted(&self, end: Nanos, completed: bool) -> Vec<Noted> {
        let live = locked(&self.0.live);
        let name = |flow: u32| live.flows().get(flow as usize).map_or("", |flow| &flow.name);
        let mut noted = planned(live.planned(), name);
        noted.retain(|change| change.at_ns < end.get());
        // A run may end by itself a moment before the changes that end it were to take effect.
        let end = if completed { end.saturating_add(AHEAD) } else { end };
        let in_time = |change: &&Noted| change.at_ns < end.get();
        noted.extend(locked(&self.0.noted).iter().filter(in_time).cloned());
        noted.sort_by_key(|change| change.at_ns);
        noted
    }

    fn elapsed(&self) -> Result<Nanos, ControlError> {
        let start = *self.0.start.get().ok_or(ControlError::NotStarted)?;
        if self.0.changes.over() {
            return Err(ControlError::Over);
        }
        Ok(MonotonicClock.now().saturating_sub(start))
    }

    /// The flows as they are now, in the order of the scenario.
    pub fn list(&self) -> Result<Vec<FlowState>, ControlError> {
        let now = self.elapsed()?;
        let live = locked(&self.0.live);
        let noted = locked(&self.0.noted);
        let to_come = noted.iter().filter(|change| change.at_ns > now.get());
        let next: Vec<_> = to_come.collect();
        let flows = (0..).zip(live.flows());
        let state = |(number, flow): (u32, &Flow)| {
            let next = next.iter().rfind(|change| change.flow == flow.name);
            let next = next.map(|change| (change.change.as_str(), Nanos::new(change.at_ns)));
            FlowState::of(&flow.name, live.part(number, now), now, next)
        };
        Ok(flows.map(state).collect())
    }

    /// Changes a flow. Returns the time from the start of the run at which that takes effect: 150 ms from now, or the
    /// flow's start where that is later.
    pub fn change(&self, flow: &str, change: &Change) -> Result<Nanos, ControlError> {
        if matches!(change, Change::To(settings) if settings.packet.is_some()) {
            return Err(ControlError::Headers);
        }
        let number = self.find(flow)?;
        self.make(flow, &words(change), |live, at| {
            let part = live.change(number, at, change)?;
            let room = self.0.room.get(number as usize).copied().unwrap_or(0);
            let longest = part.stream.frames.longest();
            if longest.buffer() > room {
                let room = wirebeat_units::FrameLen::without_fcs(room).get();
                return Err(ControlError::TooLong { longest: longest.get(), room });
            }
            Ok(What::Sends(Box::new(part)))
        })
    }

    /// Ends a flow. Returns the time from the start of the run at which it sends no more.
    pub fn stop(&self, flow: &str) -> Result<Nanos, ControlError> {
        let number = self.find(flow)?;
        self.make(flow, "stopped", |live, at| {
            let ended = || ControlError::Ended(flow.to_owned());
            live.part(number, at).map(|_| What::Stops(number, at)).ok_or_else(ended)
        })
    }

    /// Ends all flows that have not ended. Returns when each does, by name.
    pub fn stop_all(&self) -> Result<Vec<(String, Nanos)>, ControlError> {
        let names: Vec<String> =
            locked(&self.0.live).flows().iter().map(|flow| flow.name.clone()).collect();
        let mut stopped = Vec::new();
        for name in names {
            match self.stop(&name) {
                Ok(at) => stopped.push((name, at)),
                Err(ControlError::Ended(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stopped)
    }

    fn find(&self, flow: &str) -> Result<u32, ControlError> {
        let found = locked(&self.0.live).find(flow);
        found.ok_or_else(|| ControlError::Unknown(flow.to_owned()))
    }

    /// Makes a change at the soonest time at which all senders can follow it.
    fn make(
        &self,
        name: &str,
        words: &str,
        what: impl Fn(&Live, Nanos) -> Result<What, ControlError>,
    ) -> Result<Nanos, ControlError> {
        let mut live = locked(&self.0.live);
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
            match self.0.changes.publish(update, now) {
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
            locked(&self.0.noted).push(Noted { at_ns: at.get(), flow, change, origin });
            return Ok(at);
        }
        Err(ControlError::Busy)
    }
}

/// What a scenario plans to change, in words.
pub(crate) fn planned<'a>(
    changes: impl Iterator<Item = (u32, Nanos, &'a Change)>,
    name: impl Fn(u32) -> &'a str,
) -> Vec<Noted> {
    let noted = |(flow, at, change): (u32, Nanos, &Change)| Noted {
        at_ns: at.get(),
        flow: name(flow).to_owned(),
        change: words(change),
        origin: ChangeOrigin::Scenario,
    };
    changes.map(noted).collect()
}
