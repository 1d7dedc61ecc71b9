//! The page of a sweep.

use maud::{Markup, html};

use super::figures::gallery;
use super::{Sweep, Table};
use crate::format::Rendering;
use crate::html::{galleries, page, scroll, told};

/// Writes a sweep.
pub(super) fn sweep(sweep: &Sweep) -> String {
    let title = match (&sweep.test, sweep.variables.is_empty()) {
        (Some(test), _) => format!("Wirebeat {test}"),
        (None, true) => "Wirebeat runs of one scenario".to_owned(),
        (None, false) => format!("Wirebeat runs over {}", sweep.variables.join(", ")),
    };
    let gallery = gallery(sweep);
    let main = html! {
        h1 { (told(&title)) }
        div.verdict.bad[sweep.exit_code != 0] {
            span.mark aria-hidden="true" { @if sweep.exit_code == 0 { "✓" } @else { "✗" } }
            (told(&sweep.sentence()))
        }
        @for of in sweep.tables() { (table(&of)) }
        @if !gallery.figures.is_empty() { (galleries(&[gallery])) }
        section {
            h2 { "As text" }
            pre { (wirebeat_units::printable::printable_lines(&super::text::sweep(sweep, Rendering::default()))) }
        }
        @if !sweep.command_line.is_empty() {
            section {
                h2 { "Run it again" }
                pre.shell { (crate::text::command_of(&sweep.command_line)) }
            }
        }
        footer { "Made by wirebeat " (told(&sweep.wirebeat_version)) "." }
    };
    page(&title, &main)
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
    html! { section { h2 { (told(&of.title)) } (scroll(&of.title, &table)) } }
}
