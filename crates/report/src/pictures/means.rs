//! Means with their intervals: a row for each, on one axis from zero, and a line that they are held against.

use std::fmt::Write as _;

use super::plot::{Axis, Plot};
use super::scale::{Scale, Unit};
use super::{Picture, coordinate, line, text};
use crate::text::style::cut;

/// Height of a row, and of a bar.
const ROW: f64 = 24.0;
const BAR: f64 = 10.0;
/// Columns of a name.
const NAME: usize = 15;

/// A mean.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanRow {
    /// What it is of.
    pub name: String,
    /// The mean; `None` where nothing was measured.
    pub mean: Option<f64>,
    /// Half of its 95 % interval; `None` of a single value.
    pub within: Option<f64>,
    /// Whether it is of a second kind: its bar is empty.
    pub second: bool,
}

/// A picture of means, one below the other. `limit` is what they are held against.
pub fn means(
    name: &str,
    title: &str,
    rows: &[MeanRow],
    limit: Option<(f64, &str)>,
    unit: Unit,
) -> Picture {
    let ends = rows.iter().filter_map(|row| Some(row.mean? + row.within.unwrap_or(0.0)));
    let x = Scale::from_zero(ends.chain(limit.map(|(value, _)| value)));
    let mut plot = Plot::rows(title, rows.len(), ROW);
    plot.x_axis(&Axis::of(x, x.ticks(unit), limit.map_or("", |(_, named)| named)));
    for (place, row) in rows.iter().enumerate() {
        let y = 1.0 - (place as f64 + 0.5) / rows.len() as f64;
        let zero = plot.at(x.place(0.0), y);
        let points = row.mean.map(|mean| {
            let within = row.within.unwrap_or(0.0);
            [mean, mean - within, mean + within].map(|value| plot.at(x.place(value), y))
        });
        let out = plot.body();
        text(out, (0.0, zero.1 + 4.5), "", &cut(&row.name, NAME));
        let Some([mean, low, high]) = points else {
            text(out, (zero.0 + 6.0, zero.1 + 4.5), "dim", "not measured");
            continue;
        };
        let [left, top, width, height] =
            [zero.0, zero.1 - BAR / 2.0, (mean.0 - zero.0).max(1.0), BAR].map(coordinate);
        let class = if row.second { "whisker" } else { "box" };
        // writing to a String cannot fail
        let _ = write!(
            out,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" class=\"{class}\"/>"
        );
        line(out, low, high, "end");
        for end in [low, high] {
            line(out, (end.0, end.1 - 4.0), (end.0, end.1 + 4.0), "end");
        }
    }
    if let Some((value, _)) = limit {
        let (from, to) = (plot.at(x.place(value), 0.0), plot.at(x.place(value), 1.0));
        line(plot.body(), from, to, "s s2");
    }
    let words: Vec<String> = rows.iter().map(|row| described(row, unit)).collect();
    let held = limit.map(|(value, named)| format!("; {named}: {}", unit.show(value)));
    plot.finish(name, title, words.join("; ") + &held.unwrap_or_default())
}

fn described(row: &MeanRow, unit: Unit) -> String {
    match (row.mean, row.within) {
        (Some(mean), Some(within)) => {
            format!("{}: {} ± {}", row.name, unit.show(mean), unit.show(within))
        }
        (Some(mean), None) => format!("{}: {}", row.name, unit.show(mean)),
        _ => format!("{}: not measured", row.name),
    }
}
