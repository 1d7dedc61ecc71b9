//! The sums of the tests of a run, and the groups of sessions that a report makes of them: a stream is a session.
//!
//! A group is an end: what this process counted, and what the other ends say that they counted, as far as their wire says it. A server may run for
//! months, so nothing here grows with the number of tests.

use wirebeat_iperf::result::{Datagrams, End, Interval, Role, Side, StreamResult};
use wirebeat_iperf::{Protocol, TestResult};
use wirebeat_meter::session::{SessionCounts, SessionSummary};
use wirebeat_report::assemble::{SessionGroup, SessionIntervalCounts};
use wirebeat_report::model::{SessionDatagrams, SessionEnd, SessionReport};
use wirebeat_units::{Nanos, printable::printable};

use super::Wire;

/// The most inconsistencies of tests that are told.
const TOLD_MAX: usize = 100;
/// Intervals that are kept: ten days at one a minute, four hours at one a second.
const INTERVALS_MAX: usize = 14_400;

/// What one end counted of all streams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub counts: SessionCounts,
    /// Where there were tests over UDP.
    pub datagrams: Option<SessionDatagrams>,
}

impl Counted {
    /// Adds what an end counted of a stream that it sent (`sent`) or received.
    fn add(&mut self, side: &Side, sent: bool) {
        match sent {
            true => self.counts.sent_bytes += side.bytes.get(),
            false => self.counts.delivered_bytes += side.bytes.get(),
        }
        self.counts.retransmitted_segments += side.retransmits.unwrap_or(0);
        if let Some(datagrams) = &side.datagrams {
            self.datagrams.get_or_insert_default().merge(&of_datagrams(datagrams, sent));
        }
    }

    fn merge(&mut self, other: &Counted) {
        self.counts.merge(&other.counts);
        if let Some(datagrams) = &other.datagrams {
            self.datagrams.get_or_insert_default().merge(datagrams);
        }
    }
}

/// What is said of the datagrams of a stream. A receiver counts the numbers up to the highest that came, lost ones among them.
fn of_datagrams(of: &Datagrams, sent: bool) -> SessionDatagrams {
    match sent {
        true => SessionDatagrams { sent: of.packets, ..SessionDatagrams::default() },
        false => SessionDatagrams {
            received: of.received,
            lost: of.lost,
            out_of_order: of.out_of_order,
            jitter_ns: Some(of.jitter.get()),
            ..SessionDatagrams::default()
        },
    }
}

/// What this end (`ours`) or the other one counted of the streams of a test.
fn counted(result: &TestResult, ours: bool) -> Counted {
    let mut counted = Counted::default();
    for stream in &result.streams {
        let side: Option<Side> = if ours { Some(stream.ours) } else { stream.theirs };
        let Some(side) = side else { continue };
        counted.add(&side, stream.sending == ours);
        let counts = &mut counted.counts;
        counts.opened += 1;
        counts.established += 1;
        match result.end {
            End::Completed => counts.in_order += 1,
            End::Stopped | End::Terminated | End::Failed => counts.unfinished += 1,
        }
    }
    counted.counts.offered_bytes = counted.counts.sent_bytes;
    counted
}

/// What was received of the datagrams of a test, at whichever end; `None` over TCP.
pub(super) fn received_datagrams(result: &TestResult) -> Option<SessionDatagrams> {
    let received =
        |stream: &StreamResult| if stream.sending { stream.theirs } else { Some(stream.ours) };
    let sides = result.streams.iter().filter_map(received).filter_map(|side| side.datagrams);
    sides.map(|side| of_datagrams(&side, false)).reduce(|mut all, one| {
        all.merge(&one);
        all
    })
}

/// What this end counted in an interval.
pub(super) fn of_interval(interval: &Interval) -> Counted {
    let mut counted = Counted::default();
    for stream in &interval.streams {
        counted.add(&stream.side, stream.sending);
    }
    counted
}

/// What is told in words, of the first test.
#[derive(Clone, Debug)]
struct First {
    role: Role,
    local: String,
    peer: String,
    congestion: Option<String>,
}

/// The sums of all tests.
#[derive(Debug, Default)]
pub(super) struct Totals {
    first: Option<First>,
    /// What this end counted, and what the other ends say.
    ours: Counted,
    theirs: Option<Counted>,
    protocols: Vec<Protocol>,
    intervals: Vec<SessionIntervalCounts>,
    /// The time that counted.
    time: Nanos,
    most_open: u64,
    pub tests: u64,
    pub terminated: bool,
    pub inconsistencies: Vec<String>,
}

