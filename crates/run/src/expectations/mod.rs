//! What was expected of a run, held against what it measured.
//!
//! `flows.rs` knows what is measured of flows, `sessions.rs` of sessions, `intervals.rs` of both over time, and `watched.rs` looks at
//! intervals while a run goes on. An expectation on something that
//! is not known, or on a percentile of too few values, is undecided, which is no pass.

mod flows;
mod intervals;
pub(crate) mod sessions;
mod watched;

use std::collections::BTreeMap;

use wirebeat_report::model::{Expectation, Expected, Interval, Report, Stats};
use wirebeat_traffic::scenario::expect::Statistic;
use wirebeat_traffic::scenario::{FlowExpectation, Scenario, session};
use wirebeat_units::{Comparison, Nanos, human};

pub(crate) use watched::{Sums, Watched, Watching};

/// What a scenario expects of the flows of a run, of intervals, and of how long the run takes. What else it expects of sessions in the whole
/// run is judged where they are counted, because reports do not have the messages of both directions together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectations {
    of_all: Vec<FlowExpectation>,
    of_flows: BTreeMap<String, Vec<FlowExpectation>>,
    of_sessions: BTreeMap<String, Vec<session::Expectation>>,
    /// What sessions can break before the end, in an interval or in all of them together.
    at_once: BTreeMap<String, Vec<session::Expectation>>,
    /// When groups of sessions stop, as far as that is said.
    stops: BTreeMap<String, Nanos>,
}

impl Expectations {
    /// Those of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Expectations {
        let flows =
            scenario.flows.keys().map(|name| (name.clone(), scenario.expected_of_flow(name)));
        let groups = |are: fn(&session::Expectation) -> bool| {
            let those = scenario.sessions.keys().map(|name| {
                let mut all = scenario.expected_of_sessions(name);
                all.retain(are);
                (name.clone(), all)
            });
            those.filter(|(_, all)| !all.is_empty()).collect()
        };
        let stops = scenario.sessions.iter().filter_map(|(name, group)| {
            // that of a group that waits for another begins with it
            let own = group.stop.filter(|_| group.after.is_none());
            let stop = own.into_iter().chain(scenario.run.time).min()?;
            Some((name.clone(), stop))
        });
        Expectations {
            stops: stops.collect(),
            of_all: scenario.expected_of_all(),
            of_flows: flows.filter(|(_, all)| !all.is_empty()).collect(),
            of_sessions: groups(sessions::is_of_report),
            at_once: groups(sessions::is_judged_at_once),
        }
    }

    /// What is expected of all flows together, of a run without a scenario.
    pub(crate) fn of_all(expected: Vec<FlowExpectation>) -> Expectations {
        Expectations { of_all: expected, ..Expectations::default() }
    }

    /// Whether there are any that an interval can break while the run goes on.
    pub(crate) fn can_abort(&self) -> bool {
        let mut flows = self.of_all.iter().chain(self.of_flows.values().flatten());
        flows.any(flows::is_judged_at_once) || !self.at_once.is_empty()
    }

    /// How long the run may take at most, and what says so.
    pub(crate) fn longest(&self) -> Option<(Nanos, String)> {
        let of_flows = self.of_all.iter().chain(self.of_flows.values().flatten());
        let of_flows = of_flows.filter_map(|one| Some((flows::longest(one)?, one.to_string())));
        let of_sessions = self.at_once.iter().flat_map(|(name, all)| {
            let of = move |one: &session::Expectation| {
                Some((sessions::longest(one)?, format!("{name}: {one}")))
            };
            all.iter().filter_map(of)
        });
        of_flows.chain(of_sessions).min_by_key(|(time, _)| *time)
    }

    /// What an interval breaks, in words; `None` where it breaks nothing. Of sessions the clients count, if they are here; `sums` are what
    /// the intervals before it came to.
    pub(crate) fn broken_by(&self, interval: &Interval, sums: &mut Sums) -> Option<String> {
        let all = self
            .of_all
            .iter()
            .filter_map(|one| Some((None, flows::broken_by(one, None, interval)?)));
        let flows = self.of_flows.iter().flat_map(|(name, expected)| {
            let name = name.as_str();
            let broken =
                move |one| Some((Some(name), flows::broken_by(one, Some(name), interval)?));
            expected.iter().filter_map(broken)
        });
        let mut groups = Vec::new();
        for (name, expected) in &self.at_once {
            let sums = sums.of_groups.entry(name.clone()).or_default();
            sums.resize(expected.len(), 0);
            for (one, sum) in expected.iter().zip(sums) {
                let broken = sessions::broken_by(one, name, (interval, sum));
                groups.extend(broken.map(|broken| (Some(name.as_str()), broken)));
            }
        }
        let (of, judged) = all.chain(flows).chain(groups).next()?;
        let text = Expected { of, expectation: &judged }.text();
        let margin = judged.margin.as_deref().unwrap_or_default();
        Some(format!("{text} (measured {}: {margin})", judged.measured))
    }

    /// Writes into the report what came of them, and the verdict that follows.
    ///
    /// What was `watched` decides of intervals where the report has them merged.
    pub(crate) fn judge(&self, report: &mut Report, watched: Option<&Watched>) {
        let of_total = |(place, one)| {
            let mine = watched.and_then(|watched| watched.of_all(place));
            flows::judge(one, None, &report.total, (report, mine))
        };
        let total: Vec<Expectation> = self.of_all.iter().enumerate().map(of_total).collect();
        let of_flow = |flow: &wirebeat_report::model::FlowReport| {
            let judged = self.of_flows.get(&flow.name)?.iter().enumerate().map(|(place, one)| {
                let mine = watched.and_then(|watched| watched.of_flow(&flow.name, place));
                flows::judge(one, Some(&flow.name), flow, (report, mine))
            });
            Some(judged.collect::<Vec<_>>())
        };
        let of_flows: Vec<_> = report.flows.iter().map(of_flow).collect();
        let told = report.session_intervals.len();
        let of_group = |group: &wirebeat_report::model::SessionReport| {
            let judged =
                self.of_sessions.get(&group.name)?.iter().enumerate().map(|(place, one)| {
                    let mine =
                        watched.and_then(|watched| watched.of_group(&group.name, place, told));
                    let stop = self.stops.get(&group.name).copied();
                    sessions::judge_by_report(one, (group, stop), (report, mine))
                });
            Some(judged.collect::<Vec<_>>())
        };
        // those of a group stand at its clients, if these are ours
        let is_first = |place: usize, name: &str| {
            report.sessions.iter().position(|group| group.name == name) == Some(place)
        };
        let of_groups: Vec<_> = report
            .sessions
            .iter()
            .enumerate()
            .map(|(place, group)| of_group(group).filter(|_| is_first(place, &group.name)))
            .collect();
        report.total.expectations = total;
        for (flow, judged) in report.flows.iter_mut().zip(of_flows) {
            flow.expectations = judged.unwrap_or_default();
        }
        for (group, judged) in report.sessions.iter_mut().zip(of_groups) {
            group.expectations.extend(judged.unwrap_or_default());
        }
        report.judge();
    }
}

