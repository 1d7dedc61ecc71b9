//! Markdown (GitHub's, with tables): the verdict, expectations, findings, flows and sessions, and the command.
//!
//! Names come from users and peers: what would be markup or HTML in them is escaped, so that it is read as it is written.

use crate::columns::{Column, FLOW, SESSION, brief};
use crate::document::ErrorReport;
use crate::human;
use crate::model::{FlowReport, Report, SessionReport};
use crate::several_runs::{Block, SeveralRuns};
use crate::text::style::clean;
use crate::{text, verdict};

/// What every file begins with, by which a file is known as ours.
pub const MARK: &str = "# Wirebeat";

/// Writes a report.
pub(crate) fn report(report: &Report) -> String {
    let mut out = format!(
        "{MARK} report\n\n**{}.** {}, {}, {}.\n",
        verdict::sentence(report),
        escape(&report.started),
        human::time(report.duration_ns as f64),
        escape(&human::end(&report.end))
    );
    if report.expectations().next().is_some() {
        out += "\n## Expectations\n\n";
        let rows = report.expectations().map(|of| {
            let one = of.expectation;
            [of.whom(), &one.text, &one.found(), one.outcome()].map(str::to_owned).to_vec()
        });
        table(&mut out, &["of", "expected", "found", "outcome"], 4, rows);
    }
    if !report.findings.is_empty() {
        out += "\n## Findings\n\n";
        for finding in &report.findings {
            out += &format!("- {}\n", escape(&finding.message));
        }
    }
    flows(&mut out, report);
    sessions(&mut out, report);
    let trends = report.trends.iter().map(|trend| text::trend_cells(trend).to_vec());
    out += &rows("In the course of the run", &text::TREND_HEADS, trends.collect());
    if !report.command_line.is_empty() {
        out += &format!("\n## Run it again\n\n{}", code(&text::command(report)));
    }
    out
}

/// Writes runs side by side.
pub(crate) fn several_runs(several_runs: &SeveralRuns) -> String {
    let mut out = format!("{MARK} runs side by side\n");
    let blocks = several_runs.blocks(crate::several_runs::BLOCKS);
    for block in [several_runs.runs()].iter().chain(&blocks) {
        out += &format!("\n## {}\n\n", escape(&block.title));
        self::block(&mut out, block, several_runs);
    }
    out
}

/// Writes an error.
pub(crate) fn error(error: &ErrorReport) -> String {
    format!("{MARK}: no report\n\n{}\n", escape(&error.error.message))
}

/// A text as it is.
pub(crate) fn plain(text: &str) -> String {
    format!("{MARK}\n\n{}", code(text))
}

fn flows(out: &mut String, report: &Report) {
    let flows: Vec<&FlowReport> = report.flows.iter().collect();
    if flows.is_empty() {
        return;
    }
    *out += "\n## Flows\n\n";
    let columns = brief(FLOW, &flows);
    let total = (flows.len() > 1).then_some(&report.total);
    let rows = flows.iter().copied().chain(total).map(|flow| named(&flow.name, &columns, flow));
    table(out, &heads("flow", &columns), 1, rows);
}

fn sessions(out: &mut String, report: &Report) {
    let groups: Vec<&SessionReport> = report.sessions.iter().collect();
    if groups.is_empty() {
        return;
    }
    *out += "\n## Sessions\n\n";
    let columns = brief(SESSION, &groups);
    let name = |group: &SessionReport| format!("{} ({})", group.name, group.end.name());
    let rows = groups.iter().map(|group| named(&name(group), &columns, group));
    table(out, &heads("group", &columns), 1, rows);
}

fn heads<'a, T>(first: &'a str, columns: &[&'a Column<T>]) -> Vec<&'a str> {
    [first].into_iter().chain(columns.iter().map(|column| column.title)).collect()
}

fn named<T>(name: &str, columns: &[&Column<T>], of: &T) -> Vec<String> {
    [name.to_owned()].into_iter().chain(columns.iter().map(|column| column.show(of))).collect()
}

fn block(out: &mut String, block: &Block, several_runs: &SeveralRuns) {
    let names = several_runs.runs.iter().map(|run| run.name.as_str());
    let heads: Vec<&str> = [""].into_iter().chain(names).collect();
    let rows = block.rows.iter().map(|row| {
        let cells = row.cells.iter().map(|(value, difference)| match difference.as_str() {
            "" => value.clone(),
            told => format!("{value} ({told})"),
        });
        [row.title.to_owned()].into_iter().chain(cells).collect()
    });
    table(out, &heads, 1, rows);
}

/// A table: the first columns to the left, the others, which are numbers, to the right.
fn table(out: &mut String, heads: &[&str], left: usize, rows: impl Iterator<Item = Vec<String>>) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    *out += &line(heads.iter().map(|head| escape(head)).collect());
    let rule = |place| if place < left { "---" } else { "---:" }.to_owned();
    *out += &line((0..heads.len()).map(rule).collect());
    for row in rows {
        *out += &line(row.iter().map(|cell| escape(cell)).collect());
    }
}

/// A table under its heading; nothing where it has no rows.
pub(crate) fn rows(title: &str, heads: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!("\n## {title}\n\n");
    table(&mut out, heads, 1, rows.into_iter());
    out
}

/// A text as a block of code that it cannot end.
fn code(text: &str) -> String {
    let text = wirebeat_units::printable::printable_lines(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}text\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// A text as one line in which nothing is markup (CommonMark 0.31 §2.4).
pub(crate) fn escape(text: &str) -> String {
    let text = clean(text);
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
        let begins = at == 0 && matches!(c, '-' | '+' | '=');
        // numbers of lists, and links that GitHub finds by itself
        let after_digits = at > 0 && text[..at].chars().all(|c| c.is_ascii_digit());
        let in_place = begins
            || matches!(c, '.' | ')') && after_digits && rest.starts_with(' ')
            || c == ':' && rest.starts_with("//")
            || c == '.' && text[..at].to_ascii_lowercase().ends_with("www");
        if in_place || "\\`*_[]<>#!|~&$@".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        for (name, written) in [
            ("voice", "voice"),
            ("a|b", "a\\|b"),
            ("<script>", "\\<script\\>"),
            ("</td>&lt;", "\\</td\\>\\&lt;"),
            ("[x](javascript:a)", "\\[x\\](javascript:a)"),
            ("# a", "\\# a"),
            ("- a", "\\- a"),
            ("1. a", "1\\. a"),
            ("10.0.0.1", "10.0.0.1"),
            ("12.5 kpps", "12.5 kpps"),
            ("http://x", "http\\://x"),
            ("www.x", "www\\.x"),
            ("a\n\n# b\x1b[1m", "a\u{fffd}\u{fffd}\\# b\u{fffd}\\[1m"),
            ("`a` **b**", "\\`a\\` \\*\\*b\\*\\*"),
        ] {
            assert_eq!(escape(name), written);
        }
    }

    #[test]
    fn a_block_of_code_is_not_ended_by_what_is_in_it() {
        assert_eq!(code("a\n```\nb"), "````text\na\n```\nb\n````\n");
    }
}
