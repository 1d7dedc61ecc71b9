//! Whether a long run stayed as it began: trends of what was measured in its intervals, and limits of how much may change.

use std::collections::BTreeMap;

use crate::human;
use crate::model::{
    Expectation, Finding, FindingKind, FlowInterval, Interval, Report, SessionInterval,
    SessionReport, Trend, TrendChange, TrendMeasure,
};

/// Fewer values say nothing of a trend.
const FEWEST: usize = 10;
/// Neighbouring values are put together until there are no more: they are not independent of each other, and their medians more so.
const BLOCKS: usize = 48;
/// Flows and groups whose trends are told.
const SUBJECTS: usize = 256;
/// Flows that are named of those that did not arrive.
const SILENT: usize = 8;
/// The two-sided 95 % quantile of the normal distribution.
const NORMAL: f64 = 1.96;

/// By how much measures may change from the start of a run to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Of the delay of each flow, in nanoseconds.
    pub delay_ns: Option<f64>,
    /// Of the rate received of each flow and of the sessions and responses of each group, as a share of that at the start.
    pub rate: Option<f64>,
}

/// A value of an interval: when that began, its middle, and the value.
#[derive(Clone, Copy, Debug)]
struct Value {
    from_ns: u64,
    middle: f64,
    value: f64,
}

/// Adds the trends to a report, and for each limit an expectation for every flow and group that has such a measure.
pub fn add(report: &mut Report, limits: Limits) {
    let mut trends = Vec::new();
    let several = report.flows.len() > 1;
    if !several || report.flows.len() > SUBJECTS {
        let name = report.flows.first().filter(|_| !several).map(|flow| flow.name.clone());
        trends.extend(of_flow(name, &of_all(&report.intervals)));
    } else {
        let mut flows: BTreeMap<&str, Vec<(&Interval, &FlowInterval)>> = BTreeMap::new();
        for interval in &report.intervals {
            for flow in &interval.flows {
                flows.entry(&flow.name).or_default().push((interval, flow));
            }
        }
        for flow in &report.flows {
            let found = flows.remove(flow.name.as_str()).unwrap_or_default();
            trends.extend(of_flow(Some(flow.name.clone()), &found));
        }
    }
    trends.extend(of_sessions(report));
    for trend in &trends {
        if let Some(expectation) = expected(trend, limits) {
            let of = trend.of.as_deref();
            let flow = report.flows.iter_mut().find(|flow| Some(flow.name.as_str()) == of);
            let group = report.sessions.iter_mut().find(|group| Some(group.name.as_str()) == of);
            match (flow, group) {
                (Some(flow), _) => flow.expectations.push(expectation),
                (None, Some(group)) => group.expectations.push(expectation),
                (None, None) => report.total.expectations.push(expectation),
            }
        }
    }
    report.trends = trends;
    find_silent(report);
    report.judge();
    report.judge_stop();
}

/// Adds a finding where some flows did not arrive at all: a run has one only where nothing did.
fn find_silent(report: &mut Report) {
    if report.findings.iter().any(|of| of.kind == FindingKind::NothingReceived) {
        return;
    }
    let silent = report.flows.iter().filter(|flow| {
        flow.sent.as_ref().is_some_and(|sent| sent.sent.frames > 0)
            && flow.received.as_ref().is_some_and(|of| of.received.frames == 0)
    });
    let names: Vec<&str> = silent.map(|flow| flow.name.as_str()).collect();
    let Some((shown, more)) = names.split_at_checked(names.len().min(SILENT)) else { return };
    if shown.is_empty() {
        return;
    }
    let more = match more.len() as u64 {
        0 => String::new(),
        more => format!(" and {}", human::counted(more, "other")),
    };
    let message = format!(
        "nothing arrived of {}{more}: check the addresses, the ports and the VLAN, and what filters on the way",
        shown.join(", ")
    );
    // the gravest stand first
    let place = report.findings.iter().position(|of| of.kind > FindingKind::NothingReceived);
    let finding = Finding { kind: FindingKind::NothingReceived, message };
    report.findings.insert(place.unwrap_or(report.findings.len()), finding);
}

fn of_all(intervals: &[Interval]) -> Vec<(&Interval, &FlowInterval)> {
    let sent = |flow: &FlowInterval| flow.sent.is_some() || flow.received.is_some();
    intervals.iter().map(|of| (of, &of.total)).filter(|(_, flow)| sent(flow)).collect()
}

