//! Several runs in columns, and by how much they differ from the first.

use super::style::{Style, clean, cut};
use super::table::{Cell, NOTHING, Table};
use crate::format::Rendering;
use crate::several_runs::{Block, SeveralRuns};

/// Flows and groups that have a block; with details all that there is room for.
const BLOCKS: usize = 8;
/// Columns of a run's name.
const NAME: usize = 24;

/// Writes runs side by side.
pub fn several_runs(several_runs: &SeveralRuns, rendering: Rendering) -> String {
    let style = Style::new(rendering.colour);
    let names: Vec<String> =
        several_runs.runs.iter().map(|run| cut(&clean(&run.name), NAME)).collect();
    let most = if rendering.details { crate::several_runs::BLOCKS } else { BLOCKS };
    let mut parts = vec![block(&several_runs.runs(), &names, false, style)];
    parts.extend(several_runs.blocks(most).iter().map(|of| block(of, &names, true, style)));
    if several_runs.flows() > most {
        parts.push(format!("the first {most} flows; all of them: --csv FILE\n"));
    }
    parts.join("\n")
}

fn block(of: &Block, names: &[String], differences: bool, style: Style) -> String {
    let mut heading = vec![""];
    for (place, name) in names.iter().enumerate() {
        heading.push(name);
        if differences && place > 0 {
            heading.push("");
        }
    }
    let mut table = Table::new(&heading);
    for row in &of.rows {
        let mut cells: Vec<Cell> = vec![row.title.to_owned().into()];
        for (place, (value, difference)) in row.cells.iter().enumerate() {
            let value = if value.is_empty() { NOTHING.to_owned() } else { clean(value) };
            cells.push(value.into());
            if differences && place > 0 {
                cells.push(difference.clone().into());
            }
        }
        table.row(cells);
    }
    format!("{}\n{}", style.strong(&clean(&of.title)), table.render(2, style))
}
