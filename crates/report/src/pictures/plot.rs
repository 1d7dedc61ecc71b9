//! What pictures share: the title, the names of the lines, axes with ticks and a grid.

use std::fmt::Write as _;

use super::scale::Scale;
use super::{COLOURS, Picture, WIDTH, coordinate, line, text};
use crate::text::style::cut;

/// Room for the ticks on the left, and beside the picture on the right.
const LEFT: f64 = 82.0;
const RIGHT: f64 = 16.0;
/// Room for the title, for a row of names, and for the ticks and the name of the axis below.
const TITLE: f64 = 26.0;
const NAMES: f64 = 18.0;
const BELOW: f64 = 40.0;
/// Height of the part with the lines.
const HEIGHT: f64 = 176.0;
/// Width of a letter, roughly: which fonts a reader has is not known.
const LETTER: f64 = 7.8;
/// The same in a wide font: what stands at the edge is not to be cut there.
const WIDE_LETTER: f64 = 9.4;
/// Columns of a name.
const NAME: usize = 28;

/// An axis: its ticks by place (0 to 1), and what it is of.
pub struct Axis {
    pub ticks: Vec<(f64, String)>,
    pub title: String,
}

impl Axis {
    /// The axis of a scale.
    pub fn of(scale: Scale, ticks: Vec<(f64, String)>, title: &str) -> Axis {
        let ticks = ticks.into_iter().map(|(value, label)| (scale.place(value), label));
        Axis { ticks: ticks.collect(), title: title.to_owned() }
    }
}

/// A picture that is being drawn.
pub struct Plot {
    body: String,
    top: f64,
    left: f64,
    height: f64,
}

impl Plot {
    /// With a title, and the names of its lines where there are several.
    pub fn new(title: &str, names: &[&str]) -> Plot {
        let mut body = String::new();
        text(&mut body, (0.0, 15.0), "head", &cut(title, 58));
        let mut top = TITLE;
        if names.len() > 1 {
            top += legend(&mut body, names, top);
        }
        Plot { body, top: top + 4.0, left: LEFT, height: HEIGHT }
    }

    /// With room for `rows` rows of `each`, and names of rows on the left.
    pub fn rows(title: &str, rows: usize, each: f64) -> Plot {
        let height = rows.max(1) as f64 * each;
        Plot { height, left: 120.0, ..Plot::new(title, &[]) }
    }

    /// The point at these places of the axes: from the left, and from below.
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.left + x * (WIDTH - RIGHT - self.left), self.top + (1.0 - y) * self.height)
    }

    /// What is drawn so far, to add to.
    pub fn body(&mut self) -> &mut String {
        &mut self.body
    }

    /// Draws the axis below, with a grid.
    pub fn x_axis(&mut self, axis: &Axis) {
        let bottom = self.top + self.height;
        // the last label that fits wins over those before it: it is the end of the scale
        let mut free = f64::INFINITY;
        for (place, label) in axis.ticks.iter().rev() {
            let (x, _) = self.at(*place, 0.0);
            line(&mut self.body, (x, self.top), (x, bottom), "grid");
            let half = label.chars().count() as f64 * LETTER / 2.0;
            let at_most = WIDTH - 1.0 - label.chars().count() as f64 * WIDE_LETTER / 2.0;
            let center = x.min(at_most);
            if center + half < free {
                text(&mut self.body, (center, bottom + 16.0), "m dim", label);
                free = center - half - 4.0;
            }
        }
        line(&mut self.body, (self.left, bottom), (WIDTH - RIGHT, bottom), "axis");
        text(&mut self.body, (WIDTH - RIGHT, bottom + 34.0), "r dim", &axis.title);
    }

    /// Draws the axis on the left, with a grid.
    pub fn y_axis(&mut self, axis: &Axis) {
        for (place, label) in &axis.ticks {
            let (left, y) = self.at(0.0, *place);
            line(&mut self.body, (left, y), (WIDTH - RIGHT, y), "grid");
            text(&mut self.body, (left - 6.0, y + 4.5), "r dim", label);
        }
        line(&mut self.body, (self.left, self.top), (self.left, self.top + self.height), "axis");
    }

    /// Draws a line through points that are given by their places on the axes.
    pub fn curve(&mut self, number: usize, points: impl Iterator<Item = Option<(f64, f64)>>) {
        let points: Vec<_> = points.map(|point| point.map(|(x, y)| self.at(x, y))).collect();
        let path = super::path(points);
        let _ = write!(self.body, "<path d=\"{path}\" class=\"s s{}\"/>", number % COLOURS + 1);
    }

    /// Draws a small circle at a place on the axes, in the colour of a line.
    pub fn mark(&mut self, number: usize, (x, y): (f64, f64)) {
        let (cx, cy) = self.at(x, y);
        let (cx, cy, class) = (coordinate(cx), coordinate(cy), number % COLOURS + 1);
        // writing to a String cannot fail
        let _ =
            write!(self.body, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"2.5\" class=\"s s{class}\"/>");
    }

    /// The interval of a value: a line between its ends, with a stroke across each.
    pub fn interval(&mut self, number: usize, low: (f64, f64), high: (f64, f64)) {
        const STROKE: f64 = 3.0;
        let class = format!("s s{} interval", number % COLOURS + 1);
        let (low, high) = (self.at(low.0, low.1), self.at(high.0, high.1));
        line(&mut self.body, low, high, &class);
        for (x, y) in [low, high] {
            line(&mut self.body, (x - STROKE, y), (x + STROKE, y), &class);
        }
    }

    /// The picture.
    pub fn finish(self, name: &str, title: &str, description: String) -> Picture {
        let height = self.top + self.height + BELOW;
        let (name, title, body) = (name.to_owned(), title.to_owned(), self.body);
        Picture { name, title, description, height, body }
    }
}

/// Writes the names of lines beside a piece of each; how much room they took.
fn legend(body: &mut String, names: &[&str], top: f64) -> f64 {
    let (mut x, mut row) = (0.0, 0.0);
    for (number, name) in names.iter().enumerate() {
        let name = cut(name, NAME);
        let width = 34.0 + name.chars().count() as f64 * LETTER + 14.0;
        if x > 0.0 && x + width > WIDTH {
            (x, row) = (0.0, row + NAMES);
        }
        let y = top + row + 6.0;
        let [from, to, height] = [x, x + 28.0, y].map(coordinate);
        let class = number % COLOURS + 1;
        let _ = write!(body, "<path d=\"M{from} {height}L{to} {height}\" class=\"s s{class}\"/>");
        text(body, (x + 34.0, y + 4.5), "", &name);
        x += width;
    }
    row + NAMES
}
