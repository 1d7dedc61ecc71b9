//! A scenario run with several values of its variables, or several times: what changes with what.
//!
//! Runs with the same values are repetitions: tables have their mean and its 95 % interval by Student's t. A run is one value; nothing is
//! said of what happened within it. `services.rs` has what tests of services show. Renderings: `text.rs`, `page.rs`, `rows.rs` (CSV,
//! Markdown), `figures.rs`.

mod figures;
mod page;
mod rows;
mod services;
#[cfg(test)]
mod tests;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use services::{Service, ServiceTest};

use crate::columns::{Column, FLOW, In, Number, SESSION, Shown};
use crate::exit::Exit;
use crate::format::{Presentable, Rendering};
use crate::human;
use crate::json;
use crate::junit;
use crate::model::{
    ABORT_ON_FAIL, End, FlowReport, Report, SCHEMA_VERSION, SessionReport, Verdict,
};
use crate::pictures::Picture;
use crate::student::mean_within;
use crate::verdict;

/// Runs over variables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// Version of the model of runs: "4".
    pub schema_version: String,
    /// Version of the program.
    pub wirebeat_version: String,
    /// The command line, program and arguments.
    pub command_line: Vec<String>,
    /// The standard by which the runs are a test: "ITU-T Y.1564"; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Of a test of services: what they were promised, and how they were tested; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<ServiceTest>,
    /// The variables that had several values; none where the same was run again and again.
    pub variables: Vec<String>,
    /// How many runs there were to be.
    pub planned: usize,
    /// Each run, in the order in which they were made.
    pub points: Vec<Point>,
    /// The gravest exit code of the runs; 1 where runs are missing.
    pub exit_code: u8,
}

/// A run and its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The values of the variables, as they were written.
    pub values: Vec<String>,
    /// What came of it.
    pub report: Report,
}

/// Runs with the same values.
pub(crate) struct Repetitions<'a> {
    /// The values.
    pub values: &'a [String],
    /// The runs.
    pub reports: Vec<&'a Report>,
}

/// What repetitions come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    /// The mean.
    pub value: Number,
    /// How far the 95 % interval goes to each side; `None` for fewer than two values.
    pub within: Option<f64>,
    /// Whether one of the values is negative, as times by two clocks may be.
    pub signed: bool,
}

impl Mean {
    /// With its interval. Where that would go below nothing, which no count and no rate can, it is told by its ends.
    fn shown(self, how: Shown) -> String {
        let shown = how.show(self.value);
        let real = |value: f64| how.show(Number::Real(value));
        let (mean, signed) = (self.value.real(), self.signed || matches!(how, Shown::Deviation));
        match self.within {
            Some(within) if within > mean && !signed => {
                format!("{shown} ({} to {})", how.show(Number::Whole(0)), real(mean + within))
            }
            Some(within) if within > 0.0 => format!("{shown} ± {}", real(within)),
            _ => shown,
        }
    }
}

impl Sweep {
    /// Without runs.
    pub fn new(
        wirebeat_version: String,
        command_line: Vec<String>,
        variables: Vec<String>,
        planned: usize,
    ) -> Sweep {
        let schema_version = SCHEMA_VERSION.to_owned();
        let exit_code = Exit::Unfinished.code();
        let points = Vec::new();
        Sweep {
            schema_version,
            wirebeat_version,
            command_line,
            test: None,
            services: None,
            variables,
            planned,
            points,
            exit_code,
        }
    }

    /// Adds a run.
    pub fn add(&mut self, values: Vec<String>, report: Report) {
        self.points.push(Point { values, report });
        // runs behind one that broke what was expected of it were not wanted
        let missing =
            if self.is_cut_off() && !self.is_aborted() { Exit::Unfinished } else { Exit::Done };
        let judged = self.points.iter().filter(|point| !is_stopped(&point.report));
        let exits = judged.filter_map(|point| Exit::of(point.report.exit_code));
        self.exit_code = exits.fold(missing, Exit::and).code();
    }

