//! The loop of a core: starts what is due, lets time pass in the stack, does what programs want.
//!
//! It is the fourth way through a run, beside those of frames that leave, arrive and are replayed: a session that is due is a
//! departure, and its answers come back to the same thread. It does not know whose TCP it drives, and reads no clock: the stack
//! says what time it is after each turn.

use wirebeat_traffic::program::Departures;
use wirebeat_traffic::program::script::Sessions;
use wirebeat_traffic::schedule::{Departure, Schedule, Shard};
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::samples::Samples;
use crate::stack::Stack;

/// How exactly starts are awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The stack is asked over and over: most exact, one CPU busy.
    Spin,
    /// The stack waits until shortly before a start is due, then spins.
    Hybrid,
    /// The stack waits: cheapest.
    Sleep,
}

/// How long before a start the waiting ends and the spinning begins: longer than a timer of Linux is late with the default slack
/// of 50 µs (prctl(2), PR_SET_TIMERSLACK) and a CPU takes to wake.
const SPIN: Nanos = Nanos::from_micros(100);
/// The most sessions that start before others have their turn.
const STARTS_MAX: usize = 64;

/// The loop of a core.
#[derive(Debug)]
pub struct Converse<S> {
    /// The sessions.
    pub programs: Conversations,
    /// What carries them.
    pub stack: S,
    schedule: Schedule,
    due: Vec<Departure>,
    /// The flows of the schedule.
    flows: Vec<u32>,
    /// The group of each flow.
    groups: Vec<u16>,
    begin: Nanos,
    /// When the next group stops, as it was known last.
    next_stop: Option<Nanos>,
    waiting: Waiting,
    pub(crate) samples: Samples,
}

impl<S: Stack> Converse<S> {
    /// For the sessions of `core` over `stack`; times of the schedule count from `begin`, `drift` is how late a session may start.
    pub fn new(
        sessions: &Sessions,
        core: Shard,
        stack: S,
        begin: Nanos,
        drift: Option<Nanos>,
        waiting: Waiting,
    ) -> Converse<S> {
        let started = (0_u16..).zip(&sessions.groups);
        // the clients of others start elsewhere
        let started = started.filter_map(|(number, group)| Some((number, group.starts?)));
        let started: Vec<(u16, u32)> = started.collect();
        let flows: Vec<u32> = started.iter().map(|(_, flow)| *flow).collect();
        let group =
            |flow: u32| started.iter().find(|(_, of)| *of == flow).map_or(0, |(group, _)| *group);
        let programs = Conversations::new(sessions, core, begin, drift);
        let groups = (0..sessions.starts.flows.len() as u32).map(group).collect();
        Converse {
            next_stop: programs.next_stop(begin),
            programs,
            schedule: Schedule::new(&sessions.starts, &flows, core),
            due: Vec::with_capacity(STARTS_MAX),
            flows,
            groups,
            stack,
            begin,
            waiting,
            samples: Samples::default(),
        }
    }

    /// Whether all sessions that were to start have started and ended. Servers alone are never done by themselves.
    pub fn is_done(&self, now: Nanos) -> bool {
        self.schedule.peek().is_none() && self.programs.is_idle(now)
    }

    /// One turn from `now` on: what is due, and what happens until something else is due, at the latest until `until`. Returns the
    /// time after it.
    pub fn turn(&mut self, now: Nanos, until: Nanos) -> Nanos {
        self.due.clear();
        if let Some(elapsed) = now.get().checked_sub(self.begin.get()) {
            self.schedule.next_due(Nanos::new(elapsed), &mut self.due, STARTS_MAX);
        }
        for departure in &self.due {
            let group = self.groups.get(departure.flow as usize).copied().unwrap_or(0);
            let planned = self.begin.saturating_add(departure.at);
            self.programs.start(now, group, planned, departure.index);
        }
        let starts_left = self.due.len() == STARTS_MAX;
        self.programs.expire(now);
        self.stop_groups(now);
        self.apply(now);
        let next_start = self.schedule.peek().map(|next| self.begin.saturating_add(next.at));
        let mut wait = until;
        for time in [self.programs.next_time(), self.programs.next_stop(now)].into_iter().flatten()
        {
            wait = wait.min(time);
        }
        if let Some(start) = next_start {
            let awake = match self.waiting {
                Waiting::Sleep => start,
                Waiting::Hybrid | Waiting::Spin => start.saturating_sub(SPIN),
            };
            wait = wait.min(awake);
        }
        if starts_left || self.waiting == Waiting::Spin {
            wait = now;
        }
        // a start that would be late for what has to be done before it goes first: what waits is done with it
        let near = |start: &Nanos| {
            *start > now
                && *start <= until
                && start.saturating_sub(now) <= self.stack.longest_turn()
        };
        if self.due.is_empty()
            && self.waiting != Waiting::Sleep
            && let Some(start) = next_start.filter(near)
        {
            return self.stack.spin(start);
        }
        let after = self.stack.turn(now, wait, &mut self.programs);
        self.stop_groups(after);
        self.apply(after);
        after
    }

    /// From `at` on the starts of a flow of the schedule follow `next`; `None`: there are no more, and its group stops. No start at or
    /// after that time may have been taken.
    pub fn change(&mut self, flow: u32, at: Nanos, next: Option<&Departures>) {
        if next.is_none() && self.flows.contains(&flow) {
            let group = self.groups.get(flow as usize).copied().unwrap_or(0);
            self.programs.stop_group(group, self.begin.saturating_add(at));
        }
        // which stream it is says nothing here: the starts of a group are all alike
        self.schedule.change(flow, at, next.map(|next| (0, next.clone())));
    }

    /// Whether a group pauses at `now` that can be resumed.
    pub fn pauses(&self, now: Nanos) -> bool {
        let elapsed = now.saturating_sub(self.begin);
        self.schedule.pauses_until().is_some_and(|until| elapsed < until)
    }

    /// When something is to be done by itself: a session starts, an alarm rings, a group stops.
    pub fn next_time(&self, now: Nanos) -> Option<Nanos> {
        let start = self.schedule.peek().map(|next| self.begin.saturating_add(next.at));
        let times = [start, self.programs.next_time(), self.programs.next_stop(now)];
        times.into_iter().flatten().min()
    }

    /// No session starts any more; those that are open go on.
    pub fn stop_starts(&mut self, now: Nanos) {
        self.schedule = Schedule::empty();
        self.programs.stop_starts(now);
        self.apply(now);
    }

    /// Closes all sessions in order.
    pub fn close_all(&mut self, now: Nanos) {
        self.schedule = Schedule::empty();
        self.programs.close_all(now);
        self.apply(now);
    }

    /// Gives all sessions up that are still open.
    pub fn abort_all(&mut self, now: Nanos) {
        self.programs.abort_all();
        self.apply(now);
    }

    /// Ends what goes on until the stop of its group, where that has come since the last time.
    fn stop_groups(&mut self, now: Nanos) {
        let next = self.programs.next_stop(now);
        if std::mem::replace(&mut self.next_stop, next) != next {
            self.programs.end_endless(now);
        }
    }

    /// Does what programs want, and what they want then.
    fn apply(&mut self, now: Nanos) {
        while let Some(action) = self.programs.next_action() {
            self.stack.apply(now, action, &mut self.programs);
        }
    }
}
