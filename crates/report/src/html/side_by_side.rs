//! The page of several runs.

use maud::{Markup, html};

use super::page::page;
use super::parts::{galleries, scroll, told};
use crate::figures::side_by_side;
use crate::human;
use crate::several_runs::{BLOCKS, Block, SeveralRuns};

/// Writes runs side by side.
pub(crate) fn several_runs(several_runs: &SeveralRuns) -> String {
    let runs: Vec<_> = several_runs.named().collect();
    let flows = several_runs.flows();
    let main = html! {
        h1 { "Wirebeat runs side by side" }
        p.dim { (human::counted(runs.len() as u64, "run")) "; the first is what the others are compared with." }
        (block(&several_runs.runs(), several_runs, false))
        (galleries(&side_by_side::of(&runs)))
        @for of in several_runs.blocks(BLOCKS) { (block(&of, several_runs, true)) }
        @if flows > BLOCKS { p.hint { "The first " (BLOCKS) " of " (human::count(flows as u64)) " flows; CSV has all of them." } }
        footer { "Made by wirebeat " (told(&several_runs.wirebeat_version)) "." }
    };
    page("Wirebeat runs side by side", &main)
}

fn block(block: &Block, several_runs: &SeveralRuns, differences: bool) -> Markup {
    let table = html! {
        table {
            thead {
                tr {
                    th { }
                    @for (place, run) in several_runs.runs.iter().enumerate() {
                        th.n scope="col" { (told(&run.name)) }
                        @if differences && place > 0 { th.n scope="col" { "to the first" } }
                    }
                }
            }
            tbody {
                @for row in &block.rows {
                    tr {
                        th scope="row" { (row.title) }
                        @for (place, (value, difference)) in row.cells.iter().enumerate() {
                            td.n { (told(value)) }
                            @if differences && place > 0 { td.n.dim { (difference) } }
                        }
                    }
                }
            }
        }
    };
    html! {
        section {
            h2 { (told(&block.title)) }
            (scroll(&block.title, &table))
        }
    }
}
