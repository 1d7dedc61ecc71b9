//! The page of a test.

use maud::{Markup, html};

use super::figures::gallery;
use super::{TestReport, text};
use crate::format::{Colour, Rendering};
use crate::html::{galleries, page, told};
use crate::human;
use crate::model::Verdict;

/// Writes a test.
pub(super) fn test(test: &TestReport, rendering: Rendering) -> String {
    let good = test.verdict == Verdict::Done;
    let plain = Rendering { colour: Colour::Never, details: true, ..rendering };
    let all = text::test(test, plain);
    let main = html! {
        h1 { (told(&test.test)) }
        p.dim { (told(&test.started)) ", " (human::long_time(test.duration_ns)) ", " (told(&human::end(&test.end))) }
        div.verdict.bad[!good] {
            span.mark aria-hidden="true" { @if good { "✓" } @else { "✗" } }
            @if let Some(word) = test.outcome() { (word) ". " }
            @match test.verdict {
                Verdict::Done => { "Done" },
                Verdict::Unmet => { "Below the required throughput of " (told(test.parameters.required.as_deref().unwrap_or_default())) },
                _ => { "Unfinished: what is here is right as far as the test went" },
            }
            small { "Highest load " (told(&test.parameters.max_load)) ", trials of " (human::long_time(test.parameters.trial_ns)) }
        }
        (throughput(test))
        (galleries(&[gallery(test)]))
        (notes("Findings", &test.findings))
        (notes("Not as the standard has it", &test.deviations))
        section {
            h2 { "Every trial" }
            pre { (wirebeat_units::printable::printable_lines(&all)) }
        }
        @if !test.command_line.is_empty() {
            section {
                h2 { "Run it again" }
                pre.shell { (crate::text::command_of(&test.command_line)) }
            }
        }
        footer { "Made by wirebeat " (told(&test.wirebeat_version)) "." }
    };
    page(&format!("{}, {}", test.test, test.started), &main)
}

fn throughput(test: &TestReport) -> Markup {
    let rows =
        || test.sizes.iter().flat_map(|size| size.throughput.iter().map(move |of| (size, of)));
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "frame" } th.n scope="col" { "loss allowed" } th.n scope="col" { "throughput" }
                th.n scope="col" { "on the line" } th.n scope="col" { "of max" } th scope="col" { "" }
            } }
            tbody {
                @for (size, of) in rows() {
                    tr {
                        th scope="row" { (told(&size.size)) }
                        td.n { (text::tolerance(of.loss_ratio)) }
                        td.n { (text::rate(of)) }
                        td.n { (of.line_bits_per_second.map_or_else(|| "-".to_owned(), human::bit_rate)) }
                        td.n { (of.of_max.map_or_else(|| "-".to_owned(), human::percent)) }
                        td { (text::remark(of)) }
                    }
                }
            }
        }
    };
    html! {
        @if rows().next().is_some() {
            section { h2 { "Throughput of each sending port" } (crate::html::scroll("throughput", &table)) }
        }
    }
}

fn notes(title: &str, notes: &[String]) -> Markup {
    html! {
        @if !notes.is_empty() {
            section { h2 { (title) } ul.findings { @for note in notes { li { (told(note)) } } } }
        }
    }
}
