//! The loop of a core: starts what is due, lets time pass in the stack, does what programs want.
//!
//! It is the fourth way through a run, beside those of frames that leave, arrive and are replayed: a session that is due is a
//! departure, and its answers come back to the same thread. It does not know whose TCP it drives, and reads no clock: the stack
//! says what time it is after each turn.

use std::sync::Arc;

use wirebeat_traffic::program::Departures;
use wirebeat_traffic::program::script::{SessionGroup, Sessions};
use wirebeat_traffic::schedule::{Departure, Schedule, Shard};
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::gates::Gates;
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
/// Sessions that are due before the time of the run is over start until so long behind it, where this machine is slower than their rate.
const LATEST: Nanos = Nanos::from_millis(100);
/// The most sessions that start before others have their turn.
const STARTS_MAX: usize = 64;
/// Starts that are counted one by one where they did not happen.
const COUNTED_MAX: u64 = 4_000_000;
/// The most starts for each turn of the stack where that is behind: in a turn it does some sixteen things, and a session takes about four.
const STARTS_A_TURN: usize = 4;

/// Starts whose times count from one moment.
#[derive(Debug)]
struct Started {
    schedule: Schedule,
    begin: Nanos,
    /// None is due from here on.
    end: Nanos,
}

impl Started {
    /// When the next one is due.
    fn next(&self) -> Option<Nanos> {
        let at = self.begin.saturating_add(self.schedule.peek()?.at);
        (at < self.end).then_some(at)
    }
}

/// A group that waits for another.
#[derive(Debug)]
struct Gated {
    group: u16,
    /// Its starts, where a rate says when they are.
    schedule: Schedule,
}

