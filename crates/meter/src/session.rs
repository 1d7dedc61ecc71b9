//! What sessions (TCP connections with a program) did at one end: counters, and how long things took.
//!
//! [`SessionMeter`] is the hot form, one for each group of sessions, end and core; [`SessionSummary`] is what it comes to,
//! plain numbers that can be added across cores and hosts. Times come in from outside: this module reads no clock and knows no
//! stack. The books of a group (design, section 5) are sums over [`SessionCounts`]: [`SessionCounts::due_books`] and
//! [`SessionCounts::end_books`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wirebeat_units::Nanos;

use crate::distribution::Recorder;
use crate::summary::Distribution;

/// Declares counters: a struct of `u64`, which can be added and subtracted.
macro_rules! counts {
    ($(#[$of:meta])* $name:ident { $($(#[doc = $doc:literal])+ $field:ident)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: u64,)*
        }

        impl $name {
            /// Adds the counts of `other`, saturating.
            pub fn merge(&mut self, other: &$name) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// All of them.
            pub(crate) fn values(&self) -> Vec<u64> {
                vec![$(self.$field),*]
            }

            /// What was counted since the same counts were `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &$name) -> $name {
                $name { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }
        }
    };
}

counts! {
    /// Counters of a group of sessions at one end. Bytes are those of the TCP streams, without headers.
    SessionCounts {
        /// Sessions that were due to start. Only at the end that opens.
        due
        /// Those that were not opened: too many were open, or for one of the two reasons that follow.
        expired
        /// Those of them that the tester was too late for. Its own failure.
        expired_late
        /// Those of them that still waited for a limit when none was opened any more.
        expired_waiting
        /// Sessions that were opened: a connection was asked for, or a peer's was accepted.
        opened
        /// Those that were established. All that a server accepts are.
        established
        /// Sessions whose program ended and which both sides closed.
        in_order
        /// The peer answered the attempt to connect with RST.
        refused
        /// The peer did not answer in time: the attempt to connect, or data.
        timed_out
        /// The peer reset the session before its program was done.
        reset
        /// The network said that the peer cannot be reached (ICMP, or no route).
        unreachable
        /// The peer closed its side before the program had what it waits for.
        closed_early
        /// Responses that sessions had received of a peer that then closed early.
        closed_early_responses
        /// The peer sent what its protocol does not allow.
        malformed
        /// TLS failed: an alert, a certificate that is not taken, nothing that both ends have.
        tls_failed
        /// The program did not get what it asked for in the time that it has.
        abandoned
        /// This machine could not: no port, no file descriptor, no memory. The tester's own failure.
        failed_here
        /// Sessions that were still open when the run ended, and were closed by it.
        unfinished
        /// Requests whose last byte was handed to the stack.
        requests
        /// Responses that were received whole.
        responses
        /// Responses and messages that were not as expected: another size, another status.
        unexpected
        /// Over UDP: responses that did not come in time. Only at the end that asks.
        lost_responses
        /// Over UDP: responses to a request that was given up before, or that there was one to already.
        late_responses
        /// Messages that are none of the protocol (DNS), and were left aside.
        malformed_messages
        /// Messages one way that were handed to the stack.
        messages_sent
        /// Messages one way that were received whole, each once.
        messages_received
        /// Messages one way that were not received though a later one was. One that comes late takes its loss back.
        messages_lost
        /// Messages one way that came after a later one.
        messages_out_of_order
        /// Messages one way that were there already.
        messages_duplicate
        /// Received messages one way whose times are of another host's clock: they have no delay.
        messages_of_other_clocks
        /// Acts of clients that misbehave: forged segments and SYNs that left, pieces of requests, readings.
        misbehaved
        /// Acknowledgments that acknowledge nothing, by which the peer answered forged segments and SYNs.
        answered_misbehaviour
        /// Sessions that the peer closed or reset while their client misbehaved.
        ended_by_peer
        /// Bytes that programs asked to be sent.
        offered_bytes
        /// Bytes that the stack took. With sockets: that the kernel took.
        sent_bytes
        /// Bytes that the peer acknowledged, as far as the stack says it.
        acked_bytes
        /// Bytes that were received in order and handed to programs.
        delivered_bytes
        /// Those of them that were compared with what they should be.
        verified_bytes
        /// Messages with bytes that were not what they should be.
        damaged
        /// Segments that were sent with data, again or for the first time.
        data_segments
        /// Segments that were sent again.
        retransmitted_segments
        /// Handshakes of TLS that were completed.
        handshakes
        /// Those of them that resumed an earlier session.
        handshakes_resumed
        /// Handshakes that failed by a fatal alert of the peer.
        handshakes_alert
        /// Handshakes that failed because the peer's certificate is not taken.
        handshakes_certificate
        /// Handshakes that failed because no version, cipher suite or application protocol is common to both ends.
        handshakes_incompatible
        /// Handshakes that failed because of what the peer sent, which is not TLS, or not valid there.
        handshakes_malformed
        /// Handshakes that the peer ended by closing or resetting the connection.
        handshakes_closed
        /// Handshakes that were not completed in time.
        handshakes_timed_out
        /// Sessions whose peer closed TCP without the closing alert of TLS.
        tls_truncated
    }
}

