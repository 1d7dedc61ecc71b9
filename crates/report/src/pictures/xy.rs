//! Values by what they depend on: lines through points on two linear axes.

use std::fmt::Write as _;

use super::plot::{Axis, Plot};
use super::scale::{Scale, Unit};
use super::{COLOURS, Picture, coordinate};

/// Points of a line that are drawn; of more, every n-th.
const MOST: usize = 400;

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// What it is of.
    pub name: String,
    /// Its points, in any order.
    pub points: Vec<(f64, f64)>,
}

/// A picture of lines through points, each point marked. `below` is the name and the unit of the axis below.
pub fn xy(name: &str, title: &str, lines: &[Points], below: (&str, Unit), unit: Unit) -> Picture {
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let x = Scale::from_zero(all().map(|point| point.0));
    let y = Scale::from_zero(all().map(|point| point.1));
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut plot = Plot::new(title, &names);
    plot.y_axis(&Axis::of(y, y.ticks(unit), ""));
    plot.x_axis(&Axis::of(x, x.ticks(below.1), below.0));
    for (number, line) in lines.iter().enumerate() {
        let mut points = line.points.clone();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let every = points.len().div_ceil(MOST).max(1);
        let places: Vec<(f64, f64)> =
            points.iter().step_by(every).map(|(a, b)| (x.place(*a), y.place(*b))).collect();
        plot.curve(number, places.iter().copied().map(Some));
        for (a, b) in places {
            let (cx, cy) = plot.at(a, b);
            let (cx, cy) = (coordinate(cx), coordinate(cy));
            let class = number % COLOURS + 1;
            // writing to a String cannot fail
            let _ = write!(
                plot.body(),
                "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"2.5\" class=\"s s{class}\"/>"
            );
        }
    }
    let described = lines.iter().map(|line| {
        let point = |(a, b): &(f64, f64)| format!("{} at {}", unit.show(*b), below.1.show(*a));
        let points: Vec<String> = line.points.iter().take(12).map(point).collect();
        format!("{}: {}", line.name, points.join(", "))
    });
    let described: Vec<String> = described.collect();
    plot.finish(name, title, described.join("; "))
}
