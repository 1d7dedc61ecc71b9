//! Expectations on intervals, judged as these end. A report has room for some hundreds of intervals, and those of a long run are merged
//! in it: what happened in one second of an hour is not to be seen in them.
//!
//! A flow's rate is judged in intervals in which the flow was under way all the time, which is known at the end of the run only. What
//! comes of the intervals is added up here in such a way that it can be decided then, in the same memory however many there are.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wirebeat_report::model::{FlowInterval, Interval, SessionEnd};
use wirebeat_traffic::scenario::{FlowExpectation, session};
use wirebeat_units::Nanos;

use super::intervals::{OneInterval, Tally};
use super::{Asked, Expectations, Found, flows, sessions};
use crate::observe::{Observer, Progress, Stop};

/// The most intervals of an expectation with too few values that are kept: the first of those that count says that it is undecided.
const FEW_MAX: usize = 8;
/// The most rates of sessions that are kept, of all expectations together: 24 MB.
const VALUES_MAX: usize = 1 << 20;

/// What came of the intervals of a run, for each expectation on them.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    of_all: Vec<Option<UnderWay>>,
    of_flows: BTreeMap<String, Vec<Option<UnderWay>>>,
    /// Of each expectation of a group, at each end of it that is here.
    of_groups: BTreeMap<String, Vec<OfGroup>>,
    /// How many intervals of flows there were, and of sessions.
    flow_intervals: usize,
    session_intervals: usize,
    values: usize,
    /// The first interval but one with too few values to decide, in words, until it is told.
    few: Few,
}

/// Whether it is to be told that intervals have too few values to decide: once, while the run can still be changed.
#[derive(Debug, Default)]
enum Few {
    #[default]
    None,
    Found(String),
    Told,
}

/// What came of an expectation at both ends of a group: those that open sessions, and those that accept them.
#[derive(Debug)]
pub(super) struct OfGroup {
    asked: Asked,
    /// Whether it is about intervals in which the group was under way all the time, which is known at the end.
    edges: bool,
    ends: [OfEnd; 2],
}

/// The same at one end.
#[derive(Debug, Default)]
struct OfEnd {
    /// Of what counts in any case.
    sure: Tally,
    /// Intervals and what they came to, of which some may not count.
    values: Vec<(u64, u64, f64)>,
    /// The first intervals with too few values to decide, which may not count either.
    few: Vec<OneInterval>,
    /// There was no room for all of them.
    left_out: bool,
}

impl OfGroup {
    fn new(expectation: &session::Expectation) -> OfGroup {
        OfGroup {
            asked: sessions::asked(expectation),
            edges: sessions::has_edges(expectation),
            ends: Default::default(),
        }
    }

    /// Notes an interval; whether a value was kept.
    fn note(
        &mut self,
        end: SessionEnd,
        (from_ns, to_ns): (u64, u64),
        found: Found,
        room: bool,
    ) -> bool {
        let OfGroup { asked, edges, ends } = self;
        let Some(of) = ends.get_mut(usize::from(end == SessionEnd::Server)) else { return false };
        if matches!(found, Found::TooFew { .. }) {
            if of.few.len() < FEW_MAX {
                of.few.push(OneInterval { from_ns, to_ns, found });
            }
            return false;
        }
        if !*edges {
            of.sure.add(asked, OneInterval { from_ns, to_ns, found });
            return false;
        }
        // a rate
        let Found::Number { low, .. } = found else { return false };
        match room {
            true => of.values.push((from_ns, to_ns, low)),
            false => of.left_out = true,
        }
        room
    }

    /// All that count at an end, of a group that was under way all the time of an interval if `is_whole` says so.
    pub(super) fn tally(&self, end: SessionEnd, is_whole: impl Fn((u64, u64)) -> bool) -> Tally {
        let Some(of) = self.ends.get(usize::from(end == SessionEnd::Server)) else {
            return Tally::default();
        };
        let mut all = of.sure.clone();
        for one in &of.few {
            if is_whole((one.from_ns, one.to_ns)) {
                all.add(&self.asked, one.clone());
            }
        }
        for &(from_ns, to_ns, value) in &of.values {
            if is_whole((from_ns, to_ns)) {
                all.add(&self.asked, OneInterval { from_ns, to_ns, found: Found::exactly(value) });
            }
        }
        if of.left_out {
            let from_ns = of.values.last().map_or(0, |(_, to_ns, _)| *to_ns);
            let why = "there are more intervals than are kept; make them longer with --interval";
            let found = Found::Unknown(why.to_owned());
            all.add(&self.asked, OneInterval { from_ns, to_ns: from_ns, found });
        }
        all
    }
}