impl SessionCounts {
    /// Sessions that ended, in whatever way.
    pub fn ended(&self) -> u64 {
        let ends = [
            self.in_order,
            self.refused,
            self.timed_out,
            self.reset,
            self.unreachable,
            self.closed_early,
            self.malformed,
            self.tls_failed,
            self.abandoned,
            self.failed_here,
            self.unfinished,
        ];
        ends.into_iter().fold(0, u64::saturating_add)
    }

    /// Handshakes of TLS that failed, for whatever reason.
    pub fn handshakes_failed(&self) -> u64 {
        let failed = [
            self.handshakes_alert,
            self.handshakes_certificate,
            self.handshakes_incompatible,
            self.handshakes_malformed,
            self.handshakes_closed,
            self.handshakes_timed_out,
        ];
        failed.into_iter().fold(0, u64::saturating_add)
    }

    /// Sessions that are open.
    pub fn open(&self) -> u64 {
        self.opened.saturating_sub(self.ended())
    }

    /// The sum that has to be right at the end of a run: `due = opened + expired`.
    pub fn due_books(&self) -> (u64, [u64; 2]) {
        (self.due, [self.opened, self.expired])
    }

    /// The sum that has to be right at the end of a run: `opened` is all ways of ending.
    pub fn end_books(&self) -> (u64, u64) {
        (self.opened, self.ended())
    }
}

/// What takes time in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionTime {
    /// From the start to the established connection.
    Connect,
    /// From the established connection to the completed handshake of TLS.
    Handshake,
    /// From a request to the first byte of its response.
    FirstByte,
    /// From a request to the last byte of its response.
    Response,
    /// One way: from when a message was sent to its last byte at the other end, which records it.
    Delay,
    /// From the start to the end of a session that ended in order.
    Session,
}

impl SessionTime {
    /// All, in the order of a session.
    pub const ALL: [SessionTime; 6] = [
        SessionTime::Connect,
        SessionTime::Handshake,
        SessionTime::FirstByte,
        SessionTime::Response,
        SessionTime::Delay,
        SessionTime::Session,
    ];

    /// The name in reports and expectations.
    pub const fn name(self) -> &'static str {
        match self {
            SessionTime::Connect => "connect",
            SessionTime::Handshake => "handshake",
            SessionTime::FirstByte => "first-byte",
            SessionTime::Response => "response",
            SessionTime::Delay => "delay",
            SessionTime::Session => "session",
        }
    }
}

/// A duration from two beginnings: when it was planned, and when it actually began. Only the first shows what a user would
/// have waited when the tester or the device fell behind (no coordinated omission).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwoTimes {
    /// In nanoseconds, from the planned beginning.
    pub planned: Distribution,
    /// In nanoseconds, from the actual beginning.
    pub actual: Distribution,
}

/// A session that is put together with that of the other end by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedSession {
    /// The number that its client said; `None`: it said none.
    pub number: Option<u64>,
    /// Bytes that the stack took of this end.
    pub sent: u64,
    /// Bytes that this end was given.
    pub delivered: u64,
    /// Whether it ended in order.
    pub in_order: bool,
}

