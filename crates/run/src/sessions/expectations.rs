//! Expectations held against what was measured.

use wirebeat_meter::session::{SessionSummary, SessionTime};
use wirebeat_meter::summary::Distribution;
use wirebeat_report::model::{self, SessionRates, Stats};
use wirebeat_traffic::scenario::session::Expectation;
use wirebeat_traffic::scenario::session::expect::{Measured, percentile};
use wirebeat_units::human;

/// What came of an expectation, at an end with these rates.
pub(super) fn judge(
    expectation: &Expectation,
    summary: &SessionSummary,
    rates: Option<&SessionRates>,
) -> model::Expectation {
    let text = expectation.to_string();
    let (measured, met) = match &expectation.measured {
        Measured::Counter(name) => {
            let count = counter(name, summary);
            (count.to_string(), expectation.comparison.holds(count, expectation.value))
        }
        Measured::Status(statuses) => {
            let mine = summary.statuses.iter().filter(|(status, _)| statuses.contains(**status));
            let count = mine.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
            (count.to_string(), expectation.comparison.holds(count, expectation.value))
        }
        Measured::Rcode(code) => {
            let count = summary.statuses.get(&code.0).copied().unwrap_or(0);
            (count.to_string(), expectation.comparison.holds(count, expectation.value))
        }
        Measured::Rate(name) => match rates.and_then(|rates| rate(name, rates)) {
            Some((rate, text)) => {
                (text, expectation.comparison.holds(rate, expectation.value as f64))
            }
            None => (NOTHING.to_owned(), false),
        },
        Measured::Time { of, statistic, actual } => {
            match distribution(of, *actual, summary)
                .and_then(|times| statistic_of(times, statistic))
            {
                Some(time) => {
                    let met = expectation.comparison.holds(time, expectation.value as f64);
                    (human::time(time), met)
                }
                None => (NOTHING.to_owned(), false),
            }
        }
    };
    model::Expectation { text, measured, met }
}

const NOTHING: &str = "nothing was measured";

/// A rate and how it is written.
fn rate(name: &str, rates: &SessionRates) -> Option<(f64, String)> {
    let events = |rate: f64| (rate, format!("{}/s", human::number(rate)));
    let bits = |rate: f64| (rate, human::bit_rate(rate));
    Some(match name {
        "opened" => events(rates.opened_per_second),
        "established" => events(rates.established_per_second),
        "ended" => events(rates.ended_per_second),
        "requests" => events(rates.requests_per_second),
        "responses" => events(rates.responses_per_second),
        "goodput" => bits(rates.goodput_bits_per_second),
        "acked" => bits(rates.acked_bits_per_second),
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

/// In nanoseconds.
fn statistic_of(times: &Distribution, statistic: &str) -> Option<f64> {
    if let Some(share) = percentile(statistic) {
        return times.quantile(share).map(|value| value as f64);
    }
    let stats = Stats::of(times);
    let whole = |value: Option<i64>| value.map(|value| value as f64);
    match statistic {
        "min" => whole(stats.min),
        "mean" => stats.mean,
        "max" => whole(stats.max),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_meter::session::SessionMeter;
    use wirebeat_traffic::scenario::session::expect::COUNTERS;
    use wirebeat_units::Nanos;

    use super::*;

    #[test]
    fn expectations_are_held_against_counters_and_times() {
        let mut meter = SessionMeter::new(0);
        (meter.counts.established, meter.counts.opened, meter.counts.reset) = (1000, 1002, 2);
        for millis in 1..=100 {
            let at = Nanos::from_secs(1);
            meter.took(
                SessionTime::Response,
                at,
                at,
                at.saturating_add(Nanos::from_millis(millis)),
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
            ("response.min.actual >= 1ms", true),
            ("connect.p50 < 1s", false),
        ] {
            let judged = judge(&text.parse().unwrap(), &summary, Some(&rates));
            assert_eq!(judged.met, met, "{judged:?}");
        }
        assert_eq!(
            judge(&"connect.p50 < 1s".parse().unwrap(), &summary, None).measured,
            "nothing was measured"
        );
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
            abandoned: 1,
            failed_here: 1,
            unfinished: 1,
            requests: 1,
            responses: 1,
            unexpected: 1,
            lost_responses: 1,
            late_responses: 1,
            malformed_messages: 1,
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