/// Intervals between the first and the last departure of a flow, as far as that is known.
#[derive(Debug)]
pub(super) struct UnderWay {
    asked: Asked,
    /// Whether intervals without departures at the beginning and at the end are left out.
    edges: bool,
    /// The one with the first departure, which the flow may have been under way in for a part of the time.
    first: Option<OneInterval>,
    /// Those that count in any case.
    sure: Tally,
    /// The last one with a departure.
    last: Option<OneInterval>,
    /// Those after it, which count if there is another departure.
    after: Tally,
}

impl UnderWay {
    fn new(expectation: &FlowExpectation) -> UnderWay {
        UnderWay {
            asked: flows::asked(expectation),
            edges: flows::has_edges(expectation),
            first: None,
            sure: Tally::default(),
            last: None,
            after: Tally::default(),
        }
    }

    fn note(&mut self, one: OneInterval, departs: bool) {
        let UnderWay { asked, edges, first, sure, last, after } = self;
        match (*edges, departs, first.is_some()) {
            (false, ..) => sure.add(asked, one),
            (true, true, false) => *first = Some(one),
            (true, false, false) => {}
            (true, true, true) => {
                sure.join(asked, std::mem::take(after));
                if let Some(before) = last.replace(one) {
                    sure.add(asked, before);
                }
            }
            (true, false, true) => after.add(asked, one),
        }
    }

    /// All that count, of a flow that was under way all the time of an interval if `is_whole` says so.
    pub(super) fn tally(&self, is_whole: impl Fn(&OneInterval) -> bool) -> Tally {
        // in the order of time: of those that are as far from it the first is told
        let mut all = Tally::default();
        let add = |all: &mut Tally, edge: &Option<OneInterval>| {
            if let Some(edge) = edge.as_ref().filter(|edge| is_whole(edge)) {
                all.add(&self.asked, edge.clone());
            }
        };
        add(&mut all, &self.first);
        all.join(&self.asked, self.sure.clone());
        add(&mut all, &self.last);
        all
    }
}

impl Watched {
    /// For what is expected of intervals; `None` where that is nothing.
    pub(super) fn new(expected: &Expectations) -> Option<Watched> {
        let each = |all: &Vec<FlowExpectation>| -> Vec<Option<UnderWay>> {
            all.iter().map(|one| one.each_interval.then(|| UnderWay::new(one))).collect()
        };
        let watched = Watched {
            of_all: each(&expected.of_all),
            of_flows: expected
                .of_flows
                .iter()
                .map(|(name, all)| (name.clone(), each(all)))
                .collect(),
            of_groups: expected
                .of_sessions
                .iter()
                .map(|(name, all)| (name.clone(), all.iter().map(OfGroup::new).collect()))
                .collect(),
            ..Watched::default()
        };
        let mut flows = watched.of_all.iter().chain(watched.of_flows.values().flatten());
        (flows.any(Option::is_some) || !watched.of_groups.is_empty()).then_some(watched)
    }

    /// What came of an expectation on all flows, and of how many intervals.
    pub(super) fn of_all(&self, place: usize) -> Option<(&UnderWay, usize)> {
        Some((self.of_all.get(place)?.as_ref()?, self.flow_intervals))
    }

    /// The same of one on a flow.
    pub(super) fn of_flow(&self, name: &str, place: usize) -> Option<(&UnderWay, usize)> {
        Some((self.of_flows.get(name)?.get(place)?.as_ref()?, self.flow_intervals))
    }

    /// The same of one on a group, where there were more intervals than a report has room for.
    pub(super) fn of_group(&self, name: &str, place: usize, told: usize) -> Option<&OfGroup> {
        self.of_groups.get(name)?.get(place).filter(|_| self.session_intervals > told)
    }

    /// An interval has ended.
    pub(super) fn note(&mut self, expected: &Expectations, interval: &Interval) {
        self.note_flows(expected, interval);
        self.note_sessions(expected, interval);
    }

    /// What is to be told of intervals with too few values.
    fn take_few(&mut self) -> Option<String> {
        match std::mem::replace(&mut self.few, Few::Told) {
            Few::Found(few) => Some(few),
            before => {
                self.few = before;
                None
            }
        }
    }

    fn note_flows(&mut self, expected: &Expectations, interval: &Interval) {
        if interval.total.sent.is_none() && interval.total.received.is_none() {
            // one of sessions alone
            return;
        }
        self.flow_intervals += 1;
        for (one, watched) in expected.of_all.iter().zip(&mut self.of_all) {
            note_flow(one, watched, interval, &interval.total);
        }
        if self.of_flows.is_empty() {
            return;
        }
        let by_name: BTreeMap<&str, &FlowInterval> =
            interval.flows.iter().map(|flow| (flow.name.as_str(), flow)).collect();
        let nothing = FlowInterval::default();
        for (name, all) in &mut self.of_flows {
            let mine = by_name.get(name.as_str()).copied().unwrap_or(&nothing);
            let expected = expected.of_flows.get(name).map(Vec::as_slice).unwrap_or_default();
            for (one, watched) in expected.iter().zip(all) {
                note_flow(one, watched, interval, mine);
            }
        }
    }

