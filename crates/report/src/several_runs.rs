//! Several runs side by side: the same numbers of each, and by how much they differ from the first run.
//!
//! Flows and groups of sessions belong together by their names. Renderings: `text/side_by_side.rs`, `html/side_by_side.rs`, `csv.rs`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::{Column, FLOW, In, Number, SESSION, Shown};
use crate::exit::Exit;
use crate::human;
use crate::model::{FlowReport, Report, SCHEMA_VERSION, SessionEnd, SessionReport};
use crate::verdict;

/// Runs to compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeveralRuns {
    /// Version of this model: "4".
    pub schema_version: String,
    /// Version of the program that compares.
    pub wirebeat_version: String,
    /// The runs; others are compared with the first.
    pub runs: Vec<NamedRun>,
}

/// A run and what it is called here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedRun {
    /// Its name: the file that it was read from.
    pub name: String,
    /// Its report.
    pub report: Report,
}

/// Rows under a heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What they are of: "all flows", "flow voice".
    pub title: String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A number of each run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub title: &'static str,
    /// Of each run, in words, and by how much it differs from the first; both empty where not known.
    pub cells: Vec<(String, String)>,
}

/// Flows and groups that have a block of their own.
pub const BLOCKS: usize = 200;

impl SeveralRuns {
    /// Of these runs.
    pub fn new(wirebeat_version: String, runs: Vec<NamedRun>) -> SeveralRuns {
        SeveralRuns { schema_version: SCHEMA_VERSION.to_owned(), wirebeat_version, runs }
    }

    /// The gravest exit code of the runs.
    pub fn exit_code(&self) -> u8 {
        let exits = self.runs.iter().filter_map(|run| Exit::of(run.report.exit_code));
        exits.fold(Exit::Done, Exit::and).code()
    }

    /// Each report with its name.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Report)> {
        self.runs.iter().map(|run| (run.name.as_str(), &run.report))
    }

    /// What each run was.
    pub fn runs(&self) -> Block {
        let first = self.runs.first().map(|run| &run.report);
        let same =
            |run: &Report| match (&run.scenario, first.and_then(|first| first.scenario.as_ref())) {
                (Some(scenario), Some(of_first)) if scenario == of_first => "as the first",
                (Some(_), Some(_)) => "another",
                _ => "not known",
            };
        let station = |run: &Report| run.senders.first().or(run.receivers.first()).cloned();
        let row = |title, text: &dyn Fn(&Report) -> String| Row {
            title,
            cells: self.runs.iter().map(|run| (text(&run.report), String::new())).collect(),
        };
        let rows = vec![
            row("verdict", &|run| verdict::word(run.verdict).replace('_', " ")),
            row("findings", &|run| human::count(run.findings.len() as u64)),
            row("expectations met", &|run| {
                let all = run.expectations().count();
                let met = run.expectations().filter(|one| one.expectation.met).count();
                if all == 0 { "-".to_owned() } else { format!("{met} of {all}") }
            }),
            row("started", &|run| run.started.clone()),
            row("duration", &|run| human::time(run.duration_ns as f64)),
            row("scenario", &|run| same(run).to_owned()),
            row("host", &|run| station(run).map_or_else(|| "-".to_owned(), |of| of.host.name)),
            row("kernel", &|run| station(run).map_or_else(|| "-".to_owned(), |of| of.host.kernel)),
            row("engine", &|run| station(run).map_or_else(|| "-".to_owned(), |of| of.engine)),
            row("wirebeat", &|run| run.wirebeat_version.clone()),
        ];
        Block { title: "runs".to_owned(), rows }
    }

    /// The numbers: of all flows, of each flow, of each group of sessions. At most `most` flows and groups each.
    pub fn blocks(&self, most: usize) -> Vec<Block> {
        let reports = || self.runs.iter().map(|run| &run.report);
        let mut blocks = Vec::new();
        let totals = reports().map(|run| Some(&run.total).filter(|_| !run.flows.is_empty()));
        blocks.push(block("all flows".to_owned(), FLOW, &totals.collect::<Vec<_>>()));
        let names: Vec<&str> =
            unique(reports().flat_map(|run| run.flows.iter().map(|flow| flow.name.as_str())));
        // of a single flow, the total says all
        if names.len() > 1 {
            for name in names.into_iter().take(most) {
                let of = |run: &'_ Report| run.flows.iter().position(|flow| flow.name == name);
                let found: Vec<Option<&FlowReport>> =
                    reports().map(|run| run.flows.get(of(run)?)).collect();
                blocks.push(block(format!("flow {name}"), FLOW, &found));
            }
        }
        let ends = reports()
            .flat_map(|run| run.sessions.iter().map(|group| (group.name.as_str(), group.end)));
        let ends: Vec<(&str, SessionEnd)> = unique(ends);
        for (name, end) in ends.into_iter().take(most) {
            let found: Vec<Option<&SessionReport>> = reports()
                .map(|run| run.sessions.iter().find(|group| group.name == name && group.end == end))
                .collect();
            blocks.push(block(format!("sessions {name} ({})", end.name()), SESSION, &found));
        }
        blocks.retain(|block| !block.rows.is_empty());
        blocks
    }

    /// Flows that are in some run.
    pub fn flows(&self) -> usize {
        let names =
            self.runs.iter().flat_map(|run| run.report.flows.iter().map(|flow| flow.name.as_str()));
        unique(names).len()
    }
}

