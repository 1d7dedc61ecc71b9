//! What is measured of sessions.

use wirebeat_meter::session::{SessionSummary, SessionTime};
use wirebeat_meter::summary::Distribution;
use wirebeat_report::model::{
    self, Interval, Report, SessionInterval, SessionRates, SessionReport, Stats,
};
use wirebeat_traffic::scenario::expect::Statistic;
use wirebeat_traffic::scenario::session::Expectation;
use wirebeat_traffic::scenario::session::expect::{
    BIT_RATES, INTERVAL_COUNTERS, Measured, SessionLimit, Whole,
};
use wirebeat_units::{Comparison, Nanos, human};

use super::intervals::{self, OneInterval};
use super::watched::OfGroup;
use super::{Asked, Found, Unit, statistic_of};

/// What is known of a group at the end of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupMeasures<'a> {
    /// What the end counted that expectations are about, with the messages one way of the other end if that is known.
    pub(crate) summary: &'a SessionSummary,
    /// Its rates; `None` where no time passed.
    pub(crate) rates: Option<&'a SessionRates>,
    /// How long the run took.
    pub(crate) duration: Nanos,
    /// Whether the other end is known, so that messages sent are those that were to be received.
    pub(crate) both_ends: bool,
}

/// What came of an expectation on a whole run.
pub(crate) fn judge(expectation: &Expectation, group: GroupMeasures<'_>) -> model::Expectation {
    let GroupMeasures { summary, rates, .. } = group;
    let count = |count: u64| Found::exactly(count as f64);
    let found = match &expectation.measured {
        Measured::Counter(name) => match expectation.limit {
            SessionLimit::Share(_) => share(name, group),
            _ => count(counter(name, summary)),
        },
        Measured::Status(statuses) => {
            let mine = summary.statuses.iter().filter(|(status, _)| statuses.contains(**status));
            count(mine.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count)))
        }
        Measured::Rcode(code) => count(summary.statuses.get(&code.0).copied().unwrap_or(0)),
        Measured::Rate(name) => {
            let rate = rates.and_then(|rates| rate(name, rates));
            Found::or_unknown(rate, "the run took no time")
        }
        Measured::Duration => Found::exactly(group.duration.get() as f64),
        Measured::Time { of, statistic, actual } => match distribution(of, *actual, summary) {
            Some(times) => {
                let name = |statistic| named(of, statistic, *actual);
                statistic_of(&Stats::of(times), *statistic, &name)
            }
            None => Found::Unknown("there is no value".to_owned()),
        },
    };
    asked(expectation).decide(found)
}

/// Whether the whole report decides it: intervals and how long the run took are not known where a group is counted.
pub(crate) fn is_of_report(expectation: &Expectation) -> bool {
    expectation.each_interval || expectation.measured == Measured::Duration
}

/// What came of an expectation on each interval, at an end of a group that stops at `stop`, or on how long the run took.
pub(super) fn judge_by_report(
    expectation: &Expectation,
    (group, stop): (&SessionReport, Option<Nanos>),
    (report, watched): (&Report, Option<&OfGroup>),
) -> model::Expectation {
    if expectation.measured == Measured::Duration {
        return asked(expectation).decide(Found::exactly(report.duration_ns as f64));
    }
    let (from, to) = (group.from_ns.unwrap_or(0), group.to_ns.unwrap_or(report.duration_ns));
    let starting = group.rates.map_or(to, |rates| from.saturating_add(rates.starting_ns));
    // behind that there is only what was begun before
    let to = match &expectation.measured {
        Measured::Rate(name) if OF_STARTS.contains(&&**name) => to.min(starting),
        Measured::Rate(_) | Measured::Time { .. } => {
            stop.map_or(to, |stop| to.min(stop.get().max(starting)))
        }
        _ => to,
    };
    let is_whole = |(from_ns, to_ns): (u64, u64)| {
        let slack = to_ns.saturating_sub(from_ns).max(1) / 100;
        from_ns.saturating_add(slack) >= from && to_ns <= to.saturating_add(slack)
    };
    if let Some(watched) = watched {
        return intervals::decide_by(&asked(expectation), watched.tally(group.end, is_whole));
    }
    let measured = report.session_intervals.iter().filter_map(|interval| {
        let mine =
            interval.sessions.iter().find(|one| one.name == group.name && one.end == group.end);
        let (from_ns, to_ns) = (interval.from_ns, interval.to_ns);
        let nothing = SessionInterval::default();
        let found = of_interval(expectation, (from_ns, to_ns), mine.unwrap_or(&nothing))?;
        // in a part of an interval there is a part of a rate, and too few values may be all that there were to be
        let needs_whole = has_edges(expectation) || matches!(found, Found::TooFew { .. });
        if needs_whole && !is_whole((from_ns, to_ns)) {
            return None;
        }
        Some(OneInterval { from_ns, to_ns, found })
    });
    intervals::decide(&asked(expectation), measured)
}

