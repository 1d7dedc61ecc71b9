//! A sweep for people: a row for each combination of values.

use super::Sweep;
use crate::format::Rendering;
use crate::human;
use crate::model::Verdict;
use crate::text::WIDTH;
use crate::text::style::{Style, clean, cut, hang};
use crate::text::table::{Cell, Table};
use crate::verdict;

/// Columns of a value.
const VALUE: usize = 24;
/// Findings that are listed.
const FINDINGS: usize = 20;

/// Writes a sweep.
pub(super) fn sweep(sweep: &Sweep, rendering: Rendering) -> String {
    let style = Style::new(rendering.colour);
    let mut parts = vec![headline(sweep, style)];
    for of in sweep.tables() {
        let heads: Vec<String> = of.heads.iter().map(|head| cut(&clean(head), VALUE)).collect();
        let cell = |row: &[String], place: usize| match place < of.variables {
            true => cut(&clean(&row[place]), VALUE),
            false => row[place].clone(),
        };
        let rows: Vec<Vec<String>> = of
            .rows
            .iter()
            .map(|row| (0..row.len()).map(|place| cell(row, place)).collect())
            .collect();
        let mut tables = Vec::new();
        for columns in blocks(&heads, &rows, of.names) {
            let names: Vec<&str> = columns.iter().map(|place| heads[*place].as_str()).collect();
            let mut table = Table::new(&names);
            for row in &rows {
                table.row(columns.iter().map(|place| Cell::from(row[*place].clone())).collect());
            }
            tables.push(table.render(2, style));
        }
        parts.push(style.strong(&clean(&of.title)) + "\n" + &tables.join("\n"));
    }
    parts.push(notes(sweep, style));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// The columns of each table that fits into a terminal, the first `names` in all of them.
fn blocks(heads: &[String], rows: &[Vec<String>], names: usize) -> Vec<Vec<usize>> {
    const GAP: usize = 2;
    let width = |place: usize| {
        let cells = rows.iter().map(|row| row[place].chars().count());
        GAP + cells.fold(heads[place].chars().count(), usize::max)
    };
    let fixed: usize = (0..names).map(width).sum();
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut left = 0;
    for place in names..heads.len() {
        let width = width(place);
        if blocks.is_empty() || width > left {
            blocks.push((0..names).collect());
            left = WIDTH.saturating_sub(fixed);
        }
        left = left.saturating_sub(width);
        blocks.last_mut().into_iter().for_each(|block| block.push(place));
    }
    blocks
}

fn headline(sweep: &Sweep, style: Style) -> String {
    let sentence = clean(&sweep.sentence());
    match sweep.exit_code {
        0 => style.strong(&sentence) + "\n",
        _ => style.bad(&sentence) + "\n",
    }
}

/// What is to be known of single runs.
fn notes(sweep: &Sweep, style: Style) -> String {
    let (mut lines, mut after) = (Vec::new(), Vec::new());
    for (place, point) in sweep.points.iter().enumerate() {
        let name = clean(&sweep.name(place));
        let told = |text: &str| hang("  ", &format!("{name}: {}", clean(text)), WIDTH) + "\n";
        let mut line = |text: &str| lines.push(told(text));
        match point.report.verdict {
            Verdict::Done | Verdict::Unmet => {}
            other => line(&verdict::word(other).replace('_', " ")),
        }
        for expected in point.report.expectations().filter(|of| !of.expectation.met) {
            let outcome = expected.expectation.outcome();
            line(&format!("{outcome} {}: {}", expected.text(), expected.expectation.found()));
        }
        // what failed stands before what makes numbers less certain
        after.extend(point.report.findings.iter().map(|finding| told(&finding.message)));
    }
    lines.extend(after);
    if lines.is_empty() {
        return String::new();
    }
    let more = lines.len().saturating_sub(FINDINGS);
    lines.truncate(FINDINGS);
    let more = match more {
        0 => String::new(),
        more => format!("  and {} more: --json FILE\n", human::count(more as u64)),
    };
    format!("{}\n{}{more}", style.strong("findings"), lines.concat())
}
