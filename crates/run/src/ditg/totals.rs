//! The flows of a run as groups of sessions: each flow by itself, and those beyond a number of them together.
//!
//! A server may run for months, so nothing here grows with the number of flows.

use wirebeat_ditg::FlowResult;
use wirebeat_ditg::control::Transport;
use wirebeat_meter::session::{SessionCounts, SessionSummary};
use wirebeat_report::assemble::{SessionGroup, SessionIntervalCounts};
use wirebeat_report::model::{self, SessionEnd};
use wirebeat_traffic::scenario::session::Expectation;
use wirebeat_units::Nanos;

use super::NAME;
use crate::expectations::sessions::{self, GroupMeasures};

/// Flows that have a group of their own.
const FLOWS_MAX: usize = 256;
/// Intervals that are kept: ten days at one a minute, four hours at one a second.
const INTERVALS_MAX: usize = 14_400;

/// The sums of a run.
#[derive(Debug, Default)]
pub(super) struct Totals {
    groups: Vec<SessionGroup>,
    /// All flows beyond those.
    further: Option<SessionGroup>,
    intervals: Vec<SessionIntervalCounts>,
    flows: u64,
    /// Requests of senders that were refused.
    pub refused: u64,
}

/// What a flow did, as a session.
fn summary_of(flow: &FlowResult, end: SessionEnd) -> SessionSummary {
    let mut summary = flow.summary.clone();
    let counts = &mut summary.counts;
    (counts.opened, counts.established) = (1, 1);
    counts.due = u64::from(end == SessionEnd::Client);
    *flow.end.counter(counts) = 1;
    summary.most_open = 1;
    summary
}

/// The group of a flow.
fn group(flow: &FlowResult, end: SessionEnd) -> SessionGroup {
    let (local, remote) = match end {
        SessionEnd::Client => (flow.source, flow.destination),
        SessionEnd::Server => (flow.destination, flow.source),
    };
    SessionGroup {
        name: match end {
            SessionEnd::Client => format!("flow {}", flow.flow),
            // several senders have the same numbers
            SessionEnd::Server => format!("flow {} of {}", flow.flow, flow.source),
        },
        end,
        stack: NAME.to_owned(),
        over_udp: flow.transport == Transport::Udp,
        program: flow.meter.name().to_owned(),
        local: local.to_string(),
        remote: remote.to_string(),
        under_way: Some((Nanos::ZERO, flow.time)),
        summary: summary_of(flow, end),
        ..SessionGroup::default()
    }
}

impl Totals {
    /// Adds a flow that is over.
    pub fn add(&mut self, flow: &FlowResult, end: SessionEnd) {
        self.flows = self.flows.saturating_add(1);
        if self.groups.len() < FLOWS_MAX {
            self.groups.push(group(flow, end));
            return;
        }
        match &mut self.further {
            None => {
                let name = "further flows".to_owned();
                let (local, remote) = (String::new(), String::new());
                self.further = Some(SessionGroup { name, local, remote, ..group(flow, end) });
            }
            Some(further) => {
                further.summary.merge(&summary_of(flow, end));
                let longest = further.under_way.map_or(flow.time, |(_, to)| to.max(flow.time));
                further.under_way = Some((Nanos::ZERO, longest));
            }
        }
    }

    /// Adds what this end counted in an interval of all flows.
    pub fn add_interval(&mut self, counted: SessionIntervalCounts) {
        if self.intervals.len() < INTERVALS_MAX {
            self.intervals.push(counted);
        }
    }

    /// How many flows there were.
    pub fn sessions(&self) -> u64 {
        self.flows
    }

    /// What came of what is expected, of all flows together, in a run that lasted so long.
    pub fn judge(&self, expected: &[Expectation], duration: Nanos) -> Vec<model::Expectation> {
        let mut summary = SessionSummary::default();
        let mut time = Nanos::ZERO;
        for group in self.groups.iter().chain(&self.further) {
            summary.merge(&group.summary);
            time = time.max(group.under_way.map_or(Nanos::ZERO, |(_, to)| to));
        }
        let under_way = Some((Nanos::ZERO, time));
        let group = SessionGroup { summary, under_way, ..SessionGroup::default() };
        let rates = group.rates(time);
        let (summary, rates) = (&group.summary, rates.as_ref());
        let measures = GroupMeasures { summary, rates, duration, both_ends: false };
        expected.iter().map(|one| sessions::judge(one, measures)).collect()
    }

    /// The groups of a report. What was counted in intervals is of all flows; where there is one, it is its own.
    pub fn groups(mut self, end: SessionEnd) -> Vec<SessionGroup> {
        if let [only] = &mut self.groups[..] {
            let opened = u64::from(end == SessionEnd::Client);
            let first = self.intervals.iter_mut().take(1);
            // at the end that sends, the flow is there before the first interval
            first.for_each(|interval| {
                let SessionCounts { opened: mine, established, due, .. } = &mut interval.counts;
                (*mine, *established, *due) = (*mine + opened, *established + opened, opened);
            });
            only.intervals = self.intervals;
        }
        self.groups.into_iter().chain(self.further).collect()
    }
}