fn of_flow(of: Option<String>, all: &[(&Interval, &FlowInterval)]) -> Vec<Trend> {
    let full = inner(all);
    let has_medians = full.iter().all(|(_, flow)| {
        let delay = flow.received.as_ref().and_then(|of| of.one_way_delay_ns.as_ref());
        delay.is_none_or(|delay| delay.count == 0 || delay.percentiles.p50.is_some())
    });
    let values = |value: &dyn Fn(&Interval, &FlowInterval) -> Option<f64>| -> Vec<Value> {
        full.iter()
            .filter_map(|(interval, flow)| {
                let (from_ns, to_ns) = (interval.from_ns, interval.to_ns);
                let middle = (from_ns as f64 + to_ns as f64) / 2.0;
                Some(Value { from_ns, middle, value: value(interval, flow)? })
            })
            .collect()
    };
    let delay = values(&|_, flow| {
        let delay = flow.received.as_ref()?.one_way_delay_ns.as_ref()?;
        if has_medians { delay.percentiles.p50.map(|ns| ns as f64) } else { delay.mean }
    });
    let rate = values(&|interval, flow| {
        per_second(flow.received.as_ref()?.frames, (interval.from_ns, interval.to_ns))
    });
    let loss = values(&|_, flow| {
        let sent = flow.sent.as_ref()?.frames;
        (sent > 0).then_some(flow.lost? as f64 / sent as f64)
    });
    let delays = if has_medians { TrendMeasure::DelayP50 } else { TrendMeasure::DelayMean };
    [(delays, delay), (TrendMeasure::ReceivedRate, rate), (TrendMeasure::Loss, loss)]
        .into_iter()
        .filter_map(|(measure, values)| trend(of.clone(), measure, &values))
        .collect()
}

fn of_sessions(report: &Report) -> Vec<Trend> {
    let mut trends = Vec::new();
    // one end of a group says it all
    let first = |place: usize, group: &SessionReport| {
        !report.sessions[..place].iter().any(|before| before.name == group.name)
    };
    let groups = report.sessions.iter().enumerate().filter(|(place, group)| first(*place, group));
    for (_, group) in groups.take(SUBJECTS) {
        let is = |one: &&SessionInterval| one.name == group.name && one.end == group.end;
        let all: Vec<_> = report
            .session_intervals
            .iter()
            .filter_map(|of| Some((of.from_ns, of.to_ns, of.sessions.iter().find(is)?)))
            .collect();
        let values = |count: fn(&SessionInterval) -> u64| -> Vec<Value> {
            inner(&all)
                .iter()
                .filter_map(|(from_ns, to_ns, one)| {
                    let middle = (*from_ns as f64 + *to_ns as f64) / 2.0;
                    let value = per_second(count(one), (*from_ns, *to_ns))?;
                    Some(Value { from_ns: *from_ns, middle, value })
                })
                .collect()
        };
        for (measure, count) in [
            (TrendMeasure::EstablishedRate, (|one| one.established) as fn(&SessionInterval) -> u64),
            (TrendMeasure::ResponseRate, |one| one.responses),
        ] {
            let values = values(count);
            if values.iter().any(|value| value.value > 0.0) {
                trends.extend(trend(Some(group.name.clone()), measure, &values));
            }
        }
    }
    trends
}

/// Without the first and the last.
fn inner<T>(all: &[T]) -> &[T] {
    all.get(1..all.len().saturating_sub(1)).unwrap_or_default()
}

fn per_second(count: u64, (from_ns, to_ns): (u64, u64)) -> Option<f64> {
    let ns = to_ns.saturating_sub(from_ns);
    (ns > 0).then(|| count as f64 * 1e9 / ns as f64)
}

