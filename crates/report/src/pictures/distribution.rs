//! Distribution functions: the value at each percentile, with as much room for each further nine.

use super::Picture;
use super::plot::{Axis, Plot};
use super::quantiles::Quantiles;
use super::scale::{Scale, Unit};

/// Points of a line at most.
const POINTS: usize = 300;
/// Percentiles that the description names.
const NAMED: [f64; 4] = [50.0, 99.0, 99.9, 99.999];

/// A line with its name.
pub struct Curve {
    /// What it is of.
    pub name: String,
    /// Its values.
    pub quantiles: Quantiles,
}

/// A picture of distribution functions, percentiles from the left to the right.
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
        let point = |percent: f64| {
            let value = curve.quantiles.at(percent / 100.0);
            Some((x.place(percent), y.place(value)))
        };
        plot.curve(number, steps(shares().filter_map(point)).map(Some));
    }
    let words: Vec<String> = curves.iter().map(|curve| described(curve, unit)).collect();
    plot.finish(name, title, words.join("; "))
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
    let named: Vec<String> = NAMED.iter().map(at).collect();
    let (min, max) = (unit.show(quantiles.min()), unit.show(quantiles.max()));
    format!("{name}: min {min}, {}, max {max}", named.join(", "))
}