    fn note_sessions(&mut self, expected: &Expectations, interval: &Interval) {
        if interval.sessions.is_empty() {
            return;
        }
        self.session_intervals += 1;
        for (name, all) in &mut self.of_groups {
            let expected = expected.of_sessions.get(name).map(Vec::as_slice).unwrap_or_default();
            for mine in interval.sessions.iter().filter(|one| one.name == *name) {
                for (one, group) in expected.iter().zip(&mut *all) {
                    let Some(found) = sessions::in_interval(one, interval, mine) else { continue };
                    let times = (interval.from_ns, interval.to_ns);
                    // the first may be a part of one
                    if let (Found::TooFew { why, .. }, Few::None, 2..) =
                        (&found, &self.few, self.session_intervals)
                    {
                        self.few = Few::Found(format!("{name}: {one}: {why}"));
                    }
                    let kept = group.note(mine.end, times, found, self.values < VALUES_MAX);
                    self.values += usize::from(kept);
                }
            }
        }
    }
}

fn note_flow(
    expectation: &FlowExpectation,
    watched: &mut Option<UnderWay>,
    interval: &Interval,
    mine: &FlowInterval,
) {
    let Some(watched) = watched else { return };
    let Some(found) = flows::in_interval(expectation, interval, mine) else { return };
    let one = OneInterval { from_ns: interval.from_ns, to_ns: interval.to_ns, found };
    watched.note(one, mine.sent.is_some_and(|sent| sent.frames > 0));
}

/// Looks at the intervals that an observer is told of.
pub(crate) struct Watching<'a> {
    inner: &'a mut dyn Observer,
    expected: &'a Expectations,
    watched: Option<Watched>,
    /// Asked to stop when an interval breaks what is expected of each, or of the whole run.
    aborts: Option<&'a Stop>,
    sums: Sums,
    /// How long the run may take at most, where it is to end then, and what says so.
    longest: Option<(Nanos, String)>,
}

/// What the intervals of a run came to, for each expectation on the whole of a group.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(super) of_groups: BTreeMap<String, Vec<u64>>,
}

impl<'a> Watching<'a> {
    pub(crate) fn new(
        inner: &'a mut dyn Observer,
        expected: &'a Expectations,
        aborts: Option<&'a Stop>,
    ) -> Watching<'a> {
        let (watched, sums) = (Watched::new(expected), Sums::default());
        let longest = aborts.and_then(|_| expected.longest());
        Watching { inner, expected, watched, aborts, sums, longest }
    }

    /// The run cannot pass any more, by what is `broken`.
    fn abort(&mut self, broken: &str) {
        if let Some(stop) = self.aborts.filter(|stop| !stop.asked()) {
            self.inner.notice(&format!("ended by --abort-on-fail: {broken}"));
            stop.ask(Stop::BROKEN);
        }
    }

    /// What came of the intervals.
    pub(crate) fn watched(self) -> Option<Watched> {
        self.watched
    }
}

impl Observer for Watching<'_> {
    fn progress(&mut self, progress: &Progress) {
        if let Some((_, broken)) = self.longest.take_if(|(longest, _)| progress.elapsed > *longest)
        {
            self.abort(&broken);
        }
        if self.inner.watches() {
            self.inner.progress(progress);
        }
    }

    fn watches(&self) -> bool {
        self.inner.watches() || self.longest.is_some()
    }

    fn wants_histograms(&self) -> bool {
        self.inner.wants_histograms()
    }

    fn interval(&mut self, interval: &Interval) {
        if let Some(watched) = &mut self.watched {
            watched.note(self.expected, interval);
            if let Some(few) = watched.take_few() {
                self.inner.notice(&format!("undecided in each interval like the last one: {few}"));
            }
        }
        if self.aborts.is_some()
            && let Some(broken) = self.expected.broken_by(interval, &mut self.sums)
        {
            self.abort(&broken);
        }
        self.inner.interval(interval);
    }

    fn notice(&mut self, message: &str) {
        self.inner.notice(message);
    }

    fn begins(&mut self, start: Nanos) {
        self.inner.begins(start);
    }

    fn listening(&mut self, address: SocketAddr) {
        self.inner.listening(address);
    }
}
