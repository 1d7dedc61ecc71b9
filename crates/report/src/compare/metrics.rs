//! What is compared of runs: a number of each, in the words of expectations.

use super::{ChangeOutcome, MetricChange, resample};
use crate::model::{FlowReport, Report, SessionEnd, SessionReport, Stats};

/// A number of a run.
#[derive(Debug)]
pub struct Metric {
    /// In the words of expectations.
    pub name: &'static str,
    /// Whether a greater one is better.
    pub more_is_better: bool,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Flow(fn(&FlowReport) -> Option<f64>),
    Session(fn(&SessionReport) -> Option<f64>),
    /// Of the clients of a group, with the report that has its other end.
    BothEnds(fn(&SessionReport, &Report) -> Option<f64>),
}

const fn flow(
    name: &'static str,
    more_is_better: bool,
    value: fn(&FlowReport) -> Option<f64>,
) -> Metric {
    Metric { name, more_is_better, value: Value::Flow(value) }
}

const fn session(
    name: &'static str,
    more_is_better: bool,
    value: fn(&SessionReport) -> Option<f64>,
) -> Metric {
    Metric { name, more_is_better, value: Value::Session(value) }
}

/// Every metric: of all flows together, and of each group of sessions.
pub const METRICS: &[Metric] = &[
    flow("loss", false, |flow| flow.loss?.ratio),
    flow("rate.received", true, |flow| {
        let received = flow.received.as_ref()?;
        // fewer than two frames have no rate, and are no traffic
        let none = (received.received.frames < 2).then_some(0.0);
        received.rates.map(|rates| rates.frames_per_second).or(none)
    }),
    flow("delay.p50", false, |flow| p50(flow.received.as_ref()?.one_way_delay_ns.as_ref()?)),
    flow("delay.p99", false, |flow| p99(flow.received.as_ref()?.one_way_delay_ns.as_ref()?)),
    flow("jitter.p99", false, |flow| p99(&flow.received.as_ref()?.jitter_rfc4689_ns)),
    flow("lateness.p99", false, |flow| p99(&flow.sent.as_ref()?.send_lateness_ns)),
    session("failed", false, |group| {
        let opened = group.starts.opened;
        let failed = opened.checked_sub(group.ends.in_order)?.saturating_sub(group.ends.unfinished);
        (opened > 0).then(|| failed as f64 / opened as f64)
    }),
    session("rate.established", true, |group| Some(group.rates.as_ref()?.established_per_second)),
    session("rate.responses", true, |group| {
        let rate = group.rates.as_ref()?.responses_per_second;
        (group.messages.responses > 0).then_some(rate)
    }),
    Metric { name: "rate.goodput", more_is_better: true, value: Value::BothEnds(goodput) },
    session("connect.p99", false, |group| p99(&group.times.connect.as_ref()?.planned_ns)),
    session("response.p50", false, |group| p50(&group.times.response.as_ref()?.planned_ns)),
    session("response.p99", false, |group| p99(&group.times.response.as_ref()?.planned_ns)),
];

/// What was delivered at either end of a group. Where that is nothing, because the servers are somebody else's and the clients send,
/// what was acknowledged.
fn goodput(group: &SessionReport, report: &Report) -> Option<f64> {
    let rates = group.rates.as_ref()?;
    let other = server_of(group, report).and_then(|server| server.rates.as_ref());
    let delivered =
        rates.goodput_bits_per_second + other.map_or(0.0, |other| other.goodput_bits_per_second);
    Some(if delivered > 0.0 { delivered } else { rates.acked_bits_per_second })
}

/// The servers' end of a group of clients, if the report has it.
fn server_of<'a>(group: &SessionReport, report: &'a Report) -> Option<&'a SessionReport> {
    let told = |one: &str, other: &str| {
        one.strip_suffix(SessionReport::AS_THE_OTHER_END_SAYS) == Some(other)
    };
    report.sessions.iter().find(|one| {
        one.end == SessionEnd::Server
            && (one.name == group.name
                || told(&one.name, &group.name)
                || told(&group.name, &one.name))
    })
}

fn p50(stats: &Stats) -> Option<f64> {
    Some(stats.percentiles.p50? as f64)
}

/// Where enough values say what it is: ten beyond it.
fn p99(stats: &Stats) -> Option<f64> {
    (stats.count >= 1000).then_some(stats.percentiles.p99? as f64)
}

/// `voice:delay.p99` as the flow or group, where one is written, and the metric.
pub fn parts(name: &str) -> (Option<&str>, &str) {
    name.rsplit_once(':').map_or((None, name), |(of, metric)| (Some(of), metric))
}