fn trend(of: Option<String>, measure: TrendMeasure, values: &[Value]) -> Option<Trend> {
    let order = |a: &&Value, b: &&Value| a.value.total_cmp(&b.value);
    let worst = match measure.is_worse_high() {
        // the first of several
        true => values.iter().rev().max_by(order),
        false => values.iter().min_by(order),
    }?;
    let line = line(&blocks(values)).filter(|_| values.len() >= FEWEST);
    let ends = |line: &Line| {
        let (first, last) = (values.first().map(|of| of.middle), values.last().map(|of| of.middle));
        (line.at(first.unwrap_or(0.0)), line.at(last.unwrap_or(0.0)))
    };
    let time = values.last()?.middle - values.first()?.middle;
    let (mut first, mut last) = line.as_ref().map(ends).unzip();
    // none of the measures can be negative, and the line through a step begins or ends there
    if [first, last].into_iter().flatten().any(|end| end < 0.0) {
        let tenth = values.len().div_ceil(10);
        let middle = |part: &[Value]| median(part.iter().map(|value| value.value).collect());
        first = values.get(..tenth).map(middle);
        last = values.get(values.len() - tenth..).map(middle);
    }
    let change = line.as_ref().map(|line| TrendChange {
        value: line.slope * time,
        low: line.low * time,
        high: line.high * time,
    });
    let (worst, worst_from_ns) = (worst.value, worst.from_ns);
    let values = values.len() as u64;
    Some(Trend { of, measure, values, first, last, change, worst, worst_from_ns })
}

/// The medians of blocks of neighbouring values, by the medians of their times.
fn blocks(values: &[Value]) -> Vec<(f64, f64)> {
    let each = values.len().div_ceil(BLOCKS).max(1);
    values
        .chunks(each)
        .map(|block| {
            let of = |what: fn(&Value) -> f64| median(block.iter().map(what).collect());
            (of(|value| value.middle), of(|value| value.value))
        })
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (None, _) => 0.0,
        (Some(upper), 0) => (values[middle - 1] + upper) / 2.0,
        (Some(middle), _) => *middle,
    }
}

/// A line through points.
#[derive(Clone, Copy, Debug)]
struct Line {
    slope: f64,
    /// The 95 % interval of the slope.
    low: f64,
    high: f64,
    /// A point of it.
    through: (f64, f64),
}

impl Line {
    fn at(&self, time: f64) -> f64 {
        self.through.1 + self.slope * (time - self.through.0)
    }
}