/// Rates that there are only while sessions start.
const OF_STARTS: [&str; 3] = ["opened", "established", "handshakes"];

/// Whether it is about intervals in which the group was under way all the time: in a part of one there is a part of a rate.
pub(super) fn has_edges(expectation: &Expectation) -> bool {
    matches!(expectation.measured, Measured::Rate(_))
}

/// What an interval comes to at an end of a group; `None` where it has nothing of it.
pub(super) fn in_interval(
    expectation: &Expectation,
    interval: &Interval,
    mine: &SessionInterval,
) -> Option<Found> {
    of_interval(expectation, (interval.from_ns, interval.to_ns), mine)
}

fn of_interval(
    expectation: &Expectation,
    (from_ns, to_ns): (u64, u64),
    mine: &SessionInterval,
) -> Option<Found> {
    let found = match &expectation.measured {
        Measured::Rate(name) => {
            amount(name, mine) * 1e9 / to_ns.saturating_sub(from_ns).max(1) as f64
        }
        Measured::Counter(name) => match expectation.limit {
            SessionLimit::Share(_) => share_of_interval(name, mine)?,
            _ => counted(name, mine) as f64,
        },
        // where none came there is none that took too long
        Measured::Time { of, statistic, actual } => {
            let name = |statistic| format!("interval.{}", named(of, statistic, *actual));
            return Some(statistic_of(mine.response_ns.as_ref()?, *statistic, &name));
        }
        // the language has no others in intervals
        Measured::Status(_) | Measured::Rcode(_) | Measured::Duration => return None,
    };
    Some(Found::exactly(found))
}

/// A statistic of a duration, as it is written.
fn named(of: &str, statistic: Statistic, actual: bool) -> String {
    Measured::Time { of: of.to_owned(), statistic, actual }.to_string()
}

/// Whether an interval that has just ended can break it: of a rate that is not known yet, and of the whole run an upper limit of what only
/// grows can be.
pub(super) fn is_judged_at_once(expectation: &Expectation) -> bool {
    match &expectation.measured {
        Measured::Time { .. } => expectation.each_interval,
        Measured::Counter(_) => expectation.each_interval || has_upper_limit(expectation),
        Measured::Duration => has_upper_limit(expectation),
        Measured::Rate(_) | Measured::Status(_) | Measured::Rcode(_) => false,
    }
}

/// Whether it is of a number that is counted in intervals too, or of the time, which may not be more than its limit.
fn has_upper_limit(expectation: &Expectation) -> bool {
    let grows = match &expectation.measured {
        Measured::Counter(name) => INTERVAL_COUNTERS.contains(&&**name),
        measured => *measured == Measured::Duration,
    };
    let is_share = matches!(expectation.limit, SessionLimit::Share(_));
    let bounds = [Comparison::Equal, Comparison::Less, Comparison::AtMost];
    grows && !is_share && bounds.contains(&expectation.comparison)
}