/// What every run has of the metrics that are `wanted` (none: all), and how the sides differ; and the names of those that some runs have and
/// others do not. Those of one flow, `voice:delay.p99`, only where they are wanted: every one more makes it harder to tell any from chance.
pub(super) fn values(
    old: &[Report],
    new: &[Report],
    wanted: &[String],
) -> (Vec<MetricChange>, Vec<String>) {
    let Some(first) = old.first() else { return Default::default() };
    let chosen = |of: Option<&str>, metric: &Metric| {
        wanted.iter().any(|name| parts(name) == (of, metric.name))
    };
    let (mut all, mut partly) = (Vec::new(), Vec::new());
    let mut add = |of: &str, metric: &Metric, sides: Sides| match sides {
        Sides::Whole(old, new) => all.extend(change(of, metric, old, new)),
        Sides::Partly if of == TOTAL => partly.push(metric.name.to_owned()),
        Sides::Partly => partly.push(format!("{of}:{}", metric.name)),
        Sides::Nowhere => {}
    };
    for metric in METRICS {
        if let Value::Flow(value) = metric.value {
            if wanted.is_empty() || chosen(None, metric) {
                let of = |report: &Report| value(&report.total);
                add(TOTAL, metric, sides(old, new, of));
            }
            for flow in first.flows.iter().filter(|flow| chosen(Some(&flow.name), metric)) {
                let of =
                    |report: &Report| value(report.flows.iter().find(|one| one.name == flow.name)?);
                add(&flow.name, metric, sides(old, new, of));
            }
            continue;
        }
        let clients = first.sessions.iter().filter(|group| group.end == SessionEnd::Client);
        let is_wanted = |group: &&SessionReport| {
            wanted.is_empty() || chosen(None, metric) || chosen(Some(&group.name), metric)
        };
        for group in clients.filter(is_wanted) {
            let of = |report: &Report| {
                let mut groups = report.sessions.iter();
                let one = groups.find(|one| one.name == group.name && one.end == group.end)?;
                match metric.value {
                    Value::Session(value) => value(one),
                    Value::BothEnds(value) => value(one, report),
                    Value::Flow(_) => None,
                }
            };
            add(&group.name, metric, sides(old, new, of));
        }
    }
    (all, partly)
}

/// Those of `wanted` that are not among `found`, because a run does not have them.
pub(super) fn missing<'a>(wanted: &'a [String], found: &[MetricChange]) -> Vec<&'a str> {
    let is_there = |name: &&str| {
        let (of, metric) = parts(name);
        found.iter().any(|one| one.metric == metric && of.is_none_or(|of| of == one.of))
    };
    wanted.iter().map(String::as_str).filter(|name| !is_there(name)).collect()
}

/// What all flows together are called.
const TOTAL: &str = "total";

/// A number of each run of both sides.
enum Sides {
    /// Every run has it.
    Whole(Vec<f64>, Vec<f64>),
    /// Some have it.
    Partly,
    /// None has it.
    Nowhere,
}

fn sides(old: &[Report], new: &[Report], of: impl Fn(&Report) -> Option<f64>) -> Sides {
    let side = |reports: &[Report]| reports.iter().filter_map(&of).collect::<Vec<f64>>();
    let (found_old, found_new) = (side(old), side(new));
    match (found_old.len(), found_new.len()) {
        (0, 0) => Sides::Nowhere,
        found if found == (old.len(), new.len()) && !new.is_empty() => {
            Sides::Whole(found_old, found_new)
        }
        _ => Sides::Partly,
    }
}

fn change(of: &str, metric: &Metric, old: Vec<f64>, new: Vec<f64>) -> Option<MetricChange> {
    // a rate of nothing was not measured in any run, and its gate would be open whatever happens
    if metric.more_is_better && old.iter().chain(&new).all(|value| *value == 0.0) {
        return None;
    }
    let (old_mean, new_mean) = (resample::mean(&old), resample::mean(&new));
    let p_value = resample::p_value(&old, &new);
    Some(MetricChange {
        of: of.to_owned(),
        metric: metric.name.to_owned(),
        old_mean,
        new_mean,
        change: (old_mean != 0.0).then(|| (new_mean - old_mean) / old_mean),
        difference_interval: resample::difference_interval(&old, &new),
        p_value,
        p_corrected: p_value,
        outcome: ChangeOutcome::Undecided,
        old,
        new,
    })
}