/// The median of the slopes between all pairs of points (Theil 1950, Sen 1968), with Sen's interval from the variance of Kendall's rank
/// correlation.
fn line(points: &[(f64, f64)]) -> Option<Line> {
    let pairs = points
        .iter()
        .enumerate()
        .flat_map(|(place, a)| points[place + 1..].iter().map(move |b| (b.1 - a.1) / (b.0 - a.0)));
    let mut slopes: Vec<f64> = pairs.filter(|slope| slope.is_finite()).collect();
    if slopes.is_empty() {
        return None;
    }
    slopes.sort_by(f64::total_cmp);
    let count = points.len() as f64;
    let spread = NORMAL * (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let all = slopes.len() as f64;
    let low = ((all - spread) / 2.0).floor().max(0.0) as usize;
    let high = ((all + spread) / 2.0).ceil() as usize;
    let at = |place: usize| slopes[place.min(slopes.len() - 1)];
    let (low, high) = (at(low), at(high));
    let through = |of: fn(&(f64, f64)) -> f64| median(points.iter().map(of).collect());
    let through = (through(|point| point.0), through(|point| point.1));
    Some(Line { slope: median(slopes), low, high, through })
}

/// A value in the unit of its measure.
pub(crate) fn shown(measure: TrendMeasure, value: f64) -> String {
    match measure {
        TrendMeasure::DelayP50 | TrendMeasure::DelayMean => human::time(value),
        TrendMeasure::ReceivedRate => human::frame_rate(value),
        TrendMeasure::Loss => human::percent(value),
        TrendMeasure::EstablishedRate | TrendMeasure::ResponseRate => {
            format!("{}/s", human::number(value))
        }
    }
}

/// A change with its sign.
pub(crate) fn change(measure: TrendMeasure, value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", shown(measure, value.abs()))
}

/// A change with its 95 % interval, where that is more than a point; "none" where every value is the same.
pub(crate) fn change_within(measure: TrendMeasure, found: TrendChange) -> String {
    let of = |value: f64| change(measure, value);
    match found.low == found.high {
        true if found.value == 0.0 && found.low == 0.0 => "none".to_owned(),
        true => of(found.value),
        false => format!("{} ({} to {})", of(found.value), of(found.low), of(found.high)),
    }
}

/// What a limit makes of a trend; `None` where there is no limit for it. It is met where the whole interval is within the limit: an
/// estimate within it says nothing where the interval goes beyond.
fn expected(trend: &Trend, limits: Limits) -> Option<Expectation> {
    let name = trend.measure.name();
    let of_rate = match trend.measure {
        TrendMeasure::DelayP50 | TrendMeasure::DelayMean => false,
        TrendMeasure::ReceivedRate | TrendMeasure::EstablishedRate | TrendMeasure::ResponseRate => {
            true
        }
        TrendMeasure::Loss => return None,
    };
    let (text, most) = match of_rate {
        false => {
            let most = limits.delay_ns?;
            (format!("change of {name} <= {}", human::time(most)), Some(most))
        }
        true => {
            let share = limits.rate?;
            let most = trend.first.map(|first| share * first.abs());
            (format!("change of {name} <= {}", human::percent(share)), most)
        }
    };
    let (Some(found), Some(most)) = (trend.change, most) else {
        let values = human::counted(trend.values, "interval");
        return Some(Expectation {
            text,
            measured: Expectation::NOTHING.to_owned(),
            undecided: Some(format!(
                "a trend needs {FEWEST} full intervals, and there are {values}"
            )),
            ..Expectation::default()
        });
    };
    // of a rate, the share of what it was at the start
    let first = trend.first.filter(|first| of_rate && *first != 0.0);
    let measured = match first {
        Some(first) => format!(
            "{}, {}",
            change(trend.measure, found.value),
            share_within(TrendChange {
                value: found.value / first,
                low: found.low / first,
                high: found.high / first,
            })
        ),
        None => change_within(trend.measure, found),
    };
    let unit = if of_rate { "per second" } else { "ns" };
    let one = Expectation {
        text,
        measured,
        measured_value: Some(found.low),
        measured_up_to: (found.low != found.high).then_some(found.high),
        limit: Some(most),
        unit: Some(unit.to_owned()),
        ..Expectation::default()
    };
    let (over, furthest) = (found.value.abs() - most, found.low.abs().max(found.high.abs()));
    Some(match (over > 0.0, furthest <= most) {
        (true, _) => {
            Expectation { margin: Some(format!("{} too much", shown(trend.measure, over))), ..one }
        }
        (false, true) => Expectation { met: true, ..one },
        (false, false) => {
            let why = "its 95 % interval goes beyond the limit; a longer test makes it narrower";
            Expectation { undecided: Some(why.to_owned()), ..one }
        }
    })
}

/// A change of a rate in percent, with its interval where that is more than a point.
fn share_within(found: TrendChange) -> String {
    let of = |share: f64| {
        let sign = if share < 0.0 { "-" } else { "+" };
        format!("{sign}{}", human::percent(share.abs()))
    };
    match found.low == found.high {
        true => of(found.value),
        false => format!("{} ({} to {})", of(found.value), of(found.low), of(found.high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: u64, value: impl Fn(u64) -> f64) -> Vec<Value> {
        let of =
            |number| Value { from_ns: number, middle: number as f64 + 0.5, value: value(number) };
        (0..count).map(of).collect()
    }

    #[test]
    fn a_line_is_found_beside_what_stands_out() {
        // every tenth value is far away
        let rising = values(200, |n| if n % 10 == 3 { 1e9 } else { 100.0 + 0.5 * n as f64 });
        let trend = trend(None, TrendMeasure::DelayP50, &rising).unwrap();
        let change = trend.change.unwrap();
        assert!((change.value - 99.5).abs() < 2.0, "{trend:?}");
        assert!(change.low <= change.value && change.value <= change.high);
        assert!(
            (trend.first.unwrap() - 100.0).abs() < 2.0 && (trend.last.unwrap() - 199.5).abs() < 2.0
        );
        assert_eq!((trend.worst, trend.worst_from_ns % 10), (1e9, 3));
    }

    /// Loss begins in the middle: the line through that would begin below nothing.
    #[test]
    fn a_step_begins_at_nothing() {
        let step = values(200, |n| if n < 100 { 0.0 } else { 0.06 });
        let trend = trend(None, TrendMeasure::Loss, &step).unwrap();
        assert_eq!((trend.first, trend.last), (Some(0.0), Some(0.06)));
        assert!(trend.change.unwrap().value > 0.0);
    }

    #[test]
    fn what_stays_has_no_trend() {
        let noise = |n: u64| 1000.0 + ((n.wrapping_mul(2_654_435_761) >> 7) % 100) as f64;
        let found = trend(None, TrendMeasure::ReceivedRate, &values(400, noise)).unwrap();
        let change = found.change.unwrap();
        assert!(change.low < 0.0 && change.high > 0.0, "{found:?}");
        assert!(found.worst < 1_002.0);
        let constant = trend(None, TrendMeasure::Loss, &values(50, |_| 0.0)).unwrap();
        assert_eq!(constant.change, Some(TrendChange { value: 0.0, low: 0.0, high: 0.0 }));
    }

    #[test]
    fn few_values_are_undecided() {
        let few = trend(None, TrendMeasure::DelayP50, &values(9, |n| n as f64)).unwrap();
        assert_eq!((few.first, few.change), (None, None));
        let limits = Limits { delay_ns: Some(5.0), rate: None };
        let expected = super::expected(&few, limits).unwrap();
        assert_eq!(expected.outcome(), "UNDECIDED");
        assert!(expected.found().contains("needs 10 full intervals"), "{}", expected.found());
        assert!(trend(None, TrendMeasure::DelayP50, &[]).is_none());
        let rising = trend(None, TrendMeasure::DelayP50, &values(20, |n| n as f64)).unwrap();
        let expected = super::expected(&rising, limits).unwrap();
        assert_eq!(expected.outcome(), "FAIL");
        assert_eq!(expected.found(), "measured +19 ns: 14 ns too much");
    }

    /// A limit of 0.1 % was met by an estimate of none whose interval went from -0.5 % to +0.5 %.
    #[test]
    fn an_interval_that_goes_beyond_the_limit_does_not_pass() {
        let limits = Limits { delay_ns: None, rate: Some(0.001) };
        let of = |value, low, high| Trend {
            of: None,
            measure: TrendMeasure::ReceivedRate,
            values: 100,
            first: Some(10_000.0),
            last: Some(10_000.0 + value),
            change: Some(TrendChange { value, low, high }),
            worst: 9_000.0,
            worst_from_ns: 0,
        };
        for (value, low, high, outcome) in [
            (0.0, 0.0, 0.0, "PASS"),
            (2.0, -9.0, 9.9, "PASS"),
            (0.0, -50.0, 50.0, "UNDECIDED"),
            (8.0, 5.0, 20.0, "UNDECIDED"),
            (12.0, 5.0, 20.0, "FAIL"),
            (40.0, 20.0, 60.0, "FAIL"),
            (-40.0, -60.0, -20.0, "FAIL"),
        ] {
            let found = expected(&of(value, low, high), limits).unwrap();
            assert_eq!(found.outcome(), outcome, "{value} {low} {high}: {}", found.found());
        }
        let passed = expected(&of(2.0, -9.0, 9.9), limits).unwrap();
        assert_eq!(passed.found(), "measured +2 pps, +0.020 % (-0.090 % to +0.099 %)");
        let failed = expected(&of(-40.0, -60.0, -20.0), limits).unwrap();
        assert_eq!(failed.margin.as_deref(), Some("30 pps too much"));
    }

    #[test]
    fn a_change_of_nothing_is_none() {
        let none = TrendChange { value: 0.0, low: 0.0, high: 0.0 };
        assert_eq!(change_within(TrendMeasure::Loss, none), "none");
        let some = TrendChange { value: 1.0, low: -1.0, high: 3.0 };
        assert_eq!(change_within(TrendMeasure::DelayP50, some), "+1 ns (-1 ns to +3 ns)");
    }

    /// One flow of two never arrived, and the test said nothing of it.
    #[test]
    fn a_flow_that_never_arrives_is_a_finding() {
        let (sender, receiver) = crate::golden::both(&[crate::golden::VOICE]);
        let facts = crate::golden::facts("wirebeat test soak lab.yaml");
        let mut report = crate::assemble::assemble(facts, Some(sender), Some(receiver));
        add(&mut report, Limits::default());
        let silent = |report: &Report| {
            report.findings.iter().filter(|of| of.kind == FindingKind::NothingReceived).count()
        };
        assert_eq!(silent(&report), 0);
        let mut lost = report.flows[0].clone();
        lost.name = "lost".to_owned();
        if let Some(received) = &mut lost.received {
            received.received.frames = 0;
        }
        report.flows.push(lost);
        add(&mut report, Limits::default());
        let told = report.findings.iter().find(|of| of.kind == FindingKind::NothingReceived);
        assert!(told.unwrap().message.starts_with("nothing arrived of lost: check"), "{told:?}");
    }
}
