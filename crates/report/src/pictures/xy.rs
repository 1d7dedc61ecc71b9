//! Values by what they depend on: lines through points on two axes.

use super::Picture;
use super::plot::{Axis, Plot};
use super::scale::{Scale, Unit};
use crate::student::mean_within;

/// Points of a line that are drawn; of more, every n-th.
const MOST: usize = 400;

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// What it is of.
    pub name: String,
    /// Its points, in any order.
    pub points: Vec<Point>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// What it depends on.
    pub x: f64,
    /// The value, or the mean of several.
    pub y: f64,
    /// Half of the 95 % interval of that mean; `None` of a single value.
    pub within: Option<f64>,
}

impl Point {
    /// A single value.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, within: None }
    }

    /// The mean of what is a number of these values, with its interval; `None` where nothing is.
    pub fn mean(x: f64, values: &[f64]) -> Option<Point> {
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let (y, within) = mean_within(&finite)?;
        Some(Point { x, y, within })
    }

    /// Both ends of its interval; the value itself where there is none.
    pub fn ends(&self) -> [f64; 2] {
        let within = self.within.unwrap_or(0.0);
        [self.y - within, self.y + within]
    }
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

/// A picture of lines through points, each point marked and with its interval. `below` is the name and the unit of the axis below.
pub fn xy(name: &str, title: &str, lines: &[Points], below: (&str, Unit), unit: Unit) -> Picture {
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let x = Scale::from_zero(all().map(|point| point.x));
    let y = Scale::from_zero(all().map(|point| point.ends()[1]));
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
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let every = points.len().div_ceil(MOST).max(1);
        points = points.into_iter().step_by(every).collect();
        let place = |point: &Point| (x.place(point.x), y.place(point.y));
        plot.curve(number, points.iter().map(|point| Some(place(point))));
        for point in &points {
            plot.mark(number, place(point));
            if point.within.is_some() {
                let [low, high] = point.ends().map(|end| (x.place(point.x), y.place(end)));
                plot.interval(number, low, high);
            }
        }
    }
    let described = lines.iter().map(|line| {
        let point = |point: &Point| {
            let within = point.within.map(|within| format!(" ± {}", unit.show(within)));
            let (y, x) = (unit.show(point.y), below.unit.show(point.x));
            format!("{y}{} at {x}", within.unwrap_or_default())
        };
        let points: Vec<String> = line.points.iter().take(12).map(point).collect();
        format!("{}: {}", line.name, points.join(", "))
    });
    let described: Vec<String> = described.collect();
    plot.finish(name, title, described.join("; "))
}
