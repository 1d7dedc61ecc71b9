//! Distribution functions: the value at each percentile, with as much room for each further nine.

use super::Picture;
use super::plot::{Axis, Plot};
use super::quantiles::Quantiles;
use super::scale::{Scale, Unit};

/// Points of a line at most.
const POINTS: usize = 300;
/// Of as many values the largest is at 99.999, the end of the axis.
const WHOLE_AXIS: f64 = 100_000.0;
/// More than a percentile is off by its rounding, and less than the next value is away.
const ROUNDING: f64 = 1e-7;
/// Percentiles that the description names.
const NAMED: [f64; 4] = [50.0, 99.0, 99.9, 99.999];

/// A line with its name.
pub struct Curve {
    /// What it is of.
    pub name: String,
    /// Its values.
    pub quantiles: Quantiles,
}

/// A picture of distribution functions, percentiles from the left to the right. A line ends where its values do: the largest of n
/// is at 1 − 1/n, and behind that nothing is known.
pub fn distribution(name: &str, title: &str, curves: &[Curve], unit: Unit) -> Picture {
    let x = Scale::Percentile;
    let shares =
        || (0..=POINTS).map(|n| 100.0 * (1.0 - 10_f64.powf(-5.0 * n as f64 / POINTS as f64)));
    let values = curves.iter().flat_map(|curve| {
        let middle = shares().map(|percent| curve.quantiles.at(percent / 100.0));
        middle.chain([curve.quantiles.min(), curve.quantiles.max()])
    });
    let values: Vec<f64> = values.collect();
    let y = Scale::fitting(values.iter().copied());
    let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    let mut plot = Plot::new(title, &names);
    plot.y_axis(&Axis::of(y, y.ticks(unit), ""));
    plot.x_axis(&Axis::of(x, x.ticks(unit), "percentile (logarithmic to 99.999)"));
    for (number, curve) in curves.iter().enumerate() {
        let last = last_percentile(curve);
        let value = |percent: f64| y.place(curve.quantiles.at(percent / 100.0));
        let point = |percent: f64| (x.place(percent), value(percent));
        let largest = (x.place(last), y.place(curve.quantiles.max()));
        let ends_early = curve.quantiles.count() < WHOLE_AXIS;
        // up to there it is the value before, whichever way the share is rounded
        let before = (x.place(last), value((last - ROUNDING).max(0.0)));
        let end = ends_early.then_some([before, largest]).into_iter().flatten();
        let upto = shares().filter(|percent| !ends_early || *percent < last);
        plot.curve(number, steps(upto.map(point).chain(end)).map(Some));
        if ends_early {
            plot.mark(number, largest);
        }
    }
    let words: Vec<String> = curves.iter().map(|curve| described(curve, unit)).collect();
    plot.finish(name, title, words.join("; "))
}

/// The percentile of the largest value.
fn last_percentile(curve: &Curve) -> f64 {
    100.0 * (1.0 - 1.0 / curve.quantiles.count().max(1.0))
}

/// Without the points in the middle of a level part.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> impl Iterator<Item = (f64, f64)> {
    let points: Vec<(f64, f64)> = points.collect();
    let level = |a: &(f64, f64), b: &(f64, f64)| a.1 == b.1;
    let keep: Vec<(f64, f64)> = points
        .iter()
        .enumerate()
        .filter(|(at, point)| {
            let before = at.checked_sub(1).and_then(|before| points.get(before));
            let after = points.get(at + 1);
            !before.is_some_and(|other| level(other, point))
                || !after.is_some_and(|other| level(other, point))
        })
        .map(|(_, point)| *point)
        .collect();
    keep.into_iter()
}

fn described(curve: &Curve, unit: Unit) -> String {
    let Curve { name, quantiles } = curve;
    let at = |percent: &f64| format!("p{percent} {}", unit.show(quantiles.at(percent / 100.0)));
    let last = last_percentile(curve);
    let known = |percent: &&f64| **percent <= last + ROUNDING;
    let named: Vec<String> = NAMED.iter().filter(known).map(at).collect();
    let (min, max) = (unit.show(quantiles.min()), unit.show(quantiles.max()));
    let parts = [vec![format!("min {min}")], named, vec![format!("max {max}")]];
    format!("{name}: {}", parts.concat().join(", "))
}