impl Totals {
    /// Adds a test.
    pub fn add(&mut self, result: &TestResult) {
        let ours = counted(result, true);
        self.ours.merge(&ours);
        self.most_open = self.most_open.max(ours.counts.opened);
        if result.streams.iter().any(|stream| stream.theirs.is_some()) {
            self.theirs.get_or_insert_default().merge(&counted(result, false));
        }
        if !self.protocols.contains(&result.spec.protocol) {
            self.protocols.push(result.spec.protocol);
        }
        self.time = self.time.saturating_add(result.time);
        self.tests += 1;
        self.terminated |= result.end == End::Terminated;
        let room = TOLD_MAX.saturating_sub(self.inconsistencies.len());
        self.inconsistencies.extend(result.inconsistencies().iter().take(room).map(|wrong| {
            format!(
                "stream {} with {}: {}: {} and {}; one end counts wrongly",
                wrong.id, result.peer, wrong.what, wrong.sent, wrong.received
            )
        }));
        self.first.get_or_insert_with(|| First {
            role: result.role,
            local: result.local.to_string(),
            peer: result.peer.to_string(),
            congestion: result.our_congestion.clone(),
        });
    }

    /// Adds what this end counted in an interval of a test.
    pub fn add_interval(&mut self, counted: SessionIntervalCounts) {
        if self.intervals.len() < INTERVALS_MAX {
            self.intervals.push(counted);
        }
    }

    /// Streams at this end.
    pub fn sessions(&self) -> u64 {
        self.ours.counts.opened
    }

    /// What came of all tests at the ends that received, and in how long: what is expected is about that. Datagrams count as messages.
    pub fn received(&self) -> (SessionSummary, Nanos) {
        let mut counts = self.ours.counts;
        let theirs = self.theirs.unwrap_or_default();
        counts.delivered_bytes =
            counts.delivered_bytes.saturating_add(theirs.counts.delivered_bytes);
        counts.retransmitted_segments =
            counts.retransmitted_segments.saturating_add(theirs.counts.retransmitted_segments);
        for of in [self.ours.datagrams, theirs.datagrams].into_iter().flatten() {
            counts.messages_sent = counts.messages_sent.saturating_add(of.sent);
            counts.messages_received = counts.messages_received.saturating_add(of.received);
            counts.messages_lost = counts.messages_lost.saturating_add(of.lost);
        }
        (
            SessionSummary { counts, most_open: self.most_open, ..SessionSummary::default() },
            self.time,
        )
    }

    fn program(&self, first: &First) -> String {
        let mut program: Vec<String> =
            self.protocols.iter().map(|of| protocol(*of).to_owned()).collect();
        program.extend(first.congestion.as_ref().map(|name| printable(name).to_string()));
        program.join(", ")
    }

    /// The groups of a report: what this end counted of all tests, and what the other ends say.
    pub fn groups(self, wire: Wire) -> Vec<SessionGroup> {
        let Some(first) = &self.first else { return Vec::new() };
        let (ours, theirs) = match first.role {
            Role::Client => (SessionEnd::Client, SessionEnd::Server),
            Role::Server => (SessionEnd::Server, SessionEnd::Client),
        };
        let group = |end: SessionEnd, of: Counted, local: &str, remote: &str| {
            let mut counts = of.counts;
            counts.due = if end == SessionEnd::Client { counts.opened } else { 0 };
            SessionGroup {
                name: match end == ours {
                    true => wire.name().to_owned(),
                    false => wire.name().to_owned() + SessionReport::AS_THE_OTHER_END_SAYS,
                },
                end,
                stack: wire.name().to_owned(),
                program: self.program(first),
                local: local.to_owned(),
                remote: remote.to_owned(),
                under_way: Some((Nanos::ZERO, self.time)),
                summary: SessionSummary {
                    counts,
                    most_open: self.most_open,
                    ..SessionSummary::default()
                },
                datagrams: of.datagrams,
                ..SessionGroup::default()
            }
        };
        let mut mine = group(ours, self.ours, &first.local, &first.peer);
        let other = self.theirs.map(|of| group(theirs, of, &first.peer, &first.local));
        mine.intervals = self.intervals;
        [Some(mine), other].into_iter().flatten().collect()
    }
}

/// The name of a protocol.
pub(super) fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}