    /// Whether runs are missing, or the last one was stopped by a signal.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.points.len() < self.planned
            || self.points.iter().any(|point| is_stopped(&point.report))
    }

    /// Whether a run broke what was expected of it, and ended all of them.
    fn is_aborted(&self) -> bool {
        let aborted = |end: &End| matches!(end, End::Stopped { signal } if signal == ABORT_ON_FAIL);
        self.points.last().is_some_and(|point| aborted(&point.report.end))
    }

    /// How many runs went to their end.
    fn whole(&self) -> usize {
        let whole = |point: &&Point| matches!(point.report.end, End::Completed);
        self.points.iter().filter(whole).count()
    }

    /// Its first words: whether all runs met what was expected of them, and how many there are.
    pub(crate) fn sentence(&self) -> String {
        let made = self.points.len();
        let outcomes = || self.points.iter().filter_map(|point| judged(&point.report));
        let failed = outcomes().filter(|word| *word == verdict::FAIL).count() as u64;
        let undecided =
            self.points.iter().filter(|point| is_undecided(&point.report)).count() as u64;
        let outcome = match (failed, outcomes().count() as u64, self.is_cut_off()) {
            (failed, all, _) if failed > 0 && undecided == failed => {
                format!("{}  {failed} of {all} undecided.  ", verdict::UNDECIDED)
            }
            (0, _, true) => "UNFINISHED.  ".to_owned(),
            (0, 0, false) => String::new(),
            (0, _, false) => format!("{}  ", verdict::PASS),
            (failed, all, _) => format!("{}  {failed} of {all} failed.  ", verdict::FAIL),
        };
        let title = self.services.as_ref().and_then(|services| services.title.as_deref());
        let title: String =
            title.into_iter().chain(self.test.as_deref()).map(|word| format!("{word}  ")).collect();
        let runs = human::counted(made as u64, "run");
        let of = match (self.is_cut_off(), self.is_aborted()) {
            (true, true) => format!(" of {}: ended by {ABORT_ON_FAIL}", self.planned),
            (true, false) => format!(" of {}: unfinished", self.planned),
            (false, _) => String::new(),
        };
        format!("{outcome}{title}wirebeat {}  {runs}{of}", self.wirebeat_version)
    }

    /// The runs by their values, in the order in which these come first. One that was cut off is a part of a run, and is left out where there is
    /// a whole one.
    pub(crate) fn repetitions(&self) -> Vec<Repetitions<'_>> {
        let mut all: Vec<Repetitions<'_>> = Vec::new();
        let whole = |values: &[String]| {
            let mut runs = self.points.iter().filter(|point| point.values == values);
            runs.any(|point| !is_stopped(&point.report))
        };
        let counted = |point: &&Point| !is_stopped(&point.report) || !whole(&point.values);
        for point in self.points.iter().filter(counted) {
            match all.iter_mut().find(|of| *of.values == *point.values) {
                Some(of) => of.reports.push(&point.report),
                None => {
                    let reports = vec![&point.report];
                    all.push(Repetitions { values: &point.values, reports });
                }
            }
        }
        all
    }

    /// What a run is called.
    pub(crate) fn name(&self, place: usize) -> String {
        let Some(point) = self.points.get(place) else { return String::new() };
        let values: Vec<String> = self
            .variables
            .iter()
            .zip(&point.values)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let before = self.points.iter().take(place).filter(|of| of.values == point.values).count();
        let several = self.points.iter().filter(|of| of.values == point.values).count() > 1;
        match (values.is_empty(), several) {
            (true, _) => format!("run {}", before + 1),
            (false, true) => format!("{} run {}", values.join(" "), before + 1),
            (false, false) => values.join(" "),
        }
    }

    /// The tables: of all flows together, and of each group of sessions.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let reports = || self.points.iter().map(|point| &point.report);
        if let Some(test) = &self.services {
            return services::tables(self, test);
        }
        let mut tables = Vec::new();
        if reports().any(|report| !report.flows.is_empty()) {
            tables.push(self.table("all flows".to_owned(), FLOW, &|report: &Report| {
                Some(report.total.clone())
            }));
        }
        let mut groups: Vec<(String, _)> = Vec::new();
        for group in reports().flat_map(|report| &report.sessions) {
            let key = (group.name.clone(), group.end);
            if !groups.contains(&key) {
                groups.push(key);
            }
        }
        for (name, end) in groups {
            let title = format!("sessions {name} ({})", end.name());
            tables.push(self.table(title, SESSION, &|report: &Report| {
                let is = |group: &&SessionReport| group.name == name && group.end == end;
                report.sessions.iter().find(is).cloned()
            }));
        }
        tables
    }

    fn table<T>(
        &self,
        title: String,
        columns: &[Column<T>],
        find: &dyn Fn(&Report) -> Option<T>,
    ) -> Table {
        let all = self.repetitions();
        let found: Vec<Vec<T>> = all
            .iter()
            .map(|of| of.reports.iter().filter_map(|report| find(report)).collect())
            .collect();
        let known = |column: &&Column<T>| {
            column.place == In::Brief
                && found.iter().flatten().any(|one| (column.value)(one).is_some())
        };
        let columns: Vec<&Column<T>> = columns.iter().filter(known).collect();
        let several = all.iter().any(|of| of.reports.len() > 1);
        let outcomes: Vec<Option<String>> = all.iter().map(|of| outcome(&of.reports)).collect();
        let judged = outcomes.iter().any(Option::is_some);
        let mut heads = self.variables.clone();
        if several {
            heads.push("runs".to_owned());
        }
        if judged {
            heads.push("verdict".to_owned());
        }
        let names = heads.len();
        heads.extend(columns.iter().map(|column| column.title.to_owned()));
        let rows = all.iter().zip(&found).zip(outcomes).map(|((of, found), outcome)| {
            let mut row: Vec<String> = of.values.to_vec();
            if several {
                row.push(human::count(of.reports.len() as u64));
            }
            if judged {
                row.push(outcome.unwrap_or_else(|| "-".to_owned()));
            }
            row.extend(columns.iter().map(|column| {
                let values: Vec<Number> = found.iter().filter_map(column.value).collect();
                mean(&values).map_or_else(|| "-".to_owned(), |of| of.shown(column.shown))
            }));
            row
        });
        let variables = self.variables.len();
        let notes = all.iter().filter_map(not_offered).collect();
        Table { title, variables, names, heads, rows: rows.collect(), notes }
    }
}

