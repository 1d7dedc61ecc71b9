//! CSV (RFC 4180): a row for each flow, for all of them together, and for each group of sessions at each end.
//!
//! Numbers are plain decimals in the unit that the column's name ends in; an empty field is a value that is not known. Names come
//! from users and peers, so no field acts in a spreadsheet: what would begin a formula has an apostrophe before it, as spreadsheets
//! write text themselves.

pub(crate) use wirebeat_units::printable::csv_field as field;

use crate::columns::{Column, FLOW, SESSION};
use crate::document::ErrorReport;
use crate::model::Report;

/// What every row begins with: what it is of; the run, the name and the end; and of a failure, what happened.
const BEGIN: [&str; 6] = ["kind", "name", "end", "run", "verdict", "message"];

/// What the head of a file of ours begins with.
pub const MARK: &str = "kind,name,";

/// Writes the rows of reports, with the name of each run where there are several.
pub(crate) fn reports<'a>(runs: impl IntoIterator<Item = (&'a str, &'a Report)>) -> String {
    let mut out = heading();
    for (run, report) in runs {
        let verdict = crate::verdict::word(report.verdict);
        let total =
            (report.flows.len() != 1 && report.total.name == "total").then_some(&report.total);
        let none = report.flows.is_empty() && !report.sessions.is_empty();
        let flows = report.flows.iter().map(|flow| ("flow", flow));
        for (kind, flow) in flows.chain(total.filter(|_| !none).map(|total| ("total", total))) {
            let begin = [kind, &flow.name, "", run, verdict, ""];
            row(&mut out, begin, values(FLOW, Some(flow)).chain(values(SESSION, None)));
        }
        for group in &report.sessions {
            let begin = ["sessions", &group.name, group.end.name(), run, verdict, ""];
            row(&mut out, begin, values(FLOW, None).chain(values(SESSION, Some(group))));
        }
    }
    out
}

/// Rows that a report has.
pub(crate) fn row_count(report: &Report) -> usize {
    let total = report.flows.len() != 1 && report.total.name == "total";
    let none = report.flows.is_empty() && !report.sessions.is_empty();
    report.flows.len() + usize::from(total && !none) + report.sessions.len()
}

/// Writes an error, in the same columns.
pub(crate) fn error(error: &ErrorReport) -> String {
    let mut out = heading();
    let code = error.error.exit_code.to_string();
    let begin = ["error", "", "", "", &format!("exit code {code}"), &error.error.message];
    row(&mut out, begin, values(FLOW, None).chain(values(SESSION, None)));
    out
}

fn heading() -> String {
    let mut out = String::new();
    let flows = FLOW.iter().map(|column| column.key.to_owned());
    row(&mut out, BEGIN, flows.chain(SESSION.iter().map(|column| column.key.to_owned())));
    out
}

fn values<'a, T>(columns: &'a [Column<T>], of: Option<&'a T>) -> impl Iterator<Item = String> + 'a {
    columns.iter().map(move |column| {
        let value = of.and_then(|of| (column.value)(of));
        value.map_or_else(String::new, |number| number.exact())
    })
}

fn row(out: &mut String, begin: [&str; 6], numbers: impl Iterator<Item = String>) {
    for (place, text) in begin.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        *out += &field(text);
    }
    for number in numbers {
        out.push(',');
        *out += &number;
    }
    *out += "\r\n";
}
