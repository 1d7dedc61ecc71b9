//! Values over the time of a run, as lines; and as a line of a table, without axes.

use std::fmt::Write as _;

use super::plot::{Axis, Plot};
use super::scale::{Scale, Unit, time_ticks};
use super::thin::{Span, points};
use super::{Picture, escape};
use crate::human;

/// Points of a line at most: two for each of these columns.
const COLUMNS: usize = 400;
/// The same in a table.
const SMALL_COLUMNS: usize = 96;
/// Of values at moments up to so many are marked.
const MARKED: usize = 60;
/// Width and height in a table.
const SMALL: (f64, f64) = (96.0, 22.0);

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is of.
    pub name: String,
    /// Its values in the order of time.
    pub spans: Vec<Span>,
}

impl Line {
    fn values(&self) -> impl Iterator<Item = f64> + Clone {
        self.spans.iter().filter_map(|span| span.value)
    }

    /// Its smallest and its largest value with their times, in words.
    fn described(&self, unit: Unit) -> String {
        let known = || self.spans.iter().filter_map(|span| Some((span.from_ns, span.value?)));
        let least = known().reduce(|a, b| if b.1 < a.1 { b } else { a });
        let most = known().reduce(|a, b| if b.1 > a.1 { b } else { a });
        let at = |(ns, value): (f64, f64)| {
            format!("{} at {}", unit.show(value), human::long_time(ns.max(0.0) as u64))
        };
        match (least, most) {
            (Some(least), Some(most)) if least.1 == most.1 => {
                format!("{}: {} all the time", self.name, unit.show(least.1))
            }
            (Some(least), Some(most)) => {
                format!("{}: least {}, most {}", self.name, at(least), at(most))
            }
            _ => format!("{}: no values", self.name),
        }
    }
}

/// How the values are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Height {
    /// From zero: rates and counts.
    FromZero,
    /// With a logarithmic scale where they differ much: delays.
    Fitting,
}

/// A picture of lines over time.
pub fn over_time(name: &str, title: &str, lines: &[Line], unit: Unit, height: Height) -> Picture {
    let values = || lines.iter().flat_map(Line::values);
    let y = match height {
        Height::FromZero => Scale::from_zero(values()),
        Height::Fitting => Scale::fitting(values()),
    };
    let ends = lines.iter().flat_map(|line| line.spans.iter().map(|span| span.to_ns));
    let end = ends.fold(1.0, f64::max);
    let x = Scale::Linear { low: 0.0, high: end };
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut plot = Plot::new(title, &names);
    plot.y_axis(&Axis::of(y, y.ticks(unit), ""));
    plot.x_axis(&Axis::of(x, time_ticks(end), "time from the start of the run"));
    for (number, line) in lines.iter().enumerate() {
        let points = points(&line.spans, COLUMNS);
        let places = points.into_iter().map(|at| at.map(|(t, v)| (x.place(t), y.place(v))));
        let places: Vec<Option<(f64, f64)>> = places.collect();
        plot.curve(number, places.iter().copied());
        if places.len() <= MARKED && line.spans.iter().all(Span::is_point) {
            places.into_iter().flatten().for_each(|place| plot.mark(number, place));
        }
    }
    let words: Vec<String> = lines.iter().map(|line| line.described(unit)).collect();
    plot.finish(name, title, words.join("; "))
}

/// A small line without axes, for a cell of a table; its extremes are its text alternative.
pub fn small(line: &Line, unit: Unit) -> String {
    let y = Scale::from_zero(line.values());
    let end = line.spans.last().map_or(1.0, |span| span.to_ns.max(1.0));
    let at = |(t, v): (f64, f64)| (t / end * SMALL.0, (1.0 - y.place(v)) * (SMALL.1 - 2.0) + 1.0);
    let points = points(&line.spans, SMALL_COLUMNS);
    let path = super::path(points.into_iter().map(|point| point.map(at)));
    let mut out = String::new();
    // writing to a String cannot fail
    let _ = write!(
        out,
        "<svg class=\"pic small\" viewBox=\"0 0 {} {}\" role=\"img\"><title>{}</title><path d=\"{path}\" class=\"s s1\"/></svg>",
        SMALL.0,
        SMALL.1,
        escape(&line.described(unit))
    );
    out
}