/// The loop of a core.
#[derive(Debug)]
pub struct Converse<S> {
    /// The sessions.
    pub programs: Conversations,
    /// What carries them.
    pub stack: S,
    schedules: Vec<Started>,
    /// Groups that wait for another to begin.
    waiting_groups: Vec<Gated>,
    /// Groups that stop when they have reached what they are to reach.
    until: Vec<u16>,
    /// Groups that others wait for, as long as sessions of them may be established here.
    watched: Vec<u16>,
    due: Vec<Departure>,
    /// The flows of all schedules.
    flows: Vec<u32>,
    /// The group of each flow.
    groups: Vec<u16>,
    begin: Nanos,
    /// When starts were last looked at.
    looked: Nanos,
    /// When the time of the run is over; [`Nanos::MAX`]: it has none.
    run_end: Nanos,
    /// How many cores share the starts.
    cores: u32,
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
        let schedule = |flows: &[u32]| Schedule::new(&sessions.starts, flows, core);
        let waits = |group: u16| {
            let of = sessions.groups.get(usize::from(group));
            of.is_some_and(|of| of.after.is_some())
        };
        let at_once = started.iter().filter(|(group, _)| !waits(*group)).map(|(_, flow)| *flow);
        let at_once: Vec<u32> = at_once.collect();
        let mine = |group: &SessionGroup| group.client.is_some() && group.after.is_some();
        let gated = (0_u16..).zip(&sessions.groups).filter(|(_, group)| mine(group));
        let gated = gated.map(|(group, of)| {
            let flows: Vec<u32> = of.starts.into_iter().collect();
            Gated { group, schedule: schedule(&flows) }
        });
        let until = (0_u16..).zip(&sessions.groups);
        let until = until.filter(|(_, group)| group.client.is_some() && group.until.is_some());
        let end = sessions.groups.iter().map(|group| group.end).max();
        Converse {
            until: until.map(|(group, _)| group).collect(),
            next_stop: programs.next_stop(begin),
            schedules: vec![Started { schedule: schedule(&at_once), begin, end: Nanos::MAX }],
            waiting_groups: gated.collect(),
            watched: programs.watched(),
            programs,
            due: Vec::with_capacity(STARTS_MAX),
            flows,
            groups,
            stack,
            begin,
            looked: begin,
            run_end: begin.saturating_add(end.unwrap_or(Nanos::MAX)),
            cores: core.cores,
            waiting,
            samples: Samples::default(),
        }
    }

    /// What groups wait for is counted there, for all loops of a run.
    pub fn share(&mut self, gates: Arc<Gates>) {
        self.programs.share(gates);
        self.watched = self.programs.watched();
    }

    /// When the next start is due by a rate.
    fn next_start(&self) -> Option<Nanos> {
        self.schedules.iter().filter_map(Started::next).min()
    }

    /// Whether all sessions that were to start have started and ended. Servers alone are never done by themselves.
    pub fn is_done(&mut self, now: Nanos) -> bool {
        if self.next_start().is_some() || !self.programs.is_idle(now) {
            return false;
        }
        // nothing of those that others wait for comes any more, but of groups that wait themselves
        let gates = Arc::clone(&self.programs.gates);
        let waiting = &self.waiting_groups;
        self.watched.retain(|group| {
            let waits = waiting.iter().any(|of| of.group == *group && !gates.is_vain(*group));
            if !waits {
                gates.leave(*group);
            }
            waits
        });
        self.waiting_groups.iter().all(|of| gates.is_vain(of.group))
    }

    /// Begins groups for which there is what they waited for.
    fn pass_gates(&mut self) {
        let gates = Arc::clone(&self.programs.gates);
        let (programs, run) = (&mut self.programs, self.begin);
        let schedules = &mut self.schedules;
        self.waiting_groups.retain_mut(|of| {
            let Some(begin) = gates.opened(of.group) else { return true };
            programs.begin_group(of.group, begin, run);
            schedules.push(Started {
                schedule: std::mem::replace(&mut of.schedule, Schedule::empty()),
                begin,
                end: programs.stop_of(of.group),
            });
            false
        });
    }

    /// Stops groups that have reached what they were to reach. What was due until now has been, or is, started.
    fn stop_reached(&mut self, now: Nanos) {
        let gates = Arc::clone(&self.programs.gates);
        let mut reached = Vec::new();
        self.until.retain(|group| {
            let goes_on = gates.reached(*group).is_none();
            reached.extend((!goes_on).then_some(*group));
            goes_on
        });
        for &group in &reached {
            self.programs.stop_at_once(group, now);
            for &flow in &self.flows {
                if self.groups.get(flow as usize) != Some(&group) {
                    continue;
                }
                for Started { schedule, begin, .. } in &mut self.schedules {
                    let behind = now.saturating_sub(*begin).saturating_add(Nanos::new(1));
                    schedule.change(flow, behind, None);
                }
            }
        }
        if !reached.is_empty() {
            self.programs.end_endless(now);
        }
    }

    /// Whether a group waits here that may begin at once, or goes on that is to stop.
    fn may_pass(&self) -> bool {
        let gates = &self.programs.gates;
        self.waiting_groups.iter().any(|of| gates.opened(of.group).is_some())
            || self.until.iter().any(|group| gates.reached(*group).is_some())
    }

    /// One turn from `now` on: what is due, and what happens until something else is due, at the latest until `until`. Returns the
    /// time after it.
    pub fn turn(&mut self, now: Nanos, until: Nanos) -> Nanos {
        if !self.waiting_groups.is_empty() {
            self.pass_gates();
        }
        if !self.until.is_empty() {
            self.stop_reached(now);
        }
        if now.saturating_sub(self.run_end) > LATEST {
            // what has not started by now does not; those that are open go on
            let end = std::mem::replace(&mut self.run_end, Nanos::MAX);
            self.end_schedules(end);
        }
        let (mut starts_left, mut started) = (false, 0);
        self.looked = now;
        for Started { schedule, begin, end } in &mut self.schedules {
            self.due.clear();
            if let Some(elapsed) = now.get().checked_sub(begin.get()) {
                schedule.next_due(Nanos::new(elapsed), &mut self.due, STARTS_MAX);
            }
            for departure in &self.due {
                let group = self.groups.get(departure.flow as usize).copied().unwrap_or(0);
                let planned = begin.saturating_add(departure.at);
                if planned < *end {
                    self.programs.start(now, group, planned, departure.index);
                }
            }
            starts_left |= self.due.len() == STARTS_MAX;
            started += self.due.len();
        }
        self.programs.expire(now);
        self.stop_groups(now);
        self.apply(now);
        let next_start = self.next_start();
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
        if starts_left || self.may_pass() || self.waiting == Waiting::Spin {
            wait = now;
        }
        // a start that would be late for what has to be done before it goes first: what waits is done with it
        let near = |start: &Nanos| {
            *start > now
                && *start <= until
                && start.saturating_sub(now) <= self.stack.longest_turn()
        };
        if started == 0
            && self.waiting != Waiting::Sleep
            && let Some(start) = next_start.filter(near)
        {
            return self.stack.spin(start);
        }
        let mut after = self.stack.turn(now, wait, &mut self.programs);
        self.stop_groups(after);
        self.apply(after);
        // Where starts come faster than this machine opens sessions, those that are open get their share all the same: else what they
        // wait for lies there, and the time that it lies there would be taken for the peer's.
        for _ in 0..started / STARTS_A_TURN {
            if !self.stack.is_behind() {
                break;
            }
            after = self.stack.turn(after, after, &mut self.programs);
            self.stop_groups(after);
            self.apply(after);
        }
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
        // groups that wait for others do not change: those of the first schedule do
        if let Some(first) = self.schedules.first_mut() {
            first.schedule.change(flow, at, next.map(|next| (0, next.clone())));
        }
    }

    /// Whether a group pauses at `now` that can be resumed.
    pub fn pauses(&self, now: Nanos) -> bool {
        let elapsed = now.saturating_sub(self.begin);
        let first = self.schedules.first();
        first.and_then(|first| first.schedule.pauses_until()).is_some_and(|until| elapsed < until)
    }

    /// When something is to be done by itself: a session starts, an alarm rings, a group stops.
    pub fn next_time(&self, now: Nanos) -> Option<Nanos> {
        let pass = self.may_pass().then_some(now);
        let times =
            [self.next_start(), self.programs.next_time(), self.programs.next_stop(now), pass];
        times.into_iter().flatten().min()
    }

    /// Starts nothing more. What was due when starts were last looked at and has not started, as where starts come faster than this machine
    /// opens sessions, is counted: it was in the plan. What has become due since then would have started now: it was not.
    fn start_none(&mut self, now: Nanos) {
        self.end_schedules(now.min(self.looked));
        self.waiting_groups.clear();
        self.until.clear();
    }

    /// The same for what is due by a rate until `now`.
    fn end_schedules(&mut self, now: Nanos) {
        for Started { schedule, begin, end } in &mut self.schedules {
            let over = now.min(*end).saturating_sub(*begin);
            let mut counted = 0;
            while let Some(next) = schedule.peek().filter(|next| next.at < over) {
                let group = self.groups.get(next.flow as usize).copied().unwrap_or(0);
                if counted < COUNTED_MAX {
                    schedule.skip_before(over, false, &mut |_, many| {
                        self.programs.pass_over(group, many);
                        counted += many;
                    });
                    continue;
                }
                // far more than any machine opens: the rest of this group as it was so far, on this core
                let stop = self.programs.stop_of(group).saturating_sub(*begin);
                let left = over.min(stop).saturating_sub(next.at).as_secs_f64();
                let so_far = next.at.as_secs_f64();
                let mine = next.index as f64 / f64::from(self.cores);
                self.programs.pass_over(group, (mine * left / so_far.max(1e-9)) as u64);
                schedule.change(next.flow, next.at, None);
            }
        }
        self.schedules.clear();
    }

    /// No session starts any more; those that are open go on.
    pub fn stop_starts(&mut self, now: Nanos) {
        self.start_none(now);
        self.programs.stop_starts(now);
        self.apply(now);
    }

    /// Closes all sessions in order.
    pub fn close_all(&mut self, now: Nanos) {
        self.start_none(now);
        self.programs.close_all(now);
        self.apply(now);
    }

    /// The same, but servers whose clients are of this run leave it to those to close first.
    pub fn close_clients(&mut self, now: Nanos) {
        self.start_none(now);
        self.programs.close_clients(now);
        self.apply(now);
    }

    /// Gives all sessions up that are still open.
    pub fn abort_all(&mut self, now: Nanos) {
        let mut from = Some(0);
        while let Some(next) = from {
            from = self.programs.abort_from(next);
            self.apply(now);
            if from.is_some() {
                // what tells the peers so leaves before there is more of it
                self.stack.turn(now, now, &mut self.programs);
                self.apply(now);
            }
        }
    }

    /// Ends what goes on until the stop of its group, where that has come since the last time.
    fn stop_groups(&mut self, now: Nanos) {
        let next = self.programs.next_stop(now);
        if std::mem::replace(&mut self.next_stop, next) != next {
            self.programs.drop_late(now);
            self.programs.end_endless(now);
        }
    }

    /// Does what programs want, and what they want then.
    fn apply(&mut self, now: Nanos) {
        while let Some(action) = self.programs.next_action() {
            self.stack.apply(now, action, &mut self.programs);
        }
        self.programs.settle();
    }
}
