//! A sweep for people: a row for each combination of values.

use super::Sweep;
use crate::format::Rendering;
use crate::human;
use crate::model::{Expected, FindingKind, FlowReport, Report, Verdict};
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
        let notes = of.notes.iter().map(|note| hang("  ", &clean(note), WIDTH) + "\n");
        let notes: String = notes.collect();
        parts.push(style.strong(&clean(&of.title)) + "\n" + &tables.join("\n") + &notes);
    }
    parts.push(notes(sweep, style));
    if let Some(test) = sweep.services.as_ref().filter(|test| !test.deviations.is_empty()) {
        let lines = test.deviations.iter().map(|text| hang("  ", &clean(text), WIDTH) + "\n");
        parts.push(style.strong("not as the standard has it") + "\n" + &lines.collect::<String>());
    }
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
    let sentence = match sweep.exit_code {
        0 => style.strong(&sentence) + "\n",
        _ => style.bad(&sentence) + "\n",
    };
    let durations = sweep.services.as_ref().map(|test| super::services::durations(test) + "\n");
    sentence + &durations.unwrap_or_default()
}

/// What is to be known of single runs.
fn notes(sweep: &Sweep, style: Style) -> String {
    let mut lines: Vec<String> =
        findings(sweep).iter().map(|text| hang("  ", &clean(text), WIDTH) + "\n").collect();
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

/// The same, a line for each: what did not arrive at all, then what was not met, then what makes numbers less certain.
pub(super) fn findings(sweep: &Sweep) -> Vec<String> {
    let (mut lines, mut after) = (nothing_arrived(sweep), Vec::new());
    for (place, point) in sweep.points.iter().enumerate() {
        let name = sweep.name(place);
        let report = &point.report;
        match report.verdict {
            Verdict::Done | Verdict::Unmet => {}
            other => lines.push(format!("{name}: {}", verdict::word(other).replace('_', " "))),
        }
        lines.extend(unmet(report).into_iter().map(|line| format!("{name}: {line}")));
        // of what did not arrive it is told above
        let told = report.flows.iter().any(is_silent);
        let others = report.findings.iter();
        let others = others.filter(|of| !told || of.kind != FindingKind::NothingReceived);
        after.extend(others.map(|finding| format!("{name}: {}", finding.message)));
    }
    lines.extend(after);
    lines
}

/// Whether a flow was sent, and nothing of it arrived.
fn is_silent(flow: &FlowReport) -> bool {
    flow.sent.as_ref().is_some_and(|sent| sent.sent.frames > 0)
        && flow.received.as_ref().is_some_and(|of| of.received.frames == 0)
}

/// The flows of which nothing arrived, once for all runs.
fn nothing_arrived(sweep: &Sweep) -> Vec<String> {
    const HINT: &str =
        "check its addresses, ports and VLAN, and what filters or polices it on the way";
    let mut names: Vec<&str> = Vec::new();
    let reports = || sweep.points.iter().map(|point| &point.report);
    for flow in reports().flat_map(|report| &report.flows).filter(|flow| is_silent(flow)) {
        if !names.contains(&flow.name.as_str()) {
            names.push(&flow.name);
        }
    }
    let line = |name: &str| {
        let all = || reports().filter(|report| report.flows.iter().any(|flow| flow.name == name));
        let silent = || {
            let is = |flow: &FlowReport| flow.name == name && is_silent(flow);
            all().filter(move |report| report.flows.iter().any(is))
        };
        let why = silent().find_map(|report| {
            let of = report.findings.iter().find(|of| of.kind == FindingKind::NothingReceived)?;
            Some(of.message.split_once(": ").map_or(of.message.as_str(), |(_, why)| why))
        });
        let (silent, all) = (silent().count() as u64, all().count() as u64);
        let runs = format!("{} of {}", human::count(silent), human::counted(all, "run"));
        format!("nothing arrived of {name} in {runs}: {}", why.unwrap_or(HINT))
    };
    names.into_iter().map(line).collect()
}

/// What was not met, a line for each flow or group; without flows of which nothing arrived.
fn unmet(report: &Report) -> Vec<String> {
    let silent = |of: &Expected<'_>| {
        report.flows.iter().any(|flow| Some(flow.name.as_str()) == of.of && is_silent(flow))
    };
    let all: Vec<Expected<'_>> =
        report.expectations().filter(|of| !of.expectation.met && !silent(of)).collect();
    let of_one = |all: &[Expected<'_>]| {
        let failed = all.iter().any(|of| of.expectation.undecided.is_none());
        let word = if failed { verdict::FAIL } else { verdict::UNDECIDED };
        match all {
            [one] => format!("{word} {}: {}", one.text(), one.expectation.found()),
            several => {
                let each = several
                    .iter()
                    .map(|of| format!("{} ({})", of.expectation.text, of.expectation.found()));
                let each: Vec<String> = each.collect();
                format!(
                    "{word} {}: {}",
                    several.first().map_or("", Expected::whom),
                    each.join(", ")
                )
            }
        }
    };
    all.chunk_by(|one, other| one.of == other.of).map(of_one).collect()
}
