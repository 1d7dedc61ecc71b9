//! Flows and sessions in one run: they begin at the same moment, each goes on to its own end in its own threads, and both are looked
//! at, told and reported as one.
//!
//! The flows run on the thread that was asked, which alone speaks to the observer; what is to be told of the sessions comes to it
//! from a thread of theirs. When one of them fails, the other is stopped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use wirebeat_report::assemble::side_by_side;
use wirebeat_report::model::{End, Interval, Report, Verdict};
use wirebeat_units::Nanos;

use crate::flows::PreparedFlows;
use crate::observe::{Observer, Progress, Stop};
use crate::sessions::PreparedSessions;

/// How often it is looked whether a stop is asked for.
const WATCH: Duration = Duration::from_millis(10);

/// Runs both to their ends.
pub(crate) fn start(
    flows: PreparedFlows,
    sessions: PreparedSessions,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Report {
    sessions.tell(observer);
    let (begins, begin) = channel();
    let (tells, told) = channel();
    let watches = observer.watches();
    let both = Stop::new();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let heeding = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                if stop.asked() {
                    both.ask(stop.signal());
                    return;
                }
                thread::park_timeout(WATCH);
            }
        });
        let both = &both;
        let beside = scope.spawn(move || {
            // without a begin the flows have failed, and no session starts
            let begin = begin.recv().ok()?;
            let report = sessions.start_at(begin, &mut Telling { tells, watches }, both);
            stop_after(&report.end, both);
            Some(report)
        });
        let mut telling = Together::new(observer, begins, told);
        let report = flows.start(&mut telling, both);
        stop_after(&report.end, both);
        telling.await_sessions();
        let beside = beside.join();
        over.store(true, Ordering::Release);
        heeding.thread().unpark();
        match beside {
            Ok(Some(sessions)) => side_by_side(report, sessions),
            Ok(None) => report,
            Err(_) => {
                let message = "the thread of the sessions panicked".to_owned();
                let verdict = Verdict::Unfinished;
                let exit_code = verdict.exit_code();
                Report { end: End::Failed { message }, verdict, exit_code, ..report }
            }
        }
    })
}

/// Stops what else goes on, where one part has failed.
fn stop_after(end: &End, both: &Stop) {
    match end {
        End::Completed | End::Stopped { .. } => {}
        End::InterfaceGone { .. } | End::PeerGone { .. } | End::Failed { .. } => both.ask(0),
    }
}

/// What is told of the sessions.
enum Told {
    Progress(Box<Progress>),
    Interval(Box<Interval>),
    Notice(String),
}

/// Tells it to the thread that speaks to the observer.
struct Telling {
    tells: Sender<Told>,
    watches: bool,
}

impl Observer for Telling {
    fn progress(&mut self, progress: &Progress) {
        let _ = self.tells.send(Told::Progress(Box::new(*progress)));
    }

    fn watches(&self) -> bool {
        self.watches
    }

    fn interval(&mut self, interval: &Interval) {
        let _ = self.tells.send(Told::Interval(Box::new(interval.clone())));
    }

    fn notice(&mut self, message: &str) {
        let _ = self.tells.send(Told::Notice(message.to_owned()));
    }
}

/// What is told of both, as of one run.
struct Together<'a> {
    observer: &'a mut dyn Observer,
    /// Tells the sessions when the run begins; `None` once it is told.
    begins: Option<Sender<Nanos>>,
    told: Receiver<Told>,
    flows: Progress,
    sessions: Progress,
    of_flows: Intervals,
    of_sessions: Intervals,
}

/// The intervals of one part that wait for those of the other.
#[derive(Default)]
struct Intervals {
    waiting: VecDeque<Interval>,
    over: bool,
}