/// Each value once, in the order in which they come first.
fn unique<T: Ord + Copy>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(*one)).collect()
}

/// The brief columns as rows, those in which some run has a value.
fn block<T>(title: String, columns: &[Column<T>], of: &[Option<&T>]) -> Block {
    let rows = columns.iter().filter(|column| column.place == In::Brief).filter_map(|column| {
        let values: Vec<Option<Number>> = of.iter().map(|one| (column.value)((*one)?)).collect();
        let first = values.first().copied().flatten();
        let cell = |(place, value): (usize, &Option<Number>)| match value {
            None => (String::new(), String::new()),
            Some(value) if place == 0 => (column.shown.show(*value), String::new()),
            Some(value) => (column.shown.show(*value), difference(first, *value, column.shown)),
        };
        let known = values.iter().any(Option::is_some);
        known.then(|| Row {
            title: column.title,
            cells: values.iter().enumerate().map(cell).collect(),
        })
    });
    Block { title, rows: rows.collect() }
}

/// By how much a value differs from the first run's.
fn difference(first: Option<Number>, value: Number, shown: Shown) -> String {
    let bound = |number: &Number| matches!(number, Number::Below(_));
    let Some(first) = first.filter(|first| !bound(first) && !bound(&value)) else {
        return String::new();
    };
    let (from, to) = (first.real(), value.real());
    match shown {
        _ if from == to => "=".to_owned(),
        // from nothing, and of numbers that are differences themselves, no ratio says anything
        Shown::Deviation => String::new(),
        _ if from <= 0.0 || !from.is_finite() => String::new(),
        _ if to / from >= 10.0 => format!("×{}", human::number(to / from)),
        _ => percent((to / from - 1.0) * 100.0),
    }
}

fn percent(percent: f64) -> String {
    let sign = if percent < 0.0 { "-" } else { "+" };
    match percent.abs() {
        little if little < 0.05 => format!("{sign}<0.1 %"),
        much => format!("{sign}{much:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_of_the_first_run() {
        for (first, value, told) in [
            (100, 100, "="),
            (0, 0, "="),
            (0, 5, ""),
            (100, 150, "+50.0 %"),
            (100, 50, "-50.0 %"),
            (100_000, 100_001, "+<0.1 %"),
            (1, 20, "×20.0"),
        ] {
            let [first, value] = [first, value].map(Number::Whole);
            assert_eq!(difference(Some(first), value, Shown::Count), told);
        }
        assert_eq!(difference(Some(Number::Below(9)), Number::Signed(3), Shown::Time), "");
        assert_eq!(difference(None, Number::Signed(3), Shown::Time), "");
    }
}
