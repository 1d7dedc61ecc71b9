//! The page of a test.

use maud::{Markup, html};

use super::figures::gallery;
use super::tables::{ResultTable, tables};
use super::{TestReport, text};
use crate::html::{galleries, page, scroll, told};
use crate::human;
use crate::model::Verdict;
use crate::provenance::{facts, list};

/// Writes a test.
pub(super) fn test(test: &TestReport) -> String {
    let good = test.verdict == Verdict::Done;
    let title = test.title.as_deref().unwrap_or(&test.test);
    let of_run = test.last_trial.as_deref();
    let facts = facts(&test.started, Some(test.duration_ns), &test.command_line, of_run);
    let trials = text::trials_and_place(test);
    let main = html! {
        h1 { (told(title)) }
        p.dim { @if test.title.is_some() { (told(&test.test)) ", " } (told(&human::end(&test.end))) }
        div.verdict.bad[!good] {
            span.mark aria-hidden="true" { @if good { "✓" } @else { "✗" } }
            @if let Some(word) = test.outcome() { (word) ". " }
            @match test.verdict {
                Verdict::Done => { "Done" },
                Verdict::Unmet => { "Below the required throughput of " (told(test.parameters.required.as_deref().unwrap_or_default())) },
                _ => { "Unfinished: what is here is right as far as the test went" },
            }
            small {
                "Highest load " (told(&test.parameters.max_load)) ", trials of " (human::long_time(test.parameters.trial_ns))
                ", " (told(&test.parameters.search)) " to " (human::percent(test.parameters.width))
            }
        }
        (list(&facts))
        (notes("Findings", &test.findings))
        @for table in tables(test) { (results(&table)) }
        (galleries(&[gallery(test)]))
        (notes("Not as the standard has it", &test.deviations))
        @if !trials.is_empty() {
            section {
                h2 { "Every trial" }
                pre { (wirebeat_units::printable::printable_lines(&trials)) }
            }
        }
        footer { "Made by wirebeat " (told(&test.wirebeat_version)) "." }
    };
    page(&format!("{title}, {}", test.started), &main)
}

/// A table of results, with what is to be known of its rows.
fn results(of: &ResultTable) -> Markup {
    let name = |place: usize| place == 0;
    // the last column has remarks where it has no head
    let number =
        |place: usize| !name(place) && of.heads.get(place).is_some_and(|head| !head.is_empty());
    let table = html! {
        table {
            thead { tr { @for (place, head) in of.heads.iter().enumerate() {
                th.n[number(place)] scope="col" { (head) }
            } } }
            tbody { @for row in &of.rows { tr { @for (place, cell) in row.iter().enumerate() {
                @if name(place) { th scope="row" { (told(&cell.text)) } }
                @else { td.n[number(place)].bad[cell.bad] { (told(&cell.text)) } }
            } } } }
        }
    };
    html! {
        section {
            h2 { (capital(of.title)) }
            (scroll(of.title, &table))
            @for note in &of.notes { p.dim { (told(note)) } }
        }
    }
}

/// With a capital letter.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn notes(title: &str, notes: &[String]) -> Markup {
    html! {
        @if !notes.is_empty() {
            section { h2 { (title) } ul.findings { @for note in notes { li { (told(note)) } } } }
        }
    }
}