/// How long the run may take, where this is an upper limit of that.
pub(super) fn longest(expectation: &Expectation) -> Option<Nanos> {
    match (&expectation.measured, expectation.limit) {
        (Measured::Duration, SessionLimit::Number(limit)) if has_upper_limit(expectation) => {
            Some(Nanos::new(limit))
        }
        _ => None,
    }
}

/// What an interval that has just ended breaks. `sum` is what all before it counted, of an expectation on the whole run.
pub(super) fn broken_by(
    expectation: &Expectation,
    name: &str,
    (interval, sum): (&Interval, &mut u64),
) -> Option<model::Expectation> {
    let mine = interval.sessions.iter().find(|one| one.name == name)?;
    let asked = asked(expectation);
    let found = match &expectation.measured {
        _ if expectation.each_interval => in_interval(expectation, interval, mine)?,
        Measured::Counter(name) => {
            *sum = sum.saturating_add(counted(name, mine));
            Found::exactly(*sum as f64)
        }
        // how long the run takes is looked at more often ([`longest`])
        _ => return None,
    };
    // one that has to be reached may be so later
    let is_below = matches!(found, Found::Number { high, .. } if high < asked.limit);
    if !expectation.each_interval && is_below {
        return None;
    }
    let judged = asked.decide(found);
    judged.margin.is_some().then_some(judged)
}

pub(super) fn asked(expectation: &Expectation) -> Asked {
    let (unit, print): (Unit, fn(f64) -> String) = match &expectation.measured {
        Measured::Counter(_) | Measured::Status(_) | Measured::Rcode(_) => {
            (Unit::Count, |count| human::count(count as u64))
        }
        Measured::Rate(name) if BIT_RATES.contains(&&**name) => {
            (Unit::BitsPerSecond, human::bit_rate)
        }
        Measured::Rate(_) => (Unit::PerSecond, |rate| format!("{}/s", human::number(rate))),
        Measured::Duration | Measured::Time { .. } => (Unit::Nanoseconds, human::time),
    };
    let (text, comparison) = (expectation.to_string(), expectation.comparison);
    match expectation.limit {
        SessionLimit::Number(limit) => Asked { text, comparison, limit: limit as f64, unit, print },
        SessionLimit::PerSecond(rate) => {
            Asked { text, comparison, limit: rate.per_second(), unit, print }
        }
        SessionLimit::Share(share) => {
            let (limit, unit, print) = (share.ratio(), Unit::Ratio, human::percent);
            Asked { text, comparison, limit, unit, print }
        }
    }
}

/// The counter `name` as a part of what it is of.
fn share(name: &str, group: GroupMeasures<'_>) -> Found {
    let counts = &group.summary.counts;
    // the language has no shares of others
    let Some(whole) = Whole::of(name) else { return Found::Unknown(NO_WHOLE.to_owned()) };
    let of = match whole {
        Whole::Due => counts.due,
        Whole::Opened => counts.opened,
        Whole::Requests => counts.requests,
        Whole::Messages if group.both_ends => counts.messages_sent,
        Whole::Messages => counts.messages_received.saturating_add(counts.messages_lost),
        Whole::Received => counts.responses.saturating_add(counts.messages_received),
        Whole::DataSegments => counts.data_segments,
        Whole::Handshakes => counts.handshakes,
        Whole::Misbehaved => counts.misbehaved,
    };
    match (counter(name, group.summary), of) {
        (_, 0) => Found::Unknown(format!("there are no {}", whole.name())),
        // of messages outside of those that a program says are requests and responses
        (part, of) if part > of => Found::Unknown(format!(
            "{} of {} {} are no share: compare a number ({name} <= 10)",
            human::count(part),
            human::count(of),
            whole.name()
        )),
        (part, of) => Found::exactly(part as f64 / of as f64),
    }
}

const NO_WHOLE: &str = "it is a part of nothing";