/// What was found of something that is expected: a number that lies between two, which are equal where it is known exactly.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    Number {
        low: f64,
        high: f64,
    },
    /// There are too few values to decide, for this reason.
    TooFew {
        /// How many there are.
        values: u64,
        /// What they come to.
        number: Option<f64>,
        why: String,
    },
    /// It is not known, for this reason.
    Unknown(String),
}

impl Found {
    fn exactly(number: f64) -> Found {
        Found::Number { low: number, high: number }
    }

    fn or_unknown(number: Option<f64>, why: impl Into<String>) -> Found {
        number.map_or_else(|| Found::Unknown(why.into()), Found::exactly)
    }
}

/// What was expected, in numbers.
#[derive(Debug)]
struct Asked {
    /// As it was written.
    text: String,
    comparison: Comparison,
    limit: f64,
    unit: Unit,
    /// How such a number is printed.
    print: fn(f64) -> String,
}

/// The base unit of a number, as programs read it.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Count,
    Ratio,
    Nanoseconds,
    PerSecond,
    BitsPerSecond,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Ratio => "ratio",
            Unit::Nanoseconds => "ns",
            Unit::PerSecond => "per second",
            Unit::BitsPerSecond => "bit/s",
        }
    }
}

impl Asked {
    /// What is to be said of it.
    fn decide(&self, found: Found) -> Expectation {
        let asked = Expectation {
            text: self.text.clone(),
            limit: Some(self.limit),
            unit: Some(self.unit.name().to_owned()),
            ..Expectation::default()
        };
        let print = self.print;
        let (low, high) = match found {
            Found::Number { low, high } => (low, high),
            Found::TooFew { values, number, why } => {
                let values = human::counted(values, "value");
                let measured = number.map_or_else(
                    || values.clone(),
                    |number| format!("{} of {values}", print(number)),
                );
                let undecided = Some(why);
                return Expectation { measured, measured_value: number, undecided, ..asked };
            }
            Found::Unknown(why) => {
                let measured = Expectation::NOTHING.to_owned();
                return Expectation { measured, undecided: Some(why), ..asked };
            }
        };
        let measured = match low == high {
            true => print(low),
            false => format!("{} to {}", print(low), print(high)),
        };
        let up_to = (low != high).then_some(high);
        let one =
            Expectation { measured, measured_value: Some(low), measured_up_to: up_to, ..asked };
        match holds_between(self.comparison, (low, high), self.limit) {
            Some(true) => Expectation { met: true, ..one },
            Some(false) => Expectation { margin: Some(self.margin((low, high))), ..one },
            None => {
                let why = "it is not known more exactly than that".to_owned();
                Expectation { undecided: Some(why), ..one }
            }
        }
    }