/// Sessions of which a meter keeps numbers, at most: 40 MiB.
const NUMBERED_MAX: usize = 1 << 20;

/// How messages one way arrived, each session by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Arrivals<D> {
    /// From one arrival to the next, in nanoseconds.
    pub gap: D,
    /// By how much the delays of two messages that arrived one after the other differ (RFC 4689 §3.2.5), in nanoseconds.
    pub jitter: D,
    /// Lengths of messages, in bytes.
    pub length: D,
}

/// What a group of sessions did at one end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSummary {
    /// Counters.
    pub counts: SessionCounts,
    /// Responses by their status, where the protocol has one (HTTP).
    pub statuses: BTreeMap<u16, u64>,
    /// How long things took, in the order of [`SessionTime::ALL`].
    pub times: [TwoTimes; 6],
    /// Completed handshakes of TLS by their cipher suite, which names the version.
    pub suites: BTreeMap<String, u64>,
    /// Why TLS failed first, in words; empty where it did not.
    pub tls_failure: String,
    /// Sessions that are put together with those of the other end.
    #[serde(skip)]
    pub numbered: Vec<NumberedSession>,
    /// Further ones, of which nothing was kept.
    #[serde(skip)]
    pub not_numbered: u64,
    /// How messages one way arrived.
    pub arrivals: Arrivals<Distribution>,
    /// Timers that the program names, in nanoseconds.
    pub timers: BTreeMap<String, Distribution>,
    /// How much later than planned sessions started, in nanoseconds.
    pub lateness: Distribution,
    /// Smoothed round trips as the stack measured them, one for each session that ended, in nanoseconds.
    pub rtt: Distribution,
    /// The most sessions that were open at a time; across cores the sum of theirs.
    pub most_open: u64,
    /// When the first session was opened, the last one was, and the last one ended: on the clock of the run; zero where none was.
    pub first_opened: Nanos,
    /// See there.
    pub last_opened: Nanos,
    /// See there.
    pub last_ended: Nanos,
}

impl SessionSummary {
    /// Adds what another core did.
    pub fn merge(&mut self, other: &SessionSummary) {
        self.counts.merge(&other.counts);
        for (&status, &count) in &other.statuses {
            let sum = self.statuses.entry(status).or_default();
            *sum = sum.saturating_add(count);
        }
        for (suite, &count) in &other.suites {
            let sum = self.suites.entry(suite.clone()).or_default();
            *sum = sum.saturating_add(count);
        }
        if self.tls_failure.is_empty() {
            self.tls_failure.clone_from(&other.tls_failure);
        }
        for (mine, theirs) in self.times.iter_mut().zip(&other.times) {
            mine.planned.merge(&theirs.planned);
            mine.actual.merge(&theirs.actual);
        }
        self.numbered.extend_from_slice(&other.numbered);
        self.not_numbered = self.not_numbered.saturating_add(other.not_numbered);
        self.arrivals.gap.merge(&other.arrivals.gap);
        self.arrivals.jitter.merge(&other.arrivals.jitter);
        self.arrivals.length.merge(&other.arrivals.length);
        for (name, theirs) in &other.timers {
            self.timers.entry(name.clone()).or_default().merge(theirs);
        }
        self.lateness.merge(&other.lateness);
        self.rtt.merge(&other.rtt);
        self.most_open = self.most_open.saturating_add(other.most_open);
        let opened = [self.first_opened, other.first_opened].into_iter();
        let first = opened.filter(|at| *at > Nanos::ZERO).min();
        self.first_opened = first.unwrap_or_default();
        self.last_opened = self.last_opened.max(other.last_opened);
        self.last_ended = self.last_ended.max(other.last_ended);
    }

    /// How long `what` took.
    pub fn time(&self, what: SessionTime) -> &TwoTimes {
        let [connect, handshake, first_byte, response, delay, session] = &self.times;
        match what {
            SessionTime::Connect => connect,
            SessionTime::Handshake => handshake,
            SessionTime::FirstByte => first_byte,
            SessionTime::Response => response,
            SessionTime::Delay => delay,
            SessionTime::Session => session,
        }
    }
}