impl<'a> Together<'a> {
    fn new(
        observer: &'a mut dyn Observer,
        begins: Sender<Nanos>,
        told: Receiver<Told>,
    ) -> Together<'a> {
        Together {
            observer,
            begins: Some(begins),
            told,
            flows: Progress::default(),
            sessions: Progress::default(),
            of_flows: Intervals::default(),
            of_sessions: Intervals::default(),
        }
    }

    /// Takes in what was told of the sessions by now.
    fn take_in(&mut self) {
        while let Ok(told) = self.told.try_recv() {
            self.hear(told);
        }
    }

    /// Tells what comes of the sessions until they are over; the flows are.
    fn await_sessions(&mut self) {
        self.begins = None;
        self.of_flows.over = true;
        self.flows.ended = true;
        while let Ok(told) = self.told.recv() {
            let looks = matches!(told, Told::Progress(_));
            self.hear(told);
            if looks {
                self.look();
            }
        }
        self.of_sessions.over = true;
        self.tell();
        if !self.sessions.ended {
            self.sessions.ended = true;
            self.look();
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Progress(progress) => self.sessions = *progress,
            Told::Interval(interval) => {
                self.of_sessions.waiting.push_back(*interval);
                self.tell();
            }
            Told::Notice(message) => self.observer.notice(&message),
        }
    }

    /// Has the observer look at both.
    fn look(&mut self) {
        let Together { flows, sessions, .. } = self;
        let both = Progress {
            elapsed: flows.elapsed.max(sessions.elapsed),
            duration: flows.duration.zip(sessions.duration).map(|(one, other)| one.max(other)),
            sessions: sessions.sessions,
            ended: flows.ended && sessions.ended,
            ..*flows
        };
        self.observer.progress(&both);
    }

    /// Tells the intervals that both have told, in the order of time, and those that the other does not have.
    fn tell(&mut self) {
        while let Some(interval) = next(&mut self.of_flows, &mut self.of_sessions) {
            self.observer.interval(&interval);
        }
    }
}

/// The next interval that can be told; `None` where it may still come.
fn next(flows: &mut Intervals, sessions: &mut Intervals) -> Option<Interval> {
    match (flows.waiting.front(), sessions.waiting.front()) {
        (Some(of_flows), Some(of_sessions)) if of_flows.to_ns == of_sessions.to_ns => {
            let both = flows.waiting.pop_front()?;
            let of_sessions = sessions.waiting.pop_front()?;
            let Interval { sessions, stacks, .. } = of_sessions;
            Some(Interval { sessions, stacks, ..both })
        }
        (Some(of_flows), Some(of_sessions)) if of_flows.to_ns > of_sessions.to_ns => {
            sessions.waiting.pop_front()
        }
        (Some(_), Some(_)) => flows.waiting.pop_front(),
        (Some(_), None) if sessions.over => flows.waiting.pop_front(),
        (None, Some(_)) if flows.over => sessions.waiting.pop_front(),
        _ => None,
    }
}

impl Observer for Together<'_> {
    fn begins(&mut self, start: Nanos) {
        if let Some(begins) = self.begins.take() {
            let _ = begins.send(start);
        }
        self.observer.begins(start);
    }

    fn progress(&mut self, progress: &Progress) {
        self.take_in();
        self.flows = *progress;
        self.look();
    }

    fn watches(&self) -> bool {
        self.observer.watches()
    }

    fn wants_histograms(&self) -> bool {
        self.observer.wants_histograms()
    }

    fn interval(&mut self, interval: &Interval) {
        self.take_in();
        self.of_flows.waiting.push_back(interval.clone());
        self.tell();
    }

    fn notice(&mut self, message: &str) {
        self.observer.notice(message);
    }

    fn listening(&mut self, address: std::net::SocketAddr) {
        self.observer.listening(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(to_ns: u64) -> Interval {
        Interval {
            from_ns: 0,
            to_ns,
            total: Default::default(),
            flows: Vec::new(),
            sessions: Vec::new(),
            stacks: Vec::new(),
            expired: None,
            cpus: None,
        }
    }

    #[test]
    fn intervals_of_both_are_told_once_and_in_the_order_of_time() {
        let (mut flows, mut sessions) = (Intervals::default(), Intervals::default());
        let mut told = Vec::new();
        flows.waiting.push_back(interval(10));
        told.extend(next(&mut flows, &mut sessions));
        // that of the sessions may come
        assert!(told.is_empty());
        sessions.waiting.extend([10, 20, 25].map(interval));
        flows.waiting.extend([20, 30].map(interval));
        while let Some(interval) = next(&mut flows, &mut sessions) {
            told.push(interval);
        }
        sessions.over = true;
        told.extend(next(&mut flows, &mut sessions));
        assert_eq!(told.iter().map(|it| it.to_ns).collect::<Vec<_>>(), [10, 20, 25, 30]);
    }
}