/// That the tester did not send all that was asked of it: what was received says less of the device then.
fn not_offered(of: &Repetitions<'_>) -> Option<String> {
    let flows = of.reports.iter().flat_map(|report| &report.flows);
    let least = flows.filter_map(FlowReport::short_share).min_by(f64::total_cmp)?;
    let percent = (least * 1000.0).floor() / 10.0;
    let values = of.values.join(", ");
    let place = if values.is_empty() { String::new() } else { format!("{values}: ") };
    Some(format!("{place}the tester sent {percent} % of what was asked of it"))
}

/// Whether a signal cut it off: a request may be that of `--abort-on-fail`.
fn is_stopped(report: &Report) -> bool {
    matches!(&report.end, End::Stopped { signal } if signal != "request" && signal != ABORT_ON_FAIL)
}

/// The outcome of a run that was not stopped by a signal: half a run fails nothing.
fn judged(report: &Report) -> Option<&'static str> {
    verdict::outcome(report).filter(|_| !is_stopped(report))
}

/// Whether it is nothing but undecided that a run did not meet what was expected of it. Half a run decides nothing.
fn is_undecided(report: &Report) -> bool {
    let mut unmet = report.expectations().filter(|of| !of.expectation.met).peekable();
    judged(report) == Some(verdict::FAIL)
        && report.verdict == Verdict::Unmet
        && unmet.peek().is_some()
        && unmet.all(|of| of.expectation.undecided.is_some())
}

/// Whether runs met what was expected of them; `None` where nothing was.
fn outcome(reports: &[&Report]) -> Option<String> {
    let outcomes: Vec<&str> = reports.iter().filter_map(|report| judged(report)).collect();
    let undecided = reports.iter().filter(|report| is_undecided(report)).count();
    if undecided > 0 && undecided == outcomes.iter().filter(|word| **word == verdict::FAIL).count()
    {
        return Some(verdict::UNDECIDED.to_owned());
    }
    let failed = outcomes.iter().filter(|outcome| **outcome != verdict::PASS).count();
    match (failed, outcomes.len()) {
        (_, 0) => None,
        (0, _) => Some(verdict::PASS.to_owned()),
        (failed, all) if failed == all => Some(verdict::FAIL.to_owned()),
        (failed, all) => Some(format!("{} {failed} of {all}", verdict::FAIL)),
    }
}

/// A table in words.
pub(crate) struct Table {
    pub title: String,
    /// How many columns are variables.
    pub variables: usize,
    /// How many columns say which runs a row is of, and whether they passed.
    pub names: usize,
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// What is to be known of single rows.
    pub notes: Vec<String>,
}

/// The mean of values; a bound stands for itself where all are bounds.
pub(crate) fn mean(values: &[Number]) -> Option<Mean> {
    let (first, others) = values.split_first()?;
    let signed = values.iter().any(|value| value.real() < 0.0);
    if others.is_empty() || matches!(first, Number::Below(_)) {
        return Some(Mean { value: *first, within: None, signed });
    }
    if others.iter().all(|other| other == first) {
        return Some(Mean { value: *first, within: Some(0.0), signed });
    }
    let reals: Vec<f64> = values.iter().map(|value| value.real()).collect();
    let (mean, within) = mean_within(&reals)?;
    Some(Mean { value: Number::Real(mean), within, signed })
}

/// What a picture of a sweep shows: a name for its file, a title, its unit, and where the number is.
pub(crate) type Metric =
    (&'static str, &'static str, crate::pictures::scale::Unit, fn(&FlowReport) -> Option<f64>);

impl Presentable for Sweep {
    fn text(&self, rendering: Rendering) -> String {
        text::sweep(self, rendering)
    }
    fn json(&self, rendering: Rendering) -> String {
        if rendering.histograms {
            return json::pretty_or_line(self, rendering);
        }
        let mut without = self.clone();
        let points = without.points.into_iter();
        without.points = points
            .map(|point| Point { report: point.report.without_histograms(), ..point })
            .collect();
        json::pretty_or_line(&without, rendering)
    }
    fn html(&self, _: Rendering) -> String {
        page::sweep(self)
    }
    fn csv(&self) -> Option<String> {
        Some(rows::csv(self))
    }
    fn markdown(&self, _: Rendering) -> String {
        rows::markdown(self)
    }
    fn pictures(&self) -> Vec<Picture> {
        figures::pictures(self)
    }
    fn junit(&self) -> Option<String> {
        let names: Vec<String> = (0..self.points.len()).map(|place| self.name(place)).collect();
        let runs = names.iter().zip(&self.points);
        let runs = runs.map(|(name, point)| (name.as_str(), &point.report));
        let missing = self
            .is_cut_off()
            .then(|| format!("{} of {} runs were made whole", self.whole(), self.planned))
            .filter(|_| !self.is_aborted());
        Some(junit::runs(runs, missing.as_deref()))
    }
}