/// Durations that are being recorded, from two beginnings.
#[derive(Clone, Debug, Default)]
struct TwoRecorders {
    planned: Recorder,
    actual: Recorder,
}

/// Statuses that a meter counts: three digits (RFC 9110 §15).
const STATUSES: usize = 1000;

/// A meter of a group of sessions at one end, on one core. Takes about 4 KiB, 8 KiB more with statuses, and 1 KiB for each
/// octave of each distribution.
#[derive(Clone, Debug, Default)]
pub struct SessionMeter {
    /// Counters; the interpreter of sessions counts them up.
    pub counts: SessionCounts,
    statuses: Vec<u64>,
    times: [TwoRecorders; 6],
    /// Completed handshakes by cipher suite: a group has one or two.
    suites: Vec<(&'static str, u64)>,
    tls_failure: String,
    arrivals: Arrivals<Recorder>,
    numbered: Vec<NumberedSession>,
    not_numbered: u64,
    timers: Vec<Recorder>,
    lateness: Recorder,
    rtt: Recorder,
    most_open: u64,
    first_opened: Nanos,
    last_opened: Nanos,
    last_ended: Nanos,
}

impl SessionMeter {
    /// One for a program with `timers` named timers.
    pub fn new(timers: usize) -> SessionMeter {
        SessionMeter { timers: vec![Recorder::default(); timers], ..SessionMeter::default() }
    }

    /// Notes that a session ended at `now`.
    #[inline]
    pub fn note_end(&mut self, now: Nanos) {
        self.last_ended = now;
    }

    /// Notes how many sessions are open, after one more was opened at `now`.
    #[inline]
    pub fn note_open(&mut self, now: Nanos) {
        if self.first_opened == Nanos::ZERO {
            self.first_opened = now;
        }
        self.last_opened = now;
        self.most_open = self.most_open.max(self.counts.open());
    }

    /// Records that `what` ended at `now`.
    #[inline]
    pub fn took(&mut self, what: SessionTime, planned: Nanos, actual: Nanos, now: Nanos) {
        if let Some(of) = self.times.get_mut(what as usize) {
            of.planned.record(between(planned, now));
            of.actual.record(between(actual, now));
        }
    }

    /// Records the timer number `timer` of the program.
    #[inline]
    pub fn timer(&mut self, timer: usize, from: Nanos, to: Nanos) {
        if let Some(recorder) = self.timers.get_mut(timer) {
            recorder.record(between(from, to));
        }
    }

    /// Counts a completed handshake by its cipher suite.
    pub fn suite(&mut self, name: &'static str) {
        match self.suites.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => self.suites.push((name, 1)),
        }
    }

    /// Keeps why TLS failed, where it is the first time.
    pub fn tls_failure(&mut self, why: String) {
        if self.tls_failure.is_empty() {
            self.tls_failure = why;
        }
    }

    /// Records a message one way of `length` bytes. `gap` and `jitter` are since the one before, where there was one.
    #[inline]
    pub fn arrived(&mut self, length: u64, since: Option<(Nanos, i64)>) {
        self.arrivals.length.record(length.try_into().unwrap_or(i64::MAX));
        if let Some((gap, jitter)) = since {
            self.arrivals.gap.record(gap.get().try_into().unwrap_or(i64::MAX));
            self.arrivals.jitter.record(jitter);
        }
    }

    /// Notes a session that ended, for the other end's of the same number.
    pub fn numbered(&mut self, session: NumberedSession) {
        match self.numbered.len() < NUMBERED_MAX {
            true => self.numbered.push(session),
            false => self.not_numbered += 1,
        }
    }

    /// Records how much later than planned a session started.
    #[inline]
    pub fn started(&mut self, planned: Nanos, actual: Nanos) {
        self.lateness.record(between(planned, actual));
    }

    /// Records a round trip that the stack measured.
    pub fn rtt(&mut self, rtt: Nanos) {
        self.rtt.record(rtt.get().try_into().unwrap_or(i64::MAX));
    }

