//! Box plots: a row for each flow with median, quartiles, Tukey's whiskers, extremes and outliers.

use std::fmt::Write as _;

use super::plot::{Axis, Plot};
use super::quantiles::{Boxed, Quantiles};
use super::scale::{Scale, Unit};
use super::{Picture, coordinate, escape, line, text};
use crate::human;
use crate::text::style::cut;

/// Height of a row.
const ROW: f64 = 30.0;
/// Half of the height of a box.
const HALF: f64 = 8.0;
/// Columns of a name.
const NAME: usize = 15;

/// A row with its name.
pub struct Row {
    /// What it is of.
    pub name: String,
    /// Its values.
    pub quantiles: Quantiles,
}

/// A picture of boxes, one below the other, on one scale.
pub fn boxes(name: &str, title: &str, rows: &[Row], unit: Unit) -> Picture {
    boxes_on(name, title, rows, (unit, |values| Scale::fitting(values.iter().copied())))
}

/// The same of values with a sign, on a scale that is logarithmic in both directions.
pub fn signed_boxes(name: &str, title: &str, rows: &[Row], unit: Unit) -> Picture {
    boxes_on(name, title, rows, (unit, |values| Scale::signed(values.iter().copied())))
}

fn boxes_on(
    name: &str,
    title: &str,
    rows: &[Row],
    (unit, scale): (Unit, fn(&[f64]) -> Scale),
) -> Picture {
    let boxed: Vec<(&Row, Boxed)> = rows.iter().map(|row| (row, row.quantiles.boxed())).collect();
    let all = boxed.iter().flat_map(|(_, of)| {
        let ends = [of.min, of.low, of.high, of.max];
        of.quartiles.into_iter().chain(ends)
    });
    let all: Vec<f64> = all.collect();
    let x = scale(&all);
    let mut plot = Plot::rows(title, rows.len(), ROW);
    let told = match x {
        Scale::Log { .. } => "logarithmic scale",
        Scale::Signed { .. } => "logarithmic on both sides of 0",
        _ => "",
    };
    plot.x_axis(&Axis::of(x, x.ticks(unit), told));
    for (place, (row, of)) in boxed.iter().enumerate() {
        let y = 1.0 - (place as f64 + 0.5) / rows.len() as f64;
        draw(&mut plot, &row.name, of, |value| (x.place(value), y));
    }
    let words: Vec<String> = boxed.iter().map(|(row, of)| described(&row.name, of, unit)).collect();
    plot.finish(name, title, words.join("; "))
}

fn draw(plot: &mut Plot, name: &str, of: &Boxed, place: impl Fn(f64) -> (f64, f64)) {
    let at = |plot: &Plot, value: f64| {
        let (x, y) = place(value);
        plot.at(x, y)
    };
    let [min, low, first, median, third, high, max] =
        [of.min, of.low, of.quartiles[0], of.quartiles[1], of.quartiles[2], of.high, of.max]
            .map(|value| at(plot, value));
    let outliers: Vec<((f64, f64), u64)> =
        of.outliers.iter().map(|(value, count)| (at(plot, *value), *count)).collect();
    let y = median.1;
    let out = plot.body();
    text(out, (0.0, y + 4.5), "", &cut(name, NAME));
    line(out, low, first, "whisker");
    line(out, third, high, "whisker");
    for end in [low, high] {
        line(out, (end.0, y - HALF / 2.0), (end.0, y + HALF / 2.0), "whisker");
    }
    let [x, top, width, height] =
        [first.0, y - HALF, (third.0 - first.0).max(1.0), 2.0 * HALF].map(coordinate);
    // writing to a String cannot fail
    let _ = write!(
        out,
        "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" class=\"box\"/>"
    );
    line(out, (median.0, y - HALF), (median.0, y + HALF), "median");
    for ((x, _), count) in outliers {
        let [x, y, radius] = [x, y, 1.5 + (count as f64).log10().clamp(0.0, 3.0)].map(coordinate);
        let told = escape(&human::counted(count, "value"));
        let _ = write!(
            out,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" class=\"out\"><title>{told}</title></circle>"
        );
    }
    for end in [min, max] {
        line(out, (end.0, y - 4.0), (end.0, y + 4.0), "end");
    }
}

fn described(name: &str, of: &Boxed, unit: Unit) -> String {
    let show = |value: f64| unit.show(value);
    let [first, median, third] = of.quartiles.map(show);
    let outliers = of.outliers.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    format!(
        "{name}: median {median}, quartiles {first} and {third}, whiskers {} to {}, extremes {} and {}, {}",
        show(of.low),
        show(of.high),
        show(of.min),
        show(of.max),
        human::counted(outliers, "outlier")
    )
}
