//! A sweep as rows: CSV with a row for each flow and each group of each run, behind the values of its variables.

use super::Sweep;
use crate::csv;
use crate::markdown;

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
    let mut out = format!("{} {}\n\n{sentence}\n", markdown::MARK, markdown::escape(title));
    for table in sweep.tables() {
        let heads: Vec<&str> = table.heads.iter().map(String::as_str).collect();
        out += &markdown::rows(&markdown::escape(&table.title), &heads, table.rows);
    }
    let unmet = sweep.points.iter().enumerate().flat_map(|(place, point)| {
        let unmet = point.report.expectations().filter(|of| !of.expectation.met);
        unmet.map(move |of| {
            let found = format!("{} ({})", of.text(), of.expectation.found());
            vec![sweep.name(place), of.expectation.outcome().to_owned(), found]
        })
    });
    out += &markdown::rows("Not met", &["run", "outcome", "expected"], unmet.collect());
    out
}