    /// How long responses took from their planned beginnings, so far.
    pub fn response_times(&self) -> Distribution {
        let of = self.times.get(SessionTime::Response as usize);
        of.map_or_else(Distribution::default, |of| of.planned.distribution())
    }

    /// Counts the status of a response.
    #[inline]
    pub fn status(&mut self, status: u16) {
        if self.statuses.is_empty() {
            self.statuses = vec![0; STATUSES];
        }
        if let Some(count) = self.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
    }

    /// What it comes to; `timers` are the names of the program's.
    pub fn summary(&self, timers: &[String]) -> SessionSummary {
        let statuses = (0..).zip(&self.statuses).filter(|(_, count)| **count > 0);
        let times = |of: &TwoRecorders| TwoTimes {
            planned: of.planned.distribution(),
            actual: of.actual.distribution(),
        };
        let named = timers.iter().zip(&self.timers);
        SessionSummary {
            counts: self.counts,
            statuses: statuses.map(|(status, &count)| (status, count)).collect(),
            times: self.times.each_ref().map(times),
            suites: self.suites.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            tls_failure: self.tls_failure.clone(),
            numbered: self.numbered.clone(),
            not_numbered: self.not_numbered,
            arrivals: Arrivals {
                gap: self.arrivals.gap.distribution(),
                jitter: self.arrivals.jitter.distribution(),
                length: self.arrivals.length.distribution(),
            },
            timers: named.map(|(name, timer)| (name.clone(), timer.distribution())).collect(),
            lateness: self.lateness.distribution(),
            rtt: self.rtt.distribution(),
            most_open: self.most_open,
            first_opened: self.first_opened,
            last_opened: self.last_opened,
            last_ended: self.last_ended,
        }
    }
}

/// From one time to another in nanoseconds; negative where the second is before the first.
fn between(from: Nanos, to: Nanos) -> i64 {
    let apart = i128::from(to.get()) - i128::from(from.get());
    apart.try_into().unwrap_or(if apart < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Nanos {
        Nanos::from_micros(micros)
    }

    #[test]
    fn a_session_that_started_late_took_longer_from_its_plan() {
        let mut meter = SessionMeter::new(0);
        meter.started(at(10), at(15));
        meter.took(SessionTime::Response, at(10), at(15), at(115));
        let summary = meter.summary(&[]);
        let response = summary.time(SessionTime::Response);
        assert_eq!(response.planned.moments.max, 105_000);
        assert_eq!(response.actual.moments.max, 100_000);
        assert_eq!(summary.lateness.moments.max, 5_000);
        assert_eq!(summary.time(SessionTime::Connect).planned.moments.count, 0);
    }

    #[test]
    fn summaries_of_cores_add_up() {
        let mut one = SessionMeter::new(1);
        one.counts = SessionCounts { due: 3, opened: 2, expired: 1, in_order: 2, ..one.counts };
        one.status(200);
        one.status(200);
        one.timer(0, at(1), at(3));
        one.most_open = 2;
        let mut two = SessionMeter::new(1);
        two.counts = SessionCounts { due: 5, opened: 5, reset: 1, unfinished: 4, ..two.counts };
        two.status(404);
        two.status(60_000);
        two.timer(0, at(1), at(5));
        two.note_open(at(7));
        let names = ["page".to_owned()];
        let mut sum = one.summary(&names);
        sum.merge(&two.summary(&names));
        assert_eq!(sum.counts.due_books(), (8, [7, 1]));
        assert_eq!(sum.counts.end_books(), (7, 7));
        assert_eq!(sum.statuses, BTreeMap::from([(200, 2), (404, 1)]));
        assert_eq!(sum.timers["page"].moments.max, 4_000);
        assert_eq!(sum.most_open, 2);
    }

    #[test]
    fn counts_since_an_earlier_look_are_differences() {
        let before = SessionCounts { due: 3, opened: 2, ..SessionCounts::default() };
        let now = SessionCounts { due: 10, opened: 8, reset: 1, ..SessionCounts::default() };
        let since = now.since(&before);
        assert_eq!((since.due, since.opened, since.reset, since.open()), (7, 6, 1, 5));
    }
}
