//! Values by what they depend on: lines through points on two axes.

use super::Picture;
use super::plot::{Axis, Plot};
use super::scale::{Scale, Unit};

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

/// An axis of a picture: its title, what is on it, and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Along<'a> {
    /// What stands beside it.
    pub title: &'a str,
    /// What the values are.
    pub unit: Unit,
    /// Where they are.
    pub scale: Scale,
}

/// A picture of lines through points, each point marked. `below` is the name and the unit of the axis below.
pub fn xy(name: &str, title: &str, lines: &[Points], below: (&str, Unit), unit: Unit) -> Picture {
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let x = Scale::from_zero(all().map(|point| point.0));
    let y = Scale::from_zero(all().map(|point| point.1));
    let below = Along { title: below.0, unit: below.1, scale: x };
    xy_on(name, title, lines, below, Along { title: "", unit, scale: y })
}

/// The same on axes with scales of their own.
pub fn xy_on(
    name: &str,
    title: &str,
    lines: &[Points],
    below: Along<'_>,
    left: Along<'_>,
) -> Picture {
    let (x, y, unit) = (below.scale, left.scale, left.unit);
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut plot = Plot::new(title, &names);
    plot.y_axis(&Axis::of(y, y.ticks(unit), left.title));
    plot.x_axis(&Axis::of(x, x.ticks(below.unit), below.title));
    for (number, line) in lines.iter().enumerate() {
        let mut points = line.points.clone();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let every = points.len().div_ceil(MOST).max(1);
        let places: Vec<(f64, f64)> =
            points.iter().step_by(every).map(|(a, b)| (x.place(*a), y.place(*b))).collect();
        plot.curve(number, places.iter().copied().map(Some));
        places.into_iter().for_each(|place| plot.mark(number, place));
    }
    let described = lines.iter().map(|line| {
        let point = |(a, b): &(f64, f64)| format!("{} at {}", unit.show(*b), below.unit.show(*a));
        let points: Vec<String> = line.points.iter().take(12).map(point).collect();
        format!("{}: {}", line.name, points.join(", "))
    });
    let described: Vec<String> = described.collect();
    plot.finish(name, title, described.join("; "))
}
