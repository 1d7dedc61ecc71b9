//! The page of a sweep.

use maud::{Markup, html};

use super::figures::gallery;
use super::{Sweep, Table, services, text};
use crate::html::{galleries, page, scroll, told, yaml_of};
use crate::model::Report;
use crate::provenance::{facts, list};
use crate::text::environment;

/// Findings that are listed.
const FINDINGS: usize = 200;

/// Writes a sweep.
pub(super) fn sweep(sweep: &Sweep) -> String {
    let title = title(sweep);
    let gallery = gallery(sweep);
    let first = sweep.points.first().map(|point| &point.report);
    let started = first.map_or("", |report| report.started.as_str());
    let mut facts = facts(started, None, &sweep.command_line, first);
    if let Some(test) = &sweep.services {
        facts.push(("durations", services::durations(test)));
    }
    let findings = text::findings(sweep);
    let main = html! {
        h1 { (told(&title)) }
        div.verdict.bad[sweep.exit_code != 0] {
            span.mark aria-hidden="true" { @if sweep.exit_code == 0 { "✓" } @else { "✗" } }
            (told(&sweep.sentence()))
        }
        (list(&facts))
        (lines("Findings", findings.iter().take(FINDINGS)))
        @for of in sweep.tables() { (table(&of)) }
        @if sweep.services.is_some() { (table(&services::criteria(sweep))) }
        @if !gallery.figures.is_empty() { (galleries(&[gallery])) }
        @if let Some(test) = &sweep.services { (lines("Not as the standard has it", test.deviations.iter())) }
        @if let Some(report) = first { (first_run(report)) }
        footer { "Made by wirebeat " (told(&sweep.wirebeat_version)) "." }
    };
    page(&title, &main)
}

fn title(sweep: &Sweep) -> String {
    let title = sweep.services.as_ref().and_then(|services| services.title.as_deref());
    match (&sweep.test, sweep.variables.is_empty()) {
        (Some(test), _) => {
            format!("{}{test}", title.map_or("Wirebeat ".to_owned(), |title| format!("{title}: ")))
        }
        (None, true) => "Wirebeat runs of one scenario".to_owned(),
        (None, false) => format!("Wirebeat runs over {}", sweep.variables.join(", ")),
    }
}

/// Where and how the first run took place, and its scenario.
fn first_run(report: &Report) -> Markup {
    let scenario = report.scenario.as_ref().and_then(yaml_of);
    html! {
        section {
            h2 { "Environment of the first run" }
            dl.facts {
                @for (label, lines) in environment(report) {
                    dt { (label) }
                    dd { @for line in lines { div { (told(&line)) } } }
                }
            }
            @if let Some(yaml) = scenario {
                details { summary { "Scenario of the first run" } pre { (yaml) } }
            }
        }
    }
}

fn lines<'a>(title: &str, lines: impl Iterator<Item = &'a String>) -> Markup {
    let mut lines = lines.peekable();
    html! {
        @if lines.peek().is_some() {
            section { h2 { (title) } ul.findings { @for line in lines { li { (told(line)) } } } }
        }
    }
}

fn table(of: &Table) -> Markup {
    let table = html! {
        table {
            thead { tr { @for (place, head) in of.heads.iter().enumerate() {
                th.n[place >= of.variables] scope="col" { (told(head)) }
            } } }
            tbody { @for row in &of.rows { tr { @for (place, cell) in row.iter().enumerate() {
                @if place < of.variables { th scope="row" { (told(cell)) } } @else { td.n { (told(cell)) } }
            } } } }
        }
    };
    html! {
        section {
            h2 { (told(&of.title)) }
            (scroll(&of.title, &table))
            @for note in &of.notes { p.dim { (told(note)) } }
        }
    }
}