/// The same in an interval; `None` where nothing happened. What began in an interval may end in a later one, so no part is more than
/// its whole.
fn share_of_interval(name: &str, interval: &SessionInterval) -> Option<f64> {
    let of = match Whole::of(name)? {
        Whole::Due => interval.due.unwrap_or(0),
        Whole::Opened => interval.opened,
        Whole::Requests => interval.requests,
        Whole::Received => interval.responses.saturating_add(interval.received_messages),
        // the language has no others in intervals
        Whole::Messages | Whole::DataSegments | Whole::Handshakes => return None,
        Whole::Misbehaved => interval.misbehaved,
    };
    let part = counted(name, interval);
    (of > 0 || part > 0).then(|| (part as f64 / of.max(1) as f64).min(1.0))
}

/// What a rate of an interval counts; bits of those that are bit rates.
fn amount(name: &str, interval: &SessionInterval) -> f64 {
    match name {
        "opened" => interval.opened as f64,
        "established" => interval.established as f64,
        "handshakes" => interval.handshakes as f64,
        "requests" => interval.requests as f64,
        "responses" => interval.responses as f64,
        "goodput" => interval.delivered_bytes as f64 * 8.0,
        // the language has no others
        _ => 0.0,
    }
}

fn counted(name: &str, interval: &SessionInterval) -> u64 {
    match name {
        "due" => interval.due.unwrap_or(0),
        "expired" => interval.expired,
        "opened" => interval.opened,
        "established" => interval.established,
        "in-order" => interval.in_order,
        "failed" => interval.failed,
        "failed-here" => interval.failed_here,
        "unfinished" => interval.unfinished,
        "handshakes" => interval.handshakes,
        "handshakes.failed" => interval.handshakes_failed,
        "requests" => interval.requests,
        "responses" => interval.responses,
        "unexpected" => interval.unexpected,
        "lost-responses" => interval.lost,
        "late-responses" => interval.late,
        "malformed-messages" => interval.malformed,
        "misbehaved" => interval.misbehaved,
        "answered" => interval.answered,
        "ended-by-peer" => interval.ended_by_peer,
        "damaged" => interval.damaged,
        "retransmitted-segments" => interval.retransmitted_segments,
        // the language has no others
        _ => 0,
    }
}

fn rate(name: &str, rates: &SessionRates) -> Option<f64> {
    Some(match name {
        "opened" => rates.opened_per_second,
        "established" => rates.established_per_second,
        "handshakes" => rates.handshakes_per_second?,
        "ended" => rates.ended_per_second,
        "requests" => rates.requests_per_second,
        "responses" => rates.responses_per_second,
        "goodput" => rates.goodput_bits_per_second,
        "acked" => rates.acked_bits_per_second,
        _ => return None,
    })
}

fn counter(name: &str, summary: &SessionSummary) -> u64 {
    let counts = &summary.counts;
    match name {
        "due" => counts.due,
        "expired" => counts.expired,
        "opened" => counts.opened,
        "established" => counts.established,
        "in-order" => counts.in_order,
        "refused" => counts.refused,
        "timed-out" => counts.timed_out,
        "reset" => counts.reset,
        "unreachable" => counts.unreachable,
        "closed-early" => counts.closed_early,
        "malformed" => counts.malformed,
        "tls-failed" => counts.tls_failed,
        "handshakes" => counts.handshakes,
        "handshakes.failed" => counts.handshakes_failed(),
        "handshakes.resumed" => counts.handshakes_resumed,
        "handshakes.truncated" => counts.tls_truncated,
        "abandoned" => counts.abandoned,
        "failed-here" => counts.failed_here,
        "unfinished" => counts.unfinished,
        "failed" => {
            counts.ended().saturating_sub(counts.in_order).saturating_sub(counts.unfinished)
        }
        "requests" => counts.requests,
        "responses" => counts.responses,
        "unexpected" => counts.unexpected,
        "lost-responses" => counts.lost_responses,
        "late-responses" => counts.late_responses,
        "malformed-messages" => counts.malformed_messages,
        "misbehaved" => counts.misbehaved,
        "answered" => counts.answered_misbehaviour,
        "ended-by-peer" => counts.ended_by_peer,
        "sent-messages" => counts.messages_sent,
        "received-messages" => counts.messages_received,
        "lost-messages" => counts.messages_lost,
        "damaged" => counts.damaged,
        "retransmitted-segments" => counts.retransmitted_segments,
        // the language has no others
        _ => 0,
    }
}

