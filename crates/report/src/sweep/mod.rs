//! A scenario run with several values of its variables, or several times: what changes with what.
//!
//! Runs with the same values are repetitions: tables have their mean and its 95 % interval by Student's t. A run is one value; nothing is
//! said of what happened within it. Renderings: `text.rs`, `page.rs`, `rows.rs` (CSV, Markdown), `figures.rs`.

mod figures;
mod page;
mod rows;
#[cfg(test)]
mod tests;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::{Column, FLOW, In, Number, SESSION};
use crate::exit::Exit;
use crate::format::{Presentable, Rendering};
use crate::human;
use crate::json;
use crate::junit;
use crate::model::{End, FlowReport, Report, SCHEMA_VERSION, SessionReport};
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
            variables,
            planned,
            points,
            exit_code,
        }
    }

    /// Adds a run.
    pub fn add(&mut self, values: Vec<String>, report: Report) {
        self.points.push(Point { values, report });
        let missing = if self.is_cut_off() { Exit::Unfinished } else { Exit::Done };
        let judged = self.points.iter().filter(|point| !is_stopped(&point.report));
        let exits = judged.filter_map(|point| Exit::of(point.report.exit_code));
        self.exit_code = exits.fold(missing, Exit::and).code();
    }

    /// Whether runs are missing, or the last one was stopped by a signal.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.points.len() < self.planned
            || self.points.iter().any(|point| is_stopped(&point.report))
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
        let outcome = match (failed, outcomes().count() as u64, self.is_cut_off()) {
            (0, _, true) => "UNFINISHED.  ".to_owned(),
            (0, 0, false) => String::new(),
            (0, _, false) => format!("{}  ", verdict::PASS),
            (failed, all, _) => format!("{}  {failed} of {all} failed.  ", verdict::FAIL),
        };
        let title = self.test.as_deref().map_or_else(String::new, |test| format!("{test}  "));
        let runs = human::counted(made as u64, "run");
        let of = match self.is_cut_off() {
            true => format!(" of {}: unfinished", self.planned),
            false => String::new(),
        };
        format!("{outcome}{title}wirebeat {}  {runs}{of}", self.wirebeat_version)
    }

    /// The runs by their values, in the order in which these come first.
    pub(crate) fn repetitions(&self) -> Vec<Repetitions<'_>> {
        let mut all: Vec<Repetitions<'_>> = Vec::new();
        for point in &self.points {
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
                mean(&values).map_or_else(
                    || "-".to_owned(),
                    |of| {
                        let shown = column.shown.show(of.value);
                        match of.within {
                            Some(within) if within > 0.0 => {
                                format!("{shown} ± {}", column.shown.show(Number::Real(within)))
                            }
                            _ => shown,
                        }
                    },
                )
            }));
            row
        });
        Table { title, variables: self.variables.len(), names, heads, rows: rows.collect() }
    }
}

/// Whether a signal cut it off: a request may be that of `--abort-on-fail`.
fn is_stopped(report: &Report) -> bool {
    matches!(&report.end, End::Stopped { signal } if signal != "request")
}

/// The outcome of a run that was not stopped by a signal: half a run fails nothing.
fn judged(report: &Report) -> Option<&'static str> {
    verdict::outcome(report).filter(|_| !is_stopped(report))
}

/// Whether runs met what was expected of them; `None` where nothing was.
fn outcome(reports: &[&Report]) -> Option<String> {
    let outcomes: Vec<&str> = reports.iter().filter_map(|report| judged(report)).collect();
    let undecided = |report: &&&Report| {
        let mut unmet = report.expectations().filter(|of| !of.expectation.met).peekable();
        unmet.peek().is_some() && unmet.all(|of| of.expectation.undecided.is_some())
    };
    let undecided = reports.iter().filter(undecided).count();
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
}

/// The mean of values; a bound stands for itself where all are bounds.
pub(crate) fn mean(values: &[Number]) -> Option<Mean> {
    let (first, others) = values.split_first()?;
    if others.is_empty() || matches!(first, Number::Below(_)) {
        return Some(Mean { value: *first, within: None });
    }
    if others.iter().all(|other| other == first) {
        return Some(Mean { value: *first, within: Some(0.0) });
    }
    let reals: Vec<f64> = values.iter().map(|value| value.real()).collect();
    let (mean, within) = mean_within(&reals)?;
    Some(Mean { value: Number::Real(mean), within })
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
            return json::pretty(self);
        }
        let mut without = self.clone();
        let points = without.points.into_iter();
        without.points = points
            .map(|point| Point { report: point.report.without_histograms(), ..point })
            .collect();
        json::pretty(&without)
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
            .then(|| format!("{} of {} runs were made whole", self.whole(), self.planned));
        Some(junit::runs(runs, missing.as_deref()))
    }
}