    /// How far an unmet number is from where it would have been met.
    fn margin(&self, (low, high): (f64, f64)) -> String {
        let print = |by: f64| match self.unit {
            // 2 % is not 1 % more than 1 %
            Unit::Ratio => format!("{} percentage points", human::number(by * 100.0)),
            _ => (self.print)(by),
        };
        match self.comparison {
            // what is exactly the limit is that of a comparison without it
            Comparison::Less | Comparison::Greater if low == high && low == self.limit => {
                "exactly the limit".to_owned()
            }
            Comparison::Less | Comparison::AtMost => {
                format!("{} too much", print(low - self.limit))
            }
            Comparison::Greater | Comparison::AtLeast => {
                format!("{} too little", print(self.limit - high))
            }
            Comparison::Equal if low > self.limit => {
                format!("{} too much", print(low - self.limit))
            }
            Comparison::Equal => format!("{} too little", print(self.limit - high)),
            Comparison::Unequal => "the same".to_owned(),
        }
    }

    /// Whether `one` is further from being met than `other`.
    fn is_worse(&self, one: &Found, other: &Found) -> bool {
        let (Found::Number { low, high }, Found::Number { low: other_low, high: other_high }) =
            (one, other)
        else {
            return matches!(one, Found::Number { .. });
        };
        match self.comparison {
            Comparison::Less | Comparison::AtMost => high > other_high,
            Comparison::Greater | Comparison::AtLeast => low < other_low,
            Comparison::Equal => (low - self.limit).abs() > (other_low - self.limit).abs(),
            Comparison::Unequal => (low - self.limit).abs() < (other_low - self.limit).abs(),
        }
    }
}

/// Whether a comparison holds for every number of a range, or for none; `None` where that differs.
fn holds_between(comparison: Comparison, (low, high): (f64, f64), limit: f64) -> Option<bool> {
    let exact = low == high;
    match comparison {
        Comparison::Equal | Comparison::Unequal if !exact && (low..=high).contains(&limit) => None,
        _ => {
            let (low, high) = (comparison.holds(low, limit), comparison.holds(high, limit));
            (low == high).then_some(low)
        }
    }
}

/// Why a statistic of `count` values says nothing, and what says something instead; `name` is how a statistic of them is written.
fn too_few(statistic: Statistic, count: u64, name: &dyn Fn(Statistic) -> String) -> String {
    let needed = human::counted(statistic.samples_needed(), "value");
    let are = if count == 1 { "is" } else { "are" };
    let why = format!("{statistic} needs {needed}, and there {are} {}", human::count(count));
    let Statistic::Percentile(percent) = statistic else {
        return format!("{why}; measure more");
    };
    let end = if percent < 50.0 { Statistic::Min } else { Statistic::Max };
    let usual = Statistic::NAMES.iter().filter_map(|name| name.parse::<Statistic>().ok());
    let mut enough = usual.filter(|one| match one {
        Statistic::Percentile(of) => *of < percent && one.samples_needed() <= count,
        _ => false,
    });
    // from the lowest to the highest
    let instead = match enough.next_back() {
        Some(lower) => format!("{} or {}", name(end), name(lower)),
        None => name(end),
    };
    format!("{why}; expect {instead}, or measure more")
}

/// A statistic of a distribution that a report has; `name` is how one is written.
fn statistic_of(stats: &Stats, statistic: Statistic, name: &dyn Fn(Statistic) -> String) -> Found {
    if stats.count == 0 {
        return Found::Unknown("there is no value".to_owned());
    }
    let whole = |value: Option<i64>| value.map(|value| value as f64);
    let number = match statistic {
        Statistic::Min => whole(stats.min),
        Statistic::Mean => stats.mean,
        Statistic::StandardDeviation => stats.standard_deviation,
        Statistic::Max => whole(stats.max),
        Statistic::Percentile(percent) => stats.quantile(percent / 100.0),
    };
    if stats.count < statistic.samples_needed() {
        let why = too_few(statistic, stats.count, name);
        return Found::TooFew { values: stats.count, number, why };
    }
    let bound = stats.uncertain_below.unwrap_or(0) as f64;
    // differences of times of one clock are as exact as that
    let bound = if statistic == Statistic::StandardDeviation { 0.0 } else { bound };
    match number {
        Some(number) => Found::Number { low: number - bound, high: number + bound },
        None if bound > 0.0 => {
            Found::Unknown(format!("the clocks are known to within {} only", human::time(bound)))
        }
        None => Found::Unknown(
            "it shares its histogram with other flows, and has no percentiles".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests;