fn distribution<'a>(
    of: &str,
    actual: bool,
    summary: &'a SessionSummary,
) -> Option<&'a Distribution> {
    let found = SessionTime::ALL.into_iter().find(|time| time.name() == of);
    if let Some(time) = found {
        let both = summary.time(time);
        return Some(if actual { &both.actual } else { &both.planned });
    }
    match of {
        "lateness" => Some(&summary.lateness),
        "rtt" => Some(&summary.rtt),
        "gap" => Some(&summary.arrivals.gap),
        "jitter" => Some(&summary.arrivals.jitter),
        timer => summary.timers.get(timer),
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_meter::session::SessionMeter;
    use wirebeat_traffic::scenario::session::expect::COUNTERS;

    use super::*;

    #[test]
    fn expectations_are_held_against_counters_and_times() {
        let mut meter = SessionMeter::new(0);
        (meter.counts.established, meter.counts.opened, meter.counts.reset) = (1000, 1002, 2);
        for tenths in 1..=1000 {
            let at = Nanos::from_secs(1);
            meter.took(
                SessionTime::Response,
                at,
                at,
                at.saturating_add(Nanos::from_micros(100 * tenths)),
            );
        }
        meter.status(200);
        meter.status(503);
        let summary = meter.summary(&[]);
        let rates = SessionRates {
            established_per_second: 999.6,
            goodput_bits_per_second: 2e9,
            ..SessionRates::default()
        };
        for (text, met) in [
            ("response.p95 < 98ms", true),
            ("response.p95 > 90ms", true),
            ("status.503 == 1", true),
            ("status.5xx == 0", false),
            ("status.4xx == 0", true),
            ("rate.established >= 1000/s", false),
            ("rate.established >= 999/s", true),
            ("rate.goodput >= 2Gbps", true),
            ("rate.goodput > 2Gbps", false),
            ("established >= 1000", true),
            ("established > 1000", false),
            ("failed == 2", true),
            ("response.p99 < 150ms", true),
            ("response.p99 < 90ms", false),
            ("response.min.actual >= 100us", true),
            ("connect.p50 < 1s", false),
        ] {
            let measures = GroupMeasures {
                summary: &summary,
                rates: Some(&rates),
                duration: Nanos::from_secs(10),
                both_ends: false,
            };
            let judged = judge(&text.parse().unwrap(), measures);
            assert_eq!(judged.met, met, "{judged:?}");
        }
        let judge = |text: &str| judged(text, &summary, false);
        let judged = judge("connect.p50 < 1s");
        assert_eq!(judged.undecided.as_deref(), Some("there is no value"));
        assert_eq!(judged.measured_value, None);
        let judged = judge("response.p99.9 < 1s");
        assert_eq!(
            judged.undecided.as_deref(),
            Some(
                "p99.9 needs 10,000 values, and there are 1,000; expect response.max or response.p99, or measure more"
            )
        );
        assert!(judged.measured.ends_with(" of 1,000 values"), "{judged:?}");
        assert!(judged.measured_value.is_some());
        let judged = judge("established >= 1200");
        assert_eq!(judged.margin.as_deref(), Some("200 too little"));
        assert_eq!((judged.measured_value, judged.limit), (Some(1000.0), Some(1200.0)));
        assert_eq!(judged.unit.as_deref(), Some("count"));
        let judged = judge("response.p50 < 10ms");
        assert_eq!((judged.limit, judged.unit.as_deref()), (Some(1e7), Some("ns")));
    }

    fn judged(text: &str, summary: &SessionSummary, both_ends: bool) -> model::Expectation {
        let duration = Nanos::from_secs(10);
        judge(&text.parse().unwrap(), GroupMeasures { summary, rates: None, duration, both_ends })
    }

    #[test]
    fn a_counter_is_held_against_a_part_of_its_whole() {
        let counts = wirebeat_meter::session::SessionCounts {
            due: 1000,
            expired: 200,
            opened: 800,
            established: 798,
            reset: 4,
            unfinished: 3,
            in_order: 793,
            requests: 500,
            responses: 490,
            lost_responses: 10,
            messages_sent: 90,
            messages_received: 60,
            messages_lost: 20,
            damaged: 11,
            ..Default::default()
        };
        let mut summary = SessionSummary { counts, ..SessionSummary::default() };
        for (text, outcome, measured) in [
            ("failed <= 1%", "PASS", "0.500 %"),
            ("failed < 0.5%", "FAIL", "0.500 %"),
            ("expired == 20%", "PASS", "20.0 %"),
            ("established >= 99.9%", "FAIL", "99.8 %"),
            ("lost-responses <= 20000ppm", "PASS", "2.00 %"),
            ("responses >= 98%", "PASS", "98.0 %"),
            // of 490 responses and 60 messages
            ("damaged <= 2%", "PASS", "2.00 %"),
            // what the other end sent is not known
            ("lost-messages <= 25%", "PASS", "25.0 %"),
            ("retransmitted-segments <= 1%", "UNDECIDED", "nothing was measured"),
        ] {
            let judged = judged(text, &summary, false);
            assert_eq!((judged.outcome(), &*judged.measured), (outcome, measured), "{text}");
            assert_eq!(judged.unit.as_deref(), Some("ratio"));
        }
        let both = judged("received-messages > 66%", &summary, true);
        assert_eq!((both.outcome(), &*both.measured), ("PASS", "66.7 %"));
        (summary.counts.data_segments, summary.counts.retransmitted_segments) = (1000, 1);
        let again = judged("retransmitted-segments <= 0.1%", &summary, false);
        assert_eq!((again.outcome(), again.measured_value), ("PASS", Some(0.001)));
        let none = judged("failed == 0%", &SessionSummary::default(), false);
        assert_eq!(none.undecided.as_deref(), Some("there are no opened sessions"));
    }

    #[test]
    fn an_interval_has_parts_of_what_happened_in_it() {
        let interval = SessionInterval {
            opened: 8,
            established: 9,
            failed: 2,
            responses: 3,
            received_messages: 1,
            damaged: 1,
            ..SessionInterval::default()
        };
        for (name, share) in [
            ("failed", Some(0.25)),
            // one that was opened in the interval before
            ("established", Some(1.0)),
            ("damaged", Some(0.25)),
            ("expired", None),
            ("retransmitted-segments", None),
        ] {
            assert_eq!(share_of_interval(name, &interval), share, "{name}");
        }
    }

    #[test]
    fn every_counter_of_the_language_is_counted() {
        let summary = SessionSummary::default();
        let ones = wirebeat_meter::session::SessionCounts {
            due: 1,
            expired: 1,
            opened: 1,
            established: 1,
            in_order: 1,
            refused: 1,
            timed_out: 1,
            reset: 1,
            unreachable: 1,
            closed_early: 1,
            malformed: 1,
            tls_failed: 1,
            handshakes: 1,
            handshakes_resumed: 1,
            handshakes_alert: 1,
            tls_truncated: 1,
            abandoned: 1,
            failed_here: 1,
            unfinished: 1,
            requests: 1,
            responses: 1,
            unexpected: 1,
            lost_responses: 1,
            late_responses: 1,
            malformed_messages: 1,
            misbehaved: 1,
            answered_misbehaviour: 1,
            ended_by_peer: 1,
            messages_sent: 1,
            messages_received: 1,
            messages_lost: 1,
            damaged: 1,
            retransmitted_segments: 1,
            ..Default::default()
        };
        let summary = SessionSummary { counts: ones, ..summary };
        for name in COUNTERS {
            assert!(counter(name, &summary) > 0, "{name}");
        }
    }
}
