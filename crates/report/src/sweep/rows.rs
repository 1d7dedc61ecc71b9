//! A sweep as rows: CSV with a row for each flow and each group of each run, behind the values of its variables.

use super::{Sweep, services};
use crate::csv;
use crate::markdown;
use crate::provenance::facts;

/// Writes the rows.
pub(super) fn csv(sweep: &Sweep) -> String {
    let names: Vec<String> = (0..sweep.points.len()).map(|place| sweep.name(place)).collect();
    let runs = names.iter().zip(&sweep.points);
    let rows = csv::reports(runs.map(|(name, point)| (name.as_str(), &point.report)));
    if sweep.variables.is_empty() {
        return rows;
    }
    // the values of a run stand behind its rows, so that the head stays the one that files of ours have
    let mut out = String::new();
    let mut lines = rows.split_inclusive("\r\n");
    let with = |line: &str, values: &[String]| {
        let values: Vec<String> = values.iter().map(|value| csv::field(value)).collect();
        format!("{},{}\r\n", line.trim_end_matches("\r\n"), values.join(","))
    };
    let heads: Vec<String> =
        sweep.variables.iter().map(|name| format!("variable {name}")).collect();
    out += &with(lines.next().unwrap_or_default(), &heads);
    for point in &sweep.points {
        for line in lines.by_ref().take(csv::row_count(&point.report)) {
            out += &with(line, &point.values);
        }
    }
    out
}

/// Writes the tables.
pub(super) fn markdown(sweep: &Sweep) -> String {
    let title = sweep.test.as_deref().unwrap_or("runs");
    let sentence = markdown::escape(&sweep.sentence());
    let mut out = format!("{} {}\n\n{sentence}\n\n", markdown::MARK, markdown::escape(title));
    let first = sweep.points.first().map(|point| &point.report);
    let started = first.map_or("", |report| report.started.as_str());
    for (name, fact) in facts(started, None, &sweep.command_line, first) {
        out += &format!("- {name}: {}\n", markdown::escape(&fact));
    }
    if let Some(test) = &sweep.services {
        out += &format!("- durations: {}\n", services::durations(test));
    }
    let of_services = sweep.services.as_ref().map(|_| services::criteria(sweep));
    for table in sweep.tables().into_iter().chain(of_services) {
        let heads: Vec<&str> = table.heads.iter().map(String::as_str).collect();
        out += &markdown::rows(&markdown::escape(&table.title), &heads, table.rows);
        for note in &table.notes {
            out += &format!("\n{}\n", markdown::escape(note));
        }
    }
    let unmet = sweep.points.iter().enumerate().flat_map(|(place, point)| {
        let unmet = point.report.expectations().filter(|of| !of.expectation.met);
        unmet.map(move |of| {
            let found = format!("{} ({})", of.text(), of.expectation.found());
            vec![sweep.name(place), of.expectation.outcome().to_owned(), found]
        })
    });
    out += &markdown::rows("Not met", &["run", "outcome", "expected"], unmet.collect());
    if let Some(test) = sweep.services.as_ref().filter(|test| !test.deviations.is_empty()) {
        out += "\n## Not as the standard has it\n\n";
        for text in &test.deviations {
            out += &format!("- {}\n", markdown::escape(text));
        }
    }
    out
}
