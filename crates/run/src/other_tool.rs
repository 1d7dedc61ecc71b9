//! A run on the wire of another tool, which has no scenario: who is told, how long it has lasted, and the report of its sessions.
//!
//! What is special to a wire is in `iperf/` and `ditg/`.

use std::time::SystemTime;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_host::{CpuTimes, Machine};
use wirebeat_report::assemble::{
    Clocks, RunFacts, SessionGroup, SessionIntervalCounts, assemble, session_interval,
};
use wirebeat_report::model::{self, Report, SessionEnd};
use wirebeat_traffic::scenario::RunSpec;
use wirebeat_units::Nanos;

use crate::facts;
use crate::observe::{Observer, Progress, SessionProgress, Stop};
use crate::options::Options;

/// How often counters are read: as in every run.
pub(crate) fn interval(options: &Options) -> Nanos {
    options.interval.unwrap_or(RunSpec::DEFAULT_INTERVAL)
}

/// When a server ends by itself.
pub(crate) struct Ends<'a> {
    stop: &'a Stop,
    at: Option<Nanos>,
}

impl<'a> Ends<'a> {
    /// When it is asked to, or when `time` is over, from now on.
    pub(crate) fn after(time: Option<Nanos>, stop: &'a Stop) -> Ends<'a> {
        Ends { stop, at: time.map(|time| MonotonicClock.now().saturating_add(time)) }
    }

    /// Whether it is to end now.
    pub(crate) fn now(&self) -> bool {
        self.stop.asked() || self.at.is_some_and(|at| MonotonicClock.now() >= at)
    }
}

/// The most lines about clients that were turned away or failed: one that connects again and again fills no terminal and no file.
const TOLD: u64 = 100;

/// A run, and who is told.
pub(crate) struct Telling<'a> {
    observer: &'a mut dyn Observer,
    /// The tool, as reports name it.
    tool: &'static str,
    /// Which end of the sessions this process is.
    pub(crate) end: SessionEnd,
    started: SystemTime,
    /// When it began, on the monotonic clock.
    pub(crate) at: Nanos,
    cpu: CpuTimes,
    /// How long it is going to last, where that is known.
    pub(crate) duration: Option<Nanos>,
    /// Sessions and bytes so far, for those who watch.
    pub(crate) seen: SessionProgress,
    /// Lines about those who were turned away.
    turned_away: u64,
}

/// What came of it.
pub(crate) struct Came {
    pub(crate) end: model::End,
    pub(crate) groups: Vec<SessionGroup>,
    /// How many sessions there were.
    pub(crate) sessions: u64,
    /// What should be known beside it.
    pub(crate) notes: Vec<String>,
}

impl<'a> Telling<'a> {
    pub(crate) fn begin(
        tool: &'static str,
        end: SessionEnd,
        observer: &'a mut dyn Observer,
    ) -> Telling<'a> {
        Telling {
            observer,
            tool,
            end,
            started: SystemTime::now(),
            at: MonotonicClock.now(),
            cpu: CpuTimes::now(),
            duration: None,
            seen: SessionProgress::default(),
            turned_away: 0,
        }
    }

    pub(crate) fn elapsed(&self) -> Nanos {
        MonotonicClock.now().saturating_sub(self.at)
    }

    pub(crate) fn say(&mut self, what: &str) {
        self.observer.notice(&format!("{}: {what}", self.tool));
    }

    /// The same of somebody who was turned away, or whose test failed: [`TOLD`] times at most.
    pub(crate) fn say_of_failure(&mut self, what: &str) {
        self.turned_away += 1;
        match self.turned_away {
            ..TOLD => self.say(what),
            TOLD => {
                self.say(what);
                self.say("more lines of this kind are not printed");
            }
            _ => {}
        }
    }

    /// Tells what was counted in an interval.
    pub(crate) fn interval(&mut self, counted: &SessionIntervalCounts) {
        let bytes = &mut self.seen.delivered_bytes;
        *bytes = bytes.saturating_add(counted.counts.delivered_bytes);
        self.seen.responses = self.seen.responses.saturating_add(counted.counts.responses);
        self.observer.interval(&model::Interval {
            from_ns: counted.from.get(),
            to_ns: counted.to.get(),
            sessions: vec![session_interval(self.tool, self.end, counted)],
            ..model::Interval::empty()
        });
        self.look(false);
    }

    fn look(&mut self, ended: bool) {
        let progress = Progress {
            elapsed: self.elapsed(),
            duration: self.duration,
            sessions: Some(self.seen),
            ended,
            ..Progress::default()
        };
        self.observer.progress(&progress);
    }

    /// The report of what came of it.
    pub(crate) fn report(mut self, options: &Options, came: Came) -> Report {
        self.look(true);
        let duration = self.elapsed();
        let (costs, spent) = facts::cost(&self.cpu, came.sessions);
        let mut machine = facts::disturbances(&spent, &Machine::observe());
        machine.extend(came.notes);
        assemble(
            RunFacts {
                wirebeat_version: env!("CARGO_PKG_VERSION").to_owned(),
                command_line: options.command_line.clone(),
                seed: None,
                scenario: None,
                started: self.started,
                duration,
                end: came.end,
                clocks: Clocks::Same,
                costs,
                machine,
                changes: Vec::new(),
                outages: Vec::new(),
                replays: Vec::new(),
                captures: Vec::new(),
                sessions: came.groups,
                stacks: Vec::new(),
            },
            None,
            None,
        )
    }
}
